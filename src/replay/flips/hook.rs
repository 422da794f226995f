//! Which wakeups the kernel counts, found while events are replayed.
//!
//! What a wakeup was is known at its enqueue only, but counters change in the order of the wakings: steps are held back
//! until those before them are known.

use std::collections::VecDeque;

use super::{Asked, Charged, FlipStep, FlipWake};
use crate::replay::cpuset::MaskId;
use crate::replay::engine::Replay;
use crate::replay::machine::Current;
use crate::replay::rows::{Sink, TaskId};
use crate::replay::steps::{Enqueue, Step, WakeInfo};
use crate::replay::tasks::TaskState;
use crate::replay::words::{Class, Reading};
use ttwu_parsers::event::Selection;

/// Stands for a wakeup that has no step.
pub(in crate::replay) const NO_FLIP: u64 = u64::MAX;

/// So many steps wait before those whose fate is known are let go: what was only just written would have to be waited for
/// as it is copied.
const GATHERED: usize = 64;

/// Steps held back.
#[derive(Debug, Default)]
pub(in crate::replay) struct Held {
    steps: VecDeque<(FlipStep, Fate)>,
    /// How many were let go: the number of the first that is held.
    released: u64,
    /// A probe was seen: from there on the lack of one means something.
    probes_seen: bool,
    /// Since when a CPU's events are missing, by dense number, and of how many CPUs they are.
    dark: Vec<Option<i64>>,
    dark_cpus: usize,
    /// When a CPU's last event came, by dense number, where ticks may be late.
    seen: Vec<i64>,
}

/// What is to become of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Go,
    Drop,
}

impl Held {
    fn push(&mut self, step: FlipStep, fate: Fate) -> u64 {
        self.steps.push_back((step, fate));
        self.released + self.steps.len() as u64 - 1
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut (FlipStep, Fate)> {
        let place = number.checked_sub(self.released)?;
        self.steps.get_mut(usize::try_from(place).ok()?)
    }
}

impl<S: Sink> Replay<'_, S> {
    /// A waking, of which it is not known yet what it is. Returns the number of its step.
    #[inline]
    pub(in crate::replay) fn hold_flip(
        &mut self,
        cpu: usize,
        step: &Step,
        wakee: TaskId,
        info: &WakeInfo,
    ) -> u64 {
        // Only fair tasks are counted, and nobody wakes himself: he is on his CPU.
        if !self.tasks[wakee].fair() || step.pid == self.tasks[wakee].pid || step.pid < 0 {
            return NO_FLIP;
        }
        self.flips.probes_seen |= info.probe.is_some();
        let waker = self.charged(cpu, step.pid);
        if self.flips.dark_cpus > 0 {
            self.forget_unwatched(waker, wakee);
        }
        let prev = self.machine.cpus.index(info.prev_cpu);
        let affine = self.config.flips.affine.get(cpu).and_then(Option::as_ref);
        let reaches = |prev| affine.is_none_or(|affine| affine.contains(prev));
        let wake = FlipWake {
            waking_ns: self.now,
            chosen_ns: info.choice_ns.unwrap_or(self.now).max(self.now),
            late_ns: self.late_ticks(cpu),
            waker,
            wakee,
            waker_cpu: cpu,
            waker_cpu_id: step.cpu,
            chosen_cpu: info.enqueue.map(|enqueue| enqueue.chosen),
            sure: false,
            in_task: !(step.flags.hardirq() || step.flags.softirq() || step.flags.nmi()),
            asked: Asked {
                old: prev.is_some_and(|prev| prev != cpu && reaches(prev)),
                new: true,
            },
            probed: info.probe.and_then(|probe| probe.flips),
            pulled: self.pulled(cpu, prev, info),
            in_window: self.config.window.contains(self.now),
        };
        self.flips.push(FlipStep::Wake(wake), Fate::Open)
    }

    /// A CPU runs, as an event of its own shows.
    #[inline]
    pub(in crate::replay) fn seen_alive(&mut self, cpu: usize) {
        if let Some(seen) = self.flips.seen.get_mut(cpu) {
            *seen = self.now;
        }
    }

    /// How late ticks may be counted now. The CPU whose duty that is may be any that runs a task, and may not have run itself,
    /// the host giving its time to others, for as long as it has been silent. An idle one hands the duty over
    /// (`tick_nohz_stop_tick`), and counts what it missed when anything wakes it.
    #[inline]
    fn late_ticks(&self, cpu: usize) -> u32 {
        let most = self.config.flips.late_ns;
        if most == 0 {
            return 0;
        }
        let others = self.cpus.iter().zip(&self.flips.seen).enumerate();
        let silent = others
            .filter(|(other, (state, _))| *other != cpu && state.current != Current::Nothing)
            .map(|(_, (_, seen))| *seen);
        let since = silent.min().unwrap_or(self.now);
        u32::try_from(self.now.saturating_sub(since).min(most)).unwrap_or(u32::MAX)
    }

