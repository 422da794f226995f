//! From what a chain sums to, to the numbers of the report.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::super::answer::{
    ByWord, Known, PathDetail, PathFacts, PathMeanwhile, PathMoment, PathPart, PathRange,
    PathSpread, PathTask, PathTasks, PathTransit, PathVerdict, PathWait,
};
use super::super::scope::{Scope, is_member, members};
use super::super::wakeups::{by_distance, by_word};
use super::super::work::Span;
use super::Window;
use super::chain::{Doing, Piece};
use super::history::NO_CPU;
use super::segments::has_tlb_waits;
use super::tally::{Sum, Tally, at};
use super::within::not_measured;
use crate::replay::words::{Category, Origin, Path, Reading, Verdict, Waker, Why};
use crate::topology::Distance;

/// Upper bounds are withheld where waits for busy CPUs take more than one part in so many.
const SATURATED: i64 = 10;

const ASSUMPTION: &str = "order and placement as recorded: each other part of the path keeps its length, and no other \
                          chain of tasks takes its place";

/// What all facts are made from.
struct Maker<'a> {
    scope: &'a Scope<'a>,
    total_ns: i64,
    names: Names,
    /// Why no upper bounds are given.
    no_gains: Option<String>,
}

/// Name and pid by task.
type Names = FxHashMap<u32, (String, i32)>;

pub fn facts(
    scope: &Scope,
    span: &Span,
    tally: &mut Tally,
    windows: &[Window],
) -> PolarsResult<PathFacts> {
    let longest = tally.longest();
    let running = ranked(&tally.running, scope.top);
    let meanwhile = ranked(&tally.meanwhile, scope.top);
    let total_ns = span.end_ns.saturating_sub(span.start_ns).max(0);
    let tasks = running.top.iter().chain(&meanwhile.top);
    let tasks = tasks.map(|(task, _)| *task);
    let tasks = tasks.chain(longest.iter().map(|piece| piece.task));
    let maker = Maker {
        scope,
        total_ns,
        names: names(scope, tasks)?,
        no_gains: no_gains(scope, tally, total_ns),
    };
    let not_shown = not_shown(scope, tally);
    let ns = |category: Category| tally.ns[category as usize];
    Ok(PathFacts {
        path_ns: by_word(Category::ALL, Category::as_str, ns),
        path_share: by_word(Category::ALL, Category::as_str, |of| maker.share(ns(of))),
        gain_at_most: by_word(Category::ALL, Category::as_str, |of| {
            match not_shown.get(of.as_str()) {
                Some(reason) => Known::unknown(reason),
                None => maker.category_gain(of, ns(of)),
            }
        }),
        gain_assumption: ASSUMPTION,
        running_within: not_measured(),
        path: PathDetail {
            start_ns: span.start_ns,
            end_ns: span.end_ns.max(span.start_ns),
            total_ns,
            not_shown,
            wakeups: tally.wakeups.iter().sum(),
            wakeups_by_waker: by_word(Waker::ALL, Waker::as_str, |of| tally.wakeups[of as usize]),
            wakeups_cross_llc: across_llcs(scope, tally),
            running: maker.tasks(running),
            transit: maker.transit(tally),
            wait: maker.wait(tally, meanwhile),
            blocked: maker.parts(Waker::ALL, Waker::as_str, |of| {
                at(&tally.blocked, of.code())
            }),
            unknown: maker.parts(Why::ALL, Why::as_str, |of| at(&tally.unknown, of.code())),
            spread: spread(windows),
            longest: longest.iter().map(|piece| maker.moment(piece)).collect(),
        },
    })
}

/// The tasks with the most time, and what the others have.
struct Ranked {
    top: Vec<(u32, i64)>,
    others_ns: i64,
}

fn ranked(of: &FxHashMap<u32, i64>, most: usize) -> Ranked {
    let mut top: Vec<(u32, i64)> = of.iter().map(|(task, ns)| (*task, *ns)).collect();
    top.sort_unstable_by_key(|(task, ns)| (Reverse(*ns), *task));
    let others_ns = top.iter().skip(most).map(|(_, ns)| ns).sum();
    top.truncate(most);
    Ranked { top, others_ns }
}

