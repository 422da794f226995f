//! The critical path of a chain that is known, because it was made so.

use ttwu::pipeline::RunOptions;
use ttwu::replay::units::Work;
use ttwu::replay::words::{Origin, Path, Verdict};
use ttwu_parsers::watch::Watch;

use super::check::{Differences, File, Written, number};
use std::collections::BTreeMap;

use serde_json::Value;

use super::events::What;
use super::kernels::V6_12;
use super::machine::Shape;
use super::notes::State;
use super::plan::Plan;
use super::run::simulate;
use super::scheduler::Sim;
use super::tests_exact::plan;
use super::timeline::Timeline;
use super::truth_path::{PathTruth, Shares, Sum, Walker};
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

const CATEGORIES: [&str; 7] = [
    "running",
    "transit",
    "wait",
    "interrupt",
    "tlb-wait",
    "blocked",
    "unknown",
];

/// Into how many parts a span is divided to see how paths differ.
const WINDOWS: i64 = 8;

/// A unit of work, from its first end to its last, and the task that ended the last.
struct Marked {
    work: Work,
    span: (i64, i64),
    last: usize,
}

/// trace.dat has markers; with perf.data a unit is the accounting of the task of which there is most.
fn marked(sim: &Sim, file: File) -> Option<Marked> {
    let accounted = sim.log.iter().filter_map(|event| match &event.what {
        What::Runtime { who } if who.pid > 0 => Some(who.pid),
        _ => None,
    });
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    accounted.for_each(|pid| *counts.entry(pid).or_default() += 1);
    let most = counts.iter().max_by_key(|(_, count)| **count)?;
    let ends_one = |what: &What| match (file, what) {
        (File::TraceDat, What::Marker(_)) => true,
        (File::PerfData, What::Runtime { who }) => who.pid == *most.0,
        _ => false,
    };
    let marks = || sim.log.iter().filter(|event| ends_one(&event.what));
    let (first, last) = (marks().next()?, marks().next_back()?);
    let work = match file {
        File::TraceDat => Work::Marker("mark".to_owned()),
        File::PerfData => Work::Event(Watch {
            system: None,
            name: "sched_stat_runtime".to_owned(),
            field: Some(("pid".to_owned(), most.0.to_string())),
        }),
    };
    let of = |pid: i32| sim.notes.tasks.iter().position(|t| t.pid == pid);
    (first.ts < last.ts).then_some(Marked {
        work,
        span: (first.ts, last.ts),
        last: of(last.pid)?,
    })
}

/// The parts of a report's path, by the names that the truth has for them.
fn found_parts(path: &Value) -> BTreeMap<String, Sum> {
    let sum = |count: &Value, ns: &Value| Sum {
        count: count.as_i64().unwrap_or(-1),
        ns: ns.as_i64().unwrap_or(-1),
    };
    let mut found = BTreeMap::new();
    let mut parts = |name: &str, of: &Value| {
        for (word, part) in of.as_object().into_iter().flatten() {
            found.insert(format!("{name}.{word}"), sum(&part["count"], &part["ns"]));
        }
    };
    parts("transit.by_path", &path["transit"]["by_path"]);
    parts("transit.by_distance", &path["transit"]["by_distance"]);
    parts("wait.by_origin", &path["wait"]["by_origin"]);
    parts("blocked", &path["blocked"]);
    parts("unknown", &path["unknown"]);
    for (word, of) in path["wait"]["by_verdict"].as_object().into_iter().flatten() {
        for reading in ["seen", "any"] {
            let name = format!("wait.by_verdict.{word}.{reading}");
            found.insert(name, sum(&of["count"][reading], &of["ns"][reading]));
        }
    }
    found.retain(|_, sum| *sum != Sum::default());
    found
}

/// Time by pid of a list of tasks, which is not cut short.
fn by_pid(list: &Value) -> BTreeMap<i32, i64> {
    assert_eq!(list["others_ns"], 0);
    let tasks = list["tasks"].as_array().into_iter().flatten();
    tasks
        .map(|task| {
            (
                task["pid"].as_i64().unwrap_or(-1) as i32,
                task["ns"].as_i64().unwrap_or(-1),
            )
        })
        .collect()
}

