//! Wakee flips: the kernel's counters lie in what is followed of them, and decisions that are made are the kernel's.

use ttwu::pipeline::RunOptions;
use ttwu::replay::words::{Decision, FlipPolicy};

use super::check::{File, Written};
use super::flips::{wide, wide_before_4_3};
use super::kernels::{V5_10, V6_12};
use super::machine::Shape;
use super::notes::Wakeup;
use super::random::Random;
use super::run::simulate;
use super::scheduler::Sim;
use super::stage::Stage;
use super::tests_exact::plan;

/// How many were held against the kernel's own.
#[derive(Default, Debug)]
struct Held {
    counted: usize,
    narrow: usize,
    /// Decisions by their words, and how often none was asked for.
    kernel: [usize; 5],
    policies: [[usize; 5]; 6],
}

impl Held {
    fn decided(&self) -> usize {
        self.kernel[Decision::Wide as usize] + self.kernel[Decision::Affine as usize]
    }
}

fn hold(sim: &Sim, held: &mut Held, what: &str) {
    let rows = Written::new(&sim.recording(), File::TraceDat)
        .rows(&RunOptions::default())
        .rows;
    let truth = |ts: i64| -> Option<&Wakeup> {
        sim.notes
            .wakeups
            .iter()
            .find(|wakeup| wakeup.waking == Some(ts))
    };
    for row in &rows.flips {
        let wakeup = truth(row.waking_ns).expect("a waking");
        let Some((waker, wakee)) = wakeup.flips else {
            assert!(!row.sure, "{what}: {row:?} was not counted: {wakeup:?}");
            continue;
        };
        let size = sim.machine.shape.per_llc() as u32;
        assert_eq!(row.factor, Some(size), "{what}");
        for (span, flips) in [(row.waker_flips, waker), (row.wakee_flips, wakee)] {
            let inside = (span.lo..=span.hi).contains(&flips);
            assert!(inside, "{what}: {flips} is not in {span:?} of {row:?}");
        }
        held.counted += 1;
        held.narrow += usize::from(row.waker_flips.hi - row.waker_flips.lo <= 1);
        let truth = wide(waker, wakee, size);
        let hold = |decision: Option<Decision>, truth: bool| {
            let place = decision.map_or(Decision::ALL.len(), |word| word as usize);
            match decision {
                Some(Decision::Wide) => assert!(truth, "{what}: {row:?} {wakeup:?}"),
                Some(Decision::Affine) => assert!(!truth, "{what}: {row:?} {wakeup:?}"),
                _ => {}
            }
            place
        };
        held.kernel[hold(row.kernel, truth)] += 1;
        hold(row.doubled, wide(waker, wakee, 2 * size));
        if size > 1 {
            hold(row.halved, wide(waker, wakee, size / 2));
        }
        // Each decay, by the rule of old and by the new one.
        let policies = wakeup.flips_by.iter().flat_map(|&(waker, wakee)| {
            [
                wide_before_4_3(waker, wakee, size),
                wide(waker, wakee, size),
            ]
        });
        for ((decision, truth), held) in row.decisions.iter().zip(policies).zip(&mut held.policies)
        {
            held[hold(*decision, truth)] += 1;
        }
    }
    // Whatever was charged for certain is there.
    for wakeup in sim
        .notes
        .wakeups
        .iter()
        .filter(|wakeup| wakeup.flips.is_some())
    {
        let found = rows
            .flips
            .iter()
            .any(|row| Some(row.waking_ns) == wakeup.waking);
        assert!(found, "{what}: {wakeup:?} is missing");
    }
}

#[test]
fn short_runs_hold_the_kernels_counters() {
    let mut held = Held::default();
    for seed in (0..400).filter(|&seed| plan(seed).kernel.has_waking()) {
        for probes in [false, true] {
            let plan = super::plan::Plan {
                probes: probes && plan(seed).kernel.version >= (6, 1),
                ..plan(seed)
            };
            hold(
                &simulate(plan),
                &mut held,
                &format!("seed {seed}, probes {probes}"),
            );
        }
    }
    assert!(held.counted > 10_000, "{held:?}");
}

/// One task wakes several over many seconds, with pauses of all lengths; the ticks' phase differs from seed to seed.
fn fanout(seed: u64, probes: bool) -> Sim {
    let mut random = Random::new(seed);
    let kernel = if seed.is_multiple_of(2) { V6_12 } else { V5_10 };
    let mut stage = Stage::on(kernel, Shape::new(1, 2, 2, 1, 1));
    stage.sim.plan.probes = probes;
    stage.sim.tick_phase = random.within(0, 4_000_000);
    let waker = stage.task(0);
    let wakees: Vec<usize> = (0..5).map(|_| stage.task(1)).collect();
    stage.start(waker, 0);
    for _ in 0..260 {
        let wakee = wakees[random.below(wakees.len())];
        let to = 1 + random.below(3);
        stage.wake(0, wakee, to);
        stage.pass(2000);
        stage.run(to, wakee);
        stage.pass(9000);
        // Now and then it wakes the waker's others in turn.
        if random.chance(70) {
            let other = wakees[random.below(wakees.len())];
            if other != wakee {
                stage.wake(to, other, 1 + random.below(3));
                let at = stage.sim.tasks[other].cpu;
                stage.sleep(to);
                stage.pass(1000);
                if stage.sim.cpus[at].current != Some(other) {
                    stage.run(at, other);
                }
                stage.pass(4000);
                stage.sleep(at);
            } else {
                stage.sleep(to);
            }
        } else {
            stage.sleep(to);
        }
        let pause = match random.below(12) {
            0 => random.within(900_000_000, 1_100_000_000),
            1 => random.within(1_100_000_000, 2_500_000_000),
            _ => random.within(1_000_000, 60_000_000),
        };
        stage.pass(pause);
    }
    stage.end().sim
}

#[test]
fn long_runs_hold_the_kernels_counters_through_every_decay() {
    for probes in [false, true] {
        let mut held = Held::default();
        for seed in 0..60 {
            hold(
                &fanout(seed, probes),
                &mut held,
                &format!("seed {seed}, probes {probes}"),
            );
        }
        assert!(held.counted > 15_000, "{held:?}");
        // Without a value that was probed, only decays narrow what is not known at the start.
        if probes {
            assert!(held.narrow * 4 > held.counted * 3, "{held:?}");
            assert!(held.decided() * 2 > held.counted, "{held:?}");
            assert!(held.kernel[Decision::Wide as usize] > 300, "{held:?}");
            // By both rules over the decays that keep most; loops of halvings leave too few for any wakeup to be wide.
            for policy in [
                FlipPolicy::ZeroOld,
                FlipPolicy::ZeroNew,
                FlipPolicy::HalveOld,
                FlipPolicy::HalveNew,
            ] {
                let wide = held.policies[policy as usize][Decision::Wide as usize];
                assert!(wide > 300, "{policy:?}: {held:?}");
            }
            let affine = |policy: &[usize; 5]| policy[Decision::Affine as usize] > 10_000;
            assert!(held.policies.iter().all(affine), "{held:?}");
        }
    }
}
