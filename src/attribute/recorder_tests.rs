//! What the recorder's own threads are left out of, and what they stay in.

use super::Selection;
use super::answer::{Answer, Known, RecorderFacts};
use super::testing::{Rig, fill, task, wait, wakeup};
use crate::replay::RecorderCounts;
use crate::replay::rows::{TaskId, TaskRow, WaitRow, WakeupRow};
use crate::replay::words::{Origin, Pair, Verdict};
use crate::tables::{Budget, Builders, Table, TableSet};

/// Task 2 is the recorder's. Of four wakeups one is made by it, one received; of the other two one found an idle CPU.
fn rig() -> Rig {
    let missed = WakeupRow {
        chosen_idle: Some(false),
        verdict: Pair([Some(Verdict::StackedPrev); 2]),
        lost_ns: Pair([70, 70]),
        ..wakeup()
    };
    let made = WakeupRow {
        waker: Some(TaskId(2)),
        lost_ns: Pair([900, 900]),
        ..missed.clone()
    };
    let received = WakeupRow {
        waker: None,
        wakee: TaskId(2),
        verdict: Pair([Some(Verdict::Recorder); 2]),
        ..wakeup()
    };
    let waits = [
        wait(Origin::Wakeup, [Verdict::StackedPrev; 2], 200, [70, 70]),
        WaitRow {
            task: TaskId(2),
            ..wait(Origin::Wakeup, [Verdict::Recorder; 2], 300, [40, 40])
        },
    ];
    let tasks = [
        task(0, 10, "waker"),
        task(1, 20, "wakee"),
        TaskRow {
            recorder: true,
            lost_ns: Pair([40, 40]),
            ..task(2, 30, "ttwu")
        },
    ];
    let mut rig = Rig::new(|sink| {
        fill(sink, &[wakeup(), missed, made, received], &waits, &tasks);
    });
    rig.config.snapshot.name_recorder([30]);
    rig.counts.recorder = RecorderCounts {
        tasks: 1,
        running_ns: 320,
        wakeups: 2,
        waits: 1,
    };
    rig
}

fn pids(answer: &Answer) -> (Vec<i32>, Vec<(i32, i32)>) {
    let pairs = answer.pairs.iter().map(|p| (p.waker_pid, p.wakee_pid));
    (
        answer.tasks.iter().map(|t| t.pid).collect(),
        pairs.collect(),
    )
}

#[test]
fn the_recorder_is_left_out_of_the_causes() {
    let answer = rig().answer(&Selection::default());
    assert_eq!(pids(&answer), (vec![10, 20], vec![(10, 20)]));
    let sis = &answer.sis;
    assert_eq!((sis.selections, sis.success, sis.failures), (2, 1, 1));
    assert_eq!(sis.fast_success, 1);
    let missed = sis.missed.value().unwrap();
    assert_eq!(missed["stacked-prev"].any, Some(1));
    // Totals are whole, and their parts add up to them.
    assert_eq!(answer.wakeups.total, 4);
    assert_eq!(answer.wakeups.by_class.values().sum::<u64>(), 4);
    let waits = &answer.waits;
    assert_eq!((waits.count, waits.total_ns), (2, 500));
    assert_eq!(waits.by_verdict["recorder"].wait_ns.any, Some(300));
    let by_verdict = waits.by_verdict.values();
    assert_eq!(by_verdict.map(|f| f.wait_ns.any.unwrap()).sum::<i64>(), 500);
    // Of 800 ns on four CPUs.
    let facts = RecorderFacts {
        tasks: 1,
        running_ns: 320,
        running_share: 0.1,
        wakeups: 2,
        waits: 1,
        left_out: true,
    };
    assert_eq!(answer.trace.recorder, Known::Value(facts));
}

#[test]
fn a_selection_leaves_it_out_too() {
    let selection = Selection {
        task: Some("ttwu".to_owned()),
        ..Selection::default()
    };
    let answer = rig().answer(&selection);
    assert_eq!(pids(&answer), (vec![], vec![]));
    assert_eq!((answer.wakeups.total, answer.sis.selections), (1, 0));
}

#[test]
fn it_is_included_where_asked_for() {
    let mut rig = rig();
    rig.config.include_recorder = true;
    let answer = rig.answer(&Selection::default());
    // Task 1 lost nothing by its own row; task 2 lost 40 ns.
    assert_eq!(pids(&answer).0[0], 30);
    assert_eq!(pids(&answer).1, [(30, 20), (10, 20)]);
    assert_eq!((answer.sis.selections, answer.sis.success), (4, 2));
    assert!(!answer.trace.recorder.value().unwrap().left_out);
}

#[test]
fn a_trace_that_names_no_recorder_says_so() {
    let rig = Rig::new(|sink| fill(sink, &[wakeup()], &[], &[task(0, 1, "a"), task(1, 2, "b")]));
    let answer = rig.answer(&Selection::default());
    assert!(answer.trace.recorder.value().is_none());
    assert!(answer.wakeups.probed.value().is_none());
}

#[test]
fn probes_are_summed_up() {
    let mut rig = rig();
    rig.counts.probes_checked = 3;
    rig.counts.probes_sync = Some(2);
    rig.counts.probes_masks = 1;
    rig.counts.probes_flips_max = Some(17);
    let probed = |rig: &Rig| rig.answer(&Selection::default()).wakeups.probed;
    let found = probed(&rig);
    let found = found.value().unwrap();
    assert_eq!((found.selections, found.masks), (3, 1));
    assert_eq!(found.sync, Known::Value(2));
    assert_eq!(found.flips_max, Known::Value(17));
    rig.counts.probes_sync = None;
    rig.counts.probes_flips_max = None;
    let found = probed(&rig);
    let found = found.value().unwrap();
    assert!(found.sync.value().is_none() && found.flips_max.value().is_none());
}

#[test]
fn tasks_that_refute_the_record_are_told() {
    let mut rig = rig();
    rig.counts.masks_refuted = 2;
    let answer = rig.answer(&Selection::default());
    let told = "2 tasks were seen on CPUs that the machine record does not allow";
    assert!(answer.caveats.iter().any(|text| text.starts_with(told)));
}

#[test]
fn exports_hold_the_kernels_own_values() {
    let mut builders = Builders::new(&TableSet::all(), Budget::default());
    let probed = WakeupRow {
        sync: Some(true),
        flips: Some(17),
        ..wakeup()
    };
    fill(builders.sink(), &[probed, wakeup()], &[], &[]);
    let tables = builders.finish().unwrap();
    let frame = tables.lazy(Table::Wakeups).unwrap().collect().unwrap();
    let sync = frame.column("sync").unwrap().bool().unwrap().iter();
    assert_eq!(sync.collect::<Vec<_>>(), [Some(true), None]);
    let flips = frame.column("flips").unwrap().u32().unwrap().iter();
    assert_eq!(flips.collect::<Vec<_>>(), [Some(17), None]);
}
