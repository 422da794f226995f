//! Where a task may run: what is known of it, and the two readings where nothing is (`analysis` §1).
//!
//! The machine record gives masks as of the start. Such a mask holds until the task's next change, goes along with
//! `exec`, and is inherited by children. A task that is seen elsewhere refutes it.

use super::cpuset::{CpuSet, MaskId};
use super::engine::Replay;
use super::rows::{Sink, TaskId};
use super::snapshot;
use super::steps::{Probe, WakeInfo};
use super::tasks::{TaskState, Told, bound_cpu};
use super::words::{Pair, Reading};
use ttwu_parsers::event::{Comm, CpuMask};

/// The kernel thread that starts all others: they set their own masks, and do not keep its.
const KTHREADD: i32 = 2;

/// Until when a mask that was told holds.
struct Holds {
    mask: MaskId,
    until: i64,
    /// It ends because the task was seen where it does not allow it to be.
    refuted: bool,
}

impl<S: Sink> Replay<'_, S> {
    /// A task's masks under both readings, as of now.
    pub(super) fn masks_of(&mut self, task: TaskId) -> Pair<MaskId> {
        let state = &self.tasks[task];
        if let Some(mask) = state.bound_mask.or(state.probed_mask) {
            return Pair([mask, mask]);
        }
        if self.now >= state.masks_until {
            self.look_up_masks(task);
        }
        self.tasks[task].masks
    }

    #[cold]
    fn look_up_masks(&mut self, task: TaskId) {
        if let Some(told) = self.told_until(task).filter(|told| self.now < told.until) {
            let state = &mut self.tasks[task];
            state.masks = Pair([told.mask, told.mask]);
            state.masks_until = told.until;
            state.mask_told = true;
            state.seen_on_several = true;
            return;
        }
        let pid = self.tasks[task].pid;
        let seen = self.survey.seen(pid, self.now, &self.machine.cpus);
        let seen = self.masks.intern(seen);
        let state = &mut self.tasks[task];
        state.masks = Pair([seen, MaskId::ALL]);
        (state.masks_since, state.masks_until) = self.survey.epoch(pid, self.now);
        state.seen_on_several = self.survey.surely_seen(pid, self.now) > 1;
        state.mask_told = false;
    }

    fn told_until(&self, task: TaskId) -> Option<Holds> {
        let Told { mask, since } = self.tasks[task].told?;
        let pid = self.tasks[task].pid;
        let changed = self.survey.epoch(pid, since).1;
        let allowed = self.masks.get(mask);
        let outside = |cpu| match self.machine.cpus.index(cpu) {
            Some(cpu) => !allowed.contains(cpu),
            None => false,
        };
        let seen_outside = self.survey.first_seen(pid, (since, changed), outside);
        Some(Holds {
            mask,
            until: seen_outside.unwrap_or(changed),
            refuted: seen_outside.is_some(),
        })
    }

    /// Whether the task was seen where the machine record says that it may not run.
    pub(super) fn refutes_record(&self, task: TaskId) -> bool {
        self.told_until(task).is_some_and(|told| told.refuted)
    }

    /// The mask that was told of a task, if it holds now, as one that is known from now on.
    pub(super) fn told_now(&self, task: TaskId) -> Option<Told> {
        let told = self.told_until(task)?;
        (self.now < told.until).then_some(Told {
            mask: told.mask,
            since: self.now,
        })
    }

    /// The mask that a child is born with: the kernel copies its parent's.
    pub(super) fn inherited(&self, parent_pid: i32) -> Option<Told> {
        let parent = self.tasks.find(parent_pid)?;
        self.told_now(parent).filter(|_| parent_pid != KTHREADD)
    }

    pub(super) fn rename(&mut self, task: TaskId, comm: Comm) {
        self.tasks[task].rename(comm);
        self.tasks[task].stopper = comm.as_bytes().starts_with(b"migration/");
        let bound = bound_cpu(&comm).and_then(|cpu| self.machine.cpus.index(cpu));
        let pid = self.tasks[task].pid;
        // Anyone can take such a name: it counts only if the task was seen nowhere else.
        let bound = bound.map(|cpu| (cpu, CpuSet::only(self.machine.cpus.len(), cpu)));
        let bound = bound.filter(|(_, only)| {
            let seen = self.survey.seen(pid, self.now, &self.machine.cpus);
            seen.is_subset(only)
        });
        self.tasks[task].bound_to = bound.as_ref().map(|(cpu, _)| *cpu);
        self.tasks[task].bound_mask = bound.map(|(_, only)| self.masks.intern(only));
    }

    /// The task's mask changes: if it waits, it does so under the new one from now on.
    pub(super) fn mask_changed(&mut self, pid: i32) {
        let Some(task) = self.tasks.find(pid) else {
            return;
        };
        if let TaskState::Queued { cpu } = self.tasks[task].state
            && self.tasks[task].waiting_at.is_some()
        {
            self.stop_waiting(task, cpu);
            self.start_waiting(task, cpu);
        }
    }

    /// Takes in masks that the next wakings name by number.
    pub(super) fn learn_masks(&mut self, masks: &[CpuMask]) {
        for mask in masks {
            let known = snapshot::intern(mask.cpus(), &self.machine.cpus, &mut self.masks);
            self.probed_masks.push(known);
        }
    }

    fn probed_mask(&self, probe: &Probe) -> Option<MaskId> {
        match probe.mask {
            Some(number) => self.probed_masks.get(number.index()).copied().flatten(),
            None if usize::try_from(probe.allowed) == Ok(self.config.online_cpus) => {
                Some(MaskId::ALL)
            }
            None => None,
        }
    }

    /// What the selection probe says of the wakee's mask. One of several CPUs holds for this wakeup; a fair sleeper
    /// woken without a selection was pinned, unless its dequeue was delayed or, for once, its migration disabled.
    pub(super) fn set_probed_mask(&mut self, wakee: TaskId, info: &WakeInfo) {
        if !self.config.recorded.probes || !self.tasks[wakee].fair() {
            return;
        }
        let (known, once) = match (&info.probe, info.enqueue) {
            (Some(probe), _) => {
                let known = self.probed_mask(probe);
                (known, known.is_some_and(|mask| !self.masks.is_single(mask)))
            }
            (None, Some(enqueue)) => {
                let chosen = self.machine.cpus.index(enqueue.chosen);
                let pinned = chosen.filter(|&cpu| {
                    !self.running(wakee) && !self.may_be_delayed(wakee, info.prev_cpu, cpu)
                });
                let len = self.machine.cpus.len();
                let pinned = pinned.map(|cpu| self.masks.intern(CpuSet::only(len, cpu)));
                (pinned, pinned.is_some() && self.may_run_elsewhere(wakee))
            }
            (None, None) => (None, false),
        };
        // Absence of proof leaves a pinning that was proved before.
        if known.is_some() || info.probe.is_some() {
            self.tasks[wakee].probed_mask = known;
            self.tasks[wakee].probed_once = once;
        }
    }

    /// Whether the machine record says that several CPUs are allowed.
    fn may_run_elsewhere(&mut self, task: TaskId) -> bool {
        if self.now >= self.tasks[task].masks_until {
            self.look_up_masks(task);
        }
        let state = &self.tasks[task];
        state.mask_told && !self.masks.is_single(state.masks[Reading::Any])
    }
}
