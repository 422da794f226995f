//! Arrow IPC and CSV files.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use polars::io::csv::write::BatchedWriter as CsvBatches;
use polars::io::ipc::{BatchedWriter as IpcBatches, IpcCompression};
use polars::prelude::*;
use polars_arrow::io::ipc::write::default_ipc_fields;

use super::cells::cells;
use super::{FileKind, Format, Names, metadata};
use crate::tables::schema::{Filled, Table};

/// One file of a table, in one of the two formats.
pub(super) struct PlainFile {
    table: Table,
    constants: Vec<(&'static str, String)>,
    writer: Writer,
}

enum Writer {
    Ipc(Box<IpcBatches<BufWriter<File>>>),
    Csv(Box<CsvBatches<BufWriter<File>>>),
}

impl PlainFile {
    pub fn create(path: &Path, table: Table, kind: &FileKind) -> PolarsResult<Self> {
        let file = BufWriter::new(File::create(path)?);
        let schema = schema(table, &kind.constants);
        let writer = match kind.format {
            Format::Csv => Writer::Csv(Box::new(CsvWriter::new(file).batched(&schema)?)),
            Format::Ipc | Format::Parquet => {
                let compression = Some(IpcCompression::ZSTD(Default::default()));
                let writer = IpcWriter::new(file).with_compression(compression);
                let arrow = schema.to_arrow(CompatLevel::newest());
                let fields = default_ipc_fields(arrow.iter_values());
                let mut writer = writer.batched(&schema, fields)?;
                writer.set_custom_metadata(metadata::notes(table));
                Writer::Ipc(Box::new(writer))
            }
        };
        Ok(Self {
            table,
            constants: kind.constants.clone(),
            writer,
        })
    }

    pub fn write(&mut self, batch: &Filled, names: &Names) -> PolarsResult<()> {
        let rows = frame(batch, self.table, names, &self.constants)?;
        if rows.height() == 0 {
            return Ok(());
        }
        match &mut self.writer {
            Writer::Ipc(writer) => writer.write_batch(&rows),
            Writer::Csv(writer) => writer.write_batch(&rows),
        }
    }

    pub fn finish(self) -> PolarsResult<()> {
        match self.writer {
            Writer::Ipc(mut writer) => writer.finish(),
            Writer::Csv(mut writer) => writer.finish(),
        }
    }
}

fn schema(table: Table, constants: &[(&'static str, String)]) -> Schema {
    let columns = table.columns().iter();
    let columns = columns.map(|of| Field::new(of.name.into(), of.exported().data_type()));
    let constants = constants.iter();
    let constants = constants.map(|(name, _)| Field::new((*name).into(), DataType::String));
    columns.chain(constants).collect()
}

/// A batch as exports show it.
fn frame(
    batch: &Filled,
    table: Table,
    names: &Names,
    constants: &[(&'static str, String)],
) -> PolarsResult<DataFrame> {
    let cells = cells(batch, table.columns(), names)?;
    let columns = cells.into_iter().zip(table.columns());
    let columns = columns.map(|(cells, of)| cells.into_column(of.name));
    let height = batch.rows.height();
    let constants = constants.iter().map(|(name, value)| {
        let value = Scalar::from(PlSmallStr::from_str(value));
        Ok(Column::new_scalar((*name).into(), value, height))
    });
    DataFrame::new(
        height,
        columns.chain(constants).collect::<PolarsResult<_>>()?,
    )
}
