//! Processes: how the run time of their threads spreads over LLCs and over threads.

mod residency;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use polars::prelude::*;
use rustc_hash::FxHashMap;

use self::residency::{OTHER, Parts, Residency, residencies};
pub use self::spread::spread;
use super::answer::{CoResidency, Known, ProcessFacts, ResidencyWindow, Spread};
use super::blocks::Block;
use super::ledger::{with_crossing, with_llcs};
use super::scope::Scope;
use super::work::Done;

/// One thread.
struct Thread {
    task: u32,
    pid: i32,
    name: String,
    run_ns: i64,
    /// It ran, waited or was woken in the window.
    active: bool,
}

/// One process with its threads.
struct Process {
    tgid: i32,
    threads: Vec<Thread>,
    run_ns: i64,
}

/// How many units of work a task has done, by its number.
type Units = FxHashMap<u32, u64>;

/// Says what each process did, the busiest first, and how many units of work its threads did.
pub fn processes(scope: &Scope, done: &Known<Done>) -> PolarsResult<Known<Vec<ProcessFacts>>> {
    let Some(processes) = busiest(scope)? else {
        return Ok(Known::unknown(
            "the trace does not tell which threads belong to one process: perf.data does, and what ttwu recorded; other trace.dat do not",
        ));
    };
    let process_of = by_task(&processes);
    let residencies = residencies(scope, processes.len(), &process_of)?;
    let wakeups = wakeups_inside(scope, processes.len(), &process_of)?;
    let units = &units_by_task(scope, done);
    let facts = processes.iter().zip(&residencies).zip(&wakeups);
    Ok(Known::Value(
        facts
            .map(|((process, residency), wakeups)| {
                facts_of(scope, process, residency, wakeups, units)
            })
            .collect(),
    ))
}

/// Wakeups are no work: only the units that the user names count.
fn units_by_task(scope: &Scope, done: &Known<Done>) -> Known<Units> {
    if scope.facts.config.work.is_none() {
        return Known::unknown("no unit of work was named: see --work");
    }
    let who = match done {
        Known::Value(done) => done.who(),
        Known::Unknown { unknown } => Known::unknown(unknown),
    };
    match who {
        Known::Value(who) => Known::Value(who.iter().copied().collect()),
        Known::Unknown { unknown } => Known::Unknown { unknown },
    }
}

const COLUMNS: [&str; 7] = [
    "task",
    "pid",
    "tgid",
    "name",
    "run_ns",
    "wait_ns",
    "wakeups_received",
];

/// The processes of the selected tasks that ran most; `None` if no task's process is known.
fn busiest(scope: &Scope) -> PolarsResult<Option<Vec<Process>>> {
    let known = scope.every_task()?.filter(col("tgid").is_not_null());
    let known = known.select([col("task")]).limit(1).collect()?;
    if known.height() == 0 {
        return Ok(None);
    }
    let tasks = scope.tasks()?.filter(col("tgid").is_not_null());
    let frame = tasks.select(COLUMNS.map(col)).collect()?;
    let mut by_tgid: BTreeMap<i32, Process> = BTreeMap::new();
    let tgids = frame.column("tgid")?.i32()?;
    for row in 0..frame.height() {
        let Some(tgid) = tgids.get(row) else {
            continue;
        };
        let thread = thread(&frame, row)?;
        let process = by_tgid.entry(tgid).or_insert_with(|| Process {
            tgid,
            threads: Vec::new(),
            run_ns: 0,
        });
        process.run_ns += thread.run_ns;
        process.threads.push(thread);
    }
    let mut processes: Vec<Process> = by_tgid.into_values().collect();
    processes.retain(|process| process.run_ns > 0);
    // Stable: processes that ran for as long stay in the order of their ids.
    processes.sort_by_key(|process| std::cmp::Reverse(process.run_ns));
    processes.truncate(scope.top);
    Ok(Some(processes))
}

/// How many of the selected tasks ran without its being known in which process, where that is known of any task.
pub fn without_process(scope: &Scope) -> PolarsResult<u64> {
    let tasks = scope.tasks()?.select([
        col("tgid")
            .is_null()
            .and(col("run_ns").gt(lit(0)))
            .sum()
            .alias("without"),
        col("tgid").is_not_null().any(true).alias("known"),
    ]);
    let found = tasks.collect()?;
    let without = found.column("without")?.cast(&DataType::UInt64)?;
    let known = found.column("known")?.bool()?.get(0) == Some(true);
    let without = without.u64()?.get(0).filter(|_| known);
    Ok(without.unwrap_or(0))
}

