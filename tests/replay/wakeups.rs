//! Wakeups: class, path, context, cost, distances, times, and who is who. Every number is worked out by hand.

use crate::support::Rows;
use crate::support::script::Script;
use ttwu::replay::rows::WakeupRow;
use ttwu::replay::words::{Class, MigrationKind, Origin, Path, Waker};
use ttwu::topology::Distance;
use ttwu_parsers::event::Payload;

/// Two nodes; the first has two LLCs of two cores, the cores of the first LLC share their L2.
const MACHINE: &str =
    "llc=0-3;4-7;8-11 smt=0-1;2-3;4-5;6-7;8-9;10-11 l2=0-3;4-5;6-7 node=0-7;8-11 online=0-11";

/// CPU 0 runs 10, CPU 2 runs 12, CPU 4 runs 14; CPUs 1 and 8 run nothing; 20 slept after running on CPU 1.
const START: &str = "
    0 0 10 other
    0 1 20 other
    0 2 12 other
    0 4 14 other
    0 8 0 other
    100 1 20 switch 20:S 0
";

const END: &str = "
    9000 0 10 other
";

fn run_at(version: (u32, u32), middle: &str) -> Rows {
    let mut script = Script::new(MACHINE, &format!("{START}{middle}{END}"));
    script.version = version;
    script.run().0
}

fn run(middle: &str) -> Rows {
    run_at((6, 8), middle)
}

/// Class, path, waker's cost, latency and queue latency of the wakeup at 1000.
type Outcome = (Class, Path, Option<i64>, Option<i64>, Option<i64>);

fn outcome(rows: &Rows) -> Outcome {
    let w = rows.woken_at(1000);
    (w.class, w.path, w.waker_cost_ns, w.latency_ns, w.queue_ns)
}

// Class and path.

#[test]
fn on_the_wakers_own_cpu_it_is_local() {
    let rows = run("
        1000 0 10 waking 20 prev=1
        1002 0 10 migrate 20 1 0
        1007 0 10 wakeup 20 to=0
        1500 0 10 switch 10:S 20
        1900 0 20 switch 20:S 10");
    assert_eq!(
        outcome(&rows),
        (Class::Local, Path::Local, Some(7), Some(500), Some(493))
    );
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.waker_cpu, w.prev_cpu, w.chosen_cpu),
        (Some(0), Some(1), Some(0))
    );
    assert_eq!(rows.migrations[0].kind, MigrationKind::Wakeup);
}

const DIRECT: &str = "
    1000 0 10 waking 20 prev=1
    1002 0 10 migrate 20 1 2
    1005 0 10 ipi 2
    1007 0 10 wakeup 20 to=2
    1500 2 12 switch 12:R 20
    1900 2 20 switch 20:S 12";

#[test]
fn enqueued_from_another_cpu_it_is_direct_with_or_without_an_ipi() {
    let times = (Some(7), Some(500), Some(493));
    let direct = |path| (Class::Direct, path, times.0, times.1, times.2);
    assert_eq!(outcome(&run(DIRECT)), direct(Path::DirectIpi));
    // Twins: no interrupt, one to another CPU, one after the enqueue, a polled target.
    let with = |ipi: &str| DIRECT.replace("1005 0 10 ipi 2", ipi);
    assert_eq!(outcome(&run(&with(""))), direct(Path::DirectNoIpi));
    assert_eq!(
        outcome(&run(&with("1005 0 10 ipi 3"))),
        direct(Path::DirectNoIpi)
    );
    let late = with("").replace("1500", "1008 0 10 ipi 2\n1500");
    assert_eq!(outcome(&run(&late)), direct(Path::DirectNoIpi));
    assert_eq!(
        outcome(&run(&with("1005 0 10 poll 2"))),
        direct(Path::DirectNoIpi)
    );
    // 6.4 announces queueings with a first `ipi_send_cpu`; a reschedule interrupt has no callback.
    assert_eq!(outcome(&run_at((6, 4), DIRECT)), direct(Path::DirectIpi));
}

#[test]
fn before_6_4_only_the_receiver_shows_the_interrupt() {
    let old = |middle: &str| run_at((6, 1), middle).woken_at(1000).path;
    let direct = DIRECT.replace("1005 0 10 ipi 2", "1006 2 12/h vec resched");
    assert_eq!(old(&direct), Path::DirectIpi);
    let silent = DIRECT.replace("1005 0 10 ipi 2", "");
    assert_eq!(old(&silent), Path::Unknown);
    let polled = DIRECT.replace("1005 0 10 ipi 2", "1005 0 10 poll 2");
    assert_eq!(old(&polled), Path::DirectNoIpi);
}

/// Put on idle CPU 1's wake list at 1003 and 1004; CPU 1 enqueues it at 1010 and switches at 1015.
const QUEUED: &str = "
    1000 0 10 waking 20 prev=1
    1003 0 10 csd 1
    1004 0 10 ipi 1 cb=7
    1010 1 0/h wakeup 20 to=1
    1015 1 0 switch 0:R 20
    1900 1 20 switch 20:S 0";

