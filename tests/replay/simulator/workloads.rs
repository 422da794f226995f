//! Workloads of which it is known how they go, because a test makes them go so.

use super::events::What;
use super::kernels::Kernel;
use super::machine::{Cpu, Shape};
use super::random::Random;
use super::scheduler::Task;
use super::stage::Stage;

/// Two tasks that wake each other, a unit for each time that the turn comes back to the first.
pub struct PingPong {
    pub stage: Stage,
    pub tasks: [Task; 2],
    pub cpus: [Cpu; 2],
    /// Stamps of the first mark and of the last.
    pub span: (i64, i64),
}

impl PingPong {
    pub fn play(seed: u64, kernel: Kernel, shape: Shape, cpus: [Cpu; 2], units: u64) -> Self {
        let mut random = Random::new(seed);
        let mut stage = Stage::on(kernel, shape);
        let tasks = cpus.map(|cpu| stage.task(cpu));
        stage.start(tasks[0], cpus[0]);
        let start = stage
            .sim
            .emit(cpus[0], What::Marker("sim start".to_owned()));
        let mut play = Self {
            stage,
            tasks,
            cpus,
            span: (start, start),
        };
        for unit in 1..=units {
            play.pass_on(0, &mut random);
            play.pass_on(1, &mut random);
            let text = format!("sim unit {unit}");
            play.stage.sim.emit(cpus[0], What::Marker(text));
        }
        let end = play
            .stage
            .sim
            .emit(cpus[0], What::Marker("sim end".to_owned()));
        play.span.1 = end;
        play
    }

    /// One of them works for a while, wakes the other, and sleeps; then the other runs.
    fn pass_on(&mut self, from: usize, random: &mut Random) {
        let to = 1 - from;
        let (cpu, other) = (self.cpus[from], self.cpus[to]);
        self.stage.pass(random.within(2000, 9000));
        self.stage.wake(cpu, self.tasks[to], other);
        self.stage.pass(random.within(200, 900));
        self.stage.sleep(cpu);
        if cpu != other {
            self.stage.pass(random.within(300, 2500));
            self.stage.run(other, self.tasks[to]);
        }
    }
}

/// What crossing LLCs costs in a workload, in nanoseconds for each wakeup.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Waker to chosen CPU, until the wakee is switched in.
    pub transit: i64,
    /// Previous to chosen CPU, while it runs.
    pub cold: i64,
    /// Waker to chosen CPU but not previous to chosen, while it runs.
    pub transfer: i64,
}

/// A task wakes another, which goes from CPU to CPU and takes longer where that crosses LLCs. Returns the run, and how
/// often each of the costs was paid.
pub fn wander(seed: u64, rounds: usize, costs: Costs) -> (super::scheduler::Sim, [u64; 3]) {
    let mut random = Random::new(seed);
    let shape = Shape::new(1, 2, 4, 1, 1);
    let mut stage = Stage::on(super::kernels::V6_12, shape);
    let waker = stage.task(0);
    let wakee = stage.task(1);
    stage.start(waker, 0);
    let mut planted = [0; 3];
    for _ in 0..rounds {
        // On either LLC as often, and from either to either.
        let to = [1, 2, 5, 6][random.below(4)];
        let prev = stage.sim.tasks[wakee].cpu;
        let crosses = |a: Cpu, b: Cpu| (a < 4) != (b < 4);
        let (far, cold) = (crosses(0, to), crosses(prev, to));
        let mut latency = 1000 + (random.normal() * 150.0) as i64;
        let mut run = 30_000 + (random.normal() * 2500.0) as i64;
        if far {
            latency += costs.transit;
            planted[0] += 1;
        }
        if cold {
            run += costs.cold;
            planted[1] += 1;
        } else if far {
            run += costs.transfer;
            planted[2] += 1;
        }
        stage.wake_after(0, wakee, to, latency);
        stage.run(to, wakee);
        stage.pass(run - 1);
        stage.sleep(to);
        stage.pass(20_000 + (random.normal() * 2000.0) as i64);
    }
    (stage.end_unchecked(), planted)
}
