use super::*;
use proptest::prelude::*;

const TICK: i64 = 4_000_000;

/// A counter as the kernel keeps it, in jiffies of 4 ms; written from the kernel's text, and the patch of 2014.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    decay: Decay,
    flips: u64,
    ts: i64,
    phase: i64,
}

impl Kernel {
    fn wake(&mut self, now: i64, flip: bool) {
        let (jiffies, hz) = ((now + self.phase).div_euclid(TICK), 250);
        match self.decay {
            Decay::Zero if jiffies > self.ts + hz => {
                self.flips = 0;
                self.ts = jiffies;
            }
            Decay::Halve if jiffies > self.ts + hz => {
                self.flips >>= 1;
                self.ts = jiffies;
            }
            Decay::Loop if jiffies > self.ts + 64 * hz => {
                self.flips = 0;
                self.ts = jiffies;
            }
            Decay::Loop => {
                while jiffies > self.ts + hz && self.flips > 0 {
                    self.flips >>= 1;
                    self.ts += hz;
                }
            }
            _ => {}
        }
        self.flips += u64::from(flip);
    }
}

/// The last tick up to a time, wherever ticks are.
fn ticks(now: i64) -> (i64, i64) {
    (now - TICK + 1, now)
}

fn wake(now_ms: i64, flip: Flip) -> Wake {
    Wake {
        tick: ticks(now_ms * 1_000_000),
        before: i64::MAX,
        tick_ns: TICK,
        inherited_from: i64::MIN,
        flip,
        sure: true,
    }
}

/// A track that the kernel's own values have made exact: of `flips`, and decayed last at 1,000 ms.
fn exact(decay: Decay, flips: u32) -> Track<1> {
    let mut track = Track::unknown([decay], -3_000_000_000);
    track.observe(flips, [Likeness::Equal]);
    track.guesses[0].ts = ticks(1_000_000_000);
    track.summarize();
    track
}

fn spans(decay: Decay, flips: u32, wakes: &[(i64, Flip)]) -> Vec<(u32, u32)> {
    let mut track = exact(decay, flips);
    let after = wakes.iter().map(|(ms, flip)| {
        track.wake(wake(*ms, *flip));
        let [span] = track.spans();
        (span.lo, span.hi)
    });
    after.collect()
}

/// 12 flips, last decayed at 1,000 ms. 1,500: 13. 2,000: a second has passed, not more: 14. 2,004: at least 251 ticks:
/// 14 / 2 + 1 = 8, or 0 + 1. 4,100: 8 / 2 + 1 = 5 however many seconds passed.
#[test]
fn zero_and_halve_by_hand() {
    let wakes = [1_500, 2_000, 2_004, 4_100].map(|ms| (ms, Flip::Yes));
    assert_eq!(
        spans(Decay::Halve, 12, &wakes),
        [(13, 13), (14, 14), (8, 8), (5, 5)]
    );
    assert_eq!(
        spans(Decay::Zero, 12, &wakes),
        [(13, 13), (14, 14), (1, 1), (1, 1)]
    );
}

/// 40 flips. 2,004: 40 / 2 = 20, and the time goes on to 2,000. 4,500: two seconds more: 20 / 4 = 5, time 4,000.
/// 5,001: it depends on the ticks: 5 or 2. 70,000: more than 64 seconds: none.
#[test]
fn loop_by_hand() {
    let wakes = [2_004, 4_500, 5_001, 70_000].map(|ms| (ms, Flip::No));
    assert_eq!(
        spans(Decay::Loop, 40, &wakes),
        [(20, 20), (5, 5), (2, 5), (0, 0)]
    );
    // Without flips the time stays behind, at 1,000: what is gained at 9,000 is lost again at 9,100 and at 9,200.
    let wakes = [
        (9_000, Flip::Yes),
        (9_100, Flip::No),
        (9_200, Flip::Yes),
        (9_300, Flip::No),
    ];
    assert_eq!(
        spans(Decay::Loop, 0, &wakes),
        [(1, 1), (0, 0), (1, 1), (0, 0)]
    );
}

