//! Interrupts between CPUs in a few lines.

use std::cmp::Reverse;

use super::table::push_paragraph;
use super::units::{count, counted, duration};
use crate::attribute::answer::{Ipis, Known, Tlb};
use crate::replay::words::IpiKind;

/// Most kinds that are named.
const NAMED: usize = 3;

/// Puts interrupts behind `out`, in at most six lines.
pub fn push(ipis: &Ipis, out: &mut String) {
    let mut sentences = vec![kinds(ipis)];
    sentences.extend(times(ipis));
    push_paragraph(out, "Interrupts: ", &sentences.join("; "), None);
    if let Known::Value(tlb) = &ipis.tlb
        && tlb.flushes > 0
    {
        push_paragraph(out, "TLB: ", &shootdowns(tlb), None);
    }
}

/// `3,883 between CPUs: 1,931 calls, 1,923 for queued wakeups, …; 42 polled`.
fn kinds(ipis: &Ipis) -> String {
    let mut kinds: Vec<(&str, u64)> = IpiKind::ALL
        .iter()
        .map(|kind| (name(*kind), *ipis.by_kind.get(kind.as_str()).unwrap_or(&0)))
        .filter(|(_, n)| *n > 0)
        .collect();
    kinds.sort_by_key(|(_, n)| Reverse(*n));
    let what = match ipis.counted {
        "sends" => "between CPUs",
        _ => "handled (sends are not recorded)",
    };
    let mut text = format!("{} {what}", count(ipis.total));
    let mut parts: Vec<String> = kinds
        .iter()
        .take(NAMED)
        .map(|(name, n)| match *name {
            CALL => counted(*n, name),
            name => format!("{} {name}", count(*n)),
        })
        .collect();
    let rest: u64 = kinds.iter().skip(NAMED).map(|(_, n)| n).sum();
    if rest > 0 {
        parts.push(format!("{} more", count(rest)));
    }
    if !parts.is_empty() {
        text += &format!(": {}", parts.join(", "));
    }
    if ipis.polled.total > 0 {
        text += &format!("; {} spared by polling", count(ipis.polled.total));
    }
    text
}

/// The one name that is a noun.
const CALL: &str = "call";

fn name(kind: IpiKind) -> &'static str {
    match kind {
        IpiKind::Wakeup => "for queued wakeups",
        IpiKind::WakeupReschedule => "for direct wakeups",
        IpiKind::Reschedule => "to reschedule",
        IpiKind::Tlb => "for TLB flushes",
        IpiKind::Call => CALL,
        IpiKind::IrqWork => "to itself",
        IpiKind::Other => "unexplained",
    }
}

/// Latency, and whose time handlers took.
fn times(ipis: &Ipis) -> Vec<String> {
    let mut times = Vec::new();
    if let Known::Value(latency) = &ipis.latency_ns {
        times.push(format!(
            "median {} to the handler, p99 {}",
            duration(latency.p50),
            duration(latency.p99)
        ));
    }
    if let Known::Value(handlers) = &ipis.handlers {
        let mut text = format!(
            "handlers took {} from tasks, {} from idle CPUs",
            duration(handlers.stolen_ns),
            duration(handlers.idle_ns)
        );
        if handlers.unexplained > 0 && ipis.counted == "sends" {
            text += &format!(" ({} without a recorded send)", count(handlers.unexplained));
        }
        times.push(text);
    }
    times
}

