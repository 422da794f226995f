//! Which rows are shown as examples: the largest, spread over the trace.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use polars::prelude::*;
use serde::Serialize;

use super::places::Place;
use crate::attribute::answer::Readings;
use crate::attribute::scope::Scope;
use crate::replay::words::Reading;
use crate::tables::{ColumnDef, Table};

/// Examples of a word.
pub const EXAMPLES: usize = 3;
/// Parts of the window, of each of which the largest rows are kept.
const PARTS: i64 = 12;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(i64),
    Flag(bool),
    Text(String),
    Task { name: String, pid: i32 },
}

/// A row of a table, without what it has no value for.
pub type Row = BTreeMap<&'static str, Value>;

/// How many rows there are of a word, and some of them.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Rows of the table that count.
    pub of: u64,
    pub seen: u64,
    pub any: u64,
    /// The largest first.
    pub rows: Vec<Row>,
}

/// A row that may become an example.
#[derive(Debug, Clone)]
struct Candidate {
    size: i64,
    at: i64,
    part: i64,
    row: Row,
}

impl Candidate {
    /// The larger one comes first; of equals the earlier.
    fn rank(&self) -> (Reverse<i64>, i64) {
        (Reverse(self.size), self.at)
    }
}

/// Counts the rows of a word, and chooses examples among them.
pub fn choose(scope: &Scope, place: &Place) -> PolarsResult<Chosen> {
    let size = place.size.clone().unwrap_or_else(|| lit(0));
    let mut chosen = Chosen::default();
    let mut candidates: Vec<Candidate> = Vec::new();
    let wanted = |reading, expr: &Expr| match scope.facts.config.readings.contains(&reading) {
        true => expr.clone(),
        false => lit(false),
    };
    let marks = [
        wanted(Reading::Seen, &place.seen).alias(SEEN),
        wanted(Reading::Any, &place.any).alias(ANY),
        size.cast(DataType::Int64).alias(SIZE),
        place.stamp.clone().cast(DataType::Int64).alias(AT),
    ];
    scope.over(place.table, &place.stamp, |rows| {
        let rows = match &place.among {
            Some(among) => rows.filter(among.clone()),
            None => rows,
        };
        let rows = rows.with_columns(marks.clone()).collect()?;
        chosen.of += rows.height() as u64;
        let having = rows
            .clone()
            .lazy()
            .filter(col(SEEN).or(col(ANY)))
            .collect()?;
        let count = |name: &str| -> PolarsResult<u64> {
            Ok(having.column(name)?.bool()?.sum().unwrap_or(0).into())
        };
        chosen.seen += count(SEEN)?;
        chosen.any += count(ANY)?;
        candidates.extend(largest(scope, &having, place.table)?);
        candidates = keep(std::mem::take(&mut candidates));
        Ok(())
    })?;
    chosen.rows = spread(candidates);
    Ok(chosen)
}

const SEEN: &str = "has_word_seen";
const ANY: &str = "has_word_any";
const SIZE: &str = "size_of_row";
const AT: &str = "stamp_of_row";

/// The largest rows of each part of the window.
fn largest(scope: &Scope, rows: &DataFrame, table: Table) -> PolarsResult<Vec<Candidate>> {
    let window = scope.facts.config.window;
    let length = window.duration_ns().max(1);
    let sizes = rows.column(SIZE)?.i64()?.iter();
    let stamps = rows.column(AT)?.i64()?.iter();
    let mut by_part: BTreeMap<i64, Vec<(Reverse<i64>, i64, usize)>> = BTreeMap::new();
    for (index, (size, at)) in sizes.zip(stamps).enumerate() {
        let at = at.unwrap_or(window.from_ns);
        let offset = i128::from(at.saturating_sub(window.from_ns).max(0));
        let part = (offset * i128::from(PARTS) / i128::from(length)) as i64;
        let of_part = by_part.entry(part.min(PARTS - 1)).or_default();
        of_part.push((Reverse(size.unwrap_or(0)), at, index));
        if of_part.len() > 64 * EXAMPLES {
            of_part.sort_unstable();
            of_part.truncate(EXAMPLES);
        }
    }
    let mut found = Vec::new();
    for (part, mut of_part) in by_part {
        of_part.sort_unstable();
        for (Reverse(size), at, index) in of_part.into_iter().take(EXAMPLES) {
            found.push(Candidate {
                size,
                at,
                part,
                row: row(rows, index, table)?,
            });
        }
    }
    Ok(found)
}

