//! Keeps every task's counters, step by step, and decides.

use std::collections::VecDeque;
use std::sync::Arc;

use super::clock::Clock;
use super::rule::Span;
use super::setup::Setup;
use super::track::{Decay, Flip, Likeness, Track, Wake};
use super::{Asked, Charged, FlipStep, FlipWake};
use crate::replay::rows::{FlipRow, TaskId};
use crate::replay::words::{Decision, FlipPolicy};

/// The decays, in the order of the tracks.
const DECAYS: [Decay; 3] = [Decay::Zero, Decay::Halve, Decay::Loop];

/// How long before `sched_process_fork` the kernel may have copied the parent's counters (`dup_task_struct` comes early
/// in `copy_process`): interrupts may wake others meanwhile in the parent's name. It was up to 30 ms in an emulated guest.
const COPY_NS: i64 = 50_000_000;
/// The same for wakeups that the parent makes itself, which a fork does but rarely and only by the way.
const CALL_NS: i64 = 1_000_000;

/// Stands for a last wakee that is not known.
const ANYONE: u32 = u32::MAX;

/// What is known of one task.
#[derive(Debug, Clone, PartialEq)]
struct State {
    /// Of the loss after which this was last known; an older one than the follower's is void.
    epoch: u32,
    /// `last_wakee`: one of these two.
    last: [u32; 2],
    /// When it last woke another, and whether it did so itself, not an interrupt in its name.
    woke_ns: i64,
    woke_in_task: bool,
    /// The latest tick that may have been the last then.
    woke_tick: i64,
    /// A probe has shown its flips since.
    shown: bool,
    /// *zero* and *halve*, and *loop*. They take in every value that probes show.
    both: Track<2>,
    looped: Track<1>,
    /// The kernel's decay, set by the first probed value alone: the replay is checked against the later ones. None before
    /// there is one.
    free: Option<Box<Track<1>>>,
}

impl State {
    fn unknown(epoch: u32, since: i64) -> Self {
        Self {
            epoch,
            last: [ANYONE; 2],
            woke_ns: i64::MIN,
            woke_in_task: true,
            woke_tick: i64::MIN,
            shown: false,
            both: Track::unknown([Decay::Zero, Decay::Halve], since),
            looped: Track::unknown([Decay::Loop], since),
            free: None,
        }
    }

    /// Whether waking `wakee` counts as a flip.
    fn flips_to(&self, wakee: u32) -> Flip {
        let [a, b] = self.last;
        if a == ANYONE || (a != b && (a == wakee || b == wakee)) {
            Flip::Perhaps
        } else if a == wakee {
            Flip::No
        } else {
            Flip::Yes
        }
    }

    /// What the counters may be, by decay.
    fn spans(&self) -> [Span; 3] {
        let ([zero, halve], [looped]) = (self.both.spans(), self.looped.spans());
        [zero, halve, looped]
    }

    fn narrow(&self) -> [bool; 3] {
        let ([zero, halve], [looped]) = (self.both.narrow(), self.looped.narrow());
        [zero, halve, looped]
    }

    /// This is the first value of its own that a probe shows.
    fn anchor(&mut self, kernel: Decay, value: u32) {
        let mut free = match self.free.take() {
            // Its parent's.
            Some(free) => free,
            // Up to here nothing that a probe showed was taken in.
            None => Box::new(self.both.only(kernel as usize)),
        };
        free.observe(value, [Likeness::Equal]);
        self.free = Some(free);
    }

    /// The kernel's own counter has this value. False if that is against all that was thought.
    fn take_in(&mut self, value: u32, likeness: &[Likeness; 3]) -> bool {
        self.shown = true;
        let [zero, halve, looped] = *likeness;
        let right = self.both.observe(value, [zero, halve]);
        self.looped.observe(value, [looped]) && right
    }

    /// Whether it woke another so short a time before `now` that a fork which ends then may have begun before.
    fn woke_lately(&self, now: i64) -> bool {
        let within = if self.woke_in_task { CALL_NS } else { COPY_NS };
        now.saturating_sub(self.woke_ns) <= within
    }

