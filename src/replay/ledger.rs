//! The CPU-time ledgers (`analysis` §2): every nanosecond of every CPU in one row, under both readings of
//! unknown affinity, and each waiting task's share of what was lost.

use super::cpuset::{CpuSet, MaskId, MaskTable};
use super::leftover::{Free, Leftover, Waiters};
use super::matching::{Component, Group, Matcher, share};
use super::words::{LEDGER_ROWS, LedgerRow, Pair, Reading};

/// The part of time that is accounted; replay itself covers the whole trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from_ns: i64,
    pub to_ns: i64,
    /// Whether an event exactly at `to_ns` counts: it does at the trace's end, so that windows that meet
    /// count each event once.
    pub closed: bool,
}

impl Window {
    /// How much of `[from, to)` lies inside.
    #[inline]
    pub fn clip(&self, from: i64, to: i64) -> i64 {
        (to.min(self.to_ns) - from.max(self.from_ns)).max(0)
    }

    #[inline]
    pub fn contains(&self, ts: i64) -> bool {
        self.from_ns <= ts && (ts < self.to_ns || (self.closed && ts == self.to_ns))
    }

    pub fn duration_ns(&self) -> i64 {
        (self.to_ns - self.from_ns).max(0)
    }
}

/// Which CPUs share what, under dense numbers.
#[derive(Debug, Clone)]
pub struct Domains {
    /// One set for each LLC; one set of all CPUs where the topology is unknown.
    pub llcs: Vec<CpuSet>,
    pub llc_of: Vec<usize>,
    /// The threads of each CPU's core.
    pub core: Vec<CpuSet>,
}

/// A waiting task, as the ledger sees it.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    pub task: u32,
    pub masks: Pair<MaskId>,
}

/// A connected component whose time is being shared.
#[derive(Debug, Clone)]
struct Open {
    since: i64,
    component: Component,
}

/// One reading's account.
#[derive(Debug, Default)]
struct Account {
    rows: Vec<[i64; LEDGER_ROWS]>,
    current: Vec<(LedgerRow, i64)>,
    open: Vec<Open>,
}

/// Both accounts, and the matching behind them.
pub struct Ledger {
    window: Window,
    domains: Domains,
    accounts: Pair<Account>,
    /// CPUs that run nothing and have nothing on its way.
    available: CpuSet,
    available_count: usize,
    /// CPUs whose current task is the idle task.
    nothing: CpuSet,
    waiting: Vec<Vec<Waiting>>,
    waiting_count: usize,
    dirty: bool,
    readings: Vec<Reading>,
    matcher: Matcher,
    groups: Vec<Group>,
    far_groups: Vec<Group>,
    cpus: Vec<usize>,
    far_cpus: Vec<usize>,
}

impl Ledger {
    /// All CPUs start `unknown` at `start`.
    pub fn new(window: Window, domains: Domains, readings: &[Reading], start: i64) -> Self {
        let len = domains.llc_of.len();
        let account = || Account {
            rows: vec![[0; LEDGER_ROWS]; len],
            current: vec![(LedgerRow::Unknown, start); len],
            open: Vec::new(),
        };
        Self {
            window,
            accounts: Pair([account(), account()]),
            available: CpuSet::empty(len),
            available_count: 0,
            nothing: CpuSet::empty(len),
            waiting: vec![Vec::new(); domains.llcs.len()],
            waiting_count: 0,
            dirty: false,
            readings: readings.to_vec(),
            matcher: Matcher::default(),
            groups: Vec::new(),
            far_groups: Vec::new(),
            cpus: Vec::new(),
            far_cpus: Vec::new(),
            domains,
        }
    }

    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The CPUs that the kernel's `idle_cpu()` would call idle.
    pub fn available(&self) -> &CpuSet {
        &self.available
    }

    /// The CPUs that run the idle task.
    pub fn nothing(&self) -> &CpuSet {
        &self.nothing
    }

