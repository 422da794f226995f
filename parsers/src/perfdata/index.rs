//! One pass over the records: where each CPU's events lie in time order, and what was lost.
//!
//! Perf empties the CPUs' rings one after the other, so the file is a sequence of runs: stretches of one CPU's events
//! whose times do not decrease. A run is all that is kept of its events, so memory follows the number of runs:
//!
//! ```text
//! file    | cpu0 10 12 19 | cpu1 11 13 | ROUND | cpu0 21 25 24 | cpu1 20 |
//! cpu 0   | run ───────── |                    | run ─ | run─ |
//! cpu 1                   | run ────── |                       | run ─── |
//! ```
//!
//! A time that decreases within one CPU is rare but possible: the kernel takes an event's time before it
//! reserves room for it, and an interrupt may get in between.

use rustc_hash::FxHashMap;

use crate::bytes::Endian;
use crate::fault::FaultLog;

use super::bound;
use super::decompress::is_compressed;
use super::events::Events;
use super::frames::Frames;
use super::loss::{CpuLosses, MISC_FILTERED};
use super::records::{HEADER_BYTES, Record, RecordType, Stop, little_sample_at, record_at};
use super::sample::Stamp;
use super::stray::{self, STEP_NS};

/// A stretch of one CPU's events in the data, of non-decreasing time without steps of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub first_ts: i64,
    pub last_ts: i64,
    pub start: usize,
    pub end: usize,
}

impl Run {
    pub fn bytes(&self) -> usize {
        self.end - self.start
    }
}

/// What the data holds of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuIndex {
    pub cpu: u32,
    /// By time of their first event.
    pub runs: Vec<Run>,
    pub losses: CpuLosses,
    /// Time of the first event in recorded order; `None` without any.
    pub first_ts: Option<i64>,
    /// Latest time.
    pub last_ts: Option<i64>,
    /// The first thing recorded is a loss.
    pub starts_lossy: bool,
    /// Time of the event met last.
    recent_ts: Option<i64>,
}

/// The index of a whole file.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Ascending by CPU.
    pub cpus: Vec<CpuIndex>,
    /// Samples by event.
    pub samples: Vec<u64>,
    /// Names of tasks that perf wrote without a time: tasks that ran before the recording did.
    pub task_names: Vec<(i32, Vec<u8>)>,
    /// Losses that cannot be given to a CPU.
    pub lost_unplaced: u64,
    /// Samples the user's own filter rejected.
    pub filtered: u64,
    /// Samples that the processor dropped (PEBS).
    pub hardware_lost: u64,
    /// How often the kernel held back an event that came too fast.
    pub throttled: u64,
    /// Samples whose event is unknown.
    pub unknown: u64,
    /// The CPU of every event id, where the file has an ID_INDEX.
    pub id_cpus: FxHashMap<u64, u32>,
    /// Whether those ids follow no thread, by ID_INDEX.
    pub ids_without_thread: Option<bool>,
    /// Whether the recording was of all threads rather than of some, by THREAD_MAP.
    pub all_threads: Option<bool>,
    /// Damage ended the reading: more than the file's being cut off.
    pub damaged: bool,
    /// Bytes in runs.
    pub run_bytes: u64,
    pub faults: FaultLog,
}

/// The data has compressed records and has to be decompressed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compressed;

/// What is known of the records before they are read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// The number that all CPUs of the machine lie below.
    pub cpus_below: Option<u32>,
    /// More was written than is there.
    pub rest_is_lost: bool,
    /// No record can be a compressed one any more.
    pub decompressed: bool,
}

/// Indexes `data[start..]`.
pub(super) fn build(
    data: &[u8],
    start: usize,
    endian: Endian,
    events: &Events,
    known: Known,
) -> Result<Index, Compressed> {
    let mut builder = Builder::new(endian, events, known);
    let mut offset = start;
    loop {
        if let Some(next) = builder.add_plain(data, offset) {
            offset = next;
            continue;
        }
        match record_at(data, offset, endian) {
            Ok(record) => offset = builder.add_any(&record, data)?,
            Err(stop) => match builder.resume(stop, offset, data) {
                Some(next) => offset = next,
                None => {
                    builder.stop(stop, offset, data.len());
                    return Ok(builder.finish(data));
                }
            },
        }
    }
}

