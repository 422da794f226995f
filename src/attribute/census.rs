//! The wakeups that count, gone through once: how many there are of each combination of enumerations, and their
//! durations.
//!
//! A dozen narrow columns make one key of 35 bits a row, so that every question about counts is then asked of a
//! few hundred kinds instead of millions of rows.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::scope::Scope;

/// Rows whose keys are built together: they stay in the processor's cache.
const BLOCK: usize = 32 << 10;

/// What one wakeup was, in codes; `None` where the table has null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    pub class: u8,
    pub path: u8,
    pub context: u8,
    pub waker_chosen: u8,
    pub prev_chosen: u8,
    pub waker_prev: u8,
    pub cross_llc: Option<bool>,
    pub selection: Option<bool>,
    pub chosen_idle: Option<bool>,
    pub smt_shared: bool,
    pub verdict_seen: Option<u8>,
    pub verdict_any: Option<u8>,
}

/// The columns of a key, from the lowest bits on, and how many bits each takes.
const KEY: [(&str, u32); 12] = [
    ("waker_prev", 3),
    ("prev_chosen", 3),
    ("waker_chosen", 3),
    ("path", 3),
    ("class", 4),
    ("context", 3),
    ("cross_llc", 2),
    ("selection", 2),
    ("chosen_idle", 2),
    ("smt_shared", 2),
    ("verdict_seen", 4),
    ("verdict_any", 4),
];

/// The columns beside the key's.
const DURATIONS: [&str; 3] = ["latency_ns", "queue_ns", "waker_cost_ns"];

/// Bits of the codes that latencies are told by: the first four of [`KEY`].
const TOLD_BY_BITS: u32 = 12;

impl Kind {
    fn unpack(key: u64) -> Self {
        let mut shift = 0;
        let fields = KEY.map(|(_, bits)| {
            let field = key >> shift & mask(bits);
            shift += bits;
            field as u8
        });
        let [
            waker_prev,
            prev_chosen,
            waker_chosen,
            path,
            class,
            context,
            flags @ ..,
        ] = fields;
        let [cross_llc, selection, chosen_idle, smt_shared, seen, any] = flags;
        let flag = |field: u8| (u64::from(field) != mask(2)).then_some(field == 1);
        let code = |field: u8| (u64::from(field) != mask(4)).then_some(field);
        Self {
            class,
            path,
            context,
            waker_chosen,
            prev_chosen,
            waker_prev,
            cross_llc: flag(cross_llc),
            selection: flag(selection),
            chosen_idle: flag(chosen_idle),
            smt_shared: smt_shared == 1,
            verdict_seen: code(seen),
            verdict_any: code(any),
        }
    }
}

/// The largest field of so many bits: it stands for null.
const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A latency and the codes that latencies are told by, packed so that sorting sorts by latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latency(u64);

impl Latency {
    fn pack(ns: i64, key: u64) -> Self {
        // Never negative, since a switch-in does not precede its waking; 52 bits are 52 days.
        let ns = u64::try_from(ns).unwrap_or(0);
        Self(ns << TOLD_BY_BITS | key & mask(TOLD_BY_BITS))
    }

    pub fn ns(self) -> i64 {
        (self.0 >> TOLD_BY_BITS) as i64
    }

    /// The code of one of the columns that latencies are told by.
    #[inline]
    pub fn code(self, by: ToldBy) -> usize {
        (self.0 >> (3 * by as u32) & mask(3)) as usize
    }
}

/// What latencies are told by; the number is the place in [`KEY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldBy {
    WakerPrev,
    PrevChosen,
    WakerChosen,
    Path,
}

/// All that is asked of the wakeups that count, but for who woke whom.
#[derive(Debug, Default)]
pub struct Census {
    pub kinds: Vec<(Kind, u64)>,
    /// Sorted.
    pub latencies: Vec<Latency>,
    pub queues_ns: Vec<i64>,
    pub waker_costs_ns: Vec<i64>,
    /// By waker's CPU; those of an unknown one under `None`.
    pub per_waker_cpu: FxHashMap<Option<u16>, u64>,
}

