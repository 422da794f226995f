//! The names of the JSON report that are promised: scripts and checks use them. New ones may come; none of these may go, or
//! mean something else.

use serde_json::Value;

use super::lab_json;

/// Words that stand in a name for each of the keys of an enumeration.
const ENUMERATIONS: [(&str, &[&str]); 11] = [
    (
        "DISTANCE",
        &["same", "smt", "l2", "llc", "node", "remote", "unknown"],
    ),
    (
        "CLASS",
        &[
            "self",
            "fast_path",
            "local",
            "direct",
            "queued",
            "direct_or_delayed",
            "delayed",
            "new",
            "anomaly",
        ],
    ),
    (
        "PATH",
        &[
            "queued-ipi",
            "queued-polling",
            "queued-coalesced",
            "direct-ipi",
            "direct-no-ipi",
            "local",
        ],
    ),
    (
        "WAKER",
        &[
            "task",
            "softirq_inline",
            "softirq_irq_exit",
            "softirq_unknown",
            "hardirq",
            "nmi",
        ],
    ),
    ("ORIGIN", &["wakeup", "new", "preempted", "balanced"]),
    (
        "VERDICT",
        &[
            "transit",
            "no-selection",
            "affinity",
            "policy",
            "kthread-stack",
            "stacked-prev",
            "stacked-pull",
            "prev",
            "other",
            "other-llc",
            "raced",
            "late-idle",
            "saturated",
        ],
    ),
    (
        "CAUSE",
        &[
            "wakeup",
            "fork_exec",
            "newidle",
            "periodic",
            "active",
            "affinity",
            "numa",
            "unknown",
        ],
    ),
    (
        "POLICY",
        &[
            "kernel",
            "zero-old",
            "zero-new",
            "halve-old",
            "halve-new",
            "loop-old",
            "loop-new",
        ],
    ),
    (
        "CATEGORY",
        &[
            "running",
            "transit",
            "wait",
            "interrupt",
            "tlb-wait",
            "blocked",
            "unknown",
        ],
    ),
    ("READING", &["seen", "any"]),
    (
        "QUESTION",
        &[
            "latency",
            "missed_idle",
            "cross_llc",
            "flips",
            "ipis",
            "throughput",
        ],
    ),
];

/// `{a b}` stands for each of the names within; a name in capitals for the words of an enumeration.
const NAMES: &str = "
    schema_version
    trace.{format kernel_release kernel_model clock start_ns end_ns events events_by_name lost_events cpus}
    trace.topology.{source llcs cores l2s nodes}
    ledger.{total_ns unknown_ns unknown_share running_ns running_share transit_ns transit_share}
    ledger.{waiting_llc_ns waiting_llc_share}.{core smt}.READING
    ledger.{waiting_machine_ns waiting_machine_share idle_ns idle_share}.READING
    wakeups.{total per_waker_cpu.0 cross_llc_share}
    wakeups.by_class.CLASS
    wakeups.by_path.PATH
    wakeups.by_distance.{waker_chosen prev_chosen waker_prev}.DISTANCE
    wakeups.by_waker.WAKER
    wakeups.{latency_ns queue_ns waker_cost_ns}.{p50 p99 max}
    wakeups.probe_check.{checked prev_equal chosen_equal}
    waits.total_ns
    waits.by_origin.ORIGIN.{count wait_ns wait_share}
    waits.by_verdict.VERDICT.{count wait_ns wait_share lost_ns lost_share}.READING
    waits.withheld.{count ns}
    sis.{selections success fast_success failures}
    cross_llc.{transit cold_cache transfer}
    migrations.by_cause.CAUSE.DISTANCE
    flips.policies.POLICY.{wide affine undecided warming_up changed}
    flips.bounces
    flips.probe_check.{checked inside width_le_1}
    ipis.{by_kind stolen_ns}
    ipis.by_distance.DISTANCE
    ipis.latency_ns.{p50 p99 max}
    ipis.tlb.{flushes by_reason pages_log2 full targets_log2 initiator_wait_ns victims_ns}
    ipis.tlb.ipis_by_distance.DISTANCE
    throughput.{unit units per_second time_per_unit_ns wakeups_per_unit switches_per_unit ipis_per_unit}
    throughput.{path_ns path_share gain_at_most}.CATEGORY
    pairs tasks llcs processes
    fitness.QUESTION.{fit why coverage}
    compare
";

