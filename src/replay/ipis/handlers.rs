//! The receiving side: which requests a handler serves, and how long it takes from whom.

use super::super::engine::Replay;
use super::super::machine::Current;
use super::super::rows::{IpiRow, Sink};
use super::super::words::{IpiFate, IpiKind, IpiRoad};
use super::{Class, FORGOTTEN_NS, Reason, Stint};
use crate::topology::Distance;
use ttwu_parsers::event::Vector;

/// Handlers inside each other, more than which no CPU has.
const DEPTH: usize = 8;

/// A handler under way.
#[derive(Debug, Clone)]
pub struct Running {
    what: What,
    entry_ns: i64,
    /// Time in handlers that ran inside.
    inner_ns: i64,
    stint: Stint,
    /// The request that started it; `None` for a CPU's own part of a call to many.
    row: Option<IpiRow>,
    /// Whether its kind is still to be found from what it does.
    unexplained: bool,
    wakeups: u32,
    /// It flushed the TLB for another CPU.
    flushes: bool,
    /// What the first function that it ran was for.
    called: Option<IpiKind>,
    /// The flushes that it completes.
    acknowledges: Vec<(usize, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Vector(Vector),
    Reason(u64),
    Csd(u64, u64),
}

impl<S: Sink> Replay<'_, S> {
    pub(super) fn vector_entered(&mut self, cpu: usize, ts: i64, vector: Vector) {
        let class = match vector {
            Vector::Reschedule => Class::Reschedule,
            Vector::CallFunction => Class::Many,
            Vector::CallFunctionSingle => Class::Single,
        };
        self.entered(cpu, ts, What::Vector(vector), |waiting| waiting == class);
    }

    pub(super) fn vector_left(&mut self, cpu: usize, vector: Vector) {
        self.left(cpu, What::Vector(vector));
    }

    pub(super) fn reason_entered(&mut self, cpu: usize, ts: i64, address: u64) {
        let reason = self.config.ipis.reason(address);
        let serves = move |class| match reason {
            Some(Reason::Reschedule) => class == Class::Reschedule,
            Some(Reason::Call) => matches!(class, Class::Single | Class::Many),
            Some(Reason::IrqWork) => class == Class::IrqWork,
            Some(Reason::Other) | None => class == Class::Reason(address),
        };
        self.entered(cpu, ts, What::Reason(address), serves);
    }

    pub(super) fn reason_left(&mut self, cpu: usize, address: u64) {
        self.left(cpu, What::Reason(address));
    }

    /// A function from the CPU's list. All wakeups on it are one call, entered under the first one's address; a call
    /// without address is the caller's own part.
    pub(super) fn call_entered(&mut self, cpu: usize, ts: i64, func: u64, csd: u64) {
        let what = What::Csd(func, csd);
        if csd == 0 {
            self.begin(cpu, ts, what, None, Vec::new());
            return;
        }
        if self.functions.wakeup == Some(func) {
            self.entered(cpu, ts, what, |_| false);
            self.serve_wake_list(cpu, ts, func);
            return;
        }
        self.entered(cpu, ts, what, |class| class == Class::Csd(csd));
    }

    pub(super) fn call_left(&mut self, cpu: usize, ts: i64, func: u64, csd: u64) {
        for (initiator, number) in self.left(cpu, What::Csd(func, csd)) {
            self.acknowledged(initiator, number, ts);
        }
    }

    /// A queued task was enqueued by a handler, if one is under way.
    #[inline]
    pub(in crate::replay) fn enqueued_in_handler(&mut self, cpu: usize) {
        for running in &mut self.cpus[cpu].ipis.running {
            running.wakeups += 1;
        }
    }

    /// The CPU flushed its TLB for another.
    pub(in crate::replay) fn flushed_in_handler(&mut self, cpu: usize) {
        for running in &mut self.cpus[cpu].ipis.running {
            running.flushes = true;
        }
    }

