//! Hand-worked traces: every verdict, and a twin that differs in one event and gets the neighbouring one.

use crate::support::Rows;
use crate::support::script::Script;
use ttwu::replay::words::{Class, LedgerRow, Origin, Path, Reading, Verdict};
use ttwu_parsers::event::Payload;

/// Two LLCs of two cores of two threads.
const TWO_LLCS: &str = "llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7 online=0-7";

/// CPU 0 runs 10; 20 leaves CPU 1 to 11 at 200; CPUs 2 and 3 run nothing; 4 to 7 are busy.
const START: &str = "
    0 0 10 other
    0 1 20 other
    0 2 0  other
    0 3 0  other
    0 4 14 other
    0 5 15 other
    0 6 16 other
    0 7 17 other
    200 1 20 switch 20:S 11
";

/// 20 runs on CPU 1 from 2000 to 2500; the trace ends at 3000.
const RUNS_ON_PREV: &str = "
    2000 1 11 switch 11:D 20
    2500 1 20 switch 20:S 0
    3000 0 10 other
";

/// The trace `START`, then `middle`, then `RUNS_ON_PREV`, by the rules of 6.8.
fn script(middle: &str) -> Script {
    whole(&format!("{middle}{RUNS_ON_PREV}"))
}

fn whole(rest: &str) -> Script {
    let mut script = Script::new(TWO_LLCS, &format!("{START}{rest}"));
    script.version = (6, 8);
    script
}

/// 10 wakes 20, which is left on busy CPU 1 although CPUs 2 and 3 run nothing.
const LEFT: &str = "
    1000 0 10 waking 20 prev=1
    1010 0 10 wakeup 20 to=1
";

/// Verdict, lost time and eligible idle CPUs of a wait, each as `[seen, any]`.
#[track_caller]
fn check(
    rows: &Rows,
    start: i64,
    wait_ns: i64,
    verdict: [Verdict; 2],
    lost_ns: [i64; 2],
    idle: [u32; 2],
) {
    let wait = rows.wait_at(start);
    assert_eq!(wait.wait_ns, wait_ns, "wait");
    assert_eq!(wait.verdict.0, verdict, "verdict");
    assert_eq!(wait.lost_ns.0, lost_ns, "lost");
    assert_eq!(wait.idle_cpus.0, idle, "idle CPUs");
}

const BOTH_SATURATED: [Verdict; 2] = [Verdict::Saturated; 2];

#[test]
fn left_on_a_busy_previous_cpu_is_prev() {
    let (rows, counts) = script(LEFT).run();
    // Queued 1010, in at 2000. Seen only on CPU 1, by that reading nothing idle was allowed.
    let verdict = [Verdict::Affinity, Verdict::Prev];
    check(&rows, 1010, 990, verdict, [0, 990], [0, 2]);
    let wakeup = rows.woken_at(1000);
    assert_eq!(
        (wakeup.class, wakeup.path),
        (Class::Direct, Path::DirectNoIpi)
    );
    assert_eq!(
        (wakeup.latency_ns, wakeup.queue_ns),
        (Some(1000), Some(990))
    );
    assert_eq!(wakeup.waker_cost_ns, Some(10));
    assert_eq!(wakeup.wakee_run_ns, Some(500));
    assert_eq!(
        (wakeup.selection, wakeup.chosen_idle),
        (Some(true), Some(false))
    );
    assert_eq!(wakeup.verdict.0, verdict.map(Some));
    assert_eq!(rows.wait_at(1010).origin, Origin::Wakeup);
    assert_eq!(counts.open_waits, 0);
    // Of the idle core 2-3 one thread is lost.
    assert_eq!(rows.cell(Reading::Any, 2, LedgerRow::WaitingLlcCore), 990);
    assert_eq!(rows.total(Reading::Seen, LedgerRow::WaitingLlcCore), 0);
}

