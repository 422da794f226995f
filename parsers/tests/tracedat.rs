//! trace.dat files: synthetic ones whose every event is known, and real ones that trace-cmd wrote.

use std::path::{Path, PathBuf};

use ttwu_parsers::bytes::Endian;
use ttwu_parsers::event::{Event, NO_TYPE, Payload};
use ttwu_parsers::fault::FaultLog;
use ttwu_parsers::map::Bytes;
use ttwu_parsers::trace::{EventSource, OpenOptions};
use ttwu_parsers::tracedat::DatTrace;

#[path = "support/dat.rs"]
mod dat;
use dat::{Buffer, Dat, Machine, Packing, Page, X86};

fn try_open(file: Vec<u8>, instance: Option<&str>) -> Result<DatTrace, String> {
    let options = OpenOptions {
        instance: instance.map(str::to_owned),
        ..OpenOptions::default()
    };
    DatTrace::open(Bytes::owned(file), Path::new("test.dat"), &options).map_err(|e| e.to_string())
}

fn open(file: Vec<u8>) -> DatTrace {
    try_open(file, None).unwrap()
}

fn drain(mut source: Box<dyn EventSource + '_>) -> (Vec<Event>, FaultLog) {
    let events = std::iter::from_fn(|| source.next_event()).collect();
    (events, source.take_faults())
}

/// All events in time order; there must be no faults.
fn events(trace: &DatTrace) -> Vec<Event> {
    let (events, faults) = drain(trace.merged());
    assert_eq!(faults.kept(), []);
    events
}

/// Stamp and CPU of each event.
fn times(trace: &DatTrace) -> Vec<(i64, u32)> {
    events(trace).iter().map(|e| (e.ts, e.cpu)).collect()
}

fn stamps(file: Vec<u8>) -> Vec<i64> {
    events(&open(file)).iter().map(|e| e.ts).collect()
}

const ARM_BIG: Machine = Machine {
    endian: Endian::Big,
    long: 4,
    page: 4096,
};

/// Two pages on CPU 0, one on CPU 3.
fn two_cpus(m: Machine) -> Dat {
    let first = Page::new(m, 1000)
        .event(0, &m.waking(1, 20, 3))
        .event(10, &m.switch(1, 2, 0))
        .done();
    let second = Page::new(m, 2000)
        .event(0, &m.switch(0, 0, 1))
        .long_event(7, &m.print("hello"))
        .done();
    let other = Page::new(m, 1005).event(0, &m.switch(0, 0, 20)).done();
    Dat::new(m, vec![(0, [first, second].concat()), (3, other)])
}

#[test]
fn every_layout_gives_the_same_events() {
    let machines = [
        X86,
        ARM_BIG,
        Machine { page: 16384, ..X86 },
        Machine {
            long: 4,
            page: 65536,
            ..X86
        },
        Machine {
            endian: Endian::Big,
            ..X86
        },
    ];
    for machine in machines {
        let mut files = vec![("trace.dat v6", two_cpus(machine).v6())];
        for (packing, format) in [
            (Packing::None, "trace.dat v7"),
            (Packing::Zlib, "trace.dat v7 zlib"),
            (Packing::Zstd, "trace.dat v7 zstd"),
        ] {
            files.push((format, two_cpus(machine).packed(packing).v7()));
        }
        for (format, file) in files {
            let trace = open(file);
            let meta = trace.meta();
            assert_eq!(meta.format, format);
            assert_eq!(meta.task_names, [(12, b"some name".to_vec())]);
            // Version 6 numbers CPUs by their place in the table.
            let last = if format == "trace.dat v6" { 1 } else { 3 };
            assert_eq!(meta.cpus, [0, last]);
            let wanted = [(1000, 0), (1005, last), (1010, 0), (2000, 0), (2007, 0)];
            assert_eq!(times(&trace), wanted, "{format}");
            check_payloads(&events(&trace));
        }
    }
}

