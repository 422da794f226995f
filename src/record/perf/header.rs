//! Where everything lies in the file, and its header.
//!
//! ```text
//! header │ ids │ attrs │ early records │ data │ features
//! ```
//!
//! The features come last in a perf.data, so a recording that is killed loses them. Here they come twice: the early
//! records hold them as `perf record` writes them to a pipe, where there is no end to come back from. Perf itself never
//! looks there; `ttwu_parsers` does when the features at the end are missing.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`, `struct perf_file_header` in `tools/perf/util/header.h`.

use super::attr::ATTR_BYTES;
use super::events::Described;
use super::feature::{Feature, FeatureNumber};

/// Size of the header.
pub(super) const HEADER_BYTES: u64 = 104;
/// An attr is followed by where its ids lie.
const ATTR_ENTRY: u64 = ATTR_BYTES as u64 + 16;

/// Types of records, from `enum perf_user_event_type`.
const RECORD_TRACING_DATA: u32 = 66;
const RECORD_FEATURE: u32 = 80;

/// Most of a feature that one early record holds: a record's size has 16 bits.
const FEATURE_PIECE: usize = 65_000;

/// Where the parts of a file lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    attrs: u64,
    attrs_size: u64,
    /// Where the data begins.
    pub data: u64,
}

/// Ids, attrs and early records: everything between the header and the data.
pub(super) fn front(events: &[Described], features: &[Feature]) -> (Layout, Vec<u8>) {
    let ids: Vec<u8> = events
        .iter()
        .flat_map(|event| event.ids.iter().flat_map(|id| id.to_ne_bytes()))
        .collect();
    let attrs = HEADER_BYTES + ids.len() as u64;
    let mut bytes = ids;
    let mut ids_at = HEADER_BYTES;
    for event in events {
        let ids_size = event.ids.len() as u64 * 8;
        bytes.extend(event.spec.bytes());
        bytes.extend(ids_at.to_ne_bytes());
        bytes.extend(ids_size.to_ne_bytes());
        ids_at += ids_size;
    }
    for feature in features {
        put_early(&mut bytes, feature);
    }
    let layout = Layout {
        attrs,
        attrs_size: events.len() as u64 * ATTR_ENTRY,
        data: HEADER_BYTES + bytes.len() as u64,
    };
    (layout, bytes)
}

/// A feature as records. One that is too large comes in pieces, each with the feature's number.
fn put_early(bytes: &mut Vec<u8>, feature: &Feature) {
    if feature.number == FeatureNumber::TRACING_DATA {
        // The payload follows the record, and is padded.
        let padded = feature.content.len().next_multiple_of(8);
        put_record_header(bytes, RECORD_TRACING_DATA, 4);
        bytes.extend((padded as u32).to_ne_bytes());
        bytes.extend(&feature.content);
        bytes.resize(bytes.len() + padded - feature.content.len(), 0);
        return;
    }
    for piece in feature.content.chunks(FEATURE_PIECE) {
        put_record_header(bytes, RECORD_FEATURE, 8 + piece.len());
        bytes.extend(u64::from(feature.number.0).to_ne_bytes());
        bytes.extend(piece);
    }
}

/// `struct perf_event_header`.
fn put_record_header(bytes: &mut Vec<u8>, kind: u32, content: usize) {
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(0_u16.to_ne_bytes());
    bytes.extend(((8 + content) as u16).to_ne_bytes());
}

/// Of a file that has nothing yet.
impl Default for Layout {
    fn default() -> Self {
        Self {
            attrs: HEADER_BYTES,
            attrs_size: 0,
            data: HEADER_BYTES,
        }
    }
}

impl Layout {
    /// The header of a file with so many bytes of data, and with these features behind it. While recording both are
    /// none: readers then take all that comes for data.
    pub fn header(&self, data_size: u64, features: &[Feature]) -> Vec<u8> {
        let mut bits = [0_u64; 4];
        for feature in features {
            let number = feature.number.0;
            if let Some(word) = bits.get_mut((number / 64) as usize) {
                *word |= 1 << (number % 64);
            }
        }
        let event_types = [0, 0];
        let words = [
            HEADER_BYTES,
            ATTR_ENTRY,
            self.attrs,
            self.attrs_size,
            self.data,
            data_size,
        ];
        // The magic is text, in whichever byte order.
        let mut header = u64::from_le_bytes(*b"PERFILE2").to_ne_bytes().to_vec();
        let words = words.iter().chain(&event_types).chain(&bits);
        header.extend(words.flat_map(|word| word.to_ne_bytes()));
        header
    }
}

/// Where each feature lies, then the features: what comes behind the data, which ends at `at`. They are in the order of
/// their numbers.
pub(super) fn features_section(at: u64, features: &[Feature]) -> Vec<u8> {
    let mut place = at + features.len() as u64 * 16;
    let mut bytes = Vec::new();
    for feature in features {
        let size = feature.content.len() as u64;
        bytes.extend(place.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        place += size;
    }
    bytes.extend(features.iter().flat_map(|feature| &feature.content));
    bytes
}