#[test]
fn a_task_that_was_seen_on_the_idle_cpu_is_prev_by_both_readings() {
    // Twin: 20's next run, after the wait, is on CPU 2.
    let twin = script(LEFT).with(
        2500,
        1,
        "2500 1 20 switch 20:S 0
         2600 0 10 waking 20 prev=1
         2602 0 10 migrate 20 1 2
         2610 2 0/h wakeup 20 to=2
         2620 2 0 switch 0:R 20",
    );
    let (rows, _) = twin.run();
    check(&rows, 1010, 990, [Verdict::Prev; 2], [990, 990], [1, 2]);
}

#[test]
fn pulled_onto_the_wakers_cpu_is_stacked_pull_and_left_there_stacked_prev() {
    let pull = "
        1000 0 10 waking 20 prev=1
        1005 0 10 migrate 20 1 0
        1010 0 10 wakeup 20 to=0
        1400 0 10 switch 10:S 20
        1900 0 20 switch 20:S 0
        3000 4 14 other";
    let (rows, _) = whole(pull).run();
    // Queued on the waker's CPU until the waker leaves: 390. By `seen` it may run on CPUs 0 and 1.
    check(
        &rows,
        1010,
        390,
        [Verdict::Affinity, Verdict::StackedPull],
        [0, 390],
        [0, 2],
    );
    assert_eq!(rows.woken_at(1000).class, Class::Local);
    // Twin: it was on CPU 0 before.
    let (rows, _) = whole(pull)
        .with(1000, 0, "1000 0 10 waking 20 prev=0")
        .run();
    check(
        &rows,
        1010,
        390,
        [Verdict::Affinity, Verdict::StackedPrev],
        [0, 390],
        [0, 2],
    );
}

#[test]
fn another_busy_cpu_is_other_and_one_of_another_llc_other_llc() {
    let other = "
        1000 0 10 waking 20 prev=5
        1005 0 10 migrate 20 5 1
        1010 0 10 wakeup 20 to=1";
    let (rows, _) = script(other).run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Other],
        [0, 990],
        [0, 2],
    );
    // Twin: it is put on CPU 4, in whose LLC nothing is idle; the waker's LLC has CPUs 2 and 3.
    let far = whole(
        "1000 0 10 waking 20 prev=5
         1005 0 10 migrate 20 5 4
         1010 4 14/h wakeup 20 to=4
         2000 4 14 switch 14:S 20
         2500 4 20 switch 20:S 0
         3000 0 10 other",
    );
    let (rows, _) = far.run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::OtherLlc],
        [0, 990],
        [0, 2],
    );
    // The choice is the migration; the queue operation was not recorded, so the waker's cost is not known.
    assert_eq!(rows.woken_at(1000).waker_cost_ns, None);
    assert_eq!(rows.total(Reading::Any, LedgerRow::WaitingMachine), 990);
    assert_eq!(rows.woken_at(1000).cross_llc, Some(true));
}

#[test]
fn idle_cpus_of_the_previous_cpus_llc_make_other_llc_too() {
    // Waker on CPU 4, previous CPU 1: the idle CPUs 2 and 3 are in the previous CPU's LLC.
    let (rows, _) = whole(
        "1000 4 14 waking 20 prev=1
         1005 4 14 migrate 20 1 4
         1010 4 14 wakeup 20 to=4
         2000 4 14 switch 14:S 20
         2500 4 20 switch 20:S 0
         3000 0 10 other",
    )
    .run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::OtherLlc],
        [0, 990],
        [0, 2],
    );
}

/// 20 is sent to idle CPU 2, which takes it when its interrupt arrives.
const TO_IDLE: &str = "
    1000 0 10 waking 20 prev=1
    1002 0 10 migrate 20 1 2
    1003 0 10 csd 2
    1004 0 10 ipi 2 cb=7
    1010 2 0/h wakeup 20 to=2
    1030 2 0 switch 0:R 20
    1500 2 20 switch 20:S 0
    3000 0 10 other
";

