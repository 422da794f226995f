//! Events that lie alone in time: a damaged stamp, or what a CPU had kept of long ago.
//!
//! A system-wide trace of a scheduler is never silent for minutes, on any CPU, but where the recording itself was
//! paused. A few events before or behind such a silence would stretch the trace over it, and every share with it.

use rustc_hash::FxHashMap;

/// Stamps are counted by 2^28 ns, 0.27 s.
const SLOT_BITS: u32 = 28;

/// So many slots without any event are a silence: 4.6 minutes.
const SILENCE_SLOTS: i64 = 1024;

/// A silence that is told although nothing is left out: so many slots, 1.1 s, and half of the trace.
const TOLD_SLOTS: i64 = 4;

/// What lies apart is left out where the trace has more than so many times its events.
const FEW: u64 = 32;

/// How many events a trace has of each time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    slots: FxHashMap<i64, u64>,
    /// The slot met last, and what it has beyond `slots`.
    current: i64,
    count: u64,
}

impl Times {
    #[inline(always)]
    pub fn see(&mut self, ts: i64) {
        let slot = ts >> SLOT_BITS;
        if slot != self.current {
            self.turn_to(slot);
        }
        self.count += 1;
    }

    #[inline(never)]
    fn turn_to(&mut self, slot: i64) {
        self.settle();
        self.current = slot;
    }

    fn settle(&mut self) {
        if self.count > 0 {
            *self.slots.entry(self.current).or_default() += std::mem::take(&mut self.count);
        }
    }

    pub fn join(&mut self, mut other: Self) {
        self.settle();
        other.settle();
        for (slot, count) in other.slots {
            *self.slots.entry(slot).or_default() += count;
        }
    }

    /// The longest time in which no CPU has any event, to a fraction of a second, in nanoseconds; `None` unless it is
    /// more than half of the trace, which no machine sleeps through.
    pub fn silence(&self) -> Option<i64> {
        let slots = self.sorted();
        let (first, last) = (slots.first()?.0, slots.last()?.0);
        let gaps = slots.windows(2).map(|pair| match pair {
            [(slot, _), (next, _)] => next - slot - 1,
            _ => 0,
        });
        let longest = gaps.max()?;
        let is_much = longest >= TOLD_SLOTS && longest > (last - first + 1) / 2;
        is_much.then_some(longest << SLOT_BITS)
    }

    fn sorted(&self) -> Vec<(i64, u64)> {
        let mut whole = self.clone();
        whole.settle();
        let mut slots: Vec<(i64, u64)> = whole.slots.into_iter().collect();
        slots.sort_unstable();
        slots
    }

    /// The time without the few events at its ends that lie alone, as first and last nanosecond; `None` if none do.
    pub fn without_lonely(&self) -> Option<(i64, i64)> {
        let slots = self.sorted();
        let total: u64 = slots.iter().map(|(_, count)| count).sum();
        let mut parts = slots.chunk_by(|(slot, _), (next, _)| next - slot <= SILENCE_SLOTS);
        let is_much = |part: &&[(i64, u64)]| {
            let count: u64 = part.iter().map(|(_, count)| count).sum();
            count.saturating_mul(FEW) >= total
        };
        let first = parts.clone().find(is_much)?.first()?.0;
        let last = parts.rfind(is_much)?.last()?.0;
        let is_all = slots.first()?.0 == first && slots.last()?.0 == last;
        (!is_all).then_some((first << SLOT_BITS, ((last + 1) << SLOT_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000_000;

    fn times(parts: &[(i64, usize)]) -> Times {
        let mut times = Times::default();
        for &(minute, count) in parts {
            let mut part = Times::default();
            (0..count).for_each(|at| part.see(minute * MINUTE + at as i64));
            times.join(part);
        }
        times
    }

    #[test]
    fn few_events_beyond_a_silence_lie_alone() {
        assert_eq!(times(&[(100, 1000), (104, 5)]).without_lonely(), None);
        for far in [90, 110, 10_000] {
            let (first, last) = times(&[(100, 1000), (far, 15)]).without_lonely().unwrap();
            assert!((first..=last).contains(&(100 * MINUTE)));
            assert!(!(first..=last).contains(&(far * MINUTE)), "{far}");
        }
        // On both sides, and in between.
        let (first, last) = times(&[(100, 1000), (300, 2), (500, 900), (9, 2), (900, 1)])
            .without_lonely()
            .unwrap();
        assert!((9 * MINUTE + 1..=100 * MINUTE).contains(&first));
        assert!((500 * MINUTE..900 * MINUTE).contains(&last));
    }

    #[test]
    fn half_of_a_trace_is_not_silent() {
        let second = 1_000_000_000;
        let times = |seconds: &[i64]| {
            let mut times = Times::default();
            seconds.iter().for_each(|at| times.see(at * second));
            times
        };
        let even: Vec<i64> = (0..20).collect();
        assert_eq!(times(&even).silence(), None);
        assert_eq!(times(&[5]).silence(), None);
        let apart = times(&[100, 101, 102, 120]);
        let silence = apart.silence().unwrap();
        assert!((17 * second..=18 * second).contains(&silence), "{silence}");
        // Less than half.
        assert_eq!(times(&[100, 110, 102, 106, 104, 108, 119]).silence(), None);
    }

    #[test]
    fn a_pause_in_the_recording_is_no_damage() {
        assert_eq!(times(&[(100, 1000), (200, 40)]).without_lonely(), None);
        // A filter may leave little of hours.
        let rare: Vec<_> = (0..10).map(|hour| (hour * 60, 1)).collect();
        assert_eq!(times(&rare).without_lonely(), None);
        assert_eq!(times(&[]).without_lonely(), None);
    }
}
