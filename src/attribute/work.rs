//! The work that a trace shows: how many units, and the span that they lie in (`analysis` §7).
//!
//! A unit lies in the window if it begins and ends in it. Where each mark ends one unit, and begins the next, the first
//! mark in the window ends none: `n` marks are `n − 1` units. The unit that lies across the border of two windows is in
//! neither.

mod component;
mod counts;
mod cycles;
mod marks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use polars::prelude::PolarsResult;

use super::AnswerError;
use super::answer::Known;
use super::scope::Scope;
use crate::replay::units::Work;
use crate::tables::Table;

pub use counts::count;

/// The span that the units lie in, and where the chain begins.
pub struct Span {
    pub start_ns: i64,
    pub end_ns: i64,
    /// the task (TaskId.0) that was active at the end: the chain goes backwards from it
    pub last_task: Option<u32>,
}

/// The units in the window.
pub struct Done {
    pub units: u64,
    pub span: Span,
    /// What happens behind the first stamp, and not behind the second, counts as the units' own.
    pub counted: (i64, i64),
    /// See [`Done::who`].
    pub by_task: Vec<(u32, u64)>,
    /// The tasks that wake each other, the busiest first, where they stand in for what does the units.
    pub members: Vec<u32>,
    /// So many more at most may have been done in the span, of which no mark tells.
    pub missed_at_most: u64,
    /// What the figures rest on, each a full sentence.
    pub notes: Vec<String>,
}

/// Counts the units of work in the window, whatever tasks and CPUs are selected.
///
/// # Errors
/// A task that the trace does not have, or tables that cannot be read back.
pub fn measure(scope: &Scope) -> Result<Known<Done>, AnswerError> {
    let Some(work) = &scope.facts.config.work else {
        return Ok(component::count_wakeups(scope)?);
    };
    Ok(match work {
        Work::Task(pattern) => cycles::count(scope, pattern)?,
        Work::Event(_) | Work::Marker(_) => marks::count(scope, work)?,
        Work::Total(units) => component::of_total(scope, *units)?,
    })
}

impl Done {
    /// Of each task how many units it did, the most first: the task that ran as the mark was made, or whose cycle it was;
    /// of wakeups, the waker. Sums to the units, but for those whose mark was made while its CPU ran no task.
    pub fn who(&self) -> Known<&[(u32, u64)]> {
        match (self.by_task.is_empty(), self.members.is_empty()) {
            (false, _) => Known::Value(&self.by_task),
            (true, true) => Known::unknown("no task ran on the CPUs where the marks were made"),
            (true, false) => Known::unknown("a total does not tell who did the units"),
        }
    }
}

/// Units by task, the most first; of equals the lower number.
fn most_first(by_task: impl IntoIterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    let mut by_task: Vec<(u32, u64)> = by_task.into_iter().filter(|(_, n)| *n > 0).collect();
    by_task.sort_unstable_by_key(|(task, units)| (std::cmp::Reverse(*units), *task));
    by_task
}

/// Whether events were lost in a span, on any CPU.
fn lost_within(scope: &Scope, (start_ns, end_ns): (i64, i64)) -> PolarsResult<bool> {
    let mut lost = false;
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    let gaps = scope.every(Table::Lost);
    gaps.in_order(&["start_ns", "end_ns"], |block| {
        let gaps = block.times("start_ns", &mut starts)?.iter();
        let mut gaps = gaps.zip(block.times("end_ns", &mut ends)?);
        lost |= gaps.any(|(start, end)| *start < end_ns && *end > start_ns);
        Ok(())
    })?;
    Ok(lost)
}

const LOST: &str =
    "Events were lost within the span, so there may have been more units than were counted.";

/// Adds to a task's units; those of the idle task are nobody's.
fn credit(by_task: &mut BTreeMap<u32, u64>, task: Option<u32>, units: u64) {
    if let Some(task) = task {
        *by_task.entry(task).or_default() += units;
    }
}
