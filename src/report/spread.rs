//! How a number spreads over threads, in words.

use super::units::{count, duration};
use crate::attribute::answer::Spread;

/// `mean 1,500, 750 to 2,250, stddev 375`: of these threads, not of such threads.
pub fn told(of: &Spread, show: impl Fn(f64) -> String) -> String {
    format!(
        "mean {}, {} to {}, stddev {}",
        show(of.mean),
        show(of.min),
        show(of.max),
        show(of.stddev_population)
    )
}

pub fn time(ns: f64) -> String {
    duration(ns.round() as i64)
}

/// Whole from 100 on, with a digit below.
pub fn number(of: f64) -> String {
    match of {
        of if of >= 100.0 || of.fract() == 0.0 => count(of.round() as u64),
        of => format!("{of:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 12.0, 12.34, 1_234.5].map(number);
        assert_eq!(shown, ["0", "0.2", "12", "12.3", "1,235"]);
    }
}
