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
