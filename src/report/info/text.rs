//! `ttwu info` for people.

use std::cmp::Reverse;

use ttwu_parsers::topology::cpulist::{format_groups, format_list};

use super::super::table::{ALARM, Column, HEADING, Lines, push_line, push_paragraph};
use super::super::units::{count, counted, duration, percent, stamp};
use super::{Cpu, Info, machine_text};
use crate::attribute::answer::Known;

/// Columns of the names on the left.
pub(super) const LABEL: usize = 10;
/// Events and lossy CPUs that are listed; `--json` has all.
const LISTED: usize = 24;
/// Groups of CPUs that are written out.
const GROUPS: usize = 16;

/// Lays it out, at most 80 columns wide, with ANSI styles.
pub fn render(info: &Info) -> String {
    let mut out = String::new();
    push_paragraph(&mut out, "", &info.path, Some(HEADING));
    push_origin(info, &mut out);
    push_time(info, &mut out);
    push_cpus(info, &mut out);
    push_topology(info, &mut out);
    push_lost(info, &mut out);
    push_markers(info, &mut out);
    if let Known::Value(machine) = &info.machine {
        machine_text::push(machine, &mut out);
    }
    out.push('\n');
    push_events(info, &mut out);
    out.push('\n');
    push_fitness(info, &mut out);
    push_remarks(info, &mut out);
    out
}

pub(super) fn field(name: &str, text: &str, out: &mut String) {
    push_paragraph(out, &format!("{name:LABEL$}"), text, None);
}

fn or_unknown<T>(known: &Known<T>, show: impl Fn(&T) -> String) -> String {
    match known {
        Known::Value(value) => show(value),
        Known::Unknown { unknown } => format!("unknown: {unknown}"),
    }
}

fn push_origin(info: &Info, out: &mut String) {
    field("format", &info.format, out);
    let mut kernel = or_unknown(&info.kernel_release, String::clone);
    for known in [&info.arch, &info.hostname] {
        if let Known::Value(text) = known {
            kernel.push_str(&format!(", {text}"));
        }
    }
    field("kernel", &kernel, out);
    field("model", &info.kernel_model, out);
    if !info.cmdline.is_empty() {
        field("recorder", &info.cmdline.join(" "), out);
    }
    if info.buffers.len() > 1 {
        for buffer in &info.buffers {
            let name = if buffer.name.is_empty() {
                "(top)"
            } else {
                &buffer.name
            };
            let read = if buffer.read {
                ", read"
            } else {
                ", read with --instance"
            };
            field(
                "buffer",
                &format!(
                    "{name}: {} bytes, clock {}{read}",
                    count(buffer.bytes),
                    buffer.clock
                ),
                out,
            );
        }
    }
}

fn push_time(info: &Info, out: &mut String) {
    let clock = &info.clock;
    let unit = if clock.nanoseconds {
        "nanoseconds"
    } else {
        "not nanoseconds"
    };
    let global = if clock.global {
        "the same on all CPUs"
    } else {
        "may drift between CPUs"
    };
    field("clock", &format!("{}, {unit}, {global}", clock.name), out);
    let span = match (info.start_ns.value(), info.end_ns.value()) {
        (Some(start), Some(end)) if clock.nanoseconds => {
            format!(
                "{} to {} ({})",
                stamp(*start),
                stamp(*end),
                duration(end.saturating_sub(*start))
            )
        }
        (Some(start), Some(end)) => format!("{start} to {end} ticks"),
        _ => or_unknown(&info.start_ns, i64::to_string),
    };
    field("span", &span, out);
}

fn push_cpus(info: &Info, out: &mut String) {
    let ids = |cpus: &[&Cpu]| format_list(&cpus.iter().map(|c| c.cpu).collect::<Vec<_>>());
    let with: Vec<&Cpu> = info.cpus.iter().filter(|c| c.events > 0).collect();
    let mut text = match with.len() {
        0 => "none with events".to_owned(),
        n => format!("{} with events: {}", count(n as u64), ids(&with)),
    };
    let complete: Vec<&Cpu> = with
        .iter()
        .copied()
        .filter(|c| c.complete_from_start)
        .collect();
    if !with.is_empty() {
        text.push_str(match complete.len() {
            0 => "; their buffers may have lost their start",
            n if n == with.len() => "; complete from the start",
            _ => "; some complete from the start",
        });
    }
    if !info.cpus_without_events.is_empty() {
        text.push_str(&format!(
            "; only named: {}",
            format_list(&info.cpus_without_events)
        ));
    }
    field("CPUs", &text, out);
}

