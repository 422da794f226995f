//! Where the threads of some processes ran, from their slices gone through backwards.
//!
//! Slices are listed in the order in which they end. Backwards, what is covered of the time up to the end of the slice at
//! hand is one piece, however slices overlap: so it needs no list to tell in how many LLCs a process runs at once.

use polars::prelude::PolarsResult;

use super::super::blocks::Block;
use super::super::scope::Scope;
use crate::replay::ledger::Window;
use crate::tables::Table;
use crate::topology::Topology;

/// Most parts of the window.
const PARTS: i64 = 60;

/// The window in equal parts.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    window: Window,
    pub count: usize,
}

impl Parts {
    pub fn new(window: Window) -> Self {
        let count = window.duration_ns().clamp(1, PARTS) as usize;
        Self { window, count }
    }

    /// Where a part starts; the last ends where the one behind it would start.
    pub fn start(&self, part: usize) -> i64 {
        let through = i128::from(self.window.duration_ns()) * part as i128 / self.count as i128;
        self.window.from_ns + through as i64
    }

    /// The part that a time inside the window lies in.
    fn of(&self, ts: i64) -> usize {
        let after = i128::from(ts - self.window.from_ns) * self.count as i128;
        let about = after / i128::from(self.window.duration_ns().max(1));
        let mut part = (about.max(0) as usize).min(self.count - 1);
        // Parts start at whole nanoseconds.
        while part + 1 < self.count && self.start(part + 1) <= ts {
            part += 1;
        }
        part
    }
}

/// The time in which something went on, seen backwards.
#[derive(Debug, Clone, Copy)]
struct Covered {
    ns: i64,
    /// From here on everything is covered that lies before the end of the slice at hand.
    from: i64,
}

impl Covered {
    fn add(&mut self, start: i64, end: i64) {
        let new = end.min(self.from) - start;
        if new > 0 {
            self.ns += new;
            self.from = start;
        }
    }
}

/// What is known of one process.
#[derive(Debug, Clone)]
pub struct Residency {
    /// By part and LLC, one row of LLCs after the other; the last of a row is what no LLC is known of.
    pub run_ns: Vec<i64>,
    pub llc_moves: u64,
    covered: Covered,
    by_llc: Vec<Covered>,
}

impl Residency {
    fn new(parts: usize, llcs: usize) -> Self {
        let covered = Covered {
            ns: 0,
            from: i64::MAX,
        };
        Self {
            run_ns: vec![0; parts * (llcs + 1)],
            llc_moves: 0,
            covered,
            by_llc: vec![covered; llcs],
        }
    }

    /// How many LLCs it used at once, over the time in which it ran on any of a known LLC.
    pub fn llcs_at_once(&self) -> Option<f64> {
        let in_llcs: i64 = self.by_llc.iter().map(|llc| llc.ns).sum();
        (self.covered.ns > 0).then(|| in_llcs as f64 / self.covered.ns as f64)
    }

    fn ran(&mut self, parts: &Parts, llc: Option<usize>, start: i64, end: i64) {
        let (from, to) = (start.max(parts.window.from_ns), end.min(parts.window.to_ns));
        if from >= to {
            return;
        }
        let row = self.by_llc.len() + 1;
        let column = llc.unwrap_or(row - 1);
        let (first, last) = (parts.of(from), parts.of(to - 1));
        for part in first..=last {
            let ns = to.min(parts.start(part + 1)) - from.max(parts.start(part));
            if let Some(sum) = self.run_ns.get_mut(part * row + column) {
                *sum += ns;
            }
        }
        if let Some(of_llc) = llc.and_then(|llc| self.by_llc.get_mut(llc)) {
            of_llc.add(from, to);
            self.covered.add(from, to);
        }
    }
}

const COLUMNS: [&str; 4] = ["task", "cpu", "start_ns", "end_ns"];

/// Marks a task of none of the processes.
pub const OTHER: u32 = u32::MAX;

