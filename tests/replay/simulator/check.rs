//! Writes a recording, has the program analyse it, and holds what comes out against the truth.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use ttwu::attribute::{Selection, answer};
use ttwu::pipeline::{RunOptions, TimePoint, prepare, replay};
use ttwu::replay::rows::TaskRow;
use ttwu::replay::words::{LedgerRow, Reading};
use ttwu::tables::{Budget, Builders, TableSet};

use super::perf_data::perf_data;
use super::recording::Recording;
use super::scheduler::Sim;
use super::timeline::{READS, Read, Timeline};
use super::trace_dat::trace_dat;
use super::truth_ledger::ledger;
use super::truth_waits::{WaitTruth, waits};
use super::truth_wakeups::{WakeupTruth, wakeups};
use crate::support::{Replayed, Rows, run};

/// In which file a recording is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File {
    TraceDat,
    PerfData,
}

/// A file of its own, gone when it is dropped.
pub struct Written(PathBuf);

impl Written {
    pub fn new(recording: &Recording, file: File) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (bytes, ext) = match file {
            File::TraceDat => (trace_dat(recording), "dat"),
            File::PerfData => (perf_data(recording), "data"),
        };
        let name = format!("ttwu-simulated-{}-{number}.{ext}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).expect("room for a temporary file");
        Self(path)
    }

    pub fn path(&self) -> String {
        self.0.display().to_string()
    }

    pub fn rows(&self, options: &RunOptions) -> Replayed {
        run(&self.0, options)
    }