/// Between a second and a second and a tick it depends on where in a tick both instants were. At 2,001 8 flips are 8
/// or 4. At 2,003 with one flip more they are 9, 5, or, decayed only now, 4 + 1. At 2,005 all have decayed, once.
#[test]
fn the_ticks_leave_both_open_for_a_tick() {
    let wakes = [(2_001, Flip::No), (2_003, Flip::Yes), (2_005, Flip::No)];
    assert_eq!(spans(Decay::Halve, 8, &wakes), [(4, 8), (5, 9), (4, 5)]);
    // A busy waker's lower bound is not halved with every wakeup of that time.
    let wakes: Vec<_> = (0..30).map(|n| (2_001 + n / 10, Flip::No)).collect();
    assert_eq!(spans(Decay::Halve, 1_000, &wakes)[29], (500, 1_000));
}

/// The kernel's value tells which of the two it was, and so when the next decay comes.
#[test]
fn a_probed_value_ends_what_it_refutes() {
    let mut track = exact(Decay::Halve, 8);
    track.wake(wake(2_001, Flip::No));
    assert!(track.observe(4, [Likeness::Equal]));
    track.wake(wake(3_000, Flip::No));
    assert_eq!(track.spans(), [Span::exactly(4)]);
    assert!(!track.observe(7, [Likeness::Equal]));
    assert_eq!(track.spans(), [Span::exactly(7)], "the kernel is right");
}

/// Nothing is known of the time before. Once a second and a tick have passed since the first wakeup, *zero* is
/// bounded by what came since; *halve* has half of everything.
#[test]
fn what_was_before_is_forgotten_by_decays() {
    let mut track = Track::unknown([Decay::Zero, Decay::Halve], 0);
    for ms in [100, 600, 1_105] {
        track.wake(wake(ms, Flip::Yes));
    }
    let [zero, halve] = track.spans();
    // Decayed first at 100, then again at 1,105 (1 flip is left), at 600 (2 are left), or at 1,105 (1 is left).
    assert_eq!((zero.lo, zero.hi), (1, 2));
    // At 600 it may have been half of anything, and 2 more by now. Of 0, 1 + 1 / 2 + 1 remain at least.
    assert_eq!((halve.lo, halve.hi), (2, u32::MAX / 2 + 2));
    assert_eq!(track.narrow(), [true, false]);
    // A gap of more than a second and a tick fixes the time: exactly one flip.
    track.wake(wake(3_000, Flip::Yes));
    assert_eq!(track.spans()[0], Span::exactly(1));
}

