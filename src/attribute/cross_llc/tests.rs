//! Planted costs are found again, and none where none was planted: the generators know what they planted, and share no
//! code with the estimates.

use std::num::NonZeroU64;

use super::super::Selection;
use super::super::answer::{CrossLlc, CrossLlcMeasure, Estimate, Known};
use super::super::testing::{Rig, fill, task, wakeup};
use super::Costs;
use crate::replay::rows::{TaskId, WakeupRow};

/// xorshift64*, with distributions made by the textbook.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(
            seed.wrapping_mul(2_654_435_769)
                .wrapping_add(88_172_645_463_325_252),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        // The sum of twelve uniform numbers is close enough.
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Lognormal around 20 µs: some are ten times as long.
    fn heavy(&mut self) -> f64 {
        20_000.0 * (0.8 * self.normal()).exp()
    }
}

/// CPUs 0 and 1 share an LLC, 2 and 3 another: from 2 to 1 a wakee changes LLCs, from 0 to 1 it does not.
fn moved(wakee: u32, crosses: bool, run_ns: f64, at: i64) -> WakeupRow {
    WakeupRow {
        waking_ns: Some(at),
        wakee: TaskId(wakee),
        prev_cpu: Some(if crosses { 2 } else { 0 }),
        chosen_cpu: Some(1),
        wakee_run_ns: Some(run_ns as i64),
        ..wakeup()
    }
}

fn measure(rows: &[WakeupRow]) -> CrossLlc {
    let tasks: Vec<_> = (0..12).map(|id| task(id, id as i32 + 10, "t")).collect();
    let rig = Rig::new(|sink| fill(sink, rows, &[], &tasks));
    let scope = rig.scope(&Selection::default()).unwrap();
    match Costs::measure(&scope).unwrap().answer() {
        Known::Value(answer) => answer,
        Known::Unknown { unknown } => panic!("{unknown}"),
    }
}

fn holds(estimate: &Estimate, truth: f64) -> bool {
    estimate.ci95[0] <= truth && truth <= estimate.ci95[1]
}

const SEEDS: u64 = 200;

/// How runs are generated.
#[derive(Debug, Clone, Copy)]
struct Runs {
    wakeups: usize,
    tasks: u32,
    share_crossing: f64,
    /// How much of a run's deviation its next one has too.
    kept: f64,
    extra_ns: f64,
}

impl Runs {
    /// The rows, and what was planted in them.
    fn rows(&self, seed: u64) -> (Vec<WakeupRow>, f64) {
        let mut dice = Dice::new(seed);
        let mut planted = 0.0;
        let mut deviation = 0.0;
        let rows = (0..self.wakeups)
            .map(|n| {
                let wakee = 1 + (n as u32 % self.tasks);
                let crosses = dice.uniform() < self.share_crossing;
                let fresh = (1.0 - self.kept * self.kept).sqrt() * dice.normal();
                deviation = self.kept * deviation + fresh;
                let mut run = 20_000.0 * (0.8 * deviation).exp() * f64::from(wakee);
                if crosses {
                    planted += self.extra_ns;
                    run += self.extra_ns;
                }
                moved(wakee, crosses, run, n as i64 * 1000 + 100)
            })
            .collect();
        (rows, planted)
    }

    /// How many of the seeds' intervals hold what was planted, and how many show no cost.
    fn outcomes(&self) -> (u64, u64) {
        let (mut inside, mut none) = (0, 0);
        for seed in 0..SEEDS {
            let (rows, planted) = self.rows(seed);
            match measure(&rows).cold_cache {
                Known::Value(found) => inside += u64::from(holds(&found, planted)),
                Known::Unknown { unknown } => {
                    assert!(unknown.starts_with("not measurable here"), "{unknown}");
                    none += 1;
                }
            }
        }
        (inside, none)
    }
}

const MANY: Runs = Runs {
    wakeups: 2_000,
    tasks: 1,
    share_crossing: 0.3,
    kept: 0.0,
    extra_ns: 40_000.0,
};

/// Heavy tails, few samples, runs that resemble the ones before, several tasks.
const SHAPES: [Runs; 4] = [
    MANY,
    Runs {
        wakeups: 160,
        extra_ns: 80_000.0,
        ..MANY
    },
    Runs {
        kept: 0.5,
        wakeups: 500,
        extra_ns: 80_000.0,
        ..MANY
    },
    Runs {
        tasks: 5,
        wakeups: 3_000,
        extra_ns: 150_000.0,
        ..MANY
    },
];

#[test]
fn planted_run_time_lies_inside_the_interval() {
    for shape in SHAPES {
        let (inside, none) = shape.outcomes();
        assert_eq!(none, 0, "{shape:?}");
        println!("{inside} of {SEEDS}: {shape:?}");
        assert!(inside * 100 >= SEEDS * 95, "{inside} of {SEEDS}: {shape:?}");
    }
}

