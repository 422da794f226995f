//! The CPU-time ledgers, computed by hand: every row, both readings, matching, shares, gaps and windows.

use crate::support::Rows;
use crate::support::script::Script;
use ttwu::replay::words::{LEDGER_ROWS, LedgerRow, Pair, Reading, Verdict};

use LedgerRow::{Idle, Running, Transit, Unknown, WaitingLlcCore, WaitingLlcSmt, WaitingMachine};
use Reading::{Any, Seen};

/// Asserts some rows of one CPU's ledger under one reading, and that all its others are empty.
#[track_caller]
fn check(rows: &Rows, reading: Reading, cpu: u32, expected: &[(LedgerRow, i64)]) {
    let mut wanted = [0; LEDGER_ROWS];
    for (row, ns) in expected {
        wanted[usize::from(row.code())] = *ns;
    }
    let found = rows.cpus.iter().find(|c| c.cpu == cpu).expect("that CPU");
    assert_eq!(
        found.ledger[reading],
        wanted,
        "cpu {cpu}, {}",
        reading.as_str()
    );
}

/// One LLC of three cores of two threads.
const ONE_LLC: &str = "llc=0-5 smt=0-1;2-3;4-5 node=0-5";

/// CPUs 0 and 4 run 10 and 14; the others run nothing.
const START: &str = "
    0 0 10 other
    0 1 0 other
    0 2 0 other
    0 3 0 other
    0 4 14 other
    0 5 15 other
    0 5 15 switch 15:S 0
";

/// 21, 22, 23 are queued behind 10 on CPU 0 at 100, 200 and 300; at 1000 all are off and on again.
const THREE_WAIT: &str = "
    90 0 10 waking 21 prev=0
    100 0 10 wakeup 21 to=0
    190 0 10 waking 22 prev=0
    200 0 10 wakeup 22 to=0
    290 0 10 waking 23 prev=0
    300 0 10 wakeup 23 to=0
    1000 0 10 switch 10:S 21
    1100 0 21 switch 21:S 22
    1200 0 22 switch 22:S 23
    1300 0 23 switch 23:S 0
    2000 4 14 other
";

#[test]
fn idle_cores_are_lost_before_threads_of_busy_cores() {
    let (rows, counts) = Script::new(ONE_LLC, &format!("{START}{THREE_WAIT}")).run();
    // Free: 2 and 3, a whole core, then 1 and 5 beside busy threads. Two threads of a whole core count
    // as whole, as nothing runs there. Waiting: one from 100, two from 200, three from 300 to 1000,
    // two to 1100, one to 1200.
    check(&rows, Any, 2, &[(Idle, 100 + 800), (WaitingLlcCore, 1100)]);
    check(&rows, Any, 3, &[(Idle, 200 + 900), (WaitingLlcCore, 900)]);
    check(&rows, Any, 1, &[(Idle, 300 + 1000), (WaitingLlcSmt, 700)]);
    check(&rows, Any, 5, &[(Idle, 2000)]);
    check(&rows, Any, 0, &[(Running, 1300), (Idle, 700)]);
    check(&rows, Any, 4, &[(Running, 2000)]);
    // They were seen on CPU 0 only: by that reading nothing was lost.
    check(&rows, Seen, 2, &[(Idle, 2000)]);
    check(&rows, Seen, 1, &[(Idle, 2000)]);
    // As many CPUs as waiting tasks: each lost its whole wait.
    for (pid, wait) in [(21, 900), (22, 900), (23, 900)] {
        let task = rows.pid(pid);
        assert_eq!((task.wait_ns, task.lost_ns), (wait, Pair([0, wait])));
    }
    assert_eq!(counts.withdrawn_lost_ns, Pair([0, 0]));
}

