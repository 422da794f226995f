//! How many wakeups of each pair and task are on which side: what can be compared, and how much of it must be kept.

use polars::prelude::PolarsResult;
use rustc_hash::FxHashMap;

use super::super::blocks::NO_NUMBER;
use super::super::scope::Scope;
use super::sides::{COLUMNS, Cost, Scratch, Wakeup, each};

/// Wakeups on both sides of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// All that cross.
    pub all_crossing: u64,
    /// Those that cross and can be measured, and those that do not cross and can.
    pub crossing: u64,
    pub staying: u64,
}

impl Count {
    fn note(&mut self, crosses: bool, measured: bool) {
        self.all_crossing += u64::from(crosses);
        self.crossing += u64::from(crosses && measured);
        self.staying += u64::from(!crosses && measured);
    }

    pub fn add(&mut self, more: &Count) {
        self.all_crossing += more.all_crossing;
        self.crossing += more.crossing;
        self.staying += more.staying;
    }
}

/// One waker's wakeups of one wakee; the waker is [`NO_NUMBER`] for interrupts.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfPair {
    pub transit: Count,
    pub cold_cache: Count,
    pub transfer: Count,
}

/// What pairs have by their runs: in time, or as cycles per instruction.
#[derive(Debug, Clone, Copy, Default)]
struct Both {
    time: OfPair,
    cpi: OfPair,
}

impl Both {
    fn add(&mut self, more: &Both) {
        for (to, from) in [(&mut self.time, &more.time), (&mut self.cpi, &more.cpi)] {
            to.transit.add(&from.transit);
            to.cold_cache.add(&from.cold_cache);
            to.transfer.add(&from.transfer);
        }
    }
}

type Pairs = FxHashMap<(u32, u32), Both>;

/// The counts of a trace.
#[derive(Debug, Default)]
pub struct Counts {
    pub pairs: FxHashMap<(u32, u32), OfPair>,
    /// Runs are measured in cycles per instruction: the trace counts them for more than half of all runs.
    pub by_cpi: bool,
}

impl Counts {
    pub fn take(scope: &Scope) -> PolarsResult<Self> {
        let ((pairs, runs, counted), _) = scope.wakeups().counted().fold(
            &COLUMNS,
            <((Pairs, u64, u64), Scratch)>::default,
            |((pairs, runs, counted), scratch), block| {
                each(scope, block, scratch, |wakeup| {
                    *runs += u64::from(wakeup.run().is_some());
                    *counted += u64::from(wakeup.run_cpi().is_some());
                    note(pairs, wakeup);
                })
            },
            |((pairs, runs, counted), _), ((more, more_runs, more_counted), _)| {
                *runs += more_runs;
                *counted += more_counted;
                for (pair, more) in more {
                    pairs.entry(pair).or_default().add(&more);
                }
            },
        )?;
        let by_cpi = counted > runs / 2;
        let chosen =
            |(pair, both): ((u32, u32), Both)| (pair, if by_cpi { both.cpi } else { both.time });
        Ok(Self {
            pairs: pairs.into_iter().map(chosen).collect(),
            by_cpi,
        })
    }

    /// The counts of tasks: their wakeups by anyone.
    pub fn of_tasks(&self, of: impl Fn(&OfPair) -> &Count) -> FxHashMap<u32, Count> {
        let mut tasks: FxHashMap<u32, Count> = FxHashMap::default();
        for ((_, wakee), pair) in &self.pairs {
            tasks.entry(*wakee).or_default().add(of(pair));
        }
        tasks
    }
}

fn note(pairs: &mut Pairs, wakeup: &Wakeup) {
    let sides = [Cost::Transit, Cost::ColdCache, Cost::Transfer].map(|cost| wakeup.crosses(cost));
    if sides == [None; 3] {
        return;
    }
    let pair = (wakeup.waker.unwrap_or(NO_NUMBER), wakeup.wakee);
    let both = pairs.entry(pair).or_default();
    let [transit, cold_cache, transfer] = sides;
    for (of, run) in [
        (&mut both.time, wakeup.run()),
        (&mut both.cpi, wakeup.run_cpi()),
    ] {
        let noted = [
            (&mut of.transit, transit, wakeup.transit().is_some()),
            (&mut of.cold_cache, cold_cache, run.is_some()),
            (&mut of.transfer, transfer, run.is_some()),
        ];
        for (count, crosses, measured) in noted {
            if let Some(crosses) = crosses {
                count.note(crosses, measured);
            }
        }
    }
}
