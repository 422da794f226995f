//! Another route to the same figures: raw events grouped by the simplest rules that are right for whole traces, without
//! windows, gaps or nesting. Nothing here knows the replay.

use std::collections::BTreeMap;
use std::path::Path;

use ttwu_parsers::event::{Event, Payload, Vector};
use ttwu_parsers::symbols::Symbols;
use ttwu_parsers::trace::{OpenOptions, Trace};

/// All events of a trace in time order, and its symbols.
pub fn read(path: &Path) -> (Vec<Event>, Symbols) {
    let trace = Trace::open(path, &OpenOptions::default()).unwrap();
    let mut source = trace.merged();
    let events = std::iter::from_fn(|| source.next_event()).collect();
    drop(source);
    let symbols = trace.symbols();
    (events, symbols)
}

/// One interrupt: stamp, sender, target, callback, callsite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub ts: i64,
    pub from: u32,
    pub to: u32,
    pub callback: u64,
    pub callsite: u64,
    pub to_many: bool,
}

/// Every `ipi_send_cpu`, and every target of every `ipi_send_cpumask`.
pub fn sent(events: &[Event]) -> Vec<Sent> {
    let mut all = Vec::new();
    for event in events {
        let (targets, callback, callsite, to_many) = match &event.payload {
            Payload::IpiSendCpu {
                cpu,
                callback,
                callsite,
            } => (vec![*cpu], *callback, *callsite, false),
            Payload::IpiSendMask {
                cpus,
                callback,
                callsite,
            } => (cpus.cpus().collect(), *callback, *callsite, true),
            _ => continue,
        };
        all.extend(targets.into_iter().map(|to| Sent {
            ts: event.ts,
            from: event.cpu,
            to,
            callback,
            callsite,
            to_many,
        }));
    }
    all
}

/// A handler's run: CPU, vector, the task that it interrupted by its pid, entry and exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    pub cpu: u32,
    pub vector: Vector,
    pub pid: i32,
    pub entry: i64,
    pub exit: i64,
}

/// Every entry with the next exit of its vector on its CPU.
pub fn handled(events: &[Event]) -> Vec<Handled> {
    let mut open: BTreeMap<(u32, u8), (i64, i32)> = BTreeMap::new();
    let mut all = Vec::new();
    for event in events {
        match event.payload {
            Payload::VectorEntry(vector) => {
                open.insert((event.cpu, vector as u8), (event.ts, event.pid));
            }
            Payload::VectorExit(vector) => {
                if let Some((entry, pid)) = open.remove(&(event.cpu, vector as u8)) {
                    all.push(Handled {
                        cpu: event.cpu,
                        vector,
                        pid,
                        entry,
                        exit: event.ts,
                    });
                }
            }
            _ => {}
        }
    }
    all
}

/// Time of functions that a CPU ran for others outside of any handler, by the pid that was current: polling idle CPUs do.
pub fn called_outside(events: &[Event]) -> BTreeMap<i32, i64> {
    let mut inside: BTreeMap<u32, bool> = BTreeMap::new();
    let mut open: BTreeMap<(u32, u64), (i64, i32)> = BTreeMap::new();
    let mut by_pid = BTreeMap::new();
    for event in events {
        match event.payload {
            Payload::VectorEntry(_) => drop(inside.insert(event.cpu, true)),
            Payload::VectorExit(_) => drop(inside.insert(event.cpu, false)),
            Payload::CsdEntry { csd: 1.., .. } if inside.get(&event.cpu) == Some(&true) => {}
            Payload::CsdEntry { csd: csd @ 1.., .. } => {
                open.insert((event.cpu, csd), (event.ts, event.pid));
            }
            Payload::CsdExit { csd, .. } => {
                if let Some((entry, pid)) = open.remove(&(event.cpu, csd)) {
                    *by_pid.entry(pid).or_default() += event.ts - entry;
                }
            }
            _ => {}
        }
    }
    by_pid
}

