//! One page (sub-buffer) of ftrace's ring buffer: where its events lie and when they happened.
//!
//! Sources: `include/linux/ring_buffer.h` (`enum ring_buffer_type`), `kernel/trace/ring_buffer.c`; where they
//! leave a choice, what libtraceevent does, so that stamps equal those of `trace-cmd report`.

use super::tracing_data::HeaderPage;
use crate::bytes::Endian;

/// `commit` bit 31: events were lost before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// `commit` bit 30: how many, as a `long` right after the page's data.
const MISSED_STORED: u64 = 1 << 30;
/// The bits of `commit` that are the data's length.
const LENGTH: u64 = (1 << 27) - 1;

const PADDING: u32 = 29;
/// Type 31, the one above, is an absolute time stamp.
const TIME_EXTEND: u32 = 30;
const DELTA_BITS: u32 = 27;
/// Absolute stamps have 59 bits; the top 5 are those of the running time.
const STAMP_TOP: u64 = 0xf8 << 56;

/// How a trace's pages are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub endian: Endian,
    pub header: HeaderPage,
}

/// The head of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageHead {
    /// The first event's stamp less its delta.
    pub stamp: u64,
    /// Where the data ends, counted from the page's start.
    pub end: usize,
    pub missed: Missed,
}

/// What was lost before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    Nothing,
    /// Events; how many where the kernel counted.
    Events(Option<u64>),
}

impl PageLayout {
    /// Reads the head. `None` if there is not even a whole head.
    pub fn head(&self, page: &[u8]) -> Option<PageHead> {
        let stamp = self.endian.u64_at(page, 0)?;
        let commit = self.long_at(page, self.header.commit_offset)?;
        page.get(..self.header.data_offset)?;
        let length = usize::try_from(commit & LENGTH).ok()?;
        let end = self.header.data_offset.checked_add(length)?;
        let stored = match commit & MISSED_STORED {
            0 => None,
            // A negative count says no more than bit 31 alone.
            _ => self.long_at(page, end).filter(|&n| n < 1 << 31),
        };
        let missed = match commit & MISSED_EVENTS {
            0 => Missed::Nothing,
            _ => Missed::Events(stored),
        };
        Some(PageHead { stamp, end, missed })
    }

    /// Whether a page's head is all zeros: no kernel wrote it.
    pub fn is_void(&self, head: &PageHead) -> bool {
        head.stamp == 0 && head.end == self.header.data_offset && head.missed == Missed::Nothing
    }

    /// The stamp of a page that has events and a sound head.
    pub fn stamp_ahead(&self, page: &[u8], page_size: usize) -> Option<u64> {
        let head = self.head(page)?;
        let sound = head.end > self.header.data_offset && head.end <= page_size;
        sound.then_some(head.stamp)
    }

    fn long_at(&self, page: &[u8], offset: usize) -> Option<u64> {
        match self.header.commit_size {
            4 => self.endian.u32_at(page, offset).map(u64::from),
            _ => self.endian.u64_at(page, offset),
        }
    }

    /// Splits an event's first word; C bit fields fill from the other end on big-endian machines.
    #[inline]
    fn split(&self, word: u32) -> (u32, u32) {
        match self.endian {
            Endian::Little => (word & 31, word >> 5),
            Endian::Big => (word >> DELTA_BITS, word & ((1 << DELTA_BITS) - 1)),
        }
    }
}

/// A place in a page's data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageCursor {
    at: usize,
    /// The running time.
    stamp: u64,
}

/// What comes next in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A record from `start` to `end` of the page, written at `stamp`.
    Record {
        start: usize,
        end: usize,
        stamp: u64,
    },
    End,
    /// An event that does not fit into the page; nothing behind it can be found.
    Damaged {
        at: usize,
    },
}

impl PageCursor {
    pub fn new(layout: &PageLayout, head: &PageHead) -> Self {
        Self {
            at: layout.header.data_offset,
            stamp: head.stamp,
        }
    }

