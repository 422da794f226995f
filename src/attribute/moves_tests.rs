//! Migrations, bounces and domains, worked by hand.

use ttwu_parsers::machine_record::MachineRecord;
use ttwu_parsers::topology::{PerfCache, PerfDomain, PerfTopology, parse_spec};

use super::Selection;
use super::answer::{
    Bounces, DomainBehaviour, DomainDifference, DomainMasks, Known, Migrations, Quantiles,
};
use super::testing::{Rig, fill, json, migration, task, wakeup};
use crate::replay::rows::{MigrationRow, Sink, TaskId, WakeupRow};
use crate::replay::words::{Class, Confidence, MigrationCause, Pair, Waker};
use crate::tables::{Budget, Filler};
use crate::topology::{Distance, Topology};

fn value<T: Clone>(known: &Known<T>) -> T {
    known.value().cloned().unwrap_or_else(|| panic!("known"))
}

fn tasks(sink: &mut Filler) {
    let tasks = [
        task(0, 10, "waker"),
        task(1, 20, "bouncer"),
        task(2, 30, "other"),
    ];
    fill(sink, &[], &[], &tasks);
}

fn answered(rig: &Rig) -> Migrations {
    value(&rig.answer(&Selection::default()).migrations)
}

#[test]
fn causes_distances_and_runs_add_up() {
    let moves = [
        MigrationRow {
            run_ns: Some(40),
            ..migration(100, MigrationCause::Wakeup, Distance::Llc)
        },
        MigrationRow {
            run_ns: Some(60),
            ..migration(200, MigrationCause::Wakeup, Distance::Llc)
        },
        MigrationRow {
            confidence: Confidence::Likely,
            run_ns: Some(7),
            ..migration(300, MigrationCause::NewIdle, Distance::Node)
        },
        MigrationRow {
            confidence: Confidence::Unsure,
            inferred: true,
            ..migration(400, MigrationCause::Unknown, Distance::Unknown)
        },
        // Outside the window.
        migration(950, MigrationCause::Wakeup, Distance::Llc),
    ];
    let new = WakeupRow {
        class: Class::New,
        waker_chosen: Distance::Node,
        ..wakeup()
    };
    let rig = Rig::new(|sink| {
        moves.iter().for_each(|row| sink.migration(row));
        fill(sink, &[new, wakeup()], &[], &[]);
    });
    let found = answered(&rig);
    assert_eq!((found.total, found.inferred, found.withdrawn), (4, 1, 1));
    assert_eq!(found.by_cause["wakeup"]["llc"], 2);
    assert_eq!(found.by_cause["newidle"]["node"], 1);
    assert_eq!(found.by_cause["unknown"]["unknown"], 1);
    let all = found.by_cause.values().flat_map(|by| by.values());
    assert_eq!(all.sum::<u64>(), 4);
    assert_eq!(found.totals.values().sum::<u64>(), 4);
    assert_eq!(found.totals["wakeup"], 2);
    assert_eq!(found.by_confidence["wakeup"]["certain"], 2);
    assert_eq!(found.by_confidence["newidle"]["likely"], 1);
    assert_eq!(found.by_confidence["unknown"]["unsure"], 1);
    assert_eq!(found.unsure_share, Known::Value(0.25));
    assert_eq!(found.cross_llc_share, Known::Value(1.0 / 3.0));
    let after = Quantiles {
        count: 2,
        p50: 40,
        p99: 60,
        max: 60,
    };
    assert_eq!(found.run_after_ns["wakeup"]["llc"], Known::Value(after));
    assert!(found.run_after_ns["unknown"]["unknown"].value().is_none());
    assert_eq!(found.fork_placements["node"], 1);
    assert_eq!(found.fork_placements.values().sum::<u64>(), 1);
}

