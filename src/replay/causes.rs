//! Why a task was moved: who was current where it was moved, in which context, and what that CPU did next
//! (`analysis` §6; what calls `set_task_cpu()` in kernels 4.3 to 6.18, kernel/sched).
//!
//! A migration by itself does not tell. A CPU that pulls because it is about to run nothing does so inside
//! `__schedule()`: its running task is current still, and its next switch shows whether that task was leaving. A stopper
//! carries out what another asked of it: who woke it tells what for. `sched_exec()` looks like a change of affinity
//! until the task's `sched_process_exec`.

use super::engine::Replay;
use super::machine::Current;
use super::rows::{Sink, TaskId};
use super::steps::Switch;
use super::tasks::TaskState;
use super::words::{Confidence, MigrationCause, MigrationKind, Waker};
use crate::topology::Distance;

/// Most moves that may wait for a CPU's next switch: balancing takes at most 32 tasks at once
/// (`sysctl_sched_nr_migrate`).
const AWAITING: usize = 64;

/// How long what announces a move may lie behind or before it: the two are in one system call, which may sleep.
const NEAR_NS: i64 = 100_000_000;

/// SCHED_SOFTIRQ (`include/linux/interrupt.h`).
const SCHED_SOFTIRQ: u32 = 7;

/// A cause, and how sure it is.
pub(super) type Cause = (MigrationCause, Confidence);

const UNKNOWN: Cause = (MigrationCause::Unknown, Confidence::Unsure);

/// What is ruled of a move as it happens: its cause, or the best guess until more is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ruling {
    pub guess: Cause,
    pub awaits: Awaits,
}

/// What will tell the cause of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    Nothing,
    /// The next switch of this CPU, to which it was moved by the task that runs there.
    Pull(usize),
    /// The next switch of this CPU, whose running task woke the stopper that moved it there, and what it was if that
    /// task does not leave.
    Push(usize, Cause),
    /// Its `sched_process_exec`, up to a stamp.
    Exec(i64),
}

/// What is known as a task is moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moving {
    pub task: TaskId,
    pub state: TaskState,
    pub by: usize,
    pub to: usize,
    pub kind: MigrationKind,
    pub distance: Distance,
    pub context: Waker,
    pub by_stopper: bool,
}

/// What a CPU's next switch will tell of migrations, and what its stopper was woken for.
#[derive(Debug, Clone, Default)]
pub struct CpuMoves {
    /// Whether its next switch tells anything.
    pub watched: bool,
    awaiting: Vec<Awaiting>,
    /// Its running task woke another since: it was not leaving.
    went_on: bool,
    /// The CPU whose stopper its running task woke last.
    woke: Option<usize>,
    /// Who woke its own stopper last.
    stopper: Option<StopperWake>,
}

/// A move whose cause a CPU's next switch tells.
#[derive(Debug, Clone, Copy)]
struct Awaiting {
    slot: usize,
    serial: u64,
    task: TaskId,
    mover: Option<TaskId>,
    /// `None` for a pull.
    push: Option<Cause>,
}

/// How a stopper was woken.
#[derive(Debug, Clone, Copy)]
struct StopperWake {
    cpu: usize,
    waker: Option<TaskId>,
    context: Waker,
    /// The idle task woke it.
    by_idle: bool,
    /// Whether the waker left its CPU right after, once that is known.
    left: Option<bool>,
    /// It has moved a task since.
    used: bool,
}

fn certain(cause: MigrationCause) -> Ruling {
    now(cause, Confidence::Certain)
}

fn now(cause: MigrationCause, confidence: Confidence) -> Ruling {
    Ruling {
        guess: (cause, confidence),
        awaits: Awaits::Nothing,
    }
}

fn softirq(context: Waker) -> bool {
    matches!(
        context,
        Waker::SoftirqInline | Waker::SoftirqIrqExit | Waker::SoftirqUnknown
    )
}

