//! Bounces between LLCs in two lines.

use super::most;
use super::table::{cut, push_paragraph};
use super::units::{counted, duration, short_count, short_counted, stamp};
use crate::attribute::answer::{Bounces, BouncingTask};

/// Longest name shown: the kernel's have 15 bytes, but escapes make them longer.
const NAME: usize = 15;

/// Puts at most two lines behind `out`.
pub fn push(bounces: &Bounces, out: &mut String) {
    push_paragraph(out, "", &bounced(bounces), None);
    if let Some(worst) = bounces.worst.first() {
        push_paragraph(out, "  ", &worst_task(worst), None);
    }
}

fn bounced(bounces: &Bounces) -> String {
    if bounces.count == 0 {
        let within = duration(bounces.within_ns);
        return format!(
            "Bounces between LLCs: no task went to another LLC and back within {within}"
        );
    }
    format!(
        "Bounces between LLCs: {} of {}, lost {}",
        short_count(bounces.count),
        counted(bounces.tasks, "task"),
        duration(most(bounces.lost_ns))
    )
}

fn worst_task(task: &BouncingTask) -> String {
    let at = task.examples.first().map(|example| {
        let times = stamp(example.out_ns);
        format!(", first at {times}")
    });
    format!(
        "most: {} {}, {}{}",
        cut(&task.name, NAME),
        task.pid,
        short_counted(task.bounces, "time"),
        at.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::answer::{Bounce, ByWord, Known, Pull, Readings};
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

    #[test]
    fn at_most_two_narrow_lines() {
        let mut out = String::new();
        push(&bounces(), &mut out);
        assert_eq!(out.lines().count(), 2, "{out}");
        let shown = anstream::adapter::strip_str(&out).to_string();
        assert!(
            shown.lines().all(|line| line.chars().count() <= WIDTH),
            "{shown}"
        );
        assert!(shown.contains("Bounces between LLCs: 1.2M of 12,345 tasks, lost 999 ms"));
    }

    #[test]
    fn that_there_are_none_is_said() {
        let mut out = String::new();
        let none = Bounces {
            count: 0,
            worst: Vec::new(),
            ..bounces()
        };
        push(&none, &mut out);
        assert!(
            out.contains("no task went to another LLC and back within 10.0 ms"),
            "{out}"
        );
    }
}
