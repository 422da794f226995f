//! The rows of the table of flips, gone through once.

use polars::prelude::*;

use super::super::answer::{Decided, FlipCheck, PolicyFacts, PullCheck};
use super::super::blocks::{Block, NO_CODE, NO_NUMBER};
use super::super::scope::Scope;
use crate::replay::words::{Decision, FlipPolicy};

/// The columns of decisions: the six policies, the kernel's, and that with other factors.
const DECIDED: [&str; 9] = [
    "zero_old",
    "zero_new",
    "halve_old",
    "halve_new",
    "loop_old",
    "loop_new",
    "kernel",
    "halved",
    "doubled",
];
/// How many of them are policies.
pub const POLICIES: usize = FlipPolicy::SIX.len();
/// The places of the others.
const KERNEL: usize = POLICIES;
pub const HALVED: usize = POLICIES + 1;
pub const DOUBLED: usize = POLICIES + 2;

/// The columns of flags.
const FLAGS: [&str; 6] = [
    "sure",
    "flipped",
    "probe_inside",
    "probe_narrow",
    "free_inside",
    "pulled",
];

/// The columns of numbers.
const NUMBERS: [&str; 5] = ["waker", "wakee", "waker_least", "waker_most", "wakeups"];

/// What the wakeups sum to.
#[derive(Debug, Default)]
pub struct Tally {
    pub recorded: u64,
    pub perhaps: u64,
    /// By place in [`DECIDED`].
    pub policies: [PolicyFacts; DECIDED.len()],
    /// Wakeups that two of the six decide otherwise, by their places, the lower first.
    pub changes: [[u64; POLICIES]; POLICIES],
    pub check: FlipCheck,
    pub pulls: PullCheck,
    /// By task number.
    pub tasks: Vec<OfTask>,
}

/// What one task's wakeups sum to.
#[derive(Debug, Default, Clone, Copy)]
pub struct OfTask {
    pub flips: u64,
    /// Its counter after the last wakeup it made.
    pub span: Option<[u32; 2]>,
    pub as_waker: Decided,
    pub as_wakee: Decided,
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    decided: [Vec<u8>; DECIDED.len()],
    flags: [Vec<u8>; FLAGS.len()],
    numbers: [Vec<u32>; NUMBERS.len()],
}

impl PolicyFacts {
    /// How many it was asked for.
    pub fn asked(&self) -> u64 {
        self.wide + self.affine + self.undecided + self.warming_up
    }

    fn add(&mut self, other: &Self) {
        self.wide += other.wide;
        self.affine += other.affine;
        self.undecided += other.undecided;
        self.warming_up += other.warming_up;
        self.not_asked += other.not_asked;
        self.changed += other.changed;
    }
}

impl Decided {
    fn note(&mut self, decision: u8, n: u64) {
        match decision {
            WIDE => self.wide += n,
            AFFINE => self.affine += n,
            NO_CODE => {}
            _ => self.open += n,
        }
    }

    fn add(&mut self, other: &Self) {
        self.wide += other.wide;
        self.affine += other.affine;
        self.open += other.open;
    }
}

const WIDE: u8 = Decision::Wide.code();
const AFFINE: u8 = Decision::Affine.code();
const UNDECIDED: u8 = Decision::Undecided.code();
const WARMING_UP: u8 = Decision::WarmingUp.code();

/// Whether two decisions are both made, and differ.
fn differ(a: u8, b: u8) -> bool {
    (a, b) == (WIDE, AFFINE) || (a, b) == (AFFINE, WIDE)
}

impl Tally {
    /// Goes through the selected wakees' wakeups to the selected CPUs in the window.
    pub fn take(scope: &Scope) -> PolarsResult<Self> {
        let columns: Vec<&str> = DECIDED.into_iter().chain(FLAGS).chain(NUMBERS).collect();
        let (tally, _) = scope.flips().counted().fold(
            &columns,
            <(Tally, Scratch)>::default,
            |(tally, scratch), block| tally.block(block, scratch),
            |(tally, _), (more, _)| tally.join(&more),
        )?;
        Ok(tally)
    }

    /// The kernel's own policy.
    pub fn kernel(&self) -> &PolicyFacts {
        let [.., kernel, _, _] = &self.policies;
        kernel
    }

