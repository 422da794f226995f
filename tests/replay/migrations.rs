//! Migrations: what caused each, how sure that is, and what followed.

use crate::support::script::Script;
use crate::support::*;
use ttwu::pipeline::{RunOptions, TimePoint};
use ttwu::replay::rows::MigrationRow;
use ttwu::replay::words::{Class, Confidence, MigrationCause, MigrationKind, Pair};
use ttwu_parsers::event::Payload;

use Confidence::{Certain, Likely, Unsure};
use MigrationCause::{Active, Affinity, ForkExec, NewIdle, Numa, Periodic, Rt, Unknown, Wakeup};

/// Two LLCs of two cores, each a node of its own.
const MACHINE: &str = "llc=0-1;2-3 smt=0;1;2;3 l2=0;1;2;3 node=0-1;2-3";

/// Tasks 10 to 13 run on CPUs 0 to 3, and 30 and 31 are queued on CPU 1.
const BEFORE: &str = "
    name 57 migration/1 0
    name 58 migration/2 0
    0 0 10 other
    0 1 11 other
    0 2 12 other
    0 3 13 other
    1 1 11 waking 30 prev=1
    2 1 11 wakeup 30 to=1
    3 1 11 waking 31 prev=1
    4 1 11 wakeup 31 to=1";

fn script(rest: &str) -> Script {
    Script::new(MACHINE, &format!("{BEFORE}\n{rest}"))
}

fn causes_of(script: &Script) -> Vec<(MigrationCause, Confidence)> {
    let (rows, _) = script.run();
    let mut moves = rows.migrations;
    moves.sort_by_key(|m| m.ts_ns);
    moves.iter().map(|m| (m.cause, m.confidence)).collect()
}

#[track_caller]
fn check(rest: &str, expected: &[(MigrationCause, Confidence)]) {
    assert_eq!(causes_of(&script(rest)), expected, "{rest}");
}

#[test]
fn between_waking_and_wakeup_it_is_placement() {
    let wakeup = "
        10 0 10 waking 20 prev=1
        12 0 10 migrate 20 1 2
        14 0 10 wakeup 20 to=2";
    check(wakeup, &[(Wakeup, Certain)]);
    // Soft interrupts wake too.
    check(&wakeup.replace("0 10 ", "0 10/s "), &[(Wakeup, Certain)]);
    // Another CPU than the waker's has no part in a placement.
    check(&wakeup.replace("12 0 10", "12 3 13"), &[(Wakeup, Likely)]);
}

#[test]
fn without_wakings_a_sleeper_is_moved_by_its_wakeup_alone() {
    let text = "
        0 0 10 other
        1 1 20 switch 20:S 11
        5 0 10 migrate 20 1 2
        7 2 0/h wakeup 20 to=2";
    let mut old = Script::new(MACHINE, text);
    old.version = (4, 1);
    assert_eq!(causes_of(&old), [(Wakeup, Likely)]);
    // Balancers move sleepers whose dequeue is delayed.
    old.version = (6, 12);
    assert_eq!(causes_of(&old), [(Wakeup, Unsure)]);
}

#[test]
fn a_cpu_that_is_about_to_run_nothing_pulls() {
    // The pulled task runs next.
    check(
        "10 0 10 migrate 30 1 0\n 12 0 10 switch 10:S 30",
        &[(NewIdle, Certain)],
    );
    // Of several one does.
    check(
        "10 0 10 migrate 31 1 0\n 11 0 10 migrate 30 1 0\n 12 0 10 switch 10:D 30",
        &[(NewIdle, Certain), (NewIdle, Certain)],
    );
    // Another came first.
    check(
        "8 3 13 waking 40 prev=0\n 10 0 10 migrate 30 1 0\n 11 3 13 wakeup 40 to=0\n 12 0 10 switch 10:S 40",
        &[(NewIdle, Likely)],
    );
    // From the idle loop.
    check(
        "8 0 10 switch 10:S 0\n 10 0 0 migrate 30 1 0\n 12 0 0 switch 0:R 30",
        &[(NewIdle, Certain)],
    );
    // The trace ends before its next switch, or that is lost.
    check("10 0 10 migrate 30 1 0", &[(NewIdle, Unsure)]);
    check(
        "10 0 10 migrate 30 1 0\n 11 0 -1 lost 3\n 12 0 -1 lost-end\n 14 0 30 switch 30:S 0",
        &[(NewIdle, Unsure)],
    );
}

