//! The waker/wakee pairs that lost and waited most, each with its paths, distances and latency.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{ByWord, Known, PairFacts};
use super::census::with_window;
use super::ledger::with_llcs;
use super::quantiles::quantiles;
use super::scope::{Scope, is_member, lost_column, members};
use super::stack_spread::{self, Machine, Samples};
use super::wakeups::{by_distance, by_word, lacking};
use crate::replay::words::{Pair, Path, Reading, Verdict};
use crate::topology::Distance;

/// What all wakeups of a pair sum to.
#[derive(Debug, Clone, Copy)]
struct Worst {
    waker: u32,
    wakee: u32,
    wakeups: u64,
    wait_ns: i64,
    lost_ns: Pair<i64>,
}

/// What the counted wakeups of a pair show.
#[derive(Debug, Default)]
struct Seen {
    by_path: [u64; 8],
    waker_chosen: [u64; 8],
    /// Wakeups within one LLC, and across.
    llc: [u64; 2],
    stacked: Pair<u64>,
    latencies_ns: Vec<i64>,
    samples: Samples,
}

/// The worst pairs of a scope: by lost time, then waiting time. A task that woke itself is no pair.
pub fn pairs(scope: &Scope) -> PolarsResult<Vec<PairFacts>> {
    let worst = worst(scope)?;
    if worst.is_empty() {
        return Ok(Vec::new());
    }
    let seen = look_at(scope, &worst)?;
    let names = names(scope, &worst)?;
    let machine = Machine::measure(scope)?;
    let facts = worst.iter().zip(seen);
    Ok(facts
        .map(|(worst, seen)| facts_of(scope, worst, seen, &names, &machine))
        .collect())
}

/// The number of a pair: two task numbers in one.
fn key() -> Expr {
    col("waker").cast(DataType::UInt64) * lit(1_u64 << 32) + col("wakee").cast(DataType::UInt64)
}

fn worst(scope: &Scope) -> PolarsResult<Vec<Worst>> {
    let by = lost_column(scope.ranking());
    let order = SortMultipleOptions::default()
        .with_order_descending_multi([true, true, true, false])
        .with_maintain_order(true);
    let frame = scope
        .wakeups()?
        .filter(col("waker").is_not_null().and(col("waker").neq(col("wakee"))))
        .group_by([key().alias("pair")])
        .agg([
            col("in_window").sum().cast(DataType::UInt64).alias("wakeups"),
            col("wait_ns").sum(),
            col("lost_seen_ns").sum(),
            col("lost_any_ns").sum(),
        ])
        .filter(col("wakeups").gt(lit(0_u64)).or(col("wait_ns").gt(lit(0_i64))))
        .sort([by, "wait_ns", "wakeups", "pair"], order)
        .limit(IdxSize::try_from(scope.top).unwrap_or(IdxSize::MAX))
        .collect()?;
    let keys = frame.column("pair")?.u64()?.iter();
    let wakeups = frame.column("wakeups")?.u64()?.iter();
    let waits = frame.column("wait_ns")?.i64()?.iter();
    let seen = frame.column("lost_seen_ns")?.i64()?.iter();
    let any = frame.column("lost_any_ns")?.i64()?.iter();
    let rows = keys.zip(wakeups).zip(waits).zip(seen).zip(any);
    let worst = rows.filter_map(|((((key, wakeups), wait), seen), any)| {
        Some(Worst {
            waker: (key? >> 32) as u32,
            wakee: key? as u32,
            wakeups: wakeups?,
            wait_ns: wait?,
            lost_ns: Pair([seen?, any?]),
        })
    });
    Ok(worst.collect())
}

