//! Wakee flips against the kernel's own, which probes recorded.

use crate::support::*;
use ttwu::pipeline::RunOptions;
use ttwu::replay::words::Decision;

#[test]
fn explore() {
    for folder in lab_folders() {
        for file in ["trace.dat", "perf.data"] {
            let path = folder.join(file);
            if !path.exists() {
                continue;
            }
            let run = run(
                &path,
                &RunOptions {
                    ..lab_options(&folder)
                },
            );
            let rows = &run.rows.flips;
            let count =
                |of: &dyn Fn(&&ttwu::replay::rows::FlipRow) -> bool| rows.iter().filter(of).count();
            let checked = count(&|r| r.probe_inside.is_some());
            eprintln!(
                "{:16} {file:10} hz {} rows {} sure {} probed {} checked {} inside {} narrow {} free {} | wide {} affine {} undec {} warm {} | pulls {} wide {} affine {} und {} warm {}",
                name(&folder),
                run.prepared.config.flips.hz,
                rows.len(),
                count(&|r| r.sure),
                count(&|r| r.probed.is_some()),
                checked,
                count(&|r| r.probe_inside == Some(true)),
                count(&|r| r.probe_narrow == Some(true)),
                count(&|r| r.free_inside == Some(true)),
                count(&|r| r.kernel == Some(Decision::Wide)),
                count(&|r| r.kernel == Some(Decision::Affine)),
                count(&|r| r.kernel == Some(Decision::Undecided)),
                count(&|r| r.kernel == Some(Decision::WarmingUp)),
                count(&|r| r.pulled == Some(true)),
                count(&|r| r.pulled == Some(true) && r.kernel == Some(Decision::Wide)),
                count(&|r| r.pulled == Some(true) && r.kernel == Some(Decision::Affine)),
                count(&|r| r.pulled == Some(true) && r.kernel == Some(Decision::Undecided)),
                count(&|r| r.pulled == Some(true) && r.kernel == Some(Decision::WarmingUp)),
            );
            for r in rows
                .iter()
                .filter(|r| r.pulled == Some(true) && r.kernel == Some(Decision::Wide))
            {
                let w = run
                    .rows
                    .wakeups
                    .iter()
                    .find(|w| w.waking_ns == Some(r.waking_ns) && w.wakee == r.wakee)
                    .unwrap();
                eprintln!(
                    "   {} cpu{} prev {:?} chosen {:?} waker {:?} wakee pid {} flips {:?} {:?} {:?} probed {:?} {:?}",
                    r.waking_ns,
                    r.waker_cpu,
                    w.prev_cpu,
                    w.chosen_cpu,
                    r.waker,
                    run.rows.tasks[r.wakee.0 as usize].pid,
                    r.waker_flips,
                    r.wakee_flips,
                    w.class,
                    w.probed,
                    r.factor
                );
            }
            let mut tally: std::collections::BTreeMap<String, u32> = Default::default();
            for r in rows.iter() {
                let Some(w) = run
                    .rows
                    .wakeups
                    .iter()
                    .find(|w| w.waking_ns == Some(r.waking_ns) && w.wakee == r.wakee)
                else {
                    continue;
                };
                *tally
                    .entry(format!(
                        "{:?} waker-prev {:?} pulled {:?}",
                        r.kernel, w.waker_prev, r.pulled
                    ))
                    .or_default() += 1;
            }
            if file == "trace.dat" {
                eprintln!("   {tally:#?}");
            }
            for r in rows
                .iter()
                .filter(|r| r.probe_inside == Some(false) || r.free_inside == Some(false))
                .take(5)
            {
                eprintln!("   {r:?}");
            }
        }
    }
}

#[test]
fn explore_one() {
    let folder = lab_folders()
        .into_iter()
        .rfind(|f| name(f) == std::env::var("WHICH").unwrap_or("messaging-numa".into()))
        .unwrap();
    let task: u32 = std::env::var("TASK")
        .unwrap_or("42".into())
        .parse()
        .unwrap();
    let run = run(&folder.join("trace.dat"), &lab_options(&folder));
    let start = run.prepared.config.start_ns;
    let mut by: std::collections::BTreeMap<i64, [u32; 2]> = Default::default();
    for r in run.rows.flips.iter() {
        if let Some(n) = r.probe_narrow {
            by.entry((r.waking_ns - start) / 50_000_000).or_default()[usize::from(n)] += 1;
        }
    }
    eprintln!("{by:?} end {}", run.prepared.config.end_ns - start);
    let mut by: std::collections::BTreeMap<i32, [u32; 2]> = Default::default();
    for r in run.rows.flips.iter() {
        if let Some(n) = r.probe_narrow {
            by.entry(run.rows.tasks[r.wakee.0 as usize].pid)
                .or_default()[usize::from(n)] += 1;
        }
    }
    eprintln!("{by:?} tasks");
    let t = run
        .rows
        .tasks
        .iter()
        .find(|t| t.pid == task as i32 || (task < 250 && t.task.0 == task))
        .unwrap();
    let task = t.task.0;
    eprintln!("{t:?}");
    for r in &run.rows.flips {
        if r.waker.map(|w| w.0) == Some(task) {
            eprintln!(
                "{} W {:?} cpu{} -> {} sure {} flipped {:?} now {:?}",
                r.waking_ns, r.kernel, r.waker_cpu, r.wakee.0, r.sure, r.flipped, r.waker_flips
            );
        }
        if r.wakee.0 == task && r.probed.is_some() {
            eprintln!(
                "{} P {:?} inside {:?} free {:?} narrow {:?}",
                r.waking_ns, r.probed, r.probe_inside, r.free_inside, r.probe_narrow
            );
        }
    }
    for w in run
        .rows
        .wakeups
        .iter()
        .filter(|w| w.waker.map(|w| w.0) == Some(task))
    {
        eprintln!(
            "   {:?} {:?} wakee {} {:?} {:?}",
            w.waking_ns, w.class, w.wakee.0, w.selection, w.context
        );
    }
}
