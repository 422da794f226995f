//! The replay against a small scheduler whose own state is the truth, and against events that make no sense.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::support::Rows;
use crate::support::script::Script;
use proptest::prelude::*;
use ttwu::replay::Counts;
use ttwu::replay::words::{Class, LEDGER_ROWS, LedgerRow, Path, Reading, Verdict};

const READINGS: [Reading; 2] = [Reading::Seen, Reading::Any];

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Blocked,
    Running,
    Queued,
    /// Woken and not enqueued yet.
    Flying,
    Dead,
}

#[derive(Clone, Debug)]
struct SimTask {
    pid: i32,
    generation: u32,
    state: State,
    cpu: usize,
    /// Queued because it was preempted.
    preempted: bool,
    run_ns: i64,
    wait_ns: i64,
    /// CPUs on which it ran or was queued.
    seen: BTreeSet<usize>,
    /// The wakeup that its next or present run belongs to.
    woken: Option<usize>,
}

/// One wakeup's truth.
#[derive(Clone, Debug, Default)]
struct SimWake {
    waking: Option<i64>,
    pid: i32,
    enqueued: Option<i64>,
    latency: Option<i64>,
    queue: Option<i64>,
    /// The wakee's on-CPU time when it was enqueued, and from then until it blocked.
    run_before: i64,
    run: Option<i64>,
    /// The waker, its on-CPU time at the waking, and from then until it blocked.
    waker: Option<(usize, i64)>,
    waker_rest: Option<i64>,
}

/// What waited and what was free in one LLC for some time.
#[derive(Debug)]
struct Moment {
    ns: i64,
    waiting: Vec<usize>,
    free: Vec<usize>,
    free_whole: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
struct SimCpu {
    current: Option<usize>,
    queue: Vec<usize>,
    flying: usize,
    running_ns: i64,
    transit_ns: i64,
    free_ns: i64,
}

/// A queued wakeup under way.
#[derive(Clone, Debug)]
struct Flight {
    task: usize,
    to: usize,
    wake: usize,
}

/// One step: what, three choices, and how long before it.
type Op = (u8, u8, u8, u8, u8);

/// CPUs, threads of a core, cores of an LLC, whether CPU ids are sparse.
type Shape = (usize, usize, usize, bool);

#[derive(Debug)]
struct Sim {
    now: i64,
    smt: usize,
    per_llc: usize,
    ids: Vec<u32>,
    cpus: Vec<SimCpu>,
    tasks: Vec<SimTask>,
    flights: Vec<Flight>,
    lines: String,
    classes: BTreeMap<Class, usize>,
    paths: BTreeMap<Path, usize>,
    waits: usize,
    /// The matched CPU time under `any`: whole cores, threads of busy cores, other LLCs.
    lost: [i64; 3],
    moments: Vec<Moment>,
    wakes: Vec<SimWake>,
    migrations: usize,
    idle_periods: usize,
    reuse_pids: bool,
}

impl Sim {
    fn new((cpus, smt, cores, sparse): Shape, reuse_pids: bool) -> Self {
        let ids: Vec<u32> = (0..cpus as u32)
            .map(|c| if sparse { c * 37 + 2 } else { c })
            .collect();
        let mut lines = String::new();
        for id in &ids {
            writeln!(lines, "0 {id} 0 other").unwrap();
        }
        let blank = |pid| SimTask {
            pid,
            generation: 0,
            state: State::Blocked,
            cpu: pid as usize % cpus,
            preempted: false,
            run_ns: 0,
            wait_ns: 0,
            seen: BTreeSet::new(),
            woken: None,
        };
        Self {
            now: 0,
            smt,
            per_llc: smt * cores,
            ids,
            cpus: vec![SimCpu::default(); cpus],
            tasks: (1..=5).map(blank).collect(),
            flights: Vec::new(),
            lines,
            classes: BTreeMap::new(),
            paths: BTreeMap::new(),
            waits: 0,
            lost: [0; 3],
            moments: Vec::new(),
            wakes: Vec::new(),
            migrations: 0,
            idle_periods: cpus,
            reuse_pids,
        }
    }