    /// Moves to the next record of `data`, as [`Self::step`] does, if it is of the kind that nearly all are, and tells
    /// its start, end and stamp. These stay in registers, which a [`Step`] does not: written in parts and read as a
    /// whole, it would make the processor wait.
    #[inline(always)]
    pub fn step_plain(&mut self, data: &[u8], layout: &PageLayout) -> Option<(usize, usize, u64)> {
        if layout.endian != Endian::Little {
            return None;
        }
        let (kind, delta) = data.get(self.at..).and_then(first_word)?;
        let start = self.at.wrapping_add(4);
        let end = start.wrapping_add(kind as usize * 4);
        if !(1..PADDING).contains(&kind) || end > data.len() {
            return None;
        }
        self.stamp = self.stamp.wrapping_add(u64::from(delta));
        self.at = end;
        Some((start, end, self.stamp))
    }

    /// Moves to the next record of `data`, which is the page up to the end of what was committed. Every turn
    /// of the loop moves at least four bytes on.
    #[inline(never)]
    pub fn step(&mut self, data: &[u8], layout: &PageLayout) -> Step {
        while self.at < data.len() {
            let at = self.at;
            let Some(word) = layout.endian.u32_at(data, at) else {
                return Step::Damaged { at };
            };
            let (kind, delta) = layout.split(word);
            let body = at.wrapping_add(4);
            if (1..PADDING).contains(&kind) {
                let end = body.wrapping_add((kind as usize).wrapping_mul(4));
                return self.record(data, u64::from(delta), body, end);
            }
            if kind == PADDING && delta == 0 {
                // The rest of the page was never used; the word that follows is not a length.
                break;
            }
            let Some(next) = layout.endian.u32_at(data, body) else {
                return Step::Damaged { at };
            };
            let long = u64::from(next) << DELTA_BITS | u64::from(delta);
            match kind {
                0 => {
                    // The length counts its own four bytes, and data is padded to whole words.
                    let Some(length) = padded(next.wrapping_sub(4)).filter(|_| next >= 4) else {
                        return Step::Damaged { at };
                    };
                    let start = body.wrapping_add(4);
                    let end = start.saturating_add(length);
                    return self.record(data, u64::from(delta), start, end);
                }
                PADDING => {
                    // A discarded event; the kernel's own reader ignores its delta, libtraceevent adds it.
                    self.stamp = self.stamp.wrapping_add(u64::from(delta));
                    self.at = body.saturating_add(next as usize);
                }
                TIME_EXTEND => {
                    self.stamp = self.stamp.wrapping_add(long);
                    self.at = body.wrapping_add(4);
                }
                // Five bits leave only this one.
                _ => {
                    self.stamp = absolute(long, self.stamp);
                    self.at = body.wrapping_add(4);
                }
            }
        }
        self.at = data.len();
        Step::End
    }

    fn record(&mut self, data: &[u8], delta: u64, start: usize, end: usize) -> Step {
        if end > data.len() {
            return Step::Damaged { at: self.at };
        }
        self.stamp = self.stamp.wrapping_add(delta);
        self.at = end;
        Step::Record {
            start,
            end,
            stamp: self.stamp,
        }
    }
}

/// Kind and delta of a little-endian event.
#[inline(always)]
fn first_word(event: &[u8]) -> Option<(u32, u32)> {
    let word = u32::from_le_bytes(*event.first_chunk()?);
    Some((word & 31, word >> 5))
}

/// A length rounded up to whole words.
fn padded(length: u32) -> Option<usize> {
    usize::try_from(length).ok()?.checked_next_multiple_of(4)
}

/// Completes a 59-bit stamp as the kernel's `rb_fix_abs_ts` does: it has the running time's top bits, or, if
/// that would be the past, the next ones.
fn absolute(low: u64, running: u64) -> u64 {
    let stamp = low & !STAMP_TOP | running & STAMP_TOP;
    if running & STAMP_TOP != 0 && stamp < running {
        return stamp.wrapping_add(1 << 59);
    }
    stamp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_stamps_take_their_top_bits_from_the_running_time() {
        let top = 3 << 59;
        assert_eq!(absolute(500, 100), 500);
        assert_eq!(absolute(500, 900), 500);
        assert_eq!(absolute(500, top | 100), top | 500);
        assert_eq!(absolute(500, top | 900), (4 << 59) | 500);
    }

    #[test]
    fn lengths_are_rounded_up_to_words() {
        assert_eq!(padded(0), Some(0));
        assert_eq!(padded(5), Some(8));
    }
}
