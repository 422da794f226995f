//! Answers to a trace small enough to be worked by hand.

use super::Selection;
use super::answer::{Answer, Known, Quantiles, Readings};
use super::testing::{Rig, cpu, fill, json, migration, task, wait, wakeup};
use crate::replay::rows::{Sink, TaskId, WaitRow, WakeupRow};
use crate::replay::words::{Class, MigrationCause, Origin, Pair, Path, Reading, Verdict, Waker};
use crate::tables::{Budget, Table};
use crate::topology::Distance;

fn judged(seen: Verdict, any: Verdict) -> Pair<Option<Verdict>> {
    Pair([Some(seen), Some(any)])
}

fn both<T: Copy>(seen: T, any: T) -> Readings<T> {
    Readings {
        seen: Some(seen),
        any: Some(any),
    }
}

/// Three wakeups of task 1 by task 0 (stacked, on the next CPU, across LLCs), one by task 2, one by an interrupt,
/// and one before the window.
fn wakeups() -> Vec<WakeupRow> {
    vec![
        WakeupRow {
            latency_ns: Some(1000),
            queue_ns: Some(900),
            waker_cost_ns: Some(100),
            chosen_idle: Some(false),
            verdict: judged(Verdict::Saturated, Verdict::StackedPrev),
            wait_ns: 900,
            lost_ns: Pair([0, 700]),
            ..wakeup()
        },
        WakeupRow {
            chosen_cpu: Some(1),
            class: Class::Direct,
            path: Path::DirectIpi,
            waker_chosen: Distance::Llc,
            prev_chosen: Distance::Llc,
            latency_ns: Some(3000),
            queue_ns: Some(2000),
            waker_cost_ns: Some(400),
            wait_ns: 2000,
            ..wakeup()
        },
        WakeupRow {
            chosen_cpu: Some(2),
            class: Class::Queued,
            path: Path::QueuedIpi,
            waker_chosen: Distance::Node,
            prev_chosen: Distance::Node,
            cross_llc: Some(true),
            latency_ns: Some(5000),
            queue_ns: Some(1000),
            waker_cost_ns: Some(300),
            wait_ns: 1000,
            ..wakeup()
        },
        WakeupRow {
            waker: Some(TaskId(2)),
            waker_cpu: Some(3),
            prev_cpu: Some(2),
            chosen_cpu: Some(2),
            class: Class::Direct,
            path: Path::DirectNoIpi,
            waker_chosen: Distance::Llc,
            waker_prev: Distance::Llc,
            latency_ns: Some(2000),
            queue_ns: Some(1500),
            waker_cost_ns: Some(500),
            verdict: judged(Verdict::Raced, Verdict::Raced),
            wait_ns: 1500,
            lost_ns: Pair([10, 20]),
            ..wakeup()
        },
        WakeupRow {
            waker: None,
            wakee: TaskId(2),
            waker_cpu: Some(1),
            prev_cpu: Some(1),
            chosen_cpu: Some(1),
            context: Waker::Hardirq,
            queue_ns: Some(50),
            selection: None,
            chosen_idle: None,
            verdict: Pair([None, None]),
            wait_ns: 50,
            ..wakeup()
        },
        WakeupRow {
            latency_ns: Some(9999),
            queue_ns: Some(9999),
            wait_ns: 300,
            lost_ns: Pair([5, 5]),
            in_window: false,
            ..wakeup()
        },
    ]
}

fn waits() -> Vec<WaitRow> {
    let stacked = [Verdict::Saturated, Verdict::StackedPrev];
    vec![
        wait(Origin::Wakeup, stacked, 900, [0, 700]),
        wait(Origin::Wakeup, [Verdict::Transit; 2], 2000, [0, 0]),
        WaitRow {
            last_cpu: 2,
            ..wait(Origin::Wakeup, [Verdict::Transit; 2], 1000, [0, 0])
        },
        WaitRow {
            task: TaskId(2),
            last_cpu: 1,
            ..wait(Origin::Preempted, [Verdict::LateIdle; 2], 800, [30, 40])
        },
        WaitRow {
            in_window: false,
            ..wait(Origin::Wakeup, stacked, 300, [5, 5])
        },
    ]
}

