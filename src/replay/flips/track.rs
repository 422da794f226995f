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

/// One of the things that counters which decay at the same times may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guess<const N: usize> {
    /// The tick of their last decay (`wakee_flip_decay_ts`): from and to, in nanoseconds of the trace.
    ts: (i64, i64),
    flips: [Span; N],
    past: Past,
    /// They have not decayed since they were last copied: relatives have the tick in common.
    inherited: bool,
    /// The latest that the tick which relatives have in common can have been, if this guess is right.
    origin_to: i64,
}

/// How counters decayed since the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Past {
    Never,
    /// At one wakeup, a second having passed.
    Once,
    /// At one wakeup, several seconds having passed: *loop* halves more than once then.
    AtOnce,
    More,
}

impl Past {
    fn then(self, seconds: i64) -> Self {
        match (self, seconds) {
            (past, 0) => past,
            (Past::Never, 1) => Past::Once,
            (Past::Never, _) => Past::AtOnce,
            _ => Past::More,
        }
    }
}

impl<const N: usize> Guess<N> {
    fn merged(self, other: Self) -> Self {
        let pairs = std::array::from_fn(|at| self.flips[at].hull(other.flips[at]));
        Self {
            ts: (self.ts.0.min(other.ts.0), self.ts.1.max(other.ts.1)),
            flips: pairs,
            past: self.past.max(other.past),
            inherited: self.inherited && other.inherited,
            origin_to: self.origin_to.max(other.origin_to),
        }
    }

    /// Whether a decay that it holds for true may have been after that.
    fn decayed_since(&self, since: i64) -> bool {
        self.past > Past::Never && self.ts.1 >= since
    }

    fn width(&self) -> u32 {
        self.flips
            .iter()
            .map(|span| span.width())
            .max()
            .unwrap_or(0)
    }

    /// Whether another guess of a decay that may have come at any of several wakeups is worth no place of its own: exact
    /// values are kept apart, since a probe tells which was right.
    fn goes_on_as(&self, new: &Self) -> bool {
        let inexact = self.width() > 1 || new.width() > 1;
        self.past == new.past && (inexact || self.flips == new.flips)
    }

    /// Whether it has the values of another among its own, at times that overlap.
    fn takes_in(&self, other: &Self) -> bool {
        let values = self.flips.iter().zip(&other.flips);
        let mut within = values.map(|(all, one)| all.lo <= one.lo && one.hi <= all.hi);
        let overlap = self.ts.0 <= other.ts.1 && other.ts.0 <= self.ts.1;
        overlap && self.past == other.past && within.all(|within| within)
    }

    /// How much less a merged guess says: values first, then time.
    fn merging_costs(&self, other: &Self) -> (u32, i64) {
        let width = self.width().max(other.width());
        let pairs = self.flips.iter().zip(&other.flips);
        let merged = pairs.map(|(mine, theirs)| mine.hull(*theirs).width());
        let merged = merged.max().unwrap_or(0);
        let lasting = |(from, to): (i64, i64)| to.saturating_sub(from);
        let all = (self.ts.0.min(other.ts.0), self.ts.1.max(other.ts.1));
        let gap = lasting(all).saturating_sub(lasting(self.ts));
        let gap = gap.saturating_sub(lasting(other.ts));
        (merged.saturating_sub(width), gap)
    }
}

/// What the kernel's own counter says of another that was its like when the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    Equal,
    /// Equal until the first decay, and never above after it: *zero*, if the kernel halves.
    ZeroOfHalve,
    /// Equal until the first decay, and never below after it: *halve*, if the kernel clears.
    HalveOfZero,
    /// Equal until the first decay. Equal after it too if one second had passed, else not above: *loop* decays for the
    /// second time no later than *halve*.
    LoopOfHalve,
    /// Equal until the first decay.
    LoopOfZero,
}

impl Likeness {
    /// What a counter is to the kernel's. Of all decays the first is at the same wakeup.
    pub fn of(policy: Decay, kernel: Decay) -> Self {
        match (policy, kernel) {
            (Decay::Zero, Decay::Halve) => Self::ZeroOfHalve,
            (Decay::Halve, Decay::Zero) => Self::HalveOfZero,
            (Decay::Loop, Decay::Halve) => Self::LoopOfHalve,
            (Decay::Loop, _) => Self::LoopOfZero,
            _ => Self::Equal,
        }
    }

