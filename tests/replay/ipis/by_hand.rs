//! Interrupts whose every figure is worked out by hand.

use crate::support::Rows;
use crate::support::script::Script;
use ttwu::replay::rows::{FlushRow, IpiRow};
use ttwu::replay::words::{FlushReason, IpiFate, IpiKind, IpiRoad};
use ttwu::topology::Distance;

/// Two nodes; the first has two LLCs of two cores.
const MACHINE: &str = "llc=0-3;4-7;8-11 smt=0-1;2-3;4-5;6-7;8-9;10-11 node=0-7;8-11 online=0-11";

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

fn script(version: (u32, u32), middle: &str) -> Script {
    let mut script = Script::new(MACHINE, &format!("{START}{middle}{END}"));
    script.version = version;
    script
}

fn run(middle: &str) -> Rows {
    script((6, 12), middle).run().0
}

fn ipis(rows: &Rows, road: IpiRoad) -> Vec<&IpiRow> {
    let mut found: Vec<_> = rows.ipis.iter().filter(|row| row.road == road).collect();
    found.sort_by_key(|row| (row.ts_ns, row.target_cpu));
    found
}

fn sent(rows: &Rows) -> Vec<&IpiRow> {
    ipis(rows, IpiRoad::Interrupt)
}

fn only(rows: &Rows) -> &IpiRow {
    match sent(rows)[..] {
        [row] => row,
        ref other => panic!("{other:?}"),
    }
}

/// Kind, fate, latency, time in the handler, tasks enqueued.
type Told = (IpiKind, IpiFate, Option<i64>, Option<i64>, u32);

fn told(row: &IpiRow) -> Told {
    let IpiRow {
        kind,
        fate,
        latency_ns,
        handler_ns,
        wakeups,
        ..
    } = *row;
    (kind, fate, latency_ns, handler_ns, wakeups)
}

/// The pid of the task that a handler interrupted; `Err` where the CPU ran nothing, or it is not known.
fn interrupted(rows: &Rows, row: &IpiRow) -> Result<i32, Option<bool>> {
    let task = row.interrupted.ok_or(row.on_idle)?;
    let found = rows.tasks.iter().find(|t| t.task == task);
    Ok(found.expect("that task").pid)
}

/// Put on idle CPU 1's wake list at 1003, interrupted at 1004; CPU 1 enters at 1010 and leaves at 1016.
const QUEUED: &str = "
    1000 0 10 waking 20 prev=1
    1003 0 10 csd 1 fn=1 csd=5
    1004 0 10 ipi 1 cb=9 site=77
    1010 1 0/h vec single
    1011 1 0/h csd-in fn=1 csd=5
    1013 1 0/h wakeup 20 to=1
    1014 1 0/h csd-out fn=1 csd=5
    1016 1 0/h vec-end single
    1020 1 0 switch 0:R 20
    1900 1 20 switch 20:S 0";

#[test]
fn a_queued_wakeup_is_asked_for_by_list_and_interrupt() {
    let rows = run(QUEUED);
    let row = only(&rows);
    let handled = IpiFate::Handled;
    // The handler's six ns, less the three of the function on the list.
    assert_eq!(told(row), (IpiKind::Wakeup, handled, Some(6), Some(3), 1));
    assert_eq!((row.cpu, row.target_cpu), (Some(0), 1));
    assert_eq!((row.callback, row.callsite), (1, 77));
    assert_eq!(row.distance, Distance::Smt);
    assert_eq!(interrupted(&rows, row), Err(Some(true)));
    let queue = ipis(&rows, IpiRoad::Queue);
    assert_eq!(queue.len(), 1);
    assert_eq!(
        told(queue[0]),
        (IpiKind::Wakeup, handled, Some(8), Some(3), 1)
    );
    assert_eq!(rows.ipis.len(), 2);
}

