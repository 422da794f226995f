//! A first look over the whole trace, its CPUs side by side: what is in it, and where each task was seen.
//!
//! The `seen` reading of an unknown affinity mask needs to know beforehand on which CPUs a task ever ran or
//! was queued. A task's sightings are kept apart at the instants at which its mask may have changed.
//!
//! Lines of the machine record are kept apart from all other events: they were written before the recording and after
//! it, so they say nothing of what went on then.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cpuset::{CpuMap, CpuSet, MAX_CPU_ID};
use super::flips::ticks::Ticks;
use super::silence::Times;
use ttwu_parsers::event::{Event, NO_TYPE, Payload, is_record_line};
use ttwu_parsers::fault::FaultLog;
use ttwu_parsers::glance::{Glance, Sight};
use ttwu_parsers::trace::Trace;

/// Most markers kept of one part of a trace; and most lines of the machine record, which others do not push out.
const MARKERS: usize = 65_536;

/// The event of x86's local timer interrupt.
const TIMER: &str = "local_timer_entry";

/// By pid: the CPUs it was seen on, in the order in which they were first met.
pub type Sightings = FxHashMap<i32, SmallVec<[Sighting; 4]>>;

/// What the survey found.
#[derive(Debug, Default)]
pub struct Survey {
    pub events: u64,
    /// Events by index of type.
    pub by_type: Vec<u64>,
    /// First and last stamp of any CPU, lines of the machine record apart; `None` without events.
    pub span: Option<(i64, i64)>,
    /// By CPU id, ascending.
    pub cpus: Vec<CpuSurvey>,
    /// CPU ids that events name, with or without events of their own.
    pub named_cpus: Vec<u32>,
    pub sightings: Sightings,
    /// Instants at which a task's mask, or the task behind a pid, may have changed; ascending.
    pub breaks: FxHashMap<i32, Vec<i64>>,
    pub faults: FaultLog,
    /// Events whose CPU id no kernel can have.
    pub bad_cpus: u64,
    /// Texts written to the trace, with their stamps, in time order; at most [`MARKERS`] of each CPU.
    pub markers: Vec<(i64, String)>,
    /// How many more there are.
    pub markers_left_out: usize,
    /// The lines of the machine record among them, which are kept here instead.
    pub record_lines: Vec<(i64, String)>,
    /// The spacing of timer interrupts.
    pub ticks: Ticks,
    /// How many events there are of each time.
    pub times: Times,
}

/// One CPU's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSurvey {
    pub cpu: u32,
    pub events: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// `common_pid` of its first event.
    pub first_pid: i32,
    pub lost_events: u64,
    /// Gaps whose number of events is not known.
    pub uncounted_gaps: u64,
}

/// A CPU on which a pid ran or was queued, between two stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    pub cpu: u32,
    pub first_ns: i64,
    pub last_ns: i64,
}

/// Reads all of a trace once. `tick` is told the bytes read, now and then, from several threads.
pub fn survey(trace: &Trace, tick: &(dyn Fn(u64) + Sync)) -> Survey {
    let types = trace.types().len();
    let timer = trace.types().iter().position(|of| of.name == TIMER);
    let timer = timer
        .and_then(|at| u16::try_from(at).ok())
        .unwrap_or(NO_TYPE);
    trace
        .shards()
        .into_par_iter()
        .map(|mut source| {
            let mut part = Part {
                timer,
                ..Part::new(types)
            };
            let mut told = 0;
            let mut countdown = 0_u32;
            while let Some(glance) = source.next_glance() {
                part.glance(&glance);
                countdown += 1;
                if countdown.is_multiple_of(65_536) {
                    tick(source.bytes_done().saturating_sub(told));
                    told = source.bytes_done();
                }
            }
            tick(source.bytes_done().saturating_sub(told));
            part.survey.faults = source.take_faults();
            part.finish()
        })
        .reduce(Survey::default, Survey::join)
}

