//! How a word was found in this trace: the settings in force, and the rule for its kernel.

use serde::Serialize;
use ttwu_parsers::event::escape;

use super::senses::{Kind, Sense};
use crate::attribute::scope::Facts;
use crate::replay::words::Reading;

/// What the figures of this run rest on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    pub kernel_model: String,
    pub topology: String,
    pub settle_ns: i64,
    pub affinity: Vec<&'static str>,
    /// The accounted window.
    pub start_ns: i64,
    pub end_ns: i64,
}

impl Settings {
    pub fn of(facts: &Facts) -> Self {
        let config = facts.config;
        Self {
            kernel_model: escape(config.model.describe().as_bytes()),
            topology: escape(facts.topology().source().as_bytes()),
            settle_ns: config.settle_ns,
            affinity: config.readings.iter().map(|r| r.as_str()).collect(),
            start_ns: config.window.from_ns,
            end_ns: config.window.to_ns,
        }
    }
}

/// The rules by which a word was given, each a full sentence.
pub fn rules(facts: &Facts, sense: Sense) -> Vec<String> {
    match sense.kind {
        Kind::Verdict => verdict(facts, sense.word),
        Kind::Path => path(facts),
        Kind::Class => class(facts, sense.word),
        Kind::Waker => waker(sense.word),
        Kind::Origin => vec![
            "A wait begins when a task is queued and ends when it is switched in; what put it there is its origin.".to_owned(),
        ],
        Kind::Distance => distance(facts),
        Kind::Ledger => ledger(facts, sense.word),
        Kind::Category => category(),
        Kind::Cause => cause(facts),
        Kind::Ipi => ipi(facts),
        Kind::Policy => policy(facts, sense.word),
        Kind::Decision => decision(facts),
        Kind::Role => role(),
        Kind::Better => better(),
        Kind::Reading => reading(facts),
        Kind::Label => super::labels::rules(facts, sense.word),
    }
}

/// A sentence that holds only for some.
fn when(holds: bool, sentence: impl Into<String>) -> Option<String> {
    holds.then(|| sentence.into())
}

fn version(facts: &Facts) -> (u32, u32) {
    facts.config.model.version
}

pub(super) fn verdict(facts: &Facts, word: &str) -> Vec<String> {
    let settle = facts.config.settle_ns as f64 / 1_000.0;
    let missed = [
        "stacked-prev",
        "stacked-pull",
        "prev",
        "other",
        "other-llc",
        "raced",
    ];
    let sentences = [
        Some(
            "Each wait has the first verdict that holds, in the order of `ttwu analyze --help`."
                .to_owned(),
        ),
        when(missed.contains(&word), choice(facts)),
        when(
            missed.contains(&word),
            format!(
                "An idle CPU counts as passed over only if it ran nothing from {settle} µs before the waking to {settle} µs \
                 after the choice (--settle); if not, the verdict is raced."
            ),
        ),
        when(
            missed.contains(&word)
                || word == "affinity"
                || word == "saturated"
                || word == "late-idle",
            reading_rule(),
        ),
        when(
            word == "late-idle",
            "An idle CPU of an LLC that the wakeup does not search was not passed over by it; and the task may have been moved \
             to an idle CPU in the end, but that CPU, or another, was idle before.",
        ),
        when(word == "no-selection", no_selection(facts)),
        when(word == "kthread-stack", kthread_stack(facts)),
        when(
            word == "transit",
            "Nothing else ran on its CPU between the enqueue and its switch-in. If it came by the wake list, the CPU itself enqueued \
             it: the IPI was over then, and the latency of the wakeup has it, not the wait.",
        ),
        when(
            word == "recorder",
            "The machine record in the trace names the recorder's threads; --include-recorder judges them as any other.",
        ),
    ];
    sentences.into_iter().flatten().collect()
}

fn choice(facts: &Facts) -> String {
    let candidates = [
        ("selret", "the return of the probe on select_task_rq_fair"),
        ("sched_migrate_task", "sched_migrate_task"),
        ("csd_queue_cpu", "csd_queue_cpu to the chosen CPU"),
        ("ipi_send_cpu", "ipi_send_cpu to the chosen CPU"),
        ("sched_wakeup", "sched_wakeup"),
    ];
    let recorded = candidates
        .iter()
        .filter(|(name, _)| facts.recorded(name).is_some());
    let recorded: Vec<&str> = recorded.map(|(_, what)| *what).collect();
    format!(
        "The choice of a CPU is taken to be made at the first of these that follows the waking: {}.",
        recorded.join(", ")
    )
}

