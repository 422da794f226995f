//! An answer for tests of the layout, with every part filled.

use std::collections::BTreeMap;

use crate::attribute::answer::*;
use crate::replay::words::{Class, Origin, Path, Verdict, Waker};
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
            success: 80,
            fast_success: 60,
            failures: 20,
            missed: Known::Value(ByWord::new()),
            scanned: Known::unknown("a trace does not show it"),
            search_efficiency: Known::unknown("a trace does not show it"),
        },
        cross_llc: Known::unknown("not built yet"),
        migrations: Known::unknown("not built yet"),
        domains: Known::unknown("not built yet"),
        flips: Known::unknown("not built yet"),
        ipis: Known::unknown("not built yet"),
        throughput: Known::unknown("not built yet"),
        pairs: vec![pair("進捗進捗進", "sched-messaging"); 7],
        tasks: vec![task(&"\\u{1b}".repeat(15)); 7],
        llcs: Known::Value(Vec::new()),
        processes: Known::unknown("not built yet"),
        fitness: fitness(),
        compare: Known::unknown("not built yet"),
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
            llcs: Known::Value(vec![vec![0, 1], vec![2, 3]]),
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
    };
    Waits {
        count: 17_283_938,
        total_ns: 1_728_395_046_000,
        by_origin: by_word(Origin::ALL, Origin::as_str, OriginFacts::default()),
        by_verdict: by_word(Verdict::ALL, Verdict::as_str, facts),
        withheld: Withheld {
            count: 3,
            ns: 5_000,
        },
        withdrawn: Withdrawn {
            lost_events: 4,
            inconsistent: 1,
            lost_ns: same(0),
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
        by_verdict: waits().by_verdict,
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
    }
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
