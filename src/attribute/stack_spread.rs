//! Whether a pair would gain from running on two CPUs: what waker and wakee could have done side by side against
//! what it costs to wake on another CPU (`analysis` §3, stack or spread).

use std::collections::BTreeMap;

use polars::prelude::*;

use super::answer::{Estimate, Known};
use super::blocks::{Block, NO_CODE, NO_NUMBER, NO_TIME};
use super::resample::{LEAST_SAMPLES, Random, Resampled, mean, median};
use super::scope::Scope;
use crate::replay::words::Verdict;
use crate::topology::Distance;
use crate::wording::many;

/// What is known of one pair.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// How long both could have run side by side, of each wakeup of which it is known.
    pub overlaps_ns: Vec<i64>,
    /// Latencies of its wakeups to another, idle CPU.
    pub away_ns: Vec<i64>,
    /// The wakee's on-CPU time until it blocked, after it changed LLCs.
    pub runs_crossing_ns: Vec<i64>,
    /// The same, where it kept its LLC.
    pub runs_staying_ns: Vec<i64>,
}

impl Samples {
    /// Adds those of later wakeups.
    pub fn join(&mut self, later: Samples) {
        self.overlaps_ns.extend(later.overlaps_ns);
        self.away_ns.extend(later.away_ns);
        self.runs_crossing_ns.extend(later.runs_crossing_ns);
        self.runs_staying_ns.extend(later.runs_staying_ns);
    }
}

/// What waking on another, idle CPU costs on this machine, for pairs that never did.
#[derive(Debug)]
pub struct Machine {
    /// The commonest distance, and the median latency there.
    away: Option<(&'static str, Resampled)>,
}

/// The answer for one pair.
#[derive(Debug)]
pub struct Judgement {
    pub overlap_ns: Known<Estimate>,
    pub cost_ns: Known<Estimate>,
    /// `spread`, `stack` or `undecided`.
    pub word: &'static str,
    pub why: String,
}

/// Whether a wakeup went to another, idle CPU. The verdict `transit` is the same under both readings.
#[inline]
pub fn is_away(verdict_any: u8, waker_cpu: u32, chosen_cpu: u32) -> bool {
    let known = waker_cpu != NO_NUMBER && chosen_cpu != NO_NUMBER;
    verdict_any == Verdict::Transit.code() && known && waker_cpu != chosen_cpu
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    codes: [Vec<u8>; 2],
    cpus: [Vec<u32>; 2],
    times: Vec<i64>,
}

/// Latencies by the code of their distance.
type ByDistance = BTreeMap<u8, Vec<i64>>;

fn take(found: &mut ByDistance, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
    let [codes_0, codes_1] = &mut scratch.codes;
    let [cpus_0, cpus_1] = &mut scratch.cpus;
    let cpus = block.numbers("waker_cpu", cpus_0)?.iter();
    let cpus = cpus.zip(block.numbers("chosen_cpu", cpus_1)?);
    let verdicts = block.codes("verdict_any", codes_0)?.iter();
    let distances = block.codes("waker_chosen", codes_1)?;
    let latencies = block.times("latency_ns", &mut scratch.times)?;
    let told = distances.iter().zip(latencies);
    for ((verdict, (waker, chosen)), (distance, ns)) in verdicts.zip(cpus).zip(told) {
        if is_away(*verdict, *waker, *chosen) && *distance != NO_CODE && *ns != NO_TIME {
            found.entry(*distance).or_default().push(*ns);
        }
    }
    Ok(())
}

impl Machine {
    /// Measures all wakeups in the window, whatever tasks and CPUs are selected.
    pub fn measure(scope: &Scope) -> PolarsResult<Self> {
        let (by_distance, _) = scope.every_wakeup().counted().fold(
            &[
                "waker_cpu",
                "chosen_cpu",
                "verdict_any",
                "waker_chosen",
                "latency_ns",
            ],
            <(ByDistance, Scratch)>::default,
            |(found, scratch), block| take(found, block, scratch),
            |(found, _), (more, _)| {
                for (distance, latencies) in more {
                    found.entry(distance).or_default().extend(latencies);
                }
            },
        )?;
        // Of equally common distances the nearest.
        let commonest = by_distance
            .into_iter()
            .max_by_key(|(distance, samples)| (samples.len(), std::cmp::Reverse(*distance)));
        let away = commonest.and_then(|(distance, mut samples)| {
            let name = Distance::ALL.get(usize::from(distance))?.as_str();
            Some((name, median(&mut samples, &mut Random::new())?))
        });
        Ok(Self { away })
    }

