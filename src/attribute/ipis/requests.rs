//! The requests that count, gone through once.

use polars::prelude::PolarsResult;
use rustc_hash::FxHashMap;

use crate::attribute::answer::Quantiles;
use crate::attribute::blocks::{Block, NO_CODE, NO_NUMBER, NO_TIME};
use crate::attribute::durations::{Durations, quantiles};
use crate::attribute::scope::Scope;
use crate::replay::words::{IpiFate, IpiKind, IpiRoad};

const KINDS: usize = IpiKind::ALL.len();

const COLUMNS: [&str; 11] = [
    "road",
    "kind",
    "fate",
    "distance",
    "latency_ns",
    "handler_ns",
    "interrupted",
    "on_idle",
    "wakeups",
    "callback",
    "callsite",
];

/// What a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    pub road: IpiRoad,
    pub kind: IpiKind,
    pub fate: IpiFate,
    /// The distance's code.
    pub distance: u8,
}

/// Handlers of interrupts, and the time of all handlers, functions' too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub handlers: u64,
    pub untimed: u64,
    pub stolen_ns: i64,
    pub idle_ns: i64,
    pub unknown_ns: i64,
    /// Tasks that they enqueued, and the handlers that enqueued any; interrupts' alone.
    pub wakeups: u64,
    pub enqueuing: u64,
}

impl Times {
    fn add(&mut self, more: &Times) {
        self.handlers += more.handlers;
        self.untimed += more.untimed;
        self.stolen_ns += more.stolen_ns;
        self.idle_ns += more.idle_ns;
        self.unknown_ns += more.unknown_ns;
        self.wakeups += more.wakeups;
        self.enqueuing += more.enqueuing;
    }

    pub fn all_ns(&self) -> i64 {
        self.stolen_ns + self.idle_ns + self.unknown_ns
    }
}

/// What was taken from one task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    pub ns: i64,
    pub handlers: u64,
    pub tlb_ns: i64,
}

/// A function and where it was called, by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Called {
    pub kind: IpiKind,
    pub callback: u64,
    pub callsite: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Calls {
    pub interrupts: u64,
    pub queued: u64,
    pub times: Times,
}

impl Calls {
    pub fn add(&mut self, more: &Calls) {
        self.interrupts += more.interrupts;
        self.queued += more.queued;
        self.times.add(&more.times);
    }
}

/// All that is asked of the requests that count.
#[derive(Debug, Default)]
pub struct Found {
    requests: FxHashMap<Request, u64>,
    /// Of interrupts, by kind.
    latencies: [Durations; KINDS],
    times: [Times; KINDS],
    pub taken: FxHashMap<u32, Taken>,
    pub calls: FxHashMap<Called, Calls>,
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    codes: [Vec<u8>; 5],
    times: [Vec<i64>; 2],
    numbers: [Vec<u32>; 2],
    addresses: [Vec<u64>; 2],
}

impl Found {
    pub fn take(scope: &Scope) -> PolarsResult<Self> {
        let (found, _) = scope.ipis().counted().fold(
            &COLUMNS,
            <(Found, Scratch)>::default,
            |(found, scratch), block| found.block(block, scratch),
            |(found, _), (other, _)| found.join(other),
        )?;
        Ok(found)
    }

