//! The perf backend: tracepoints through perf's rings, into a perf.data that `perf` itself reads.
//!
//! ```text
//! events.rs ─► kernel ─► ring.rs ─► readers.rs ─► output.rs ─► file
//!                          ▲ growth.rs               ▲ header.rs: machine.rs, tracing_data.rs, start_records.rs
//! ```
//!
//! Reading costs the recorded program as little as `perf record` does: whole stretches of records go from a ring to the
//! file in one system call, and only their headers are looked at on the way.

mod attr;
mod clock;
mod compress;
mod counters;
mod descriptors;
mod events;
mod feature;
mod growth;
mod header;
mod machine;
mod output;
mod readers;
mod ring;
mod start_records;
mod stretch;
#[cfg(test)]
mod tests;
mod tracing_data;

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::attr::Common;
use self::clock::StampClock;
use self::compress::compress;
use self::descriptors::RaisedLimit;
use self::events::{Described, Events, files_needed, open_ring_owner};
use self::feature::{Content, Feature, FeatureNumber};
use self::header::{Layout, features_section, front};
use self::machine::Machine;
use self::output::Output;
use self::readers::{CpuTally, Readers, Source, ThreadResult, own_cpu_time};
use self::ring::{Ring, attach};
use self::start_records::start_records;
use self::stretch::Tally;
use self::tracing_data::tracing_data;
use super::buffers::{Need, Sizes};
use super::doctor::explain_perf_map_denied;
use super::plan::Plan;
use super::target::Successor;
use super::tracefs::Tracefs;
use super::{Backend, RecordError, Seen, Summary};

/// A recording through perf.
pub struct PerfRecorder {
    // Dropped first: the threads use the events' files.
    readers: Readers,
    events: Events,
    cpus: Vec<u32>,
    path: PathBuf,
    /// Known once the first lines of the machine record are.
    layout: Layout,
    /// All features but those that only the end of the recording can tell.
    features: Vec<Feature>,
    /// First lines of the machine record.
    lines: Vec<String>,
    compress: bool,
    results: Vec<ThreadResult>,
}

impl PerfRecorder {
    /// Opens all events, turned off, and starts the threads that will read them. `file` is new, empty, and open for
    /// reading and writing at `path`.
    ///
    /// # Errors
    /// What this machine or user cannot do, each with what helps; a file that cannot be written.
    pub fn new(
        plan: &Plan,
        tracefs: &Tracefs,
        file: File,
        path: &Path,
    ) -> Result<Self, RecordError> {
        let layout = Layout::default();
        write_at(&file, &layout.header(0, &[]), 0).map_err(RecordError::file("write", path))?;
        let common = Common {
            clock: StampClock::named(&plan.clock)?,
            address: !plan.counters.is_empty(),
        };
        let limit = RaisedLimit::for_files(files_needed(plan))?;
        let events = Events::open(plan, common)?;
        let machine = Machine::this();
        let sizes = Sizes::here(Need::PERF, plan.cpus.len(), plan.buffer);
        let sources = open_rings(plan, common, sizes, &events)?;
        drop(limit);
        let features = known_features(plan, tracefs, &machine, common.clock, &events)?;
        Ok(Self {
            readers: Readers::start(sources, Output::new(file), sizes, common.time_at())?,
            events,
            cpus: plan.cpus.clone(),
            path: path.to_owned(),
            layout,
            features,
            lines: Vec::new(),
            compress: plan.compress,
            results: Vec::new(),
        })
    }

    /// Writes everything that comes before the first event.
    fn write_front(&mut self) -> io::Result<()> {
        let mut early = self.features.clone();
        early.push(machine_record(&self.lines));
        let (layout, bytes) = front(&self.events.described, &early);
        let output = self.output();
        write_at(output.file(), &bytes, header::HEADER_BYTES)?;
        let records = start_records(&self.cpus, &self.events.described);
        write_at(output.file(), &records, layout.data)?;
        // Last, so that a file is either seen to be empty or whole so far.
        write_at(output.file(), &layout.header(0, &[]), 0)?;
        output.start_at(layout.data + records.len() as u64);
        self.layout = layout;
        Ok(())
    }

    fn output(&self) -> &Output {
        &self.readers.shared.output
    }

    fn tallies(&self) -> impl Iterator<Item = &CpuTally> {
        self.results.iter().flat_map(|result| &result.tallies)
    }

