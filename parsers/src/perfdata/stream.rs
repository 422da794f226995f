//! The events in time order, read run by run.
//!
//! A CPU's stream keeps those of its runs open that overlap (nearly always one), and opens the next when its first
//! event is due. All CPUs' streams together are merged by time, the lower CPU first where times are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::bytes::Endian;
use crate::decode::{DecodeFault, Decoder, Reading, Seen, Whole};
use crate::event::{Comm, ContextFlags, Event, NO_TYPE, Payload};
use crate::fault::FaultLog;
use crate::glance::Glance;
use crate::trace::EventSource;

use super::counting::Counting;
use super::events::Events;
use super::index::{CpuIndex, Run};
use super::loss::Loss;
use super::loss_edges::Losses;
use super::records::{HEADER_BYTES, Record, RecordType, little_sample_at, record_at};

/// What reading events needs of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub data: &'a [u8],
    pub endian: Endian,
    pub events: &'a Events,
    pub decoder: &'a Decoder,
    /// `Event::type_index` of each event's samples, used where they cannot be decoded.
    pub type_indexes: &'a [u16],
    pub counting: &'a Counting,
}

/// An event that is due next in its run: where it is, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    ts: i64,
    offset: usize,
    next: usize,
    /// The run's end.
    end: usize,
    event: u16,
    what: What,
}

/// What is known of a record when its time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A tracepoint's sample: its task, and where its raw data starts and ends in it.
    Plain {
        process: i32,
        thread: i32,
        raw: (u16, u16),
    },
    Sample,
    /// A sample whose counters are told first.
    Counting,
    Comm,
}

impl Source<'_> {
    /// The first event in `start..end`, read as the index reads them.
    #[inline(always)]
    fn head(&self, start: usize, end: usize) -> Option<Head> {
        match self.plain_head(start, end) {
            Some(head) => Some(head),
            None => self.any_head(start, end),
        }
    }

    /// The record at `start` if it is of the kind that nearly all are: a little-endian tracepoint sample.
    #[inline(always)]
    fn plain_head(&self, start: usize, end: usize) -> Option<Head> {
        if start >= end || self.endian != Endian::Little {
            return None;
        }
        let record = little_sample_at(self.data, start)?;
        let (event, plain) = self.events.plain(record)?;
        let sample = plain.read(record)?;
        Some(Head {
            ts: sample.ts,
            offset: start,
            next: start + record.len(),
            end,
            event,
            what: What::Plain {
                process: sample.process,
                thread: sample.thread,
                raw: sample.raw,
            },
        })
    }

    #[inline(never)]
    fn any_head(&self, start: usize, end: usize) -> Option<Head> {
        let mut offset = start;
        while offset < end {
            let record = record_at(self.data, offset, self.endian).ok()?;
            if let Some((event, ts, what)) = self.due(&record) {
                return Some(Head {
                    ts,
                    offset,
                    next: record.next,
                    end,
                    event,
                    what,
                });
            }
            offset = record.next;
        }
        None
    }

    /// The record's event, time, and what it is; `None` for a record that yields no event.
    fn due(&self, record: &Record<'_>) -> Option<(u16, i64, What)> {
        match record.kind {
            RecordType::SAMPLE => {
                let event = self.events.of_sample(record.bytes, self.endian)?;
                let layout = self.events.layout(event)?;
                let stamp = layout.stamp(record.bytes, self.endian)?;
                let ts = i64::try_from(stamp.ts.unwrap_or(0)).ok()?;
                let what = match self.counting.leads(event) {
                    true => What::Counting,
                    false => What::Sample,
                };
                Some((event, ts, what))
            }
            RecordType::COMM => {
                let event = self.events.of_other(record.bytes, self.endian)?;
                let layout = self.events.layout(event)?;
                let stamp = layout.trailer_stamp(record.bytes, self.endian)?;
                let ts = i64::try_from(stamp.ts?).ok()?;
                (ts > 0).then_some((event, ts, What::Comm))
            }
            _ => None,
        }
    }

    /// The record at `head`, if nothing about it is unusual.
    #[inline(always)]
    fn whole(&self, head: &Head, cpu: u32) -> Option<Whole<'_>> {
        let What::Plain {
            process,
            thread,
            raw: (start, end),
        } = head.what
        else {
            return None;
        };
        let record = self.data.get(head.offset..)?;
        let raw = record.get(usize::from(start)..usize::from(end))?;
        let seen = Seen {
            ts: head.ts,
            cpu,
            process,
            thread,
        };
        self.decoder.whole(raw, seen)
    }

    /// The event at `head`, whatever it is.
    #[inline(never)]
    fn any_event(&self, head: &Head, cpu: u32, faults: &mut FaultLog) -> Option<Event> {
        let record = self.data.get(head.offset..head.next)?;
        if head.what == What::Comm {
            return self.task_name(record, head, cpu);
        }
        let layout = self.events.layout(head.event)?;
        let (process, thread) = layout.task(record, self.endian);
        let seen = Seen {
            ts: head.ts,
            cpu,
            process,
            thread,
        };
        if let Some(raw) = layout.raw(record, self.endian)
            && self.is_tracepoint(head.event)
        {
            match self.decoder.decode_any(raw, &seen) {
                Ok(event) => return Some(event),
                Err(fault) => report(fault, head, cpu, faults),
            }
        }
        Some(self.counted(head, &seen))
    }

    /// What the counters held as the sample at `head` was taken; `None` if the sample does not tell.
    fn counters(&self, head: &Head, cpu: u32) -> Option<Event> {
        let record = self.data.get(head.offset..head.next)?;
        let layout = self.events.layout(head.event)?;
        let group = layout.group(record, self.endian)?;
        let (process, thread) = layout.task(record, self.endian);
        Some(Event {
            ts: head.ts,
            cpu,
            pid: thread,
            tgid: process,
            flags: ContextFlags::default(),
            watched: false,
            type_index: NO_TYPE,
            payload: Payload::Counters(self.counting.read(self.events, &group)?),
        })
    }

    /// A sample that is not decoded.
    fn counted(&self, head: &Head, seen: &Seen) -> Event {
        let index = self.type_indexes.get(usize::from(head.event));
        Event {
            ts: seen.ts,
            cpu: seen.cpu,
            pid: seen.thread,
            tgid: seen.process,
            flags: ContextFlags::default(),
            watched: false,
            type_index: index.copied().unwrap_or(NO_TYPE),
            payload: Payload::Other,
        }
    }

    #[inline]
    fn is_tracepoint(&self, event: u16) -> bool {
        let attr = self.events.attrs.get(usize::from(event));
        attr.is_some_and(|attr| attr.is_tracepoint())
    }

    /// `u32 pid, tid; char comm[]`, then the trailer.
    fn task_name(&self, record: &[u8], head: &Head, cpu: u32) -> Option<Event> {
        let layout = self.events.layout(head.event)?;
        let current = layout.trailer_tid(record, self.endian);
        let record = layout.before_trailer(record);
        let tgid = self.endian.u32_at(record, HEADER_BYTES)?.cast_signed();
        let tid = self.endian.u32_at(record, HEADER_BYTES + 4)?.cast_signed();
        let name = record.get(HEADER_BYTES + 8..)?;
        Some(Event {
            ts: head.ts,
            cpu,
            pid: current.unwrap_or(-1),
            tgid: if current == Some(tid) { tgid } else { -1 },
            flags: ContextFlags::default(),
            watched: false,
            type_index: NO_TYPE,
            payload: Payload::TaskName {
                tgid,
                tid,
                comm: Comm::new(name),
            },
        })
    }
}

