//! Units that are completed cycles of tasks: woken, ran, blocked.

use std::collections::BTreeMap;
use std::sync::Arc;

use polars::prelude::PolarsResult;
use rustc_hash::FxHashMap;

use super::{Done, LOST, Span, lost_within, most_first};
use crate::attribute::AnswerError;
use crate::attribute::answer::Known;
use crate::attribute::blocks::NO_TIME;
use crate::attribute::scope::Scope;
use crate::tables::Table;

/// One cycle, as the wakeup that began it shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cycle {
    woken_ns: i64,
    enqueued_ns: i64,
    /// `None` if the task had not left its CPU yet.
    switch_in_ns: Option<i64>,
    run_ns: i64,
}

/// The cycles of one task that began in the window.
#[derive(Debug, Clone, Default)]
struct Cycles {
    count: u64,
    first_ns: Option<i64>,
    /// The last one, and the one before it. All others ended before the last began.
    last: [Option<Cycle>; 2],
    /// Wakeups after which the task was not seen to block.
    unended: u64,
}

/// When a cycle ended, by the slices of its task.
#[derive(Debug, Clone, Copy)]
struct Ending {
    cycle: Cycle,
    ran_ns: i64,
    blocked_ns: Option<i64>,
}

/// Counts the cycles of the tasks of this pid, or whose names match this pattern, that lie in the window.
pub fn count(scope: &Scope, pattern: &str) -> Result<Known<Done>, AnswerError> {
    let tasks = scope.tasks_at_work(pattern)?;
    let mut by_task = begun(scope, &tasks)?;
    let endings = endings(scope, tasks, &by_task)?;
    let mut end: Option<(i64, u32)> = None;
    for (task, cycles) in &mut by_task {
        let of_task = endings.get(task).map_or(&[][..], Vec::as_slice);
        let blocked = of_task.iter().rev().map(|ending| ending.blocked_ns);
        let inside = |ns: i64| scope.facts.config.window.contains(ns);
        for blocked in blocked {
            match blocked.filter(|ns| inside(*ns)) {
                Some(ns) => {
                    end = end.max(Some((ns, *task)));
                    break;
                }
                // It ended beyond the window, and the one before it within.
                None => cycles.count = cycles.count.saturating_sub(1),
            }
        }
    }
    let done = by_task.iter().map(|(task, cycles)| (*task, cycles.count));
    let done = most_first(done);
    let units = done.iter().map(|(_, units)| units).sum();
    let counted = by_task.values().filter(|cycles| cycles.count > 0);
    let start = counted.filter_map(|cycles| cycles.first_ns).min();
    let (Some(start_ns), Some((end_ns, last_task))) = (start, end) else {
        return Ok(Known::unknown(format!(
            "no cycle of task {pattern} (woken, ran, blocked) lies in the window"
        )));
    };
    let mut notes = Vec::new();
    let unended: u64 = by_task.values().map(|cycles| cycles.unended).sum();
    if unended > 0 {
        notes.push(format!(
            "Of {unended} of its wakeups it was not seen how they ended; they are no units."
        ));
    }
    if lost_within(scope, (start_ns, end_ns))? {
        notes.push(LOST.to_owned());
    }
    Ok(Known::Value(Done {
        units,
        span: Span {
            start_ns,
            end_ns,
            last_task: Some(last_task),
        },
        // The first waking is the first unit's own.
        counted: (start_ns.saturating_sub(1), end_ns),
        by_task: done,
        members: Vec::new(),
        missed_at_most: 0,
        notes,
    }))
}

/// The cycles that began in the window, by task.
fn begun(scope: &Scope, tasks: &Arc<[bool]>) -> PolarsResult<BTreeMap<u32, Cycles>> {
    let mut by_task: BTreeMap<u32, Cycles> = BTreeMap::new();
    let mut wakees = Vec::new();
    let [mut wakings, mut wakeups, mut switch_ins, mut runs] = [const { Vec::new() }; 4];
    let rows = scope.every_wakeup().counted();
    rows.of_tasks("wakee", tasks.clone()).in_order(
        &[
            "wakee",
            "waking_ns",
            "wakeup_ns",
            "switch_in_ns",
            "wakee_run_ns",
        ],
        |block| {
            let rows = block.numbers("wakee", &mut wakees)?.iter();
            let rows = rows.zip(block.times("waking_ns", &mut wakings)?);
            let rows = rows.zip(block.times("wakeup_ns", &mut wakeups)?);
            let rows = rows.zip(block.times("switch_in_ns", &mut switch_ins)?);
            for ((((wakee, waking), wakeup), switch_in), run) in
                rows.zip(block.times("wakee_run_ns", &mut runs)?)
            {
                let known = |ns: i64, or: i64| if ns == NO_TIME { or } else { ns };
                let cycles = by_task.entry(*wakee).or_default();
                if *run == NO_TIME {
                    cycles.unended += 1;
                    continue;
                }
                cycles.add(Cycle {
                    woken_ns: known(*waking, *wakeup),
                    enqueued_ns: known(*wakeup, *waking),
                    switch_in_ns: Some(*switch_in).filter(|ns| *ns != NO_TIME),
                    run_ns: *run,
                });
            }
            Ok(())
        },
    )?;
    Ok(by_task)
}

impl Cycles {
    fn add(&mut self, cycle: Cycle) {
        self.count += 1;
        let first = self.first_ns.get_or_insert(cycle.woken_ns);
        *first = cycle.woken_ns.min(*first);
        let [last, before] = &mut self.last;
        if last.is_none_or(|last| last < cycle) {
            *before = last.replace(cycle);
        } else {
            *before = (*before).max(Some(cycle));
        }
    }
}

/// Finds the ends of each task's last two cycles, in order.
fn endings(
    scope: &Scope,
    tasks: Arc<[bool]>,
    by_task: &BTreeMap<u32, Cycles>,
) -> PolarsResult<FxHashMap<u32, Vec<Ending>>> {
    let mut endings: FxHashMap<u32, Vec<Ending>> = FxHashMap::default();
    for (task, cycles) in by_task {
        let last = cycles.last.iter().rev().flatten();
        let last = last.map(|cycle| Ending {
            cycle: *cycle,
            ran_ns: 0,
            blocked_ns: None,
        });
        endings.insert(*task, last.collect());
    }
    let (mut numbers, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let slices = scope.every(Table::Slices).of_tasks("task", tasks);
    slices.in_order(&["task", "start_ns", "end_ns"], |block| {
        let slices = block.numbers("task", &mut numbers)?.iter();
        let slices = slices.zip(block.times("start_ns", &mut starts)?);
        for ((task, start), end) in slices.zip(block.times("end_ns", &mut ends)?) {
            for ending in endings.get_mut(task).into_iter().flatten() {
                ending.slice(*start, *end);
            }
        }
        Ok(())
    })?;
    Ok(endings)
}

impl Ending {
    /// Takes the task's next slice: the cycle ends with the one in which it has run for as long as it did.
    fn slice(&mut self, start_ns: i64, end_ns: i64) {
        let belongs = match self.cycle.switch_in_ns {
            Some(switch_in) => start_ns >= switch_in,
            None => end_ns > self.cycle.enqueued_ns,
        };
        if self.blocked_ns.is_some() || !belongs {
            return;
        }
        self.ran_ns += end_ns - start_ns;
        if self.ran_ns >= self.cycle.run_ns {
            self.blocked_ns = Some(end_ns);
        }
    }
}
