//! What the kernel's count of ticks (`jiffies`) may have been at an instant, as the time at which that count began.

use super::setup::Setup;
use super::ticks::Phase;

/// From and to: the tick whose count was the last. Two of them differ by whole ticks in truth.
pub type Tick = (i64, i64);

/// Where ticks are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// How long a tick is, rounded down and up.
    least_ns: i64,
    most_ns: i64,
    phase: Option<Phase>,
}

impl Clock {
    pub fn new(setup: &Setup) -> Self {
        Self {
            least_ns: 1_000_000_000 / i64::from(setup.hz.max(1)),
            most_ns: setup.tick_ns(),
            phase: setup.phase,
        }
    }

    /// Where ticks are is not known any more.
    pub fn forget_phase(&mut self) {
        self.most_ns = self.lag_ns();
        self.phase = None;
    }

    /// How long a tick is; no less than this.
    #[inline]
    pub fn tick_ns(&self) -> i64 {
        self.least_ns
    }

    /// How much later than a tick's own time, as it is given here, its count may be seen.
    pub fn lag_ns(&self) -> i64 {
        self.most_ns + self.phase.map_or(0, |phase| phase.width_ns)
    }

    /// The tick that is the last by the kernel's count at some time from `from` to `to`, which may be late by so much.
    #[inline]
    pub fn tick(&self, from: i64, to: i64, late_ns: i64) -> Tick {
        match self.phase {
            Some(phase) if to <= phase.until_ns => {
                let counted = from.saturating_sub(late_ns + phase.width_ns);
                (self.edge(phase, counted), self.edge(phase, to))
            }
            _ => (from.saturating_sub(late_ns + self.lag_ns() - 1), to),
        }
    }

    fn edge(&self, phase: Phase, ts: i64) -> i64 {
        let since = ts.saturating_sub(phase.edge_ns);
        ts.saturating_sub(since.rem_euclid(self.least_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: i64 = 4_000_000;

    fn clock(phase: Option<Phase>) -> Clock {
        Clock {
            least_ns: TICK,
            most_ns: TICK,
            phase,
        }
    }

    /// Ticks at 1.5 ms and every 4 ms, each counted 1 ms later at most; known up to 50 ms.
    #[test]
    fn ticks_by_hand() {
        let ms = |ms: f64| (ms * 1e6) as i64;
        let known = clock(Some(Phase {
            edge_ns: ms(1.5),
            width_ns: ms(1.0),
            until_ns: ms(50.0),
        }));
        // Before the next comes, and once it has been counted; in between it may be either.
        assert_eq!(known.tick(ms(10.0), ms(10.0), 0), (ms(5.5), ms(9.5)));
        assert_eq!(known.tick(ms(10.5), ms(13.4), 0), (ms(9.5), ms(9.5)));
        assert_eq!(known.tick(ms(13.0), ms(14.0), 0), (ms(9.5), ms(13.5)));
        // Counted up to 10 ms late.
        assert_eq!(
            known.tick(ms(23.0), ms(23.0), ms(10.0)),
            (ms(9.5), ms(21.5))
        );
        // Where they are not known it is the last 4 ms, or, as said above, 5.
        let unknown = clock(None);
        assert_eq!(unknown.tick(ms(10.0), ms(11.0), 0), (ms(6.0) + 1, ms(11.0)));
        assert_eq!(known.tick(ms(60.0), ms(61.0), 0), (ms(55.0) + 1, ms(61.0)));
        let mut forgotten = known;
        forgotten.forget_phase();
        assert_eq!(
            forgotten.tick(ms(10.0), ms(11.0), 0),
            (ms(5.0) + 1, ms(11.0))
        );
    }

    proptest! {
        /// Ticks come some time after `edge_ns`, are counted up to `width_ns` after it and sometimes later still. Whatever
        /// the kernel saw is inside, known or not, by one and the same name for each tick.
        #[test]
        fn what_the_kernel_saw_is_inside(
            edge in 0_i64..20 * TICK, width in 0_i64..TICK, after in 0.0_f64..1.0, from in 0_i64..100 * TICK,
            lasts in 0_i64..3 * TICK, read in 0.0_f64..=1.0, counted in 0.0_f64..=1.0, late in 0_i64..5 * TICK, until in 0_i64..100 * TICK,
        ) {
            let part = |of: i64, share: f64| (of as f64 * share) as i64;
            let clock = clock(Some(Phase { edge_ns: edge, width_ns: width, until_ns: until }));
            let (from, to) = (edge + from, edge + from + lasts);
            let now = from + part(lasts, read);
            // The last tick that has come, and the last that must have been counted: any from here to there may be seen.
            let comes = edge + part(width, after);
            let last = (now - comes).div_euclid(TICK);
            let least = (now - late - edge - width).div_euclid(TICK);
            let seen = least + part(last - least, counted).clamp(0, (last - least).max(0));
            prop_assume!(least <= last);
            let (lo, hi) = clock.tick(from, to, late);
            let name = edge + seen * TICK;
            prop_assert!(lo <= name && name <= hi, "{name} {lo} {hi}");
        }
    }
}