/// A change of LLC of task 1 that leaves two idle CPUs behind and loses 5 ns by one reading, 9 by the other.
fn crossing(ts_ns: i64, from_cpu: u32, to_cpu: u32, cause: MigrationCause) -> MigrationRow {
    MigrationRow {
        from_cpu,
        to_cpu,
        idle_left: Some(Pair([0, 2])),
        lost_ns: Pair([5, 9]),
        ..migration(ts_ns, cause, Distance::Node)
    }
}

/// Task 1 is taken from CPU 0 to CPU 2 by the waker, moved on within that LLC, and pulled back by CPU 1 as that goes idle;
/// then the waker takes it again and leaves it there.
fn bounced() -> Vec<MigrationRow> {
    vec![
        crossing(110, 0, 2, MigrationCause::Wakeup),
        MigrationRow {
            from_cpu: 2,
            to_cpu: 3,
            ..migration(150, MigrationCause::Periodic, Distance::Llc)
        },
        MigrationRow {
            by_task: Some(TaskId(2)),
            ..crossing(210, 3, 1, MigrationCause::NewIdle)
        },
        MigrationRow {
            context: Waker::Hardirq,
            ..crossing(500, 1, 2, MigrationCause::Wakeup)
        },
    ]
}

fn bounces_of(rows: &[MigrationRow]) -> Bounces {
    let rig = Rig::new(|sink| {
        rows.iter().for_each(|row| sink.migration(row));
        tasks(sink);
    });
    value(&rig.answer(&Selection::default()).flips.bounces)
}

#[test]
fn a_bounce_is_told_with_its_pullers() {
    let found = bounces_of(&bounced());
    // Out and back, and back and out again.
    assert_eq!((found.count, found.tasks, found.later), (2, 1, 0));
    assert_eq!(found.by_pullers["wakeup"]["newidle"], 1);
    assert_eq!(found.by_pullers["newidle"]["wakeup"], 1);
    let all = found.by_pullers.values().flat_map(|by| by.values());
    assert_eq!(all.sum::<u64>(), 2);
    let away = value(&found.away_ns);
    assert_eq!((away.count, away.p50, away.max), (2, 100, 290));
    assert_eq!(found.left_idle.seen, Some(0));
    assert_eq!(found.left_idle.any, Some(2));
    // Three moves, each once.
    assert_eq!(found.lost_ns.seen, Some(15));
    assert_eq!(found.lost_ns.any, Some(27));
    let worst = &found.worst[0];
    assert_eq!(
        (worst.name.as_str(), worst.pid, worst.bounces),
        ("bouncer", 20, 2)
    );
    let first = &worst.examples[0];
    assert_eq!((first.out_ns, first.back_ns), (110, 210));
    assert_eq!((first.from_cpu, first.to_cpu, first.back_cpu), (0, 2, 1));
    assert_eq!((first.out.cause, first.back.cause), ("wakeup", "newidle"));
    assert_eq!(first.out.by, Known::Value("waker".to_owned()));
    assert_eq!(first.back.by_pid, Known::Value(30));
    assert_eq!(first.out.idle_left.any, Some(2));
    // In an interrupt the task that ran is only who was interrupted.
    assert!(worst.examples[1].back.by.value().is_none());
    let pulls: Vec<_> = worst.pulled_by.iter().map(|p| (p.cause, p.pulls)).collect();
    assert_eq!(pulls, [("newidle", 2), ("wakeup", 1), ("wakeup", 1)]);
}

