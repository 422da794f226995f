//! Runs of the simulator: a machine is set up, works for a while, and comes to rest.

use super::events::What;
use super::machine::{Cpu, Machine};
use super::notes::{Change, State, Why};
use super::plan::Plan;
use super::scheduler::{Kind, START, Sim};

/// The pid of a task that is alone.
pub const LONE_PID: i32 = 999;

impl Sim {
    /// A machine with stoppers, kernel threads and tasks, all of them asleep.
    pub fn set_up(plan: Plan, machine: Machine) -> Self {
        let mut sim = Self::new(plan, machine);
        let all: Vec<Cpu> = (0..sim.shared_cpus()).collect();
        for cpu in all.clone() {
            let comm = format!("migration/{}", sim.machine.ids[cpu]);
            let pid = 1000 + cpu as i32;
            let stopper = sim.add_task(&comm, 0, Kind::Stopper(cpu), vec![cpu], pid);
            sim.stoppers.push(stopper);
        }
        for cpu in all.iter().copied().filter(|cpu| cpu % 3 == 0) {
            let comm = format!("kworker/{}:1", sim.machine.ids[cpu]);
            let pid = 1200 + cpu as i32;
            sim.add_task(&comm, 120, Kind::Bound(cpu), vec![cpu], pid);
        }
        for number in 0..plan.tasks {
            sim.add_common_task(number, &all);
        }
        sim
    }

    fn add_common_task(&mut self, number: usize, all: &[Cpu]) {
        let pid = 2000 + number as i32;
        let real_time = self.plan.real_time && number % 9 == 8;
        let (prio, kind) = match real_time {
            true => (49, Kind::RealTime),
            false => (120, Kind::Normal),
        };
        let told = self.plan.told_masks && !number.is_multiple_of(3);
        let hidden = self.plan.hidden_masks && number.is_multiple_of(4);
        let mask = match told || hidden {
            true => self.some_mask(all),
            false => all.to_vec(),
        };
        let task = self.add_task(
            &format!("worker-{}", number % 7),
            prio,
            kind,
            mask.clone(),
            pid,
        );
        self.notes.tasks[task].recorder = self.plan.recorder && number % 5 == 1;
        self.tasks[task].tgid = 2000 + (number as i32 / 3) * 3;
        self.tasks[task].cpu = self.random.pick(&mask).unwrap_or(0);
        if told && !hidden {
            self.notes.tasks[task].told = Some(mask);
        }
    }

    fn some_mask(&mut self, all: &[Cpu]) -> Vec<Cpu> {
        let home = self.random.pick(all).unwrap_or(0);
        match self.random.below(3) {
            0 => vec![home],
            1 => all
                .iter()
                .copied()
                .filter(|&c| self.machine.same_llc(c, home))
                .collect(),
            _ => all
                .iter()
                .copied()
                .filter(|&c| c == home || self.random.chance(40))
                .collect(),
        }
    }

    /// A task that runs all the time on a CPU that nobody else uses.
    pub fn add_lone_task(&mut self, cpu: Cpu) {
        let task = self.add_task("lone", 120, Kind::Alone, vec![cpu], LONE_PID);
        self.notes.tasks[task].told = Some(vec![cpu]);
        self.tasks[task].cpu = cpu;
        self.cpus[cpu].current = Some(task);
        self.tasks[task].state = State::Running(cpu);
        self.notes.changes.push(Change {
            ts: START,
            task,
            state: State::Running(cpu),
            why: Why::Other,
        });
    }

    /// Every CPU shows what it runs.
    pub fn show_all(&mut self) {
        for cpu in 0..self.machine.cpus() {
            let current = self.cpus[cpu].current;
            let what = What::Runtime {
                who: self.who(cpu, current),
            };
            self.emit(cpu, what);
        }
    }

    /// From the first event to the last.
    pub fn run_plan(&mut self) {
        self.show_all();
        self.now = START + 1000;
        for cpu in 0..self.shared_cpus() {
            self.later(cpu);
        }
        while self.go_on() {
            // Those that are alone show themselves once, which is to change nothing.
            self.ending |= self.log.len() - self.machine.lone_llcs >= self.plan.events;
        }
        self.finish();
    }

    /// All is at rest: the last events.
    pub fn finish(&mut self) {
        self.now += 2000;
        for cpu in 0..self.shared_cpus() {
            let current = self.cpus[cpu].current;
            let what = What::Runtime {
                who: self.who(cpu, current),
            };
            self.emit(cpu, what);
        }
        self.notes.end = self.now;
    }
}

/// A whole run by chance.
pub fn simulate(plan: Plan) -> Sim {
    simulate_on(plan, Machine::new(plan.shape))
}

pub fn simulate_on(plan: Plan, machine: Machine) -> Sim {
    let lone: Vec<Cpu> = (machine.shape.cpus()..machine.cpus()).collect();
    let mut sim = Sim::set_up(plan, machine);
    lone.into_iter().for_each(|cpu| sim.add_lone_task(cpu));
    sim.run_plan();
    sim
}
