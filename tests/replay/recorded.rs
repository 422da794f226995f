//! What the recorder puts into a trace, by hand-worked traces: masks as of the start, its own threads, its markers, and
//! what its probes fetch.

use crate::support::Rows;
use crate::support::script::Script;
use ttwu::replay::survey::Survey;
use ttwu::replay::words::{LedgerRow, Origin, Reading, Verdict};
use ttwu_parsers::event::Payload;

/// One LLC of four cores of one thread.
const FOUR: &str = "llc=0-3 smt=0;1;2;3 node=0-3 online=0-3";

/// CPU 0 runs 10; 20 leaves CPU 1 to 11 at 200; CPU 2 runs nothing, CPU 3 runs 13.
const START: &str = "
    0 0 10 other
    0 1 20 other
    0 2 0  other
    0 3 13 other
    200 1 20 switch 20:S 11
";

/// 10 wakes 20, which is left on busy CPU 1 although CPU 2 runs nothing, and waits from 1010 to 2000.
const LEFT: &str = "
    1000 0 10 waking 20 prev=1
    1010 0 10 wakeup 20 to=1
    2000 1 11 switch 11:D 20
    2500 1 20 switch 20:S 0
    3000 0 10 other
";

fn script(text: &str) -> Script {
    let mut script = Script::new(FOUR, &format!("{START}{text}"));
    script.version = (6, 8);
    script
}

/// As [`script`], 20 being allowed on these CPUs at the start.
fn allowed(mask: &[u32], text: &str) -> Script {
    let mut script = script(text);
    script.snapshot.allow([20], mask);
    script
}

/// Verdict and lost time of the wait that began then, each as `[seen, any]`.
#[track_caller]
fn check(rows: &Rows, start: i64, verdict: [Verdict; 2], lost_ns: [i64; 2]) {
    let wait = rows.wait_at(start);
    assert_eq!((wait.verdict.0, wait.lost_ns.0), (verdict, lost_ns));
}

const UNKNOWN: ([Verdict; 2], [i64; 2]) = ([Verdict::Affinity, Verdict::Prev], [0, 990]);

#[test]
fn a_recorded_mask_makes_an_ambiguous_wait_exact() {
    let (rows, _) = script(LEFT).run();
    check(&rows, 1010, UNKNOWN.0, UNKNOWN.1);
    // CPU 2 was allowed: passed over. It was not: not its loss, though CPU 3 would have done. Everything was.
    let (rows, counts) = allowed(&[1, 2], LEFT).run();
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    assert_eq!(counts.masks_refuted, 0);
    let (rows, _) = allowed(&[1, 3], LEFT).run();
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
    assert_eq!(rows.woken_at(1000).selection, Some(true));
    let (rows, _) = allowed(&[0, 1, 2, 3], LEFT).run();
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    for reading in [Reading::Seen, Reading::Any] {
        assert_eq!(rows.cell(reading, 2, LedgerRow::WaitingLlcCore), 990);
    }
    // A mask is where it may run, not where it was seen.
    assert_eq!(rows.pid(20).seen_cpus, 1);
    // Pinned: no CPU was searched for it.
    let (rows, _) = allowed(&[1], LEFT).run();
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
    assert_eq!(rows.woken_at(1000).selection, Some(false));
}

#[test]
fn cpus_that_the_trace_lacks_count_for_nothing() {
    let (rows, _) = allowed(&[1, 2, 8, 9], LEFT).run();
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    let (rows, _) = allowed(&[8, 9], LEFT).run();
    check(&rows, 1010, UNKNOWN.0, UNKNOWN.1);
}

#[test]
fn a_change_of_affinity_ends_what_was_recorded() {
    let changed = |line: &str| {
        let (rows, counts) = allowed(&[1, 2], &format!("{line}{LEFT}")).run();
        assert_eq!(counts.masks_refuted, 0);
        rows
    };
    // By another task before the wait; 11 sets only its own.
    let rows = changed("300 0 10 setaffinity 20");
    check(&rows, 1010, UNKNOWN.0, UNKNOWN.1);
    let rows = changed("300 1 11 setaffinity 0");
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    // After the wait: too late to matter.
    let after = "2600 0 10 setaffinity 20";
    let (rows, _) = allowed(&[1, 2], &LEFT.replace("3000 0 10 other", after)).run();
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
}

