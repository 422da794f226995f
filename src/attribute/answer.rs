//! The answer to "what did my wakeups cost": every number of a report under its stable name
//! (`analysis` §9). Reports print these and compute nothing.

mod bounces;
mod cross_llc;
mod domains;
mod flips;
mod ipis;
mod migrations;
mod path;
mod processes;
mod throughput;

use std::collections::BTreeMap;

use serde::Serialize;

pub use bounces::*;
pub use cross_llc::*;
pub use domains::*;
pub use flips::*;
pub use ipis::*;
pub use migrations::*;
pub use path::*;
pub use processes::*;
pub use throughput::*;

/// Version of the JSON report; raised when a name changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A number, or the reason why the trace cannot give it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Known<T> {
    Value(T),
    Unknown { unknown: String },
}

impl<T> Known<T> {
    pub fn unknown(reason: impl Into<String>) -> Self {
        Known::Unknown {
            unknown: reason.into(),
        }
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Known::Value(value) => Some(value),
            Known::Unknown { .. } => None,
        }
    }
}

/// A number under both readings of unknown affinity; one is absent where only the other was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Readings<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any: Option<T>,
}

/// Counts, or other numbers, by the words of an enumeration; every word is present.
pub type ByWord<T> = BTreeMap<&'static str, T>;

/// An estimate with its 95 % bootstrap interval and the number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub ci95: [f64; 2],
    pub n: u64,
}

/// A distribution of durations, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub p50: i64,
    pub p99: i64,
    pub max: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    pub schema_version: u32,
    pub trace: TraceFacts,
    pub ledger: Ledger,
    pub wakeups: Wakeups,
    pub waits: Waits,
    pub sis: Sis,
    pub cross_llc: Known<CrossLlc>,
    pub migrations: Known<Migrations>,
    pub domains: Known<Domains>,
    pub flips: FlipsAndBounces,
    pub ipis: Known<Ipis>,
    pub throughput: Known<Throughput>,
    pub pairs: Vec<PairFacts>,
    pub tasks: Vec<TaskFacts>,
    pub llcs: Known<Vec<LlcFacts>>,
    pub processes: Known<Vec<ProcessFacts>>,
    pub fitness: Fitness,
    pub compare: Known<()>,
    /// What could not be known, or was left out, each a full sentence.
    pub caveats: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct TraceFacts {
    pub format: String,
    pub kernel_release: Known<String>,
    pub kernel_model: String,
    pub clock: String,
    /// The accounted window.
    pub start_ns: i64,
    pub end_ns: i64,
    pub events: u64,
    pub events_by_name: BTreeMap<String, u64>,
    pub lost_events: u64,
    pub cpus: Vec<u32>,
    pub topology: TopologyFacts,
    pub recorder: Known<RecorderFacts>,
}

/// What the recorder's own threads did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecorderFacts {
    /// Its threads that the trace shows.
    pub tasks: u64,
    pub running_ns: i64,
    pub running_share: f64,
    /// Wakeups that they made or received.
    pub wakeups: u64,
    pub waits: u64,
    /// Whether `sis`, `pairs` and `tasks` are without them, and their waits have the verdict `recorder`.
    pub left_out: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct TopologyFacts {
    pub source: String,
    pub llcs: Known<Vec<Vec<u32>>>,
    pub cores: Known<Vec<Vec<u32>>>,
    pub l2s: Known<Vec<Vec<u32>>>,
    pub nodes: Known<Vec<Vec<u32>>>,
}

