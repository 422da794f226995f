//! perf.data: what `perf record` and `perf sched record` write, to a file or through a pipe, plain or compressed.
//!
//! ```text
//! header, features ── seekable.rs, early.rs ─┐
//! records of pipe mode ── pipe.rs ───────────┴─► events.rs ─► index.rs ─► stream.rs ─► events in time order
//! compressed records ── decompress.rs ────────────────────────────┘
//! ```
//!
//! Source of the format: `tools/perf/Documentation/perf.data-file-format.txt` and `include/uapi/linux/perf_event.h` of
//! the Linux sources; each module names the part that it follows.

mod attr;
mod bound;
mod counting;
mod decompress;
mod early;
mod events;
mod features;
mod frames;
mod header;
mod index;
mod loss;
mod loss_edges;
mod machine;
mod meta;
mod pipe;
mod records;
mod sample;
mod seekable;
mod stray;
mod stream;

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::bytes::Endian;
use crate::decode::{Decoder, EventType};
use crate::error::OpenError;
use crate::event::NO_TYPE;
use crate::fault::FaultLog;
use crate::map::Bytes;
use crate::plausible::Span;
use crate::symbols::{Strings, Symbols};
use crate::trace::{EventSource, OpenOptions, TraceMeta};
use crate::tracedat::tracing_data::parse_tracing_data;
use crate::watch::{Watch, WatchError};

use self::attr::Attr;
use self::counting::Counting;
use self::events::Events;
use self::features::Features;
use self::header::{Header, Layout, Seekable};
use self::index::{Index, Known};
use self::meta::Container;
use self::stream::{Merged, Source};

/// Bytes of the kernel's `long` where no tracepoint is there to tell.
const LONG_SIZE: usize = 8;

/// An open perf.data file.
#[derive(Debug)]
pub struct PerfTrace {
    /// The file, cut behind its data; or its records without compression.
    data: Bytes,
    data_end: usize,
    endian: Endian,
    events: Events,
    decoder: Decoder,
    watch_error: Option<WatchError>,
    /// The decoder's types, then those of the events whose samples are only counted.
    types: Vec<EventType>,
    /// By event: its type's index.
    type_indexes: Vec<u16>,
    counting: Counting,
    index: Index,
    meta: TraceMeta,
    /// The lists of functions and strings of TRACING_DATA; newer perf leaves the first one empty.
    kallsyms: Vec<u8>,
    printk: Vec<u8>,
}

/// A file's header and features, from wherever its mode keeps them.
struct Front {
    endian: Endian,
    data: std::ops::Range<usize>,
    attrs: Vec<Attr>,
    features: Features,
    container: Container,
    /// Event ids and the names that EVENT_UPDATE records give.
    renamed: Vec<(u64, String)>,
    /// Names of tasks that the kernel had kept before the recording.
    task_names: Vec<(i32, Vec<u8>)>,
    faults: FaultLog,
    kallsyms: Vec<u8>,
    printk: Vec<u8>,
}

impl PerfTrace {
    /// Whether the content is a perf.data file, of whatever version.
    pub fn recognises(bytes: &[u8]) -> bool {
        header::recognises(bytes)
    }

    /// Reads the header and indexes the records.
    ///
    /// # Errors
    /// A header that cannot be used, tracepoints without their formats (an unfinished recording), and no room for
    /// what a compressed file holds.
    pub fn open(bytes: Bytes, path: &Path) -> Result<Self, OpenError> {
        Self::open_with(bytes, path, &OpenOptions::default())
    }

