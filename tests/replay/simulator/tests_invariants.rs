//! What must hold whatever the truth is: windows add up, ids inside an LLC do not matter, and neither does what happens in
//! an LLC that nobody else uses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use ttwu::pipeline::RunOptions;

use super::check::{Differences, File, Written, compare, number, window};
use super::machine::{Machine, Shape};
use super::random::Random;
use super::run::{LONE_PID, simulate, simulate_on};
use super::scheduler::{START, Sim};
use super::tests_exact::plan;
use super::timeline::Timeline;
use super::truth_report::report;

#[test]
fn windows_add_up() {
    let mut added = 0;
    for seed in 0..64 {
        let sim = simulate(plan(seed));
        let written = Written::new(&sim.recording(), File::TraceDat);
        let whole = written.report(&RunOptions::default());
        let (start, end) = (START, sim.notes.end);
        let mut random = Random::new(seed);
        let mut cuts = [random.within(start + 1, end), random.within(start + 1, end)];
        cuts.sort_unstable();
        if cuts[0] == cuts[1] {
            continue;
        }
        let windows = [(start, cuts[0]), (cuts[0], cuts[1]), (cuts[1], end)];
        let parts = windows.map(|(from, to)| written.report(&window(from, to)));
        let mut differ = Differences::default();
        // Every number that is exact adds up, and all but the verdicts' counts do by their windows alone.
        for name in report(&Timeline::new(&sim)).keys() {
            // Only wakers whose CPU is not known have no entry where there are none.
            let none = (name == "wakeups.per_waker_cpu.unknown").then_some(0);
            let sum: Option<i64> = parts.iter().map(|part| number(part, name).or(none)).sum();
            differ.same(name, sum, number(&whole, name));
        }
        // So does whatever else is counted or summed, section by section, and by task, pair and LLC.
        let sum = |of: &dyn Fn(&Value) -> BTreeMap<String, i64>| {
            let mut sum: BTreeMap<String, i64> = BTreeMap::new();
            for part in &parts {
                for (name, number) in of(part) {
                    *sum.entry(name).or_default() += number;
                }
            }
            sum
        };
        for of in [sections as fn(&Value) -> BTreeMap<String, i64>, lists] {
            let (parts, whole) = (sum(&of), of(&whole));
            let names: BTreeSet<&String> = parts.keys().chain(whole.keys()).collect();
            added += names.len();
            for name in names {
                let number = |of: &BTreeMap<String, i64>| of.get(name).copied().unwrap_or(0);
                differ.same(name, number(&parts), number(&whole));
            }
        }
        differ.none(&format!("seed {seed}, cut at {cuts:?}"));
    }
    assert!(added > 50_000, "{added} numbers");
}

/// What is no sum: the worst there is, settings, and names.
const NO_SUMS: [&str; 8] = [
    "hz",
    "worst_wait",
    // The way there and the way back may lie in different windows.
    "bounces",
    "cpus",
    "censored_above_pages",
    "within_ns",
    "least",
    "factors",
];

/// All whole numbers of a value, by dotted names; lists count by their places.
fn numbers(name: &str, value: &Value, into: &mut BTreeMap<String, i64>) {
    match value {
        Value::Object(fields) => {
            // Distributions and estimates do not add up.
            let distribution = ["p50", "ci95"].iter().any(|key| fields.contains_key(*key));
            let sums = fields
                .iter()
                .filter(|(key, _)| !distribution && !NO_SUMS.contains(&key.as_str()));
            for (key, value) in sums {
                numbers(&format!("{name}.{key}"), value, into);
            }
        }
        Value::Array(items) => {
            for (place, value) in items.iter().enumerate() {
                // The worst come first, and others in each window: those of tasks go by pid.
                match (value.is_object(), value["pid"].as_i64()) {
                    (true, Some(pid)) => numbers_of(&format!("{name}.{pid}"), value, into),
                    (true, None) => {}
                    _ => numbers(&format!("{name}.{place}"), value, into),
                }
            }
        }
        _ => {
            if let Some(number) = value.as_i64() {
                into.insert(name.to_owned(), number);
            }
        }
    }
}

/// The same of a task, without what it goes by.
fn numbers_of(name: &str, task: &Value, into: &mut BTreeMap<String, i64>) {
    let mut task = task.clone();
    if let Some(fields) = task.as_object_mut() {
        fields.remove("pid");
    }
    numbers(name, &task, into);
}

/// What is counted and summed in the sections.
fn sections(report: &Value) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for name in [
        "ledger",
        "wakeups",
        "waits",
        "sis",
        "migrations",
        "ipis",
        "flips",
        "domains",
    ] {
        numbers(name, &report[name], &mut all);
    }
    all
}

/// The same of tasks, pairs and LLCs, each by what it is called.
fn lists(report: &Value) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for (list, keys) in [
        ("tasks", &["pid", "generation"][..]),
        ("pairs", &["waker_pid", "wakee_pid"]),
        ("llcs", &["llc"]),
    ] {
        for item in report[list].as_array().into_iter().flatten() {
            let mut item = item.clone();
            let fields = item.as_object_mut().expect("an object");
            let words: Vec<String> = keys
                .iter()
                .map(|key| fields.remove(*key).unwrap_or_default().to_string())
                .collect();
            if list == "pairs" {
                // Those are listed that have wakeups in the window: the rest of a wait that a cut divides may have no place.
                let counts = ["wakeups", "by_path", "waker_chosen"];
                fields.retain(|key, _| counts.contains(&key.as_str()));
            }
            numbers(&format!("{list}.{}", words.join("-")), &item, &mut all);
        }
    }
    all
}

