//! What the tasks and interrupts of the simulated machine do, CPU by CPU: one step after the other, by chance.

use std::collections::VecDeque;

use super::events::{HARDIRQ, Left, NMI, SOFTIRQ, What};
use super::flips::TICK_NS;
use super::machine::Cpu;
use super::notes::{Cause, State};
use super::scheduler::{Kind, Sim, Task};

/// The soft interrupts that occur: of the network, and of the balancer.
pub const NET: u32 = 3;
pub const SCHED: u32 = 7;

/// A part of what a CPU does without being interrupted.
#[derive(Debug, Clone)]
pub enum Phase {
    IrqEntry,
    IrqExit,
    NmiEntry,
    NmiExit,
    /// Of a soft interrupt, by whatever runs.
    Raise(u32),
    /// The timer's interrupt raises the balancer.
    TickRaises(u32),
    /// Whether it was raised by a task.
    SoftirqEntry(u32, bool),
    SoftirqExit(u32),
    /// Some task that sleeps.
    Wake,
    WakeItself,
    WakeInPlace,
    WakeLeaving,
    Fork,
    Repin,
    /// Pulls a task here, or to another CPU.
    Balance,
    ActiveBalance,
    MoveForExec,
    MoveForNuma,
    Shootdown,
    Call,
    InterruptItself,
}

impl Sim {
    pub fn ticks(&self) -> i64 {
        (self.now + self.tick_phase) / TICK_NS
    }

    /// Whether the soft interrupt being served was raised by a task.
    pub fn notes_inline(&self, cpu: Cpu) -> bool {
        self.serving_inline[cpu]
    }

    /// The CPU takes its next step some time later.
    pub fn later(&mut self, cpu: Cpu) {
        if self.plan.directed {
            return;
        }
        let state = &self.cpus[cpu];
        let waits = !state.queue.is_empty() || !state.withheld.is_empty();
        let most = match (state.current, waits) {
            (Some(_), _) => 5500,
            (None, true) => 4500,
            (None, false) => 20_000,
        };
        let delay = self.random.within(250, most);
        self.after(delay, move |sim| sim.step(cpu));
    }

    /// Does these phases, and goes on then.
    pub fn begin(&mut self, cpu: Cpu, phases: impl IntoIterator<Item = Phase>) {
        self.cpus[cpu].in_kernel = true;
        self.cpus[cpu].phases = VecDeque::from_iter(phases);
        self.proceed(cpu);
    }

    /// The next phase, or the end of them.
    pub fn proceed(&mut self, cpu: Cpu) {
        match self.cpus[cpu].phases.pop_front() {
            None => {
                self.cpus[cpu].in_kernel = false;
                self.later(cpu);
            }
            Some(phase) => {
                if self.phase(cpu, phase) {
                    let delay = self.random.within(20, 150);
                    self.after(delay, move |sim| sim.proceed(cpu));
                }
            }
        }
    }