impl<S: Sink> Replay<'_, S> {
    /// The cause of a move, as far as it is known as it happens.
    pub(super) fn rule(&mut self, moving: &Moving) -> Ruling {
        if moving.kind == MigrationKind::Wakeup {
            return self.rule_wakeup(moving);
        }
        let announced = self.tasks[moving.task].numa.take();
        if announced.is_some_and(|at| self.now - at <= NEAR_NS) && moving.by_stopper {
            return certain(MigrationCause::Numa);
        }
        if moving.by_stopper {
            return self.rule_stopper(moving);
        }
        let task = &self.tasks[moving.task];
        if task.forked && !task.has_lived() {
            return certain(MigrationCause::ForkExec);
        }
        if matches!(moving.state, TaskState::Running { .. }) {
            return now(MigrationCause::Unknown, Confidence::Unsure);
        }
        let asleep = matches!(
            moving.kind,
            MigrationKind::Sleeping | MigrationKind::Unknown
        );
        if asleep && !self.config.recorded.waking {
            // Kernels that have no `sched_waking` announce a queued wakeup by nothing else.
            return match self.config.model.delayed_dequeue() {
                true => now(MigrationCause::Wakeup, Confidence::Unsure),
                false => now(MigrationCause::Wakeup, Confidence::Likely),
            };
        }
        // It does so itself; in an interrupt it is only who was interrupted.
        if moving.context == Waker::Task
            && self.asked_by(moving.task, self.current_task(moving.by))
            && self.is_asked_still(moving)
        {
            return certain(MigrationCause::Affinity);
        }
        if !self.tasks[moving.task].fair() {
            return now(MigrationCause::Rt, Confidence::Likely);
        }
        self.rule_balanced(moving)
    }

    fn rule_wakeup(&self, moving: &Moving) -> Ruling {
        let waking = self.tasks[moving.task].waking;
        let open = waking.and_then(|slot| self.wakes.get(slot));
        match open.is_some_and(|open| open.waker_cpu == moving.by) {
            true => certain(MigrationCause::Wakeup),
            false => now(MigrationCause::Wakeup, Confidence::Likely),
        }
    }

    /// A fair task was moved while queued, or while it slept and its dequeue was delayed, and not by a stopper.
    fn rule_balanced(&self, moving: &Moving) -> Ruling {
        let by = &self.cpus[moving.by];
        let balanced_by_softirq = match (by.serving_vector, moving.kind) {
            (Some(vector), _) if vector != SCHED_SOFTIRQ => Confidence::Unsure,
            // Its waking may not have been seen.
            (_, MigrationKind::Unknown) => Confidence::Likely,
            _ => Confidence::Certain,
        };
        match moving.context {
            context if softirq(context) => now(MigrationCause::Periodic, balanced_by_softirq),
            Waker::Task if moving.to == moving.by && by.current != Current::Unknown => Ruling {
                guess: (MigrationCause::NewIdle, Confidence::Unsure),
                awaits: Awaits::Pull(moving.by),
            },
            // Only a change of the tasks' masks moves a queued task between two other CPUs, but for the balancing that
            // an idle CPU did for others as it went idle before 5.12 (`nohz_newidle_balance()`).
            Waker::Task if matches!(by.current, Current::Task(_)) => {
                let sure =
                    self.config.model.version >= (5, 12) && moving.kind == MigrationKind::Runnable;
                match sure {
                    true => now(MigrationCause::Affinity, Confidence::Likely),
                    false => now(MigrationCause::Affinity, Confidence::Unsure),
                }
            }
            _ => now(MigrationCause::Unknown, Confidence::Unsure),
        }
    }

    fn rule_stopper(&mut self, moving: &Moving) -> Ruling {
        let fair = self.tasks[moving.task].fair();
        let Some(wake) = self.cpus[moving.by].moves.stopper.as_mut() else {
            return now(MigrationCause::Unknown, Confidence::Unsure);
        };
        let again = std::mem::replace(&mut wake.used, true);
        let wake = *wake;
        if wake.waker == Some(moving.task) && wake.context == Waker::Task {
            return self.rule_own_stopper(moving);
        }
        let by_task = wake.context == Waker::Task;
        let ruling = if by_task && self.asked_by(moving.task, wake.waker) {
            certain(MigrationCause::Affinity)
        } else if !fair {
            // `push_cpu_stop()`, since 5.11.
            now(MigrationCause::Rt, Confidence::Likely)
        } else if softirq(wake.context) || wake.by_idle {
            certain(MigrationCause::Active)
        } else if wake.context != Waker::Task || wake.waker.is_none() {
            now(MigrationCause::Unknown, Confidence::Unsure)
        } else {
            self.rule_asked(moving, &wake)
        };
        match (again, ruling.awaits) {
            // Whether it was woken for this one too is not known.
            (true, Awaits::Nothing) => now(ruling.guess.0, Confidence::Unsure),
            (true, _) => now(MigrationCause::Unknown, Confidence::Unsure),
            (false, _) => ruling,
        }
    }

    /// Another task woke the stopper: to change the mask of the one that was moved, or because its own CPU was about to
    /// run nothing. A pull goes to that CPU, and its running task leaves it right after.
    fn rule_asked(&self, moving: &Moving, wake: &StopperWake) -> Ruling {
        let affinity = self.affinity(moving);
        if moving.to != wake.cpu {
            return affinity;
        }
        match wake.left {
            Some(true) => now(MigrationCause::Active, Confidence::Likely),
            Some(false) => affinity,
            None => Ruling {
                guess: (MigrationCause::Active, Confidence::Unsure),
                awaits: Awaits::Push(wake.cpu, affinity.guess),
            },
        }
    }

    /// The task woke the stopper that moved it: it changed its own mask, or called `execve`.
    fn rule_own_stopper(&self, moving: &Moving) -> Ruling {
        if self.asked_by(moving.task, Some(moving.task)) {
            return certain(MigrationCause::Affinity);
        }
        let mut ruling = self.affinity(moving);
        if self.config.recorded.exec {
            ruling.awaits = Awaits::Exec(self.now.saturating_add(NEAR_NS));
        } else {
            ruling.guess.1 = Confidence::Unsure;
        }
        ruling
    }

    /// A change of affinity, unless NUMA balancing may have done it unseen.
    fn affinity(&self, moving: &Moving) -> Ruling {
        let far = matches!(moving.distance, Distance::Remote | Distance::Unknown);
        let numa = far && !self.config.recorded.numa;
        match numa || !self.tasks[moving.task].fair() {
            true => now(MigrationCause::Affinity, Confidence::Unsure),
            false => now(MigrationCause::Affinity, Confidence::Likely),
        }
    }

    /// Whether a task asked just now for a change of another's mask, or of its own.
    fn asked_by(&self, task: TaskId, asker: Option<TaskId>) -> bool {
        let asked = self.tasks[task].asked;
        asked.is_some_and(|(at, by)| Some(by) == asker && self.now - at <= NEAR_NS)
    }

    /// Whether a queued task waited already when the CPU's task asked for another mask of it, and that has not left its
    /// CPU since: what slept then, or ran, is not moved for that out of a queue that it came to later.
    fn is_asked_still(&self, moving: &Moving) -> bool {
        let task = &self.tasks[moving.task];
        let Some((at, _)) = task.asked else {
            return false;
        };
        let wait = task.wait.and_then(|slot| self.waits.get(slot));
        wait.is_none_or(|wait| wait.start <= at) && self.stint(moving.by).1 <= at
    }

    /// `sched_setaffinity` was called for a pid; 0 is the caller.
    pub(super) fn affinity_asked(&mut self, caller: i32, pid: i32) {
        let Some(asker) = self.tasks.find(caller) else {
            return;
        };
        let task = match pid {
            0 => Some(asker),
            pid => self.tasks.find(pid),
        };
        if let Some(task) = task {
            self.tasks[task].asked = Some((self.now, asker));
        }
    }

    /// NUMA balancing announced a move.
    pub(super) fn numa_announced(&mut self, pid: i32) {
        if let Some(task) = self.tasks.find(pid) {
            self.tasks[task].numa = Some(self.now);
        }
    }

    /// A stopper was woken.
    #[cold]
    pub(super) fn stopper_woken(&mut self, cpu: usize, stopper_cpu: u32, context: Waker) {
        let Some(stopper_cpu) = self.machine.cpus.index(stopper_cpu) else {
            return;
        };
        self.cpus[stopper_cpu].moves.stopper = Some(StopperWake {
            cpu,
            waker: self.current_task(cpu),
            context,
            by_idle: self.cpus[cpu].current == Current::Nothing && context == Waker::Task,
            left: None,
            used: false,
        });
        let moves = &mut self.cpus[cpu].moves;
        moves.woke = Some(stopper_cpu);
        moves.watched = true;
        if moves.awaiting.is_empty() {
            moves.went_on = false;
        }
    }

    /// The running task of a watched CPU woke another: it is not about to leave.
    #[cold]
    pub(super) fn went_on(&mut self, cpu: usize) {
        self.cpus[cpu].moves.went_on = true;
    }

    /// An open move waits for a CPU's next switch; false if too many do.
    pub(super) fn await_switch(
        &mut self,
        (slot, serial): (usize, u64),
        task: TaskId,
        awaits: Awaits,
    ) -> bool {
        let (cpu, push) = match awaits {
            Awaits::Pull(cpu) => (cpu, None),
            Awaits::Push(cpu, otherwise) => (cpu, Some(otherwise)),
            Awaits::Nothing | Awaits::Exec(_) => return true,
        };
        let mover = self.current_task(cpu);
        let moves = &mut self.cpus[cpu].moves;
        if moves.awaiting.len() >= AWAITING {
            return false;
        }
        if push.is_none() && moves.awaiting.is_empty() && moves.woke.is_none() {
            moves.went_on = false;
        }
        moves.watched = true;
        moves.awaiting.push(Awaiting {
            slot,
            serial,
            task,
            mover,
            push,
        });
        true
    }

    /// A watched CPU switches: whether its running task leaves tells what it pulled, and what it woke a stopper for.
    #[cold]
    pub(super) fn judge_moves(&mut self, cpu: usize, switch: &Switch) {
        let living = |number| self.tasks.find_numbered(number);
        let (prev, next) = (switch.prev.and_then(living), switch.next.and_then(living));
        let idle = switch.prev.is_none();
        let moves = &mut self.cpus[cpu].moves;
        moves.watched = false;
        let left = !moves.went_on && (idle || !switch.prev_state.runnable());
        let woke = moves.woke.take();
        let mut awaiting = std::mem::take(&mut moves.awaiting);
        if let Some(stopper) = woke.and_then(|at| self.cpus[at].moves.stopper.as_mut())
            && stopper.cpu == cpu
            && stopper.left.is_none()
        {
            stopper.left = Some(left && stopper.waker == prev);
        }
        let pulled = awaiting.iter().filter(|a| a.push.is_none());
        let runs_next = next.is_some() && pulled.map(|a| Some(a.task)).any(|task| task == next);
        for pending in &awaiting {
            let same = pending.mover == prev && idle == pending.mover.is_none();
            let cause = match (pending.push, same && left) {
                (None, true) if runs_next => (MigrationCause::NewIdle, Confidence::Certain),
                (None, true) => (MigrationCause::NewIdle, Confidence::Likely),
                (None, false) if same => (MigrationCause::Affinity, Confidence::Unsure),
                (None, false) => UNKNOWN,
                (Some(_), true) => (MigrationCause::Active, Confidence::Likely),
                (Some(otherwise), false) => otherwise,
            };
            self.settle_move((pending.slot, pending.serial), cause);
        }
        // Only given back for its storage.
        awaiting.clear();
        self.cpus[cpu].moves.awaiting = awaiting;
    }

    /// The CPU's next switch is not recorded: what waits for it stays a guess.
    pub(super) fn forget_moves_of(&mut self, cpu: usize) {
        let moves = std::mem::take(&mut self.cpus[cpu].moves);
        for pending in moves.awaiting {
            self.keep_guess((pending.slot, pending.serial));
        }
    }

    /// `sched_process_exec`: what moved the task before was `sched_exec()`, unless it is known to have been otherwise.
    pub(super) fn executed(&mut self, pid: i32) {
        let Some(task) = self.tasks.find(pid) else {
            return;
        };
        let confidence = match self.config.recorded.set_affinity {
            true => Confidence::Certain,
            // It may have changed its own mask before, as `taskset` does.
            false => Confidence::Likely,
        };
        self.settle_exec(task, (MigrationCause::ForkExec, confidence));
    }
}
