//! Where the CPUs' time went: both ledgers of `analysis` §2, and each LLC's part.

use std::collections::BTreeMap;

use polars::prelude::*;

use super::answer::{Known, Ledger, LlcFacts, Readings, WaitingLlc};
use super::scope::Scope;
use crate::replay::words::{Pair, Reading};

/// The rows of some CPUs, summed.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    unknown: i64,
    running: i64,
    transit: i64,
    core: Pair<i64>,
    smt: Pair<i64>,
    machine: Pair<i64>,
    idle: Pair<i64>,
}

const ROWS: [&str; 11] = [
    "unknown_ns",
    "running_ns",
    "transit_ns",
    "waiting_llc_core_seen_ns",
    "waiting_llc_core_any_ns",
    "waiting_llc_smt_seen_ns",
    "waiting_llc_smt_any_ns",
    "waiting_machine_seen_ns",
    "waiting_machine_any_ns",
    "idle_seen_ns",
    "idle_any_ns",
];

impl Sums {
    /// The sums in one row of a frame with the columns [`ROWS`].
    fn read(frame: &DataFrame, row: usize) -> PolarsResult<Self> {
        let mut values = [0; ROWS.len()];
        for (value, name) in values.iter_mut().zip(ROWS) {
            *value = frame.column(name)?.i64()?.get(row).unwrap_or(0);
        }
        let [unknown, running, transit, core_seen, core_any, rest @ ..] = values;
        let [
            smt_seen,
            smt_any,
            machine_seen,
            machine_any,
            idle_seen,
            idle_any,
        ] = rest;
        Ok(Self {
            unknown,
            running,
            transit,
            core: Pair([core_seen, core_any]),
            smt: Pair([smt_seen, smt_any]),
            machine: Pair([machine_seen, machine_any]),
            idle: Pair([idle_seen, idle_any]),
        })
    }

    fn waiting(&self, reading: Reading) -> i64 {
        self.core[reading] + self.smt[reading] + self.machine[reading]
    }

    fn total(&self, reading: Reading) -> i64 {
        self.unknown + self.running + self.transit + self.waiting(reading) + self.idle[reading]
    }
}

/// The ledger of the selected CPUs.
pub fn ledger(scope: &Scope) -> PolarsResult<Ledger> {
    let summed: Vec<Expr> = ROWS.iter().map(|name| col(*name).sum()).collect();
    let frame = scope.cpus()?.select(summed).collect()?;
    let sums = Sums::read(&frame, 0)?;
    let total_ns = sums.total(scope.ranking());
    let share = |ns: i64| match total_ns {
        0 => 0.0,
        total => ns as f64 / total as f64,
    };
    let ns = |of: &dyn Fn(Reading) -> i64| scope.readings(of);
    let shares = |of: &dyn Fn(Reading) -> i64| scope.readings(|reading| share(of(reading)));
    let core = |reading| sums.core[reading];
    let smt = |reading| sums.smt[reading];
    let machine = |reading| sums.machine[reading];
    let waiting = |reading| sums.waiting(reading);
    let idle = |reading| sums.idle[reading];
    Ok(Ledger {
        total_ns,
        unknown_ns: sums.unknown,
        unknown_share: share(sums.unknown),
        running_ns: sums.running,
        running_share: share(sums.running),
        transit_ns: sums.transit,
        transit_share: share(sums.transit),
        waiting_llc_ns: with_llcs(scope, || WaitingLlc {
            core: ns(&core),
            smt: ns(&smt),
        }),
        waiting_llc_share: with_llcs(scope, || WaitingLlc {
            core: shares(&core),
            smt: shares(&smt),
        }),
        waiting_machine_ns: with_llcs(scope, || ns(&machine)),
        waiting_machine_share: with_llcs(scope, || shares(&machine)),
        waiting_ns: ns(&waiting),
        waiting_share: shares(&waiting),
        idle_ns: ns(&idle),
        idle_share: shares(&idle),
    })
}

/// What only a known topology can tell.
pub fn with_llcs<T>(scope: &Scope, of: impl FnOnce() -> T) -> Known<T> {
    match scope.facts.llcs_unknown() {
        Some(reason) => Known::unknown(reason),
        None => Known::Value(of()),
    }
}

/// What only a topology can tell that names the LLC of more CPUs than those of one.
pub fn with_crossing<T>(scope: &Scope, of: impl FnOnce() -> T) -> Known<T> {
    match scope.facts.crossing_unknown() {
        Some(reason) => Known::unknown(reason),
        None => Known::Value(of()),
    }
}

/// The selected CPUs' time by LLC, the one with the most waiting first.
pub fn llcs(scope: &Scope) -> PolarsResult<Known<Vec<LlcFacts>>> {
    if let Some(reason) = scope.facts.llcs_unknown() {
        return Ok(Known::unknown(reason));
    }
    let summed: Vec<Expr> = ROWS.iter().map(|name| col(*name).sum()).collect();
    let by_llc = [col("llc")];
    let rows = scope.cpus()?.filter(col("llc").is_not_null());
    let frame = rows.group_by(by_llc).agg(summed).collect()?;
    let ids = frame.column("llc")?.u32()?;
    let mut llcs = BTreeMap::new();
    for row in 0..frame.height() {
        if let Some(llc) = ids.get(row) {
            llcs.insert(llc, Sums::read(&frame, row)?);
        }
    }
    let mut llcs: Vec<LlcFacts> = llcs
        .into_iter()
        .map(|(llc, sums)| facts_of(scope, llc, &sums))
        .collect();
    // Stable: LLCs with equal waits stay in the order of their ids.
    let ranking = scope.ranking();
    llcs.sort_by_key(|llc| std::cmp::Reverse(of_reading(&llc.waiting_ns, ranking)));
    Ok(Known::Value(llcs))
}

fn facts_of(scope: &Scope, llc: u32, sums: &Sums) -> LlcFacts {
    let cpus = scope.facts.machine.cpus.ids().iter().copied();
    let of_llc =
        |cpu: &u32| scope.facts.topology().llc_id(*cpu) == Some(llc) && scope.has_cpu(*cpu);
    LlcFacts {
        llc,
        cpus: cpus.filter(of_llc).collect(),
        running_ns: sums.running,
        idle_ns: scope.readings(|reading| sums.idle[reading]),
        waiting_ns: scope.readings(|reading| sums.waiting(reading)),
    }
}

/// The number under one reading; 0 if it was not asked for.
pub fn of_reading<T: Copy + Default>(readings: &Readings<T>, reading: Reading) -> T {
    match reading {
        Reading::Seen => readings.seen,
        Reading::Any => readings.any,
    }
    .unwrap_or_default()
}