/// Goes through the counted wakeups of these pairs, column by column.
fn look_at(scope: &Scope, worst: &[Worst]) -> PolarsResult<Vec<Seen>> {
    let frame = rows_of(scope, worst)?;
    let slots: FxHashMap<(u32, u32), usize> = worst
        .iter()
        .enumerate()
        .map(|(slot, pair)| ((pair.waker, pair.wakee), slot))
        .collect();
    let wakers = frame.column("waker")?.u32()?.iter();
    let wakees = frame.column("wakee")?.u32()?.iter();
    let slots: Vec<Option<usize>> = wakers
        .zip(wakees)
        .map(|pair| slots.get(&(pair.0?, pair.1?)).copied())
        .collect();
    let mut seen: Vec<Seen> = worst.iter().map(|_| Seen::default()).collect();
    let mut each = |values: &mut dyn Iterator<Item = Option<i64>>, take: fn(&mut Seen, i64)| {
        for (slot, value) in slots.iter().zip(values) {
            if let (Some(value), Some(seen)) = (value, slot.and_then(|slot| seen.get_mut(slot))) {
                take(seen, value);
            }
        }
    };
    let codes = |name| -> PolarsResult<_> { Ok(frame.column(name)?.u8()?.iter().map(|code| code.map(i64::from))) };
    let flags = |name| -> PolarsResult<_> { Ok(frame.column(name)?.bool()?.iter().map(|flag| flag.map(i64::from))) };
    let times = |name| -> PolarsResult<_> { Ok(frame.column(name)?.i64()?.iter()) };
    each(&mut codes("path")?, |seen, code| tally(&mut seen.by_path, code));
    each(&mut codes("waker_chosen")?, |seen, code| tally(&mut seen.waker_chosen, code));
    each(&mut flags("cross_llc")?, |seen, flag| tally(&mut seen.llc, flag));
    each(&mut codes("verdict_seen")?, |seen, code| seen.stacked[Reading::Seen] += is_stacked(code));
    each(&mut codes("verdict_any")?, |seen, code| seen.stacked[Reading::Any] += is_stacked(code));
    each(&mut times("latency_ns")?, |seen, ns| seen.latencies_ns.push(ns));
    each(&mut times("away_ns")?, |seen, ns| seen.samples.away_ns.push(ns));
    each(&mut times("overlap_ns")?, |seen, ns| seen.samples.overlaps_ns.push(ns));
    let runs = || -> PolarsResult<_> {
        let runs = frame.column("wakee_run_ns")?.i64()?.iter();
        let prev = frame.column("prev_cpu")?.u16()?.iter();
        let chosen = frame.column("chosen_cpu")?.u16()?.iter();
        Ok(runs.zip(prev.zip(chosen)))
    };
    let topology = scope.facts.topology();
    let crossing = |cpus: (Option<u16>, Option<u16>)| {
        topology.crosses_llc(u32::from(cpus.0?), u32::from(cpus.1?))
    };
    let mut crossed = runs()?.map(|(ns, cpus)| ns.filter(|_| crossing(cpus) == Some(true)));
    each(&mut crossed, |seen, ns| seen.samples.runs_crossing_ns.push(ns));
    let mut stayed = runs()?.map(|(ns, cpus)| ns.filter(|_| crossing(cpus) == Some(false)));
    each(&mut stayed, |seen, ns| seen.samples.runs_staying_ns.push(ns));
    Ok(seen)
}

/// The counted wakeups between any two tasks of these pairs.
fn rows_of(scope: &Scope, worst: &[Worst]) -> PolarsResult<DataFrame> {
    let wakers: Vec<u32> = worst.iter().map(|pair| pair.waker).collect();
    let wakees: Vec<u32> = worst.iter().map(|pair| pair.wakee).collect();
    const PLAIN: [&str; 11] = [
        "waker",
        "wakee",
        "path",
        "waker_chosen",
        "cross_llc",
        "verdict_seen",
        "verdict_any",
        "latency_ns",
        "wakee_run_ns",
        "prev_cpu",
        "chosen_cpu",
    ];
    let away = stack_spread::is_away();
    let uncensored = col("overlap_censored").not();
    let mut columns: Vec<Expr> = PLAIN.iter().map(|name| col(*name)).collect();
    columns.push(when(away).then(col("latency_ns")).otherwise(lit(NULL)).alias("away_ns"));
    columns.push(when(uncensored).then(col("overlap_ns")).otherwise(lit(NULL)).alias("overlap_ns"));
    let wanted = is_member("waker", members(&wakers)).and(is_member("wakee", members(&wakees)));
    let rows = scope.wakeups()?.filter(wanted).select(with_window(scope, columns));
    scope.counted(rows).collect()
}

