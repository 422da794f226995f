//! Recordings for real, where this machine and user can make them: as root, with tracefs mounted. Elsewhere these tests say
//! so and pass. They may run side by side: every recording has an ftrace instance of its own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use super::{command, good, text};

const BACKENDS: [&str; 2] = ["ftrace", "perf"];

/// A folder to record into; `None` where nothing can be recorded.
fn can_record() -> Option<TempDir> {
    let allowed =
        Path::new("/sys/kernel/tracing/events/sched").is_dir() && nix::unistd::geteuid().is_root();
    if !allowed {
        eprintln!(
            "nothing can be recorded here (root and a mounted tracefs are needed): not tested"
        );
        return None;
    }
    Some(tempfile::tempdir().expect("a folder"))
}

fn record<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    let output = command().arg("record").args(args).output();
    output.expect("the program runs")
}

/// Records into `file`, which must succeed; returns what was said.
fn recorded(backend: &str, file: &Path, more: &[&str]) -> String {
    let output = record(
        ["--backend", backend, "-o"]
            .map(OsStr::new)
            .into_iter()
            .chain([file.as_os_str()])
            .chain(more.iter().map(OsStr::new)),
    );
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{backend}: {said}");
    said
}

/// The number of events that a recording says it has.
fn events(said: &str) -> u64 {
    let number = said
        .split(" events in")
        .next()
        .and_then(|text| text.rsplit(' ').next());
    let number = number.map(|text| text.replace(',', "").parse());
    number
        .and_then(Result::ok)
        .unwrap_or_else(|| panic!("no number of events: {said}"))
}

fn json(args: &[&OsStr]) -> Value {
    serde_json::from_str(&good(args)).expect("JSON")
}

fn analysis(file: &Path) -> Value {
    json(
        &["analyze", "--json", "-q"]
            .map(OsStr::new)
            .into_iter()
            .chain([file.as_os_str()])
            .collect::<Vec<_>>(),
    )
}

fn info(file: &Path) -> Value {
    json(
        &["info", "--json", "-q"]
            .map(OsStr::new)
            .into_iter()
            .chain([file.as_os_str()])
            .collect::<Vec<_>>(),
    )
}

/// Whether the run of a child has left anything in tracefs.
fn left_behind(pid: u32) -> bool {
    let mine = format!("ttwu_{pid}_");
    let instances = fs::read_dir("/sys/kernel/tracing/instances")
        .into_iter()
        .flatten()
        .flatten();
    let mut names = instances.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| name.starts_with(&mine))
}

#[test]
fn both_backends_record_what_analyze_and_the_usual_tools_read() {
    let Some(folder) = can_record() else { return };
    for (backend, tool) in [("ftrace", "trace-cmd"), ("perf", "perf")] {
        let file = folder.path().join(backend);
        let said = recorded(
            backend,
            &file,
            &["--", "sh", "-c", "for i in 1 2 3; do sleep 0.01; done"],
        );
        assert!(said.contains(", 0 lost,"), "{said}");
        let report = analysis(&file);
        let by_name = &report["trace"]["events_by_name"];
        let counted = |name: &str| by_name[format!("sched:{name}")].as_u64().unwrap_or(0);
        assert!(
            counted("sched_waking") >= 3 && counted("sched_switch") >= 6,
            "{by_name}"
        );
        assert_eq!(
            counted("sched_waking"),
            report["wakeups"]["total"].as_u64().unwrap_or(0) - counted("sched_wakeup_new")
        );
        let by_tool = match tool {
            "perf" => Command::new(tool)
                .args(["script", "-i"])
                .arg(&file)
                .output(),
            _ => Command::new(tool)
                .args(["report", "-i"])
                .arg(&file)
                .output(),
        };
        let Ok(by_tool) = by_tool else {
            eprintln!("{tool} is not here: not compared");
            continue;
        };
        assert!(by_tool.status.success(), "{}", text(&by_tool.stderr));
        let header = if tool == "perf" { 0 } else { 1 };
        let lines = by_tool.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert_eq!(lines - header, events(&said), "{backend}");
    }
}

