//! What kind of wakeup it was: its class and path, whether a CPU was selected for it, and what the kernel's probes say
//! (kernel notes §1 and §9).

use super::engine::Replay;
use super::rows::{Sink, TaskId};
use super::steps::Enqueue;
use super::tasks::TaskState;
use super::wakeups::OpenWake;
use super::words::{Class, Path, Reading, Waker};
use ttwu_parsers::event::ContextFlags;

/// So many direct wakeups across LLCs show that the TTWU_QUEUE feature is off: one may be a hotplug race.
const QUEUEING_OFF: u64 = 3;

impl<S: Sink> Replay<'_, S> {
    /// The context a wakeup was made in, and the task it is charged to: none for an interrupt, the
    /// interrupted task for a soft interrupt.
    pub(super) fn waker_of(&self, cpu: usize, flags: ContextFlags) -> (Waker, Option<TaskId>) {
        let current = self.current_task(cpu);
        if flags.nmi() {
            (Waker::Nmi, None)
        } else if flags.hardirq() {
            (Waker::Hardirq, None)
        } else if flags.softirq() {
            let context = match self.cpus[cpu].serving {
                Some(true) => Waker::SoftirqInline,
                Some(false) => Waker::SoftirqIrqExit,
                None => Waker::SoftirqUnknown,
            };
            (context, current)
        } else {
            (Waker::Task, current)
        }
    }

    /// Whether the wakee may still be queued where it blocked (6.12 and later): its CPU has not run
    /// nothing since, and the wakeup left it there.
    pub(super) fn may_be_delayed(&self, wakee: TaskId, prev_cpu: u32, chosen: usize) -> bool {
        let task = &self.tasks[wakee];
        if !self.config.model.delayed_dequeue()
            || !task.fair()
            || self.machine.cpus.index(prev_cpu) != Some(chosen)
        {
            return false;
        }
        let since = task
            .last_out
            .map(|(left, _, _)| left)
            .max(task.moved_asleep);
        match (since, self.cpus[chosen].went_idle) {
            (Some(since), Some(idle)) => idle < since,
            // Its CPU ran nothing since it is watched, and the task was not seen to leave it: it left before that.
            (None, Some(_)) => false,
            _ => true,
        }
    }

    /// Whether the events leave open that no CPU was chosen: on another CPU, or on the waker's own.
    pub(super) fn may_be_requeue(&self, slot: usize, class: Class, enqueue: Enqueue) -> bool {
        let open = &self.wakes[slot];
        let probed = open.info.as_ref().is_some_and(|i| i.probe.is_some());
        let prev = open.row.prev_cpu.unwrap_or(u32::MAX);
        let chosen = self.machine.cpus.index(enqueue.chosen);
        match class {
            Class::DirectOrDelayed => true,
            Class::Local => {
                !probed && chosen.is_some_and(|c| self.may_be_delayed(open.row.wakee, prev, c))
            }
            _ => false,
        }
    }

    pub(super) fn class(&self, slot: usize, enqueue: Enqueue) -> Class {
        let open = &self.wakes[slot];
        let waker_cpu = self.machine.cpus.id(open.waker_cpu);
        let wakee = open.row.wakee;
        let here = enqueue.cpu == waker_cpu;
        let in_place = open.row.prev_cpu == Some(enqueue.chosen);
        let still_there = matches!(
            self.tasks[wakee].state,
            TaskState::Running { .. } | TaskState::Queued { .. }
        );
        if open.by_itself && here && still_there {
            return if self.config.model.self_shortcut() {
                Class::SelfWake
            } else {
                Class::FastPath
            };
        }
        if still_there && here && in_place {
            return Class::FastPath;
        }
        if !enqueue.recorded {
            return if enqueue.chosen == waker_cpu {
                Class::Local
            } else {
                Class::Unknown
            };
        }
        if !here {
            return if enqueue.cpu == enqueue.chosen {
                Class::Queued
            } else {
                Class::Anomaly
            };
        }
        if enqueue.chosen == waker_cpu {
            return Class::Local;
        }
        self.direct_class(open, enqueue)
    }

    /// Enqueued by the waker on another CPU: by a wakeup proper, or in place because the wakee's dequeue
    /// was delayed. Across LLCs a wakeup proper is queued, so only the latter is left.
    pub(super) fn direct_class(&self, open: &OpenWake, enqueue: Enqueue) -> Class {
        let selected = open.info.as_ref().is_some_and(|i| i.probe.is_some());
        let Some(chosen) = self.machine.cpus.index(enqueue.chosen) else {
            return Class::Anomaly;
        };
        let prev = open.row.prev_cpu.unwrap_or(u32::MAX);
        if selected || !self.may_be_delayed(open.row.wakee, prev, chosen) {
            return Class::Direct;
        }
        let crosses = self.distances.crosses_llc(open.waker_cpu, chosen) == Some(true);
        if crosses && self.cross_direct < QUEUEING_OFF {
            Class::Delayed
        } else {
            Class::DirectOrDelayed
        }
    }

    pub(super) fn note_direct_crossing(&mut self, slot: usize, class: Class, enqueue: Enqueue) {
        if class != Class::Direct {
            return;
        }
        let open = &self.wakes[slot];
        let target = self.machine.cpus.index(enqueue.chosen);
        let crosses =
            target.and_then(|t| self.distances.crosses_llc(open.waker_cpu, t)) == Some(true);
        if crosses && self.tasks[open.row.wakee].fair() {
            self.cross_direct += 1;
        }
    }

    pub(super) fn path(&self, slot: usize, class: Class, enqueue: Enqueue) -> Path {
        let open = &self.wakes[slot];
        let recorded = self.config.recorded;
        let Some(info) = &open.info else {
            return Path::Unknown;
        };
        let expected = info.enqueue.is_some_and(|e| e.chosen == enqueue.chosen);
        let (ipi, polled) = (expected && info.ipi, expected && info.polled);
        match class {
            Class::Anomaly | Class::Unknown => Path::Unknown,
            Class::Queued if ipi => Path::QueuedIpi,
            Class::Queued if polled => Path::QueuedPolling,
            Class::Queued if recorded.ipi_send || info.behind_another => Path::QueuedCoalesced,
            // Before 6.4 only the receiving side tells: in an interrupt, or in the idle loop.
            Class::Queued if enqueue.flags.hardirq() || info.vector_seen => Path::QueuedIpi,
            Class::Queued => Path::QueuedPolling,
            _ if enqueue.chosen == self.machine.cpus.id(open.waker_cpu) => Path::Local,
            _ if ipi => Path::DirectIpi,
            _ if polled || recorded.ipi_send => Path::DirectNoIpi,
            _ if info.vector_seen => Path::DirectIpi,
            _ => Path::Unknown,
        }
    }

    pub(super) fn pinned(&mut self, task: TaskId) -> bool {
        let masks = self.masks_of(task);
        self.masks.is_single(masks[Reading::Any])
    }

    /// Whether `select_task_rq` ran for a fair wakee.
    pub(super) fn selection(
        &self,
        slot: usize,
        class: Class,
        on_cpu_queued: bool,
        pinned: bool,
    ) -> Option<bool> {
        let wakee = self.wakes[slot].row.wakee;
        if !self.tasks[wakee].fair() {
            return None;
        }
        let probed = self.wakes[slot]
            .info
            .as_ref()
            .is_some_and(|i| i.probe.is_some());
        if probed || self.config.recorded.probes {
            return Some(probed);
        }
        match class {
            Class::SelfWake | Class::FastPath | Class::Delayed => Some(false),
            Class::Queued if on_cpu_queued => Some(false),
            Class::Local | Class::Direct | Class::Queued => Some(!pinned),
            // Fork balancing is no idle search.
            Class::New | Class::DirectOrDelayed | Class::Anomaly | Class::Unknown => None,
        }
    }

    /// Woken by a per-CPU kernel thread onto its own CPU, where it also ran before (5.6 and later).
    pub(super) fn kthread_stacked(&self, slot: usize, enqueue: Enqueue) -> bool {
        let open = &self.wakes[slot];
        let by_kthread = open
            .row
            .waker
            .is_some_and(|w| self.tasks[w].bound_to == Some(open.waker_cpu));
        self.config.model.kthread_stacking()
            && by_kthread
            && open.row.context == Waker::Task
            && enqueue.chosen == self.machine.cpus.id(open.waker_cpu)
            && open.row.prev_cpu == Some(enqueue.chosen)
    }

    /// Holds the replay's reading of a selection against the kernel's own.
    pub(super) fn check_probe(&mut self, slot: usize, enqueue: Enqueue) {
        let open = &mut self.wakes[slot];
        let Some(info) = &open.info else {
            return;
        };
        let Some(probe) = info.probe else {
            return;
        };
        let (Ok(prev), Ok(chosen)) = (u32::try_from(probe.prev), u32::try_from(probe.chosen))
        else {
            return;
        };
        let sync = self.config.model.sync_flag().zip(probe.wake_flags);
        open.row.probed = Some((prev, chosen));
        open.row.sync = sync.map(|(bit, flags)| flags & bit != 0);
        open.row.flips = probe.flips;
        if open.row.in_window {
            self.counts.probes_checked += 1;
            self.counts.probes_prev_equal += u64::from(prev == info.prev_cpu);
            self.counts.probes_chosen_equal += u64::from(chosen == enqueue.chosen);
            if let Some(sync) = open.row.sync {
                *self.counts.probes_sync.get_or_insert(0) += u64::from(sync);
            }
            self.counts.probes_masks += u64::from(probe.mask.is_some());
            self.counts.probes_flips_max = self.counts.probes_flips_max.max(probe.flips);
        }
    }
}
