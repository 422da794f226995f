//! Containers and layouts, written here so that what must come out is known.

use std::path::Path;

use ttwu_parsers::error::OpenError;
use ttwu_parsers::event::{Event, NO_TYPE, Payload};
use ttwu_parsers::map::Bytes;
use ttwu_parsers::perfdata::PerfTrace;
use ttwu_parsers::trace::{OpenOptions, Trace};

use crate::support::perf_writer::{
    AttrSpec, CALLCHAIN, CPU, ID, IDENTIFIER, IP, PerfFile, RAW, READ, TID, TIME, zstd_pieces,
};

const SAMPLE: u64 = IDENTIFIER | TID | TIME | CPU | RAW;

fn open(bytes: Vec<u8>) -> Result<PerfTrace, OpenError> {
    PerfTrace::open(Bytes::owned(bytes), Path::new("perf.data"))
}

fn events(trace: &PerfTrace) -> Vec<Event> {
    let mut events = trace.merged();
    let all = std::iter::from_fn(|| events.next_event()).collect();
    assert_eq!(events.take_faults().total(), 0);
    assert_eq!(events.bytes_done(), trace.meta().data_bytes);
    all
}

fn faults(trace: &PerfTrace) -> Vec<String> {
    let mut events = trace.merged();
    while events.next_event().is_some() {}
    let faults = events.take_faults();
    faults.kept().iter().map(|of| of.what.clone()).collect()
}

/// Time, CPU and wakee of each wakeup.
fn wakeups(trace: &PerfTrace) -> Vec<(i64, u32, i32)> {
    wakeups_of(&events(trace))
}

fn wakeups_of(events: &[Event]) -> Vec<(i64, u32, i32)> {
    events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Waking(wake) => {
                assert_eq!(wake.comm.as_bytes(), b"wakee");
                assert_eq!((wake.prio, wake.target_cpu), (120, event.cpu));
                assert_eq!((event.pid, event.tgid), (41, 40));
                assert!(event.flags.softirq());
                Some((event.ts, event.cpu, wake.pid))
            }
            _ => None,
        })
        .collect()
}

/// Two CPUs' wakeups, flushed one CPU after the other, with records of other kinds between.
fn two_cpus(big: bool, sample_type: u64) -> PerfFile {
    let attr = AttrSpec::waking(sample_type, &[1, 2]);
    let mut clock = AttrSpec::waking(sample_type & !(RAW | READ | CALLCHAIN), &[3]);
    (clock.kind, clock.config) = (1, 0);
    let mut file = PerfFile::new(big, vec![attr, clock]);
    file.sample(0, 1, 10, 0, 100).sample(0, 1, 30, 0, 101);
    file.push(68, 0, &[]);
    file.sample(0, 2, 20, 1, 102).sample(1, 3, 25, 1, 0);
    file.push(68, 0, &[]);
    file.sample(0, 1, 40, 0, 103).sample(0, 2, 40, 1, 104);
    file
}

const EXPECTED: [(i64, u32, i32); 5] = [
    (10, 0, 100),
    (20, 1, 102),
    (30, 0, 101),
    (40, 0, 103),
    (40, 1, 104),
];

#[test]
fn both_byte_orders_any_attr_size_and_both_modes() {
    for big in [false, true] {
        for attr_size in [64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152, 400] {
            let mut file = two_cpus(big, SAMPLE);
            file.attr_size = attr_size;
            for bytes in [file.seekable(), file.pipe()] {
                let trace = open(bytes).expect("it opens");
                assert_eq!(wakeups(&trace), EXPECTED, "{big} {attr_size}");
                assert_eq!(trace.meta().hostname.as_deref(), Some("box"));
                assert_eq!(trace.meta().task_names, [(9, b"old".to_vec())]);
                assert_eq!(trace.meta().format.contains("big-endian"), big);
            }
        }
    }
}

#[test]
fn fields_before_raw_in_all_combinations() {
    for big in [false, true] {
        for read_format in [0, 0b1111] {
            for extra in [IP, READ, CALLCHAIN, IP | READ | CALLCHAIN | ID] {
                let mut file = two_cpus(big, SAMPLE | extra);
                let records = std::mem::take(&mut file.records);
                assert!(!records.is_empty());
                file.attrs
                    .iter_mut()
                    .for_each(|attr| attr.read_format = read_format);
                file.sample(0, 1, 10, 0, 100).sample(0, 2, 20, 1, 102);
                let trace = open(file.seekable()).expect("it opens");
                assert_eq!(wakeups(&trace), [(10, 0, 100), (20, 1, 102)], "{extra:#x}");
            }
        }
    }
}

