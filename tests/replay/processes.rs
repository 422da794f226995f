//! Processes against the run times that `perf script` shows, and against what the lab's workloads do.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cross_llc::{analysed, analysed_by};
use crate::support::script::Script;
use crate::support::*;
use ttwu::attribute::answer::{Known, ProcessFacts};
use ttwu::replay::snapshot::Processes;
use ttwu::replay::units::Work;
use ttwu_parsers::watch::Watch;

fn processes(path: &Path, topology: Option<&Path>) -> Vec<ProcessFacts> {
    match analysed(path, topology, 1_000).processes {
        Known::Value(found) => found,
        Known::Unknown { unknown } => panic!("{}: {unknown}", path.display()),
    }
}

fn recordings() -> Vec<(PathBuf, Option<PathBuf>)> {
    let names = ["plain", "mono", "callchain", "z"];
    let fixture = |name: &str| root().join(format!("fixtures/perf-data/perf.{name}.data"));
    let mut paths: Vec<_> = names.iter().map(|name| (fixture(name), None)).collect();
    if let Some(shared) = shared() {
        for name in ["messaging", "pair-xllc", "pair-llc", "fanout"] {
            let folder = shared.join("traces/lab").join(name);
            paths.push((folder.join("perf.data"), Some(folder.join("topology.txt"))));
        }
    }
    paths
}

#[test]
fn parts_add_up_to_the_whole() {
    for (path, topology) in recordings() {
        let found = processes(&path, topology.as_deref());
        assert!(found.len() > 2, "{}", path.display());
        assert!(found.is_sorted_by(|a, b| a.run_ns >= b.run_ns));
        for process in found {
            let of = format!("{} {}", path.display(), process.tgid);
            let by_llc = process.llc_run_ns.value().expect("LLCs are known");
            assert_eq!(by_llc.values().sum::<i64>(), process.run_ns, "{of}");
            let residency = process.co_residency.value().expect("LLCs are known");
            let windows = &residency.windows;
            assert!(windows.len() <= 60);
            let sum: i64 = windows.iter().map(|w| w.run_ns).sum();
            assert_eq!(sum, process.run_ns, "{of}");
            assert!(windows.windows(2).all(|w| w[0].end_ns == w[1].start_ns));
            for (llc, ns) in by_llc {
                let share = |w: &ttwu::attribute::answer::ResidencyWindow| {
                    w.llc_share.get(llc).copied().unwrap_or(0.0) * w.run_ns as f64
                };
                let sum: f64 = windows.iter().map(share).sum();
                assert!((sum - *ns as f64).abs() < 1.0, "{of}: LLC {llc}");
            }
            let most = by_llc.values().copied().max().unwrap_or(0) as f64;
            assert!((residency.share - most / process.run_ns as f64).abs() < 1e-9);
            let spread = process.thread_run_ns.value().expect("it ran");
            let sum = spread.mean * spread.n as f64;
            assert!((sum - process.run_ns as f64).abs() < 1.0, "{of}");
            assert_eq!(spread.n, process.threads, "{of}");
            assert!(process.cross_llc_wakeups.value() <= Some(&process.wakeups_inside));
        }
    }
}

/// Run time by process, from the lines of `perf script` alone.
fn script_run_ns(path: &Path) -> Option<HashMap<i32, i64>> {
    let output = Command::new("perf")
        .args([
            "script",
            "--force",
            "--ns",
            "-F",
            "pid,tid,cpu,time,event,trace",
            "-i",
        ])
        .arg(path)
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: no perf that reads {}", path.display());
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut running: HashMap<u32, (i32, i64)> = HashMap::new();
    let mut by_tid: HashMap<i32, i64> = HashMap::new();
    let mut process_of: HashMap<i32, i32> = HashMap::new();
    let mut last = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let ids = words.next().and_then(|ids| ids.split_once('/'));
        let Some((Ok(pid), Ok(tid))) = ids.map(|(p, t)| (p.parse(), t.parse::<i32>())) else {
            continue;
        };
        let cpu: u32 = words.next()?.trim_matches(['[', ']']).parse().ok()?;
        let (seconds, rest) = words.next()?.trim_end_matches(':').split_once('.')?;
        let now = seconds.parse::<i64>().ok()? * 1_000_000_000 + rest.parse::<i64>().ok()?;
        last = last.max(now);
        if tid > 0 && pid > 0 {
            process_of.insert(tid, pid);
        }
        running.entry(cpu).or_insert((tid, now));
        if line.contains("sched:sched_switch:") {
            let field = |key: &str| line.split(key).nth(1)?.split(' ').next()?.parse().ok();
            let (prev, next): (i32, i32) = (field(" prev_pid=")?, field(" next_pid=")?);
            let (_, since) = running.remove(&cpu)?;
            *by_tid.entry(prev).or_default() += now - since;
            // perf stops CPU after CPU: where it was last is the last that is seen of it there.
            let elsewhere = running
                .iter()
                .find(|(_, (tid, _))| next > 0 && *tid == next);
            if let Some(elsewhere) = elsewhere.map(|(cpu, _)| *cpu) {
                let (_, since) = running.remove(&elsewhere)?;
                *by_tid.entry(next).or_default() += now - since;
            }
            running.insert(cpu, (next, now));
        }
    }
    for (tid, since) in running.into_values() {
        *by_tid.entry(tid).or_default() += last - since;
    }
    let mut by_process = HashMap::new();
    for (tid, ns) in by_tid {
        if let Some(process) = process_of.get(&tid).filter(|_| tid > 0) {
            *by_process.entry(*process).or_default() += ns;
        }
    }
    Some(by_process)
}