/// What happens to a counter: a pause in ms, whether the wakeup flips, whether it certainly counts, whether it does,
/// whether its flip is certain, and whether the value is probed before it.
type Step = (i64, bool, bool, bool, bool, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![0_i64..20, 0_i64..400, 990_i64..1_020, 900_i64..70_000];
    let flags = (any::<bool>(), 0_u8..4, any::<bool>(), 0_u8..4, 0_u8..6);
    let step = (pause, flags).prop_map(|(pause, (flip, sure, counts, certain, probe))| {
        (pause, flip, sure > 0, counts, certain > 0, probe == 0)
    });
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the kernel had counted before and wherever its ticks are, its counters lie in what is said of them,
    /// probed or not, for every decay, and its own values never refute everything.
    #[test]
    fn the_kernels_counters_are_always_inside(
        before in prop_oneof![0_u64..20, 0_u64..100_000], age in 0_i64..70_000, phase in 0..TICK,
        halves: bool, probes: bool, steps in steps(),
    ) {
        let kernel = if halves { Decay::Halve } else { Decay::Zero };
        let decays = [Decay::Zero, Decay::Halve, Decay::Loop];
        let ts = (phase - age * 1_000_000).div_euclid(TICK);
        let mut truth = decays.map(|decay| Kernel { decay, flips: before, ts, phase });
        let mut both = Track::unknown([Decay::Zero, Decay::Halve], 0);
        let mut looped = Track::unknown([Decay::Loop], 0);
        let likeness = decays.map(|decay| Likeness::of(decay, kernel));
        let (mut now, mut woke) = (0, i64::MIN);
        for (pause, flip, sure, counts, certain, probe) in steps {
            now += pause * 1_000_000;
            if probe && probes {
                let value = truth[kernel as usize].flips as u32;
                prop_assert!(both.observe(value, [likeness[0], likeness[1]]));
                prop_assert!(looped.observe(value, [likeness[2]]));
                woke = i64::MAX;
            }
            if sure || counts {
                truth.iter_mut().for_each(|counter| counter.wake(now, flip));
            }
            let flip = match (flip, certain && sure) {
                (true, true) => Flip::Yes,
                (false, true) => Flip::No,
                _ => Flip::Perhaps,
            };
            let wake = Wake { tick: ticks(now), before: woke, tick_ns: TICK, inherited_from: i64::MIN, flip, sure };
            both.wake(wake);
            looped.wake(wake);
            woke = now;
            let ([zero, halve], [last]) = (both.spans(), looped.spans());
            for (counter, span) in truth.iter().zip([zero, halve, last]) {
                prop_assert!(span.contains(counter.flips as u32), "{counter:?} {span:?} at {now}");
            }
        }
    }

    /// The same of busy wakers, most of whose wakeups are put off.
    #[test]
    fn what_is_put_off_is_not_forgotten(
        before in prop_oneof![0_u64..20, 0_u64..100_000], age in 0_i64..70_000, phase in 0..TICK,
        steps in prop::collection::vec((steps(), 1_i64..400, 0_i64..8_000_000), 1..6),
    ) {
        let decays = [Decay::Zero, Decay::Halve];
        let ts = (phase - age * 1_000_000).div_euclid(TICK);
        let mut truth = decays.map(|decay| Kernel { decay, flips: before, ts, phase });
        let mut track = Track::unknown(decays, 0);
        let (mut now, mut woke) = (0, i64::MIN);
        for (steps, busy, apart) in steps {
            let steps = steps.into_iter().map(|(pause, flip, sure, counts, ..)| (pause * 1_000_000, flip, sure, counts));
            for (pause, flip, sure, counts) in steps.chain((0..busy).map(|_| (apart, false, true, true))) {
                now += pause;
                if sure || counts {
                    truth.iter_mut().for_each(|counter| counter.wake(now, flip));
                }
                let flip = match (flip, sure) {
                    (false, _) => Flip::No,
                    (true, true) => Flip::Yes,
                    (true, false) => Flip::Perhaps,
                };
                track.wake(Wake { tick: ticks(now), before: woke, tick_ns: TICK, inherited_from: i64::MIN, flip, sure });
                woke = now;
                for (counter, span) in truth.iter().zip(track.spans()) {
                    prop_assert!(span.contains(counter.flips as u32), "{counter:?} {span:?} at {now}");
                }
                let mut settled = track;
                settled.settle();
                for (counter, at) in truth.iter().zip(0..) {
                    let holds = |guess: &Guess<2>| guess.flips[at].contains(counter.flips as u32);
                    prop_assert!(settled.guesses().iter().any(holds), "{counter:?} {settled:?} at {now}");
                }
            }
        }
    }
}

/// One flip, then a thousand wakeups of the same task while nothing tells whether it has decayed yet: all but the
/// first are put off.
#[test]
fn wakeups_that_say_nothing_are_put_off() {
    let mut track = Track::unknown([Decay::Zero, Decay::Halve], 0);
    track.wake(wake(1, Flip::Yes));
    (0..1_000).for_each(|n| {
        track.wake(Wake {
            tick: ticks(500_000_000 + n * 1_000),
            ..wake(1, Flip::No)
        })
    });
    let since = track.quiet.and_then(|quiet| quiet.since);
    let (earliest, latest, most) = since.expect("some are put off");
    assert_eq!((latest - earliest, most), (998_000, 500_999_000));
}
