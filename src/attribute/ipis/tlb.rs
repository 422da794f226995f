//! TLB shootdowns: how large, whom they ask, who waits and who is interrupted.

use std::cmp::Reverse;

use polars::prelude::PolarsResult;
use rustc_hash::FxHashMap;

use super::requests::Found;
use super::victims::Names;
use super::{handlers, queueing, sends};
use crate::attribute::answer::{FlushRanges, Known, Tlb, TlbProcess};
use crate::attribute::blocks::{Block, NO_NUMBER, NO_TIME};
use crate::attribute::durations::Durations;
use crate::attribute::scope::{Facts, Scope};
use crate::attribute::wakeups::{by_distance, by_word, known};
use crate::replay::words::{FlushReason, IpiKind, IpiRoad};
use crate::wording::many;

/// The kernel's default of `tlb_single_page_flush_ceiling`, arch/x86/mm/tlb.c, since 3.15.
const DEFAULT_CEILING: u32 = 33;

/// What stands for the whole TLB, and for all addresses.
const ALL: i64 = -1;

/// Counts by size: the k-th of 2^k or more, and less than twice as many.
#[derive(Debug, Clone, Default)]
struct Log2(Vec<u64>);

impl Log2 {
    fn push(&mut self, size: i64) {
        let Some(bucket) = u64::try_from(size).ok().and_then(u64::checked_ilog2) else {
            return;
        };
        let bucket = bucket as usize;
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, 0);
        }
        if let Some(count) = self.0.get_mut(bucket) {
            *count += 1;
        }
    }

    fn join(&mut self, other: &Log2) {
        let buckets = self.0.len().max(other.0.len());
        self.0.resize(buckets, 0);
        for (all, more) in self.0.iter_mut().zip(&other.0) {
            *all += more;
        }
    }
}

/// One process' part.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    flushes: u64,
    remote: u64,
    wait_ns: i64,
    victim_ns: i64,
}

/// The flushes that count, gone through once.
#[derive(Debug, Default)]
struct Flushes {
    local: u64,
    remote: u64,
    pages: Log2,
    empty: u64,
    full: u64,
    ranges: u64,
    range_pages: Log2,
    whole: u64,
    made_full: u64,
    unannounced: u64,
    targets: u64,
    targets_log2: Log2,
    untargeted: u64,
    waits: Durations,
    wait_ns: i64,
    /// Remote flushes that asked somebody, and of which not every acknowledgement was seen.
    unacknowledged: u64,
    by_task: FxHashMap<u32, Part>,
}

#[derive(Default)]
struct Scratch {
    reasons: Vec<u8>,
    times: [Vec<i64>; 3],
    numbers: [Vec<u32>; 2],
}

