//! What the pieces of a chain sum to, and what their time is charged to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::chain::{Collect, Doing, Passed, Piece};
use super::load::Loaded;
use super::runs::CrossingRuns;
use super::spans::CpuSpans;
use crate::replay::words::{Category, Pair, Reading, Verdict, Waker, Why};

/// Codes of an enumeration.
const CODES: usize = 16;

/// Nanoseconds by category, in the order of the words.
pub type Sums = [i64; Category::ALL.len()];

/// Pieces and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub count: u64,
    pub ns: i64,
}

impl Sum {
    /// A piece that goes on in the segment before is counted there.
    fn add(&mut self, piece: &Piece) {
        self.count += u64::from(!piece.cut);
        self.ns += piece.end_ns - piece.start_ns;
    }
}

/// Only the categories.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    pub ns: Sums,
}

impl Collect for Shares {
    fn piece(&mut self, piece: &Piece, loaded: &Loaded) {
        add_to(&mut self.ns, piece, loaded);
    }
}

/// Everything that is told of the chain.
pub struct Tally<'a> {
    gaps: &'a CpuSpans,
    pub ns: Sums,
    pub running: FxHashMap<u32, i64>,
    pub by_path: [Sum; CODES],
    pub by_distance: [Sum; CODES],
    pub by_origin: [Sum; CODES],
    pub by_verdict: Pair<[Sum; CODES]>,
    /// What the waiting tasks' CPUs ran meanwhile.
    pub meanwhile: FxHashMap<u32, i64>,
    pub meanwhile_idle_ns: i64,
    pub meanwhile_unknown_ns: i64,
    pub blocked: [Sum; Waker::ALL.len()],
    pub unknown: [Sum; Why::ALL.len()],
    pub wakeups: [u64; Waker::ALL.len()],
    pub across_llcs: u64,
    /// Wakeups of which it is not known whether they crossed LLCs.
    pub maybe_across_llcs: u64,
    pub runs: CrossingRuns,
    longest: Longest,
}

impl<'a> Tally<'a> {
    /// Keeps so many of the longest pieces.
    pub fn new(gaps: &'a CpuSpans, longest: usize) -> Self {
        Self {
            gaps,
            ns: Sums::default(),
            running: FxHashMap::default(),
            by_path: Default::default(),
            by_distance: Default::default(),
            by_origin: Default::default(),
            by_verdict: Pair(Default::default()),
            meanwhile: FxHashMap::default(),
            meanwhile_idle_ns: 0,
            meanwhile_unknown_ns: 0,
            blocked: Default::default(),
            unknown: Default::default(),
            wakeups: Default::default(),
            across_llcs: 0,
            maybe_across_llcs: 0,
            runs: CrossingRuns::default(),
            longest: Longest::new(longest),
        }
    }

    /// The longest pieces, longest first.
    pub fn longest(&mut self) -> Vec<Piece> {
        self.longest.take()
    }

    /// The time of waits for CPUs that were busy throughout, under the reading that finds more of it.
    pub fn saturated_ns(&self, readings: &[Reading]) -> i64 {
        let of = |reading: &Reading| at(&self.by_verdict[*reading], Verdict::Saturated.code()).ns;
        readings.iter().map(of).max().unwrap_or(0)
    }

    /// Charges a wait to what its CPU ran.
    fn charge(&mut self, piece: &Piece, loaded: &Loaded) {
        let (start, end) = (piece.start_ns, piece.end_ns);
        let meanwhile = &mut self.meanwhile;
        let nothing = loaded.cpus.ran(piece.cpu, start, end, |task, ns| {
            *meanwhile.entry(task).or_default() += ns;
        });
        // Nothing is known to have run where events are missing; elsewhere nothing ran.
        let missing = self.gaps.of(piece.cpu).overlap(start, end).min(nothing);
        self.meanwhile_unknown_ns += missing;
        self.meanwhile_idle_ns += nothing - missing;
    }
}