/// The window is 800 ns long: the rows of four CPUs sum to 3200.
fn rig() -> Rig {
    rig_within(Budget::default())
}

fn rig_within(budget: Budget) -> Rig {
    Rig::with_budget(budget, |sink| {
        let mut tasks = [
            task(0, 10, "waker"),
            task(1, 20, "wakee\u{1b}"),
            task(2, 30, "other"),
        ];
        tasks[1].lost_ns = Pair([15, 725]);
        tasks[1].wait_ns = 5700;
        tasks[2].wait_ns = 850;
        tasks[2].run_ns = 77;
        fill(sink, &wakeups(), &waits(), &tasks);
        sink.cpu(&cpu(
            0,
            [10, 600, 20, 50, 20, 0, 100],
            [10, 600, 20, 80, 20, 30, 40],
        ));
        sink.cpu(&cpu(1, [0, 800, 0, 0, 0, 0, 0], [0, 800, 0, 0, 0, 0, 0]));
        sink.cpu(&cpu(
            2,
            [0, 100, 0, 0, 0, 100, 600],
            [0, 100, 0, 0, 0, 300, 400],
        ));
        sink.cpu(&cpu(3, [800, 0, 0, 0, 0, 0, 0], [800, 0, 0, 0, 0, 0, 0]));
        sink.migration(&migration(99, MigrationCause::Wakeup, Distance::Llc));
        sink.migration(&migration(100, MigrationCause::Wakeup, Distance::Llc));
        sink.migration(&migration(500, MigrationCause::Periodic, Distance::Node));
        sink.migration(&migration(899, MigrationCause::Wakeup, Distance::Llc));
        sink.migration(&migration(900, MigrationCause::Wakeup, Distance::Llc));
    })
}

fn answer() -> Answer {
    rig().answer(&Selection::default())
}

fn value<T: Clone>(known: &Known<T>) -> T {
    known.value().cloned().unwrap_or_else(|| panic!("known"))
}

fn quantiles(count: u64, p50: i64, p99: i64, max: i64) -> Quantiles {
    Quantiles {
        count,
        p50,
        p99,
        max,
    }
}

#[test]
fn the_ledger_adds_up() {
    let ledger = answer().ledger;
    assert_eq!(ledger.total_ns, 3200);
    assert_eq!(
        (ledger.unknown_ns, ledger.running_ns, ledger.transit_ns),
        (810, 1500, 20)
    );
    assert_eq!(value(&ledger.waiting_llc_ns).core, both(50, 80));
    assert_eq!(value(&ledger.waiting_llc_ns).smt, both(20, 20));
    assert_eq!(value(&ledger.waiting_machine_ns), both(100, 330));
    assert_eq!(ledger.waiting_ns, both(170, 430));
    assert_eq!(ledger.idle_ns, both(700, 440));
    assert_eq!(ledger.running_share, 0.46875);
    assert_eq!(ledger.idle_share, both(0.21875, 0.1375));
}

#[test]
fn llcs_with_more_waiting_come_first() {
    let llcs = value(&answer().llcs);
    let told: Vec<_> = llcs
        .iter()
        .map(|l| (l.llc, l.cpus.clone(), l.running_ns, l.waiting_ns))
        .collect();
    assert_eq!(
        told,
        [
            (1, vec![2, 3], 100, both(100, 300)),
            (0, vec![0, 1], 1400, both(70, 130)),
        ]
    );
}

