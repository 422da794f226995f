//! `ttwu analyze`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::output::Output;
use super::progress::Progress;
use super::values::{self, Affinity, Senses};
use super::{Common, Failure, errors};
use crate::attribute::explain::{self, Sense};
use crate::attribute::{self, Selection};
use crate::pipeline::{self, Prepared, RunOptions, TimePoint};
use crate::replay::Counts;
use crate::replay::model::KernelModel;
use crate::replay::units::Work;
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

    /// Which CPUs share cores, caches and nodes: a file or folder, a specification, or live
    ///
    /// FILE is any of: a copy of /proc/schedstat, a copy of /sys/devices/system/cpu (folder or tar), the output of
    /// lscpu -p, -e or -J, kernel messages about scheduler domains, or what `ttwu topology` prints. SPEC is text
    /// such as 'llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7'. `live` is the machine this runs on, which is never
    /// assumed otherwise.
    #[arg(long, value_name = "FILE|SPEC|live", value_parser = values::topology)]
    topology: Option<String>,

    /// Count only from this time on
    ///
    /// 14.731161 (seconds on the trace's clock, as perf script and trace-cmd print them), 500ms or +1.5s (after the
    /// trace's start), -200ms (before its end), or marker:TEXT (the first marker that begins so). What happened
    /// before is replayed all the same.
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_hyphen_values = true)]
    from: Option<TimePoint>,

    /// Count only up to this time
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_hyphen_values = true)]
    to: Option<TimePoint>,

    /// What one unit of work is: task:NAME, event:NAME[:FIELD=VALUE], marker:PREFIX or total:N
    ///
    /// task:nginx* (or a pid): a completed cycle of such a task: woken, ran, blocked. event:sched:sched_process_exec or
    /// event:sched_switch:next_comm=db: every such event; a value is a number (12, -1, 0x1f) or text. marker:lab: counts
    /// the markers `lab start`, `lab unit N` (N units done so far) and `lab end`, or, where there are no such, every
    /// marker that begins so. total:3000: the workload did so many in the window. Without it only wakeups per second
    /// are told, which is no throughput.
    #[arg(long, value_name = "UNIT", value_parser = values::work)]
    work: Option<Work>,

    /// Count only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = clap::builder::ValueParser::new(values::cpus))]
    cpu: Option<CpuList>,

    /// Count only tasks with such names or this pid; * and ? are wildcards
    #[arg(long, value_name = "PATTERN", value_parser = values::task)]
    task: Option<String>,

    /// How long a CPU must have been idle around a choice to count as missed
    #[arg(long, value_name = "DURATION", value_parser = values::duration_ns, default_value = "5us", allow_hyphen_values = true)]
    settle: i64,

    /// Where a task may run when the trace does not tell its affinity
    #[arg(long, value_enum, value_name = "READING", default_value_t = Affinity::Both)]
    affinity: Affinity,

    /// How many tasks and pairs to list [default: 3, with --json 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top: Option<usize>,

    /// Treat the recorder's own threads as any other task
    ///
    /// Otherwise their waits have the verdict `recorder`, and idle search, pairs and tasks are without them.
    #[arg(long)]
    include_recorder: bool,

    /// Follow the rules of this kernel version, such as 6.12, instead of the trace's own
    #[arg(long, value_name = "X.Y", value_parser = values::kernel_model)]
    kernel_model: Option<(u32, u32)>,

    /// The ftrace instance to read; the one with the most data otherwise
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

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
        self.check_window()?;
        self.warn_of_model(common);
        let output = Output::new(self.output.as_deref(), &self.file)?;
        let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
        let prepared = {
            let progress = Progress::new("surveying", bytes, common);
            pipeline::prepare(&self.file, &self.options(), &|n| progress.tick(n))?
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

    /// Refuses a window that is empty whatever the trace is.
    fn check_window(&self) -> Result<(), Failure> {
        let empty = match (&self.from, &self.to) {
            (Some(TimePoint::At(from)), Some(TimePoint::At(to)))
            | (Some(TimePoint::AfterStart(from)), Some(TimePoint::AfterStart(to)))
            | (Some(TimePoint::BeforeEnd(to)), Some(TimePoint::BeforeEnd(from))) => from >= to,
            _ => false,
        };
        match empty {
            true => Err(Failure::Usage(
                "--from is not before --to: there is nothing between them".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Says that the rules of a version are not known, if it was asked for.
    fn warn_of_model(&self, common: Common) {
        // Without any word of the version the newest rules are assumed.
        let newest = KernelModel::detect(None, None, &[]).version;
        if let Some((major, minor)) = self.kernel_model.filter(|asked| *asked > newest) {
            let text = format!(
                "--kernel-model {major}.{minor} is newer than the newest rules that are known: those of {}.{} are followed",
                newest.0, newest.1
            );
            errors::warn(&text, common);
        }
    }

    fn options(&self) -> RunOptions {
        RunOptions {
            instance: self.instance.clone(),
            topology: self.topology.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            settle_ns: self.settle,
            readings: self.affinity.readings(),
            kernel_model: self.kernel_model,
            include_recorder: self.include_recorder,
            work: self.work.clone(),
        }
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
    let counts = pipeline::replay(prepared, &mut builders, &|n| progress.tick(n));
    Ok((counts, builders.finish()?))
}
