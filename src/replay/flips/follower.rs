//! Keeps every task's counters, step by step, and decides.

use std::sync::Arc;

use super::rule::Span;
use super::setup::Setup;
use super::track::{Decay, Flip, Likeness, Track};
use super::{Charged, FlipStep, FlipWake};
use crate::replay::rows::{FlipRow, TaskId};
use crate::replay::words::{Decision, FlipPolicy};

/// The decays, in the order of the tracks.
const DECAYS: [Decay; 3] = [Decay::Zero, Decay::Halve, Decay::Loop];

/// Stands for a last wakee that is not known.
const ANYONE: u32 = u32::MAX;

/// What is known of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    /// Of the loss after which this was last known; an older one than the follower's is void.
    epoch: u32,
    /// `last_wakee`: one of these two.
    last: [u32; 2],
    /// By decay. The kernel's own takes in every value that probes show.
    tracks: [Track; 3],
    /// The kernel's decay, set by the first probed value alone: the replay is checked against the later ones.
    free: Track,
    /// Whether a probe has shown a value.
    anchored: bool,
}

impl State {
    fn unknown(epoch: u32, since: i64) -> Self {
        Self {
            epoch,
            last: [ANYONE; 2],
            tracks: [Track::unknown(since); 3],
            free: Track::unknown(since),
            anchored: false,
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

/// Follows all tasks' flips.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Follower {
    setup: Option<Arc<Setup>>,
    tick_ns: i64,
    /// How each track relates to the kernel's.
    likeness: Vec<Likeness>,
    kernel: usize,
    tasks: Vec<State>,
    /// Idle tasks, by dense number of their CPU.
    idle: Vec<State>,
    epoch: u32,
    /// The latest instant up to which events were missing; the trace's start if none were.
    since: i64,
}

impl Follower {
    /// Takes the next step; a row for each wakeup.
    pub fn take(&mut self, step: &FlipStep) -> Option<FlipRow> {
        match step {
            FlipStep::Begin(setup) => self.begin(setup),
            FlipStep::Wake(wake) => return self.wake(wake),
            FlipStep::Fork { parent, child } => self.fork(*parent, *child),
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
        self.likeness = DECAYS.map(|decay| Likeness::of(decay, kernel)).to_vec();
        self.kernel = DECAYS
            .iter()
            .position(|decay| *decay == kernel)
            .unwrap_or(1);
        self.tick_ns = setup.tick_ns();
        // States begin with epoch 0: what was never met is void.
        self.epoch = 1;
        self.since = setup.start_ns;
        self.idle = vec![State::unknown(1, setup.start_ns); setup.factors.len()];
        self.setup = Some(setup.clone());
    }

    /// A task's state, as it is after the last loss. A task that is first met at `now` was not seen to wake before.
    #[inline]
    fn task(&mut self, task: TaskId, now: i64) -> Option<&mut State> {
        let place = task.0 as usize;
        if place >= self.tasks.len() {
            let void = State::unknown(0, i64::MIN);
            self.tasks.resize(place + 1, void);
        }
        let (epoch, since) = (self.epoch, self.since);
        let forks = self
            .setup
            .as_ref()
            .is_some_and(|setup| setup.forks_recorded);
        let state = self.tasks.get_mut(place)?;
        if state.epoch != epoch {
            // Without fork events it may be a child whose counters are its parent's, however fresh those are.
            *state = State::unknown(epoch, if forks { since } else { now });
        }
        Some(state)
    }

    fn fork(&mut self, parent: Option<TaskId>, child: TaskId) {
        let since = self.since;
        let state = parent.and_then(|parent| self.task(parent, since).copied());
        let inherited = state.unwrap_or(State::unknown(self.epoch, since));
        if let Some(child) = self.task(child, since) {
            *child = inherited;
        }
    }

    fn forget(&mut self, task: TaskId, now: i64) {
        let unknown = State::unknown(self.epoch, now);
        if let Some(state) = self.task(task, now) {
            *state = unknown;
        }
    }

    fn lose(&mut self, cpu: usize, until_ns: i64, elsewhere: &[TaskId]) {
        let (before, epoch) = (self.epoch, self.epoch.wrapping_add(1).max(1));
        self.epoch = epoch;
        self.since = self.since.max(until_ns);
        for task in elsewhere {
            let state = self.tasks.get_mut(task.0 as usize);
            if let Some(state) = state.filter(|state| state.epoch == before) {
                state.epoch = epoch;
            }
        }
        if let Some(idle) = self.idle.get_mut(cpu) {
            *idle = State::unknown(0, until_ns);
        }
    }

    fn wake(&mut self, wake: &FlipWake) -> Option<FlipRow> {
        let (now, tick_ns) = (wake.waking_ns, self.tick_ns);
        let kernel = *DECAYS.get(self.kernel)?;
        let mut unknown = State::unknown(self.epoch, now);
        let waker = match wake.waker {
            Charged::Task(task) => self.task(task, now)?,
            Charged::Idle(cpu) => self.idle.get_mut(cpu).unwrap_or(&mut unknown),
            Charged::Unknown => &mut unknown,
        };
        let mut flip = waker.flips_to(wake.wakee.0);
        if !wake.sure && flip == Flip::Yes {
            flip = Flip::Perhaps;
        }
        for (track, decay) in waker.tracks.iter_mut().zip(DECAYS) {
            track.wake(decay, now, tick_ns, flip, wake.sure);
        }
        waker.free.wake(kernel, now, tick_ns, flip, wake.sure);
        waker.note_wakee(wake.wakee.0, wake.sure);
        let of_waker = Known::of(waker);
        let check = self.observe(wake);
        let of_wakee = Known::of(self.task(wake.wakee, now)?);
        self.row(wake, flip, [of_waker, of_wakee], check)
    }

    /// Takes in what a probe shows of the wakee.
    fn observe(&mut self, wake: &FlipWake) -> Check {
        let Some(value) = wake.probed else {
            return Check::default();
        };
        let kernel = self.kernel;
        let likeness: [Likeness; 3] =
            std::array::from_fn(|at| self.likeness.get(at).copied().unwrap_or_default());
        let Some(wakee) = self.task(wake.wakee, wake.waking_ns) else {
            return Check::default();
        };
        let mut check = Check::default();
        if wakee.anchored {
            let followed = wakee.tracks.get(kernel).map_or(Span::UNKNOWN, Track::span);
            check = Check {
                inside: Some(followed.contains(value)),
                narrow: Some(followed.width() <= 1),
                free_inside: Some(wakee.free.span().contains(value)),
            };
        } else if let Some(own) = likeness.get(kernel) {
            wakee.free.observe(value, *own);
        }
        wakee.anchored = true;
        for (track, likeness) in wakee.tracks.iter_mut().zip(likeness) {
            track.observe(value, likeness);
        }
        check
    }

    fn row(
        &self,
        wake: &FlipWake,
        flip: Flip,
        [waker, wakee]: [Known; 2],
        check: Check,
    ) -> Option<FlipRow> {
        let setup = self.setup.as_ref()?;
        let factor = setup.factors.get(wake.waker_cpu).copied().flatten();
        let decide = |policy: FlipPolicy, factor: Option<u32>| -> Option<Decision> {
            let asked = match policy.rule() {
                super::Rule::Old => wake.asked.old,
                super::Rule::New => wake.asked.new,
            };
            let track = policy.decay() as usize;
            let (of_waker, of_wakee) = (*waker.spans.get(track)?, *wakee.spans.get(track)?);
            let narrow = *waker.narrow.get(track)? && *wakee.narrow.get(track)?;
            let factor = factor.filter(|_| asked)?;
            Some(policy.rule().decide(of_waker, of_wakee, factor, narrow))
        };
        let kernel = setup.kernel;
        let of = |spans: &[Span; 3]| spans.get(self.kernel).copied().unwrap_or(Span::UNKNOWN);
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
            decisions: FlipPolicy::SIX.map(|policy| decide(policy, factor)),
            kernel: decide(kernel, factor),
            halved: decide(kernel, factor.map(|factor| (factor / 2).max(1))),
            doubled: decide(kernel, factor.map(|factor| factor.saturating_mul(2))),
            waker_flips: of(&waker.spans),
            wakee_flips: of(&wakee.spans),
            probed: wake.probed,
            probe_inside: check.inside,
            probe_narrow: check.narrow,
            free_inside: check.free_inside,
            pulled: wake.pulled,
            in_window: wake.in_window,
        })
    }
}

/// What decisions go by.
#[derive(Debug, Clone, Copy)]
struct Known {
    spans: [Span; 3],
    narrow: [bool; 3],
}

impl Known {
    fn of(state: &State) -> Self {
        Self {
            spans: state.tracks.map(|track| track.span()),
            narrow: state.tracks.map(|track| track.narrow()),
        }
    }
}
