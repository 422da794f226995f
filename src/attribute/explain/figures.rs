//! The numbers of the report behind a word, each under its name in the JSON report.

use serde::Serialize;
use serde_json::Value;

use super::senses::{Kind, Sense};
use crate::attribute::answer::Answer;

/// A number of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its dotted name in the report's JSON.
    pub name: &'static str,
    /// What it is, in a few words.
    pub says: &'static str,
    /// As the report has it: a number, `{seen, any}`, `{value, ci95, n}`, `{unknown}`, or several by word.
    pub value: Value,
    #[serde(skip)]
    pub unit: Unit,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Nanoseconds,
    Share,
    Text,
}

use Unit::{Count, Nanoseconds, Share, Text};

type Named = (&'static str, &'static str, Unit);

const WAITING: [Named; 2] = [
    (
        "ledger.waiting_ns",
        "CPU time in the waiting rows",
        Nanoseconds,
    ),
    ("ledger.waiting_share", "of all CPU time", Share),
];
const WITHHELD: [Named; 2] = [
    ("waits.withheld.count", "how often", Count),
    ("waits.withheld.ns", "how long in all", Nanoseconds),
];
const WITHDRAWN: [Named; 3] = [
    (
        "waits.withdrawn.lost_events",
        "waits in which events are missing",
        Count,
    ),
    (
        "waits.withdrawn.inconsistent",
        "waits whose events contradict each other",
        Count,
    ),
    (
        "migrations.withdrawn",
        "moves of which the run that followed is not known",
        Count,
    ),
];
const CAPACITY: [Named; 1] = [(
    "throughput.lost_capacity_share",
    "lost, of the CPU time that tasks could use",
    Share,
)];
const COLD_CACHE: [Named; 4] = [
    ("cross_llc.cold_cache", "cost in all", Nanoseconds),
    (
        "cross_llc.basis.cold_cache.crossing",
        "wakeups that cross",
        Count,
    ),
    (
        "cross_llc.basis.cold_cache.coverage",
        "of them compared",
        Share,
    ),
    (
        "throughput.running_within.cold_cache",
        "on the critical path",
        Nanoseconds,
    ),
];
const TRANSFER: [Named; 4] = [
    ("cross_llc.transfer", "cost in all", Nanoseconds),
    (
        "cross_llc.basis.transfer.crossing",
        "wakeups that cross",
        Count,
    ),
    (
        "cross_llc.basis.transfer.coverage",
        "of them compared",
        Share,
    ),
    (
        "throughput.running_within.transfer",
        "on the critical path",
        Nanoseconds,
    ),
];
const BOUNCES: [Named; 4] = [
    ("flips.bounces.count", "bounces", Count),
    (
        "flips.bounces.within_ns",
        "back within, to be one",
        Nanoseconds,
    ),
    ("flips.bounces.tasks", "tasks that bounced", Count),
    (
        "flips.bounces.lost_ns",
        "lost while away or after the return",
        Nanoseconds,
    ),
];
const UNIT: [Named; 5] = [
    ("throughput.unit", "what is counted", Text),
    ("throughput.units", "how many", Count),
    ("throughput.per_second", "a second", Count),
    ("throughput.time_per_unit_ns", "time of each", Nanoseconds),
    (
        "throughput.units_missed_at_most",
        "so many more at most, that no marker tells",
        Count,
    ),
];
const GAIN: [Named; 1] = [("throughput.gain_at_most", "by part", Share)];
const MOSTLY: [Named; 1] = [("throughput.path_share", "shares of the path by part", Share)];
const MOVED: [Named; 3] = [
    ("migrations.total", "moves", Count),
    ("migrations.totals", "by cause", Count),
    ("migrations.cross_llc_share", "to another LLC", Share),
];
const CROSSING: [Named; 1] = [("wakeups.cross_llc_share", "of all wakeups", Share)];
const STACKED: [Named; 2] = [
    (
        "waits.by_verdict.stacked-prev.count",
        "waits with the verdict stacked-prev",
        Count,
    ),
    (
        "waits.by_verdict.stacked-pull.count",
        "waits with the verdict stacked-pull",
        Count,
    ),
];
const OPEN: [Named; 3] = [
    ("flips.policies.kernel.undecided", "undecided", Count),
    ("flips.policies.kernel.warming_up", "warming up", Count),
    ("flips.judged", "of judged wakeups", Count),
];

fn named(sense: Sense) -> &'static [Named] {
    match (sense.kind, sense.word) {
        (Kind::Label, "waiting" | "lost") => &WAITING,
        (Kind::Label, "lost CPU capacity") => &CAPACITY,
        (Kind::Label, "withheld") => &WITHHELD,
        (Kind::Label, "withdrawn") => &WITHDRAWN,
        (Kind::Label, "cold cache") => &COLD_CACHE,
        (Kind::Label, "transfer") => &TRANSFER,
        (Kind::Label, "bounces") => &BOUNCES,
        (Kind::Label, "unit") => &UNIT,
        (Kind::Label, "gain at most") => &GAIN,
        (Kind::Label, "mostly") => &MOSTLY,
        (Kind::Label, "moved") => &MOVED,
        (Kind::Label, "xLLC") => &CROSSING,
        (Kind::Label, "stacked") => &STACKED,
        (Kind::Label, "open") => &OPEN,
        _ => &[],
    }
}

/// The figures of a word in this trace.
pub fn figures(answer: &Answer, sense: Sense) -> Vec<Figure> {
    let named = named(sense);
    // Only of these few sections a copy is made, not of all tasks and pairs.
    let section = |name: &str| match name {
        "ledger" => serde_json::to_value(&answer.ledger),
        "waits" => serde_json::to_value(&answer.waits),
        "wakeups" => serde_json::to_value(&answer.wakeups),
        "cross_llc" => serde_json::to_value(&answer.cross_llc),
        "migrations" => serde_json::to_value(&answer.migrations),
        "flips" => serde_json::to_value(&answer.flips),
        _ => serde_json::to_value(&answer.throughput),
    };
    let figures = named.iter().filter_map(|(name, says, unit)| {
        let (of, rest) = name.split_once('.')?;
        Some(Figure {
            name,
            says,
            value: at(section(of).ok()?, rest)?,
            unit: *unit,
        })
    });
    figures.collect()
}

/// What stands under a dotted name; what is not known on the way there is not known below either.
fn at(mut of: Value, name: &str) -> Option<Value> {
    for key in name.split('.') {
        if of.get("unknown").is_some_and(Value::is_string) {
            break;
        }
        of = of.get_mut(key)?.take();
    }
    Some(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers_and_to_reasons() {
        let of = || serde_json::json!({"a": {"b": 3}, "c": {"unknown": "why"}});
        assert_eq!(at(of(), "a.b"), Some(3.into()));
        assert_eq!(
            at(of(), "c.d.e"),
            Some(serde_json::json!({"unknown": "why"}))
        );
        assert_eq!(at(of(), "a.x"), None);
    }

    /// Every label has its numbers.
    #[test]
    fn labels_have_figures() {
        for word in Kind::Label.words() {
            let sense = Sense {
                kind: Kind::Label,
                word,
            };
            assert!(!named(sense).is_empty(), "{word}");
        }
    }
}
