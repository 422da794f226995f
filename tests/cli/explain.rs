//! `--explain`: every word, in fixtures and against `trace-cmd report`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use ttwu::attribute::explain::Kind;
use ttwu::report::glossary;

use super::{assert_narrow, bad, fixture, good, lab, lab_json};

pub fn explained(name: &str, word: &str, more: &[&str]) -> String {
    let trace = lab(name);
    let args = ["analyze", "-q", "--explain", word].into_iter();
    let args = args.chain(more.iter().copied());
    good(args.chain(trace.iter().map(String::as_str)))
}

pub fn as_json(name: &str, word: &str, more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&explained(name, word, &more)).expect("valid JSON")
}

/// Every word of every enumeration, as KIND:WORD.
fn words() -> Vec<(Kind, &'static str, String)> {
    let kinds = Kind::ALL.into_iter();
    let words = kinds.flat_map(|kind| kind.words().into_iter().map(move |word| (kind, word)));
    let named = words.map(|(kind, word)| (kind, word, format!("{}:{word}", kind.key())));
    named.collect()
}

pub fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_word_is_explained() {
    for (kind, word, typed) in words() {
        let text = explained("udp-queue", &typed, &[]);
        assert_narrow(&text);
        let at = kind.words().iter().position(|w| *w == word);
        let term = at.and_then(|at| glossary::terms(kind).get(at));
        let meaning = squeezed(term.expect("a term").meaning);
        assert!(squeezed(&text).contains(&meaning), "{typed}\n{text}");
        assert!(text.contains("Computed with"), "{typed}\n{text}");
    }
}

#[test]
fn explanations_fit_their_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/explain.schema.json");
    let schema = fs::read_to_string(path).expect("the schema is there");
    let schema: Value = serde_json::from_str(&schema).expect("valid JSON");
    let validator = jsonschema::validator_for(&schema).expect("a sound schema");
    let valid = |report: &Value, of: &str| {
        let errors: Vec<String> = validator
            .iter_errors(report)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{of}: {}", errors.join("\n"));
    };
    for word in [
        "unknown", "local", "transit", "running", "idle", "1:N", "gain", "bounces", "withheld",
        "spread",
    ] {
        valid(&as_json("udp-queue", word, &[]), word);
    }
    valid(&as_json("stack", "prev", &["--affinity", "any"]), "any");
    let mut broken = as_json("udp-queue", "queued-ipi", &[]);
    broken["senses"][0]["rows"]["examples"][0]["events"][0]["surprise"] = 1.into();
    assert!(!validator.is_valid(&broken));
}

/// The rows of a word are as many as the report counts, whatever is selected.
#[test]
fn explanations_count_what_the_report_counts() {
    for (name, more) in [
        ("messaging", &[][..]),
        ("pair-xllc", &["--from", "100ms", "--to", "-100ms"][..]),
        ("udp-queue", &["--cpu", "0-3", "--task", "lab-*"][..]),
        ("stack", &["--affinity", "seen"][..]),
    ] {
        let report = lab_json(name, more);
        for (kind, word, typed) in words() {
            let counted = match kind {
                Kind::Verdict => &report["waits"]["by_verdict"][word]["count"],
                Kind::Origin => &report["waits"]["by_origin"][word]["count"],
                Kind::Path => &report["wakeups"]["by_path"][word],
                Kind::Class => &report["wakeups"]["by_class"][word],
                Kind::Waker => &report["wakeups"]["by_waker"][word],
                Kind::Distance => &report["wakeups"]["by_distance"]["waker_chosen"][word],
                Kind::Cause => &report["migrations"]["totals"][word],
                Kind::Ipi => &report["ipis"]["by_kind"][word],
                Kind::Decision => &report["flips"]["policies"]["kernel"][word.replace('-', "_")],
                Kind::Policy if word != "kernel" => &report["flips"]["policies"][word]["changed"],
                _ => continue,
            };
            let found = as_json(name, &typed, more);
            let rows = &found["senses"][0]["rows"];
            if counted.is_null() {
                assert!(
                    report["flips"]["policies"]["unknown"].is_string(),
                    "{typed}"
                );
                continue;
            }
            let of = match kind {
                Kind::Cause => &report["migrations"]["total"],
                Kind::Ipi => &report["ipis"]["total"],
                // Of these only some are judged.
                Kind::Decision | Kind::Policy => &rows["of"],
                Kind::Verdict | Kind::Origin => &report["waits"]["count"],
                _ => &report["wakeups"]["total"],
            };
            assert_eq!(&rows["of"], of, "{name} {typed}");
            match counted.is_object() {
                true => assert_eq!(&rows["count"], counted, "{name} {typed}"),
                false => {
                    let mut readings = rows["count"].as_object().expect("readings").values();
                    assert!(readings.all(|n| n == counted), "{name} {typed}: {rows}");
                }
            }
            let examples = rows["examples"].as_array().expect("examples").len() as u64;
            let most = ["seen", "any"].map(|r| rows["count"][r].as_u64().unwrap_or(0));
            assert_eq!(examples, most[0].max(most[1]).min(3), "{name} {typed}");
        }
    }
}