    /// The same with options. A perf.data has no instances.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(bytes: Bytes, path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let mut front = Front::read(&bytes, path)?;
        front.name_events();
        let (decoder, watch_error) = front.decoder(path, options.watch.as_ref())?;
        let (attrs, features) = (front.attrs, &mut front.features);
        if attrs.is_empty() {
            return Err(malformed(
                path,
                "it describes no event",
                0,
                "perf may have been killed before it recorded anything; record again",
            ));
        }
        let events = Events::new(attrs).map_err(|_| OpenError::Unusable {
            path: path.into(),
            what: "its events' samples are laid out differently and carry no id to tell them apart"
                .into(),
            hint: "record again with `perf record --sample-identifier`".into(),
        })?;
        let mut faults = front.faults;
        let known = Known {
            cpus_below: bound::of_features(features),
            ..Known::default()
        };
        let (data, data_end, mut index) = read_index(
            bytes,
            front.data,
            front.endian,
            &events,
            known,
            &mut front.container,
            &mut faults,
        )
        .map_err(|source| OpenError::Io {
            path: path.into(),
            source,
        })?;
        if front.container.early && index.samples.iter().all(|&count| count == 0) {
            return Err(nothing_recorded(path, front.container.cut));
        }
        faults.absorb(std::mem::take(&mut index.faults));
        index.faults = faults;
        if index.damaged && index.samples.iter().all(|&count| count == 0) {
            return Err(nothing_readable(path, &index.faults));
        }
        // Perf's own names come second, for they are of the recording's time.
        index.task_names.splice(0..0, front.task_names);
        let mut meta = meta::describe(front.container, &events, features, &mut index);
        let (types, type_indexes) = all_types(&decoder, &events);
        let counting = Counting::new(&events, &types, &type_indexes);
        meta.counters = counting.names.clone();
        Ok(Self {
            data,
            data_end,
            endian: front.endian,
            events,
            decoder,
            watch_error,
            types,
            type_indexes,
            counting,
            index,
            meta,
            kallsyms: front.kallsyms,
            printk: front.printk,
        })
    }

    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// The tracepoints that the file describes, then one type for each event that is none of them.
    pub fn types(&self) -> &[EventType] {
        &self.types
    }

    /// Why the events that were asked for are not marked, if so.
    pub fn watch_error(&self) -> Option<&WatchError> {
        self.watch_error.as_ref()
    }

    /// The traced kernel's functions, where the file has them.
    pub fn symbols(&self) -> Symbols {
        Symbols::parse(&self.kallsyms)
    }

    /// The traced kernel's static strings, where the file has them.
    pub fn strings(&self) -> Strings {
        Strings::parse(&self.printk)
    }

    /// How many samples the file has of each type, as [`Self::types`] counts them, by the events they name.
    pub fn sample_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.types.len()];
        for (&index, &count) in self.type_indexes.iter().zip(&self.index.samples) {
            if let Some(sum) = counts.get_mut(usize::from(index)) {
                *sum += count;
            }
        }
        counts
    }

    /// First and last event's time on each CPU, ascending by CPU.
    pub fn cpu_spans(&self) -> Vec<(u32, i64, i64)> {
        let span = |cpu: &index::CpuIndex| Some((cpu.cpu, cpu.first_ts?, cpu.last_ts?));
        self.index.cpus.iter().filter_map(span).collect()
    }

    /// Leaves out what happened before `first` or after `last`, as damage.
    pub fn believe(&mut self, first: i64, last: i64) {
        let data = self.data.get(..self.data_end).unwrap_or(&self.data);
        let believed = Span::new(first, last);
        for cpu in &mut self.index.cpus {
            cpu.runs.sort_by_key(|run| run.start);
        }
        stray::leave_out(&mut self.index, believed, data, self.endian, &self.events);
        self.index.sort_runs();
    }

    /// All events in time order.
    pub fn merged(&self) -> Box<dyn EventSource + '_> {
        let faults = self.index.faults.clone();
        Box::new(Merged::new(self.source(), self.index.cpus.iter(), faults))
    }

    /// At most 16 parts: groups of CPUs, or where CPUs are few, stretches of single ones. The faults met in opening
    /// come with the first.
    pub fn shards(&self) -> Vec<Box<dyn EventSource + '_>> {
        const MOST: usize = 16;
        // A part should be worth a thread's start.
        const LEAST_BYTES: u64 = 1 << 20;
        let cpus = &self.index.cpus;
        let per_part = cpus.len().div_ceil(MOST).max(1);
        let none = FaultLog::default;
        let mut parts: Vec<Merged<'_>> = if per_part > 1 {
            let groups = cpus.chunks(per_part);
            groups
                .map(|group| Merged::new(self.source(), group.iter(), none()))
                .collect()
        } else {
            let spare = (MOST - cpus.len()).max(1) as u64;
            let bytes = (self.index.run_bytes / spare).max(LEAST_BYTES);
            cpus.iter()
                .flat_map(|cpu| Merged::parts(self.source(), cpu, bytes))
                .collect()
        };
        let faults = self.index.faults.clone();
        match parts.first_mut() {
            Some(first) => first.add_faults(faults),
            None => parts.push(Merged::new(self.source(), std::iter::empty(), faults)),
        }
        let boxed = |part| Box::new(part) as Box<dyn EventSource + '_>;
        parts.into_iter().map(boxed).collect()
    }

    fn source(&self) -> Source<'_> {
        Source {
            data: self.data.get(..self.data_end).unwrap_or(&self.data),
            endian: self.endian,
            events: &self.events,
            decoder: &self.decoder,
            type_indexes: &self.type_indexes,
            counting: &self.counting,
        }
    }
}

