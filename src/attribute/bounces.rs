//! Tasks pulled from one LLC to another and back, by whom, and what it cost (`analysis` §5).
//!
//! A table's rows of one task are in the order of its moves, so each run of batches finds the bounces within it, and
//! keeps each task's first and last change of LLC: where runs are joined, those two may make a bounce.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{Bounce, Bounces, BouncingTask, Known, Pull, Puller};
use super::blocks::{Block, NO_NUMBER};
use super::durations::Durations;
use super::migrations::of_causes;
use super::scope::Scope;
use super::wakeups::known;
use crate::replay::words::{MigrationCause, Pair, Reading, Waker};

/// How soon a return makes a bounce: 10 ms. Wakeups pull a task back within its next few runs, and balancers within a
/// few ticks; what comes later is a move of its own.
const WITHIN_NS: i64 = 10_000_000;

/// Bounces shown of one task, and pullers named.
const EXAMPLES: usize = 3;
const PULLERS: usize = 3;

const CAUSES: usize = MigrationCause::ALL.len();

/// One change of LLC.
#[derive(Debug, Clone, Copy)]
struct Crossing {
    ts_ns: i64,
    from_cpu: u32,
    to_cpu: u32,
    from_llc: u32,
    to_llc: u32,
    cause: u8,
    /// The task that ran where it was moved; [`NO_NUMBER`] if it was not that task which moved it.
    by: u32,
    idle_left: Pair<u32>,
    lost_ns: Pair<i64>,
    in_window: bool,
    /// What was lost after it is in a bounce's sum already.
    charged: bool,
}

/// A task's changes of LLC in a run of batches.
#[derive(Debug, Clone, Default)]
struct Chain {
    first: Option<Crossing>,
    last: Option<Crossing>,
    /// There was one change only: `first` and `last` are the same.
    single: bool,
    sums: Sums,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    bounces: u64,
    left_idle: Pair<u64>,
    lost_ns: Pair<i64>,
}

#[derive(Debug, Default)]
struct Found {
    chains: FxHashMap<u32, Chain>,
    /// By the causes of both ways.
    pullers: Vec<u64>,
    later: u64,
    away: Durations,
    /// What is told of the tasks that are asked for.
    told: FxHashMap<u32, Told>,
}

/// What is told of one task's bounces, bounded by the number of tasks that pull.
#[derive(Debug, Default)]
struct Told {
    /// The first ones: the way out and the way back.
    examples: Vec<[Crossing; 2]>,
    /// By cause and task.
    pulls: FxHashMap<(u8, u32), u64>,
}

impl Told {
    fn take(&mut self, out: Crossing, back: Crossing) {
        for way in [out, back] {
            *self.pulls.entry((way.cause, way.by)).or_default() += 1;
        }
        if self.examples.len() < EXAMPLES {
            self.examples.push([out, back]);
        }
    }

    fn join(&mut self, more: Self) {
        self.examples.extend(more.examples);
        self.examples.sort_by_key(|[out, _]| out.ts_ns);
        self.examples.truncate(EXAMPLES);
        for (who, pulls) in more.pulls {
            *self.pulls.entry(who).or_default() += pulls;
        }
    }
}

/// What is looked for.
struct Search<'a> {
    scope: &'a Scope<'a>,
    /// By CPU.
    llcs: Vec<u32>,
    /// The tasks whose bounces are told one by one.
    tasks: &'a [u32],
}

const COLUMNS: [&str; 12] = [
    "task",
    "ts_ns",
    "from_cpu",
    "to_cpu",
    "cause",
    "by_task",
    "context",
    "idle_left_seen",
    "idle_left_any",
    "lost_seen_ns",
    "lost_any_ns",
    "in_window",
];

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    numbers: [Vec<u32>; 6],
    times: [Vec<i64>; 3],
    codes: [Vec<u8>; 3],
}

