//! One CPU's events in recorded order.

use super::clock::{CpuStamps, Stamps};
use super::page::{Missed, PageCursor, PageLayout, Step};
use super::pages::{NextPage, Pages};
use crate::decode::{DecodeFault, Decoder};
use crate::event::{ContextFlags, Event, NO_TYPE, Payload};
use crate::fault::FaultLog;
use crate::trace::EventSource;

/// Reads one record ahead, so that a merge knows the next stamp, and a loss is known before its first event.
#[derive(Debug)]
pub(crate) struct CpuStream<'a> {
    cpu: u32,
    pages: Pages<'a>,
    decoder: &'a Decoder,
    layout: PageLayout,
    stamps: CpuStamps<'a>,
    cursor: PageCursor,
    /// Where the current page's data ends.
    end: usize,
    next: Option<Record>,
    /// What is to be emitted before the next record.
    gap: Gap,
    /// Losses since the last record.
    missed: Missed,
    /// Stamp of the last record, or of the first page before there was one; `None` before that.
    last: Option<i64>,
    faults: FaultLog,
}

/// A record in the current page.
#[derive(Debug, Clone, Copy)]
struct Record {
    ts: i64,
    start: usize,
    end: usize,
}

/// A loss on its way out.
#[derive(Debug, Clone, Copy)]
enum Gap {
    None,
    Begin { ts: i64, count: Option<u64> },
    End,
}

impl<'a> CpuStream<'a> {
    pub fn new(
        cpu: u32,
        pages: Pages<'a>,
        decoder: &'a Decoder,
        layout: PageLayout,
        stamps: &'a Stamps,
    ) -> Self {
        let mut stream = Self {
            cpu,
            pages,
            decoder,
            layout,
            stamps: stamps.of_cpu(cpu),
            cursor: PageCursor::default(),
            end: 0,
            next: None,
            gap: Gap::None,
            missed: Missed::Nothing,
            last: None,
            faults: FaultLog::default(),
        };
        stream.advance();
        stream
    }

    /// The same stream with a fault that was found before it was opened.
    pub fn with_fault(mut self, offset: u64, what: impl FnOnce() -> String) -> Self {
        self.faults.push(offset, Some(self.cpu), what);
        self
    }

    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The stamp of what [`Self::take`] gives next; `None` at the end.
    #[inline]
    pub fn next_stamp(&self) -> Option<i64> {
        match self.gap {
            Gap::Begin { ts, .. } => Some(ts),
            _ => self.next.map(|record| record.ts),
        }
    }

    /// Takes what comes next; `None` if that is a record that cannot be decoded, or the end.
    #[inline]
    pub fn take(&mut self) -> Option<Event> {
        if !matches!(self.gap, Gap::None) {
            return self.take_gap();
        }
        let record = self.next?;
        let raw = self
            .pages
            .page()
            .get(record.start..record.end)
            .unwrap_or_default();
        let event = self.decoder.decode(raw, record.ts, self.cpu);
        let event = match event {
            Ok(event) => Some(event),
            Err(fault) => {
                self.note(fault, record.start);
                None
            }
        };
        self.last = Some(record.ts);
        self.advance();
        event
    }

    fn take_gap(&mut self) -> Option<Event> {
        let (ts, payload) = match self.gap {
            Gap::Begin { ts, count } => {
                self.gap = Gap::End;
                (ts, Payload::LossBegin { count })
            }
            _ => {
                self.gap = Gap::None;
                (self.next?.ts, Payload::LossEnd)
            }
        };
        Some(Event {
            ts,
            cpu: self.cpu,
            pid: -1,
            tgid: -1,
            flags: ContextFlags::default(),
            type_index: NO_TYPE,
            payload,
        })
    }

    /// Finds the next record, on the next pages if need be.
    #[inline]
    fn advance(&mut self) {
        loop {
            let page = self.pages.page();
            let data = page.get(..self.end).unwrap_or_default();
            match self.cursor.step(data, &self.layout) {
                Step::Record { start, end, stamp } => {
                    let ts = self.nanoseconds(stamp, start);
                    if self.last.is_some_and(|last| ts < last) {
                        self.back_in_time(ts, start);
                    }
                    self.next = Some(Record { ts, start, end });
                    if self.missed != Missed::Nothing {
                        self.open_gap();
                    }
                    return;
                }
                Step::End => {}
                Step::Damaged { at } => self.damaged(at),
            }
            if !self.next_page() {
                self.next = None;
                return;
            }
        }
    }

