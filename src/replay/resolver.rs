//! Looks ahead, so that a `sched_waking` is replayed with what became of it: the chosen CPU, the enqueue, and
//! what was sent in between.
//!
//! A CPU to which a task is on its way is not idle, but the waking itself does not name that CPU. Events are
//! therefore held back until the wakings among them have met their `sched_wakeup`, within a bound.

use std::collections::VecDeque;

use super::open_waking::OpenWaking;
use super::pids::{PidNumber, Pids};
use super::probed_masks::{MaskNumber, ProbedMasks};
use super::steps::{Batch, Enqueue, Kind, Moved, Probe, Step, Switch, Woken};
use super::units::{Marks, Work};
use super::words::FlushReason;
use ttwu_parsers::decode::EventType;
use ttwu_parsers::event::{Comm, Event, NO_TYPE, Payload, Selection, Vector, Wake};

/// Most events that are held back; then the oldest waking is given up.
const HELD_EVENTS: u64 = 65_536;
/// Longest time for which events are held back.
const HELD_NS: i64 = 1_000_000_000;

/// What a trace's event types allow to be concluded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded {
    pub waking: bool,
    pub wakeup: bool,
    /// `ipi_send_cpu`: the absence of an IPI is then a fact.
    pub ipi_send: bool,
    pub probes: bool,
    /// `sched_process_exec`, the entry of `sched_setaffinity`, and what NUMA balancing announces: their absence is then
    /// a fact.
    pub exec: bool,
    pub set_affinity: bool,
    pub numa: bool,
    /// 6.4 alone announces a queueing as a first `ipi_send_cpu`.
    pub first_send_is_queueing: bool,
}

impl Recorded {
    /// Reads it off the types that occur; `csd` tells 6.4 from later kernels.
    pub fn new(types: &[EventType], counts: &[u64], version: (u32, u32)) -> Self {
        let has = |system: &str, name: &str| {
            types
                .iter()
                .zip(counts)
                .any(|(t, &n)| t.system == system && t.name == name && n > 0)
        };
        let described = |name: &str| types.iter().any(|t| t.name == name);
        Self {
            waking: has("sched", "sched_waking"),
            wakeup: has("sched", "sched_wakeup"),
            ipi_send: described("ipi_send_cpu"),
            probes: has("ttwu", "sel"),
            exec: described("sched_process_exec"),
            set_affinity: described("sys_enter_sched_setaffinity"),
            numa: described("sched_move_numa"),
            first_send_is_queueing: version == (6, 4),
        }
    }
}

/// Steps of a batch.
const BATCH: usize = 512;

/// Turns events into batches of steps, held back until the wakings in them are resolved.
pub struct Resolver {
    recorded: Recorded,
    pids: Pids,
    filling: Batch,
    /// How many events were fed.
    events: u64,
    /// The latest stamp.
    now: i64,
    /// Full batches, each with the number of the first waking behind it.
    full: VecDeque<(Batch, u64)>,
    /// Those not released yet, in order.
    wakings: VecDeque<OpenWaking>,
    released: u64,
    /// The place in `full` of the batch that holds the next one to be released; behind the last, the one being filled.
    releasing: usize,
    /// Storage to be used again.
    spare: Vec<Batch>,
    cpus: Vec<CpuWatch>,
    masks: ProbedMasks,
    marks: Marks,
}

/// What is going on at one CPU.
#[derive(Debug, Clone, Default)]
struct CpuWatch {
    /// The wakeup that this CPU's sends belong to.
    open: Option<u64>,
    /// The selection probe that has not returned.
    selecting: Option<Selecting>,
    last_vector: Option<i64>,
    /// Waking and enqueue of the last wakeup queued to this CPU.
    last_queued: Option<(i64, i64)>,
}

/// What a selection probe showed as it was entered.
#[derive(Debug, Clone, Copy)]
struct Selecting {
    pid: i32,
    prev: i32,
    allowed: i32,
    flips: Option<u32>,
    wake_flags: Option<u32>,
    mask: Option<MaskNumber>,
}