/// The bounces that count.
///
/// # Errors
/// Tables that cannot be read back.
pub fn bounces(scope: &Scope) -> PolarsResult<Known<Bounces>> {
    if scope.facts.recorded("sched_migrate_task").is_none() {
        return Ok(Known::unknown("sched_migrate_task is not recorded"));
    }
    if let Some(reason) = scope.facts.crossing_unknown() {
        return Ok(Known::unknown(reason));
    }
    let found = search(scope, &[])?;
    let mut tasks: Vec<(u32, Sums)> = found
        .chains
        .iter()
        .map(|(task, chain)| (*task, chain.sums))
        .filter(|(_, sums)| sums.bounces > 0)
        .collect();
    let ranking = scope.ranking();
    tasks.sort_unstable_by_key(|(task, sums)| {
        let worst = (sums.lost_ns[ranking], sums.bounces);
        (std::cmp::Reverse(worst), *task)
    });
    let mut all = Sums::default();
    found.chains.values().for_each(|chain| all.add(&chain.sums));
    let count = |out: MigrationCause, back: MigrationCause| {
        let at = usize::from(out.code()) * CAUSES + usize::from(back.code());
        found.pullers.get(at).copied().unwrap_or(0)
    };
    Ok(Known::Value(Bounces {
        within_ns: WITHIN_NS,
        count: all.bounces,
        later: found.later,
        tasks: tasks.len() as u64,
        away_ns: known(found.away.quantiles(), || {
            "no task was pulled to another LLC and back so soon".to_owned()
        }),
        by_pullers: of_causes(|out| of_causes(|back| count(out, back))),
        left_idle: scope.readings(|reading| all.left_idle[reading]),
        lost_ns: scope.readings(|reading| all.lost_ns[reading]),
        worst: worst(scope, &tasks)?,
    }))
}

/// The worst tasks, with what pulled them.
fn worst(scope: &Scope, tasks: &[(u32, Sums)]) -> PolarsResult<Vec<BouncingTask>> {
    let tasks = tasks.get(..scope.top.min(tasks.len())).unwrap_or_default();
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<u32> = tasks.iter().map(|(task, _)| *task).collect();
    let mut told = search(scope, &ids)?.told;
    let names = Names::read(scope)?;
    let of_task = |(task, sums): &(u32, Sums)| {
        let own = told.remove(task).unwrap_or_default();
        let (name, pid) = names.of(*task);
        BouncingTask {
            name: name.to_owned(),
            pid,
            bounces: sums.bounces,
            left_idle: scope.readings(|reading| sums.left_idle[reading]),
            lost_ns: scope.readings(|reading| sums.lost_ns[reading]),
            pulled_by: pullers(&names, own.pulls),
            examples: own
                .examples
                .iter()
                .map(|[out, back]| Bounce {
                    out_ns: out.ts_ns,
                    back_ns: back.ts_ns,
                    from_cpu: out.from_cpu,
                    to_cpu: out.to_cpu,
                    back_cpu: back.to_cpu,
                    out: pull(scope, &names, out),
                    back: pull(scope, &names, back),
                })
                .collect(),
        }
    };
    Ok(tasks.iter().map(of_task).collect())
}

/// Who pulled most, either way.
fn pullers(names: &Names, pulls: FxHashMap<(u8, u32), u64>) -> Vec<Puller> {
    let mut counts: Vec<_> = pulls.into_iter().collect();
    counts.sort_unstable_by_key(|(who, pulls)| (std::cmp::Reverse(*pulls), *who));
    counts.truncate(PULLERS);
    let puller = |((cause, by), pulls): ((u8, u32), u64)| {
        let (by, by_pid) = names.puller(by);
        Puller {
            cause: cause_word(cause),
            by,
            by_pid,
            pulls,
        }
    };
    counts.into_iter().map(puller).collect()
}

fn pull(scope: &Scope, names: &Names, crossing: &Crossing) -> Pull {
    let (by, by_pid) = names.puller(crossing.by);
    Pull {
        cause: cause_word(crossing.cause),
        by,
        by_pid,
        idle_left: scope.readings(|reading| crossing.idle_left[reading]),
    }
}

fn cause_word(code: u8) -> &'static str {
    let cause = MigrationCause::ALL.get(usize::from(code));
    cause.map_or(MigrationCause::Unknown.as_str(), |cause| cause.as_str())
}