/// `448 shootdowns and 610 local flushes, 125 full; …`.
fn shootdowns(tlb: &Tlb) -> String {
    let mut text = format!(
        "{} and {}, {} full",
        counted(tlb.remote, "shootdown"),
        counted(tlb.local, "local flush"),
        count(tlb.full)
    );
    if let Known::Value(targets) = &tlb.targets
        && tlb.remote > 0
    {
        text += &format!("; {} asked", counted(*targets, "CPU"));
    }
    match (&tlb.initiator_wait_ns, &tlb.initiator_wait_total_ns) {
        (Known::Value(wait), Known::Value(total)) => {
            text += &format!(
                "; initiators waited {} (median {})",
                duration(*total),
                duration(wait.p50)
            );
        }
        _ if tlb.remote > 0 => text += "; initiators' wait unknown",
        _ => {}
    }
    if let Known::Value(victims) = &tlb.victims_ns
        && tlb.remote > 0
    {
        text += &format!("; {} taken from victims", duration(*victims));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::attribute::answer::{ByWord, Handlers, Quantiles, Requests};
    use crate::replay::words::FlushReason;

    fn tlb() -> Tlb {
        Tlb {
            flushes: 1_058,
            local: 610,
            remote: 448,
            by_reason: FlushReason::ALL.iter().map(|r| (r.as_str(), 0)).collect(),
            pages_log2: vec![1],
            empty: 0,
            full: 125,
            censored_above_pages: 33,
            ceiling_assumed: true,
            ranges: Known::unknown("no probe"),
            targets: Known::Value(160),
            targets_log2: Known::Value(vec![160]),
            untargeted: Known::Value(288),
            ipis_by_distance: Known::unknown("no"),
            initiator_wait_ns: Known::Value(Quantiles {
                count: 160,
                p50: 9_730,
                p99: 24_322,
                max: 28_167,
            }),
            initiator_wait_total_ns: Known::Value(1_703_268),
            victims_ns: Known::Value(221_394),
            processes: Vec::new(),
        }
    }

    fn ipis(tlb: Known<Tlb>) -> Ipis {
        let counts = [5, 1_995, 16, 160, 1_822, 7, 0];
        let by_kind: ByWord<u64> = IpiKind::ALL
            .iter()
            .map(|kind| kind.as_str())
            .zip(counts)
            .collect();
        Ipis {
            counted: "sends",
            total: counts.iter().sum(),
            by_kind: by_kind.clone(),
            by_distance: BTreeMap::new(),
            by_fate: BTreeMap::new(),
            latency_ns: Known::Value(Quantiles {
                count: 4_000,
                p50: 94_577,
                p99: 2_916_528,
                max: 3_642_388,
            }),
            latency_by_kind_ns: BTreeMap::new(),
            polled: Requests { total: 28, by_kind },
            queued: Known::unknown("no csd"),
            handlers: Known::Value(Handlers {
                count: 3_998,
                unexplained: 2,
                untimed: 0,
                ns: 52_822_654,
                stolen_ns: 90_660,
                idle_ns: 52_731_994,
                unknown_ns: 0,
            }),
            stolen_ns: Known::Value(90_660),
            stolen_by_kind_ns: Known::unknown("not asked"),
            stolen_from: Vec::new(),
            functions: Vec::new(),
            paths: BTreeMap::new(),
            tlb,
        }
    }

    fn pushed(ipis: &Ipis) -> String {
        let mut out = String::new();
        push(ipis, &mut out);
        out
    }

    #[test]
    fn everything_fits_six_lines_of_eighty() {
        let out = pushed(&ipis(Known::Value(tlb())));
        assert_eq!(
            out,
            "Interrupts: 4,005 between CPUs: 1,995 for direct wakeups, 1,822 calls, 160 for\n\
             \x20           TLB flushes, 28 more; 28 spared by polling; median 94.6 µs to the\n\
             \x20           handler, p99 2.9 ms; handlers took 90.7 µs from tasks, 52.7 ms from\n\
             \x20           idle CPUs (2 without a recorded send)\n\
             TLB: 448 shootdowns and 610 local flushes, 125 full; 160 CPUs asked; initiators\n\
             \x20    waited 1.7 ms (median 9.7 µs); 221 µs taken from victims\n"
        );
        assert!(out.lines().count() <= 6);
        assert!(out.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn what_is_not_known_is_not_printed_as_nothing() {
        let mut few = ipis(Known::unknown("tlb_flush is not recorded"));
        few.counted = "handlers";
        few.latency_ns = Known::unknown("no sends");
        few.handlers = Known::unknown("no handlers");
        let out = pushed(&few);
        assert!(!out.contains("TLB:") && !out.contains("median") && !out.contains("took"));
        assert!(out.contains("sends are not recorded"));
        let mut unseen = tlb();
        unseen.initiator_wait_ns = Known::unknown("no csd events");
        let out = pushed(&ipis(Known::Value(unseen)));
        assert!(out.contains("wait unknown"), "{out}");
    }
}
