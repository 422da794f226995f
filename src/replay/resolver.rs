//! Looks ahead, so that a `sched_waking` is replayed with what became of it: the chosen CPU, the enqueue, and
//! what was sent in between.
//!
//! A CPU to which a task is on its way is not idle, but the waking itself does not name that CPU. Events are
//! therefore held back until the wakings among them have met their `sched_wakeup`, within a bound.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use ttwu_parsers::decode::EventType;
use ttwu_parsers::event::{ContextFlags, Event, Payload, Selection, Vector, Wake};

/// Most events that are held back; then the oldest waking is given up.
const HELD_EVENTS: usize = 65_536;
/// Longest time for which events are held back.
const HELD_NS: i64 = 1_000_000_000;

/// What became of a waking.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeInfo {
    pub pid: i32,
    pub waking_ns: i64,
    pub waking_cpu: u32,
    pub prev_cpu: u32,
    /// The enqueue: `None` if it was not found within the bound.
    pub enqueue: Option<Enqueue>,
    /// When the CPU was chosen.
    pub choice_ns: Option<i64>,
    pub probe: Option<Selection>,
    pub probed_cpu: Option<i32>,
    /// What the waker sent to the chosen CPU, or to any before the choice is known.
    pub queued_to: Option<(i64, u32)>,
    pub ipi_to: Option<(i64, u32)>,
    pub polled: Option<(i64, u32)>,
    /// An interrupt vector ran on the chosen CPU between waking and enqueue.
    pub vector_seen: bool,
    /// Another queued wakeup to the same CPU was under way.
    pub behind_another: bool,
    migrated: Option<(i64, u32)>,
    probe_ns: Option<i64>,
    resolved: bool,
}

/// A `sched_wakeup`, or what stands in for it in a trace without any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enqueue {
    pub ts: i64,
    pub cpu: u32,
    pub chosen: u32,
    pub flags: ContextFlags,
    /// False where the trace has no `sched_wakeup` and the CPU follows from the waking alone.
    pub recorded: bool,
}

/// What a trace's event types allow to be concluded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded {
    pub waking: bool,
    pub wakeup: bool,
    /// `ipi_send_cpu`: the absence of an IPI is then a fact.
    pub ipi_send: bool,
    pub probes: bool,
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
            first_send_is_queueing: version == (6, 4),
        }
    }
}

/// Resolved events in time order, with what became of the wakings (and new tasks' wakeups) among them, in their order.
#[derive(Debug, Default)]
pub struct Batch {
    pub events: Vec<Event>,
    pub wakes: Vec<WakeInfo>,
}

/// Whether an event has an entry in [`Batch::wakes`].
#[inline]
pub fn is_wake(event: &Event) -> bool {
    matches!(event.payload, Payload::Waking(_) | Payload::WakeupNew(_))
}

/// Holds events back until the wakings among them are resolved.
pub struct Resolver {
    recorded: Recorded,
    events: VecDeque<(Event, bool)>,
    infos: VecDeque<WakeInfo>,
    /// How many infos were released.
    released: u64,
    /// Wakings without enqueue, by pid: the number of their info.
    pending: FxHashMap<i32, u64>,
    cpus: Vec<CpuWatch>,
}

/// What is going on at one CPU.
#[derive(Debug, Clone, Default)]
struct CpuWatch {
    /// The wakeup that this CPU's sends belong to.
    open: Option<u64>,
    /// The pid of the selection probe that has not returned.
    selecting: Option<Selection>,
    last_vector: Option<i64>,
    /// Waking and enqueue of the last wakeup queued to this CPU.
    last_queued: Option<(i64, i64)>,
}

impl Resolver {
    pub fn new(recorded: Recorded) -> Self {
        Self {
            recorded,
            events: VecDeque::new(),
            infos: VecDeque::new(),
            released: 0,
            pending: FxHashMap::default(),
            cpus: Vec::new(),
        }
    }

    /// Takes the next event in time order; adds to `out` what is ready.
    #[inline]
    pub fn feed(&mut self, event: Event, out: &mut Batch) {
        let is_wake = self.watch(&event);
        if !is_wake && self.events.is_empty() {
            out.events.push(event);
            return;
        }
        self.events.push_back((event, is_wake));
        while self.head_is_ready() {
            self.pop(out);
        }
    }

    /// At the trace's end: adds all that is held, resolved or not.
    pub fn drain(&mut self, out: &mut Batch) {
        while !self.events.is_empty() {
            self.pop(out);
        }
    }

    #[inline]
    fn head_is_ready(&self) -> bool {
        let Some((head, is_wake)) = self.events.front() else {
            return false;
        };
        if !is_wake || self.infos.front().is_some_and(|info| info.resolved) {
            return true;
        }
        let newest = self.events.back().map_or(head.ts, |(event, _)| event.ts);
        self.events.len() >= HELD_EVENTS || newest.saturating_sub(head.ts) >= HELD_NS
    }

