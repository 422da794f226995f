//! Parquet files, a row group for each batch. Each column's encoding is chosen by what it holds, which polars' own
//! writer does not offer: instants are far smaller as differences.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use polars::prelude::*;
use polars_arrow::array::{Array, DictionaryArray, Utf8ViewArray};
use polars_arrow::datatypes::{ArrowDataType, ArrowSchema, Field, IntegerType, Metadata};
use polars_parquet::write::{
    CompressedPage, CompressionOptions, DynIter, DynStreamingIterator, Encoding, FileWriter,
    KeyValue, ParquetType, StatisticsOptions, Version, WriteOptions, ZstdLevel, array_to_columns,
    compress, fallible_streaming_iterator, schema_to_metadata_key, to_parquet_type,
};
use rayon::prelude::*;

use super::cells::{Cells, cells};
use super::{Names, metadata};
use crate::tables::columns::{ColumnDef, ColumnType};
use crate::tables::schema::{Filled, Table};

/// One Parquet file of a table.
pub(super) struct ParquetFile {
    table: Table,
    constants: Vec<(&'static str, String)>,
    writer: FileWriter<BufWriter<File>>,
    types: Vec<ParquetType>,
    options: WriteOptions,
}

impl ParquetFile {
    pub fn create(
        path: &Path,
        table: Table,
        constants: &[(&'static str, String)],
    ) -> PolarsResult<Self> {
        let options = WriteOptions {
            statistics: StatisticsOptions::default(),
            version: Version::V1,
            compression: CompressionOptions::Zstd(Some(ZstdLevel::try_new(1)?)),
            data_page_size: None,
        };
        let constant = |(name, _): &(&'static str, String)| {
            Field::new((*name).into(), ArrowDataType::Utf8View, true)
        };
        let fields = table.columns().iter().map(field);
        let fields = fields.chain(constants.iter().map(constant));
        let schema: ArrowSchema = fields.map(|field| (field.name.clone(), field)).collect();
        let types = schema.iter_values().map(to_parquet_type);
        Ok(Self {
            table,
            constants: constants.to_vec(),
            types: types.collect::<PolarsResult<_>>()?,
            writer: FileWriter::try_new(BufWriter::new(File::create(path)?), schema, options)?,
            options,
        })
    }

    /// Appends a row group.
    pub fn write(&mut self, batch: &Filled, names: &Names) -> PolarsResult<()> {
        if batch.rows.height() == 0 {
            return Ok(());
        }
        let columns = self.table.columns();
        let encodings = columns.iter().map(encoding);
        let encodings = encodings.chain(std::iter::repeat(Encoding::RleDictionary));
        let mut cells = cells(batch, columns, names)?;
        let constants = self.constants.iter();
        cells.extend(constants.map(|(_, value)| Cells::constant(value, batch.rows.height())));
        let cells: Vec<_> = cells.into_iter().zip(encodings).collect();
        let options = self.options;
        let pages: Vec<Vec<CompressedPage>> = cells
            .into_par_iter()
            .zip(&self.types)
            .map(|((cells, encoding), parquet)| pages(cells, encoding, parquet.clone(), options))
            .collect::<PolarsResult<_>>()?;
        let columns = pages.iter().map(|pages| {
            let pages = pages.iter().map(PolarsResult::Ok);
            Ok(DynStreamingIterator::new(
                fallible_streaming_iterator::convert(pages),
            ))
        });
        self.writer
            .write(batch.rows.height() as u64, DynIter::new(columns))
    }

    /// Writes the footer, with the meaning of the table and its columns.
    pub fn finish(mut self) -> PolarsResult<()> {
        let schema = self.writer.schema().iter_values().map(with_plain_text);
        let schema: ArrowSchema = schema.map(|field| (field.name.clone(), field)).collect();
        let mut notes = vec![schema_to_metadata_key(&schema)];
        notes.extend(
            metadata::notes(self.table)
                .into_iter()
                .map(|(key, value)| KeyValue {
                    key,
                    value: Some(value),
                }),
        );
        self.writer.end(Some(notes))?;
        Ok(())
    }
}

/// As readers are told of it: not every function of theirs takes views of text.
fn with_plain_text(field: &Field) -> Field {
    let mut plain = field.clone();
    if plain.dtype == ArrowDataType::Utf8View {
        plain.dtype = ArrowDataType::Utf8;
    }
    plain
}

/// A column in Arrow's words, with its unit and meaning.
fn field(column: &ColumnDef) -> Field {
    let notes: Metadata = metadata::of_column(column)
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    Field::new(column.name.into(), column.exported().arrow(), true).with_metadata(notes)
}

/// Instants are smallest as differences. Anything else repeats itself, durations too: many are of few hundred values.
fn encoding(column: &ColumnDef) -> Encoding {
    match column.column_type {
        ColumnType::Stamp => Encoding::DeltaBinaryPacked,
        ColumnType::Bool => Encoding::Plain,
        _ => Encoding::RleDictionary,
    }
}

fn pages(
    cells: Cells,
    encoding: Encoding,
    parquet: ParquetType,
    options: WriteOptions,
) -> PolarsResult<Vec<CompressedPage>> {
    let array: Box<dyn Array> = match cells {
        Cells::Int32(array) => array.boxed(),
        Cells::Int64(array) => array.boxed(),
        Cells::Flags(array) => array.boxed(),
        Cells::Text(array) => array.boxed(),
        Cells::Words(keys, words) => {
            let words = Utf8ViewArray::from_slice_values(words);
            let of = ArrowDataType::Dictionary(
                IntegerType::UInt32,
                Box::new(ArrowDataType::Utf8View),
                false,
            );
            DictionaryArray::try_new(of, keys, words.boxed())?.boxed()
        }
    };
    let columns = array_to_columns(array, parquet, options, &[encoding])?;
    let pages = columns.into_iter().flatten();
    pages
        .map(|page| Ok(compress(page?, Vec::new(), options.compression)?))
        .collect()
}
