//! Words of the report that stand in no enumeration.

use super::{Term, term};

/// Rows and columns of tables, and what sentences count.
pub const LABELS: [Term; 15] = [
    term(
        "waiting",
        "idle, work elsewhere",
        "CPUs ran nothing while tasks that might run on them were queued elsewhere: waiting-llc and waiting-machine together, \
         in one row where no topology splits them",
    ),
    term(
        "lost",
        "CPU time idle beside a wait",
        "the CPU time that idle CPUs did not give to a waiting task that might have run on them; one waiting task never loses \
         more than one CPU",
    ),
    term(
        "lost CPU capacity",
        "lost, of what could be used",
        "of the CPU time that tasks used or might have used, the part in which CPUs ran nothing while tasks that might run \
         on them were queued elsewhere",
    ),
    term(
        "withheld",
        "queued, but not runnable",
        "a CPU ran nothing although a task was queued there by the events: the kernel saw nothing to run; not counted as \
         waiting",
    ),
    term(
        "withdrawn",
        "given up: events missing",
        "given up because events are missing in it or contradict each other: any number would be a guess",
    ),
    term(
        "cold cache",
        "longer runs after a new LLC",
        "how much longer wakees ran after wakeups that chose a CPU of another LLC than their previous one: what they used is \
         not in its cache",
    ),
    term(
        "transfer",
        "longer runs, waker's LLC other",
        "how much longer wakees ran after wakeups from another LLC to their own: what the waker wrote has to come over",
    ),
    term(
        "bounces",
        "to another LLC and back",
        "moves of a task to another LLC and, soon after, back to the first",
    ),
    term(
        "unit",
        "what --work counts",
        "one piece of work, as --work says: a task's cycle, an event, or what a marker counts",
    ),
    term(
        "gain at most",
        "throughput without this part",
        "by how much throughput would rise at most if this part of the critical path took no time",
    ),
    term(
        "mostly",
        "the largest part of a row",
        "what most of this part of the critical path is: a task, a path, a verdict, or a context",
    ),
    term(
        "moved",
        "went to another CPU",
        "how often a task went from one CPU to another, by a wakeup, a balancer or a change of affinity",
    ),
    term(
        "xLLC",
        "share across LLCs",
        "the share of wakeups whose waker and chosen CPU have different last-level caches",
    ),
    term(
        "stacked",
        "on the waker, CPUs idle",
        "wakeups that put the wakee on its waker's CPU although an eligible CPU of that LLC was idle: stacked-prev and \
         stacked-pull",
    ),
    term(
        "open",
        "either decision is possible",
        "wake_wide() may say either, by what is known of the counts: undecided and warming-up together",
    ),
];