impl Resolver {
    pub fn new(recorded: Recorded) -> Self {
        Self {
            recorded,
            pids: Pids::default(),
            filling: Batch::default(),
            events: 0,
            now: i64::MIN,
            full: VecDeque::new(),
            wakings: VecDeque::new(),
            released: 0,
            releasing: 0,
            spare: Vec::new(),
            cpus: Vec::new(),
            masks: ProbedMasks::default(),
            marks: Marks::None,
        }
    }

    /// The same, telling the marks of units of work.
    pub fn marking(self, work: Option<&Work>) -> Self {
        Self {
            marks: Marks::new(work),
            ..self
        }
    }

    /// Takes the next event in time order. Lines of the machine record are no part of what went on.
    ///
    /// It is not handed over by value: a processor waits for what was just written before it can move that in wider
    /// pieces.
    #[inline]
    pub fn feed(&mut self, event: &mut Event) {
        if event.payload.is_record_line() {
            return;
        }
        self.keep_time(event);
        let ts = event.ts;
        if let Some(marked) = self.marks.of(event) {
            self.add(event, Kind::Mark);
            self.filling.marks.push(marked);
        }
        let kind = self.watch(event);
        self.add(event, kind);
        self.events += 1;
        if let Kind::Rare = kind {
            self.filling.rare.push(event.clone());
        }
        while self.first_is_ready(ts) {
            self.release();
        }
        if self.filling.steps.len() >= BATCH {
            self.close_batch();
        }
    }

    /// Time never goes back: an event that was recorded after another one happened no earlier, whatever its stamp.
    #[inline]
    fn keep_time(&mut self, event: &mut Event) {
        if event.ts < self.now {
            event.ts = self.now;
            self.filling.backward += 1;
        } else if event.type_index != NO_TYPE {
            // The edges of losses may have stamps that no event has.
            self.now = event.ts;
        }
    }

    /// The next batch in order, if its wakings are resolved.
    #[inline]
    pub fn take(&mut self) -> Option<Batch> {
        let &(_, until) = self.full.front()?;
        if until > self.released {
            return None;
        }
        self.releasing = self.releasing.saturating_sub(1);
        self.full.pop_front().map(|(batch, _)| batch)
    }

    /// At the trace's end: all batches may be taken then, their wakings resolved or not.
    pub fn finish(&mut self) {
        while !self.wakings.is_empty() {
            self.release();
        }
        self.close_batch();
    }

    /// Lends a batch that was replayed, for its storage.
    pub fn give_back(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }

    #[inline]
    fn add(&mut self, event: &Event, kind: Kind) {
        self.filling.steps.push(Step {
            ts: event.ts,
            cpu: event.cpu,
            pid: match kind {
                Kind::Rare => shown_pid(event),
                _ => event.pid,
            },
            tgid: event.tgid,
            flags: event.flags,
            recorded: event.type_index != NO_TYPE,
            kind,
        });
    }