pub(super) fn reading_rule() -> &'static str {
    "Where the trace does not tell which CPUs a task may run on, `seen` allows only those on which it was seen, and `any` all."
}

fn no_selection(facts: &Facts) -> String {
    let since = version(facts);
    let mut kinds = vec!["the wakee was still queued (class fast_path)"];
    if since >= (5, 8) {
        kinds.push("it was on its way off the CPU and was put on that CPU's wake list");
    }
    if since >= (6, 12) {
        kinds.push("its dequeue was delayed (class delayed)");
    }
    format!(
        "On this kernel model no CPU is chosen if {}.",
        kinds.join(", or ")
    )
}

fn kthread_stack(facts: &Facts) -> String {
    match facts.config.model.kthread_stacking() {
        true => "Since 5.6 select_idle_sibling() leaves the wakee of a per-CPU kernel thread on that CPU, though it is busy.".to_owned(),
        false => "Kernels before 5.6 have no such rule, so that this trace has no such verdict.".to_owned(),
    }
}

fn path(facts: &Facts) -> Vec<String> {
    let sends = match facts.config.recorded.ipi_send {
        true => "ipi_send_cpu is recorded, so that a wakeup without one sent none.",
        false => {
            "ipi_send_cpu is not recorded: whether an IPI was sent is inferred from the receiving CPU."
        }
    };
    vec![
        "The path is read off what happens between sched_waking and sched_wakeup on the waker's CPU and on the chosen one."
            .to_owned(),
        sends.to_owned(),
    ]
}

fn class(facts: &Facts, word: &str) -> Vec<String> {
    let queued = match version(facts) {
        v if v < (5, 8) => "only to a CPU of another LLC",
        v if v < (6, 0) => "to a CPU of another LLC, or to the one the wakee is just leaving",
        _ => "to a CPU of another LLC, or to one of the same LLC on which nothing is runnable",
    };
    let sentences = [
        Some(
            "The CPU that recorded sched_wakeup tells who enqueued the wakee: the waker's CPU did it itself, or the chosen CPU \
             took it off its wake list."
                .to_owned(),
        ),
        when(
            ["queued", "direct"].contains(&word),
            format!("On this kernel model a wakeup is queued {queued} (ttwu_queue_cond)."),
        ),
        when(
            word.contains("delayed"),
            "Since 6.12 a task may stay queued after it blocked, until its CPU runs nothing; woken before, it is requeued in place.",
        ),
    ];
    sentences.into_iter().flatten().collect()
}

fn waker(word: &str) -> Vec<String> {
    let sentences = [
        Some("The context is in the flags of sched_waking.".to_owned()),
        when(
            word.starts_with("softirq"),
            "In a soft interrupt the wakeup is charged to the task that was interrupted, as the kernel's record_wakee() does; \
             softirq, irq and network events tell whether its own system call raised it.",
        ),
    ];
    sentences.into_iter().flatten().collect()
}

pub(super) fn distance(facts: &Facts) -> Vec<String> {
    vec![format!(
        "The smallest thing that the two CPUs share, by the topology from: {}. A wakeup has three distances: waker to chosen \
         CPU, previous to chosen CPU, waker to previous CPU.",
        escape(facts.topology().source().as_bytes())
    )]
}

pub(super) fn ledger(facts: &Facts, word: &str) -> Vec<String> {
    let matched = word.starts_with("waiting");
    let sentences = [
        Some("Every nanosecond of every CPU is in exactly one row: the first that holds, in the order of `ttwu analyze --help`.".to_owned()),
        when(
            matched,
            "At each instant as many CPUs that run nothing as possible are matched to tasks that wait and may run there, in \
             their LLC first. One waiting task never makes more than one CPU lost.",
        ),
        when(matched, reading_rule()),
        when(
            matched && facts.topology().cores().is_none(),
            "The topology does not tell which CPUs are threads of one core: every CPU counts as a core.",
        ),
    ];
    sentences.into_iter().flatten().collect()
}