    /// The values that it may have beside one of the kernel's.
    fn allows(self, past: Past, value: u32) -> Span {
        let equal = Span::exactly(value);
        let below = Span { lo: 0, hi: value };
        match (self, past) {
            (Self::Equal, _) | (_, Past::Never) => equal,
            (Self::ZeroOfHalve, _) => below,
            (Self::HalveOfZero, _) => Span {
                lo: value,
                hi: u32::MAX,
            },
            (Self::LoopOfHalve, Past::Once) => equal,
            (Self::LoopOfHalve, Past::AtOnce) => below,
            (Self::LoopOfHalve | Self::LoopOfZero, _) => Span::UNKNOWN,
        }
    }
}

/// Counters that decay at the same times, each by a rule of its own: *zero* and *halve* set their time alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track<const N: usize> {
    /// Every value that each may have.
    spans: [Span; N],
    decays: [Decay; N],
    guesses: [Guess<N>; GUESSES],
    len: u8,
    /// Flips since then that all guesses are yet to be given, least and most: a busy waker's are seldom looked at.
    added: (u32, u32),
    /// Wakeups since then that are yet to be gone through.
    quiet: Option<Quiet>,
    /// Each was known to within 1 at some time.
    narrow: [bool; N],
    /// The earliest time at which they may have decayed last.
    oldest: i64,
    /// The number of what it inherited, or left to others: tasks of the same number have decayed last at the same tick, as
    /// far as their guesses are inherited. 0 stands for none.
    origin: u32,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The tick at which the count of ticks that it saw began: from and to.
    pub tick: (i64, i64),
    /// The latest such tick of the waker's wakeup before.
    pub before: i64,
    /// How long a tick is.
    pub tick_ns: i64,
    /// No earlier did anyone of the same origin decay last, if he has not since.
    pub inherited_from: i64,
    pub flip: Flip,
    /// Whether it counts; if not, the kernel may have passed it over.
    pub sure: bool,
}

/// A busy waker makes thousands of wakeups at which it may have decayed, and none of them says anything new as long as it
/// wakes the same task: they are gone through at once, when that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quiet {
    /// The last wakeup that was gone through.
    last: Wake,
    /// Up to before this tick no further guess can decay, ...
    due: i64,
    /// ... and up to this one none must have decayed.
    must: i64,
    /// The ticks of the wakeups since: the earliest and the latest lower bound, and the latest upper one.
    since: Option<(i64, i64, i64)>,
}

impl Quiet {
    /// Whether a wakeup of the same task says nothing that the last one did not.
    fn covers(&self, wake: &Wake) -> bool {
        let Wake {
            tick: (from, to), ..
        } = *wake;
        let Wake {
            inherited_from,
            sure,
            ..
        } = self.last;
        let alike = (inherited_from, sure) == (wake.inherited_from, wake.sure);
        alike && to < self.due && from <= self.must
    }

    fn add(&mut self, (from, to): (i64, i64)) {
        let (earliest, latest, most) = self.since.unwrap_or((from, from, to));
        self.since = Some((earliest.min(from), latest.max(from), most.max(to)));
    }
}

/// What a guess becomes at a wakeup: each part is possible.
struct Parts<const N: usize> {
    /// *loop* ran out of flips before its time caught up.
    stalled: Option<Guess<N>>,
    stays: Option<Guess<N>>,
    /// After one second, and after several.
    decayed: [Option<Guess<N>>; 2],
}

impl<const N: usize> Parts<N> {
    fn staying(guess: Option<Guess<N>>) -> Self {
        Self {
            stalled: None,
            stays: guess,
            decayed: [None; 2],
        }
    }
}

impl<const N: usize> Track<N> {
    /// Nothing is known but that the task made no wakeup that counts after `since`.
    pub fn unknown(decays: [Decay; N], since: i64) -> Self {
        let guess = Guess {
            ts: (i64::MIN, since),
            flips: [Span::UNKNOWN; N],
            past: Past::Never,
            inherited: false,
            origin_to: i64::MAX,
        };
        Self {
            spans: guess.flips,
            decays,
            guesses: [guess; GUESSES],
            len: 1,
            added: (0, 0),
            quiet: None,
            narrow: [false; N],
            oldest: i64::MIN,
            origin: 0,
        }
    }