#[test]
fn a_task_that_stays_on_its_cpu_did_not_pull() {
    // Preempted: it was not about to leave.
    check(
        "10 0 10 migrate 30 1 0\n 12 0 10 switch 10:R 30",
        &[(Affinity, Unsure)],
    );
    // It woke somebody first.
    check(
        "10 0 10 migrate 30 1 0\n 11 0 10 waking 40 prev=0\n 12 0 10 wakeup 40 to=0\n 14 0 10 switch 10:S 30",
        &[(Affinity, Unsure)],
    );
    // An interrupt did.
    check(
        "10 0 10 migrate 30 1 0\n 11 0 10/h waking 40 prev=0\n 12 0 10/h wakeup 40 to=0\n 14 0 10 switch 10:S 30",
        &[(NewIdle, Certain)],
    );
    // A switch between the two is missing.
    check(
        "10 0 10 migrate 30 1 0\n 12 0 14 switch 14:S 30",
        &[(Unknown, Unsure)],
    );
}

#[test]
fn the_soft_interrupt_balances_periodically() {
    check("10 0 10/s migrate 30 1 0", &[(Periodic, Certain)]);
    // For a CPU whose tick is stopped.
    check("10 0 10/s migrate 30 1 3", &[(Periodic, Certain)]);
    check(
        "9 0 10/s softirq 7\n 10 0 10/s migrate 30 1 0\n 11 0 10/s softirq-end 7",
        &[(Periodic, Certain)],
    );
    // Another vector does not balance.
    check(
        "9 0 10/s softirq 3\n 10 0 10/s migrate 30 1 0\n 11 0 10/s softirq-end 3",
        &[(Periodic, Unsure)],
    );
    // Not seen before: its waking may be missing.
    check("10 0 10/s migrate 90 1 0", &[(Periodic, Likely)]);
    // A sleeper whose dequeue is delayed.
    let asleep = "6 1 11 switch 11:S 30\n 8 1 30 switch 30:S 31\n 10 0 10/s migrate 30 1 0";
    check(asleep, &[(Periodic, Certain)]);
    let (rows, _) = script(asleep).run();
    assert_eq!(rows.migrations[0].kind, MigrationKind::Sleeping);
    // A hard interrupt moves nobody.
    check("10 0 10/h migrate 30 1 0", &[(Unknown, Unsure)]);
}

/// Task 30 runs on CPU 1; the stopper there is woken as `waker` says, and moves it to `to`.
fn by_stopper(waker: &str, to: u32, rest: &str) -> String {
    format!(
        "6 1 11 switch 11:S 30
        10 {waker} waking 57 prev=1
        11 {waker} wakeup 57 to=1
        20 1 30 switch 30:R 57
        22 1 57 migrate 30 1 {to}
        24 1 57 switch 57:S 31
        {rest}"
    )
}

#[test]
fn a_balancer_has_a_stopper_push_the_running_task() {
    check(&by_stopper("0 10/s", 0, ""), &[(Active, Certain)]);
    // For a CPU whose tick is stopped.
    check(&by_stopper("0 10/s", 2, ""), &[(Active, Certain)]);
    let (rows, _) = script(&by_stopper("0 10/s", 0, "")).run();
    assert_eq!(rows.migrations[0].kind, MigrationKind::Stopper);
    // A CPU about to run nothing, before the stopper ran or after.
    let before = by_stopper("0 10", 0, "").replace("20 1 30", "13 0 10 switch 10:S 0\n 20 1 30");
    check(&before, &[(Active, Likely)]);
    let after = by_stopper("0 10", 0, "25 0 10 switch 10:S 30");
    check(&after, &[(Active, Likely)]);
    check(&by_stopper("0 10", 0, ""), &[(Active, Unsure)]);
    // One that stays has changed the other's mask.
    check(
        &by_stopper("0 10", 0, "25 0 10 switch 10:R 30"),
        &[(Affinity, Likely)],
    );
    let idle =
        by_stopper("0 0", 0, "").replace("10 0 0 waking", "8 0 10 switch 10:S 0\n 10 0 0 waking");
    check(&idle, &[(Active, Certain)]);
}

