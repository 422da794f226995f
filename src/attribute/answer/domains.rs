//! Scheduler domains against the caches (`analysis` §6).

use serde::Serialize;

use super::{ByWord, Known};

#[derive(Debug, Clone, Serialize)]
pub struct Domains {
    pub masks: Known<DomainMasks>,
    pub behaviour: Known<DomainBehaviour>,
}

/// The kernel's LLC of each CPU, which is its highest domain that shares a cache, against the cache itself.
#[derive(Debug, Clone, Serialize)]
pub struct DomainMasks {
    /// Where the domains come from.
    pub domains: String,
    /// Where the caches come from.
    pub caches: String,
    /// CPUs by how the two compare.
    pub cpus: ByWord<Vec<u32>>,
    /// Every pair of the two that is not equal, once.
    pub differences: Vec<DomainDifference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainDifference {
    pub fit: &'static str,
    pub kernel: Vec<u32>,
    pub cache: Vec<u32>,
}

/// Wakeups of fair tasks with a selection: the kernel looks for a CPU in the LLC of the previous CPU or of the waker's,
/// nowhere else. What lands elsewhere shows that its idea of an LLC is wider than the cache, but for policies that place
/// by energy or capacity, and for tasks whose mask forbids both.
#[derive(Debug, Clone, Serialize)]
pub struct DomainBehaviour {
    /// Of which all three LLCs are known.
    pub placements: u64,
    /// In neither LLC.
    pub outside: u64,
    pub outside_share: f64,
    /// Tasks so placed.
    pub tasks: u64,
    /// `fits`: none outside; `few`: fewer than `least`, or below `least_share`; `wider`: more.
    pub verdict: &'static str,
    pub least: u64,
    pub least_share: f64,
    /// The first ones.
    pub examples: Vec<Outside>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outside {
    pub waking_ns: i64,
    pub wakee: String,
    pub wakee_pid: i32,
    pub waker_cpu: u32,
    pub prev_cpu: u32,
    pub chosen_cpu: u32,
}