#[test]
fn a_due_task_makes_transit_of_a_cpu_and_waits_for_nobody() {
    // 21 is on its way to CPU 1 from 100, enqueued at 150, in at 180; 22 comes behind it at 160.
    let text = format!(
        "{START}
         100 0 10 waking 21 prev=1
         101 0 10 csd 1
         150 1 0/h wakeup 21 to=1
         155 0 10 waking 22 prev=1
         160 0 10 wakeup 22 to=1
         180 1 0 switch 0:R 21
         400 1 21 switch 21:S 22
         500 1 22 switch 22:S 0
         1000 0 10 other"
    );
    let (rows, _) = Script::new(ONE_LLC, &text).run();
    check(
        &rows,
        Any,
        1,
        &[(Idle, 100 + 500), (Transit, 80), (Running, 320)],
    );
    // 22 waits from 160 to 400: the whole core 2-3 is there.
    check(&rows, Any, 2, &[(Idle, 160 + 600), (WaitingLlcCore, 240)]);
    assert_eq!(rows.pid(21).lost_ns, Pair([0, 0]));
    assert_eq!((rows.pid(21).wait_ns, rows.pid(22).wait_ns), (30, 240));
    assert_eq!(rows.pid(22).lost_ns, Pair([0, 240]));
    // If the CPU takes 22 first, 21 waits from then on like any other.
    let swapped = text
        .replace("0:R 21", "0:R 22")
        .replace("21:S 22", "22:S 21")
        .replace("22 switch 22:S 0", "21 switch 21:S 0");
    let swapped = swapped
        .replace("400 1 21", "400 1 22")
        .replace("500 1 22", "500 1 21");
    let (rows, _) = Script::new(ONE_LLC, &swapped).run();
    assert_eq!(
        (rows.pid(21).wait_ns, rows.pid(21).lost_ns),
        (250, Pair([0, 220]))
    );
    assert_eq!(
        (rows.pid(22).wait_ns, rows.pid(22).lost_ns),
        (20, Pair([0, 20]))
    );
}

#[test]
fn the_matching_is_a_maximum_one() {
    // 21 was seen on CPUs 0, 1 and 2; 22 on 0 and 1. Both wait on CPU 0 from 500 to 1500 while 1 and 2 run
    // nothing: taking CPU 1 for 21 must not leave 22 without any.
    let text = "
        0 0 10 other
        0 1 21 other
        0 2 0 other
        100 1 21 switch 21:S 22
        150 0 10 waking 21 prev=1
        152 0 10 csd 2
        155 2 0/h wakeup 21 to=2
        160 2 0 switch 0:R 21
        200 1 22 switch 22:S 0
        300 2 21 switch 21:S 0
        490 0 10 waking 21 prev=2
        490 0 10 migrate 21 2 0
        500 0 10 wakeup 21 to=0
        500 0 10 waking 22 prev=1
        500 0 10 migrate 22 1 0
        500 0 10 wakeup 22 to=0
        1500 0 10 switch 10:S 21
        1500 0 21 switch 21:S 22
        2000 0 22 switch 22:S 0";
    let script = Script::new("llc=0-2 smt=0;1;2 node=0-2", text);
    let (rows, _) = script.run();
    for reading in [Seen, Any] {
        // CPU 1: 21 and 22 run to 200; CPU 2: 21 runs 140 after 10 of transit (150 to 160).
        check(
            &rows,
            reading,
            1,
            &[(Running, 200), (Idle, 300 + 500), (WaitingLlcCore, 1000)],
        );
        check(
            &rows,
            reading,
            2,
            &[
                (Idle, 150 + 200 + 500),
                (Transit, 10),
                (Running, 140),
                (WaitingLlcCore, 1000),
            ],
        );
        for pid in [21, 22] {
            assert_eq!(rows.pid(pid).lost_ns[reading], 1000);
        }
    }
    // Twin: 22 never ran on CPU 1. By `seen` only 21 has a CPU, the first of its two.
    let twin =
        script
            .with(100, 1, "100 1 21 switch 21:S 23")
            .with(200, 1, "200 1 23 switch 23:S 0");
    let (rows, _) = twin.run();
    check(
        &rows,
        Seen,
        1,
        &[(Running, 200), (Idle, 800), (WaitingLlcCore, 1000)],
    );
    check(
        &rows,
        Seen,
        2,
        &[(Idle, 1850), (Transit, 10), (Running, 140)],
    );
    assert_eq!(
        (rows.pid(21).lost_ns, rows.pid(22).lost_ns),
        (Pair([1000, 1000]), Pair([0, 1000]))
    );
}

