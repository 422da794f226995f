//! The replay's state and its dispatch: each event goes to the file that handles its kind.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use slab::Slab;

use super::counting::Counting;
use super::cpuset::{MaskId, MaskTable};
use super::flips::{FlipStep, Held};
use super::ipis::Functions;
use super::ledger::{Domains, Ledger, Waiting};
use super::machine::{BusyMeter, CpuState, Current, Distances, Machine};
use super::migrations::OpenMove;
use super::pids::PidNumber;
use super::rows::{CpuRow, Sink, TaskId, TaskRow};
use super::seconds::Seconds;
use super::steps::{Batch, Kind, Step, WakeInfo};
use super::survey::Survey;
use super::tasks::{Task, TaskState, Tasks};
use super::verdict::Snapshots;
use super::waits::Wait;
use super::wakeups::OpenWake;
use super::words::{LedgerRow, Pair, Reading};
use super::{Config, Counts};
use ttwu_parsers::event::{Comm, Event, Payload};

/// Rebuilds CPU and task state from events in time order, and emits rows.
pub struct Replay<'a, S: Sink> {
    pub(super) config: &'a Config,
    pub(super) machine: &'a Machine,
    pub(super) distances: Distances<'a>,
    pub(super) survey: &'a Survey,
    pub(super) sink: &'a mut S,
    /// What the sink says of [`Sink::details`].
    pub(super) details: bool,
    pub(super) now: i64,
    pub(super) domains: Domains,
    pub(super) masks: MaskTable,
    /// Masks that probes showed, by number; `None` for one without any CPU of the trace.
    pub(super) probed_masks: Vec<Option<MaskId>>,
    pub(super) ledger: Ledger,
    pub(super) seconds: Seconds,
    pub(super) tasks: Tasks,
    pub(super) cpus: Vec<CpuState>,
    /// When a CPU last ceased to be available.
    pub(super) taken_ns: i64,
    pub(super) busy: Vec<BusyMeter>,
    pub(super) wakes: Slab<OpenWake>,
    pub(super) waits: Slab<Wait>,
    pub(super) moves: Slab<OpenMove>,
    pub(super) snapshots: Snapshots,
    /// Choices to come: stamp, wakeup, serial number of the wakeup.
    pub(super) choices: BinaryHeap<Reverse<(i64, usize, u64)>>,
    /// The earliest of them.
    pub(super) next_choice_ns: i64,
    pub(super) serial: u64,
    /// How many tasks were put on queues.
    pub(super) enqueues: u64,
    /// Waits that ended with the event being handled.
    pub(super) ended: Vec<usize>,
    /// Waits that ended before their choice settled: when it will have, and the wait.
    pub(super) unsettled: VecDeque<(i64, usize)>,
    pub(super) counts: Counts,
    /// What was learnt of the kernel's functions.
    pub(super) functions: Functions,
    /// What tasks did by the processors' counters; `None` until the trace shows any.
    pub(super) counting: Option<Box<Counting>>,
    /// Direct wakeups across LLCs that cannot have been requeues: proof that TTWU_QUEUE was off.
    pub(super) cross_direct: u64,
    /// Steps of the flips that wait for the class of a wakeup.
    pub(super) flips: Held,
}