    #[inline]
    fn pop(&mut self, out: &mut Batch) {
        let Some((event, is_wake)) = self.events.pop_front() else {
            return;
        };
        if is_wake {
            out.wakes.extend(self.release());
        }
        out.events.push(event);
    }

    fn release(&mut self) -> Option<WakeInfo> {
        let mut info = self.infos.pop_front()?;
        if !info.resolved {
            self.pending.remove(&info.pid);
            if !self.recorded.wakeup {
                info.assume_enqueue();
            }
        }
        self.released += 1;
        Some(info)
    }

    fn cpu(&mut self, cpu: u32) -> &mut CpuWatch {
        // CPU ids were bounded by the survey; an id beyond is watched in one common slot.
        let slot = (cpu as usize).min(usize::from(u16::MAX));
        if self.cpus.len() <= slot {
            self.cpus.resize(slot + 1, CpuWatch::default());
        }
        &mut self.cpus[slot]
    }

    fn info(&mut self, number: Option<u64>) -> Option<&mut WakeInfo> {
        let slot = number?.checked_sub(self.released)?;
        self.infos.get_mut(usize::try_from(slot).ok()?)
    }

    /// Notes what the event says of wakeups under way. True if it is itself a waking, or a new task's wakeup.
    #[inline]
    fn watch(&mut self, event: &Event) -> bool {
        let cpu = event.cpu;
        match &event.payload {
            Payload::Waking(wake) => self.waking(event, wake),
            Payload::Wakeup(wake) => self.wakeup(event, wake),
            Payload::WakeupNew(wake) => self.wakeup_new(event, wake),
            Payload::Switch { next_pid, .. } => {
                self.close(cpu);
                if !self.recorded.wakeup {
                    self.enqueue_unseen(*next_pid);
                }
            }
            Payload::Migrate { pid, dest_cpu, .. } => {
                let number = self.pending.get(pid).copied();
                if let Some(info) = self.info(number)
                    && info.waking_cpu == cpu
                    && info.migrated.is_none()
                {
                    info.migrated = Some((event.ts, *dest_cpu));
                }
            }
            Payload::CsdQueue { cpu: target, .. } => {
                self.sent(cpu, |info| &mut info.queued_to, (event.ts, *target));
            }
            Payload::IpiSendCpu {
                cpu: target,
                callback,
                ..
            } => self.ipi_sent(cpu, (event.ts, *target), *callback),
            Payload::WakeIdleWithoutIpi { cpu: target } => {
                self.sent(cpu, |info| &mut info.polled, (event.ts, *target));
            }
            Payload::VectorEntry(Vector::Reschedule | Vector::CallFunctionSingle)
            | Payload::IpiEntry { .. } => self.cpu(cpu).last_vector = Some(event.ts),
            Payload::Select(selection) => self.cpu(cpu).selecting = Some(*selection),
            Payload::Selected { cpu: chosen } => self.selected(cpu, event.ts, *chosen),
            _ => {}
        }
        is_wake(event)
    }

    fn waking(&mut self, event: &Event, wake: &Wake) {
        self.close(event.cpu);
        let number = self.released + self.infos.len() as u64;
        let info = WakeInfo::new(wake.pid, event.ts, event.cpu, wake.target_cpu);
        self.infos.push_back(info);
        if let Some(older) = self.pending.insert(wake.pid, number)
            && let Some(info) = self.info(Some(older))
        {
            info.resolved = true;
        }
        self.cpu(event.cpu).open = Some(number);
    }

    fn wakeup(&mut self, event: &Event, wake: &Wake) {
        let Some(number) = self.pending.remove(&wake.pid) else {
            return;
        };
        let target = self.cpu(wake.target_cpu).clone();
        let Some(info) = self.info(Some(number)) else {
            return;
        };
        let queued = event.cpu != info.waking_cpu && event.cpu == wake.target_cpu;
        info.enqueue = Some(Enqueue {
            ts: event.ts,
            cpu: event.cpu,
            chosen: wake.target_cpu,
            flags: event.flags,
            recorded: true,
        });
        let since = info.waking_ns;
        info.vector_seen = target.last_vector.is_some_and(|ts| ts >= since);
        info.behind_another = target
            .last_queued
            .is_some_and(|(waking, enqueue)| waking < since && since < enqueue);
        info.settle_choice();
        let waker = info.waking_cpu;
        if queued {
            self.cpu(wake.target_cpu).last_queued = Some((since, event.ts));
        } else if self.cpu(waker).open == Some(number) {
            self.cpu(waker).open = None;
        }
    }

    /// A new task's IPI, if any, follows its `sched_wakeup_new`: wait for this CPU's next event.
    fn wakeup_new(&mut self, event: &Event, wake: &Wake) {
        self.close(event.cpu);
        let number = self.released + self.infos.len() as u64;
        let mut info = WakeInfo::new(wake.pid, event.ts, event.cpu, wake.target_cpu);
        info.enqueue = Some(Enqueue {
            ts: event.ts,
            cpu: event.cpu,
            chosen: wake.target_cpu,
            flags: event.flags,
            recorded: true,
        });
        info.settle_choice();
        info.resolved = false;
        self.infos.push_back(info);
        self.cpu(event.cpu).open = Some(number);
    }