#[test]
fn wakeups_by_class_path_and_distance() {
    let wakeups = answer().wakeups;
    assert_eq!(wakeups.total, 5);
    let class = |name: &str| wakeups.by_class[name];
    assert_eq!(
        (
            class("local"),
            class("direct"),
            class("queued"),
            class("new")
        ),
        (2, 2, 1, 0)
    );
    let path = |name: &str| wakeups.by_path[name];
    assert_eq!(
        (
            path("local"),
            path("direct-ipi"),
            path("direct-no-ipi"),
            path("queued-ipi")
        ),
        (2, 1, 1, 1)
    );
    let far = |name: &str| {
        let by = &wakeups.by_distance;
        (
            by.waker_chosen[name],
            by.prev_chosen[name],
            by.waker_prev[name],
        )
    };
    assert_eq!(far("same"), (2, 3, 4));
    assert_eq!(far("llc"), (2, 1, 1));
    assert_eq!(far("node"), (1, 1, 0));
    assert_eq!(far("unknown"), (0, 0, 0));
    assert_eq!(
        (wakeups.by_waker["task"], wakeups.by_waker["hardirq"]),
        (4, 1)
    );
    let cpus: Vec<_> = wakeups.per_waker_cpu.values().copied().collect();
    assert_eq!(cpus, [3, 1, 0, 1]);
    assert_eq!(value(&wakeups.cross_llc_share), 0.2);
    assert_eq!(value(&wakeups.smt_shared), 0);
    assert!(wakeups.probe_check.value().is_none());
}

#[test]
fn durations_of_wakeups() {
    let wakeups = answer().wakeups;
    assert_eq!(value(&wakeups.latency_ns), quantiles(4, 2000, 5000, 5000));
    assert_eq!(value(&wakeups.queue_ns), quantiles(5, 1000, 2000, 2000));
    assert_eq!(value(&wakeups.waker_cost_ns), quantiles(4, 300, 500, 500));
    let by = &wakeups.latency_by_distance_ns;
    assert_eq!(
        value(&by.waker_chosen["llc"]),
        quantiles(2, 2000, 3000, 3000)
    );
    assert_eq!(
        value(&by.waker_prev["same"]),
        quantiles(3, 3000, 5000, 5000)
    );
    assert_eq!(
        value(&by.prev_chosen["node"]),
        quantiles(1, 5000, 5000, 5000)
    );
    assert_eq!(
        value(&wakeups.latency_by_path_ns["queued-ipi"]),
        quantiles(1, 5000, 5000, 5000)
    );
    assert!(wakeups.latency_by_path_ns["unknown"].value().is_none());
}

#[test]
fn waits_by_origin_and_verdict() {
    let waits = answer().waits;
    // 900 + 2000 + 1000 + 800, and 300 of a wait that began before the window.
    assert_eq!((waits.count, waits.total_ns), (4, 5000));
    let origin = waits.by_origin["wakeup"];
    assert_eq!(
        (origin.count, origin.wait_ns, origin.wait_share),
        (3, 4200, 0.84)
    );
    assert_eq!(waits.by_origin["preempted"].wait_ns, 800);
    let stacked = &waits.by_verdict["stacked-prev"];
    assert_eq!(stacked.count, both(0, 1));
    assert_eq!(stacked.wait_ns, both(0, 1200));
    assert_eq!(stacked.lost_ns, both(0, 705));
    assert_eq!(stacked.wait_share, both(0.0, 0.24));
    assert_eq!(waits.by_verdict["saturated"].lost_ns, both(5, 0));
    assert_eq!(waits.by_verdict["late-idle"].lost_ns, both(30, 40));
    assert_eq!(waits.by_verdict["transit"].count, both(2, 2));
}

#[test]
fn the_idle_search() {
    let sis = answer().sis;
    assert_eq!(
        (sis.selections, sis.success, sis.fast_success, sis.failures),
        (4, 3, 1, 1)
    );
    let missed = value(&sis.missed);
    assert_eq!(missed["stacked-prev"], both(0, 1));
    assert_eq!(missed.values().filter_map(|n| n.any).sum::<u64>(), 1);
    assert_eq!(missed.len(), 5);
}

