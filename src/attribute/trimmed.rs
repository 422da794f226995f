//! Trimmed means and their differences, with intervals that hold for few samples, heavy tails and samples that resemble
//! their neighbours.
//!
//! A mean without the lowest and the highest tenth is resampled by its influence values (Wilcox, *Introduction to Robust
//! Estimation*, §3.3): each sample, or the nearest that was kept in place of one that was left out, moves the mean by its
//! distance from the mean of all such, divided by the share kept. Means of these are cheap to draw, for neighbours can be
//! put in blocks. Draws are widened as Hesterberg (2015, §4.3) has it for few samples: by Student's instead of the normal
//! distribution, and by the bootstrap's own narrowness; and a little more, so that an interval of 95 % is one at least.
//!
//! A difference of trimmed means is the cost where crossing adds the same to short runs and long ones. Where it adds very
//! different times, what it adds to the longest is left out with them.

use super::resample::{DRAWS, Random, Resampled};

/// Fewest samples that a trimmed mean is made of.
pub const LEAST: usize = 10;

/// One in so many is left out on each side.
const TRIMMED: usize = 10;

/// By how much intervals are wider than resampling says, so that they hold the truth in at least 95 % of cases and not in
/// 95 % at best: what is asked of them is checked on a few hundred traces, where the chance of three standard errors too
/// few should be small, and the blocks' lengths fit no series exactly.
const SAFETY: f64 = 1.15;

/// Most blocks.
const BLOCKS: usize = 128;

/// A trimmed mean, ready to be resampled.
#[derive(Debug, Clone)]
pub struct Trimmed {
    pub value: f64,
    pub n: usize,
    /// By how much each block moves the mean: the sum over its samples, and how many they are.
    blocks: Vec<(f64, f64)>,
    /// How much wider than its resamples the interval must be.
    widening: f64,
}

impl Trimmed {
    /// Of samples in the order in which they were taken; `None` of fewer than [`LEAST`].
    pub fn new(samples: &[u32]) -> Option<Self> {
        let n = samples.len();
        if n < LEAST {
            return None;
        }
        let (low, high) = kept_range(samples)?;
        let cut = n / TRIMMED;
        let kept = n - 2 * cut;
        let winsorised = |sample: &u32| f64::from((*sample).clamp(low, high));
        let total: f64 = samples.iter().map(winsorised).sum();
        // Of equal samples at the border some are kept and some left out; what was left out counts as the border does.
        let outside = cut as f64 * (f64::from(low) + f64::from(high));
        let value = (total - outside) / kept as f64;
        let middle = total / n as f64;
        let share = kept as f64 / n as f64;
        let length = block_length(n);
        let blocks: Vec<(f64, f64)> = samples
            .chunks(length)
            .map(|block| {
                let moved = block.iter().map(|sample| winsorised(sample) - middle);
                (moved.sum::<f64>() / share, block.len() as f64)
            })
            .collect();
        // Fewer blocks than samples tell less; those left out tell nothing.
        let freedom = (kept - 1).min(blocks.len() - 1);
        let narrow = blocks.len() as f64 / (blocks.len() - 1) as f64;
        Some(Self {
            value,
            n,
            widening: SAFETY * student(freedom) / NORMAL * narrow.sqrt(),
            blocks,
        })
    }

    /// The standard error.
    pub fn error(&self) -> f64 {
        let count: f64 = self.blocks.iter().map(|(_, count)| count).sum();
        let squares: f64 = self.blocks.iter().map(|(sum, _)| sum * sum).sum();
        squares.sqrt() / count * self.widening
    }

    fn resampled(&self, random: &mut Random) -> Vec<f64> {
        let draw = |random: &mut Random| {
            let mut drawn = (0.0, 0.0);
            for _ in 0..self.blocks.len() {
                if let Some(&(sum, count)) = random.choose(&self.blocks) {
                    drawn = (drawn.0 + sum, drawn.1 + count);
                }
            }
            self.value + drawn.0 / drawn.1 * self.widening
        };
        (0..DRAWS).map(|_| draw(random)).collect()
    }
}

/// How much one side's trimmed mean is above another's, so many times.
#[derive(Debug, Clone)]
pub struct Difference {
    pub above: Trimmed,
    pub below: Trimmed,
    pub times: f64,
}

impl Difference {
    pub fn value(&self) -> f64 {
        (self.above.value - self.below.value) * self.times
    }