#[test]
fn waiting_for_an_idle_cpu_to_wake_is_transit() {
    let (rows, _) = whole(TO_IDLE).run();
    // Queued 1010, in at 1030. At the choice (1002) CPU 3 was idle, and CPU 2 but for this wakeup itself.
    let wait = rows.wait_at(1010);
    assert_eq!(
        (wait.wait_ns, wait.verdict.0, wait.lost_ns.0),
        (20, [Verdict::Transit; 2], [0, 0])
    );
    let wakeup = rows.woken_at(1000);
    assert_eq!(
        (wakeup.class, wakeup.path),
        (Class::Queued, Path::QueuedIpi)
    );
    assert_eq!(
        (wakeup.selection, wakeup.chosen_idle),
        (Some(true), Some(true))
    );
    // Waking 1000 to the IPI at 1004.
    assert_eq!(wakeup.waker_cost_ns, Some(4));
    // The CPU's transit lasts from the waking to the switch.
    assert_eq!(rows.cell(Reading::Any, 2, LedgerRow::Transit), 30);
    assert_eq!(rows.total(Reading::Any, LedgerRow::WaitingLlcCore), 0);
}

#[test]
fn behind_another_task_of_the_chosen_cpu_is_raced() {
    // Twin of the transit: CPU 2 takes 30 first, and 20 only at 1100.
    let twin = whole(TO_IDLE).with(
        1030,
        2,
        "1030 2 0 switch 0:R 30
         1100 2 30 switch 30:D 20",
    );
    let (rows, _) = twin.run();
    let wait = rows.wait_at(1010);
    assert_eq!(
        (wait.wait_ns, wait.verdict[Reading::Any]),
        (90, Verdict::Raced)
    );
    // Until 1030 CPU 2 was on its way to it; then CPU 3 was idle for 70. Seen on CPUs 1 and 2 only.
    assert_eq!(wait.lost_ns.0, [0, 70]);
}

#[test]
fn a_cpu_that_is_idle_only_around_the_choice_is_raced() {
    // CPU 3 is busy; CPU 2 idles from 995, exactly settle before the waking, to beyond 1015.
    let long_enough = "
        300 2 0 switch 0:R 30
        310 3 0 switch 0:R 31
        995 2 30 switch 30:S 0
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1
        1015 2 0 switch 0:R 30";
    let (rows, _) = script(long_enough).run();
    // Taken exactly at the choice (1010) + settle: idle throughout. Lost 1010 to 1015.
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Prev],
        [0, 5],
        [0, 1],
    );
    // Twins: a nanosecond less on either side.
    let (rows, _) = script(long_enough)
        .with(995, 2, "996 2 30 switch 30:S 0")
        .run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Raced],
        [0, 5],
        [0, 1],
    );
    let (rows, _) = script(long_enough)
        .with(1015, 2, "1014 2 0 switch 0:R 30")
        .run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Raced],
        [0, 4],
        [0, 1],
    );
}

#[test]
fn the_choice_is_the_first_of_its_traces() {
    // CPU 2 is the only idle one, taken at 1009: one nanosecond before the enqueue.
    let taken = |choice: &str| {
        let text = format!(
            "310 3 0 switch 0:R 31
             1000 0 10 waking 20 prev=1
             {choice}
             1009 2 0 switch 0:R 30
             1010 1 11/h wakeup 20 to=1"
        );
        let (rows, _) = script(&text).run();
        rows.wait_at(1010).verdict[Reading::Any]
    };
    // Chosen at 1010: nothing was idle any more, and nothing became idle later.
    assert_eq!(taken(""), Verdict::Saturated);
    // Chosen at 1004: idle until the choice + settle. Chosen at 1005: it was not.
    assert_eq!(taken("1004 0 10 csd 1"), Verdict::Prev);
    assert_eq!(taken("1005 0 10 csd 1"), Verdict::Raced);
    assert_eq!(taken("1004 0 10 ipi 1"), Verdict::Prev);
    // An interrupt to another CPU is no choice.
    assert_eq!(taken("1004 0 10 ipi 3"), Verdict::Saturated);
    assert_eq!(taken("1004 0 10 migrate 20 1 1"), Verdict::Prev);
    let probed = "1001 0 10 sel 20 prev=1 nr=8
                  1004 0 10 selret 1
                  1006 0 10 csd 1";
    assert_eq!(taken(probed), Verdict::Prev);
}

