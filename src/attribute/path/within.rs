//! What crossing LLCs may have cost within the running time of a path (`analysis` §4, §7).

use rustc_hash::FxHashMap;

use super::super::answer::{Estimate, Known, RunningWithin, WithinBases, WithinBasis};
use super::super::cross_llc::{Cost, Costs};
use super::runs::CrossingRuns;
use super::tally::Sum;

/// Before it is known what crossing costs.
pub fn not_measured() -> RunningWithin {
    let unknown = || Known::unknown("crossing LLCs was not estimated");
    RunningWithin {
        cold_cache: unknown(),
        transfer: unknown(),
        basis: WithinBases {
            cold_cache: WithinBasis::default(),
            transfer: WithinBasis::default(),
        },
    }
}

/// What crossing LLCs cost within the runs of a path of this length.
pub fn within(runs: &CrossingRuns, crossing: &Costs, total_ns: i64) -> RunningWithin {
    let of = |cost, runs| cost_of(cost, runs, crossing, total_ns);
    let (cold_cache, of_cold_cache) = of(Cost::ColdCache, &runs.cold_cache);
    let (transfer, of_transfer) = of(Cost::Transfer, &runs.transfer);
    RunningWithin {
        cold_cache,
        transfer,
        basis: WithinBases {
            cold_cache: of_cold_cache,
            transfer: of_transfer,
        },
    }
}

fn cost_of(
    cost: Cost,
    runs: &FxHashMap<u32, Sum>,
    crossing: &Costs,
    total_ns: i64,
) -> (Known<Estimate>, WithinBasis) {
    let wakeups = runs.iter().map(|(task, sum)| (*task, sum.count)).collect();
    let running_ns = runs.values().map(|sum| sum.ns).sum();
    let (known, compared) = crossing.of_runs(cost, &wakeups);
    let of = |task: &u32| runs.get(task).copied().unwrap_or_default();
    let compared_ns: i64 = compared.iter().map(|task| of(task).ns).sum();
    let at_most = |ns: f64| ns.min(compared_ns as f64);
    let known = match known {
        Known::Value(found) => Known::Value(Estimate {
            value: at_most(found.value),
            ci95: found.ci95.map(at_most),
            n: found.n,
        }),
        unknown => unknown,
    };
    let basis = WithinBasis {
        wakeups: wakeups.values().sum(),
        compared: compared.iter().map(|task| of(task).count).sum(),
        running_ns,
        running_share: match total_ns {
            0 => 0.0,
            total => running_ns as f64 / total as f64,
        },
    };
    (known, basis)
}
