//! Exported tables against the report: sums over every table are the report's numbers, exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttwu::tables::Table;

use super::{fixture, good};

/// A number of the report, or an object of numbers, and the table and SQL that gives it again. The SQL has a column `n`,
/// and a column `k` with the names within an object.
struct Sum {
    at: &'static str,
    table: Table,
    sql: &'static str,
}

const fn sum(at: &'static str, table: Table, sql: &'static str) -> Sum {
    Sum { at, table, sql }
}

/// What of an interval lies in the window, and from which tables both are.
macro_rules! inside {
    ($table:literal) => {
        concat!(
            "SELECT SUM(CASE WHEN s.end_ns < t.end_ns THEN s.end_ns ELSE t.end_ns END \
             - CASE WHEN s.start_ns > t.start_ns THEN s.start_ns ELSE t.start_ns END) AS n FROM ",
            $table,
            " s JOIN traces t ON s.host = t.host AND s.trace = t.trace \
              WHERE s.end_ns > t.start_ns AND s.start_ns < t.end_ns"
        )
    };
}

const SUMS: &[Sum] = &[
    sum(
        "/wakeups/total",
        Table::Wakeups,
        "SELECT COUNT(*) AS n FROM wakeups WHERE in_window",
    ),
    sum(
        "/wakeups/by_class",
        Table::Wakeups,
        "SELECT class AS k, COUNT(*) AS n FROM wakeups WHERE in_window GROUP BY class",
    ),
    sum(
        "/wakeups/by_path",
        Table::Wakeups,
        "SELECT path AS k, COUNT(*) AS n FROM wakeups WHERE in_window AND path IS NOT NULL GROUP BY path",
    ),
    sum(
        "/wakeups/by_distance/waker_chosen",
        Table::Wakeups,
        "SELECT waker_chosen AS k, COUNT(*) AS n FROM wakeups WHERE in_window GROUP BY waker_chosen",
    ),
    sum(
        "/wakeups/by_distance/prev_chosen",
        Table::Wakeups,
        "SELECT prev_chosen AS k, COUNT(*) AS n FROM wakeups WHERE in_window GROUP BY prev_chosen",
    ),
    sum(
        "/wakeups/by_distance/waker_prev",
        Table::Wakeups,
        "SELECT waker_prev AS k, COUNT(*) AS n FROM wakeups WHERE in_window GROUP BY waker_prev",
    ),
    sum(
        "/wakeups/by_waker",
        Table::Wakeups,
        "SELECT context AS k, COUNT(*) AS n FROM wakeups WHERE in_window GROUP BY context",
    ),
    sum(
        "/wakeups/per_waker_cpu",
        Table::Wakeups,
        "SELECT COALESCE(CAST(waker_cpu AS STRING), 'unknown') AS k, COUNT(*) AS n FROM wakeups WHERE in_window GROUP BY 1",
    ),
    sum(
        "/wakeups/latency_ns/count",
        Table::Wakeups,
        "SELECT COUNT(latency_ns) AS n FROM wakeups WHERE in_window",
    ),
    sum(
        "/wakeups/latency_ns/max",
        Table::Wakeups,
        "SELECT MAX(latency_ns) AS n FROM wakeups WHERE in_window",
    ),
    sum(
        "/wakeups/queue_ns/max",
        Table::Wakeups,
        "SELECT MAX(queue_ns) AS n FROM wakeups WHERE in_window",
    ),
    sum(
        "/wakeups/smt_shared",
        Table::Wakeups,
        "SELECT COUNT(*) AS n FROM wakeups WHERE in_window AND smt_shared",
    ),
    sum(
        "/waits/count",
        Table::Waits,
        "SELECT COUNT(*) AS n FROM waits WHERE in_window",
    ),
    sum(
        "/waits/total_ns",
        Table::Waits,
        "SELECT SUM(wait_ns) AS n FROM waits",
    ),
    sum(
        "/waits/by_verdict/*/count/seen",
        Table::Waits,
        "SELECT verdict_seen AS k, COUNT(*) AS n FROM waits WHERE in_window GROUP BY verdict_seen",
    ),
    sum(
        "/waits/by_verdict/*/count/any",
        Table::Waits,
        "SELECT verdict_any AS k, COUNT(*) AS n FROM waits WHERE in_window GROUP BY verdict_any",
    ),
    sum(
        "/waits/by_verdict/*/wait_ns/seen",
        Table::Waits,
        "SELECT verdict_seen AS k, SUM(wait_ns) AS n FROM waits GROUP BY verdict_seen",
    ),
    sum(
        "/waits/by_verdict/*/wait_ns/any",
        Table::Waits,
        "SELECT verdict_any AS k, SUM(wait_ns) AS n FROM waits GROUP BY verdict_any",
    ),
    sum(
        "/waits/by_verdict/*/lost_ns/seen",
        Table::Waits,
        "SELECT verdict_seen AS k, SUM(lost_seen_ns) AS n FROM waits GROUP BY verdict_seen",
    ),
    sum(
        "/waits/by_verdict/*/lost_ns/any",
        Table::Waits,
        "SELECT verdict_any AS k, SUM(lost_any_ns) AS n FROM waits GROUP BY verdict_any",
    ),
    sum(
        "/waits/by_origin/*/count",
        Table::Waits,
        "SELECT origin AS k, COUNT(*) AS n FROM waits WHERE in_window GROUP BY origin",
    ),
    sum("/ledger/running_ns", Table::Slices, inside!("slices")),
    sum(
        "/migrations/total",
        Table::Migrations,
        "SELECT COUNT(*) AS n FROM migrations WHERE in_window",
    ),
    sum(
        "/migrations/totals",
        Table::Migrations,
        "SELECT cause AS k, COUNT(*) AS n FROM migrations WHERE in_window GROUP BY cause",
    ),
    sum(
        "/migrations/by_cause/wakeup",
        Table::Migrations,
        "SELECT distance AS k, COUNT(*) AS n FROM migrations WHERE in_window AND cause = 'wakeup' GROUP BY distance",
    ),
    sum(
        "/migrations/by_confidence/newidle",
        Table::Migrations,
        "SELECT confidence AS k, COUNT(*) AS n FROM migrations WHERE in_window AND cause = 'newidle' GROUP BY confidence",
    ),
    sum(
        "/ipis/handlers/ns",
        Table::Ipis,
        "SELECT SUM(handler_ns) AS n FROM ipis WHERE in_window",
    ),
    sum(
        "/ipis/handlers/count",
        Table::Ipis,
        "SELECT COUNT(handler_ns) AS n FROM ipis WHERE in_window AND road IN ('interrupt', 'handler')",
    ),
    sum(
        "/ipis/polled/total",
        Table::Ipis,
        "SELECT COUNT(*) AS n FROM ipis WHERE in_window AND road = 'polled'",
    ),
    sum(
        "/flips/policies/kernel/wide",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND sure AND kernel = 'wide'",
    ),
    sum(
        "/flips/policies/kernel/affine",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND sure AND kernel = 'affine'",
    ),
    sum(
        "/flips/policies/zero-new/affine",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND sure AND zero_new = 'affine'",
    ),
    sum(
        "/flips/policies/halve-old/undecided",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND sure AND halve_old = 'undecided'",
    ),
    sum(
        "/flips/recorded",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND sure",
    ),
    sum(
        "/flips/perhaps",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND NOT sure",
    ),
    sum(
        "/flips/pull_check/pulls",
        Table::Flips,
        "SELECT COUNT(*) AS n FROM flips WHERE in_window AND sure AND pulled",
    ),
    sum(
        "/flips/probe_check/checked",
        Table::Flips,
        "SELECT COUNT(probe_inside) AS n FROM flips WHERE in_window",
    ),
    sum(
        "/ipis/tlb/flushes",
        Table::Flushes,
        "SELECT COUNT(*) AS n FROM flushes WHERE in_window AND reason <> 'other'",
    ),
    sum(
        "/ipis/tlb/by_reason/remote_send",
        Table::Flushes,
        "SELECT COUNT(*) AS n FROM flushes WHERE in_window AND reason = 'remote_send'",
    ),
    sum(
        "/ipis/tlb/targets",
        Table::Flushes,
        "SELECT SUM(targets) AS n FROM flushes WHERE in_window",
    ),
    sum(
        "/ipis/tlb/full",
        Table::Flushes,
        "SELECT COUNT(*) AS n FROM flushes WHERE in_window AND pages = -1",
    ),
    sum(
        "/throughput/units",
        Table::Units,
        "SELECT MAX(done) AS n FROM units WHERE in_window AND mark = 'unit'",
    ),
    sum(
        "/waits/total_ns",
        Table::Tasks,
        "SELECT SUM(wait_ns) AS n FROM tasks",
    ),
    sum(
        "/ledger/waiting_ns/seen",
        Table::Tasks,
        "SELECT SUM(lost_seen_ns) AS n FROM tasks",
    ),
    sum(
        "/ledger/running_ns",
        Table::Tasks,
        "SELECT SUM(run_ns) AS n FROM tasks",
    ),
    sum(
        "/ledger/total_ns",
        Table::Ledger,
        "SELECT SUM(end_ns - start_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/unknown_ns",
        Table::Ledger,
        "SELECT SUM(unknown_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/running_ns",
        Table::Ledger,
        "SELECT SUM(running_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/transit_ns",
        Table::Ledger,
        "SELECT SUM(transit_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/waiting_llc_ns/core/seen",
        Table::Ledger,
        "SELECT SUM(waiting_llc_core_seen_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/waiting_llc_ns/smt/seen",
        Table::Ledger,
        "SELECT SUM(waiting_llc_smt_seen_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/waiting_llc_ns/core/any",
        Table::Ledger,
        "SELECT SUM(waiting_llc_core_any_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/waiting_llc_ns/smt/any",
        Table::Ledger,
        "SELECT SUM(waiting_llc_smt_any_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/waiting_machine_ns/seen",
        Table::Ledger,
        "SELECT SUM(waiting_machine_seen_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/waiting_machine_ns/any",
        Table::Ledger,
        "SELECT SUM(waiting_machine_any_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/idle_ns/seen",
        Table::Ledger,
        "SELECT SUM(idle_seen_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/idle_ns/any",
        Table::Ledger,
        "SELECT SUM(idle_any_ns) AS n FROM ledger",
    ),
    sum(
        "/ledger/unknown_ns",
        Table::Cpus,
        "SELECT SUM(unknown_ns) AS n FROM cpus",
    ),
    sum(
        "/ledger/running_ns",
        Table::Cpus,
        "SELECT SUM(running_ns) AS n FROM cpus",
    ),
    sum(
        "/ledger/transit_ns",
        Table::Cpus,
        "SELECT SUM(transit_ns) AS n FROM cpus",
    ),
    sum(
        "/ledger/waiting_ns/seen",
        Table::Cpus,
        "SELECT SUM(waiting_llc_core_seen_ns + waiting_llc_smt_seen_ns + waiting_machine_seen_ns) AS n FROM cpus",
    ),
    sum(
        "/ledger/waiting_ns/any",
        Table::Cpus,
        "SELECT SUM(waiting_llc_core_any_ns + waiting_llc_smt_any_ns + waiting_machine_any_ns) AS n FROM cpus",
    ),
    sum(
        "/ledger/idle_ns/any",
        Table::Cpus,
        "SELECT SUM(idle_any_ns) AS n FROM cpus",
    ),
    sum(
        "/wakeups/total",
        Table::Cpus,
        "SELECT SUM(wakeups_made) AS n FROM cpus",
    ),
    sum(
        "/trace/lost_events",
        Table::Cpus,
        "SELECT SUM(lost_events) AS n FROM cpus",
    ),
    sum(
        "/trace/lost_events",
        Table::Lost,
        "SELECT SUM(events) AS n FROM lost",
    ),
    sum(
        "/trace/events",
        Table::Traces,
        "SELECT events AS n FROM traces",
    ),
    sum(
        "/trace/start_ns",
        Table::Traces,
        "SELECT start_ns AS n FROM traces",
    ),
    sum(
        "/trace/end_ns",
        Table::Traces,
        "SELECT end_ns AS n FROM traces",
    ),
    sum(
        "/trace/lost_events",
        Table::Traces,
        "SELECT lost_events AS n FROM traces",
    ),
    sum(
        "/trace/events",
        Table::Events,
        "SELECT COUNT(*) AS n FROM events",
    ),
    sum(
        "/trace/events_by_name",
        Table::Events,
        "SELECT event AS k, COUNT(*) AS n FROM events GROUP BY event",
    ),
    sum(
        "/trace/events_by_name/sched:sched_waking",
        Table::Events,
        "SELECT COUNT(*) AS n FROM events WHERE event = 'sched:sched_waking' AND target_cpu IS NOT NULL AND task_pid IS NOT NULL",
    ),
];

