//! A glance at an event says what the event does: on every fixture, and on damaged ones.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ttwu_parsers::bytes::Endian;
use ttwu_parsers::event::Payload;
use ttwu_parsers::fault::FaultLog;
use ttwu_parsers::glance::{Glance, Sight};
use ttwu_parsers::map::Bytes;
use ttwu_parsers::perfdata::PerfTrace;
use ttwu_parsers::trace::{EventSource, OpenOptions, Trace};
use ttwu_parsers::tracedat::DatTrace;

#[allow(dead_code)]
#[path = "support/dat.rs"]
mod dat;
use dat::{Dat, Machine, Page, X86};

/// The files of these endings in and below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of traces") {
        let path = entry.expect("an entry").path();
        let ending = path.extension().unwrap_or_default();
        if path.is_dir() {
            files(&path, found);
        } else if ending == "data" || ending == "dat" {
            found.push(path);
        }
    }
}

fn fixtures() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    files(&folder, &mut found);
    assert!(found.len() > 20);
    found.sort();
    found
}

fn open(bytes: Vec<u8>) -> Option<Trace> {
    let (bytes, path) = (Bytes::owned(bytes), Path::new("trace"));
    if PerfTrace::recognises(&bytes) {
        let trace = PerfTrace::open(bytes, path).ok()?;
        return Some(Trace::Perf(Box::new(trace)));
    }
    let trace = DatTrace::open(bytes, path, &OpenOptions::default()).ok()?;
    Some(Trace::Dat(Box::new(trace)))
}

/// What a source has to say in the end.
fn end(mut source: Box<dyn EventSource + '_>) -> (u64, String) {
    let faults: FaultLog = source.take_faults();
    let text = format!("{} {:?}", faults.total(), faults.kept());
    (source.bytes_done(), text)
}

/// Reads two sources of the same events side by side; returns how many glances were brief.
fn compare(mut full: Box<dyn EventSource + '_>, mut brief: Box<dyn EventSource + '_>) -> usize {
    let mut count = 0;
    loop {
        let (event, glance) = (full.next_event(), brief.next_glance());
        let Some(glance) = glance else {
            assert_eq!(event, None);
            break;
        };
        count += usize::from(!matches!(glance.sight, Sight::Other(_)));
        assert_eq!(event.map(Glance::from), Some(glance));
    }
    assert_eq!(end(full), end(brief));
    count
}

fn compare_all(trace: &Trace) -> usize {
    let merged = compare(trace.merged(), trace.merged());
    let pairs = trace.shards().into_iter().zip(trace.shards());
    let sharded: usize = pairs.map(|(full, brief)| compare(full, brief)).sum();
    assert_eq!(merged, sharded);
    merged
}

#[test]
fn every_fixture_at_a_glance() {
    for path in fixtures() {
        let trace = open(std::fs::read(&path).unwrap()).expect("a trace");
        assert!(compare_all(&trace) > 0, "{}", path.display());
    }
}

#[test]
fn one_source_can_be_read_in_both_ways() {
    for path in fixtures() {
        let trace = open(std::fs::read(&path).unwrap()).expect("a trace");
        let (mut full, mut mixed) = (trace.merged(), trace.merged());
        for turn in 0_u32.. {
            let event = full.next_event();
            if turn % 3 == 0 {
                assert_eq!(mixed.next_event(), event);
            } else {
                assert_eq!(mixed.next_glance(), event.clone().map(Glance::from));
            }
            if event.is_none() {
                break;
            }
        }
        assert_eq!(end(full), end(mixed));
    }
}

/// Events cut at each of their words, between whole ones.
#[test]
fn records_that_lack_fields_are_the_same_faults() {
    let big = Machine {
        endian: Endian::Big,
        ..X86
    };
    for machine in [X86, Machine { long: 4, ..X86 }, big] {
        for whole in [
            machine.waking(1, 20, 3),
            machine.switch(1, 2, 0),
            machine.print("hello"),
        ] {
            for length in (4..whole.len()).step_by(4) {
                let page = Page::new(machine, 1000)
                    .event(0, &machine.waking(1, 20, 3))
                    .event(1, &whole[..length])
                    .event(2, &machine.switch(1, 2, 0))
                    .done();
                let trace = open(Dat::new(machine, vec![(0, page)]).v7()).expect("a trace");
                assert_eq!(compare_all(&trace), 2, "{length}");
            }
        }
    }
}

#[test]
fn stoppers_are_known_by_name() {
    let stopper = |comm: &[u8]| {
        let mut record = X86.waking(1, 20, 3);
        record[8..24].fill(0);
        record[8..8 + comm.len()].copy_from_slice(comm);
        let page = Page::new(X86, 1000).event(0, &record).done();
        let trace = open(Dat::new(X86, vec![(0, page)]).v7()).expect("a trace");
        assert_eq!(compare_all(&trace), 1);
        let event = trace.merged().next_event().expect("an event");
        assert!(matches!(event.payload, Payload::Waking(_)));
        matches!(
            trace.merged().next_glance().expect("an event").sight,
            Sight::Waking {
                stopper: Some(20),
                ..
            }
        )
    };
    assert!(stopper(b"migration/11"));
    assert!(!stopper(b"migration"));
    // What follows the NUL is left of another name.
    assert!(!stopper(b"x\0gration/1"));
    assert!(!stopper(b"kworker/0:1"));
}

fn small_fixtures() -> Vec<Vec<u8>> {
    let read = |path: PathBuf| std::fs::read(path).unwrap();
    let paths = fixtures().into_iter();
    paths
        .map(read)
        .filter(|file| file.len() < 400_000)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_at_a_glance(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        keep in 0.5..1.5_f64,
    ) {
        let mut files = small_fixtures();
        let mut file = files.swap_remove(which.index(files.len()));
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.truncate((file.len() as f64 * keep) as usize);
        if let Some(trace) = open(file) {
            compare_all(&trace);
        }
    }
}
