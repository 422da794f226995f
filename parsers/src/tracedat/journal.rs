//! A recording of `ttwu record` that did not end: its file is a version 7 that grew by extents, each the pages of one
//! CPU and announced by a BUFFER option of its own. See `src/record/ftrace/journal.rs`, which writes it.

use super::buffers::{Area, Buffer};
use crate::bytes::Endian;

/// Whether the VERSION option says so.
pub(crate) fn is_unfinished(recorder: Option<&str>) -> bool {
    recorder.is_some_and(|text| text.starts_with("ttwu ") && text.ends_with(" unfinished"))
}

/// Puts the extents together to one buffer, each cut to the pages that were written.
pub(crate) fn join(extents: Vec<Buffer>, file: &[u8]) -> Vec<Buffer> {
    let mut joined: Vec<Buffer> = Vec::new();
    for mut extent in extents {
        let (endian, page_size) = (extent.endian, u64::from(extent.page_size));
        for area in &mut extent.cpus {
            area.size = written(file, area, page_size, endian);
        }
        let first = joined
            .iter_mut()
            .find(|buffer| buffer.name == extent.name && buffer.page_size == extent.page_size);
        match first {
            Some(buffer) => extent.cpus.into_iter().for_each(|area| buffer.extend(area)),
            None => joined.push(extent),
        }
    }
    for buffer in &mut joined {
        buffer.cpus.sort_by_key(|area| area.cpu);
    }
    joined
}

/// Bytes of an extent up to the first page that was not written: that is a hole, or behind the file's end.
fn written(file: &[u8], area: &Area, page_size: u64, endian: Endian) -> u64 {
    let mut size = 0;
    while size < area.size {
        let at = usize::try_from(area.offset.saturating_add(size)).unwrap_or(usize::MAX);
        // A page begins with its stamp, which is never 0, as no clock is while a recorder runs.
        match endian.u64_at(file, at) {
            None | Some(0) => break,
            Some(_) => size = size.saturating_add(page_size),
        }
    }
    size.min(area.size)
}
