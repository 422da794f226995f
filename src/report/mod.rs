//! Reports: the answer's numbers for people ([`terminal`]) and for programs ([`json`]), and what `info` and
//! `topology` print. Nothing is computed here that the answer does not hold.

pub mod glossary;
mod headline;
pub mod info;
pub mod json;
mod ledger;
mod table;
pub mod terminal;
pub mod topology;
pub mod units;
mod waits;
mod wakeups;
mod worst;

#[cfg(test)]
mod sample;

/// Columns of the narrowest terminal that reports are laid out for.
pub const WIDTH: usize = 80;

use crate::attribute::answer::Readings;

/// The readings of a number that were asked for, `seen` first.
fn given<T: Copy>(readings: Readings<T>) -> impl Iterator<Item = T> {
    [readings.seen, readings.any].into_iter().flatten()
}

/// The columns that a set of two-reading numbers needs: one where no row's readings differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    One,
    Two,
}

impl Columns {
    fn of<T: PartialEq + Copy>(rows: impl IntoIterator<Item = Readings<T>>) -> Self {
        let differ = |r: Readings<T>| matches!((r.seen, r.any), (Some(a), Some(b)) if a != b);
        match rows.into_iter().any(differ) {
            true => Columns::Two,
            false => Columns::One,
        }
    }

    fn count(self) -> usize {
        match self {
            Columns::One => 1,
            Columns::Two => 2,
        }
    }

    /// A number's cells: one, or both readings.
    fn cells<T: Copy>(self, readings: Readings<T>, show: impl Fn(T) -> String) -> Vec<String> {
        given(readings).take(self.count()).map(show).collect()
    }

    /// The headings of a number's cells.
    fn headings(self, name: &str) -> Vec<String> {
        match self {
            Columns::One => vec![name.to_owned()],
            Columns::Two => vec![format!("{name} (seen)"), "(any)".to_owned()],
        }
    }
}

/// The larger reading.
fn most<T: Copy + Ord + Default>(readings: Readings<T>) -> T {
    given(readings).max().unwrap_or_default()
}
