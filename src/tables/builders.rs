//! Takes the replay's rows and fills the tables that were asked for.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::batches::{Budget, Store, Tables, TablesError};
use super::flips::FlipSteps;
use super::order::Order;
use super::schema::{
    Batch, CpuBatch, EventBatch, Filled, FlushBatch, IdleBatch, IpiBatch, LostBatch,
    MigrationBatch, SecondBatch, SliceBatch, Table, TaskBatch, TraceBatch, UnitBatch, WaitBatch,
    WakeupBatch,
};
use crate::replay::flips::FlipStep;
use crate::replay::rows::{
    CpuRow, EventRow, FlushRow, IdleRow, IpiRow, LostRow, MigrationRow, SecondRow, Sink, SliceRow,
    TaskRow, TraceRow, UnitRow, WaitRow, WakeupRow,
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
                Table::Slices,
                Table::Migrations,
                Table::Ipis,
                Table::Flips,
                Table::Flushes,
                Table::Units,
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

/// What becomes of finished batches.
pub trait Keep: Send + 'static {
    /// Whether rows are wanted in the order of their time, not in that of their completion.
    const IN_ORDER: bool;

    /// Takes a batch. `late` are rows that belong between those of earlier batches.
    fn add(&mut self, table: Table, batch: Filled, late: bool) -> Result<(), TablesError>;
}

impl Keep for Store {
    const IN_ORDER: bool = false;

    fn add(&mut self, table: Table, batch: Filled, _late: bool) -> Result<(), TablesError> {
        Store::add(self, table, batch)
    }
}

/// Rows that are handed over at once.
const CHUNK: usize = 2048;

/// Chunks that may wait for the keeper: enough for the time in which it writes a batch to disk.
const WAITING_CHUNKS: usize = 16;

/// One table's rows on the replay's side.
struct Lane<R> {
    rows: Vec<R>,
    /// Storage that the keeper is done with.
    emptied: Receiver<Vec<R>>,
}

impl<R: Clone> Lane<R> {
    /// Appends a row; the chunk, when it is full.
    #[inline]
    fn push(&mut self, row: &R) -> Option<Vec<R>> {
        self.rows.push(row.clone());
        (self.rows.len() >= CHUNK).then(|| self.renew())
    }

    #[cold]
    fn renew(&mut self) -> Vec<R> {
        let empty = self.emptied.try_recv();
        let empty = empty.unwrap_or_else(|_| Vec::with_capacity(CHUNK));
        std::mem::replace(&mut self.rows, empty)
    }
}

/// One table's rows on the keeper's side.
struct Filling<B: Batch> {
    batch: B,
    order: Option<Order<B::Row>>,
    details: bool,
    emptied: SyncSender<Vec<B::Row>>,
}

impl<B: Batch> Filling<B> {
    /// Takes in a chunk, and keeps each batch that it fills.
    fn take(&mut self, mut chunk: Vec<B::Row>, keep: &mut impl Keep) -> Result<(), TablesError> {
        // The replay may be done already: then the storage is not needed any more.
        match &mut self.order {
            None => {
                self.fill(&chunk, keep)?;
                chunk.clear();
                let _ = self.emptied.try_send(chunk);
            }
            Some(order) => {
                let batch = &mut self.batch;
                order.take(chunk, |rows| fill_from(batch, rows, keep))?;
                while let Some(storage) = order.emptied() {
                    let _ = self.emptied.try_send(storage);
                }
                let late = order.late(false);
                self.keep_late(late, keep)?;
            }
        }
        Ok(())
    }

    fn fill(&mut self, mut rows: &[B::Row], keep: &mut impl Keep) -> Result<(), TablesError> {
        while !rows.is_empty() {
            let (now, later) = rows.split_at(rows.len().min(self.batch.room()));
            self.batch.extend(now);
            if self.batch.room() == 0 {
                keep.add(B::TABLE, self.batch.take()?, false)?;
            }
            rows = later;
        }
        Ok(())
    }

    fn keep_late(
        &mut self,
        rows: Option<Vec<B::Row>>,
        keep: &mut impl Keep,
    ) -> Result<(), TablesError> {
        let Some(rows) = rows else {
            return Ok(());
        };
        let mut batch = B::new(rows.len(), self.details);
        batch.extend(&rows);
        keep.add(B::TABLE, batch.take()?, true)
    }