/// `cpus` idle CPUs beside busy CPU 0, on which 21, 22 and 23 wait for 100 ns.
fn shares(cpus: u32) -> Vec<i64> {
    let mut text = String::from("0 0 10 other\n");
    for cpu in 1..=cpus {
        text += &format!("0 {cpu} 0 other\n");
    }
    // In order of pids, but 23 is seen first: ids follow the first sight.
    text += "10 0 10 waking 23 prev=0
             10 0 10 waking 21 prev=0
             10 0 10 waking 22 prev=0
             100 0 10 wakeup 22 to=0
             100 0 10 wakeup 21 to=0
             100 0 10 wakeup 23 to=0
             200 0 10 switch 10:S 21
             200 0 21 switch 21:S 22
             200 0 22 switch 22:S 23
             300 0 23 other";
    let (rows, _) = Script::new(&format!("llc=0-{cpus} node=0-{cpus}"), &text).run();
    let mut tasks: Vec<_> = [21, 22, 23].map(|pid| rows.pid(pid)).to_vec();
    tasks.sort_by_key(|t| t.task);
    let lost: Vec<i64> = tasks.iter().map(|t| t.lost_ns[Any]).collect();
    let waiting = rows.total(Any, WaitingLlcCore) + rows.total(Any, WaitingLlcSmt);
    assert_eq!(lost.iter().sum::<i64>(), waiting);
    lost
}

#[test]
fn lost_time_is_shared_equally_the_rest_by_task_id() {
    // 100, 200, 300 and 300 CPU-nanoseconds among three.
    assert_eq!(shares(1), [34, 33, 33]);
    assert_eq!(shares(2), [67, 67, 66]);
    assert_eq!(shares(3), [100, 100, 100]);
    assert_eq!(shares(4), [100, 100, 100]);
}

/// Two LLCs of two one-thread cores, and a third of one.
const TWO_LLCS: &str = "llc=0-1;2-3;4 smt=0;1;2;3;4 node=0-4";

#[test]
fn the_own_llc_comes_first_then_the_machine() {
    // 21 and 22 wait on CPU 2. CPU 3 of their LLC and CPU 1 of another run nothing; so does CPU 4.
    let text = "
        0 0 10 other
        0 1 0 other
        0 2 12 other
        0 3 0 other
        0 4 0 other
        100 2 12 waking 21 prev=2
        100 2 12 wakeup 21 to=2
        200 2 12 waking 22 prev=2
        200 2 12 wakeup 22 to=2
        700 2 12 switch 12:S 21
        900 2 21 switch 21:S 22
        1000 0 10 other";
    let (rows, _) = Script::new(TWO_LLCS, text).run();
    // One waits 100 to 900, both 200 to 700.
    check(&rows, Any, 3, &[(Idle, 200), (WaitingLlcCore, 800)]);
    check(&rows, Any, 1, &[(Idle, 500), (WaitingMachine, 500)]);
    check(&rows, Any, 4, &[(Idle, 1000)]);
    // Connected through CPU 3, they share both CPUs equally: each lost its whole wait, never more.
    assert_eq!(
        (rows.pid(21).wait_ns, rows.pid(21).lost_ns[Any]),
        (600, 600)
    );
    assert_eq!(
        (rows.pid(22).wait_ns, rows.pid(22).lost_ns[Any]),
        (700, 700)
    );
    // Twin: without an idle CPU of their own LLC, the machine has two for them.
    let twin = text.replace("0 3 0 other", "0 3 13 other");
    let (rows, _) = Script::new(TWO_LLCS, &twin).run();
    check(&rows, Any, 1, &[(Idle, 200), (WaitingMachine, 800)]);
    check(&rows, Any, 4, &[(Idle, 500), (WaitingMachine, 500)]);
}

