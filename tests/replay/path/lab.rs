//! Paths of recorded workloads.

use std::path::Path;

use ttwu::attribute::answer::PathFacts;
use ttwu::attribute::{Facts, Scope, Selection, Span, critical_path};
use ttwu::tables::Budget;

use super::{check, tables};
use crate::support::*;

/// The path between the workload's markers, from the task that wrote the last.
struct Walked {
    path: PathFacts,
    run: Replayed,
    span: (i64, i64),
    task: u32,
}

fn walked(folder: &Path) -> Option<Walked> {
    let run = run(&folder.join("trace.dat"), &lab_options(folder));
    let markers = &run.prepared.survey.markers;
    let marker = |text: &str| {
        let found = markers.iter().find(|(_, marker)| marker == text);
        found.map(|(ts, _)| *ts)
    };
    let span = (marker("wakelab start")?, marker("wakelab end")?);
    let slices = run.rows.slices.iter();
    let writer = slices
        .filter(|s| s.start_ns <= span.1 && s.end_ns >= span.1)
        .find(|s| {
            let task = run.rows.tasks.iter().find(|t| t.task == s.task);
            task.is_some_and(|t| t.comm.as_bytes().starts_with(b"lab-"))
        });
    let task = writer?.task.0;
    Some(walked_from(run, span, task))
}

fn walked_from(run: Replayed, span: (i64, i64), task: u32) -> Walked {
    let path = path(&run, span, task, Budget::default());
    Walked {
        path,
        run,
        span,
        task,
    }
}

fn path(run: &Replayed, (start_ns, end_ns): (i64, i64), task: u32, budget: Budget) -> PathFacts {
    let tables = tables(&run.rows, budget);
    let facts = Facts::new(&run.prepared, &run.counts);
    let scope = Scope::new(facts, &tables, &Selection::default()).unwrap();
    let span = Span {
        start_ns,
        end_ns,
        last_task: Some(task),
    };
    critical_path(&scope, &span).unwrap()
}

/// The folder of that name: a fixture, or of the reference traces.
fn folder(name: &str) -> Option<std::path::PathBuf> {
    let mut folders = lab_folders().into_iter();
    folders.find(|folder| super::super::support::name(folder) == name)
}

fn share_of(path: &PathFacts, pids: &dyn Fn(&str) -> bool) -> f64 {
    let tasks = path.path.running.tasks.iter();
    tasks.filter(|t| pids(&t.name)).map(|t| t.share).sum()
}

/// Every path sums to its span, and a second walker finds the same time in each category.
#[test]
fn paths_of_recorded_workloads_are_what_a_second_walker_finds() {
    let mut checked = 0;
    for folder in lab_folders() {
        let Some(walked) = walked(&folder) else {
            continue;
        };
        println!("{}: {:?}", name(&folder), walked.path.path_ns);
        check(&walked.path, &walked.run.rows, walked.span, walked.task);
        checked += 1;
    }
    assert!(checked >= 3, "{checked} traces have markers");
}

/// The whole of each trace, from the task that left a CPU last: with its start and end, interrupts and forks.
#[test]
fn paths_of_whole_traces_are_what_a_second_walker_finds() {
    let mut interrupted = 0;
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        let last = run.rows.slices.iter().max_by_key(|s| s.end_ns);
        let (task, end) = last.map(|s| (s.task.0, s.end_ns)).unwrap();
        let span = (run.prepared.config.start_ns, end);
        let walked = walked_from(run, span, task);
        println!("{}: {:?}", name(&folder), walked.path.path_ns);
        check(&walked.path, &walked.run.rows, span, task);
        interrupted += walked.path.path_ns["interrupt"];
        let markers = &walked.run.prepared.survey.markers;
        if markers.iter().any(|(_, text)| text == "wakelab start") {
            // It sleeps for 50 ms before it starts, until a timer wakes it; else it sleeps for its partners only.
            let slept = walked.path.path.blocked["hardirq"].ns;
            assert!((50_000_000..51_000_000).contains(&slept), "{slept}");
        }
    }
    assert!(interrupted > 0, "no path was interrupted");
}