fn check_payloads(events: &[Event]) {
    let Payload::Waking(wake) = &events[0].payload else {
        panic!("{:?}", events[0]);
    };
    assert_eq!((wake.pid, wake.prio, wake.target_cpu), (20, 120, 3));
    assert_eq!(wake.comm.as_bytes(), b"wakee");
    assert!(events[0].flags.softirq());
    let Payload::Switch {
        prev_pid,
        prev_state,
        next_pid,
        next_prio,
        next_comm,
        ..
    } = &events[2].payload
    else {
        panic!("{:?}", events[2]);
    };
    assert_eq!((*prev_pid, *next_pid, *next_prio), (1, 0, 19));
    assert_eq!(prev_state.letter, b'D');
    assert_eq!(next_comm.as_bytes(), b"next");
    assert_eq!(
        events[4].payload,
        Payload::Marker(b"hello".as_slice().into())
    );
}

#[test]
fn shards_hold_what_the_merge_holds() {
    let trace = open(two_cpus(X86).v7());
    let shards: Vec<_> = trace.shards().into_iter().map(|s| drain(s).0).collect();
    assert_eq!(shards.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
    let mut all = shards.concat();
    all.sort_by_key(|e| (e.ts, e.cpu));
    assert_eq!(all, events(&trace));
    let mut merged = trace.merged();
    while merged.next_event().is_some() {}
    assert_eq!(merged.bytes_done(), trace.meta().data_bytes);
}

#[test]
fn equal_stamps_are_ordered_by_cpu_then_by_record() {
    let page = |pid| {
        let page = Page::new(X86, 50).event(0, &X86.waking(pid, 1, 0));
        page.event(0, &X86.waking(pid + 1, 1, 0)).done()
    };
    let trace = open(Dat::new(X86, vec![(7, page(30)), (2, page(10))]).v7());
    assert_eq!(trace.meta().cpus, [2, 7]);
    let pids: Vec<_> = events(&trace).iter().map(|e| e.pid).collect();
    assert_eq!(pids, [10, 11, 30, 31]);
}

#[test]
fn time_moves_by_deltas_extends_absolute_stamps_and_discarded_events() {
    for machine in [X86, ARM_BIG] {
        let record = machine.waking(1, 2, 0);
        let top = 1 << 59;
        let page = Page::new(machine, top + 100)
            .event(1, &record) // 101
            .extend(1 << 40)
            .event(2, &record) // 103 + 2^40
            .discarded(5, 12) // its delta counts, as in libtraceevent
            .event(0, &record) // 108 + 2^40
            .absolute((1 << 41) + 9) // the top five bits are those of the running time
            .event(1, &record) // 2^41 + 10
            .void(&[0xff; 8])
            .done();
        let base = top as i64;
        let wanted = [
            base + 101,
            base + 103 + (1 << 40),
            base + 108 + (1 << 40),
            base + (1 << 41) + 10,
        ];
        assert_eq!(stamps(Dat::new(machine, vec![(0, page)]).v7()), wanted);
        let page = Page::new(machine, 2 * top - 100)
            .event(1, &record)
            .absolute(3) // would be the past: the 59 bits wrapped
            .event(0, &record)
            .done();
        let wanted = [2 * base - 99, 2 * base + 3];
        assert_eq!(stamps(Dat::new(machine, vec![(0, page)]).v7()), wanted);
    }
}

#[test]
fn long_records_are_padded_to_words() {
    let text = "x".repeat(301);
    let mut record = X86.print(&text);
    record.truncate(16 + 302);
    let page = Page::new(X86, 5)
        .long_event(1, &record)
        .event(1, &X86.waking(1, 2, 0))
        .done();
    let events = events(&open(Dat::new(X86, vec![(0, page)]).v7()));
    assert_eq!(events[0].payload, Payload::Marker(text.as_bytes().into()));
    assert_eq!(events[1].ts, 7);
}

/// Pages of one event each, with what was missed before it.
fn lossy(m: Machine, pages: &[(u64, Option<Option<u64>>)]) -> Vec<u8> {
    let page = |&(stamp, missed): &(u64, Option<Option<u64>>)| {
        let page = Page::new(m, stamp).event(0, &m.waking(1, 2, 0));
        match missed {
            None => page.done(),
            Some(count) => page.missed(count).done(),
        }
    };
    pages.iter().flat_map(page).collect()
}

#[test]
fn losses_stand_between_the_events_around_them() {
    for machine in [X86, ARM_BIG] {
        let pages = [(100, None), (300, Some(Some(9))), (400, Some(None))];
        let lossy = lossy(machine, &pages);
        let other = Page::new(machine, 200)
            .event(0, &machine.waking(1, 2, 0))
            .done();
        for packing in [Packing::None, Packing::Zstd] {
            let cpus = vec![(0, lossy.clone()), (1, other.clone())];
            let mut file = Dat::new(machine, cpus).packed(packing);
            file.chunk = 1;
            let told: Vec<_> = events(&open(file.v7()))
                .into_iter()
                .map(|e| match e.payload {
                    Payload::LossBegin { count } => {
                        assert_eq!((e.type_index, e.pid), (NO_TYPE, -1));
                        (e.ts, e.cpu, format!("begin {count:?}"))
                    }
                    Payload::LossEnd => (e.ts, e.cpu, "end".to_owned()),
                    _ => (e.ts, e.cpu, String::new()),
                })
                .collect();
            let told: Vec<_> = told.iter().map(|(t, c, s)| (*t, *c, s.as_str())).collect();
            let wanted = [
                (100, 0, ""),
                (100, 0, "begin Some(9)"),
                (200, 1, ""),
                (300, 0, "end"),
                (300, 0, ""),
                (300, 0, "begin None"),
                (400, 0, "end"),
                (400, 0, ""),
            ];
            assert_eq!(told, wanted);
        }
    }
}

#[test]
fn a_loss_before_any_event_begins_at_the_first_pages_stamp() {
    let empty = Page::new(X86, 100).done();
    let pages = [empty, lossy(X86, &[(300, Some(Some(4)))])].concat();
    let events = events(&open(Dat::new(X86, vec![(0, pages)]).v7()));
    let begin = Payload::LossBegin { count: Some(4) };
    assert_eq!((events[0].ts, &events[0].payload), (100, &begin));
    assert_eq!((events[1].ts, &events[1].payload), (300, &Payload::LossEnd));
    assert_eq!(events.len(), 3);
}

#[test]
fn losses_of_pages_without_events_add_up() {
    let empty = Page::new(X86, 200).missed(Some(3)).done();
    let (first, last) = (
        lossy(X86, &[(100, None)]),
        lossy(X86, &[(300, Some(Some(4)))]),
    );
    let events = events(&open(
        Dat::new(X86, vec![(0, [first, empty, last].concat())]).v7(),
    ));
    assert_eq!(events[1].payload, Payload::LossBegin { count: Some(7) });
    assert_eq!(events.len(), 4);
}

#[test]
fn completeness_needs_clean_stats_and_a_clean_first_page() {
    let clean = lossy(X86, &[(100, None)]);
    let overwritten = lossy(X86, &[(100, Some(None))]);
    let cpus = vec![
        (0, clean.clone()),
        (1, overwritten),
        (2, clean.clone()),
        (3, clean),
        (4, Vec::new()),
    ];
    for packing in [Packing::None, Packing::Zlib] {
        let file = Dat::new(X86, cpus.clone()).packed(packing);
        let file = file.stats(0, 0).stats(1, 0).stats(2, 5).stats(4, 0);
        let trace = open(file.v7());
        // CPU 1's first page has the mark, 2 was overwritten, 3 has no stats, 4 is proven to be silent.
        assert_eq!(trace.meta().complete_from_start, [0, 4]);
        assert_eq!(trace.meta().cpus, [0, 1, 2, 3, 4]);
        assert!(trace.meta().notes[0].contains("overwrote 5 events in the buffers of 1 CPUs"));
        // Nothing is emitted before the first event of an overwritten buffer.
        assert_eq!(events(&trace).len(), 4);
    }
}

fn with_instance(m: Machine) -> Dat {
    let mut file = two_cpus(m);
    let page = |pid| Page::new(m, 9).event(0, &m.waking(pid, 1, 0)).done();
    file.buffers.push(Buffer {
        name: "small",
        clock: "boot",
        page: m.page,
        cpus: vec![(0, page(77)), (1, Vec::new())],
    });
    file
}

#[test]
fn instances_are_chosen_by_name_or_by_size() {
    for file in [
        with_instance(X86).v6(),
        with_instance(X86).v7(),
        with_instance(ARM_BIG).v6(),
    ] {
        let trace = open(file.clone());
        assert_eq!(events(&trace).len(), 5);
        let buffers: Vec<_> = trace
            .meta()
            .buffers
            .iter()
            .map(|b| (b.name.as_str(), b.bytes, b.selected))
            .collect();
        assert_eq!(buffers, [("", 3 * 4096, true), ("small", 4096, false)]);
        assert!(
            trace
                .meta()
                .notes
                .iter()
                .any(|n| n.contains("`small` holds 4096 bytes"))
        );
        let small = try_open(file.clone(), Some("small")).unwrap();
        assert_eq!(events(&small)[0].pid, 77);
        assert_eq!(events(&try_open(file.clone(), Some("")).unwrap()).len(), 5);
        let error = try_open(file, Some("x\u{1b}")).unwrap_err();
        assert!(error.contains("no buffer `x\\u{1b}`"), "{error}");
        assert!(
            error.contains("the top buffer") && error.contains("`small`"),
            "{error}"
        );
    }
}

#[test]
fn instances_have_their_own_clock_page_size_and_stats() {
    let big = Machine { page: 16384, ..X86 };
    for packing in [Packing::None, Packing::Zlib, Packing::Zstd] {
        let mut file = two_cpus(X86).packed(packing);
        let page = |ts| Page::new(big, ts).event(0, &X86.waking(1, 1, 0)).done();
        file.buffers.push(Buffer {
            name: "big",
            clock: "boot",
            page: 16384,
            cpus: vec![(5, [page(10), page(20)].concat())],
        });
        let file = file
            .stats(5, 8)
            .option(2, "\n\nBuffer: big\n\n\0")
            .stats(5, 0);
        let trace = try_open(file.v7(), Some("big")).unwrap();
        assert_eq!(times(&trace), [(10, 5), (20, 5)]);
        assert_eq!(trace.meta().clock.name, "boot");
        assert_eq!(trace.meta().complete_from_start, [5]);
    }
}

#[test]
fn clocks_are_named_by_either_version() {
    let clock = |file: Vec<u8>| open(file).meta().clock.clone();
    let v6 = two_cpus(X86).option(4, "").v6();
    assert_eq!(clock(v6).name, "mono");
    assert_eq!(clock(two_cpus(X86).v7()).name, "mono");
    let unnamed = open(two_cpus(X86).v6());
    assert_eq!(unnamed.meta().clock.name, "local");
    assert!(!unnamed.meta().clock.global);
    assert!(unnamed.meta().notes[0].contains("names no clock"));
    let named = |name| {
        let mut file = two_cpus(X86);
        file.buffers[0].clock = name;
        file
    };
    assert!(!clock(named("counter").v7()).nanoseconds);
    assert!(!clock(named("x86-tsc").v7()).nanoseconds);
    let rate = [X86.u32(1 << 31), X86.u32(32), X86.u64(0)].concat();
    assert!(clock(named("x86-tsc").option(14, rate).v7()).nanoseconds);
}

#[test]
fn offsets_and_rates_are_applied_in_trace_cmds_order() {
    let m = ARM_BIG;
    let file = || two_cpus(m);
    assert_eq!(
        stamps(file().option(7, "-1000\0").v7()),
        [0, 5, 10, 1000, 1007]
    );
    assert_eq!(stamps(file().option(1, "0x2\0").v6())[0], 3000);
    // Half a nanosecond a cycle; the third number is an offset that trace-cmd's reader leaves alone.
    let rate = [m.u32(1 << 31), m.u32(32), m.u64(999)].concat();
    let both = file().option(7, "5\0").option(14, rate);
    assert_eq!(stamps(both.v7()), [505, 507, 510, 1005, 1008]);
    // A guest: 1000 later than its host on CPU 0 only, then at half its speed.
    let sync = [
        m.u64(1),
        m.u32(0),
        m.u32(1),
        m.u32(1),
        m.u64(0),
        m.u64(1000),
        m.u64(1),
    ]
    .concat();
    let guest = open(file().option(12, sync).v7());
    assert_eq!(
        times(&guest),
        [(1005, 3), (2000, 0), (2010, 0), (3000, 0), (3007, 0)]
    );
    assert!(guest.meta().notes[0].contains("guest"));
}

#[test]
fn stamps_out_of_range_are_left_out_and_told() {
    let trace = open(two_cpus(X86).option(7, "-1005\0").v7());
    let (events, faults) = drain(trace.merged());
    // A loss stands where the first page was: its CPU's first event is not the first there was.
    assert_eq!(times_of(&events), [0, 995, 995, 995, 1002]);
    assert_eq!(events[1].payload, Payload::LossBegin { count: None });
    assert_eq!((faults.total(), faults.kept()[0].cpu), (1, Some(0)));
    let page = Page::new(X86, u64::MAX - 1)
        .event(0, &X86.waking(1, 2, 0))
        .done();
    let (events, faults) = drain(open(Dat::new(X86, vec![(0, page)]).v7()).merged());
    assert_eq!((events.len(), faults.total()), (0, 1));
}

/// The times of one CPU's pages of an event each, and what was told of them. A loss lies where a page was left out.
fn told(pages: Vec<u8>) -> (Vec<i64>, Vec<String>) {
    let (events, faults) = drain(open(Dat::new(X86, vec![(0, pages)]).v7()).merged());
    for loss in events.windows(2) {
        if matches!(loss[0].payload, Payload::LossBegin { .. }) {
            assert_eq!(loss[1].payload, Payload::LossEnd);
        }
    }
    let told = faults.kept().iter().map(|fault| fault.what.clone());
    (times_of(&events), told.collect())
}

fn times_of(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.ts).collect()
}

