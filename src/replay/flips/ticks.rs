//! How many ticks a second has, by the timer interrupts of a busy CPU.

/// The values that kernels can be configured with (kernel/Kconfig.hz).
pub const RATES: [u32; 4] = [100, 250, 300, 1000];
/// Intervals needed before anything is concluded.
const LEAST: u64 = 50;
/// By how much an interval may differ from a tick's, in hundredths of it.
const TOLERANCE: i64 = 2;

/// Counts the intervals between a CPU's timer interrupts by the rate that they fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    last: Option<(u32, i64)>,
    by_rate: [u64; RATES.len()],
}

impl Ticks {
    /// A CPU's timer interrupt.
    pub fn see(&mut self, cpu: u32, ts: i64) {
        if let Some((before_cpu, before)) = self.last.replace((cpu, ts))
            && before_cpu == cpu
        {
            let passed = ts.saturating_sub(before);
            for (rate, count) in RATES.iter().zip(&mut self.by_rate) {
                let tick = 1_000_000_000 / i64::from(*rate);
                let off = passed.saturating_sub(tick).saturating_abs();
                *count += u64::from(off.saturating_mul(100) <= tick * TOLERANCE);
            }
        }
    }

    /// The counts of another part of the trace added.
    pub fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.by_rate.iter_mut().zip(other.by_rate) {
            *mine += theirs;
        }
    }

    /// The rate that most intervals fit: twice as many as any other.
    pub fn rate(&self) -> Option<u32> {
        let counts = RATES.into_iter().zip(self.by_rate);
        let (rate, most) = counts.clone().max_by_key(|(_, count)| *count)?;
        let others = counts.filter(|(other, _)| *other != rate);
        let next = others.map(|(_, count)| count).max().unwrap_or(0);
        (most >= LEAST && most >= next.saturating_mul(2)).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commonest_spacing_tells_the_rate() {
        let mut ticks = Ticks::default();
        let mut now = 0;
        for tick in 0..200_i64 {
            // Every fourth is late, as after an idle time.
            now += if tick % 4 == 3 {
                9_000_000
            } else {
                4_000_000 + tick * 100
            };
            ticks.see(3, now);
        }
        assert_eq!(ticks.rate(), Some(250));
        let mut other = Ticks::default();
        (0..40).for_each(|tick| other.see(0, tick * 1_000_000));
        assert_eq!(other.rate(), None, "39 intervals are too few");
        (40..60).for_each(|tick| other.see(0, tick * 1_000_000));
        assert_eq!(other.rate(), Some(1000));
        // Two CPUs whose ticks alternate say nothing of either.
        let mut two = Ticks::default();
        (0..200).for_each(|tick| two.see(tick % 2, i64::from(tick) * 4_000_000));
        assert_eq!(two.rate(), None);
    }
}
