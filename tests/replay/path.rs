//! The critical path: chains worked out by hand, and a walker that knows nothing of the program's own.

mod lab;
mod walker;
mod within;

use ttwu::attribute::answer::{Known, PathFacts};
use ttwu::attribute::{Facts, Scope, Selection, Span, critical_path};
use ttwu::replay::rows::Sink;
use ttwu::tables::{Budget, Builders, TableSet, Tables};
use ttwu_parsers::decode::EventType;
use ttwu_parsers::machine_record::MachineRecord;
use ttwu_parsers::trace::{Clock, TraceMeta};

use self::walker::walk;
use crate::support::Rows;
use crate::support::script::{Played, Script};

/// Two LLCs of two cores.
const MACHINE: &str = "llc=0-1;2-3 smt=0;1;2;3 l2=0;1;2;3 node=0-3";

/// The path of a hand-made trace, from the last task that has this pid.
fn path_of(text: &str, span: (i64, i64), pid: i32) -> PathFacts {
    let played = Script::new(MACHINE, text).play();
    let task = played.rows.pid(pid).task.0;
    let path = facts(&played, span, Some(task));
    check(&path, &played.rows, span, task);
    path
}

fn facts(played: &Played, (start_ns, end_ns): (i64, i64), last_task: Option<u32>) -> PathFacts {
    let tables = tables(&played.rows, Budget::default());
    let (meta, types) = (meta(), types());
    let facts = Facts {
        meta: &meta,
        types: &types,
        survey: &played.survey,
        record: &MachineRecord::default(),
        machine: &played.machine,
        config: &played.config,
        counts: &played.counts,
    };
    let scope = Scope::new(facts, &tables, &Selection::default()).unwrap();
    let span = Span {
        start_ns,
        end_ns,
        last_task,
    };
    critical_path(&scope, &span).unwrap()
}

fn tables(rows: &Rows, budget: Budget) -> Tables {
    let mut builders = Builders::new(&TableSet::analysis(), budget);
    rows.wakeups
        .iter()
        .for_each(|row| builders.sink().wakeup(row));
    rows.waits.iter().for_each(|row| builders.sink().wait(row));
    rows.slices
        .iter()
        .for_each(|row| builders.sink().slice(row));
    rows.ipis.iter().for_each(|row| builders.sink().ipi(row));
    rows.lost.iter().for_each(|row| builders.sink().lost(row));
    rows.tasks.iter().for_each(|row| builders.sink().task(row));
    rows.cpus.iter().for_each(|row| builders.sink().cpu(row));
    builders.finish().unwrap()
}

fn types() -> Vec<EventType> {
    vec![EventType {
        id: 1,
        system: "irq_vectors".to_owned(),
        name: "call_function_single_entry".to_owned(),
    }]
}

fn meta() -> TraceMeta {
    TraceMeta {
        format: "hand-made".to_owned(),
        clock: Clock {
            name: "mono".to_owned(),
            nanoseconds: true,
            global: true,
        },
        kernel_release: Some("6.12.0".to_owned()),
        hostname: None,
        arch: None,
        recorder: None,
        cmdline: Vec::new(),
        cpus: vec![0, 1, 2, 3],
        complete_from_start: Vec::new(),
        counters: Vec::new(),
        topology: None,
        system_wide: true,
        has_cpu: true,
        has_time: true,
        lost_unplaced: 0,
        task_names: Vec::new(),
        buffers: Vec::new(),
        data_bytes: 0,
        notes: Vec::new(),
        machine_record: Vec::new(),
    }
}