#[test]
fn what_does_not_come_back_at_once_is_no_bounce() {
    let out = crossing(110, 0, 2, MigrationCause::Wakeup);
    let back = |ts| crossing(ts, 2, 1, MigrationCause::Periodic);
    let count = |rows: &[MigrationRow]| {
        let found = bounces_of(rows);
        (found.count, found.later)
    };
    assert_eq!(count(&[out.clone(), back(210)]), (1, 0));
    // Of another task.
    let other = MigrationRow {
        task: TaskId(2),
        ..back(210)
    };
    assert_eq!(count(&[out.clone(), other]), (0, 0));
    // A move between is missing: it comes back from where it did not go.
    let elsewhere = crossing(210, 0, 3, MigrationCause::Periodic);
    assert_eq!(count(&[out.clone(), elsewhere]), (0, 0));
    // The way back decides the window.
    let early = crossing(50, 0, 2, MigrationCause::Wakeup);
    assert_eq!(
        count(&[
            MigrationRow {
                in_window: false,
                ..early
            },
            back(210)
        ]),
        (1, 0)
    );
    let late = MigrationRow {
        in_window: false,
        ..back(950)
    };
    assert_eq!(count(&[out.clone(), late]), (0, 0));
    // Later than 10 ms.
    let far = MigrationRow {
        in_window: true,
        ..back(110 + 10_000_001)
    };
    assert_eq!(count(&[out.clone(), far.clone()]), (0, 1));
    let just = MigrationRow {
        ts_ns: 110 + 10_000_000,
        ..far
    };
    assert_eq!(count(&[out, just]), (1, 0));
    let rig = Rig::new(|sink| bounced().iter().for_each(|row| sink.migration(row)));
    let unknown = rig.without_topology().answer(&Selection::default());
    assert!(unknown.flips.bounces.value().is_none());
}

/// Wherever the table is cut into batches, and however these are shared out, the answer is the same.
#[test]
fn bounces_across_batches_are_found() {
    let mut rows = Vec::new();
    for n in 0..40 {
        let ts = 100 + 10 * n;
        let (from, to) = if n % 2 == 0 { (0, 2) } else { (2, 1) };
        let cause = MigrationCause::ALL[n as usize % 4];
        rows.push(MigrationRow {
            task: TaskId(1 + u32::from(n % 7 < 3)),
            lost_ns: Pair([n, 2 * n]),
            ..crossing(ts, from, to, cause)
        });
    }
    let rig = |batch_rows| {
        let budget = Budget {
            batch_rows,
            ..Budget::default()
        };
        Rig::with_budget(budget, |sink| {
            rows.iter().for_each(|row| sink.migration(row));
            tasks(sink);
        })
    };
    let whole = json(&rig(1000));
    let bounces = &whole["flips"]["bounces"];
    assert!(bounces["count"].as_u64() > Some(10), "{bounces}");
    for batch_rows in [1, 2, 3, 7] {
        let cut = json(&rig(batch_rows));
        assert_eq!(cut["migrations"], whole["migrations"], "{batch_rows}");
        assert_eq!(&cut["flips"]["bounces"], bounces, "{batch_rows}");
    }
}

/// Before 4.3 there is no sched_waking, so who pulled is not known; that a task went there and back is.
#[test]
fn bounces_are_known_where_decisions_are_not() {
    let mut rig = Rig::new(|sink| {
        bounced().iter().for_each(|row| sink.migration(row));
        tasks(sink);
    });
    let waking = rig.types.iter().position(|of| of.name == "sched_waking");
    rig.survey.by_type[waking.expect("an event of that name")] = 0;
    let flips = json(&rig)["flips"].clone();
    let reason = flips["unknown"].as_str().expect("a reason");
    assert!(reason.contains("sched_waking"), "{reason}");
    assert_eq!(flips["bounces"]["count"], 2);
    let moves = rig
        .types
        .iter()
        .position(|of| of.name == "sched_migrate_task");
    rig.types[moves.expect("an event of that name")]
        .name
        .clear();
    let reason = json(&rig)["flips"]["bounces"]["unknown"].clone();
    assert!(
        reason
            .as_str()
            .is_some_and(|why| why.contains("sched_migrate_task"))
    );
}

#[test]
fn a_selection_of_cpus_makes_no_bounces() {
    // Without the moves to other CPUs, 0→2 and 3→1 would be left.
    let rig = Rig::new(|sink| {
        bounced().iter().for_each(|row| sink.migration(row));
        tasks(sink);
    });
    let select = |cpus: &[u32]| {
        let selection = Selection {
            cpus: Some(cpus.to_vec()),
            ..Selection::default()
        };
        let found = rig.answer(&selection);
        let bounces = value(&found.flips.bounces);
        (value(&found.migrations).total, bounces.count)
    };
    assert_eq!(select(&[1]), (1, 1));
    assert_eq!(select(&[0]), (0, 0));
    assert_eq!(select(&[0, 1, 2, 3]), (4, 2));
}

