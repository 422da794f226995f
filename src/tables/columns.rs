//! What a column is: its definition, and the builder that its values are appended to.

use polars::prelude::*;

/// The type of a column's values. `Bool` and the numbers may be null where the documentation says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    U8,
    U16,
    U32,
    U64,
    I32,
    I64,
    Bool,
    Text,
}

impl ColumnType {
    /// The type in polars' words.
    pub fn data_type(self) -> DataType {
        match self {
            ColumnType::U8 => DataType::UInt8,
            ColumnType::U16 => DataType::UInt16,
            ColumnType::U32 => DataType::UInt32,
            ColumnType::U64 => DataType::UInt64,
            ColumnType::I32 => DataType::Int32,
            ColumnType::I64 => DataType::Int64,
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Text => DataType::String,
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub struct ColumnDef {
    /// With the unit as suffix, where it has one.
    pub name: &'static str,
    pub column_type: ColumnType,
    /// Whether no question of `analyze` needs it: such a column is built for exports only.
    pub detail: bool,
    /// The words its codes stand for, in the order of the codes.
    pub words: Option<fn() -> Vec<&'static str>>,
    /// One sentence.
    pub doc: &'static str,
}

/// A column under construction. Each kind has a method `extend`, which appends the values of some rows in loops over
/// this column alone: a processor's cache copes with one stream of writes, but not with forty side by side.
pub(super) trait Build {
    const TYPE: ColumnType;
    fn new(name: &'static str, capacity: usize) -> Self;
    fn finish(self) -> Column;
}

/// Which rows are not null; empty until one is.
#[derive(Default)]
struct Known(Vec<bool>);

impl Known {
    /// Notes the rows after the first `before`, some of which are null if `null` is set.
    #[inline]
    fn extend(&mut self, before: usize, null: bool, known: impl ExactSizeIterator<Item = bool>) {
        if null && self.0.is_empty() {
            self.0.resize(before, true);
        }
        if null || !self.0.is_empty() {
            self.0.extend(known);
        }
    }
}

/// A column of these values, of which those that are not known are null.
macro_rules! with_nulls {
    ($values:expr, $known:expr) => {
        match $known.0.is_empty() {
            true => $values,
            false => $values.with_validity(Some($known.0.as_slice().into())),
        }
        .into_column()
    };
}

/// Numbers of one type.
pub(super) struct Numbers<T: PolarsNumericType> {
    name: &'static str,
    values: Vec<T::Native>,
    known: Known,
}

impl<T: PolarsNumericType> Numbers<T> {
    #[inline]
    pub fn extend<R, V>(&mut self, rows: &[R], value: impl Fn(&R) -> V)
    where
        V: Into<Option<T::Native>>,
    {
        let before = self.values.len();
        let mut null = false;
        self.values.extend(rows.iter().map(|row| {
            let value = value(row).into();
            null |= value.is_none();
            value.unwrap_or_default()
        }));
        let known = rows.iter().map(|row| value(row).into().is_some());
        self.known.extend(before, null, known);
    }
}

pub(super) type U8 = Numbers<UInt8Type>;
pub(super) type U16 = Numbers<UInt16Type>;
pub(super) type U32 = Numbers<UInt32Type>;
pub(super) type U64 = Numbers<UInt64Type>;
pub(super) type I32 = Numbers<Int32Type>;

macro_rules! numbers {
    ($($native:ty => $type:ident),+) => {
        $(impl Build for Numbers<$native> {
            const TYPE: ColumnType = ColumnType::$type;

            fn new(name: &'static str, capacity: usize) -> Self {
                Self {
                    name,
                    values: Vec::with_capacity(capacity),
                    known: Known::default(),
                }
            }

            fn finish(self) -> Column {
                let values = ChunkedArray::<$native>::from_vec(self.name.into(), self.values);
                with_nulls!(values, self.known)
            }
        })+
    };
}

numbers! {
    UInt8Type => U8, UInt16Type => U16, UInt32Type => U32, UInt64Type => U64, Int32Type => I32
}

/// Times. Most durations and many stamps fit 32 bits for all of a batch, and halve its memory so: the column is one of
/// `UInt32` then.
pub(super) struct I64 {
    name: &'static str,
    narrow: Vec<u32>,
    /// All values, once there is one that does not fit.
    wide: Option<Vec<i64>>,
    known: Known,
}

impl I64 {
    #[inline]
    pub fn extend<R, V>(&mut self, rows: &[R], value: impl Fn(&R) -> V)
    where
        V: Into<Option<i64>>,
    {
        let before = self.len();
        let mut null = false;
        if self.wide.is_none() {
            // Any bit above the 32 is kept in this, the sign's too.
            let mut bits = 0;
            self.narrow.extend(rows.iter().map(|row| {
                let value = value(row).into();
                null |= value.is_none();
                let value = value.unwrap_or_default();
                bits |= value;
                value as u32
            }));
            if u32::try_from(bits).is_err() {
                self.widen(before);
            }
        }
        if let Some(wide) = &mut self.wide {
            wide.extend(rows.iter().map(|row| {
                let value = value(row).into();
                null |= value.is_none();
                value.unwrap_or_default()
            }));
        }
        let known = rows.iter().map(|row| value(row).into().is_some());
        self.known.extend(before, null, known);
    }

    fn len(&self) -> usize {
        self.wide.as_ref().map_or(self.narrow.len(), Vec::len)
    }

    /// Goes on in 64 bits after the first `rows`.
    #[cold]
    fn widen(&mut self, rows: usize) {
        let narrow = std::mem::take(&mut self.narrow);
        let mut wide = Vec::with_capacity(narrow.capacity());
        wide.extend(narrow.iter().take(rows).map(|&value| i64::from(value)));
        self.wide = Some(wide);
    }
}

impl Build for I64 {
    const TYPE: ColumnType = ColumnType::I64;

    fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            narrow: Vec::with_capacity(capacity),
            wide: None,
            known: Known::default(),
        }
    }

    fn finish(self) -> Column {
        let name = self.name.into();
        match self.wide {
            Some(wide) => with_nulls!(Int64Chunked::from_vec(name, wide), self.known),
            None => with_nulls!(UInt32Chunked::from_vec(name, self.narrow), self.known),
        }
    }
}

/// Yes, no, or not known.
pub(super) struct Bool {
    name: &'static str,
    values: Vec<bool>,
    known: Known,
}

impl Bool {
    #[inline]
    pub fn extend<R, V>(&mut self, rows: &[R], value: impl Fn(&R) -> V)
    where
        V: Into<Option<bool>>,
    {
        let before = self.values.len();
        let mut null = false;
        self.values.extend(rows.iter().map(|row| {
            let value = value(row).into();
            null |= value.is_none();
            value.unwrap_or(false)
        }));
        let known = rows.iter().map(|row| value(row).into().is_some());
        self.known.extend(before, null, known);
    }
}

impl Build for Bool {
    const TYPE: ColumnType = ColumnType::Bool;

    fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            values: Vec::with_capacity(capacity),
            known: Known::default(),
        }
    }

