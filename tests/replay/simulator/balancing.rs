//! What moves the simulated tasks but wakeups: the balancers, changes of affinity, NUMA and `exec`.

use super::events::{Left, Vector, What};
use super::machine::Cpu;
use super::notes::{Cause, Purpose, State};
use super::scheduler::{Kind, Sim, Task, Work};

impl Sim {
    /// A task that waits behind another and may come to `to`.
    fn pullable(&mut self, to: Cpu) -> Option<Task> {
        let waiting = self.tasks_that(|task| match self.tasks[task].state {
            State::Queued(at) => {
                at != to
                    && self.cpus[at].current.is_some()
                    && self.fair(task)
                    && self.tasks[task].mask.contains(&to)
            }
            _ => false,
        });
        self.random.pick(&waiting)
    }

    /// The balancing soft interrupt pulls a task: here, or on behalf of a CPU that is idle.
    pub fn balance(&mut self, cpu: Cpu) {
        let idle: Vec<Cpu> = (0..self.shared_cpus())
            .filter(|&c| self.is_idle(c))
            .collect();
        let other = self.random.pick(&idle).filter(|_| self.random.chance(50));
        let to = other.unwrap_or(cpu);
        if self.random.chance(15) && self.pull_delayed(cpu, to) {
            return;
        }
        if let Some(task) = self.pullable(to) {
            self.move_queued(cpu, task, to, Cause::Periodic);
        }
    }

    /// A task that sleeps but is still queued is moved like any other.
    fn pull_delayed(&mut self, by: Cpu, to: Cpu) -> bool {
        let delayed = self.tasks_that(|task| {
            let state = &self.tasks[task];
            state.delayed && state.cpu != to && state.mask.contains(&to)
        });
        let Some(task) = self.random.pick(&delayed) else {
            return false;
        };
        let from = self.tasks[task].cpu;
        self.announce(by, task, from, to, Cause::Periodic);
        self.cpus[from].delayed.retain(|&t| t != task);
        // A CPU that runs nothing dequeues it at once.
        if self.cpus[to].current.is_some() {
            self.cpus[to].delayed.push(task);
        } else {
            self.tasks[task].delayed = false;
        }
        self.tasks[task].cpu = to;
        self.notes.moved_asleep.push((self.now, task, to));
        true
    }

    /// The CPU's task sleeps; before anything else runs, another CPU's task is pulled.
    pub fn sleep_and_pull(&mut self, cpu: Cpu) {
        match self.pullable(cpu) {
            Some(task) => {
                self.move_queued(cpu, task, cpu, Cause::NewIdle);
                self.switch(cpu, Left::Sleeping, Some(task));
                self.later(cpu);
            }
            None => self.sleep(cpu),
        }
    }

    /// A task of real-time priority that waits here.
    pub fn real_time_on(&self, cpu: Cpu) -> Option<Task> {
        let mut queue = self.cpus[cpu].queue.iter().copied();
        queue.find(|&task| self.tasks[task].kind == Kind::RealTime)
    }

    /// The real-time class moves its own to where they come before what runs.
    pub fn push_real_time(&mut self, cpu: Cpu) {
        let Some(task) = self.real_time_on(cpu) else {
            return;
        };
        let mask = self.tasks[task].mask.clone();
        let gives_way = |&to: &Cpu| {
            let current = self.cpus[to].current;
            to != cpu && current.is_none_or(|current| self.tasks[current].kind == Kind::Normal)
        };
        let others: Vec<Cpu> = mask.into_iter().filter(gives_way).collect();
        if let Some(to) = self.random.pick(&others) {
            self.move_queued(cpu, task, to, Cause::RealTime);
            self.cpus[to].resched = true;
        }
    }

    /// The stopper of another CPU is to push that CPU's task here.
    pub fn active_balance(&mut self, cpu: Cpu) -> bool {
        let running = self.tasks_that(|task| match self.tasks[task].state {
            State::Running(at) => {
                at != cpu
                    && self.tasks[task].kind == Kind::Normal
                    && !self.tasks[task].leaving
                    && self.tasks[task].mask.contains(&cpu)
            }
            _ => false,
        });
        match self.random.pick(&running) {
            Some(task) => {
                let cause = Cause::Active;
                self.kick(
                    cpu,
                    self.tasks[task].cpu,
                    Work {
                        task,
                        to: cpu,
                        cause,
                    },
                )
            }
            None => true,
        }
    }

    fn has_free_stopper(&self, cpu: Cpu) -> bool {
        let stopper = self.stoppers[cpu];
        self.tasks[stopper].state == State::Blocked && self.cpus[cpu].work.is_none()
    }

