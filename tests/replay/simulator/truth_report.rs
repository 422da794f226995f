//! What a report should say in sum, by its dotted names.

use std::collections::BTreeMap;

use super::notes::State;
use super::timeline::{READS, Read, Timeline};
use super::truth_ledger::ledger;
use super::truth_waits::waits;
use super::truth_wakeups::wakeups;

/// Numbers by name.
pub type Numbers = BTreeMap<String, i64>;

fn add(numbers: &mut Numbers, name: String, more: i64) {
    *numbers.entry(name).or_default() += more;
}

fn word(read: Read) -> &'static str {
    match read {
        Read::Seen => "seen",
        Read::Any => "any",
    }
}

/// Every number that is exact and adds up: of a run without losses.
pub fn report(timeline: &Timeline) -> Numbers {
    let mut all = Numbers::new();
    count_ledger(timeline, &mut all);
    count_wakeups(timeline, &mut all);
    count_waits(timeline, &mut all);
    count_withheld(timeline, &mut all);
    count_recorder(timeline, &mut all);
    all
}

/// What the recorder's own threads did, if there are any.
fn count_recorder(timeline: &Timeline, all: &mut Numbers) {
    let notes = &timeline.notes.tasks;
    if !notes.iter().any(|note| note.recorder) {
        return;
    }
    let of = |pid: i32| notes.iter().any(|note| note.pid == pid && note.recorder);
    let spans = timeline.spans.iter().zip(notes);
    let spans = spans.filter(|(_, note)| note.recorder);
    let running = spans.flat_map(|(spans, _)| spans);
    let running = running.filter(|span| matches!(span.state, State::Running(_)));
    let running = running.map(|span| span.to - span.from).sum();
    let woke = wakeups(timeline);
    let woke = woke.iter().filter(|w| of(w.pid) || w.waker.is_some_and(of));
    let waited = waits(timeline);
    let waited = waited.iter().filter(|wait| of(wait.pid));
    for (name, number) in [
        ("running_ns", running),
        ("wakeups", woke.count() as i64),
        ("waits", waited.count() as i64),
    ] {
        add(all, format!("trace.recorder.{name}"), number);
    }
}

fn count_ledger(timeline: &Timeline, all: &mut Numbers) {
    let total = (timeline.end - timeline.start) * timeline.machine.cpus() as i64;
    add(all, "ledger.total_ns".into(), total);
    add(all, "ledger.unknown_ns".into(), 0);
    for read in READS {
        let truth = ledger(timeline, read);
        let reading = word(read);
        if read == Read::Any {
            add(all, "ledger.running_ns".into(), truth.running);
            add(all, "ledger.transit_ns".into(), truth.transit);
        }
        add(
            all,
            format!("ledger.waiting_llc_ns.core.{reading}"),
            truth.core,
        );
        add(
            all,
            format!("ledger.waiting_llc_ns.smt.{reading}"),
            truth.smt,
        );
        if truth.machine.0 == truth.machine.1 {
            let near = truth.core + truth.smt;
            let idle = total - truth.running - truth.transit - near - truth.machine.0;
            add(
                all,
                format!("ledger.waiting_machine_ns.{reading}"),
                truth.machine.0,
            );
            add(all, format!("ledger.idle_ns.{reading}"), idle);
        }
    }
}

fn count_wakeups(timeline: &Timeline, all: &mut Numbers) {
    for name in [
        "wakeups.total",
        "sis.selections",
        "sis.success",
        "sis.failures",
    ] {
        add(all, name.into(), 0);
    }
    let notes = &timeline.notes.tasks;
    let wakeups = wakeups(timeline);
    let paths_known = wakeups.iter().all(|wakeup| wakeup.path.is_some());
    for wakeup in wakeups {
        add(all, "wakeups.total".into(), 1);
        add(all, format!("wakeups.by_class.{}", wakeup.class), 1);
        if let Some(path) = wakeup.path.filter(|_| paths_known) {
            add(all, format!("wakeups.by_path.{path}"), 1);
        }
        add(all, format!("wakeups.by_waker.{}", wakeup.context), 1);
        let kinds = ["waker_chosen", "prev_chosen", "waker_prev"];
        for (kind, distance) in kinds.into_iter().zip(wakeup.distances) {
            add(all, format!("wakeups.by_distance.{kind}.{distance}"), 1);
        }
        let cpu = wakeup
            .waker_cpu
            .map_or("unknown".to_owned(), |cpu| cpu.to_string());
        add(all, format!("wakeups.per_waker_cpu.{cpu}"), 1);
        let recorder = |pid: i32| notes.iter().any(|note| note.pid == pid && note.recorder);
        if recorder(wakeup.pid) || wakeup.waker.is_some_and(recorder) {
            continue;
        }
        if wakeup.selection == Some(true) {
            let found = if wakeup.chosen_idle {
                "success"
            } else {
                "failures"
            };
            add(all, "sis.selections".into(), 1);
            add(all, format!("sis.{found}"), 1);
        }
    }
}

/// The words, so that what never happened is 0.
const VERDICTS: [&str; 14] = [
    "recorder",
    "transit",
    "no-selection",
    "affinity",
    "policy",
    "kthread-stack",
    "stacked-prev",
    "stacked-pull",
    "prev",
    "other",
    "other-llc",
    "raced",
    "late-idle",
    "saturated",
];
const ORIGINS: [&str; 4] = ["wakeup", "new", "preempted", "balanced"];

fn count_waits(timeline: &Timeline, all: &mut Numbers) {
    add(all, "waits.count".into(), 0);
    add(all, "waits.total_ns".into(), 0);
    for verdict in VERDICTS {
        for read in READS {
            add(
                all,
                format!("waits.by_verdict.{verdict}.count.{}", word(read)),
                0,
            );
        }
    }
    for origin in ORIGINS {
        add(all, format!("waits.by_origin.{origin}.count"), 0);
    }
    for wait in waits(timeline) {
        add(all, "waits.count".into(), 1);
        add(all, "waits.total_ns".into(), wait.wait_ns);
        let origin = format!("waits.by_origin.{}", wait.origin);
        add(all, format!("{origin}.count"), 1);
        add(all, format!("{origin}.wait_ns"), wait.wait_ns);
        for (read, verdict) in READS.into_iter().zip(wait.verdicts) {
            let of = format!("waits.by_verdict.{verdict}");
            add(all, format!("{of}.count.{}", word(read)), 1);
            add(all, format!("{of}.wait_ns.{}", word(read)), wait.wait_ns);
        }
    }
}

fn count_withheld(timeline: &Timeline, all: &mut Numbers) {
    let spans = timeline.spans.iter().flatten();
    let withheld: Vec<i64> = spans
        .filter(|span| matches!(span.state, State::Withheld(_)))
        .map(|span| span.to - span.from)
        .collect();
    add(all, "waits.withheld.count".into(), withheld.len() as i64);
    add(all, "waits.withheld.ns".into(), withheld.iter().sum());
}
