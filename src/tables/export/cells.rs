//! Columns as exports hold them: words instead of codes, names instead of addresses, integers of one of two widths.

use polars::prelude::*;
use polars_arrow::array::{
    Array, BooleanArray, MutableBinaryViewArray, PrimitiveArray, Utf8ViewArray,
};
use polars_arrow::bitmap::Bitmap;
use polars_arrow::datatypes::ArrowDataType;
use polars_arrow::types::NativeType;
use rustc_hash::FxHashMap;

use super::Names;
use crate::replay::flips::is_bound;
use crate::tables::columns::{ColumnDef, ColumnType};
use crate::tables::schema::Filled;

/// The type of an exported column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportType {
    /// 32 bits, for what is a name: a CPU, a task, a pid.
    Int32,
    /// 64 bits, for what can be added up.
    Int64,
    Boolean,
    Text,
}

impl ExportType {
    /// The type in polars' words.
    pub fn data_type(self) -> DataType {
        match self {
            ExportType::Int32 => DataType::Int32,
            ExportType::Int64 => DataType::Int64,
            ExportType::Boolean => DataType::Boolean,
            ExportType::Text => DataType::String,
        }
    }

    /// The type in Arrow's words.
    pub fn arrow(self) -> ArrowDataType {
        match self {
            ExportType::Int32 => ArrowDataType::Int32,
            ExportType::Int64 => ArrowDataType::Int64,
            ExportType::Boolean => ArrowDataType::Boolean,
            ExportType::Text => ArrowDataType::Utf8View,
        }
    }

    /// The type in SQL's words.
    pub const fn sql(self) -> &'static str {
        match self {
            ExportType::Int32 => "INT",
            ExportType::Int64 => "BIGINT",
            ExportType::Boolean => "BOOLEAN",
            ExportType::Text => "STRING",
        }
    }
}

impl ColumnDef {
    /// The type that the column has in exports.
    pub fn exported(&self) -> ExportType {
        if self.words.is_some() {
            return ExportType::Text;
        }
        match self.column_type {
            ColumnType::Cpu | ColumnType::Task | ColumnType::I32 => ExportType::Int32,
            ColumnType::Bool => ExportType::Boolean,
            ColumnType::Text | ColumnType::Address | ColumnType::Event => ExportType::Text,
            ColumnType::U8
            | ColumnType::U16
            | ColumnType::U32
            | ColumnType::U64
            | ColumnType::I64
            | ColumnType::Stamp
            | ColumnType::Bound => ExportType::Int64,
        }
    }

    /// The unit of its numbers; `None` where they are no measure, or no numbers.
    pub fn unit(&self) -> Option<&'static str> {
        let of_name = [("_ns", "ns"), ("_percent", "percent"), ("pages", "pages")];
        match (self.exported(), self.column_type) {
            (ExportType::Text | ExportType::Boolean, _) => None,
            (_, ColumnType::Cpu | ColumnType::Task | ColumnType::I32) => None,
            (_, ColumnType::Stamp) => Some("ns on the trace's clock"),
            _ => {
                let mut of_name = of_name.into_iter();
                let found = of_name.find(|(end, _)| self.name.ends_with(end));
                Some(found.map_or("count", |(_, unit)| unit))
            }
        }
    }
}

/// The values of a column.
pub(super) enum Cells {
    Int32(PrimitiveArray<i32>),
    Int64(PrimitiveArray<i64>),
    Flags(BooleanArray),
    Text(Utf8ViewArray),
    /// Few different texts, and the place of each row's among them.
    Words(PrimitiveArray<u32>, Vec<String>),
}

/// The columns of a batch, all in the order of the table's.
pub(super) fn cells(
    batch: &Filled,
    columns: &[ColumnDef],
    names: &Names,
) -> PolarsResult<Vec<Cells>> {
    let bases = batch.bases.iter().copied().chain(std::iter::repeat(0));
    let found = batch.rows.columns().iter().zip(columns).zip(bases);
    found
        .map(|((column, of), base)| of_column(column, of, base, names))
        .collect()
}

fn of_column(column: &Column, of: &ColumnDef, base: i64, names: &Names) -> PolarsResult<Cells> {
    let series = column.as_materialized_series().rechunk();
    if let Some(words) = of.words {
        return Ok(words_of_codes(
            series.u8()?.downcast_as_array(),
            &(words.list)(),
        ));
    }
    Ok(match of.column_type {
        ColumnType::Bool => Cells::Flags(series.bool()?.downcast_as_array().clone()),
        ColumnType::Text => Cells::Text(series.str()?.downcast_as_array().clone()),
        ColumnType::Address => words_of(&series, |address| match address {
            0 => None,
            address => Some(names.function(address as u64)),
        })?,
        ColumnType::Event => words_of(&series, |index| Some(names.event(index)))?,
        ColumnType::Bound => Cells::Int64(bounds(&integers(&series, |most| most)?)),
        _ => match of.exported() {
            ExportType::Int32 => Cells::Int32(integers(&series, |value| value as i32)?),
            _ => Cells::Int64(integers(&series, |value| value.wrapping_add(base))?),
        },
    })
}

