//! The table of flips: the replay emits steps, a follower makes rows of them, here on the keeper's thread. Where nobody
//! asks for single wakeups, those that tell the same are one row.

use polars::prelude::PolarsResult;
use rustc_hash::FxHashMap;

use super::schema::{Batch, Filled, FlipBatch, Table};
use crate::replay::flips::{FlipStep, Follower};
use crate::replay::rows::FlipRow;
use crate::replay::words::Decision;

/// The next batch of the table, and the follower that fills it.
pub(super) struct FlipSteps {
    follower: Follower,
    batch: FlipBatch,
    /// Rows on their way from one to the other.
    rows: Vec<FlipRow>,
    alike: Option<Alike>,
}

impl Batch for FlipSteps {
    type Row = FlipStep;
    const TABLE: Table = Table::Flips;
    const IN_ORDER: bool = true;

    fn key(_step: &FlipStep) -> i64 {
        0
    }

    fn new(full: usize, details: bool) -> Self {
        Self {
            follower: Follower::default(),
            batch: FlipBatch::new(full, details),
            rows: Vec::new(),
            alike: (!details).then(Alike::default),
        }
    }

    /// Not every step makes a row, so the batch has room for as many steps as for rows.
    fn room(&self) -> usize {
        let waiting = self.alike.as_ref().map_or(0, |alike| alike.rows.len());
        self.batch.room().saturating_sub(waiting)
    }

    fn extend(&mut self, steps: &[FlipStep]) {
        let follower = &mut self.follower;
        let rows = steps.iter().filter_map(|step| follower.take(step));
        match &mut self.alike {
            Some(alike) => rows.for_each(|row| alike.add(row)),
            None => {
                self.rows.extend(rows);
                self.batch.extend(&self.rows);
                self.rows.clear();
            }
        }
    }

    fn extend_from(&mut self, steps: &[&FlipStep]) {
        for step in steps {
            self.extend(std::slice::from_ref(*step));
        }
    }

    fn take(&mut self) -> PolarsResult<Filled> {
        if let Some(alike) = &mut self.alike {
            self.batch.extend(&alike.take());
        }
        self.batch.take()
    }
}

/// Rows that differ in what `analyze` counts, and how many wakeups each stands for.
#[derive(Default)]
struct Alike {
    places: FxHashMap<[u64; 2], usize>,
    /// Each with the place of its last wakeup among all.
    rows: Vec<(u64, FlipRow)>,
    taken: u64,
}

impl Alike {
    fn add(&mut self, row: FlipRow) {
        self.taken += 1;
        let place = *self.places.entry(key(&row)).or_insert(self.rows.len());
        match self.rows.get_mut(place) {
            None => self.rows.push((self.taken, row)),
            Some((last, kept)) => {
                let wakeups = kept.wakeups.saturating_add(row.wakeups);
                *last = self.taken;
                *kept = FlipRow { wakeups, ..row };
            }
        }
    }

    /// The rows in the order of their last wakeups, so that the last of a task tells how its counter stands.
    fn take(&mut self) -> Vec<FlipRow> {
        self.places.clear();
        self.rows.sort_unstable_by_key(|(last, _)| *last);
        self.rows.drain(..).map(|(_, row)| row).collect()
    }
}

/// What of a row is counted: who woke whom to where, what was decided, and what the checks found.
fn key(row: &FlipRow) -> [u64; 2] {
    const NOBODY: u32 = u32::MAX;
    let waker = row.waker.map_or(NOBODY, |task| task.0);
    let tasks = u64::from(waker) << 32 | u64::from(row.wakee.0);
    let flags = [
        Some(row.sure),
        row.flipped,
        row.probe_inside,
        row.probe_narrow,
        row.free_inside,
        row.pulled,
        Some(row.in_window),
    ];
    let flag = |key: u64, flag: &Option<bool>| key << 2 | flag.map_or(2, u64::from);
    let decided = |key: u64, decision: &Option<Decision>| {
        key << 3 | decision.map_or(7, |decision| u64::from(decision.code()))
    };
    // A CPU beyond 16 bits has no number in the table.
    let chosen = row.chosen_cpu.and_then(|cpu| u16::try_from(cpu).ok());
    let key = chosen.map_or(1 << 16, u64::from);
    let key = flags.iter().fold(key, flag);
    let key = row.decisions.iter().fold(key, decided);
    let kernel = [row.kernel, row.halved, row.doubled];
    [tasks, kernel.iter().fold(key, decided)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::flips::Span;
    use crate::replay::rows::TaskId;

    fn row(waker: u32, flips: u32) -> FlipRow {
        FlipRow {
            waking_ns: 0,
            waker: Some(TaskId(waker)),
            waker_cpu: 0,
            wakee: TaskId(9),
            chosen_cpu: Some(1),
            sure: true,
            flipped: Some(false),
            factor: Some(4),
            decisions: [Some(Decision::Affine); 6],
            kernel: Some(Decision::Affine),
            halved: Some(Decision::Wide),
            doubled: None,
            waker_flips: Span {
                lo: flips,
                hi: flips,
            },
            wakee_flips: Span { lo: 0, hi: 0 },
            probed: None,
            probe_inside: None,
            probe_narrow: None,
            free_inside: None,
            pulled: Some(false),
            wakeups: 1,
            in_window: true,
        }
    }

    #[test]
    fn rows_that_tell_the_same_are_one_and_the_last_comes_last() {
        let mut alike = Alike::default();
        [row(1, 3), row(2, 7), row(1, 4), row(1, 5)]
            .into_iter()
            .for_each(|row| alike.add(row));
        let rows = alike.take();
        let told = |row: &FlipRow| (row.waker.unwrap().0, row.wakeups, row.waker_flips.lo);
        assert_eq!(
            rows.iter().map(told).collect::<Vec<_>>(),
            [(2, 1, 7), (1, 3, 5)]
        );
        assert!(alike.take().is_empty());
    }

    /// Each part of the key tells rows apart.
    #[test]
    fn what_is_counted_apart_stays_apart() {
        let changes: [fn(&mut FlipRow); 14] = [
            |row| row.waker = None,
            |row| row.wakee = TaskId(8),
            |row| row.chosen_cpu = None,
            |row| row.chosen_cpu = Some(2),
            |row| row.sure = false,
            |row| row.flipped = None,
            |row| row.decisions[0] = None,
            |row| row.decisions[5] = Some(Decision::WarmingUp),
            |row| row.kernel = Some(Decision::Undecided),
            |row| row.halved = None,
            |row| row.doubled = Some(Decision::Wide),
            |row| row.probe_inside = Some(true),
            |row| row.pulled = None,
            |row| row.in_window = false,
        ];
        let mut alike = Alike::default();
        alike.add(row(1, 0));
        for change in changes {
            let mut row = row(1, 0);
            change(&mut row);
            alike.add(row);
        }
        assert_eq!(alike.rows.len(), changes.len() + 1);
    }
}
