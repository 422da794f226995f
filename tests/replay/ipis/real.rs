//! Real traces against the other route.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::raw;
use crate::support::*;
use ttwu::pipeline::RunOptions;
use ttwu::replay::rows::IpiRow;
use ttwu::replay::words::{FlushReason, IpiFate, IpiKind, IpiRoad, Path};
use ttwu_parsers::event::{Event, Payload};

/// Every trace.dat of the lab, and the shootdowns.
fn traces() -> Vec<(PathBuf, RunOptions)> {
    let lab = lab_folders();
    let lab = lab.iter().map(|f| (f.join("trace.dat"), lab_options(f)));
    lab.chain([shootdowns()]).collect()
}

fn shootdowns() -> (PathBuf, RunOptions) {
    let path = root().join("fixtures/shootdowns/trace.dat");
    (path, RunOptions::default())
}

fn on(rows: &Rows, road: IpiRoad) -> impl Iterator<Item = &IpiRow> {
    rows.ipis.iter().filter(move |row| row.road == road)
}

#[test]
fn every_send_is_one_row_for_each_target() {
    let mut interrupts = 0;
    for (path, options) in traces() {
        let run = run(&path, &options);
        let (events, _) = raw::read(&path);
        let mut expected: Vec<_> = raw::sent(&events)
            .iter()
            .map(|sent| (sent.ts, sent.from, sent.to, sent.callsite))
            .collect();
        let mut found: Vec<_> = on(&run.rows, IpiRoad::Interrupt)
            .map(|row| (row.ts_ns, row.cpu.unwrap(), row.target_cpu, row.callsite))
            .collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{}", path.display());
        interrupts += found.len();

        let topology = &run.prepared.machine.topology;
        for row in on(&run.rows, IpiRoad::Interrupt) {
            let distance = topology.distance(row.cpu.unwrap(), row.target_cpu);
            assert_eq!(row.distance, distance, "{}", path.display());
        }
        let counted = |of: fn(&Payload) -> bool| events.iter().filter(|e| of(&e.payload)).count();
        let polled = counted(|p| matches!(p, Payload::WakeIdleWithoutIpi { .. }));
        let queued = counted(|p| matches!(p, Payload::CsdQueue { .. }));
        assert_eq!(on(&run.rows, IpiRoad::Polled).count(), polled);
        assert_eq!(on(&run.rows, IpiRoad::Queue).count(), queued);
    }
    assert!(interrupts > 10_000, "{interrupts}");
}

/// Handlers' time by the pid that was current when they were entered, as the entry's own event says.
#[test]
fn time_in_handlers_is_that_of_the_pid_at_entry() {
    let mut stolen = 0;
    for (path, options) in traces() {
        let run = run(&path, &options);
        let (events, _) = raw::read(&path);
        let mut expected = raw::called_outside(&events);
        for handled in raw::handled(&events) {
            *expected.entry(handled.pid).or_default() += handled.exit - handled.entry;
        }
        let pid = |row: &IpiRow| {
            let task = row.interrupted?;
            run.rows
                .tasks
                .iter()
                .find(|t| t.task == task)
                .map(|t| t.pid)
        };
        let mut found: BTreeMap<i32, i64> = BTreeMap::new();
        for row in &run.rows.ipis {
            // Functions that a handler ran are rows of their own, and their time is none of its.
            if let Some(ns) = row.handler_ns {
                *found.entry(pid(row).unwrap_or(0)).or_default() += ns;
            }
        }
        found.retain(|pid, ns| *ns > 0 || expected.contains_key(pid));
        assert_eq!(found, expected, "{}", path.display());
        stolen += found
            .iter()
            .filter(|(pid, _)| **pid > 0)
            .map(|(_, ns)| ns)
            .sum::<i64>();
    }
    assert!(stolen > 1_000_000, "{stolen}");
}

