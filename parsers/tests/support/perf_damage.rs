//! Damaged files: whatever the bytes, reading ends, and what is whole is kept.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use ttwu_parsers::event::Payload;
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

/// Opens it; what it tells, as time and CPU, a loss in brackets with its number, and the faults.
fn read(bytes: Vec<u8>) -> (PerfTrace, Vec<String>, Vec<String>) {
    let trace = PerfTrace::open(Bytes::owned(bytes), Path::new("x")).expect("it opens");
    let mut events = trace.merged();
    let mut told = Vec::new();
    while let Some(event) = events.next_event() {
        let (ts, cpu) = (event.ts, event.cpu);
        told.push(match event.payload {
            Payload::LossBegin { count } => format!("{ts}/{cpu}[{count:?}"),
            Payload::LossEnd => format!("{ts}/{cpu}]"),
            _ => format!("{ts}/{cpu}"),
        });
    }
    let faults = events.take_faults();
    let faults = faults.kept().iter().map(|of| of.what.clone()).collect();
    drop(events);
    (trace, told, faults)
}

/// Samples at 100 to 119 on CPUs 0 and 1 by turns, of events 1 to 4.
fn many(big: bool) -> PerfFile {
    let attr = |ids: &[u64]| AttrSpec::waking(IDENTIFIER | TID | TIME | CPU | RAW, ids);
    let other = AttrSpec {
        config: 78,
        ..attr(&[3, 4])
    };
    let clock = AttrSpec {
        kind: 1,
        config: 0,
        ids: vec![5],
        sample_type: IDENTIFIER | TID | TIME | CPU,
        ..attr(&[])
    };
    let mut file = PerfFile::new(big, vec![attr(&[1, 2]), other, clock]);
    file.id_index(&[1, 2, 3, 4].map(|id| (id, (id + 1) % 2, u64::MAX)));
    for n in 0..20 {
        let (event, cpu) = (n / 2 % 2, n % 2);
        let id = 1 + event * 2 + cpu;
        file.sample(event as usize, id, 100 + n, cpu as u32, 7);
    }
    file
}

#[test]
fn whole_records_behind_a_wrong_size_are_found() {
    // The eighth sample's size; the bytes told as left out.
    let file = many(false);
    let size = file.records[8].len() as u16;
    for (wrong, why) in [
        (0, "less than its own header"),
        (7, "less than its own header"),
        (9, "cannot be"),
        (24, "cannot be"),
        (size + 4, "left out"),
        (u16::MAX, "more than are left"),
    ] {
        let mut file = file.clone();
        file.records[8][6..8].copy_from_slice(&wrong.to_le_bytes());
        for bytes in [file.pipe(), file.seekable()] {
            let (trace, told, faults) = read(bytes);
            let all: Vec<_> = told.iter().filter(|of| !of.contains(['[', ']'])).collect();
            let lost = 20 - all.len();
            // With more bytes than it has, its own are whole.
            assert!(lost <= 2, "{wrong}: {told:?}");
            assert!(
                faults.iter().any(|of| of.contains(why)),
                "{wrong}: {faults:?}"
            );
            assert!(faults.iter().any(|of| of.contains("next whole record")));
            for cpu in 0..2 {
                let begins = told
                    .iter()
                    .filter(|of| of.contains(&format!("/{cpu}[None")));
                assert_eq!(begins.count(), 1, "{wrong}: {told:?}");
            }
            assert_eq!(trace.sample_counts().iter().sum::<u64>(), all.len() as u64);
        }
    }
    let mut exact = file.clone();
    exact.records[8][6..8].copy_from_slice(&[0, 0]);
    let (_, told, _) = read(exact.seekable());
    let around = ["106/0", "106/0[None", "105/1[None", "108/0]", "109/1]"];
    assert!(told.iter().all(|of| of != "107/1"));
    for edge in around {
        assert!(told.iter().any(|of| of == edge), "{edge}: {told:?}");
    }
}

#[test]
fn a_wrong_first_record_hides_nothing_and_makes_every_cpus_start_unknown() {
    let mut file = many(false);
    file.records[0][6..8].copy_from_slice(&[9, 0]);
    let (trace, told, faults) = read(file.seekable());
    let samples = told.iter().filter(|of| !of.contains(['[', ']']));
    assert_eq!((samples.count(), faults.len()), (20, 1));
    assert_eq!(trace.meta().complete_from_start, [0_u32; 0]);
}

#[test]
fn damage_that_leaves_no_event_is_the_error() {
    let mut file = many(false);
    file.records.truncate(2);
    file.records[0][6..8].copy_from_slice(&[0, 0]);
    for bytes in [
        file.seekable(),
        file.seekable_with(
            [file.record(81, 0, &[0x5a; 40]), file.data()].concat(),
            true,
        ),
    ] {
        let error = PerfTrace::open(Bytes::owned(bytes), Path::new("x")).expect_err("damage");
        let text = error.to_string();
        assert!(text.contains("no event can be read: a "), "{text}");
    }
}

#[test]
fn an_end_that_is_missing_is_told_as_that() {
    let file = many(false);
    let mut bytes = file.seekable();
    bytes.drain(1000..1100);
    let error = PerfTrace::open(Bytes::owned(bytes), Path::new("x")).expect_err("no formats");
    let text = error.to_string();
    assert!(text.contains("is missing or damaged"), "{text}");
}

#[test]
fn records_of_types_not_known_are_stepped_over_by_their_size() {
    let mut file = many(false);
    for (kind, at) in [(60, 1), (100, 6), (1 << 15, 11), (1 << 20, 16)] {
        let odd = file.record(kind, 0, &[1, 2, 3, 4]);
        file.records.insert(at, odd);
    }
    let (_, told, faults) = read(file.seekable());
    assert_eq!((told.len(), faults.len()), (20, 0), "{faults:?}");
}

#[test]
fn samples_of_an_event_that_is_not_described_are_losses() {
    for big in [false, true] {
        let mut file = many(big);
        let order = file.order;
        let at = 104 + (file.attr_size + 16) + file.attr_size;
        let ids = order.u64(1 << 60);
        let damage = |file: &PerfFile| {
            let mut bytes = file.seekable();
            bytes[at..at + 8].copy_from_slice(&ids);
            bytes
        };
        let (trace, told, faults) = read(damage(&file));
        assert_eq!(trace.sample_counts().iter().sum::<u64>(), 10);
        assert_eq!(faults.len(), 10);
        assert!(faults[0].contains("no event that the file describes"));
        let begins = told.iter().filter(|of| of.contains("[Some(1)")).count();
        assert_eq!((begins, trace.meta().lost_unplaced), (10, 0), "{told:?}");
        // The names of the events come with their ids once more.
        let names = [("a:b", vec![1, 2]), ("c:d", vec![3, 4]), ("e", vec![5])];
        let mut desc = [order.u32(3), order.u32(136)].concat();
        for (name, ids) in names {
            desc.extend([0; 136]);
            desc.extend(order.u32(ids.len() as u32));
            desc.extend(order.string(name));
            desc.extend(ids.into_iter().flat_map(|id| order.u64(id)));
        }
        file.features.push((12, desc));
        let (trace, told, faults) = read(damage(&file));
        assert_eq!((told.len(), faults.len()), (20, 0));
        assert_eq!(trace.sample_counts().iter().sum::<u64>(), 20);
    }
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
