//! What crossing LLCs costs, planted in known amounts: the estimates' intervals hold them.

use std::collections::BTreeMap;

use serde_json::Value;
use ttwu::pipeline::RunOptions;

use super::check::{File, Written};
use super::notes::Context;
use super::scheduler::Sim;
use super::timeline::Timeline;
use super::truth_wakeups::choice;
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
    let mut shares = [0.0; 3];
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
            // Of transit those are, to whose CPUs, idle for about as long, others went; all others whatever the CPU did.
            let truth = match name {
                "transit" => comparable(&sim),
                _ => crossing[place],
            };
            assert_eq!(compared, truth as f64, "seed {seed}: {name} {basis}");
            assert!(
                compared >= 0.7 * crossing[place] as f64,
                "seed {seed}: {name} {basis}"
            );
            shares[place] += compared / crossing[place] as f64;
            held[place].1 += 1;
            held[place].0 += u64::from((low..=high).contains(&(each[place] * compared)));
        }
    }
    for ((name, share), (_, told)) in NAMES.into_iter().zip(shares).zip(held) {
        assert!(
            share >= 0.9 * told as f64,
            "{name}: {share} of {told} compared"
        );
    }
    held
}

/// Of a class of idle times so many must be on both sides.
const LEAST: u64 = 10;

/// How many of the wakeups across LLCs have enough others to compare them with: to CPUs that had run nothing for as long,
/// by powers of two. For how long a CPU did is known once it was seen to begin.
fn comparable(sim: &Sim) -> u64 {
    let timeline = Timeline::new(sim);
    let mut sides: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for wakeup in sim
        .notes
        .wakeups
        .iter()
        .filter(|w| w.current.is_some() && w.context == Context::Task)
    {
        let chosen = choice(&timeline, wakeup);
        let idled = sim.notes.idled.iter().rev();
        let mut idled = idled.filter(|&&(ts, cpu)| cpu == wakeup.chosen && ts < chosen);
        if let Some((since, _)) = idled.next() {
            let far = !sim.machine.same_llc(wakeup.waker_cpu, wakeup.chosen);
            sides.entry((chosen - since).ilog2()).or_default()[usize::from(far)] += 1;
        }
    }
    let enough = sides
        .values()
        .filter(|sides| sides[0].min(sides[1]) >= LEAST);
    enough.map(|sides| sides[1]).sum()
}

#[test]
fn what_was_planted_lies_in_the_intervals() {
    let costs = Costs {
        transit: 1500,
        cold: 9000,
        transfer: 5000,
    };
    for (name, (held, told)) in NAMES.into_iter().zip(held(costs)) {
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

/// Where crossing costs nothing, the intervals hold nothing, and no number is told.
#[test]
fn nothing_is_measured_where_nothing_was_planted() {
    let costs = Costs {
        transit: 0,
        cold: 0,
        transfer: 0,
    };
    let mut held = [0; 3];
    for seed in 0..SEEDS {
        let (sim, _) = wander(seed, 240, costs);
        let found = Written::new(&sim.recording(), File::TraceDat).report(&RunOptions::default());
        for (held, name) in held.iter_mut().zip(NAMES) {
            let found = &found["cross_llc"][name];
            // Enough were compared: that it may be nothing is what they say.
            let why = found["unknown"].as_str().unwrap_or_default();
            assert!(
                interval(found).is_some() || why.ends_with("which may be nothing"),
                "seed {seed}: {name} {found}"
            );
            *held += u64::from(interval(found).is_none());
        }
    }
    for (name, held) in NAMES.into_iter().zip(held) {
        assert!(
            held * 100 >= SEEDS * 95,
            "{name}: held in {held} of {SEEDS} seeds"
        );
    }
}