    fn spec(&self) -> String {
        let groups = |size: usize| {
            let lists = self.ids.chunks(size).map(|c| {
                let ids: Vec<String> = c.iter().map(u32::to_string).collect();
                ids.join(",")
            });
            lists.collect::<Vec<_>>().join(";")
        };
        let all = groups(self.ids.len());
        format!(
            "llc={} smt={} node={all}",
            groups(self.per_llc),
            groups(self.smt)
        )
    }

    /// Time passes: every CPU and task is in the state it is in.
    fn advance(&mut self, dt: i64) {
        for task in &mut self.tasks {
            match task.state {
                State::Running => task.run_ns += dt,
                State::Queued => task.wait_ns += dt,
                _ => {}
            }
        }
        let nothing: Vec<bool> = self.cpus.iter().map(|c| c.current.is_none()).collect();
        let whole = |cpu: usize| {
            let core = cpu / self.smt * self.smt;
            nothing[core..(core + self.smt).min(nothing.len())]
                .iter()
                .all(|&n| n)
        };
        let (mut waiting_left, mut free_left) = (0, 0);
        for first in (0..self.cpus.len()).step_by(self.per_llc) {
            let (mut waiting, mut free, mut free_whole) = (Vec::new(), Vec::new(), Vec::new());
            for cpu in first..(first + self.per_llc).min(self.cpus.len()) {
                let state = &mut self.cpus[cpu];
                if state.current.is_some() {
                    state.running_ns += dt;
                    waiting.extend(&state.queue);
                } else if state.queue.is_empty() && state.flying == 0 {
                    state.free_ns += dt;
                    free.push(cpu);
                    if whole(cpu) {
                        free_whole.push(cpu);
                    }
                } else {
                    // The first one due does not wait for anybody.
                    state.transit_ns += dt;
                    waiting.extend(state.queue.iter().skip(1));
                }
            }
            let matched = waiting.len().min(free.len());
            self.lost[0] += matched.min(free_whole.len()) as i64 * dt;
            self.lost[1] += matched.saturating_sub(free_whole.len()) as i64 * dt;
            waiting_left += waiting.len() - matched;
            free_left += free.len() - matched;
            self.moments.push(Moment {
                ns: dt,
                waiting,
                free,
                free_whole,
            });
        }
        self.lost[2] += waiting_left.min(free_left) as i64 * dt;
        self.now += dt;
    }

    /// An event of a CPU, in an interrupt if it runs nothing or `irq`.
    fn emit(&mut self, cpu: usize, irq: bool, what: &str) {
        let pid = self.cpus[cpu].current.map_or(0, |t| self.tasks[t].pid);
        let flags = if irq || pid == 0 { "/h" } else { "" };
        writeln!(
            self.lines,
            "{} {} {pid}{flags} {what}",
            self.now, self.ids[cpu]
        )
        .unwrap();
    }

    fn count(&mut self, class: Class, path: Path) {
        *self.classes.entry(class).or_default() += 1;
        *self.paths.entry(path).or_default() += 1;
    }

    fn pick(&self, choice: u8, wanted: impl Fn(usize, &SimTask) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.tasks.len())
            .filter(|&t| wanted(t, &self.tasks[t]))
            .collect();
        (!found.is_empty()).then(|| found[usize::from(choice) % found.len()])
    }

    fn leaving(&self, task: usize) -> bool {
        self.flights.iter().any(|f| f.task == task) && self.tasks[task].state == State::Running
    }

    fn enqueue(&mut self, task: usize, cpu: usize, preempted: bool) {
        let t = &mut self.tasks[task];
        (t.state, t.cpu, t.preempted) = (State::Queued, cpu, preempted);
        t.seen.insert(cpu);
        self.cpus[cpu].queue.push(task);
    }

