//! What the short report says of single sections, in a line or two each.

use super::table::push_paragraph;
use super::units::{count, counted, duration, percent, short_count};
use super::{domains, most};
use crate::attribute::answer::{Answer, Bounces, CrossLlc, Flips, Ipis, Known, Migrations};

/// Causes and kinds that are named.
const NAMED: usize = 3;

/// Puts what crossing LLCs cost behind `out`: a table where any of it is known, else a line.
pub fn push_cross_llc(crossing: &Known<CrossLlc>, out: &mut String) {
    let Some(found) = crossing.value() else {
        return;
    };
    let costs = [&found.transit, &found.cold_cache, &found.transfer];
    match costs.iter().any(|cost| cost.value().is_some()) {
        true => super::cross_llc::push(crossing, out),
        false => {
            let crossed = counted(found.basis.transit.crossing, "wakeup");
            let text = format!("the cost of {crossed} is not measurable here");
            push_paragraph(out, "Across LLCs: ", &text, None);
        }
    }
}

/// Puts migrations by cause behind `out`, and bounces and domains only if there is something about them.
pub fn push_migrations(answer: &Answer, out: &mut String) {
    if let Known::Value(migrations) = &answer.migrations {
        let told = told_migrations(migrations, answer.flips.bounces.value());
        push_paragraph(out, "Migrations: ", &told, None);
    }
    domains::push_alarms(&answer.domains, out);
}

fn told_migrations(of: &Migrations, bounces: Option<&Bounces>) -> String {
    let mut text = counted(of.total, "move");
    if let Known::Value(share) = of.cross_llc_share {
        text += &format!(", {} to another LLC", percent(share));
    }
    let causes = of.totals.iter().map(|(word, n)| (*word, *n)).collect();
    text += &named(causes);
    if let Some(bounces) = bounces.filter(|bounces| bounces.count > 0) {
        text += &format!(
            "; {} between LLCs, {} lost",
            counted(bounces.count, "bounce"),
            duration(most(bounces.lost_ns))
        );
    }
    text
}

/// Puts what `wake_wide()` said behind `out`, and what the other rule would have said.
pub fn push_flips(flips: &Known<Flips>, out: &mut String) {
    let Known::Value(of) = flips else {
        return;
    };
    let Some(policies) = of.policies.value().filter(|_| of.judged > 0) else {
        return;
    };
    let Some(kernel) = policies.get("kernel") else {
        return;
    };
    let open = kernel.undecided + kernel.warming_up;
    let mut text = format!(
        "{} wide, {} affine, {} open of {} (policy {})",
        count(kernel.wide),
        count(kernel.affine),
        count(open),
        count(of.judged),
        of.kernel_policy,
    );
    let changed = policies.iter().filter(|(_, facts)| facts.changed > 0);
    let changed = changed
        .map(|(word, facts)| (*word, facts.changed))
        .collect();
    let changed = named(changed);
    if !changed.is_empty() {
        text += &format!("; decided otherwise{changed}");
    }
    push_paragraph(out, "wake_wide: ", &text, None);
}

/// Puts interrupts and shootdowns behind `out`.
pub fn push_ipis(ipis: &Known<Ipis>, out: &mut String) {
    let Known::Value(of) = ipis else {
        return;
    };
    let mut text = match of.counted {
        "sends" => format!("{} between CPUs", count(of.total)),
        _ => format!("{} handled", count(of.total)),
    };
    let kinds = of.by_kind.iter().map(|(word, n)| (*word, *n)).collect();
    text += &named(kinds);
    if let Known::Value(latency) = &of.latency_ns {
        text += &format!("; p50 {} to the handler", duration(latency.p50));
    }
    if let Known::Value(stolen) = &of.stolen_ns {
        text += &format!("; {} taken from tasks", duration(*stolen));
    }
    if let Known::Value(tlb) = &of.tlb
        && tlb.remote > 0
    {
        text += &format!("; {}", counted(tlb.remote, "TLB shootdown"));
        if let Known::Value(waited) = tlb.initiator_wait_total_ns {
            text += &format!(", which waited {}", duration(waited));
        }
    }
    push_paragraph(out, "Interrupts: ", &text, None);
}

/// `: most 5, next 3, rarer 2`.
fn named(mut counts: Vec<(&str, u64)>) -> String {
    counts.retain(|(_, n)| *n > 0);
    counts.sort_by_key(|(word, n)| (std::cmp::Reverse(*n), *word));
    let rest: u64 = counts.iter().skip(NAMED).map(|(_, n)| n).sum();
    let first = counts.iter().take(NAMED);
    let mut told: Vec<String> = first
        .map(|(word, n)| format!("{} {}", word.replace('_', " "), short_count(*n)))
        .collect();
    told.extend((rest > 0).then(|| format!("rarer {}", short_count(rest))));
    match told.is_empty() {
        true => String::new(),
        false => format!(": {}", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::answer;
    use super::*;

    fn plain(push: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        push(&mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        assert!(
            plain.lines().all(|line| line.chars().count() <= 80),
            "{plain}"
        );
        plain
    }

    /// The words, without the ends of the lines between them.
    fn words(push: impl Fn(&mut String)) -> String {
        let plain = plain(push);
        let words: Vec<&str> = plain.split_whitespace().collect();
        words.join(" ")
    }

    #[test]
    fn each_is_short_and_names_the_most() {
        let answer = answer();
        let moves = words(|out| push_migrations(&answer, out));
        assert!(
            moves.starts_with("Migrations: 11,111,103 moves, 28.6 % to another LLC: active 1.2M"),
            "{moves}"
        );
        assert!(
            moves.contains("1,234,567 bounces between LLCs, 1.235 s lost"),
            "{moves}"
        );
        assert!(
            moves.contains("Domains: LLC wider than the cache"),
            "{moves}"
        );
        let flips = words(|out| push_flips(&answer.flips.decisions, out));
        assert!(
            flips.starts_with("wake_wide: 1,234,567 wide, 1,234,567 affine, 135,801 open of"),
            "{flips}"
        );
        let ipis = words(|out| push_ipis(&answer.ipis, out));
        assert!(
            ipis.starts_with("Interrupts: 8,641,969 between CPUs: call 1.2M"),
            "{ipis}"
        );
        assert!(ipis.contains("1,234,567 TLB shootdowns"), "{ipis}");
        let texts = [moves, flips, ipis];
        assert!(
            texts.iter().all(|text| text.lines().count() <= 4),
            "{texts:?}"
        );
    }

    #[test]
    fn costs_are_a_table_only_where_there_are_any() {
        let mut answer = answer();
        let table = plain(|out| push_cross_llc(&answer.cross_llc, out));
        assert_eq!(table.lines().count(), 4, "{table}");
        if let Known::Value(found) = &mut answer.cross_llc {
            found.transit = Known::unknown("too few");
            found.cold_cache = Known::unknown("too few");
        }
        let line = plain(|out| push_cross_llc(&answer.cross_llc, out));
        assert_eq!(
            line,
            "Across LLCs: the cost of 1,234,567 wakeups is not measurable here\n"
        );
        assert!(plain(|out| push_cross_llc(&Known::unknown("no topology"), out)).is_empty());
    }
}
