//! The worst tasks and pairs as tables.

use super::table::{Column, Lines, push_paragraph};
use super::units::{duration, percent, short_count, short_percent, stamp};
use super::{Columns, headings, lost, most};
use crate::attribute::answer::{Known, PairFacts, Quantiles, Readings, TaskFacts};
use crate::replay::words::Verdict;

/// Columns of a task's name, alone and in a pair; the kernel's names have 15 bytes.
const NAME: u16 = 16;
const PAIR_NAME: u16 = 13;

/// Puts the worst tasks behind `out`.
pub fn push_tasks(tasks: &[TaskFacts], out: &mut String) {
    if tasks.is_empty() {
        return;
    }
    let losses = Columns::of(tasks.iter().map(|t| t.lost_ns), lost);
    let mut layout = vec![Column::Text(NAME)];
    layout.extend(vec![Column::Number; 6 + losses.count()]);
    let mut header = ["Worst tasks", "pid", "ran", "waited"]
        .map(str::to_owned)
        .to_vec();
    header.extend(headings(losses, "lost"));
    header.extend(["woken", "moved", "p99"].map(str::to_owned));
    let mut lines = Lines::new(layout, header);
    for task in tasks {
        let mut cells = vec![
            task.name.clone(),
            task.pid.to_string(),
            duration(task.run_ns),
            duration(task.wait_ns),
        ];
        cells.extend(losses.cells(task.lost_ns, lost));
        cells.extend([
            short_count(task.wakeups_received),
            short_count(task.migrations),
            p99(&task.latency_ns),
        ]);
        lines.row(cells);
    }
    lines.push_to(out);
}

/// Puts the worst pairs behind `out`.
pub fn push_pairs(pairs: &[PairFacts], out: &mut String) {
    if pairs.is_empty() {
        return;
    }
    let losses = Columns::of(pairs.iter().map(|p| p.lost_ns), lost);
    // There is room for these only where one reading is shown.
    let roomy = losses == Columns::One;
    let stacked = roomy && pairs.iter().any(|p| stacked_wakeups(p) > 0);
    let numbers = 2 + losses.count() + usize::from(roomy) + usize::from(stacked);
    let mut layout = vec![Column::Text(PAIR_NAME), Column::Number];
    layout.extend([Column::Text(PAIR_NAME), Column::Number]);
    layout.extend(vec![Column::Number; numbers]);
    layout.push(Column::Word);
    let mut header = ["Worst pairs", "pid", "wakee", "pid", "wakeups", "xLLC"]
        .map(str::to_owned)
        .to_vec();
    header.extend(roomy.then(|| "p99".to_owned()));
    header.extend(headings(losses, "lost"));
    header.extend(stacked.then(|| "stacked".to_owned()));
    header.push("better".to_owned());
    let mut lines = Lines::new(layout, header);
    for pair in pairs {
        let crossing = pair.cross_llc_share.value();
        let mut cells = vec![
            pair.waker.clone(),
            pair.waker_pid.to_string(),
            pair.wakee.clone(),
            pair.wakee_pid.to_string(),
            short_count(pair.wakeups),
            crossing.map_or_else(|| "-".to_owned(), |share| short_percent(*share)),
        ];
        cells.extend(roomy.then(|| p99(&pair.latency_ns)));
        cells.extend(losses.cells(pair.lost_ns, lost));
        cells.extend(stacked.then(|| short_count(stacked_wakeups(pair))));
        cells.push(pair.stack_or_spread.to_owned());
        lines.row(cells);
    }
    lines.push_to(out);
    push_together(pairs, out);
}

/// Says of pairs that were on one CPU only from some time on what that means for their waits.
fn push_together(pairs: &[PairFacts], out: &mut String) {
    let mut told: Vec<(i32, i32)> = Vec::new();
    for pair in pairs {
        // The same two in the other direction are not told again.
        if told.contains(&(pair.wakee_pid, pair.waker_pid)) {
            continue;
        }
        if let Some(text) = together(pair) {
            push_paragraph(out, "  ", &text, None);
            told.push((pair.waker_pid, pair.wakee_pid));
        }
    }
}

/// A part of a pair's waiting after wakeups that is worth a sentence.
const WORTH: f64 = 0.05;

/// Where both tasks were seen on one CPU only, their waits there are stacked if they might have left it, and no CPU's
/// fault if not.
fn together(pair: &PairFacts) -> Option<String> {
    let one = pair.one_cpu?;
    let share = |words: &[Verdict], reading: fn(Readings<i64>) -> Option<i64>| {
        let of = words
            .iter()
            .filter_map(|word| pair.by_verdict.get(word.as_str()));
        let ns: i64 = of.filter_map(|facts| reading(facts.wait_ns)).sum();
        ns as f64 / pair.wait_ns.max(1) as f64
    };
    let stacked = [Verdict::StackedPrev, Verdict::StackedPull];
    let (seen, any) = (share(&stacked, |r| r.seen), share(&stacked, |r| r.any));
    let bound = share(&[Verdict::Affinity], |r| r.any.or(r.seen));
    let meaning = if any.max(seen) >= WORTH {
        format!(
            "of the wait after these wakeups {} was stacked beside idle CPUs if they might have left it (any), {} if not (seen)",
            percent(any),
            percent(seen)
        )
    } else if bound >= WORTH {
        format!(
            "they might run nowhere else, so that {} of the wait after these wakeups is affinity's",
            percent(bound)
        )
    } else {
        return None;
    };
    Some(format!(
        "{} and {} both ran on CPU {} alone from {} on: {meaning}.",
        pair.waker,
        pair.wakee,
        one.cpu,
        stamp(one.since_ns),
    ))
}

/// Wakeups stacked on the waker; 0 where that is not known.
fn stacked_wakeups(pair: &PairFacts) -> u64 {
    pair.stacked.value().map_or(0, |stacked| most(*stacked))
}

fn p99(known: &Known<Quantiles>) -> String {
    known
        .value()
        .map_or_else(|| "-".to_owned(), |q| duration(q.p99))
}