    /// The CPU takes one of its queued tasks, or none if there is none.
    fn switch(&mut self, cpu: usize, state: &str, choice: u8) {
        let prev = self.cpus[cpu].current;
        let queue = &self.cpus[cpu].queue;
        let at = usize::from(choice) % queue.len().max(1);
        let next = queue.get(at).copied();
        let pid = |t: Option<usize>| t.map_or(0, |t| self.tasks[t].pid);
        let what = format!("switch {}:{state} {}", pid(prev), pid(next));
        self.emit(cpu, false, &what);
        if next.is_some() {
            self.cpus[cpu].queue.remove(at);
        }
        if let Some(prev) = prev.filter(|_| state != "R") {
            self.blocked(prev);
        }
        if let Some(prev) = prev {
            if state == "R" {
                self.waits += 1;
                self.enqueue(prev, cpu, true);
            } else if let Some(to) = self.flights.iter().find(|f| f.task == prev).map(|f| f.to) {
                self.tasks[prev].state = State::Flying;
                self.cpus[to].flying += 1;
            } else {
                let dead = state == "X";
                self.tasks[prev].state = if dead { State::Dead } else { State::Blocked };
            }
        }
        if let Some(next) = next {
            self.tasks[next].state = State::Running;
            self.tasks[next].cpu = cpu;
            let wake = self.tasks[next].woken.map(|w| &mut self.wakes[w]);
            if let Some(wake) = wake.filter(|w| w.queue.is_none()) {
                wake.latency = wake.waking.map(|waking| self.now - waking);
                wake.queue = wake.enqueued.map(|enqueued| self.now - enqueued);
            }
        } else {
            self.idle_periods += 1;
        }
        self.cpus[cpu].current = next;
    }

    /// The task sleeps or ends: its run is over, and so is what it could do beside those it woke.
    fn blocked(&mut self, task: usize) {
        let run_ns = self.tasks[task].run_ns;
        if let Some(wake) = self.tasks[task].woken.take() {
            self.wakes[wake].run = Some(run_ns - self.wakes[wake].run_before);
        }
        for wake in &mut self.wakes {
            if let Some((_, before)) = wake.waker.filter(|(waker, _)| *waker == task) {
                wake.waker_rest.get_or_insert(run_ns - before);
            }
        }
    }

    /// Notes a wakeup of `task` by what `cpu` runs, unless it is an interrupt's.
    fn note_wake(&mut self, cpu: usize, irq: bool, task: usize, waking: Option<i64>) -> usize {
        let waker = self.cpus[cpu].current.filter(|_| !irq);
        self.wakes.push(SimWake {
            waking,
            pid: self.tasks[task].pid,
            waker: waker.map(|w| (w, self.tasks[w].run_ns)),
            ..SimWake::default()
        });
        self.wakes.len() - 1
    }

    fn step(&mut self, (kind, a, b, c, dt): Op) {
        self.advance(i64::from(dt));
        let n = self.cpus.len();
        let (cpu, target) = (usize::from(a) % n, usize::from(b) % n);
        let current = self.cpus[cpu].current;
        match kind % 12 {
            0 | 1 if current.is_some() => self.switch(cpu, "S", b),
            2 if current.is_some_and(|t| !self.leaving(t)) && !self.cpus[cpu].queue.is_empty() => {
                self.switch(cpu, "R", b);
            }
            3 if current.is_some_and(|t| !self.leaving(t)) && c < 64 => self.switch(cpu, "X", b),
            3..=5 if current.is_none() && !self.cpus[cpu].queue.is_empty() => {
                self.switch(cpu, "R", b);
            }
            6 | 7 => self.wake(cpu, target, c),
            8 => self.land(b),
            9 => self.migrate(cpu, target, c),
            10 => self.wake_in_place(cpu, b),
            11 if c < 128 => self.new_task(cpu, target, c),
            _ => {}
        }
    }

