//! Workloads whose figures are known, run and recorded on the machine at hand. Ignored by default: they need root, a C
//! compiler and an otherwise idle machine of two CPUs or more.
//!
//!     cargo test --release --test replay at_hand -- --ignored --test-threads 1

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use ttwu::pipeline::{RunOptions, TimePoint};
use ttwu::replay::units::Work;

use super::support::{report, root};

/// `wakelab`, built from its source among the fixtures.
fn wakelab(folder: &Path) -> PathBuf {
    let program = folder.join("wakelab");
    let source = root().join("fixtures/lab/wakelab.c");
    let built = Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.unwrap().success());
    program
}

/// Records a command into a file; what it printed.
fn record(file: &Path, backend: &str, command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ttwu"))
        .args(["record", "--backend", backend, "-o"])
        .arg(file)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `work_ns=` and the like in what `wakelab` printed.
fn printed(text: &str, key: &str) -> f64 {
    let word = text.split_whitespace().find_map(|word| {
        let (name, value) = word.split_once('=')?;
        (name == key).then(|| value.parse().unwrap())
    });
    word.unwrap_or_else(|| panic!("no {key} in {text}"))
}

fn live() -> RunOptions {
    RunOptions {
        topology: Some("live".to_owned()),
        ..RunOptions::default()
    }
}

fn pair<'a>(report: &'a Value, waker: &str, wakee: &str) -> &'a Value {
    let pairs = report["pairs"].as_array().unwrap();
    let found = pairs
        .iter()
        .find(|p| p["waker"] == waker && p["wakee"] == wakee);
    found.unwrap_or_else(|| panic!("no pair {waker} {wakee}"))
}

/// A piece of the waker's work is what could have run beside the wakee. The wakee mostly preempts it inside the system
/// call that wakes, before the piece begins, so that the piece's time by the clock is its time on the CPU.
#[test]
#[ignore = "records on this machine"]
fn overlap_is_the_work_that_was_programmed() {
    let folder = tempfile::tempdir().unwrap();
    let wakelab = wakelab(folder.path());
    for backend in ["ftrace", "perf"] {
        let file = folder.path().join(backend);
        let command = [wakelab.to_str().unwrap(), "stack", "2000", "500000", "0"];
        let text = record(&file, backend, &command);
        let report = report(&file, &live());
        let facts = pair(&report, "lab-waker", "lab-wakee");
        let overlap_ns = facts["overlap_ns"]["value"].as_f64().unwrap();
        let ratio = overlap_ns / printed(&text, "work_ns");
        println!("{backend}: overlap {overlap_ns:.0} ns, ratio {ratio:.3}; {text}");
        assert!((0.9..=1.1).contains(&ratio), "{ratio}");
        assert_eq!(facts["one_cpu"]["cpu"], 0);
    }
}

/// Three times as many busy tasks as CPUs leave no CPU idle to be missed.
#[test]
#[ignore = "records on this machine"]
fn a_saturated_machine_misses_no_idle_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.dat");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let script = format!(
        "for i in $(seq {}); do timeout 3 sh -c 'while :; do :; done' & done; wait",
        3 * cpus
    );
    record(&file, "ftrace", &["sh", "-c", &script]);
    let options = RunOptions {
        from: Some(TimePoint::AfterStart(500_000_000)),
        to: Some(TimePoint::BeforeEnd(500_000_000)),
        ..live()
    };
    let report = report(&file, &options);
    let verdicts = &report["waits"]["by_verdict"];
    let missed = ["stacked-prev", "stacked-pull", "prev", "other", "other-llc"];
    for reading in ["seen", "any"] {
        let share = |word: &&str| verdicts[*word]["wait_share"][reading].as_f64().unwrap();
        let missed: f64 = missed.iter().map(share).sum();
        println!("{reading}: {missed} of waits missed an idle CPU");
        assert!(missed < 0.001, "{reading}: {missed}");
    }
}

/// Units and units per second are what the workload printed, in every mode. Kernels before 6.16 copy no markers into the
/// recorder's buffer.
#[test]
#[ignore = "records on this machine"]
fn units_are_what_the_workload_printed() {
    if !Path::new("/sys/kernel/tracing/options/copy_trace_marker").exists() {
        return eprintln!("this kernel copies no markers into instances: not tested");
    }
    let folder = tempfile::tempdir().unwrap();
    let wakelab = wakelab(folder.path());
    let options = RunOptions {
        work: Some(Work::Marker("wakelab".to_owned())),
        ..live()
    };
    for (mode, more) in [
        ("pair", None),
        ("stack", Some("0")),
        ("stream", None),
        ("udp", None),
        ("fanout", Some("4")),
    ] {
        let file = folder.path().join(mode);
        let mut command = vec![wakelab.to_str().unwrap(), mode, "2000", "100000"];
        command.extend(more);
        let text = record(&file, "ftrace", &command);
        let throughput = &report(&file, &options)["throughput"];
        let rate = throughput["per_second"].as_f64().unwrap() / printed(&text, "rate");
        println!(
            "{mode}: {} units, rate {rate:.5} of what was printed",
            throughput["units"]
        );
        assert_eq!(throughput["units"].as_f64(), Some(printed(&text, "msgs")));
        assert!((0.99..=1.01).contains(&rate), "{mode}: {rate}");
    }
}
