//! Where the fields of a record lie, worked out once per event.
//!
//! Source: the comment on `PERF_RECORD_SAMPLE` in `include/uapi/linux/perf_event.h`. A sample's fields come in this
//! order, each only where `sample_type` asks for it: IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD, READ,
//! CALLCHAIN, RAW; then BRANCH_STACK, REGS_USER, STACK_USER, WEIGHT, DATA_SRC, TRANSACTION, REGS_INTR, PHYS_ADDR,
//! CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE, AUX, which follow RAW and so never need reading here.
//!
//! Other records end, with `sample_id_all`, in a trailer of TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER; since what comes
//! before it varies in length, it is found from the end.

use crate::bytes::Endian;

use super::attr::{Attr, ReadFormat, SampleType};
use super::records::HEADER_BYTES;

/// The fields of fixed size in a sample, in order. Each takes 8 bytes; TID is two `u32`, CPU a `u32` and padding.
const FIXED: [u64; 9] = [
    SampleType::IDENTIFIER,
    SampleType::IP,
    SampleType::TID,
    SampleType::TIME,
    SampleType::ADDR,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::PERIOD,
];

/// The fields of the trailer of other records, in order, 8 bytes each.
const TRAILER: [u64; 6] = [
    SampleType::TID,
    SampleType::TIME,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::IDENTIFIER,
];

/// What a record says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// `None` if such records carry no time.
    pub ts: Option<u64>,
    /// `u32::MAX` if they carry no CPU.
    pub cpu: u32,
}

/// The layout of one event's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SampleLayout {
    /// Offsets from the record's start.
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    id: Option<usize>,
    /// Where the fields of varying size start.
    rest: usize,
    group_read: Option<ReadFormat>,
    callchain: bool,
    raw: bool,
    trailer: Option<Trailer>,
}

/// Where the samples of one event have all that is read of them, if nothing of varying size comes before it.
///
/// A sample that is as long as `least` has all its fixed fields, and the size of its raw data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plain {
    tid: u16,
    time: u16,
    cpu: Option<u16>,
    raw: u16,
    least: u16,
}

/// What is read of a little-endian tracepoint sample with such a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlainSample {
    pub ts: i64,
    pub process: i32,
    pub thread: i32,
    /// Where the raw data starts in the sample, and where it ends.
    pub raw: (u16, u16),
}

impl Plain {
    /// `None` for a sample that is too short, or whose time or raw data is out of range.
    #[inline(always)]
    pub fn read(&self, sample: &[u8]) -> Option<PlainSample> {
        if sample.len() < usize::from(self.least) {
            return None;
        }
        let size = u32::from_le_bytes(bytes_at(sample, self.raw)?) as usize;
        let end = usize::from(self.least) + size;
        if end > sample.len() {
            return None;
        }
        let task = u64::from_le_bytes(bytes_at(sample, self.tid)?);
        Some(PlainSample {
            ts: self.time(sample)?,
            process: (task as u32).cast_signed(),
            thread: ((task >> 32) as u32).cast_signed(),
            // A sample is a record, whose size has 16 bits.
            raw: (self.least, end as u16),
        })
    }
}

impl Plain {
    #[inline(always)]
    fn time(&self, sample: &[u8]) -> Option<i64> {
        i64::try_from(u64::from_le_bytes(bytes_at(sample, self.time)?)).ok()
    }

    /// CPU and time, as [`SampleLayout::stamp`] has them; `None` also for a time out of range.
    #[inline(always)]
    pub fn place(&self, sample: &[u8]) -> Option<(u32, i64)> {
        if sample.len() < usize::from(self.least) {
            return None;
        }
        let cpu = match self.cpu {
            Some(at) => u32::from_le_bytes(bytes_at(sample, at)?),
            None => u32::MAX,
        };
        Some((cpu, self.time(sample)?))
    }
}

#[inline(always)]
fn bytes_at<const N: usize>(sample: &[u8], at: u16) -> Option<[u8; N]> {
    let at = usize::from(at);
    sample.get(at..at + N)?.first_chunk().copied()
}

/// The values that a sample holds of its group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    /// Times enabled and running, where both are there.
    pub times: Option<(u64, u64)>,
    entries: &'a [u8],
    format: ReadFormat,
    endian: Endian,
}

impl Group<'_> {
    /// Each value with the id of its event; nothing where values come without ids.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        let with_ids = self.format.has_ids();
        let entries = self.entries.chunks_exact(self.format.value_bytes());
        entries.filter_map(move |entry| {
            let id = with_ids.then(|| self.endian.u64_at(entry, 8))??;
            Some((id, self.endian.u64_at(entry, 0)?))
        })
    }
}