    #[cfg(test)]
    pub fn unmeasured() -> Self {
        Self { away: None }
    }
}

/// Weighs what spreading a pair would gain against what it would cost.
pub fn judge(samples: &mut Samples, machine: &Machine) -> Judgement {
    let mut random = Random::new();
    let known = samples.overlaps_ns.len();
    let overlap = mean(&samples.overlaps_ns, &mut random).map(Resampled::estimate);
    let cost = cost(samples, machine, &mut random);
    let few = || {
        format!(
            "the overlap is known of {} only: an estimate needs {LEAST_SAMPLES}",
            many(known as u64, "wakeup")
        )
    };
    let cost = cost.map(|(cost, source)| (cost.estimate(), source));
    let (word, why) = match (&overlap, &cost) {
        (None, _) => ("undecided", few()),
        (_, None) => ("undecided", no_cost()),
        (Some(overlap), Some((cost, source))) => weigh(overlap, cost, source),
    };
    Judgement {
        overlap_ns: overlap.map_or_else(|| Known::unknown(few()), Known::Value),
        cost_ns: cost.map_or_else(|| Known::unknown(no_cost()), |(cost, _)| Known::Value(cost)),
        word,
        why,
    }
}

fn no_cost() -> String {
    format!(
        "fewer than {LEAST_SAMPLES} wakeups of any one distance went to another, idle CPU, so what spreading costs is not known"
    )
}

/// The cost of spreading, and where it is from.
fn cost(
    samples: &mut Samples,
    machine: &Machine,
    random: &mut Random,
) -> Option<(Resampled, String)> {
    let refill = refill(samples, random);
    let own = median(&mut samples.away_ns, random);
    let (transit, source) = match (own, &machine.away) {
        (Some(own), _) => (own, "its own median transit elsewhere".to_owned()),
        (None, Some((distance, away))) => {
            let source = format!("the machine's median transit at distance `{distance}`");
            (away.clone(), source)
        }
        (None, None) => return None,
    };
    Some(match refill {
        Some(refill) => {
            let source = format!("{source} and {} of refill", time(refill.value));
            (transit.plus(&refill), source)
        }
        None => (transit, source),
    })
}

/// How much longer the wakee runs after it changed LLCs.
fn refill(samples: &Samples, random: &mut Random) -> Option<Resampled> {
    let crossing = mean(&samples.runs_crossing_ns, random)?;
    let staying = mean(&samples.runs_staying_ns, random)?;
    Some(crossing.minus(&staying))
}

fn weigh(overlap: &Estimate, cost: &Estimate, source: &str) -> (&'static str, String) {
    let word = if overlap.ci95[0] > cost.ci95[1] {
        "spread"
    } else if overlap.ci95[1] < cost.ci95[0] {
        "stack"
    } else {
        "undecided"
    };
    let side = match word {
        "spread" => "lies above",
        "stack" => "lies below",
        _ => "cannot be told from",
    };
    let why = format!(
        "the overlap of {} a wakeup {side} the cost of spreading, {} ({source})",
        with_interval(overlap),
        with_interval(cost)
    );
    (word, why)
}

/// `4.2 µs [4.0, 4.5]`.
fn with_interval(estimate: &Estimate) -> String {
    let [low, high] = estimate.ci95.map(time);
    format!("{} [{low}, {high}]", time(estimate.value))
}

/// Nanoseconds as microseconds.
fn time(ns: f64) -> String {
    format!("{:.1} µs", ns / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(overlap_ns: i64, away_ns: i64) -> Samples {
        Samples {
            overlaps_ns: vec![overlap_ns; 40],
            away_ns: vec![away_ns; 40],
            ..Samples::default()
        }
    }

    fn word(mut samples: Samples) -> &'static str {
        judge(&mut samples, &Machine::unmeasured()).word
    }

    #[test]
    fn overlap_above_cost_spreads_and_below_stacks() {
        assert_eq!(word(pair(9_000, 5_000)), "spread");
        assert_eq!(word(pair(2_000, 5_000)), "stack");
        assert_eq!(word(pair(5_000, 5_000)), "undecided");
    }

    /// 5 µs of transit and 6 − 2 = 4 µs of refill make spreading cost 9 µs.
    #[test]
    fn refill_adds_to_the_cost() {
        let mut samples = pair(8_000, 5_000);
        samples.runs_crossing_ns = vec![6_000; 30];
        samples.runs_staying_ns = vec![2_000; 30];
        let judgement = judge(&mut samples, &Machine::unmeasured());
        assert_eq!(judgement.word, "stack");
        let Known::Value(cost) = judgement.cost_ns else {
            panic!("known");
        };
        assert_eq!((cost.value, cost.ci95), (9_000.0, [9_000.0, 9_000.0]));
        // One side of 29: no refill.
        let mut samples = pair(8_000, 5_000);
        samples.runs_crossing_ns = vec![6_000; 29];
        samples.runs_staying_ns = vec![2_000; 30];
        assert_eq!(word(samples), "spread");
    }

    #[test]
    fn without_samples_the_machine_stands_in_and_without_that_nothing_is_said() {
        let mut samples = pair(9_000, 5_000);
        samples.away_ns.clear();
        let judgement = judge(&mut samples, &Machine::unmeasured());
        assert_eq!(judgement.word, "undecided");
        assert!(judgement.cost_ns.value().is_none());
        let mut latencies = vec![4_000; 30];
        let machine = Machine {
            away: median(&mut latencies, &mut Random::new()).map(|away| ("llc", away)),
        };
        let judgement = judge(&mut samples, &machine);
        assert_eq!(judgement.word, "spread");
        assert!(
            judgement.why.contains("distance `llc`"),
            "{}",
            judgement.why
        );
    }
}