    /// A blocked task, or one about to leave its CPU, is woken to `target`.
    fn wake(&mut self, cpu: usize, target: usize, c: u8) {
        let queued = cpu != target && c & 1 == 0;
        let wanted = |t: usize, task: &SimTask| match task.state {
            State::Blocked => true,
            State::Running => queued && c & 2 == 0 && task.cpu != cpu && !self.leaving(t),
            _ => false,
        };
        let Some(task) = self.pick(c >> 4, wanted) else {
            return;
        };
        let (pid, prev) = (self.tasks[task].pid, self.tasks[task].cpu);
        self.emit(
            cpu,
            c & 4 == 0,
            &format!("waking {pid} prev={}", self.ids[prev]),
        );
        let wake = self.note_wake(cpu, c & 4 == 0, task, Some(self.now));
        let running = self.tasks[task].state == State::Running;
        if !running {
            self.tasks[task].state = State::Flying;
            self.cpus[target].flying += 1;
        }
        let to = self.ids[target];
        if prev != target {
            self.migrations += 1;
            self.emit(
                cpu,
                c & 4 == 0,
                &format!("migrate {pid} {} {to}", self.ids[prev]),
            );
        }
        if queued {
            self.emit(cpu, c & 4 == 0, &format!("csd {to}"));
        }
        let send = ["", "ipi", "poll"][usize::from(c >> 3) % 3];
        if !send.is_empty() && cpu != target {
            self.emit(cpu, c & 4 == 0, &format!("{send} {to}"));
        }
        let path = match (queued, send) {
            (true, "ipi") => Path::QueuedIpi,
            (true, "poll") => Path::QueuedPolling,
            (true, _) => Path::QueuedCoalesced,
            _ if cpu == target => Path::Local,
            (false, "ipi") => Path::DirectIpi,
            _ => Path::DirectNoIpi,
        };
        let class = match queued {
            true => Class::Queued,
            false if cpu == target => Class::Local,
            false => Class::Direct,
        };
        self.count(class, path);
        if queued {
            self.flights.push(Flight {
                task,
                to: target,
                wake,
            });
            return;
        }
        self.advance(i64::from(c % 8));
        self.emit(cpu, c & 4 == 0, &format!("wakeup {pid} to={to}"));
        self.arrive(task, target, wake);
    }

    /// A queued wakeup is carried out by its target.
    fn land(&mut self, choice: u8) {
        let ready: Vec<usize> = (0..self.flights.len())
            .filter(|&f| self.tasks[self.flights[f].task].state == State::Flying)
            .collect();
        if ready.is_empty() {
            return;
        }
        let flight = self
            .flights
            .remove(ready[usize::from(choice) % ready.len()]);
        let what = format!(
            "wakeup {} to={}",
            self.tasks[flight.task].pid, self.ids[flight.to]
        );
        self.emit(flight.to, true, &what);
        self.arrive(flight.task, flight.to, flight.wake);
    }

    fn arrive(&mut self, task: usize, cpu: usize, wake: usize) {
        self.cpus[cpu].flying -= 1;
        self.waits += 1;
        self.wakes[wake].enqueued = Some(self.now);
        self.wakes[wake].run_before = self.tasks[task].run_ns;
        self.tasks[task].woken = Some(wake);
        self.enqueue(task, cpu, false);
    }

    fn migrate(&mut self, by: usize, target: usize, choice: u8) {
        let queued = |_, task: &SimTask| task.state == State::Queued && task.cpu != target;
        let Some(task) = self.pick(choice, queued) else {
            return;
        };
        let from = self.tasks[task].cpu;
        let what = format!(
            "migrate {} {} {}",
            self.tasks[task].pid, self.ids[from], self.ids[target]
        );
        self.emit(by, false, &what);
        self.cpus[from].queue.retain(|&t| t != task);
        self.migrations += 1;
        let preempted = self.tasks[task].preempted;
        self.enqueue(task, target, preempted);
    }

    /// A wakeup that finds its wakee still runnable.
    fn wake_in_place(&mut self, cpu: usize, choice: u8) {
        let there = |t: usize, task: &SimTask| match task.state {
            State::Running => !self.leaving(t),
            State::Queued => task.preempted,
            _ => false,
        };
        let Some(task) = self.pick(choice, there) else {
            return;
        };
        let (pid, at) = (self.tasks[task].pid, self.tasks[task].cpu);
        self.emit(cpu, false, &format!("waking {pid} prev={}", self.ids[at]));
        self.emit(cpu, false, &format!("wakeup {pid} to={}", self.ids[at]));
        let wake = self.note_wake(cpu, false, task, Some(self.now));
        self.wakes[wake].enqueued = Some(self.now);
        let itself = self.cpus[cpu].current == Some(task);
        let class = if itself {
            Class::SelfWake
        } else {
            Class::FastPath
        };
        let path = if cpu == at {
            Path::Local
        } else {
            Path::DirectNoIpi
        };
        self.count(class, path);
    }

