//! What wakeups cost by their road: the waker's side, and the side of the CPU that is interrupted for them.

use polars::prelude::PolarsResult;

use super::requests::Found;
use super::{handlers, sends};
use crate::attribute::answer::{ByWord, Known, RoadFacts};
use crate::attribute::blocks::NO_TIME;
use crate::attribute::durations::Durations;
use crate::attribute::scope::{Facts, Scope};
use crate::attribute::wakeups::{by_word, known};
use crate::replay::words::{IpiKind, IpiRoad, Path};

const PATHS: usize = Path::ALL.len();

/// Wakeups of one road.
#[derive(Debug, Clone, Default)]
struct Woken {
    wakeups: u64,
    costs: Durations,
    cost_ns: i64,
}

type Scratch = (Vec<u8>, Vec<i64>);

/// By road: wakeups of the selected tasks, and the interrupts for their sake.
pub fn paths(scope: &Scope, found: &Found) -> PolarsResult<ByWord<RoadFacts>> {
    let start = || (vec![Woken::default(); PATHS], Scratch::default());
    let (woken, _) = scope.wakeups().counted().fold(
        &["path", "waker_cost_ns"],
        start,
        |(woken, (paths, costs)), block| {
            let paths = block.codes("path", paths)?.iter();
            for (path, ns) in paths.zip(block.times("waker_cost_ns", costs)?) {
                let Some(woken) = woken.get_mut(usize::from(*path)) else {
                    continue;
                };
                woken.wakeups += 1;
                if *ns != NO_TIME {
                    woken.costs.push(*ns);
                    woken.cost_ns += *ns;
                }
            }
            Ok(())
        },
        |(woken, _), (more, _)| {
            for (all, more) in woken.iter_mut().zip(more) {
                all.wakeups += more.wakeups;
                all.cost_ns += more.cost_ns;
                all.costs.join(more.costs);
            }
        },
    )?;
    Ok(by_word(Path::ALL, Path::as_str, |path| {
        let nothing = Woken::default();
        let woken = woken.get(path as usize).unwrap_or(&nothing);
        facts_of(&scope.facts, path, woken, found)
    }))
}

fn facts_of(facts: &Facts, path: Path, woken: &Woken, found: &Found) -> RoadFacts {
    let interrupts = interrupts(facts, path, found);
    let handled = |ns: fn(&super::requests::Times) -> i64| match (kind(path), &interrupts) {
        (_, Known::Unknown { unknown }) => Known::unknown(unknown.clone()),
        (Some(kind), _) if handlers(facts) => Known::Value(ns(&found.times(kind))),
        (Some(_), _) => Known::unknown("handlers are not recorded"),
        (None, _) => Known::Value(0),
    };
    let costs = woken.costs.quantiles();
    RoadFacts {
        wakeups: woken.wakeups,
        waker_cost_total_ns: match costs {
            Some(_) => Known::Value(woken.cost_ns),
            None => Known::unknown(NO_COST),
        },
        waker_cost_ns: known(costs, || NO_COST.to_owned()),
        wakeups_per_interrupt: per_interrupt(path, found),
        stolen_ns: handled(|times| times.stolen_ns),
        idle_ns: handled(|times| times.idle_ns),
        interrupts,
    }
}

const NO_COST: &str = "no such wakeup shows what its waker paid";

/// The interrupts that wakeups of this road send; others send none.
fn kind(path: Path) -> Option<IpiKind> {
    match path {
        Path::QueuedIpi => Some(IpiKind::Wakeup),
        Path::DirectIpi => Some(IpiKind::WakeupReschedule),
        _ => None,
    }
}

fn interrupts(facts: &Facts, path: Path, found: &Found) -> Known<u64> {
    let of = |road: IpiRoad, kind: IpiKind| found.count(|r| r.road == road && r.kind == kind);
    match (path, kind(path)) {
        (Path::Unknown, _) => Known::unknown("by which road they went is not known"),
        (_, None) => Known::Value(0),
        (_, Some(kind)) if sends(facts) => Known::Value(of(IpiRoad::Interrupt, kind)),
        (Path::QueuedIpi, Some(kind)) if handlers(facts) => {
            Known::Value(of(IpiRoad::Handler, kind))
        }
        _ => Known::unknown(
            "sends are not recorded (6.4 on): what a reschedule interrupt was for is not known",
        ),
    }
}

/// Tasks that the handlers of queued wakeups enqueued, by those that enqueued any.
fn per_interrupt(path: Path, found: &Found) -> Known<f64> {
    if path != Path::QueuedIpi {
        return Known::unknown("only queued wakeups share an interrupt");
    }
    let times = found.times(IpiKind::Wakeup);
    match times.enqueuing {
        0 => Known::unknown("no handler was seen to enqueue"),
        handlers => Known::Value(times.wakeups as f64 / handlers as f64),
    }
}