/// Nothing is idle at the choice; CPU 2 becomes idle at 1500.
const LATE: &str = "
    300 2 0 switch 0:R 30
    310 3 0 switch 0:R 31
    1000 0 10 waking 20 prev=1
    1010 0 10 wakeup 20 to=1
    1500 2 30 switch 30:S 0
";

#[test]
fn a_cpu_that_becomes_idle_during_the_wait_is_late_idle() {
    let (rows, _) = script(LATE).run();
    // Lost from 1500 to 2000.
    check(
        &rows,
        1010,
        990,
        [Verdict::Saturated, Verdict::LateIdle],
        [0, 500],
        [0, 0],
    );
    // Twin: it becomes idle as the wait ends.
    let late = "2000 2 30 switch 30:S 0";
    let (rows, _) = script(LATE).with(1500, 2, late).run();
    check(&rows, 1010, 990, BOTH_SATURATED, [0, 0], [0, 0]);
}

#[test]
fn a_real_time_task_is_policy() {
    let middle = format!("name 20 rt 50\n{LEFT}");
    let (rows, _) = script(&middle).run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Policy],
        [0, 990],
        [0, 2],
    );
    // The idle search is asked for fair tasks only.
    assert_eq!(rows.woken_at(1000).selection, None);
    // Twin: priority 100 is fair.
    let (rows, _) = script(&format!("name 20 rt 100\n{LEFT}")).run();
    assert_eq!(rows.wait_at(1010).verdict[Reading::Any], Verdict::Prev);
}

/// A kernel thread of CPU 1 wakes 20, which was there before, onto CPU 1.
fn by_kthread(name: &str) -> Script {
    whole(&format!(
        "name 31 {name}
         900 1 11 switch 11:S 31
         1000 1 31 waking 20 prev=1
         1010 1 31 wakeup 20 to=1
         2000 1 31 switch 31:I 20
         2500 1 20 switch 20:S 0
         3000 0 10 other"
    ))
}

#[test]
fn a_per_cpu_kernel_thread_may_stack() {
    let verdicts = |script: Script| {
        let (rows, _) = script.run();
        check(
            &rows,
            1010,
            990,
            rows.wait_at(1010).verdict.0,
            [0, 990],
            [0, 2],
        );
        rows.wait_at(1010).verdict[Reading::Any]
    };
    assert_eq!(verdicts(by_kthread("kworker/1:0")), Verdict::KthreadStack);
    // Twins: an unbound worker, one bound to another CPU, and the rules before 5.6.
    assert_eq!(verdicts(by_kthread("kworker/u8:0")), Verdict::StackedPrev);
    assert_eq!(verdicts(by_kthread("kworker/2:0")), Verdict::StackedPrev);
    let mut old = by_kthread("kworker/1:0");
    old.version = (5, 5);
    assert_eq!(verdicts(old), Verdict::StackedPrev);
}

#[test]
fn a_delayed_dequeue_is_no_selection() {
    // From another LLC, in place, and CPU 1 ran something ever since: 6.12 requeued it.
    let across = "
        1000 4 14 waking 20 prev=1
        1010 4 14 wakeup 20 to=1";
    let at = |version: (u32, u32), script: Script| {
        let mut script = script;
        script.version = version;
        let (rows, _) = script.run();
        let wakeup = rows.woken_at(1000).clone();
        check(
            &rows,
            1010,
            990,
            rows.wait_at(1010).verdict.0,
            [0, 990],
            [0, 2],
        );
        (
            wakeup.class,
            wakeup.selection,
            rows.wait_at(1010).verdict[Reading::Any],
        )
    };
    let delayed = (Class::Delayed, Some(false), Verdict::NoSelection);
    assert_eq!(at((6, 12), script(across)), delayed);
    // Twins: a kernel that does not delay, and a CPU 1 that ran nothing meanwhile.
    let direct = (Class::Direct, Some(true), Verdict::Prev);
    assert_eq!(at((6, 8), script(across)), direct);
    let idled = script(across).with(
        200,
        1,
        "200 1 20 switch 20:S 0
         300 1 0 switch 0:R 11",
    );
    assert_eq!(at((6, 12), idled), direct);
    // From its own LLC it may have been either.
    let either = (Class::DirectOrDelayed, None, Verdict::Prev);
    assert_eq!(at((6, 12), script(LEFT)), either);
}

