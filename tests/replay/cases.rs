//! Faults that other tools had, as reported by their users: the same inputs and the right answers. Numbers are
//! those of the collection in `shared/cases/REPORTS.md`; times are nanoseconds, as given there.

use crate::support::Rows;
use crate::support::script::Script;
use ttwu::replay::words::{Class, LedgerRow, MigrationKind, Origin, Path, Reading, Verdict, Waker};
use ttwu::topology::Distance;

/// Re-types a case: times in seconds with six decimals, else the language of the scripts.
fn case(topology: &str, text: &str) -> Script {
    let lines = text.lines().map(|line| {
        let line = line.trim();
        match line.split_once(' ') {
            Some((time, rest)) if time.contains('.') => {
                format!(
                    "{}000 {rest}\n",
                    time.replace('.', "").trim_start_matches('0')
                )
            }
            _ => format!("{line}\n"),
        }
    });
    Script::new(topology, &lines.collect::<String>())
}

const US: i64 = 1_000;
const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;

fn waker_pid(rows: &Rows, at: usize) -> Option<i32> {
    let waker = rows.wakeups[at].waker?;
    rows.tasks.iter().find(|t| t.task == waker).map(|t| t.pid)
}

/// 2, 13: records of two CPUs out of order made 9.4 s of a wait of 2.1 ms. Here they are merged by time.
#[test]
fn b01_a_wait_begins_with_the_last_wakeup_before_the_switch() {
    let script = case(
        "",
        "
        14.663860 1 276 wakeup 469 to=0
        14.663900 0 0   switch 0:R 469
        14.663928 0 469 switch 469:S 0
        24.098253 1 276 wakeup 469 to=0
        24.100353 0 519 switch 519:S 469",
    );
    let (rows, counts) = script.run();
    let waits: Vec<i64> = rows.waits.iter().map(|w| w.wait_ns).collect();
    assert_eq!(waits, [40 * US, 2_100 * US]);
    // How 519 came to CPU 0 was not recorded.
    assert_eq!(
        (counts.switch_mismatches, counts.inconsistent_waits),
        (1, 0)
    );
    assert_eq!(rows.pid(469).run_ns, 28 * US);
}

/// 22: a thread switches in on CPU 1 after it was seen to go to CPU 2. Counted, and no reason to give up.
#[test]
fn b01_with_a_migration_elsewhere_is_counted() {
    let script = case(
        "",
        "
        14.663800 0 0   switch 0:R 519
        14.663860 1 276 wakeup 469 to=0
        14.663870 2 0   migrate 469 0 2
        14.663900 0 519 switch 519:S 469
        14.663928 0 469 switch 469:S 0",
    );
    let (rows, counts) = script.run();
    assert_eq!(counts.inferred_migrations, 1);
    assert_eq!((rows.waits.len(), rows.waits[0].wait_ns), (1, 40 * US));
    assert_eq!((rows.waits[0].first_cpu, rows.waits[0].last_cpu), (0, 0));
}

/// 1: three wakeups before one switch made 880 ms of latency.
#[test]
fn b02_a_stale_wakeup_is_no_headline() {
    let mut script = case(
        "",
        "
        12.567210 58  41 wakeup 99 to=58
        13.448807 15  42 wakeup 99 to=118
        13.448824 118 7  switch 7:S 0
        13.448861 118 99 wakeup 41 to=58
        13.448911 118 99 switch 99:S 0",
    );
    let (rows, counts) = script.run();
    assert_eq!(counts.inconsistent_waits, 1);
    // In one part of the time only.
    let (start, middle, end) = (12_567_210_000, 13_000_000_000, 13_448_911_000);
    let mut in_part = |from, to| {
        script.window = Some((from, to));
        script.run().1.inconsistent_waits
    };
    assert_eq!((in_part(start, middle), in_part(middle, end)), (0, 1));
    assert!(
        rows.waits.iter().all(|w| w.wait_ns < 100 * US),
        "{:?}",
        rows.waits
    );
    assert!(
        rows.wakeups
            .iter()
            .all(|w| w.queue_ns.is_none_or(|ns| ns < 100 * US))
    );
    // Both wakeups of 99 are there, and so is the one it made.
    assert_eq!(rows.wakeups.len(), 3);
}

