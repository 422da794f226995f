//! Checks that hold for every trace (`analysis` §8): sums meet totals, windows add up, and where tables are kept
//! changes nothing.

use std::path::Path as FilePath;

use proptest::prelude::*;

use super::Selection;
use super::answer::{Answer, Readings};
use super::testing::{Rig, fill, json, task, wait, wakeup};
use crate::pipeline::{self, RunOptions, TimePoint};
use crate::replay::rows::{TaskId, WaitRow, WakeupRow};
use crate::replay::words::{Class, Origin, Pair, Path, Reading, Verdict};
use crate::tables::{Budget, Builders, TableSet};
use crate::topology::Distance;

/// The answer to a recorded trace of a guest whose topology is known.
fn recorded(folder: &str, from: Option<TimePoint>, to: Option<TimePoint>) -> Answer {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/lab")
        .join(folder);
    let options = RunOptions {
        topology: folder.join("topology.txt").to_str().map(str::to_owned),
        from,
        to,
        ..RunOptions::default()
    };
    let prepared = pipeline::prepare(&folder.join("trace.dat"), &options, &|_| ()).unwrap();
    let mut builders = Builders::new(&TableSet::analysis(), Budget::default());
    let counts = pipeline::replay(&prepared, builders.sink(), &|_| ());
    let tables = builders.finish().unwrap();
    let everything = Selection {
        top: usize::MAX,
        ..Selection::default()
    };
    super::answer(&prepared, &counts, &tables, &everything).unwrap()
}

#[test]
fn lost_time_of_a_recorded_trace_sums_to_the_waiting_rows() {
    for folder in ["fanout", "messaging", "pair-xllc", "stack", "udp-queue"] {
        let answer = recorded(folder, None, None);
        let sum = |of: fn(&Readings<i64>) -> Option<i64>| -> [i64; 2] {
            let verdicts = answer.waits.by_verdict.values();
            let waits: i64 = verdicts.filter_map(|v| of(&v.lost_ns)).sum();
            let tasks = answer
                .tasks
                .iter()
                .filter_map(|task| of(&task.lost_ns))
                .sum();
            [waits + of(&answer.waits.withdrawn.lost_ns).unwrap(), tasks]
        };
        let ledger = &answer.ledger;
        assert_eq!(
            sum(|r| r.seen),
            [ledger.waiting_ns.seen.unwrap(); 2],
            "{folder}"
        );
        assert_eq!(
            sum(|r| r.any),
            [ledger.waiting_ns.any.unwrap(); 2],
            "{folder}"
        );
        let seconds = answer.trace.end_ns - answer.trace.start_ns;
        assert_eq!(
            ledger.total_ns,
            seconds * answer.trace.cpus.len() as i64,
            "{folder}"
        );
        assert!(
            answer.wakeups.total > 100 && answer.pairs.len() > 1,
            "{folder}"
        );
    }
}

#[test]
fn windows_of_a_recorded_trace_add_up() {
    let middle = || Some(TimePoint::AfterStart(3_000_000));
    let whole = recorded("messaging", None, None);
    let parts = [
        recorded("messaging", None, middle()),
        recorded("messaging", middle(), None),
    ];
    let sums = |of: &dyn Fn(&Answer) -> i64| {
        assert_eq!(parts.iter().map(of).sum::<i64>(), of(&whole));
        assert!(of(&whole) > 0);
    };
    sums(&|a| a.ledger.total_ns);
    sums(&|a| a.ledger.running_ns);
    sums(&|a| a.ledger.waiting_ns.any.unwrap());
    sums(&|a| a.wakeups.total as i64);
    sums(&|a| a.waits.count as i64);
    sums(&|a| a.waits.total_ns);
    sums(&|a| a.waits.by_verdict["saturated"].wait_ns.any.unwrap());
    sums(&|a| a.pairs.iter().map(|pair| pair.wakeups as i64).sum());
    sums(&|a| a.pairs.iter().map(|pair| pair.wait_ns).sum());
    let moves = |a: &Answer| a.migrations.value().unwrap().clone();
    sums(&|a| moves(a).total as i64);
    sums(&|a| moves(a).totals["newidle"] as i64);
    sums(&|a| moves(a).by_cause["wakeup"].values().sum::<u64>() as i64);
    sums(&|a| moves(a).by_confidence["newidle"]["certain"] as i64);
}

