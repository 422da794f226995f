//! The tasks that lost and waited most.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::TaskFacts;
use super::census::with_window;
use super::quantiles::quantiles;
use super::scope::{Scope, is_member, lost_column, members};
use super::wakeups::lacking;
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
pub fn tasks(scope: &Scope) -> PolarsResult<Vec<TaskFacts>> {
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
    let why = lacking(scope, &["sched_waking", "sched_switch"]);
    let mut tasks = Vec::with_capacity(ids.len());
    for (row, id) in ids.iter().enumerate() {
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
            latency_ns: quantiles(own, &why),
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
fn latencies(scope: &Scope, ids: &[u32]) -> PolarsResult<FxHashMap<u32, Vec<i64>>> {
    let mut found: FxHashMap<u32, Vec<i64>> = FxHashMap::default();
    if ids.is_empty() {
        return Ok(found);
    }
    let columns = with_window(scope, vec![col("wakee"), col("latency_ns")]);
    let wanted = members(ids);
    let query = |rows: LazyFrame| {
        let rows = scope.counted(rows.select(&columns));
        rows.filter(is_member("wakee", wanted.clone()))
    };
    scope.over_wakeups(query, |rows| {
        let wakees = rows.column("wakee")?.u32()?.iter();
        let latencies = rows.column("latency_ns")?.i64()?.iter();
        for (wakee, ns) in wakees.zip(latencies) {
            if let (Some(wakee), Some(ns)) = (wakee, ns) {
                found.entry(wakee).or_default().push(ns);
            }
        }
        Ok(())
    })?;
    Ok(found)
}