/// What holds of every path: it sums to the span, its parts sum to their categories, and another walker finds the same.
fn check(path: &PathFacts, rows: &Rows, (start, end): (i64, i64), task: u32) {
    let total = end - start;
    assert_eq!(path.path_ns.values().sum::<i64>(), total);
    assert_eq!(path.path.total_ns, total);
    let all = [
        "running",
        "transit",
        "wait",
        "interrupt",
        "tlb-wait",
        "blocked",
        "unknown",
    ];
    for word in all {
        assert!(path.path_ns.contains_key(word) && path.path_share.contains_key(word));
        assert!(path.gain_at_most.contains_key(word));
    }
    let ns = |word: &str| path.path_ns[word];
    let of = &path.path;
    let tasks = |tasks: &ttwu::attribute::answer::PathTasks| {
        tasks.tasks.iter().map(|t| t.ns).sum::<i64>() + tasks.others_ns
    };
    assert_eq!(tasks(&of.running), ns("running"));
    let sum = |parts: &ttwu::attribute::answer::ByWord<ttwu::attribute::answer::PathPart>| {
        parts.values().map(|part| part.ns).sum::<i64>()
    };
    assert_eq!(sum(&of.transit.by_path), ns("transit"));
    assert_eq!(sum(&of.transit.by_distance), ns("transit"));
    assert_eq!(sum(&of.wait.by_origin), ns("wait"));
    assert_eq!(sum(&of.blocked), ns("blocked"));
    assert_eq!(sum(&of.unknown), ns("unknown"));
    let verdicts = of.wait.by_verdict.values();
    let (seen, any): (Vec<_>, Vec<_>) = verdicts.map(|v| (v.ns.seen, v.ns.any)).unzip();
    for reading in [seen, any] {
        assert_eq!(reading.into_iter().flatten().sum::<i64>(), ns("wait"));
    }
    let meanwhile = &of.wait.meanwhile;
    let charged = tasks(&meanwhile.ran) + meanwhile.idle_ns + meanwhile.unknown_ns;
    assert_eq!(charged, ns("wait"));
    assert_eq!(of.wakeups_by_waker.values().sum::<u64>(), of.wakeups);
    let found = walk(rows, start, end, task);
    for word in [
        "running",
        "transit",
        "wait",
        "interrupt",
        "blocked",
        "unknown",
    ] {
        assert_eq!(ns(word), found.ns[word], "{word}: {found:?}");
    }
    assert_eq!(of.wakeups, found.wakeups);
    let basis = path.running_within.basis;
    for (of, expected) in [
        (basis.cold_cache, found.cold),
        (basis.transfer, found.transfer),
    ] {
        assert_eq!((of.wakeups, of.running_ns), expected, "{basis:?}");
    }
}

/// The categories that have time.
fn parts(path: &PathFacts) -> Vec<(&'static str, i64)> {
    let parts = path.path_ns.iter().map(|(word, ns)| (*word, *ns));
    parts.filter(|(_, ns)| *ns != 0).collect()
}

fn ran(path: &PathFacts) -> Vec<(i32, i64)> {
    let tasks = path.path.running.tasks.iter();
    tasks.map(|task| (task.pid, task.ns)).collect()
}

const PING_PONG: &str = "
    100 0 0    switch 0:R 10
    150 0 10   waking 20 prev=2
    152 0 10   csd 2
    153 0 10   ipi 2 cb=7
    160 2 0/h  wakeup 20 to=2
    170 2 0    switch 0:R 20
    180 0 10   switch 10:S 0
    200 2 20   waking 10 prev=0
    202 2 20   migrate 10 0 2
    205 2 20   wakeup 10 to=2
    230 2 20   switch 20:S 10
    260 2 10   mark end";

/// Backwards: 10 ran 230 to 260, waited on CPU 2 from 205 while 20 ran, was in transit from 200; 20 ran from 170, was
/// in transit from 150 (the CPU ran nothing, so that its wait is, too); 10 ran from 100.
#[test]
fn a_ping_pong_with_transit_and_a_wait() {
    let path = path_of(PING_PONG, (100, 260), 10);
    assert_eq!(
        parts(&path),
        [("running", 110), ("transit", 25), ("wait", 25)]
    );
    assert_eq!(ran(&path), [(10, 80), (20, 30)]);
    let of = &path.path;
    assert_eq!(of.transit.by_path["queued-ipi"].ns, 20);
    assert_eq!(of.transit.by_path["local"].ns, 5);
    assert_eq!(of.transit.by_distance["node"].ns, 20);
    assert_eq!(of.transit.by_distance["same"].ns, 5);
    assert_eq!(of.wait.by_origin["wakeup"].ns, 25);
    assert_eq!(of.wait.meanwhile.ran.tasks[0].pid, 20);
    assert_eq!(of.wait.meanwhile.ran.tasks[0].ns, 25);
    assert_eq!(of.wakeups, 2);
    assert_eq!(of.wakeups_cross_llc, Known::Value(1));
    // 160 / (160 - 25) - 1.
    let gain = *path.gain_at_most["transit"].value().unwrap();
    assert!((gain - 25.0 / 135.0).abs() < 1e-12);
    assert!(path.gain_at_most["running"].value().is_none());
    let longest: Vec<_> = of
        .longest
        .iter()
        .map(|m| (m.start_ns, m.end_ns, m.category, m.pid, m.cpu))
        .collect();
    assert_eq!(
        longest,
        [
            (205, 230, "wait", 10, Some(2)),
            (150, 160, "transit", 20, Some(2)),
            (160, 170, "transit", 20, Some(2)),
            (200, 205, "transit", 10, Some(2)),
        ]
    );
}

