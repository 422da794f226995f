//! What can go wrong, and how it is said.

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Color, Style};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use ttwu_parsers::error::OpenError;
use ttwu_parsers::event::escape;
use ttwu_parsers::topology::TopologyError;
use ttwu_parsers::topology::cpulist::format_list;
use ttwu_parsers::trace::Trace;

use super::Common;
use crate::attribute::{AnswerError, caveats};
use crate::pipeline::RunError;
use crate::query::QueryError;
use crate::record::RecordError;
use crate::replay::survey::Survey;
use crate::report::units::counted;
use crate::tables::TablesError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the topology cannot be used: {0}")]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A command line that is wrong whatever the trace is.
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the report: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("cannot read standard input: {0}")]
    Stdin(io::Error),
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("-o {} is a folder; name a file in it", .0.display())]
    OutputFolder(PathBuf),
    #[error("-o {} is the trace itself; name another file", .0.display())]
    OutputIsInput(PathBuf),
    #[error("{} is a topology already; --topology {topology} would be another", file.display())]
    TwoTopologies { file: PathBuf, topology: String },
}

impl Failure {
    /// The exit code: 2 for what is wrong with the command line by itself, 3 for a dataset that cannot be written, so
    /// that whoever exports many traces can tell it from a trace that cannot be read, 1 for all else.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Tables(TablesError::Export { .. }) => 3,
            Failure::Tables(TablesError::Dataset(error)) if error.is_of_the_folder() => 3,
            _ => 1,
        }
    }
}

/// A complaint about the command line, without anything unprintable that was typed.
pub fn printable(mut error: clap::Error) -> clap::Error {
    let escaped = |text: &String| escape(text.as_bytes());
    let context = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(escaped(text)))),
        ContextValue::Strings(texts) => {
            let texts = texts.iter().map(escaped).collect();
            Some((kind, ContextValue::Strings(texts)))
        }
        // Proposals repeat what was typed.
        ContextValue::StyledStrs(texts) if kind == ContextKind::Suggested => {
            let plain = |text: &StyledStr| escape(text.to_string().as_bytes()) == text.to_string();
            (!texts.iter().all(plain)).then_some((kind, ContextValue::None))
        }
        _ => None,
    });
    for (kind, value) in context.collect::<Vec<_>>() {
        error.insert(kind, value);
    }
    error
}

const ERROR: Style = Style::new()
    .bold()
    .fg_color(Some(Color::Ansi(AnsiColor::Red)));
const WARNING: Style = Style::new()
    .bold()
    .fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// Says why the command failed.
pub fn report(failure: &Failure, common: Common) {
    say("error", ERROR, &failure.to_string(), common);
}

/// Says why something failed that has an exit code of its own.
pub fn fail(text: &str, common: Common) {
    say("error", ERROR, text, common);
}

/// Says what was done.
pub fn note(text: &str, common: Common) {
    if !common.quiet {
        let mut stderr = anstream::AutoStream::new(io::stderr(), common.color.choice());
        // With standard error gone there is nobody left to tell.
        let _ = writeln!(stderr, "ttwu: {}", escape(text.as_bytes()));
    }
}

/// Says what the user should know although the command went on.
pub fn warn(text: &str, common: Common) {
    if !common.quiet {
        say("warning", WARNING, text, common);
    }
}

/// Says what is missing from a trace that could be read all the same.
pub fn warn_of_damage(trace: &Trace, survey: &Survey, common: Common) {
    let lossy: Vec<u32> = survey
        .cpus
        .iter()
        .filter(|c| c.lost_events > 0 || c.uncounted_gaps > 0)
        .map(|c| c.cpu)
        .collect();
    let lost = survey.cpus.iter().map(|c| c.lost_events).sum::<u64>() + trace.meta().lost_unplaced;
    if lost > 0 || !lossy.is_empty() {
        let place = match lossy.is_empty() {
            true => String::new(),
            false if lossy.len() == 1 => format!(" on CPU {}", format_list(&lossy)),
            false => format!(" on CPUs {}", format_list(&lossy)),
        };
        let amount = match lost {
            0 => "an unknown number of events was lost".to_owned(),
            1 => "1 event was lost".to_owned(),
            n => format!("{} were lost", counted(n, "event")),
        };
        warn(
            &format!("{amount}{place}; what spans a loss is left out and counted as unknown"),
            common,
        );
    }
    if let Some(silence) = caveats::silence(survey) {
        warn(&silence, common);
    }
    if let Some(first) = survey.faults.kept().first() {
        let places = counted(survey.faults.total(), "damaged place");
        let what = escape(first.what.as_bytes());
        warn(
            &format!("{places}, the first at byte {}: {what}", first.offset),
            common,
        );
    }
}

fn say(kind: &str, style: Style, text: &str, common: Common) {
    let mut stderr = anstream::AutoStream::new(io::stderr(), common.color.choice());
    // With standard error gone there is nobody left to tell.
    let text = escape(text.as_bytes());
    let _ = writeln!(stderr, "ttwu: {style}{kind}:{style:#} {text}");
}
