//! Durations of which exact quantiles are asked, and nothing else.

use super::answer::Quantiles;
use super::quantiles::{P50, P99, nth, rank};

/// Durations of as many leading bits are in one bucket: what is in it is within 3 % of each other.
const LEADING_BITS: u32 = 6;

/// Buckets of which one is sure to hold any duration of 32 bits.
const BUCKETS: usize = 32 * (32 - LEADING_BITS as usize + 2);

/// Durations of one list: a long one is not copied to make it longer.
const PIECE: usize = 16 << 10;

/// A bag of durations. How many are about as long is counted on the way, so that of a quantile only its bucket must be
/// looked at.
#[derive(Debug, Clone, Default)]
pub struct Durations {
    /// How many there are in each bucket; empty without any.
    buckets: Vec<u32>,
    listed: Vec<u32>,
    /// More lists: those that are full, and those of bags that were joined.
    joined: Vec<Vec<u32>>,
    /// Those that are negative or longer than 4.29 s.
    odd: Vec<i64>,
    longest: Option<i64>,
}

/// The bucket of a duration: its leading bits and where they are.
#[inline]
fn bucket(ns: u32) -> usize {
    let shift = (u32::BITS - ns.leading_zeros()).saturating_sub(LEADING_BITS);
    (32 * shift + (ns >> shift)) as usize
}

/// Whether a duration is in a bucket.
fn range(bucket: Option<usize>) -> impl Fn(u32) -> bool {
    // None is in a bucket of no width.
    let (first, width) = bucket.map_or((0, 0), |bucket| {
        let shift = (bucket / 32).saturating_sub(1) as u32;
        ((bucket as u32 - 32 * shift) << shift, 1_u32 << shift)
    });
    move |ns| ns.wrapping_sub(first) < width
}

impl Durations {
    #[inline]
    pub fn push(&mut self, ns: i64) {
        self.longest = self.longest.max(Some(ns));
        let Ok(ns) = u32::try_from(ns) else {
            self.odd.push(ns);
            return;
        };
        match self.buckets.get_mut(bucket(ns)) {
            Some(count) => *count += 1,
            None => self.open_bucket(ns),
        }
        self.listed.push(ns);
        if self.listed.len() >= PIECE {
            self.begin_piece();
        }
    }

    #[cold]
    fn begin_piece(&mut self) {
        let next = Vec::with_capacity(PIECE);
        self.joined.push(std::mem::replace(&mut self.listed, next));
    }

    #[cold]
    fn open_bucket(&mut self, ns: u32) {
        self.buckets.resize(BUCKETS, 0);
        if let Some(count) = self.buckets.get_mut(bucket(ns)) {
            *count += 1;
        }
    }

    /// Adds those of another bag.
    pub fn join(&mut self, other: Durations) {
        if self.buckets.is_empty() {
            self.buckets = other.buckets;
        } else {
            let pairs = self.buckets.iter_mut().zip(&other.buckets);
            pairs.for_each(|(count, more)| *count += more);
        }
        self.joined.push(other.listed);
        self.joined.extend(other.joined);
        self.odd.extend(other.odd);
        self.longest = self.longest.max(other.longest);
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.longest.is_some()
    }

    /// The quantiles, if there are any durations.
    pub fn quantiles(&self) -> Option<Quantiles> {
        quantiles(&[self])
    }

    fn lists(&self) -> impl Iterator<Item = &[u32]> {
        let lists = std::iter::once(&self.listed).chain(&self.joined);
        lists.map(Vec::as_slice)
    }
}

/// The quantiles of what is in some bags together, if there is anything.
pub fn quantiles(bags: &[&Durations]) -> Option<Quantiles> {
    let mut all = Sorted::new(bags);
    let count = all.common + all.odd.len() as u64;
    let (p50, p99) = (rank(count, P50), rank(count, P99));
    all.look_into([p50, p99]);
    Some(Quantiles {
        count,
        p50: all.at(p50)?,
        p99: all.at(p99)?,
        max: bags.iter().filter_map(|bag| bag.longest).max()?,
    })
}

/// Bags put together and sorted, as far as they were looked into.
struct Sorted<'a> {
    bags: &'a [&'a Durations],
    buckets: Vec<u64>,
    /// How many are in the buckets.
    common: u64,
    odd: Vec<i64>,
    /// Of the odd ones these come before all others, and the rest after them.
    negative: u64,
    /// What is in buckets that were looked into.
    found: Vec<(usize, Vec<i64>)>,
}