#[cold]
fn report(fault: DecodeFault, head: &Head, cpu: u32, faults: &mut FaultLog) {
    // A tracepoint without a format is its event's own type, and no damage.
    if let DecodeFault::Short { .. } = fault {
        faults.push(head.offset as u64, Some(cpu), || {
            "a sample ends before a field that its event's format names: counted, not decoded"
                .to_owned()
        });
    }
}

/// One CPU's events and losses, in time order.
struct CpuStream<'a> {
    index: &'a CpuIndex,
    /// The runs not opened yet.
    runs: std::slice::Iter<'a, Run>,
    /// The next event of the run that is read.
    head: Option<Head>,
    /// The next event of each other open run, the earliest on top: nearly always there is none.
    others: BinaryHeap<Reverse<Head>>,
    losses: Losses<'a>,
    /// Before this time only the run that is read has anything to give.
    calm_until: i64,
    bytes: u64,
}

impl<'a> CpuStream<'a> {
    /// All of a CPU's stream.
    fn new(source: &Source<'a>, index: &'a CpuIndex) -> Self {
        Self::part(source, index, &index.runs, &index.losses.losses)
    }

    /// Some of its runs, with some of its losses.
    fn part(source: &Source<'a>, index: &'a CpuIndex, runs: &'a [Run], losses: &'a [Loss]) -> Self {
        let mut stream = Self {
            index,
            runs: runs.iter(),
            head: None,
            others: BinaryHeap::new(),
            losses: Losses::new(losses),
            calm_until: i64::MIN,
            bytes: 0,
        };
        stream.settle(source);
        stream
    }

    /// The time of the next event, if nothing else can be due.
    #[inline(always)]
    fn calm(&self) -> Option<i64> {
        let head = self.head.as_ref()?;
        (head.ts < self.calm_until).then_some(head.ts)
    }

