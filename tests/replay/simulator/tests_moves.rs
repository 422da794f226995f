//! Migrations by what made them, and placements outside what the kernel takes for an LLC.

use std::collections::BTreeMap;

use ttwu::pipeline::RunOptions;
use ttwu::replay::words::{Confidence, MigrationCause, MigrationKind};

use super::check::{Differences, File, Written, number};
use super::kernels::{KERNELS, V6_12};
use super::machine::Shape;
use super::notes::Cause;
use super::plan::Plan;
use super::run::simulate;
use super::tests_exact::plan;
use super::timeline::Timeline;
use super::truth_wakeups::wakeups;

fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Wakeup => "wakeup",
        Cause::NewIdle => "newidle",
        Cause::Periodic => "periodic",
        Cause::Active => "active",
        Cause::Affinity | Cause::AffinityOfOther => "affinity",
        Cause::Numa => "numa",
        Cause::Exec => "fork_exec",
        Cause::RealTime => "rt",
    }
}

/// What is told as certain is so, always. All that is told with less is so nearly always, and most is told as certain.
#[test]
fn causes_are_the_simulators() {
    let mut met: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..288 {
        let sim = simulate(plan(seed));
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let rows = Written::new(&sim.recording(), file)
            .rows(&RunOptions::default())
            .rows;
        for row in &rows.migrations {
            let truth = sim.notes.moves.iter().find(|m| m.ts == row.ts_ns);
            let truth = truth.map_or("none", |m| word(m.cause));
            let right = truth == row.cause.as_str();
            let sure = row.confidence == Confidence::Certain;
            assert!(right || !sure, "seed {seed}: {row:?}, but {truth}");
            *kinds.entry(row.kind.as_str()).or_default() += 1;
            let counts = met.entry((truth, row.confidence.as_str())).or_default();
            counts[usize::from(right)] += 1;
        }
    }
    let sum = |of: &dyn Fn(&str, &str) -> bool, right: usize| -> u64 {
        let of = met.iter().filter(|((cause, sure), _)| of(cause, sure));
        of.map(|(_, counts)| counts[right]).sum()
    };
    for cause in MigrationCause::ALL.iter().map(|cause| cause.as_str()) {
        let told = |word| sum(&|c, sure| c == cause && sure == word, 1);
        let (certain, likely) = (told("certain"), told("likely"));
        match cause {
            // No move is without a cause; that none is told is right nowhere.
            "unknown" => assert_eq!(certain + likely, 0),
            // Its tasks may be moved for other causes, too.
            "rt" => assert!(likely >= 40, "{likely}: {met:?}"),
            _ => assert!(
                certain >= 40,
                "{cause} was told for certain {certain} times: {met:?}"
            ),
        }
    }
    for confidence in Confidence::ALL {
        let told = sum(&|_, sure| sure == confidence.as_str(), 0)
            + sum(&|_, sure| sure == confidence.as_str(), 1);
        assert!(told >= 40, "{confidence:?}: {met:?}");
    }
    for kind in MigrationKind::ALL {
        let found = kinds.get(kind.as_str()).copied().unwrap_or(0);
        assert!(found >= 40, "{kind:?}: {kinds:?}");
    }
    let (wrong, right) = (
        sum(&|_, sure| sure == "likely", 0),
        sum(&|_, sure| sure == "likely", 1),
    );
    assert!(
        wrong * 50 <= wrong + right,
        "of what is likely {wrong} are wrong, {right} right: {met:?}"
    );
    let (all, certain) = (
        sum(&|_, _| true, 0) + sum(&|_, _| true, 1),
        sum(&|_, sure| sure == "certain", 1),
    );
    assert!(
        certain * 10 >= all * 8,
        "{certain} of {all} are certain: {met:?}"
    );
}