/// The numbers of a column of whatever width, each changed by `change`. Those beyond 63 bits are none.
fn integers<T: NativeType>(
    series: &Series,
    change: impl Fn(i64) -> T,
) -> PolarsResult<PrimitiveArray<T>> {
    fn changed<N: NativeType, T: NativeType>(
        of: &PrimitiveArray<N>,
        change: impl Fn(N) -> T,
    ) -> PrimitiveArray<T> {
        let values = of.values().as_slice().iter();
        let values: Vec<T> = values.map(|value| change(*value)).collect();
        PrimitiveArray::new(T::PRIMITIVE.into(), values.into(), of.validity().cloned())
    }
    Ok(match series.dtype() {
        DataType::UInt8 => changed(series.u8()?.downcast_as_array(), |n| change(i64::from(n))),
        DataType::UInt16 => changed(series.u16()?.downcast_as_array(), |n| change(i64::from(n))),
        DataType::UInt32 => changed(series.u32()?.downcast_as_array(), |n| change(i64::from(n))),
        DataType::Int32 => changed(series.i32()?.downcast_as_array(), |n| change(i64::from(n))),
        // Addresses use all bits; counts do not reach so far.
        DataType::UInt64 => changed(series.u64()?.downcast_as_array(), |n| change(n as i64)),
        _ => changed(series.i64()?.downcast_as_array(), change),
    })
}

/// Upper bounds, null where they bound nothing.
fn bounds(of: &PrimitiveArray<i64>) -> PrimitiveArray<i64> {
    let bounded = of.values().iter().map(|most| match u32::try_from(*most) {
        Ok(most) => is_bound(most),
        Err(_) => false,
    });
    let bounded: Bitmap = bounded.collect();
    let known = match of.validity() {
        None => bounded,
        Some(known) => known & &bounded,
    };
    of.clone().with_validity_typed(Some(known))
}

/// A column of an enumeration's codes as words. Words that do not occur are left out.
fn words_of_codes(codes: &PrimitiveArray<u8>, all: &[&str]) -> Cells {
    let codes_of_rows = codes.values().as_slice();
    let mut used = [false; 256];
    for code in codes_of_rows {
        used[usize::from(*code)] = true;
    }
    // What stands where there is no value may be any code.
    let mut places = [0; 256];
    let mut words = Vec::new();
    for (code, word) in all.iter().enumerate().filter(|(code, _)| used[*code]) {
        places[code] = words.len() as u32;
        words.push((*word).to_owned());
    }
    if words.is_empty() {
        words.push(String::new());
    }
    let keys = codes_of_rows.iter().map(|code| places[usize::from(*code)]);
    let keys: Vec<u32> = keys.collect();
    let keys = PrimitiveArray::new(
        ArrowDataType::UInt32,
        keys.into(),
        codes.validity().cloned(),
    );
    Cells::Words(keys, words)
}

/// A column of numbers as words; `None` stands for null.
fn words_of(series: &Series, word: impl Fn(i64) -> Option<String>) -> PolarsResult<Cells> {
    let codes: PrimitiveArray<i64> = integers(series, |code| code)?;
    let mut places: FxHashMap<i64, Option<u32>> = FxHashMap::default();
    let mut words = Vec::new();
    let mut last = None;
    let keys = codes.iter().map(|code| {
        let code = *code?;
        match last {
            Some((same, place)) if same == code => place,
            _ => {
                let place = *places.entry(code).or_insert_with(|| {
                    let word = word(code)?;
                    words.push(word);
                    Some(words.len() as u32 - 1)
                });
                last = Some((code, place));
                place
            }
        }
    });
    let keys: PrimitiveArray<u32> = keys.collect();
    Ok(Cells::Words(keys, words))
}

impl Cells {
    /// The same text in all rows.
    pub fn constant(text: &str, rows: usize) -> Self {
        let keys = PrimitiveArray::new(ArrowDataType::UInt32, vec![0; rows].into(), None);
        Cells::Words(keys, vec![text.to_owned()])
    }

    /// As a column of a frame.
    pub fn into_column(self, name: &'static str) -> PolarsResult<Column> {
        let array: Box<dyn Array> = match self {
            Cells::Int32(array) => array.boxed(),
            Cells::Int64(array) => array.boxed(),
            Cells::Flags(array) => array.boxed(),
            Cells::Text(array) => array.boxed(),
            Cells::Words(keys, words) => {
                let mut texts = MutableBinaryViewArray::<str>::with_capacity(keys.len());
                for key in keys.iter() {
                    texts.push(key.and_then(|key| words.get(*key as usize)));
                }
                let texts: Utf8ViewArray = texts.into();
                texts.boxed()
            }
        };
        let series = Series::from_arrow(PlSmallStr::from_static(name), array)?;
        Ok(series.into_column())
    }
}