impl<'a, S: Sink> Replay<'a, S> {
    pub fn new(
        config: &'a Config,
        machine: &'a Machine,
        survey: &'a Survey,
        sink: &'a mut S,
    ) -> Self {
        let domains = machine.domains();
        let start = config.start_ns;
        let cpus = domains
            .llc_of
            .iter()
            .map(|&llc| CpuState::new(start, llc))
            .collect();
        let mut masks = MaskTable::new(machine.cpus.len());
        let sink_details = sink.details();
        let alive = config.snapshot.intern(&machine.cpus, &mut masks);
        let busy = domains
            .llcs
            .iter()
            .map(|set| BusyMeter::new(set.len(), start))
            .collect();
        let mut replay = Self {
            config,
            machine,
            distances: Distances::new(machine),
            survey,
            details: sink_details,
            sink,
            now: start,
            ledger: Ledger::new(config.window, domains.clone(), &config.readings, start),
            seconds: Seconds::new(config.window, domains.llc_of.len(), sink_details),
            domains,
            masks,
            probed_masks: Vec::new(),
            tasks: Tasks::new(alive, &config.snapshot),
            cpus,
            taken_ns: i64::MIN,
            busy,
            wakes: Slab::new(),
            waits: Slab::new(),
            moves: Slab::new(),
            snapshots: Snapshots::default(),
            choices: BinaryHeap::new(),
            next_choice_ns: i64::MAX,
            serial: 0,
            enqueues: 0,
            ended: Vec::new(),
            unsettled: VecDeque::new(),
            counts: Counts::default(),
            functions: Functions::new(&config.ipis),
            counting: None,
            cross_direct: 0,
            flips: Held::default(),
        };
        replay
            .sink
            .flip(&FlipStep::Begin(Arc::new(config.flips.clone())));
        replay.begin_in_the_dark();
        replay.start_known_cpus();
        replay
    }

    /// Gives a CPU whose buffer provably held everything the state of its first event from the start on.
    fn start_known_cpus(&mut self) {
        for &(cpu, pid) in &self.config.known_from_start {
            if let Some(cpu) = self.machine.cpus.index(cpu) {
                self.set_first_current(cpu, pid);
            }
        }
        self.settle();
    }

    /// Replays the next events in time order.
    pub fn replay(&mut self, batch: &Batch) {
        self.learn_masks(&batch.masks);
        self.counts.backward_stamps += batch.backward;
        let mut wakes = batch.wakes.iter();
        let mut rare = batch.rare.iter();
        let mut marks = batch.marks.iter();
        for step in &batch.steps {
            match step.kind {
                Kind::Pid(pid) => self.tasks.number(pid),
                Kind::Name(number, comm) => self.tasks.name(number, comm),
                Kind::Mark => {
                    if let Some(marked) = marks.next() {
                        self.unit(step, *marked);
                    }
                }
                Kind::Waking(_) | Kind::WakeupNew(_) => self.apply(step, wakes.next(), None),
                Kind::Rare => self.apply(step, None, rare.next()),
                _ => self.apply(step, None, None),
            }
        }
    }

    /// Closes everything at the trace's end and emits tasks and CPUs.
    pub fn finish(mut self) -> Counts {
        self.now = self.now.max(self.config.end_ns);
        self.run_choices(i64::MAX);
        self.close_ipis();
        if self.seconds.next_ns <= self.now {
            self.end_second(self.now);
        }
        self.close_all();
        self.end_last_second();
        self.release_all_flips();
        self.emit_tasks();
        self.emit_cpus();
        self.counts
    }

    fn apply(&mut self, step: &Step, wake: Option<&WakeInfo>, event: Option<&Event>) {
        let Some(cpu) = self.machine.cpus.index(step.cpu) else {
            self.counts.bad_cpus += 1;
            return;
        };
        if step.ts < self.now {
            self.counts.backward_stamps += 1;
        }
        // The edges of losses may have stamps that no event has: time never goes beyond the last event.
        let ts = step.ts.min(self.config.end_ns).max(self.now);
        if self.next_choice_ns <= ts {
            self.run_choices(ts);
        }
        if self.seconds.next_ns <= ts {
            self.end_second(ts);
        }
        self.now = ts;
        self.settle_late_waits();
        self.first_sight(cpu, step);
        if step.recorded {
            self.seen_alive(cpu);
        }
        match &step.kind {
            Kind::Switch(switch) => self.switch(cpu, step, switch),
            Kind::Waking(woken) => {
                if let Some(info) = wake {
                    self.waking(cpu, step, woken, info);
                }
            }
            Kind::Wakeup(woken) => {
                if step.pid == 0 || step.flags.hardirq() {
                    self.enqueued_in_handler(cpu);
                }
                self.wakeup(cpu, step, woken);
            }
            Kind::WakeupNew(woken) => self.wakeup_new(cpu, step, woken, wake),
            Kind::Migrate(moved) => self.migrate(cpu, step, moved),
            Kind::Rare => {
                if let Some(event) = event {
                    self.other(cpu, event);
                }
            }
            Kind::Pid(_) | Kind::Name(..) | Kind::Mark => {}
        }
        self.settle();
    }

