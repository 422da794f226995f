//! From tables to a stretch of time in memory: what each task did, what each CPU ran, and what interrupted it.

use polars::prelude::*;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::super::blocks::{Block, NO_NUMBER, NO_TIME, blocks};
use super::super::scope::Scope;
use super::cpus::{Cpus, Ran};
use super::history::{Crossing, History, NO_CPU, Road, Stretch, What};
use super::segments::{Batch, Segment, TLB_ASKED, TLB_WAIT};
use super::spans::CpuSpans;
use crate::replay::words::{Class, Left, Pair};
use crate::tables::Table;
use crate::topology::Topology;

/// What a segment's rows say.
pub struct Loaded {
    pub from_ns: i64,
    pub to_ns: i64,
    /// Whether no earlier segment follows.
    pub first: bool,
    pub history: History,
    pub cpus: Cpus,
}

/// The rows that reach into an interval, ends included.
#[derive(Debug, Clone, Copy)]
struct Reach {
    from_ns: i64,
    to_ns: i64,
    /// Whether the last that is known of each task before the interval is kept too.
    with_earlier: bool,
    /// Where counting begins: the lengths of waits that no switch-in ended are known from here on.
    counted_from_ns: i64,
}

/// What some batches say.
#[derive(Default)]
struct Part {
    stretches: Vec<Stretch>,
    runs: Vec<Ran>,
    interrupts: Vec<(u32, i64, i64)>,
    tlb_waits: Vec<(u32, i64, i64)>,
    /// The last that is known of each task before the interval.
    earlier: FxHashMap<u32, Stretch>,
    scratch: Scratch,
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    times: [Vec<i64>; 3],
    numbers: [Vec<u32>; 5],
    codes: [Vec<u8>; 6],
}

/// Reads the rows of a segment, on all processors.
pub fn load(scope: &Scope, segment: &Segment, tasks: usize) -> PolarsResult<Loaded> {
    let reach = Reach {
        from_ns: segment.from_ns,
        to_ns: segment.to_ns,
        with_earlier: segment.first,
        counted_from_ns: scope.facts.config.window.from_ns,
    };
    let each = segment.batches.len().div_ceil(rayon::current_num_threads());
    let parts: PolarsResult<Vec<Part>> = segment
        .batches
        .par_chunks(each.max(1))
        .map(|batches| read(scope, batches, reach))
        .collect();
    Ok(join(parts?, segment, tasks))
}

fn join(parts: Vec<Part>, segment: &Segment, tasks: usize) -> Loaded {
    let mut earlier: FxHashMap<u32, Stretch> = FxHashMap::default();
    let (mut stretches, mut runs) = (Vec::new(), Vec::new());
    let (mut interrupts, mut tlb_waits) = (Vec::new(), Vec::new());
    for part in parts {
        for stretch in part.earlier.into_values() {
            keep_later(&mut earlier, stretch);
        }
        stretches.push(part.stretches);
        runs.push(part.runs);
        interrupts.extend(part.interrupts);
        tlb_waits.extend(part.tlb_waits);
    }
    stretches.push(earlier.into_values().collect());
    Loaded {
        from_ns: segment.from_ns,
        to_ns: segment.to_ns,
        first: segment.first,
        history: History::new(stretches, tasks),
        cpus: Cpus::new(
            runs,
            CpuSpans::nested(&interrupts),
            CpuSpans::new(&tlb_waits),
        ),
    }
}

fn read(scope: &Scope, batches: &[Batch], reach: Reach) -> PolarsResult<Part> {
    let mut part = Part::default();
    for batch in batches {
        let columns: &[&str] = match batch.table {
            Table::Wakeups => &WAKEUPS,
            Table::Waits => &WAITS,
            Table::Slices => &SLICES,
            Table::Ipis => &INTERRUPTS,
            _ => &TLB_WAITS,
        };
        let rows = scope
            .tables()
            .columns(batch.table, batch.number, columns, None)?;
        for block in blocks(&rows) {
            match batch.table {
                Table::Wakeups => part.wakeups(&block, reach, scope.facts.topology())?,
                Table::Waits => part.waits(&block, reach)?,
                Table::Slices => part.slices(&block, reach)?,
                Table::Ipis => part.interrupts(&block, reach)?,
                _ => part.tlb_waits(&block, reach)?,
            }
        }
    }
    Ok(part)
}

const WAKEUPS: [&str; 13] = [
    "waking_ns",
    "wakeup_ns",
    "switch_in_ns",
    "waker",
    "wakee",
    "waker_cpu",
    "prev_cpu",
    "chosen_cpu",
    "class",
    "path",
    "waker_chosen",
    "context",
    "cross_llc",
];
const WAITS: [&str; 8] = [
    "task",
    "start_ns",
    "end_ns",
    "wait_ns",
    "last_cpu",
    "origin",
    "verdict_seen",
    "verdict_any",
];
const SLICES: [&str; 5] = ["task", "cpu", "start_ns", "end_ns", "left_as"];
const INTERRUPTS: [&str; 3] = ["entry_ns", "target_cpu", "handler_ns"];
const TLB_WAITS: [&str; 3] = [TLB_ASKED, "cpu", TLB_WAIT];

