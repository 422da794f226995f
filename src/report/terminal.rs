//! The report for people: the largest loss in a sentence, then the tables it comes from, within a screen.

use super::table::{FAINT, HEADING, push_line, push_paragraph};
use super::units::{count, counted, duration};
use super::{headline, ledger, waits, wakeups, worst};
use crate::attribute::answer::Answer;

/// Lines after which no further limit is begun; the rest is in the JSON report.
const LIMIT_LINES: usize = 6;

/// Lays the report out, at most 80 columns wide, with ANSI styles. `top` limits the worst tasks and pairs.
pub fn render(answer: &Answer, top: usize) -> String {
    let mut out = String::new();
    push_paragraph(&mut out, "", &about(answer), Some(FAINT));
    push_paragraph(&mut out, "", &headline::sentence(answer), Some(HEADING));
    out.push('\n');
    ledger::push(&answer.ledger, &mut out);
    out.push('\n');
    waits::push(&answer.waits, &mut out);
    out.push('\n');
    wakeups::push_paths(&answer.wakeups, &mut out);
    wakeups::push_distances(&answer.wakeups, &mut out);
    wakeups::push_facts(&answer.wakeups, &mut out);
    out.push('\n');
    worst::push_tasks(answer.tasks.get(..top).unwrap_or(&answer.tasks), &mut out);
    worst::push_pairs(answer.pairs.get(..top).unwrap_or(&answer.pairs), &mut out);
    push_limits(answer, &mut out);
    out
}

/// What was analysed, in a line.
fn about(answer: &Answer) -> String {
    let trace = &answer.trace;
    let mut parts = vec![
        trace.format.clone(),
        format!("kernel model {}", trace.kernel_model),
    ];
    let cpus = counted(trace.cpus.len() as u64, "CPU");
    parts.push(match trace.topology.llcs.value() {
        Some(llcs) => format!("{cpus} in {}", counted(llcs.len() as u64, "LLC")),
        None => format!("{cpus}, LLCs unknown"),
    });
    parts.push(duration(trace.end_ns.saturating_sub(trace.start_ns)));
    parts.push(counted(trace.events, "event"));
    if trace.lost_events > 0 {
        parts.push(format!("{} lost", count(trace.lost_events)));
    }
    parts.join(", ")
}

/// Says what could not be known, and why.
fn push_limits(answer: &Answer, out: &mut String) {
    let mut limits = Vec::new();
    let fitness = &answer.fitness;
    let fits = [
        ("latency", &fitness.latency),
        ("missed idle CPUs", &fitness.missed_idle),
        ("cross-LLC wakeups", &fitness.cross_llc),
    ];
    for (name, fit) in fits {
        if fit.fit != "yes" {
            // What a caveat says in full is not said twice.
            let told = answer
                .caveats
                .iter()
                .any(|c| c.contains(&fit.why) || fit.why.contains(c));
            let why = if told {
                String::new()
            } else {
                format!(" ({})", fit.why)
            };
            limits.push(format!("Fit for {name}: {}{why}", fit.fit));
        }
    }
    limits.extend(answer.caveats.iter().cloned());
    if limits.is_empty() {
        return;
    }
    out.push('\n');
    push_line(out, "What this trace cannot show", Some(HEADING));
    let mut printed = String::new();
    for (index, limit) in limits.iter().enumerate() {
        if printed.lines().count() >= LIMIT_LINES {
            let more = counted((limits.len() - index) as u64, "remark");
            push_line(&mut printed, &format!("- {more} more with --json"), None);
            break;
        }
        push_paragraph(&mut printed, "- ", limit, None);
    }
    out.push_str(&printed);
}

#[cfg(test)]
mod tests {
    use super::super::sample::answer;
    use super::*;

    fn plain(answer: &Answer) -> String {
        anstream::adapter::strip_str(&render(answer, 3)).to_string()
    }

    /// The widest answer there can be: every row, both readings, hostile names.
    #[test]
    fn never_wider_than_80_columns() {
        let text = plain(&answer());
        for line in text.lines() {
            let wide = line
                .chars()
                .filter(|c| ('\u{2e80}'..='\u{ffff}').contains(c))
                .count();
            assert!(line.chars().count() + wide <= 80, "{line}\n{text}");
        }
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(
            text.contains("4194303") && text.contains("4194304"),
            "{text}"
        );
    }
}
