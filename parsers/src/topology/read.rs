//! Topology from a file, a folder or a tar, told apart by content, and from this machine.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::sysfs::{self, Tree};
use super::{TopologyError, TopologyFacts, parse_text};

/// The most that is read of one text, in bytes; long kernel logs are far below it.
const MAX_TEXT: u64 = 64 << 20;
/// The most that is read of one file of a sysfs tree; the longest list of 65,536 CPUs is below it.
const MAX_ENTRY: u64 = 1 << 20;
/// The most that is unpacked of a compressed tar.
const MAX_UNPACKED: u64 = 1 << 30;
/// Where a tar archive keeps its magic (POSIX ustar header).
const TAR_MAGIC: std::ops::Range<usize> = 257..262;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Files that are not topology, by how they start, and what to do about it.
const FOREIGN: [(&[u8], &str); 6] = [
    (
        b"PERFILE2",
        "a perf.data file; give it as the trace, its header's topology is read from there",
    ),
    (
        b"\x17\x08\x44tracing",
        "a trace.dat file, which carries no topology",
    ),
    (b"BZh", "compressed with bzip2; unpack it first"),
    (b"\xfd7zXZ", "compressed with xz; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
];

/// Reads the topology in a file, a folder or a tar (plain or gzip) and names the kind of source it was.
///
/// # Errors
/// A path that cannot be read, a file of no known kind, and a source of a known kind that cannot be understood.
pub fn read_path(path: &Path) -> Result<(TopologyFacts, &'static str), TopologyError> {
    let io_error = |error| TopologyError::io(path, error);
    if fs::metadata(path).map_err(io_error)?.is_dir() {
        return read_folder(path).map(|facts| (facts, "copy of sysfs"));
    }
    let mut head = Vec::new();
    let mut file = File::open(path).map_err(io_error)?;
    file.by_ref()
        .take(512)
        .read_to_end(&mut head)
        .map_err(io_error)?;
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(TopologyError::Foreign {
            path: path.to_owned(),
            what,
        });
    }
    let whole = io::Cursor::new(head.clone()).chain(file);
    read_content(&head, whole).map_err(|error| error.in_file(path))
}

/// Reads a tar or a text; `head` is its start.
fn read_content(
    head: &[u8],
    whole: impl Read,
) -> Result<(TopologyFacts, &'static str), TopologyError> {
    const TAR: &str = "tar of sysfs";
    if head.get(TAR_MAGIC) == Some(b"ustar") {
        return read_tar(whole).map(|facts| (facts, TAR));
    }
    if head.starts_with(&GZIP_MAGIC) {
        let unpacked = flate2::read::MultiGzDecoder::new(whole).take(MAX_UNPACKED);
        return read_tar(unpacked).map(|facts| (facts, TAR));
    }
    parse_text(&read_text(whole, MAX_TEXT)?)
}

/// Reads the topology of the machine this runs on.
///
/// # Errors
/// Those of [`live_at`].
pub fn live() -> Result<TopologyFacts, TopologyError> {
    live_at(Path::new("/sys/devices/system"))
}

/// Reads the topology below `root`, which is laid out like `/sys/devices/system`.
///
/// # Errors
/// A folder that cannot be read or holds no CPUs, and lists in it that contradict each other.
pub fn live_at(root: &Path) -> Result<TopologyFacts, TopologyError> {
    read_folder(root)
}

/// Reads a tar that holds a sysfs `cpu` tree, and a `node` tree if it likes, anywhere in it.
///
/// # Errors
/// Damage in the archive, no CPUs in it, and lists that contradict each other.
pub fn read_tar(reader: impl Read) -> Result<TopologyFacts, TopologyError> {
    let mut tree = Tree::default();
    for entry in tar::Archive::new(reader).entries()? {
        let entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let path = path.trim_end_matches('/');
        let text = match entry.header().entry_type().is_file() && Tree::wants(path) {
            true => read_text(entry, MAX_ENTRY)?,
            false => String::new(),
        };
        if Tree::wants(path) && text.is_empty() {
            // Links in a folder of links (hwloc's snapshots have them) carry no text.
            continue;
        }
        tree.put(path, &text)?;
    }
    match tree.is_empty() {
        true => Err(TopologyError::Nothing {
            origin: "tar archive",
            wanted: "cpu0, cpu1, ... folders of /sys/devices/system/cpu",
        }),
        false => tree.facts(),
    }
}

/// Where a copy of sysfs may have the CPUs' folder, of whatever folder it is a copy.
pub fn places_of_cpus(path: &Path) -> impl Iterator<Item = PathBuf> {
    let below = [
        "",
        "cpu",
        "system/cpu",
        "devices/system/cpu",
        "sys/devices/system/cpu",
    ];
    below.into_iter().map(|rest| path.join(rest))
}

fn read_folder(path: &Path) -> Result<TopologyFacts, TopologyError> {
    let cpu_folder = places_of_cpus(path).find(|folder| holds_cpus(folder));
    let cpu_folder = cpu_folder.ok_or_else(|| TopologyError::NoCpus(path.to_owned()))?;
    let mut tree = Tree::default();
    put_file(&mut tree, &cpu_folder, "online", "cpu/online")?;
    for name in names(&cpu_folder) {
        if sysfs::numbered(&name, "cpu").is_some() {
            put_cpu(&mut tree, &cpu_folder.join(&name), &name)?;
        }
    }
    let node_folders = [cpu_folder.join("../node"), cpu_folder.join("node")];
    for folder in node_folders {
        for node in names(&folder) {
            for file in ["cpulist", "cpumap"] {
                put_file(
                    &mut tree,
                    &folder,
                    &format!("{node}/{file}"),
                    &format!("{node}/{file}"),
                )?;
            }
        }
    }
    tree.facts()
}

/// Whether a folder holds CPU folders.
fn holds_cpus(folder: &Path) -> bool {
    names(folder).iter().any(|name| {
        let cpu = folder.join(name);
        sysfs::numbered(name, "cpu").is_some() && cpu.is_dir()
    })
}

fn put_cpu(tree: &mut Tree, folder: &Path, cpu: &str) -> Result<(), TopologyError> {
    for file in sysfs::topology_files() {
        let rest = format!("topology/{file}");
        put_file(tree, folder, &rest, &format!("{cpu}/{rest}"))?;
    }
    for index in names(&folder.join("cache")) {
        for file in sysfs::cache_files() {
            let rest = format!("cache/{index}/{file}");
            put_file(tree, folder, &rest, &format!("{cpu}/{rest}"))?;
        }
    }
    for name in names(folder) {
        tree.put(&format!("{cpu}/{name}"), "")?;
    }
    Ok(())
}

/// Offers a file to the tree if it is there.
fn put_file(tree: &mut Tree, folder: &Path, rest: &str, name: &str) -> Result<(), TopologyError> {
    let path = folder.join(rest);
    match File::open(&path).and_then(|file| read_text(file, MAX_ENTRY)) {
        Ok(text) => tree.put(name, &text),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(TopologyError::io(&path, error)),
    }
}

/// Missing files are normal: old kernels, offline CPUs, copies that kept only some.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The names in a folder; none if it cannot be listed.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let mut names: Vec<_> = names
        .filter_map(|name| OsStr::to_str(&name).map(str::to_owned))
        .collect();
    names.sort_unstable();
    names
}

/// Reads at most `limit` bytes of text; bytes that are no UTF-8 are replaced.
fn read_text(reader: impl Read, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let reason = format!("larger than {} MiB, which no topology is", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
