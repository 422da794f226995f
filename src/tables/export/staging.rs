//! The folder in which files are written before they are put in place, and what becomes of those that nobody needs any
//! more. Several exports into one dataset may go on at once, on several hosts.

use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::dataset::{DatasetError, Place, Recording};
use crate::leftovers::Temporary;
use crate::tables::schema::Table;

/// Begins the names of such folders.
const PREFIX: &str = ".ttwu-export-";
/// The file in them whose lock is held as long as somebody writes there.
const LOCK: &str = "lock";

/// A folder beside the tables in which a trace's files are written before they are put in place. It goes with this.
#[derive(Debug)]
pub struct Staging {
    folder: Temporary,
    place: Place,
    /// What is there was exported from another recording, or with other options.
    other: bool,
    /// None where the file system has no locks: then nobody clears the folder away but this.
    _lock: Option<Flock<File>>,
}

impl Staging {
    /// Makes the dataset's folder and one in it, and clears away what was left by exports that were killed.
    ///
    /// # Errors
    /// Where that cannot be written, or if another recording was exported under the same names, unless `force` is set.
    pub fn new(place: &Place, recording: &Recording, force: bool) -> Result<Self, DatasetError> {
        if let Some(there) = place.other_keys() {
            let path = place.root.clone();
            return Err(DatasetError::Partition { path, there });
        }
        let there = place.exported();
        let is_same = |there: &Recording| there.is_same(recording);
        if !force && !there.as_ref().is_none_or(is_same) {
            return Err(DatasetError::Another {
                path: place.folder(Table::Traces),
            });
        }
        let failed = |source| DatasetError::Folder {
            path: place.root.clone(),
            source,
        };
        fs::create_dir_all(&place.root).map_err(failed)?;
        let prefix = prefix();
        clear_left(&place.root, &prefix);
        loop {
            let folder = Temporary::new(&prefix, &place.root).map_err(failed)?;
            if let Some(lock) = lock_new(folder.path()).map_err(failed)? {
                return Ok(Self {
                    folder,
                    place: place.clone(),
                    other: there.as_ref() != Some(recording),
                    _lock: lock,
                });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn is_other(&self) -> bool {
        self.other
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

/// The host is named, as a lock may be seen on one host only.
fn prefix() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    let safe = host.chars().filter(char::is_ascii_alphanumeric);
    format!("{PREFIX}{}-", safe.collect::<String>())
}

/// Locks a new folder, if the file system has locks. None if somebody took it for one left behind meanwhile.
fn lock_new(folder: &Path) -> io::Result<Option<Option<Flock<File>>>> {
    let path = folder.join(LOCK);
    // NFS locks only files that are open for writing.
    let file = match File::options().write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) if lock.metadata()?.nlink() == 0 => Ok(None),
        Ok(lock) => Ok(Some(Some(lock))),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err(_) => Ok(Some(None)),
    }
}

/// Removes folders of exports of this host that were killed: nobody holds their locks.
fn clear_left(root: &Path, prefix: &str) {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(prefix))
    });
    for entry in left {
        let file = File::options().write(true).open(entry.path().join(LOCK));
        let free = match file {
            Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock)
                .ok()
                .map(Some),
            // Killed while it was made or removed, unless it is only just made.
            Err(_) => is_old(&entry).then_some(None),
        };
        if let Some(_lock) = free {
            // What cannot be removed does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// How long a folder may be without its lock.
const YOUNG: Duration = Duration::from_secs(60);

fn is_old(entry: &DirEntry) -> bool {
    let changed = entry.metadata().and_then(|meta| meta.modified());
    let age = changed
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > YOUNG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path) -> Place {
        Place {
            root: root.to_owned(),
            keys: Vec::new(),
            host: "h".to_owned(),
            trace: "t".to_owned(),
        }
    }

    fn entries(root: &Path) -> usize {
        fs::read_dir(root).unwrap().count()
    }

    #[test]
    fn what_a_killed_export_left_is_cleared_away_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let left = root.path().join(format!("{}left", prefix()));
        let elsewhere = root.path().join(".ttwu-export-otherhost-left");
        let new = root.path().join(format!("{}new", prefix()));
        for folder in [&left, &elsewhere, &new] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(elsewhere.join(LOCK), "").unwrap();
        fs::write(left.join("part-0.parquet"), "half").unwrap();
        let first = Staging::new(&place(root.path()), &Recording::default(), false).unwrap();
        assert!(!left.exists() && elsewhere.exists() && new.exists());
        // Another export at the same time leaves it alone.
        let second = Staging::new(&place(root.path()), &Recording::default(), false).unwrap();
        assert!(first.path().exists() && second.path().exists());
        drop((first, second));
        assert_eq!(entries(root.path()), 2);
        // One whose lock is gone was being removed, or made, when somebody was killed.
        let long_ago = SystemTime::now() - 2 * YOUNG;
        File::open(&new).unwrap().set_modified(long_ago).unwrap();
        drop(Staging::new(&place(root.path()), &Recording::default(), false).unwrap());
        assert!(!new.exists() && elsewhere.exists());
    }

    /// Many at once: each has a folder of its own for as long as it needs it.
    #[test]
    fn exports_at_once_do_not_clear_each_other_away() {
        let root = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..50 {
                        let staging =
                            Staging::new(&place(root.path()), &Recording::default(), false)
                                .unwrap();
                        let file = staging.path().join("part");
                        fs::write(&file, format!("{n}")).unwrap();
                        std::thread::yield_now();
                        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{n}"));
                    }
                });
            }
        });
        assert_eq!(entries(root.path()), 0);
    }
}