/// Where the threads of so many processes ran. `process_of` says to which a task belongs, by its number.
pub fn residencies(
    scope: &Scope,
    processes: usize,
    process_of: &[u32],
) -> PolarsResult<Vec<Residency>> {
    let topology = scope.facts.topology();
    let parts = Parts::new(scope.facts.config.window);
    let llcs = topology.llcs().map_or(0, <[_]>::len);
    let mut found = vec![Residency::new(parts.count, llcs); processes];
    // By task: the LLC of the slice that comes next, and when that starts.
    let mut next_llc: Vec<Option<(usize, i64)>> = vec![None; process_of.len()];
    let mut scratch = Scratch::default();
    scope.every(Table::Slices).fold_back(&COLUMNS, |block| {
        let slices = scratch.read(block)?;
        slices.for_each(|slice| {
            let process = process_of.get(slice.task).copied().unwrap_or(OTHER);
            let Some(residency) = found.get_mut(process as usize) else {
                return;
            };
            let llc = llc_of(topology, slice.cpu);
            residency.ran(&parts, llc, slice.start_ns, slice.end_ns);
            let (Some(llc), Some(next)) = (llc, next_llc.get_mut(slice.task)) else {
                return;
            };
            if let Some((later, since)) = next.replace((llc, slice.start_ns)) {
                let moved = later != llc && parts.window.contains(since);
                residency.llc_moves += u64::from(moved);
            }
        });
        Ok(())
    })?;
    Ok(found)
}

fn llc_of(topology: &Topology, cpu: u32) -> Option<usize> {
    usize::try_from(topology.llc_id(cpu)?).ok()
}

/// One on-CPU interval.
struct Slice {
    task: usize,
    cpu: u32,
    start_ns: i64,
    end_ns: i64,
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    tasks: Vec<u32>,
    cpus: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Scratch {
    /// The block's slices, the last first.
    fn read(&mut self, block: &Block) -> PolarsResult<impl Iterator<Item = Slice> + '_> {
        let tasks = block.numbers("task", &mut self.tasks)?.iter();
        let cpus = block.numbers("cpu", &mut self.cpus)?.iter();
        let starts = block.times("start_ns", &mut self.starts)?.iter();
        let ends = block.times("end_ns", &mut self.ends)?.iter();
        let slices = tasks.zip(cpus).zip(starts.zip(ends)).rev();
        Ok(slices.map(|((task, cpu), (start, end))| Slice {
            task: *task as usize,
            cpu: *cpu,
            start_ns: *start,
            end_ns: *end,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from_ns: i64, to_ns: i64) -> Window {
        Window {
            from_ns,
            to_ns,
            closed: false,
        }
    }

    #[test]
    fn parts_tile_the_window() {
        for (from, to) in [(0, 1), (100, 900), (7, 67), (5, 1_000_000_007), (3, 3)] {
            let parts = Parts::new(window(from, to));
            assert_eq!((parts.start(0), parts.start(parts.count)), (from, to));
            for part in 0..parts.count {
                let (start, end) = (parts.start(part), parts.start(part + 1));
                for ts in [start, end - 1] {
                    if from <= ts && ts < to {
                        assert_eq!(parts.of(ts), part, "{from}-{to} {ts}");
                    }
                }
            }
        }
    }

    /// Unions of random intervals, against a mark for each nanosecond.
    #[test]
    fn what_is_covered_is_counted_once() {
        let mut seed = 1_u64;
        let mut next = |bound: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(99);
            ((seed >> 33) % bound) as i64
        };
        for _ in 0..200 {
            let mut slices: Vec<(i64, i64)> = (0..20)
                .map(|_| (next(100), next(30)))
                .map(|(start, length)| (start, start + length))
                .collect();
            slices.sort_by_key(|(_, end)| *end);
            let mut covered = Covered {
                ns: 0,
                from: i64::MAX,
            };
            let mut marks = [false; 200];
            for (start, end) in slices.iter().rev() {
                covered.add(*start, *end);
                marks[*start as usize..*end as usize].fill(true);
            }
            let marked = marks.iter().filter(|mark| **mark).count();
            assert_eq!(covered.ns, marked as i64, "{slices:?}");
        }
    }
}
