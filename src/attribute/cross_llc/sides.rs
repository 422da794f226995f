//! On which side of which comparison a wakeup is.

use polars::prelude::PolarsResult;

use super::super::blocks::{Block, NO_NUMBER, NO_TIME};
use super::super::scope::Scope;
use crate::topology::Topology;

/// Columns that decide it, and what is measured.
pub const COLUMNS: [&str; 14] = [
    "waker",
    "wakee",
    "waker_cpu",
    "prev_cpu",
    "chosen_cpu",
    "chosen_idle",
    "sibling_busy",
    "cross_llc",
    "waking_ns",
    "latency_ns",
    "idle_before_ns",
    "wakee_run_ns",
    "wakee_cycles",
    "wakee_instructions",
];

/// The three costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    Transit,
    ColdCache,
    Transfer,
}

/// One wakeup, as far as its crossing and its cost are known.
#[derive(Debug, Clone, Copy)]
pub struct Wakeup {
    /// `None` if an interrupt woke.
    pub waker: Option<u32>,
    pub wakee: u32,
    pub waking_ns: i64,
    /// Whether waker and chosen CPU have different LLCs.
    pub waker_crosses: Option<bool>,
    /// Whether previous and chosen CPU have.
    pub prev_crosses: Option<bool>,
    pub latency_ns: Option<i64>,
    /// For how long the chosen CPU had been idle, if it was.
    pub idle_before_ns: Option<i64>,
    pub sibling_busy: Option<bool>,
    pub run_ns: Option<i64>,
    pub cycles: Option<i64>,
    pub instructions: Option<i64>,
}

impl Wakeup {
    /// Whether the wakeup crosses as a cost means it, or does not cross at all; `None` if it is on neither side.
    pub fn crosses(&self, cost: Cost) -> Option<bool> {
        match cost {
            // A task that wakes itself is no pair.
            Cost::Transit if self.waker.is_none_or(|waker| waker == self.wakee) => None,
            _ => side(cost, self.waker_crosses, self.prev_crosses),
        }
    }

    /// Latency on an idle CPU of which it is known for how long it had been idle, and the class of that.
    pub fn transit(&self) -> Option<(u8, u32)> {
        let stratum = stratum(self.idle_before_ns?);
        Some((stratum, saturated(self.latency_ns?)))
    }

    /// The run in time.
    pub fn run(&self) -> Option<u32> {
        Some(saturated(self.run_ns?))
    }

    /// The run in cycles per instruction, as a fixed-point number.
    pub fn run_cpi(&self) -> Option<u32> {
        let (cycles, instructions) = (self.cycles? as f64, self.instructions? as f64);
        self.run_ns?;
        Some((cycles / instructions * CPI_ONE).round() as u32)
    }
}

/// The side of a wakeup of which is known whether it leads to another LLC than the waker's, and than the one that the
/// wakee was last in.
pub fn side(cost: Cost, waker: Option<bool>, prev: Option<bool>) -> Option<bool> {
    match cost {
        Cost::Transit => waker,
        Cost::ColdCache if prev == Some(true) => Some(true),
        Cost::Transfer if (waker, prev) == (Some(true), Some(false)) => Some(true),
        Cost::ColdCache | Cost::Transfer => {
            ((waker, prev) == (Some(false), Some(false))).then_some(false)
        }
    }
}

/// A fixed-point 1 of cycles per instruction.
pub const CPI_ONE: f64 = 65_536.0;

/// Which power of two nanoseconds a CPU had been idle for.
fn stratum(idle_ns: i64) -> u8 {
    u8::try_from(idle_ns.max(1).ilog2()).unwrap_or(u8::MAX)
}

/// Beyond 4.29 s the highest there is: it is left out as one of the longest anyway.
fn saturated(ns: i64) -> u32 {
    u32::try_from(ns.max(0)).unwrap_or(u32::MAX)
}

/// Where the columns of a block are read to.
#[derive(Default)]
pub struct Scratch {
    numbers: [Vec<u32>; 5],
    codes: [Vec<u8>; 3],
    times: [Vec<i64>; 6],
}

/// Hands each wakeup of a block to `take`, but for those of tasks that are left out.
pub fn each(
    scope: &Scope,
    block: &Block,
    scratch: &mut Scratch,
    mut take: impl FnMut(&Wakeup),
) -> PolarsResult<()> {
    let [wakers, wakees, waker_cpus, prev_cpus, chosen_cpus] = &mut scratch.numbers;
    let [idle, busy, crossing] = &mut scratch.codes;
    let [wakings, latencies, idle_before, runs, cycles, instructions] = &mut scratch.times;
    let wakers = block.numbers("waker", wakers)?;
    let wakees = block.numbers("wakee", wakees)?;
    let waker_cpus = block.numbers("waker_cpu", waker_cpus)?;
    let prev_cpus = block.numbers("prev_cpu", prev_cpus)?;
    let chosen_cpus = block.numbers("chosen_cpu", chosen_cpus)?;
    let idle = block.codes("chosen_idle", idle)?;
    let busy = block.codes("sibling_busy", busy)?;
    let crossing = block.codes("cross_llc", crossing)?;
    let wakings = block.times("waking_ns", wakings)?;
    let latencies = block.times("latency_ns", latencies)?;
    let idle_before = block.times("idle_before_ns", idle_before)?;
    let runs = block.times("wakee_run_ns", runs)?;
    let cycles = block.times("wakee_cycles", cycles)?;
    let instructions = block.times("wakee_instructions", instructions)?;
    let topology = scope.facts.topology();
    let time = |ns: i64| Some(ns).filter(|&ns| ns != NO_TIME);
    for row in 0..block.rows() {
        let (waker, wakee) = (wakers[row], wakees[row]);
        if scope.leaves_out(waker) || scope.leaves_out(wakee) {
            continue;
        }
        take(&Wakeup {
            waker: Some(waker).filter(|&waker| waker != NO_NUMBER),
            wakee,
            waking_ns: wakings[row],
            waker_crosses: match waker_cpus[row] {
                NO_NUMBER => None,
                _ => flag(crossing[row]),
            },
            prev_crosses: between(topology, prev_cpus[row], chosen_cpus[row]),
            latency_ns: time(latencies[row]),
            idle_before_ns: time(idle_before[row]).filter(|_| idle[row] == 1),
            sibling_busy: flag(busy[row]),
            run_ns: time(runs[row]),
            cycles: time(cycles[row]),
            instructions: time(instructions[row]),
        });
    }
    Ok(())
}

fn flag(code: u8) -> Option<bool> {
    match code {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn between(topology: &Topology, a: u32, b: u32) -> Option<bool> {
    if a == NO_NUMBER || b == NO_NUMBER {
        return None;
    }
    topology.crosses_llc(a, b)
}
