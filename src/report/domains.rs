//! Scheduler domains against the caches, in one line.

use ttwu_parsers::topology::cpulist::format_list;

use super::table::{ALARM, FAINT, push_line};
use super::units::short_counted;
use crate::attribute::answer::{DomainBehaviour, DomainMasks, Domains, Known};

/// Puts one line behind `out`, or none where neither masks nor placements tell anything.
pub fn push(domains: &Known<Domains>, out: &mut String) {
    if push_alarms(domains, out) {
        return;
    }
    let Some(domains) = domains.value() else {
        return;
    };
    if domains.masks.value().is_some() {
        push_line(
            out,
            "Domains: the kernel's LLCs are the caches'",
            Some(FAINT),
        );
    } else if domains.behaviour.value().is_some_and(|b| b.outside == 0) {
        let line = "Domains: every wakeup stayed in the LLC of the waker or of its last CPU";
        push_line(out, line, Some(FAINT));
    }
}

/// Puts a line behind `out` where the kernel's LLCs are not the caches'; whether they are not.
pub fn push_alarms(domains: &Known<Domains>, out: &mut String) -> bool {
    let Some(domains) = domains.value() else {
        return false;
    };
    let alarms = [
        domains.masks.value().and_then(differing),
        domains.behaviour.value().and_then(wider),
    ];
    let alarms: Vec<String> = alarms.into_iter().flatten().collect();
    if alarms.is_empty() {
        return false;
    }
    let line = format!("Domains: {}", alarms.join("; "));
    push_line(out, &line, Some(ALARM));
    true
}

/// CPUs shown of a list that may be long.
const LIST: usize = 12;

fn differing(masks: &DomainMasks) -> Option<String> {
    let of = |fit: &str| masks.cpus.get(fit).filter(|cpus| !cpus.is_empty());
    let (fit, cpus) = ["wider", "crossing", "narrower"]
        .iter()
        .find_map(|fit| Some((*fit, of(fit)?)))?;
    let list = format_list(cpus);
    let list = match list.char_indices().nth(LIST) {
        Some((end, _)) => format!("{}…", list.get(..end).unwrap_or_default()),
        None => list,
    };
    let fit = match fit {
        "crossing" => "other",
        fit => fit,
    };
    Some(format!("LLC {fit} than the cache on CPUs {list}"))
}

fn wider(behaviour: &DomainBehaviour) -> Option<String> {
    (behaviour.verdict == "wider")
        .then(|| format!("{} outside", short_counted(behaviour.outside, "wakeup")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::answer::ByWord;
    use crate::report::WIDTH;

    fn domains(wider: Vec<u32>, outside: u64) -> Known<Domains> {
        Known::Value(Domains {
            masks: Known::Value(DomainMasks {
                domains: "the machine record".to_owned(),
                caches: "a spec".to_owned(),
                cpus: ByWord::from([("equal", vec![0]), ("wider", wider)]),
                differences: Vec::new(),
            }),
            behaviour: Known::Value(DomainBehaviour {
                placements: 1_234_567_890,
                outside,
                outside_share: 0.999,
                tasks: 3,
                verdict: if outside > 9 { "wider" } else { "few" },
                least: 10,
                least_share: 0.01,
                examples: Vec::new(),
            }),
        })
    }

    fn shown(domains: &Known<Domains>) -> String {
        let mut out = String::new();
        push(domains, &mut out);
        let shown = anstream::adapter::strip_str(&out).to_string();
        assert!(shown.lines().count() <= 1, "{shown}");
        assert!(
            shown.lines().all(|line| line.chars().count() <= WIDTH),
            "{shown}"
        );
        shown
    }

    #[test]
    fn one_line_says_what_differs() {
        let cpus = (0..4096).step_by(2).collect();
        let both = shown(&domains(cpus, 1_234_567_890));
        assert!(
            both.contains("LLC wider than the cache on CPUs 0,2,4,6,8,10…"),
            "{both}"
        );
        assert!(both.contains("1.2G wakeups outside"), "{both}");
        let equal = shown(&domains(Vec::new(), 3));
        assert_eq!(
            equal.trim_end(),
            "Domains: the kernel's LLCs are the caches'"
        );
        assert_eq!(shown(&Known::unknown("nothing")), "");
    }
}
