//! Replay: one pass over the time-merged events that rebuilds what every CPU and task did, and emits it as
//! rows. The rules are those of `analysis` §1 to §3, the classes those of the kernel's `try_to_wake_up`.

mod affinity;
mod causes;
mod classify;
mod counting;
pub mod cpuset;
mod engine;
pub mod flips;
mod flushes;
mod gaps;
mod ipis;
pub mod ledger;
mod leftover;
mod machine;
pub mod matching;
mod migrations;
pub mod model;
mod open_waking;
mod overlap;
mod pids;
mod probed_masks;
pub mod resolver;
pub mod rows;
mod seconds;
mod silence;
pub mod snapshot;
pub mod steps;
pub mod survey;
mod switches;
mod tasks;
pub mod units;
mod verdict;
mod waits;
mod wakeups;
pub mod words;

pub use engine::Replay;
pub use ipis::{IpiFacts, Reason};
pub use machine::Machine;

use ledger::Window;
use model::KernelModel;
use resolver::Recorded;
use snapshot::Snapshot;
use units::Work;
use words::Reading;

/// What the replay is told beside the events.
#[derive(Debug, Clone)]
pub struct Config {
    pub window: Window,
    /// First and last stamp of the trace.
    pub start_ns: i64,
    pub end_ns: i64,
    /// How long before the waking and after the choice a CPU must have been idle to count as missed.
    pub settle_ns: i64,
    pub readings: Vec<Reading>,
    pub model: KernelModel,
    pub recorded: Recorded,
    /// CPUs whose buffers held everything from the start, with the task that ran there first.
    pub known_from_start: Vec<(u32, i32)>,
    /// How many CPUs a task without restriction may run on.
    pub online_cpus: usize,
    /// What the machine record says of the tasks.
    pub snapshot: Snapshot,
    /// What the trace can show of interrupts between CPUs.
    pub ipis: IpiFacts,
    /// Judge the recorder's own threads as any other task.
    pub include_recorder: bool,
    /// What is counted as a unit of work, where the user said it.
    pub work: Option<Work>,
    /// What wakee flips are followed and judged by.
    pub flips: flips::Setup,
}

/// What the recorder's own threads did in the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderCounts {
    pub tasks: u64,
    pub running_ns: i64,
    /// Wakeups that they made or received.
    pub wakeups: u64,
    pub waits: u64,
}

/// What the replay could not place, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub waits: u64,
    /// Waits and wakeups given up because they span missing events.
    pub withdrawn_waits: u64,
    pub withdrawn_wakeups: u64,
    /// A task was woken again although by the events it had not run since: the earlier wait is void.
    pub inconsistent_waits: u64,
    /// A task ran although it was last seen blocked.
    pub ran_without_wakeup: u64,
    /// A `sched_switch` left another task than the one that was running.
    pub switch_mismatches: u64,
    /// A task ran on another CPU than the one it was queued on, with no migration recorded.
    pub inferred_migrations: u64,
    pub wakeups_without_waking: u64,
    pub wakings_without_wakeup: u64,
    /// How long the waits that were withdrawn had lasted.
    pub withdrawn_ns: i64,
    /// Lost time that was shared out to them before.
    pub withdrawn_lost_ns: words::Pair<i64>,
    /// Waits that were still open at the trace's end.
    pub open_waits: u64,
    pub withheld: u64,
    pub withheld_ns: i64,
    /// Wakeups whose overlap is only bounded.
    pub censored_overlaps: u64,
    /// Probed selections: checked, and how many agree.
    pub probes_checked: u64,
    pub probes_prev_equal: u64,
    pub probes_chosen_equal: u64,
    /// Those made for a waker about to sleep, and the highest `wakee_flips`; `None` where no probe shows it.
    pub probes_sync: Option<u64>,
    pub probes_flips_max: Option<u32>,
    /// Those that show the wakee's mask.
    pub probes_masks: u64,
    /// Tasks seen where the machine record says they might not run.
    pub masks_refuted: u64,
    pub recorder: RecorderCounts,
    /// `tlb_flush` events in the window, by code of their reason.
    pub tlb_flushes: [u64; words::FLUSH_REASONS],
    /// Events that name a CPU which the trace cannot have.
    pub bad_cpus: u64,
    /// Stamps that went back.
    pub backward_stamps: u64,
    /// Wakeups that may have been requeues of delayed tasks among those with a missed-idle verdict.
    pub ambiguous_misses: u64,
}
