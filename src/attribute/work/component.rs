//! Tasks that wake each other: whose wakeups stand in for units where the user names none.
//!
//! Two tasks are tied if they woke each other at least twice, and at least a twentieth as often as either of them and the
//! task it has most to do with. A task that serves everyone now and then, such as a logger, so ties none of them
//! together. Interrupts, the idle task, kernel threads and the recorder's threads tie nothing: they serve all. A soft
//! interrupt is its task's own doing if that task raised it, as loopback networking does; where the trace does not tell,
//! it is taken to be, and the answer says so.

use std::collections::BTreeMap;

use polars::prelude::{PolarsResult, col};
use rustc_hash::FxHashMap;

use super::{Done, LOST, Span, lost_within, most_first};
use crate::attribute::answer::Known;
use crate::attribute::blocks::{Block, NO_NUMBER, NO_TIME};
use crate::attribute::scope::{Scope, members};
use crate::attribute::sets::Sets;
use crate::replay::words::Waker;
use crate::tables::Table;

/// Fewest wakeups that tie two tasks.
const LEAST: u64 = 2;
/// How many times as many the busiest of their other ties may have.
const WEAKEST: u64 = 20;

/// What the names of kernel threads begin with; the kernel gives them, but a program may take one.
const KERNEL_THREADS: [&str; 15] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "cpuhp/",
    "ktimers/",
    "irq_work/",
    "irq/",
    "napi/",
    "rcu",
    "kthreadd",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "jbd2/",
    "kauditd",
];

/// The wakeups of one task by another.
#[derive(Debug, Clone, Copy)]
struct Woken {
    wakeups: u64,
    /// Those in soft interrupts of which it is not known who raised them.
    unsure: u64,
    first_ns: i64,
    last_ns: i64,
}

/// By waker and wakee.
type Wakings = FxHashMap<(u32, u32), Woken>;

/// Tasks that wake each other.
#[derive(Debug, Default)]
struct Component {
    wakeups: u64,
    unsure: u64,
    /// Stamp and waker.
    first: Option<(i64, u32)>,
    last: Option<(i64, u32)>,
    by_waker: BTreeMap<u32, u64>,
    /// By task: wakeups made and received.
    part_in: BTreeMap<u32, u64>,
}

/// Counts the wakeups of the component with the most: the unit where the user names none.
pub fn count_wakeups(scope: &Scope) -> PolarsResult<Known<Done>> {
    let component = busiest(scope)?;
    let edges = component.first.zip(component.last);
    let Some(((start_ns, first), (end_ns, last))) = edges else {
        return Ok(Known::unknown(
            "no two tasks, kernel threads apart, woke each other twice in the window",
        ));
    };
    if start_ns >= end_ns {
        return Ok(Known::unknown("all wakeups of the window are at one time"));
    }
    let mut notes = Vec::new();
    if component.unsure > 0 {
        notes.push(format!(
            "{} of the wakeups were made in soft interrupts and are taken for the interrupted task's own; record irq:softirq_raise and irq:softirq_entry to know.",
            component.unsure
        ));
    }
    if lost_within(scope, (start_ns, end_ns))? {
        notes.push(LOST.to_owned());
    }
    let members = component.members();
    // As with marks, the first one ends no unit.
    let mut by_waker = component.by_waker;
    by_waker.entry(first).and_modify(|made| *made -= 1);
    Ok(Known::Value(Done {
        units: component.wakeups.saturating_sub(1),
        span: Span {
            start_ns,
            end_ns,
            last_task: Some(last),
        },
        counted: (start_ns, end_ns),
        by_task: most_first(by_waker),
        members,
        missed_at_most: 0,
        notes,
    }))
}

/// So many units in the window, as the workload says itself. Last was active whoever of the busiest component was.
pub fn of_total(scope: &Scope, units: u64) -> PolarsResult<Known<Done>> {
    let window = scope.facts.config.window;
    if window.from_ns >= window.to_ns {
        return Ok(Known::unknown("the window has no duration"));
    }
    let members = busiest(scope)?.members();
    let until = match window.closed {
        true => window.to_ns,
        false => window.to_ns.saturating_sub(1),
    };
    Ok(Known::Value(Done {
        units,
        span: Span {
            start_ns: window.from_ns,
            end_ns: window.to_ns,
            last_task: ran_last(scope, &members, window.to_ns)?,
        },
        counted: (window.from_ns.saturating_sub(1), until),
        by_task: Vec::new(),
        members,
        missed_at_most: 0,
        notes: Vec::new(),
    }))
}

