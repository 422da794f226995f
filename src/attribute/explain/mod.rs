//! What a word of the report means in this trace: by which rules it was given, how often, and examples with the events
//! around them.

mod choose;
mod events;
mod figures;
mod how;
mod labels;
mod places;
mod senses;

use polars::prelude::*;
use rustc_hash::FxHashMap;
use serde::Serialize;

pub use self::choose::{Row, Value};
pub use self::events::EventLine;
pub use self::figures::{Figure, Unit};
pub use self::how::Settings;
pub use self::senses::{Kind, NoWord, Sense, find};

use self::places::Place;
use super::answer::{Answer, Known, Readings};
use super::scope::{Facts, Scope};
use super::{AnswerError, Selection, answer_within};
use crate::pipeline::{Moment, Prepared, Watch};
use crate::replay::Counts;
use crate::replay::flips::is_bound;
use crate::tables::{Table, TableSet, Tables};

/// What is known of a word, in each of its meanings.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    pub settings: Settings,
    pub senses: Vec<SenseFacts>,
    /// Task names by pid, the last of each.
    #[serde(skip)]
    names: FxHashMap<i32, String>,
}

/// One meaning of a word.
#[derive(Debug, Clone, Serialize)]
pub struct SenseFacts {
    pub kind: &'static str,
    pub word: &'static str,
    /// By which rules it is given, each a full sentence.
    pub how: Vec<String>,
    /// The numbers of the report behind it.
    pub figures: Vec<Figure>,
    pub rows: Known<RowsFacts>,
}

/// The rows that have a word.
#[derive(Debug, Clone, Serialize)]
pub struct RowsFacts {
    pub table: &'static str,
    /// What the rows are, if they are not just those of the word.
    pub note: Option<&'static str>,
    /// Rows of the table that count.
    pub of: u64,
    pub count: Readings<u64>,
    /// The largest, spread over the trace.
    pub examples: Vec<Example>,
}

/// A row, and what was recorded of it.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    pub row: Row,
    /// Other CPUs that ran nothing at the wakeup, or as the wait began, allowed or not.
    pub idle: Vec<IdleCpu>,
    pub events: Vec<EventLine>,
    /// Events in the middle that are left out.
    pub events_left_out: u64,
    #[serde(skip)]
    watch: Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IdleCpu {
    pub cpu: u32,
    /// From the CPU that was chosen.
    pub distance: &'static str,
    pub for_ns: i64,
    /// It ran nothing as the trace began: nobody knows for how long before.
    #[serde(skip)]
    pub from_start: bool,
}

/// The tables in which the rows of some words are.
pub fn tables(senses: &[Sense]) -> TableSet {
    // Which of a table's rows count makes no difference here.
    let places = senses.iter().map(|sense| match Place::of(*sense, true) {
        Some(place) => vec![place.table],
        None => reports(),
    });
    let mut tables: Vec<Table> = places.flatten().collect();
    tables.push(Table::Tasks);
    tables.sort_unstable();
    tables.dedup();
    TableSet::full(&tables)
}

/// The tables of a whole report, which tells what has such a word.
fn reports() -> Vec<Table> {
    let report = TableSet::analysis();
    let tables = Table::ALL.iter().copied();
    tables.filter(|table| report.contains(*table)).collect()
}

/// Explains words by the rows of a replayed trace; events are still to be read ([`Explanation::watches`]).
///
/// # Errors
/// A selection that matches nothing, or tables that cannot be read back.
pub fn explain(
    prepared: &Prepared,
    counts: &Counts,
    tables: &Tables,
    selection: &Selection,
    senses: &[Sense],
) -> Result<Explanation, AnswerError> {
    let scope = Scope::new(Facts::new(prepared, counts), tables, selection)?;
    let reported = senses.iter().any(|sense| Place::of(*sense, true).is_none());
    let answer = match reported {
        true => Some(answer_within(&scope, selection)?),
        false => None,
    };
    Ok(explain_within(&scope, answer.as_ref(), senses)?)
}

