//! The critical path: what the time of a unit of work went into.

use super::given;
use super::table::{Column, FAINT, Lines, push_paragraph};
use super::units::{counted, duration, percent};
use crate::attribute::answer::{
    ByWord, Known, PathFacts, PathPart, PathTasks, PathVerdict, Readings,
};
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
    push_waits(path, &each, out);
    push_within(path, &each, out);
    push_paragraph(out, "  ", &remark(path), Some(FAINT));
}

/// A part of the path that is worth telling.
const WORTH: f64 = 0.01;
/// Most verdicts that are told.
const TOLD: usize = 3;

/// Says of which verdicts the wait is, and what removing each would gain at most, where they are several, or where it
/// depends on the affinity that the trace does not tell.
fn push_waits(path: &PathFacts, each: &dyn Fn(i64) -> String, out: &mut String) {
    let verdicts = &path.path.wait.by_verdict;
    let share = |of: &PathVerdict| given(of.share).fold(0.0, f64::max);
    let mut worth: Vec<(&str, &PathVerdict)> = verdicts.iter().map(|(w, of)| (*w, of)).collect();
    worth.retain(|(_, of)| share(of) >= WORTH);
    worth.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)).then(a.0.cmp(b.0)));
    let differs =
        |of: &PathVerdict| of.ns.seen.is_some() && of.ns.any.is_some() && of.ns.seen != of.ns.any;
    if worth.len() < 2 && !worth.iter().any(|(_, of)| differs(of)) {
        return;
    }
    let told = worth.iter().take(TOLD).map(|(word, of)| {
        let ns = range(of.ns, each);
        let gain = of.gain_at_most.value();
        let gain = gain.map_or_else(String::new, |gain| {
            format!(", gain at most {}", range(*gain, percent))
        });
        format!("{word} {ns} ({}{gain})", range(of.share, percent))
    });
    let told: Vec<String> = told.collect();
    push_paragraph(out, "  wait, seen to any: ", &told.join("; "), None);
}

/// Says what crossing LLCs may have added to the running time.
fn push_within(path: &PathFacts, each: &dyn Fn(i64) -> String, out: &mut String) {
    let within = &path.running_within;
    let basis = &within.basis;
    let parts = [
        ("cold cache", &within.cold_cache, &basis.cold_cache),
        ("transfer", &within.transfer, &basis.transfer),
    ];
    let crossed = parts.iter().filter(|(_, _, basis)| basis.wakeups > 0);
    let told = crossed.map(|(name, of, basis)| match of {
        Known::Value(of) => {
            let [value, low, high] =
                [of.value, of.ci95[0], of.ci95[1]].map(|ns| each(ns.round() as i64));
            format!("{name} {value} [{low}, {high}]")
        }
        Known::Unknown { .. } => {
            let wakeups = counted(basis.wakeups, "wakeup");
            format!("{name} of {wakeups} not measurable")
        }
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        push_paragraph(
            out,
            "  within running, by association: ",
            &told.join("; "),
            None,
        );
    }
}

/// `1.2 %`, or `1.2 % to 3.4 %` where the readings print differently.
fn range<T: Copy>(of: Readings<T>, show: impl Fn(T) -> String) -> String {
    let mut shown: Vec<String> = given(of).map(show).collect();
    shown.dedup();
    shown.join(" to ")
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
                "order and placement as recorded; in {} of it{range}",
                counted(spread.windows, "part")
            )
        }
        Known::Unknown { .. } => "order and placement as recorded".to_owned(),
    }
}

/// What most of a category's time is.
pub fn mostly(path: &PathFacts, category: Category) -> String {
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
    use crate::attribute::answer::Estimate;

    fn plain(path: &PathFacts, units: u64) -> String {
        let mut out = String::new();
        push(path, units, &mut out);
        anstream::adapter::strip_str(&out).to_string()
    }

    /// Two verdicts, one of which depends on affinity, and what crossing LLCs may have added.
    #[test]
    fn waits_have_bounds_and_running_its_parts() {
        let mut path = path();
        let wait = &mut path.path.wait.by_verdict;
        if let Some(prev) = wait.get_mut("prev") {
            prev.ns = super::super::sample::two(0, 1_000_000);
            prev.share = super::super::sample::two(0.0, 0.1);
            prev.gain_at_most = Known::Value(super::super::sample::two(0.0, 0.111));
        }
        path.running_within.cold_cache = Known::Value(Estimate {
            value: 200_000.0,
            ci95: [100_000.0, 400_000.0],
            n: 99,
        });
        path.running_within.basis.cold_cache.wakeups = 99;
        path.running_within.basis.transfer.wakeups = 1_234;
        let text = plain(&path, 1000);
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            squeezed
                .contains("prev 0 ns to 1.0 µs (0.0 % to 10.0 %, gain at most 0.0 % to 11.1 %)"),
            "{text}"
        );
        assert!(
            squeezed.contains(
                "cold cache 200 ns [100 ns, 400 ns]; transfer of 1,234 wakeups not measurable"
            ),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
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
        for word in ["interrupt", "tlb-wait", "blocked", "unknown"] {
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
