//! One chain: a cursor that goes backwards from a task and an instant, piece by piece.

use super::super::blocks::NO_NUMBER;
use super::history::{Crossing, History, NO_CPU, Road, Stretch, What};
use super::load::Loaded;
use super::spans::CpuSpans;
use crate::replay::words::{Left, Origin, Pair, Reading, Verdict, Waker, Why};

/// So many times the chain may change tasks within one instant, before the stamps are held to contradict each other.
const HOPS: u32 = 64;

/// A part of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub start_ns: i64,
    pub end_ns: i64,
    pub task: u32,
    /// Where it ran, waited, or was on its way to; of a sleep, where it last was.
    pub cpu: u16,
    pub what: Doing,
    /// Whether it goes on in the segment before.
    pub cut: bool,
}

/// What the task of a piece did, as the chain sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Running,
    /// By which path and over which distance; `None` if no wakeup put it on its way.
    Transit(Option<Road>),
    Waiting {
        origin: u8,
        verdict: Pair<u8>,
    },
    /// Asleep, until something in this context woke it.
    Blocked(Waker),
    Unknown(Why),
}

/// A wakeup that the chain passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    pub context: Waker,
    pub wakee: u32,
    pub crossing: Crossing,
}

/// Takes what the chain meets, from the end to the start.
pub trait Collect {
    fn piece(&mut self, piece: &Piece, loaded: &Loaded);
    fn wakeup(&mut self, _passed: Passed) {}
}

/// What the chain met last, next later than where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    /// The chain began here.
    Nothing,
    /// The task woke another.
    Waking,
    /// It ran.
    Run,
    /// It waited, after a wakeup or a fork.
    Woken,
    /// It waited where it had run: preempted, or moved.
    InPlace,
    /// It slept until it was woken in this context; before that it last was on this CPU.
    Asleep(Waker, u16),
}

/// Where a chain is.
#[derive(Debug, Clone)]
pub struct Cursor {
    start_ns: i64,
    /// The chain is known from here to its end.
    at_ns: i64,
    task: Option<u32>,
    above: Above,
    /// The CPU of what is next later.
    cpu: u16,
    hops: u32,
    begun: bool,
}

/// Whether a task belongs to the workload, which a chain begins in.
pub type Workload<'a> = &'a (dyn Fn(u32) -> bool + Sync);

impl Cursor {
    /// A chain from the end to the start of an interval; from a task, or else from the one of the workload that was
    /// active last.
    pub fn new(start_ns: i64, end_ns: i64, task: Option<u32>) -> Self {
        Self {
            start_ns,
            at_ns: end_ns.max(start_ns),
            task,
            above: Above::Nothing,
            cpu: NO_CPU,
            hops: 0,
            begun: false,
        }
    }

    fn done(&self) -> bool {
        self.at_ns <= self.start_ns
    }

    /// Goes as far back as a segment's rows reach.
    pub fn walk(
        &mut self,
        loaded: &Loaded,
        gaps: &CpuSpans,
        workload: Workload,
        into: &mut dyn Collect,
    ) {
        if self.done() || (!self.begun && self.at_ns <= loaded.from_ns && !loaded.first) {
            return;
        }
        let history = &loaded.history;
        if self.task.is_none() {
            self.task = last_active(history, self.at_ns, workload);
        }
        let next = match (self.task, self.begun) {
            (None, _) => 0,
            (Some(task), false) => history.up_to(task, self.at_ns),
            // What begins at the segment's end was seen in the later segment.
            (Some(task), true) => history.before(task, loaded.to_ns),
        };
        self.begun |= self.task.is_some();
        let mut walk = Walk {
            task: self.task.unwrap_or(NO_NUMBER),
            next,
            floor_ns: self.start_ns.max(loaded.from_ns),
            loaded,
            gaps,
            cursor: self,
            into,
        };
        walk.go();
    }
}

/// The task of the workload that ran at an instant; else one that waited, or was on its way; else the one that ran
/// last. Of several the one that came to it last.
fn last_active(history: &History, at_ns: i64, workload: Workload) -> Option<u32> {
    let mut best: Option<((u8, i64, u8, i64), u32)> = None;
    for task in (0..history.tasks()).filter(|task| workload(*task)) {
        // A task that is woken while it still runs is one that runs.
        let count = history.up_to(task, at_ns).min(history.before(task, at_ns));
        let begun = history.of(task).get(..count);
        let Some(last) = begun.and_then(<[Stretch]>::last) else {
            continue;
        };
        let lasts = last.end_ns >= at_ns;
        let key = match (last.what, lasts) {
            (What::Run { .. }, true) => (3, 0, 0, last.start_ns),
            (What::Wait { .. }, true) => (2, 0, 0, last.start_ns),
            (What::Wake { .. }, true) => (1, 0, 0, last.start_ns),
            // As its CPU is throttled, the wait of what it did not run ends, too.
            (What::Run { .. }, false) => (0, last.end_ns, 1, last.start_ns),
            (_, false) => (0, last.end_ns, 0, last.start_ns),
        };
        if best.is_none_or(|(other, _)| key > other) {
            best = Some((key, task));
        }
    }
    best.map(|(_, task)| task)
}

