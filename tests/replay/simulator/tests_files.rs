//! The files that the simulator writes are what it says that they are, by other programs' word.

use std::process::Command;

use super::check::{File, Written};
use super::kernels::KERNELS;
use super::machine::Shape;
use super::plan::Plan;
use super::run::simulate;

/// What a program prints; `None` where it is not installed.
fn told(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output();
    let Ok(output) = output else {
        eprintln!("no {program} at hand: what it says is not compared");
        return None;
    };
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `trace-cmd report` and `perf script` see every event, by name.
#[test]
fn others_read_the_files_alike() {
    for kernel in KERNELS {
        let sim = simulate(Plan::new(3, Shape::new(2, 4, 2, 2, 1)).on(kernel));
        let recording = sim.recording();
        let switches = sim
            .log
            .iter()
            .filter(|event| matches!(event.what, super::events::What::Switch { .. }));
        let switches = switches.count();
        let count = |text: &str| text.lines().filter(|l| l.contains("sched_switch:")).count();
        let dat = Written::new(&recording, File::TraceDat);
        if let Some(text) = told("trace-cmd", &["report", "-i", &dat.path()]) {
            assert_eq!(count(&text), switches, "{kernel:?}");
        }
        let perf = Written::new(&recording, File::PerfData);
        if let Some(text) = told("perf", &["script", "-f", "-i", &perf.path()]) {
            assert_eq!(count(&text), switches, "{kernel:?}");
        }
    }
}
