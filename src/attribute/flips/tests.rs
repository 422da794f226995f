//! What is said of hand-made wakeups, and of recorded ones whose roles are known.

use std::path::Path;
use std::sync::Arc;

use crate::attribute::Selection;
use crate::attribute::answer::{Decided, FlipCheck, Flips, Known, PolicyFacts, PullCheck};
use crate::attribute::testing::{Rig, task};
use crate::pipeline::{self, RunOptions};
use crate::replay::flips::{Asked, Charged, FlipStep, FlipWake, Setup};
use crate::replay::rows::{Sink, TaskId};
use crate::tables::{Budget, Builders, TableSet};

/// Task 0 on CPU 0 wakes task 1 at 500 ns, in the window.
fn wake() -> FlipWake {
    FlipWake {
        waking_ns: 500,
        chosen_ns: 500,
        late_ns: 0,
        waker: Charged::Task(TaskId(0)),
        wakee: TaskId(1),
        waker_cpu: 0,
        waker_cpu_id: 0,
        chosen_cpu: Some(0),
        sure: true,
        in_task: true,
        asked: Asked {
            old: true,
            new: true,
        },
        probed: None,
        pulled: Some(false),
        in_window: true,
    }
}

fn rig(wakes: &[FlipWake]) -> Rig {
    with_setup(&Rig::new(|_| ()).config.flips, wakes)
}

fn with_setup(setup: &Setup, wakes: &[FlipWake]) -> Rig {
    let begin = FlipStep::Begin(Arc::new(setup.clone()));
    Rig::new(|sink| {
        sink.flip(&begin);
        wakes
            .iter()
            .for_each(|wake| sink.flip(&FlipStep::Wake(*wake)));
        (0..3).for_each(|id| sink.task(&task(id, 100 + id as i32, "task")));
    })
}

fn value<T: Clone>(of: &Known<T>) -> T {
    of.value().cloned().expect("known")
}

fn unknown<T>(of: &Known<T>) -> String {
    match of {
        Known::Unknown { unknown } => unknown.clone(),
        Known::Value(_) => panic!("known"),
    }
}

/// LLCs of two CPUs. Task 0 is shown to have 8 flips, and task 1 to have 2: 8 ≥ 2 × 2 is wide by the new rule, 2 > 2 is not
/// by the old. Then task 1 has 0, which is affine by both, and pulled; by task 2, of which nothing is known.
#[test]
fn decisions_are_counted_by_policy_and_task() {
    let shown = FlipWake {
        waker: Charged::Idle(3),
        waker_cpu: 3,
        wakee: TaskId(0),
        probed: Some(8),
        asked: Asked {
            old: false,
            new: true,
        },
        ..wake()
    };
    let wide = FlipWake {
        probed: Some(2),
        ..wake()
    };
    let pulled = FlipWake {
        waker: Charged::Task(TaskId(2)),
        probed: Some(0),
        pulled: Some(true),
        ..wake()
    };
    let open = FlipWake {
        sure: false,
        ..wake()
    };
    let outside = FlipWake {
        in_window: false,
        ..wake()
    };
    let rig = rig(&[shown, shown, wide, pulled, open, outside]);
    let flips = value(&rig.answer(&Selection::default()).flips.decisions);
    assert_eq!(
        (flips.kernel_policy, flips.recorded, flips.perhaps),
        ("halve-new", 4, 1)
    );
    let policies = value(&flips.policies);
    // The wakeups by the idle task: 8 is at least 2, but of that task nothing is known.
    let expected = |wide, affine, warming_up, not_asked, changed| PolicyFacts {
        wide,
        affine,
        undecided: 0,
        warming_up,
        not_asked,
        changed,
    };
    assert_eq!(policies["kernel"], expected(1, 1, 2, 0, 0));
    assert_eq!(policies["halve-new"], policies["kernel"]);
    assert_eq!(policies["halve-old"], expected(0, 2, 0, 2, 1));
    assert_eq!(value(&flips.changes)["halve-new"]["halve-old"], 1);
    assert_eq!(value(&flips.changes)["halve-old"]["halve-new"], 1);
    let factors = value(&flips.factors);
    assert_eq!(factors.sizes, [2]);
    // With a factor of 4, 2 flips are too few.
    assert_eq!((factors.doubled.changed, factors.halved.changed), (1, 0));
    let pulls = PullCheck {
        pulls: 1,
        affine: 1,
        ..PullCheck::default()
    };
    assert_eq!(value(&flips.pull_check), pulls);
    // The second values of tasks 0 and 1: 8 again, and 0, which nobody expects after 2.
    let check = FlipCheck {
        checked: 2,
        inside: 1,
        width_le_1: 2,
        inside_since_first: 1,
    };
    assert_eq!(value(&flips.probe_check), check);
    assert_eq!(
        (
            flips.judged,
            value(&flips.decided_share),
            value(&flips.coverage)
        ),
        (4, 0.5, 1.0)
    );
    let of_0 = flips.tasks.iter().find(|task| task.pid == 100).unwrap();
    let as_waker = Decided {
        wide: 1,
        ..Decided::default()
    };
    assert_eq!((of_0.as_waker, of_0.as_wakee.open), (as_waker, 2));
}

