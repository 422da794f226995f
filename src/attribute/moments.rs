//! The wait to look at: of each of some tasks or pairs, the one that lost most, or lasted longest.

use std::cmp::Reverse;

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{Known, Moment};
use super::blocks::{Block, NO_NUMBER, NO_TIME};
use super::pair_waits::Slots;
use super::scope::{Scope, lost_column};
use crate::replay::words::{Origin, Reading, Verdict};

/// A wait, as far as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    lost_ns: i64,
    wait_ns: i64,
    start_ns: i64,
    end_ns: i64,
    cpu: u32,
    verdict: [u8; 2],
}

impl Wait {
    /// The worse one comes first; of equals the earlier, and never whichever was read first.
    fn rank(&self) -> impl Ord + use<> {
        (
            Reverse((self.lost_ns, self.wait_ns)),
            [self.start_ns, self.end_ns],
            self.cpu,
            self.verdict,
        )
    }
}

fn worse(of: Option<Wait>, than: Option<Wait>) -> Option<Wait> {
    of.into_iter().chain(than).min_by_key(Wait::rank)
}

/// The worst wait of each of these tasks.
pub fn of_tasks(scope: &Scope, tasks: &[u32]) -> PolarsResult<Vec<Known<Moment>>> {
    let slots: FxHashMap<u32, usize> = tasks.iter().copied().zip(0..).collect();
    worst(scope, tasks.len(), |_, task| slots.get(&task).copied())
}

/// The worst wait of each of these pairs' wakees that the waker's wakeups began.
pub fn of_pairs(scope: &Scope, slots: &Slots) -> PolarsResult<Vec<Known<Moment>>> {
    worst(scope, slots.len(), |waker, task| {
        slots.get(&(waker?, task)).copied()
    })
}

const COLUMNS: [&str; 9] = [
    "origin",
    "waker",
    "task",
    "last_cpu",
    "verdict_seen",
    "verdict_any",
    "start_ns",
    "end_ns",
    "wait_ns",
];

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    numbers: [Vec<u32>; 3],
    codes: [Vec<u8>; 3],
    times: [Vec<i64>; 4],
}

fn worst(
    scope: &Scope,
    slots: usize,
    slot_of: impl Fn(Option<u32>, u32) -> Option<usize> + Sync,
) -> PolarsResult<Vec<Known<Moment>>> {
    let lost = lost_column(scope.ranking());
    let columns: Vec<&str> = COLUMNS.into_iter().chain([lost]).collect();
    let start = || (vec![None; slots], Scratch::default());
    let (found, _) = scope.waits().fold(
        &columns,
        start,
        |(found, scratch), block| take(found, block, lost, scratch, &slot_of),
        |(found, _): &mut (Vec<Option<Wait>>, Scratch), (more, _)| {
            let both = found.iter_mut().zip(more);
            both.for_each(|(wait, more)| *wait = worse(*wait, more));
        },
    )?;
    Ok(found.into_iter().map(|wait| moment(scope, wait)).collect())
}

fn take(
    found: &mut [Option<Wait>],
    block: &Block,
    lost: &str,
    scratch: &mut Scratch,
    slot_of: impl Fn(Option<u32>, u32) -> Option<usize>,
) -> PolarsResult<()> {
    let [wakers, tasks, cpus] = &mut scratch.numbers;
    let [origins, seen, any] = &mut scratch.codes;
    let origins = block.codes("origin", origins)?;
    let [starts, ends, waits, losses] = &mut scratch.times;
    let wakers = block.numbers("waker", wakers)?;
    let tasks = block.numbers("task", tasks)?;
    let cpus = block.numbers("last_cpu", cpus)?;
    let seen = block.codes("verdict_seen", seen)?;
    let any = block.codes("verdict_any", any)?;
    let starts = block.times("start_ns", starts)?;
    let ends = block.times("end_ns", ends)?;
    let waits = block.times("wait_ns", waits)?;
    let losses = block.times(lost, losses)?;
    for (row, (waker, task)) in wakers.iter().zip(tasks).enumerate() {
        // A preempted task waits by whoever woke it for the run that was interrupted.
        let woken = *waker != NO_NUMBER && origins[row] != Origin::Preempted.code();
        let slot = slot_of(woken.then_some(*waker), *task).and_then(|slot| found.get_mut(slot));
        let Some(worst) = slot.filter(|_| waits[row] > 0 && cpus[row] != NO_NUMBER) else {
            continue;
        };
        let wait = Wait {
            lost_ns: losses[row].max(0),
            wait_ns: waits[row],
            start_ns: starts[row],
            end_ns: match ends[row] {
                NO_TIME => starts[row].saturating_add(waits[row]),
                end => end,
            },
            cpu: cpus[row],
            verdict: [seen[row], any[row]],
        };
        *worst = worse(Some(wait), *worst);
    }
    Ok(())
}

fn moment(scope: &Scope, wait: Option<Wait>) -> Known<Moment> {
    let Some(wait) = wait else {
        return Known::unknown("no wait in the window");
    };
    let word = |code: u8| {
        let verdict = Verdict::ALL.get(usize::from(code));
        verdict.map_or(Verdict::Unknown.as_str(), |verdict| verdict.as_str())
    };
    Known::Value(Moment {
        start_ns: wait.start_ns,
        end_ns: wait.end_ns,
        cpu: wait.cpu,
        wait_ns: wait.wait_ns,
        lost_ns: wait.lost_ns,
        verdict: scope.readings(|reading| match reading {
            Reading::Seen => word(wait.verdict[0]),
            Reading::Any => word(wait.verdict[1]),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_wait_does_not_depend_on_the_order() {
        let wait = Wait {
            lost_ns: 5,
            wait_ns: 9,
            start_ns: 100,
            end_ns: 109,
            cpu: 1,
            verdict: [2, 3],
        };
        let others = [
            Wait { lost_ns: 6, ..wait },
            Wait {
                start_ns: 99,
                ..wait
            },
            Wait { cpu: 0, ..wait },
            Wait {
                verdict: [2, 1],
                ..wait
            },
        ];
        for other in others.map(Some) {
            assert_eq!(worse(other, Some(wait)), other);
            assert_eq!(worse(Some(wait), other), other);
        }
    }
}
