//! What the wakees of pairs waited for: by verdict after a wakeup, and apart from that after a preemption; and whether
//! both tasks were seen on one CPU alone.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{ByWord, OneCpu, OriginFacts, VerdictFacts};
use super::blocks::{Block, NO_NUMBER};
use super::resample::LEAST_SAMPLES;
use super::scope::Scope;
use super::wakeups::by_word;
use crate::replay::survey::Survey;
use crate::replay::words::{Origin, Pair, Reading, Verdict};

/// Waits of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    wait_ns: i64,
    lost_ns: i64,
}

impl Sum {
    fn add(&mut self, more: &Sum) {
        self.count += more.count;
        self.wait_ns += more.wait_ns;
        self.lost_ns += more.lost_ns;
    }
}

/// The waits of a pair's wakee.
#[derive(Debug, Clone, Default)]
pub struct PairWaits {
    /// Begun by the waker's wakeups, by verdict.
    woken: Pair<[Sum; VERDICTS]>,
    /// Within the runs that these began.
    preempted: Sum,
    /// When the pair was seen on more than one CPU last, and the CPU it is on since.
    together: Option<OneCpu>,
    /// Of the waits begun by wakeups, those since then.
    since: usize,
}

const VERDICTS: usize = Verdict::ALL.len();
const READINGS: [Reading; 2] = [Reading::Seen, Reading::Any];

/// Where in a list a pair is.
pub type Slots = FxHashMap<(u32, u32), usize>;

/// The waits of these pairs, whose pids are given by slot.
pub fn of_pairs(scope: &Scope, slots: &Slots, pids: &[(i32, i32)]) -> PolarsResult<Vec<PairWaits>> {
    let together = |&(waker, wakee): &(i32, i32)| {
        let start_ns = scope.facts.config.start_ns;
        together(scope.facts.survey, waker, wakee, start_ns)
    };
    let none: Vec<PairWaits> = pids
        .iter()
        .map(|pids| PairWaits {
            together: together(pids),
            ..PairWaits::default()
        })
        .collect();
    let start = || (none.clone(), Scratch::default());
    let (waits, _) = scope.waits().fold(
        &COLUMNS,
        start,
        |(waits, scratch), block| take(waits, slots, block, scratch),
        |(waits, _), (more, _)| {
            let pairs = waits.iter_mut().zip(more);
            pairs.for_each(|(waits, more)| waits.join(&more));
        },
    )?;
    Ok(waits)
}

const COLUMNS: [&str; 10] = [
    "waker",
    "task",
    "origin",
    "verdict_seen",
    "verdict_any",
    "in_window",
    "start_ns",
    "wait_ns",
    "lost_seen_ns",
    "lost_any_ns",
];

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    numbers: [Vec<u32>; 2],
    codes: [Vec<u8>; 4],
    times: [Vec<i64>; 4],
}

fn take(
    waits: &mut [PairWaits],
    slots: &Slots,
    block: &Block,
    scratch: &mut Scratch,
) -> PolarsResult<()> {
    let [wakers, tasks] = &mut scratch.numbers;
    let [origins, seen, any, counted] = &mut scratch.codes;
    let [starts, times, lost_seen, lost_any] = &mut scratch.times;
    let wakers = block.numbers("waker", wakers)?;
    let tasks = block.numbers("task", tasks)?;
    let origins = block.codes("origin", origins)?;
    let seen = block.codes("verdict_seen", seen)?;
    let any = block.codes("verdict_any", any)?;
    let counted = block.codes("in_window", counted)?;
    let starts = block.times("start_ns", starts)?;
    let times = block.times("wait_ns", times)?;
    let lost_seen = block.times("lost_seen_ns", lost_seen)?;
    let lost_any = block.times("lost_any_ns", lost_any)?;
    for (row, pair) in wakers.iter().zip(tasks).enumerate() {
        if *pair.0 == NO_NUMBER {
            continue;
        }
        let slot = slots.get(&(*pair.0, *pair.1));
        let Some(waits) = slot.and_then(|slot| waits.get_mut(*slot)) else {
            continue;
        };
        waits.add(&Wait {
            origin: origins[row],
            verdict: Pair([seen[row], any[row]]),
            counted: counted[row] == 1,
            start_ns: starts[row],
            wait_ns: times[row],
            lost_ns: Pair([lost_seen[row], lost_any[row]]),
        });
    }
    Ok(())
}

/// One wait of a pair's wakee, in codes.
struct Wait {
    origin: u8,
    verdict: Pair<u8>,
    counted: bool,
    start_ns: i64,
    wait_ns: i64,
    lost_ns: Pair<i64>,
}

