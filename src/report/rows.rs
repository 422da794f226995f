//! The answer to a query, for people (tables) and for programs (CSV, JSON).

use std::io::{self, Write};

use polars::prelude::*;
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use super::json::unprintable_as_escapes;
use super::table::{FAINT, HEADING, cut, printable, push_line, width};
use super::units::counted;
use crate::tables::export::Key;

/// Columns of a terminal that a text takes at most.
const WIDEST_TEXT: usize = 40;
/// Between two columns.
const GAP: usize = 2;

/// How much of an answer is shown, and in how many columns of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub rows: usize,
    pub width: usize,
    /// How more rows are asked for.
    pub more: &'static str,
}

/// A column, ready to be laid out.
struct Shown {
    /// The name, in as many lines as make it no wider than it must be.
    header: Vec<String>,
    cells: Vec<String>,
    right: bool,
    width: usize,
}

/// The rows as a table. One that is wider than there is room stands in several parts, one below the other. Of which host
/// and trace all rows are is said once.
pub fn table(answer: &DataFrame, room: Room) -> String {
    let rows = answer.height().min(room.rows);
    let of = keys_of_all(answer);
    let shown = answer.head(Some(rows));
    let columns = shown.columns().iter();
    let columns = columns.filter(|column| !of.iter().any(|(name, _)| column.name() == *name));
    let columns: Vec<Shown> = columns.map(Shown::new).collect();
    let mut out = String::new();
    let keys: Vec<String> = of
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if !keys.is_empty() {
        push_line(&mut out, &cut(&keys.join(", "), room.width), Some(FAINT));
    }
    let parts = parts(&columns, rows, room.width);
    let several = parts.len() > 1;
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let numbers = several.then(|| Shown::numbers(rows));
        let part: Vec<&Shown> = numbers.iter().chain(part).collect();
        push_part(&mut out, &part, rows);
    }
    let all = counted(answer.height() as u64, "row");
    if rows < answer.height() {
        out.push_str(&format!("({rows} of {all}; {})\n", room.more));
    } else if rows == 0 {
        out.push_str("(no rows)\n");
    }
    out
}

/// The host and the trace, where all rows are of one.
fn keys_of_all(answer: &DataFrame) -> Vec<(&'static str, String)> {
    let only_keys = answer.width() <= Key::ALL.len();
    let keys = Key::ALL.into_iter().filter_map(|key| {
        let values = answer.column(key.as_str()).ok()?.str().ok()?;
        let first = values.iter().next()??;
        let same = values.iter().all(|value| value == Some(first));
        (same && !only_keys).then(|| (key.as_str(), first.to_owned()))
    });
    keys.collect()
}

/// Parts the columns so that each part has room.
fn parts(columns: &[Shown], rows: usize, room: usize) -> Vec<&[Shown]> {
    let total = |columns: &[Shown]| columns.iter().map(|of| of.width + GAP).sum::<usize>();
    if total(columns) <= room + GAP {
        return vec![columns];
    }
    // Each part begins with the numbers of its rows.
    let taken = rows.to_string().len().max(1) + GAP;
    let mut parts = Vec::new();
    let mut left = columns;
    while !left.is_empty() {
        let fits = (1..=left.len())
            .take_while(|count| {
                left.get(..*count)
                    .is_some_and(|some| taken + total(some) <= room + GAP)
            })
            .last();
        let (part, rest) = left.split_at(fits.unwrap_or(1));
        parts.push(part);
        left = rest;
    }
    parts
}

fn push_part(out: &mut String, columns: &[&Shown], rows: usize) {
    let lines = columns.iter().map(|of| of.header.len()).max().unwrap_or(0);
    for line in 0..lines {
        let cells = columns.iter().map(|of| {
            // Names stand on the line above their values.
            let above = lines - of.header.len();
            let at = line.checked_sub(above);
            (
                *of,
                at.and_then(|at| of.header.get(at))
                    .map_or("", String::as_str),
            )
        });
        let line = laid_out(cells);
        out.push_str(&format!("{HEADING}{line}{HEADING:#}\n"));
    }
    for row in 0..rows {
        let cells = columns
            .iter()
            .map(|of| (*of, of.cells.get(row).map_or("", String::as_str)));
        out.push_str(&laid_out(cells));
        out.push('\n');
    }
}

