//! Rows of tables in sentences.

use super::super::glossary::POLICIES;
use super::super::units::{self, counted, duration, stamp};
use crate::attribute::explain::{Row, Value};

fn times(n: i64) -> String {
    units::times(u64::try_from(n).unwrap_or(0))
}

/// A number of a row with what it counts.
fn many(n: i64, one: &str) -> String {
    counted(u64::try_from(n).unwrap_or(0), one)
}

/// A row in a sentence.
pub struct Told<'a>(pub &'a Row);

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

    pub fn sentence(&self, table: &str, word: &str) -> String {
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
        let (first, last) = (self.text("first_cpu"), self.text("last_cpu"));
        let cpus = match first == last {
            true => format!("on CPU {first}"),
            false => format!("on CPU {first}, at last on CPU {last},"),
        };
        format!(
            "{} waited {} {cpus} from {}{woken}: {}; lost {lost}; CPUs of the whole machine that were idle and allowed at the choice: {idle}",
            self.text("task"),
            self.time("wait_ns"),
            self.at("start_ns"),
            self.both("verdict_seen", "verdict_any", Self::text),
        )
    }

    /// What is said of the CPUs that ran nothing. They are others than those that a wait counts: at another instant, and
    /// tasks are not looked at that may not use them, or are on their way to them.
    pub fn of_idle(&self, table: &str) -> String {
        let (at, near) = match table {
            "waits" => ("as the wait began", "first_cpu"),
            _ => ("at the wakeup", "chosen_cpu"),
        };
        let near = self.text(near);
        format!(
            "CPUs on which nothing ran {at}, be they allowed or not, and be a task on its way to them or not (distances from \
             CPU {near})"
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
