//! Wakeups by class, path, distance, waker and CPU, and how long they took.

use std::collections::BTreeMap;

use super::answer::{ByDistance, ByWord, Known, LatencyByDistance, ProbeCheck, Quantiles, Wakeups};
use super::census::{Census, Kind, Latency, ToldBy};
use super::ledger::with_llcs;
use super::quantiles::{P50, P99, quantiles, rank};
use super::scope::Scope;
use crate::replay::words::{Class, Path, Waker};
use crate::topology::Distance;

/// Most words of an enumeration that latencies are told by.
const WORDS: usize = 8;

/// Everything about the wakeups that count.
///
/// Reorders the census' unsorted durations.
pub fn wakeups(scope: &Scope, census: &mut Census) -> Wakeups {
    let queue = lacking(scope, &["sched_wakeup", "sched_switch"]);
    let queue_ns = quantiles(&mut census.queues_ns, &queue);
    let cost = lacking(scope, &["sched_waking", "sched_wakeup"]);
    let waker_cost_ns = quantiles(&mut census.waker_costs_ns, &cost);
    let census = &*census;
    let distances = |by| {
        let found = latencies_by(&census.latencies, by);
        by_distance(|code| latency_of(&found, code))
    };
    let counts = |of: fn(&Kind) -> u8| by_distance(|code| census.count(|kind| of(kind) == code));
    let paths = latencies_by(&census.latencies, ToldBy::Path);
    Wakeups {
        total: census.total(),
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
        latency_ns: all_latencies(scope, &census.latencies),
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

fn all_latencies(scope: &Scope, sorted: &[Latency]) -> Known<Quantiles> {
    let count = sorted.len() as u64;
    let at = |rank: u64| {
        let latency = sorted.get(usize::try_from(rank.checked_sub(1)?).ok()?)?;
        Some(latency.ns())
    };
    match (at(rank(count, P50)), at(rank(count, P99)), at(count)) {
        (Some(p50), Some(p99), Some(max)) => Known::Value(Quantiles {
            count,
            p50,
            p99,
            max,
        }),
        _ => Known::unknown(lacking(scope, &["sched_waking", "sched_switch"])),
    }
}

/// The quantiles of sorted latencies by code.
fn latencies_by(sorted: &[Latency], by: ToldBy) -> [Option<Quantiles>; WORDS] {
    let mut counts = [0_u64; WORDS];
    for latency in sorted {
        counts[latency.code(by)] += 1;
    }
    let ranks = counts.map(|count| [rank(count, P50), rank(count, P99), count]);
    let mut found = counts.map(|count| Quantiles {
        count,
        p50: 0,
        p99: 0,
        max: 0,
    });
    let mut met = [0_u64; WORDS];
    for latency in sorted {
        let code = latency.code(by);
        met[code] += 1;
        let [p50, p99, max] = ranks[code];
        let found = &mut found[code];
        if met[code] == p50 {
            found.p50 = latency.ns();
        }
        if met[code] == p99 {
            found.p99 = latency.ns();
        }
        if met[code] == max {
            found.max = latency.ns();
        }
    }
    found.map(|quantiles| (quantiles.count > 0).then_some(quantiles))
}

fn latency_of(by_code: &[Option<Quantiles>; WORDS], code: u8) -> Known<Quantiles> {
    match by_code.get(usize::from(code)).copied().flatten() {
        Some(quantiles) => Known::Value(quantiles),
        None => Known::unknown("no such wakeup has a latency"),
    }
}

fn per_waker_cpu(scope: &Scope, census: &Census) -> BTreeMap<String, u64> {
    let cpus = scope.facts.machine.cpus.ids().iter();
    let mut counts: BTreeMap<String, u64> = cpus.map(|cpu| (cpu.to_string(), 0)).collect();
    for (cpu, count) in &census.per_waker_cpu {
        let name = cpu.map_or_else(|| "unknown".to_owned(), |cpu| cpu.to_string());
        *counts.entry(name).or_default() += count;
    }
    counts
}

/// The share of wakeups across LLCs among those of which both LLCs are known.
fn cross_llc_share(scope: &Scope, census: &Census) -> Known<f64> {
    if let Some(reason) = scope.facts.llcs_unknown() {
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
        0 => Known::unknown("the trace holds no probe of select_task_rq_fair"),
        checked => Known::Value(ProbeCheck {
            checked,
            prev_equal: counts.probes_prev_equal,
            chosen_equal: counts.probes_chosen_equal,
        }),
    }
}
