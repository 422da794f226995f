//! `sched_switch`: one task leaves a CPU, another takes it.

use super::engine::Replay;
use super::machine::Current;
use super::rows::{IdleRow, Sink, SliceRow, TaskId};
use super::steps::{Step, Switch};
use super::tasks::TaskState;
use super::words::Origin;
use ttwu_parsers::print_fmt::PrevState;

impl<S: Sink> Replay<'_, S> {
    pub(super) fn switch(&mut self, cpu: usize, step: &Step, switch: &Switch) {
        if self.config.window.contains(step.ts) {
            self.cpus[cpu].switches += 1;
        }
        if self.cpus[cpu].moves.watched {
            self.judge_moves(cpu, switch);
        }
        if let Some(prev) = switch.prev {
            let prev = self.task(prev, switch.prev_prio);
            if step.tgid > 0 {
                self.tasks[prev].tgid = Some(step.tgid);
            }
            self.expect_current(cpu, Current::Task(prev));
            self.switch_out(cpu, prev, switch.prev_state);
        } else {
            self.expect_current(cpu, Current::Nothing);
        }
        if let Some(next) = switch.next {
            let next = self.task(next, switch.next_prio);
            self.switch_in(cpu, next);
        } else {
            self.run_nothing(cpu);
            self.cpus[cpu].nothing_seen = true;
        }
        if let Some(counting) = &mut self.counting {
            counting.switched(cpu);
        }
    }

    /// The task that leaves should be the one that was running; if not, a switch was not recorded.
    fn expect_current(&mut self, cpu: usize, current: Current) {
        if self.cpus[cpu].current == current {
            return;
        }
        if self.cpus[cpu].current != Current::Unknown {
            self.counts.switch_mismatches += 1;
        }
        self.end_nothing(cpu);
        if let Current::Task(wrong) = self.cpus[cpu].current {
            self.stop_running(cpu, wrong, None);
            self.forget_run(wrong);
            self.tasks[wrong].state = TaskState::Unknown;
        }
        match current {
            Current::Task(task) => {
                self.leave_wherever(task);
                self.run_task(cpu, task);
            }
            _ => self.run_nothing(cpu),
        }
    }

    fn switch_out(&mut self, cpu: usize, task: TaskId, state: PrevState) {
        let now = self.now;
        self.stop_running(cpu, task, Some(state));
        if self.config.window.contains(now) {
            self.tasks[task].totals.switches += 1;
        }
        self.tasks[task].last_out = Some((now, state, cpu));
        let runnable = state.runnable() || self.woken_while_running(task);
        // `x` is TASK_DEAD, as kernels before 4.14 show it.
        let gone = matches!(state.letter, b'X' | b'Z' | b'x');
        self.overlap_at_switch_out(task, !runnable);
        // A task woken as it leaves shows `R` only on kernels that read its state late; else it was preempted.
        let slept = !state.runnable()
            || (!state.preempted && self.config.model.sleeper_may_show_runnable());
        if let Some(target) = self.on_its_way(task).filter(|_| slept) {
            // A waker marked it before it was off its CPU (since 5.8): it is not queued here.
            self.tasks[task].state = TaskState::Transit { cpu: target };
            self.cpus[target].transit += 1;
            self.refresh(target);
            self.close_run(task);
            self.end_moved_run(task);
        } else if runnable {
            self.tasks[task].state = TaskState::Unknown;
            self.begin_wait(task, cpu, Origin::Preempted, None);
        } else {
            self.close_run(task);
            self.end_moved_run(task);
            self.tasks[task].state = if gone {
                TaskState::Dead
            } else {
                TaskState::Blocked
            };
        }
    }

    fn switch_in(&mut self, cpu: usize, task: TaskId) {
        match self.tasks[task].state {
            TaskState::Queued { cpu: at } => {
                if at != cpu {
                    self.infer_migration(task, at, cpu);
                }
                self.end_wait(task, cpu);
            }
            TaskState::Transit { cpu: at } => {
                self.leave_transit(task, at);
                self.switched_in_early(task);
            }
            TaskState::Withheld { cpu: at, since } => self.end_withheld(task, at, since),
            TaskState::Running { cpu: at, .. } => {
                self.counts.switch_mismatches += 1;
                if at != cpu {
                    self.stop_running(at, task, None);
                    self.forget_run(task);
                    self.forget_current(at);
                }
            }
            TaskState::Blocked => self.counts.ran_without_wakeup += 1,
            TaskState::Unknown | TaskState::Dead => {}
        }
        self.run_task(cpu, task);
    }

    /// The CPU runs the task from now on.
    pub(super) fn run_task(&mut self, cpu: usize, task: TaskId) {
        let now = self.now;
        self.end_nothing(cpu);
        let state = &mut self.tasks[task];
        state.state = TaskState::Running { cpu, since: now };
        if std::mem::take(&mut state.probed_once) {
            state.probed_mask = None;
        }
        self.cpus[cpu].current = Current::Task(task);
        self.due_must_wait(cpu);
        self.refresh(cpu);
    }

    /// The CPU runs the idle task from now on; what is still queued there is withheld from it.
    pub(super) fn run_nothing(&mut self, cpu: usize) {
        let now = self.now;
        if self.cpus[cpu].current != Current::Nothing {
            self.cpus[cpu].nothing_since = now;
            self.cpus[cpu].nothing_seen = false;
        }
        self.cpus[cpu].current = Current::Nothing;
        self.cpus[cpu].went_idle = Some(now);
        if !self.cpus[cpu].queued.is_empty() {
            for (_, task) in self.cpus[cpu].take_queued() {
                self.withhold(task, cpu);
            }
        }
        self.refresh(cpu);
    }

    /// Emits the interval in which the CPU ran nothing, if it did.
    fn end_nothing(&mut self, cpu: usize) {
        if self.cpus[cpu].current == Current::Nothing {
            self.sink.idle(&IdleRow {
                cpu: self.machine.cpus.id(cpu),
                start_ns: self.cpus[cpu].nothing_since,
                end_ns: self.now,
            });
            self.cpus[cpu].nothing_since = self.now;
        }
    }

    /// Accounts the time on the CPU and emits its slice. The caller sets the task's new state.
    pub(super) fn stop_running(&mut self, cpu: usize, task: TaskId, end_state: Option<PrevState>) {
        let TaskState::Running { since, .. } = self.tasks[task].state else {
            return;
        };
        let now = self.now;
        self.tasks[task].on_cpu_ns += now - since;
        self.tasks[task].totals.run_ns += self.config.window.clip(since, now);
        if let Some(counting) = &mut self.counting {
            counting.ran(cpu, task);
        }
        self.sink.slice(&SliceRow {
            task,
            cpu: self.machine.cpus.id(cpu),
            start_ns: since,
            end_ns: now,
            end_state,
        });
    }

    /// What the CPU runs is not known any more.
    pub(super) fn forget_current(&mut self, cpu: usize) {
        self.end_nothing(cpu);
        self.cpus[cpu].current = Current::Unknown;
        self.cpus[cpu].due = None;
        self.refresh(cpu);
    }

    /// Takes a task out of whatever state the replay thought it in, because an event shows it elsewhere.
    pub(super) fn leave_wherever(&mut self, task: TaskId) {
        match self.tasks[task].state {
            TaskState::Running { cpu, .. } => {
                self.stop_running(cpu, task, None);
                self.forget_run(task);
                self.forget_current(cpu);
            }
            TaskState::Queued { .. } => self.void_wait(task),
            TaskState::Transit { cpu } => self.leave_transit(task, cpu),
            TaskState::Withheld { cpu, since } => self.end_withheld(task, cpu, since),
            TaskState::Unknown | TaskState::Blocked | TaskState::Dead => {}
        }
        self.forget_move(task);
        self.tasks[task].state = TaskState::Unknown;
    }

    /// Closes a CPU's open interval at the trace's end.
    pub(super) fn close_cpu(&mut self, cpu: usize) {
        self.end_nothing(cpu);
        if let Current::Task(task) = self.cpus[cpu].current {
            self.stop_running(cpu, task, None);
            let now = self.now;
            self.tasks[task].state = TaskState::Running { cpu, since: now };
        }
        self.end_gap(cpu);
    }
}
