//! `docs/fitness.md` against the rules: what they say of each kernel era and set of events.

use std::fmt::Write;

use super::rules::{Evidence, FIGURES, Judged, Llcs, Word};
use crate::record::events::DEFAULT;
use crate::replay::model::KernelModel;

type Version = (u32, u32);

/// Kernels between whose first and last the rules say the same.
struct Era {
    name: &'static str,
    first: Version,
    last: Version,
}

const fn era(name: &'static str, first: Version, last: Version) -> Era {
    Era { name, first, last }
}

const ERAS: [Era; 6] = [
    era("3.16–4.2", (3, 16), (4, 2)),
    era("4.3–5.7", (4, 3), (5, 7)),
    era("5.8–6.3", (5, 8), (6, 3)),
    era("6.4", (6, 4), (6, 4)),
    era("6.5–6.11", (6, 5), (6, 11)),
    era("6.12–", (6, 12), (6, 19)),
];

/// Events that x86 does not have from the first era on, and the first kernel with each.
const SINCE: [(&str, Version); 8] = [
    ("sched_waking", (4, 3)),
    ("ipi_send_cpu", (6, 4)),
    ("ipi_send_cpumask", (6, 4)),
    ("csd_queue_cpu", (6, 5)),
    ("csd_function_entry", (6, 5)),
    ("csd_function_exit", (6, 5)),
    // Probes by function and argument name.
    ("sel", (6, 5)),
    ("selret", (6, 5)),
];
/// Those that x86 never has.
const ARM: [&str; 3] = ["ipi_raise", "ipi_entry", "ipi_exit"];

/// What perf records as `perf sched record`, beside the events of wakeups.
const PERF_SCHED: [&str; 4] = [
    "sched_switch",
    "sched_process_fork",
    "sched_wakeup_new",
    "sched_migrate_task",
];

/// A set of events that people record.
struct Set {
    /// The command, and where a topology comes from if it needs one.
    name: &'static str,
    events: fn(Version) -> Vec<&'static str>,
    topology: bool,
}

const SETS: [Set; 7] = [
    Set {
        name: "`perf sched record` (perf 5.10 and later)",
        events: |kernel| perf_sched(kernel >= (4, 3)),
        topology: true,
    },
    Set {
        name: "`perf sched record` (perf 5.8 and before)",
        events: |_| perf_sched(false),
        topology: true,
    },
    Set {
        name: "`perf record -a -e 'sched:*'`",
        events: |_| sched(),
        topology: true,
    },
    Set {
        name: "`trace-cmd record -e sched`",
        events: |_| sched(),
        topology: false,
    },
    Set {
        name: "`trace-cmd record -e sched`, analysed with `--topology`",
        events: |_| sched(),
        topology: true,
    },
    Set {
        name: "`ttwu record`",
        events: |_| by_default(),
        topology: true,
    },
    Set {
        name: "`ttwu record --probes`",
        events: |_| [by_default(), vec!["sel", "selret"]].concat(),
        topology: true,
    },
];

/// perf prefers `sched_waking` where the kernel has it, since August 2020.
fn perf_sched(waking: bool) -> Vec<&'static str> {
    let wakeup = match waking {
        true => "sched_waking",
        false => "sched_wakeup",
    };
    PERF_SCHED.into_iter().chain([wakeup]).collect()
}

fn by_default() -> Vec<&'static str> {
    DEFAULT.iter().map(|(_, name, _)| *name).collect()
}

fn sched() -> Vec<&'static str> {
    let of = DEFAULT.iter().filter(|(system, ..)| *system == "sched");
    of.map(|(_, name, _)| *name).collect()
}

fn has(set: &Set, kernel: Version, name: &str) -> bool {
    let since = SINCE.iter().find(|(event, _)| *event == name);
    (set.events)(kernel).contains(&name)
        && !ARM.contains(&name)
        && since.is_none_or(|(_, since)| kernel >= *since)
}

fn judge(set: &Set, kernel: Version) -> [Judged; FIGURES.len()] {
    let events = |name: &str| has(set, kernel, name).then_some(1000);
    let model = KernelModel {
        version: kernel,
        source: String::new(),
    };
    let on = Evidence {
        events: &events,
        model: &model,
        llcs: match set.topology {
            true => Llcs::Known(2),
            false => Llcs::Unknown("the LLCs are unknown: give --topology".to_owned()),
        },
        markers: 0,
        obstacle: None,
    };
    FIGURES.map(|figure| (figure.rule)(&on))
}