#[test]
fn a_page_that_strays_in_time_is_a_loss() {
    let hour = 3_600_000_000_000;
    let around = |stamp| {
        let pages = [
            (hour, None),
            (stamp, None),
            (hour + 9, None),
            (hour + 20, None),
        ];
        told(lossy(X86, &pages))
    };
    let left_out = [hour, hour, hour + 9, hour + 9, hour + 20].map(|ts| ts as i64);
    for (stamp, why) in [
        (1 << 57, "about 1667 days after the rest of the trace"),
        (u64::MAX, "is out of range"),
        (2 * hour, "contradicts the pages before and after it"),
        (hour / 2, "contradicts the pages before and after it"),
    ] {
        let (times, told) = around(stamp);
        assert_eq!((&times[..], told.len()), (&left_out[..], 1), "{stamp}");
        assert!(told[0].contains(why), "{}", told[0]);
    }
}

#[test]
fn a_page_out_of_order_by_milliseconds_is_a_loss() {
    let ms = 1_000_000;
    for stray in [50 * ms, 2 * ms] {
        let (times, told) = told(lossy(
            X86,
            &[
                (10 * ms, None),
                (stray, None),
                (12 * ms, None),
                (13 * ms, None),
            ],
        ));
        assert_eq!(times, [10, 10, 12, 12, 13].map(|at| at * ms as i64));
        assert!(told[0].contains("contradicts"), "{told:?}");
    }
}

