//! An answer for tests of the layout, with every part filled.

mod sections;

use std::collections::BTreeMap;

use crate::attribute::answer::*;
use crate::replay::words::{Category, Class, Origin, Path, Verdict, Waker, Why};
use crate::topology::Distance;

fn by_word<W: Copy, T: Clone>(words: &[W], word: fn(W) -> &'static str, value: T) -> ByWord<T> {
    words.iter().map(|w| (word(*w), value.clone())).collect()
}

fn distances<T: Clone>(value: T) -> ByWord<T> {
    by_word(&Distance::ALL, Distance::as_str, value)
}

pub fn same<T: Copy>(value: T) -> Readings<T> {
    two(value, value)
}

pub fn two<T: Copy>(seen: T, any: T) -> Readings<T> {
    Readings {
        seen: Some(seen),
        any: Some(any),
    }
}

fn latency(scale: i64) -> Known<Quantiles> {
    Known::Value(Quantiles {
        count: 1_234_567,
        p50: 8_940 * scale,
        p99: 567_000 * scale,
        max: 12_345_678 * scale,
    })
}

/// An answer in which every table has every row.
pub fn answer() -> Answer {
    Answer {
        schema_version: SCHEMA_VERSION,
        trace: trace(),
        ledger: ledger(),
        wakeups: wakeups(),
        waits: waits(),
        sis: Sis {
            selections: 100,
            coverage: 0.9,
            success: 80,
            fast_success: 60,
            failures: 20,
            missed: Known::Value(ByWord::new()),
            scanned: Known::unknown("a trace does not show it"),
            search_efficiency: Known::unknown("a trace does not show it"),
        },
        cross_llc: Known::Value(sections::cross_llc()),
        migrations: Known::Value(sections::migrations()),
        domains: Known::Value(sections::domains()),
        flips: FlipsAndBounces {
            decisions: Known::Value(sections::flips()),
            bounces: Known::Value(sections::bounces()),
        },
        ipis: Known::Value(sections::ipis()),
        throughput: Known::Value(sections::throughput()),
        pairs: vec![pair("進捗進捗進", "sched-messaging"); 7],
        tasks: vec![task(&"\\u{1b}".repeat(15)); 7],
        llcs: Known::Value(Vec::new()),
        processes: Known::Value(vec![sections::process(); 7]),
        fitness: fitness(),
        compare: Known::unknown("one trace alone"),
        caveats: vec!["The first 12.3 ms of CPUs 0-3 are unknown. ".repeat(4); 9],
    }
}

fn trace() -> TraceFacts {
    TraceFacts {
        format: "trace.dat v7 zstd".to_owned(),
        kernel_release: Known::Value("6.12.113".to_owned()),
        kernel_model: "6.12 (release 6.12.113)".to_owned(),
        clock: "local".to_owned(),
        start_ns: 1_000_000_000,
        end_ns: 3_000_000_000,
        events: 9_876_543,
        events_by_name: BTreeMap::new(),
        lost_events: 137,
        cpus: (0..256).collect(),
        topology: TopologyFacts {
            source: "the perf.data header".to_owned(),
            llcs: Known::Value(vec![(0..128).collect(), (128..256).collect()]),
            cores: Known::unknown("no source tells"),
            l2s: Known::unknown("no source tells"),
            nodes: Known::unknown("no source tells"),
        },
        recorder: Known::Value(RecorderFacts {
            tasks: 3,
            running_ns: 12_300_000,
            running_share: 0.001,
            wakeups: 1_234,
            waits: 123,
            left_out: true,
        }),
    }
}

/// A ledger whose largest loss is `waiting-llc core`, and whose readings differ.
pub fn ledger() -> Ledger {
    Ledger {
        total_ns: 512_000_000_000,
        unknown_ns: 1_000_000,
        unknown_share: 0.000_002,
        running_ns: 300_000_000_000,
        running_share: 0.586,
        transit_ns: 5_000_000_000,
        transit_share: 0.0098,
        waiting_llc_ns: Known::Value(WaitingLlc {
            core: two(40_000_000_000, 60_000_000_000),
            smt: two(1_000_000_000, 2_000_000_000),
        }),
        waiting_llc_share: Known::Value(WaitingLlc {
            core: two(0.078, 0.117),
            smt: two(0.002, 0.004),
        }),
        waiting_machine_ns: Known::Value(two(0, 123_456)),
        waiting_machine_share: Known::Value(two(0.0, 0.000_000_2)),
        waiting_ns: two(41_000_000_000, 62_000_123_456),
        waiting_share: two(0.08, 0.121),
        idle_ns: two(165_999_000_000, 144_998_876_544),
        idle_share: two(0.324, 0.283),
    }
}