    /// Wakes a CPU's stopper; true if it is not free.
    fn kick(&mut self, cpu: Cpu, at: Cpu, work: Work) -> bool {
        if !self.has_free_stopper(at) {
            return true;
        }
        let stopper = self.stoppers[at];
        self.cpus[at].work = Some(work);
        self.notes.own_kick[at] = self.cpus[cpu].current.filter(|&t| t == work.task);
        self.wake(cpu, stopper, Some(at));
        false
    }

    /// The stopper does what it was woken for, if the task is still there.
    pub fn stop(&mut self, cpu: Cpu) {
        let Some(Work { task, to, cause }) = self.cpus[cpu].work.take() else {
            return;
        };
        if self.tasks[task].state != State::Queued(cpu) || !self.tasks[task].mask.contains(&to) {
            return;
        }
        self.move_queued(cpu, task, to, cause);
        let own = self.notes.own_kick[cpu] == Some(task);
        if own && self.kernel.has_waking() {
            // The moved task woke the stopper itself: by the events, its mask may have changed.
            self.notes.breaks.push((self.now, task));
        }
        if self.random.chance(50) {
            self.send(cpu, to, Vector::Reschedule, Purpose::Reschedule);
        }
        self.cpus[to].resched = true;
    }

    /// The running task has the stopper move it.
    pub fn move_itself(&mut self, cpu: Cpu, cause: Cause) -> bool {
        let Some(task) = self.cpus[cpu].current else {
            return true;
        };
        let others: Vec<Cpu> = self.tasks[task]
            .mask
            .iter()
            .copied()
            .filter(|&c| c != cpu)
            .collect();
        let Some(to) = self.random.pick(&others) else {
            return true;
        };
        // A task that asked for another mask just before it calls `execve`, as `taskset` does, is taken to be moved for that.
        let asked = self.notes.own_calls.iter().any(|&(_, of, _)| of == task);
        if !self.has_free_stopper(cpu) || cause == Cause::Exec && asked {
            return true;
        }
        if cause == Cause::Numa {
            let who = self.tasks[task].who.clone();
            self.emit(cpu, What::MoveNuma { who, from: cpu, to });
        }
        self.tasks[task].execs = cause == Cause::Exec;
        self.kick(cpu, cpu, Work { task, to, cause })
    }

    /// A new mask: of one CPU, of an LLC, or of any.
    fn new_mask(&mut self) -> Vec<Cpu> {
        let all: Vec<Cpu> = (0..self.shared_cpus()).collect();
        let home = self.random.pick(&all).unwrap_or(0);
        match self.random.below(4) {
            0 => vec![home],
            1 => all
                .iter()
                .copied()
                .filter(|&c| self.machine.same_llc(c, home))
                .collect(),
            _ => {
                let mut some: Vec<Cpu> = all
                    .iter()
                    .copied()
                    .filter(|_| self.random.chance(50))
                    .collect();
                if some.is_empty() {
                    some.push(home);
                }
                some
            }
        }
    }

    /// `sched_setaffinity`, of the caller or of another task.
    pub fn repin(&mut self, cpu: Cpu) -> bool {
        let Some(caller) = self.cpus[cpu].current else {
            return true;
        };
        let others = self.tasks_that(|task| {
            let state = &self.tasks[task];
            let still = matches!(state.state, State::Blocked | State::Queued(_)) && !state.delayed;
            state.kind == Kind::Normal && still
        });
        let other = self.random.pick(&others).filter(|_| self.random.chance(40));
        let task = other.unwrap_or(caller);
        let mask = self.new_mask();
        // It is not left where it may not run.
        if let State::Running(at) = self.tasks[task].state
            && !mask.contains(&at)
            && !self.has_free_stopper(at)
        {
            return true;
        }
        let pid = match other {
            None if self.random.chance(50) => 0,
            _ => self.tasks[task].who.pid,
        };
        self.emit(cpu, What::SetAffinity { pid });
        self.notes.breaks.push((self.now, task));
        if task == caller {
            self.notes.own_calls.push((self.now, task, cpu));
        }
        self.tasks[task].mask = mask.clone();
        let Some(to) = self.random.pick(&mask) else {
            return true;
        };
        match self.tasks[task].state {
            State::Running(at) if !mask.contains(&at) => {
                let cause = Cause::Affinity;
                return self.kick(cpu, at, Work { task, to, cause });
            }
            State::Queued(at) if !mask.contains(&at) => {
                self.move_queued(cpu, task, to, Cause::AffinityOfOther);
            }
            _ => {}
        }
        true
    }
}
