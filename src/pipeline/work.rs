//! Whether the trace can show the units of work that are asked for, and if not, what it has instead.

use ttwu_parsers::event::escape;
use ttwu_parsers::trace::Trace;
use ttwu_parsers::watch::{Watch, WatchError};

use super::RunError;
use crate::replay::survey::Survey;
use crate::replay::units::Work;
use crate::wording::many;

/// Names that a message lists.
const LISTED: usize = 8;

/// Refuses units that the trace cannot show: they would be counted as none.
pub fn check(trace: &Trace, survey: &Survey, work: Option<&Work>) -> Result<(), RunError> {
    match work {
        Some(Work::Event(watch)) => {
            let what = match trace.watch_error() {
                Some(error) => Some(describe(error)),
                None if recorded(trace, survey, |system, name| {
                    name == watch.name && watch.system.as_ref().is_none_or(|of| of == system)
                })
                .is_empty() =>
                {
                    Some("none was recorded".to_owned())
                }
                None => None,
            };
            let Some(what) = what else {
                return Ok(());
            };
            let lists_events = !matches!(
                trace.watch_error(),
                Some(
                    WatchError::NoField(_)
                        | WatchError::NotComparable(_)
                        | WatchError::NotNumber(_)
                )
            );
            let advice = match lists_events {
                true => format!("; recorded are {}", nearest(trace, survey, &watch.name)),
                false => String::new(),
            };
            Err(RunError::NoUnitEvent {
                event: typed(watch),
                why: what + &advice,
            })
        }
        Some(Work::Marker(_)) if matches!(trace, Trace::Perf(_)) => Err(RunError::MarkersOfPerf),
        Some(Work::Marker(prefix)) => check_markers(survey, prefix),
        Some(Work::Task(_) | Work::Total(_)) | None => Ok(()),
    }
}

fn check_markers(survey: &Survey, prefix: &str) -> Result<(), RunError> {
    let mut markers = survey.markers.iter().map(|(_, text)| text);
    // One that was not kept may begin so.
    if survey.markers_left_out > 0 || markers.any(|text| text.starts_with(prefix)) {
        return Ok(());
    }
    Err(RunError::NoUnitMarker {
        prefix: prefix.to_owned(),
        found: found_markers(survey),
    })
}

/// Markers that a message quotes.
const QUOTED: usize = 3;

/// What markers a trace has instead.
fn found_markers(survey: &Survey) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for (_, text) in &survey.markers {
        if !texts.contains(&text.as_str()) {
            texts.push(text);
        }
    }
    let quoted = texts.iter().take(QUOTED);
    let quoted: Vec<String> = quoted
        .map(|text| format!("`{}`", escape(text.as_bytes())))
        .collect();
    let more = match texts.len().saturating_sub(QUOTED) {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {more} others"),
    };
    match (survey.markers.len(), texts.len()) {
        (0, _) => "the trace has no markers at all; write some to trace_marker, or count --work event:NAME, task:NAME or total:N".to_owned(),
        (1, _) => format!("the trace's one marker is {}", quoted.join(", ")),
        (all, 1) => format!("the trace's {all} markers are all {}", quoted.join(", ")),
        (all, _) => format!("the trace's {all} markers are {}{more}", quoted.join(", ")),
    }
}

/// An event as it is typed behind `--work event:`.
fn typed(watch: &Watch) -> String {
    let system = watch.system.iter().map(|system| format!("{system}:"));
    let field = watch.field.iter();
    let field = field.map(|(field, value)| format!(":{field}={value}"));
    system.chain([watch.name.clone()]).chain(field).collect()
}

fn describe(error: &WatchError) -> String {
    let list = |names: &[String]| {
        let names = names.iter().map(|name| escape(name.as_bytes()));
        names.collect::<Vec<_>>().join(", ")
    };
    match error {
        WatchError::NoEvent => "the trace knows no such event".to_owned(),
        WatchError::SeveralSystems(systems) => {
            format!(
                "several systems have one: {}; name it as SYSTEM:NAME",
                list(systems)
            )
        }
        WatchError::NoField(fields) => {
            format!("it has no such field; its fields are {}", list(fields))
        }
        WatchError::NotComparable(declared) => format!(
            "that field is `{}`; only numbers and text can be compared",
            escape(declared.as_bytes())
        ),
        WatchError::NotNumber(bytes) => format!(
            "that field is a number of {}, which the value is not; write it as 12, -1 or 0x1f",
            many(*bytes as u64, "byte")
        ),
    }
}

/// The recorded tracepoints that pass, with their counts.
fn recorded<'a>(
    trace: &'a Trace,
    survey: &Survey,
    pass: impl Fn(&str, &str) -> bool,
) -> Vec<(&'a str, &'a str, u64)> {
    let types = trace.types().iter().zip(&survey.by_type);
    types
        .filter(|(of, count)| **count > 0 && !of.system.is_empty() && pass(&of.system, &of.name))
        .map(|(of, count)| (of.system.as_str(), of.name.as_str(), *count))
        .collect()
}

/// The recorded events, those with the most similar names first.
fn nearest(trace: &Trace, survey: &Survey, wanted: &str) -> String {
    let mut events = recorded(trace, survey, |_, _| true);
    events.sort_by_key(|(system, name, count)| {
        let near = distance(name, wanted);
        // Beyond a few letters names are not similar at all, and the commonest are told.
        let near = if near <= wanted.len() / 3 + 1 {
            near
        } else {
            usize::MAX
        };
        (near, std::cmp::Reverse(*count), *system, *name)
    });
    let more = events.len().saturating_sub(LISTED);
    let names = events.iter().take(LISTED);
    let names: Vec<String> = names
        .map(|(system, name, _)| escape(format!("{system}:{name}").as_bytes()))
        .collect();
    match more {
        0 => names.join(", "),
        1 => format!("{} and 1 other", names.join(", ")),
        more => format!("{} and {more} others", names.join(", ")),
    }
}

/// How many letters must be inserted, removed or exchanged to make one name of another.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (row, letter) in a.iter().enumerate() {
        let mut left = row + 1;
        let mut corner = row;
        let mut line = vec![left];
        for (other, up) in b.iter().zip(above.iter().skip(1)) {
            left = (left + 1)
                .min(up + 1)
                .min(corner + usize::from(letter != other));
            corner = *up;
            line.push(left);
        }
        above = line;
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_few_letters_apart() {
        for (a, b, apart) in [
            ("", "", 0),
            ("sched_switch", "sched_switch", 0),
            ("sched_switch", "sched_swich", 1),
            ("sched_wakeup", "sched_waking", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a, b), apart, "{a} {b}");
        }
    }
}
