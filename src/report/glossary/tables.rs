//! Words that only exported tables hold.

use super::{Term, term};

/// How a task left its CPU.
pub const LEFT: [Term; 3] = [
    term("asleep", "went to sleep", "it went to sleep, or ended"),
    term(
        "runnable",
        "still runnable",
        "it was still runnable: preempted, or it yielded",
    ),
    term("unknown", "no event tells", "the events do not tell"),
];

/// The state in which a task was moved.
pub const MIGRATION_KINDS: [Term; 5] = [
    term(
        "wakeup",
        "being woken",
        "between the waking and the enqueue: the wakeup placed it on another CPU",
    ),
    term(
        "runnable",
        "queued",
        "queued or preempted: a balancer, NUMA balancing or a change of its affinity moved it",
    ),
    term(
        "stopper",
        "running",
        "taken off the CPU it ran on by that CPU's stopper thread",
    ),
    term(
        "sleeping",
        "asleep",
        "asleep: its dequeue was delayed (6.12 and later), or its affinity was changed",
    ),
    term("unknown", "not known", "the task's state was not known"),
];

/// How sure the cause of a migration is.
pub const CONFIDENCES: [Term; 3] = [
    term(
        "certain",
        "no other cause",
        "the events leave no other cause that the kernel has",
    ),
    term(
        "likely",
        "hardly another cause",
        "they fit this cause, and another one only by a rare coincidence",
    ),
    term(
        "unsure",
        "the best guess",
        "the best guess where events that would tell are not recorded, or contradict each other",
    ),
];

/// Why a TLB was flushed: the kernel's `enum tlb_flush_reason` (include/linux/mm_types.h).
pub const FLUSH_REASONS: [Term; 7] = [
    term(
        "task_switch",
        "another task's turn",
        "the CPU switched to a task with other mappings",
    ),
    term(
        "remote_shootdown",
        "asked by another CPU",
        "another CPU asked this one to flush",
    ),
    term(
        "local_shootdown",
        "for reclaim, own CPU",
        "reclaim flushed, on the CPU that began it",
    ),
    term(
        "local_mm_shootdown",
        "own mappings changed",
        "the CPU changed the mappings that it uses itself",
    ),
    term("remote_send", "asks others", "the CPU asks others to flush"),
    term(
        "remote_wrong_cpu",
        "asked needlessly",
        "another CPU asked this one, which no longer has these mappings (6.14 and later)",
    ),
    term(
        "other",
        "another reason",
        "a reason that later kernels may add, or a probe shows the range alone",
    ),
];

/// How a CPU was asked.
pub const IPI_ROADS: [Term; 4] = [
    term("interrupt", "by an interrupt", "it was sent an interrupt"),
    term(
        "polled",
        "its idle loop polled",
        "it was idle and polled for work: no interrupt was sent",
    ),
    term(
        "queue",
        "by its list",
        "a function was put on its list; the interrupt, if one was sent, is a row of its own",
    ),
    term(
        "handler",
        "not seen",
        "it handled something that no recorded send explains",
    ),
];

/// What became of a request.
pub const IPI_FATES: [Term; 5] = [
    term(
        "handled",
        "started a handler",
        "the handler that it started was seen",
    ),
    term(
        "coalesced",
        "served with another",
        "a handler that an earlier request started served it, too",
    ),
    term("unanswered", "no handler", "no handler followed"),
    term(
        "lost",
        "events missing",
        "the target's events of that time are missing",
    ),
    term(
        "unknown",
        "no event tells",
        "the trace does not show such handlers, or there is none",
    ),
];

/// What a mark says of units of work.
pub const MARKS: [Term; 4] = [
    term("start", "a counter starts", "a counter starts from 0"),
    term(
        "unit",
        "so many are done",
        "a counter says how many units were done so far",
    ),
    term("end", "a counter ends", "a counter ends"),
    term(
        "one",
        "one is done",
        "an event or marker that ends one unit",
    ),
];
