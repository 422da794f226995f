//! What is to be recorded, settled before anything in the kernel is touched.

/// A tracepoint that the kernel has and the recording wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    pub system: String,
    pub name: String,
    /// A filter in the kernel's words, such as `vec == 3`.
    pub filter: Option<String>,
    /// The number by which its records name it, from tracefs `events/SYSTEM/NAME/id`.
    pub id: u64,
    /// tracefs `events/SYSTEM/NAME/format`, as it is.
    pub format: Vec<u8>,
}

/// What is to be recorded.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The CPUs to record, ascending; all of them online.
    pub cpus: Vec<u32>,
    pub events: Vec<PlannedEvent>,
    /// Bytes of buffer for each CPU; chosen by the rate of events where not given.
    pub buffer: Option<u64>,
    /// Whether the file is to be compressed with zstd.
    pub compress: bool,
    /// The clock of the stamps, as ftrace calls it: `mono` unless asked otherwise.
    pub clock: String,
    /// Names of counters to read at each switch (perf only), as `perf list` has them: `cycles`, `instructions`.
    pub counters: Vec<String>,
    /// The version of trace.dat to write: 6 or 7.
    pub file_version: u8,
    /// The command line of this program, for the file's header.
    pub command_line: Vec<String>,
}
