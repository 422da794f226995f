//! Units of work, and what the machine did for each.

use serde_json::Value;
use ttwu::pipeline::RunOptions;
use ttwu::replay::units::Work;

use super::check::{Differences, File, Written, number};
use super::events::What;
use super::kernels::{V6_1, V6_12};
use super::machine::Shape;
use super::scheduler::Sim;
use super::workloads::PingPong;

/// What lies behind the first stamp, and not behind the last.
fn count(sim: &Sim, (after, until): (i64, i64), of: impl Fn(&What) -> usize) -> i64 {
    let within = sim
        .log
        .iter()
        .filter(|event| after < event.ts && event.ts <= until);
    within.map(|event| of(&event.what)).sum::<usize>() as i64
}

fn report(sim: &Sim, work: Work) -> Value {
    let options = RunOptions {
        work: Some(work),
        ..RunOptions::default()
    };
    Written::new(&sim.recording(), File::TraceDat).report(&options)
}

#[test]
fn units_are_those_that_were_done() {
    // On two LLCs, on one, on two threads of a core, on one CPU.
    for (case, cpus) in [[0, 4], [0, 2], [0, 1], [0, 0]].into_iter().enumerate() {
        for kernel in [V6_1, V6_12] {
            let units = 40 + 7 * case as u64;
            let shape = Shape::new(1, 2, 2, 2, 1);
            let mut play = PingPong::play(case as u64, kernel, shape, cpus, units);
            play.stage.drain();
            let (span, tasks) = (play.span, play.tasks);
            let names = tasks.map(|task| play.stage.sim.tasks[task].who.comm.clone());
            let played = play.stage.end();
            let sim = &played.sim;
            let found = report(sim, Work::Marker("sim".to_owned()));
            let mut differ = Differences::default();
            let wakings = count(sim, span, |w| usize::from(matches!(w, What::Waking { .. })));
            let switches = count(sim, span, |w| usize::from(matches!(w, What::Switch { .. })));
            let ipis = count(sim, span, |what| match what {
                What::SendIpi { .. } => 1,
                What::SendIpis { cpus, .. } => cpus.len(),
                _ => 0,
            });
            for (name, truth) in [
                ("units", units as i64),
                ("span.start_ns", span.0),
                ("span.end_ns", span.1),
                ("wakeups", wakings),
                ("switches", switches),
            ] {
                let name = format!("throughput.{name}");
                differ.same(&name, number(&found, &name), Some(truth));
            }
            let of = &found["throughput"];
            let each = (span.1 - span.0) as f64 / units as f64;
            differ.same("time", of["time_per_unit_ns"].as_f64(), Some(each));
            let per_unit = wakings as f64 / units as f64;
            differ.same("wakeups", of["wakeups_per_unit"].as_f64(), Some(per_unit));
            let sent = kernel.tells_sends() && ipis > 0;
            differ.same("ipis", of["ipis"].as_i64(), sent.then_some(ipis));

            // The workload's own word for how much it did says the same.
            let total = report(sim, Work::Total(units));
            let total = number(&total, "throughput.units");
            differ.same("total", total, Some(units as i64));
            // A cycle of either is a unit, but those before the first mark and behind the last count, too.
            let cycles = report(sim, Work::Task(names[1].clone()));
            differ.same(
                "cycles",
                number(&cycles, "throughput.units"),
                Some(units as i64),
            );
            differ.none(&format!("{cpus:?} {kernel:?}"));
        }
    }
}
