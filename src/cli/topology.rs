//! `ttwu topology`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use ttwu_parsers::error::OpenError;
use ttwu_parsers::topology::read_path;

use super::output;
use super::progress::Progress;
use super::{Common, Failure, values};
use crate::pipeline::{self, RunOptions};
use crate::report;
use crate::topology::{self, Topology as Machine};

const EXAMPLES: &str = "\
Examples:
  ttwu topology                       this machine
  ttwu topology perf.data             the machine a trace was recorded on
  ttwu topology lscpu.txt | tail -n1  a source as a specification for --topology
  ttwu topology --markers             shell commands that write it into a trace being recorded

A trace of perf record carries its topology; one of trace-cmd does not. Run what --markers prints as
root on the recorded machine while trace-cmd records:
  trace-cmd record -e sched sh -c 'ttwu topology --markers | sh; exec make'";

/// Print which CPUs share cores, caches and nodes
///
/// The last line is the same as a specification that --topology takes.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Topology {
    /// A trace, or any file or folder that --topology takes; this machine where not given
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    file: Option<PathBuf>,

    /// Which CPUs share cores, caches and nodes: a file or folder, a specification, or live
    #[arg(long, value_name = "FILE|SPEC|live", value_parser = values::topology)]
    topology: Option<String>,

    /// Print shell commands that write it into a trace being recorded with trace-cmd
    #[arg(long)]
    markers: bool,

    /// The ftrace instance to read; the one with the most data otherwise
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

impl Topology {
    pub fn run(&self, common: Common) -> Result<(), Failure> {
        let wanted = self.topology.as_deref();
        let machine = match &self.file {
            None => topology::resolve(Some(wanted.unwrap_or("live")), None, &[])?,
            Some(file) => self.of_file(file, common)?,
        };
        let text = match self.markers {
            true => report::topology::markers(&machine),
            false => report::topology::render(&machine),
        };
        output::to_stdout(&text, common)
    }

    /// A trace's topology, or the one that a file is.
    fn of_file(&self, file: &Path, common: Common) -> Result<Machine, Failure> {
        let options = RunOptions {
            instance: self.instance.clone(),
            ..RunOptions::default()
        };
        let bytes = std::fs::metadata(file).map_or(0, |meta| meta.len());
        let progress = Progress::new("surveying", bytes, common);
        match pipeline::open(file, &options, &|n| progress.tick(n)) {
            Ok((trace, survey)) => {
                let record = pipeline::machine_record(&trace, &survey);
                let wanted = self.topology.as_deref();
                Ok(pipeline::resolve_topology(
                    &trace, &survey, &record, wanted,
                )?)
            }
            Err(OpenError::WrongKind { .. } | OpenError::Directory { .. }) => self.of_source(file),
            Err(error) => Err(error.into()),
        }
    }

    fn of_source(&self, file: &Path) -> Result<Machine, Failure> {
        if let Some(topology) = &self.topology {
            return Err(Failure::TwoTopologies {
                file: file.to_owned(),
                topology: topology.clone(),
            });
        }
        if values::is_running_machine(file) {
            let name = file.display();
            return Err(Failure::Usage(format!(
                "{name} is the machine this runs on, whose topology is printed where no FILE is given"
            )));
        }
        let (facts, kind) = read_path(file)?;
        Ok(Machine::new(
            facts,
            format!("{} ({kind})", file.display()),
            &[],
        ))
    }
}
