//! Units of hand-made traces, each worked on paper. The window is 100 to 900.

use super::{Done, measure};
use crate::attribute::answer::{Known, Readings, Throughput};
use crate::attribute::cross_llc::Costs;
use crate::attribute::testing::{Rig, cpu, ipi, task, wakeup};
use crate::attribute::throughput::throughput;
use crate::attribute::{AnswerError, Selection, ledger};
use crate::replay::ledger::Window;
use crate::replay::rows::{IpiRow, LostRow, Sink, SliceRow, TaskId, TaskRow, UnitRow, WakeupRow};
use crate::replay::survey::CpuSurvey;
use crate::replay::units::Work;
use crate::replay::words::{IpiKind, IpiRoad, Mark, Waker};
use crate::tables::Filler;
use ttwu_parsers::event::Comm;
use ttwu_parsers::print_fmt::PrevState;
use ttwu_parsers::watch::Watch;

const SLEEPS: Option<PrevState> = Some(PrevState {
    letter: b'S',
    preempted: false,
});
const RUNS: Option<PrevState> = Some(PrevState {
    letter: b'R',
    preempted: true,
});

const WINDOW: (i64, i64) = (100, 900);

fn inside((from, to): (i64, i64), ns: i64) -> bool {
    (from..to).contains(&ns)
}

fn woken(waking_ns: i64, waker: u32, wakee: u32) -> WakeupRow {
    WakeupRow {
        waking_ns: Some(waking_ns),
        wakeup_ns: Some(waking_ns + 1),
        switch_in_ns: None,
        waker: Some(TaskId(waker)),
        wakee: TaskId(wakee),
        in_window: inside(WINDOW, waking_ns),
        ..wakeup()
    }
}

fn slice(
    task: u32,
    cpu: u32,
    (start_ns, end_ns): (i64, i64),
    end_state: Option<PrevState>,
) -> SliceRow {
    SliceRow {
        task: TaskId(task),
        cpu,
        start_ns,
        end_ns,
        end_state,
    }
}

fn tasks(sink: &mut Filler) {
    let names = ["db", "web", "cat", "dog", "log", "kworker/0:1", "idle"];
    for (id, name) in (0..).zip(names) {
        sink.task(&task(id, 10 + id as i32, name));
    }
    sink.cpu(&cpu(
        0,
        [0, 600, 0, 150, 50, 0, 0],
        [0, 600, 0, 100, 100, 0, 0],
    ));
}

fn rig(work: Option<Work>, fill: impl FnOnce(&mut Filler)) -> Rig {
    let mut rig = Rig::new(|sink| {
        tasks(sink);
        fill(sink);
    });
    rig.config.work = work;
    rig
}

fn measured(rig: &Rig) -> Result<Known<Done>, AnswerError> {
    measure(&rig.scope(&Selection::default())?)
}

fn done(rig: &Rig) -> Done {
    match measured(rig).unwrap() {
        Known::Value(done) => done,
        Known::Unknown { unknown } => panic!("{unknown}"),
    }
}

fn unknown(rig: &Rig) -> String {
    match measured(rig).unwrap() {
        Known::Value(done) => panic!("{} units", done.units),
        Known::Unknown { unknown } => unknown,
    }
}

/// Units, and the span with its last task.
fn figures(done: &Done) -> (u64, i64, i64, Option<u32>) {
    let span = &done.span;
    (done.units, span.start_ns, span.end_ns, span.last_task)
}

fn facts(rig: &Rig) -> Throughput {
    let scope = rig.scope(&Selection::default()).unwrap();
    let ledger = ledger::ledger(&scope).unwrap();
    let done = measure(&scope).unwrap();
    match throughput(&scope, &ledger, &done).unwrap() {
        Known::Value(measured) => measured.with(&Costs::measure(&scope).unwrap()),
        Known::Unknown { unknown } => panic!("{unknown}"),
    }
}

fn event() -> Option<Work> {
    Some(Work::Event(Watch {
        system: None,
        name: "done".to_owned(),
        field: None,
    }))
}

