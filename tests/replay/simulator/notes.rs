//! What the simulator notes of itself as it goes: every change of every task's state, and every decision.

use super::machine::Cpu;
use super::scheduler::Task;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Unborn,
    Blocked,
    /// Woken, and not on the queue of the CPU that was chosen.
    Transit(Cpu),
    Queued(Cpu),
    Running(Cpu),
    /// Queued by the events, though its CPU cannot run it.
    Withheld(Cpu),
    Dead,
}

/// How a task came to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// By the wakeup of that number.
    Woken(usize),
    Preempted,
    /// From another queue.
    Moved,
    Other,
}

#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub ts: i64,
    pub task: Task,
    pub state: State,
    pub why: Why,
}

/// What the waker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    Task,
    SoftirqInline,
    SoftirqIrqExit,
    Hardirq,
    Nmi,
}

/// How a wakeup was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Itself,
    /// Still on its queue, or on its CPU.
    InPlace,
    /// By the waker, on whatever CPU.
    Enqueued,
    /// Its dequeue had been delayed.
    Requeued,
    Listed,
    /// On its way off its CPU, listed there.
    ListedOnCpu,
    New,
}

/// What was sent to the chosen CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    Nothing,
    Ipi,
    /// It polls: nothing but a flag.
    Flag,
    /// Its wake list was not empty.
    Behind,
}

#[derive(Debug, Clone)]
pub struct Wakeup {
    pub wakee: Task,
    /// `sched_waking`; none of a new task.
    pub waking: Option<i64>,
    /// The enqueue.
    pub enqueued: Option<i64>,
    /// The CPU that enqueued it, and whether an interrupt did.
    pub enqueuer: Cpu,
    pub interrupted: bool,
    /// The task the waker's CPU ran.
    pub current: Option<Task>,
    pub context: Context,
    pub waker_cpu: Cpu,
    pub prev: Cpu,
    pub chosen: Cpu,
    pub way: Way,
    pub sent: Sent,
    /// Stamps of what told of the choice, by kind: the probe, migration, queueing, the interrupt, the enqueue.
    pub probed: Option<i64>,
    pub migrated: Option<i64>,
    pub queued: Option<i64>,
    pub interrupt: Option<i64>,
    pub flagged: Option<i64>,
    /// The wakee may run on one CPU only.
    pub pinned: bool,
    /// The waker's flips and the wakee's, after this wakeup was charged; none if it was not.
    pub flips: Option<(u32, u32)>,
    /// The same by each decay.
    pub flips_by: [(u32, u32); 3],
}

/// What moved a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    Wakeup,
    /// As its CPU was about to run nothing.
    NewIdle,
    /// From the balancing soft interrupt.
    Periodic,
    /// Off its CPU, by a stopper that a balancer woke.
    Active,
    Affinity,
    /// By the task that changed another's affinity.
    AffinityOfOther,
    Numa,
    Exec,
    /// By the real-time class.
    RealTime,
}

#[derive(Debug, Clone, Copy)]
pub struct Move {
    pub ts: i64,
    pub task: Task,
    pub from: Cpu,
    pub to: Cpu,
    /// The CPU that did it.
    pub by: Cpu,
    pub cause: Cause,
}

/// What an interrupt is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To go through the wake list.
    Wakeup,
    /// To look at what a waker enqueued.
    WakeupReschedule,
    Reschedule,
    Tlb,
    /// To call some function.
    Call,
    /// To do something of its own in an interrupt.
    IrqWork,
}

/// An interrupt.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    pub ts: i64,
    pub from: Cpu,
    pub to: Cpu,
    pub kind: super::events::Vector,
    pub purpose: Purpose,
    pub handled: Option<Handled>,
}

/// How an interrupt was handled.
#[derive(Debug, Clone, Copy)]
pub struct Handled {
    pub entry: i64,
    pub exit: i64,
    /// Time in the functions that it ran.
    pub inner: i64,
    /// It started the handler; else it came while one was due already.
    pub started: bool,
    pub interrupted: Option<Task>,
}

/// A shootdown of other CPUs' translations.
#[derive(Debug, Clone)]
pub struct Shootdown {
    pub from: Cpu,
    /// -1 for all.
    pub pages: i64,
    pub targets: Vec<Cpu>,
    /// The first request; none if nobody was asked.
    pub asked: Option<i64>,
    /// When CPUs that were asked were done.
    pub acknowledged: Vec<i64>,
}

#[derive(Debug, Clone)]
pub struct TaskNote {
    pub pid: i32,
    pub prio: i32,
    /// A thread of the recorder.
    pub recorder: bool,
    /// The CPU it is bound to, which its name tells.
    pub bound: Option<Cpu>,
    /// A kernel thread of one CPU that may stack its wakees.
    pub per_cpu_thread: bool,
    /// The mask that the recorder found, or that it was born with where its parent's was told.
    pub told: Option<Vec<Cpu>>,
    pub born: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct Notes {
    pub start: i64,
    pub end: i64,
    pub changes: Vec<Change>,
    pub wakeups: Vec<Wakeup>,
    pub moves: Vec<Move>,
    pub sendings: Vec<Sending>,
    pub shootdowns: Vec<Shootdown>,
    /// Calls of other functions: when, from which CPU, to which.
    pub calls: Vec<(i64, Cpu, Cpu)>,
    pub tasks: Vec<TaskNote>,
    /// When which task left which CPU.
    pub left: Vec<(i64, Task, Cpu)>,
    /// When which CPU began to run nothing.
    pub idled: Vec<(i64, Cpu)>,
    /// When a task's mask changed, by the events.
    pub breaks: Vec<(i64, Task)>,
    /// How long the idle loop ran functions without an interrupt, each time.
    pub idle_calls: Vec<i64>,
    /// When which blocked task was moved, and where to.
    pub moved_asleep: Vec<(i64, Task, Cpu)>,
    /// When which task changed its own mask, and where it ran.
    pub own_calls: Vec<(i64, Task, Cpu)>,
    /// By CPU: the task that woke its own CPU's stopper for itself.
    pub own_kick: Vec<Option<Task>>,
}

impl Notes {
    pub fn new(start: i64, cpus: usize) -> Self {
        Self {
            start,
            end: start,
            changes: Vec::new(),
            wakeups: Vec::new(),
            moves: Vec::new(),
            sendings: Vec::new(),
            shootdowns: Vec::new(),
            calls: Vec::new(),
            tasks: Vec::new(),
            left: Vec::new(),
            idled: Vec::new(),
            breaks: Vec::new(),
            idle_calls: Vec::new(),
            moved_asleep: Vec::new(),
            own_calls: Vec::new(),
            own_kick: vec![None; cpus],
        }
    }
}

impl Notes {
    /// The mask that is told of a task, if it has not changed since.
    pub fn told_now(&self, task: Task) -> Option<Vec<Cpu>> {
        let born = self.tasks[task].born.unwrap_or(i64::MIN);
        let changed = self.breaks.iter().any(|&(ts, of)| of == task && ts > born);
        self.tasks[task].told.clone().filter(|_| !changed)
    }
}