#[test]
fn a_stopper_that_nobody_was_seen_to_wake_tells_nothing() {
    let text = by_stopper("0 10/s", 0, "");
    let unwoken: Vec<&str> = text
        .lines()
        .filter(|l| !l.contains(" 57 prev") && !l.contains("wakeup 57"))
        .collect();
    check(&unwoken.join("\n"), &[(Unknown, Unsure)]);
    check(&by_stopper("0 10/h", 0, ""), &[(Unknown, Unsure)]);
    // Woken once, it moves two: for one of them it may not have been woken.
    let twice = by_stopper("0 10/s", 0, "").replace("24 1 57", "23 1 57 migrate 31 1 0\n 24 1 57");
    let twice = twice.replace("57:S 31", "57:S 0");
    check(&twice, &[(Active, Certain), (Active, Unsure)]);
}

#[test]
fn a_task_that_wakes_its_own_stopper_changed_its_mask() {
    let own = by_stopper("1 30", 0, "");
    check(&own, &[(Affinity, Likely)]);
    let asked = own.replace("10 1 30", "9 1 30 setaffinity 0\n 10 1 30");
    check(&asked, &[(Affinity, Certain)]);
    check(
        &asked.replace("setaffinity 0", "setaffinity 30"),
        &[(Affinity, Certain)],
    );
    // Somebody else's call was about another task.
    check(
        &own.replace("10 1 30", "9 1 30 setaffinity 31\n 10 1 30"),
        &[(Affinity, Likely)],
    );
    let mut lacking = script(&own);
    lacking.recorded.exec = false;
    assert_eq!(causes_of(&lacking), [(Affinity, Unsure)]);
    // NUMA balancing looks the same where its events are not recorded, but moves to another node.
    lacking.recorded.exec = true;
    lacking.recorded.numa = false;
    assert_eq!(causes_of(&lacking), [(Affinity, Likely)]);
    let mut far = script(&by_stopper("1 30", 2, ""));
    assert_eq!(causes_of(&far), [(Affinity, Likely)]);
    far.recorded.numa = false;
    assert_eq!(causes_of(&far), [(Affinity, Unsure)]);
}

#[test]
fn an_exec_that_follows_tells_that_it_was_for_that() {
    let exec = by_stopper(
        "1 30",
        0,
        "26 0 10 switch 10:S 30\n 30 0 30 exec 30 30\n 40 0 30 switch 30:S 0",
    );
    check(&exec, &[(ForkExec, Certain)]);
    let mut unseen = script(&exec);
    unseen.recorded.set_affinity = false;
    assert_eq!(causes_of(&unseen), [(ForkExec, Likely)]);
    // It read the new program from disk, and its run after the move was over before.
    let slept = exec.replace("30 0 30 exec", "28 0 30 switch 30:D 0\n 29 0 0/h waking 30 prev=0\n 30 0 0/h wakeup 30 to=0\n 31 0 0 switch 0:R 30\n 32 0 30 exec");
    check(&slept, &[(ForkExec, Certain)]);
    let (rows, _) = script(&slept).run();
    assert_eq!(rows.migrations[0].run_ns, Some(2));
    // `taskset` changes its mask before.
    let asked = exec.replace("10 1 30", "9 1 30 setaffinity 0\n 10 1 30");
    check(&asked, &[(Affinity, Certain)]);
    // Much later it has nothing to do with it.
    let late = exec
        .replace("30 0 30 exec", "200000030 0 30 exec")
        .replace("40 0 30 switch", "200000040 0 30 switch");
    check(&late, &[(Affinity, Likely)]);
    // Moved again before, it may have been on its way there: only its last move is known to be.
    let again = exec.replace(
        "30 0 30 exec",
        "28 0 30 switch 30:R 0\n 29 1 0/s migrate 30 0 1\n 30 1 0 switch 0:R 30\n 31 1 30 exec",
    );
    let again = again.replace("40 0 30 switch", "40 1 30 switch");
    check(&again, &[(Affinity, Unsure), (Periodic, Certain)]);
    // Long after, an `execve` would have been over.
    let again = again
        .replace("\n 28 0", "\n 200000028 0")
        .replace("29 1 0/s", "200000029 1 0/s");
    let again = again
        .replace("\n 30 1 0", "\n 200000030 1 0")
        .replace("31 1 30 exec", "200000031 1 30 exec");
    let again = again.replace("40 1 30", "200000040 1 30");
    check(&again, &[(Affinity, Likely), (Periodic, Certain)]);
}