#[test]
fn events_are_told_apart_by_id_or_need_not_be() {
    let by_id = two_cpus(false, (SAMPLE & !IDENTIFIER) | ID);
    assert_eq!(
        wakeups(&open(by_id.seekable()).expect("it opens")),
        EXPECTED
    );
    // Without ids one layout for all will do.
    let mut bare = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE & !IDENTIFIER, &[]); 2]);
    bare.sample(0, 0, 10, 0, 100);
    let trace = open(bare.seekable()).expect("it opens");
    assert_eq!(wakeups(&trace), [(10, 0, 100)]);
    let mut mixed = bare.clone();
    mixed.attrs[1].sample_type = TIME;
    let error = open(mixed.seekable())
        .expect_err("it is refused")
        .to_string();
    assert!(error.contains("--sample-identifier"), "{error}");
}

#[test]
fn an_unknown_id_leaves_the_sample_out() {
    let mut file = two_cpus(false, SAMPLE);
    file.sample(0, 99, 50, 0, 1);
    let trace = open(file.seekable()).expect("it opens");
    let mut events = trace.merged();
    let all: Vec<Event> = std::iter::from_fn(|| events.next_event()).collect();
    let lost = all
        .iter()
        .filter(|of| matches!(of.payload, Payload::LossBegin { count: Some(1) }));
    assert_eq!(lost.map(|of| of.cpu).collect::<Vec<_>>(), [0]);
    assert_eq!(wakeups_of(&all), EXPECTED);
    assert!(trace.meta().notes[0].contains("1 samples belong to no event"));
    let faults = faults(&trace);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("belongs to no event"), "{faults:?}");
}

#[test]
fn other_events_are_counted_as_their_own_type() {
    let trace = open(two_cpus(false, SAMPLE).seekable()).expect("it opens");
    let types = trace.types();
    assert_eq!(types.len(), 2);
    assert_eq!(
        (types[1].system.as_str(), types[1].name.as_str()),
        ("software", "cpu-clock")
    );
    assert_eq!(trace.sample_counts(), [5, 1]);
    let other = events(&trace)
        .into_iter()
        .find(|event| event.type_index == 1)
        .expect("the sample");
    assert_eq!(
        (other.ts, other.cpu, other.pid, other.tgid),
        (25, 1, 41, 40)
    );
    assert_eq!(other.payload, Payload::Other);
}

#[test]
fn compressed_records_of_both_kinds_cut_anywhere() {
    for big in [false, true] {
        let file = two_cpus(big, SAMPLE);
        for kind in [81, 83] {
            for step in [1, 7, 50, 64, 100, 10_000] {
                let data = file.compressed(kind, step);
                let trace = open(file.seekable_with(data.clone(), true)).expect("it opens");
                assert_eq!(wakeups(&trace), EXPECTED, "{kind} {step}");
                assert!(trace.meta().format.contains("zstd"));
                let mut pipe = file.clone();
                pipe.records = vec![data];
                let trace = open(pipe.pipe()).expect("it opens");
                assert_eq!(wakeups(&trace), EXPECTED, "{kind} {step}");
            }
        }
    }
}

#[test]
fn plain_records_between_compressed_ones_keep_their_place() {
    let mut file = two_cpus(false, SAMPLE);
    let first = file.data();
    file.records.clear();
    file.sample(0, 1, 50, 0, 105);
    let plain = file.data();
    file.records.clear();
    file.sample(0, 1, 60, 0, 106);
    let second = file.data();
    let pieces = zstd_pieces([first.as_slice(), second.as_slice()].into_iter());
    let data = [
        file.record(81, 0, &pieces[0]),
        plain,
        file.record(81, 0, &pieces[1]),
    ]
    .concat();
    let trace = open(file.seekable_with(data, true)).expect("it opens");
    let expected = [&EXPECTED[..], &[(50, 0, 105), (60, 0, 106)]].concat();
    assert_eq!(wakeups(&trace), expected);
}

