//! Which rows are in memory at a time. The chain goes backwards through a trace of any length: it is cut into segments
//! of about as many rows each, of which one is loaded at a time, the last one first.

use polars::prelude::*;
use rayon::prelude::*;

use super::super::blocks::{NO_TIME, blocks};
use super::super::scope::Scope;
use crate::tables::Table;

/// Rows of a segment: each takes 32 bytes, or 56 if it is of a slice, and as much again while they are sorted.
pub const SEGMENT_ROWS: usize = 1 << 19;

/// The columns of `flushes` that hold since when and how long the initiator waited for the other CPUs.
pub const TLB_ASKED: &str = "asked_ns";
pub const TLB_WAIT: &str = "wait_ns";

/// A batch of a table that the path is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub table: Table,
    pub number: usize,
}

/// A part of the span, with the batches whose rows reach into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub from_ns: i64,
    pub to_ns: i64,
    /// Whether it begins with the span. It has the batches before it, too.
    pub first: bool,
    pub batches: Vec<Batch>,
}

/// The stamps between which all rows of a batch lie.
#[derive(Debug, Clone, Copy)]
struct Extent {
    batch: Batch,
    rows: usize,
    start_ns: i64,
    end_ns: i64,
}

/// Whether the trace's tables tell how long initiators of TLB shootdowns wait.
pub fn has_tlb_waits() -> bool {
    let columns = Table::Flushes.columns();
    columns.iter().any(|column| column.name == TLB_WAIT)
}

/// Cuts a span into segments of about so many rows, in order of time.
pub fn plan(scope: &Scope, start_ns: i64, end_ns: i64, rows: usize) -> PolarsResult<Vec<Segment>> {
    let batches = batches(scope);
    let total: usize = sources().map(|table| scope.tables().rows(table)).sum();
    if total <= rows {
        return Ok(vec![Segment {
            from_ns: start_ns,
            to_ns: end_ns,
            first: true,
            batches,
        }]);
    }
    let extents: PolarsResult<Vec<Extent>> = batches
        .par_iter()
        .map(|batch| extent(scope, *batch))
        .collect();
    Ok(cut(&extents?, start_ns, end_ns, rows))
}

/// The tables that the path is made of.
fn sources() -> impl Iterator<Item = Table> {
    let of_all = [Table::Wakeups, Table::Waits, Table::Slices, Table::Ipis];
    let flushes = has_tlb_waits().then_some(Table::Flushes);
    of_all.into_iter().chain(flushes)
}

fn batches(scope: &Scope) -> Vec<Batch> {
    let of =
        |table| (0..scope.tables().batch_count(table)).map(move |number| Batch { table, number });
    sources().flat_map(of).collect()
}

/// A segment ends where so many rows have since the one before did.
fn cut(extents: &[Extent], start_ns: i64, end_ns: i64, rows: usize) -> Vec<Segment> {
    let mut by_end: Vec<&Extent> = extents.iter().collect();
    by_end.sort_unstable_by_key(|extent| extent.end_ns);
    let mut bounds = vec![start_ns];
    let mut gathered = 0;
    for extent in by_end {
        let within = extent.end_ns > start_ns && extent.end_ns < end_ns;
        gathered += if within { extent.rows } else { 0 };
        if gathered >= rows && bounds.last().is_some_and(|last| *last < extent.end_ns) {
            bounds.push(extent.end_ns);
            gathered = 0;
        }
    }
    bounds.push(end_ns.max(start_ns));
    let segments = bounds.windows(2).enumerate();
    segments
        .map(|(at, bounds)| {
            let (from_ns, to_ns) = (bounds[0], bounds[1]);
            let first = at == 0;
            let reaches =
                |extent: &&Extent| (first || extent.end_ns >= from_ns) && extent.start_ns <= to_ns;
            let batches = extents.iter().filter(reaches);
            Segment {
                from_ns,
                to_ns,
                first,
                batches: batches.map(|extent| extent.batch).collect(),
            }
        })
        .collect()
}

/// The columns of stamps, and of a length that begins at the first of them.
fn stamps(table: Table) -> (&'static [&'static str], Option<&'static str>) {
    match table {
        Table::Wakeups => (&["waking_ns", "wakeup_ns", "switch_in_ns"], None),
        Table::Waits => (&["start_ns", "end_ns"], Some("wait_ns")),
        Table::Slices => (&["start_ns", "end_ns"], None),
        Table::Ipis => (&["entry_ns"], Some("handler_ns")),
        _ => (&[TLB_ASKED], Some(TLB_WAIT)),
    }
}

fn extent(scope: &Scope, batch: Batch) -> PolarsResult<Extent> {
    let (stamps, length) = stamps(batch.table);
    let names: Vec<&str> = stamps.iter().copied().chain(length).collect();
    let rows = scope
        .tables()
        .columns(batch.table, batch.number, &names, None)?;
    let mut extent = Extent {
        batch,
        rows: rows.rows.height(),
        start_ns: i64::MAX,
        end_ns: i64::MIN,
    };
    let counted_from_ns = scope.facts.config.window.from_ns;
    let (mut times, mut lengths) = (Vec::new(), Vec::new());
    for block in blocks(&rows) {
        for name in stamps {
            extent.take(block.times(name, &mut times)?.iter().copied());
        }
        if let (Some(length), Some(first)) = (length, stamps.first()) {
            let starts = block.times(first, &mut times)?.iter();
            let lasting = starts.zip(block.times(length, &mut lengths)?);
            let lasting = lasting.filter(|(_, ns)| **ns != NO_TIME);
            extent
                .take(lasting.map(|(start, ns)| (*start).max(counted_from_ns).saturating_add(*ns)));
        }
    }
    Ok(extent)
}

impl Extent {
    fn take(&mut self, stamps: impl Iterator<Item = i64>) {
        for stamp in stamps.filter(|stamp| *stamp != NO_TIME) {
            self.start_ns = self.start_ns.min(stamp);
            self.end_ns = self.end_ns.max(stamp);
        }
    }
}
