//! Finds back to the records behind damage: one wrong size, and nothing after it starts where it seems to.

use crate::bytes::Endian;

use super::decompress::is_compressed;
use super::events::Events;
use super::records::{HEADER_BYTES, Record, RecordType, Stop, record_at};

/// So many sound records in a row are no chance.
const CHAIN: usize = 4;
/// At the data's end, where there are not as many.
const CHAIN_AT_END: usize = 2;
/// What is damaged over so many bytes is given up.
const MOST_SKIPPED: usize = 16 << 20;

/// What tells a record from bytes that look like one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frames<'a> {
    pub endian: Endian,
    pub events: &'a Events,
    /// The data was compressed, and has no compressed records any more.
    pub decompressed: bool,
}

impl Frames<'_> {
    /// Whether a record can be what it seems to be. The kernel's are multiples of 8 bytes (`perf_event_header__init_id`
    /// and `perf_prepare_sample` see to that), and so are perf's own but for those that are named here.
    pub fn is_sound(self, record: &Record<'_>) -> bool {
        let size = record.bytes.len();
        match record.kind {
            RecordType::SAMPLE => size.is_multiple_of(8) && self.is_whole_sample(record.bytes),
            RecordType::FINISHED_ROUND | RecordType::FINISHED_INIT => size == HEADER_BYTES,
            RecordType::HEADER_TRACING_DATA => size == HEADER_BYTES + 4,
            kind if is_compressed(kind) => !self.decompressed,
            // Of the kernel; of perf; of simpleperf.
            RecordType(1..64) => size.is_multiple_of(8),
            RecordType(64..128 | 0x8000..0x8040) => true,
            _ => false,
        }
    }

    fn is_whole_sample(self, sample: &[u8]) -> bool {
        let event = self.events.of_sample(sample, self.endian);
        match event.and_then(|event| self.events.layout(event)) {
            Some(layout) => layout.stamp(sample, self.endian).is_some(),
            // An event that the file does not describe; its sample has the id at least.
            None => self.events.has_id(sample),
        }
    }

    /// Whether sound records follow each other from `offset` on, or the data ends there.
    pub fn go_on_at(self, data: &[u8], offset: usize) -> bool {
        offset == data.len() || self.is_chain(data, offset, 1)
    }

    fn is_chain(self, data: &[u8], offset: usize, at_end: usize) -> bool {
        let mut offset = offset;
        for met in 0..CHAIN {
            match record_at(data, offset, self.endian) {
                Ok(record) if self.is_sound(&record) => offset = record.next,
                Err(Stop::End) => return met >= at_end,
                _ => return false,
            }
        }
        true
    }

    /// Where the next sound records start behind damage at `offset`.
    pub fn next_after(self, data: &[u8], offset: usize) -> Option<usize> {
        let end = data.len().min(offset.saturating_add(MOST_SKIPPED));
        (offset + 1..end).find(|&at| self.is_chain(data, at, CHAIN_AT_END))
    }
}