    fn finish(self) -> Column {
        let bits = self.values.as_slice().into();
        let values = BooleanChunked::from_bitmap(self.name.into(), bits);
        with_nulls!(values, self.known)
    }
}

/// Text that is safe to print.
pub(super) struct Text(StringChunkedBuilder);

impl Text {
    pub fn extend<R, S: AsRef<str>>(&mut self, rows: &[R], value: impl Fn(&R) -> Option<S>) {
        rows.iter().for_each(|row| self.0.append_option(value(row)));
    }
}

impl Build for Text {
    const TYPE: ColumnType = ColumnType::Text;

    fn new(name: &'static str, capacity: usize) -> Self {
        Self(StringChunkedBuilder::new(name.into(), capacity))
    }

    fn finish(self) -> Column {
        self.0.finish().into_column()
    }
}

/// A CPU id as tables hold it. Ids above 65535 cannot come from a kernel and become null.
#[inline]
pub(super) fn cpu(id: impl Into<Option<u32>>) -> Option<u16> {
    id.into().and_then(|id| u16::try_from(id).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends values a few at a time, so that first nulls and first wide values come at every place.
    fn build<B: Build, V: Copy>(values: &[V], few: usize, extend: fn(&mut B, &[V])) -> Column {
        let mut column = B::new("column", values.len());
        values.chunks(few).for_each(|few| extend(&mut column, few));
        column.finish()
    }

    #[test]
    fn flags_keep_their_nulls() {
        let known: Vec<bool> = (0..300).map(|n| n % 3 == 1).collect();
        let some: Vec<Option<bool>> = (0..300)
            .map(|n| (n < 70 || n % 7 != 0).then_some(n % 3 == 1))
            .collect();
        for few in [1, 64, 299, 300] {
            let column = build::<Bool, _>(&known, few, |column, flags| {
                column.extend(flags, |flag| *flag);
            });
            assert_eq!(column.null_count(), 0);
            let flags = column.bool().unwrap().iter();
            assert!(flags.eq(known.iter().map(|flag| Some(*flag))));
            let column = build::<Bool, _>(&some, few, |column, flags| {
                column.extend(flags, |flag| *flag);
            });
            assert_eq!(column.null_count(), 33);
            assert!(column.bool().unwrap().iter().eq(some.iter().copied()));
            let none = vec![None; 300];
            let column = build::<Bool, _>(&none, few, |column, flags| {
                column.extend(flags, |flag: &Option<bool>| *flag);
            });
            assert_eq!((column.len(), column.null_count()), (300, 300));
        }
    }

    #[test]
    fn numbers_keep_their_nulls() {
        let values: Vec<Option<u16>> = (0..300).map(|n| (n % 97 != 96).then_some(n)).collect();
        for few in [1, 64, 300] {
            let column = build::<U16, _>(&values, few, |column, values| {
                column.extend(values, |value| *value);
            });
            assert_eq!(column.null_count(), 3);
            assert!(column.u16().unwrap().iter().eq(values.iter().copied()));
        }
    }

    /// Times have 32 bits until one does not fit, wherever it is.
    #[test]
    fn times_are_as_narrow_as_they_fit() {
        let most = i64::from(u32::MAX);
        for odd in [most, most + 1, -1, i64::MIN, i64::MAX] {
            for place in [0, 63, 64, 199] {
                let mut values: Vec<Option<i64>> =
                    (0..200).map(|n| (n % 9 != 4).then_some(n)).collect();
                values[place] = Some(odd);
                let column = build::<I64, _>(&values, 64, |column, values| {
                    column.extend(values, |value| *value);
                });
                let narrow = column.dtype() == &DataType::UInt32;
                assert_eq!(narrow, odd == most);
                let column = column.cast(&DataType::Int64).unwrap();
                assert!(column.i64().unwrap().iter().eq(values.iter().copied()));
            }
        }
    }
}