impl Survey {
    /// Surveys events that are already in memory, in any order that keeps each CPU's own.
    pub fn of_events(events: &[Event], types: usize) -> Self {
        let mut by_cpu: FxHashMap<u32, Part> = FxHashMap::default();
        for event in events {
            by_cpu
                .entry(event.cpu)
                .or_insert_with(|| Part::new(types))
                .glance(&Glance::from(event.clone()));
        }
        by_cpu
            .into_values()
            .map(Part::finish)
            .fold(Survey::default(), Survey::join)
    }

    /// The CPUs with events of their own, and those that events name.
    pub fn cpu_ids(&self) -> Vec<u32> {
        self.cpus
            .iter()
            .map(|c| c.cpu)
            .chain(self.named_cpus.iter().copied())
            .collect()
    }

    /// Where a pid was seen while the mask it had at `ts` was in force.
    pub fn seen(&self, pid: i32, ts: i64, cpus: &CpuMap) -> CpuSet {
        let (from, to) = self.epoch(pid, ts);
        let mut set = CpuSet::empty(cpus.len());
        for sighting in self.sightings.get(&pid).into_iter().flatten() {
            if sighting.first_ns < to
                && sighting.last_ns >= from
                && let Some(cpu) = cpus.index(sighting.cpu)
            {
                set.insert(cpu);
            }
        }
        set
    }

    /// On how many CPUs a pid was seen for certain while the mask it had at `ts` was in force. Of one on which it was seen
    /// before that and after it, it is not known; nor of the one where it ran as it asked for that mask.
    pub fn surely_seen(&self, pid: i32, ts: i64) -> usize {
        let (from, to) = self.epoch(pid, ts);
        let within = |ns: i64| from < ns && ns < to;
        let sightings = self.sightings.get(&pid).into_iter().flatten();
        let certain = sightings.filter(|s| within(s.first_ns) || within(s.last_ns));
        certain.count()
    }

    /// When a pid was first seen, within a half-open interval, on a CPU that `of` names. A CPU on which it was seen both
    /// before the interval and in it or later counts from the start.
    pub fn first_seen(
        &self,
        pid: i32,
        (from, to): (i64, i64),
        of: impl Fn(u32) -> bool,
    ) -> Option<i64> {
        let sightings = self.sightings.get(&pid).into_iter().flatten();
        let within = sightings.filter(|s| s.first_ns < to && s.last_ns >= from && of(s.cpu));
        within.map(|s| s.first_ns.max(from)).min()
    }

    /// The interval around `ts` in which a pid's mask did not change, half open.
    pub fn epoch(&self, pid: i32, ts: i64) -> (i64, i64) {
        let breaks = self.breaks.get(&pid).map_or(&[][..], Vec::as_slice);
        let after = breaks.partition_point(|&b| b <= ts);
        let from = match after.checked_sub(1) {
            Some(before) => breaks[before],
            None => i64::MIN,
        };
        (from, breaks.get(after).copied().unwrap_or(i64::MAX))
    }

    fn join(mut self, mut other: Survey) -> Survey {
        self.events += other.events;
        if self.by_type.len() < other.by_type.len() {
            std::mem::swap(&mut self.by_type, &mut other.by_type);
        }
        for (mine, theirs) in self.by_type.iter_mut().zip(&other.by_type) {
            *mine += theirs;
        }
        self.span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.join_cpus(other.cpus);
        self.named_cpus.extend(other.named_cpus);
        self.named_cpus.sort_unstable();
        self.named_cpus.dedup();
        for (pid, list) in other.sightings {
            let mine = self.sightings.entry(pid).or_default();
            list.into_iter().for_each(|s| merge_sighting(mine, s));
        }
        for (pid, list) in other.breaks {
            let mine = self.breaks.entry(pid).or_default();
            mine.extend(list);
            mine.sort_unstable();
            mine.dedup();
        }
        self.faults.absorb(other.faults);
        self.bad_cpus += other.bad_cpus;
        self.markers_left_out += other.markers_left_out;
        self.ticks.join(&other.ticks);
        self.times.join(other.times);
        for (mine, theirs) in [
            (&mut self.markers, other.markers),
            (&mut self.record_lines, other.record_lines),
        ] {
            mine.extend(theirs);
            mine.sort_by_key(|(ts, _)| *ts);
        }
        self
    }

