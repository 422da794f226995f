//! Waits: from being queued to being switched in, and what may come between.

use super::engine::Replay;
use super::machine::Current;
use super::rows::{Sink, TaskId, WaitRow};
use super::tasks::TaskState;
use super::verdict::{Choice, Chooser};
use super::words::{Origin, Pair, Reading, Verdict};

/// A wait that is not judged yet.
#[derive(Debug)]
pub struct Wait {
    pub task: TaskId,
    pub start: i64,
    pub origin: Origin,
    pub first_cpu: usize,
    pub last_cpu: usize,
    pub moves: u32,
    pub choice: Option<Choice>,
    /// The wakeup that began it.
    pub wake: Option<usize>,
    /// The task whose wakeup began it, or began the run that it interrupts.
    pub waker: Option<TaskId>,
    pub no_selection: bool,
    pub kthread_stacked: bool,
    /// It was the first task due on a CPU that ran nothing, and that CPU ran nothing until it was switched in.
    pub only_transit: bool,
    /// Whether an eligible CPU was idle at some time from the choice on.
    pub idle_during: Pair<bool>,
    pub lost_ns: Pair<i64>,
    pub end: Option<i64>,
    pub switched_in: bool,
}

impl<S: Sink> Replay<'_, S> {
    /// The task is enqueued on `cpu`, and waits until it is switched in.
    pub(super) fn begin_wait(
        &mut self,
        task: TaskId,
        cpu: usize,
        origin: Origin,
        wake: Option<usize>,
    ) {
        let now = self.now;
        let mut wait = Wait {
            task,
            start: now,
            origin,
            first_cpu: cpu,
            last_cpu: cpu,
            moves: 0,
            choice: None,
            wake,
            waker: None,
            no_selection: false,
            kthread_stacked: false,
            only_transit: false,
            idle_during: Pair([false, false]),
            lost_ns: Pair([0, 0]),
            end: None,
            switched_in: false,
        };
        match wake.and_then(|slot| self.wakes.get_mut(slot)) {
            Some(open) => {
                wait.choice = open.choice.take();
                wait.waker = open.row.waker;
                wait.no_selection = open.no_selection;
                wait.kthread_stacked = open.kthread_stacked;
            }
            // What no wakeup began was chosen where it is, at the start of the wait.
            None => {
                wait.waker = self.waker_of_run(task);
                wait.choice = Some(self.choose(&Chooser {
                    task,
                    chosen: cpu,
                    prev: cpu,
                    waker_cpu: None,
                    chosen_idle: false,
                    since: now,
                }));
            }
        }
        wait.only_transit = self.enqueue(task, cpu);
        self.counts.waits += 1;
        let slot = self.waits.insert(wait);
        self.tasks[task].wait = Some(slot);
    }

    /// The task whose wakeup began the run that a task is in.
    fn waker_of_run(&self, task: TaskId) -> Option<TaskId> {
        let wake = self.wakes.get(self.tasks[task].wake?)?;
        wake.row.waker
    }

    /// Puts the task on a CPU's queue; true if it is the first one due there.
    pub(super) fn enqueue(&mut self, task: TaskId, cpu: usize) -> bool {
        self.tasks[task].state = TaskState::Queued { cpu };
        let queued = &mut self.cpus[cpu].queued;
        self.tasks[task].queued_at = queued.len();
        queued.push((self.enqueues, task));
        self.enqueues += 1;
        let busy = matches!(self.cpus[cpu].current, Current::Task(_));
        if !busy && self.cpus[cpu].due.is_none() {
            self.cpus[cpu].due = Some(task);
            self.refresh(cpu);
            return true;
        }
        self.start_waiting(task, cpu);
        false
    }

    /// Takes the task off a CPU's queue. The next one queued is due instead, if the CPU runs nothing.
    pub(super) fn dequeue(&mut self, task: TaskId, cpu: usize) {
        self.stop_waiting(task, cpu);
        let at = self.tasks[task].queued_at;
        let state = &mut self.cpus[cpu];
        if state.queued.get(at).is_some_and(|(_, t)| *t == task) {
            state.queued.swap_remove(at);
            if let Some(&(_, moved)) = state.queued.get(at) {
                self.tasks[moved].queued_at = at;
            }
        }
        if state.due == Some(task) {
            state.due = None;
            self.promote(cpu);
        }
        self.refresh(cpu);
    }

    /// On a CPU that runs nothing the first queued task is due: it does not wait for anyone.
    pub(super) fn promote(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        if matches!(state.current, Current::Task(_)) || state.due.is_some() {
            return;
        }
        if let Some(first) = state.first_queued() {
            self.stop_waiting(first, cpu);
            self.cpus[cpu].due = Some(first);
        }
    }

    /// The CPU took another task than the one due: that one waits now like any other.
    pub(super) fn due_must_wait(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].due.take() else {
            return;
        };
        if self.tasks[task].state == (TaskState::Queued { cpu }) {
            self.start_waiting(task, cpu);
            if let Some(wait) = self.wait_of(task) {
                wait.only_transit = false;
            }
        }
    }

    pub(super) fn wait_of(&mut self, task: TaskId) -> Option<&mut Wait> {
        self.tasks[task]
            .wait
            .and_then(|slot| self.waits.get_mut(slot))
    }

    /// The task is switched in on `cpu`.
    pub(super) fn end_wait(&mut self, task: TaskId, cpu: usize) {
        let TaskState::Queued { cpu: at } = self.tasks[task].state else {
            return;
        };
        let ran_nothing = self.cpus[cpu].current == Current::Nothing;
        let due = self.cpus[cpu].due == Some(task) && at == cpu;
        self.dequeue(task, at);
        let now = self.now;
        if let Some(wait) = self.wait_of(task) {
            wait.only_transit &= due && ran_nothing;
            wait.last_cpu = cpu;
        }
        self.conclude_wait(task, now, true);
        self.switched_in(task);
    }

    /// Hands the task's wait over to be judged once this event's lost time is shared out.
    fn conclude_wait(&mut self, task: TaskId, now: i64, switched_in: bool) {
        let Some(slot) = self.tasks[task].wait else {
            return;
        };
        let Some(since) = self
            .waits
            .get(slot)
            .map(|w| w.choice.as_ref().map_or(w.start, |c| c.ts))
        else {
            return;
        };
        let only_transit = self.waits[slot].only_transit;
        let idle_during = if only_transit {
            Pair([false, false])
        } else {
            self.idle_since_choice(task, since)
        };
        let wait = &mut self.waits[slot];
        wait.end = Some(now);
        wait.switched_in = switched_in;
        wait.idle_during = idle_during;
        let clipped = self.config.window.clip(wait.start, now);
        self.tasks[task].totals.wait_ns += clipped;
        self.ended.push(slot);
    }

    /// Judges the waits that ended with this event, unless their choice has not settled.
    pub(super) fn complete_ended(&mut self) {
        for at in 0..self.ended.len() {
            let slot = self.ended[at];
            let Some(wait) = self.waits.get(slot) else {
                continue;
            };
            let task = wait.task;
            let lost_ns = wait.lost_ns;
            let deadline = wait
                .choice
                .as_ref()
                .map_or(i64::MIN, |c| self.snapshots.deadline(c));
            if self.tasks[task].wait == Some(slot) {
                self.tasks[task].wait = None;
            }
            self.charge_move(task, slot, lost_ns);
            if deadline > self.now && !self.waits[slot].only_transit {
                self.unsettled.push_back((deadline, slot));
            } else {
                self.finish_wait(slot);
            }
        }
        self.ended.clear();
    }

    /// Judges waits whose choice has settled meanwhile.
    #[inline]
    pub(super) fn settle_late_waits(&mut self) {
        while let Some(&(deadline, slot)) = self.unsettled.front() {
            if deadline > self.now {
                break;
            }
            self.unsettled.pop_front();
            self.finish_wait(slot);
        }
    }

    fn finish_wait(&mut self, slot: usize) {
        let Some(wait) = self.waits.get(slot) else {
            return;
        };
        let verdict = self.verdicts(wait);
        self.emit_wait(slot, verdict);
        let wait = &self.waits[slot];
        if let Some(choice) = &wait.choice {
            self.snapshots.release(choice);
        }
        if let Some(wake) = wait.wake {
            self.judge_wake(wake, slot, verdict);
        }
        self.waits.try_remove(slot);
    }

    fn emit_wait(&mut self, slot: usize, verdict: Pair<Verdict>) {
        let wait = &self.waits[slot];
        let end = wait.end.unwrap_or(self.now);
        let in_window = self.config.window.contains(wait.start);
        if in_window && self.tasks[wait.task].recorder {
            self.counts.recorder.waits += 1;
        }
        let id = |cpu| self.machine.cpus.id(cpu);
        let (idle_cpus, llc_busy_percent) = match &wait.choice {
            Some(choice) => (choice.idle_cpus, choice.llc_busy_percent),
            None => (Pair([0, 0]), None),
        };
        self.sink.wait(&WaitRow {
            task: wait.task,
            start_ns: wait.start,
            end_ns: wait.switched_in.then_some(end),
            first_cpu: id(wait.first_cpu),
            last_cpu: id(wait.last_cpu),
            moves: wait.moves,
            origin: wait.origin,
            verdict,
            wait_ns: self.config.window.clip(wait.start, end),
            lost_ns: wait.lost_ns,
            idle_cpus,
            llc_busy_percent,
            waker: wait.waker,
            in_window,
        });
    }

    /// A wait that cannot have been one: the events contradict it, or some are missing.
    pub(super) fn void_wait(&mut self, task: TaskId) {
        if let TaskState::Queued { cpu } = self.tasks[task].state {
            self.dequeue(task, cpu);
        }
        self.count_inconsistent();
        self.discard_wait(task);
    }

    /// Counts what the events contradict, where that shows.
    pub(super) fn count_inconsistent(&mut self) {
        self.counts.inconsistent_waits += u64::from(self.config.window.contains(self.now));
    }

    /// Drops the wait of a task that was on a CPU's queue, which the caller has emptied.
    pub(super) fn drop_wait(&mut self, task: TaskId, cpu: usize) {
        self.stop_waiting(task, cpu);
        self.discard_wait(task);
    }

    fn discard_wait(&mut self, task: TaskId) {
        if self.tasks[task].wait.is_none() {
            return;
        }
        self.flush_lost();
        let Some(slot) = self.tasks[task].wait.take() else {
            return;
        };
        let Some(wait) = self.waits.get(slot) else {
            return;
        };
        self.counts.withdrawn_ns += self.config.window.clip(wait.start, self.now);
        for reading in [Reading::Seen, Reading::Any] {
            self.counts.withdrawn_lost_ns[reading] += wait.lost_ns[reading];
        }
        if let Some(choice) = &wait.choice {
            self.snapshots.release(choice);
        }
        let wake = wait.wake;
        self.waits.try_remove(slot);
        if let Some(wake) = wake {
            self.abandon_wake(wake);
        }
    }

    /// The task's CPU found nothing to run although the task is queued there by the events.
    pub(super) fn withhold(&mut self, task: TaskId, cpu: usize) {
        let now = self.now;
        self.stop_waiting(task, cpu);
        if self.cpus[cpu].due == Some(task) {
            self.cpus[cpu].due = None;
        }
        let waited = self.wait_of(task).is_some_and(|w| w.start < now);
        if waited {
            if let Some(wait) = self.wait_of(task) {
                wait.only_transit = false;
            }
            self.conclude_wait(task, now, false);
        } else {
            self.discard_wait(task);
        }
        self.tasks[task].state = TaskState::Withheld { cpu, since: now };
        if self.config.window.contains(now) {
            self.tasks[task].totals.withheld += 1;
            self.counts.withheld += 1;
        }
    }

    pub(super) fn end_withheld(&mut self, task: TaskId, _cpu: usize, since: i64) {
        let ns = self.config.window.clip(since, self.now);
        self.tasks[task].totals.withheld_ns += ns;
        self.counts.withheld_ns += ns;
        self.tasks[task].state = TaskState::Unknown;
    }

    /// At the trace's end: waits still open are emitted without an end.
    pub(super) fn close_waits(&mut self) {
        for task in self.tasks.ids() {
            match self.tasks[task].state {
                TaskState::Queued { .. } => {
                    self.counts.open_waits += 1;
                    if let Some(wait) = self.wait_of(task) {
                        wait.only_transit = false;
                    }
                    self.conclude_wait(task, self.now, false);
                }
                TaskState::Withheld { cpu, since } => self.end_withheld(task, cpu, since),
                _ => {}
            }
        }
        self.complete_ended();
        while let Some((_, slot)) = self.unsettled.pop_front() {
            self.finish_wait(slot);
        }
    }
}
