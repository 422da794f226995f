//! Every wait, its origin and why it was, by the definitions alone.

use super::machine::Cpu;
use super::notes::{Cause, Context, State, Way, Why};
use super::scheduler::Task;
use super::timeline::{READS, Read, Span, Timeline};
use super::truth_wakeups::{choice, prev_shown, waker_shows, without_selection};

/// So long must a CPU have been idle around a choice.
pub const SETTLE_NS: i64 = 5_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitTruth {
    pub pid: i32,
    pub start: i64,
    /// The switch-in.
    pub end: Option<i64>,
    pub origin: &'static str,
    /// As seen, and as any.
    pub verdicts: [&'static str; 2],
    pub wait_ns: i64,
    pub first_cpu: u32,
    pub moves: u32,
}

/// A wait and what is needed to judge it.
struct Wait<'a> {
    task: Task,
    spans: &'a [Span],
    start: i64,
    end: i64,
    switched_in: Option<Cpu>,
    wakeup: Option<usize>,
    choice: i64,
    since: i64,
    chosen: Cpu,
    prev: Cpu,
    waker_cpu: Option<Cpu>,
    chosen_idle: bool,
}

pub fn waits(timeline: &Timeline) -> Vec<WaitTruth> {
    let mut found = Vec::new();
    for task in 0..timeline.notes.tasks.len() {
        let spans = &timeline.spans[task];
        let mut at = 0;
        while at < spans.len() {
            let queued = |span: &&Span| matches!(span.state, State::Queued(_));
            let length = spans[at..].iter().take_while(queued).count();
            if length > 0 {
                let wait = wait(
                    timeline,
                    task,
                    &spans[at..at + length],
                    spans.get(at + length),
                );
                found.push(wait.truth(timeline));
            }
            at += length.max(1);
        }
    }
    found.sort();
    found
}

fn cpu_of(span: &Span) -> Cpu {
    match span.state {
        State::Queued(cpu) | State::Running(cpu) => cpu,
        _ => usize::MAX,
    }
}

fn wait<'a>(timeline: &Timeline, task: Task, spans: &'a [Span], after: Option<&Span>) -> Wait<'a> {
    let (first, last) = (&spans[0], &spans[spans.len() - 1]);
    let came = after.filter(|span| matches!(span.state, State::Running(_)));
    let here = cpu_of(first);
    let mut wait = Wait {
        task,
        spans,
        start: first.from,
        end: last.to,
        switched_in: came.map(cpu_of),
        wakeup: None,
        choice: first.from,
        since: first.from,
        chosen: here,
        prev: here,
        waker_cpu: None,
        chosen_idle: false,
    };
    if let Why::Woken(number) = first.why {
        let wakeup = &timeline.notes.wakeups[number];
        wait.wakeup = Some(number);
        wait.choice = choice(timeline, wakeup);
        wait.since = wakeup
            .waking
            .filter(|_| timeline.kernel.has_waking())
            .unwrap_or(wait.choice);
        wait.prev = prev_shown(timeline, wakeup).unwrap_or(here);
        wait.waker_cpu = waker_shows(timeline, wakeup).then_some(wakeup.waker_cpu);
        wait.chosen_idle = timeline.idle_but_for(here, task, wait.choice);
    }
    wait
}