#[test]
fn a_page_of_zeros_is_a_loss() {
    let page = |stamp| lossy(X86, &[(stamp, None)]);
    let zeros = vec![0; page(1).len()];
    let trace = |pages: [Vec<u8>; 3]| {
        let dat = Dat::new(X86, vec![(0, pages.concat())]);
        open(dat.v7())
    };
    let (events, faults) = drain(trace([page(1), zeros.clone(), page(3)]).merged());
    assert_eq!(times_of(&events), [1, 1, 3, 3]);
    assert!(faults.kept()[0].what.contains("all zeros"));
    // At the end nothing ends the loss; at the start the first event is not the first there was.
    let (events, _) = drain(trace([page(1), page(3), zeros.clone()]).merged());
    assert_eq!(times_of(&events), [1, 3, 3]);
    assert_eq!(events[2].payload, Payload::LossBegin { count: None });
    let first = trace([zeros, page(2), page(3)]);
    assert_eq!(times_of(&drain(first.merged()).0), [2, 2, 2, 3]);
    assert!(first.meta().complete_from_start.is_empty());
}

#[test]
fn data_that_say_they_hold_nothing_are_told() {
    let mut file = Dat::new(X86, vec![(0, lossy(X86, &[(1, None)]))]).packed(Packing::Zstd);
    file.chunk = 1;
    let whole = file.v7();
    let pages = Packing::Zstd.pack(&lossy(X86, &[(1, None)]));
    let at = whole.windows(pages.len()).position(|w| w == pages).unwrap();
    let mut empty = whole.clone();
    // The number of chunks stands before the two sizes of the first.
    empty[at - 12..at - 8].fill(0);
    let (events, faults) = drain(open(empty).merged());
    assert_eq!(events.len(), 0);
    assert!(faults.kept()[0].what.contains("say that they hold nothing"));
}

