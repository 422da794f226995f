//! What the replay emits: one struct for each table, times in nanoseconds on the trace's clock.

use std::num::NonZeroU64;

use super::flips::{FlipStep, Span};
use super::words::{
    Class, Confidence, Decision, FlushReason, IpiFate, IpiKind, IpiRoad, Mark, MigrationCause,
    MigrationKind, Origin, Pair, Path, Verdict, Waker,
};
use crate::topology::Distance;
use ttwu_parsers::event::Comm;
use ttwu_parsers::print_fmt::PrevState;

/// A task of the trace: an index into the `tasks` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// One wakeup.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeupRow {
    /// `sched_waking`; `None` for a new task, or where the trace lacks the event.
    pub waking_ns: Option<i64>,
    /// `sched_wakeup`: enqueued. `None` where the trace lacks the event or it never came.
    pub wakeup_ns: Option<i64>,
    /// When the wakee was switched in; `None` if it was not, or was running all along.
    pub switch_in_ns: Option<i64>,
    pub waker: Option<TaskId>,
    pub wakee: TaskId,
    pub waker_cpu: Option<u32>,
    pub prev_cpu: Option<u32>,
    pub chosen_cpu: Option<u32>,
    pub class: Class,
    pub path: Path,
    pub context: Waker,
    pub waker_chosen: Distance,
    pub prev_chosen: Distance,
    pub waker_prev: Distance,
    /// Whether the waker's and the chosen CPU have different LLCs; `None` if unknown.
    pub cross_llc: Option<bool>,
    /// Waking to switch-in.
    pub latency_ns: Option<i64>,
    /// Wakeup to switch-in.
    pub queue_ns: Option<i64>,
    pub waker_cost_ns: Option<i64>,
    /// Whether a CPU was selected for it (fair wakees only); `None` if the events do not tell.
    pub selection: Option<bool>,
    /// Whether the chosen CPU was idle at the choice; `None` without a choice.
    pub chosen_idle: Option<bool>,
    /// How long the chosen CPU had been running nothing at the choice; `None` unless it was idle, and if the trace does
    /// not show since when.
    pub idle_before_ns: Option<i64>,
    /// Whether an SMT sibling of the chosen CPU ran a task at the choice; `None` without a choice or known cores.
    pub sibling_busy: Option<bool>,
    /// Whether an idle thread of a busy core was chosen while a whole core was idle.
    pub smt_shared: bool,
    pub verdict: Pair<Option<Verdict>>,
    pub wait_ns: i64,
    pub lost_ns: Pair<i64>,
    /// The wakee's on-CPU time from this wakeup until it blocked.
    pub wakee_run_ns: Option<i64>,
    /// Cycles and instructions of that time, where the trace counts them; never 0.
    pub wakee_cycles: Option<NonZeroU64>,
    pub wakee_instructions: Option<NonZeroU64>,
    /// How long waker and wakee could have run side by side.
    pub overlap_ns: Option<i64>,
    /// Whether [`overlap_ns`](Self::overlap_ns) is missing because the waker had too many wakees to watch.
    pub overlap_censored: bool,
    /// The kernel's own choice, where the probe recorded it: previous and chosen CPU.
    pub probed: Option<(u32, u32)>,
    /// Whether the waker said that it was about to sleep (WF_SYNC), where the probe recorded it.
    pub sync: Option<bool>,
    /// The wakee's `wakee_flips` as its CPU was chosen, where the probe recorded it.
    pub flips: Option<u32>,
    /// Whether the waking lies in the window.
    pub in_window: bool,
}

/// One interval in which a task was runnable and not running.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitRow {
    pub task: TaskId,
    pub start_ns: i64,
    /// Switch-in; `None` if the trace ended first.
    pub end_ns: Option<i64>,
    pub first_cpu: u32,
    pub last_cpu: u32,
    pub moves: u32,
    pub origin: Origin,
    pub verdict: Pair<Verdict>,
    /// The part inside the window.
    pub wait_ns: i64,
    pub lost_ns: Pair<i64>,
    /// Eligible idle CPUs at the choice.
    pub idle_cpus: Pair<u32>,
    /// Busy share of the chosen LLC in the 4 ms before the choice, in percent.
    pub llc_busy_percent: Option<u8>,
    /// The task whose wakeup began it, or began the run that it interrupts.
    pub waker: Option<TaskId>,
    /// Whether the start lies in the window.
    pub in_window: bool,
}

/// One on-CPU interval.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceRow {
    pub task: TaskId,
    pub cpu: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    /// How it left the CPU; `None` at the trace's end or at a gap.
    pub end_state: Option<PrevState>,
}

/// One interval in which a CPU ran nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct IdleRow {
    pub cpu: u32,
    pub start_ns: i64,
    pub end_ns: i64,
}