fn laid_out<'a>(cells: impl Iterator<Item = (&'a Shown, &'a str)>) -> String {
    let mut line = String::new();
    for (index, (of, cell)) in cells.enumerate() {
        let space = of.width.saturating_sub(width(cell));
        let between = if index > 0 { GAP } else { 0 };
        line.extend(std::iter::repeat_n(' ', between));
        match of.right {
            true => line.extend(std::iter::repeat_n(' ', space).chain(cell.chars())),
            false => line.extend(cell.chars().chain(std::iter::repeat_n(' ', space))),
        }
    }
    line.trim_end().to_owned()
}

impl Shown {
    fn new(column: &Column) -> Self {
        let decimals = decimals(column);
        let cells = (0..column.len()).map(|row| {
            let value = column.get(row);
            value.map_or(String::new(), |value| cell(&value, decimals))
        });
        let cells: Vec<String> = cells.collect();
        let widest = cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
        let header = folded(&printable(column.name()), widest);
        let header_width = header.iter().map(|line| line.width()).max().unwrap_or(0);
        Self {
            width: widest.max(header_width),
            right: column.dtype().is_primitive_numeric(),
            header,
            cells,
        }
    }

    /// The numbers of rows.
    fn numbers(rows: usize) -> Self {
        Self {
            header: vec!["#".to_owned()],
            cells: (1..=rows).map(|row| row.to_string()).collect(),
            right: true,
            width: rows.to_string().len().max(1),
        }
    }
}

/// A name in lines that are broken behind `_` where it is wider than its values.
fn folded(name: &str, values: usize) -> Vec<String> {
    let pieces: Vec<&str> = name.split_inclusive('_').collect();
    let longest = pieces.iter().map(|piece| piece.width()).max().unwrap_or(0);
    let room = values.max(longest).max(6);
    let mut lines = vec![String::new()];
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.width() + piece.width() <= room => line.push_str(piece),
            _ => lines.push(piece.to_owned()),
        }
    }
    lines
}

