//! What perf could not write: how much, on which CPU, between which events.
//!
//! The kernel facts (`kernel/events/ring_buffer.c`, `kernel/events/core.c`):
//! - A record that finds its ring full is dropped. The ring's own counter goes up by one, and so does the event's.
//! - `PERF_RECORD_LOST` is written when a record fits in again, just before it, and takes the ring's counter with it. It
//!   counts the records of all events of that ring. Its own time is that of the record that followed, so the loss lies
//!   between the record before it and the one after it.
//! - What is dropped after the last record that fitted is never told by a LOST record.
//!
//! perf (6.0 on, kernel 6.0 on) reads each event's counter in the end and writes it as a `PERF_RECORD_LOST_SAMPLES`
//! without a time. Both counters saw the same drops: so of one CPU the larger sum is the loss, never the two
//! together, and what LOST_SAMPLES has more lies behind that CPU's last record. The CPU in such a record is not
//! filled in (always 0); the event's id tells it, through ID_INDEX.
//!
//! A LOST_SAMPLES with a time is the kernel's: the processor dropped samples before they reached the ring (PEBS).
//! That concerns no tracepoint. One marked with bit 15 counts samples that the user's own BPF filter rejected.

use crate::plausible::Span;

/// Marks a LOST_SAMPLES record that counts what `perf record --filter` rejected by BPF: no loss.
/// `PERF_RECORD_MISC_LOST_SAMPLES_BPF` in `tools/lib/perf/include/perf/event.h`.
pub(super) const MISC_FILTERED: u16 = 1 << 15;

/// A stretch of one CPU in which events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loss {
    pub begin: i64,
    pub end: i64,
    /// `None` if the record names more events than there can be, or nothing tells.
    pub count: Option<u64>,
    /// Where the LOST record lies: orders the loss among events of equal time.
    pub offset: u64,
}

/// The losses of one CPU, gathered in recorded order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuLosses {
    pub losses: Vec<Loss>,
    /// A LOST record whose next event has not been met: its offset, count and own time.
    open: Option<(u64, Option<u64>, Option<i64>)>,
    /// Sum of the LOST records.
    lost: u64,
    /// Sum of the LOST_SAMPLES records.
    lost_samples: u64,
    /// What was written behind the last event cannot be read.
    rest: bool,
}

impl CpuLosses {
    /// A LOST record; with another one directly before it the two are one loss.
    pub fn lost(&mut self, offset: u64, count: Option<u64>, ts: Option<i64>) {
        self.lost = self.lost.saturating_add(count.unwrap_or(0));
        let before = self.open.map_or(Some(0), |(_, count, _)| count);
        let both = before.zip(count);
        let both = both.map(|(before, count)| before.saturating_add(count));
        self.open = Some((offset, both, ts));
    }

    pub fn lost_samples(&mut self, count: u64) {
        self.lost_samples = self.lost_samples.saturating_add(count);
    }

    /// What was written after this cannot be read: nobody knows how much.
    pub fn lose_rest(&mut self) {
        self.rest = true;
    }

    /// The sum of the LOST records.
    pub fn by_lost(&self) -> u64 {
        self.lost
    }

    /// Whether a LOST record waits for the next event.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The event at `ts` is the first after the open LOST record; `before` is the one before it.
    pub fn close(&mut self, before: Option<i64>, ts: i64) {
        if let Some((offset, count, _)) = self.open.take() {
            self.losses.push(Loss {
                begin: before.unwrap_or(ts).min(ts),
                end: ts,
                count,
                offset,
            });
        }
    }

    /// Keeps the edges of losses in the trace, whatever time their records had.
    pub fn stay_within(&mut self, believed: Span) {
        for loss in &mut self.losses {
            loss.begin = believed.nearest(loss.begin);
            loss.end = believed.nearest(loss.end).max(loss.begin);
        }
        if let Some((_, _, Some(ts))) = &mut self.open {
            *ts = believed.nearest(*ts);
        }
    }

    /// The recording is over: `last` is this CPU's last event, `first_of_all` and `last_of_all` those of all CPUs.
    pub fn finish(&mut self, last: Option<i64>, first_of_all: i64, last_of_all: i64) {
        let begin = last.unwrap_or(first_of_all);
        if let Some((_, _, ts)) = self.open {
            self.close(Some(begin), ts.unwrap_or(begin).max(begin));
        }
        let excess = self.lost_samples.saturating_sub(self.lost);
        if excess > 0 {
            self.losses.push(Loss {
                begin,
                end: last_of_all.max(begin),
                count: Some(excess),
                offset: u64::MAX - 1,
            });
        }
        // A CPU whose event is the trace's last has no time left to lose anything in.
        let ends_last = last.is_some_and(|last| last >= last_of_all);
        if self.rest && !ends_last {
            self.losses.push(Loss {
                begin,
                end: last_of_all.max(begin),
                count: None,
                offset: u64::MAX - 1,
            });
        }
        self.sort();
    }

    pub fn sort(&mut self) {
        self.losses.sort_by_key(|loss| (loss.begin, loss.offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(losses: &CpuLosses) -> Vec<(i64, i64, u64)> {
        losses
            .losses
            .iter()
            .map(|loss| (loss.begin, loss.end, loss.count.unwrap_or(u64::MAX)))
            .collect()
    }

    #[test]
    fn a_loss_seen_twice_is_not_added() {
        let mut cpu = CpuLosses::default();
        cpu.lost(100, Some(36), Some(15));
        cpu.close(Some(10), 15);
        cpu.lost_samples(20);
        cpu.lost_samples(16);
        cpu.finish(Some(50), 1, 60);
        assert_eq!(counts(&cpu), [(10, 15, 36)]);
    }

    #[test]
    fn what_only_the_events_counters_saw_lies_at_the_end() {
        let mut cpu = CpuLosses::default();
        cpu.lost(100, Some(36), None);
        cpu.close(Some(10), 15);
        cpu.lost_samples(40);
        cpu.finish(Some(50), 1, 60);
        assert_eq!(counts(&cpu), [(10, 15, 36), (50, 60, 4)]);
    }

    #[test]
    fn edges_of_the_recording() {
        let mut first = CpuLosses::default();
        first.lost(8, Some(5), None);
        first.close(None, 15);
        assert_eq!(counts(&first), [(15, 15, 5)]);
        let mut last = CpuLosses::default();
        last.lost(8, Some(5), Some(70));
        last.finish(Some(50), 1, 60);
        assert_eq!(counts(&last), [(50, 70, 5)]);
        let mut silent = CpuLosses::default();
        silent.lost_samples(9);
        silent.finish(None, 1, 60);
        assert_eq!(counts(&silent), [(1, 60, 9)]);
    }
}