#[test]
fn queueing_to_the_cpu_it_is_about_to_leave_is_no_selection() {
    let on_cpu = "
        0 0 10 other
        0 1 20 other
        0 2 0 other
        0 3 0 other
        1000 0 10 waking 20 prev=1
        1003 0 10 csd 1
        1004 0 10 ipi 1 cb=7
        1005 1 20 switch 20:S 11
        1010 1 11/h wakeup 20 to=1
        2000 1 11 switch 11:D 20
        2500 1 20 switch 20:S 0
        3000 0 10 other";
    let outcome = |version: (u32, u32), script: Script| {
        let mut script = script;
        script.version = version;
        let (rows, _) = script.run();
        let wakeup = rows.woken_at(1000);
        assert_eq!(
            (wakeup.class, wakeup.latency_ns),
            (Class::Queued, Some(1000))
        );
        check(
            &rows,
            1010,
            990,
            rows.wait_at(1010).verdict.0,
            [0, 990],
            [0, 2],
        );
        (wakeup.selection, rows.wait_at(1010).verdict[Reading::Any])
    };
    let script = Script::new("llc=0-3 smt=0-1;2-3 node=0-3", on_cpu);
    let twin = script.with(1005, 1, "995 1 20 switch 20:S 11");
    assert_eq!(outcome((6, 8), script), (Some(false), Verdict::NoSelection));
    // Twin: it had left before the waking.
    assert_eq!(outcome((6, 8), twin), (Some(true), Verdict::Prev));
}

#[test]
fn a_mask_that_probes_prove_is_affinity_by_both_readings() {
    // A probe for 21 shows that selections are recorded: 20, woken without one, was pinned.
    let pinned = "
        500 0 10 waking 21 prev=2
        501 0 10 sel 21 prev=2 nr=8
        502 0 10 selret 2
        510 2 0/h wakeup 21 to=2
        520 2 0 switch 0:R 21
        600 2 21 switch 21:S 0
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1";
    let (rows, _) = script(pinned).run();
    check(&rows, 1010, 990, [Verdict::Affinity; 2], [0, 0], [0, 0]);
    assert_eq!(rows.woken_at(1000).selection, Some(false));
    // Twin: the probe shows that it may run on all eight.
    let twin = script(pinned).with(
        1000,
        0,
        "1000 0 10 waking 20 prev=1
         1001 0 10 sel 20 prev=1 nr=8
         1002 0 10 selret 1",
    );
    let (rows, counts) = twin.run();
    check(&rows, 1010, 990, [Verdict::Prev; 2], [990, 990], [2, 2]);
    assert_eq!(rows.woken_at(1000).selection, Some(true));
    assert_eq!(rows.woken_at(1000).probed, Some((1, 1)));
    assert_eq!(
        (
            counts.probes_checked,
            counts.probes_prev_equal,
            counts.probes_chosen_equal
        ),
        (2, 2, 2)
    );
    // A mask of three CPUs is not known: two readings again.
    let few = script(pinned).with(
        1000,
        0,
        "1000 0 10 waking 20 prev=1
         1001 0 10 sel 20 prev=1 nr=3
         1002 0 10 selret 1",
    );
    let (rows, _) = few.run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Prev],
        [0, 990],
        [0, 2],
    );
}

/// 20 runs on CPU 2 from 420 to 500, and is put on busy CPU 1 at 1010.
const BEEN_ON_2: &str = "
    400 0 10 waking 20 prev=1
    402 0 10 migrate 20 1 2
    410 2 0/h wakeup 20 to=2
    420 2 0 switch 0:R 20
    500 2 20 switch 20:S 0
    600 0 10 other
    1000 0 10 waking 20 prev=2
    1005 0 10 migrate 20 2 1
    1010 0 10 wakeup 20 to=1";