    /// `record_wakee` charges `current`, whatever the context.
    fn charged(&self, cpu: usize, pid: i32) -> Charged {
        if pid == 0 {
            return Charged::Idle(cpu);
        }
        let current = self.current_task(cpu);
        let current = current.filter(|task| self.tasks[*task].pid == pid);
        match current.or_else(|| self.tasks.find(pid)) {
            Some(task) => Charged::Task(task),
            None => Charged::Unknown,
        }
    }

    /// Whether the wakee was put into the waker's LLC although it was in another: then `wake_wide` said no
    /// (`select_task_rq_fair`: nothing else makes the waker's CPU the target).
    fn pulled(&self, cpu: usize, prev: Option<usize>, info: &WakeInfo) -> Option<bool> {
        let flags = info.probe.and_then(|probe| probe.wake_flags);
        if self
            .config
            .model
            .current_cpu_flag()
            .zip(flags)
            .is_some_and(|(bit, of)| of & bit != 0)
        {
            return None;
        }
        let chosen = self.machine.cpus.index(info.enqueue?.chosen)?;
        let came = self.distances.crosses_llc(prev?, cpu)?;
        let away = self.distances.crosses_llc(chosen, cpu)?;
        Some(came && !away)
    }

    /// The class of a wakeup is known.
    #[inline]
    pub(in crate::replay) fn resolve_flip(
        &mut self,
        slot: usize,
        class: Class,
        enqueue: Enqueue,
        on_cpu_queued: bool,
    ) {
        let Some(open) = self.wakes.get_mut(slot) else {
            return;
        };
        let number = std::mem::replace(&mut open.flip, NO_FLIP);
        if number == NO_FLIP {
            return;
        }
        let masks = self.masks_of(self.wakes[slot].row.wakee);
        let counts = self.counts_as_flip(slot, class, enqueue, on_cpu_queued, masks.0);
        let pinned = self.masks.is_single(masks[Reading::Any]);
        let waker_cpu = self.wakes[slot].waker_cpu;
        let allowed = self.masks.get(masks[Reading::Any]).contains(waker_cpu);
        if let Some((FlipStep::Wake(wake), fate)) = self.flips.get_mut(number) {
            *fate = if counts == Some(false) {
                Fate::Drop
            } else {
                Fate::Go
            };
            wake.sure = counts == Some(true);
            // A pinned task is counted before 4.8, but no CPU is chosen for it.
            wake.asked.new &= !pinned;
            wake.asked.old &= !pinned && allowed;
        }
        self.release_flips();
    }

    /// Whether `record_wakee` ran for a fair wakee that another task woke; `None` if the events leave it open
    /// (kernel notes §3.2 and §9).
    fn counts_as_flip(
        &self,
        slot: usize,
        class: Class,
        enqueue: Enqueue,
        on_cpu_queued: bool,
        [seen, any]: [MaskId; 2],
    ) -> Option<bool> {
        let open = &self.wakes[slot];
        let at_selection = self.config.model.flips_at_selection();
        if at_selection && open.info.as_ref().is_some_and(|info| info.probe.is_some()) {
            return Some(true);
        }
        if at_selection && self.flips.probes_seen {
            return Some(false);
        }
        if matches!(class, Class::SelfWake | Class::FastPath | Class::Delayed) {
            return Some(false);
        }
        // Pinned tasks are not selected for, whatever kind of wakeup it was.
        if at_selection && self.masks.is_single(any) {
            return Some(false);
        }
        if matches!(class, Class::Anomaly | Class::Unknown | Class::New)
            || self.may_be_requeue(slot, class, enqueue)
            || on_cpu_queued
            || self.may_be_on_cpu(slot, class, enqueue)
        {
            return None;
        }
        if !at_selection {
            return Some(true);
        }
        // Seen on several CPUs under the mask that it has, or put on another than the one it left under that.
        let wakee = &self.tasks[open.row.wakee];
        let left = wakee.last_out.map_or(i64::MIN, |(left, _, _)| left);
        let moved = open.row.prev_cpu != Some(enqueue.chosen) && left >= wakee.masks_since;
        let several = !self.masks.is_single(seen) && wakee.seen_on_several;
        (several || moved).then_some(true)
    }

    /// Whether the wakee may have been put on its own CPU's wake list as it was leaving that CPU. A waker that comes even
    /// before `sched_switch` may do so too, or wait, and then select a CPU.
    fn may_be_on_cpu(&self, slot: usize, class: Class, enqueue: Enqueue) -> bool {
        let open = &self.wakes[slot];
        let left = self.tasks[open.row.wakee].last_out.map(|(ts, ..)| ts);
        let waking = open.row.waking_ns.unwrap_or(enqueue.ts);
        class == Class::Queued
            && self.config.model.on_cpu_queueing()
            && open.row.prev_cpu == Some(enqueue.chosen)
            && left.is_some_and(|left| waking.saturating_sub(left) <= self.config.flips.on_cpu_ns)
    }

    /// No more will be known of a wakeup: it may have counted.
    pub(in crate::replay) fn give_up_flip(&mut self, number: u64) {
        if number == NO_FLIP {
            return;
        }
        if let Some((_, fate)) = self.flips.get_mut(number) {
            *fate = Fate::Go;
        }
        self.release_flips();
    }