/// What is reported is what the schema says, and nothing beside it.
#[test]
fn paths_fit_the_schema() {
    let text = std::fs::read_to_string(root().join("docs/report.schema.json")).unwrap();
    let mut schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let defs = schema["$defs"].take();
    let schema = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/path",
        "unevaluatedProperties": false,
        "$defs": defs,
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut checked = 0;
    for walked in lab_folders().iter().filter_map(|folder| walked(folder)) {
        let report = serde_json::to_value(&walked.path).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&report)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        checked += 1;
        for at in [
            "/path_ns",
            "/path/wait/by_verdict/prev",
            "/path/spread/share",
            "/path",
            "",
        ] {
            let mut broken = report.clone();
            let map = broken.pointer_mut(at).and_then(|v| v.as_object_mut());
            map.unwrap().insert("surprise".to_owned(), 1.into());
            assert!(!validator.is_valid(&broken), "{at}");
        }
    }
    assert!(checked > 0);
}

/// Two tasks on two LLCs that wait for each other: all of the path is theirs, or the way between them.
#[test]
fn a_pair_across_llcs_runs_and_is_in_transit() {
    let folder = folder("pair-xllc").unwrap();
    let walked = walked(&folder).unwrap();
    let path = &walked.path;
    let ours = share_of(path, &|name| name.starts_with("lab-"));
    let share = |word: &str| path.path_share[word];
    let theirs = ours + share("interrupt") + share("transit") + share("blocked");
    assert!(theirs > 0.95, "{:?}", path.path_share);
    assert!(share("transit") > 0.02, "{:?}", path.path_share);
    // They take turns, so that nearly each wakeup across is on it: the others found the wakee not asleep yet.
    let crossing = *path.path.wakeups_cross_llc.value().unwrap();
    let wakeups = walked.run.rows.wakeups.iter();
    let (start, end) = walked.span;
    let within = wakeups.filter(|w| w.waking_ns.is_some_and(|ns| (start..=end).contains(&ns)));
    let across = within.filter(|w| w.cross_llc == Some(true)).count() as u64;
    println!("{crossing} of {across} wakeups across LLCs are on the path");
    assert!(crossing <= across && crossing * 100 >= across * 98);
}

/// Both on one CPU: what waits does so while the other runs.
#[test]
fn stacked_tasks_wait_for_each_other() {
    let folder = folder("stack").unwrap();
    let walked = walked(&folder).unwrap();
    let wait = &walked.path.path.wait;
    let waited = walked.path.path_ns["wait"];
    let partner = wait.meanwhile.ran.tasks.iter();
    let partner: i64 = partner
        .filter(|t| t.name.starts_with("lab-"))
        .map(|t| t.ns)
        .sum();
    assert!(waited > 0);
    assert!(
        partner as f64 > 0.95 * waited as f64,
        "{partner} of {waited}: {:?}",
        wait.meanwhile
    );
    assert!(walked.path.path_share["transit"] < 0.05);
}

/// One CPU's work in the sender's system call wakes the receiver: the path is followed through the soft interrupt.
#[test]
fn loopback_traffic_is_followed_to_its_sender() {
    let folder = folder("udp-queue").unwrap();
    let walked = walked(&folder).unwrap();
    let path = &walked.path;
    let ours = share_of(path, &|name| name.starts_with("lab-"));
    assert!(ours > 0.9, "{ours}: {:?}", path.path_share);
}

/// Small batches, partly on disk, change nothing.
#[test]
fn where_rows_are_kept_changes_nothing() {
    let folder = folder("fanout").unwrap();
    let walked = walked(&folder).unwrap();
    let budget = Budget {
        memory_bytes: 1 << 19,
        batch_rows: 500,
        spill_in: None,
    };
    let again = path(&walked.run, walked.span, walked.task, budget);
    let json = |path| serde_json::to_value(path).unwrap();
    assert_eq!(json(&again), json(&walked.path));
}
