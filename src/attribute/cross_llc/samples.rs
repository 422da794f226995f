//! The samples of the pairs and tasks that can be compared.

use polars::prelude::PolarsResult;
use rustc_hash::FxHashMap;

use super::super::resample::LEAST_SAMPLES;
use super::super::scope::Scope;
use super::counts::{Count, Counts};
use super::sides::{COLUMNS, Cost, Scratch, Wakeup, each};

/// Most samples that are kept of one side of a pair or task.
const MOST_OF_A_SIDE: u64 = 16_384;
/// Most samples that are kept in all, as long as each side has [`LEAST_OF_A_SIDE`].
const MOST: u64 = 8 << 20;
const LEAST_OF_A_SIDE: u64 = 256;

/// One side of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// In the order of the wakeups.
    pub values: Vec<u32>,
    /// Of transit: how long the CPU had been idle, as a power of two, for each value.
    pub strata: Vec<u8>,
    /// How many of its wakeups one sample stands for.
    stride: u64,
    pub beside: Beside,
}

/// What else is known of all of a side's wakeups.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside {
    pub siblings_known: u64,
    pub siblings_busy: u64,
    pub idle_known: u64,
    /// The sum of the idle times' logarithms.
    pub idle_log: f64,
    /// Sums over the runs that were counted.
    pub run_ns: f64,
    pub cycles: f64,
    pub instructions: f64,
}

impl Beside {
    fn note(&mut self, wakeup: &Wakeup) {
        if let Some(busy) = wakeup.sibling_busy {
            self.siblings_known += 1;
            self.siblings_busy += u64::from(busy);
        }
        if let Some(idle) = wakeup.idle_before_ns {
            self.idle_known += 1;
            self.idle_log += (idle.max(1) as f64).ln();
        }
        if let (Some(run), Some(cycles), Some(instructions)) =
            (wakeup.run_ns, wakeup.cycles, wakeup.instructions)
        {
            self.run_ns += run as f64;
            self.cycles += cycles as f64;
            self.instructions += instructions as f64;
        }
    }

    fn add(&mut self, more: &Beside) {
        self.siblings_known += more.siblings_known;
        self.siblings_busy += more.siblings_busy;
        self.idle_known += more.idle_known;
        self.idle_log += more.idle_log;
        self.run_ns += more.run_ns;
        self.cycles += more.cycles;
        self.instructions += more.instructions;
    }

    /// The share that was put beside a busy sibling.
    pub fn busy_share(&self) -> Option<f64> {
        (self.siblings_known > 0).then(|| self.siblings_busy as f64 / self.siblings_known as f64)
    }

    /// The mean of the idle times' logarithms.
    pub fn idle_log_mean(&self) -> Option<f64> {
        (self.idle_known > 0).then(|| self.idle_log / self.idle_known as f64)
    }
}

impl Side {
    fn new(count: u64, most: u64) -> Self {
        Self {
            stride: count.div_ceil(most).max(1),
            ..Self::default()
        }
    }

    #[inline]
    fn note(&mut self, wakeup: &Wakeup, stratum: Option<u8>, value: u32) {
        self.beside.note(wakeup);
        if self.stride > 1 && !is_drawn(wakeup, self.stride) {
            return;
        }
        self.values.push(value);
        self.strata.extend(stratum);
    }

    fn join(&mut self, later: Side) {
        self.values.extend(later.values);
        self.strata.extend(later.strata);
        self.beside.add(&later.beside);
    }
}

