//! What crosses from the decoding thread to the replay: events cut down to what the replay needs of them.
//!
//! Reading memory that another CPU has just written is what the replay would wait for most, so the common kinds
//! take less than a cache line. Names are sent only when they change, pids as numbers that count up from 0.

use super::pids::PidNumber;
use super::probed_masks::MaskNumber;
use super::units::Marked;
use ttwu_parsers::event::{Comm, ContextFlags, CpuMask, Event};
use ttwu_parsers::print_fmt::PrevState;

/// Steps in time order, and what belongs to some of them: all lists are in the steps' order.
#[derive(Debug, Default)]
pub struct Batch {
    pub steps: Vec<Step>,
    /// What became of each waking and each new task's wakeup.
    pub wakes: Vec<WakeInfo>,
    /// The events behind [`Kind::Rare`].
    pub rare: Vec<Event>,
    /// The masks that probes of these wakings are the first to name: the next numbers stand for them.
    pub masks: Vec<CpuMask>,
    /// The marks behind [`Kind::Mark`].
    pub marks: Vec<Marked>,
    /// Events whose stamps lie before that of one fed earlier, and was taken for theirs.
    pub backward: u64,
}

impl Batch {
    /// Empties it, keeping its storage.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.wakes.clear();
        self.rare.clear();
        self.masks.clear();
        self.marks.clear();
        self.backward = 0;
    }
}

/// An event, or the news about a pid that the next event brings.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub ts: i64,
    pub cpu: u32,
    /// `common_pid`.
    pub pid: i32,
    pub tgid: i32,
    pub flags: ContextFlags,
    /// Whether it is one of the trace's own events, not one that the reader added.
    pub recorded: bool,
    pub kind: Kind,
}

/// What happened. A pid is `None` where the event names an idle task, or none.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Switch(Switch),
    Waking(Woken),
    Wakeup(Woken),
    WakeupNew(Woken),
    Migrate(Moved),
    /// The next pid number stands for this pid.
    Pid(i32),
    /// The name that a pid has from here on.
    Name(PidNumber, Comm),
    /// The event behind it marks a unit of work: the next in [`Batch::marks`].
    Mark,
    /// Any other event: the next in [`Batch::rare`].
    Rare,
}

#[derive(Debug, Clone, Copy)]
pub struct Switch {
    pub prev: Option<PidNumber>,
    pub prev_prio: i16,
    pub prev_state: PrevState,
    pub next: Option<PidNumber>,
    pub next_prio: i16,
}

#[derive(Debug, Clone, Copy)]
pub struct Woken {
    pub wakee: Option<PidNumber>,
    pub prio: i16,
    pub target_cpu: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct Moved {
    pub task: Option<PidNumber>,
    pub prio: i16,
    pub orig_cpu: u32,
    pub dest_cpu: u32,
}

impl Step {
    /// Whether it has an entry in [`Batch::wakes`].
    #[inline]
    pub fn is_wake(&self) -> bool {
        matches!(self.kind, Kind::Waking(_) | Kind::WakeupNew(_))
    }
}

/// What became of a waking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeInfo {
    pub prev_cpu: u32,
    /// The enqueue: `None` if it was not found within the bound.
    pub enqueue: Option<Enqueue>,
    /// When the CPU was chosen.
    pub choice_ns: Option<i64>,
    pub probe: Option<Probe>,
    /// The last thing the waker did for a queued wakeup: what it paid ends there.
    pub last_send_ns: Option<i64>,
    /// The waker interrupted the chosen CPU.
    pub ipi: bool,
    /// The waker found the chosen CPU polling, and did not interrupt it.
    pub polled: bool,
    /// An interrupt vector ran on the chosen CPU between waking and enqueue.
    pub vector_seen: bool,
    /// Another queued wakeup to the same CPU was under way.
    pub behind_another: bool,
}

/// What the probes on `select_task_rq_fair` showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    pub prev: i32,
    pub chosen: i32,
    /// Number of CPUs the wakee may run on.
    pub allowed: i32,
    /// The wakee's `wakee_flips`.
    pub flips: Option<u32>,
    pub wake_flags: Option<u32>,
    /// The CPUs it may run on, where the probe fetched them.
    pub mask: Option<MaskNumber>,
}

/// A `sched_wakeup`, or what stands in for it in a trace without any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enqueue {
    pub ts: i64,
    pub cpu: u32,
    pub chosen: u32,
    pub flags: ContextFlags,
    /// False where the trace has no `sched_wakeup` and the CPU follows from the waking alone.
    pub recorded: bool,
}

impl Enqueue {
    /// Of a `sched_wakeup` or `sched_wakeup_new`.
    #[inline]
    pub fn of_event(ts: i64, cpu: u32, flags: ContextFlags, woken: &Woken) -> Self {
        Self {
            ts,
            cpu,
            chosen: woken.target_cpu,
            flags,
            recorded: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_kinds_fit_a_cache_line() {
        assert!(size_of::<Step>() <= 48, "{}", size_of::<Step>());
        assert!(size_of::<WakeInfo>() <= 96, "{}", size_of::<WakeInfo>());
    }
}
