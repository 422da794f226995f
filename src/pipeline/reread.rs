//! A second pass over a trace for the events of a few moments, as they were recorded.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use ttwu_parsers::event::{Event, Payload};

use super::Prepared;

/// Most events that are kept of one moment: the first and the last.
const FIRST: usize = 8;
const LAST: usize = 6;

/// A moment to look at: what happened to a task, and on some CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    pub from_ns: i64,
    pub to_ns: i64,
    pub pid: Option<i32>,
    pub cpus: Vec<u32>,
    /// So many events of the task before it and after it are kept too.
    pub before: usize,
    pub after: usize,
    /// When the CPUs that run nothing are noted.
    pub idle_at_ns: Option<i64>,
}

/// What was there.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    pub events: Vec<Event>,
    /// Events in the middle that are not kept.
    pub left_out: u64,
    /// CPUs that ran nothing, with the stamp from which on.
    pub idle: Vec<(u32, i64)>,
}

/// Reads a trace again, up to the last moment, and keeps what belongs to each.
pub fn reread(prepared: &Prepared, watches: &[Watch]) -> Vec<Moment> {
    let mut source = prepared.trace.merged();
    let config = &prepared.config;
    let idle = config.known_from_start.iter().filter(|(_, pid)| *pid == 0);
    let idle = idle.map(|(cpu, _)| (*cpu, config.start_ns));
    let mut collecting = Collecting::new(watches, idle);
    while let Some(event) = source.next_event() {
        if collecting.is_done() {
            break;
        }
        if !event.payload.is_record_line() {
            collecting.take(&event);
        }
    }
    collecting.finish()
}

/// Gathers the events of moments from all events in time order.
pub struct Collecting {
    watches: Vec<Watching>,
    /// CPUs that run nothing, and since when.
    idle: FxHashMap<u32, i64>,
}

struct Watching {
    watch: Watch,
    before: VecDeque<Event>,
    first: Vec<Event>,
    last: VecDeque<Event>,
    left_out: u64,
    after: Vec<Event>,
    idle: Option<Vec<(u32, i64)>>,
    done: bool,
}

impl Collecting {
    /// For these moments; `idle` are the CPUs that are known to run nothing at the start, with its stamp.
    pub fn new(watches: &[Watch], idle: impl IntoIterator<Item = (u32, i64)>) -> Self {
        Self {
            watches: watches.iter().cloned().map(Watching::new).collect(),
            idle: idle.into_iter().collect(),
        }
    }

    fn is_done(&self) -> bool {
        self.watches.iter().all(|watching| watching.done)
    }

    pub fn take(&mut self, event: &Event) {
        for watching in &mut self.watches {
            watching.note_idle(event.ts, &self.idle);
            watching.take(event);
        }
        if let Payload::Switch { next_pid, .. } = event.payload {
            match next_pid {
                0 => drop(self.idle.entry(event.cpu).or_insert(event.ts)),
                _ => drop(self.idle.remove(&event.cpu)),
            }
        }
    }

    pub fn finish(self) -> Vec<Moment> {
        self.watches.into_iter().map(Watching::finish).collect()
    }
}

impl Watching {
    fn new(watch: Watch) -> Self {
        Self {
            watch,
            before: VecDeque::new(),
            first: Vec::new(),
            last: VecDeque::new(),
            left_out: 0,
            after: Vec::new(),
            idle: None,
            done: false,
        }
    }

    fn note_idle(&mut self, now: i64, idle: &FxHashMap<u32, i64>) {
        if self.idle.is_none() && self.watch.idle_at_ns.is_some_and(|at| now >= at) {
            let mut cpus: Vec<(u32, i64)> =
                idle.iter().map(|(cpu, since)| (*cpu, *since)).collect();
            cpus.sort_unstable();
            self.idle = Some(cpus);
        }
    }

    fn take(&mut self, event: &Event) {
        let watch = &self.watch;
        let of_task = watch.pid.is_some_and(|pid| names(event, pid));
        if event.ts < watch.from_ns {
            if of_task && watch.before > 0 {
                if self.before.len() >= watch.before {
                    self.before.pop_front();
                }
                self.before.push_back(event.clone());
            }
        } else if event.ts <= watch.to_ns {
            if of_task || touches(event, &watch.cpus) {
                self.keep(event);
            }
        } else if of_task && self.after.len() < watch.after {
            self.after.push(event.clone());
        }
        self.done = event.ts > self.watch.to_ns && self.after.len() >= self.watch.after;
    }

    fn keep(&mut self, event: &Event) {
        if self.first.len() < FIRST {
            self.first.push(event.clone());
            return;
        }
        if self.last.len() >= LAST {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(event.clone());
    }

    fn finish(self) -> Moment {
        let events = self.before.into_iter().chain(self.first);
        Moment {
            events: events.chain(self.last).chain(self.after).collect(),
            left_out: self.left_out,
            idle: self.idle.unwrap_or_default(),
        }
    }
}

/// Whether an event says something of a task.
fn names(event: &Event, pid: i32) -> bool {
    match &event.payload {
        Payload::Switch {
            prev_pid, next_pid, ..
        } => *prev_pid == pid || *next_pid == pid,
        Payload::Waking(wake) | Payload::Wakeup(wake) | Payload::WakeupNew(wake) => wake.pid == pid,
        Payload::Migrate { pid: of, .. }
        | Payload::Exec { pid: of, .. }
        | Payload::Exit { pid: of, .. }
        | Payload::SetAffinity { pid: of } => *of == pid,
        Payload::Fork {
            parent_pid,
            child_pid,
            ..
        } => *parent_pid == pid || *child_pid == pid,
        Payload::Select(selection) => selection.pid == pid,
        _ => false,
    }
}

/// Whether an event says what one of these CPUs ran, or that it was interrupted.
fn touches(event: &Event, cpus: &[u32]) -> bool {
    let here = || cpus.contains(&event.cpu);
    match &event.payload {
        Payload::Switch { .. }
        | Payload::CsdEntry { .. }
        | Payload::CsdExit { .. }
        | Payload::VectorEntry(_)
        | Payload::VectorExit(_)
        | Payload::IpiEntry { .. }
        | Payload::IpiExit { .. }
        | Payload::Selected { .. } => here(),
        Payload::IpiSendCpu { cpu, .. }
        | Payload::CsdQueue { cpu, .. }
        | Payload::WakeIdleWithoutIpi { cpu } => cpus.contains(cpu),
        Payload::IpiSendMask { cpus: sent, .. } | Payload::IpiRaise { cpus: sent, .. } => {
            sent.cpus().any(|cpu| cpus.contains(&cpu))
        }
        _ => false,
    }
}
