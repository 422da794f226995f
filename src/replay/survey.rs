//! A first look over the whole trace, its CPUs side by side: what is in it, and where each task was seen.
//!
//! The `seen` reading of an unknown affinity mask needs to know beforehand on which CPUs a task ever ran or
//! was queued. A task's sightings are kept apart at the instants at which its mask may have changed.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cpuset::{CpuMap, CpuSet, MAX_CPU_ID};
use ttwu_parsers::event::{Event, NO_TYPE, Payload};
use ttwu_parsers::fault::FaultLog;
use ttwu_parsers::trace::Trace;

/// Most markers kept of one part of a trace.
const MARKERS: usize = 65_536;

/// What the survey found.
#[derive(Debug, Default)]
pub struct Survey {
    pub events: u64,
    /// Events by index of type.
    pub by_type: Vec<u64>,
    /// First and last stamp of any CPU; `None` without events.
    pub span: Option<(i64, i64)>,
    /// By CPU id, ascending.
    pub cpus: Vec<CpuSurvey>,
    /// CPU ids that events name, with or without events of their own.
    pub named_cpus: Vec<u32>,
    pub sightings: FxHashMap<i32, SmallVec<[Sighting; 4]>>,
    /// Instants at which a task's mask, or the task behind a pid, may have changed; ascending.
    pub breaks: FxHashMap<i32, Vec<i64>>,
    pub faults: FaultLog,
    /// Events whose CPU id no kernel can have.
    pub bad_cpus: u64,
    /// Texts written to the trace, with their stamps, in time order; at most [`MARKERS`] of each CPU.
    pub markers: Vec<(i64, String)>,
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
    trace
        .shards()
        .into_par_iter()
        .map(|mut source| {
            let mut part = Part::new(types);
            let mut told = 0;
            let mut countdown = 0_u32;
            while let Some(event) = source.next_event() {
                part.event(&event);
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
                .event(event);
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
        self.markers.extend(other.markers);
        self.markers.sort_by_key(|(ts, _)| *ts);
        self
    }

    /// A CPU may be split over several parts.
    fn join_cpus(&mut self, other: Vec<CpuSurvey>) {
        for part in other {
            match self.cpus.binary_search_by_key(&part.cpu, |c| c.cpu) {
                Err(at) => self.cpus.insert(at, part),
                Ok(at) => {
                    let mine = &mut self.cpus[at];
                    mine.events += part.events;
                    if part.first_ns < mine.first_ns {
                        mine.first_ns = part.first_ns;
                        mine.first_pid = part.first_pid;
                    }
                    mine.last_ns = mine.last_ns.max(part.last_ns);
                    mine.lost_events += part.lost_events;
                    mine.uncounted_gaps += part.uncounted_gaps;
                }
            }
        }
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
    named: CpuSet,
    /// By CPU: the task that last woke the stopper there.
    stopper_waker: FxHashMap<u32, i32>,
    current: Option<CpuSurvey>,
    after_gap: bool,
}

impl Part {
    fn new(types: usize) -> Self {
        Self {
            survey: Survey {
                by_type: vec![0; types],
                ..Survey::default()
            },
            named: CpuSet::empty(MAX_CPU_ID as usize + 1),
            stopper_waker: FxHashMap::default(),
            current: None,
            after_gap: false,
        }
    }

    fn finish(mut self) -> Survey {
        self.close_cpu();
        self.survey.named_cpus = self.named.iter().map(|cpu| cpu as u32).collect();
        self.survey
    }

    fn close_cpu(&mut self) {
        if let Some(cpu) = self.current.take() {
            self.survey.join_cpus(vec![cpu]);
        }
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        if event.type_index != NO_TYPE {
            self.count(event);
        }
        if event.cpu > MAX_CPU_ID {
            self.survey.bad_cpus += 1;
            return;
        }
        if event.type_index != NO_TYPE {
            let cpu = self.cpu(event);
            cpu.events += 1;
            cpu.last_ns = cpu.last_ns.max(event.ts);
            // How the task came to its CPU was not recorded.
            let first = self.current.as_ref().is_some_and(|c| c.events == 1);
            if (first || self.after_gap) && event.pid > 0 {
                self.sight(event.pid, event.cpu, event.ts);
            }
            self.after_gap = false;
        }
        self.payload(event);
    }

    #[inline]
    fn count(&mut self, event: &Event) {
        self.survey.events += 1;
        if let Some(count) = self.survey.by_type.get_mut(usize::from(event.type_index)) {
            *count += 1;
        }
        let span = self.survey.span.get_or_insert((event.ts, event.ts));
        *span = (span.0.min(event.ts), span.1.max(event.ts));
    }

    #[inline]
    fn cpu(&mut self, event: &Event) -> &mut CpuSurvey {
        if self.current.as_ref().is_some_and(|c| c.cpu != event.cpu) {
            self.close_cpu();
        }
        self.current.get_or_insert(CpuSurvey {
            cpu: event.cpu,
            events: 0,
            first_ns: event.ts,
            last_ns: event.ts,
            first_pid: event.pid,
            lost_events: 0,
            uncounted_gaps: 0,
        })
    }

    #[inline]
    fn payload(&mut self, event: &Event) {
        match &event.payload {
            Payload::Switch { next_pid, .. } => self.sight(*next_pid, event.cpu, event.ts),
            Payload::Wakeup(wake) | Payload::WakeupNew(wake) => {
                self.sight(wake.pid, wake.target_cpu, event.ts);
            }
            Payload::Waking(wake) => {
                self.name(wake.target_cpu);
                if wake.comm.as_bytes().starts_with(b"migration/") && !event.flags.hardirq() {
                    self.stopper_waker.insert(event.cpu, event.pid);
                }
            }
            Payload::Migrate {
                pid,
                orig_cpu,
                dest_cpu,
                ..
            } => {
                self.name(*orig_cpu);
                self.sight(*pid, *dest_cpu, event.ts);
                // A stopper that moves the task which woke it carries out that task's own affinity change.
                if self.stopper_waker.get(&event.cpu) == Some(pid) && event.pid != *pid {
                    self.stopper_waker.remove(&event.cpu);
                    self.break_at(*pid, event.ts);
                }
            }
            Payload::Fork { child_pid, .. } => self.break_at(*child_pid, event.ts),
            Payload::Exec { pid, old_pid } if pid != old_pid => self.break_at(*pid, event.ts),
            Payload::SetAffinity { pid } => {
                let pid = if *pid == 0 { event.pid } else { *pid };
                self.break_at(pid, event.ts);
            }
            Payload::LossBegin { count } => {
                self.after_gap = true;
                let cpu = self.cpu(event);
                match count {
                    Some(count) => cpu.lost_events += count,
                    None => cpu.uncounted_gaps += 1,
                }
            }
            Payload::Marker(text) if self.survey.markers.len() < MARKERS => {
                let text = String::from_utf8_lossy(text).trim_end().to_owned();
                self.survey.markers.push((event.ts, text));
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
        self.name(cpu);
        if pid == 0 || cpu > MAX_CPU_ID {
            return;
        }
        let list = self.survey.sightings.entry(pid).or_default();
        match list.iter_mut().find(|s| s.cpu == cpu) {
            Some(old) => {
                old.first_ns = old.first_ns.min(ts);
                old.last_ns = old.last_ns.max(ts);
            }
            None => list.push(Sighting {
                cpu,
                first_ns: ts,
                last_ns: ts,
            }),
        }
    }
}
