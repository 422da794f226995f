//! What is refused, what is warned of, and the exit codes.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{bad, fixture, text, ttwu};

/// A failed analysis: the message has these parts.
fn refused(path: &Path, parts: &[&str]) {
    let message = bad(1, [OsStr::new("analyze"), path.as_os_str()]);
    assert!(message.starts_with("ttwu: error: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` in {message}");
    }
}

#[test]
fn what_cannot_be_analysed_is_refused_with_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("a file");
        path
    };
    refused(
        &folder.path().join("absent"),
        &["cannot read", "No such file"],
    );
    refused(
        folder.path(),
        &["is a folder", "name the trace file inside it"],
    );
    refused(&file("empty", b""), &["is empty"]);
    refused(
        &file("notes", b"hello\n"),
        &["text starting `hello`", "perf record", "trace-cmd record"],
    );
    refused(
        &file("archive", b"\x1f\x8b\x08"),
        &["gzip archive", "decompress it first"],
    );
    refused(
        &file(
            "cut.dat",
            &fs::read(fixture("trace-dat/v7.dat")).expect("a file")[..60],
        ),
        &["cut.dat", "byte"],
    );
    refused(
        &fixture("trace-dat/v7-counter.dat"),
        &["clock `counter`", "-C mono"],
    );
    refused(
        &fixture("perf-data/perf.per-command.data"),
        &["perf record -a"],
    );
    let mut bytes = fs::read(fixture("trace-dat/v7-none.dat")).expect("the fixture");
    replace_all(&mut bytes, b"sched\0", b"other\0");
    refused(
        &file("other.dat", &bytes),
        &[
            "no scheduler events",
            "found",
            "other:sched_switch",
            "trace-cmd record -e sched",
        ],
    );
    // What the sample type calls a time, or a CPU, is called an address and a stream id: fields as long.
    refused(
        &file("no-time", &with_sample_type(1 << 2, 1 << 3)),
        &["no timestamps", "record"],
    );
}

#[test]
fn events_without_a_cpu_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("no-cpu");
    fs::write(&path, with_sample_type(1 << 7, 1 << 9)).expect("a file");
    refused(&path, &["no CPU", "perf record -a"]);
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    fs::write(&path, b"x").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("permissions");
    if fs::File::open(&path).is_err() {
        refused(&path, &["cannot read", "Permission denied"]);
    }
}

fn replace_all(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
}

/// A recording of perf's whose events have one bit of their sample type exchanged for another.
fn with_sample_type(clear: u64, set: u64) -> Vec<u8> {
    let mut bytes = fs::read(fixture("perf-data/perf.plain.data")).expect("the fixture");
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    };
    let (entry, start, size) = (word(&bytes, 16), word(&bytes, 24), word(&bytes, 32));
    for attr in (start..start + size).step_by(entry as usize) {
        // perf_event_attr: type, size, config, sample_period, sample_type.
        let at = attr as usize + 24;
        let changed = word(&bytes, at) & !clear | set;
        bytes[at..at + 8].copy_from_slice(&changed.to_le_bytes());
    }
    bytes
}

#[test]
fn a_truncated_trace_is_analysed_as_far_as_it_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.data");
    let bytes = fs::read(fixture("perf-data/perf.pipe.data")).expect("the fixture");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("a file");
    let output = ttwu([OsStr::new("analyze"), path.as_os_str()]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.starts_with("ttwu: warning: "), "{stderr}");
    assert!(text(&output.stdout).contains("CPU time"));
}

/// Losses whose stamps are damaged do not move time beyond the last event.
#[test]
fn nothing_takes_longer_than_the_trace() {
    let path = fixture("trace-dat/damaged-stamps.dat");
    let answer = super::json(&[&path.display().to_string()]);
    let ns = |pointer: &str| answer.pointer(pointer).and_then(serde_json::Value::as_i64);
    let span = ns("/trace/end_ns").zip(ns("/trace/start_ns"));
    let span = span.map(|(end, start)| end - start);
    assert!(span > Some(0));
    for of in ["latency_ns", "queue_ns"] {
        let longest = ns(&format!("/wakeups/{of}/max"));
        assert!(longest > Some(0) && longest <= span, "{of}: {longest:?}");
    }
}

#[test]
fn losses_are_warned_of_and_not_an_error() {
    let path = fixture("perf-data/perf.lost.data");
    let output = ttwu([OsStr::new("analyze"), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(0));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("ttwu: warning: 137 events were lost on CPUs 0,2-3"),
        "{stderr}"
    );
    let quiet = ttwu([OsStr::new("analyze"), OsStr::new("-q"), path.as_os_str()]);
    assert_eq!(text(&quiet.stderr), "");
}