    /// Opens the runs that start no later than the next event, and reads on in the one whose event is earliest.
    #[inline(never)]
    fn settle(&mut self, source: &Source<'a>) {
        loop {
            self.put_earliest_first();
            let Some(run) = self.runs.as_slice().first() else {
                break;
            };
            if self.head.is_some_and(|head| head.ts < run.first_ts) {
                break;
            }
            self.runs.next();
            if let Some(head) = source.head(run.start, run.end) {
                self.others.push(Reverse(head));
            }
        }
        self.calm_until = self.next_disturbance();
    }

    fn put_earliest_first(&mut self) {
        let Some(mut top) = self.others.peek_mut() else {
            return;
        };
        match &mut self.head {
            None => self.head = Some(PeekMut::pop(top).0),
            Some(head) if top.0 < *head => std::mem::swap(head, &mut top.0),
            Some(_) => {}
        }
    }

    fn next_disturbance(&self) -> i64 {
        let run = self.runs.as_slice().first().map(|run| run.first_ts);
        let other = self.others.peek().map(|Reverse(head)| head.ts);
        let loss = self.losses.due().map(|(ts, _)| ts);
        let all = [run, other, loss].into_iter().flatten();
        all.min().unwrap_or(i64::MAX)
    }

    /// When the next event is due, after settling what is not.
    #[inline(always)]
    fn due(&mut self, source: &Source<'a>) -> Option<i64> {
        if let Some(ts) = self.calm() {
            return Some(ts);
        }
        self.settle(source);
        self.due_at()
    }

    /// The same of a settled stream.
    #[inline(never)]
    fn due_at(&self) -> Option<i64> {
        let event = self.head.map(|head| head.ts);
        let loss = self.losses.due().map(|(ts, _)| ts);
        [event, loss].into_iter().flatten().min()
    }

    /// Whether the edge of a loss is due next, and no event. The stream is settled.
    #[inline(always)]
    fn is_loss_due(&self) -> bool {
        self.calm().is_none() && self.is_loss_first()
    }

    #[inline(never)]
    fn is_loss_first(&self) -> bool {
        let head = self.head.map(|head| (head.ts, head.offset as u64));
        let loss = self.losses.due();
        loss.is_some_and(|loss| head.is_none_or(|head| loss < head))
    }

    fn take_loss(&mut self) -> Option<Event> {
        let event = self.losses.next(self.index.cpu);
        self.calm_until = self.next_disturbance();
        event
    }

    /// Goes on to the run's next event.
    #[inline(always)]
    fn step(&mut self, source: &Source<'a>) {
        let Some(head) = &mut self.head else {
            return;
        };
        match source.plain_head(head.next, head.end) {
            Some(next) => {
                self.bytes += (next.offset - head.offset) as u64;
                *head = next;
            }
            None => self.step_over(source),
        }
    }

    /// The same over records that are no events, and to the run's end.
    #[inline(never)]
    fn step_over(&mut self, source: &Source<'a>) {
        let Some(head) = self.head else {
            return;
        };
        self.head = source.any_head(head.next, head.end);
        // What lies between is no event but read all the same.
        let reached = self.head.map_or(head.end, |next| next.offset);
        self.bytes += reached.saturating_sub(head.offset) as u64;
    }
}

/// Some CPUs' events in time order. A CPU is read on while its events are the earliest, and only then compared to the
/// others.
pub(super) struct Merged<'a> {
    source: Source<'a>,
    streams: Vec<CpuStream<'a>>,
    /// When each waiting stream's next event is due, the earliest on top; CPUs ascend with their place in `streams`.
    waiting: BinaryHeap<Reverse<(i64, usize)>>,
    /// The place of the stream that is read.
    current: usize,
    /// Its next event has been given already.
    taken: bool,
    /// Before this time nothing but the run that is read there has anything to give.
    until: i64,
    faults: FaultLog,
}

impl<'a> Merged<'a> {
    /// `cpus` ascend. `faults` are those already met.
    pub fn new(
        source: Source<'a>,
        cpus: impl Iterator<Item = &'a CpuIndex>,
        faults: FaultLog,
    ) -> Self {
        let streams = cpus.map(|cpu| CpuStream::new(&source, cpu)).collect();
        Self::of(source, streams, faults)
    }