fn thread(frame: &DataFrame, row: usize) -> PolarsResult<Thread> {
    let ns =
        |name: &str| -> PolarsResult<i64> { Ok(frame.column(name)?.i64()?.get(row).unwrap_or(0)) };
    let woken = frame.column("wakeups_received")?.u64()?.get(row);
    let run_ns = ns("run_ns")?;
    Ok(Thread {
        task: frame.column("task")?.u32()?.get(row).unwrap_or(OTHER),
        pid: frame.column("pid")?.i32()?.get(row).unwrap_or(-1),
        name: frame
            .column("name")?
            .str()?
            .get(row)
            .unwrap_or("")
            .to_owned(),
        run_ns,
        active: run_ns > 0 || ns("wait_ns")? > 0 || woken.unwrap_or(0) > 0,
    })
}

/// The place of each task's process, by the task's number.
fn by_task(processes: &[Process]) -> Vec<u32> {
    let threads = || {
        let places = processes.iter().zip(0_u32..);
        places.flat_map(|(process, place)| process.threads.iter().map(move |of| (of.task, place)))
    };
    let highest = threads().map(|(task, _)| task).max();
    let mut places = vec![OTHER; highest.map_or(0, |task| task as usize + 1)];
    for (task, place) in threads() {
        if let Some(slot) = places.get_mut(task as usize) {
            *slot = place;
        }
    }
    places
}

/// Wakeups of a process's threads by its threads: all, those across LLCs, and those of which that is known.
#[derive(Debug, Clone, Copy, Default)]
struct Inside {
    all: u64,
    across: u64,
    known: u64,
}

fn wakeups_inside(
    scope: &Scope,
    processes: usize,
    process_of: &[u32],
) -> PolarsResult<Vec<Inside>> {
    type Scratch = (Vec<u32>, Vec<u32>, Vec<u8>);
    let place = |task: u32| process_of.get(task as usize).copied().unwrap_or(OTHER);
    let take = |found: &mut Vec<Inside>, scratch: &mut Scratch, block: &Block| {
        let (wakers, wakees, crossing) = scratch;
        let wakers = block.numbers("waker", wakers)?.iter();
        let wakees = block.numbers("wakee", wakees)?.iter();
        let crossing = block.codes("cross_llc", crossing)?;
        for ((waker, wakee), crosses) in wakers.zip(wakees).zip(crossing) {
            let process = place(*wakee);
            if process != OTHER
                && process == place(*waker)
                && let Some(inside) = found.get_mut(process as usize)
            {
                inside.all += 1;
                inside.across += u64::from(*crosses == 1);
                inside.known += u64::from(*crosses <= 1);
            }
        }
        Ok(())
    };
    let (found, _) = scope.every_wakeup().counted().fold(
        &["waker", "wakee", "cross_llc"],
        || (vec![Inside::default(); processes], Scratch::default()),
        |(found, scratch), block| take(found, scratch, block),
        |(found, _), (more, _)| {
            for (inside, more) in found.iter_mut().zip(more) {
                inside.all += more.all;
                inside.across += more.across;
                inside.known += more.known;
            }
        },
    )?;
    Ok(found)
}

fn facts_of(
    scope: &Scope,
    process: &Process,
    residency: &Residency,
    wakeups: &Inside,
    units: &Known<Units>,
) -> ProcessFacts {
    let active = || process.threads.iter().filter(|thread| thread.active);
    let runs: Vec<f64> = active().map(|thread| thread.run_ns as f64).collect();
    let first = |thread: &&Thread| thread.pid == process.tgid;
    let busiest = || process.threads.iter().max_by_key(|thread| thread.run_ns);
    let named = process.threads.iter().rfind(first).or_else(busiest);
    ProcessFacts {
        name: named.map_or_else(String::new, |thread| thread.name.clone()),
        tgid: process.tgid,
        threads: active().count() as u64,
        leaders: process.threads.iter().filter(first).count() as u64,
        run_ns: process.run_ns,
        llc_run_ns: with_llcs(scope, || llc_run_ns(scope, residency)),
        co_residency: co_residency(scope, residency),
        wakeups_inside: wakeups.all,
        cross_llc_wakeups: match (with_crossing(scope, || wakeups.across), wakeups.known) {
            (Known::Value(_), 0) if wakeups.all > 0 => {
                Known::unknown("no wakeup inside has a waker's and a chosen CPU of known LLCs")
            }
            (known, _) => known,
        },
        llc_moves: with_crossing(scope, || residency.llc_moves),
        thread_run_ns: match spread(&runs) {
            Some(spread) => Known::Value(spread),
            None => Known::unknown("none of its threads was active"),
        },
        units: match units {
            Known::Value(units) => spread_of_units(active(), units),
            Known::Unknown { unknown } => Known::unknown(unknown),
        },
    }
}