#[test]
fn enqueued_by_the_target_it_is_queued_by_one_of_three_roads() {
    let queued = |path, cost| (Class::Queued, path, cost, Some(15), Some(5));
    assert_eq!(outcome(&run(QUEUED)), queued(Path::QueuedIpi, Some(4)));
    let polled = QUEUED.replace("ipi 1 cb=7", "poll 1");
    assert_eq!(outcome(&run(&polled)), queued(Path::QueuedPolling, Some(4)));
    // Neither: the list already held an entry, whose interrupt serves both.
    let coalesced = QUEUED.replace("1004 0 10 ipi 1 cb=7", "");
    assert_eq!(
        outcome(&run(&coalesced)),
        queued(Path::QueuedCoalesced, Some(3))
    );
    // An interrupt to another CPU is not its own.
    let elsewhere = QUEUED.replace("ipi 1 cb=7", "ipi 3 cb=7");
    assert_eq!(run(&elsewhere).woken_at(1000).path, Path::QueuedCoalesced);
}

#[test]
fn in_6_4_the_first_send_is_the_queueing() {
    let sends = |text: &str| {
        let rows = run_at((6, 4), &QUEUED.replace("1003 0 10 csd 1\n", text));
        (rows.woken_at(1000).path, rows.woken_at(1000).waker_cost_ns)
    };
    // Queueing at 1003 and interrupt at 1004.
    assert_eq!(sends("1003 0 10 ipi 1 cb=3\n"), (Path::QueuedIpi, Some(4)));
    // Queueing alone, at 1004.
    assert_eq!(sends(""), (Path::QueuedCoalesced, Some(4)));
}

#[test]
fn before_6_4_a_queued_wakeup_shows_in_the_targets_context() {
    let old = |version, text: &str| {
        let rows = run_at(version, text);
        let w = rows.woken_at(1000);
        assert_eq!((w.class, w.latency_ns), (Class::Queued, Some(15)));
        (w.path, w.waker_cost_ns)
    };
    let bare = QUEUED
        .replace("1003 0 10 csd 1", "")
        .replace("1004 0 10 ipi 1 cb=7", "");
    for version in [(5, 2), (5, 9), (6, 1)] {
        assert_eq!(old(version, &bare), (Path::QueuedIpi, None));
        let polling = bare.replace("1 0/h wakeup", "1 0 wakeup");
        assert_eq!(old(version, &polling), (Path::QueuedPolling, None));
        let polled = polling.replace("1010", "1004 0 10 poll 1\n1010");
        assert_eq!(old(version, &polled), (Path::QueuedPolling, Some(4)));
    }
    // A second wakeup, queued while the first was on its way to the same CPU.
    let two = bare.replace(
        "1010 1 0/h wakeup 20 to=1",
        "
        1008 4 14 waking 21 prev=1
        1010 1 0/h wakeup 20 to=1
        1011 1 0/h wakeup 21 to=1",
    );
    let rows = run_at((6, 1), &two);
    assert_eq!(rows.woken_at(1008).path, Path::QueuedCoalesced);
    assert_eq!(rows.woken_at(1000).path, Path::QueuedIpi);
}

#[test]
fn a_task_that_wakes_itself_is_self_since_5_3() {
    let text = "
        1000 0 10 waking 10 prev=0
        1002 0 10 wakeup 10 to=0
        2000 0 10 switch 10:S 0";
    let rows = run(text);
    assert_eq!(
        outcome(&rows),
        (Class::SelfWake, Path::Local, Some(2), None, None)
    );
    assert_eq!(
        (rows.woken_at(1000).selection, rows.waits.len()),
        (Some(false), 0)
    );
    assert_eq!(outcome(&run_at((5, 2), text)).0, Class::FastPath);
    // Its run goes on.
    assert_eq!(rows.pid(10).run_ns, 2000);
    // An interrupt on top of it wakes it just so.
    let rows = run(&text.replace("0 10 wak", "0 10/h wak"));
    assert_eq!(outcome(&rows).0, Class::SelfWake);
    assert_eq!(
        (rows.woken_at(1000).context, rows.woken_at(1000).waker),
        (Waker::Hardirq, None)
    );
}