    fn block(&mut self, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
        for (name, into) in DECIDED.iter().zip(&mut scratch.decided) {
            block.codes(name, into)?;
        }
        for (name, into) in FLAGS.iter().zip(&mut scratch.flags) {
            block.codes(name, into)?;
        }
        for (name, into) in NUMBERS.iter().zip(&mut scratch.numbers) {
            block.numbers(name, into)?;
        }
        for row in 0..block.rows() {
            let code = |column: &Vec<u8>| column.get(row).copied().unwrap_or(NO_CODE);
            let number = |column: &Vec<u32>| column.get(row).copied().unwrap_or(NO_NUMBER);
            self.row(
                scratch.decided.each_ref().map(code),
                scratch.flags.each_ref().map(code),
                scratch.numbers.each_ref().map(number),
            );
        }
        Ok(())
    }

    #[inline]
    fn row(
        &mut self,
        decided: [u8; DECIDED.len()],
        [sure, flipped, inside, narrow, free, pulled]: [u8; FLAGS.len()],
        [waker, wakee, least, most, wakeups]: [u32; NUMBERS.len()],
    ) {
        let n = u64::from(wakeups);
        if sure != 1 {
            self.perhaps += n;
            return;
        }
        self.recorded += n;
        let kernel = decided[KERNEL];
        for (facts, decision) in self.policies.iter_mut().zip(decided) {
            match decision {
                WIDE => facts.wide += n,
                AFFINE => facts.affine += n,
                UNDECIDED => facts.undecided += n,
                WARMING_UP => facts.warming_up += n,
                _ => facts.not_asked += n,
            }
            facts.changed += n * u64::from(differ(decision, kernel));
        }
        for (a, changes) in self.changes.iter_mut().enumerate() {
            for (b, count) in changes.iter_mut().enumerate().skip(a + 1) {
                *count += n * u64::from(differ(decided[a], decided[b]));
            }
        }
        if inside != NO_CODE {
            self.check.checked += n;
            self.check.inside += n * u64::from(inside == 1);
            self.check.width_le_1 += n * u64::from(narrow == 1);
            self.check.inside_since_first += n * u64::from(free == 1);
        }
        if pulled == 1 {
            self.pulled(kernel, n);
        }
        if waker != NO_NUMBER {
            let of = self.task(waker);
            of.flips += n * u64::from(flipped == 1);
            of.span = Some([least, most]);
            of.as_waker.note(kernel, n);
        }
        self.task(wakee).as_wakee.note(kernel, n);
    }

    fn pulled(&mut self, kernel: u8, n: u64) {
        // Where the LLC's size is unknown nothing was decided.
        let count = match kernel {
            WIDE => &mut self.pulls.wide,
            AFFINE => &mut self.pulls.affine,
            UNDECIDED => &mut self.pulls.undecided,
            WARMING_UP => &mut self.pulls.warming_up,
            _ => return,
        };
        *count += n;
        self.pulls.pulls += n;
    }

    fn task(&mut self, number: u32) -> &mut OfTask {
        let place = number as usize;
        if self.tasks.len() <= place {
            self.tasks.resize(place + 1, OfTask::default());
        }
        &mut self.tasks[place]
    }

    /// Adds what later rows sum to.
    fn join(&mut self, later: &Self) {
        self.recorded += later.recorded;
        self.perhaps += later.perhaps;
        for (mine, theirs) in self.policies.iter_mut().zip(&later.policies) {
            mine.add(theirs);
        }
        let changes = self.changes.iter_mut().flatten();
        for (mine, theirs) in changes.zip(later.changes.iter().flatten()) {
            *mine += theirs;
        }
        self.check.checked += later.check.checked;
        self.check.inside += later.check.inside;
        self.check.width_le_1 += later.check.width_le_1;
        self.check.inside_since_first += later.check.inside_since_first;
        self.pulls.pulls += later.pulls.pulls;
        self.pulls.affine += later.pulls.affine;
        self.pulls.wide += later.pulls.wide;
        self.pulls.undecided += later.pulls.undecided;
        self.pulls.warming_up += later.pulls.warming_up;
        for (number, theirs) in later.tasks.iter().enumerate() {
            let mine = self.task(number as u32);
            mine.flips += theirs.flips;
            mine.span = theirs.span.or(mine.span);
            mine.as_waker.add(&theirs.as_waker);
            mine.as_wakee.add(&theirs.as_wakee);
        }
    }
}
