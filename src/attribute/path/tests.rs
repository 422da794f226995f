//! Paths of rows that no trace could hold, and of a trace cut into segments.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::attribute::scope::Facts;
use crate::attribute::testing::{Rig, fill, ipi, task, wait, wakeup};
use crate::attribute::{Selection, answer::Known};
use crate::pipeline::{RunOptions, prepare, replay};
use crate::replay::rows::{IpiRow, LostRow, Sink, SliceRow, TaskId, WaitRow, WakeupRow};
use crate::replay::words::{Class, IpiKind, Origin, Path, Verdict, Waker};
use crate::tables::{Budget, Builders, TableSet, Tables};
use crate::topology::Distance;
use ttwu_parsers::print_fmt::PrevState;

const TASKS: u32 = 4;
const CPUS: u32 = 3;
/// Stamps are so few that many fall together.
const END: i64 = 60;

fn any_wakeup() -> impl Strategy<Value = WakeupRow> {
    let stamps = (
        proptest::option::of(0..END),
        proptest::option::of(0..END),
        proptest::option::of(0..END),
    );
    let tasks = (proptest::option::of(0..TASKS), 0..TASKS, 0..CPUS);
    let kinds = (0..Class::ALL.len(), 0..Waker::ALL.len(), 0..Path::ALL.len());
    (stamps, tasks, kinds).prop_map(|(stamps, (waker, wakee, cpu), kinds)| WakeupRow {
        waking_ns: stamps.0,
        wakeup_ns: stamps.1,
        switch_in_ns: stamps.2,
        waker: waker.map(TaskId),
        wakee: TaskId(wakee),
        prev_cpu: Some(cpu),
        class: Class::ALL[kinds.0],
        context: Waker::ALL[kinds.1],
        path: Path::ALL[kinds.2],
        waker_chosen: Distance::Llc,
        ..wakeup()
    })
}

fn any_wait() -> impl Strategy<Value = WaitRow> {
    let stamps = (0..END, proptest::option::of(0..END), 0..END);
    let kinds = (0..Origin::ALL.len(), 0..Verdict::ALL.len());
    (stamps, 0..TASKS, 0..CPUS, kinds).prop_map(|(stamps, task, cpu, kinds)| {
        let verdict = Verdict::ALL[kinds.1];
        WaitRow {
            task: TaskId(task),
            start_ns: stamps.0,
            end_ns: stamps.1,
            last_cpu: cpu,
            ..wait(Origin::ALL[kinds.0], [verdict; 2], stamps.2, [0, 0])
        }
    })
}

fn any_slice() -> impl Strategy<Value = SliceRow> {
    let state = proptest::option::of(prop_oneof![Just(b'R'), Just(b'S')]);
    (0..TASKS, 0..CPUS, 0..END, 0..END, state).prop_map(|(task, cpu, start_ns, end_ns, state)| {
        let end_state = state.map(|letter| PrevState {
            letter,
            preempted: false,
        });
        SliceRow {
            task: TaskId(task),
            cpu,
            start_ns,
            end_ns,
            end_state,
        }
    })
}

fn any_interval() -> impl Strategy<Value = (u32, i64, i64)> {
    (0..CPUS, 0..END, 0..20_i64)
}

fn handler((cpu, ts_ns, handler_ns): (u32, i64, i64)) -> IpiRow {
    IpiRow {
        ts_ns,
        target_cpu: cpu,
        latency_ns: None,
        ..ipi(IpiKind::Reschedule, 0, handler_ns)
    }
}

