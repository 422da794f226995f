//! What is exact is found exactly, whatever the machine, the kernel and the file.

use std::collections::BTreeMap;

use serde_json::Value;
use ttwu::pipeline::RunOptions;

use super::check::{Differences, File, Written, compare, compare_rows, number};
use super::kernels::{KERNELS, V4_2};
use super::machine::Shape;
use super::plan::Plan;
use super::run::simulate;
use super::timeline::Timeline;
use super::truth_report::{Numbers, ORIGINS, VERDICTS, report};

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

/// All that can be planted was, often enough to be a test.
fn every_word_was_met(met: &Numbers) {
    let least = |name: String, least: i64| {
        let found = met.get(&name).copied().unwrap_or(0);
        assert!(found >= least, "{name} was met {found} times");
    };
    for verdict in VERDICTS {
        for reading in ["seen", "any"] {
            // With a mask of one CPU nothing is passed over, and where any CPU is allowed seldom none.
            least(format!("waits.by_verdict.{verdict}.count.{reading}"), 20);
        }
    }
    for origin in ORIGINS {
        least(format!("waits.by_origin.{origin}.count"), 200);
    }
    for class in [
        "self",
        "fast_path",
        "local",
        "direct",
        "queued",
        "direct_or_delayed",
        "delayed",
        "new",
        "unknown",
    ] {
        least(format!("wakeups.by_class.{class}"), 40);
    }
    for path in [
        "queued-ipi",
        "queued-polling",
        "queued-coalesced",
        "direct-ipi",
        "direct-no-ipi",
        "local",
        "unknown",
    ] {
        least(format!("wakeups.by_path.{path}"), 40);
    }
    for waker in [
        "task",
        "softirq_inline",
        "softirq_irq_exit",
        "hardirq",
        "nmi",
        "unknown",
    ] {
        least(format!("wakeups.by_waker.{waker}"), 40);
    }
    for distance in ["same", "smt", "l2", "llc", "node", "remote"] {
        for kind in ["waker_chosen", "prev_chosen", "waker_prev"] {
            least(format!("wakeups.by_distance.{kind}.{distance}"), 100);
        }
    }
    least("waits.withheld.count".into(), 100);
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