/// Shootdowns by the selected tasks on the selected CPUs.
pub fn tlb(scope: &Scope, found: &Found, names: &Names) -> PolarsResult<Known<Tlb>> {
    let facts = &scope.facts;
    if facts.recorded("tlb_flush").unwrap_or(0) == 0 {
        return Ok(Known::unknown(
            "tlb_flush is not recorded, or did not occur (x86 has it)",
        ));
    }
    let flushes = Flushes::take(scope)?;
    let with_sends = |value| match sends(facts) || queueing(facts) {
        true => Known::Value(value),
        false => Known::unknown("sends are not recorded (ipi_send_cpu: 6.4 on)"),
    };
    let distances = by_distance(|distance| {
        found
            .count(|r| (r.road, r.kind, r.distance) == (IpiRoad::Interrupt, IpiKind::Tlb, distance))
    });
    let ceiling = facts.config.ipis.flush_ceiling;
    Ok(Known::Value(Tlb {
        flushes: flushes.local + flushes.remote,
        local: flushes.local,
        remote: flushes.remote,
        by_reason: by_word(FlushReason::ALL, FlushReason::as_str, |reason| {
            let counts = &facts.counts.tlb_flushes;
            counts.get(reason as usize).copied().unwrap_or(0)
        }),
        empty: flushes.empty,
        full: flushes.full,
        censored_above_pages: ceiling.unwrap_or(DEFAULT_CEILING),
        ceiling_assumed: ceiling.is_none(),
        ranges: flushes.ranges(),
        targets: with_sends(flushes.targets),
        untargeted: with_sends(flushes.untargeted),
        ipis_by_distance: match sends(facts) {
            true => Known::Value(distances),
            false => Known::unknown("sends are not recorded (ipi_send_cpu: 6.4 on)"),
        },
        initiator_wait_ns: known(flushes.waits.quantiles(), || flushes.no_wait(facts)),
        initiator_wait_total_ns: match flushes.waits.any() {
            true => Known::Value(flushes.wait_ns),
            false => Known::unknown(flushes.no_wait(facts)),
        },
        victims_ns: match handlers(facts) {
            true => Known::Value(found.times(IpiKind::Tlb).stolen_ns),
            false => Known::unknown("handlers are not recorded"),
        },
        processes: flushes.processes(found, names, scope.top),
        targets_log2: match sends(facts) || queueing(facts) {
            true => Known::Value(flushes.targets_log2.0),
            false => Known::unknown("sends are not recorded (ipi_send_cpu: 6.4 on)"),
        },
        pages_log2: flushes.pages.0,
    }))
}

impl Flushes {
    fn take(scope: &Scope) -> PolarsResult<Self> {
        let columns = [
            "reason",
            "pages",
            "range_pages",
            "targets",
            "wait_ns",
            "task",
        ];
        let (flushes, _) = scope.flushes().counted().fold(
            &columns,
            <(Flushes, Scratch)>::default,
            |(flushes, scratch), block| flushes.block(block, scratch),
            |(flushes, _), (other, _)| flushes.join(other),
        )?;
        Ok(flushes)
    }

    fn block(&mut self, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
        let [pages, ranges, waits] = &mut scratch.times;
        let [targets, tasks] = &mut scratch.numbers;
        let reasons = block.codes("reason", &mut scratch.reasons)?.iter();
        let sizes = block.times("pages", pages)?.iter();
        let sizes = sizes.zip(block.times("range_pages", ranges)?);
        let asked = block.numbers("targets", targets)?.iter();
        let asked = asked.zip(block.times("wait_ns", waits)?);
        let rows = reasons.zip(sizes).zip(asked);
        for (((reason, (pages, range)), (targets, wait)), task) in
            rows.zip(block.numbers("task", tasks)?)
        {
            self.note_range(*pages, *range);
            let remote = *reason == FlushReason::RemoteSend.code();
            let local = *reason == FlushReason::LocalMmShootdown.code();
            if !remote && !local {
                continue;
            }
            self.remote += u64::from(remote);
            self.local += u64::from(local);
            match *pages {
                ALL => self.full += 1,
                0 => self.empty += 1,
                pages => self.pages.push(pages),
            }
            if remote && *targets != NO_NUMBER {
                self.note_targets(*targets, *wait);
            }
            if *task != NO_NUMBER {
                let part = self.by_task.entry(*task).or_default();
                part.flushes += 1;
                part.remote += u64::from(remote);
                part.wait_ns += if *wait == NO_TIME { 0 } else { *wait };
            }
        }
        Ok(())
    }

    fn note_range(&mut self, pages: i64, range: i64) {
        if range == NO_TIME {
            return;
        }
        self.ranges += 1;
        self.unannounced += u64::from(pages == NO_TIME);
        match range {
            ALL => self.whole += 1,
            range => {
                self.range_pages.push(range);
                self.made_full += u64::from(pages == ALL);
            }
        }
    }

