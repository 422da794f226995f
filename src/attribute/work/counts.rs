//! What the machine did in a span beside its units: wakeups, context switches, interrupts sent.

use polars::prelude::PolarsResult;

use crate::attribute::answer::Known;
use crate::attribute::blocks::NO_TIME;
use crate::attribute::scope::Scope;
use crate::replay::words::IpiRoad;
use crate::tables::Table;

/// Counts of the whole machine.
pub struct Events {
    pub wakeups: Known<u64>,
    /// `sched_switch`, those to and from the idle task too.
    pub switches: Known<u64>,
    /// Interrupts sent to other CPUs, one for each target.
    pub ipis: Known<u64>,
}

/// The events that tell of interrupts as they are sent.
const SENDS: [&str; 3] = ["ipi_send_cpu", "ipi_send_cpumask", "ipi_raise"];

/// Counts what lies behind `after`, and not behind `until`.
pub fn count(scope: &Scope, (after, until): (i64, i64)) -> PolarsResult<Events> {
    let within = |ts: i64| after < ts && ts <= until;
    let lacks = |names: &[&str]| {
        let found = |name: &&str| scope.facts.recorded(name).unwrap_or(0) > 0;
        let none = !names.iter().any(found);
        none.then(|| format!("the trace holds no {}", names.join(", ")))
    };
    let known = |names: &[&str], count: &dyn Fn() -> PolarsResult<u64>| match lacks(names) {
        Some(why) => Ok(Known::unknown(why)),
        None => count().map(Known::Value),
    };
    Ok(Events {
        wakeups: known(&["sched_waking", "sched_wakeup"], &|| {
            wakeups(scope, &within)
        })?,
        switches: known(&["sched_switch"], &|| switches(scope, &within))?,
        ipis: known(&SENDS, &|| ipis(scope, &within))?,
    })
}

/// A wakeup is where its waking is; without that, where its enqueue is.
fn wakeups(scope: &Scope, within: &(dyn Fn(i64) -> bool + Sync)) -> PolarsResult<u64> {
    let (count, _) = scope.every_wakeup().fold(
        &["waking_ns", "wakeup_ns"],
        <(u64, [Vec<i64>; 2])>::default,
        |(count, [wakings, wakeups]), block| {
            let stamps = block.times("waking_ns", wakings)?.iter();
            let stamps = stamps.zip(block.times("wakeup_ns", wakeups)?);
            for (waking, wakeup) in stamps {
                let ts = if *waking == NO_TIME { wakeup } else { waking };
                *count += u64::from(within(*ts));
            }
            Ok(())
        },
        |(count, _), (more, _)| *count += more,
    )?;
    Ok(count)
}

/// The switches of one CPU, as its slices show them. They are in order.
#[derive(Debug, Clone, Default)]
struct Cpu {
    /// Where the first slice starts, and where the last one ends.
    edges: Option<(i64, i64)>,
    switches: u64,
}

impl Cpu {
    /// A switch from one task to the next ends a slice and starts another: it counts once.
    fn slice(&mut self, (start, end): (i64, i64), starts: bool, ends: bool) {
        let follows = self.edges.is_some_and(|(_, last)| last == start);
        self.switches += u64::from(starts && !follows) + u64::from(ends);
        let first = self.edges.map_or(start, |(first, _)| first);
        self.edges = Some((first, end));
    }

    fn join(&mut self, later: &Cpu, within: &(dyn Fn(i64) -> bool + Sync)) {
        self.switches += later.switches;
        match (&mut self.edges, later.edges) {
            (Some((_, last)), Some((first, end))) => {
                self.switches -= u64::from(*last == first && within(first));
                *last = end;
            }
            (edges, later) => *edges = edges.or(later),
        }
    }
}

/// Where the columns of slices are read to: CPUs, stamps, whether an end is unseen.
type SliceScratch = (Vec<u32>, [Vec<i64>; 2], Vec<u8>);

fn switches(scope: &Scope, within: &(dyn Fn(i64) -> bool + Sync)) -> PolarsResult<u64> {
    let seen_since = seen_since(scope);
    // The task that a CPU's first event found there was not switched in then.
    let starts_at = |cpu: u32, ts: i64| {
        let since = seen_since.get(cpu as usize).copied().unwrap_or(i64::MIN);
        within(ts) && ts > since
    };
    let (cpus, _) = scope.every(Table::Slices).fold(
        &["cpu", "start_ns", "end_ns", "left_as"],
        <(Vec<Cpu>, SliceScratch)>::default,
        |(cpus, (numbers, [starts, ends], unseen)), block| {
            let slices = block.numbers("cpu", numbers)?.iter();
            let slices = slices.zip(block.times("start_ns", starts)?);
            let slices = slices.zip(block.times("end_ns", ends)?);
            // A slice that ends with the trace, or at a gap, ends with no switch.
            for (((cpu, start), end), unseen) in slices.zip(block.nulls("left_as", unseen)?) {
                let slot = *cpu as usize;
                if cpus.len() <= slot {
                    cpus.resize(slot + 1, Cpu::default());
                }
                if let Some(cpu) = cpus.get_mut(slot) {
                    cpu.slice(
                        (*start, *end),
                        starts_at(slot as u32, *start),
                        within(*end) && *unseen == 0,
                    );
                }
            }
            Ok(())
        },
        |(cpus, _), (more, _)| {
            if cpus.len() < more.len() {
                cpus.resize(more.len(), Cpu::default());
            }
            let pairs = cpus.iter_mut().zip(&more);
            pairs.for_each(|(cpu, more)| cpu.join(more, within));
        },
    )?;
    Ok(cpus.iter().map(|cpu| cpu.switches).sum())
}

/// By CPU: its first event, if it found a task running.
fn seen_since(scope: &Scope) -> Vec<i64> {
    let mut since = Vec::new();
    for cpu in scope
        .facts
        .survey
        .cpus
        .iter()
        .filter(|cpu| cpu.first_pid != 0)
    {
        let slot = cpu.cpu as usize;
        if since.len() <= slot {
            since.resize(slot + 1, i64::MIN);
        }
        if let Some(since) = since.get_mut(slot) {
            *since = cpu.first_ns;
        }
    }
    since
}

/// Interrupts, each to each CPU. A poll and a queueing may do without one, and are rows of their own.
fn ipis(scope: &Scope, within: &(dyn Fn(i64) -> bool + Sync)) -> PolarsResult<u64> {
    let (count, _) = scope.every(Table::Ipis).fold(
        &["ts_ns", "road"],
        <(u64, (Vec<i64>, Vec<u8>))>::default,
        |(count, (stamps, roads)), block| {
            let sends = block.times("ts_ns", stamps)?.iter();
            let sends = sends.zip(block.codes("road", roads)?);
            let sent =
                sends.filter(|(ts, road)| within(**ts) && **road == IpiRoad::Interrupt.code());
            *count += sent.count() as u64;
            Ok(())
        },
        |(count, _), (more, _)| *count += more,
    )?;
    Ok(count)
}
