//! Samples whose time cannot be right: a flipped bit carries one years away, and the trace's length with it.
//!
//! Perf writes a CPU's samples in the order of their times but for microseconds. A few that lie seconds away, between
//! runs that go on from each other, are damage, and so is all that lies days away from most of the file. (Rings that
//! are overwritten are written newest first: there no run goes on from another, and all are believed.)

use crate::bytes::Endian;
use crate::plausible::{STEP_NS as LONG_STEP_NS, Span};

use super::events::Events;
use super::index::{CpuIndex, Index, Run};
use super::loss::{CpuLosses, Loss};
use super::records::{RecordType, record_at};

/// 2^30 ns, 1.1 s. Runs end where time goes on by more, so that a sample that is ahead is a run of its own.
pub(super) const STEP_NS: i64 = 1 << 30;

/// So many bytes may stray between runs that go on from each other: those of a page, and of the records it cut.
const STRAY_BYTES: usize = 8192;
/// In so many runs.
const STRAY_RUNS: usize = 8;

/// Leaves out the runs whose times cannot be right: counted, told, and a loss where they lay. The runs are in recorded
/// order. Returns what all these losses sum to.
pub(super) fn leave_out(
    index: &mut Index,
    believed: Span,
    data: &[u8],
    endian: Endian,
    events: &Events,
) -> u64 {
    let mut strayed = 0;
    let step = Step::of(index);
    let Index {
        cpus,
        samples,
        run_bytes,
        faults,
        ..
    } = index;
    for cpu in cpus {
        cpu.losses.stay_within(believed);
        let stray = strays(&cpu.runs, believed, step);
        if stray.is_empty() {
            continue;
        }
        let mut kept = Kept::default();
        for (run, stray) in std::mem::take(&mut cpu.runs).into_iter().zip(stray) {
            if !stray {
                kept.keep(run, &mut cpu.losses);
                continue;
            }
            let count = uncount(&run, data, endian, events, samples);
            *run_bytes = run_bytes.saturating_sub(run.bytes() as u64);
            faults.push(run.start as u64, Some(cpu.cpu), || {
                describe(&run, count, believed)
            });
            kept.leave_out(&run, count);
        }
        kept.end(&mut cpu.losses);
        strayed += kept.lost;
        cpu.first_ts = kept.runs.first().map(|run| run.first_ts);
        cpu.last_ts = kept.runs.iter().map(|run| run.last_ts).max();
        cpu.runs = kept.runs;
    }
    strayed
}

/// The times that are believed, by most of the data.
pub(super) fn believed(cpus: &[CpuIndex]) -> Span {
    let runs = cpus.iter().flat_map(|cpu| &cpu.runs);
    let ends = runs.flat_map(|run| {
        let weight = run.bytes() as u64;
        [(run.first_ts, weight), (run.last_ts, weight)]
    });
    Span::around(ends.collect())
}

/// By run, whether its times cannot be right; empty if all can.
fn strays(runs: &[Run], believed: Span, step: Step) -> Vec<bool> {
    let in_order = runs.windows(2).all(|pair| match pair {
        [one, next] => step.goes_on(one, next),
        _ => true,
    });
    let far = |run: &Run| !believed.contains(run.first_ts) || !believed.contains(run.last_ts);
    if in_order && !runs.iter().any(far) {
        return Vec::new();
    }
    let near: Vec<(usize, Run)> = runs.iter().copied().enumerate().collect();
    let near: Vec<(usize, Run)> = near.into_iter().filter(|(_, run)| !far(run)).collect();
    let mut stray = vec![true; runs.len()];
    let mut neighbours = Neighbours {
        step,
        before: None,
        in_order: false,
    };
    let mut rest = near.as_slice();
    while let Some(((at, run), more)) = rest.split_first() {
        let left_out = neighbours.straying(rest);
        if left_out > 0 {
            rest = rest.get(left_out..).unwrap_or_default();
            continue;
        }
        if let Some(stray) = stray.get_mut(*at) {
            *stray = false;
        }
        neighbours.add(run);
        rest = more;
    }
    match stray.contains(&true) {
        true => stray,
        false => Vec::new(),
    }
}

/// How far a CPU's time may step back, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Step(i64);

