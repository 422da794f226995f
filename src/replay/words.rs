//! The vocabulary of the analysis: one word for each thing, the same in code, tables, JSON and reports.

use super::flips::{Decay, Rule};
use ttwu_parsers::print_fmt::PrevState;

/// Declares an enumeration whose words are fixed: `ALL` in declaration order, `as_str`, and the code stored
/// in tables.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every word, in the order of the codes.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word as it stands in tables and reports.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The number that stands for it in a table.
            pub const fn code(self) -> u8 {
                self as u8
            }
        }
    };
}

words! {
    /// How a task left its CPU.
    Left {
        /// It went to sleep, or ended.
        Asleep = "asleep",
        /// It was still runnable.
        Runnable = "runnable",
        /// The events do not tell.
        Unknown = "unknown",
    }
}

impl Left {
    /// By the state that `sched_switch` prints.
    pub fn of(state: PrevState) -> Self {
        match state {
            PrevState {
                letter: b'?',
                preempted: false,
            } => Left::Unknown,
            state if state.runnable() => Left::Runnable,
            _ => Left::Asleep,
        }
    }
}

words! {
    /// What kind of wakeup it was, as far as the events show.
    Class {
        /// A task woke itself: it had not left its CPU.
        SelfWake = "self",
        /// The wakee was still on its runqueue.
        FastPath = "fast_path",
        /// Enqueued by the waker on the waker's own CPU.
        Local = "local",
        /// Enqueued by the waker on another CPU.
        Direct = "direct",
        /// Put on the wake list of the chosen CPU, which enqueued it.
        Queued = "queued",
        /// Direct, or a requeue of a task whose dequeue was delayed (6.12 and later).
        DirectOrDelayed = "direct_or_delayed",
        /// A requeue of a task whose dequeue was delayed: no CPU was chosen.
        Delayed = "delayed",
        /// A new task's first enqueue.
        New = "new",
        /// The events contradict each other or one is missing.
        Anomaly = "anomaly",
        /// The trace lacks the event that would tell (`sched_waking` or `sched_wakeup`).
        Unknown = "unknown",
    }
}

words! {
    /// By which road the wakeup reached the chosen CPU.
    Path {
        QueuedIpi = "queued-ipi",
        QueuedPolling = "queued-polling",
        QueuedCoalesced = "queued-coalesced",
        DirectIpi = "direct-ipi",
        DirectNoIpi = "direct-no-ipi",
        Local = "local",
        /// No event tells whether an IPI was sent.
        Unknown = "unknown",
    }
}

words! {
    /// The context in which the waker ran.
    Waker {
        Task = "task",
        SoftirqInline = "softirq_inline",
        SoftirqIrqExit = "softirq_irq_exit",
        SoftirqUnknown = "softirq_unknown",
        Hardirq = "hardirq",
        Nmi = "nmi",
        /// The trace has no `sched_waking`, and the wakeup may have been queued.
        Unknown = "unknown",
    }
}

words! {
    /// What a mark says of units of work.
    Mark {
        /// A counter starts from 0.
        Start = "start",
        /// A counter says how many units were done so far.
        Unit = "unit",
        /// A counter ends.
        End = "end",
        /// An event or marker that ends one unit.
        One = "one",
    }
}

words! {
    /// How a task came to wait.
    Origin {
        Wakeup = "wakeup",
        New = "new",
        Preempted = "preempted",
        Balanced = "balanced",
    }
}

words! {
    /// Why a task waited, the first that matches.
    Verdict {
        /// The task is one of the recorder's own threads.
        Recorder = "recorder",
        Transit = "transit",
        NoSelection = "no-selection",
        Affinity = "affinity",
        Policy = "policy",
        KthreadStack = "kthread-stack",
        StackedPrev = "stacked-prev",
        StackedPull = "stacked-pull",
        Prev = "prev",
        Other = "other",
        OtherLlc = "other-llc",
        Raced = "raced",
        LateIdle = "late-idle",
        Saturated = "saturated",
        /// It needs a topology that the trace and the command line do not give.
        Unknown = "unknown",
    }
}

