//! What costs of crossing LLCs are measured by, on traces worked by hand and on those of the lab.

use std::num::NonZeroU64;
use std::path::Path;

use crate::support::script::Script;
use crate::support::*;
use ttwu::attribute::answer::{Answer, Known};
use ttwu::attribute::{Selection, answer};
use ttwu::pipeline::{RunOptions, prepare, replay};
use ttwu::replay::units::Work;
use ttwu::tables::{Budget, Builders, TableSet};

/// Two cores of two threads, each core an LLC.
const TOPOLOGY: &str = "llc=0-1;2-3 smt=0-1;2-3";

/// Everything that `analyze` says of a trace of the lab.
pub fn analysed(path: &Path, topology: Option<&Path>, top: usize) -> Answer {
    analysed_by(path, topology, top, None)
}

/// The same, with a unit of work.
pub fn analysed_by(path: &Path, topology: Option<&Path>, top: usize, work: Option<Work>) -> Answer {
    let options = RunOptions {
        topology: topology.map(|path| path.display().to_string()),
        work,
        ..RunOptions::default()
    };
    let prepared = prepare(path, &options, &|_| ()).unwrap_or_else(|e| panic!("{e}"));
    let mut builders = Builders::new(&TableSet::analysis(), Budget::default());
    let counts = replay(&prepared, builders.sink(), &|_| ());
    let tables = builders.finish().expect("tables");
    let selection = Selection {
        top,
        ..Selection::default()
    };
    answer(&prepared, &counts, &tables, &selection).expect("an answer")
}

/// CPU 2 is idle from 100 on, and chosen at 170 and, after a run, at 420; CPU 3, its sibling, goes idle at 300.
const WAKEUPS: &str = "
    50   2   20   switch 20:S 21
    60   3   30   switch 30:R 31
    100  2   21   switch 21:S 0
    170  0   10   waking 20 prev=2
    180  0   10   wakeup 20 to=2
    200  2   0    switch 0:R 20
    300  3   31   switch 31:S 0
    350  2   20   switch 20:S 0
    420  0   10   waking 20 prev=2
    430  0   10   wakeup 20 to=2
    440  2   0    switch 0:R 20
    450  0   10   waking 21 prev=2
    460  0   10   wakeup 21 to=2
    500  2   20   switch 20:S 21
    600  2   21   switch 21:S 0
";

#[test]
fn idle_time_and_siblings_are_those_of_the_choice() {
    let (rows, _) = Script::new(TOPOLOGY, WAKEUPS).run();
    let at = |ns| {
        let row = rows.woken_at(ns);
        (row.chosen_idle, row.idle_before_ns, row.sibling_busy)
    };
    // The choice is the enqueue, 10 ns after the waking.
    assert_eq!(at(170), (Some(true), Some(80), Some(true)));
    assert_eq!(at(420), (Some(true), Some(80), Some(false)));
    // It runs a task.
    assert_eq!(at(450), (Some(false), None, Some(false)));
}

#[test]
fn idle_time_from_before_the_first_event_is_not_known() {
    let text = WAKEUPS
        .lines()
        .filter(|line| !line.trim().starts_with("50 ") && !line.trim().starts_with("100 "))
        .collect::<Vec<_>>()
        .join("\n");
    for complete in [true, false] {
        let mut script = Script::new(TOPOLOGY, &text);
        script.complete = complete;
        let (rows, _) = script.run();
        assert_eq!(rows.woken_at(170).idle_before_ns, None);
        assert_eq!(rows.woken_at(420).idle_before_ns, Some(80));
    }
    let (rows, _) = Script::new("llc=0-1;2-3", WAKEUPS).run();
    assert_eq!(rows.woken_at(170).sibling_busy, None);
}

/// The wakee runs 100 cycles, is preempted by one that runs 1000, and runs 30 more on another CPU.
const COUNTED: &str = "
    100  2   20   counters 5000 3000
    100  2   20   switch 20:S 0
    110  3   31   counters 10 10
    110  3   31   switch 31:S 0
    170  0   10   waking 20 prev=2
    180  0   10   wakeup 20 to=2
    200  2   0    counters 5007 3005
    200  2   0    switch 0:R 20
    300  2   20   counters 5107 3085
    300  2   20   switch 20:R 21
    350  2   21   counters 6107 4000
    350  2   21   switch 21:R 22
    360  2   22   migrate 20 2 3
    370  3   0    counters 15 15
    370  3   0    switch 0:R 20
    400  3   20   counters 45 25
    400  3   20   switch 20:S 0
";

