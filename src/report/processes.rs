//! Processes, in a few lines.

use super::spread;
use super::table::{Column, Lines, cut, push_paragraph};
use super::units::{counted, duration, percent, short_count};
use crate::attribute::answer::{Known, ProcessFacts};

/// Processes that are shown.
const SHOWN: usize = 3;

/// Columns of a process's name: the kernel's names have 15 bytes.
const NAME: u16 = 16;

/// Puts the busiest processes behind `out`, a line each under a heading, and behind it what is known of its threads and
/// of where it was over time; nothing where processes are not known.
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
    for process in found.iter().take(SHOWN) {
        let told = [over_time(process), over_threads(process)];
        let told: Vec<String> = told.into_iter().flatten().collect();
        if !told.is_empty() {
            let name = cut(&process.name, usize::from(NAME));
            push_paragraph(out, "  ", &format!("{name}: {}", told.join("; ")), None);
        }
    }
}

/// Where most of it ran from one part of the window to the next.
fn over_time(process: &ProcessFacts) -> Option<String> {
    let of = process.co_residency.value()?;
    let parts = of.windows.iter().filter(|window| window.run_ns > 0).count();
    (parts > 1).then(|| {
        let changes = match of.preferred_changes {
            0 => "all the time".to_owned(),
            changes => format!("mostly, changed {}", counted(changes, "time")),
        };
        format!(
            "LLC {} {changes} over {}",
            of.preferred_llc,
            counted(parts as u64, "part")
        )
    })
}

/// How time and units spread over its threads, if they are several.
fn over_threads(process: &ProcessFacts) -> Option<String> {
    let runs = process.thread_run_ns.value().filter(|of| of.n > 1)?;
    let mut text = format!("threads ran {}", spread::told(runs, spread::time));
    if let Known::Value(units) = &process.units {
        text += &format!("; units {}", spread::told(units, spread::number));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::WIDTH;
    use super::*;
    use std::collections::BTreeMap;

    use crate::attribute::answer::{CoResidency, ResidencyWindow, Spread};

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
    }

    #[test]
    fn what_is_known_over_time_and_threads_is_told() {
        let window = |start_ns: i64, run_ns: i64| ResidencyWindow {
            start_ns,
            end_ns: start_ns + 10,
            run_ns,
            llc_share: BTreeMap::new(),
        };
        let mut told = process(&"\\u{1b}".repeat(15));
        let residency = CoResidency {
            share: 0.526,
            preferred_llc: 3,
            preferred_changes: 2,
            llcs_at_once: 1.0,
            windows: vec![window(0, 5), window(10, 0), window(20, 5)],
        };
        told.co_residency = Known::Value(residency);
        let spread = |mean: f64| Spread {
            n: 99_999,
            mean,
            min: 0.0,
            max: 2.0 * mean,
            range: 2.0 * mean,
            stddev_population: mean / 4.0,
            stddev_sample: Known::unknown("not asked"),
        };
        told.thread_run_ns = Known::Value(spread(1e9));
        told.units = Known::Value(spread(8.0));
        let mut out = String::new();
        push(&Known::Value(vec![told]), &mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= WIDTH));
        let words: Vec<&str> = plain.split_whitespace().collect();
        assert!(
            words.join(" ").ends_with(
                "LLC 3 mostly, changed 2 times over 2 parts; threads ran mean 1.000 s, 0 ns to 2.000 s, stddev 250 ms; \
                 units mean 8, 0 to 16, stddev 2"
            ),
            "{plain}"
        );
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let mut out = String::new();
        push(&Known::unknown("no process ids"), &mut out);
        assert!(out.is_empty());
    }
}