/// Both CPU-time ledgers. Each reading's rows sum to `total_ns`.
#[derive(Debug, Clone, Serialize)]
pub struct Ledger {
    pub total_ns: i64,
    pub unknown_ns: i64,
    pub unknown_share: f64,
    pub running_ns: i64,
    pub running_share: f64,
    pub transit_ns: i64,
    pub transit_share: f64,
    pub waiting_llc_ns: Known<WaitingLlc<i64>>,
    pub waiting_llc_share: Known<WaitingLlc<f64>>,
    pub waiting_machine_ns: Known<Readings<i64>>,
    pub waiting_machine_share: Known<Readings<f64>>,
    /// The sum of the waiting rows: known without a topology too.
    pub waiting_ns: Readings<i64>,
    pub waiting_share: Readings<f64>,
    pub idle_ns: Readings<i64>,
    pub idle_share: Readings<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WaitingLlc<T> {
    pub core: Readings<T>,
    pub smt: Readings<T>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Wakeups {
    pub total: u64,
    /// The share of them with a latency. Those whose wakee ran already have none.
    pub coverage: f64,
    pub by_class: ByWord<u64>,
    pub by_path: ByWord<u64>,
    pub per_waker_cpu: BTreeMap<String, u64>,
    pub by_distance: ByDistance,
    pub by_waker: ByWord<u64>,
    pub latency_ns: Known<Quantiles>,
    pub queue_ns: Known<Quantiles>,
    pub waker_cost_ns: Known<Quantiles>,
    /// Latency by path and by the distance from waker to chosen CPU.
    pub latency_by_path_ns: ByWord<Known<Quantiles>>,
    pub latency_by_distance_ns: LatencyByDistance,
    pub cross_llc_share: Known<f64>,
    pub smt_shared: Known<u64>,
    pub probe_check: Known<ProbeCheck>,
    pub probed: Known<Probed>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ByDistance {
    pub waker_chosen: ByWord<u64>,
    pub prev_chosen: ByWord<u64>,
    pub waker_prev: ByWord<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct LatencyByDistance {
    pub waker_chosen: ByWord<Known<Quantiles>>,
    pub prev_chosen: ByWord<Known<Quantiles>>,
    pub waker_prev: ByWord<Known<Quantiles>>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct ProbeCheck {
    pub checked: u64,
    pub prev_equal: u64,
    pub chosen_equal: u64,
}

/// What the kernel itself held as it chose CPUs, by its probes.
#[derive(Debug, Clone, Serialize)]
pub struct Probed {
    pub selections: u64,
    /// Made for a waker that said it was about to sleep (WF_SYNC).
    pub sync: Known<u64>,
    /// With the CPUs that the wakee might run on.
    pub masks: u64,
    /// The highest `wakee_flips` of a wakee.
    pub flips_max: Known<u32>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Waits {
    pub count: u64,
    /// The share of all waits that were not given up (`withdrawn`).
    pub coverage: f64,
    pub total_ns: i64,
    pub by_origin: ByWord<OriginFacts>,
    pub by_verdict: ByWord<VerdictFacts>,
    pub withheld: Withheld,
    pub withdrawn: Withdrawn,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct OriginFacts {
    pub count: u64,
    pub wait_ns: i64,
    pub wait_share: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct VerdictFacts {
    pub count: Readings<u64>,
    pub wait_ns: Readings<i64>,
    pub wait_share: Readings<f64>,
    pub lost_ns: Readings<i64>,
    /// Of all the waiting, as `wait_share` is.
    pub lost_share: Readings<f64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Withheld {
    pub count: u64,
    pub ns: i64,
    /// Of all the waiting with what is withheld: `waits.total_ns` and `ns`.
    pub share: f64,
}

/// Waits that were given up because events are missing or contradict each other.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Withdrawn {
    pub lost_events: u64,
    pub inconsistent: u64,
    /// How long they had lasted.
    pub ns: i64,
    /// Of all the waiting with what was given up: `waits.total_ns` and `ns`.
    pub share: f64,
    pub lost_ns: Readings<i64>,
    /// Of the same.
    pub lost_share: Readings<f64>,
}

/// The idle search, under the names its developers use. Scanned runqueues cannot be seen in a trace.
#[derive(Debug, Clone, Serialize)]
pub struct Sis {
    /// Wakeups of fair tasks for which a CPU was selected.
    pub selections: u64,
    /// The share of selections among the wakeups that may have been one.
    pub coverage: f64,
    pub success: u64,
    /// Success on the waker's or the previous CPU; the recently used one needs probes, so a lower bound.
    pub fast_success: u64,
    pub failures: u64,
    /// Failures although an eligible CPU of that LLC (or another's) was idle throughout, by verdict.
    pub missed: Known<ByWord<Readings<u64>>>,
    pub scanned: Known<u64>,
    pub search_efficiency: Known<f64>,
}

/// One waker and its wakee.
#[derive(Debug, Clone, Serialize)]
pub struct PairFacts {
    pub waker: String,
    pub waker_pid: i32,
    pub wakee: String,
    pub wakee_pid: i32,
    pub wakeups: u64,
    pub by_path: ByWord<u64>,
    pub waker_chosen: ByWord<u64>,
    pub cross_llc_share: Known<f64>,
    pub cross_llc: Known<PairCrossLlc>,
    pub latency_ns: Known<Quantiles>,
    /// The waits that these wakeups began.
    pub wait_ns: i64,
    pub lost_ns: Readings<i64>,
    /// The same waits by verdict.
    pub by_verdict: ByWord<VerdictFacts>,
    /// Waits of the wakee that interrupted the runs that these wakeups began.
    pub preempted: OriginFacts,
    /// From when on both were seen on one CPU alone; absent where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_cpu: Option<OneCpu>,
    /// Put on the waker's CPU although an eligible one was idle in that LLC.
    pub stacked: Known<Readings<u64>>,
    pub overlap_ns: Known<Estimate>,
    pub cost_of_spreading_ns: Known<Estimate>,
    /// `spread`, `stack` or `undecided`.
    pub stack_or_spread: &'static str,
    pub stack_or_spread_why: String,
    /// The wait to look at: the one that lost most, or lasted longest.
    pub worst_wait: Known<Moment>,
}

/// A wait to look at. `--from` and `--to` around it limit the report to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    pub start_ns: i64,
    pub end_ns: i64,
    /// The CPU on which it ended.
    pub cpu: u32,
    /// The part of it in the window.
    pub wait_ns: i64,
    /// Under the reading `any` if that was asked for.
    pub lost_ns: i64,
    pub verdict: Readings<&'static str>,
}

/// The CPU on which both tasks of a pair ran and were queued, and no other, from some time on to the trace's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OneCpu {
    pub cpu: u32,
    /// When one of them was seen elsewhere last; the trace's start if they never were.
    pub since_ns: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskFacts {
    pub name: String,
    pub pid: i32,
    pub generation: u32,
    pub run_ns: i64,
    pub wait_ns: i64,
    pub lost_ns: Readings<i64>,
    pub withheld: u64,
    pub wakeups_made: u64,
    pub wakeups_received: u64,
    pub migrations: u64,
    pub cross_llc: Known<TaskCrossLlc>,
    pub latency_ns: Known<Quantiles>,
    /// The wait to look at: the one that lost most, or lasted longest.
    pub worst_wait: Known<Moment>,
}

#[derive(Debug, Clone, Serialize)]
pub struct LlcFacts {
    pub llc: u32,
    pub cpus: Vec<u32>,
    pub running_ns: i64,
    pub idle_ns: Readings<i64>,
    pub waiting_ns: Readings<i64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Fitness {
    pub latency: Fit,
    pub missed_idle: Fit,
    pub cross_llc: Fit,
    pub flips: Fit,
    pub ipis: Fit,
    pub throughput: Fit,
}

/// What a trace is fit for: `yes`, `partly` or `no`, why, and how much of the window it covers.
#[derive(Debug, Clone, Serialize)]
pub struct Fit {
    pub fit: &'static str,
    pub why: String,
    pub coverage: f64,
}