    /// A CPU changed to `unknown`, `running` or `transit`, or to `idle` if it is free for a task.
    pub fn set_base(&mut self, cpu: usize, row: LedgerRow, now: i64) {
        let free = row == LedgerRow::Idle;
        if free != self.available.contains(cpu) {
            if free {
                self.available.insert(cpu);
                self.available_count += 1;
            } else {
                self.available.remove(cpu);
                self.available_count -= 1;
            }
        }
        if matches!(row, LedgerRow::Idle | LedgerRow::Transit) {
            self.nothing.insert(cpu);
        } else {
            self.nothing.remove(cpu);
        }
        // Without tasks that wait nothing is matched, neither before nor after.
        self.dirty |= self.waiting_count > 0;
        for reading in [Reading::Seen, Reading::Any] {
            self.set_row(reading, cpu, row, now);
        }
    }

    #[inline]
    fn set_row(&mut self, reading: Reading, cpu: usize, row: LedgerRow, now: i64) {
        let window = self.window;
        let account = &mut self.accounts[reading];
        let (old, since) = &mut account.current[cpu];
        if *old != row {
            account.rows[cpu][usize::from(old.code())] += window.clip(*since, now);
            (*old, *since) = (row, now);
        }
    }

    /// A task began to wait on `cpu`. Returns its position, for [`Ledger::stop_waiting`].
    pub fn start_waiting(&mut self, cpu: usize, waiting: Waiting) -> usize {
        let list = &mut self.waiting[self.domains.llc_of[cpu]];
        list.push(waiting);
        self.waiting_count += 1;
        // Nor without CPUs that are free.
        self.dirty |= self.available_count > 0;
        list.len() - 1
    }

    /// The task at a position of `cpu`'s LLC stopped waiting. Returns the task that took its position.
    pub fn stop_waiting(&mut self, cpu: usize, at: usize) -> Option<u32> {
        let list = &mut self.waiting[self.domains.llc_of[cpu]];
        if at >= list.len() {
            return None;
        }
        list.swap_remove(at);
        self.waiting_count -= 1;
        self.dirty |= self.available_count > 0;
        list.get(at).map(|w| w.task)
    }

    /// Whether nothing has changed since the matching was last brought up to date.
    #[inline]
    pub fn is_settled(&self) -> bool {
        !self.dirty
    }

    /// Brings the matching up to date after an event. `lost(reading, task, ns)` is told each share as it is
    /// final.
    pub fn settle(&mut self, now: i64, masks: &MaskTable, lost: &mut dyn FnMut(Reading, u32, i64)) {
        if !self.dirty {
            return;
        }
        self.dirty = false;
        let idle_pairs = self.available_count > 0 && self.waiting_count > 0;
        let accounts = &self.accounts.0;
        if !idle_pairs && accounts.iter().all(|account| account.open.is_empty()) {
            return;
        }
        for index in 0..self.readings.len() {
            let reading = self.readings[index];
            if idle_pairs || !self.accounts[reading].open.is_empty() {
                self.rematch(reading, now, masks, lost);
            }
        }
    }

    /// Matches anew: within each LLC, then across the machine with what is left.
    fn rematch(
        &mut self,
        reading: Reading,
        now: i64,
        masks: &MaskTable,
        lost: &mut dyn FnMut(Reading, u32, i64),
    ) {
        let mut found = Vec::new();
        self.far_cpus.clear();
        let mut far: Vec<(MaskId, u32)> = Vec::new();
        for llc in 0..self.domains.llcs.len() {
            self.match_llc(llc, reading, now, masks, &mut found, &mut far);
        }
        if !far.is_empty() && !self.far_cpus.is_empty() {
            match self.is_restricted(reading) {
                true => found = self.match_leftover(reading, now, masks),
                false => self.match_machine(reading, now, masks, far, &mut found),
            }
        }
        self.replace_open(reading, now, found, lost);
    }