    fn block(&mut self, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
        let [roads, kinds, fates, distances, idle] = &mut scratch.codes;
        let [latencies, handlers] = &mut scratch.times;
        let [interrupted, wakeups] = &mut scratch.numbers;
        let [callbacks, callsites] = &mut scratch.addresses;
        let codes = block.codes("road", roads)?.iter();
        let codes = codes.zip(block.codes("kind", kinds)?);
        let codes = codes.zip(block.codes("fate", fates)?);
        let codes = codes.zip(block.codes("distance", distances)?);
        let times = block.times("latency_ns", latencies)?.iter();
        let times = times.zip(block.times("handler_ns", handlers)?);
        let served = block.numbers("interrupted", interrupted)?.iter();
        let served = served.zip(block.numbers("wakeups", wakeups)?);
        let served = served.zip(block.codes("on_idle", idle)?);
        let calls = block.counts("callback", callbacks)?.iter();
        let calls = calls.zip(block.counts("callsite", callsites)?);
        let rows = codes.zip(times).zip(served.zip(calls));
        for ((codes, (latency, handler)), (served, call)) in rows {
            let (((road, kind), fate), distance) = codes;
            let words = (
                IpiRoad::ALL.get(usize::from(*road)),
                IpiKind::ALL.get(usize::from(*kind)),
                IpiFate::ALL.get(usize::from(*fate)),
            );
            let (Some(&road), Some(&kind), Some(&fate)) = words else {
                continue;
            };
            let request = Request {
                road,
                kind,
                fate,
                distance: *distance,
            };
            *self.requests.entry(request).or_default() += 1;
            if road == IpiRoad::Interrupt && *latency != NO_TIME {
                self.latencies[kind as usize].push(*latency);
            }
            let ((task, wakeups), on_idle) = served;
            let times = times_of(&request, *handler, *on_idle, *wakeups);
            self.times[kind as usize].add(&times);
            if *task != NO_NUMBER && *handler != NO_TIME {
                let taken = self.taken.entry(*task).or_default();
                taken.ns += *handler;
                taken.handlers += times.handlers;
                taken.tlb_ns += if kind == IpiKind::Tlb { *handler } else { 0 };
            }
            let called = Called {
                kind,
                callback: *call.0,
                callsite: *call.1,
            };
            self.calls.entry(called).or_default().add(&Calls {
                interrupts: u64::from(road == IpiRoad::Interrupt),
                queued: u64::from(road == IpiRoad::Queue),
                times,
            });
        }
        Ok(())
    }

    fn join(&mut self, other: Found) {
        for (request, count) in other.requests {
            *self.requests.entry(request).or_default() += count;
        }
        for (all, more) in self.latencies.iter_mut().zip(other.latencies) {
            if more.any() {
                all.join(more);
            }
        }
        for (all, more) in self.times.iter_mut().zip(&other.times) {
            all.add(more);
        }
        for (task, more) in other.taken {
            let taken = self.taken.entry(task).or_default();
            taken.ns += more.ns;
            taken.handlers += more.handlers;
            taken.tlb_ns += more.tlb_ns;
        }
        for (called, more) in other.calls {
            self.calls.entry(called).or_default().add(&more);
        }
    }

    pub fn count(&self, of: impl Fn(&Request) -> bool) -> u64 {
        let requests = self.requests.iter();
        requests.filter(|(r, _)| of(r)).map(|(_, n)| n).sum()
    }

    pub fn latencies(&self) -> Option<Quantiles> {
        let some = self.latencies.iter().filter(|some| some.any());
        quantiles(&some.collect::<Vec<_>>())
    }

    pub fn latencies_of(&self, kind: IpiKind) -> Option<Quantiles> {
        self.latencies[kind as usize].quantiles()
    }

    /// The handlers of one kind.
    pub fn times(&self, kind: IpiKind) -> Times {
        self.times[kind as usize]
    }

    pub fn all_times(&self) -> Times {
        let mut all = Times::default();
        self.times.iter().for_each(|times| all.add(times));
        all
    }
}

/// What one row adds.
fn times_of(request: &Request, handler_ns: i64, on_idle: u8, wakeups: u32) -> Times {
    if request.fate != IpiFate::Handled {
        return Times::default();
    }
    // A function's wakeups are its interrupt's too, and counted there.
    let enqueued = match request.road {
        IpiRoad::Queue => 0,
        _ => u64::from(wakeups),
    };
    let mut times = Times {
        handlers: u64::from(request.road != IpiRoad::Queue),
        wakeups: enqueued,
        enqueuing: u64::from(enqueued > 0),
        ..Times::default()
    };
    match (handler_ns, on_idle) {
        (NO_TIME, _) => times.untimed = times.handlers,
        (ns, 0) => times.stolen_ns = ns,
        (ns, 1) => times.idle_ns = ns,
        (ns, NO_CODE | 2..) => times.unknown_ns = ns,
    }
    times
}