#[test]
fn a_time_extend_that_leads_beyond_the_next_page_is_a_loss() {
    let record = X86.waking(1, 2, 0);
    let page = Page::new(X86, 100)
        .event(1, &record)
        .extend(1 << 45)
        .event(1, &record)
        .event(1, &record)
        .done();
    let next = Page::new(X86, 300).event(0, &record).done();
    let (times, told) = told([page.clone(), next].concat());
    assert_eq!(times, [101, 101, 300, 300]);
    assert!(
        told[0].contains("later than the page that follows"),
        "{told:?}"
    );
    // Nothing contradicts the last page of all.
    assert_eq!(self::told(page).0, [101, 102 + (1 << 45), 103 + (1 << 45)]);
}

#[test]
fn a_clock_that_was_set_back_by_hours_is_believed_and_told() {
    let hour = 3_600_000_000_000;
    let pages = [
        (2 * hour, None),
        (2 * hour + 1, None),
        (hour, None),
        (hour + 1, None),
    ];
    let (times, told) = told(lossy(X86, &pages));
    assert_eq!(times, pages.map(|(stamp, _)| stamp as i64));
    assert_eq!(told.len(), 1);
}

#[test]
fn a_stamp_that_goes_back_keeps_its_place_and_is_told() {
    let pages = lossy(X86, &[(100, None), (90, None), (95, None)]);
    let (events, faults) = drain(open(Dat::new(X86, vec![(0, pages)]).v7()).merged());
    assert_eq!(
        events.iter().map(|e| e.ts).collect::<Vec<_>>(),
        [100, 90, 95]
    );
    assert!(faults.kept()[0].what.contains("10 ns before"));
}