#[test]
fn a_stopper_that_the_task_woke_carries_out_its_change() {
    // 20 asks for another mask on CPU 1: it wakes the stopper there, which moves it to CPU 3.
    let moved = "
        name 99 migration/1 0
        0 0 10 other
        0 1 20 other
        0 2 0  other
        0 3 13 other
        100 1 20 waking 99 prev=1
        101 1 20 wakeup 99 to=1
        102 1 20 switch 20:R+ 99
        103 1 99 migrate 20 1 3
        104 1 99 switch 99:S 11
        200 3 13 switch 13:S 20
        300 3 20 switch 20:S 13
        1000 0 10 waking 20 prev=3
        1010 0 10 wakeup 20 to=3
        2000 3 13 switch 13:D 20
        3000 0 10 other";
    let mut script = Script::new(FOUR, moved);
    script.version = (6, 8);
    script.snapshot.allow([20], &[1, 2]);
    let (rows, counts) = script.run();
    check(&rows, 1010, UNKNOWN.0, UNKNOWN.1);
    assert_eq!(counts.masks_refuted, 0, "it changed: nothing was wrong");
}

#[test]
fn a_child_inherits_a_known_mask_until_its_own_change() {
    // 20 forks 30, which sleeps, and is left on busy CPU 1.
    let forked = |line: &str| {
        format!(
            "0 0 10 other
             0 1 20 other
             0 2 0  other
             0 3 13 other
             100 1 20 fork 30
             110 1 20 new 30 to=1
             200 1 20 switch 20:S 30
             300 1 30 switch 30:S 11
             {line}
             1000 0 10 waking 30 prev=1
             1010 0 10 wakeup 30 to=1
             2000 1 11 switch 11:D 30
             3000 0 10 other"
        )
    };
    let run = |tid: i32, line: &str| {
        let mut script = Script::new(FOUR, &forked(line));
        script.version = (6, 8);
        script.snapshot.allow([tid], &[1, 2]);
        script.run().0
    };
    check(&run(20, ""), 1010, [Verdict::Prev; 2], [990, 990]);
    let own = run(20, "400 0 10 setaffinity 30");
    check(&own, 1010, UNKNOWN.0, UNKNOWN.1);
    // Its parent's later change is not its own.
    let parents = run(20, "400 0 10 setaffinity 20");
    check(&parents, 1010, [Verdict::Prev; 2], [990, 990]);
    // A mask recorded of a pid that was started anew was another task's.
    check(&run(30, ""), 1010, UNKNOWN.0, UNKNOWN.1);
}

#[test]
fn children_of_kthreadd_set_their_own_masks() {
    let text = "
        0 0 10 other
        0 1 2  other
        0 2 0  other
        0 3 13 other
        100 1 2 fork 30
        110 1 2 new 30 to=1
        200 1 2 switch 2:S 30
        300 1 30 switch 30:S 11
        1000 0 10 waking 30 prev=1
        1010 0 10 wakeup 30 to=1
        2000 1 11 switch 11:D 30
        3100 0 10 other";
    let mut script = Script::new(FOUR, text);
    script.version = (6, 8);
    script.snapshot.allow([2], &[1, 2]);
    check(&script.run().0, 1010, UNKNOWN.0, UNKNOWN.1);
}

#[test]
fn exec_in_a_thread_takes_its_mask_along() {
    // Thread 21 of process 20 executes another program: it goes on as 20.
    let text = "
        0 0 10 other
        0 1 21 other
        0 2 0  other
        0 3 13 other
        100 1 21 exec 20 21
        200 1 20 switch 20:S 11
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1
        2000 1 11 switch 11:D 20
        3000 0 10 other";
    let run = |thread: &[u32], leader: &[u32]| {
        let mut script = Script::new(FOUR, text);
        script.version = (6, 8);
        script.snapshot.allow([21], thread);
        script.snapshot.allow([20], leader);
        script.run().0
    };
    let rows = run(&[1, 2], &[1, 3]);
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    let rows = run(&[1, 3], &[1, 2]);
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
}

#[test]
fn a_task_seen_elsewhere_refutes_its_mask_from_there_on() {
    // After the wait it runs on CPU 2, where it was not allowed; then it waits once more, CPU 1 being idle.
    let elsewhere = "
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1
        2000 1 11 switch 11:S 20
        2500 1 20 switch 20:S 0
        2600 0 10 waking 20 prev=1
        2601 0 10 migrate 20 1 2
        2602 2 0/h wakeup 20 to=2
        2610 2 0 switch 0:R 20
        2700 2 20 switch 20:S 12
        3000 0 10 waking 20 prev=2
        3010 0 10 wakeup 20 to=2
        4000 2 12 switch 12:D 20
        5000 0 10 other";
    let (rows, counts) = allowed(&[1], elsewhere).run();
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
    assert_eq!(counts.masks_refuted, 1);
    // Known to be wrong now: seen on CPUs 1 and 2, so CPU 1 would have done by both readings.
    check(&rows, 3010, [Verdict::Prev; 2], [990, 990]);
    let (rows, counts) = script(elsewhere).run();
    assert_eq!(counts.masks_refuted, 0);
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
}

