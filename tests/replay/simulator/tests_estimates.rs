//! What crossing LLCs costs, planted in known amounts: the estimates' intervals hold them.

use serde_json::Value;
use ttwu::pipeline::RunOptions;

use super::check::{File, Written};
use super::workloads::{Costs, wander};

/// Seeds of each case. Of that many at least 95 in 100 must be held.
const SEEDS: u64 = 200;

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

/// The interval of an estimate, if there is one.
fn interval(estimate: &Value) -> Option<(f64, f64)> {
    let ends = estimate.get("ci95")?.as_array()?;
    Some((number(ends.first()?)?, number(ends.get(1)?)?))
}

const NAMES: [&str; 3] = ["transit", "cold_cache", "transfer"];

/// In how many of the seeds each interval holds what was planted, and in how many there is one.
fn held(costs: Costs) -> [(u64, u64); 3] {
    let each = [costs.transit, costs.cold, costs.transfer].map(|ns| ns as f64);
    let mut held = [(0, 0); 3];
    for seed in 0..SEEDS {
        let (sim, crossing) = wander(seed, 240, costs);
        let found = Written::new(&sim.recording(), File::TraceDat).report(&RunOptions::default());
        let found = &found["cross_llc"];
        for (place, name) in NAMES.into_iter().enumerate() {
            let basis = &found["basis"][name];
            assert_eq!(
                basis["crossing"].as_u64(),
                Some(crossing[place]),
                "seed {seed}: {name}"
            );
            let Some((low, high)) = interval(&found[name]) else {
                continue;
            };
            // A total is of the wakeups that could be compared.
            let compared = number(&basis["compared_crossing"]).unwrap_or(0.0);
            // Idle times of the two sides do not all meet, so not every wakeup has one to be compared with.
            assert!(compared >= 30.0, "seed {seed}: {name} {basis}");
            held[place].1 += 1;
            held[place].0 += u64::from((low..=high).contains(&(each[place] * compared)));
        }
    }
    held
}

#[test]
fn what_was_planted_lies_in_the_intervals() {
    let costs = Costs {
        transit: 1500,
        cold: 9000,
        transfer: 5000,
    };
    for (name, (held, told)) in NAMES.into_iter().zip(held(costs)) {
        println!("{name}: held in {held} of {told}");
        assert!(
            told * 100 >= SEEDS * 99,
            "{name}: told in {told} of {SEEDS} seeds"
        );
        assert!(
            held * 100 >= told * 95,
            "{name}: held in {held} of {told} seeds"
        );
    }
}

/// Where crossing costs nothing, nothing is told, but by chance.
#[test]
fn nothing_is_measured_where_nothing_was_planted() {
    let costs = Costs {
        transit: 0,
        cold: 0,
        transfer: 0,
    };
    for (name, (_, told)) in NAMES.into_iter().zip(held(costs)) {
        println!("{name}: told in {told}");
        assert!(
            told * 100 <= SEEDS * 10,
            "{name}: something was told in {told} of {SEEDS} seeds"
        );
    }
}
