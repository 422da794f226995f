//! Tasks pulled from one LLC to another and back (`analysis` §5).

use serde::Serialize;

use super::{ByWord, Known, Quantiles, Readings};

/// Bounces: two changes of LLC of one task, with none in between, of which the second takes back the first, at most
/// `within_ns` later. A→B→A→B are two.
#[derive(Debug, Clone, Serialize)]
pub struct Bounces {
    pub within_ns: i64,
    pub count: u64,
    /// Returns that came later than that: not counted as bounces.
    pub later: u64,
    /// Tasks that bounced.
    pub tasks: u64,
    /// From the way out to the way back.
    pub away_ns: Known<Quantiles>,
    /// By what pulled the task out, and what pulled it back.
    pub by_pullers: ByWord<ByWord<u64>>,
    /// Bounces of which the way out left an LLC in which an eligible CPU was idle.
    pub left_idle: Readings<u64>,
    /// Idle CPU time matched to the tasks' waits after both moves, until they blocked or were moved again.
    pub lost_ns: Readings<i64>,
    /// The tasks that lost most, then those that bounced most.
    pub worst: Vec<BouncingTask>,
}

#[derive(Debug, Clone, Serialize)]
pub struct BouncingTask {
    pub name: String,
    pub pid: i32,
    pub bounces: u64,
    pub left_idle: Readings<u64>,
    pub lost_ns: Readings<i64>,
    /// Who pulled it most, either way.
    pub pulled_by: Vec<Puller>,
    /// The first ones.
    pub examples: Vec<Bounce>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Puller {
    pub cause: &'static str,
    pub by: Known<String>,
    pub by_pid: Known<i32>,
    pub pulls: u64,
}

/// One bounce, to be looked at in the trace.
#[derive(Debug, Clone, Serialize)]
pub struct Bounce {
    pub out_ns: i64,
    pub back_ns: i64,
    pub from_cpu: u32,
    pub to_cpu: u32,
    pub back_cpu: u32,
    pub out: Pull,
    pub back: Pull,
}

#[derive(Debug, Clone, Serialize)]
pub struct Pull {
    pub cause: &'static str,
    /// The waker, or the task on whose behalf its CPU pulled; unknown in an interrupt.
    pub by: Known<String>,
    pub by_pid: Known<i32>,
    /// Eligible CPUs that were idle in the LLC that the task left.
    pub idle_left: Readings<u32>,
}
