//! The sending side: which requests there are, and what each is for.

use super::super::engine::Replay;
use super::super::rows::{IpiRow, Sink};
use super::super::steps::WakeInfo;
use super::super::words::{IpiFate, IpiKind, IpiRoad};
use super::{Announced, Class, FORGOTTEN_NS, Reason, WAITING, Waiting, WakeupSends, in_task};
use crate::topology::Distance;
use ttwu_parsers::event::{CpuMask, Event};

/// A request as its event tells it.
#[derive(Debug, Clone, Copy)]
struct Request {
    road: IpiRoad,
    kind: IpiKind,
    callback: u64,
    callsite: u64,
}

impl<S: Sink> Replay<'_, S> {
    /// A wakeup begins: which of the sends that follow on this CPU belong to it, the resolver has seen.
    #[inline]
    pub(in crate::replay) fn expect_sends(&mut self, cpu: usize, info: &WakeInfo) {
        let sends = info.last_send_ns.zip(info.enqueue);
        let id = self.machine.cpus.id(cpu);
        self.cpus[cpu].ipis.wakeup = sends.map(|(last_ns, enqueue)| WakeupSends {
            target: enqueue.chosen,
            queued: enqueue.cpu == enqueue.chosen && enqueue.cpu != id,
            until_ns: last_ns,
        });
    }

    pub(super) fn sent_to_one(
        &mut self,
        cpu: usize,
        event: &Event,
        target: u32,
        callback: u64,
        callsite: u64,
    ) {
        if self.is_queueing(cpu, Some(target), callback) {
            self.queued_call(cpu, event, target, (callback, 0), callsite);
            return;
        }
        let to_itself = target == self.machine.cpus.id(cpu);
        let (kind, callback) = match callback {
            0 => (self.kind_of_reschedule(cpu, event.ts, target), 0),
            _ if to_itself => (IpiKind::IrqWork, callback),
            _ => self.kind_of_call(cpu, event, Some(target), callback),
        };
        let class = match kind {
            IpiKind::WakeupReschedule | IpiKind::Reschedule => Class::Reschedule,
            IpiKind::IrqWork => Class::IrqWork,
            _ => Class::Single,
        };
        let request = Request {
            road: IpiRoad::Interrupt,
            kind,
            callback,
            callsite,
        };
        self.request(cpu, event, target, class, request);
    }

    pub(super) fn sent_to_many(
        &mut self,
        cpu: usize,
        event: &Event,
        cpus: &CpuMask,
        callback: u64,
        callsite: u64,
    ) {
        if self.is_queueing(cpu, None, callback) {
            self.queued_calls(cpu, event, cpus, callback, callsite);
            return;
        }
        let (kind, callback) = match callback {
            0 => (IpiKind::Reschedule, 0),
            _ => self.kind_of_call(cpu, event, None, callback),
        };
        let class = match kind {
            IpiKind::Reschedule => Class::Reschedule,
            _ => Class::Many,
        };
        let request = Request {
            road: IpiRoad::Interrupt,
            kind,
            callback,
            callsite,
        };
        cpus.cpus()
            .for_each(|target| self.request(cpu, event, target, class, request));
    }

    /// arm64. Where generic code announces its sends itself, only what it does not send is told by this alone.
    pub(super) fn raised(&mut self, cpu: usize, event: &Event, cpus: &CpuMask, address: u64) {
        let reason = self.config.ipis.reason(address);
        if self.config.ipis.sends && reason != Some(Reason::Other) {
            return;
        }
        for target in cpus.cpus() {
            let (kind, class) = match reason {
                Some(Reason::Reschedule) => {
                    let kind = self.kind_of_reschedule(cpu, event.ts, target);
                    (kind, Class::Reschedule)
                }
                Some(Reason::Call) => {
                    let (kind, _) = self.kind_of_call(cpu, event, Some(target), 0);
                    (kind, Class::Single)
                }
                Some(Reason::IrqWork) => (IpiKind::IrqWork, Class::IrqWork),
                Some(Reason::Other) | None => (IpiKind::Other, Class::Reason(address)),
            };
            let request = Request {
                road: IpiRoad::Interrupt,
                kind,
                callback: 0,
                callsite: 0,
            };
            self.request(cpu, event, target, class, request);
        }
    }

    /// The idle target will see a flag: no interrupt is sent. Calls of functions end so, too (since 5.8).
    pub(super) fn polled(&mut self, cpu: usize, event: &Event, target: u32) {
        let announced = self.take_announced(cpu, Some(target));
        let kind = match announced {
            Some(announced) => announced.kind,
            None => match self.wakeup_to(cpu, event.ts, target) {
                Some(true) => IpiKind::Wakeup,
                Some(false) => IpiKind::WakeupReschedule,
                None if self.is_flushing(cpu, event) => IpiKind::Tlb,
                None => IpiKind::Other,
            },
        };
        if kind == IpiKind::Tlb && !self.config.ipis.tell_queueing() {
            self.flush_asks(cpu, event.ts, false);
        }
        let request = Request {
            road: IpiRoad::Polled,
            kind,
            callback: announced.map_or(0, |announced| announced.func),
            callsite: 0,
        };
        let mut row = self.row(cpu, event, target, request);
        row.fate = IpiFate::Unknown;
        self.sink.ipi(&row);
    }

    /// A function is put on another CPU's list.
    pub(super) fn queued_call(
        &mut self,
        cpu: usize,
        event: &Event,
        target: u32,
        (func, csd): (u64, u64),
        callsite: u64,
    ) {
        let kind = self.kind_of_function(cpu, event, Some(target), func);
        self.cpus[cpu].ipis.announced = Some(Announced {
            target: Some(target),
            kind,
            func,
        });
        self.queue(cpu, event, target, csd, (kind, func, callsite));
    }

    /// 6.4's announcement of a call to several.
    fn queued_calls(
        &mut self,
        cpu: usize,
        event: &Event,
        cpus: &CpuMask,
        func: u64,
        callsite: u64,
    ) {
        let kind = self.kind_of_function(cpu, event, None, func);
        self.cpus[cpu].ipis.announced = Some(Announced {
            target: None,
            kind,
            func,
        });
        cpus.cpus()
            .for_each(|target| self.queue(cpu, event, target, 0, (kind, func, callsite)));
    }

    fn queue(
        &mut self,
        cpu: usize,
        event: &Event,
        target: u32,
        csd: u64,
        (kind, callback, callsite): (IpiKind, u64, u64),
    ) {
        let request = Request {
            road: IpiRoad::Queue,
            kind,
            callback,
            callsite,
        };
        self.request(cpu, event, target, Class::Csd(csd), request);
    }

    /// Of 6.4's two events the first, with the function's own address, announces that it is queued.
    fn is_queueing(&self, cpu: usize, target: Option<u32>, callback: u64) -> bool {
        let facts = &self.config.ipis;
        if !facts.first_send_is_queueing
            || callback == 0
            || target == Some(self.machine.cpus.id(cpu))
        {
            return false;
        }
        match facts.generic_function {
            Some(generic) => callback != generic,
            // Without symbols: the interrupt is the second of a pair, with another function.
            None => self.cpus[cpu].ipis.announced.is_none_or(|first| {
                first.func == callback || (first.target.is_some() && first.target != target)
            }),
        }
    }

    fn take_announced(&mut self, cpu: usize, target: Option<u32>) -> Option<Announced> {
        let state = &mut self.cpus[cpu].ipis;
        // Of several targets one may be left, or several after queueing them one by one.
        state.announced.take_if(|announced| {
            target.is_none() || announced.target.is_none() || announced.target == target
        })
    }

    /// Whether a send to that CPU is that of the wakeup under way, and then, whether it is a queued one.
    fn wakeup_to(&self, cpu: usize, ts: i64, target: u32) -> Option<bool> {
        let wakeup = self.cpus[cpu].ipis.wakeup?;
        (wakeup.target == target && ts <= wakeup.until_ns).then_some(wakeup.queued)
    }

    fn kind_of_reschedule(&self, cpu: usize, ts: i64, target: u32) -> IpiKind {
        match self.wakeup_to(cpu, ts, target) {
            Some(false) => IpiKind::WakeupReschedule,
            // Before 5.8 queued wakeups use this interrupt, too.
            Some(true) => IpiKind::Wakeup,
            None => IpiKind::Reschedule,
        }
    }

    /// What an interrupt for the sake of functions is for, and the function if it is known.
    fn kind_of_call(
        &mut self,
        cpu: usize,
        event: &Event,
        target: Option<u32>,
        callback: u64,
    ) -> (IpiKind, u64) {
        if let Some(announced) = self.take_announced(cpu, target) {
            return (announced.kind, announced.func);
        }
        let woken = target.and_then(|target| self.wakeup_to(cpu, event.ts, target));
        let kind = match woken {
            Some(true) => IpiKind::Wakeup,
            _ if self.is_flushing(cpu, event) => IpiKind::Tlb,
            _ => IpiKind::Call,
        };
        (kind, callback)
    }

    /// What a function is for, by its address, or by what goes on.
    fn kind_of_function(
        &mut self,
        cpu: usize,
        event: &Event,
        target: Option<u32>,
        func: u64,
    ) -> IpiKind {
        if self.functions.wakeup == Some(func) {
            return IpiKind::Wakeup;
        }
        if self.functions.flush == Some(func) {
            return IpiKind::Tlb;
        }
        let woken = target.and_then(|target| self.wakeup_to(cpu, event.ts, target));
        if woken == Some(true) && self.functions.wakeup.is_none() {
            self.functions.wakeup = Some(func);
            return IpiKind::Wakeup;
        }
        if self.functions.flush.is_none() && self.is_flushing(cpu, event) {
            self.functions.flush = Some(func);
            return IpiKind::Tlb;
        }
        IpiKind::Call
    }

    /// Notes one request to one CPU, until its handler is seen.
    fn request(&mut self, cpu: usize, event: &Event, target: u32, class: Class, request: Request) {
        let mut row = self.row(cpu, event, target, request);
        let flush = (request.kind == IpiKind::Tlb && in_task(event.flags))
            .then(|| self.note_flush_request(cpu, event.ts, class))
            .flatten();
        let at = self.machine.cpus.index(target);
        let Some(at) = at.filter(|_| self.shows_handler(class)) else {
            if let Some((initiator, number)) = flush {
                self.acknowledgement_lost(initiator, number);
            }
            self.sink.ipi(&row);
            return;
        };
        if self.cpus[at].gap_since.is_some() {
            row.fate = IpiFate::Lost;
            self.give_up(Waiting { class, row, flush }, IpiFate::Lost);
            return;
        }
        let waiting = &mut self.cpus[at].ipis.waiting;
        waiting.push_back(Waiting { class, row, flush });
        let overdue = waiting
            .front()
            .is_some_and(|first| event.ts - first.row.ts_ns > FORGOTTEN_NS);
        if (waiting.len() > WAITING || overdue)
            && let Some(oldest) = waiting.pop_front()
        {
            self.give_up(oldest, IpiFate::Unanswered);
        }
    }

    /// A flush's request: with functions' queueing recorded, that tells whom it asks; the interrupt is only counted.
    fn note_flush_request(&mut self, cpu: usize, ts: i64, class: Class) -> Option<(usize, u64)> {
        match class {
            Class::Csd(_) => self.flush_asks(cpu, ts, self.config.ipis.csd_entries),
            _ if self.config.ipis.tell_queueing() => {
                self.flush_interrupts(cpu);
                None
            }
            _ => {
                self.flush_asks(cpu, ts, false);
                self.flush_interrupts(cpu);
                None
            }
        }
    }

    /// Whether the handlers that such requests meet are in the trace.
    fn shows_handler(&self, class: Class) -> bool {
        let facts = &self.config.ipis;
        match class {
            Class::Reschedule => facts.reschedule_entries || facts.entries,
            Class::Single => facts.single_entries || facts.entries,
            Class::Many => facts.many_entries || facts.entries,
            Class::IrqWork | Class::Reason(_) => facts.entries,
            Class::Csd(_) => facts.csd_entries,
        }
    }

    fn row(&self, cpu: usize, event: &Event, target: u32, request: Request) -> IpiRow {
        let to = self.machine.cpus.index(target);
        IpiRow {
            ts_ns: event.ts,
            cpu: Some(event.cpu),
            target_cpu: target,
            road: request.road,
            kind: request.kind,
            fate: IpiFate::Unknown,
            distance: to.map_or(Distance::Unknown, |to| self.distances.distance(cpu, to)),
            task: self.current_task(cpu),
            latency_ns: None,
            handler_ns: None,
            interrupted: None,
            on_idle: None,
            wakeups: 0,
            callback: request.callback,
            callsite: request.callsite,
            in_window: self.config.window.contains(event.ts),
        }
    }
}
