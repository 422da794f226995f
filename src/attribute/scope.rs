//! What of a trace is counted: the window, the CPUs and tasks that were selected, and the readings of affinity.

use std::ops::Range;
use std::sync::Arc;

use polars::prelude::*;
use rayon::prelude::*;
use wildmatch::WildMatch;

use super::blocks::{Block, blocks};
use super::{AnswerError, Selection};
use crate::attribute::answer::Readings;
use crate::pipeline::Prepared;
use crate::replay::survey::Survey;
use crate::replay::words::Reading;
use crate::replay::{Config, Counts, Machine};
use crate::tables::{Table, Tables};
use crate::topology::Topology;
use ttwu_parsers::decode::EventType;
use ttwu_parsers::machine_record::MachineRecord;
use ttwu_parsers::trace::TraceMeta;

/// Everything beside the tables that an answer is built from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub meta: &'a TraceMeta,
    pub types: &'a [EventType],
    pub survey: &'a Survey,
    pub machine: &'a Machine,
    pub config: &'a Config,
    pub counts: &'a Counts,
    pub record: &'a MachineRecord,
}

impl<'a> Facts<'a> {
    pub fn new(prepared: &'a Prepared, counts: &'a Counts) -> Self {
        Self {
            meta: prepared.trace.meta(),
            types: prepared.trace.types(),
            survey: &prepared.survey,
            machine: &prepared.machine,
            config: &prepared.config,
            counts,
            record: &prepared.record,
        }
    }

    pub fn topology(&self) -> &'a Topology {
        &self.machine.topology
    }

    /// How many events of a name there are; `None` if the trace does not know it.
    pub fn recorded(&self, name: &str) -> Option<u64> {
        let counts = self.types.iter().zip(&self.survey.by_type);
        counts
            .filter(|(of, _)| of.name == name)
            .map(|(_, count)| *count)
            .reduce(|a, b| a + b)
    }

    /// Why nothing can be said of LLCs, if so.
    pub fn llcs_unknown(&self) -> Option<String> {
        let topology = self.topology();
        if topology.is_known() {
            return None;
        }
        let warning = topology
            .warnings()
            .iter()
            .find(|text| text.contains("topology is unknown") || text.contains("LLC unknown"));
        Some(warning.map_or_else(|| "the topology is unknown".to_owned(), Clone::clone))
    }

    /// Why nothing can be said of what crosses LLCs, if so: with one known LLC, a CPU of none may be in another.
    pub fn crossing_unknown(&self) -> Option<String> {
        let topology = self.topology();
        let one = topology.llcs().is_some_and(|llcs| llcs.len() < 2);
        self.llcs_unknown()
            .or_else(|| topology.uncovered().filter(|_| one))
    }
}

/// The rows that count.
pub struct Scope<'a> {
    pub facts: Facts<'a>,
    tables: &'a Tables,
    cpus: Option<Arc<[bool]>>,
    tasks: Option<Arc<[bool]>>,
    /// The recorder's threads, where they are left out of the causes.
    recorder: Option<Arc<[bool]>>,
    /// The window is the whole trace: every row lies in it.
    whole: bool,
    pub top: usize,
}

impl<'a> Scope<'a> {
    pub fn new(
        facts: Facts<'a>,
        tables: &'a Tables,
        selection: &Selection,
    ) -> Result<Self, AnswerError> {
        let window = facts.config.window;
        let tasks = match &selection.task {
            Some(pattern) => Some(Matching::find(tables, "--task ", pattern)?.all()),
            None => None,
        };
        if let Some(cpus) = &selection.cpus {
            check_cpus(&facts, cpus)?;
        }
        Ok(Self {
            cpus: selection.cpus.as_deref().map(members),
            tasks,
            recorder: recorder(&facts, tables)?,
            whole: window.closed
                && window.from_ns <= facts.config.start_ns
                && window.to_ns >= facts.config.end_ns,
            top: selection.top,
            facts,
            tables,
        })
    }