#[test]
fn counters_of_a_run_are_those_of_its_slices() {
    let (rows, _) = Script::new(TOPOLOGY, COUNTED).run();
    let row = rows.woken_at(170);
    assert_eq!(row.wakee_run_ns, Some(130));
    assert_eq!(row.wakee_cycles, NonZeroU64::new(130));
    assert_eq!(row.wakee_instructions, NonZeroU64::new(90));
    // Without one of the readings the run is still known, and what it took is not.
    for (ts, cpu) in [(200, 2), (300, 2), (370, 3), (400, 3)] {
        let line = Script::new(TOPOLOGY, COUNTED).with(ts, cpu, "");
        let (rows, _) = line.run();
        let row = rows.woken_at(170);
        let counted = (row.wakee_cycles, row.wakee_instructions);
        assert_eq!(
            (row.wakee_run_ns, counted),
            (Some(130), (None, None)),
            "{ts}"
        );
    }
}

/// The second waking finds the task on its CPU, where it goes on: what it ran is the first one's, 120 to 520 and 600 to 650.
#[test]
fn a_run_begins_with_its_own_waking() {
    let text = "
        100  0   10   waking 20 prev=2
        110  0   10   wakeup 20 to=2
        120  2   0    switch 0:R 20
        500  0   10   waking 20 prev=2
        510  0   10   wakeup 20 to=2
        520  2   20   switch 20:R 30
        600  2   30   switch 30:S 20
        650  2   20   switch 20:S 0
    ";
    let (rows, _) = Script::new(TOPOLOGY, text).run();
    assert_eq!(rows.woken_at(100).wakee_run_ns, Some(450));
    assert_eq!(rows.woken_at(500).wakee_run_ns, None);
}

/// Where the events contradict each other, as a task's that left its CPU for the idle task while it was runnable, no run is
/// guessed beyond what followed.
#[test]
fn a_run_amid_contradictions_is_not_guessed() {
    let text = "
        100  0   10   waking 20 prev=2
        110  0   10   wakeup 20 to=2
        120  2   0    switch 0:R 20
        500  0   10   waking 20 prev=2
        510  2   20   wakeup 20 to=2
        520  2   20   switch 20:R 0
        600  2   0    switch 0:R 20
        650  2   20   switch 20:S 0
    ";
    let (rows, _) = Script::new(TOPOLOGY, text).run();
    let run = rows.woken_at(500).wakee_run_ns;
    assert!(run.is_none_or(|ns| ns <= 60), "{run:?}");
}

/// The pair of `pair-xllc` always crosses, that of `pair-llc` never does.
#[test]
fn pairs_of_the_lab_have_one_side_only() {
    let reason = |folder: &Path| {
        let topology = folder.join("topology.txt");
        let answer = analysed(&folder.join("trace.dat"), Some(&topology), 10);
        let pair = answer.pairs.iter().find(|p| p.waker == "lab-waker");
        let pair = pair.expect("it is there").cross_llc.clone();
        let Known::Value(found) = pair else {
            panic!("the topology is known");
        };
        let counts = (found.transit.crossing, found.transit.staying);
        match found.transit.total_ns {
            Known::Unknown { unknown } => (unknown, counts),
            Known::Value(_) => panic!("one side only"),
        }
    };
    let (why, counts) = reason(&root().join("fixtures/lab/pair-xllc"));
    let only = "only a comparison of two runs can show";
    assert!(why.contains(only) && counts.1 == 0, "{why} {counts:?}");
    assert!(counts.0 > 2_000, "{counts:?}");
    let Some(shared) = shared() else {
        return;
    };
    let (why, counts) = reason(&shared.join("traces/lab/pair-llc"));
    assert!(why.starts_with("not measurable here"), "{why}");
    assert!(counts.0 == 0 && counts.1 > 2_000, "{counts:?}");
}

/// What crosses is what the wakeups' distances say, on every trace at hand.
#[test]
fn crossing_wakeups_are_all_accounted_for() {
    for folder in lab_folders() {
        let topology = folder.join("topology.txt");
        let answer = analysed(&folder.join("trace.dat"), Some(&topology), 0);
        let Known::Value(found) = &answer.cross_llc else {
            continue;
        };
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        let recorder = |task: ttwu::replay::rows::TaskId| {
            run.rows.tasks.iter().any(|t| t.task == task && t.recorder)
        };
        let topology = &run.prepared.machine.topology;
        let crosses = |a: Option<u32>, b: Option<u32>| topology.crosses_llc(a?, b?);
        let wakeups = run
            .rows
            .wakeups
            .iter()
            .filter(|w| w.in_window && !recorder(w.wakee) && !w.waker.is_some_and(recorder));
        let (mut transit, mut cold, mut transfer) = (0, 0, 0);
        for w in wakeups {
            let waker = crosses(w.waker_cpu, w.chosen_cpu) == Some(true);
            let prev = crosses(w.prev_cpu, w.chosen_cpu);
            let pair = w.waker.is_some_and(|waker| waker != w.wakee);
            transit += u64::from(pair && waker);
            cold += u64::from(prev == Some(true));
            transfer += u64::from(waker && prev == Some(false));
        }
        let basis = &found.basis;
        let told = [&basis.transit, &basis.cold_cache, &basis.transfer].map(|b| b.crossing);
        assert_eq!(told, [transit, cold, transfer], "{}", name(&folder));
    }
}
