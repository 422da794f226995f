//! The notes laid out in time: what every task and CPU was doing at any instant, and where tasks may run.

use super::kernels::Kernel;
use super::machine::{Cpu, Machine};
use super::notes::{Notes, State, Why};
use super::scheduler::{Kind, Sim, Task};

/// A task's state from one stamp to the next.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub from: i64,
    pub to: i64,
    pub state: State,
    pub why: Why,
    /// The place of its beginning among all changes: of two on one queue, the lesser came first.
    pub order: usize,
}

/// A time in which nothing changes anywhere.
#[derive(Debug, Clone)]
pub struct Segment {
    pub from: i64,
    pub to: i64,
    /// By task.
    pub states: Vec<State>,
    /// By CPU: the task it runs.
    pub running: Vec<Option<Task>>,
    /// By CPU: the one that will run next there, as it runs nothing.
    pub due: Vec<Option<Task>>,
    /// By CPU: whether it runs nothing, and has nothing queued nor on its way.
    pub idle: Vec<bool>,
}

/// Which of the two readings of an unknown mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Seen,
    Any,
}

pub const READS: [Read; 2] = [Read::Seen, Read::Any];

pub struct Timeline<'a> {
    pub notes: &'a Notes,
    pub machine: &'a Machine,
    pub kernel: Kernel,
    /// Whether it shows what raised a soft interrupt.
    pub tells_softirqs: bool,
    pub start: i64,
    pub end: i64,
    /// By task.
    pub spans: Vec<Vec<Span>>,
    pub segments: Vec<Segment>,
    /// By CPU: from when to when it was idle.
    pub idle: Vec<Vec<(i64, i64)>>,
}

impl<'a> Timeline<'a> {
    pub fn new(sim: &'a Sim) -> Self {
        let notes = &sim.notes;
        let mut timeline = Self {
            notes,
            machine: &sim.machine,
            kernel: sim.kernel,
            tells_softirqs: sim.plan.tells_softirqs,
            start: notes.start,
            end: notes.end,
            spans: vec![Vec::new(); notes.tasks.len()],
            segments: Vec::new(),
            idle: vec![Vec::new(); sim.machine.cpus()],
        };
        for (task, state) in sim.tasks.iter().enumerate() {
            let first = match (notes.tasks[task].born, state.kind) {
                (Some(_), _) => State::Unborn,
                _ => State::Blocked,
            };
            timeline.lay_out(task, first);
            let alone = state.kind == Kind::Alone;
            debug_assert!(!alone || timeline.spans[task].len() == 1);
        }
        timeline.cut();
        timeline.find_idle();
        timeline
    }

    /// One task's states. Without `sched_waking` nobody sees that it is on its way.
    fn lay_out(&mut self, task: Task, first: State) {
        let mut spans: Vec<Span> = vec![Span {
            from: self.start,
            to: self.end,
            state: first,
            why: Why::Other,
            order: 0,
        }];
        for (order, change) in self.notes.changes.iter().enumerate() {
            if change.task != task {
                continue;
            }
            let state = match change.state {
                State::Transit(_) if !self.kernel.has_waking() => State::Blocked,
                state => state,
            };
            if let Some(last) = spans.last_mut() {
                last.to = change.ts;
            }
            spans.push(Span {
                from: change.ts,
                to: self.end,
                state,
                why: change.why,
                order,
            });
        }
        spans.retain(|span| span.from < span.to);
        self.spans[task] = spans;
    }