fn explain_within(
    scope: &Scope,
    answer: Option<&Answer>,
    senses: &[Sense],
) -> PolarsResult<Explanation> {
    let names = names(scope)?;
    let sends = super::ipis::sends(&scope.facts);
    let facts = senses.iter().map(|sense| {
        let place = match (Place::of(*sense, sends), answer) {
            (Some(place), _) => Known::Value(place),
            (None, Some(answer)) => Place::told(*sense, answer, scope, &names),
            (None, None) => Known::unknown("nothing was computed"),
        };
        Ok(SenseFacts {
            kind: sense.kind.key(),
            word: sense.word,
            how: how::rules(&scope.facts, *sense),
            figures: answer.map_or_else(Vec::new, |answer| figures::figures(answer, *sense)),
            rows: match place {
                Known::Value(place) => Known::Value(rows(scope, &place, &names)?),
                Known::Unknown { unknown } => Known::unknown(unknown),
            },
        })
    });
    Ok(Explanation {
        settings: Settings::of(&scope.facts),
        senses: facts.collect::<PolarsResult<_>>()?,
        names: names
            .values()
            .map(|(name, pid)| (*pid, name.clone()))
            .collect(),
    })
}

/// Name and pid by task number.
type Names = FxHashMap<i64, (String, i32)>;

fn names(scope: &Scope) -> PolarsResult<Names> {
    let columns = [col("task"), col("pid"), col("name")];
    let tasks = scope.every_task()?.select(columns).collect()?;
    let ids = tasks.column("task")?.u32()?.iter();
    let pids = tasks.column("pid")?.i32()?.iter();
    let names = tasks.column("name")?.str()?.iter();
    let named = ids.zip(pids.zip(names));
    Ok(named
        .filter_map(|(id, (pid, name))| Some((i64::from(id?), (name?.to_owned(), pid?))))
        .collect())
}

fn rows(scope: &Scope, place: &Place, names: &Names) -> PolarsResult<RowsFacts> {
    let chosen = choose::choose(scope, place)?;
    let count = choose::readings(scope, &chosen);
    let examples = chosen.rows.into_iter().map(|mut row| {
        let watch = watch(place.table, &row, names);
        name_tasks(&mut row, names);
        drop_open_ends(&mut row);
        Example {
            row,
            watch,
            idle: Vec::new(),
            events: Vec::new(),
            events_left_out: 0,
        }
    });
    Ok(RowsFacts {
        table: place.table.as_str(),
        note: place.note,
        of: chosen.of,
        count,
        examples: examples.collect(),
    })
}

/// Columns that hold a task's number.
const TASKS: [&str; 5] = ["task", "waker", "wakee", "by_task", "interrupted"];

fn name_tasks(row: &mut Row, names: &Names) {
    for column in TASKS {
        if let Some(value) = row.get_mut(column)
            && let Value::Number(task) = value
            && let Some((name, pid)) = names.get(task)
        {
            *value = Value::Task {
                name: name.clone(),
                pid: *pid,
            };
        }
    }
}

/// Leaves out the upper ends of intervals that nothing bounds: they would look like numbers.
fn drop_open_ends(row: &mut Row) {
    for column in ["waker_most", "wakee_most"] {
        let most = number(row, column).map(|most| u32::try_from(most).unwrap_or(u32::MAX));
        if most.is_some_and(|most| !is_bound(most)) {
            row.remove(column);
        }
    }
}

fn number(row: &Row, column: &str) -> Option<i64> {
    match row.get(column) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    }
}

