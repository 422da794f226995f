//! Features in front of the data: a copy, for when those behind it are missing.
//!
//! Features come last in a perf.data, so one whose recording was killed has none, and one that was cut off loses them.
//! `ttwu record` writes them twice: what is known at the start also comes between the attributes and the data, as the
//! records that pipe mode has for it. No reader looks there; neither does this one, unless it has to.

use std::collections::BTreeMap;

use crate::bytes::Endian;

use super::features::{Feature, Features};
use super::header::Seekable;
use super::records::{HEADER_BYTES, Record, RecordType, record_at};

/// The features of the early records; `None` if there are no such records, or if the file ends before they do.
///
/// A record's size has 16 bits: a feature that is larger comes in several records, one after the other.
pub(super) fn read_features(bytes: &[u8], header: &Seekable, endian: Endian) -> Option<Features> {
    let start = header.attrs.offset.checked_add(header.attrs.size)?;
    let mut offset = usize::try_from(start).ok()?;
    let end = usize::try_from(header.data.offset).ok()?;
    let records = bytes.get(..end)?;
    let first = record_at(records, offset, endian).ok()?;
    if !is_early(first.kind) {
        return None;
    }
    let mut contents: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    while let Ok(record) = record_at(records, offset, endian) {
        if let Some((feature, content)) = piece(records, &record, endian) {
            contents.entry(feature).or_default().extend(content);
        }
        offset = record.next;
    }
    let mut features = Features::default();
    for (number, content) in contents {
        features.add(Feature(number), &content, endian);
    }
    Some(features)
}

fn is_early(kind: RecordType) -> bool {
    kind == RecordType::HEADER_FEATURE || kind == RecordType::HEADER_TRACING_DATA
}

/// A feature's number and what the record has of its content.
fn piece<'a>(records: &'a [u8], record: &Record<'a>, endian: Endian) -> Option<(u32, &'a [u8])> {
    match record.kind {
        RecordType::HEADER_FEATURE => {
            let number = endian.u64_at(record.bytes, HEADER_BYTES)?;
            let content = record.bytes.get(HEADER_BYTES + 8..)?;
            Some((u32::try_from(number).ok()?, content))
        }
        RecordType::HEADER_TRACING_DATA => {
            let payload = record.offset + record.bytes.len()..record.next;
            Some((Feature::TRACING_DATA.0, records.get(payload)?))
        }
        _ => None,
    }
}
