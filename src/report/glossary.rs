//! The words of reports and tables, each with its definition: the one place that help texts, the terminal
//! report and the JSON Schema take them from (`analysis` §1 to §3).

mod flips;
mod labels;
mod moves;
mod tables;

use std::fmt::Write;

pub use self::flips::*;
pub use self::labels::*;
pub use self::moves::*;
pub use self::tables::*;
use crate::attribute::explain::Kind;

/// A word, what it means in a few words (at most 31 columns), and in full.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    pub word: &'static str,
    pub brief: &'static str,
    pub meaning: &'static str,
}

const fn term(word: &'static str, brief: &'static str, meaning: &'static str) -> Term {
    Term {
        word,
        brief,
        meaning,
    }
}

/// The rows of the CPU-time ledger, in its order of precedence.
pub const LEDGER: [Term; 7] = [
    term(
        "unknown",
        "events lost, or none yet",
        "events were lost, the CPU was offline, or before its first event",
    ),
    term("running", "a task ran", "a task ran"),
    term(
        "transit",
        "its task was on the way",
        "the CPU ran nothing, and a task on its way to it was not switched in yet: IPI and idle exit",
    ),
    term(
        "waiting-llc core",
        "core idle, work in its LLC",
        "the whole core ran nothing, and the CPU is matched to a task queued elsewhere in its LLC that may run on it",
    ),
    term(
        "waiting-llc smt",
        "thread idle, work in its LLC",
        "as above, but only this thread of the core ran nothing: less than a CPU's worth of capacity",
    ),
    term(
        "waiting-machine",
        "idle, work in another LLC",
        "the CPU ran nothing and is matched to an eligible task queued in another LLC",
    ),
    term(
        "idle",
        "no work for it",
        "none of these: there was no work for it",
    ),
];

/// What a part of the critical path is.
pub const CATEGORIES: [Term; 7] = [
    term(
        "running",
        "its task ran",
        "its task ran, without interrupts and waits for TLB shootdowns",
    ),
    term(
        "transit",
        "woken, on the way to a CPU",
        "on its way from the waking to the enqueue, or due on a CPU that ran nothing",
    ),
    term(
        "wait",
        "queued behind others",
        "its task was queued behind others",
    ),
    term(
        "interrupt",
        "interrupts from other CPUs",
        "handlers of interrupts from other CPUs, within a run",
    ),
    term(
        "tlb-wait",
        "waiting for TLB shootdowns",
        "a shootdown's initiator waited for the other CPUs, within a run",
    ),
    term(
        "blocked",
        "asleep until an interrupt",
        "its task slept until an interrupt woke it",
    ),
    term(
        "unknown",
        "the trace does not tell",
        "the trace does not tell",
    ),
];

