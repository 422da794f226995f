//! Every wakeup's class, path, distances and times, from the notes.

use super::machine::Cpu;
use super::notes::{Context, Sent, State, Wakeup, Way};
use super::timeline::Timeline;

/// What a report should say of one wakeup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WakeupTruth {
    pub pid: i32,
    pub waking: Option<i64>,
    pub enqueued: Option<i64>,
    pub class: &'static str,
    /// `None` where only the receiving side tells, and not surely.
    pub path: Option<&'static str>,
    pub context: &'static str,
    pub waker: Option<i32>,
    pub waker_cpu: Option<u32>,
    pub prev: Option<u32>,
    pub chosen: u32,
    /// Waker to chosen, previous to chosen, waker to previous.
    pub distances: [&'static str; 3],
    pub latency: Option<i64>,
    pub queue: Option<i64>,
    pub waker_cost: Option<i64>,
    pub selection: Option<bool>,
    pub chosen_idle: bool,
}

pub fn wakeups(timeline: &Timeline) -> Vec<WakeupTruth> {
    let all = timeline.notes.wakeups.iter().enumerate();
    all.map(|(number, wakeup)| truth(timeline, number, wakeup))
        .collect()
}

/// Whether the waker of a wakeup shows: always with `sched_waking`; else only where the wakeup cannot have been queued,
/// that is on another CPU than the chosen one, or in a task's own context.
pub fn waker_shows(timeline: &Timeline, wakeup: &Wakeup) -> bool {
    timeline.kernel.has_waking()
        || matches!(wakeup.way, Way::New | Way::Itself | Way::InPlace)
        || wakeup.enqueuer != wakeup.chosen
        || !wakeup.interrupted
}

/// The previous CPU, where it shows: without `sched_waking` it is where the wakee was last seen to leave.
pub fn prev_shown(timeline: &Timeline, wakeup: &Wakeup) -> Option<Cpu> {
    if wakeup.way == Way::New || timeline.kernel.has_waking() {
        return Some(wakeup.prev);
    }
    let until = wakeup.enqueued.unwrap_or(i64::MAX);
    let left = timeline.notes.left.iter().rev();
    left.clone()
        .find(|&&(ts, task, _)| task == wakeup.wakee && ts < until)
        .map(|(_, _, cpu)| *cpu)
}

/// When the CPU was chosen.
pub fn choice(timeline: &Timeline, wakeup: &Wakeup) -> i64 {
    if !timeline.kernel.has_waking() {
        return wakeup.enqueued.unwrap_or(i64::MAX);
    }
    let told = [
        wakeup.probed,
        wakeup.migrated,
        wakeup.queued,
        wakeup.interrupt,
        wakeup.enqueued,
    ];
    told.into_iter().flatten().min().unwrap_or(i64::MAX)
}

/// By the kernel notes: from 6.12 on a fair sleeper that was woken where it was may have been queued there all the time,
/// unless that CPU ran nothing meanwhile.
fn may_be_delayed(timeline: &Timeline, wakeup: &Wakeup) -> bool {
    let notes = timeline.notes;
    if !timeline.kernel.delays_dequeue()
        || notes.tasks[wakeup.wakee].prio < 100
        || wakeup.prev != wakeup.chosen
    {
        return false;
    }
    let waking = wakeup.waking.unwrap_or(i64::MAX);
    let left = notes
        .left
        .iter()
        .rev()
        .find(|(ts, task, _)| *task == wakeup.wakee && *ts < waking);
    let left = left.map_or(i64::MIN, |(ts, ..)| *ts);
    // Or since it was moved there in its sleep.
    let moved = notes
        .moved_asleep
        .iter()
        .filter(|&&(ts, task, to)| task == wakeup.wakee && to == wakeup.chosen && ts < waking);
    let left = moved
        .map(|(ts, ..)| *ts)
        .max()
        .map_or(left, |moved| moved.max(left));
    let enqueued = wakeup.enqueued.unwrap_or(i64::MAX);
    // Every CPU ran nothing at the start.
    let starts = (timeline.start, wakeup.chosen);
    let mut idled = notes.idled.iter().chain(std::iter::once(&starts));
    !idled.any(|&(ts, cpu)| cpu == wakeup.chosen && left <= ts && ts < enqueued)
}

fn class(timeline: &Timeline, wakeup: &Wakeup) -> &'static str {
    if !timeline.kernel.has_waking() && wakeup.way != Way::New {
        return match (waker_shows(timeline, wakeup), wakeup.way) {
            (true, Way::Itself | Way::InPlace) => "fast_path",
            (false, _) => "unknown",
            (true, _) if wakeup.enqueuer == wakeup.chosen => "local",
            (true, _) => "direct",
        };
    }
    match wakeup.way {
        Way::New => "new",
        Way::Itself if timeline.kernel.self_shortcut() => "self",
        Way::Itself | Way::InPlace => "fast_path",
        Way::Listed | Way::ListedOnCpu => "queued",
        Way::Enqueued | Way::Requeued if wakeup.waker_cpu == wakeup.chosen => "local",
        Way::Enqueued | Way::Requeued if !may_be_delayed(timeline, wakeup) => "direct",
        _ if !timeline.machine.same_llc(wakeup.waker_cpu, wakeup.chosen) => "delayed",
        _ => "direct_or_delayed",
    }
}