fn names(scope: &Scope, tasks: impl Iterator<Item = u32>) -> PolarsResult<Names> {
    let tasks: BTreeSet<u32> = tasks.collect();
    let known = u32::try_from(scope.tables().rows(crate::tables::Table::Tasks)).unwrap_or(u32::MAX);
    let tasks: Vec<u32> = tasks.into_iter().filter(|task| *task < known).collect();
    let frame = scope
        .every_task()?
        .filter(is_member("task", members(&tasks)))
        .select([col("task"), col("name"), col("pid")])
        .collect()?;
    let tasks = frame.column("task")?.u32()?.iter();
    let names = frame.column("name")?.str()?.iter();
    let named = tasks.zip(names.zip(frame.column("pid")?.i32()?.iter()));
    Ok(named
        .filter_map(|(task, (name, pid))| Some((task?, (name?.to_owned(), pid?))))
        .collect())
}

/// Why no upper bounds are given, if so.
fn no_gains(scope: &Scope, tally: &Tally, total_ns: i64) -> Option<String> {
    let saturated_ns = tally.saturated_ns(&scope.facts.config.readings);
    (saturated_ns > total_ns / SATURATED).then(|| {
        format!(
            "waits for CPUs that were all busy are {:.0} % of the path, more than a tenth: what is removed would be \
             waited for elsewhere",
            100.0 * saturated_ns as f64 / total_ns as f64
        )
    })
}

/// The categories that the events cannot show.
fn not_shown(scope: &Scope, tally: &Tally) -> ByWord<String> {
    let recorded = |name: &str| scope.facts.recorded(name).unwrap_or(0) > 0;
    let handlers = [
        "reschedule_entry",
        "call_function_entry",
        "call_function_single_entry",
    ];
    let mut found = ByWord::new();
    if tally.ns[Category::Interrupt as usize] == 0 && !handlers.into_iter().any(recorded) {
        let reason = format!("the trace holds none of {}", handlers.join(", "));
        found.insert(Category::Interrupt.as_str(), reason);
    }
    let acknowledged = has_tlb_waits() && recorded("tlb_flush") && recorded("csd_function_exit");
    if tally.ns[Category::TlbWait as usize] == 0 && !acknowledged {
        let reason = "the trace does not show when TLB shootdowns were acknowledged: it needs tlb_flush and csd events";
        found.insert(Category::TlbWait.as_str(), reason.to_owned());
    }
    found
}

fn across_llcs(scope: &Scope, tally: &Tally) -> Known<u64> {
    match (scope.facts.llcs_unknown(), tally.maybe_across_llcs) {
        (Some(reason), _) => Known::unknown(reason),
        (None, 0) => Known::Value(tally.across_llcs),
        (None, maybe) => Known::unknown(format!(
            "the LLCs of {maybe} of these wakeups are unknown; {} others cross",
            tally.across_llcs
        )),
    }
}

