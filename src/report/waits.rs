//! Waits by verdict as a table.

use std::cmp::Reverse;

use super::glossary::{self, VERDICTS};
use super::table::{ALARM, Column, Lines, push_line};
use super::units::{count, counted, duration, percent};
use super::{Columns, most};
use crate::attribute::answer::{VerdictFacts, Waits};

/// Most verdicts that are listed; the rest is named in one line.
const LISTED: usize = 8;

/// Puts the waits behind `out`.
pub fn push(waits: &Waits, out: &mut String) {
    let mut rows: Vec<(&str, &VerdictFacts)> = waits.by_verdict.iter().map(|(w, f)| (*w, f)).collect();
    rows.retain(|(_, facts)| most(facts.count) > 0);
    // Worst first: by what was lost, then by what was waited.
    rows.sort_by_key(|(_, f)| (Reverse(most(f.lost_ns)), Reverse(most(f.wait_ns))));
    if rows.is_empty() {
        push_line(out, "No task waited.", None);
        return;
    }
    let counts = Columns::of(rows.iter().map(|(_, f)| f.count));
    let times = Columns::of(rows.iter().map(|(_, f)| f.wait_ns));
    let losses = Columns::of(rows.iter().map(|(_, f)| f.lost_ns));
    let numbers = counts.count() + times.count() + 1 + losses.count();
    let mut layout = vec![Column::Word];
    layout.extend(vec![Column::Number; numbers]);
    layout.push(Column::Text(31));
    let mut header = vec!["Waits by verdict".to_owned()];
    header.extend(headings(counts, "waits"));
    header.extend(headings(times, "waited"));
    header.push("share".to_owned());
    header.extend(headings(losses, "lost"));
    header.push(String::new());
    let mut lines = Lines::new(layout, header);
    // Both readings side by side leave no room for meanings.
    let explained = numbers <= 5;
    for (word, facts) in rows.iter().take(LISTED) {
        let mut cells = vec![format!("  {word}")];
        cells.extend(counts.cells(facts.count, count));
        cells.extend(times.cells(facts.wait_ns, duration));
        cells.extend(super::given(facts.wait_share).take(1).map(percent));
        cells.extend(losses.cells(facts.lost_ns, lost));
        let brief = glossary::brief(&VERDICTS, word);
        cells.push(if explained { brief } else { "" }.to_owned());
        match most(facts.lost_ns) > 0 && *word == rows[0].0 {
            true => lines.styled(cells, ALARM),
            false => lines.row(cells),
        }
    }
    lines.push_to(out);
    push_rest(&rows, waits, out);
}

fn headings(columns: Columns, name: &str) -> Vec<String> {
    match columns {
        Columns::One => vec![name.to_owned()],
        Columns::Two => vec![format!("{name} seen"), "any".to_owned()],
    }
}

/// Nothing lost is the common case and should not look like a number.
fn lost(ns: i64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns => duration(ns),
    }
}

/// Verdicts beyond the listed ones, and waits that have none.
fn push_rest(rows: &[(&str, &VerdictFacts)], waits: &Waits, out: &mut String) {
    let rest: Vec<&str> = rows.iter().skip(LISTED).map(|(word, _)| *word).collect();
    if !rest.is_empty() {
        push_line(out, &format!("  less: {}", rest.join(", ")), None);
    }
    let mut without = Vec::new();
    if waits.withheld.count > 0 {
        let time = duration(waits.withheld.ns);
        without.push(format!("{} withheld ({time})", count(waits.withheld.count)));
    }
    let withdrawn = waits.withdrawn.lost_events + waits.withdrawn.inconsistent;
    if withdrawn > 0 {
        without.push(format!("{} withdrawn", counted(withdrawn, "wait")));
    }
    if !without.is_empty() {
        push_line(out, &format!("  not counted: {}", without.join(", ")), None);
    }
}
