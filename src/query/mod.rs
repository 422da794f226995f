//! Asks tables in SQL: those of a dataset, or those of a trace, which is exported for the purpose.

mod answer;
mod dataset;
mod questions;
mod source;

use std::path::PathBuf;

use polars::prelude::PolarsError;

pub use self::answer::{Asked, statements};
pub use self::dataset::Dataset;
pub use self::questions::{ALL, Question};
pub use self::source::Source;

use crate::pipeline::RunError;
use crate::tables::TablesError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    #[error("{path}: cannot be read: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path}: no table is there: give the folder of a dataset that `ttwu export -o` wrote, or a trace"
    )]
    NoDataset { path: PathBuf },
    #[error("there is no table `{asked}`; {there}")]
    NoTable { asked: String, there: String },
    #[error("{path}: the table `{table}` cannot be read: {source}")]
    Table {
        path: PathBuf,
        table: String,
        source: PolarsError,
    },
    #[error(
        "no question is named `{asked}`{like}; `ttwu query --list` names all, SQL in a file is given by its path, and `-` reads it from standard input"
    )]
    NoQuestion { asked: String, like: String },
    #[error("{0}")]
    Sql(String),
    #[error("one statement is wanted here, and there are {0}; `ttwu sql` takes several")]
    Statements(usize),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Tables(#[from] TablesError),
}