impl PairWaits {
    fn add(&mut self, wait: &Wait) {
        let sum = |lost_ns| Sum {
            count: u64::from(wait.counted),
            wait_ns: wait.wait_ns,
            lost_ns,
        };
        if wait.origin == Origin::Preempted.code() {
            self.preempted.add(&sum(0));
        } else if wait.origin == Origin::Wakeup.code() || wait.origin == Origin::New.code() {
            let since = self.together.is_some_and(|t| wait.start_ns >= t.since_ns);
            self.since += usize::from(since && wait.counted);
            for reading in READINGS {
                let code = usize::from(wait.verdict[reading]);
                if let Some(of_verdict) = self.woken[reading].get_mut(code) {
                    of_verdict.add(&sum(wait.lost_ns[reading]));
                }
            }
        }
    }

    fn join(&mut self, more: &PairWaits) {
        self.preempted.add(&more.preempted);
        self.since += more.since;
        for reading in READINGS {
            let verdicts = self.woken[reading].iter_mut().zip(&more.woken[reading]);
            verdicts.for_each(|(sum, more)| sum.add(more));
        }
    }

    fn woken_ns(&self) -> i64 {
        self.woken[Reading::Any].iter().map(|sum| sum.wait_ns).sum()
    }

    /// Both kinds together: what shares are of.
    fn total_ns(&self) -> i64 {
        self.woken_ns() + self.preempted.wait_ns
    }

    /// The waits that wakeups began, by verdict. Shares are of these and of [`preempted`](Self::preempted) together.
    pub fn by_verdict(&self, scope: &Scope) -> ByWord<VerdictFacts> {
        by_word(Verdict::ALL, Verdict::as_str, |verdict| {
            let of = |reading: Reading| self.woken[reading][usize::from(verdict.code())];
            VerdictFacts {
                count: scope.readings(|reading| of(reading).count),
                wait_ns: scope.readings(|reading| of(reading).wait_ns),
                wait_share: scope.readings(|reading| self.share(of(reading).wait_ns)),
                lost_ns: scope.readings(|reading| of(reading).lost_ns),
                lost_share: scope.readings(|reading| self.share(of(reading).lost_ns)),
            }
        })
    }

    /// The wakee's waits within the runs that the wakeups began.
    pub fn preempted(&self) -> OriginFacts {
        OriginFacts {
            count: self.preempted.count,
            wait_ns: self.preempted.wait_ns,
            wait_share: self.share(self.preempted.wait_ns),
        }
    }

    /// Since when both are on one CPU, if there were enough wakeups since to call it so.
    pub fn one_cpu(&self) -> Option<OneCpu> {
        self.together.filter(|_| self.since >= LEAST_SAMPLES)
    }

    fn share(&self, ns: i64) -> f64 {
        match self.total_ns() {
            0 => 0.0,
            total => ns as f64 / total as f64,
        }
    }
}

/// The CPU on which both pids were seen last, and when one of them was seen on another.
fn together(survey: &Survey, waker: i32, wakee: i32, start_ns: i64) -> Option<OneCpu> {
    let sightings = |pid| survey.sightings.get(&pid);
    let (ours, theirs) = (sightings(waker)?, sightings(wakee)?);
    let last = |of: &[crate::replay::survey::Sighting]| {
        let last = of.iter().max_by_key(|sighting| sighting.last_ns);
        last.map(|sighting| sighting.cpu)
    };
    let cpu = last(ours).filter(|cpu| last(theirs) == Some(*cpu))?;
    let elsewhere = ours.iter().chain(theirs).filter(|s| s.cpu != cpu);
    let since_ns = elsewhere.map(|s| s.last_ns).max().unwrap_or(start_ns);
    Some(OneCpu { cpu, since_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::survey::Sighting;

    fn survey(sightings: &[(i32, u32, i64)]) -> Survey {
        let mut survey = Survey::default();
        for &(pid, cpu, last_ns) in sightings {
            survey.sightings.entry(pid).or_default().push(Sighting {
                cpu,
                first_ns: 0,
                last_ns,
            });
        }
        survey
    }

    #[test]
    fn together_from_when_the_later_of_both_was_elsewhere_last() {
        let both = survey(&[(1, 3, 40), (1, 0, 900), (2, 0, 800), (2, 5, 70)]);
        let since = together(&both, 1, 2, 0);
        assert_eq!(
            since,
            Some(OneCpu {
                cpu: 0,
                since_ns: 70
            })
        );
        let apart = survey(&[(1, 3, 40), (1, 0, 900), (2, 0, 70), (2, 5, 800)]);
        assert_eq!(together(&apart, 1, 2, 0), None);
        let always = survey(&[(1, 0, 900), (2, 0, 800)]);
        assert_eq!(
            together(&always, 1, 2, 7),
            Some(OneCpu {
                cpu: 0,
                since_ns: 7
            })
        );
        assert_eq!(together(&always, 1, 3, 7), None);
    }
}
