//! The critical path by the simulator's own state: backwards from a task and an instant, state by state.

use std::collections::BTreeMap;

use super::notes::{Context, State, Way, Why};
use super::scheduler::{Sim, Task};
use super::timeline::{Span, Timeline};
use super::truth_waits::{WaitTruth, waits};
use super::truth_wakeups::{WakeupTruth, wakeups};

/// Time by category.
pub type Shares = BTreeMap<&'static str, i64>;

/// How often and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub count: i64,
    pub ns: i64,
}

/// What a path is made of, by names like `transit.by_path.queued-ipi` and `wait.by_verdict.raced.seen`.
#[derive(Debug, Clone, Default)]
pub struct PathTruth {
    pub ns: Shares,
    pub parts: BTreeMap<String, Sum>,
    /// Wakeups on it, by context.
    pub wakeups: BTreeMap<&'static str, i64>,
    pub cross_llc: i64,
    /// What ran on the CPUs of those who waited, by pid; and how long nothing did.
    pub meanwhile: BTreeMap<i32, i64>,
    pub meanwhile_idle: i64,
    /// What ran on the path itself, by pid.
    pub running: BTreeMap<i32, i64>,
}

/// All that a walk looks things up in.
pub struct Walker<'a> {
    sim: &'a Sim,
    pub timeline: &'a Timeline<'a>,
    waits: BTreeMap<(i32, i64), WaitTruth>,
    wakeups: Vec<WakeupTruth>,
    /// By CPU: when handlers of other CPUs' interrupts ran, and when it waited for those that it had asked to flush.
    handlers: Vec<Vec<(i64, i64)>>,
    flushes: Vec<Vec<(i64, i64)>>,
}

impl<'a> Walker<'a> {
    pub fn new(sim: &'a Sim, timeline: &'a Timeline<'a>) -> Self {
        let cpus = sim.machine.cpus();
        let (mut handlers, mut flushes) = (vec![Vec::new(); cpus], vec![Vec::new(); cpus]);
        for sending in &sim.notes.sendings {
            if let Some(handled) = sending.handled.filter(|handled| handled.started) {
                handlers[sending.to].push((handled.entry, handled.exit));
            }
        }
        for shootdown in &sim.notes.shootdowns {
            let last = shootdown.acknowledged.iter().max();
            if let (Some(asked), Some(&last), true) =
                (shootdown.asked, last, sim.kernel.tells_sends())
            {
                flushes[shootdown.from].push((asked, last));
            }
        }
        let waits = waits(timeline).into_iter();
        Self {
            sim,
            timeline,
            waits: waits.map(|wait| ((wait.pid, wait.start), wait)).collect(),
            wakeups: wakeups(timeline),
            handlers,
            flushes,
        }
    }

    fn pid(&self, task: Task) -> i32 {
        self.sim.notes.tasks[task].pid
    }

    /// The span that a task was in just before an instant.
    fn before(&self, task: Task, at: i64) -> Option<&Span> {
        let spans = self.timeline.spans[task].iter();
        spans.rev().find(|span| span.from < at)
    }

    /// Walks from an instant, at which a task was active, back to another.
    pub fn walk(&self, mut task: Task, (start, end): (i64, i64)) -> PathTruth {
        let mut truth = PathTruth::default();
        let mut at = end;
        while at > start {
            // Nothing is known of it before its first event, in which it was asleep.
            let Some(span) = self
                .before(task, at)
                .filter(|span| self.is_known(task, span))
            else {
                truth.add("unknown", at - start, &["unknown.before_first_event"]);
                break;
            };
            let from = span.from.max(start);
            match span.state {
                State::Running(cpu) => {
                    self.run(&mut truth, task, cpu, (from, at));
                    at = from;
                }
                State::Withheld(_) => {
                    truth.add("unknown", at - from, &["unknown.withheld"]);
                    at = from;
                }
                State::Queued(_) => (task, at) = self.wait(&mut truth, task, at, start),
                State::Transit(_) => {
                    // Only where a chain begins amid it: what began later counts from the waking.
                    let wakeup = self.under_way(task, at).expect("a wakeup under way");
                    (task, at) = self.come(&mut truth, task, wakeup, at, start);
                }
                State::Blocked | State::Dead | State::Unborn => {
                    // Only where a chain begins in a sleep that nobody ends.
                    truth.add("blocked", at - from, &["blocked.unknown"]);
                    at = from;
                }
            }
        }
        truth
    }

    /// Whether something was told of a task by then.
    fn is_known(&self, task: Task, span: &Span) -> bool {
        span.state != State::Unborn
            && self.timeline.spans[task].first().map(|first| first.from) != Some(span.from)
    }