    /// The rarer kinds.
    fn other(&mut self, cpu: usize, event: &Event) {
        match &event.payload {
            Payload::LossBegin { count } => {
                if let Some(counting) = &mut self.counting {
                    counting.forget(cpu);
                }
                self.begin_gap(cpu, *count);
            }
            Payload::LossEnd => self.end_gap(cpu),
            Payload::Fork {
                parent_pid,
                child_pid,
                child_comm,
            } if *child_pid > 0 => {
                if let Some(former) = self.tasks.find(*child_pid) {
                    self.retire(former);
                }
                let inherited = self.inherited(*parent_pid);
                let child = self.tasks.fresh(*child_pid);
                self.tasks.mark_new(child);
                self.fork_flips(*parent_pid, child);
                self.tasks[child].told = inherited;
                self.tasks[child].forked = true;
                self.rename(child, *child_comm);
            }
            Payload::NewTask { pid, thread } if *pid > 0 => {
                self.tasks.announce(event.pid, *pid, *thread);
            }
            Payload::Exec { pid, old_pid } if *pid > 0 => {
                if pid != old_pid {
                    self.exec_by_thread(*pid, *old_pid);
                }
                self.tasks.executed(*pid);
                self.executed(*pid);
            }
            Payload::SetAffinity { pid } => {
                self.affinity_asked(event.pid, *pid);
                self.mask_changed(if *pid == 0 { event.pid } else { *pid });
            }
            Payload::NumaMove { pid } => self.numa_announced(*pid),
            Payload::NumaSwap { src_pid, dst_pid } => {
                self.numa_announced(*src_pid);
                self.numa_announced(*dst_pid);
            }
            // It may still block while it closes its files: its end is a switch-out as a dead task.
            Payload::Exit { pid, comm } if *pid > 0 => {
                self.task_of_pid(*pid, *comm);
            }
            Payload::TaskName { tgid, tid, comm } if *tid > 0 => {
                let task = self.task_of_pid(*tid, *comm);
                self.tasks[task].tgid = Some(*tgid);
                self.tasks[task].tgid_at_start = false;
            }
            Payload::Counters(counters) => {
                let counting = self.counting.get_or_insert_default();
                counting.read(cpu, counters);
            }
            Payload::SoftirqRaise { vec } => {
                let by_irq = event.flags.hardirq() || event.flags.nmi();
                let bit = 1_u32.checked_shl(*vec).unwrap_or(0);
                let state = &mut self.cpus[cpu];
                if by_irq {
                    state.raised_by_irq |= bit;
                } else {
                    state.raised_inline |= bit;
                }
            }
            Payload::SoftirqEntry { vec } => {
                let bit = 1_u32.checked_shl(*vec).unwrap_or(0);
                let state = &mut self.cpus[cpu];
                state.serving = match (state.raised_inline & bit, state.raised_by_irq & bit) {
                    (0, 0) => None,
                    (_, 0) => Some(true),
                    (0, _) => Some(false),
                    // Raised by both: not known which of them is being served.
                    _ => None,
                };
                state.serving_vector = Some(*vec);
                state.raised_inline &= !bit;
                state.raised_by_irq &= !bit;
            }
            Payload::SoftirqExit { .. } => {
                self.cpus[cpu].serving = None;
                self.cpus[cpu].serving_vector = None;
            }
            Payload::Select(selection) => self.show_flips(event.pid, selection),
            _ => self.ipi(cpu, event),
        }
    }

    /// `exec` in a thread that is not the leader: it goes on under the leader's pid, with the mask it had.
    fn exec_by_thread(&mut self, pid: i32, old_pid: i32) {
        if let Some(leader) = self.tasks.find(pid) {
            self.retire(leader);
        }
        let told = self.tasks.find(old_pid);
        let told = told.and_then(|thread| self.told_now(thread));
        if let Some(thread) = self.tasks.take_over(pid, old_pid) {
            self.tasks[thread].told = told;
        }
    }

