//! What `--explain` prints of a word: its meaning, how it was found in this trace, and examples with their events.

mod figure;
mod told;

use serde::Serialize;

use self::figure::of_figure;
use self::told::Told;
use super::glossary::{self, Term};
use super::table::{FAINT, HEADING, cut, push_line, push_paragraph, width};
use super::units::{count, counted, duration, stamp};
use crate::attribute::answer::{Known, Readings};
use crate::attribute::explain::{
    EventLine, Example, Explanation, Figure, Kind, Row, RowsFacts, SenseFacts, Settings,
};

/// An explanation as JSON, with the meanings.
///
/// # Errors
/// Those of serialisation.
pub fn json(of: &Explanation) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Meant<'a> {
        meaning: &'static str,
        #[serde(flatten)]
        facts: &'a SenseFacts,
    }
    #[derive(Serialize)]
    struct Report<'a> {
        schema_version: u32,
        settings: &'a Settings,
        senses: Vec<Meant<'a>>,
    }
    let senses = of.senses.iter().map(|facts| Meant {
        meaning: term(facts).map_or("", |term| term.meaning),
        facts,
    });
    super::json::pretty(&Report {
        schema_version: SCHEMA_VERSION,
        settings: &of.settings,
        senses: senses.collect(),
    })
}

/// Version of the JSON form; raised when a name changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// An explanation in at most 80 columns, with ANSI styles.
pub fn render(of: &Explanation) -> String {
    let mut out = String::new();
    for (index, sense) in of.senses.iter().enumerate() {
        let before = of.senses.get(..index).unwrap_or_default();
        push_sense(sense, before, &mut out);
        out.push('\n');
    }
    push_settings(&of.settings, &mut out);
    out
}

fn term(of: &SenseFacts) -> Option<&'static Term> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.key() == of.kind)?;
    let words = kind.words();
    let at = words.iter().position(|word| *word == of.word)?;
    glossary::terms(kind).get(at)
}

/// What a kind of word is said of.
fn kind(key: &str) -> &'static str {
    match key {
        "verdict" => "why a task waited",
        "path" => "by which road a wakeup reached the chosen CPU",
        "class" => "what kind of wakeup it was",
        "waker" => "the context in which the waker ran",
        "origin" => "how a task came to wait",
        "distance" => "how far apart two CPUs are",
        "ledger" => "a row of the ledger of CPU time",
        "category" => "a part of the critical path",
        "cause" => "why a task was moved",
        "ipi" => "what an interrupt between CPUs was for",
        "policy" => "a way to count flips and to judge by them",
        "decision" => "what wake_wide() says of a wakeup",
        "role" => "a part that tasks play in waking each other",
        "better" => "what is better for a pair of waker and wakee",
        "reading" => "where a task may run when the trace does not tell",
        _ => "a row, column or count of the report",
    }
}

/// Puts one meaning behind `out`; examples that a meaning before it has too are not repeated.
fn push_sense(sense: &SenseFacts, before: &[SenseFacts], out: &mut String) {
    let title = format!("{} ({}: {})", sense.word, sense.kind, kind(sense.kind));
    push_paragraph(out, "", &title, Some(HEADING));
    if let Some(term) = term(sense) {
        push_paragraph(out, "  ", term.meaning, None);
    }
    for sentence in &sense.how {
        push_paragraph(out, "  - ", sentence, None);
    }
    if !sense.figures.is_empty() {
        push_line(
            out,
            "  - In this trace (in brackets the names that --json has):",
            None,
        );
    }
    for Figure {
        name,
        says,
        value,
        unit,
    } in &sense.figures
    {
        let text = format!("{says}: {} ({name})", of_figure(value, *unit));
        push_paragraph(out, "    = ", &text, None);
    }
    match &sense.rows {
        Known::Value(rows) => {
            let told = before.iter().filter_map(|sense| sense.rows.value());
            let told: Vec<&Row> = told
                .flat_map(|rows| &rows.examples)
                .map(|e| &e.row)
                .collect();
            push_rows(rows, sense.word, &told, out);
        }
        Known::Unknown { unknown } => {
            push_paragraph(out, "  ", &format!("No examples: {unknown}."), None);
        }
    }
}

fn push_rows(rows: &RowsFacts, word: &str, told: &[&Row], out: &mut String) {
    out.push('\n');
    let note = rows
        .note
        .map_or_else(String::new, |note| format!(" ({note})"));
    let text = match most(rows.count) {
        0 => format!("In this trace: none of {}{note}.", of_table(rows)),
        _ => format!(
            "In this trace: {} of {}{note}.",
            how_many(rows.count),
            of_table(rows)
        ),
    };
    push_paragraph(out, "  ", &text, None);
    if !rows.examples.is_empty() && rows.examples.iter().all(|e| told.contains(&&e.row)) {
        push_line(out, "  Its examples are those above.", None);
        return;
    }
    for (number, example) in (1..).zip(&rows.examples) {
        out.push('\n');
        push_example(number, example, rows.table, word, out);
    }
}

