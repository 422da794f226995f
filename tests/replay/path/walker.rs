//! A second way to the critical path, written to be obviously right rather than fast: at each instant it looks through
//! all rows for what the task did just before.

use std::collections::BTreeMap;

use ttwu::replay::rows::*;
use ttwu::replay::words::{Class, Origin, Reading, Verdict, Waker};
use ttwu::topology::Distance;

use crate::support::Rows;

/// What it found.
#[derive(Debug)]
pub struct Found {
    pub ns: BTreeMap<&'static str, i64>,
    pub wakeups: u64,
    /// Wakeups that move to another LLC, and what the task ran on the path since; those that come from another.
    pub cold: (u64, i64),
    pub transfer: (u64, i64),
}

/// Goes from `end` to `start`, beginning with a task.
pub fn walk(rows: &Rows, start: i64, end: i64, task: u32) -> Found {
    let words = [
        "running",
        "transit",
        "wait",
        "interrupt",
        "blocked",
        "unknown",
    ];
    let mut walker = Walker {
        rows,
        start,
        now: end,
        task: TaskId(task),
        found: Found {
            ns: words.map(|word| (word, 0)).into(),
            wakeups: 0,
            cold: (0, 0),
            transfer: (0, 0),
        },
        ran: 0,
    };
    while walker.now > start {
        walker.step();
    }
    walker.found
}

struct Walker<'a> {
    rows: &'a Rows,
    start: i64,
    now: i64,
    task: TaskId,
    found: Found,
    /// What the task ran between here and where the path came to it.
    ran: i64,
}

impl Walker<'_> {
    fn step(&mut self) {
        if let Some((cpu, to)) = self.run().map(|run| (run.cpu, run.start_ns)) {
            let handlers = self.handlers(cpu, to.max(self.start), self.now);
            self.ran += self.now - to.max(self.start) - handlers;
            self.cover("running", to);
            *self.found.ns.get_mut("running").unwrap() -= handlers;
            *self.found.ns.get_mut("interrupt").unwrap() += handlers;
            return;
        }
        let since = self.last_seen();
        let wait = self.wait(since);
        let wakeup = self.wakeup(since, wait.as_ref().map_or(self.now, |w| w.start_ns));
        match (wait, wakeup) {
            // Neither queued nor woken: not known since it last ran.
            (None, None) => self.cover("unknown", since),
            (Some(wait), wakeup) => {
                let ended = wait.end_ns.unwrap_or(wait.start_ns + wait.wait_ns);
                self.cover("unknown", ended);
                let transit = wait.verdict[Reading::Any] == Verdict::Transit;
                self.cover(if transit { "transit" } else { "wait" }, wait.start_ns);
                let woken = matches!(wait.origin, Origin::Wakeup | Origin::New);
                if let Some(wakeup) = wakeup.filter(|_| woken) {
                    self.follow(&wakeup);
                }
            }
            (None, Some(wakeup)) => {
                self.cover("unknown", wakeup.wakeup_ns.unwrap_or(self.now));
                self.follow(&wakeup);
            }
        }
    }

    fn cover(&mut self, word: &'static str, to: i64) {
        let to = to.max(self.start).min(self.now);
        *self.found.ns.get_mut(word).unwrap() += self.now - to;
        if matches!(word, "blocked" | "unknown") && to < self.now {
            self.ran = 0;
        }
        self.now = to;
    }

    /// The run that the task was in just before.
    fn run(&self) -> Option<&SliceRow> {
        let mut own = self.rows.slices.iter().filter(|s| s.task == self.task);
        own.find(|s| s.start_ns < self.now && s.end_ns >= self.now)
    }

    /// How long handlers of other CPUs' interrupts took of a CPU's interval.
    fn handlers(&self, cpu: u32, from: i64, to: i64) -> i64 {
        let own = self.rows.ipis.iter().filter(|ipi| ipi.target_cpu == cpu);
        let entry = |ipi: &IpiRow| ipi.ts_ns + ipi.latency_ns.unwrap_or(0);
        own.filter_map(|ipi| Some((entry(ipi), entry(ipi) + ipi.handler_ns?)))
            .map(|(start, end)| (end.min(to) - start.max(from)).max(0))
            .sum()
    }

    /// When it last had left a CPU.
    fn last_seen(&self) -> i64 {
        let own = self.rows.slices.iter().filter(|s| s.task == self.task);
        let before = own.map(|s| s.end_ns).filter(|ns| *ns < self.now);
        before.max().unwrap_or(i64::MIN)
    }

    /// The last wait since it left a CPU.
    fn wait(&self, since: i64) -> Option<WaitRow> {
        let own = self.rows.waits.iter().filter(|w| w.task == self.task);
        let own = own.filter(|w| w.start_ns >= since && w.start_ns <= self.now);
        own.max_by_key(|w| w.start_ns).cloned()
    }

    /// The last wakeup since it left a CPU, but for those that found it there.
    fn wakeup(&self, since: i64, before: i64) -> Option<WakeupRow> {
        let own = self.rows.wakeups.iter().filter(|w| w.wakee == self.task);
        let own = own.filter(|w| !matches!(w.class, Class::SelfWake | Class::FastPath));
        let own = own.filter(|w| woken(w) <= before && w.wakeup_ns.unwrap_or(woken(w)) >= since);
        own.max_by_key(|w| woken(w)).cloned()
    }

    fn follow(&mut self, wakeup: &WakeupRow) {
        let waking = woken(wakeup);
        self.cover("transit", waking);
        if waking < self.start {
            return;
        }
        self.found.wakeups += 1;
        let across = |distance| matches!(distance, Distance::Node | Distance::Remote);
        let ran = std::mem::take(&mut self.ran);
        let side = match (across(wakeup.prev_chosen), across(wakeup.waker_chosen)) {
            (true, _) => Some(&mut self.found.cold),
            (false, true) if wakeup.prev_chosen != Distance::Unknown => {
                Some(&mut self.found.transfer)
            }
            _ => None,
        };
        if let Some(side) = side.filter(|_| ran > 0) {
            *side = (side.0 + 1, side.1 + ran);
        }
        let by_task = matches!(
            wakeup.context,
            Waker::Task | Waker::SoftirqInline | Waker::SoftirqUnknown
        );
        match wakeup.waker.filter(|_| by_task) {
            Some(waker) => self.task = waker,
            None => self.sleep(),
        }
    }

    /// Back to where the task left its CPU; while that CPU's events are missing nothing is known.
    fn sleep(&mut self) {
        let own = self.rows.slices.iter().filter(|s| s.task == self.task);
        let own = own.filter(|s| s.start_ns <= self.now);
        let Some((cpu, left)) = own.max_by_key(|s| s.start_ns).map(|s| (s.cpu, s.end_ns)) else {
            return self.cover("unknown", i64::MIN);
        };
        let mut gaps: Vec<&LostRow> = self.rows.lost.iter().filter(|l| l.cpu == cpu).collect();
        gaps.retain(|gap| gap.start_ns >= left && gap.end_ns <= self.now);
        for gap in gaps.iter().rev() {
            self.cover("blocked", gap.end_ns);
            self.cover("unknown", gap.start_ns);
        }
        self.cover("blocked", left);
    }
}

fn woken(wakeup: &WakeupRow) -> i64 {
    let stamp = wakeup.waking_ns.or(wakeup.wakeup_ns);
    stamp.expect("a wakeup has a stamp")
}
