//! Units of work and what the time of one went into (`analysis` §7).

use polars::prelude::{PolarsResult, col};
use rustc_hash::FxHashMap;

use super::answer::{Known, Ledger, PerThread, Readings, TaskUnits, Throughput, UnitSpan};
use super::cross_llc::Costs;
use super::ledger::of_reading;
use super::path::{self, CrossingRuns};
use super::processes::spread;
use super::scope::{Scope, is_member, members};
use super::work::{self, Done};
use crate::wording::{agree, many};

/// Names that stand for the tasks that do the units.
const NAMES: usize = 3;
/// So many tenths of the units must be some task's to say how they spread over threads.
const NEARLY_ALL: u64 = 9;

/// Throughput, of which what crossing LLCs cost within the path is still to be told.
pub struct Measured {
    told: Throughput,
    runs: CrossingRuns,
}

impl Measured {
    /// All of it.
    pub fn with(mut self, crossing: &Costs) -> Throughput {
        let critical = &mut self.told.critical;
        critical.running_within = path::within(&self.runs, crossing, critical.path.total_ns);
        self.told
    }
}

/// Says throughput. Units and what is counted beside them are the whole machine's, whatever is selected.
///
/// # Errors
/// Tables that cannot be read back.
pub fn throughput(
    scope: &Scope,
    ledger: &Ledger,
    done: &Known<Done>,
) -> PolarsResult<Known<Measured>> {
    match done {
        Known::Value(done) => facts_of(scope, ledger, done),
        Known::Unknown { unknown } => Ok(Known::unknown(unknown)),
    }
}

fn facts_of(scope: &Scope, ledger: &Ledger, done: &Done) -> PolarsResult<Known<Measured>> {
    let events = work::count(scope, done.counted)?;
    let span_ns = done.span.end_ns.saturating_sub(done.span.start_ns);
    if done.units == 0 || span_ns <= 0 {
        return Ok(Known::unknown("no unit was completed in the window"));
    }
    let units = done.units as f64;
    let per_unit = |count: &Known<u64>| match count {
        Known::Value(count) => Known::Value(*count as f64 / units),
        Known::Unknown { unknown } => Known::unknown(unknown.clone()),
    };
    let named = names(scope, done)?;
    let work = scope.facts.config.work.as_ref();
    let by_task = done.by_task.iter().take(scope.top);
    let by_task = by_task.filter_map(|(task, units)| {
        let Named { name, pid, run_ns } = named.get(task)?.clone();
        Some(TaskUnits {
            name,
            pid,
            units: *units,
            run_ns,
        })
    });
    let path::Measured { facts, runs } = path::measure(scope, &done.span)?;
    let told = Throughput {
        kind: work.map_or("wakeup", |work| work.kind()),
        unit: work.map_or_else(|| "wakeup".to_owned(), ToString::to_string),
        named_throughput: work.is_some(),
        units: done.units,
        units_missed_at_most: done.missed_at_most,
        span: UnitSpan {
            start_ns: done.span.start_ns,
            end_ns: done.span.end_ns,
        },
        per_second: units * 1e9 / span_ns as f64,
        time_per_unit_ns: span_ns as f64 / units,
        wakeups_per_unit: per_unit(&events.wakeups),
        switches_per_unit: per_unit(&events.switches),
        ipis_per_unit: per_unit(&events.ipis),
        wakeups: events.wakeups,
        switches: events.switches,
        ipis: events.ipis,
        lost_capacity_share: lost_capacity(scope, ledger),
        tasks: main_names(done, &named),
        by_task: match done.who() {
            Known::Value(_) => Known::Value(by_task.collect()),
            Known::Unknown { unknown } => Known::Unknown { unknown },
        },
        per_thread: per_thread(done, &named),
        critical: facts,
        notes: done.notes.clone(),
    };
    Ok(Known::Value(Measured { told, runs }))
}

/// What of the CPU time that ran tasks, or could have run some that waited, the latter lost. Transit is neither.
fn lost_capacity(scope: &Scope, ledger: &Ledger) -> Known<Readings<f64>> {
    let waiting = |reading| of_reading(&ledger.waiting_ns, reading);
    let could_run = |reading| ledger.running_ns.saturating_add(waiting(reading));
    if could_run(scope.ranking()) == 0 {
        return Known::unknown("no task ran or waited beside an idle CPU in the window");
    }
    let share = |reading| match could_run(reading) {
        0 => 0.0,
        all => waiting(reading) as f64 / all as f64,
    };
    Known::Value(scope.readings(share))
}

/// What is told of a task beside its units.
#[derive(Debug, Clone)]
struct Named {
    name: String,
    pid: i32,
    run_ns: i64,
}

type Names = FxHashMap<u32, Named>;

/// How the units, and the time on CPUs, spread over the tasks that did any.
fn per_thread(done: &Done, named: &Names) -> Known<PerThread> {
    let who = match done.who() {
        Known::Value(who) => who,
        Known::Unknown { unknown } => return Known::Unknown { unknown },
    };
    let theirs: u64 = who.iter().map(|(_, units)| units).sum();
    if theirs * 10 < done.units * NEARLY_ALL {
        return Known::unknown(format!(
            "{} of {} marked while their CPUs ran no task",
            done.units - theirs,
            format_args!(
                "{} {}",
                many(done.units, "unit"),
                agree(done.units, "was", "were")
            )
        ));
    }
    let units: Vec<f64> = who.iter().map(|(_, units)| *units as f64).collect();
    let tasks = who.iter().filter_map(|(task, _)| named.get(task));
    let runs: Vec<f64> = tasks.map(|of| of.run_ns as f64).collect();
    match (spread(&units), spread(&runs)) {
        (Some(units), Some(run_ns)) => Known::Value(PerThread { units, run_ns }),
        _ => Known::unknown("no task did a unit"),
    }
}

fn names(scope: &Scope, done: &Done) -> PolarsResult<Names> {
    let by_task = done.by_task.iter().map(|(task, _)| *task);
    let ids: Vec<u32> = by_task.chain(done.members.iter().copied()).collect();
    let tasks = scope.every_task()?.filter(is_member("task", members(&ids)));
    let tasks = tasks.select([col("task"), col("name"), col("pid"), col("run_ns")]);
    let tasks = tasks.collect()?;
    let numbers = tasks.column("task")?.u32()?.iter();
    let names = tasks.column("name")?.str()?.iter();
    let pids = tasks.column("pid")?.i32()?.iter();
    let rows = numbers.zip(names.zip(pids).zip(tasks.column("run_ns")?.i64()?.iter()));
    let named = rows.filter_map(|(task, ((name, pid), run_ns))| {
        let named = Named {
            name: name?.to_owned(),
            pid: pid?,
            run_ns: run_ns?,
        };
        Some((task?, named))
    });
    Ok(named.collect())
}

/// The names of the busiest tasks, each once.
fn main_names(done: &Done, named: &Names) -> Vec<String> {
    let by_task = done.by_task.iter().map(|(task, _)| task);
    let mut found: Vec<String> = Vec::new();
    // Those who stand in for the workers are the component's, makers and receivers of wakeups alike.
    let tasks: Vec<&u32> = match done.members.is_empty() {
        true => by_task.collect(),
        false => done.members.iter().collect(),
    };
    for Named { name, .. } in tasks.into_iter().filter_map(|task| named.get(task)) {
        if found.len() < NAMES && !found.contains(name) {
            found.push(name.clone());
        }
    }
    found
}