/// Cut at 165 and 240: 10 ran 230 to 240, waited 25, transit 5; 20 ran 170 to 200, transit from 165.
#[test]
fn the_span_cuts_what_reaches_over_its_ends() {
    let path = path_of(PING_PONG, (165, 240), 10);
    assert_eq!(
        parts(&path),
        [("running", 40), ("transit", 10), ("wait", 25)]
    );
    assert_eq!(ran(&path), [(20, 30), (10, 10)]);
}

/// The handlers at 110 to 115 and 232 to 236 interrupted what is on the path, that at 190 to 195 on CPU 0 did not.
#[test]
fn interrupts_within_runs_are_apart() {
    let text = "
    100 0 0    switch 0:R 10
    110 0 10/h vec single
    115 0 10/h vec-end single
    150 0 10   waking 20 prev=2
    160 2 0/h  wakeup 20 to=2
    170 2 0    switch 0:R 20
    180 0 10   switch 10:S 0
    190 0 0/h  vec resched
    195 0 0/h  vec-end resched
    232 2 20/h vec resched
    236 2 20/h vec-end resched
    260 2 20   mark end";
    let path = path_of(text, (100, 260), 20);
    assert_eq!(
        parts(&path),
        [("interrupt", 9), ("running", 131), ("transit", 20)]
    );
    assert!(path.path.not_shown.contains_key("tlb-wait"));
    assert!(!path.path.not_shown.contains_key("interrupt"));
    let gain = *path.gain_at_most["interrupt"].value().unwrap();
    assert!((gain - 9.0 / 151.0).abs() < 1e-12);
}

/// 10 ran 180 to 200, was preempted by 30 from 150, and ran before.
#[test]
fn after_a_preemption_the_chain_goes_on_in_the_same_task() {
    let text = "
    100 0 0  switch 0:R 10
    150 0 10 switch 10:R+ 30
    180 0 30 switch 30:S 10
    200 0 10 mark end";
    let path = path_of(text, (100, 200), 10);
    assert_eq!(parts(&path), [("running", 70), ("wait", 30)]);
    assert_eq!(path.path.wait.by_origin["preempted"].ns, 30);
    assert_eq!(path.path.wait.meanwhile.ran.tasks[0].pid, 30);
    assert_eq!((ran(&path), path.path.wakeups), (vec![(10, 70)], 0));
}

/// 20 ran from 160, was due on a CPU that ran nothing from 145, when its parent 10 had put it there.
#[test]
fn a_new_task_is_followed_to_its_parent() {
    let text = "
    100 0 0  switch 0:R 10
    140 0 10 fork 20
    145 0 10 new 20 to=1
    160 1 0  switch 0:R 20
    200 1 20 mark end";
    let path = path_of(text, (100, 200), 20);
    assert_eq!(parts(&path), [("running", 85), ("transit", 15)]);
    assert_eq!(ran(&path), [(10, 45), (20, 40)]);
    assert_eq!(path.path.wakeups, 1);
}

const SLEEPER: &str = "
    100 0 0   switch 0:R 10
    120 0 10  switch 10:S 0
    170 0 0/h waking 10 prev=0
    172 0 0/h wakeup 10 to=0
    180 0 0   switch 0:R 10
    200 0 10  mark end";

/// 10 ran from 180, was in transit from 170, blocked from 120 until the interrupt, and ran before.
#[test]
fn what_an_interrupt_woke_was_blocked() {
    let path = path_of(SLEEPER, (100, 200), 10);
    assert_eq!(
        parts(&path),
        [("blocked", 50), ("running", 40), ("transit", 10)]
    );
    assert_eq!(path.path.blocked["hardirq"].ns, 50);
    assert!(path.gain_at_most["blocked"].value().is_none());
    assert_eq!(path.path.wakeups_by_waker["hardirq"], 1);
}