    /// The report as JSON.
    pub fn report(&self, options: &RunOptions) -> Value {
        let prepared = prepare(&self.0, options, &|_| ()).unwrap_or_else(|e| panic!("{e}"));
        let mut builders = Builders::new(&TableSet::analysis(), Budget::default());
        let counts = replay(&prepared, builders.sink(), &|_| ());
        let tables = builders.finish().expect("tables");
        let selection = Selection {
            top: usize::MAX,
            ..Selection::default()
        };
        let answer = answer(&prepared, &counts, &tables, &selection).expect("an answer");
        serde_json::to_value(&answer).expect("JSON")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A number of a report by its dotted name.
pub fn number(report: &Value, name: &str) -> Option<i64> {
    // Paths have hyphens, but never dots.
    let found = name.split('.').try_fold(report, |at, key| at.get(key))?;
    found.as_i64()
}

pub fn window(from: i64, to: i64) -> RunOptions {
    RunOptions {
        from: Some(TimePoint::At(from)),
        to: Some(TimePoint::At(to)),
        ..RunOptions::default()
    }
}

/// What differs, in words; nothing is well.
#[derive(Default)]
pub struct Differences(pub Vec<String>);

impl Differences {
    pub fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, truth: T) {
        if found != truth {
            self.0
                .push(format!("{what}: found {found:?}, truth {truth:?}"));
        }
    }

    /// Of two sorted lists, what only one has.
    pub fn lists<T: Ord + std::fmt::Debug>(
        &mut self,
        what: &str,
        mut found: Vec<T>,
        mut truth: Vec<T>,
    ) {
        found.sort();
        truth.sort();
        let (mut f, mut t) = (found.into_iter().peekable(), truth.into_iter().peekable());
        loop {
            match (f.peek(), t.peek()) {
                (Some(a), Some(b)) if a == b => {
                    f.next();
                    t.next();
                }
                (Some(a), b) if b.is_none_or(|b| a < b) => {
                    self.0.push(format!("{what}: found only {a:?}"));
                    f.next();
                }
                (_, Some(b)) => {
                    self.0.push(format!("{what}: truth only {b:?}"));
                    t.next();
                }
                _ => return,
            }
        }
    }

    pub fn none(self, what: &str) {
        let shown: Vec<&String> = self.0.iter().take(24).collect();
        assert!(
            self.0.is_empty(),
            "{what}: {} differences\n{shown:#?}",
            self.0.len()
        );
    }
}

/// Goes through two values side by side.
pub fn compare(differ: &mut Differences, name: &str, a: &Value, b: &Value) {
    match (a, b) {
        (Value::Object(fields), Value::Object(_)) => {
            for (key, value) in fields {
                compare(differ, &format!("{name}.{key}"), value, &b[key]);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (place, (a, b)) in items.iter().zip(others).enumerate() {
                compare(differ, &format!("{name}.{place}"), a, b);
            }
        }
        _ => differ.same(name, a, b),
    }
}

fn pid_of(tasks: &[TaskRow], task: ttwu::replay::rows::TaskId) -> i32 {
    tasks.iter().find(|t| t.task == task).map_or(0, |t| t.pid)
}

pub fn reading(read: Read) -> Reading {
    match read {
        Read::Seen => Reading::Seen,
        Read::Any => Reading::Any,
    }
}

/// The replay's rows in the truth's terms.
pub fn found_waits(rows: &Rows) -> Vec<WaitTruth> {
    let waits = rows.waits.iter();
    waits
        .map(|w| WaitTruth {
            pid: pid_of(&rows.tasks, w.task),
            start: w.start_ns,
            end: w.end_ns,
            origin: w.origin.as_str(),
            verdicts: READS.map(|read| w.verdict[reading(read)].as_str()),
            wait_ns: w.wait_ns,
            first_cpu: w.first_cpu,
            moves: w.moves,
        })
        .collect()
}

pub fn found_wakeups(rows: &Rows) -> Vec<WakeupTruth> {
    let wakeups = rows.wakeups.iter();
    wakeups
        .map(|w| WakeupTruth {
            pid: pid_of(&rows.tasks, w.wakee),
            waking: w.waking_ns,
            enqueued: w.wakeup_ns,
            class: w.class.as_str(),
            path: Some(w.path.as_str()),
            context: w.context.as_str(),
            waker: w.waker.map(|waker| pid_of(&rows.tasks, waker)),
            waker_cpu: w.waker_cpu,
            prev: w.prev_cpu,
            chosen: w.chosen_cpu.unwrap_or(u32::MAX),
            distances: [w.waker_chosen, w.prev_chosen, w.waker_prev].map(|d| d.as_str()),
            latency: w.latency_ns,
            queue: w.queue_ns,
            waker_cost: w.waker_cost_ns,
            selection: w.selection,
            chosen_idle: w.chosen_idle.unwrap_or(false),
        })
        .collect()
}

/// Holds all rows of a run without losses against the truth.
pub fn compare_rows(sim: &Sim, rows: &Rows) -> Differences {
    let timeline = Timeline::new(sim);
    let mut differ = Differences::default();
    differ.lists("waits", found_waits(rows), waits(&timeline));
    let (mut found, mut truth) = (found_wakeups(rows), wakeups(&timeline));
    // Where sends are not recorded the road is inferred, and not always rightly.
    let unclear: BTreeMap<(i32, Option<i64>), ()> = truth
        .iter()
        .filter(|w| w.path.is_none())
        .map(|w| ((w.pid, w.enqueued), ()))
        .collect();
    for wakeup in found.iter_mut().chain(&mut truth) {
        if unclear.contains_key(&(wakeup.pid, wakeup.enqueued)) {
            wakeup.path = None;
        }
    }
    differ.lists("wakeups", found, truth);
    compare_ledgers(&timeline, rows, &mut differ);
    compare_moves(sim, rows, &mut differ);
    differ
}

fn compare_ledgers(timeline: &Timeline, rows: &Rows, differ: &mut Differences) {
    for read in READS {
        let truth = ledger(timeline, read);
        let total = |row| rows.total(reading(read), row);
        let mut same = |row: LedgerRow, truth: i64| {
            differ.same(
                &format!("ledger {read:?} {}", row.as_str()),
                total(row),
                truth,
            );
        };
        same(LedgerRow::Unknown, 0);
        same(LedgerRow::Running, truth.running);
        same(LedgerRow::Transit, truth.transit);
        same(LedgerRow::WaitingLlcCore, truth.core);
        same(LedgerRow::WaitingLlcSmt, truth.smt);
        let far = total(LedgerRow::WaitingMachine);
        let within = (truth.machine.0..=truth.machine.1).contains(&far);
        differ.same(
            &format!("ledger {read:?} far {far} in {:?}", truth.machine),
            within,
            true,
        );
        for (cpu, &(running, transit)) in truth.by_cpu.iter().enumerate() {
            let id = timeline.machine.ids[cpu];
            let cell = |row| rows.cell(reading(read), id, row);
            let found = (cell(LedgerRow::Running), cell(LedgerRow::Transit));
            differ.same(&format!("CPU {id}"), found, (running, transit));
        }
        if truth.plain {
            for (note, &lost) in timeline.notes.tasks.iter().zip(&truth.lost) {
                let found = rows.tasks.iter().find(|t| t.pid == note.pid);
                let found = found.map_or(0, |t| t.lost_ns[reading(read)]);
                // A component's time is shared out in whole nanoseconds.
                let close = (found as f64 - lost).abs() <= 1.0 + timeline.segments.len() as f64;
                differ.same(
                    &format!("pid {} lost {found} of {lost}", note.pid),
                    close,
                    true,
                );
            }
        }
    }
}

fn seen_before(sim: &Sim, task: usize, ts: i64) -> bool {
    sim.notes.changes.iter().any(|change| {
        change.task == task
            && change.ts < ts
            && matches!(change.state, super::notes::State::Queued(_))
    })
}

fn compare_moves(sim: &Sim, rows: &Rows, differ: &mut Differences) {
    use super::notes::Cause;
    let id = |cpu: usize| sim.machine.ids[cpu];
    let found = rows.migrations.iter().map(|m| {
        let pid = pid_of(&rows.tasks, m.task);
        let cpus = (m.from_cpu, m.to_cpu, m.by_cpu);
        (m.ts_ns, pid, cpus, m.distance.as_str(), m.kind.as_str())
    });
    let asleep = |ts: i64| sim.notes.moved_asleep.iter().any(|m| m.0 == ts);
    let truth = sim.notes.moves.iter().map(|m| {
        let kind = match m.cause {
            Cause::Wakeup if sim.kernel.has_waking() => "wakeup",
            // Without `sched_waking` it is only seen that the task slept, if it was seen at all.
            Cause::Wakeup => match seen_before(sim, m.task, m.ts) {
                true => "sleeping",
                false => "unknown",
            },
            _ if asleep(m.ts) => "sleeping",
            Cause::Active | Cause::Affinity | Cause::Numa | Cause::Exec => "stopper",
            _ => "runnable",
        };
        let cpus = (id(m.from), id(m.to), id(m.by));
        let far = sim.machine.distance(m.from, m.to);
        (m.ts, sim.notes.tasks[m.task].pid, cpus, far, kind)
    });
    differ.lists("migrations", found.collect(), truth.collect());
}