#[test]
fn migrations_of_a_recorded_trace_are_its_events() {
    for folder in ["fanout", "messaging", "pair-xllc", "stack", "udp-queue"] {
        let answer = recorded(folder, None, None);
        let events = answer.trace.events_by_name.iter();
        let events = events.filter(|(name, _)| name.ends_with("sched_migrate_task"));
        let events: u64 = events.map(|(_, count)| count).sum();
        let moves = answer.migrations.value().unwrap();
        let by_cause = moves.by_cause.values().flat_map(|by| by.values());
        assert_eq!(by_cause.sum::<u64>(), moves.total, "{folder}");
        let by_confidence = moves.by_confidence.values().flat_map(|by| by.values());
        assert_eq!(by_confidence.sum::<u64>(), moves.total, "{folder}");
        assert_eq!(moves.total - moves.inferred, events, "{folder}");
        let runs = moves.run_after_ns.values().flat_map(|by| by.values());
        let runs: u64 = runs.filter_map(|run| Some(run.value()?.count)).sum();
        assert_eq!(runs + moves.withdrawn, moves.total, "{folder}");
        // Every placement stays in one of two LLCs: the kernel's are the machine's.
        let domains = answer.domains.value().unwrap();
        let behaviour = domains.behaviour.value().unwrap();
        assert_eq!(
            (behaviour.outside, behaviour.verdict),
            (0, "fits"),
            "{folder}"
        );
    }
}

fn any_wakeup() -> impl Strategy<Value = WakeupRow> {
    let words = (0..10_usize, 0..7_usize, 0..7_usize, 0..7_usize, 0..14_usize);
    let tasks = (proptest::option::of(0..4_u32), 0..4_u32, 0..4_u32);
    let times = (
        proptest::option::of(0..1_000_000_i64),
        0..10_000_i64,
        0..5_000_i64,
    );
    (words, tasks, times, any::<(bool, bool, bool)>()).prop_map(
        |((class, path, far, near, verdict), (waker, wakee, cpu), (latency, wait, lost), flags)| {
            WakeupRow {
                waker: waker.map(TaskId),
                wakee: TaskId(wakee),
                chosen_cpu: Some(cpu),
                class: Class::ALL[class],
                path: Path::ALL[path],
                waker_chosen: Distance::ALL[far],
                prev_chosen: Distance::ALL[near],
                cross_llc: flags.0.then_some(flags.1),
                selection: flags.1.then_some(flags.0),
                latency_ns: latency,
                queue_ns: latency,
                verdict: Pair([
                    Some(Verdict::ALL[verdict]),
                    flags.2.then_some(Verdict::Transit),
                ]),
                wait_ns: wait,
                lost_ns: Pair([lost, lost * 2]),
                in_window: flags.2 || flags.0,
                ..wakeup()
            }
        },
    )
}

fn any_wait() -> impl Strategy<Value = WaitRow> {
    (
        0..4_usize,
        0..14_usize,
        0..14_usize,
        0..10_000_i64,
        any::<bool>(),
    )
        .prop_map(|(origin, seen, any, ns, in_window)| WaitRow {
            in_window,
            ..wait(
                Origin::ALL[origin],
                [Verdict::ALL[seen], Verdict::ALL[any]],
                ns,
                [ns / 2, ns],
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sums_meet_totals_and_spilling_changes_nothing(
        wakeups in proptest::collection::vec(any_wakeup(), 0..200),
        waits in proptest::collection::vec(any_wait(), 0..100),
        memory_bytes in 0..10_000_usize,
        batch_rows in 16..64_usize,
    ) {
        let tasks: Vec<_> = (0..4).map(|id| task(id, id as i32, "task")).collect();
        let budget = Budget { memory_bytes, batch_rows, spill_in: None };
        let rig = Rig::new(|sink| fill(sink, &wakeups, &waits, &tasks));
        let spilled = Rig::with_budget(budget, |sink| fill(sink, &wakeups, &waits, &tasks));
        prop_assert_eq!(json(&rig), json(&spilled));
        let answer = rig.answer(&Selection::default());
        let counted = wakeups.iter().filter(|row| row.in_window);
        let total = counted.clone().count() as u64;
        let by = &answer.wakeups.by_distance;
        for counts in [&answer.wakeups.by_class, &answer.wakeups.by_path, &answer.wakeups.by_waker,
                       &by.waker_chosen, &by.prev_chosen, &by.waker_prev] {
            prop_assert_eq!(counts.values().sum::<u64>(), total);
        }
        prop_assert_eq!(answer.wakeups.per_waker_cpu.values().sum::<u64>(), total);
        let mut latencies: Vec<i64> = counted.filter_map(|row| row.latency_ns).collect();
        latencies.sort_unstable();
        let median = latencies.get(latencies.len().div_ceil(2).max(1) - 1).copied();
        prop_assert_eq!(answer.wakeups.latency_ns.value().map(|q| q.p50), median);
        let verdicts = answer.waits.by_verdict.values();
        prop_assert_eq!(verdicts.clone().filter_map(|v| v.count.seen).sum::<u64>(), answer.waits.count);
        prop_assert_eq!(verdicts.clone().filter_map(|v| v.wait_ns.any).sum::<i64>(), answer.waits.total_ns);
        prop_assert_eq!(
            verdicts.filter_map(|v| v.lost_ns.any).sum::<i64>(),
            waits.iter().map(|row| row.lost_ns[Reading::Any]).sum::<i64>()
        );
        let pairs = answer.pairs.iter().map(|pair| pair.wakeups).sum::<u64>();
        let paired = wakeups.iter().filter(|row| row.in_window && row.waker.is_some_and(|w| w != row.wakee));
        prop_assert!(pairs <= paired.count() as u64);
    }
}
