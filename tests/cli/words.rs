//! Every label of the terminal report is a word that `--explain` knows, or one of a few that need no explanation.

use std::collections::BTreeSet;

use ttwu::attribute::explain::find;

use super::explain::{as_json, explained, squeezed};
use super::{fixture, good, lab};

/// Names of tables, sections and their lines, and words that everybody knows.
const PLAIN: [&str; 63] = [
    "more",
    "Across LLCs",
    "CPU time",
    "Critical path",
    "Processes",
    "Time per unit",
    "Times to look at",
    "Waits",
    "Wakeups",
    "Wakeups by distance",
    "Wakeups by path",
    "What this trace cannot show",
    "Worst pairs",
    "Worst tasks",
    "all",
    "at once",
    "checks",
    "cost in all, an association",
    "count",
    "distance",
    "in one LLC",
    "fewer",
    "also",
    "max",
    "most",
    "not counted",
    "otherwise",
    "p50",
    "p99",
    "pid",
    "prev to chosen",
    "probes",
    "ran",
    "roles",
    "share",
    "threads",
    "time",
    "unsure of the cause",
    "verdict: why they waited",
    "wait",
    "wait, seen to any",
    "waited",
    "waits",
    "wakee",
    "waker to chosen",
    "waker to chosen CPU, p50",
    "waker to prev",
    "wakeups",
    "within running, by association",
    "woken",
    "recorder",
    "order and placement as recorded; in 8 parts of it",
    "order and placement as recorded; in 7 parts of it",
    "order and placement as recorded; in 6 parts of it",
    "order and placement as recorded",
    "no gains are given",
    "Migrations",
    "Throughput",
    "Largest loss",
    "Largest delay",
    "The machine was saturated",
    "Nothing to speak of was lost",
    "distances are unknown without a topology",
];

fn is_known(label: &str) -> bool {
    PLAIN.contains(&label) || find(label).is_ok()
}

/// A stretch of a line without colours, and whether it is bold.
fn plain(line: &str) -> (String, bool) {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('\u{1b}') {
        text.push_str(before);
        rest = behind.split_once('m').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    (text, line.starts_with("\u{1b}[1m"))
}

/// Whether a word is a number, its unit, or only parts two labels.
fn says_nothing(word: &str) -> bool {
    let bare = word.trim_start_matches(['<', '>', '-']);
    bare.is_empty()
        || bare.starts_with(|c: char| c.is_ascii_digit())
        || ["%", "s", "ms", "µs", "ns", "of", "…"].contains(&word)
}

/// The labels in a row of them: the longest that are known, and single words that are not.
fn labels(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut labels = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let phrase = |n: usize| words[at..(at + n).min(words.len())].join(" ");
        let known = (1..=5).rev().map(phrase).find(|text| is_known(text));
        let of = match known {
            Some(label) => label,
            None if says_nothing(words[at]) => String::new(),
            None => words[at].to_owned(),
        };
        at += of.split(' ').count();
        if !of.is_empty() {
            labels.push(of);
        }
    }
    labels
}

/// Parts of the report whose lines begin with a task's name, or are sentences.
const OTHERWISE: [&str; 5] = [
    "Worst tasks",
    "Worst pairs",
    "Processes",
    "Times to look at",
    "What this trace cannot show",
];

/// How the sentences in bold begin, which are no heads of tables.
fn is_sentence(text: &str) -> bool {
    let begins = [
        "Throughput: ",
        "Largest loss: ",
        "Largest delay: ",
        "Largest part of a unit's time",
        "The machine was saturated",
        "Nothing to speak of",
        "Migrations: ",
        "Wakeups by distance: ",
    ];
    begins.iter().any(|begun| text.starts_with(begun)) || text.contains("wakeups per second")
}

/// The labels of tables in a report with colours: of their columns, their rows, and the lines below.
fn all_labels(report: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut table, mut in_sentence) = (String::new(), false);
    for line in report.lines() {
        let (text, bold) = plain(line);
        in_sentence &= bold;
        in_sentence |= bold && is_sentence(&text);
        if text.trim().is_empty() {
            table.clear();
        } else if bold && !in_sentence {
            let of = labels(&text);
            table = of.first().cloned().unwrap_or_default();
            found.extend(of);
        } else if !bold && !OTHERWISE.contains(&table.as_str()) {
            let row = text.strip_prefix("  ");
            found.extend(
                row.filter(|row| !row.starts_with(' '))
                    .map_or_else(Vec::new, of_row),
            );
        }
    }
    found
}

