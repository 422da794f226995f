//! What is exact is found exactly, whatever the machine, the kernel and the file.

use std::collections::BTreeMap;

use serde_json::Value;
use ttwu::pipeline::RunOptions;
use ttwu::replay::words::{Class, Origin, Path, Verdict, Waker};

use super::check::{Differences, File, Written, compare, compare_rows, number};
use super::kernels::{KERNELS, V4_2};
use super::machine::Shape;
use super::plan::Plan;
use super::run::simulate;
use super::timeline::Timeline;
use super::truth_report::{Numbers, report};

/// From 2 CPUs to 64, from one LLC to eight, with SMT and without, with shared L2s and nodes and without.
pub const SHAPES: [Shape; 8] = [
    Shape::new(1, 1, 2, 1, 1),
    Shape::new(1, 2, 2, 2, 1),
    Shape::new(2, 4, 2, 1, 2),
    Shape::new(1, 1, 2, 2, 2),
    Shape::new(2, 8, 1, 2, 1),
    Shape::new(1, 3, 4, 1, 2),
    Shape::new(2, 8, 4, 2, 2),
    Shape::new(1, 2, 1, 1, 1),
];

/// Seeds of the comparison row by row.
const SEEDS: u64 = 432;
/// Of these so many are compared by their reports, too.
const REPORTS: u64 = 216;

/// Every seed is another machine, kernel and mix.
pub fn plan(seed: u64) -> Plan {
    let shape = SHAPES[seed as usize % SHAPES.len()];
    let kernel = KERNELS[(seed as usize / SHAPES.len()) % KERNELS.len()];
    Plan {
        told_masks: seed % 3 == 1,
        hidden_masks: seed % 5 == 2,
        repinning: seed % 4 == 3 || seed.is_multiple_of(7),
        tells_softirqs: seed % 11 != 4,
        recorder: seed % 6 == 5,
        carelessness: [50, 20, 80][seed as usize % 3],
        tasks: match seed % 5 {
            0 => shape.cpus() * 3,
            _ => shape.cpus() * 3 / 2 + 3,
        }
        .min(72),
        ..Plan::new(seed, shape).on(kernel)
    }
}

fn file(seed: u64) -> File {
    match seed % 2 {
        0 => File::TraceDat,
        _ => File::PerfData,
    }
}

#[test]
fn rows_are_the_simulators() {
    for seed in 0..SEEDS {
        let plan = plan(seed);
        let sim = simulate(plan);
        let written = Written::new(&sim.recording(), file(seed));
        let found = written.rows(&RunOptions::default());
        compare_rows(&sim, &found.rows).none(&format!("seed {seed}: {plan:?}"));
        let counts = &found.counts;
        let contradictions = [
            counts.inconsistent_waits,
            counts.ran_without_wakeup,
            counts.switch_mismatches,
            counts.inferred_migrations,
            counts.wakeups_without_waking,
            counts.wakings_without_wakeup,
            counts.masks_refuted,
            counts.open_waits,
            counts.bad_cpus,
        ];
        assert_eq!(contradictions, [0; 9], "seed {seed}: {counts:?}");
    }
}

#[test]
fn reports_are_the_simulators() {
    let mut met = Numbers::new();
    for seed in 0..REPORTS {
        let sim = simulate(plan(seed));
        let truth = report(&Timeline::new(&sim));
        let found = Written::new(&sim.recording(), file(seed)).report(&RunOptions::default());
        let mut differ = Differences::default();
        for (name, &truth) in &truth {
            differ.same(name, number(&found, name), Some(truth));
        }
        let recording = sim.recording();
        let events = sim
            .log
            .iter()
            .filter(|event| is_recorded(&recording, event))
            .count();
        // Before them stand the lines of the machine record, that of the topology among them.
        let lines = match file(seed) {
            File::TraceDat => recording.record.len() + 1,
            File::PerfData => 0,
        };
        differ.same(
            "events",
            number(&found, "trace.events"),
            Some((events + lines) as i64),
        );
        differ.none(&format!("seed {seed}"));
        for (name, number) in truth {
            *met.entry(name).or_default() += number;
        }
    }
    every_word_was_met(&met);
}

/// Whether the kernel has such an event. Markers of the machine record are counted apart.
fn is_recorded(recording: &super::recording::Recording, event: &super::events::Event) -> bool {
    let formats = recording.formats();
    super::formats::encode(event, &formats, recording.kernel, &recording.machine).is_some()
}

