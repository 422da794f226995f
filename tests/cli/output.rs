//! Where output goes, and how it looks there.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::{bad, command, fixture, good, lab, text, ttwu};

#[test]
fn a_closed_pipe_is_success() {
    let commands: [&[&str]; 4] = [
        &["analyze"],
        &["analyze", "--json"],
        &["info"],
        &["topology"],
    ];
    for args in commands {
        let mut child = command()
            .args(args)
            .args(lab("fanout"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}

/// What the short report folds into a line has lines of its own in the section.
#[test]
fn sections_fold_nothing() {
    let short = good(["analyze".to_owned()].into_iter().chain(lab("pair-xllc")));
    let folded = short.split_once("  fewer: ").expect("rare paths").1;
    let folded: Vec<&str> = folded.lines().next().unwrap_or("").split(", ").collect();
    assert!(folded.len() > 1, "{short}");
    let more = ["--section", "wakeups,waits"].map(str::to_owned);
    let full = good(
        ["analyze".to_owned()]
            .into_iter()
            .chain(more)
            .chain(lab("pair-xllc")),
    );
    assert!(
        !full.contains("fewer:") && !full.contains("also:"),
        "{full}"
    );
    for path in folded {
        let line = full.lines().find(|line| {
            let mut words = line.split_whitespace();
            path.split(' ').all(|part| words.next() == Some(part))
        });
        assert!(line.is_some(), "{path} in {full}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let output = command()
        .arg("topology")
        .arg(fixture("topology/lscpu-p.txt"))
        .stdout(full)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write to standard output"));
}

#[test]
fn output_files_appear_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("report.txt");
    let run = |to: &Path| {
        let args = ["analyze".into(), "-o".into(), to.display().to_string()];
        ttwu(args.into_iter().chain(lab("stack")))
    };
    fs::write(&out, b"old").expect("a file");
    let output = run(&out);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let expected = good(["analyze".to_owned()].into_iter().chain(lab("stack")));
    assert_eq!(fs::read_to_string(&out).expect("the report"), expected);
    let entries = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(entries, 1, "no temporary file stays");
    assert_eq!(text(&run(Path::new("-")).stdout), expected);
    assert_eq!(run(Path::new("/dev/null")).status.code(), Some(0));

    let failure = |to: &Path, part: &str| {
        let output = run(to);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    };
    failure(folder.path(), "is a folder; name a file in it");
    let absent = folder.path().join("absent/report");
    failure(
        &absent,
        &format!("cannot write {}: No such file", absent.display()),
    );
    assert!(!text(&run(&absent).stderr).contains(".ttwu-"));
}

#[test]
fn the_trace_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.dat");
    fs::copy(fixture("trace-dat/v7.dat"), &trace).expect("a copy");
    let link = folder.path().join("link");
    fs::hard_link(&trace, &link).expect("a link");
    let before = fs::read(&trace).expect("the trace");
    for to in [&trace, &link] {
        for name in ["analyze", "info"] {
            let args = [
                OsStr::new(name),
                trace.as_os_str(),
                OsStr::new("-o"),
                to.as_os_str(),
            ];
            assert!(bad(1, args).contains("is the trace itself"));
        }
    }
    assert_eq!(fs::read(&trace).expect("the trace"), before);
}

#[test]
fn colour_is_for_terminals() {
    let run = |env: &[(&str, &str)], more: &[&str]| {
        let mut command = command();
        command.arg("analyze").args(lab("stack")).args(more);
        let output = command
            .envs(env.iter().copied())
            .output()
            .expect("the program runs");
        text(&output.stdout).contains('\x1b')
    };
    assert!(!run(&[], &[]), "a pipe is no terminal");
    assert!(run(&[("CLICOLOR_FORCE", "1")], &[]));
    assert!(!run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[]));
    assert!(run(&[], &["--color", "always"]));
    assert!(!run(&[("CLICOLOR_FORCE", "1")], &["--color", "never"]));
}