    /// A CPU may be split over several parts.
    fn join_cpus(&mut self, other: Vec<CpuSurvey>) {
        for part in other {
            match self.cpus.binary_search_by_key(&part.cpu, |c| c.cpu) {
                Err(at) => self.cpus.insert(at, part),
                Ok(at) => self.cpus[at].join(&part),
            }
        }
    }
}

impl CpuSurvey {
    /// Of a CPU at whose first event, or loss, `pid` was current.
    fn starting(cpu: u32, ts: i64, pid: i32) -> Self {
        Self {
            cpu,
            events: 0,
            first_ns: ts,
            last_ns: ts,
            first_pid: pid,
            lost_events: 0,
            uncounted_gaps: 0,
        }
    }

    fn join(&mut self, part: &Self) {
        self.events += part.events;
        if part.first_ns < self.first_ns {
            self.first_ns = part.first_ns;
            self.first_pid = part.first_pid;
        }
        self.last_ns = self.last_ns.max(part.last_ns);
        self.lost_events += part.lost_events;
        self.uncounted_gaps += part.uncounted_gaps;
    }
}

fn merge_sighting(list: &mut SmallVec<[Sighting; 4]>, new: Sighting) {
    match list.iter_mut().find(|s| s.cpu == new.cpu) {
        Some(old) => {
            old.first_ns = old.first_ns.min(new.first_ns);
            old.last_ns = old.last_ns.max(new.last_ns);
        }
        None => list.push(new),
    }
}

/// The survey of one shard.
struct Part {
    survey: Survey,
    /// First and last stamp.
    span: (i64, i64),
    named: CpuSet,
    recent: Recent,
    /// By CPU: the task there that last woke that CPU's stopper.
    stopper_waker: FxHashMap<u32, StopperWaker>,
    /// The place in `survey.cpus` of the CPU met last.
    current: usize,
    /// How the current task came to that CPU is not known: it is the CPU's first event, or comes after another CPU's or
    /// after a gap.
    unseen: bool,
    /// The type of the timer interrupts' entries.
    timer: u16,
}

/// A task that woke the stopper of the CPU it ran on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StopperWaker {
    waker: i32,
    stopper: i32,
}

impl Part {
    fn new(types: usize) -> Self {
        Self {
            survey: Survey {
                by_type: vec![0; types],
                ..Survey::default()
            },
            span: (i64::MAX, i64::MIN),
            named: CpuSet::empty(MAX_CPU_ID as usize + 1),
            recent: Recent::default(),
            stopper_waker: FxHashMap::default(),
            current: 0,
            unseen: true,
            timer: NO_TYPE,
        }
    }

    fn finish(mut self) -> Survey {
        self.recent.store_all(&mut self.survey.sightings);
        self.survey.span = (self.span.0 <= self.span.1).then_some(self.span);
        self.survey.named_cpus = self.named.iter().map(|cpu| cpu as u32).collect();
        self.survey
    }

    #[inline]
    fn glance(&mut self, event: &Glance) {
        let counts = event.type_index != NO_TYPE;
        if counts {
            self.survey.events += 1;
            if let Some(count) = self.survey.by_type.get_mut(usize::from(event.type_index)) {
                *count += 1;
            }
        }
        if let Sight::Other(Payload::Marker(text)) = &event.sight
            && is_record_line(text)
        {
            // Spaces at the end count: the rest of the line may follow.
            let lines = &mut self.survey.record_lines;
            keep(lines, event.ts, text, is_line_end);
            return;
        }
        if counts {
            self.span.0 = self.span.0.min(event.ts);
            self.span.1 = self.span.1.max(event.ts);
            self.survey.times.see(event.ts);
        }
        if event.cpu > MAX_CPU_ID {
            self.survey.bad_cpus += 1;
            return;
        }
        if counts {
            let cpu = self.cpu(event);
            cpu.events += 1;
            cpu.last_ns = cpu.last_ns.max(event.ts);
            if std::mem::take(&mut self.unseen) && event.pid > 0 {
                self.sight(event.pid, event.cpu, event.ts);
            }
        }
        self.look(event);
    }

