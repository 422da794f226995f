//! Migrations: what becomes of the task that is moved, and what it did after.

use super::causes::{Awaits, Cause, Moving, Ruling};
use super::engine::Replay;
use super::rows::{MigrationRow, Sink, TaskId};
use super::steps::{Moved, Step};
use super::tasks::TaskState;
use super::words::{Confidence, MigrationCause, MigrationKind, Origin, Pair, Reading, Waker};

/// A migration whose row is not complete: one of each task at most.
#[derive(Debug)]
pub struct OpenMove {
    row: MigrationRow,
    serial: u64,
    /// The task's on-CPU time at the move.
    on_cpu_ns: i64,
    /// The wait in which it was moved, and what was lost in it before.
    wait: Option<(usize, Pair<i64>)>,
    awaits: Awaits,
    /// The run that followed is over; only the cause is still open.
    over: bool,
}

impl<S: Sink> Replay<'_, S> {
    /// `sched_migrate_task`.
    pub(super) fn migrate(&mut self, by: usize, step: &Step, moved: &Moved) {
        let Some(task) = moved.task else {
            return;
        };
        let task = self.task(task, moved.prio);
        let (orig_cpu, dest_cpu) = (moved.orig_cpu, moved.dest_cpu);
        let index = |id| self.machine.cpus.index(id);
        let (Some(from), Some(to)) = (index(orig_cpu), index(dest_cpu)) else {
            self.counts.bad_cpus += 1;
            return;
        };
        let mover = self.current_task(by);
        let stopper = mover.is_some_and(|m| self.tasks[m].stopper);
        let (context, _) = self.waker_of(by, step.flags);
        let idle_left = self.idle_left(task, from, to);
        let lost = self.lost_before(task);
        self.close_move(task, lost);
        let state = self.tasks[task].state;
        let kind = self.move_task(task, to, stopper);
        let distance = self.distances.distance(from, to);
        let ruling = self.rule(&Moving {
            task,
            state,
            by,
            to,
            kind,
            distance,
            context,
            by_stopper: stopper,
        });
        let in_window = self.config.window.contains(step.ts);
        if in_window {
            self.tasks[task].totals.migrations += 1;
        }
        let row = MigrationRow {
            ts_ns: step.ts,
            task,
            from_cpu: orig_cpu,
            to_cpu: dest_cpu,
            distance,
            kind,
            cause: ruling.guess.0,
            confidence: ruling.guess.1,
            by_cpu: step.cpu,
            by_task: mover,
            context,
            idle_left,
            run_ns: None,
            lost_ns: Pair([0, 0]),
            inferred: false,
            in_window,
        };
        self.open_move(row, ruling, lost);
    }

    fn move_task(&mut self, task: TaskId, to: usize, stopper: bool) -> MigrationKind {
        if self.tasks[task].waking.is_some() {
            return MigrationKind::Wakeup;
        }
        match self.tasks[task].state {
            TaskState::Queued { cpu } => {
                self.dequeue(task, cpu);
                let due = self.enqueue(task, to);
                if let Some(wait) = self.wait_of(task) {
                    // Off the CPU only to make way for the stopper that moves it: put there by balancing.
                    if stopper && wait.moves == 0 && wait.origin == Origin::Preempted {
                        wait.origin = Origin::Balanced;
                    }
                    wait.moves += 1;
                    wait.last_cpu = to;
                    wait.only_transit &= due;
                }
                if stopper {
                    MigrationKind::Stopper
                } else {
                    MigrationKind::Runnable
                }
            }
            TaskState::Withheld { cpu, since } => {
                self.end_withheld(task, cpu, since);
                self.tasks[task].state = TaskState::Withheld {
                    cpu: to,
                    since: self.now,
                };
                MigrationKind::Runnable
            }
            TaskState::Blocked => {
                self.tasks[task].moved_asleep = Some(self.now);
                MigrationKind::Sleeping
            }
            _ => MigrationKind::Unknown,
        }
    }

    /// A move that follows from where the task runs now.
    pub(super) fn infer_migration(&mut self, task: TaskId, from: usize, to: usize) {
        self.counts.inferred_migrations += 1;
        let in_window = self.config.window.contains(self.now);
        if in_window {
            self.tasks[task].totals.migrations += 1;
        }
        if let Some(wait) = self.wait_of(task) {
            wait.moves += 1;
        }
        let lost = self.lost_before(task);
        self.close_move(task, lost);
        let guess = (MigrationCause::Unknown, Confidence::Unsure);
        let row = MigrationRow {
            ts_ns: self.now,
            task,
            from_cpu: self.machine.cpus.id(from),
            to_cpu: self.machine.cpus.id(to),
            distance: self.distances.distance(from, to),
            kind: MigrationKind::Runnable,
            cause: guess.0,
            confidence: guess.1,
            by_cpu: self.machine.cpus.id(to),
            by_task: None,
            context: Waker::Unknown,
            idle_left: None,
            run_ns: None,
            lost_ns: Pair([0, 0]),
            inferred: true,
            in_window,
        };
        let awaits = Awaits::Nothing;
        self.open_move(row, Ruling { guess, awaits }, lost);
    }

    /// How many CPUs of the LLC that a task leaves are idle and allowed; `None` if it stays in it.
    fn idle_left(&mut self, task: TaskId, from: usize, to: usize) -> Option<Pair<u32>> {
        if self.distances.crosses_llc(from, to) != Some(true) {
            return None;
        }
        let masks = self.masks_of(task);
        let home = &self.domains.llcs[self.domains.llc_of[from]];
        let idle = self.ledger.available();
        Some(Pair([Reading::Seen, Reading::Any].map(|reading| {
            let allowed = self.masks.get(masks[reading]);
            let left = idle.iter().filter(|&cpu| home.contains(cpu));
            left.filter(|&cpu| allowed.contains(cpu)).count() as u32
        })))
    }

    /// The wait in which a task is moved, and what was lost in it up to now.
    fn lost_before(&mut self, task: TaskId) -> Option<(usize, Pair<i64>)> {
        let slot = self.tasks[task].wait?;
        self.flush_lost();
        let lost = self.waits.get(slot)?.lost_ns;
        Some((slot, lost))
    }

    fn open_move(&mut self, row: MigrationRow, ruling: Ruling, wait: Option<(usize, Pair<i64>)>) {
        let task = row.task;
        self.serial += 1;
        let serial = self.serial;
        let slot = self.moves.insert(OpenMove {
            on_cpu_ns: self.on_cpu_ns(task),
            row,
            serial,
            wait,
            awaits: ruling.awaits,
            over: false,
        });
        self.tasks[task].moved = Some(slot);
        if ruling.awaits != Awaits::Nothing
            && !self.await_switch((slot, serial), task, ruling.awaits)
        {
            self.moves[slot].awaits = Awaits::Nothing;
        }
    }

    /// The task blocked: the run that its last move began is over.
    #[inline]
    pub(super) fn end_moved_run(&mut self, task: TaskId) {
        if let Some(slot) = self.tasks[task].moved {
            self.end_run_of_move(slot, task);
        }
    }

    fn end_run_of_move(&mut self, slot: usize, task: TaskId) {
        let on_cpu_ns = self.tasks[task].on_cpu_ns;
        let Some(open) = self.moves.get_mut(slot).filter(|open| !open.over) else {
            return;
        };
        open.row.run_ns = Some(on_cpu_ns - open.on_cpu_ns);
        open.over = true;
        if open.awaits == Awaits::Nothing {
            self.emit_move(slot);
        }
    }

    /// The task is moved again: what is not known of its last move by now will never be.
    fn close_move(&mut self, task: TaskId, lost: Option<(usize, Pair<i64>)>) {
        if let Some((wait, lost_ns)) = lost {
            self.charge_move(task, wait, lost_ns);
        }
        let Some(slot) = self.tasks[task].moved else {
            return;
        };
        let on_cpu_ns = self.on_cpu_ns(task);
        if let Some(open) = self.moves.get_mut(slot).filter(|open| !open.over) {
            open.row.run_ns = Some(on_cpu_ns - open.on_cpu_ns);
        }
        self.doubt_exec(slot);
        self.emit_move(slot);
    }

    /// Whether the task's `sched_process_exec` would have followed will not be known: only one move of a task is open.
    fn doubt_exec(&mut self, slot: usize) {
        let now = self.now;
        if let Some(open) = self.moves.get_mut(slot)
            && let Awaits::Exec(until) = open.awaits
        {
            open.awaits = Awaits::Nothing;
            if now <= until {
                open.row.confidence = Confidence::Unsure;
            }
        }
    }

    /// What the task did after its last move is not known.
    pub(super) fn forget_move(&mut self, task: TaskId) {
        let Some(slot) = self.tasks[task].moved else {
            return;
        };
        self.doubt_exec(slot);
        let Some(open) = self.moves.get_mut(slot) else {
            return;
        };
        open.over = true;
        if open.awaits == Awaits::Nothing {
            self.emit_move(slot);
        }
    }

    /// A wait of the task is over, or it is moved in it: what was lost is charged to its last move.
    #[inline]
    pub(super) fn charge_move(&mut self, task: TaskId, wait: usize, lost_ns: Pair<i64>) {
        let moved = self.tasks[task].moved;
        let Some(open) = moved.and_then(|slot| self.moves.get_mut(slot)) else {
            return;
        };
        if open.over {
            return;
        }
        let before = open.wait.take_if(|(slot, _)| *slot == wait);
        let before = before.map_or(Pair([0, 0]), |(_, lost)| lost);
        for reading in [Reading::Seen, Reading::Any] {
            open.row.lost_ns[reading] += lost_ns[reading] - before[reading];
        }
    }

    /// The cause of an open move is known, if it still is that move.
    pub(super) fn settle_move(&mut self, (slot, serial): (usize, u64), cause: Cause) {
        let open = self
            .moves
            .get_mut(slot)
            .filter(|open| open.serial == serial);
        if let Some(open) = open {
            (open.row.cause, open.row.confidence) = cause;
            self.keep_guess((slot, serial));
        }
    }

    /// No more will be known of the cause of an open move.
    pub(super) fn keep_guess(&mut self, (slot, serial): (usize, u64)) {
        let open = self
            .moves
            .get_mut(slot)
            .filter(|open| open.serial == serial);
        if let Some(open) = open {
            open.awaits = Awaits::Nothing;
            if open.over {
                self.emit_move(slot);
            }
        }
    }

    /// The task became another program.
    pub(super) fn settle_exec(&mut self, task: TaskId, cause: Cause) {
        let Some(slot) = self.tasks[task].moved else {
            return;
        };
        let now = self.now;
        let Some(open) = self.moves.get(slot) else {
            return;
        };
        let serial = open.serial;
        match open.awaits {
            Awaits::Exec(until) if now <= until => self.settle_move((slot, serial), cause),
            Awaits::Exec(_) => self.keep_guess((slot, serial)),
            _ => {}
        }
    }

    fn emit_move(&mut self, slot: usize) {
        let Some(open) = self.moves.get(slot) else {
            return;
        };
        self.sink.migration(&open.row);
        let moved = &mut self.tasks[open.row.task].moved;
        moved.take_if(|moved| *moved == slot);
        // Only given back: a value that is returned would be moved.
        self.moves.try_remove(slot);
    }

    /// At the trace's end every open move goes out as it is.
    pub(super) fn close_moves(&mut self) {
        let slots: Vec<usize> = self.moves.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.emit_move(slot);
        }
    }
}
