//! Losses: what LOST and LOST_SAMPLES say together, and where it lies.

use std::path::Path;

use ttwu_parsers::event::{Event, Payload};
use ttwu_parsers::map::Bytes;
use ttwu_parsers::perfdata::PerfTrace;

use crate::support::perf_writer::{
    AttrSpec, CPU, IDENTIFIER, PerfFile, RAW, TID, TIME, zstd_pieces,
};

const SAMPLE: u64 = IDENTIFIER | TID | TIME | CPU | RAW;

/// Ids 1 and 2: the event on CPU 0 and on CPU 1.
fn file() -> PerfFile {
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE, &[1, 2])]);
    file.id_index(&[(1, 0, u64::MAX), (2, 1, u64::MAX)]);
    file
}

fn open(file: &PerfFile) -> PerfTrace {
    PerfTrace::open(Bytes::owned(file.seekable()), Path::new("perf.data")).expect("it opens")
}

/// Per event: time, CPU and `w` for a wakeup, `[n` for the begin of a loss of n, `]` for its end.
fn told(trace: &PerfTrace) -> Vec<String> {
    let mut events = trace.merged();
    std::iter::from_fn(|| events.next_event())
        .map(
            |Event {
                 ts, cpu, payload, ..
             }| match payload {
                Payload::LossBegin { count } => format!("{ts}/{cpu}[{}", count.unwrap_or(0)),
                Payload::LossEnd => format!("{ts}/{cpu}]"),
                _ => format!("{ts}/{cpu}w"),
            },
        )
        .collect()
}

#[test]
fn a_loss_lies_between_the_events_around_it() {
    let mut file = file();
    file.sample(0, 1, 10, 0, 5).lost(7, 1, 20, 0);
    file.sample(0, 1, 20, 0, 5).sample(0, 1, 30, 0, 5);
    file.sample(0, 2, 9, 1, 5)
        .sample(0, 2, 15, 1, 5)
        .sample(0, 2, 40, 1, 5);
    let trace = open(&file);
    assert_eq!(
        told(&trace),
        [
            "9/1w", "10/0w", "10/0[7", "15/1w", "20/0]", "20/0w", "30/0w", "40/1w"
        ]
    );
    assert_eq!(trace.meta().complete_from_start, [0, 1]);
    assert_eq!(trace.meta().lost_unplaced, 0);
}

#[test]
fn a_loss_seen_by_both_records_is_told_once() {
    let mut file = file();
    file.sample(0, 1, 10, 0, 5)
        .lost(7, 1, 20, 0)
        .sample(0, 1, 20, 0, 5);
    file.sample(0, 2, 25, 1, 5);
    file.lost_samples(7, 1);
    assert_eq!(
        told(&open(&file)),
        ["10/0w", "10/0[7", "20/0]", "20/0w", "25/1w"]
    );
    // What the events' counters saw beyond that lies behind the CPU's last event.
    file.lost_samples(2, 1).lost_samples(3, 2);
    let trace = open(&file);
    assert_eq!(
        told(&trace),
        [
            "10/0w", "10/0[7", "20/0]", "20/0w", "20/0[2", "25/0]", "25/1w", "25/1[3", "25/1]"
        ]
    );
    assert_eq!(trace.meta().lost_unplaced, 0);
}

#[test]
fn losses_at_the_edges() {
    let mut file = file();
    file.lost(4, 1, 10, 0).sample(0, 1, 10, 0, 5);
    file.sample(0, 2, 12, 1, 5).lost(6, 2, 13, 1);
    let trace = open(&file);
    assert_eq!(
        told(&trace),
        ["10/0[4", "10/0]", "10/0w", "12/1w", "12/1[6", "13/1]"]
    );
    assert_eq!(trace.meta().complete_from_start, [1]);
}