    /// The features of the finished file, in order.
    fn all_features(&self, after: &[String]) -> Vec<Feature> {
        let mut features = self.features.clone();
        let lines: Vec<String> = self.lines.iter().chain(after).cloned().collect();
        features.push(machine_record(&lines));
        let mut total = Tally::default();
        self.tallies().for_each(|cpu| total.add(cpu.tally));
        if let Some((first, last)) = total.times {
            let content = Content::default().u64(first).u64(last);
            features.push(Feature::new(FeatureNumber::SAMPLE_TIME, content));
        }
        features.sort_by_key(|feature| feature.number);
        features
    }

    /// Puts header and features around the data. Whenever this is interrupted, the file can be read.
    fn complete(&self, after: &[String]) -> Result<u64, RecordError> {
        let mut features = self.all_features(after);
        let end = self.output().end();
        let size = end.saturating_sub(self.layout.data);
        let file = self.output().file();
        if self.compress {
            return self.compress(file, size, &mut features);
        }
        write_at(file, &self.layout.header(size, &[]), 0)
            .and_then(|()| write_end(file, &self.layout, size, &features))
            .map_err(RecordError::file("write", &self.path))
    }

    /// Writes the same file once more with its data compressed, and puts it in the place of the first.
    fn compress(
        &self,
        file: &File,
        size: u64,
        features: &mut Vec<Feature>,
    ) -> Result<u64, RecordError> {
        let failed = || RecordError::file("write", &self.path);
        let successor = Successor::of(&self.path)?;
        let mut new = &successor.file;
        let mut front = vec![0; usize::try_from(self.layout.data).unwrap_or_default()];
        file.read_exact_at(&mut front, 0).map_err(failed())?;
        write_at(new, &front, 0).map_err(failed())?;
        new.seek(SeekFrom::Start(self.layout.data))
            .map_err(failed())?;
        let compressed = compress(file, self.layout.data, size, new).map_err(failed())?;
        features.push(compressed.feature());
        features.sort_by_key(|feature| feature.number);
        let bytes = write_end(new, &self.layout, compressed.size, features).map_err(failed())?;
        successor.succeed()?;
        Ok(bytes)
    }
}

impl Backend for PerfRecorder {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn introduce(&mut self, lines: &[String]) -> Result<(), RecordError> {
        self.lines = lines.to_vec();
        self.write_front()
            .map_err(RecordError::file("write", &self.path))
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        if self.layout == Layout::default() {
            self.introduce(&[])?;
        }
        self.events.enable()
    }

    fn seen(&self) -> Seen {
        let (events, lost) = self.readers.counts();
        Seen {
            events,
            bytes: self.output().end(),
            lost,
        }
    }

    fn end(&mut self) -> Result<(), RecordError> {
        self.events.disable_samples();
        self.results.extend(self.readers.stop());
        self.events.disable_names();
        match self.output().take_error() {
            None => Ok(()),
            Some(error) => Err(RecordError::file("write", &self.path)(error)),
        }
    }

    fn failed(&self) -> bool {
        self.output().has_failed()
    }

    fn lost(&self) -> Vec<(u32, u64)> {
        let lost = self.tallies().map(|cpu| (cpu.cpu, cpu.tally.lost));
        let mut lost: Vec<_> = lost.filter(|&(_, lost)| lost > 0).collect();
        lost.sort_unstable();
        lost
    }

    fn finish(self: Box<Self>, after: &[String]) -> Result<Summary, RecordError> {
        let start = own_cpu_time();
        let bytes = self.complete(after)?;
        let finishing = own_cpu_time().saturating_sub(start);
        let threads: Duration = self.results.iter().map(|result| result.cpu_time).sum();
        Ok(Summary {
            events: self.tallies().map(|cpu| cpu.tally.samples).sum(),
            bytes,
            lost: self.lost(),
            cpu_time: threads + finishing,
        })
    }

    fn threads(&self) -> Vec<i32> {
        self.readers.tids().to_vec()
    }
}

/// A ring for each CPU, with the CPU's events redirected to it.
fn open_rings(
    plan: &Plan,
    common: Common,
    sizes: Sizes,
    events: &Events,
) -> Result<Vec<Source>, RecordError> {
    let mut sources = Vec::with_capacity(plan.cpus.len());
    for (place, &cpu) in plan.cpus.iter().enumerate() {
        let ring = map_ring(common, cpu, sizes, plan.buffer.is_some())?;
        let writers = events.writers(place);
        for &writer in &writers {
            attach(ring.file(), writer).map_err(RecordError::system(
                "cannot redirect the events to one ring",
            ))?;
        }
        // Opened now, while the limit of open files is raised.
        let spare = (sizes.start < sizes.most)
            .then(|| open_ring_owner(cpu, common))
            .transpose()?;
        sources.push(Source {
            ring,
            writers,
            spare,
        });
    }
    Ok(sources)
}