/// A trace and what it is replayed with.
struct Case {
    trace: PathBuf,
    more: Vec<String>,
}

fn cases() -> Vec<Case> {
    let lab = |name: &str, more: &[&str]| {
        let folder = fixture(&format!("lab/{name}"));
        let topology = folder.join("topology.txt").display().to_string();
        let more = more.iter().map(|word| (*word).to_owned());
        Case {
            trace: folder.join("trace.dat"),
            more: ["--topology".to_owned(), topology]
                .into_iter()
                .chain(more)
                .collect(),
        }
    };
    let mut cases: Vec<Case> = super::LAB.iter().map(|name| lab(name, &[])).collect();
    cases.push(lab("pair-xllc", &["--work", "marker:wakelab"]));
    cases.push(lab(
        "messaging",
        &["--from", "1.5s", "--to", "-700ms", "--settle", "0"],
    ));
    cases.push(lab("saturated", &[]));
    let bare = |path: &str| Case {
        trace: fixture(path),
        more: Vec::new(),
    };
    let others = [
        "recorded/trace.dat",
        "recorded/perf.data",
        "perf-data/perf.lost.data",
        "perf-data/perf.plain.data",
    ];
    cases.extend(others.map(bare));
    cases
}

fn report(case: &Case) -> Value {
    let trace = case.trace.display().to_string();
    let args = ["analyze", "--json", "-q", &trace].map(str::to_owned);
    let text = good(args.into_iter().chain(case.more.iter().cloned()));
    serde_json::from_str(&text).expect("valid JSON")
}

