//! The attributes and features of a seekable file's header.
//!
//! Source: "Attributes" and "Flags section" in `perf.data-file-format.txt`.

use crate::bytes::Endian;
use crate::fault::FaultLog;

use super::attr::{Attr, SMALLEST_ATTR};
use super::events::MAX_EVENTS;
use super::features::Features;
use super::header::{Section, Seekable};

/// The attributes, each with its ids.
///
/// The distance between them is the header's `attr_size`, whatever this or the writer's version of the struct
/// measures. Its last 16 bytes are the section that holds the event's ids.
///
/// Sections of a sound file do not overlap, so all ids together are no larger than the file; what goes beyond that is
/// not read.
pub(super) fn read_attrs(bytes: &[u8], header: &Seekable, endian: Endian) -> Option<Vec<Attr>> {
    let mut room = bytes.len();
    let stride = usize::try_from(header.attr_size).ok()?;
    if stride < SMALLEST_ATTR + Section::BYTES {
        return None;
    }
    let table = bytes.get(header.attrs.range(bytes.len())?)?;
    let mut attrs = Vec::new();
    for entry in table.chunks_exact(stride).take(MAX_EVENTS) {
        let (raw, ids) = entry.split_at_checked(stride - Section::BYTES)?;
        let mut attr = Attr::parse(raw, endian)?;
        attr.ids = Section::read(ids, 0, endian)
            .and_then(|section| section.range(bytes.len()))
            .and_then(|range| bytes.get(range))
            .filter(|ids| ids.len() <= room)
            .map(|ids| {
                room -= ids.len();
                super::u64s(ids, endian)
            })
            .unwrap_or_default();
        attrs.push(attr);
    }
    Some(attrs)
}

/// Adds the features behind the data, and tells whether the file is too short for them. Their sections are listed right
/// behind the data, one for each bit that is set.
pub(super) fn read_features(
    features: &mut Features,
    bytes: &[u8],
    header: &Seekable,
    endian: Endian,
    faults: &mut FaultLog,
) -> bool {
    let mut cut = false;
    if header.data.size == 0 {
        return cut;
    }
    let list = header.data.offset.saturating_add(header.data.size);
    let mut at = usize::try_from(list).unwrap_or(usize::MAX);
    for feature in header.features() {
        let Some(section) = Section::read(bytes, at, endian) else {
            faults.push(at as u64, None, || {
                format!(
                    "the file ends before the place of header feature {} is told",
                    feature.0
                )
            });
            cut = true;
            break;
        };
        at += Section::BYTES;
        let content = section
            .range(bytes.len())
            .and_then(|range| bytes.get(range));
        let whole = section.is_whole(bytes.len());
        cut |= !whole;
        if !whole || !features.add(feature, content.unwrap_or_default(), endian) {
            faults.push(section.offset, None, || {
                format!(
                    "header feature {} cannot be read and is left out",
                    feature.0
                )
            });
        }
    }
    cut
}