/// Perf 6.16 to 7.0 with a piece that needs more than one record: only the first is told, and with a wrong size.
#[test]
fn a_piece_that_perf_framed_wrongly_is_read_all_the_same() {
    let mut file = two_cpus(false, SAMPLE);
    // Comms that do not compress, so that the piece is large.
    let mut state = 1_u64;
    for n in 0..1100 {
        let noise = (0..80).map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            char::from(b'!' + (state >> 33) as u8 % 90)
        });
        file.comm(1000 + n, &noise.collect::<String>(), 0, 0);
    }
    file.sample(0, 1, 50, 0, 105);
    let plain = file.data();
    let piece = zstd_pieces([plain.as_slice()].into_iter()).remove(0);
    let most = 65_535 - 16;
    assert!(piece.len() > most && piece.len() < 2 * most);
    let (first, second) = piece.split_at(most);
    let total = 16 + first.len() + 16 + second.len();
    let wrong_size = (total.next_multiple_of(8) & 0xffff) as u16;
    let mut data = [
        83_u32.to_le_bytes().as_slice(),
        &[0; 2],
        &wrong_size.to_le_bytes(),
    ]
    .concat();
    data.extend((total as u64 - 16).to_le_bytes());
    data.extend(first);
    for stale in [0, u64::MAX / 3] {
        let payload = [&file.order.u64(stale), second].concat();
        let data = [data.clone(), file.record(83, 0, &payload)].concat();
        let trace = open(file.seekable_with(data, true)).expect("it opens");
        let expected = [&EXPECTED[..], &[(50, 0, 105)]].concat();
        assert_eq!(wakeups(&trace), expected);
    }
}

#[test]
fn payload_outside_a_record_is_stepped_over() {
    let mut file = two_cpus(false, SAMPLE);
    let mut aux = file.record(71, 0, &[file.order.u64(64), vec![0; 32]].concat());
    aux.extend([0xff; 64]);
    file.records.insert(2, aux);
    assert_eq!(wakeups(&open(file.seekable()).expect("it opens")), EXPECTED);
    assert_eq!(wakeups(&open(file.pipe()).expect("it opens")), EXPECTED);
}

#[test]
fn time_that_goes_back_within_a_cpu_is_put_in_order() {
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE, &[1])]);
    for (ts, pid) in [(10, 1), (30, 2), (20, 3), (20, 4), (40, 5), (5, 6)] {
        file.sample(0, 1, ts, 0, pid);
    }
    let trace = open(file.seekable()).expect("it opens");
    let order: Vec<_> = wakeups(&trace).iter().map(|wake| wake.2).collect();
    assert_eq!(order, [6, 1, 3, 4, 2, 5]);
    assert_eq!(trace.cpu_spans(), [(0, 10, 40)]);
}

#[test]
fn names_of_tasks_before_and_within_the_recording() {
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE, &[1])]);
    file.comm(50, "early bird", 0, 0).sample(0, 1, 10, 0, 1);
    file.comm(51, "renamed", 15, 0).sample(0, 1, 20, 0, 1);
    let trace = open(file.seekable()).expect("it opens");
    let names = &trace.meta().task_names;
    assert_eq!(names[1..], [(50, b"early bird".to_vec())]);
    assert_eq!(trace.cpu_spans(), [(0, 10, 20)]);
    let all = events(&trace);
    assert_eq!(all.len(), 3);
    assert_eq!((all[1].ts, all[1].cpu, all[1].type_index), (15, 0, NO_TYPE));
    let Payload::TaskName { tgid, tid, comm } = &all[1].payload else {
        panic!("{:?}", all[1]);
    };
    assert_eq!(
        (*tgid, *tid, comm.as_bytes()),
        (40, 51, b"renamed".as_slice())
    );
}

#[test]
fn what_was_recorded_is_told() {
    let mut file = two_cpus(false, SAMPLE);
    assert!(open(file.seekable()).expect("it opens").meta().system_wide);
    file.attrs[0].flags.push(12);
    assert!(!open(file.seekable()).expect("it opens").meta().system_wide);
    file.id_index(&[(1, 0, u64::MAX), (2, 7, u64::MAX)]);
    let trace = open(file.seekable()).expect("it opens");
    assert!(trace.meta().system_wide);
    assert_eq!(trace.meta().cpus, [0, 1, 7]);
    let map = [file.order.u64(1), file.order.u64(4711), vec![0; 16]].concat();
    file.push(73, 0, &map);
    let trace = open(file.seekable()).expect("it opens");
    assert!(!trace.meta().system_wide);
    assert_eq!(trace.meta().cpus, [0, 1]);
    file.attrs[1].flags.push(27);
    let trace = open(file.seekable()).expect("it opens");
    assert!(trace.meta().complete_from_start.is_empty());
}