#[test]
fn run_times_equal_those_of_perf_script() {
    let mut compared = 0;
    for (path, topology) in recordings() {
        let Some(expected) = script_run_ns(&path) else {
            continue;
        };
        for process in processes(&path, topology.as_deref()) {
            let of = format!("{} {} {}", path.display(), process.name, process.tgid);
            assert_eq!(Some(&process.run_ns), expected.get(&process.tgid), "{of}");
            compared += 1;
        }
    }
    eprintln!("{compared} processes compared");
}

/// How many of an event's lines each thread wrote, by `perf script`, and which process each is of.
fn script_events(path: &Path, event: &str) -> Option<Vec<(i32, i32)>> {
    let output = Command::new("perf")
        .args([
            "script",
            "--force",
            "--ns",
            "-F",
            "pid,tid,time,event",
            "-i",
        ])
        .arg(path)
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: no perf that reads {}", path.display());
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.contains(event));
    let ids = lines.filter_map(|line| {
        let (pid, tid) = line.split_whitespace().next()?.split_once('/')?;
        Some((pid.parse().ok()?, tid.parse().ok()?))
    });
    Some(ids.collect())
}

/// Each waking is a unit, but for the first, which begins the span. Threads of a process that did none count too.
#[test]
fn units_of_a_process_are_the_lines_of_its_threads() {
    let work = Work::Event(Watch {
        system: Some("sched".to_owned()),
        name: "sched_waking".to_owned(),
        field: None,
    });
    let mut compared = 0;
    for (path, topology) in recordings() {
        let Some(lines) = script_events(&path, "sched:sched_waking:") else {
            continue;
        };
        let mut by_process: HashMap<i32, HashMap<i32, u64>> = HashMap::new();
        let (mut exiting, mut credited) = (0, 0);
        for (pid, tid) in lines.iter().skip(1).filter(|(_, tid)| *tid != 0) {
            // perf has no ids of a task that is being reaped.
            exiting += u64::from(*tid < 0);
            *by_process.entry(*pid).or_default().entry(*tid).or_default() += 1;
        }
        let found = analysed_by(&path, topology.as_deref(), 1_000, Some(work.clone())).processes;
        for process in found.value().expect("perf.data names processes") {
            let of = format!("{} {} {}", path.display(), process.name, process.tgid);
            let expected = by_process.get(&process.tgid);
            let Known::Value(units) = &process.units else {
                assert_eq!(expected, None, "{of}");
                continue;
            };
            let expected = expected.cloned().unwrap_or_default();
            let sum = (units.mean * units.n as f64).round() as u64;
            let more = sum - expected.values().sum::<u64>();
            credited += more;
            assert_eq!(units.n, process.threads, "{of}");
            if more > 0 {
                continue;
            }
            assert_eq!(
                Some(units.max),
                expected.values().max().map(|n| *n as f64),
                "{of}"
            );
            let squares: f64 = expected.values().map(|n| (*n as f64).powi(2)).sum();
            let variance = squares / units.n as f64 - units.mean.powi(2);
            assert!(
                (units.stddev_population - variance.max(0.0).sqrt()).abs() < 1e-3,
                "{of}"
            );
            compared += 1;
        }
        assert!(
            credited <= exiting,
            "{}: {credited} of {exiting}",
            path.display()
        );
    }
    eprintln!("{compared} processes compared");
}

