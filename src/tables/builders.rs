//! Takes the replay's rows and fills the tables that were asked for.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use polars::prelude::*;

use super::batches::{Budget, Store, Tables, TablesError};
use super::schema::{
    CpuBatch, IdleBatch, IpiBatch, LostBatch, MigrationBatch, SliceBatch, Table, TaskBatch,
    WaitBatch, WakeupBatch,
};
use crate::replay::rows::{
    CpuRow, IdleRow, IpiRow, LostRow, MigrationRow, Sink, SliceRow, TaskRow, WaitRow, WakeupRow,
};

/// Rows of the small tables for which room is made at once.
const SMALL: usize = 4096;

/// Which tables are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSet {
    tables: Vec<Table>,
    details: bool,
}

impl TableSet {
    /// What `analyze` needs, without columns that only exports hold.
    pub fn analysis() -> Self {
        Self {
            tables: vec![
                Table::Wakeups,
                Table::Waits,
                Table::Migrations,
                Table::Tasks,
                Table::Cpus,
                Table::Lost,
            ],
            details: false,
        }
    }

    /// These tables with every column.
    pub fn full(tables: &[Table]) -> Self {
        Self {
            tables: tables.to_vec(),
            details: true,
        }
    }

    /// Every table with every column.
    pub fn all() -> Self {
        Self::full(Table::ALL)
    }

    /// Whether a table is built.
    pub fn contains(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    /// Whether the columns that only exports hold are built.
    pub fn details(&self) -> bool {
        self.details
    }
}

impl Default for TableSet {
    fn default() -> Self {
        Self::analysis()
    }
}

/// A batch that is not a frame yet.
type Finish = Box<dyn FnOnce() -> PolarsResult<DataFrame> + Send>;

/// Full batches that may wait for the keeper: each costs memory.
const WAITING_BATCHES: usize = 1;

/// Builds tables from the replay's rows. Full batches become frames, and go to disk where they must, on a thread of
/// their own. The first error ends the building, and is told by [`Builders::finish`].
pub struct Builders {
    full: SyncSender<(Table, Finish)>,
    keeper: JoinHandle<Result<Store, TablesError>>,
    /// The keeper met an error: rows are not taken any more.
    failed: bool,
    wakeups: Option<WakeupBatch>,
    slices: Option<SliceBatch>,
    waits: Option<WaitBatch>,
    idle: Option<IdleBatch>,
    migrations: Option<MigrationBatch>,
    ipis: Option<IpiBatch>,
    tasks: Option<TaskBatch>,
    cpus: Option<CpuBatch>,
    lost: Option<LostBatch>,
}

/// Runs `$apply` on each builder that there is, with its table.
macro_rules! each_builder {
    ($of:ident, |$table:ident, $builder:ident| $apply:expr) => {
        each_builder!(@ $of, $table, $builder, $apply,
            wakeups Wakeups, slices Slices, waits Waits, idle Idle, migrations Migrations,
            ipis Ipis, tasks Tasks, cpus Cpus, lost Lost)
    };
    (@ $of:ident, $table:ident, $builder:ident, $apply:expr, $($field:ident $which:ident),+) => {
        $(if let Some($builder) = $of.$field.take() {
            let $table = Table::$which;
            $apply
        })+
    };
}

impl Builders {
    /// Builders for these tables.
    pub fn new(set: &TableSet, budget: Budget) -> Self {
        let rows = budget.batch_rows.max(1);
        let details = set.details();
        let wanted = |table| set.contains(table);
        let small = rows.min(SMALL);
        let store = Store::new(set, budget);
        let (full, batches) = sync_channel(WAITING_BATCHES);
        Self {
            full,
            keeper: std::thread::spawn(move || keep_all(store, &batches)),
            failed: false,
            wakeups: wanted(Table::Wakeups).then(|| WakeupBatch::new(rows, details)),
            slices: wanted(Table::Slices).then(|| SliceBatch::new(rows, details)),
            waits: wanted(Table::Waits).then(|| WaitBatch::new(rows, details)),
            idle: wanted(Table::Idle).then(|| IdleBatch::new(rows, details)),
            migrations: wanted(Table::Migrations).then(|| MigrationBatch::new(rows, details)),
            ipis: wanted(Table::Ipis).then(|| IpiBatch::new(rows, details)),
            tasks: wanted(Table::Tasks).then(|| TaskBatch::new(small, details)),
            cpus: wanted(Table::Cpus).then(|| CpuBatch::new(small, details)),
            lost: wanted(Table::Lost).then(|| LostBatch::new(small, details)),
        }
    }

    /// Hands over the tables.
    ///
    /// # Errors
    /// The first error met while rows were taken, such as a full disk.
    pub fn finish(mut self) -> Result<Tables, TablesError> {
        each_builder!(self, |table, builder| {
            let mut builder = builder;
            self.keep(table, Box::new(builder.take()));
        });
        drop(self.full);
        match self.keeper.join() {
            Ok(kept) => kept.map(Store::finish),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn keep(&mut self, table: Table, batch: Finish) {
        self.failed |= self.full.send((table, batch)).is_err();
    }
}

/// Keeps batches until there are no more, or until one cannot be kept.
fn keep_all(mut store: Store, batches: &Receiver<(Table, Finish)>) -> Result<Store, TablesError> {
    for (table, finish) in batches {
        store.add(table, finish()?)?;
    }
    Ok(store)
}

/// Appends a row, and hands the batch over when it is full.
macro_rules! take_row {
    ($of:ident.$field:ident, $table:ident, $row:ident) => {
        if !$of.failed {
            if let Some(builder) = &mut $of.$field {
                if builder.push($row) {
                    let batch = builder.take();
                    $of.keep(Table::$table, Box::new(batch));
                }
            }
        }
    };
}

impl Sink for Builders {
    #[inline]
    fn wakeup(&mut self, row: &WakeupRow) {
        take_row!(self.wakeups, Wakeups, row);
    }

    #[inline]
    fn wait(&mut self, row: &WaitRow) {
        take_row!(self.waits, Waits, row);
    }

    #[inline]
    fn slice(&mut self, row: &SliceRow) {
        take_row!(self.slices, Slices, row);
    }

    #[inline]
    fn idle(&mut self, row: &IdleRow) {
        take_row!(self.idle, Idle, row);
    }

    #[inline]
    fn migration(&mut self, row: &MigrationRow) {
        take_row!(self.migrations, Migrations, row);
    }

    #[inline]
    fn ipi(&mut self, row: &IpiRow) {
        take_row!(self.ipis, Ipis, row);
    }

    fn lost(&mut self, row: &LostRow) {
        take_row!(self.lost, Lost, row);
    }

    fn task(&mut self, row: &TaskRow) {
        take_row!(self.tasks, Tasks, row);
    }

    fn cpu(&mut self, row: &CpuRow) {
        take_row!(self.cpus, Cpus, row);
    }
}
