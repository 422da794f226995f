//! Plain tables and paragraphs that never exceed a width, whatever the text in them.

use std::borrow::Cow;

use anstyle::Style;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width, presets::NOTHING,
};
use ttwu_parsers::event::escape;
use unicode_width::UnicodeWidthStr;

use super::WIDTH;

/// The columns that a terminal gives a text.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A text whose end is cut with `…` if it takes more columns.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        kept.push(c);
        // A combining character belongs to the one before it: the whole is measured.
        if width(&kept) > columns.saturating_sub(1) {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

/// A text with everything unprintable escaped. Names of a trace are escaped already where they are read; this is for what
/// users type, and the names of files.
pub fn printable(text: &str) -> Cow<'_, str> {
    let escaped = escape(text.as_bytes());
    match escaped == text {
        true => Cow::Borrowed(text),
        false => Cow::Owned(escaped),
    }
}

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
        self.add(cells, None);
    }

    pub fn styled(&mut self, cells: Vec<String>, style: Style) {
        self.add(cells, Some(style));
    }

    fn add(&mut self, cells: Vec<String>, style: Option<Style>) {
        let cells = cells.iter().map(|cell| printable(cell).into_owned());
        self.rows.push((cells.collect(), style));
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
        let mut lines = self.laid_out(0);
        let widest = |lines: &[String]| lines.iter().map(|line| width(line)).max().unwrap_or(0);
        let over = widest(&lines).saturating_sub(WIDTH);
        if over > 0 {
            // Numbers are wider than any that tables are made for: they take the room of the text.
            lines = self.laid_out(u16::try_from(over).unwrap_or(u16::MAX));
        }
        let styles = std::iter::once(Some(HEADING)).chain(self.rows.iter().map(|(_, s)| *s));
        for (line, style) in lines.iter().zip(styles) {
            push_line(out, &cut(line, WIDTH), style);
        }
    }

    /// The lines, of which texts are this much narrower in all than they may be.
    fn laid_out(&self, narrower: u16) -> Vec<String> {
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
        let mut narrower = narrower;
        // The last texts are explanations, the first are names.
        for (index, column) in self.columns.iter().enumerate().rev() {
            if let Some(laid) = table.column_mut(index) {
                // One column of space between two columns, none outside.
                let space = if index > 0 { 1 } else { self.indent as u16 };
                laid.set_padding((space, 0));
                laid.set_constraint(match column {
                    Column::Number | Column::Word => ColumnConstraint::ContentWidth,
                    Column::Fixed(width) => ColumnConstraint::Absolute(Width::Fixed(width + space)),
                    Column::Text(most) => {
                        let widest = self.widest(index).min(*most);
                        let left = widest.saturating_sub(narrower).max(LEAST_TEXT.min(widest));
                        narrower -= widest - left;
                        ColumnConstraint::UpperBoundary(Width::Fixed(left + space))
                    }
                });
                if matches!(column, Column::Number | Column::Fixed(_)) {
                    laid.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        let lines = table.lines().enumerate().map(|(index, line)| match index {
            0 => self.outdented(&line).trim_end().to_owned(),
            _ => line.trim_end().to_owned(),
        });
        lines.collect()
    }

    /// The columns that the widest cell of a column takes.
    fn widest(&self, index: usize) -> u16 {
        let rows = self.rows.iter().map(|(cells, _)| cells);
        let cells = rows
            .chain([&self.header])
            .filter_map(|cells| cells.get(index));
        let widest = cells.map(|cell| width(cell)).max().unwrap_or(0);
        u16::try_from(widest).unwrap_or(u16::MAX)
    }
}

/// Columns that a text keeps, however wide the numbers beside it are.
const LEAST_TEXT: u16 = 6;

/// Puts one line behind `out`.
pub fn push_line(out: &mut String, line: &str, style: Option<Style>) {
    let line = printable(line);
    match style {
        Some(style) => out.push_str(&format!("{style}{line}{style:#}\n")),
        None => {
            out.push_str(&line);
            out.push('\n');
        }
    }
}

/// Puts a paragraph behind `out`, wrapped at words: `first` before its first line, as many spaces before the
/// others.
pub fn push_paragraph(out: &mut String, first: &str, text: &str, style: Option<Style>) {
    let indent = width(first);
    let mut lines = wrap(&printable(text), WIDTH.saturating_sub(indent)).into_iter();
    let head = lines.next().unwrap_or_default();
    push_line(out, format!("{first}{head}").trim_end(), style);
    for line in lines {
        push_line(out, &format!("{:indent$}{line}", ""), style);
    }
}

/// The same of a list, of which no item is broken.
pub fn push_list(out: &mut String, first: &str, lead: &str, items: &[String]) {
    let items = items
        .iter()
        .map(|item| printable(item).replace(' ', "\u{a0}"));
    let text = lead.to_owned() + &items.collect::<Vec<_>>().join(", ");
    let indent = width(first);
    for (index, line) in wrap(&text, WIDTH.saturating_sub(indent)).iter().enumerate() {
        match index {
            0 => push_line(out, &format!("{first}{line}"), None),
            _ => push_line(out, &format!("{:indent$}{line}", ""), None),
        }
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
    fn no_item_of_a_list_is_broken() {
        let items: Vec<String> = (100..120).map(|n| format!("node {n} (3 µs)")).collect();
        let mut out = String::new();
        push_list(&mut out, "  ", "p50: ", &items);
        assert!(out.lines().count() > 3 && out.lines().all(|line| width(line) <= WIDTH));
        let told = out
            .lines()
            .flat_map(|line| line.trim().trim_start_matches("p50: ").split(", "));
        let told: Vec<&str> = told
            .map(|item| item.trim_end_matches(','))
            .filter(|item| !item.is_empty())
            .collect();
        assert_eq!(told, items);
    }

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

    fn plain(out: &str) -> String {
        anstream::adapter::strip_str(out).to_string()
    }

    /// Whatever is put in: no control character but the ends of lines, and no line too wide.
    #[test]
    fn nothing_is_printed_raw() {
        let hostile = "a\u{1b}[31mb\r\nc\u{202e}d\u{9b}e";
        let mut out = String::new();
        push_line(&mut out, hostile, Some(HEADING));
        push_paragraph(&mut out, "x: ", &hostile.repeat(9), None);
        let layout = vec![Column::Text(60), Column::Word];
        let mut lines = Lines::new(layout, vec!["n".into(), "m".into()]);
        lines.row(vec![hostile.into(), hostile.into()]);
        lines.push_to(&mut out);
        let text = plain(&out);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(
            !text.contains('\u{202e}') && text.contains("\\u{1b}"),
            "{text}"
        );
        // Two lines of a table, one line, and a paragraph.
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert_eq!(out.matches('\u{1b}').count(), 4, "only styles: {out:?}");
    }

    #[test]
    fn text_gives_way_to_numbers_that_are_too_wide() {
        let columns = [
            vec![Column::Text(16)],
            vec![Column::Number; 4],
            vec![Column::Text(31)],
        ];
        let mut lines = Lines::new(
            columns.concat(),
            ["name", "a", "b", "c", "d", "why"]
                .map(str::to_owned)
                .to_vec(),
        );
        let number = "1,234,567,890".to_owned();
        let row = |number: &String| {
            let mut cells = vec!["進捗進捗進捗進捗".to_owned()];
            cells.extend(vec![number.clone(); 4]);
            cells.push("so many words that need much room".to_owned());
            cells
        };
        lines.row(row(&number));
        let mut out = String::new();
        lines.push_to(&mut out);
        let text = plain(&out);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert_eq!(text.matches(&number).count(), 4, "{text}");
        // Beyond that the line is cut, and shows it.
        lines.row(row(&"9".repeat(30)));
        let mut out = String::new();
        lines.push_to(&mut out);
        let text = plain(&out);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(
            text.lines().last().is_some_and(|line| line.ends_with('…')),
            "{text}"
        );
    }

    #[test]
    fn cut_text_is_measured_by_its_columns() {
        let cuts = [
            ("abc", 3),
            ("abcd", 3),
            ("進捗進", 5),
            ("e\u{301}e\u{301}", 2),
        ];
        let shown = cuts.map(|(text, columns)| cut(text, columns));
        assert_eq!(shown, ["abc", "ab…", "進捗…", "e\u{301}e\u{301}"]);
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
