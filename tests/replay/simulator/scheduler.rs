//! The simulated scheduler's state: CPUs with queues, tasks, an agenda of what comes next; and the notes that it keeps of
//! itself, which are the truth.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::agent::Phase;
use super::events::{Event, Left, What, Who};
use super::flips::{Flips, TICK_NS};
use super::kernels::Kernel;
use super::machine::{Cpu, Machine};
use super::notes::{Cause, Change, Move, Notes, State, TaskNote, Why};
use super::plan::Plan;
use super::random::Random;
use super::recording::Recording;

/// A task's number: its place among all tasks of the run.
pub type Task = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Normal,
    /// Of real-time priority.
    RealTime,
    /// A per-CPU kernel thread.
    Bound(Cpu),
    /// The stopper of a CPU.
    Stopper(Cpu),
    /// It runs on a CPU of its own all the time.
    Alone,
}

#[derive(Debug, Clone)]
pub struct TaskState {
    pub who: Who,
    pub tgid: i32,
    pub kind: Kind,
    pub state: State,
    /// Where it runs, is queued, or last was.
    pub cpu: Cpu,
    /// Where it may run.
    pub mask: Vec<Cpu>,
    /// It blocked but is still queued.
    pub delayed: bool,
    /// Taken off its queue, it is about to leave its CPU.
    pub leaving: bool,
    /// Set when it was last put on a queue because another took its CPU.
    pub preempted: bool,
    /// It moves for `exec`, and has not got to it.
    pub execs: bool,
    /// What the kernel charges it as a waker.
    pub flips: Flips,
}

/// What a stopper was woken for.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub task: Task,
    pub to: Cpu,
    pub cause: Cause,
}

#[derive(Debug, Clone, Default)]
pub struct CpuState {
    pub current: Option<Task>,
    /// In order of enqueue.
    pub queue: Vec<Task>,
    /// Throttled: on the queue by the events only.
    pub withheld: Vec<Task>,
    /// Blocked tasks that are still queued.
    pub delayed: Vec<Task>,
    /// The wake list: wakeups by number.
    pub list: Vec<usize>,
    /// Shootdowns that ask it to flush.
    pub flushes: Vec<usize>,
    /// Other functions to call, by their entries' addresses.
    pub calls: Vec<u64>,
    /// Interrupts under way to it, by vector.
    pub pending: [Vec<usize>; 3],
    /// Its idle loop watches the need to reschedule.
    pub polling: bool,
    /// It was told by that flag that its lists are not empty.
    pub flagged: bool,
    /// It waits for other CPUs, and may be interrupted meanwhile.
    pub spinning: bool,
    /// In the middle of something that is not interrupted.
    pub in_kernel: bool,
    /// `common_flags`.
    pub context: u8,
    pub phases: VecDeque<Phase>,
    pub work: Option<Work>,
    /// Another task should run.
    pub resched: bool,
    /// No step of it is on the agenda.
    pub parked: bool,
    /// Since when it runs nothing, or ran.
    pub since: i64,
}

type Act = Box<dyn FnOnce(&mut Sim)>;

struct Item {
    ts: i64,
    serial: u64,
    act: Act,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        (self.ts, self.serial) == (other.ts, other.serial)
    }
}
impl Eq for Item {}
impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Item {
    /// The earliest is the greatest, as a heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.ts, other.serial).cmp(&(self.ts, self.serial))
    }
}

pub struct Sim {
    pub plan: Plan,
    pub machine: Machine,
    pub kernel: Kernel,
    pub random: Random,
    pub now: i64,
    agenda: BinaryHeap<Item>,
    serial: u64,
    pub cpus: Vec<CpuState>,
    pub tasks: Vec<TaskState>,
    pub log: Vec<Event>,
    pub notes: Notes,
    /// No more is begun; what is under way is brought to its end.
    pub ending: bool,
    pub next_pid: i32,
    /// By CPU.
    pub stoppers: Vec<Task>,
    pub swapper_flips: Vec<Flips>,
    /// Whether the soft interrupt being served was raised by a task.
    pub serving_inline: Vec<bool>,
    /// Where in a tick the run began.
    pub tick_phase: i64,
}

/// The first stamp of every run.
pub const START: i64 = 5_000_000_000;

impl Sim {
    pub fn new(plan: Plan, machine: Machine) -> Self {
        Self {
            kernel: plan.kernel,
            random: Random::new(plan.seed),
            now: START - 1,
            agenda: BinaryHeap::new(),
            serial: 0,
            cpus: vec![CpuState::default(); machine.cpus()],
            tasks: Vec::new(),
            log: Vec::new(),
            notes: Notes::new(START, machine.cpus()),
            ending: false,
            next_pid: 3000,
            stoppers: Vec::new(),
            swapper_flips: vec![Flips::default(); machine.cpus()],
            serving_inline: vec![false; machine.cpus()],
            tick_phase: (plan.seed as i64 * 7919) % TICK_NS,
            plan,
            machine,
        }
    }