    /// Goes through the selected wakees' wakeups to the selected CPUs.
    pub fn wakeups(&self) -> Rows<'_> {
        Rows {
            filter: self.selected("wakee", "chosen_cpu"),
            ..self.every_wakeup()
        }
    }

    /// Those of them that the recorder's threads made or received, where these are left out.
    pub fn wakeups_of_recorder(&self) -> Option<Rows<'_>> {
        let of = |column| Some(is_member(column, self.recorder.clone()?));
        let theirs = of("waker")?.or(of("wakee")?);
        let rows = self.wakeups();
        let filter = match rows.filter {
            Some(filter) => filter.and(theirs),
            None => theirs,
        };
        Some(Rows {
            filter: Some(filter),
            ..rows
        })
    }

    /// Whether a task is left out of the causes.
    pub fn leaves_out(&self, task: u32) -> bool {
        let recorder = self.recorder.as_ref();
        recorder.is_some_and(|set| set.get(task as usize).copied().unwrap_or(false))
    }

    /// Goes through all wakeups, whatever tasks and CPUs are selected.
    pub fn every_wakeup(&self) -> Rows<'_> {
        Rows {
            scope: self,
            table: Table::Wakeups,
            filter: None,
        }
    }

    /// The tables, of which every row counts.
    pub fn tables(&self) -> &'a Tables {
        self.tables
    }

    /// Goes through every row of a table, whatever is selected.
    pub fn every(&self, table: Table) -> Rows<'_> {
        Rows {
            scope: self,
            table,
            filter: None,
        }
    }

    /// Goes through the requests between CPUs that go to the selected ones, and that a selected task sent or was
    /// interrupted by.
    pub fn ipis(&self) -> Rows<'_> {
        let cpus = self.cpus.clone().map(|set| is_member("target_cpu", set));
        let tasks = self.tasks.clone().map(|set| {
            let sent = is_member("task", set.clone());
            sent.or(is_member("interrupted", set))
        });
        Rows {
            scope: self,
            table: Table::Ipis,
            filter: match (cpus, tasks) {
                (Some(cpus), Some(tasks)) => Some(cpus.and(tasks)),
                (cpus, tasks) => cpus.or(tasks),
            },
        }
    }

    /// Goes through the TLB flushes of the selected tasks on the selected CPUs.
    pub fn flushes(&self) -> Rows<'_> {
        Rows {
            scope: self,
            table: Table::Flushes,
            filter: self.selected("task", "cpu"),
        }
    }

    /// Goes through the selected wakees' wakeups to the selected CPUs that the kernel counts as flips, or may.
    pub fn flips(&self) -> Rows<'_> {
        Rows {
            scope: self,
            table: Table::Flips,
            filter: self.selected("wakee", "chosen_cpu"),
        }
    }

    /// Goes through the waits of the selected tasks that end on the selected CPUs.
    pub fn waits(&self) -> Rows<'_> {
        Rows {
            scope: self,
            table: Table::Waits,
            filter: self.selected("task", "last_cpu"),
        }
    }

    /// Goes through the migrations of the selected tasks to the selected CPUs.
    pub fn migrations(&self) -> Rows<'_> {
        Rows {
            scope: self,
            table: Table::Migrations,
            filter: self.selected("task", "to_cpu"),
        }
    }

    /// Hands over the selected rows of a table in the window, batch by batch; `stamp` says when a row happened.
    pub fn over(
        &self,
        table: Table,
        stamp: &Expr,
        mut take: impl FnMut(LazyFrame) -> PolarsResult<()>,
    ) -> PolarsResult<()> {
        let filter = match table {
            Table::Wakeups => self.selected("wakee", "chosen_cpu"),
            Table::Waits => self.selected("task", "last_cpu"),
            Table::Slices => self.selected("task", "cpu"),
            Table::Migrations => self.selected("task", "to_cpu"),
            Table::Ipis => self.ipis().filter,
            Table::Flips => self.selected("wakee", "chosen_cpu"),
            Table::Flushes => self.selected("task", "cpu"),
            Table::Idle | Table::Lost => {
                let cpus = self.cpus.clone();
                cpus.map(|set| is_member("cpu", set))
            }
            _ => None,
        };
        for batch in self.tables.batches(table) {
            let rows = match &filter {
                Some(filter) => batch?.filter(filter.clone()),
                None => batch?,
            };
            take(self.within(rows, stamp))?;
        }
        Ok(())
    }

    /// The rows whose stamp lies in the window.
    fn within(&self, rows: LazyFrame, stamp: &Expr) -> LazyFrame {
        if self.whole {
            return rows;
        }
        let window = self.facts.config.window;
        let ends = match window.closed {
            true => stamp.clone().lt_eq(lit(window.to_ns)),
            false => stamp.clone().lt(lit(window.to_ns)),
        };
        rows.filter(stamp.clone().gt_eq(lit(window.from_ns)).and(ends))
    }

    /// Goes through the migrations of the selected tasks to whatever CPU.
    pub fn moves_of_selected_tasks(&self) -> Rows<'_> {
        Rows {
            scope: self,
            table: Table::Migrations,
            filter: self.tasks.clone().map(|set| is_member("task", set)),
        }
    }

    /// The tasks that a pattern of `--work` means.
    pub fn tasks_at_work(&self, pattern: &str) -> Result<Arc<[bool]>, AnswerError> {
        let tasks = Matching::find(self.tables, "--work task:", pattern)?;
        // A thread has its starter's name until it is given its own: it would do the starter's work.
        Ok(members(match tasks.named.is_empty() {
            true => &tasks.formerly,
            false => &tasks.named,
        }))
    }

    /// Every task, selected or not.
    pub fn every_task(&self) -> PolarsResult<LazyFrame> {
        self.tables.lazy(Table::Tasks)
    }

    /// The selected tasks, but for those that are left out.
    pub fn tasks(&self) -> PolarsResult<LazyFrame> {
        let tasks = self.tables.lazy(Table::Tasks)?;
        let tasks = match &self.recorder {
            Some(set) => tasks.filter(is_member("task", set.clone()).not()),
            None => tasks,
        };
        Ok(match &self.tasks {
            Some(set) => tasks.filter(is_member("task", set.clone())),
            None => tasks,
        })
    }

    /// The selected CPUs.
    pub fn cpus(&self) -> PolarsResult<LazyFrame> {
        let cpus = self.tables.lazy(Table::Cpus)?;
        Ok(match &self.cpus {
            Some(set) => cpus.filter(is_member("cpu", set.clone())),
            None => cpus,
        })
    }

    /// Whether a CPU is among the selected ones.
    pub fn has_cpu(&self, cpu: u32) -> bool {
        self.cpus
            .as_ref()
            .is_none_or(|set| set.get(cpu as usize).copied().unwrap_or(false))
    }

    /// What the selection leaves of a table with these columns.
    fn selected(&self, task: &str, cpu: &str) -> Option<Expr> {
        let cpus = self.cpus.clone().map(|set| is_member(cpu, set));
        let tasks = self.tasks.clone().map(|set| is_member(task, set));
        match (cpus, tasks) {
            (Some(cpus), Some(tasks)) => Some(cpus.and(tasks)),
            (cpus, tasks) => cpus.or(tasks),
        }
    }

    /// The readings that were asked for.
    pub fn readings<T>(&self, of: impl Fn(Reading) -> T) -> Readings<T> {
        let asked = |reading| {
            let wanted = self.facts.config.readings.contains(&reading);
            wanted.then(|| of(reading))
        };
        Readings {
            seen: asked(Reading::Seen),
            any: asked(Reading::Any),
        }
    }

    /// The reading by which the worst is told: `any` where asked for, since a task that was pinned to one CPU
    /// by bad luck alone loses nothing as `seen`.
    pub fn ranking(&self) -> Reading {
        match self.facts.config.readings.contains(&Reading::Any) {
            true => Reading::Any,
            false => Reading::Seen,
        }
    }
}