#[test]
fn latencies_are_those_to_the_next_entry() {
    for (path, options) in traces() {
        let run = run(&path, &options);
        let (events, _) = raw::read(&path);
        let (sum, count) = raw::latencies(&raw::sent(&events), &raw::handled(&events));
        let latencies = on(&run.rows, IpiRoad::Interrupt).filter_map(|row| row.latency_ns);
        let latencies: Vec<i64> = latencies.collect();
        let found = (latencies.iter().sum::<i64>(), latencies.len());
        assert_eq!(found, (sum, count), "{}", path.display());
        // Where sends are recorded, they explain every handler, but for those of the first moments: recorders switch
        // events on one by one.
        let on_for_all = events.first().map_or(0, |event| event.ts) + 10_000_000;
        if !raw::sent(&events).is_empty() {
            let late = on(&run.rows, IpiRoad::Handler).find(|row| row.ts_ns >= on_for_all);
            assert_eq!(late, None, "{}", path.display());
        }
    }
}

/// The kernel's own place of the send says what it was for; the replay found out without symbols.
#[test]
fn kinds_are_those_of_the_callsites() {
    let Some(shared) = shared() else {
        return;
    };
    let mut checked = 0;
    for folder in subfolders(&shared.join("traces/lab")) {
        let path = folder.join("trace.dat");
        let (events, symbols) = raw::read(&path);
        if symbols.is_empty() || raw::sent(&events).is_empty() {
            continue;
        }
        let run = run(&path, &RunOptions::default());
        let mut expected = raw::for_wakeups(&events);
        let found = on(&run.rows, IpiRoad::Interrupt);
        let found = found.filter(|row| row.kind == IpiKind::WakeupReschedule);
        let mut found: Vec<_> = found.map(|row| (row.ts_ns, row.cpu.unwrap())).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{}", path.display());
        let of_wakeup = |name: &str| name == "ttwu_queue_wakelist";
        for row in on(&run.rows, IpiRoad::Interrupt) {
            let from = symbols.function(row.callsite).unwrap();
            let is = |kind| row.kind == kind;
            assert_eq!(of_wakeup(&from), is(IpiKind::Wakeup), "{from} {row:?}");
            assert_eq!(
                from == "on_each_cpu_cond_mask",
                is(IpiKind::Tlb),
                "{from} {row:?}"
            );
            assert_eq!(
                from == "irq_work_queue",
                is(IpiKind::IrqWork),
                "{from} {row:?}"
            );
            checked += 1;
        }
    }
    assert!(checked > 10_000, "{checked}");
}

/// What the wakeups of `lab-wakee` cost on both sides, by raw events: wakings with a send to the chosen CPU's list or
/// with one to reschedule, the wakers' time, interrupts, and the time of handlers for them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    queued: usize,
    direct: usize,
    waker_ns: i64,
    interrupts: usize,
    handler_ns: i64,
    stolen_ns: i64,
}

fn raw_cost(events: &[Event], wakee: i32) -> Cost {
    let mut cost = Cost::default();
    let handled = raw::handled(events);
    for (at, event) in events.iter().enumerate() {
        let Payload::Waking(wake) = event.payload else {
            continue;
        };
        if wake.pid != wakee {
            continue;
        }
        let woken = events[at..]
            .iter()
            .find(|e| matches!(e.payload, Payload::Wakeup(w) if w.pid == wakee));
        let Some(woken) = woken else { continue };
        let Payload::Wakeup(wakeup) = woken.payload else {
            continue;
        };
        let mine = events[at..].iter().filter(|e| e.cpu == event.cpu);
        // What follows its next waking is that one's.
        let ends = |e: &&Event| matches!(e.payload, Payload::Waking(_));
        let mine = mine.skip(1).take_while(|e| !ends(e));
        let mut mine = mine.take_while(|e| e.ts <= woken.ts);
        let send = mine.find(
            |e| matches!(e.payload, Payload::IpiSendCpu { cpu, .. } if cpu == wakeup.target_cpu),
        );
        let Some(send) = send else { continue };
        let Payload::IpiSendCpu { callback, .. } = send.payload else {
            continue;
        };
        let vector = match callback {
            0 => ttwu_parsers::event::Vector::Reschedule,
            _ => ttwu_parsers::event::Vector::CallFunctionSingle,
        };
        if callback == 0 {
            cost.direct += 1;
            cost.waker_ns += woken.ts - event.ts;
        } else {
            cost.queued += 1;
            cost.waker_ns += send.ts - event.ts;
        }
        cost.interrupts += 1;
        let run = handled
            .iter()
            .find(|h| h.cpu == wakeup.target_cpu && h.vector == vector && h.entry >= send.ts);
        if let Some(run) = run {
            cost.handler_ns += run.exit - run.entry;
            cost.stolen_ns += if run.pid > 0 { run.exit - run.entry } else { 0 };
        }
    }
    cost
}

