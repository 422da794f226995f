//! Counters that come with switches: written in every shape, and recorded by perf against what perf shows of them.

use std::path::Path;
use std::process::Command;

use ttwu_parsers::event::{Counters, Event, NO_TYPE, Payload};
use ttwu_parsers::trace::{OpenOptions, Trace};

use crate::support::perf_oracle::{groups, has_perf};
use crate::support::perf_writer::{AttrSpec, CPU, ID, PerfFile, RAW, READ, TID, TIME};

const SWITCH: u64 = 78;
const SAMPLE: u64 = TID | TIME | ID | CPU | RAW;

/// `sched_switch` with cycles and instructions on two CPUs.
fn file(read_format: u64, big: bool) -> PerfFile {
    let switch = AttrSpec {
        config: SWITCH,
        read_format,
        ..AttrSpec::waking(SAMPLE | READ, &[10, 11])
    };
    let counter = |config, ids: &[u64]| AttrSpec {
        kind: 0,
        config,
        read_format: 0b100,
        ..AttrSpec::waking(SAMPLE | READ, ids)
    };
    let attrs = vec![
        switch,
        counter(0, &[20, 21]),
        counter(1, &[30, 31]),
        AttrSpec::waking(SAMPLE, &[40, 41]),
    ];
    PerfFile::new(big, attrs).with_switches()
}

/// One switch's group: its own value, cycles and instructions.
fn words(read_format: u64, cpu: u64, [cycles, instructions]: [u64; 2]) -> Vec<u64> {
    let has = |bit: u64| read_format >> bit & 1 == 1;
    let mut words = vec![3];
    words.extend(has(0).then_some(900));
    words.extend(has(1).then_some(800));
    for (value, id) in [(1, 10), (cycles, 20), (instructions, 30)] {
        words.push(value);
        words.extend(has(2).then_some(id + cpu));
        words.extend(has(4).then_some(0));
    }
    words
}

fn events(bytes: &[u8]) -> (Trace, Vec<Event>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf.data");
    std::fs::write(&path, bytes).expect("written");
    let trace = Trace::open(&path, &OpenOptions::default()).expect("it opens");
    let mut source = trace.merged();
    let events = std::iter::from_fn(|| source.next_event()).collect();
    drop(source);
    (trace, events)
}

#[test]
fn counters_come_before_their_switch_in_every_shape() {
    for flags in 0..32_u64 {
        let read_format = flags | 0b1000;
        for big in [false, true] {
            let mut file = file(read_format, big);
            for (ts, cpu, counted) in [(100, 0, [5, 6]), (110, 1, [7, 8]), (120, 0, [9, 10])] {
                let group = words(read_format, cpu, counted);
                file.switch(0, 10 + cpu, ts, cpu as u32, (41, 42), &group);
                file.sample(3, 40 + cpu, ts + 1, cpu as u32, 50);
            }
            let (trace, events) = events(&file.seekable());
            let counters: Vec<Option<&Counters>> = events
                .iter()
                .map(|event| match &event.payload {
                    Payload::Counters(counters) => Some(counters),
                    _ => None,
                })
                .collect();
            let told = read_format & 0b100 != 0;
            assert_eq!(trace.meta().counters.len(), if told { 2 } else { 0 });
            assert_eq!(events.len(), if told { 9 } else { 6 }, "{read_format:#b}");
            if !told {
                continue;
            }
            assert_eq!(trace.meta().counters, ["cycles", "instructions"]);
            for (place, (ts, expected)) in [(100, (5, 6)), (110, (7, 8)), (120, (9, 10))]
                .into_iter()
                .enumerate()
            {
                let [first, switch, waking] = [0, 1, 2].map(|of| &events[3 * place + of]);
                let counted = counters[3 * place].expect("counters first");
                assert_eq!(counted.cycles_and_instructions(), Some(expected));
                let times = (counted.enabled_ns, counted.running_ns);
                let both = read_format & 0b11 == 0b11;
                assert_eq!(times, if both { (900, 800) } else { (0, 0) });
                assert_eq!((first.ts, first.type_index), (ts, NO_TYPE));
                assert_eq!((switch.ts, switch.cpu), (ts, first.cpu));
                assert!(matches!(switch.payload, Payload::Switch { .. }));
                assert!(matches!(waking.payload, Payload::Waking(_)));
            }
        }
    }
}

/// Cycles of one kind of execution and instructions of another make no ratio.
#[test]
fn what_is_counted_differently_is_not_compared() {
    let mut file = file(0b1100, false);
    file.attrs[1].flags.push(5);
    file.switch(0, 10, 100, 0, (41, 42), &words(0b1100, 0, [5, 6]));
    let (_, events) = events(&file.seekable());
    let Payload::Counters(counters) = &events[0].payload else {
        panic!("counters first");
    };
    assert_eq!(counters.cycles_and_instructions(), None);
    assert_eq!((counters.get(0), counters.get(1)), (Some(5), Some(6)));
}

/// Records one of perf's own and compares each group with what `perf script -D` shows.
#[test]
fn recorded_groups_equal_perfs() {
    if !has_perf() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf.data");
    let group = "{sched:sched_switch,task-clock,page-faults}:S";
    let recorded = Command::new("perf")
        .args([
            "record",
            "-q",
            "-a",
            "-e",
            group,
            "-e",
            "sched:sched_waking",
            "-o",
        ])
        .arg(&path)
        .args([
            "perf", "bench", "-f", "simple", "sched", "pipe", "-l", "500",
        ])
        .output();
    if !recorded.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: perf cannot record here");
        return;
    }
    compare(&path);
}

fn compare(path: &Path) {
    let trace = Trace::open(path, &OpenOptions::default()).expect("it opens");
    assert_eq!(trace.meta().counters, ["task-clock", "page-faults"]);
    let mut source = trace.merged();
    let mut ours = Vec::new();
    let mut waiting = None;
    let mut switches = 0;
    while let Some(event) = source.next_event() {
        match event.payload {
            Payload::Counters(counters) => {
                let values = [0, 1].map(|place| counters.get(place).expect("held"));
                ours.push((event.ts, values));
                waiting = Some((event.ts, event.cpu));
            }
            Payload::Switch { .. } => {
                assert_eq!(waiting.take(), Some((event.ts, event.cpu)));
                switches += 1;
            }
            _ => assert_eq!(waiting, None, "a switch follows its counters"),
        }
    }
    // The first value is the tracepoint's own.
    let mut theirs: Vec<_> = groups(path)
        .into_iter()
        .map(|(ts, group)| (ts, [group[1].1, group[2].1]))
        .collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert!(
        ours.len() > 1000 && ours.len() == switches,
        "{}",
        ours.len()
    );
    assert_eq!(ours, theirs);
}
