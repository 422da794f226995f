//! Migrations in a few lines.

use super::table::{FAINT, HEADING, push_line, push_paragraph};
use super::units::{counted, percent, short_count};
use crate::attribute::answer::{Known, Migrations};

/// Causes named in a line.
const NAMED: usize = 4;

/// Puts migrations by cause behind `out`: at most three lines.
pub fn push(migrations: &Known<Migrations>, out: &mut String) {
    let migrations = match migrations {
        Known::Value(migrations) => migrations,
        Known::Unknown { .. } => {
            push_line(
                out,
                "Migrations: unknown without sched_migrate_task",
                Some(HEADING),
            );
            return;
        }
    };
    push_line(
        out,
        &format!("Migrations: {}", total(migrations)),
        Some(HEADING),
    );
    if migrations.total == 0 {
        return;
    }
    push_paragraph(out, "  ", &by_cause(migrations), None);
    push_paragraph(out, "  ", &sure(migrations), Some(FAINT));
}

fn total(migrations: &Migrations) -> String {
    let total = counted(migrations.total, "move");
    match migrations.cross_llc_share.value() {
        Some(share) => format!("{total}, {} to another LLC", percent(*share)),
        None => total,
    }
}

fn by_cause(migrations: &Migrations) -> String {
    let causes = migrations.totals.iter().filter(|(_, n)| **n > 0);
    let mut causes: Vec<(&str, u64)> = causes.map(|(cause, n)| (*cause, *n)).collect();
    causes.sort_by_key(|(cause, n)| (std::cmp::Reverse(*n), *cause));
    let rest: u64 = causes.iter().skip(NAMED).map(|(_, n)| n).sum();
    let named = causes.iter().take(NAMED);
    let mut shown: Vec<String> = named
        .map(|(cause, n)| format!("{cause} {}", short_count(*n)))
        .collect();
    shown.extend((rest > 0).then(|| format!("others {}", short_count(rest))));
    shown.join(", ")
}

fn sure(migrations: &Migrations) -> String {
    let unsure = migrations.unsure_share.value().copied();
    format!(
        "unsure of the cause: {}; run after not known: {}",
        percent(unsure.unwrap_or_default()),
        short_count(migrations.withdrawn)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::answer::ByWord;
    use crate::replay::words::MigrationCause;
    use crate::report::WIDTH;

    fn migrations(each: u64) -> Migrations {
        let causes = || MigrationCause::ALL.iter().map(|cause| cause.as_str());
        Migrations {
            total: each * causes().count() as u64,
            by_cause: ByWord::new(),
            totals: causes().map(|cause| (cause, each)).collect(),
            cross_llc_share: Known::Value(0.123),
            unsure_share: Known::Value(0.001),
            by_confidence: ByWord::new(),
            run_after_ns: ByWord::new(),
            withdrawn: each,
            inferred: 0,
            fork_placements: ByWord::new(),
        }
    }

    #[test]
    fn at_most_three_narrow_lines() {
        let mut out = String::new();
        push(&Known::Value(migrations(123_456_789)), &mut out);
        assert_eq!(out.lines().count(), 3, "{out}");
        let shown = anstream::adapter::strip_str(&out).to_string();
        assert!(
            shown.lines().all(|line| line.chars().count() <= WIDTH),
            "{shown}"
        );
    }

    #[test]
    fn what_there_is_not_is_said() {
        let mut out = String::new();
        push(&Known::unknown("not recorded"), &mut out);
        assert!(out.contains("unknown without sched_migrate_task"));
        let mut out = String::new();
        push(&Known::Value(migrations(3)), &mut out);
        assert!(
            out.contains("active 3, affinity 3, fork_exec 3, newidle 3, others 15"),
            "{out}"
        );
    }
}