#[test]
fn samples_without_time_or_cpu_say_so() {
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(IDENTIFIER | TID | RAW, &[1])]);
    file.sample(0, 1, 0, 3, 1).sample(0, 1, 0, 2, 2);
    let trace = open(file.seekable()).expect("it opens");
    let meta = trace.meta();
    assert!(!meta.has_time && !meta.has_cpu && !meta.system_wide);
    assert_eq!(meta.notes.len(), 2);
    assert!(meta.cpus.is_empty());
    let cpus: Vec<_> = events(&trace).iter().map(|event| event.cpu).collect();
    assert_eq!(cpus, [u32::MAX, u32::MAX]);
}

#[test]
fn an_unfinished_recording_is_read_or_refused_with_the_reason() {
    let file = two_cpus(false, SAMPLE);
    let error = open(file.seekable_with(file.data(), false)).expect_err("no formats");
    assert!(error.to_string().contains("was killed"), "{error}");
    let mut clock = file.clone();
    clock
        .attrs
        .iter_mut()
        .for_each(|attr| (attr.kind, attr.config) = (1, 0));
    let trace = open(clock.seekable_with(clock.data(), false)).expect("it opens");
    assert_eq!(events(&trace).len(), 6);
    assert!(trace.meta().notes[0].contains("did not end properly"));
    let whole = file.seekable();
    let error = open(whole[..whole.len() - 500].to_vec()).expect_err("no formats");
    assert!(error.to_string().contains("cut off"), "{error}");
    let mut bare = file.clone();
    bare.features.retain(|(bit, _)| *bit != 1);
    let error = open(bare.seekable()).expect_err("no formats").to_string();
    assert!(error.contains("libtraceevent"), "{error}");
}

#[test]
fn files_of_other_kinds_are_refused_with_the_reason() {
    let error = open(b"PERFFILE\x68\0\0\0\0\0\0\0".to_vec()).expect_err("version 1");
    assert!(error.to_string().contains("version 1"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let error = Trace::open(folder.path(), &OpenOptions::default()).expect_err("a folder");
    assert!(matches!(error, OpenError::Directory { .. }));
    let file = PerfFile::new(false, Vec::new());
    for bytes in [file.seekable(), file.pipe()] {
        let error = open(bytes).expect_err("no events").to_string();
        assert!(error.contains("describes no event"), "{error}");
    }
}

#[test]
fn unknown_features_are_skipped_and_damaged_ones_left_out() {
    let mut file = two_cpus(false, SAMPLE);
    file.features.push((200, vec![0xff; 100]));
    assert_eq!(wakeups(&open(file.seekable()).expect("it opens")), EXPECTED);
    file.features.push((14, vec![0xff; 3]));
    let trace = open(file.seekable()).expect("it opens");
    let mut events = trace.merged();
    while events.next_event().is_some() {}
    let faults = events.take_faults();
    assert_eq!(faults.total(), 1);
    assert!(faults.kept()[0].what.contains("feature 14"));
}

#[test]
fn shards_hold_the_same_events() {
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE, &[1])]);
    for n in 0..1000 {
        file.sample(0, 1, 1000 + n / 3, (n % 37) as u32, n as u32);
    }
    let trace = open(file.seekable()).expect("it opens");
    let merged = wakeups(&trace);
    let mut sharded = Vec::new();
    let shards = trace.shards();
    assert!(shards.len() > 1 && shards.len() <= 16);
    for mut shard in shards {
        while let Some(event) = shard.next_event() {
            if let Payload::Waking(wake) = event.payload {
                sharded.push((event.ts, event.cpu, wake.pid));
            }
        }
    }
    for cpu in 0..37 {
        let of = |all: &[(i64, u32, i32)]| -> Vec<_> {
            all.iter().copied().filter(|wake| wake.1 == cpu).collect()
        };
        assert_eq!(of(&merged), of(&sharded));
    }
    assert_eq!(merged.len(), sharded.len());
}
