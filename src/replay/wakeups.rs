//! Wakeups: waking, choice, enqueue and switch-in.

use std::cmp::Reverse;

use super::engine::Replay;
use super::flips::NO_FLIP;
use super::rows::{Sink, TaskId, WakeupRow};
use super::steps::{Enqueue, Step, WakeInfo, Woken};
use super::tasks::TaskState;
use super::verdict::{Choice, Chooser};
use super::waits::Wait;
use super::words::{Class, Origin, Pair, Path, Verdict, Waker};
use crate::topology::Distance;

/// A wakeup whose row is not complete.
#[derive(Debug)]
pub struct OpenWake {
    pub row: WakeupRow,
    pub serial: u64,
    pub choice: Option<Choice>,
    pub info: Option<WakeInfo>,
    pub waker_cpu: usize,
    pub no_selection: bool,
    /// It may have been the requeue of a delayed task, for which no CPU was chosen.
    pub may_be_requeue: bool,
    pub kthread_stacked: bool,
    /// The wakee was on a CPU at the waking.
    pub was_running: bool,
    /// The waker was the wakee itself.
    pub by_itself: bool,
    /// The wait's verdict is still to come.
    pub awaits_verdict: bool,
    /// The wakee's run is not over.
    pub awaits_run: bool,
    /// The overlap with the waker is not decided.
    pub awaits_overlap: bool,
    /// The waker is watched, or was.
    pub overlap_watched: bool,
    /// The waker's on-CPU time at the waking.
    pub waker_on_cpu_ns: i64,
    /// The waker's on-CPU time from the waking until it blocked, once it has.
    pub waker_rest_ns: Option<i64>,
    /// The enqueue arrived while the wakee was still on its CPU.
    enqueued_on_cpu: bool,
    /// The number of its step among those of the flips.
    pub flip: u64,
}