/// Names and pids of all tasks, by their numbers.
struct Names(FxHashMap<u32, (String, i32)>);

impl Names {
    fn read(scope: &Scope) -> PolarsResult<Self> {
        let columns = [col("task"), col("name"), col("pid")];
        let tasks = scope.every_task()?.select(columns).collect()?;
        let ids = tasks.column("task")?.u32()?.iter();
        let names = tasks.column("name")?.str()?.iter();
        let pids = tasks.column("pid")?.i32()?.iter();
        let rows = ids.zip(names.zip(pids));
        let named = rows.filter_map(|(id, (name, pid))| Some((id?, (name?.to_owned(), pid?))));
        Ok(Self(named.collect()))
    }

    fn of(&self, task: u32) -> (&str, i32) {
        let named = self.0.get(&task);
        named.map_or(("", -1), |(name, pid)| (name.as_str(), *pid))
    }

    fn puller(&self, by: u32) -> (Known<String>, Known<i32>) {
        match self.0.get(&by) {
            Some((name, pid)) => (Known::Value(name.clone()), Known::Value(*pid)),
            None => {
                let why = "no task pulled it: an interrupt, or the idle task";
                (Known::unknown(why), Known::unknown(why))
            }
        }
    }
}

/// Goes through the selected tasks' moves to whatever CPU, since a move that is left out would make a bounce of two others.
fn search(scope: &Scope, tasks: &[u32]) -> PolarsResult<Found> {
    let ids = scope.facts.machine.cpus.ids();
    let highest = ids.iter().max().map_or(0, |cpu| *cpu as usize + 1);
    let mut llcs = vec![NO_NUMBER; highest];
    for &cpu in ids {
        if let Some(slot) = llcs.get_mut(cpu as usize) {
            *slot = scope.facts.topology().llc_id(cpu).unwrap_or(NO_NUMBER);
        }
    }
    let search = Search { scope, llcs, tasks };
    let (found, _) = scope.moves_of_selected_tasks().fold(
        &COLUMNS,
        || (Found::default(), Scratch::default()),
        |(found, scratch), block| search.take(found, scratch, block),
        |(found, _), (more, _)| search.join(found, more),
    )?;
    Ok(found)
}