/// All names that a pattern stands for.
fn expand(pattern: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in parts(pattern) {
        let choices: Vec<String> = match part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
            Some(list) => list.split(' ').map(str::to_owned).collect(),
            None => {
                let words = ENUMERATIONS.iter().find(|(name, _)| *name == part);
                let words = words.map(|(_, words)| words.iter().map(|w| (*w).to_owned()));
                words.map_or_else(|| vec![part.to_owned()], Iterator::collect)
            }
        };
        names = names
            .iter()
            .flat_map(|name| {
                choices.iter().map(move |choice| match name.as_str() {
                    "" => choice.clone(),
                    name => format!("{name}.{choice}"),
                })
            })
            .collect();
    }
    names
}

/// The parts of a pattern: dots within braces are the names' own.
fn parts(pattern: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = pattern.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == '.' && depth == 0
    });
    split.collect()
}

fn promised() -> Vec<String> {
    let lines = NAMES.lines().map(str::trim).filter(|line| !line.is_empty());
    let patterns = lines.flat_map(|line| match line.contains('{') {
        true => vec![line],
        false => line.split(' ').collect(),
    });
    patterns.flat_map(expand).collect()
}

/// What stands under a dotted name.
fn at<'a>(report: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.').try_fold(report, |of, key| of.get(key))
}

#[test]
fn patterns_stand_for_names() {
    assert_eq!(expand("a.{b c}.READING").len(), 4);
    assert_eq!(expand("a.{b.0 c}"), ["a.b.0", "a.c"]);
    let all = promised();
    assert!(all.contains(&"waits.by_verdict.stacked-prev.lost_ns.any".to_owned()));
    assert!(
        all.contains(&"processes".to_owned()) && all.len() > 400,
        "{}",
        all.len()
    );
}

#[test]
fn every_promised_name_is_there() {
    // With probes, two LLCs and shootdowns: everything is known.
    let report = lab_json("fanout", &["--work", "marker:wakelab"]);
    let missing: Vec<String> = promised()
        .into_iter()
        .filter(|name| at(&report, name).is_none())
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Each `…_ns` that is a part of something has its `…_share` beside it, of the same shape; so has `ns` its `share`.
#[test]
fn times_of_ledger_waits_and_path_have_shares() {
    for name in ["fanout", "stack", "udp-queue"] {
        let report = lab_json(name, &["--work", "marker:wakelab"]);
        let mut checked = 0;
        for section in ["/ledger", "/waits", "/throughput"] {
            let of = report.pointer(section).expect("it is there");
            shares(of, section, &mut checked);
        }
        assert!(checked > 60, "{name}: {checked}");
    }
}

/// Stamps, wholes, and times that are of no whole.
const NO_PARTS: [&str; 5] = [
    "start_ns",
    "end_ns",
    "total_ns",
    "time_per_unit_ns",
    "withheld",
];

fn shares(of: &Value, place: &str, checked: &mut usize) {
    let Value::Object(map) = of else {
        let items = of.as_array().into_iter().flatten();
        items.for_each(|item| shares(item, place, checked));
        return;
    };
    for (key, value) in map {
        // `by_task` and `per_thread` tell of the window, not of the path.
        if NO_PARTS.contains(&key.as_str()) || ["by_task", "per_thread"].contains(&key.as_str()) {
            continue;
        }
        let share = match key.strip_suffix("ns") {
            Some("") => Some("share".to_owned()),
            Some(stem) => stem.strip_suffix('_').map(|stem| format!("{stem}_share")),
            None => None,
        };
        match share {
            Some(share) => {
                let beside = map.get(&share);
                let beside = beside.unwrap_or_else(|| panic!("{place}/{key} has no {share}"));
                assert_eq!(shape(value), shape(beside), "{place}/{key}");
                *checked += 1;
            }
            None => shares(value, &format!("{place}/{key}"), checked),
        }
    }
}

/// A value without its numbers.
fn shape(of: &Value) -> Value {
    match of {
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), shape(v))).collect(),
        Value::Number(_) => Value::Null,
        other => other.clone(),
    }
}

/// The forms of numbers: two readings, an estimate with its interval, and what is not known, with the reason.
#[test]
fn numbers_have_the_promised_forms() {
    let mut estimates = 0;
    for name in ["fanout", "messaging", "pair-xllc"] {
        forms(&lab_json(name, &[]), name, &mut estimates);
    }
    assert!(estimates > 5, "{estimates}");
}

