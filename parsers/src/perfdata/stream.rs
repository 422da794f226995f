//! The events in time order, read run by run.
//!
//! A CPU's stream keeps those of its runs open that overlap (nearly always one), and opens the next when its first
//! event is due. All CPUs' streams together are merged by time, the lower CPU first where times are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::bytes::Endian;
use crate::decode::{DecodeFault, Decoder};
use crate::event::{Comm, ContextFlags, Event, NO_TYPE, Payload};
use crate::fault::FaultLog;
use crate::trace::EventSource;

use super::events::Events;
use super::index::{CpuIndex, Run};
use super::loss::Loss;
use super::records::{HEADER_BYTES, Record, RecordType, record_at};

/// What reading events needs of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub data: &'a [u8],
    pub endian: Endian,
    pub events: &'a Events,
    pub decoder: &'a Decoder,
    /// `Event::type_index` of each event's samples, used where they cannot be decoded.
    pub type_indexes: &'a [u16],
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
    is_sample: bool,
}

impl Source<'_> {
    /// The first event in `start..end`, read as the index reads them.
    #[inline]
    fn head(&self, start: usize, end: usize) -> Option<Head> {
        let mut offset = start;
        while offset < end {
            let record = record_at(self.data, offset, self.endian).ok()?;
            if let Some((event, ts, is_sample)) = self.due(&record) {
                return Some(Head {
                    ts,
                    offset,
                    next: record.next,
                    end,
                    event,
                    is_sample,
                });
            }
            offset = record.next;
        }
        None
    }

    /// The record's event, time, and whether it is a sample; `None` for a record that yields no event.
    #[inline]
    fn due(&self, record: &Record<'_>) -> Option<(u16, i64, bool)> {
        match record.kind {
            RecordType::SAMPLE => {
                let event = self.events.of_sample(record.bytes, self.endian)?;
                let stamp = self
                    .events
                    .layout(event)?
                    .stamp(record.bytes, self.endian)?;
                Some((event, i64::try_from(stamp.ts.unwrap_or(0)).ok()?, true))
            }
            RecordType::COMM => {
                let event = self.events.of_other(record.bytes, self.endian)?;
                let layout = self.events.layout(event)?;
                let stamp = layout.trailer_stamp(record.bytes, self.endian)?;
                let ts = i64::try_from(stamp.ts?).ok()?;
                (ts > 0).then_some((event, ts, false))
            }
            _ => None,
        }
    }

    /// The event at `head`.
    #[inline]
    fn event(&self, head: &Head, cpu: u32, faults: &mut FaultLog) -> Option<Event> {
        let record = self.data.get(head.offset..head.next)?;
        if !head.is_sample {
            return self.task_name(record, head, cpu);
        }
        let layout = self.events.layout(head.event)?;
        let (pid, tid) = layout.task(record, self.endian);
        if let Some(raw) = layout.raw(record, self.endian)
            && self.is_tracepoint(head.event)
        {
            match self.decoder.decode(raw, head.ts, cpu) {
                // Both name the current task, but perf's numbers are of its own PID namespace: where they differ the
                // process would be another's.
                Ok(event) => {
                    let tgid = if tid == event.pid { pid } else { -1 };
                    return Some(Event { tgid, ..event });
                }
                Err(fault) => report(fault, head, cpu, faults),
            }
        }
        let index = self.type_indexes.get(usize::from(head.event));
        Some(Event {
            ts: head.ts,
            cpu,
            pid: tid,
            tgid: pid,
            flags: ContextFlags::default(),
            type_index: index.copied().unwrap_or(NO_TYPE),
            payload: Payload::Other,
        })
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
    source: Source<'a>,
    index: &'a CpuIndex,
    /// The runs not opened yet.
    runs: std::slice::Iter<'a, Run>,
    /// The next event of each open run, the earliest on top.
    open: BinaryHeap<Reverse<Head>>,
    losses: Losses<'a>,
    bytes: u64,
}

impl<'a> CpuStream<'a> {
    /// All of a CPU's stream.
    fn new(source: Source<'a>, index: &'a CpuIndex) -> Self {
        Self::part(source, index, &index.runs, &index.losses.losses)
    }

    /// Some of its runs, with some of its losses.
    fn part(source: Source<'a>, index: &'a CpuIndex, runs: &'a [Run], losses: &'a [Loss]) -> Self {
        let mut stream = Self {
            source,
            index,
            runs: runs.iter(),
            open: BinaryHeap::new(),
            losses: Losses::new(losses),
            bytes: 0,
        };
        stream.open_due();
        stream
    }

    /// Opens the runs that start no later than the next event.
    #[inline]
    fn open_due(&mut self) {
        while let Some(run) = self.runs.as_slice().first() {
            if self
                .open
                .peek()
                .is_some_and(|Reverse(head)| head.ts < run.first_ts)
            {
                return;
            }
            self.runs.next();
            if let Some(head) = self.source.head(run.start, run.end) {
                self.open.push(Reverse(head));
            }
        }
    }

    /// When the next event is due, and its place in the data.
    #[inline]
    fn due(&self) -> Option<(i64, u64)> {
        let event = self
            .open
            .peek()
            .map(|Reverse(head)| (head.ts, head.offset as u64));
        match (event, self.losses.due()) {
            (Some(event), Some(loss)) => Some(event.min(loss)),
            (event, loss) => event.or(loss),
        }
    }

    /// The earliest event, which its run's next one replaces.
    #[inline]
    fn take_head(&mut self) -> Option<Head> {
        let mut top = self.open.peek_mut()?;
        let head = top.0;
        let next = self.source.head(head.next, head.end);
        // What lies between is no event but read all the same.
        let reached = next.map_or(head.end, |next| next.offset);
        self.bytes += reached.saturating_sub(head.offset) as u64;
        match next {
            Some(next) => top.0 = next,
            None => {
                PeekMut::pop(top);
            }
        }
        Some(head)
    }