    #[inline]
    fn cpu(&mut self, event: &Glance) -> &mut CpuSurvey {
        let current = self.survey.cpus.get(self.current);
        if current.is_none_or(|cpu| cpu.cpu != event.cpu) {
            self.turn_to(event);
        }
        &mut self.survey.cpus[self.current]
    }

    /// Another CPU than before.
    #[inline(never)]
    fn turn_to(&mut self, event: &Glance) {
        let cpus = &mut self.survey.cpus;
        let start = CpuSurvey::starting(event.cpu, event.ts, event.pid);
        self.current = match cpus.binary_search_by_key(&event.cpu, |cpu| cpu.cpu) {
            Ok(at) => {
                cpus[at].join(&start);
                at
            }
            Err(at) => {
                cpus.insert(at, start);
                at
            }
        };
        self.unseen = true;
    }

    #[inline]
    fn look(&mut self, event: &Glance) {
        match &event.sight {
            Sight::Switch { next_pid } => {
                // A stopper that leaves is done with what it was woken for.
                if !self.stopper_waker.is_empty() {
                    let left = |woken: &StopperWaker| woken.stopper == event.pid;
                    if self.stopper_waker.get(&event.cpu).is_some_and(left) {
                        self.stopper_waker.remove(&event.cpu);
                    }
                }
                self.sight(*next_pid, event.cpu, event.ts);
            }
            Sight::Wakeup { pid, target_cpu } => self.sight(*pid, *target_cpu, event.ts),
            Sight::Waking {
                target_cpu,
                stopper,
            } => {
                self.name(*target_cpu);
                let by_task = !event.flags.hardirq() && !event.flags.softirq();
                if event.flags.softirq() && !event.flags.hardirq() {
                    self.survey.ticks.see_soft(event.ts);
                }
                // A balancer wakes the stopper of another CPU.
                if let Some(stopper) = *stopper
                    && by_task
                    && *target_cpu == event.cpu
                {
                    let waker = event.pid;
                    let woken = StopperWaker { waker, stopper };
                    self.stopper_waker.insert(event.cpu, woken);
                }
            }
            Sight::Migrate {
                pid,
                orig_cpu,
                dest_cpu,
            } => {
                self.name(*orig_cpu);
                self.sight(*pid, *dest_cpu, event.ts);
                // A stopper that moves the task which woke it carries out that task's own affinity change.
                let (waker, stopper) = (*pid, event.pid);
                let woken = StopperWaker { waker, stopper };
                if self.stopper_waker.get(&event.cpu) == Some(&woken) {
                    self.stopper_waker.remove(&event.cpu);
                    self.break_at(*pid, event.ts);
                }
            }
            Sight::Other(Payload::Other) => {
                if event.type_index == self.timer && self.timer != NO_TYPE {
                    self.survey.ticks.see(event.cpu, event.ts);
                }
            }
            Sight::Other(payload) => self.payload(event, payload),
        }
    }

