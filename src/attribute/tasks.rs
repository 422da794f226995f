//! The tasks that lost and waited most.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::TaskFacts;
use super::blocks::{NO_NUMBER, NO_TIME};
use super::cross_llc::Costs;
use super::durations::Durations;
use super::moments;
use super::scope::{Scope, lost_column};
use super::wakeups::{known, lacking};
use crate::replay::words::{Pair, Reading};

const COLUMNS: [&str; 13] = [
    "task",
    "pid",
    "generation",
    "name",
    "run_ns",
    "wait_ns",
    "lost_seen_ns",
    "lost_any_ns",
    "withheld",
    "wakeups_made",
    "wakeups_received",
    "migrations",
    "switches",
];

/// The worst of the selected tasks: by lost time, then waiting time, then on-CPU time.
pub fn tasks(scope: &Scope, crossing: &Costs) -> PolarsResult<Vec<TaskFacts>> {
    let lost = lost_column(scope.ranking());
    let worst = SortMultipleOptions::default()
        .with_order_descending_multi([true, true, true, false])
        .with_maintain_order(true);
    let frame = scope
        .tasks()?
        .select(COLUMNS.map(col))
        .sort([lost, "wait_ns", "run_ns", "task"], worst)
        .limit(IdxSize::try_from(scope.top).unwrap_or(IdxSize::MAX))
        .collect()?;
    let ids: Vec<u32> = frame.column("task")?.u32()?.iter().flatten().collect();
    let mut latencies = latencies(scope, &ids)?;
    let worst_waits = moments::of_tasks(scope, &ids)?;
    let mut tasks = Vec::with_capacity(ids.len());
    for (row, (id, worst_wait)) in ids.iter().zip(worst_waits).enumerate() {
        let ns = |name: &str| ns_at(&frame, name, row);
        let count = |name: &str| count_at(&frame, name, row);
        let lost_ns = Pair([ns("lost_seen_ns")?, ns("lost_any_ns")?]);
        let own = latencies.entry(*id).or_default();
        tasks.push(TaskFacts {
            name: frame
                .column("name")?
                .str()?
                .get(row)
                .unwrap_or("")
                .to_owned(),
            pid: frame.column("pid")?.i32()?.get(row).unwrap_or(-1),
            generation: frame.column("generation")?.u32()?.get(row).unwrap_or(0),
            run_ns: ns("run_ns")?,
            wait_ns: ns("wait_ns")?,
            lost_ns: scope.readings(|reading: Reading| lost_ns[reading]),
            withheld: count("withheld")?,
            wakeups_made: count("wakeups_made")?,
            wakeups_received: count("wakeups_received")?,
            migrations: count("migrations")?,
            cross_llc: crossing.task(*id),
            latency_ns: known(own.quantiles(), || {
                lacking(scope, &["sched_waking", "sched_switch"])
            }),
            worst_wait,
        });
    }
    Ok(tasks)
}

fn ns_at(frame: &DataFrame, name: &str, row: usize) -> PolarsResult<i64> {
    Ok(frame.column(name)?.i64()?.get(row).unwrap_or(0))
}

fn count_at(frame: &DataFrame, name: &str, row: usize) -> PolarsResult<u64> {
    Ok(frame.column(name)?.u64()?.get(row).unwrap_or(0))
}

/// The latencies of the wakeups that some tasks received.
fn latencies(scope: &Scope, ids: &[u32]) -> PolarsResult<FxHashMap<u32, Durations>> {
    let mut found: FxHashMap<u32, Durations> = FxHashMap::default();
    if ids.is_empty() {
        return Ok(found);
    }
    let listed = ids.iter().enumerate();
    let slots = dense(listed.map(|(slot, id)| (*id, slot as u32)));
    let start = || (vec![Durations::default(); ids.len()], Scratch::default());
    let (by_slot, _) = scope.wakeups().counted().fold(
        &["wakee", "latency_ns"],
        start,
        |(found, (tasks, times)), block| {
            let wakees = block.numbers("wakee", tasks)?.iter();
            for (wakee, ns) in wakees.zip(block.times("latency_ns", times)?) {
                let slot = slots.get(*wakee as usize).copied().unwrap_or(NO_NUMBER);
                if let Some(own) = found.get_mut(slot as usize)
                    && *ns != NO_TIME
                {
                    own.push(*ns);
                }
            }
            Ok(())
        },
        |(found, _), (more, _)| {
            let pairs = found.iter_mut().zip(more);
            pairs.for_each(|(own, more)| own.join(more));
        },
    )?;
    found.extend(ids.iter().copied().zip(by_slot));
    Ok(found)
}

/// Where the columns of a block are read to.
type Scratch = (Vec<u32>, Vec<i64>);

/// Numbers by small numbers; [`NO_NUMBER`] where there is none.
fn dense(of: impl Iterator<Item = (u32, u32)> + Clone) -> Vec<u32> {
    let highest = of.clone().map(|(id, _)| id).max();
    let mut slots = vec![NO_NUMBER; highest.map_or(0, |id| id as usize + 1)];
    for (id, slot) in of {
        if let Some(entry) = slots.get_mut(id as usize) {
            *entry = slot;
        }
    }
    slots
}
