//! Interrupts and flushes of hand-made tables.

use crate::attribute::Selection;
use crate::attribute::answer::{Ipis, Known};
use crate::attribute::testing::{Rig, fill, flush, ipi, task, wakeup};
use crate::replay::rows::{FlushRow, IpiRow, Sink, TaskId, WakeupRow};
use crate::replay::words::{FlushReason, IpiFate, IpiKind, IpiRoad, Path};
use crate::tables::Budget;
use crate::topology::Distance;
use ttwu_parsers::symbols::Symbols;

const SENDS: &[(&str, &str)] = &[("ipi", "ipi_send_cpu"), ("csd", "csd_queue_cpu")];
const HANDLERS: &[(&str, &str)] = &[
    ("irq_vectors", "reschedule_exit"),
    ("csd", "csd_function_exit"),
];
const FLUSHES: &[(&str, &str)] = &[("tlb", "tlb_flush")];

/// Two threads of process 10, and one of process 20.
fn rig(ipis: &[IpiRow], flushes: &[FlushRow], wakeups: &[WakeupRow]) -> Rig {
    // Batches of three rows: what is found in several is joined.
    let budget = Budget {
        batch_rows: 3,
        ..Budget::default()
    };
    let rig = Rig::with_budget(budget, |sink| {
        let mut tasks = [
            task(0, 10, "main"),
            task(1, 11, "thread"),
            task(2, 20, "other"),
        ];
        tasks[1].tgid = Some(10);
        fill(sink, wakeups, &[], &tasks);
        ipis.iter().for_each(|row| sink.ipi(row));
        flushes.iter().for_each(|row| sink.flush(row));
    });
    rig.recording(SENDS).recording(HANDLERS).recording(FLUSHES)
}

fn told(rig: &Rig) -> Ipis {
    told_of(rig, &Selection::default())
}

fn told_of(rig: &Rig, selection: &Selection) -> Ipis {
    let scope = rig.scope(selection).unwrap();
    match super::ipis(&scope).unwrap() {
        Known::Value(ipis) => ipis,
        Known::Unknown { unknown } => panic!("{unknown}"),
    }
}

fn json(of: impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(of).unwrap()
}

fn all_kinds() -> Vec<IpiRow> {
    let with = |row: IpiRow, change: fn(&mut IpiRow)| {
        let mut row = row;
        change(&mut row);
        row
    };
    vec![
        with(ipi(IpiKind::Wakeup, 10, 100), |row| row.wakeups = 3),
        with(ipi(IpiKind::Wakeup, 30, 50), |row| {
            (row.interrupted, row.on_idle, row.wakeups) = (None, Some(true), 1);
        }),
        with(ipi(IpiKind::Tlb, 20, 7), |row| {
            row.distance = Distance::Node
        }),
        with(ipi(IpiKind::Tlb, 25, 0), |row| {
            (row.fate, row.handler_ns, row.interrupted, row.on_idle) =
                (IpiFate::Coalesced, None, None, None);
        }),
        with(ipi(IpiKind::Reschedule, 0, 0), |row| {
            (row.fate, row.latency_ns, row.handler_ns) = (IpiFate::Unanswered, None, None);
            (row.interrupted, row.on_idle) = (None, None);
        }),
        with(ipi(IpiKind::Call, 40, 5), |row| {
            row.interrupted = Some(TaskId(2))
        }),
        with(ipi(IpiKind::Tlb, 22, 11), |row| row.road = IpiRoad::Queue),
        with(ipi(IpiKind::Wakeup, 0, 0), |row| {
            (row.road, row.fate) = (IpiRoad::Polled, IpiFate::Unknown);
            (row.latency_ns, row.handler_ns, row.interrupted, row.on_idle) =
                (None, None, None, None);
        }),
        with(ipi(IpiKind::Call, 0, 2), |row| {
            (row.road, row.cpu, row.latency_ns) = (IpiRoad::Handler, None, None);
            (row.interrupted, row.on_idle, row.handler_ns) = (None, None, Some(2));
        }),
        with(ipi(IpiKind::Call, 99, 99), |row| row.in_window = false),
    ]
}