    pub fn add_task(
        &mut self,
        comm: &str,
        prio: i32,
        kind: Kind,
        mask: Vec<Cpu>,
        pid: i32,
    ) -> Task {
        let task = self.tasks.len();
        let cpu = mask.first().copied().unwrap_or(0);
        self.tasks.push(TaskState {
            who: Who {
                pid,
                comm: comm.to_owned(),
                prio,
            },
            tgid: pid,
            kind,
            state: State::Blocked,
            cpu,
            mask,
            delayed: false,
            leaving: false,
            preempted: false,
            execs: false,
            flips: Flips::default(),
        });
        self.notes.tasks.push(TaskNote {
            pid,
            prio,
            recorder: false,
            bound: matches!(kind, Kind::Bound(_) | Kind::Stopper(_)).then_some(cpu),
            per_cpu_thread: matches!(kind, Kind::Bound(_)),
            told: None,
            born: None,
        });
        task
    }

    pub fn fair(&self, task: Task) -> bool {
        self.tasks[task].who.prio >= 100
    }

    /// CPUs that take part: not those of tasks that are alone.
    pub fn shared_cpus(&self) -> usize {
        self.machine.shape.cpus()
    }

    /// Puts something on the agenda.
    pub fn after(&mut self, delay: i64, act: impl FnOnce(&mut Sim) + 'static) {
        self.serial += 1;
        self.agenda.push(Item {
            ts: self.now + delay,
            serial: self.serial,
            act: Box::new(act),
        });
    }

    /// Does the next thing on the agenda; false if there is none.
    pub fn go_on(&mut self) -> bool {
        let Some(item) = self.agenda.pop() else {
            return false;
        };
        self.now = self.now.max(item.ts);
        (item.act)(self);
        true
    }

    /// An event of a CPU, at a stamp that no other has.
    pub fn emit(&mut self, cpu: Cpu, what: What) -> i64 {
        self.now += 1;
        let current = self.cpus[cpu].current;
        let (pid, tgid) = current.map_or((0, 0), |t| (self.tasks[t].who.pid, self.tasks[t].tgid));
        self.log.push(Event {
            ts: self.now,
            cpu,
            pid,
            tgid,
            flags: self.cpus[cpu].context,
            what,
        });
        self.now
    }

    pub fn who(&self, cpu: Cpu, task: Option<Task>) -> Who {
        match task {
            Some(task) => self.tasks[task].who.clone(),
            None => Who::swapper(self.machine.ids[cpu]),
        }
    }

    /// A task is in another state from now on.
    pub fn set(&mut self, task: Task, state: State, why: Why) {
        self.tasks[task].state = state;
        if let State::Running(cpu) | State::Queued(cpu) | State::Transit(cpu) = state {
            self.tasks[task].cpu = cpu;
        }
        self.notes.changes.push(Change {
            ts: self.now,
            task,
            state,
            why,
        });
    }

    /// Puts a task on a CPU's queue.
    pub fn enqueue(&mut self, task: Task, cpu: Cpu, why: Why) {
        self.tasks[task].preempted = match why {
            Why::Preempted => true,
            // It goes on being what it was.
            Why::Moved => self.tasks[task].preempted,
            _ => false,
        };
        self.set(task, State::Queued(cpu), why);
        self.cpus[cpu].queue.push(task);
        self.unpark(cpu);
    }

    pub fn unpark(&mut self, cpu: Cpu) {
        if std::mem::take(&mut self.cpus[cpu].parked) {
            self.later(cpu);
        }
    }

    /// `sched_switch`: the CPU's task leaves as it does, and `next` comes.
    pub fn switch(&mut self, cpu: Cpu, left: Left, next: Option<Task>) {
        let prev = self.cpus[cpu].current;
        let what = What::Switch {
            prev: self.who(cpu, prev),
            left,
            next: self.who(cpu, next),
        };
        self.emit(cpu, what);
        if let Some(next) = next {
            self.cpus[cpu].queue.retain(|&t| t != next);
            self.cpus[cpu].withheld.retain(|&t| t != next);
        }
        if let Some(prev) = prev {
            self.leave(prev, cpu, left, next.is_some());
        }
        self.cpus[cpu].current = next;
        self.cpus[cpu].resched = false;
        self.cpus[cpu].since = self.now;
        match next {
            Some(next) => {
                self.set(next, State::Running(cpu), Why::Other);
                self.pick_delayed(cpu, prev);
            }
            None => self.idle(cpu),
        }
        if self.plan.shootdowns && !self.plan.directed && next.is_some() && self.random.chance(8) {
            self.switch_translations(cpu, prev);
        }
    }

    /// The translations of another process are taken up: `current` is the one before until the stacks are switched, too.
    fn switch_translations(&mut self, cpu: Cpu, prev: Option<Task>) {
        let what = What::Tlb {
            reason: 0,
            pages: -1,
        };
        self.emit(cpu, what);
        let (pid, tgid) = prev.map_or((0, 0), |t| (self.tasks[t].who.pid, self.tasks[t].tgid));
        if let Some(event) = self.log.last_mut() {
            (event.pid, event.tgid) = (pid, tgid);
        }
    }

