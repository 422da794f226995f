//! `ttwu sql`: a prompt for SQL.

mod complete;

use std::fs;
use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use self::complete::Helper;
use super::output::{Output, to_stdout};
use super::query::{Format, ask, open, room, sql_of, write};
use super::replaying::Replaying;
use super::{Common, Failure, errors};
use crate::leftovers;
use crate::query::{Asked, Question, statements};
use crate::report::{self, questions};

const PROMPT: &str = "ttwu> ";
/// Lines of history that are kept.
const HISTORY: usize = 1000;
/// Rows that are shown until `\rows` says otherwise.
const ROWS: usize = 40;

const EXAMPLES: &str = "\
Examples:
  ttwu sql trace.dat
  ttwu sql dataset < questions.sql

A statement ends with a semicolon. Tab completes names of tables, columns and
questions; \\? lists what else is understood.";

const HELP: &str = "\
  SELECT …;          ask; a statement ends with a semicolon
  \\d                 list the tables
  \\d TABLE           list a table's columns
  \\l                 list the questions that have a name
  \\i NAME|FILE.sql   ask such a question, or what is in a file
  \\p NAME            print the SQL of a question
  \\f table|csv|json  how answers are shown
  \\rows N|all        how many rows a table shows
  \\q                 leave (or Ctrl-D)
";

/// Ask the tables of a trace, or of a dataset, at a prompt
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Sql {
    /// A trace, or the folder of a dataset that `ttwu export` wrote
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    source: PathBuf,

    #[command(flatten)]
    replaying: Replaying,
}