fn keys(of: &serde_json::Map<String, Value>) -> Vec<&str> {
    let mut keys: Vec<&str> = of.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn forms(of: &Value, place: &str, estimates: &mut usize) {
    match of {
        Value::Array(items) => items.iter().for_each(|item| forms(item, place, estimates)),
        Value::Object(map) => {
            if map.contains_key("seen") || map.contains_key("any") {
                assert_eq!(keys(map), ["any", "seen"], "{place}: {of}");
            }
            if let Some(interval) = map.get("ci95") {
                assert_eq!(keys(map), ["ci95", "n", "value"], "{place}: {of}");
                let ends: Vec<f64> = interval
                    .as_array()
                    .expect("two ends")
                    .iter()
                    .filter_map(Value::as_f64)
                    .collect();
                assert!(ends.len() == 2 && ends[0] <= ends[1], "{place}: {of}");
                *estimates += 1;
            }
            if map.len() == 1
                && let Some(reason) = map.get("unknown")
            {
                let said = reason.as_str().is_some_and(|text| !text.is_empty());
                assert!(said || reason.is_number(), "{place}: {of}");
            }
            for (key, value) in map {
                forms(value, &format!("{place}.{key}"), estimates);
            }
        }
        _ => {}
    }
}

/// Whatever the unit is, it is told what the machine did for each, how much removing a category would gain at most and on
/// what that rests, and how paths from several ends differ.
#[test]
fn every_form_of_work_is_told_in_full() {
    let forms = [
        "task:lab-wakee",
        "event:sched_waking:comm=lab-wakee",
        "marker:wakelab",
        "total:3000",
    ];
    for form in forms {
        let report = lab_json("fanout", &["--work", form]);
        let work = &report["throughput"];
        assert_eq!(work["named_throughput"], true, "{form}");
        let units = work["units"].as_f64().expect("units");
        for of in ["wakeups", "switches", "ipis"] {
            let all = work[of].as_f64().expect("they are recorded");
            let each = work[format!("{of}_per_unit")].as_f64();
            assert_eq!(each, Some(all / units), "{form}: {of}");
        }
        let span = &work["span"];
        let ns = span["end_ns"].as_f64().zip(span["start_ns"].as_f64());
        let ns = ns.map(|(end, start)| end - start).expect("a span");
        let parts = work["path_ns"].as_object().expect("categories");
        assert_eq!(
            parts.values().filter_map(Value::as_f64).sum::<f64>(),
            ns,
            "{form}"
        );
        assert_eq!(
            work["time_per_unit_ns"].as_f64(),
            Some(ns / units),
            "{form}"
        );
        let transit = parts["transit"].as_f64().expect("a time");
        let gain = work["gain_at_most"]["transit"].as_f64().expect("a bound");
        assert!((gain - (ns / (ns - transit) - 1.0)).abs() < 1e-9, "{form}");
        assert!(
            work["gain_assumption"]
                .as_str()
                .is_some_and(|text| text.contains("order"))
        );
        assert_eq!(work["path"]["spread"]["windows"], 8, "{form}");
        let running = &work["path"]["spread"]["share"]["running"];
        assert!(running["min"].as_f64() <= running["max"].as_f64(), "{form}");

        let trace = super::lab("fanout");
        let options = ["analyze", "-q", "--section", "throughput", "--work", form];
        let shown = super::good(options.into_iter().chain(trace.iter().map(String::as_str)));
        let words: Vec<&str> = shown.split_whitespace().collect();
        let words = words.join(" ");
        for said in [
            "units per second",
            "Per unit, on the whole machine:",
            "IPIs.",
            "gain at most",
            "order and placement as recorded; in 8 parts of it: running",
        ] {
            assert!(words.contains(said), "{form}: {said}\n{shown}");
        }
        // Several threads answer; one makes the marks; a total does not tell.
        let several = form.starts_with("task");
        assert_eq!(words.contains("Per thread, of"), several, "{form}\n{shown}");
    }
}

/// Where processes ran over time, and how their threads spread.
#[test]
fn processes_are_told_over_time_and_by_thread() {
    let path = super::fixture("perf-data/perf.plain.data")
        .display()
        .to_string();
    let report = super::json(&[&path]);
    let processes = report["processes"]
        .as_array()
        .expect("perf.data names them");
    let several = processes.iter().find(|p| p["threads"].as_u64() > Some(1));
    let several = several.expect("perf has two threads");
    assert_eq!(several["thread_run_ns"]["n"], several["threads"]);
    let windows = several["co_residency"]["windows"]
        .as_array()
        .expect("the topology is known");
    assert!(windows.len() > 10);
    let shown = super::good(["analyze", "-q", "--section", "processes", &path]);
    assert!(shown.contains(" parts"), "{shown}");
}
