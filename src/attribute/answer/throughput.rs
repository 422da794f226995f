//! Units of work, and the critical path between them (`analysis` §7).

use serde::Serialize;

use super::{Known, PathFacts, Readings, Spread};

/// Units per second, and what the machine did for each.
#[derive(Debug, Clone, Serialize)]
pub struct Throughput {
    /// `marker`, `event`, `task`, `total`, or `wakeup` where the user named no unit.
    pub kind: &'static str,
    /// The unit in words, such as `marker wakelab`.
    pub unit: String,
    /// Whether the unit is work, as the user says it is. Wakeups are not: their number changes with how they are made.
    pub named_throughput: bool,
    pub units: u64,
    /// So many more at most may have been done in the span, of which no mark tells.
    pub units_missed_at_most: u64,
    pub span: UnitSpan,
    pub per_second: f64,
    pub time_per_unit_ns: f64,
    /// Of the whole machine within the span.
    pub wakeups: Known<u64>,
    pub switches: Known<u64>,
    pub ipis: Known<u64>,
    pub wakeups_per_unit: Known<f64>,
    pub switches_per_unit: Known<f64>,
    pub ipis_per_unit: Known<f64>,
    /// Idle CPU time that waiting tasks could have used, as a share of it and the running time: of the whole window.
    pub lost_capacity_share: Known<Readings<f64>>,
    /// Names of the tasks that do the units, or stand in for them, the busiest first.
    pub tasks: Vec<String>,
    /// The tasks that did the most units.
    pub by_task: Known<Vec<TaskUnits>>,
    /// How units spread over the threads that did any.
    pub per_thread: Known<PerThread>,
    /// What the figures rest on, each a full sentence.
    pub notes: Vec<String>,
    /// What the time of the span went into.
    #[serde(flatten)]
    pub critical: PathFacts,
}

/// From the first unit's start to the last one's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UnitSpan {
    pub start_ns: i64,
    pub end_ns: i64,
}

/// The units of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskUnits {
    pub name: String,
    pub pid: i32,
    pub units: u64,
    /// Its time on CPUs in the window.
    pub run_ns: i64,
}

/// The threads that did units: how many each did, and for how long each was on CPUs in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PerThread {
    pub units: Spread,
    pub run_ns: Spread,
}
