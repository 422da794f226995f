//! `ttwu query`.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use polars::prelude::DataFrame;
use ttwu_parsers::event::escape;

use super::output::{Output, to_stdout};
use super::progress::Progress;
use super::replaying::Replaying;
use super::{Common, Failure, errors, values};
use crate::pipeline;
use crate::query::{Asked, Dataset, Question, Source};
use crate::report;
use crate::report::rows::{self, Room};

/// Rows that a table shows where it is not said.
const ROWS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  ttwu query --list
  ttwu query worst-pairs trace.dat
  ttwu query missed-idle-by-llc dataset --format csv -o missed.csv
  ttwu query 'SELECT name, run_ns FROM tasks ORDER BY run_ns DESC LIMIT 5' perf.data
  ttwu query mine.sql dataset
  ttwu query --show worst-pairs > mine.sql
  echo 'SELECT COUNT(*) FROM wakeups' | ttwu query - dataset

docs/tables.md describes every table and column.";

/// Ask the tables of a trace, or of a dataset, in SQL
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Query {
    /// A question by its name, a file of SQL, SQL itself, or - for standard input
    #[arg(value_name = "NAME|FILE.sql|SQL", required_unless_present_any = ["list", "show"], value_hint = ValueHint::FilePath)]
    query: Option<String>,

    /// A trace, or the folder of a dataset that `ttwu export` wrote
    #[arg(value_name = "FILE|DIR", required_unless_present_any = ["list", "show"], value_hint = ValueHint::AnyPath)]
    source: Option<PathBuf>,

    /// List the questions that have a name
    #[arg(long, conflicts_with_all = ["query", "source", "show", "output"])]
    list: bool,

    /// Print the SQL of a question that has a name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["query", "source", "output"])]
    show: Option<String>,

    /// How the answer is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,

    /// Write the answer to a file
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// How many rows a table shows: a number, or all [default: 100]
    #[arg(long, value_name = "N", value_parser = values::rows)]
    rows: Option<usize>,

    #[command(flatten)]
    replaying: Replaying,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// With a header
    Csv,
    /// A list of objects
    Json,
    /// One file
    Parquet,
}

impl Query {
    pub fn run(&self, common: Common) -> Result<(), Failure> {
        if let Some(name) = &self.show {
            return to_stdout(Question::named(name)?.sql, common);
        }
        let (Some(query), Some(source)) = (&self.query, &self.source) else {
            return to_stdout(&report::questions::list(), common);
        };
        self.replaying.check(common)?;
        let output = Output::new(self.output.as_deref(), source)?;
        if self.format == Format::Parquet && output.is_terminal() {
            return Err(Failure::Usage(
                "a Parquet file is nothing for a terminal: name a file with -o, or a pipe"
                    .to_owned(),
            ));
        }
        let sql = sql_of(query)?;
        crate::leftovers::remove_at_signals();
        let mut asked = Asked::new(open(source, &self.replaying, common)?);
        let answer = ask(&mut asked, &sql, common)?;
        let room = room(self.rows.unwrap_or(ROWS), "--rows all shows all");
        write(&answer, self.format, room, &output, common)
    }
}

/// The SQL that is meant by what was typed.
pub fn sql_of(query: &str) -> Result<String, Failure> {
    if query == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(Failure::Stdin)?;
        return text_of(bytes, Path::new("standard input"));
    }
    let path = Path::new(query);
    let is_path = query.ends_with(".sql") && (path.exists() || query.contains('/'));
    if is_path || path.is_file() {
        let bytes = fs::read(path).map_err(|error| Failure::Read {
            path: path.to_owned(),
            error,
        })?;
        return text_of(bytes, path);
    }
    match query.contains(char::is_whitespace) {
        true => Ok(query.to_owned()),
        false => Ok(Question::named(query)?.sql.to_owned()),
    }
}

fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| {
        Failure::Usage(format!(
            "{} is no SQL: it is not text in UTF-8",
            path.display()
        ))
    })
}

/// Opens what is asked.
pub fn open(path: &Path, replaying: &Replaying, common: Common) -> Result<Source, Failure> {
    if path.is_dir() {
        if let Some(option) = replaying.given() {
            return Err(Failure::Usage(format!(
                "{option} is for traces: what is in {} was replayed when it was exported",
                path.display()
            )));
        }
        return Ok(Source::Dataset(Dataset::open(path)?));
    }
    let bytes = fs::metadata(path).map_or(0, |meta| meta.len());
    let prepared = {
        let progress = Progress::new("surveying", bytes, common);
        pipeline::prepare(path, &replaying.options(), &|n| progress.tick(n))?
    };
    errors::warn_of_damage(&prepared.trace, &prepared.survey, common);
    let host = crate::export::host_of(&prepared).unwrap_or("unknown");
    let host = escape(host.as_bytes());
    let trace = path.file_name().unwrap_or(path.as_os_str());
    let trace = escape(trace.as_encoded_bytes());
    Ok(Source::of_trace(prepared, &host, &trace)?)
}

/// The answer to a statement; with a progress bar while a trace is replayed for it.
pub fn ask(asked: &mut Asked, sql: &str, common: Common) -> Result<DataFrame, Failure> {
    let progress = Progress::new("replaying", asked.bytes(), common);
    Ok(asked.ask(sql, &|n| progress.tick(n))?)
}

/// So many rows, and as many columns as the terminal has, but not less than reports take.
pub fn room(rows: usize, more: &'static str) -> Room {
    let terminal = terminal_size::terminal_size().map_or(0, |(width, _)| width.0.into());
    Room {
        rows,
        width: report::WIDTH.max(terminal),
        more,
    }
}

/// Writes an answer.
pub fn write(
    answer: &DataFrame,
    format: Format,
    room: Room,
    output: &Output,
    common: Common,
) -> Result<(), Failure> {
    match format {
        Format::Table => output.write(&rows::table(answer, room), common),
        Format::Csv => output.stream(|out| rows::write_csv(answer, out)),
        Format::Json => output.stream(|out| rows::write_json(answer, out)),
        Format::Parquet => output.stream(|out| rows::write_parquet(answer, out)),
    }
}

impl Output {
    /// Whether what is written is seen on a terminal.
    fn is_terminal(&self) -> bool {
        matches!(self, Output::Stdout) && io::stdout().is_terminal()
    }
}
