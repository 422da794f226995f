//! What a trace is fit for. Every figure that it is not fit for would mislead, however exact it looks.

use super::answer::{CrossLlc, Fit, Fitness, Known, Ledger, Throughput, Wakeups};
use super::ledger::of_reading;
use super::scope::{Facts, Scope};
use crate::topology::Distance;

/// Coverage from which on a trace is fit, and below which it is not.
const ENOUGH: f64 = 0.95;
const TOO_LITTLE: f64 = 0.5;

/// What this trace is fit for.
pub fn fitness(
    scope: &Scope,
    ledger: &Ledger,
    wakeups: &Wakeups,
    crossing: &Known<CrossLlc>,
    throughput: &Known<Throughput>,
) -> Fitness {
    let facts = &scope.facts;
    let cpu_time = 1.0 - ledger.unknown_share;
    let waits = cpu_time * kept_waits(facts);
    let known = share(
        wakeups.total
            - wakeups
                .by_distance
                .waker_chosen
                .get(UNKNOWN)
                .copied()
                .unwrap_or(0),
        wakeups.total,
    );
    Fitness {
        latency: latency(facts, waits),
        missed_idle: missed_idle(facts, waits, ledger, scope),
        cross_llc: cross_llc(facts, crossing.value(), cpu_time * known),
        flips: flips(facts, cpu_time),
        ipis: ipis(facts, cpu_time),
        throughput: throughput_fit(facts, throughput, cpu_time),
    }
}

const UNKNOWN: &str = Distance::Unknown.as_str();

fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 1.0,
        whole => part as f64 / whole as f64,
    }
}

/// The share of waits that were not withdrawn for lost or contradictory events.
fn kept_waits(facts: &Facts) -> f64 {
    let counts = facts.counts;
    let withdrawn = counts
        .withdrawn_waits
        .saturating_add(counts.inconsistent_waits);
    share(counts.waits.saturating_sub(withdrawn), counts.waits)
}

/// Judges by coverage alone; `why` says what is there.
fn by_coverage(why: String, coverage: f64) -> Fit {
    let (fit, why) = if coverage >= ENOUGH {
        ("yes", why)
    } else {
        let percent = coverage * 100.0;
        let fit = if coverage < TOO_LITTLE {
            "no"
        } else {
            "partly"
        };
        let lack = "the rest is before a CPU's first event, amid lost events, or contradictory";
        (
            fit,
            format!("{why}, but it covers {percent:.1} % only: {lack}"),
        )
    };
    Fit { fit, why, coverage }
}

fn fit(fit: &'static str, why: impl Into<String>, coverage: f64) -> Fit {
    Fit {
        fit,
        why: why.into(),
        coverage,
    }
}

/// The events among these of which the trace holds none.
fn missing(facts: &Facts, names: &[&str]) -> Vec<String> {
    let absent = names
        .iter()
        .filter(|name| facts.recorded(name).unwrap_or(0) == 0);
    absent.map(|name| (*name).to_owned()).collect()
}

fn latency(facts: &Facts, coverage: f64) -> Fit {
    let missing = missing(facts, &["sched_switch", "sched_waking", "sched_wakeup"]);
    let holds = |name: &str| !missing.iter().any(|absent| absent == name);
    match (missing.is_empty(), holds("sched_switch")) {
        (true, _) => by_coverage(
            "sched_waking, sched_wakeup and sched_switch are recorded".to_owned(),
            coverage,
        ),
        (false, true) if holds("sched_waking") || holds("sched_wakeup") => {
            let part = match holds("sched_wakeup") {
                true => "only the time from wakeup to switch-in is known",
                false => "only the whole latency is known, not where it was spent",
            };
            fit(
                "partly",
                format!("the trace holds no {}: {part}", missing.join(", ")),
                coverage,
            )
        }
        _ => fit(
            "no",
            format!("the trace holds no {}", missing.join(", ")),
            0.0,
        ),
    }
}

fn missed_idle(facts: &Facts, coverage: f64, ledger: &Ledger, scope: &Scope) -> Fit {
    let needed = missing(facts, &["sched_switch", "sched_waking", "sched_wakeup"]);
    if !needed.is_empty() {
        return fit(
            "no",
            format!("the trace holds no {}", needed.join(", ")),
            0.0,
        );
    }
    if facts.llcs_unknown().is_some() {
        let ns = of_reading(&ledger.waiting_ns, scope.ranking());
        let why = format!(
            "without a topology it is known that {ns} ns of CPU time were idle while a task waited, not whether near it"
        );
        return fit("partly", why, coverage);
    }
    if facts.recorded("sched_migrate_task").is_none() {
        let why = "sched_migrate_task is not recorded, so tasks moved while they waited are thought to wait where they were";
        return fit("partly", why, coverage);
    }
    by_coverage(
        "wakeups, switches, migrations and the topology are known".to_owned(),
        coverage,
    )
}

