//! Interrupts between CPUs and shootdowns: each that was sent, what for, what became of it, and what it took from whom.

use std::collections::BTreeMap;

use ttwu::pipeline::RunOptions;
use ttwu::replay::words::{FlushReason, IpiFate, IpiKind, IpiRoad};

use super::check::{Differences, File, Written, number};
use super::events::{Vector, What};
use super::kernels::V6_12;
use super::machine::Shape;
use super::notes::{Handled, Purpose};
use super::run::simulate;
use super::scheduler::Sim;
use super::stage::Stage;
use super::tests_exact::plan;

fn word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Wakeup => "wakeup",
        Purpose::WakeupReschedule => "wakeup_reschedule",
        Purpose::Reschedule => "reschedule",
        Purpose::Tlb => "tlb",
        Purpose::Call => "call",
        Purpose::IrqWork => "irq_work",
    }
}

/// How long a handler took, without the functions that it ran where these are told by themselves.
fn own_time(sim: &Sim, handled: &Handled) -> i64 {
    let inner = if sim.kernel.tells_sends() {
        handled.inner
    } else {
        0
    };
    handled.exit - handled.entry - inner
}

/// Every interrupt, row by row.
#[test]
fn interrupts_are_the_simulators() {
    let (mut handlers, mut sent, mut coalesced) = (0, 0, 0);
    let mut fates: BTreeMap<(IpiRoad, IpiFate), u64> = BTreeMap::new();
    for seed in 0..144 {
        let sim = simulate(plan(seed));
        let id = |cpu: usize| sim.machine.ids[cpu];
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let rows = Written::new(&sim.recording(), file)
            .rows(&RunOptions::default())
            .rows;
        let pid = |task| {
            rows.tasks
                .iter()
                .find(|t| t.task == task)
                .map_or(0, |t| t.pid)
        };
        let mut differ = Differences::default();
        let sendings = &sim.notes.sendings;
        let started = sendings
            .iter()
            .filter_map(|s| Some((s, s.handled.filter(|h| h.started)?)));
        handlers += started.clone().count();
        if sim.kernel.tells_sends() {
            sent += sendings.len();
            let found = rows
                .ipis
                .iter()
                .filter(|row| row.road == IpiRoad::Interrupt);
            let found = found.map(|row| {
                let ends = (row.ts_ns, row.cpu, row.target_cpu);
                let words = (row.kind.as_str(), row.fate.as_str(), row.distance.as_str());
                let interrupted = row.interrupted.map(pid);
                (ends, words, row.latency_ns, row.handler_ns, interrupted)
            });
            let truth: Vec<_> = sendings
                .iter()
                .map(|s| {
                    let handled = s.handled;
                    let first = handled.filter(|h| h.started);
                    let fate = match (handled, first) {
                        (Some(_), Some(_)) => "handled",
                        (Some(_), None) => "coalesced",
                        // No event of that handler is recorded.
                        (None, _) if s.purpose == Purpose::IrqWork => "unknown",
                        (None, _) => "unanswered",
                    };
                    coalesced += usize::from(fate == "coalesced");
                    let far = sim.machine.distance(s.from, s.to);
                    (
                        (s.ts, Some(id(s.from)), id(s.to)),
                        (word(s.purpose), fate, far),
                        handled.map(|h| h.entry - s.ts),
                        first.map(|h| own_time(&sim, &h)),
                        first
                            .and_then(|h| h.interrupted)
                            .map(|t| sim.notes.tasks[t].pid),
                    )
                })
                .collect();
            differ.lists("interrupts", found.collect(), truth);
            for row in &rows.ipis {
                *fates.entry((row.road, row.fate)).or_default() += 1;
            }
            // Flags that idle loops see, and what was put on lists, each with the function's own time.
            let of = |road: IpiRoad| {
                let found = rows.ipis.iter().filter(move |row| row.road == road);
                found
                    .map(|row| (row.ts_ns, row.cpu, row.target_cpu))
                    .collect()
            };
            let polled = sim.log.iter().filter_map(|event| match event.what {
                What::Poll { cpu } => Some((event.ts, Some(id(event.cpu)), id(cpu))),
                _ => None,
            });
            differ.lists("flags", of(IpiRoad::Polled), polled.collect());
            let queued = sim.log.iter().filter_map(|event| match event.what {
                What::Queue { cpu, .. } => Some((event.ts, Some(id(event.cpu)), id(cpu))),
                _ => None,
            });
            differ.lists("lists", of(IpiRoad::Queue), queued.collect());
        } else {
            // Nothing tells of what was sent.
            let found = rows.ipis.iter().filter(|row| row.road == IpiRoad::Handler);
            let found = found.map(|row| (row.ts_ns, row.target_cpu, row.handler_ns));
            let truth = started.map(|(s, h)| (h.entry, id(s.to), Some(own_time(&sim, &h))));
            differ.lists("handlers", found.collect(), truth.collect());
        }
        differ.none(&format!("seed {seed} {}", sim.kernel.release));
    }
    assert!(handlers > 10_000, "{handlers} handlers");
    // `lost` is in `tests_losses`; every simulated interrupt is answered.
    for (road, fate) in [
        (IpiRoad::Interrupt, IpiFate::Handled),
        (IpiRoad::Interrupt, IpiFate::Unknown),
        (IpiRoad::Polled, IpiFate::Unknown),
        (IpiRoad::Queue, IpiFate::Handled),
        (IpiRoad::Queue, IpiFate::Coalesced),
    ] {
        let count = fates.get(&(road, fate)).copied().unwrap_or(0);
        assert!(count >= 40, "{road:?} {fate:?}: {fates:?}");
    }
    assert!(
        sent > 2000 && coalesced > 0,
        "{sent} sent, {coalesced} coalesced"
    );
}

