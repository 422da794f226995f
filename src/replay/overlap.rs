//! How long a waker and its wakee could have run side by side: the lesser of what the waker still had to do
//! until it blocked, and what the wakee did until it blocked (`analysis` §3, stack or spread).

use std::num::NonZeroU64;

use super::engine::Replay;
use super::rows::{Sink, TaskId};
use super::tasks::TaskState;

/// Most open wakeups watched for one waker; beyond, the overlap is only bounded.
const WATCHED: usize = 1024;

impl<S: Sink> Replay<'_, S> {
    /// A task's on-CPU time up to now.
    pub(super) fn on_cpu_ns(&self, task: TaskId) -> i64 {
        let task = &self.tasks[task];
        match task.state {
            TaskState::Running { since, .. } => task.on_cpu_ns + (self.now - since),
            _ => task.on_cpu_ns,
        }
    }

    /// Starts to watch the waker of a wakeup.
    pub(super) fn await_overlap(&mut self, slot: usize) {
        let open = &mut self.wakes[slot];
        if std::mem::replace(&mut open.overlap_watched, true) {
            return;
        }
        let Some(waker) = open.row.waker.filter(|&w| w != open.row.wakee) else {
            return;
        };
        if self.tasks[waker].overlaps.len() >= WATCHED {
            self.counts.censored_overlaps += 1;
            self.wakes[slot].row.overlap_censored = true;
            return;
        }
        self.tasks[waker].overlaps.push(slot);
        self.wakes[slot].awaits_overlap = true;
    }

    /// The task left its CPU: decides the overlaps of the wakeups it made, as far as they can be.
    pub(super) fn overlap_at_switch_out(&mut self, waker: TaskId, blocked: bool) {
        if self.tasks[waker].overlaps.is_empty() {
            return;
        }
        let on_cpu = self.tasks[waker].on_cpu_ns;
        let mut watched = std::mem::take(&mut self.tasks[waker].overlaps);
        watched.retain(|&slot| {
            let Some(open) = self
                .wakes
                .get_mut(slot)
                .filter(|w| w.row.waker == Some(waker) && w.awaits_overlap)
            else {
                return false;
            };
            let so_far = on_cpu - open.waker_on_cpu_ns;
            match open.row.wakee_run_ns {
                Some(run) if blocked || so_far >= run => {
                    open.row.overlap_ns = Some(so_far.min(run));
                    open.awaits_overlap = false;
                    self.emit_if_complete(slot);
                    false
                }
                None if blocked => {
                    open.waker_rest_ns = Some(so_far);
                    false
                }
                _ => true,
            }
        });
        self.tasks[waker].overlaps = watched;
    }

    /// The task blocked: the run that its last wakeup began is over.
    pub(super) fn close_run(&mut self, task: TaskId) {
        let Some(slot) = self.tasks[task].wake.take() else {
            return;
        };
        let run = self.tasks[task].on_cpu_ns - self.tasks[task].on_cpu_at_wake_ns;
        let waker_now = self
            .wakes
            .get(slot)
            .and_then(|w| w.row.waker)
            .map_or(0, |w| self.on_cpu_ns(w));
        let Some(open) = self.wakes.get_mut(slot) else {
            return;
        };
        open.awaits_run = false;
        open.row.wakee_run_ns = Some(run);
        if let Some(counted) = self.counting.as_ref().and_then(|of| of.since_wake(task)) {
            open.row.wakee_cycles = NonZeroU64::new(counted.cycles);
            open.row.wakee_instructions = NonZeroU64::new(counted.instructions);
        }
        if open.awaits_overlap {
            let so_far = waker_now - open.waker_on_cpu_ns;
            let decided = open.waker_rest_ns.or((so_far >= run).then_some(run));
            if let Some(rest) = decided {
                open.row.overlap_ns = Some(rest.min(run));
                open.awaits_overlap = false;
            }
        }
        self.emit_if_complete(slot);
    }

    /// What the task did on its CPU from here on was not recorded: neither its run nor what it could have
    /// run beside its wakees is known.
    pub(super) fn forget_run(&mut self, task: TaskId) {
        self.forget_move(task);
        if let Some(slot) = self.tasks[task].wake.take() {
            self.end_run_unknown(slot);
        }
        for slot in std::mem::take(&mut self.tasks[task].overlaps) {
            let open = self.wakes.get_mut(slot);
            let Some(open) = open.filter(|w| w.row.waker == Some(task) && w.awaits_overlap) else {
                continue;
            };
            open.awaits_overlap = false;
            self.counts.censored_overlaps += 1;
            self.emit_if_complete(slot);
        }
    }

    /// The task was woken again although its run had not ended by the events.
    pub(super) fn end_run_unknown(&mut self, slot: usize) {
        let Some(open) = self.wakes.get_mut(slot) else {
            return;
        };
        open.awaits_run = false;
        open.awaits_overlap = false;
        self.emit_if_complete(slot);
    }
}
