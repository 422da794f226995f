//! One CPU's events in recorded order.

use super::clock::CpuStamps;
use super::judge::{Limit, Place};
use super::page::{Missed, PageCursor, PageLayout, Step};
use super::pages::{NextPage, Pages};
use crate::decode::{DecodeFault, Decoder, Reading, Seen, Whole};
use crate::event::{ContextFlags, Event, NO_TYPE, Payload};
use crate::fault::FaultLog;
use crate::glance::Glance;
use crate::plausible::{SLACK_NS, Span};
use crate::trace::EventSource;

/// Reads one record ahead, so that a merge knows the next stamp, and a loss is known before its first event.
#[derive(Debug)]
pub(crate) struct CpuStream<'a> {
    cpu: u32,
    pages: Pages<'a>,
    decoder: &'a Decoder,
    layout: PageLayout,
    stamps: CpuStamps<'a>,
    believed: Span,
    /// Of the current page.
    limit: Limit,
    cursor: PageCursor,
    /// Where the current page's data ends.
    end: usize,
    next: Option<Record>,
    /// That record has been given already.
    taken: bool,
    /// What is to be emitted before the next record.
    gap: Gap,
    /// Losses since the last record.
    missed: Missed,
    /// Some of them are damage, not what the kernel missed.
    damaged: bool,
    /// What is damaged reaches beyond the last page.
    ends_early: bool,
    /// Stamp of the last record, or of the first page before there was one; `None` before that.
    last: Option<i64>,
    faults: FaultLog,
}

