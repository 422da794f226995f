//! Where finished batches are kept: in memory up to a budget, then as Parquet files in a temporary folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use polars::prelude::*;
use tempfile::TempDir;

use super::builders::TableSet;
use super::schema::Table;

/// How much memory the tables may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Finished batches of all tables together, in bytes; later ones go to disk.
    pub memory_bytes: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// The folder in which a temporary one is made; the system's where not given.
    pub spill_in: Option<PathBuf>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            memory_bytes: 192 << 20,
            batch_rows: 128 << 10,
            spill_in: None,
        }
    }
}

/// Why tables could not be built or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TablesError {
    #[error(
        "{path}: cannot make a temporary folder for tables larger than memory: {source}; set TMPDIR to one with room"
    )]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path}: cannot write {rows} rows of the table `{table}`: {source}; set TMPDIR to a folder with room"
    )]
    Spill {
        path: PathBuf,
        table: &'static str,
        rows: usize,
        source: PolarsError,
    },
    #[error(transparent)]
    Polars(#[from] PolarsError),
}

/// One table's batches.
#[derive(Debug)]
struct Stored {
    memory: DataFrame,
    files: Vec<PathBuf>,
    rows: usize,
}

/// Takes finished batches.
pub(super) struct Store {
    budget: Budget,
    used_bytes: usize,
    details: bool,
    stored: Vec<Stored>,
    folder: Option<TempDir>,
}

impl Store {
    pub fn new(set: &TableSet, budget: Budget) -> Self {
        let details = set.details();
        let stored = Table::ALL.iter().map(|table| Stored {
            memory: DataFrame::empty_with_schema(&table.schema(details)),
            files: Vec::new(),
            rows: 0,
        });
        Self {
            budget,
            used_bytes: 0,
            details,
            stored: stored.collect(),
            folder: None,
        }
    }

    /// Keeps a batch. Once the budget is spent, every further one goes to disk, so that a table's rows stay in order.
    pub fn add(&mut self, table: Table, mut batch: DataFrame) -> Result<(), TablesError> {
        if batch.height() == 0 {
            return Ok(());
        }
        let bytes = batch.estimated_size();
        let fits = self.folder.is_none() && self.used_bytes + bytes <= self.budget.memory_bytes;
        let file = match fits {
            true => None,
            false => Some(self.write(table, &mut batch)?),
        };
        let Some(stored) = self.stored.get_mut(table as usize) else {
            return Ok(());
        };
        stored.rows += batch.height();
        match file {
            Some(file) => stored.files.push(file),
            None => {
                self.used_bytes += bytes;
                stored.memory.vstack_mut_owned(batch)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, table: Table, batch: &mut DataFrame) -> Result<PathBuf, TablesError> {
        let number = self.stored.get(table as usize).map_or(0, |s| s.files.len());
        let path = self.folder()?.join(format!("{}-{number}.parquet", table.as_str()));
        let rows = batch.height();
        write_parquet(&path, batch).map_err(|source| TablesError::Spill {
            path: path.clone(),
            table: table.as_str(),
            rows,
            source,
        })?;
        Ok(path)
    }

    fn folder(&mut self) -> Result<&Path, TablesError> {
        if self.folder.is_none() {
            let parent = self.budget.spill_in.clone().unwrap_or_else(std::env::temp_dir);
            let folder = tempfile::Builder::new()
                .prefix("ttwu-")
                .tempdir_in(&parent)
                .map_err(|source| TablesError::Folder {
                    path: parent,
                    source,
                })?;
            self.folder = Some(folder);
        }
        Ok(self.folder.as_ref().map_or(Path::new(""), TempDir::path))
    }

    pub fn finish(self) -> Tables {
        Tables {
            stored: self.stored,
            memory_bytes: self.used_bytes,
            details: self.details,
            _folder: self.folder,
        }
    }
}

/// Writes for reading back at once: lightly compressed, without statistics.
fn write_parquet(path: &Path, batch: &mut DataFrame) -> PolarsResult<()> {
    let file = File::create(path)?;
    ParquetWriter::new(file)
        .with_compression(ParquetCompression::Lz4Raw)
        .with_statistics(StatisticsOptions::empty())
        .finish(batch)?;
    Ok(())
}

/// Finished tables. What was spilled is removed from disk with them.
#[derive(Debug)]
pub struct Tables {
    stored: Vec<Stored>,
    memory_bytes: usize,
    details: bool,
    _folder: Option<TempDir>,
}

impl Tables {
    /// A table, to be queried; rows in the order in which the replay emitted them. A table that was not asked for
    /// is empty.
    ///
    /// # Errors
    /// Where polars cannot plan the reading of spilled batches.
    pub fn lazy(&self, table: Table) -> PolarsResult<LazyFrame> {
        let Some(stored) = self.stored.get(table as usize) else {
            return Ok(DataFrame::empty().lazy());
        };
        let memory = stored.memory.clone().lazy();
        if stored.files.is_empty() {
            return Ok(memory);
        }
        let paths: PolarsResult<Vec<_>> =
            stored.files.iter().map(|path| PlRefPath::try_from_path(path)).collect();
        let args = ScanArgsParquet {
            schema: Some(Arc::new(table.schema(self.details))),
            glob: false,
            cache: false,
            use_statistics: false,
            ..ScanArgsParquet::default()
        };
        let disk = LazyFrame::scan_parquet_files(paths?.into_iter().collect(), args)?;
        if stored.memory.height() == 0 {
            return Ok(disk);
        }
        concat([memory, disk], UnionArgs::default())
    }

    /// How many rows a table has.
    pub fn rows(&self, table: Table) -> usize {
        self.stored.get(table as usize).map_or(0, |stored| stored.rows)
    }

    /// What the batches in memory take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// How many batches are on disk.
    pub fn spilled_batches(&self) -> usize {
        self.stored.iter().map(|stored| stored.files.len()).sum()
    }
}