fn category() -> Vec<String> {
    vec![
        "The critical path goes backwards from the last unit's end: a task's running time, then the wait or transit before it, \
         then its waker at the waking, and so on to the first unit's start. Its parts sum exactly to that span."
            .to_owned(),
        "A gain is at most T / (T - t) - 1, if order and placement of everything else stay as they are.".to_owned(),
        "Of the running time, what crossing LLCs may have cost is told within it (running_within): each task's own \
         difference a wakeup, times its wakeups that cross and begin a run on the path, and no more than these runs took."
            .to_owned(),
    ]
}

pub(super) fn cause(facts: &Facts) -> Vec<String> {
    let recorded = match facts.recorded("sched_migrate_task").is_some() {
        true => {
            "sched_migrate_task says who moved a task; in which context that happened says why."
        }
        false => {
            "sched_migrate_task is not recorded: moves are noticed when the task runs next, and their cause is unknown."
        }
    };
    vec![recorded.to_owned()]
}

fn ipi(facts: &Facts) -> Vec<String> {
    let names = [
        "ipi_send_cpu",
        "ipi_send_cpumask",
        "csd_queue_cpu",
        "sched_wake_idle_without_ipi",
        "reschedule_entry",
        "call_function_single_entry",
        "call_function_entry",
        "ipi_raise",
        "ipi_entry",
    ];
    let recorded = names
        .iter()
        .filter(|name| facts.recorded(name).unwrap_or(0) > 0);
    let recorded: Vec<&str> = recorded.copied().collect();
    vec![match recorded.is_empty() {
        true => "The trace holds no event of interrupts between CPUs.".to_owned(),
        false => format!("This trace tells of them by {}.", recorded.join(", ")),
    }]
}

fn policy(facts: &Facts, word: &str) -> Vec<String> {
    let setup = &facts.config.flips;
    let kernel = setup.kernel.as_str();
    let own = format!(
        "The recorded kernel is taken to follow {kernel}, at {} ticks a second ({}).",
        setup.hz,
        escape(setup.hz_source.as_bytes())
    );
    let factor = format!(
        "The factor is the number of CPUs in the LLC of the waker's CPU, by {}.",
        escape(setup.factor_source.as_bytes())
    );
    let decays = [
        (
            "zero",
            "zero: once more than a second has gone by, the count starts again from 0 (3.12 to 3.15).",
        ),
        (
            "halve",
            "halve: once more than a second has gone by, the count is halved, once (3.16 to today).",
        ),
        (
            "loop",
            "loop: the count is halved once for each second gone by, and cleared after BITS_PER_LONG of them (proposed in August 2014, never merged).",
        ),
    ];
    let rules = [
        (
            "old",
            "old: wide if the wakee's count is above the factor and the waker's above the factor times that (to 4.2).",
        ),
        (
            "new",
            "new: wide if the smaller count is at least the factor and the larger at least the factor times that (4.3 on).",
        ),
    ];
    let word = match word {
        "kernel" => kernel.to_owned(),
        word => word.to_owned(),
    };
    let told = decays.iter().chain(&rules);
    let told = told.filter(|(part, _)| word.split('-').any(|w| w == *part));
    let told = told.map(|(_, sentence)| (*sentence).to_owned());
    told.chain([factor, own]).collect()
}

pub(super) fn decision(facts: &Facts) -> Vec<String> {
    let probes = match facts.recorded("sel").unwrap_or(0) {
        0 => {
            "The trace holds none of the kernel's own counts: history before its start is not known, so that counts are intervals."
        }
        _ => "The trace holds the kernel's own counts, which narrow the intervals.",
    };
    vec![
        "wake_wide() compares the counts of waker and wakee with the number of CPUs in the waker's LLC. Counts are followed as \
         intervals; a decision is certain if every value in them leads to it."
            .to_owned(),
        probes.to_owned(),
    ]
}

fn role() -> Vec<String> {
    vec!["Roles are read off who woke whom: how many wakees a waker has, and how often it changes between them.".to_owned()]
}

fn better() -> Vec<String> {
    vec![
        "Overlap is the work of waker and wakee that could have run side by side after a wakeup; the cost of spreading is the \
         pair's own transit elsewhere and the longer run after it, or the machine's at that distance."
            .to_owned(),
    ]
}

fn reading(facts: &Facts) -> Vec<String> {
    let asked: Vec<&str> = facts
        .config
        .readings
        .iter()
        .map(|r: &Reading| r.as_str())
        .collect();
    vec![format!(
        "{} Both are computed side by side; asked for here: {} (--affinity).",
        reading_rule(),
        asked.join(", ")
    )]
}