words! {
    /// A row of the CPU-time ledger.
    LedgerRow {
        Unknown = "unknown",
        Running = "running",
        Transit = "transit",
        WaitingLlcCore = "waiting_llc_core",
        WaitingLlcSmt = "waiting_llc_smt",
        WaitingMachine = "waiting_machine",
        Idle = "idle",
    }
}

words! {
    /// What moved a task from one CPU to another.
    MigrationKind {
        /// Between a wakeup and its enqueue: placement.
        Wakeup = "wakeup",
        /// While it was queued or preempted: a balancer, NUMA or an affinity change.
        Runnable = "runnable",
        /// By a stopper thread, off the CPU it ran on.
        Stopper = "stopper",
        /// While it slept (delayed dequeue, or an affinity change).
        Sleeping = "sleeping",
        /// The task's state was not known.
        Unknown = "unknown",
    }
}

words! {
    /// Why a task was moved from one CPU to another (`analysis` §6).
    MigrationCause {
        /// `select_task_rq` chose another CPU than the previous one, between `sched_waking` and `sched_wakeup`.
        Wakeup = "wakeup",
        /// `sched_exec()` moved the task that is about to become another program; before 4.14 also a new task's first
        /// placement, which later kernels do not announce.
        ForkExec = "fork_exec",
        /// A CPU that was about to run nothing pulled it (`sched_balance_newidle()`, before 6.10 `newidle_balance()`).
        NewIdle = "newidle",
        /// The balancing of the SCHED soft interrupt, for its own CPU or for one whose tick is stopped.
        Periodic = "periodic",
        /// A stopper pushed it off its CPU because a balancer asked for it.
        Active = "active",
        /// The CPUs it may run on were changed, by itself or by another.
        Affinity = "affinity",
        /// NUMA balancing moved it to a node, or swapped it with another task.
        Numa = "numa",
        /// The real-time or deadline class balanced its own tasks (push and pull).
        Rt = "rt",
        /// The events do not tell, or contradict each other.
        Unknown = "unknown",
    }
}

words! {
    /// How sure the cause of a migration is.
    Confidence {
        /// The events leave no other cause that the kernel has.
        Certain = "certain",
        /// They fit this cause, and another one only by a rare coincidence.
        Likely = "likely",
        /// The best guess where events that would tell are not recorded, or contradict each other.
        Unsure = "unsure",
    }
}

words! {
    /// The two readings of an affinity mask that the trace does not tell.
    Reading {
        /// Only CPUs on which the task was seen to run or to be queued.
        Seen = "seen",
        /// Every CPU.
        Any = "any",
    }
}

words! {
    /// What one CPU wanted of another.
    IpiKind {
        /// A queued wakeup: to enqueue what is on its wake list.
        Wakeup = "wakeup",
        /// A wakeup that the waker enqueued there: to reschedule.
        WakeupReschedule = "wakeup_reschedule",
        /// To reschedule, for a tick, a signal or a balancer; or it is not known for what.
        Reschedule = "reschedule",
        /// To flush its TLB.
        Tlb = "tlb",
        /// To call another function.
        Call = "call",
        /// To call a function on the sending CPU itself, in an interrupt.
        IrqWork = "irq_work",
        /// Something rarer (arm64: stop, broadcast timer), or it is not known what.
        Other = "other",
    }
}

words! {
    /// How a CPU was asked.
    IpiRoad {
        Interrupt = "interrupt",
        /// It was idle and polled: no interrupt was sent.
        Polled = "polled",
        /// A function was put on its list; the interrupt, if any, is a row of its own.
        Queue = "queue",
        /// It handled something that no recorded send explains.
        Handler = "handler",
    }
}

words! {
    /// What became of a request.
    IpiFate {
        /// The handler that it started was seen.
        Handled = "handled",
        /// A handler that an earlier request started served it, too.
        Coalesced = "coalesced",
        /// No handler followed.
        Unanswered = "unanswered",
        /// The target's events are missing.
        Lost = "lost",
        /// The trace does not show such handlers, or there is none.
        Unknown = "unknown",
    }
}

