//! JSON reports against their schema.

use std::fs;
use std::path::Path;

use serde_json::Value;
use ttwu::report::glossary;

use super::{LAB, fixture, json, lab_json};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/report.schema.json");
    serde_json::from_str(&fs::read_to_string(path).expect("the schema is there"))
        .expect("valid JSON")
}

/// The schema, ready for many reports.
pub struct Schema(jsonschema::Validator);

impl Schema {
    pub fn read() -> Self {
        Self(jsonschema::validator_for(&schema()).expect("a sound schema"))
    }

    pub fn check(&self, report: &Value, of: &str) {
        let errors = self.0.iter_errors(report);
        let errors: Vec<String> = errors
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{of}: {}", errors.join("\n"));
    }
}

pub fn validate(report: &Value, of: &str) {
    Schema::read().check(report, of);
}

#[test]
fn reports_fit_the_schema() {
    let option_sets: [&[&str]; 11] = [
        &["--work", "marker:wakelab"],
        &["--work", "event:sched_switch:next_comm=lab-waker"],
        &["--work", "task:lab-*", "--top", "2"],
        &["--work", "total:3000", "--affinity", "any"],
        &["--work", "marker:wakelab", "--to", "marker:wakelab"],
        &[],
        &["--affinity", "seen"],
        &["--affinity", "any", "--top", "1"],
        &["--from", "100ms", "--to", "-100ms"],
        &["--cpu", "0-3", "--settle", "0"],
        &["--kernel-model", "5.10", "--top", "0"],
    ];
    for name in LAB {
        validate(&lab_json(name, &[]), name);
    }
    for options in option_sets {
        validate(&lab_json("fanout", options), &options.join(" "));
    }
    let others = [
        "perf.plain.data",
        "perf.lost.data",
        "perf.z.data",
        "perf.sched-record.data",
    ]
    .map(|name| format!("perf-data/{name}"));
    let dats =
        ["v6.dat", "v7-lossy.dat", "v7-instance.dat"].map(|name| format!("trace-dat/{name}"));
    let shootdowns = ["shootdowns/trace.dat".to_owned()];
    for name in others.iter().chain(&dats).chain(&shootdowns) {
        let path = fixture(name).display().to_string();
        validate(&json(&[&path]), name);
    }
}

#[test]
fn the_schema_is_strict() {
    let validator = jsonschema::validator_for(&schema()).expect("a sound schema");
    let report = lab_json("stack", &[]);
    assert!(validator.is_valid(&report));
    let broken: [fn(&mut Value); 5] = [
        |r| r["ledger"]["surprise"] = 1.into(),
        |r| r["waits"]["by_verdict"]["surprise"] = r["waits"]["by_verdict"]["prev"].clone(),
        |r| {
            drop(
                r["waits"]["by_verdict"]
                    .as_object_mut()
                    .expect("a map")
                    .remove("prev"),
            )
        },
        |r| {
            drop(
                r["wakeups"]["by_distance"]["waker_chosen"]
                    .as_object_mut()
                    .expect("a map")
                    .remove("smt"),
            )
        },
        |r| r["wakeups"]["total"] = (-1).into(),
    ];
    for (index, change) in broken.iter().enumerate() {
        let mut report = report.clone();
        change(&mut report);
        assert!(!validator.is_valid(&report), "change {index}");
    }
}

#[test]
fn the_schema_defines_words_as_the_help_does() {
    let schema = schema();
    let kinds: [(&str, &[glossary::Term]); 9] = [
        ("category_words", &glossary::CATEGORIES),
        ("verdict_words", &glossary::VERDICTS),
        ("path_words", &glossary::PATHS),
        ("class_words", &glossary::CLASSES),
        ("distance_words", &glossary::DISTANCES),
        ("origin_words", &glossary::ORIGINS),
        ("waker_words", &glossary::WAKERS),
        ("cause_words", &glossary::CAUSES),
        ("ipi_kind_words", &glossary::IPIS),
    ];
    for (name, terms) in kinds {
        let words = schema["$defs"][name]["propertyNames"]["oneOf"]
            .as_array()
            .expect("words");
        let described: Vec<_> = words
            .iter()
            .map(|w| (w["const"].as_str(), w["description"].as_str()))
            .collect();
        let defined: Vec<_> = terms
            .iter()
            .map(|t| (Some(t.word), Some(t.meaning)))
            .collect();
        assert_eq!(described, defined, "{name}");
        let required = schema["$defs"][name]["required"].as_array().map(Vec::len);
        assert_eq!(required, Some(terms.len()), "{name}");
    }
}