impl Search<'_> {
    fn take(&self, found: &mut Found, into: &mut Scratch, block: &Block) -> PolarsResult<()> {
        let [tasks, from, to, by, left_seen, left_any] = &mut into.numbers;
        let tasks = block.numbers("task", tasks)?;
        let from = block.numbers("from_cpu", from)?;
        let to = block.numbers("to_cpu", to)?;
        let by = block.numbers("by_task", by)?;
        let left = [
            block.numbers("idle_left_seen", left_seen)?,
            block.numbers("idle_left_any", left_any)?,
        ];
        let [stamps, lost_seen, lost_any] = &mut into.times;
        let stamps = block.times("ts_ns", stamps)?;
        let lost = [
            block.times("lost_seen_ns", lost_seen)?,
            block.times("lost_any_ns", lost_any)?,
        ];
        let [causes, contexts, in_window] = &mut into.codes;
        let causes = block.codes("cause", causes)?;
        let contexts = block.codes("context", contexts)?;
        let in_window = block.codes("in_window", in_window)?;
        let by_task = Waker::Task.code();
        for row in 0..block.rows() {
            let number = |column: &[u32]| column.get(row).copied().unwrap_or(NO_NUMBER);
            let (from_llc, to_llc) = (self.llc(number(from)), self.llc(number(to)));
            if from_llc == to_llc && from_llc != NO_NUMBER {
                continue;
            }
            let code = |column: &[u8]| column.get(row).copied().unwrap_or(0);
            let time = |column: &[i64]| column.get(row).copied().unwrap_or(0);
            let crossing = Crossing {
                ts_ns: time(stamps),
                from_cpu: number(from),
                to_cpu: number(to),
                from_llc,
                to_llc,
                cause: code(causes),
                by: match code(contexts) == by_task {
                    true => number(by),
                    false => NO_NUMBER,
                },
                idle_left: Pair(left.map(|column| match number(column) {
                    NO_NUMBER => 0,
                    idle => idle,
                })),
                lost_ns: Pair(lost.map(time)),
                in_window: code(in_window) == 1,
                charged: false,
            };
            self.follow(found, number(tasks), crossing);
        }
        Ok(())
    }

    fn llc(&self, cpu: u32) -> u32 {
        self.llcs.get(cpu as usize).copied().unwrap_or(NO_NUMBER)
    }

    /// A task's next change of LLC.
    fn follow(&self, found: &mut Found, task: u32, mut next: Crossing) {
        let mut chain = found.chains.remove(&task).unwrap_or_default();
        match chain.last.take() {
            Some(mut last) => {
                self.judge(found, task, &mut chain.sums, &mut last, &mut next);
                if chain.single {
                    chain.first = Some(last);
                }
                chain.single = false;
            }
            None => {
                chain.first = Some(next);
                chain.single = true;
            }
        }
        chain.last = Some(next);
        found.chains.insert(task, chain);
    }

    /// Joins what was found in later rows.
    fn join(&self, found: &mut Found, more: Found) {
        add_counts(&mut found.pullers, &more.pullers);
        found.later += more.later;
        found.away.join(more.away);
        let mut told = more.told;
        for (task, mut later) in more.chains {
            let Some(mut chain) = found.chains.remove(&task) else {
                found.chains.insert(task, later);
                continue;
            };
            if let (Some(last), Some(first)) = (&mut chain.last, &mut later.first) {
                self.judge(found, task, &mut chain.sums, last, first);
                if chain.single {
                    chain.first = chain.last;
                }
                if later.single {
                    later.last = later.first;
                }
            }
            chain.sums.add(&later.sums);
            chain.last = later.last;
            chain.single = false;
            found.chains.insert(task, chain);
        }
        for (task, told) in told.drain() {
            found.told.entry(task).or_default().join(told);
        }
    }

    /// Whether two changes of LLC, one after the other, are a bounce.
    fn judge(
        &self,
        found: &mut Found,
        task: u32,
        sums: &mut Sums,
        out: &mut Crossing,
        back: &mut Crossing,
    ) {
        let returns = out.from_llc == back.to_llc && out.to_llc == back.from_llc;
        let known = out.from_llc != NO_NUMBER && out.to_llc != NO_NUMBER;
        if !returns || !known || !self.scope.has_cpu(back.to_cpu) {
            return;
        }
        let away = back.ts_ns - out.ts_ns;
        if away > WITHIN_NS {
            found.later += u64::from(back.in_window);
            return;
        }
        for crossing in [&mut *out, &mut *back] {
            if !std::mem::replace(&mut crossing.charged, true) {
                for reading in [Reading::Seen, Reading::Any] {
                    sums.lost_ns[reading] += crossing.lost_ns[reading];
                }
            }
        }
        if !back.in_window {
            return;
        }
        sums.bounces += 1;
        for reading in [Reading::Seen, Reading::Any] {
            sums.left_idle[reading] += u64::from(out.idle_left[reading] > 0);
        }
        found.pullers.resize(CAUSES * CAUSES, 0);
        let at = usize::from(out.cause) * CAUSES + usize::from(back.cause);
        if let Some(count) = found.pullers.get_mut(at) {
            *count += 1;
        }
        found.away.push(away);
        if self.tasks.contains(&task) {
            found.told.entry(task).or_default().take(*out, *back);
        }
    }
}

impl Sums {
    fn add(&mut self, more: &Self) {
        self.bounces += more.bounces;
        for reading in [Reading::Seen, Reading::Any] {
            self.left_idle[reading] += more.left_idle[reading];
            self.lost_ns[reading] += more.lost_ns[reading];
        }
    }
}

fn add_counts(counts: &mut Vec<u64>, more: &[u64]) {
    if counts.len() < more.len() {
        counts.resize(more.len(), 0);
    }
    let pairs = counts.iter_mut().zip(more);
    pairs.for_each(|(count, more)| *count += more);
}
