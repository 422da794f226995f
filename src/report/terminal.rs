//! The report for people: the answer first, in sentences and in the tables of where the time went, then the evidence.
//!
//! What is printed by default fits a screen or little more; [`View`] asks for all of it, or for single sections.

use super::table::{FAINT, HEADING, push_line, push_paragraph};
use super::units::{count, counted, duration, percent};
use super::{
    bounces, brief, cross_llc, domains, flips, headline, ipis, ledger, migrations, moments, path,
    processes, throughput, waits, wakeups, worst,
};
use crate::attribute::answer::{Answer, Known, RecorderFacts, TraceFacts};

/// Lines of a screen: what could not be known takes the room that the tables leave.
const SCREEN: usize = 48;
/// Most lines of the short report.
const MOST_LINES: usize = 60;
/// Lines that are left for what could not be known, at least; the rest is in the JSON report.
const LIMIT_LINES: usize = 3;
/// Times to look at in the short report.
const MOMENTS: usize = 2;

/// A part of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Throughput,
    Ledger,
    Waits,
    Wakeups,
    Tasks,
    Pairs,
    Moments,
    CrossLlc,
    Migrations,
    Flips,
    Ipis,
    Processes,
    Limits,
}

impl Section {
    pub const ALL: [Section; 13] = [
        Section::Throughput,
        Section::Ledger,
        Section::Waits,
        Section::Wakeups,
        Section::Tasks,
        Section::Pairs,
        Section::Moments,
        Section::CrossLlc,
        Section::Migrations,
        Section::Flips,
        Section::Ipis,
        Section::Processes,
        Section::Limits,
    ];

    /// What is typed to have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Section::Throughput => "throughput",
            Section::Ledger => "ledger",
            Section::Waits => "waits",
            Section::Wakeups => "wakeups",
            Section::Tasks => "tasks",
            Section::Pairs => "pairs",
            Section::Moments => "moments",
            Section::CrossLlc => "cross-llc",
            Section::Migrations => "migrations",
            Section::Flips => "flips",
            Section::Ipis => "ipis",
            Section::Processes => "processes",
            Section::Limits => "limits",
        }
    }

    /// Puts it behind `out`, with everything that belongs to it.
    fn push(self, answer: &Answer, top: usize, out: &mut String) {
        match self {
            Section::Throughput => {
                if let Known::Value(of) = &answer.throughput {
                    throughput::push(of, out);
                    path::push(&of.critical, of.units, out);
                }
            }
            Section::Ledger => push_ledger(answer, out),
            Section::Waits => waits::push(&answer.waits, true, out),
            Section::Wakeups => {
                wakeups::push_paths(&answer.wakeups, true, out);
                wakeups::push_distances(&answer.wakeups, out);
                wakeups::push_facts(&answer.wakeups, out);
                wakeups::push_probed(&answer.wakeups, out);
            }
            Section::Tasks => worst::push_tasks(first(&answer.tasks, top), out),
            Section::Pairs => worst::push_pairs(first(&answer.pairs, top), out),
            Section::Moments => moments::push(answer, top, out),
            Section::CrossLlc => cross_llc::push(&answer.cross_llc, out),
            Section::Migrations => push_migrations(answer, out),
            Section::Flips => push_flips(answer, out),
            Section::Ipis => push_ipis(answer, out),
            Section::Processes => processes::push(&answer.processes, out),
            Section::Limits => push_limits(answer, usize::MAX, out),
        }
    }
}

/// What is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// The answer, and the evidence in short.
    Short,
    /// Every section in full.
    All,
    /// These sections in full.
    Only(Vec<Section>),
}

/// Lays the report out, at most 80 columns wide, with ANSI styles. `top` limits the worst tasks and pairs.
pub fn render(answer: &Answer, top: usize, view: &View) -> String {
    let mut out = String::new();
    push_paragraph(&mut out, "", &about(answer), Some(FAINT));
    if let View::Only(sections) = view {
        push_sections(sections, answer, top, &mut out);
        return out;
    }
    if let Known::Value(throughput) = &answer.throughput {
        throughput::push(throughput, &mut out);
    }
    if let Some(of_work) = headline::of_work(answer) {
        push_paragraph(&mut out, "", &of_work, Some(HEADING));
    }
    push_paragraph(&mut out, "", &headline::sentence(answer), Some(HEADING));
    match view {
        View::Short => push_short(answer, top, &mut out),
        _ => {
            out.push('\n');
            push_path(answer, &mut out);
            // The rest of the first section stands above.
            let others = Section::ALL.get(1..).unwrap_or_default();
            push_sections(others, answer, top, &mut out);
        }
    }
    out
}

fn push_sections(sections: &[Section], answer: &Answer, top: usize, out: &mut String) {
    for section in sections {
        let mut text = String::new();
        section.push(answer, top, &mut text);
        if !text.is_empty() {
            out.push('\n');
            out.push_str(text.trim_start_matches('\n'));
        }
    }
}

