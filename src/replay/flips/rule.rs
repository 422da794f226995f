//! Intervals of flips, and what `wake_wide` says of them.

use crate::replay::words::Decision;

/// What a counter of flips may be: every value from `lo` to `hi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub lo: u32,
    pub hi: u32,
}

impl Span {
    /// Any value: `wakee_flips` is an `unsigned int`.
    pub const UNKNOWN: Self = Self {
        lo: 0,
        hi: u32::MAX,
    };

    pub fn exactly(value: u32) -> Self {
        Self {
            lo: value,
            hi: value,
        }
    }

    #[inline]
    pub fn contains(self, value: u32) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// How far apart its ends are.
    #[inline]
    pub fn width(self) -> u32 {
        self.hi.saturating_sub(self.lo)
    }

    /// The smallest that holds both.
    #[inline]
    pub fn hull(self, other: Self) -> Self {
        Self {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
        }
    }

    /// What both hold; its ends are in the wrong order if that is nothing.
    #[inline]
    pub fn meet(self, other: Self) -> Self {
        Self {
            lo: self.lo.max(other.lo),
            hi: self.hi.min(other.hi),
        }
    }

    /// After `least` to `most` further flips.
    #[inline]
    pub fn plus(self, least: u32, most: u32) -> Self {
        Self {
            lo: self.lo.saturating_add(least),
            hi: self.hi.saturating_add(most),
        }
    }

    /// After `least` to `most` halvings.
    #[inline]
    pub fn halved(self, least: u32, most: u32) -> Self {
        Self {
            lo: self.lo.checked_shr(most).unwrap_or(0),
            hi: self.hi.checked_shr(least).unwrap_or(0),
        }
    }
}

/// When a wakeup is wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// 3.12 to 4.2: the wakee flips more than `factor`, and the waker more than `factor` times as much
    /// (`wake_wide` in 3.14, 3.19 and 4.1).
    Old,
    /// Since 4.3 (63b0e9edceec): the smaller is at least `factor`, and the larger at least `factor` times the smaller.
    New,
}

impl Rule {
    /// Whether the wakeup is wide for all values, for none, or, as `None`, for some.
    #[inline]
    pub fn wide(self, waker: Span, wakee: Span, factor: u32) -> Option<bool> {
        let (all, some) = match self {
            Rule::Old => (
                wakee.lo > factor && over(waker.lo, wakee.hi, factor),
                some_wakee(wakee, factor.saturating_add(1))
                    .is_some_and(|least| over(waker.hi, least, factor)),
            ),
            Rule::New => {
                let high = waker.lo >= factor && wakee.lo >= factor;
                // Wide values lie in two wings that do not touch unless the factor is 1: all of them are in one.
                let in_wing = factor <= 1
                    || reaches(waker.lo, wakee.hi, factor)
                    || reaches(wakee.lo, waker.hi, factor);
                let some = |larger: Span, smaller: Span| {
                    some_wakee(smaller, factor)
                        .is_some_and(|least| reaches(larger.hi, least, factor))
                };
                (high && in_wing, some(waker, wakee) || some(wakee, waker))
            }
        };
        match (all, some) {
            (true, _) => Some(true),
            (false, false) => Some(false),
            (false, true) => None,
        }
    }

    /// The decision; `narrow` says that both counters were known to within 1 at some time.
    #[inline]
    pub fn decide(self, waker: Span, wakee: Span, factor: u32, narrow: bool) -> Decision {
        match self.wide(waker, wakee, factor) {
            Some(true) => Decision::Wide,
            Some(false) => Decision::Affine,
            None if narrow => Decision::Undecided,
            None => Decision::WarmingUp,
        }
    }
}

/// The least value of a span that is at least `least`, if there is one.
#[inline]
fn some_wakee(of: Span, least: u32) -> Option<u32> {
    (of.hi >= least).then_some(of.lo.max(least))
}

#[inline]
fn over(larger: u32, smaller: u32, factor: u32) -> bool {
    u64::from(larger) > u64::from(smaller) * u64::from(factor)
}

#[inline]
fn reaches(larger: u32, smaller: u32, factor: u32) -> bool {
    u64::from(larger) >= u64::from(smaller) * u64::from(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `wake_wide` on exact values, as each kernel writes it.
    fn kernel(rule: Rule, waker: u64, wakee: u64, factor: u64) -> bool {
        match rule {
            Rule::Old => wakee > factor && waker > factor * wakee,
            Rule::New => {
                let (low, high) = (waker.min(wakee), waker.max(wakee));
                !(low < factor || high < low * factor)
            }
        }
    }

    #[test]
    fn exact_values_are_decided_as_the_kernel_does() {
        let wide = |rule: Rule, waker, wakee| {
            rule.wide(Span::exactly(waker), Span::exactly(wakee), 4)
                .unwrap()
        };
        // New: 4 ≥ 4 and 16 ≥ 16, on either side; 15 falls short, and so does 3.
        assert!(wide(Rule::New, 16, 4) && wide(Rule::New, 4, 16));
        assert!(!wide(Rule::New, 15, 4) && !wide(Rule::New, 100, 3));
        // Old: 5 > 4 and 21 > 20, but neither 20 nor a wakee of 4, nor the other way round.
        assert!(wide(Rule::Old, 21, 5));
        assert!(!wide(Rule::Old, 20, 5) && !wide(Rule::Old, 100, 4) && !wide(Rule::Old, 5, 21));
    }

    proptest! {
        /// What is said of an interval holds for all its values, and nothing is left open that they all agree on.
        #[test]
        fn intervals_are_decided_as_all_their_values(
            waker in (0_u32..60, 0_u32..20), wakee in (0_u32..60, 0_u32..20), factor in 1_u32..9, old: bool,
        ) {
            let rule = if old { Rule::Old } else { Rule::New };
            let span = |(lo, more): (u32, u32)| Span { lo, hi: lo + more };
            let (waker, wakee) = (span(waker), span(wakee));
            let values = (waker.lo..=waker.hi).flat_map(|a| (wakee.lo..=wakee.hi).map(move |b| (a, b)));
            let wide = values.filter(|(a, b)| kernel(rule, (*a).into(), (*b).into(), factor.into())).count();
            let all = (waker.width() as usize + 1) * (wakee.width() as usize + 1);
            let expected = match wide {
                0 => Some(false),
                n if n == all => Some(true),
                _ => None,
            };
            prop_assert_eq!(rule.wide(waker, wakee, factor), expected);
        }
    }
}