/// Of each part the largest.
fn keep(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by_key(|c| (c.part, c.rank()));
    let mut kept: BTreeMap<i64, usize> = BTreeMap::new();
    candidates.retain(|candidate| {
        let count = kept.entry(candidate.part).or_default();
        *count += 1;
        *count <= EXAMPLES
    });
    candidates
}

/// The largest, but from parts that do not touch, as long as there are such.
fn spread(mut candidates: Vec<Candidate>) -> Vec<Row> {
    candidates.sort_by_key(Candidate::rank);
    let mut picked: Vec<Candidate> = Vec::new();
    for apart in [2, 1, 0] {
        for candidate in &candidates {
            let away = |other: &Candidate| (other.part - candidate.part).abs() >= apart;
            let new = !picked.iter().any(|other| other.row == candidate.row);
            if picked.len() < EXAMPLES && new && picked.iter().all(away) {
                picked.push(candidate.clone());
            }
        }
    }
    picked.sort_by_key(Candidate::rank);
    picked.into_iter().map(|candidate| candidate.row).collect()
}

fn row(rows: &DataFrame, index: usize, table: Table) -> PolarsResult<Row> {
    let mut row = Row::new();
    for column in table.columns() {
        let Ok(values) = rows.column(column.name) else {
            continue;
        };
        if let Some(value) = value(&values.get(index)?, column) {
            row.insert(column.name, value);
        }
    }
    Ok(row)
}

fn value(of: &AnyValue, column: &ColumnDef) -> Option<Value> {
    let number = match of {
        AnyValue::Null => return None,
        AnyValue::Boolean(flag) => return Some(Value::Flag(*flag)),
        AnyValue::String(text) => return Some(Value::Text((*text).to_owned())),
        AnyValue::StringOwned(text) => return Some(Value::Text(text.to_string())),
        number => number.try_extract::<i64>().ok()?,
    };
    match column.words {
        Some(words) => {
            let word = (words.list)().get(usize::try_from(number).ok()?).copied()?;
            Some(Value::Text(word.to_owned()))
        }
        None => Some(Value::Number(number)),
    }
}

/// A count under the readings that were asked for.
pub fn readings(scope: &Scope, chosen: &Chosen) -> Readings<u64> {
    scope.readings(|reading| match reading {
        Reading::Seen => chosen.seen,
        Reading::Any => chosen.any,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(size: i64, at: i64, part: i64) -> Candidate {
        let row = Row::from([("at", Value::Number(at))]);
        Candidate {
            size,
            at,
            part,
            row,
        }
    }

    fn stamps(rows: &[Row]) -> Vec<i64> {
        let at = rows.iter().map(|row| match row.get("at") {
            Some(Value::Number(at)) => *at,
            _ => -1,
        });
        at.collect()
    }

    #[test]
    fn the_largest_come_first_and_from_all_over_the_trace() {
        let many = [(90, 1, 0), (80, 2, 0), (70, 3, 1), (5, 40, 4), (9, 90, 9)];
        let many = many
            .map(|(size, at, part)| candidate(size, at, part))
            .to_vec();
        assert_eq!(stamps(&spread(many)), [1, 90, 40]);
        // From one part alone, the largest of that; of equals the earlier.
        let close = [(7, 5, 3), (9, 4, 3), (7, 1, 3), (8, 9, 3)];
        let close = close
            .map(|(size, at, part)| candidate(size, at, part))
            .to_vec();
        assert_eq!(stamps(&spread(close)), [4, 9, 1]);
    }

    #[test]
    fn of_each_part_the_largest_are_kept() {
        let all = (0..20).map(|n| candidate(n, n, n % 2)).collect();
        let kept: Vec<i64> = keep(all).iter().map(|c| c.size).collect();
        assert_eq!(kept, [18, 16, 14, 19, 17, 15]);
    }
}
