//! Wakee flips and `wake_wide`: what the kernel counted, what it decided by it, and what it would have decided under
//! other rules (`analysis` §5; `record_wakee` and `wake_wide` in the kernel's fair.c).
//!
//! The replay sends [`FlipStep`]s in the order of the wakings; a [`Follower`], which may run on another thread, keeps
//! every task's counters by them and gives a [`FlipRow`](super::rows::FlipRow) for each wakeup that counts.

mod clock;
mod follower;
mod hook;
mod rule;
mod setup;
pub mod ticks;
mod track;

use std::sync::Arc;

use super::rows::TaskId;

pub use follower::Follower;
pub(super) use hook::{Held, NO_FLIP};
pub use rule::{Rule, Span};
pub use setup::{Setup, SetupInput};
pub use track::Decay;

/// A count of flips from which on it bounds nothing. Counts halve each second, so that a task that flips half a million
/// times a second stays below; what is larger is left of a count before the trace, of which nothing is known, halved or
/// added to since.
const NO_BOUND: u32 = 1 << 20;

/// Whether the upper end of an interval of flips says anything.
pub fn is_bound(most: u32) -> bool {
    most < NO_BOUND
}

/// Whom the kernel charges with a wakeup: the task that was current, whatever interrupted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    Task(TaskId),
    /// The idle task of the CPU with this dense number.
    Idle(usize),
    /// A task that no event has introduced.
    Unknown,
}

/// What changes counters of flips.
#[derive(Debug, Clone)]
pub enum FlipStep {
    /// Comes first, and once.
    Begin(Arc<Setup>),
    Wake(FlipWake),
    /// The child begins with the counters that its parent had a little before, which the kernel copies.
    Fork {
        parent: Option<TaskId>,
        child: TaskId,
        now: i64,
    },
    /// The kernel's own value of a task that no one woke: at `exec`, or, with its parent, at its birth.
    Shown {
        task: TaskId,
        parent: Option<TaskId>,
        flips: u32,
        now: i64,
    },
    /// Events are missing now, and the task may have been where they are.
    Forget {
        task: TaskId,
        now: i64,
    },
    /// Events of a CPU are missing up to `until_ns`: whoever may have run there may have woken anyone.
    Lost {
        /// Dense number.
        cpu: usize,
        until_ns: i64,
        /// The tasks that were certainly elsewhere.
        elsewhere: Box<[TaskId]>,
    },
}

/// A wakeup that the kernel counts, or perhaps counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlipWake {
    pub waking_ns: i64,
    /// When its CPU had been chosen: the kernel counted it in between, and looked at the ticks then.
    pub chosen_ns: i64,
    /// How late ticks may be counted then.
    pub late_ns: u32,
    pub waker: Charged,
    pub wakee: TaskId,
    /// Dense number, and id.
    pub waker_cpu: usize,
    pub waker_cpu_id: u32,
    pub chosen_cpu: Option<u32>,
    /// Whether it certainly counts; if not, the events leave it open.
    pub sure: bool,
    /// Whether the waker made it itself, not an interrupt in its name.
    pub in_task: bool,
    /// Whether `wake_wide` is asked: under the old rule only within `wake_affine`.
    pub asked: Asked,
    /// The wakee's flips by the kernel's own word.
    pub probed: Option<u32>,
    /// Whether it was put into the waker's LLC from another; `None` if that is not known.
    pub pulled: Option<bool>,
    pub in_window: bool,
}

/// Under which rules a wakeup asks `wake_wide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub old: bool,
    pub new: bool,
}