    /// One of the counters, on its own.
    pub fn only(&mut self, place: usize) -> Track<1> {
        self.settle();
        let one = |guess: &Guess<N>| Guess {
            ts: guess.ts,
            flips: [guess.flips[place]],
            past: guess.past,
            inherited: guess.inherited,
            origin_to: guess.origin_to,
        };
        Track {
            spans: [self.spans[place]],
            decays: [self.decays[place]],
            guesses: self.guesses.each_ref().map(one),
            len: self.len,
            added: (0, 0),
            quiet: None,
            narrow: [self.narrow[place]],
            oldest: self.oldest,
            origin: self.origin,
        }
    }

    #[inline]
    pub fn origin(&self) -> u32 {
        self.origin
    }

    /// The earliest tick of the last decay, where that is certainly the one which relatives have too.
    pub fn inherited_from(&mut self) -> Option<i64> {
        self.settle();
        let all = self.guesses().iter().all(|guess| guess.inherited);
        (self.origin > 0 && all).then_some(self.oldest)
    }

    /// The tick of the last decay is that of all who have this number.
    pub fn share(&mut self, origin: u32) {
        self.settle();
        self.origin = origin;
        let guesses = self.guesses.iter_mut().take(usize::from(self.len));
        guesses.for_each(|guess| {
            guess.inherited = true;
            guess.origin_to = guess.ts.1;
        });
    }

    /// Who it shares anything with is not known any more.
    pub fn share_nothing(&mut self) {
        self.settle();
        self.origin = 0;
        let guesses = self.guesses.iter_mut().take(usize::from(self.len));
        guesses.for_each(|guess| {
            guess.inherited = false;
            guess.origin_to = i64::MAX;
        });
    }

    /// Whether they may have decayed since then.
    pub fn may_have_decayed_since(&mut self, since: i64) -> bool {
        self.settle();
        let mut guesses = self.guesses().iter();
        guesses.any(|guess| guess.decayed_since(since))
    }

    /// What relatives showed: what they have in common did not decay before.
    #[inline]
    pub fn hear(&mut self, from: i64) {
        if self.origin > 0 && (from > self.oldest || self.len > 1) {
            self.learn_from_relatives(from);
        }
    }

    #[inline(never)]
    fn learn_from_relatives(&mut self, from: i64) {
        self.settle();
        let refuted = |guess: &Guess<N>| guess.origin_to < from;
        let mut kept = 0;
        for place in 0..usize::from(self.len) {
            let mut guess = self.guesses[place];
            if !refuted(&guess) {
                if guess.inherited {
                    guess.ts.0 = guess.ts.0.max(from);
                }
                self.guesses[kept] = guess;
                kept += 1;
            }
        }
        // All are refuted if the kernel does otherwise than is thought: then nothing is learnt.
        if kept > 0 {
            self.len = kept as u8;
            self.summarize();
        }
    }

