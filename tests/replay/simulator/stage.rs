//! A machine on which nothing happens but what a test says.

use super::check::{File, Written, compare_rows};
use super::events::{HARDIRQ, Left};
use super::kernels::Kernel;
use super::machine::{Cpu, Machine, Shape};
use super::plan::Plan;
use super::scheduler::{Kind, START, Sim, Task};
use super::timeline::Timeline;
use super::truth_waits::{WaitTruth, waits};
use super::truth_wakeups::{WakeupTruth, wakeups};
use crate::support::Rows;
use ttwu::pipeline::RunOptions;

pub struct Stage {
    pub sim: Sim,
}

/// A staged run that is over, its rows compared with the truth.
pub struct Played {
    pub sim: Sim,
    pub rows: Rows,
    pub waits: Vec<WaitTruth>,
    pub wakeups: Vec<WakeupTruth>,
}

impl Stage {
    /// All CPUs run nothing, and have for long.
    pub fn on(kernel: Kernel, shape: Shape) -> Self {
        let plan = Plan {
            tasks: 0,
            directed: true,
            preempts: Some(false),
            ..Plan::new(1, shape).on(kernel)
        };
        let mut sim = Sim::set_up(plan, Machine::new(shape));
        sim.show_all();
        sim.now = START + 100_000;
        Self { sim }
    }

    fn add(&mut self, prio: i32, kind: Kind, mask: Vec<Cpu>, home: Cpu) -> Task {
        let pid = self.sim.next_pid;
        self.sim.next_pid += 1;
        let task = self.sim.add_task(&format!("t{pid}"), prio, kind, mask, pid);
        self.sim.tasks[task].cpu = home;
        task
    }

    fn all(&self) -> Vec<Cpu> {
        (0..self.sim.shared_cpus()).collect()
    }

    /// A task that sleeps, last on `home`.
    pub fn task(&mut self, home: Cpu) -> Task {
        let all = self.all();
        self.add(120, Kind::Normal, all, home)
    }

    pub fn real_time(&mut self, home: Cpu) -> Task {
        let all = self.all();
        self.add(49, Kind::RealTime, all, home)
    }

    /// A task of which the recorder tells that it may run only there.
    pub fn confined(&mut self, mask: Vec<Cpu>) -> Task {
        let task = self.add(120, Kind::Normal, mask.clone(), mask[0]);
        self.sim.notes.tasks[task].told = Some(mask);
        task
    }

    /// The kernel thread of a CPU.
    pub fn thread_of(&self, cpu: Cpu) -> Task {
        let of = |t: &super::scheduler::TaskState| t.kind == Kind::Bound(cpu);
        self.sim
            .tasks
            .iter()
            .position(of)
            .expect("a CPU with a thread")
    }

    pub fn pass(&mut self, ns: i64) {
        self.sim.now += ns;
    }

    /// What is under way comes to its end.
    pub fn drain(&mut self) {
        while self.sim.go_on() {}
    }

    /// An interrupt of the CPU wakes the task there, and it runs.
    pub fn start(&mut self, task: Task, cpu: Cpu) {
        self.sim.cpus[cpu].context |= HARDIRQ;
        self.sim.wake(cpu, task, Some(cpu));
        self.drain();
        self.sim.cpus[cpu].context &= !HARDIRQ;
        self.pass(500);
        self.run(cpu, task);
        self.pass(20_000);
    }

    /// New tasks run on these CPUs.
    pub fn occupy(&mut self, cpus: &[Cpu]) -> Vec<Task> {
        cpus.iter()
            .map(|&cpu| {
                let task = self.task(cpu);
                self.start(task, cpu);
                task
            })
            .collect()
    }

    /// What runs on `cpu` wakes a task, which goes to `to`. Returns the wakeup's number.
    pub fn wake(&mut self, cpu: Cpu, wakee: Task, to: Cpu) -> usize {
        let wakeup = self.begin_wake(cpu, wakee, to);
        self.drain();
        wakeup
    }

    /// The same, not waited for.
    pub fn begin_wake(&mut self, cpu: Cpu, wakee: Task, to: Cpu) -> usize {
        self.sim.wake(cpu, wakee, Some(to));
        self.sim.notes.wakeups.len() - 1
    }

    /// The CPU takes a queued task; what runs is preempted.
    pub fn run(&mut self, cpu: Cpu, task: Task) {
        self.sim.switch(cpu, Left::Runnable, Some(task));
    }

    /// What runs sleeps.
    pub fn sleep(&mut self, cpu: Cpu) {
        let next = self.sim.cpus[cpu].queue.first().copied();
        self.sim.switch(cpu, Left::Sleeping, next);
    }

    /// The same, and it is switched in so long after the waking, if `run` follows.
    pub fn wake_after(&mut self, cpu: Cpu, wakee: Task, to: Cpu, latency: i64) {
        let start = self.sim.now + 1;
        self.wake(cpu, wakee, to);
        self.sim.now = self.sim.now.max(start + 6000 + latency - 1);
    }

    /// Every task sleeps in the end; nothing is compared yet.
    pub fn end_unchecked(mut self) -> Sim {
        self.settle();
        self.sim
    }

    /// Every task sleeps in the end; the program reads the recording, and finds what is true.
    pub fn end(mut self) -> Played {
        self.settle();
        let mut rows = Rows::default();
        for file in [File::TraceDat, File::PerfData] {
            let written = Written::new(&self.sim.recording(), file);
            rows = written.rows(&RunOptions::default()).rows;
            compare_rows(&self.sim, &rows).none("a staged run");
        }
        let timeline = Timeline::new(&self.sim);
        let (waits, wakeups) = (waits(&timeline), wakeups(&timeline));
        Played {
            waits,
            wakeups,
            rows,
            sim: self.sim,
        }
    }

    fn settle(&mut self) {
        self.drain();
        for cpu in 0..self.sim.shared_cpus() {
            loop {
                self.pass(1000);
                let state = &self.sim.cpus[cpu];
                let next = state.queue.first().or(state.withheld.first()).copied();
                match (state.current, next) {
                    (None, None) => break,
                    (Some(_), next) => self.sim.switch(cpu, Left::Sleeping, next),
                    (None, next) => self.sim.switch(cpu, Left::Runnable, next),
                }
            }
        }
        self.sim.finish();
    }
}

impl Played {
    /// The verdicts over the wait that a wakeup began: as seen, and as any.
    pub fn verdicts(&self, wakeup: usize) -> [&'static str; 2] {
        let wakeup = &self.wakeups[wakeup];
        let of = |wait: &&WaitTruth| wait.pid == wakeup.pid && Some(wait.start) == wakeup.enqueued;
        self.waits.iter().find(of).expect("a wait").verdicts
    }
}