fn cross_llc(facts: &Facts, crossing: Option<&CrossLlc>, coverage: f64) -> Fit {
    if let Some(reason) = facts.llcs_unknown() {
        return fit("no", reason, 0.0);
    }
    let needed = missing(facts, &["sched_switch", "sched_waking", "sched_wakeup"]);
    if !needed.is_empty() {
        return fit(
            "no",
            format!("the trace holds no {}", needed.join(", ")),
            0.0,
        );
    }
    match facts.topology().llcs().map_or(0, <[_]>::len) {
        0 | 1 => fit("no", "the machine has one LLC: no wakeup crosses", coverage),
        llcs => {
            let costs = measured_costs(crossing);
            by_coverage(
                format!("wakeups between {llcs} LLCs are known, and {costs}"),
                coverage,
            )
        }
    }
}

/// Which of the costs of crossing can be told of, in words.
fn measured_costs(crossing: Option<&CrossLlc>) -> String {
    let Some(crossing) = crossing else {
        return "nothing of what they cost".to_owned();
    };
    let costs = [
        ("transit", &crossing.transit, &crossing.basis.transit),
        (
            "cold cache",
            &crossing.cold_cache,
            &crossing.basis.cold_cache,
        ),
        ("transfer", &crossing.transfer, &crossing.basis.transfer),
    ];
    let told = costs.map(|(name, total, basis)| match total {
        Known::Value(_) => format!("{name} of {:.1} % of them", basis.coverage * 100.0),
        Known::Unknown { .. } => format!("{name} not measurable"),
    });
    format!("of their cost {}", told.join(", "))
}

fn flips(facts: &Facts, coverage: f64) -> Fit {
    let wakings = facts.recorded("sched_waking").unwrap_or(0);
    let probes = facts.recorded("sel").unwrap_or(0);
    if wakings == 0 {
        return fit(
            "no",
            "the trace holds no sched_waking, so wakers are not known",
            0.0,
        );
    }
    let why = match probes {
        0 => format!(
            "{wakings} sched_waking are recorded, so flips could be followed within bounds; the kernel's own count is not recorded"
        ),
        probes => {
            format!("{wakings} sched_waking and {probes} of the kernel's own counts are recorded")
        }
    };
    let word = if probes == 0 { "partly" } else { "yes" };
    fit(
        word,
        format!("{why}; this version does not compute flips"),
        coverage,
    )
}

fn ipis(facts: &Facts, coverage: f64) -> Fit {
    let holds = |names: &[&str]| {
        let present: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| facts.recorded(name).unwrap_or(0) > 0)
            .collect();
        present.join(", ")
    };
    let sends = holds(&[
        "ipi_send_cpu",
        "ipi_send_cpumask",
        "ipi_raise",
        "csd_queue_cpu",
    ]);
    let handlers = holds(&[
        "reschedule_entry",
        "call_function_entry",
        "call_function_single_entry",
        "ipi_entry",
        "csd_function_entry",
    ]);
    let (word, what) = match (sends.as_str(), handlers.as_str()) {
        ("", "") => return fit("no", "no interrupts between CPUs are recorded", 0.0),
        (sends, "") => (
            "partly",
            format!("sends are recorded ({sends}), handlers are not"),
        ),
        ("", handlers) => (
            "partly",
            format!("handlers are recorded ({handlers}), sends are not"),
        ),
        (sends, handlers) => ("yes", format!("{sends} and {handlers} are recorded")),
    };
    fit(
        word,
        format!("{what}; this version does not compute them"),
        coverage,
    )
}

fn throughput_fit(facts: &Facts, throughput: &Known<Throughput>, coverage: f64) -> Fit {
    let found = match throughput {
        Known::Value(found) => found,
        Known::Unknown { unknown } => return fit("no", unknown.clone(), 0.0),
    };
    if found.named_throughput {
        let (units, unit) = (found.units, &found.unit);
        return by_coverage(
            format!("{units} units of work ({unit}) were counted"),
            coverage,
        );
    }
    let markers = facts.survey.markers.len() + facts.survey.markers_left_out;
    let advice = match markers {
        0 => "name one with --work task:NAME, event:NAME or total:N".to_owned(),
        markers => format!("the trace holds {markers} markers: name one with --work marker:PREFIX"),
    };
    let why = format!("no unit of work was named, so only wakeups per second are known; {advice}");
    fit("partly", why, coverage)
}