fn mark(ts_ns: i64, task: Option<u32>, window: (i64, i64)) -> UnitRow {
    UnitRow {
        ts_ns,
        mark: Mark::One,
        done: None,
        task: task.map(TaskId),
        cpu: 0,
        in_window: inside(window, ts_ns),
    }
}

/// Marks at 50, 150, 250, …, 950 by tasks 0 and 1 in turn.
fn marks(window: (i64, i64)) -> Rig {
    let mut rig = rig(event(), |sink| {
        for n in 0..10 {
            sink.unit(&mark(50 + 100 * n, Some(n as u32 % 2), window));
        }
    });
    rig.config.window = Window {
        from_ns: window.0,
        to_ns: window.1,
        closed: false,
    };
    rig
}

/// Of the eight marks at 150 to 850 the first ends no unit.
#[test]
fn each_mark_but_the_first_ends_a_unit() {
    let rig = marks(WINDOW);
    let found = done(&rig);
    assert_eq!(figures(&found), (7, 150, 850, Some(0)));
    assert_eq!(found.by_task, vec![(0, 4), (1, 3)]);
    let facts = facts(&rig);
    assert_eq!((facts.kind, facts.unit.as_str()), ("event", "event done"));
    assert!(facts.named_throughput);
    assert_eq!(facts.time_per_unit_ns, 100.0);
    assert_eq!(facts.per_second, 1e7);
    assert_eq!(facts.tasks, ["db", "web"]);
}

/// A window's units, and those of its two parts: the one across the border is in neither.
#[test]
fn adjacent_windows_add_up_but_for_the_unit_between() {
    let units = |window| done(&marks(window)).units;
    for border in [300, 350, 440, 660] {
        let parts = units((100, border)) + units((border, 900));
        assert_eq!(parts + 1, units(WINDOW), "{border}");
    }
}

#[test]
fn marks_that_bound_no_unit_are_unknown() {
    let with = |stamps: &'static [i64]| {
        rig(event(), move |sink| {
            let marks = stamps.iter().map(|ts| mark(*ts, Some(0), WINDOW));
            marks.for_each(|row| sink.unit(&row));
        })
    };
    assert!(unknown(&with(&[])).contains("no event done lies in the window"));
    assert!(unknown(&with(&[50, 950])).contains("no event done"));
    assert!(unknown(&with(&[50, 500])).contains("1 of event done"));
    assert!(unknown(&with(&[500, 500])).contains("2 of event done"));
    // Made while the CPU ran no task.
    let idle = rig(event(), |sink| {
        sink.unit(&mark(200, None, WINDOW));
        sink.unit(&mark(300, None, WINDOW));
    });
    assert_eq!(figures(&done(&idle)), (1, 200, 300, None));
    assert!(facts(&idle).by_task.value().is_none());
}

/// Task 1: woken at 200, runs from 210 to 230 and from 240 to 250, blocks; woken at 300, runs to 340; woken at 850, runs
/// to 950, beyond the window. Woken at 400 it was not seen to block. Task 2: one cycle, 120 to 140.
fn cycles(sink: &mut Filler) {
    let cycle = |waking_ns: i64, wakee: u32, run_ns: Option<i64>| WakeupRow {
        switch_in_ns: run_ns.map(|_| waking_ns + 10),
        wakee_run_ns: run_ns,
        ..woken(waking_ns, 0, wakee)
    };
    for row in [
        cycle(50, 1, Some(20)),
        cycle(120, 2, Some(10)),
        // A row is there when its overlap is known: not in the order of the wakings.
        cycle(300, 1, Some(30)),
        cycle(200, 1, Some(30)),
        cycle(400, 1, None),
        cycle(850, 1, Some(90)),
    ] {
        sink.wakeup(&row);
    }
    for row in [
        slice(1, 0, (60, 80), SLEEPS),
        slice(2, 1, (130, 140), SLEEPS),
        slice(1, 0, (210, 230), RUNS),
        slice(1, 0, (240, 250), SLEEPS),
        slice(1, 1, (310, 340), SLEEPS),
        slice(1, 1, (860, 950), SLEEPS),
    ] {
        sink.slice(&row);
    }
}