#[test]
fn options_tell_of_the_machine() {
    let file = two_cpus(X86)
        .option(5, "Linux box 6.12.1-x y x86_64\0")
        .option(9, "3.2 x\0")
        .option(4711, "what is this");
    for file in [file.v6(), file.v7()] {
        let trace = open(file);
        let meta = trace.meta();
        assert_eq!(meta.arch.as_deref(), Some("x86_64"));
        assert_eq!(meta.hostname.as_deref(), Some("box"));
        assert_eq!(meta.kernel_release.as_deref(), Some("y"));
        assert_eq!(trace.recorder(), Some("3.2 x"));
        let names: Vec<_> = trace.types().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["print", "sched_waking", "sched_switch"]);
    }
}

#[test]
fn a_raised_number_of_cpus_is_followed_by_an_empty_entry() {
    let mut file = two_cpus(X86).option(8, X86.u32(2)).option(4, "").v6();
    // Pretend that the count before the options is 1: the table keeps two entries, then one of zeros.
    let tag = file.windows(10).position(|w| w == b"options  \0").unwrap();
    file[tag - 4..tag].copy_from_slice(&X86.u32(1));
    let table = file.windows(10).position(|w| w == b"flyrecord\0").unwrap() + 10;
    let clock = table + 32;
    // The first data starts at the next page; there is room before it.
    file.copy_within(clock..clock + 64, clock + 16);
    file[clock..clock + 16].fill(0);
    let trace = open(file);
    assert_eq!(trace.meta().clock.name, "mono");
    assert_eq!(trace.meta().cpus, [0, 1]);
    assert_eq!(events(&trace).len(), 5);
}

#[test]
fn options_that_form_a_loop_end_the_chain() {
    let mut file = two_cpus(X86).v7();
    // The last option holds the offset of the next section: lead back to the first.
    let first = file.windows(6).position(|w| w == b"none\0\0").unwrap() + 6;
    let back = file[first..first + 8].to_vec();
    let end = file.len() - 8;
    file[end..].copy_from_slice(&back);
    let trace = open(file);
    assert!(trace.meta().notes[0].contains("loop"));
    assert_eq!(events(&trace).len(), 5);
}

