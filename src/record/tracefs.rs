//! The kernel's tracing file system.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::snapshot::Root;
use super::{RecordError, doctor};

/// A mounted tracefs.
#[derive(Debug, Clone)]
pub struct Tracefs {
    root: PathBuf,
}

/// Where tracefs is mounted by convention; the second is that of kernels before 4.1.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracefs {
    /// The mounted tracefs that this process may read.
    ///
    /// # Errors
    /// Not mounted, or not readable: each with the command that helps.
    pub fn find() -> Result<Self, RecordError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounted = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let place = words.nth(1)?;
            (words.next()? == "tracefs").then(|| PathBuf::from(place))
        });
        let candidates: Vec<PathBuf> = mounted.chain(PLACES.map(PathBuf::from)).collect();
        for root in &candidates {
            if root.join("events").is_dir() {
                return Ok(Self { root: root.clone() });
            }
        }
        Err(doctor::tracefs_not_found(&Root::host()))
    }

    /// For tests: a folder that looks like tracefs.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file in it.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.root.join(file)
    }

    /// A file's content.
    pub fn read(&self, file: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        read_at_once(&self.path(file))
    }
}

/// Room for one read: more than the largest format, which fits a page or two.
const ROOM: usize = 256 << 10;

/// Reads a file with as much room as it can need: `events/header_page` and its like give what one read takes and
/// nothing afterwards (`show_header` in the kernel's `trace_events.c`), and `fs::read` begins with 32 bytes.
pub fn read_at_once(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut content = Vec::new();
    let mut room = vec![0; ROOM];
    loop {
        match file.read(&mut room) {
            Ok(0) => return Ok(content),
            Ok(read) => content.extend(room.iter().take(read)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