const B03: &str = "
    5.000000 0 20 other
    5.000010 1 10 waking 20 prev=0
    5.000020 0 20 switch 20:S 0
    5.000022 0 0  wakeup 20 to=0
    5.000030 0 0  switch 0:R 20";

/// 6: a waking while the wakee still runs was dropped.
#[test]
fn b03_a_waking_of_a_running_task_is_held() {
    let (rows, counts) = case("llc=0-1 smt=0;1 node=0-1", B03).run();
    let w = &rows.wakeups[0];
    assert_eq!((rows.wakeups.len(), w.class), (1, Class::Queued));
    assert_eq!((w.latency_ns, w.queue_ns), (Some(20 * US), Some(8 * US)));
    assert_eq!(waker_pid(&rows, 0), Some(10));
    assert_eq!((rows.waits.len(), rows.waits[0].wait_ns), (1, 8 * US));
    assert_eq!(
        (counts.wakings_without_wakeup, counts.ran_without_wakeup),
        (0, 0)
    );
    assert_eq!(rows.waits[0].verdict[Reading::Any], Verdict::Transit);
}

/// 6: with no later wakeup or switch-in it is counted, and is no wait.
#[test]
fn b03_without_an_enqueue_the_waking_is_dropped_and_counted() {
    // Another wakeup shows that enqueues are recorded.
    let text = B03.replace(
        "5.000022 0 0  wakeup 20 to=0",
        "5.000022 1 10 wakeup 30 to=1",
    );
    let text = text.replace("5.000030 0 0  switch 0:R 20", "5.000030 0 0 other");
    let (rows, counts) = case("", &text).run();
    assert_eq!(counts.wakings_without_wakeup, 1);
    assert!(!rows.waits.iter().any(|w| w.task == rows.pid(20).task));
    let w = rows.woken_at(5 * S + 10 * US);
    assert_eq!((w.class, w.latency_ns), (Class::Anomaly, None));
}

/// 3, 95: `sched_wakeup` on the idle target reads as if CPU 8 had woken itself.
#[test]
fn b04_the_waker_is_who_called_waking() {
    let script = case(
        "llc=0-7;8-15 node=0-15",
        "
        7.000000 3 33  waking 44 prev=9
        7.000002 3 33  migrate 44 9 8
        7.000005 8 0/h wakeup 44 to=8
        7.000009 8 0   switch 0:R 44",
    );
    let (rows, _) = script.run();
    let w = &rows.wakeups[0];
    assert_eq!(waker_pid(&rows, 0), Some(33));
    assert_eq!((w.context, w.class), (Waker::Task, Class::Queued));
    assert_eq!(
        (w.waker_cpu, w.prev_cpu, w.chosen_cpu),
        (Some(3), Some(9), Some(8))
    );
    assert_eq!((w.cross_llc, w.waker_chosen), (Some(true), Distance::Node));
    assert_eq!((w.latency_ns, w.queue_ns), (Some(9 * US), Some(4 * US)));
    assert_eq!(rows.migrations[0].kind, MigrationKind::Wakeup);
    // With `sched_wakeup` alone the waker is unknown, not the idle task.
    let alone = script.with(7 * S, 3, "");
    let (rows, _) = alone.run();
    assert_eq!(
        (rows.wakeups[0].waker, rows.wakeups[0].waker_cpu),
        (None, None)
    );
    assert_eq!(
        (rows.wakeups[0].context, rows.wakeups[0].cross_llc),
        (Waker::Unknown, None)
    );
}

/// 4: the waking's `target_cpu` is where the wakee was, not where it goes.
#[test]
fn b05_the_placement_is_that_of_the_enqueue() {
    let (rows, _) = case(
        "",
        "
        8.000000 0 1 waking 2 prev=4
        8.000001 0 1 migrate 2 4 1
        8.000003 1 0 wakeup 2 to=1
        8.000006 1 0 switch 0:R 2",
    )
    .run();
    let w = &rows.wakeups[0];
    assert_eq!(
        (w.waker_cpu, w.prev_cpu, w.chosen_cpu),
        (Some(0), Some(4), Some(1))
    );
    assert_eq!((w.latency_ns, w.queue_ns), (Some(6 * US), Some(3 * US)));
    assert_eq!(
        (rows.waits[0].first_cpu, rows.waits[0].wait_ns),
        (1, 3 * US)
    );
    assert_eq!(waker_pid(&rows, 0), Some(1));
}