    /// What it may have been at some time since then: up to `flips` of its flips came later.
    fn go_back(&mut self, since: i64, flips: u32) {
        self.both.go_back(since, flips);
        self.looped.go_back(since, flips);
        if let Some(free) = &mut self.free {
            free.go_back(since, flips);
        }
        if flips > 0 {
            self.last = [ANYONE; 2];
        }
    }

    /// `wakee` is the last wakee from now on, or, if not `sure`, may be.
    fn note_wakee(&mut self, wakee: u32, sure: bool) {
        let [a, b] = self.last;
        self.last = if sure {
            [wakee; 2]
        } else if a == ANYONE || a == wakee || b == wakee {
            [a, b]
        } else if a == b {
            [a, wakee]
        } else {
            [ANYONE; 2]
        };
    }
}

/// How a probed value compares with what was followed up to then.
#[derive(Debug, Clone, Copy, Default)]
struct Check {
    inside: Option<bool>,
    narrow: Option<bool>,
    free_inside: Option<bool>,
}

/// What is known of all tasks.
#[derive(Debug, Clone, PartialEq)]
struct States {
    tasks: Vec<State>,
    /// Idle tasks, by dense number of their CPU.
    idle: Vec<State>,
    /// Stands for a task that no event has introduced.
    nobody: Box<State>,
    epoch: u32,
    /// The latest instant up to which events were missing; the trace's start if none were.
    since: i64,
    /// Whether new tasks are announced.
    forks: bool,
}

impl States {
    fn new(epoch: u32, setup: Option<&Setup>) -> Self {
        let since = setup.map_or(i64::MIN, |setup| setup.start_ns);
        Self {
            tasks: Vec::new(),
            idle: setup.map_or(Vec::new(), |setup| {
                vec![State::unknown(epoch, since); setup.factors.len()]
            }),
            nobody: Box::new(State::unknown(epoch, since)),
            epoch,
            since,
            forks: setup.is_some_and(|setup| setup.forks_recorded),
        }
    }

    /// A task's state, as it is after the last loss. A task that is first met at `now` was not seen to wake before.
    #[inline]
    fn task(&mut self, task: TaskId, now: i64) -> Option<&mut State> {
        let place = task.0 as usize;
        if self
            .tasks
            .get(place)
            .is_none_or(|state| state.epoch != self.epoch)
        {
            self.meet(place, now);
        }
        self.tasks.get_mut(place)
    }

    #[cold]
    fn meet(&mut self, place: usize, now: i64) {
        if place >= self.tasks.len() {
            // Epoch 0: what was never met is void.
            let void = State::unknown(0, i64::MIN);
            self.tasks.resize(place + 1, void);
        }
        // Without fork events it may be a child whose counters are its parent's, however fresh those are.
        let since = if self.forks { self.since } else { now };
        if let Some(state) = self.tasks.get_mut(place) {
            *state = State::unknown(self.epoch, since);
        }
    }

    /// Whom a wakeup is charged to.
    #[inline]
    fn charged(&mut self, whom: Charged, now: i64) -> Option<&mut State> {
        let unknown = match whom {
            Charged::Task(task) => return self.task(task, now),
            Charged::Idle(cpu) if cpu < self.idle.len() => return self.idle.get_mut(cpu),
            Charged::Idle(_) | Charged::Unknown => State::unknown(self.epoch, now),
        };
        *self.nobody = unknown;
        Some(&mut self.nobody)
    }
}

/// Follows all tasks' flips.
#[derive(Debug, Clone, PartialEq)]
pub struct Follower {
    setup: Option<Arc<Setup>>,
    /// Those of the setup, of this thread's own: what lies beside the setup in memory is written by the replay's thread.
    factors: Vec<Option<u32>>,
    clock: Clock,
    /// What each decay's counter is to the kernel's.
    likeness: [Likeness; 3],
    kernel: Decay,
    known: States,
    recent: Recent,
    judged: Cache,
    /// By number: since when whoever shares an origin cannot have decayed before. The first stands for none.
    origins: Vec<i64>,
}