    #[inline]
    fn guesses(&self) -> &[Guess<N>] {
        self.guesses
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Every value that each may have.
    #[inline]
    pub fn spans(&self) -> [Span; N] {
        self.spans
    }

    /// Whether each was known to within 1 at some time.
    #[inline]
    pub fn narrow(&self) -> [bool; N] {
        self.narrow
    }

    /// The task wakes another: the counters decay if their time has come, then the flip counts.
    #[inline]
    pub fn wake(&mut self, wake: Wake) {
        // Up to a second after they last decayed they never do.
        if self.is_due(&wake) {
            if let Some(quiet) = &mut self.quiet
                && wake.flip == Flip::No
                && self.added.1 == 0
                && quiet.covers(&wake)
            {
                return quiet.add(wake.tick);
            }
            self.hear(wake.inherited_from);
            if self.is_due(&wake) {
                self.decay(wake);
            }
        }
        if wake.flip != Flip::No {
            let (least, most) = wake.flip.bounds();
            self.added.0 = self.added.0.saturating_add(least);
            self.added.1 = self.added.1.saturating_add(most);
            for span in &mut self.spans {
                *span = span.plus(least, most);
            }
        }
        self.note_width();
    }

    /// Goes through the wakeups that were put off, and gives the guesses the flips that were added.
    #[inline]
    fn settle(&mut self) {
        if let Some(quiet) = self.quiet.take()
            && let Some((earliest, latest, most)) = quiet.since
        {
            let all = Wake {
                tick: (earliest, most),
                before: quiet.last.tick.1,
                ..quiet.last
            };
            self.go_through(&all, latest);
        }
        let (least, most) = std::mem::take(&mut self.added);
        if most > 0 {
            let guesses = self.guesses.iter_mut().take(usize::from(self.len));
            let flips = guesses.flat_map(|guess| &mut guess.flips);
            flips.for_each(|span| *span = span.plus(least, most));
        }
    }

    /// Whether they may decay now.
    #[inline]
    fn is_due(&self, wake: &Wake) -> bool {
        wake.tick.1.saturating_sub(self.oldest) >= SECOND + wake.tick_ns
    }

    #[inline]
    fn note_width(&mut self) {
        for (narrow, span) in self.narrow.iter_mut().zip(self.spans) {
            *narrow |= span.width() <= 1;
        }
    }

    fn decay(&mut self, wake: Wake) {
        self.settle();
        let (due, must) = self.go_through(&wake, wake.tick.0);
        // *loop* does not set its time to that of the wakeup.
        let sets_time = self.decays.first() != Some(&Decay::Loop);
        self.quiet = sets_time.then_some(Quiet {
            last: wake,
            due,
            must,
            since: None,
        });
    }

    /// What does not decay at a wakeup did not up to the tick `latest`. Returns from which tick on more can decay, and up to
    /// which what stays may do so.
    fn go_through(&mut self, wake: &Wake, latest: i64) -> (i64, i64) {
        let wake = *wake;
        // What decays now may do so again, in whatever guess it ends up.
        let mut due = later(wake.tick.0, 1).saturating_add(wake.tick_ns);
        let mut must = i64::MAX;
        let (mut stalled, mut decayed) = (None, [None; 2]);
        let mut kept = 0;
        for place in 0..usize::from(self.len) {
            let guess = &self.guesses[place];
            if passed(guess, &wake).1 < SECOND + wake.tick_ns {
                due = due.min(later(guess.ts.0, 1).saturating_add(wake.tick_ns));
                if kept < place {
                    self.guesses[kept] = self.guesses[place];
                }
                kept += 1;
                continue;
            }
            let guess = *guess;
            let parts = match self.decays.first() {
                Some(Decay::Loop) => looped(guess, &wake, latest),
                _ => once(guess, self.decays, &wake, latest),
            };
            stalled = merged(stalled, parts.stalled);
            for (all, part) in decayed.iter_mut().zip(parts.decayed) {
                *all = merged(*all, part);
            }
            let stays = if wake.sure { parts.stays } else { Some(guess) };
            if let Some(stays) = stays {
                must = must.min(later(stays.ts.1, 1));
                self.guesses[kept] = stays;
                kept += 1;
            }
        }
        self.len = kept as u8;
        for new in decayed.into_iter().flatten() {
            self.add_decayed(new, wake.before);
        }
        if let Some(stalled) = stalled {
            self.add_stalled(stalled);
        }
        self.summarize();
        (due, must)
    }

    /// Adds what stalled, to what may have stalled before: at every wakeup there is one more such guess, which says
    /// nothing new.
    fn add_stalled(&mut self, new: Guess<N>) {
        let mut guesses = self.guesses.iter_mut().take(usize::from(self.len));
        match guesses.find(|guess| guess.takes_in(&new)) {
            Some(guess) => *guess = guess.merged(new),
            None => self.add(new),
        }
    }

    /// Adds what has decayed now, to the same decay one wakeup earlier if there was one.
    fn add_decayed(&mut self, new: Guess<N>, before: i64) {
        let guesses = self.guesses.iter_mut().take(usize::from(self.len)).rev();
        let mut same = guesses.filter(|guess| guess.ts.1 >= before && guess.goes_on_as(&new));
        match same.next() {
            Some(guess) => *guess = guess.merged(new),
            None => self.add(new),
        }
    }

    fn add(&mut self, new: Guess<N>) {
        let len = usize::from(self.len);
        match self.guesses.get_mut(len) {
            Some(free) => {
                *free = new;
                self.len += 1;
            }
            None => self.merge_alike(new),
        }
    }

    /// Makes room for one guess more: merges the two that are most alike.
    #[inline(never)]
    fn merge_alike(&mut self, new: Guess<N>) {
        let mut best = (self.guesses[0].merging_costs(&new), 0, GUESSES);
        for b in 0..GUESSES {
            for a in 0..b {
                let costs = self.guesses[a].merging_costs(&self.guesses[b]);
                best = best.min((costs, a, b));
            }
            best = best.min((self.guesses[b].merging_costs(&new), b, GUESSES));
        }
        let (_, a, b) = best;
        if b == GUESSES {
            self.guesses[a] = self.guesses[a].merged(new);
        } else {
            self.guesses[a] = self.guesses[a].merged(self.guesses[b]);
            self.guesses[b] = new;
        }
    }

    fn keep(&mut self, kept: &[Guess<N>]) {
        for (to, from) in self.guesses.iter_mut().zip(kept) {
            *to = *from;
        }
        self.len = kept.len().min(GUESSES) as u8;
        self.summarize();
    }

    /// Brings what is said of all guesses in line with them.
    fn summarize(&mut self) {
        let Some(first) = self.guesses().first() else {
            return;
        };
        let (mut spans, mut oldest) = (first.flips, first.ts.0);
        for guess in self.guesses().iter().skip(1) {
            oldest = oldest.min(guess.ts.0);
            for (all, span) in spans.iter_mut().zip(guess.flips) {
                *all = all.hull(span);
            }
        }
        self.spans = spans;
        self.oldest = oldest;
    }

    /// What they may have been at some time since then: up to `flips` flips came later, and what decayed had not yet.
    pub fn go_back(&mut self, since: i64, flips: u32) {
        self.settle();
        let decays = self.decays;
        for guess in self.guesses.iter_mut().take(usize::from(self.len)) {
            let decayed = guess.decayed_since(since);
            if decayed {
                guess.ts.0 = i64::MIN;
            }
            for (span, decay) in guess.flips.iter_mut().zip(decays) {
                span.lo = span.lo.saturating_sub(flips);
                if decayed {
                    span.hi = match decay {
                        Decay::Halve => span.hi.saturating_mul(2).saturating_add(1),
                        Decay::Zero | Decay::Loop => u32::MAX,
                    };
                }
            }
        }
        self.summarize();
    }

    /// The kernel's own counter has this value now. Guesses that this refutes end. False if it refutes all: then only
    /// what equals the kernel's is kept.
    pub fn observe(&mut self, value: u32, likeness: [Likeness; N]) -> bool {
        self.settle();
        let mut kept: SmallVec<[Guess<N>; GUESSES]> = SmallVec::new();
        for guess in self.guesses() {
            let mut guess = *guess;
            for (span, like) in guess.flips.iter_mut().zip(likeness) {
                *span = span.meet(like.allows(guess.past, value));
            }
            if guess.flips.iter().all(|span| span.lo <= span.hi) {
                kept.push(guess);
            }
        }
        let right = !kept.is_empty();
        if right {
            self.keep(&kept);
        } else {
            self.start_again(value, likeness);
        }
        self.note_width();
        right
    }

    /// No guess was right.
    #[cold]
    fn start_again(&mut self, value: u32, likeness: [Likeness; N]) {
        let all = self.guesses().iter().copied().reduce(Guess::merged);
        let Some(mut all) = all else {
            return;
        };
        for (span, like) in all.flips.iter_mut().zip(likeness) {
            *span = like.allows(Past::More, value);
        }
        self.keep(&[all]);
    }
}

fn merged<const N: usize>(one: Option<Guess<N>>, other: Option<Guess<N>>) -> Option<Guess<N>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.merged(other)),
        (one, other) => one.or(other),
    }
}

