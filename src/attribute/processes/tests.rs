//! Hand-made slices with known shares.

use super::super::Selection;
use super::super::answer::{Known, ProcessFacts};
use super::super::testing::{Rig, task, wakeup};
use super::super::work::{Done, Span};
use super::processes;
use crate::replay::rows::{Sink, SliceRow, TaskId, TaskRow, WakeupRow};
use crate::replay::units::Work;
use crate::tables::{Budget, Filler};

fn slice(task: u32, cpu: u32, start_ns: i64, end_ns: i64) -> SliceRow {
    SliceRow {
        task: TaskId(task),
        cpu,
        start_ns,
        end_ns,
        end_state: None,
    }
}

fn thread(id: u32, pid: i32, tgid: Option<i32>, run_ns: i64) -> TaskRow {
    TaskRow {
        tgid,
        run_ns,
        ..task(id, pid, if pid == 10 { "first" } else { "other" })
    }
}

/// The window is 100 to 900; CPUs 0 and 1 are one LLC, 2 and 3 the other. Process 10 has three threads: one moves from
/// the first LLC to the second at 500, one is in the second throughout, one only waits to be woken. Process 20 ends
/// before 100 but for 50 ns.
fn fill(sink: &mut Filler) {
    let slices = [
        slice(3, 1, 50, 150),
        slice(1, 0, 0, 500),
        slice(0, 2, 90, 700),
        slice(1, 2, 500, 900),
        slice(0, 3, 700, 1000),
    ];
    slices.iter().for_each(|row| sink.slice(row));
    let woken = |waker: u32, wakee: u32, crosses: Option<bool>| WakeupRow {
        waker: Some(TaskId(waker)),
        wakee: TaskId(wakee),
        cross_llc: crosses,
        ..wakeup()
    };
    let wakeups = [
        woken(0, 1, Some(true)),
        woken(1, 0, Some(false)),
        woken(1, 2, None),
        woken(3, 1, Some(true)),
    ];
    wakeups.iter().for_each(|row| sink.wakeup(row));
    let idle = TaskRow {
        wakeups_received: 1,
        ..thread(2, 12, Some(10), 0)
    };
    let tasks = [
        thread(0, 10, Some(10), 800),
        thread(1, 11, Some(10), 800),
        idle,
        thread(3, 20, Some(20), 50),
        thread(4, 30, None, 700),
        thread(5, 13, Some(10), 0),
    ];
    tasks.iter().for_each(|row| sink.task(row));
}

/// Units of each task.
fn done(by_task: &[(u32, u64)]) -> Known<Done> {
    Known::Value(Done {
        units: by_task.iter().map(|(_, units)| units).sum(),
        span: Span {
            start_ns: 100,
            end_ns: 900,
            last_task: None,
        },
        counted: (100, 900),
        by_task: by_task.to_vec(),
        members: Vec::new(),
        missed_at_most: 0,
        notes: Vec::new(),
    })
}

fn none() -> Known<Done> {
    Known::unknown("no unit was asked for")
}

fn found(rig: &Rig, units: &Known<Done>) -> Vec<ProcessFacts> {
    let scope = rig.scope(&Selection::default()).unwrap();
    match processes(&scope, units).unwrap() {
        Known::Value(found) => found,
        Known::Unknown { unknown } => panic!("{unknown}"),
    }
}