words! {
    /// Why a TLB was flushed: `enum tlb_flush_reason`, include/linux/mm_types.h, in the order of its numbers.
    FlushReason {
        TaskSwitch = "task_switch",
        /// On a CPU that was asked to.
        RemoteShootdown = "remote_shootdown",
        /// By reclaim, on the CPU that began it.
        LocalShootdown = "local_shootdown",
        /// On the CPU that changed its mappings.
        LocalMmShootdown = "local_mm_shootdown",
        /// Others are asked to.
        RemoteSend = "remote_send",
        /// On a CPU that was asked to and no longer has these mappings (6.14 on).
        RemoteWrongCpu = "remote_wrong_cpu",
        Other = "other",
    }
}

impl FlushReason {
    /// The reason behind a `tlb_flush` event's number.
    pub fn of(number: i32) -> Self {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        Self::ALL.get(place).copied().unwrap_or(Self::Other)
    }
}

/// How many words [`FlushReason`] has.
pub const FLUSH_REASONS: usize = FlushReason::ALL.len();

words! {
    /// What a part of the critical path is.
    Category {
        /// Its task ran, without interrupts and waits for TLB shootdowns.
        Running = "running",
        Transit = "transit",
        Wait = "wait",
        /// Handlers of interrupts from other CPUs, within a run.
        Interrupt = "interrupt",
        /// Waits of a shootdown's initiator for the other CPUs, within a run.
        TlbWait = "tlb-wait",
        /// Asleep until an interrupt woke it.
        Blocked = "blocked",
        Unknown = "unknown",
    }
}

words! {
    /// Why it is not known what a task on the critical path did.
    Why {
        /// Events are missing.
        Lost = "lost",
        /// It was queued, but its CPU found nothing to run.
        Withheld = "withheld",
        /// Before the first that is known of the task.
        BeforeFirst = "before_first_event",
        /// No event tells how it came to do what it did next, or events contradict each other.
        Unexplained = "unexplained",
    }
}

words! {
    /// What `wake_wide` says of a wakeup, as far as the counters are known.
    Decision {
        /// The wakee stays near its previous CPU.
        Wide = "wide",
        /// The waker's CPU may be chosen too.
        Affine = "affine",
        /// Both are possible.
        Undecided = "undecided",
        /// Both are possible, and a counter was never known to within 1 so far.
        WarmingUp = "warming-up",
    }
}

words! {
    /// A decay of the flips and a rule over them.
    FlipPolicy {
        ZeroOld = "zero-old",
        ZeroNew = "zero-new",
        HalveOld = "halve-old",
        HalveNew = "halve-new",
        LoopOld = "loop-old",
        LoopNew = "loop-new",
    }
}

impl FlipPolicy {
    /// All of them, in the order of the codes.
    pub const SIX: [Self; 6] = [
        Self::ZeroOld,
        Self::ZeroNew,
        Self::HalveOld,
        Self::HalveNew,
        Self::LoopOld,
        Self::LoopNew,
    ];

    pub const fn decay(self) -> Decay {
        match self {
            Self::ZeroOld | Self::ZeroNew => Decay::Zero,
            Self::HalveOld | Self::HalveNew => Decay::Halve,
            Self::LoopOld | Self::LoopNew => Decay::Loop,
        }
    }

    pub const fn rule(self) -> Rule {
        match self {
            Self::ZeroOld | Self::HalveOld | Self::LoopOld => Rule::Old,
            Self::ZeroNew | Self::HalveNew | Self::LoopNew => Rule::New,
        }
    }
}

/// How many words [`LedgerRow`] has.
pub const LEDGER_ROWS: usize = LedgerRow::ALL.len();

/// Both readings, side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair<T>(pub [T; 2]);

impl<T> std::ops::Index<Reading> for Pair<T> {
    type Output = T;

    fn index(&self, reading: Reading) -> &T {
        match reading {
            Reading::Seen => &self.0[0],
            Reading::Any => &self.0[1],
        }
    }
}

impl<T> std::ops::IndexMut<Reading> for Pair<T> {
    fn index_mut(&mut self, reading: Reading) -> &mut T {
        match reading {
            Reading::Seen => &mut self.0[0],
            Reading::Any => &mut self.0[1],
        }
    }
}