    /// The last wakeup that put a task on its way before an instant.
    fn under_way(&self, task: Task, at: i64) -> Option<usize> {
        let mut all = self.sim.notes.wakeups.iter();
        all.rposition(|w| {
            let placed = !matches!(w.way, Way::Itself | Way::InPlace);
            let begun = w.waking.or(w.enqueued);
            placed && w.wakee == task && begun.is_some_and(|ts| ts < at)
        })
    }

    fn run(&self, truth: &mut PathTruth, task: Task, cpu: usize, (from, to): (i64, i64)) {
        let interrupt = covered(&self.handlers[cpu], (from, to));
        let waits = &self.flushes[cpu];
        let waited = waits.iter().map(|&(a, b)| {
            let (a, b) = (a.max(from), b.min(to));
            (b - a).max(0) - covered(&self.handlers[cpu], (a, b))
        });
        let waited: i64 = waited.sum();
        let own = to - from - interrupt - waited;
        truth.add("interrupt", interrupt, &[]);
        truth.add("tlb-wait", waited, &[]);
        truth.add("running", own, &[]);
        *truth.running.entry(self.pid(task)).or_default() += own;
    }

    /// From the end of a wait to what was before.
    fn wait(&self, truth: &mut PathTruth, task: Task, at: i64, start: i64) -> (Task, i64) {
        let spans = &self.timeline.spans[task];
        let last = spans
            .iter()
            .rposition(|span| span.from < at)
            .expect("a span");
        let queued = |span: &&Span| matches!(span.state, State::Queued(_));
        let length = spans[..=last].iter().rev().take_while(queued).count();
        let first = &spans[last + 1 - length];
        let wait = &self.waits[&(self.pid(task), first.from)];
        let from = first.from.max(start);
        let number = match first.why {
            Why::Woken(number) => Some(number),
            _ => None,
        };
        let ns = at - from;
        if wait.verdicts == ["transit"; 2] {
            let (path, distance) = number.map_or((Some("unknown"), "unknown"), |n| self.road(n));
            truth.transit(ns, path, distance);
        } else {
            let [seen, any] = wait.verdicts;
            let names = [
                format!("wait.by_origin.{}", wait.origin),
                format!("wait.by_verdict.{seen}.seen"),
                format!("wait.by_verdict.{any}.any"),
            ];
            truth.add("wait", ns, &names.each_ref().map(String::as_str));
            // Charged to what ran on the CPU where it waited last.
            let end = spans[last].to;
            let cpus = spans[last + 1 - length..].iter().take_while(queued);
            let cpu = cpus.last().map(|span| span.state);
            debug_assert!(end >= at || start > from);
            if let Some(State::Queued(cpu)) = cpu {
                self.charge(truth, cpu, (from, at));
            }
        }
        if from <= start {
            return (task, start);
        }
        match number {
            Some(number) => self.come(truth, task, number, from, start),
            None => (task, from),
        }
    }

    fn charge(&self, truth: &mut PathTruth, cpu: usize, (from, to): (i64, i64)) {
        for segment in &self.timeline.segments {
            let ns = segment.to.min(to) - segment.from.max(from);
            if ns > 0 {
                match segment.running[cpu] {
                    Some(task) => {
                        *truth.meanwhile.entry(self.pid(task)).or_default() += ns;
                    }
                    None => truth.meanwhile_idle += ns,
                }
            }
        }
    }

    fn road(&self, wakeup: usize) -> (Option<&'static str>, &'static str) {
        let wakeup = &self.wakeups[wakeup];
        (wakeup.path, wakeup.distances[0])
    }

    /// From the enqueue, or amid the way to it, to the waking; and to who was at work there.
    fn come(
        &self,
        truth: &mut PathTruth,
        task: Task,
        number: usize,
        at: i64,
        start: i64,
    ) -> (Task, i64) {
        let wakeup = &self.sim.notes.wakeups[number];
        // A parent starts its child at the enqueue.
        let waking = wakeup.waking.unwrap_or(at);
        let (path, distance) = self.road(number);
        if waking < at {
            truth.transit(at - waking.max(start), path, distance);
        }
        if waking <= start {
            // At the start itself, the waker is passed, and nothing is left to tell.
            if waking == start {
                self.pass(truth, number);
            }
            return (task, start);
        }
        self.pass(truth, number);
        if let Some(waker) = wakeup.current.filter(|_| self.is_followed(wakeup.context)) {
            return (waker, waking);
        }
        // An interrupt woke it: it slept, if it had gone to sleep by then.
        let Some(span) = self
            .before(task, waking)
            .filter(|span| self.is_known(task, span))
        else {
            return (task, waking);
        };
        if span.state != State::Blocked {
            return (task, waking);
        }
        let from = span.from.max(start);
        let name = format!("blocked.{}", self.wakeups[number].context);
        truth.add("blocked", waking - from, &[&name]);
        (task, from)
    }