    fn close_batch(&mut self) {
        let next = self.spare.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.filling, next);
        self.full.push_back((batch, self.next_number()));
    }

    /// The number that the next waking will have.
    #[inline]
    fn next_number(&self) -> u64 {
        self.released + self.wakings.len() as u64
    }

    /// Whether the oldest waking is resolved, or has been waited for long enough.
    #[inline]
    fn first_is_ready(&self, now: i64) -> bool {
        self.wakings.front().is_some_and(|first| {
            first.resolved
                || self.events - first.event >= HELD_EVENTS
                || now.saturating_sub(first.waking_ns) >= HELD_NS
        })
    }

    fn release(&mut self) {
        let Some(waking) = self.wakings.front_mut() else {
            return;
        };
        let given_up = (!waking.resolved).then_some(waking.wakee);
        if given_up.is_some() && !self.recorded.wakeup {
            waking.assume_enqueue();
        }
        let outcome = waking.outcome();
        let ends_before =
            |full: Option<&(Batch, u64)>| full.is_some_and(|(_, u)| *u <= self.released);
        while ends_before(self.full.get(self.releasing)) {
            self.releasing += 1;
        }
        let batch = match self.full.get_mut(self.releasing) {
            Some((batch, _)) => batch,
            None => &mut self.filling,
        };
        if let Some(mask) = outcome.probe.and_then(|probe| probe.mask) {
            self.masks.tell(mask, &mut batch.masks);
        }
        batch.wakes.push(outcome);
        if let Some(wakee) = given_up {
            self.forget_pending(wakee, self.released);
        }
        self.wakings.pop_front();
        self.released += 1;
    }

    fn forget_pending(&mut self, wakee: Option<PidNumber>, number: u64) {
        if let Some(wakee) = wakee {
            let pending = &mut self.pids.get_mut(wakee).pending;
            pending.take_if(|pending| *pending == number);
        }
    }

    #[inline]
    fn cpu(&mut self, cpu: u32) -> &mut CpuWatch {
        // CPU ids were bounded by the survey; an id beyond is watched in one common slot.
        let slot = (cpu as usize).min(usize::from(u16::MAX));
        if self.cpus.len() <= slot {
            self.cpus.resize(slot + 1, CpuWatch::default());
        }
        &mut self.cpus[slot]
    }

    #[inline]
    fn open_waking(&mut self, number: Option<u64>) -> Option<&mut OpenWaking> {
        let slot = number?.checked_sub(self.released)?;
        self.wakings.get_mut(usize::try_from(slot).ok()?)
    }

    /// The number of a pid that the event names. What is new about it comes before the event.
    #[inline]
    fn named(&mut self, pid: i32, comm: &Comm, event: &Event) -> Option<PidNumber> {
        let (number, new) = self.pids.number(pid)?;
        if new {
            self.add(event, Kind::Pid(pid));
        }
        let known = self.pids.get_mut(number);
        if known.comm != *comm {
            known.comm = *comm;
            self.add(event, Kind::Name(number, *comm));
        }
        Some(number)
    }

    /// Notes what the event says of wakeups under way, and cuts it down.
    #[inline]
    fn watch(&mut self, event: &Event) -> Kind {
        match &event.payload {
            Payload::Switch {
                prev_comm,
                prev_pid,
                prev_prio,
                prev_state,
                next_comm,
                next_pid,
                next_prio,
            } => {
                self.close(event.cpu);
                let prev = self.named(*prev_pid, prev_comm, event);
                let next = self.named(*next_pid, next_comm, event);
                if !self.recorded.wakeup {
                    self.enqueue_unseen(next);
                }
                Kind::Switch(Switch {
                    prev,
                    prev_prio: *prev_prio,
                    prev_state: *prev_state,
                    next,
                    next_prio: *next_prio,
                })
            }
            Payload::Waking(wake) => {
                let woken = self.woken(wake, event);
                self.waking(event, &woken);
                Kind::Waking(woken)
            }
            Payload::Wakeup(wake) => {
                let woken = self.woken(wake, event);
                self.wakeup(event, &woken);
                Kind::Wakeup(woken)
            }
            Payload::WakeupNew(wake) => {
                let woken = self.woken(wake, event);
                self.wakeup_new(event, &woken);
                Kind::WakeupNew(woken)
            }
            Payload::Migrate {
                comm,
                pid,
                prio,
                orig_cpu,
                dest_cpu,
            } => {
                let task = self.named(*pid, comm, event);
                self.migrated(event, task, *dest_cpu);
                Kind::Migrate(Moved {
                    task,
                    prio: *prio,
                    orig_cpu: *orig_cpu,
                    dest_cpu: *dest_cpu,
                })
            }
            _ => {
                self.watch_rare(event);
                Kind::Rare
            }
        }
    }

    fn watch_rare(&mut self, event: &Event) {
        let cpu = event.cpu;
        match &event.payload {
            Payload::CsdQueue { cpu: target, .. } => self.queued(cpu, (event.ts, *target)),
            // What is sent from here on is for the flush.
            Payload::TlbFlush { .. } => self.close(cpu),
            Payload::IpiSendCpu {
                cpu: target,
                callback,
                ..
            } => self.ipi_sent(cpu, (event.ts, *target), *callback),
            Payload::WakeIdleWithoutIpi { cpu: target }
                if !self.sent_otherwise(cpu, |waking| waking.ipi_to, *target) =>
            {
                self.sent(cpu, |waking| &mut waking.polled, (event.ts, *target));
            }
            Payload::VectorEntry(Vector::Reschedule | Vector::CallFunctionSingle)
            | Payload::IpiEntry { .. } => self.cpu(cpu).last_vector = Some(event.ts),
            Payload::Select(selection) => self.selecting(cpu, selection),
            Payload::Selected { cpu: chosen } => self.selected(cpu, event.ts, *chosen),
            Payload::Exit { pid, comm } | Payload::TaskName { tid: pid, comm, .. } => {
                self.named(*pid, comm, event);
            }
            Payload::Fork {
                child_pid,
                child_comm,
                ..
            } => {
                self.named(*child_pid, child_comm, event);
            }
            _ => {}
        }
    }

    #[inline]
    fn woken(&mut self, wake: &Wake, event: &Event) -> Woken {
        Woken {
            wakee: self.named(wake.pid, &wake.comm, event),
            prio: wake.prio,
            target_cpu: wake.target_cpu,
        }
    }

    fn waking(&mut self, event: &Event, woken: &Woken) {
        self.close(event.cpu);
        let number = self.next_number();
        let mut waking = OpenWaking::new(woken.wakee, event, woken.target_cpu, self.events);
        // An idle task is never woken: there is nothing to wait for.
        waking.resolved = woken.wakee.is_none();
        self.wakings.push_back(waking);
        if let Some(wakee) = woken.wakee
            && let Some(older) = self.pids.get_mut(wakee).pending.replace(number)
            && let Some(waking) = self.open_waking(Some(older))
        {
            waking.resolved = true;
        }
        self.cpu(event.cpu).open = Some(number);
    }

    fn wakeup(&mut self, event: &Event, woken: &Woken) {
        let wakee = woken.wakee.map(|wakee| self.pids.get_mut(wakee));
        let Some(number) = wakee.and_then(|wakee| wakee.pending.take()) else {
            return;
        };
        let target = self.cpu(woken.target_cpu);
        let (last_vector, last_queued) = (target.last_vector, target.last_queued);
        let Some(waking) = self.open_waking(Some(number)) else {
            return;
        };
        let queued = event.cpu != waking.waking_cpu && event.cpu == woken.target_cpu;
        let since = waking.waking_ns;
        waking.enqueue = Some(Enqueue::of_event(event.ts, event.cpu, event.flags, woken));
        waking.vector_seen = last_vector.is_some_and(|ts| ts >= since);
        waking.behind_another =
            last_queued.is_some_and(|(waking, enqueue)| waking < since && since < enqueue);
        waking.settle_choice();
        let waker = waking.waking_cpu;
        if queued {
            self.cpu(woken.target_cpu).last_queued = Some((since, event.ts));
        } else if self.cpu(waker).open == Some(number) {
            self.cpu(waker).open = None;
        }
    }

    /// A new task's IPI, if any, follows its `sched_wakeup_new`: wait for this CPU's next event.
    fn wakeup_new(&mut self, event: &Event, woken: &Woken) {
        self.close(event.cpu);
        let number = self.next_number();
        let mut waking = OpenWaking::new(None, event, woken.target_cpu, self.events);
        waking.enqueue = Some(Enqueue::of_event(event.ts, event.cpu, event.flags, woken));
        waking.settle_choice();
        waking.resolved = false;
        self.wakings.push_back(waking);
        self.cpu(event.cpu).open = Some(number);
    }

    /// The waker chose another CPU than the previous one.
    fn migrated(&mut self, event: &Event, task: Option<PidNumber>, dest_cpu: u32) {
        let number = task.and_then(|task| self.pids.get_mut(task).pending);
        if let Some(waking) = self.open_waking(number)
            && waking.waking_cpu == event.cpu
            && waking.migrated.is_none()
        {
            waking.migrated = Some((event.ts, dest_cpu));
        }
    }

    /// What follows on this CPU no longer belongs to its last wakeup.
    #[inline]
    fn close(&mut self, cpu: u32) {
        let number = self.cpu(cpu).open.take();
        let wakeups_recorded = self.recorded.wakeup;
        let Some(waking) = self.open_waking(number).filter(|waking| !waking.resolved) else {
            return;
        };
        if waking.enqueue.is_some() {
            waking.resolved = true;
        } else if !wakeups_recorded {
            waking.assume_enqueue();
            let wakee = waking.wakee;
            self.forget_pending(wakee, number.unwrap_or(u64::MAX));
        }
    }

    /// In a trace without `sched_wakeup`, the switch-in shows that the wakee was enqueued before.
    fn enqueue_unseen(&mut self, task: Option<PidNumber>) {
        let number = task.and_then(|task| self.pids.get_mut(task).pending.take());
        if let Some(waking) = self.open_waking(number) {
            waking.assume_enqueue();
        }
    }

    /// A CPU that polls is not interrupted for the same wakeup: of the two the first is the wakeup's.
    fn sent_otherwise(
        &mut self,
        cpu: u32,
        other: impl Fn(&OpenWaking) -> Option<(i64, u32)>,
        target: u32,
    ) -> bool {
        let number = self.cpu(cpu).open;
        let waking = self.open_waking(number);
        waking
            .and_then(|waking| other(waking))
            .is_some_and(|(_, to)| to == target)
    }

    fn sent(
        &mut self,
        cpu: u32,
        field: impl Fn(&mut OpenWaking) -> &mut Option<(i64, u32)>,
        what: (i64, u32),
    ) {
        let number = self.cpu(cpu).open;
        if let Some(waking) = self.open_waking(number) {
            // Sends to a CPU other than the chosen one are not this wakeup's.
            if waking.goes_to().is_none_or(|target| target == what.1) {
                field(waking).get_or_insert(what);
            }
        }
    }

    /// A wakeup is put on a list once, a new task's never: what is queued beyond that is another's.
    fn queued(&mut self, cpu: u32, what: (i64, u32)) {
        let number = self.cpu(cpu).open;
        let waking = self.open_waking(number);
        if waking.is_some_and(|waking| waking.wakee.is_none() || waking.queued_to.is_some()) {
            self.close(cpu);
        } else {
            self.sent(cpu, |waking| &mut waking.queued_to, what);
        }
    }

    fn ipi_sent(&mut self, cpu: u32, what: (i64, u32), callback: u64) {
        // Work in an interrupt of its own, such as waking the trace's reader: no wakeup sends itself an interrupt.
        if what.1 == cpu {
            return;
        }
        let number = self.cpu(cpu).open;
        // A reschedule interrupt has no callback, and no queueing before it.
        let queueing = self.recorded.first_send_is_queueing
            && callback != 0
            && self
                .open_waking(number)
                .is_some_and(|waking| waking.queued_to.is_none());
        if queueing {
            self.sent(cpu, |waking| &mut waking.queued_to, what);
        } else if !self.sent_otherwise(cpu, |waking| waking.polled, what.1) {
            self.sent(cpu, |waking| &mut waking.ipi_to, what);
        }
    }

    fn selecting(&mut self, cpu: u32, selection: &Selection) {
        let mask = selection.mask.as_ref();
        let mask = mask.and_then(|mask| self.masks.number(mask));
        self.cpu(cpu).selecting = Some(Selecting {
            pid: selection.pid,
            prev: selection.prev,
            allowed: selection.allowed,
            flips: selection.flips,
            wake_flags: selection.wake_flags,
            mask,
        });
    }

    fn selected(&mut self, cpu: u32, ts: i64, chosen: i32) {
        let Some(selection) = self.cpu(cpu).selecting.take() else {
            return;
        };
        let wakee = self.pids.find(selection.pid);
        let number = wakee.and_then(|wakee| self.pids.get_mut(wakee).pending);
        if let Some(waking) = self.open_waking(number)
            && waking.waking_cpu == cpu
            && waking.probe.is_none()
        {
            waking.probe_ns = Some(ts);
            waking.probe = Some(Probe {
                prev: selection.prev,
                chosen,
                allowed: selection.allowed,
                flips: selection.flips,
                wake_flags: selection.wake_flags,
                mask: selection.mask,
            });
        }
    }
}

/// Which task an event shows to run, -1 if none. As mappings are switched the task before is current still, though its
/// `sched_switch` came before (`context_switch()` and `switch_mm_irqs_off()`, which announces the flush; Linux 4.3 to 6.18).
fn shown_pid(event: &Event) -> i32 {
    match event.payload {
        Payload::TlbFlush { reason, .. } if FlushReason::of(reason) == FlushReason::TaskSwitch => {
            -1
        }
        _ => event.pid,
    }
}

#[cfg(test)]
mod tests;