    /// What is due next.
    #[inline]
    fn take(&mut self) -> Option<Due> {
        if let Some(loss) = self.losses.due()
            && self
                .open
                .peek()
                .is_none_or(|Reverse(head)| loss < (head.ts, head.offset as u64))
        {
            return self.losses.next(self.index.cpu).map(Due::Loss);
        }
        let head = self.take_head()?;
        self.open_due();
        Some(Due::Head(head))
    }
}

/// What a stream yields: the place of an event, decoded only when all bookkeeping is done so that it is built where the
/// caller wants it; or the edge of a loss.
enum Due {
    Head(Head),
    Loss(Event),
}

/// A CPU's losses as events: their begins and ends, each in order.
struct Losses<'a> {
    begins: std::iter::Peekable<std::slice::Iter<'a, Loss>>,
    /// Ends of the losses begun, by time.
    ends: BinaryHeap<Reverse<(i64, u64)>>,
}

impl<'a> Losses<'a> {
    fn new(losses: &'a [Loss]) -> Self {
        Self {
            begins: losses.iter().peekable(),
            ends: BinaryHeap::new(),
        }
    }

    /// A begin comes behind the event before the LOST record, an end before the event after it: at equal times the
    /// record's own place decides.
    #[inline]
    fn due(&self) -> Option<(i64, u64)> {
        if self.begins.len() == 0 && self.ends.is_empty() {
            return None;
        }
        let begin = self.begins.clone().next();
        let begin = begin.map(|loss| (loss.begin, loss.offset));
        let end = self.ends.peek().map(|Reverse(end)| *end);
        match (begin, end) {
            (Some(begin), Some(end)) => Some(begin.min(end)),
            (begin, end) => begin.or(end),
        }
    }

    fn next(&mut self, cpu: u32) -> Option<Event> {
        let due = self.due()?;
        if self.ends.peek() == Some(&Reverse(due)) {
            self.ends.pop();
            return Some(loss_event(due.0, cpu, Payload::LossEnd));
        }
        let loss = self.begins.next()?;
        self.ends
            .push(Reverse((loss.end, loss.offset.saturating_add(1))));
        let count = Some(loss.count);
        Some(loss_event(loss.begin, cpu, Payload::LossBegin { count }))
    }
}

fn loss_event(ts: i64, cpu: u32, payload: Payload) -> Event {
    Event {
        ts,
        cpu,
        pid: -1,
        tgid: -1,
        flags: ContextFlags::default(),
        type_index: NO_TYPE,
        payload,
    }
}

/// Some CPUs' events in time order.
pub(super) struct Merged<'a> {
    streams: Vec<CpuStream<'a>>,
    /// When each stream's next event is due, the earliest on top; CPUs ascend with their place in `streams`.
    due: BinaryHeap<Reverse<(i64, usize)>>,
    faults: FaultLog,
}

impl<'a> Merged<'a> {
    /// `cpus` ascend. `faults` are those already met.
    pub fn new(
        source: Source<'a>,
        cpus: impl Iterator<Item = &'a CpuIndex>,
        faults: FaultLog,
    ) -> Self {
        let streams = cpus.map(|cpu| CpuStream::new(source, cpu)).collect();
        Self::of(streams, faults)
    }

    /// One CPU's stream in parts of about `bytes` each, to be read side by side. The losses are in the first.
    pub fn parts(source: Source<'a>, cpu: &'a CpuIndex, bytes: u64) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut losses = cpu.losses.losses.as_slice();
        let (mut start, mut filled) = (0, 0);
        for (at, run) in cpu.runs.iter().enumerate() {
            filled += (run.end - run.start) as u64;
            let last = at + 1 == cpu.runs.len();
            if filled >= bytes || last {
                let runs = cpu.runs.get(start..=at).unwrap_or_default();
                let stream = CpuStream::part(source, cpu, runs, std::mem::take(&mut losses));
                parts.push(Self::of(vec![stream], FaultLog::default()));
                (start, filled) = (at + 1, 0);
            }
        }
        if !losses.is_empty() {
            let stream = CpuStream::part(source, cpu, &[], losses);
            parts.push(Self::of(vec![stream], FaultLog::default()));
        }
        parts
    }

    /// Tells these faults too.
    pub fn add_faults(&mut self, faults: FaultLog) {
        self.faults.absorb(faults);
    }

    fn of(streams: Vec<CpuStream<'a>>, faults: FaultLog) -> Self {
        let due = streams
            .iter()
            .enumerate()
            .filter_map(|(place, stream)| stream.due().map(|(ts, _)| Reverse((ts, place))))
            .collect();
        Self {
            streams,
            due,
            faults,
        }
    }
}

impl EventSource for Merged<'_> {
    fn next_event(&mut self) -> Option<Event> {
        loop {
            let mut top = self.due.peek_mut()?;
            let place = top.0.1;
            let Some(stream) = self.streams.get_mut(place) else {
                PeekMut::pop(top);
                continue;
            };
            let (next, source, cpu) = (stream.take(), stream.source, stream.index.cpu);
            match stream.due() {
                Some((ts, _)) => top.0.0 = ts,
                None => {
                    PeekMut::pop(top);
                }
            }
            let event = match next {
                Some(Due::Head(head)) => source.event(&head, cpu, &mut self.faults),
                Some(Due::Loss(event)) => Some(event),
                None => None,
            };
            if let Some(event) = event {
                return Some(event);
            }
        }
    }

    fn bytes_done(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bytes).sum()
    }

    fn take_faults(&mut self) -> FaultLog {
        std::mem::take(&mut self.faults)
    }
}
