//! Puts the pages of each CPU together in a trace.dat as everyone's tools read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;

use rayon::prelude::*;

use super::super::RecordError;
use super::super::instance::Instance;
use super::super::target::Successor;
use super::FtraceRecorder;
use super::dat::{self, Head};
use super::journal::{Extent, Journal};

/// zstd's level: its default, which trace-cmd uses.
const LEVEL: i32 = 3;
/// Pages in one compressed piece.
const CHUNK_PAGES: u64 = 32;
/// Pieces compressed side by side.
const BATCH: usize = 64;

/// Names of tasks: those that ftrace noted, and those of the tasks that are alive. Lines of a pid and a name.
pub fn task_names(instance: Option<&Instance>) -> Vec<u8> {
    let mut names: BTreeMap<i32, Vec<u8>> = BTreeMap::new();
    let noted = instance.and_then(|instance| fs::read(instance.path("saved_cmdlines")).ok());
    for line in noted.unwrap_or_default().split(|&b| b == b'\n') {
        let mut parts = line.splitn(2, |&b| b == b' ');
        let pid = parts
            .next()
            .and_then(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
        if let Some((pid, name)) = pid.zip(parts.next()) {
            names.insert(pid, name.to_vec());
        }
    }
    for (pid, name) in living() {
        names.entry(pid).or_insert(name);
    }
    let line =
        |(pid, name): (i32, Vec<u8>)| [pid.to_string().as_bytes(), b" ", &name, b"\n"].concat();
    names.into_iter().flat_map(line).collect()
}

/// The threads that are alive and their names.
fn living() -> Vec<(i32, Vec<u8>)> {
    let ids = |path: &str| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        ids.collect::<Vec<_>>()
    };
    let mut names = Vec::new();
    for pid in ids("/proc") {
        for tid in ids(&format!("/proc/{pid}/task")) {
            if let Ok(mut name) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
                name.retain(|&b| b != b'\n');
                names.push((tid, name));
            }
        }
    }
    names
}

/// Functions and their addresses, which call sites are looked up in. What is no function is left out.
fn kernel_symbols() -> Vec<u8> {
    let all = fs::read("/proc/kallsyms").unwrap_or_default();
    let is_function = |line: &&[u8]| {
        let mut words = line.split(|&b| b == b' ');
        let hidden = words
            .next()
            .is_none_or(|address| address.iter().all(|&b| b == b'0'));
        !hidden && matches!(words.next(), Some(b"t" | b"T" | b"w" | b"W"))
    };
    all.split_inclusive(|&b| b == b'\n')
        .filter(is_function)
        .flatten()
        .copied()
        .collect()
}

/// Writes the finished file in the journal's place; returns its size.
pub fn assemble(recorder: FtraceRecorder) -> Result<u64, RecordError> {
    let mut description = recorder.description.clone();
    description.kallsyms = kernel_symbols();
    let stats = recorder.stats.iter();
    description.stats = stats
        .map(|(cpu, stats)| (*cpu, stats.text.clone()))
        .collect();
    let successor = Successor::of(&recorder.path)?;
    let cpus = Cpus::new(&recorder.plan.cpus, &recorder.extents);
    match recorder.plan.file_version {
        6 => of_blocks(&successor, &description, &cpus, &recorder.journal)?,
        _ => of_sections(&successor, &description, &cpus, &recorder)?,
    }
    let size = successor.file.metadata().map_err(failed)?.len();
    successor.succeed()?;
    Ok(size)
}

fn failed(error: std::io::Error) -> RecordError {
    RecordError::system("cannot write the trace")(error)
}

/// Where the pages of each CPU lie in the journal, in the order they were written.
struct Cpus(Vec<(u32, Vec<Extent>)>);

impl Cpus {
    fn new(cpus: &[u32], extents: &[Extent]) -> Self {
        let of = |&cpu: &u32| {
            let own = extents
                .iter()
                .filter(|extent| extent.cpu == cpu && extent.used > 0);
            (cpu, own.copied().collect())
        };
        Self(cpus.iter().map(of).collect())
    }

    fn size(extents: &[Extent]) -> u64 {
        extents.iter().map(|extent| extent.used).sum()
    }
}

