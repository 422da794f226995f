//! Why a task waited: what was idle when its CPU was chosen, and the first verdict that matches
//! (`analysis` §3).

use std::collections::VecDeque;

use super::cpuset::CpuSet;
use super::engine::Replay;
use super::machine::Current;
use super::rows::{Sink, TaskId};
use super::waits::Wait;
use super::words::{Origin, Pair, Reading, Verdict};

/// What a choice of CPU was like.
#[derive(Debug, Clone)]
pub struct Choice {
    pub ts: i64,
    pub chosen: usize,
    pub prev: usize,
    /// `None` for a wait that no wakeup began.
    pub waker_cpu: Option<usize>,
    pub chosen_idle: bool,
    /// Whether any CPU was idle, allowed or not.
    pub any_idle: bool,
    /// Eligible idle CPUs.
    pub idle_cpus: Pair<u32>,
    pub llc_busy_percent: Option<u8>,
    /// The sets behind `idle_cpus`; none if no CPU was idle.
    sets: Option<usize>,
}

/// The idle CPUs at one choice.
#[derive(Debug, Clone)]
struct Sets {
    eligible: Pair<CpuSet>,
    /// Those of them that were idle all the time from before the waking, and still are or were until the
    /// deadline.
    solid: CpuSet,
    deadline: i64,
}

/// The idle CPUs at every choice that is not judged yet. Storage is reused.
#[derive(Debug, Default)]
pub struct Snapshots {
    sets: Vec<Sets>,
    free: Vec<usize>,
    /// Those whose deadline may still lie ahead.
    settling: VecDeque<usize>,
}

impl Snapshots {
    /// A CPU ceased to be idle: it was not idle throughout for choices that are still settling.
    #[inline]
    pub fn cpu_taken(&mut self, cpu: usize, now: i64) {
        while let Some(&front) = self.settling.front() {
            if self.sets[front].deadline > now {
                break;
            }
            self.settling.pop_front();
        }
        for &slot in &self.settling {
            if now < self.sets[slot].deadline {
                self.sets[slot].solid.remove(cpu);
            }
        }
    }

    fn take(&mut self, len: usize, deadline: i64) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            let empty = CpuSet::empty(len);
            self.sets.push(Sets {
                eligible: Pair([empty.clone(), empty.clone()]),
                solid: empty,
                deadline,
            });
            self.sets.len() - 1
        });
        self.sets[slot].deadline = deadline;
        self.settling.push_back(slot);
        slot
    }

    /// Gives a choice's storage back.
    pub fn release(&mut self, choice: &Choice) {
        if let Some(slot) = choice.sets {
            // Nearly always the oldest one.
            if self.settling.front() == Some(&slot) {
                self.settling.pop_front();
            } else {
                self.settling.retain(|&s| s != slot);
            }
            self.free.push(slot);
        }
    }

    /// When a choice will have settled.
    pub fn deadline(&self, choice: &Choice) -> i64 {
        choice
            .sets
            .map_or(i64::MIN, |slot| self.sets[slot].deadline)
    }
}

/// Who chose among what.
pub struct Chooser {
    pub task: TaskId,
    pub chosen: usize,
    pub prev: usize,
    pub waker_cpu: Option<usize>,
    pub chosen_idle: bool,
    /// The waking, or the choice itself where there was none.
    pub since: i64,
}