impl Collect for Tally<'_> {
    fn piece(&mut self, piece: &Piece, loaded: &Loaded) {
        let own_ns = add_to(&mut self.ns, piece, loaded);
        match piece.what {
            Doing::Running => {
                *self.running.entry(piece.task).or_default() += own_ns;
                self.runs.ran(piece.task, own_ns);
            }
            Doing::Transit(road) => {
                let none = u8::MAX;
                let (path, distance) = road.map_or((none, none), |r| (r.path(), r.distance()));
                add(&mut self.by_path, path, piece);
                add(&mut self.by_distance, distance, piece);
            }
            Doing::Waiting { origin, verdict } => {
                add(&mut self.by_origin, origin, piece);
                for reading in [Reading::Seen, Reading::Any] {
                    add(&mut self.by_verdict[reading], verdict[reading], piece);
                }
                self.charge(piece, loaded);
            }
            Doing::Blocked(context) => {
                add(&mut self.blocked, context.code(), piece);
                self.runs.broken();
            }
            Doing::Unknown(why) => {
                add(&mut self.unknown, why.code(), piece);
                self.runs.broken();
            }
        }
        self.longest.offer(piece);
    }

    fn wakeup(&mut self, passed: Passed) {
        if let Some(count) = self.wakeups.get_mut(usize::from(passed.context.code())) {
            *count += 1;
        }
        match passed.crossing.of_waker() {
            Some(crosses) => self.across_llcs += u64::from(crosses),
            None => self.maybe_across_llcs += 1,
        }
        self.runs.woken(passed);
    }
}

/// Adds a piece to its category; a run's handlers and waits for shootdowns go to theirs. Returns what was its own.
fn add_to(sums: &mut Sums, piece: &Piece, loaded: &Loaded) -> i64 {
    let mut own_ns = piece.end_ns - piece.start_ns;
    let category = match piece.what {
        Doing::Running => {
            let taken = loaded.cpus.taken(piece.cpu, piece.start_ns, piece.end_ns);
            own_ns -= taken.interrupt_ns + taken.tlb_wait_ns;
            sums[Category::Interrupt as usize] += taken.interrupt_ns;
            sums[Category::TlbWait as usize] += taken.tlb_wait_ns;
            Category::Running
        }
        Doing::Transit(_) => Category::Transit,
        Doing::Waiting { .. } => Category::Wait,
        Doing::Blocked(_) => Category::Blocked,
        Doing::Unknown(_) => Category::Unknown,
    };
    sums[category as usize] += own_ns;
    own_ns
}

/// Adds a piece under a code; the last place is for what has none.
fn add<const N: usize>(sums: &mut [Sum; N], code: u8, piece: &Piece) {
    if let Some(sum) = sums.get_mut(usize::from(code).min(N - 1)) {
        sum.add(piece);
    }
}

/// The sum under a code.
pub fn at<const N: usize>(sums: &[Sum; N], code: u8) -> Sum {
    sums.get(usize::from(code)).copied().unwrap_or_default()
}

/// Keeps the longest pieces that are not running.
struct Longest {
    most: usize,
    /// The shortest on top; of equals the later one, so that the earliest stay.
    kept: BinaryHeap<Reverse<(i64, Reverse<i64>, usize)>>,
    pieces: Vec<Piece>,
    /// A piece that goes on in the segment before.
    open: Option<Piece>,
}

impl Longest {
    fn new(most: usize) -> Self {
        Self {
            most,
            kept: BinaryHeap::new(),
            pieces: Vec::new(),
            open: None,
        }
    }

    fn offer(&mut self, piece: &Piece) {
        let mut whole = *piece;
        if let Some(open) = self.open.take() {
            // What goes on is of the same task; that it is the same piece is told by where it ends.
            if open.start_ns == piece.end_ns && open.task == piece.task {
                whole.end_ns = open.end_ns;
            } else {
                self.keep(open);
            }
        }
        match piece.cut {
            true => self.open = Some(whole),
            false => self.keep(whole),
        }
    }

    fn keep(&mut self, piece: Piece) {
        if matches!(piece.what, Doing::Running) || self.most == 0 {
            return;
        }
        let key = |slot| (piece.end_ns - piece.start_ns, Reverse(piece.start_ns), slot);
        if self.pieces.len() < self.most {
            self.kept.push(Reverse(key(self.pieces.len())));
            self.pieces.push(piece);
            return;
        }
        let Some(Reverse(shortest)) = self.kept.peek().copied() else {
            return;
        };
        let slot = shortest.2;
        if key(slot) > shortest
            && let Some(place) = self.pieces.get_mut(slot)
        {
            *place = piece;
            self.kept.pop();
            self.kept.push(Reverse(key(slot)));
        }
    }

    fn take(&mut self) -> Vec<Piece> {
        if let Some(open) = self.open.take() {
            self.keep(open);
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        self.kept.clear();
        pieces.sort_by_key(|piece| (Reverse(piece.end_ns - piece.start_ns), piece.start_ns));
        pieces
    }
}

const _: () = assert!(Verdict::ALL.len() <= CODES);