    fn match_llc(
        &mut self,
        llc: usize,
        reading: Reading,
        now: i64,
        masks: &MaskTable,
        found: &mut Vec<Component>,
        far: &mut Vec<(MaskId, u32)>,
    ) {
        let mut cpus = std::mem::take(&mut self.cpus);
        let mut groups = std::mem::take(&mut self.groups);
        self.free_cpus(llc, &mut cpus);
        let pairs = self.waiting[llc].iter().map(|w| (w.masks[reading], w.task));
        group(&mut groups, pairs);
        self.matcher.matched_cpus.clear();
        self.matcher.matched_tasks.clear();
        self.matcher.matched_tasks.resize(groups.len(), 0);
        if !cpus.is_empty() && !groups.is_empty() {
            let home = &self.domains.llcs[llc];
            self.matcher.solve(&cpus, &groups, masks, Some(home));
            found.extend(self.matcher.components(&cpus, &groups, masks));
        }
        for &cpu in &cpus {
            let row = if !self.matcher.matched_cpus.contains(&cpu) {
                self.far_cpus.push(cpu);
                LedgerRow::Idle
            } else if self.domains.core[cpu].is_subset(&self.nothing) {
                LedgerRow::WaitingLlcCore
            } else {
                LedgerRow::WaitingLlcSmt
            };
            self.set_row(reading, cpu, row, now);
        }
        for (g, &matched) in groups.iter().zip(&self.matcher.matched_tasks) {
            // Of interchangeable tasks the first are the matched ones.
            let left = g.tasks.iter().skip(matched);
            far.extend(left.map(|&task| (g.mask.unwrap_or(MaskId::ALL), task)));
        }
        self.cpus = cpus;
        self.groups = groups;
    }

    /// Whether some task that waits may not run everywhere: then it matters who is left over by its LLC.
    fn is_restricted(&self, reading: Reading) -> bool {
        let mut waiting = self.waiting.iter().flatten();
        waiting.any(|w| w.masks[reading] != MaskId::ALL)
    }

    /// Matches anew, within LLCs and across, with those left over who can best be matched across.
    fn match_leftover(&mut self, reading: Reading, now: i64, masks: &MaskTable) -> Vec<Component> {
        let available = self.available.iter();
        let mut free: Vec<Free> = available
            .map(|cpu| Free {
                cpu,
                llc: self.domains.llc_of[cpu],
                whole: self.whole_core(cpu),
            })
            .collect();
        free.sort_by_key(|free| (!free.whole, free.llc, free.cpu));
        let mut waiters: Vec<Waiters> = Vec::new();
        for (llc, waiting) in self.waiting.iter().enumerate() {
            let mut groups = Vec::new();
            group(
                &mut groups,
                waiting.iter().map(|w| (w.masks[reading], w.task)),
            );
            waiters.extend(groups.into_iter().map(|group| Waiters {
                llc,
                mask: group.mask.unwrap_or(MaskId::ALL),
                tasks: group.tasks,
            }));
        }
        let matching = Leftover::solve(&free, &waiters, masks);
        for (slot, free) in free.iter().enumerate() {
            let row = match matching.owner[slot].map(|g| matching.is_near(slot, g)) {
                None => LedgerRow::Idle,
                Some(false) => LedgerRow::WaitingMachine,
                Some(true) if free.whole => LedgerRow::WaitingLlcCore,
                Some(true) => LedgerRow::WaitingLlcSmt,
            };
            self.set_row(reading, free.cpu, row, now);
        }
        matching.components()
    }

    fn match_machine(
        &mut self,
        reading: Reading,
        now: i64,
        masks: &MaskTable,
        far: Vec<(MaskId, u32)>,
        found: &mut Vec<Component>,
    ) {
        let mut groups = std::mem::take(&mut self.far_groups);
        let mut cpus = std::mem::take(&mut self.far_cpus);
        group(&mut groups, far.into_iter());
        cpus.sort_by_key(|&cpu| (!self.whole_core(cpu), self.domains.llc_of[cpu], cpu));
        self.matcher.solve(&cpus, &groups, masks, None);
        for component in self.matcher.components(&cpus, &groups, masks) {
            merge(found, component);
        }
        for index in 0..self.matcher.matched_cpus.len() {
            let cpu = self.matcher.matched_cpus[index];
            self.set_row(reading, cpu, LedgerRow::WaitingMachine, now);
        }
        self.far_groups = groups;
        self.far_cpus = cpus;
    }

    /// The free CPUs of an LLC, those of idle cores first.
    fn free_cpus(&self, llc: usize, cpus: &mut Vec<usize>) {
        cpus.clear();
        let home = &self.domains.llcs[llc];
        cpus.extend(self.available.iter().filter(|&cpu| home.contains(cpu)));
        cpus.sort_by_key(|&cpu| (!self.whole_core(cpu), cpu));
    }