#[test]
fn before_4_14_a_new_tasks_placement_is_a_migration() {
    check(
        "10 0 10 fork 40\n 11 0 10 migrate 40 0 2\n 12 0 10 new 40 to=2",
        &[(ForkExec, Certain)],
    );
    // It is no migration today.
    check("10 0 10 fork 40\n 12 0 10 new 40 to=2", &[]);
}

#[test]
fn another_task_may_change_the_mask() {
    let queued = "10 0 10 migrate 30 1 2\n 20 0 10 switch 10:S 0";
    check(queued, &[(Affinity, Likely)]);
    check(
        &format!("9 0 10 setaffinity 30\n {queued}"),
        &[(Affinity, Certain)],
    );
    let to_itself = "9 0 10 setaffinity 30\n 10 0 10 migrate 30 1 0\n 20 0 10 switch 10:S 30";
    check(to_itself, &[(Affinity, Certain)]);
    // It slept as it was asked for, and was moved after it had been woken.
    let later = "6 1 11 switch 11:S 30\n 7 1 30 switch 30:S 31\n 9 0 10 setaffinity 30\n 11 1 31 waking 30 prev=1\n 12 1 31 wakeup 30 to=1\n 13 0 10 migrate 30 1 0\n 20 0 10 switch 10:S 30";
    check(later, &[(NewIdle, Certain)]);
    // It waited, but the task that asked slept before it pulled.
    let slept = "9 0 10 setaffinity 30\n 10 0 10 switch 10:S 0\n 11 0 0/h waking 10 prev=0\n 12 0 0/h wakeup 10 to=0\n 13 0 0 switch 0:R 10\n 18 0 10 migrate 30 1 0\n 20 0 10 switch 10:S 30";
    check(slept, &[(NewIdle, Certain)]);
    let mut old = script(queued);
    old.version = (5, 10);
    assert_eq!(causes_of(&old), [(Affinity, Unsure)]);
    let running = by_stopper("0 10", 2, "");
    check(&running, &[(Affinity, Likely)]);
    check(
        &format!("9 0 10 setaffinity 30\n {running}").replace("6 1 11 switch", "9 1 11 switch"),
        &[(Affinity, Certain)],
    );
    // The idle task changes no masks.
    check(
        "8 0 10 switch 10:S 0\n 10 0 0 migrate 30 1 2",
        &[(Unknown, Unsure)],
    );
}

#[test]
fn numa_balancing_announces_its_moves() {
    let own = by_stopper("1 30", 2, "").replace("10 1 30", "9 1 30 numa 30\n 10 1 30");
    check(&own, &[(Numa, Certain)]);
    // Two change places: the stopper of one CPU moves both.
    let swap = "
        6 1 11 switch 11:S 30
        9 1 30 numa 30 12
        10 1 30 waking 58 prev=2
        11 1 30 wakeup 58 to=2
        12 1 30 waking 57 prev=1
        13 1 30 wakeup 57 to=1
        20 2 12 switch 12:R 58
        21 1 30 switch 30:R 57
        22 2 58 migrate 30 1 2
        23 2 58 migrate 12 2 1
        24 2 58 switch 58:S 30
        25 1 57 switch 57:S 12";
    check(swap, &[(Numa, Certain), (Numa, Certain)]);
    // Announced, but moved by something else first.
    check(
        "9 1 11 numa 30\n 10 0 10/s migrate 30 1 0",
        &[(Periodic, Certain)],
    );
}