/// The span begins in the sleep: what went before it is known all the same.
#[test]
fn a_sleep_that_began_before_the_span_is_known() {
    let path = path_of(SLEEPER, (150, 200), 10);
    assert_eq!(
        parts(&path),
        [("blocked", 20), ("running", 20), ("transit", 10)]
    );
}

const SOFTIRQ: &str = "
    40  1 0    switch 0:R 20
    50  1 20   switch 20:S 0
    100 0 0    switch 0:R 10
    140 0 10   raise 3
    141 0 10/s softirq 3
    142 0 10/s waking 20 prev=1
    144 0 10/s wakeup 20 to=1
    146 0 10/s softirq-end 3
    150 1 0    switch 0:R 20
    200 1 20   mark end";

/// 10's own system call raised the soft interrupt: 10 is the waker.
#[test]
fn an_inline_softirq_stands_for_the_task_it_runs_in() {
    let path = path_of(SOFTIRQ, (100, 200), 20);
    assert_eq!(parts(&path), [("running", 92), ("transit", 8)]);
    assert_eq!(ran(&path), [(20, 50), (10, 42)]);
    assert_eq!(path.path.wakeups_by_waker["softirq_inline"], 1);
}

/// An interrupt raised it: 10 had no part in it, 20 was blocked from 50 on.
#[test]
fn a_softirq_that_an_interrupt_raised_blocks() {
    let text = SOFTIRQ.replace("10   raise", "10/h raise");
    let path = path_of(&text, (40, 200), 20);
    assert_eq!(
        parts(&path),
        [("blocked", 92), ("running", 60), ("transit", 8)]
    );
    assert_eq!(path.path.blocked["softirq_irq_exit"].ns, 92);
}

/// Nothing tells who raised it: the pair is (10, 20) as everywhere else, and is counted as such.
#[test]
fn an_unknown_softirq_is_followed_and_counted() {
    let text = SOFTIRQ.replace("140 0 10   raise 3\n", "");
    let path = path_of(&text, (100, 200), 20);
    assert_eq!(parts(&path), [("running", 92), ("transit", 8)]);
    assert_eq!(path.path.wakeups_by_waker["softirq_unknown"], 1);
}

/// As [`SLEEPER`], but the events of its CPU from 130 to 150 are missing.
#[test]
fn a_gap_within_a_sleep_is_unknown() {
    let text = SLEEPER.replace(
        "    170 0 0/h waking",
        "    130 0 0 lost 7\n    150 0 0 lost-end\n    170 0 0/h waking",
    );
    let path = path_of(&text, (100, 200), 10);
    assert_eq!(
        parts(&path),
        [
            ("blocked", 30),
            ("running", 40),
            ("transit", 10),
            ("unknown", 20)
        ]
    );
    assert_eq!(path.path.unknown["lost"].ns, 20);
}

/// 10 ran up to the gap and after it; what it did from 130 to 150 is not known.
#[test]
fn a_gap_within_a_run_is_unknown() {
    let text = "
    100 0 0  switch 0:R 10
    130 0 10 lost 7
    150 0 10 lost-end
    150 0 10 mark on
    200 0 10 mark end";
    let path = path_of(text, (100, 200), 10);
    assert_eq!(parts(&path), [("running", 80), ("unknown", 20)]);
    assert_eq!(path.path.unknown["lost"].ns, 20);
}

/// 10 is woken at 140, and the events of the CPU it is queued on are missing from 150 to 170. Until 150 it waited, but
/// the wait has no end, so that it is not known; from 140 to 142 it was in transit, woken by 20.
#[test]
fn a_gap_within_a_wait_is_unknown() {
    let text = "
    100 0 0  switch 0:R 30
    100 1 0  switch 0:R 20
    140 1 20 waking 10 prev=0
    142 1 20 wakeup 10 to=0
    150 0 30 lost 9
    170 0 10 lost-end
    170 0 10 mark on
    200 0 10 mark end";
    let path = path_of(text, (100, 200), 10);
    assert_eq!(
        parts(&path),
        [("running", 70), ("transit", 2), ("unknown", 28)]
    );
    assert_eq!(path.path.unknown["lost"].ns, 28);
    assert_eq!(ran(&path), [(20, 40), (10, 30)]);
}