/// Takes out what names CPUs.
fn without_ids(mut report: Value) -> Value {
    let sections = report.as_object_mut().expect("an object");
    for (section, names) in [
        ("trace", &["cpus", "topology"][..]),
        ("wakeups", &["per_waker_cpu"]),
    ] {
        let section = sections[section].as_object_mut().expect("an object");
        names.iter().for_each(|name| {
            section.remove(*name);
        });
    }
    for llc in sections["llcs"].as_array_mut().into_iter().flatten() {
        llc.as_object_mut().expect("an object").remove("cpus");
    }
    nameless(&mut report);
    report
}

/// Per-CPU threads have their CPU in their names, and examples tell where they were.
fn nameless(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match key.as_str() {
                    "name" | "waker" | "wakee" | "by" if value.is_string() => *value = Value::Null,
                    key if key.ends_with("cpu") => *value = Value::Null,
                    _ => nameless(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(nameless),
        _ => {}
    }
}

/// The whole report is the same, down to the order of its lists, whatever ids an LLC's CPUs go by.
#[test]
fn ids_within_an_llc_do_not_matter() {
    for seed in 0..96 {
        let plan = plan(seed);
        let machine = Machine::new(plan.shape);
        let other = machine.renumbered(seed);
        let of = |machine: Machine| {
            let sim = simulate_on(plan, machine);
            let file = if seed % 2 == 0 {
                File::TraceDat
            } else {
                File::PerfData
            };
            without_ids(Written::new(&sim.recording(), file).report(&RunOptions::default()))
        };
        let mut differ = Differences::default();
        compare(&mut differ, "", &of(machine), &of(other));
        differ.none(&format!("seed {seed}"));
    }
}

/// A task that runs by itself in an LLC of its own is in no figure but its own.
#[test]
fn an_llc_of_its_own_changes_nothing_elsewhere() {
    // Of a machine of one LLC it is said that nothing can cross: one more does change that.
    for seed in (0..96).filter(|&seed| plan(seed).shape.llcs > 1) {
        let plan = plan(seed);
        let machine = Machine::new(plan.shape);
        let alone = simulate_on(plan, machine.clone());
        let beside = simulate_on(plan, machine.with_lone_llc());
        let duration = beside.notes.end - START;
        assert_eq!(alone.notes.end - START, duration, "the runs are the same");
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let of = |sim: &Sim| Written::new(&sim.recording(), file).report(&RunOptions::default());
        let (alone, beside) = (of(&alone), of(&beside));
        let mut differ = Differences::default();
        for section in [
            "wakeups",
            "waits",
            "sis",
            "migrations",
            "cross_llc",
            "flips",
            "ipis",
            "throughput",
            "domains",
        ] {
            let mut other = beside[section].clone();
            if section == "wakeups" {
                let by_cpu = other["per_waker_cpu"].as_object_mut().expect("an object");
                let lone = plan.shape.cpus().to_string();
                assert_eq!(by_cpu.remove(&lone), Some(Value::from(0)));
            }
            let mut one = alone[section].clone();
            // What share of all capacity is lost follows from the ledger's numbers; the new CPU has some, too.
            for of in [&mut one, &mut other] {
                let fields = of.as_object_mut();
                fields.and_then(|fields| fields.remove("lost_capacity_share"));
                // How large LLCs are, once each.
                let factors = of.get_mut("factors").and_then(Value::as_object_mut);
                factors.and_then(|fields| fields.remove("sizes"));
            }
            compare(&mut differ, section, &one, &other);
        }
        let ns = |report: &Value, name: &str| number(report, &format!("ledger.{name}"));
        let ran = ns(&alone, "running_ns").map(|ns| ns + duration);
        differ.same("running", ns(&beside, "running_ns"), ran);
        for name in ["unknown_ns", "transit_ns"] {
            differ.same(name, ns(&beside, name), ns(&alone, name));
        }
        for name in [
            "waiting_llc_ns",
            "waiting_machine_ns",
            "idle_ns",
            "waiting_ns",
        ] {
            differ.same(name, &beside["ledger"][name], &alone["ledger"][name]);
        }
        let others = |report: &Value, list: &str, key: &str, lone: &Value| {
            let list = report[list].as_array().cloned().unwrap_or_default();
            list.into_iter()
                .filter(|item| item[key] != *lone)
                .collect::<Vec<Value>>()
        };
        for (list, key, lone) in [
            ("tasks", "pid", Value::from(LONE_PID)),
            ("pairs", "waker_pid", Value::from(LONE_PID)),
            ("llcs", "llc", Value::from(plan.shape.llcs)),
            ("processes", "tgid", Value::from(LONE_PID)),
        ] {
            let (found, before) = (
                others(&beside, list, key, &lone),
                others(&alone, list, key, &lone),
            );
            compare(&mut differ, list, &Value::from(found), &Value::from(before));
        }
        differ.none(&format!("seed {seed}"));
    }
}

#[test]
fn shapes_cover_what_they_should() {
    let shapes = super::tests_exact::SHAPES;
    let range = |of: fn(&Shape) -> usize| {
        let all = shapes.iter().map(of);
        (all.clone().min(), all.max())
    };
    assert_eq!(range(Shape::cpus), (Some(2), Some(64)));
    assert_eq!(range(|shape| shape.llcs), (Some(1), Some(8)));
    assert_eq!(range(|shape| shape.smt), (Some(1), Some(2)));
}
