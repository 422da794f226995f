//! Tables read in blocks of rows, as plain slices: questions about millions of rows are loops over these.

use polars::prelude::*;

use crate::tables::Columns;

/// Most rows of a block: what is read of it stays in the processor's cache.
const ROWS: usize = 4 << 10;

/// Stands for null among times.
pub const NO_TIME: i64 = i64::MIN;
/// Stands for null among codes and flags, of which no enumeration has so many.
pub const NO_CODE: u8 = u8::MAX;
/// Stands for null among task numbers and CPUs.
pub const NO_NUMBER: u32 = u32::MAX;
/// Stands for null among counts.
pub const NO_COUNT: u64 = u64::MAX;

/// Some rows of a table. Each column is one piece.
pub struct Block<'a> {
    rows: DataFrame,
    bases: &'a [i64],
}

/// The blocks of a batch.
pub fn blocks(batch: &Columns) -> impl DoubleEndedIterator<Item = Block<'_>> {
    let starts = (0..batch.rows.height()).step_by(ROWS);
    starts.map(|start| Block {
        rows: batch.rows.slice(start as i64, ROWS),
        bases: &batch.bases,
    })
}

impl Block<'_> {
    pub fn rows(&self) -> usize {
        self.rows.height()
    }

    /// Reads times, which tables keep in 32 bits where they fit.
    pub fn times<'a>(&self, name: &str, into: &'a mut Vec<i64>) -> PolarsResult<&'a [i64]> {
        let column = self.rows.column(name)?;
        let place = self.rows.get_column_index(name);
        let base = place.and_then(|place| self.bases.get(place)).copied();
        let base = base.unwrap_or(0);
        let of = |ns: u32| base.wrapping_add(i64::from(ns));
        match column.dtype() {
            DataType::UInt32 => read(column.u32()?, into, of, NO_TIME),
            _ => read(column.i64()?, into, |ns| ns, NO_TIME),
        }
        Ok(into)
    }

    /// Reads task numbers or CPUs.
    pub fn numbers<'a>(&self, name: &str, into: &'a mut Vec<u32>) -> PolarsResult<&'a [u32]> {
        let column = self.rows.column(name)?;
        match column.dtype() {
            DataType::UInt16 => read(column.u16()?, into, u32::from, NO_NUMBER),
            _ => read(column.u32()?, into, |number| number, NO_NUMBER),
        }
        Ok(into)
    }

    /// Reads counts.
    pub fn counts<'a>(&self, name: &str, into: &'a mut Vec<u64>) -> PolarsResult<&'a [u64]> {
        read(
            self.rows.column(name)?.u64()?,
            into,
            |count| count,
            NO_COUNT,
        );
        Ok(into)
    }

    /// Reads of any column where it is null, as 0 and 1.
    pub fn nulls<'a>(&self, name: &str, into: &'a mut Vec<u8>) -> PolarsResult<&'a [u8]> {
        read_flags(&self.rows.column(name)?.is_null(), into);
        Ok(into)
    }

    /// Reads codes, or flags as 0 and 1.
    pub fn codes<'a>(&self, name: &str, into: &'a mut Vec<u8>) -> PolarsResult<&'a [u8]> {
        let column = self.rows.column(name)?;
        match column.dtype() {
            DataType::Boolean => read_flags(column.bool()?, into),
            _ => read(column.u8()?, into, |code| code, NO_CODE),
        }
        Ok(into)
    }
}

fn read<T: PolarsNumericType, V: Copy>(
    column: &ChunkedArray<T>,
    into: &mut Vec<V>,
    of: impl Fn(T::Native) -> V,
    null: V,
) {
    into.clear();
    for piece in column.downcast_iter() {
        let before = into.len();
        into.extend(piece.values().iter().map(|value| of(*value)));
        if let Some(known) = piece.validity() {
            let words = known.chunks::<u64>();
            let last = words.remainder();
            let read = into.get_mut(before..).unwrap_or_default();
            blank(read, words.chain([last]), null);
        }
    }
}