    fn leave(&mut self, task: Task, cpu: Cpu, left: Left, others: bool) {
        self.notes.left.push((self.now, task, cpu));
        if left.runnable() {
            self.enqueue(task, cpu, Why::Preempted);
        } else if std::mem::take(&mut self.tasks[task].leaving) {
            // Already woken, onto this CPU's wake list.
            self.set(task, State::Transit(cpu), Why::Other);
        } else if left == Left::Dead {
            self.set(task, State::Dead, Why::Other);
        } else {
            self.tasks[task].delayed = self.kernel.delays_dequeue()
                && self.plan.delayed
                && self.fair(task)
                && others
                && self.random.chance(35);
            if self.tasks[task].delayed {
                self.cpus[cpu].delayed.push(task);
            }
            self.set(task, State::Blocked, Why::Other);
        }
    }

    /// Some of the tasks whose dequeue was delayed are come across, and dequeued at last.
    fn pick_delayed(&mut self, cpu: Cpu, just_left: Option<Task>) {
        let delayed = std::mem::take(&mut self.cpus[cpu].delayed);
        for task in delayed {
            if Some(task) != just_left && self.random.chance(25) {
                self.tasks[task].delayed = false;
            } else {
                self.cpus[cpu].delayed.push(task);
            }
        }
    }

    /// Nothing runs here any more, and nothing is runnable.
    fn idle(&mut self, cpu: Cpu) {
        self.cpus[cpu].polling = self.random.chance(40);
        self.notes.idled.push((self.now, cpu));
        for task in std::mem::take(&mut self.cpus[cpu].delayed) {
            self.tasks[task].delayed = false;
        }
        for task in std::mem::take(&mut self.cpus[cpu].queue) {
            self.set(task, State::Withheld(cpu), Why::Other);
            self.cpus[cpu].withheld.push(task);
        }
    }

    /// A queued task goes to another CPU's queue; the event is `by`'s.
    pub fn move_queued(&mut self, by: Cpu, task: Task, to: Cpu, cause: Cause) {
        let State::Queued(from) = self.tasks[task].state else {
            return;
        };
        self.announce(by, task, from, to, cause);
        self.cpus[from].queue.retain(|&t| t != task);
        self.enqueue(task, to, Why::Moved);
    }

    /// `sched_migrate_task`.
    pub fn announce(&mut self, by: Cpu, task: Task, from: Cpu, to: Cpu, cause: Cause) {
        let who = self.tasks[task].who.clone();
        let ts = self.emit(by, What::Migrate { who, from, to });
        self.notes.moves.push(Move {
            ts,
            task,
            from,
            to,
            by,
            cause,
        });
    }

    /// How many tasks the CPU has to run, those whose dequeue is delayed among them.
    pub fn runnable(&self, cpu: Cpu) -> usize {
        let state = &self.cpus[cpu];
        usize::from(state.current.is_some()) + state.queue.len() + state.delayed.len()
    }

    /// The kernel's `idle_cpu()`.
    pub fn is_idle(&self, cpu: Cpu) -> bool {
        self.runnable(cpu) == 0 && self.cpus[cpu].list.is_empty() && !self.expected(cpu)
    }

    /// Whether a task is on its way here.
    fn expected(&self, cpu: Cpu) -> bool {
        self.tasks.iter().any(|t| t.state == State::Transit(cpu))
    }

    /// What a recorder has of it.
    pub fn recording(&self) -> Recording {
        let mut told: Vec<String> = Vec::new();
        for note in &self.notes.tasks {
            if let (Some(mask), None) = (&note.told, note.born) {
                let ids: Vec<u32> = mask.iter().map(|&cpu| self.machine.ids[cpu]).collect();
                told.push(format!(
                    "ttwu threads mask={} policy=other prio=0 nice=0 cgroup=/ tids={}",
                    super::machine::cpu_list(&ids),
                    note.pid
                ));
            }
        }
        let recorder = self.notes.tasks.iter().filter(|note| note.recorder);
        let recorder: Vec<String> = recorder.map(|note| note.pid.to_string()).collect();
        if !recorder.is_empty() {
            told.push(format!(
                "ttwu recorder version=0 backend=ftrace tids={}",
                recorder.join(",")
            ));
        }
        Recording {
            kernel: self.kernel,
            machine: self.machine.clone(),
            events: self.log.clone(),
            probes: self.plan.probes,
            tells_softirqs: self.plan.tells_softirqs,
            topology: true,
            record: std::iter::once(format!("ttwu machine hz {}", super::flips::HZ))
                .chain(told)
                .collect(),
            tasks: self
                .tasks
                .iter()
                .map(|t| (t.who.pid, t.tgid, t.who.comm.clone()))
                .collect(),
            losses: Vec::new(),
        }
    }
}