/// A cursor's way through one segment.
struct Walk<'a> {
    cursor: &'a mut Cursor,
    loaded: &'a Loaded,
    gaps: &'a CpuSpans,
    into: &'a mut dyn Collect,
    task: u32,
    /// How many of the task's stretches lie ahead, that is, earlier.
    next: usize,
    /// Where the segment or the chain begins.
    floor_ns: i64,
}

/// Whether the chain can go on in this segment.
type GoesOn = bool;

impl Walk<'_> {
    fn go(&mut self) {
        while !self.cursor.done() {
            let ahead = self.loaded.history.of(self.task).get(..self.next);
            let goes_on = match ahead.and_then(<[Stretch]>::last) {
                Some(&stretch) if self.cursor.hops <= HOPS => self.pass(&stretch),
                Some(_) => self.break_circle(),
                None => {
                    if self.loaded.first {
                        self.cover(self.cursor.start_ns, Doing::Unknown(Why::BeforeFirst));
                    }
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Takes in the stretch that is next earlier, and what lies between.
    fn pass(&mut self, stretch: &Stretch) -> GoesOn {
        match stretch.what {
            What::Run { left } => self.pass_run(stretch, left),
            What::Wait {
                origin,
                verdict,
                ended,
            } => self.pass_wait(stretch, origin, verdict, ended),
            What::Wake {
                waker,
                road,
                context,
                crossing,
                enqueued,
            } => {
                if self.cursor.above == Above::InPlace {
                    // The task had not left its CPU: it would have gone on without.
                    self.next -= 1;
                    return true;
                }
                let passed = self.pass_wake(stretch, road, enqueued);
                if passed {
                    self.follow(stretch, waker, context, crossing);
                }
                passed
            }
        }
    }

    fn pass_run(&mut self, run: &Stretch, left: Left) -> GoesOn {
        let asleep = match self.cursor.above {
            Above::Asleep(context, prev_cpu) => Some((context, prev_cpu)),
            Above::Nothing if left == Left::Asleep => Some((Waker::Unknown, run.cpu)),
            _ => None,
        };
        self.cursor.cpu = run.cpu;
        let reached = match asleep {
            Some((context, prev_cpu)) => self.sleep(run.end_ns, context, run.cpu, prev_cpu),
            // It left its CPU runnable, and nothing shows it queued until it ran again.
            None if left == Left::Runnable && self.cursor.above == Above::Run => {
                self.unknown(run.end_ns, run.cpu, Why::Withheld)
            }
            None => self.unknown(run.end_ns, run.cpu, Why::Unexplained),
        };
        reached && self.reach(run.start_ns, Doing::Running, Above::Run)
    }

    fn pass_wait(&mut self, wait: &Stretch, origin: u8, verdict: Pair<u8>, ended: bool) -> GoesOn {
        self.cursor.cpu = wait.cpu;
        let reached = match self.cursor.above {
            Above::Asleep(context, prev_cpu) => {
                self.sleep(wait.end_ns, context, wait.cpu, prev_cpu)
            }
            Above::Run | Above::Nothing if !ended => {
                self.unknown(wait.end_ns, wait.cpu, Why::Withheld)
            }
            _ => self.unknown(wait.end_ns, wait.cpu, Why::Unexplained),
        };
        let woken = origin == Origin::Wakeup.code() || origin == Origin::New.code();
        let transit = Verdict::Transit.code();
        let doing = match verdict[Reading::Seen] == transit && verdict[Reading::Any] == transit {
            true => Doing::Transit(self.road_of(wait, woken)),
            false => Doing::Waiting { origin, verdict },
        };
        let above = if woken { Above::Woken } else { Above::InPlace };
        reached && self.reach(wait.start_ns, doing, above)
    }

    /// The road of the wakeup that a wait belongs to.
    fn road_of(&self, wait: &Stretch, woken: bool) -> Option<Road> {
        let before = self.next.checked_sub(2).filter(|_| woken)?;
        match self.loaded.history.of(wait.task).get(before)?.what {
            What::Wake { road, .. } => Some(road),
            _ => None,
        }
    }

    fn pass_wake(&mut self, wake: &Stretch, road: Road, enqueued: bool) -> GoesOn {
        let reached = match self.cursor.above {
            // The wait began with the enqueue, recorded or not.
            Above::Woken => true,
            // Switched in before its enqueue: on its way all the time, if nothing is missing.
            Above::Run if !enqueued && !self.lost(self.cursor.cpu, wake.end_ns) => true,
            _ => self.unknown(wake.end_ns, self.cursor.cpu, Why::Unexplained),
        };
        reached && self.cover(wake.start_ns, Doing::Transit(Some(road)))
    }

    /// Goes on with the waker if it is a task; with the task's sleep if it is an interrupt, or not known.
    fn follow(&mut self, wake: &Stretch, waker: u32, context: u8, crossing: Crossing) {
        let context = Waker::ALL.get(usize::from(context)).copied();
        let context = context.unwrap_or(Waker::Unknown);
        self.into.wakeup(Passed {
            context,
            wakee: wake.task,
            crossing,
        });
        self.next -= 1;
        match is_followed(context) {
            true if waker == self.task => self.cursor.above = Above::Waking,
            true if waker != NO_NUMBER => {
                self.cursor.hops += 1;
                self.cursor.task = Some(waker);
                self.cursor.above = Above::Waking;
                self.task = waker;
                self.next = self.loaded.history.up_to(waker, self.cursor.at_ns);
            }
            _ => {
                let by = if context == Waker::Task {
                    Waker::Unknown
                } else {
                    context
                };
                self.cursor.above = Above::Asleep(by, wake.cpu);
            }
        }
    }

    /// The task is what it is down to here, and is done with then.
    fn reach(&mut self, down_to_ns: i64, doing: Doing, above: Above) -> GoesOn {
        let reached = self.cover(down_to_ns, doing);
        if reached {
            self.cursor.above = above;
            self.next -= 1;
        }
        reached
    }

    /// The task sleeps down to here, as far as no events are missing of the CPU it left, or of the one that the waker
    /// found it to have left.
    fn sleep(&mut self, down_to_ns: i64, context: Waker, left: u16, found: u16) -> GoesOn {
        let (from, to) = (down_to_ns, self.cursor.at_ns);
        let lost = |cpu| self.gaps.of(cpu).within(from, to);
        let mut missing: Vec<(i64, i64)> = lost(left).collect();
        if found != left {
            missing.extend(lost(found));
        }
        missing.sort_unstable_by_key(|gap| std::cmp::Reverse(gap.1));
        for (gap_start, gap_end) in missing {
            if !(self.cover(gap_end, Doing::Blocked(context))
                && self.cover(gap_start, Doing::Unknown(Why::Lost)))
            {
                return false;
            }
        }
        self.cover(down_to_ns, Doing::Blocked(context))
    }

    /// It is not known what the task did down to here: for want of events if any are missing of the CPU.
    fn unknown(&mut self, down_to_ns: i64, cpu: u16, why: Why) -> GoesOn {
        let why = if self.lost(cpu, down_to_ns) {
            Why::Lost
        } else {
            why
        };
        self.cover(down_to_ns, Doing::Unknown(why))
    }

    /// Whether events of a CPU are missing between here and where the chain is.
    fn lost(&self, cpu: u16, down_to_ns: i64) -> bool {
        let gaps = self.gaps.of(cpu);
        gaps.within(down_to_ns, self.cursor.at_ns).next().is_some()
    }

    /// Extends the chain down to an instant, or to the floor if that comes first: then false.
    fn cover(&mut self, down_to_ns: i64, what: Doing) -> GoesOn {
        let at_ns = self.cursor.at_ns;
        let to_ns = down_to_ns.max(self.floor_ns).min(at_ns);
        if to_ns < at_ns {
            self.into.piece(
                &Piece {
                    start_ns: to_ns,
                    end_ns: at_ns,
                    task: self.task,
                    cpu: self.cursor.cpu,
                    what,
                    cut: down_to_ns < to_ns && to_ns > self.cursor.start_ns,
                },
                self.loaded,
            );
            self.cursor.at_ns = to_ns;
            self.cursor.hops = 0;
        }
        down_to_ns >= self.floor_ns
    }

    /// Tasks that woke each other within one instant: the order of the stamps is off. Nothing is known up to what the
    /// task did before.
    fn break_circle(&mut self) -> GoesOn {
        let earlier = self.loaded.history.before(self.task, self.cursor.at_ns);
        self.next = self.next.min(earlier);
        let ahead = self.loaded.history.of(self.task).get(..self.next);
        let Some(stretch) = ahead.and_then(<[Stretch]>::last) else {
            return true;
        };
        self.cursor.above = Above::Waking;
        self.cover(stretch.start_ns, Doing::Unknown(Why::Unexplained))
    }
}

/// Whether the chain goes on with the task of a waker in this context. A soft interrupt that an interrupt raised runs
/// beside whatever task that found; one that the task's own system call raised, or that may have been, stands for it.
pub fn is_followed(context: Waker) -> bool {
    matches!(
        context,
        Waker::Task | Waker::SoftirqInline | Waker::SoftirqUnknown
    )
}
