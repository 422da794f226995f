//! Sections of the sample answer that the trace's questions beside wakeups and waits fill.

use std::collections::BTreeMap;

use super::{by_word, distances, latency, path, same, two};
use crate::attribute::answer::*;
use crate::replay::words::{
    Confidence, FlipPolicy, FlushReason, IpiFate, IpiKind, MigrationCause, Path,
};

pub fn estimate(value: f64) -> Estimate {
    Estimate {
        value,
        ci95: [value / 2.0, value * 2.0],
        n: 1_234,
    }
}

pub fn cross_llc() -> CrossLlc {
    let basis = || CrossLlcBasis {
        measure: CrossLlcMeasure::Time,
        per_wakeup_ns: Known::Value(estimate(12_345.0)),
        crossing: 1_234_567,
        compared_crossing: 1_234_567,
        coverage: 0.987,
        compared_staying: 1_234_567,
        compared_groups: 12,
        always_crossing: 0,
        samples: 100_000,
        confounders: CrossLlcConfounders {
            waker_overlap: Known::Value(0.9),
            busy_sibling: Known::unknown("not recorded"),
            idle_before_ns: Known::unknown("not recorded"),
            frequency: Known::unknown("not recorded"),
        },
        assumption: "an association",
    };
    CrossLlc {
        transit: Known::Value(estimate(12_345_678_901.0)),
        cold_cache: Known::Value(estimate(1_234_567_890.0)),
        transfer: Known::unknown("an interval that holds 0"),
        basis: CrossLlcBases {
            transit: basis(),
            cold_cache: basis(),
            transfer: basis(),
        },
    }
}

pub fn migrations() -> Migrations {
    let causes = |each| by_word(MigrationCause::ALL, MigrationCause::as_str, each);
    let by_confidence = by_word(Confidence::ALL, Confidence::as_str, 411_522);
    Migrations {
        total: 11_111_103,
        by_cause: by_word(
            MigrationCause::ALL,
            MigrationCause::as_str,
            distances(176_366),
        ),
        totals: causes(1_234_567),
        cross_llc_share: Known::Value(0.286),
        by_confidence: by_word(MigrationCause::ALL, MigrationCause::as_str, by_confidence),
        unsure_share: Known::Value(0.333),
        run_after_ns: by_word(
            MigrationCause::ALL,
            MigrationCause::as_str,
            distances(latency(1)),
        ),
        withdrawn: 1_234,
        inferred: 1_234,
        fork_placements: distances(1_234),
    }
}

pub fn bounces() -> Bounces {
    let pull = || Pull {
        cause: "wakeup",
        by: Known::Value("sched-messaging".to_owned()),
        by_pid: Known::Value(4_194_303),
        idle_left: same(3),
    };
    Bounces {
        within_ns: 10_000_000,
        count: 1_234_567,
        later: 12,
        tasks: 12_345,
        away_ns: latency(1),
        by_pullers: ByWord::new(),
        left_idle: two(1_234, 12_345),
        lost_ns: two(123_456_789, 1_234_567_890),
        worst: vec![BouncingTask {
            name: "sched-messaging".to_owned(),
            pid: 4_194_304,
            bounces: 1_234,
            left_idle: same(12),
            lost_ns: same(123_456),
            pulled_by: Vec::new(),
            examples: vec![Bounce {
                out_ns: 1_234_567_123_456_789,
                back_ns: 1_234_567_123_956_789,
                from_cpu: 0,
                to_cpu: 4,
                back_cpu: 1,
                out: pull(),
                back: pull(),
            }],
        }],
    }
}

pub fn domains() -> Domains {
    let cpus = BTreeMap::from([
        ("equal", Vec::new()),
        ("wider", (0..256).step_by(2).collect()),
        ("narrower", Vec::new()),
        ("crossing", Vec::new()),
    ]);
    Domains {
        masks: Known::Value(DomainMasks {
            domains: "the machine record".to_owned(),
            caches: "the machine record".to_owned(),
            cpus,
            differences: Vec::new(),
        }),
        behaviour: Known::Value(DomainBehaviour {
            placements: 1_234_567,
            outside: 123_456,
            outside_share: 0.1,
            tasks: 1_234,
            verdict: "wider",
            least: 10,
            least_share: 0.001,
            examples: Vec::new(),
        }),
    }
}

pub fn flips() -> Flips {
    let facts = |changed| PolicyFacts {
        wide: 1_234_567,
        affine: 1_234_567,
        undecided: 123_456,
        warming_up: 12_345,
        not_asked: 0,
        changed,
    };
    let mut policies = by_word(&FlipPolicy::SIX, FlipPolicy::as_str, facts(1_234_567));
    policies.insert("kernel", facts(0));
    let role = |role| RoleFacts {
        role,
        name: "進捗進捗進".to_owned(),
        pid: 4_194_304,
        wakeups: 1_234_567,
        partners: 12_345,
        effective_partners: 1_234.5,
        why: "it wakes many".to_owned(),
    };
    Flips {
        kernel_policy: "halve-new",
        hz: Hz {
            value: 250,
            source: "the machine record".to_owned(),
        },
        late_ns: 0,
        recorded: 2_604_935,
        perhaps: 1_234,
        judged: 2_604_935,
        decided_share: Known::Value(0.948),
        coverage: Known::Value(0.952),
        policies: Known::Value(policies),
        changes: Known::unknown("not shown"),
        factors: Known::Value(FactorFacts {
            sizes: vec![8],
            source: "the topology".to_owned(),
            halved: facts(123_456),
            doubled: facts(123_456),
        }),
        probe_check: Known::Value(FlipCheck {
            checked: 11_111,
            inside: 11_110,
            width_le_1: 11_000,
            inside_since_first: 11_111,
        }),
        pull_check: Known::Value(PullCheck {
            pulls: 12_345,
            affine: 12_300,
            wide: 1,
            undecided: 40,
            warming_up: 4,
        }),
        tasks: Vec::new(),
        roles: Roles {
            one_to_n: vec![role("1:N")],
            n_to_one: vec![role("N:1")],
            ping_pong: Vec::new(),
        },
    }
}