/// Idle CPUs are told of beside the CPU that was chosen, not beside the one on which the task ran at last.
#[test]
fn idle_cpus_are_as_far_as_from_the_chosen_one() {
    let mut moved = 0;
    for word in [
        "late-idle",
        "verdict:transit",
        "balanced",
        "preempted",
        "other-llc",
    ] {
        let found = as_json("fanout", word, &[]);
        let examples = found["senses"][0]["rows"]["examples"].as_array();
        for example in examples.into_iter().flatten() {
            let chosen = example["row"]["first_cpu"].as_u64().expect("a CPU");
            moved += u64::from(example["row"]["last_cpu"] != example["row"]["first_cpu"]);
            for idle in example["idle"].as_array().expect("CPUs") {
                let cpu = idle["cpu"].as_u64().expect("a CPU");
                assert_ne!(cpu, chosen, "{example}");
                // Two LLCs of four CPUs each.
                assert_eq!(
                    cpu / 4 != chosen / 4,
                    idle["distance"] == "node",
                    "{example}"
                );
            }
        }
    }
    assert!(moved > 0);
    let text = squeezed(&explained("fanout", "late-idle", &[]));
    assert!(text.contains("(distances from CPU "), "{text}");
}

/// The largest comes first, and each example has the word.
#[test]
fn examples_are_the_largest_and_have_the_word() {
    let found = as_json("messaging", "path:queued-ipi", &[]);
    let report = lab_json("messaging", &[]);
    let rows = &found["senses"][0]["rows"];
    let examples = rows["examples"].as_array().expect("examples");
    let sizes: Vec<i64> = examples
        .iter()
        .map(|example| {
            assert_eq!(example["row"]["path"], "queued-ipi");
            example["row"]["latency_ns"].as_i64().expect("a latency")
        })
        .collect();
    assert_eq!(
        sizes.first().copied(),
        report["wakeups"]["latency_by_path_ns"]["queued-ipi"]["max"].as_i64()
    );
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let again = as_json("messaging", "path:queued-ipi", &[]);
    assert_eq!(again, found);
}

/// A trace-cmd line's stamp, CPU and event.
type Place = (String, u32, String);

/// What `trace-cmd report` prints of a trace, without its plugins: fields by event. Events of one name on one CPU at one
/// stamp follow each other.
fn judge(path: &Path) -> Option<BTreeMap<Place, Vec<BTreeMap<String, String>>>> {
    let output = Command::new("trace-cmd")
        .args(["report", "-t", "-N", "-i"])
        .arg(path)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: trace-cmd is not installed");
        return None;
    };
    let mut events: BTreeMap<Place, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        let (Some(_), Some(cpu), Some(ts), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let cpu = cpu.trim_matches(['[', ']']).parse();
        let (Ok(cpu), Some(name)) = (cpu, name.strip_suffix(':')) else {
            continue;
        };
        let fields = words.filter_map(|word| word.split_once('='));
        let fields = fields.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let place = (ts.trim_end_matches(':').to_owned(), cpu, name.to_owned());
        events.entry(place).or_default().push(fields.collect());
    }
    Some(events)
}