#[test]
fn what_is_not_known_is_said() {
    let mut setup = Rig::new(|_| ()).config.flips;
    setup.factors = vec![None; 4];
    let mut rig = with_setup(&setup, &[wake()]).without_topology();
    rig.config.flips = setup;
    let flips = value(&rig.answer(&Selection::default()).flips.decisions);
    assert_eq!(flips.recorded, 1);
    let reasons = [
        unknown(&flips.policies),
        unknown(&flips.decided_share),
        unknown(&flips.pull_check),
    ];
    assert!(
        reasons
            .iter()
            .all(|reason| reason.contains("topology is unknown")),
        "{reasons:?}"
    );
    assert!(unknown(&flips.probe_check).contains("no probes"));
    let mut silent = self::rig(&[wake()]);
    silent.survey.by_type[1] = 0;
    let reason = unknown(&silent.answer(&Selection::default()).flips.decisions);
    assert!(reason.contains("sched_waking"), "{reason}");
}

/// The answer to a recorded trace of a guest whose topology is known.
fn recorded(folder: &str) -> Flips {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/lab")
        .join(folder);
    let options = RunOptions {
        topology: folder.join("topology.txt").to_str().map(str::to_owned),
        ..RunOptions::default()
    };
    let prepared = pipeline::prepare(&folder.join("trace.dat"), &options, &|_| ()).unwrap();
    let mut builders = Builders::new(&TableSet::analysis(), Budget::default());
    let counts = pipeline::replay(&prepared, builders.sink(), &|_| ());
    let tables = builders.finish().unwrap();
    let answer = crate::attribute::answer(&prepared, &counts, &tables, &Selection::default());
    value(&answer.unwrap().flips.decisions)
}

/// One task that hands messages to six workers; two that answer each other; twenty senders and twenty receivers.
#[test]
fn workloads_have_the_roles_that_they_were_written_with() {
    let fanout = recorded("fanout");
    let waker = &fanout.roles.one_to_n[0];
    assert_eq!((waker.role, waker.name.as_str()), ("1:N", "lab-waker"));
    assert!((5.5..6.5).contains(&waker.effective_partners), "{waker:?}");
    assert!(waker.why.contains("1:N takes"), "{}", waker.why);
    assert!(fanout.roles.ping_pong.is_empty());

    let pair = recorded("pair-xllc");
    let [only] = pair.roles.ping_pong.as_slice() else {
        panic!("{:?}", pair.roles.ping_pong);
    };
    let names = [only.name.as_str(), only.other_name.as_str()];
    assert_eq!(names, ["lab-waker", "lab-wakee"]);
    assert!(pair.roles.one_to_n.is_empty());

    let messaging = recorded("messaging");
    let of = |roles: &[crate::attribute::answer::RoleFacts]| {
        let roles = roles.iter().filter(|role| role.name == "sched-messaging");
        roles.map(|role| role.pid).collect::<Vec<_>>()
    };
    let (senders, receivers) = (of(&messaging.roles.one_to_n), of(&messaging.roles.n_to_one));
    assert_eq!(
        (senders.len(), receivers.len()),
        (10, 10),
        "as many as are listed"
    );
    assert!(senders.iter().all(|pid| !receivers.contains(pid)));
}
