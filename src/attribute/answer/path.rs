//! The critical path of a span of work (`analysis` §7).

use serde::Serialize;

use super::{ByWord, Estimate, Known, Readings};

/// What stands beside units and throughput, and the path itself.
#[derive(Debug, Clone, Serialize)]
pub struct PathFacts {
    /// By category; they sum exactly to the span.
    pub path_ns: ByWord<i64>,
    pub path_share: ByWord<f64>,
    /// By how much throughput would rise at most without a category: 0.1 is ten percent.
    pub gain_at_most: ByWord<Known<f64>>,
    pub gain_assumption: &'static str,
    pub running_within: RunningWithin,
    pub path: PathDetail,
}

/// What of the running time crossing LLCs may have cost, in nanoseconds: each task's own difference a wakeup (`tasks`),
/// times its wakeups that cross and begin a run on the path. It is a part of `running`, not a loss beside it.
#[derive(Debug, Clone, Serialize)]
pub struct RunningWithin {
    pub cold_cache: Known<Estimate>,
    pub transfer: Known<Estimate>,
    pub basis: WithinBases,
}

/// What both rest on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WithinBases {
    pub cold_cache: WithinBasis,
    pub transfer: WithinBasis,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WithinBasis {
    /// Wakeups that cross and begin a run of which a part is on the path.
    pub wakeups: u64,
    /// Those of tasks of which crossing was compared: the others cost what is not known.
    pub compared: u64,
    /// The parts of all these runs that are on the path. The cost is at most so much.
    pub running_ns: i64,
    pub running_share: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathDetail {
    pub start_ns: i64,
    pub end_ns: i64,
    pub total_ns: i64,
    /// Categories that the trace cannot show, and why: their time stands under `running`.
    pub not_shown: ByWord<String>,
    /// Wakeups on it, by the context of the waker.
    pub wakeups: u64,
    pub wakeups_by_waker: ByWord<u64>,
    pub wakeups_cross_llc: Known<u64>,
    pub running: PathTasks,
    pub transit: PathTransit,
    pub wait: PathWait,
    /// By the context that woke.
    pub blocked: ByWord<PathPart>,
    pub unknown: ByWord<PathPart>,
    pub spread: Known<PathSpread>,
    /// The longest parts of it that are not running, each with the times to look at.
    pub longest: Vec<PathMoment>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PathPart {
    pub count: u64,
    pub ns: i64,
    /// Of the path.
    pub share: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathTransit {
    pub by_path: ByWord<PathPart>,
    pub by_distance: ByWord<PathPart>,
    pub gain_at_most_by_path: ByWord<Known<f64>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathWait {
    pub by_origin: ByWord<PathPart>,
    pub by_verdict: ByWord<PathVerdict>,
    /// What the CPU of the waiting task ran meanwhile.
    pub meanwhile: PathMeanwhile,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathVerdict {
    pub count: Readings<u64>,
    pub ns: Readings<i64>,
    pub share: Readings<f64>,
    pub gain_at_most: Known<Readings<f64>>,
}

/// Tasks by their time, most first; the rest in one.
#[derive(Debug, Clone, Serialize)]
pub struct PathTasks {
    pub tasks: Vec<PathTask>,
    pub others_ns: i64,
    pub others_share: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathMeanwhile {
    #[serde(flatten)]
    pub ran: PathTasks,
    /// It ran nothing.
    pub idle_ns: i64,
    pub idle_share: f64,
    pub unknown_ns: i64,
    pub unknown_share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathTask {
    pub name: String,
    pub pid: i32,
    pub ns: i64,
    /// Of the path.
    pub share: f64,
}

/// The paths of equal parts of the span, each from its own end.
#[derive(Debug, Clone, Serialize)]
pub struct PathSpread {
    pub windows: u64,
    /// The categories' shares of those.
    pub share: ByWord<PathRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PathRange {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathMoment {
    pub start_ns: i64,
    pub end_ns: i64,
    pub category: &'static str,
    /// The path of a transit, the verdict of a wait (of an `any` reading, where it was asked for), the context that woke
    /// a sleeper, or why it is unknown.
    pub why: &'static str,
    pub name: String,
    pub pid: i32,
    pub cpu: Option<u32>,
}
