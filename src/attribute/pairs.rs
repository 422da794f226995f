//! The waker/wakee pairs that lost and waited most, each with its paths, distances and latency.

use std::cmp::Reverse;

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{ByWord, Known, PairFacts};
use super::census::with_window;
use super::ledger::with_llcs;
use super::quantiles::quantiles;
use super::scope::{Scope, is_member, members};
use super::stack_spread::{self, Machine, Samples};
use super::wakeups::{by_distance, by_word, lacking};
use crate::replay::words::{Pair, Path, Reading, Verdict};
use crate::topology::Distance;

/// What all wakeups of a pair sum to.
#[derive(Debug, Clone, Copy, Default)]
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

fn worst(scope: &Scope) -> PolarsResult<Vec<Worst>> {
    const COLUMNS: [&str; 6] = [
        "waker",
        "wakee",
        "wait_ns",
        "lost_seen_ns",
        "lost_any_ns",
        "in_window",
    ];
    let mut pairs: FxHashMap<(u32, u32), Worst> = FxHashMap::default();
    let query = |rows: LazyFrame| rows.select(COLUMNS.map(col));
    scope.over_wakeups(query, |rows| {
        let wakers = rows.column("waker")?.u32()?.iter();
        let wakees = rows.column("wakee")?.u32()?.cont_slice()?;
        let times = |name| rows.column(name)?.i64()?.cont_slice();
        let sums = times("wait_ns")?
            .iter()
            .zip(times("lost_seen_ns")?)
            .zip(times("lost_any_ns")?);
        let counted = rows.column("in_window")?.bool()?.iter();
        for (((waker, wakee), ((wait, seen), any)), counted) in
            wakers.zip(wakees).zip(sums).zip(counted)
        {
            let Some(waker) = waker.filter(|waker| waker != wakee) else {
                continue;
            };
            let pair = pairs.entry((waker, *wakee)).or_default();
            pair.wakeups += u64::from(counted.unwrap_or(false));
            pair.wait_ns += wait;
            pair.lost_ns[Reading::Seen] += seen;
            pair.lost_ns[Reading::Any] += any;
        }
        Ok(())
    })?;
    Ok(ranked(scope, pairs))
}

/// The worst first; of equals the lower task numbers.
fn ranked(scope: &Scope, pairs: FxHashMap<(u32, u32), Worst>) -> Vec<Worst> {
    let ranking = scope.ranking();
    let mut worst: Vec<Worst> = pairs
        .into_iter()
        .filter(|(_, pair)| pair.wakeups > 0 || pair.wait_ns > 0)
        .map(|((waker, wakee), pair)| Worst {
            waker,
            wakee,
            ..pair
        })
        .collect();
    worst.sort_unstable_by_key(|pair| {
        let most = (pair.lost_ns[ranking], pair.wait_ns, pair.wakeups);
        (Reverse(most), pair.waker, pair.wakee)
    });
    worst.truncate(scope.top);
    worst
}

/// Goes through the counted wakeups of these pairs.
fn look_at(scope: &Scope, worst: &[Worst]) -> PolarsResult<Vec<Seen>> {
    let slots: Slots = worst
        .iter()
        .enumerate()
        .map(|(slot, pair)| ((pair.waker, pair.wakee), slot))
        .collect();
    let wakers = members(&worst.iter().map(|pair| pair.waker).collect::<Vec<_>>());
    let wakees = members(&worst.iter().map(|pair| pair.wakee).collect::<Vec<_>>());
    let columns = with_window(scope, looked_at());
    let query = |rows: LazyFrame| {
        let wanted = is_member("waker", wakers.clone()).and(is_member("wakee", wakees.clone()));
        scope.counted(rows.filter(wanted).select(&columns))
    };
    let mut seen: Vec<Seen> = worst.iter().map(|_| Seen::default()).collect();
    scope.over_wakeups(query, |rows| look_at_batch(scope, &rows, &slots, &mut seen))?;
    Ok(seen)
}

/// The columns that pairs are told by. Of these `away_ns` is the latency of wakeups to another, idle CPU.
fn looked_at() -> Vec<Expr> {
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
    let only = |when_so: Expr, name: &str| when(when_so).then(col(name)).otherwise(lit(NULL));
    let uncensored = col("overlap_censored").not();
    let mut columns: Vec<Expr> = PLAIN.iter().map(|name| col(*name)).collect();
    columns.push(only(stack_spread::is_away(), "latency_ns").alias("away_ns"));
    columns.push(only(uncensored, "overlap_ns").alias("overlap_ns"));
    columns
}

/// Where in the list a pair is.
type Slots = FxHashMap<(u32, u32), usize>;