fn ask(sql: &str, dataset: &Path) -> Vec<Value> {
    let dataset = dataset.display().to_string();
    let text = good(["query", sql, &dataset, "--format", "json"]);
    serde_json::from_str(&text).expect("valid JSON")
}

/// The numbers of the report at a place, by name. Nothing where the report says why it is not known.
fn told(report: &Value, at: &str) -> Option<BTreeMap<String, i64>> {
    let known = |value: &Value| value.as_i64();
    if let Some((before, behind)) = at.split_once("/*") {
        let all = report.pointer(before)?.as_object()?;
        let named = all.iter().map(|(name, of)| {
            let number = of.pointer(behind).and_then(known);
            Some((name.clone(), number?))
        });
        return named.collect();
    }
    match report.pointer(at)? {
        Value::Object(all) => {
            let named = all
                .iter()
                .map(|(name, of)| Some((name.clone(), known(of)?)));
            named.collect()
        }
        number => Some(BTreeMap::from([(String::new(), known(number)?)])),
    }
}

/// The numbers that the tables give.
fn summed(rows: &[Value]) -> BTreeMap<String, i64> {
    let named = rows.iter().map(|row| {
        let name = row
            .get("k")
            .map_or("", |name| name.as_str().expect("a name"));
        // A sum over no rows is null.
        (name.to_owned(), row["n"].as_i64().unwrap_or(0))
    });
    named.collect()
}