#[test]
fn the_command_line_is_checked() {
    let trace = fixture("trace-dat/v7.dat").display().to_string();
    let wrong: [(&[&str], &str); 28] = [
        (&["--work", "wakelab"], "marker:PREFIX"),
        (&["--work", "total:none"], "total:N"),
        (&["--work", "event:a:b:c"], "event:SYSTEM:NAME"),
        (&["--from", "noon"], "14.731161"),
        (&["--cpu", "x"], "--cpu"),
        (&["--settle", "5"], "5us"),
        (
            &["--settle", "-5us"],
            "invalid value '-5us' for '--settle <DURATION>'",
        ),
        (&["--top", "-1"], "invalid value '-1' for '--top <N>'"),
        (
            &["--topology", "llc=0-3;4-7 smt=0-4;5-7"],
            "the threads 0-4 of one core cannot be in several LLCs",
        ),
        (&["--affinity", "some"], "possible values"),
        (&["--top", "many"], "--top"),
        (&["--kernel-model", "new"], "6.12"),
        (&["--color", "red"], "possible values"),
        (&["--colour"], "--color"),
        // What no trace could make right, whoever finds it.
        (&["--work", "total:0"], "of no unit nothing can be said"),
        (&["--work", "task:"], "task:NAME"),
        (&["--task="], "nginx*"),
        (&["--task", " "], "nginx*"),
        (&["--explain", "nosuch"], "there is no such word"),
        (&["--explain", ""], "there is no such word"),
        (
            &["--explain", "nosuch:local"],
            "no kind of word called `nosuch`; kinds are verdict, path, ",
        ),
        (&["--explain", "path:wide"], "no word of kind path"),
        (&["--section", "nosuch"], "ledger, waits"),
        (&["--topology", "llc=0-x"], "`0-x`"),
        (&["--topology", "llc=0-99999999"], "99999999"),
        (&["--topology", "/"], "say `live`"),
        (&["--from", "5.0", "--to", "3.0"], "not before --to"),
        (&["--from", "-1ms", "--to", "-2s"], "not before --to"),
    ];
    for (args, part) in wrong {
        let message = bad(
            2,
            ["analyze", &trace].into_iter().chain(args.iter().copied()),
        );
        assert!(message.contains(part), "{part} in {message}");
    }
    bad(2, ["analyze"]);
    let missed: [(&[&str], &str); 5] = [
        (
            &["--from", "marker:nowhere"],
            "no marker begins with `nowhere`",
        ),
        (
            &["--from", "1000s"],
            "window is empty: it would begin 1000 s and end ",
        ),
        (&["--topology", "absent.txt"], "no such file, nor `live`"),
        (&["--cpu", "9999"], "none of these is in the trace"),
        (&["--instance", "nowhere"], "nowhere"),
    ];
    for (args, part) in missed {
        let message = bad(
            1,
            ["analyze", &trace].into_iter().chain(args.iter().copied()),
        );
        assert!(message.contains(part), "{part} in {message}");
    }
}

