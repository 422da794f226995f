//! Numbers with their units, as people read them.

use crate::wording;

/// `1.234 s`, `56.7 ms`, `8.9 µs` or `123 ns`; from 10,000 s on `2.8 h`, `41.7 d` or `292 y`: at most eight columns.
pub fn duration(ns: i64) -> String {
    scaled(ns, " ", 3)
}

/// The same without a space and with fewer digits, for the widest tables: at most five columns, six of what is negative.
pub fn short_duration(ns: i64) -> String {
    scaled(ns, "", 1)
}

fn scaled(ns: i64, space: &str, digits_of_seconds: usize) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    let number = |unit: u64, most: usize, name: &str| {
        let value = size as f64 / unit as f64;
        // Digits that would only follow a number of three are left out.
        let places = match value {
            v if v < 9.95 => most,
            v if v < 99.5 => most.saturating_sub(1).max(usize::from(!space.is_empty())),
            _ => most.saturating_sub(2),
        };
        format!("{sign}{value:.places$}{space}{name}")
    };
    match size {
        0..1_000 => format!("{sign}{size}{space}ns"),
        // Rounding must not print 1000 of a unit.
        1_000..999_500 => number(1_000, 1, "µs"),
        999_500..999_500_000 => number(1_000_000, 1, "ms"),
        999_500_000..9_999_500_000_000 => number(SECOND, digits_of_seconds, "s"),
        size if size < 100 * HOUR => number(HOUR, 1, "h"),
        size if size < 1_000 * DAY => number(DAY, 1, "d"),
        _ => number(365 * DAY, 1, "y"),
    }
}

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// `12.3 %`; what is not zero is never printed as `0.0 %`, and what is not all never as `100.0 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if !p.is_finite() => "-".to_owned(),
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_owned(),
        p if p > 99.95 && p < 100.0 => ">99.9 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

/// `12%`, with the same care.
pub fn short_percent(share: f64) -> String {
    match share * 100.0 {
        p if !p.is_finite() => "-".to_owned(),
        p if p > 0.0 && p < 0.5 => "<1%".to_owned(),
        p if p > 99.5 && p < 100.0 => ">99%".to_owned(),
        p => format!("{p:.0}%"),
    }
}

/// `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `99999`, `123k`, `12.3M`: at most five columns.
pub fn short_count(n: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let value = n as f64 / unit as f64;
        let places = usize::from(value < 99.95);
        format!("{value:.places$}{name}")
    };
    match n {
        0..100_000 => n.to_string(),
        100_000..999_500 => scaled(1_000, "k"),
        999_500..999_500_000 => scaled(1_000_000, "M"),
        _ => scaled(1_000_000_000, "G"),
    }
}

/// `1 wakeup` or `1,234 wakeups`.
pub fn counted(n: u64, one: &str) -> String {
    numbered(&count(n), n, one)
}

/// The same, its number in at most five columns.
pub fn short_counted(n: u64, one: &str) -> String {
    numbered(&short_count(n), n, one)
}

fn numbered(shown: &str, n: u64, one: &str) -> String {
    format!("{shown} {}", wording::noun(n, one))
}

/// `once`, `twice` or `1,234 times`.
pub fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{} times", count(n)),
    }
}

/// A stamp as `trace-cmd report` and `perf script --ns` print it: `14.731161042`.
pub fn stamp(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_change_their_unit_without_printing_a_thousand() {
        let shown = [
            0,
            123,
            999,
            1_000,
            8_940,
            56_749,
            123_456,
            999_499,
            999_500,
            999_499_999,
            999_500_000,
            1_234_000_000,
            12_345_000_000,
            123_456_000_000,
            9_999_000_000_000,
            -8_940,
        ]
        .map(duration);
        assert_eq!(
            shown,
            [
                "0 ns", "123 ns", "999 ns", "1.0 µs", "8.9 µs", "56.7 µs", "123 µs", "999 µs",
                "1.0 ms", "999 ms", "1.000 s", "1.234 s", "12.35 s", "123.5 s", "9999.0 s",
                "-8.9 µs",
            ]
        );
        let long = [
            10_000,
            360_000,
            3_600_000,
            90_000_000,
            i64::MAX / 1_000_000_000,
        ]
        .map(|s| duration(s * 1_000_000_000));
        assert_eq!(long, ["2.8 h", "4.2 d", "41.7 d", "2.9 y", "292 y"]);
        for ns in (0..63).map(|bit| 1_i64 << bit).chain([i64::MAX]) {
            for ns in [ns, ns - 1, ns / 10 * 7] {
                assert!(duration(ns).chars().count() <= 8, "{}", duration(ns));
                assert!(
                    short_duration(ns).chars().count() <= 5,
                    "{}",
                    short_duration(ns)
                );
            }
        }
        let short = [8_940, 56_749, 123_456, 1_234_000_000, 123_456_000_000].map(short_duration);
        assert_eq!(short, ["8.9µs", "57µs", "123µs", "1.2s", "123s"]);
    }

    #[test]
    fn shares_never_round_to_none_or_all() {
        let shown = [0.0, 0.0004, 0.1234, 0.9999, 1.0, f64::NAN].map(percent);
        assert_eq!(
            shown,
            ["0.0 %", "<0.1 %", "12.3 %", ">99.9 %", "100.0 %", "-"]
        );
    }

    #[test]
    fn counts_and_stamps() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        let short = [99_999, 123_456, 999_600, 12_345_678, 2_000_000_000].map(short_count);
        assert_eq!(short, ["99999", "123k", "1.0M", "12.3M", "2.0G"]);
        assert_eq!(
            (stamp(14_731_161_042), stamp(-1)),
            ("14.731161042".into(), "-0.000000001".into())
        );
        assert_eq!(
            (counted(1, "wakeup"), counted(0, "wakeup")),
            ("1 wakeup".into(), "0 wakeups".into())
        );
        assert_eq!(short_counted(1_234_567, "flush"), "1.2M flushes");
        assert_eq!(
            [1, 2, 3].map(times),
            ["once", "twice", "3 times"].map(str::to_owned)
        );
    }
}