/// CPUs that run nothing are in one of three rows of the report. Where a CPU's state is unknown it may be in none.
fn check_idle(report: &Value, dataset: &Path) -> u32 {
    let of = |at: &str| report.pointer(at).and_then(Value::as_i64).expect("a time");
    if of("/ledger/unknown_ns") != 0 {
        return 0;
    }
    for reading in ["seen", "any"] {
        let rows = ["/ledger/waiting_ns/", "/ledger/idle_ns/"];
        let rows = rows.map(|row| of(&format!("{row}{reading}")));
        let told = of("/ledger/transit_ns") + rows.iter().sum::<i64>();
        let summed = summed(&ask(inside!("idle"), dataset));
        assert_eq!(summed[""], told, "{reading} of {}", dataset.display());
    }
    1
}

#[test]
fn sums_over_exported_tables_are_the_numbers_of_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut compared = BTreeSet::new();
    let mut idle = 0;
    for (number, case) in cases().iter().enumerate() {
        let report = report(case);
        let dataset = folder.path().join(number.to_string());
        let args = [
            "export".to_owned(),
            case.trace.display().to_string(),
            "--tables=all".to_owned(),
            "-o".to_owned(),
            dataset.display().to_string(),
            "-q".to_owned(),
        ];
        good(args.into_iter().chain(case.more.iter().cloned()));
        for (index, sum) in SUMS.iter().enumerate() {
            // Without a unit of work the report counts wakeups as such.
            if sum.table == Table::Units && !case.more.contains(&"--work".to_owned()) {
                continue;
            }
            let Some(mut told) = told(&report, sum.at) else {
                continue;
            };
            let summed = summed(&ask(sum.sql, &dataset));
            if !summed.contains_key("") {
                told.retain(|name, number| *number != 0 || summed.contains_key(name));
            }
            let of = format!("{} {}: {}", case.trace.display(), sum.at, sum.sql);
            assert_eq!(summed, told, "{of}");
            if told.values().any(|number| *number != 0) {
                compared.insert(index);
            }
        }
        idle += check_idle(&report, &dataset);
    }
    assert!(idle > 5);
    // Every line was put to the test by some trace, and every table by some line.
    let untested = (0..SUMS.len()).filter(|index| !compared.contains(index));
    let untested: Vec<&str> = untested.map(|index| SUMS[index].sql).collect();
    assert!(untested.is_empty(), "{untested:#?}");
    let tested = SUMS.iter().map(|sum| sum.table).chain([Table::Idle]);
    let tested: BTreeSet<Table> = tested.collect();
    assert_eq!(tested, Table::ALL.iter().copied().collect());
}