impl Step {
    /// Where rings follow threads, a CPU's samples come from several, each emptied in its turn: perhaps after seconds.
    fn of(index: &Index) -> Self {
        match index.all_threads.or(index.ids_without_thread) {
            Some(true) => Self(STEP_NS),
            _ => Self(LONG_STEP_NS),
        }
    }

    /// Whether `next` may have been written after `one`. Between two stretches of seconds the clock may have been set.
    fn goes_on(self, one: &Run, next: &Run) -> bool {
        let is_long = |run: &Run| run.last_ts.saturating_sub(run.first_ts) > STEP_NS;
        let step = match is_long(one) && is_long(next) {
            true => LONG_STEP_NS,
            false => self.0,
        };
        one.last_ts <= next.first_ts.saturating_add(step)
    }
}

/// The runs that were believed last.
struct Neighbours {
    step: Step,
    before: Option<Run>,
    /// It goes on from the one before it.
    in_order: bool,
}

impl Neighbours {
    fn add(&mut self, run: &Run) {
        self.in_order = self
            .before
            .is_some_and(|before| self.step.goes_on(&before, run));
        self.before = Some(*run);
    }

    /// How many of the next runs stray: few, each out of order, between runs that are in order.
    fn straying(&self, rest: &[(usize, Run)]) -> usize {
        let at = |at: usize| rest.get(at).map(|(_, run)| run);
        let mut bytes = 0;
        for count in 1..=STRAY_RUNS {
            let Some(run) = at(count - 1) else {
                break;
            };
            bytes += run.bytes();
            if bytes > STRAY_BYTES {
                break;
            }
            let (next, then) = (at(count), at(count + 1));
            let group = rest.get(..count).unwrap_or_default();
            let out = |(_, run): &(usize, Run)| self.is_out_of_order(run, next, then);
            if group.iter().all(out) && self.is_joined_by(group, next, then) {
                return count;
            }
        }
        0
    }

    /// Out of order with a neighbour; the first of a CPU with both that follow.
    fn is_out_of_order(&self, run: &Run, next: Option<&Run>, then: Option<&Run>) -> bool {
        let before_next =
            |next: Option<&Run>| next.is_some_and(|next| !self.step.goes_on(run, next));
        match &self.before {
            Some(before) => !self.step.goes_on(before, run) || before_next(next),
            None => before_next(next) && before_next(then),
        }
    }

    /// Whether what comes next goes on from what came before, and three runs in all are in order. Near an end, where
    /// there are no three, what strays must also be less than what it is judged by.
    fn is_joined_by(&self, group: &[(usize, Run)], next: Option<&Run>, then: Option<&Run>) -> bool {
        let bytes: usize = group.iter().map(|(_, run)| run.bytes()).sum();
        let outweighs = |run: &Run| run.bytes() > bytes;
        match (&self.before, next, then) {
            (Some(before), Some(next), Some(then)) => {
                self.step.goes_on(before, next) && self.step.goes_on(next, then)
            }
            (Some(before), Some(next), None) => {
                self.step.goes_on(before, next) && (self.in_order || outweighs(next))
            }
            (None, Some(next), Some(then)) => self.step.goes_on(next, then),
            (Some(before), None, _) => self.in_order && group.len() == 1 && outweighs(before),
            (None, ..) => false,
        }
    }
}

/// The runs that are believed, and what was left out since the last of them.
#[derive(Default)]
struct Kept {
    runs: Vec<Run>,
    last: Option<i64>,
    /// Samples, and where.
    out: Option<(u64, u64)>,
    /// Samples told as lost.
    lost: u64,
}

impl Kept {
    fn keep(&mut self, run: Run, losses: &mut CpuLosses) {
        self.close(run.first_ts, losses);
        self.last = self.last.max(Some(run.last_ts));
        self.runs.push(run);
    }

    fn leave_out(&mut self, run: &Run, count: u64) {
        let (before, offset) = self.out.unwrap_or((0, run.start as u64));
        self.out = Some((before.saturating_add(count), offset));
    }

    fn end(&mut self, losses: &mut CpuLosses) {
        let last = self.last.unwrap_or(0);
        self.close(last, losses);
    }

    /// Nothing is known of the time before a CPU's first sample anyway.
    fn close(&mut self, end: i64, losses: &mut CpuLosses) {
        if let (Some((count, offset)), Some(begin)) = (self.out.take(), self.last) {
            self.lost = self.lost.saturating_add(count);
            losses.losses.push(Loss {
                begin,
                end: end.max(begin),
                count: Some(count),
                offset,
            });
        }
    }
}