#[test]
fn without_a_cpu_a_loss_is_only_counted() {
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE, &[1, 2])]);
    file.sample(0, 1, 10, 0, 5)
        .lost(7, 1, 20, 0)
        .sample(0, 1, 20, 0, 5);
    // No ID_INDEX: of these 9, 7 are the LOST record's.
    file.lost_samples(4, 1).lost_samples(5, 2);
    let trace = open(&file);
    assert_eq!(told(&trace), ["10/0w", "10/0[7", "20/0]", "20/0w"]);
    assert_eq!(trace.meta().lost_unplaced, 2);
}

#[test]
fn filtered_and_hardware_samples_are_no_losses() {
    let mut file = file();
    file.sample(0, 1, 10, 0, 5);
    let payload = [file.order.u64(50), file.trailer(0, 1, 0, 0)].concat();
    file.push(13, 1 << 15, &payload);
    let count = file.order.u64(60);
    file.other(13, &count, 0, 1, 10, 0);
    let trace = open(&file);
    assert_eq!(told(&trace), ["10/0w"]);
    assert_eq!(trace.meta().lost_unplaced, 0);
    assert_eq!(trace.meta().notes.len(), 2);
}

#[test]
fn every_loss_of_the_lossy_recording_is_told_once() {
    // LOST records of 36, 77 and 24 on CPUs 2, 3 and 0; LOST_SAMPLES records of 137 together.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/perf-data/perf.lost.data");
    let trace = PerfTrace::open(Bytes::open(&path).expect("the file"), &path).expect("it opens");
    let losses: Vec<_> = told(&trace)
        .into_iter()
        .filter(|told| !told.ends_with('w'))
        .collect();
    assert_eq!(
        losses,
        [
            "103029913844/3[77",
            "103077717161/2[36",
            "103197105369/2]",
            "103197284174/3]",
            "103264483455/0[24",
            "103313368279/0]"
        ]
    );
    assert_eq!(trace.meta().lost_unplaced, 0);
}

const SECOND: u64 = 1_000_000_000;

/// Two CPUs' samples at these seconds.
fn at_seconds(first: &[u64], second: &[u64]) -> PerfFile {
    let mut file = file();
    for (cpu, seconds) in [first, second].into_iter().enumerate() {
        for at in seconds {
            let ts = at.saturating_mul(SECOND);
            file.sample(0, 1 + cpu as u64, ts, cpu as u32, 5);
        }
    }
    file
}

/// What was told of the first CPU, in seconds.
fn in_seconds(told: &[String]) -> Vec<String> {
    let of_first = told.iter().filter(|event| event.contains("/0"));
    of_first
        .map(|event| event.replacen("000000000/0", "", 1))
        .collect()
}

#[test]
fn a_sample_that_strays_in_time_is_a_loss() {
    for (stray, why) in [
        (5000, "contradicts"),
        (3, "contradicts"),
        (1 << 31, "days after the rest"),
        (u64::MAX, "beyond 292 years"),
    ] {
        let trace = open(&at_seconds(
            &[100, 101, stray, 102, 103, 104],
            &[100, 101, 102],
        ));
        let wanted = ["100w", "101w", "101[1", "102]", "102w", "103w", "104w"];
        assert_eq!(in_seconds(&told(&trace)), wanted, "{stray}");
        let mut events = trace.merged();
        while events.next_event().is_some() {}
        let faults = events.take_faults();
        assert_eq!(faults.total(), 1);
        assert!(faults.kept()[0].what.contains(why), "{faults:?}");
        assert_eq!(trace.sample_counts().iter().sum::<u64>(), 8);
    }
}

/// Three samples on CPU 0 and two on CPU 1, which ends earlier, then one of each.
fn torn() -> PerfFile {
    let mut file = file();
    file.id_index(&[(1, 0, u64::MAX), (2, 1, u64::MAX), (3, 2, u64::MAX)]);
    file.sample(0, 2, 10, 1, 5).sample(0, 2, 11, 1, 5);
    for ts in [10, 20, 30] {
        file.sample(0, 1, ts, 0, 5);
    }
    file.sample(0, 2, 40, 1, 5).sample(0, 1, 50, 0, 5);
    file
}

/// What `torn` tells up to the place where it is torn.
const TORN: [&str; 9] = [
    "10/0w", "10/1w", "10/2[0", "11/1w", "11/1[0", "20/0w", "30/0w", "30/1]", "30/2]",
];