/// How many rows a table has, as people call them.
fn of_table(rows: &RowsFacts) -> String {
    match rows.table {
        "flushes" => format!("{} of mappings", counted(rows.of, "change")),
        table => counted(rows.of, one(table)),
    }
}

/// A row of a table, as people call it.
fn one(table: &str) -> &'static str {
    match table {
        "wakeups" => "wakeup",
        "waits" => "wait",
        "slices" => "slice",
        "idle" => "idle interval",
        "migrations" => "migration",
        "ipis" => "interrupt",
        "flips" => "counted wakeup",
        "lost" => "gap",
        "units" => "mark",
        "tasks" => "task",
        _ => "row",
    }
}

fn most(of: Readings<u64>) -> u64 {
    super::most(of)
}

fn how_many(of: Readings<u64>) -> String {
    match (of.seen, of.any) {
        (Some(seen), Some(any)) if seen != any => {
            format!(
                "{} (affinity as seen) or {} (any CPU allowed)",
                count(seen),
                count(any)
            )
        }
        _ => count(most(of)),
    }
}

fn push_example(number: usize, example: &Example, table: &str, word: &str, out: &mut String) {
    let told = Told(&example.row);
    push_paragraph(
        out,
        &format!("  {number}. "),
        &told.sentence(table, word),
        None,
    );
    if !example.idle.is_empty() {
        let cpus = example.idle.iter().take(IDLE).map(|idle| {
            let time = duration(idle.for_ns);
            let more = if idle.from_start { " or more" } else { "" };
            format!("CPU {} ({}, for {time}{more})", idle.cpu, idle.distance)
        });
        let mut cpus: Vec<String> = cpus.collect();
        if let Some(more) = example.idle.len().checked_sub(IDLE).filter(|n| *n > 0) {
            cpus.push(format!("{more} more"));
        }
        let text = format!("{}: {}", told.of_idle(table), cpus.join(", "));
        push_paragraph(out, "     ", &text, None);
    }
    let cut = example.events.len().saturating_sub(LAST);
    for (index, event) in example.events.iter().enumerate() {
        if example.events_left_out > 0 && index == cut {
            let left_out = counted(example.events_left_out, "event");
            push_line(out, &format!("  … {left_out} more …"), Some(FAINT));
        }
        push_event(event, out);
    }
}

/// Most idle CPUs that are named.
const IDLE: usize = 4;
/// So many events stand behind those that are left out.
const LAST: usize = 6;

/// Columns of the task that was current, so that the events stand below each other.
const TASK: usize = 16;

/// An event in a line, much as `trace-cmd report` prints it.
fn push_event(event: &EventLine, out: &mut String) {
    let task = match event.pid {
        0 => event.task.clone(),
        pid => format!("{}:{pid}", event.task),
    };
    let first = format!(
        "  {} [{:03}] {task}{:pad$} ",
        stamp(event.ts_ns),
        event.cpu,
        "",
        pad = TASK.saturating_sub(width(&task)),
    );
    let text = format!("{}: {}", event.event, told_fields(event));
    push_hanging(out, &first, text.trim_end_matches([':', ' ']));
}

/// The fields of an event; those of the commonest in the short forms that everybody reads.
fn told_fields(event: &EventLine) -> String {
    let field = |name: &str| {
        let found = event.fields.iter().find(|(of, _)| *of == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let task = || format!("{}:{} [{}]", field("comm"), field("pid"), field("prio"));
    match event.event.as_str() {
        // What it switches from is the task that was current.
        "sched_switch" => format!(
            "{} ==> {}:{} [{}]",
            field("prev_state"),
            field("next_comm"),
            field("next_pid"),
            field("next_prio"),
        ),
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
            format!("{} CPU:{:0>3}", task(), field("target_cpu"))
        }
        "sched_migrate_task" => {
            format!("{} {} -> {}", task(), field("orig_cpu"), field("dest_cpu"))
        }
        _ => {
            let fields = event.fields.iter();
            let fields = fields.map(|(name, value)| format!("{name}={value}"));
            fields.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Puts a text behind what stands before it, and what does not fit on lines of its own.
fn push_hanging(out: &mut String, first: &str, text: &str) {
    const INDENT: usize = 6;
    if width(first) + width(text) <= super::WIDTH {
        push_line(out, &format!("{first}{text}"), None);
        return;
    }
    push_line(out, &cut(first.trim_end(), super::WIDTH), None);
    for line in super::table::wrap(text, super::WIDTH - INDENT) {
        push_line(out, &format!("{:INDENT$}{line}", ""), None);
    }
}

fn push_settings(of: &Settings, out: &mut String) {
    push_line(out, "Computed with", Some(HEADING));
    let lines = [
        format!("kernel model {}", of.kernel_model),
        format!("topology from: {}", of.topology),
        format!(
            "settle {} (--settle), affinity {} (--affinity)",
            duration(of.settle_ns),
            of.affinity.join(" and ")
        ),
        format!(
            "window {} to {} ({})",
            stamp(of.start_ns),
            stamp(of.end_ns),
            duration(of.end_ns.saturating_sub(of.start_ns))
        ),
    ];
    for line in lines {
        push_paragraph(out, "  ", &line, None);
    }
}