fn masks(rig: &Rig) -> Known<DomainMasks> {
    value(&rig.answer(&Selection::default()).domains).masks
}

fn recorded(lines: &[&str]) -> Rig {
    let mut rig = Rig::new(|_| ());
    rig.record = MachineRecord::parse(lines.iter().copied());
    rig.machine.topology = Topology::new(
        parse_spec("llc=0-1;2-3").unwrap(),
        "--topology (spec)",
        &[0, 1, 2, 3],
    );
    rig
}

#[test]
fn a_domain_wider_than_the_cache_is_told() {
    let lines = |last: &str| -> Vec<String> {
        let cpu = |cpu: u32, span: &str| {
            vec![
                format!(
                    "ttwu domain cpu={cpu} level=0 name=MC span={span} flags=SD_WAKE_AFFINE,{last}"
                ),
                format!("ttwu domain cpu={cpu} level=1 name=PKG span=0-3 flags=SD_WAKE_AFFINE"),
            ]
        };
        [(0, "0-1"), (1, "0-1"), (2, "0-3"), (3, "3")]
            .iter()
            .flat_map(|(n, span)| cpu(*n, span))
            .collect()
    };
    for flag in ["SD_SHARE_LLC", "SD_SHARE_PKG_RESOURCES"] {
        let lines = lines(flag);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let found = value(&masks(&recorded(&lines)));
        assert_eq!(found.domains, "the machine record");
        let cpus: Vec<_> = ["equal", "wider", "narrower", "crossing"]
            .iter()
            .map(|fit| found.cpus[fit].clone())
            .collect();
        assert_eq!(cpus, [vec![0, 1], vec![2], vec![3], vec![]]);
        let wider = DomainDifference {
            fit: "wider",
            kernel: vec![0, 1, 2, 3],
            cache: vec![2, 3],
        };
        assert_eq!(found.differences[0], wider);
        assert_eq!(found.differences.len(), 2);
    }
    // No domain shares a cache: every CPU is alone.
    let lines = lines("SD_SERIALIZE");
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(value(&masks(&recorded(&lines))).cpus["narrower"].len(), 4);
}

#[test]
fn names_tell_where_flags_do_not() {
    let line = |flags: &str| format!("ttwu domain cpu=0 level=0 name=MC span=0-1{flags}");
    let isolated = value(&masks(&recorded(&[&line(" flags=4143")])));
    assert_eq!(isolated.cpus["equal"], [0]);
    // The others have no domain at all: isolated.
    assert_eq!(isolated.cpus["narrower"], [1, 2, 3]);
    let why = |lines: &[&str]| match masks(&recorded(lines)) {
        Known::Unknown { unknown } => unknown,
        Known::Value(masks) => panic!("{masks:?}"),
    };
    assert!(why(&["ttwu domain cpu=0 level=0 span=0-1"]).contains("without names or flags"));
    assert!(why(&["ttwu domain cpu=0 level=0 name=MC"]).contains("without their spans"));
    assert!(why(&[]).contains("does not say which CPUs each scheduler domain spans"));
}

#[test]
fn the_schedulers_own_word_is_no_cache() {
    let domain = "ttwu domain cpu=0 level=0 name=MC span=0-3";
    let mut rig = recorded(&[domain]);
    rig.machine.topology = Topology::new(
        parse_spec("llc=0-3").unwrap(),
        "--topology x (/proc/schedstat)",
        &[0, 1, 2, 3],
    );
    let Known::Unknown { unknown } = masks(&rig) else {
        panic!("nothing says what the caches are");
    };
    assert!(unknown.contains("lscpu -p"), "{unknown}");
    // The record may say it beside.
    rig.record = MachineRecord::parse([domain, "ttwu machine cache_llcs llc=0-1;2-3"]);
    let found = value(&masks(&rig));
    assert_eq!(
        (found.cpus["wider"].clone(), found.caches.as_str()),
        (vec![0], "the machine record")
    );
}

