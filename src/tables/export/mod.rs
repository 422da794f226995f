//! Tables as datasets: files in folders that any engine reads, written batch by batch while the replay goes on.

mod cells;
mod dataset;
mod metadata;
mod parquet;
mod plain;
mod staging;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use polars::prelude::{PolarsError, PolarsResult};
use ttwu_parsers::event::NO_TYPE;
use ttwu_parsers::symbols::Symbols;

pub use self::cells::ExportType;
pub use self::dataset::{DatasetError, Key, Place, Recording};
use self::parquet::ParquetFile;
use self::plain::PlainFile;
pub use self::staging::Staging;
use super::batches::TablesError;
use super::builders::{Filler, Keep, Keeper, TableSet};
use super::schema::{Filled, Table};

/// The version of the tables' columns: it grows with every change that a query could notice.
pub const SCHEMA_VERSION: u32 = 1;

/// Rows of a row group: enough to be compressed well, few enough that a query for a moment reads little.
const ROW_GROUP: usize = 128 << 10;

/// The kind of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Parquet,
    Ipc,
    Csv,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Parquet, Format::Ipc, Format::Csv];

    /// The ending of its files' names.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Ipc => "arrow",
            Format::Csv => "csv",
        }
    }
}

/// The names behind the numbers of a trace.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Of its types of events, as `system:name`.
    pub events: Vec<String>,
    pub symbols: Symbols,
}

impl Names {
    /// The function at an address, or the address where the trace has no symbols.
    fn function(&self, address: u64) -> String {
        let function = self.symbols.function(address);
        function.unwrap_or_else(|| format!("{address:#x}"))
    }

    fn event(&self, index: i64) -> String {
        let found = usize::try_from(index)
            .ok()
            .and_then(|at| self.events.get(at));
        match found {
            Some(name) => name.clone(),
            None if index == i64::from(NO_TYPE) => "lost".to_owned(),
            None => "unknown".to_owned(),
        }
    }
}

/// What was written of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub table: Table,
    pub rows: u64,
    pub bytes: u64,
}

/// Writes tables.
pub struct Exporter {
    filler: Filler,
    keeper: Keeper<ToFiles>,
}

impl Exporter {
    /// An exporter into a folder, in which each table gets one of its own.
    pub fn new(tables: &[Table], folder: &Path, files: &FileKind, names: Names) -> Self {
        let to = ToFiles::new(tables, folder, files, names);
        let (filler, keeper) = Filler::start(&TableSet::full(tables), ROW_GROUP, to);
        Self { filler, keeper }
    }

    /// What takes the rows.
    pub fn sink(&mut self) -> &mut Filler {
        &mut self.filler
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first error met since the beginning, such as a full disk.
    pub fn written(self) -> Result<Vec<Written>, TablesError> {
        self.filler.end(self.keeper)?.finish()
    }
}

/// What the files are like.
#[derive(Debug, Clone)]
pub struct FileKind {
    pub format: Format,
    /// What the names of files begin with.
    pub prefix: String,
    /// Columns that say the same of all rows: partition keys that no folder is named by.
    pub constants: Vec<(&'static str, String)>,
}

/// Hands finished batches to a thread that writes them.
pub struct ToFiles {
    batches: Option<SyncSender<(Table, Filled, bool)>>,
    writer: Option<JoinHandle<Result<Vec<Written>, TablesError>>>,
}

impl ToFiles {
    fn new(tables: &[Table], folder: &Path, files: &FileKind, names: Names) -> Self {
        let (batches, taken) = sync_channel(1);
        let writer = Writer {
            folder: folder.to_owned(),
            kind: files.clone(),
            names,
            tables: tables.iter().map(|table| Writing::new(*table)).collect(),
        };
        Self {
            batches: Some(batches),
            writer: Some(std::thread::spawn(move || writer.write_all(&taken))),
        }
    }