    fn new_task(&mut self, cpu: usize, target: usize, c: u8) {
        let unused = self.tasks.iter().map(|t| t.pid).max().unwrap_or(0) + 1;
        let free = self.pick(c, |t, task| {
            task.state == State::Dead
                && !self.tasks[t + 1..]
                    .iter()
                    .any(|later| later.pid == task.pid)
        });
        let (pid, generation) = match free {
            Some(dead) if c & 1 == 0 && self.reuse_pids => {
                (self.tasks[dead].pid, self.tasks[dead].generation + 1)
            }
            _ => (unused, 0),
        };
        self.tasks.push(SimTask {
            pid,
            generation,
            state: State::Dead,
            cpu,
            preempted: false,
            run_ns: 0,
            wait_ns: 0,
            seen: BTreeSet::new(),
            woken: None,
        });
        if c & 2 == 0 {
            self.emit(cpu, false, &format!("fork {pid}"));
        }
        self.emit(cpu, false, &format!("new {pid} to={}", self.ids[target]));
        self.count(
            Class::New,
            if cpu == target {
                Path::Local
            } else {
                Path::DirectNoIpi
            },
        );
        self.waits += 1;
        let task = self.tasks.len() - 1;
        let wake = self.note_wake(cpu, false, task, None);
        self.wakes[wake].enqueued = Some(self.now);
        self.tasks[task].woken = Some(wake);
        self.enqueue(task, target, false);
    }

    /// The time matched within LLCs when a task may run only where it was seen: on whole cores, and beside
    /// busy threads. The CPUs that one matching covers form a matroid, so whole cores may come first.
    fn lost_if_seen(&self) -> [i64; 2] {
        let covered = |moment: &Moment, cpus: &[usize]| {
            let mut holders = BTreeMap::new();
            let seated = moment
                .waiting
                .iter()
                .filter(|&&task| self.seat(task, cpus, &mut holders, &mut BTreeSet::new()));
            seated.count() as i64 * moment.ns
        };
        let whole = self.moments.iter().map(|m| covered(m, &m.free_whole)).sum();
        let all: i64 = self.moments.iter().map(|m| covered(m, &m.free)).sum();
        [whole, all - whole]
    }

    fn seat(
        &self,
        task: usize,
        cpus: &[usize],
        holders: &mut BTreeMap<usize, usize>,
        tried: &mut BTreeSet<usize>,
    ) -> bool {
        for cpu in cpus
            .iter()
            .filter(|cpu| self.tasks[task].seen.contains(cpu))
        {
            if !tried.insert(*cpu) {
                continue;
            }
            let holder = holders.get(cpu).copied();
            if holder.is_none_or(|other| self.seat(other, cpus, holders, tried)) {
                holders.insert(*cpu, task);
                return true;
            }
        }
        false
    }

    /// Every wakeup under way arrives, and every CPU has a last event.
    fn finish(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].current.is_some_and(|t| self.leaving(t)) {
                self.switch(cpu, "S", 0);
            }
        }
        while !self.flights.is_empty() {
            self.advance(1);
            self.land(0);
        }
        self.advance(10);
        for cpu in 0..self.cpus.len() {
            self.emit(cpu, false, "other");
        }
    }
}

fn simulate(shape: Shape, ops: &[Op], reuse_pids: bool) -> (Sim, Script) {
    let mut sim = Sim::new(shape, reuse_pids);
    for &op in ops {
        sim.step(op);
    }
    sim.finish();
    let mut script = Script::new(&sim.spec(), &sim.lines);
    script.version = (6, 8);
    (sim, script)
}

fn cell(row: LedgerRow) -> usize {
    usize::from(row.code())
}

const LOST: [LedgerRow; 3] = [
    LedgerRow::WaitingLlcCore,
    LedgerRow::WaitingLlcSmt,
    LedgerRow::WaitingMachine,
];

/// What holds for any events: each ledger sums to the duration, and what tasks ran, waited and lost is what
/// the CPUs and the waits say.
fn check_sums(rows: &Rows, counts: &Counts, duration: i64) -> Result<(), TestCaseError> {
    let sum = |reading, row| rows.total(reading, row);
    for cpu in &rows.cpus {
        for reading in READINGS {
            prop_assert_eq!(cpu.ledger[reading].iter().sum::<i64>(), duration);
            prop_assert!(cpu.ledger[reading].iter().all(|&ns| ns >= 0));
        }
    }
    for reading in READINGS {
        let lost: i64 = LOST.iter().map(|&row| sum(reading, row)).sum();
        prop_assert_eq!(
            rows.tasks.iter().map(|t| t.lost_ns[reading]).sum::<i64>(),
            lost
        );
        let waits: i64 = rows.waits.iter().map(|w| w.lost_ns[reading]).sum();
        prop_assert_eq!(waits + counts.withdrawn_lost_ns[reading], lost);
        let running = sum(reading, LedgerRow::Running);
        prop_assert_eq!(rows.tasks.iter().map(|t| t.run_ns).sum::<i64>(), running);
    }
    let waited: i64 = rows.waits.iter().map(|w| w.wait_ns).sum();
    prop_assert_eq!(rows.tasks.iter().map(|t| t.wait_ns).sum::<i64>(), waited);
    for wait in &rows.waits {
        for reading in READINGS {
            prop_assert!(
                (0..=wait.wait_ns).contains(&wait.lost_ns[reading]),
                "{:?}",
                wait
            );
        }
    }
    Ok(())
}