#[test]
fn a_wakee_still_on_its_cpu_takes_the_fast_path() {
    let rows = run("
        1000 0 10 waking 12 prev=2
        1002 0 10 wakeup 12 to=2
        2000 2 12 switch 12:S 0");
    assert_eq!(
        outcome(&rows),
        (Class::FastPath, Path::DirectNoIpi, Some(2), None, None)
    );
    assert_eq!((rows.waits.len(), rows.pid(12).run_ns), (0, 2000));
}

#[test]
fn a_preempted_wakee_takes_the_fast_path_and_goes_on_waiting() {
    let text = "
        500 2 12 switch 12:R+ 13
        1000 0 10 waking 12 prev=2
        1002 0 10 wakeup 12 to=2
        1500 2 13 switch 13:S 12
        2000 2 12 switch 12:S 0";
    let rows = run(text);
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.class, w.selection, w.verdict.0),
        (Class::FastPath, Some(false), [None; 2])
    );
    // One wait, since the preemption.
    let waits: Vec<_> = rows
        .waits
        .iter()
        .map(|w| (w.start_ns, w.wait_ns, w.origin))
        .collect();
    assert_eq!(waits, [(500, 1000, Origin::Preempted)]);
    // Twin: put elsewhere, it must have slept unseen: its wait was none.
    let moved = text
        .replace(
            "1002 0 10 wakeup 12 to=2",
            "1001 0 10 migrate 12 2 0\n1002 0 10 wakeup 12 to=0",
        )
        .replace("1500 2 13 switch 13:S 12", "1500 0 10 switch 10:S 12")
        .replace("2000 2 12", "2000 0 12");
    let mut script = Script::new(MACHINE, &format!("{START}{moved}9000 2 13 other"));
    script.version = (5, 9);
    let (rows, counts) = script.run();
    assert_eq!(rows.woken_at(1000).class, Class::Local);
    assert_eq!(counts.inconsistent_waits, 1);
    let waits: Vec<_> = rows
        .waits
        .iter()
        .map(|w| (w.start_ns, w.wait_ns, w.origin))
        .collect();
    assert_eq!(waits, [(1002, 498, Origin::Wakeup)]);
}

#[test]
fn in_place_since_6_12_it_may_have_been_delayed() {
    // 20 left busy CPU 2, which never idled; from CPU 0 of the same LLC, and from CPU 4 of another.
    let left = |by: &str| {
        format!(
            "200 2 12 switch 12:S 20
             300 2 20 switch 20:S 13
             1000 {by} waking 20 prev=2
             1004 {by} wakeup 20 to=2
             1500 2 13 switch 13:S 20
             1900 2 20 switch 20:S 0"
        )
    };
    let class = |version, text: &str| {
        let w = run_at(version, text).woken_at(1000).clone();
        (w.class, w.selection)
    };
    let (near, far) = (left("0 10"), left("4 14"));
    for version in [(5, 2), (5, 9), (6, 1), (6, 4), (6, 8)] {
        assert_eq!(class(version, &near), (Class::Direct, Some(true)));
        assert_eq!(class(version, &far), (Class::Direct, Some(true)));
    }
    assert_eq!(class((6, 12), &near), (Class::DirectOrDelayed, None));
    assert_eq!(class((6, 12), &far), (Class::Delayed, Some(false)));
    // A CPU that ran nothing has dequeued whatever was delayed; so has a real-time task never been.
    let idled = near.replace(
        "300 2 20 switch 20:S 13",
        "300 2 20 switch 20:S 0\n400 2 0 switch 0:R 13",
    );
    assert_eq!(class((6, 12), &idled), (Class::Direct, Some(true)));
    let rt = format!("name 20 rt 90\n{near}");
    assert_eq!(class((6, 12), &rt), (Class::Direct, None));
    // A move is a selection.
    let moved = near
        .replace(
            "1004 0 10 wakeup 20 to=2",
            "1001 0 10 migrate 20 2 4\n1004 0 10 wakeup 20 to=4",
        )
        .replace("1500 2 13 switch 13:S 20", "1500 4 14 switch 14:R 20")
        .replace("1900 2 20 switch 20:S 0", "1900 4 20 switch 20:S 14");
    assert_eq!(class((6, 12), &moved), (Class::Direct, Some(true)));
}

#[test]
fn direct_wakeups_across_llcs_in_numbers_mean_that_queueing_is_off() {
    // Three direct wakeups across LLCs that cannot have been delayed, as they moved the task.
    let mut text = String::from("200 2 12 switch 12:S 20\n300 2 20 switch 20:S 13\n");
    for k in 0..3 {
        let at = 400 + 20 * k;
        let pid = 30 + k;
        text += &format!(
            "{at} 0 10 waking {pid} prev=5\n{} 0 10 migrate {pid} 5 4\n",
            at + 1
        );
        text += &format!("{} 0 10 wakeup {pid} to=4\n", at + 2);
    }
    text += "1000 4 14 waking 20 prev=2
             1004 4 14 wakeup 20 to=2
             1500 2 13 switch 13:S 20";
    let rows = run_at((6, 12), &text);
    assert_eq!(rows.woken_at(400).class, Class::Direct);
    assert_eq!(rows.woken_at(1000).class, Class::DirectOrDelayed);
}