    /// One CPU's stream in parts of about `bytes` each, to be read side by side. The losses are in the first.
    pub fn parts(source: Source<'a>, cpu: &'a CpuIndex, bytes: u64) -> Vec<Self> {
        let part = |runs: &'a [Run], losses: &'a [Loss]| {
            let stream = CpuStream::part(&source, cpu, runs, losses);
            Self::of(source, vec![stream], FaultLog::default())
        };
        let mut parts = Vec::new();
        let mut losses = cpu.losses.losses.as_slice();
        let (mut start, mut filled) = (0, 0);
        for (at, run) in cpu.runs.iter().enumerate() {
            filled += (run.end - run.start) as u64;
            let last = at + 1 == cpu.runs.len();
            if filled >= bytes || last {
                let runs = cpu.runs.get(start..=at).unwrap_or_default();
                parts.push(part(runs, std::mem::take(&mut losses)));
                (start, filled) = (at + 1, 0);
            }
        }
        if !losses.is_empty() {
            parts.push(part(&[], losses));
        }
        parts
    }

    /// Tells these faults too.
    pub fn add_faults(&mut self, faults: FaultLog) {
        self.faults.absorb(faults);
    }

    fn of(source: Source<'a>, streams: Vec<CpuStream<'a>>, faults: FaultLog) -> Self {
        let waiting = streams
            .iter()
            .enumerate()
            .filter_map(|(place, stream)| stream.due_at().map(|ts| Reverse((ts, place))))
            .collect();
        Self {
            source,
            streams,
            waiting,
            // None yet.
            current: usize::MAX,
            taken: false,
            until: i64::MIN,
            faults,
        }
    }

    #[inline(always)]
    fn next<R: Reading>(&mut self) -> Option<R> {
        loop {
            if !self.goes_on() {
                match self.turn()? {
                    Due::Event => {}
                    Due::Loss => return self.take_loss().map(R::of_event),
                }
            }
            self.taken = true;
            let stream = self.streams.get(self.current)?;
            let (head, cpu) = (stream.head.as_ref()?, stream.index.cpu);
            if let Some(whole) = self.source.whole(head, cpu) {
                return R::of_whole(&whole);
            }
            if head.what == What::Counting {
                match self.counters() {
                    Some(counters) => return Some(R::of_event(counters)),
                    None => continue,
                }
            }
            if let Some(event) = self.source.any_event(head, cpu, &mut self.faults) {
                return Some(R::of_event(event));
            }
        }
    }

    /// The counters of the sample that is due, which itself comes next.
    #[inline(never)]
    fn counters(&mut self) -> Option<Event> {
        self.taken = false;
        let stream = self.streams.get_mut(self.current)?;
        let head = stream.head.as_mut()?;
        head.what = What::Sample;
        self.source.counters(head, stream.index.cpu)
    }

    /// Leaves the event behind that was taken last. Whether the next one is certain to be of the same run.
    #[inline(always)]
    fn goes_on(&mut self) -> bool {
        let Some(stream) = self.streams.get_mut(self.current) else {
            return false;
        };
        if std::mem::take(&mut self.taken) {
            stream.step(&self.source);
        }
        stream
            .head
            .as_ref()
            .is_some_and(|head| head.ts < self.until)
    }

    /// Turns to the stream that has what is due next.
    #[inline(never)]
    fn turn(&mut self) -> Option<Due> {
        self.current = self.choose()?;
        let stream = self.streams.get_mut(self.current)?;
        if stream.is_loss_due() {
            return Some(Due::Loss);
        }
        let waiting = self.waiting.peek().map(|Reverse((ts, _))| *ts);
        self.until = waiting.map_or(stream.calm_until, |ts| ts.min(stream.calm_until));
        Some(Due::Event)
    }

    /// The edge of a loss that is due.
    #[inline(never)]
    fn take_loss(&mut self) -> Option<Event> {
        // What comes next has to be found out anew.
        self.until = i64::MIN;
        self.streams.get_mut(self.current)?.take_loss()
    }

    /// The place of the stream with the earliest event; all others wait.
    #[inline(always)]
    fn choose(&mut self) -> Option<usize> {
        let current = self.streams.get_mut(self.current).and_then(|stream| {
            let ts = stream.due(&self.source)?;
            Some((ts, self.current))
        });
        let (_, place) = match (current, self.waiting.peek_mut()) {
            (Some(current), Some(mut first)) if first.0 < current => {
                std::mem::replace(&mut *first, Reverse(current)).0
            }
            (Some(current), _) => current,
            (None, Some(first)) => PeekMut::pop(first).0,
            (None, None) => return None,
        };
        Some(place)
    }
}

/// What a stream has next.
enum Due {
    Event,
    /// The edge of a loss.
    Loss,
}

impl EventSource for Merged<'_> {
    fn next_event(&mut self) -> Option<Event> {
        self.next()
    }

    fn next_glance(&mut self) -> Option<Glance> {
        self.next()
    }

    fn bytes_done(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bytes).sum()
    }

    fn take_faults(&mut self) -> FaultLog {
        std::mem::take(&mut self.faults)
    }
}
