//! From samples to costs: differences of trimmed means, each with its interval.

use super::super::answer::{CrossLlcCost, CrossLlcMeasure, Estimate, Known};
use super::super::resample::{LEAST_SAMPLES, Random, Resampled};
use super::super::trimmed::{Difference, LEAST, Trimmed};
use super::counts::Count;
use super::samples::{Group, Side, comparable};
use super::sides::{CPI_ONE, Cost};
use crate::wording::{agree, many};

/// The comparison of one pair or task.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub key: (u32, u32),
    parts: Vec<Difference>,
    /// The wakeups on both sides that were compared.
    pub crossing: f64,
    pub staying: f64,
    pub samples: u64,
}

impl Comparison {
    /// `None` if too few of its wakeups have any on the other side to be compared with.
    pub fn of(cost: Cost, group: &Group, by_cpi: bool) -> Option<Self> {
        match cost {
            Cost::Transit => Self::by_strata(group),
            _ => Self::of_runs(group, by_cpi),
        }
    }

    fn of_runs(group: &Group, by_cpi: bool) -> Option<Self> {
        let beside = &group.crossing.beside;
        let times = match by_cpi {
            // Extra cycles of all instructions, in time per cycle.
            true => beside.instructions / CPI_ONE * (beside.run_ns / beside.cycles),
            false => group.count.crossing as f64,
        };
        let part = Difference {
            above: Trimmed::new(&group.crossing.values)?,
            below: Trimmed::new(&group.staying.values)?,
            times,
        };
        Some(Self {
            key: group.key,
            crossing: group.count.crossing as f64,
            staying: group.count.staying as f64,
            samples: (part.above.n + part.below.n) as u64,
            parts: vec![part],
        })
    }

    /// Only wakeups to CPUs that had been idle for about as long are compared, weighted as the crossing ones are.
    fn by_strata(group: &Group) -> Option<Self> {
        let weight = |side: &Side, all: u64| all as f64 / (side.values.len() as f64).max(1.0);
        let each_crossing = weight(&group.crossing, group.count.crossing);
        let each_staying = weight(&group.staying, group.count.staying);
        let mut comparison = Self {
            key: group.key,
            parts: Vec::new(),
            crossing: 0.0,
            staying: 0.0,
            samples: 0,
        };
        for stratum in 0..=63 {
            let crossing = of_stratum(&group.crossing, stratum);
            let staying = of_stratum(&group.staying, stratum);
            if crossing.len().min(staying.len()) < LEAST {
                continue;
            }
            let times = crossing.len() as f64 * each_crossing;
            comparison.crossing += times;
            comparison.staying += staying.len() as f64 * each_staying;
            comparison.samples += (crossing.len() + staying.len()) as u64;
            comparison.parts.push(Difference {
                above: Trimmed::new(&crossing)?,
                below: Trimmed::new(&staying)?,
                times,
            });
        }
        let least = comparison.crossing.min(comparison.staying);
        (least >= LEAST_SAMPLES as f64).then_some(comparison)
    }

    /// The same difference for another number of wakeups that cross.
    pub fn for_wakeups(mut self, crossing: u64) -> Self {
        let times = crossing as f64 / self.crossing.max(1.0);
        self.parts.iter_mut().for_each(|part| part.times *= times);
        self.crossing = crossing as f64;
        self
    }

    /// The total in nanoseconds.
    pub fn resampled(&self) -> Resampled {
        let (a, b) = self.key;
        let mut random = Random::of(u64::from(a) << 32 | u64::from(b));
        let parts = self.parts.iter();
        let total = parts.fold(Resampled::none(), |sum, part| {
            sum.and(&part.resampled(&mut random))
        });
        Resampled {
            n: self.crossing.round() as u64,
            ..total
        }
    }

    pub fn value(&self) -> f64 {
        self.parts.iter().map(Difference::value).sum()
    }

    /// The variance of the total.
    pub fn variance(&self) -> f64 {
        self.parts.iter().map(|part| part.error().powi(2)).sum()
    }
}

fn of_stratum(side: &Side, stratum: u8) -> Vec<u32> {
    let samples = side.values.iter().zip(&side.strata);
    let of = samples.filter(|(_, of)| **of == stratum);
    of.map(|(value, _)| *value).collect()
}

/// A total and what it is a wakeup, or why there is neither.
pub fn totals(total: Resampled, crossing: f64, staying: f64) -> [Known<Estimate>; 2] {
    let per_wakeup = total.clone().times(1.0 / crossing.max(1.0)).estimate();
    let total = total.estimate();
    let [low, high] = total.ci95;
    if low <= 0.0 && high >= 0.0 {
        let [low, high] = per_wakeup.ci95.map(|ns| ns / 1000.0);
        let reason = format!(
            "not measurable here: {} that cross and {staying:.0} that do not differ by {low:.1} to {high:.1} µs a wakeup, which may be nothing",
            many(crossing.round() as u64, "wakeup")
        );
        return [Known::unknown(reason.clone()), Known::unknown(reason)];
    }
    [Known::Value(total), Known::Value(per_wakeup)]
}

/// Why too few wakeups are on a side.
pub fn too_few(count: &Count, what: &str) -> String {
    match (count.all_crossing, count.staying) {
        (0, _) => format!("not measurable here: no wakeup of the {what} crosses"),
        (all, 0) if count.crossing > 0 => format!(
            "not measurable here: {} of the {what} {} and none that could be measured does not: there is no other side, and only a comparison of two runs can show what crossing costs",
            many(all, "wakeup"),
            agree(all, "crosses", "cross")
        ),
        _ => format!(
            "not measurable here: {} that {} and {} that {} not could be measured, and each side needs {LEAST_SAMPLES}",
            many(count.crossing, "wakeup"),
            agree(count.crossing, "crosses", "cross"),
            count.staying,
            agree(count.staying, "does", "do")
        ),
    }
}

/// What crossing cost one pair or task.
pub fn cost_of(cost: Cost, count: &Count, group: Option<&Group>, by_cpi: bool) -> CrossLlcCost {
    let what = match cost {
        Cost::Transit => "pair",
        _ => "task",
    };
    let comparison = group.and_then(|group| Comparison::of(cost, group, by_cpi));
    let [total_ns, per_wakeup_ns] = match comparison {
        Some(found) => totals(found.resampled(), found.crossing, found.staying),
        None => {
            let reason = match comparable(count) {
                true => not_alike(count),
                false => too_few(count, what),
            };
            [Known::unknown(reason.clone()), Known::unknown(reason)]
        }
    };
    CrossLlcCost {
        total_ns,
        per_wakeup_ns,
        crossing: count.crossing,
        staying: count.staying,
        measure: measure(cost, by_cpi),
    }
}

/// Why wakeups on both sides cannot be compared.
fn not_alike(count: &Count) -> String {
    format!(
        "not measurable here: of {} wakeups that cross and {} that do not, fewer than {LEAST_SAMPLES} on a side went to CPUs that had been idle for about as long",
        count.crossing, count.staying
    )
}

pub fn measure(cost: Cost, by_cpi: bool) -> CrossLlcMeasure {
    match (cost, by_cpi) {
        (Cost::ColdCache | Cost::Transfer, true) => CrossLlcMeasure::CyclesPerInstruction,
        _ => CrossLlcMeasure::Time,
    }
}