#[test]
fn shares_are_those_worked_out_by_hand() {
    // In one batch, and in many.
    for batch_rows in [1000, 1] {
        let budget = Budget {
            batch_rows,
            ..Budget::default()
        };
        let found = found(&Rig::with_budget(budget, fill), &none());
        let ids: Vec<_> = found.iter().map(|p| (p.tgid, p.run_ns)).collect();
        assert_eq!(ids, [(10, 1600), (20, 50)]);
        let process = &found[0];
        assert_eq!((process.name.as_str(), process.leaders), ("first", 1));
        // The fourth thread did nothing.
        assert_eq!(process.threads, 3);
        let by_llc = process.llc_run_ns.value().unwrap();
        assert_eq!((by_llc["0"], by_llc["1"], by_llc.len()), (400, 1200, 2));
        let residency = process.co_residency.value().unwrap();
        assert_eq!((residency.share, residency.preferred_llc), (0.75, 1));
        // Two LLCs for half of the time, then one.
        assert_eq!(residency.llcs_at_once, 1.5);
        // As much in both until 500: the lower counts.
        assert_eq!(residency.preferred_changes, 1);
        assert_eq!(residency.windows.len(), 60);
        let first = &residency.windows[0];
        assert_eq!((first.start_ns, first.end_ns, first.run_ns), (100, 113, 26));
        assert_eq!(first.llc_share["0"], 0.5);
        let last = &residency.windows[59];
        assert_eq!((last.end_ns, last.llc_share.len()), (900, 1));
        assert_eq!(process.wakeups_inside, 3);
        assert_eq!(process.cross_llc_wakeups.value(), Some(&1));
        assert_eq!(process.llc_moves.value(), Some(&1));
        let spread = process.thread_run_ns.value().unwrap();
        assert_eq!((spread.n, spread.min, spread.max), (3, 0.0, 800.0));
        assert!(process.units.value().is_none());
        let other = found[1].co_residency.value().unwrap();
        assert_eq!((other.share, other.llcs_at_once), (1.0, 1.0));
    }
}

#[test]
fn units_of_threads_are_spread_where_they_are_known() {
    let mut rig = Rig::new(fill);
    let units = done(&[(0, 30), (1, 10)]);
    // Wakeups are no work.
    let unnamed = found(&rig, &units);
    let Known::Unknown { unknown } = &unnamed[0].units else {
        panic!("{unnamed:?}");
    };
    assert!(unknown.contains("--work"), "{unknown}");
    rig.config.work = Some(Work::Total(40));
    let found = |units: &Known<Done>| found(&rig, units);
    let all = found(&units);
    let spread = all[0].units.value().unwrap();
    assert_eq!((spread.n, spread.min, spread.max), (3, 0.0, 30.0));
    // 30, 10 and 0: of 40 thirds, and 200 + 1100 ninths of squares.
    assert_eq!(spread.mean, 40.0 / 3.0);
    assert!((spread.stddev_population - (1_400.0_f64 / 9.0).sqrt()).abs() < 1e-9);
    assert!(all[1].units.value().is_none());
    assert!(found(&none())[0].units.value().is_none());
    assert!(found(&done(&[]))[0].units.value().is_none());
}

#[test]
fn without_a_topology_run_times_remain() {
    let rig = Rig::new(fill).without_topology();
    let found = found(&rig, &none());
    assert_eq!(found[0].run_ns, 1600);
    assert!(found[0].thread_run_ns.value().is_some());
    assert!(found[0].llc_run_ns.value().is_none() && found[0].llc_moves.value().is_none());
    assert!(found[0].co_residency.value().is_none());
}

/// Where processes are known a task of which none is known is told of; where none is, that is said otherwise.
#[test]
fn tasks_of_no_known_process_are_counted() {
    let caveats = |fill: fn(&mut Filler)| {
        let rig = Rig::new(fill);
        let told = rig.answer(&Selection::default()).caveats;
        let told: Vec<String> = told
            .into_iter()
            .filter(|text| text.contains("process"))
            .collect();
        told
    };
    let one = caveats(fill);
    assert!(
        one.len() == 1 && one[0].starts_with("of 1 task that ran"),
        "{one:?}"
    );
    let two = caveats(|sink| {
        fill(sink);
        sink.task(&thread(9, 31, None, 100));
        sink.task(&thread(10, 32, None, 0));
    });
    assert!(two[0].starts_with("of 2 tasks that ran"), "{two:?}");
    assert!(caveats(|sink| sink.task(&thread(0, 10, Some(10), 100))).is_empty());
    assert!(caveats(|sink| sink.task(&thread(0, 10, None, 100))).is_empty());
}

#[test]
fn without_process_ids_nothing_is_guessed() {
    let rig = Rig::new(|sink| {
        sink.slice(&slice(0, 0, 100, 200));
        sink.task(&thread(0, 10, None, 100));
    });
    let scope = rig.scope(&Selection::default()).unwrap();
    assert!(processes(&scope, &none()).unwrap().value().is_none());
}
