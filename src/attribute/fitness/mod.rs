//! What a trace is fit for. Every figure that it is not fit for would mislead, however exact it looks.
//!
//! The [`rules`] judge by the events that are there; behind the replay it is known how much of the window they cover.

pub mod rules;
#[cfg(test)]
mod table;

use self::rules::{Evidence, Judged, Llcs, Word};
use super::answer::{CrossLlc, Fit, Fitness, Flips, Known, Ledger, Throughput, Wakeups};
use super::ledger::of_reading;
use super::scope::{Facts, Scope};
use crate::topology::Distance;
use crate::wording::{agree, many};

/// Coverage from which on a trace is fit, and below which it is not.
const ENOUGH: f64 = 0.95;
const TOO_LITTLE: f64 = 0.5;
/// A share from which on it prints as all.
const WHOLE: f64 = 0.9995;

/// What this trace is fit for.
pub fn fitness(
    scope: &Scope,
    ledger: &Ledger,
    wakeups: &Wakeups,
    crossing: &Known<CrossLlc>,
    flips: &Known<Flips>,
    throughput: &Known<Throughput>,
) -> Fitness {
    let facts = &scope.facts;
    let cpu_time = 1.0 - ledger.unknown_share;
    let waits = cpu_time * kept_waits(facts);
    let recorded = |name: &str| facts.recorded(name);
    let evidence = |unknown: Option<String>| Evidence {
        events: &recorded,
        model: &facts.config.model,
        llcs: llcs(facts, unknown),
        markers: markers(facts),
        obstacle: None,
    };
    let on = evidence(facts.llcs_unknown());
    let on_crossing = evidence(facts.crossing_unknown());
    Fitness {
        latency: covered(rules::latency(&on), waits),
        missed_idle: missed_idle(&on, waits, ledger, scope),
        cross_llc: cross_llc(
            &on_crossing,
            crossing.value(),
            cpu_time * known_distances(wakeups),
        ),
        flips: self::flips(&on, flips, cpu_time),
        ipis: ipis(&on, cpu_time),
        throughput: throughput_fit(facts, throughput, cpu_time),
    }
}

fn llcs(facts: &Facts, unknown: Option<String>) -> Llcs {
    match unknown {
        Some(why) => Llcs::Unknown(why),
        None => Llcs::Known(facts.topology().llcs().map_or(0, <[_]>::len)),
    }
}

/// The share of wakeups whose distance from waker to chosen CPU is known.
fn known_distances(wakeups: &Wakeups) -> f64 {
    let distances = &wakeups.by_distance.waker_chosen;
    let unknown = distances.get(Distance::Unknown.as_str());
    let known = wakeups.total.saturating_sub(unknown.copied().unwrap_or(0));
    share(known, wakeups.total)
}

/// A part of a whole; all of it where there is none.
pub fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 1.0,
        whole => part as f64 / whole as f64,
    }
}

/// The share of waits that were not withdrawn for lost or contradictory events.
pub fn kept_waits(facts: &Facts) -> f64 {
    let counts = facts.counts;
    let withdrawn = counts
        .withdrawn_waits
        .saturating_add(counts.inconsistent_waits);
    share(counts.waits.saturating_sub(withdrawn), counts.waits)
}

/// What the events allow, as far as they cover the window.
fn covered(by_events: Judged, coverage: f64) -> Fit {
    graded(by_events, coverage, |why| {
        let percent = coverage * 100.0;
        format!("{why}, but it covers {percent:.1} % only: {LACK}")
    })
}

/// What is missing where not everything is covered.
const LACK: &str = "the rest is before a CPU's first event, amid lost events, or contradictory";

