//! Where a trace does not tell the machine's LLCs, nothing that needs them is made up.

use ttwu::pipeline::RunOptions;
use ttwu::replay::words::{LedgerRow, Reading};

use super::check::{Differences, File, Written, found_waits, found_wakeups};
use super::run::simulate;
use super::tests_exact::plan;
use super::timeline::{Read, Timeline};
use super::truth_ledger::ledger;
use super::truth_waits::{WaitTruth, waits};
use super::truth_wakeups::{WakeupTruth, wakeups};

/// Whether a verdict is right, or untold for want of LLCs.
fn may_be(found: &str, truth: &str) -> bool {
    match truth {
        "stacked-prev" | "stacked-pull" | "prev" | "other" | "other-llc" => found == "unknown",
        // Only of a CPU that was idle as it was chosen; one that was idle elsewhere, then or later, may be in the same LLC.
        "raced" | "late-idle" | "saturated" => found == truth || found == "unknown",
        truth => found == truth,
    }
}

#[test]
fn without_llcs_what_needs_them_is_unknown() {
    let (mut unknown, mut far) = (0, 0);
    for seed in 0..96 {
        let sim = simulate(plan(seed));
        let mut recording = sim.recording();
        recording.topology = false;
        let rows = Written::new(&recording, File::TraceDat)
            .rows(&RunOptions::default())
            .rows;
        let timeline = Timeline::new(&sim);
        let requeued: Vec<(i32, Option<i64>)> = wakeups(&timeline)
            .iter()
            .filter(|wakeup| wakeup.class == "delayed")
            .map(|wakeup| (wakeup.pid, wakeup.enqueued))
            .collect();
        let mut differ = Differences::default();
        let (mut found, truth) = (found_waits(&rows), waits(&timeline));
        found.sort();
        differ.same("waits", found.len(), truth.len());
        for (found, truth) in found.iter().zip(&truth) {
            let but_verdicts = |wait: &WaitTruth| WaitTruth {
                verdicts: [""; 2],
                ..wait.clone()
            };
            differ.same("wait", but_verdicts(found), but_verdicts(truth));
            // That a requeue was one is told by its crossing LLCs.
            if requeued.contains(&(truth.pid, Some(truth.start))) {
                continue;
            }
            for (found_verdict, verdict) in found.verdicts.iter().zip(truth.verdicts) {
                let right = may_be(found_verdict, verdict);
                differ.same(&format!("{found_verdict} of {truth:?}"), right, true);
                unknown += u32::from(*found_verdict == "unknown");
            }
        }
        let mut found = found_wakeups(&rows);
        let mut truth = wakeups(&timeline);
        for wakeup in found.iter_mut().chain(&mut truth) {
            // Whether a requeue crosses LLCs tells it from another wakeup; and roads are compared elsewhere.
            wakeup.path = None;
            wakeup.selection = None;
            if wakeup.class == "delayed" {
                wakeup.class = "direct_or_delayed";
            }
        }
        for wakeup in &mut truth {
            for distance in wakeup.distances.iter_mut().filter(|d| **d != "same") {
                *distance = "unknown";
                far += 1;
            }
        }
        let key = |w: &WakeupTruth| (w.pid, w.waking, w.enqueued);
        found.sort_by_key(key);
        truth.sort_by_key(key);
        differ.lists("wakeups", found, truth);
        let of_any = ledger(&timeline, Read::Any);
        let total = |row| rows.total(Reading::Any, row);
        differ.same("running", total(LedgerRow::Running), of_any.running);
        differ.same("transit", total(LedgerRow::Transit), of_any.transit);
        for row in &rows.flips {
            let nothing = row.factor.is_none() && row.decisions.iter().all(Option::is_none);
            differ.same("flips without factor", nothing, true);
        }
        differ.none(&format!("seed {seed} {}", sim.kernel.release));
    }
    assert!(unknown > 1000 && far > 10_000, "{unknown}, {far}");
}
