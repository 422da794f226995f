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
            memory_bytes: 256 << 20,
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

/// A batch in memory.
#[derive(Debug)]
struct Segment {
    rows: DataFrame,
    /// The places of the columns that are kept in 32 bits, though they are 64 wide by the schema.
    narrow: Vec<usize>,
}

/// A batch, where it is kept.
#[derive(Debug)]
enum Batch {
    Memory(Segment),
    Disk(PathBuf),
}

impl Segment {
    /// Most durations and many stamps fit 32 bits for all of a batch: keeping them so halves the memory.
    fn new(mut batch: DataFrame) -> PolarsResult<Self> {
        let mut narrow = Vec::new();
        for index in 0..batch.width() {
            let Some(column) = batch.columns().get(index) else {
                continue;
            };
            if fits_32_bits(column)? {
                let column = column.cast(&DataType::UInt32)?;
                batch.replace_column(index, column)?;
                narrow.push(index);
            }
        }
        Ok(Self {
            rows: batch,
            narrow,
        })
    }

    /// The rows as the schema says.
    fn widened(&self) -> LazyFrame {
        let names = self.rows.get_column_names();
        let narrow = self.narrow.iter().filter_map(|&index| names.get(index));
        let widen: Vec<Expr> = narrow
            .map(|name| col((*name).clone()).cast(DataType::Int64))
            .collect();
        let rows = self.rows.clone().lazy();
        match widen.is_empty() {
            true => rows,
            false => rows.with_columns(widen),
        }
    }
}

fn fits_32_bits(column: &Column) -> PolarsResult<bool> {
    if column.dtype() != &DataType::Int64 {
        return Ok(false);
    }
    let values = column.i64()?;
    let (least, most) = (values.min().unwrap_or(0), values.max().unwrap_or(0));
    Ok(least >= 0 && most <= i64::from(u32::MAX))
}

