//! What `--explain` prints of a word: its meaning, how it was found in this trace, and examples with their events.

use serde::Serialize;

use super::glossary::{self, POLICIES, Term};
use super::table::{FAINT, HEADING, cut, push_line, push_paragraph, width};
use super::units::{count, counted, duration, percent, stamp};
use super::{spread, units};
use crate::attribute::answer::{Known, Readings};
use crate::attribute::explain::{
    EventLine, Example, Explanation, Figure, Kind, Row, RowsFacts, SenseFacts, Settings, Unit,
    Value,
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

/// The value of a figure as the report prints such.
fn of_figure(value: &serde_json::Value, unit: Unit) -> String {
    let number = |value: &serde_json::Value| match (unit, value.as_f64()) {
        (_, None) => value.as_str().map_or_else(|| "?".to_owned(), str::to_owned),
        (Unit::Nanoseconds, Some(ns)) => duration(ns.round() as i64),
        (Unit::Share, Some(share)) => percent(share),
        (_, Some(number)) => spread::number(number),
    };
    let Some(map) = value.as_object() else {
        return number(value);
    };
    if let Some(why) = map.get("unknown").and_then(serde_json::Value::as_str) {
        return format!("not known, {why}");
    }
    if let (Some(middle), Some(ends)) = (map.get("value"), map.get("ci95")) {
        let ends = ends.as_array().into_iter().flatten().map(number);
        return format!(
            "{} [{}]",
            number(middle),
            ends.collect::<Vec<_>>().join(", ")
        );
    }
    if let (Some(seen), Some(any)) = (map.get("seen"), map.get("any")) {
        let [seen, any] = [seen, any].map(number);
        return match seen == any {
            true => seen,
            false => format!("{seen} (affinity as seen) to {any} (any CPU allowed)"),
        };
    }
    by_word(map, unit)
}

/// Several numbers by word; without those that are 0, and at last those that are not known.
fn by_word(map: &serde_json::Map<String, serde_json::Value>, unit: Unit) -> String {
    let there = map.iter().filter(|(_, of)| of.as_f64() != Some(0.0));
    let (unknown, known): (Vec<_>, Vec<_>) = there.partition(|(_, of)| of.get("unknown").is_some());
    let known = known.iter().map(|(word, of)| match word.as_str() {
        "seen" | "any" => of_figure(of, unit),
        _ => format!("{word} {}", of_figure(of, unit)),
    });
    let known = match known.collect::<Vec<_>>() {
        known if known.is_empty() => "none".to_owned(),
        known => known.join(", "),
    };
    let unknown: Vec<&str> = unknown.iter().map(|(word, _)| word.as_str()).collect();
    match unknown.is_empty() {
        true => known,
        false => format!("{known}; not said of {}", unknown.join(", ")),
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
        let text = format!("ran nothing then: {}", cpus.join(", "));
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

fn times(n: i64) -> String {
    units::times(u64::try_from(n).unwrap_or(0))
}

/// A number of a row with what it counts.
fn many(n: i64, one: &str) -> String {
    counted(u64::try_from(n).unwrap_or(0), one)
}

/// A row in a sentence.
struct Told<'a>(&'a Row);

impl Told<'_> {
    fn text(&self, column: &str) -> String {
        match self.0.get(column) {
            None => "?".to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Flag(flag)) => flag.to_string(),
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Task { name, pid }) => format!("{name} {pid}"),
        }
    }

    fn number(&self, column: &str) -> Option<i64> {
        match self.0.get(column) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    fn time(&self, column: &str) -> String {
        self.number(column).map_or_else(|| "?".to_owned(), duration)
    }

    fn at(&self, column: &str) -> String {
        self.number(column).map_or_else(|| "?".to_owned(), stamp)
    }

    /// Both readings of a word or number, once if they agree.
    fn both(&self, seen: &str, any: &str, show: impl Fn(&Self, &str) -> String) -> String {
        let (seen, any) = (show(self, seen), show(self, any));
        match seen == any {
            true => seen,
            false => format!("{seen} (seen) or {any} (any)"),
        }
    }

    fn sentence(&self, table: &str, word: &str) -> String {
        match table {
            "wakeups" => self.wakeup(),
            "waits" => self.wait(),
            "slices" => format!(
                "{} ran on CPU {} for {}, from {} to {}",
                self.text("task"),
                self.text("cpu"),
                self.length(),
                self.at("start_ns"),
                self.at("end_ns"),
            ),
            "idle" => format!(
                "CPU {} ran nothing for {}, from {} to {}",
                self.text("cpu"),
                self.length(),
                self.at("start_ns"),
                self.at("end_ns"),
            ),
            "lost" => format!(
                "of CPU {} {} missing from {} to {} ({})",
                self.text("cpu"),
                match self.number("events") {
                    Some(1) => "1 event is".to_owned(),
                    Some(events) => format!("{} are", many(events, "event")),
                    None => "an unknown number of events is".to_owned(),
                },
                self.at("start_ns"),
                self.at("end_ns"),
                self.length(),
            ),
            "migrations" => self.migration(),
            "ipis" => self.interrupt(),
            "flushes" => self.flush(),
            "flips" => self.flip(),
            "units" => self.mark(),
            "tasks" => format!(
                "{}: {} its CPU ran nothing although it was queued there, for {} in all",
                self.text("task"),
                self.number("withheld")
                    .map_or_else(|| "?".to_owned(), times),
                self.time("withheld_ns"),
            ),
            _ => self.listed(word),
        }
    }

    fn length(&self) -> String {
        let ends = self.number("start_ns").zip(self.number("end_ns"));
        ends.map_or_else(
            || "?".to_owned(),
            |(start, end)| duration(end.saturating_sub(start)),
        )
    }

    fn wakeup(&self) -> String {
        let waker = match self.0.get("waker") {
            Some(_) => self.text("waker"),
            None => format!("a {}", self.text("context").replace('_', " ")),
        };
        let latency = match self.number("latency_ns") {
            Some(ns) => format!("it ran {} later", duration(ns)),
            None => "when it ran is not known".to_owned(),
        };
        format!(
            "{waker} on CPU {} woke {}, last on CPU {}, to CPU {} at {}: {}, {}, {}; {latency}",
            self.text("waker_cpu"),
            self.text("wakee"),
            self.text("prev_cpu"),
            self.text("chosen_cpu"),
            self.at(match self.0.contains_key("waking_ns") {
                true => "waking_ns",
                false => "wakeup_ns",
            }),
            self.text("class"),
            self.text("path"),
            self.text("waker_chosen"),
        )
    }

    fn wait(&self) -> String {
        let lost = self.both("lost_seen_ns", "lost_any_ns", |told, column| {
            match told.number(column) {
                None | Some(0) => "nothing".to_owned(),
                Some(ns) => duration(ns),
            }
        });
        let woken = match (self.text("origin").as_str(), self.0.get("waker")) {
            ("preempted", _) => ", preempted".to_owned(),
            ("balanced", _) => ", moved there while runnable".to_owned(),
            ("new", _) => ", new".to_owned(),
            (_, Some(_)) => format!(", woken by {}", self.text("waker")),
            (_, None) => String::new(),
        };
        let idle = self.both("idle_cpus_seen", "idle_cpus_any", Self::text);
        format!(
            "{} waited {} on CPU {} from {}{woken}: {}; lost {lost}; idle CPUs allowed at the choice: {idle}",
            self.text("task"),
            self.time("wait_ns"),
            self.text("last_cpu"),
            self.at("start_ns"),
            self.both("verdict_seen", "verdict_any", Self::text),
        )
    }

    fn migration(&self) -> String {
        let by = match self.0.get("by_task") {
            Some(_) => format!(
                " by {} on CPU {}",
                self.text("by_task"),
                self.text("by_cpu")
            ),
            None => format!(" by CPU {}", self.text("by_cpu")),
        };
        let run = match self.number("run_ns") {
            Some(ns) => format!("; it ran {} then", duration(ns)),
            None => String::new(),
        };
        format!(
            "{} was moved from CPU {} to CPU {} ({}) at {}{by}: {}, {}{run}",
            self.text("task"),
            self.text("from_cpu"),
            self.text("to_cpu"),
            self.text("distance"),
            self.at("ts_ns"),
            self.text("cause"),
            self.text("confidence"),
        )
    }

    fn interrupt(&self) -> String {
        let sender = match self.0.get("cpu") {
            Some(_) => format!("CPU {} ({})", self.text("cpu"), self.task_or_idle("task")),
            None => "an unrecorded sender".to_owned(),
        };
        let handled = match (self.number("latency_ns"), self.number("handler_ns")) {
            (Some(latency), Some(time)) => format!(
                "handled {} later, {} in the handler",
                duration(latency),
                duration(time)
            ),
            (None, Some(time)) => format!("{} in the handler", duration(time)),
            _ => self.text("fate"),
        };
        let interrupted = match self.0.get("interrupted") {
            Some(_) => format!(", which interrupted {}", self.text("interrupted")),
            None => String::new(),
        };
        format!(
            "{sender} asked CPU {} ({}) at {}: {} by {}; {handled}{interrupted}",
            self.text("target_cpu"),
            self.text("distance"),
            self.at("ts_ns"),
            self.text("kind").replace('_', " "),
            self.text("road"),
        )
    }

    fn task_or_idle(&self, column: &str) -> String {
        match self.0.get(column) {
            Some(_) => self.text(column),
            None => "no task".to_owned(),
        }
    }

    fn flush(&self) -> String {
        format!(
            "CPU {} ({}) flushed at {} ({}): {}, {}, {}",
            self.text("cpu"),
            self.task_or_idle("task"),
            self.at("ts_ns"),
            self.text("reason").replace('_', " "),
            self.pages(),
            match self.number("targets") {
                Some(cpus) => format!("{} asked", many(cpus, "CPU")),
                None => "whom it asked is not known".to_owned(),
            },
            match self.number("wait_ns") {
                Some(ns) => format!("waited {}", duration(ns)),
                None => "how long it waited is not known".to_owned(),
            },
        )
    }

    fn mark(&self) -> String {
        let done = match self.number("done") {
            Some(done) => format!(": {} done so far", many(done, "unit")),
            None => String::new(),
        };
        format!(
            "{} on CPU {} at {} ({}){done}",
            self.task_or_idle("task"),
            self.text("cpu"),
            self.at("ts_ns"),
            self.text("mark"),
        )
    }

    /// The pages of a flush, or of the range that was asked for; both are -1 where they are all.
    fn pages(&self) -> String {
        let pages = self.number("pages").or(self.number("range_pages"));
        match pages {
            Some(pages) if pages >= 0 => many(pages, "page"),
            Some(_) => "the whole TLB".to_owned(),
            None => "pages unknown".to_owned(),
        }
    }

    fn flip(&self) -> String {
        let between = |least: &str, most: &str| {
            let (least, most) = (self.number(least), self.number(most));
            match (least, most) {
                (Some(least), Some(most)) if least == most => least.to_string(),
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("{least} or more"),
                _ => "?".to_owned(),
            }
        };
        let policies = POLICIES.iter().filter_map(|policy| {
            let column = policy.word.replace('-', "_");
            let decision = self.0.get(column.as_str())?;
            match decision {
                Value::Text(decision) => Some(format!("{} {decision}", policy.word)),
                _ => None,
            }
        });
        format!(
            "{} on CPU {} woke {} at {}; flips of the waker {}, of the wakee {}, factor {}: {}",
            self.task_or_idle("waker"),
            self.text("waker_cpu"),
            self.text("wakee"),
            self.at("waking_ns"),
            between("waker_least", "waker_most"),
            between("wakee_least", "wakee_most"),
            self.text("factor"),
            policies.collect::<Vec<_>>().join(", "),
        )
    }

    /// What there is, under the names of the table.
    fn listed(&self, word: &str) -> String {
        let fields = self.0.keys().map(|column| {
            let value = match column.ends_with("_ns") {
                true if ["ts_ns", "waking_ns"].contains(column) => self.at(column),
                true => self.time(column),
                false => self.text(column),
            };
            format!("{column} {value}")
        });
        format!("{word}: {}", fields.collect::<Vec<_>>().join(", "))
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
