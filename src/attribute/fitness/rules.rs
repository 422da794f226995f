//! What a trace is fit for by the events in it, its kernel and its topology: one set of rules, for `info` before the
//! replay and for `analyze` behind it. `docs/fitness.md` is what these rules say of each kernel era and set of events.

use crate::replay::model::KernelModel;
use crate::wording::{agree, many};

/// What a judgement rests on.
pub struct Evidence<'a> {
    /// How many events of a name there are; `None` if the trace does not know such an event.
    pub events: &'a dyn Fn(&str) -> Option<u64>,
    pub model: &'a KernelModel,
    pub llcs: Llcs,
    /// Texts in the trace of which units of work could be made.
    pub markers: usize,
    /// What stands in the way of everything.
    pub obstacle: Option<&'static str>,
}

/// How many LLCs there are, or why that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Llcs {
    Known(usize),
    Unknown(String),
}

/// How fit a trace is for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Yes,
    Partly,
    No,
}

impl Word {
    pub const fn as_str(self) -> &'static str {
        match self {
            Word::Yes => "yes",
            Word::Partly => "partly",
            Word::No => "no",
        }
    }
}

/// How fit a trace is for a figure, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub word: Word,
    pub why: String,
}

impl Judged {
    /// As it is where events were lost.
    pub fn with_losses(mut self) -> Self {
        if self.word == Word::Yes {
            self.word = Word::Partly;
            self.why
                .push_str(", but events were lost: what spans a loss is left out");
        }
        self
    }
}

pub fn yes(why: impl Into<String>) -> Judged {
    judged(Word::Yes, why)
}

pub fn partly(why: impl Into<String>) -> Judged {
    judged(Word::Partly, why)
}

pub fn no(why: impl Into<String>) -> Judged {
    judged(Word::No, why)
}

fn judged(word: Word, why: impl Into<String>) -> Judged {
    Judged {
        word,
        why: why.into(),
    }
}

/// A figure: its key in the JSON report, its name for people, and its rule.
pub struct Figure {
    pub key: &'static str,
    pub name: &'static str,
    pub rule: fn(&Evidence) -> Judged,
}

const fn figure(key: &'static str, name: &'static str, rule: fn(&Evidence) -> Judged) -> Figure {
    Figure { key, name, rule }
}

/// The figures that a trace may be fit for.
pub const FIGURES: [Figure; 9] = [
    figure("latency", "latency", latency),
    figure("missed_idle", "missed idle CPUs", missed_idle),
    figure("paths", "paths of wakeups", paths),
    figure("cross_llc", "cross-LLC wakeups", cross_llc),
    figure("migrations", "migrations", migrations),
    figure("flips", "wakee flips", flips),
    figure("ipis", "IPIs", ipis),
    figure("tlb", "TLB shootdowns", tlb),
    figure("throughput", "throughput", throughput),
];

/// First kernel with `sched_waking` (fbd705a0c618).
const WAKING_SINCE: (u32, u32) = (4, 3);
/// First kernel with `ipi_send_cpu` on x86, and with `csd_queue_cpu`.
const SENDS_SINCE: (u32, u32) = (6, 4);
const CSD_SINCE: (u32, u32) = (6, 5);

/// The events of every wakeup's way.
const WAY: [&str; 3] = ["sched_switch", "sched_waking", "sched_wakeup"];

impl Evidence<'_> {
    fn count(&self, name: &str) -> u64 {
        (self.events)(name).unwrap_or(0)
    }

    fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    /// Whether an event was recorded, though it may never have happened.
    fn watched(&self, name: &str) -> bool {
        (self.events)(name).is_some()
    }

    fn older_than(&self, version: (u32, u32)) -> bool {
        self.model.version < version
    }

    /// Those of these that the trace holds, in words.
    fn held(&self, names: &[&str]) -> String {
        let held = names.iter().copied().filter(|name| self.has(name));
        held.collect::<Vec<_>>().join(", ")
    }

    /// Those of these of which the trace holds none.
    fn missing<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        let missing = names.iter().copied().filter(|name| !self.has(name));
        missing.collect()
    }

    /// That the trace holds none of these, and whether it could.
    fn lacks(&self, missing: &[&str]) -> String {
        let lacks = format!("the trace holds no {}", missing.join(", "));
        match missing.contains(&"sched_waking") && self.older_than(WAKING_SINCE) {
            true => format!("{lacks} (kernels before 4.3 have none)"),
            false => lacks,
        }
    }

    /// What stands in the way of saying how a wakeup went.
    fn no_way(&self) -> Option<Judged> {
        if let Some(obstacle) = self.obstacle {
            return Some(no(obstacle));
        }
        let missing = self.missing(&WAY);
        let waker = match missing.contains(&"sched_waking") {
            true => ": the waker of a queued wakeup is not known, and not guessed",
            false => "",
        };
        (!missing.is_empty()).then(|| no(format!("{}{waker}", self.lacks(&missing))))
    }
}

/// Waking to switch-in, and its parts.
pub fn latency(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.obstacle {
        return no(obstacle);
    }
    let missing = on.missing(&WAY);
    if missing.is_empty() {
        return yes("sched_waking, sched_wakeup and sched_switch are recorded");
    }
    let part = match WAY.map(|name| on.has(name)) {
        [true, _, true] => "only the time from wakeup to switch-in is known",
        [true, true, false] => "only the whole latency is known, not where it was spent",
        _ => return no(on.lacks(&missing)),
    };
    partly(format!("{}: {part}", on.lacks(&missing)))
}