/// 9, 10, 11: one slot for all idle tasks made latencies near 2^64.
#[test]
fn b06_idle_is_a_state_of_each_cpu() {
    let (rows, _) = case(
        "",
        "
        9.000010 0 11 switch 11:S 0
        9.000020 1 12 switch 12:S 0
        9.000029 1 0  switch 0:R 14
        9.000030 0 0  switch 0:R 13
        9.000031 1 14 wakeup 0 to=0",
    )
    .run();
    let idle: Vec<_> = rows
        .idle
        .iter()
        .map(|i| (i.cpu, i.end_ns - i.start_ns))
        .collect();
    assert_eq!(idle, [(1, 9 * US), (0, 20 * US)]);
    assert!(rows.tasks.iter().all(|t| t.pid != 0));
    assert_eq!((rows.waits.len(), rows.wakeups.len()), (0, 0));
}

/// 24, 28: events lost in the middle.
#[test]
fn b07_nothing_spans_a_gap() {
    let (rows, _) = case(
        "",
        "
        10.000000 1 1 waking 2 prev=0
        10.000010 0 0 switch 0:R 2
        10.000010 0 0 lost 120
        10.500000 0 0 lost-end
        10.500000 0 3 switch 3:S 0
        10.500010 1 1 waking 2 prev=0
        10.500020 0 0 switch 0:R 2",
    )
    .run();
    let latency: Vec<_> = rows.wakeups.iter().map(|w| w.latency_ns).collect();
    assert_eq!(latency, [Some(10 * US), Some(10 * US)]);
    assert_eq!((rows.lost.len(), rows.lost[0].events), (1, Some(120)));
    // The first run has no known end, 3's none at all.
    assert_eq!((rows.pid(2).run_ns, rows.pid(3).run_ns), (0, 0));
    assert!(rows.slices.iter().all(|s| s.end_ns >= s.start_ns));
    let unknown = rows.cell(Reading::Any, 0, LedgerRow::Unknown);
    assert_eq!(unknown, 499_990 * US);
    assert!(rows.wakeups.iter().all(|w| w.wakee_run_ns.is_none()));
}

const B08: &str = "
    11.000000 0 0 switch 0:R 2
    11.000100 0 2 switch 2:S 0
    11.400000 1 5 switch 5:S 0
    11.400005 1 0 waking 2 prev=0";

/// 20, 21, 23: per-CPU buffers that start at different times.
#[test]
fn b08_a_cpu_not_recorded_yet_is_unknown_not_idle() {
    let mut script = case("", B08);
    script.complete = false;
    let (rows, _) = script.run();
    assert_eq!(rows.cell(Reading::Any, 1, LedgerRow::Unknown), 400 * MS);
    assert_eq!(rows.cell(Reading::Any, 1, LedgerRow::Idle), 5 * US);
    assert_eq!(rows.cell(Reading::Any, 0, LedgerRow::Idle), 399_905 * US);
    assert_eq!(rows.cell(Reading::Any, 0, LedgerRow::Running), 100 * US);
    assert!(
        rows.idle
            .iter()
            .all(|i| i.cpu != 1 || i.start_ns >= 11_400 * MS)
    );
    assert_eq!(rows.pid(5).run_ns, 0);
}

/// 31: a CPU whose records cease early is shown with its last stamp.
#[test]
fn b08_reversed_first_and_last_stamps_are_told() {
    let (rows, _) = case("", B08).run();
    let stamps: Vec<_> = rows
        .cpus
        .iter()
        .map(|c| (c.first_event_ns, c.last_event_ns))
        .collect();
    let us = |us: i64| Some(11 * S + us * US);
    assert_eq!(stamps, [(us(0), us(100)), (us(400_000), us(400_005))]);
}