impl<S: Sink> Replay<'_, S> {
    /// `sched_waking`.
    pub(super) fn waking(&mut self, cpu: usize, step: &Step, woken: &Woken, info: &WakeInfo) {
        // An idle task is a CPU's state: it neither waits nor sleeps.
        let Some(wakee) = woken.wakee else {
            return;
        };
        let wakee = self.task(wakee, woken.prio);
        if let Some(stale) = self.tasks[wakee].waking.take() {
            self.counts.wakings_without_wakeup += 1;
            self.abandon_wake(stale);
        }
        let (context, waker) = self.waker_of(cpu, step.flags);
        if self.tasks[wakee].stopper {
            self.stopper_woken(cpu, woken.target_cpu, context);
        } else if self.cpus[cpu].moves.watched && context == Waker::Task {
            self.went_on(cpu);
        }
        let mut open = self.open_wake(cpu, wakee, waker, context, Some(step.ts));
        open.row.prev_cpu = Some(info.prev_cpu);
        open.by_itself = step.pid == self.tasks[wakee].pid;
        open.was_running = self.running(wakee);
        open.flip = self.hold_flip(cpu, step, wakee, info);
        self.set_probed_mask(wakee, info);
        let enqueue = info.enqueue;
        self.expect_sends(cpu, info);
        self.before_enqueue(wakee, cpu, enqueue);
        open.info = Some(*info);
        let serial = open.serial;
        let slot = self.wakes.insert(open);
        let Some(enqueue) = enqueue else {
            self.counts.wakings_without_wakeup += 1;
            self.abandon_wake(slot);
            return;
        };
        self.tasks[wakee].waking = Some(slot);
        // Watched from now on: the waker may block before a queued wakee is enqueued.
        self.await_overlap(slot);
        if let Some(ts) = info.choice_ns {
            self.choices.push(Reverse((ts, slot, serial)));
            self.next_choice_ns = self.next_choice_ns.min(ts);
        }
        if !enqueue.recorded {
            self.run_choices(step.ts);
        }
    }

    /// A wakeup record with everything that is known at its start.
    fn open_wake(
        &mut self,
        cpu: usize,
        wakee: TaskId,
        waker: Option<TaskId>,
        context: Waker,
        waking_ns: Option<i64>,
    ) -> OpenWake {
        let in_window = self.config.window.contains(self.now);
        if in_window {
            self.cpus[cpu].wakeups_made += 1;
            self.tasks[wakee].totals.wakeups_received += 1;
            let mut of_recorder = self.tasks[wakee].recorder;
            if let Some(waker) = waker {
                self.tasks[waker].totals.wakeups_made += 1;
                of_recorder |= self.tasks[waker].recorder;
            }
            self.counts.recorder.wakeups += u64::from(of_recorder);
        }
        self.serial += 1;
        OpenWake {
            row: WakeupRow {
                waking_ns,
                wakeup_ns: None,
                switch_in_ns: None,
                waker,
                wakee,
                waker_cpu: Some(self.machine.cpus.id(cpu)),
                prev_cpu: None,
                chosen_cpu: None,
                class: Class::Anomaly,
                path: Path::Unknown,
                context,
                waker_chosen: Distance::Unknown,
                prev_chosen: Distance::Unknown,
                waker_prev: Distance::Unknown,
                cross_llc: None,
                latency_ns: None,
                queue_ns: None,
                waker_cost_ns: None,
                selection: None,
                chosen_idle: None,
                idle_before_ns: None,
                sibling_busy: None,
                smt_shared: false,
                verdict: Pair([None, None]),
                wait_ns: 0,
                lost_ns: Pair([0, 0]),
                wakee_run_ns: None,
                wakee_cycles: None,
                wakee_instructions: None,
                overlap_ns: None,
                overlap_censored: false,
                probed: None,
                sync: None,
                flips: None,
                in_window,
            },
            serial: self.serial,
            choice: None,
            info: None,
            waker_cpu: cpu,
            no_selection: false,
            may_be_requeue: false,
            kthread_stacked: false,
            was_running: false,
            by_itself: false,
            awaits_verdict: false,
            awaits_run: false,
            awaits_overlap: false,
            overlap_watched: false,
            waker_on_cpu_ns: waker.map_or(0, |w| self.on_cpu_ns(w)),
            waker_rest_ns: None,
            enqueued_on_cpu: false,
            flip: NO_FLIP,
        }
    }

    /// Takes the wakee out of the state it was in, unless the wakeup finds it still running or queued.
    fn before_enqueue(&mut self, wakee: TaskId, waker_cpu: usize, enqueue: Option<Enqueue>) {
        match self.tasks[wakee].state {
            TaskState::Running { .. } => return,
            TaskState::Queued { cpu } if self.still_queued(wakee, waker_cpu, cpu, enqueue) => {
                return;
            }
            TaskState::Queued { .. } => self.void_wait(wakee),
            TaskState::Withheld { cpu, since } => self.end_withheld(wakee, cpu, since),
            TaskState::Transit { cpu } => self.leave_transit(wakee, cpu),
            _ => {}
        }
        let target = enqueue.and_then(|e| self.machine.cpus.index(e.chosen));
        let Some(target) = target else {
            self.tasks[wakee].state = TaskState::Unknown;
            return;
        };
        self.tasks[wakee].state = TaskState::Transit { cpu: target };
        self.cpus[target].transit += 1;
        self.refresh(target);
    }

    /// A task preempted inside the kernel may be woken while it is still queued; one that left its CPU
    /// runnable in any other way cannot be woken, so it must have slept unseen.
    fn still_queued(
        &self,
        wakee: TaskId,
        waker_cpu: usize,
        queued_on: usize,
        enqueue: Option<Enqueue>,
    ) -> bool {
        let preempted = self.tasks[wakee]
            .last_out
            .is_some_and(|(_, state, _)| state.runnable());
        let in_place = enqueue.is_some_and(|e| {
            self.machine.cpus.index(e.chosen) == Some(queued_on)
                && self.machine.cpus.index(e.cpu) == Some(waker_cpu)
        });
        let from_preemption = self.tasks[wakee]
            .wait
            .and_then(|slot| self.waits.get(slot))
            .is_some_and(|w| matches!(w.origin, Origin::Preempted | Origin::Balanced));
        preempted && in_place && from_preemption
    }

    /// Makes the choices that are due up to `ts`, each at its own instant.
    #[inline]
    pub(super) fn run_choices(&mut self, ts: i64) {
        while let Some(&Reverse((at, slot, serial))) = self.choices.peek() {
            if at > ts {
                break;
            }
            self.choices.pop();
            if self.wakes.get(slot).is_some_and(|w| w.serial == serial) {
                self.now = self.now.max(at);
                self.make_choice(slot);
            }
        }
        let next = self.choices.peek();
        self.next_choice_ns = next.map_or(i64::MAX, |Reverse((at, ..))| *at);
    }

    fn make_choice(&mut self, slot: usize) {
        let open = &self.wakes[slot];
        let wakee = open.row.wakee;
        let waker_cpu = open.waker_cpu;
        let since = open.row.waking_ns.unwrap_or(self.now);
        let Some((enqueue, prev)) = open
            .info
            .as_ref()
            .and_then(|info| info.enqueue.map(|e| (e, info.prev_cpu)))
        else {
            return;
        };
        if let Some(chosen) = self.machine.cpus.index(enqueue.chosen) {
            let own = self.tasks[wakee].state == (TaskState::Transit { cpu: chosen });
            self.note_choice(slot, chosen, prev, waker_cpu, since, own);
        }
        if !enqueue.recorded {
            self.tasks[wakee].waking = None;
            self.enqueue_wake(slot, enqueue);
            self.settle();
        }
    }

    fn note_choice(
        &mut self,
        slot: usize,
        chosen: usize,
        prev: u32,
        waker_cpu: usize,
        since: i64,
        own_transit: bool,
    ) {
        let wakee = self.wakes[slot].row.wakee;
        let state = &self.cpus[chosen];
        let chosen_idle = self.ledger.nothing().contains(chosen)
            && state.queued.is_empty()
            && state.transit == u32::from(own_transit);
        let choice = self.choose(&Chooser {
            task: wakee,
            chosen,
            prev: self.machine.cpus.index(prev).unwrap_or(chosen),
            waker_cpu: Some(waker_cpu),
            chosen_idle,
            since,
        });
        let smt_shared = chosen_idle && self.shares_core_needlessly(chosen);
        let idle_before_ns = match chosen_idle {
            true => self.cpus[chosen].nothing_for(self.now),
            false => None,
        };
        let sibling_busy = self.sibling_runs(chosen);
        let open = &mut self.wakes[slot];
        open.row.chosen_idle = Some(chosen_idle);
        open.row.idle_before_ns = idle_before_ns;
        open.row.sibling_busy = sibling_busy;
        open.row.smt_shared = smt_shared;
        open.choice = Some(choice);
    }

    /// `sched_wakeup`.
    pub(super) fn wakeup(&mut self, cpu: usize, step: &Step, woken: &Woken) {
        let Some(wakee) = woken.wakee else {
            return;
        };
        let wakee = self.task(wakee, woken.prio);
        let enqueue = Enqueue::of_event(step.ts, step.cpu, step.flags, woken);
        match self.tasks[wakee].waking.take() {
            Some(slot) => self.enqueue_wake(slot, enqueue),
            None => self.wakeup_alone(cpu, step, wakee, enqueue),
        }
    }

    /// A `sched_wakeup` without `sched_waking`: lost, or from before 4.3. Its waker is known only if it
    /// cannot have been queued.
    fn wakeup_alone(&mut self, cpu: usize, step: &Step, wakee: TaskId, enqueue: Enqueue) {
        let lacking = !self.config.recorded.waking;
        if !lacking {
            self.counts.wakeups_without_waking += 1;
        }
        let on_target = step.cpu == enqueue.chosen;
        let interrupted = step.flags.hardirq() || step.pid == 0;
        self.before_enqueue(wakee, cpu, Some(enqueue));
        let in_place = lacking && self.is_at(wakee, enqueue.chosen);
        let certain = !on_target || !interrupted || in_place;
        let (context, waker) = match certain {
            true => self.waker_of(cpu, step.flags),
            false => (Waker::Unknown, None),
        };
        let mut open = self.open_wake(cpu, wakee, waker, context, None);
        if !certain {
            open.row.waker_cpu = None;
        }
        open.row.class = match (lacking, certain, on_target) {
            (false, ..) => Class::Anomaly,
            _ if in_place => Class::FastPath,
            (true, false, _) => Class::Unknown,
            (true, true, true) => Class::Local,
            (true, true, false) => Class::Direct,
        };
        open.row.path = match open.row.class {
            Class::Local => Path::Local,
            Class::FastPath if on_target => Path::Local,
            _ => Path::Unknown,
        };
        let class = open.row.class;
        if lacking && self.tasks[wakee].fair() {
            open.row.selection = Some(!in_place && !self.pinned(wakee));
        }
        let slot = self.wakes.insert(open);
        if let Some(chosen) = self.machine.cpus.index(enqueue.chosen) {
            let own = self.tasks[wakee].state == (TaskState::Transit { cpu: chosen });
            self.note_choice(slot, chosen, enqueue.chosen, cpu, step.ts, own);
            // Without a waking the previous CPU is where the wakee last left a CPU, if that was seen.
            let prev = self.tasks[wakee].last_out.map(|(_, _, cpu)| cpu);
            if let Some(choice) = &mut self.wakes[slot].choice {
                choice.prev = prev.unwrap_or(chosen);
                choice.waker_cpu = choice.waker_cpu.filter(|_| certain);
            }
            self.wakes[slot].row.prev_cpu = prev.map(|p| self.machine.cpus.id(p));
        }
        self.place(slot, enqueue, class);
    }

    /// Whether the task still runs, or is still queued, on that CPU.
    fn is_at(&self, task: TaskId, cpu_id: u32) -> bool {
        match self.tasks[task].state {
            TaskState::Running { cpu, .. } | TaskState::Queued { cpu } => {
                self.machine.cpus.index(cpu_id) == Some(cpu)
            }
            _ => false,
        }
    }

    /// `sched_wakeup_new`: the parent enqueues the child.
    pub(super) fn wakeup_new(
        &mut self,
        cpu: usize,
        step: &Step,
        woken: &Woken,
        info: Option<&WakeInfo>,
    ) {
        let Some(wakee) = woken.wakee else {
            return;
        };
        let former = self.tasks.find_numbered(wakee);
        if let Some(former) = former.filter(|&task| self.tasks[task].has_lived()) {
            self.retire(former);
        }
        let wakee = self.task(wakee, woken.prio);
        self.tasks.mark_new(wakee);
        self.before_enqueue(wakee, cpu, None);
        let (context, waker) = self.waker_of(cpu, step.flags);
        let mut open = self.open_wake(cpu, wakee, waker, context, None);
        open.row.class = Class::New;
        open.info = info.copied();
        if let Some(info) = info {
            self.expect_sends(cpu, info);
        }
        let slot = self.wakes.insert(open);
        if let Some(chosen) = self.machine.cpus.index(woken.target_cpu) {
            // `fork` left it on its parent's CPU, which is what the kernel calls its previous one.
            self.note_choice(slot, chosen, step.cpu, cpu, step.ts, false);
        }
        let enqueue = Enqueue::of_event(step.ts, step.cpu, step.flags, woken);
        self.wakes[slot].row.path = self.path(slot, Class::New, enqueue);
        self.place(slot, enqueue, Class::New);
    }

    /// The enqueue of a wakeup whose waking was seen.
    fn enqueue_wake(&mut self, slot: usize, enqueue: Enqueue) {
        let class = self.class(slot, enqueue);
        let path = self.path(slot, class, enqueue);
        let open = &self.wakes[slot];
        let waking = open.row.waking_ns.unwrap_or(enqueue.ts);
        let queued_by_waker = open.info.as_ref().and_then(|info| info.last_send_ns);
        let waker_cost = match class {
            Class::Queued => queued_by_waker.map(|ts| ts - waking),
            Class::Anomaly | Class::Unknown => None,
            _ => Some(enqueue.ts - waking),
        };
        let on_cpu_queued = class == Class::Queued
            && open.was_running
            && open.row.prev_cpu == Some(enqueue.chosen)
            && self.config.model.on_cpu_queueing();
        let pinned = self.pinned(open.row.wakee);
        let selection = self.selection(slot, class, on_cpu_queued, pinned);
        let no_selection =
            on_cpu_queued || matches!(class, Class::SelfWake | Class::FastPath | Class::Delayed);
        let kthread_stacked = self.kthread_stacked(slot, enqueue);
        let may_be_requeue = self.may_be_requeue(slot, class, enqueue);
        self.resolve_flip(slot, class, enqueue, on_cpu_queued);
        let open = &mut self.wakes[slot];
        open.row.class = class;
        open.row.path = path;
        open.row.waker_cost_ns = waker_cost;
        open.row.selection = selection;
        // With probes, a fair task that was not selected for and is not known to be pinned was delayed.
        open.no_selection =
            no_selection || (self.config.recorded.probes && selection == Some(false) && !pinned);
        open.kthread_stacked = kthread_stacked;
        open.may_be_requeue = may_be_requeue;
        self.check_probe(slot, enqueue);
        self.note_direct_crossing(slot, class, enqueue);
        self.place(slot, enqueue, class);
    }

    /// Enqueues the wakee, unless it never left its CPU's queue, and fills in what is known of the wakeup.
    fn place(&mut self, slot: usize, enqueue: Enqueue, class: Class) {
        let open = &mut self.wakes[slot];
        let wakee = open.row.wakee;
        open.row.wakeup_ns = enqueue.recorded.then_some(enqueue.ts);
        open.row.chosen_cpu = Some(enqueue.chosen);
        open.info = None;
        let target = self.machine.cpus.index(enqueue.chosen);
        self.measure_distances(slot, target);
        let Some(target) = target else {
            self.abandon_wake(slot);
            return;
        };
        match self.tasks[wakee].state {
            TaskState::Running { .. } | TaskState::Queued { .. }
                if matches!(class, Class::SelfWake | Class::FastPath) =>
            {
                self.emit_wake(slot);
                return;
            }
            TaskState::Running { .. } => {
                // It is about to leave its CPU and will be runnable then, whatever state it shows.
                self.wakes[slot].enqueued_on_cpu = true;
                self.replace_wake(wakee, slot);
                self.tasks[wakee].on_cpu_at_wake_ns = self.on_cpu_ns(wakee);
                if let Some(counting) = &mut self.counting {
                    counting.woken_on_cpu(wakee);
                }
                return;
            }
            TaskState::Transit { cpu } => self.leave_transit(wakee, cpu),
            TaskState::Queued { .. } => self.void_wait(wakee),
            _ => {}
        }
        self.replace_wake(wakee, slot);
        self.tasks[wakee].on_cpu_at_wake_ns = self.tasks[wakee].on_cpu_ns;
        if let Some(counting) = &mut self.counting {
            counting.woken(wakee);
        }
        let origin = if class == Class::New {
            Origin::New
        } else {
            Origin::Wakeup
        };
        self.wakes[slot].awaits_verdict = true;
        self.begin_wait(wakee, target, origin, Some(slot));
    }

    /// The wakeup is from now on the one that the task's next run belongs to.
    fn replace_wake(&mut self, wakee: TaskId, slot: usize) {
        if let Some(old) = self.tasks[wakee].wake.replace(slot) {
            self.end_run_unknown(old);
        }
        self.wakes[slot].awaits_run = true;
        self.await_overlap(slot);
    }

    fn measure_distances(&mut self, slot: usize, chosen: Option<usize>) {
        let open = &mut self.wakes[slot];
        let row = &mut open.row;
        let waker = row.waker_cpu.map(|_| open.waker_cpu);
        let prev = row.prev_cpu.and_then(|id| self.machine.cpus.index(id));
        let between = |a: Option<usize>, b: Option<usize>| match (a, b) {
            (Some(a), Some(b)) => self.distances.between(a, b),
            _ => (Distance::Unknown, None),
        };
        (row.waker_chosen, row.cross_llc) = between(waker, chosen);
        row.prev_chosen = between(prev, chosen).0;
        row.waker_prev = between(waker, prev).0;
    }

    /// The task was switched in after its wait.
    pub(super) fn switched_in(&mut self, task: TaskId) {
        let now = self.now;
        let Some(open) = self.tasks[task]
            .wake
            .and_then(|slot| self.wakes.get_mut(slot))
        else {
            return;
        };
        if open.row.switch_in_ns.is_none() && open.awaits_verdict {
            open.row.switch_in_ns = Some(now);
            open.row.latency_ns = open.row.waking_ns.map(|ts| now - ts);
            open.row.queue_ns = open.row.wakeup_ns.map(|ts| now - ts);
        }
    }

    /// The task was switched in while its wakeup was still under way: the order of two CPUs' stamps is off.
    pub(super) fn switched_in_early(&mut self, task: TaskId) {
        if let Some(slot) = self.tasks[task].waking.take() {
            self.count_inconsistent();
            self.abandon_wake(slot);
        }
    }

    /// The CPU to which a wakeup that is under way will bring the task.
    pub(super) fn on_its_way(&self, task: TaskId) -> Option<usize> {
        let open = self.wakes.get(self.tasks[task].waking?)?;
        let enqueue = open.info.as_ref()?.enqueue?;
        self.machine.cpus.index(enqueue.chosen)
    }

    /// Whether the enqueue of a wakeup came before the task was off its CPU.
    pub(super) fn woken_while_running(&mut self, task: TaskId) -> bool {
        let Some(open) = self.tasks[task]
            .wake
            .and_then(|slot| self.wakes.get_mut(slot))
        else {
            return false;
        };
        std::mem::take(&mut open.enqueued_on_cpu)
    }

    pub(super) fn leave_transit(&mut self, task: TaskId, cpu: usize) {
        self.cpus[cpu].transit = self.cpus[cpu].transit.saturating_sub(1);
        self.tasks[task].state = TaskState::Unknown;
        self.refresh(cpu);
    }

    /// The wait that a wakeup began is judged.
    pub(super) fn judge_wake(&mut self, slot: usize, wait: usize, verdict: Pair<Verdict>) {
        let wait: &Wait = &self.waits[wait];
        let Some(open) = self
            .wakes
            .get_mut(slot)
            .filter(|w| w.row.wakee == wait.task)
        else {
            return;
        };
        open.row.verdict = Pair(verdict.0.map(Some));
        let end = wait.end.unwrap_or(wait.start);
        open.row.wait_ns = self.config.window.clip(wait.start, end);
        open.row.lost_ns = wait.lost_ns;
        open.awaits_verdict = false;
        if open.row.in_window && open.may_be_requeue {
            let missed = matches!(
                verdict[super::words::Reading::Any],
                Verdict::Prev | Verdict::Other | Verdict::OtherLlc | Verdict::StackedPrev
            );
            self.counts.ambiguous_misses += u64::from(missed);
        }
        self.emit_if_complete(slot);
    }

    /// A wakeup of which no more will be known: its row goes out as it is.
    pub(super) fn abandon_wake(&mut self, slot: usize) {
        let Some(open) = self.wakes.get_mut(slot) else {
            return;
        };
        open.awaits_verdict = false;
        open.awaits_run = false;
        open.awaits_overlap = false;
        let wakee = open.row.wakee;
        let flip = std::mem::replace(&mut open.flip, NO_FLIP);
        let task = &mut self.tasks[wakee];
        for of_task in [&mut task.wake, &mut task.waking] {
            of_task.take_if(|of_task| *of_task == slot);
        }
        self.give_up_flip(flip);
        self.emit_if_complete(slot);
    }

    /// The wakeup of a task that was on its way to a CPU in a gap.
    pub(super) fn withdraw_wake(&mut self, task: TaskId) {
        if let Some(slot) = self.tasks[task].waking.take() {
            self.counts.withdrawn_wakeups += 1;
            self.abandon_wake(slot);
        }
    }

    pub(super) fn emit_if_complete(&mut self, slot: usize) {
        let done = self.wakes.get(slot).is_some_and(|w| {
            // One branch instead of three that are hard to foresee.
            let awaits = w.awaits_verdict | w.awaits_run | w.awaits_overlap;
            !awaits && self.tasks[w.row.wakee].waking != Some(slot)
        });
        if done {
            self.emit_wake(slot);
        }
    }

    fn emit_wake(&mut self, slot: usize) {
        let Some(open) = self.wakes.get(slot) else {
            return;
        };
        if let Some(choice) = &open.choice {
            self.snapshots.release(choice);
        }
        self.sink.wakeup(&open.row);
        // Only given back: a value that is returned would be moved.
        self.wakes.try_remove(slot);
    }

    /// At the trace's end every open wakeup goes out as it is.
    pub(super) fn close_wakes(&mut self) {
        let slots: Vec<usize> = self.wakes.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.abandon_wake(slot);
        }
    }
}
