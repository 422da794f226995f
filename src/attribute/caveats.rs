//! What a reader must know beside the numbers: each a full sentence, with its number, and only if it applies.

use super::Selection;
use super::answer::{Ledger, Wakeups};
use super::scope::{Facts, Scope};
use super::trace_facts::lost_events;
use crate::replay::survey::Survey;
use crate::replay::words::{Class, FlushReason, Reading};
use crate::wording::{agree, many, noun};
use ttwu_parsers::event::escape;

/// Most single faults that are listed.
const FAULTS: usize = 5;

/// All caveats that apply.
pub fn caveats(
    scope: &Scope,
    selection: &Selection,
    ledger: &Ledger,
    wakeups: &Wakeups,
) -> Vec<String> {
    let facts = &scope.facts;
    let notes = facts.meta.notes.iter();
    let notes = notes.map(|note| escape(note.as_bytes()));
    // CPUs without an LLC make the most figures partial: nothing is more needed to read them.
    let uncovered = facts.topology().uncovered();
    let warnings = facts.topology().warnings().iter();
    let warnings = warnings.filter(|warning| Some(*warning) != uncovered.as_ref());
    let mut told: Vec<String> = silence(facts.survey).into_iter().collect();
    told.extend(mixed_up(wakeups));
    told.extend(uncovered.iter().cloned().chain(notes));
    told.extend(warnings.cloned());
    told.extend(recording(facts));
    told.extend(damage(facts));
    told.extend(unknown_time(facts, ledger));
    told.extend(contradictions(facts));
    told.extend(open_ends(facts));
    told.extend(shootdowns(facts));
    told.extend(readings(facts));
    told.extend(selected(scope, selection));
    told
}

/// That no CPU has an event for most of the trace.
pub fn silence(survey: &Survey) -> Option<String> {
    let (start, end) = survey.span?;
    let seconds = |ns: i64| ns as f64 / 1e9;
    survey.times.silence().map(|ns| {
        format!(
            "no CPU has any event for {:.1} s of the trace's {:.1} s: the recording was paused, or stamps are damaged; --from and --to take one part",
            seconds(ns),
            seconds(end - start)
        )
    })
}

/// So many wakeups that no kernel makes are told first.
const MIXED_UP: u64 = 30;

/// That the CPUs' events do not fit each other.
fn mixed_up(wakeups: &Wakeups) -> Option<String> {
    let odd = wakeups.by_class.get(Class::Anomaly.as_str())?;
    (*odd >= MIXED_UP && odd * 20 > wakeups.total).then(|| {
        format!(
            "{odd} of {} were queued by a CPU that is neither the waker's nor the chosen one: the CPUs' data may be mixed up, or their clocks apart",
            many(wakeups.total, "wakeup")
        )
    })
}

/// A sentence if there is something to count.
fn some(count: u64, sentence: impl FnOnce(u64) -> String) -> Option<String> {
    (count > 0).then(|| sentence(count))
}

fn recording(facts: &Facts) -> Vec<String> {
    let clock = &facts.meta.clock;
    let drift = (!clock.global).then(|| {
        format!(
            "the clock `{}` may drift between CPUs, which can turn the order of events on two CPUs: record with a global clock such as `mono`",
            escape(clock.name.as_bytes())
        )
    });
    let model = facts.config.model.source.starts_with("assumed").then(|| {
        format!(
            "the trace names no kernel release; classes and verdicts follow the rules of {}.{} (--kernel-model changes it)",
            facts.config.model.version.0, facts.config.model.version.1
        )
    });
    let unannounced = facts.recorded("sched_migrate_task").is_none().then(|| {
        "sched_migrate_task is not recorded: tasks moved while they waited are noticed only when they run".to_owned()
    });
    let sends = (!facts.config.recorded.ipi_send && facts.config.recorded.waking).then(|| {
        "ipi_send_cpu is not recorded, so whether a wakeup sent an interrupt is inferred from the receiving side".to_owned()
    });
    let state = facts.record.fact("sched_ext").unwrap_or_default();
    let bpf = state.starts_with("enabled").then(|| {
        format!(
            "a BPF scheduler was on (sched_ext: {}): it moves its tasks as it dispatches them, which looks like a pull by an idle CPU (`newidle`) or a change of affinity",
            escape(state.as_bytes())
        )
    });
    [drift, model, unannounced, sends, bpf]
        .into_iter()
        .flatten()
        .collect()
}