/// Rows of a table to go through.
pub struct Rows<'a> {
    scope: &'a Scope<'a>,
    table: Table,
    filter: Option<Expr>,
}

impl Rows<'_> {
    /// Of these, the rows that counts count: those whose column `in_window` says so.
    pub fn counted(self) -> Self {
        let filter = match (self.scope.whole, self.filter) {
            (true, filter) => filter,
            (false, None) => Some(col("in_window")),
            (false, Some(filter)) => Some(filter.and(col("in_window"))),
        };
        Self { filter, ..self }
    }

    /// Of these, the rows of some tasks.
    pub fn of_tasks(self, column: &str, tasks: Arc<[bool]>) -> Self {
        let theirs = is_member(column, tasks);
        let filter = match self.filter {
            Some(filter) => filter.and(theirs),
            None => theirs,
        };
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Takes in these columns block by block, in the order of the rows.
    pub fn in_order(
        &self,
        columns: &[&str],
        mut take: impl FnMut(&Block) -> PolarsResult<()>,
    ) -> PolarsResult<()> {
        let tables = self.scope.tables;
        for batch in 0..tables.batch_count(self.table) {
            let rows = tables.columns(self.table, batch, columns, self.filter.clone())?;
            blocks(&rows).try_for_each(|block| take(&block))?;
        }
        Ok(())
    }

    /// Takes in these columns block by block, on all processors: each takes in a run of batches, and what each found
    /// is joined in the order of the rows.
    pub fn fold<T: Send>(
        &self,
        columns: &[&str],
        start: impl Fn() -> T + Sync,
        take: impl Fn(&mut T, &Block) -> PolarsResult<()> + Sync,
        join: impl Fn(&mut T, T),
    ) -> PolarsResult<T> {
        let run = |batches: Range<usize>| {
            let mut found = start();
            for batch in batches {
                let tables = self.scope.tables;
                let rows = tables.columns(self.table, batch, columns, self.filter.clone())?;
                blocks(&rows).try_for_each(|block| take(&mut found, &block))?;
            }
            Ok(found)
        };
        let runs = runs(self.scope.tables.batch_count(self.table));
        let found: PolarsResult<Vec<T>> = runs.into_par_iter().map(run).collect();
        let mut found = found?.into_iter();
        let mut all = found.next().unwrap_or_else(&start);
        found.for_each(|more| join(&mut all, more));
        Ok(all)
    }
}

