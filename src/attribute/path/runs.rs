//! The runs on a path that wakeups across LLCs began: what crossing may have cost lies within them.

use rustc_hash::FxHashMap;

use super::chain::Passed;
use super::tally::Sum;
use crate::attribute::cross_llc::{Cost, side};

/// Runs that wakeups across LLCs began, by task. Only the part of a run that is on the path counts, and a run of which
/// none is there does not.
#[derive(Debug, Default)]
pub struct CrossingRuns {
    pub cold_cache: FxHashMap<u32, Sum>,
    pub transfer: FxHashMap<u32, Sum>,
    /// What a task ran on the path since its wakeup, or its sleep, which the path comes to next.
    open: Option<(u32, i64)>,
}

impl CrossingRuns {
    /// The path goes back through a run.
    pub fn ran(&mut self, task: u32, ns: i64) {
        match &mut self.open {
            Some((of, sum_ns)) if *of == task => *sum_ns += ns,
            open => *open = Some((task, ns)),
        }
    }

    /// It goes back through a sleep, or it is not known through what: the wakeup before need not have begun what ran
    /// after.
    pub fn broken(&mut self) {
        self.open = None;
    }

    /// It comes to a wakeup.
    pub fn woken(&mut self, passed: Passed) {
        let Some((_, ns)) = self.open.take().filter(|(task, _)| *task == passed.wakee) else {
            return;
        };
        let (from_waker, from_prev) = (passed.crossing.of_waker(), passed.crossing.of_prev());
        let costs = [
            (Cost::ColdCache, &mut self.cold_cache),
            (Cost::Transfer, &mut self.transfer),
        ];
        for (cost, runs) in costs {
            if side(cost, from_waker, from_prev) == Some(true) {
                let sum = runs.entry(passed.wakee).or_default();
                sum.count += 1;
                sum.ns += ns;
            }
        }
    }
}
