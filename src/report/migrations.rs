//! Migrations and bounces in a few lines.

use super::most;
use super::table::{FAINT, HEADING, push_line};
use super::units::{counted, duration, percent, short_count};
use crate::attribute::answer::{Bounces, BouncingTask, Known, Migrations};

/// Causes named in a line.
const NAMED: usize = 4;
/// Longest name shown: the kernel's have 15 bytes, but escapes make them longer.
const NAME: usize = 15;

/// Puts migrations by cause behind `out`, and bounces: at most five lines.
pub fn push(migrations: &Known<Migrations>, bounces: &Known<Bounces>, out: &mut String) {
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
    push_line(out, &format!("  {}", by_cause(migrations)), None);
    push_line(out, &format!("  {}", sure(migrations)), Some(FAINT));
    if let Some(bounces) = bounces.value() {
        push_line(out, &format!("  {}", bounced(bounces)), None);
        if let Some(worst) = bounces.worst.first() {
            push_line(out, &format!("    {}", worst_task(worst)), None);
        }
    }
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

fn bounced(bounces: &Bounces) -> String {
    if bounces.count == 0 {
        let within = duration(bounces.within_ns);
        return format!("no task went to another LLC and back within {within}");
    }
    format!(
        "bounces between LLCs: {} of {}, lost {}",
        short_count(bounces.count),
        counted(bounces.tasks, "task"),
        duration(most(bounces.lost_ns))
    )
}

fn worst_task(task: &BouncingTask) -> String {
    let at = task.examples.first().map(|example| {
        let times = super::units::stamp(example.out_ns);
        format!(", first at {times}")
    });
    let mut name: String = task.name.chars().take(NAME).collect();
    if name.len() < task.name.len() {
        name.push('…');
    }
    format!(
        "most: {name} {}, {} times{}",
        task.pid,
        short_count(task.bounces),
        at.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::answer::{Bounce, ByWord, Pull, Readings};
    use crate::replay::words::MigrationCause;
    use crate::report::WIDTH;

    fn both<T: Copy>(n: T) -> Readings<T> {
        Readings {
            seen: Some(n),
            any: Some(n),
        }
    }

    fn bounces() -> Bounces {
        let pull = || Pull {
            cause: "wakeup",
            by: Known::Value("waker".to_owned()),
            by_pid: Known::Value(7),
            idle_left: both(1),
        };
        Bounces {
            within_ns: 10_000_000,
            count: 1_234_567,
            later: 0,
            tasks: 12_345,
            away_ns: Known::unknown("none"),
            by_pullers: ByWord::new(),
            left_idle: both(3),
            lost_ns: both(999_499_999),
            worst: vec![BouncingTask {
                name: "\\u{1b}".repeat(15),
                pid: 4_194_303,
                bounces: 1_000_000,
                left_idle: both(3),
                lost_ns: both(5),
                pulled_by: Vec::new(),
                examples: vec![Bounce {
                    out_ns: 9_999_999_999_999,
                    back_ns: 0,
                    from_cpu: 0,
                    to_cpu: 4,
                    back_cpu: 1,
                    out: pull(),
                    back: pull(),
                }],
            }],
        }
    }

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
            bounces: Known::unknown("none"),
        }
    }

    #[test]
    fn at_most_five_narrow_lines() {
        let mut out = String::new();
        push(
            &Known::Value(migrations(123_456_789)),
            &Known::Value(bounces()),
            &mut out,
        );
        assert_eq!(out.lines().count(), 5, "{out}");
        let shown = anstream::adapter::strip_str(&out).to_string();
        assert!(
            shown.lines().all(|line| line.chars().count() <= WIDTH),
            "{shown}"
        );
        assert!(shown.contains("bounces between LLCs: 1.2M of 12,345 tasks, lost 999 ms"));
    }

    #[test]
    fn what_there_is_not_is_said() {
        let mut out = String::new();
        push(
            &Known::unknown("not recorded"),
            &Known::unknown("no"),
            &mut out,
        );
        assert!(out.contains("unknown without sched_migrate_task"));
        let mut out = String::new();
        let none = Bounces {
            count: 0,
            worst: Vec::new(),
            ..bounces()
        };
        push(&Known::Value(migrations(3)), &Known::Value(none), &mut out);
        assert!(
            out.contains("no task went to another LLC and back within 10.0 ms"),
            "{out}"
        );
        assert!(
            out.contains("active 3, affinity 3, fork_exec 3, newidle 3, others 15"),
            "{out}"
        );
    }
}
