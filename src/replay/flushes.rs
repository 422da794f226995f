//! TLB shootdowns: who changed mappings, how much, whom it asked, and how long it waited for them.
//!
//! Source: `flush_tlb_mm_range`, `native_flush_tlb_multi` and `flush_tlb_func`, arch/x86/mm/tlb.c (5.13 to 6.18). The
//! initiator announces `tlb_flush` with reason 4, asks the CPUs that need it, flushes its own TLB (reason 3, or 2 for
//! reclaim), and waits for the others. Where no other CPU has the mappings, reason 3 comes alone.

use super::engine::Replay;
use super::ipis::{FlushedRange, Stint, in_task};
use super::rows::{FlushRow, Sink};
use super::words::FlushReason;
use ttwu_parsers::event::Event;

/// What stands for all addresses, and for the whole TLB: `TLB_FLUSH_ALL`.
const ALL: i64 = -1;
/// Bytes of a base page, as a power of two: x86.
const PAGE_SHIFT: u32 = 12;

/// A flush that its CPU began last.
#[derive(Debug, Clone)]
pub struct Flush {
    row: FlushRow,
    number: u64,
    stint: Stint,
    /// It has not gone on to its own TLB yet: requests may follow.
    asking: bool,
    first_request_ns: Option<i64>,
    last_acknowledgement_ns: i64,
    /// Requests that were not acknowledged yet.
    awaited: u32,
    /// Not every acknowledgement will be seen.
    lost: bool,
}