/// One table's batches, in order.
#[derive(Debug, Default)]
struct Stored {
    batches: Vec<Batch>,
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
        Self {
            budget,
            used_bytes: 0,
            details,
            stored: Table::ALL.iter().map(|_| Stored::default()).collect(),
            folder: None,
        }
    }

    /// Keeps a batch. Once the budget is spent, every further one goes to disk, so that a table's rows stay in order.
    pub fn add(&mut self, table: Table, batch: DataFrame) -> Result<(), TablesError> {
        let rows = batch.height();
        if rows == 0 {
            return Ok(());
        }
        let kept = match self.in_memory(batch)? {
            Ok(segment) => Batch::Memory(segment),
            Err(mut batch) => Batch::Disk(self.write(table, &mut batch)?),
        };
        if let Some(stored) = self.stored.get_mut(table as usize) {
            stored.rows += rows;
            stored.batches.push(kept);
        }
        Ok(())
    }

    /// The batch as it is kept in memory, or back if there is no room.
    fn in_memory(&mut self, batch: DataFrame) -> PolarsResult<Result<Segment, DataFrame>> {
        if self.folder.is_some() {
            return Ok(Err(batch));
        }
        let segment = Segment::new(batch.clone())?;
        let bytes = segment.rows.estimated_size();
        if self.used_bytes + bytes > self.budget.memory_bytes {
            return Ok(Err(batch));
        }
        self.used_bytes += bytes;
        Ok(Ok(segment))
    }

    fn write(&mut self, table: Table, batch: &mut DataFrame) -> Result<PathBuf, TablesError> {
        let number = self
            .stored
            .get(table as usize)
            .map_or(0, |s| s.batches.len());
        let path = self
            .folder()?
            .join(format!("{}-{number}.parquet", table.as_str()));
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
            let parent = self
                .budget
                .spill_in
                .clone()
                .unwrap_or_else(std::env::temp_dir);
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
    /// Where polars cannot plan the reading of batches on disk.
    pub fn lazy(&self, table: Table) -> PolarsResult<LazyFrame> {
        let parts: PolarsResult<Vec<_>> = self.batches(table).collect();
        let mut parts = parts?;
        match parts.len() {
            0 => Ok(DataFrame::empty_with_schema(&table.schema(self.details)).lazy()),
            1 => Ok(parts.remove(0)),
            _ => concat(parts, UnionArgs::default()),
        }
    }

    /// The batches of a table one by one, in order: what is asked of each and then put together needs memory for one
    /// batch only.
    pub fn batches(&self, table: Table) -> impl Iterator<Item = PolarsResult<LazyFrame>> + '_ {
        let stored = self.stored.get(table as usize);
        let batches = stored.into_iter().flat_map(|stored| &stored.batches);
        batches.map(move |batch| match batch {
            Batch::Memory(segment) => Ok(segment.widened()),
            Batch::Disk(path) => self.scan(table, path),
        })
    }

    fn scan(&self, table: Table, path: &Path) -> PolarsResult<LazyFrame> {
        let args = ScanArgsParquet {
            schema: Some(Arc::new(table.schema(self.details))),
            glob: false,
            cache: false,
            use_statistics: false,
            ..ScanArgsParquet::default()
        };
        LazyFrame::scan_parquet(PlRefPath::try_from_path(path)?, args)
    }

    /// How many rows a table has.
    pub fn rows(&self, table: Table) -> usize {
        self.stored
            .get(table as usize)
            .map_or(0, |stored| stored.rows)
    }

    /// What the batches in memory take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// How many batches are on disk.
    pub fn spilled_batches(&self) -> usize {
        let batches = self.stored.iter().flat_map(|stored| &stored.batches);
        batches
            .filter(|batch| matches!(batch, Batch::Disk(_)))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::rows::{LostRow, Sink};
    use crate::tables::Builders;

    fn build(rows: &[LostRow], budget: Budget) -> Result<Tables, TablesError> {
        let mut builders = Builders::new(&TableSet::all(), budget);
        rows.iter().for_each(|row| builders.lost(row));
        builders.finish()
    }

    fn lost(start_ns: i64, events: Option<u64>) -> LostRow {
        LostRow {
            cpu: 3,
            start_ns,
            end_ns: start_ns + 1,
            events,
        }
    }

    fn starts(tables: &Tables) -> Vec<Option<i64>> {
        let frame = tables.lazy(Table::Lost).unwrap().collect().unwrap();
        assert_eq!(frame.schema().as_ref(), &Table::Lost.schema(true));
        frame
            .column("start_ns")
            .unwrap()
            .i64()
            .unwrap()
            .iter()
            .collect()
    }

    /// Batches of narrow and wide stamps, in memory and on disk, come back in order with the schema's types.
    #[test]
    fn rows_come_back_in_order_and_type() {
        let wide = i64::from(u32::MAX) + 1;
        let rows = [5, 6, wide, -7, 8, 9, wide, 1].map(|ns| lost(ns, (ns > 5).then_some(9)));
        let expected: Vec<_> = rows.iter().map(|row| Some(row.start_ns)).collect();
        for memory_bytes in [0, 60, 100, 1 << 20] {
            let tables = build(
                &rows,
                Budget {
                    memory_bytes,
                    batch_rows: 2,
                    spill_in: None,
                },
            );
            let tables = tables.unwrap();
            assert_eq!(starts(&tables), expected, "{memory_bytes}");
            assert_eq!(tables.rows(Table::Lost), 8);
            assert!(tables.memory_bytes() <= memory_bytes);
            assert_eq!(tables.batches(Table::Lost).count(), 4);
            let known = tables
                .lazy(Table::Lost)
                .unwrap()
                .select([col("events").null_count()]);
            let nulls = known.collect().unwrap();
            assert_eq!(
                nulls.column("events").unwrap().u32().unwrap().get(0),
                Some(3)
            );
        }
    }

    #[test]
    fn tables_that_were_not_asked_for_are_empty() {
        let builders = Builders::new(&TableSet::analysis(), Budget::default());
        let tables = builders.finish().unwrap();
        let frame = tables.lazy(Table::Ipis).unwrap().collect().unwrap();
        assert_eq!((frame.height(), frame.width()), (0, 9));
    }

    #[test]
    fn what_cannot_be_written_is_an_error_that_says_where() {
        let nowhere = Budget {
            memory_bytes: 0,
            batch_rows: 1,
            spill_in: Some("/nonexistent".into()),
        };
        let rows = [lost(1, None), lost(2, None)];
        let error = build(&rows, nowhere).unwrap_err().to_string();
        assert!(
            error.contains("/nonexistent") && error.contains("TMPDIR"),
            "{error}"
        );
    }

    #[test]
    fn spilled_batches_go_with_the_tables() {
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget {
            memory_bytes: 0,
            batch_rows: 1,
            spill_in: Some(folder.path().to_owned()),
        };
        let tables = build(&[lost(1, None)], budget).unwrap();
        let entries = || std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((entries(), tables.spilled_batches()), (1, 1));
        drop(tables);
        assert_eq!(entries(), 0);
    }
}
