//! Each verdict, class, road and cause planted by itself. That the program finds what the truth says, row by row, is
//! checked as each run ends; that the truth is what was meant, here.

use super::agent::{Phase, balancing, inline_softirq, interrupt_with_softirq};
use super::events::Left;
use super::kernels::{V5_10, V6_1, V6_12};
use super::machine::Shape;
use super::notes::Cause;
use super::stage::{Played, Stage};

/// Two LLCs of four cores: CPUs 0 to 3, and 4 to 7.
const TWO: Shape = Shape::new(1, 2, 4, 1, 1);
/// One LLC of four cores.
const ONE: Shape = Shape::new(1, 1, 4, 1, 1);
const BOTH: fn(&'static str) -> [&'static str; 2] = |word| [word, word];

fn two() -> Stage {
    Stage::on(V6_12, TWO)
}

#[test]
fn transit() {
    let mut stage = two();
    stage.occupy(&[0]);
    let wakee = stage.task(1);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(2000);
    stage.run(1, wakee);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("transit"));
}

#[test]
fn stacked_prev() {
    let mut stage = two();
    stage.occupy(&[0]);
    let wakee = stage.task(0);
    let wakeup = stage.wake(0, wakee, 0);
    stage.pass(9000);
    stage.sleep(0);
    // It was seen nowhere but there.
    assert_eq!(stage.end().verdicts(wakeup), ["affinity", "stacked-prev"]);
}

#[test]
fn stacked_pull() {
    let mut stage = two();
    stage.occupy(&[0]);
    let wakee = stage.task(1);
    stage.start(wakee, 1);
    stage.sleep(1);
    stage.pass(20_000);
    let wakeup = stage.wake(0, wakee, 0);
    stage.pass(9000);
    stage.sleep(0);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("stacked-pull"));
}

#[test]
fn prev() {
    let mut stage = two();
    stage.occupy(&[0, 1]);
    let wakee = stage.task(1);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), ["affinity", "prev"]);
}

#[test]
fn preempted_beside_idle_cpus() {
    let mut stage = two();
    let first = stage.occupy(&[0])[0];
    let other = stage.task(0);
    stage.wake(0, other, 0);
    stage.run(0, other);
    stage.pass(9000);
    stage.sleep(0);
    let played = stage.end();
    let pid = played.sim.notes.tasks[first].pid;
    let wait = played
        .waits
        .iter()
        .find(|w| w.pid == pid && w.origin == "preempted");
    assert_eq!(wait.expect("a wait").verdicts, ["affinity", "prev"]);
}

#[test]
fn other() {
    let mut stage = two();
    stage.occupy(&[0, 2]);
    let wakee = stage.task(1);
    stage.start(wakee, 1);
    stage.sleep(1);
    stage.pass(20_000);
    let wakeup = stage.wake(0, wakee, 2);
    stage.pass(9000);
    stage.sleep(2);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("other"));
}

#[test]
fn other_llc_where_the_waker_is() {
    let mut stage = two();
    stage.occupy(&[0, 1, 2, 3, 4]);
    let wakee = stage.task(1);
    let wakeup = stage.wake(4, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), ["affinity", "other-llc"]);
}

#[test]
fn other_llc_where_it_was() {
    let mut stage = two();
    stage.occupy(&[0, 1, 2, 3]);
    let wakee = stage.task(5);
    stage.start(wakee, 5);
    stage.sleep(5);
    stage.pass(20_000);
    let wakeup = stage.wake(0, wakee, 0);
    stage.pass(9000);
    stage.sleep(0);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("other-llc"));
}

/// The only idle CPU is taken within the time to settle.
#[test]
fn raced_by_another() {
    let mut stage = Stage::on(V6_12, ONE);
    stage.occupy(&[0, 1, 3]);
    let (wakee, quick) = (stage.task(1), stage.task(2));
    let wakeup = stage.wake(0, wakee, 1);
    stage.wake(3, quick, 2);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), ["affinity", "raced"]);
}

/// The only idle CPU became so just before.
#[test]
fn raced_with_a_cpu_that_just_fell_idle() {
    let mut stage = Stage::on(V6_12, ONE);
    stage.occupy(&[0, 1, 2, 3]);
    stage.sleep(2);
    stage.pass(3000);
    let wakee = stage.task(1);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), ["affinity", "raced"]);
}