/// What the events allow, and what else is said where they cover too little of the window.
fn graded(by_events: Judged, coverage: f64, lacking: impl FnOnce(String) -> String) -> Fit {
    let Judged { word, why } = by_events;
    let (word, why, coverage) = match word {
        Word::No => (word, why, 0.0),
        Word::Partly => (word, why, coverage),
        Word::Yes if coverage >= ENOUGH => (word, why, coverage),
        Word::Yes => {
            let word = match coverage < TOO_LITTLE {
                true => Word::No,
                false => Word::Partly,
            };
            (word, lacking(why), coverage)
        }
    };
    Fit {
        fit: word.as_str(),
        why,
        coverage,
    }
}

fn missed_idle(on: &Evidence, coverage: f64, ledger: &Ledger, scope: &Scope) -> Fit {
    let mut judged = rules::missed_idle(on);
    if judged.word == Word::Partly && matches!(on.llcs, Llcs::Unknown(_)) {
        let ns = of_reading(&ledger.waiting_ns, scope.ranking());
        let percent = ns as f64 * 100.0 / ledger.total_ns.max(1) as f64;
        judged.why = format!(
            "without a topology it is known that {percent:.2} % of the CPU time went by idle while a task waited, not whether near it"
        );
    }
    if judged.word == Word::Yes
        && let Some(uncovered) = scope.facts.topology().uncovered()
    {
        judged.word = Word::Partly;
        judged.why = format!("{uncovered}, and so is whether an idle CPU was near them");
    }
    covered(judged, coverage)
}

fn cross_llc(on: &Evidence, crossing: Option<&CrossLlc>, coverage: f64) -> Fit {
    let mut judged = rules::cross_llc(on);
    if judged.word == Word::Yes {
        let costs = measured_costs(crossing);
        judged.why = format!("{}, and {costs}", judged.why);
    }
    covered(judged, coverage)
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

/// The counters are known where probes show them, and after so many seconds that what was before does not matter.
fn flips(on: &Evidence, flips: &Known<Flips>, coverage: f64) -> Fit {
    let found = match flips {
        Known::Value(found) => found,
        Known::Unknown { unknown } => return covered(rules::no(unknown.as_str()), 0.0),
    };
    let decided = match &found.decided_share {
        Known::Value(share) => *share,
        Known::Unknown { .. } if matches!(on.llcs, Llcs::Known(_)) => {
            return covered(rules::flips(on), coverage);
        }
        Known::Unknown { unknown } => return covered(rules::no(unknown.as_str()), 0.0),
    };
    let mut judged = rules::flips(on);
    let (of, share) = (found.judged, decided * 100.0);
    let decisions = many(of, "decision");
    judged.why = format!("{}: {share:.1} % of {decisions} are certain", judged.why);
    // How many are certain is said already.
    graded(judged, coverage * decided, |why| match coverage < WHOLE {
        true => format!(
            "{why}, in {:.1} % of the CPUs' time: {LACK}",
            coverage * 100.0
        ),
        false => format!("{why}; of the others the counts are known to within a range only"),
    })
}

fn ipis(on: &Evidence, coverage: f64) -> Fit {
    covered(rules::ipis(on), coverage)
}

fn throughput_fit(facts: &Facts, throughput: &Known<Throughput>, coverage: f64) -> Fit {
    let found = match throughput {
        Known::Value(found) => found,
        Known::Unknown { unknown } => return covered(rules::no(unknown.as_str()), 0.0),
    };
    if found.named_throughput {
        let (units, unit) = (found.units, &found.unit);
        let were = agree(units, "was", "were");
        let counted = format!("{} of work ({unit}) {were} counted", many(units, "unit"));
        return covered(rules::yes(counted), coverage);
    }
    let advice = match markers(facts) {
        0 => "name one with --work task:NAME, event:NAME or total:N".to_owned(),
        markers => format!(
            "the trace holds {}: name one with --work marker:PREFIX",
            many(markers as u64, "marker")
        ),
    };
    let why = format!("no unit of work was named, so only wakeups per second are known; {advice}");
    covered(rules::partly(why), coverage)
}

/// Texts in the trace of which units of work could be made.
fn markers(facts: &Facts) -> usize {
    facts.survey.markers.len() + facts.survey.markers_left_out
}