impl<'a> Sorted<'a> {
    fn new(bags: &'a [&'a Durations]) -> Self {
        let mut buckets = vec![0_u64; BUCKETS];
        for bag in bags {
            let pairs = buckets.iter_mut().zip(&bag.buckets);
            pairs.for_each(|(count, more)| *count += u64::from(*more));
        }
        let odd: Vec<i64> = bags.iter().flat_map(|bag| &bag.odd).copied().collect();
        Self {
            bags,
            common: buckets.iter().sum(),
            buckets,
            negative: odd.iter().filter(|&&ns| ns < 0).count() as u64,
            odd,
            found: Vec::new(),
        }
    }

    /// Finds what is in the buckets of these two ranks.
    fn look_into(&mut self, ranks: [u64; 2]) {
        let bucket_of = |rank| self.place(rank).map(|(bucket, _)| bucket);
        let [one, two] = ranks.map(bucket_of);
        // The same bucket is looked into once.
        let two = two.filter(|_| two != one);
        let (in_one, in_two) = (range(one), range(two));
        let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
        for list in self.bags.iter().flat_map(|bag| bag.lists()) {
            for &ns in list {
                if in_one(ns) {
                    of_one.push(i64::from(ns));
                } else if in_two(ns) {
                    of_two.push(i64::from(ns));
                }
            }
        }
        let found = [(one, of_one), (two, of_two)].into_iter();
        self.found = found.filter_map(|(of, found)| Some((of?, found))).collect();
    }

    /// The bucket of a 1-based rank, and the rank in it.
    fn place(&self, rank: u64) -> Option<(usize, u64)> {
        let mut left = rank.checked_sub(self.negative).filter(|&left| left > 0)?;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            if left <= count {
                return Some((bucket, left));
            }
            left -= count;
        }
        None
    }

    /// The duration at a rank that was looked into.
    fn at(&mut self, rank: u64) -> Option<i64> {
        if let Some((bucket, rank)) = self.place(rank) {
            let (_, found) = self.found.iter_mut().find(|(of, _)| *of == bucket)?;
            return nth(found, rank);
        }
        match rank <= self.negative {
            true => nth(&mut self.odd, rank),
            false => nth(&mut self.odd, rank - self.common),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_sorting(mut all: Vec<i64>) -> Option<Quantiles> {
        all.sort_unstable();
        let count = all.len() as u64;
        let at = |rank: u64| all.get(rank as usize - 1).copied();
        Some(Quantiles {
            count,
            p50: at(rank(count, P50))?,
            p99: at(rank(count, P99))?,
            max: at(count.max(1))?,
        })
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let q = bag(&[40, 10, 30, 20]).quantiles().unwrap();
        assert_eq!((q.count, q.p50, q.p99, q.max), (4, 20, 40, 40));
        assert!(bag(&[]).quantiles().is_none());
    }

    /// Buckets are in the order of what is in them, and none is missing.
    #[test]
    fn buckets_are_in_order() {
        assert_eq!((bucket(0), bucket(u32::MAX)), (0, BUCKETS - 1));
        for bit in 0..32 {
            for ns in [1_u32 << bit, 3 << bit >> 1, 63 << bit >> 5] {
                let (last, this) = (bucket(ns - 1), bucket(ns));
                assert!(this - last <= 1, "{ns}");
                assert!(range(Some(this))(ns) && range(Some(last))(ns - 1), "{ns}");
                assert_eq!(range(Some(last))(ns), this == last, "{ns}");
                assert!(!range(None)(ns));
            }
        }
    }

    fn bag(of: &[i64]) -> Durations {
        let mut bag = Durations::default();
        of.iter().for_each(|&ns| bag.push(ns));
        bag
    }

    fn any_durations() -> impl Strategy<Value = Vec<i64>> {
        let any = prop_oneof![
            -3..100_i64,
            60_000..61_000_i64,
            0..1_i64 << 34,
            Just(i64::from(u32::MAX)),
        ];
        proptest::collection::vec(any, 0..60)
    }

    proptest! {
        /// Alone, joined or together, quantiles are those of the sorted values.
        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            one in any_durations(),
            two in any_durations(),
            three in any_durations(),
        ) {
            prop_assert_eq!(bag(&one).quantiles(), by_sorting(one.clone()));
            let all = || [&one, &two, &three].into_iter().flatten().copied().collect();
            let mut joined = bag(&one);
            joined.join(bag(&two));
            prop_assert_eq!(quantiles(&[&joined, &bag(&three)]), by_sorting(all()));
            let mut joined_twice = bag(&three);
            joined_twice.join(joined);
            prop_assert_eq!(joined_twice.quantiles(), by_sorting(all()));
        }
    }
}