impl Index {
    /// Puts runs and losses in order of time.
    pub fn sort_runs(&mut self) {
        for cpu in &mut self.cpus {
            cpu.runs.sort_by_key(|run| run.first_ts);
            cpu.losses.sort();
        }
    }
}

/// A record every 10 ns for hours.
const MOST_LOST: u64 = 1 << 40;

struct Builder<'a> {
    endian: Endian,
    events: &'a Events,
    index: Index,
    by_cpu: FxHashMap<u32, usize>,
    /// The run being extended, its CPU's place in `index.cpus`, and that CPU.
    run: Option<(Run, usize, u32)>,
    /// LOST_SAMPLES by event id; placed in the end, when ID_INDEX has been read wherever it was.
    lost_samples: Vec<(Option<u64>, u64)>,
    /// Sum of the LOST records without a CPU.
    lost_without_cpu: u64,
    known: Known,
    /// Where damage was stepped over last.
    skipped: Option<u64>,
    /// There was damage that no whole records were found behind.
    gave_up: bool,
    /// Samples left out whose CPU is not known.
    lost_nowhere: u64,
}

impl<'a> Builder<'a> {
    fn new(endian: Endian, events: &'a Events, known: Known) -> Self {
        Self {
            endian,
            events,
            index: Index {
                samples: vec![0; events.attrs.len()],
                damaged: known.rest_is_lost,
                ..Index::default()
            },
            by_cpu: FxHashMap::default(),
            run: None,
            lost_samples: Vec::new(),
            lost_without_cpu: 0,
            known,
            skipped: None,
            gave_up: false,
            lost_nowhere: 0,
        }
    }

    /// Adds the record at `offset` if it is what nearly all are, a tracepoint's sample; returns where the next one starts.
    #[inline(always)]
    fn add_plain(&mut self, data: &[u8], offset: usize) -> Option<usize> {
        if self.endian != Endian::Little {
            return None;
        }
        let sample = little_sample_at(data, offset)?;
        let (event, plain) = self.events.plain(sample)?;
        let (cpu, ts) = plain.place(sample)?;
        self.count(event);
        let next = offset + sample.len();
        self.event(offset, next, cpu, ts);
        Some(next)
    }

    #[inline(always)]
    fn count(&mut self, event: u16) {
        if let Some(count) = self.index.samples.get_mut(usize::from(event)) {
            *count += 1;
        }
    }

    /// Adds a record of any kind, and returns where the next one starts: where its size says, unless both the record and
    /// what lies there are damaged, and whole records lie elsewhere.
    fn add_any(&mut self, record: &Record<'_>, data: &[u8]) -> Result<usize, Compressed> {
        let frames = self.frames();
        if !self.gave_up && !frames.is_sound(record) && !frames.go_on_at(data, record.next) {
            if let Some(next) = frames.next_after(data, record.offset) {
                let (kind, size) = (record.kind.0, record.bytes.len());
                self.skip(record.offset, next, || {
                    format!("a record of type {kind} and {size} bytes cannot be")
                });
                return Ok(next);
            }
            self.index.faults.push(record.offset as u64, None, || {
                "a record that cannot be, and none that can be behind it".to_owned()
            });
            self.known.rest_is_lost = true;
            self.gave_up = true;
            self.index.damaged = true;
        }
        self.add(record)?;
        Ok(record.next)
    }

