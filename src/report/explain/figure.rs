//! Numbers of the report as an explanation tells them.

use super::super::spread;
use super::super::units::{duration, percent};
use crate::attribute::explain::Unit;

/// The value of a figure as the report prints such.
pub fn of_figure(value: &serde_json::Value, unit: Unit) -> String {
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