impl Default for Follower {
    fn default() -> Self {
        let kernel = Decay::Halve;
        Self {
            setup: None,
            factors: Vec::new(),
            clock: Clock::default(),
            likeness: DECAYS.map(|decay| Likeness::of(decay, kernel)),
            kernel,
            known: States::new(1, None),
            recent: Recent::default(),
            judged: Cache::default(),
            origins: vec![i64::MIN],
        }
    }
}

impl Follower {
    /// Takes the next step; a row for each wakeup.
    pub fn take(&mut self, step: &FlipStep) -> Option<FlipRow> {
        match step {
            FlipStep::Begin(setup) => self.begin(setup),
            FlipStep::Wake(wake) => return self.wake(wake),
            FlipStep::Fork { parent, child, now } => self.fork(*parent, *child, *now),
            FlipStep::Shown {
                task,
                parent,
                flips,
                now,
            } => self.show(*task, *parent, *flips, *now),
            FlipStep::Forget { task, now } => self.forget(*task, *now),
            FlipStep::Lost {
                cpu,
                until_ns,
                elsewhere,
            } => self.lose(*cpu, *until_ns, elsewhere),
        }
        None
    }

    fn begin(&mut self, setup: &Arc<Setup>) {
        let kernel = setup.kernel.decay();
        self.likeness = DECAYS.map(|decay| Likeness::of(decay, kernel));
        self.kernel = kernel;
        self.clock = Clock::new(setup);
        self.known = States::new(1, Some(setup));
        self.factors.clone_from(&setup.factors);
        self.setup = Some(setup.clone());
    }

    fn fork(&mut self, parent: Option<TaskId>, child: TaskId, now: i64) {
        let copied = now.saturating_sub(COPY_NS + self.clock.lag_ns());
        let mut inherited = match parent.and_then(|parent| self.known.task(parent, now)) {
            Some(parent) => {
                leave_origin(parent, copied, &mut self.origins);
                parent.clone()
            }
            None => State::unknown(self.known.epoch, self.known.since),
        };
        if let Some(parent) = parent.filter(|_| inherited.woke_lately(now)) {
            let flips = self.recent.flips_of(parent, now);
            inherited.go_back(copied, flips);
        }
        if inherited.both.may_have_decayed_since(copied) {
            inherited.both.share_nothing();
        }
        if let Some(child) = self.known.task(child, now) {
            *child = inherited;
        }
    }

    fn forget(&mut self, task: TaskId, now: i64) {
        let unknown = State::unknown(self.known.epoch, now);
        if let Some(state) = self.known.task(task, now) {
            *state = unknown;
        }
    }

    fn lose(&mut self, cpu: usize, until_ns: i64, elsewhere: &[TaskId]) {
        let known = &mut self.known;
        let (before, epoch) = (known.epoch, known.epoch.wrapping_add(1).max(1));
        known.epoch = epoch;
        known.since = known.since.max(until_ns);
        for task in elsewhere {
            let state = known.tasks.get_mut(task.0 as usize);
            if let Some(state) = state.filter(|state| state.epoch == before) {
                state.epoch = epoch;
            }
        }
        if let Some(idle) = known.idle.get_mut(cpu) {
            *idle = State::unknown(0, until_ns);
        }
    }

    fn wake(&mut self, wake: &FlipWake) -> Option<FlipRow> {
        let (now, clock) = (wake.waking_ns, self.clock);
        let waker = self.known.charged(wake.waker, now)?;
        let origin = waker.both.origin() as usize;
        let mut flip = waker.flips_to(wake.wakee.0);
        if !wake.sure && flip == Flip::Yes {
            flip = Flip::Perhaps;
        }
        let tick = clock.tick(now, wake.chosen_ns, i64::from(wake.late_ns));
        let counted = Wake {
            tick,
            // What decays after a probe is told apart from what did before and passed its test.
            before: if waker.shown {
                i64::MAX
            } else {
                waker.woke_tick
            },
            tick_ns: clock.tick_ns(),
            inherited_from: self.origins.get(origin).copied().unwrap_or(i64::MIN),
            flip,
            sure: wake.sure,
        };
        waker.woke_ns = wake.chosen_ns;
        waker.woke_tick = tick.1;
        waker.woke_in_task = wake.in_task;
        waker.shown = false;
        waker.both.wake(counted);
        waker.looped.wake(counted);
        if let Some(free) = &mut waker.free {
            free.wake(counted);
        }
        waker.note_wakee(wake.wakee.0, wake.sure);
        let of_waker = Known::of(waker);
        if let (Charged::Task(task), Flip::Yes | Flip::Perhaps) = (wake.waker, flip) {
            self.recent.note(task, now, wake.in_task);
        }
        let check = self.observe(wake);
        let of_wakee = Known::of(self.known.task(wake.wakee, now)?);
        self.row(wake, flip, [of_waker, of_wakee], check)
    }