/// The label of a row, or of a line below a table, and the words that such a line counts.
fn of_row(row: &str) -> Vec<String> {
    let first: Vec<String> = labels(row).into_iter().take(1).collect();
    let Some((of, rest)) = row.split_once(':') else {
        return first;
    };
    match of {
        "not counted" => labels(&rest.replace([',', '(', ')'], " ")),
        "within running, by association" => labels(rest).into_iter().take(1).collect(),
        _ if first.iter().all(|label| is_known(label)) => first,
        of if labels(of).iter().all(|label| is_known(label)) => labels(of),
        of => vec![of.to_owned()],
    }
}

#[test]
fn every_label_of_the_report_is_known_to_explain() {
    let traces =
        ["fanout", "messaging", "pair-xllc", "stack", "udp-queue"].map(|name| lab(name).to_vec());
    let bare = [
        "lab/pair-xllc/trace.dat",
        "perf-data/perf.lost.data",
        "recorded/trace.dat",
        "recorded/perf.data",
    ];
    let bare = bare.map(|path| vec![fixture(path).display().to_string()]);
    let mut all = BTreeSet::new();
    for trace in traces.iter().chain(&bare) {
        for more in [&["--all"][..], &[], &["--all", "--work", "total:10"]] {
            let args = ["analyze", "-q", "--color", "always"].into_iter();
            let args = args.chain(more.iter().copied());
            let report = good(args.chain(trace.iter().map(String::as_str)));
            let labels = all_labels(&report);
            let unknown: Vec<&String> = labels.iter().filter(|label| !is_known(label)).collect();
            assert!(unknown.is_empty(), "{unknown:?} in {trace:?}\n{report}");
            all.extend(labels);
        }
    }
    // What this is about is among them.
    for label in [
        "waiting",
        "withdrawn",
        "lost",
        "cold cache",
        "transfer",
        "gain at most",
        "moved",
        "queued-ipi",
        "saturated",
        "better",
    ] {
        assert!(all.contains(label), "{label} of {all:?}");
    }
}

/// The labels' numbers are those of the report, under the names that are told.
#[test]
fn labels_have_the_numbers_of_the_report() {
    let mut compared = 0;
    for name in ["fanout", "messaging"] {
        let more = ["--work", "total:100"];
        let report = super::lab_json(name, &more);
        for word in ttwu::attribute::explain::Kind::Label.words() {
            let found = as_json(name, &format!("label:{word}"), &more);
            let figures = found["senses"][0]["figures"].as_array().expect("figures");
            assert!(!figures.is_empty(), "{word}");
            for figure in figures {
                let of = figure["name"].as_str().expect("a name");
                let mut there = Some(&report);
                for key in of.split('.') {
                    there = there.map(|value| {
                        match value.get("unknown").is_some_and(|u| u.is_string()) {
                            true => value,
                            false => &value[key],
                        }
                    });
                }
                assert_eq!(Some(&figure["value"]), there, "{name} {word} {of}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

/// Roles, what is better and readings have examples, and no table or other inner thing is named.
#[test]
fn words_without_a_column_have_examples_too() {
    for (name, word, example) in [
        ("fanout", "1:N", "lab-waker 271 on CPU"),
        ("pair-xllc", "ping-pong", "lab-wakee"),
        ("pair-xllc", "spread", "lab-wakee"),
        ("messaging", "seen", "(any)"),
    ] {
        let trace = lab(name);
        let args = ["analyze", "-q", "--explain", word].into_iter();
        let text = squeezed(&good(args.chain(trace.iter().map(String::as_str))));
        assert!(
            text.contains(" 1. ") && text.contains(example),
            "{word}: {text}"
        );
        assert!(!text.contains("table"), "{word}: {text}");
    }
    let one = explained("fanout", "seen", &["--affinity", "any"]);
    assert!(squeezed(&one).contains("--affinity both"), "{one}");
    let none = explained("fanout", "unit", &[]);
    assert!(squeezed(&none).contains("name one with --work"), "{none}");
}