fn read_flags(column: &BooleanChunked, into: &mut Vec<u8>) {
    into.clear();
    into.resize(column.len(), 0);
    let mut rest = into.as_mut_slice();
    for piece in column.downcast_iter() {
        let (read, later) = rest.split_at_mut(piece.values().len());
        let words = piece.values().chunks::<u64>();
        let last = words.remainder();
        for (flags, word) in read.chunks_mut(64).zip(words.chain([last])) {
            for (bit, flag) in flags.iter_mut().enumerate() {
                *flag = (word >> bit & 1) as u8;
            }
        }
        if let Some(known) = piece.validity() {
            let words = known.chunks::<u64>();
            let last = words.remainder();
            blank(read, words.chain([last]), NO_CODE);
        }
        rest = later;
    }
}

/// Writes `null` over the values whose bit is not set.
fn blank<V: Copy>(values: &mut [V], known: impl Iterator<Item = u64>, null: V) {
    for (values, word) in values.chunks_mut(64).zip(known) {
        if word == u64::MAX {
            continue;
        }
        for (bit, value) in values.iter_mut().enumerate() {
            *value = match word >> bit & 1 {
                0 => null,
                _ => *value,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three blocks and a bit, each with nulls, read from columns that start in the middle of a word.
    #[test]
    fn blocks_are_the_rows_in_order() {
        let rows = 3 * ROWS as u32 + 77;
        let known = |row: &u32| row % 7 != 3;
        let short = (0..rows).map(|row| Some(row).filter(known));
        let long = (0..rows).map(|row| Some(i64::from(row) << 33).filter(|_| known(&row)));
        let cpus = (0..rows).map(|row| Some((row % 9) as u16).filter(|_| known(&row)));
        let codes = (0..rows).map(|row| Some((row % 5) as u8).filter(|_| known(&row)));
        let flags = (0..rows).map(|row| Some(row % 3 == 0).filter(|_| known(&row)));
        let columns = vec![
            Column::new("short".into(), short.collect::<Vec<_>>()),
            Column::new("long".into(), long.collect::<Vec<_>>()),
            Column::new("cpus".into(), cpus.collect::<Vec<_>>()),
            Column::new("codes".into(), codes.collect::<Vec<_>>()),
            Column::new("flags".into(), flags.collect::<Vec<_>>()),
        ];
        let batch = DataFrame::new(rows as usize, columns).unwrap();
        let batch = batch.slice(5, rows as usize).into();
        let (mut times, mut codes, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let mut row = 5;
        for block in blocks(&batch) {
            let from = row as usize;
            let or = |row: usize, value: i64, null: i64| match known(&(row as u32)) {
                true => value,
                false => null,
            };
            for (n, ns) in block.times("short", &mut times).unwrap().iter().enumerate() {
                assert_eq!(*ns, or(from + n, (from + n) as i64, NO_TIME));
            }
            for (n, ns) in block.times("long", &mut times).unwrap().iter().enumerate() {
                assert_eq!(*ns, or(from + n, ((from + n) as i64) << 33, NO_TIME));
            }
            let cpus = block.numbers("cpus", &mut numbers).unwrap();
            for (n, cpu) in cpus.iter().enumerate() {
                let expected = or(from + n, (from + n) as i64 % 9, NO_NUMBER.into());
                assert_eq!(i64::from(*cpu), expected);
            }
            for (n, code) in block.codes("codes", &mut codes).unwrap().iter().enumerate() {
                let expected = or(from + n, (from + n) as i64 % 5, NO_CODE.into());
                assert_eq!(i64::from(*code), expected);
            }
            for (n, flag) in block.codes("flags", &mut codes).unwrap().iter().enumerate() {
                let expected = or(
                    from + n,
                    i64::from((from + n).is_multiple_of(3)),
                    NO_CODE.into(),
                );
                assert_eq!(i64::from(*flag), expected);
            }
            row += block.rows() as u32;
        }
        assert_eq!(row, rows);
    }
}