/// A part of the short report.
struct Block {
    section: Section,
    text: String,
    /// Where there is no room for all, the highest goes first.
    rank: u8,
    /// A blank line stands before it.
    apart: bool,
}

/// What the short report shows of each section, in its order.
fn blocks(answer: &Answer, top: usize) -> Vec<Block> {
    let block = |section, rank, apart, push: &dyn Fn(&mut String)| {
        let mut text = String::new();
        push(&mut text);
        Block {
            section,
            text,
            rank,
            apart,
        }
    };
    let wakeups = &answer.wakeups;
    let blocks = [
        block(Section::Throughput, 0, true, &|out| push_path(answer, out)),
        block(Section::Ledger, 0, true, &|out| push_ledger(answer, out)),
        block(Section::Waits, 1, true, &|out| {
            waits::push(&answer.waits, false, out)
        }),
        block(Section::Wakeups, 3, true, &|out| {
            wakeups::push_paths(wakeups, false, out);
        }),
        block(Section::Wakeups, 10, false, &|out| {
            wakeups::push_distances_briefly(wakeups, out);
        }),
        block(Section::Wakeups, 12, false, &|out| {
            wakeups::push_facts(wakeups, out);
            wakeups::push_probed(wakeups, out);
        }),
        block(Section::Tasks, 9, true, &|out| {
            worst::push_tasks(first(&answer.tasks, top), out);
        }),
        block(Section::Pairs, 2, false, &|out| {
            worst::push_pairs(first(&answer.pairs, top), out);
        }),
        block(Section::Moments, 4, false, &|out| {
            moments::push(answer, MOMENTS.min(top), out);
        }),
        block(Section::CrossLlc, 5, true, &|out| {
            brief::push_cross_llc(&answer.cross_llc, out);
        }),
        block(Section::Migrations, 8, false, &|out| {
            brief::push_migrations(answer, out);
        }),
        block(Section::Flips, 6, false, &|out| {
            brief::push_flips(&answer.flips.decisions, out);
        }),
        block(Section::Ipis, 7, false, &|out| {
            brief::push_ipis(&answer.ipis, out);
        }),
    ];
    let blocks = blocks.into_iter();
    blocks.filter(|block| !block.text.is_empty()).collect()
}

/// The tables of where the time went, then the evidence, as much of it as there is room for.
fn push_short(answer: &Answer, top: usize, out: &mut String) {
    let mut blocks = blocks(answer, top);
    let head = out.lines().count();
    // What could not be known, and where there is more.
    let mut tail = String::new();
    push_limits(answer, 0, &mut tail);
    let tail = tail.lines().count() + 1;
    let mut left_out: Vec<&str> = Vec::new();
    while head + lines(&blocks) + tail > MOST_LINES
        && let Some(last) = (0..blocks.len()).max_by_key(|&at| blocks[at].rank)
    {
        let name = blocks.remove(last).section.as_str();
        if !left_out.contains(&name) {
            left_out.push(name);
        }
    }
    let mut apart = false;
    for block in &blocks {
        apart |= block.apart;
        if std::mem::take(&mut apart) {
            out.push('\n');
        }
        out.push_str(&block.text);
    }
    let room = SCREEN.saturating_sub(out.lines().count());
    push_limits(answer, room, out);
    if !left_out.is_empty() {
        let more = format!("There is more: --section {}, or --all.", left_out.join(","));
        push_paragraph(out, "", &more, Some(FAINT));
    }
}

/// How many lines blocks take.
fn lines(blocks: &[Block]) -> usize {
    let lines = blocks.iter();
    lines
        .map(|block| block.text.lines().count() + usize::from(block.apart))
        .sum()
}

fn push_migrations(answer: &Answer, out: &mut String) {
    migrations::push(&answer.migrations, out);
    domains::push(&answer.domains, out);
}

fn push_flips(answer: &Answer, out: &mut String) {
    if let Known::Value(of) = &answer.flips.decisions {
        flips::push(of, out);
    }
    if let Known::Value(of) = &answer.flips.bounces {
        bounces::push(of, out);
    }
}

fn push_path(answer: &Answer, out: &mut String) {
    if let Known::Value(of) = &answer.throughput {
        path::push(&of.critical, of.units, out);
    }
}

fn push_ipis(answer: &Answer, out: &mut String) {
    if let Known::Value(of) = &answer.ipis {
        ipis::push(of, out);
    }
}

fn first<T>(of: &[T], top: usize) -> &[T] {
    of.get(..top).unwrap_or(of)
}

