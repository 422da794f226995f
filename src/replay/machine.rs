//! The machine a trace was recorded on, under dense CPU numbers, and the state of each CPU.

use std::collections::VecDeque;

use super::causes::CpuMoves;
use super::cpuset::{CpuMap, CpuSet};
use super::ipis::IpiState;
use super::ledger::Domains;
use super::rows::TaskId;
use super::words::LedgerRow;
use crate::topology::{Distance, Topology};

/// CPUs and what they share.
#[derive(Debug, Clone)]
pub struct Machine {
    pub cpus: CpuMap,
    pub topology: Topology,
}

impl Machine {
    /// The distance between two dense CPU numbers.
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        self.topology.distance(self.cpus.id(a), self.cpus.id(b))
    }

    pub fn crosses_llc(&self, a: usize, b: usize) -> Option<bool> {
        self.topology.crosses_llc(self.cpus.id(a), self.cpus.id(b))
    }

    /// The sets that matching works on. CPUs whose LLC is not known are one set of their own.
    pub fn domains(&self) -> Domains {
        let len = self.cpus.len();
        let group = |of: &dyn Fn(u32) -> Option<u32>| {
            let mut keys: Vec<Option<u32>> = Vec::new();
            let of: Vec<usize> = (0..len)
                .map(|cpu| {
                    let key = of(self.cpus.id(cpu));
                    keys.iter().position(|k| *k == key).unwrap_or_else(|| {
                        keys.push(key);
                        keys.len() - 1
                    })
                })
                .collect();
            (of, keys.len().max(1))
        };
        let (llc_of, llcs) = group(&|cpu| self.topology.llc_id(cpu));
        let mut sets = vec![CpuSet::empty(len); llcs];
        for (cpu, &llc) in llc_of.iter().enumerate() {
            sets[llc].insert(cpu);
        }
        Domains {
            llcs: sets,
            llc_of,
            core: (0..len).map(|cpu| self.core_of(cpu)).collect(),
        }
    }

    fn core_of(&self, cpu: usize) -> CpuSet {
        let len = self.cpus.len();
        let mut set = CpuSet::only(len, cpu);
        if let Some(core) = self.topology.core_id(self.cpus.id(cpu)) {
            (0..len)
                .filter(|&c| self.topology.core_id(self.cpus.id(c)) == Some(core))
                .for_each(|c| set.insert(c));
        }
        set
    }
}

/// How far any two CPUs are apart, and whether their LLCs differ: looked up several times a wakeup.
#[derive(Debug)]
pub struct Distances<'a> {
    machine: &'a Machine,
    /// Row by row; empty for more CPUs than [`TABLED_CPUS`].
    pairs: Vec<(Distance, Option<bool>)>,
}

/// Most CPUs whose distances are kept: 2 MB.
const TABLED_CPUS: usize = 1024;

impl<'a> Distances<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let cpus = machine.cpus.len();
        let cpus = if cpus <= TABLED_CPUS { cpus } else { 0 };
        let pairs = (0..cpus * cpus).map(|pair| {
            let (a, b) = (pair / cpus, pair % cpus);
            (machine.distance(a, b), machine.crosses_llc(a, b))
        });
        Self {
            machine,
            pairs: pairs.collect(),
        }
    }

    /// The distance between two dense CPU numbers, and whether they have different LLCs.
    #[inline]
    pub fn between(&self, a: usize, b: usize) -> (Distance, Option<bool>) {
        match self.pairs.get(a * self.machine.cpus.len() + b) {
            Some(&pair) => pair,
            None => (self.machine.distance(a, b), self.machine.crosses_llc(a, b)),
        }
    }

    #[inline]
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        self.between(a, b).0
    }

    #[inline]
    pub fn crosses_llc(&self, a: usize, b: usize) -> Option<bool> {
        self.between(a, b).1
    }
}

/// What a CPU runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Current {
    /// Before its first event, or in a gap.
    Unknown,
    /// The idle task.
    Nothing,
    Task(TaskId),
}

/// One CPU during replay.
#[derive(Debug, Clone)]
pub struct CpuState {
    pub current: Current,
    /// Enqueued and not switched in, in no order, each with the number of its enqueue. Tasks know their places.
    pub queued: Vec<(u64, TaskId)>,
    /// How many tasks are woken to it and not enqueued yet.
    pub transit: u32,
    /// The first task due, while it runs nothing.
    pub due: Option<TaskId>,
    pub row: LedgerRow,
    /// Since when it is available, if it is; else when it last ceased to be.
    pub available_since: i64,
    pub available_until: i64,
    /// When it last switched to the idle task.
    pub went_idle: Option<i64>,
    /// Start of the current idle or gap interval.
    pub nothing_since: i64,
    /// That start was seen: a switch to the idle task.
    pub nothing_seen: bool,
    pub gap_since: Option<(i64, Option<u64>)>,
    pub switches: u64,
    pub wakeups_made: u64,
    /// The softirq vectors raised and not served yet, as bits: by a task (or another softirq), by an interrupt.
    pub raised_inline: u32,
    pub raised_by_irq: u32,
    /// Whether the soft interrupt being served was raised inline, if it is known.
    pub serving: Option<bool>,
    pub ipis: IpiState,
    pub busy_in: usize,
    /// The vector of the soft interrupt being served, where events tell.
    pub serving_vector: Option<u32>,
    /// What its next switch will tell of migrations.
    pub moves: CpuMoves,
}

