//! Where tables come from: a dataset, or a trace, whose tables are exported when somebody asks for them.

use std::collections::BTreeSet;
use std::path::Path;

use polars::prelude::LazyFrame;

use super::{Dataset, QueryError};
use crate::export::{Plan, export};
use crate::leftovers::Temporary;
use crate::pipeline::Prepared;
use crate::tables::export::{DatasetError, Format, Key, Place};
use crate::tables::{Table, TablesError};

/// What is asked.
#[derive(Debug)]
pub enum Source {
    Dataset(Dataset),
    Trace(Box<TraceSource>),
}

/// A trace, and what was exported of it so far.
#[derive(Debug)]
pub struct TraceSource {
    prepared: Prepared,
    host: String,
    trace: String,
    folder: Temporary,
    exported: BTreeSet<Table>,
}

impl Source {
    /// A trace, whose tables are written to the folder for temporary files.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn of_trace(prepared: Prepared, host: &str, trace: &str) -> Result<Self, QueryError> {
        let within = std::env::temp_dir();
        let folder = Temporary::new("ttwu-query-", &within).map_err(|source| {
            TablesError::Dataset(DatasetError::Folder {
                path: within.clone(),
                source,
            })
        })?;
        Ok(Source::Trace(Box::new(TraceSource {
            prepared,
            host: host.to_owned(),
            trace: trace.to_owned(),
            folder,
            exported: BTreeSet::new(),
        })))
    }

    /// The names of its tables.
    pub fn tables(&self) -> Vec<String> {
        match self {
            Source::Dataset(dataset) => dataset.tables(),
            Source::Trace(_) => {
                let names = Table::ALL.iter().map(|table| table.as_str().to_owned());
                let mut names: Vec<String> = names.collect();
                names.sort_unstable();
                names
            }
        }
    }

    /// How many bytes are read to replay a trace.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Dataset(_) => 0,
            Source::Trace(trace) => trace.prepared.trace.meta().data_bytes,
        }
    }

    /// Sees to it that tables are there. `tick` is told how many bytes of the trace were read.
    ///
    /// # Errors
    /// If the trace cannot be exported.
    pub fn provide(
        &mut self,
        names: &[String],
        tick: crate::pipeline::Tick,
    ) -> Result<(), QueryError> {
        match self {
            Source::Dataset(_) => Ok(()),
            Source::Trace(trace) => trace.provide(names, tick),
        }
    }

    /// The rows of a table that is there, unread.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub fn table(&self, name: &str) -> Result<LazyFrame, QueryError> {
        match self {
            Source::Dataset(dataset) => dataset.table(name),
            Source::Trace(trace) => Dataset::open(trace.folder.path())?.table(name),
        }
    }
}

impl TraceSource {
    fn provide(&mut self, names: &[String], tick: crate::pipeline::Tick) -> Result<(), QueryError> {
        let wanted = Table::ALL.iter().copied().filter(|table| {
            names.iter().any(|name| name == table.as_str()) && !self.exported.contains(table)
        });
        let tables: Vec<Table> = wanted.collect();
        if tables.is_empty() {
            return Ok(());
        }
        let plan = Plan {
            tables: tables.clone(),
            format: Format::Parquet,
            place: self.place(self.folder.path()),
            force: true,
        };
        export(&self.prepared, &plan, tick)?;
        self.exported.extend(tables);
        self.exported.insert(Table::Traces);
        Ok(())
    }

    fn place(&self, root: &Path) -> Place {
        Place {
            root: root.to_owned(),
            keys: Key::ALL.to_vec(),
            host: self.host.clone(),
            trace: self.trace.clone(),
        }
    }
}
