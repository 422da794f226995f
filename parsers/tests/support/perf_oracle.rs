//! What `perf script` says of a file, and the same of the events read here.

use std::path::{Path, PathBuf};
use std::process::Command;

use ttwu_parsers::event::{Comm, Event, Payload, Wake};
use ttwu_parsers::trace::{OpenOptions, Trace};

/// One event, as far as both sides can tell it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub ns: i64,
    pub cpu: u32,
    pub event: String,
    pub trace: String,
    pub tgid: i32,
    pub tid: i32,
}

/// The folder of traces that is not part of the sources; the tests that need it are skipped without.
pub fn shared() -> Option<PathBuf> {
    let folder = match std::env::var_os("TTWU_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
    };
    if folder.join("traces").is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no folder of shared traces (set TTWU_SHARED)");
    None
}

/// Whether `perf` can be run here.
pub fn has_perf() -> bool {
    let found = Command::new("perf").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no perf on PATH");
    }
    found
}

/// The files of a folder whose names hold `part`.
pub fn files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && path.to_string_lossy().contains(part))
        .collect();
    files.sort();
    files
}

/// Runs `perf script` with these fields; `None` if it refuses the file.
fn script(path: &Path, fields: &str) -> Option<String> {
    let output = Command::new("perf")
        .args(["script", "--force", "--ns", "-G", "-F", fields, "-i"])
        .arg(path)
        .output()
        .expect("perf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// How many samples perf prints.
pub fn perf_count(path: &Path) -> Option<usize> {
    script(path, "comm,tid,event").map(|text| text.lines().count())
}

/// All samples that perf prints, in its order.
pub fn perf_lines(path: &Path) -> Option<Vec<Line>> {
    let text = script(path, "comm,pid,tid,cpu,time,event,trace")?;
    Some(text.lines().map(|line| parse(line).expect(line)).collect())
}

/// `comm pid/tid [cpu] seconds.nanoseconds: event: trace`; names may hold anything.
fn parse(line: &str) -> Option<Line> {
    let (at, cpu) = line.match_indices(" [").find_map(|(at, _)| {
        let cpu = line.get(at + 2..)?.split_once("] ")?.0;
        Some((at, cpu.parse().ok()?))
    })?;
    let (before, tid) = line.get(..at)?.trim_end().rsplit_once('/')?;
    let tgid = before.rsplit_once(' ')?.1;
    let (time, rest) = line.get(at..)?.split_once("] ")?.1.split_once(": ")?;
    let (seconds, nanos) = time.trim().split_once('.')?;
    let (event, trace) = match rest.trim_start().split_once(": ") {
        Some((event, trace)) => (event, trace),
        None => (rest.trim().trim_end_matches(':'), ""),
    };
    Some(Line {
        ns: seconds.parse::<i64>().ok()? * 1_000_000_000 + nanos.parse::<i64>().ok()?,
        cpu,
        event: event.to_owned(),
        trace: comparable(event, trace.trim_end()),
        tgid: tgid.parse().ok()?,
        tid: tid.parse().ok()?,
    })
}

/// The part of perf's text that the event model keeps.
fn comparable(event: &str, trace: &str) -> String {
    let from = |at: Option<usize>| at.and_then(|at| trace.get(at + 1..)).unwrap_or(trace);
    match event {
        "sched:sched_switch"
        | "sched:sched_waking"
        | "sched:sched_wakeup"
        | "sched:sched_wakeup_new"
        | "sched:sched_migrate_task" => trace.to_owned(),
        "sched:sched_process_fork" => from(trace.find(" pid=")).to_owned(),
        "sched:sched_process_exec" => from(trace.rfind(" pid=")).to_owned(),
        "sched:sched_process_exit" => {
            let end = trace.rfind(" prio=").unwrap_or(trace.len());
            trace.get(..end).unwrap_or(trace).to_owned()
        }
        _ => String::new(),
    }
}

/// All samples read here, in order; `perf script` prints no names of tasks and no losses.
pub fn our_lines(path: &Path) -> Vec<Line> {
    let trace = Trace::open(path, &OpenOptions::default()).expect("the file opens");
    let names: Vec<_> = trace
        .types()
        .iter()
        .map(|kind| format!("{}:{}", kind.system, kind.name))
        .collect();
    let mut events = trace.merged();
    let mut lines = Vec::new();
    let mut last = i64::MIN;
    while let Some(event) = events.next_event() {
        assert!(event.ts >= last, "{}: time goes back", path.display());
        last = event.ts;
        lines.extend(line(&event, &names));
    }
    assert_eq!(events.bytes_done(), trace.meta().data_bytes);
    lines
}

fn line(event: &Event, names: &[String]) -> Option<Line> {
    let trace = match &event.payload {
        Payload::TaskName { .. } | Payload::LossBegin { .. } | Payload::LossEnd => return None,
        payload => describe(payload),
    };
    let name = &names[usize::from(event.type_index)];
    // Perf prints events of its own without their type.
    let name = name.strip_prefix("software:").unwrap_or(name);
    let name = name.strip_prefix("hardware:").unwrap_or(name);
    Some(Line {
        ns: event.ts,
        cpu: event.cpu,
        event: name.to_owned(),
        trace,
        tgid: event.tgid,
        tid: event.pid,
    })
}

fn text(comm: &Comm) -> String {
    String::from_utf8_lossy(comm.as_bytes()).into_owned()
}

fn describe(payload: &Payload) -> String {
    match payload {
        Payload::Switch {
            prev_comm,
            prev_pid,
            prev_prio,
            prev_state,
            next_comm,
            next_pid,
            next_prio,
        } => format!(
            "prev_comm={} prev_pid={prev_pid} prev_prio={prev_prio} prev_state={}{} ==> next_comm={} next_pid={next_pid} next_prio={next_prio}",
            text(prev_comm),
            char::from(prev_state.letter),
            if prev_state.preempted { "+" } else { "" },
            text(next_comm)
        ),
        Payload::Waking(wake) | Payload::Wakeup(wake) | Payload::WakeupNew(wake) => {
            let Wake {
                comm,
                pid,
                prio,
                target_cpu,
            } = wake;
            format!(
                "comm={} pid={pid} prio={prio} target_cpu={target_cpu:03}",
                text(comm)
            )
        }
        Payload::Migrate {
            comm,
            pid,
            prio,
            orig_cpu,
            dest_cpu,
        } => format!(
            "comm={} pid={pid} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}",
            text(comm)
        ),
        Payload::Fork {
            parent_pid,
            child_pid,
            child_comm,
        } => format!(
            "pid={parent_pid} child_comm={} child_pid={child_pid}",
            text(child_comm)
        ),
        Payload::Exec { pid, old_pid } => format!("pid={pid} old_pid={old_pid}"),
        Payload::Exit { comm, pid } => format!("comm={} pid={pid}", text(comm)),
        _ => String::new(),
    }
}

/// Asserts that both say the same of every sample, in the same order but for equal times. Returns how many.
pub fn assert_same(path: &Path) -> usize {
    let mut perf = perf_lines(path).expect("perf reads the file");
    assert!(perf.windows(2).all(|pair| pair[0].ns <= pair[1].ns));
    let mut ours = our_lines(path);
    assert_eq!(ours.len(), perf.len(), "{}", path.display());
    perf.sort();
    ours.sort();
    for (ours, perf) in ours.iter_mut().zip(&perf) {
        // A task that is gone has no number for perf, but its events still hold it.
        if perf.tid == -1 {
            (ours.tid, ours.tgid) = (-1, perf.tgid);
        }
        assert_eq!(ours, perf, "{}", path.display());
    }
    ours.len()
}

/// The groups that `perf script -D` shows in the samples of a file: time, then the value by the event's id.
pub fn groups(path: &Path) -> Vec<(i64, Vec<(u64, u64)>)> {
    let output = Command::new("perf")
        .args(["script", "--force", "-D", "-i"])
        .arg(path)
        .output()
        .expect("perf runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut groups: Vec<(i64, Vec<(u64, u64)>)> = Vec::new();
    let mut time = 0;
    for line in text.lines() {
        if line.contains("PERF_RECORD_SAMPLE") {
            let words = line.split_whitespace();
            time = words
                .skip(1)
                .find_map(|word| word.parse().ok())
                .unwrap_or(0);
        } else if line.starts_with(".... group nr") {
            groups.push((time, Vec::new()));
        } else if let Some(entry) = line.strip_prefix("..... id ") {
            let mut words = entry.split([' ', ',']).filter(|word| !word.is_empty());
            let hex = |word: Option<&str>| u64::from_str_radix(word.expect("a number"), 16);
            let id = hex(words.next()).expect("an id");
            let value = hex(words.nth(1)).expect("a value");
            let (_, group) = groups.last_mut().expect("a group");
            group.push((id, value));
        }
    }
    groups
}
