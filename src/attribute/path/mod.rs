//! The critical path: what the time of a span of work went into (`analysis` §7).
//!
//! One chain tiles the span exactly. It is followed backwards from the task that was active at the end:
//!
//! ```text
//!   task 10  ══════run══════╗ waking                            ╔═══run═══ (end)
//!                           ╚══transit══╗ enqueue         waking║
//!   task 20        asleep                ──wait──╔═══run════════╝
//! ```
//!
//! - A **run** goes back to its switch-in; what handlers of other CPUs' interrupts and waits for TLB shootdowns took of
//!   it is told apart.
//! - A **wait** goes back to where it began. After a preemption or a move the chain goes on in the same task, which ran
//!   before. After a wakeup or a fork it goes on with that.
//! - A **wakeup** is transit back to its waking; there the chain changes to the waker, which ran then. So it does for a
//!   parent at the enqueue of its child. A wait whose CPU ran nothing (verdict `transit`) is transit, too.
//! - Where an **interrupt** woke, the task was blocked since it last left a CPU, and the chain goes on in it before that.
//!   A soft interrupt is one if an interrupt raised it (`irq-exit`): whom it interrupted had no part in it. If the
//!   interrupted task raised it itself (`inline`), that task is the waker; and if no event tells, too, as for the pair of
//!   a wakeup everywhere else (§1): without events of soft interrupts all loopback traffic would be blocked on nothing
//!   otherwise. How many wakeups were followed so is counted (`wakeups_by_waker`).
//! - A wakeup that found its wakee on a CPU or queued still changed nothing, and is passed over.
//! - What lies between two stretches of a task that do not meet is **unknown**, with the reason. Withheld time is (§1: it is
//!   never counted as waiting). Where events of the CPU are missing, only the sleep outside the gap counts as such;
//!   what the task did before the gap is known again, so that the chain goes on there.
//!
//! It tiles because each piece ends where the one later begins: a stretch is clipped to where the chain is, and whatever
//! is between is a piece too. It ends because a task's stretches are gone through in order, and because tasks may change
//! within one instant only so often: beyond that the stamps contradict each other, and what is before is unknown up to
//! the next earlier stamp of the task.
//!
//! Rows come in the order in which they were completed, so that those of a part of the span are loaded at a time, and
//! sorted by task ([`segments`], [`load`], [`history`]); cursors go backwards through one part after the other
//! ([`chain`]). Neither selected tasks nor selected CPUs limit the path.

mod chain;
mod cpus;
mod facts;
mod gaps;
mod history;
mod load;
mod runs;
mod segments;
mod spans;
mod tally;
#[cfg(test)]
mod tests;
mod within;
mod workload;

use polars::prelude::PolarsResult;
use rayon::prelude::*;

use self::chain::Cursor;
use self::facts::facts;
pub use self::runs::CrossingRuns;
use self::segments::{SEGMENT_ROWS, plan};
use self::tally::{Shares, Tally};
pub use self::within::within;
use self::workload::Groups;
use super::answer::PathFacts;
use super::cross_llc::Costs;
use super::scope::Scope;
use super::work::Span;
use crate::tables::Table;

/// Into how many parts the span is divided, each with a path of its own, to see how paths differ.
const WINDOWS: i64 = 8;

/// The critical path of a span.
///
/// # Errors
/// Tables that cannot be read back.
pub fn critical_path(scope: &Scope, span: &Span) -> PolarsResult<PathFacts> {
    Ok(measure(scope, span)?.with(&Costs::measure(scope)?))
}

/// Follows the critical path of a span.
pub fn measure(scope: &Scope, span: &Span) -> PolarsResult<Measured> {
    by_segments(scope, span, SEGMENT_ROWS)
}

/// A path, of which what crossing LLCs cost within its runs is still to be told: that takes a while to be known.
pub struct Measured {
    pub facts: PathFacts,
    pub runs: CrossingRuns,
}

impl Measured {
    /// The path, with what crossing cost.
    pub fn with(self, crossing: &Costs) -> PathFacts {
        let total_ns = self.facts.path.total_ns;
        PathFacts {
            running_within: within(&self.runs, crossing, total_ns),
            ..self.facts
        }
    }
}

/// A part of the span with the path from its own end.
struct Window {
    length_ns: i64,
    cursor: Cursor,
    shares: Shares,
}

fn by_segments(scope: &Scope, span: &Span, rows: usize) -> PolarsResult<Measured> {
    let tasks = scope.tables().rows(Table::Tasks);
    let gaps = gaps::gaps(scope)?;
    let groups = Groups::read(scope)?;
    let group = span.last_task.map(|task| groups.of(task));
    let workload =
        |task: u32| !scope.leaves_out(task) && group.is_none_or(|group| groups.of(task) == group);
    let mut tally = Tally::new(&gaps, scope.top);
    let mut cursor = Cursor::new(span.start_ns, span.end_ns, span.last_task);
    let mut windows = windows(span);
    let segments = plan(scope, span.start_ns, span.end_ns, rows)?;
    let load = |number: usize| match segments.get(number) {
        Some(segment) => load::load(scope, segment, tasks).map(Some),
        None => Ok(None),
    };
    let mut left = segments.len().wrapping_sub(1);
    let mut ahead = load(left)?;
    while let Some(loaded) = ahead {
        left = left.wrapping_sub(1);
        let walk = || {
            rayon::join(
                || cursor.walk(&loaded, &gaps, &workload, &mut tally),
                || {
                    windows.par_iter_mut().for_each(|window| {
                        let shares = &mut window.shares;
                        window.cursor.walk(&loaded, &gaps, &workload, shares);
                    });
                },
            )
        };
        // The next segment is loaded meanwhile.
        ahead = rayon::join(walk, || load(left)).1?;
    }
    Ok(Measured {
        facts: facts(scope, span, &mut tally, &windows)?,
        runs: tally.runs,
    })
}

fn windows(span: &Span) -> Vec<Window> {
    let length = i128::from(span.end_ns) - i128::from(span.start_ns);
    let bound = |n: i64| {
        let ns = i128::from(span.start_ns) + length * i128::from(n) / i128::from(WINDOWS);
        i64::try_from(ns).unwrap_or(span.end_ns)
    };
    let each = (0..WINDOWS).map(|n| (n, bound(n), bound(n + 1)));
    let each = each.filter(|(_, start, end)| end > start);
    each.map(|(n, start_ns, end_ns)| {
        let task = span.last_task.filter(|_| n + 1 == WINDOWS);
        Window {
            length_ns: end_ns - start_ns,
            cursor: Cursor::new(start_ns, end_ns, task),
            shares: Shares::default(),
        }
    })
    .collect()
}