#[test]
fn cycles_lie_in_the_window_with_both_ends() {
    let of = |pattern: &str| rig(Some(Work::Task(pattern.to_owned())), cycles);
    let web = done(&of("web"));
    assert_eq!(figures(&web), (2, 200, 340, Some(1)));
    assert!(web.notes[0].contains("1 of its wakeups"), "{:?}", web.notes);
    // A pid, and a pattern over two tasks.
    assert_eq!(figures(&done(&of("12"))), (1, 120, 140, Some(2)));
    assert_eq!(figures(&done(&of("???"))), (3, 120, 340, Some(1)));
    assert!(unknown(&of("dog")).contains("no cycle of task dog"));
    let Err(error) = measured(&of("nobody")) else {
        panic!("no such task");
    };
    assert!(error.to_string().starts_with("--work task:nobody: none of"));
}

/// A worker is forked under the name of its starter; one that never got another name is meant by its first.
#[test]
fn a_former_name_counts_only_where_no_task_has_it_last() {
    let named = |work: &str| {
        let mut rig = Rig::new(|sink| {
            let of = |id: u32, name: &str, former: &str| TaskRow {
                former_names: vec![Comm::new(former.as_bytes())],
                ..task(id, 10 + id as i32, name)
            };
            let tasks = [of(1, "worker", "starter"), of(2, "starter", "sh")];
            tasks.iter().for_each(|row| sink.task(row));
            cycles(sink);
        });
        rig.config.work = Some(Work::Task(work.to_owned()));
        done(&rig).by_task
    };
    assert_eq!(named("starter"), [(2, 1)]);
    assert_eq!(named("worker"), [(1, 2)]);
    assert_eq!(named("sh"), [(2, 1)]);
    assert_eq!(named("*er"), [(1, 2), (2, 1)]);
}

/// Of five units after the first mark four were made while db and web ran: too few to say how units spread over threads.
#[test]
fn units_spread_over_threads_where_nearly_all_are_theirs() {
    let spread = |last: Option<u32>| {
        let tasks = [Some(0), Some(0), Some(1), Some(0), Some(1), last];
        let rig = rig(event(), |sink| {
            for (n, task) in (0..).zip(tasks) {
                sink.unit(&mark(200 + 10 * n, task, WINDOW));
            }
        });
        facts(&rig).per_thread
    };
    let Known::Value(known) = spread(Some(0)) else {
        panic!("all are known");
    };
    assert_eq!(
        (known.units.n, known.units.min, known.units.max),
        (2, 2.0, 3.0)
    );
    assert_eq!(known.units.stddev_population, 0.5);
    let Known::Unknown { unknown } = spread(None) else {
        panic!("one is not known");
    };
    assert!(unknown.contains("1 of 5"), "{unknown}");
}

/// db and web wake each other 5 times, cat and dog 4 times. All wake a logger, which wakes no one, twice each in db's
/// and cat's cases; a kernel thread more often than anybody; and an interrupt wakes dog over web's back.
fn two_components(sink: &mut Filler) {
    let ts = |n: i64| 100 + 10 * n;
    for n in 0..5 {
        sink.wakeup(&woken(ts(n), n as u32 % 2, (n as u32 + 1) % 2));
    }
    for n in 0..4 {
        sink.wakeup(&woken(ts(20 + n), 2, 3));
    }
    for waker in [0, 1, 2, 3] {
        for n in 0..9 {
            sink.wakeup(&woken(ts(30 + n), waker, 5));
        }
    }
    for n in 0..9 {
        sink.wakeup(&WakeupRow {
            context: Waker::SoftirqIrqExit,
            ..woken(ts(50 + n), 1, 3)
        });
    }
    sink.wakeup(&woken(ts(70), 0, 2));
    // Before the window.
    sink.wakeup(&woken(50, 0, 1));
}