/// What a line that begins with a backslash asks for.
#[derive(Debug, PartialEq, Eq)]
enum Meta<'a> {
    Help,
    Tables,
    Columns(&'a str),
    Questions,
    Run(&'a str),
    Print(&'a str),
    Format(Format),
    Rows(usize),
    Quit,
}

/// What goes on at the prompt.
struct Session {
    asked: Asked,
    format: Format,
    rows: usize,
    common: Common,
    /// Something failed where nobody sees to it.
    failed: bool,
}

impl Sql {
    pub fn run(&self, common: Common) -> Result<std::process::ExitCode, Failure> {
        self.replaying.check(common)?;
        leftovers::remove_at_signals();
        let mut session = Session {
            asked: Asked::new(open(&self.source, &self.replaying, common)?),
            format: Format::Table,
            rows: ROWS,
            common,
            failed: false,
        };
        let interactive = stdin().is_terminal();
        if interactive && !common.quiet {
            let greeting = format!(
                "{} tables; \\d lists them, \\? says what else there is, \\q leaves\n",
                session.asked.tables().len()
            );
            to_stdout(&greeting, common)?;
        }
        session.read_all(interactive)?;
        Ok(match session.failed && !interactive {
            true => std::process::ExitCode::FAILURE,
            false => std::process::ExitCode::SUCCESS,
        })
    }
}

impl Session {
    fn read_all(&mut self, interactive: bool) -> Result<(), Failure> {
        let config = Config::builder()
            .auto_add_history(interactive)
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY)
            .map_err(prompt_failed)?
            .build();
        let mut editor: Editor<Helper, FileHistory> =
            Editor::with_config(config).map_err(prompt_failed)?;
        editor.set_helper(Some(Helper::new(self.asked.tables(), interactive)));
        let history = history_file().filter(|_| interactive);
        // A first session has none.
        if let Some(path) = &history {
            let _ = editor.load_history(path);
        }
        let prompt = if interactive { PROMPT } else { "" };
        let mut held = String::new();
        loop {
            match editor.readline(prompt) {
                Ok(line) => {
                    if !self.take(&line, &mut held)? {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => held.clear(),
                Err(ReadlineError::Eof) => {
                    // What does not end with a semicolon is asked too, where nobody can add it.
                    self.run(&std::mem::take(&mut held))?;
                    break;
                }
                Err(error) => return Err(prompt_failed(error)),
            }
        }
        if let Some(path) = &history {
            save(&mut editor, path, self.common);
        }
        Ok(())
    }

    /// Takes a line in; `false` to leave. Lines are held until a statement is whole.
    fn take(&mut self, line: &str, held: &mut String) -> Result<bool, Failure> {
        let start = line.trim_start();
        if held.trim().is_empty() && start.starts_with('\\') || is_leaving(start) {
            held.clear();
            return self.obey(start);
        }
        held.push_str(line);
        held.push('\n');
        if is_whole(held) {
            self.run(&std::mem::take(held))?;
        }
        Ok(true)
    }

    fn obey(&mut self, line: &str) -> Result<bool, Failure> {
        let done = match meta(line) {
            Ok(Meta::Quit) => return Ok(false),
            Ok(meta) => self.answer(&meta),
            Err(why) => Err(Failure::Usage(why)),
        };
        self.told(done)?;
        Ok(true)
    }

    fn answer(&mut self, meta: &Meta) -> Result<(), Failure> {
        let common = self.common;
        match meta {
            Meta::Help => to_stdout(HELP, common),
            Meta::Tables => to_stdout(&report::tables::list(self.asked.tables()), common),
            Meta::Columns(table) => {
                let columns = self.asked.columns(table, &|_| ())?;
                to_stdout(&report::tables::columns(table, &columns), common)
            }
            Meta::Questions => to_stdout(&questions::list(), common),
            Meta::Print(name) => to_stdout(Question::named(name)?.sql, common),
            Meta::Run(name) => {
                let sql = sql_of(name)?;
                self.run(&sql)
            }
            Meta::Format(format) => {
                self.format = *format;
                Ok(())
            }
            Meta::Rows(rows) => {
                self.rows = *rows;
                Ok(())
            }
            Meta::Quit => Ok(()),
        }
    }

    /// Asks every statement of a text.
    fn run(&mut self, text: &str) -> Result<(), Failure> {
        let all = match statements(text) {
            Ok(all) => all,
            Err(error) => return self.told(Err(error.into())),
        };
        for statement in all {
            let done = ask(&mut self.asked, statement, self.common);
            let done = done.and_then(|answer| {
                let room = room(self.rows, "\\rows all shows all");
                write(&answer, self.format, room, &Output::Stdout, self.common)
            });
            self.told(done)?;
        }
        Ok(())
    }

    /// Says what went wrong; only what ends the session is an error.
    fn told(&mut self, done: Result<(), Failure>) -> Result<(), Failure> {
        match done {
            Err(Failure::Stdout(error)) => Err(Failure::Stdout(error)),
            Err(failure) => {
                self.failed = true;
                errors::report(&failure, self.common);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Whether a text ends with a whole statement: nothing but comment is behind its last semicolon.
fn is_whole(text: &str) -> bool {
    match statements(text) {
        Err(_) => false,
        Ok(all) => all.last().is_none_or(|last| {
            let end = last.as_ptr() as usize + last.len() - text.as_ptr() as usize;
            text.get(end..).is_some_and(|rest| rest.starts_with(';'))
        }),
    }
}

/// What other prompts are left by.
fn is_leaving(line: &str) -> bool {
    let word = line.trim_end().trim_end_matches(';');
    ["exit", "quit", ".quit", ".exit", ".q"].contains(&word)
}

/// What a line asks for; also as sqlite3 and duckdb say it.
fn meta(line: &str) -> Result<Meta<'_>, String> {
    if is_leaving(line) {
        return Ok(Meta::Quit);
    }
    let (word, of) = match line.split_once(char::is_whitespace) {
        Some((word, of)) => (word, of.trim().trim_end_matches(';')),
        None => (line.trim_end_matches(';'), ""),
    };
    let wanted = |what: &str| format!("{word} wants {what}");
    match (word, of) {
        ("\\q", _) => Ok(Meta::Quit),
        ("\\?" | "\\h" | "\\help", _) => Ok(Meta::Help),
        ("\\d" | "\\dt", "") => Ok(Meta::Tables),
        ("\\d" | "\\dt", table) => Ok(Meta::Columns(table)),
        ("\\l", _) => Ok(Meta::Questions),
        ("\\i", "") => Err(wanted("a question or a file")),
        ("\\i", name) => Ok(Meta::Run(name)),
        ("\\p", "") => Err(wanted("a question")),
        ("\\p", name) => Ok(Meta::Print(name)),
        ("\\f", "table") => Ok(Meta::Format(Format::Table)),
        ("\\f", "csv") => Ok(Meta::Format(Format::Csv)),
        ("\\f", "json") => Ok(Meta::Format(Format::Json)),
        ("\\f", _) => Err(wanted("table, csv or json")),
        ("\\rows", of) => super::values::rows(of).map(Meta::Rows),
        _ => Err(format!("{word} is not known here; \\? lists what is")),
    }
}

fn prompt_failed(error: ReadlineError) -> Failure {
    match error {
        ReadlineError::Io(error) => Failure::Stdin(error),
        other => Failure::Stdin(std::io::Error::other(other.to_string())),
    }
}

/// Where the history is kept: the place for what programs remember.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.filter(|path| path.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("ttwu/sql_history"))
}

fn save(editor: &mut Editor<Helper, FileHistory>, path: &Path, common: Common) {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let saved = made.map_err(ReadlineError::Io);
    if let Err(error) = saved.and_then(|()| editor.save_history(path)) {
        let text = format!("the history cannot be kept in {}: {error}", path.display());
        errors::warn(&text, common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_whole_with_its_semicolon() {
        for text in [
            "SELECT 1;",
            "SELECT ';';\n-- done\n",
            "",
            "\n",
            "-- a;\n",
            "a; b ;",
        ] {
            assert!(is_whole(text), "{text:?}");
        }
        for text in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 1; x",
            "/* ;",
            "SELECT 1 -- ;\n",
        ] {
            assert!(!is_whole(text), "{text:?}");
        }
    }

    #[test]
    fn what_begins_with_a_backslash_is_no_sql() {
        let cases = [
            ("\\q", Meta::Quit),
            ("quit;", Meta::Quit),
            (".exit", Meta::Quit),
            ("\\?", Meta::Help),
            ("\\d", Meta::Tables),
            ("\\d waits;", Meta::Columns("waits")),
            ("\\i worst-pairs", Meta::Run("worst-pairs")),
            ("\\i my file.sql", Meta::Run("my file.sql")),
            ("\\f csv", Meta::Format(Format::Csv)),
            ("\\rows all", Meta::Rows(usize::MAX)),
            ("\\rows 7", Meta::Rows(7)),
        ];
        for (line, expected) in cases {
            assert_eq!(meta(line), Ok(expected), "{line}");
        }
        for line in ["\\x", "\\i", "\\p", "\\f xml", "\\rows -1", "\\rows"] {
            assert!(meta(line).is_err(), "{line}");
        }
    }
}
