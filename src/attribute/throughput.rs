//! Units of work and what the time of one went into (`analysis` §7).

use polars::prelude::{PolarsResult, col};
use rustc_hash::FxHashMap;

use super::AnswerError;
use super::answer::{Known, Ledger, Readings, TaskUnits, Throughput, UnitSpan};
use super::cross_llc::Costs;
use super::ledger::of_reading;
use super::path;
use super::scope::{Scope, is_member, members};
use super::work::{self, Done};

/// Names that stand for the tasks that do the units.
const NAMES: usize = 3;

/// Says throughput. Units and what is counted beside them are the whole machine's, whatever is selected.
///
/// # Errors
/// A task of `--work` that the trace does not have, or tables that cannot be read back.
pub fn throughput(
    scope: &Scope,
    ledger: &Ledger,
    crossing: &Costs,
) -> Result<Known<Throughput>, AnswerError> {
    let done = match work::measure(scope)? {
        Known::Value(done) => done,
        Known::Unknown { unknown } => return Ok(Known::Unknown { unknown }),
    };
    Ok(facts_of(scope, ledger, crossing, done)?)
}

fn facts_of(
    scope: &Scope,
    ledger: &Ledger,
    crossing: &Costs,
    done: Done,
) -> PolarsResult<Known<Throughput>> {
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
    let named = names(scope, &done)?;
    let work = scope.facts.config.work.as_ref();
    let by_task = done.by_task.iter().take(scope.top);
    let by_task = by_task.filter_map(|(task, units)| {
        let (name, pid) = named.get(task)?.clone();
        Some(TaskUnits {
            name,
            pid,
            units: *units,
        })
    });
    Ok(Known::Value(Throughput {
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
        tasks: main_names(&done, &named),
        by_task: match done.who() {
            Known::Value(_) => Known::Value(by_task.collect()),
            Known::Unknown { unknown } => Known::Unknown { unknown },
        },
        critical: path::with_costs(scope, &done.span, crossing)?,
        notes: done.notes,
    }))
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

/// Name and pid, by task.
type Names = FxHashMap<u32, (String, i32)>;

fn names(scope: &Scope, done: &Done) -> PolarsResult<Names> {
    let by_task = done.by_task.iter().map(|(task, _)| *task);
    let ids: Vec<u32> = by_task.chain(done.members.iter().copied()).collect();
    let tasks = scope.every_task()?.filter(is_member("task", members(&ids)));
    let tasks = tasks.select([col("task"), col("name"), col("pid")]);
    let tasks = tasks.collect()?;
    let numbers = tasks.column("task")?.u32()?.iter();
    let names = tasks.column("name")?.str()?.iter();
    let named = numbers.zip(names.zip(tasks.column("pid")?.i32()?.iter()));
    Ok(named
        .filter_map(|(task, (name, pid))| Some((task?, (name?.to_owned(), pid?))))
        .collect())
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
    for (name, _) in tasks.into_iter().filter_map(|task| named.get(task)) {
        if found.len() < NAMES && !found.contains(name) {
            found.push(name.clone());
        }
    }
    found
}