#[test]
fn real_time_tasks_are_balanced_by_their_class() {
    let rt = |rest: &str| {
        causes_of(&Script::new(
            MACHINE,
            &format!("name 30 rt 50\n{BEFORE}\n{rest}"),
        ))
    };
    assert_eq!(
        rt("10 0 10 migrate 30 1 0\n 12 0 10 switch 10:S 30"),
        [(Rt, Likely)]
    );
    assert_eq!(rt("10 1 11 migrate 30 1 3"), [(Rt, Likely)]);
    assert_eq!(rt("10 0 10/h migrate 30 1 3"), [(Rt, Likely)]);
    assert_eq!(
        rt("9 0 10 setaffinity 30\n 10 0 10 migrate 30 1 3"),
        [(Affinity, Certain)]
    );
    assert_eq!(rt(&by_stopper("0 10", 2, "")), [(Rt, Likely)]);
}

#[test]
fn what_no_event_announces_is_unknown() {
    let (rows, counts) = script("10 0 10 switch 10:S 30").run();
    let moved = &rows.migrations[0];
    assert!(moved.inferred);
    assert_eq!((moved.cause, moved.confidence), (Unknown, Unsure));
    assert_eq!(counts.inferred_migrations, 1);
}

/// What follows a move is the time on the CPU until the task blocks or is moved again.
#[test]
fn the_run_after_a_move_ends_as_it_blocks_or_moves() {
    let text = "
        10 0 10 waking 20 prev=1
        12 0 10 migrate 20 1 2
        14 0 10 wakeup 20 to=2
        100 2 12 switch 12:S 20
        115 2 20 switch 20:R 40
        120 3 13/s migrate 20 2 3
        130 3 13 switch 13:S 20
        155 3 20 switch 20:S 0
        200 0 10 waking 20 prev=3
        202 0 10 wakeup 20 to=3
        210 3 0 switch 0:R 20
        290 3 20 switch 20:S 0";
    let (rows, _) = script(text).run();
    let runs: Vec<_> = rows
        .migrations
        .iter()
        .map(|m| (m.ts_ns, m.run_ns))
        .collect();
    // The last run follows no move.
    assert_eq!(runs, [(12, Some(15)), (120, Some(25))]);
    // Events of the CPU it runs on are lost.
    let lost = script(&text.replace(
        "115 2 20 switch 20:R 40",
        "110 2 -1 lost 3\n 111 2 -1 lost-end\n 115 2 20 switch 20:R 40",
    ));
    let (rows, _) = lost.run();
    assert_eq!(rows.migrations[0].run_ns, None);
    // The trace ends first.
    let (rows, _) = script(&text[..text.find("155 3").unwrap()]).run();
    assert_eq!(rows.migrations[1].run_ns, None);
}