fn push_ledger(answer: &Answer, out: &mut String) {
    ledger::push(&answer.ledger, out);
    if let Known::Value(recorder) = &answer.trace.recorder {
        push_recorder(recorder, out);
    }
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
        Some(llcs) => match without_llc(trace) {
            0 => format!("{cpus} in {}", counted(llcs.len() as u64, "LLC")),
            without => format!(
                "{cpus}, {} in {}, {without} in none that is known",
                (trace.cpus.len() as u64).saturating_sub(without),
                counted(llcs.len() as u64, "LLC"),
            ),
        },
        None => format!("{cpus}, LLCs unknown"),
    });
    parts.push(duration(trace.end_ns.saturating_sub(trace.start_ns)));
    parts.push(counted(trace.events, "event"));
    if trace.lost_events > 0 {
        parts.push(format!("{} lost", count(trace.lost_events)));
    }
    parts.join(", ")
}

/// CPUs of the trace of which the topology names no LLC, though it does of others.
fn without_llc(trace: &TraceFacts) -> u64 {
    let Known::Value(llcs) = &trace.topology.llcs else {
        return 0;
    };
    let named = |cpu: &&u32| llcs.iter().any(|llc| llc.contains(cpu));
    trace.cpus.iter().filter(|cpu| !named(cpu)).count() as u64
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
    let mut caveats = answer.caveats.iter().cloned();
    if without_llc(&answer.trace) > 0 {
        // The first one names them: nothing is more needed to read the figures.
        limits.extend(caveats.next());
    }
    let fitness = &answer.fitness;
    let fits = [
        ("latency", &fitness.latency),
        ("missed idle CPUs", &fitness.missed_idle),
        ("cross-LLC wakeups", &fitness.cross_llc),
        ("wakee flips", &fitness.flips),
        ("IPIs", &fitness.ipis),
        ("throughput", &fitness.throughput),
    ];
    // Of the others their own lines say what is not known.
    let fits = match room {
        usize::MAX => fits.as_slice(),
        _ if answer.cross_llc.value().is_some() => fits.get(..2).unwrap_or_default(),
        _ => fits.get(..3).unwrap_or_default(),
    };
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
    limits.extend(caveats);
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
            push_line(
                out,
                &format!("- {more} more: --section limits, or --json"),
                None,
            );
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
        anstream::adapter::strip_str(&render(answer, 3, &View::Short)).to_string()
    }

    /// The fullest answer there can be is longer than a screen, but not by more than its tables need.
    #[test]
    fn the_fullest_answer_is_little_longer_than_a_screen() {
        let text = plain(&answer());
        let lines = text.lines().count();
        assert!(lines <= SCREEN + 12, "{lines} lines\n{text}");
        assert!(text.contains("There is more: --section "), "{text}");
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
            "- limit 0\n- limit 1\n- limit 2\n- 6 remarks more: --section limits, or --json\n"
        );
        out.clear();
        push_first(&limits[..4], 4, &mut out);
        assert_eq!(out.lines().count(), 4);
    }

    /// Times of centuries, and as many events as can be counted.
    #[test]
    fn huge_numbers_stay_in_80_columns() {
        use super::super::sample::{same, two};
        let (long, longer) = (i64::MAX / 2, i64::MAX);
        let mut answer = answer();
        let ledger = &mut answer.ledger;
        (ledger.total_ns, ledger.running_ns) = (longer, long);
        (ledger.unknown_ns, ledger.transit_ns) = (longer, longer);
        ledger.idle_ns = two(long, longer);
        for facts in answer.waits.by_verdict.values_mut() {
            facts.count = two(u64::MAX, u64::MAX - 1);
            facts.wait_ns = two(longer, long);
            facts.lost_ns = two(longer, long);
        }
        (answer.waits.withheld.count, answer.waits.withheld.ns) = (u64::MAX, longer);
        answer.waits.withdrawn.lost_events = u64::MAX / 2;
        answer.wakeups.total = u64::MAX;
        for n in answer.wakeups.by_path.values_mut() {
            *n = u64::MAX / 9;
        }
        for task in &mut answer.tasks {
            task.name = "進捗進捗進捗進捗".to_owned();
            (task.run_ns, task.wait_ns) = (longer, longer);
            task.lost_ns = two(longer, long);
            (task.wakeups_received, task.migrations) = (u64::MAX, u64::MAX);
        }
        for pair in &mut answer.pairs {
            pair.lost_ns = same(longer);
            pair.wakeups = u64::MAX;
        }
        if let Known::Value(throughput) = &mut answer.throughput {
            let path = &mut throughput.critical;
            path.path.total_ns = longer;
            for ns in path.path_ns.values_mut() {
                *ns = longer;
            }
            for gain in path.gain_at_most.values_mut() {
                *gain = Known::Value(1e15);
            }
        }
        let shown = render(&answer, 100, &View::All);
        let text = anstream::adapter::strip_str(&shown).to_string();
        for line in text.lines() {
            assert!(super::super::table::width(line) <= 80, "{line}\n{text}");
        }
        assert!(text.contains("292 y"), "{text}");
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
