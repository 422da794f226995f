//! Causes that were planted in workloads: what the report says of them.

use serde_json::Value;
use ttwu::attribute::Selection;
use ttwu::pipeline::{Prepared, RunOptions, TimePoint, prepare};
use ttwu::replay::rows::TaskId;
use ttwu::replay::words::Origin;

use super::support::{Replayed, answer_of, lab_folder, lab_options, report, run, shared};

/// The facts of the pair of these names.
fn pair<'a>(report: &'a Value, waker: &str, wakee: &str) -> &'a Value {
    let pairs = report["pairs"].as_array().unwrap();
    pairs
        .iter()
        .find(|pair| pair["waker"] == waker && pair["wakee"] == wakee)
        .unwrap_or_else(|| panic!("no pair {waker} {wakee}"))
}

const BOTH_WAYS: [(&str, &str); 2] = [("lab-waker", "lab-wakee"), ("lab-wakee", "lab-waker")];

/// A number of a report.
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// The waits that a pair's wakeups began, under a reading, of these verdicts.
fn woken_ns(pair: &Value, reading: &str, verdicts: &[&str]) -> f64 {
    let of = |word: &&str| number(&pair["by_verdict"][*word]["wait_ns"][reading]);
    verdicts.iter().map(of).sum()
}

const STACKED: [&str; 2] = ["stacked-prev", "stacked-pull"];

/// Both tasks of `stack` are pinned to CPU 0 soon after its start: what they wait for there was stacked if they could
/// have run anywhere, and no CPU's fault if they could not.
fn check_stack(whole: &Value, pinned: &Value) {
    for (waker, wakee) in BOTH_WAYS {
        let since = &pair(whole, waker, wakee)["one_cpu"];
        assert_eq!(since["cpu"], 0, "{waker} {wakee}");
        let pair = pair(pinned, waker, wakee);
        let wait_ns = number(&pair["wait_ns"]);
        assert!(wait_ns > 1e6, "{waker} {wakee}: {wait_ns}");
        let stacked = woken_ns(pair, "any", &STACKED) / wait_ns;
        assert!(stacked >= 0.95, "{waker} {wakee}: {stacked}");
        assert_eq!(woken_ns(pair, "seen", &STACKED), 0.0, "{waker} {wakee}");
        // Most of what the wakee waits is no wakeup's: its partner preempts it.
        let preempted = number(&pair["preempted"]["wait_ns"]);
        assert!(preempted > wait_ns, "{waker} {wakee}: {preempted}");
    }
}

/// The options for a trace of a lab folder from a stamp on.
fn from(options: &RunOptions, ns: &Value) -> RunOptions {
    RunOptions {
        from: ns.as_i64().map(TimePoint::At),
        ..options.clone()
    }
}

/// The probes of the trace show that no CPU was ever chosen for these two, so that affinity is known and no reading
/// differs; a trace without them leaves both open.
#[test]
fn stacked_wakeups_are_stacked_under_any_affinity_and_not_as_seen() {
    let folder = lab_folder("stack").unwrap();
    let without_probes = |options: &RunOptions| {
        let path = folder.join("trace.dat");
        let mut prepared: Prepared = prepare(&path, options, &|_| ()).unwrap();
        prepared.config.recorded.probes = false;
        answer_of(&prepared, &Selection::default())
    };
    let options = lab_options(&folder);
    let whole = without_probes(&options);
    let since = &pair(&whole, "lab-waker", "lab-wakee")["one_cpu"]["since_ns"];
    check_stack(&whole, &without_probes(&from(&options, since)));

    let probed = report(&folder.join("trace.dat"), &from(&options, since));
    for (waker, wakee) in BOTH_WAYS {
        let pair = pair(&probed, waker, wakee);
        let affinity = woken_ns(pair, "any", &["affinity"]);
        assert!(affinity / number(&pair["wait_ns"]) >= 0.95);
    }
}

#[test]
fn a_recording_by_perf_shows_the_same_stacking() {
    let Some(shared) = shared() else {
        eprintln!("no reference traces at hand");
        return;
    };
    let folder = shared.join("traces/lab/stack");
    let (path, options) = (folder.join("perf.data"), lab_options(&folder));
    let whole = report(&path, &options);
    let since = &pair(&whole, "lab-waker", "lab-wakee")["one_cpu"]["since_ns"];
    check_stack(&whole, &report(&path, &from(&options, since)));
}