/// *zero* and *halve*: at most one decay, and its tick becomes that of the wakeup.
fn once<const N: usize>(guess: Guess<N>, decays: [Decay; N], wake: &Wake, latest: i64) -> Parts<N> {
    let mut flips = guess.flips;
    for (span, decay) in flips.iter_mut().zip(decays) {
        *span = match decay {
            Decay::Zero => Span::exactly(0),
            Decay::Halve | Decay::Loop => span.halved(1, 1),
        };
    }
    let decayed = Guess {
        ts: (earliest_decay(&guess, wake), wake.tick.1),
        flips,
        past: guess.past.then(1),
        inherited: false,
        origin_to: origin_to(&guess, wake),
    };
    Parts {
        decayed: [Some(decayed), None],
        ..Parts::staying(staying(guess, wake, latest))
    }
}

/// The least and the most time between the last decay's tick and the wakeup's. The truth is a whole number of ticks: one
/// more than `HZ` of them if it is more than a second.
fn passed<const N: usize>(guess: &Guess<N>, wake: &Wake) -> (i64, i64) {
    let (from, to) = guess.ts;
    (
        wake.tick.0.saturating_sub(to),
        wake.tick.1.saturating_sub(from),
    )
}

/// A decay comes at the first tick after a second.
fn earliest_decay<const N: usize>(guess: &Guess<N>, wake: &Wake) -> i64 {
    later(guess.ts.0, 1)
        .saturating_add(wake.tick_ns)
        .max(wake.tick.0)
        .min(wake.tick.1)
}

