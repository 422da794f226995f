//! The vocabulary of the analysis: one word for each thing, the same in code, tables, JSON and reports.

use super::flips::{Decay, Rule};

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
    /// The two readings of an affinity mask that the trace does not tell.
    Reading {
        /// Only CPUs on which the task was seen to run or to be queued.
        Seen = "seen",
        /// Every CPU.
        Any = "any",
    }
}

words! {
    /// What an inter-processor interrupt was for.
    IpiKind {
        Reschedule = "reschedule",
        CallSingle = "call_single",
        CallMany = "call_many",
        /// The idle target polled: no interrupt was sent.
        Polled = "polled",
        /// A callback put on another CPU's list; the interrupt, if any, is a row of its own.
        Queue = "queue",
        /// arm64's `ipi_raise`, `ipi_entry` and `ipi_exit`, whose reason is an address.
        Other = "other",
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