fn wakeups() -> Wakeups {
    let by_distance = distances(1_234_567);
    let latency_by_distance = distances(latency(1));
    Wakeups {
        total: 8_641_969,
        coverage: 0.987,
        by_class: by_word(Class::ALL, Class::as_str, 5),
        by_path: by_word(Path::ALL, Path::as_str, 1_234_567),
        per_waker_cpu: BTreeMap::new(),
        by_distance: ByDistance {
            waker_chosen: by_distance.clone(),
            prev_chosen: by_distance.clone(),
            waker_prev: by_distance,
        },
        by_waker: by_word(Waker::ALL, Waker::as_str, 5),
        latency_ns: latency(3),
        queue_ns: latency(2),
        waker_cost_ns: latency(1),
        latency_by_path_ns: by_word(Path::ALL, Path::as_str, latency(1)),
        latency_by_distance_ns: LatencyByDistance {
            waker_chosen: latency_by_distance.clone(),
            prev_chosen: latency_by_distance.clone(),
            waker_prev: latency_by_distance,
        },
        cross_llc_share: Known::Value(0.5),
        smt_shared: Known::Value(1_234),
        probe_check: Known::Value(ProbeCheck {
            checked: 3_000,
            prev_equal: 2_999,
            chosen_equal: 3_000,
        }),
        probed: Known::Value(Probed {
            selections: 12_345_678,
            sync: Known::Value(5_061_728),
            masks: 12_345_678,
            flips_max: Known::Value(12_345),
        }),
    }
}

fn waits() -> Waits {
    let facts = VerdictFacts {
        count: two(1_234_567, 1_234_568),
        wait_ns: two(123_456_789_000, 123_456_789_000),
        wait_share: same(0.071),
        lost_ns: two(2_900_000_000, 4_400_000_000),
        lost_share: two(0.0057, 0.0086),
    };
    Waits {
        count: 17_283_938,
        coverage: 0.999,
        total_ns: 1_728_395_046_000,
        by_origin: by_word(Origin::ALL, Origin::as_str, OriginFacts::default()),
        by_verdict: by_word(Verdict::ALL, Verdict::as_str, facts),
        withheld: Withheld {
            count: 3,
            ns: 5_000,
            share: 0.000_000_002_9,
        },
        withdrawn: Withdrawn {
            lost_events: 4,
            inconsistent: 1,
            ns: 9_000,
            share: 0.000_000_005_2,
            lost_ns: same(0),
            lost_share: same(0.0),
        },
    }
}

fn pair(waker: &str, wakee: &str) -> PairFacts {
    PairFacts {
        waker: waker.to_owned(),
        waker_pid: 4_194_303,
        wakee: wakee.to_owned(),
        wakee_pid: 4_194_304,
        wakeups: 1_234_567,
        by_path: by_word(Path::ALL, Path::as_str, 5),
        waker_chosen: distances(5),
        cross_llc_share: Known::Value(0.9999),
        cross_llc: Known::unknown("not built yet"),
        latency_ns: latency(1),
        wait_ns: 123_456_789,
        lost_ns: two(2_900_000_000, 4_400_000_000),
        by_verdict: pair_verdicts(),
        preempted: OriginFacts::default(),
        one_cpu: Some(OneCpu {
            cpu: 4095,
            since_ns: 1_000_000_000,
        }),
        stacked: Known::Value(same(12)),
        overlap_ns: Known::unknown("fewer than 30 samples"),
        cost_of_spreading_ns: Known::unknown("fewer than 30 samples"),
        stack_or_spread: "undecided",
        stack_or_spread_why: "fewer than 30 samples".to_owned(),
        worst_wait: moment(),
    }
}

fn task(name: &str) -> TaskFacts {
    TaskFacts {
        name: name.to_owned(),
        pid: 4_194_304,
        generation: 0,
        run_ns: 123_456_789_000,
        wait_ns: 99_123_456_789,
        lost_ns: two(2_900_000_000, 4_400_000_000),
        withheld: 0,
        wakeups_made: 1_234_567,
        wakeups_received: 1_234_567,
        migrations: 1_234_567,
        cross_llc: Known::unknown("not built yet"),
        latency_ns: latency(1),
        worst_wait: moment(),
    }
}

fn moment() -> Known<Moment> {
    Known::Value(Moment {
        start_ns: 1_234_567_123_456_789,
        end_ns: 1_234_567_223_456_789,
        cpu: 4095,
        wait_ns: 100_000_000,
        lost_ns: 99_000_000,
        verdict: two("no-selection", "kthread-stack"),
    })
}

