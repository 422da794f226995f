//! The work that a trace shows: units, and the span that they lie in.

/// The span that the units lie in, and where the chain begins.
pub struct Span {
    pub start_ns: i64,
    pub end_ns: i64,
    /// the task (TaskId.0) that was active at the end: the chain goes backwards from it
    pub last_task: Option<u32>,
}
