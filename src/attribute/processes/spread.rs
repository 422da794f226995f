//! How a number spreads over threads.

use super::super::answer::{Known, Spread};

/// Mean, range and standard deviations; `None` of nothing.
pub fn spread(of: &[f64]) -> Option<Spread> {
    let n = of.len() as f64;
    let mean = of.iter().sum::<f64>() / n;
    let min = of.iter().copied().reduce(f64::min)?;
    let max = of.iter().copied().reduce(f64::max)?;
    let squares: f64 = of.iter().map(|x| (x - mean).powi(2)).sum();
    Some(Spread {
        n: of.len() as u64,
        mean,
        min,
        max,
        range: max - min,
        stddev_population: (squares / n).sqrt(),
        stddev_sample: match of.len() {
            1 => Known::unknown("one thread has no spread"),
            _ => Known::Value((squares / (n - 1.0)).sqrt()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2, 4, 4, 4, 5, 5, 7, 9: the textbook's example, whose standard deviation is 2.
    #[test]
    fn both_standard_deviations() {
        let found = spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((found.n, found.mean, found.range), (8, 5.0, 7.0));
        assert_eq!((found.min, found.max), (2.0, 9.0));
        assert_eq!(found.stddev_population, 2.0);
        assert_eq!(found.stddev_sample, Known::Value((32.0_f64 / 7.0).sqrt()));
        let one = spread(&[3.0]).unwrap();
        assert_eq!((one.range, one.stddev_sample.value()), (0.0, None));
        assert_eq!(spread(&[]), None);
    }
}
