//! A private ftrace instance: a ring buffer of our own, which disturbs no other user of tracing.
//!
//! Kernel documentation: `Documentation/trace/ftrace.rst`, "Instances".

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::owner::Owner;
use super::tracefs::Tracefs;
use super::{RecordError, doctor};

/// An instance that is removed when dropped.
#[derive(Debug)]
pub struct Instance {
    root: PathBuf,
    removed: bool,
}

/// How often a busy instance is tried to be removed, and the pause between.
const REMOVALS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

impl Instance {
    /// Creates the instance of a run. Recording is off, and nothing is enabled.
    pub fn create(tracefs: &Tracefs, owner: &Owner) -> Result<Self, RecordError> {
        let root = tracefs.path("instances").join(owner.name());
        fs::create_dir(&root).map_err(|error| doctor::explain_tracefs_denied(&error, &root))?;
        let instance = Self {
            root,
            removed: false,
        };
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.root.join(file)
    }

    /// Writes a setting.
    pub fn write(&self, file: impl AsRef<Path>, value: &str) -> Result<(), RecordError> {
        let path = self.path(file);
        write(&path, value).map_err(RecordError::file("write", &path))
    }

    pub fn read(&self, file: impl AsRef<Path>) -> Result<String, RecordError> {
        let path = self.path(file);
        let raw = fs::read(&path).map_err(RecordError::file("read", &path))?;
        Ok(String::from_utf8_lossy(&raw).into_owned())
    }

    /// Writes texts as `print` events, each with its own write: that is what makes each an event.
    pub fn mark(&self, lines: &[String]) -> Result<(), RecordError> {
        let path = self.path("trace_marker");
        let mut file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(RecordError::file("open", &path))?;
        for line in lines {
            file.write_all(line.as_bytes())
                .map_err(RecordError::file("write", &path))?;
        }
        Ok(())
    }

    /// Opens one CPU's pages for reading.
    pub fn open_pages(&self, cpu: u32) -> Result<File, RecordError> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .map_err(RecordError::file("open", &path))
    }

    /// The kernel's counters of one CPU's buffer.
    pub fn stats(&self, cpu: u32) -> Result<Stats, RecordError> {
        Ok(Stats::parse(self.read(format!("per_cpu/cpu{cpu}/stats"))?))
    }

    /// Removes it, with all that is enabled in it. No file of it may be open.
    pub fn remove(mut self) -> Result<(), RecordError> {
        self.removed = true;
        remove(&self.root).map_err(RecordError::file("remove", &self.root))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.removed {
            // On the way out of an error, which is what is reported. The next run tries again.
            let _ = remove(&self.root);
        }
    }
}

/// `per_cpu/cpuN/stats`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// As it is, for the trace.dat.
    pub text: String,
    /// In the buffer.
    pub entries: u64,
    /// Taken out of it.
    pub read: u64,
    /// Overwritten, or refused for want of room.
    pub lost: u64,
}

impl Stats {
    fn parse(text: String) -> Self {
        let count = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|value| value.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        Self {
            entries: count("entries:"),
            read: count("read events:"),
            lost: count("overrun:") + count("commit overrun:") + count("dropped events:"),
            text,
        }
    }
}

/// tracefs wants a value in one write.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(value.as_bytes())
}

fn remove(root: &Path) -> io::Result<()> {
    for _ in 1..REMOVALS {
        match fs::remove_dir(root) {
            // A reader's last reference goes a moment after its file is closed.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    fs::remove_dir(root)
}

/// Names of the instances that runs which are dead now have left.
pub fn abandoned(tracefs: &Tracefs) -> Vec<String> {
    let Ok(entries) = fs::read_dir(tracefs.path("instances")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| Owner::of(name).is_some_and(|owner| owner.is_dead()))
        .collect()
}

/// Removes an instance by its name.
pub fn remove_named(tracefs: &Tracefs, name: &str) -> io::Result<()> {
    fs::remove_dir(tracefs.path("instances").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters() {
        let text = "entries: 7\noverrun: 3\ncommit overrun: 1\nbytes: 12\noldest event ts:  1.2\n\
                    now ts:  3.4\ndropped events: 2\nread events: 40\n";
        let stats = Stats::parse(text.to_owned());
        assert_eq!((stats.entries, stats.read, stats.lost), (7, 40, 6));
    }

    #[test]
    fn only_what_dead_runs_left_is_abandoned() {
        let root = tempfile::tempdir().unwrap();
        let tracefs = Tracefs::at(root.path());
        assert!(abandoned(&tracefs).is_empty());
        for name in [&Owner::this().name(), "ttwu_1_0", "ttwu", "someone"] {
            fs::create_dir_all(tracefs.path("instances").join(name)).unwrap();
        }
        assert_eq!(abandoned(&tracefs), ["ttwu_1_0"]);
        remove_named(&tracefs, "ttwu_1_0").unwrap();
        assert!(abandoned(&tracefs).is_empty());
    }
}