fn compare_path(differ: &mut Differences, found: &Value, truth: &PathTruth, sends: bool) {
    for category in CATEGORIES {
        let ns = truth.ns.get(category).copied().unwrap_or(0);
        let name = format!("path_ns.{category}");
        differ.same(&name, number(found, &name), Some(ns));
    }
    // By removing what t of T is, T / (T - t) - 1 at most; not where waits for CPUs that were all busy are over a tenth.
    let (total, of) = (truth.total(), |name: &str| {
        truth.parts.get(name).map_or(0, |sum| sum.ns)
    });
    let saturated =
        ["seen", "any"].map(|reading| of(&format!("wait.by_verdict.saturated.{reading}")));
    let withheld = saturated.into_iter().any(|ns| ns > total / 10);
    for category in ["transit", "wait"] {
        let gain = &found["gain_at_most"][category];
        let ns = truth.ns.get(category).copied().unwrap_or(0);
        let truth = total as f64 / (total - ns) as f64 - 1.0;
        let right = match withheld || ns == total {
            true => gain["unknown"].is_string(),
            false => gain
                .as_f64()
                .is_some_and(|gain| (gain - truth).abs() < 1e-9),
        };
        differ.same(
            &format!("gain of {category} {gain} of {truth}, {withheld}"),
            right,
            true,
        );
    }
    let path = &found["path"];
    let (mut parts, mut true_parts) = (found_parts(path), truth.parts.clone());
    true_parts.retain(|_, sum| *sum != Sum::default());
    if !sends {
        // Where sends are not recorded, the road is not always known.
        parts.retain(|name, _| !name.starts_with("transit.by_path"));
        true_parts.retain(|name, _| !name.starts_with("transit.by_path"));
    }
    differ.lists(
        "parts",
        parts.into_iter().map(|(n, s)| (n, s.count, s.ns)).collect(),
        true_parts
            .into_iter()
            .map(|(n, s)| (n, s.count, s.ns))
            .collect(),
    );
    let mut wakers: BTreeMap<&str, i64> = BTreeMap::new();
    for (word, count) in path["wakeups_by_waker"].as_object().into_iter().flatten() {
        wakers.insert(word, count.as_i64().unwrap_or(-1));
    }
    wakers.retain(|_, count| *count > 0);
    differ.same("wakeups", &wakers, &truth.wakeups);
    differ.same(
        "cross-LLC",
        number(path, "wakeups_cross_llc"),
        Some(truth.cross_llc),
    );
    let nonzero = |of: &BTreeMap<i32, i64>| -> BTreeMap<i32, i64> {
        of.iter()
            .filter(|(_, ns)| **ns > 0)
            .map(|(pid, ns)| (*pid, *ns))
            .collect()
    };
    differ.same(
        "running",
        nonzero(&by_pid(&path["running"])),
        nonzero(&truth.running),
    );
    let meanwhile = &path["wait"]["meanwhile"];
    differ.same(
        "meanwhile",
        nonzero(&by_pid(meanwhile)),
        nonzero(&truth.meanwhile),
    );
    differ.same(
        "nothing",
        number(meanwhile, "idle_ns"),
        Some(truth.meanwhile_idle),
    );
    differ.same("unknown", number(meanwhile, "unknown_ns"), Some(0));
}