#[test]
fn a_bpf_scheduler_is_told() {
    let told = |state: &str| {
        let mut rig = Rig::new(|_| ());
        rig.record = MachineRecord::parse([format!("ttwu machine sched_ext {state}").as_str()]);
        let caveats = rig.answer(&Selection::default()).caveats;
        caveats
            .iter()
            .any(|text| text.contains("BPF scheduler was on (sched_ext: enabled lavd)"))
    };
    assert!(told("enabled lavd"));
    assert!(!told("disabled"));
}

/// perf's header has both: domains that are wider than the caches.
#[test]
fn the_header_of_a_perf_data_has_both() {
    let mut rig = Rig::new(|_| ());
    let cache = |map: &str| PerfCache {
        level: 3,
        kind: "Unified".to_owned(),
        size: "1M".to_owned(),
        map: map.to_owned(),
    };
    let domain = |cpu| PerfDomain {
        cpu,
        level: 0,
        name: "MC".to_owned(),
        cpus: "0-3".to_owned(),
    };
    rig.meta.topology = Some(PerfTopology {
        caches: vec![cache("0-1"), cache("2-3")],
        domains: (0..4).map(domain).collect(),
        ..PerfTopology::default()
    });
    let found = value(&masks(&rig));
    assert_eq!(found.cpus["wider"], [0, 1, 2, 3]);
    assert_eq!(found.caches, "the caches in the perf.data header");
}

/// A selection for task 1, which last ran on CPU 0, by a waker on CPU 1, to this CPU.
fn placed(chosen: u32) -> WakeupRow {
    WakeupRow {
        waking_ns: Some(123),
        waker_cpu: Some(1),
        chosen_cpu: Some(chosen),
        ..wakeup()
    }
}

fn behaviour(rows: &[WakeupRow]) -> Known<DomainBehaviour> {
    let rig = Rig::new(|sink| {
        fill(sink, rows, &[], &[]);
        tasks(sink);
    });
    value(&rig.answer(&Selection::default()).domains).behaviour
}

#[test]
fn placements_in_neither_llc_are_told() {
    let inside = value(&behaviour(&[placed(0), placed(1)]));
    assert_eq!(
        (inside.placements, inside.outside, inside.verdict),
        (2, 0, "fits")
    );
    // What was not selected, by class or policy, says nothing.
    let unselected = WakeupRow {
        selection: None,
        ..placed(2)
    };
    let forced = WakeupRow {
        selection: Some(false),
        ..placed(2)
    };
    let mut rows = vec![placed(0); 90];
    rows.extend([unselected, forced]);
    rows.extend(vec![placed(3); 9]);
    let few = value(&behaviour(&rows));
    assert_eq!((few.placements, few.outside, few.tasks), (99, 9, 1));
    assert_eq!(few.verdict, "few");
    let shown = &few.examples[0];
    assert_eq!(
        (shown.waking_ns, shown.wakee.as_str(), shown.wakee_pid),
        (123, "bouncer", 20)
    );
    assert_eq!(
        (shown.waker_cpu, shown.prev_cpu, shown.chosen_cpu),
        (1, 0, 3)
    );
    assert_eq!(few.examples.len(), 5);
    rows.push(placed(3));
    let wider = value(&behaviour(&rows));
    assert_eq!(
        (wider.outside, wider.outside_share, wider.verdict),
        (10, 0.1, "wider")
    );
    // As many among many more are few.
    rows.extend(vec![placed(0); 1000]);
    assert_eq!(value(&behaviour(&rows)).verdict, "few");
    // Pulled across by the waker, or left where it was.
    let pulled = WakeupRow {
        prev_cpu: Some(3),
        ..placed(0)
    };
    assert_eq!(value(&behaviour(&[pulled])).outside, 0);
    assert!(behaviour(&[]).value().is_none());
}
