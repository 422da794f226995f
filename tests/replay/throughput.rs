//! Units of work against what the workloads printed, and against what other tools count.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::script::Script;
use crate::support::*;
use ttwu::attribute::answer::{Answer, Known, Throughput};
use ttwu::attribute::{self, Selection};
use ttwu::pipeline::{self, RunOptions, TimePoint};
use ttwu::replay::units::Work;
use ttwu::replay::words::Mark;
use ttwu::tables::{Budget, Builders, TableSet};
use ttwu_parsers::event::Payload;
use ttwu_parsers::trace::{OpenOptions, Trace};
use ttwu_parsers::watch::Watch;

fn answer(path: &Path, options: &RunOptions) -> Answer {
    let prepared = pipeline::prepare(path, options, &|_| ()).unwrap_or_else(|e| panic!("{e}"));
    let mut builders = Builders::new(&TableSet::analysis(), Budget::default());
    let counts = pipeline::replay(&prepared, builders.sink(), &|_| ());
    let tables = builders.finish().expect("tables");
    let selection = Selection {
        top: 1000,
        ..Selection::default()
    };
    attribute::answer(&prepared, &counts, &tables, &selection).unwrap_or_else(|e| panic!("{e}"))
}

fn throughput(path: &Path, options: &RunOptions) -> Throughput {
    match answer(path, options).throughput {
        Known::Value(throughput) => throughput,
        Known::Unknown { unknown } => panic!("{}: {unknown}", path.display()),
    }
}

fn counting(work: Work) -> RunOptions {
    RunOptions {
        work: Some(work),
        ..RunOptions::default()
    }
}

fn wakelab() -> Work {
    Work::Marker("wakelab".to_owned())
}

fn event(name: &str, field: Option<(&str, &str)>) -> Work {
    Work::Event(Watch {
        system: Some("sched".to_owned()),
        name: name.to_owned(),
        field: field.map(|(name, value)| (name.to_owned(), value.to_owned())),
    })
}

/// Messages and messages per second, as the workload printed them.
fn printed(folder: &Path) -> Option<(u64, f64)> {
    let text = std::fs::read_to_string(folder.join("workload.trace.txt")).ok()?;
    let field = |name: &str| {
        let word = text.split_whitespace().find_map(|w| w.strip_prefix(name));
        word.map(str::to_owned)
    };
    let messages = field("msgs=")?.parse().ok()?;
    Some((messages, field("rate=")?.parse().ok()?))
}

/// The lab folders whose workload printed its messages.
fn wakelabs() -> Vec<(PathBuf, u64, f64)> {
    let folders = lab_folders().into_iter();
    let known = folders.filter_map(|folder| {
        let (messages, rate) = printed(&folder)?;
        Some((folder, messages, rate))
    });
    known.collect()
}

#[test]
fn units_and_their_rate_are_what_the_workload_printed() {
    let wakelabs = wakelabs();
    assert!(wakelabs.len() >= 4, "the fixtures are there");
    for (folder, messages, rate) in wakelabs {
        let found = throughput(&folder.join("trace.dat"), &counting(wakelab()));
        let name = name(&folder);
        assert_eq!((found.units, found.kind), (messages, "marker"), "{name}");
        assert!(found.named_throughput);
        assert_eq!(found.tasks, ["lab-waker"], "{name}");
        let off = (found.per_second / rate - 1.0).abs();
        println!("{name}: {} of {rate} per second", found.per_second);
        assert!(off < 0.01, "{name}: {} of {rate}", found.per_second);
        // One thread writes the markers, so that all of what was printed is its own.
        let by_task = found.by_task.value().expect("markers name who wrote them");
        let told: Vec<_> = by_task.iter().map(|t| (t.name.as_str(), t.units)).collect();
        assert_eq!(told, [("lab-waker", messages)], "{name}");
        let threads = found
            .per_thread
            .value()
            .expect("it is known who wrote them");
        let units = &threads.units;
        assert_eq!(
            (units.n, units.mean, units.range),
            (1, messages as f64, 0.0),
            "{name}"
        );
        assert_eq!(threads.run_ns.mean, by_task[0].run_ns as f64, "{name}");
        let span = (found.span.end_ns - found.span.start_ns) as f64;
        assert_eq!(found.time_per_unit_ns, span / messages as f64);
        // Each of these messages is at most one wakeup there and one back, and little else goes on.
        let per_unit = found.wakeups_per_unit.value().copied();
        let most = if name.starts_with("fanout") { 1.5 } else { 2.1 };
        assert!(per_unit > Some(0.9) && per_unit < Some(most), "{name}");
    }
}