fn replayed_cost(rows: &Rows, wakee: i32) -> Cost {
    let task = rows.tasks.iter().find(|t| t.pid == wakee).unwrap().task;
    let roads = [Path::QueuedIpi, Path::DirectIpi];
    let woken: Vec<_> = rows
        .wakeups
        .iter()
        .filter(|w| w.wakee == task && w.waking_ns.is_some() && roads.contains(&w.path))
        .collect();
    let mut cost = Cost {
        queued: woken.iter().filter(|w| w.path == Path::QueuedIpi).count(),
        direct: woken.iter().filter(|w| w.path == Path::DirectIpi).count(),
        waker_ns: woken.iter().filter_map(|w| w.waker_cost_ns).sum(),
        ..Cost::default()
    };
    let mut sends: BTreeMap<(u32, u32), Vec<&IpiRow>> = BTreeMap::new();
    for row in on(rows, IpiRoad::Interrupt) {
        if matches!(row.kind, IpiKind::Wakeup | IpiKind::WakeupReschedule) {
            let key = (row.cpu.unwrap(), row.target_cpu);
            sends.entry(key).or_default().push(row);
        }
    }
    for wakeup in woken {
        let key = (wakeup.waker_cpu.unwrap(), wakeup.chosen_cpu.unwrap());
        let (from, to) = (wakeup.waking_ns.unwrap(), wakeup.wakeup_ns.unwrap());
        let own = sends[&key]
            .iter()
            .find(|row| (from..=to).contains(&row.ts_ns));
        let own = own.expect("its interrupt");
        cost.interrupts += 1;
        cost.handler_ns += own.handler_ns.unwrap_or(0);
        if own.interrupted.is_some() {
            cost.stolen_ns += own.handler_ns.unwrap_or(0);
        }
    }
    cost
}

/// With the wake list and without: the same wakeups take another road, at another cost for the waker, and another one for
/// the CPU that is interrupted.
#[test]
fn queueing_moves_the_cost_from_waker_to_receiver() {
    let Some(shared) = shared() else {
        return;
    };
    for workload in ["udp", "stream"] {
        let costs = ["queue", "noqueue"].map(|kind| {
            let folder = shared.join("traces/lab").join(format!("{workload}-{kind}"));
            let path = folder.join("trace.dat");
            let run = run(&path, &lab_options(&folder));
            let (events, _) = raw::read(&path);
            let wakee = run
                .rows
                .tasks
                .iter()
                .filter(|t| t.comm.as_bytes() == b"lab-wakee");
            let wakee = wakee.max_by_key(|t| t.wakeups_received).unwrap().pid;
            let cost = replayed_cost(&run.rows, wakee);
            assert_eq!(cost, raw_cost(&events, wakee), "{workload} {kind}");
            cost
        });
        let [queue, noqueue] = &costs;
        let per = |cost: &Cost, ns: i64| ns / (cost.queued + cost.direct) as i64;
        eprintln!("{workload}: {queue:?} {noqueue:?}");
        assert!(queue.queued > 1_800 && queue.direct < 20, "{queue:?}");
        assert!(noqueue.direct > 1_800 && noqueue.queued < 20, "{noqueue:?}");
        // The waker pays less for putting on a list, the receiver enqueues instead.
        assert!(2 * per(queue, queue.waker_ns) < per(noqueue, noqueue.waker_ns));
        assert!(per(queue, queue.handler_ns) > 2 * per(noqueue, noqueue.handler_ns));
    }
}