/// Over all threads that were active, those without a unit too.
fn spread_of_units<'a>(active: impl Iterator<Item = &'a Thread>, units: &Units) -> Known<Spread> {
    let done: Vec<u64> = active
        .map(|thread| units.get(&thread.task).copied().unwrap_or(0))
        .collect();
    let all: Vec<f64> = done.iter().map(|units| *units as f64).collect();
    let any = done.iter().any(|units| *units > 0);
    spread(&all).filter(|_| any).map_or_else(
        || Known::unknown("none of its threads did a unit of work"),
        Known::Value,
    )
}

/// The name under which an LLC's column stands.
fn llc_name(scope: &Scope, column: usize) -> String {
    let llcs = scope.facts.topology().llcs().map_or(0, <[_]>::len);
    match column < llcs {
        true => column.to_string(),
        false => "unknown".to_owned(),
    }
}

/// The columns of LLCs in which a process ran, summed over these rows.
fn by_llc<'a>(rows: impl Iterator<Item = &'a [i64]>) -> Vec<i64> {
    let mut sums = Vec::new();
    for row in rows {
        sums.resize(row.len(), 0);
        sums.iter_mut().zip(row).for_each(|(sum, ns)| *sum += ns);
    }
    sums
}

fn rows<'a>(scope: &Scope, residency: &'a Residency) -> std::slice::Chunks<'a, i64> {
    let llcs = scope.facts.topology().llcs().map_or(0, <[_]>::len);
    residency.run_ns.chunks(llcs + 1)
}

fn llc_run_ns(scope: &Scope, residency: &Residency) -> BTreeMap<String, i64> {
    let sums = by_llc(rows(scope, residency));
    let ran = sums.into_iter().enumerate().filter(|(_, ns)| *ns > 0);
    ran.map(|(column, ns)| (llc_name(scope, column), ns))
        .collect()
}

fn co_residency(scope: &Scope, residency: &Residency) -> Known<CoResidency> {
    if let Some(reason) = scope.facts.llcs_unknown() {
        return Known::unknown(reason);
    }
    let sums = by_llc(rows(scope, residency));
    let total: i64 = sums.iter().sum();
    let llcs = sums.get(..sums.len().saturating_sub(1)).unwrap_or_default();
    let (Some(preferred), Some(at_once)) = (busiest_llc(llcs, None), residency.llcs_at_once())
    else {
        return Known::unknown("it ran on no CPU of a known LLC");
    };
    let parts = Parts::new(scope.facts.config.window);
    let mut changes = 0;
    let mut before = None;
    for row in rows(scope, residency) {
        let llcs = row.get(..row.len().saturating_sub(1)).unwrap_or_default();
        if let Some(now) = busiest_llc(llcs, before) {
            changes += u64::from(before.is_some_and(|before| before != now));
            before = Some(now);
        }
    }
    let windows = rows(scope, residency).enumerate();
    Known::Value(CoResidency {
        share: llcs.get(preferred).copied().unwrap_or(0) as f64 / total as f64,
        preferred_llc: preferred as u32,
        preferred_changes: changes,
        llcs_at_once: at_once,
        windows: windows
            .map(|(part, row)| window_of(scope, &parts, part, row))
            .collect(),
    })
}

fn window_of(scope: &Scope, parts: &Parts, part: usize, row: &[i64]) -> ResidencyWindow {
    let run_ns: i64 = row.iter().sum();
    let ran = row.iter().enumerate().filter(|(_, ns)| **ns > 0);
    ResidencyWindow {
        start_ns: parts.start(part),
        end_ns: parts.start(part + 1),
        run_ns,
        llc_share: ran
            .map(|(column, ns)| (llc_name(scope, column), *ns as f64 / run_ns as f64))
            .collect(),
    }
}

/// The LLC with most run time; of equals the one that was it before, else the lowest.
fn busiest_llc(llcs: &[i64], before: Option<usize>) -> Option<usize> {
    let most = llcs.iter().copied().max().filter(|ns| *ns > 0)?;
    let is_most = |llc: &usize| llcs.get(*llc) == Some(&most);
    before
        .filter(is_most)
        .or_else(|| (0..llcs.len()).find(is_most))
}
