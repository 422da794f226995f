//! Plain tables and paragraphs that never exceed a width, whatever the text in them.

use anstyle::Style;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets::NOTHING,
};

use super::WIDTH;

/// The heading of a part of the report.
pub const HEADING: Style = Style::new().bold();
/// What a reader should look at first.
pub const ALARM: Style =
    Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));
/// What only explains.
pub const FAINT: Style = Style::new().dimmed();

/// Columns by which rows stand right of their table's name.
const INDENT: usize = 2;

/// How a column is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Numbers: right-aligned, as wide as they need.
    Number,
    /// Numbers in exactly this many columns.
    Fixed(u16),
    /// Words that are known to be short: left-aligned, as wide as they need.
    Word,
    /// Text of unknown length: left-aligned and cut with `…` beyond this many columns.
    Text(u16),
}

/// A table in the making; a row is one line.
pub struct Lines {
    columns: Vec<Column>,
    header: Vec<String>,
    rows: Vec<(Vec<String>, Option<Style>)>,
    indent: usize,
}

impl Lines {
    pub fn new(columns: Vec<Column>, header: Vec<String>) -> Self {
        Self {
            columns,
            header,
            rows: Vec::new(),
            indent: INDENT,
        }
    }

    /// Puts the rows under their table's name, not right of it: for tables that need all the room.
    pub fn flush(mut self) -> Self {
        self.indent = 0;
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push((cells, None));
    }

    pub fn styled(&mut self, cells: Vec<String>, style: Style) {
        self.rows.push((cells, Some(style)));
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The header line with the table's name moved to the left of the rows.
    fn outdented(&self, line: &str) -> String {
        let name = self.header.first().map_or("", String::as_str);
        let indent = self.indent;
        match line.get(indent..).and_then(|rest| rest.strip_prefix(name)) {
            Some(rest) => format!("{name}{:indent$}{rest}", ""),
            None => line.to_owned(),
        }
    }

    /// Lays the table out, ends it with a newline, and puts it behind `out`.
    pub fn push_to(&self, out: &mut String) {
        let mut table = Table::new();
        table
            .load_preset(NOTHING)
            .set_truncation_indicator("…")
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH as u16);
        let one_line = |cells: &Vec<String>| {
            let mut row = Row::from(cells);
            row.max_height(1);
            row
        };
        table.set_header(one_line(&self.header));
        table.add_rows(self.rows.iter().map(|(cells, _)| one_line(cells)));
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(laid) = table.column_mut(index) {
                // One column of space between two columns, none outside.
                let space = if index > 0 { 1 } else { self.indent as u16 };
                laid.set_padding((space, 0));
                laid.set_constraint(match column {
                    Column::Number | Column::Word => ColumnConstraint::ContentWidth,
                    Column::Fixed(width) => ColumnConstraint::Absolute(Width::Fixed(width + space)),
                    Column::Text(most) => {
                        ColumnConstraint::UpperBoundary(Width::Fixed(most + space))
                    }
                });
                if matches!(column, Column::Number | Column::Fixed(_)) {
                    laid.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        let styles = std::iter::once(Some(HEADING)).chain(self.rows.iter().map(|(_, s)| *s));
        for (index, (line, style)) in table.lines().zip(styles).enumerate() {
            let line = match index {
                0 => self.outdented(&line),
                _ => line,
            };
            push_line(out, line.trim_end(), style);
        }
    }
}

/// Puts one line behind `out`.
pub fn push_line(out: &mut String, line: &str, style: Option<Style>) {
    match style {
        Some(style) => out.push_str(&format!("{style}{line}{style:#}\n")),
        None => {
            out.push_str(line);
            out.push('\n');
        }
    }
}

/// Puts a paragraph behind `out`, wrapped at words: `first` before its first line, as many spaces before the
/// others.
pub fn push_paragraph(out: &mut String, first: &str, text: &str, style: Option<Style>) {
    let indent = first.chars().count();
    let mut lines = wrap(text, WIDTH.saturating_sub(indent)).into_iter();
    let head = lines.next().unwrap_or_default();
    push_line(out, format!("{first}{head}").trim_end(), style);
    for line in lines {
        push_line(out, &format!("{:indent$}{line}", ""), style);
    }
}

/// A text in lines of at most `width` columns, by the width that terminals give its characters.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX).max(1))
        .add_row([hold_units(text)]);
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 0));
    }
    table
        .lines()
        .map(|line| line.trim_end().replace(NO_BREAK, " "))
        .collect()
}

/// Stands for a space at which no line is broken.
const NO_BREAK: char = '\u{a0}';

/// Keeps numbers and their units on one line.
fn hold_units(text: &str) -> String {
    let mut held = String::with_capacity(text.len() + 8);
    let mut after_number = false;
    for (index, word) in text.split(' ').enumerate() {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        let is_unit = ["%", "s", "ms", "µs", "ns"].contains(&bare);
        if index > 0 {
            held.push(if after_number && is_unit {
                NO_BREAK
            } else {
                ' '
            });
        }
        held.push_str(word);
        after_number = word.ends_with(|c: char| c.is_ascii_digit());
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_wide_text_measured() {
        let columns = vec![Column::Text(8), Column::Number, Column::Text(60)];
        let mut lines = Lines::new(
            columns,
            ["name", "n", "meaning"].map(str::to_owned).to_vec(),
        );
        lines.row(vec!["x".repeat(300), "1".into(), "short".into()]);
        lines.row(vec!["進捗進捗進捗".into(), "1,000".into(), "y".repeat(300)]);
        let mut out = String::new();
        lines.push_to(&mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        let rows: Vec<&str> = plain.lines().collect();
        assert_eq!(rows.len(), 3, "{plain}");
        assert!(rows[1].starts_with("  xxxxxxx…     1 short"), "{plain}");
        assert!(rows[2].starts_with("  進捗進…  1,000 yyy"), "{plain}");
        assert!(
            rows[2].ends_with('…') && rows[2].chars().count() <= WIDTH,
            "{plain}"
        );
    }

    #[test]
    fn paragraphs_hang() {
        let mut out = String::new();
        push_paragraph(&mut out, "- ", &"word ".repeat(40), None);
        assert!(out.lines().all(|l| l.chars().count() <= WIDTH));
        assert!(
            out.starts_with("- word")
                && out.lines().nth(1).is_some_and(|l| l.starts_with("  word"))
        );
    }

    #[test]
    fn numbers_keep_their_units() {
        assert_eq!(
            wrap("it took 38.6 % of 12.3 ms.", 12),
            ["it took", "38.6 % of", "12.3 ms."]
        );
    }
}
