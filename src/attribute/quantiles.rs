//! Quantiles by nearest rank: the p-quantile of n sorted values is the ⌈p·n⌉-th, always a value that occurred.

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
}
