//! Where exported files lie: `TABLE/host=…/trace=…`. A trace's files are written elsewhere and put in place when all of
//! them are whole, so that nobody reads half a table, and a trace exported again replaces its own part only.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use polars::prelude::*;

use super::staging::Staging;
use super::{FileKind, Format};
use crate::replay::rows::TraceRow;
use crate::tables::schema::Table;

/// What folders are named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Host,
    Trace,
}

impl Key {
    pub const ALL: [Key; 2] = [Key::Host, Key::Trace];

    /// The name it has in folders' names, and as a column.
    pub const fn as_str(self) -> &'static str {
        match self {
            Key::Host => "host",
            Key::Trace => "trace",
        }
    }

    /// What it means.
    pub const fn about(self) -> &'static str {
        match self {
            Key::Host => "The machine that was recorded.",
            Key::Trace => "The trace's name.",
        }
    }
}

/// Why a dataset could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    #[error("{path}: cannot write the dataset there: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("{path}: cannot put the table `{table}` in place: {source}")]
    Place {
        path: PathBuf,
        table: &'static str,
        source: io::Error,
    },
    #[error(
        "{path}: the folders of this dataset are made by --partition {there}; use the same here, or another folder"
    )]
    Partition { path: PathBuf, there: String },
    #[error(
        "{path}: another recording is exported there already; give this one a name of its own with --trace, or replace that one with --force"
    )]
    Another { path: PathBuf },
}

impl DatasetError {
    /// Whether it is the dataset's folder that is at fault, and not what is exported.
    pub fn is_of_the_folder(&self) -> bool {
        !matches!(self, DatasetError::Another { .. })
    }
}

/// Where the files of one trace belong.
#[derive(Debug, Clone)]
pub struct Place {
    pub root: PathBuf,
    /// The keys that folders are named by, in their order.
    pub keys: Vec<Key>,
    pub host: String,
    pub trace: String,
}

/// What is escaped in names of folders: what a shell, engine or file system could take for something else. Letters of
/// other scripts are not: Spark reads each escaped byte as a character.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'+')
    .remove(b'@')
    .remove(b',');

/// Between the parts of a file's name: in values it is escaped.
const BETWEEN: char = '~';

/// A value as names of folders hold it.
fn in_path(value: &str) -> String {
    let mut name = String::with_capacity(value.len());
    for c in value.chars() {
        match c.is_ascii() {
            true => name.extend(utf8_percent_encode(c.encode_utf8(&mut [0; 4]), ESCAPED)),
            false => name.push(c),
        }
    }
    name
}

impl Place {
    fn value(&self, key: Key) -> &str {
        match key {
            Key::Host => &self.host,
            Key::Trace => &self.trace,
        }
    }

    /// The folder of a table's files.
    pub fn folder(&self, table: Table) -> PathBuf {
        let keys = self.keys.iter().map(|key| {
            let value = in_path(self.value(*key));
            format!("{}={value}", key.as_str())
        });
        keys.fold(self.root.join(table.as_str()), |folder, key| {
            folder.join(key)
        })
    }

    /// What its files are like. Where traces share folders, files are told apart by their names.
    pub fn files(&self, format: Format) -> FileKind {
        let missing = Key::ALL.into_iter().filter(|key| !self.keys.contains(key));
        let prefix = missing.clone().map(|key| {
            let value = in_path(self.value(key));
            format!("{value}{BETWEEN}")
        });
        FileKind {
            format,
            prefix: prefix.collect(),
            constants: missing
                .map(|key| (key.as_str(), self.value(key).to_owned()))
                .collect(),
        }
    }

    /// Whether folders are of one trace each.
    fn is_own(&self) -> bool {
        Key::ALL.iter().all(|key| self.keys.contains(key))
    }

    /// Its files of a table, if it was exported before.
    fn files_of(&self, table: Table) -> Vec<PathBuf> {
        let folder = self.folder(table);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let start = format!("{}part-", self.files(Format::Parquet).prefix);
        let ours = entries.filter(|entry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name.starts_with(&start))
        });
        ours.map(|entry| entry.path()).collect()
    }

    /// What was exported under these names before.
    pub(super) fn exported(&self) -> Option<Recording> {
        let files = self.files_of(Table::Traces);
        files.iter().find_map(|path| Recording::read(path).ok())
    }

    /// By what else the dataset's folders are named already, if they are.
    pub(super) fn other_keys(&self) -> Option<String> {
        let mut folder = self.root.join(Table::Traces.as_str());
        let mut keys = Vec::new();
        loop {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let mut names = names.filter(|name| !name.starts_with('.'));
            let name = names.next()?;
            let found = Key::ALL.into_iter().find(|key| {
                let value = name.strip_prefix(key.as_str());
                value.is_some_and(|value| value.starts_with('='))
            });
            match found {
                Some(key) if keys.len() < Key::ALL.len() => keys.push(key),
                _ => break,
            }
            folder.push(name);
        }
        (keys != self.keys).then(|| names_of(&keys))
    }

    /// Removes its files of a table.
    fn remove(&self, table: Table) -> io::Result<()> {
        match self.is_own() {
            true => match fs::remove_dir_all(self.folder(table)) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            false => self.files_of(table).iter().try_for_each(fs::remove_file),
        }
    }
}

/// Keys as `--partition` takes them.
fn names_of(keys: &[Key]) -> String {
    match keys {
        [] => "none".to_owned(),
        keys => keys
            .iter()
            .map(|key| key.as_str())
            .collect::<Vec<_>>()
            .join(","),
    }
}