/// The waits of a pair by verdict are those that its wakeups began.
#[test]
fn a_pairs_waits_sum_up() {
    for name in ["stack", "pair-xllc", "fanout", "messaging"] {
        let folder = lab_folder(name).unwrap();
        let report = report(&folder.join("trace.dat"), &lab_options(&folder));
        for pair in report["pairs"].as_array().unwrap() {
            for reading in ["seen", "any"] {
                let verdicts = pair["by_verdict"].as_object().unwrap();
                let words: Vec<&str> = verdicts.keys().map(String::as_str).collect();
                assert_eq!(
                    woken_ns(pair, reading, &words),
                    number(&pair["wait_ns"]),
                    "{name}: {pair}"
                );
            }
        }
    }
}

/// Both tasks of `pair-llc` are pinned in one LLC before the start marker.
#[test]
fn a_pair_in_one_llc_crosses_none() {
    let Some(folder) = lab_folder("pair-llc") else {
        eprintln!("no reference traces at hand");
        return;
    };
    let options = RunOptions {
        from: Some(TimePoint::Marker("wakelab start".to_owned())),
        ..lab_options(&folder)
    };
    let report = report(&folder.join("trace.dat"), &options);
    for (waker, wakee) in BOTH_WAYS {
        let pair = pair(&report, waker, wakee);
        assert!(number(&pair["wakeups"]) > 2900.0);
        assert_eq!(pair["cross_llc_share"], 0.0);
        assert_eq!(pair["waker_chosen"]["llc"], pair["wakeups"]);
    }
}

/// What `wakelab stack` printed of `stack-long`: the mean time by the clock of one of the waker's 300 pieces of work.
const WORK_NS: f64 = 7_222_261.0;
const PIECES: f64 = 300.0;
/// A preemption so soon after the waking is inside the system call that wakes: no piece of work has begun.
const CALL_NS: i64 = 100_000;

/// A piece of the waker's work is what could have run beside the wakee. Its time by the clock has in it what the waker
/// waited meanwhile, preempted by the wakee.
#[test]
fn overlap_is_the_work_that_was_programmed() {
    let folder = lab_folder("stack-long").unwrap();
    let path = folder.join("trace.dat");
    let report = report(&path, &lab_options(&folder));
    let pair = pair(&report, "lab-waker", "lab-wakee");
    let overlap_ns = number(&pair["overlap_ns"]["value"]);
    let waited_ns = preempted_at_work_ns(&run(&path, &lab_options(&folder))) as f64;
    let work_ns = WORK_NS - waited_ns / PIECES;
    let ratio = overlap_ns / work_ns;
    println!("overlap {overlap_ns:.0} ns, work {work_ns:.0} ns: {ratio:.3}");
    assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    // Without what it waited the same figure would be far off.
    assert!(overlap_ns / WORK_NS < 0.7);
}

/// How long `lab-waker` waited after preemptions that were not inside a waking system call.
fn preempted_at_work_ns(replayed: &Replayed) -> i64 {
    let rows = &replayed.rows;
    let named = |task: TaskId| {
        let row = rows.tasks.iter().find(|row| row.task == task);
        row.is_some_and(|row| row.comm.as_bytes() == b"lab-waker")
    };
    let wakings: Vec<i64> = rows
        .wakeups
        .iter()
        .filter(|row| row.waker.is_some_and(named))
        .filter_map(|row| row.waking_ns)
        .collect();
    let in_call = |at: i64| wakings.iter().any(|ns| (0..CALL_NS).contains(&(at - ns)));
    let waits = rows.waits.iter();
    let at_work = waits.filter(|wait| wait.origin == Origin::Preempted && named(wait.task));
    let at_work = at_work.filter(|wait| !in_call(wait.start_ns));
    at_work.map(|wait| wait.wait_ns).sum()
}

/// While 16 tasks are busy on 8 CPUs, no CPU is idle to be missed.
#[test]
fn a_saturated_machine_misses_no_idle_cpu() {
    let folder = lab_folder("saturated").unwrap();
    let options = RunOptions {
        from: Some(TimePoint::AfterStart(300_000_000)),
        to: Some(TimePoint::BeforeEnd(600_000_000)),
        ..lab_options(&folder)
    };
    let report = report(&folder.join("trace.dat"), &options);
    assert!(number(&report["ledger"]["running_share"]) > 0.999);
    assert!(number(&report["waits"]["count"]) > 2000.0);
    for reading in ["seen", "any"] {
        let verdicts = &report["waits"]["by_verdict"];
        let share = |word: &&str| number(&verdicts[*word]["wait_share"][reading]);
        let missed = ["stacked-prev", "stacked-pull", "prev", "other", "other-llc"];
        let missed: f64 = missed.iter().map(share).sum();
        assert!(missed < 0.001, "{reading}: {missed}");
        assert!(share(&"saturated") > 0.98);
    }
}