impl Census {
    /// Goes through the wakeups of a scope.
    pub fn take(scope: &Scope) -> PolarsResult<Self> {
        let names = KEY
            .iter()
            .map(|(name, _)| *name)
            .chain(DURATIONS)
            .chain(["waker_cpu"]);
        let columns: Vec<Expr> = names.map(col).collect();
        let columns = with_window(scope, columns);
        let query = |rows: LazyFrame| scope.counted(rows.select(&columns));
        let mut census = Census::default();
        let mut counts: FxHashMap<u64, u64> = FxHashMap::default();
        let mut keys = Vec::with_capacity(BLOCK);
        scope.over_wakeups(query, |batch| {
            for start in (0..batch.height()).step_by(BLOCK) {
                let block = batch.slice(start as i64, BLOCK);
                pack_keys(&block, &mut keys)?;
                keys.iter()
                    .for_each(|key| *counts.entry(*key).or_default() += 1);
                census.durations(&block, &keys)?;
            }
            for cpu in batch.column("waker_cpu")?.u16()?.iter() {
                *census.per_waker_cpu.entry(cpu).or_default() += 1;
            }
            Ok(())
        })?;
        census.latencies.sort_unstable();
        census.kinds = counts
            .into_iter()
            .map(|(key, n)| (Kind::unpack(key), n))
            .collect();
        Ok(census)
    }

    fn durations(&mut self, block: &DataFrame, keys: &[u64]) -> PolarsResult<()> {
        let latencies = block.column("latency_ns")?.i64()?.iter();
        let known = latencies
            .zip(keys)
            .filter_map(|(ns, key)| Some(Latency::pack(ns?, *key)));
        self.latencies.extend(known);
        self.queues_ns
            .extend(block.column("queue_ns")?.i64()?.iter().flatten());
        self.waker_costs_ns
            .extend(block.column("waker_cost_ns")?.i64()?.iter().flatten());
        Ok(())
    }

    /// How many wakeups there are.
    pub fn total(&self) -> u64 {
        self.count(|_| true)
    }

    /// How many wakeups are of some kind.
    pub fn count(&self, of: impl Fn(&Kind) -> bool) -> u64 {
        let kinds = self.kinds.iter().filter(|(kind, _)| of(kind));
        kinds.map(|(_, count)| count).sum()
    }
}

/// The columns, with that by which rows outside the window are left out.
pub fn with_window(scope: &Scope, mut columns: Vec<Expr>) -> Vec<Expr> {
    if !scope.is_whole() {
        columns.push(col("in_window"));
    }
    columns
}

/// The key of each row of a block.
fn pack_keys(block: &DataFrame, keys: &mut Vec<u64>) -> PolarsResult<()> {
    keys.clear();
    keys.resize(block.height(), 0);
    let mut shift = 0;
    for (name, bits) in KEY {
        let column = block.column(name)?;
        if column.dtype() == &DataType::Boolean {
            let flags = column.bool()?.iter();
            for (key, flag) in keys.iter_mut().zip(flags) {
                *key |= flag.map_or(mask(bits), u64::from) << shift;
            }
        } else if column.null_count() > 0 {
            for (key, code) in keys.iter_mut().zip(column.u8()?.iter()) {
                *key |= code.map_or(mask(bits), u64::from) << shift;
            }
        } else {
            let codes = column
                .u8()?
                .downcast_iter()
                .flat_map(|array| array.values().iter());
            for (key, code) in keys.iter_mut().zip(codes) {
                *key |= u64::from(*code) << shift;
            }
        }
        shift += bits;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::words::{Class, Path, Verdict, Waker};
    use crate::topology::Distance;

    /// The largest code of each enumeration is told from null, and fits its bits.
    #[test]
    fn every_word_fits_its_bits() {
        let words = [Distance::ALL.len(), Path::ALL.len(), Waker::ALL.len()];
        assert!(words.iter().all(|&words| words as u64 <= mask(3) + 1));
        assert!(Class::ALL.len() as u64 <= mask(4) + 1);
        assert!((Verdict::ALL.len() as u64) < mask(4) + 1);
        assert!(KEY.iter().map(|(_, bits)| bits).sum::<u32>() <= 64);
        assert_eq!(
            KEY.iter().take(4).map(|(_, bits)| bits).sum::<u32>(),
            TOLD_BY_BITS
        );
    }

    #[test]
    fn latencies_sort_by_time_and_keep_their_codes() {
        let key = 0b101_011_010_001;
        let latency = Latency::pack(77, key);
        assert_eq!(latency.ns(), 77);
        let by = [
            ToldBy::WakerPrev,
            ToldBy::PrevChosen,
            ToldBy::WakerChosen,
            ToldBy::Path,
        ];
        assert_eq!(by.map(|by| latency.code(by)), [1, 2, 3, 5]);
        assert!(Latency::pack(76, 0b111_111_111_111) < latency);
    }
}
