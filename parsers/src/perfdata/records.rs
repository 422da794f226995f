//! The stream of records: what each is, and where the next one starts.
//!
//! Source: `enum perf_event_type` in `include/uapi/linux/perf_event.h` for types below 64, `enum
//! perf_user_event_type` in `tools/lib/perf/include/perf/event.h` for those from 64 on.

use crate::bytes::Endian;

/// What a record is. Types that are not named here are skipped by their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordType(pub u32);

impl RecordType {
    pub const LOST: Self = Self(2);
    pub const COMM: Self = Self(3);
    pub const THROTTLE: Self = Self(5);
    pub const SAMPLE: Self = Self(9);
    pub const LOST_SAMPLES: Self = Self(13);
    pub const HEADER_ATTR: Self = Self(64);
    pub const HEADER_TRACING_DATA: Self = Self(66);
    pub const FINISHED_ROUND: Self = Self(68);
    pub const ID_INDEX: Self = Self(69);
    pub const AUXTRACE: Self = Self(71);
    pub const THREAD_MAP: Self = Self(73);
    pub const EVENT_UPDATE: Self = Self(78);
    pub const HEADER_FEATURE: Self = Self(80);
    /// A piece of a zstd stream; perf 5.2 on.
    pub const COMPRESSED: Self = Self(81);
    pub const FINISHED_INIT: Self = Self(82);
    /// The same as COMPRESSED with the piece's exact size in front, since records are padded to 8 bytes; perf 6.16 on.
    pub const COMPRESSED2: Self = Self(83);
}

/// Size of `struct perf_event_header`.
pub(super) const HEADER_BYTES: usize = 8;

/// No piece is larger than a ring. Greater numbers are what lay in perf's buffer before, not sizes.
const MOST_MISFRAMED: u64 = 1 << 30;

/// One record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    /// Where it starts.
    pub offset: usize,
    /// Where the next one starts.
    pub next: usize,
    pub kind: RecordType,
    pub misc: u16,
    /// All its bytes, header included; payload outside the record is not.
    pub bytes: &'a [u8],
}

/// Why no record can be read at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The data ends here, properly.
    End,
    /// The data ends within a record; so many bytes of it are there.
    Cut { have: usize, size: usize },
    /// A size no record can have.
    BadSize(u16),
}

impl Stop {
    /// The same where the `rest` of the data, in bytes, is left out.
    pub fn describe_rest(self, rest: usize) -> Option<String> {
        let what = self.describe()?;
        match self {
            Self::BadSize(_) => Some(format!(
                "{what}: the {rest} bytes from there on cannot be read"
            )),
            _ => Some(what),
        }
    }

    /// What was found, if that is damage.
    pub fn describe(self) -> Option<String> {
        match self {
            Self::End => None,
            Self::Cut { have, size } => Some(format!(
                "the data ends within a record: {have} of its {size} bytes are there, and are left out"
            )),
            Self::BadSize(size) => Some(format!(
                "a record of {size} bytes, less than its own header"
            )),
        }
    }
}

/// The record at `offset` of `data`.
#[inline]
pub(super) fn record_at(data: &[u8], offset: usize, endian: Endian) -> Result<Record<'_>, Stop> {
    let Some(rest) = data.get(offset..).filter(|rest| !rest.is_empty()) else {
        return Err(Stop::End);
    };
    let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
        return Err(Stop::Cut {
            have: rest.len(),
            size: HEADER_BYTES,
        });
    };
    let (kind, misc, mut size) = split_header(*header, endian);
    if kind == RecordType::COMPRESSED2.0 && is_misframed(rest, endian) {
        size = u16::MAX;
    }
    if usize::from(size) < HEADER_BYTES {
        return Err(Stop::BadSize(size));
    }
    let Some(bytes) = rest.get(..usize::from(size)) else {
        return Err(Stop::Cut {
            have: rest.len(),
            size: usize::from(size),
        });
    };
    let record = Record {
        offset,
        next: offset + bytes.len(),
        kind: RecordType(kind),
        misc,
        bytes,
    };
    // Rare, and kept out of the common path.
    if kind >= RecordType::HEADER_ATTR.0 {
        return with_outside_payload(data, record, endian);
    }
    Ok(record)
}

/// The sample at `offset` of little-endian data; `None` for any other record, and for none. Of all ways to read a record
/// this is the one that is gone nearly always.
#[inline(always)]
pub(super) fn little_sample_at(data: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = data.get(offset..)?;
    let (kind, _, size) = split_header(*rest.first_chunk()?, Endian::Little);
    if kind != RecordType::SAMPLE.0 {
        return None;
    }
    rest.get(..usize::from(size))
}

