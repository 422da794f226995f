//! trace.dat, the file of `trace-cmd record`: versions 6 and 7, plain or compressed.
//!
//! Sources: `trace-cmd.dat.v6(5)`, `trace-cmd.dat.v7(5)`; for ring-buffer pages the kernel's
//! `include/linux/ring_buffer.h` and the page header each file carries.

mod buffers;
mod clock;
mod compress;
mod cpustat;
mod cursor;
mod header;
mod journal;
mod judge;
mod merge;
mod open;
mod options;
mod page;
mod pages;
mod sections;
mod stream;
mod texts;
pub mod tracing_data;

use std::path::Path;

use crate::decode::{Decoder, EventType};
use crate::error::OpenError;
use crate::map::Bytes;
use crate::plausible::Span;
use crate::symbols::{Strings, Symbols};
use crate::trace::{EventSource, OpenOptions, TraceMeta};
use crate::watch::WatchError;

pub use cursor::Damage;

use buffers::Buffer;
use clock::Stamps;
use merge::Merged;
use page::PageLayout;
use stream::CpuStream;
use texts::Texts;

/// An open trace.dat.
#[derive(Debug)]
pub struct DatTrace {
    bytes: Bytes,
    meta: TraceMeta,
    decoder: Decoder,
    watch_error: Option<WatchError>,
    /// The buffer that is read.
    buffer: Buffer,
    layout: PageLayout,
    stamps: Stamps,
    /// The stamps that are believed.
    believed: Span,
    recorder: Option<String>,
    texts: Texts,
}

impl DatTrace {
    /// Whether the content is a trace.dat, of whatever version.
    pub fn recognises(bytes: &[u8]) -> bool {
        bytes.starts_with(tracing_data::MAGIC)
    }

    /// Reads everything but the events. `path` is only for messages.
    pub fn open(bytes: Bytes, path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        open::open(bytes, path, options)
    }

    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// The event types, in the order `Event::type_index` counts.
    pub fn types(&self) -> &[EventType] {
        self.decoder.types()
    }

    /// Why the events that were asked for are not marked, if so.
    pub fn watch_error(&self) -> Option<&WatchError> {
        self.watch_error.as_ref()
    }

    /// The version of trace-cmd that wrote the file, if it says so.
    pub fn recorder(&self) -> Option<&str> {
        self.recorder.as_deref()
    }

    /// The traced kernel's functions, which are read now.
    pub fn symbols(&self) -> Symbols {
        Symbols::parse(&self.texts.kallsyms.read(&self.bytes, self.layout.endian))
    }

    /// The traced kernel's static strings, which are read now.
    pub fn strings(&self) -> Strings {
        Strings::parse(&self.texts.printk.read(&self.bytes, self.layout.endian))
    }

    /// All events in time order; of equal stamps the lower CPU first, each CPU's in recorded order.
    pub fn merged(&self) -> Box<dyn EventSource + '_> {
        Box::new(Merged::new(self.streams()))
    }

    /// One source per CPU of the buffer, in the order of `TraceMeta::cpus`.
    pub fn shards(&self) -> Vec<Box<dyn EventSource + '_>> {
        self.streams()
            .into_iter()
            .map(|stream| Box::new(stream) as Box<dyn EventSource + '_>)
            .collect()
    }

    /// Leaves out what happened before `first` or after `last`, as damage.
    pub fn believe(&mut self, first: i64, last: i64) {
        self.believed = Span::new(first, last);
    }

    fn streams(&self) -> Vec<CpuStream<'_>> {
        self.buffer
            .cpus
            .iter()
            .map(|area| {
                let pages = self.buffer.pages(&self.bytes, area);
                let stamps = self.stamps.of_cpu(area.cpu);
                let (layout, believed) = (self.layout, self.believed);
                let stream = CpuStream::new(pages, &self.decoder, layout, stamps, believed);
                let stream = match self.buffer.overlapping(area) {
                    None => stream,
                    Some(other) => stream.with_fault(area.offset, || {
                        format!("The data of CPU {other} begin within this CPU's: one of the two is not its own.")
                    }),
                };
                match self.buffer.missing(&self.bytes, area) {
                    0 => stream,
                    missing => stream.with_fault(self.bytes.len() as u64, || {
                        let size = area.size;
                        format!("The file ends {missing} bytes before this CPU's {size} bytes of data do.")
                    }),
                }
            })
            .collect()
    }
}
