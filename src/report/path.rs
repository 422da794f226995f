//! The critical path: what the time of a unit of work went into.

use super::given;
use super::table::{Column, FAINT, Lines, push_line};
use super::units::{count, duration, percent};
use crate::attribute::answer::{ByWord, Known, PathFacts, PathPart, PathTasks};
use crate::replay::words::Category;

/// Columns of what a category mostly is.
const MOSTLY: u16 = 36;

/// Puts the path behind `out`, for one of so many units; of all of it where there are none.
pub fn push(path: &PathFacts, units: u64, out: &mut String) {
    let each = |ns: i64| match units {
        0 => duration(ns),
        units => duration((ns as f64 / units as f64).round() as i64),
    };
    let layout = vec![
        Column::Word,
        Column::Number,
        Column::Number,
        Column::Number,
        Column::Text(MOSTLY),
    ];
    let name = match units {
        0 => "Critical path",
        _ => "Time per unit",
    };
    let total = each(path.path.total_ns);
    let header = [name, &total, "share", "gain at most", "mostly"];
    let mut lines = Lines::new(layout, header.map(str::to_owned).to_vec());
    for category in Category::ALL {
        let word = category.as_str();
        let ns = path.path_ns.get(word).copied().unwrap_or(0);
        if ns == 0 {
            continue;
        }
        let gain = path.gain_at_most.get(word).and_then(Known::value);
        let share = path.path_share.get(word).copied().unwrap_or(0.0);
        lines.row(vec![
            word.to_owned(),
            each(ns),
            percent(share),
            gain.map_or_else(|| "-".to_owned(), |gain| percent(*gain)),
            mostly(path, *category),
        ]);
    }
    lines.push_to(out);
    push_line(out, &format!("  {}", remark(path)), Some(FAINT));
}

/// How far to trust the table.
fn remark(path: &PathFacts) -> String {
    let withheld = path.gain_at_most.get(Category::Wait.as_str());
    if withheld.is_some_and(|gain| gain.value().is_none()) {
        return "no gains are given: the CPUs were too busy; see gain_at_most with --json"
            .to_owned();
    }
    match &path.path.spread {
        Known::Value(spread) => {
            let running = spread.share.get(Category::Running.as_str());
            let range = running.map_or_else(String::new, |range| {
                format!(": running {} to {}", percent(range.min), percent(range.max))
            });
            format!(
                "order and placement as recorded; in {} parts of it{range}",
                count(spread.windows)
            )
        }
        Known::Unknown { .. } => "order and placement as recorded".to_owned(),
    }
}

/// What most of a category's time is.
fn mostly(path: &PathFacts, category: Category) -> String {
    let of = &path.path;
    match category {
        Category::Running => task(&of.running),
        Category::Transit => {
            let road = largest(&of.transit.by_path);
            match largest(&of.transit.by_distance) {
                "" | "unknown" => road.to_owned(),
                distance => format!("{road}, distance {distance}"),
            }
        }
        Category::Wait => wait(path),
        Category::Blocked => match largest(&of.blocked) {
            "unknown" => "woken by nothing that is known".to_owned(),
            context => format!("woken by {}", context.replace('_', " ")),
        },
        Category::Unknown => largest(&of.unknown).replace('_', " "),
        Category::Interrupt | Category::TlbWait => String::new(),
    }
}

fn wait(path: &PathFacts) -> String {
    let wait = &path.path.wait;
    let verdicts = wait.by_verdict.iter();
    let most = |ns| given(ns).max().unwrap_or(0);
    let verdict = verdicts
        .max_by_key(|(_, of)| most(of.ns))
        .map_or("", |(verdict, _)| verdict);
    match wait.meanwhile.ran.tasks.first() {
        Some(ran) if ran.ns >= wait.meanwhile.idle_ns => {
            format!("{verdict}, while {} ran", ran.name)
        }
        _ => verdict.to_owned(),
    }
}

fn task(tasks: &PathTasks) -> String {
    let first = tasks.tasks.first();
    first.map_or_else(String::new, |task| {
        format!("{} {}", task.name, percent(task.share))
    })
}

/// The word with the most time.
fn largest(of: &ByWord<PathPart>) -> &'static str {
    let largest = of.iter().max_by_key(|(_, part)| part.ns);
    largest.map_or("", |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::super::WIDTH;
    use super::super::sample::path;
    use super::*;

    fn plain(path: &PathFacts, units: u64) -> String {
        let mut out = String::new();
        push(path, units, &mut out);
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn a_full_table_fits_nine_lines_of_a_terminal() {
        let text = plain(&path(), 1000);
        assert_eq!(text.lines().count(), 9, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        let rows = [
            "Time per unit   10.0 µs  share gain at most mostly",
            "  running        1.0 µs 10.0 %            - lab-waker 10.0 %",
            "  transit        3.0 µs 30.0 %       42.9 % queued-ipi, distance node",
            "  wait           2.0 µs 20.0 %       25.0 % stacked-pull, while lab-waker ran",
        ];
        for (line, expected) in text.lines().zip(rows) {
            assert_eq!(line, expected, "{text}");
        }
        assert!(
            text.contains("in 8 parts of it: running 10.0 % to 30.0 %"),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_there_has_no_row_and_what_is_withheld_no_gain() {
        let mut path = path();
        for word in ["interrupt", "tlb_wait", "blocked", "unknown"] {
            path.path_ns.insert(word, 0);
        }
        let withheld = Known::unknown("waits for CPUs that were all busy are 20 % of the path");
        path.gain_at_most.insert("wait", withheld);
        let text = plain(&path, 0);
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.starts_with("Critical path   10.0 ms"), "{text}");
        assert!(text.contains("no gains are given"), "{text}");
    }
}