fn path(timeline: &Timeline, wakeup: &Wakeup, class: &str) -> Option<&'static str> {
    if class == "unknown" {
        return Some("unknown");
    }
    if wakeup.waker_cpu == wakeup.chosen {
        return Some("local");
    }
    if !timeline.kernel.has_waking() && wakeup.way != Way::New {
        return Some("unknown");
    }
    let listed = matches!(wakeup.way, Way::Listed | Way::ListedOnCpu);
    let sends = timeline.kernel.tells_sends();
    Some(match (listed, wakeup.sent) {
        (true, Sent::Flag) => "queued-polling",
        (false, Sent::Flag) => "direct-no-ipi",
        _ if !sends => return None,
        (true, Sent::Ipi) => "queued-ipi",
        (true, _) => "queued-coalesced",
        (false, Sent::Ipi) => "direct-ipi",
        (false, _) => "direct-no-ipi",
    })
}

/// Whether no CPU was chosen, by the events.
pub fn without_selection(timeline: &Timeline, wakeup: &Wakeup) -> bool {
    wakeup.way == Way::ListedOnCpu || class(timeline, wakeup) == "delayed"
}

fn selection(timeline: &Timeline, wakeup: &Wakeup, class: &str) -> Option<bool> {
    let note = &timeline.notes.tasks[wakeup.wakee];
    if note.prio < 100 {
        return None;
    }
    let waking = wakeup
        .waking
        .unwrap_or(i64::MAX)
        .min(wakeup.enqueued.unwrap_or(i64::MAX));
    let known = timeline.mask(wakeup.wakee, waking, super::timeline::Read::Any);
    let pinned = known.is_some_and(|mask| mask.len() == 1);
    match class {
        "self" | "fast_path" | "delayed" => Some(false),
        "queued" if wakeup.way == Way::ListedOnCpu => Some(false),
        "local" | "direct" | "queued" => Some(!pinned),
        // Without `sched_waking`: queued, or made here by an interrupt. Either way a CPU was chosen.
        "unknown" => Some(!pinned),
        _ => None,
    }
}

fn truth(timeline: &Timeline, number: usize, wakeup: &Wakeup) -> WakeupTruth {
    let notes = timeline.notes;
    let id = |cpu: Cpu| timeline.machine.ids[cpu];
    let class = class(timeline, wakeup);
    let shows = waker_shows(timeline, wakeup);
    let prev = prev_shown(timeline, wakeup);
    let waking = wakeup.waking.filter(|_| timeline.kernel.has_waking());
    let charged = match wakeup.context {
        Context::Hardirq | Context::Nmi => None,
        _ => wakeup.current.filter(|_| shows),
    };
    let far = |a: Option<Cpu>, b: Option<Cpu>| match (a, b) {
        (Some(a), Some(b)) => timeline.machine.distance(a, b),
        _ => "unknown",
    };
    // Of a new task no previous CPU is told.
    let told_prev = prev.filter(|_| wakeup.way != Way::New);
    let from = Some(wakeup.waker_cpu).filter(|_| shows);
    let came = switched_in(timeline, number);
    let listed = class == "queued";
    let sent = [wakeup.queued, wakeup.interrupt, wakeup.flagged];
    WakeupTruth {
        pid: notes.tasks[wakeup.wakee].pid,
        waking,
        enqueued: wakeup.enqueued,
        class,
        path: path(timeline, wakeup, class),
        context: match wakeup.context {
            _ if !shows => "unknown",
            Context::Task => "task",
            Context::SoftirqInline | Context::SoftirqIrqExit if !timeline.tells_softirqs => {
                "softirq_unknown"
            }
            Context::SoftirqInline => "softirq_inline",
            Context::SoftirqIrqExit => "softirq_irq_exit",
            Context::Hardirq => "hardirq",
            Context::Nmi => "nmi",
        },
        waker: charged.map(|task| notes.tasks[task].pid),
        waker_cpu: from.map(id),
        prev: told_prev.map(id),
        chosen: id(wakeup.chosen),
        distances: [
            far(from, Some(wakeup.chosen)),
            far(told_prev, Some(wakeup.chosen)),
            far(from, told_prev),
        ],
        latency: came.zip(waking).map(|(came, waking)| came - waking),
        queue: came
            .zip(wakeup.enqueued)
            .map(|(came, enqueued)| came - enqueued),
        waker_cost: match waking {
            Some(waking) if listed => sent.into_iter().flatten().max().map(|last| last - waking),
            Some(waking) => wakeup.enqueued.map(|enqueued| enqueued - waking),
            None => None,
        },
        selection: selection(timeline, wakeup, class),
        chosen_idle: timeline.idle_but_for(wakeup.chosen, wakeup.wakee, choice(timeline, wakeup)),
    }
}

/// When the wakee was switched in after a wakeup, if it waited for that and nothing came between.
fn switched_in(timeline: &Timeline, number: usize) -> Option<i64> {
    let wakee = timeline.notes.wakeups[number].wakee;
    let spans = &timeline.spans[wakee];
    let first = spans
        .iter()
        .position(|span| span.why == super::notes::Why::Woken(number))?;
    let after = spans[first..]
        .iter()
        .find(|span| !matches!(span.state, State::Queued(_)))?;
    matches!(after.state, State::Running(_)).then_some(after.from)
}