#[test]
fn where_a_task_was_seen_counts_until_its_affinity_may_have_changed() {
    let seen = |script: Script| {
        let (rows, _) = script.run();
        let wait = rows.wait_at(1010);
        assert_eq!(wait.verdict[Reading::Any], Verdict::Other);
        (
            wait.verdict[Reading::Seen],
            wait.lost_ns[Reading::Seen],
            wait.idle_cpus[Reading::Seen],
        )
    };
    let on_both = (Verdict::Other, 990, 1);
    let on_prev_only = (Verdict::Affinity, 0, 0);
    assert_eq!(seen(script(BEEN_ON_2)), on_both);
    // Twins: its mask is set by another; it belongs to another task since; another task's mask is set.
    let at_600 = |line: &str| script(BEEN_ON_2).with(600, 0, line);
    assert_eq!(seen(at_600("600 0 10 setaffinity 20")), on_prev_only);
    assert_eq!(seen(at_600("600 0 10 fork 20")), on_prev_only);
    assert_eq!(seen(at_600("600 0 10 setaffinity 21")), on_both);
    // It wakes the stopper, which moves it away: it had changed its own mask.
    let own = |waker: &str| {
        script(BEEN_ON_2).with(
            500,
            2,
            &format!(
                "name 13 migration/2 0
                 480 {waker} waking 13 prev=2
                 481 {waker} wakeup 13 to=2
                 482 2 20 switch 20:R+ 13
                 485 2 13 migrate 20 2 1
                 490 2 13 switch 13:S 0
                 510 1 11 switch 11:S 20
                 550 1 20 switch 20:S 11"
            ),
        )
    };
    assert_eq!(seen(own("2 20")), on_prev_only);
    // Woken by a balancer instead, the move tells nothing of its mask.
    assert_eq!(seen(own("0 10")), on_both);
}

#[test]
fn what_runs_after_a_gap_was_seen_there() {
    // How 20 came to CPU 2 was lost.
    let lost = BEEN_ON_2.replace("410 2 0/h wakeup 20 to=2\n", "405 2 0 lost 2\n");
    let lost = lost.replace("420 2 0 switch 0:R 20", "420 2 0 lost-end");
    // Nothing else shows it there.
    let lost = lost.replace("402 0 10 migrate 20 1 2\n", "");
    let (rows, _) = script(&lost).run();
    assert_eq!(rows.wait_at(1010).idle_cpus.0, [1, 2]);
}

#[test]
fn a_name_does_not_bind_a_task_that_was_seen_elsewhere() {
    let elsewhere = by_kthread("kworker/1:0").with(
        900,
        1,
        "name 31 kworker/1:0
         300 2 0 switch 0:R 31
         350 2 31 switch 31:S 0
         900 1 11 switch 11:S 31",
    );
    let (rows, _) = elsewhere.run();
    assert_eq!(
        rows.wait_at(1010).verdict[Reading::Any],
        Verdict::StackedPrev
    );
}