    fn payload(&mut self, event: &Glance, payload: &Payload) {
        match payload {
            Payload::Fork { child_pid, .. } => self.break_at(*child_pid, event.ts),
            Payload::Exec { pid, old_pid } if pid != old_pid => self.break_at(*pid, event.ts),
            Payload::SetAffinity { pid } => {
                let pid = if *pid == 0 { event.pid } else { *pid };
                self.break_at(pid, event.ts);
                if pid == event.pid {
                    // It goes on running there.
                    self.sight(pid, event.cpu, event.ts);
                }
            }
            Payload::LossBegin { count } => {
                let cpu = self.cpu(event);
                match count {
                    Some(count) => cpu.lost_events += count,
                    None => cpu.uncounted_gaps += 1,
                }
                self.unseen = true;
            }
            Payload::Marker(text) => {
                let markers = &mut self.survey.markers;
                let kept = keep(markers, event.ts, text, char::is_whitespace);
                self.survey.markers_left_out += usize::from(!kept);
            }
            _ => {}
        }
    }

    fn break_at(&mut self, pid: i32, ts: i64) {
        self.survey.breaks.entry(pid).or_default().push(ts);
    }

    #[inline]
    fn name(&mut self, cpu: u32) {
        self.named.insert(cpu as usize);
    }

    #[inline]
    fn sight(&mut self, pid: i32, cpu: u32, ts: i64) {
        if pid != 0 && self.recent.extend(pid, cpu, ts) {
            return;
        }
        self.name(cpu);
        if pid != 0 && cpu <= MAX_CPU_ID {
            self.recent
                .replace(pid, cpu, ts, &mut self.survey.sightings);
        }
    }
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Keeps a text, without what ends it, if there is room.
fn keep(markers: &mut Vec<(i64, String)>, ts: i64, text: &[u8], end: fn(char) -> bool) -> bool {
    let has_room = markers.len() < MARKERS;
    if has_room {
        let text = String::from_utf8_lossy(text);
        markers.push((ts, text.trim_end_matches(end).to_owned()));
    }
    has_room
}

/// How many pairs of task and CPU are kept at hand.
const RECENT: usize = 256;

/// The sightings that were extended last, each in the slot that its task and CPU lead to: tasks come back to where they
/// were, and a slot is compared in less time than a map is asked. What the map has of them is out of date until they
/// are stored.
struct Recent(Box<[(i32, Sighting); RECENT]>);

/// Pid of an empty slot, of which nothing is kept.
const NOBODY: i32 = 0;

impl Default for Recent {
    fn default() -> Self {
        let empty = Sighting {
            cpu: u32::MAX,
            first_ns: 0,
            last_ns: 0,
        };
        Self(Box::new([(NOBODY, empty); RECENT]))
    }
}

impl Recent {
    #[inline]
    fn slot(&mut self, pid: i32, cpu: u32) -> &mut (i32, Sighting) {
        let spread = pid.cast_unsigned() ^ cpu.wrapping_mul(37);
        &mut self.0[spread as usize % RECENT]
    }

    /// Notes that `pid` was on `cpu` at `ts`, if the two are at hand.
    #[inline]
    fn extend(&mut self, pid: i32, cpu: u32, ts: i64) -> bool {
        let (kept, sighting) = self.slot(pid, cpu);
        if *kept != pid || sighting.cpu != cpu {
            return false;
        }
        sighting.first_ns = sighting.first_ns.min(ts);
        sighting.last_ns = sighting.last_ns.max(ts);
        true
    }

    /// The same for others, which take the place of those that are.
    #[inline(never)]
    fn replace(&mut self, pid: i32, cpu: u32, ts: i64, map: &mut Sightings) {
        let slot = self.slot(pid, cpu);
        store(slot, map);
        let now = Sighting {
            cpu,
            first_ns: ts,
            last_ns: ts,
        };
        let list = map.entry(pid).or_default();
        // In the list from the first sighting on, so that its order does not depend on what is at hand.
        merge_sighting(list, now);
        *slot = (pid, now);
    }

    fn store_all(&self, map: &mut Sightings) {
        self.0.iter().for_each(|slot| store(slot, map));
    }
}

fn store((pid, sighting): &(i32, Sighting), map: &mut Sightings) {
    if *pid != NOBODY {
        merge_sighting(map.entry(*pid).or_default(), *sighting);
    }
}
