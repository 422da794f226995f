//! `ttwu export`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum, ValueHint};
use ttwu_parsers::event::escape;

use super::progress::Progress;
use super::replaying::Replaying;
use super::{Common, Failure, errors, memory, values};
use crate::export::{self, Plan};
use crate::leftovers;
use crate::pipeline::{self, Prepared};
use crate::report::exported;
use crate::tables::Table;
use crate::tables::export::{Format, Key, Place};

/// The exit code of what no other trace would fare better with.
const UNWRITABLE: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  ttwu export trace.dat -o dataset
  ttwu export */perf.data -o dataset --trace '{folder}'
  ttwu export perf.data -o dataset --tables waits,tasks,events
  ttwu export perf.data -o dataset --host db7 --trace before-upgrade
  ttwu query missed-idle-by-llc dataset

docs/tables.md describes every table and column.";

/// Write the tables of traces as a dataset of Parquet files
///
/// A table lies in DIR/TABLE/host=HOST/trace=TRACE: many traces share a dataset. A trace exported again replaces its
/// own part and nothing else; an export that is interrupted leaves what was there before.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Export {
    /// The traces: perf.data (perf record) or trace.dat (trace-cmd record)
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// The folder of the dataset; it is made where it is not there
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// Only these tables, such as waits,tasks; `all` are all, raw events too [default: all but events]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::builder::ValueParser::new(values::tables))]
    tables: Vec<Tables>,

    /// The kind of files
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Kind::Parquet)]
    format: Kind,

    /// What folders are named by; what is left out becomes a column
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "host,trace"
    )]
    partition: Vec<By>,

    /// The host's name [default: as the trace tells it, or `unknown`]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    host: Option<String>,

    /// The trace's name, in which {file} and {folder} stand for the names of the file and its folder
    #[arg(long, value_name = "NAME", default_value = "{file}", value_parser = values::name)]
    trace: String,

    /// Replace what another recording left under the same names
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    replaying: Replaying,
}

type Tables = Vec<Table>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Compressed, with statistics: what engines read best
    Parquet,
    /// Arrow IPC (Feather)
    Ipc,
    /// Text
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Host,
    Trace,
    /// By nothing: all files of a table in one folder
    None,
}

impl Export {
    pub fn run(&self, common: Common) -> Result<ExitCode, Failure> {
        self.replaying.check(common)?;
        self.check_names()?;
        memory::keep();
        leftovers::remove_at_signals();
        let mut code = ExitCode::SUCCESS;
        for file in &self.files {
            // A trace that cannot be read does not keep the others from their place.
            if let Err(failure) = self.export(file, common) {
                if self.files.len() == 1 {
                    return Err(failure);
                }
                if failure.code() == UNWRITABLE {
                    return Err(failure);
                }
                errors::report(&failure, common);
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    /// Refuses to let one trace replace the other.
    fn check_names(&self) -> Result<(), Failure> {
        let mut names: Vec<(String, &PathBuf)> = self
            .files
            .iter()
            .map(|file| (self.trace_name(file), file))
            .collect();
        names.sort();
        let same = names.windows(2).find_map(|pair| match pair {
            [(a, first), (b, second)] if a == b && first != second => Some((a, first, second)),
            _ => None,
        });
        match same {
            None => Ok(()),
            Some((name, first, second)) => Err(Failure::Usage(format!(
                "{} and {} would both be trace={name}; tell them apart, for example by --trace '{{folder}}'",
                first.display(),
                second.display()
            ))),
        }
    }

    fn trace_name(&self, file: &Path) -> String {
        let name = |path: Option<&OsStr>| escape(path.unwrap_or_default().as_encoded_bytes());
        let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = whole.parent().and_then(Path::file_name);
        // In one go: names may hold such words themselves.
        let words = self.trace.split_inclusive('}').map(|part| {
            let (before, word) = part.split_at(part.rfind('{').unwrap_or(part.len()));
            match word {
                "{folder}" => before.to_owned() + &name(folder),
                "{file}" => before.to_owned() + &name(file.file_name()),
                _ => part.to_owned(),
            }
        });
        escape(words.collect::<String>().as_bytes())
    }

    fn export(&self, file: &Path, common: Common) -> Result<(), Failure> {
        let bytes = std::fs::metadata(file).map_or(0, |meta| meta.len());
        let prepared = {
            let progress = Progress::new("surveying", bytes, common);
            pipeline::prepare(file, &self.replaying.options(), &|n| progress.tick(n))?
        };
        if let Some(warning) = prepared.machine.topology.uncovered() {
            errors::warn(&warning, common);
        }
        let plan = self.plan(&prepared);
        let written = {
            let bytes = prepared.trace.meta().data_bytes;
            let progress = Progress::new("exporting", bytes, common);
            export::export(&prepared, &plan, &|n| progress.tick(n))?
        };
        errors::warn_of_damage(&prepared.trace, &prepared.survey, common);
        errors::note(
            &exported::summary(&plan, &written, prepared.survey.events),
            common,
        );
        Ok(())
    }

    fn plan(&self, prepared: &Prepared) -> Plan {
        let host = self.host.as_deref().or(export::host_of(prepared));
        let host = escape(host.unwrap_or("unknown").as_bytes());
        let keys = self.partition.iter().filter_map(|by| match by {
            By::Host => Some(Key::Host),
            By::Trace => Some(Key::Trace),
            By::None => None,
        });
        let keys = keys.fold(Vec::new(), |mut keys, key| {
            if !keys.contains(&key) {
                keys.push(key);
            }
            keys
        });
        Plan {
            tables: match self.tables.is_empty() {
                true => export::default_tables(),
                false => self.tables.concat(),
            },
            format: match self.format {
                Kind::Parquet => Format::Parquet,
                Kind::Ipc => Format::Ipc,
                Kind::Csv => Format::Csv,
            },
            place: Place {
                root: self.output.clone(),
                keys,
                host,
                trace: self.trace_name(&prepared.path),
            },
            force: self.force,
        }
    }
}