    fn finish(mut self) -> Result<Vec<Written>, TablesError> {
        self.batches = None;
        match self.writer.take().map(JoinHandle::join) {
            None => Ok(Vec::new()),
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Keep for ToFiles {
    const IN_ORDER: bool = true;

    fn add(&mut self, table: Table, batch: Filled, late: bool) -> Result<(), TablesError> {
        let batches = self.batches.as_ref();
        let sent = batches.is_some_and(|batches| batches.send((table, batch, late)).is_ok());
        if sent {
            return Ok(());
        }
        // The writer gave up, and knows why.
        self.batches = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Ok(()),
        }
    }
}

/// A file being written.
enum Open {
    Parquet(Box<ParquetFile>),
    Plain(PlainFile),
}

impl Open {
    fn create(path: &Path, table: Table, kind: &FileKind) -> PolarsResult<Self> {
        Ok(match kind.format {
            Format::Parquet => {
                Open::Parquet(Box::new(ParquetFile::create(path, table, &kind.constants)?))
            }
            Format::Ipc | Format::Csv => Open::Plain(PlainFile::create(path, table, kind)?),
        })
    }

    fn write(&mut self, batch: &Filled, names: &Names) -> PolarsResult<()> {
        match self {
            Open::Parquet(file) => file.write(batch, names),
            Open::Plain(file) => file.write(batch, names),
        }
    }

    fn finish(self) -> PolarsResult<()> {
        match self {
            Open::Parquet(file) => file.finish(),
            Open::Plain(file) => file.finish(),
        }
    }
}

/// A table being written: the rows that came in time in one file, late ones in others after it.
struct Writing {
    main: Option<(PathBuf, Open)>,
    files: u32,
    written: Written,
}

impl Writing {
    fn new(table: Table) -> Self {
        Self {
            main: None,
            files: 0,
            written: Written {
                table,
                rows: 0,
                bytes: 0,
            },
        }
    }
}

struct Writer {
    folder: PathBuf,
    kind: FileKind,
    names: Names,
    tables: Vec<Writing>,
}

impl Writer {
    fn write_all(
        mut self,
        batches: &Receiver<(Table, Filled, bool)>,
    ) -> Result<Vec<Written>, TablesError> {
        for (table, batch, late) in batches {
            let mut tables = std::mem::take(&mut self.tables);
            let of = tables.iter_mut().find(|of| of.written.table == table);
            if let Some(of) = of {
                self.write(of, &batch, late)?;
            }
            self.tables = tables;
        }
        let tables = std::mem::take(&mut self.tables);
        tables.into_iter().map(|of| self.finish(of)).collect()
    }

    fn write(&self, of: &mut Writing, batch: &Filled, late: bool) -> Result<(), TablesError> {
        of.written.rows += batch.rows.height() as u64;
        let table = of.written.table;
        if late && batch.rows.height() > 0 {
            // The first file is the one of the rows that came in time, also where none did.
            self.open_main(of)?;
            let (path, mut file) = self.create(of)?;
            let written = file.write(batch, &self.names).and_then(|()| file.finish());
            written.map_err(failed(table, &path))?;
            of.written.bytes += size(&path);
            return Ok(());
        }
        self.open_main(of)?;
        match &mut of.main {
            None => Ok(()),
            Some((path, file)) => file.write(batch, &self.names).map_err(failed(table, path)),
        }
    }

    fn open_main(&self, of: &mut Writing) -> Result<(), TablesError> {
        if of.main.is_none() {
            of.main = Some(self.create(of)?);
        }
        Ok(())
    }

    fn create(&self, of: &mut Writing) -> Result<(PathBuf, Open), TablesError> {
        let table = of.written.table;
        let folder = self.folder.join(table.as_str());
        let FileKind { format, prefix, .. } = &self.kind;
        let name = format!("{prefix}part-{}.{}", of.files, format.extension());
        let path = folder.join(name);
        of.files += 1;
        // Not the folder that it is in: if that is gone, the export was ended.
        let created = match fs::create_dir(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(PolarsError::from(error)),
            _ => Ok(()),
        };
        let file = created.and_then(|()| Open::create(&path, table, &self.kind));
        let file = file.map_err(failed(table, &path))?;
        Ok((path, file))
    }

    /// Ends a table; one without rows has a file too, so that every engine finds its columns.
    fn finish(&self, mut of: Writing) -> Result<Written, TablesError> {
        self.open_main(&mut of)?;
        if let Some((path, file)) = of.main {
            file.finish().map_err(failed(of.written.table, &path))?;
            of.written.bytes += size(&path);
        }
        Ok(of.written)
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

fn failed(table: Table, path: &Path) -> impl FnOnce(PolarsError) -> TablesError {
    let path = path.to_owned();
    move |source| TablesError::Export {
        path,
        table: table.as_str(),
        source,
    }
}
