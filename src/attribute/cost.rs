//! What tables and answers cost: run with `cargo test --release --lib -- --ignored --nocapture cost`.

use std::time::Instant;

use super::Selection;
use super::testing::{Rig, task, wait, wakeup};
use crate::replay::rows::{Sink, TaskId, WaitRow, WakeupRow};
use crate::replay::words::{Class, Origin, Pair, Path, Verdict};
use crate::tables::Budget;
use crate::topology::Distance;

fn status(name: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or("");
    line.trim_start_matches(name)
        .trim_matches([':', ' ', '\t'])
        .to_owned()
}

fn cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

struct Nothing(i64);

impl Sink for Nothing {
    fn wakeup(&mut self, row: &WakeupRow) {
        self.0 ^= std::hint::black_box(row).wait_ns;
    }

    fn wait(&mut self, row: &WaitRow) {
        self.0 ^= std::hint::black_box(row).wait_ns;
    }
}

fn rows<S: Sink>(sink: &mut S) {
    let mut seed = 1_u64;
    let mut next = |bound: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % bound
    };
    for n in 0..4_000_000_u64 {
        let verdict = Verdict::ALL[next(14) as usize];
        let ns = (next(1000) * next(1000)) as i64;
        if n % 8 < 5 {
            let task = next(200) as u32;
            sink.wakeup(&WakeupRow {
                waker: (next(10) > 0).then_some(TaskId(task)),
                wakee: TaskId((task + 1 + next(2) as u32) % 200),
                waker_cpu: Some(next(4) as u32),
                chosen_cpu: Some(next(4) as u32),
                class: Class::ALL[next(5) as usize],
                path: Path::ALL[next(6) as usize],
                waker_chosen: Distance::ALL[next(6) as usize],
                prev_chosen: Distance::ALL[next(6) as usize],
                latency_ns: Some(ns + 1000),
                queue_ns: Some(ns),
                waker_cost_ns: Some(next(4000) as i64),
                verdict: Pair([Some(verdict); 2]),
                wait_ns: ns,
                lost_ns: Pair([ns / 4, ns / 2]),
                wakee_run_ns: Some(ns / 3),
                overlap_ns: (next(2) > 0).then_some(ns / 5),
                ..wakeup()
            });
        }
        sink.wait(&WaitRow {
            task: TaskId(next(200) as u32),
            ..wait(
                Origin::ALL[next(3) as usize],
                [verdict; 2],
                ns,
                [ns / 4, ns / 2],
            )
        });
    }
    for id in 0..200 {
        sink.task(&task(id, id as i32, "task"));
    }
}

#[test]
#[ignore = "a measurement"]
fn cost_of_ten_million_events() {
    let start = (Instant::now(), cpu_ms());
    let mut nothing = Nothing(0);
    rows(&mut nothing);
    println!("rows alone: CPU {} ms {}", cpu_ms() - start.1, nothing.0);
    let start = (Instant::now(), cpu_ms());
    let mut rig = Rig::with_budget(Budget::default(), rows);
    rig.config.window.from_ns = 0;
    rig.config.window.to_ns = 1000;
    rig.config.window.closed = true;
    let built = (Instant::now(), cpu_ms());
    println!(
        "rows and tables: {:?}, CPU {} ms; in memory {} MB, batches on disk {}; {} {}",
        built.0 - start.0,
        built.1 - start.1,
        rig.tables.memory_bytes() >> 20,
        rig.tables.spilled_batches(),
        status("VmHWM"),
        status("RssAnon"),
    );
    for top in [10, 100] {
        let before = (Instant::now(), cpu_ms());
        let answer = rig.answer(&Selection {
            top,
            ..Selection::default()
        });
        println!(
            "answer, top {top}: {:?}, CPU {} ms; {} pairs, {}; HWM {} RssAnon {}",
            before.0.elapsed(),
            cpu_ms() - before.1,
            answer.pairs.len(),
            answer.wakeups.total,
            status("VmHWM"),
            status("RssAnon"),
        );
    }
    let scope = rig.scope(&Selection::default()).unwrap();
    let timed = |what: &str, run: &mut dyn FnMut()| {
        let before = (Instant::now(), cpu_ms());
        run();
        println!(
            "  {what}: {:?}, CPU {} ms",
            before.0.elapsed(),
            cpu_ms() - before.1
        );
    };
    let mut census = super::census::Census::default();
    timed("census", &mut || {
        census = super::census::Census::take(scope.wakeups()).unwrap()
    });
    timed("wakeups", &mut || {
        drop(super::wakeups::wakeups(&scope, &mut census))
    });
    timed("waits", &mut || drop(super::waits::waits(&scope).unwrap()));
    let crossing = super::cross_llc::Costs::measure(&scope).unwrap();
    timed("cross_llc", &mut || {
        let measured = super::cross_llc::Costs::measure(&scope).unwrap();
        drop(measured.answer())
    });
    timed("pairs", &mut || {
        drop(super::pairs::pairs(&scope, &crossing).unwrap())
    });
    timed("machine", &mut || {
        drop(super::stack_spread::Machine::measure(&scope).unwrap())
    });
    timed("tasks", &mut || {
        drop(super::tasks::tasks(&scope, &crossing).unwrap())
    });
}
