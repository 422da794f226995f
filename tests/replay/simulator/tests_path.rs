//! The critical path of a chain that is known, because it was made so.

use ttwu::pipeline::RunOptions;
use ttwu::replay::units::Work;

use super::check::{Differences, File, Written, number};
use super::kernels::V6_12;
use super::machine::Shape;
use super::notes::State;
use super::timeline::Timeline;
use super::workloads::PingPong;

/// Walks back from the end: a task ran since it was switched in; before that it was on its way since its waking; there its
/// waker ran. Returns what ran, and what was on its way.
fn walk(timeline: &Timeline, mut task: usize, (start, end): (i64, i64)) -> (i64, i64) {
    let (mut ran, mut came) = (0, 0);
    let mut at = end;
    while at > start {
        let spans = timeline.spans[task].iter().rev();
        let on = spans
            .clone()
            .find(|s| matches!(s.state, State::Running(_)) && s.from < at);
        let since = on.expect("it ran").from;
        ran += at - since.max(start);
        at = since;
        if at <= start {
            break;
        }
        let wakeups = timeline.notes.wakeups.iter().rev();
        let mut before = wakeups.filter(|w| w.wakee == task && w.enqueued.is_some_and(|e| e < at));
        let wakeup = before.next().expect("it was woken");
        let waking = wakeup.waking.expect("a waking");
        came += at - waking.max(start);
        at = waking;
        task = wakeup.current.expect("a task woke it");
    }
    (ran, came)
}

#[test]
fn a_known_chain_is_tiled() {
    for seed in 0..24 {
        let cpus = [[0, 4], [0, 2], [1, 0], [6, 3]][seed as usize % 4];
        let play = PingPong::play(seed, V6_12, Shape::new(1, 2, 2, 2, 1), cpus, 60);
        let (span, tasks) = (play.span, play.tasks);
        let sim = play.stage.end_unchecked();
        let timeline = Timeline::new(&sim);
        let (ran, came) = walk(&timeline, tasks[0], span);
        assert_eq!(ran + came, span.1 - span.0, "the truth is a tiling");
        let options = RunOptions {
            work: Some(Work::Marker("sim".to_owned())),
            ..RunOptions::default()
        };
        let found = Written::new(&sim.recording(), File::TraceDat).report(&options);
        let path = found["throughput"]["path_ns"].as_object().expect("a path");
        let sum: i64 = path.values().filter_map(serde_json::Value::as_i64).sum();
        let mut differ = Differences::default();
        differ.same("sum", sum, span.1 - span.0);
        let of = |name: &str| number(&found, &format!("throughput.path_ns.{name}"));
        // What ran was interrupted now and then; nothing else waits in this chain.
        let running = of("running").zip(of("interrupt")).map(|(ran, by)| ran + by);
        differ.same("running", running, Some(ran));
        differ.same("transit", of("transit"), Some(came));
        for name in ["wait", "tlb-wait", "blocked", "unknown"] {
            differ.same(name, of(name), Some(0));
        }
        // Without transit the chain were so much faster, and no faster.
        let gain = found["throughput"]["gain_at_most"]["transit"].as_f64();
        let all = (span.1 - span.0) as f64;
        let truth = all / (all - came as f64) - 1.0;
        differ.same(
            "gain",
            gain.map(|gain| (gain - truth).abs() < 1e-9),
            Some(true),
        );
        let per_unit = number(&found, "throughput.path.total_ns");
        differ.same("total", per_unit, Some(span.1 - span.0));
        differ.none(&format!("seed {seed} {cpus:?}"));
    }
}

/// Both on one CPU: the wakee waits until the waker sleeps, and that is on the path, not what it could have run meanwhile.
#[test]
fn a_chain_on_one_cpu_waits() {
    for seed in 0..12 {
        let play = PingPong::play(seed, V6_12, Shape::new(1, 2, 2, 2, 1), [0, 0], 60);
        let span = play.span;
        let sim = play.stage.end_unchecked();
        let options = RunOptions {
            work: Some(Work::Marker("sim".to_owned())),
            ..RunOptions::default()
        };
        let found = Written::new(&sim.recording(), File::TraceDat).report(&options);
        let of = |name: &str| number(&found, &format!("throughput.path_ns.{name}"));
        // From a waking to the wakee's switch-in, each.
        let wakeups = sim
            .notes
            .wakeups
            .iter()
            .filter(|w| w.waking.is_some_and(|ts| ts > span.0));
        let ran_in = |w: &super::notes::Wakeup| {
            let changes = sim.notes.changes.iter().filter(|c| c.task == w.wakee);
            let mut runs = changes.filter(|c| matches!(c.state, State::Running(_)));
            runs.find(|c| Some(c.ts) > w.enqueued)
                .map_or(span.1, |c| c.ts)
        };
        let came: i64 = wakeups
            .map(|w| ran_in(w).min(span.1) - w.waking.unwrap_or(0))
            .sum();
        let waited = of("wait")
            .zip(of("transit"))
            .map(|(wait, transit)| wait + transit);
        assert_eq!(waited, Some(came), "seed {seed}");
        assert_eq!(
            of("running").map(|ran| ran + came),
            Some(span.1 - span.0),
            "seed {seed}"
        );
        assert!(of("wait") > of("transit").map(|ns| ns / 2), "seed {seed}");
    }
}