/// Every wakeup's times are the simulator's.
fn check_wakeups(rows: &Rows, sim: &Sim) -> Result<(), TestCaseError> {
    let pid = |task| {
        rows.tasks
            .iter()
            .find(|t| t.task == task)
            .map_or(0, |t| t.pid)
    };
    let mut found: Vec<_> = rows
        .wakeups
        .iter()
        .map(|w| {
            let key = (pid(w.wakee), w.waking_ns, w.wakeup_ns, w.waker.map(pid));
            (key, w.latency_ns, w.queue_ns, w.wakee_run_ns, w.overlap_ns)
        })
        .collect();
    let mut truth: Vec<_> = sim
        .wakes
        .iter()
        .map(|w| {
            let waker = w.waker.map(|(t, _)| sim.tasks[t].pid);
            let overlap = w.run.zip(w.waker_rest).map(|(run, rest)| run.min(rest));
            (
                (w.pid, w.waking, w.enqueued, waker),
                w.latency,
                w.queue,
                w.run,
                overlap,
            )
        })
        .collect();
    found.sort_unstable();
    truth.sort_unstable();
    // Where the waker has not blocked by the end, it may be known all the same that it went on for longer.
    for (f, t) in found.iter_mut().zip(&truth) {
        if t.4.is_none() && f.0 == t.0 {
            prop_assert!(f.4.is_none_or(|ns| Some(ns) == t.3), "{:?} {:?}", f, t);
            f.4 = None;
        }
    }
    prop_assert_eq!(found, truth);
    Ok(())
}

/// Every additive number of the whole, by name.
fn additive((rows, counts): &(Rows, Counts)) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for cpu in &rows.cpus {
        for reading in READINGS {
            for row in 0..LEDGER_ROWS {
                let key = format!("cpu {} {} {row}", cpu.cpu, reading.as_str());
                all.insert(key, cpu.ledger[reading][row]);
            }
        }
        all.insert(format!("cpu {} switches", cpu.cpu), cpu.switches as i64);
        all.insert(format!("cpu {} wakeups", cpu.cpu), cpu.wakeups_made as i64);
    }
    for task in &rows.tasks {
        let numbers = [
            task.run_ns,
            task.wait_ns,
            task.lost_ns[Reading::Seen],
            task.lost_ns[Reading::Any],
            task.withheld as i64,
            task.withheld_ns,
            task.switches as i64,
            task.migrations as i64,
            task.wakeups_made as i64,
            task.wakeups_received as i64,
        ];
        for (k, number) in numbers.into_iter().enumerate() {
            all.insert(format!("task {} {k}", task.task.0), number);
        }
    }
    let within = |inside: &dyn Fn() -> usize| inside() as i64;
    let wakeups = || rows.wakeups.iter().filter(|w| w.in_window).count();
    let waits = || rows.waits.iter().filter(|w| w.in_window).count();
    all.insert("wakeups".into(), within(&wakeups));
    all.insert("waits".into(), within(&waits));
    all.insert("withheld".into(), counts.withheld_ns);
    all.insert("waited".into(), rows.waits.iter().map(|w| w.wait_ns).sum());
    all.insert(
        "woken waited".into(),
        rows.wakeups.iter().map(|w| w.wait_ns).sum(),
    );
    all
}

