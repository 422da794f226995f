//! One sentence that names the largest loss, and one that names what the time of a unit of work could lose most of.

use std::cmp::Reverse;

use super::glossary::{self, VERDICTS};
use super::units::{duration, percent};
use super::{given, ledger, most, path};
use crate::attribute::answer::{Answer, Readings};
use crate::replay::words::{Category, Verdict};

/// A share of CPU time below which no row is called a loss: what prints as `0.0 %`.
const NEGLIGIBLE: f64 = 0.0005;
/// Below this share of CPU time, full CPUs are the better headline.
const SMALL: f64 = 0.01;
/// CPUs that run this share of the time, and tasks that wait this share of theirs for want of an idle CPU,
/// make a saturated machine.
const BUSY: f64 = 0.9;
const SATURATED: f64 = 0.5;

/// A ledger row that is a loss.
struct Loss {
    word: &'static str,
    ns: Readings<i64>,
    share: Readings<f64>,
}

impl Loss {
    /// Time in transit is no lost capacity: the CPU does the task's work right after.
    fn called(&self) -> &'static str {
        match self.word {
            "transit" => "Largest delay",
            _ => "Largest loss",
        }
    }

    /// The middle of the readings: the one number that losses are ranked by.
    fn rank(&self) -> f64 {
        let shares: Vec<f64> = given(self.share).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }
}

/// Names the part of the critical path of which the removal would gain most, where a unit of work is named.
pub fn of_work(answer: &Answer) -> Option<String> {
    let throughput = answer.throughput.value()?;
    let critical = &throughput.critical;
    if !throughput.named_throughput || throughput.units == 0 {
        return None;
    }
    let removable = Category::ALL.iter().filter_map(|category| {
        let gain = critical.gain_at_most.get(category.as_str())?.value()?;
        let ns = *critical.path_ns.get(category.as_str())?;
        (ns > 0).then_some((ns, *gain, *category))
    });
    let (ns, gain, category) =
        removable.max_by_key(|(ns, _, category)| (*ns, Reverse(*category as u8)))?;
    let word = category.as_str();
    let share = critical.path_share.get(word).copied().unwrap_or(0.0);
    let each = |ns: i64| duration((ns as f64 / throughput.units as f64).round() as i64);
    let mostly = match path::mostly(critical, category) {
        mostly if mostly.is_empty() => String::new(),
        mostly => format!("; mostly {mostly}"),
    };
    Some(format!(
        "Largest part of a unit's time that could go: {word}, {} ({} of {}), gain at most {}{mostly}.",
        percent(share),
        each(ns),
        each(critical.path.total_ns),
        percent(gain),
    ))
}

/// The sentence on CPU time.
pub fn sentence(answer: &Answer) -> String {
    let losses = losses(answer);
    let worst = losses.iter().max_by(|a, b| a.rank().total_cmp(&b.rank()));
    let saturated = saturated(answer);
    let worst = worst.filter(|worst| worst.rank() >= NEGLIGIBLE);
    match (worst, saturated) {
        (Some(worst), Some(text)) if worst.rank() < SMALL => {
            format!(
                "{text} {} besides: {}",
                worst.called(),
                describe(worst, answer)
            )
        }
        (Some(worst), _) => format!("{}: {}", worst.called(), describe(worst, answer)),
        (None, Some(text)) => text,
        (None, None) => nothing_lost(answer),
    }
}

fn losses(answer: &Answer) -> Vec<Loss> {
    let ledger = &answer.ledger;
    let transit = |value: f64| {
        let given = ledger.idle_share;
        Readings {
            seen: given.seen.map(|_| value),
            any: given.any.map(|_| value),
        }
    };
    let mut losses = vec![Loss {
        word: "transit",
        ns: Readings {
            seen: Some(ledger.transit_ns),
            any: None,
        },
        share: transit(ledger.transit_share),
    }];
    let waiting = ledger::waiting(ledger).into_iter();
    losses.extend(waiting.map(|(word, ns, share)| Loss { word, ns, share }));
    losses
}