    /// The task a CPU runs, if it is known and not the idle task.
    pub(super) fn current_task(&self, cpu: usize) -> Option<TaskId> {
        match self.cpus[cpu].current {
            Current::Task(task) => Some(task),
            _ => None,
        }
    }

    /// An event of a CPU whose state is unknown shows what it runs.
    #[inline]
    fn first_sight(&mut self, cpu: usize, step: &Step) {
        let state = &self.cpus[cpu];
        if state.current != Current::Unknown
            || state.gap_since.is_some()
            || !step.recorded
            || step.pid < 0
        {
            return;
        }
        self.set_first_current(cpu, step.pid);
        self.light_flips(cpu);
        self.settle();
    }

    fn set_first_current(&mut self, cpu: usize, pid: i32) {
        if pid == 0 {
            self.run_nothing(cpu);
            return;
        }
        let task = self.tasks.get_or_new(pid);
        self.leave_wherever(task);
        self.run_task(cpu, task);
    }

    /// The task behind a pid's number, with the name and priority it has now.
    #[inline]
    pub(super) fn task(&mut self, number: PidNumber, prio: i16) -> TaskId {
        let (task, renamed) = self.tasks.numbered(number, prio);
        if let Some(comm) = renamed {
            self.take_name(task, comm);
        }
        task
    }

    fn task_of_pid(&mut self, pid: i32, comm: Comm) -> TaskId {
        let task = self.tasks.get_or_new(pid);
        self.take_name(task, comm);
        task
    }

    fn take_name(&mut self, task: TaskId, comm: Comm) {
        if self.tasks[task].comm != comm {
            self.rename(task, comm);
        }
    }

    /// The task is gone, though its end was not recorded.
    pub(super) fn retire(&mut self, task: TaskId) {
        self.leave_wherever(task);
        self.withdraw_wake(task);
        self.forget_run(task);
        self.tasks[task].state = TaskState::Dead;
    }

    /// Brings a CPU's ledger row, and whether it is available, in line with its state.
    #[inline(always)]
    pub(super) fn refresh(&mut self, cpu: usize) {
        let state = &self.cpus[cpu];
        let row = state.base_row();
        if row != state.row {
            self.change_row(cpu, row);
        }
    }

    #[inline(never)]
    fn change_row(&mut self, cpu: usize, row: LedgerRow) {
        let now = self.now;
        let old = self.cpus[cpu].row;
        self.cpus[cpu].row = row;
        self.ledger.set_base(cpu, row, now);
        if row == LedgerRow::Idle {
            self.cpus[cpu].available_since = now;
        } else if old == LedgerRow::Idle && self.cpus[cpu].available_since < now {
            // Idle for some time, not just between two steps of one event.
            self.cpus[cpu].available_until = now;
            self.taken_ns = now;
            self.snapshots.cpu_taken(cpu, now);
        }
        if self.details && (row == LedgerRow::Running || old == LedgerRow::Running) {
            let llc = self.cpus[cpu].busy_in;
            self.busy[llc].change(row == LedgerRow::Running, now);
        }
    }

    /// The task joins those that wait on `cpu`.
    pub(super) fn start_waiting(&mut self, task: TaskId, cpu: usize) {
        let masks = self.masks_of(task);
        let waiting = Waiting {
            task: task.0,
            masks,
        };
        let at = self.ledger.start_waiting(cpu, waiting);
        self.tasks[task].waiting_at = Some(at);
    }

    pub(super) fn stop_waiting(&mut self, task: TaskId, cpu: usize) {
        let Some(at) = self.tasks[task].waiting_at.take() else {
            return;
        };
        if let Some(moved) = self.ledger.stop_waiting(cpu, at) {
            self.tasks[TaskId(moved)].waiting_at = Some(at);
        }
    }

    /// Brings the matching up to date, and completes the waits that ended with this event.
    #[inline]
    pub(super) fn settle(&mut self) {
        if !self.ledger.is_settled() {
            self.settle_ledger();
        }
        if !self.ended.is_empty() {
            self.complete_ended();
        }
    }