    /// Keeps what is left.
    fn finish(&mut self, keep: &mut impl Keep) -> Result<(), TablesError> {
        if let Some(order) = &mut self.order {
            let batch = &mut self.batch;
            order.rest(|rows| fill_from(batch, rows, keep))?;
            let late = order.late(true);
            self.keep_late(late, keep)?;
        }
        keep.add(B::TABLE, self.batch.take()?, false)
    }
}

/// Appends rows to a batch, and keeps each that is full.
fn fill_from<B: Batch>(
    batch: &mut B,
    mut rows: &[&B::Row],
    keep: &mut impl Keep,
) -> Result<(), TablesError> {
    while !rows.is_empty() {
        let (now, later) = rows.split_at(rows.len().min(batch.room()));
        batch.extend_from(now);
        if batch.room() == 0 {
            keep.add(B::TABLE, batch.take()?, false)?;
        }
        rows = later;
    }
    Ok(())
}

/// Both sides of a table that is built.
fn both_sides<B: Batch>(batch: B, details: bool, in_order: bool) -> (Lane<B::Row>, Filling<B>) {
    // One chunk more than may wait is being filled, and one taken in.
    let (done, emptied) = sync_channel(WAITING_CHUNKS + 2);
    let lane = Lane {
        rows: Vec::new(),
        emptied,
    };
    let filling = Filling {
        batch,
        order: (in_order && !B::IN_ORDER).then(|| Order::new(B::key)),
        details,
        emptied: done,
    };
    (lane, filling)
}

/// Declares both sides for all tables: the method of [`Sink`] that takes a row and the field that holds it, the table,
/// its row and its batch, and whether it has few rows.
macro_rules! sides {
    ($($name:ident in $field:ident: $table:ident $row:ident $batch:ident $rows:ident;)+) => {
        /// Rows on their way to the keeper.
        enum Chunk {
            $($table(Vec<$row>),)+
        }

        /// What the replay fills.
        #[derive(Default)]
        struct Lanes {
            $($field: Option<Lane<$row>>,)+
        }

        /// What the keeper fills.
        #[derive(Default)]
        struct Fillings {
            $($field: Option<Filling<$batch>>,)+
        }

        /// Both sides of the tables that are built.
        fn sides(set: &TableSet, full: usize, in_order: bool) -> (Lanes, Fillings) {
            let mut lanes = Lanes::default();
            let mut fillings = Fillings::default();
            $(if set.contains(Table::$table) {
                let rows = if in_order { full } else { $rows(full) };
                let batch = $batch::new(rows, set.details());
                let (lane, filling) = both_sides(batch, set.details(), in_order);
                lanes.$field = Some(lane);
                fillings.$field = Some(filling);
            })+
            (lanes, fillings)
        }

        impl Lanes {
            /// What is not handed over yet, in the order of the tables.
            fn rest(self) -> Vec<Chunk> {
                let mut rest = Vec::new();
                $(rest.extend(self.$field.map(|lane| Chunk::$table(lane.rows)));)+
                rest
            }
        }

        impl Fillings {
            fn take(&mut self, chunk: Chunk, keep: &mut impl Keep) -> Result<(), TablesError> {
                match chunk {
                    $(Chunk::$table(rows) => match &mut self.$field {
                        Some(filling) => filling.take(rows, keep),
                        None => Ok(()),
                    },)+
                }
            }

            /// Keeps the batches that are not full.
            fn finish(&mut self, keep: &mut impl Keep) -> Result<(), TablesError> {
                $(if let Some(filling) = &mut self.$field {
                    filling.finish(keep)?;
                })+
                Ok(())
            }
        }

        impl Sink for Filler {
            fn details(&self) -> bool {
                self.details
            }

            $(#[inline]
            fn $name(&mut self, row: &$row) {
                if self.failed {
                    return;
                }
                let chunk = self.lanes.$field.as_mut().and_then(|lane| lane.push(row));
                if let Some(rows) = chunk {
                    self.hand_over(Chunk::$table(rows));
                }
            })+
        }
    };
}

