//! The command line: one thin file for each subcommand.

mod analyze;
mod doctor;
mod errors;
mod export;
mod info;
mod memory;
mod output;
mod progress;
mod query;
mod record;
mod replaying;
mod shrunk;
mod sql;
mod topology;
mod values;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::errors::Failure;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; also with warnings about lost events or damage, and when the reader
     of the output closed the pipe
  1  the trace could not be analysed, or the report not written
  2  the command line was not understood
  3  export: the dataset could not be written";

/// Where did my wakeups go, and what did they cost?
///
/// Records scheduler events, reads traces (perf.data, trace.dat) and says where CPU time and wakeups were lost.
#[derive(Debug, Parser)]
#[command(name = "ttwu", version, propagate_version = true, after_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Options of every subcommand.
#[derive(Debug, Clone, Copy, Args)]
struct Common {
    /// When to colour the output; NO_COLOR is respected
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = When::Auto, display_order = 900)]
    color: When,
    /// No progress bar and no warnings
    #[arg(short, long, global = true, display_order = 901)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    /// On a terminal
    Auto,
    /// Into files and pipes too
    Always,
    /// Nowhere
    Never,
}

impl When {
    fn choice(self) -> anstream::ColorChoice {
        match self {
            When::Auto => anstream::ColorChoice::Auto,
            When::Always => anstream::ColorChoice::Always,
            When::Never => anstream::ColorChoice::Never,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(Box<record::Record>),
    Analyze(Box<analyze::Analyze>),
    Export(Box<export::Export>),
    Query(Box<query::Query>),
    Sql(Box<sql::Sql>),
    Info(info::Info),
    Topology(topology::Topology),
    Doctor(doctor::Doctor),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| errors::printable(error).exit());
    match run(&cli) {
        Ok(code) => code,
        Err(failure) => {
            errors::report(&failure, cli.common);
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    // The recorder's memory maps are no files that others cut.
    if !matches!(cli.command, Command::Record(_)) {
        shrunk::tell_of_shrunk_files();
    }
    match &cli.command {
        Command::Record(command) => command.run(cli.common),
        Command::Analyze(command) => command.run(cli.common).map(done),
        Command::Export(command) => command.run(cli.common),
        Command::Query(command) => command.run(cli.common).map(done),
        Command::Sql(command) => command.run(cli.common),
        Command::Info(command) => command.run(cli.common).map(done),
        Command::Topology(command) => command.run(cli.common).map(done),
        Command::Doctor(command) => command.run(cli.common).map(done),
    }
}

/// What `ttwu analyze FILE` does.
fn analyze_file(file: &std::path::Path, common: Common) -> Result<(), Failure> {
    let words = [
        "ttwu".as_ref(),
        "analyze".as_ref(),
        "--".as_ref(),
        file.as_os_str(),
    ];
    shrunk::tell_of_shrunk_files();
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Analyze(command)) => command.run(common),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