    /// Does a phase; false if it goes on by itself.
    fn phase(&mut self, cpu: Cpu, phase: Phase) -> bool {
        match phase {
            Phase::IrqEntry => {
                self.cpus[cpu].context |= HARDIRQ;
                self.emit(cpu, What::IrqEntry);
            }
            Phase::IrqExit => {
                self.emit(cpu, What::IrqExit);
                self.cpus[cpu].context &= !HARDIRQ;
            }
            Phase::NmiEntry => self.cpus[cpu].context |= NMI,
            Phase::NmiExit => self.cpus[cpu].context &= !NMI,
            Phase::Raise(vec) => {
                self.emit(cpu, What::Raise(vec));
            }
            Phase::TickRaises(vec) => {
                self.cpus[cpu].context |= HARDIRQ;
                self.emit(cpu, What::Raise(vec));
                self.cpus[cpu].context &= !HARDIRQ;
            }
            Phase::SoftirqEntry(vec, inline) => {
                self.cpus[cpu].context |= SOFTIRQ;
                self.serving_inline[cpu] = inline;
                self.emit(cpu, What::SoftirqEntry(vec));
            }
            Phase::SoftirqExit(vec) => {
                self.emit(cpu, What::SoftirqExit(vec));
                self.cpus[cpu].context &= !SOFTIRQ;
            }
            Phase::Wake => return self.wake_some(cpu),
            Phase::WakeItself => {
                if let Some(task) = self.cpus[cpu].current {
                    self.wake_itself(cpu, task);
                }
            }
            Phase::WakeInPlace => self.wake_some_in_place(cpu),
            Phase::WakeLeaving => return self.wake_some_leaving(cpu),
            Phase::Fork => return self.fork(cpu),
            Phase::Repin => return self.repin(cpu),
            Phase::Balance => self.balance(cpu),
            Phase::ActiveBalance => return self.active_balance(cpu),
            Phase::MoveForExec => return self.move_itself(cpu, Cause::Exec),
            Phase::MoveForNuma => return self.move_itself(cpu, Cause::Numa),
            Phase::Shootdown => return self.shoot_down(cpu),
            Phase::Call => self.call(cpu),
            Phase::InterruptItself => self.interrupt_itself(cpu),
        }
        true
    }

    /// Tasks for which something holds, that are not special.
    pub fn tasks_that(&self, holds: impl Fn(Task) -> bool) -> Vec<Task> {
        let common =
            |task: &Task| !matches!(self.tasks[*task].kind, Kind::Stopper(_) | Kind::Alone);
        (0..self.tasks.len())
            .filter(common)
            .filter(|&task| holds(task))
            .collect()
    }

    fn wake_some(&mut self, cpu: Cpu) -> bool {
        let asleep = self.tasks_that(|task| self.tasks[task].state == State::Blocked);
        let Some(task) = self.random.pick(&asleep) else {
            return true;
        };
        self.wake(cpu, task, None);
        false
    }

    fn wake_some_in_place(&mut self, cpu: Cpu) {
        let there = self.tasks_that(|task| {
            let state = &self.tasks[task];
            match state.state {
                State::Queued(_) => state.preempted,
                State::Running(at) => at != cpu && !state.leaving && !self.cpus[at].in_kernel,
                _ => false,
            }
        });
        if let Some(task) = self.random.pick(&there) {
            self.wake_in_place(cpu, task);
        }
    }

    fn wake_some_leaving(&mut self, cpu: Cpu) -> bool {
        let leaving = self.tasks_that(|task| match self.tasks[task].state {
            State::Running(at) => {
                at != cpu
                    && self.fair(task)
                    && !self.cpus[at].in_kernel
                    && self.tasks[task].mask.contains(&at)
                    && !self.tasks[task].leaving
                    // It does not leave before the stopper that it has woken is done.
                    && self.cpus[at].work.is_none_or(|work| work.task != task)
            }
            _ => false,
        });
        let Some(task) = self.random.pick(&leaving) else {
            return true;
        };
        self.wake_leaving(cpu, task);
        false
    }

    fn fork(&mut self, cpu: Cpu) -> bool {
        let Some(parent) = self.cpus[cpu].current else {
            return true;
        };
        let pid = self.next_pid;
        self.next_pid += 1;
        let comm = self.tasks[parent].who.comm.clone();
        let (prio, mask) = (self.tasks[parent].who.prio, self.tasks[parent].mask.clone());
        let child = self.add_task(&comm, prio, self.tasks[parent].kind, mask, pid);
        self.tasks[child].flips = self.tasks[parent].flips;
        self.tasks[child].state = State::Unborn;
        let what = What::Fork {
            parent: self.tasks[parent].who.clone(),
            child: self.tasks[child].who.clone(),
        };
        self.emit(cpu, what);
        self.notes.tasks[child].told = self.notes.told_now(parent);
        self.notes.tasks[child].born = Some(self.now);
        self.notes.breaks.push((self.now, child));
        let delay = self.random.within(100, 600);
        self.after(delay, move |sim| sim.give_birth(cpu, parent, child));
        false
    }