impl Wait<'_> {
    fn truth(&self, timeline: &Timeline) -> WaitTruth {
        let moves = self.spans.iter().filter(|span| span.why == Why::Moved);
        WaitTruth {
            pid: timeline.notes.tasks[self.task].pid,
            start: self.start,
            end: self.switched_in.map(|_| self.end),
            origin: self.origin(timeline),
            verdicts: READS.map(|read| self.verdict(timeline, read)),
            wait_ns: self.end - self.start,
            first_cpu: timeline.machine.ids[cpu_of(&self.spans[0])],
            moves: moves.count() as u32,
        }
    }

    fn origin(&self, timeline: &Timeline) -> &'static str {
        if let Some(number) = self.wakeup {
            return match timeline.notes.wakeups[number].way {
                Way::New => "new",
                _ => "wakeup",
            };
        }
        // Off its CPU for the stopper, which then moved it.
        let first = self.spans.get(1).and_then(|span| {
            let mut moves = timeline.notes.moves.iter();
            moves.find(|m| m.task == self.task && m.ts == span.from)
        });
        let by_stopper = first.is_some_and(|m| {
            matches!(
                m.cause,
                Cause::Active | Cause::Affinity | Cause::Numa | Cause::Exec
            )
        });
        if by_stopper { "balanced" } else { "preempted" }
    }

    /// It was the first one due on a CPU that ran nothing, all the time.
    fn only_transit(&self, timeline: &Timeline) -> bool {
        let last = self.spans.last().map(cpu_of);
        self.switched_in.is_some()
            && self.switched_in == last
            && timeline
                .segments
                .iter()
                .filter(|segment| segment.from >= self.start && segment.to <= self.end)
                .all(|segment| match segment.states[self.task] {
                    State::Queued(cpu) => segment.due[cpu] == Some(self.task),
                    _ => false,
                })
    }

    fn verdict(&self, timeline: &Timeline, read: Read) -> &'static str {
        if timeline.notes.tasks[self.task].recorder {
            return "recorder";
        }
        if self.only_transit(timeline) {
            return "transit";
        }
        let wakeup = self.wakeup.map(|number| &timeline.notes.wakeups[number]);
        if wakeup.is_some_and(|wakeup| without_selection(timeline, wakeup)) {
            return "no-selection";
        }
        let idle = self.idle_at_choice(timeline);
        let may = |cpu: &Cpu| timeline.may_use(self.task, *cpu, self.choice, read);
        let eligible: Vec<Cpu> = idle.iter().copied().filter(may).collect();
        if !idle.is_empty() && eligible.is_empty() {
            return "affinity";
        }
        if timeline.notes.tasks[self.task].prio < 100 {
            return "policy";
        }
        if self.stacked_by_kthread(timeline) {
            return "kthread-stack";
        }
        if let Some(verdict) = self.missed(timeline, &eligible) {
            return verdict;
        }
        let mut all = 0..timeline.machine.cpus();
        let late = all.any(|cpu| {
            timeline.may_use(self.task, cpu, self.end - 1, read)
                && timeline.idle_sometime(cpu, self.choice, self.end)
        });
        if late { "late-idle" } else { "saturated" }
    }

    /// The CPUs that were idle as one was chosen.
    fn idle_at_choice(&self, timeline: &Timeline) -> Vec<Cpu> {
        let all = 0..timeline.machine.cpus();
        all.filter(|&cpu| timeline.idle_but_for(cpu, self.task, self.choice))
            .collect()
    }

    fn stacked_by_kthread(&self, timeline: &Timeline) -> bool {
        let Some(wakeup) = self.wakeup.map(|number| &timeline.notes.wakeups[number]) else {
            return false;
        };
        let thread = wakeup.current.map(|task| &timeline.notes.tasks[task]);
        timeline.kernel.stacks_on_kthreads()
            && wakeup.way != Way::New
            && wakeup.context == Context::Task
            && thread.is_some_and(|t| t.per_cpu_thread && t.bound == Some(wakeup.waker_cpu))
            && wakeup.chosen == wakeup.waker_cpu
            && wakeup.prev == wakeup.waker_cpu
    }

    fn missed(&self, timeline: &Timeline, eligible: &[Cpu]) -> Option<&'static str> {
        if self.chosen_idle {
            return Some("raced");
        }
        let machine = timeline.machine;
        let steady = |cpu: &Cpu| {
            let (from, to) = (self.since - SETTLE_NS, self.choice + SETTLE_NS);
            timeline.idle_throughout(*cpu, from, to)
        };
        let near = |llc: usize| eligible.iter().filter(move |cpu| machine.llc(**cpu) == llc);
        let own = machine.llc(self.chosen);
        if near(own).next().is_some() {
            return Some(match near(own).any(steady) {
                true => self.placement(),
                false => "raced",
            });
        }
        let others = [Some(self.prev), self.waker_cpu].into_iter().flatten();
        let others: Vec<usize> = others.map(|cpu| machine.llc(cpu)).collect();
        if others.iter().any(|&llc| near(llc).any(steady)) {
            return Some("other-llc");
        }
        let raced = others.iter().any(|&llc| near(llc).next().is_some());
        raced.then_some("raced")
    }

    fn placement(&self) -> &'static str {
        let by_waker = self.wakeup.is_some() && self.waker_cpu == Some(self.chosen);
        match (by_waker, self.prev == self.chosen) {
            (true, true) => "stacked-prev",
            (true, false) => "stacked-pull",
            (false, true) => "prev",
            (false, false) => "other",
        }
    }
}