/// Idle CPUs that were passed over, and time lost to that.
pub fn missed_idle(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.no_way() {
        return obstacle;
    }
    if let Llcs::Unknown(_) = on.llcs {
        return partly(
            "the LLCs are unknown, so not whether an idle CPU was near: give --topology",
        );
    }
    if !on.watched("sched_migrate_task") {
        return partly(
            "sched_migrate_task is not recorded, so tasks moved while they waited are thought to wait where they were",
        );
    }
    yes("wakeups, switches, migrations and the topology are known")
}

/// By which road wakeups went, and what the waker paid.
pub fn paths(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.no_way() {
        return obstacle;
    }
    if on.watched("ipi_send_cpu") {
        return yes("sched_waking, sched_wakeup and ipi_send_cpu are recorded");
    }
    let since = match on.older_than(SENDS_SINCE) {
        true => " (on x86 since 6.4)",
        false => "",
    };
    let lack = format!("ipi_send_cpu is not recorded{since}, so whether an IPI was sent");
    match on
        .held(&["reschedule_entry", "call_function_single_entry"])
        .as_str()
    {
        "" => partly(format!(
            "{lack} is inferred for queued wakeups, and unknown for most direct ones"
        )),
        handlers => partly(format!(
            "{lack} is inferred from the receiving side ({handlers})"
        )),
    }
}

/// What wakeups across LLCs cost.
pub fn cross_llc(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.no_way() {
        return obstacle;
    }
    match &on.llcs {
        Llcs::Unknown(why) => no(why.as_str()),
        Llcs::Known(0 | 1) => no("the machine has one LLC: no wakeup crosses"),
        Llcs::Known(llcs) => yes(format!("wakeups between {llcs} LLCs are known")),
    }
}

/// Moves between CPUs, by cause.
pub fn migrations(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.obstacle {
        return no(obstacle);
    }
    match (on.has("sched_switch"), on.watched("sched_migrate_task")) {
        (false, false) => no("the trace holds no sched_switch and no sched_migrate_task"),
        (true, false) => partly(
            "sched_migrate_task is not recorded: moves are noticed when the task runs next, not by whom",
        ),
        (false, true) => {
            partly("the trace holds no sched_switch: what was moved is known, not why")
        }
        (true, true) if !on.has("sched_waking") => partly(format!(
            "{}: placements of wakeups are not told from other moves",
            on.lacks(&["sched_waking"])
        )),
        (true, true) => yes("sched_migrate_task, sched_waking and sched_switch are recorded"),
    }
}

/// `wakee_flips`, and what `wake_wide()` made of them.
pub fn flips(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.obstacle {
        return no(obstacle);
    }
    if !on.has("sched_waking") {
        let lacks = on.lacks(&["sched_waking"]);
        return no(format!("{lacks}, so wakers are not known"));
    }
    match on.count("sel") {
        0 => partly(
            "sched_waking is recorded, so flips are followed within bounds; the kernel's own counts are not recorded",
        ),
        probes => yes(format!(
            "sched_waking and {probes} of the kernel's own counts are recorded"
        )),
    }
}

const SENDS: [&str; 3] = ["ipi_send_cpu", "ipi_send_cpumask", "ipi_raise"];

const HANDLERS: [&str; 5] = [
    "reschedule_entry",
    "call_function_entry",
    "call_function_single_entry",
    "ipi_entry",
    "csd_function_entry",
];

/// Interrupts between CPUs.
pub fn ipis(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.obstacle {
        return no(obstacle);
    }
    match (on.held(&SENDS).as_str(), on.held(&HANDLERS).as_str()) {
        ("", "") => no(
            "no interrupts between CPUs are recorded: record with -e 'ipi:*' -e 'csd:*' -e 'irq_vectors:*'",
        ),
        (sends, "") => partly(format!(
            "sends are recorded ({sends}), handlers are not: latency and stolen time are not known"
        )),
        ("", handlers) => partly(format!(
            "handlers are recorded ({handlers}), sends are not{}: who interrupts whom, how far and how fast is not known",
            if on.older_than(SENDS_SINCE) {
                " (6.4 on)"
            } else {
                ""
            }
        )),
        (sends, handlers) => {
            let calls = match on.has("csd_queue_cpu") {
                false => "; which functions are called is not (csd events, 6.5 on)",
                true => "",
            };
            yes(format!("{sends} and {handlers} are recorded{calls}"))
        }
    }
}

/// TLB shootdowns: their sizes, targets, and how long the initiator waited.
pub fn tlb(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.obstacle {
        return no(obstacle);
    }
    if !on.watched("tlb_flush") {
        return no("tlb_flush is not recorded: record with -e tlb:tlb_flush");
    }
    let missing = on.missing(&["ipi_send_cpumask", "csd_function_exit"]);
    if missing.is_empty() || !on.has("tlb_flush") {
        return yes("tlb_flush and the events of its interrupts are recorded");
    }
    let since = match on.older_than(CSD_SINCE) {
        true => " (since 6.4 and 6.5)",
        false => "",
    };
    partly(format!(
        "the trace holds no {}{since}: sizes are known, not targets and waits",
        missing.join(", ")
    ))
}

/// Units of work, and the critical path between them.
pub fn throughput(on: &Evidence) -> Judged {
    if let Some(obstacle) = on.no_way() {
        return match on.obstacle.is_none() && on.has("sched_switch") && on.has("sched_wakeup") {
            true => partly(format!(
                "{}: what was done per second is known, not the critical path",
                on.lacks(&["sched_waking"])
            )),
            false => obstacle,
        };
    }
    match on.markers {
        0 => {
            partly("the trace holds no markers: without --work only wakeups per second can be told")
        }
        markers => yes(format!(
            "{} {} recorded, of which units of work could be made",
            many(markers as u64, "marker"),
            agree(markers as u64, "is", "are")
        )),
    }
}
