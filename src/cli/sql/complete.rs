//! Completion at the prompt: names of tables, columns and questions, and SQL's own words.

use std::collections::BTreeMap;

use polars::sql::keywords::{all_functions, all_keywords};
use rustyline::Context;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};

use super::is_whole;
use crate::query::ALL;
use crate::tables::Table;

/// The columns that every table has, from the folders that its files lie in.
const KEYS: [&str; 2] = ["host", "trace"];

/// What completes a line, and says whether it is whole.
pub struct Helper {
    /// The columns of each table, as far as they are known.
    tables: BTreeMap<String, Vec<String>>,
    words: Vec<String>,
    interactive: bool,
}

impl Helper {
    pub fn new(tables: &[String], interactive: bool) -> Self {
        let columns = |name: &String| {
            let table = Table::ALL.iter().find(|table| table.as_str() == name);
            let columns = table.map_or(&[][..], |table| table.columns());
            let names = columns.iter().map(|column| column.name).chain(KEYS);
            names.map(str::to_owned).collect()
        };
        let words = all_keywords().into_iter().chain(all_functions());
        let mut words: Vec<String> = words.map(str::to_ascii_uppercase).collect();
        words.sort_unstable();
        words.dedup();
        Self {
            tables: tables
                .iter()
                .map(|name| (name.clone(), columns(name)))
                .collect(),
            words,
            interactive,
        }
    }

    /// What begins so, where it stands.
    fn matching(&self, before: &str, word: &str) -> Vec<String> {
        let begins = |name: &str| {
            let start = name.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let meta = before.trim_start();
        if meta.starts_with("\\i ") || meta.starts_with("\\p ") {
            let names = ALL.iter().map(|question| question.name.to_owned());
            return names.filter(|name| begins(name)).collect();
        }
        let tables = self.tables.keys().cloned();
        if meta.starts_with("\\d") || stands_behind_from(before) {
            return tables.filter(|name| begins(name)).collect();
        }
        let mut found: Vec<String> = self
            .columns_at(before)
            .filter(|name| begins(name))
            .collect();
        found.extend(tables.filter(|name| begins(name)));
        if !word.is_empty() && !before.ends_with('.') {
            found.extend(self.words.iter().filter(|name| begins(name)).cloned());
        }
        found
    }

    /// The columns of the tables that the line names; of all, if it names none.
    fn columns_at(&self, line: &str) -> impl Iterator<Item = String> {
        let named = |table: &str| line.split(|c: char| !is_name(c)).any(|word| word == table);
        let any = self.tables.keys().any(|table| named(table));
        let tables = self.tables.iter().filter(|(table, _)| !any || named(table));
        let mut columns: Vec<String> = tables.flat_map(|(_, columns)| columns).cloned().collect();
        columns.sort_unstable();
        columns.dedup();
        columns.into_iter()
    }
}

/// Whether the word that comes next is a table's name.
fn stands_behind_from(before: &str) -> bool {
    let word = before.split_whitespace().last().unwrap_or_default();
    let ends = before.ends_with(char::is_whitespace);
    ends && ["from", "join"]
        .iter()
        .any(|of| word.eq_ignore_ascii_case(of))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Completer for Helper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> Result<(usize, Vec<Pair>), ReadlineError> {
        let before = line.get(..at).unwrap_or(line);
        let is_question = before.trim_start().starts_with('\\');
        let is_part = |c: char| is_name(c) || is_question && c == '-';
        let start = before.trim_end_matches(is_part).len();
        let (before, word) = before.split_at(start);
        let pairs = self.matching(before, word).into_iter().map(|name| Pair {
            display: name.clone(),
            replacement: name,
        });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Helper {
    /// At a prompt a statement is edited as a whole, over several lines.
    fn validate(
        &self,
        context: &mut ValidationContext<'_>,
    ) -> Result<ValidationResult, ReadlineError> {
        let text = context.input();
        let start = text.trim_start();
        let whole = !self.interactive
            || start.starts_with('\\')
            || super::is_leaving(start)
            || is_whole(text);
        Ok(match whole {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for Helper {
    type Hint = String;
}

impl Highlighter for Helper {}

impl rustyline::Helper for Helper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper() -> Helper {
        let tables = ["waits", "tasks", "wakeups", "mine"];
        Helper::new(&tables.map(str::to_owned), true)
    }

    fn completed(line: &str) -> Vec<String> {
        let start = line.trim_end_matches(is_name).len();
        let (before, word) = line.split_at(start);
        helper().matching(before, word)
    }

    #[test]
    fn tables_stand_behind_from_and_join() {
        assert_eq!(completed("SELECT * FROM wa"), ["waits", "wakeups"]);
        assert_eq!(completed("select * from waits join ta"), ["tasks"]);
        assert_eq!(completed("\\d m"), ["mine"]);
    }

    #[test]
    fn columns_are_those_of_the_tables_in_the_line() {
        let found = completed("SELECT * FROM waits WHERE verd");
        assert_eq!(found, ["verdict_any", "verdict_seen"]);
        assert!(completed("SELECT comm").iter().all(|word| word != "comm"));
        assert!(completed("SELECT former").contains(&"former_names".to_owned()));
        let found = completed("SELECT t.pi FROM tasks t WHERE t.pi");
        assert_eq!(found, ["pid"]);
        assert!(completed("sel").contains(&"SELECT".to_owned()));
    }

    #[test]
    fn questions_have_names_with_dashes() {
        let helper = helper();
        let found = helper.matching("\\i ", "worst-p");
        assert!(found.contains(&"worst-pairs".to_owned()), "{found:?}");
    }
}
