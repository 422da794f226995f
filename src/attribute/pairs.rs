//! The waker/wakee pairs that lost and waited most, each with its paths, distances and latency.

use std::cmp::Reverse;

use polars::prelude::*;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{ByWord, Known, Moment, PairFacts};
use super::blocks::{Block, NO_NUMBER, NO_TIME};
use super::cross_llc::Costs;
use super::durations::Durations;
use super::ledger::with_llcs;
use super::moments;
use super::pair_waits::{self, PairWaits, Slots};
use super::scope::{Scope, is_member, members};
use super::stack_spread::{self, Machine, Samples};
use super::wakeups::{by_distance, by_word, known, lacking};
use crate::replay::words::{Pair, Path, Reading, Verdict};
use crate::topology::{Distance, Topology};

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
#[derive(Debug, Clone, Default)]
struct Seen {
    by_path: [u64; 8],
    waker_chosen: [u64; 8],
    /// Wakeups within one LLC, and across.
    llc: [u64; 2],
    stacked: Pair<u64>,
    latencies_ns: Durations,
    samples: Samples,
}

/// The worst pairs of a scope: by lost time, then waiting time. A task that woke itself is no pair.
pub fn pairs(scope: &Scope, crossing: &Costs) -> PolarsResult<Vec<PairFacts>> {
    let worst = worst(scope)?;
    if worst.is_empty() {
        return Ok(Vec::new());
    }
    let seen = look_at(scope, &worst)?;
    let names = names(scope, &worst)?;
    let machine = Machine::measure(scope)?;
    let waits = pair_waits::of_pairs(scope, &slots(&worst), &pids(&worst, &names))?;
    let moments = moments::of_pairs(scope, &slots(&worst))?;
    let waits = waits.into_par_iter().zip(moments);
    let facts = worst.par_iter().zip(seen.into_par_iter().zip(waits));
    Ok(facts
        .map(|(worst, (seen, waits))| PairFacts {
            cross_llc: crossing.pair(worst.waker, worst.wakee),
            ..facts_of(scope, worst, seen, waits, &names, &machine)
        })
        .collect())
}

/// What pairs sum to.
type Sums = FxHashMap<(u32, u32), Worst>;

impl Worst {
    fn add(&mut self, more: &Worst) {
        self.wakeups += more.wakeups;
        self.wait_ns += more.wait_ns;
        for reading in [Reading::Seen, Reading::Any] {
            self.lost_ns[reading] += more.lost_ns[reading];
        }
    }
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    numbers: [Vec<u32>; 5],
    codes: [Vec<u8>; 6],
    times: [Vec<i64>; 3],
}

fn worst(scope: &Scope) -> PolarsResult<Vec<Worst>> {
    let (pairs, _) = scope.wakeups().fold(
        &[
            "waker",
            "wakee",
            "wait_ns",
            "lost_seen_ns",
            "lost_any_ns",
            "in_window",
        ],
        <(Sums, Scratch)>::default,
        |(pairs, scratch), block| sum_up(pairs, block, scratch),
        |(pairs, _), (more, _)| {
            for (pair, more) in more {
                pairs.entry(pair).or_default().add(&more);
            }
        },
    )?;
    Ok(ranked(scope, pairs))
}

fn sum_up(pairs: &mut Sums, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
    let [wakers, wakees, ..] = &mut scratch.numbers;
    let [waits, seen, any] = &mut scratch.times;
    let [counted, ..] = &mut scratch.codes;
    let tasks = block.numbers("waker", wakers)?.iter();
    let tasks = tasks.zip(block.numbers("wakee", wakees)?);
    let waits = block.times("wait_ns", waits)?.iter();
    let lost = block.times("lost_seen_ns", seen)?.iter();
    let lost = lost.zip(block.times("lost_any_ns", any)?);
    let counted = block.codes("in_window", counted)?;
    for (((waker, wakee), (wait, lost)), counted) in tasks.zip(waits.zip(lost)).zip(counted) {
        if *waker == NO_NUMBER || waker == wakee {
            continue;
        }
        pairs.entry((*waker, *wakee)).or_default().add(&Worst {
            wakeups: u64::from(*counted == 1),
            wait_ns: *wait,
            lost_ns: Pair([*lost.0, *lost.1]),
            ..Worst::default()
        });
    }
    Ok(())
}