/// Everything sums to the span, and each detail to its category.
fn check(path: &PathFacts, length_ns: i64) {
    let ns = |word: &str| path.path_ns[word];
    assert_eq!(path.path_ns.values().sum::<i64>(), length_ns);
    assert!(
        path.path_ns.values().all(|ns| *ns >= 0),
        "{:?}",
        path.path_ns
    );
    let of = &path.path;
    let running: i64 = of.running.tasks.iter().map(|task| task.ns).sum();
    assert_eq!(running + of.running.others_ns, ns("running"));
    let sum = |parts: &crate::attribute::answer::ByWord<crate::attribute::answer::PathPart>| {
        parts.values().map(|part| part.ns).sum::<i64>()
    };
    assert_eq!(sum(&of.transit.by_path), ns("transit"));
    assert_eq!(sum(&of.transit.by_distance), ns("transit"));
    assert_eq!(sum(&of.wait.by_origin), ns("wait"));
    assert_eq!(sum(&of.blocked), ns("blocked"));
    assert_eq!(sum(&of.unknown), ns("unknown"));
    let meanwhile = &of.wait.meanwhile;
    let ran: i64 = meanwhile.ran.tasks.iter().map(|task| task.ns).sum();
    let charged = ran + meanwhile.ran.others_ns + meanwhile.idle_ns + meanwhile.unknown_ns;
    assert_eq!(charged, ns("wait"));
    if let Known::Value(spread) = &of.spread {
        for range in spread.share.values() {
            assert!(0.0 <= range.min && range.min <= range.median && range.max <= 1.0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever the rows say, the chain ends and tiles the span.
    #[test]
    fn a_chain_tiles_its_span_whatever_the_rows_say(
        wakeups in prop::collection::vec(any_wakeup(), 0..30),
        waits in prop::collection::vec(any_wait(), 0..20),
        slices in prop::collection::vec(any_slice(), 0..20),
        lost in prop::collection::vec(any_interval(), 0..4),
        handlers in prop::collection::vec(any_interval(), 0..6),
        span in (0..END, 0..END),
        last_task in prop::option::of(0..TASKS + 2),
        segment_rows in 1..60_usize,
    ) {
        let budget = Budget { batch_rows: 4, ..Budget::default() };
        let rig = Rig::with_budget(budget, |sink| {
            let tasks: Vec<_> = (0..TASKS).map(|id| task(id, 100 + id as i32, "t")).collect();
            fill(sink, &wakeups, &waits, &tasks);
            slices.iter().for_each(|row| sink.slice(row));
            handlers.iter().for_each(|of| sink.ipi(&handler(*of)));
            for (cpu, start_ns, length_ns) in &lost {
                sink.lost(&LostRow {
                    cpu: *cpu,
                    start_ns: *start_ns,
                    end_ns: start_ns + length_ns,
                    events: None,
                });
            }
        });
        let scope = rig.scope(&Selection::default()).unwrap();
        let (start_ns, end_ns) = (span.0.min(span.1), span.0.max(span.1));
        let span = Span { start_ns, end_ns, last_task };
        let path = by_segments(&scope, &span, segment_rows).unwrap();
        check(&path.with(&Costs::measure(&scope).unwrap()), end_ns - start_ns);
    }
}

fn fixture(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/lab");
    folder.join(name)
}

/// Segments of any size, down to a few rows, give the path of the whole.
#[test]
fn segments_change_nothing() {
    for name in ["fanout", "messaging", "stack"] {
        let folder = fixture(name);
        let options = RunOptions {
            topology: Some(folder.join("topology.txt").display().to_string()),
            ..RunOptions::default()
        };
        let prepared = prepare(&folder.join("trace.dat"), &options, &|_| ()).unwrap();
        let budget = Budget {
            batch_rows: 64,
            ..Budget::default()
        };
        let mut builders = Builders::new(&TableSet::analysis(), budget);
        let counts = replay(&prepared, builders.sink(), &|_| ());
        let tables: Tables = builders.finish().unwrap();
        let facts = Facts::new(&prepared, &counts);
        let scope = Scope::new(facts, &tables, &Selection::default()).unwrap();
        let (start_ns, end_ns) = (prepared.config.start_ns, prepared.config.end_ns);
        let quarter = (end_ns - start_ns) / 4;
        let span = Span {
            start_ns: start_ns + quarter,
            end_ns: end_ns - quarter,
            last_task: None,
        };
        let crossing = Costs::measure(&scope).unwrap();
        let json = |rows| {
            let path = by_segments(&scope, &span, rows).unwrap().with(&crossing);
            check(&path, span.end_ns - span.start_ns);
            serde_json::to_value(path).unwrap()
        };
        let whole = json(usize::MAX);
        for rows in [100, 1_000, 5_000] {
            let planned = plan(&scope, span.start_ns, span.end_ns, rows).unwrap();
            assert!(planned.len() > 1, "{name} in segments of {rows}");
            assert_eq!(json(rows), whole, "{name} in segments of {rows}");
        }
    }
}