#[test]
fn wakeups_of_the_busiest_component_stand_in_for_units() {
    let rig = rig(None, two_components);
    let found = done(&rig);
    // Waked at 100, 110, 120, 130, 140; the last by db.
    assert_eq!(figures(&found), (4, 100, 140, Some(0)));
    assert_eq!(
        (found.members, found.by_task),
        (vec![0, 1], vec![(0, 2), (1, 2)])
    );
    let facts = facts(&rig);
    assert_eq!((facts.kind, facts.unit.as_str()), ("wakeup", "wakeup"));
    assert!(!facts.named_throughput);
    assert_eq!(facts.tasks, ["db", "web"]);
    // Those after the first: one each.
    assert_eq!(facts.wakeups_per_unit, Known::Value(1.0));
}

/// By loopback networking, in a soft interrupt that the waker raised itself; where the trace does not tell, it says so.
#[test]
fn a_soft_interrupt_may_be_its_tasks_own() {
    let pair = |context| {
        rig(None, move |sink| {
            for n in 0..5 {
                sink.wakeup(&WakeupRow {
                    context,
                    ..woken(100 + n, 0, 1)
                });
            }
        })
    };
    let inline = done(&pair(Waker::SoftirqInline));
    assert_eq!((inline.units, inline.notes.len()), (4, 0));
    let unsure = done(&pair(Waker::SoftirqUnknown));
    assert_eq!(unsure.units, 4);
    assert!(unsure.notes[0].starts_with("5 of the wakeups"));
    for context in [Waker::SoftirqIrqExit, Waker::Hardirq, Waker::Nmi] {
        assert!(unknown(&pair(context)).contains("no two tasks"));
    }
}

/// Tasks 0 and 1 wake each other most, but are the recorder's.
#[test]
fn the_recorder_is_no_load() {
    let mut rig = Rig::new(|sink| {
        for (id, name) in [(0, "ttwu"), (1, "ttwu"), (2, "cat"), (3, "dog")] {
            sink.task(&TaskRow {
                recorder: id < 2,
                ..task(id, 10 + id as i32, name)
            });
        }
        for n in 0..9 {
            sink.wakeup(&woken(100 + n, 0, 1));
        }
        for n in 0..3 {
            sink.wakeup(&woken(200 + n, 2, 3));
        }
    });
    rig.counts.recorder.tasks = 2;
    assert_eq!(done(&rig).members, vec![2, 3]);
    rig.config.include_recorder = true;
    assert_eq!(done(&rig).members, vec![0, 1]);
}

/// Two loads of a hundred wakeups each that both log now and then stay two.
#[test]
fn a_task_that_serves_all_now_and_then_ties_nobody() {
    let loads = |logged: i64| {
        rig(None, move |sink| {
            for n in 0..100 {
                sink.wakeup(&woken(100 + n, 0, 1));
                sink.wakeup(&woken(300 + n, 2, 3));
            }
            for n in 0..logged {
                sink.wakeup(&woken(500 + n, 0, 4));
                sink.wakeup(&woken(600 + n, 2, 4));
            }
        })
    };
    assert_eq!(done(&loads(4)).units, 99);
    // At a twentieth they are one.
    assert_eq!(done(&loads(5)).units, 209);
    // One wakeup ties nobody.
    let one = rig(None, |sink| {
        sink.wakeup(&woken(200, 0, 1));
        sink.wakeup(&woken(300, 2, 2));
    });
    assert!(unknown(&one).contains("no two tasks"));
}

#[test]
fn a_waker_of_many_and_its_wakees_are_one() {
    let star = rig(None, |sink| {
        for n in 0..60 {
            sink.wakeup(&woken(100 + n, 0, 1 + n as u32 % 4));
        }
    });
    let found = done(&star);
    assert_eq!((found.units, found.members.len()), (59, 5));
}