/// Whether a wakeup is one of those that stand for so many: by its stamp alone, so that it does not matter by how many
/// processors the trace is read.
fn is_drawn(wakeup: &Wakeup, stride: u64) -> bool {
    let spread = (wakeup.waking_ns as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ spread >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20 & 0xffff_ffff
        < (1 << 32) / stride
}

/// A pair or a task, with both sides of its comparison.
#[derive(Debug, Clone)]
pub struct Group {
    /// Waker and wakee; the wakee twice for a task.
    pub key: (u32, u32),
    pub count: Count,
    pub crossing: Side,
    pub staying: Side,
}

/// All groups of a cost, and how many wakeups cannot be compared.
#[derive(Debug, Default)]
pub struct Groups {
    pub list: Vec<Group>,
    slots: FxHashMap<(u32, u32), usize>,
}

/// Whether both sides have enough.
pub fn comparable(count: &Count) -> bool {
    count.crossing.min(count.staying) >= LEAST_SAMPLES as u64
}

impl Groups {
    fn new(counts: impl Iterator<Item = ((u32, u32), Count)>) -> Self {
        let mut counts: Vec<_> = counts.filter(|(_, count)| comparable(count)).collect();
        counts.sort_unstable_by_key(|(key, _)| *key);
        let most = most_of_a_side(&counts);
        let list: Vec<Group> = counts
            .into_iter()
            .map(|(key, count)| Group {
                key,
                count,
                crossing: Side::new(count.crossing, most),
                staying: Side::new(count.staying, most),
            })
            .collect();
        let keys = list.iter().enumerate();
        Self {
            slots: keys.map(|(slot, group)| (group.key, slot)).collect(),
            list,
        }
    }

    pub fn get(&self, key: (u32, u32)) -> Option<&Group> {
        self.list.get(*self.slots.get(&key)?)
    }
}

/// How many samples of each side fit.
fn most_of_a_side(counts: &[((u32, u32), Count)]) -> u64 {
    let needed = |most: u64| {
        let sides = counts.iter();
        let sides = sides.map(|(_, count)| count.crossing.min(most) + count.staying.min(most));
        sides.sum::<u64>()
    };
    let mut most = MOST_OF_A_SIDE;
    while most > LEAST_OF_A_SIDE && needed(most) > MOST {
        most /= 2;
    }
    most
}

/// The samples of all three costs.
#[derive(Debug)]
pub struct Samples {
    pub transit: Groups,
    pub cold_cache: Groups,
    pub transfer: Groups,
}

/// What one processor has found of each cost's groups, in their order.
type Found = [Vec<(Side, Side)>; 3];

impl Samples {
    /// Collects what the counts say that can be compared.
    pub fn collect(scope: &Scope, counts: &Counts) -> PolarsResult<Self> {
        let pairs = counts.pairs.iter();
        let transit = Groups::new(pairs.map(|(key, of)| (*key, of.transit)));
        let twice = |(task, count)| ((task, task), count);
        let cold_cache = counts.of_tasks(|of| &of.cold_cache);
        let transfer = counts.of_tasks(|of| &of.transfer);
        let mut samples = Self {
            transit,
            cold_cache: Groups::new(cold_cache.into_iter().map(twice)),
            transfer: Groups::new(transfer.into_iter().map(twice)),
        };
        if samples.all().iter().all(|groups| groups.list.is_empty()) {
            return Ok(samples);
        }
        let start = || (samples.all().map(empty_sides), Scratch::default());
        let (found, _) = scope.wakeups().counted().fold(
            &COLUMNS,
            start,
            |(found, scratch), block| {
                each(scope, block, scratch, |wakeup| {
                    samples.note(found, wakeup, counts.by_cpi)
                })
            },
            |(found, _), (more, _)| {
                let sides = found.iter_mut().flatten().zip(more.into_iter().flatten());
                for (sides, more) in sides {
                    sides.0.join(more.0);
                    sides.1.join(more.1);
                }
            },
        )?;
        let [transit, cold_cache, transfer] = found;
        samples.transit.fill(transit);
        samples.cold_cache.fill(cold_cache);
        samples.transfer.fill(transfer);
        Ok(samples)
    }

    fn all(&self) -> [&Groups; 3] {
        [&self.transit, &self.cold_cache, &self.transfer]
    }

    fn note(&self, found: &mut Found, wakeup: &Wakeup, by_cpi: bool) {
        let task = (wakeup.wakee, wakeup.wakee);
        let pair = wakeup.waker.map_or(task, |waker| (waker, wakeup.wakee));
        let run = if by_cpi {
            wakeup.run_cpi()
        } else {
            wakeup.run()
        };
        let run = run.map(|value| (None, value));
        let transit = wakeup.transit().map(|(stratum, ns)| (Some(stratum), ns));
        let [of_transit, of_cold_cache, of_transfer] = found;
        for (cost, groups, key, sample, sides) in [
            (Cost::Transit, &self.transit, pair, transit, of_transit),
            (Cost::ColdCache, &self.cold_cache, task, run, of_cold_cache),
            (Cost::Transfer, &self.transfer, task, run, of_transfer),
        ] {
            let (Some(crosses), Some((stratum, value))) = (wakeup.crosses(cost), sample) else {
                continue;
            };
            let slot = groups.slots.get(&key);
            let Some((crossing, staying)) = slot.and_then(|slot| sides.get_mut(*slot)) else {
                continue;
            };
            let side = if crosses { crossing } else { staying };
            side.note(wakeup, stratum, value);
        }
    }
}

fn empty_sides(groups: &Groups) -> Vec<(Side, Side)> {
    let empty = |side: &Side| Side {
        stride: side.stride,
        ..Side::default()
    };
    let groups = groups.list.iter();
    groups
        .map(|group| (empty(&group.crossing), empty(&group.staying)))
        .collect()
}

impl Groups {
    fn fill(&mut self, sides: Vec<(Side, Side)>) {
        for (group, (crossing, staying)) in self.list.iter_mut().zip(sides) {
            (group.crossing, group.staying) = (crossing, staying);
        }
    }
}