/// CPUs 0 and 1 are idle as a wakeup takes task 20 from there to CPU 2, where it waits for 60 ns beside an idle CPU 3.
#[test]
fn what_a_move_cost_is_what_was_lost_after_it() {
    let text = "
        0 0 0 other
        0 1 1 other
        0 2 12 other
        0 3 0 other
        5 1 1 switch 1:S 0
        10 2 12 waking 20 prev=1
        12 2 12 migrate 20 1 2
        14 2 12 wakeup 20 to=2
        74 2 12 switch 12:S 20
        90 2 20 switch 20:S 0
        100 2 0 other";
    let (rows, _) = Script::new(MACHINE, text).run();
    let moved = &rows.migrations[0];
    // Task 20 was seen on CPU 2 alone; by the other reading CPUs 0, 1 and 3 are as good.
    assert_eq!(moved.idle_left, Some(Pair([0, 2])));
    assert_eq!(moved.lost_ns, Pair([0, 60]));
    assert_eq!(moved.run_ns, Some(16));
    // The same wait, but a balancer takes it back at 54: only what follows is charged to that.
    let back = text
        .replace(
            "74 2 12 switch 12:S 20",
            "54 0 0/s migrate 20 2 1\n 74 1 0 switch 0:R 20",
        )
        .replace("90 2 20 switch 20:S 0", "90 1 20 switch 20:S 0");
    let (rows, _) = Script::new(MACHINE, &back).run();
    let lost: Vec<_> = rows.migrations.iter().map(|m| m.lost_ns).collect();
    // 20 was seen on both CPUs now. From 54 on it is due on an idle CPU, and waits for nobody.
    assert_eq!(lost, [Pair([40, 40]), Pair([0, 0])], "{:?}", rows.waits);
    assert_eq!(rows.migrations[1].idle_left, Some(Pair([0, 1])));
}

/// Moves within an LLC leave none.
#[test]
fn within_an_llc_nothing_is_left() {
    let (rows, _) = script("10 0 10/s migrate 30 1 0").run();
    assert_eq!(rows.migrations[0].idle_left, None);
}

/// All events of a trace, in time order.
fn events(run: &Replayed) -> Vec<ttwu_parsers::event::Event> {
    let mut source = run.prepared.trace.merged();
    std::iter::from_fn(|| source.next_event()).collect()
}

#[test]
fn every_recorded_migration_has_one_row() {
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        let raw = events(&run);
        let recorded = raw
            .iter()
            .filter(|e| matches!(e.payload, Payload::Migrate { .. }));
        let recorded = recorded.count();
        let rows = run.rows.migrations.iter().filter(|m| !m.inferred).count();
        assert_eq!(rows, recorded, "{}", name(&folder));
        assert!(recorded > 0, "{}", name(&folder));
    }
}

/// How far a wakeup is on its waker's CPU.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Waking,
    Selecting,
    Selected,
}

/// The kernel's own probes: a migration that follows a selection, on the same CPU, of the same task and before its enqueue,
/// is a placement; and no other migration is one, but for tasks bound to one CPU, for which nothing is selected.
#[test]
fn placements_are_those_that_follow_a_selection() {
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        if !run.prepared.config.recorded.probes {
            continue;
        }
        let mut stages: Vec<Option<(i32, Stage)>> = vec![None; 64];
        let mut expected = Vec::new();
        let mut bound = 0;
        for event in events(&run) {
            // Enqueued, wherever: the selection is over.
            if let Payload::Wakeup(wake) = &event.payload {
                for stage in &mut stages {
                    stage.take_if(|(pid, _)| *pid == wake.pid);
                }
            }
            let stage = &mut stages[event.cpu as usize];
            match event.payload {
                Payload::Waking(wake) => *stage = Some((wake.pid, Stage::Waking)),
                Payload::Select(selection) => *stage = Some((selection.pid, Stage::Selecting)),
                Payload::Selected { .. } => *stage = stage.map(|(pid, _)| (pid, Stage::Selected)),
                Payload::Migrate { comm, pid, .. } => {
                    let own = stage.take_if(|(of, _)| *of == pid).map(|(_, stage)| stage);
                    if own == Some(Stage::Selected) {
                        expected.push(event.ts);
                    } else if own == Some(Stage::Waking) && comm.as_bytes().starts_with(b"kworker/")
                    {
                        expected.push(event.ts);
                        bound += 1;
                    }
                }
                Payload::Switch { .. } => *stage = None,
                _ => {}
            }
        }
        assert!(bound <= 2, "{}: {bound}", name(&folder));
        let mut placed: Vec<i64> = of_cause(&run, Wakeup).map(|m| m.ts_ns).collect();
        placed.sort_unstable();
        assert_eq!(placed, expected, "{}", name(&folder));
        assert!(
            of_cause(&run, Wakeup).all(|m| m.confidence == Certain),
            "{}",
            name(&folder)
        );
        let told = |cause| of_cause(&run, cause).count();
        println!(
            "{}: {:?}",
            name(&folder),
            MigrationCause::ALL
                .iter()
                .map(|&c| (c.as_str(), told(c)))
                .collect::<Vec<_>>()
        );
    }
}

