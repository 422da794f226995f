//! What wakeups across LLCs cost: transit, cold cache and transfer (`analysis` §4).
//!
//! Each is the difference of 10 %-trimmed means between wakeups that crossed and wakeups of the same pair or task that
//! did not, times the wakeups that crossed. A total is the sum over all pairs or tasks with enough wakeups on both sides,
//! whether or not one of them alone shows anything: to add up only those that do would find a cost where there is none.

mod confounders;
mod counts;
mod estimate;
mod samples;
mod sides;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use polars::prelude::PolarsResult;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use self::confounders::confounders;
use self::counts::{Count, Counts};
use self::estimate::{Comparison, cost_of, measure, too_few, totals};
use self::samples::{Group, Groups, Samples, comparable};
pub use self::sides::{Cost, side};
use super::answer::{
    CrossLlc, CrossLlcBases, CrossLlcBasis, Estimate, Known, PairCrossLlc, TaskCrossLlc,
};
use super::resample::{LEAST_SAMPLES, Random, Resampled};
use super::scope::Scope;

/// So many groups' resamples are drawn one by one, those with most wakeups; the others' are drawn as one sum, which is
/// normally distributed as good as exactly.
const DRAWN_ALONE: usize = 256;

/// What wakeups across LLCs cost: the answer, and what it needs to say so of single pairs and tasks.
pub struct Costs {
    known: Result<Measured, String>,
}

struct Measured {
    counts: Counts,
    cold_cache: FxHashMap<u32, Count>,
    transfer: FxHashMap<u32, Count>,
    samples: Samples,
}

impl Costs {
    /// Measures the wakeups that count.
    pub fn measure(scope: &Scope) -> PolarsResult<Self> {
        if let Some(reason) = unknown(scope) {
            return Ok(Self { known: Err(reason) });
        }
        let counts = Counts::take(scope)?;
        let samples = Samples::collect(scope, &counts)?;
        Ok(Self {
            known: Ok(Measured {
                cold_cache: counts.of_tasks(|of| &of.cold_cache),
                transfer: counts.of_tasks(|of| &of.transfer),
                counts,
                samples,
            }),
        })
    }

    /// The answer for the trace.
    pub fn answer(&self) -> Known<CrossLlc> {
        self.with(|measured| measured.answer())
    }

    /// The answer for a pair.
    pub fn pair(&self, waker: u32, wakee: u32) -> Known<PairCrossLlc> {
        self.with(|measured| {
            let key = (waker, wakee);
            let counts = measured.counts.pairs.get(&key).copied().unwrap_or_default();
            let group = measured.samples.transit.get(key);
            PairCrossLlc {
                transit: cost_of(
                    Cost::Transit,
                    &counts.transit,
                    group,
                    measured.counts.by_cpi,
                ),
            }
        })
    }

    /// The answer for a task.
    pub fn task(&self, task: u32) -> Known<TaskCrossLlc> {
        self.with(|measured| {
            let of = |cost, counts: &FxHashMap<u32, Count>, groups: &Groups| {
                let count = counts.get(&task).copied().unwrap_or_default();
                cost_of(
                    cost,
                    &count,
                    groups.get((task, task)),
                    measured.counts.by_cpi,
                )
            };
            let samples = &measured.samples;
            TaskCrossLlc {
                cold_cache: of(Cost::ColdCache, &measured.cold_cache, &samples.cold_cache),
                transfer: of(Cost::Transfer, &measured.transfer, &samples.transfer),
            }
        })
    }

    /// What crossing cost in some runs alone, of which there are so many by task: each task's own difference, times its
    /// wakeups among these. With it come the tasks that have another side: those of the others are not in it.
    pub fn of_runs(&self, cost: Cost, runs: &BTreeMap<u32, u64>) -> (Known<Estimate>, Vec<u32>) {
        match &self.known {
            Ok(measured) => measured.of_runs(cost, runs),
            Err(reason) => (Known::unknown(reason), Vec::new()),
        }
    }

    fn with<T>(&self, of: impl FnOnce(&Measured) -> T) -> Known<T> {
        match &self.known {
            Ok(measured) => Known::Value(of(measured)),
            Err(reason) => Known::unknown(reason),
        }
    }
}

/// Why nothing can be said, if so.
fn unknown(scope: &Scope) -> Option<String> {
    if let Some(reason) = scope.facts.crossing_unknown() {
        return Some(reason);
    }
    let llcs = scope.facts.topology().llcs().map_or(0, <[_]>::len);
    (llcs < 2).then(|| "the machine has one LLC: no wakeup crosses".to_owned())
}

impl Measured {
    fn answer(&self) -> CrossLlc {
        let samples = &self.samples;
        let transit_counts = self.counts.pairs.values().map(|of| of.transit);
        let (transit, of_transit) = self.total(Cost::Transit, transit_counts, &samples.transit);
        let counts = self.cold_cache.values().copied();
        let (cold_cache, of_cold_cache) = self.total(Cost::ColdCache, counts, &samples.cold_cache);
        let counts = self.transfer.values().copied();
        let (transfer, of_transfer) = self.total(Cost::Transfer, counts, &samples.transfer);
        CrossLlc {
            transit,
            cold_cache,
            transfer,
            basis: CrossLlcBases {
                transit: of_transit,
                cold_cache: of_cold_cache,
                transfer: of_transfer,
            },
        }
    }