#[test]
fn the_machine_and_the_command_travel_with_the_trace() {
    let Some(folder) = can_record() else { return };
    for backend in BACKENDS {
        let file = folder.path().join(backend);
        recorded(backend, &file, &["--", "sh", "-c", "sleep 0.05"]);
        let report = analysis(&file);
        // As `ttwu topology` sees this very machine.
        let here = good(["topology"]);
        let there = good([OsStr::new("topology"), file.as_os_str()]);
        assert_eq!(here.lines().last(), there.lines().last(), "{backend}");
        assert_eq!(
            report["trace"]["topology"]["source"], "the machine record in the trace",
            "{backend}"
        );
        let machine = &info(&file)["machine"];
        assert_eq!(
            machine["command"],
            serde_json::json!(["sh", "-c", "sleep 0.05"]),
            "{backend}: {machine}"
        );
        let wall = machine["result"]["wall_ns"].as_u64().unwrap_or(0);
        assert!(
            (50_000_000..5_000_000_000).contains(&wall),
            "{backend}: {machine}"
        );
        assert!(
            report["trace"]["recorder"]["tasks"].as_u64() >= Some(1),
            "{backend}: {}",
            report["trace"]["recorder"]
        );
        // Affinity is known of every task that lived at the start, so that both readings agree on nearly all.
        let seen_and_any = &report["ledger"]["waiting_llc_ns"];
        assert!(seen_and_any.is_object(), "{backend}");
    }
}

/// A workload marks its units at the top level, as programs do that know nothing of instances.
#[test]
fn the_markers_of_a_workload_are_recorded() {
    let Some(folder) = can_record() else { return };
    if !Path::new("/sys/kernel/tracing/options/copy_trace_marker").exists() {
        return eprintln!("this kernel (before 6.16) copies no markers into instances: not tested");
    }
    let file = folder.path().join("trace.dat");
    let mark = "m=/sys/kernel/tracing/trace_marker; echo lab start >$m; sleep 0.05; \
                echo lab unit 7 >$m; sleep 0.05; echo lab end >$m";
    recorded("ftrace", &file, &["--", "sh", "-c", mark]);
    let report = ["analyze", "--json", "-q", "--work", "marker:lab"];
    let report = report.map(OsStr::new).into_iter().chain([file.as_os_str()]);
    let report = json(&report.collect::<Vec<_>>());
    assert_eq!(report["throughput"]["units"], 7, "{}", report["throughput"]);
}

/// The recorded command is this program, which starts threads that end before it does; `task_newtask`, as `trace-cmd` prints
/// it, says of which process.
#[test]
fn threads_of_a_command_are_one_process() {
    let Some(folder) = can_record() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_ttwu"));
    let trace = super::fixture("lab/stack/trace.dat").display().to_string();
    for backend in BACKENDS {
        let file = folder.path().join(backend);
        let command = [
            "--",
            program.to_str().expect("UTF-8"),
            "analyze",
            "-q",
            "--json",
            &trace,
        ];
        recorded(backend, &file, &command);
        let report = json(
            &["analyze", "--json", "-q", "--top", "1000"]
                .map(OsStr::new)
                .into_iter()
                .chain([file.as_os_str()])
                .collect::<Vec<_>>(),
        );
        let processes = report["processes"].as_array().expect("processes are known");
        let of = |tgid: i64| processes.iter().find(|p| p["tgid"].as_i64() == Some(tgid));
        let ours = processes
            .iter()
            .filter(|p| p["name"] == "ttwu" && p["threads"].as_u64() > Some(2));
        let ours: Vec<_> = ours.filter(|p| p["leaders"] == 1).collect();
        assert!(!ours.is_empty(), "{backend}: {processes:?}");
        if backend == "perf" {
            continue;
        }
        let printed = Command::new("trace-cmd")
            .args(["report", "-F", "task_newtask", "-i"])
            .arg(&file)
            .output();
        let Some(printed) = printed.ok().filter(|output| output.status.success()) else {
            eprintln!("no trace-cmd here: not compared");
            continue;
        };
        // ttwu-123 [000] 1.5: task_newtask: pid=124 comm=ttwu clone_flags=3d0f00 oom_score_adj=0
        let mut threads = std::collections::BTreeMap::<i64, std::collections::BTreeSet<i64>>::new();
        let mut process_of = std::collections::BTreeMap::<i64, i64>::new();
        for line in text(&printed.stdout)
            .lines()
            .filter(|line| line.contains("task_newtask"))
        {
            let field = |key: &str| line.split(key).nth(1)?.split_whitespace().next();
            let flags = field("clone_flags=")
                .and_then(|f| i64::from_str_radix(f.trim_start_matches("0x"), 16).ok());
            let new: Option<i64> = field("pid=").and_then(|pid| pid.parse().ok());
            let parent = line
                .split('[')
                .next()
                .and_then(|task| task.trim().rsplit('-').next());
            let parent: Option<i64> = parent.and_then(|pid| pid.parse().ok());
            let (Some(flags), Some(new), Some(parent)) = (flags, new, parent) else {
                panic!("{line}");
            };
            let process = match flags & 0x10000 {
                0 => new,
                _ => process_of.get(&parent).copied().unwrap_or(parent),
            };
            process_of.insert(new, process);
            threads.entry(process).or_default().insert(new);
        }
        let mut compared = 0;
        // Those that were started and began all of their threads while it was recorded.
        for (tgid, tids) in threads.iter().filter(|(tgid, tids)| tids.contains(tgid)) {
            if let Some(process) = of(*tgid) {
                assert_eq!(
                    process["threads"].as_u64(),
                    Some(tids.len() as u64),
                    "{process} {tids:?}"
                );
                compared += usize::from(tids.len() > 2);
            }
        }
        assert!(compared > 0, "{threads:?}");
    }
}

