//! What wakeups across LLCs cost (`analysis` §4).

use serde::Serialize;

use super::{Estimate, Known};

/// Three costs, in nanoseconds in total. Each is an association: how much longer something took where a wakeup crossed
/// LLCs than where one like it did not, times the wakeups that crossed.
#[derive(Debug, Clone, Serialize)]
pub struct CrossLlc {
    /// Waker to chosen CPU: the latency on an idle CPU.
    pub transit: Known<Estimate>,
    /// Previous to chosen CPU: the wakee's run until it blocked.
    pub cold_cache: Known<Estimate>,
    /// Waker to chosen CPU, and not previous to chosen: the wakee's run until it blocked.
    pub transfer: Known<Estimate>,
    pub basis: CrossLlcBases,
}

/// What each of the three rests on.
#[derive(Debug, Clone, Serialize)]
pub struct CrossLlcBases {
    pub transit: CrossLlcBasis,
    pub cold_cache: CrossLlcBasis,
    pub transfer: CrossLlcBasis,
}

/// What a total rests on.
#[derive(Debug, Clone, Serialize)]
pub struct CrossLlcBasis {
    pub measure: CrossLlcMeasure,
    pub per_wakeup_ns: Known<Estimate>,
    /// All wakeups that crossed.
    pub crossing: u64,
    /// Those of them that were compared with others, and their share.
    pub compared_crossing: u64,
    pub coverage: f64,
    /// The wakeups that they were compared with.
    pub compared_staying: u64,
    /// Pairs (transit) or tasks that were compared.
    pub compared_groups: u64,
    /// Wakeups of pairs or tasks of which every wakeup crossed: they have no other side.
    pub always_crossing: u64,
    /// Samples behind the estimate: fewer than wakeups where these were so many that only some were drawn.
    pub samples: u64,
    pub confounders: CrossLlcConfounders,
    /// What the number is and is not, as a sentence.
    pub assumption: &'static str,
}

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossLlcMeasure {
    Time,
    /// Cycles per instruction after the wakeup, times instructions, in the crossing side's time per cycle.
    CyclesPerInstruction,
}

/// What else may differ between wakeups that crossed and those that they were compared with.
#[derive(Debug, Clone, Serialize)]
pub struct CrossLlcConfounders {
    /// How much of the wakeups came from the same wakers on both sides: 1 if all.
    pub waker_overlap: Known<f64>,
    /// The share that was put beside a busy SMT sibling.
    pub busy_sibling: Known<Sides>,
    /// For how long the chosen CPU had been idle, as a geometric mean, where it was.
    pub idle_before_ns: Known<Sides>,
    pub frequency: Known<Sides>,
}

/// A number on both sides of a comparison; the staying side's weighted as the crossing side is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sides {
    pub crossing: f64,
    pub staying: f64,
}

/// What wakeups across LLCs cost one pair.
#[derive(Debug, Clone, Serialize)]
pub struct PairCrossLlc {
    pub transit: CrossLlcCost,
}

/// What wakeups across LLCs cost one task.
#[derive(Debug, Clone, Serialize)]
pub struct TaskCrossLlc {
    pub cold_cache: CrossLlcCost,
    pub transfer: CrossLlcCost,
}

/// What wakeups across LLCs cost a pair or a task.
#[derive(Debug, Clone, Serialize)]
pub struct CrossLlcCost {
    pub total_ns: Known<Estimate>,
    pub per_wakeup_ns: Known<Estimate>,
    /// The wakeups that crossed and could be measured, and those that did not cross.
    pub crossing: u64,
    pub staying: u64,
    pub measure: CrossLlcMeasure,
}