/// A topology that names no LLC of some CPUs is told of at once, and what needs them is not told as if it were known.
#[test]
fn cpus_without_an_llc_are_warned_of() {
    let trace = fixture("lab/fanout/trace.dat").display().to_string();
    let args = [
        "analyze",
        &trace,
        "--topology",
        "llc=0-3 smt=0-1;2-3;4-5;6-7",
    ];
    let output = super::ttwu(args);
    let (report, warned) = (super::text(&output.stdout), super::text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{warned}");
    let uncovered = "the trace has events of CPUs 4-7, which are in no LLC of";
    assert!(warned.contains(uncovered), "{warned}");
    assert!(
        report.contains("4 in 1 LLC, 4 in none that is known"),
        "{report}"
    );
    let (_, remarks) = report
        .split_once("What this trace cannot show\n- ")
        .expect("remarks");
    assert!(remarks.starts_with(uncovered), "{report}");
    assert!(!report.contains("crossed LLCs") && !report.contains("to another LLC"));
    let report = super::json(&args[1..]);
    for share in [
        &report["wakeups"]["cross_llc_share"],
        &report["migrations"]["cross_llc_share"],
        &report["cross_llc"],
    ] {
        let why = share["unknown"].as_str().unwrap_or_default();
        assert!(why.contains("CPUs 4-7"), "{share}");
    }
    for fit in ["missed_idle", "cross_llc"] {
        assert_ne!(report["fitness"][fit]["fit"], "yes");
        let why = report["fitness"][fit]["why"].as_str().unwrap_or_default();
        assert!(why.contains("CPUs 4-7"), "{why}");
    }
}

#[test]
fn rules_that_are_not_known_are_warned_of() {
    let trace = fixture("trace-dat/v7.dat").display().to_string();
    let warned = |version: &str| {
        let output = super::ttwu(["analyze", &trace, "--kernel-model", version]);
        super::text(&output.stderr).contains("is newer than the newest rules that are known")
    };
    assert!(warned("99.99") && warned("6.13"));
    assert!(!warned("6.12") && !warned("4.3"));
}

/// Units that the trace cannot show are refused, with what it has instead.
#[test]
fn units_that_are_not_there_are_refused() {
    let trace = fixture("lab/pair-xllc/trace.dat").display().to_string();
    let missed: [(&str, &[&str]); 9] = [
        (
            "event:sched_swich",
            &["no such event", "recorded are sched:sched_switch, "],
        ),
        ("event:irq:sched_switch", &["no such event"]),
        (
            "event:sched_switch:pid=5",
            &["no such field", "prev_pid", "next_comm"],
        ),
        (
            "event:sched_switch:prev_state=S",
            &["a number of 8 bytes", "0x1f"],
        ),
        (
            "event:sched_switch:next_pid=4294967296",
            &["a number of 4 bytes"],
        ),
        (
            "event:ipi_send_cpumask:cpumask=1",
            &["only numbers and text"],
        ),
        (
            "marker:nowhere",
            &["no marker begins so", "34 markers", "`wakelab start`"],
        ),
        ("task:nobody", &["--work task:nobody: none of"]),
        ("task:999999", &["none of the trace's"]),
    ];
    for (work, parts) in missed {
        let message = bad(1, ["analyze", "--work", work, &trace]);
        for part in parts {
            assert!(message.contains(part), "{work}: `{part}` in {message}");
        }
    }
    // Described, and switched on, but it did not happen.
    let stack = fixture("lab/stack/trace.dat").display().to_string();
    let message = bad(1, ["analyze", "--work", "event:ipi_send_cpumask", &stack]);
    for part in ["none was recorded", "recorded are ipi:ipi_send_cpu, "] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let perf = fixture("perf-data/perf.plain.data").display().to_string();
    let message = bad(1, ["analyze", "--work", "marker:wakelab", &perf]);
    for part in ["a perf.data holds no markers", "ttwu record", "event:NAME"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    // Units that lie outside the window are not none: their number is not known.
    let outside = ["--work", "marker:wakelab", "--to", "marker:wakelab"];
    let args: Vec<&str> = [trace.as_str()].into_iter().chain(outside).collect();
    let report = super::json(&args);
    let why = report["throughput"]["unknown"].as_str();
    assert!(why.is_some_and(|why| why.contains("no two readings")));
    assert_eq!(report["fitness"]["throughput"]["fit"], "no");
}

/// `/sys` by whatever name is the machine that this runs on; a copy of it is another's.
#[cfg(unix)]
#[test]
fn the_running_machine_is_no_copy_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("machine");
    std::os::unix::fs::symlink("/sys/devices/system/cpu", &link).expect("a link");
    if !link.join("online").exists() {
        eprintln!("skipped: no sysfs here");
        return;
    }
    let trace = fixture("trace-dat/v7.dat").display().to_string();
    let link = link.display().to_string();
    for name in ["/", "/sys", "/sys/devices/system/cpu", &link] {
        for command in [&["analyze", &trace][..], &["info", &trace], &["topology"]] {
            let args = command.iter().copied().chain(["--topology", name]);
            assert!(bad(2, args).contains("say `live`"), "{name}");
        }
        assert!(bad(2, ["topology", name]).contains("is the machine this runs on"));
    }
    let copy = fixture("topology/sysfs").display().to_string();
    super::good(["analyze", "-q", "--topology", &copy, &trace]);
}

/// What a user types, and names of files, are shown without anything that changes the text around them.
#[test]
fn nothing_that_was_typed_is_echoed_raw() {
    const HOSTILE: &str = "a\u{1b}[31m\rb\nc\u{202e}d\u{9b}e";
    let folder = tempfile::tempdir().expect("a folder");
    let trace = fixture("lab/pair-xllc/trace.dat").display().to_string();
    let named = folder.path().join(HOSTILE);
    fs::copy(&trace, &named).expect("a copy");
    let absent = folder.path().join(format!("{HOSTILE}/absent"));
    let topology = folder.path().join(format!("{HOSTILE}.txt"));
    let [_, _, listing] = super::lab("pair-xllc");
    fs::copy(listing, &topology).expect("a copy");
    let [named, absent, topology] = [named, absent, topology].map(|p| p.display().to_string());
    let with = |option: &str| format!("{option}{HOSTILE}");
    let args: Vec<Vec<String>> = [
        &["analyze", &absent][..],
        &["analyze", &named, "--topology", &topology, "--all"],
        &["analyze", &named, "--topology", &absent],
        &[
            "analyze",
            &named,
            "--explain",
            "lost",
            "--topology",
            &topology,
        ],
        &["analyze", &trace, "--explain", HOSTILE],
        &["analyze", &trace, "--explain", &with("path:")],
        &["analyze", &trace, "--explain", &with("x:")],
        &["analyze", &trace, "--section", HOSTILE],
        &["analyze", &trace, "--task", HOSTILE],
        &["analyze", &trace, "--cpu", HOSTILE],
        &["analyze", &trace, "--settle", HOSTILE],
        &["analyze", &trace, "--top", HOSTILE],
        &["analyze", &trace, "--kernel-model", HOSTILE],
        &["analyze", &trace, "--instance", HOSTILE],
        &["analyze", &trace, "--from", &with("marker:")],
        &["analyze", &trace, "--topology", &with("llc=0-")],
        &["analyze", &trace, "--work", &with("marker:")],
        &["analyze", &trace, "--work", &with("marker:wakelab")],
        &["analyze", &trace, "--work", &with("task:")],
        &["analyze", &trace, "--work", &with("task:*")],
        &["analyze", &trace, "--work", &with("event:")],
        &[
            "analyze",
            &trace,
            "--work",
            &with("event:sched_switch:next_comm="),
        ],
        &[
            "analyze",
            &trace,
            "--work",
            &with("event:sched_switch:prev_pid="),
        ],
        &["analyze", &trace, "--work", &with("nosuch:")],
        &["analyze", &trace, "-o", &absent],
        &["analyze", &trace, &with("--")],
        &["analyze", &trace, &named],
        &["info", &named],
        &["info", &absent],
        &["topology", &topology],
        &["topology", &absent],
        &["record", "--events", HOSTILE, "true"],
        &["record", &with("--")],
        &[HOSTILE],
    ]
    .map(|args| args.iter().map(|arg| (*arg).to_owned()).collect())
    .to_vec();
    for args in args {
        for more in [&[][..], &["--json"]] {
            let command = args[0].as_str();
            if !more.is_empty() && !["analyze", "info"].contains(&command) {
                continue;
            }
            let output = ttwu(args.iter().map(String::as_str).chain(more.iter().copied()));
            for text in [text(&output.stdout), text(&output.stderr)] {
                let raw = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                assert!(!text.contains(raw), "{args:?} {more:?}: {text:?}");
                assert!(!text.contains("b\nc"), "{args:?} {more:?}: {text}");
            }
        }
    }
    // The unit of which a report is.
    let comm = "\u{1b}[31mx\r\ny\u{202e}zab";
    let bytes = comm.as_bytes().try_into().expect("15 bytes");
    let trace = super::renamed(bytes, folder.path()).display().to_string();
    let work = format!("event:sched_switch:next_comm={comm}");
    let shown = super::good(["analyze", "-q", "--all", "--work", &work, &trace]);
    super::assert_narrow(&shown);
    assert!(
        shown.contains("(event sched_switch") && shown.contains("next_comm=\\u{1b}[31m"),
        "{shown}"
    );
    let report = super::json(&["--work", &work, &trace]);
    let unit = report["throughput"]["unit"].as_str();
    assert!(unit.is_some_and(|unit| unit.ends_with(comm)), "{report}");
}

/// Markers and events that are not there: what was typed is told as it was typed, and no more is promised than there is.
#[test]
fn messages_tell_what_is_there() {
    let stack = fixture("lab/pair-xllc/trace.dat").display().to_string();
    let message = bad(1, ["analyze", "--work", "event:irq:nosuch:a=b", &stack]);
    assert!(
        message.contains("--work event:irq:nosuch:a=b:"),
        "{message}"
    );
    let message = bad(1, ["analyze", "--work", "marker:nowhere", &stack]);
    assert!(
        message.contains("34 markers are `") && message.contains(" others"),
        "{message}"
    );
    assert!(!message.contains('…'), "{message}");
}