    fn cut(&mut self) {
        let changes = self.notes.changes.iter().map(|change| change.ts);
        let breaks = self.notes.breaks.iter().map(|(ts, _)| *ts);
        let mut stamps: Vec<i64> = changes
            .chain(breaks)
            .chain([self.start, self.end])
            .collect();
        stamps.sort_unstable();
        stamps.dedup();
        let mut at = vec![0; self.spans.len()];
        for pair in stamps.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let now: Vec<Span> = (0..self.spans.len())
                .map(|task| {
                    while self.spans[task][at[task]].to <= from {
                        at[task] += 1;
                    }
                    self.spans[task][at[task]]
                })
                .collect();
            self.segments
                .push(segment(from, to, &now, self.machine.cpus()));
        }
    }

    fn find_idle(&mut self) {
        for cpu in 0..self.machine.cpus() {
            let mut found: Vec<(i64, i64)> = Vec::new();
            for segment in self.segments.iter().filter(|segment| segment.idle[cpu]) {
                match found.last_mut() {
                    Some(last) if last.1 == segment.from => last.1 = segment.to,
                    _ => found.push((segment.from, segment.to)),
                }
            }
            self.idle[cpu] = found;
        }
    }

    /// The segment that ends at a stamp or holds it.
    pub fn before(&self, ts: i64) -> &Segment {
        let at = self.segments.partition_point(|segment| segment.to < ts);
        &self.segments[at.min(self.segments.len() - 1)]
    }

    /// Whether a CPU was idle just before a stamp, but for one task that is on its way there.
    pub fn idle_but_for(&self, cpu: Cpu, task: Task, ts: i64) -> bool {
        let segment = self.before(ts);
        let uses = |state: &State| match *state {
            State::Running(at) | State::Queued(at) | State::Transit(at) => at == cpu,
            _ => false,
        };
        let mut used = segment
            .states
            .iter()
            .enumerate()
            .filter(|(_, state)| uses(state));
        used.all(|(t, state)| t == task && matches!(state, State::Transit(_)))
    }

    /// Whether a CPU was idle all the time from one stamp to another, both included.
    pub fn idle_throughout(&self, cpu: Cpu, from: i64, to: i64) -> bool {
        let ends = |b: i64| if b == self.end { i64::MAX } else { b };
        self.idle[cpu]
            .iter()
            .any(|&(a, b)| a <= from && ends(b) >= to)
    }

    /// Whether a CPU was idle at some time between two stamps.
    pub fn idle_sometime(&self, cpu: Cpu, from: i64, to: i64) -> bool {
        self.idle[cpu].iter().any(|&(a, b)| a < to && b > from)
    }

    /// Between which changes of its mask a task is at an instant.
    fn epoch(&self, task: Task, ts: i64) -> (i64, i64) {
        let breaks = self
            .notes
            .breaks
            .iter()
            .filter(|(_, of)| *of == task)
            .map(|(ts, _)| *ts);
        let from = breaks
            .clone()
            .filter(|&b| b <= ts)
            .max()
            .unwrap_or(i64::MIN);
        (from, breaks.filter(|&b| b > ts).min().unwrap_or(i64::MAX))
    }

    /// The CPUs that a task may use at an instant, as far as the trace tells; `None` for all.
    pub fn mask(&self, task: Task, ts: i64, read: Read) -> Option<Vec<Cpu>> {
        let note = &self.notes.tasks[task];
        if let Some(cpu) = note.bound {
            return Some(vec![cpu]);
        }
        let (from, to) = self.epoch(task, ts);
        if note.told.is_some() && from == note.born.unwrap_or(i64::MIN) {
            return note.told.clone();
        }
        if read == Read::Any {
            return None;
        }
        let mut seen: Vec<Cpu> = Vec::new();
        for cpu in 0..self.machine.cpus() {
            let times = self.seen_on(task, cpu);
            let (first, last) = (times.iter().min(), times.iter().max());
            // A CPU on which it was seen both before a change and after the next counts between them, too.
            if first.is_some_and(|&first| first < to) && last.is_some_and(|&last| last >= from) {
                seen.push(cpu);
            }
        }
        seen.sort_unstable();
        seen.dedup();
        Some(seen)
    }

    /// When a task was seen to be put on a CPU or its queue, or to run there as it changed its own mask. That it still
    /// is where it was as another changed its mask shows nothing of the new one.
    fn seen_on(&self, task: Task, cpu: Cpu) -> Vec<i64> {
        let there = |span: &&Span| match span.state {
            State::Running(at) => at == cpu,
            State::Queued(at) => at == cpu && span.why != Why::Preempted,
            _ => false,
        };
        let spans = self.spans[task].iter().filter(there).map(|span| span.from);
        let moves = self.notes.moved_asleep.iter().chain(&self.notes.own_calls);
        let moves = moves.filter(|&&(_, of, to)| of == task && to == cpu);
        spans.chain(moves.map(|&(ts, ..)| ts)).collect()
    }

    pub fn may_use(&self, task: Task, cpu: Cpu, ts: i64, read: Read) -> bool {
        self.mask(task, ts, read)
            .is_none_or(|mask| mask.contains(&cpu))
    }

    /// Whether all threads of a CPU's core run nothing.
    pub fn whole_core(&self, segment: &Segment, cpu: Cpu) -> bool {
        let core = self.machine.core(cpu);
        let mut threads = (0..self.machine.cpus()).filter(|&c| self.machine.core(c) == core);
        threads.all(|c| segment.running[c].is_none())
    }
}

fn segment(from: i64, to: i64, now: &[Span], cpus: usize) -> Segment {
    let mut segment = Segment {
        from,
        to,
        states: now.iter().map(|span| span.state).collect(),
        running: vec![None; cpus],
        due: vec![None; cpus],
        idle: vec![true; cpus],
    };
    let mut first: Vec<Option<(usize, Task)>> = vec![None; cpus];
    for (task, span) in now.iter().enumerate() {
        match span.state {
            State::Running(cpu) => {
                segment.running[cpu] = Some(task);
                segment.idle[cpu] = false;
            }
            State::Queued(cpu) => {
                let this = (span.order, task);
                first[cpu] = Some(first[cpu].map_or(this, |other| other.min(this)));
                segment.idle[cpu] = false;
            }
            State::Transit(cpu) => segment.idle[cpu] = false,
            _ => {}
        }
    }
    for (cpu, first) in first.iter().enumerate() {
        if segment.running[cpu].is_none() {
            segment.due[cpu] = first.map(|(_, task)| task);
        }
    }
    segment
}