    /// A CPU's next step.
    pub fn step(&mut self, cpu: Cpu) {
        match self.cpus[cpu].current {
            Some(task) => self.run(cpu, task),
            None => self.idle_step(cpu),
        }
    }

    /// Who is to run next: the stopper, or any.
    pub fn next(&mut self, cpu: Cpu) -> Option<Task> {
        let queue = self.cpus[cpu].queue.clone();
        let stopper = queue
            .iter()
            .copied()
            .find(|&t| matches!(self.tasks[t].kind, Kind::Stopper(_)));
        if stopper.is_some() {
            return stopper;
        }
        let withheld = self.cpus[cpu].withheld.clone();
        let from_withheld = queue.is_empty() || self.random.chance(20);
        if from_withheld
            && let Some(task) = self.random.pick(&withheld)
            && self.random.chance(60)
        {
            return Some(task);
        }
        self.random.pick(&queue)
    }

    fn run(&mut self, cpu: Cpu, task: Task) {
        let stopper = matches!(self.tasks[task].kind, Kind::Stopper(_));
        if stopper && self.cpus[cpu].work.is_some() {
            self.stop(cpu);
            return self.later(cpu);
        }
        if self.tasks[task].leaving || stopper {
            return self.sleep(cpu);
        }
        let queue = self.cpus[cpu].queue.clone();
        let kicked = queue
            .iter()
            .any(|&t| matches!(self.tasks[t].kind, Kind::Stopper(_)));
        if kicked || self.cpus[cpu].resched && !queue.is_empty() && self.random.chance(80) {
            return self.preempt(cpu);
        }
        if !self.tasks[task].mask.contains(&cpu) && self.cpus[cpu].work.is_some() {
            // The stopper comes before it does anything else.
            return self.later(cpu);
        }
        // It was moved, and goes on with what it was moved for.
        if std::mem::take(&mut self.tasks[task].execs) {
            let pid = self.tasks[task].who.pid;
            self.emit(cpu, What::Exec { pid, old_pid: pid });
            return self.later(cpu);
        }
        match self.ending {
            true => self.sleep(cpu),
            false => self.act(cpu, task),
        }
    }

    pub fn sleep(&mut self, cpu: Cpu) {
        let left = match self.random.chance(80) {
            true => Left::Sleeping,
            false => Left::Uninterruptible,
        };
        let next = self.next(cpu);
        self.switch(cpu, left, next);
        self.later(cpu);
    }

    fn preempt(&mut self, cpu: Cpu) {
        let next = self.next(cpu);
        if next.is_some() {
            let left = match self.random.chance(50) {
                true => Left::Runnable,
                false => Left::Preempted,
            };
            self.switch(cpu, left, next);
        }
        self.later(cpu);
    }

    fn idle_step(&mut self, cpu: Cpu) {
        if self.cpus[cpu].flagged {
            self.leave_idle_loop(cpu);
        }
        let next = self.next(cpu);
        if let Some(next) = next.filter(|_| self.ending || self.random.chance(85)) {
            self.switch(cpu, Left::Runnable, Some(next));
            return self.later(cpu);
        }
        let waits = !self.cpus[cpu].queue.is_empty() || !self.cpus[cpu].withheld.is_empty();
        if self.ending && !waits {
            self.cpus[cpu].parked = true;
            return;
        }
        let on = |wanted: bool, weight: usize| if wanted && !self.ending { weight } else { 0 };
        let weights = [
            40,
            on(true, 22),
            on(self.plan.softirqs, 12),
            on(self.plan.balancing, 12),
        ];
        match self.random.weighted(&weights) {
            1 => self.begin(cpu, [Phase::IrqEntry, Phase::Wake, Phase::IrqExit]),
            2 => self.begin(cpu, interrupt_with_softirq()),
            3 => self.begin(cpu, balancing(Phase::Balance)),
            _ => self.later(cpu),
        }
    }

