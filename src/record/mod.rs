//! Recording a running kernel's scheduler events into a file that everyone's tools read.
//!
//! [`session`] runs a recording from start to end; [`ftrace`] and [`perf`] move the events from the kernel to the file.
//! What the machine is goes into the file with them: [`snapshot`], in the form that `docs/machine-record.md` describes.

mod buffers;
pub mod cleanup;
mod command;
pub mod cpus;
pub mod doctor;
pub mod error;
pub mod events;
mod ftrace;
mod instance;
mod owner;
pub mod perf;
pub mod plan;
pub mod probes;
pub mod session;
mod signals;
pub mod snapshot;
pub mod target;
pub mod tracefs;
mod visitor;

use std::time::Duration;

pub use self::error::RecordError;
pub use self::plan::Plan;

/// One of the two ways from the kernel's events to a file.
pub trait Backend {
    /// `ftrace` or `perf`.
    fn name(&self) -> &'static str;

    /// Writes the lines of the machine record that are known before the first event. Called once, before
    /// [`Backend::begin`]; the ids of all threads are known by then.
    fn introduce(&mut self, lines: &[String]) -> Result<(), RecordError>;

    /// Turns all events on, as near as possible in one moment. Reading begins at once.
    fn begin(&mut self) -> Result<(), RecordError>;

    /// What has been recorded so far. Cheap: asked several times a second while recording.
    fn seen(&self) -> Seen;

    /// Turns all events off and writes what is left of them.
    ///
    /// # Errors
    /// What went wrong in writing since [`Backend::begin`], too: a full disk, for one.
    fn end(&mut self) -> Result<(), RecordError>;

    /// Events that were lost, by CPU, ascending; only CPUs that lost some. Complete after [`Backend::end`].
    fn lost(&self) -> Vec<(u32, u64)>;

    /// Puts the file in its final form. `after` are lines of the machine record about the time after the recording.
    fn finish(self: Box<Self>, after: &[String]) -> Result<Summary, RecordError>;

    /// Whether it had to give up; [`Backend::end`] says why.
    fn failed(&self) -> bool;

    /// The ids of its own threads.
    fn threads(&self) -> Vec<i32>;
}

/// What a running recording has got so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Events, as near as can be told without decoding them.
    pub events: u64,
    /// Bytes written to the file.
    pub bytes: u64,
    /// Events that the kernel dropped because the buffer was full.
    pub lost: u64,
}

/// What a recording has got.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub events: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Events lost, by CPU, ascending; only CPUs that lost some.
    pub lost: Vec<(u32, u64)>,
    /// CPU time of the recorder's own threads.
    pub cpu_time: Duration,
}
