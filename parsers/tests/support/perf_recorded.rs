//! Files that perf wrote, against `perf script` of the same files.

use std::path::{Path, PathBuf};
use std::process::Command;

use ttwu_parsers::trace::{OpenOptions, Trace};

use crate::support::perf_oracle::{
    assert_same, files, has_perf, our_lines, perf_count, perf_lines, shared,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/perf-data")
        .join(name)
}

fn open(path: &Path) -> Trace {
    Trace::open(path, &OpenOptions::default()).expect("the file opens")
}

/// Samples as `perf report --stats` of perf 6.1 counts them: all, sched_switch, sched_waking, sched_wakeup.
const COUNTS: [(&str, [usize; 4]); 9] = [
    ("perf.plain.data", [2491, 1319, 459, 459]),
    ("perf.callchain.data", [2435, 1164, 501, 501]),
    ("perf.lost.data", [4451, 2187, 968, 988]),
    ("perf.mono.data", [2453, 1230, 487, 487]),
    ("perf.per-command.data", [1736, 759, 414, 349]),
    ("perf.pipe.data", [2496, 1223, 500, 502]),
    ("perf.pipe-z.data", [2188, 1112, 412, 413]),
    ("perf.sched-record.data", [2596, 729, 290, 0]),
    ("perf.z.data", [1750, 870, 330, 330]),
];

#[test]
fn fixtures_hold_what_perf_counts() {
    for (name, counts) in COUNTS {
        let lines = our_lines(&fixture(name));
        let of = |event: &str| lines.iter().filter(|line| line.event == event).count();
        let found = [
            lines.len(),
            of("sched:sched_switch"),
            of("sched:sched_waking"),
            of("sched:sched_wakeup"),
        ];
        assert_eq!(found, counts, "{name}");
    }
}

#[test]
fn fixtures_tell_their_machine() {
    for (name, _) in COUNTS {
        let trace = open(&fixture(name));
        let meta = trace.meta();
        assert_eq!(
            meta.kernel_release.as_deref(),
            Some("6.12.113+deb12-cloud-amd64")
        );
        assert_eq!(meta.arch.as_deref(), Some("x86_64"));
        assert_eq!(meta.hostname.as_deref(), Some("(none)"));
        assert_eq!(meta.cpus, [0, 1, 2, 3], "{name}");
        assert_eq!(meta.complete_from_start, [0, 1, 2, 3], "{name}");
        assert!(meta.has_cpu && meta.has_time);
        assert_eq!(meta.system_wide, name != "perf.per-command.data", "{name}");
        let clock = if name == "perf.mono.data" {
            "monotonic"
        } else {
            "perf"
        };
        assert_eq!(meta.clock.name, clock, "{name}");
        assert!(meta.cmdline[0].ends_with("perf"), "{name}");
        assert!(!meta.task_names.is_empty(), "{name}");
        let zstd = ["perf.z.data", "perf.pipe-z.data"].contains(&name);
        let pipe = name.starts_with("perf.pipe");
        assert_eq!(meta.format.contains("zstd"), zstd, "{name}");
        assert_eq!(meta.format.contains("pipe"), pipe, "{name}");
        let mut events = trace.merged();
        assert_eq!(events.take_faults().total(), 0, "{name}");
    }
}

#[test]
fn topology_features_are_those_of_the_guest() {
    // Four CPUs, two last-level caches (0-1 and 2-3), no SMT.
    let trace = open(&fixture("perf.plain.data"));
    let topology = trace.meta().topology.clone().expect("topology features");
    let llcs: Vec<_> = topology
        .caches
        .iter()
        .filter(|cache| cache.level == 3)
        .map(|cache| cache.map.as_str())
        .collect();
    assert_eq!(llcs, ["0-1", "2-3"]);
    assert_eq!(topology.cpu_ids.len(), 4);
    assert_eq!(topology.nodes.len(), 1);
    assert_eq!(topology.nodes[0].cpus, "0-3");
}

