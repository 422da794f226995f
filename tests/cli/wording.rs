//! Numbers and the words behind them agree, in every text of every report.

use super::{fixture, good, lab};

/// Words behind a `1` that end in `s` and are no plurals.
const SINGULAR: [&str; 13] = [
    "s",
    "ms",
    "ns",
    "is",
    "was",
    "has",
    "does",
    "names",
    "crosses",
    "contradicts",
    "follows",
    "differs",
    "less",
];

/// `1 wakeups`, `1 waits`, …: what stands behind a one and looks like several.
fn disagreeing(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| {
        let number = pair[0].trim_start_matches(['(', '[', '"', '`']);
        let word = pair[1].trim_end_matches(|c: char| !c.is_alphanumeric());
        number == "1"
            && word.ends_with('s')
            && word.chars().all(char::is_lowercase)
            && !SINGULAR.contains(&word)
    });
    pairs.map(|pair| pair.join(" ")).collect()
}

/// The sentences of a JSON report.
fn sentences(of: &serde_json::Value, into: &mut Vec<String>) {
    match of {
        serde_json::Value::String(text) => into.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| sentences(item, into)),
        serde_json::Value::Object(map) => map.values().for_each(|item| sentences(item, into)),
        _ => {}
    }
}

#[test]
fn numbers_and_nouns_agree() {
    assert_eq!(
        disagreeing("at 1 wakeups, 11 waits, 1 s, (1 pulls)"),
        ["1 wakeups,", "(1 pulls)"]
    );
    let traces =
        ["fanout", "messaging", "pair-xllc", "stack", "udp-queue"].map(|name| lab(name).to_vec());
    let bare = [
        "perf-data/perf.lost.data",
        "perf-data/perf.plain.data",
        "recorded/trace.dat",
    ];
    let bare = bare.map(|path| vec![fixture(path).display().to_string()]);
    // Short windows have one of most things.
    let windows = [
        &[][..],
        &["--from", "100ms", "--to", "101ms"],
        &["--from", "200ms", "--to", "200.4ms"],
        &["--from", "-3ms"],
        &["--cpu", "1", "--to", "30ms"],
        &["--work", "total:1"],
        &["--topology", "llc=0;1;2;3;4;5;6;7"],
    ];
    let mut wrong = Vec::new();
    for trace in traces.iter().chain(&bare) {
        for window in windows {
            if window.contains(&"--topology") && trace.len() > 1 {
                continue;
            }
            let args = |more: &[&str]| {
                let args = ["analyze", "-q"].into_iter().chain(more.iter().copied());
                let args = args.chain(window.iter().copied()).map(str::to_owned);
                args.chain(trace.iter().cloned()).collect::<Vec<String>>()
            };
            wrong.extend(disagreeing(&good(args(&["--all"]))));
            let report: serde_json::Value =
                serde_json::from_str(&good(args(&["--json"]))).expect("valid JSON");
            let mut texts = Vec::new();
            sentences(&report, &mut texts);
            wrong.extend(texts.iter().flat_map(|text| disagreeing(text)));
            if window.is_empty() {
                for word in ["bounces", "moved", "withdrawn", "tlb-wait", "unknown"] {
                    wrong.extend(disagreeing(&good(args(&["--explain", word]))));
                }
            }
        }
        let info = ["info".to_owned()].into_iter().chain(trace.iter().cloned());
        wrong.extend(disagreeing(&good(info)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
