//! Where exported files lie: `TABLE/host=…/trace=…`. A trace's files are written elsewhere and put in place when all of
//! them are whole, so that nobody reads half a table, and a trace exported again replaces its own part only.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use polars::prelude::*;
use tempfile::TempDir;

use super::{FileKind, Format};
use crate::tables::schema::Table;

/// What folders are named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
        "{path}: another recording is exported there already; give this one a name of its own with --trace, or replace that one with --force"
    )]
    Another { path: PathBuf },
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

/// What is not escaped in names of folders: what no shell, engine or file system takes for anything else.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'+')
    .remove(b'@')
    .remove(b',');

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
            let value = utf8_percent_encode(self.value(*key), ESCAPED);
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
            let value = utf8_percent_encode(self.value(key), ESCAPED);
            format!("{value}.")
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
    fn exported(&self) -> Option<Recording> {
        let files = self.files_of(Table::Traces);
        files.iter().find_map(|path| Recording::read(path).ok())
    }
}

/// What tells recordings apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recording {
    pub first_event_ns: i64,
    pub last_event_ns: i64,
    pub events: u64,
}

impl Recording {
    fn read(path: &Path) -> PolarsResult<Self> {
        let columns = ["first_event_ns", "last_event_ns", "events"];
        let at = PlRefPath::try_from_path(path)?;
        let rows = match path.extension().and_then(|of| of.to_str()) {
            Some("parquet") => {
                let args = ScanArgsParquet {
                    glob: false,
                    hive_options: HiveOptions::new_disabled(),
                    ..ScanArgsParquet::default()
                };
                LazyFrame::scan_parquet(at, args)?
            }
            Some("csv") => LazyCsvReader::new(at).finish()?,
            _ => {
                let args = UnifiedScanArgs {
                    glob: false,
                    hive_options: HiveOptions::new_disabled(),
                    ..UnifiedScanArgs::default()
                };
                LazyFrame::scan_ipc(at, IpcScanOptions::default(), args)?
            }
        };
        let rows = rows.select(columns.map(col)).first().collect()?;
        let value = |name: &str| -> PolarsResult<i64> {
            let value = rows.column(name)?.cast(&DataType::Int64)?;
            value
                .i64()?
                .get(0)
                .ok_or_else(|| polars_err!(NoData: "no row"))
        };
        Ok(Self {
            first_event_ns: value(columns[0])?,
            last_event_ns: value(columns[1])?,
            events: value(columns[2])? as u64,
        })
    }
}

/// Begins the names of folders in which files are written first.
const STAGING: &str = ".ttwu-export-";

/// A folder beside the tables in which a trace's files are written before they are put in place. It goes with this.
#[derive(Debug)]
pub struct Staging {
    folder: TempDir,
    place: Place,
    /// Held as long as somebody writes there.
    _lock: Flock<File>,
}

impl Staging {
    /// Makes the dataset's folder and one in it, and clears away what was left by exports that were killed.
    ///
    /// # Errors
    /// Where that cannot be written, or if another recording was exported under the same names, unless `force` is set.
    pub fn new(place: &Place, recording: Recording, force: bool) -> Result<Self, DatasetError> {
        let failed = |source| DatasetError::Folder {
            path: place.root.clone(),
            source,
        };
        if !force && place.exported().is_some_and(|there| there != recording) {
            return Err(DatasetError::Another {
                path: place.folder(Table::Traces),
            });
        }
        fs::create_dir_all(&place.root).map_err(failed)?;
        clear_left(&place.root);
        let folder = tempfile::Builder::new()
            .prefix(STAGING)
            .tempdir_in(&place.root);
        let folder = folder.map_err(failed)?;
        let lock = File::open(folder.path()).map_err(failed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, error)| failed(error.into()))?;
        Ok(Self {
            folder,
            place: place.clone(),
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts the tables in place, `traces` last.
    ///
    /// # Errors
    /// Where a table cannot be moved: those before it are in place then, this and later ones are as they were.
    pub fn commit(self, tables: &[Table]) -> Result<(), DatasetError> {
        let last = tables.iter().filter(|table| **table == Table::Traces);
        let tables = tables.iter().filter(|table| **table != Table::Traces);
        for table in tables.chain(last) {
            let placed = match self.place.is_own() {
                true => self.place_folder(*table),
                false => self.place_files(*table),
            };
            placed.map_err(|source| DatasetError::Place {
                path: self.place.folder(*table),
                table: table.as_str(),
                source,
            })?;
        }
        Ok(())
    }

    /// Exchanges a folder of the trace's own for the new one in one step.
    fn place_folder(&self, table: Table) -> io::Result<()> {
        let (new, to) = (self.path().join(table.as_str()), self.place.folder(table));
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
        let (new, to) = (self.path().join(table.as_str()), self.place.folder(table));
        fs::create_dir_all(&to)?;
        let mut left = self.place.files_of(table);
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

/// Removes folders of exports that were killed: nobody holds their locks.
fn clear_left(root: &Path) {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(STAGING))
    });
    for entry in left {
        let Ok(folder) = File::open(entry.path()) else {
            continue;
        };
        if Flock::lock(folder, FlockArg::LockExclusiveNonblock).is_ok() {
            // What cannot be removed does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
