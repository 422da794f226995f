//! Where finished batches are kept: in memory up to a budget, then as Parquet files in a temporary folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use polars::prelude::*;
use tempfile::TempDir;

use super::builders::TableSet;
use super::export::DatasetError;
use super::schema::{Filled, Table};

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
            memory_bytes: 384 << 20,
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
    #[error("{path}: cannot write the table `{table}`: {source}")]
    Export {
        path: PathBuf,
        table: &'static str,
        source: PolarsError,
    },
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    #[error(transparent)]
    Polars(#[from] PolarsError),
}

/// A batch as it was built.
#[derive(Debug)]
struct Segment {
    rows: DataFrame,
    /// What is to be added to the values of each column.
    bases: Vec<i64>,
    /// The columns that are kept narrower than the schema says, or counted from a base.
    narrow: Vec<(usize, DataType)>,
}

/// A batch, where it is kept.
#[derive(Debug)]
enum Batch {
    Memory(Segment),
    Disk(PathBuf),
}

impl Segment {
    fn new(filled: Filled, schema: &Schema) -> Self {
        let columns = filled.rows.columns().iter().zip(schema.iter_values());
        let narrow = columns
            .enumerate()
            .filter(|(_, (column, data_type))| column.dtype() != *data_type)
            .map(|(index, (_, data_type))| (index, data_type.clone()))
            .collect();
        Self {
            rows: filled.rows,
            bases: filled.bases,
            narrow,
        }
    }

    fn base(&self, column: usize) -> i64 {
        self.bases.get(column).copied().unwrap_or(0)
    }

    /// The rows as the schema says.
    fn widened(&self) -> LazyFrame {
        let names = self.rows.get_column_names();
        let widen = self.narrow.iter().filter_map(|(index, data_type)| {
            let column = col((*names.get(*index)?).clone()).cast(data_type.clone());
            Some(match self.base(*index) {
                0 => column,
                base => column + lit(base),
            })
        });
        let widen: Vec<Expr> = widen.collect();
        let rows = self.rows.clone().lazy();
        match widen.is_empty() {
            true => rows,
            false => rows.with_columns(widen),
        }
    }

    /// These columns of the rows that pass a filter.
    fn columns(&self, names: &[&str], filter: Option<Expr>) -> PolarsResult<Columns> {
        let bases = names.iter().map(|name| {
            let index = self.rows.get_column_index(name);
            index.map_or(0, |index| self.base(index))
        });
        let rows = match filter {
            None => self.rows.select(names.iter().copied())?,
            Some(filter) => collected(self.rows.clone().lazy(), names, Some(filter))?,
        };
        Ok(Columns {
            bases: bases.collect(),
            rows,
        })
    }
}

/// Some columns of a batch, each in one piece, as narrow as they are kept.
#[derive(Debug)]
pub struct Columns {
    pub rows: DataFrame,
    /// What is to be added to the values of each.
    pub bases: Vec<i64>,
}

impl From<DataFrame> for Columns {
    fn from(rows: DataFrame) -> Self {
        let bases = vec![0; rows.width()];
        Self { rows, bases }
    }
}

fn collected(rows: LazyFrame, names: &[&str], filter: Option<Expr>) -> PolarsResult<DataFrame> {
    let rows = match filter {
        Some(filter) => rows.filter(filter),
        None => rows,
    };
    let names: Vec<Expr> = names.iter().map(|name| col(*name)).collect();
    let mut rows = rows.select(names).collect()?;
    rows.rechunk_mut();
    Ok(rows)
}

/// One table's batches, in order.
#[derive(Debug, Default)]
struct Stored {
    batches: Vec<Batch>,
    rows: usize,
}

/// Takes finished batches.
pub struct Store {
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
    pub fn add(&mut self, table: Table, batch: Filled) -> Result<(), TablesError> {
        let (rows, bytes) = (batch.rows.height(), batch.bytes);
        if rows == 0 {
            return Ok(());
        }
        let segment = Segment::new(batch, &table.schema(self.details));
        let kept = match self.has_room(bytes) {
            true => Batch::Memory(segment),
            false => Batch::Disk(self.write(table, &segment)?),
        };
        if let Some(stored) = self.stored.get_mut(table as usize) {
            stored.rows += rows;
            stored.batches.push(kept);
        }
        Ok(())
    }