fn push_topology(info: &Info, out: &mut String) {
    let topology = &info.topology;
    field("topology", &topology.source, out);
    let kinds = [
        ("LLC", &topology.llcs),
        ("L2", &topology.l2s),
        ("core", &topology.cores),
        ("node", &topology.nodes),
    ];
    for (name, groups) in kinds {
        if name == "L2" && topology.l2s == topology.cores {
            // The usual case, and nothing more than the cores say.
            continue;
        }
        if let Known::Value(groups) = groups {
            let shown = format_groups(groups.get(..GROUPS).unwrap_or(groups));
            let more = if groups.len() > GROUPS { ";…" } else { "" };
            field(
                "",
                &format!("{}: {shown}{more}", counted(groups.len() as u64, name)),
                out,
            );
        }
    }
}

fn push_lost(info: &Info, out: &mut String) {
    let lossy: Vec<&Cpu> = info
        .cpus
        .iter()
        .filter(|c| c.lost_events > 0 || c.uncounted_gaps > 0)
        .collect();
    let lost: u64 = lossy.iter().map(|c| c.lost_events).sum::<u64>() + info.lost_unplaced;
    if lossy.is_empty() && lost == 0 {
        field("lost", "nothing", out);
        return;
    }
    let share = lost as f64 / (lost + info.events).max(1) as f64;
    let mut parts = vec![format!(
        "{} ({} of all)",
        counted(lost, "event"),
        percent(share)
    )];
    parts.extend(lossy.iter().take(LISTED).map(|c| {
        let gaps = match c.uncounted_gaps {
            0 => String::new(),
            n => format!(" and {} of unknown size", counted(n, "gap")),
        };
        format!("CPU {}: {}{gaps}", c.cpu, count(c.lost_events))
    }));
    if lossy.len() > LISTED {
        parts.push(format!(
            "{} more",
            counted((lossy.len() - LISTED) as u64, "CPU")
        ));
    }
    if info.lost_unplaced > 0 {
        parts.push(format!("on no known CPU: {}", count(info.lost_unplaced)));
    }
    push_paragraph(
        out,
        &format!("{:LABEL$}", "lost"),
        &parts.join("; "),
        Some(ALARM),
    );
}

fn push_markers(info: &Info, out: &mut String) {
    for (index, marker) in info.markers.first.iter().enumerate() {
        let name = if index == 0 { "markers" } else { "" };
        field(
            name,
            &format!("{} {}", stamp(marker.ts_ns), marker.text),
            out,
        );
    }
    let more = info
        .markers
        .count
        .saturating_sub(info.markers.first.len() as u64);
    if more > 0 {
        field("", &format!("and {} more", count(more)), out);
    }
}

fn push_events(info: &Info, out: &mut String) {
    let layout = vec![Column::Text(40), Column::Number, Column::Number];
    let header = vec!["Events".to_owned(), count(info.events), "share".to_owned()];
    let mut lines = Lines::new(layout, header);
    let mut events: Vec<_> = info.events_by_name.iter().collect();
    events.sort_by_key(|(name, n)| (Reverse(**n), *name));
    for (name, n) in events.iter().map(|(name, n)| (name, **n)).take(LISTED) {
        let share = n as f64 / info.events.max(1) as f64;
        lines.row(vec![name.to_string(), count(n), percent(share)]);
    }
    lines.push_to(out);
    if events.len() > LISTED {
        let rest: u64 = events.iter().skip(LISTED).map(|(_, n)| **n).sum();
        let kinds = events.len() - LISTED;
        let kinds = counted(kinds as u64, "other kind");
        push_paragraph(out, "  ", &format!("and {} of {kinds}", count(rest)), None);
    }
}

fn push_fitness(info: &Info, out: &mut String) {
    if let Some(why) = &info.refused {
        push_line(out, "ttwu analyze refuses this trace", Some(ALARM));
        push_paragraph(out, "  ", why, None);
        out.push('\n');
    }
    push_line(out, "Fit for", Some(HEADING));
    for (name, fit) in info.fitness.named() {
        push_paragraph(
            out,
            &format!("  {name:17}  {:6}  ", fit.fit),
            &fit.why,
            None,
        );
    }
}

fn push_remarks(info: &Info, out: &mut String) {
    let notes: Vec<&String> = info.notes.iter().chain(&info.topology_warnings).collect();
    if !notes.is_empty() {
        out.push('\n');
        push_line(out, "Notes", Some(HEADING));
        for note in notes {
            push_paragraph(out, "- ", note, None);
        }
    }
    if info.faults.count == 0 {
        return;
    }
    out.push('\n');
    let title = format!(
        "Damage: {}, the first of them",
        counted(info.faults.count, "place")
    );
    push_line(out, &title, Some(ALARM));
    for fault in &info.faults.first {
        let place = match fault.cpu {
            Some(cpu) => format!("byte {}, CPU {cpu}: ", fault.offset),
            None => format!("byte {}: ", fault.offset),
        };
        push_paragraph(out, "- ", &format!("{place}{}", fault.what), None);
    }
}
