//! Why a recording failed, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A file of the kernel's or ours that could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write`, `create`, …
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A system call that failed.
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    /// What this machine or user cannot do, and the command that helps.
    #[error("{what}; {remedy}")]
    Denied { what: String, remedy: String },
    /// The command to be recorded could not be started.
    #[error("cannot run `{program}`: {source}")]
    Command { program: String, source: io::Error },
    /// What was asked for does not exist or makes no sense.
    #[error("{0}")]
    Wanted(String),
}

impl RecordError {
    /// For `map_err`: a file that could not be used.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// For `map_err`: a system call that failed.
    pub fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }
}
