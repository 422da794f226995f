//! The table of flips: the replay emits steps, a follower makes rows of them, here on the keeper's thread.

use polars::prelude::{DataFrame, PolarsResult};

use super::schema::{Batch, FlipBatch, Table};
use crate::replay::flips::{FlipStep, Follower};
use crate::replay::rows::FlipRow;

/// The next batch of the table, and the follower that fills it.
pub(super) struct FlipSteps {
    follower: Follower,
    batch: FlipBatch,
    /// Rows on their way from one to the other.
    rows: Vec<FlipRow>,
}

impl Batch for FlipSteps {
    type Row = FlipStep;
    const TABLE: Table = Table::Flips;

    fn new(full: usize, details: bool) -> Self {
        Self {
            follower: Follower::default(),
            batch: FlipBatch::new(full, details),
            rows: Vec::new(),
        }
    }

    fn room(&self) -> usize {
        self.batch.room()
    }

    /// Not every step makes a row, so the batch has room for as many steps as for rows.
    fn extend(&mut self, steps: &[FlipStep]) {
        let follower = &mut self.follower;
        let rows = steps.iter().filter_map(|step| follower.take(step));
        self.rows.extend(rows);
        self.batch.extend(&self.rows);
        self.rows.clear();
    }

    fn take(&mut self) -> PolarsResult<DataFrame> {
        self.batch.take()
    }
}
