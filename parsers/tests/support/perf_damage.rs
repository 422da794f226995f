//! Damaged files: whatever the bytes, reading ends, and what is whole is kept.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use ttwu_parsers::map::Bytes;
use ttwu_parsers::perfdata::PerfTrace;

use crate::support::perf_oracle::{files, shared};
use crate::support::perf_writer::{AttrSpec, CPU, IDENTIFIER, PerfFile, RAW, TID, TIME};

/// Reads all there is; returns events and faults, or `None` if the file is refused.
fn drain(bytes: Vec<u8>) -> Option<(usize, u64)> {
    let size = bytes.len();
    let trace = PerfTrace::open(Bytes::owned(bytes), Path::new("perf.data")).ok()?;
    let mut events = trace.merged();
    let mut count = 0;
    while events.next_event().is_some() {
        count += 1;
    }
    assert!(events.bytes_done() <= trace.meta().data_bytes);
    let mut sharded = 0;
    for mut shard in trace.shards() {
        while shard.next_event().is_some() {
            sharded += 1;
        }
    }
    assert_eq!(count, sharded);
    // Plain files: no record is shorter than 8 bytes, and none yields more than two events.
    assert!(trace.meta().format.contains("zstd") || count <= size / 4);
    Some((count, events.take_faults().total()))
}

fn small(big: bool) -> PerfFile {
    let attr = AttrSpec::waking(IDENTIFIER | TID | TIME | CPU | RAW, &[1, 2]);
    let mut file = PerfFile::new(big, vec![attr]);
    file.id_index(&[(1, 0, u64::MAX), (2, 1, u64::MAX)]);
    file.comm(50, "early", 0, 0);
    for n in 0..20 {
        file.sample(0, 1 + n % 2, 100 + n, (n % 2) as u32, 7);
    }
    file.lost(3, 1, 130, 0).sample(0, 1, 130, 0, 8);
    file.comm(51, "late", 140, 1).lost_samples(4, 1);
    file
}

#[test]
fn truncation_at_every_byte_keeps_what_is_whole() {
    let file = small(false);
    let whole = drain(file.pipe()).expect("it opens");
    assert_eq!(whole, (26, 0));
    let pipe = file.pipe();
    let data_at = pipe.len() - file.data().len();
    let mut last = 0;
    for length in 0..pipe.len() {
        let Some((count, faults)) = drain(pipe[..length].to_vec()) else {
            assert!(length < data_at);
            continue;
        };
        assert!(count <= 26 && faults <= 1, "{length}: {count} {faults}");
        if length > data_at {
            assert!(count >= last || count + 2 >= last, "{length}");
            last = count;
        }
    }
    let seekable = file.seekable();
    for length in 0..seekable.len() {
        drain(seekable[..length].to_vec());
    }
}

#[test]
fn a_size_below_the_header_stops_there_with_its_offset() {
    let mut file = small(false);
    let at = file.records.len() - 10;
    let offset: usize = file.records[..at].iter().map(Vec::len).sum();
    file.records[at][6..8].copy_from_slice(&[7, 0]);
    let bytes = file.pipe();
    let data_at = bytes.len() - file.data().len();
    let trace = PerfTrace::open(Bytes::owned(bytes), Path::new("x")).expect("it opens");
    let mut events = trace.merged();
    while events.next_event().is_some() {}
    let faults = events.take_faults();
    assert_eq!(faults.kept()[0].offset, (data_at + offset) as u64);
    assert!(faults.kept()[0].what.contains("7 bytes"));
}

#[test]
fn fuzzed_files_of_other_projects_end() {
    let Some(shared) = shared() else {
        return;
    };
    for part in ["poc-", "clusterfuzz", "perf.data", "linux-perf-data"] {
        for path in files(&shared.join("traces/public"), part) {
            drain(std::fs::read(path).expect("the file"));
        }
    }
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/perf-data");
    std::fs::read(folder.join(name)).expect("the fixture")
}

/// The files that are mutated: all kinds of containers.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let file = small(false);
    vec![
        file.seekable(),
        file.pipe(),
        file.seekable_with(file.compressed(81, 100), true),
        file.seekable_with(file.compressed(83, 100), true),
        small(true).seekable(),
        fixture("perf.z.data"),
        fixture("perf.pipe-z.data"),
    ]
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutations_end(
        which in 0..7_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1..9_usize), 1..12),
        cut in any::<prop::sample::Index>(),
        truncate in prop::bool::weighted(0.2),
    ) {
        let mut bytes = SEEDS[which].clone();
        for (at, value, run) in edits {
            let at = at.index(bytes.len());
            let end = (at + run).min(bytes.len());
            bytes[at..end].fill(value);
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        drain(bytes);
    }

    #[test]
    fn arbitrary_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 0..600), pipe in any::<bool>()) {
        let mut file = b"PERFILE2".to_vec();
        file.extend(if pipe { 16_u64 } else { 104 }.to_le_bytes());
        file.append(&mut bytes);
        drain(file);
    }
}