/// Takes in some wakeups, column by column.
fn look_at_batch(
    scope: &Scope,
    rows: &DataFrame,
    slots: &Slots,
    seen: &mut [Seen],
) -> PolarsResult<()> {
    let wakers = rows.column("waker")?.u32()?.iter();
    let wakees = rows.column("wakee")?.u32()?.iter();
    let slots: Vec<Option<usize>> = wakers
        .zip(wakees)
        .map(|pair| slots.get(&(pair.0?, pair.1?)).copied())
        .collect();
    let mut each = |values: &mut dyn Iterator<Item = Option<i64>>, take: fn(&mut Seen, i64)| {
        for (slot, value) in slots.iter().zip(values) {
            if let (Some(value), Some(seen)) = (value, slot.and_then(|slot| seen.get_mut(slot))) {
                take(seen, value);
            }
        }
    };
    let codes = |name| codes_of(rows, name);
    let times = |name| -> PolarsResult<_> { Ok(rows.column(name)?.i64()?.iter()) };
    each(&mut codes("path")?, |seen, code| {
        tally(&mut seen.by_path, code)
    });
    each(&mut codes("waker_chosen")?, |seen, code| {
        tally(&mut seen.waker_chosen, code)
    });
    each(&mut codes("verdict_seen")?, |seen, code| {
        seen.stacked[Reading::Seen] += is_stacked(code)
    });
    each(&mut codes("verdict_any")?, |seen, code| {
        seen.stacked[Reading::Any] += is_stacked(code)
    });
    let mut crossing = rows
        .column("cross_llc")?
        .bool()?
        .iter()
        .map(|flag| flag.map(i64::from));
    each(&mut crossing, |seen, flag| tally(&mut seen.llc, flag));
    each(&mut times("latency_ns")?, |seen, ns| {
        seen.latencies_ns.push(ns)
    });
    each(&mut times("away_ns")?, |seen, ns| {
        seen.samples.away_ns.push(ns)
    });
    each(&mut times("overlap_ns")?, |seen, ns| {
        seen.samples.overlaps_ns.push(ns)
    });
    let mut crossed = runs(scope, rows, true)?;
    each(&mut crossed, |seen, ns| {
        seen.samples.runs_crossing_ns.push(ns)
    });
    let mut stayed = runs(scope, rows, false)?;
    each(&mut stayed, |seen, ns| {
        seen.samples.runs_staying_ns.push(ns)
    });
    Ok(())
}

fn codes_of<'a>(
    rows: &'a DataFrame,
    name: &str,
) -> PolarsResult<impl Iterator<Item = Option<i64>> + use<'a>> {
    let codes = rows.column(name)?.u8()?.iter();
    Ok(codes.map(|code| code.map(i64::from)))
}

/// The wakees' on-CPU times where the wakeup did, or did not, bring them into another LLC.
fn runs<'a>(
    scope: &'a Scope,
    rows: &'a DataFrame,
    crossing: bool,
) -> PolarsResult<impl Iterator<Item = Option<i64>> + use<'a>> {
    let topology = scope.facts.topology();
    let crosses = |prev: Option<u16>, chosen: Option<u16>| {
        topology.crosses_llc(u32::from(prev?), u32::from(chosen?))
    };
    let runs = rows.column("wakee_run_ns")?.i64()?.iter();
    let prev = rows.column("prev_cpu")?.u16()?.iter();
    let chosen = rows.column("chosen_cpu")?.u16()?.iter();
    let cpus = prev.zip(chosen);
    Ok(runs
        .zip(cpus)
        .map(move |(ns, (prev, chosen))| ns.filter(|_| crosses(prev, chosen) == Some(crossing))))
}

/// One more of a code.
fn tally<const N: usize>(counts: &mut [u64; N], code: i64) {
    if let Some(count) = usize::try_from(code)
        .ok()
        .and_then(|code| counts.get_mut(code))
    {
        *count += 1;
    }
}

fn is_stacked(code: i64) -> u64 {
    let stacked = [Verdict::StackedPrev, Verdict::StackedPull];
    u64::from(
        stacked
            .iter()
            .any(|verdict| i64::from(verdict.code()) == code),
    )
}

/// Name and pid by task number.
fn names(scope: &Scope, worst: &[Worst]) -> PolarsResult<FxHashMap<u32, (String, i32)>> {
    let ids: Vec<u32> = worst
        .iter()
        .flat_map(|pair| [pair.waker, pair.wakee])
        .collect();
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
        by_path: by_word(Path::ALL, Path::as_str, |path| {
            of_code(&seen.by_path, path.code())
        }),
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
