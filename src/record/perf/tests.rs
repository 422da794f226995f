//! Recordings of this machine, where it lets us.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ttwu_parsers::event::Payload;
use ttwu_parsers::trace::{OpenOptions, Trace};

use crate::record::plan::{Plan, PlannedEvent};
use crate::record::tracefs::Tracefs;
use crate::record::{Backend, RecordError, Summary};

use super::PerfRecorder;

/// A plan for all CPUs; `None` where tracefs cannot be read.
fn plan(tracefs: &Tracefs) -> Option<Plan> {
    let event = |name: &str| {
        let read = |file| tracefs.read(format!("events/sched/{name}/{file}")).ok();
        Some(PlannedEvent {
            system: "sched".to_owned(),
            name: name.to_owned(),
            filter: None,
            id: String::from_utf8(read("id")?).ok()?.trim().parse().ok()?,
            format: read("format")?,
        })
    };
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let events = ["sched_switch", "sched_waking", "sched_wakeup"];
    Some(Plan {
        cpus: super::machine::kernel_list(&online),
        events: events
            .iter()
            .map(|name| event(name))
            .collect::<Option<_>>()?,
        buffer: None,
        compress: false,
        clock: "mono".to_owned(),
        counters: Vec::new(),
        file_version: 7,
        command_line: vec!["ttwu".to_owned(), "record".to_owned()],
    })
}

fn new_file(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    options.open(path).unwrap()
}

/// Records while some tasks come and go. `None`, with a message, where this user may not.
fn record(path: &Path, change: impl Fn(&mut Plan)) -> Option<Summary> {
    let recorded = Tracefs::find().and_then(|tracefs| {
        let mut plan = plan(&tracefs).ok_or(RecordError::Wanted("tracefs is hidden".into()))?;
        change(&mut plan);
        let mut recorder = PerfRecorder::new(&plan, &tracefs, new_file(path), path)?;
        assert!(!recorder.threads().is_empty());
        recorder.introduce(&["ttwu machine hz 250".to_owned(), long_line()])?;
        recorder.begin()?;
        for _ in 0..20 {
            let _ = Command::new("true").status();
        }
        recorder.end()?;
        assert!(!recorder.failed());
        let seen = recorder.seen();
        let summary = Box::new(recorder).finish(&["ttwu overhead cpu_ns=5".to_owned()])?;
        assert_eq!(seen.events, summary.events);
        Ok(summary)
    });
    match recorded {
        Ok(summary) => Some(summary),
        Err(error) => {
            eprintln!("not tested: {error}");
            None
        }
    }
}

/// More than one early record can hold.
fn long_line() -> String {
    format!("ttwu command {}", "x".repeat(150_000))
}

fn open(path: &Path) -> Trace {
    Trace::open(path, &OpenOptions::default()).unwrap()
}

fn samples(trace: &Trace) -> u64 {
    let Trace::Perf(trace) = trace else {
        panic!("a perf.data");
    };
    trace.sample_counts().iter().sum()
}

#[test]
fn what_is_recorded_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let Some(summary) = record(&path, |_| ()) else {
        return;
    };
    let trace = open(&path);
    let meta = trace.meta();
    assert_eq!(samples(&trace), summary.events);
    assert!(summary.events > 0 && summary.cpu_time > Duration::ZERO);
    assert_eq!(summary.bytes, path.metadata().unwrap().len());
    assert_eq!(meta.notes, [] as [String; 0]);
    assert_eq!(meta.clock.name, "monotonic");
    assert!(meta.system_wide && meta.topology.is_some());
    assert_eq!(meta.machine_record.len(), 3);
    assert_eq!(meta.machine_record[1], long_line());
    assert!(meta.task_names.iter().any(|(tid, _)| *tid == 1));
    let mut events = trace.merged();
    let mut last = i64::MIN;
    while let Some(event) = events.next_event() {
        assert!(event.ts >= last);
        last = event.ts;
    }
    assert_eq!(events.take_faults().total(), 0);
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    if record(&path, |_| ()).is_none() {
        return;
    }
    let whole = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut");
    let mut opened = 0;
    for part in 0..100 {
        std::fs::write(&cut, &whole[..whole.len() * part / 100]).unwrap();
        if let Ok(trace) = Trace::open(&cut, &OpenOptions::default()) {
            opened += 1;
            assert!(
                trace
                    .meta()
                    .notes
                    .iter()
                    .any(|note| note.contains("cut off"))
            );
            assert_eq!(trace.meta().machine_record[0], "ttwu machine hz 250");
            assert!(samples(&trace) > 0);
        }
    }
    assert!(opened > 0);
}

#[test]
fn a_compressed_recording_holds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let Some(summary) = record(&path, |plan| plan.compress = true) else {
        return;
    };
    let trace = open(&path);
    assert_eq!(samples(&trace), summary.events);
    assert!(trace.meta().format.contains("zstd"));
    assert_eq!(trace.meta().machine_record.len(), 3);
    assert_eq!(summary.bytes, path.metadata().unwrap().len());
    // No temporary file is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn counters_are_read_at_switches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let counters = |plan: &mut Plan| {
        plan.counters = vec!["cpu-clock".to_owned(), "page-faults".to_owned()];
    };
    let Some(summary) = record(&path, counters) else {
        return;
    };
    let trace = open(&path);
    assert_eq!(samples(&trace), summary.events);
    assert_eq!(trace.merged().take_faults().total(), 0);
}

#[test]
fn losses_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    // One page for each CPU.
    let Some(summary) = record(&path, |plan| plan.buffer = Some(1)) else {
        return;
    };
    let trace = open(&path);
    assert_eq!(samples(&trace), summary.events);
    let told: u64 = summary.lost.iter().map(|(_, lost)| lost).sum();
    let mut events = trace.merged();
    let mut lost = trace.meta().lost_unplaced;
    while let Some(event) = events.next_event() {
        if let Payload::LossBegin { count, .. } = event.payload {
            lost += count.unwrap_or(0);
        }
    }
    assert_eq!(lost, told);
}

#[test]
fn a_recording_that_is_dropped_leaves_a_file_of_nothing() {
    let Ok(tracefs) = Tracefs::find() else {
        return;
    };
    let Some(plan) = plan(&tracefs) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let error = |path: &Path| {
        Trace::open(path, &OpenOptions::default())
            .unwrap_err()
            .to_string()
    };
    match PerfRecorder::new(&plan, &tracefs, new_file(&path), &path) {
        Ok(mut recorder) => {
            assert!(error(&path).contains("nothing was recorded yet"));
            recorder.introduce(&[]).unwrap();
            assert!(error(&path).contains("nothing was recorded yet"));
        }
        Err(why) => eprintln!("not tested: {why}"),
    }
}
