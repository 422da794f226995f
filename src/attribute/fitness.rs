//! What a trace is fit for. Every figure that it is not fit for would mislead, however exact it looks.

use super::answer::{Fit, Fitness, Flips, Known, Ledger, Wakeups};
use super::ledger::of_reading;
use super::scope::{Facts, Scope};
use crate::topology::Distance;

/// Coverage from which on a trace is fit, and below which it is not.
const ENOUGH: f64 = 0.95;
const TOO_LITTLE: f64 = 0.5;

/// What this trace is fit for.
pub fn fitness(scope: &Scope, ledger: &Ledger, wakeups: &Wakeups, flips: &Known<Flips>) -> Fitness {
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
        cross_llc: cross_llc(facts, cpu_time * known),
        flips: self::flips(facts, cpu_time, flips),
        ipis: ipis(facts, cpu_time),
        throughput: throughput(facts, cpu_time),
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

fn cross_llc(facts: &Facts, coverage: f64) -> Fit {
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
        llcs => by_coverage(format!("wakeups between {llcs} LLCs are known"), coverage),
    }
}

/// The counters are known where probes show them, and after so many seconds that what was before does not matter.
fn flips(facts: &Facts, cpu_time: f64, flips: &Known<Flips>) -> Fit {
    let flips = match flips {
        Known::Unknown { unknown } => return fit("no", unknown.clone(), 0.0),
        Known::Value(flips) => flips,
    };
    let share = match &flips.decided_share {
        Known::Unknown { unknown } => {
            // Without sizes of LLCs nothing can be decided; without wakeups nothing was to be.
            let (word, coverage) = match &flips.policies {
                Known::Unknown { .. } => ("no", 0.0),
                Known::Value(_) => ("partly", cpu_time),
            };
            return fit(word, unknown.clone(), coverage);
        }
        Known::Value(share) => *share,
    };
    let judged = flips.judged;
    let why = match facts.counts.probes_flips_max {
        Some(_) => {
            format!("{judged} decisions of wake_wide are followed by the kernel's own counts")
        }
        None => format!(
            "{judged} decisions of wake_wide are followed, but no probe shows what tasks had counted before the trace"
        ),
    };
    let coverage = cpu_time * share;
    if coverage >= ENOUGH {
        return fit("yes", why, coverage);
    }
    let word = if coverage < TOO_LITTLE {
        "no"
    } else {
        "partly"
    };
    let percent = coverage * 100.0;
    fit(word, format!("{why}; {percent:.1} % are decided"), coverage)
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

fn throughput(facts: &Facts, coverage: f64) -> Fit {
    let markers = facts.survey.markers.len();
    let why = match markers {
        0 => "the trace holds no markers: only wakeups per second could be told".to_owned(),
        markers => format!("{markers} markers are recorded, of which units of work could be made"),
    };
    let word = if markers == 0 { "partly" } else { "yes" };
    fit(
        word,
        format!("{why}; this version does not compute throughput"),
        coverage,
    )
}