/// `struct perf_event_header`: u32 type, u16 misc, u16 size.
#[inline(always)]
fn split_header(raw: [u8; HEADER_BYTES], endian: Endian) -> (u32, u16, u16) {
    match endian {
        Endian::Little => {
            let word = u64::from_le_bytes(raw);
            (word as u32, (word >> 32) as u16, (word >> 48) as u16)
        }
        Endian::Big => {
            let word = u64::from_be_bytes(raw);
            ((word >> 32) as u32, (word >> 16) as u16, word as u16)
        }
    }
}

/// Until Linux 7.1 perf framed a piece that it had split into several COMPRESSED2 records as if it were the first one
/// only: that one tells the data of all, which its 16-bit size cannot hold and so is wrong. It is full, being the
/// first of several, and those behind it have sizes of their own.
#[cold]
fn is_misframed(record: &[u8], endian: Endian) -> bool {
    let data_size = endian.u64_at(record, HEADER_BYTES);
    data_size.is_some_and(|size| size > u64::from(u16::MAX) && size < MOST_MISFRAMED)
}

/// Two record types are followed by data that their header's size does not count.
fn with_outside_payload<'a>(
    data: &'a [u8],
    mut record: Record<'a>,
    endian: Endian,
) -> Result<Record<'a>, Stop> {
    let outside = outside_payload(&record, endian);
    let next = usize::try_from(outside)
        .ok()
        .and_then(|size| record.next.checked_add(size));
    match next {
        Some(next) if next <= data.len() => {
            record.next = next;
            Ok(record)
        }
        _ => Err(Stop::Cut {
            have: data.len().saturating_sub(record.offset),
            size: usize::try_from(outside)
                .unwrap_or(usize::MAX)
                .saturating_add(record.bytes.len()),
        }),
    }
}

/// Bytes that follow the record: `struct perf_record_header_tracing_data` and `struct perf_record_auxtrace` hold
/// their size.
fn outside_payload(record: &Record<'_>, endian: Endian) -> u64 {
    match record.kind {
        RecordType::HEADER_TRACING_DATA => endian
            .u32_at(record.bytes, HEADER_BYTES)
            .map_or(0, u64::from),
        RecordType::AUXTRACE => endian.u64_at(record.bytes, HEADER_BYTES).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, size: u16, payload: &[u8], endian: Endian) -> Vec<u8> {
        let mut bytes = match endian {
            Endian::Little => [&kind.to_le_bytes()[..], &[0; 2], &size.to_le_bytes()].concat(),
            Endian::Big => [&kind.to_be_bytes()[..], &[0; 2], &size.to_be_bytes()].concat(),
        };
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn payload_outside_the_record_is_stepped_over() {
        for endian in [Endian::Little, Endian::Big] {
            let word = |value: u64| match endian {
                Endian::Little => value.to_le_bytes().to_vec(),
                Endian::Big => value.to_be_bytes().to_vec(),
            };
            let mut aux = record(71, 48, &word(16), endian);
            aux.resize(48 + 16, 0xaa);
            let found = record_at(&aux, 0, endian).unwrap();
            assert_eq!((found.bytes.len(), found.next), (48, 64));
            aux.pop();
            assert_eq!(
                record_at(&aux, 0, endian).unwrap_err(),
                Stop::Cut { have: 63, size: 64 }
            );
        }
    }

    #[test]
    fn tracing_data_has_a_12_byte_record() {
        let mut data = record(66, 12, &20_u32.to_le_bytes(), Endian::Little);
        data.resize(12 + 20, 0);
        let found = record_at(&data, 0, Endian::Little).unwrap();
        assert_eq!((found.bytes.len(), found.next), (12, 32));
    }

    #[test]
    fn impossible_sizes_stop() {
        let stop = |data: &[u8]| record_at(data, 0, Endian::Little).unwrap_err();
        assert_eq!(stop(&record(9, 7, &[], Endian::Little)), Stop::BadSize(7));
        assert_eq!(
            stop(&record(9, 9, &[], Endian::Little)),
            Stop::Cut { have: 8, size: 9 }
        );
        assert_eq!(stop(&[1, 2, 3]), Stop::Cut { have: 3, size: 8 });
        assert_eq!(stop(&[]), Stop::End);
    }
}