#[test]
fn a_total_is_of_the_window() {
    let rig = rig(Some(Work::Total(400)), |sink| {
        two_components(sink);
        sink.slice(&slice(1, 0, (200, 700), SLEEPS));
        sink.slice(&slice(0, 1, (300, 950), SLEEPS));
        sink.slice(&slice(3, 2, (300, 890), SLEEPS));
        sink.slice(&slice(1, 0, (920, 930), SLEEPS));
    });
    assert_eq!(figures(&done(&rig)), (400, 100, 900, Some(0)));
    let facts = facts(&rig);
    assert_eq!((facts.time_per_unit_ns, facts.per_second), (2.0, 5e8));
    assert!(facts.by_task.value().is_none());
}

/// Beside marks at 200 and 600: wakeups at 200 (not behind the first), 300 and 600; on CPU 0 db runs to 250, then web to
/// 400, then nothing; from 500 db again. On CPU 1 the first event, at 220, finds cat running, which leaves at 620.
#[test]
fn what_lies_in_the_span_is_counted() {
    let send = |ts_ns, road| IpiRow {
        ts_ns,
        road,
        ..ipi(IpiKind::Reschedule, 1, 1)
    };
    let mut rig = rig(event(), |sink| {
        for ts in [200, 600] {
            sink.unit(&mark(ts, Some(0), WINDOW));
        }
        for ts in [200, 300, 600, 601] {
            sink.wakeup(&woken(ts, 0, 1));
        }
        // Without a waking its enqueue counts.
        sink.wakeup(&WakeupRow {
            waking_ns: None,
            wakeup_ns: Some(400),
            ..woken(50, 0, 1)
        });
        sink.slice(&slice(0, 0, (150, 250), RUNS));
        sink.slice(&slice(1, 0, (250, 400), SLEEPS));
        sink.slice(&slice(0, 0, (500, 590), None));
        sink.slice(&slice(2, 1, (220, 620), SLEEPS));
        for (ts, road, targets) in [
            (200, IpiRoad::Interrupt, 1),
            (300, IpiRoad::Interrupt, 1),
            (310, IpiRoad::Interrupt, 3),
            (320, IpiRoad::Polled, 1),
            (330, IpiRoad::Queue, 1),
            (340, IpiRoad::Handler, 1),
            (600, IpiRoad::Interrupt, 1),
        ] {
            for _ in 0..targets {
                sink.ipi(&send(ts, road));
            }
        }
    });
    rig.survey.cpus = vec![CpuSurvey {
        cpu: 1,
        events: 2,
        first_ns: 220,
        last_ns: 620,
        first_pid: 12,
        lost_events: 0,
        uncounted_gaps: 0,
    }];
    let facts = facts(&rig);
    assert_eq!((facts.units, facts.wakeups), (1, Known::Value(3)));
    // At 250, 400 and 500. At 590 the trace shows no switch.
    assert_eq!(facts.switches, Known::Value(3));
    // The trace has no event that tells of sends.
    assert!(facts.ipis.value().is_none() && facts.ipis_per_unit.value().is_none());
    rig.types[0].name = "ipi_send_cpu".to_owned();
    let facts = self::facts(&rig);
    assert_eq!(facts.ipis, Known::Value(5));
    assert!(facts.switches.value().is_none());
}

/// 200 of 800 ns that could have been used were lost.
#[test]
fn lost_capacity_is_of_what_could_have_run() {
    let facts = facts(&marks(WINDOW));
    let expected = Readings {
        seen: Some(0.25),
        any: Some(0.25),
    };
    assert_eq!(facts.lost_capacity_share, Known::Value(expected));
}

#[test]
fn losses_in_the_span_are_told() {
    let lossy = |start_ns, end_ns| {
        let mut rig = rig(event(), |sink| {
            sink.unit(&mark(200, Some(0), WINDOW));
            sink.unit(&mark(300, Some(0), WINDOW));
            sink.lost(&LostRow {
                cpu: 1,
                start_ns,
                end_ns,
                events: None,
            });
        });
        rig.config.start_ns = 0;
        done(&rig).notes.len()
    };
    assert_eq!((lossy(100, 200), lossy(300, 400)), (0, 0));
    assert_eq!(
        (lossy(100, 201), lossy(299, 400), lossy(220, 230)),
        (1, 1, 1)
    );
}
