//! Which stamps a trace can have: one flipped bit carries an event years away, and the trace's length with it.
//!
//! A stamp alone is never wrong; it is wrong beside the others. Those that most of a trace lies near are taken for
//! its own, and what lies far from them for damage. What lies nearer than that is judged by its neighbours on the
//! same CPU, whose order is certain.

/// 2^50 ns, 13 days: no trace of a scheduler's events is longer. Of 4,096 CPUs twice that still fits 63 bits.
const LONGEST_TRACE_NS: i64 = 1 << 50;

/// 2^32 ns, 4.3 s. Of samples that are in order but for less all are believed; with more, their neighbours decide.
pub(crate) const STEP_NS: i64 = 1 << 32;

/// 2^20 ns, 1 ms: how far a page may seem to begin before the last one ended. Within one CPU's ring buffer stamps ascend.
pub(crate) const SLACK_NS: i64 = 1 << 20;

/// The stamps that are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub first: i64,
    pub last: i64,
    /// How far it reaches beyond the trace.
    slack: i64,
}

impl Span {
    /// All stamps.
    pub const ALL: Self = Self {
        first: 0,
        last: i64::MAX,
        slack: 0,
    };

    pub fn new(first: i64, last: i64) -> Self {
        Self {
            first,
            last,
            slack: 0,
        }
    }

    pub fn contains(self, stamp: i64) -> bool {
        (self.first..=self.last).contains(&stamp)
    }

    /// The stamp, or the end of what is believed that is nearest to it.
    pub fn nearest(self, stamp: i64) -> i64 {
        stamp.clamp(self.first, self.last)
    }

    /// Around the 13 days that most of the trace lies in: `samples` are stamps with what each stands for. Of two such
    /// stretches the earlier one is taken, for a flipped bit mostly makes a stamp later.
    pub fn around(mut samples: Vec<(i64, u64)>) -> Self {
        samples.sort_unstable();
        let mut best: Option<(u64, i64, i64)> = None;
        let (mut from, mut weight) = (0, 0_u64);
        for &(stamp, more) in &samples {
            weight = weight.saturating_add(more);
            while let Some(&(first, less)) = samples.get(from)
                && stamp.saturating_sub(first) > LONGEST_TRACE_NS
            {
                weight = weight.saturating_sub(less);
                from += 1;
            }
            let first = samples.get(from).map_or(stamp, |sample| sample.0);
            if best.is_none_or(|(most, ..)| weight > most) {
                best = Some((weight, first, stamp));
            }
        }
        best.map_or(Self::ALL, |(_, first, last)| Self {
            first: last.saturating_sub(LONGEST_TRACE_NS),
            last: first.saturating_add(LONGEST_TRACE_NS),
            slack: LONGEST_TRACE_NS,
        })
    }

    /// How far a stamp is from those believed, in words.
    pub fn distance(self, stamp: i64) -> String {
        let (by, side) = match stamp < self.first {
            true => (self.first.saturating_sub(stamp), "before"),
            false => (stamp.saturating_sub(self.last), "after"),
        };
        let minutes = by.saturating_add(self.slack) / 60_000_000_000;
        let (many, unit) = match minutes {
            0..180 => (minutes, "minutes"),
            180..4320 => (minutes / 60, "hours"),
            _ => (minutes / 1440, "days"),
        };
        format!("about {many} {unit} {side} the rest of the trace")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_a_trace_is_believed() {
        let second = 1_000_000_000;
        let trace = |from: i64| (0..5).map(move |i| (from + i * second, 1));
        let mut samples: Vec<_> = trace(3600 * second).collect();
        samples.push((i64::MAX, 1));
        samples.push((1 << 57, 3));
        let span = Span::around(samples.clone());
        assert!(trace(3600 * second).all(|(stamp, _)| span.contains(stamp)));
        assert!(span.contains(0) && !span.contains(1 << 57) && !span.contains(i64::MAX));
        // The heavier side is the trace.
        samples.push((1 << 57, 3));
        let span = Span::around(samples);
        assert!(span.contains(1 << 57) && !span.contains(3600 * second));
        assert_eq!(Span::around(Vec::new()), Span::ALL);
    }

    #[test]
    fn equal_halves_leave_the_earlier_one() {
        let span = Span::around(vec![(1 << 60, 1), (7, 1)]);
        assert!(span.contains(7) && !span.contains(1 << 60));
    }

    #[test]
    fn distances_are_told_in_fitting_units() {
        let minute = 60_000_000_000;
        let span = Span::new(1000 * minute, 2000 * minute);
        let told = [995, 2005, 2240, 12_000].map(|at| span.distance(at * minute));
        assert_eq!(told[0], "about 5 minutes before the rest of the trace");
        assert_eq!(told[1], "about 5 minutes after the rest of the trace");
        assert_eq!(told[2], "about 4 hours after the rest of the trace");
        assert_eq!(told[3], "about 6 days after the rest of the trace");
    }

    #[test]
    fn a_long_trace_is_whole() {
        let hour = 3_600_000_000_000;
        let span = Span::around((0..24 * 12).map(|i| (i * hour, 1)).collect());
        assert!(span.contains(0) && span.contains(24 * 12 * hour));
        // Never longer than twice the longest trace, so that sums over CPUs stay in range.
        assert!(span.last - span.first <= 2 * LONGEST_TRACE_NS);
    }
}