#[test]
fn what_cannot_be_read_any_more_is_lost_on_every_cpu() {
    let mut bad_size = torn();
    let at = bad_size.records.len() - 2;
    bad_size.records.truncate(at + 1);
    bad_size.records[at][6..8].copy_from_slice(&[0, 0]);
    let mut cut = torn();
    cut.records.truncate(at + 1);
    cut.records[at].truncate(20);
    for file in [bad_size, cut] {
        let trace = open(&file);
        let mut shards = trace.shards();
        let mut events = shards
            .iter_mut()
            .flat_map(|shard| std::iter::from_fn(|| shard.next_event()).collect::<Vec<_>>());
        let unknown = Payload::LossBegin { count: None };
        assert_eq!(
            events.by_ref().filter(|of| of.payload == unknown).count(),
            2
        );
        assert_eq!(told(&trace), TORN);
        assert_eq!(trace.meta().complete_from_start, [0, 1]);
        assert_eq!(trace.meta().lost_unplaced, 0);
    }
    // A file that ends between two records lost nothing that anyone knows of.
    let mut whole = torn();
    whole.records.truncate(at);
    let trace = open(&whole);
    assert_eq!(told(&trace), ["10/0w", "10/1w", "11/1w", "20/0w", "30/0w"]);
    assert_eq!(trace.meta().complete_from_start, [0, 1, 2]);
}

#[test]
fn what_cannot_be_decompressed_is_lost_on_every_cpu() {
    let file = torn();
    let records = file.records.len();
    let kept: usize = file.records[..records - 2].iter().map(Vec::len).sum();
    let data = file.data();
    let (first, rest) = data.split_at(kept);
    let mut pieces = zstd_pieces([first, rest].into_iter());
    pieces[1].iter_mut().for_each(|byte| *byte ^= 0x5a);
    let data: Vec<u8> = pieces
        .iter()
        .flat_map(|piece| file.record(81, 0, piece))
        .collect();
    let bytes = Bytes::owned(file.seekable_with(data, true));
    let trace = PerfTrace::open(bytes, Path::new("perf.data")).expect("it opens");
    assert_eq!(told(&trace), TORN);
}

/// 200 samples on each of the machine's 4 CPUs and these on others, by CPU.
fn with_odd_cpus(pipe: bool, odd: &[(u32, usize)]) -> PerfTrace {
    let mut file = file();
    for n in 0..200 {
        for cpu in 0..4 {
            file.sample(0, 1, 10 + n, cpu, 5);
        }
        for &(cpu, _) in odd.iter().filter(|(_, count)| n < *count as u64) {
            file.sample(0, 1, 10 + n, cpu, 5);
        }
    }
    let bytes = match pipe {
        true => file.pipe(),
        false => file.seekable(),
    };
    PerfTrace::open(Bytes::owned(bytes), Path::new("perf.data")).expect("it opens")
}

fn faults(trace: &PerfTrace) -> Vec<String> {
    let mut events = trace.merged();
    while events.next_event().is_some() {}
    let faults = events.take_faults();
    faults.kept().iter().map(|of| of.what.clone()).collect()
}

#[test]
fn a_cpu_that_the_machine_does_not_have_is_left_out() {
    for pipe in [false, true] {
        let trace = with_odd_cpus(pipe, &[(63, 3), (4, 1)]);
        assert_eq!(trace.meta().cpus, [0, 1, 2, 3]);
        assert_eq!(told(&trace).len(), 800);
        assert_eq!(trace.sample_counts().iter().sum::<u64>(), 800);
        assert_eq!(trace.meta().lost_unplaced, 4);
        let mut faults = faults(&trace);
        faults.sort();
        assert_eq!(
            faults,
            [
                "1 sample on CPU 4, which the machine does not have (4 CPUs): left out",
                "3 samples on CPU 63, which the machine does not have (4 CPUs): left out",
            ]
        );
    }
}

