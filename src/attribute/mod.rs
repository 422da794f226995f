//! From tables to the answer: one file for each question, each a pipeline over lazy frames, or a loop over blocks of
//! columns where there are millions of rows. Nothing is computed here that a table does not hold, and reports compute
//! nothing at all.

pub mod answer;
mod blocks;
mod bounces;
pub(crate) mod caveats;
mod census;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod cost;
mod cross_llc;
mod domains;
mod durations;
pub mod explain;
pub mod fitness;
mod flips;
mod idle_search;
mod ipis;
mod ledger;
mod migrations;
mod moments;
#[cfg(test)]
mod moves_tests;
mod pair_waits;
mod pairs;
mod path;
mod processes;
mod quantiles;
#[cfg(test)]
mod recorder_tests;
mod resample;
mod scope;
mod sets;
mod stack_spread;
mod tasks;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod throughput;
mod trace_facts;
mod trimmed;
mod waits;
mod wakeups;
mod work;

use polars::prelude::PolarsError;

use self::answer::{Answer, FlipsAndBounces, Known, SCHEMA_VERSION};
use self::census::Census;
pub use self::path::critical_path;
pub use self::scope::{Facts, Scope};
pub use self::trace_facts::lost_events;
pub use self::work::Span;
use crate::pipeline::Prepared;
use crate::replay::Counts;
use crate::tables::Tables;
use crate::wording::many;

/// What a user wants to see of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Limits the ledger to these CPUs, wakeups and migrations to those that go to them, waits to those that end
    /// on them.
    pub cpus: Option<Vec<u32>>,
    /// A pid, or a shell pattern over names: limits wakeups, waits and migrations to those of matching tasks.
    pub task: Option<String>,
    /// How many of the worst pairs and tasks are listed.
    pub top: usize,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            cpus: None,
            task: None,
            top: 10,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    #[error(
        "{option}{pattern}: none of the trace's {} has that pid or name; give a pid, or a pattern such as `nginx*`",
        many(*.tasks as u64, "task")
    )]
    NoTask {
        option: &'static str,
        pattern: String,
        tasks: usize,
    },
    #[error("--cpu {asked}: none of these is in the trace, which has CPUs {found}")]
    NoCpu { asked: String, found: String },
    #[error("cannot query the tables: {0}")]
    Tables(#[from] PolarsError),
}

/// Answers every question that `analyze` asks of a replayed trace.
///
/// # Errors
/// A selection that matches nothing, or tables that cannot be read back.
pub fn answer(
    prepared: &Prepared,
    counts: &Counts,
    tables: &Tables,
    selection: &Selection,
) -> Result<Answer, AnswerError> {
    let scope = Scope::new(Facts::new(prepared, counts), tables, selection)?;
    answer_within(&scope, selection)
}

fn answer_within(scope: &Scope, selection: &Selection) -> Result<Answer, AnswerError> {
    let ledger = ledger::ledger(scope)?;
    // The questions that go through all rows, on several processors.
    let of_wakeups = || -> Result<_, PolarsError> {
        let mut census = Census::take(scope.wakeups())?;
        let wakeups = wakeups::wakeups(scope, &mut census);
        let left_out = scope.wakeups_of_recorder().map(Census::take);
        let left_out = left_out.transpose()?.unwrap_or_default();
        Ok((wakeups, idle_search::idle_search(scope, &census, &left_out)))
    };
    let of_the_worst = || -> Result<_, PolarsError> {
        let crossing = cross_llc::Costs::measure(scope)?;
        let pairs = pairs::pairs(scope, &crossing)?;
        let tasks = tasks::tasks(scope, &crossing)?;
        Ok((waits::waits(scope)?, pairs, tasks, crossing))
    };
    let ((of_wakeups, of_the_worst), (throughput, flips)) = rayon::join(
        || rayon::join(of_wakeups, of_the_worst),
        || {
            let throughput = || -> Result<_, AnswerError> {
                let done = work::measure(scope)?;
                Ok((throughput::throughput(scope, &ledger, &done)?, done))
            };
            rayon::join(throughput, || flips::flips(scope))
        },
    );
    let (wakeups, sis) = of_wakeups?;
    let (waits, pairs, tasks, crossing) = of_the_worst?;
    let ((throughput, done), flips) = (throughput?, flips?);
    let throughput = match throughput {
        Known::Value(measured) => Known::Value(measured.with(&crossing)),
        Known::Unknown { unknown } => Known::Unknown { unknown },
    };
    let cross_llc = crossing.answer();
    let fitness = fitness::fitness(scope, &ledger, &wakeups, &cross_llc, &flips, &throughput);
    let mut caveats = caveats::caveats(scope, selection, &ledger, &wakeups);
    caveats.extend(caveats::without_process(processes::without_process(scope)?));
    Ok(Answer {
        schema_version: SCHEMA_VERSION,
        trace: trace_facts::trace_facts(&scope.facts),
        sis,
        cross_llc,
        migrations: migrations::migrations(scope)?,
        domains: domains::domains(scope)?,
        flips: FlipsAndBounces {
            decisions: flips,
            bounces: bounces::bounces(scope)?,
        },
        ipis: ipis::ipis(scope)?,
        throughput,
        pairs,
        tasks,
        llcs: ledger::llcs(scope)?,
        processes: processes::processes(scope, &done)?,
        compare: Known::unknown("one trace alone: nothing was compared"),
        ledger,
        wakeups,
        waits,
        fitness,
        caveats,
    })
}
