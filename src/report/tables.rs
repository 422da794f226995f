//! What tables and columns there are, in lists.

#[cfg(test)]
mod docs;

use super::table::{HEADING, printable, push_paragraph, width};
use crate::tables::Table;
use crate::tables::export::Key;

/// The tables of these names, and what their rows are.
pub fn list(names: &[String]) -> String {
    let about = |name: &String| known(name).map_or("", Table::about).to_owned();
    let rows = names.iter().map(|name| ([name.clone()], about(name)));
    laid_out(["table"], "its rows", &rows.collect::<Vec<_>>())
}

/// The columns of a table, with their types, and what they mean.
pub fn columns(table: &str, columns: &[(String, String)]) -> String {
    let of = known(table).map_or(&[][..], Table::columns);
    let rows = columns.iter().map(|(name, data_type)| {
        let column = of.iter().find(|column| column.name == name);
        let kind = column.map_or(data_type.clone(), |of| of.exported().sql().to_lowercase());
        let key = Key::ALL.iter().find(|key| key.as_str() == name);
        let meaning = column.map(|of| of.doc).or(key.map(|key| key.about()));
        ([name.clone(), kind], meaning.unwrap_or_default().to_owned())
    });
    laid_out(["column", "type"], "meaning", &rows.collect::<Vec<_>>())
}

fn known(name: &str) -> Option<Table> {
    Table::ALL
        .iter()
        .copied()
        .find(|table| table.as_str() == name)
}

/// Names in columns, and beside them what they mean, in as many lines as that takes.
pub(super) fn laid_out<const N: usize>(
    header: [&str; N],
    last: &str,
    rows: &[([String; N], String)],
) -> String {
    let header = (header.map(str::to_owned), last.to_owned());
    let mut widths = [0; N];
    for (names, _) in rows.iter().chain([&header]) {
        for (widest, name) in widths.iter_mut().zip(names) {
            *widest = width(name).max(*widest);
        }
    }
    let mut out = String::new();
    for (index, (names, text)) in [&header].into_iter().chain(rows).enumerate() {
        let names = names.iter().zip(widths);
        let names = names.map(|(name, width)| format!("{}  ", pad(&printable(name), width)));
        let style = (index == 0).then_some(HEADING);
        push_paragraph(&mut out, &names.collect::<String>(), text, style);
    }
    out
}

fn pad(text: &str, columns: usize) -> String {
    format!("{text}{:1$}", "", columns.saturating_sub(width(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::WIDTH;

    #[test]
    fn meanings_are_whole_and_lines_fit() {
        let all: Vec<String> = Table::ALL.iter().map(|of| of.as_str().to_owned()).collect();
        let mut texts = vec![list(&all)];
        for table in Table::ALL {
            let names = table
                .columns()
                .iter()
                .map(|of| of.name)
                .chain(["host", "mine"]);
            let names: Vec<_> = names
                .map(|name| (name.to_owned(), "str".to_owned()))
                .collect();
            let text = columns(table.as_str(), &names);
            let plain = anstream::adapter::strip_str(&text).to_string();
            let told = plain.split_whitespace().collect::<Vec<_>>().join(" ");
            for column in table.columns() {
                assert!(told.contains(column.doc), "{}: {told}", column.name);
            }
            texts.push(text);
        }
        let lines = texts.iter().flat_map(|text| text.lines());
        assert!(lines.clone().count() > 200);
        for line in lines {
            let line = anstream::adapter::strip_str(line).to_string();
            assert!(width(&line) <= WIDTH, "{line}");
        }
    }
}