#[test]
fn queued_while_it_leaves_its_cpu_no_cpu_was_selected() {
    let leaving = "
        1000 0 10 waking 12 prev=2
        1003 0 10 csd 2
        1004 0 10 ipi 2 cb=7
        1006 2 12 switch 12:S 0
        1010 2 0/h wakeup 12 to=2
        1015 2 0 switch 0:R 12
        1900 2 12 switch 12:S 0";
    let at = |version| {
        let w = run_at(version, leaving).woken_at(1000).clone();
        assert_eq!(
            (w.class, w.latency_ns, w.wait_ns),
            (Class::Queued, Some(15), 5)
        );
        // It ran 1015 to 1900 by this wakeup; what it ran before belongs to an earlier one.
        assert_eq!(w.wakee_run_ns, Some(885));
        w.selection
    };
    assert_eq!(at((6, 12)), Some(false));
    assert_eq!(at((5, 9)), Some(false));
    // Up to 5.7 the waker waits until it has left, and selects.
    assert_eq!(at((5, 2)), Some(true));
}

#[test]
fn a_waker_marked_sleeper_that_leaves_as_r_did_sleep() {
    // 5.8 to 5.17: a waker set TASK_WAKING while 12 was still leaving, so it shows R.
    let rows = run_at(
        (5, 9),
        "
        1000 0 10 waking 12 prev=2
        1004 2 12 switch 12:R 13
        1010 2 13/h wakeup 12 to=2
        1500 2 13 switch 13:S 12
        1900 2 12 switch 12:S 0",
    );
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.class, w.latency_ns, w.queue_ns),
        (Class::Queued, Some(500), Some(490))
    );
    let waits: Vec<_> = rows.waits.iter().map(|w| (w.start_ns, w.origin)).collect();
    assert_eq!(waits, [(1010, Origin::Wakeup)]);
}

#[test]
fn preempted_between_waking_and_enqueue_it_was_still_queued() {
    let text = "
        1000 0 10 waking 12 prev=2
        1001 2 12 switch 12:R 13
        1002 0 10 wakeup 12 to=2
        1500 2 13 switch 13:S 12
        1900 2 12 switch 12:S 0";
    let outcome = |version, text: &str| {
        let rows = run_at(version, text);
        assert_eq!(rows.waits.len(), 1);
        (
            rows.woken_at(1000).class,
            rows.waits[0].start_ns,
            rows.waits[0].origin,
        )
    };
    let preempted = (Class::FastPath, 1001, Origin::Preempted);
    assert_eq!(outcome((6, 8), text), preempted);
    assert_eq!(outcome((5, 2), text), preempted);
    // 5.8 to 5.17 show a sleeper so, but none as preempted in the kernel.
    let slept = (Class::Direct, 1002, Origin::Wakeup);
    assert_eq!(outcome((5, 9), text), slept);
    assert_eq!(
        outcome((5, 9), &text.replace("12:R 13", "12:R+ 13")),
        preempted
    );
}

#[test]
fn an_enqueue_on_a_third_cpu_is_an_anomaly() {
    let rows = run("
        1000 0 10 waking 20 prev=1
        1010 4 14 wakeup 20 to=1
        1015 1 0 switch 0:R 20
        1900 1 20 switch 20:S 0");
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.class, w.path, w.waker_cost_ns),
        (Class::Anomaly, Path::Unknown, None)
    );
    assert_eq!(w.latency_ns, Some(15));
}