    /// Whether the CPU runs its own part of a call to many.
    pub(in crate::replay) fn in_own_part(&self, cpu: usize) -> bool {
        let running = self.cpus[cpu].ipis.running.last();
        running.is_some_and(|running| running.row.is_none())
    }

    /// Whether a handler is under way, other than the CPU's own part of a call.
    pub(in crate::replay) fn in_handler(&self, cpu: usize) -> bool {
        let running = &self.cpus[cpu].ipis.running;
        running.iter().any(|running| running.row.is_some())
    }

    /// A handler starts: it serves all requests that it can; the oldest started it.
    fn entered(&mut self, cpu: usize, ts: i64, what: What, serves: impl Fn(Class) -> bool) {
        self.leave_stale(cpu);
        let mut first = None;
        let mut acknowledges = Vec::new();
        let mut at = 0;
        while let Some(waiting) = self.cpus[cpu].ipis.waiting.get(at) {
            if !serves(waiting.class) {
                at += 1;
                continue;
            }
            let Some(mut waiting) = self.cpus[cpu].ipis.waiting.remove(at) else {
                break;
            };
            let latency = ts - waiting.row.ts_ns;
            if latency > FORGOTTEN_NS {
                self.give_up(waiting, IpiFate::Unanswered);
                continue;
            }
            waiting.row.latency_ns = Some(latency);
            acknowledges.extend(waiting.flush);
            if first.is_none() {
                waiting.row.fate = IpiFate::Handled;
                first = Some(waiting.row);
            } else {
                waiting.row.fate = IpiFate::Coalesced;
                self.sink.ipi(&waiting.row);
            }
        }
        let row = first.unwrap_or_else(|| self.unexplained(cpu, ts));
        self.begin(cpu, ts, what, Some(row), acknowledges);
    }

    /// The wakeups that were on the list when it was taken: those of the same function.
    fn serve_wake_list(&mut self, cpu: usize, ts: i64, func: u64) {
        let mut at = 0;
        let mut first = true;
        while let Some(waiting) = self.cpus[cpu].ipis.waiting.get(at) {
            let on_list = matches!(waiting.class, Class::Csd(_)) && waiting.row.callback == func;
            if !on_list {
                at += 1;
                continue;
            }
            let Some(waiting) = self.cpus[cpu].ipis.waiting.remove(at) else {
                break;
            };
            let mut row = waiting.row;
            row.latency_ns = Some(ts - row.ts_ns);
            if std::mem::take(&mut first) {
                row.fate = IpiFate::Handled;
                if let Some(running) = self.cpus[cpu].ipis.running.last_mut() {
                    running.row = Some(row);
                    running.unexplained = false;
                }
            } else {
                row.fate = IpiFate::Coalesced;
                self.sink.ipi(&row);
            }
        }
    }

    fn begin(
        &mut self,
        cpu: usize,
        ts: i64,
        what: What,
        row: Option<IpiRow>,
        acknowledges: Vec<(usize, u64)>,
    ) {
        let called = match what {
            What::Csd(func, _) => Some(self.kind_called(&row, func)),
            _ => None,
        };
        let stint = self.stint(cpu);
        let running = &mut self.cpus[cpu].ipis.running;
        if let (Some(called), Some(_)) = (called, &row) {
            for outer in running.iter_mut() {
                outer.called.get_or_insert(called);
            }
        }
        running.push(Running {
            what,
            entry_ns: ts,
            inner_ns: 0,
            stint,
            unexplained: row.as_ref().is_some_and(|row| row.road == IpiRoad::Handler),
            row,
            wakeups: 0,
            flushes: false,
            called,
            acknowledges,
        });
        if running.len() > DEPTH {
            self.drop_running(cpu, 0);
        }
    }

    fn kind_called(&self, row: &Option<IpiRow>, func: u64) -> IpiKind {
        match row {
            Some(row) if row.road == IpiRoad::Queue => row.kind,
            _ if self.functions.wakeup == Some(func) => IpiKind::Wakeup,
            _ if self.functions.flush == Some(func) => IpiKind::Tlb,
            _ => IpiKind::Call,
        }
    }

