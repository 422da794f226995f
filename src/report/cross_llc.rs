//! What wakeups across LLCs cost, in a few lines.

use super::table::{Column, Lines};
use super::units::{duration, percent, short_count};
use crate::attribute::answer::{CrossLlc, CrossLlcBasis, CrossLlcMeasure, Estimate, Known};
use crate::wording::agree;

/// Columns of the text behind a cost's name.
const TEXT: u16 = 64;

/// Puts a line for each of the three costs behind `out`, under a heading; nothing where none can be told of.
pub fn push(crossing: &Known<CrossLlc>, out: &mut String) {
    let Some(found) = crossing.value() else {
        return;
    };
    let header = ["Across LLCs", "cost in all, an association"].map(str::to_owned);
    let mut lines = Lines::new(vec![Column::Word, Column::Text(TEXT)], header.to_vec());
    let basis = &found.basis;
    for (name, total, basis) in [
        ("transit", &found.transit, &basis.transit),
        ("cold cache", &found.cold_cache, &basis.cold_cache),
        ("transfer", &found.transfer, &basis.transfer),
    ] {
        lines.row(vec![name.to_owned(), cost(total, basis)]);
    }
    lines.push_to(out);
}

/// Such as `12.3 ms [9.8, 14.9 ms], covers 87.2 %`.
fn cost(total: &Known<Estimate>, basis: &CrossLlcBasis) -> String {
    let Some(total) = total.value() else {
        return unknown(basis);
    };
    let ns = |value: f64| duration(value.round() as i64);
    let [low, high] = total.ci95.map(ns);
    let measure = match basis.measure {
        CrossLlcMeasure::Time => "",
        CrossLlcMeasure::CyclesPerInstruction => ", by counters",
    };
    let (value, share) = (ns(total.value), percent(basis.coverage));
    format!("{value} [{low}, {high}], covers {share}{measure}")
}

fn unknown(basis: &CrossLlcBasis) -> String {
    let crossing = short_count(basis.crossing);
    match (basis.crossing, basis.always_crossing) {
        (0, _) => "not measurable here: no wakeup crosses".to_owned(),
        (all, always) if all == always => {
            let all = match all {
                1 => "the only wakeup crosses".to_owned(),
                _ => format!("all {crossing} cross"),
            };
            format!("not measurable here: {all}, compare two runs")
        }
        (n, _) => {
            let cross = agree(n, "crosses", "cross");
            format!("not measurable here ({crossing} {cross}): too few, or no difference")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::WIDTH;
    use super::*;
    use crate::attribute::answer::{CrossLlcBases, CrossLlcConfounders};

    fn basis(crossing: u64, always_crossing: u64, measure: CrossLlcMeasure) -> CrossLlcBasis {
        CrossLlcBasis {
            measure,
            per_wakeup_ns: Known::unknown("not asked"),
            crossing,
            compared_crossing: 0,
            coverage: 0.9999,
            compared_staying: 0,
            compared_groups: 0,
            always_crossing,
            samples: 0,
            confounders: CrossLlcConfounders {
                waker_overlap: Known::unknown("not asked"),
                busy_sibling: Known::unknown("not asked"),
                idle_before_ns: Known::unknown("not asked"),
                frequency: Known::unknown("not asked"),
            },
            assumption: "",
        }
    }

    #[test]
    fn four_lines_that_fit() {
        let huge = Estimate {
            value: -123_456_789_012.0,
            ci95: [-123_456_789_012.0, 9_999_456_789_012.0],
            n: 9,
        };
        let time = CrossLlcMeasure::Time;
        let found = CrossLlc {
            transit: Known::Value(huge),
            cold_cache: Known::unknown("why"),
            transfer: Known::unknown("why"),
            basis: CrossLlcBases {
                transit: basis(5, 0, CrossLlcMeasure::CyclesPerInstruction),
                cold_cache: basis(12_345_678, 12_345_678, time),
                transfer: basis(12_345_678, 1, time),
            },
        };
        let mut out = String::new();
        push(&Known::Value(found), &mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), 4, "{plain}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{plain}"
        );
        let shown = "transit     -123.5 s [-123.5 s, 9999.5 s], covers >99.9 %, by counters";
        assert_eq!(lines[1].trim(), shown);
        assert!(lines[2].contains("compare two runs"), "{plain}");
        assert!(
            lines[3].ends_with("(12.3M cross): too few, or no difference"),
            "{plain}"
        );
        let mut out = String::new();
        push(&Known::unknown("no topology"), &mut out);
        assert!(out.is_empty());
    }
}
