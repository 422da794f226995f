//! The replay against what the kernel itself counted and chose, on traces of a guest of known topology.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::*;
use ttwu::pipeline::{RunOptions, TimePoint};
use ttwu::replay::words::{Class, LedgerRow, Path as Road, Reading, Verdict, Waker};

/// The window between the two readings of `/proc/schedstat`.
fn counted_window(folder: &Path) -> RunOptions {
    RunOptions {
        from: Some(TimePoint::Marker("window-start".into())),
        to: Some(TimePoint::Marker("window-end".into())),
        ..lab_options(folder)
    }
}

/// `(ttwu_count, ttwu_local)` by CPU.
fn schedstat(path: &Path) -> BTreeMap<u32, (i64, i64)> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter_map(|line| {
            let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
            let fields: Vec<i64> = rest.split(' ').map(|f| f.parse().unwrap()).collect();
            Some((cpu.parse().unwrap(), (fields[4], fields[5])))
        })
        .collect()
}

#[test]
fn wakeups_per_cpu_equal_the_kernels_count() {
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &counted_window(&folder));
        let before = schedstat(&folder.join("schedstat.trace.before"));
        let after = schedstat(&folder.join("schedstat.trace.after"));
        let made = |cpu: u32, local: bool| {
            run.rows
                .wakeups
                .iter()
                .filter(|w| {
                    w.in_window
                        && w.class != Class::New
                        && w.waker_cpu == Some(cpu)
                        && (!local || w.chosen_cpu == Some(cpu))
                })
                .count() as i64
        };
        let mut total = 0;
        for (cpu, (count, local)) in &after {
            let (count_before, local_before) = before[cpu];
            let (count, local) = (count - count_before, local - local_before);
            // The readers of the counters wake a few tasks between the readings and the markers.
            let off = count - made(*cpu, false);
            assert!(
                (-4..=8).contains(&off),
                "{} cpu {cpu}: schedstat {count}, trace {}",
                name(&folder),
                made(*cpu, false)
            );
            let off = local - made(*cpu, true);
            assert!(
                (-4..=8).contains(&off),
                "{} cpu {cpu} local: schedstat {local}, trace {}",
                name(&folder),
                made(*cpu, true)
            );
            total += count;
        }
        assert!(total > 100, "{}: the check counted nothing", name(&folder));
    }
}

/// `ttwu_wake_remote` by CPU: within the domains that lie inside its LLC, and in the wider ones.
fn remote_by_level(path: &Path, llc_of: &dyn Fn(u32) -> Vec<u32>) -> BTreeMap<u32, (i64, i64)> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut levels = BTreeMap::new();
    let mut cpu = 0;
    for line in text.lines() {
        if let Some((number, _)) = line.strip_prefix("cpu").and_then(|r| r.split_once(' ')) {
            cpu = number.parse().unwrap();
            levels.insert(cpu, (0, 0));
        }
        if line.starts_with("domain") {
            let fields: Vec<&str> = line.split(' ').collect();
            let span = ttwu_parsers::topology::cpulist::parse_mask(fields[1]).unwrap();
            // The last three counters are ttwu_wake_remote, ttwu_move_affine and ttwu_move_balance.
            let remote: i64 = fields[fields.len() - 3].parse().unwrap();
            let near = span.iter().all(|c| llc_of(cpu).contains(c));
            let level: &mut (i64, i64) = levels.get_mut(&cpu).unwrap();
            if near {
                level.0 += remote;
            } else {
                level.1 += remote;
            }
        }
    }
    levels
}

#[test]
fn wakeups_across_llcs_equal_the_kernels_count_by_domain() {
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &counted_window(&folder));
        let topology = &run.prepared.machine.topology;
        let llc_of = |cpu: u32| {
            let same = |c: &&u32| topology.llc_id(**c) == topology.llc_id(cpu);
            topology.cpus().iter().filter(same).copied().collect()
        };
        let before = remote_by_level(&folder.join("schedstat.trace.before"), &llc_of);
        let after = remote_by_level(&folder.join("schedstat.trace.after"), &llc_of);
        let (mut near_total, mut far_total) = (0, 0);
        for (cpu, (near, far)) in &after {
            let counted = (near - before[cpu].0, far - before[cpu].1);
            let made = |cross: bool| {
                run.rows
                    .wakeups
                    .iter()
                    .filter(|w| {
                        w.in_window
                            && w.class != Class::New
                            && w.waker_cpu == Some(*cpu)
                            && w.chosen_cpu != Some(*cpu)
                            && w.cross_llc == Some(cross)
                    })
                    .count() as i64
            };
            let found = (made(false), made(true));
            let name = name(&folder);
            assert!(
                (counted.0 - found.0).abs() <= 8,
                "{name} {cpu}: {counted:?} {found:?}"
            );
            assert!(
                (counted.1 - found.1).abs() <= 8,
                "{name} {cpu}: {counted:?} {found:?}"
            );
            near_total += counted.0;
            far_total += counted.1;
        }
        println!(
            "{}: {near_total} remote in the LLC, {far_total} across",
            name(&folder)
        );
        assert!(near_total + far_total > 0);
    }
}