#[test]
fn a_preempted_task_that_idle_cpus_do_not_pull_is_prev() {
    // 20 makes way for 11 on CPU 1 at 1000 and comes back at 2000.
    let preempted = "
        0 0 10 other
        0 1 20 other
        0 2 0 other
        0 3 0 other
        900 0 10 waking 11 prev=1
        910 0 10 wakeup 11 to=1
        1000 1 20 switch 20:R 11
        2000 1 11 switch 11:S 20
        2500 1 20 switch 20:S 0
        3000 0 10 other";
    let script = Script::new("llc=0-3 smt=0-1;2-3 node=0-3", preempted);
    let (rows, _) = script.run();
    check(
        &rows,
        1000,
        1000,
        [Verdict::Affinity, Verdict::Prev],
        [0, 1000],
        [0, 2],
    );
    assert_eq!(rows.wait_at(1000).origin, Origin::Preempted);
    assert_eq!(rows.wait_at(1000).waker, None);
    // 11 waited from its enqueue until 20 made way.
    check(
        &rows,
        910,
        90,
        [Verdict::Affinity, Verdict::Prev],
        [0, 90],
        [0, 2],
    );
    // Twin: by a stopper, which moves it to CPU 2, where it runs at once.
    let moved = format!(
        "name 12 migration/1 0\n{}",
        preempted.replace(
            "1000 1 20 switch 20:R 11",
            "1000 1 20 switch 20:R+ 12
             1003 1 12 migrate 20 1 2
             1008 1 12 switch 12:S 11
             1010 2 0 switch 0:R 20",
        )
    );
    let moved = moved
        .replace("switch 11:S 20", "switch 11:S 0")
        .replace("2500 1 20", "2500 2 20");
    let (rows, _) = Script::new("llc=0-3 smt=0-1;2-3 node=0-3", &moved).run();
    let wait = rows.wait_at(1000);
    assert_eq!(
        (wait.origin, wait.wait_ns, wait.moves),
        (Origin::Balanced, 10, 1)
    );
    assert_eq!((wait.first_cpu, wait.last_cpu), (1, 2));
    // Waiting on CPU 1 until 1003, then due on CPU 2. Seen on both.
    assert_eq!(wait.lost_ns.0, [3, 3]);
}

#[test]
fn a_new_task_waits_too() {
    let new = "
        1000 0 10 fork 40
        1010 0 10 new 40 to=1
        2000 1 11 switch 11:D 40
        2500 1 40 switch 40:S 0
        3000 0 10 other";
    let (rows, _) = whole(new).run();
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::Other],
        [0, 990],
        [0, 2],
    );
    assert_eq!(rows.wait_at(1010).origin, Origin::New);
    // Twin: onto an idle CPU.
    let onto_idle = "
        1000 0 10 fork 40
        1010 0 10 new 40 to=2
        1020 2 0 switch 0:R 40
        2500 2 40 switch 40:S 0
        3000 0 10 other";
    let (rows, _) = whole(onto_idle).run();
    let wait = rows.wait_at(1010);
    assert_eq!((wait.wait_ns, wait.verdict.0), (10, [Verdict::Transit; 2]));
    assert_eq!(rows.cell(Reading::Any, 2, LedgerRow::Transit), 10);
}

#[test]
fn a_task_its_cpu_does_not_see_is_withheld_not_waiting() {
    // 20 is queued on CPU 1 at 1010, yet at 1200 CPU 1 runs nothing, until it takes 20 at 2000.
    let withheld = script(LEFT).with(
        2000,
        1,
        "1200 1 11 switch 11:D 0
         2000 1 0 switch 0:R 20",
    );
    let (rows, counts) = withheld.run();
    let wait = rows.wait_at(1010);
    assert_eq!(
        (wait.wait_ns, wait.end_ns, wait.lost_ns.0),
        (190, None, [0, 190])
    );
    assert_eq!((counts.withheld, counts.withheld_ns), (1, 800));
    let task = rows.pid(20);
    assert_eq!(
        (task.withheld, task.withheld_ns, task.wait_ns),
        (1, 800, 190)
    );
    // While it is withheld, nobody waits: the three CPUs idle are idle.
    assert_eq!(rows.cell(Reading::Any, 1, LedgerRow::Idle), 800 + 500);
    assert_eq!(rows.total(Reading::Any, LedgerRow::WaitingLlcCore), 190);
    // Throttled as it leaves: no wait at all.
    let left = script("").with(200, 1, "200 1 20 switch 20:R 0\n210 1 0 switch 0:R 11");
    let (rows, counts) = left.run();
    assert!(rows.waits.is_empty());
    assert_eq!((counts.withheld, counts.withheld_ns), (1, 1800));
}

