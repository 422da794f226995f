//! Why tasks waited, and what of it was lost capacity (`analysis` §3).

use std::collections::BTreeMap;

use polars::prelude::*;

use super::answer::{OriginFacts, Readings, VerdictFacts, Waits, Withdrawn, Withheld};
use super::scope::{Scope, lost_column};
use super::wakeups::by_word;
use crate::replay::words::{Origin, Pair, Reading, Verdict};

/// The waits of one combination of origin and verdicts.
#[derive(Debug, Clone, Copy)]
struct Group {
    origin: u8,
    verdict: Pair<u8>,
    count: u64,
    wait_ns: i64,
    lost_ns: Pair<i64>,
}

/// Every wait by origin and by verdict. Counts are those of waits that start in the window; times are all that
/// lies in it.
pub fn waits(scope: &Scope) -> PolarsResult<Waits> {
    let groups = groups(scope)?;
    let total_ns = groups.iter().map(|group| group.wait_ns).sum();
    let share = |ns: i64| match total_ns {
        0 => 0.0,
        total => ns as f64 / total as f64,
    };
    let counts = scope.facts.counts;
    Ok(Waits {
        count: groups.iter().map(|group| group.count).sum(),
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
        },
        withdrawn: Withdrawn {
            lost_events: counts.withdrawn_waits,
            inconsistent: counts.inconsistent_waits,
            lost_ns: scope.readings(|reading| counts.withdrawn_lost_ns[reading]),
        },
    })
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

fn of_verdict(
    scope: &Scope,
    groups: &[Group],
    verdict: Verdict,
    share: &dyn Fn(i64) -> f64,
) -> VerdictFacts {
    let of = |reading: Reading| {
        let code = verdict.code();
        groups.iter().filter(move |group| group.verdict[reading] == code)
    };
    let wait_ns: Readings<i64> = scope.readings(|r| of(r).map(|group| group.wait_ns).sum());
    VerdictFacts {
        count: scope.readings(|r| of(r).map(|group| group.count).sum()),
        wait_ns,
        wait_share: Readings {
            seen: wait_ns.seen.map(share),
            any: wait_ns.any.map(share),
        },
        lost_ns: scope.readings(|r| of(r).map(|group| group.lost_ns[r]).sum()),
    }
}

fn groups(scope: &Scope) -> PolarsResult<Vec<Group>> {
    let code = |name: &str| col(name).cast(DataType::UInt32);
    // One number for the three codes, each below 16: grouping by one column is much faster than by three.
    let key = code("origin") * lit(256_u32) + code("verdict_seen") * lit(16_u32) + code("verdict_any");
    let seen = lost_column(Reading::Seen);
    let any = lost_column(Reading::Any);
    let sums = [
        col("in_window").sum().cast(DataType::UInt64).alias("count"),
        col("wait_ns").sum(),
        col(seen).sum(),
        col(any).sum(),
    ];
    let frame = scope
        .waits()?
        .group_by([key.alias("key")])
        .agg(sums)
        .collect()?;
    let keys = frame.column("key")?.u32()?.iter();
    let counts = frame.column("count")?.u64()?.iter();
    let waits = frame.column("wait_ns")?.i64()?.iter();
    let lost_seen = frame.column(seen)?.i64()?.iter();
    let lost_any = frame.column(any)?.i64()?.iter();
    let mut groups = BTreeMap::new();
    for ((((key, count), wait), seen), any) in keys.zip(counts).zip(waits).zip(lost_seen).zip(lost_any) {
        let key = key.unwrap_or(0);
        let group = Group {
            origin: (key >> 8) as u8,
            verdict: Pair([(key >> 4 & 15) as u8, (key & 15) as u8]),
            count: count.unwrap_or(0),
            wait_ns: wait.unwrap_or(0),
            lost_ns: Pair([seen.unwrap_or(0), any.unwrap_or(0)]),
        };
        groups.insert(key, group);
    }
    Ok(groups.into_values().collect())
}