impl Rows<'_> {
    /// Takes in these columns from the last block to the first, on this processor alone. Rows of a block are in order.
    pub fn fold_back(
        &self,
        columns: &[&str],
        mut take: impl FnMut(&Block) -> PolarsResult<()>,
    ) -> PolarsResult<()> {
        let tables = self.scope.tables;
        for batch in (0..tables.batch_count(self.table)).rev() {
            let rows = tables.columns(self.table, batch, columns, self.filter.clone())?;
            blocks(&rows).rev().try_for_each(|block| take(&block))?;
        }
        Ok(())
    }
}

/// As many batches for each processor, in order.
fn runs(batches: usize) -> Vec<Range<usize>> {
    let each = batches.div_ceil(rayon::current_num_threads()).max(1);
    let starts = (0..batches).step_by(each);
    starts
        .map(|start| start..batches.min(start + each))
        .collect()
}

/// The column of lost time under a reading.
pub fn lost_column(reading: Reading) -> &'static str {
    match reading {
        Reading::Seen => "lost_seen_ns",
        Reading::Any => "lost_any_ns",
    }
}

/// The members of a set of small numbers, by number.
pub fn members(of: &[u32]) -> Arc<[bool]> {
    let highest = of.iter().max().map_or(0, |&n| n as usize + 1);
    let mut set = vec![false; highest];
    for &number in of {
        if let Some(slot) = set.get_mut(number as usize) {
            *slot = true;
        }
    }
    set.into()
}