#[test]
fn sums_meet_their_totals() {
    let ipis = told(&rig(&all_kinds(), &[], &[]));
    assert_eq!((ipis.counted, ipis.total), ("sends", 6));
    for by in [&ipis.by_kind, &ipis.by_distance, &ipis.by_fate] {
        assert_eq!(by.values().sum::<u64>(), 6);
    }
    assert_eq!(
        json(&ipis.by_kind),
        json(serde_json::json!({
            "wakeup": 2, "wakeup_reschedule": 0, "reschedule": 1, "tlb": 2, "call": 1, "irq_work": 0, "other": 0
        }))
    );
    assert_eq!((ipis.by_distance["llc"], ipis.by_distance["node"]), (5, 1));
    let fates = ["handled", "coalesced", "unanswered"].map(|fate| ipis.by_fate[fate]);
    assert_eq!(fates, [4, 1, 1]);
    assert_eq!((ipis.polled.total, ipis.polled.by_kind["wakeup"]), (1, 1));
    let queued = ipis.queued.value().unwrap();
    assert_eq!((queued.total, queued.by_kind["tlb"]), (1, 1));
}

#[test]
fn stolen_time_is_the_interrupted_tasks() {
    let ipis = told(&rig(&all_kinds(), &[], &[]));
    let handlers = ipis.handlers.value().unwrap();
    // The function's 11 ns are beside its interrupt's 7.
    assert_eq!(handlers.stolen_ns, 100 + 7 + 5 + 11);
    assert_eq!((handlers.idle_ns, handlers.unknown_ns), (50, 2));
    assert_eq!(handlers.ns, 175);
    assert_eq!((handlers.count, handlers.unexplained), (5, 1));
    assert_eq!(ipis.stolen_ns, Known::Value(123));
    let by_kind = ipis.stolen_by_kind_ns.value().unwrap();
    assert_eq!(by_kind.values().sum::<i64>(), 123);
    assert_eq!(
        (by_kind["wakeup"], by_kind["tlb"], by_kind["call"]),
        (100, 18, 5)
    );
    let worst: Vec<_> = ipis
        .stolen_from
        .iter()
        .map(|t| (t.name.as_str(), t.ns, t.handlers, t.tlb_ns))
        .collect();
    assert_eq!(worst, [("thread", 118, 2, 18), ("other", 5, 1, 0)]);
    let latency = ipis.latency_ns.value().unwrap();
    assert_eq!((latency.count, latency.p50, latency.max), (5, 25, 40));
    assert_eq!(ipis.latency_by_kind_ns["tlb"].value().unwrap().count, 2);
    assert!(ipis.latency_by_kind_ns["reschedule"].value().is_none());
}

#[test]
fn paths_have_both_sides() {
    let woken = |path, cost| WakeupRow {
        path,
        waker_cost_ns: Some(cost),
        ..wakeup()
    };
    let woken = [
        woken(Path::QueuedIpi, 5),
        woken(Path::QueuedIpi, 7),
        woken(Path::QueuedCoalesced, 3),
        woken(Path::DirectIpi, 20),
        woken(Path::Local, 9),
    ];
    let ipis = told(&rig(&all_kinds(), &[], &woken));
    let queued = &ipis.paths["queued-ipi"];
    assert_eq!(queued.wakeups, 2);
    assert_eq!(queued.waker_cost_total_ns, Known::Value(12));
    assert_eq!(queued.interrupts, Known::Value(2));
    assert_eq!(queued.wakeups_per_interrupt, Known::Value(2.0));
    assert_eq!(
        (&queued.stolen_ns, &queued.idle_ns),
        (&Known::Value(100), &Known::Value(50))
    );
    let direct = &ipis.paths["direct-ipi"];
    assert_eq!((direct.wakeups, &direct.interrupts), (1, &Known::Value(0)));
    for path in ["queued-coalesced", "local"] {
        assert_eq!(ipis.paths[path].interrupts, Known::Value(0), "{path}");
    }
    assert_eq!(ipis.paths["local"].waker_cost_total_ns, Known::Value(9));
    assert!(ipis.paths["unknown"].interrupts.value().is_none());
}