/// Takes a run's samples out of the counts, and tells how many events it has.
pub(super) fn uncount(
    run: &Run,
    data: &[u8],
    endian: Endian,
    events: &Events,
    samples: &mut [u64],
) -> u64 {
    let mut count = 0;
    let mut offset = run.start;
    while offset < run.end
        && let Ok(record) = record_at(data, offset, endian)
    {
        offset = record.next;
        count += u64::from(matches!(record.kind, RecordType::SAMPLE | RecordType::COMM));
        if record.kind == RecordType::SAMPLE
            && let Some(event) = events.of_sample(record.bytes, endian)
            && let Some(samples) = samples.get_mut(usize::from(event))
        {
            *samples = samples.saturating_sub(1);
        }
    }
    count
}

fn describe(run: &Run, count: u64, believed: Span) -> String {
    let what = match count {
        1 => "a sample's time".to_owned(),
        count => format!("the time of {count} samples"),
    };
    let far = [run.first_ts, run.last_ts]
        .into_iter()
        .find(|&ts| !believed.contains(ts));
    match far {
        Some(ts) => format!("{what} is {}: left out", believed.distance(ts)),
        None => format!("{what} contradicts that of those before and after: left out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of 100 bytes from and to these seconds.
    fn runs(seconds: &[(i64, i64)]) -> Vec<Run> {
        let runs = seconds.iter().enumerate();
        runs.map(|(at, (from, to))| Run {
            first_ts: from * 1_000_000_000,
            last_ts: to * 1_000_000_000,
            start: at * 100,
            end: at * 100 + 100,
        })
        .collect()
    }

    /// The places of those that stray.
    fn stray(seconds: &[(i64, i64)]) -> Vec<usize> {
        let runs = runs(seconds);
        let believed = Span::around(runs.iter().map(|run| (run.first_ts, 1)).collect());
        let places = |step| -> Vec<usize> {
            let stray = strays(&runs, believed, step);
            (0..stray.len()).filter(|&at| stray[at]).collect()
        };
        let stray = places(Step(STEP_NS));
        assert_eq!(stray, places(Step(LONG_STEP_NS)));
        stray
    }

    #[test]
    fn runs_in_order_are_believed() {
        assert!(stray(&[(1, 2), (2, 3), (500, 600), (600, 700)]).is_empty());
        // A clock that lags a little.
        assert!(stray(&[(1, 20), (18, 30), (30, 40)]).is_empty());
        assert!(stray(&[]).is_empty());
    }

    #[test]
    fn what_its_neighbours_contradict_strays() {
        assert_eq!(stray(&[(1, 2), (900, 900), (3, 4), (4, 5)]), [1]);
        assert_eq!(stray(&[(101, 102), (5, 5), (103, 104), (104, 105)]), [1]);
        // Two in a row, at both sides.
        let two = [(101, 102), (900, 900), (5, 5), (103, 104), (104, 105)];
        assert_eq!(stray(&two), [1, 2]);
        // At the ends.
        assert_eq!(stray(&[(900, 900), (3, 4), (4, 5)]), [0]);
        let mut last = runs(&[(101, 102), (103, 104), (5, 5)]);
        last[1].start -= 50;
        assert_eq!(
            strays(&last, Span::ALL, Step(STEP_NS)),
            [false, false, true]
        );
        // Years away, whatever the order.
        assert_eq!(stray(&[(1, 2), (1 << 32, 1 << 32)]), [1]);
    }

    #[test]
    fn rings_written_newest_first_are_believed() {
        assert!(stray(&[(40, 40), (30, 30), (20, 20), (10, 10)]).is_empty());
        assert!(stray(&[(5, 9), (40, 40), (30, 30), (20, 20), (10, 10)]).is_empty());
    }

    #[test]
    fn much_that_is_out_of_order_is_no_damage() {
        let mut runs = runs(&[(1, 2), (900, 950), (3, 4), (4, 5)]);
        for at in [1, 2] {
            runs[at].end = runs[at].start + 10_000;
        }
        assert!(strays(&runs, Span::ALL, Step(STEP_NS)).is_empty());
    }
}
