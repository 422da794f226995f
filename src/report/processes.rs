//! Processes, in a few lines.

use super::table::{Column, Lines};
use super::units::{duration, percent, short_count};
use crate::attribute::answer::{Known, ProcessFacts};

/// Processes that are shown.
const SHOWN: usize = 3;

/// Columns of a process's name: the kernel's names have 15 bytes.
const NAME: u16 = 16;

/// Puts the busiest processes behind `out`, a line each under a heading; nothing where processes are not known.
pub fn push(processes: &Known<Vec<ProcessFacts>>, out: &mut String) {
    let Some(found) = processes.value().filter(|found| !found.is_empty()) else {
        return;
    };
    let header = [
        "Processes",
        "pid",
        "threads",
        "ran",
        "in one LLC",
        "at once",
        "moves",
    ];
    let mut layout = vec![Column::Text(NAME)];
    layout.extend(vec![Column::Number; header.len() - 1]);
    let mut lines = Lines::new(layout, header.map(str::to_owned).to_vec());
    for process in found.iter().take(SHOWN) {
        let residency = process.co_residency.value();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let moves = process.llc_moves.value();
        lines.row(vec![
            process.name.clone(),
            process.tgid.to_string(),
            short_count(process.threads),
            duration(process.run_ns),
            or_dash(residency.map(|of| percent(of.share))),
            or_dash(residency.map(|of| format!("{:.2}", of.llcs_at_once))),
            or_dash(moves.map(|moves| short_count(*moves))),
        ]);
    }
    lines.push_to(out);
}

#[cfg(test)]
mod tests {
    use super::super::WIDTH;
    use super::*;
    use crate::attribute::answer::CoResidency;

    fn process(name: &str) -> ProcessFacts {
        ProcessFacts {
            name: name.to_owned(),
            tgid: 4_194_304,
            threads: 99_999,
            leaders: 1,
            run_ns: 9_999_123_456_789,
            llc_run_ns: Known::unknown("not asked"),
            co_residency: Known::Value(CoResidency {
                share: 0.526,
                preferred_llc: 0,
                preferred_changes: 0,
                llcs_at_once: 11.0913,
                windows: Vec::new(),
            }),
            wakeups_inside: 0,
            cross_llc_wakeups: Known::unknown("not asked"),
            llc_moves: Known::Value(12_345_678),
            thread_run_ns: Known::unknown("not asked"),
            units: Known::unknown("not asked"),
        }
    }

    #[test]
    fn four_lines_that_fit() {
        let mut out = String::new();
        let names = [
            "lab-waker".to_owned(),
            "\\u{1b}".repeat(15),
            "c".into(),
            "d".into(),
        ];
        let found = names.iter().map(|name| process(name)).collect();
        push(&Known::Value(found), &mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), 4, "{plain}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{plain}"
        );
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        let shown = [
            "lab-waker",
            "4194304",
            "99999",
            "9999.1",
            "s",
            "52.6",
            "%",
            "11.09",
            "12.3M",
        ];
        assert_eq!(words, shown);
        let mut out = String::new();
        push(&Known::unknown("no process ids"), &mut out);
        assert!(out.is_empty());
    }
}
