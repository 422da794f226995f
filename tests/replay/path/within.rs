//! What crossing LLCs may have cost within the runs of a path, worked by hand.

use std::fmt::Write;

use ttwu::attribute::answer::{Estimate, Known, WithinBasis};

use super::{MACHINE, PathFacts, check, facts};
use crate::support::script::Script;

/// One round: task 10 wakes task 20 on a CPU, which runs so long until it wakes 10, and so long after that, until it
/// sleeps; then 10 runs so long until the next round.
#[derive(Clone, Copy)]
struct Round {
    cpu: u32,
    runs: i64,
    after: i64,
    answered: i64,
}

/// When each round begins, and the events. Task 10 stays on CPU 0; 20 comes from CPU 2.
fn played(rounds: &[Round]) -> (Vec<i64>, String) {
    let mut text = String::from("100 0 0 switch 0:R 10\n");
    let (mut now, mut prev) = (200, 2);
    let mut starts = Vec::new();
    for round in rounds {
        let Round {
            cpu,
            runs,
            after,
            answered,
        } = *round;
        starts.push(now);
        let mut line = |ns: i64, what: String| writeln!(text, "{ns} {what}").unwrap();
        line(now, format!("0 10 waking 20 prev={prev}"));
        if prev != cpu {
            line(now + 1, format!("0 10 migrate 20 {prev} {cpu}"));
        }
        line(now + 2, format!("0 10 wakeup 20 to={cpu}"));
        line(now + 4, format!("{cpu} 0 switch 0:R 20"));
        line(now + 6, "0 10 switch 10:S 0".to_owned());
        let back = now + 4 + runs;
        line(back, format!("{cpu} 20 waking 10 prev=0"));
        line(back + 2, format!("{cpu} 20 wakeup 10 to=0"));
        line(back + 4, "0 0 switch 0:R 10".to_owned());
        line(back + 4 + after, format!("{cpu} 20 switch 20:S 0"));
        (now, prev) = (back + 4 + answered, cpu);
    }
    writeln!(text, "{now} 0 10 mark end").unwrap();
    starts.push(now);
    // What a CPU does after another's next event comes later in the trace.
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| line.split(' ').next().and_then(|ns| ns.parse::<i64>().ok()));
    (starts, lines.join("\n"))
}

/// The path of the last so many rounds.
fn path_of(rounds: &[Round], last: usize, machine: &str) -> PathFacts {
    let (starts, text) = played(rounds);
    let span = (starts[rounds.len() - last], starts[rounds.len()]);
    let played = Script::new(machine, &text).play();
    let task = played.rows.pid(10).task.0;
    let path = facts(&played, span, Some(task));
    if machine == MACHINE {
        check(&path, &played.rows, span, task);
    }
    path
}

fn estimate(of: &Known<Estimate>) -> (f64, [f64; 2], u64) {
    let Known::Value(of) = of else {
        panic!("{of:?}");
    };
    (of.value, of.ci95, of.n)
}

/// Task 20 goes to CPU 1, 1, 2, 2 and so on: half of its wakeups cross to the other LLC, of the others half go from CPU 0
/// to the other LLC, where it was before. It runs 50 ns longer where it crossed, 30 longer where only its waker was
/// elsewhere. Task 10 stays, and runs 20 ns longer after each wakeup from CPU 2.
fn in_turns(rounds: usize, after: impl Fn(bool) -> i64) -> Vec<Round> {
    let round = |n: usize| {
        let cpu = [1, 1, 2, 2][n % 4];
        let crossed = n.is_multiple_of(2);
        Round {
            cpu,
            runs: match (crossed, cpu) {
                (true, _) => 150,
                (false, 1) => 100,
                (false, _) => 130,
            },
            after: after(crossed),
            answered: if cpu == 2 { 220 } else { 200 },
        }
    };
    (0..rounds).map(round).collect()
}