impl<S: Sink> Replay<'_, S> {
    /// `tlb_flush`.
    pub(super) fn flushed(&mut self, cpu: usize, event: &Event, reason: i32, pages: i64) {
        let reason = FlushReason::of(reason);
        if self.config.window.contains(event.ts) {
            self.counts.tlb_flushes[usize::from(reason.code())] += 1;
        }
        match reason {
            FlushReason::RemoteSend => self.begin_flush(cpu, event, pages),
            FlushReason::LocalMmShootdown if self.is_own_part(cpu, pages) => self.own_part(cpu),
            FlushReason::LocalMmShootdown => self.flush_alone(cpu, event, pages),
            FlushReason::LocalShootdown => self.own_part(cpu),
            FlushReason::RemoteShootdown | FlushReason::RemoteWrongCpu => {
                self.flushed_in_handler(cpu);
            }
            // A lazy CPU gives the mappings up instead, be it the initiator or one that was asked.
            FlushReason::TaskSwitch => {
                self.own_part(cpu);
                self.flushed_in_handler(cpu);
            }
            FlushReason::Other => {}
        }
    }

    /// The probe on `flush_tlb_mm_range`: the event of that flush follows.
    pub(super) fn flush_asked(
        &mut self,
        cpu: usize,
        ts_ns: i64,
        (start, end): (u64, u64),
        shift: u32,
    ) {
        self.end_range(cpu);
        let stint = self.stint(cpu);
        self.cpus[cpu].ipis.range = Some(FlushedRange {
            ts_ns,
            start,
            end,
            shift,
            stint,
        });
    }

    fn begin_flush(&mut self, cpu: usize, event: &Event, pages: i64) {
        self.end_flush(cpu, true);
        let range_pages = self.take_range(cpu, pages, PAGE_SHIFT);
        self.serial += 1;
        let mut row = self.flush_row(cpu, event.ts, FlushReason::RemoteSend);
        row.pages = Some(pages);
        row.range_pages = range_pages;
        // Since 6.4 the events tell who is asked; it may be nobody: all others may be lazy.
        row.targets = self.knows_targets().then_some(0);
        let flush = Flush {
            row,
            number: self.serial,
            stint: self.stint(cpu),
            asking: true,
            first_request_ns: None,
            last_acknowledgement_ns: event.ts,
            awaited: 0,
            lost: false,
        };
        self.cpus[cpu].ipis.flush = Some(Box::new(flush));
    }

    /// No other CPU had the mappings.
    fn flush_alone(&mut self, cpu: usize, event: &Event, pages: i64) {
        self.end_flush(cpu, true);
        let shift = self.cpus[cpu].ipis.range.map_or(0, |range| range.shift);
        let range_pages = self.take_range(cpu, pages, shift.max(PAGE_SHIFT));
        let mut row = self.flush_row(cpu, event.ts, FlushReason::LocalMmShootdown);
        row.pages = Some(pages);
        row.range_pages = range_pages;
        row.targets = Some(0);
        self.sink.flush(&row);
    }

    fn flush_row(&self, cpu: usize, ts_ns: i64, reason: FlushReason) -> FlushRow {
        FlushRow {
            ts_ns,
            cpu: self.machine.cpus.id(cpu),
            task: self.current_task(cpu),
            reason,
            pages: None,
            range_pages: None,
            targets: None,
            interrupts: 0,
            asked_ns: None,
            wait_ns: None,
            in_window: self.config.window.contains(ts_ns),
        }
    }

    fn knows_targets(&self) -> bool {
        self.config.ipis.sends || self.config.ipis.csd_queues
    }

    /// Whether a flush of the CPU's own TLB is the rest of one that it asked others for: a call to many then (6.5 on).
    fn is_own_part(&self, cpu: usize, pages: i64) -> bool {
        let asked = self.cpus[cpu].ipis.flush.as_ref();
        let asked = asked.and_then(|flush| flush.row.pages);
        self.is_asking(cpu)
            && asked.is_none_or(|asked| may_be_part(asked, pages))
            && (!self.config.ipis.csd_entries || self.in_own_part(cpu))
    }

    /// Whether a flush has not gone on to the CPU's own TLB yet.
    fn is_asking(&self, cpu: usize) -> bool {
        let stint = self.stint(cpu);
        let flush = self.cpus[cpu].ipis.flush.as_ref();
        flush.is_some_and(|flush| flush.asking && flush.stint == stint)
    }

    fn own_part(&mut self, cpu: usize) {
        if let Some(flush) = &mut self.cpus[cpu].ipis.flush {
            flush.asking = false;
        }
    }

    /// Whether what a CPU sends now may be a flush's request.
    pub(super) fn is_flushing(&self, cpu: usize, event: &Event) -> bool {
        in_task(event.flags) && !self.in_handler(cpu) && self.is_asking(cpu)
    }

    /// The flush asks one more CPU, whose acknowledgement will be seen if `awaited` says so. Its CPU and number.
    pub(super) fn flush_asks(
        &mut self,
        cpu: usize,
        ts: i64,
        awaited: bool,
    ) -> Option<(usize, u64)> {
        let stint = self.stint(cpu);
        let flush = self.cpus[cpu].ipis.flush.as_mut()?;
        if !flush.asking || flush.stint != stint {
            return None;
        }
        flush.row.targets = Some(flush.row.targets.unwrap_or(0) + 1);
        flush.first_request_ns.get_or_insert(ts);
        if awaited {
            flush.awaited += 1;
        } else {
            flush.lost = true;
        }
        awaited.then_some((cpu, flush.number))
    }

    /// An interrupt of the flush that the CPU began last.
    pub(super) fn flush_interrupts(&mut self, cpu: usize) {
        if let Some(flush) = self.cpus[cpu].ipis.flush.as_mut().filter(|f| f.asking) {
            flush.row.interrupts += 1;
        }
    }

    fn flush_numbered(&mut self, initiator: usize, number: u64) -> Option<&mut Flush> {
        let flush = self.cpus[initiator].ipis.flush.as_deref_mut()?;
        (flush.number == number).then_some(flush)
    }

    /// A CPU that was asked has flushed.
    pub(super) fn acknowledged(&mut self, initiator: usize, number: u64, ts: i64) {
        if let Some(flush) = self.flush_numbered(initiator, number) {
            flush.awaited = flush.awaited.saturating_sub(1);
            flush.last_acknowledgement_ns = flush.last_acknowledgement_ns.max(ts);
        }
    }

    /// Of a CPU that was asked it will not be seen.
    pub(super) fn acknowledgement_lost(&mut self, initiator: usize, number: u64) {
        if let Some(flush) = self.flush_numbered(initiator, number) {
            flush.lost = true;
        }
    }

    /// The CPU's last flush is over: it has begun another, or its events end. `whole` says that none of them are missing.
    pub(super) fn end_flush(&mut self, cpu: usize, whole: bool) {
        let Some(mut flush) = self.cpus[cpu].ipis.flush.take() else {
            return;
        };
        let seen = whole && !flush.lost && flush.awaited == 0;
        if let (true, Some(first)) = (seen, flush.first_request_ns) {
            flush.row.asked_ns = Some(first);
            flush.row.wait_ns = Some(flush.last_acknowledgement_ns - first);
        }
        self.sink.flush(&flush.row);
    }

    /// The pages of the range that was asked for, if it is this flush's: `pages` are its pages of `1 << shift` bytes.
    fn take_range(&mut self, cpu: usize, pages: i64, shift: u32) -> Option<i64> {
        let stint = self.stint(cpu);
        let range = self.cpus[cpu].ipis.range?;
        let bytes = range.end.wrapping_sub(range.start);
        let fits = match pages {
            // Too large a range is made a full flush; one that was done meanwhile flushes nothing.
            ALL | 0 => true,
            pages => range.end != u64::MAX && i64::try_from(bytes >> shift) == Ok(pages),
        };
        if range.stint != stint || !fits {
            self.end_range(cpu);
            return None;
        }
        self.cpus[cpu].ipis.range = None;
        Some(range.pages())
    }

    /// A range that no `tlb_flush` followed.
    pub(super) fn end_range(&mut self, cpu: usize) {
        let Some(range) = self.cpus[cpu].ipis.range.take() else {
            return;
        };
        let mut row = self.flush_row(cpu, range.ts_ns, FlushReason::Other);
        row.task = match range.stint.0 {
            super::machine::Current::Task(task) => Some(task),
            _ => None,
        };
        row.range_pages = Some(range.pages());
        self.sink.flush(&row);
    }
}

impl FlushedRange {
    /// In base pages; [`ALL`] for all addresses.
    fn pages(&self) -> i64 {
        if self.end == u64::MAX {
            return ALL;
        }
        let bytes = self.end.saturating_sub(self.start);
        i64::try_from(bytes.div_ceil(1 << PAGE_SHIFT)).unwrap_or(ALL)
    }
}

/// Whether a CPU may flush so many pages of its own for what it asked others to: all if those were all, or if it is behind
/// (`flush_tlb_func`); else as many, counted in pages of 4 KiB, 2 MiB or 1 GiB.
fn may_be_part(asked: i64, own: i64) -> bool {
    const ALL: i64 = -1;
    own == ALL || asked != ALL && [0, 9, 18].iter().any(|larger| asked >> larger == own)
}
