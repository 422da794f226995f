//! One counter of flips under one decay, as far as a trace shows it.
//!
//! Whether a counter decays at a wakeup depends on the tick at which it last did, and that is known to within some time
//! only. A wakeup at which both are possible splits what is known in two; the guess that is wrong ends when the other
//! must have decayed too, or when the kernel's own value contradicts it. Were both always merged, a busy waker's lower
//! bound would be halved at every wakeup of the time in question instead of once.

use smallvec::SmallVec;

use super::rule::Span;

/// What becomes of the flips once a second has passed. All three look only when the task wakes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decay {
    /// 3.12 to 3.15: cleared (`record_wakee` in 3.14).
    Zero,
    /// Since 3.16 (096aa33863a5): halved once, however long ago the last time was.
    Halve,
    /// Proposed by Peter Zijlstra in August 2014, never merged: halved once for every second that passed, the time
    /// moving on by whole seconds and only while there are flips; cleared after `BITS_PER_LONG` seconds.
    Loop,
}

/// `HZ` jiffies, in nanoseconds: a counter decays when more have passed.
pub const SECOND: i64 = 1_000_000_000;
/// `BITS_PER_LONG` of 64-bit kernels: after so many seconds *loop* clears.
const LONG_BITS: i64 = 64;

/// Most guesses kept of one counter; beyond that the two that are most alike are merged.
const GUESSES: usize = 8;

/// One of the things that a counter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guess {
    /// When it last decayed (`wakee_flip_decay_ts`): from and to, in nanoseconds of the trace.
    ts: (i64, i64),
    flips: Span,
    /// How often it decayed since the trace began; at most this is 2.
    decays: u8,
}

impl Guess {
    fn merged(self, other: Self) -> Self {
        Self {
            ts: (self.ts.0.min(other.ts.0), self.ts.1.max(other.ts.1)),
            flips: self.flips.hull(other.flips),
            decays: self.decays.max(other.decays),
        }
    }

    /// Whether another guess of a decay that may have come at any of several wakeups is worth no place of its own: exact
    /// values are kept apart, since a probe tells which was right.
    fn goes_on_as(&self, new: &Self) -> bool {
        let inexact = self.flips.width() > 1 || new.flips.width() > 1;
        self.decays == new.decays && (inexact || self.flips == new.flips)
    }

    /// How much less a merged guess says: values first, then time.
    fn merging_costs(self, other: Self) -> (u32, i64) {
        let merged = self.merged(other);
        let wider = self.flips.width().max(other.flips.width());
        let [mine, theirs, all] = [self, other, merged].map(|of| of.ts.1.saturating_sub(of.ts.0));
        let gap = all.saturating_sub(mine).saturating_sub(theirs);
        (merged.flips.width().saturating_sub(wider), gap)
    }
}

/// How a counter relates to one that the kernel showed, if both were alike when the trace began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Likeness {
    /// They are equal until this one has decayed more often than this.
    pub decays: u8,
    /// This one is never above the other.
    pub below: bool,
    /// This one is never below the other.
    pub above: bool,
}

impl Likeness {
    /// How a counter under `policy` relates to one under the kernel's own decay. Both decay for the first time at the
    /// same wakeup. *halve* and *loop* do the same then if a single second passed, but *loop* sets its time to another
    /// instant. *zero* sets it as *halve* does, so it is never above it.
    pub fn of(policy: Decay, kernel: Decay) -> Self {
        let (decays, below, above) = match (policy, kernel) {
            (Decay::Zero, Decay::Zero)
            | (Decay::Halve, Decay::Halve)
            | (Decay::Loop, Decay::Loop) => (u8::MAX, false, false),
            (Decay::Loop, Decay::Halve) => (1, false, false),
            (Decay::Zero, Decay::Halve) => (0, true, false),
            (Decay::Halve, Decay::Zero) => (0, false, true),
            (Decay::Zero | Decay::Halve, Decay::Loop) | (Decay::Loop, Decay::Zero) => {
                (0, false, false)
            }
        };
        Self {
            decays,
            below,
            above,
        }
    }
}

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    guesses: [Guess; GUESSES],
    len: u8,
    /// It was known to within 1 at some time.
    narrow: bool,
    /// The earliest time at which it may have decayed last.
    oldest: i64,
}

/// What a wakeup adds to the flips: nothing, one, or perhaps one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flip {
    No,
    Perhaps,
    Yes,
}

impl Flip {
    fn bounds(self) -> (u32, u32) {
        match self {
            Flip::No => (0, 0),
            Flip::Perhaps => (0, 1),
            Flip::Yes => (1, 1),
        }
    }
}

/// A wakeup, as far as it concerns the waker's counters.
#[derive(Debug, Clone, Copy)]
pub struct Wake {
    pub now: i64,
    /// The time of the waker's wakeup before.
    pub before: i64,
    pub tick_ns: i64,
    pub flip: Flip,
    /// Whether it counts; if not, the kernel may have passed it over.
    pub sure: bool,
}