#[test]
fn a_new_task_is_enqueued_by_its_parent() {
    let rows = run("
        1000 0 10 fork 40
        1005 0 10 new 40 to=1
        1006 0 10 ipi 1
        1020 1 0 switch 0:R 40
        1500 1 40 switch 40:S 0");
    let w = rows.wakeups.iter().find(|w| w.class == Class::New).unwrap();
    assert_eq!(
        (w.waking_ns, w.wakeup_ns, w.path),
        (None, Some(1005), Path::DirectIpi)
    );
    assert_eq!(
        (w.latency_ns, w.queue_ns, w.wakee_run_ns),
        (None, Some(15), Some(480))
    );
    assert_eq!(
        (w.waker_cpu, w.prev_cpu, w.chosen_cpu),
        (Some(0), None, Some(1))
    );
    assert_eq!((w.waker_chosen, w.chosen_idle), (Distance::Smt, Some(true)));
    // Twin: no interrupt follows; and onto the parent's own CPU.
    let silent = run("1005 0 10 new 40 to=1\n1020 1 0 switch 0:R 40");
    assert_eq!(silent.wakeups[0].path, Path::DirectNoIpi);
    let own = run("1005 0 10 new 40 to=0\n1020 0 10 switch 10:R 40");
    assert_eq!(own.wakeups[0].path, Path::Local);
}

#[test]
fn every_waking_and_enqueue_counts_once() {
    let text = "
        400 0 10 waking 20 prev=1
        410 0 10 wakeup 20 to=1
        420 1 0 switch 0:R 20
        500 1 20 switch 20:S 0
        600 0 10 new 40 to=1
        1000 0 10 waking 10 prev=0
        1001 0 10 wakeup 10 to=0
        1100 0 10 wakeup 21 to=1
        1200 0 10 waking 22 prev=1";
    let script = Script::new(MACHINE, &format!("{START}{text}{END}"));
    let (rows, counts) = script.run();
    assert_eq!(rows.wakeups.len(), 5);
    // 21 without a waking, 22 without an enqueue.
    assert_eq!(
        (counts.wakeups_without_waking, counts.wakings_without_wakeup),
        (1, 1)
    );
    let anomalies = rows
        .wakeups
        .iter()
        .filter(|w| w.class == Class::Anomaly)
        .count();
    assert_eq!(anomalies, 2);
    assert_eq!(rows.pid(10).wakeups_made, 5);
    assert_eq!(
        (rows.pid(20).wakeups_received, rows.pid(10).wakeups_received),
        (1, 1)
    );
}

// Who woke.

#[test]
fn the_context_of_a_waker_comes_from_its_flags() {
    let by = |flags: &str| {
        let w = run(&QUEUED.replace("0 10 ", &format!("0 10{flags} ")))
            .woken_at(1000)
            .clone();
        (w.context, w.waker.is_some())
    };
    assert_eq!(by(""), (Waker::Task, true));
    assert_eq!(by("/s"), (Waker::SoftirqUnknown, true));
    // In an interrupt, `current` is a bystander.
    assert_eq!(by("/h"), (Waker::Hardirq, false));
    assert_eq!(by("/n"), (Waker::Nmi, false));
    // The innermost context counts.
    assert_eq!(by("/sh"), (Waker::Hardirq, false));
    assert_eq!(by("/shn"), (Waker::Nmi, false));
}

#[test]
fn a_soft_interrupt_is_inline_if_the_task_raised_it() {
    let raised = |lines: &str| {
        let text = QUEUED.replace("0 10 ", "0 10/s ");
        run(&format!("{lines}{text}")).woken_at(1000).context
    };
    // By the task's own system call; by an interrupt; by both; one that was not seen.
    assert_eq!(
        raised("900 0 10 raise 3\n910 0 10/s softirq 3\n"),
        Waker::SoftirqInline
    );
    assert_eq!(
        raised("900 0 10/h raise 3\n910 0 10/s softirq 3\n"),
        Waker::SoftirqIrqExit
    );
    let both = "890 0 10 raise 3\n900 0 10/h raise 3\n910 0 10/s softirq 3\n";
    assert_eq!(raised(both), Waker::SoftirqUnknown);
    assert_eq!(raised("910 0 10/s softirq 3\n"), Waker::SoftirqUnknown);
    // Another vector, or another CPU's.
    assert_eq!(
        raised("900 0 10 raise 2\n910 0 10/s softirq 3\n"),
        Waker::SoftirqUnknown
    );
    assert_eq!(
        raised("900 2 12 raise 3\n910 0 10/s softirq 3\n"),
        Waker::SoftirqUnknown
    );
    // Raised again after it was served.
    let again = "800 0 10 raise 3\n810 0 10/s softirq 3\n820 0 10/s softirq-end 3\n
                 900 0 10/h raise 3\n910 0 10/s softirq 3\n";
    assert_eq!(raised(again), Waker::SoftirqIrqExit);
}

#[test]
fn an_interrupt_on_an_idle_cpu_has_no_waker_task() {
    let rows = run(&QUEUED.replace("0 10 ", "8 0/h "));
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.context, w.waker, w.waker_cpu),
        (Waker::Hardirq, None, Some(8))
    );
    assert_eq!((w.overlap_ns, w.wakee_run_ns), (None, Some(885)));
    // And a soft interrupt on an idle CPU neither.
    let rows = run(&QUEUED.replace("0 10 ", "8 0/s "));
    assert_eq!(
        (rows.woken_at(1000).context, rows.woken_at(1000).waker),
        (Waker::SoftirqUnknown, None)
    );
}

// Distances.

#[test]
fn each_wakeup_has_three_distances() {
    let distances = |waker: u32, prev: u32, chosen: u32| {
        let text = format!(
            "1000 {waker} 9 waking 21 prev={prev}
             1005 {waker} 9 migrate 21 {prev} {chosen}
             1010 {waker} 9 wakeup 21 to={chosen}"
        );
        let script = Script::new(MACHINE, &text);
        let w = script.run().0.woken_at(1000).clone();
        (w.waker_chosen, w.prev_chosen, w.waker_prev, w.cross_llc)
    };
    use Distance::{L2, Llc, Node, Remote, Same, Smt};
    assert_eq!(distances(0, 1, 0), (Same, Smt, Smt, Some(false)));
    assert_eq!(distances(0, 0, 1), (Smt, Smt, Same, Some(false)));
    assert_eq!(distances(0, 4, 2), (L2, Node, Node, Some(false)));
    assert_eq!(distances(4, 6, 7), (Llc, Smt, Llc, Some(false)));
    assert_eq!(distances(0, 8, 4), (Node, Remote, Remote, Some(true)));
    assert_eq!(distances(0, 1, 8), (Remote, Remote, Smt, Some(true)));
}