/// The chosen CPU was idle, but took another task first: no other CPU had to be allowed for that.
#[test]
fn raced_to_a_good_choice() {
    let mut stage = two();
    stage.occupy(&[0, 2]);
    let (wakee, quick) = (stage.confined(vec![1]), stage.task(1));
    stage.sim.plan.landing_ns = (9000, 9001);
    let wakeup = stage.wake_one_then_another((0, wakee), (2, quick), 1, 1);
    stage.run(1, quick);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("raced"));
}

#[test]
fn late_idle() {
    let mut stage = Stage::on(V6_12, ONE);
    stage.occupy(&[0, 1, 2, 3]);
    let wakee = stage.task(1);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(2);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), ["saturated", "late-idle"]);
}

#[test]
fn saturated() {
    let mut stage = Stage::on(V6_12, ONE);
    stage.occupy(&[0, 1, 2, 3]);
    let wakee = stage.task(1);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("saturated"));
}

/// A wakeup is on its way to the only other CPU, and lands there: at no time is that CPU idle.
#[test]
fn saturated_though_a_wakeup_lands() {
    let mut stage = Stage::on(V6_12, Shape::new(1, 1, 2, 1, 1));
    stage.sim.plan.landing_ns = (9000, 9001);
    stage.occupy(&[0]);
    let (wakee, other) = (stage.task(0), stage.task(1));
    let wakeup = stage.wake_one_then_another((0, other), (0, wakee), 1, 0) + 1;
    stage.run(1, other);
    stage.pass(9000);
    stage.sleep(0);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("saturated"));
}

#[test]
fn affinity() {
    let mut stage = two();
    stage.occupy(&[0, 1]);
    let wakee = stage.confined(vec![1]);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("affinity"));
}

/// One CPU more is allowed, and idle.
#[test]
fn no_affinity_where_an_allowed_cpu_is_idle() {
    let mut stage = two();
    stage.occupy(&[0, 1]);
    let wakee = stage.confined(vec![1, 2]);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), BOTH("prev"));
}

