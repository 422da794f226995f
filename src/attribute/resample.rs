//! Estimates with 95 % bootstrap intervals. The seed is fixed, so that a trace always gets the same answer.

use super::answer::Estimate;

/// Fewer samples than this on a side give no estimate (`analysis` §4).
pub const LEAST_SAMPLES: usize = 30;

/// How often is resampled.
pub const DRAWS: usize = 1000;

/// Most blocks that a mean's samples are averaged in before resampling. Long series are resampled by blocks of
/// neighbours, which is faster and keeps what neighbours have in common.
const BLOCKS: usize = 128;

const SEED: u64 = 0x7474_7775;

/// SplitMix64: small, and good enough for choosing samples (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(SEED)
    }

    /// One of its own for each of several questions, so that their resamples have nothing in common.
    pub fn of(question: u64) -> Self {
        let mut random = Self(SEED ^ question.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(random.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each as likely but for one part in 2³².
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 32).wrapping_mul(bound as u64) >> 32) as usize
    }

    /// One of these, each as likely.
    pub fn choose<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }

    /// A number from the normal distribution around 0 with standard deviation 1 (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let uniform = |random: &mut Self| (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let radius = (-2.0 * (1.0 - uniform(self)).ln()).sqrt();
        radius * (std::f64::consts::TAU * uniform(self)).cos()
    }

    /// How often `flips` fair coins show heads.
    fn heads(&mut self, flips: usize) -> usize {
        let mut heads = 0;
        for _ in 0..flips / 64 {
            heads += self.next().count_ones() as usize;
        }
        let rest = flips % 64;
        let last = self.next() & ((1_u64 << rest) - 1);
        heads + last.count_ones() as usize
    }
}

/// A value, and what it came out as in each resample.
#[derive(Debug, Clone)]
pub struct Resampled {
    pub value: f64,
    pub draws: Vec<f64>,
    pub n: u64,
}

impl Resampled {
    /// Nothing, to which others are added.
    pub fn none() -> Self {
        Self {
            value: 0.0,
            draws: vec![0.0; DRAWS],
            n: 0,
        }
    }

    /// A value of which the standard error is known, in place of its resamples: good for a sum of many.
    pub fn normal(value: f64, error: f64, n: u64, random: &mut Random) -> Self {
        let draws = (0..DRAWS).map(|_| value + error * random.normal());
        Self {
            value,
            draws: draws.collect(),
            n,
        }
    }

    /// As often as much.
    pub fn times(mut self, factor: f64) -> Self {
        self.value *= factor;
        self.draws.iter_mut().for_each(|draw| *draw *= factor);
        self
    }

    /// The sum of two independent estimates, and of their samples.
    pub fn and(self, other: &Resampled) -> Self {
        let n = self.n + other.n;
        Self {
            n,
            ..self.plus(other)
        }
    }

    /// The value with the interval that holds the middle 95 % of the resamples.
    pub fn estimate(mut self) -> Estimate {
        self.draws.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let last = self.draws.len().saturating_sub(1);
            let index = (share * last as f64).round() as usize;
            self.draws.get(index).copied().unwrap_or(self.value)
        };
        Estimate {
            value: self.value,
            ci95: [at(0.025), at(0.975)],
            n: self.n,
        }
    }

    /// The sum of two independent estimates.
    pub fn plus(self, other: &Resampled) -> Resampled {
        let draws = self.draws.iter().zip(&other.draws);
        Resampled {
            value: self.value + other.value,
            draws: draws.map(|(a, b)| a + b).collect(),
            n: self.n,
        }
    }

    /// The difference of two independent estimates.
    pub fn minus(self, other: &Resampled) -> Resampled {
        let draws = self.draws.iter().zip(&other.draws);
        Resampled {
            value: self.value - other.value,
            draws: draws.map(|(a, b)| a - b).collect(),
            n: self.n + other.n,
        }
    }
}