    /// A child has its parent's counters.
    pub(in crate::replay) fn fork_flips(&mut self, parent_pid: i32, child: TaskId) {
        let parent = self.tasks.find(parent_pid);
        let fork = FlipStep::Fork {
            parent,
            child,
            now: self.now,
        };
        self.flips.push(fork, Fate::Go);
        self.release_flips();
    }

    /// A selection: at `fork` and `exec` it shows flips too. Those of wakeups come with their wakings.
    pub(in crate::replay) fn show_flips(&mut self, pid: i32, selection: &Selection) {
        let (Some(flips), Some(wakeup)) = (selection.flips, self.config.model.wakeup_flag()) else {
            return;
        };
        if selection.wake_flags.is_none_or(|flags| flags & wakeup != 0) {
            return;
        }
        let Some(task) = self.tasks.find(selection.pid) else {
            return;
        };
        let parent = (pid != selection.pid)
            .then(|| self.tasks.find(pid))
            .flatten();
        let shown = FlipStep::Shown {
            task,
            parent,
            flips,
            now: self.now,
        };
        self.flips.push(shown, Fate::Go);
        self.release_flips();
    }

    /// CPUs whose buffers may lack what came before their first event.
    pub(in crate::replay) fn begin_in_the_dark(&mut self) {
        let cpus = &self.machine.cpus;
        self.flips.dark = vec![None; cpus.len()];
        if self.config.flips.late_ns > 0 {
            self.flips.seen = vec![self.now; cpus.len()];
        }
        let known: Vec<u32> = self
            .config
            .known_from_start
            .iter()
            .map(|(cpu, _)| *cpu)
            .collect();
        let unknown = self
            .survey
            .cpus
            .iter()
            .filter(|of| of.events > 0 && !known.contains(&of.cpu));
        let unknown: Vec<usize> = unknown.filter_map(|of| cpus.index(of.cpu)).collect();
        unknown.into_iter().for_each(|cpu| self.darken_flips(cpu));
    }

    /// From here on events of a CPU are missing.
    pub(in crate::replay) fn darken_flips(&mut self, cpu: usize) {
        if let Some(since) = self.flips.dark.get_mut(cpu)
            && since.is_none()
        {
            *since = Some(self.now);
            self.flips.dark_cpus += 1;
        }
    }

    /// A CPU's events are there again: whoever was not certainly elsewhere may have woken others there meanwhile.
    pub(in crate::replay) fn light_flips(&mut self, cpu: usize) {
        let Some(since) = self.flips.dark.get_mut(cpu).and_then(Option::take) else {
            return;
        };
        self.flips.dark_cpus = self.flips.dark_cpus.saturating_sub(1);
        let elsewhere = self
            .tasks
            .ids()
            .filter(|&task| self.was_elsewhere(task, cpu, since));
        let lost = FlipStep::Lost {
            cpu,
            until_ns: self.now,
            elsewhere: elsewhere.collect(),
        };
        self.flips.push(lost, Fate::Go);
        self.release_flips();
    }

    /// While events are missing, what is known of a task holds only as long as it is on one CPU.
    #[cold]
    fn forget_unwatched(&mut self, waker: Charged, wakee: TaskId) {
        let dark = self.flips.dark.iter().enumerate();
        let dark: Vec<(usize, i64)> = dark
            .filter_map(|(cpu, since)| Some((cpu, (*since)?)))
            .collect();
        let watched = |task| {
            dark.iter()
                .all(|&(cpu, since)| self.was_elsewhere(task, cpu, since))
        };
        let of_waker = match waker {
            Charged::Task(task) if !watched(task) => Some(task),
            _ => None,
        };
        let of_wakee = Some(wakee).filter(|task| !watched(*task));
        for task in of_waker.into_iter().chain(of_wakee) {
            let forget = FlipStep::Forget {
                task,
                now: self.now,
            };
            self.flips.push(forget, Fate::Go);
        }
    }

    fn was_elsewhere(&self, task: TaskId, cpu: usize, since: i64) -> bool {
        let state = &self.tasks[task];
        let bound = state
            .bound_mask
            .is_some_and(|mask| !self.masks.get(mask).contains(cpu));
        match state.state {
            TaskState::Running {
                cpu: at,
                since: from,
            } => bound || (at != cpu && from <= since),
            _ => bound,
        }
    }

    #[inline]
    fn release_flips(&mut self) {
        if self.flips.steps.len() >= GATHERED {
            self.release_known_flips();
        }
    }

    #[inline(never)]
    fn release_known_flips(&mut self) {
        while let Some((_, fate)) = self.flips.steps.front()
            && *fate != Fate::Open
        {
            self.release_flip();
        }
    }

    fn release_flip(&mut self) {
        if let Some((step, fate)) = self.flips.steps.pop_front() {
            self.flips.released += 1;
            if fate != Fate::Drop {
                self.sink.flip(&step);
            }
        }
    }

    /// At the trace's end nothing is held back any more.
    pub(in crate::replay) fn release_all_flips(&mut self) {
        while !self.flips.steps.is_empty() {
            self.release_flip();
        }
    }
}