#[test]
fn migrations_count_inside_the_window_only() {
    let by_cause = value(&answer().migrations).by_cause;
    assert_eq!(by_cause["wakeup"]["llc"], 2);
    assert_eq!(by_cause["periodic"]["node"], 1);
    assert_eq!(by_cause.values().flat_map(|by| by.values()).sum::<u64>(), 3);
    let mut rig = rig();
    rig.types.pop();
    assert!(
        rig.answer(&Selection::default())
            .migrations
            .value()
            .is_none()
    );
}

#[test]
fn pairs_come_worst_first() {
    let pairs = answer().pairs;
    assert_eq!(pairs.len(), 2);
    let first = &pairs[0];
    assert_eq!((first.waker.as_str(), first.waker_pid), ("waker", 10));
    assert_eq!(
        (first.wakee.as_str(), first.wakee_pid),
        ("wakee\\u{1b}", 20)
    );
    assert_eq!(
        (first.wakeups, first.wait_ns, first.lost_ns),
        (3, 4200, both(5, 705))
    );
    assert_eq!(
        (first.by_path["local"], first.by_path["queued-ipi"]),
        (1, 1)
    );
    assert_eq!(
        (first.waker_chosen["same"], first.waker_chosen["node"]),
        (1, 1)
    );
    assert_eq!(value(&first.latency_ns), quantiles(3, 3000, 5000, 5000));
    assert_eq!(value(&first.stacked), both(0, 1));
    assert!((value(&first.cross_llc_share) - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(first.stack_or_spread, "undecided");
    assert_eq!((pairs[1].wakeups, pairs[1].lost_ns), (1, both(10, 20)));
}

/// Thirty wakeups on the waker's CPU with 9 µs of common work each, and thirty to an idle CPU that took 4 µs.
#[test]
fn stack_or_spread_of_a_pair() {
    let rig = Rig::new(|sink| {
        let stacked = WakeupRow {
            overlap_ns: Some(9000),
            verdict: judged(Verdict::StackedPrev, Verdict::StackedPrev),
            ..wakeup()
        };
        let away = WakeupRow {
            chosen_cpu: Some(1),
            waker_chosen: Distance::Llc,
            latency_ns: Some(4000),
            wait_ns: 1,
            ..wakeup()
        };
        for _ in 0..30 {
            sink.wakeup(&stacked);
            sink.wakeup(&away);
        }
        // Censored: not counted.
        sink.wakeup(&WakeupRow {
            overlap_censored: true,
            overlap_ns: Some(1),
            ..stacked.clone()
        });
        fill(sink, &[], &[], &[task(0, 1, "a"), task(1, 2, "b")]);
    });
    let pair = &rig.answer(&Selection::default()).pairs[0];
    let (overlap, cost) = (value(&pair.overlap_ns), value(&pair.cost_of_spreading_ns));
    assert_eq!((overlap.value, overlap.n), (9000.0, 30));
    assert_eq!((cost.value, cost.n), (4000.0, 30));
    assert_eq!(
        pair.stack_or_spread, "spread",
        "{}",
        pair.stack_or_spread_why
    );
}

#[test]
fn tasks_come_worst_first() {
    let tasks = answer().tasks;
    let names: Vec<_> = tasks.iter().map(|task| task.pid).collect();
    assert_eq!(names, [20, 30, 10]);
    assert_eq!(tasks[0].lost_ns, both(15, 725));
    assert_eq!(value(&tasks[0].latency_ns), quantiles(4, 2000, 5000, 5000));
    assert!(tasks[1].latency_ns.value().is_none());
    let top = Selection {
        top: 1,
        ..Selection::default()
    };
    let answer = rig().answer(&top);
    assert_eq!((answer.tasks.len(), answer.pairs.len()), (1, 1));
}

#[test]
fn cpus_and_tasks_can_be_selected() {
    let cpus = Selection {
        cpus: Some(vec![2, 3]),
        ..Selection::default()
    };
    let answer = rig().answer(&cpus);
    assert_eq!((answer.ledger.total_ns, answer.wakeups.total), (1600, 2));
    assert_eq!((answer.waits.count, answer.waits.total_ns), (1, 1000));
    assert_eq!(value(&answer.llcs).len(), 1);
    let tasks = |pattern: &str| Selection {
        task: Some(pattern.to_owned()),
        ..Selection::default()
    };
    for pattern in ["other", "o*", "30"] {
        let answer = rig().answer(&tasks(pattern));
        assert_eq!(
            (
                answer.wakeups.total,
                answer.waits.total_ns,
                answer.tasks.len()
            ),
            (1, 800, 1)
        );
        assert_eq!(answer.ledger.total_ns, 3200);
        assert!(answer.caveats.iter().any(|text| text.contains("--task")));
    }
    let nobody = rig();
    let error = nobody.scope(&tasks("nobody")).err().map(|e| e.to_string());
    assert!(error.is_some_and(|text| text.contains("none of the trace's 3 tasks")));
    let nowhere = Selection {
        cpus: Some(vec![9]),
        ..Selection::default()
    };
    assert!(nobody.scope(&nowhere).is_err());
}

#[test]
fn without_a_topology_nothing_is_said_of_llcs() {
    let answer = rig().without_topology().answer(&Selection::default());
    assert!(answer.ledger.waiting_llc_ns.value().is_none());
    assert!(answer.ledger.waiting_machine_share.value().is_none());
    assert_eq!(answer.ledger.waiting_ns, both(170, 430));
    assert!(answer.llcs.value().is_none() && answer.sis.missed.value().is_none());
    assert!(answer.wakeups.cross_llc_share.value().is_none());
    assert!(answer.pairs[0].stacked.value().is_none());
    assert_eq!(answer.fitness.cross_llc.fit, "no");
    assert_eq!(answer.fitness.missed_idle.fit, "partly");
    let Known::Unknown { unknown } = &answer.ledger.waiting_llc_ns else {
        panic!("unknown");
    };
    assert!(unknown.contains("--topology"), "{unknown}");
}

#[test]
fn one_reading_alone() {
    let mut rig = rig();
    rig.config.readings = vec![Reading::Seen];
    let answer = rig.answer(&Selection::default());
    assert_eq!(
        answer.ledger.waiting_ns,
        Readings {
            seen: Some(170),
            any: None
        }
    );
    assert_eq!(answer.ledger.total_ns, 3200);
    assert_eq!(
        answer.waits.by_verdict["saturated"].count,
        Readings {
            seen: Some(1),
            any: None
        }
    );
    assert_eq!(answer.pairs[0].lost_ns.any, None);
    // By lost time as seen the pair with 10 ns comes before the one with 5.
    assert_eq!(answer.pairs[0].waker, "other");
    assert!(
        answer
            .caveats
            .iter()
            .any(|text| text.contains("lower estimate"))
    );
}

#[test]
fn fitness_follows_coverage_and_events() {
    let fitness = answer().fitness;
    // 810 of 3200 ns are unknown.
    assert!((fitness.latency.coverage - 0.746875).abs() < 1e-12);
    assert_eq!(
        (fitness.latency.fit, fitness.missed_idle.fit),
        ("partly", "partly")
    );
    assert_eq!((fitness.ipis.fit, fitness.flips.fit), ("no", "partly"));
    let mut rig = rig();
    rig.survey.by_type[1] = 0;
    let fitness = rig.answer(&Selection::default()).fitness;
    assert_eq!(
        (
            fitness.latency.fit,
            fitness.missed_idle.fit,
            fitness.flips.fit
        ),
        ("partly", "no", "no")
    );
}

#[test]
fn an_empty_trace_has_an_answer() {
    let answer = Rig::new(|_| {}).answer(&Selection::default());
    assert_eq!(
        (
            answer.wakeups.total,
            answer.waits.count,
            answer.ledger.total_ns
        ),
        (0, 0, 0)
    );
    assert!(answer.wakeups.latency_ns.value().is_none());
    assert!(answer.pairs.is_empty() && answer.tasks.is_empty());
}

#[test]
fn caveats_are_sentences_that_apply() {
    let mut rig = rig();
    rig.counts.inconsistent_waits = 3;
    rig.counts.backward_stamps = 1;
    rig.survey.cpus.clear();
    let caveats = rig.answer(&Selection::default()).caveats;
    let told = |part: &str| caveats.iter().any(|text| text.contains(part));
    assert!(told("3 waits were given up because the events contradict"));
    assert!(told("the stamp of 1 event is older"));
    assert!(told("25.31 % of the CPU time"));
    assert!(!told("missing in them"));
    assert!(
        caveats.iter().all(|text| !text.contains(" 0 ")),
        "{caveats:?}"
    );
}

#[test]
fn spilled_tables_answer_the_same() {
    let spilled = rig_within(Budget {
        memory_bytes: 0,
        batch_rows: 2,
        spill_in: None,
    });
    assert!(spilled.tables.spilled_batches() > 3);
    let half = rig_within(Budget {
        memory_bytes: 12_000,
        batch_rows: 1,
        spill_in: None,
    });
    assert!(half.tables.memory_bytes() > 0 && half.tables.spilled_batches() > 0);
    assert_eq!(half.tables.rows(Table::Wakeups), 6);
    let expected = json(&rig());
    assert_eq!(json(&spilled), expected);
    assert_eq!(json(&half), expected);
}

/// Of the five wakeups in the window four have a latency, and four a selection, while of one it may be; of the ten
/// waits two were given up.
#[test]
fn sections_say_what_they_cover() {
    let mut rig = Rig::new(|sink| {
        let mut wakeups = wakeups();
        wakeups[4].class = Class::DirectOrDelayed;
        fill(sink, &wakeups, &[], &[]);
    });
    (rig.counts.waits, rig.counts.withdrawn_waits) = (10, 1);
    rig.counts.inconsistent_waits = 1;
    let answer = rig.answer(&Selection::default());
    assert_eq!(
        (
            answer.wakeups.coverage,
            answer.sis.coverage,
            answer.waits.coverage
        ),
        (0.8, 0.8, 0.8)
    );
    let nothing = Rig::new(|_| {}).answer(&Selection::default());
    assert_eq!(nothing.wakeups.coverage, 1.0);
}

/// The wait that lost most is the one to look at, be another longer; a pair's is one that its wakeups began.
#[test]
fn the_wait_to_look_at() {
    let of_pair = |origin, start_ns, wait_ns, lost_ns| WaitRow {
        start_ns,
        end_ns: Some(start_ns + wait_ns),
        last_cpu: 3,
        waker: Some(TaskId(0)),
        ..wait(
            origin,
            [Verdict::Saturated, Verdict::Prev],
            wait_ns,
            lost_ns,
        )
    };
    let rig = Rig::new(|sink| {
        let waits = [
            of_pair(Origin::Wakeup, 200, 50, [0, 10]),
            of_pair(Origin::Wakeup, 300, 40, [0, 20]),
            of_pair(Origin::Wakeup, 400, 40, [0, 20]),
            of_pair(Origin::Preempted, 500, 90, [0, 80]),
        ];
        let tasks = [task(0, 10, "waker"), task(1, 20, "wakee")];
        fill(sink, &wakeups()[..1], &waits, &tasks);
    });
    let answer = rig.answer(&Selection::default());
    let of_pair = answer.pairs[0].worst_wait.value().expect("a wait");
    assert_eq!(
        (of_pair.start_ns, of_pair.end_ns, of_pair.lost_ns),
        (300, 340, 20)
    );
    assert_eq!(of_pair.verdict, both("saturated", "prev"));
    let wakee = answer.tasks.iter().find(|task| task.pid == 20);
    let of_wakee = wakee.and_then(|task| task.worst_wait.value());
    let of_wakee = of_wakee.expect("a wait");
    assert_eq!((of_wakee.start_ns, of_wakee.cpu), (500, 3));
    let waker = answer.tasks.iter().find(|task| task.pid == 10);
    assert!(waker.expect("the waker").worst_wait.value().is_none());
}