/// Where all are certain, the report's counts by cause and distance are exact.
#[test]
fn causes_by_distance_are_the_simulators() {
    let mut compared = 0;
    for seed in 0..144 {
        let sim = simulate(plan(seed));
        let found = Written::new(&sim.recording(), File::TraceDat).report(&RunOptions::default());
        let all = number(&found, "migrations.total");
        let confidence = found["migrations"]["by_confidence"]
            .as_object()
            .expect("an object");
        let certain: i64 = confidence
            .values()
            .filter_map(|of| of["certain"].as_i64())
            .sum();
        let mut differ = Differences::default();
        differ.same("total", all, Some(sim.notes.moves.len() as i64));
        if all == Some(certain) {
            let mut truth: BTreeMap<String, i64> = BTreeMap::new();
            for m in &sim.notes.moves {
                let far = sim.machine.distance(m.from, m.to);
                let name = format!("migrations.by_cause.{}.{far}", word(m.cause));
                *truth.entry(name).or_default() += 1;
            }
            compared += 1;
            for (name, truth) in truth {
                differ.same(&name, number(&found, &name), Some(truth));
            }
        }
        differ.none(&format!("seed {seed}"));
    }
    assert!(compared >= 10, "{compared}");
}

/// Fair wakeups that land in neither the previous CPU's LLC nor the waker's are counted, and show a domain that is wider
/// than the cache; none do where it is not.
#[test]
fn a_domain_wider_than_the_cache_shows() {
    let mut flagged = 0;
    for seed in 0..40 {
        for wide in [false, true] {
            let plan = Plan {
                wide_domain: wide,
                told_masks: false,
                hidden_masks: false,
                repinning: false,
                events: 3000,
                carelessness: 40,
                ..Plan::new(seed, Shape::new(1, 4, 2, 1, 1)).on(KERNELS[2 + seed as usize % 4])
            };
            let sim = simulate(plan);
            let recording = sim.recording();
            let found = Written::new(&recording, File::TraceDat).report(&RunOptions::default());
            let far = |distance: &str| ["node", "remote"].contains(&distance);
            let truth = wakeups(&Timeline::new(&sim));
            let selected = truth.iter().filter(|w| w.selection == Some(true));
            let selections = selected.clone().count() as i64;
            let outside = selected.filter(|w| far(w.distances[0]) && far(w.distances[1]));
            // Both other LLCs of four may be two different ones.
            let outside = outside.count() as i64;
            let name = "domains.behaviour.outside";
            assert_eq!(
                number(&found, name),
                Some(outside),
                "seed {seed}, wide {wide}"
            );
            let verdict = found["domains"]["behaviour"]["verdict"].as_str();
            // A few may be anything.
            let expected = match outside {
                0 => "fits",
                n if n >= 10 && n * 100 >= selections => "wider",
                _ => "few",
            };
            assert_eq!(verdict, Some(expected), "seed {seed}: {outside} outside");
            assert!(wide || outside == 0, "seed {seed}: {outside} outside");
            flagged += u32::from(expected == "wider");
        }
    }
    assert!(flagged >= 36, "{flagged} of 40 that are wider");
}

/// How long processes ran in which LLC, where the trace tells processes.
#[test]
fn processes_ran_where_they_did() {
    for seed in 0..48 {
        let plan = Plan {
            kernel: V6_12,
            ..plan(seed)
        };
        let sim = simulate(plan);
        let found = Written::new(&sim.recording(), File::PerfData).report(&RunOptions::default());
        let timeline = Timeline::new(&sim);
        let mut truth: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for (task, spans) in timeline.spans.iter().enumerate() {
            // The recorder's own threads are no part of what is recorded.
            let spans = spans.iter().filter(|_| !sim.notes.tasks[task].recorder);
            for span in spans {
                if let super::notes::State::Running(cpu) = span.state {
                    // LLCs go by their place in the order of their lowest CPU.
                    let llc = sim.machine.llc(cpu).to_string();
                    let key = (i64::from(sim.tasks[task].tgid), llc);
                    *truth.entry(key).or_default() += span.to - span.from;
                }
            }
        }
        let mut ran: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for process in found["processes"].as_array().into_iter().flatten() {
            let tgid = process["tgid"].as_i64().unwrap_or(0);
            for (llc, ns) in process["llc_run_ns"].as_object().into_iter().flatten() {
                ran.insert((tgid, llc.clone()), ns.as_i64().unwrap_or(0));
            }
        }
        ran.retain(|_, ns| *ns > 0);
        assert_eq!(ran, truth, "seed {seed}");
    }
}