fn many(rows: usize) -> usize {
    rows
}

fn few(rows: usize) -> usize {
    rows.min(SMALL)
}

sides! {
    wakeup in wakeups: Wakeups WakeupRow WakeupBatch many;
    slice in slices: Slices SliceRow SliceBatch many;
    wait in waits: Waits WaitRow WaitBatch many;
    idle in idle: Idle IdleRow IdleBatch many;
    migration in migrations: Migrations MigrationRow MigrationBatch many;
    ipi in ipis: Ipis IpiRow IpiBatch many;
    flip in flips: Flips FlipStep FlipSteps many;
    flush in flushes: Flushes FlushRow FlushBatch few;
    unit in units: Units UnitRow UnitBatch few;
    task in tasks: Tasks TaskRow TaskBatch few;
    cpu in cpus: Cpus CpuRow CpuBatch few;
    lost in lost: Lost LostRow LostBatch few;
    second in seconds: Ledger SecondRow SecondBatch few;
    trace in traces: Traces TraceRow TraceBatch few;
    event in events: Events EventRow EventBatch many;
}

/// Takes the replay's rows. The replay's thread only copies them; a thread of its own, the keeper, makes columns of them
/// and frames of full batches, and hands these on. The first error ends the building, and is told at the end.
///
/// It is one type whatever becomes of the batches, so that the replay is compiled once.
pub struct Filler {
    details: bool,
    lanes: Lanes,
    full: SyncSender<Chunk>,
    /// The keeper met an error: rows are not taken any more.
    failed: bool,
}

/// The thread that keeps batches.
pub(super) type Keeper<K> = JoinHandle<Result<K, TablesError>>;

impl Filler {
    /// A filler of these tables in batches of so many rows, and their keeper.
    pub(super) fn start<K: Keep>(set: &TableSet, batch_rows: usize, keep: K) -> (Self, Keeper<K>) {
        let (lanes, fillings) = sides(set, batch_rows.max(1), K::IN_ORDER);
        let (full, chunks) = sync_channel(WAITING_CHUNKS);
        let filler = Self {
            details: set.details(),
            lanes,
            full,
            failed: false,
        };
        let keeper = std::thread::spawn(move || keep_all(keep, fillings, &chunks));
        (filler, keeper)
    }

    /// Ends the building.
    ///
    /// # Errors
    /// The first error met while rows were taken, such as a full disk.
    pub(super) fn end<K>(mut self, keeper: Keeper<K>) -> Result<K, TablesError> {
        let lanes = std::mem::take(&mut self.lanes);
        lanes
            .rest()
            .into_iter()
            .for_each(|rest| self.hand_over(rest));
        drop(self.full);
        match keeper.join() {
            Ok(kept) => kept,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn hand_over(&mut self, chunk: Chunk) {
        // A closed channel means that the keeper gave up.
        self.failed |= self.full.send(chunk).is_err();
    }
}

/// Keeps rows until there are no more, or until a batch cannot be kept.
fn keep_all<K: Keep>(
    mut keep: K,
    mut fillings: Fillings,
    chunks: &Receiver<Chunk>,
) -> Result<K, TablesError> {
    for chunk in chunks {
        fillings.take(chunk, &mut keep)?;
    }
    fillings.finish(&mut keep)?;
    Ok(keep)
}

/// Builds tables to be asked: full batches are kept in memory, or go to disk where they must.
pub struct Builders {
    filler: Filler,
    keeper: Keeper<Store>,
}

impl Builders {
    /// Builders for these tables.
    pub fn new(set: &TableSet, budget: Budget) -> Self {
        let rows = budget.batch_rows;
        let (filler, keeper) = Filler::start(set, rows, Store::new(set, budget));
        Self { filler, keeper }
    }

    /// What takes the rows.
    pub fn sink(&mut self) -> &mut Filler {
        &mut self.filler
    }

    /// Hands over the tables.
    ///
    /// # Errors
    /// The first error met while rows were taken, such as a full disk.
    pub fn finish(self) -> Result<Tables, TablesError> {
        self.filler.end(self.keeper).map(Store::finish)
    }
}
