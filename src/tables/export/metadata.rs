//! What files say of their tables: the meaning of each column, in words for people and for programs.

use serde_json::{Value, json};

use super::SCHEMA_VERSION;
use crate::tables::columns::ColumnDef;
use crate::tables::schema::Table;

/// Keys and values for a file of this table.
pub(super) fn notes(table: Table) -> Vec<(String, String)> {
    let columns: Vec<Value> = table.columns().iter().map(described).collect();
    [
        ("ttwu.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("ttwu.schema_version", SCHEMA_VERSION.to_string()),
        ("ttwu.table", table.as_str().to_owned()),
        ("ttwu.about", table.about().to_owned()),
        ("ttwu.sorted_by", table.order().to_owned()),
        ("ttwu.columns", Value::Array(columns).to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn described(column: &ColumnDef) -> Value {
    let mut described = json!({ "name": column.name, "type": column.exported().sql() });
    for (key, value) in of_column(column) {
        described[key] = match key {
            "words" => value.split(", ").collect(),
            _ => value.into(),
        };
    }
    described
}

/// The unit, the meaning and the words of a column, as far as it has them.
pub(super) fn of_column(column: &ColumnDef) -> Vec<(&'static str, String)> {
    let unit = column.unit().map(|unit| ("unit", unit.to_owned()));
    let words = column
        .words
        .map(|words| ("words", (words.list)().join(", ")));
    let about = [("about", column.doc.to_owned())];
    unit.into_iter().chain(about).chain(words).collect()
}
