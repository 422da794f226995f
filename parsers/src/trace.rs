//! Opening a trace of any kind, and what every kind offers.

use std::path::Path;

use crate::decode::EventType;
use crate::error::OpenError;
use crate::event::{Event, escape};
use crate::fault::FaultLog;
use crate::glance::Glance;
use crate::map::Bytes;
use crate::perfdata::PerfTrace;
use crate::symbols::{Strings, Symbols};
use crate::topology::PerfTopology;
use crate::tracedat::DatTrace;
use crate::watch::{Watch, WatchError};

/// The clock a trace was recorded with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// The kernel's name for it, such as `local`, `mono` or `perf`.
    pub name: String,
    /// Whether stamps are nanoseconds. `counter`, and `x86-tsc` without a rate, are not.
    pub nanoseconds: bool,
    /// Whether stamps of different CPUs can be compared; ftrace's `local` clock may drift between CPUs.
    pub global: bool,
}

/// What a trace says about itself and its machine.
#[derive(Debug, Clone)]
pub struct TraceMeta {
    /// Such as `perf.data` or `trace.dat v7 zstd`.
    pub format: String,
    pub clock: Clock,
    pub kernel_release: Option<String>,
    pub hostname: Option<String>,
    pub arch: Option<String>,
    /// The recorder's version as it writes it: a number for perf and trace-cmd, `ttwu 0.1.0` for this program.
    pub recorder: Option<String>,
    /// Command line of the recorder.
    pub cmdline: Vec<String>,
    /// CPUs with a stream of their own in the file, ascending; ids may be sparse.
    pub cpus: Vec<u32>,
    /// CPUs whose buffer provably held every event from the recording's start (nothing overwritten).
    pub complete_from_start: Vec<u32>,
    /// perf.data's topology features.
    pub topology: Option<PerfTopology>,
    /// False where perf recorded single tasks instead of CPUs: CPU states cannot be rebuilt then.
    pub system_wide: bool,
    /// Whether events say which CPU recorded them; perf records that only where asked to. Without it every
    /// `Event::cpu` is `u32::MAX`.
    pub has_cpu: bool,
    /// Whether events carry a time; perf can be told not to.
    pub has_time: bool,
    /// Losses that no record places on a CPU or at a time.
    pub lost_unplaced: u64,
    /// Names of tasks as the recorder saved them.
    pub task_names: Vec<(i32, Vec<u8>)>,
    /// The file's buffers (ftrace instances) and which one is read.
    pub buffers: Vec<BufferInfo>,
    /// Bytes of event data, for progress.
    pub data_bytes: u64,
    /// The counters whose values come with each `sched_switch` (`Payload::Counters`), in perf's words.
    pub counters: Vec<String>,
    /// Lines of the machine record that the file's header carries (`docs/machine-record.md`). Empty in a trace.dat, which
    /// has them as events.
    pub machine_record: Vec<String>,
    /// Things a user should know of how the file was read, each a full sentence.
    pub notes: Vec<String>,
}

/// One ring buffer of a trace.dat; perf.data has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferInfo {
    /// Empty for the top buffer.
    pub name: String,
    pub clock: String,
    pub bytes: u64,
    pub selected: bool,
}

/// What the caller wants of a trace.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The ftrace instance to read; the one with the most data where not given.
    pub instance: Option<String>,
    /// The events to mark; see [`Trace::watch_error`].
    pub watch: Option<Watch>,
}

/// Events one after the other.
pub trait EventSource: Send {
    /// The next event, or `None` at the end.
    fn next_event(&mut self) -> Option<Event>;
    /// The next event at a glance: what `Glance::from` makes of it, in less time.
    fn next_glance(&mut self) -> Option<Glance>;
    /// Bytes of event data consumed so far.
    fn bytes_done(&self) -> u64;
    /// Damage met so far; empties the log.
    fn take_faults(&mut self) -> FaultLog;
}

/// An open trace.
#[derive(Debug)]
pub enum Trace {
    Perf(Box<PerfTrace>),
    Dat(Box<DatTrace>),
}

