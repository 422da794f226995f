//! Wakeups by path and by distance as tables.

use super::glossary::{self, PATHS};
use super::table::{Column, HEADING, Lines, push_line, push_list, push_paragraph};
use super::units::{
    count, counted, duration, percent, short_count, short_counted, short_duration, short_percent,
};
use crate::attribute::answer::{ByWord, Known, Quantiles, Wakeups};
use crate::replay::words::Path;
use crate::topology::Distance;

/// Paths that a smaller share of all wakeups took are not listed one by one.
const RARE: f64 = 0.005;
/// What stands for a number that there is not.
const NONE: &str = "-";

/// Puts wakeups by path behind `out`, the rare ones in one line if not `full`.
pub fn push_paths(wakeups: &Wakeups, full: bool, out: &mut String) {
    let mut layout = vec![Column::Word];
    layout.extend([Column::Number; 4]);
    layout.push(Column::Text(31));
    let header = ["Wakeups by path", "count", "p50", "p99", "max", ""];
    let mut lines = Lines::new(layout, header.map(str::to_owned).to_vec());
    let (listed, rare) = paths(wakeups, full);
    for (path, n) in listed {
        let mut cells = vec![path.to_owned(), count(n)];
        cells.extend(quantiles(wakeups.latency_by_path_ns.get(path), duration));
        cells.push(glossary::brief(&PATHS, path).to_owned());
        lines.row(cells);
    }
    if lines.is_empty() {
        push_line(out, "No wakeups.", None);
        return;
    }
    let mut cells = vec!["all".to_owned(), count(wakeups.total)];
    cells.extend(quantiles(Some(&wakeups.latency_ns), duration));
    cells.push("waking to switch-in".to_owned());
    lines.row(cells);
    lines.push_to(out);
    if !rare.is_empty() {
        let rare: Vec<String> = rare.iter().map(|(path, n)| format!("{path} {n}")).collect();
        push_list(out, "  ", "fewer: ", &rare);
    }
}