    /// What follows on this CPU no longer belongs to its last wakeup.
    fn close(&mut self, cpu: u32) {
        let number = self.cpu(cpu).open.take();
        let wakeups_recorded = self.recorded.wakeup;
        let Some(info) = self.info(number).filter(|info| !info.resolved) else {
            return;
        };
        if info.enqueue.is_some() {
            info.resolved = true;
        } else if !wakeups_recorded {
            let pid = info.pid;
            info.assume_enqueue();
            self.pending.remove(&pid);
        }
    }

    /// In a trace without `sched_wakeup`, the switch-in shows that the wakee was enqueued before.
    fn enqueue_unseen(&mut self, pid: i32) {
        let number = self.pending.remove(&pid);
        if let Some(info) = self.info(number) {
            info.assume_enqueue();
        }
    }

    fn sent(
        &mut self,
        cpu: u32,
        field: impl Fn(&mut WakeInfo) -> &mut Option<(i64, u32)>,
        what: (i64, u32),
    ) {
        let number = self.cpu(cpu).open;
        if let Some(info) = self.info(number) {
            // Sends to a CPU other than the chosen one are not this wakeup's.
            if info.goes_to().is_none_or(|target| target == what.1) {
                field(info).get_or_insert(what);
            }
        }
    }

    fn ipi_sent(&mut self, cpu: u32, what: (i64, u32), callback: u64) {
        let number = self.cpu(cpu).open;
        // A reschedule interrupt has no callback, and no queueing before it.
        let queueing = self.recorded.first_send_is_queueing
            && callback != 0
            && self
                .info(number)
                .is_some_and(|info| info.queued_to.is_none());
        if queueing {
            self.sent(cpu, |info| &mut info.queued_to, what);
        } else {
            self.sent(cpu, |info| &mut info.ipi_to, what);
        }
    }

    fn selected(&mut self, cpu: u32, ts: i64, chosen: i32) {
        let Some(selection) = self.cpu(cpu).selecting.take() else {
            return;
        };
        let number = self.pending.get(&selection.pid).copied();
        if let Some(info) = self.info(number)
            && info.waking_cpu == cpu
            && info.probe.is_none()
        {
            info.probe = Some(selection);
            info.probed_cpu = Some(chosen);
            info.probe_ns = Some(ts);
        }
    }
}

impl WakeInfo {
    fn new(pid: i32, waking_ns: i64, waking_cpu: u32, prev_cpu: u32) -> Self {
        Self {
            pid,
            waking_ns,
            waking_cpu,
            prev_cpu,
            enqueue: None,
            choice_ns: None,
            probe: None,
            probed_cpu: None,
            queued_to: None,
            ipi_to: None,
            polled: None,
            vector_seen: false,
            behind_another: false,
            migrated: None,
            probe_ns: None,
            resolved: false,
        }
    }

    /// The chosen CPU, as far as it is known yet.
    fn goes_to(&self) -> Option<u32> {
        self.enqueue
            .map(|e| e.chosen)
            .or(self.migrated.map(|(_, cpu)| cpu))
    }

    /// The choice is the first of: the probe's return, the migration, the queueing or IPI to the chosen
    /// CPU, the enqueue.
    fn settle_choice(&mut self) {
        let Some(enqueue) = self.enqueue else {
            return;
        };
        let to_chosen = |sent: Option<(i64, u32)>| {
            sent.filter(|&(_, cpu)| cpu == enqueue.chosen)
                .map(|(ts, _)| ts)
        };
        let earliest = [
            self.probe_ns,
            self.migrated.map(|(ts, _)| ts),
            to_chosen(self.queued_to),
            to_chosen(self.ipi_to),
            Some(enqueue.ts),
        ];
        self.choice_ns = earliest.into_iter().flatten().min();
        self.resolved = true;
    }

    /// Where `sched_wakeup` was not recorded: enqueued at the choice, on the CPU it was migrated to, else on
    /// its previous one.
    fn assume_enqueue(&mut self) {
        let (ts, chosen) = self.migrated.unwrap_or((self.waking_ns, self.prev_cpu));
        self.enqueue = Some(Enqueue {
            ts,
            cpu: self.waking_cpu,
            chosen,
            flags: ContextFlags::default(),
            recorded: false,
        });
        self.settle_choice();
    }

    /// The last thing the waker did for a queued wakeup: what it paid ends there.
    pub fn last_send_ns(&self) -> Option<i64> {
        [self.queued_to, self.ipi_to, self.polled]
            .into_iter()
            .flatten()
            .map(|(ts, _)| ts)
            .max()
    }
}
