//! What each task did, stretch by stretch: the rows of wakeups, waits and slices, by task and in order of time.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::replay::words::{Left, Pair};

/// Stands for no CPU, as in tables.
pub const NO_CPU: u16 = u16::MAX;

/// A part of a task's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub start_ns: i64,
    pub end_ns: i64,
    pub task: u32,
    /// Where it ran or waited; of a wakeup, where the task last was.
    pub cpu: u16,
    pub what: What,
}

/// What the task did meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It was on its way from the waking to the enqueue.
    Wake {
        /// The waking task; the number that stands for null if an interrupt woke, or if unknown.
        waker: u32,
        road: Road,
        /// Code of the waker's context.
        context: u8,
        crossing: Crossing,
        /// Whether its enqueue was recorded.
        enqueued: bool,
    },
    /// It was queued.
    Wait {
        origin: u8,
        verdict: Pair<u8>,
        /// Whether the wait ended with a switch-in.
        ended: bool,
    },
    /// It was on a CPU.
    Run { left: Left },
}

/// A wakeup's path and its distance from waker to chosen CPU, by their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Road(u8);

impl Road {
    pub fn new(path: u8, distance: u8) -> Self {
        Self((path.min(15) << 4) | distance.min(15))
    }

    pub fn path(self) -> u8 {
        self.0 >> 4
    }

    pub fn distance(self) -> u8 {
        self.0 & 15
    }
}

/// Whether a wakeup leads to another LLC than the waker's, and than the one that its task was last in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing(u8);

impl Crossing {
    /// What the waker's side says stands in the lower bits. 2 stands for what the trace does not tell.
    pub fn new(from_waker: Option<bool>, from_prev: Option<bool>) -> Self {
        let code = |crosses: Option<bool>| crosses.map_or(2, u8::from);
        Self(code(from_prev) << 2 | code(from_waker))
    }

    /// From the waker's CPU to the chosen one.
    pub fn of_waker(self) -> Option<bool> {
        Self::flag(self.0 & 3)
    }

    /// From the previous CPU to the chosen one.
    pub fn of_prev(self) -> Option<bool> {
        Self::flag(self.0 >> 2)
    }

    fn flag(code: u8) -> Option<bool> {
        match code {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Stretch {
    /// By start, then end; at one instant a wakeup comes before its wait, and that before the run.
    fn order(&self, other: &Self) -> Ordering {
        let key = |of: &Self| (of.start_ns, of.end_ns, of.rank());
        key(self).cmp(&key(other))
    }

    fn rank(&self) -> u8 {
        match self.what {
            What::Wake { .. } => 0,
            What::Wait { .. } => 1,
            What::Run { .. } => 2,
        }
    }

    fn runs_at(&self, ns: i64) -> bool {
        matches!(self.what, What::Run { .. }) && self.start_ns <= ns && self.end_ns >= ns
    }
}

/// Stretches by task.
pub struct History {
    stretches: Vec<Stretch>,
    /// Where each task's begin, and the end of the last one's.
    firsts: Vec<usize>,
}

impl History {
    /// Sorts stretches, of which `parts` holds some each. Of tasks that are not below `tasks` none are kept.
    pub fn new(parts: Vec<Vec<Stretch>>, tasks: usize) -> Self {
        let mut firsts = vec![0; tasks + 1];
        for stretch in parts.iter().flatten() {
            if let Some(count) = firsts.get_mut(stretch.task as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for first in &mut firsts {
            sum += *first;
            *first = sum;
        }
        let mut stretches = Vec::new();
        if let Some(filler) = parts.iter().flatten().next() {
            stretches.resize(sum, *filler);
        }
        let mut places = firsts.clone();
        for part in parts {
            for stretch in part {
                if let Some(place) = places.get_mut(stretch.task as usize)
                    && let Some(slot) = stretches.get_mut(*place)
                {
                    *slot = stretch;
                    *place += 1;
                }
            }
        }
        sort_each(&mut stretches, &firsts);
        Self { stretches, firsts }
    }

    /// How many tasks there may be.
    pub fn tasks(&self) -> u32 {
        u32::try_from(self.firsts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// A task's stretches in order.
    pub fn of(&self, task: u32) -> &[Stretch] {
        let at = task as usize;
        let bounds = self.firsts.get(at).zip(self.firsts.get(at + 1));
        bounds
            .and_then(|(first, next)| self.stretches.get(*first..*next))
            .unwrap_or_default()
    }

    /// How many of a task's stretches begin before `ns`.
    pub fn before(&self, task: u32, ns: i64) -> usize {
        self.of(task)
            .partition_point(|stretch| stretch.start_ns < ns)
    }

    /// How many of a task's stretches lead up to what it did at `ns`: up to the run it was in, if it was in one, or
    /// else all that had begun.
    pub fn up_to(&self, task: u32, ns: i64) -> usize {
        let all = self.of(task);
        let begun = all.partition_point(|stretch| stretch.start_ns <= ns);
        let near = begun.saturating_sub(NEAR)..begun;
        let running = near
            .rev()
            .find(|&at| all.get(at).is_some_and(|stretch| stretch.runs_at(ns)));
        running.map_or(begun, |at| at + 1)
    }
}

/// How far a run lies behind the stretches that begin within it: wakeups that found the task still running.
const NEAR: usize = 8;

/// Sorts each task's stretches, which are three runs that are nearly in order.
fn sort_each(stretches: &mut [Stretch], firsts: &[usize]) {
    let mut rest = stretches;
    let mut each = Vec::new();
    for bounds in firsts.windows(2) {
        if let [first, next] = bounds
            && next > first
        {
            let (own, later) = rest.split_at_mut((next - first).min(rest.len()));
            each.push(own);
            rest = later;
        }
    }
    each.into_par_iter()
        .for_each(|own| own.sort_by(Stretch::order));
}

const _: () = assert!(size_of::<Stretch>() <= 32);
