//! Moves of tasks between CPUs (`analysis` §6).

use serde::Serialize;

use super::{ByWord, Known, Quantiles};

#[derive(Debug, Clone, Serialize)]
pub struct Migrations {
    pub total: u64,
    /// By cause and distance; sums to `total`.
    pub by_cause: ByWord<ByWord<u64>>,
    /// The same by cause alone.
    pub totals: ByWord<u64>,
    /// Of those whose distance is known, the share that went to another LLC.
    pub cross_llc_share: Known<f64>,
    /// By cause and by how sure it is; sums to `total`.
    pub by_confidence: ByWord<ByWord<u64>>,
    pub unsure_share: Known<f64>,
    /// On-CPU time of the task from the move until it blocked or was moved again, by cause and distance.
    pub run_after_ns: ByWord<ByWord<Known<Quantiles>>>,
    /// Moves of which the run that followed is not known: events are missing, or the trace ended first.
    pub withdrawn: u64,
    /// Moves that no event announces, but which follow from where the task ran next.
    pub inferred: u64,
    /// New tasks by the distance from their parent's CPU to their first; the kernel does not announce these as
    /// migrations (before 4.14 it does: then they are in `by_cause` too).
    pub fork_placements: ByWord<u64>,
}
