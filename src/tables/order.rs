//! Puts rows that come in the order of their completion into that of their time, with bounded memory.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::schema::BLOCK;

/// Rows that are given out in one go.
const OUT: usize = 16 << 10;
/// Rows that are held back: so many that complete later may still come before the ones given out.
const HELD: usize = 32 << 10;

/// Rows of one table, on their way into its time order. Those that completed long after they began, so that what came
/// after them was given out already, are late: they are kept apart, and sorted among themselves.
pub(super) struct Order<R> {
    key: fn(&R) -> i64,
    /// Rows as they came. They are large, and are not moved.
    chunks: VecDeque<Chunk<R>>,
    /// The number of the first of these chunks.
    first: u32,
    /// The rows that wait.
    waiting: Vec<Waiting>,
    late: Vec<R>,
    /// The key of the last row given out.
    reached: i64,
}

struct Chunk<R> {
    rows: Vec<R>,
    /// How many of them wait.
    left: usize,
}

/// A row's key, and where it is: in which chunk, and there in which place.
type Waiting = (i64, u32, u32);

impl<R: Clone> Order<R> {
    pub fn new(key: fn(&R) -> i64) -> Self {
        Self {
            key,
            chunks: VecDeque::new(),
            first: 0,
            waiting: Vec::new(),
            late: Vec::new(),
            reached: i64::MIN,
        }
    }

    /// Takes rows, and gives out the earliest ones, sorted, a few at a time, once enough are there.
    pub fn take<E>(
        &mut self,
        rows: Vec<R>,
        out: impl FnMut(&[&R]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.push(rows);
        match self.waiting.len() >= OUT + HELD {
            true => self.earliest(OUT, out),
            false => Ok(()),
        }
    }

    fn push(&mut self, rows: Vec<R>) {
        let chunk = self.first.wrapping_add(self.chunks.len() as u32);
        let before = self.waiting.len();
        for (place, row) in (0..).zip(&rows) {
            let key = (self.key)(row);
            match key < self.reached {
                true => self.late.push(row.clone()),
                false => self.waiting.push((key, chunk, place)),
            }
        }
        let left = self.waiting.len() - before;
        self.chunks.push_back(Chunk { rows, left });
    }

    /// The storage of a chunk of which no row waits any more.
    pub fn emptied(&mut self) -> Option<Vec<R>> {
        self.chunks.front().filter(|chunk| chunk.left == 0)?;
        let mut rows = self.chunks.pop_front()?.rows;
        self.first = self.first.wrapping_add(1);
        rows.clear();
        Some(rows)
    }

    /// The late rows, sorted, once enough are there, or if these are `all`.
    pub fn late(&mut self, all: bool) -> Option<Vec<R>> {
        let enough = self.late.len() >= if all { 1 } else { OUT + HELD };
        enough.then(|| {
            let mut late = std::mem::take(&mut self.late);
            late.sort_by_key(self.key);
            late
        })
    }

    /// Gives out the last rows, sorted.
    pub fn rest<E>(&mut self, out: impl FnMut(&[&R]) -> Result<(), E>) -> Result<(), E> {
        self.earliest(self.waiting.len(), out)
    }

    fn earliest<E>(
        &mut self,
        count: usize,
        mut out: impl FnMut(&[&R]) -> Result<(), E>,
    ) -> Result<(), E> {
        // They come in runs that are sorted already. Those with the same key stay in the order in which they came.
        self.waiting.sort_by_key(|(key, ..)| *key);
        let later = self.waiting.split_off(count.min(self.waiting.len()));
        let now = std::mem::replace(&mut self.waiting, later);
        if let Some((last, ..)) = now.last() {
            self.reached = *last;
        }
        for waiting in now.chunks(BLOCK) {
            let rows: SmallVec<[&R; BLOCK]> =
                waiting.iter().filter_map(|of| self.row(of)).collect();
            out(&rows)?;
        }
        for (_, chunk, _) in &now {
            let chunk = chunk.wrapping_sub(self.first) as usize;
            if let Some(chunk) = self.chunks.get_mut(chunk) {
                chunk.left -= 1;
            }
        }
        self.gather();
        Ok(())
    }

    fn row(&self, (_, chunk, place): &Waiting) -> Option<&R> {
        let chunk = chunk.wrapping_sub(self.first) as usize;
        self.chunks.get(chunk)?.rows.get(*place as usize)
    }

    /// Moves what waits into a chunk of its own where most rows that are kept do not wait: a few whose time has not
    /// come for long would keep all the others.
    fn gather(&mut self) {
        let kept: usize = self.chunks.iter().map(|chunk| chunk.rows.len()).sum();
        if kept <= 4 * (OUT + HELD) {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let rows: Vec<R> = waiting
            .iter()
            .filter_map(|of| self.row(of))
            .cloned()
            .collect();
        self.chunks.clear();
        self.push(rows);
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
        let mut take = |rows: &[&i64]| -> Result<(), std::convert::Infallible> {
            out.extend(rows.iter().copied());
            Ok(())
        };
        for chunk in keys.chunks(2048) {
            let Ok(()) = order.take(chunk.to_vec(), &mut take);
            while order.emptied().is_some() {}
            late.extend(order.late(false).into_iter().flatten());
        }
        let Ok(()) = order.rest(&mut take);
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
