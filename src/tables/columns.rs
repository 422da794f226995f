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

/// A column under construction.
pub(super) trait Build {
    const TYPE: ColumnType;
    fn new(name: &'static str, capacity: usize) -> Self;
    fn finish(self) -> Column;
}

/// Numbers of one type. Rows of which the number is null are listed: they are either few or not asked for.
pub(super) struct Numbers<T: PolarsNumericType> {
    name: &'static str,
    values: Vec<T::Native>,
    nulls: Vec<u32>,
}

impl<T: PolarsNumericType> Numbers<T> {
    #[inline(always)]
    pub fn push(&mut self, value: impl Into<Option<T::Native>>) {
        match value.into() {
            Some(value) => self.values.push(value),
            None => {
                self.nulls.push(self.values.len() as u32);
                self.values.push(T::Native::default());
            }
        }
    }
}

pub(super) type U8 = Numbers<UInt8Type>;
pub(super) type U16 = Numbers<UInt16Type>;
pub(super) type U32 = Numbers<UInt32Type>;
pub(super) type U64 = Numbers<UInt64Type>;
pub(super) type I32 = Numbers<Int32Type>;
pub(super) type I64 = Numbers<Int64Type>;

macro_rules! numbers {
    ($($native:ty => $type:ident),+) => {
        $(impl Build for Numbers<$native> {
            const TYPE: ColumnType = ColumnType::$type;

            fn new(name: &'static str, capacity: usize) -> Self {
                Self {
                    name,
                    values: Vec::with_capacity(capacity),
                    nulls: Vec::new(),
                }
            }

            fn finish(self) -> Column {
                let known = known(self.values.len(), &self.nulls);
                let known = known.as_ref().and_then(|known| known.downcast_iter().next());
                let known = known.map(|array| array.values().clone());
                ChunkedArray::<$native>::from_vec_validity(self.name.into(), self.values, known)
                    .into_column()
            }
        })+
    };
}

numbers! {
    UInt8Type => U8, UInt16Type => U16, UInt32Type => U32, UInt64Type => U64, Int32Type => I32, Int64Type => I64
}

/// Which of so many rows are not null; `None` if all are.
fn known(rows: usize, nulls: &[u32]) -> Option<BooleanChunked> {
    if nulls.is_empty() {
        return None;
    }
    let mut known = vec![true; rows];
    for &row in nulls {
        if let Some(known) = known.get_mut(row as usize) {
            *known = false;
        }
    }
    Some(BooleanChunked::from_slice(PlSmallStr::EMPTY, &known))
}

/// Yes, no, or not known.
pub(super) struct Bool {
    name: &'static str,
    values: Vec<bool>,
    nulls: Vec<u32>,
}

impl Bool {
    #[inline(always)]
    pub fn push(&mut self, value: impl Into<Option<bool>>) {
        let value = value.into();
        if value.is_none() {
            self.nulls.push(self.values.len() as u32);
        }
        self.values.push(value.unwrap_or(false));
    }
}

impl Build for Bool {
    const TYPE: ColumnType = ColumnType::Bool;

    fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            values: Vec::with_capacity(capacity),
            nulls: Vec::new(),
        }
    }

    fn finish(self) -> Column {
        let values = BooleanChunked::from_slice(self.name.into(), &self.values);
        let Some(known) = known(self.values.len(), &self.nulls) else {
            return values.into_column();
        };
        let values = values.iter().zip(known.iter());
        let values = values.map(|(value, known)| value.filter(|_| known == Some(true)));
        let values: BooleanChunked = values.collect();
        values.with_name(self.name.into()).into_column()
    }
}

/// Text that is safe to print.
pub(super) struct Text(StringChunkedBuilder);

impl Text {
    pub fn push<S: AsRef<str>>(&mut self, value: Option<S>) {
        self.0.append_option(value);
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