#[test]
fn previous_and_chosen_cpu_equal_the_kernels_own() {
    let mut least = BTreeMap::from([("pair-free", 3_000), ("fanout", 3_000)]);
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        if !run.prepared.config.recorded.probes {
            continue;
        }
        let counts = &run.counts;
        println!(
            "{}: {} selections, previous equal {}, chosen equal {}",
            name(&folder),
            counts.probes_checked,
            counts.probes_prev_equal,
            counts.probes_chosen_equal
        );
        // 99.9 %; of a few dozen one may differ: the probe shows `wake_cpu`, which an affinity change of a
        // sleeper moves away from the CPU it last ran on.
        let enough =
            |equal: u64| counts.probes_checked - equal <= (counts.probes_checked / 1000).max(1);
        assert!(enough(counts.probes_prev_equal), "{}", name(&folder));
        assert!(enough(counts.probes_chosen_equal), "{}", name(&folder));
        assert!(counts.probes_checked > 0, "{}", name(&folder));
        if let Some(least) = least.remove(name(&folder).as_str()) {
            assert!(counts.probes_checked >= least, "{}", name(&folder));
        }
    }
    assert!(
        !least.contains_key("fanout"),
        "fanout is among the fixtures"
    );
}

/// The wakeups between the workload's two threads, in both directions.
fn pair_wakeups(run: &Replayed) -> Vec<&ttwu::replay::rows::WakeupRow> {
    let named = |id: ttwu::replay::rows::TaskId| {
        let comm = run.rows.tasks[id.0 as usize].comm;
        matches!(comm.as_bytes(), b"lab-waker" | b"lab-wakee")
    };
    run.rows
        .wakeups
        .iter()
        .filter(|w| w.class != Class::New && named(w.wakee) && w.waker.is_some_and(named))
        .collect()
}

fn folder(wanted: &str) -> Option<std::path::PathBuf> {
    lab_folders().into_iter().rfind(|f| name(f) == wanted)
}

/// Between the workload's own markers, when its threads are pinned.
fn at_work(folder: &Path) -> RunOptions {
    RunOptions {
        from: Some(TimePoint::Marker("wakelab start".into())),
        to: Some(TimePoint::Marker("wakelab end".into())),
        ..lab_options(folder)
    }
}

#[test]
fn a_stacked_pair_chooses_the_wakers_cpu() {
    let folder = folder("stack").unwrap();
    let run = run(&folder.join("trace.dat"), &at_work(&folder));
    let wakeups = pair_wakeups(&run);
    let inside: Vec<_> = wakeups.iter().filter(|w| w.in_window).collect();
    let same = inside
        .iter()
        .filter(|w| w.chosen_cpu == w.waker_cpu)
        .count();
    println!("stack: {same} of {} on the waker's CPU", inside.len());
    assert!(inside.len() > 1000);
    assert!(same * 100 >= inside.len() * 99);
}

#[test]
fn a_pair_pinned_across_llcs_crosses_them() {
    let folder = folder("pair-xllc").unwrap();
    let run = run(&folder.join("trace.dat"), &at_work(&folder));
    let wakeups = pair_wakeups(&run);
    let inside: Vec<_> = wakeups.iter().filter(|w| w.in_window).collect();
    let cross = inside.iter().filter(|w| w.cross_llc == Some(true)).count();
    println!("pair-xllc: {cross} of {} cross", inside.len());
    assert!(inside.len() > 1000);
    assert!(cross * 100 >= inside.len() * 99);
}

#[test]
fn the_queueing_feature_decides_between_queued_and_direct() {
    for (kind, queued) in [
        ("stream-queue", true),
        ("udp-queue", true),
        ("stream-noqueue", false),
        ("udp-noqueue", false),
    ] {
        let Some(folder) = folder(kind) else {
            continue;
        };
        let run = run(&folder.join("trace.dat"), &at_work(&folder));
        let wakeups = pair_wakeups(&run);
        let count = |class: Class| {
            wakeups
                .iter()
                .filter(|w| w.in_window && w.class == class)
                .count()
        };
        let classes: Vec<_> = Class::ALL.iter().map(|&c| (c.as_str(), count(c))).collect();
        println!("{kind}: {classes:?}");
        let soft = wakeups
            .iter()
            .filter(|w| matches!(w.context, Waker::SoftirqUnknown | Waker::SoftirqInline))
            .count();
        if kind.starts_with("udp") {
            assert!(
                soft * 2 > wakeups.len(),
                "{kind}: wakeups come from softirq"
            );
        }
        assert!(wakeups.len() > 200, "{kind}: the pair was found");
        let direct = count(Class::Direct) + count(Class::DirectOrDelayed);
        if queued {
            assert!(count(Class::Queued) > 10 * direct, "{kind}");
        } else {
            assert_eq!(count(Class::Queued), 0, "{kind}");
            assert!(direct > 100, "{kind}");
        }
    }
}