    pub fn error(&self) -> f64 {
        self.above.error().hypot(self.below.error()) * self.times
    }

    pub fn resampled(&self, random: &mut Random) -> Resampled {
        let above = self.above.resampled(random);
        let below = self.below.resampled(random);
        let pairs = above.iter().zip(&below);
        Resampled {
            value: self.value(),
            draws: pairs.map(|(a, b)| (a - b) * self.times).collect(),
            n: self.above.n as u64,
        }
    }
}

/// The lowest and the highest sample that are kept.
fn kept_range(samples: &[u32]) -> Option<(u32, u32)> {
    let cut = samples.len() / TRIMMED;
    let mut sorted = samples.to_vec();
    let (_, &mut low, above) = sorted.select_nth_unstable(cut);
    let last = samples.len().checked_sub(2 * cut + 2);
    let high = match last {
        Some(place) if place < above.len() => *above.select_nth_unstable(place).1,
        _ => low,
    };
    Some((low, high))
}

/// The cube root of the number of samples, or what makes [`BLOCKS`] of them: enough for neighbours that resemble each
/// other, and not so many that few blocks are left.
fn block_length(n: usize) -> usize {
    let root = (n as f64).cbrt().floor() as usize;
    root.max(n.div_ceil(BLOCKS)).max(1)
}

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// The same of Student's distribution with so many degrees of freedom, by the series in 1/ν of Cornish and Fisher (Abramowitz
/// and Stegun 26.7.5); within 0.2 % from 4 on.
fn student(freedom: usize) -> f64 {
    let v = freedom.max(3) as f64;
    let x = NORMAL;
    let g1 = (x.powi(3) + x) / 4.0;
    let g2 = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    let g3 = (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0;
    x + g1 / v + g2 / v.powi(2) + g3 / v.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1 to 20, shuffled, 3 to 18 are kept: their mean is 10.5; of squares it is what the formula for sums gives.
    #[test]
    fn a_tenth_is_left_out_on_each_side() {
        let numbers: Vec<u32> = (0..20).map(|n| n * 7 % 20 + 1).collect();
        assert_eq!(Trimmed::new(&numbers).unwrap().value, 10.5);
        let squares: Vec<u32> = numbers.iter().map(|n| n * n).collect();
        let kept: u32 = (3..=18).map(|n| n * n).sum();
        assert_eq!(
            Trimmed::new(&squares).unwrap().value,
            f64::from(kept) / 16.0
        );
        // One that is far out moves nothing.
        let mut far = numbers.clone();
        far[2] = u32::MAX;
        let place = numbers.iter().position(|&n| n == 20).unwrap();
        assert_eq!(far.len(), 20);
        let mut highest = numbers.clone();
        highest[place] = u32::MAX;
        assert_eq!(Trimmed::new(&highest).unwrap().value, 10.5);
        assert!(Trimmed::new(&numbers[..9]).is_none());
        // Ties at the borders.
        let ties = [5_u32; 30];
        let mean = Trimmed::new(&ties).unwrap();
        assert_eq!((mean.value, mean.error()), (5.0, 0.0));
    }

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [
            (4, 2.776),
            (7, 2.365),
            (10, 2.228),
            (29, 2.045),
            (200, 1.972),
        ] {
            let found = student(freedom);
            assert!((found / expected - 1.0).abs() < 0.004, "{freedom}: {found}");
        }
    }

    /// The error of the trimmed mean of numbers that are equally likely: the variance of the winsorised distribution on
    /// [0, 1], which is 0.8³/12 + 2 · 0.1 · 0.4², over 0.8² n.
    #[test]
    fn errors_have_the_size_theory_says() {
        let mut random = Random::of(3);
        let samples: Vec<u32> = (0..4000).map(|_| random.below(1_000_000) as u32).collect();
        let theory = SAFETY * ((0.512 / 12.0 + 0.2 * 0.16) / (0.64 * 4000.0_f64)).sqrt() * 1e6;
        let found = Trimmed::new(&samples).unwrap().error();
        assert!((found / theory - 1.0).abs() < 0.2, "{found} {theory}");
        let one = Trimmed::new(&samples).unwrap();
        let resampled = one.resampled(&mut random);
        let squares = resampled.iter().map(|draw| (draw - one.value).powi(2));
        let spread = (squares.sum::<f64>() / DRAWS as f64).sqrt();
        assert!(
            (spread / one.error() - 1.0).abs() < 0.1,
            "{spread} {}",
            one.error()
        );
    }
}