    /// Takes in what a probe shows of the wakee.
    fn observe(&mut self, wake: &FlipWake) -> Check {
        let Some(value) = wake.probed else {
            return Check::default();
        };
        let kernel = self.kernel;
        let likeness = self.likeness;
        let Some(wakee) = self.known.task(wake.wakee, wake.waking_ns) else {
            return Check::default();
        };
        let origin = wakee.both.origin() as usize;
        if let Some(from) = self.origins.get(origin) {
            wakee.both.hear(*from);
        }
        let mut check = Check::default();
        if let Some(free) = &wakee.free {
            let followed = wakee.spans()[kernel as usize];
            check = Check {
                inside: Some(followed.contains(value)),
                narrow: Some(followed.width() <= 1),
                free_inside: Some(free.spans()[0].contains(value)),
            };
        } else {
            wakee.anchor(kernel, value);
        }
        if !wakee.take_in(value, &likeness) {
            // Ticks, perhaps, are not where they seemed to be.
            self.clock.forget_phase();
        }
        // That it has not decayed since it was forked is seen of all who have its origin.
        if let Some(from) = wakee.both.inherited_from()
            && let Some(origin) = self.origins.get_mut(wakee.both.origin() as usize)
        {
            *origin = from.max(*origin);
        }
        check
    }

    /// The kernel showed a value outside of any wakeup of the task.
    fn show(&mut self, task: TaskId, parent: Option<TaskId>, value: u32, now: i64) {
        let (kernel, likeness) = (self.kernel, self.likeness);
        let is_born = parent.is_some();
        // A child's value is that of its parent, unless that has woken another since it was copied.
        let parent = parent.and_then(|parent| self.known.task(parent, now));
        if let Some(parent) = parent.filter(|parent| !parent.woke_lately(now)) {
            if parent.free.is_none() {
                parent.anchor(kernel, value);
            }
            parent.take_in(value, &likeness);
        }
        let Some(state) = self.known.task(task, now) else {
            return;
        };
        if state.free.is_none() || is_born {
            state.anchor(kernel, value);
        }
        state.take_in(value, &likeness);
    }

    fn row(
        &mut self,
        wake: &FlipWake,
        flip: Flip,
        [waker, wakee]: [Known; 2],
        check: Check,
    ) -> Option<FlipRow> {
        let setup = self.setup.as_ref()?;
        let factor = self.factors.get(wake.waker_cpu).copied().flatten();
        let basis = Basis {
            waker,
            wakee,
            factor,
            asked: wake.asked,
        };
        let judged = self.judged.of(wake.wakee, &basis, setup.kernel);
        let kernel = self.kernel as usize;
        let of = |spans: &[Span; 3]| spans[kernel];
        Some(FlipRow {
            waking_ns: wake.waking_ns,
            waker: match wake.waker {
                Charged::Task(task) => Some(task),
                Charged::Idle(_) | Charged::Unknown => None,
            },
            waker_cpu: wake.waker_cpu_id,
            wakee: wake.wakee,
            chosen_cpu: wake.chosen_cpu,
            sure: wake.sure,
            flipped: match flip {
                Flip::No => Some(false),
                Flip::Yes => Some(true),
                Flip::Perhaps => None,
            },
            factor,
            decisions: judged.policies,
            kernel: judged.kernel,
            halved: judged.halved,
            doubled: judged.doubled,
            waker_flips: of(&waker.spans),
            wakee_flips: of(&wakee.spans),
            probed: wake.probed,
            probe_inside: check.inside,
            probe_narrow: check.narrow,
            free_inside: check.free_inside,
            pulled: wake.pulled,
            wakeups: 1,
            in_window: wake.in_window,
        })
    }
}