#[test]
fn an_idle_thread_of_a_busy_core_is_smt_shared() {
    // 20 goes to CPU 1, beside busy CPU 0, although the core of CPUs 2 and 3 is idle.
    let beside = "
        0 0 10 other
        0 1 20 other
        0 2 0 other
        0 3 0 other
        200 1 20 switch 20:S 0
        1000 0 10 waking 20 prev=1
        1004 0 10 csd 1
        1005 0 10 ipi 1 cb=7
        1010 1 0/h wakeup 20 to=1
        1020 1 0 switch 0:R 20
        2500 1 20 switch 20:S 0
        3000 0 10 other";
    let shared = |script: Script| {
        let (rows, _) = script.run();
        assert_eq!(rows.woken_at(1000).chosen_idle, Some(true));
        rows.woken_at(1000).smt_shared
    };
    let script = Script::new("llc=0-3 smt=0-1;2-3 node=0-3", beside);
    // Twins: the other core is half busy; the chosen core is idle too.
    assert!(!shared(script.with(0, 3, "0 3 13 other")));
    assert!(!shared(script.with(
        0,
        0,
        "0 0 10 other\n900 0 10 switch 10:S 0"
    )));
    assert!(shared(script));
}

#[test]
fn without_a_topology_no_cpu_is_called_missed() {
    let mut unknown = script(LEFT);
    unknown.topology = String::new();
    let (rows, _) = unknown.run();
    assert_eq!(
        rows.wait_at(1010).verdict.0,
        [Verdict::Affinity, Verdict::Unknown]
    );
    assert_eq!(rows.woken_at(1000).cross_llc, None);
    // What needs no topology is told all the same.
    let mut late = script(LATE);
    late.topology = String::new();
    let (rows, _) = late.run();
    assert_eq!(rows.wait_at(1010).verdict[Reading::Any], Verdict::LateIdle);
}

#[test]
fn idle_only_in_a_third_llc_is_no_miss_of_the_idle_search() {
    // Three LLCs; waker, previous and chosen CPU are in busy ones, CPU 4 idles in the third.
    let third = "
        0 0 10 other
        0 1 20 other
        0 2 12 other
        0 3 13 other
        0 4 0 other
        0 5 15 other
        200 1 20 switch 20:S 11
        1000 2 12 waking 20 prev=1
        1010 1 11/h wakeup 20 to=1
        2000 1 11 switch 11:D 20
        2500 1 20 switch 20:S 0
        3000 0 10 other";
    let (rows, _) = Script::new("llc=0-1;2-3;4-5 smt=0;1;2;3;4;5 node=0-5", third).run();
    // The kernel never looks there at a wakeup; that no balancer pulled it is what was lost.
    check(
        &rows,
        1010,
        990,
        [Verdict::Affinity, Verdict::LateIdle],
        [0, 990],
        [0, 1],
    );
    assert_eq!(rows.cell(Reading::Any, 4, LedgerRow::WaitingMachine), 990);
}

#[test]
fn the_busy_share_is_that_of_the_last_four_milliseconds() {
    // CPUs 0 and 1 of an LLC of four: one busy all the time, the other since 6 ms.
    let script = Script::new(
        "llc=0-3 smt=0;1;2;3 node=0-3",
        "0 0 10 other
         0 1 0 other
         0 2 0 other
         0 3 0 other
         6000000 1 0 switch 0:R 11
         8000000 0 10 waking 20 prev=1
         8000010 0 10 wakeup 20 to=1
         8000990 1 11 switch 11:S 20
         9000000 1 20 switch 20:S 0
         9000001 0 10 other",
    );
    let (rows, _) = script.run();
    // In the 4 ms before the choice: (4 + 2) of 16 CPU-milliseconds, 37.5 %.
    assert_eq!(rows.wait_at(8_000_010).llc_busy_percent, Some(37));
}

#[test]
fn scripts_hold_what_they_say() {
    // The twins replace single events: a stamp that is not there would be a different test.
    let script = script(LEFT);
    assert!(script.events.len() >= 10);
    let wakings = |s: &Script| {
        s.events
            .iter()
            .filter(|e| matches!(e.payload, Payload::Waking(_)))
            .count()
    };
    assert_eq!(wakings(&script), 1);
    assert_eq!(wakings(&script.with(1000, 0, "")), 0);
}