impl Front {
    fn read(bytes: &[u8], path: &Path) -> Result<Self, OpenError> {
        let header = Header::parse(bytes)
            .map_err(|error| malformed(path, error.what, error.offset, error.hint))?;
        match header.layout {
            Layout::Pipe { data } => Ok(Self::read_pipe(bytes, data, header.endian)),
            Layout::Seekable(seekable) if seekable.is_bare() => Err(nothing_recorded(path, false)),
            Layout::Seekable(seekable) if seekable.ends_before_data(bytes.len()) => {
                Err(nothing_recorded(path, true))
            }
            Layout::Seekable(seekable) => Self::read_seekable(bytes, &seekable, header.endian)
                .ok_or_else(|| {
                    malformed(
                        path,
                        "the list of events lies outside the file or is damaged",
                        24,
                        "copy the file again, or record again",
                    )
                }),
        }
    }

    fn read_pipe(bytes: &[u8], start: usize, endian: Endian) -> Self {
        let pipe = pipe::PipeHeader::read(bytes, start, endian);
        let mut faults = FaultLog::default();
        for feature in pipe.unreadable {
            faults.push(start as u64, None, || {
                format!(
                    "header feature {} cannot be read and is left out",
                    feature.0
                )
            });
        }
        Self {
            endian,
            data: start..bytes.len(),
            attrs: pipe.attrs,
            features: pipe.features,
            container: Container {
                pipe: true,
                big_endian: endian == Endian::Big,
                ..Container::default()
            },
            renamed: pipe.renamed,
            task_names: Vec::new(),
            faults,
            kallsyms: Vec::new(),
            printk: Vec::new(),
        }
    }

    fn read_seekable(bytes: &[u8], header: &Seekable, endian: Endian) -> Option<Self> {
        let attrs = seekable::read_attrs(bytes, header, endian)?;
        let unfinished = header.data.size == 0;
        let mut faults = FaultLog::default();
        let mut features = Features::default();
        let features_cut =
            seekable::read_features(&mut features, bytes, header, endian, &mut faults);
        let cut = features_cut || !header.data.is_whole(bytes.len());
        let missing = unfinished || cut || header.features().next().is_none();
        let early = missing.then(|| early::read_features(bytes, header, endian));
        let early = early.flatten();
        let has_early = early.is_some();
        if let Some(early) = early {
            // What is there of the features at the end is newer. What is not there needs no telling any more.
            features = early;
            faults = FaultLog::default();
            let mut known = FaultLog::default();
            seekable::read_features(&mut features, bytes, header, endian, &mut known);
        }
        let mut data = header.data.range(bytes.len())?;
        if unfinished {
            data.end = bytes.len();
        }
        Some(Self {
            endian,
            data,
            attrs,
            features,
            container: Container {
                big_endian: endian == Endian::Big,
                unfinished,
                cut,
                early: has_early,
                ..Container::default()
            },
            renamed: Vec::new(),
            task_names: Vec::new(),
            faults,
            kallsyms: Vec::new(),
            printk: Vec::new(),
        })
    }

    /// Gives the events their names: those of EVENT_UPDATE and EVENT_DESC by id; without ids, EVENT_DESC's by place.
    fn name_events(&mut self) {
        let described = std::mem::take(&mut self.features.events);
        let mut by_id: FxHashMap<u64, &str> = FxHashMap::default();
        for desc in &described {
            by_id.extend(desc.ids.iter().map(|&id| (id, desc.name.as_str())));
        }
        by_id.extend(self.renamed.iter().map(|(id, name)| (*id, name.as_str())));
        let same = described.len() == self.attrs.len();
        for (place, attr) in self.attrs.iter_mut().enumerate() {
            let by_place = described.get(place).map(|desc| desc.name.as_str());
            let name = attr.ids.iter().find_map(|id| by_id.get(id).copied());
            attr.name = name.or(by_place).map(str::to_owned);
            // The header has them twice, and the first list may be damaged.
            if attr.ids.is_empty()
                && let Some(desc) = described.get(place).filter(|_| same)
            {
                attr.ids.clone_from(&desc.ids);
            }
        }
    }

