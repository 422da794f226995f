//! What may be typed after an option, and what it means.

use std::path::Path;

use ttwu_parsers::event::escape;
use ttwu_parsers::topology::cpulist::parse_list;
use ttwu_parsers::topology::{parse_spec, places_of_cpus};
use ttwu_parsers::watch::Watch;

use crate::attribute::explain::{self, Sense};
use crate::pipeline::TimePoint;
use crate::replay::model::parse_version;
use crate::replay::units::Work;
use crate::replay::words::Reading;
use crate::report::terminal::Section;
use crate::tables::Table;

/// What all time options understand.
const TIME_FORMS: &str = "a time is 14.731161 (seconds on the trace's clock, as perf script and trace-cmd print \
                          them), 500ms or +1.5s (after the trace's start), -200ms (before its end), or \
                          marker:TEXT (the first marker that begins so)";

const UNITS: [(&str, i64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
];

const SECOND: i64 = 1_000_000_000;

/// A point of time of `--from` and `--to`.
pub fn time(text: &str) -> Result<TimePoint, String> {
    if let Some(marker) = text.strip_prefix("marker:") {
        return match marker {
            "" => Err("marker: wants a text that a marker begins with".to_owned()),
            marker => Ok(TimePoint::Marker(marker.to_owned())),
        };
    }
    let (sign, rest) = match text.split_at_checked(1) {
        Some((sign @ ("+" | "-"), rest)) => (sign, rest),
        _ => ("", text),
    };
    // perf script and trace-cmd put a colon behind the stamp, which is copied along easily.
    let rest = rest.strip_suffix(':').unwrap_or(rest);
    let (number, unit) = split_unit(rest);
    let scale = unit.unwrap_or(SECOND);
    let ns = scaled(number, scale).ok_or_else(|| TIME_FORMS.to_owned())?;
    Ok(match (sign, unit) {
        ("-", _) => TimePoint::BeforeEnd(ns),
        ("+", _) | (_, Some(_)) => TimePoint::AfterStart(ns),
        _ => TimePoint::At(ns),
    })
}

/// The meanings of a word of the report.
#[derive(Debug, Clone)]
pub struct Senses(pub Vec<Sense>);

/// A word of the report.
pub fn word(text: &str) -> Result<Senses, String> {
    explain::find(text)
        .map(Senses)
        .map_err(|error| error.to_string())
}

/// A pattern over names of tasks, or a pid.
pub fn task(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a task is a name, a pattern such as `nginx*`, or a pid".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A source of the topology. A specification must be sound, files are read later.
pub fn topology(text: &str) -> Result<String, String> {
    let path = Path::new(text);
    if text == "live" {
        return Ok(text.to_owned());
    }
    if path.exists() {
        return match is_running_machine(path) {
            true => Err(RUNNING_MACHINE.to_owned()),
            false => Ok(text.to_owned()),
        };
    }
    match text.contains('=') {
        true => {
            let parsed = parse_spec(text);
            let parsed = parsed.map_err(|error| escape(error.to_string().as_bytes()));
            match crate::topology::core_across_llcs(&parsed?) {
                Some((core, llc)) => Err(format!(
                    "the threads {core} of one core cannot be in several LLCs: one of them has the CPUs {llc}"
                )),
                None => Ok(text.to_owned()),
            }
        }
        // No file, which is told when it is to be read.
        false => Ok(text.to_owned()),
    }
}

/// Why the machine that this runs on is not taken for a copy of another.
pub const RUNNING_MACHINE: &str = "that is the machine this runs on, not a copy of another's /sys/devices/system/cpu; \
                                   if the trace was recorded on this very machine, say `live`";

/// Whether a folder is, or holds where copies hold it, the sysfs of the machine this runs on.
pub fn is_running_machine(path: &Path) -> bool {
    places_of_cpus(path).any(|place| {
        let real = place.canonicalize();
        real.is_ok_and(|real| real.starts_with("/sys/devices/system"))
    })
}

/// How many rows a table shows.
pub fn rows(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        text => text
            .parse()
            .map_err(|_| "a number of rows, or all".to_owned()),
    }
}

/// A name of a host or trace.
pub fn name(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a name must not be empty".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A section of the report.
pub fn section(text: &str) -> Result<Section, String> {
    let found = Section::ALL.into_iter().find(|s| s.as_str() == text);
    found.ok_or_else(|| {
        let names = Section::ALL.map(Section::as_str).join(", ");
        format!("sections are {names}")
    })
}

/// A length of time with its unit, in nanoseconds.
pub fn duration_ns(text: &str) -> Result<i64, String> {
    match split_unit(text) {
        ("0", None) => Some(0),
        (number, Some(unit)) => scaled(number, unit),
        (_, None) => None,
    }
    .ok_or_else(|| "a duration is a number with its unit, such as 5us, 0.5ms or 1s".to_owned())
}

/// Parts a number from the unit behind it.
fn split_unit(text: &str) -> (&str, Option<i64>) {
    UNITS
        .iter()
        .find_map(|(name, scale)| Some((text.strip_suffix(name)?.trim_end(), Some(*scale))))
        .unwrap_or((text, None))
}

/// A decimal number times a scale, exactly; digits below one nanosecond are refused.
fn scaled(number: &str, scale: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction = fraction.trim_end_matches('0');
    let part: i64 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let below = 10_i64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = part.checked_mul(scale)?;
    if part % below != 0 {
        return None;
    }
    whole.checked_mul(scale)?.checked_add(part / below)
}

/// A list of CPUs such as `0-3,8`.
pub fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let cpus = parse_list(text).map_err(|error| escape(error.to_string().as_bytes()))?;
    match cpus.is_empty() {
        true => Err("a list of CPUs is 0-3,8".to_owned()),
        false => Ok(cpus),
    }
}

/// A table by its name, or `all` of them.
pub fn tables(text: &str) -> Result<Vec<Table>, String> {
    if text == "all" {
        return Ok(Table::ALL.to_vec());
    }
    let found = Table::ALL.iter().find(|table| table.as_str() == text);
    found.map(|table| vec![*table]).ok_or_else(|| {
        let names: Vec<&str> = Table::ALL.iter().map(|table| table.as_str()).collect();
        format!("no such table; there are {} and all", names.join(", "))
    })
}

/// A kernel version such as `6.12`.
pub fn kernel_model(text: &str) -> Result<(u32, u32), String> {
    let version = text.strip_prefix('v').unwrap_or(text);
    parse_version(version).ok_or_else(|| "a kernel version is 6.12".to_owned())
}

/// What all work options understand.
const WORK_FORMS: &str = "a unit of work is task:NAME (a completed cycle of a task, by name, pattern or pid), \
                          event:NAME or event:SYSTEM:NAME (an event), with :FIELD=VALUE if only some count, \
                          marker:PREFIX (what markers count), or total:N (N units, as the workload printed)";

/// What is counted as a unit of work.
pub fn work(text: &str) -> Result<Work, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let work = match kind {
        _ if rest.is_empty() => None,
        "task" => Some(Work::Task(rest.to_owned())),
        "event" => watch(rest).map(Work::Event),
        "marker" => Some(Work::Marker(rest.to_owned())),
        "total" => return total(rest).map(Work::Total),
        _ => None,
    };
    work.ok_or_else(|| WORK_FORMS.to_owned())
}