/// The recorder, 20, waits from 1010 to 2000, and wakes 30 meanwhile waiting on CPU 3.
const RECORDING: &str = "
    1000 0 10 waking 20 prev=1
    1010 0 10 wakeup 20 to=1
    2000 1 11 switch 11:D 20
    2100 1 20 fork 40
    2110 1 20 new 40 to=1
    2200 1 20 waking 30 prev=3
    2210 1 20 wakeup 30 to=3
    2500 1 20 switch 20:S 40
    2600 3 13 switch 13:S 30
    2700 1 40 switch 40:R+ 20
    2800 1 20 switch 20:S 40
    3000 0 10 other
";

#[test]
fn waits_of_the_recorder_are_nobodys_fault() {
    let mut script = script(RECORDING);
    let (all, before) = script.run();
    script.snapshot.name_recorder([20, 77]);
    let (rows, counts) = script.run();
    let recorder = rows.pid(20);
    assert!(recorder.recorder);
    check(&rows, 1010, [Verdict::Recorder; 2], [0, 990]);
    // What others waited for keeps its verdict, whoever woke them; and so do the tasks it starts.
    // CPU 2 is shared with 40 until 2500: half of 290, and 100 alone.
    check(&rows, 2210, UNKNOWN.0, [0, 245]);
    assert!(!rows.pid(40).recorder && !rows.pid(30).recorder);
    assert_ne!(rows.wait_at(2110).verdict[Reading::Any], Verdict::Recorder);
    // Every wait and every nanosecond is still there.
    let lost = |rows: &Rows| {
        let lost = rows
            .waits
            .iter()
            .map(|w| (w.start_ns, w.wait_ns, w.lost_ns));
        (lost.collect::<Vec<_>>(), rows.cpus.clone())
    };
    assert_eq!(lost(&rows), lost(&all));
    assert_eq!(rows.wakeups.len(), all.wakeups.len());
    // It ran 0 to 200, 2000 to 2500 and 2700 to 2800; was woken once and woke twice; waited once.
    let of_recorder = counts.recorder;
    assert_eq!((of_recorder.tasks, of_recorder.running_ns), (1, 800));
    assert_eq!((of_recorder.wakeups, of_recorder.waits), (3, 1));
    assert_eq!(before.recorder.tasks, 0);
    // As any other task: still told apart, but judged.
    script.include_recorder = true;
    let (rows, included) = script.run();
    check(&rows, 1010, UNKNOWN.0, UNKNOWN.1);
    assert_eq!(included.recorder, of_recorder);
}

/// The machine record before and after, 6 writing on CPU 1.
const RECORD: &str = "
    10 1 6 mark ttwu machine release 6.12
    20 1 6 mark ttwu threads mask=0-3 tids=6,10,20
    25 1 6 mark ttwu+ ,30
    100 0 10 other
    110 1 0  other
    120 1 0  mark phase one
    300 1 0  mark ttwu topology llc=0-1
    900 0 10 other
    950 1 6 mark ttwu lost cpu=0 events=1
    960 0 6 mark ttwu result wall_ns=5 exit=0
";

#[test]
fn the_machine_record_is_no_part_of_what_went_on() {
    let script = Script::new("llc=0-1 smt=0;1", RECORD);
    let survey = Survey::of_events(&script.events, 1);
    assert_eq!(survey.span, Some((100, 900)));
    assert_eq!(survey.events, 10, "they are in the file all the same");
    let lines: Vec<&str> = survey
        .record_lines
        .iter()
        .map(|(_, l)| l.as_str())
        .collect();
    assert_eq!(
        lines[1..3],
        ["ttwu threads mask=0-3 tids=6,10,20", "ttwu+ ,30"]
    );
    assert_eq!(lines.len(), 6);
    assert_eq!(survey.markers, [(120, "phase one".to_owned())]);
    let firsts: Vec<_> = survey
        .cpus
        .iter()
        .map(|c| (c.first_pid, c.first_ns, c.last_ns))
        .collect();
    assert_eq!(firsts, [(10, 100, 900), (0, 110, 120)]);
    // Not seen to run: it wrote before and after.
    assert!(!survey.sightings.contains_key(&6));

    let (rows, counts) = script.run();
    assert!(rows.tasks.iter().all(|task| task.pid != 6));
    assert_eq!(rows.pid(10).run_ns, 800);
    assert_eq!(rows.cell(Reading::Any, 1, LedgerRow::Idle), 800);
    assert_eq!(counts.backward_stamps, 0);
}

