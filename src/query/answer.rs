//! Runs SQL over tables.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use polars::prelude::{DataFrame, PolarsError, PolarsResult};
use polars::sql::{SQLContext, extract_table_identifiers};
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use super::{QueryError, Source};
use crate::pipeline::Tick;

/// Tables under question. What is made by one statement is there for the next.
pub struct Asked {
    source: Source,
    tables: Vec<String>,
    context: SQLContext,
    registered: BTreeSet<String>,
}

impl Asked {
    pub fn new(source: Source) -> Self {
        Self {
            tables: source.tables(),
            source,
            context: SQLContext::new(),
            registered: BTreeSet::new(),
        }
    }

    /// The names of the tables that can be asked.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// How many bytes are read to replay a trace.
    pub fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    /// The names and types of a table's columns.
    ///
    /// # Errors
    /// If there is no such table, or it cannot be read.
    pub fn columns(
        &mut self,
        table: &str,
        tick: Tick,
    ) -> Result<Vec<(String, String)>, QueryError> {
        if !self.tables.iter().any(|of| of == table) {
            return Err(self.no_table(table));
        }
        self.source.provide(&[table.to_owned()], tick)?;
        let mut rows = self.source.table(table)?;
        let schema = rows.collect_schema();
        let schema = schema.map_err(|error| QueryError::Sql(said(&error)))?;
        let columns = schema
            .iter()
            .map(|(name, of)| (name.to_string(), of.to_string()));
        Ok(columns.collect())
    }

    /// The answer to a statement.
    ///
    /// # Errors
    /// If it is no SQL that is understood, or asks for what is not there.
    pub fn ask(&mut self, sql: &str, tick: Tick) -> Result<DataFrame, QueryError> {
        let statements = statements(sql)?;
        let [statement] = statements.as_slice() else {
            return Err(match statements.len() {
                0 => QueryError::Sql("no SQL is there".to_owned()),
                many => QueryError::Statements(many),
            });
        };
        self.register(statement, tick)?;
        guarded(|| self.context.execute(statement)?.collect()).map_err(|error| match error {
            Failed::Polars(error) => self.explained(&error),
            Failed::Panic(why) => {
                QueryError::Sql(format!("polars gave up on this statement: {why}"))
            }
        })
    }

    /// Makes the tables that a statement names known to polars.
    fn register(&mut self, statement: &str, tick: Tick) -> Result<(), QueryError> {
        let names = extract_table_identifiers(statement, false, true);
        let names = names.map_err(|error| QueryError::Sql(said(&error)))?;
        let new = names.into_iter().filter_map(|name| {
            let table = name.to_ascii_lowercase();
            let new = self.tables.contains(&table) && !self.registered.contains(&name);
            new.then_some((name, table))
        });
        let new: Vec<(String, String)> = new.collect();
        let tables: Vec<String> = new.iter().map(|(_, table)| table.clone()).collect();
        self.source.provide(&tables, tick)?;
        for (name, table) in new {
            self.context.register(&name, self.source.table(&table)?);
            self.registered.insert(name);
        }
        Ok(())
    }

    /// What polars says, or, of a table that is not there, what is.
    fn explained(&self, error: &PolarsError) -> QueryError {
        let said = said(error);
        let missing = said.strip_prefix("relation '");
        match missing.and_then(|rest| rest.split_once("' was not found")) {
            Some((asked, _)) => self.no_table(asked),
            None => QueryError::Sql(said),
        }
    }

    fn no_table(&self, asked: &str) -> QueryError {
        let (source, how) = match &self.source {
            Source::Dataset(_) => ("the dataset", "; `ttwu export --tables` writes others"),
            Source::Trace(_) => ("a trace", ""),
        };
        QueryError::NoTable {
            asked: asked.to_owned(),
            there: format!("{source} has {}{how}", self.tables.join(", ")),
        }
    }
}

enum Failed {
    Polars(PolarsError),
    Panic(String),
}

/// The result of a query. Polars panics on some that it should refuse.
fn guarded(run: impl FnOnce() -> PolarsResult<DataFrame>) -> Result<DataFrame, Failed> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let ran = catch_unwind(AssertUnwindSafe(run));
    std::panic::set_hook(hook);
    match ran {
        Ok(result) => result.map_err(Failed::Polars),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|of| (*of).to_owned()));
            Err(Failed::Panic(text.unwrap_or_default()))
        }
    }
}

/// An error without polars' word for its kind.
fn said(error: &PolarsError) -> String {
    match error {
        PolarsError::SQLInterface(text) | PolarsError::SQLSyntax(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// The statements of a text, without the semicolons between them; what is only comment is none.
///
/// # Errors
/// If a string or comment does not end.
pub fn statements(sql: &str) -> Result<Vec<&str>, QueryError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| QueryError::Sql(error.to_string()))?;
    let mut places = Places::new(sql);
    let mut statements = Vec::new();
    let (mut start, mut said) = (0, false);
    for of in &tokens {
        match of.token {
            Token::SemiColon => {
                let end = places.offset(of.span.start);
                statements.extend(sql.get(start..end).filter(|_| said));
                (start, said) = (end + 1, false);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => said = true,
        }
    }
    statements.extend(sql.get(start..).filter(|_| said));
    Ok(statements)
}

/// Finds the bytes at which characters of a text stand, the one before the other.
struct Places<'a> {
    chars: std::str::CharIndices<'a>,
    line: u64,
    column: u64,
    end: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            chars: text.char_indices(),
            line: 1,
            column: 1,
            end: text.len(),
        }
    }

    /// Where a character stands that comes after those asked for before.
    fn offset(&mut self, of: Location) -> usize {
        for (offset, c) in self.chars.by_ref() {
            let here = (self.line, self.column) == (of.line, of.column);
            match c {
                '\n' => (self.line, self.column) = (self.line + 1, 1),
                _ => self.column += 1,
            }
            if here {
                return offset;
            }
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_strings_and_comments() {
        let cases: [(&str, &[&str]); 7] = [
            ("", &[]),
            (" ; -- only; comment\n;/* ; */", &[]),
            ("SELECT 1", &["SELECT 1"]),
            ("SELECT 1;\n", &["SELECT 1"]),
            (
                "SELECT 'a;''b', \"c;d\" -- e;\n;SELECT 2",
                &["SELECT 'a;''b', \"c;d\" -- e;\n", "SELECT 2"],
            ),
            ("SELECT 'é進;' ; x", &["SELECT 'é進;' ", " x"]),
            ("a\r\n;\tb /* ; */ ;c", &["a\r\n", "\tb /* ; */ ", "c"]),
        ];
        for (sql, expected) in cases {
            assert_eq!(statements(sql).unwrap(), expected, "{sql:?}");
        }
        assert!(statements("SELECT 'a").is_err() && statements("/* a").is_err());
    }
}