/// One process, a thread pinned to each LLC, or both to one.
#[test]
fn pairs_of_the_lab_live_where_they_were_pinned() {
    let Some(shared) = shared() else {
        return;
    };
    let pair = |name: &str| {
        let folder = shared.join("traces/lab").join(name);
        let topology = folder.join("topology.txt");
        let found = processes(&folder.join("perf.data"), Some(&topology));
        let pair = found.into_iter().find(|p| p.name == "lab-waker");
        pair.expect("the workload is there")
    };
    let across = pair("pair-xllc");
    assert_eq!((across.threads, across.leaders), (2, 1));
    let residency = across.co_residency.value().expect("known");
    assert!((0.5..0.6).contains(&residency.share), "{}", residency.share);
    assert!(residency.llcs_at_once > 1.0 && residency.llcs_at_once <= 2.0);
    let inside = across.wakeups_inside;
    assert!(inside > 5_000 && across.cross_llc_wakeups.value() == Some(&inside));
    let within = pair("pair-llc");
    let residency = within.co_residency.value().expect("known");
    assert!(residency.share > 0.999, "{}", residency.share);
    // From when they were pinned on it is one LLC alone.
    let ran = residency.windows.iter().filter(|w| w.run_ns > 0);
    let alone = ran.clone().rev();
    let alone = alone.take_while(|w| w.llc_share.values().eq([&1.0]));
    let (alone, ran) = (alone.count(), ran.count());
    assert!(ran > 30 && alone * 10 >= ran * 9, "{alone} of {ran}");
    assert_eq!(residency.preferred_changes, 0);
}

#[test]
fn a_trace_without_processes_says_so() {
    let folder = root().join("fixtures/lab/fanout");
    let topology = folder.join("topology.txt");
    let answer = analysed(&folder.join("trace.dat"), Some(&topology), 10);
    let Known::Unknown { unknown } = &answer.processes else {
        panic!("a trace.dat does not name processes");
    };
    assert!(unknown.contains("which threads belong"), "{unknown}");
}

/// Thread 11 of process 10 starts a thread, process 20 a process, which starts a thread that then runs a program: it goes on
/// as the leader. Of 33 no event tells; 40 and 41 are told after the end, but 41 died. Then 20 ends, and its id is a
/// thread's of process 10. Thread 12 is told of a process that had ended before it was started anew.
const BORN: &str = "
    100 0 0    switch 0:R 11
    105 1 0    switch 0:R 20
    110 0 11   newtask 30 thread
    111 0 11   fork 30
    112 0 11   new 30 to=2
    113 2 0    switch 0:R 30
    120 1 20   newtask 31
    121 1 20   fork 31
    122 1 20   new 31 to=3
    123 3 0    switch 0:R 31
    130 3 31   newtask 32 thread
    131 3 31   fork 32
    132 3 31   new 32 to=3
    140 3 31   switch 31:S 32
    145 3 32   exec 31 32
    150 3 31   switch 31:S 0
    160 0 11   fork 33
    161 0 11   new 33 to=0
    162 0 11   fork 40
    163 0 11   new 40 to=0
    164 0 11   fork 41
    165 0 11   new 41 to=0
    166 0 11   fork 12
    167 0 11   new 12 to=0
    170 0 11   switch 11:S 33
    175 0 33   switch 33:S 40
    180 0 40   switch 40:S 41
    185 0 41   switch 41:X 12
    187 0 12   switch 12:S 0
    190 1 20   switch 20:X 0
    195 2 30   newtask 20 thread
    196 2 30   fork 20
    197 2 30   new 20 to=2
    200 2 30   switch 30:S 20
    210 2 20   switch 20:S 0";

#[test]
fn threads_that_are_born_meanwhile_are_of_their_parents_process() {
    let tgids = |told: bool| {
        let mut script = Script::new("llc=0-3 smt=0;1;2;3 node=0-3", BORN);
        if told {
            let start = [(10, 12, Some(10)), (20, 20, None)];
            let end = [(40, 41, Some(10))];
            script.snapshot.processes = [Processes::new(start), Processes::new(end)];
        }
        let played = script.play();
        let tasks = played.rows.tasks.iter();
        let tgids: Vec<_> = tasks.map(|t| ((t.pid, t.generation), t.tgid)).collect();
        tgids.into_iter().collect::<BTreeMap<_, _>>()
    };
    let found = tgids(true);
    let ten = Some(10);
    let expected = [
        ((11, 0), ten),
        ((12, 0), None),
        ((20, 0), Some(20)),
        ((20, 1), ten),
        ((30, 0), ten),
        // The former leader, and the thread that became it.
        ((31, 0), Some(31)),
        ((31, 1), Some(31)),
        ((33, 0), None),
        ((40, 0), ten),
        ((41, 0), None),
    ];
    assert_eq!(found, BTreeMap::from(expected));
    // Without a record the few that events tell of are not told.
    let found = tgids(false);
    assert!(found.values().all(Option::is_none), "{found:?}");
}