fn damage(facts: &Facts) -> Vec<String> {
    let lost = some(lost_events(facts.survey, facts.meta), |lost| {
        format!(
            "{} lost: what their CPUs did meanwhile is counted as unknown",
            were(lost, "event")
        )
    });
    let unplaced = some(facts.meta.lost_unplaced, |lost| {
        format!(
            "of {} the trace does not tell where or when",
            many(lost, "lost event")
        )
    });
    let gaps: u64 = facts.survey.cpus.iter().map(|cpu| cpu.uncounted_gaps).sum();
    let uncounted = some(gaps, |gaps| {
        format!(
            "in {} an unknown number of events is missing",
            many(gaps, "gap")
        )
    });
    let bad = some(facts.survey.bad_cpus + facts.counts.bad_cpus, |bad| {
        format!(
            "{} a CPU that the trace cannot have, and left out",
            names(bad, "event")
        )
    });
    let faults = &facts.survey.faults;
    let total = some(faults.total(), |total| {
        format!(
            "the file is damaged in {}; only the damaged parts are left out",
            many(total, "place")
        )
    });
    let listed = faults.kept().iter().take(FAULTS).map(|fault| {
        let cpu = fault
            .cpu
            .map_or_else(String::new, |cpu| format!(" (CPU {cpu})"));
        format!(
            "byte {}{cpu}: {}",
            fault.offset,
            escape(fault.what.as_bytes())
        )
    });
    let single = [lost, unplaced, uncounted, bad, total];
    single.into_iter().flatten().chain(listed).collect()
}

fn were(count: u64, one: &str) -> String {
    format!("{} {}", many(count, one), agree(count, "was", "were"))
}

fn names(count: u64, one: &str) -> String {
    format!("{} {}", many(count, one), agree(count, "names", "name"))
}

/// `CPU 3 is`, `CPUs 3,5-6 are`.
fn cpus_are(cpus: &[u32]) -> String {
    let count = cpus.len() as u64;
    format!(
        "{} {} {}",
        noun(count, "CPU"),
        ttwu_parsers::topology::cpulist::format_list(cpus),
        agree(count, "is", "are")
    )
}

fn unknown_time(facts: &Facts, ledger: &Ledger) -> Vec<String> {
    let silent: Vec<u32> = facts
        .machine
        .cpus
        .ids()
        .iter()
        .copied()
        .filter(|id| {
            facts
                .survey
                .cpus
                .binary_search_by_key(id, |cpu| cpu.cpu)
                .is_err()
        })
        .collect();
    let silent = (!silent.is_empty()).then(|| {
        format!(
            "{} named in the trace without a single event: all that time is unknown",
            cpus_are(&silent)
        )
    });
    let unknown = (ledger.unknown_ns > 0).then(|| {
        format!(
            "for {:.2} % of the CPU time it is not known what the CPUs did: before their first events, and where events are missing",
            ledger.unknown_share * 100.0
        )
    });
    let no_cores = facts.topology().is_known() && facts.topology().cores().is_none();
    let cores = no_cores.then(|| {
        "SMT siblings are not known, so every CPU counts as a core of its own in waiting_llc_ns"
            .to_owned()
    });
    [silent, unknown, cores].into_iter().flatten().collect()
}

/// Tasks of which it is not known which process they are of, where it is known of others.
pub fn without_process(tasks: u64) -> Option<String> {
    some(tasks, |tasks| {
        format!(
            "of {} that ran it is not known which process they belong to: no process has them among its threads",
            many(tasks, "task")
        )
    })
}