/// How many units the workload did.
fn total(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err(
            "of no unit nothing can be said: total:N wants how many the workload did, 1 at least"
                .to_owned(),
        ),
        Ok(units) => Ok(units),
        Err(_) => Err(
            "total:N wants how many units the workload did, a whole number such as total:3000"
                .to_owned(),
        ),
    }
}

/// `NAME`, `SYSTEM:NAME` or `SYSTEM/NAME`, and `:FIELD=VALUE`. The value may hold anything.
fn watch(text: &str) -> Option<Watch> {
    let (event, field) = match text.split_once('=') {
        Some((before, value)) => {
            let (event, field) = before.rsplit_once(':')?;
            (event, Some((field.to_owned(), value.to_owned())))
        }
        None => (text, None),
    };
    let (system, name) = match event.split_once([':', '/']) {
        Some((system, name)) => (Some(system), name),
        None => (None, event),
    };
    let is_name = |text: &str| !text.is_empty() && !text.contains([':', '/', ' ']);
    let named = is_name(name) && system.is_none_or(is_name);
    let named = named && field.as_ref().is_none_or(|(field, _)| is_name(field));
    named.then(|| Watch {
        system: system.map(str::to_owned),
        name: name.to_owned(),
        field,
    })
}

/// Which readings of unknown affinity are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Affinity {
    /// A task may run only where it was seen to run or wait: losses are lower bounds
    Seen,
    /// A task may run everywhere: losses are upper bounds
    Any,
    /// Both, side by side
    Both,
}