    /// A handler ends; the flushes that it completes. Handlers inside it whose ends are missing end untimed.
    fn left(&mut self, cpu: usize, what: What) -> Vec<(usize, u64)> {
        let running = &self.cpus[cpu].ipis.running;
        let Some(at) = running.iter().rposition(|running| running.what == what) else {
            return Vec::new();
        };
        self.drop_running(cpu, at + 1);
        let Some(mut ended) = self.cpus[cpu].ipis.running.pop() else {
            return Vec::new();
        };
        let lasted = self.now - ended.entry_ns;
        let switched = ended.stint != self.stint(cpu);
        if let Some(outer) = self.cpus[cpu].ipis.running.last_mut()
            && ended.row.is_some()
        {
            outer.inner_ns += lasted;
        }
        let acknowledges = std::mem::take(&mut ended.acknowledges);
        let timed = (!switched).then_some(lasted - ended.inner_ns);
        self.complete(ended, timed);
        acknowledges
    }

    /// Ends the handlers from the `at`-th on, without a time.
    pub(super) fn drop_running(&mut self, cpu: usize, at: usize) {
        while self.cpus[cpu].ipis.running.len() > at {
            let Some(mut dropped) = self.cpus[cpu].ipis.running.pop() else {
                return;
            };
            for (initiator, number) in std::mem::take(&mut dropped.acknowledges) {
                self.acknowledgement_lost(initiator, number);
            }
            self.complete(dropped, None);
        }
    }

    /// A handler cannot go on over a switch: its end is missing.
    fn leave_stale(&mut self, cpu: usize) {
        let running = &self.cpus[cpu].ipis.running;
        if running.is_empty() {
            return;
        }
        let stint = self.stint(cpu);
        let running = &self.cpus[cpu].ipis.running;
        if let Some(at) = running.iter().position(|running| running.stint != stint) {
            self.drop_running(cpu, at);
        }
    }

    fn complete(&mut self, ended: Running, handler_ns: Option<i64>) {
        let Some(mut row) = ended.row else {
            return;
        };
        row.handler_ns = handler_ns;
        row.wakeups = ended.wakeups;
        (row.interrupted, row.on_idle) = match ended.stint.0 {
            Current::Task(task) => (Some(task), Some(false)),
            Current::Nothing => (None, Some(true)),
            Current::Unknown => (None, None),
        };
        if ended.unexplained {
            row.kind = ended.called.unwrap_or(match ended.what {
                _ if ended.wakeups > 0 => IpiKind::Wakeup,
                _ if ended.flushes => IpiKind::Tlb,
                What::Vector(Vector::Reschedule) => IpiKind::Reschedule,
                What::Vector(_) | What::Csd(..) => IpiKind::Call,
                What::Reason(address) => match self.config.ipis.reason(address) {
                    Some(Reason::Reschedule) => IpiKind::Reschedule,
                    Some(Reason::Call) => IpiKind::Call,
                    Some(Reason::IrqWork) => IpiKind::IrqWork,
                    Some(Reason::Other) | None => IpiKind::Other,
                },
            });
            if let What::Csd(func, _) = ended.what {
                row.callback = func;
            }
        }
        self.sink.ipi(&row);
    }

    /// A handler that no recorded send explains.
    fn unexplained(&self, cpu: usize, ts: i64) -> IpiRow {
        IpiRow {
            ts_ns: ts,
            cpu: None,
            target_cpu: self.machine.cpus.id(cpu),
            road: IpiRoad::Handler,
            kind: IpiKind::Other,
            fate: IpiFate::Handled,
            distance: Distance::Unknown,
            task: None,
            latency_ns: None,
            handler_ns: None,
            interrupted: None,
            on_idle: None,
            wakeups: 0,
            callback: 0,
            callsite: 0,
            in_window: self.config.window.contains(ts),
        }
    }
}