    fn frames(&self) -> Frames<'a> {
        Frames {
            endian: self.endian,
            events: self.events,
            decompressed: self.known.decompressed,
        }
    }

    /// Where whole records lie behind one that is none, which is told.
    fn resume(&mut self, stop: Stop, offset: usize, data: &[u8]) -> Option<usize> {
        let what = match stop {
            Stop::End => return None,
            Stop::Cut { size, .. } => format!("a record of {size} bytes, more than are left"),
            Stop::BadSize(_) => stop.describe()?,
        };
        let next = self.frames().next_after(data, offset)?;
        self.skip(offset, next, || what);
        Some(next)
    }

    /// Whatever was written from `offset` to `next` is lost, on whatever CPU it was.
    fn skip(&mut self, offset: usize, next: usize, what: impl FnOnce() -> String) {
        self.index.faults.push(offset as u64, None, || {
            let bytes = next - offset;
            let what = what();
            format!("{what}: {bytes} bytes up to the next whole record are left out")
        });
        self.end_run();
        self.skipped = Some(offset as u64);
        for cpu in &mut self.index.cpus {
            cpu.starts_lossy |= cpu.first_ts.is_none();
            cpu.losses.lost(offset as u64, None, None);
        }
    }

    fn add(&mut self, record: &Record<'_>) -> Result<(), Compressed> {
        match record.kind {
            RecordType::SAMPLE => self.sample(record),
            RecordType::COMM => self.comm(record),
            RecordType::LOST => self.lost(record),
            RecordType::LOST_SAMPLES => self.lost_samples(record),
            RecordType::THROTTLE => self.index.throttled += 1,
            RecordType::ID_INDEX => self.id_index(record),
            RecordType::THREAD_MAP => self.thread_map(record),
            kind if is_compressed(kind) && !self.known.decompressed => return Err(Compressed),
            _ => {}
        }
        Ok(())
    }

    fn sample(&mut self, record: &Record<'_>) {
        let Some(event) = self.events.of_sample(record.bytes, self.endian) else {
            self.unknown(record);
            return;
        };
        let stamp = self
            .events
            .layout(event)
            .and_then(|layout| layout.stamp(record.bytes, self.endian));
        let Some((cpu, ts)) = stamp.and_then(placed) else {
            self.lose_one(record.offset, stamp.map(|stamp| stamp.cpu));
            self.index.faults.push(record.offset as u64, None, || {
                "a sample is too short for its time and CPU, or its time is beyond 292 years: left out"
                    .to_owned()
            });
            return;
        };
        self.count(event);
        self.event(record.offset, record.next, cpu, ts);
    }

    /// A sample of no event that the file describes: its id is damaged, or the list of ids.
    fn unknown(&mut self, record: &Record<'_>) {
        self.index.unknown += 1;
        let cpu = self.events.cpu_of_any(record.bytes, self.endian);
        self.index.faults.push(record.offset as u64, cpu, || {
            "a sample belongs to no event that the file describes: left out".to_owned()
        });
        // The number may be as damaged.
        self.lose_one(
            record.offset,
            cpu.filter(|cpu| self.by_cpu.contains_key(cpu)),
        );
    }

    /// `u32 pid, tid; char comm[]`. Perf writes the names of tasks that exist already with time 0, and before any event.
    fn comm(&mut self, record: &Record<'_>) {
        let event = self.events.of_other(record.bytes, self.endian);
        let Some(layout) = event.and_then(|event| self.events.layout(event)) else {
            return;
        };
        let stamp = layout.trailer_stamp(record.bytes, self.endian);
        match stamp.and_then(placed) {
            Some((cpu, ts)) if ts > 0 => self.event(record.offset, record.next, cpu, ts),
            _ => {
                let record = layout.before_trailer(record.bytes);
                let tid = self.endian.u32_at(record, HEADER_BYTES + 4);
                let name = record.get(HEADER_BYTES + 8..);
                if let (Some(tid), Some(name)) = (tid, name) {
                    let name = crate::bytes::until_nul(name).to_vec();
                    self.index.task_names.push((tid.cast_signed(), name));
                }
            }
        }
    }

    /// An event of `cpu` at `ts`, from `start` to `end`: extends the run or starts the next.
    #[inline(always)]
    fn event(&mut self, start: usize, end: usize, cpu: u32, ts: i64) {
        if let Some((run, _, run_cpu)) = &mut self.run
            && *run_cpu == cpu
            && ts.wrapping_sub(run.last_ts).cast_unsigned() <= STEP_NS.cast_unsigned()
        {
            run.end = end;
            run.last_ts = ts;
            return;
        }
        self.start_run(start, end, cpu, ts);
    }

    #[inline(never)]
    fn start_run(&mut self, start: usize, end: usize, cpu: u32, ts: i64) {
        self.end_run();
        let place = self.place_of(cpu);
        if let Some(cpu) = self.index.cpus.get_mut(place) {
            if cpu.losses.is_open() {
                cpu.losses.close(cpu.recent_ts, ts);
            }
            cpu.first_ts = cpu.first_ts.or(Some(ts));
        }
        let run = Run {
            first_ts: ts,
            last_ts: ts,
            start,
            end,
        };
        self.run = Some((run, place, cpu));
    }

    fn end_run(&mut self) {
        let Some((run, place, _)) = self.run.take() else {
            return;
        };
        if let Some(cpu) = self.index.cpus.get_mut(place) {
            cpu.runs.push(run);
            cpu.recent_ts = Some(run.last_ts);
            cpu.last_ts = cpu.last_ts.max(Some(run.last_ts));
            self.index.run_bytes += run.bytes() as u64;
        }
    }

    fn place_of(&mut self, cpu: u32) -> usize {
        *self.by_cpu.entry(cpu).or_insert_with(|| {
            let mut index = CpuIndex {
                cpu,
                ..CpuIndex::default()
            };
            if let Some(offset) = self.skipped {
                index.starts_lossy = true;
                index.losses.lost(offset, None, None);
            }
            self.index.cpus.push(index);
            self.index.cpus.len() - 1
        })
    }

    /// An event that cannot be placed in time is lost between its neighbours.
    fn lose_one(&mut self, offset: usize, cpu: Option<u32>) {
        let Some(cpu) = cpu.filter(|&cpu| cpu != u32::MAX) else {
            self.lost_nowhere += 1;
            return;
        };
        self.end_run();
        let place = self.place_of(cpu);
        if let Some(cpu) = self.index.cpus.get_mut(place) {
            cpu.losses.lost(offset as u64, Some(1), None);
        }
    }

    /// `u64 id, lost`.
    fn lost(&mut self, record: &Record<'_>) {
        self.end_run();
        let event = self.events.of_other(record.bytes, self.endian);
        let stamp = event
            .and_then(|event| self.events.layout(event))
            .and_then(|layout| layout.trailer_stamp(record.bytes, self.endian));
        let count = self.lost_count(record, HEADER_BYTES + 8);
        match stamp.and_then(placed) {
            Some((cpu, ts)) if cpu != u32::MAX => {
                let place = self.place_of(cpu);
                if let Some(cpu) = self.index.cpus.get_mut(place) {
                    cpu.starts_lossy |= cpu.first_ts.is_none();
                    let ts = Some(ts).filter(|&ts| ts > 0);
                    cpu.losses.lost(record.offset as u64, count, ts);
                }
            }
            _ => {
                let count = count.unwrap_or(0);
                self.lost_without_cpu = self.lost_without_cpu.saturating_add(count);
            }
        }
    }

    /// How many events a record says were lost, if that can be.
    fn lost_count(&mut self, record: &Record<'_>, at: usize) -> Option<u64> {
        let count = self.endian.u64_at(record.bytes, at)?;
        if count < MOST_LOST {
            return Some(count);
        }
        self.index.faults.push(record.offset as u64, None, || {
            format!("a record says that {count} events were lost, more than there can be: taken for an unknown number")
        });
        None
    }

    /// `u64 lost`.
    fn lost_samples(&mut self, record: &Record<'_>) {
        let count = self.lost_count(record, HEADER_BYTES).unwrap_or(0);
        if record.misc & MISC_FILTERED != 0 {
            self.index.filtered = self.index.filtered.saturating_add(count);
            return;
        }
        let event = self.events.of_other(record.bytes, self.endian);
        let ts = event
            .and_then(|event| self.events.layout(event))
            .and_then(|layout| layout.trailer_stamp(record.bytes, self.endian))
            .and_then(|stamp| stamp.ts);
        if ts.is_some_and(|ts| ts > 0) {
            self.index.hardware_lost = self.index.hardware_lost.saturating_add(count);
        } else {
            let id = self.events.trailer_id(record.bytes, self.endian);
            self.lost_samples.push((id, count));
        }
    }

    /// `u64 nr; { u64 id, idx, cpu, tid } [nr]`; a tid of -1 is an event that follows a CPU, not a thread.
    fn id_index(&mut self, record: &Record<'_>) {
        let entries = record.bytes.get(HEADER_BYTES + 8..).unwrap_or_default();
        for entry in entries.chunks_exact(32) {
            let word = |at| self.endian.u64_at(entry, at).unwrap_or(0);
            if let Ok(cpu) = u32::try_from(word(16)) {
                self.index.id_cpus.insert(word(0), cpu);
            }
            let no_thread = word(24) as u32 == u32::MAX;
            let all = self.index.ids_without_thread.unwrap_or(true);
            self.index.ids_without_thread = Some(all && no_thread);
        }
    }

    /// `u64 nr; { u64 pid; char comm[16] } [nr]`; the one entry -1 stands for all threads.
    fn thread_map(&mut self, record: &Record<'_>) {
        let word = |at| self.endian.u64_at(record.bytes, HEADER_BYTES + at);
        if let (Some(count), Some(first)) = (word(0), word(8)) {
            self.index.all_threads = Some(count == 1 && first as u32 == u32::MAX);
        }
    }

    fn stop(&mut self, stop: Stop, offset: usize, end: usize) {
        if let Some(what) = stop.describe_rest(end.saturating_sub(offset)) {
            self.known.rest_is_lost = true;
            self.index.damaged |= matches!(stop, Stop::BadSize(_));
            self.index.faults.push(offset as u64, None, || what);
        }
    }

    /// Where something is lost, all that a CPU has may be: those without an event that can be read have a loss, too.
    fn place_named(&mut self) {
        let lossy = self.known.rest_is_lost || self.skipped.is_some();
        if lossy && self.has_events() {
            let named: Vec<u32> = self.index.id_cpus.values().copied().collect();
            for cpu in named {
                self.place_of(cpu);
            }
        }
    }

    fn has_events(&self) -> bool {
        self.index.cpus.iter().any(|cpu| cpu.first_ts.is_some())
    }

    /// Every CPU that was recorded may have lost events.
    fn lose_rest(&mut self) {
        if !self.has_events() {
            return;
        }
        for cpu in &mut self.index.cpus {
            cpu.losses.lose_rest();
        }
    }

    fn finish(mut self, data: &[u8]) -> Index {
        self.end_run();
        let (endian, events) = (self.endian, self.events);
        let nowhere = match self.known.cpus_below {
            Some(below) => bound::leave_out(&mut self.index, below, data, endian, events),
            None => 0,
        };
        self.by_cpu = (0..)
            .zip(&self.index.cpus)
            .map(|(place, cpu)| (cpu.cpu, place))
            .collect();
        self.place_lost_samples();
        self.place_named();
        if self.known.rest_is_lost {
            self.lose_rest();
        }
        let nowhere = nowhere.saturating_add(self.lost_nowhere);
        let mut index = self.index;
        let believed = stray::believed(&index.cpus);
        let strayed = stray::leave_out(&mut index, believed, data, endian, events);
        let first = index.cpus.iter().filter_map(|cpu| cpu.first_ts).min();
        let last = index.cpus.iter().filter_map(|cpu| cpu.last_ts).max();
        for cpu in &mut index.cpus {
            cpu.losses
                .finish(cpu.last_ts, first.unwrap_or(0), last.unwrap_or(0));
        }
        index.cpus.sort_by_key(|cpu| cpu.cpu);
        index.sort_runs();
        let placed = index.cpus.iter().flat_map(|cpu| &cpu.losses.losses);
        let placed = placed.fold(0_u64, |sum, loss| {
            sum.saturating_add(loss.count.unwrap_or(0))
        });
        let placed = placed.saturating_sub(strayed);
        let by_lost = index.cpus.iter().fold(self.lost_without_cpu, |sum, cpu| {
            sum.saturating_add(cpu.losses.by_lost())
        });
        let by_samples = self
            .lost_samples
            .iter()
            .fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        index.lost_unplaced = by_lost.max(by_samples).saturating_sub(placed);
        index.lost_unplaced = index.lost_unplaced.saturating_add(nowhere);
        index
    }

    fn place_lost_samples(&mut self) {
        for at in 0..self.lost_samples.len() {
            let Some(&(Some(id), count)) = self.lost_samples.get(at) else {
                continue;
            };
            if let Some(&cpu) = self.index.id_cpus.get(&id) {
                let place = self.place_of(cpu);
                if let Some(cpu) = self.index.cpus.get_mut(place) {
                    cpu.losses.lost_samples(count);
                }
            }
        }
    }
}

/// CPU and time as the event model has them; `None` for a time it cannot hold. Records without a time get 0.
#[inline]
fn placed(stamp: Stamp) -> Option<(u32, i64)> {
    Some((stamp.cpu, i64::try_from(stamp.ts.unwrap_or(0)).ok()?))
}