/// Places of a logarithmic distribution: the k-th of 2^k or more.
fn log2(counts: impl Iterator<Item = usize>) -> Vec<i64> {
    let mut places = Vec::new();
    for count in counts.filter(|&count| count > 0) {
        let place = count.ilog2() as usize;
        places.resize(places.len().max(place + 1), 0);
        places[place] += 1;
    }
    places
}

fn numbers(report: &serde_json::Value) -> Vec<i64> {
    let list = report.as_array().into_iter().flatten();
    let mut numbers: Vec<i64> = list.filter_map(serde_json::Value::as_i64).collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

/// What a report sums of them.
#[test]
fn reports_of_interrupts_are_the_simulators() {
    let mut waited = 0;
    let mut met: BTreeMap<String, i64> = BTreeMap::new();
    for seed in (0..288).filter(|&seed| plan(seed).kernel.tells_sends()) {
        let sim = simulate(plan(seed));
        let found = Written::new(&sim.recording(), File::TraceDat).report(&RunOptions::default());
        let mut truth: BTreeMap<String, i64> = BTreeMap::new();
        let mut add = |name: &str, more: i64| *truth.entry(name.to_owned()).or_default() += more;
        let of_task = |h: &Handled| h.interrupted.is_some();
        for s in &sim.notes.sendings {
            add("total", 1);
            add(&format!("by_kind.{}", word(s.purpose)), 1);
            let far = sim.machine.distance(s.from, s.to);
            add(&format!("by_distance.{far}"), 1);
            let tlb = s.purpose == Purpose::Tlb;
            add(&format!("tlb.ipis_by_distance.{far}"), i64::from(tlb));
            if let Some(h) = s.handled.filter(|h| h.started) {
                let ns = h.exit - h.entry;
                add("handlers.ns", ns);
                add(
                    if of_task(&h) {
                        "stolen_ns"
                    } else {
                        "handlers.idle_ns"
                    },
                    ns,
                );
            }
        }
        // Functions that the idle loop ran without an interrupt are handlers of their own.
        let idle_ns = sim.notes.idle_calls.iter().sum::<i64>();
        add("handlers.ns", idle_ns);
        add("handlers.idle_ns", idle_ns);
        let shootdowns = &sim.notes.shootdowns;
        for s in shootdowns {
            add("tlb.flushes", 1);
            add("tlb.local", i64::from(s.targets.is_empty()));
            add("tlb.remote", i64::from(!s.targets.is_empty()));
            add("tlb.full", i64::from(s.pages == -1));
            add("tlb.targets", s.targets.len() as i64);
            let last = s.acknowledged.iter().max();
            let wait = s.asked.zip(last).map_or(0, |(asked, last)| last - asked);
            if s.asked.is_some() {
                add("tlb.initiator_wait_total_ns", wait);
            }
            waited += wait;
        }
        // Every flush by what its event says that it is for.
        for event in &sim.log {
            if let What::Tlb { reason, .. } = event.what {
                let of = [
                    "task_switch",
                    "remote_shootdown",
                    "local_shootdown",
                    "local_mm_shootdown",
                    "remote_send",
                ];
                add(&format!("tlb.by_reason.{}", of[reason as usize]), 1);
            }
        }
        let mut differ = Differences::default();
        for (name, truth) in truth {
            *met.entry(name.clone()).or_default() += truth;
            let name = format!("ipis.{name}");
            differ.same(&name, number(&found, &name), Some(truth));
        }
        let tlb = &found["ipis"]["tlb"];
        let pages = shootdowns
            .iter()
            .map(|s| usize::try_from(s.pages).unwrap_or(0));
        differ.same("pages", numbers(&tlb["pages_log2"]), log2(pages));
        let targets = shootdowns.iter().map(|s| s.targets.len());
        differ.same("targets", numbers(&tlb["targets_log2"]), log2(targets));
        differ.none(&format!("seed {seed}"));
    }
    assert!(waited > 100_000, "{waited}");
    let words = |of: &str, all: Vec<&str>, but: &[&str]| {
        for word in all.into_iter().filter(|word| !but.contains(word)) {
            let found = met.get(&of.replace('*', word)).copied().unwrap_or(0);
            assert!(found >= 30, "{word} was met {found} times: {met:?}");
        }
    };
    let kinds = IpiKind::ALL.iter().map(|kind| kind.as_str());
    words("by_kind.*", kinds.collect(), &["other"]);
    let reasons = FlushReason::ALL.iter().map(|reason| reason.as_str());
    words(
        "tlb.by_reason.*",
        reasons.collect(),
        &["remote_wrong_cpu", "other"],
    );
    let distances = || vec!["smt", "l2", "llc", "node", "remote"];
    words("by_distance.*", distances(), &[]);
    words("tlb.ipis_by_distance.*", distances(), &[]);
}

/// Vectors tell nothing of themselves: what is due on a CPU is told by its kind.
#[test]
fn each_kind_of_vector_occurs() {
    let mut met = [0; 3];
    for seed in 0..30 {
        for s in simulate(plan(seed)).notes.sendings {
            met[s.kind as usize] += 1;
        }
    }
    let kinds = [Vector::Reschedule, Vector::Function, Vector::FunctionSingle];
    assert!(kinds.iter().all(|&kind| met[kind as usize] > 50), "{met:?}");
}

/// Two wakers interrupt one CPU at once: one handler serves both.
#[test]
fn an_interrupt_that_is_due_serves_the_next_one_too() {
    let mut stage = Stage::on(V6_12, Shape::new(1, 1, 4, 1, 1));
    stage.sim.plan.preempts = Some(true);
    stage.occupy(&[0, 1, 2]);
    // In the middle of something, CPU 1 is interrupted late.
    stage.sim.cpus[1].in_kernel = true;
    let (first, second) = (stage.task(1), stage.task(1));
    stage.begin_wake(0, first, 1);
    stage.begin_wake(2, second, 1);
    let until = stage.sim.now + 9000;
    stage.sim.after(9000, |sim| sim.cpus[1].in_kernel = false);
    while stage.sim.now < until {
        stage.sim.go_on();
    }
    let played = stage.end();
    let fates = played
        .rows
        .ipis
        .iter()
        .filter(|row| row.road == IpiRoad::Interrupt);
    let mut fates: Vec<_> = fates
        .map(|row| (row.fate.as_str(), row.handler_ns.is_some()))
        .collect();
    fates.sort_unstable();
    assert_eq!(fates, [("coalesced", false), ("handled", true)]);
}
