//! The file that is recorded into: created so that nobody else's file is touched, and nobody else can read it.
//!
//! Traces tell what all users of a machine do, so the file is for its owner only; under sudo that is who called it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid};

use super::RecordError;
use super::owner::Owner;

/// The user who called, where that is not who runs: under sudo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invoker {
    pub uid: Uid,
    pub gid: Gid,
}

impl Invoker {
    /// From what sudo leaves in the environment, sudo(8). `None` where this is not root for someone else.
    pub fn find() -> Option<Self> {
        let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (id("SUDO_UID")?, id("SUDO_GID")?);
        (Uid::effective().is_root() && uid != 0).then(|| Self {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
        })
    }
}

/// The file of a recording. What was there before comes back unless the recording got anywhere.
#[derive(Debug)]
pub struct Target {
    pub path: PathBuf,
    pub file: File,
    /// Where the file is that was there before.
    former: Option<PathBuf>,
    kept: bool,
}

/// Tells whether a file was written by this program, so that a new recording may take its place.
pub type Ours<'a> = &'a dyn Fn(&Path) -> bool;

impl Target {
    /// Creates the file. One that is there already is replaced if an earlier run wrote it, or with `force`.
    ///
    /// # Errors
    /// A file of somebody else's, a symbolic link, a folder, or no permission to write there.
    pub fn create(path: &Path, force: bool, ours: Ours<'_>) -> Result<Self, RecordError> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(RecordError::file("create", path)(error)),
            Ok(there) => {
                let kind = there.file_type();
                if kind.is_symlink() || kind.is_dir() || !kind.is_file() {
                    let what = match () {
                        () if kind.is_symlink() => "a symbolic link, and those are not followed",
                        () if kind.is_dir() => "a folder",
                        () => "no regular file",
                    };
                    return Err(RecordError::Wanted(format!(
                        "{} is {what}; name another file with -o",
                        path.display()
                    )));
                }
                if !force && there.len() > 0 && !ours(path) {
                    return Err(RecordError::Wanted(format!(
                        "{} exists and no `ttwu record` wrote it; name another file with -o, or replace it with --force",
                        path.display()
                    )));
                }
            }
        }
        remove_leftovers(path);
        // Moved away, not emptied: who has it open or linked keeps what he has.
        let former = Beside::Former.path(path);
        let former = match fs::rename(path, &former) {
            Ok(()) => Some(former),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(RecordError::file("replace", path)(error)),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(RecordError::file("create", path))?;
        let target = Self {
            path: path.to_owned(),
            file,
            former,
            kept: false,
        };
        own(&target.file, Invoker::find()).map_err(RecordError::file("hand over", path))?;
        Ok(target)
    }

    /// Something was recorded: the file from before is not needed any more.
    pub fn keep(mut self) {
        if let Some(former) = self.former.take() {
            // Should it stay, the next run removes it.
            let _ = fs::remove_file(former);
        }
        self.kept = true;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Nothing was recorded. Should either fail, the next run puts things right.
        let _ = match &self.former {
            Some(former) => fs::rename(former, &self.path),
            None => fs::remove_file(&self.path),
        };
    }
}

/// A file that takes another's place when it is complete. Without a name until then where the file system can do that,
/// so that nothing stays behind if this process is killed.
#[derive(Debug)]
pub struct Successor {
    path: PathBuf,
    pub file: File,
    /// Its name until then, where it needs one.
    name: Option<PathBuf>,
}