/// Offsets back from the record's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Trailer {
    bytes: usize,
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    id: Option<usize>,
}

impl SampleLayout {
    pub fn new(attr: &Attr) -> Self {
        let sample_type = attr.sample_type;
        let mut rest = HEADER_BYTES;
        let mut place = [None; FIXED.len()];
        for (slot, bit) in place.iter_mut().zip(FIXED) {
            if sample_type.has(bit) {
                *slot = Some(rest);
                rest += 8;
            }
        }
        let [identifier, _, tid, time, _, id, _, cpu, _] = place;
        let mut group_read = None;
        if sample_type.has(SampleType::READ) {
            if attr.read_format.is_group() {
                group_read = Some(attr.read_format);
            } else {
                rest += attr.read_format.times_bytes() + attr.read_format.value_bytes();
            }
        }
        Self {
            tid,
            time,
            cpu,
            id: identifier.or(id),
            rest,
            group_read,
            callchain: sample_type.has(SampleType::CALLCHAIN),
            raw: sample_type.has(SampleType::RAW),
            trailer: attr.sample_id_all().then(|| Trailer::new(sample_type)),
        }
    }

    /// The short way to read such samples, if there is one.
    pub fn plain(&self) -> Option<Plain> {
        if !self.raw || self.callchain || self.group_read.is_some() {
            return None;
        }
        let place = |at: usize| u16::try_from(at).ok();
        Some(Plain {
            tid: place(self.tid?)?,
            time: place(self.time?)?,
            cpu: match self.cpu {
                Some(at) => Some(place(at)?),
                None => None,
            },
            raw: place(self.rest)?,
            least: place(self.rest + 4)?,
        })
    }

    /// Time and CPU of a sample; `None` if it is too short for them.
    #[inline]
    pub fn stamp(&self, sample: &[u8], endian: Endian) -> Option<Stamp> {
        Some(Stamp {
            ts: match self.time {
                Some(at) => Some(endian.u64_at(sample, at)?),
                None => None,
            },
            cpu: match self.cpu {
                Some(at) => endian.u32_at(sample, at)?,
                None => u32::MAX,
            },
        })
    }

    /// The process and thread a sample belongs to; -1 where it does not say.
    #[inline]
    pub fn task(&self, sample: &[u8], endian: Endian) -> (i32, i32) {
        let field = |at: Option<usize>| at.and_then(|at| endian.u32_at(sample, at));
        (
            field(self.tid).map_or(-1, u32::cast_signed),
            field(self.tid.map(|at| at + 4)).map_or(-1, u32::cast_signed),
        )
    }

    /// The RAW data, from `common_type` on; `None` if there is none or the sample is too short for it.
    ///
    /// Its size includes the padding that brings size and data together to a multiple of 8 bytes.
    #[inline]
    pub fn raw<'a>(&self, sample: &'a [u8], endian: Endian) -> Option<&'a [u8]> {
        if !self.raw {
            return None;
        }
        let mut at = self.rest;
        if let Some(format) = self.group_read {
            at = skip_group(format, sample, at, endian)?;
        }
        if self.callchain {
            at = skip_array(sample, at, 0, 8, endian)?;
        }
        let size = usize::try_from(endian.u32_at(sample, at)?).ok()?;
        let start = at.checked_add(4)?;
        sample.get(start..start.checked_add(size)?)
    }

    /// The values of the sample's group, where it has one.
    pub fn group<'a>(&self, sample: &'a [u8], endian: Endian) -> Option<Group<'a>> {
        let format = self.group_read?;
        let end = skip_group(format, sample, self.rest, endian)?;
        let times_at = self.rest + 8;
        let entries_at = times_at + format.times_bytes();
        let times = match format.has_both_times() {
            true => Some((
                endian.u64_at(sample, times_at)?,
                endian.u64_at(sample, times_at + 8)?,
            )),
            false => None,
        };
        Some(Group {
            times,
            entries: sample.get(entries_at..end)?,
            format,
            endian,
        })
    }

    /// Time and CPU of a record other than a sample; `None` without `sample_id_all`, and for a record too short.
    pub fn trailer_stamp(&self, record: &[u8], endian: Endian) -> Option<Stamp> {
        let trailer = self.trailer?;
        let end = record.len().checked_sub(trailer.bytes)?;
        if end < HEADER_BYTES {
            return None;
        }
        let from_end = |back: usize| record.len().checked_sub(back);
        Some(Stamp {
            ts: match trailer.time {
                Some(back) => Some(endian.u64_at(record, from_end(back)?)?),
                None => None,
            },
            cpu: match trailer.cpu {
                Some(back) => endian.u32_at(record, from_end(back)?)?,
                None => u32::MAX,
            },
        })
    }

    /// The thread in the trailer of a record other than a sample.
    pub fn trailer_tid(&self, record: &[u8], endian: Endian) -> Option<i32> {
        let at = record.len().checked_sub(self.trailer?.tid?)?;
        endian
            .u32_at(record, at.checked_add(4)?)
            .map(u32::cast_signed)
    }

    /// The record without its trailer.
    pub fn before_trailer<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        let bytes = self.trailer.map_or(0, |trailer| trailer.bytes);
        let end = record.len().saturating_sub(bytes);
        record.get(..end).unwrap_or(record)
    }

    /// Where samples hold the id of their event, counted from their start.
    pub fn id_place(&self) -> Option<usize> {
        self.id
    }

    /// Where samples hold their CPU, counted from their start.
    pub fn cpu_place(&self) -> Option<usize> {
        self.cpu
    }

    /// Where other records hold the id, counted back from their end.
    pub fn trailer_id_place(&self) -> Option<usize> {
        self.trailer.and_then(|trailer| trailer.id)
    }

    pub fn has_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    pub fn has_time(&self) -> bool {
        self.time.is_some()
    }
}