/// What decays had its tick, which relatives may have in common, more than a second before.
fn origin_to<const N: usize>(guess: &Guess<N>, wake: &Wake) -> i64 {
    let due = wake.tick.1.saturating_sub(SECOND + wake.tick_ns);
    match guess.inherited {
        true => guess.origin_to.min(due),
        false => guess.origin_to,
    }
}

/// What remains if it does not decay: then it last did so no more than a second before.
fn staying<const N: usize>(guess: Guess<N>, wake: &Wake, latest: i64) -> Option<Guess<N>> {
    let from = guess.ts.0.max(latest.saturating_sub(SECOND));
    (passed(&guess, wake).0 <= SECOND).then_some(Guess {
        ts: (from, guess.ts.1),
        ..guess
    })
}

/// *loop*: once for every second, the time moving on with each, as long as there are flips.
fn looped<const N: usize>(guess: Guess<N>, wake: &Wake, latest: i64) -> Parts<N> {
    let (shortest, longest) = passed(&guess, wake);
    let most = seconds(longest.saturating_sub(wake.tick_ns));
    if most == 0 {
        return Parts::staying(Some(guess));
    }
    let least = seconds(shortest.saturating_sub(1));
    let stays = staying(guess, wake, latest).filter(|_| least == 0);
    let one = (least <= 1)
        .then(|| after_seconds(guess, 1, 1, wake))
        .flatten();
    let more = (most > 1)
        .then(|| after_seconds(guess, least.max(2), most, wake))
        .flatten();
    let steps = halvings(guess.flips.iter().map(|span| span.lo).min().unwrap_or(0));
    let last = halvings(guess.flips.iter().map(|span| span.hi).max().unwrap_or(0));
    let (from, to) = wake.tick;
    let stalled = (steps < most).then(|| Guess {
        ts: (
            later(guess.ts.0, steps).max(from.saturating_sub(LONG_BITS * SECOND)),
            later(guess.ts.1, most.min(last)).min(to.saturating_sub(SECOND + wake.tick_ns)),
        ),
        flips: [Span::exactly(0); N],
        past: guess.past.then(most),
        inherited: false,
        origin_to: origin_to(&guess, wake),
    });
    let cleared = Guess {
        ts: wake.tick,
        flips: [Span::exactly(0); N],
        past: guess.past.then(LONG_BITS),
        inherited: false,
        origin_to: origin_to(&guess, wake),
    };
    if shortest > LONG_BITS * SECOND {
        return Parts {
            decayed: [None, Some(cleared)],
            ..Parts::staying(None)
        };
    }
    let may_clear = (longest >= LONG_BITS * SECOND + wake.tick_ns).then_some(cleared);
    Parts {
        stalled,
        stays,
        decayed: [one, merged(more, may_clear)],
    }
}

/// After `least` to `most` halvings, none of which found no flips left; `None` if there were too few for that.
fn after_seconds<const N: usize>(
    guess: Guess<N>,
    least: i64,
    most: i64,
    wake: &Wake,
) -> Option<Guess<N>> {
    let enough = guess.flips.iter().any(|span| halvings(span.hi) >= least);
    enough.then(|| Guess {
        ts: (
            later(guess.ts.0, least).max(wake.tick.0.saturating_sub(SECOND)),
            later(guess.ts.1, most).min(wake.tick.1),
        ),
        flips: guess
            .flips
            .map(|span| span.halved(shift(least), shift(most))),
        past: guess.past.then(least),
        inherited: false,
        origin_to: origin_to(&guess, wake),
    })
}

/// How often flips can be halved until there are none.
fn halvings(flips: u32) -> i64 {
    i64::from(u32::BITS - flips.leading_zeros())
}

fn later(ts: i64, seconds: i64) -> i64 {
    ts.saturating_add(seconds.saturating_mul(SECOND))
}

/// Whole seconds of a time, none of a negative one.
fn seconds(ns: i64) -> i64 {
    ns.max(0) / SECOND
}

fn shift(halvings: i64) -> u32 {
    u32::try_from(halvings).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