    /// What a running task does next, or an interrupt meanwhile.
    fn act(&mut self, cpu: Cpu, task: Task) {
        let plan = &self.plan;
        let on = |wanted: bool, weight: usize| if wanted { weight } else { 0 };
        let queued = !self.cpus[cpu].queue.is_empty();
        let kernel = self.kernel;
        let normal = self.tasks[task].kind == Kind::Normal;
        let pushable = self.tasks[task].kind != Kind::RealTime && self.real_time_on(cpu).is_some();
        let weights = [
            28,
            26,
            on(queued, 8),
            on(plan.softirqs, 6),
            on(plan.softirqs, 5),
            2,
            4,
            on(kernel.queues_on_cpu(), 5),
            on(plan.forks && normal, 2),
            on(plan.forks && normal, 1),
            on(plan.throttling && normal, 2),
            on(plan.repinning && normal, 4),
            on(plan.balancing && normal, 1),
            on(plan.balancing && normal, 1),
            on(plan.balancing, 5),
            on(plan.balancing, 3),
            1,
            on(plan.shootdowns, 3),
            5,
            on(plan.balancing && !queued, 6),
            on(plan.marks, 5),
            on(plan.calls, 3),
            on(plan.calls, 1),
            on(plan.balancing && pushable, 12),
        ];
        match self.random.weighted(&weights) {
            0 => self.begin(cpu, [Phase::Wake]),
            1 => self.sleep(cpu),
            2 => self.preempt(cpu),
            3 => self.begin(cpu, interrupt_with_softirq()),
            4 => self.begin(cpu, inline_softirq()),
            5 => self.begin(cpu, [Phase::WakeItself]),
            6 => self.begin(cpu, [Phase::WakeInPlace]),
            7 => self.begin(cpu, [Phase::WakeLeaving]),
            8 => self.begin(cpu, [Phase::Fork]),
            9 => self.die(cpu, task),
            10 => {
                self.switch(cpu, Left::Runnable, None);
                self.later(cpu);
            }
            11 => self.begin(cpu, [Phase::Repin]),
            12 => self.begin(cpu, [Phase::MoveForExec]),
            13 => self.begin(cpu, [Phase::MoveForNuma]),
            14 => self.begin(cpu, balancing(Phase::Balance)),
            15 => self.begin(cpu, balancing(Phase::ActiveBalance)),
            16 => self.begin(cpu, [Phase::NmiEntry, Phase::Wake, Phase::NmiExit]),
            17 => self.begin(cpu, [Phase::Shootdown]),
            18 => {
                let who = self.tasks[task].who.clone();
                self.emit(cpu, What::Runtime { who });
                self.later(cpu);
            }
            20 => {
                self.emit(cpu, What::Marker("mark".to_owned()));
                self.later(cpu);
            }
            21 => self.begin(cpu, [Phase::Call]),
            22 => self.begin(cpu, [Phase::InterruptItself]),
            23 => {
                self.push_real_time(cpu);
                self.later(cpu);
            }
            _ => self.sleep_and_pull(cpu),
        }
    }

    fn die(&mut self, cpu: Cpu, task: Task) {
        let who = self.tasks[task].who.clone();
        self.emit(cpu, What::Exit { who });
        let next = self.next(cpu);
        self.switch(cpu, Left::Dead, next);
        self.later(cpu);
    }
}

pub fn interrupt_with_softirq() -> Vec<Phase> {
    vec![
        Phase::IrqEntry,
        Phase::Wake,
        Phase::Raise(NET),
        Phase::IrqExit,
        Phase::SoftirqEntry(NET, false),
        Phase::Wake,
        Phase::SoftirqExit(NET),
    ]
}

pub fn inline_softirq() -> Vec<Phase> {
    vec![
        Phase::Raise(NET),
        Phase::SoftirqEntry(NET, true),
        Phase::Wake,
        Phase::SoftirqExit(NET),
    ]
}

pub fn balancing(what: Phase) -> Vec<Phase> {
    vec![
        Phase::TickRaises(SCHED),
        Phase::SoftirqEntry(SCHED, false),
        what,
        Phase::SoftirqExit(SCHED),
    ]
}