#[test]
fn a_cpu_with_a_good_part_of_the_samples_is_the_machines() {
    let trace = with_odd_cpus(false, &[(63, 3), (4, 60)]);
    assert_eq!(trace.meta().cpus, [0, 1, 2, 3, 4, 63]);
    assert_eq!((told(&trace).len(), trace.meta().lost_unplaced), (863, 0));
    assert!(faults(&trace).is_empty());
}

#[test]
fn a_cpu_that_id_index_names_as_often_as_others_is_the_machines() {
    // Each of 3 events on CPUs 0, 1 and 9; 70 is named but once.
    let ids: Vec<u64> = (1..=10).collect();
    let mut file = PerfFile::new(false, vec![AttrSpec::waking(SAMPLE, &ids)]);
    let entry = |id| (id, [0, 1, 9][id as usize % 3], u64::MAX);
    let mut entries: Vec<_> = (1..=9).map(entry).collect();
    entries.push((10, 70, u64::MAX));
    file.id_index(&entries);
    for n in 0..100 {
        file.sample(0, 1, 10 + n, 0, 5).sample(0, 1, 10 + n, 1, 5);
    }
    file.sample(0, 1, 500, 9, 5).sample(0, 1, 500, 70, 5);
    // What is lost of an id whose CPU is not known is lost somewhere.
    file.lost_samples(6, 10);
    let trace = open(&file);
    assert_eq!(trace.meta().cpus, [0, 1, 9]);
    assert_eq!((told(&trace).len(), trace.meta().lost_unplaced), (201, 7));
    assert_eq!(faults(&trace).len(), 2);
}

#[test]
fn a_sample_that_is_seconds_ahead_or_behind_strays() {
    for (odd, wanted) in [
        (3_000, 1),
        (-3_000, 1),
        (1_500, 1),
        (-1_500, 1),
        (900, 0),
        (-900, 0),
    ] {
        let mut file = file();
        // A sample each 100 ms for 20 s; that at 10 s is off by so many milliseconds.
        for n in 0..200_i64 {
            let at = 50_000 + n * 100 + if n == 100 { odd } else { 0 };
            let ts = at.cast_unsigned() * 1_000_000;
            file.sample(0, 1, ts, 0, 5);
        }
        let trace = open(&file);
        let begins = told(&trace).iter().filter(|of| of.contains('[')).count();
        assert_eq!((begins, faults(&trace).len()), (wanted, wanted), "{odd}");
        let samples: u64 = trace.sample_counts().iter().sum();
        assert_eq!(samples, 200 - wanted as u64);
    }
}

#[test]
fn cpus_that_are_idle_for_seconds_are_believed() {
    let trace = open(&at_seconds(
        &[100, 103, 106, 110, 200, 203],
        &[100, 102, 109],
    ));
    assert_eq!(told(&trace).len(), 9);
    assert!(faults(&trace).is_empty());
}

#[test]
fn what_is_not_believed_is_left_out_at_both_ends() {
    let seconds = [20, 400, 401, 402, 403, 900];
    let mut trace = open(&at_seconds(&seconds, &[400]));
    assert_eq!(told(&trace).len(), 7);
    trace.believe(300 * SECOND as i64, 500 * SECOND as i64);
    let wanted = ["400w", "401w", "402w", "403w", "403[1", "403]"];
    assert_eq!(in_seconds(&told(&trace)), wanted);
    assert_eq!(trace.sample_counts().iter().sum::<u64>(), 5);
}

#[test]
fn a_number_of_losses_that_cannot_be_is_unknown() {
    let mut file = file();
    file.sample(0, 1, 10, 0, 5)
        .lost(1 << 50, 1, 20, 0)
        .sample(0, 1, 20, 0, 5);
    file.lost_samples(1 << 50, 1);
    let trace = open(&file);
    let mut events = trace.merged();
    let all: Vec<Event> = std::iter::from_fn(|| events.next_event()).collect();
    assert_eq!(all[1].payload, Payload::LossBegin { count: None });
    assert_eq!((all.len(), events.take_faults().total()), (4, 2));
    assert_eq!(trace.meta().lost_unplaced, 0);
}