/// Paths, and how many wakeups took them.
type Counted = Vec<(&'static str, u64)>;

/// The paths that get a line each, and those that get one together.
fn paths(wakeups: &Wakeups, full: bool) -> (Counted, Counted) {
    let counted = || {
        let words = Path::ALL.iter().map(|path| path.as_str());
        let counted = words.map(|path| (path, wakeups.by_path.get(path).copied().unwrap_or(0)));
        counted.filter(|(_, n)| *n > 0)
    };
    let (listed, rare): (Counted, Counted) =
        counted().partition(|(_, n)| *n as f64 >= RARE * wakeups.total as f64);
    match rare.len() {
        _ if full => (counted().collect(), Vec::new()),
        0 | 1 => (counted().collect(), Vec::new()),
        _ => (listed, rare),
    }
}

/// Puts wakeups by the distance from waker to chosen CPU behind `out`, in a line or two.
pub fn push_distances_briefly(wakeups: &Wakeups, out: &mut String) {
    let counts = &wakeups.by_distance.waker_chosen;
    let latency = &wakeups.latency_by_distance_ns.waker_chosen;
    let there = Distance::ALL.map(Distance::as_str).into_iter();
    let there = there.filter(|distance| of(counts, distance) > 0);
    let told: Vec<String> = there
        .map(|distance| {
            let count = short_count(of(counts, distance));
            match latency.get(distance).and_then(Known::value) {
                Some(q) => format!("{distance} {count} ({})", duration(q.p50)),
                None => format!("{distance} {count}"),
            }
        })
        .collect();
    match counts.values().sum::<u64>() {
        0 => {}
        all if of(counts, Distance::Unknown.as_str()) == all => {
            push_line(out, "  distances are unknown without a topology", None);
        }
        _ => {
            push_list(out, "  ", "waker to chosen CPU, wakeups (p50): ", &told);
        }
    }
}

/// Columns of a distance's name, of a count and of a duration.
const NAME: u16 = 8;
const NUMBER: u16 = 5;

/// Puts wakeups by their three distances behind `out`.
pub fn push_distances(wakeups: &Wakeups, out: &mut String) {
    let counts = &wakeups.by_distance;
    let latency = &wakeups.latency_by_distance_ns;
    let groups: [Group; 3] = [
        (&counts.waker_chosen, &latency.waker_chosen),
        (&counts.prev_chosen, &latency.prev_chosen),
        (&counts.waker_prev, &latency.waker_prev),
    ];
    let mut layout = vec![Column::Text(NAME)];
    layout.extend([Column::Fixed(NUMBER); 12]);
    let mut header = vec!["distance".to_owned()];
    for _ in groups {
        header.extend(["count", "p50", "p99", "max"].map(str::to_owned));
    }
    let mut lines = Lines::new(layout, header).flush();
    let mut known = false;
    for distance in Distance::ALL.map(Distance::as_str) {
        if groups.iter().any(|(counts, _)| of(counts, distance) > 0) {
            known |= distance != Distance::Unknown.as_str() && distance != Distance::Same.as_str();
            lines.row(distance_row(distance, groups));
        }
    }
    if lines.is_empty() {
        return;
    }
    if !known
        && wakeups
            .by_distance
            .waker_chosen
            .get("unknown")
            .is_some_and(|n| *n > 0)
    {
        push_line(
            out,
            "Wakeups by distance: unknown without a topology",
            Some(HEADING),
        );
        return;
    }
    let width = usize::from(4 * (NUMBER + 1) - 1);
    let titles = ["waker to chosen", "prev to chosen", "waker to prev"]
        .map(|title| format!(" {:^width$}", format!("-- {title} --")));
    push_line(
        out,
        format!("{:8}{}", "Wakeups", titles.concat()).trim_end(),
        Some(HEADING),
    );
    lines.push_to(out);
}

/// Counts and latencies by distance.
type Group<'a> = (&'a ByWord<u64>, &'a ByWord<Known<Quantiles>>);

fn of(counts: &ByWord<u64>, distance: &str) -> u64 {
    counts.get(distance).copied().unwrap_or(0)
}

fn distance_row(distance: &str, groups: [Group; 3]) -> Vec<String> {
    let mut cells = vec![distance.to_owned()];
    for (counts, latency) in groups {
        match of(counts, distance) {
            0 => cells.extend([NONE; 4].map(str::to_owned)),
            n => {
                cells.push(short_count(n));
                cells.extend(quantiles(latency.get(distance), short_duration));
            }
        }
    }
    cells
}

/// p50, p99 and maximum.
fn quantiles(known: Option<&Known<Quantiles>>, show: fn(i64) -> String) -> [String; 3] {
    match known.and_then(Known::value) {
        Some(q) => [q.p50, q.p99, q.max].map(show),
        None => [NONE; 3].map(str::to_owned),
    }
}

/// Puts what the kernel's own values show behind `out`, if probes recorded them.
pub fn push_probed(wakeups: &Wakeups, out: &mut String) {
    let Known::Value(probed) = &wakeups.probed else {
        return;
    };
    let share = |n: u64| short_percent(n as f64 / probed.selections.max(1) as f64);
    let mut facts = vec![short_counted(probed.selections, "choice")];
    if let Known::Value(check) = wakeups.probe_check {
        let agree = check.prev_equal.min(check.chosen_equal);
        match check.checked.saturating_sub(agree) {
            0 => {}
            1 => facts[0].push_str(" (1 differs)"),
            n => facts[0].push_str(&format!(" ({} differ)", short_count(n))),
        }
    }
    if let Known::Value(sync) = probed.sync {
        facts.push(format!("{} sync", share(sync)));
    }
    if let Known::Value(flips) = probed.flips_max {
        facts.push(format!("flips up to {}", short_count(flips.into())));
    }
    facts.push(format!("masks for {}", share(probed.masks)));
    push_paragraph(out, "  ", &format!("probes: {}", facts.join(", ")), None);
}

/// Puts what else is known of wakeups behind `out`, in one line.
pub fn push_facts(wakeups: &Wakeups, out: &mut String) {
    let mut facts = Vec::new();
    if let Known::Value(share) = wakeups.cross_llc_share {
        facts.push(format!("{} across LLCs", percent(share)));
    }
    if let Known::Value(n) = wakeups.smt_shared
        && n > 0
    {
        facts.push(format!("{} on a busy core beside an idle one", count(n)));
    }
    if !facts.is_empty() {
        let text = format!("{}: {}", counted(wakeups.total, "wakeup"), facts.join("; "));
        push_paragraph(out, "  ", &text, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::answer;
    use super::*;

    #[test]
    fn probes_have_a_line() {
        let line = |wakeups: &Wakeups| {
            let mut out = String::new();
            push_probed(wakeups, &mut out);
            anstream::adapter::strip_str(&out).to_string()
        };
        let mut wakeups = answer().wakeups;
        assert_eq!(
            line(&wakeups),
            "  probes: 12.3M choices (1 differs), 41% sync, flips up to 12345, masks for 100%\n"
        );
        if let Known::Value(probed) = &mut wakeups.probed {
            probed.sync = Known::unknown("an old kernel");
            (probed.masks, probed.flips_max) = (0, Known::Value(17));
        }
        wakeups.probe_check = Known::unknown("not checked");
        assert_eq!(
            line(&wakeups),
            "  probes: 12.3M choices, flips up to 17, masks for 0%\n"
        );
        wakeups.probed = Known::unknown("no probes");
        assert_eq!(line(&wakeups), "");
    }
}