#[test]
fn before_6_4_handlers_are_counted() {
    let mut rows = all_kinds();
    rows.retain(|row| row.road == IpiRoad::Handler);
    let rig = Rig::new(|sink| rows.iter().for_each(|row| sink.ipi(row))).recording(HANDLERS);
    let ipis = told(&rig);
    assert_eq!(
        (ipis.counted, ipis.total, ipis.by_kind["call"]),
        ("handlers", 1, 1)
    );
    assert!(ipis.latency_ns.value().is_none() && ipis.queued.value().is_none());
    assert!(ipis.paths["direct-ipi"].stolen_ns.value().is_none());
    assert_eq!(ipis.paths["queued-ipi"].interrupts, Known::Value(0));
    // Sends alone have no latency, and steal nothing that one could tell.
    let rig = Rig::new(|_| ()).recording(SENDS);
    let ipis = told(&rig);
    assert!(ipis.stolen_ns.value().is_none() && ipis.handlers.value().is_none());
    assert!(ipis.tlb.value().is_none());
    let nothing = Rig::new(|_| ());
    let scope = nothing.scope(&Selection::default()).unwrap();
    assert!(super::ipis(&scope).unwrap().value().is_none());
}

#[test]
fn functions_have_the_kernels_names() {
    let called = |kind, callback, callsite, road| IpiRow {
        callback,
        callsite,
        road,
        ..ipi(kind, 1, 1)
    };
    let rows = [
        called(IpiKind::Call, 0x900, 0x110, IpiRoad::Interrupt),
        called(IpiKind::Call, 0x900, 0x120, IpiRoad::Interrupt),
        called(IpiKind::Call, 0x500, 0x110, IpiRoad::Queue),
        called(IpiKind::Reschedule, 0, 0x210, IpiRoad::Interrupt),
    ];
    let mut rig = rig(&rows, &[], &[]);
    let functions = |rig: &Rig| {
        let functions = told(rig).functions;
        let text = |known: &Known<String>| known.value().cloned();
        functions
            .iter()
            .map(|f| {
                (
                    f.kind,
                    text(&f.function),
                    text(&f.callsite),
                    f.interrupts,
                    f.queued,
                )
            })
            .collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    // Without symbols there are addresses.
    let found = functions(&rig);
    assert!(found.contains(&("call", some("0x500"), some("0x110"), 0, 1)));
    assert_eq!(found.len(), 4);
    let list = b"100 T smp_send\n200 t tick\n500 t work\n900 T generic\n";
    rig.config.ipis.symbols = Symbols::parse(list);
    rig.config.ipis.generic_function = Some(0x900);
    assert_eq!(
        functions(&rig),
        [
            ("call", None, some("smp_send"), 2, 0),
            ("reschedule", None, some("tick"), 1, 0),
            ("call", some("work"), some("smp_send"), 0, 1),
        ]
    );
}

#[test]
fn flushes_are_told_by_size_target_and_process() {
    let remote = FlushReason::RemoteSend;
    let local = FlushReason::LocalMmShootdown;
    let ranged = |mut row: FlushRow, range| {
        row.range_pages = Some(range);
        row
    };
    let mut alone = flush(FlushReason::Other, 0, 0, None);
    (alone.pages, alone.targets) = (None, None);
    let mut others = flush(local, 3, 0, None);
    others.task = Some(TaskId(2));
    let mut outside = flush(remote, 1, 1, Some(1));
    outside.in_window = false;
    let flushes = [
        flush(remote, 1, 1, Some(40)),
        flush(remote, 33, 3, Some(60)),
        ranged(flush(remote, -1, 2, None), 200),
        ranged(flush(local, -1, 0, None), -1),
        flush(local, 0, 0, None),
        flush(remote, 2, 0, None),
        ranged(alone, 5),
        others,
        outside,
    ];
    let mut rig = rig(&all_kinds(), &flushes, &[]);
    rig.counts.tlb_flushes = [9, 3, 0, 3, 4, 0, 0];
    let ipis = told(&rig);
    let tlb = ipis.tlb.value().unwrap();
    assert_eq!((tlb.flushes, tlb.remote, tlb.local), (7, 4, 3));
    assert_eq!((tlb.full, tlb.empty), (2, 1));
    // Sizes, full and empty ones are all.
    assert_eq!(tlb.pages_log2, [1, 2, 0, 0, 0, 1]);
    assert_eq!(tlb.pages_log2.iter().sum::<u64>() + 3, tlb.flushes);
    assert_eq!((tlb.censored_above_pages, tlb.ceiling_assumed), (33, true));
    let ranges = tlb.ranges.value().unwrap();
    assert_eq!((ranges.count, ranges.whole), (3, 1));
    assert_eq!((ranges.made_full, ranges.unannounced), (1, 1));
    assert_eq!(ranges.pages_log2, [0, 0, 1, 0, 0, 0, 0, 1]);
    assert_eq!(tlb.targets, Known::Value(6));
    assert_eq!(tlb.targets_log2, Known::Value(vec![1, 2]));
    assert_eq!(tlb.untargeted, Known::Value(1));
    assert_eq!(tlb.initiator_wait_total_ns, Known::Value(100));
    let wait = tlb.initiator_wait_ns.value().unwrap();
    assert_eq!((wait.count, wait.p50, wait.max), (2, 40, 60));
    assert_eq!(tlb.victims_ns, Known::Value(18));
    assert_eq!(tlb.by_reason["task_switch"], 9);
    let distances = tlb.ipis_by_distance.value().unwrap();
    assert_eq!((distances["llc"], distances["node"]), (1, 1));
    let processes: Vec<_> = tlb
        .processes
        .iter()
        .map(|p| {
            (
                p.name.as_str(),
                p.pid,
                p.flushes,
                p.remote,
                p.wait_ns,
                p.victim_ns,
            )
        })
        .collect();
    assert_eq!(
        processes,
        [("main", 10, 6, 4, 100, 18), ("other", 20, 1, 0, 0, 0)]
    );
}

#[test]
fn a_wait_that_was_not_seen_is_unknown() {
    let remote = FlushReason::RemoteSend;
    let unseen = [flush(remote, 1, 2, None)];
    let why = |rig: &Rig| match told(rig).tlb.value().unwrap().initiator_wait_ns.clone() {
        Known::Unknown { unknown } => unknown,
        Known::Value(wait) => panic!("{wait:?}"),
    };
    assert!(why(&rig(&[], &unseen, &[])).contains("not every acknowledgement"));
    let fill = |sink: &mut crate::tables::Filler| unseen.iter().for_each(|row| sink.flush(row));
    let plain = Rig::new(fill).recording(FLUSHES).recording(&SENDS[..1]);
    assert!(why(&plain).contains("csd_function_exit"));
    let asked_nobody = rig(&[], &[flush(remote, 1, 0, None)], &[]);
    assert!(why(&asked_nobody).contains("no flush was seen to ask"));
    // Without sends, whom it asked is not known either.
    let old = Rig::new(|_| ()).recording(FLUSHES).recording(HANDLERS);
    let tlb = told(&old).tlb;
    assert!(tlb.value().unwrap().targets.value().is_none());
}

#[test]
fn selections_keep_what_goes_to_a_cpu_or_concerns_a_task() {
    let mut elsewhere = ipi(IpiKind::Call, 1, 1);
    (elsewhere.target_cpu, elsewhere.task, elsewhere.interrupted) = (3, None, Some(TaskId(2)));
    let rig = rig(&[ipi(IpiKind::Tlb, 1, 1), elsewhere], &[], &[]);
    let of = |cpus: Option<Vec<u32>>, task: Option<&str>| {
        let selection = Selection {
            cpus,
            task: task.map(str::to_owned),
            ..Selection::default()
        };
        let ipis = told_of(&rig, &selection);
        (ipis.by_kind["tlb"], ipis.by_kind["call"])
    };
    assert_eq!(of(Some(vec![1]), None), (1, 0));
    assert_eq!(of(Some(vec![3]), None), (0, 1));
    assert_eq!(of(None, Some("main")), (1, 0));
    assert_eq!(of(None, Some("thread")), (1, 0));
    assert_eq!(of(None, Some("other")), (0, 1));
    assert_eq!(of(Some(vec![1]), Some("other")), (0, 0));
}