#[test]
fn many_markers_do_not_push_out_the_record() {
    let mut script = Script::new("", "0 0 1 mark x\n9 0 1 mark ttwu result wall_ns=5 exit=0");
    let user = script.events[0].clone();
    script
        .events
        .splice(0..0, std::iter::repeat_n(user, 70_000));
    let survey = Survey::of_events(&script.events, 1);
    assert_eq!(
        (survey.markers.len(), survey.record_lines.len()),
        (65_536, 1)
    );
}

/// 20 is chosen for; the probe shows what `with` says.
fn probed(with: &str) -> Script {
    script(&format!(
        "1000 0 10 waking 20 prev=1
         1002 0 10 sel 20 prev=1 {with}
         1004 0 10 selret 1
         1010 0 10 wakeup 20 to=1
         2000 1 11 switch 11:D 20
         2100 1 20 switch 20:R+ 11
         2500 1 11 switch 11:S 20
         3000 0 10 other"
    ))
}

#[test]
fn a_probed_mask_holds_for_its_wakeup_alone() {
    // CPUs 1 and 2 allowed; CPUs 1 and 3.
    let (rows, counts) = probed("nr=2 mask=6").run();
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    assert_eq!((counts.probes_checked, counts.probes_masks), (1, 1));
    let (rows, _) = probed("nr=2 mask=10").run();
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
    // Preempted later, it may be pinned by then: two readings.
    let later = rows.wait_at(2100);
    assert_eq!(later.origin, Origin::Preempted);
    assert_eq!(later.lost_ns.0, [0, 400]);
    // Without the mask its size says nothing of several CPUs.
    let (rows, counts) = probed("nr=2").run();
    check(&rows, 1010, UNKNOWN.0, UNKNOWN.1);
    assert_eq!(counts.probes_masks, 0);
}

#[test]
fn a_probed_mask_comes_before_a_recorded_one() {
    let mut script = probed("nr=2 mask=6");
    script.snapshot.allow([20], &[1, 3]);
    let (rows, _) = script.run();
    check(&rows, 1010, [Verdict::Prev; 2], [990, 990]);
    // And when its wakeup is over, the recorded one counts again.
    assert_eq!(rows.wait_at(2100).lost_ns.0, [0, 0]);
}

#[test]
fn without_a_selection_a_task_that_may_run_elsewhere_was_held_for_once() {
    // Another task's selection shows that probes are on. 20 is woken without: pinned.
    let text = "
        300 0 10 waking 31 prev=3
        301 0 10 sel 31 prev=3 nr=4
        302 0 10 selret 3
        303 0 10 wakeup 31 to=3
        400 3 13 switch 13:D 31
        500 3 31 switch 31:S 13
        1000 0 10 waking 20 prev=1
        1010 0 10 wakeup 20 to=1
        2000 1 11 switch 11:D 20
        2100 1 20 switch 20:R+ 11
        2500 1 11 switch 11:S 20
        3000 0 10 other";
    let (rows, _) = script(text).run();
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
    assert_eq!(rows.wait_at(2100).lost_ns.0, [0, 0]);
    // By its mask it may run elsewhere: its migration was disabled then, and may not be later.
    let (rows, _) = allowed(&[1, 2], text).run();
    check(&rows, 1010, [Verdict::Affinity; 2], [0, 0]);
    assert_eq!(rows.wait_at(2100).lost_ns.0, [400, 400]);
}

#[test]
fn the_kernels_own_values_are_in_the_rows() {
    let of = |with: &str, version| {
        let mut script = probed(with);
        script.version = version;
        let (rows, counts) = script.run();
        let wakeup = rows.woken_at(1000);
        (
            wakeup.sync,
            wakeup.flips,
            counts.probes_sync,
            counts.probes_flips_max,
        )
    };
    // WF_TTWU alone, and with WF_SYNC.
    assert_eq!(
        of("nr=4 flags=8 flips=3", (6, 8)),
        (Some(false), Some(3), Some(0), Some(3))
    );
    assert_eq!(
        of("nr=4 flags=24 flips=17", (6, 8)),
        (Some(true), Some(17), Some(1), Some(17))
    );
    // Before 5.11 the flags were others; and a kernel need not show the flips.
    assert_eq!(of("nr=4 flags=24", (5, 10)), (None, None, None, None));
    let (rows, _) = script(LEFT).run();
    assert_eq!(
        (rows.woken_at(1000).sync, rows.woken_at(1000).flips),
        (None, None)
    );
}

#[test]
fn lines_of_the_record_are_told_by_their_start() {
    let marker = |text: &str| Payload::Marker(text.as_bytes().into());
    for (text, of_record) in [
        ("ttwu machine hz 250", true),
        ("ttwu+ rest", true),
        ("ttwu", false),
        ("ttwu-lab start", false),
        (" ttwu machine", false),
    ] {
        assert_eq!(marker(text).is_record_line(), of_record, "{text}");
    }
    assert!(!Payload::Other.is_record_line());
}