/// The sum of the times from each send to the first entry of its vector on its target, and their number. Right where
/// no two of a kind are under way to one CPU at once.
pub fn latencies(sent: &[Sent], handled: &[Handled]) -> (i64, usize) {
    let (mut sum, mut count) = (0, 0);
    for send in sent.iter().filter(|send| send.from != send.to) {
        let vector = match (send.callback, send.to_many) {
            (0, _) => Vector::Reschedule,
            (_, true) => Vector::CallFunction,
            (_, false) => Vector::CallFunctionSingle,
        };
        let entries = handled.iter();
        let mut entries = entries.filter(|h| h.cpu == send.to && h.vector == vector);
        if let Some(entry) = entries.find(|h| h.entry >= send.ts) {
            sum += entry.entry - send.ts;
            count += 1;
        }
    }
    (sum, count)
}

/// A flush of other CPUs' TLBs: pages, CPUs asked, interrupts, and the wait for the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shot {
    pub ts: i64,
    pub cpu: u32,
    pub pages: i64,
    pub asked: u32,
    pub wait: Option<i64>,
}

/// From each `tlb_flush` of reason 4: the calls of the same function that its CPU queues before it turns to its own part
/// (a call without an address), and each one's end by its address.
pub fn shots(events: &[Event]) -> Vec<Shot> {
    let mut shots = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let Payload::TlbFlush { reason: 4, pages } = event.payload else {
            continue;
        };
        let mut asked = 0;
        let mut first = None;
        let mut last = event.ts;
        let mine = events[at + 1..].iter().filter(|e| e.cpu == event.cpu);
        let own = mine.clone().find_map(|e| match e.payload {
            Payload::CsdEntry { csd: 0, func } => Some(func),
            _ => None,
        });
        let mine = mine.take_while(|e| !matches!(e.payload, Payload::CsdEntry { csd: 0, .. }));
        for call in mine {
            // An interrupt may wake somebody meanwhile.
            if let Payload::CsdQueue { cpu, csd, func, .. } = call.payload
                && Some(func) == own
            {
                let ends = |e: &&Event| {
                    e.cpu == cpu
                        && e.ts >= call.ts
                        && matches!(e.payload, Payload::CsdExit { csd: c, .. } if c == csd)
                };
                let end = events[at..].iter().find(ends).expect("its end");
                asked += 1;
                first.get_or_insert(call.ts);
                last = last.max(end.ts);
            }
        }
        shots.push(Shot {
            ts: event.ts,
            cpu: event.cpu,
            pages,
            asked,
            wait: first.map(|first| last - first),
        });
    }
    shots
}

/// The reschedule interrupts that a CPU sends to the chosen one between a waking and its wakeup, or right after a new task's
/// wakeup.
pub fn for_wakeups(events: &[Event]) -> Vec<(i64, u32)> {
    let mut open: BTreeMap<u32, i32> = BTreeMap::new();
    let mut new: BTreeMap<u32, bool> = BTreeMap::new();
    let mut all = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let goes_to = |pid: i32| {
            let mut later = events[at..].iter();
            later.find_map(|e| match e.payload {
                Payload::Wakeup(wake) if wake.pid == pid => Some(wake.target_cpu),
                _ => None,
            })
        };
        let after_new = new.insert(event.cpu, false) == Some(true);
        match event.payload {
            Payload::Waking(wake) => drop(open.insert(event.cpu, wake.pid)),
            Payload::Wakeup(wake) => open.retain(|_, pid| *pid != wake.pid),
            Payload::WakeupNew(_) => drop(new.insert(event.cpu, true)),
            Payload::Switch { .. } => drop(open.remove(&event.cpu)),
            Payload::IpiSendCpu {
                callback: 0, cpu, ..
            } if after_new
                || open
                    .get(&event.cpu)
                    .is_some_and(|pid| goes_to(*pid) == Some(cpu)) =>
            {
                all.push((event.ts, event.cpu));
            }
            _ => {}
        }
    }
    all
}