/// The least, middle and greatest share of each category.
fn spread(windows: &[Window]) -> Known<PathSpread> {
    if windows.is_empty() {
        return Known::unknown("the span is too short to be divided");
    }
    let range = |of: Category| {
        let shares = windows.iter();
        let share = |w: &Window| w.shares.ns[of as usize] as f64 / w.length_ns as f64;
        let mut shares: Vec<f64> = shares.map(share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let get = |at: usize| shares.get(at).copied().unwrap_or(0.0);
        let count = shares.len();
        PathRange {
            min: get(0),
            median: (get((count - 1) / 2) + get(count / 2)) / 2.0,
            max: get(count - 1),
        }
    };
    Known::Value(PathSpread {
        windows: windows.len() as u64,
        share: by_word(Category::ALL, Category::as_str, range),
    })
}

impl Maker<'_> {
    fn share(&self, ns: i64) -> f64 {
        match self.total_ns {
            0 => 0.0,
            total => ns as f64 / total as f64,
        }
    }

    fn part(&self, sum: Sum) -> PathPart {
        PathPart {
            count: sum.count,
            ns: sum.ns,
            share: self.share(sum.ns),
        }
    }

    fn parts<W: Copy>(
        &self,
        words: &[W],
        name: fn(W) -> &'static str,
        of: impl Fn(W) -> Sum,
    ) -> ByWord<PathPart> {
        by_word(words, name, |word| self.part(of(word)))
    }

    /// T / (T − t) − 1.
    fn gain(&self, ns: i64) -> Known<f64> {
        if let Some(reason) = &self.no_gains {
            return Known::unknown(reason);
        }
        let left_ns = self.total_ns - ns;
        match left_ns > 0 {
            true => Known::Value(ns as f64 / left_ns as f64),
            false => Known::unknown("nothing else is on the path"),
        }
    }

    fn category_gain(&self, of: Category, ns: i64) -> Known<f64> {
        match of {
            Category::Running => Known::unknown("it is the work itself"),
            Category::Blocked => Known::unknown("what woke the task is not a matter of scheduling"),
            Category::Unknown => Known::unknown("it is not known what could be removed"),
            Category::Transit | Category::Wait | Category::Interrupt | Category::TlbWait => {
                self.gain(ns)
            }
        }
    }

    fn transit(&self, tally: &Tally) -> PathTransit {
        // What no wakeup put on its way stands under the last code.
        let rest = |of: &[Sum; 16], unknown: bool| match unknown {
            true => at(of, 15),
            false => Sum::default(),
        };
        let by_path = |path: Path| {
            let rest = rest(&tally.by_path, path == Path::Unknown);
            joined(at(&tally.by_path, path.code()), rest)
        };
        PathTransit {
            by_path: self.parts(Path::ALL, Path::as_str, by_path),
            by_distance: by_distance(|code| {
                let unknown = code == Distance::Unknown as u8;
                let rest = rest(&tally.by_distance, unknown);
                self.part(joined(at(&tally.by_distance, code), rest))
            }),
            gain_at_most_by_path: by_word(Path::ALL, Path::as_str, |path| {
                self.gain(by_path(path).ns)
            }),
        }
    }

    fn wait(&self, tally: &Tally, meanwhile: Ranked) -> PathWait {
        PathWait {
            by_origin: self.parts(Origin::ALL, Origin::as_str, |of| {
                at(&tally.by_origin, of.code())
            }),
            by_verdict: by_word(Verdict::ALL, Verdict::as_str, |of| self.verdict(tally, of)),
            meanwhile: PathMeanwhile {
                ran: self.tasks(meanwhile),
                idle_ns: tally.meanwhile_idle_ns,
                idle_share: self.share(tally.meanwhile_idle_ns),
                unknown_ns: tally.meanwhile_unknown_ns,
                unknown_share: self.share(tally.meanwhile_unknown_ns),
            },
        }
    }

    fn verdict(&self, tally: &Tally, of: Verdict) -> PathVerdict {
        let sum = |reading: Reading| at(&tally.by_verdict[reading], of.code());
        let least = [Reading::Seen, Reading::Any].map(|reading| sum(reading).ns);
        let whole = least.into_iter().max().unwrap_or(0);
        PathVerdict {
            count: self.scope.readings(|reading| sum(reading).count),
            ns: self.scope.readings(|reading| sum(reading).ns),
            share: self.scope.readings(|reading| self.share(sum(reading).ns)),
            gain_at_most: match self.gain(whole) {
                Known::Unknown { unknown } => Known::unknown(unknown),
                Known::Value(_) => Known::Value(self.scope.readings(|reading| {
                    let gain = self.gain(sum(reading).ns);
                    gain.value().copied().unwrap_or(0.0)
                })),
            },
        }
    }

    fn tasks(&self, ranked: Ranked) -> PathTasks {
        let tasks = ranked.top.iter().map(|&(task, ns)| {
            let (name, pid) = self.named(task);
            PathTask {
                name,
                pid,
                ns,
                share: self.share(ns),
            }
        });
        PathTasks {
            tasks: tasks.collect(),
            others_ns: ranked.others_ns,
            others_share: self.share(ranked.others_ns),
        }
    }

    fn moment(&self, piece: &Piece) -> PathMoment {
        let (category, why) = match piece.what {
            Doing::Running => (Category::Running, Category::Running.as_str()),
            Doing::Transit(road) => {
                let path = road.and_then(|road| Path::ALL.get(usize::from(road.path())));
                let path = path.copied().unwrap_or(Path::Unknown);
                (Category::Transit, path.as_str())
            }
            Doing::Waiting { verdict, .. } => {
                let code = verdict[self.scope.ranking()];
                let verdict = Verdict::ALL.get(usize::from(code)).copied();
                (Category::Wait, verdict.unwrap_or(Verdict::Unknown).as_str())
            }
            Doing::Blocked(context) => (Category::Blocked, context.as_str()),
            Doing::Unknown(why) => (Category::Unknown, why.as_str()),
        };
        let (name, pid) = self.named(piece.task);
        PathMoment {
            start_ns: piece.start_ns,
            end_ns: piece.end_ns,
            category: category.as_str(),
            why,
            name,
            pid,
            cpu: Some(piece.cpu).filter(|cpu| *cpu != NO_CPU).map(u32::from),
        }
    }

    fn named(&self, task: u32) -> (String, i32) {
        let unknown = || ("?".to_owned(), -1);
        self.names.get(&task).cloned().unwrap_or_else(unknown)
    }
}

fn joined(a: Sum, b: Sum) -> Sum {
    Sum {
        count: a.count + b.count,
        ns: a.ns + b.ns,
    }
}
