//! The records that the data begins with: which ids are of which CPU, where the kernel is, and the names of tasks that
//! exist already.
//!
//! Source: `struct perf_record_id_index`, `perf_record_thread_map`, `perf_record_cpu_map` in
//! `tools/lib/perf/include/perf/event.h`, `PERF_RECORD_MMAP` and `PERF_RECORD_COMM` in `include/uapi/linux/perf_event.h`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use super::attr::TRAILER_BYTES;
use super::events::Described;
use super::feature::Content;

const RECORD_MMAP: u32 = 1;
const RECORD_COMM: u32 = 3;
const RECORD_ID_INDEX: u32 = 69;
const RECORD_THREAD_MAP: u32 = 73;
const RECORD_CPU_MAP: u32 = 74;

/// Entries of an ID_INDEX: a record's size has 16 bits.
const IDS_PER_RECORD: usize = 2000;
/// CPUs of a CPU_MAP.
const MOST_CPUS: usize = 32_000;
/// No single thread was followed.
const ANY_THREAD: u64 = u64::MAX;
/// The kernel's first symbol.
const KERNEL_START: &str = "_text";
/// Bytes of a task's name.
const COMM_BYTES: usize = 16;

/// All of them.
pub(super) fn start_records(cpus: &[u32], events: &[Described]) -> Vec<u8> {
    let mut bytes = id_index(cpus, events);
    bytes.extend(thread_map());
    bytes.extend(cpu_map(cpus));
    bytes.extend(kernel_text().map(kernel_map).unwrap_or_default());
    bytes.extend(task_names());
    bytes
}

fn record(kind: u32, content: Content) -> Vec<u8> {
    record_of_mode(kind, 0, content)
}

/// `mode` is `misc` of the header, which says whose code an address is.
fn record_of_mode(kind: u32, mode: u16, content: Content) -> Vec<u8> {
    let mut content = content.0;
    content.resize(content.len().next_multiple_of(8), 0);
    let size = 8 + content.len();
    let header = Content::default().u32(kind).bytes(&mode.to_ne_bytes());
    header.bytes(&(size as u16).to_ne_bytes()).bytes(&content).0
}

/// For every id: the number of its ring, its CPU, and that it follows no thread.
fn id_index(cpus: &[u32], events: &[Described]) -> Vec<u8> {
    let of_event = |event: &Described| {
        let ids = event.ids.iter().zip(cpus).zip(0_u64..);
        let entries = ids.map(|((&id, &cpu), ring)| [id, ring, u64::from(cpu), ANY_THREAD]);
        entries.collect::<Vec<_>>()
    };
    let entries: Vec<_> = events.iter().flat_map(of_event).collect();
    let part = |entries: &[[u64; 4]]| {
        let counted = Content::default().u64(entries.len() as u64);
        let words = entries.iter().flatten().copied();
        record(RECORD_ID_INDEX, words.fold(counted, Content::u64))
    };
    entries.chunks(IDS_PER_RECORD).flat_map(part).collect()
}

/// One entry, without a name.
fn thread_map() -> Vec<u8> {
    let content = Content::default().u64(1).u64(ANY_THREAD);
    record(RECORD_THREAD_MAP, content.bytes(&[0; COMM_BYTES]))
}

/// As a plain list, of 16 bits each.
fn cpu_map(cpus: &[u32]) -> Vec<u8> {
    const LIST: u16 = 0;
    let cpus: Vec<u16> = cpus.iter().take(MOST_CPUS).map(|&cpu| cpu as u16).collect();
    let content = Content::default()
        .bytes(&LIST.to_ne_bytes())
        .bytes(&(cpus.len() as u16).to_ne_bytes());
    let add = |content: Content, cpu: u16| content.bytes(&cpu.to_ne_bytes());
    record(RECORD_CPU_MAP, cpus.into_iter().fold(content, add))
}

/// Where the kernel begins, from `/proc/kallsyms`; `None` where that is hidden from this user.
fn kernel_text() -> Option<u64> {
    let symbols = BufReader::new(File::open("/proc/kallsyms").ok()?);
    let start = symbols.lines().map_while(Result::ok).find_map(|line| {
        let (address, symbol) = line.split_once(' ')?;
        let (_kind, name) = symbol.split_once(' ')?;
        (name == KERNEL_START).then(|| u64::from_str_radix(address, 16).ok())
    });
    start.flatten().filter(|&start| start != 0)
}

/// A mapping of no process, from the kernel's start to the end of all addresses. By its name `perf report` knows which
/// symbol is where, and so whether the kernel has been moved since.
fn kernel_map(start: u64) -> Vec<u8> {
    const MODE_KERNEL: u16 = 1;
    const NO_PROCESS: u32 = u32::MAX;
    let name = format!("[kernel.kallsyms]{KERNEL_START}");
    let content = Content::default()
        .u32(NO_PROCESS)
        .u32(0)
        .u64(start)
        .u64(u64::MAX - start)
        .u64(start)
        .bytes(name.as_bytes());
    let content = content.bytes(&[0; 8 + TRAILER_BYTES]);
    record_of_mode(RECORD_MMAP, MODE_KERNEL, content)
}

/// Names of all threads that there are now, without a time.
fn task_names() -> Vec<u8> {
    let mut bytes = Vec::new();
    for process in numbers_in("/proc") {
        for thread in numbers_in(&format!("/proc/{process}/task")) {
            // Threads come and go.
            if let Ok(name) = fs::read(format!("/proc/{process}/task/{thread}/comm")) {
                bytes.extend(comm(process, thread, name.trim_ascii_end()));
            }
        }
    }
    bytes
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The name ends with a NUL, and is padded. The trailer is that of any event: all end alike.
fn comm(process: u32, thread: u32, name: &[u8]) -> Vec<u8> {
    let name = name.get(..COMM_BYTES - 1).unwrap_or(name);
    let padded = (name.len() + 1).next_multiple_of(8);
    let padding = vec![0; padded - name.len() + TRAILER_BYTES];
    let content = Content::default().u32(process).u32(thread);
    record(RECORD_COMM, content.bytes(name).bytes(&padding))
}