/// One more of a code.
fn tally<const N: usize>(counts: &mut [u64; N], code: i64) {
    if let Some(count) = usize::try_from(code).ok().and_then(|code| counts.get_mut(code)) {
        *count += 1;
    }
}

fn is_stacked(code: i64) -> u64 {
    let stacked = [Verdict::StackedPrev, Verdict::StackedPull];
    u64::from(stacked.iter().any(|verdict| i64::from(verdict.code()) == code))
}

/// Name and pid by task number.
fn names(scope: &Scope, worst: &[Worst]) -> PolarsResult<FxHashMap<u32, (String, i32)>> {
    let ids: Vec<u32> = worst.iter().flat_map(|pair| [pair.waker, pair.wakee]).collect();
    let frame = scope
        .every_task()?
        .filter(is_member("task", members(&ids)))
        .select([col("task"), col("name"), col("pid")])
        .collect()?;
    let tasks = frame.column("task")?.u32()?.iter();
    let names = frame.column("name")?.str()?.iter();
    let pids = frame.column("pid")?.i32()?.iter();
    let named = tasks.zip(names.zip(pids));
    Ok(named
        .filter_map(|(task, (name, pid))| Some((task?, (name?.to_owned(), pid?))))
        .collect())
}

fn facts_of(
    scope: &Scope,
    worst: &Worst,
    mut seen: Seen,
    names: &FxHashMap<u32, (String, i32)>,
    machine: &Machine,
) -> PairFacts {
    let named = |task| names.get(&task).cloned().unwrap_or_default();
    let (waker, waker_pid) = named(worst.waker);
    let (wakee, wakee_pid) = named(worst.wakee);
    let judgement = stack_spread::judge(&mut seen.samples, machine);
    let why = lacking(scope, &["sched_waking", "sched_switch"]);
    PairFacts {
        waker,
        waker_pid,
        wakee,
        wakee_pid,
        wakeups: worst.wakeups,
        by_path: by_word(Path::ALL, Path::as_str, |path| of_code(&seen.by_path, path.code())),
        waker_chosen: distances(&seen.waker_chosen),
        cross_llc_share: cross_llc_share(scope, &seen),
        latency_ns: quantiles(&mut seen.latencies_ns, &why),
        wait_ns: worst.wait_ns,
        lost_ns: scope.readings(|reading| worst.lost_ns[reading]),
        stacked: with_llcs(scope, || scope.readings(|reading| seen.stacked[reading])),
        overlap_ns: judgement.overlap_ns,
        cost_of_spreading_ns: judgement.cost_ns,
        stack_or_spread: judgement.word,
        stack_or_spread_why: judgement.why,
    }
}

fn of_code(counts: &[u64], code: u8) -> u64 {
    counts.get(usize::from(code)).copied().unwrap_or(0)
}

fn distances(counts: &[u64]) -> ByWord<u64> {
    by_distance(|code| of_code(counts, code))
}

fn cross_llc_share(scope: &Scope, seen: &Seen) -> Known<f64> {
    if let Some(reason) = scope.facts.llcs_unknown() {
        return Known::unknown(reason);
    }
    let [within, across] = seen.llc;
    match within + across {
        0 => Known::unknown("no wakeup of the pair has a waker's and a chosen CPU of known LLCs"),
        known => Known::Value(across as f64 / known as f64),
    }
}

const _: () = assert!(Distance::ALL.len() <= 8 && Path::ALL.len() <= 8);
