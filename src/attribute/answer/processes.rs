//! Processes: how their threads spread over LLCs, and how much each did.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Known;

/// One process. Threads that neither ran nor waited in the window do not count.
#[derive(Debug, Clone, Serialize)]
pub struct ProcessFacts {
    /// The name of its first thread, or of the busiest that the trace shows.
    pub name: String,
    pub tgid: i32,
    pub threads: u64,
    /// How many tasks had the process's id as their own, one after the other: more than one where the id was used
    /// again, or where `exec` was called by another thread than the first.
    pub leaders: u64,
    pub run_ns: i64,
    /// Run time by LLC; what CPUs of no known LLC ran is under `unknown`. Sums to `run_ns`.
    pub llc_run_ns: Known<BTreeMap<String, i64>>,
    pub co_residency: Known<CoResidency>,
    /// Wakeups of its threads by its threads, and those of them across LLCs.
    pub wakeups_inside: u64,
    pub cross_llc_wakeups: Known<u64>,
    /// How often a thread went on in another LLC than it had run in before.
    pub llc_moves: Known<u64>,
    /// Run time of its threads, in nanoseconds.
    pub thread_run_ns: Known<Spread>,
    /// Units of work of its threads.
    pub units: Known<Spread>,
}

/// How much of a process runs where its other threads run.
#[derive(Debug, Clone, Serialize)]
pub struct CoResidency {
    /// The share of the run time in the LLC that has most of it.
    pub share: f64,
    pub preferred_llc: u32,
    /// How often that LLC changed from one part of the window to the next in which the process ran.
    pub preferred_changes: u64,
    /// How many LLCs the process used at once, as a mean over the time in which it ran.
    pub llcs_at_once: f64,
    /// The window in equal parts, at most 60.
    pub windows: Vec<ResidencyWindow>,
}

/// Where a process ran in a part of the window.
#[derive(Debug, Clone, Serialize)]
pub struct ResidencyWindow {
    pub start_ns: i64,
    pub end_ns: i64,
    pub run_ns: i64,
    /// The share of that in each LLC in which it ran.
    pub llc_share: BTreeMap<String, f64>,
}

/// How a number spreads over threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    pub n: u64,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    /// `max` − `min`.
    pub range: f64,
    /// The standard deviation of these threads (divided by n).
    pub stddev_population: f64,
    /// The same as an estimate of what such threads do (divided by n − 1).
    pub stddev_sample: Known<f64>,
}
