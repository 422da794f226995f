//! The tasks of a trace: who they are, and what state each is in.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cpuset::MaskId;
use super::pids::PidNumber;
use super::rows::TaskId;
use super::snapshot::{Processes, Snapshot};
use super::words::Pair;
use ttwu_parsers::event::Comm;
use ttwu_parsers::print_fmt::PrevState;

/// Most former names kept of one task.
const FORMER_NAMES: usize = 8;

/// Where a task is in its life. CPUs are dense numbers; slots index the engine's open wakeups and waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Not seen yet, or last seen before a gap.
    Unknown,
    Running {
        cpu: usize,
        since: i64,
    },
    Queued {
        cpu: usize,
    },
    /// Woken, on the way to the CPU, not enqueued yet.
    Transit {
        cpu: usize,
    },
    /// Queued by the events, although its CPU found nothing runnable.
    Withheld {
        cpu: usize,
        since: i64,
    },
    Blocked,
    Dead,
}

/// One task.
#[derive(Debug, Clone)]
pub struct Task {
    pub pid: i32,
    pub generation: u32,
    pub tgid: Option<i32>,
    /// That is what the machine record says of its pid at the start.
    pub tgid_at_start: bool,
    pub comm: Comm,
    pub former_names: Vec<Comm>,
    pub prio: i16,
    pub state: TaskState,
    /// When and how it last left a CPU, and which.
    pub last_out: Option<(i64, PrevState, usize)>,
    /// When it was last moved while it slept: a sign that it is still queued.
    pub moved_asleep: Option<i64>,
    /// The CPU a per-CPU kernel thread is bound to.
    pub bound_to: Option<usize>,
    pub bound_mask: Option<MaskId>,
    /// The mask that a probe showed at the last waking.
    pub probed_mask: Option<MaskId>,
    /// It holds only until the task runs.
    pub probed_once: bool,
    /// What the machine record says of its mask.
    pub told: Option<Told>,
    /// Its masks where neither name nor probe tells.
    pub masks: Pair<MaskId>,
    /// Until when [`masks`](Self::masks) hold.
    pub masks_until: i64,
    /// Since when they do.
    pub masks_since: i64,
    /// It was seen on several CPUs while they held.
    pub seen_on_several: bool,
    /// [`masks`](Self::masks) are what the machine record says.
    pub mask_told: bool,
    /// It is a thread of the recorder.
    pub recorder: bool,
    /// It is a CPU's stopper, by its name.
    pub stopper: bool,
    /// Its `sched_process_fork` was seen.
    pub forked: bool,
    /// When, and by whom, a change of its mask was asked for last.
    pub asked: Option<(i64, TaskId)>,
    /// When NUMA balancing last announced that it would be moved.
    pub numa: Option<i64>,
    /// Its last migration, while what followed is not over.
    pub moved: Option<usize>,
    /// The wakeup that is under way: `sched_waking` seen, `sched_wakeup` not.
    pub waking: Option<usize>,
    /// The wakeup whose wait or run is not over yet.
    pub wake: Option<usize>,
    pub wait: Option<usize>,
    /// On-CPU time so far, window or not.
    pub on_cpu_ns: i64,
    /// [`on_cpu_ns`](Self::on_cpu_ns) when it last woke.
    pub on_cpu_at_wake_ns: i64,
    /// Its place on the queue of its CPU.
    pub queued_at: usize,
    /// Position in its LLC's list of waiting tasks.
    pub waiting_at: Option<usize>,
    /// Open wakeups that this task made, whose overlap with it is not decided yet.
    pub overlaps: Vec<usize>,
    pub totals: Totals,
}

/// A mask that is known without a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub mask: MaskId,
    /// An instant at which it was in force; `i64::MIN` from before the start.
    pub since: i64,
}

impl Told {
    fn at_start(mask: MaskId) -> Self {
        let since = i64::MIN;
        Self { mask, since }
    }
}