#[test]
fn policy() {
    let mut stage = two();
    stage.occupy(&[0, 1]);
    let wakee = stage.real_time(1);
    let wakeup = stage.wake(0, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    assert_eq!(stage.end().verdicts(wakeup), ["affinity", "policy"]);
}

#[test]
fn kthread_stack() {
    for (kernel, verdict) in [
        (V6_12, "kthread-stack"),
        (super::kernels::V5_2, "stacked-prev"),
    ] {
        let mut stage = Stage::on(kernel, TWO);
        let thread = stage.thread_of(0);
        stage.start(thread, 0);
        let wakee = stage.task(0);
        let wakeup = stage.wake(0, wakee, 0);
        stage.pass(9000);
        stage.sleep(0);
        assert_eq!(stage.end().verdicts(wakeup), ["affinity", verdict]);
    }
}

/// A task blocks, stays queued, and is woken where it is from the other LLC.
#[test]
fn no_selection_of_a_delayed_task() {
    let mut stage = two();
    stage.occupy(&[1, 4]);
    let wakee = stage.task(1);
    stage.wake(1, wakee, 1);
    stage.run(1, wakee);
    stage.pass(2000);
    stage.sleep(1);
    stage.sim.tasks[wakee].delayed = true;
    stage.sim.cpus[1].delayed = vec![wakee];
    stage.pass(9000);
    let wakeup = stage.wake(4, wakee, 1);
    stage.pass(9000);
    stage.sleep(1);
    let played = stage.end();
    assert_eq!(played.wakeups[wakeup].class, "delayed");
    assert_eq!(played.verdicts(wakeup), BOTH("no-selection"));
}

/// A wakeup finds its wakee on its way off its CPU.
#[test]
fn no_selection_of_a_task_that_leaves() {
    let mut stage = two();
    let tasks = stage.occupy(&[0, 1]);
    let behind = stage.task(1);
    stage.wake(1, behind, 1);
    let wakee = tasks[1];
    stage.sim.wake_leaving(0, wakee);
    let wakeup = stage.sim.notes.wakeups.len() - 1;
    stage.pass(100);
    stage.sleep(1);
    stage.drain();
    stage.pass(9000);
    let played = stage.end();
    assert_eq!(played.wakeups[wakeup].class, "queued");
    assert_eq!(played.verdicts(wakeup), BOTH("no-selection"));
}

fn path_of(played: &Played, wakeup: usize) -> (&'static str, Option<&'static str>) {
    (played.wakeups[wakeup].class, played.wakeups[wakeup].path)
}

#[test]
fn roads_to_idle_cpus() {
    for (polling, path) in [(false, "queued-ipi"), (true, "queued-polling")] {
        let mut stage = two();
        stage.occupy(&[0]);
        stage.sim.cpus[1].polling = polling;
        let wakee = stage.task(1);
        let wakeup = stage.wake(0, wakee, 1);
        assert_eq!(path_of(&stage.end(), wakeup), ("queued", Some(path)));
    }
    // Before 6.0 an LLC's own are enqueued by the waker.
    for (polling, path) in [(false, None), (true, Some("direct-no-ipi"))] {
        let mut stage = Stage::on(V5_10, TWO);
        stage.occupy(&[0]);
        stage.sim.cpus[1].polling = polling;
        let wakee = stage.task(1);
        let wakeup = stage.wake(0, wakee, 1);
        assert_eq!(path_of(&stage.end(), wakeup), ("direct", path));
    }
}

#[test]
fn a_list_that_is_not_empty_needs_no_interrupt() {
    let mut stage = two();
    stage.sim.plan.landing_ns = (9000, 9001);
    stage.occupy(&[0, 2]);
    stage.sim.cpus[5].polling = false;
    let (first, second) = (stage.task(5), stage.task(5));
    let ahead = stage.wake_one_then_another((0, first), (2, second), 5, 5);
    let played = stage.end();
    assert_eq!(path_of(&played, ahead), ("queued", Some("queued-ipi")));
    assert_eq!(
        path_of(&played, ahead + 1),
        ("queued", Some("queued-coalesced"))
    );
}

impl Stage {
    fn wake_one_then_another(
        &mut self,
        (cpu, task): (usize, usize),
        (cpu2, task2): (usize, usize),
        to: usize,
        to2: usize,
    ) -> usize {
        let first = self.begin_wake(cpu, task, to);
        // The first one is listed by then, and has not landed.
        let until = self.sim.now + 3000;
        while self.sim.now < until && self.sim.cpus[to].list.is_empty() {
            self.sim.go_on();
        }
        self.begin_wake(cpu2, task2, to2);
        self.drain();
        first
    }
}

#[test]
fn roads_to_busy_cpus() {
    for (preempts, path) in [(true, "direct-ipi"), (false, "direct-no-ipi")] {
        let mut stage = two();
        stage.sim.plan.preempts = Some(preempts);
        stage.occupy(&[0, 1]);
        let wakee = stage.task(2);
        let wakeup = stage.wake(0, wakee, 1);
        assert_eq!(path_of(&stage.end(), wakeup), ("direct", Some(path)));
    }
    // Across LLCs it is queued all the same.
    let mut stage = two();
    stage.occupy(&[0, 5]);
    let wakee = stage.task(5);
    let wakeup = stage.wake(0, wakee, 5);
    assert_eq!(
        path_of(&stage.end(), wakeup),
        ("queued", Some("queued-ipi"))
    );
    let mut stage = two();
    stage.occupy(&[0]);
    let wakee = stage.task(0);
    let wakeup = stage.wake(0, wakee, 0);
    assert_eq!(path_of(&stage.end(), wakeup), ("local", Some("local")));
}

/// A task that waits or runs is woken: nothing is chosen, and nothing waits anew.
#[test]
fn wakeups_in_place() {
    for kernel in super::kernels::KERNELS {
        let mut stage = Stage::on(kernel, TWO);
        let tasks = stage.occupy(&[0, 1]);
        stage.sim.wake_itself(0, tasks[0]);
        stage.pass(500);
        stage.sim.wake_in_place(0, tasks[1]);
        let by = stage.task(1);
        stage.wake(1, by, 1);
        stage.run(1, by);
        stage.pass(500);
        // Preempted, it is on its queue.
        stage.sim.wake_in_place(0, tasks[1]);
        stage.pass(9000);
        stage.sleep(1);
        let played = stage.end();
        let first = if kernel.self_shortcut() {
            "self"
        } else {
            "fast_path"
        };
        let classes: Vec<&str> = played.wakeups.iter().map(|w| w.class).collect();
        let count = |class: &str| classes.iter().filter(|c| **c == class).count();
        assert_eq!(
            count(first).min(1) + count("fast_path").min(2),
            3,
            "{kernel:?} {classes:?}"
        );
    }
}

#[test]
fn wakers_of_every_kind() {
    type Doing = fn() -> Vec<Phase>;
    let kinds: [(Doing, &[&str]); 4] = [
        (inline_softirq, &["softirq_inline"]),
        (interrupt_with_softirq, &["hardirq", "softirq_irq_exit"]),
        (
            || vec![Phase::NmiEntry, Phase::Wake, Phase::NmiExit],
            &["nmi"],
        ),
        (|| vec![Phase::Wake], &["task"]),
    ];
    for kernel in [V5_10, V6_1, V6_12] {
        for (doing, contexts) in kinds {
            let mut stage = Stage::on(kernel, TWO);
            let waker = stage.occupy(&[0])[0];
            let before = stage.sim.notes.wakeups.len();
            // These sleep, and are the only ones beside the kernel's threads.
            stage.task(0);
            stage.task(1);
            stage.sim.begin(0, doing());
            stage.drain();
            let played = stage.end();
            let found: Vec<&str> = played.wakeups[before..].iter().map(|w| w.context).collect();
            assert_eq!(found, contexts, "{kernel:?}");
            let pid = played.sim.notes.tasks[waker].pid;
            for wakeup in &played.wakeups[before..] {
                let interrupt = ["hardirq", "nmi"].contains(&wakeup.context);
                assert_eq!(wakeup.waker, (!interrupt).then_some(pid));
            }
        }
    }
}

/// A queue's task on a throttled CPU is withheld: it neither waits nor is it lost.
#[test]
fn throttled() {
    let mut stage = two();
    let task = stage.occupy(&[0])[0];
    let behind = stage.task(0);
    stage.wake(0, behind, 0);
    stage.pass(9000);
    stage.sim.switch(0, Left::Runnable, None);
    stage.pass(30_000);
    stage.run(0, task);
    let played = stage.end();
    let withheld = |t: usize| {
        let pid = played.sim.notes.tasks[t].pid;
        let row = played.rows.tasks.iter().find(|row| row.pid == pid);
        row.map_or((0, 0), |row| (row.withheld, row.withheld_ns))
    };
    assert_eq!(withheld(task), (1, 30_001));
    assert_eq!(withheld(behind).0, 1);
    let pid = played.sim.notes.tasks[behind].pid;
    let wait = played
        .waits
        .iter()
        .find(|wait| wait.pid == pid)
        .expect("a wait");
    assert_eq!(wait.end, None);
}

/// Each way to be moved, and what a report calls it.
#[test]
fn moves_by_every_cause() {
    let kind = |played: &Played, cause: Cause| {
        let moves = &played.sim.notes.moves;
        let of: Vec<_> = moves.iter().filter(|m| m.cause == cause).collect();
        assert_eq!(of.len(), 1, "{cause:?}");
        let row = played.rows.migrations.iter().find(|m| m.ts_ns == of[0].ts);
        row.expect("a row").kind.as_str()
    };
    // A CPU about to run nothing pulls what waits on another.
    let mut stage = two();
    stage.occupy(&[0, 1]);
    let waits = stage.task(0);
    stage.wake(0, waits, 0);
    stage.pass(3000);
    stage.sim.sleep_and_pull(1);
    assert_eq!(kind(&stage.end(), Cause::NewIdle), "runnable");
    // The balancer's soft interrupt does.
    let mut stage = two();
    stage.occupy(&[0, 1]);
    let waits = stage.task(0);
    stage.wake(0, waits, 0);
    stage.pass(3000);
    stage.sim.begin(1, balancing(Phase::Balance));
    stage.drain();
    assert_eq!(kind(&stage.end(), Cause::Periodic), "runnable");
    // It has a stopper push what runs.
    let mut stage = two();
    stage.occupy(&[0]);
    stage.sim.begin(5, balancing(Phase::ActiveBalance));
    stage.drain();
    stage.let_the_stopper_work(0);
    let played = stage.end();
    assert_eq!(kind(&played, Cause::Active), "stopper");
    assert!(played.waits.iter().any(|wait| wait.origin == "balanced"));
    // The task has itself moved.
    for (phase, cause) in [
        (Phase::MoveForNuma, Cause::Numa),
        (Phase::MoveForExec, Cause::Exec),
    ] {
        let mut stage = two();
        stage.occupy(&[0]);
        stage.sim.begin(0, [phase]);
        stage.drain();
        stage.let_the_stopper_work(0);
        assert_eq!(kind(&stage.end(), cause), "stopper");
    }
}

impl Stage {
    /// The stopper of a CPU takes it, does what it was woken for, and sleeps.
    fn let_the_stopper_work(&mut self, cpu: usize) {
        let stopper = self.sim.stoppers[cpu];
        self.pass(300);
        self.sim.switch(cpu, Left::Preempted, Some(stopper));
        self.pass(800);
        self.sim.stop(cpu);
        self.pass(200);
        self.sleep(cpu);
        self.pass(3000);
    }
}
