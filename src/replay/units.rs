//! Units of work: what a user counts as one (`analysis` §7), and the marks by which a trace shows them.

use std::fmt;

use super::engine::Replay;
use super::rows::{Sink, UnitRow};
use super::steps::Step;
use super::words::Mark;
use ttwu_parsers::event::{Event, Payload};
use ttwu_parsers::watch::Watch;

/// What one unit of work is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A completed cycle of the tasks of this pid, or whose names match this pattern.
    Task(String),
    /// An event of this kind.
    Event(Watch),
    /// What markers that begin with this text count.
    Marker(String),
    /// So many units were done in the window, as the workload itself says.
    Total(u64),
}

impl Work {
    /// The word for its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Work::Task(_) => "task",
            Work::Event(_) => "event",
            Work::Marker(_) => "marker",
            Work::Total(_) => "total",
        }
    }
}

/// `task lab-wakee`, `event sched:sched_switch next_pid=7`, `marker wakelab`, `total`.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Work::Task(name) => write!(f, " {name}"),
            Work::Event(watch) => write!(f, " {}", EventName(watch)),
            Work::Marker(prefix) => write!(f, " {prefix}"),
            Work::Total(_) => Ok(()),
        }
    }
}

/// An event as `sched:sched_switch next_pid=7`.
pub struct EventName<'a>(pub &'a Watch);

impl fmt::Display for EventName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Watch {
            system,
            name,
            field,
        } = self.0;
        if let Some(system) = system {
            write!(f, "{system}:")?;
        }
        f.write_str(name)?;
        match field {
            Some((field, value)) => write!(f, " {field}={value}"),
            None => Ok(()),
        }
    }
}

/// A mark, and how many units its counter says were done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marked {
    pub mark: Mark,
    pub done: Option<u64>,
}

const ONE: Marked = Marked {
    mark: Mark::One,
    done: None,
};

/// Tells the marks among a trace's events.
#[derive(Debug, Default)]
pub enum Marks {
    /// Nothing is asked for.
    #[default]
    None,
    /// Events that the reader marked.
    Watched,
    /// Markers that begin so.
    Markers(Box<[u8]>),
}

impl Marks {
    pub fn new(work: Option<&Work>) -> Self {
        match work {
            Some(Work::Event(_)) => Self::Watched,
            Some(Work::Marker(prefix)) => Self::Markers(prefix.as_bytes().into()),
            _ => Self::None,
        }
    }

    #[inline]
    pub fn of(&self, event: &Event) -> Option<Marked> {
        match self {
            Self::None => None,
            Self::Watched => event.watched.then_some(ONE),
            Self::Markers(prefix) => match &event.payload {
                Payload::Marker(text) => marked(prefix, text),
                _ => None,
            },
        }
    }
}

/// What a marker says, if it begins with the prefix.
fn marked(prefix: &[u8], text: &[u8]) -> Option<Marked> {
    let rest = text.strip_prefix(prefix)?.trim_ascii_end();
    let (mark, done) = match rest {
        b" start" => (Mark::Start, None),
        b" end" => (Mark::End, None),
        _ => match rest.strip_prefix(b" unit ").and_then(number) {
            Some(done) => (Mark::Unit, Some(done)),
            None => return Some(ONE),
        },
    };
    Some(Marked { mark, done })
}

fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl<S: Sink> Replay<'_, S> {
    /// A mark. Its event, if it changes anything, is the step behind it.
    pub(super) fn unit(&mut self, step: &Step, marked: Marked) {
        if self.machine.cpus.index(step.cpu).is_none() {
            return;
        }
        let ts_ns = step.ts.min(self.config.end_ns).max(self.now);
        let task = (step.pid > 0).then(|| self.tasks.get_or_new(step.pid));
        self.sink.unit(&UnitRow {
            ts_ns,
            mark: marked.mark,
            done: marked.done,
            task,
            cpu: step.cpu,
            in_window: self.config.window.contains(ts_ns),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_count_in_either_form() {
        let of = |text: &[u8]| marked(b"lab", text).map(|marked| (marked.mark, marked.done));
        assert_eq!(of(b"lab start"), Some((Mark::Start, None)));
        assert_eq!(of(b"lab unit 100\n"), Some((Mark::Unit, Some(100))));
        assert_eq!(of(b"lab end "), Some((Mark::End, None)));
        for bare in [
            &b"lab"[..],
            b"label",
            b"lab start now",
            b"lab unit",
            b"lab unit -1",
            b"lab unit +1",
            b"lab unit 1x",
            b"lab unit 99999999999999999999",
            b"lab  end",
            b"lab\xff",
        ] {
            assert_eq!(of(bare), Some((Mark::One, None)), "{bare:?}");
        }
        assert_eq!(of(b"la"), None);
        assert_eq!(of(b" lab unit 1"), None);
    }

    #[test]
    fn work_is_said_in_words() {
        let watch = |system: Option<&str>, field: Option<(&str, &str)>| {
            Work::Event(Watch {
                system: system.map(str::to_owned),
                name: "sched_switch".to_owned(),
                field: field.map(|(name, value)| (name.to_owned(), value.to_owned())),
            })
        };
        let words = [
            Work::Task("db*".to_owned()),
            watch(None, None),
            watch(Some("sched"), Some(("next_pid", "7"))),
            Work::Marker("lab".to_owned()),
            Work::Total(9),
        ]
        .map(|work| work.to_string());
        assert_eq!(
            words,
            [
                "task db*",
                "event sched_switch",
                "event sched:sched_switch next_pid=7",
                "marker lab",
                "total"
            ]
        );
    }
}
