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
    /// The number of a CPU.
    Cpu,
    /// The number of a task: its row in `tasks`.
    Task,
    /// An instant on the trace's clock.
    Stamp,
    /// An address in the kernel, which exports name by its symbol; 0 for none.
    Address,
    /// The number of a type of events, which exports name.
    Event,
    /// An upper bound, null in exports from [`UNBOUNDED`] on.
    Bound,
}

impl ColumnType {
    /// The type in polars' words.
    pub fn data_type(self) -> DataType {
        match self {
            ColumnType::U8 => DataType::UInt8,
            ColumnType::U16 | ColumnType::Cpu | ColumnType::Event => DataType::UInt16,
            ColumnType::U32 | ColumnType::Task | ColumnType::Bound => DataType::UInt32,
            ColumnType::U64 | ColumnType::Address => DataType::UInt64,
            ColumnType::I32 => DataType::Int32,
            ColumnType::I64 | ColumnType::Stamp => DataType::Int64,
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
    pub words: Option<Words>,
    /// One sentence.
    pub doc: &'static str,
}

/// The words of an enumeration.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The enumeration's name.
    pub of: &'static str,
    pub list: fn() -> Vec<&'static str>,
}

/// A column under construction. Each kind has a method `extend`, which appends the values of some rows in loops over
/// this column alone: a processor's cache copes with one stream of writes, but not with forty side by side.
pub(super) trait Build {
    const TYPE: ColumnType;
    fn new(name: &'static str, capacity: usize) -> Self;
    fn finish(self) -> Built;
}

/// A finished column, as narrow as its values allow.
#[derive(Debug)]
pub(super) struct Built {
    pub column: Column,
    /// What is to be added to its values.
    pub base: i64,
    /// The memory it takes.
    pub bytes: usize,
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

/// A column of these values, of which those that are not known are null. One that says the same of all rows is kept as
/// one value.
fn built<T: PolarsNumericType>(
    name: &'static str,
    values: Vec<T::Native>,
    known: &Known,
    base: i64,
) -> Built
where
    ChunkedArray<T>: IntoColumn,
    AnyValue<'static>: From<T::Native>,
{
    let (name, rows) = (PlSmallStr::from_static(name), values.len());
    let all_known = known.0.is_empty();
    let same = match values.split_first() {
        None => None,
        Some((first, rest)) if all_known => {
            let same = rest.iter().all(|value| value == first);
            same.then(|| AnyValue::from(*first))
        }
        Some(_) => (!known.0.contains(&true)).then_some(AnyValue::Null),
    };
    if let Some(same) = same {
        let same = Scalar::new(T::get_static_dtype(), same);
        return Built {
            column: Column::new_scalar(name, same, rows),
            base,
            bytes: size_of::<Column>(),
        };
    }
    let values = ChunkedArray::<T>::from_vec(name, values);
    let bits = if all_known { 0 } else { rows / 8 };
    Built {
        column: match all_known {
            true => values,
            false => values.with_validity(Some(known.0.as_slice().into())),
        }
        .into_column(),
        base,
        bytes: rows * size_of::<T::Native>() + bits,
    }
}

/// Numbers of one type; `KIND` tells those apart that exports treat differently.
pub(super) struct Numbers<T: PolarsNumericType, const KIND: u8> {
    name: &'static str,
    values: Vec<T::Native>,
    known: Known,
}

impl<T: PolarsNumericType, const KIND: u8> Numbers<T, KIND> {
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

/// Kinds of [`Numbers`]: mere numbers, those that stand for a thing, types of events, and bounds.
const PLAIN: u8 = 0;
const NAMED: u8 = 1;
const TYPES: u8 = 2;
const BOUNDS: u8 = 3;

pub(super) type U8 = Numbers<UInt8Type, PLAIN>;
pub(super) type U16 = Numbers<UInt16Type, PLAIN>;
pub(super) type Cpu = Numbers<UInt16Type, NAMED>;
pub(super) type U32 = Numbers<UInt32Type, PLAIN>;
pub(super) type U64 = Numbers<UInt64Type, PLAIN>;
pub(super) type Address = Numbers<UInt64Type, NAMED>;
pub(super) type Event = Numbers<UInt16Type, TYPES>;
pub(super) type Bound = Numbers<UInt32Type, BOUNDS>;
pub(super) type I32 = Numbers<Int32Type, PLAIN>;

macro_rules! numbers {
    ($($native:ty, $kind:ident => $type:ident),+) => {
        $(impl Build for Numbers<$native, $kind> {
            const TYPE: ColumnType = ColumnType::$type;

            fn new(name: &'static str, capacity: usize) -> Self {
                Self {
                    name,
                    values: Vec::with_capacity(capacity),
                    known: Known::default(),
                }
            }

            fn finish(self) -> Built {
                built::<$native>(self.name, self.values, &self.known, 0)
            }
        })+
    };
}

numbers! {
    UInt8Type, PLAIN => U8, UInt16Type, PLAIN => U16, UInt16Type, NAMED => Cpu, UInt16Type, TYPES => Event,
    UInt32Type, PLAIN => U32, UInt32Type, BOUNDS => Bound, UInt64Type, PLAIN => U64,
    UInt64Type, NAMED => Address, Int32Type, PLAIN => I32
}

/// Numbers that are kept in a narrower type as long as all of a batch fit it.
struct Narrow<N, W> {
    narrow: Vec<N>,
    /// All values, once there is one that does not fit.
    wide: Option<Vec<W>>,
    known: Known,
}

impl<N: Copy + Default, W: Copy + Default + PartialEq> Narrow<N, W> {
    fn with_capacity(rows: usize) -> Self {
        Self {
            narrow: Vec::with_capacity(rows),
            wide: None,
            known: Known::default(),
        }
    }

