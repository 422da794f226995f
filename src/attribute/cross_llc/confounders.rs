//! What else differs between wakeups that cross and those that they are compared with.

use rustc_hash::FxHashMap;

use super::super::answer::{CrossLlcConfounders, Known, Sides};
use super::counts::{Count, Counts, OfPair};
use super::samples::{Beside, Group};
use super::sides::Cost;

const FREQUENCY: &str = "the frequency of the processors is not followed: where it differs between the sides, it looks like a cost or a gain";
const NOTHING: &str = "nothing was compared";

/// The confounders of a cost, over the groups that were compared.
pub fn confounders(cost: Cost, counts: &Counts, compared: &[&Group]) -> CrossLlcConfounders {
    let none = compared.is_empty();
    let why = |reason: &str| match none {
        true => NOTHING.to_owned(),
        false => reason.to_owned(),
    };
    let known = |found: Option<Sides>, reason: &str| match found {
        Some(sides) => Known::Value(sides),
        None => Known::unknown(why(reason)),
    };
    let idle = weighted(compared, Beside::idle_log_mean);
    CrossLlcConfounders {
        waker_overlap: match (cost, none) {
            (_, true) => Known::unknown(NOTHING),
            // Both sides are of one pair.
            (Cost::Transit, _) => Known::Value(1.0),
            (Cost::ColdCache, _) => Known::Value(overlap(counts, |of| &of.cold_cache, compared)),
            (Cost::Transfer, _) => Known::Value(overlap(counts, |of| &of.transfer, compared)),
        },
        busy_sibling: known(
            weighted(compared, Beside::busy_share),
            "the topology does not tell SMT siblings, or the trace what they ran",
        ),
        idle_before_ns: known(
            idle.map(|logs| Sides {
                crossing: logs.crossing.exp(),
                staying: logs.staying.exp(),
            }),
            "none of the wakeups went to a CPU of which it is seen since when it was idle",
        ),
        frequency: Known::unknown(why(FREQUENCY)),
    }
}

/// A figure of both sides, each group weighted by its wakeups that cross.
fn weighted(compared: &[&Group], of: impl Fn(&Beside) -> Option<f64>) -> Option<Sides> {
    let mut weight = 0.0;
    let mut sums = Sides {
        crossing: 0.0,
        staying: 0.0,
    };
    for group in compared {
        let found = of(&group.crossing.beside).zip(of(&group.staying.beside));
        if let Some((crossing, staying)) = found {
            let own = group.count.crossing as f64;
            weight += own;
            sums.crossing += own * crossing;
            sums.staying += own * staying;
        }
    }
    (weight > 0.0).then(|| Sides {
        crossing: sums.crossing / weight,
        staying: sums.staying / weight,
    })
}

/// How much of a task's wakeups came from the same wakers on both sides: the sum over wakers of the lesser share.
fn overlap(counts: &Counts, of: impl Fn(&OfPair) -> &Count, compared: &[&Group]) -> f64 {
    let tasks: FxHashMap<u32, &Count> = compared.iter().map(|g| (g.key.1, &g.count)).collect();
    let mut all = 0.0;
    for ((_, wakee), pair) in &counts.pairs {
        let Some(task) = tasks.get(wakee) else {
            continue;
        };
        let pair = of(pair);
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let crossing = share(pair.crossing, task.crossing);
        let staying = share(pair.staying, task.staying);
        all += crossing.min(staying) * task.crossing as f64;
    }
    let weight: u64 = tasks.values().map(|task| task.crossing).sum();
    // The order of the sum may leave it a hair above 1.
    (all / (weight as f64).max(1.0)).min(1.0)
}