impl Trailer {
    fn new(sample_type: SampleType) -> Self {
        let mut back = 0;
        let mut place = [None; TRAILER.len()];
        for (slot, bit) in place.iter_mut().zip(TRAILER).rev() {
            if sample_type.has(bit) {
                back += 8;
                *slot = Some(back);
            }
        }
        let [tid, time, id, _, cpu, identifier] = place;
        Self {
            bytes: back,
            tid,
            time,
            cpu,
            id: identifier.or(id),
        }
    }
}

/// Steps over `{ u64 nr; times; { value, id, lost } [nr] }`.
fn skip_group(format: ReadFormat, sample: &[u8], at: usize, endian: Endian) -> Option<usize> {
    skip_array(
        sample,
        at,
        format.times_bytes(),
        format.value_bytes(),
        endian,
    )
}

/// Steps over a `u64` count, `between` bytes, and as many entries of `entry` bytes as counted.
#[inline]
fn skip_array(
    sample: &[u8],
    at: usize,
    between: usize,
    entry: usize,
    endian: Endian,
) -> Option<usize> {
    let count = usize::try_from(endian.u64_at(sample, at)?).ok()?;
    at.checked_add(8 + between)?
        .checked_add(count.checked_mul(entry)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = (1 << 25) - 1;

    fn layout(sample_type: u64, read_format: u64) -> SampleLayout {
        let mut raw = [0; 64];
        raw[24..32].copy_from_slice(&sample_type.to_le_bytes());
        raw[32..40].copy_from_slice(&read_format.to_le_bytes());
        raw[42] = 0b100;
        SampleLayout::new(&Attr::parse(&raw, Endian::Little).unwrap())
    }

    /// A sample with every field before RAW, from numbers that name their field.
    fn sample(sample_type: u64, read: &[u64], chain: usize, tail: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        for (bit, value) in FIXED.iter().zip(1_u64..) {
            if sample_type & bit != 0 {
                let value = if *bit == SampleType::TID {
                    7 << 32 | 6
                } else {
                    value
                };
                bytes.extend(value.to_le_bytes());
            }
        }
        read.iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        if sample_type & SampleType::CALLCHAIN != 0 {
            bytes.extend((chain as u64).to_le_bytes());
            bytes.extend(vec![0xee; chain * 8]);
        }
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend(b"RAW!");
        bytes.extend(tail);
        bytes
    }

    #[test]
    fn raw_is_found_behind_every_field_that_can_precede_it() {
        for sample_type in [
            SampleType::RAW,
            SampleType::RAW | SampleType::TIME | SampleType::CPU,
            ALL & !SampleType::READ & !SampleType::CALLCHAIN,
            ALL & !SampleType::READ,
        ] {
            for chain in [0, 1, 127] {
                let layout = layout(sample_type, 0);
                let bytes = sample(sample_type, &[], chain, &[0x55; 40]);
                let raw = layout.raw(&bytes, Endian::Little);
                assert_eq!(raw, Some(b"RAW!".as_slice()), "{sample_type:#x} {chain}");
            }
        }
    }

    #[test]
    fn read_in_all_its_shapes() {
        let shapes: [(u64, &[u64]); 6] = [
            (0, &[99]),
            (0b11, &[99, 1, 2]),
            (0b1_0111, &[99, 1, 2, 3, 4]),
            (0b1000, &[2, 99, 98]),
            (0b1011, &[1, 5, 6, 99]),
            (0b1_1111, &[2, 5, 6, 99, 1, 0, 98, 2, 0]),
        ];
        for (read_format, words) in shapes {
            let layout = layout(ALL, read_format);
            let bytes = sample(ALL, words, 3, &[0x55; 16]);
            let raw = layout.raw(&bytes, Endian::Little);
            assert_eq!(raw, Some(b"RAW!".as_slice()), "{read_format:#b}");
        }
    }

    /// Every set of flags with `PERF_FORMAT_GROUP`: values are told with ids only, times only where both are there.
    #[test]
    fn groups_are_read_in_all_their_shapes() {
        for flags in 0..32_u64 {
            let read_format = flags | 0b1000;
            let has = |bit: u64| read_format >> bit & 1 == 1;
            let mut words = vec![2];
            words.extend(has(0).then_some(500));
            words.extend(has(1).then_some(400));
            for (value, id) in [(99, 7), (98, 8)] {
                words.push(value);
                words.extend(has(2).then_some(id));
                words.extend(has(4).then_some(1000));
            }
            let layout = layout(ALL, read_format);
            let bytes = sample(ALL, &words, 3, &[0x55; 16]);
            let group = layout.group(&bytes, Endian::Little).unwrap();
            let values: Vec<_> = group.values().collect();
            let expected: &[(u64, u64)] = if has(2) { &[(7, 99), (8, 98)] } else { &[] };
            assert_eq!(values, expected, "{read_format:#b}");
            let times = (has(0) && has(1)).then_some((500, 400));
            assert_eq!(group.times, times, "{read_format:#b}");
            // Cut off, or with a count that does not fit.
            assert!(layout.group(&bytes[..90], Endian::Little).is_none());
            words[0] = u64::MAX / 8;
            let bytes = sample(ALL, &words, 3, &[]);
            assert!(layout.group(&bytes, Endian::Little).is_none());
        }
        assert!(
            layout(ALL, 0b100)
                .group(&sample(ALL, &[1, 2], 0, &[]), Endian::Little)
                .is_none()
        );
    }

    #[test]
    fn fixed_fields_are_where_the_sample_type_puts_them() {
        let layout = layout(ALL, 0);
        let bytes = sample(ALL, &[0], 0, &[]);
        let stamp = layout.stamp(&bytes, Endian::Little).unwrap();
        assert_eq!((stamp.ts, stamp.cpu), (Some(4), 8));
        assert_eq!(layout.task(&bytes, Endian::Little), (6, 7));
        assert_eq!(layout.id_place(), Some(8));
        assert_eq!(layout.stamp(&bytes[..20], Endian::Little), None);
    }

    #[test]
    fn the_trailer_is_read_from_the_end() {
        let layout = layout(
            SampleType::TID | SampleType::TIME | SampleType::CPU | SampleType::IDENTIFIER,
            0,
        );
        let mut record = b"headerXXname\0\0\0\0".to_vec();
        record.extend(6_u32.to_le_bytes());
        record.extend(7_u32.to_le_bytes());
        record.extend(1234_u64.to_le_bytes());
        record.extend(3_u64.to_le_bytes());
        record.extend(55_u64.to_le_bytes());
        let stamp = layout.trailer_stamp(&record, Endian::Little).unwrap();
        assert_eq!((stamp.ts, stamp.cpu), (Some(1234), 3));
        assert_eq!(layout.trailer_tid(&record, Endian::Little), Some(7));
        assert_eq!(layout.trailer_id_place(), Some(8));
        assert_eq!(layout.before_trailer(&record), b"headerXXname\0\0\0\0");
        assert_eq!(layout.trailer_stamp(&record[..36], Endian::Little), None);
    }

    #[test]
    fn claimed_counts_do_not_overflow() {
        let layout = layout(SampleType::CALLCHAIN | SampleType::RAW, 0);
        let mut bytes = vec![0; 8];
        for count in [u64::MAX, u64::MAX / 8, 1 << 61] {
            bytes.truncate(8);
            bytes.extend(count.to_le_bytes());
            bytes.extend([0; 32]);
            assert_eq!(layout.raw(&bytes, Endian::Little), None);
        }
    }
}