pub fn ipis() -> Ipis {
    let by_kind = by_word(IpiKind::ALL, IpiKind::as_str, 1_234_567);
    let requests = || Requests {
        total: 8_641_969,
        by_kind: by_kind.clone(),
    };
    Ipis {
        counted: "sends",
        total: 8_641_969,
        by_kind: by_kind.clone(),
        by_distance: distances(1_234_567),
        by_fate: by_word(IpiFate::ALL, IpiFate::as_str, 1_728_394),
        latency_ns: latency(1),
        latency_by_kind_ns: by_word(IpiKind::ALL, IpiKind::as_str, latency(1)),
        polled: requests(),
        queued: Known::Value(requests()),
        handlers: Known::Value(Handlers {
            count: 8_641_969,
            unexplained: 1_234,
            untimed: 0,
            ns: 12_345_678_901,
            stolen_ns: 12_345_678_901,
            idle_ns: 0,
            unknown_ns: 0,
        }),
        stolen_ns: Known::Value(12_345_678_901),
        stolen_by_kind_ns: Known::unknown("not shown"),
        stolen_from: Vec::new(),
        functions: Vec::new(),
        paths: by_word(
            Path::ALL,
            Path::as_str,
            RoadFacts {
                wakeups: 1_234_567,
                waker_cost_ns: latency(1),
                waker_cost_total_ns: Known::Value(123_456_789),
                interrupts: Known::Value(1_234_567),
                wakeups_per_interrupt: Known::Value(1.1),
                stolen_ns: Known::Value(123_456_789),
                idle_ns: Known::Value(123_456_789),
            },
        ),
        tlb: Known::Value(tlb()),
    }
}

fn tlb() -> Tlb {
    Tlb {
        flushes: 12_345_678,
        local: 11_111_111,
        remote: 1_234_567,
        by_reason: by_word(FlushReason::ALL, FlushReason::as_str, 1_234_567),
        pages_log2: vec![1_234_567; 6],
        empty: 0,
        full: 1_234_567,
        censored_above_pages: 33,
        ceiling_assumed: true,
        ranges: Known::unknown("no probe"),
        targets: Known::Value(12_345_678),
        targets_log2: Known::unknown("not shown"),
        untargeted: Known::Value(0),
        ipis_by_distance: Known::unknown("not shown"),
        initiator_wait_ns: latency(1),
        initiator_wait_total_ns: Known::Value(12_345_678_901),
        victims_ns: Known::Value(12_345_678_901),
        processes: Vec::new(),
    }
}

pub fn throughput() -> Throughput {
    Throughput {
        kind: "marker",
        unit: "marker wakelab".to_owned(),
        named_throughput: true,
        units: 3_000,
        units_missed_at_most: 99,
        span: UnitSpan {
            start_ns: 1_000_000_000,
            end_ns: 1_010_000_000,
        },
        per_second: 300_000.0,
        time_per_unit_ns: 3_333.3,
        wakeups: Known::Value(6_000),
        switches: Known::Value(12_000),
        ipis: Known::Value(6_000),
        wakeups_per_unit: Known::Value(2.0),
        switches_per_unit: Known::Value(4.0),
        ipis_per_unit: Known::Value(2.0),
        lost_capacity_share: Known::Value(two(0.078, 0.121)),
        tasks: vec!["sched-messaging".to_owned(); 3],
        by_task: Known::unknown("not shown"),
        per_thread: Known::Value(PerThread {
            units: spread(),
            run_ns: spread(),
        }),
        notes: Vec::new(),
        critical: PathFacts {
            running_within: RunningWithin {
                cold_cache: Known::Value(estimate(1e5)),
                transfer: Known::Value(estimate(2e5)),
                ..path().running_within
            },
            ..path()
        },
    }
}

fn spread() -> Spread {
    Spread {
        n: 12,
        mean: 1e9,
        min: 9e8,
        max: 11e8,
        range: 2e8,
        stddev_population: 1e8,
        stddev_sample: Known::Value(1e8),
    }
}

pub fn process() -> ProcessFacts {
    let spread = || Known::Value(spread());
    ProcessFacts {
        name: "\\u{1b}".repeat(15),
        tgid: 4_194_304,
        threads: 1_234,
        leaders: 1,
        run_ns: 123_456_789_000,
        llc_run_ns: Known::unknown("not shown"),
        co_residency: Known::Value(CoResidency {
            share: 0.526,
            preferred_llc: 0,
            preferred_changes: 12,
            llcs_at_once: 1.91,
            windows: Vec::new(),
        }),
        wakeups_inside: 1_234_567,
        cross_llc_wakeups: Known::Value(1_234),
        llc_moves: Known::Value(1_234_567),
        thread_run_ns: spread(),
        units: spread(),
    }
}
