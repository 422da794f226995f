//! The files that the simulator writes are what it says that they are.

use std::path::PathBuf;

use ttwu::pipeline::RunOptions;

use super::kernels::KERNELS;
use super::machine::Shape;
use super::perf_data::perf_data;
use super::plan::Plan;
use super::run::simulate;
use super::trace_dat::trace_dat;
use crate::support::run;

#[test]
fn written() {
    let dir = std::env::temp_dir().join(format!("ttwu-sim-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for kernel in KERNELS {
        let plan = Plan::new(1, Shape::new(2, 2, 2, 2, 1)).on(kernel);
        let sim = simulate(plan);
        let recording = sim.recording();
        let dat: PathBuf = dir.join("trace.dat");
        std::fs::write(&dat, trace_dat(&recording)).unwrap();
        let perf: PathBuf = dir.join("perf.data");
        std::fs::write(&perf, perf_data(&recording)).unwrap();
        let a = run(&dat, &RunOptions::default());
        let b = run(&perf, &RunOptions::default());
        println!("{kernel:?} {:?}", a.counts);
        println!(
            "{:?} {:?}",
            a.prepared.survey.faults, b.prepared.survey.faults
        );
        println!("{} {}", a.rows.wakeups.len(), b.rows.wakeups.len());
        assert_eq!(a.rows.waits, b.rows.waits);
    }
}
