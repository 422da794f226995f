//! Puts rows that come in the order of their completion into that of their time, with bounded memory.

/// Rows that are given out at once.
const OUT: usize = 64 << 10;
/// Rows that are held back: so many that complete later may still come before the ones given out.
const HELD: usize = 32 << 10;

/// Rows of one table, on their way into its time order. Those that completed long after they began, so that what came
/// after them was given out already, are late: they are kept apart, and sorted among themselves.
pub(super) struct Order<R> {
    key: fn(&R) -> i64,
    waiting: Vec<R>,
    late: Vec<R>,
    /// The key of the last row given out.
    reached: i64,
}

impl<R: Clone> Order<R> {
    pub fn new(key: fn(&R) -> i64) -> Self {
        Self {
            key,
            waiting: Vec::new(),
            late: Vec::new(),
            reached: i64::MIN,
        }
    }

    /// Takes rows; returns the earliest ones, sorted, once enough are there.
    pub fn take(&mut self, rows: &mut Vec<R>) -> Option<Vec<R>> {
        for row in rows.drain(..) {
            match (self.key)(&row) < self.reached {
                true => self.late.push(row),
                false => self.waiting.push(row),
            }
        }
        (self.waiting.len() >= OUT + HELD).then(|| self.earliest(OUT))
    }

    /// The late rows, sorted, once enough are there, or if these are `all`.
    pub fn late(&mut self, all: bool) -> Option<Vec<R>> {
        let enough = self.late.len() >= if all { 1 } else { OUT };
        enough.then(|| {
            let mut late = std::mem::take(&mut self.late);
            late.sort_by_key(self.key);
            late
        })
    }

    /// The last rows, sorted.
    pub fn rest(&mut self) -> Vec<R> {
        self.earliest(self.waiting.len())
    }

    fn earliest(&mut self, count: usize) -> Vec<R> {
        let keys = self.waiting.iter().map(self.key);
        let mut keys: Vec<(i64, u32)> = keys.zip(0..).collect();
        // They come in runs that are sorted already.
        keys.sort();
        let (now, later) = keys.split_at(count.min(keys.len()));
        if let Some((last, _)) = now.last() {
            self.reached = *last;
        }
        // Moving the rows themselves while sorting would take far longer: they are large.
        let rows = |keys: &[(i64, u32)]| -> Vec<R> {
            let rows = keys.iter();
            let rows = rows.filter_map(|(_, at)| self.waiting.get(*at as usize));
            rows.cloned().collect()
        };
        let (now, later) = (rows(now), rows(later));
        self.waiting = later;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes out in order, in several goes, and what was late.
    fn ordered(keys: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let mut order = Order::new(|key: &i64| *key);
        let (mut out, mut late) = (Vec::new(), Vec::new());
        for chunk in keys.chunks(2048) {
            out.extend(order.take(&mut chunk.to_vec()).into_iter().flatten());
            late.extend(order.late(false).into_iter().flatten());
        }
        out.extend(order.rest());
        late.extend(order.late(true).into_iter().flatten());
        (out, late)
    }

    #[test]
    fn rows_a_little_out_of_order_are_put_right() {
        let count = 3 * (OUT + HELD) as i64;
        let keys: Vec<i64> = (0..count).map(|n| n ^ 0x3ff).collect();
        let (out, late) = ordered(&keys);
        assert!(late.is_empty() && out.iter().copied().eq(0..count));
    }

    #[test]
    fn a_row_that_comes_far_too_late_is_kept_apart() {
        let count = 2 * (OUT + HELD) as i64;
        let mut keys: Vec<i64> = (1..count).collect();
        keys.push(0);
        let (out, late) = ordered(&keys);
        assert!(late == [0] && out.iter().copied().eq(1..count));
    }

    proptest! {
        /// Nothing is lost, and both parts are sorted, whatever comes.
        #[test]
        fn nothing_is_lost(seed in any::<u64>(), spread in 1_i64..400_000) {
            let mut state = seed;
            let keys: Vec<i64> = (0..200_000).map(|n| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                n + (state >> 33) as i64 % spread
            }).collect();
            let (out, late) = ordered(&keys);
            prop_assert!(out.is_sorted());
            let mut all = [out, late].concat();
            all.sort_unstable();
            let mut expected = keys;
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