impl Affinity {
    pub fn readings(self) -> Vec<Reading> {
        match self {
            Affinity::Seen => vec![Reading::Seen],
            Affinity::Any => vec![Reading::Any],
            Affinity::Both => vec![Reading::Seen, Reading::Any],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases = [
            ("14.731161", TimePoint::At(14_731_161_000)),
            ("14.731161:", TimePoint::At(14_731_161_000)),
            ("0.000000001", TimePoint::At(1)),
            (".5", TimePoint::At(500_000_000)),
            ("500ms", TimePoint::AfterStart(500_000_000)),
            ("+1.5s", TimePoint::AfterStart(1_500_000_000)),
            ("+2", TimePoint::AfterStart(2_000_000_000)),
            ("1min", TimePoint::AfterStart(60_000_000_000)),
            ("3 µs", TimePoint::AfterStart(3_000)),
            ("-200ms", TimePoint::BeforeEnd(200_000_000)),
            (
                "marker:window-start",
                TimePoint::Marker("window-start".to_owned()),
            ),
        ];
        for (text, point) in cases {
            assert_eq!(time(text), Ok(point), "{text}");
        }
        let wrong = [
            "",
            "-",
            "+",
            ".",
            "1e3",
            "1.5.2",
            "--5",
            "+-5",
            "ten",
            "5 hours",
            "marker:",
            "0.5ns",
            "9999999999999999999",
            "1.00000000000000000000000001",
        ];
        for text in wrong {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_want_a_unit() {
        assert_eq!(duration_ns("5us"), Ok(5_000));
        assert_eq!(duration_ns("0"), Ok(0));
        assert!(duration_ns("5").is_err() && duration_ns("-5us").is_err());
    }

    #[test]
    fn units_of_work() {
        let event = |system: Option<&str>, name: &str, field: Option<(&str, &str)>| {
            Work::Event(Watch {
                system: system.map(str::to_owned),
                name: name.to_owned(),
                field: field.map(|(name, value)| (name.to_owned(), value.to_owned())),
            })
        };
        let cases = [
            ("task:nginx*", Work::Task("nginx*".to_owned())),
            ("task:kworker/0:1", Work::Task("kworker/0:1".to_owned())),
            ("marker:my lab: a", Work::Marker("my lab: a".to_owned())),
            ("total:3000", Work::Total(3000)),
            ("event:sched_switch", event(None, "sched_switch", None)),
            (
                "event:sched:sched_switch",
                event(Some("sched"), "sched_switch", None),
            ),
            (
                "event:sched/sched_switch:prev_state=0x1",
                event(Some("sched"), "sched_switch", Some(("prev_state", "0x1"))),
            ),
            (
                "event:sched_switch:next_comm=a:b=c",
                event(None, "sched_switch", Some(("next_comm", "a:b=c"))),
            ),
            ("event:open:path=", event(None, "open", Some(("path", "")))),
        ];
        for (text, expected) in cases {
            assert_eq!(work(text), Ok(expected), "{text}");
        }
        let wrong = [
            "",
            "task",
            "task:",
            "marker:",
            "event:",
            "event::x",
            "event:a:b:c",
            "event:a=1",
            "event::a=1",
            "event:a:=1",
            "total:",
            "unit:5",
            "wakelab",
        ];
        for text in wrong {
            assert_eq!(work(text), Err(WORK_FORMS.to_owned()), "{text}");
        }
        for text in ["total:0", "total:-1", "total:many", "total:1.5"] {
            let error = work(text).unwrap_err();
            assert!(error.contains("total:N wants how many"), "{text}: {error}");
        }
    }

    #[test]
    fn other_values() {
        assert_eq!(cpus("0-2,8"), Ok(vec![0, 1, 2, 8]));
        assert!(cpus("").is_err() && cpus("a").is_err());
        assert_eq!(
            (kernel_model("6.12"), kernel_model("v5.4")),
            (Ok((6, 12)), Ok((5, 4)))
        );
        assert!(kernel_model("6").is_err());
    }
}
