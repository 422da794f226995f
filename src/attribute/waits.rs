//! Why tasks waited, and what of it was lost capacity (`analysis` §3).

use polars::prelude::*;

use super::answer::{OriginFacts, Readings, VerdictFacts, Waits, Withdrawn, Withheld};
use super::blocks::Block;
use super::fitness::kept_waits;
use super::scope::Scope;
use super::wakeups::by_word;
use crate::replay::words::{Origin, Pair, Reading, Verdict};

/// The waits of one combination of origin and verdicts.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    origin: u8,
    verdict: Pair<u8>,
    count: u64,
    wait_ns: i64,
    lost_ns: Pair<i64>,
}

impl Group {
    fn add(&mut self, more: &Group) {
        self.count += more.count;
        self.wait_ns += more.wait_ns;
        for reading in [Reading::Seen, Reading::Any] {
            self.lost_ns[reading] += more.lost_ns[reading];
        }
    }
}

/// Every wait by origin and by verdict. Counts are those of waits that start in the window; times are all that
/// lies in it.
pub fn waits(scope: &Scope) -> PolarsResult<Waits> {
    let groups = groups(scope)?;
    let total_ns: i64 = groups.iter().map(|group| group.wait_ns).sum();
    let share = |ns: i64| of(ns, total_ns);
    let counts = scope.facts.counts;
    let lost_ns = scope.readings(|reading| counts.withdrawn_lost_ns[reading]);
    let with_withdrawn = |ns: i64| of(ns, total_ns.saturating_add(counts.withdrawn_ns));
    let with_withheld = total_ns.saturating_add(counts.withheld_ns);
    Ok(Waits {
        count: groups.iter().map(|group| group.count).sum(),
        coverage: kept_waits(&scope.facts),
        total_ns,
        by_origin: by_word(Origin::ALL, Origin::as_str, |origin| {
            of_origin(&groups, origin, &share)
        }),
        by_verdict: by_word(Verdict::ALL, Verdict::as_str, |verdict| {
            of_verdict(scope, &groups, verdict, &share)
        }),
        withheld: Withheld {
            count: counts.withheld,
            ns: counts.withheld_ns,
            share: of(counts.withheld_ns, with_withheld),
        },
        withdrawn: Withdrawn {
            lost_events: counts.withdrawn_waits,
            inconsistent: counts.inconsistent_waits,
            ns: counts.withdrawn_ns,
            share: with_withdrawn(counts.withdrawn_ns),
            lost_ns,
            lost_share: shares(lost_ns, &with_withdrawn),
        },
    })
}

fn of(ns: i64, total_ns: i64) -> f64 {
    match total_ns {
        0 => 0.0,
        total => ns as f64 / total as f64,
    }
}

fn of_origin(groups: &[Group], origin: Origin, share: &dyn Fn(i64) -> f64) -> OriginFacts {
    let of = || groups.iter().filter(|group| group.origin == origin.code());
    let wait_ns = of().map(|group| group.wait_ns).sum();
    OriginFacts {
        count: of().map(|group| group.count).sum(),
        wait_ns,
        wait_share: share(wait_ns),
    }
}

fn shares(ns: Readings<i64>, share: &dyn Fn(i64) -> f64) -> Readings<f64> {
    Readings {
        seen: ns.seen.map(share),
        any: ns.any.map(share),
    }
}

fn of_verdict(
    scope: &Scope,
    groups: &[Group],
    verdict: Verdict,
    share: &dyn Fn(i64) -> f64,
) -> VerdictFacts {
    let of = |reading: Reading| {
        let code = verdict.code();
        groups
            .iter()
            .filter(move |group| group.verdict[reading] == code)
    };
    let wait_ns: Readings<i64> = scope.readings(|r| of(r).map(|group| group.wait_ns).sum());
    let lost_ns = scope.readings(|r| of(r).map(|group| group.lost_ns[r]).sum());
    VerdictFacts {
        count: scope.readings(|r| of(r).map(|group| group.count).sum()),
        wait_ns,
        wait_share: shares(wait_ns, share),
        lost_ns,
        lost_share: shares(lost_ns, share),
    }
}

/// The waits by origin and both verdicts. Each code is below 16, so that together they number a group directly.
fn groups(scope: &Scope) -> PolarsResult<Vec<Group>> {
    let start = || (vec![Group::default(); 16 * 16 * 16], Scratch::default());
    let (mut groups, _) = scope.waits().fold(
        &COLUMNS,
        start,
        |(groups, scratch), block| take(groups, block, scratch),
        |(groups, _), (more, _)| {
            let pairs = groups.iter_mut().zip(more);
            pairs.for_each(|(group, more)| group.add(&more));
        },
    )?;
    for (key, group) in groups.iter_mut().enumerate() {
        group.origin = (key >> 8) as u8;
        group.verdict = Pair([(key >> 4 & 15) as u8, (key & 15) as u8]);
    }
    Ok(groups)
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    codes: [Vec<u8>; 4],
    times: [Vec<i64>; 3],
}

fn take(groups: &mut [Group], block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
    let [
        origin,
        verdict_seen,
        verdict_any,
        wait,
        lost_seen,
        lost_any,
        in_window,
    ] = COLUMNS;
    let [codes_0, codes_1, codes_2, codes_3] = &mut scratch.codes;
    let [times_0, times_1, times_2] = &mut scratch.times;
    let kinds = block
        .codes(origin, codes_0)?
        .iter()
        .zip(block.codes(verdict_seen, codes_1)?)
        .zip(block.codes(verdict_any, codes_2)?);
    let sums = block
        .times(wait, times_0)?
        .iter()
        .zip(block.times(lost_seen, times_1)?)
        .zip(block.times(lost_any, times_2)?);
    let counted = block.codes(in_window, codes_3)?;
    for ((((origin, seen), any), ((wait, lost_seen), lost_any)), counted) in
        kinds.zip(sums).zip(counted)
    {
        let code = |code: &u8| usize::from(code & 15);
        if let Some(group) = groups.get_mut(code(origin) << 8 | code(seen) << 4 | code(any)) {
            group.add(&Group {
                count: u64::from(*counted == 1),
                wait_ns: *wait,
                lost_ns: Pair([*lost_seen, *lost_any]),
                ..Group::default()
            });
        }
    }
    Ok(())
}

const COLUMNS: [&str; 7] = [
    "origin",
    "verdict_seen",
    "verdict_any",
    "wait_ns",
    "lost_seen_ns",
    "lost_any_ns",
    "in_window",
];

const _: () = assert!(Verdict::ALL.len() <= 16 && Origin::ALL.len() <= 16);