/// Why a task waited: the first that matches.
pub const VERDICTS: [Term; 15] = [
    term(
        "recorder",
        "the recorder's own thread",
        "one of the recorder's own threads waited: not part of what was recorded",
    ),
    term(
        "transit",
        "idle exit of its CPU",
        "its CPU ran nothing: the wait was idle exit, and the IPI before it where the waker had enqueued it",
    ),
    term(
        "no-selection",
        "no CPU was chosen for it",
        "no CPU was chosen: still on its runqueue, a delayed dequeue, or queued behind on_cpu",
    ),
    term(
        "affinity",
        "CPUs idle, none allowed",
        "no idle CPU was allowed, though some were idle",
    ),
    term(
        "policy",
        "RT, deadline, ext, energy",
        "an RT, deadline, stop or sched_ext task, or energy-aware or asymmetric placement",
    ),
    term(
        "kthread-stack",
        "kernel thread's own CPU",
        "woken by a per-CPU kernel thread onto its own CPU (kernel 5.6 and later)",
    ),
    term(
        "stacked-prev",
        "waker's CPU was its previous",
        "put on the waker's CPU, which also was its previous CPU, while an eligible CPU of that LLC was idle: \
         wake_affine() was never asked",
    ),
    term(
        "stacked-pull",
        "pulled onto the waker's CPU",
        "pulled onto the waker's CPU from another, while an eligible CPU of that LLC was idle",
    ),
    term(
        "prev",
        "left on its busy previous CPU",
        "left on a busy previous CPU, while an eligible CPU of that LLC was idle",
    ),
    term(
        "other",
        "put on another busy CPU",
        "put on another busy CPU, while an eligible CPU of that LLC was idle",
    ),
    term(
        "other-llc",
        "idle CPU in another LLC only",
        "none idle in the chosen LLC, but an eligible one in the previous CPU's or the waker's LLC",
    ),
    term(
        "raced",
        "idle CPU came or went just then",
        "as one of the five above, but the idle CPU was not idle throughout the settle time around the choice; or the \
         chosen CPU itself was idle, and another task came first",
    ),
    term(
        "late-idle",
        "idle CPU elsewhere, or later",
        "no idle CPU that it may use in the LLCs which the wakeup searches (of the chosen CPU, the previous one and the \
         waker's) at the choice, idle elsewhere at most; such a CPU was idle at some time of the wait, and the task stayed \
         queued meanwhile",
    ),
    term(
        "saturated",
        "no CPU idle: not a loss",
        "no eligible CPU was idle during the whole wait: not a loss",
    ),
    term(
        "unknown",
        "needs the topology",
        "cannot be told without a topology, or without the wakeup's events",
    ),
];

/// By which road a wakeup reached the chosen CPU.
pub const PATHS: [Term; 7] = [
    term(
        "queued-ipi",
        "wake list, IPI sent",
        "put on the chosen CPU's wake list, and an IPI sent",
    ),
    term(
        "queued-polling",
        "wake list, target polled",
        "put on the wake list of an idle CPU that polls, so that no IPI was needed",
    ),
    term(
        "queued-coalesced",
        "wake list held one already",
        "put on a wake list that already held an entry, whose IPI served both",
    ),
    term(
        "direct-ipi",
        "waker enqueued, sent an IPI",
        "enqueued by the waker, which sent an IPI to have it run",
    ),
    term(
        "direct-no-ipi",
        "waker enqueued, no IPI",
        "enqueued by the waker on another CPU, without an IPI",
    ),
    term(
        "local",
        "enqueued on the waker's CPU",
        "enqueued by the waker on its own CPU",
    ),
    term(
        "unknown",
        "no event tells",
        "no event tells whether an IPI was sent",
    ),
];

/// What kind of wakeup it was.
pub const CLASSES: [Term; 10] = [
    term(
        "self",
        "a task woke itself",
        "a task woke itself: it had not left its CPU",
    ),
    term(
        "fast_path",
        "still on its runqueue",
        "the wakee was still on its runqueue",
    ),
    term(
        "local",
        "waker's own CPU",
        "enqueued by the waker on the waker's own CPU",
    ),
    term(
        "direct",
        "enqueued by the waker",
        "enqueued by the waker on another CPU",
    ),
    term(
        "queued",
        "by the wake list",
        "put on the wake list of the chosen CPU, which enqueued it",
    ),
    term(
        "direct_or_delayed",
        "direct, or requeued",
        "direct, or a requeue of a task whose dequeue was delayed (6.12 and later)",
    ),
    term(
        "delayed",
        "requeued in place",
        "a requeue of a task whose dequeue was delayed: no CPU was chosen",
    ),
    term("new", "a new task", "a new task's first enqueue"),
    term(
        "anomaly",
        "events contradict",
        "the events contradict each other, or one is missing",
    ),
    term(
        "unknown",
        "no event tells",
        "the trace lacks the event that would tell",
    ),
];