#[test]
fn where_nothing_was_planted_nothing_is_found() {
    for shape in SHAPES {
        let nothing = Runs {
            extra_ns: 0.0,
            ..shape
        };
        let (_, none) = nothing.outcomes();
        println!("{none} of {SEEDS}: {shape:?}");
        assert!(none * 100 >= SEEDS * 93, "{none} of {SEEDS}: {shape:?}");
    }
}

/// Wakeups across go to CPUs that had been idle for long, from which waking takes longer anyway: a plain difference
/// would show three times the planted cost.
#[test]
fn transit_is_compared_where_cpus_were_idle_for_as_long() {
    const EXTRA: f64 = 3_000.0;
    let rows = |seed: u64, extra: f64| {
        let mut dice = Dice::new(seed);
        let mut planted = 0.0;
        let mut crossing = 0;
        let rows: Vec<WakeupRow> = (0..1500)
            .map(|n| {
                let crosses = dice.uniform() < 0.4;
                let long = dice.uniform() < if crosses { 0.8 } else { 0.2 };
                let idle = if long { 900_000.0 } else { 5_000.0 } * (1.0 + 0.1 * dice.uniform());
                let slow = if long { 10_000.0 } else { 0.0 };
                let mut latency = 4_000.0 + slow + 0.1 * dice.heavy();
                if crosses {
                    planted += extra;
                    crossing += 1;
                    latency += extra;
                }
                WakeupRow {
                    waking_ns: Some(n * 1000),
                    waker_cpu: Some(0),
                    chosen_cpu: Some(if crosses { 2 } else { 1 }),
                    prev_cpu: Some(if crosses { 2 } else { 1 }),
                    cross_llc: Some(crosses),
                    latency_ns: Some(latency as i64),
                    idle_before_ns: Some(idle as i64),
                    sibling_busy: Some(crosses),
                    ..wakeup()
                }
            })
            .collect();
        (rows, planted, crossing)
    };
    let (mut inside, mut none) = (0, 0);
    for seed in 0..SEEDS {
        let (with, planted, crossing) = rows(seed, EXTRA);
        let answer = measure(&with);
        let found = *answer.transit.value().expect("it is large");
        inside += u64::from(holds(&found, planted));
        assert!(found.value < 1.2 * planted, "{} {planted}", found.value);
        let basis = &answer.basis.transit;
        assert_eq!(
            (basis.compared_crossing, basis.crossing),
            (crossing, crossing)
        );
        assert_eq!((basis.coverage, basis.compared_groups), (1.0, 1));
        let beside = basis.confounders.busy_sibling.value().unwrap();
        assert_eq!((beside.crossing, beside.staying), (1.0, 0.0));
        let (without, ..) = rows(seed, 0.0);
        none += u64::from(measure(&without).transit.value().is_none());
    }
    println!("inside {inside}, none {none} of {SEEDS}");
    assert!(inside * 100 >= SEEDS * 95, "{inside} of {SEEDS}");
    assert!(none * 100 >= SEEDS * 93, "{none} of {SEEDS}");
}

/// A task stays where it is, and its waker changes LLCs: cold cache shows nothing, transfer does.
#[test]
fn transfer_is_kept_apart_from_cold_cache() {
    let mut dice = Dice::new(5);
    let rows: Vec<WakeupRow> = (0..400)
        .map(|n| {
            let crosses = n % 4 == 0;
            let extra = if crosses { 90_000.0 } else { 0.0 };
            WakeupRow {
                waker_cpu: Some(if crosses { 2 } else { 0 }),
                cross_llc: Some(crosses),
                ..moved(1, false, dice.heavy() + extra, n)
            }
        })
        .collect();
    let answer = measure(&rows);
    let found = answer.transfer.value().unwrap();
    assert!(holds(found, 100.0 * 90_000.0), "{found:?}");
    assert_eq!((found.n, answer.basis.transfer.crossing), (100, 100));
    let per_wakeup = answer.basis.transfer.per_wakeup_ns.value().unwrap();
    assert!((per_wakeup.value * 100.0 / found.value - 1.0).abs() < 1e-9);
    let Known::Unknown { unknown } = &answer.cold_cache else {
        panic!("nothing changed LLCs");
    };
    assert_eq!(
        unknown,
        "not measurable here: no wakeup of the trace crosses"
    );
}

