//! The program as its users meet it: arguments in, output and exit code out.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use ttwu::report::glossary;

#[path = "cli/damage.rs"]
mod damage;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/export.rs"]
mod export;
#[path = "cli/names.rs"]
mod names;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/query.rs"]
mod query;
#[path = "cli/readme.rs"]
mod readme;
#[path = "cli/record.rs"]
mod record;
#[path = "cli/schema.rs"]
mod schema;
#[path = "cli/tables.rs"]
mod tables;
#[path = "cli/wording.rs"]
mod wording;
#[path = "cli/words.rs"]
mod words;

const LAB: [&str; 5] = ["fanout", "messaging", "pair-xllc", "stack", "udp-queue"];

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(path)
}

fn lab(name: &str) -> [String; 3] {
    let file = |file: &str| fixture(&format!("lab/{name}/{file}")).display().to_string();
    [
        file("trace.dat"),
        "--topology".to_owned(),
        file("topology.txt"),
    ]
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttwu"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn ttwu(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    command().args(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Standard output of a run that must succeed.
fn good(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let output = ttwu(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    text(&output.stdout)
}

/// The message of a run that must fail with this code.
fn bad(code: i32, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let output = ttwu(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    stderr
}

fn json(args: &[&str]) -> Value {
    let args: Vec<&str> = ["analyze", "--json", "-q"]
        .into_iter()
        .chain(args.iter().copied())
        .collect();
    serde_json::from_str(&good(args)).expect("valid JSON")
}

fn lab_json(name: &str, more: &[&str]) -> Value {
    let trace = lab(name);
    let args: Vec<&str> = trace
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    json(&args)
}

/// Columns that a terminal gives a text.
fn columns(line: &str) -> usize {
    let combines = |c: &char| ('\u{300}'..='\u{36f}').contains(c) || *c == '\u{fe0f}';
    let wide = |c: &char| {
        ('\u{1100}'..='\u{115f}').contains(c)
            || ('\u{2e80}'..='\u{ffe6}').contains(c)
            || ('\u{1f300}'..='\u{1faff}').contains(c)
    };
    let of = |c: char| match c {
        c if combines(&c) => 0,
        c if wide(&c) => 2,
        _ => 1,
    };
    line.chars().map(of).sum()
}

fn assert_narrow(output: &str) {
    for line in output.lines() {
        assert!(
            columns(line) <= 80,
            "{} columns: {line}\n{output}",
            columns(line)
        );
    }
    assert!(
        output.chars().all(|c| c == '\n' || !c.is_control()),
        "{output:?}"
    );
}

#[test]
fn reports_fit_a_screen() {
    for name in LAB {
        let [trace, option, topology] = lab(name);
        for args in [vec![&trace, &option, &topology], vec![&trace]] {
            let output = good(
                ["analyze"]
                    .into_iter()
                    .chain(args.iter().map(|a| a.as_str())),
            );
            assert_narrow(&output);
            assert!(
                output.lines().count() <= 60,
                "{} lines\n{output}",
                output.lines().count()
            );
        }
    }
}

/// What each section begins with, in the order in which they are printed.
const SECTIONS: [(&str, &str); 12] = [
    ("throughput", "wakeups per second"),
    ("ledger", "CPU time"),
    ("waits", "Waits  "),
    ("wakeups", "Wakeups by path"),
    ("tasks", "Worst tasks"),
    ("pairs", "Worst pairs"),
    ("moments", "Times to look at"),
    ("cross-llc", "Across LLCs"),
    ("migrations", "Migrations"),
    ("flips", "wake_wide"),
    ("ipis", "Interrupts"),
    ("limits", "What this trace cannot show"),
];

#[test]
fn sections_can_be_had_one_by_one_and_all_at_once() {
    let report = |args: &[&str]| {
        let trace = lab("pair-xllc");
        let args = ["analyze"].into_iter().chain(args.iter().copied());
        let output = good(args.chain(trace.iter().map(String::as_str)));
        assert_narrow(&output);
        output
    };
    let all = report(&["--all"]);
    let mut behind = 0;
    for (name, part) in SECTIONS {
        let alone = report(&["--section", name]);
        assert!(alone.contains(part), "{name}\n{alone}");
        let at = all.find(part);
        assert!(at.is_some_and(|at| at >= behind), "{name}\n{all}");
        behind = at.unwrap_or(0).max(behind * usize::from(part.is_empty()));
        let others = SECTIONS
            .iter()
            .filter(|(other, part)| *other != name && !part.is_empty());
        for (other, part) in others {
            assert!(!alone.contains(part), "{other} in {name}\n{alone}");
        }
    }
    let two = report(&["--section", "ledger,waits"]);
    assert!(two.contains("CPU time") && two.contains("Waits  ") && !two.contains("Worst"));
    let trace = lab("pair-xllc");
    let trace = || trace.iter().map(String::as_str);
    assert!(
        bad(
            2,
            ["analyze", "--section", "nothing"]
                .into_iter()
                .chain(trace())
        )
        .contains("ledger, waits")
    );
    bad(2, ["analyze", "--all", "--json"].into_iter().chain(trace()));
}

#[test]
fn the_report_says_what_the_json_says() {
    let report = lab_json("pair-xllc", &[]);
    let output = good(["analyze".to_owned()].into_iter().chain(lab("pair-xllc")));
    let wakeups = report["wakeups"]["total"].as_u64().expect("a count");
    assert!(
        output.contains(&ttwu::report::units::count(wakeups)),
        "{output}"
    );
    let transit = report["ledger"]["transit_ns"].as_i64().expect("a time");
    assert!(
        output.contains(&ttwu::report::units::duration(transit)),
        "{output}"
    );
    for part in [
        "CPU time",
        "Waits  ",
        "Wakeups by path",
        "waker to chosen",
        "Worst tasks",
        "Worst pairs",
    ] {
        assert!(output.contains(part), "{part}\n{output}");
    }
    let path = fixture("lab/pair-xllc/trace.dat");
    let unknown = good([OsStr::new("analyze"), path.as_os_str()]);
    assert!(unknown.contains("LLCs unknown"), "{unknown}");
}

/// A fixture with every `sched-messaging` renamed.
fn renamed(to: &[u8; 15], folder: &Path) -> PathBuf {
    let mut bytes = fs::read(fixture("trace-dat/v7-none.dat")).expect("the fixture");
    let mut at = 0;
    while let Some(found) = bytes[at..]
        .windows(15)
        .position(|w| w == b"sched-messaging")
    {
        bytes[at + found..at + found + 15].copy_from_slice(to);
        at += found + 15;
    }
    assert!(at > 0);
    let path = folder.join("renamed.dat");
    fs::write(&path, bytes).expect("a file");
    path
}

#[test]
fn hostile_names_stay_inside_their_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: [&[u8; 15]; 5] = [
        "🦀🦀🦀abc".as_bytes().try_into().expect("15 bytes"),
        "e\u{301}🔥e\u{301}進ab"
            .as_bytes()
            .try_into()
            .expect("15 bytes"),
        b"\x1b[31mx\x07\x08\r\x9b\xff\t\x7f\x01y",
        "進捗進捗進".as_bytes().try_into().expect("15 bytes"),
        b"\xe2\x80\xaetxt.exe\xe2\x80\x8bab",
    ];
    for name in names {
        let path = renamed(name, folder.path());
        for args in [
            &["analyze", "-q"][..],
            &["info"],
            &["analyze", "-q", "--all", "--topology", "llc=0-1;2-3"],
            &["analyze", "-q", "--explain", "wakeup"],
            &["analyze", "-q", "--explain", "running"],
            &["analyze", "-q", "--explain", "bounces"],
            &["analyze", "-q", "--explain", "N:1"],
        ] {
            let output = good(args.iter().map(OsStr::new).chain([path.as_os_str()]));
            assert_narrow(&output);
        }
        let report = json(&[&path.display().to_string(), "--topology", "llc=0-1;2-3"]);
        schema::validate(&report, "hostile names");
        assert!(!report.to_string().contains('\u{202e}'));
    }
}

#[test]
fn windows_add_up() {
    let whole = lab_json("pair-xllc", &[]);
    let start = whole["trace"]["start_ns"].as_i64().expect("a stamp");
    let middle = start + 700_000_000;
    let at = format!("{}.{:09}", middle / 1_000_000_000, middle % 1_000_000_000);
    let before = lab_json("pair-xllc", &["--to", &at]);
    let after = lab_json("pair-xllc", &["--from", "700ms"]);
    assert_eq!(before["trace"]["end_ns"], middle);
    assert_eq!(after["trace"]["start_ns"], middle);
    for row in ["total_ns", "running_ns", "transit_ns"] {
        let ns = |report: &Value| report["ledger"][row].as_i64().expect("a time");
        assert_eq!(ns(&before) + ns(&after), ns(&whole), "{row}");
    }
    let marked = lab_json(
        "pair-xllc",
        &["--from", "marker:window-start", "--to", "marker:window-end"],
    );
    assert!(marked["trace"]["start_ns"].as_i64() > Some(start));
    let last = lab_json("pair-xllc", &["--from", "-200ms"]);
    let length = last["trace"]["end_ns"]
        .as_i64()
        .zip(last["trace"]["start_ns"].as_i64());
    assert_eq!(length.map(|(end, start)| end - start), Some(200_000_000));
}

#[test]
fn info_tells_what_is_there() {
    let output = good(["info".to_owned()].into_iter().chain(lab("pair-xllc")));
    assert_narrow(&output);
    let parts = [
        "trace.dat v7 zstd",
        "6.12.113",
        "local, nanoseconds",
        "14.521274882 to 16.261198526",
        "0-7",
        "2 LLCs: 0-3;4-7",
        "sched:sched_switch",
        "12,009",
        "nothing",
        "window-start",
        "Fit for",
    ];
    for part in parts {
        assert!(output.contains(part), "{part}\n{output}");
    }
    let lossy = fixture("perf-data/perf.lost.data");
    let output = good([OsStr::new("info"), lossy.as_os_str()]);
    assert!(
        output.contains("137 events (3.0 % of all); CPU 0: 24; CPU 2: 36; CPU 3: 77"),
        "{output}"
    );
    let instance = fixture("trace-dat/v7-instance.dat");
    let output = good([OsStr::new("info"), instance.as_os_str()]);
    assert!(output.contains("buffer    named:"), "{output}");
}

#[test]
fn info_works_where_analyze_refuses() {
    for (name, part) in [
        ("trace-dat/v7-counter.dat", "counter"),
        ("perf-data/perf.per-command.data", "single tasks"),
    ] {
        let path = fixture(name);
        let output = good([OsStr::new("info"), path.as_os_str()]);
        assert_narrow(&output);
        assert!(
            output.contains("ttwu analyze refuses this trace") && output.contains(part),
            "{output}"
        );
        let report = good([OsStr::new("info"), OsStr::new("--json"), path.as_os_str()]);
        let report: Value = serde_json::from_str(&report).expect("valid JSON");
        assert!(
            report["refused"]
                .as_str()
                .is_some_and(|why| why.contains(part)),
            "{report}"
        );
        assert_eq!(report["fitness"]["latency"]["fit"], "no");
    }
}

/// What `--markers` prints, run by a shell, writes markers that say the same.
#[test]
fn topology_markers_can_be_run_by_a_shell() {
    let spec = "llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7";
    let commands = good(["topology", "--topology", spec, "--markers"]);
    let to_stdout = commands.replace(" > /sys/kernel/tracing/trace_marker", "");
    assert_ne!(to_stdout, commands);
    let output = Command::new("sh").args(["-c", &to_stdout]).output();
    let markers = text(&output.expect("a shell").stdout);
    assert_eq!(markers.lines().next(), Some("ttwu topology llc=0-3;4-7"));
    let written = tempfile::NamedTempFile::new().expect("a file");
    fs::write(written.path(), &markers).expect("written");
    let again = good([OsStr::new("topology"), written.path().as_os_str()]);
    let expected = good(["topology", "--topology", spec]);
    assert_eq!(again.lines().last(), expected.lines().last());
}

#[test]
fn topology_is_printed_as_a_tree_and_a_specification() {
    let listing = fixture("topology/numa-guest.topology.txt");
    let tree = good([OsStr::new("topology"), listing.as_os_str()]);
    assert!(
        tree.contains("16 CPUs, 4 packages, 2 nodes, 4 LLCs, 8 cores"),
        "{tree}"
    );
    let spec = tree.lines().last().expect("a specification");
    assert!(spec.starts_with("llc=0-3;4-7;8-11;12-15 smt="), "{spec}");
    let again = good(["topology", "--topology", spec]);
    assert_eq!(again.lines().last(), Some(spec));
    let trace = fixture("perf-data/perf.plain.data");
    let carried = good([OsStr::new("topology"), trace.as_os_str()]);
    assert!(
        carried.contains("the perf.data header") && carried.contains("LLC 1: CPUs 2-3"),
        "{carried}"
    );
    let sysfs = fixture("topology/sysfs");
    assert!(good([OsStr::new("topology"), sysfs.as_os_str()]).contains("LLC 0: CPUs 0-1"));
    let twice = [
        OsStr::new("topology"),
        listing.as_os_str(),
        OsStr::new("--topology"),
        OsStr::new("llc=0-1"),
    ];
    assert!(bad(1, twice).contains("is a topology already"));
    assert!(bad(1, ["topology", "absent"]).contains("No such file"));
}

#[test]
fn help_names_every_option_and_word() {
    let help = good(["analyze", "--help"]);
    let options = [
        "--topology",
        "--from",
        "--to",
        "--cpu",
        "--task",
        "--settle",
        "--affinity",
        "--top",
        "--kernel-model",
        "--instance",
        "--json",
        "--output",
        "--color",
        "--quiet",
        "--help",
        "--version",
        "Examples:",
        "Exit codes:",
        "marker:TEXT",
        "FILE|SPEC|live",
    ];
    for option in options {
        assert!(help.contains(option), "{option}");
    }
    let terms = glossary::VERDICTS
        .iter()
        .chain(&glossary::PATHS)
        .chain(&glossary::LEDGER);
    for term in terms {
        assert!(
            help.contains(&format!("\n  {} ", term.word)),
            "{}",
            term.word
        );
    }
    for command in ["info", "topology"] {
        assert!(good([command, "--help"]).contains("Examples:"));
        assert!(good([command, "-h"]).lines().count() < 40);
    }
    assert!(good(["--help"]).contains("Exit codes:"));
    assert!(good(["--version"]).starts_with("ttwu 0."));
}