/// 75: a name frozen at first sight.
#[test]
fn b10_the_last_name_counts() {
    let (rows, _) = case(
        "",
        "
        name 90 python3
        13.000000 0 90 switch 90:S 0
        13.100000 1 1  waking 90 prev=0
        13.100010 0 0  switch 0:R 90
        name 90 IO_thread_#1
        13.100090 0 90 switch 90:S 0
        13.200000 1 1  waking 90 prev=0
        13.200010 0 0  switch 0:R 90",
    )
    .run();
    let task = rows.pid(90);
    assert_eq!((rows.tasks.len(), task.generation), (2, 0));
    assert_eq!(task.comm.as_bytes(), b"IO_thread_#1");
    assert_eq!(task.former_names.len(), 1);
    assert_eq!(task.former_names[0].as_bytes(), b"python3");
    assert_eq!((task.run_ns, task.wakeups_received), (80 * US, 2));
}

/// 16: four events of one microsecond.
#[test]
fn b21_zero_length_intervals_are_kept() {
    let (rows, counts) = case(
        "",
        "
        30.772964 0 2   switch 2:S 0
        30.772964 0 0/h waking 2 prev=0
        30.772964 0 0   switch 0:R 2
        30.772964 0 2   switch 2:S 0",
    )
    .run();
    assert_eq!(
        (rows.wakeups.len(), rows.wakeups[0].latency_ns),
        (1, Some(0))
    );
    assert_eq!((rows.waits.len(), rows.waits[0].wait_ns), (1, 0));
    assert_eq!(rows.wakeups[0].wakee_run_ns, Some(0));
    assert_eq!(rows.cpus[0].switches, 3);
    assert_eq!(rows.slices.len(), 2);
    assert!(rows.idle.iter().all(|i| i.start_ns == i.end_ns) && !rows.idle.is_empty());
    assert_eq!((counts.backward_stamps, counts.switch_mismatches), (0, 0));
}

/// 18, 19: what began before the recording counts from its start.
#[test]
fn b24_a_run_before_the_start_is_not_counted() {
    let mut script = case(
        "",
        "
        40.000500 0 2 switch 2:S 0
        40.000800 1 1 waking 2 prev=0
        40.001000 0 0 switch 0:R 2
        40.002000 0 2 switch 2:R 3",
    );
    script.complete = false;
    let (rows, counts) = script.run();
    assert_eq!((rows.pid(2).run_ns, rows.pid(2).wait_ns), (MS, 200 * US));
    assert_eq!(rows.woken_at(40 * S + 800 * US).latency_ns, Some(200 * US));
    // Preempted at the last stamp: a wait that is open, of no length.
    let last = rows.wait_at(40 * S + 2 * MS);
    assert_eq!(
        (last.end_ns, last.wait_ns, last.origin),
        (None, 0, Origin::Preempted)
    );
    assert_eq!(counts.open_waits, 1);
    // The run that began with the wakeup has not ended in a block.
    assert_eq!(rows.woken_at(40 * S + 800 * US).wakee_run_ns, None);
    assert_eq!(rows.cell(Reading::Any, 0, LedgerRow::Running), MS);
}

/// 26, 27: what is open at the end ends with the last event, and is there.
#[test]
fn b25_the_last_state_lasts_to_the_last_event() {
    let (rows, _) = case(
        "",
        "
        41.000000 0 0 switch 0:R 2
        41.000500 0 2 waking 3 prev=1",
    )
    .run();
    let slices: Vec<_> = rows
        .slices
        .iter()
        .map(|s| (s.cpu, s.end_ns - s.start_ns, s.end_state))
        .collect();
    assert_eq!(slices, [(0, 500 * US, None)]);
    assert_eq!(rows.wakeups.len(), 1);
    assert_eq!(rows.wakeups[0].latency_ns, None);
    assert_eq!(rows.waits.iter().map(|w| w.wait_ns).sum::<i64>(), 0);
    assert_eq!(rows.cell(Reading::Any, 1, LedgerRow::Unknown), 500 * US);
}

const B26: &str = "
    42.000000 2 1 waking 2 prev=0
    42.000003 2 1 wakeup 2 to=0
    42.000400 5 0 migrate 2 0 5
    42.000410 5 0 switch 0:R 2
    42.000600 5 2 switch 2:S 0";