/// What tells recordings apart, and what they were replayed with: columns of `traces`.
const RECORDING: [&str; 3] = ["first_event_ns", "last_event_ns", "events"];
const REPLAY: [&str; 7] = [
    "start_ns",
    "end_ns",
    "kernel_model",
    "topology",
    "work",
    "settle_ns",
    "recorder_counted",
];

/// What an export is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// Under [`RECORDING`].
    recorded: Vec<String>,
    /// Under [`REPLAY`].
    replayed: Vec<String>,
}

impl Recording {
    /// What is exported now.
    pub fn of(trace: &TraceRow) -> Self {
        Self {
            recorded: vec![
                trace.first_event_ns.to_string(),
                trace.last_event_ns.to_string(),
                trace.events.to_string(),
            ],
            replayed: vec![
                trace.start_ns.to_string(),
                trace.end_ns.to_string(),
                trace.kernel_model.clone(),
                trace.topology.clone().unwrap_or_default(),
                trace.work.clone().unwrap_or_default(),
                trace.settle_ns.to_string(),
                trace.recorder_counted.to_string(),
            ],
        }
    }

    /// What a file of `traces` says was exported.
    fn read(path: &Path) -> PolarsResult<Self> {
        let rows = scan(path)?.first();
        let columns = RECORDING.iter().chain(&REPLAY);
        let columns: Vec<Expr> = columns
            .map(|name| col(*name).cast(DataType::String))
            .collect();
        let rows = rows.select(columns).collect()?;
        let values = |names: &[&str]| {
            let values = names.iter().map(|name| {
                let value = rows.column(name)?.get(0)?;
                Ok(value.get_str().unwrap_or_default().to_owned())
            });
            values.collect::<PolarsResult<Vec<String>>>()
        };
        Ok(Self {
            recorded: values(&RECORDING)?,
            replayed: values(&REPLAY)?,
        })
    }

    /// Whether it is of the same recording.
    pub fn is_same(&self, other: &Self) -> bool {
        self.recorded == other.recorded
    }
}

/// The rows of a file, without what the names of its folders say.
fn scan(path: &Path) -> PolarsResult<LazyFrame> {
    let at = PlRefPath::try_from_path(path)?;
    let args = UnifiedScanArgs {
        glob: false,
        hive_options: HiveOptions::new_disabled(),
        ..UnifiedScanArgs::default()
    };
    match path.extension().and_then(|of| of.to_str()) {
        Some("parquet") => {
            let args = ScanArgsParquet {
                glob: false,
                hive_options: HiveOptions::new_disabled(),
                ..ScanArgsParquet::default()
            };
            LazyFrame::scan_parquet(at, args)
        }
        Some("csv") => LazyCsvReader::new(at)
            .with_glob(false)
            .with_infer_schema_length(Some(0))
            .finish(),
        _ => LazyFrame::scan_ipc(at, IpcScanOptions::default(), args),
    }
}

impl Staging {
    /// Puts the tables in place, `traces` last. Tables that were exported from another recording, or with other options,
    /// are removed if they are not among these: all that is left is of one replay.
    ///
    /// # Errors
    /// Where a table cannot be moved: those before it are in place then, this and later ones are as they were.
    pub fn commit(self, tables: &[Table]) -> Result<(), DatasetError> {
        if self.is_other() {
            let stale = Table::ALL.iter().filter(|table| !tables.contains(table));
            stale.copied().try_for_each(|table| {
                let removed = self.place().remove(table);
                removed.map_err(self.failed(table))
            })?;
        }
        let last = tables.iter().filter(|table| **table == Table::Traces);
        let tables = tables.iter().filter(|table| **table != Table::Traces);
        for table in tables.chain(last) {
            let placed = match self.place().is_own() {
                true => self.place_folder(*table),
                false => self.place_files(*table),
            };
            placed.map_err(self.failed(*table))?;
        }
        Ok(())
    }

    fn failed(&self, table: Table) -> impl FnOnce(io::Error) -> DatasetError {
        let path = self.place().folder(table);
        move |source| DatasetError::Place {
            path,
            table: table.as_str(),
            source,
        }
    }

    /// Exchanges a folder of the trace's own for the new one in one step.
    fn place_folder(&self, table: Table) -> io::Result<()> {
        let (new, to) = (self.path().join(table.as_str()), self.place().folder(table));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        // Somebody else may put the same trace in place meanwhile.
        for _ in 0..100 {
            match fs::rename(&new, &to) {
                Err(error) if is_there(&error) => {}
                renamed => return renamed,
            }
            match exchange(&new, &to) {
                Err(Errno::ENOENT) => {}
                Err(Errno::EINVAL | Errno::ENOSYS) => {
                    let old = self.path().join(format!("old-{}", table.as_str()));
                    match fs::rename(&to, &old) {
                        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                exchanged => return exchanged.map_err(io::Error::from),
            }
        }
        fs::rename(&new, &to)
    }

    /// Puts files beside those of other traces.
    fn place_files(&self, table: Table) -> io::Result<()> {
        let (new, to) = (self.path().join(table.as_str()), self.place().folder(table));
        fs::create_dir_all(&to)?;
        let mut left = self.place().files_of(table);
        for entry in fs::read_dir(&new)? {
            let entry = entry?;
            let to = to.join(entry.file_name());
            left.retain(|old| *old != to);
            fs::rename(entry.path(), to)?;
        }
        left.iter().try_for_each(fs::remove_file)
    }
}

fn is_there(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
    )
}

fn exchange(a: &Path, b: &Path) -> nix::Result<()> {
    renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE)
}