#[test]
fn several_tasks_across_several_llcs_share_what_connects_them() {
    // 21, 22 wait on CPU 2 beside idle CPU 3; 23 on CPU 0, whose LLC has none; CPU 4 is the last one idle.
    // Three wait, two CPUs are matched: all are connected through CPU 4, 2/3 each.
    let text = "
        0 0 10 other
        0 1 11 other
        0 2 12 other
        0 3 0 other
        0 4 0 other
        100 2 12 waking 21 prev=2
        100 2 12 wakeup 21 to=2
        100 2 12 waking 22 prev=2
        100 2 12 wakeup 22 to=2
        100 0 10 waking 23 prev=0
        100 0 10 wakeup 23 to=0
        400 0 10 switch 10:S 23
        400 2 12 switch 12:S 21
        400 2 21 switch 21:S 22
        1000 0 23 other";
    let (rows, _) = Script::new(TWO_LLCS, text).run();
    check(&rows, Any, 3, &[(Idle, 700), (WaitingLlcCore, 300)]);
    check(&rows, Any, 4, &[(Idle, 700), (WaitingMachine, 300)]);
    let lost = [21, 22, 23].map(|pid| rows.pid(pid).lost_ns[Any]);
    assert_eq!(lost, [200, 200, 200]);
}

#[test]
fn before_its_first_event_a_cpu_is_unknown() {
    let text = "
        0 0 10 other
        400 1 11 switch 11:S 0
        700 1 0 switch 0:R 12
        1000 0 10 switch 10:S 0";
    let mut script = Script::new("llc=0-1 node=0-1 online=0-2", text);
    script.complete = false;
    let (rows, _) = script.run();
    check(&rows, Any, 0, &[(Running, 1000)]);
    check(
        &rows,
        Any,
        1,
        &[(Unknown, 400), (Idle, 300), (Running, 300)],
    );
    // A CPU that is said to be online but has no events at all is never known.
    check(&rows, Any, 2, &[(Unknown, 1000)]);
    assert_eq!(rows.pid(11).run_ns, 0);
    // A buffer that provably held everything tells the time before: 11 ran.
    script.complete = true;
    let (rows, _) = script.run();
    check(&rows, Any, 1, &[(Running, 400 + 300), (Idle, 300)]);
    assert_eq!(rows.pid(11).run_ns, 400);
}

/// 21 waits on CPU 1 from 200, 22 from 250; CPU 1's events are missing from 300 to 500; CPU 2 is free.
const GAP: &str = "
    0 0 10 other
    0 1 11 other
    0 2 0 other
    200 0 10 waking 21 prev=1
    200 0 10 wakeup 21 to=1
    250 0 10 waking 22 prev=1
    250 0 10 wakeup 22 to=1
    300 1 0 lost 9
    500 1 0 lost-end
    600 1 21 switch 21:S 22
    800 1 22 switch 22:S 0
    1000 0 10 other
";

#[test]
fn a_gap_is_unknown_and_withdraws_what_spans_it() {
    let (rows, counts) = Script::new("llc=0-2 smt=0;1;2 node=0-2", GAP).run();
    // What CPU 1 ran after the gap is known from its next event on, at 600.
    check(
        &rows,
        Any,
        1,
        &[(Running, 300 + 200), (Unknown, 300), (Idle, 200)],
    );
    check(&rows, Any, 0, &[(Running, 1000)]);
    // Until the gap the two waited for CPU 2: 50 for 21 alone, 50 for both. Their waits are withdrawn.
    check(&rows, Any, 2, &[(Idle, 900), (WaitingLlcCore, 100)]);
    assert_eq!(
        (rows.waits.len(), counts.waits, counts.withdrawn_waits),
        (0, 2, 2)
    );
    // 21 from 200 and 22 from 250 to the gap at 300.
    assert_eq!(counts.withdrawn_ns, 100 + 50);
    assert_eq!(counts.withdrawn_lost_ns, Pair([0, 100]));
    assert_eq!((rows.pid(21).wait_ns, rows.pid(22).wait_ns), (0, 0));
    // 11 ran to the gap; 21 is first seen as it leaves.
    assert_eq!(
        (
            rows.pid(11).run_ns,
            rows.pid(21).run_ns,
            rows.pid(22).run_ns
        ),
        (300, 0, 200)
    );
    let lost = &rows.lost[0];
    assert_eq!(
        (lost.cpu, lost.start_ns, lost.end_ns, lost.events),
        (1, 300, 500, Some(9))
    );
    // The wakeups are there, without an end.
    assert_eq!(rows.wakeups.len(), 2);
    assert!(
        rows.wakeups
            .iter()
            .all(|w| w.latency_ns.is_none() && w.verdict.0 == [None; 2])
    );
}