#[test]
fn what_is_no_event_data_is_refused_with_the_reason() {
    let mut latency = two_cpus(X86).v6();
    let at = latency
        .windows(10)
        .position(|w| w == b"flyrecord\0")
        .unwrap();
    latency[at..at + 10].copy_from_slice(b"latency  \0");
    let error = try_open(latency, None).unwrap_err();
    assert!(error.contains("latency tracer"), "{error}");
    let mut empty = two_cpus(X86);
    empty.buffers.clear();
    let error = try_open(empty.clone().option(22, "").v7(), None).unwrap_err();
    assert!(error.contains("latency tracer"), "{error}");
    let error = try_open(empty.v7(), None).unwrap_err();
    assert!(error.contains("no recorded data"), "{error}");
    let newer = b"\x17\x08\x44tracing8\0\0\x08\0\x10\0\0".to_vec();
    let error = try_open(newer, None).unwrap_err();
    assert!(error.contains("version `8`"), "{error}");
    let error = try_open(
        b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0lz4\x001\0".to_vec(),
        None,
    )
    .unwrap_err();
    assert!(error.contains("compression `lz4`"), "{error}");
}

fn fixture(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    std::fs::read(root.join(name)).unwrap()
}

#[test]
fn versions_6_and_7_of_one_run_agree_event_for_event() {
    let all: Vec<_> = ["v6", "v7-none", "v7"]
        .map(|name| open(fixture(&format!("trace-dat/{name}.dat"))))
        .into_iter()
        .collect();
    let first = events(&all[0]);
    assert_eq!(first.len(), 1740);
    for trace in &all[1..] {
        assert_eq!(events(trace), first);
        assert_eq!(trace.meta().complete_from_start, [0, 1, 2, 3]);
        assert_eq!(trace.meta().task_names, all[0].meta().task_names);
    }
    let meta = all[0].meta();
    assert_eq!(
        meta.kernel_release.as_deref(),
        Some("6.12.113+deb12-cloud-amd64")
    );
    assert_eq!(
        (meta.hostname.as_deref(), meta.clock.name.as_str()),
        (None, "local")
    );
}

#[test]
fn real_files_hold_as_many_events_as_trace_cmd_reports() {
    let known = [
        ("trace-dat/v7-mono.dat", "mono", 2091),
        ("trace-dat/v7-counter.dat", "counter", 2364),
        ("trace-dat/v7-tsc.dat", "x86-tsc", 2165),
        ("trace-dat/v7-instance.dat", "local", 2756),
        ("trace-dat/v7-overwritten.dat", "local", 7727),
        ("lab/stack/trace.dat", "local", 15122),
        ("lab/udp-queue/trace.dat", "local", 20202),
    ];
    for (name, clock, count) in known {
        let trace = open(fixture(name));
        let events = events(&trace);
        assert_eq!(
            (trace.meta().clock.name.as_str(), events.len()),
            (clock, count),
            "{name}"
        );
        assert!(events.is_sorted_by_key(|e| (e.ts, e.cpu)), "{name}");
    }
}

#[test]
fn a_real_files_losses_are_those_that_trace_cmd_reports() {
    let trace = open(fixture("trace-dat/v7-lossy.dat"));
    let events = events(&trace);
    let count = |cpu| -> Vec<_> {
        let begins = events.iter().filter(|e| e.cpu == cpu);
        let counts = begins.filter_map(|e| match e.payload {
            Payload::LossBegin { count } => count,
            _ => None,
        });
        counts.collect()
    };
    // trace-cmd also reports 52,026 and 208 events lost before the first ones.
    assert_eq!(count(0), [345, 208, 828, 276, 69, 345, 345, 276, 414]);
    assert_eq!(count(1), [0_u64; 0]);
    let recorded = events.iter().filter(|e| e.type_index != NO_TYPE);
    assert_eq!((recorded.count(), events.len()), (1449, 1467));
    assert!(trace.meta().complete_from_start.is_empty());
}

#[path = "support/dat_damage.rs"]
mod damage;
#[path = "support/trace_cmd.rs"]
mod trace_cmd;

/// The lab's files, where they are.
fn shared() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let root = std::env::var_os("TTWU_SHARED").map_or(default, PathBuf::from);
    root.join("traces/lab").is_dir().then_some(root)
}