/// A value as a table shows it.
fn cell(value: &AnyValue, decimals: Option<usize>) -> String {
    match value {
        AnyValue::Null => "-".to_owned(),
        AnyValue::Boolean(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        // What has 64 bits is a measure, what has fewer a name: see the types of exported columns.
        AnyValue::Int64(value) => grouped(*value),
        AnyValue::UInt64(value) => i64::try_from(*value).map_or(value.to_string(), grouped),
        AnyValue::Float64(value) => float(*value, decimals),
        AnyValue::Float32(value) => float(f64::from(*value), decimals),
        AnyValue::String(text) => cut(&printable(text), WIDEST_TEXT),
        AnyValue::StringOwned(text) => cut(&printable(text), WIDEST_TEXT),
        other => cut(&printable(&other.to_string()), WIDEST_TEXT),
    }
}

/// A number with a comma before every third digit.
fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if value < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many decimals are of use in a column: by its largest number. None where all are tiny.
fn decimals(column: &Column) -> Option<usize> {
    let values = column.cast(&DataType::Float64).ok()?;
    let values = values.f64().ok()?.iter().flatten().map(f64::abs);
    let largest = values.filter(|size| size.is_finite()).fold(0.0, f64::max);
    match largest {
        0.0 => Some(0),
        1000.0.. => Some(0),
        10.0.. => Some(1),
        0.1.. => Some(3),
        0.0001.. => Some(6),
        _ => None,
    }
}

/// A number with so many decimals.
fn float(value: f64, decimals: Option<usize>) -> String {
    match decimals {
        Some(0) if value.is_finite() => grouped(value.round() as i64),
        Some(decimals) => format!("{value:.decimals$}"),
        None => format!("{value:.3e}"),
    }
}

/// Writes the rows as CSV with a header.
///
/// # Errors
/// Where they cannot be written.
pub fn write_csv(answer: &DataFrame, out: &mut dyn Write) -> io::Result<()> {
    let safe = with_safe_text(answer);
    let written = safe.and_then(|mut safe| CsvWriter::new(out).finish(&mut safe));
    written.map_err(io_error)
}

/// Writes the rows as a Parquet file.
///
/// # Errors
/// Where they cannot be written.
pub fn write_parquet(answer: &DataFrame, out: &mut dyn Write) -> io::Result<()> {
    let written = ParquetWriter::new(out).finish(&mut answer.clone());
    written.map(|_| ()).map_err(io_error)
}

/// An error in writing as such, so that a closed pipe is known.
fn io_error(error: PolarsError) -> io::Error {
    match error {
        PolarsError::IO { error, .. } => io::Error::new(error.kind(), error.to_string()),
        other => io::Error::other(other.to_string()),
    }
}

/// The answer with everything unprintable in its texts escaped.
fn with_safe_text(answer: &DataFrame) -> PolarsResult<DataFrame> {
    let columns = answer.columns().iter().map(|column| {
        let name = PlSmallStr::from_str(&printable(column.name()));
        let column = match column.dtype() {
            DataType::String => {
                let safe = column.str()?.apply(|text| {
                    // The end of a line is quoted, and safe.
                    text.map(|text| {
                        let lines = text.split('\n').map(printable);
                        lines.collect::<Vec<_>>().join("\n").into()
                    })
                });
                safe.into_column()
            }
            _ => column.clone(),
        };
        Ok(column.with_name(name))
    });
    DataFrame::new(answer.height(), columns.collect::<PolarsResult<_>>()?)
}

/// Writes the rows as a list of objects, one a line. What is no number (NaN, infinity) is null, as JSON has no word for
/// it.
///
/// # Errors
/// Where they cannot be written.
pub fn write_json(answer: &DataFrame, out: &mut dyn Write) -> io::Result<()> {
    let columns = answer.columns();
    out.write_all(b"[")?;
    for row in 0..answer.height() {
        let fields = columns.iter().map(|column| {
            let value = column.get(row).map_err(io_error)?;
            Ok((column.name().to_string(), json_of(&value)))
        });
        let fields = fields.collect::<io::Result<Map<_, _>>>()?;
        let object = serde_json::to_string(&fields)?;
        let end = if row > 0 { ",\n" } else { "\n" };
        out.write_all(end.as_bytes())?;
        out.write_all(unprintable_as_escapes(&object).as_bytes())?;
    }
    out.write_all(b"\n]\n")
}

fn json_of(value: &AnyValue) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(yes) => (*yes).into(),
        AnyValue::Float64(value) => (*value).into(),
        AnyValue::Float32(value) => f64::from(*value).into(),
        AnyValue::String(text) => (*text).into(),
        AnyValue::StringOwned(text) => text.as_str().into(),
        AnyValue::UInt64(value) => (*value).into(),
        AnyValue::List(list) => {
            let values = list.iter();
            values.map(|value| json_of(&value)).collect()
        }
        other => match other.extract::<i64>() {
            Some(number) if other.dtype().is_integer() => number.into(),
            _ => other.to_string().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        rows: 10,
        width: 80,
        more: "--rows all shows more",
    };

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_table_is_read_by_people() {
        let answer = df! {
            "waker" => [Some("lab"), None, Some("a\u{1b}[31m")],
            "cpu" => [Some(12_345_i32), None, Some(7)],
            "lost_seen_ns" => [Some(1_234_567_i64), Some(-1000), None],
            "share" => [0.5, 0.25, f64::NAN],
            "cross_llc" => [Some(true), Some(false), None],
        };
        let text = plain(&table(&answer.unwrap(), ROOM));
        let expected = "\
                       lost_         cross_
waker          cpu    seen_ns  share  llc
lab          12345  1,234,567  0.500  yes
-                -     -1,000  0.250  no
a\\u{1b}[31m      7          -    NaN  -
";
        let lines = |text: &str| -> Vec<Vec<String>> {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            text.lines().map(words).collect()
        };
        assert_eq!(lines(&text), lines(expected), "{text}");
        let header = text.lines().next().unwrap();
        let row = text.lines().nth(2).unwrap();
        assert_eq!(
            header.find("lost_").map(|at| at + 5),
            row.find("1,234,567").map(|at| at + 9),
            "{text}"
        );
    }

    #[test]
    fn what_all_rows_are_of_is_said_once() {
        let mut answer = df! {
            "host" => ["h", "h"], "trace" => ["a\u{1b}", "a\u{1b}"], "n" => [1_i64, 2],
        };
        let answer = answer.as_mut().unwrap();
        let text = plain(&table(answer, ROOM));
        assert_eq!(text, "host h, trace a\\u{1b}\nn\n1\n2\n");
        answer
            .with_column(Column::new("trace".into(), ["a", "b"]))
            .unwrap();
        let text = plain(&table(answer, ROOM));
        assert_eq!(text, "host h\ntrace  n\na      1\nb      2\n");
        assert_eq!(
            plain(&table(&answer.head(Some(0)), ROOM)),
            "host  trace  n\n(no rows)\n"
        );
        let keys = answer.select(["host"]).unwrap();
        assert_eq!(plain(&table(&keys, ROOM)), "host\nh\nh\n");
    }

    #[test]
    fn what_has_no_room_stands_below() {
        let columns = (0..12).map(|n| {
            let name = format!("a_long_name_{n}");
            Column::new(name.into(), [1_234_567_890_123_i64, 2])
        });
        let answer = DataFrame::new(2, columns.collect()).unwrap();
        let text = plain(&table(&answer, ROOM));
        assert!(text.lines().all(|line| width(line) <= 80), "{text}");
        assert_eq!(text.matches("1,234,567,890,123").count(), 12, "{text}");
        assert_eq!(text.matches('#').count(), 3, "{text}");
        assert_eq!(text.matches("\n\n").count(), 2, "three parts: {text}");
    }

    #[test]
    fn more_rows_than_wanted_are_told_of() {
        let answer = df! { "n" => (0..20_i64).collect::<Vec<_>>() }.unwrap();
        let text = plain(&table(&answer, ROOM));
        assert!(
            text.ends_with("9\n(10 of 20 rows; --rows all shows more)\n"),
            "{text}"
        );
        assert!(plain(&table(&answer.head(Some(0)), ROOM)).ends_with("n\n(no rows)\n"));
    }

    #[test]
    fn numbers_are_as_long_as_they_must_be() {
        let shown = [0, 999, 1000, -1_234_567, i64::MIN].map(grouped);
        assert_eq!(
            shown,
            [
                "0",
                "999",
                "1,000",
                "-1,234,567",
                "-9,223,372,036,854,775,808"
            ]
        );
        let shown = |values: &[f64]| {
            let shown = Shown::new(&Column::new("x".into(), values));
            shown.cells.join(" ")
        };
        assert_eq!(shown(&[0.0, f64::NAN]), "0 NaN");
        assert_eq!(shown(&[12.345, 0.0, 1e-9]), "12.3 0.0 0.0");
        assert_eq!(shown(&[0.123_456, -0.000_05]), "0.123 -0.000");
        assert_eq!(shown(&[0.001_313, 5.8e-5]), "0.001313 0.000058");
        assert_eq!(shown(&[1e-7, 2e-9]), "1.000e-7 2.000e-9");
        assert_eq!(shown(&[123_456.7, f64::INFINITY, 0.4]), "123,457 inf 0");
    }

    #[test]
    fn programs_get_what_is_there_and_nothing_raw() {
        let answer = df! {
            "name" => [Some("a\u{1b}\"b,"), None],
            "n" => [Some(u64::MAX), None],
            "i" => [-5_i32, 6],
            "x" => [0.1 + 0.2, f64::NAN],
            "yes" => [true, false],
        };
        let answer = answer.unwrap();
        let mut text = Vec::new();
        write_csv(&answer, &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "name,n,i,x,yes\n\"a\\u{1b}\"\"b,\",18446744073709551615,-5,0.30000000000000004,true\n,,6,NaN,false\n"
        );
        let mut text = Vec::new();
        write_json(&answer, &mut text).unwrap();
        assert!(text.iter().all(|byte| *byte == b'\n' || *byte >= b' '));
        let value: Value = serde_json::from_slice(&text).unwrap();
        let expected = serde_json::json!([
            { "name": "a\u{1b}\"b,", "n": u64::MAX, "i": -5, "x": 0.1 + 0.2, "yes": true },
            { "name": null, "n": null, "i": 6, "x": null, "yes": false },
        ]);
        assert_eq!(value, expected);
        let mut none = Vec::new();
        write_json(&answer.head(Some(0)), &mut none).unwrap();
        assert_eq!(none, b"[\n]\n");
    }
}