#[test]
fn a_gap_leaves_other_cpus_alone() {
    // The same gap on CPU 2: waits on CPU 1 go on, and have nowhere to go meanwhile.
    let text = GAP
        .replace("300 1 0 lost 9", "300 2 0 lost")
        .replace("500 1 0 lost-end", "500 2 0 lost-end");
    let text = text.replace(
        "500 2 0 lost-end",
        "400 1 11 switch 11:S 21\n500 2 0 lost-end",
    );
    let (rows, counts) = Script::new("llc=0-2 smt=0;1;2 node=0-2", &text).run();
    assert_eq!((counts.withdrawn_waits, rows.waits.len()), (0, 2));
    assert_eq!(
        (rows.wait_at(200).wait_ns, rows.wait_at(250).wait_ns),
        (200, 350)
    );
    // CPU 2 is not known to be idle again before an event of its own.
    check(
        &rows,
        Any,
        2,
        &[(Idle, 200), (WaitingLlcCore, 100), (Unknown, 700)],
    );
    assert_eq!(rows.lost[0].events, None);
}

#[test]
fn a_gap_at_the_end_never_closes() {
    let text = GAP
        .lines()
        .filter(|l| !l.contains("lost-end") && !l.contains(" 1 2"))
        .collect::<Vec<_>>()
        .join("\n");
    let (rows, _) = Script::new("llc=0-2 smt=0;1;2 node=0-2", &text).run();
    check(&rows, Any, 1, &[(Running, 300), (Unknown, 700)]);
    assert_eq!((rows.lost[0].start_ns, rows.lost[0].end_ns), (300, 1000));
}

#[test]
fn windows_add_up_to_the_whole() {
    let mut script = Script::new(ONE_LLC, &format!("{START}{THREE_WAIT}"));
    let (whole, _) = script.run();
    // Cuts inside waits, runs and shares, and at events.
    let cuts = [0, 1, 150, 200, 333, 950, 1000, 1150, 2000];
    let mut sum = vec![Pair([[0; LEDGER_ROWS]; 2]); whole.cpus.len()];
    let (mut run, mut wait, mut lost, mut waits, mut wakeups, mut switches) = (0, 0, 0, 0, 0, 0);
    for (&from, &to) in cuts.iter().zip(&cuts[1..]) {
        script.window = Some((from, to));
        let (rows, _) = script.run();
        for (cpu, row) in sum.iter_mut().zip(&rows.cpus) {
            assert_eq!(row.ledger[Any].iter().sum::<i64>(), to - from);
            for reading in [Seen, Any] {
                (0..LEDGER_ROWS).for_each(|r| cpu[reading][r] += row.ledger[reading][r]);
            }
        }
        run += rows.tasks.iter().map(|t| t.run_ns).sum::<i64>();
        wait += rows.tasks.iter().map(|t| t.wait_ns).sum::<i64>();
        lost += rows.tasks.iter().map(|t| t.lost_ns[Any]).sum::<i64>();
        waits += rows.waits.iter().filter(|w| w.in_window).count();
        wakeups += rows.wakeups.iter().filter(|w| w.in_window).count();
        switches += rows.cpus.iter().map(|c| c.switches).sum::<u64>();
    }
    let ledgers: Vec<_> = whole.cpus.iter().map(|c| c.ledger).collect();
    assert_eq!(sum, ledgers);
    // CPU 0 runs to 1300, CPU 4 to 2000; three waits of 900, all lost; events at a cut count once.
    assert_eq!((run, wait, lost), (3300, 2700, 2700));
    assert_eq!((waits, wakeups, switches), (3, 3, 5));
}