fn fitness() -> Fitness {
    let fit = |fit: &'static str| Fit {
        fit,
        why: "events were lost on CPUs 0-3".to_owned(),
        coverage: 0.9,
    };
    Fitness {
        latency: fit("partly"),
        missed_idle: fit("yes"),
        cross_llc: fit("no"),
        flips: fit("no"),
        ipis: fit("no"),
        throughput: fit("no"),
    }
}

/// A path of 10 ms, of which every category has some.
pub fn path() -> PathFacts {
    const MS: i64 = 1_000_000;
    let part = |ns: i64| PathPart {
        count: 10,
        ns,
        share: ns as f64 / (10 * MS) as f64,
    };
    let tasks = || PathTasks {
        tasks: vec![PathTask {
            name: "lab-waker".to_owned(),
            pid: 1234,
            ns: MS,
            share: 0.1,
        }],
        others_ns: 0,
        others_share: 0.0,
    };
    let mut path_ns = by_word(Category::ALL, Category::as_str, MS);
    path_ns.insert("transit", 3 * MS);
    path_ns.insert("wait", 2 * MS);
    let share = |ns: i64| ns as f64 / (10 * MS) as f64;
    let mut transit_by_path = by_word(Path::ALL, Path::as_str, part(0));
    transit_by_path.insert("queued-ipi", part(3 * MS));
    let mut transit_by_distance = distances(part(0));
    transit_by_distance.insert("node", part(3 * MS));
    let verdict = |ns: i64| PathVerdict {
        count: same(1),
        ns: same(ns),
        share: same(share(ns)),
        gain_at_most: Known::Value(same(0.0)),
    };
    let mut by_verdict = by_word(Verdict::ALL, Verdict::as_str, verdict(0));
    by_verdict.insert("stacked-pull", verdict(2 * MS));
    let gain = |ns: i64| Known::Value(ns as f64 / (10 * MS - ns) as f64);
    PathFacts {
        path_share: path_ns
            .iter()
            .map(|(word, ns)| (*word, share(*ns)))
            .collect(),
        gain_at_most: path_ns
            .iter()
            .map(|(word, ns)| match *word {
                "running" | "blocked" | "unknown" => (*word, Known::unknown("not a cost")),
                _ => (*word, gain(*ns)),
            })
            .collect(),
        path_ns,
        gain_assumption: "order and placement as recorded",
        running_within: RunningWithin {
            cold_cache: Known::unknown("not estimated"),
            transfer: Known::unknown("not estimated"),
            basis: WithinBases {
                cold_cache: WithinBasis::default(),
                transfer: WithinBasis::default(),
            },
        },
        path: PathDetail {
            start_ns: 0,
            end_ns: 10 * MS,
            total_ns: 10 * MS,
            not_shown: ByWord::new(),
            wakeups: 10,
            wakeups_by_waker: by_word(Waker::ALL, Waker::as_str, 1),
            wakeups_cross_llc: Known::Value(5),
            running: tasks(),
            transit: PathTransit {
                by_path: transit_by_path,
                by_distance: transit_by_distance,
                gain_at_most_by_path: by_word(Path::ALL, Path::as_str, Known::Value(0.0)),
            },
            wait: PathWait {
                by_origin: by_word(Origin::ALL, Origin::as_str, part(0)),
                by_verdict,
                meanwhile: PathMeanwhile {
                    ran: tasks(),
                    idle_ns: 0,
                    idle_share: 0.0,
                    unknown_ns: 0,
                    unknown_share: 0.0,
                },
            },
            blocked: by_word(Waker::ALL, Waker::as_str, part(MS)),
            unknown: by_word(Why::ALL, Why::as_str, part(MS)),
            spread: Known::Value(PathSpread {
                windows: 8,
                share: by_word(
                    Category::ALL,
                    Category::as_str,
                    PathRange {
                        min: 0.1,
                        median: 0.2,
                        max: 0.3,
                    },
                ),
            }),
            longest: vec![PathMoment {
                start_ns: 1_234_567_123_456_789,
                end_ns: 1_234_567_123_956_789,
                category: "transit",
                why: "queued-coalesced",
                name: "sched-messaging".to_owned(),
                pid: 4_194_304,
                cpu: Some(4095),
            }],
        },
    }
}

/// Of a pair's waiting half is stacked if any CPU is allowed.
fn pair_verdicts() -> ByWord<VerdictFacts> {
    let facts = |seen, any| VerdictFacts {
        count: two(12, 12),
        wait_ns: two(seen, any),
        wait_share: two(seen as f64 / 123_456_789.0, any as f64 / 123_456_789.0),
        lost_ns: two(0, any),
        lost_share: same(0.0),
    };
    let mut verdicts = by_word(Verdict::ALL, Verdict::as_str, facts(0, 0));
    verdicts.insert("stacked-prev", facts(0, 61_728_394));
    verdicts
}