/// 10 is queued behind 30 at 150; at 170 its CPU runs nothing, though 10 is queued there: it is withheld until 190.
#[test]
fn withheld_time_is_no_wait() {
    let text = "
    100 0 0  switch 0:R 10
    150 0 10 switch 10:R+ 30
    170 0 30 switch 30:S 0
    190 0 0  switch 0:R 10
    200 0 10 switch 10:R 0
    220 0 0  switch 0:R 10
    240 0 10 mark end";
    let path = path_of(text, (100, 240), 10);
    assert_eq!(
        parts(&path),
        [("running", 80), ("unknown", 40), ("wait", 20)]
    );
    assert_eq!(path.path.unknown["withheld"].ns, 40);
}

/// 10 is not seen before 150: neither is anything before it.
#[test]
fn before_the_first_event_of_a_task_nothing_is_known() {
    let text = "
    100 1 0   switch 0:R 20
    150 0 0/h waking 10 prev=0
    151 0 0/h wakeup 10 to=0
    160 0 0   switch 0:R 10
    200 0 10  mark end";
    let path = path_of(text, (100, 200), 10);
    assert_eq!(
        parts(&path),
        [("running", 40), ("transit", 10), ("unknown", 50)]
    );
    assert_eq!(path.path.unknown["before_first_event"].ns, 50);
}

/// 10 and 20 run side by side, and wake 30 one after the other; it goes on with the second, 20, whose chain it is. The
/// eighths of the span show the other chain nowhere, but those that end before 200 begin with the task that came to its
/// CPU last.
#[test]
fn of_two_chains_the_one_that_was_waited_for_counts() {
    let text = "
    90  2 30  switch 30:S 0
    100 0 0   switch 0:R 10
    101 1 0   switch 0:R 20
    150 0 10  waking 30 prev=2
    151 0 10  wakeup 30 to=2
    155 2 0   switch 0:R 30
    160 0 10  switch 10:S 0
    165 2 30  switch 30:S 0
    200 1 20  waking 30 prev=2
    202 1 20  wakeup 30 to=2
    210 2 0   switch 0:R 30
    220 1 20  switch 20:S 0
    260 2 30  mark end";
    let path = path_of(text, (100, 260), 30);
    assert_eq!(
        parts(&path),
        [("running", 149), ("transit", 10), ("unknown", 1)]
    );
    assert_eq!(ran(&path), [(20, 99), (30, 50)]);
    let Known::Value(spread) = &path.path.spread else {
        panic!("a spread");
    };
    assert_eq!(spread.windows, 8);
    // 20 ms each: only that from 200 to 220 has transit, 10 of it; and only the first an instant of which nothing is
    // known, if 20 is followed.
    let transit = spread.share["transit"];
    assert_eq!((transit.min, transit.median, transit.max), (0.0, 0.0, 0.5));
}

/// The waits are for CPUs that are all busy, half of the path: what is removed would be waited for elsewhere.
#[test]
fn gains_are_withheld_where_cpus_were_busy() {
    let busy = "
    100 0 0  switch 0:R 10
    100 1 0  switch 0:R 40
    100 2 0  switch 0:R 50
    100 3 0  switch 0:R 60
    150 0 10 switch 10:R+ 30
    200 0 30 switch 30:S 10
    250 0 10 switch 10:R+ 30
    300 0 30 switch 30:S 10
    300 0 10 mark end";
    let path = path_of(busy, (100, 300), 10);
    assert_eq!(parts(&path), [("running", 100), ("wait", 100)]);
    let saturated = &path.path.wait.by_verdict["saturated"];
    assert_eq!(
        (saturated.ns.seen, saturated.ns.any),
        (Some(100), Some(100))
    );
    assert!(saturated.gain_at_most.value().is_none());
    for word in ["transit", "wait", "interrupt"] {
        let Known::Unknown { unknown } = &path.gain_at_most[word] else {
            panic!("{word} has a gain");
        };
        assert!(unknown.contains("50 %"), "{unknown}");
    }
}

#[test]
fn an_empty_span_has_an_empty_path() {
    let path = path_of(SLEEPER, (150, 150), 10);
    assert_eq!((parts(&path), path.path.wakeups), (vec![], 0));
    assert!(path.path.spread.value().is_none());
    assert!(path.path.longest.is_empty());
}

/// Without a task to begin with, it begins with the one that ran last.
#[test]
fn without_a_last_task_the_chain_begins_with_what_ran() {
    let played = Script::new(MACHINE, PING_PONG).play();
    let path = facts(&played, (100, 260), None);
    assert_eq!(
        parts(&path),
        [("running", 110), ("transit", 25), ("wait", 25)]
    );
}