fn describe(loss: &Loss, answer: &Answer) -> String {
    let share = range(loss.share, percent);
    let time = range(loss.ns, duration);
    let what = match loss.word {
        "transit" => {
            "went by on CPUs that ran nothing while a task was on its way to them: IPI and idle exit"
        }
        "waiting-llc core" => {
            "was spent by wholly idle cores while tasks waited elsewhere in their LLC"
        }
        "waiting-llc smt" => {
            "was spent by idle threads of busy cores while tasks waited elsewhere in their LLC"
        }
        "waiting-machine" => "was spent by idle CPUs while tasks waited in another LLC",
        _ => "was spent by idle CPUs while tasks waited elsewhere",
    };
    let more = match loss.word {
        // What the work lost most by is told in the sentence before.
        _ if of_work(answer).is_some() => String::new(),
        "transit" => commonest_path(answer),
        _ => verdict_with_most_lost(answer),
    };
    // Beside the CPU capacity that is lost to waiting tasks this would be taken for the same.
    let word = match loss.word {
        "transit" => "transit: delay, not lost capacity",
        word => word,
    };
    format!("{share} of CPU time ({time}) {what} ({word}).{more}")
}

/// The path that more than half of the wakeups took, and how many crossed LLCs, as a sentence.
fn commonest_path(answer: &Answer) -> String {
    let wakeups = &answer.wakeups;
    let commonest = wakeups
        .by_path
        .iter()
        .max_by_key(|(word, n)| (**n, Reverse(**word)));
    let Some((path, n)) = commonest.filter(|(_, n)| **n > wakeups.total / 2) else {
        return String::new();
    };
    let share = percent(*n as f64 / wakeups.total.max(*n) as f64);
    let crossing = match wakeups.cross_llc_share.value() {
        Some(share) => format!("; {} crossed LLCs", percent(*share)),
        None => String::new(),
    };
    format!(" Of all wakeups {share} took the path {path}{crossing}.")
}

/// The verdict that most of the lost time has, as a sentence.
fn verdict_with_most_lost(answer: &Answer) -> String {
    let verdicts = &answer.waits.by_verdict;
    let total: i64 = verdicts.values().map(|f| most(f.lost_ns)).sum();
    // What the recorder waited for is part of the loss, but no cause to look into.
    let causes = verdicts
        .iter()
        .filter(|(word, _)| **word != Verdict::Recorder.as_str());
    let worst = causes.max_by_key(|(word, f)| (most(f.lost_ns), Reverse(**word)));
    match worst {
        Some((word, facts)) if total > 0 && most(facts.lost_ns) > 0 => {
            let share = percent(most(facts.lost_ns) as f64 / total as f64);
            let brief = glossary::brief(&VERDICTS, word);
            format!(" Of lost waiting time {share} has the verdict {word}: {brief}.")
        }
        _ => String::new(),
    }
}

/// `1.2 %`, or `1.2 % to 3.4 %` where the readings print differently.
fn range<T: Copy>(readings: Readings<T>, show: impl Fn(T) -> String) -> String {
    let mut shown: Vec<String> = given(readings).map(show).collect();
    shown.dedup();
    shown.join(" to ")
}

/// Says that CPUs were full, if they were.
fn saturated(answer: &Answer) -> Option<String> {
    let ledger = &answer.ledger;
    let known = 1.0 - ledger.unknown_share;
    let facts = answer.waits.by_verdict.get(Verdict::Saturated.as_str())?;
    let share = given(facts.wait_share).fold(f64::INFINITY, f64::min);
    (known > 0.0 && ledger.running_share / known >= BUSY && share >= SATURATED && share.is_finite()).then(|| {
        format!(
            "The machine was saturated: CPUs ran tasks {} of the {}, and {} of all waiting ({}) found no \
             eligible CPU idle.",
            percent(ledger.running_share / known),
            if ledger.unknown_share < SMALL { "time" } else { "time that is known" },
            percent(share),
            duration(most(facts.wait_ns)),
        )
    })
}

