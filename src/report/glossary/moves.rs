//! Words of migrations, interrupts, the critical path, contexts and readings.

use super::{Term, term};

/// Where a task may run when the trace does not tell.
pub const READINGS: [Term; 2] = [
    term(
        "seen",
        "only where it was seen",
        "a task of unknown affinity may run only on CPUs on which it was seen to run or be queued: lost time is a lower \
         estimate",
    ),
    term(
        "any",
        "everywhere",
        "a task of unknown affinity may run on every CPU: lost time is an upper estimate",
    ),
];

/// What is better for a pair of waker and wakee.
pub const BETTER: [Term; 3] = [
    term(
        "spread",
        "on two CPUs",
        "they have more work that could run side by side than it costs to bring the wakee to another CPU",
    ),
    term(
        "stack",
        "on one CPU",
        "they have less work that could run side by side than it costs to bring the wakee to another CPU",
    ),
    term(
        "undecided",
        "the trace does not tell",
        "the intervals of overlap and cost meet, or there are too few samples",
    ),
];

/// The context in which a waker ran.
pub const WAKERS: [Term; 7] = [
    term("task", "a task", "a task, or a system call of its own"),
    term(
        "softirq_inline",
        "own system call's softirq",
        "a soft interrupt raised by the running task's own system call",
    ),
    term(
        "softirq_irq_exit",
        "softirq after an interrupt",
        "a soft interrupt at the end of a hard interrupt",
    ),
    term(
        "softirq_unknown",
        "softirq, origin unknown",
        "a soft interrupt, raised by whom no event tells",
    ),
    term("hardirq", "a hard interrupt", "a hard interrupt"),
    term("nmi", "an NMI", "a non-maskable interrupt"),
    term(
        "unknown",
        "no sched_waking",
        "the trace has no sched_waking, and the wakeup may have been queued",
    ),
];

/// Why a task was moved from one CPU to another.
pub const CAUSES: [Term; 9] = [
    term(
        "wakeup",
        "placed by a wakeup",
        "a wakeup chose another CPU than the previous one",
    ),
    term(
        "fork_exec",
        "placed at exec",
        "execve moved the task that became another program",
    ),
    term(
        "newidle",
        "pulled by a CPU going idle",
        "a CPU that was about to run nothing pulled it",
    ),
    term(
        "periodic",
        "balanced at a tick",
        "balancing in the SCHED soft interrupt, also for CPUs whose tick is stopped",
    ),
    term(
        "active",
        "pushed off by a stopper",
        "a stopper pushed it off its CPU because a balancer asked for it",
    ),
    term(
        "affinity",
        "its affinity changed",
        "the CPUs it may run on were changed",
    ),
    term(
        "numa",
        "by NUMA balancing",
        "NUMA balancing moved or swapped it",
    ),
    term(
        "rt",
        "by the RT or deadline class",
        "the real-time or deadline class balanced its own tasks",
    ),
    term(
        "unknown",
        "no event tells",
        "the events do not tell, or contradict each other",
    ),
];

/// What one CPU wanted of another.
pub const IPIS: [Term; 7] = [
    term(
        "wakeup",
        "for a queued wakeup",
        "a queued wakeup: to enqueue what is on the CPU's wake list",
    ),
    term(
        "wakeup_reschedule",
        "for a direct wakeup",
        "a wakeup that the waker enqueued there: to reschedule",
    ),
    term(
        "reschedule",
        "to reschedule",
        "to reschedule, for a tick, a signal or a balancer; or it is not known for what",
    ),
    term("tlb", "to flush its TLB", "to flush its TLB"),
    term("call", "to call a function", "to call another function"),
    term(
        "irq_work",
        "to itself",
        "to call a function on the sending CPU itself, in an interrupt",
    ),
    term(
        "other",
        "another reason",
        "something rarer, such as arm64's broadcast timer; or it is not known what",
    ),
];