/// How far apart two CPUs are: the smallest thing they share.
pub const DISTANCES: [Term; 7] = [
    term("same", "one CPU", "one and the same CPU"),
    term("smt", "one core", "two threads of one core"),
    term(
        "l2",
        "one L2 or cluster",
        "two cores that share an L2 or a cluster",
    ),
    term("llc", "one LLC", "two cores that share a last-level cache"),
    term("node", "other LLC, one node", "two LLCs of one NUMA node"),
    term("remote", "other node", "two NUMA nodes"),
    term("unknown", "topology unknown", "the topology does not tell"),
];

/// How a task came to wait.
pub const ORIGINS: [Term; 4] = [
    term("wakeup", "woken", "woken up"),
    term("new", "started", "started: its first wait"),
    term(
        "preempted",
        "taken off a CPU",
        "taken off its CPU while runnable",
    ),
    term(
        "balanced",
        "moved while runnable",
        "put there while runnable, by load balancing, NUMA or affinity",
    ),
];

/// The words of a kind, each with its meaning.
pub fn terms(kind: Kind) -> &'static [Term] {
    match kind {
        Kind::Verdict => &VERDICTS,
        Kind::Path => &PATHS,
        Kind::Class => &CLASSES,
        Kind::Waker => &WAKERS,
        Kind::Origin => &ORIGINS,
        Kind::Distance => &DISTANCES,
        Kind::Ledger => &LEDGER,
        Kind::Category => &CATEGORIES,
        Kind::Cause => &CAUSES,
        Kind::Ipi => &IPIS,
        Kind::Policy => &POLICIES,
        Kind::Decision => &DECISIONS,
        Kind::Role => &ROLES,
        Kind::Better => &BETTER,
        Kind::Reading => &READINGS,
        Kind::Label => &LABELS,
    }
}

/// What a word means, in a few words; nothing where it is not known.
pub fn brief(terms: &'static [Term], word: &str) -> &'static str {
    terms
        .iter()
        .find(|t| t.word == word)
        .map_or("", |t| t.brief)
}

/// A list of words with their meanings for a help text, wrapped.
pub fn help(title: &str, terms: &[Term]) -> String {
    let width = terms.iter().map(|t| t.word.len()).max().unwrap_or(0) + 2;
    let mut text = format!("{title}\n");
    for term in terms {
        let room = super::WIDTH.saturating_sub(width + 2);
        for (index, line) in super::table::wrap(term.meaning, room).iter().enumerate() {
            let word = if index == 0 { term.word } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {word:width$}{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::words::{Class, Origin, Path, Verdict};
    use crate::topology::Distance;

    fn same<'a>(terms: &[Term], words: impl IntoIterator<Item = &'a str>) {
        let defined: Vec<&str> = terms.iter().map(|t| t.word).collect();
        assert_eq!(defined, words.into_iter().collect::<Vec<_>>());
        assert!(terms.iter().all(|t| t.brief.chars().count() <= 31));
    }

    /// The ledger's rows are printed with spaces, and written with underscores.
    #[test]
    fn every_kind_of_word_is_defined() {
        for kind in Kind::ALL {
            let words = kind.words();
            let terms = terms(kind).iter().map(|t| t.word.replace([' ', '-'], "_"));
            let expected = words.iter().map(|word| word.replace([' ', '-'], "_"));
            assert!(terms.eq(expected), "{kind:?}");
        }
    }

    #[test]
    fn every_word_is_defined_in_its_order() {
        same(&VERDICTS, Verdict::ALL.iter().map(|v| v.as_str()));
        same(&PATHS, Path::ALL.iter().map(|p| p.as_str()));
        same(&CLASSES, Class::ALL.iter().map(|c| c.as_str()));
        same(&ORIGINS, Origin::ALL.iter().map(|o| o.as_str()));
        same(&DISTANCES, Distance::ALL.iter().map(|d| d.as_str()));
    }

    #[test]
    fn help_stays_narrow() {
        let text = help("Verdicts:", &VERDICTS);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("stacked-prev   put on the waker's CPU"));
    }
}