fn of_cause(run: &Replayed, cause: MigrationCause) -> impl Iterator<Item = &MigrationRow> {
    run.rows.migrations.iter().filter(move |m| m.cause == cause)
}

/// Pinned onto the waker's CPU: the task woke its stopper, and nothing followed but its work.
#[test]
fn pinning_itself_is_a_change_of_affinity() {
    let folder = root().join("fixtures/lab/stack");
    let run = run(&folder.join("trace.dat"), &lab_options(&folder));
    let pinned: Vec<_> = of_cause(&run, Affinity).collect();
    assert_eq!(pinned.len(), 1, "{pinned:?}");
    assert_eq!((pinned[0].from_cpu, pinned[0].to_cpu), (5, 0));
    assert_eq!(pinned[0].kind, MigrationKind::Stopper);
}

/// A placement's run is what the wakeup says of it by its own account, unless the task was moved in the middle of it.
#[test]
fn the_run_after_a_placement_is_the_wakees() {
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        let mut checked = 0;
        for moved in of_cause(&run, Wakeup) {
            let woken = run.rows.wakeups.iter().find(|w| {
                w.wakee == moved.task
                    && w.class != Class::New
                    && w.waking_ns.is_some_and(|ts| ts <= moved.ts_ns)
                    && w.wakeup_ns.is_some_and(|ts| ts >= moved.ts_ns)
            });
            let run_ns = woken.and_then(|w| w.wakee_run_ns);
            let again = run.rows.migrations.iter().any(|m| {
                m.task == moved.task
                    && m.ts_ns > moved.ts_ns
                    && woken
                        .and_then(|w| w.switch_in_ns)
                        .is_none_or(|ts| m.ts_ns < ts + run_ns.unwrap_or(0))
            });
            if let (Some(expected), Some(found), false) = (run_ns, moved.run_ns, again) {
                let cut = run
                    .rows
                    .migrations
                    .iter()
                    .any(|m| m.task == moved.task && m.ts_ns > moved.ts_ns);
                assert!(
                    found == expected || (cut && found < expected),
                    "{}: {moved:?} {woken:?}",
                    name(&folder)
                );
                checked += u32::from(found == expected);
            }
        }
        assert!(
            checked > 0 || of_cause(&run, Wakeup).next().is_none(),
            "{}",
            name(&folder)
        );
    }
}

#[test]
fn windows_split_migrations_by_their_stamps() {
    let folder = root().join("fixtures/lab/messaging");
    let whole = run(&folder.join("trace.dat"), &lab_options(&folder));
    let middle = || Some(TimePoint::AfterStart(1_400_000_000));
    let parts = [(None, middle()), (middle(), None)].map(|(from, to)| {
        run(
            &folder.join("trace.dat"),
            &RunOptions {
                from,
                to,
                ..lab_options(&folder)
            },
        )
    });
    let counted = |run: &Replayed| {
        let mut rows: Vec<_> = run
            .rows
            .migrations
            .iter()
            .filter(|m| m.in_window)
            .map(|m| (m.ts_ns, m.cause, m.run_ns))
            .collect();
        rows.sort_unstable_by_key(|row| row.0);
        rows
    };
    let joined: Vec<_> = parts.iter().flat_map(counted).collect();
    assert_eq!(joined, counted(&whole));
    assert!(parts.iter().all(|part| counted(part).len() > 10));
    let lost = |run: &Replayed| -> [i64; 2] {
        let sum = |of: usize| run.rows.migrations.iter().map(|m| m.lost_ns.0[of]).sum();
        [sum(0), sum(1)]
    };
    let halves = parts.each_ref().map(lost);
    assert_eq!(
        [halves[0][0] + halves[1][0], halves[0][1] + halves[1][1]],
        lost(&whole)
    );
}
