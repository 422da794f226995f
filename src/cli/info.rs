//! `ttwu info`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use ttwu_parsers::event::escape;
use ttwu_parsers::trace::Trace;

use super::output::Output;
use super::progress::Progress;
use super::{Common, Failure, values};
use crate::pipeline::{self, RunOptions};
use crate::report::{info, json};

const EXAMPLES: &str = "\
Examples:
  ttwu info perf.data
  ttwu info trace.dat --topology lscpu.txt
  ttwu info trace.dat --json | jq .events_by_name";

/// Say what a trace holds and what it is fit for
///
/// Works for traces that `ttwu analyze` refuses, and says why it would.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Info {
    /// The trace: perf.data (perf record) or trace.dat (trace-cmd record)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Which CPUs share cores, caches and nodes: a file or folder, a specification, or live
    #[arg(long, value_name = "FILE|SPEC|live", value_parser = values::topology)]
    topology: Option<String>,

    /// The ftrace instance to read; the one with the most data otherwise
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl Info {
    pub fn run(&self, common: Common) -> Result<(), Failure> {
        let output = Output::new(self.output.as_deref(), &self.file)?;
        let options = RunOptions {
            instance: self.instance.clone(),
            topology: self.topology.clone(),
            ..RunOptions::default()
        };
        let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
        let progress = Progress::new("surveying", bytes, common);
        let (trace, survey) = pipeline::open(&self.file, &options, &|n| progress.tick(n))?;
        drop(progress);
        let record = pipeline::machine_record(&trace, &survey);
        let wanted = options.topology.as_deref();
        let topology = pipeline::resolve_topology(&trace, &survey, &record, wanted)?;
        let mut info = info::Info::gather(&self.file, &trace, &survey, &record, &topology);
        info.refused = self.refusal(&trace, &info, &options);
        let text = match self.json {
            true => json::pretty(&info)?,
            false => info::render(&info),
        };
        output.write(&text, common)
    }

    /// Why `analyze` would refuse the trace, in its own words; it is asked only where it may.
    fn refusal(&self, trace: &Trace, info: &info::Info, options: &RunOptions) -> Option<String> {
        let meta = trace.meta();
        let whole = meta.has_time && meta.has_cpu && meta.system_wide && meta.clock.nanoseconds;
        let sched = info
            .events_by_name
            .keys()
            .any(|name| name.starts_with("sched:"));
        if whole && sched {
            return None;
        }
        let error = pipeline::prepare(&self.file, options, &|_| {}).err()?;
        Some(escape(error.to_string().as_bytes()))
    }
}