/// The tables, and under each its reasons, numbered.
fn tables() -> String {
    let mut text = String::new();
    let mut reasons: Vec<String> = Vec::new();
    let mut numbered = |judged: &Judged| match judged.word {
        Word::Yes => "yes".to_owned(),
        word => {
            let known = reasons.iter().position(|reason| *reason == judged.why);
            let at = known.unwrap_or_else(|| {
                reasons.push(judged.why.clone());
                reasons.len() - 1
            });
            format!("{} [{}]", word.as_str(), at + 1)
        }
    };
    for set in &SETS {
        let judged = ERAS.map(|era| judge(set, era.first));
        let names = ERAS.map(|era| era.name).join(" | ");
        let _ = writeln!(text, "### {}\n\n| | {names} |", set.name);
        let _ = writeln!(text, "|{}", " --- |".repeat(ERAS.len() + 1));
        for (row, figure) in FIGURES.iter().enumerate() {
            let cells: Vec<String> = judged.iter().map(|era| numbered(&era[row])).collect();
            let _ = writeln!(text, "| {} | {} |", figure.name, cells.join(" | "));
        }
        text.push('\n');
    }
    text.push_str("### Why\n\n");
    for (number, reason) in (1..).zip(&reasons) {
        let _ = writeln!(
            text,
            "{number}. {}",
            reason.replace("--", "\\-\\-").replace('*', "\\*")
        );
    }
    text
}

const START: &str = "<!-- From here on this is what the rules say; a test compares it. -->\n";

/// `TTWU_WRITE_DOCS=1 cargo test --release --lib the_docs_say` writes it anew.
#[test]
fn the_docs_say_what_the_rules_say() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fitness.md");
    let docs = std::fs::read_to_string(&path).unwrap();
    let (prose, told) = docs.split_once(START).unwrap();
    let tables = tables();
    if std::env::var_os("TTWU_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{prose}{START}\n{tables}")).unwrap();
        return;
    }
    let lines = told.trim().lines().zip(tables.trim().lines());
    for (told, ruled) in lines {
        assert_eq!(told, ruled, "TTWU_WRITE_DOCS=1 writes docs/fitness.md anew");
    }
    assert_eq!(told.trim().lines().count(), tables.trim().lines().count());
}

/// Between two eras something changes, and within one nothing does.
#[test]
fn eras_are_where_the_rules_change() {
    for set in &SETS {
        for era in &ERAS {
            assert_eq!(
                judge(set, era.first),
                judge(set, era.last),
                "{} {}",
                set.name,
                era.name
            );
        }
    }
}

/// Hand-picked cells, as the kernel's and the recorders' history has them.
#[test]
fn cells_that_are_known_from_elsewhere() {
    let cell = |set: &str, kernel, key: &str| {
        let set = SETS.iter().find(|of| of.name == set).unwrap();
        let row = FIGURES.iter().position(|figure| figure.key == key).unwrap();
        judge(set, kernel)[row].clone()
    };
    let old = cell("`perf record -a -e 'sched:*'`", (4, 1), "cross_llc");
    assert_eq!(old.word, Word::No);
    assert!(
        old.why.contains("before 4.3") && old.why.contains("not guessed"),
        "{}",
        old.why
    );
    let words = [
        (
            "`perf record -a -e 'sched:*'`",
            (4, 1),
            "latency",
            Word::Partly,
        ),
        (
            "`perf record -a -e 'sched:*'`",
            (4, 3),
            "latency",
            Word::Yes,
        ),
        ("`perf record -a -e 'sched:*'`", (6, 12), "ipis", Word::No),
        (
            "`perf sched record` (perf 5.10 and later)",
            (6, 12),
            "latency",
            Word::Partly,
        ),
        (
            "`perf sched record` (perf 5.10 and later)",
            (6, 12),
            "missed_idle",
            Word::No,
        ),
        (
            "`perf sched record` (perf 5.8 and before)",
            (6, 12),
            "flips",
            Word::No,
        ),
        (
            "`trace-cmd record -e sched`",
            (6, 12),
            "cross_llc",
            Word::No,
        ),
        (
            "`trace-cmd record -e sched`",
            (6, 12),
            "missed_idle",
            Word::Partly,
        ),
        ("`ttwu record`", (6, 1), "ipis", Word::Partly),
        ("`ttwu record`", (6, 4), "ipis", Word::Yes),
        ("`ttwu record`", (6, 4), "tlb", Word::Partly),
        ("`ttwu record`", (6, 5), "tlb", Word::Yes),
        ("`ttwu record --probes`", (6, 4), "flips", Word::Partly),
        ("`ttwu record --probes`", (6, 5), "flips", Word::Yes),
    ];
    for (set, kernel, key, word) in words {
        assert_eq!(cell(set, kernel, key).word, word, "{set} {kernel:?} {key}");
    }
}