#[test]
fn every_event_equals_perf_script() {
    if !has_perf() {
        return;
    }
    for (name, counts) in COUNTS {
        assert_eq!(assert_same(&fixture(name)), counts[0], "{name}");
    }
}

#[test]
fn lab_recordings_equal_perf_script() {
    let (Some(shared), true) = (shared(), has_perf()) else {
        return;
    };
    let lab = shared.join("traces/lab");
    let mut paths = files(&lab.join("variants"), "/perf.");
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "data"));
    for folder in std::fs::read_dir(lab).into_iter().flatten().flatten() {
        paths.extend(files(&folder.path(), "/perf.data"));
    }
    assert!(!paths.is_empty());
    let mut total = 0;
    for path in paths {
        total += assert_same(&path);
    }
    eprintln!("{total} samples equal perf's");
}

/// Files of other projects whose samples perf 6.1 cannot print, and why; the number is what newer readers find.
const PERF_REFUSES: [(&str, usize, &str); 7] = [
    ("intel_pt-4.14", 11, "needs AUX decoding"),
    (
        "microsoft-LinuxTracepoints--perf.data",
        539,
        "attr of 136 bytes",
    ),
    ("fibo.compressed2.pipe", 547, "COMPRESSED2"),
    ("--sleep.compressed.data", 8, "attr of 136 bytes"),
    ("sleep.compressed2.data", 7, "COMPRESSED2"),
    ("sleep.compressed2.pipe", 7, "COMPRESSED2"),
    ("--sleep.data", 7, "attr of 136 bytes"),
];

#[test]
fn public_files_hold_as_many_samples_as_perf_prints() {
    let (Some(shared), true) = (shared(), has_perf()) else {
        return;
    };
    let public = shared.join("traces/public");
    let mut paths = files(&public, "perf.data.");
    paths.extend(files(&public, "LinuxTracepoints"));
    paths.extend(files(&public, "linux-perf-data"));
    for path in paths {
        let name = path.to_string_lossy().into_owned();
        let ours = our_lines(&path).len();
        match perf_count(&path) {
            Some(count) => assert_eq!(ours, count, "{name}"),
            None => {
                let known = PERF_REFUSES.iter().find(|(part, ..)| name.contains(part));
                let (_, count, _) = known.unwrap_or_else(|| panic!("{name} is not known"));
                assert_eq!(ours, *count, "{name}");
            }
        }
    }
}

/// Records here and now, where that is allowed.
#[test]
fn fresh_recordings_equal_perf_script() {
    if !has_perf() {
        return;
    }
    let sched = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup,sched:sched_wakeup_new,sched:sched_migrate_task,sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit";
    let folder = tempfile::tempdir().expect("a folder");
    for (options, wide) in [
        (&["-a"][..], true),
        (&["-a", "-z"], true),
        (&["-a", "-k", "CLOCK_MONOTONIC"], true),
        (&["-a", "-g"], true),
        (&["-a", "-e", "cpu-clock"], true),
        (&["-C", "0"], true),
        (&[], false),
    ] {
        let path = folder.path().join("perf.data");
        let status = Command::new("perf")
            .args(["record", "-q", "-m", "16M", "-e", sched])
            .args(options)
            .arg("-o")
            .arg(&path)
            .args([
                "--",
                "perf",
                "bench",
                "sched",
                "messaging",
                "-g",
                "1",
                "-l",
                "20",
            ])
            .output()
            .expect("perf runs");
        if !status.status.success() {
            eprintln!("skipped: perf may not record here");
            return;
        }
        assert!(!perf_lines(&path).expect("perf reads it").is_empty());
        let count = assert_same(&path);
        let trace = open(&path);
        assert_eq!(trace.meta().system_wide, wide, "{options:?}");
        eprintln!("{options:?}: {count} samples equal perf's");
    }
}
