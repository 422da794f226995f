//! Numbers that look random and follow from a seed alone (SplitMix64).

#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds should not start alike.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995);
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A number from `from` up to but without `to`.
    pub fn within(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from) as u64) as i64
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        match of {
            [] => None,
            of => Some(of[self.below(of.len())]),
        }
    }

    /// The place of a weight, as often as it is heavy.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum::<usize>().max(1));
        for (place, &weight) in weights.iter().enumerate() {
            if at < weight {
                return place;
            }
            at -= weight;
        }
        0
    }

    /// A bell curve around 0 with a deviation of 1, by the sum of twelve.
    pub fn normal(&mut self) -> f64 {
        let unit = |r: &mut Self| (r.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(|_| unit(self)).sum::<f64>() - 6.0
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at + 1);
            list.swap(at, other);
        }
    }
}