/// One move of a task between CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct MigrationRow {
    pub ts_ns: i64,
    pub task: TaskId,
    pub from_cpu: u32,
    pub to_cpu: u32,
    pub distance: Distance,
    pub kind: MigrationKind,
    pub cause: MigrationCause,
    pub confidence: Confidence,
    /// The CPU that moved it.
    pub by_cpu: u32,
    pub by_task: Option<TaskId>,
    /// The context in which it was moved: in an interrupt, `by_task` is only who was interrupted.
    pub context: Waker,
    /// Eligible idle CPUs in the LLC that it left; `None` if it did not leave one.
    pub idle_left: Option<Pair<u32>>,
    /// Its on-CPU time from the move until it blocked or was moved again; `None` if events are missing or the trace
    /// ended first.
    pub run_ns: Option<i64>,
    /// Idle CPU time matched to its waits in that time.
    pub lost_ns: Pair<i64>,
    /// Not announced by `sched_migrate_task`, but inferred from where the task ran next.
    pub inferred: bool,
    /// Whether the move lies in the window.
    pub in_window: bool,
}

/// One request to one CPU, an interrupt or what stood for one, with the handler that it started.
#[derive(Debug, Clone, PartialEq)]
pub struct IpiRow {
    /// The send; the handler's entry where no send is recorded.
    pub ts_ns: i64,
    /// The sender; `None` where no send is recorded.
    pub cpu: Option<u32>,
    pub target_cpu: u32,
    pub road: IpiRoad,
    pub kind: IpiKind,
    pub fate: IpiFate,
    pub distance: Distance,
    /// The task that sent it.
    pub task: Option<TaskId>,
    /// Send to handler's entry.
    pub latency_ns: Option<i64>,
    /// Time in the handler that it started, without the handlers that ran inside.
    pub handler_ns: Option<i64>,
    /// The task that the handler interrupted.
    pub interrupted: Option<TaskId>,
    /// Whether the handler ran while the CPU ran nothing; `None` if unknown, or without a handler.
    pub on_idle: Option<bool>,
    /// Tasks that the handler enqueued.
    pub wakeups: u32,
    /// The function called; 0 for none.
    pub callback: u64,
    /// Where the kernel sent it; 0 if not recorded.
    pub callsite: u64,
    /// Whether [`ts_ns`](Self::ts_ns) lies in the window.
    pub in_window: bool,
}

impl IpiRow {
    /// When the handler that it started was entered, if how long that took is known.
    pub fn entry_ns(&self) -> Option<i64> {
        self.handler_ns?;
        Some(self.ts_ns.saturating_add(self.latency_ns.unwrap_or(0)))
    }
}

/// One wakeup that `record_wakee` counted, or perhaps counted, in the order of the wakings.
#[derive(Debug, Clone, PartialEq)]
pub struct FlipRow {
    pub waking_ns: i64,
    /// The task that was current; `None` for an idle task.
    pub waker: Option<TaskId>,
    pub waker_cpu: u32,
    pub wakee: TaskId,
    pub chosen_cpu: Option<u32>,
    /// Whether it certainly counted.
    pub sure: bool,
    /// Whether the wakee was another than the waker's last; `None` if that, or whether it counted, is not known.
    pub flipped: Option<bool>,
    /// CPUs of the LLC of the waker's CPU.
    pub factor: Option<u32>,
    /// What each policy decides, in the order of their words; `None` where it is not asked or the LLC is unknown.
    pub decisions: [Option<Decision>; 6],
    /// What the recorded kernel's policy decides, and would with half or twice the factor.
    pub kernel: Option<Decision>,
    pub halved: Option<Decision>,
    pub doubled: Option<Decision>,
    /// The kernel's counters after it: of the waker, and of the wakee.
    pub waker_flips: Span,
    pub wakee_flips: Span,
    /// The wakee's flips by the kernel's own word.
    pub probed: Option<u32>,
    /// Whether what was followed from the value probed before holds this one, and whether that was at most 1 wide.
    pub probe_inside: Option<bool>,
    pub probe_narrow: Option<bool>,
    /// Whether what was followed from the task's first probed value alone holds this one.
    pub free_inside: Option<bool>,
    /// Whether the wakee was put into the waker's LLC although its previous CPU was in another.
    pub pulled: Option<bool>,
    /// How many wakeups it stands for: 1, unless some that tell the same are put together.
    pub wakeups: u32,
    /// Whether the waking lies in the window.
    pub in_window: bool,
}

/// One change of mappings that made a CPU flush TLBs: its own, and maybe others'.
#[derive(Debug, Clone, PartialEq)]
pub struct FlushRow {
    pub ts_ns: i64,
    /// The initiator.
    pub cpu: u32,
    pub task: Option<TaskId>,
    /// [`FlushReason::RemoteSend`] if others had to be asked, else [`FlushReason::LocalMmShootdown`];
    /// [`FlushReason::Other`] for a range that a probe showed and no `tlb_flush` followed.
    pub reason: FlushReason,
    /// Base pages (of a local flush: its own pages, of whatever size); -1 for the whole TLB.
    pub pages: Option<i64>,
    /// Base pages of the range that was asked for, where the probe shows it; -1 for the whole address space.
    pub range_pages: Option<i64>,
    /// CPUs that were asked; `None` where sends are not recorded.
    pub targets: Option<u32>,
    /// Those of them that were sent an interrupt.
    pub interrupts: u32,
    /// The first request; `None` where the wait is.
    pub asked_ns: Option<i64>,
    /// From the first request to the last acknowledgement; `None` unless every one was seen.
    pub wait_ns: Option<i64>,
    pub in_window: bool,
}