    fn settle_ledger(&mut self) {
        let now = self.now;
        let (tasks, waits, ledger) = (&mut self.tasks, &mut self.waits, &mut self.ledger);
        ledger.settle(now, &self.masks, &mut |reading, task, ns| {
            charge(tasks, waits, reading, TaskId(task), ns);
        });
    }

    /// Charges what was lost up to now to the waits that are open now.
    pub(super) fn flush_lost(&mut self) {
        let now = self.now;
        let (tasks, waits, ledger) = (&mut self.tasks, &mut self.waits, &mut self.ledger);
        ledger.flush(now, &mut |reading, task, ns| {
            charge(tasks, waits, reading, TaskId(task), ns);
        });
    }

    /// Ends everything that is still open at the trace's end.
    fn close_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            // What was still missing at the end.
            self.end_gap(cpu);
            self.close_cpu(cpu);
        }
        self.settle();
        let end = self.now;
        let (tasks, waits, ledger) = (&mut self.tasks, &mut self.waits, &mut self.ledger);
        ledger.finish(end, &mut |reading, task, ns| {
            charge(tasks, waits, reading, TaskId(task), ns);
        });
        self.close_waits();
        self.close_wakes();
        self.close_moves();
    }

    fn emit_tasks(&mut self) {
        for id in self.tasks.ids() {
            self.counts.masks_refuted += u64::from(self.refutes_record(id));
            self.count_recorder(id);
            let task: &Task = &self.tasks[id];
            let seen = self.survey.seen(task.pid, self.now, &self.machine.cpus);
            let totals = &task.totals;
            self.sink.task(&TaskRow {
                task: id,
                pid: task.pid,
                generation: task.generation,
                tgid: self.tasks.final_process(id),
                comm: task.comm,
                former_names: task.former_names.clone(),
                run_ns: totals.run_ns,
                wait_ns: totals.wait_ns,
                lost_ns: totals.lost_ns,
                withheld: totals.withheld,
                withheld_ns: totals.withheld_ns,
                switches: totals.switches,
                migrations: totals.migrations,
                wakeups_made: totals.wakeups_made,
                wakeups_received: totals.wakeups_received,
                seen_cpus: seen.len(),
                recorder: task.recorder,
            });
        }
    }

    fn count_recorder(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        if task.recorder {
            self.counts.recorder.tasks += 1;
            self.counts.recorder.running_ns += task.totals.run_ns;
        }
    }

    fn emit_cpus(&mut self) {
        for (cpu, &id) in self.machine.cpus.ids().iter().enumerate() {
            let found = self.survey.cpus.binary_search_by_key(&id, |c| c.cpu);
            let survey = found.ok().map(|at| &self.survey.cpus[at]);
            self.sink.cpu(&CpuRow {
                cpu: id,
                llc: self.machine.topology.llc_id(id),
                core: self.machine.topology.core_id(id),
                node: self.machine.topology.node_id(id),
                ledger: Pair([
                    self.ledger.rows(Reading::Seen, cpu),
                    self.ledger.rows(Reading::Any, cpu),
                ]),
                switches: self.cpus[cpu].switches,
                wakeups_made: self.cpus[cpu].wakeups_made,
                first_event_ns: survey.map(|s| s.first_ns),
                last_event_ns: survey.map(|s| s.last_ns),
                lost_events: survey.map_or(0, |s| s.lost_events),
            });
        }
    }

    /// Whether the task is on a CPU now.
    pub(super) fn running(&self, task: TaskId) -> bool {
        matches!(self.tasks[task].state, TaskState::Running { .. })
    }
}

/// Adds a share of lost time to a task and to its open wait.
fn charge(tasks: &mut Tasks, waits: &mut Slab<Wait>, reading: Reading, task: TaskId, ns: i64) {
    tasks[task].totals.lost_ns[reading] += ns;
    if let Some(wait) = tasks[task].wait.and_then(|slot| waits.get_mut(slot)) {
        wait.lost_ns[reading] += ns;
    }
}