/// The mean; `None` with fewer than [`LEAST_SAMPLES`].
pub fn mean(samples: &[i64], random: &mut Random) -> Option<Resampled> {
    if samples.len() < LEAST_SAMPLES {
        return None;
    }
    let sum = |of: &[i64]| of.iter().map(|&ns| ns as f64).sum::<f64>();
    let block = samples.len().div_ceil(BLOCKS);
    let blocks: Vec<(f64, f64)> = samples
        .chunks(block)
        .map(|of| (sum(of), of.len() as f64))
        .collect();
    let draw = |random: &mut Random| {
        let mut total = (0.0, 0.0);
        for _ in 0..blocks.len() {
            if let Some(&(sum, count)) = blocks.get(random.below(blocks.len())) {
                total = (total.0 + sum, total.1 + count);
            }
        }
        total.0 / total.1
    };
    Some(Resampled {
        value: sum(samples) / samples.len() as f64,
        draws: (0..DRAWS).map(|_| draw(random)).collect(),
        n: samples.len() as u64,
    })
}

/// The median by nearest rank; `None` with fewer than [`LEAST_SAMPLES`]. Reorders the samples.
///
/// A resample's median is the order statistic whose rank is the number of heads among as many coins as there are
/// samples: that is the distribution-free interval of a median, and needs no resample to be sorted.
pub fn median(samples: &mut [i64], random: &mut Random) -> Option<Resampled> {
    let count = samples.len();
    if count < LEAST_SAMPLES {
        return None;
    }
    let place = |rank: usize| rank.clamp(1, count) - 1;
    let middle = place(count.div_ceil(2));
    let drawn: Vec<usize> = (0..DRAWS).map(|_| place(random.heads(count))).collect();
    sort_between(
        samples,
        drawn.iter().copied().min().unwrap_or(middle).min(middle),
        drawn.iter().copied().max().unwrap_or(middle).max(middle),
    );
    let at = |place: usize| samples.get(place).copied().unwrap_or(0) as f64;
    Some(Resampled {
        value: at(middle),
        draws: drawn.into_iter().map(at).collect(),
        n: count as u64,
    })
}

/// Puts the samples of the places from `first` to `last` where sorting all would: the ranks that medians are drawn
/// from are few beside the samples.
fn sort_between(samples: &mut [i64], first: usize, last: usize) {
    let (_, _, later) = samples.select_nth_unstable(first);
    if let Some(rest) = last
        .checked_sub(first + 1)
        .filter(|rest| *rest < later.len())
    {
        let (between, _, _) = later.select_nth_unstable(rest);
        between.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_has_no_spread_and_few_samples_no_estimate() {
        let estimate = mean(&[7; 40], &mut Random::new()).unwrap().estimate();
        assert_eq!(
            (estimate.value, estimate.ci95, estimate.n),
            (7.0, [7.0, 7.0], 40)
        );
        let estimate = median(&mut [7; 40], &mut Random::new()).unwrap().estimate();
        assert_eq!((estimate.value, estimate.ci95), (7.0, [7.0, 7.0]));
        assert!(mean(&[7; 29], &mut Random::new()).is_none());
        assert!(median(&mut [7; 29], &mut Random::new()).is_none());
    }

    /// Of numbers below 10000, each as likely, the standard deviation is 10000 / √12 = 2886.8: the mean of 400 has
    /// an interval of 1.96 · 2886.8 / 20 on each side, whether or not the samples are put in blocks.
    #[test]
    fn intervals_have_the_width_theory_says() {
        let mut random = Random(1);
        let mut some: Vec<i64> = (0..400).map(|_| random.below(10_000) as i64).collect();
        let estimate = mean(&some, &mut Random::new()).unwrap().estimate();
        let width = estimate.ci95[1] - estimate.ci95[0];
        assert!(
            (width / (2.0 * 1.96 * 2886.8 / 20.0) - 1.0).abs() < 0.15,
            "{width}"
        );
        // The median of n uniform samples has the standard error 10000 / (2 √n).
        let estimate = median(&mut some, &mut Random::new()).unwrap().estimate();
        let width = estimate.ci95[1] - estimate.ci95[0];
        assert!(
            (width / (2.0 * 1.96 * 10_000.0 / 40.0) - 1.0).abs() < 0.25,
            "{width}"
        );
    }

    #[test]
    fn the_same_samples_always_get_the_same_answer() {
        let samples: Vec<i64> = (0..100).map(|i| i * i).collect();
        let once = || mean(&samples, &mut Random::new()).unwrap().estimate();
        assert_eq!(once(), once());
    }
}
