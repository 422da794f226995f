//! Times to look at: the longest of the critical path, and the worst waits of the worst pairs and tasks, ready for `--from` and `--to`.

use super::table::{HEADING, push_line, push_paragraph, width};
use super::units::duration;
use crate::attribute::answer::{Answer, Moment};

/// Puts the first few behind `out`.
pub fn push(answer: &Answer, most: usize, out: &mut String) {
    let mut times: Vec<Time> = of_path(answer).into_iter().collect();
    for time in waits(answer) {
        // The path's longest part may be one of the worst waits.
        if !times.iter().any(|other| other.window() == time.window()) {
            times.push(time);
        }
    }
    times.truncate(most);
    if times.is_empty() {
        return;
    }
    push_line(out, "Times to look at", Some(HEADING));
    for time in times {
        let [from, to] = time.window().map(micros);
        let first = format!("  --from {from} --to {to}  ");
        push_paragraph_hanging(out, &first, &time.text);
    }
}

struct Time {
    start_ns: i64,
    end_ns: i64,
    text: String,
}

impl Time {
    /// In microseconds, as it is printed.
    fn window(&self) -> [i64; 2] {
        [
            self.start_ns.div_euclid(1_000),
            self.end_ns.saturating_add(999).div_euclid(1_000),
        ]
    }
}

/// The longest part of the critical path that is not running.
fn of_path(answer: &Answer) -> Option<Time> {
    let path = &answer.throughput.value()?.critical.path;
    let longest = path.longest.first()?;
    let length = longest.end_ns.saturating_sub(longest.start_ns);
    Some(Time {
        start_ns: longest.start_ns,
        end_ns: longest.end_ns,
        text: format!(
            "path: {} {} {} {} {}",
            longest.name,
            longest.pid,
            duration(length),
            longest.category.replace('_', " "),
            longest.why.replace('_', " "),
        ),
    })
}

/// The worst waits of the worst pairs and tasks. One that a pair and a task share is not told twice.
fn waits(answer: &Answer) -> Vec<Time> {
    let pairs = answer.pairs.iter().filter_map(|pair| {
        let name = format!("{} {}", pair.wakee, pair.wakee_pid);
        Some((name, pair.worst_wait.value()?))
    });
    let tasks = answer.tasks.iter().filter_map(|task| {
        let name = format!("{} {}", task.name, task.pid);
        Some((name, task.worst_wait.value()?))
    });
    let mut found: Vec<(String, &Moment)> = Vec::new();
    for (name, moment) in pairs.chain(tasks) {
        let known = |(_, other): &(String, &Moment)| {
            (other.start_ns, other.cpu) == (moment.start_ns, moment.cpu)
        };
        if !found.iter().any(known) {
            found.push((name, moment));
        }
    }
    found.sort_by_key(|(_, m)| std::cmp::Reverse((m.lost_ns, m.wait_ns)));
    let found = found.into_iter();
    found
        .map(|(name, moment)| Time {
            start_ns: moment.start_ns,
            end_ns: moment.end_ns,
            text: told(&name, moment),
        })
        .collect()
}

fn told(name: &str, moment: &Moment) -> String {
    let mut verdicts: Vec<&str> = super::given(moment.verdict).collect();
    verdicts.dedup();
    format!(
        "{name} {} CPU {} {}",
        duration(moment.wait_ns),
        moment.cpu,
        verdicts.join(" or ")
    )
}

/// Seconds of so many microseconds: what `perf script` and `trace-cmd report` print.
fn micros(of: i64) -> String {
    let sign = if of < 0 { "-" } else { "" };
    let size = of.unsigned_abs();
    format!("{sign}{}.{:06}", size / 1_000_000, size % 1_000_000)
}

/// Puts a text behind what stands before it if that leaves room for it, else on lines of its own.
fn push_paragraph_hanging(out: &mut String, first: &str, text: &str) {
    if width(first) + width(text) <= super::WIDTH {
        push_line(out, &format!("{first}{text}"), None);
    } else {
        push_line(out, first.trim_end(), None);
        push_paragraph(out, "    ", text, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::answer;
    use super::*;
    use crate::attribute::answer::Known;

    #[test]
    fn times_enclose_the_worst_waits_and_none_is_told_twice() {
        let mut answer = answer();
        if let Known::Value(throughput) = &mut answer.throughput {
            throughput.critical.path.longest.clear();
        }
        let moment = |start_ns, lost_ns| {
            Known::Value(Moment {
                start_ns,
                end_ns: start_ns + 2_500,
                cpu: 3,
                wait_ns: 2_500,
                lost_ns,
                verdict: super::super::sample::same("prev"),
            })
        };
        answer.pairs.truncate(1);
        answer.tasks.truncate(2);
        answer.pairs[0].worst_wait = moment(1_000_000_999, 5);
        answer.tasks[0].worst_wait = moment(1_000_000_999, 5);
        answer.tasks[1].worst_wait = moment(2_000_000_000, 9);
        answer.tasks[1].name = "t".to_owned();
        let mut out = String::new();
        push(&answer, 5, &mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(
            lines[1],
            "  --from 2.000000 --to 2.000003  t 4194304 2.5 µs CPU 3 prev"
        );
        assert_eq!(
            lines[2],
            "  --from 1.000000 --to 1.000004  sched-messaging 4194304 2.5 µs CPU 3 prev"
        );
        assert_eq!(plain.matches("--from").count(), 2, "{plain}");
        // Another CPU, but the same window.
        if let Known::Value(moment) = &mut answer.tasks[0].worst_wait {
            moment.cpu = 4;
        }
        out.clear();
        push(&answer, 5, &mut out);
        assert_eq!(out.matches("--from").count(), 2, "{out}");
    }
}
