//! Wakee flips in a few lines.

use super::WIDTH;
use super::table::{cut, push_line};
use super::units::{count, counted, percent};
use crate::attribute::answer::{Flips, Known, PolicyFacts, RoleFacts};
use crate::wording::agree;

/// Puts at most five lines behind `out`: what the kernel decided, what would have been decided otherwise, how that was
/// checked, and who has a role.
pub fn push(flips: &Flips, out: &mut String) {
    let Known::Value(policies) = &flips.policies else {
        return;
    };
    let Some(kernel) = policies.get("kernel").filter(|_| flips.judged > 0) else {
        return;
    };
    push_fitting(out, &decisions(flips, kernel));
    let changed = |word: &str| policies.get(word).map_or(0, |facts| facts.changed);
    let others = ["zero-new", "halve-new", "loop-new", "halve-old"]
        .into_iter()
        .filter(|word| *word != flips.kernel_policy)
        .map(|word| format!("{} under {word}", count(changed(word))));
    push_fitting(
        out,
        &format!("  otherwise: {}", others.collect::<Vec<_>>().join(", ")),
    );
    if let Known::Value(factors) = &flips.factors {
        let text = format!(
            "  otherwise: {} with LLCs of half as many CPUs, {} with twice as many",
            count(factors.halved.changed),
            count(factors.doubled.changed)
        );
        push_fitting(out, &text);
    }
    push_checks(flips, out);
    push_roles(flips, out);
}

fn decisions(flips: &Flips, kernel: &PolicyFacts) -> String {
    format!(
        "wake_wide ({}): {} wide, {} affine, {} open",
        flips.kernel_policy,
        count(kernel.wide),
        count(kernel.affine),
        count(kernel.undecided + kernel.warming_up)
    )
}

fn push_checks(flips: &Flips, out: &mut String) {
    let mut parts = Vec::new();
    if let Known::Value(check) = flips.probe_check {
        let share = check.inside as f64 / check.checked.max(1) as f64;
        parts.push(format!(
            "{} of {} inside",
            percent(share),
            counted(check.checked, "probed flip")
        ));
    }
    if let Known::Value(pulls) = flips.pull_check {
        parts.push(format!(
            "{} of {} {}",
            count(pulls.wide),
            counted(pulls.pulls, "pull"),
            // `1 of 20` and `0 of 1` are singular.
            match pulls.pulls {
                1 => "contradicts",
                _ => agree(pulls.wide, "contradicts", "contradict"),
            }
        ));
    }
    if !parts.is_empty() {
        push_fitting(out, &format!("  checks: {}", parts.join(", ")));
    }
}

fn push_roles(flips: &Flips, out: &mut String) {
    let one = |facts: &RoleFacts| {
        format!(
            "{} {}-{} ({})",
            facts.role,
            facts.name,
            facts.pid,
            counted(facts.partners, "task")
        )
    };
    let roles = &flips.roles;
    let many = roles
        .one_to_n
        .iter()
        .take(1)
        .chain(roles.n_to_one.iter().take(1));
    let pair = roles.ping_pong.first().map(|pair| {
        format!(
            "ping-pong {}-{} and {}-{}",
            pair.name, pair.pid, pair.other_name, pair.other_pid
        )
    });
    let parts: Vec<String> = many.map(one).chain(pair).collect();
    if !parts.is_empty() {
        push_fitting(out, &format!("  roles: {}", parts.join(", ")));
    }
}

/// Puts a line behind `out`, cut where it would be too long.
fn push_fitting(out: &mut String, line: &str) {
    push_line(out, &cut(line, WIDTH), None);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::attribute::answer::*;

    fn policy(wide: u64, changed: u64) -> PolicyFacts {
        PolicyFacts {
            wide,
            affine: 195,
            undecided: 39,
            warming_up: 9,
            not_asked: 0,
            changed,
        }
    }

    fn role(role: &'static str, name: &str) -> RoleFacts {
        RoleFacts {
            role,
            name: name.to_owned(),
            pid: 4_194_304,
            wakeups: 3_003,
            partners: 12,
            effective_partners: 6.0,
            why: "it is so".to_owned(),
        }
    }

    fn flips(name: &str) -> Flips {
        let words = ["zero-old", "zero-new", "halve-old", "loop-old", "loop-new"];
        let others = words.map(|word| (word, policy(1, 2_052)));
        let kernel = ["halve-new", "kernel"].map(|word| (word, policy(3_444, 0)));
        Flips {
            kernel_policy: "halve-new",
            hz: Hz {
                value: 250,
                source: "assumed".to_owned(),
            },
            late_ns: 0,
            recorded: 3_687,
            perhaps: 1,
            judged: 3_687,
            decided_share: Known::Value(0.98),
            coverage: Known::Value(0.99),
            policies: Known::Value(others.into_iter().chain(kernel).collect()),
            changes: Known::Value(BTreeMap::new()),
            factors: Known::Value(FactorFacts {
                sizes: vec![4],
                source: "a spec".to_owned(),
                halved: policy(9, 130),
                doubled: policy(9, 2_072),
            }),
            probe_check: Known::Value(FlipCheck {
                checked: 3_674,
                inside: 3_674,
                width_le_1: 3_243,
                inside_since_first: 3_674,
            }),
            pull_check: Known::Value(PullCheck {
                pulls: 20,
                affine: 15,
                wide: 0,
                undecided: 5,
                warming_up: 0,
            }),
            tasks: Vec::new(),
            roles: Roles {
                one_to_n: vec![role("1:N", name)],
                n_to_one: vec![role("N:1", name)],
                ping_pong: Vec::new(),
            },
        }
    }

    fn lines(flips: &Flips) -> Vec<String> {
        let mut out = String::new();
        push(flips, &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn five_lines_say_what_was_decided_and_what_would_be() {
        let lines = lines(&flips("waker"));
        let expected = [
            "wake_wide (halve-new): 3,444 wide, 195 affine, 48 open",
            "  otherwise: 2,052 under zero-new, 2,052 under loop-new, 2,052 under halve-old",
            "  otherwise: 130 with LLCs of half as many CPUs, 2,072 with twice as many",
            "  checks: 100.0 % of 3,674 probed flips inside, 0 of 20 pulls contradict",
            "  roles: 1:N waker-4194304 (12 tasks), N:1 waker-4194304 (12 tasks)",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn long_names_are_cut_and_nothing_is_said_of_nothing() {
        let wide = lines(&flips("進捗進捗進捗進捗進捗進捗進捗進捗"));
        let columns = |line: &String| {
            line.chars()
                .map(|c| if c > '\u{1100}' { 2 } else { 1 })
                .sum::<usize>()
        };
        assert!(wide.iter().all(|line| columns(line) <= WIDTH), "{wide:#?}");
        let mut none = flips("waker");
        none.judged = 0;
        assert!(lines(&none).is_empty());
        none = flips("waker");
        none.policies = Known::unknown("the topology is unknown");
        assert!(lines(&none).is_empty());
    }
}