/// The worst first; of equals the lower task numbers.
fn ranked(scope: &Scope, pairs: FxHashMap<(u32, u32), Worst>) -> Vec<Worst> {
    let ranking = scope.ranking();
    let mut worst: Vec<Worst> = pairs
        .into_iter()
        .filter(|(_, pair)| pair.wakeups > 0 || pair.wait_ns > 0)
        .filter(|((waker, wakee), _)| !scope.leaves_out(*waker) && !scope.leaves_out(*wakee))
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

/// Where in the list each pair is.
fn slots(worst: &[Worst]) -> Slots {
    let pairs = worst.iter().map(|pair| (pair.waker, pair.wakee));
    pairs.zip(0..).collect()
}

/// Goes through the counted wakeups of these pairs.
fn look_at(scope: &Scope, worst: &[Worst]) -> PolarsResult<Vec<Seen>> {
    let slots = slots(worst);
    let start = || (vec![Seen::default(); worst.len()], Scratch::default());
    let (seen, _) = scope.wakeups().counted().fold(
        &LOOKED_AT,
        start,
        |(seen, scratch), block| look_at_block(scope, block, &slots, seen, scratch),
        |(seen, _), (more, _)| {
            let pairs = seen.iter_mut().zip(more);
            pairs.for_each(|(seen, more)| seen.join(more));
        },
    )?;
    Ok(seen)
}

/// The columns that pairs are told by.
const LOOKED_AT: [&str; 14] = [
    "waker",
    "wakee",
    "path",
    "waker_chosen",
    "cross_llc",
    "verdict_seen",
    "verdict_any",
    "latency_ns",
    "wakee_run_ns",
    "waker_cpu",
    "prev_cpu",
    "chosen_cpu",
    "overlap_ns",
    "overlap_censored",
];

/// One wakeup, as far as pairs are told by it; with the codes that stand for null.
struct Look {
    path: u8,
    waker_chosen: u8,
    cross_llc: u8,
    verdict: Pair<u8>,
    overlap_censored: bool,
    waker_cpu: u32,
    prev_cpu: u32,
    chosen_cpu: u32,
    latency_ns: i64,
    wakee_run_ns: i64,
    overlap_ns: i64,
}

/// Takes in some wakeups.
fn look_at_block(
    scope: &Scope,
    block: &Block,
    slots: &Slots,
    seen: &mut [Seen],
    scratch: &mut Scratch,
) -> PolarsResult<()> {
    let [wakers, wakees, waker_cpus, prev_cpus, chosen_cpus] = &mut scratch.numbers;
    let [
        paths,
        distances,
        crossing,
        verdicts_seen,
        verdicts_any,
        censored,
    ] = &mut scratch.codes;
    let [latencies, runs, overlaps] = &mut scratch.times;
    let tasks = block.numbers("waker", wakers)?.iter();
    let tasks = tasks.zip(block.numbers("wakee", wakees)?);
    let waker_cpus = block.numbers("waker_cpu", waker_cpus)?;
    let prev_cpus = block.numbers("prev_cpu", prev_cpus)?;
    let chosen_cpus = block.numbers("chosen_cpu", chosen_cpus)?;
    let paths = block.codes("path", paths)?;
    let distances = block.codes("waker_chosen", distances)?;
    let crossing = block.codes("cross_llc", crossing)?;
    let verdicts_seen = block.codes("verdict_seen", verdicts_seen)?;
    let verdicts_any = block.codes("verdict_any", verdicts_any)?;
    let censored = block.codes("overlap_censored", censored)?;
    let latencies = block.times("latency_ns", latencies)?;
    let runs = block.times("wakee_run_ns", runs)?;
    let overlaps = block.times("overlap_ns", overlaps)?;
    let topology = scope.facts.topology();
    for (row, (waker, wakee)) in tasks.enumerate() {
        let slot = slots.get(&(*waker, *wakee));
        let Some(seen) = slot.and_then(|slot| seen.get_mut(*slot)) else {
            continue;
        };
        seen.look(
            topology,
            &Look {
                path: paths[row],
                waker_chosen: distances[row],
                cross_llc: crossing[row],
                verdict: Pair([verdicts_seen[row], verdicts_any[row]]),
                overlap_censored: censored[row] == 1,
                waker_cpu: waker_cpus[row],
                prev_cpu: prev_cpus[row],
                chosen_cpu: chosen_cpus[row],
                latency_ns: latencies[row],
                wakee_run_ns: runs[row],
                overlap_ns: overlaps[row],
            },
        );
    }
    Ok(())
}

impl Seen {
    fn look(&mut self, topology: &Topology, wakeup: &Look) {
        tally(&mut self.by_path, wakeup.path);
        tally(&mut self.waker_chosen, wakeup.waker_chosen);
        tally(&mut self.llc, wakeup.cross_llc);
        for reading in [Reading::Seen, Reading::Any] {
            self.stacked[reading] += is_stacked(wakeup.verdict[reading]);
        }
        if wakeup.latency_ns != NO_TIME {
            self.latencies_ns.push(wakeup.latency_ns);
            let verdict = wakeup.verdict[Reading::Any];
            if stack_spread::is_away(verdict, wakeup.waker_cpu, wakeup.chosen_cpu) {
                self.samples.away_ns.push(wakeup.latency_ns);
            }
        }
        if wakeup.overlap_ns != NO_TIME && !wakeup.overlap_censored {
            self.samples.overlaps_ns.push(wakeup.overlap_ns);
        }
        if wakeup.wakee_run_ns != NO_TIME {
            self.ran(topology, wakeup);
        }
    }

    /// Notes the wakee's on-CPU time by whether the wakeup brought it into another LLC.
    fn ran(&mut self, topology: &Topology, wakeup: &Look) {
        let (prev, chosen) = (wakeup.prev_cpu, wakeup.chosen_cpu);
        if prev == NO_NUMBER || chosen == NO_NUMBER {
            return;
        }
        match topology.crosses_llc(prev, chosen) {
            Some(true) => self.samples.runs_crossing_ns.push(wakeup.wakee_run_ns),
            Some(false) => self.samples.runs_staying_ns.push(wakeup.wakee_run_ns),
            None => {}
        }
    }

    /// Adds what later wakeups show.
    fn join(&mut self, later: Seen) {
        let add = |counts: &mut [u64], more: &[u64]| {
            let pairs = counts.iter_mut().zip(more);
            pairs.for_each(|(count, more)| *count += more);
        };
        add(&mut self.by_path, &later.by_path);
        add(&mut self.waker_chosen, &later.waker_chosen);
        add(&mut self.llc, &later.llc);
        add(&mut self.stacked.0, &later.stacked.0);
        self.latencies_ns.join(later.latencies_ns);
        self.samples.join(later.samples);
    }
}

/// One more of a code.
fn tally<const N: usize>(counts: &mut [u64; N], code: u8) {
    if let Some(count) = counts.get_mut(usize::from(code)) {
        *count += 1;
    }
}

fn is_stacked(code: u8) -> u64 {
    let stacked = [Verdict::StackedPrev, Verdict::StackedPull];
    u64::from(stacked.iter().any(|verdict| verdict.code() == code))
}

/// Name and pid by task number.
type Names = FxHashMap<u32, (String, i32)>;

/// The pids of each pair.
fn pids(worst: &[Worst], names: &Names) -> Vec<(i32, i32)> {
    let pid = |task| names.get(&task).map_or(-1, |(_, pid)| *pid);
    let pairs = worst.iter();
    pairs
        .map(|pair| (pid(pair.waker), pid(pair.wakee)))
        .collect()
}

fn names(scope: &Scope, worst: &[Worst]) -> PolarsResult<Names> {
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
    (waits, worst_wait): (PairWaits, Known<Moment>),
    names: &Names,
    machine: &Machine,
) -> PairFacts {
    let named = |task| names.get(&task).cloned().unwrap_or_default();
    let (waker, waker_pid) = named(worst.waker);
    let (wakee, wakee_pid) = named(worst.wakee);
    let judgement = stack_spread::judge(&mut seen.samples, machine);
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
        cross_llc: Known::unknown("not asked for"),
        latency_ns: known(seen.latencies_ns.quantiles(), || {
            lacking(scope, &["sched_waking", "sched_switch"])
        }),
        wait_ns: worst.wait_ns,
        lost_ns: scope.readings(|reading| worst.lost_ns[reading]),
        by_verdict: waits.by_verdict(scope),
        preempted: waits.preempted(),
        one_cpu: waits.one_cpu(),
        stacked: with_llcs(scope, || scope.readings(|reading| seen.stacked[reading])),
        overlap_ns: judgement.overlap_ns,
        cost_of_spreading_ns: judgement.cost_ns,
        stack_or_spread: judgement.word,
        stack_or_spread_why: judgement.why,
        worst_wait,
    }
}

fn of_code(counts: &[u64], code: u8) -> u64 {
    counts.get(usize::from(code)).copied().unwrap_or(0)
}

fn distances(counts: &[u64]) -> ByWord<u64> {
    by_distance(|code| of_code(counts, code))
}

fn cross_llc_share(scope: &Scope, seen: &Seen) -> Known<f64> {
    if let Some(reason) = scope.facts.crossing_unknown() {
        return Known::unknown(reason);
    }
    let [within, across] = seen.llc;
    match within + across {
        0 => Known::unknown("no wakeup of the pair has a waker's and a chosen CPU of known LLCs"),
        known => Known::Value(across as f64 / known as f64),
    }
}

const _: () = assert!(Distance::ALL.len() <= 8 && Path::ALL.len() <= 8);