fn check_windows(script: &mut Script, end: i64, cuts: [f64; 2]) -> Result<(), TestCaseError> {
    let mut at = cuts.map(|cut| 1 + ((end - 2) as f64 * cut) as i64);
    at.sort_unstable();
    script.window = None;
    let whole = additive(&script.run());
    let mut sum: BTreeMap<String, i64> = BTreeMap::new();
    for window in [(0, at[0]), (at[0], at[1]), (at[1], end)] {
        script.window = Some(window);
        let (rows, counts) = script.run();
        check_sums(&rows, &counts, window.1 - window.0)?;
        for (name, number) in additive(&(rows, counts)) {
            *sum.entry(name).or_default() += number;
        }
    }
    prop_assert_eq!(sum, whole);
    Ok(())
}

fn shape() -> impl Strategy<Value = Shape> {
    (1_usize..=6, 1_usize..=2, 1_usize..=3, any::<bool>())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_replay_finds_the_simulators_truth(
        shape in shape(),
        ops in prop::collection::vec(any::<Op>(), 0..160),
        reuse_pids in any::<bool>(),
    ) {
        let (sim, script) = simulate(shape, &ops, reuse_pids);
        let (rows, counts) = script.run();
        check_sums(&rows, &counts, sim.now)?;

        for (cpu, truth) in rows.cpus.iter().zip(&sim.cpus) {
            for reading in READINGS {
                let ledger = cpu.ledger[reading];
                prop_assert_eq!(ledger[cell(LedgerRow::Unknown)], 0);
                prop_assert_eq!(ledger[cell(LedgerRow::Running)], truth.running_ns);
                prop_assert_eq!(ledger[cell(LedgerRow::Transit)], truth.transit_ns);
            }
            let idle = rows.idle.iter().filter(|i| i.cpu == cpu.cpu);
            let idle: i64 = idle.map(|i| i.end_ns - i.start_ns).sum();
            prop_assert_eq!(idle, truth.transit_ns + truth.free_ns);
        }
        // Where every CPU is allowed, the matching is a matter of counting.
        let any: Vec<i64> = LOST.iter().map(|&row| rows.total(Reading::Any, row)).collect();
        prop_assert_eq!(&any[..], &sim.lost[..]);
        let seen: i64 = LOST.iter().map(|&row| rows.total(Reading::Seen, row)).sum();
        prop_assert!(seen <= any.iter().sum());
        if !reuse_pids {
            let near = [LedgerRow::WaitingLlcCore, LedgerRow::WaitingLlcSmt];
            prop_assert_eq!(near.map(|row| rows.total(Reading::Seen, row)), sim.lost_if_seen());
        }

        for truth in &sim.tasks {
            let same = (truth.pid, truth.generation);
            let found = rows.tasks.iter().find(|t| (t.pid, t.generation) == same);
            let found = found.map_or((0, 0), |t| (t.run_ns, t.wait_ns));
            prop_assert_eq!(found, (truth.run_ns, truth.wait_ns), "pid {}", truth.pid);
        }
        let ran: i64 = rows.slices.iter().map(|s| s.end_ns - s.start_ns).sum();
        prop_assert_eq!(ran, sim.tasks.iter().map(|t| t.run_ns).sum::<i64>());
        prop_assert_eq!(rows.waits.len(), sim.waits);

        let classes = rows.wakeups.iter().fold(BTreeMap::new(), |mut by, w| {
            *by.entry(w.class).or_insert(0) += 1;
            by
        });
        prop_assert_eq!(&classes, &sim.classes);
        let paths = rows.wakeups.iter().fold(BTreeMap::new(), |mut by, w| {
            *by.entry(w.path).or_insert(0) += 1;
            by
        });
        prop_assert_eq!(&paths, &sim.paths);
        check_wakeups(&rows, &sim)?;
        prop_assert_eq!(rows.idle.len(), sim.idle_periods);
        prop_assert_eq!(rows.migrations.len(), sim.migrations);
        let moved: u64 = rows.tasks.iter().map(|t| t.migrations).sum();
        prop_assert_eq!(moved, sim.migrations as u64);
        for wait in &rows.waits {
            for reading in READINGS {
                // Who waits for nobody, or has no idle CPU during the whole wait, loses nothing.
                if matches!(wait.verdict[reading], Verdict::Transit | Verdict::Saturated) {
                    prop_assert_eq!(wait.lost_ns[reading], 0, "{:?}", wait);
                }
            }
        }
        let clean = Counts {
            waits: counts.waits,
            open_waits: counts.open_waits,
            censored_overlaps: counts.censored_overlaps,
            ..Counts::default()
        };
        prop_assert_eq!(counts, clean);
    }

    #[test]
    fn windows_add_up(
        shape in shape(),
        ops in prop::collection::vec(any::<Op>(), 0..120),
        cuts in [0.0..1.0, 0.0..1.0],
    ) {
        let (sim, mut script) = simulate(shape, &ops, true);
        check_windows(&mut script, sim.now, cuts)?;
    }

    #[test]
    fn garbage_is_accounted_all_the_same(
        ops in prop::collection::vec((0_u8..24, any::<[u8; 4]>(), 0_i64..40), 1..200),
        version in prop::sample::select(VERSIONS.to_vec()),
        complete in any::<bool>(),
        spec in prop::sample::select(SPECS.to_vec()),
        cuts in [0.0..1.0, 0.0..1.0],
    ) {
        let mut script = Script::new(spec, &garbage(&ops));
        script.version = version;
        script.complete = complete;
        let end = script.events.last().map_or(0, |e| e.ts);
        let (rows, counts) = script.run();
        check_sums(&rows, &counts, end)?;
        let wakings = script.events.iter().filter(|e| is_waking(e)).count();
        // What was woken without a waking has a row too.
        let made = rows.wakeups.iter().filter(|w| w.waking_ns.is_some()).count();
        prop_assert_eq!(made, wakings);
        check_windows(&mut script, end, cuts)?;
    }
}