/// A perf.data has no markers; what the workload printed of that run is counted by the wakee's cycles, or given.
#[test]
fn a_total_is_what_the_user_says() {
    for (folder, messages, _) in wakelabs() {
        let found = throughput(
            &folder.join("trace.dat"),
            &RunOptions {
                from: Some(TimePoint::Marker("wakelab start".into())),
                to: Some(TimePoint::Marker("wakelab end".into())),
                ..counting(Work::Total(messages))
            },
        );
        let marked = throughput(&folder.join("trace.dat"), &counting(wakelab()));
        assert_eq!(found.span, marked.span, "{}", name(&folder));
        assert_eq!(found.per_second, marked.per_second);
        assert_eq!((found.kind, found.unit.as_str()), ("total", "total"));
        assert!(found.tasks.contains(&"lab-waker".to_owned()));
    }
}

/// The units of adjacent windows are those of both, but for the hundred across the border.
#[test]
fn windows_add_up_but_for_what_lies_across_the_border() {
    let folder = root().join("fixtures/lab/pair-xllc");
    let units = |from: Option<&str>, to: Option<&str>, work: Work| {
        let end = |text: &str| TimePoint::Marker(text.to_owned());
        let options = RunOptions {
            from: from.map(end),
            to: to.map(end),
            ..counting(work)
        };
        throughput(&folder.join("trace.dat"), &options).units
    };
    let whole = units(None, None, wakelab());
    for border in ["wakelab unit 200", "wakelab unit 1500", "wakelab unit 2900"] {
        let early = units(None, Some(border), wakelab());
        let late = units(Some(border), None, wakelab());
        // The border's own marker is the later window's.
        assert_eq!(early + 100 + late, whole, "{border}");
        let waking = || event("sched_waking", None);
        let (early, late) = (
            units(None, Some(border), waking()),
            units(Some(border), None, waking()),
        );
        assert_eq!(early + 1 + late, units(None, None, waking()), "{border}");
    }
}