#[test]
fn a_commands_end_is_passed_on() {
    let Some(folder) = can_record() else { return };
    for backend in BACKENDS {
        let file = folder.path().join(backend);
        let code = |script: &str| {
            let file = file.to_str().expect("UTF-8");
            let output = record([
                "-q",
                "--backend",
                backend,
                "-o",
                file,
                "--",
                "sh",
                "-c",
                script,
            ]);
            output.status.code()
        };
        assert_eq!(code("exit 7"), Some(7), "{backend}");
        assert_eq!(code("kill -TERM $$"), Some(128 + 15), "{backend}");
        assert!(file.exists(), "{backend}");
    }
    let output = record(["-q", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("/no/such/program"));
}

#[test]
fn only_its_owner_may_read_the_file_and_others_files_stay() {
    let Some(folder) = can_record() else { return };
    let path = |name: &str| folder.path().join(name);
    for backend in BACKENDS {
        let file = path(backend);
        recorded(backend, &file, &["--for", "50ms"]);
        assert_eq!(
            fs::metadata(&file).expect("a file").mode() & 0o777,
            0o600,
            "{backend}"
        );
        // Its own file of before is replaced without a word.
        recorded(backend, &file, &["--for", "50ms"]);
    }
    fs::write(path("precious"), "mine").expect("a file");
    symlink(path("precious"), path("link")).expect("a link");
    for (name, force, said) in [
        ("precious", false, "--force"),
        ("link", false, "symbolic link"),
        ("link", true, "symbolic link"),
    ] {
        let file = path(name);
        let mut args = vec![
            OsStr::new("--for"),
            OsStr::new("50ms"),
            OsStr::new("-o"),
            file.as_os_str(),
        ];
        args.extend(force.then_some(OsStr::new("--force")));
        let output = record(args);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(fs::read(path("precious")).expect("a file"), b"mine");
    }
    recorded("ftrace", &path("precious"), &["--for", "50ms", "--force"]);
    // A run that records nothing leaves what was there.
    let before = fs::metadata(path("ftrace")).expect("a file").len();
    let output = record([
        OsStr::new("-o"),
        path("ftrace").as_os_str(),
        OsStr::new("-e"),
        OsStr::new("sched:nothing"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::metadata(path("ftrace")).expect("a file").len(), before);
    let names: Vec<PathBuf> = fs::read_dir(folder.path())
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

fn start(backend: &str, file: &Path, more: &[&str]) -> Child {
    let child = command()
        .args(["record", "--backend", backend, "-o"])
        .arg(file)
        .args(more)
        .stderr(Stdio::piped())
        .spawn();
    child.expect("the program runs")
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
}

/// Waits until something holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn signals_end_a_recording_and_leave_nothing() {
    let Some(folder) = can_record() else { return };
    for backend in BACKENDS {
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let file = folder.path().join(format!("{backend}-{signal}"));
            let child = start(backend, &file, &[]);
            eventually("it records", || {
                fs::metadata(&file).is_ok_and(|there| there.len() > 0)
            });
            std::thread::sleep(Duration::from_millis(200));
            let pid = child.id();
            send(&child, signal);
            let output = child.wait_with_output().expect("it ends");
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            assert!(!left_behind(pid), "{backend} {signal}");
            analysis(&file);
        }
    }
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let Some(folder) = can_record() else { return };
    let file = folder.path().join("trace.dat");
    let ready = folder.path().join("ready");
    let script = format!(
        "trap 'exit 9' TERM; touch {}; while :; do sleep 0.02; done",
        ready.display()
    );
    let child = start("ftrace", &file, &["--", "sh", "-c", &script]);
    eventually("the command runs", || ready.exists());
    send(&child, Signal::SIGTERM);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
}

/// Wakes and sleeps.
const LOOP: &str = "while :; do sleep 0.001; done";

#[test]
fn what_a_killed_recording_had_is_there_and_the_next_run_cleans_up() {
    let Some(folder) = can_record() else { return };
    for backend in BACKENDS {
        let file = folder.path().join(backend);
        let mut child = start(backend, &file, &["--", "sh", "-c", LOOP]);
        eventually("it records", || {
            fs::metadata(&file).is_ok_and(|there| there.len() > 0)
        });
        std::thread::sleep(Duration::from_millis(700));
        let pid = child.id();
        send(&child, Signal::SIGKILL);
        // Its command lives on and has the pipe to standard error, which therefore does not end.
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9));
        let _ = Command::new("pkill").args(["-f", LOOP]).status();
        let report = analysis(&file);
        assert!(
            report["wakeups"]["total"].as_u64() > Some(50),
            "{backend}: {}",
            report["wakeups"]["total"]
        );
        assert_eq!(
            report["trace"]["topology"]["source"], "the machine record in the trace",
            "{backend}"
        );
        let output = record(["--cleanup"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(!left_behind(pid));
    }
}

#[test]
fn under_sudo_file_and_command_are_the_callers() {
    let Some(folder) = can_record() else { return };
    let (uid, gid) = (65_534, 65_534);
    let file = folder.path().join("trace.dat");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder");
    let output = command()
        .args(["record", "-q", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", "id -u; id -g; echo \"$SUDO_UID\""])
        .env("SUDO_UID", uid.to_string())
        .env("SUDO_GID", gid.to_string())
        .output()
        .expect("the program runs");
    assert_eq!(
        text(&output.stdout),
        format!("{uid}\n{gid}\n\n"),
        "{}",
        text(&output.stderr)
    );
    let there = fs::metadata(&file).expect("a file");
    assert_eq!(
        (there.uid(), there.gid(), there.mode() & 0o777),
        (uid, gid, 0o600)
    );
}

#[test]
fn what_is_asked_for_is_what_is_recorded() {
    let Some(folder) = can_record() else { return };
    for backend in BACKENDS {
        let file = folder.path().join(backend);
        let more = [
            "-e",
            "sched:sched_switch,sched:sched_waking/target_cpu == 0/",
            "--cpu",
            "0",
            "-b",
            "1M",
            "--for",
            "200ms",
        ];
        recorded(backend, &file, &more);
        let report = analysis(&file);
        let names = report["trace"]["events_by_name"]
            .as_object()
            .expect("names");
        let recorded: Vec<&str> = names
            .iter()
            .filter(|(name, count)| count.as_u64() > Some(0) && *name != "ftrace:print")
            .map(|(name, _)| name.as_str())
            .collect();
        assert!(
            recorded
                .iter()
                .all(|name| ["sched:sched_switch", "sched:sched_waking"].contains(name)),
            "{recorded:?}"
        );
        assert_eq!(report["trace"]["cpus"], serde_json::json!([0]), "{backend}");
    }
    let refused = |args: &[&str], part: &str| {
        let output = record(args);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    };
    refused(
        &["-e", "sched:sched_switch/nonsense/", "--for", "1s"],
        "does not accept the filter",
    );
    refused(&["--cpu", "4095", "--for", "1s"], "is not online");
    refused(&["--clock", "sundial", "--for", "1s"], "no clock");
    refused(&["-b", "1K"], "64K");
    refused(&["--for", "0s"], "takes some time");
}

#[test]
fn files_of_every_kind_hold_what_was_recorded() {
    let Some(folder) = can_record() else { return };
    let kinds: [(&str, &[&str], &str); 5] = [
        ("ftrace", &[], "trace.dat v7 zstd"),
        ("ftrace", &["--compress", "none"], "trace.dat v7"),
        ("ftrace", &["--file-version", "6"], "trace.dat v6"),
        ("perf", &[], "perf.data"),
        ("perf", &["--compress", "zstd"], "perf.data"),
    ];
    for (backend, options, format) in kinds {
        let file = folder.path().join("file");
        let more: Vec<&str> = options
            .iter()
            .copied()
            .chain(["--", "sleep", "0.05"])
            .collect();
        let said = recorded(backend, &file, &more);
        let report = analysis(&file);
        assert!(
            report["trace"]["format"]
                .as_str()
                .is_some_and(|text| text.starts_with(format)),
            "{}",
            report["trace"]["format"]
        );
        assert_eq!(
            report["trace"]["events"].as_u64(),
            Some(events(&said)),
            "{options:?}"
        );
        fs::remove_file(&file).expect("a file");
    }
}

#[test]
fn without_rights_the_remedy_is_told() {
    let Some(folder) = can_record() else { return };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("a folder");
    // The build folder may be closed to others: they run a copy.
    let program = folder.path().join("ttwu");
    fs::copy(env!("CARGO_BIN_EXE_ttwu"), &program).expect("a copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    for backend in BACKENDS {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(["record", "--backend", backend, "--for", "100ms", "-o"])
            .arg(folder.path().join(backend))
            .output();
        let Ok(output) = output else {
            eprintln!("setpriv is not here: not tested");
            return;
        };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("sudo") || said.contains("setcap"), "{said}");
        assert!(!folder.path().join(backend).exists());
    }
}

#[test]
fn doctor_tells_what_there_is() {
    let checks = good(["doctor"]);
    assert!(
        checks.contains("kernel") && checks.contains("tracefs") && checks.contains("counters"),
        "{checks}"
    );
    for line in checks.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    if can_record().is_some() {
        assert!(checks.contains("✓ own instance"), "{checks}");
    }
}

/// Recorded in a guest of two LLCs with `--probes`; no topology is given.
#[test]
fn a_recording_from_elsewhere_brings_its_machine_and_the_kernels_own_values() {
    for (name, format) in [
        ("trace.dat", "trace.dat v7 zstd"),
        ("perf.data", "perf.data"),
    ] {
        let file = super::fixture(&format!("recorded/{name}"));
        let report = analysis(&file);
        let trace = &report["trace"];
        assert!(
            trace["format"]
                .as_str()
                .is_some_and(|text| text.starts_with(format)),
            "{}",
            trace["format"]
        );
        assert_eq!(
            trace["topology"]["llcs"],
            serde_json::json!([[0, 1, 2, 3], [4, 5, 6, 7]])
        );
        let (probed, checked) = (
            &report["wakeups"]["probed"],
            &report["wakeups"]["probe_check"],
        );
        let selections = probed["selections"].as_u64();
        assert!(selections > Some(300), "{probed}");
        // What the kernel held of affinities it held at every choice.
        assert_eq!(probed["masks"].as_u64(), selections, "{probed}");
        assert!(probed["sync"].as_u64() > Some(0) && probed["flips_max"].as_u64() > Some(0));
        assert_eq!(checked["chosen_equal"], checked["checked"], "{checked}");
        assert!(
            trace["recorder"]["tasks"].as_u64() > Some(0),
            "{}",
            trace["recorder"]
        );
        let machine = &info(&file)["machine"];
        assert_eq!(machine["result"]["exit"], 0, "{}", machine["result"]);
    }
}