#[test]
fn everything_sums() {
    for folder in lab_folders() {
        for options in [lab_options(&folder), counted_window(&folder)] {
            let run = run(&folder.join("trace.dat"), &options);
            check_sums(&run, &name(&folder));
        }
    }
}

fn check_sums(run: &Replayed, name: &str) {
    let duration = run.prepared.config.window.duration_ns();
    let mut totals = [[0_i64; 7]; 2];
    for cpu in &run.rows.cpus {
        for (reading, total) in [Reading::Seen, Reading::Any].into_iter().zip(&mut totals) {
            let rows = cpu.ledger[reading];
            assert_eq!(rows.iter().sum::<i64>(), duration, "{name} cpu {}", cpu.cpu);
            total.iter_mut().zip(rows).for_each(|(t, r)| *t += r);
        }
    }
    let running: i64 = run.rows.tasks.iter().map(|t| t.run_ns).sum();
    for (reading, total) in [Reading::Seen, Reading::Any].into_iter().zip(totals) {
        let row = |row: LedgerRow| total[usize::from(row.code())];
        assert_eq!(
            row(LedgerRow::Running),
            running,
            "{name}: task time is CPU time"
        );
        let waiting = row(LedgerRow::WaitingLlcCore)
            + row(LedgerRow::WaitingLlcSmt)
            + row(LedgerRow::WaitingMachine);
        let by_task: i64 = run.rows.tasks.iter().map(|t| t.lost_ns[reading]).sum();
        assert_eq!(by_task, waiting, "{name}: lost time by task");
        let by_wait: i64 = run.rows.waits.iter().map(|w| w.lost_ns[reading]).sum();
        assert_eq!(
            by_wait + run.counts.withdrawn_lost_ns[reading],
            waiting,
            "{name}: lost time by wait"
        );
    }
    assert!(running > 0);
}

#[test]
fn windows_add_up_to_the_whole() {
    for folder in lab_folders() {
        let path = folder.join("trace.dat");
        let whole = run(&path, &lab_options(&folder));
        let (start, end) = (whole.prepared.config.start_ns, whole.prepared.config.end_ns);
        let cuts = [
            start,
            start + (end - start) / 3,
            start + (end - start) / 2 + 7,
            end,
        ];
        let parts: Vec<Replayed> = cuts
            .windows(2)
            .map(|w| {
                let options = RunOptions {
                    from: Some(TimePoint::At(w[0])),
                    to: Some(TimePoint::At(w[1])),
                    ..lab_options(&folder)
                };
                run(&path, &options)
            })
            .collect();
        let name = name(&folder);
        for (index, task) in whole.rows.tasks.iter().enumerate() {
            let sum = |of: &dyn Fn(&ttwu::replay::rows::TaskRow) -> i64| {
                parts.iter().map(|p| of(&p.rows.tasks[index])).sum::<i64>()
            };
            assert_eq!(sum(&|t| t.run_ns), task.run_ns, "{name}");
            assert_eq!(sum(&|t| t.wait_ns), task.wait_ns, "{name}");
            for reading in [Reading::Seen, Reading::Any] {
                let whole = task.lost_ns[reading];
                assert_eq!(sum(&|t| t.lost_ns[reading]), whole, "{name}");
            }
            let made = |t: &ttwu::replay::rows::TaskRow| t.wakeups_made as i64;
            assert_eq!(sum(&made), task.wakeups_made as i64, "{name}");
        }
        for (index, cpu) in whole.rows.cpus.iter().enumerate() {
            for reading in [Reading::Seen, Reading::Any] {
                for row in LedgerRow::ALL {
                    let at = usize::from(row.code());
                    let sum: i64 = parts
                        .iter()
                        .map(|p| p.rows.cpus[index].ledger[reading][at])
                        .sum();
                    assert_eq!(sum, cpu.ledger[reading][at], "{name} {row:?}");
                }
            }
        }
    }
}

#[test]
fn the_model_explains_the_events() {
    for folder in lab_folders() {
        let run = run(&folder.join("trace.dat"), &lab_options(&folder));
        let total = run.rows.wakeups.len() as u64;
        let anomalies = run
            .rows
            .wakeups
            .iter()
            .filter(|w| w.class == Class::Anomaly)
            .count();
        let unknown = run
            .rows
            .wakeups
            .iter()
            .filter(|w| w.verdict[Reading::Any] == Some(Verdict::Unknown))
            .count();
        let paths = |road: Road| run.rows.wakeups.iter().filter(|w| w.path == road).count();
        println!(
            "{}: {total} wakeups, {anomalies} anomalies, {unknown} unknown, paths {:?}, {:?}",
            name(&folder),
            Road::ALL
                .iter()
                .map(|&r| (r.as_str(), paths(r)))
                .collect::<Vec<_>>(),
            run.counts
        );
        assert!(anomalies as u64 * 100 <= total, "{}", name(&folder));
        assert_eq!(run.counts.backward_stamps, 0);
        assert!(run.counts.ran_without_wakeup * 200 <= total);
        assert!(run.counts.switch_mismatches * 200 <= total);
    }
}
