//! Words of migrations, interrupts, the critical path, contexts and readings.

use super::{Term, term};

/// The context in which a waker ran.
pub const WAKERS: [Term; 7] = [
    term("task", "a task", "a task woke, in its own context"),
    term(
        "softirq_inline",
        "own system call's softirq",
        "a soft interrupt that the current task's own system call raised, as loopback networking does",
    ),
    term(
        "softirq_irq_exit",
        "softirq after an interrupt",
        "a soft interrupt at the end of a hard one: the current task was only interrupted",
    ),
    term(
        "softirq_unknown",
        "softirq, origin unknown",
        "a soft interrupt of which no event tells what raised it",
    ),
    term(
        "hardirq",
        "a hard interrupt",
        "a hard interrupt: no task is the waker",
    ),
    term(
        "nmi",
        "an NMI",
        "a non-maskable interrupt: no task is the waker",
    ),
    term(
        "unknown",
        "no sched_waking",
        "the trace has no sched_waking, and the wakeup may have been queued",
    ),
];

/// What moved a task from one CPU to another.
pub const CAUSES: [Term; 8] = [
    term(
        "wakeup",
        "placed by a wakeup",
        "another CPU than the previous one was chosen as it was woken",
    ),
    term(
        "fork_exec",
        "placed at fork or exec",
        "placed anew as it was forked, or as it became another program",
    ),
    term(
        "newidle",
        "pulled by a CPU going idle",
        "pulled by a CPU that was about to run nothing",
    ),
    term(
        "periodic",
        "balanced at a tick",
        "moved by the balancing that ticks start, for this CPU or for one that is idle",
    ),
    term(
        "active",
        "pushed off by a stopper",
        "pushed off the CPU it ran on by a stopper thread, which a balancer had asked",
    ),
    term(
        "affinity",
        "its affinity changed",
        "the CPUs it may run on were changed",
    ),
    term(
        "numa",
        "by NUMA balancing",
        "moved to another node by NUMA balancing, or swapped with another task",
    ),
    term(
        "unknown",
        "no event tells",
        "the events do not tell, or contradict each other",
    ),
];

/// What the parts of the critical path are.
pub const CATEGORIES: [Term; 7] = [
    term("running", "its task ran", "the task on the path ran"),
    term(
        "transit",
        "IPI and idle exit",
        "the task on the path was on its way to a CPU that ran nothing: IPI and idle exit",
    ),
    term(
        "wait",
        "queued behind others",
        "the task on the path was queued on a CPU that ran another",
    ),
    term(
        "interrupt",
        "handlers took its CPU",
        "interrupts from other CPUs were handled while the task on the path ran",
    ),
    term(
        "tlb_wait",
        "waited for TLB shootdowns",
        "the task on the path waited for other CPUs to flush their TLBs",
    ),
    term(
        "blocked",
        "asleep until an interrupt",
        "the task on the path slept until an interrupt woke it: on a device, a timer, or the network",
    ),
    term(
        "unknown",
        "no event tells",
        "events are missing, so that the path is not known there",
    ),
];

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

/// What an interrupt between CPUs was for.
pub const IPIS: [Term; 6] = [
    term(
        "reschedule",
        "to reschedule",
        "to have the CPU look for what to run: for a wakeup, a tick or a signal",
    ),
    term(
        "call_single",
        "a call to one CPU",
        "to call a function on one CPU",
    ),
    term(
        "call_many",
        "a call to several",
        "to call a function on several CPUs",
    ),
    term(
        "polled",
        "none: the target polled",
        "the idle target polled: no interrupt was sent",
    ),
    term(
        "queue",
        "put on its list",
        "a function was put on the CPU's list; the interrupt, if any, is counted for itself",
    ),
    term(
        "other",
        "another reason",
        "something else, or it is not known what",
    ),
];