/// 15 rounds of each kind are on the path, of 40 in all.
#[test]
fn what_crossing_cost_stands_within_the_path_s_runs() {
    let path = path_of(&in_turns(160, |_| 10), 60, MACHINE);
    let within = &path.running_within;
    assert_eq!(estimate(&within.cold_cache), (1_500.0, [1_500.0; 2], 30));
    // Of task 20 15 times 30, of task 10 30 times 20. Its run after the last round is cut short by the span's end.
    assert_eq!(estimate(&within.transfer), (1_050.0, [1_050.0; 2], 45));
    let basis = within.basis;
    let share = |ns: i64| ns as f64 / path.path.total_ns as f64;
    let cold = WithinBasis {
        wakeups: 30,
        compared: 30,
        running_ns: 30 * 150,
        running_share: share(30 * 150),
    };
    assert_eq!(basis.cold_cache, cold);
    let transfer = WithinBasis {
        wakeups: 45,
        compared: 45,
        running_ns: 15 * 130 + 30 * 220,
        running_share: share(15 * 130 + 30 * 220),
    };
    assert_eq!(basis.transfer, transfer);
    // It is no category of its own.
    assert_eq!(path.path_ns.values().sum::<i64>(), path.path.total_ns);
}

/// Where it crossed task 20 runs 350 ns longer, of which 300 are beside task 10, off the path: of what it cost no more is
/// on the path than what the path has of these runs.
#[test]
fn the_cost_is_at_most_the_runs_on_the_path() {
    let rounds = in_turns(160, |crossed| if crossed { 310 } else { 10 });
    let mut rounds: Vec<Round> = rounds;
    rounds.iter_mut().for_each(|round| round.answered += 300);
    let path = path_of(&rounds, 60, MACHINE);
    let most = 30.0 * 150.0;
    let cold = &path.running_within.cold_cache;
    assert_eq!(estimate(cold), (most, [most; 2], 30));
}

#[test]
fn what_is_not_measurable_is_not_known_here_either() {
    // 20 wakeups stay.
    let path = path_of(&in_turns(80, |_| 10), 40, MACHINE);
    let within = &path.running_within;
    let Known::Unknown { unknown } = &within.cold_cache else {
        panic!("{within:?}");
    };
    assert!(unknown.contains("lead to the path (20)"), "{unknown}");
    assert_eq!(
        (
            within.basis.cold_cache.wakeups,
            within.basis.cold_cache.compared
        ),
        (20, 0)
    );
    // Of task 10 40 wakeups cross and 40 stay: its part is known, that of task 20 is not.
    assert_eq!(estimate(&within.transfer), (400.0, [400.0; 2], 20));
    assert_eq!(
        (
            within.basis.transfer.wakeups,
            within.basis.transfer.compared
        ),
        (30, 20)
    );
    // Runs that differ by nothing.
    let mut alike = in_turns(160, |_| 10);
    alike
        .iter_mut()
        .for_each(|round| (round.runs, round.answered) = (100, 200));
    let path = path_of(&alike, 60, MACHINE);
    let Known::Unknown { unknown } = &path.running_within.cold_cache else {
        panic!("{:?}", path.running_within);
    };
    assert!(unknown.contains("which may be nothing"), "{unknown}");
    // One LLC.
    let path = path_of(&in_turns(160, |_| 10), 60, "llc=0-3 smt=0;1;2;3 node=0-3");
    for of in [
        &path.running_within.cold_cache,
        &path.running_within.transfer,
    ] {
        assert!(matches!(of, Known::Unknown { unknown } if unknown.contains("one LLC")));
    }
}

/// All stay: nothing on the path crossed, and so nothing was paid for it.
#[test]
fn no_crossing_costs_nothing() {
    let rounds = vec![
        Round {
            cpu: 1,
            runs: 100,
            after: 10,
            answered: 200
        };
        100
    ];
    let path = path_of(&rounds, 50, MACHINE);
    let within = &path.running_within;
    for of in [&within.cold_cache, &within.transfer] {
        assert_eq!(estimate(of), (0.0, [0.0; 2], 0));
    }
    assert_eq!(within.basis.cold_cache, WithinBasis::default());
}
