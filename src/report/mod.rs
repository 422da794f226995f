//! Reports: the answer's numbers for people ([`terminal`]) and for programs ([`json`]), and what `info` and
//! `topology` print. Nothing is computed here that the answer does not hold.

mod bounces;
mod brief;
pub mod cross_llc;
pub mod doctor;
pub mod domains;
pub mod explain;
pub mod exported;
pub mod flips;
pub mod glossary;
mod headline;
pub mod info;
pub mod ipis;
pub mod json;
mod ledger;
pub mod migrations;
mod moments;
pub mod path;
pub mod processes;
pub mod questions;
pub mod rows;
mod spread;
mod table;
pub mod tables;
pub mod terminal;
pub mod throughput;
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

/// The columns that a set of two-reading numbers needs: one where no row's readings are printed differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    One,
    Two,
}

impl Columns {
    fn of<T: Copy>(
        rows: impl IntoIterator<Item = Readings<T>>,
        show: impl Fn(T) -> String,
    ) -> Self {
        let differ =
            |r: Readings<T>| matches!((r.seen, r.any), (Some(a), Some(b)) if show(a) != show(b));
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
}

/// The headings of a number's cells.
fn headings(columns: Columns, name: &str) -> Vec<String> {
    match columns {
        Columns::One => vec![name.to_owned()],
        Columns::Two => vec![format!("{name} seen"), "any".to_owned()],
    }
}

/// A loss; none is the common case and should not look like a number.
fn lost(ns: i64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns => units::duration(ns),
    }
}

/// The larger reading.
fn most<T: Copy + Ord + Default>(readings: Readings<T>) -> T {
    given(readings).max().unwrap_or_default()
}