#[test]
fn unknown_topology_is_unknown_distance() {
    let mut script = Script::new(MACHINE, &format!("{START}{DIRECT}{END}"));
    script.topology = String::new();
    let (rows, _) = script.run();
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.waker_chosen, w.prev_chosen, w.waker_prev),
        (Distance::Unknown, Distance::Unknown, Distance::Unknown)
    );
    assert_eq!(w.cross_llc, None);
    // One CPU is always itself.
    script = Script::new("", "1000 0 9 waking 21 prev=0\n1010 0 9 wakeup 21 to=0");
    let (rows, _) = script.run();
    assert_eq!(
        (
            rows.woken_at(1000).waker_chosen,
            rows.woken_at(1000).cross_llc
        ),
        (Distance::Same, Some(false))
    );
}

// What could have run side by side.

/// 10 wakes 20 at 1000; 20 runs on CPU 1 from 1015 to 1900.
fn overlap(rest: &str) -> (Option<i64>, Option<i64>) {
    let w = run(&format!("{QUEUED}\n{rest}")).woken_at(1000).clone();
    (w.wakee_run_ns, w.overlap_ns)
}

#[test]
fn overlap_is_the_lesser_of_the_wakers_rest_and_the_wakees_run() {
    // The waker goes on for 2000: the wakee's 885 are less.
    assert_eq!(overlap("3000 0 10 switch 10:S 0"), (Some(885), Some(885)));
    // The waker blocks 300 after the waking.
    let early = QUEUED.replace("1900", "1300 0 10 switch 10:S 0\n1900");
    let w = run(&early).woken_at(1000).clone();
    assert_eq!((w.wakee_run_ns, w.overlap_ns), (Some(885), Some(300)));
    // A wakee that did not block has no run yet, and the overlap is not known.
    let open = QUEUED.replace("1900 1 20 switch 20:S 0", "1300 0 10 switch 10:S 0");
    let w = run(&open).woken_at(1000).clone();
    assert_eq!((w.wakee_run_ns, w.overlap_ns), (None, None));
}

#[test]
fn a_waker_that_blocks_before_the_enqueue_has_done_with_it() {
    // It blocks 6 after the waking, while 20 is on its way; what it does from 1200 on is another run.
    let text = QUEUED.replace("1010", "1006 0 10 switch 10:S 0\n1010").replace(
        "1900",
        "1190 2 12 waking 10 prev=0\n1195 0 0/h wakeup 10 to=0\n1200 0 0 switch 0:R 10\n1800 0 10 switch 10:S 0\n1900",
    );
    let text = format!("{text}\n8000 0 0 switch 0:R 10");
    let w = run(&text).woken_at(1000).clone();
    assert_eq!((w.wakee_run_ns, w.overlap_ns), (Some(885), Some(6)));
}

#[test]
fn time_off_the_cpu_is_no_part_of_either_side() {
    // The waker is preempted 100 after the waking, comes back at 2500 for another 200.
    let waker = QUEUED.replace("1900", "1100 0 10 switch 10:R 13\n1900");
    let w = run(&format!(
        "{waker}\n2500 0 13 switch 13:S 10\n2700 0 10 switch 10:S 0"
    ))
    .woken_at(1000)
    .clone();
    assert_eq!((w.wakee_run_ns, w.overlap_ns), (Some(885), Some(300)));
    // The wakee is preempted from 1200 to 1500: 185 + 400.
    let wakee = QUEUED.replace(
        "1900",
        "1200 1 20 switch 20:R 13\n1500 1 13 switch 13:S 20\n1900",
    );
    let w = run(&format!("{wakee}\n3000 0 10 switch 10:S 0"))
        .woken_at(1000)
        .clone();
    assert_eq!((w.wakee_run_ns, w.overlap_ns), (Some(585), Some(585)));
}