fn nothing_lost(answer: &Answer) -> String {
    let ledger = &answer.ledger;
    let waiting = given(ledger.waiting_share).fold(0.0, f64::max);
    format!(
        "Nothing to speak of was lost: transit and waiting together are {} of CPU time; CPUs ran tasks {} of it.",
        percent(ledger.transit_share + waiting),
        percent(ledger.running_share),
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::{answer, same, two};
    use super::*;
    use crate::attribute::answer::{Known, WaitingLlc};

    /// An answer without any loss.
    fn idle() -> Answer {
        let mut answer = answer();
        let ledger = &mut answer.ledger;
        (ledger.transit_ns, ledger.transit_share) = (1_000, 0.000_001);
        let none = WaitingLlc {
            core: same(0),
            smt: same(0),
        };
        ledger.waiting_llc_ns = Known::Value(none);
        ledger.waiting_llc_share = Known::Value(WaitingLlc {
            core: same(0.0),
            smt: same(0.0),
        });
        ledger.waiting_machine_ns = Known::Value(same(0));
        ledger.waiting_machine_share = Known::Value(same(0.0));
        ledger.waiting_share = same(0.0);
        for facts in answer.waits.by_verdict.values_mut() {
            (facts.wait_share, facts.lost_ns) = (same(0.0), same(0));
        }
        answer
    }

    #[test]
    fn the_largest_row_leads_with_both_readings() {
        let text = sentence(&answer());
        assert!(
            text.starts_with("Largest loss: 7.8 % to 11.7 % of CPU time (40.00 s to 60.00 s) was spent by wholly idle cores"),
            "{text}"
        );
    }

    #[test]
    fn transit_leads_where_it_is_largest() {
        let mut answer = idle();
        (answer.ledger.transit_ns, answer.ledger.transit_share) = (5_000_000_000, 0.0098);
        let text = sentence(&answer);
        assert!(
            text.starts_with("Largest delay: 1.0 % of CPU time (5.000 s) went by"),
            "{text}"
        );
    }

    /// CPU time and waiting time stand side by side: each says which it is.
    #[test]
    fn transit_is_told_apart_from_lost_capacity() {
        let mut answer = idle();
        (answer.ledger.transit_ns, answer.ledger.transit_share) = (5_000_000_000, 0.0098);
        assert!(sentence(&answer).contains("(transit: delay, not lost capacity)."));
        assert!(!sentence(&super::super::sample::answer()).contains("delay"));
    }

    /// What would help the work most may be no loss of CPU time at all.
    #[test]
    fn the_part_of_a_unit_that_could_go_is_named() {
        let mut answer = idle();
        let Known::Value(throughput) = &mut answer.throughput else {
            panic!("the sample has throughput");
        };
        throughput.critical = super::super::sample::path();
        (throughput.named_throughput, throughput.units) = (true, 1000);
        let critical = &mut throughput.critical;
        critical
            .gain_at_most
            .insert("transit", Known::unknown("not asked"));
        let expected = "Largest part of a unit's time that could go: wait, 20.0 % (2.0 µs of 10.0 µs), gain at most 25.0 %; \
                        mostly stacked-pull, while lab-waker ran.";
        assert_eq!(of_work(&answer).as_deref(), Some(expected));
        if let Known::Value(throughput) = &mut answer.throughput {
            throughput.named_throughput = false;
        }
        assert_eq!(of_work(&answer), None);
    }

    #[test]
    fn nothing_lost_and_saturation_are_said() {
        let mut answer = idle();
        let text = sentence(&answer);
        assert!(
            text.starts_with(
                "Nothing to speak of was lost: transit and waiting together are <0.1 %"
            ),
            "{text}"
        );
        (answer.ledger.running_share, answer.ledger.unknown_share) = (0.96, 0.0);
        if let Some(facts) = answer.waits.by_verdict.get_mut("saturated") {
            facts.wait_share = two(0.97, 0.96);
        }
        let text = sentence(&answer);
        assert!(
            text.starts_with(
                "The machine was saturated: CPUs ran tasks 96.0 % of the time, and 96.0 %"
            ),
            "{text}"
        );
        answer.ledger.transit_share = 0.005;
        assert!(sentence(&answer).contains("idle. Largest delay besides: 0.5 % of CPU time"));
    }

    #[test]
    fn without_a_topology_the_sum_leads() {
        let mut answer = answer();
        answer.ledger.waiting_machine_ns = Known::unknown("no topology");
        let text = sentence(&answer);
        assert!(text.starts_with("Largest loss: 8.0 % to 12.1 % of CPU time (41.00 s to 62.00 s) was spent by idle CPUs"), "{text}");
    }
}