#[test]
fn shootdowns_equal_their_events() {
    let (path, options) = shootdowns();
    let run = run(&path, &options);
    let (events, _) = raw::read(&path);
    let mut expected: Vec<_> = raw::shots(&events)
        .iter()
        .map(|shot| (shot.ts, shot.cpu, shot.pages, shot.asked, shot.wait))
        .collect();
    let flushes = &run.rows.flushes;
    let remote = flushes
        .iter()
        .filter(|row| row.reason == FlushReason::RemoteSend);
    let mut found: Vec<_> = remote
        .map(|row| {
            let pages = row.pages.unwrap();
            (row.ts_ns, row.cpu, pages, row.targets.unwrap(), row.wait_ns)
        })
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    // Three spinning threads were asked, at three distances.
    let asked_all = found
        .iter()
        .filter(|(.., asked, wait)| *asked == 3 && wait.is_some());
    assert!(asked_all.count() >= 4 * 7);

    // By reason, and by what is not an own part of a remote one.
    let of = |wanted: i32| {
        let reasons = events.iter().filter_map(|e| match e.payload {
            Payload::TlbFlush { reason, .. } => Some(reason),
            _ => None,
        });
        reasons.filter(|reason| *reason == wanted).count() as u64
    };
    for (number, count) in (0..6).zip(run.counts.tlb_flushes) {
        assert_eq!(count, of(number), "reason {number}");
    }
    // A local flush is one outside of a call; within one it is the initiator's own part.
    let mut inside: BTreeMap<u32, bool> = BTreeMap::new();
    let mut alone = 0;
    for event in &events {
        match event.payload {
            Payload::CsdEntry { csd: 0, .. } => drop(inside.insert(event.cpu, true)),
            Payload::CsdExit { csd: 0, .. } => drop(inside.insert(event.cpu, false)),
            Payload::TlbFlush { reason: 3, .. } => {
                alone += usize::from(!inside.get(&event.cpu).copied().unwrap_or(false));
            }
            _ => {}
        }
    }
    let local = flushes
        .iter()
        .filter(|row| row.reason == FlushReason::LocalMmShootdown);
    assert_eq!(local.count(), alone);
    // Every interrupt and call for a flush met its handler.
    let tlb = run.rows.ipis.iter().filter(|row| row.kind == IpiKind::Tlb);
    let fates: BTreeMap<_, usize> = tlb.fold(BTreeMap::new(), |mut fates, row| {
        *fates.entry(row.fate).or_default() += 1;
        fates
    });
    assert_eq!(fates.keys().collect::<Vec<_>>(), [&IpiFate::Handled]);
}

/// The workload asked for 1, 2, 5, 16, 33, 34 and 200 pages, four times each: `tlb_flush` tells the first five, the probe all.
#[test]
fn ranges_above_the_ceiling_are_what_the_workload_asked_for() {
    let (path, options) = shootdowns();
    let rows = run(&path, &options).rows;
    let initiator = rows.tasks.iter().filter(|t| t.comm.as_bytes() == b"shoot");
    let tasks: Vec<_> = initiator.map(|t| t.task).collect();
    let own = rows
        .flushes
        .iter()
        .filter(|row| row.task.is_some_and(|t| tasks.contains(&t)));
    let own: Vec<_> = own.collect();
    for pages in [1, 2, 5, 16, 33] {
        let told = own.iter().filter(|row| row.pages == Some(pages)).count();
        assert!(told >= 4, "{pages}: {told}");
    }
    for pages in [34, 200] {
        assert!(own.iter().all(|row| row.pages != Some(pages)));
        let asked = own.iter().filter(|row| row.range_pages == Some(pages));
        let asked: Vec<_> = asked.collect();
        assert!(asked.len() >= 4, "{pages}: {}", asked.len());
        assert!(asked.iter().all(|row| row.pages == Some(-1)), "{pages}");
    }
    // What both tell is the same.
    for row in own {
        if let (Some(pages @ 1..), Some(range)) = (row.pages, row.range_pages) {
            assert_eq!(pages, range);
        }
    }
}