    /// The decoder of the file's tracepoints. TRACING_DATA holds their formats, and names of tasks.
    fn decoder(
        &mut self,
        path: &Path,
        watch: Option<&Watch>,
    ) -> Result<(Decoder, Option<WatchError>), OpenError> {
        let Some(raw) = self.features.tracing_data.take() else {
            return if self.attrs.iter().any(Attr::is_tracepoint) {
                Err(self.no_formats(path))
            } else {
                let decoder = Decoder::new(&[], self.endian, LONG_SIZE);
                Ok((decoder, watch.map(|_| WatchError::NoEvent)))
            };
        };
        let parsed = parse_tracing_data(&raw).map_err(|damage| {
            malformed(
                path,
                &format!("the event formats are damaged ({})", damage.what),
                0,
                "copy the file again, or record again",
            )
        })?;
        if let Some(damage) = parsed.damage {
            self.faults.push(0, None, || {
                format!(
                    "the event formats are damaged from byte {} of them on: {}",
                    damage.offset, damage.what
                )
            });
        }
        self.task_names = parsed.cmdlines;
        let text = |range: std::ops::Range<usize>| raw.get(range).unwrap_or_default().to_vec();
        self.kallsyms = text(parsed.kallsyms);
        self.printk = text(parsed.printk);
        let mut decoder = Decoder::new(&parsed.formats, self.endian, parsed.long_size);
        let error = watch.and_then(|watch| decoder.watch(&parsed.formats, watch).err());
        Ok((decoder, error))
    }

    /// Why a file has tracepoints but not their formats, and what to do.
    fn no_formats(&self, path: &Path) -> OpenError {
        let (what, hint) = if self.container.unfinished {
            (
                "`perf record` was killed before it wrote the event formats, which come last, so its tracepoints cannot be decoded",
                "record again and end it with Ctrl-C or `kill -INT`, or let it run a command",
            )
        } else if self.container.cut {
            (
                "its end, where the event formats are, is missing or damaged (it may be cut off), so its tracepoints cannot be decoded",
                "copy it again in full",
            )
        } else {
            (
                "it has tracepoints but not their formats",
                "record with a perf that was built with libtraceevent (`perf version --build-options`)",
            )
        };
        OpenError::Unusable {
            path: path.into(),
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// Indexes the records, decompressed where they are compressed. Returns where they are, too.
fn read_index(
    bytes: Bytes,
    data: std::ops::Range<usize>,
    endian: Endian,
    events: &Events,
    mut known: Known,
    container: &mut Container,
    faults: &mut FaultLog,
) -> std::io::Result<(Bytes, usize, Index)> {
    let records = bytes.get(..data.end).unwrap_or(&bytes);
    if let Ok(index) = index::build(records, data.start, endian, events, known) {
        let end = records.len();
        return Ok((bytes, end, index));
    }
    container.compressed = true;
    let records = records.get(data.start..).unwrap_or_default();
    let plain;
    (plain, known.rest_is_lost) = decompress::decompress(records, endian, faults)?;
    known.decompressed = true;
    let index = index::build(&plain, 0, endian, events, known).unwrap_or_default();
    let end = plain.len();
    Ok((plain, end, index))
}

/// The decoder's types, those of the other events, and each event's own.
fn all_types(decoder: &Decoder, events: &Events) -> (Vec<EventType>, Vec<u16>) {
    let mut types = decoder.types().to_vec();
    let known = types.len();
    let mut indexes = Vec::with_capacity(events.attrs.len());
    for attr in &events.attrs {
        let described = |kind: &EventType| u64::from(kind.id) == attr.config;
        let place = types
            .iter()
            .take(known)
            .position(described)
            .filter(|_| attr.is_tracepoint());
        let place = place.unwrap_or_else(|| {
            let (system, name) = attr.described();
            types.push(EventType {
                id: attr.config as u32,
                system,
                name,
            });
            types.len() - 1
        });
        indexes.push(u16::try_from(place).unwrap_or(NO_TYPE));
    }
    (types, indexes)
}

/// All the `u64` of a section.
fn u64s(raw: &[u8], endian: Endian) -> Vec<u64> {
    raw.chunks_exact(8)
        .filter_map(|word| endian.u64_at(word, 0))
        .collect()
}

/// A recording that has no event: it was killed before its first, or cut off before it.
fn nothing_recorded(path: &Path, cut: bool) -> OpenError {
    let (what, hint) = if cut {
        (
            "the file is cut off before its first event",
            "copy it again in full, or record again",
        )
    } else {
        (
            "nothing was recorded yet",
            "the recording was killed before its first events were written; record again",
        )
    };
    OpenError::Unusable {
        path: path.into(),
        what: what.into(),
        hint: hint.into(),
    }
}

/// Damage that leaves no event.
fn nothing_readable(path: &Path, faults: &FaultLog) -> OpenError {
    let (what, offset) = faults
        .kept()
        .first()
        .map_or(("the records are damaged", 0), |fault| {
            (fault.what.as_str(), fault.offset)
        });
    malformed(
        path,
        &format!("no event can be read: {what}"),
        offset,
        "copy the file again, or record again",
    )
}

fn malformed(path: &Path, what: &str, offset: u64, hint: &str) -> OpenError {
    OpenError::Malformed {
        path: path.into(),
        what: what.into(),
        offset,
        hint: hint.into(),
    }
}