impl CpuState {
    pub fn new(start: i64, llc: usize) -> Self {
        Self {
            current: Current::Unknown,
            queued: Vec::new(),
            transit: 0,
            due: None,
            row: LedgerRow::Unknown,
            available_since: start,
            available_until: i64::MIN,
            went_idle: None,
            nothing_since: start,
            nothing_seen: false,
            gap_since: None,
            switches: 0,
            wakeups_made: 0,
            raised_inline: 0,
            raised_by_irq: 0,
            serving: None,
            ipis: IpiState::default(),
            busy_in: llc,
            serving_vector: None,
            moves: CpuMoves::default(),
        }
    }

    /// For how long it has been running nothing; `None` if it is not seen since when.
    pub fn nothing_for(&self, now: i64) -> Option<i64> {
        self.nothing_seen.then_some(now - self.nothing_since)
    }

    /// The task that was enqueued first of those that are.
    pub fn first_queued(&self) -> Option<TaskId> {
        self.queued.iter().min().map(|&(_, task)| task)
    }

    /// Empties the queue: its tasks in the order of enqueue.
    pub fn take_queued(&mut self) -> Vec<(u64, TaskId)> {
        let mut queued = std::mem::take(&mut self.queued);
        queued.sort_unstable();
        queued
    }

    /// The ledger row that follows from this CPU alone; `Idle` means free for a task.
    #[inline]
    pub fn base_row(&self) -> LedgerRow {
        match self.current {
            Current::Unknown => LedgerRow::Unknown,
            Current::Task(_) => LedgerRow::Running,
            Current::Nothing if self.transit > 0 || self.due.is_some() => LedgerRow::Transit,
            Current::Nothing => LedgerRow::Idle,
        }
    }
}

/// How busy an LLC was of late: the kernel's idle search (SIS_UTIL) goes by its utilisation.
#[derive(Debug, Clone)]
pub struct BusyMeter {
    cpus: u32,
    running: u32,
    total_ns: i64,
    since: i64,
    /// Stamps and totals, a sixteenth of the span apart at least.
    history: VecDeque<(i64, i64)>,
}

/// The span a meter looks back over: 4 ms.
const BUSY_SPAN_NS: i64 = 4_000_000;

impl BusyMeter {
    pub fn new(cpus: u32, start: i64) -> Self {
        Self {
            cpus,
            running: 0,
            total_ns: 0,
            since: start,
            history: VecDeque::from([(start, 0)]),
        }
    }

    /// A CPU of the LLC began to run a task, or stopped.
    #[inline]
    pub fn change(&mut self, running: bool, now: i64) {
        self.advance(now);
        if running {
            self.running += 1;
        } else {
            self.running = self.running.saturating_sub(1);
        }
    }

    #[inline]
    fn advance(&mut self, now: i64) {
        self.total_ns += i64::from(self.running) * (now - self.since);
        self.since = now;
        let last = self.history.back().map_or(i64::MIN, |&(ts, _)| ts);
        if now.saturating_sub(last) >= BUSY_SPAN_NS / 16 {
            self.history.push_back((now, self.total_ns));
            // One entry from before the span stays, to measure from.
            while self
                .history
                .get(1)
                .is_some_and(|&(ts, _)| ts <= now - BUSY_SPAN_NS)
            {
                self.history.pop_front();
            }
        }
    }

    /// The busy share of the last 4 ms in percent, to a sixteenth; `None` before 4 ms have passed.
    pub fn percent(&mut self, now: i64) -> Option<u8> {
        self.advance(now);
        let &(ts, total) = self.history.front()?;
        let &(next_ts, next_total) = self.history.get(1).unwrap_or(&(now, self.total_ns));
        let from = now - BUSY_SPAN_NS;
        if ts > from || self.cpus == 0 {
            return None;
        }
        // What ran between the entries around the span's start is taken as even.
        let between = i128::from((next_ts - ts).max(1));
        // Seconds times seconds, in nanoseconds, do not fit 64 bits.
        let ran = i128::from(next_total - total) * i128::from(from.min(next_ts) - ts) / between;
        let before = total + ran as i64;
        let busy = self.total_ns - before;
        u8::try_from(busy.saturating_mul(100) / (BUSY_SPAN_NS * i64::from(self.cpus))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_share_of_one_of_two_cpus_is_a_half() {
        let mut meter = BusyMeter::new(2, 0);
        meter.change(true, 0);
        assert_eq!(meter.percent(1_000_000), None);
        assert_eq!(meter.percent(8_000_000), Some(50));
        meter.change(false, 8_000_000);
        assert_eq!(meter.percent(16_000_000), Some(0));
    }
}
