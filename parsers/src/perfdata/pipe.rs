//! Pipe mode: what a seekable file has in its header comes as records here.
//!
//! Source: "Pipe-mode data" in `perf.data-file-format.txt`; `perf_event__process_attr`, `perf_event__process_feature`,
//! `perf_event__process_event_update` and `perf_event__process_tracing_data` in `tools/perf/util/header.c`.

use crate::bytes::{Endian, until_nul};

use super::attr::Attr;
use super::events::MAX_EVENTS;
use super::features::{Feature, Features};
use super::records::{HEADER_BYTES, Record, RecordType, record_at};

/// `PERF_EVENT_UPDATE__NAME`.
const UPDATE_NAME: u64 = 2;

/// What the records of a pipe-mode file say of the recording.
#[derive(Debug, Default)]
pub(super) struct PipeHeader {
    pub attrs: Vec<Attr>,
    pub features: Features,
    /// Event ids and the names that EVENT_UPDATE records give them.
    pub renamed: Vec<(u64, String)>,
    /// Features whose content could not be read.
    pub unreadable: Vec<Feature>,
}

impl PipeHeader {
    /// Reads all such records of `data[start..]`; perf writes them first, but does not promise to.
    pub fn read(data: &[u8], start: usize, endian: Endian) -> Self {
        let mut header = Self::default();
        let mut offset = start;
        while let Ok(record) = record_at(data, offset, endian) {
            match record.kind {
                RecordType::HEADER_ATTR => header.attr(&record, endian),
                RecordType::HEADER_FEATURE => header.feature(&record, endian),
                RecordType::EVENT_UPDATE => header.update(&record, endian),
                RecordType::HEADER_TRACING_DATA => {
                    let payload = offset.saturating_add(record.bytes.len())..record.next;
                    let payload = data.get(payload).unwrap_or_default();
                    header.features.add(Feature::TRACING_DATA, payload, endian);
                }
                _ => {}
            }
            offset = record.next;
        }
        header
    }

    /// The attr, as long as its own size says, and behind it the ids.
    fn attr(&mut self, record: &Record<'_>, endian: Endian) {
        let payload = record.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let size = match endian.u32_at(payload, 4) {
            // The first version had no size.
            None | Some(0) => super::attr::SMALLEST_ATTR,
            Some(size) => size as usize,
        };
        let raw = payload.get(..size).unwrap_or(payload);
        if let Some(mut attr) = Attr::parse(raw, endian)
            && self.attrs.len() < MAX_EVENTS
        {
            let ids = payload.get(size..).unwrap_or_default();
            attr.ids = super::u64s(ids, endian);
            self.attrs.push(attr);
        }
    }

    /// `u64 feature`, then the same content as in the header of a seekable file. The last one has no content and the
    /// number of the first feature that the writing perf did not know.
    fn feature(&mut self, record: &Record<'_>, endian: Endian) {
        let Some(number) = endian.u64_at(record.bytes, HEADER_BYTES) else {
            return;
        };
        let content = record.bytes.get(HEADER_BYTES + 8..).unwrap_or_default();
        let feature = Feature(u32::try_from(number).unwrap_or(u32::MAX));
        if !content.is_empty() && !self.features.add(feature, content, endian) {
            self.unreadable.push(feature);
        }
    }

    /// `u64 type, id`, then what the type says; only new names matter.
    fn update(&mut self, record: &Record<'_>, endian: Endian) {
        let word = |at| endian.u64_at(record.bytes, HEADER_BYTES + at);
        let (Some(UPDATE_NAME), Some(id)) = (word(0), word(8)) else {
            return;
        };
        let name = record.bytes.get(HEADER_BYTES + 16..).unwrap_or_default();
        let name = String::from_utf8_lossy(until_nul(name)).into_owned();
        self.renamed.push((id, name));
    }
}