/// So many pages are looked at for two whose stamps can be read.
const AHEAD: usize = 4;

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
        pages: Pages<'a>,
        decoder: &'a Decoder,
        layout: PageLayout,
        stamps: CpuStamps<'a>,
        believed: Span,
    ) -> Self {
        let mut stream = Self {
            cpu: pages.cpu(),
            pages,
            decoder,
            layout,
            stamps,
            believed,
            limit: Limit::until(believed.last),
            cursor: PageCursor::default(),
            end: 0,
            next: None,
            taken: false,
            gap: Gap::None,
            missed: Missed::Nothing,
            damaged: false,
            ends_early: false,
            last: None,
            faults: FaultLog::default(),
        };
        stream.advance();
        stream
    }

    /// The same stream with a fault that was found before it was opened, for which it ends too early.
    pub fn with_fault(mut self, offset: u64, what: impl FnOnce() -> String) -> Self {
        self.ends_early = true;
        self.faults.push(offset, Some(self.cpu), what);
        self
    }

    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The stamp of what comes next; `None` at the end. The stream is settled.
    #[inline]
    pub fn next_stamp(&self) -> Option<i64> {
        match self.gap {
            Gap::Begin { ts, .. } => Some(ts),
            _ => self.next.map(|record| record.ts),
        }
    }

    /// Leaves the record behind that was taken last.
    #[inline(always)]
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.taken) {
            self.last = self.next.map(|record| record.ts);
            self.advance();
        }
    }

    /// Whether the next thing is a record, and comes before `until`. The stream is settled.
    #[inline(always)]
    pub fn goes_on(&self, until: i64) -> bool {
        matches!(self.gap, Gap::None) && self.next.is_some_and(|record| record.ts < until)
    }

    /// Takes the next record, if that is what comes next and it is of the kind that nearly all are. The stream is settled.
    #[inline(always)]
    pub fn take_whole(&mut self) -> Option<Whole<'_>> {
        if !matches!(self.gap, Gap::None) {
            return None;
        }
        // Not a copy: a processor waits where it reads at once what was written in parts.
        let record = self.next.as_ref()?;
        let page = self.pages.page();
        let raw = page.get(record.start..record.end)?;
        let whole = self.decoder.whole(raw, Seen::at(record.ts, self.cpu))?;
        self.taken = true;
        Some(whole)
    }

    /// Takes whatever comes next; `None` if that is a record that cannot be decoded, or the end. The stream is settled.
    #[inline(never)]
    pub fn take_any(&mut self) -> Option<Event> {
        if !matches!(self.gap, Gap::None) {
            return self.take_gap();
        }
        let record = self.next?;
        self.taken = true;
        let page = self.pages.page();
        let raw = page.get(record.start..record.end).unwrap_or_default();
        let seen = Seen::at(record.ts, self.cpu);
        match self.decoder.decode_any(raw, &seen) {
            Ok(event) => Some(event),
            Err(fault) => {
                self.note(fault, record.start);
                None
            }
        }
    }

    fn take_gap(&mut self) -> Option<Event> {
        let (ts, payload) = match self.gap {
            Gap::Begin { ts, count } => {
                // Behind the last record nothing ends it.
                self.gap = match self.next {
                    Some(_) => Gap::End,
                    None => Gap::None,
                };
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
            watched: false,
            type_index: NO_TYPE,
            payload,
        })
    }

    /// Finds the next record, on the next pages if need be.
    #[inline(always)]
    fn advance(&mut self) {
        let page = self.pages.page();
        let data = page.get(..self.end).unwrap_or_default();
        match self.cursor.step_plain(data, &self.layout) {
            Some((start, end, stamp)) => {
                if let Err(refused) = self.arrive(start, end, stamp) {
                    self.advance_page(refused);
                }
            }
            None => {
                let step = self.step();
                self.advance_page(step);
            }
        }
    }

    fn step(&mut self) -> Step {
        let page = self.pages.page();
        let data = page.get(..self.end).unwrap_or_default();
        self.cursor.step(data, &self.layout)
    }

    /// Makes the record found the next one. If its stamp cannot be right, returns what to go on with.
    #[inline(always)]
    fn arrive(&mut self, start: usize, end: usize, stamp: u64) -> Result<(), Step> {
        let ts = match self.stamps.nanoseconds(stamp) {
            Ok(ts) if ts <= self.limit.last && self.last.is_some_and(|last| last <= ts) => ts,
            ts => self.unlikely(ts, stamp, start)?,
        };
        self.next = Some(Record { ts, start, end });
        if self.missed != Missed::Nothing {
            self.open_gap();
        }
        Ok(())
    }

    /// Goes on from `step`, on the next pages if need be.
    #[inline(never)]
    fn advance_page(&mut self, mut step: Step) {
        loop {
            match step {
                Step::Record { start, end, stamp } => match self.arrive(start, end, stamp) {
                    Ok(()) => return,
                    Err(refused) => {
                        step = refused;
                        continue;
                    }
                },
                Step::End => {}
                Step::Damaged { at } => self.damaged(at),
            }
            if !self.next_page() {
                return self.end();
            }
            step = self.step();
        }
    }

    /// After the last record only the begin of a loss may come, which nothing ends.
    #[cold]
    fn end(&mut self) {
        self.next = None;
        if std::mem::take(&mut self.ends_early) {
            self.lose_to_damage();
        }
        if self.damaged {
            self.open_gap();
        }
    }

    /// Turns on the loss that precedes the record just found. What the kernel missed before a CPU's first record is no
    /// gap: nothing is known of the time before it anyway. Damage there is: without it the first record would not be
    /// taken for the first.
    fn open_gap(&mut self) {
        let first = self.next.filter(|_| self.damaged).map(|record| record.ts);
        if let (Missed::Events(count), Some(ts)) = (self.missed, self.last.or(first)) {
            self.gap = Gap::Begin { ts, count };
        }
        self.missed = Missed::Nothing;
        self.damaged = false;
    }

    /// Moves to the next page that has a usable head.
    fn next_page(&mut self) -> bool {
        loop {
            match self.pages.next(&mut self.faults) {
                NextPage::End { lost } => {
                    self.ends_early |= lost;
                    return false;
                }
                NextPage::Page { lost: true } => self.lose_to_damage(),
                NextPage::Page { lost: false } => {}
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
            self.lose_to_damage();
            return false;
        }
        if let Missed::Events(count) = head.missed {
            self.lose(count);
        }
        if self.layout.is_void(&head) {
            self.faults.push(offset, Some(self.cpu), || {
                "A page's head is all zeros; the page was left out.".to_owned()
            });
            self.lose_to_damage();
            return false;
        }
        // An empty page's stamp says nothing.
        if head.end > self.layout.header.data_offset && !self.judge_page(head.stamp) {
            return false;
        }
        if self.last.is_none() && self.missed == Missed::Nothing {
            let stamp = self.stamps.nanoseconds(head.stamp).ok();
            self.last = stamp.filter(|&stamp| self.believed.contains(stamp));
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

    /// Whether the page's stamp can be right, and until when its events may be.
    fn judge_page(&mut self, stamp: u64) -> bool {
        let size = self.pages.page_size();
        let mut ahead = self.pages.ahead().take(AHEAD).filter_map(|page| {
            let stamp = self.layout.stamp_ahead(page, size)?;
            let stamp = self.stamps.nanoseconds(stamp).ok()?;
            self.believed.contains(stamp).then_some(stamp)
        });
        let place = Place {
            before: self.last,
            stamp: self.stamps.nanoseconds(stamp).ok(),
            next: [ahead.next(), ahead.next()],
        };
        drop(ahead);
        let Some(limit) = place.limit(self.believed) else {
            self.leave_page_out(&place);
            return false;
        };
        self.limit = limit;
        true
    }

    #[cold]
    fn leave_page_out(&mut self, place: &Place) {
        self.lose_to_damage();
        let believed = self.believed;
        self.faults
            .push(self.pages.offset(), Some(self.cpu), || match place.stamp {
                None => "A page's stamp is out of range; the page was left out.".to_owned(),
                Some(stamp) if stamp > believed.last => {
                    let far = believed.distance(stamp);
                    format!("A page's stamp is {far}; the page was left out.")
                }
                Some(_) => {
                    "A page's stamp contradicts the pages before and after it; it was left out."
                        .to_owned()
                }
            });
    }

    /// An unknown number of events is damaged.
    fn lose_to_damage(&mut self) {
        self.damaged = true;
        self.lose(None);
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
        self.lose_to_damage();
    }

    /// A stamp that is the CPU's first, out of range, too late, or before the last one: the stamp if it is believed.
    /// Otherwise those behind it, which build on it, are not either, unless it is only too early.
    #[cold]
    fn unlikely(&mut self, ts: Result<i64, i64>, raw: u64, start: usize) -> Result<i64, Step> {
        let what = match ts {
            Err(_) => format!("stamp {raw} is out of range"),
            Ok(ts) if ts > self.limit.last => self.beyond(ts),
            Ok(ts) if ts < self.believed.first => return Err(self.too_early(ts, start)),
            Ok(ts) => {
                let last = self.last.unwrap_or(ts);
                let by = last.saturating_sub(ts);
                // Where the next page is not after the last event either, the clock was set back.
                let contradicted = self.limit.by_next && last <= self.limit.last;
                if !contradicted || by <= SLACK_NS {
                    self.back_in_time(by, start);
                    return Ok(ts);
                }
                format!("stamp is {by} ns before that of the event recorded before it")
            }
        };
        let rest = self.end.saturating_sub(start);
        self.leave_out(start, || {
            format!("An event's {what}; the page's last {rest} bytes were left out.")
        });
        Err(Step::End)
    }

    fn too_early(&mut self, ts: i64, start: usize) -> Step {
        let far = self.believed.distance(ts);
        self.leave_out(start, || {
            format!("An event's stamp is {far}; it was left out.")
        });
        self.step()
    }

    fn leave_out(&mut self, start: usize, what: impl FnOnce() -> String) {
        let offset = self.pages.offset().saturating_add(start as u64);
        self.faults.push(offset, Some(self.cpu), what);
        self.lose_to_damage();
    }

    fn beyond(&self, ts: i64) -> String {
        match self.limit.by_next {
            true => "stamp is later than the page that follows".to_owned(),
            false => format!("stamp is {}", self.believed.distance(ts)),
        }
    }

    /// The order of a CPU's ring buffer is certain, its stamps are not; the order is kept.
    fn back_in_time(&mut self, by: i64, start: usize) {
        if by == 0 {
            return;
        }
        let offset = self.pages.offset().saturating_add(start as u64);
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

impl CpuStream<'_> {
    #[inline(always)]
    fn read_next<R: Reading>(&mut self) -> Option<R> {
        loop {
            self.settle();
            if self.next.is_none() && matches!(self.gap, Gap::None) {
                return None;
            }
            // Asked twice of one record only if it is unusual.
            if let Some(whole) = self.take_whole() {
                return R::of_whole(&whole);
            }
            if let Some(event) = self.take_any() {
                return Some(R::of_event(event));
            }
        }
    }
}

impl EventSource for CpuStream<'_> {
    fn next_event(&mut self) -> Option<Event> {
        self.read_next()
    }

    fn next_glance(&mut self) -> Option<Glance> {
        self.read_next()
    }

    fn bytes_done(&self) -> u64 {
        self.pages.bytes_done()
    }

    fn take_faults(&mut self) -> FaultLog {
        std::mem::take(&mut self.faults)
    }
}
