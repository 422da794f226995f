//! `ttwu analyze`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::output::Output;
use super::progress::Progress;
use super::replaying::Replaying;
use super::values::{self, Affinity, Senses};
use super::{Common, Failure, errors};
use crate::attribute::explain::{self, Sense};
use crate::attribute::{self, Selection};
use crate::pipeline::{self, Prepared, RunOptions};
use crate::replay::Counts;
use crate::report::terminal::{self, Section, View};
use crate::report::{self, glossary, json};
use crate::tables::{Budget, Builders, TableSet, Tables};

/// Tasks and pairs that are listed where `--top` is not given.
const TOP_OF_TERMINAL: usize = 3;
const TOP_OF_JSON: usize = 100;

const EXAMPLES: &str = "\
Examples:
  perf record -a -e 'sched:*' -- sleep 5 && ttwu analyze perf.data
  ttwu analyze trace.dat --topology lscpu.txt
  ttwu analyze trace.dat --topology 'llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7'
  ttwu analyze trace.dat --from marker:window-start --to marker:window-end
  ttwu analyze perf.data --from 500ms --to -200ms --task 'postgres*' --top 10
  ttwu analyze trace.dat --work marker:wakelab
  ttwu analyze perf.data --work event:syscalls:sys_exit_sendto:ret=64
  ttwu analyze perf.data --json | jq .ledger

";

/// Say where CPU time and wakeups were lost
#[derive(Debug, Args)]
#[command(after_long_help = after_help())]
pub struct Analyze {
    /// The trace: perf.data (perf record) or trace.dat (trace-cmd record)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    replaying: Replaying,

    /// Where a task may run when the trace does not tell its affinity
    #[arg(long, value_enum, value_name = "READING", default_value_t = Affinity::Both)]
    affinity: Affinity,

    /// Count only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = clap::builder::ValueParser::new(values::cpus))]
    cpu: Option<CpuList>,

    /// Count only tasks with such names or this pid; * and ? are wildcards
    #[arg(long, value_name = "PATTERN", value_parser = values::task)]
    task: Option<String>,

    /// How many tasks and pairs to list [default: 3, with --json 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top: Option<usize>,

    /// Print every section in full, however long
    #[arg(long, conflicts_with = "json")]
    all: bool,

    /// Print only these sections, in full
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = clap::builder::ValueParser::new(values::section), conflicts_with_all = ["json", "all"])]
    section: Vec<Section>,

    /// Say what a word of the report means, how it was computed, and show examples with their events
    ///
    /// WORD is a verdict, path, class, distance, origin, ledger row, category of the critical path, cause of a migration,
    /// kind of interrupt, policy of flips, role, reading, or a row or column of the report such as lost, moved, gain or
    /// 'cold cache'. KIND:WORD, as in path:local, takes one meaning of several. A word that is none lists them all.
    #[arg(long, value_name = "WORD", value_parser = values::word, conflicts_with_all = ["all", "section"])]
    explain: Option<Senses>,

    /// Print JSON (described by docs/report.schema.json)
    #[arg(long)]
    json: bool,

    /// Write the report to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

type CpuList = Vec<u32>;

fn after_help() -> String {
    let words = [
        (
            "Rows of the ledger of CPU time (the first that holds):",
            &glossary::LEDGER[..],
        ),
        (
            "Verdicts on waits (the first that holds):",
            &glossary::VERDICTS[..],
        ),
        ("Paths of wakeups:", &glossary::PATHS[..]),
        ("Classes of wakeups (--json):", &glossary::CLASSES[..]),
        (
            "Distances between CPUs (the smallest thing they share):",
            &glossary::DISTANCES[..],
        ),
    ];
    let words = words.map(|(title, terms)| glossary::help(title, terms) + "\n");
    format!("{EXAMPLES}{}{}", words.concat(), super::EXIT_CODES)
}

impl Analyze {
    pub fn run(&self, common: Common) -> Result<(), Failure> {
        self.replaying.check(common)?;
        let output = Output::new(self.output.as_deref(), &self.file)?;
        let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
        let prepared = {
            let progress = Progress::new("surveying", bytes, common);
            let options = RunOptions {
                readings: self.affinity.readings(),
                ..self.replaying.options()
            };
            pipeline::prepare(&self.file, &options, &|n| progress.tick(n))?
        };
        if let Some(warning) = prepared.machine.topology.uncovered() {
            errors::warn(&warning, common);
        }
        let text = match &self.explain {
            Some(Senses(senses)) => self.explained(&prepared, senses, common)?,
            None => self.reported(&prepared, common)?,
        };
        errors::warn_of_damage(&prepared.trace, &prepared.survey, common);
        output.write(&text, common)
    }

    fn view(&self) -> View {
        match (self.all, self.section.as_slice()) {
            (true, _) => View::All,
            (false, []) => View::Short,
            (false, sections) => View::Only(sections.to_vec()),
        }
    }

    fn top(&self) -> usize {
        let default = if self.json {
            TOP_OF_JSON
        } else {
            TOP_OF_TERMINAL
        };
        self.top.unwrap_or(default)
    }

    fn reported(&self, prepared: &Prepared, common: Common) -> Result<String, Failure> {
        let (counts, tables) = replay(prepared, &TableSet::analysis(), common)?;
        let answer = attribute::answer(prepared, &counts, &tables, &self.selection())?;
        tables.leave();
        Ok(match self.json {
            true => json::render(&answer)?,
            false => terminal::render(&answer, self.top(), &self.view()),
        })
    }

    fn explained(
        &self,
        prepared: &Prepared,
        senses: &[Sense],
        common: Common,
    ) -> Result<String, Failure> {
        let (counts, tables) = replay(prepared, &explain::tables(senses), common)?;
        // Roles and pairs are looked for among more than are listed.
        let selection = Selection {
            top: self.top().max(TOP_OF_JSON),
            ..self.selection()
        };
        let mut found = explain::explain(prepared, &counts, &tables, &selection, senses)?;
        tables.leave();
        let moments = pipeline::reread(prepared, &found.watches());
        found.show(prepared, moments);
        Ok(match self.json {
            true => report::explain::json(&found)?,
            false => report::explain::render(&found),
        })
    }

    fn selection(&self) -> Selection {
        Selection {
            cpus: self.cpu.clone(),
            task: self.task.clone(),
            top: self.top(),
        }
    }
}

/// Replays a trace into these tables.
fn replay(
    prepared: &Prepared,
    wanted: &TableSet,
    common: Common,
) -> Result<(Counts, Tables), Failure> {
    let progress = Progress::new("replaying", prepared.trace.meta().data_bytes, common);
    let mut builders = Builders::new(wanted, Budget::default());
    let counts = pipeline::replay(prepared, builders.sink(), &|n| progress.tick(n));
    Ok((counts, builders.finish()?))
}
