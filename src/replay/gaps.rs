//! Missing events: what spans them is withdrawn, never guessed.

use super::engine::Replay;
use super::machine::Current;
use super::rows::{LostRow, Sink};
use super::tasks::TaskState;

impl<S: Sink> Replay<'_, S> {
    /// From here on the CPU's events are missing: what it ran, and what was queued or on its way there, is
    /// not known any more.
    pub(super) fn begin_gap(&mut self, cpu: usize, count: Option<u64>) {
        if let Some((since, before)) = self.cpus[cpu].gap_since {
            let sum = before.zip(count).map(|(a, b)| a + b);
            self.cpus[cpu].gap_since = Some((since, sum));
            return;
        }
        self.cpus[cpu].gap_since = Some((self.now, count));
        self.forget_moves_of(cpu);
        self.forget_ipis(cpu);
        self.darken_flips(cpu);
        // Tasks may have left it unseen since then.
        self.cpus[cpu].went_idle = None;
        if let Current::Task(task) = self.cpus[cpu].current {
            self.stop_running(cpu, task, None);
            self.forget_run(task);
            self.tasks[task].state = TaskState::Unknown;
        }
        for (_, task) in self.cpus[cpu].take_queued() {
            self.counts.withdrawn_waits += u64::from(self.config.window.contains(self.now));
            self.drop_wait(task, cpu);
            self.forget_move(task);
            self.tasks[task].state = TaskState::Unknown;
        }
        self.lose_transit(cpu);
        self.forget_current(cpu);
    }

    /// Whether those on their way to the CPU came there is not known.
    fn lose_transit(&mut self, cpu: usize) {
        for task in self.tasks.ids() {
            if self.tasks[task].state == (TaskState::Transit { cpu }) {
                self.leave_transit(task, cpu);
                self.tasks[task].state = TaskState::Unknown;
                self.withdraw_wake(task);
                self.forget_move(task);
            }
        }
    }

    pub(super) fn end_gap(&mut self, cpu: usize) {
        let Some((since, events)) = self.cpus[cpu].gap_since.take() else {
            return;
        };
        // They were woken meanwhile: a later enqueue may be of another wakeup.
        self.lose_transit(cpu);
        self.light_flips(cpu);
        self.sink.lost(&LostRow {
            cpu: self.machine.cpus.id(cpu),
            start_ns: since,
            end_ns: self.now,
            events,
        });
    }
}
