//! Interrupts between CPUs by kind, distance and cost (`analysis` §6).

mod functions;
mod paths;
mod requests;
mod tlb;
mod victims;

use polars::prelude::PolarsResult;

use self::requests::Found;
use self::victims::Names;
use super::answer::{Handlers, Ipis, Known, Requests};
use super::scope::{Facts, Scope};
use super::wakeups::{by_distance, by_word, known};
use crate::replay::words::{IpiFate, IpiKind, IpiRoad};

/// Interrupts between CPUs: by `--cpu` those that go to the selected ones, by `--task` those that a selected task sent or
/// that interrupted one.
pub fn ipis(scope: &Scope) -> PolarsResult<Known<Ipis>> {
    let facts = &scope.facts;
    let (sends, handlers) = (sends(facts), handlers(facts));
    if !sends && !handlers && facts.recorded("tlb_flush").unwrap_or(0) == 0 {
        return Ok(Known::unknown(
            "no interrupts between CPUs are recorded: neither ipi_send_cpu nor handlers' entries",
        ));
    }
    let found = Found::take(scope)?;
    let names = Names::of(scope)?;
    // Before 6.4 only the handlers tell of interrupts.
    let road = match sends {
        true => IpiRoad::Interrupt,
        false => IpiRoad::Handler,
    };
    let stolen = |of: &dyn Fn(IpiKind) -> i64| by_word(IpiKind::ALL, IpiKind::as_str, of);
    let handlers_of = |why| match handlers {
        true => Known::Value(()),
        false => Known::unknown(why),
    };
    let no_handlers = "the trace shows no handlers' entries and exits";
    Ok(Known::Value(Ipis {
        counted: match sends {
            true => "sends",
            false => "handlers",
        },
        total: found.count(|r| r.road == road),
        by_kind: by_word(IpiKind::ALL, IpiKind::as_str, |kind| {
            found.count(|r| r.road == road && r.kind == kind)
        }),
        by_distance: by_distance(|distance| {
            found.count(|r| r.road == road && r.distance == distance)
        }),
        by_fate: by_word(IpiFate::ALL, IpiFate::as_str, |fate| {
            found.count(|r| r.road == road && r.fate == fate)
        }),
        latency_ns: known(found.latencies(), || no_latency(facts)),
        latency_by_kind_ns: by_word(IpiKind::ALL, IpiKind::as_str, |kind| {
            known(found.latencies_of(kind), || no_latency(facts))
        }),
        polled: found.requests(IpiRoad::Polled),
        queued: match found.requests(IpiRoad::Queue) {
            Requests { total: 0, .. } if !queueing(facts) => {
                Known::unknown("the trace has no csd_queue_cpu (6.5 on)")
            }
            requests => Known::Value(requests),
        },
        handlers: map(handlers_of(no_handlers), |()| found.handlers()),
        stolen_ns: map(handlers_of(no_handlers), |()| found.handlers().stolen_ns),
        stolen_by_kind_ns: map(handlers_of(no_handlers), |()| {
            stolen(&|kind| found.times(kind).stolen_ns)
        }),
        stolen_from: found.stolen_from(&names, scope.top),
        functions: functions::functions(&found, facts, scope.top),
        paths: paths::paths(scope, &found)?,
        tlb: tlb::tlb(scope, &found, &names)?,
    }))
}

/// Whether sends are recorded.
pub fn sends(facts: &Facts) -> bool {
    any(facts, &["ipi_send_cpu", "ipi_send_cpumask", "ipi_raise"])
}

/// Whether handlers are.
pub fn handlers(facts: &Facts) -> bool {
    let exits = [
        "reschedule_exit",
        "call_function_exit",
        "call_function_single_exit",
        "ipi_exit",
        "csd_function_exit",
    ];
    any(facts, &exits)
}

fn queueing(facts: &Facts) -> bool {
    any(facts, &["csd_queue_cpu"])
}

fn any(facts: &Facts, names: &[&str]) -> bool {
    let mut names = names.iter();
    names.any(|name| facts.recorded(name).unwrap_or(0) > 0)
}

fn no_latency(facts: &Facts) -> String {
    match (sends(facts), handlers(facts)) {
        (false, _) => "sends are not recorded (ipi_send_cpu: 6.4 on)".to_owned(),
        (true, false) => "handlers' entries are not recorded".to_owned(),
        (true, true) => "no such interrupt met a handler".to_owned(),
    }
}

fn map<A, B>(known: Known<A>, of: impl FnOnce(A) -> B) -> Known<B> {
    match known {
        Known::Value(value) => Known::Value(of(value)),
        Known::Unknown { unknown } => Known::Unknown { unknown },
    }
}

impl Found {
    fn requests(&self, road: IpiRoad) -> Requests {
        Requests {
            total: self.count(|r| r.road == road),
            by_kind: by_word(IpiKind::ALL, IpiKind::as_str, |kind| {
                self.count(|r| r.road == road && r.kind == kind)
            }),
        }
    }

    fn handlers(&self) -> Handlers {
        let all = self.all_times();
        Handlers {
            count: all.handlers,
            unexplained: self.count(|r| r.road == IpiRoad::Handler),
            untimed: all.untimed,
            ns: all.stolen_ns + all.idle_ns + all.unknown_ns,
            stolen_ns: all.stolen_ns,
            idle_ns: all.idle_ns,
            unknown_ns: all.unknown_ns,
        }
    }
}

#[cfg(test)]
mod tests;