#[test]
fn a_wakee_that_is_stacked_runs_after_its_waker() {
    // On the waker's CPU: the waker goes on for 500, then 20 runs for 400.
    let rows = run("
        1000 0 10 waking 20 prev=0
        1010 0 10 wakeup 20 to=0
        1500 0 10 switch 10:S 20
        1900 0 20 switch 20:S 0");
    assert_eq!(
        (
            rows.woken_at(1000).wakee_run_ns,
            rows.woken_at(1000).overlap_ns
        ),
        (Some(400), Some(400))
    );
    // Blocking at once, the waker leaves nothing to do side by side: 20 of 400.
    let rows = run("
        1000 0 10 waking 20 prev=0
        1010 0 10 wakeup 20 to=0
        1020 0 10 switch 10:S 20
        1420 0 20 switch 20:S 0");
    assert_eq!(
        (
            rows.woken_at(1000).wakee_run_ns,
            rows.woken_at(1000).overlap_ns
        ),
        (Some(400), Some(20))
    );
}

#[test]
fn a_run_that_a_gap_cuts_off_is_not_known() {
    let gap = QUEUED.replace(
        "1900 1 20 switch 20:S 0",
        "1500 1 20 lost 5\n1600 1 0 lost-end\n1700 1 0 other",
    );
    let w = run(&format!("{gap}\n2000 0 10 switch 10:S 0"))
        .woken_at(1000)
        .clone();
    assert_eq!(
        (w.latency_ns, w.wakee_run_ns, w.overlap_ns),
        (Some(15), None, None)
    );
    // Nor is the waker's rest if the gap is on the waker's CPU.
    let gap = QUEUED.replace(
        "1900",
        "1300 0 10 lost 5\n1400 0 10 lost-end\n1500 0 10 other\n1900",
    );
    let w = run(&format!("{gap}\n2000 0 10 switch 10:S 0"))
        .woken_at(1000)
        .clone();
    assert_eq!((w.wakee_run_ns, w.overlap_ns), (Some(885), None));
}

// Who is who.

#[test]
fn a_pid_that_comes_again_after_exit_is_another_task() {
    let rows = run("
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1
        1020 1 0 switch 0:R 20
        1100 1 20 exit
        1120 1 20 switch 20:Z 0
        2000 0 10 new 20 to=1
        2010 1 0 switch 0:R 20
        2500 1 20 switch 20:S 0");
    let tasks: Vec<_> = rows.tasks.iter().filter(|t| t.pid == 20).collect();
    // On CPU 1 from the start to 100 and from 1020 to 1120; then the other one.
    let run: Vec<_> = tasks
        .iter()
        .map(|t| (t.generation, t.run_ns, t.wakeups_received))
        .collect();
    assert_eq!(run, [(0, 200, 1), (1, 490, 1)]);
}

#[test]
fn a_task_that_sleeps_on_its_way_out_is_still_the_same() {
    // After `sched_process_exit` closing files may still block.
    let rows = run("
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1
        1020 1 0 switch 0:R 20
        1100 1 20 exit
        1120 1 20 switch 20:D 0
        1200 0 10 waking 20 prev=1
        1210 0 10 wakeup 20 to=1
        1220 1 0 switch 0:R 20
        1300 1 20 switch 20:X 0
        2000 0 10 new 20 to=1
        2010 1 0 switch 0:R 20
        2500 1 20 switch 20:S 0");
    let tasks: Vec<_> = rows.tasks.iter().filter(|t| t.pid == 20).collect();
    let run: Vec<_> = tasks
        .iter()
        .map(|t| (t.generation, t.run_ns, t.wakeups_received))
        .collect();
    assert_eq!(run, [(0, 280, 2), (1, 490, 1)]);
}

#[test]
fn a_fork_shows_that_the_pid_is_free_again() {
    // 12's end was lost; its wait on CPU 2 cannot go on once its pid is another task's.
    let text = "
        500 2 12 switch 12:R 13
        1000 0 10 fork 12
        1010 0 10 new 12 to=1
        1020 1 0 switch 0:R 12
        1500 1 12 switch 12:S 0";
    let script = Script::new(MACHINE, &format!("{START}{text}{END}"));
    let (rows, counts) = script.run();
    let run: Vec<_> = rows
        .tasks
        .iter()
        .filter(|t| t.pid == 12)
        .map(|t| (t.run_ns, t.wait_ns))
        .collect();
    assert_eq!(run, [(500, 0), (480, 10)]);
    assert_eq!((counts.inconsistent_waits, counts.open_waits), (1, 0));
    // The same without `sched_process_fork`: a new task is new.
    let script = script.with(1000, 0, "");
    let (rows, _) = script.run();
    let run: Vec<_> = rows
        .tasks
        .iter()
        .filter(|t| t.pid == 12)
        .map(|t| (t.generation, t.run_ns))
        .collect();
    assert_eq!(run, [(0, 500), (1, 480)]);
}

#[test]
fn exec_in_a_thread_takes_over_the_leaders_pid() {
    // Thread 21 of process 20 calls exec: 20 is gone, 21 goes on as 20.
    let rows = run("
        1000 0 10 waking 21 prev=1
        1010 0 10 wakeup 21 to=1
        1020 1 0 switch 0:R 21
        1200 1 20 exec 20 21
        1500 1 20 switch 20:S 0
        2000 0 10 waking 20 prev=1
        2010 0 10 wakeup 20 to=1
        2020 1 0 switch 0:R 20
        2100 1 20 switch 20:S 0");
    let run: Vec<_> = rows
        .tasks
        .iter()
        .filter(|t| t.pid >= 20)
        .map(|t| (t.pid, t.run_ns))
        .collect();
    // The leader ran to 100; the thread 480, and 80 more under its new pid.
    assert_eq!(run, [(20, 100), (20, 560)]);
    assert_eq!(rows.woken_at(1000).wakee, rows.woken_at(2000).wakee);
    assert_eq!(rows.woken_at(1000).wakee_run_ns, Some(480));
}

#[test]
fn the_last_name_is_the_label_and_earlier_ones_are_kept() {
    let named = QUEUED.replace("1900 1 20 switch", "name 20 second\n1900 1 20 switch");
    let rows = run(&format!("name 20 first\n{named}"));
    let task = rows.pid(20);
    assert_eq!(task.comm.as_bytes(), b"second");
    let former: Vec<_> = task.former_names.iter().map(|n| n.as_bytes()).collect();
    assert_eq!(former, [&b"t20"[..], b"first"]);
}

// What was not recorded.

#[test]
fn before_4_3_a_wakeup_names_its_waker_only_if_it_was_not_queued() {
    let old = |wakeup: &str| -> WakeupRow {
        let text = format!(
            "{START}{wakeup}\n1020 1 0 switch 0:R 20\n1500 1 20 switch 20:S 0\n3000 0 10 switch 10:S 0{END}"
        );
        let mut script = Script::new(MACHINE, &text);
        script.version = (4, 2);
        let (rows, counts) = script.run();
        assert_eq!(counts.wakeups_without_waking, 0);
        rows.wakeups[0].clone()
    };
    let direct = old("1010 0 10 wakeup 20 to=1");
    assert_eq!(
        (direct.class, direct.context, direct.waker_cpu),
        (Class::Direct, Waker::Task, Some(0))
    );
    assert_eq!(
        (direct.waking_ns, direct.latency_ns, direct.queue_ns),
        (None, None, Some(10))
    );
    assert_eq!((direct.prev_cpu, direct.overlap_ns), (Some(1), Some(480)));
    // On its own CPU, by the idle task or in an interrupt: it may have been queued there.
    for by in ["1 0", "1 0/h"] {
        let queued = old(&format!("1010 {by} wakeup 20 to=1"));
        assert_eq!(
            (queued.class, queued.context),
            (Class::Unknown, Waker::Unknown)
        );
        assert_eq!(
            (queued.waker, queued.waker_cpu, queued.cross_llc),
            (None, None, None)
        );
    }
}

#[test]
fn without_sched_wakeup_the_waking_stands_for_it() {
    let script = |lines: &str| Script::new(MACHINE, &format!("{START}{lines}{END}"));
    // Migrated: the choice is known. Queued at 1002, in at 1030.
    let (rows, _) = script(
        "
        1000 0 10 waking 20 prev=1
        1002 0 10 migrate 20 1 8
        1030 8 0 switch 0:R 20
        1500 8 20 switch 20:S 0",
    )
    .run();
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.wakeup_ns, w.chosen_cpu, w.prev_cpu),
        (None, Some(8), Some(1))
    );
    assert_eq!(
        (w.latency_ns, w.queue_ns, w.class),
        (Some(30), None, Class::Unknown)
    );
    assert_eq!(
        (
            rows.waits.len(),
            rows.waits[0].start_ns,
            rows.waits[0].wait_ns
        ),
        (1, 1002, 28)
    );
    // Not migrated: it stays on its previous CPU, here the waker's.
    let (rows, _) = script(
        "
        1000 0 10 waking 20 prev=0
        1030 0 10 switch 10:S 20
        1500 0 20 switch 20:S 0",
    )
    .run();
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.class, w.chosen_cpu, w.latency_ns),
        (Class::Local, Some(0), Some(30))
    );
    assert_eq!(rows.waits[0].wait_ns, 30);
}

#[test]
fn a_wakeup_lost_in_a_gap_is_withdrawn() {
    // The target's events are missing while 20 is on its way to it.
    let script = Script::new(
        MACHINE,
        &format!(
            "{START}
        500 2 12 waking 12 prev=2
        501 2 12 wakeup 12 to=2
        1000 0 10 waking 20 prev=1
        1003 0 10 csd 1
        1005 1 0 lost 3
        1100 1 20 lost-end
        1200 1 20 switch 20:S 0{END}"
        ),
    );
    let (rows, counts) = script.run();
    let w = rows.woken_at(1000);
    assert_eq!(
        (w.wakeup_ns, w.latency_ns, w.wakee_run_ns),
        (None, None, None)
    );
    assert_eq!(rows.waits.len(), 0);
    assert_eq!(counts.waits, 0);
    // From its first event after the gap the CPU is known to run 20; not before.
    assert_eq!(rows.pid(20).run_ns, 100);
}

#[test]
fn a_second_waking_ends_the_first() {
    // The first enqueue is missing.
    let script = Script::new(
        MACHINE,
        &format!(
            "{START}
        500 0 10 waking 20 prev=1
        1000 4 14 waking 20 prev=1
        1010 1 0/h wakeup 20 to=1
        1020 1 0 switch 0:R 20
        1100 1 20 switch 20:S 0{END}"
        ),
    );
    let (rows, counts) = script.run();
    assert_eq!((rows.wakeups.len(), counts.wakings_without_wakeup), (2, 1));
    assert_eq!(
        (rows.woken_at(500).class, rows.woken_at(500).latency_ns),
        (Class::Anomaly, None)
    );
    assert_eq!(
        (rows.woken_at(1000).class, rows.woken_at(1000).latency_ns),
        (Class::Queued, Some(20))
    );
}

#[test]
fn wakings_are_in_these_scripts() {
    let script = Script::new(MACHINE, &format!("{START}{QUEUED}{END}"));
    let wakings = script
        .events
        .iter()
        .filter(|e| matches!(e.payload, Payload::Waking(_)));
    assert_eq!(wakings.count(), 1);
}