    /// Takes the memory for a batch, if there is so much left.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.folder.is_none() && self.used_bytes + bytes <= self.budget.memory_bytes;
        if fits {
            self.used_bytes += bytes;
        }
        fits
    }

    fn write(&mut self, table: Table, segment: &Segment) -> Result<PathBuf, TablesError> {
        let number = self
            .stored
            .get(table as usize)
            .map_or(0, |s| s.batches.len());
        let path = self
            .folder()?
            .join(format!("{}-{number}.parquet", table.as_str()));
        let rows = segment.rows.height();
        write_parquet(&path, segment).map_err(|source| TablesError::Spill {
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
fn write_parquet(path: &Path, segment: &Segment) -> PolarsResult<()> {
    let mut batch = segment.widened().collect()?;
    let file = File::create(path)?;
    ParquetWriter::new(file)
        .with_compression(ParquetCompression::Lz4Raw)
        .with_statistics(StatisticsOptions::empty())
        .finish(&mut batch)?;
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

    /// How many batches a table has.
    pub fn batch_count(&self, table: Table) -> usize {
        self.stored
            .get(table as usize)
            .map_or(0, |stored| stored.batches.len())
    }

    /// Some columns of a batch, each in one piece, of the rows that pass a filter. They are as narrow as they are kept:
    /// where there is no filter, what is in memory is not copied.
    ///
    /// # Errors
    /// Where a batch on disk cannot be read.
    pub fn columns(
        &self,
        table: Table,
        batch: usize,
        names: &[&str],
        filter: Option<Expr>,
    ) -> PolarsResult<Columns> {
        let stored = self.stored.get(table as usize);
        match stored.and_then(|of| of.batches.get(batch)) {
            None => Ok(DataFrame::empty().into()),
            Some(Batch::Memory(segment)) => segment.columns(names, filter),
            Some(Batch::Disk(path)) => {
                Ok(collected(self.scan(table, path)?, names, filter)?.into())
            }
        }
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

    /// Ends with the program: removes what was spilled, and leaves the memory to the system, which frees it in less
    /// time than it takes to free batch by batch.
    pub fn leave(self) {
        std::mem::forget(self.stored);
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
        rows.iter().for_each(|row| builders.sink().lost(row));
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
        assert_eq!((frame.height(), frame.width()), (0, 17));
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

    #[test]
    fn spilled_batches_go_when_the_memory_is_left_too() {
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget {
            memory_bytes: 0,
            batch_rows: 1,
            spill_in: Some(folder.path().to_owned()),
        };
        build(&[lost(1, None)], budget).unwrap().leave();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Chunks end inside batches and batches inside chunks, in memory and on disk: no row is lost or moved, and values
    /// and nulls stay with their rows. Some columns of some rows are read back alike.
    #[test]
    fn chunks_and_batches_need_not_meet() {
        let rows: Vec<LostRow> = (0..20_011)
            .map(|n| lost(n, (n % 5 != 2).then_some(n as u64)))
            .collect();
        for (batch_rows, memory_bytes) in [(1_000, 1 << 20), (7_777, 1 << 20), (512, 1 << 16)] {
            let budget = Budget {
                memory_bytes,
                batch_rows,
                spill_in: None,
            };
            let tables = build(&rows, budget).unwrap();
            let batch_rows = batch_rows.min(4096);
            assert_eq!(
                tables.batch_count(Table::Lost),
                rows.len().div_ceil(batch_rows)
            );
            assert_eq!(tables.spilled_batches() > 0, memory_bytes < 1 << 20);
            let expected: Vec<_> = rows.iter().map(|row| Some(row.start_ns)).collect();
            assert_eq!(starts(&tables), expected);
            let events = tables.lazy(Table::Lost).unwrap().collect().unwrap();
            let events = events.column("events").unwrap().u64().unwrap().iter();
            assert!(events.eq(rows.iter().map(|row| row.events)));
            let known = |batch| {
                let filter = Some(col("events").is_not_null());
                let names = ["events", "cpu"];
                let rows = tables
                    .columns(Table::Lost, batch, &names, filter)
                    .unwrap()
                    .rows;
                assert_eq!(rows.width(), 2);
                let events = rows.column("events").unwrap().u64().unwrap();
                events.iter().flatten().collect::<Vec<_>>()
            };
            let found = (0..tables.batch_count(Table::Lost)).flat_map(known);
            assert!(found.eq(rows.iter().filter_map(|row| row.events)));
        }
    }

    /// The keeper cannot write, while far more rows come than may be under way.
    #[test]
    fn an_error_while_rows_come_hangs_nothing() {
        let nowhere = || Budget {
            memory_bytes: 0,
            batch_rows: 100,
            spill_in: Some("/nonexistent".into()),
        };
        let mut builders = Builders::new(&TableSet::all(), nowhere());
        (0..200_000).for_each(|n| builders.sink().lost(&lost(n, None)));
        let error = builders.finish().unwrap_err();
        assert!(matches!(error, TablesError::Folder { .. }), "{error}");
        // One that is met only while the last rows are handed over.
        let error = build(&[lost(1, None)], nowhere()).unwrap_err();
        assert!(matches!(error, TablesError::Folder { .. }), "{error}");
    }
}