    fn of_runs(&self, cost: Cost, runs: &BTreeMap<u32, u64>) -> (Known<Estimate>, Vec<u32>) {
        let groups = match cost {
            Cost::ColdCache => &self.samples.cold_cache,
            Cost::Transfer => &self.samples.transfer,
            Cost::Transit => return (Known::unknown("transit is no part of a run"), Vec::new()),
        };
        let all: u64 = runs.values().sum();
        if all == 0 {
            let nothing = Estimate {
                value: 0.0,
                ci95: [0.0; 2],
                n: 0,
            };
            return (Known::Value(nothing), Vec::new());
        }
        let compared = runs.iter().filter_map(|(task, wakeups)| {
            let group = groups.get((*task, *task))?;
            let found = Comparison::of(cost, group, self.counts.by_cpi)?;
            Some((*task, found.for_wakeups(*wakeups)))
        });
        let (tasks, comparisons): (Vec<u32>, Vec<Comparison>) = compared.unzip();
        if comparisons.is_empty() {
            let reason = format!(
                "not measurable here: no task of which wakeups that cross lead to the path ({all}) has {LEAST_SAMPLES} wakeups on both sides"
            );
            return (Known::unknown(reason), tasks);
        }
        let sum = |of: fn(&Comparison) -> f64| comparisons.iter().map(of).sum();
        let (crossing, staying) = (sum(|of| of.crossing), sum(|of| of.staying));
        let [total, _] = totals(sum_up(&comparisons), crossing, staying);
        (total, tasks)
    }

    /// One cost over all groups, and what that rests on.
    fn total(
        &self,
        cost: Cost,
        counts: impl Iterator<Item = Count>,
        groups: &Groups,
    ) -> (Known<Estimate>, CrossLlcBasis) {
        let by_cpi = self.counts.by_cpi;
        let mut all = Count::default();
        let mut always_crossing = 0;
        for count in counts {
            all.add(&count);
            if count.staying == 0 {
                always_crossing += count.all_crossing;
            }
        }
        let compared: Vec<(Comparison, &Group)> = groups
            .list
            .par_iter()
            .filter_map(|group| Some((Comparison::of(cost, group, by_cpi)?, group)))
            .collect();
        let (comparisons, compared): (Vec<_>, Vec<_>) = compared.into_iter().unzip();
        // An empty sum would be -0.
        let sum = |of: fn(&Comparison) -> f64| comparisons.iter().map(of).fold(0.0, |a, b| a + b);
        let crossing = sum(|of| of.crossing);
        let staying = sum(|of| of.staying);
        let [total, per_wakeup_ns] = match comparisons.is_empty() {
            true => {
                let reason = nothing_compared(cost, &all, always_crossing, groups);
                [Known::unknown(reason.clone()), Known::unknown(reason)]
            }
            false => totals(sum_up(&comparisons), crossing, staying),
        };
        let basis = CrossLlcBasis {
            measure: measure(cost, by_cpi),
            per_wakeup_ns,
            crossing: all.all_crossing,
            compared_crossing: crossing.round() as u64,
            coverage: match all.all_crossing {
                0 => 1.0,
                all => (crossing / all as f64).min(1.0),
            },
            compared_staying: staying.round() as u64,
            compared_groups: comparisons.len() as u64,
            always_crossing,
            samples: comparisons.iter().map(|of| of.samples).sum(),
            confounders: confounders(cost, &self.counts, &compared),
            assumption: assumption(cost),
        };
        (total, basis)
    }
}

/// The sum of all comparisons.
fn sum_up(comparisons: &[Comparison]) -> Resampled {
    let mut by_weight: Vec<&Comparison> = comparisons.iter().collect();
    by_weight.sort_by(|a, b| b.crossing.total_cmp(&a.crossing).then(a.key.cmp(&b.key)));
    let (alone, together) = by_weight.split_at(by_weight.len().min(DRAWN_ALONE));
    let drawn: Vec<Resampled> = alone.par_iter().map(|of| of.resampled()).collect();
    let total = drawn.iter().fold(Resampled::none(), |sum, of| sum.and(of));
    if together.is_empty() {
        return total;
    }
    let value = together.iter().map(|of| of.value()).sum();
    let variance: f64 = together.iter().map(|of| of.variance()).sum();
    let n = together.iter().map(|of| of.crossing.round() as u64).sum();
    total.and(&Resampled::normal(
        value,
        variance.sqrt(),
        n,
        &mut Random::of(0),
    ))
}

/// Why no group could be compared.
fn nothing_compared(cost: Cost, all: &Count, always_crossing: u64, groups: &Groups) -> String {
    let what = match cost {
        Cost::Transit => "pair",
        _ => "task",
    };
    if all.all_crossing > 0 && always_crossing == all.all_crossing {
        return format!(
            "not measurable here: each {what} with wakeups that cross ({always_crossing}) has none that does not: there is no other side, and only a comparison of two runs can show what crossing costs"
        );
    }
    if all.all_crossing == 0 || !comparable(all) {
        return too_few(all, "trace");
    }
    let alike = match groups.list.is_empty() {
        true => "on both sides",
        false => "on both sides to CPUs that had been idle for about as long",
    };
    let always = match always_crossing {
        0 => String::new(),
        always => format!(
            "; {always} are of {what}s that always cross, of which only a comparison of two runs can show what that costs"
        ),
    };
    format!(
        "not measurable here: {} wakeups that cross and {} that do not could be measured, but no {what} has {} of them {alike}{always}",
        all.crossing, all.staying, LEAST_SAMPLES
    )
}

fn assumption(cost: Cost) -> &'static str {
    match cost {
        Cost::Transit => {
            "an association, not a cause: how much longer wakeups across LLCs took to an idle CPU than the same pair's within one, compared where the CPU had been idle for about as long"
        }
        Cost::ColdCache => {
            "an association, not a cause: how much longer tasks ran, until they blocked, after wakeups that moved them to another LLC than after their own wakeups that crossed none"
        }
        Cost::Transfer => {
            "an association, not a cause: how much longer tasks ran, until they blocked, after wakeups from another LLC that left them in theirs than after their own wakeups that crossed none"
        }
    }
}