#[test]
fn what_always_crosses_or_is_too_little_is_said() {
    let reason = |crossing: usize, staying: usize| {
        let sides = (0..crossing)
            .map(|_| true)
            .chain((0..staying).map(|_| false));
        let rows: Vec<WakeupRow> = sides
            .zip(0..)
            .map(|(crosses, n)| moved(1, crosses, 1_000.0 + f64::from(n % 3), i64::from(n)))
            .collect();
        match measure(&rows).cold_cache {
            Known::Unknown { unknown } => unknown,
            Known::Value(_) => "measured".to_owned(),
        }
    };
    let alone = reason(40, 0);
    assert!(
        alone.contains("only a comparison of two runs can show"),
        "{alone}"
    );
    let few = reason(29, 40);
    assert!(
        few.contains("29 wakeups that cross and 40 that do not"),
        "{few}"
    );
    let few = reason(40, 29);
    assert!(
        few.contains("40 wakeups that cross and 29 that do not"),
        "{few}"
    );
    let same = reason(30, 30);
    assert!(same.contains("may be nothing"), "{same}");
}

/// With counters it does not matter that the processor ran at half the speed after each move.
#[test]
fn cycles_per_instruction_replace_run_time() {
    let (mut inside, mut none) = (0, 0);
    for seed in 0..SEEDS {
        for extra in [0.4, 0.0] {
            let mut dice = Dice::new(seed);
            let mut extra_cycles = 0.0;
            let (mut ran_ns, mut cycled) = (0.0, 0.0);
            let rows: Vec<WakeupRow> = (0..300)
                .map(|n| {
                    let crosses = dice.uniform() < 0.3;
                    let instructions = dice.heavy();
                    let base = 1.2 + 0.3 * dice.normal().abs();
                    let cpi = base + if crosses { extra } else { 0.0 };
                    let cycles = cpi * instructions;
                    let run_ns = cycles * if crosses { 1.0 } else { 0.5 };
                    if crosses {
                        extra_cycles += extra * instructions;
                        ran_ns += run_ns;
                        cycled += cycles;
                    }
                    WakeupRow {
                        wakee_cycles: NonZeroU64::new(cycles as u64),
                        wakee_instructions: NonZeroU64::new(instructions as u64),
                        ..moved(1, crosses, run_ns, n)
                    }
                })
                .collect();
            let answer = measure(&rows);
            let measure = answer.basis.cold_cache.measure;
            assert_eq!(measure, CrossLlcMeasure::CyclesPerInstruction);
            assert_eq!(answer.basis.transit.measure, CrossLlcMeasure::Time);
            match answer.cold_cache.value() {
                Some(found) if extra > 0.0 => {
                    let truth = extra_cycles * ran_ns / cycled;
                    inside += u64::from(holds(found, truth));
                }
                None if extra == 0.0 => none += 1,
                _ => {}
            }
        }
    }
    println!("inside {inside}, none {none} of {SEEDS}");
    assert!(inside * 100 >= SEEDS * 95, "{inside} of {SEEDS}");
    assert!(none * 100 >= SEEDS * 93, "{none} of {SEEDS}");
}

/// So many wakeups that only some are kept: the total is still of all, and the answer the same on any machine.
#[test]
fn of_very_many_wakeups_some_are_drawn() {
    let many = Runs {
        wakeups: 120_000,
        ..MANY
    };
    let (rows, planted) = many.rows(7);
    let answer = measure(&rows);
    let found = answer.cold_cache.value().unwrap();
    assert!(holds(found, planted), "{found:?} {planted}");
    let crossing = rows.iter().filter(|row| row.prev_cpu == Some(2)).count();
    assert_eq!(found.n, crossing as u64);
    assert!(answer.basis.cold_cache.samples < 40_000);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let alone = one.unwrap().install(|| measure(&rows));
    assert_eq!(alone.cold_cache, answer.cold_cache);
}

/// Pairs and tasks tell of themselves what the total sums up.
#[test]
fn single_tasks_and_pairs_are_told_of() {
    let (rows, _) = MANY.rows(3);
    let tasks: Vec<_> = (0..3).map(|id| task(id, id as i32 + 10, "t")).collect();
    let rig = Rig::new(|sink| fill(sink, &rows, &[], &tasks));
    let answer = rig.answer(&Selection::default());
    let total = answer
        .cross_llc
        .value()
        .unwrap()
        .cold_cache
        .value()
        .unwrap();
    let of = |id: usize| answer.tasks.iter().find(|task| task.pid == id as i32 + 10);
    let own = &of(1).unwrap().cross_llc.value().unwrap().cold_cache;
    assert_eq!(own.total_ns.value(), Some(total));
    assert_eq!(own.crossing + own.staying, 2_000);
    let other = &of(2).unwrap().cross_llc.value().unwrap().cold_cache;
    assert_eq!((other.crossing, other.total_ns.value()), (0, None));
    let pair = answer.pairs[0].cross_llc.value().unwrap();
    assert_eq!((pair.transit.crossing, pair.transit.staying), (0, 0));
    // Without a topology nothing is said.
    let rig = Rig::new(|sink| fill(sink, &rows, &[], &tasks)).without_topology();
    let answer = rig.answer(&Selection::default());
    assert!(answer.cross_llc.value().is_none() && answer.tasks[0].cross_llc.value().is_none());
}