/// What a task did inside the window.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub run_ns: i64,
    pub wait_ns: i64,
    pub lost_ns: Pair<i64>,
    pub withheld: u64,
    pub withheld_ns: i64,
    pub switches: u64,
    pub migrations: u64,
    pub wakeups_made: u64,
    pub wakeups_received: u64,
}

impl Task {
    fn new(pid: i32, generation: u32) -> Self {
        Self {
            pid,
            generation,
            tgid: None,
            tgid_at_start: false,
            comm: Comm::default(),
            former_names: Vec::new(),
            prio: 120,
            state: TaskState::Unknown,
            last_out: None,
            moved_asleep: None,
            bound_to: None,
            bound_mask: None,
            probed_mask: None,
            probed_once: false,
            told: None,
            masks: Pair([MaskId::ALL; 2]),
            masks_until: i64::MIN,
            masks_since: i64::MIN,
            seen_on_several: false,
            mask_told: false,
            recorder: false,
            stopper: false,
            forked: false,
            asked: None,
            numa: None,
            moved: None,
            waking: None,
            wake: None,
            wait: None,
            on_cpu_ns: 0,
            on_cpu_at_wake_ns: 0,
            queued_at: 0,
            waiting_at: None,
            overlaps: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Whether it did anything yet that a task just forked has not done.
    pub fn has_lived(&self) -> bool {
        self.state != TaskState::Unknown || self.last_out.is_some() || self.on_cpu_ns > 0
    }

    /// Fair by priority; sched_ext and SCHED_IDLE tasks look the same.
    pub fn fair(&self) -> bool {
        self.prio >= 100
    }

    /// Takes a name, keeping the one before.
    #[inline]
    pub fn rename(&mut self, comm: Comm) -> bool {
        if self.comm == comm {
            return false;
        }
        if self.comm != Comm::default()
            && self.former_names.len() < FORMER_NAMES
            && !self.former_names.contains(&self.comm)
        {
            self.former_names.push(self.comm);
        }
        self.comm = comm;
        true
    }
}

/// All tasks, and which of them a pid means now. Idle tasks are not among them: they are CPUs' states.
#[derive(Debug, Default)]
pub struct Tasks {
    list: Vec<Task>,
    people: Vec<Pid>,
    by_pid: FxHashMap<i32, usize>,
    /// Places in `people` of the numbers that steps use.
    by_number: Vec<usize>,
    /// By pid: the masks of tasks alive at the start, and which of them record.
    alive: FxHashMap<i32, MaskId>,
    recorder: FxHashSet<i32>,
    /// Which process threads were of at the start, and others at the end.
    processes: [Processes; 2],
    /// By pid: the process of a task that is about to be forked.
    announced: FxHashMap<i32, i32>,
}

/// What a pid stands for.
#[derive(Debug)]
struct Pid {
    pid: i32,
    /// The task that has it, or had it last.
    task: Option<TaskId>,
    /// The name by the newest event that names it.
    comm: Comm,
    /// The task may have another name still.
    renamed: bool,
    generations: u32,
}

impl Tasks {
    pub fn new(alive: FxHashMap<i32, MaskId>, snapshot: &Snapshot) -> Self {
        Self {
            alive,
            recorder: snapshot.recorder(),
            processes: snapshot.processes.clone(),
            ..Self::default()
        }
    }

    /// Whether the record tells of processes. Where it does not, the few of which events tell are not told either: a
    /// process that lacks most of its threads would be taken for a small one.
    fn tells_processes(&self) -> bool {
        !self.processes.iter().all(Processes::is_empty)
    }

    /// A task is about to be forked, as a thread of its parent's process or as a process of its own.
    pub fn announce(&mut self, parent: i32, child: i32, thread: bool) {
        if !self.tells_processes() {
            return;
        }
        let process = match thread {
            true => self.process_of(parent),
            false => Some(child),
        };
        match process {
            Some(process) => self.announced.insert(child, process),
            None => self.announced.remove(&child),
        };
    }

    /// The process that a pid's task is of now.
    fn process_of(&self, pid: i32) -> Option<i32> {
        match self.by_pid.get(&pid).map(|place| &self.people[*place]) {
            Some(known) if known.generations > 0 => self[known.task?].tgid,
            _ => self.processes[0].of(pid),
        }
    }

    /// `exec`: whoever called it leads the process from then on.
    pub fn executed(&mut self, pid: i32) {
        if self.tells_processes()
            && let Some(task) = self.find(pid)
        {
            self[task].tgid = Some(pid);
        }
    }

    /// The process of a task at the end of the recording.
    pub fn final_process(&self, id: TaskId) -> Option<i32> {
        let task = &self[id];
        let lives = self.find(task.pid) == Some(id);
        let at_end = || self.processes[1].of(task.pid).filter(|_| lives);
        task.tgid.or_else(at_end)
    }

    /// The next number stands for this pid.
    pub fn number(&mut self, pid: i32) {
        let place = self.place(pid);
        self.by_number.push(place);
    }

    /// The pid has this name from now on. Its task takes it when it is next met.
    pub fn name(&mut self, number: PidNumber, comm: Comm) {
        let pid = &mut self.people[self.by_number[number.index()]];
        pid.comm = comm;
        pid.renamed = true;
    }

    /// The task behind a number, new if it is the first sight of it or the former one is dead; and its name, if that
    /// may have changed.
    #[inline]
    pub fn numbered(&mut self, number: PidNumber, prio: i16) -> (TaskId, Option<Comm>) {
        let place = self.by_number[number.index()];
        let pid = &self.people[place];
        if let Some(id) = pid.task
            && let task = &mut self.list[id.0 as usize]
            && task.state != TaskState::Dead
            && !pid.renamed
        {
            task.prio = prio;
            return (id, None);
        }
        self.renamed_or_fresh(place, prio)
    }

    #[cold]
    fn renamed_or_fresh(&mut self, place: usize, prio: i16) -> (TaskId, Option<Comm>) {
        let task = match self.living(place) {
            Some(task) => task,
            None => self.fresh_at(place),
        };
        self[task].prio = prio;
        let pid = &mut self.people[place];
        pid.renamed = false;
        (task, Some(pid.comm))
    }

    /// The living task behind a number.
    pub fn find_numbered(&self, number: PidNumber) -> Option<TaskId> {
        self.living(self.by_number[number.index()])
    }

    /// The task behind a pid, new if it is the first sight of it or the former one is dead.
    pub fn get_or_new(&mut self, pid: i32) -> TaskId {
        let place = self.place(pid);
        match self.living(place) {
            Some(task) => task,
            None => self.fresh_at(place),
        }
    }

    /// The living task behind a pid.
    pub fn find(&self, pid: i32) -> Option<TaskId> {
        self.living(*self.by_pid.get(&pid)?)
    }

    #[inline]
    fn living(&self, place: usize) -> Option<TaskId> {
        let task = self.people[place].task?;
        (self[task].state != TaskState::Dead).then_some(task)
    }

    fn place(&mut self, pid: i32) -> usize {
        *self.by_pid.entry(pid).or_insert_with(|| {
            self.people.push(Pid {
                pid,
                task: None,
                comm: Comm::default(),
                renamed: false,
                generations: 0,
            });
            self.people.len() - 1
        })
    }

    /// The task was started during the recording: what is known from the start is another's.
    pub fn mark_new(&mut self, id: TaskId) {
        self[id].told.take_if(|told| told.since == i64::MIN);
        if std::mem::take(&mut self[id].tgid_at_start) {
            self[id].tgid = None;
        }
        self[id].masks_until = i64::MIN;
    }

    /// A new task under a pid, whatever had it before.
    pub fn fresh(&mut self, pid: i32) -> TaskId {
        let place = self.place(pid);
        self.fresh_at(place)
    }

    fn fresh_at(&mut self, place: usize) -> TaskId {
        let pid = &mut self.people[place];
        let id = TaskId(self.list.len() as u32);
        let mut task = Task::new(pid.pid, pid.generations);
        // Whoever has the pid later is another task.
        if pid.generations == 0 {
            task.told = self.alive.get(&pid.pid).copied().map(Told::at_start);
            task.recorder = self.recorder.contains(&pid.pid);
            task.tgid = self.processes[0].of(pid.pid);
            task.tgid_at_start = true;
        }
        if let Some(process) = self.announced.remove(&pid.pid) {
            task.tgid = Some(process);
            task.tgid_at_start = false;
        }
        self.list.push(task);
        pid.generations += 1;
        pid.task = Some(id);
        pid.renamed = true;
        id
    }

    /// `exec` in a thread that is not the leader: it takes the leader's pid, and the leader is gone.
    pub fn take_over(&mut self, pid: i32, old_pid: i32) -> Option<TaskId> {
        let old = *self.by_pid.get(&old_pid)?;
        let id = self.people[old].task.take()?;
        let place = self.place(pid);
        let pid = &mut self.people[place];
        pid.renamed = true;
        let leader = pid.task.replace(id);
        let generation = pid.generations;
        pid.generations += 1;
        let pid = pid.pid;
        if let Some(leader) = leader {
            self[leader].state = TaskState::Dead;
        }
        self[id].pid = pid;
        self[id].generation = generation;
        self[id].masks_until = i64::MIN;
        Some(id)
    }

    pub fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.list.len() as u32).map(TaskId)
    }
}