/// Which events belong to a row.
fn watch(table: Table, row: &Row, names: &Names) -> Watch {
    let ns = |columns: &[&str]| columns.iter().find_map(|column| number(row, column));
    let pid = |column: &str| {
        let task = number(row, column)?;
        names.get(&task).map(|(_, pid)| *pid)
    };
    let cpus = |columns: &[&str]| {
        let cpus = columns.iter().filter_map(|column| number(row, column));
        cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
    };
    let from_ns = ns(&["waking_ns", "start_ns", "ts_ns", "wakeup_ns"]).unwrap_or(0);
    let to_ns = ns(&["switch_in_ns", "end_ns", "wakeup_ns"]).unwrap_or(from_ns);
    let watch = Watch {
        from_ns,
        to_ns,
        ..Watch::default()
    };
    match table {
        Table::Wakeups => Watch {
            pid: pid("wakee"),
            cpus: cpus(&["chosen_cpu"]),
            before: 1,
            idle_at_ns: ns(&["wakeup_ns", "waking_ns"]),
            ..watch
        },
        Table::Waits => Watch {
            pid: pid("task"),
            // Where it was queued first is the CPU that was chosen.
            cpus: cpus(&["first_cpu", "last_cpu"]),
            before: 4,
            idle_at_ns: Some(from_ns),
            ..watch
        },
        Table::Slices => Watch {
            pid: pid("task"),
            ..watch
        },
        // What is said of a task is said of the whole window.
        Table::Tasks => Watch {
            from_ns: i64::MIN,
            to_ns: i64::MIN,
            ..watch
        },
        Table::Migrations => Watch {
            pid: pid("task"),
            before: 2,
            after: 1,
            idle_at_ns: Some(from_ns),
            ..watch
        },
        Table::Flips => Watch {
            pid: pid("wakee"),
            after: 3,
            ..watch
        },
        Table::Ipis => {
            let times = ["latency_ns", "handler_ns"].map(|time| number(row, time).unwrap_or(0));
            let length = times.into_iter().fold(0, i64::saturating_add);
            Watch {
                cpus: cpus(&["target_cpu"]),
                to_ns: from_ns.saturating_add(length),
                ..watch
            }
        }
        Table::Flushes => Watch {
            cpus: cpus(&["cpu"]),
            to_ns: from_ns.saturating_add(number(row, "wait_ns").unwrap_or(0)),
            ..watch
        },
        _ => Watch {
            cpus: cpus(&["cpu"]),
            ..watch
        },
    }
}

/// Most idle CPUs that are listed with an example.
const IDLE: usize = 8;

impl Explanation {
    /// The moments whose events are to be read from the trace.
    pub fn watches(&mut self) -> Vec<Watch> {
        let examples = self.examples();
        examples.map(|example| example.watch.clone()).collect()
    }

    /// Adds what was read of them.
    pub fn show(&mut self, prepared: &Prepared, moments: Vec<Moment>) {
        let types = prepared.trace.types();
        let names = std::mem::take(&mut self.names);
        let name = |pid: i32| names.get(&pid).cloned().unwrap_or_default();
        for (example, moment) in self.examples().zip(moments) {
            example.idle = idle(prepared, &example.watch, &moment);
            let lines = moment.events.iter();
            example.events = lines
                .map(|event| EventLine::new(event, types, name))
                .collect();
            example.events_left_out = moment.left_out;
        }
    }

    fn examples(&mut self) -> impl Iterator<Item = &mut Example> {
        let rows = self
            .senses
            .iter_mut()
            .filter_map(|sense| match &mut sense.rows {
                Known::Value(rows) => Some(rows),
                Known::Unknown { .. } => None,
            });
        rows.flat_map(|rows| &mut rows.examples)
    }
}

/// The CPUs that ran nothing, the nearest to the one concerned first, and of these the longest idle.
fn idle(prepared: &Prepared, watch: &Watch, moment: &Moment) -> Vec<IdleCpu> {
    let (Some(at), Some(near)) = (watch.idle_at_ns, watch.cpus.first()) else {
        return Vec::new();
    };
    let topology = &prepared.machine.topology;
    let others = moment.idle.iter().filter(|(cpu, _)| cpu != near);
    let mut idle: Vec<_> = others
        .map(|(cpu, since)| {
            let distance = topology.distance(*near, *cpu);
            let from_start = *since <= prepared.config.start_ns;
            let for_ns = std::cmp::Reverse(at.saturating_sub(*since));
            (distance, for_ns, *cpu, from_start)
        })
        .collect();
    idle.sort_unstable();
    let idle = idle.into_iter().take(IDLE);
    idle.map(
        |(distance, std::cmp::Reverse(for_ns), cpu, from_start)| IdleCpu {
            cpu,
            distance: distance.as_str(),
            for_ns,
            from_start,
        },
    )
    .collect()
}