#[test]
fn a_window_changes_nothing_but_the_accounting() {
    let mut script = Script::new(ONE_LLC, &format!("{START}{THREE_WAIT}"));
    script.window = Some((500, 1050));
    let (rows, _) = script.run();
    // 21 waits to 1000 and runs to the window's end; 22 and 23 wait all through.
    assert_eq!((rows.pid(21).wait_ns, rows.pid(21).run_ns), (500, 50));
    assert_eq!((rows.pid(22).wait_ns, rows.pid(23).wait_ns), (550, 550));
    // The waits began before the window, but keep their verdict and their part of the time.
    let wait = rows.wait_at(200);
    assert_eq!(
        (wait.in_window, wait.wait_ns, wait.end_ns),
        (false, 550, Some(1100))
    );
    assert_eq!(wait.verdict[Any], Verdict::StackedPrev);
    check(&rows, Any, 0, &[(Running, 550)]);
    check(&rows, Any, 1, &[(WaitingLlcSmt, 500), (Idle, 50)]);
}

#[test]
fn one_reading_alone_gives_the_same_numbers() {
    let mut script = Script::new(ONE_LLC, &format!("{START}{THREE_WAIT}"));
    let (both, _) = script.run();
    script.readings = vec![Any];
    let (one, _) = script.run();
    assert_eq!(
        one.total(Any, WaitingLlcCore),
        both.total(Any, WaitingLlcCore)
    );
    assert_eq!(one.total(Any, WaitingLlcCore), 1100 + 900);
    assert_eq!(one.pid(21).lost_ns[Any], 900);
}

#[test]
fn without_a_topology_the_lost_time_is_still_told() {
    let (rows, _) = Script::new("", &format!("{START}{THREE_WAIT}")).run();
    let rows_of = [WaitingLlcCore, WaitingLlcSmt, WaitingMachine];
    let lost: i64 = rows_of.iter().map(|&row| rows.total(Any, row)).sum();
    assert_eq!(lost, 2700);
    assert_eq!(
        rows.cpus.iter().map(|c| c.llc).collect::<Vec<_>>(),
        [None; 6]
    );
    assert_eq!(rows.total(Seen, Idle), 700 + 4 * 2000);
}

#[test]
fn cpu_ids_may_be_sparse_and_high() {
    let sparse = |cpu: &str| match cpu {
        "0" => "3",
        "1" => "70",
        "2" => "71",
        "3" => "199",
        "4" => "1000",
        other => panic!("cpu {other}"),
    };
    // The first trace of this file's own LLC before machine, under other numbers.
    let mut text = String::new();
    for line in "0 0 10 other;0 1 0 other;0 2 12 other;0 3 0 other;0 4 0 other;100 2 12 waking 21 prev=2;100 2 12 wakeup 21 to=2;\
                 700 2 12 switch 12:S 21;1000 0 10 other"
        .split(';')
    {
        let words: Vec<&str> = line.split(' ').collect();
        text += &format!("{} {} {}\n", words[0], sparse(words[1]), words[2..].join(" ").replace("=2", "=71"));
    }
    let (rows, counts) = Script::new(
        "llc=3,70;71,199;1000 smt=3;70;71;199;1000 node=3-1000",
        &text,
    )
    .run();
    let ids: Vec<u32> = rows.cpus.iter().map(|c| c.cpu).collect();
    assert_eq!(ids, [3, 70, 71, 199, 1000]);
    check(&rows, Any, 199, &[(Idle, 400), (WaitingLlcCore, 600)]);
    check(&rows, Any, 1000, &[(Idle, 1000)]);
    check(&rows, Any, 71, &[(Running, 1000)]);
    assert_eq!(counts.bad_cpus, 0);
}

#[test]
fn a_task_in_transit_is_never_matched() {
    // 21 is on its way to busy CPU 0 from 100 to 400: until it is enqueued it waits for nobody.
    let text = format!(
        "{START}
         100 4 14 waking 21 prev=0
         101 4 14 csd 0
         400 0 10/h wakeup 21 to=0
         600 0 10 switch 10:S 21
         1000 0 21 other"
    );
    let (rows, _) = Script::new(ONE_LLC, &text).run();
    check(&rows, Any, 2, &[(Idle, 800), (WaitingLlcCore, 200)]);
    check(&rows, Any, 0, &[(Running, 1000)]);
    // The enqueue is what the wait begins with.
    assert_eq!(
        (rows.woken_at(100).latency_ns, rows.pid(21).wait_ns),
        (Some(500), 200)
    );
}