/// Without csd events and without symbols (as perf.data has none) the window between waking and wakeup tells.
#[test]
fn without_the_list_the_window_of_the_wakeup_tells() {
    let plain: String = QUEUED
        .lines()
        .filter(|line| !line.contains("csd"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut script = script((6, 12), &plain);
    script.symbols = false;
    let rows = script.run().0;
    assert_eq!(
        told(only(&rows)),
        (IpiKind::Wakeup, IpiFate::Handled, Some(6), Some(6), 1)
    );
    assert_eq!(only(&rows).callback, 9);
    // The same interrupt outside of the window is some call.
    let late = plain.replace("1004 0 10 ipi 1 cb=9 site=77\n", "").replace(
        "    1900",
        "    1800 0 10 ipi 1 cb=9\n    1810 1 20/h vec single\n    1830 1 20/h vec-end single\n    1900",
    );
    let mut script = crate::ipis::by_hand::script((6, 12), &late);
    script.symbols = false;
    let rows = script.run().0;
    assert_eq!(
        told(only(&rows)),
        (IpiKind::Call, IpiFate::Handled, Some(10), Some(20), 0)
    );
    assert_eq!(interrupted(&rows, only(&rows)), Ok(20));
}

/// Three wakeups on one list: one interrupt, which enqueues all three.
#[test]
fn coalesced_wakeups_share_an_interrupt() {
    let rows = run("
        200 0 10 new 21 to=0
        210 0 10 new 22 to=0
        220 0 10 switch 10:R 21
        230 0 21 switch 21:S 22
        240 0 22 switch 22:S 10
        1000 0 10 waking 20 prev=1
        1003 0 10 csd 1 fn=1 csd=5
        1004 0 10 ipi 1 cb=9
        1005 0 10 waking 21 prev=0
        1006 0 10 migrate 21 0 1
        1007 0 10 csd 1 fn=1 csd=6
        1008 2 12 waking 22 prev=0
        1009 2 12 migrate 22 0 1
        1010 2 12 csd 1 fn=1 csd=7
        1020 1 0/h vec single
        1021 1 0/h csd-in fn=1 csd=5
        1022 1 0/h wakeup 20 to=1
        1023 1 0/h wakeup 21 to=1
        1024 1 0/h wakeup 22 to=1
        1025 1 0/h csd-out fn=1 csd=5
        1026 1 0/h vec-end single
        1030 1 0 switch 0:R 20");
    assert_eq!(
        told(only(&rows)),
        (IpiKind::Wakeup, IpiFate::Handled, Some(16), Some(2), 3)
    );
    let queue = ipis(&rows, IpiRoad::Queue);
    let of = |row: &IpiRow| (row.cpu, row.fate, row.latency_ns, row.handler_ns);
    assert_eq!(
        queue.iter().map(|row| of(row)).collect::<Vec<_>>(),
        [
            (Some(0), IpiFate::Handled, Some(18), Some(4)),
            (Some(0), IpiFate::Coalesced, Some(14), None),
            (Some(2), IpiFate::Coalesced, Some(11), None),
        ]
    );
}

/// Two interrupts that meet one handler: an APIC keeps one bit for each vector.
#[test]
fn interrupts_that_meet_one_handler_are_coalesced() {
    let rows = run("
        1000 0 10 ipi 2
        1003 4 14 ipi 2
        1005 4 14 ipi 2 cb=9
        1010 2 12/h vec resched
        1012 2 12/h vec-end resched
        1020 2 12/h vec single
        1025 2 12/h vec-end single");
    let found: Vec<_> = sent(&rows).into_iter().map(told).collect();
    let resched = IpiKind::Reschedule;
    assert_eq!(
        found,
        [
            (resched, IpiFate::Handled, Some(10), Some(2), 0),
            (resched, IpiFate::Coalesced, Some(7), None, 0),
            (IpiKind::Call, IpiFate::Handled, Some(15), Some(5), 0),
        ]
    );
    let distances: Vec<_> = sent(&rows).iter().map(|row| row.distance).collect();
    assert_eq!(distances, [Distance::Llc, Distance::Node, Distance::Node]);
    assert_eq!(interrupted(&rows, sent(&rows)[0]), Ok(12));
}

#[test]
fn a_polling_cpu_is_not_interrupted() {
    let rows = run("
        1000 0 10 waking 20 prev=1
        1003 0 10 csd 1 fn=1 csd=5
        1004 0 10 poll 1
        1010 1 0 csd-in fn=1 csd=5
        1013 1 0 wakeup 20 to=1
        1014 1 0 csd-out fn=1 csd=5
        1020 1 0 switch 0:R 20
        1500 4 14 poll 8");
    assert_eq!(sent(&rows), [] as [&IpiRow; 0]);
    let polled = ipis(&rows, IpiRoad::Polled);
    let unknown = IpiFate::Unknown;
    let found: Vec<_> = polled.iter().map(|row| told(row)).collect();
    // For what the second CPU was asked nothing tells.
    assert_eq!(
        found,
        [
            (IpiKind::Wakeup, unknown, None, None, 0),
            (IpiKind::Other, unknown, None, None, 0)
        ]
    );
    // The time on the idle CPU is the function's.
    let queue = ipis(&rows, IpiRoad::Queue);
    assert_eq!(
        told(queue[0]),
        (IpiKind::Wakeup, IpiFate::Handled, Some(7), Some(4), 1)
    );
    assert_eq!(interrupted(&rows, queue[0]), Err(Some(true)));
}

#[test]
fn a_reschedule_is_a_wakeups_only_in_its_window() {
    let rows = run("
        1000 0 10 waking 20 prev=1
        1002 0 10 migrate 20 1 2
        1004 0 10 ipi 2
        1006 0 10 wakeup 20 to=2
        1008 2 12/h vec resched
        1011 2 12/h vec-end resched
        1012 2 12 switch 12:R 20
        1500 0 10/h ipi 2
        1600 0 10 ipi 4");
    let found: Vec<_> = sent(&rows).into_iter().map(told).collect();
    assert_eq!(
        found,
        [
            (
                IpiKind::WakeupReschedule,
                IpiFate::Handled,
                Some(4),
                Some(3),
                0
            ),
            // No handler follows before the trace's end.
            (IpiKind::Reschedule, IpiFate::Unanswered, None, None, 0),
            (IpiKind::Reschedule, IpiFate::Unanswered, None, None, 0),
        ]
    );
    assert_eq!(interrupted(&rows, sent(&rows)[0]), Ok(12));
    // A new task's interrupt follows its enqueue.
    let rows = run("
        1000 0 10 new 30 to=2
        1001 0 10 ipi 2
        1500 0 10 switch 10:R 11");
    assert_eq!(only(&rows).kind, IpiKind::WakeupReschedule);
}

/// An interrupt that the waker sends itself, to wake the trace's reader, is not the wakeup's.
#[test]
fn work_of_its_own_is_no_part_of_a_wakeup() {
    let rows = run(&QUEUED.replace("    1003", "    1001 0 10 ipi 0 cb=44\n    1003"));
    let kinds: Vec<_> = sent(&rows).iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [IpiKind::IrqWork, IpiKind::Wakeup]);
    let wakeup = rows.woken_at(1000);
    assert_eq!(wakeup.path, ttwu::replay::words::Path::QueuedIpi);
    assert_eq!(wakeup.waker_cost_ns, Some(4));
}

#[test]
fn to_itself_a_cpu_sends_work() {
    let rows = run("
        1000 0 10 ipi 0 cb=44
        1010 0 10/h vec single
        1012 0 10/h vec-end single");
    // Its vector is another: the handler that follows is not its own.
    assert_eq!(
        told(only(&rows)),
        (IpiKind::IrqWork, IpiFate::Unknown, None, None, 0)
    );
    assert_eq!(only(&rows).distance, Distance::Same);
    let alone = ipis(&rows, IpiRoad::Handler);
    assert_eq!(
        told(alone[0]),
        (IpiKind::Call, IpiFate::Handled, None, Some(2), 0)
    );
    assert_eq!((alone[0].cpu, alone[0].ts_ns), (None, 1010));
}

/// One call to three CPUs at three distances, each of which takes its time.
#[test]
fn a_call_to_many_is_one_row_for_each() {
    let rows = run("
        1000 0 10 csd 1 fn=50 csd=5
        1001 0 10 csd 4 fn=50 csd=6
        1002 0 10 csd 8 fn=50 csd=7
        1003 0 10 ipi-mask 1,4,8 cb=9
        1010 1 0/h vec many
        1011 4 14/h vec many
        1012 1 0/h vec-end many
        1013 8 0/h vec many
        1014 4 14/h csd-in fn=50 csd=6
        1018 4 14/h csd-out fn=50 csd=6
        1019 4 14/h vec-end many
        1020 8 0/h vec-end many");
    let found: Vec<_> = sent(&rows)
        .iter()
        .map(|row| (row.target_cpu, row.distance, row.latency_ns, row.handler_ns))
        .collect();
    assert_eq!(
        found,
        [
            (1, Distance::Smt, Some(7), Some(2)),
            (4, Distance::Node, Some(8), Some(4)),
            (8, Distance::Remote, Some(10), Some(7)),
        ]
    );
    assert!(
        sent(&rows)
            .iter()
            .all(|row| row.kind == IpiKind::Call && row.callback == 50)
    );
    let queue = ipis(&rows, IpiRoad::Queue);
    assert_eq!(
        queue.iter().map(|row| row.fate).collect::<Vec<_>>(),
        [IpiFate::Unanswered, IpiFate::Handled, IpiFate::Unanswered]
    );
}

/// A handler inside another: each nanosecond is one handler's.
#[test]
fn time_in_nested_handlers_counts_once() {
    let rows = run("
        1000 0 10 ipi 2 cb=9
        1001 4 14 ipi 2
        1010 2 12/h vec single
        1014 2 12/h vec resched
        1017 2 12/h vec-end resched
        1020 2 12/h vec-end single");
    let times: Vec<_> = sent(&rows).iter().map(|row| row.handler_ns).collect();
    assert_eq!(times, [Some(7), Some(3)]);
}

/// A handler whose end is missing has no time, and what follows has its own.
#[test]
fn a_handler_does_not_go_on_over_a_switch() {
    let rows = run("
        1000 0 10 ipi 2
        1010 2 12/h vec resched
        1020 2 12 switch 12:R 13
        1100 0 10 ipi 2
        1110 2 13/h vec resched
        1113 2 13/h vec-end resched");
    let found: Vec<_> = sent(&rows).into_iter().map(told).collect();
    assert_eq!(
        found,
        [
            (IpiKind::Reschedule, IpiFate::Handled, Some(10), None, 0),
            (IpiKind::Reschedule, IpiFate::Handled, Some(10), Some(3), 0)
        ]
    );
}

/// The target's events are missing from 1005 to 1100: nothing in there is matched, and nothing behind it by mistake.
#[test]
fn in_a_gap_nothing_is_matched() {
    let rows = run("
        1000 0 10 ipi 2
        1005 2 12 lost 3
        1050 0 10 ipi 2
        1100 2 12 lost-end
        1200 0 10 ipi 2
        1210 2 12/h vec resched
        1212 2 12/h vec-end resched");
    let found: Vec<_> = sent(&rows).into_iter().map(told).collect();
    let lost = (IpiKind::Reschedule, IpiFate::Lost, None, None, 0);
    assert_eq!(
        found,
        [
            lost,
            lost,
            (IpiKind::Reschedule, IpiFate::Handled, Some(10), Some(2), 0)
        ]
    );
}

/// 6.4 has a send for the queueing, whether or not an interrupt follows, and one for the interrupt.
#[test]
fn the_first_send_of_6_4_is_no_interrupt() {
    let middle = "
        1000 0 10 waking 20 prev=1
        1003 0 10 ipi 1 cb=1
        1004 0 10 ipi 1 cb=9
        1010 1 0/h vec single
        1013 1 0/h wakeup 20 to=1
        1016 1 0/h vec-end single
        1020 1 0 switch 0:R 20
        1100 0 10 ipi 4 cb=50
        1200 0 10 ipi-mask 2,4 cb=51
        1201 0 10 ipi-mask 2,4 cb=9
        1300 0 10 ipi 2";
    for symbols in [true, false] {
        let mut script = script((6, 4), middle);
        script.symbols = symbols;
        let rows = script.run().0;
        let found: Vec<_> = sent(&rows)
            .iter()
            .map(|row| (row.ts_ns, row.target_cpu, row.kind, row.callback))
            .collect();
        assert_eq!(
            found,
            [
                (1004, 1, IpiKind::Wakeup, 1),
                (1201, 2, IpiKind::Call, 51),
                (1201, 4, IpiKind::Call, 51),
                (1300, 2, IpiKind::Reschedule, 0),
            ]
        );
        let queue = ipis(&rows, IpiRoad::Queue);
        let found: Vec<_> = queue
            .iter()
            .map(|row| (row.ts_ns, row.target_cpu, row.kind, row.callback))
            .collect();
        assert_eq!(
            found,
            [
                (1003, 1, IpiKind::Wakeup, 1),
                (1100, 4, IpiKind::Call, 50),
                (1200, 2, IpiKind::Call, 51),
                (1200, 4, IpiKind::Call, 51),
            ]
        );
    }
}

/// Before 6.4 handlers alone are recorded: what they do tells what they were for.
#[test]
fn before_6_4_handlers_tell() {
    let rows = script(
        (6, 1),
        "
        1000 0 10 waking 20 prev=1
        1010 1 0/h vec single
        1013 1 0/h wakeup 20 to=1
        1016 1 0/h vec-end single
        1020 1 0 switch 0:R 20
        1100 2 12/h vec many
        1101 2 12/h tlb 1 5
        1103 2 12/h vec-end many
        1200 2 12/h vec resched
        1204 2 12/h vec-end resched
        1300 2 12/h vec single
        1305 2 12/h vec-end single",
    )
    .run()
    .0;
    assert_eq!(sent(&rows), [] as [&IpiRow; 0]);
    let alone = ipis(&rows, IpiRoad::Handler);
    let found: Vec<_> = alone
        .iter()
        .map(|row| (row.kind, row.handler_ns, row.wakeups))
        .collect();
    assert_eq!(
        found,
        [
            (IpiKind::Wakeup, Some(6), 1),
            (IpiKind::Tlb, Some(3), 0),
            (IpiKind::Reschedule, Some(4), 0),
            (IpiKind::Call, Some(5), 0),
        ]
    );
}

/// arm64's own events, before 6.4 and after, where generic code tells of the same interrupts.
#[test]
fn on_arm64_reasons_are_addresses_of_strings() {
    let middle = "
        1000 0 10 waking 20 prev=1
        1002 0 10 migrate 20 1 2
        SEND
        1005 0 10 ipi-raise 2 17
        1006 0 10 wakeup 20 to=2
        1008 2 12/h ipi-in 17
        1011 2 12/h ipi-out 17
        1012 2 12 switch 12:R 20
        1100 4 14 ipi-raise 0,1 18
        1105 0 10/h ipi-in 18
        1106 1 0/h ipi-in 18
        1107 0 10/h ipi-out 18
        1109 1 0/h ipi-out 18
        1200 4 14 ipi-raise 8 20
        1203 8 0/h ipi-in 20
        1204 8 0/h ipi-out 20";
    let told_all = |rows: &Rows| {
        let all = sent(rows);
        all.iter()
            .map(|row| (row.kind, row.target_cpu, row.latency_ns, row.handler_ns))
            .collect::<Vec<_>>()
    };
    let old = script((6, 1), &middle.replace("SEND", "")).run().0;
    // The resolver does not know `ipi_raise`: whether it was the wakeup's is not known.
    assert_eq!(
        told_all(&old),
        [
            (IpiKind::Reschedule, 2, Some(3), Some(3)),
            (IpiKind::Call, 0, Some(5), Some(2)),
            (IpiKind::Call, 1, Some(6), Some(3)),
            (IpiKind::Other, 8, Some(3), Some(1)),
        ]
    );
    let new = middle.replace("SEND", "1004 0 10 ipi 2").replace(
        "1100 4 14 ipi-raise",
        "1099 4 14 ipi-mask 0,1 cb=9\n1100 4 14 ipi-raise",
    );
    let new = script((6, 8), &new).run().0;
    assert_eq!(
        told_all(&new),
        [
            (IpiKind::WakeupReschedule, 2, Some(4), Some(3)),
            (IpiKind::Call, 0, Some(6), Some(2)),
            (IpiKind::Call, 1, Some(7), Some(3)),
            (IpiKind::Other, 8, Some(3), Some(1)),
        ]
    );
}

fn flush(rows: &Rows) -> &FlushRow {
    match &rows.flushes[..] {
        [row] => row,
        other => panic!("{other:?}"),
    }
}

/// 33 pages, flushed on CPUs 1 and 4, of which the latter is slower: acknowledged at 1030.
const SHOOTDOWN: &str = "
    1000 0 10 tlb 4 33
    1001 0 10 csd 1 fn=2 csd=5
    1002 0 10 csd 4 fn=2 csd=6
    1003 0 10 ipi-mask 1,4 cb=9
    1004 0 10 csd-in fn=2
    1005 0 10 tlb 3 33
    1006 0 10 csd-out fn=2
    1010 1 0/h vec many
    1011 1 0/h csd-in fn=2 csd=5
    1012 1 0/h tlb 1 33
    1013 1 0/h csd-out fn=2 csd=5
    1014 1 0/h vec-end many
    1020 4 14/h vec many
    1022 4 14/h csd-in fn=2 csd=6
    1026 4 14/h tlb 1 33
    1030 4 14/h csd-out fn=2 csd=6
    1031 4 14/h vec-end many";

#[test]
fn a_shootdown_waits_for_its_last_acknowledgement() {
    for symbols in [true, false] {
        let mut script = script((6, 12), SHOOTDOWN);
        script.symbols = symbols;
        let (rows, counts) = script.run();
        let row = flush(&rows);
        assert_eq!((row.ts_ns, row.cpu), (1000, 0));
        assert_eq!(row.reason, FlushReason::RemoteSend);
        assert_eq!((row.pages, row.range_pages), (Some(33), None));
        assert_eq!((row.targets, row.interrupts), (Some(2), 2));
        assert_eq!(row.wait_ns, Some(29));
        assert!(rows.ipis.iter().all(|row| row.kind == IpiKind::Tlb));
        // Its own part is no interrupt; of the handlers' times the functions' are apart.
        let times: Vec<_> = sent(&rows).iter().map(|row| row.handler_ns).collect();
        assert_eq!(times, [Some(2), Some(3)]);
        let queue = ipis(&rows, IpiRoad::Queue);
        let times: Vec<_> = queue.iter().map(|row| row.handler_ns).collect();
        assert_eq!(times, [Some(2), Some(8)]);
        assert_eq!(interrupted(&rows, queue[1]), Ok(14));
        assert_eq!(rows.ipis.len(), 4);
        // By reason: all events.
        assert_eq!(counts.tlb_flushes, [0, 2, 0, 1, 1, 0, 0]);
    }
}

#[test]
fn without_every_acknowledgement_the_wait_is_unknown() {
    let lines = |without: &str| -> String {
        let lines = SHOOTDOWN.lines().filter(|line| !line.contains(without));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let wait = |middle: &str| flush(&run(middle)).wait_ns;
    assert_eq!(wait(&lines("csd-out fn=2 csd=6")), None);
    assert_eq!(wait(&lines("csd-in fn=2 csd=6")), None);
    assert_eq!(wait(&lines("csd-")), None);
    // Missing events on the slower CPU, or on the initiator.
    for cpu in [4, 0] {
        let gap = format!("1015 {cpu} 14 lost 3\n1019 {cpu} 14 lost-end\n1020 4 14");
        assert_eq!(wait(&SHOOTDOWN.replace("1020 4 14", &gap)), None);
    }
    assert_eq!(
        wait(&SHOOTDOWN.replace("1020 4 14", "1019 8 0 other\n1020 4 14")),
        Some(29)
    );
    // Without csd events the interrupts tell whom it asks.
    let plain = run(&lines("csd"));
    assert_eq!(flush(&plain).targets, Some(2));
    assert_eq!(flush(&plain).wait_ns, None);
    assert!(sent(&plain).iter().all(|row| row.kind == IpiKind::Tlb));
    assert_eq!(plain.flushes.len(), 1);
}

#[test]
fn a_flush_may_ask_nobody() {
    let rows = run("
        1000 0 10 tlb 4 -1
        1004 0 10 csd-in fn=2
        1005 0 10 tlb 3 -1
        1006 0 10 csd-out fn=2
        1100 0 10 tlb 3 1
        1200 0 10 ipi 4 cb=9");
    let found: Vec<_> = rows
        .flushes
        .iter()
        .map(|row| (row.ts_ns, row.reason, row.pages, row.targets, row.wait_ns))
        .collect();
    assert_eq!(
        found,
        [
            (1000, FlushReason::RemoteSend, Some(-1), Some(0), None),
            (1100, FlushReason::LocalMmShootdown, Some(1), Some(0), None),
        ]
    );
    // What is sent later is no flush's.
    assert_eq!(only(&rows).kind, IpiKind::Call);
}

/// Without events of the calls, what a CPU flushes of its own TLB next is the rest of what it asked others for only if that
/// fits: all for all, or if it was behind, else as many pages, which may be larger ones.
#[test]
fn a_flush_of_its_own_may_be_another_one() {
    let flushes = |asked: i64, own: i64| {
        let rows = run(&format!(
            "
            1000 0 10 tlb 4 {asked}
            1001 0 10 ipi 4 cb=9
            1100 0 10 tlb 3 {own}"
        ));
        rows.flushes.iter().map(|row| row.ts_ns).collect::<Vec<_>>()
    };
    for (asked, own) in [(-1, -1), (7, -1), (7, 7), (1024, 2), (1 << 18, 1)] {
        assert_eq!(flushes(asked, own), [1000], "{asked} {own}");
    }
    for (asked, own) in [(-1, 1), (7, 1), (1, 7), (1024, 512)] {
        assert_eq!(flushes(asked, own), [1000, 1100], "{asked} {own}");
    }
}

/// An interrupt that wakes while a flush asks is not the flush's.
#[test]
fn what_an_interrupt_sends_is_not_the_flushs() {
    let rows = run("
        1000 0 10 tlb 4 2
        1001 0 10/h waking 20 prev=1
        1002 0 10/h csd 1 fn=1 csd=5
        1003 0 10/h ipi 1 cb=9
        1004 0 10 csd 4 fn=2 csd=6
        1005 0 10 ipi 4 cb=9
        1006 0 10 tlb 3 2
        1010 1 0/h wakeup 20 to=1");
    let kinds: Vec<_> = sent(&rows)
        .iter()
        .map(|row| (row.target_cpu, row.kind))
        .collect();
    assert_eq!(kinds, [(1, IpiKind::Wakeup), (4, IpiKind::Tlb)]);
    assert_eq!(
        (flush(&rows).targets, flush(&rows).interrupts),
        (Some(1), 1)
    );
}

/// The probe tells what a full flush was asked for, and where no event follows.
#[test]
fn ranges_are_those_of_the_flush_that_follows() {
    let rows = run("
        1000 0 10 range 4096 823296
        1001 0 10 tlb 4 -1
        1002 0 10 tlb 3 -1
        1100 0 10 range 0 -1
        1101 0 10 tlb 3 -1
        1200 0 10 range 0 8192
        1201 0 10 tlb 3 2
        1300 0 10 range 0 40960
        1400 0 10 range 0 2097152 shift=21
        1401 0 10 tlb 3 1
        1500 0 10 range 0 4096
        1501 0 10 tlb 3 7"
        .replace("range 0 -1", "range 0 18446744073709551615")
        .as_str());
    let mut found: Vec<_> = rows
        .flushes
        .iter()
        .map(|row| (row.ts_ns, row.pages, row.range_pages))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (1001, Some(-1), Some(200)),
            (1101, Some(-1), Some(-1)),
            (1201, Some(2), Some(2)),
            (1300, None, Some(10)),
            (1401, Some(1), Some(512)),
            (1500, None, Some(1)),
            (1501, Some(7), None),
        ]
    );
}

/// Each request is a window's in which it was sent.
#[test]
fn windows_add_up() {
    let middle = format!("{QUEUED}\n{}", SHOOTDOWN.replace("    1", "    2"));
    let whole = script((6, 12), &middle).run().0;
    let counted = |rows: &Rows| -> (usize, i64, usize) {
        let inside = rows.ipis.iter().filter(|row| row.in_window);
        let flushes = rows.flushes.iter().filter(|row| row.in_window).count();
        let time = inside.clone().filter_map(|row| row.handler_ns).sum();
        (inside.count(), time, flushes)
    };
    assert_eq!(counted(&whole), (6, 6 + 2 + 2 + 3 + 8, 1));
    for cut in [500, 1004, 1010, 2002, 2500] {
        let part = |from, to| {
            let mut script = script((6, 12), &middle);
            script.window = Some((from, to));
            counted(&script.run().0)
        };
        let (a, b) = (part(0, cut), part(cut, 9000));
        assert_eq!((a.0 + b.0, a.1 + b.1, a.2 + b.2), counted(&whole), "{cut}");
    }
}