/// Gives a task that forks a number, under which it and its child have the tick of their last decay in common, unless it
/// has one already.
fn leave_origin(parent: &mut State, copied: i64, origins: &mut Vec<i64>) {
    let is_common = parent.both.inherited_from().is_some();
    if is_common || parent.both.may_have_decayed_since(copied) {
        return;
    }
    if let Ok(number) = u32::try_from(origins.len()) {
        origins.push(i64::MIN);
        parent.both.share(number);
    }
}

/// The latest flips of all tasks.
#[derive(Debug, Default, Clone, PartialEq)]
struct Recent(VecDeque<(TaskId, i64, bool)>);

/// Most flips that are remembered.
const RECENT: usize = 1024;

impl Recent {
    #[inline]
    fn note(&mut self, task: TaskId, now: i64, in_task: bool) {
        if self.0.len() >= RECENT {
            self.0.pop_front();
        }
        self.0.push_back((task, now, in_task));
    }

    /// How many flips of a task a fork that ends now may have seen in its parent after it copied the counters.
    fn flips_of(&self, task: TaskId, now: i64) -> u32 {
        let since = now.saturating_sub(COPY_NS);
        if self.0.len() >= RECENT && self.0.front().is_some_and(|(_, ts, _)| *ts > since) {
            return u32::MAX;
        }
        let within = |in_task: bool| if in_task { CALL_NS } else { COPY_NS };
        let recent = self.0.iter().rev().take_while(|(_, ts, _)| *ts >= since);
        let own = recent
            .filter(|(of, ts, in_task)| *of == task && now.saturating_sub(*ts) <= within(*in_task));
        own.count() as u32
    }
}

/// What decisions go by of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    spans: [Span; 3],
    narrow: [bool; 3],
}

impl Known {
    fn of(state: &State) -> Self {
        Self {
            spans: state.spans(),
            narrow: state.narrow(),
        }
    }
}

/// All that decisions go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Basis {
    waker: Known,
    wakee: Known,
    factor: Option<u32>,
    asked: Asked,
}

impl Basis {
    fn decide(&self, policy: FlipPolicy, factor: Option<u32>) -> Option<Decision> {
        let asked = match policy.rule() {
            super::Rule::Old => self.asked.old,
            super::Rule::New => self.asked.new,
        };
        let track = policy.decay() as usize;
        let (waker, wakee) = (self.waker.spans.get(track)?, self.wakee.spans.get(track)?);
        let narrow = *self.waker.narrow.get(track)? && *self.wakee.narrow.get(track)?;
        let factor = factor.filter(|_| asked)?;
        Some(policy.rule().decide(*waker, *wakee, factor, narrow))
    }

    fn judge(&self, kernel: FlipPolicy) -> Judged {
        let factor = self.factor;
        Judged {
            policies: FlipPolicy::SIX.map(|policy| self.decide(policy, factor)),
            kernel: self.decide(kernel, factor),
            halved: self.decide(kernel, factor.map(|factor| (factor / 2).max(1))),
            doubled: self.decide(kernel, factor.map(|factor| factor.saturating_mul(2))),
        }
    }
}

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Judged {
    policies: [Option<Decision>; 6],
    kernel: Option<Decision>,
    halved: Option<Decision>,
    doubled: Option<Decision>,
}

/// The last decisions on some wakees: pairs that wake each other seldom give another basis.
#[derive(Debug, Clone, Default, PartialEq)]
struct Cache(Vec<Option<(Basis, Judged)>>);

/// Decisions that are kept.
const CACHED: usize = 256;

impl Cache {
    #[inline]
    fn of(&mut self, wakee: TaskId, basis: &Basis, kernel: FlipPolicy) -> Judged {
        if self.0.is_empty() {
            self.0.resize(CACHED, None);
        }
        match self.0.get_mut(wakee.0 as usize % CACHED) {
            Some(Some((known, judged))) if known == basis => *judged,
            Some(slot) => {
                let judged = basis.judge(kernel);
                *slot = Some((*basis, judged));
                judged
            }
            None => basis.judge(kernel),
        }
    }
}