impl Reach {
    fn holds(&self, start_ns: i64, end_ns: i64) -> bool {
        end_ns >= self.from_ns && start_ns <= self.to_ns
    }

    /// Whether all of these rows end before it, or all begin after it. Batches reach beyond a segment: of most of their
    /// blocks outside only stamps are read. What has no end may have any.
    fn misses(&self, starts: &[i64], ends: &[i64]) -> bool {
        let late = || starts.iter().all(|start| *start > self.to_ns);
        let ends_early = |end: &i64| *end < self.from_ns && *end != NO_TIME;
        let early = || starts.iter().all(|start| *start < self.from_ns);
        late() || (ends.iter().all(ends_early) && early())
    }
}

impl Part {
    fn wakeups(&mut self, block: &Block, reach: Reach, topology: &Topology) -> PolarsResult<()> {
        let [wakings, wakeups, switch_ins] = &mut self.scratch.times;
        let [wakers, wakees, waker_cpus, prev_cpus, chosen_cpus] = &mut self.scratch.numbers;
        let [classes, paths, distances, contexts, crossing, _] = &mut self.scratch.codes;
        let wakings = block.times("waking_ns", wakings)?;
        let wakeups = block.times("wakeup_ns", wakeups)?;
        let switch_ins = block.times("switch_in_ns", switch_ins)?;
        if reach.misses(wakings, switch_ins) && reach.misses(wakings, wakeups) {
            return Ok(());
        }
        let tasks = block.numbers("waker", wakers)?.iter();
        let tasks = tasks.zip(block.numbers("wakee", wakees)?);
        let cpus = block.numbers("waker_cpu", waker_cpus)?.iter();
        let cpus = cpus.zip(block.numbers("prev_cpu", prev_cpus)?);
        let cpus = cpus.zip(block.numbers("chosen_cpu", chosen_cpus)?);
        let tasks = tasks.zip(cpus);
        let kinds = block.codes("class", classes)?.iter();
        let kinds = kinds.zip(block.codes("context", contexts)?);
        let roads = block.codes("path", paths)?.iter();
        let roads = roads.zip(block.codes("waker_chosen", distances)?);
        let roads = roads.zip(block.codes("cross_llc", crossing)?);
        let stamps = wakings.iter().zip(wakeups).zip(switch_ins);
        for (((stamps, tasks), kinds), roads) in stamps.zip(tasks).zip(kinds).zip(roads) {
            let ((&waking, &wakeup), &switch_in) = stamps;
            let ((&waker, &wakee), ((&waker_cpu, &prev_cpu), &chosen_cpu)) = tasks;
            let (&class, &context) = kinds;
            let ((&path, &distance), &crosses) = roads;
            // The wakee had not left its runqueue: that it was woken changed nothing.
            if class == Class::SelfWake.code() || class == Class::FastPath.code() {
                continue;
            }
            let enqueued = wakeup != NO_TIME;
            let start_ns = if waking == NO_TIME { wakeup } else { waking };
            let end_ns = if enqueued { wakeup } else { start_ns };
            // Up to the switch-in, so that its wait is never without it.
            if start_ns == NO_TIME || !reach.holds(start_ns, end_ns.max(switch_in)) {
                continue;
            }
            self.stretches.push(Stretch {
                start_ns,
                end_ns: end_ns.max(start_ns),
                task: wakee,
                cpu: cpu(prev_cpu),
                what: What::Wake {
                    waker,
                    road: Road::new(path, distance),
                    context,
                    crossing: Crossing::new(
                        Some(crosses == 1).filter(|_| waker_cpu != NO_NUMBER && crosses <= 1),
                        crosses_llc(topology, prev_cpu, chosen_cpu),
                    ),
                    enqueued,
                },
            });
        }
        Ok(())
    }

    fn waits(&mut self, block: &Block, reach: Reach) -> PolarsResult<()> {
        let [starts, ends, waits] = &mut self.scratch.times;
        let [tasks, cpus, ..] = &mut self.scratch.numbers;
        let [origins, seen, any, ..] = &mut self.scratch.codes;
        let starts = block.times("start_ns", starts)?;
        let ends = block.times("end_ns", ends)?;
        if !reach.with_earlier && reach.misses(starts, ends) {
            return Ok(());
        }
        let stamps = starts.iter().zip(ends);
        let stamps = stamps.zip(block.times("wait_ns", waits)?);
        let tasks = block.numbers("task", tasks)?.iter();
        let tasks = tasks.zip(block.numbers("last_cpu", cpus)?);
        let kinds = block.codes("origin", origins)?.iter();
        let kinds = kinds.zip(block.codes("verdict_seen", seen)?);
        let kinds = kinds.zip(block.codes("verdict_any", any)?);
        for ((stamps, (&task, &on)), kinds) in stamps.zip(tasks).zip(kinds) {
            let ((&start_ns, &end), &counted_ns) = stamps;
            let ((&origin, &seen), &any) = kinds;
            let ended = end != NO_TIME;
            let end_ns = match ended {
                true => end,
                false => start_ns
                    .max(reach.counted_from_ns)
                    .saturating_add(counted_ns),
            };
            let stretch = Stretch {
                start_ns,
                end_ns: end_ns.max(start_ns),
                task,
                cpu: cpu(on),
                what: What::Wait {
                    origin,
                    verdict: Pair([seen, any]),
                    ended,
                },
            };
            keep(&mut self.stretches, &mut self.earlier, stretch, reach);
        }
        Ok(())
    }

