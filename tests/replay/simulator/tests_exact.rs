//! What is exact is found exactly, whatever the machine, the kernel and the file.

use ttwu::pipeline::RunOptions;

use super::check::{File, Written, compare_rows};
use super::kernels::KERNELS;
use super::machine::Shape;
use super::plan::Plan;
use super::run::simulate;

const SHAPES: [Shape; 6] = [
    Shape::new(1, 1, 2, 1, 1),
    Shape::new(1, 2, 2, 2, 1),
    Shape::new(2, 4, 2, 1, 2),
    Shape::new(1, 1, 2, 2, 2),
    Shape::new(2, 8, 1, 2, 1),
    Shape::new(2, 8, 4, 2, 2),
];

/// Every seed is another machine, kernel and mix.
fn plan(seed: u64) -> Plan {
    let shape = SHAPES[seed as usize % SHAPES.len()];
    let kernel = KERNELS[(seed as usize / SHAPES.len()) % KERNELS.len()];
    Plan {
        told_masks: seed % 3 == 1,
        hidden_masks: seed % 5 == 2,
        repinning: seed % 4 == 3,
        ..Plan::new(seed, shape).on(kernel)
    }
}

#[test]
fn rows_are_the_simulators() {
    let mut bad = Vec::new();
    for seed in 0..std::env::var("SEEDS").map_or(60, |s| s.parse().unwrap()) {
        let plan = plan(seed);
        let (shape, kernel) = (plan.shape, plan.kernel);
        let sim = simulate(plan);
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let written = Written::new(&sim.recording(), file);
        let found = written.rows(&RunOptions::default());
        let differ = compare_rows(&sim, &found.rows);
        if !differ.0.is_empty() {
            println!(
                "seed {seed} {shape:?} {} {file:?}: {}",
                kernel.release,
                differ.0.len()
            );
            for line in differ.0.iter().take(4) {
                println!("    {line}");
            }
            bad.push(seed);
        }
    }
    assert!(bad.is_empty(), "{} {bad:?}", bad.len());
}

#[test]
#[ignore]
fn look() {
    use super::timeline::{Read, Timeline};
    let seed: u64 = std::env::var("SEED").unwrap().parse().unwrap();
    let pid: i32 = std::env::var("PID_").unwrap().parse().unwrap();
    let (a, b): (i64, i64) = (
        std::env::var("A").unwrap().parse().unwrap(),
        std::env::var("B").unwrap().parse().unwrap(),
    );
    let sim = simulate(plan(seed));
    let timeline = Timeline::new(&sim);
    let task = sim.notes.tasks.iter().position(|t| t.pid == pid).unwrap();
    println!(
        "breaks {:?}",
        sim.notes
            .breaks
            .iter()
            .filter(|b| b.1 == task)
            .collect::<Vec<_>>()
    );
    println!("told {:?}", sim.notes.tasks[task]);
    for span in &timeline.spans[task] {
        println!("  {:?}", span);
    }
    println!(
        "masks {:?} {:?}",
        timeline.mask(task, a, Read::Seen),
        timeline.mask(task, b - 1, Read::Seen)
    );
    println!(
        "idle {:?}",
        timeline
            .idle
            .iter()
            .map(|i| i.iter().filter(|i| i.0 < b && i.1 > a).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    );
    let found = Written::new(&sim.recording(), File::PerfData).rows(&RunOptions::default());
    println!("sighted {:?}", found.prepared.survey.sightings.get(&pid));
    println!("breaks {:?}", found.prepared.survey.breaks.get(&pid));
    for event in sim
        .log
        .iter()
        .filter(|e| e.ts >= a - 3000 && e.ts <= b + 1000)
    {
        println!("{:?}", event);
    }
}