    /// Appends the values of some rows, which `cut` makes narrower and `widen` wide again.
    #[inline]
    fn extend<R>(
        &mut self,
        rows: &[R],
        value: impl Fn(&R) -> Option<W>,
        cut: impl Fn(W) -> N,
        widen: impl Fn(N) -> W,
    ) {
        let before = self.wide.as_ref().map_or(self.narrow.len(), Vec::len);
        let (mut null, mut fit) = (false, true);
        if self.wide.is_none() {
            self.narrow.extend(rows.iter().map(|row| {
                let value = value(row);
                null |= value.is_none();
                value.map_or(N::default(), |value| {
                    let narrow = cut(value);
                    fit &= widen(narrow) == value;
                    narrow
                })
            }));
            if !fit {
                self.widen(before, widen);
            }
        }
        if let Some(wide) = &mut self.wide {
            wide.extend(rows.iter().map(|row| {
                let value = value(row);
                null |= value.is_none();
                value.unwrap_or_default()
            }));
        }
        let known = rows.iter().map(|row| value(row).is_some());
        self.known.extend(before, null, known);
    }

    /// Goes on in the wider type after the first `rows`.
    #[cold]
    fn widen(&mut self, rows: usize, widen: impl Fn(N) -> W) {
        let narrow = std::mem::take(&mut self.narrow);
        let mut wide = Vec::with_capacity(narrow.capacity());
        wide.extend(narrow.iter().take(rows).map(|value| widen(*value)));
        self.wide = Some(wide);
    }
}

/// Numbers of tasks: few traces have more than 16 bits hold, and the column is one of `UInt16` then.
pub(super) struct Task {
    name: &'static str,
    numbers: Narrow<u16, u32>,
}

impl Task {
    #[inline]
    pub fn extend<R, V>(&mut self, rows: &[R], value: impl Fn(&R) -> V)
    where
        V: Into<Option<u32>>,
    {
        let value = |row: &R| value(row).into();
        self.numbers
            .extend(rows, value, |task| task as u16, u32::from);
    }
}

impl Build for Task {
    const TYPE: ColumnType = ColumnType::Task;

    fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            numbers: Narrow::with_capacity(capacity),
        }
    }

    fn finish(self) -> Built {
        let Narrow {
            narrow,
            wide,
            known,
        } = self.numbers;
        match wide {
            Some(wide) => built::<UInt32Type>(self.name, wide, &known, 0),
            None => built::<UInt16Type>(self.name, narrow, &known, 0),
        }
    }
}

/// Durations, or stamps if `FROM_FIRST`: these are counted from a little before the first. Most fit 32 bits for all of a
/// batch so, and take half the memory: the column is one of `UInt32` then.
pub(super) struct Times<const FROM_FIRST: bool> {
    name: &'static str,
    base: Option<i64>,
    times: Narrow<u32, i64>,
}

/// Durations, and counts like them.
pub(super) type I64 = Times<false>;

/// Instants on the trace's clock.
pub(super) type Stamp = Times<true>;

/// Rows come in the order in which they were completed: what began long before the first still fits, as what comes long
/// after it does.
const BEFORE_FIRST: i64 = 1 << 31;

impl<const FROM_FIRST: bool> Times<FROM_FIRST> {
    #[inline]
    pub fn extend<R, V>(&mut self, rows: &[R], value: impl Fn(&R) -> V)
    where
        V: Into<Option<i64>>,
    {
        let value = |row: &R| value(row).into();
        if FROM_FIRST && self.base.is_none() {
            let first: Option<i64> = rows.iter().find_map(value);
            self.base = first.map(|first| first.saturating_sub(BEFORE_FIRST));
        }
        // What wraps wraps back.
        let base = self.base.unwrap_or(0);
        let cut = |ns: i64| ns.wrapping_sub(base) as u32;
        let widen = |narrow| base.wrapping_add(i64::from(narrow));
        self.times.extend(rows, value, cut, widen);
    }
}

impl<const FROM_FIRST: bool> Build for Times<FROM_FIRST> {
    const TYPE: ColumnType = match FROM_FIRST {
        true => ColumnType::Stamp,
        false => ColumnType::I64,
    };

    fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            base: None,
            times: Narrow::with_capacity(capacity),
        }
    }

    fn finish(self) -> Built {
        let Narrow {
            narrow,
            wide,
            known,
        } = self.times;
        match wide {
            Some(wide) => built::<Int64Type>(self.name, wide, &known, 0),
            None => built::<UInt32Type>(self.name, narrow, &known, self.base.unwrap_or(0)),
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

    fn finish(self) -> Built {
        let bits = self.values.as_slice().into();
        let values = BooleanChunked::from_bitmap(self.name.into(), bits);
        let (all_known, bytes) = (self.known.0.is_empty(), self.values.len() / 8);
        Built {
            column: match all_known {
                true => values,
                false => values.with_validity(Some(self.known.0.as_slice().into())),
            }
            .into_column(),
            base: 0,
            bytes: if all_known { bytes } else { 2 * bytes },
        }
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

    fn finish(self) -> Built {
        let series = self.0.finish().into_series();
        Built {
            bytes: series.estimated_size(),
            column: series.into_column(),
            base: 0,
        }
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
        let built = column.finish();
        assert_eq!((built.base, built.column.len()), (0, values.len()));
        built.column
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

    /// Stamps have 32 bits as long as they are within some two seconds of the first, whatever that is.
    #[test]
    fn stamps_are_counted_from_before_the_first() {
        let first = 1_700_000_000_000_000_000;
        let most = i64::from(u32::MAX) - BEFORE_FIRST;
        let cases = [
            (first, 0, true),
            (first, most, true),
            (first, most + 1, false),
            (first, -BEFORE_FIRST, true),
            (first, -BEFORE_FIRST - 1, false),
            (i64::MIN, 5, true),
            (i64::MAX, -5, true),
            (-1, 2, true),
        ];
        for (first, odd, narrow) in cases {
            for (few, place) in [(64, 10), (1, 199), (200, 64)] {
                let mut values: Vec<Option<i64>> =
                    (0..200).map(|n| (n % 9 != 0).then_some(first)).collect();
                values[place] = Some(first.wrapping_add(odd));
                let mut column = Stamp::new("stamp", 200);
                let rows = values.chunks(few);
                rows.for_each(|rows| column.extend(rows, |stamp| *stamp));
                let built = column.finish();
                assert_eq!(built.column.dtype() == &DataType::UInt32, narrow);
                let stamps = built.column.cast(&DataType::Int64).unwrap();
                let stamps = stamps.i64().unwrap().iter();
                let stamps = stamps.map(|ns| ns.map(|ns| built.base.wrapping_add(ns)));
                assert!(stamps.eq(values.iter().copied()), "{first} {odd}");
            }
        }
    }

    #[test]
    fn tasks_are_as_narrow_as_they_fit() {
        for odd in [9, 65_535, 65_536, u32::MAX] {
            for place in [0, 63, 64, 199] {
                let mut values: Vec<Option<u32>> =
                    (0..200).map(|n| (n % 9 != 4).then_some(n)).collect();
                values[place] = Some(odd);
                let column = build::<Task, _>(&values, 64, |column, values| {
                    column.extend(values, |value| *value);
                });
                let narrow = column.dtype() == &DataType::UInt16;
                assert_eq!(narrow, odd <= 65_535);
                let column = column.cast(&DataType::UInt32).unwrap();
                assert!(column.u32().unwrap().iter().eq(values.iter().copied()));
            }
        }
    }

    /// What is the same in all rows is kept once.
    #[test]
    fn constant_columns_are_one_value() {
        let built = |values: &[Option<i64>]| {
            let mut column = I64::new("column", values.len());
            column.extend(values, |value| *value);
            column.finish()
        };
        for same in [Some(0), Some(7), Some(-7), None] {
            let built = built(&[same; 100]);
            assert!(matches!(built.column, Column::Scalar(_)));
            assert_eq!(built.column.len(), 100);
            assert_eq!(built.bytes, size_of::<Column>());
            let column = built.column.cast(&DataType::Int64).unwrap();
            assert!(column.i64().unwrap().iter().eq([same; 100]));
        }
        assert_eq!(built(&[]).column.len(), 0);
        let mixed = [Some(7), None, Some(7)];
        let found = built(&mixed);
        assert!(found.bytes > 0);
        assert!(
            found
                .column
                .u32()
                .unwrap()
                .iter()
                .eq([Some(7), None, Some(7)])
        );
    }
}
