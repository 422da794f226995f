//! The worst tasks and pairs as tables.

use super::table::{Column, Lines};
use super::units::{count, duration, percent};
use super::{Columns, most};
use crate::attribute::answer::{Known, PairFacts, Quantiles, TaskFacts};

/// Columns of a task's name, alone and in a pair; the kernel's names have 15 bytes.
const NAME: u16 = 16;
const PAIR_NAME: u16 = 13;

/// Puts the worst tasks behind `out`.
pub fn push_tasks(tasks: &[TaskFacts], out: &mut String) {
    if tasks.is_empty() {
        return;
    }
    let losses = Columns::of(tasks.iter().map(|t| t.lost_ns));
    let mut layout = vec![Column::Text(NAME + 2)];
    layout.extend(vec![Column::Number; 6 + losses.count()]);
    let mut header = ["Worst tasks", "pid", "ran", "waited"].map(str::to_owned).to_vec();
    header.extend(lost_headings(losses));
    header.extend(["woken", "moved", "p99"].map(str::to_owned));
    let mut lines = Lines::new(layout, header);
    for task in tasks {
        let mut cells = vec![
            format!("  {}", task.name),
            task.pid.to_string(),
            duration(task.run_ns),
            duration(task.wait_ns),
        ];
        cells.extend(losses.cells(task.lost_ns, lost));
        cells.extend([count(task.wakeups_received), count(task.migrations), p99(&task.latency_ns)]);
        lines.row(cells);
    }
    lines.push_to(out);
}

/// Puts the worst pairs behind `out`.
pub fn push_pairs(pairs: &[PairFacts], out: &mut String) {
    if pairs.is_empty() {
        return;
    }
    let losses = Columns::of(pairs.iter().map(|p| p.lost_ns));
    let stacked = pairs.iter().any(|p| stacked_wakeups(p) > 0);
    let mut layout = vec![Column::Text(PAIR_NAME + 2), Column::Number, Column::Text(PAIR_NAME), Column::Number];
    layout.extend(vec![Column::Number; 3 + losses.count() + usize::from(stacked && losses == Columns::One)]);
    layout.push(Column::Text(9));
    let mut header = ["Worst pairs", "pid", "wakee", "pid", "wakeups"].map(str::to_owned).to_vec();
    header.push("xLLC".to_owned());
    header.push("p99".to_owned());
    header.extend(lost_headings(losses));
    // There is room for it only where one reading is shown.
    let stacked = stacked && losses == Columns::One;
    header.extend(stacked.then(|| "stacked".to_owned()));
    header.push("better".to_owned());
    let mut lines = Lines::new(layout, header);
    for pair in pairs {
        let mut cells = vec![
            format!("  {}", pair.waker),
            pair.waker_pid.to_string(),
            pair.wakee.clone(),
            pair.wakee_pid.to_string(),
            count(pair.wakeups),
            pair.cross_llc_share.value().map_or_else(|| "-".to_owned(), |s| percent(*s)),
            p99(&pair.latency_ns),
        ];
        cells.extend(losses.cells(pair.lost_ns, lost));
        cells.extend(stacked.then(|| count(stacked_wakeups(pair))));
        cells.push(pair.stack_or_spread.to_owned());
        lines.row(cells);
    }
    lines.push_to(out);
}

/// Wakeups stacked on the waker; 0 where that is not known.
fn stacked_wakeups(pair: &PairFacts) -> u64 {
    pair.stacked.value().map_or(0, |stacked| most(*stacked))
}

fn lost_headings(columns: Columns) -> Vec<String> {
    match columns {
        Columns::One => vec!["lost".to_owned()],
        Columns::Two => ["lost seen", "any"].map(str::to_owned).to_vec(),
    }
}

fn lost(ns: i64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns => duration(ns),
    }
}

fn p99(known: &Known<Quantiles>) -> String {
    known.value().map_or_else(|| "-".to_owned(), |q| duration(q.p99))
}
