//! Runs with the kernel's choices probed: what the probes say is taken, and agrees with what the events show.

use ttwu::pipeline::RunOptions;

use super::check::{Differences, File, Written, number};
use super::kernels::{V6_1, V6_12};
use super::notes::Way;
use super::plan::Plan;
use super::run::simulate;
use super::tests_exact::{SHAPES, plan};

#[test]
fn probes_agree_with_the_events() {
    let mut checked_in_all = 0;
    for seed in 0..64 {
        let kernel = [V6_1, V6_12][seed as usize % 2];
        let plan = Plan {
            probes: true,
            kernel,
            shape: SHAPES[seed as usize % SHAPES.len()],
            repinning: false,
            ..plan(seed)
        };
        let sim = simulate(plan);
        let written = Written::new(&sim.recording(), File::TraceDat);
        let rows = written.rows(&RunOptions::default()).rows;
        let mut differ = Differences::default();
        // Each wakeup that had a selection, with the wakee's flips, and where it was and went.
        let found = rows.wakeups.iter().filter(|w| w.probed.is_some());
        let found = found.map(|w| (w.waking_ns, w.flips, w.probed, w.selection));
        let id = |cpu: usize| sim.machine.ids[cpu];
        let probed = sim.notes.wakeups.iter().filter(|w| w.probed.is_some());
        let truth: Vec<_> = probed
            .map(|w| {
                let flips = w.flips.map(|(_, wakee)| wakee);
                (
                    w.waking,
                    flips,
                    Some((id(w.prev), id(w.chosen))),
                    Some(true),
                )
            })
            .collect();
        let checked = truth.len() as i64;
        differ.lists("probed", found.collect(), truth);
        // With probes no requeue is taken for a choice, nor a choice for a requeue.
        let requeued = |ts: Option<i64>| {
            let mut all = sim.notes.wakeups.iter();
            all.any(|w| w.waking == ts && w.way == Way::Requeued)
        };
        for wakeup in &rows.wakeups {
            let class = wakeup.class.as_str();
            if class == "direct" {
                differ.same("a requeue", requeued(wakeup.waking_ns), false);
            }
            if class == "delayed" {
                differ.same("no requeue", requeued(wakeup.waking_ns), true);
            }
        }
        let report = written.report(&RunOptions::default());
        for name in ["checked", "prev_equal", "chosen_equal"] {
            let name = format!("wakeups.probe_check.{name}");
            differ.same(&name, number(&report, &name), Some(checked));
        }
        differ.none(&format!("seed {seed} {kernel:?}"));
        checked_in_all += checked;
    }
    assert!(checked_in_all > 2500, "{checked_in_all}");
}