/// The least, middle and greatest share of each category among the paths from the ends of equal parts of the span.
fn compare_spread(differ: &mut Differences, found: &Value, paths: &[(Shares, i64)]) {
    let spread = &found["path"]["spread"];
    differ.same(
        "windows",
        number(spread, "windows"),
        Some(paths.len() as i64),
    );
    for category in CATEGORIES {
        let share = |(of, length): &(Shares, i64)| {
            of.get(category).copied().unwrap_or(0) as f64 / *length as f64
        };
        let mut shares: Vec<f64> = paths.iter().map(share).collect();
        shares.sort_by(f64::total_cmp);
        let middle = shares.len() / 2;
        let truth = [
            shares[0],
            (shares[middle - 1] + shares[middle]) / 2.0,
            shares[shares.len() - 1],
        ];
        for (word, truth) in ["min", "median", "max"].into_iter().zip(truth) {
            let of = spread["share"][category][word].as_f64();
            let close = of.is_some_and(|of| (of - truth).abs() < 1e-9);
            differ.same(
                &format!("spread {category} {word} {of:?} of {truth}"),
                close,
                true,
            );
        }
    }
}

/// Any run has a path: whatever the tasks on it did, and whoever woke them.
#[test]
fn paths_are_the_simulators() {
    let mut met: BTreeMap<String, i64> = BTreeMap::new();
    let mut runs = 0;
    for seed in (0..288).filter(|&seed| plan(seed).kernel.has_waking()) {
        let plan = Plan {
            marks: true,
            ..plan(seed)
        };
        let sim = simulate(plan);
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let Some(Marked { work, span, last }) = marked(&sim, file) else {
            continue;
        };
        runs += 1;
        let timeline = Timeline::new(&sim);
        let walker = Walker::new(&sim, &timeline);
        let truth = walker.walk(last, span);
        assert_eq!(truth.total(), span.1 - span.0, "the truth is a tiling");
        let options = RunOptions {
            work: Some(work),
            ..RunOptions::default()
        };
        let found = &Written::new(&sim.recording(), file).report(&options)["throughput"];
        let mut differ = Differences::default();
        compare_path(&mut differ, found, &truth, sim.kernel.tells_sends());
        let group = walker.group(last);
        let bound = |n: i64| span.0 + (span.1 - span.0) * n / WINDOWS;
        let paths = (0..WINDOWS).map(|n| {
            let part = (bound(n), bound(n + 1));
            let task = match n + 1 == WINDOWS {
                true => Some(last),
                false => walker.last_active(&group, part.1),
            };
            let of = task.map(|task| walker.walk(task, part).ns);
            let nobody = || Shares::from([("unknown", part.1 - part.0)]);
            (of.unwrap_or_else(nobody), part.1 - part.0)
        });
        compare_spread(&mut differ, found, &paths.collect::<Vec<_>>());
        differ.none(&format!("seed {seed} {}", sim.kernel.release));
        for (name, ns) in truth.ns {
            *met.entry(name.to_owned()).or_default() += ns;
        }
        for (name, sum) in truth.parts {
            *met.entry(name).or_default() += sum.count;
        }
    }
    assert!(runs >= 200, "{runs}");
    let least = |name: String, least: i64| {
        let found = met.get(&name).copied().unwrap_or(0);
        assert!(found >= least, "{name}: {found} of {met:?}");
    };
    CATEGORIES
        .iter()
        .for_each(|name| least((*name).to_owned(), 10_000));
    for waker in ["softirq_irq_exit", "softirq_unknown", "hardirq", "nmi"] {
        least(format!("blocked.{waker}"), 1);
    }
    for path in Path::ALL.iter().filter(|path| **path != Path::Unknown) {
        least(format!("transit.by_path.{}", path.as_str()), 5);
    }
    for distance in ["same", "smt", "l2", "llc", "node", "remote"] {
        least(format!("transit.by_distance.{distance}"), 40);
    }
    for origin in Origin::ALL {
        least(format!("wait.by_origin.{}", origin.as_str()), 20);
    }
    // Transit is none, and LLCs are known.
    let others = [Verdict::Transit, Verdict::Unknown];
    for verdict in Verdict::ALL
        .iter()
        .filter(|verdict| !others.contains(verdict))
    {
        least(format!("wait.by_verdict.{}.any", verdict.as_str()), 1);
    }
    // What is lost, and what is not explained: `tests_losses`.
    least("unknown.withheld".to_owned(), 40);
    least("unknown.before_first_event".to_owned(), 10);
}