    fn note_targets(&mut self, targets: u32, wait_ns: i64) {
        self.targets += u64::from(targets);
        self.targets_log2.push(i64::from(targets));
        match (targets, wait_ns) {
            (0, _) => self.untargeted += 1,
            (_, NO_TIME) => self.unacknowledged += 1,
            (_, ns) => {
                self.waits.push(ns);
                self.wait_ns += ns;
            }
        }
    }

    fn join(&mut self, other: Flushes) {
        self.local += other.local;
        self.remote += other.remote;
        self.pages.join(&other.pages);
        self.empty += other.empty;
        self.full += other.full;
        self.ranges += other.ranges;
        self.range_pages.join(&other.range_pages);
        self.whole += other.whole;
        self.made_full += other.made_full;
        self.unannounced += other.unannounced;
        self.targets += other.targets;
        self.targets_log2.join(&other.targets_log2);
        self.untargeted += other.untargeted;
        self.waits.join(other.waits);
        self.wait_ns += other.wait_ns;
        self.unacknowledged += other.unacknowledged;
        for (task, more) in other.by_task {
            let part = self.by_task.entry(task).or_default();
            part.flushes += more.flushes;
            part.remote += more.remote;
            part.wait_ns += more.wait_ns;
        }
    }

    fn ranges(&self) -> Known<FlushRanges> {
        if self.ranges == 0 {
            return Known::unknown(
                "no probe of flush_tlb_mm_range is in the trace (record with --probes)",
            );
        }
        Known::Value(FlushRanges {
            count: self.ranges,
            pages_log2: self.range_pages.0.clone(),
            whole: self.whole,
            made_full: self.made_full,
            unannounced: self.unannounced,
        })
    }

    /// Why no wait is known.
    fn no_wait(&self, facts: &Facts) -> String {
        let exits = facts.recorded("csd_function_exit").unwrap_or(0);
        match (self.unacknowledged, exits) {
            (0, _) => "no flush was seen to ask another CPU".to_owned(),
            (_, 0) => "csd_function_exit is not recorded (6.5 on): acknowledgements are not seen"
                .to_owned(),
            (flushes, _) => {
                format!(
                    "not every acknowledgement of the {} that asked was seen",
                    many(flushes, "flush")
                )
            }
        }
    }

    fn processes(&self, found: &Found, names: &Names, top: usize) -> Vec<TlbProcess> {
        let mut processes: FxHashMap<i32, Part> = FxHashMap::default();
        for (task, own) in &self.by_task {
            let Some(pid) = names.process(*task) else {
                continue;
            };
            let part = processes.entry(pid).or_default();
            part.flushes += own.flushes;
            part.remote += own.remote;
            part.wait_ns += own.wait_ns;
        }
        let victims = found.taken.iter().filter(|(_, taken)| taken.tlb_ns > 0);
        for (task, taken) in victims {
            if let Some(pid) = names.process(*task) {
                processes.entry(pid).or_default().victim_ns += taken.tlb_ns;
            }
        }
        let mut worst: Vec<_> = processes.into_iter().collect();
        worst.sort_unstable_by_key(|(pid, part)| {
            let cost = part.wait_ns + part.victim_ns;
            (Reverse(cost), Reverse(part.flushes), *pid)
        });
        let worst = worst.into_iter().take(top);
        worst
            .map(|(pid, part)| TlbProcess {
                name: names.of_process(pid),
                pid,
                flushes: part.flushes,
                remote: part.remote,
                wait_ns: part.wait_ns,
                victim_ns: part.victim_ns,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_their_power_of_two() {
        let mut sizes = Log2::default();
        for size in [0, -1, 1, 2, 3, 4, 32, 33, 63, 64] {
            sizes.push(size);
        }
        assert_eq!(sizes.0, [1, 2, 1, 0, 0, 3, 1]);
        let mut few = Log2::default();
        few.push(2);
        few.join(&sizes);
        assert_eq!(few.0, [1, 3, 1, 0, 0, 3, 1]);
    }
}