    /// Whether no thread of the CPU's core runs anything.
    pub fn whole_core(&self, cpu: usize) -> bool {
        self.domains.core[cpu].is_subset(&self.nothing)
    }

    /// Closes the components that changed and opens the new ones; unchanged ones go on, so that their
    /// shares stay exact.
    fn replace_open(
        &mut self,
        reading: Reading,
        now: i64,
        found: Vec<Component>,
        lost: &mut dyn FnMut(Reading, u32, i64),
    ) {
        let window = self.window;
        let open = &mut self.accounts[reading].open;
        let old = std::mem::take(open);
        let mut kept = Vec::with_capacity(found.len());
        for component in found {
            match old.iter().position(|o| o.component == component) {
                Some(at) => kept.push((
                    at,
                    Open {
                        since: old[at].since,
                        component,
                    },
                )),
                None => kept.push((
                    usize::MAX,
                    Open {
                        since: now,
                        component,
                    },
                )),
            }
        }
        for (at, closed) in old.iter().enumerate() {
            if !kept.iter().any(|(k, _)| *k == at) {
                closed.share_out(window, now, |task, ns| lost(reading, task, ns));
            }
        }
        *open = kept.into_iter().map(|(_, o)| o).collect();
    }

    /// Shares out what was lost so far, so that a wait can be given up in the middle of an event.
    pub fn flush(&mut self, now: i64, lost: &mut dyn FnMut(Reading, u32, i64)) {
        let window = self.window;
        for reading in [Reading::Seen, Reading::Any] {
            for open in &mut self.accounts[reading].open {
                open.share_out(window, now, |task, ns| lost(reading, task, ns));
                open.since = now;
            }
        }
    }

    /// Closes both accounts at the trace's end.
    pub fn finish(&mut self, end: i64, lost: &mut dyn FnMut(Reading, u32, i64)) {
        for reading in self.readings.clone() {
            self.replace_open(reading, end, Vec::new(), lost);
        }
        self.account(end);
    }

    /// Accounts everything up to `now`, as far as it is inside the window: what goes on is accounted from then on.
    pub fn account(&mut self, now: i64) {
        let window = self.window;
        for account in &mut self.accounts.0 {
            for (rows, (row, since)) in account.rows.iter_mut().zip(&mut account.current) {
                rows[usize::from(row.code())] += window.clip(*since, now);
                *since = now;
            }
        }
    }

    /// A CPU's rows under a reading.
    pub fn rows(&self, reading: Reading, cpu: usize) -> [i64; LEDGER_ROWS] {
        self.accounts[reading].rows[cpu]
    }
}

impl Open {
    fn share_out(&self, window: Window, now: i64, mut lost: impl FnMut(u32, i64)) {
        let from = self.since.max(window.from_ns);
        let to = now.min(window.to_ns);
        if from >= to {
            return;
        }
        let Component { matched, tasks } = &self.component;
        for (k, &task) in tasks.iter().enumerate() {
            // Measured from the component's start, so that windows add up to the whole.
            let until = |t: i64| share(*matched, t - self.since, k, tasks.len());
            lost(task, until(to) - until(from));
        }
    }
}

/// Adds a component across LLCs: with those inside LLCs whose tasks it shares it is one.
fn merge(found: &mut Vec<Component>, mut across: Component) {
    let mut tasks = across.tasks.clone();
    found.retain(|inside| {
        let shared = inside
            .tasks
            .iter()
            .any(|t| across.tasks.binary_search(t).is_ok());
        if shared {
            across.matched += inside.matched;
            tasks.extend(&inside.tasks);
        }
        !shared
    });
    tasks.sort_unstable();
    tasks.dedup();
    across.tasks = tasks;
    found.push(across);
}

/// Sorts tasks into groups of one mask, reusing the groups' storage.
fn group(groups: &mut Vec<Group>, tasks: impl Iterator<Item = (MaskId, u32)>) {
    groups.clear();
    for (mask, task) in tasks {
        match groups.iter_mut().find(|g| g.mask == Some(mask)) {
            Some(group) => group.tasks.push(task),
            None => groups.push(Group {
                mask: Some(mask),
                tasks: vec![task],
            }),
        }
    }
    for group in groups {
        group.tasks.sort_unstable();
    }
}