/// The task among these that ran last before a stamp.
fn ran_last(scope: &Scope, of: &[u32], until: i64) -> PolarsResult<Option<u32>> {
    let mut last = None;
    let (mut tasks, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let slices = scope.every(Table::Slices).of_tasks("task", members(of));
    slices.in_order(&["task", "start_ns", "end_ns"], |block| {
        let slices = block.numbers("task", &mut tasks)?.iter();
        let slices = slices.zip(block.times("start_ns", &mut starts)?);
        for ((task, start), end) in slices.zip(block.times("end_ns", &mut ends)?) {
            if *start < until {
                last = last.max(Some(((*end).min(until), *start, *task)));
            }
        }
        Ok(())
    })?;
    Ok(last.map(|(_, _, task)| task))
}

/// The component with the most wakeups; of equals the one with the lowest task number. Without wakeups if there is none.
fn busiest(scope: &Scope) -> PolarsResult<Component> {
    let wakings = wakings(scope)?;
    let mut sets = Sets::default();
    tie(&wakings, &mut sets);
    let mut components: BTreeMap<u32, Component> = BTreeMap::new();
    for ((waker, wakee), woken) in &wakings {
        let set = sets.of(*waker).filter(|set| sets.of(*wakee) == Some(*set));
        if let Some(set) = set {
            components
                .entry(set)
                .or_default()
                .add(*waker, *wakee, woken);
        }
    }
    // Each set goes by its lowest task number, so the first of equals is the one wanted.
    let mut busiest = Component::default();
    for component in components.into_values() {
        if component.wakeups > busiest.wakeups {
            busiest = component;
        }
    }
    Ok(busiest)
}

/// Ties the tasks that woke each other often enough.
fn tie(wakings: &Wakings, sets: &mut Sets) {
    let mut both_ways: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for ((waker, wakee), woken) in wakings {
        if waker != wakee {
            let pair = (*waker.min(wakee), *waker.max(wakee));
            *both_ways.entry(pair).or_default() += woken.wakeups;
        }
    }
    let mut most: FxHashMap<u32, u64> = FxHashMap::default();
    for ((a, b), wakeups) in &both_ways {
        for task in [a, b] {
            let most = most.entry(*task).or_default();
            *most = *wakeups.max(most);
        }
    }
    for ((a, b), wakeups) in &both_ways {
        let strong = |task: &u32| {
            let most = most.get(task).copied().unwrap_or(0);
            wakeups.saturating_mul(WEAKEST) >= most
        };
        if *wakeups >= LEAST && strong(a) && strong(b) {
            sets.unite(*a, *b);
        }
    }
}

impl Component {
    fn add(&mut self, waker: u32, wakee: u32, woken: &Woken) {
        self.wakeups += woken.wakeups;
        self.unsure += woken.unsure;
        *self.by_waker.entry(waker).or_default() += woken.wakeups;
        for task in [waker, wakee] {
            *self.part_in.entry(task).or_default() += woken.wakeups;
        }
        let first = (woken.first_ns, waker);
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        self.last = self.last.max(Some((woken.last_ns, waker)));
    }

    /// Its tasks, those that have to do with the most wakeups first.
    fn members(&self) -> Vec<u32> {
        let parts = self.part_in.iter().map(|(task, n)| (*task, *n));
        most_first(parts)
            .into_iter()
            .map(|(task, _)| task)
            .collect()
    }
}

/// Where the columns of wakeups are read to.
#[derive(Default)]
struct Scratch {
    tasks: [Vec<u32>; 2],
    contexts: Vec<u8>,
    stamps: [Vec<i64>; 2],
}

/// The wakeups in the window by which a task woke a task, by pair.
fn wakings(scope: &Scope) -> PolarsResult<Wakings> {
    let (mut wakings, _) = scope.every_wakeup().counted().fold(
        &["waker", "wakee", "context", "waking_ns", "wakeup_ns"],
        <(Wakings, Scratch)>::default,
        |(wakings, scratch), block| take(wakings, block, scratch),
        |(wakings, _), (more, _)| {
            for (pair, more) in more {
                wakings
                    .entry(pair)
                    .and_modify(|woken| woken.join(&more))
                    .or_insert(more);
            }
        },
    )?;
    let kernel = kernel_threads(scope)?;
    let ties = |task: &u32| !scope.leaves_out(*task) && kernel.binary_search(task).is_err();
    wakings.retain(|(waker, wakee), _| ties(waker) && ties(wakee));
    Ok(wakings)
}

fn take(wakings: &mut Wakings, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
    let [wakers, wakees] = &mut scratch.tasks;
    let [wakings_ns, wakeups_ns] = &mut scratch.stamps;
    let by_task = [Waker::Task, Waker::SoftirqInline, Waker::SoftirqUnknown].map(Waker::code);
    let rows = block.numbers("waker", wakers)?.iter();
    let rows = rows.zip(block.numbers("wakee", wakees)?);
    let rows = rows.zip(block.codes("context", &mut scratch.contexts)?);
    let rows = rows.zip(block.times("waking_ns", wakings_ns)?);
    for ((((waker, wakee), context), waking), wakeup) in
        rows.zip(block.times("wakeup_ns", wakeups_ns)?)
    {
        let ts = if *waking == NO_TIME { *wakeup } else { *waking };
        if *waker == NO_NUMBER || ts == NO_TIME || !by_task.contains(context) {
            continue;
        }
        let one = Woken {
            wakeups: 1,
            unsure: u64::from(*context == Waker::SoftirqUnknown.code()),
            first_ns: ts,
            last_ns: ts,
        };
        wakings
            .entry((*waker, *wakee))
            .and_modify(|woken| woken.join(&one))
            .or_insert(one);
    }
    Ok(())
}

impl Woken {
    fn join(&mut self, more: &Woken) {
        self.wakeups += more.wakeups;
        self.unsure += more.unsure;
        self.first_ns = self.first_ns.min(more.first_ns);
        self.last_ns = self.last_ns.max(more.last_ns);
    }
}

/// The tasks whose names are those of kernel threads, ascending.
fn kernel_threads(scope: &Scope) -> PolarsResult<Vec<u32>> {
    let tasks = scope.every_task()?.select([col("task"), col("name")]);
    let tasks = tasks.collect()?;
    let numbers = tasks.column("task")?.u32()?.iter();
    let named = numbers.zip(tasks.column("name")?.str()?.iter());
    let is_kernel = |name: &str| KERNEL_THREADS.iter().any(|start| name.starts_with(start));
    let kernel = named.filter(|(_, name)| name.is_some_and(is_kernel));
    let mut kernel: Vec<u32> = kernel.filter_map(|(task, _)| task).collect();
    kernel.sort_unstable();
    Ok(kernel)
}
