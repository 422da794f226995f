//! Recordings of `ttwu record` that were killed or cut off, and are read by the features in front of the data.

use std::path::Path;

use ttwu_parsers::error::OpenError;
use ttwu_parsers::event::Payload;
use ttwu_parsers::map::Bytes;
use ttwu_parsers::perfdata::PerfTrace;

use crate::support::perf_writer::{AttrSpec, CPU, IDENTIFIER, PerfFile, RAW, TID, TIME};

const LINES: &str = "ttwu topology llc=0-3\nttwu machine hz 250\nttwu command true";

fn recording(big: bool) -> PerfFile {
    let attr = AttrSpec::waking(IDENTIFIER | TID | TIME | CPU | RAW, &[1, 2]);
    let names = AttrSpec {
        kind: 1,
        config: 9,
        ids: vec![3],
        ..AttrSpec::waking(IDENTIFIER | TID | TIME | CPU, &[])
    };
    let mut file = PerfFile::new(big, vec![attr, names]);
    file.features.push((250, LINES.as_bytes().to_vec()));
    file.id_index(&[(1, 0, u64::MAX), (2, 1, u64::MAX), (3, 0, u64::MAX)]);
    file.comm(50, "early", 0, 0);
    for n in 0..20 {
        file.sample(0, 1 + n % 2, 100 + n, (n % 2) as u32, 7);
    }
    file
}

fn open(bytes: Vec<u8>) -> Result<PerfTrace, OpenError> {
    PerfTrace::open(Bytes::owned(bytes), Path::new("perf.data"))
}

/// How many events were recorded: the edges of losses are not.
fn count(trace: &PerfTrace) -> usize {
    let mut events = trace.merged();
    std::iter::from_fn(|| events.next_event())
        .filter(|event| !matches!(event.payload, Payload::LossBegin { .. } | Payload::LossEnd))
        .count()
}

#[test]
fn a_finished_recording_is_read_as_any_other() {
    for big in [false, true] {
        let file = recording(big);
        let trace = open(file.with_early(file.data(), true)).expect("it opens");
        assert_eq!(count(&trace), 20);
        assert!(trace.meta().notes.is_empty(), "{:?}", trace.meta().notes);
        let lines: Vec<_> = LINES.lines().collect();
        assert_eq!(trace.meta().machine_record, lines);
    }
}

#[test]
fn a_killed_recording_has_its_formats_and_its_machine() {
    for big in [false, true] {
        let file = recording(big);
        let data = file.data();
        let whole = data.len();
        let mut last = None;
        for length in 0..=whole {
            let bytes = file.with_early(data[..length].to_vec(), false);
            match open(bytes) {
                Ok(trace) => {
                    let count = count(&trace);
                    assert!(count > 0 && last <= Some(count), "{length}");
                    last = Some(count);
                    assert_eq!(trace.meta().hostname.as_deref(), Some("box"));
                    assert_eq!(trace.meta().machine_record.len(), 3);
                    assert!(trace.meta().notes[0].contains("killed"), "{length}");
                }
                Err(error) => {
                    assert_eq!(last, None, "{length}: {error}");
                    assert!(error.to_string().contains("nothing was recorded yet"));
                }
            }
        }
        assert_eq!(last, Some(20));
    }
}

#[test]
fn a_recording_cut_at_any_byte_opens_or_says_why_not() {
    let file = recording(false);
    let whole = file.with_early(file.data(), true);
    let data_at = u64::from_le_bytes(whole[40..48].try_into().expect("8 bytes")) as usize;
    let mut last = 0;
    for length in 8..whole.len() {
        match open(whole[..length].to_vec()) {
            Ok(trace) => {
                let count = count(&trace);
                assert!(length > data_at && count >= last, "{length}");
                last = count;
                assert_eq!(trace.meta().machine_record.len(), 3, "{length}");
                assert!(trace.meta().notes[0].contains("cut off"), "{length}");
            }
            Err(error) => {
                let text = error.to_string();
                assert_eq!(last, 0, "{length}: {text}");
                let says = text.contains("cut off") || text.contains("ends within its header");
                assert!(says, "{length}: {text}");
            }
        }
    }
    assert_eq!(last, 20);
}

#[test]
fn a_recording_killed_while_it_was_completed_has_all_events() {
    let file = recording(false);
    let mut bytes = file.with_early(file.data(), true);
    // The header tells of the data, not yet of features; some of these are there.
    bytes[72..104].fill(0);
    for left in [0, 100, 300] {
        let trace = open(bytes[..bytes.len() - left].to_vec()).expect("it opens");
        assert_eq!(count(&trace), 20);
        assert!(trace.meta().notes[0].contains("completed"));
    }
}

#[test]
fn the_header_alone_is_a_recording_of_nothing() {
    let file = PerfFile::new(false, Vec::new());
    let mut bytes = file.with_early(Vec::new(), false);
    bytes.truncate(104);
    bytes[40..48].copy_from_slice(&104_u64.to_le_bytes());
    let error = open(bytes).expect_err("nothing is there").to_string();
    assert!(error.contains("nothing was recorded yet"), "{error}");
}

#[test]
fn files_of_others_are_not_searched_for_early_records() {
    // Ids behind the attributes, one of which looks like a record's type: where the early records would be.
    let attr = AttrSpec::waking(IDENTIFIER | TID | TIME | CPU | RAW, &[80, 66]);
    let mut file = PerfFile::new(false, vec![attr]);
    file.sample(0, 80, 100, 0, 7);
    let error = open(file.seekable_with(file.data(), false)).expect_err("no formats");
    assert!(
        error.to_string().contains("`perf record` was killed"),
        "{error}"
    );
    assert_eq!(count(&open(file.seekable()).expect("it opens")), 1);
}