const VERSIONS: [(u32, u32); 6] = [(4, 2), (5, 2), (5, 9), (6, 4), (6, 8), (6, 12)];

/// Unknown, one that lacks a CPU, and two LLCs.
const SPECS: [&str; 3] = [
    "",
    "llc=0-1;3 smt=0-1;3 node=0-3",
    "llc=0,70;1,3 smt=0;1;3;70 node=0-70",
];

fn is_waking(event: &ttwu_parsers::event::Event) -> bool {
    matches!(&event.payload, ttwu_parsers::event::Payload::Waking(w) if w.pid > 0)
}

/// Any kind of event with any pids and CPUs, in time order.
fn garbage(ops: &[(u8, [u8; 4], i64)]) -> String {
    let mut text = String::from("0 0 0 other\n");
    let mut now = 0;
    for &(kind, [a, b, c, d], dt) in ops {
        now += dt;
        let cpu = |x: u8| [0, 1, 3, 70][usize::from(x % 4)];
        let pid = |x: u8| i32::from(x % 7) - i32::from(x == 251);
        let state = ["S", "R", "R+", "D", "X", "Z", "I"][usize::from(c % 7)];
        let what = match kind {
            0..=5 => format!("switch {}:{state} {}", pid(b), pid(d)),
            6 => format!("switch {}:{state} 0", pid(b)),
            7 => format!("switch 0:R {}", pid(d)),
            8..=10 => format!("waking {} prev={}", pid(b), cpu(c)),
            11..=13 => format!("wakeup {} to={}", pid(b), cpu(c)),
            14 => format!("new {} to={}", pid(b), cpu(c)),
            15 => format!("migrate {} {} {}", pid(b), cpu(c), cpu(d)),
            16 => format!("{} {}", ["ipi", "poll", "csd"][usize::from(b % 3)], cpu(c)),
            17 => format!("sel {} prev={} nr={}", pid(b), cpu(c), d % 6),
            18 => format!("selret {}", cpu(b)),
            19 => format!("fork {}", pid(b)),
            20 => format!("exec {} {}", pid(b), pid(c)),
            21 => format!(
                "{} 3",
                ["raise", "softirq", "softirq-end"][usize::from(b % 3)]
            ),
            22 => ["lost 7", "lost", "lost-end"][usize::from(b % 3)].to_owned(),
            _ => ["exit", "setaffinity 3", "other"][usize::from(b % 3)].to_owned(),
        };
        let flags = ["", "/h", "/s", "/n"][usize::from(d >> 6)];
        writeln!(text, "{now} {} {}{flags} {what}", cpu(a), pid(d >> 2)).unwrap();
    }
    // The last stamp is that of an event, not of a gap's end.
    writeln!(text, "{} 0 0 other", now + 5).unwrap();
    text
}
