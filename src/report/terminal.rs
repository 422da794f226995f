//! The report for people: the largest loss in a sentence, then the tables it comes from, within a screen.

use super::table::{FAINT, HEADING, push_line, push_paragraph};
use super::units::{count, counted, duration, percent};
use super::{headline, ledger, waits, wakeups, worst};
use crate::attribute::answer::{Answer, Known, RecorderFacts};

/// Lines of a screen: what could not be known takes the room that the tables leave.
const SCREEN: usize = 48;
/// Lines that are left for what could not be known, at least; the rest is in the JSON report.
const LIMIT_LINES: usize = 3;

/// Lays the report out, at most 80 columns wide, with ANSI styles. `top` limits the worst tasks and pairs.
pub fn render(answer: &Answer, top: usize) -> String {
    let mut out = String::new();
    push_paragraph(&mut out, "", &about(answer), Some(FAINT));
    push_paragraph(&mut out, "", &headline::sentence(answer), Some(HEADING));
    out.push('\n');
    ledger::push(&answer.ledger, &mut out);
    if let Known::Value(recorder) = &answer.trace.recorder {
        push_recorder(recorder, &mut out);
    }
    out.push('\n');
    waits::push(&answer.waits, &mut out);
    out.push('\n');
    wakeups::push_paths(&answer.wakeups, &mut out);
    wakeups::push_distances(&answer.wakeups, &mut out);
    wakeups::push_facts(&answer.wakeups, &mut out);
    wakeups::push_probed(&answer.wakeups, &mut out);
    out.push('\n');
    worst::push_tasks(answer.tasks.get(..top).unwrap_or(&answer.tasks), &mut out);
    worst::push_pairs(answer.pairs.get(..top).unwrap_or(&answer.pairs), &mut out);
    let room = SCREEN.saturating_sub(out.lines().count());
    push_limits(answer, room, &mut out);
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

/// Says what the recorder itself used, if it ran at all.
fn push_recorder(recorder: &RecorderFacts, out: &mut String) {
    if recorder.running_ns == 0 {
        return;
    }
    let text = format!(
        "recorder: {} ran {} ({}), {}",
        counted(recorder.tasks, "thread"),
        duration(recorder.running_ns),
        percent(recorder.running_share),
        match recorder.left_out {
            true => "left out of the causes",
            false => "counted as any other task",
        }
    );
    push_paragraph(out, "  ", &text, None);
}

/// Says what could not be known, and why, in `room` lines or little more.
fn push_limits(answer: &Answer, room: usize, out: &mut String) {
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
    // A blank line and the heading are above.
    push_first(&limits, room.saturating_sub(2).max(LIMIT_LINES), out);
}

/// Puts those of the limits that fit into so many lines, at least one, and says how many are left.
fn push_first(limits: &[String], room: usize, out: &mut String) {
    let mut left = room;
    for (index, limit) in limits.iter().enumerate() {
        let mut paragraph = String::new();
        push_paragraph(&mut paragraph, "- ", limit, None);
        let lines = paragraph.lines().count();
        // Where others follow, a line is needed to say so.
        let needed = lines + usize::from(index + 1 < limits.len());
        if index > 0 && needed > left {
            let more = counted((limits.len() - index) as u64, "remark");
            push_line(out, &format!("- {more} more with --json"), None);
            return;
        }
        out.push_str(&paragraph);
        left = left.saturating_sub(lines);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::answer;
    use super::*;

    fn plain(answer: &Answer) -> String {
        anstream::adapter::strip_str(&render(answer, 3)).to_string()
    }

    /// The fullest answer there can be is longer than a screen, but not by more than its tables need.
    #[test]
    fn the_fullest_answer_is_little_longer_than_a_screen() {
        let text = plain(&answer());
        let lines = text.lines().count();
        assert!(lines <= SCREEN + 12, "{lines} lines\n{text}");
    }

    #[test]
    fn the_recorder_has_a_line_if_it_ran() {
        let line = |running_ns, left_out| {
            let mut out = String::new();
            let recorder = RecorderFacts {
                tasks: 3,
                running_ns,
                running_share: 0.001,
                wakeups: 5,
                waits: 4,
                left_out,
            };
            push_recorder(&recorder, &mut out);
            anstream::adapter::strip_str(&out).to_string()
        };
        assert_eq!(
            line(12_300_000, true),
            "  recorder: 3 threads ran 12.3 ms (0.1 %), left out of the causes\n"
        );
        assert!(line(12_300_000, false).ends_with("counted as any other task\n"));
        assert_eq!(line(0, true), "");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let limits: Vec<String> = (0..9).map(|n| format!("limit {n}")).collect();
        let mut out = String::new();
        push_first(&limits, 4, &mut out);
        assert_eq!(
            out,
            "- limit 0\n- limit 1\n- limit 2\n- 6 remarks more with --json\n"
        );
        out.clear();
        push_first(&limits[..4], 4, &mut out);
        assert_eq!(out.lines().count(), 4);
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