/// 5: a move while runnable.
#[test]
fn b26_a_pulled_task_has_one_wait() {
    let (rows, counts) = case("", B26).run();
    let wait = &rows.waits[0];
    assert_eq!(
        (rows.waits.len(), wait.origin, wait.wait_ns),
        (1, Origin::Wakeup, 407 * US)
    );
    assert_eq!((wait.first_cpu, wait.last_cpu, wait.moves), (0, 5, 1));
    let w = &rows.wakeups[0];
    // Placed on CPU 0; the balancer's pull is not the wakeup's choice.
    assert_eq!(
        (w.chosen_cpu, w.latency_ns, w.queue_ns),
        (Some(0), Some(410 * US), Some(407 * US))
    );
    let moved = &rows.migrations[0];
    assert_eq!(
        (moved.kind, moved.by_cpu, moved.inferred),
        (MigrationKind::Runnable, 5, false)
    );
    assert_eq!(moved.ts_ns - wait.start_ns, 397 * US);
    assert_eq!(counts.inferred_migrations, 0);
}

/// 29: the same without the migration's event.
#[test]
fn b26_a_move_that_was_not_recorded_is_inferred() {
    let (rows, counts) = case("", B26).with(42 * S + 400 * US, 5, "").run();
    assert_eq!((rows.waits.len(), rows.waits[0].wait_ns), (1, 407 * US));
    let moved = &rows.migrations[0];
    assert_eq!((moved.from_cpu, moved.to_cpu, moved.inferred), (0, 5, true));
    assert_eq!(counts.inferred_migrations, 1);
    assert_eq!(
        (
            rows.waits[0].last_cpu,
            rows.waits[0].moves,
            rows.pid(2).migrations
        ),
        (5, 1, 1)
    );
}

/// 97: the only idle CPU is in an LLC in which a wakeup does not look.
#[test]
fn b27_an_idle_cpu_of_another_llc_is_no_miss() {
    let (rows, _) = case(
        "llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7",
        "
        43.000000 4 9 switch 9:S 0
        43.000010 0 1 waking 2 prev=1
        43.000011 0 1 wakeup 2 to=1
        43.002000 1 8 switch 8:R 2",
    )
    .run();
    let wait = &rows.waits[0];
    assert_eq!(wait.wait_ns, 1_989 * US);
    let missed = [
        Verdict::StackedPrev,
        Verdict::StackedPull,
        Verdict::Prev,
        Verdict::Other,
        Verdict::OtherLlc,
    ];
    assert!(
        !missed.contains(&wait.verdict[Reading::Any]),
        "{:?}",
        wait.verdict
    );
    assert_eq!(wait.verdict[Reading::Seen], Verdict::Affinity);
    assert_eq!(rows.wakeups[0].waker_chosen, Distance::Smt);
    // The capacity was lost all the same: to the machine, not to the LLC.
    assert_eq!(
        rows.cell(Reading::Any, 4, LedgerRow::WaitingMachine),
        1_989 * US
    );
    assert_eq!(rows.total(Reading::Any, LedgerRow::WaitingLlcCore), 0);
}

const B28: &str = "
    44.000000 0 2 switch 2:S 3
    44.000200 1 1 waking 2 prev=0
    44.000201 1 1 wakeup 2 to=0
    44.000205 0 3 switch 3:R+ 2";

/// A wakeup that is no placement: the wakee's dequeue was delayed.
#[test]
fn b28_a_delayed_dequeue_is_no_placement() {
    let run = |topology: &str, version| {
        let mut script = case(topology, B28);
        script.version = version;
        script.run().0.wakeups[0].clone()
    };
    let two = "llc=0;1 smt=0;1 node=0-1";
    let one = "llc=0-1 smt=0;1 node=0-1";
    let w = run(two, (6, 12));
    assert_eq!((w.class, w.selection), (Class::Delayed, Some(false)));
    assert_eq!(
        (w.verdict[Reading::Any], w.latency_ns),
        (Some(Verdict::NoSelection), Some(5 * US))
    );
    // Within an LLC, or where LLCs are unknown, it may have been a wakeup proper.
    assert_eq!(run(one, (6, 12)).class, Class::DirectOrDelayed);
    assert_eq!(run("", (6, 12)).class, Class::DirectOrDelayed);
    assert_eq!(run(two, (6, 8)).class, Class::Direct);
    assert_eq!(run(two, (6, 12)).path, Path::DirectNoIpi);
}
