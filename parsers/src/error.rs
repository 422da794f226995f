//! Why a trace could not be opened: what was found, and what the user can do.

use std::path::PathBuf;

/// A trace that cannot be read at all. Damage that leaves the rest readable is a [`crate::fault::Fault`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("cannot read {path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is a folder; name the trace file inside it")]
    Directory { path: PathBuf },
    #[error(
        "{path} is empty: nothing was recorded yet; was the recorder killed, or the disk full?"
    )]
    Empty { path: PathBuf },
    /// Not a format that is read; `found` says what the content looks like.
    #[error(
        "{path} is no trace that ttwu reads: found {found}; expected perf.data (perf record) or trace.dat (trace-cmd record)"
    )]
    WrongKind { path: PathBuf, found: String },
    /// The right kind of file, but its header or metadata cannot be used.
    #[error("{path}: {what} at byte {offset}: {hint}")]
    Malformed {
        path: PathBuf,
        what: String,
        offset: u64,
        hint: String,
    },
    /// The file is sound but lacks what the analysis stands on.
    #[error("{path}: {what}; {hint}")]
    Unusable {
        path: PathBuf,
        what: String,
        hint: String,
    },
}