/// Numbers are compared as such: `target_cpu=005` is CPU 5.
fn alike(a: &str, b: &str) -> bool {
    match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[test]
fn the_events_of_examples_are_those_of_trace_cmd() {
    let words = [
        "verdict", "path", "class", "origin", "distance", "ledger", "cause", "ipi",
    ];
    let mut compared = 0;
    for name in ["udp-queue", "messaging", "pair-xllc"] {
        let Some(events) = judge(&fixture(&format!("lab/{name}/trace.dat"))) else {
            return;
        };
        for (kind, _, typed) in self::words() {
            if !words.contains(&kind.key()) {
                continue;
            }
            let found = as_json(name, &typed, &[]);
            let examples = found["senses"][0]["rows"]["examples"].as_array();
            let shown = examples.into_iter().flatten();
            for event in shown.flat_map(|e| e["events"].as_array().expect("events")) {
                let ns = event["ts_ns"].as_i64().expect("a stamp");
                let stamp = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
                let cpu = event["cpu"].as_u64().expect("a CPU") as u32;
                let event_name = event["event"].as_str().expect("a name");
                let place = (stamp, cpu, event_name.to_owned());
                let there = events.get(&place);
                let there = there.unwrap_or_else(|| panic!("{name} {typed}: no {place:?}"));
                let fields = event["fields"].as_object().expect("fields");
                let same = |theirs: &BTreeMap<String, String>| {
                    fields.iter().all(|(key, ours)| {
                        let theirs = theirs.get(key).map_or("", String::as_str);
                        // It prints this event in words.
                        event_name == "tlb_flush" || alike(ours.as_str().unwrap_or(""), theirs)
                    })
                };
                assert!(there.iter().any(same), "{name}: {event}\n{there:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn a_word_that_is_none_is_refused_with_those_there_are() {
    let trace = lab("stack");
    let trace = trace.iter().map(String::as_str);
    let error = bad(
        2,
        ["analyze", "--explain", "staked-prev"]
            .into_iter()
            .chain(trace),
    );
    assert!(
        error.contains("like it: stacked-prev")
            && error.contains("verdict")
            && error.contains("halve-new"),
        "{error}"
    );
}

/// Without a topology, in a perf.data, and where a word does not occur.
#[test]
fn what_does_not_occur_is_said() {
    let path = fixture("perf-data/perf.sched-record.data");
    let args = |word| ["analyze", "-q", "--explain", word].map(str::to_owned);
    let explain = |word| {
        let text = good(args(word).into_iter().chain([path.display().to_string()]));
        assert_narrow(&text);
        text
    };
    assert!(explain("recorder").contains("In this trace: none of"));
    assert!(explain("preempted").contains("sched_switch"));
}

/// The upper end of a count of which nothing before the trace is known, halved or added to, is no number.
#[test]
fn open_ends_are_not_printed_as_numbers() {
    /// More flips than a task makes in two seconds.
    const MANY: u64 = 1 << 20;
    let mut open = 0;
    for name in super::LAB {
        for word in ["decision:affine", "decision:warming-up", "kernel"] {
            let found = as_json(name, word, &[]);
            let examples = found["senses"][0]["rows"]["examples"].as_array();
            for row in examples.into_iter().flatten().map(|e| &e["row"]) {
                for of in ["waker", "wakee"] {
                    assert!(row[format!("{of}_least")].is_u64(), "{name} {word}: {row}");
                    match row.get(format!("{of}_most")) {
                        Some(most) => assert!(most.as_u64() < Some(MANY), "{name} {word}: {row}"),
                        None => open += 1,
                    }
                }
            }
            let text = squeezed(&explained(name, word, &[]));
            for flips in text.split("flips of the waker").skip(1) {
                let flips = flips.split(':').next().unwrap_or_default();
                let numbers = flips.split(|c: char| !c.is_ascii_digit());
                let mut numbers = numbers.filter_map(|n| n.parse::<u64>().ok());
                assert!(numbers.all(|n| n < MANY), "{name} {word}: {flips}");
            }
        }
        let report = lab_json(name, &[]);
        let tasks = report["flips"]["tasks"].as_array();
        for task in tasks.into_iter().flatten() {
            let least = &task["flips"][0];
            let numbers = least.is_u64() && task["flips"][1].as_u64() < Some(MANY);
            let why = task["flips"]["unknown"].as_str();
            assert!(numbers || why.is_some(), "{name}: {task}");
            open += u64::from(why.is_some_and(|why| why.contains(" or more: ")));
        }
    }
    assert!(open > 5, "{open}");
    assert!(explained("udp-queue", "decision:warming-up", &[]).contains("or more"));
}

/// A flush of the whole TLB has no number of pages: the kernel's -1 is none.
#[test]
fn a_whole_flush_is_not_minus_one_page() {
    let path = fixture("recorded/trace.dat").display().to_string();
    let text = good(["analyze", "-q", "--explain", "tlb-wait", &path]);
    assert!(squeezed(&text).contains("the whole TLB"), "{text}");
    assert!(!text.contains("-1 pages"), "{text}");
}