/// What a guess becomes at a wakeup: each part is possible.
#[derive(Default)]
struct Parts {
    /// *loop* ran out of flips before its time caught up.
    stalled: Option<Guess>,
    stays: Option<Guess>,
    decayed: Option<Guess>,
}

/// The guesses that follow from those before: at most one of each that stays, and one each that stalled and decayed.
type Kept = SmallVec<[Guess; GUESSES + 2]>;

impl Track {
    /// Nothing is known but that the task made no wakeup that counts after `since`.
    pub fn unknown(since: i64) -> Self {
        let guess = Guess {
            ts: (i64::MIN, since),
            flips: Span::UNKNOWN,
            decays: 0,
        };
        Self {
            guesses: [guess; GUESSES],
            len: 1,
            narrow: false,
            oldest: i64::MIN,
        }
    }

    #[inline]
    fn guesses(&self) -> &[Guess] {
        self.guesses
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Every value that it may have.
    #[inline]
    pub fn span(&self) -> Span {
        let [first, rest @ ..] = self.guesses() else {
            return Span::UNKNOWN;
        };
        rest.iter()
            .fold(first.flips, |span, guess| span.hull(guess.flips))
    }

    /// Whether it was known to within 1 at some time.
    #[inline]
    pub fn narrow(&self) -> bool {
        self.narrow
    }

    /// The task wakes another: the counter decays if its time has come, then the flip counts.
    #[inline]
    pub fn wake(&mut self, decay: Decay, wake: Wake) {
        // Up to a second after it last decayed it never does.
        if wake.now.saturating_sub(self.oldest) > SECOND {
            self.decay(decay, wake);
        }
        let (least, most) = wake.flip.bounds();
        for guess in self.guesses.iter_mut().take(usize::from(self.len)) {
            guess.flips = guess.flips.plus(least, most);
        }
        self.note_width();
    }

    #[inline]
    fn note_width(&mut self) {
        self.narrow |= self.span().width() <= 1;
    }

    fn decay(&mut self, decay: Decay, wake: Wake) {
        let (now, tick_ns) = (wake.now, wake.tick_ns);
        let mut kept = Kept::new();
        let (mut stalled, mut decayed) = (None, None);
        for guess in self.guesses() {
            let parts = match decay {
                Decay::Loop => looped(*guess, now, tick_ns),
                Decay::Zero => once(*guess, now, tick_ns, Span::exactly(0)),
                Decay::Halve => once(*guess, now, tick_ns, guess.flips.halved(1, 1)),
            };
            kept.extend(if wake.sure { parts.stays } else { Some(*guess) });
            stalled = merged(stalled, parts.stalled);
            decayed = merged(decayed, parts.decayed);
        }
        if let Some(stalled) = stalled {
            kept.insert(0, stalled);
        }
        if let Some(new) = decayed {
            match kept.last_mut() {
                // The same decay, one wakeup earlier.
                Some(last) if last.goes_on_as(&new) && last.ts.1 >= wake.before => {
                    *last = last.merged(new);
                }
                _ => kept.push(new),
            }
        }
        while kept.len() > GUESSES {
            merge_alike(&mut kept);
        }
        self.keep(&kept);
    }

    fn keep(&mut self, kept: &[Guess]) {
        for (to, from) in self.guesses.iter_mut().zip(kept) {
            *to = *from;
        }
        self.len = kept.len().min(GUESSES) as u8;
        let oldest = kept.iter().map(|guess| guess.ts.0).min();
        self.oldest = oldest.unwrap_or(i64::MIN);
    }

    /// What it may have been at some time since then: up to `flips` flips came later, and what decayed had not yet.
    pub fn go_back(&mut self, decay: Decay, since: i64, flips: u32) {
        for guess in self.guesses.iter_mut().take(usize::from(self.len)) {
            guess.flips.lo = guess.flips.lo.saturating_sub(flips);
            if guess.decays > 0 && guess.ts.1 >= since {
                guess.ts.0 = i64::MIN;
                guess.flips.hi = match decay {
                    Decay::Halve => guess.flips.hi.saturating_mul(2).saturating_add(1),
                    Decay::Zero | Decay::Loop => u32::MAX,
                };
            }
        }
        let oldest = self.guesses().iter().map(|guess| guess.ts.0).min();
        self.oldest = oldest.unwrap_or(i64::MIN);
    }

    /// The kernel's own counter has this value now. Guesses that this refutes end. False if it refutes all.
    pub fn observe(&mut self, value: u32, likeness: Likeness) -> bool {
        let mut kept: SmallVec<[Guess; GUESSES]> = SmallVec::new();
        for guess in self.guesses() {
            let mut guess = *guess;
            if guess.decays <= likeness.decays {
                if !guess.flips.contains(value) {
                    continue;
                }
                guess.flips = Span::exactly(value);
            } else {
                if likeness.below {
                    guess.flips.hi = guess.flips.hi.min(value);
                }
                if likeness.above {
                    guess.flips.lo = guess.flips.lo.max(value);
                }
                if guess.flips.lo > guess.flips.hi {
                    continue;
                }
            }
            kept.push(guess);
        }
        let right = !kept.is_empty();
        if !right {
            self.start_again(value, likeness);
        } else {
            self.keep(&kept);
        }
        self.note_width();
        right
    }

    /// No guess was right: the kernel's value is taken where this is its counter.
    #[cold]
    fn start_again(&mut self, value: u32, likeness: Likeness) {
        let all = self.guesses().iter().copied().reduce(Guess::merged);
        let Some(mut all) = all else {
            return;
        };
        if all.decays <= likeness.decays {
            all.flips = Span::exactly(value);
        }
        self.keep(&[all]);
    }
}

/// The time by which a counter that is looked at now and does not decay must have done so last: ticks are counted, and
/// between `HZ` and `HZ + 1` of them it depends on where in a tick both instants were.
fn not_before(now: i64, tick_ns: i64) -> i64 {
    now.saturating_sub(SECOND + tick_ns - 1)
}

/// Merges the two guesses that are most alike.
fn merge_alike(guesses: &mut Kept) {
    let pairs = (0..guesses.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let costs = pairs.filter_map(|(a, b)| {
        let (one, other) = (guesses.get(a)?, guesses.get(b)?);
        Some((one.merging_costs(*other), a, b))
    });
    let Some((_, a, b)) = costs.min() else {
        return;
    };
    let other = guesses.remove(b);
    if let Some(one) = guesses.get_mut(a) {
        *one = one.merged(other);
    }
}

fn merged(one: Option<Guess>, other: Option<Guess>) -> Option<Guess> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.merged(other)),
        (one, other) => one.or(other),
    }
}