impl Successor {
    pub fn of(path: &Path) -> Result<Self, RecordError> {
        let folder = folder_of(path);
        let unnamed = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE)
            .open(folder);
        let (file, name) = match unnamed {
            Ok(file) => (file, None),
            Err(_) => {
                let name = Beside::Successor.path(path);
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&name)
                    .map_err(RecordError::file("create", &name))?;
                (file, Some(name))
            }
        };
        own(&file, Invoker::find()).map_err(RecordError::file("hand over", path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            name,
        })
    }

    /// Takes the other file's place, in one step.
    pub fn succeed(mut self) -> Result<(), RecordError> {
        let name = match self.name.take() {
            Some(name) => name,
            None => {
                let name = Beside::Successor.path(&self.path);
                let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                nix::unistd::linkat(
                    nix::fcntl::AT_FDCWD,
                    file.as_str(),
                    nix::fcntl::AT_FDCWD,
                    &name,
                    nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW,
                )
                .map_err(|error| RecordError::file("create", &name)(error.into()))?;
                name
            }
        };
        fs::rename(&name, &self.path).map_err(|error| {
            let _ = fs::remove_file(&name);
            RecordError::file("write", &self.path)(error)
        })
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // It never became what it was to be.
            let _ = fs::remove_file(name);
        }
    }
}

/// Only for its owner, who is the invoking user.
fn own(file: &File, invoker: Option<Invoker>) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))?;
    if let Some(Invoker { uid, gid }) = invoker {
        std::os::unix::fs::fchown(file, Some(uid.as_raw()), Some(gid.as_raw()))?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// What stands beside a file for a while.
#[derive(Debug, Clone, Copy)]
enum Beside {
    /// The file that was there before.
    Former,
    /// The file that will take its place.
    Successor,
}

impl Beside {
    fn prefix(self, path: &Path) -> String {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match self {
            Beside::Former => format!(".{name}.before."),
            Beside::Successor => format!(".{name}.after."),
        }
    }

    /// The path of that of this run.
    fn path(self, path: &Path) -> PathBuf {
        let name = self.prefix(path) + &Owner::this().name();
        folder_of(path).join(name)
    }
}

/// Removes what runs that were killed have left beside the file.
fn remove_leftovers(path: &Path) {
    let prefixes = [Beside::Former, Beside::Successor].map(|beside| beside.prefix(path));
    let Ok(entries) = fs::read_dir(folder_of(path)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = prefixes
            .iter()
            .find_map(|prefix| Owner::of(name.to_str()?.strip_prefix(prefix.as_str())?));
        if owner.is_some_and(|owner| owner.is_dead()) {
            // Another run may remove it at the same time.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn create(path: &Path, force: bool, ours: bool) -> Result<Target, String> {
        Target::create(path, force, &|_| ours).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.dat");
        let target = create(&path, false, false).unwrap();
        assert_eq!(target.file.metadata().unwrap().mode() & 0o777, 0o600);
        drop(target);
        assert!(!path.exists());
    }

    #[test]
    fn other_peoples_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.dat");
        fs::write(&path, "precious").unwrap();
        let refused = create(&path, false, false).unwrap_err();
        assert!(refused.contains("--force"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        for (force, ours) in [(true, false), (false, true)] {
            let target = create(&path, force, ours).unwrap();
            assert_eq!(target.file.metadata().unwrap().len(), 0);
            drop(target);
            assert_eq!(
                fs::read(&path).unwrap(),
                b"precious",
                "nothing was recorded"
            );
            create(&path, force, ours).unwrap().keep();
            assert_eq!(fs::read(&path).unwrap(), b"");
            fs::write(&path, "precious").unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_not_followed_even_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("trace.dat"), folder.path().join("other"));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(
            create(&path, true, true)
                .unwrap_err()
                .contains("symbolic link")
        );
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        assert!(
            create(folder.path(), true, true)
                .unwrap_err()
                .contains("folder")
        );
    }

    #[test]
    fn a_successor_appears_whole_and_leftovers_of_the_dead_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.dat");
        let left = folder.path().join(".trace.dat.after.ttwu_1_0");
        let kept = folder.path().join(".other.dat.after.ttwu_1_0");
        fs::write(&left, "x").unwrap();
        fs::write(&kept, "x").unwrap();
        fs::write(&path, "old").unwrap();
        let target = create(&path, false, true).unwrap();
        assert!(!left.exists() && kept.exists());
        let mut successor = Successor::of(&target.path).unwrap();
        successor.file.write_all(b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        successor.succeed().unwrap();
        target.keep();
        let mut content = String::new();
        File::open(&path)
            .unwrap()
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, "whole");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