/// All that can be planted was, often enough to be a test. These words are left:
///
/// - class `anomaly`: an enqueue on a third CPU, or one that no waking precedes where wakings are told. Neither does a
///   kernel do; with lost events that is what becomes of a wakeup whose waking is lost (`tests_losses`).
/// - verdict `unknown`, distance `unknown`: only of machines whose LLCs are not told (`tests_untold`).
/// - the ledger's row `unknown`: only of CPUs with lost events (`tests_losses`).
/// - cause `unknown`, and causes that are not certain: `tests_moves`.
/// - of requests between CPUs `other`, of flushes `remote_wrong_cpu` and `other`: arm64's rarer interrupts, Linux 6.14 and
///   later, and what no kernel has yet. None of these is simulated; they are in traces made by hand.
fn every_word_was_met(met: &Numbers) {
    let least = |name: String, least: i64| {
        let found = met.get(&name).copied().unwrap_or(0);
        assert!(found >= least, "{name} was met {found} times");
    };
    let words = |of: &str, all: Vec<&str>, but: &[&str], least_each: i64| {
        for word in all.into_iter().filter(|word| !but.contains(word)) {
            least(of.replace('*', word), least_each);
        }
    };
    fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
        all.iter().map(|word| name(*word)).collect()
    }
    let verdicts = names(Verdict::ALL, Verdict::as_str);
    for reading in ["seen", "any"] {
        let count = format!("waits.by_verdict.*.count.{reading}");
        words(&count, verdicts.clone(), &["unknown"], 20);
        for row in [
            "waiting_llc_ns.core",
            "waiting_llc_ns.smt",
            "waiting_machine_ns",
            "idle_ns",
        ] {
            least(format!("ledger.{row}.{reading}"), 100_000);
        }
    }
    for row in ["running_ns", "transit_ns"] {
        least(format!("ledger.{row}"), 100_000);
    }
    let origins = names(Origin::ALL, Origin::as_str);
    words("waits.by_origin.*.count", origins, &[], 200);
    let classes = names(Class::ALL, Class::as_str);
    words("wakeups.by_class.*", classes, &["anomaly"], 40);
    words("wakeups.by_path.*", names(Path::ALL, Path::as_str), &[], 40);
    let wakers = names(Waker::ALL, Waker::as_str);
    words("wakeups.by_waker.*", wakers, &[], 40);
    for kind in ["waker_chosen", "prev_chosen", "waker_prev"] {
        let distances = vec!["same", "smt", "l2", "llc", "node", "remote"];
        words(
            &format!("wakeups.by_distance.{kind}.*"),
            distances,
            &[],
            100,
        );
    }
    least("waits.withheld.count".into(), 100);
    for name in ["running_ns", "wakeups", "waits"] {
        least(format!("trace.recorder.{name}"), 100);
    }
}

/// Both files hold the same events, so whatever is found in one is found in the other.
#[test]
fn both_files_give_the_same() {
    for seed in 0..24 {
        let sim = simulate(plan(seed * 7));
        let recording = sim.recording();
        let of = |file| {
            let report = Written::new(&recording, file).report(&RunOptions::default());
            let mut report = report.as_object().expect("an object").clone();
            // How it was recorded, and what only perf tells: processes.
            for key in ["trace", "caveats", "processes"] {
                report.remove(key);
            }
            if let Some(factors) = report["flips"]["factors"].as_object_mut() {
                factors.remove("source");
            }
            if let Some(tlb) = report["ipis"]["tlb"].as_object_mut() {
                tlb.remove("processes");
            }
            report
        };
        let (dat, perf) = (of(File::TraceDat), of(File::PerfData));
        let mut differ = Differences::default();
        compare(&mut differ, "", &Value::from(dat), &Value::from(perf));
        differ.none(&format!("seed {seed}"));
    }
}

/// The kernel without `sched_waking` shows neither wakers of queued wakeups nor latencies, and none are made up.
#[test]
fn before_waking_was_told_no_waker_is_guessed() {
    let mut unknown = 0;
    for seed in 0..20 {
        let plan = Plan::new(seed, SHAPES[1]).on(V4_2);
        let sim = simulate(plan);
        let found = Written::new(&sim.recording(), File::TraceDat).rows(&RunOptions::default());
        let truth: BTreeMap<(i32, i64), Option<i32>> = sim
            .notes
            .wakeups
            .iter()
            .map(|wakeup| {
                let pid = |task: usize| sim.notes.tasks[task].pid;
                let key = (pid(wakeup.wakee), wakeup.enqueued.unwrap_or(0));
                (key, wakeup.current.map(pid))
            })
            .collect();
        for wakeup in &found.rows.wakeups {
            let pid = |task| {
                let row = found.rows.tasks.iter().find(|t| t.task == task);
                row.map_or(0, |t| t.pid)
            };
            assert_eq!(wakeup.latency_ns, None);
            match wakeup.waker {
                None => unknown += 1,
                Some(waker) => {
                    let key = (pid(wakeup.wakee), wakeup.wakeup_ns.unwrap_or(0));
                    assert_eq!(truth[&key], Some(pid(waker)), "seed {seed}: {wakeup:?}");
                }
            }
        }
    }
    assert!(unknown > 500, "{unknown}");
}
