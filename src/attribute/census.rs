//! The wakeups that count, gone through once: how many there are of each combination of enumerations, and their
//! durations.
//!
//! A dozen narrow columns make one key of 35 bits a row, so that every question about counts is then asked of a
//! few hundred kinds instead of millions of rows.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::Quantiles;
use super::blocks::{Block, NO_NUMBER, NO_TIME};
use super::durations::{Durations, quantiles};
use super::scope::Rows;

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

/// Most words of an enumeration that latencies are told by.
pub const WORDS: usize = 8;

/// What latencies are told by; the number is the place in [`KEY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldBy {
    WakerPrev,
    PrevChosen,
    WakerChosen,
    Path,
}

impl ToldBy {
    /// The code of this column among those that latencies are told by.
    fn code(self, codes: usize) -> usize {
        codes >> (3 * self as u32) & (WORDS - 1)
    }
}

/// All that is asked of the wakeups that count, but for who woke whom.
#[derive(Debug)]
pub struct Census {
    kinds: FxHashMap<u64, u64>,
    /// By the codes that latencies are told by.
    latencies: Vec<Durations>,
    pub queues_ns: Durations,
    pub waker_costs_ns: Durations,
    /// By waker's CPU.
    pub per_waker_cpu: Vec<u64>,
    /// Those of which the waker's CPU is unknown.
    pub unknown_waker_cpu: u64,
}

impl Default for Census {
    fn default() -> Self {
        Self {
            kinds: FxHashMap::default(),
            latencies: vec![Durations::default(); 1 << TOLD_BY_BITS],
            queues_ns: Durations::default(),
            waker_costs_ns: Durations::default(),
            per_waker_cpu: Vec::new(),
            unknown_waker_cpu: 0,
        }
    }
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    keys: Vec<u64>,
    codes: Vec<u8>,
    cpus: Vec<u32>,
    times: Vec<i64>,
}

impl Census {
    /// Goes through the wakeups among these that count.
    pub fn take(rows: Rows) -> PolarsResult<Self> {
        let keys = KEY.iter().map(|(name, _)| *name);
        let columns: Vec<&str> = keys.chain(DURATIONS).chain(["waker_cpu"]).collect();
        let (census, _) = rows.counted().fold(
            &columns,
            <(Census, Scratch)>::default,
            |(census, scratch), block| census.block(block, scratch),
            |(census, _), (other, _)| census.join(other),
        )?;
        Ok(census)
    }

    fn block(&mut self, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
        let Scratch {
            keys,
            codes,
            cpus,
            times,
        } = scratch;
        pack_keys(block, keys, codes)?;
        for key in &*keys {
            *self.kinds.entry(*key).or_default() += 1;
        }
        for cpu in block.numbers("waker_cpu", cpus)? {
            self.woken_on(*cpu);
        }
        let [latency, queue, cost] = DURATIONS;
        for (ns, key) in block.times(latency, times)?.iter().zip(&*keys) {
            if let Some(of_code) = self.latencies.get_mut((key & mask(TOLD_BY_BITS)) as usize)
                && *ns != NO_TIME
            {
                // Never negative, since a switch-in does not precede its waking.
                of_code.push((*ns).max(0));
            }
        }
        let known = |ns: &&i64| **ns != NO_TIME;
        let queues = block.times(queue, times)?.iter().filter(known);
        queues.for_each(|ns| self.queues_ns.push(*ns));
        let costs = block.times(cost, times)?.iter().filter(known);
        costs.for_each(|ns| self.waker_costs_ns.push(*ns));
        Ok(())
    }

    fn woken_on(&mut self, cpu: u32) {
        if cpu == NO_NUMBER {
            self.unknown_waker_cpu += 1;
            return;
        }
        if self.per_waker_cpu.len() <= cpu as usize {
            self.per_waker_cpu.resize(cpu as usize + 1, 0);
        }
        if let Some(count) = self.per_waker_cpu.get_mut(cpu as usize) {
            *count += 1;
        }
    }

    fn join(&mut self, other: Census) {
        for (key, count) in other.kinds {
            *self.kinds.entry(key).or_default() += count;
        }
        for (all, more) in self.latencies.iter_mut().zip(other.latencies) {
            if more.any() {
                all.join(more);
            }
        }
        self.queues_ns.join(other.queues_ns);
        self.waker_costs_ns.join(other.waker_costs_ns);
        let cpus = self.per_waker_cpu.len().max(other.per_waker_cpu.len());
        self.per_waker_cpu.resize(cpus, 0);
        for (all, more) in self.per_waker_cpu.iter_mut().zip(&other.per_waker_cpu) {
            *all += more;
        }
        self.unknown_waker_cpu += other.unknown_waker_cpu;
    }

    /// The quantiles of all latencies.
    pub fn all_latencies(&self) -> Option<Quantiles> {
        let some = self.latencies.iter().filter(|some| some.any());
        quantiles(&some.collect::<Vec<_>>())
    }

    /// The quantiles of latencies by code.
    pub fn latencies_by(&self, by: ToldBy) -> [Option<Quantiles>; WORDS] {
        let mut found: [Vec<&Durations>; WORDS] = Default::default();
        let codes = self.latencies.iter().enumerate();
        for (codes, some) in codes.filter(|(_, some)| some.any()) {
            found[by.code(codes)].push(some);
        }
        found.map(|of_code| quantiles(&of_code))
    }

    /// How many wakeups there are.
    pub fn total(&self) -> u64 {
        self.count(|_| true)
    }

    /// How many wakeups are of some kind.
    pub fn count(&self, of: impl Fn(&Kind) -> bool) -> u64 {
        let kinds = self.kinds.iter();
        let of_kind = kinds.filter(|(key, _)| of(&Kind::unpack(**key)));
        of_kind.map(|(_, count)| count).sum()
    }
}

/// The key of each row of a block.
fn pack_keys(block: &Block, keys: &mut Vec<u64>, codes: &mut Vec<u8>) -> PolarsResult<()> {
    keys.clear();
    keys.resize(block.rows(), 0);
    let mut shift = 0;
    for (name, bits) in KEY {
        let mask = mask(bits);
        for (key, code) in keys.iter_mut().zip(block.codes(name, codes)?) {
            *key |= (u64::from(*code) & mask) << shift;
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
    fn latencies_are_told_by_the_codes_of_their_keys() {
        let codes = 0b101_011_010_001;
        let by = [
            ToldBy::WakerPrev,
            ToldBy::PrevChosen,
            ToldBy::WakerChosen,
            ToldBy::Path,
        ];
        assert_eq!(by.map(|by| by.code(codes)), [1, 2, 3, 5]);
    }
}