impl Trace {
    /// Opens a trace by its content, whatever its name.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let bytes = Bytes::open(path)?;
        if PerfTrace::recognises(&bytes) {
            return PerfTrace::open_with(bytes, path, options).map(|t| Trace::Perf(Box::new(t)));
        }
        if DatTrace::recognises(&bytes) {
            return DatTrace::open(bytes, path, options).map(|t| Trace::Dat(Box::new(t)));
        }
        Err(OpenError::WrongKind {
            path: path.into(),
            found: describe(&bytes),
        })
    }

    pub fn meta(&self) -> &TraceMeta {
        match self {
            Trace::Perf(trace) => trace.meta(),
            Trace::Dat(trace) => trace.meta(),
        }
    }

    /// The event types, in the order `Event::type_index` counts.
    pub fn types(&self) -> &[EventType] {
        match self {
            Trace::Perf(trace) => trace.types(),
            Trace::Dat(trace) => trace.types(),
        }
    }

    /// Why the events that [`OpenOptions::watch`] asks for are not marked, if so: the trace is open all the same.
    pub fn watch_error(&self) -> Option<&WatchError> {
        match self {
            Trace::Perf(trace) => trace.watch_error(),
            Trace::Dat(trace) => trace.watch_error(),
        }
    }

    /// The traced kernel's functions, where the trace has them. Reads megabytes: once is enough.
    pub fn symbols(&self) -> Symbols {
        match self {
            Trace::Perf(trace) => trace.symbols(),
            Trace::Dat(trace) => trace.symbols(),
        }
    }

    /// The traced kernel's static strings, where the trace has them.
    pub fn strings(&self) -> Strings {
        match self {
            Trace::Perf(trace) => trace.strings(),
            Trace::Dat(trace) => trace.strings(),
        }
    }

    /// Takes all events before `first` and after `last`, in nanoseconds, for damage: they are left out from now on, and
    /// told as faults and losses. The trace itself leaves out only what lies days away, or what its neighbours contradict.
    pub fn believe(&mut self, first: i64, last: i64) {
        match self {
            Trace::Perf(trace) => trace.believe(first, last),
            Trace::Dat(trace) => trace.believe(first, last),
        }
    }

    /// All events in time order; of equal stamps the lower CPU first, each CPU's in recorded order.
    pub fn merged(&self) -> Box<dyn EventSource + '_> {
        match self {
            Trace::Perf(trace) => trace.merged(),
            Trace::Dat(trace) => trace.merged(),
        }
    }

    /// The same events in parts that can be read side by side, each of one CPU and in its order.
    pub fn shards(&self) -> Vec<Box<dyn EventSource + '_>> {
        match self {
            Trace::Perf(trace) => trace.shards(),
            Trace::Dat(trace) => trace.shards(),
        }
    }
}

/// What a file that is no trace looks like, for the error message.
fn describe(bytes: &[u8]) -> String {
    const MAGICS: [(&[u8], &str); 8] = [
        (b"\x7fELF", "an ELF program"),
        (b"\x1f\x8b", "a gzip archive (decompress it first)"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive (decompress it first)"),
        (b"\xfd7zXZ", "an xz archive (decompress it first)"),
        (b"PK\x03\x04", "a zip archive (unpack it first)"),
        (b"PAR1", "a Parquet file"),
        (b"# tracer:", "the text of ftrace's `trace` file"),
        (b"<!DOCTYPE", "an HTML page"),
    ];
    if let Some((_, what)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*what).to_owned();
    }
    let head = bytes.get(..bytes.len().min(256)).unwrap_or(bytes);
    let line = head.split(|&b| b == b'\n').next().unwrap_or(head);
    let line = line.get(..line.len().min(40)).unwrap_or(line);
    if head.contains(&0) || std::str::from_utf8(line).is_err() {
        let hex: Vec<_> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
        return format!("unknown binary data starting {}", hex.join(" "));
    }
    format!("text starting `{}`", escape(line))
}
