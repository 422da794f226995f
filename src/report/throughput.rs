//! Units of work per second, in a line or three.

use super::table::{HEADING, push_paragraph};
use super::units::{count, duration, percent};
use super::{given, spread, units};
use crate::attribute::answer::{Known, PerThread, Throughput};

/// Puts units per second behind `out`, then what the machine did for each, and how they spread over threads.
pub fn push(throughput: &Throughput, out: &mut String) {
    push_paragraph(out, "", &rate(throughput), Some(HEADING));
    push_paragraph(out, "", &per_unit(throughput), None);
    if let Known::Value(of) = &throughput.per_thread
        && throughput.named_throughput
        && of.units.n > 1
    {
        push_paragraph(out, "", &per_thread(of), None);
    }
}

fn per_thread(of: &PerThread) -> String {
    format!(
        "Per thread, of {}: units {}; ran {}.",
        units::counted(of.units.n, "thread"),
        spread::told(&of.units, spread::number),
        spread::told(&of.run_ns, spread::time)
    )
}

/// Wakeups are never called throughput: their number says nothing of what was done.
fn rate(of: &Throughput) -> String {
    let rate = per_second(of.per_second);
    let tasks = of.tasks.join(", ");
    if !of.named_throughput {
        return format!("{rate} wakeups per second among {tasks}; name work with --work.");
    }
    let (at_least, missed) = match of.units_missed_at_most {
        0 => ("", String::new()),
        n => ("at least ", format!(" ({} more at most)", count(n))),
    };
    let span = duration(of.span.end_ns.saturating_sub(of.span.start_ns));
    let time = duration(of.time_per_unit_ns.round() as i64);
    let units = units::counted(of.units, "unit");
    format!(
        "Throughput: {at_least}{rate} units per second ({}): {units} in {span}, {time} each{missed}{}.",
        of.unit,
        lost_capacity(of)
    )
}

/// `1,998.4`, `23.6`, `0.125`: three digits at least.
fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 1e5 => count(rate.round() as u64),
        rate if rate >= 100.0 => {
            let tenths = (rate * 10.0).round() as u64;
            format!("{}.{}", count(tenths / 10), tenths % 10)
        }
        rate if rate >= 10.0 => format!("{rate:.2}"),
        rate => format!("{rate:.3}"),
    }
}

fn per_unit(of: &Throughput) -> String {
    let each = [
        ("wakeups", &of.wakeups_per_unit),
        ("switches", &of.switches_per_unit),
        ("IPIs", &of.ipis_per_unit),
    ];
    let each = each.map(|(name, number)| match number {
        Known::Value(number) => format!("{number:.2} {name}"),
        Known::Unknown { .. } => format!("{name} unknown"),
    });
    format!("Per unit, on the whole machine: {}.", each.join(", "))
}

/// For work that only CPU time limits.
fn lost_capacity(of: &Throughput) -> String {
    let Known::Value(lost) = of.lost_capacity_share else {
        return String::new();
    };
    let mut shares: Vec<String> = given(lost).map(percent).collect();
    shares.dedup();
    format!("; lost CPU capacity {}", shares.join(" to "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::answer::{Readings, Spread, UnitSpan};
    use crate::report::WIDTH;

    fn sample() -> Throughput {
        Throughput {
            kind: "marker",
            unit: "marker wakelab".to_owned(),
            named_throughput: true,
            units: 3_000,
            units_missed_at_most: 0,
            span: UnitSpan {
                start_ns: 1_000,
                end_ns: 1_500_001_000,
            },
            per_second: 2_000.0,
            time_per_unit_ns: 500_000.0,
            wakeups: Known::Value(6_000),
            switches: Known::Value(12_000),
            ipis: Known::unknown("not recorded"),
            wakeups_per_unit: Known::Value(2.0),
            switches_per_unit: Known::Value(4.004),
            ipis_per_unit: Known::unknown("not recorded"),
            lost_capacity_share: Known::Value(Readings {
                seen: Some(0.0),
                any: Some(0.125),
            }),
            tasks: vec!["lab-waker".to_owned(), "lab-wakee".to_owned()],
            by_task: Known::unknown("nobody"),
            per_thread: Known::unknown("nobody"),
            notes: Vec::new(),
            critical: crate::report::sample::path(),
        }
    }

    fn pushed(throughput: &Throughput) -> String {
        let mut out = String::new();
        push(throughput, &mut out);
        let out = anstream::adapter::strip_str(&out).to_string();
        assert!(out.lines().count() <= 3, "{out}");
        let widest = out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(WIDTH), "{out}");
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn work_is_throughput() {
        assert_eq!(
            pushed(&sample()),
            "Throughput: 2,000.0 units per second (marker wakelab): 3,000 units in 1.500 s, 500 µs each; lost CPU capacity 0.0 % to 12.5 %. \
             Per unit, on the whole machine: 2.00 wakeups, 4.00 switches, IPIs unknown."
        );
        let missed = Throughput {
            units_missed_at_most: 99,
            ..sample()
        };
        let missed = pushed(&missed);
        assert!(missed.starts_with("Throughput: at least 2,000.0 units"));
        assert!(
            missed.contains("500 µs each (99 more at most); lost"),
            "{missed}"
        );
    }

    #[test]
    fn threads_have_a_line_if_they_are_several() {
        let spread = |n: u64, mean: f64| Spread {
            n,
            mean,
            min: mean / 2.0,
            max: mean * 1.5,
            range: mean,
            stddev_population: mean / 4.0,
            stddev_sample: Known::unknown("not asked"),
        };
        let among = |n: u64| Throughput {
            per_thread: Known::Value(PerThread {
                units: spread(n, 1_500.0),
                run_ns: spread(n, 2e9),
            }),
            ..sample()
        };
        let mut out = String::new();
        push(&among(4), &mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= WIDTH));
        let words: Vec<&str> = plain.split_whitespace().collect();
        assert!(
            words.join(" ").ends_with(
                "Per thread, of 4 threads: units mean 1,500, 750 to 2,250, stddev 375; \
                 ran mean 2.000 s, 1.000 s to 3.000 s, stddev 500 ms."
            ),
            "{plain}"
        );
        assert!(!pushed(&among(1)).contains("Per thread"));
    }

    #[test]
    fn wakeups_are_not() {
        let wakeups = Throughput {
            kind: "wakeup",
            unit: "wakeup".to_owned(),
            named_throughput: false,
            ..sample()
        };
        let text = pushed(&wakeups);
        assert!(
            text.starts_with("2,000.0 wakeups per second among lab-waker, lab-wakee;"),
            "{text}"
        );
        assert!(!text.to_lowercase().contains("throughput"), "{text}");
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [
            0.0129,
            1.0,
            23.5678,
            123.449,
            1_234.56,
            123_456.7,
            12_345_678.0,
        ];
        let shown = rates.map(per_second);
        let expected = [
            "0.013",
            "1.000",
            "23.57",
            "123.4",
            "1,234.6",
            "123,457",
            "12,345,678",
        ];
        assert_eq!(shown, expected);
    }
}