fn contradictions(facts: &Facts) -> Vec<String> {
    let counts = facts.counts;
    let lost = counts.withdrawn_lost_ns;
    let most = lost[Reading::Seen].max(lost[Reading::Any]);
    let sentences = [
        some(counts.withdrawn_waits, |n| {
            format!("{} given up because events are missing in {}", were(n, "wait"), agree(n, "it", "them"))
        }),
        some(counts.inconsistent_waits, |n| {
            format!("{} given up because the events contradict each other", were(n, "wait"))
        }),
        (most > 0).then(|| {
            format!("{most} ns of waiting in the ledger belong to waits that were given up, and are in no verdict")
        }),
        some(counts.withdrawn_wakeups, |n| {
            format!("{} not followed to the end because events are missing", were(n, "wakeup"))
        }),
        some(counts.ran_without_wakeup, |n| {
            format!("{} a task ran although it was last seen to sleep: its wakeup is missing", times(n))
        }),
        some(counts.switch_mismatches, |n| {
            format!("{} a CPU switched away from another task than the one it was seen to run", times(n))
        }),
        some(counts.inferred_migrations, |n| {
            format!("{} a task ran on another CPU than the one it was queued on, without a recorded migration", times(n))
        }),
        some(counts.wakeups_without_waking, |n| {
            format!("{} no sched_waking before: class and latency are not known", lacks(n, "sched_wakeup"))
        }),
        some(counts.wakings_without_wakeup, |n| {
            format!("{} no sched_wakeup after", lacks(n, "sched_waking"))
        }),
        some(counts.masks_refuted, |n| {
            format!(
                "{} seen on CPUs that the machine record does not allow: what it says of affinity counts only up to then",
                were(n, "task")
            )
        }),
        some(counts.backward_stamps, |n| {
            format!("{} older than the one before, and taken as simultaneous", stamped(n))
        }),
    ];
    sentences.into_iter().flatten().collect()
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

fn lacks(count: u64, one: &str) -> String {
    format!("{count} {one} {}", agree(count, "has", "have"))
}

fn stamped(count: u64) -> String {
    format!(
        "{} of {} is",
        agree(count, "the stamp", "each stamp"),
        many(count, "event")
    )
}

fn open_ends(facts: &Facts) -> Vec<String> {
    let counts = facts.counts;
    let sentences = [
        some(counts.open_waits, |n| {
            format!("{} still going on at the trace's end", were(n, "wait"))
        }),
        some(counts.withheld, |n| {
            format!(
                "{} a CPU ran nothing although a task was queued there by the events (bandwidth limits, core scheduling, sched_ext or a late state): {} ns that are not counted as waiting",
                times(n),
                counts.withheld_ns
            )
        }),
        some(counts.censored_overlaps, |n| {
            format!(
                "of {} it is not known how long waker and wakee could have run side by side, and they are left out of the overlap",
                many(n, "wakeup")
            )
        }),
        some(counts.ambiguous_misses, |n| {
            format!(
                "{} among the missed-idle verdicts may have been requeued where it was, without a choice (class direct_or_delayed)",
                many(n, "wakeup")
            )
        }),
    ];
    sentences.into_iter().flatten().collect()
}

/// Flushes of other CPUs' TLBs that leave no event: AMD's INVLPGB (arch/x86/mm/tlb.c, 6.15 on), Hyper-V's hypercalls.
fn shootdowns(facts: &Facts) -> Option<String> {
    let counts = &facts.counts.tlb_flushes;
    let of = |reason: FlushReason| counts.get(reason as usize).copied().unwrap_or(0);
    let own = of(FlushReason::LocalMmShootdown);
    let silent = own > 0 && of(FlushReason::RemoteSend) == 0;
    silent.then(|| {
        format!(
            "of {} none asked other CPUs; where the processor broadcasts flushes (AMD INVLPGB) or the hypervisor does them, flushes of other CPUs leave no event",
            many(own, "local TLB flush")
        )
    })
}

fn readings(facts: &Facts) -> Option<String> {
    let sentence = match facts.config.readings.as_slice() {
        [Reading::Seen] => {
            "where affinity is unknown, a task is taken to be allowed only where it was seen: lost time is a lower estimate"
        }
        [Reading::Any] => {
            "where affinity is unknown, a task is taken to be allowed everywhere: lost time is an upper estimate"
        }
        _ => return None,
    };
    Some(sentence.to_owned())
}

fn selected(scope: &Scope, selection: &Selection) -> Vec<String> {
    let absent = |cpu: &&u32| scope.facts.machine.cpus.index(**cpu).is_none();
    let absent: Vec<u32> = selection
        .cpus
        .iter()
        .flatten()
        .filter(absent)
        .copied()
        .collect();
    let sentences = [
        selection.task.as_ref().map(|pattern| {
            format!(
                "--task {} limits wakeups, waits, migrations, pairs and tasks; the ledger shows the CPUs' whole time",
                escape(pattern.as_bytes())
            )
        }),
        selection.cpus.as_ref().map(|_| {
            "--cpu limits the ledger, wakeups and migrations to these CPUs, and waits that end on them; the figures of single tasks are for all CPUs".to_owned()
        }),
        (!absent.is_empty()).then(|| {
            format!("{} not in the trace", cpus_are(&absent))
        }),
        (selection.task.is_some() || selection.cpus.is_some()).then(|| {
            "withheld and withdrawn waits, and the check against probes, are those of the whole trace".to_owned()
        }),
    ];
    sentences.into_iter().flatten().collect()
}