// Every TaskId is made by `fresh`, so these never miss.
impl std::ops::Index<TaskId> for Tasks {
    type Output = Task;

    #[inline]
    fn index(&self, id: TaskId) -> &Task {
        &self.list[id.0 as usize]
    }
}

impl std::ops::IndexMut<TaskId> for Tasks {
    #[inline]
    fn index_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.list[id.0 as usize]
    }
}

/// The CPU that a per-CPU kernel thread's name says it is bound to: `ksoftirqd/3`, `kworker/3:1H`. Names can
/// be chosen by anyone, so the caller checks that the task was seen nowhere else.
pub fn bound_cpu(comm: &Comm) -> Option<u32> {
    const BOUND: [&[u8]; 9] = [
        b"kworker",
        b"ksoftirqd",
        b"migration",
        b"cpuhp",
        b"idle_inject",
        b"irq_work",
        b"rcuc",
        b"watchdog",
        b"backlog_napi",
    ];
    let name = comm.as_bytes();
    let slash = name.iter().position(|&b| b == b'/')?;
    let (kind, rest) = (name.get(..slash)?, name.get(slash + 1..)?);
    if !BOUND.contains(&kind) {
        return None;
    }
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let ended = rest.get(digits).is_none_or(|&b| b == b':');
    let number = std::str::from_utf8(rest.get(..digits)?).ok()?;
    number.parse().ok().filter(|_| ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_threads_are_told_by_name() {
        let cpu = |name: &str| bound_cpu(&Comm::new(name.as_bytes()));
        assert_eq!(cpu("kworker/3:1H"), Some(3));
        assert_eq!(cpu("migration/12"), Some(12));
        assert_eq!(cpu("kworker/u8:2"), None);
        assert_eq!(cpu("kworker/"), None);
        assert_eq!(cpu("rcu_sched"), None);
    }

    #[test]
    fn a_reused_pid_is_another_task() {
        let mut tasks = Tasks::default();
        let first = tasks.get_or_new(7);
        tasks[first].state = TaskState::Dead;
        let second = tasks.get_or_new(7);
        assert_ne!(first, second);
        assert_eq!(tasks[second].generation, 1);
    }
}