/// One mark of units of work, in the order of the marks.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRow {
    pub ts_ns: i64,
    pub mark: Mark,
    /// How many units were done so far, where the mark says it.
    pub done: Option<u64>,
    /// The task that ran there: the one that made the mark, unless an interrupt did. `None` for the idle task.
    pub task: Option<TaskId>,
    pub cpu: u32,
    pub in_window: bool,
}

/// One interval in which a CPU's events are missing.
#[derive(Debug, Clone, PartialEq)]
pub struct LostRow {
    pub cpu: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    /// `None` if the trace does not say how many.
    pub events: Option<u64>,
}

/// One task, with what it did in the window.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    pub task: TaskId,
    pub pid: i32,
    /// 0 for the first task seen with that pid, 1 for the next.
    pub generation: u32,
    /// Process id, where the trace tells.
    pub tgid: Option<i32>,
    /// The last name seen.
    pub comm: Comm,
    /// Earlier names.
    pub former_names: Vec<Comm>,
    pub run_ns: i64,
    pub wait_ns: i64,
    pub lost_ns: Pair<i64>,
    pub withheld: u64,
    pub withheld_ns: i64,
    pub switches: u64,
    pub migrations: u64,
    pub wakeups_made: u64,
    pub wakeups_received: u64,
    /// CPUs on which it was seen to run or be queued.
    pub seen_cpus: u32,
    /// Whether it is a thread of the recorder.
    pub recorder: bool,
}

/// One CPU, with its share of both ledgers.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuRow {
    pub cpu: u32,
    pub llc: Option<u32>,
    pub core: Option<u32>,
    pub node: Option<u32>,
    /// Nanoseconds by [`super::words::LedgerRow`] code.
    pub ledger: Pair<[i64; super::words::LEDGER_ROWS]>,
    pub switches: u64,
    pub wakeups_made: u64,
    pub first_event_ns: Option<i64>,
    pub last_event_ns: Option<i64>,
    pub lost_events: u64,
}

/// One CPU's time in one second of the window.
#[derive(Debug, Clone, PartialEq)]
pub struct SecondRow {
    pub cpu: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    /// Nanoseconds by [`super::words::LedgerRow`] code.
    pub ledger: Pair<[i64; super::words::LEDGER_ROWS]>,
}

/// The trace itself.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceRow {
    pub file: String,
    pub format: String,
    pub recorder: Option<String>,
    pub kernel_release: Option<String>,
    pub kernel_model: String,
    pub arch: Option<String>,
    pub clock: String,
    pub first_event_ns: i64,
    pub last_event_ns: i64,
    /// The window.
    pub start_ns: i64,
    pub end_ns: i64,
    pub events: u64,
    pub lost_events: u64,
    pub cpus: u32,
    pub llcs: Option<u32>,
    pub topology: Option<String>,
    pub topology_from: String,
    pub work: Option<String>,
    pub settle_ns: i64,
    pub recorder_counted: bool,
}

/// One recorded event, laid out flat.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    pub ts_ns: i64,
    pub cpu: u32,
    pub type_index: u16,
    pub pid: i32,
    pub context: Waker,
    pub task_pid: Option<i32>,
    pub task_name: Option<Comm>,
    pub prio: Option<i32>,
    pub target_cpu: Option<u32>,
    pub from_cpu: Option<u32>,
    pub prev_name: Option<Comm>,
    pub prev_prio: Option<i32>,
    pub prev_state: Option<PrevState>,
    pub targets: Option<u32>,
    /// 0 for none.
    pub callback: u64,
    pub callsite: u64,
    pub number: Option<i64>,
    pub text: Option<Box<[u8]>>,
}

/// Takes rows as the replay completes them. Every method does nothing unless it is overridden.
pub trait Sink {
    /// Whether it keeps what only exports hold. If not, the replay spares itself finding out.
    fn details(&self) -> bool {
        true
    }

    fn wakeup(&mut self, _row: &WakeupRow) {}
    fn wait(&mut self, _row: &WaitRow) {}
    fn slice(&mut self, _row: &SliceRow) {}
    fn idle(&mut self, _row: &IdleRow) {}
    fn migration(&mut self, _row: &MigrationRow) {}
    fn ipi(&mut self, _row: &IpiRow) {}
    /// What changes counters of flips, to be followed by a [`super::flips::Follower`].
    fn flip(&mut self, _step: &FlipStep) {}
    fn flush(&mut self, _row: &FlushRow) {}
    fn unit(&mut self, _row: &UnitRow) {}
    fn lost(&mut self, _row: &LostRow) {}
    fn task(&mut self, _row: &TaskRow) {}
    fn cpu(&mut self, _row: &CpuRow) {}
    fn second(&mut self, _row: &SecondRow) {}
    fn trace(&mut self, _row: &TraceRow) {}
    fn event(&mut self, _row: &EventRow) {}
}
