//! How many ticks a second has, by the timer interrupts of a busy CPU; and where in time they are, by what timers wake.

/// The values that kernels can be configured with (kernel/Kconfig.hz).
pub const RATES: [u32; 4] = [100, 250, 300, 1000];
/// Intervals needed before anything is concluded.
const LEAST: u64 = 50;
/// By how much an interval may differ from a tick's, in hundredths of it.
const TOLERANCE: i64 = 2;

/// So long after its start a trace's clock and the one that ticks follow are taken to go alike: they drift apart by some
/// ten, and at most by 500 millionths (`MAXFREQ` in include/linux/timex.h).
const ALIKE_NS: i64 = 2_000_000_000;
/// Most wakings by soft interrupts that are kept, the first of all; and how many must be there.
const MOST_SOFT: usize = 512;
const LEAST_SOFT: usize = 32;

/// Counts the intervals between a CPU's timer interrupts by the rate that they fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ticks {
    last: Option<(u32, i64)>,
    by_rate: [u64; RATES.len()],
    /// When soft interrupts woke tasks: most do so right after a tick, whose timers and read-copy-updates they handle.
    soft: Vec<i64>,
}

/// When ticks come, near the start of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// The earliest that one of them may have come; the others are whole ticks away.
    pub edge_ns: i64,
    /// By so much later it has been counted.
    pub width_ns: i64,
    /// Up to when this holds.
    pub until_ns: i64,
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

    /// A soft interrupt wakes a task.
    #[inline]
    pub fn see_soft(&mut self, ts: i64) {
        // Within a part stamps ascend, but for what two CPUs' parts put together.
        if self.soft.len() < MOST_SOFT {
            self.soft.push(ts);
        }
    }

    /// The counts of another part of the trace added.
    pub fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.by_rate.iter_mut().zip(other.by_rate) {
            *mine += theirs;
        }
        self.soft.extend(&other.soft);
        self.soft.sort_unstable();
        self.soft.truncate(MOST_SOFT);
    }

    /// Where ticks of this length are in time, by the wakings near the trace's start: three fifths of them or more came
    /// within a quarter of a tick after one. Where the ticks of the CPUs are apart, or too many soft interrupts are raised
    /// by other interrupts, that is not known.
    pub fn phase(&self, hz: u32, start_ns: i64) -> Option<Phase> {
        let tick = 1_000_000_000 / i64::from(hz.max(1));
        let until_ns = start_ns.saturating_add(ALIKE_NS);
        let near = self.soft.iter().filter(|ts| **ts <= until_ns);
        let mut phases: Vec<i64> = near
            .map(|ts| ts.saturating_sub(start_ns).rem_euclid(tick))
            .collect();
        if phases.len() < LEAST_SOFT || 1_000_000_000 % i64::from(hz.max(1)) != 0 {
            return None;
        }
        phases.sort_unstable();
        let after = |from: i64| {
            let within = phases
                .iter()
                .filter(|at| (**at - from).rem_euclid(tick) < tick / 4);
            within.count()
        };
        let counts = phases.iter().map(|from| (after(*from), *from));
        // The first of several that are alike: what comes before it is empty.
        let (most, first) = counts.rev().max_by_key(|(count, _)| *count)?;
        // An interrupt takes its time until it wakes someone, and one CPU's tick is counted a little before another's.
        (most * 5 >= phases.len() * 3).then_some(Phase {
            edge_ns: start_ns.saturating_add(first).saturating_sub(tick / 8),
            width_ns: tick / 4,
            until_ns,
        })
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

    /// Soft interrupts wake tasks 100 to 800 µs after every fourth tick, and now and then at any time. Ticks are at 1.3 ms.
    #[test]
    fn what_timers_wake_tells_where_ticks_are() {
        let (tick, start) = (4_000_000, 77_000_000);
        let mut ticks = Ticks::default();
        for n in 0..60 {
            let after = if n % 5 == 4 {
                n * 61_000
            } else {
                100_000 + n % 7 * 100_000
            };
            ticks.see_soft(start + 1_300_000 + 4 * n * tick + after);
        }
        let phase = ticks.phase(250, start).expect("a phase");
        let (edge, width) = (phase.edge_ns - start, phase.width_ns);
        assert!(
            edge <= 1_300_000 && 1_300_000 <= edge + width,
            "{edge} {width}"
        );
        assert_eq!(phase.until_ns, start + 2_000_000_000);
        // Three hundred a second do not fit into nanoseconds; a thousand find all of them spread.
        assert_eq!(ticks.phase(300, start), None);
        assert_eq!(ticks.phase(1000, start), None);
        // At any time, too few, or too late.
        let of = |count: i64, every: i64, from: i64| {
            let mut ticks = Ticks::default();
            (0..count).for_each(|n| ticks.see_soft(start + from + n * every));
            ticks.phase(250, start)
        };
        assert!(of(100, tick, 0).is_some());
        assert_eq!(of(100, tick + 90_001, 0), None);
        assert_eq!(of(20, tick, 0), None);
        assert_eq!(of(100, tick, 2_000_000_000), None);
    }
}
