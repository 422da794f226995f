//! Waits by verdict as a table.

use std::cmp::Reverse;

use super::glossary::{self, VERDICTS};
use super::table::{ALARM, Column, Lines, push_line, push_list, push_paragraph};
use super::units::{count, counted, duration, percent, short_count};
use super::{Columns, headings, lost, most};
use crate::attribute::answer::{VerdictFacts, Waits};

/// Most verdicts that are listed; the rest is named in one line.
const LISTED: usize = 5;
/// Most verdicts that are named in that line.
const NAMED: usize = 5;

/// Puts the waits behind `out`; if not `full`, those with little lost or waited in one line.
pub fn push(waits: &Waits, full: bool, out: &mut String) {
    let mut rows: Vec<(&str, &VerdictFacts)> =
        waits.by_verdict.iter().map(|(w, f)| (*w, f)).collect();
    rows.retain(|(_, facts)| most(facts.count) > 0);
    // Worst first: by what was lost, then by what was waited.
    rows.sort_by_key(|(_, f)| (Reverse(most(f.lost_ns)), Reverse(most(f.wait_ns))));
    if rows.is_empty() {
        push_line(out, "No task waited.", None);
        return;
    }
    let listed = match full {
        true => rows.len(),
        false => LISTED,
    };
    list_longest(&mut rows, listed);
    let columns = WaitColumns::of(&rows);
    let mut lines = columns.lines();
    for (word, facts) in rows.iter().take(listed) {
        let cells = columns.cells(word, facts);
        match most(facts.lost_ns) > 0 && *word == rows[0].0 {
            true => lines.styled(cells, ALARM),
            false => lines.row(cells),
        }
    }
    lines.push_to(out);
    push_rest(rows.get(listed..).unwrap_or_default(), waits, out);
}

/// Brings the verdict with most waiting among the listed ones, though little of it may be lost.
fn list_longest(rows: &mut [(&str, &VerdictFacts)], listed: usize) {
    let longest = (0..rows.len()).max_by_key(|&at| most(rows[at].1.wait_ns));
    if let Some(at) = longest.filter(|&at| at >= listed) {
        rows[listed - 1..=at].rotate_right(1);
    }
}

/// Which numbers need a column for each reading.
struct WaitColumns {
    counts: Columns,
    times: Columns,
    losses: Columns,
}

impl WaitColumns {
    fn of(rows: &[(&str, &VerdictFacts)]) -> Self {
        let facts = || rows.iter().map(|(_, facts)| facts);
        Self {
            counts: Columns::of(facts().map(|f| f.count), count),
            times: Columns::of(facts().map(|f| f.wait_ns), duration),
            losses: Columns::of(facts().map(|f| f.lost_ns), lost),
        }
    }

    fn numbers(&self) -> usize {
        self.counts.count() + self.times.count() + 1 + self.losses.count()
    }

    /// Both readings side by side leave no room for meanings.
    fn explained(&self) -> bool {
        self.numbers() <= 5
    }

    fn lines(&self) -> Lines {
        let mut layout = vec![Column::Word];
        layout.extend(vec![Column::Number; self.numbers()]);
        if self.explained() {
            layout.push(Column::Text(31));
        }
        let mut header = vec!["Waits".to_owned()];
        header.extend(headings(self.counts, "count"));
        header.extend(headings(self.times, "time"));
        header.push("share".to_owned());
        header.extend(headings(self.losses, "lost"));
        if self.explained() {
            header.push("verdict: why they waited".to_owned());
        }
        Lines::new(layout, header)
    }

    fn cells(&self, word: &str, facts: &VerdictFacts) -> Vec<String> {
        let mut cells = vec![word.to_owned()];
        cells.extend(self.counts.cells(facts.count, count));
        cells.extend(self.times.cells(facts.wait_ns, duration));
        cells.extend(super::given(facts.wait_share).take(1).map(percent));
        cells.extend(self.losses.cells(facts.lost_ns, lost));
        if self.explained() {
            cells.push(glossary::brief(&VERDICTS, word).to_owned());
        }
        cells
    }
}

/// Verdicts beyond the listed ones, and waits that have none.
fn push_rest(rest: &[(&str, &VerdictFacts)], waits: &Waits, out: &mut String) {
    let more = rest.len().saturating_sub(NAMED);
    let rest = rest.iter().take(NAMED);
    let rest = rest.map(|(word, facts)| format!("{word} {}", short_count(most(facts.count))));
    let rest = rest.chain((more > 0).then(|| format!("{more} more")));
    let rest: Vec<String> = rest.collect();
    if !rest.is_empty() {
        push_list(out, "  ", "also: ", &rest);
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
        push_paragraph(out, "  not counted: ", &without.join(", "), None);
    }
}
