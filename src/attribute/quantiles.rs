//! Quantiles by nearest rank: the p-quantile of n sorted values is the ⌈p·n⌉-th, always a value that occurred.

use super::answer::{Known, Quantiles};

/// The median, by nearest rank.
pub const P50: (u64, u64) = (1, 2);
/// The 99th percentile.
pub const P99: (u64, u64) = (99, 100);

/// The 1-based rank of the quantile `numerator / denominator` among `count` values.
pub fn rank(count: u64, (numerator, denominator): (u64, u64)) -> u64 {
    (count.saturating_mul(numerator))
        .div_ceil(denominator)
        .max(1)
}

/// The quantiles of some durations; reorders them. Unknown, for the given reason, without any.
pub fn quantiles(values: &mut [i64], reason: &str) -> Known<Quantiles> {
    let count = values.len() as u64;
    let p50 = nth(values, rank(count, P50));
    let p99 = nth(values, rank(count, P99));
    let max = values.iter().max().copied();
    match (p50, p99, max) {
        (Some(p50), Some(p99), Some(max)) => Known::Value(Quantiles {
            count,
            p50,
            p99,
            max,
        }),
        _ => Known::unknown(reason),
    }
}

/// The value at a 1-based rank; reorders the values.
pub fn nth(values: &mut [i64], rank: u64) -> Option<i64> {
    let at = usize::try_from(rank.checked_sub(1)?).ok()?;
    if at >= values.len() {
        return None;
    }
    let (_, value, _) = values.select_nth_unstable(at);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest() {
        assert_eq!(rank(1, P50), 1);
        assert_eq!(rank(4, P50), 2);
        assert_eq!(rank(5, P50), 3);
        assert_eq!(rank(100, P99), 99);
        assert_eq!(rank(101, P99), 100);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let Known::Value(q) = quantiles(&mut [40, 10, 30, 20], "none") else {
            panic!("known");
        };
        assert_eq!((q.count, q.p50, q.p99, q.max), (4, 20, 40, 40));
        assert!(quantiles(&mut [], "none").value().is_none());
    }
}