/// What a tool prints of a trace; `None` where it is not installed.
fn printed_by(tool: &str, args: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(tool).args(args).arg(file).output();
    let Ok(output) = output else {
        eprintln!("{tool} is not installed: not compared");
        return None;
    };
    assert!(output.status.success(), "{tool} reads {}", file.display());
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// As many events as `trace-cmd report` prints lines with these parts.
#[test]
fn events_are_those_that_trace_cmd_prints() {
    let file = root().join("fixtures/lab/pair-xllc/trace.dat");
    let Some(text) = printed_by("trace-cmd", &["report", "-R", "-i"], &file) else {
        return;
    };
    let lines = |parts: &[&str]| {
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        text.lines().filter(has_all).count() as u64
    };
    let pid = "270";
    let cases: [(Work, &[&str]); 7] = [
        (event("sched_switch", None), &["sched_switch:"]),
        (
            event("sched_switch", Some(("next_comm", "lab-wakee"))),
            &["sched_switch:", "next_comm=lab-wakee "],
        ),
        (
            event("sched_switch", Some(("prev_state", "0x1"))),
            &["sched_switch:", "prev_state=1 "],
        ),
        (
            event("sched_wakeup", Some(("pid", pid))),
            &["sched_wakeup:", "pid=270 "],
        ),
        (
            event("sched_waking", Some(("target_cpu", "4"))),
            &["sched_waking:", "target_cpu=004"],
        ),
        (
            Work::Event(Watch {
                system: None,
                name: "ipi_send_cpu".to_owned(),
                field: Some(("cpu".to_owned(), "0".to_owned())),
            }),
            &["ipi_send_cpu:", " cpu=0 "],
        ),
        (
            Work::Event(Watch {
                system: Some("ttwu".to_owned()),
                name: "sel".to_owned(),
                field: Some(("flags".to_owned(), "8".to_owned())),
            }),
            &[" sel: ", "flags=8 "],
        ),
    ];
    for (work, parts) in cases {
        let found = throughput(&file, &counting(work));
        // The first one only begins the span.
        assert_eq!(found.units + 1, lines(parts), "{}", found.unit);
        assert!(lines(parts) > 10, "{parts:?}");
    }
}

#[test]
fn events_are_those_that_perf_prints() {
    let file = root().join("fixtures/perf-data/perf.plain.data");
    let args = ["script", "-F", "event,trace", "-i"];
    let Some(text) = printed_by("perf", &args, &file) else {
        return;
    };
    let lines = |parts: &[&str]| {
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        text.lines().filter(has_all).count() as u64
    };
    let all = throughput(&file, &counting(event("sched_waking", None)));
    assert_eq!(all.units + 1, lines(&["sched:sched_waking:"]));
    let on_0 = event("sched_waking", Some(("target_cpu", "0")));
    let on_0 = throughput(&file, &counting(on_0));
    assert_eq!(
        on_0.units + 1,
        lines(&["sched:sched_waking:", "target_cpu=000"])
    );
    assert!(on_0.units > 0 && on_0.units < all.units);
}

/// Marked are the events asked for, and what else an event says is what it says unmarked; in either format.
#[test]
fn marking_changes_nothing_else() {
    let shared = shared().map(|shared| shared.join("traces/lab/pair-xllc/perf.data"));
    let files = [
        root().join("fixtures/lab/pair-xllc/trace.dat"),
        root().join("fixtures/perf-data/perf.plain.data"),
    ];
    for file in files.into_iter().chain(shared) {
        let open = |watch| {
            let options = OpenOptions {
                instance: None,
                watch,
            };
            Trace::open(&file, &options).expect("it opens")
        };
        let Work::Event(watch) = event("sched_switch", Some(("next_pid", "0"))) else {
            unreachable!()
        };
        let (plain, watched) = (open(None), open(Some(watch)));
        assert_eq!(watched.watch_error(), None);
        let (mut plain, mut watched) = (plain.merged(), watched.merged());
        let mut marked = 0;
        while let Some(mut event) = watched.next_event() {
            let to_idle = matches!(event.payload, Payload::Switch { next_pid: 0, .. });
            assert_eq!(event.watched, to_idle);
            marked += u64::from(std::mem::take(&mut event.watched));
            assert_eq!(Some(event), plain.next_event());
        }
        assert_eq!(plain.next_event(), None);
        assert!(marked > 100, "{marked}");
    }
}

/// A task's completed cycles are its switch-outs that are no preemptions.
#[test]
fn cycles_end_where_the_task_blocks() {
    for (folder, _, _) in wakelabs() {
        let file = folder.join("trace.dat");
        let found = throughput(&file, &counting(Work::Task("lab-wakee".to_owned())));
        let trace = Trace::open(&file, &OpenOptions::default()).expect("it opens");
        let mut events = trace.merged();
        let mut blocked = 0;
        let mut last = 0;
        while let Some(event) = events.next_event() {
            if let Payload::Switch {
                prev_comm,
                prev_state,
                ..
            } = event.payload
                && prev_comm.as_bytes() == b"lab-wakee"
                && !prev_state.runnable()
            {
                blocked += 1;
                last = event.ts;
            }
        }
        assert_eq!(found.units, blocked, "{}", name(&folder));
        assert_eq!(found.span.end_ns, last, "{}", name(&folder));
        assert_eq!(found.tasks, ["lab-wakee"]);
    }
}

/// Wakeups, switches and sends of the whole window are the trace's own events.
#[test]
fn what_goes_with_units_is_counted_as_recorded() {
    for folder in lab_folders() {
        for file in ["trace.dat", "perf.data"] {
            let file = folder.join(file);
            if !file.exists() {
                continue;
            }
            let answer = answer(&file, &counting(Work::Total(1)));
            let Known::Value(found) = answer.throughput else {
                panic!("{}: a total is known", file.display());
            };
            let of = |name: &str| answer.trace.events_by_name.get(name).copied();
            let name = file.display();
            assert_eq!(
                found.switches.value().copied(),
                of("sched:sched_switch"),
                "{name}"
            );
            assert_eq!(found.wakeups, Known::Value(answer.wakeups.total), "{name}");
            let masks = of("ipi:ipi_send_cpumask").unwrap_or(0);
            match (of("ipi:ipi_send_cpu"), found.ipis) {
                (Some(sent), Known::Value(ipis)) if masks == 0 => assert_eq!(ipis, sent, "{name}"),
                // A mask is several.
                (Some(sent), Known::Value(ipis)) => assert!(ipis > sent + masks, "{name}"),
                (None, ipis) => assert!(ipis.value().is_none(), "{name}"),
                (Some(_), ipis) => panic!("{name}: {ipis:?}"),
            }
        }
    }
}

/// Without a unit wakeups of the workload's two threads are counted, and not called throughput.
#[test]
fn wakeups_stand_in_for_units_by_name_only() {
    for (folder, _, _) in wakelabs() {
        let found = throughput(&folder.join("trace.dat"), &RunOptions::default());
        let name = name(&folder);
        assert_eq!((found.kind, found.unit.as_str()), ("wakeup", "wakeup"));
        assert!(!found.named_throughput);
        assert_eq!(found.tasks, ["lab-waker", "lab-wakee"], "{name}");
    }
}

const MARKED: &str = "
    100 0 10 mark lab start
    110 0 10 waking 20 prev=1
    120 0 10 wakeup 20 to=1
    130 1 0  switch 0:R 20
    140 1 20 mark lab unit 7
    150 1 20 switch 20:S 0
    160 1 0  mark lab unit 8
    170 0 10 mark other
    180 0 10 mark lab end";

#[test]
fn marks_carry_the_task_that_ran() {
    let script = |work: Option<Work>| {
        let mut script = Script::new("llc=0-1 smt=0;1", MARKED);
        script.work = work;
        script.window = Some((120, 170));
        script.run().0
    };
    let rows = script(Some(Work::Marker("lab".to_owned())));
    let pid = |row: &ttwu::replay::rows::UnitRow| {
        let task = row.task?;
        Some(rows.tasks[task.0 as usize].pid)
    };
    let units: Vec<_> = rows
        .units
        .iter()
        .map(|row| (row.ts_ns, row.mark, row.done, pid(row), row.in_window))
        .collect();
    assert_eq!(
        units,
        [
            (100, Mark::Start, None, Some(10), false),
            (140, Mark::Unit, Some(7), Some(20), true),
            (160, Mark::Unit, Some(8), None, true),
            (180, Mark::End, None, Some(10), false),
        ]
    );
    assert!(script(None).units.is_empty());
    let other = script(Some(Work::Total(5)));
    assert!(other.units.is_empty());
    // Asking for units changes nothing else.
    let rows = Rows {
        units: Vec::new(),
        ..rows
    };
    assert_eq!(rows, other);
}

#[test]
fn a_marked_event_is_its_tasks_before_it_leaves() {
    let mut script = Script::new("llc=0-1 smt=0;1", MARKED);
    script.work = Some(event("sched_switch", None));
    for event in &mut script.events {
        event.watched = matches!(event.payload, Payload::Switch { .. });
    }
    let (rows, _) = script.run();
    let units: Vec<_> = rows
        .units
        .iter()
        .map(|row| {
            (
                row.ts_ns,
                row.task.map(|task| rows.tasks[task.0 as usize].pid),
            )
        })
        .collect();
    assert_eq!(units, [(130, None), (150, Some(20))]);
}