    /// Turns on the loss that precedes the record just found. Losses before a CPU's first record are no gap:
    /// nothing is known of the time before it anyway.
    fn open_gap(&mut self) {
        if let (Missed::Events(count), Some(ts)) = (self.missed, self.last) {
            self.gap = Gap::Begin { ts, count };
        }
        self.missed = Missed::Nothing;
    }

    /// Moves to the next page that has a usable head.
    fn next_page(&mut self) -> bool {
        loop {
            let NextPage::Page { lost } = self.pages.next(&mut self.faults) else {
                return false;
            };
            if lost {
                self.lose(None);
            }
            if self.enter_page() {
                return true;
            }
        }
    }

    /// Reads the current page's head.
    fn enter_page(&mut self) -> bool {
        let (offset, length) = (self.pages.offset(), self.pages.page().len());
        let Some(head) = self.layout.head(self.pages.page()) else {
            self.faults.push(offset, Some(self.cpu), || {
                format!(
                    "The last page has {length} bytes, less than its head needs; it was left out."
                )
            });
            return false;
        };
        if head.end > self.pages.page_size() {
            self.faults.push(offset, Some(self.cpu), || {
                let size = head.end.saturating_sub(self.layout.header.data_offset);
                format!("A page claims {size} bytes of data, more than fit; it was left out.")
            });
            self.lose(None);
            return false;
        }
        if let Missed::Events(count) = head.missed {
            self.lose(count);
        }
        if self.last.is_none() && self.missed == Missed::Nothing {
            self.last = self.stamps.nanoseconds(head.stamp).ok();
        }
        self.cursor = PageCursor::new(&self.layout, &head);
        self.end = head.end.min(length);
        if head.end > length {
            self.faults.push(offset, Some(self.cpu), || {
                let missing = head.end.saturating_sub(length);
                format!("The last page lacks {missing} bytes of its data; what is whole was read.")
            });
        }
        true
    }

    /// Adds a loss to those since the last record.
    fn lose(&mut self, count: Option<u64>) {
        self.missed = match (self.missed, count) {
            (Missed::Events(Some(before)), Some(more)) => {
                Missed::Events(Some(before.saturating_add(more)))
            }
            (Missed::Events(None), _) => Missed::Events(None),
            _ => Missed::Events(count),
        };
    }

    #[cold]
    fn damaged(&mut self, at: usize) {
        let offset = self.pages.offset().saturating_add(at as u64);
        let rest = self.end.saturating_sub(at);
        // The last page of a truncated file ends within an event; that fault is known already.
        if self.end == self.pages.page().len() && self.end < self.pages.page_size() {
            return;
        }
        self.faults.push(offset, Some(self.cpu), || {
            format!(
                "An event does not fit into its page; the page's last {rest} bytes were left out."
            )
        });
        self.lose(None);
    }

    #[inline]
    fn nanoseconds(&mut self, raw: u64, start: usize) -> i64 {
        match self.stamps.nanoseconds(raw) {
            Ok(ts) => ts,
            Err(nearest) => {
                self.stamp_fault(raw, start, nearest);
                nearest
            }
        }
    }

    #[cold]
    fn stamp_fault(&mut self, raw: u64, start: usize, nearest: i64) {
        let offset = self.pages.offset().saturating_add(start as u64);
        self.faults.push(offset, Some(self.cpu), || {
            format!("An event's stamp {raw} is out of range; {nearest} ns stands for it.")
        });
    }

    /// The order of a CPU's ring buffer is certain, its stamps are not; the order is kept.
    #[cold]
    fn back_in_time(&mut self, ts: i64, start: usize) {
        let offset = self.pages.offset().saturating_add(start as u64);
        let by = self.last.unwrap_or(ts).saturating_sub(ts);
        self.faults.push(offset, Some(self.cpu), || {
            format!("An event's stamp is {by} ns before that of the event recorded before it.")
        });
    }

    #[cold]
    fn note(&mut self, fault: DecodeFault, start: usize) {
        let offset = self.pages.offset().saturating_add(start as u64);
        let types = self.decoder.types();
        self.faults.push(offset, Some(self.cpu), || match fault {
            DecodeFault::UnknownType(id) => {
                format!("No event format describes type {id}; the event was left out.")
            }
            DecodeFault::Short { type_index } => {
                let name = types
                    .get(usize::from(type_index))
                    .map_or("?", |t| t.name.as_str());
                format!("An event `{name}` is shorter than its format says; it was left out.")
            }
        });
    }
}

impl EventSource for CpuStream<'_> {
    #[inline]
    fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            self.next?;
        }
    }

    fn bytes_done(&self) -> u64 {
        self.pages.bytes_done()
    }

    fn take_faults(&mut self) -> FaultLog {
        std::mem::take(&mut self.faults)
    }
}