    fn slices(&mut self, block: &Block, reach: Reach) -> PolarsResult<()> {
        let [starts, ends, _] = &mut self.scratch.times;
        let [tasks, cpus, ..] = &mut self.scratch.numbers;
        let [states, ..] = &mut self.scratch.codes;
        let starts = block.times("start_ns", starts)?;
        let ends = block.times("end_ns", ends)?;
        if !reach.with_earlier && reach.misses(starts, ends) {
            return Ok(());
        }
        let stamps = starts.iter().zip(ends);
        let tasks = block.numbers("task", tasks)?.iter();
        let tasks = tasks.zip(block.numbers("cpu", cpus)?);
        let states = block.codes("left_as", states)?;
        for (((&start_ns, &end_ns), (&task, &on)), &state) in stamps.zip(tasks).zip(states) {
            let stretch = Stretch {
                start_ns,
                end_ns: end_ns.max(start_ns),
                task,
                cpu: cpu(on),
                what: What::Run { left: left(state) },
            };
            if keep(&mut self.stretches, &mut self.earlier, stretch, reach) {
                self.runs.push(Ran {
                    start_ns,
                    end_ns: stretch.end_ns,
                    task,
                    cpu: stretch.cpu,
                });
            }
        }
        Ok(())
    }

    /// Handlers of interrupts that other CPUs sent.
    fn interrupts(&mut self, block: &Block, reach: Reach) -> PolarsResult<()> {
        let [stamp, cpu, length] = INTERRUPTS;
        let [stamps, lengths, _] = &mut self.scratch.times;
        let [cpus, ..] = &mut self.scratch.numbers;
        let stamps = block.times(stamp, stamps)?;
        let lengths = block.times(length, lengths)?;
        let cpus = block.numbers(cpu, cpus)?;
        self.interrupts
            .extend(lasting(stamps, lengths, cpus, reach));
        Ok(())
    }

    /// Waits of CPUs that had asked others to flush.
    fn tlb_waits(&mut self, block: &Block, reach: Reach) -> PolarsResult<()> {
        let [stamp, cpu, length] = TLB_WAITS;
        let [stamps, lengths, _] = &mut self.scratch.times;
        let [cpus, ..] = &mut self.scratch.numbers;
        let stamps = block.times(stamp, stamps)?;
        let lengths = block.times(length, lengths)?;
        let cpus = block.numbers(cpu, cpus)?;
        self.tlb_waits.extend(lasting(stamps, lengths, cpus, reach));
        Ok(())
    }
}

/// The intervals that reach into another one, of rows that have a length.
fn lasting(
    stamps: &[i64],
    lengths_ns: &[i64],
    cpus: &[u32],
    reach: Reach,
) -> impl Iterator<Item = (u32, i64, i64)> {
    let rows = stamps.iter().zip(lengths_ns).zip(cpus);
    rows.filter_map(move |((&start_ns, &ns), &cpu)| {
        let end_ns = start_ns.saturating_add(ns.max(0));
        let holds = ns != NO_TIME && cpu != NO_NUMBER && reach.holds(start_ns, end_ns);
        holds.then_some((cpu, start_ns, end_ns))
    })
}

/// Keeps what reaches into the interval; true if it does.
fn keep(
    stretches: &mut Vec<Stretch>,
    earlier: &mut FxHashMap<u32, Stretch>,
    stretch: Stretch,
    reach: Reach,
) -> bool {
    let holds = reach.holds(stretch.start_ns, stretch.end_ns);
    if holds {
        stretches.push(stretch);
    } else if reach.with_earlier && stretch.end_ns < reach.from_ns {
        keep_later(earlier, stretch);
    }
    holds
}

fn keep_later(of: &mut FxHashMap<u32, Stretch>, stretch: Stretch) {
    let kept = of.entry(stretch.task).or_insert(stretch);
    if (kept.end_ns, kept.start_ns) < (stretch.end_ns, stretch.start_ns) {
        *kept = stretch;
    }
}

fn crosses_llc(topology: &Topology, from_cpu: u32, to_cpu: u32) -> Option<bool> {
    let known = from_cpu != NO_NUMBER && to_cpu != NO_NUMBER;
    known.then(|| topology.crosses_llc(from_cpu, to_cpu))?
}

fn cpu(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(NO_CPU)
}

/// By its code; null where the trace ended, or events are missing.
fn left(code: u8) -> Left {
    let known = Left::ALL.get(usize::from(code)).copied();
    known.unwrap_or(Left::Unknown)
}