    /// Whether whom an interrupt found is taken for the waker: by a soft interrupt that may be the task's own doing.
    fn is_followed(&self, context: Context) -> bool {
        match context {
            Context::Task | Context::SoftirqInline => true,
            Context::SoftirqIrqExit => !self.timeline.tells_softirqs,
            Context::Hardirq | Context::Nmi => false,
        }
    }

    fn pass(&self, truth: &mut PathTruth, number: usize) {
        *truth
            .wakeups
            .entry(self.wakeups[number].context)
            .or_default() += 1;
        let distance = self.wakeups[number].distances[0];
        truth.cross_llc += i64::from(matches!(distance, "node" | "remote"));
    }

    /// The task of a group that was active last at an instant: that ran, else waited, else was on its way; else that
    /// was active last. Of several the one that came to it last.
    pub fn last_active(&self, group: &[Task], at: i64) -> Option<Task> {
        let key = |task: Task| -> Option<(u8, i64, i64)> {
            let span = self
                .before(task, at)
                .filter(|span| self.is_known(task, span))?;
            let began = self.sim.notes.wakeups[self.under_way(task, at)?].waking;
            Some(match span.state {
                State::Running(_) => (3, 0, span.from),
                State::Queued(_) => (2, 0, self.began(task, at)),
                State::Transit(_) => (1, 0, began.unwrap_or(at)),
                _ => (0, span.from, self.ended(task, span.from)),
            })
        };
        // The recorder's own threads are no part of the workload.
        let group = group
            .iter()
            .filter(|task| !self.sim.notes.tasks[**task].recorder);
        let all = group.filter_map(|&task| Some((key(task)?, task)));
        all.max().map(|(_, task)| task)
    }

    /// The same of what it did up to an instant, at which it ended: of a throttled CPU, what ran comes before what waited.
    fn ended(&self, task: Task, until: i64) -> i64 {
        let mut before = self.timeline.spans[task].iter().rev();
        match before.find(|span| span.from < until).map(|span| span.state) {
            Some(State::Running(_)) => until,
            _ => self.began(task, until),
        }
    }

    /// When what a task did up to an instant began; a wait is one, on however many queues.
    fn began(&self, task: Task, until: i64) -> i64 {
        let before = self.timeline.spans[task].iter().rev();
        let mut before = before.skip_while(|span| span.from >= until).peekable();
        let queued = |span: &&Span| matches!(span.state, State::Queued(_));
        match before.peek() {
            Some(span) if queued(span) => before.take_while(queued).last(),
            _ => before.next(),
        }
        .map_or(until, |span| span.from)
    }

    /// The tasks that woke each other, directly or by others, with a task.
    pub fn group(&self, of: Task) -> Vec<Task> {
        let mut group = vec![of];
        loop {
            let before = group.len();
            for w in &self.sim.notes.wakeups {
                let Some(waker) = w.current.filter(|_| self.is_followed(w.context)) else {
                    continue;
                };
                for (one, other) in [(waker, w.wakee), (w.wakee, waker)] {
                    if group.contains(&one) && !group.contains(&other) {
                        group.push(other);
                    }
                }
            }
            if group.len() == before {
                return group;
            }
        }
    }
}

/// How much of an interval others cover, which do not overlap each other.
fn covered(spans: &[(i64, i64)], (from, to): (i64, i64)) -> i64 {
    let each = spans.iter().map(|&(a, b)| (b.min(to) - a.max(from)).max(0));
    each.sum()
}

impl PathTruth {
    fn add(&mut self, category: &'static str, ns: i64, names: &[&str]) {
        *self.ns.entry(category).or_default() += ns;
        for name in names {
            let sum = self.parts.entry((*name).to_owned()).or_default();
            sum.count += 1;
            sum.ns += ns;
        }
    }

    fn transit(&mut self, ns: i64, path: Option<&str>, distance: &str) {
        let path = format!("transit.by_path.{}", path.unwrap_or("?"));
        let distance = format!("transit.by_distance.{distance}");
        self.add("transit", ns, &[&path, &distance]);
    }

    pub fn total(&self) -> i64 {
        self.ns.values().sum()
    }
}
