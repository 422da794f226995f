//! Wakeups by class, path, distance, waker and CPU, and how long they took.

use std::collections::BTreeMap;

use super::answer::{
    ByDistance, ByWord, Known, LatencyByDistance, ProbeCheck, Probed, Quantiles, Wakeups,
};
use super::census::{Census, Kind, ToldBy, WORDS};
use super::fitness::share;
use super::ledger::with_llcs;
use super::scope::Scope;
use crate::replay::words::{Class, Path, Waker};
use crate::topology::Distance;

/// Everything about the wakeups that count.
///
/// Reorders the census' unsorted durations.
pub fn wakeups(scope: &Scope, census: &mut Census) -> Wakeups {
    let queue_ns = known(census.queues_ns.quantiles(), || {
        lacking(scope, &["sched_wakeup", "sched_switch"])
    });
    let waker_cost_ns = known(census.waker_costs_ns.quantiles(), || {
        lacking(scope, &["sched_waking", "sched_wakeup"])
    });
    let census = &*census;
    let distances = |by| {
        let found = census.latencies_by(by);
        by_distance(|code| latency_of(&found, code))
    };
    let counts = |of: fn(&Kind) -> u8| by_distance(|code| census.count(|kind| of(kind) == code));
    let paths = census.latencies_by(ToldBy::Path);
    let latencies = census.all_latencies();
    Wakeups {
        total: census.total(),
        coverage: share(latencies.map_or(0, |all| all.count), census.total()),
        by_class: by_word(Class::ALL, Class::as_str, |word| {
            census.count(|kind| kind.class == word.code())
        }),
        by_path: by_word(Path::ALL, Path::as_str, |word| {
            census.count(|kind| kind.path == word.code())
        }),
        per_waker_cpu: per_waker_cpu(scope, census),
        by_distance: ByDistance {
            waker_chosen: counts(|kind| kind.waker_chosen),
            prev_chosen: counts(|kind| kind.prev_chosen),
            waker_prev: counts(|kind| kind.waker_prev),
        },
        by_waker: by_word(Waker::ALL, Waker::as_str, |word| {
            census.count(|kind| kind.context == word.code())
        }),
        latency_ns: known(latencies, || {
            lacking(scope, &["sched_waking", "sched_switch"])
        }),
        queue_ns,
        waker_cost_ns,
        latency_by_path_ns: by_word(Path::ALL, Path::as_str, |word| {
            latency_of(&paths, word.code())
        }),
        latency_by_distance_ns: LatencyByDistance {
            waker_chosen: distances(ToldBy::WakerChosen),
            prev_chosen: distances(ToldBy::PrevChosen),
            waker_prev: distances(ToldBy::WakerPrev),
        },
        cross_llc_share: cross_llc_share(scope, census),
        smt_shared: smt_shared(scope, census),
        probe_check: probe_check(scope),
        probed: probed(scope),
    }
}

/// A number for each word of an enumeration.
pub fn by_word<W: Copy, T>(
    words: &[W],
    name: fn(W) -> &'static str,
    of: impl Fn(W) -> T,
) -> ByWord<T> {
    words.iter().map(|&word| (name(word), of(word))).collect()
}

/// A number for each distance, by its code.
pub fn by_distance<T>(of: impl Fn(u8) -> T) -> ByWord<T> {
    by_word(&Distance::ALL, Distance::as_str, |distance| {
        of(distance as u8)
    })
}

/// Why there is no duration: which of the events it needs is not recorded.
pub fn lacking(scope: &Scope, needed: &[&str]) -> String {
    let missing = needed
        .iter()
        .find(|name| scope.facts.recorded(name).unwrap_or(0) == 0);
    match missing {
        Some(name) => format!("the trace holds no {name}"),
        None => "no wakeup that counts shows it".to_owned(),
    }
}

/// Quantiles, or why there are none.
pub fn known(quantiles: Option<Quantiles>, why: impl FnOnce() -> String) -> Known<Quantiles> {
    match quantiles {
        Some(quantiles) => Known::Value(quantiles),
        None => Known::unknown(why()),
    }
}

fn latency_of(by_code: &[Option<Quantiles>; WORDS], code: u8) -> Known<Quantiles> {
    let found = by_code.get(usize::from(code)).copied().flatten();
    known(found, || "no such wakeup has a latency".to_owned())
}

fn per_waker_cpu(scope: &Scope, census: &Census) -> BTreeMap<String, u64> {
    let cpus = scope.facts.machine.cpus.ids().iter();
    let mut counts: BTreeMap<String, u64> = cpus.map(|cpu| (cpu.to_string(), 0)).collect();
    let by_cpu = census.per_waker_cpu.iter().enumerate();
    let named = by_cpu.map(|(cpu, count)| (cpu.to_string(), *count));
    let unknown = ("unknown".to_owned(), census.unknown_waker_cpu);
    for (name, count) in named.chain([unknown]).filter(|(_, count)| *count > 0) {
        *counts.entry(name).or_default() += count;
    }
    counts
}

/// The share of wakeups across LLCs among those of which both LLCs are known.
fn cross_llc_share(scope: &Scope, census: &Census) -> Known<f64> {
    if let Some(reason) = scope.facts.crossing_unknown() {
        return Known::unknown(reason);
    }
    let crossing = census.count(|kind| kind.cross_llc == Some(true));
    match census.count(|kind| kind.cross_llc.is_some()) {
        0 => Known::unknown("no wakeup that counts has a waker's and a chosen CPU of known LLCs"),
        known => Known::Value(crossing as f64 / known as f64),
    }
}

fn smt_shared(scope: &Scope, census: &Census) -> Known<u64> {
    if scope.facts.topology().is_known() && scope.facts.topology().cores().is_none() {
        return Known::unknown(format!(
            "{} does not tell SMT siblings",
            scope.facts.topology().source()
        ));
    }
    with_llcs(scope, || census.count(|kind| kind.smt_shared))
}

fn probe_check(scope: &Scope) -> Known<ProbeCheck> {
    let counts = scope.facts.counts;
    match counts.probes_checked {
        0 => Known::unknown(NO_PROBE),
        checked => Known::Value(ProbeCheck {
            checked,
            prev_equal: counts.probes_prev_equal,
            chosen_equal: counts.probes_chosen_equal,
        }),
    }
}

const NO_PROBE: &str = "the trace holds no probe of select_task_rq_fair";

fn probed(scope: &Scope) -> Known<Probed> {
    let counts = scope.facts.counts;
    if counts.probes_checked == 0 {
        return Known::unknown(NO_PROBE);
    }
    Known::Value(Probed {
        selections: counts.probes_checked,
        sync: match counts.probes_sync {
            Some(sync) => Known::Value(sync),
            None => Known::unknown("the probe does not show it, or the kernel is older than 5.11"),
        },
        masks: counts.probes_masks,
        flips_max: match counts.probes_flips_max {
            Some(flips) => Known::Value(flips),
            None => Known::unknown("the probe does not show it"),
        },
    })
}