impl<S: Sink> Replay<'_, S> {
    /// Notes which CPUs are idle as a CPU is chosen for a task, at the current instant.
    #[inline(always)]
    pub(super) fn choose(&mut self, by: &Chooser) -> Choice {
        let llc = self.domains.llc_of[by.chosen];
        let busy = match self.details {
            true => self.busy[llc].percent(self.now),
            false => None,
        };
        let mut choice = Choice {
            ts: self.now,
            chosen: by.chosen,
            prev: by.prev,
            waker_cpu: by.waker_cpu,
            chosen_idle: by.chosen_idle,
            any_idle: !self.ledger.available().is_empty(),
            idle_cpus: Pair([0, 0]),
            llc_busy_percent: busy,
            sets: None,
        };
        if choice.any_idle {
            let masks = self.masks_of(by.task);
            let settle = self.config.settle_ns;
            let slot = self
                .snapshots
                .take(self.cpus.len(), self.now.saturating_add(settle));
            let sets = &mut self.snapshots.sets[slot];
            let available = self.ledger.available();
            for reading in [Reading::Seen, Reading::Any] {
                sets.eligible[reading].assign_and(available, self.masks.get(masks[reading]));
                choice.idle_cpus[reading] = sets.eligible[reading].len();
            }
            sets.solid.assign(available);
            for cpu in available.iter() {
                if self.cpus[cpu].available_since > by.since.saturating_sub(settle) {
                    sets.solid.remove(cpu);
                }
            }
            choice.sets = Some(slot);
        }
        choice
    }

    /// Whether an idle thread of a busy core was chosen although a whole core of that LLC was idle.
    pub(super) fn shares_core_needlessly(&self, chosen: usize) -> bool {
        let home = &self.domains.llcs[self.domains.llc_of[chosen]];
        self.machine.topology.is_known()
            && !self.ledger.whole_core(chosen)
            && self
                .ledger
                .available()
                .iter()
                .any(|cpu| home.contains(cpu) && self.ledger.whole_core(cpu))
    }

    /// Whether another thread of the CPU's core runs a task; `None` where cores, or what a thread runs, are not known.
    pub(super) fn sibling_runs(&self, cpu: usize) -> Option<bool> {
        let id = self.machine.cpus.id(cpu);
        self.machine.topology.core_id(id)?;
        let siblings = self.domains.core[cpu].iter().filter(|&other| other != cpu);
        let mut all_known = true;
        for sibling in siblings {
            match self.cpus[sibling].current {
                Current::Task(_) => return Some(true),
                Current::Nothing => {}
                Current::Unknown => all_known = false,
            }
        }
        all_known.then_some(false)
    }

    /// Whether an eligible CPU was idle at some time since the choice; true for each reading.
    pub(super) fn idle_since_choice(&mut self, task: TaskId, since: i64) -> Pair<bool> {
        let mut found = Pair([false, false]);
        // The commonest case on a busy machine, whatever its size.
        if self.taken_ns <= since && self.ledger.available().is_empty() {
            return found;
        }
        let masks = self.masks_of(task);
        let mut missing = 2;
        for (cpu, state) in self.cpus.iter().enumerate() {
            // A CPU that becomes idle in the instant in which the wait ends was not idle during it.
            let idle = if self.ledger.available().contains(cpu) {
                state.available_since < self.now || state.available_until > since
            } else {
                state.available_until > since
            };
            if !idle {
                continue;
            }
            for reading in [Reading::Seen, Reading::Any] {
                if !found[reading] && self.masks.get(masks[reading]).contains(cpu) {
                    found[reading] = true;
                    missing -= 1;
                }
            }
            if missing == 0 {
                break;
            }
        }
        found
    }

    /// The verdicts over a wait that is over.
    pub(super) fn verdicts(&self, wait: &Wait) -> Pair<Verdict> {
        let same = |verdict| Pair([verdict, verdict]);
        if self.tasks[wait.task].recorder && !self.config.include_recorder {
            return same(Verdict::Recorder);
        }
        if wait.only_transit {
            return same(Verdict::Transit);
        }
        if wait.no_selection {
            return same(Verdict::NoSelection);
        }
        match &wait.choice {
            Some(choice) => {
                let of = |reading| self.verdict(wait, choice, reading);
                Pair([of(Reading::Seen), of(Reading::Any)])
            }
            None => same(Verdict::Unknown),
        }
    }

    fn verdict(&self, wait: &Wait, choice: &Choice, reading: Reading) -> Verdict {
        // The chosen CPU counts as idle: only the wakee itself is on its way there.
        if choice.any_idle && choice.idle_cpus[reading] == 0 && !choice.chosen_idle {
            return Verdict::Affinity;
        }
        if !self.tasks[wait.task].fair() {
            return Verdict::Policy;
        }
        if wait.kthread_stacked {
            return Verdict::KthreadStack;
        }
        if let Some(verdict) = self.missed_idle(wait, choice, reading) {
            return verdict;
        }
        if wait.idle_during[reading] {
            Verdict::LateIdle
        } else {
            Verdict::Saturated
        }
    }

    /// The verdicts that name an idle CPU which was passed over.
    fn missed_idle(&self, wait: &Wait, choice: &Choice, reading: Reading) -> Option<Verdict> {
        if choice.chosen_idle {
            // The choice was good; another task came first.
            return Some(Verdict::Raced);
        }
        let sets = &self.snapshots.sets[choice.sets?];
        let eligible = &sets.eligible[reading];
        if eligible.is_empty() {
            return None;
        }
        if !self.machine.topology.is_known() {
            return Some(Verdict::Unknown);
        }
        let llc = |cpu: usize| &self.domains.llcs[self.domains.llc_of[cpu]];
        let near = llc(choice.chosen);
        let idle_in = |set: &CpuSet| eligible.iter().any(|cpu| set.contains(cpu));
        let solid_in = |set: &CpuSet| {
            eligible
                .iter()
                .any(|cpu| set.contains(cpu) && sets.solid.contains(cpu))
        };
        if idle_in(near) {
            return Some(if solid_in(near) {
                placement(wait.origin, choice)
            } else {
                Verdict::Raced
            });
        }
        let others = [Some(choice.prev), choice.waker_cpu];
        let mut others = others.into_iter().flatten().map(llc);
        if others.clone().any(solid_in) {
            return Some(Verdict::OtherLlc);
        }
        others.any(idle_in).then_some(Verdict::Raced)
    }
}

/// Where the task was put instead. A wait without a wakeup was left where it was.
fn placement(origin: Origin, choice: &Choice) -> Verdict {
    let by_wakeup = matches!(origin, Origin::Wakeup | Origin::New);
    match choice.waker_cpu {
        Some(waker) if by_wakeup && waker == choice.chosen => {
            if choice.prev == choice.chosen {
                Verdict::StackedPrev
            } else {
                Verdict::StackedPull
            }
        }
        _ if choice.prev == choice.chosen => Verdict::Prev,
        _ => Verdict::Other,
    }
}