/// Maps a ring, a smaller one if there is no right to lock so much memory and the user wants no certain size.
fn map_ring(common: Common, cpu: u32, sizes: Sizes, fixed: bool) -> Result<Ring, RecordError> {
    /// Less is of no use.
    const LEAST: usize = 64 << 10;
    let mut size = sizes.start;
    loop {
        let error = match Ring::map(open_ring_owner(cpu, common)?, cpu, size) {
            Ok(ring) => return Ok(ring),
            Err(error) => error,
        };
        if fixed || size / 2 < LEAST {
            return Err(explain_perf_map_denied(
                error.raw_os_error().unwrap_or(0),
                size as u64,
            ));
        }
        size /= 2;
    }
}

/// What is known before the recording begins, but for the machine record.
fn known_features(
    plan: &Plan,
    tracefs: &Tracefs,
    machine: &Machine,
    clock: StampClock,
    events: &Events,
) -> Result<Vec<Feature>, RecordError> {
    let version = format!("ttwu {}", env!("CARGO_PKG_VERSION"));
    let mut features = vec![
        Feature {
            number: FeatureNumber::TRACING_DATA,
            content: tracing_data(plan, tracefs)?,
        },
        Feature::text(FeatureNumber::VERSION, &version),
        Feature::new(
            FeatureNumber::CMDLINE,
            Content::default().strings(&plan.command_line),
        ),
        event_descriptions(&events.described),
    ];
    features.extend(machine.features());
    features.extend(group_descriptions(events));
    features.extend(clock_features(clock));
    features.sort_by_key(|feature| feature.number);
    Ok(features)
}

/// EVENT_DESC: number of events, size of an attr, and of each event its attr, number of ids, name and ids.
fn event_descriptions(events: &[Described]) -> Feature {
    let mut content = Content::default()
        .u32(events.len() as u32)
        .u32(attr::ATTR_BYTES as u32);
    for event in events {
        content = content
            .bytes(&event.spec.bytes())
            .u32(event.ids.len() as u32)
            .string(&event.name);
        content = event.ids.iter().copied().fold(content, Content::u64);
    }
    Feature::new(FeatureNumber::EVENT_DESC, content)
}

/// GROUP_DESC: number of groups, and of each its name, its leader's place and how many events it has.
fn group_descriptions(events: &Events) -> Option<Feature> {
    let groups = events.groups();
    let counted = Content::default().u32(groups.len() as u32);
    let add = |content: Content, &(leader, members): &(usize, usize)| {
        content
            .string("{anon_group}")
            .u32(leader as u32)
            .u32(members as u32)
    };
    let content = groups.iter().fold(counted, add);
    (!groups.is_empty()).then(|| Feature::new(FeatureNumber::GROUP_DESC, content))
}

/// CLOCKID (the clock's resolution) and CLOCK_DATA (one moment by it and by the wall clock); none for perf's own clock.
fn clock_features(clock: StampClock) -> Vec<Feature> {
    const VERSION: u32 = 1;
    let Some(id) = clock.id() else {
        return Vec::new();
    };
    let number = nix::time::ClockId::from_raw(id);
    let (Ok(resolution), Ok(wall), Ok(now)) = (
        nix::time::clock_getres(number),
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME),
        nix::time::clock_gettime(number),
    ) else {
        return Vec::new();
    };
    let nanoseconds = |time| Duration::from(time).as_nanos() as u64;
    let moment = Content::default()
        .u32(VERSION)
        .u32(id.cast_unsigned())
        .u64(nanoseconds(wall))
        .u64(nanoseconds(now));
    let resolution = Content::default().u64(nanoseconds(resolution));
    vec![
        Feature::new(FeatureNumber::CLOCKID, resolution),
        Feature::new(FeatureNumber::CLOCK_DATA, moment),
    ]
}

fn machine_record(lines: &[String]) -> Feature {
    Feature {
        number: FeatureNumber::MACHINE_RECORD,
        content: lines.join("\n").into_bytes(),
    }
}

/// Writes the features behind `size` bytes of data, then the header that tells of both. Returns the file's size.
fn write_end(file: &File, layout: &Layout, size: u64, features: &[Feature]) -> io::Result<u64> {
    let at = layout.data + size;
    let section = features_section(at, features);
    write_at(file, &section, at)?;
    let end = at + section.len() as u64;
    // What could not be written properly may lie behind.
    file.set_len(end)?;
    write_at(file, &layout.header(size, features), 0)?;
    Ok(end)
}

fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
}