/// Version 7.
fn of_sections(
    successor: &Successor,
    description: &dat::Description,
    cpus: &Cpus,
    recorder: &FtraceRecorder,
) -> Result<(), RecordError> {
    let level = recorder.plan.compress.then_some(LEVEL);
    let ids: Vec<u32> = cpus.0.iter().map(|(cpu, _)| *cpu).collect();
    let mut head = Head::finished(description, &ids, level)?;
    let start = head.bytes.len() as u64;
    let mut at = start;
    for (index, (_, extents)) in cpus.0.iter().enumerate() {
        let end = match level {
            None => copy(&recorder.journal, extents, successor, at)?,
            Some(level) => pack(&recorder.journal, extents, successor, at, level)?,
        };
        // The number of chunks is not counted.
        let uncounted = if level.is_some() { 4 } else { 0 };
        head.place(index, at, (end - at).saturating_sub(uncounted));
        at = end;
    }
    head.close(at - start);
    successor
        .file
        .write_all_at(&head.bytes, 0)
        .map_err(failed)?;
    successor.file.set_len(at).map_err(failed)
}

/// Version 6, which lists CPUs from 0 on.
fn of_blocks(
    successor: &Successor,
    description: &dat::Description,
    cpus: &Cpus,
    journal: &Journal,
) -> Result<(), RecordError> {
    let mut sizes = vec![0; description.cpu_count as usize];
    for (cpu, extents) in &cpus.0 {
        if let Some(size) = sizes.get_mut(*cpu as usize) {
            *size = Cpus::size(extents);
        }
    }
    let (head, places) = dat::head_of_blocks(description, &sizes);
    successor.file.write_all_at(&head, 0).map_err(failed)?;
    for (cpu, extents) in &cpus.0 {
        if let Some(&at) = places.get(*cpu as usize) {
            copy(journal, extents, successor, at)?;
        }
    }
    Ok(())
}

/// Copies pages as they are; returns where they end.
fn copy(
    journal: &Journal,
    extents: &[Extent],
    to: &Successor,
    at: u64,
) -> Result<u64, RecordError> {
    let mut at = at;
    for extent in extents {
        let mut from = extent.offset as i64;
        let mut left = extent.used as usize;
        while left > 0 {
            let mut place = at as i64;
            let copied = nix::fcntl::copy_file_range(
                journal.file(),
                Some(&mut from),
                &to.file,
                Some(&mut place),
                left,
            );
            match copied {
                Ok(copied) if copied > 0 => {
                    left -= copied;
                    at += copied as u64;
                }
                // Not between these file systems: by hand.
                _ => {
                    let mut bytes = vec![0; left.min(1 << 20)];
                    journal
                        .file()
                        .read_exact_at(&mut bytes, from as u64)
                        .map_err(failed)?;
                    to.file.write_all_at(&bytes, at).map_err(failed)?;
                    left -= bytes.len();
                    at += bytes.len() as u64;
                    from += bytes.len() as i64;
                }
            }
        }
    }
    Ok(at)
}

/// Compresses pages piece by piece; returns where they end.
fn pack(
    journal: &Journal,
    extents: &[Extent],
    to: &Successor,
    at: u64,
    level: i32,
) -> Result<u64, RecordError> {
    if extents.is_empty() {
        return Ok(at);
    }
    let pieces = pieces(extents, CHUNK_PAGES * journal.page_size());
    let mut end = at + 4;
    for batch in pieces.chunks(BATCH) {
        let packed: Vec<Vec<u8>> = batch
            .par_iter()
            .map(|&(offset, size)| packed(journal, offset, size, level))
            .collect::<Result<_, _>>()?;
        let packed = packed.concat();
        to.file.write_all_at(&packed, end).map_err(failed)?;
        end += packed.len() as u64;
    }
    let count = (pieces.len() as u32).to_le_bytes();
    to.file.write_all_at(&count, at).map_err(failed)?;
    Ok(end)
}

/// Places and sizes of at most `most` bytes each.
fn pieces(extents: &[Extent], most: u64) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for extent in extents {
        let mut at = 0;
        while at < extent.used {
            let size = most.min(extent.used - at);
            pieces.push((extent.offset + at, size));
            at += size;
        }
    }
    pieces
}

/// One piece as it stands in the file: sizes packed and plain, content.
fn packed(journal: &Journal, offset: u64, size: u64, level: i32) -> Result<Vec<u8>, RecordError> {
    let mut plain = vec![0; size as usize];
    journal
        .file()
        .read_exact_at(&mut plain, offset)
        .map_err(failed)?;
    let content = dat::compress(&plain, level)?;
    let mut piece = Vec::with_capacity(content.len() + 8);
    let _ = piece.write_all(&(content.len() as u32).to_le_bytes());
    let _ = piece.write_all(&(size as u32).to_le_bytes());
    piece.extend(content);
    Ok(piece)
}