/// Whether a column's number is in a set; null is in none.
pub fn is_member(column: &str, set: Arc<[bool]>) -> Expr {
    let has = move |number: usize| set.get(number).copied().unwrap_or(false);
    col(column).map(
        move |numbers| {
            let name = numbers.name().clone();
            let found: BooleanChunked = match numbers.dtype() {
                DataType::UInt16 => {
                    let numbers = numbers.u16()?.iter();
                    numbers
                        .map(|n| Some(n.is_some_and(|n| has(usize::from(n)))))
                        .collect()
                }
                _ => {
                    let numbers = numbers.u32()?.iter();
                    numbers
                        .map(|n| Some(n.is_some_and(|n| has(n as usize))))
                        .collect()
                }
            };
            Ok(found.with_name(name).into_column())
        },
        |_, field| Ok(Field::new(field.name().clone(), DataType::Boolean)),
    )
}

/// The recorder's threads, unless they are to be treated as any other task.
fn recorder(facts: &Facts, tables: &Tables) -> PolarsResult<Option<Arc<[bool]>>> {
    if facts.config.include_recorder || facts.counts.recorder.tasks == 0 {
        return Ok(None);
    }
    let tasks = tables.lazy(Table::Tasks)?.filter(col("recorder"));
    let tasks = tasks.select([col("task")]).collect()?;
    let ids: Vec<u32> = tasks.column("task")?.u32()?.iter().flatten().collect();
    Ok(Some(members(&ids)))
}

/// The tasks that a pattern means: a number is a pid, anything else a glob over names.
struct Matching {
    /// By their pids or last names.
    named: Vec<u32>,
    /// Others, by names that they had before.
    formerly: Vec<u32>,
}

impl Matching {
    fn all(mut self) -> Arc<[bool]> {
        self.named.append(&mut self.formerly);
        members(&self.named)
    }

    fn find(tables: &Tables, option: &'static str, pattern: &str) -> Result<Self, AnswerError> {
        let columns = [col("task"), col("pid"), col("name"), col("former_names")];
        let tasks = tables.lazy(Table::Tasks)?.select(columns).collect()?;
        let pid: Option<i32> = pattern.parse().ok();
        let glob = WildMatch::new(pattern);
        let by_name = |name: Option<&str>| name.is_some_and(|name| glob.matches(name));
        let rows = tasks.column("task")?.u32()?.iter();
        let pids = tasks.column("pid")?.i32()?.iter();
        let names = tasks.column("name")?.str()?.iter();
        let former = tasks.column("former_names")?.str()?.iter();
        let (mut named, mut formerly) = (Vec::new(), Vec::new());
        for (((task, own_pid), name), former) in rows.zip(pids).zip(names).zip(former) {
            let Some(task) = task else {
                continue;
            };
            let of_pid = pid.is_some_and(|pid| own_pid == Some(pid));
            if of_pid || (pid.is_none() && by_name(name)) {
                named.push(task);
            } else if pid.is_none()
                && former.is_some_and(|all| all.split(" | ").any(|n| by_name(Some(n))))
            {
                formerly.push(task);
            }
        }
        if named.is_empty() && formerly.is_empty() {
            return Err(AnswerError::NoTask {
                option,
                pattern: pattern.to_owned(),
                tasks: tasks.height(),
            });
        }
        Ok(Self { named, formerly })
    }
}

fn check_cpus(facts: &Facts, cpus: &[u32]) -> Result<(), AnswerError> {
    let known = facts.machine.cpus.ids();
    if cpus.iter().any(|cpu| known.contains(cpu)) {
        return Ok(());
    }
    Err(AnswerError::NoCpu {
        asked: ttwu_parsers::topology::cpulist::format_list(cpus),
        found: ttwu_parsers::topology::cpulist::format_list(known),
    })
}