/// *zero* and *halve*: at most one decay, and the time becomes now.
fn once(guess: Guess, now: i64, tick_ns: i64, flips: Span) -> Parts {
    let (oldest, youngest) = ages(&guess, now);
    if oldest <= SECOND {
        return Parts {
            stays: Some(guess),
            ..Parts::default()
        };
    }
    Parts {
        stays: staying(guess, youngest, now, tick_ns),
        decayed: Some(Guess {
            ts: (now, now),
            flips,
            decays: counted(guess.decays, 1),
        }),
        stalled: None,
    }
}

/// The most and the least time that may have passed since it last decayed.
fn ages(guess: &Guess, now: i64) -> (i64, i64) {
    let (from, to) = guess.ts;
    (now.saturating_sub(from), now.saturating_sub(to))
}

fn staying(guess: Guess, youngest: i64, now: i64, tick_ns: i64) -> Option<Guess> {
    let from = guess.ts.0.max(not_before(now, tick_ns));
    (youngest < SECOND + tick_ns).then_some(Guess {
        ts: (from, guess.ts.1),
        ..guess
    })
}

/// *loop*: once for every second, the time moving on with each, as long as there are flips.
fn looped(guess: Guess, now: i64, tick_ns: i64) -> Parts {
    let (oldest, youngest) = ages(&guess, now);
    let most = seconds(oldest.saturating_sub(1));
    if most == 0 {
        return Parts {
            stays: Some(guess),
            ..Parts::default()
        };
    }
    let least = seconds(youngest.saturating_sub(tick_ns));
    let steps = least.max(1);
    let stays = staying(guess, youngest, now, tick_ns);
    let cleared = oldest > LONG_BITS * SECOND;
    let decays = counted(guess.decays, most);
    let decayed = (halvings(guess.flips.hi) >= steps).then(|| Guess {
        ts: (
            later(guess.ts.0, steps).max(not_before(now, tick_ns)),
            later(guess.ts.1, most).min(now),
        ),
        flips: guess.flips.halved(shift(steps), shift(most)),
        decays,
    });
    let stalled = (halvings(guess.flips.lo) < most).then(|| Guess {
        ts: (
            later(guess.ts.0, halvings(guess.flips.lo))
                .max(now.saturating_sub(LONG_BITS * SECOND + tick_ns)),
            later(guess.ts.1, most.min(halvings(guess.flips.hi))).min(now.saturating_sub(SECOND)),
        ),
        flips: Span::exactly(0),
        decays,
    });
    let now_clear = cleared.then_some(Guess {
        ts: (now, now),
        flips: Span::exactly(0),
        decays,
    });
    if youngest >= LONG_BITS * SECOND + tick_ns {
        return Parts {
            decayed: now_clear,
            ..Parts::default()
        };
    }
    Parts {
        stays: stays.filter(|_| least == 0),
        decayed: merged(decayed, now_clear),
        stalled,
    }
}

/// How often flips can be halved until there are none.
fn halvings(flips: u32) -> i64 {
    i64::from(u32::BITS - flips.leading_zeros())
}

fn later(ts: i64, seconds: i64) -> i64 {
    ts.saturating_add(seconds.saturating_mul(SECOND))
}

fn counted(decays: u8, more: i64) -> u8 {
    decays.saturating_add(more.clamp(0, 2) as u8).min(2)
}

/// Whole seconds of a time, none of a negative one.
fn seconds(ns: i64) -> i64 {
    ns.max(0) / SECOND
}

fn shift(halvings: i64) -> u32 {
    u32::try_from(halvings).unwrap_or(u32::MAX)
}
