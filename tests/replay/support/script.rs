//! Traces written by hand: one event a line, for tests whose answers are worked out on paper.
//!
//! ```text
//! TIME CPU PID[/FLAGS] EVENT ARGUMENTS
//! 100  0   10          waking 20 prev=1          sched_waking of pid 20, last on CPU 1
//! 110  0   10          wakeup 20 to=1            sched_wakeup, enqueued on CPU 1
//! 120  1   0           switch 0:R 20             sched_switch: pid 0 leaves as R, pid 20 comes
//! 130  0   10          new 30 to=0               sched_wakeup_new
//! 140  0   10          migrate 20 1 0            sched_migrate_task from CPU 1 to 0
//! 150  0   10          ipi 1 | poll 1 | csd 1    ipi_send_cpu, sched_wake_idle_without_ipi, csd_queue_cpu
//! 155  0   10          ipi 1 cb=7 site=3         ipi_send_cpu with a callback; vec single | vec-end single
//! 156  0   10          ipi-mask 1,2 cb=7         ipi_send_cpumask; csd takes fn= and csd=
//! 157  1   20          csd-in fn=2 csd=5 | csd-out fn=2 csd=5    csd_function_entry and _exit
//! 158  0   10          tlb 4 33 | range 0 135168 shift=12        tlb_flush with reason and pages; the probe's range
//! 159  0   10          ipi-raise 1,2 17 | ipi-in 17 | ipi-out 17     arm64's events, by a reason's address
//! 160  1   20          sel 20 prev=1 nr=4 | selret 0     the probes; sel may have mask=, flags= and flips=
//! 170  0   10          fork 30 | exec 11 10 | exit | raise 3 | softirq 3 | softirq-end 3 | mark TEXT | setaffinity 0
//! 174  0   10          newtask 30 [thread]       task_newtask, with CLONE_THREAD or not
//! 175  0   10          numa 20 | numa 20 30     sched_move_numa, sched_swap_numa
//! 180  1   0           lost 7 | lost-end
//! 190  1   20          counters 900 450          cycles and instructions, ahead of the switch they come with
//! ```
//! FLAGS are letters: `h` hardirq, `s` softirq, `n` NMI. A pid's name is `tPID`, its priority 120, unless
//! `name PID NAME [PRIO]` stands before. Lines starting with `#` are comments.

use std::collections::HashMap;

use ttwu::replay::cpuset::CpuMap;
use ttwu::replay::flips::{Setup, SetupInput};
use ttwu::replay::ledger::Window;
use ttwu::replay::model::KernelModel;
use ttwu::replay::resolver::{Recorded, Resolver};
use ttwu::replay::rows::{TaskRow, WaitRow, WakeupRow};
use ttwu::replay::snapshot::Snapshot;
use ttwu::replay::survey::Survey;
use ttwu::replay::units::Work;
use ttwu::replay::words::{LedgerRow, Reading};
use ttwu::replay::{Config, Counts, IpiFacts, Machine, Reason, Replay};
use ttwu::topology::Topology;
use ttwu_parsers::event::*;
use ttwu_parsers::machine_record::MachineRecord;
use ttwu_parsers::print_fmt::PrevState;
use ttwu_parsers::topology::parse_spec;

use super::Rows;

/// A hand-written trace, ready to be replayed under changed settings.
pub struct Script {
    pub events: Vec<Event>,
    pub topology: String,
    pub version: (u32, u32),
    pub window: Option<(i64, i64)>,
    pub settle_ns: i64,
    pub readings: Vec<Reading>,
    /// Whether every CPU's buffer held everything from the start.
    pub complete: bool,
    /// What is known of tasks alive at the start.
    pub snapshot: Snapshot,
    pub include_recorder: bool,
    /// What is counted as a unit of work.
    pub work: Option<Work>,
    /// What else the trace would hold if it had happened.
    pub recorded: Recorded,
    /// Whether the trace has symbols and strings: functions 1 `sched_ttwu_pending`, 2 `flush_tlb_func`, 9 the generic one;
    /// reasons 17 reschedule, 18 call, 19 irq work, 20 timer.
    pub symbols: bool,
    /// What is known of the machine beside its topology.
    pub record: MachineRecord,
}

/// A trace that was replayed.
pub struct Played {
    pub rows: Rows,
    pub counts: Counts,
    pub config: Config,
    pub machine: Machine,
    pub survey: Survey,
}

impl Script {
    pub fn new(topology: &str, text: &str) -> Self {
        Self {
            events: parse(text),
            topology: topology.to_owned(),
            version: (6, 12),
            window: None,
            settle_ns: 5,
            readings: vec![Reading::Seen, Reading::Any],
            complete: true,
            snapshot: Snapshot::default(),
            include_recorder: false,
            work: None,
            recorded: Recorded {
                exec: true,
                set_affinity: true,
                numa: true,
                ..Recorded::default()
            },
            symbols: true,
            record: MachineRecord::default(),
        }
    }

    /// The same trace with one line (by its stamp and CPU) replaced by others.
    pub fn with(&self, ts: i64, cpu: u32, lines: &str) -> Self {
        let mut events = self.events.clone();
        let at = events
            .iter()
            .position(|e| e.ts == ts && e.cpu == cpu)
            .expect("a line with that stamp and CPU");
        events.splice(at..=at, parse(lines));
        events.sort_by_key(|e| e.ts);
        Self {
            events,
            topology: self.topology.clone(),
            readings: self.readings.clone(),
            snapshot: self.snapshot.clone(),
            work: self.work.clone(),
            record: self.record.clone(),
            ..*self
        }
    }

    pub fn run(&self) -> (Rows, Counts) {
        let played = self.play();
        (played.rows, played.counts)
    }

    /// Replays it, and keeps what it was replayed with.
    pub fn play(&self) -> Played {
        let survey = Survey::of_events(&self.events, TYPES);
        let ids = survey.cpu_ids();
        let topology = match self.topology.as_str() {
            "" => Topology::unknown(&ids, "not given"),
            spec => Topology::new(parse_spec(spec).expect("a SPEC"), "SPEC", &ids),
        };
        let cpus = CpuMap::new(
            ids.into_iter()
                .chain(topology_cpus(&self.topology))
                .collect(),
        );
        let machine = Machine { cpus, topology };
        let (start_ns, end_ns) = survey.span.expect("events");
        let (from_ns, to_ns) = self.window.unwrap_or((start_ns, end_ns));
        let has = |wanted: fn(&Payload) -> bool| self.events.iter().any(|e| wanted(&e.payload));
        let model = KernelModel {
            version: self.version,
            source: "test".to_owned(),
        };
        let flips = Setup::new(&SetupInput {
            record: &self.record,
            machine: &machine,
            model: &model,
            ticks: &survey.ticks,
            start_ns,
            forks_recorded: true,
        });
        let config = Config {
            window: Window {
                from_ns,
                to_ns,
                closed: to_ns == end_ns,
            },
            start_ns,
            end_ns,
            settle_ns: self.settle_ns,
            readings: self.readings.clone(),
            model,
            recorded: Recorded {
                waking: has(|p| matches!(p, Payload::Waking(_))),
                wakeup: has(|p| matches!(p, Payload::Wakeup(_))),
                ipi_send: self.version >= (6, 4),
                probes: has(|p| matches!(p, Payload::Select(_))),
                first_send_is_queueing: self.version == (6, 4),
                ..self.recorded
            },
            known_from_start: if self.complete {
                let known = survey.cpus.iter().filter(|c| c.first_pid >= 0);
                known.map(|c| (c.cpu, c.first_pid)).collect()
            } else {
                Vec::new()
            },
            online_cpus: machine.cpus.len(),
            snapshot: self.snapshot.clone(),
            ipis: self.ipi_facts(),
            include_recorder: self.include_recorder,
            work: self.work.clone(),
            flips,
        };
        let mut rows = Rows::default();
        let mut replay = Replay::new(&config, &machine, &survey, &mut rows);
        let mut resolver = Resolver::new(config.recorded).marking(config.work.as_ref());
        for event in &self.events {
            resolver.feed(&mut event.clone());
        }
        resolver.finish();
        while let Some(batch) = resolver.take() {
            replay.replay(&batch);
        }
        let counts = replay.finish();
        Played {
            rows,
            counts,
            config,
            machine,
            survey,
        }
    }
}

impl Script {
    /// As [`IpiFacts::new`] finds it out.
    fn ipi_facts(&self) -> IpiFacts {
        let has = |wanted: fn(&Payload) -> bool| self.events.iter().any(|e| wanted(&e.payload));
        let known = |function: u64| self.symbols.then_some(function);
        let entry = |vector: Vector| {
            let mut events = self.events.iter();
            events.any(|e| e.payload == Payload::VectorEntry(vector))
        };
        IpiFacts {
            sends: has(|p| matches!(p, Payload::IpiSendCpu { .. } | Payload::IpiSendMask { .. })),
            first_send_is_queueing: self.version == (6, 4),
            reschedule_entries: entry(Vector::Reschedule),
            single_entries: entry(Vector::CallFunctionSingle),
            many_entries: entry(Vector::CallFunction),
            entries: has(|p| matches!(p, Payload::IpiEntry { .. })),
            csd_queues: has(|p| matches!(p, Payload::CsdQueue { .. })),
            csd_entries: has(|p| matches!(p, Payload::CsdEntry { .. })),
            wakeup_function: known(1),
            flush_function: known(2),
            generic_function: known(9),
            reasons: match self.symbols {
                true => vec![
                    (17, Reason::Reschedule),
                    (18, Reason::Call),
                    (19, Reason::IrqWork),
                    (20, Reason::Other),
                ],
                false => Vec::new(),
            },
            ..IpiFacts::default()
        }
    }
}

/// What tests ask of rows.
impl Rows {
    /// The wait that began then.
    pub fn wait_at(&self, start_ns: i64) -> &WaitRow {
        let found = self.waits.iter().find(|w| w.start_ns == start_ns);
        found.unwrap_or_else(|| panic!("no wait at {start_ns}: {:?}", self.waits))
    }

    /// The wakeup whose waking was then.
    pub fn woken_at(&self, waking_ns: i64) -> &WakeupRow {
        let found = self.wakeups.iter().find(|w| w.waking_ns == Some(waking_ns));
        found.unwrap_or_else(|| panic!("no waking at {waking_ns}: {:?}", self.wakeups))
    }

    /// One CPU's ledger row.
    pub fn cell(&self, reading: Reading, cpu: u32, row: LedgerRow) -> i64 {
        let found = self.cpus.iter().find(|c| c.cpu == cpu).expect("that CPU");
        found.ledger[reading][usize::from(row.code())]
    }

    /// A ledger row over all CPUs.
    pub fn total(&self, reading: Reading, row: LedgerRow) -> i64 {
        self.cpus
            .iter()
            .map(|c| c.ledger[reading][usize::from(row.code())])
            .sum()
    }

    /// The rows of the task that last had that pid.
    pub fn pid(&self, pid: i32) -> &TaskRow {
        self.tasks.iter().rfind(|t| t.pid == pid).expect("that pid")
    }
}

/// CPUs that only the topology names: they have no events.
fn topology_cpus(spec: &str) -> Vec<u32> {
    match spec {
        "" => Vec::new(),
        spec => parse_spec(spec)
            .ok()
            .and_then(|facts| facts.online)
            .unwrap_or_default(),
    }
}

/// One type for all events: scripts are not counted by type.
const TYPES: usize = 1;

fn parse(text: &str) -> Vec<Event> {
    let mut names: HashMap<i32, (Comm, i16)> = HashMap::new();
    let mut events: Vec<Event> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "name" {
            let prio = words.get(3).map_or(120, |p| p.parse().unwrap());
            names.insert(
                words[1].parse().unwrap(),
                (Comm::new(words[2].as_bytes()), prio),
            );
            continue;
        }
        events.push(event(line, &words, &names));
    }
    assert!(events.is_sorted_by_key(|e| e.ts), "stamps ascend");
    events
}

fn event(line: &str, words: &[&str], names: &HashMap<i32, (Comm, i16)>) -> Event {
    let (pid, flags) = words[2].split_once('/').unwrap_or((words[2], ""));
    let bits = flags.chars().map(|c| match c {
        'h' => 0x08,
        's' => 0x10,
        'n' => 0x40,
        other => panic!("flag {other} in {line}"),
    });
    let lost = words[3].starts_with("lost");
    Event {
        ts: words[0].parse().expect(line),
        cpu: words[1].parse().expect(line),
        pid: if lost { -1 } else { pid.parse().expect(line) },
        tgid: -1,
        flags: ContextFlags(bits.sum()),
        watched: false,
        type_index: match lost || words[3] == "counters" {
            true => NO_TYPE,
            false => 0,
        },
        payload: payload(line, &words[3..], pid.parse().expect(line), names),
    }
}

fn payload(line: &str, words: &[&str], pid: i32, names: &HashMap<i32, (Comm, i16)>) -> Payload {
    let named = |pid: i32| {
        let own = (Comm::new(format!("t{pid}").as_bytes()), 120);
        names.get(&pid).copied().unwrap_or(own)
    };
    let int = |at: usize| words[at].parse::<i32>().expect(line);
    let cpu = |at: usize| words[at].parse::<u32>().expect(line);
    let option = |key: &str| {
        words
            .iter()
            .find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
            .map(|v| v.parse::<i64>().expect(line))
    };
    let wake = |key: &str| Wake {
        comm: named(int(1)).0,
        pid: int(1),
        prio: named(int(1)).1,
        target_cpu: option(key).expect(line) as u32,
    };
    match words[0] {
        "waking" => Payload::Waking(wake("prev")),
        "wakeup" => Payload::Wakeup(wake("to")),
        "new" => Payload::WakeupNew(wake("to")),
        "switch" => {
            let (prev, state) = words[1].split_once(':').expect(line);
            let prev: i32 = prev.parse().expect(line);
            Payload::Switch {
                prev_comm: named(prev).0,
                prev_pid: prev,
                prev_prio: named(prev).1,
                prev_state: PrevState {
                    letter: state.as_bytes()[0],
                    preempted: state.ends_with('+'),
                },
                next_comm: named(int(2)).0,
                next_pid: int(2),
                next_prio: named(int(2)).1,
            }
        }
        "migrate" => Payload::Migrate {
            comm: named(int(1)).0,
            pid: int(1),
            prio: named(int(1)).1,
            orig_cpu: cpu(2),
            dest_cpu: cpu(3),
        },
        "ipi" => Payload::IpiSendCpu {
            cpu: cpu(1),
            callsite: option("site").unwrap_or(0) as u64,
            callback: option("cb").unwrap_or(0) as u64,
        },
        "ipi-mask" => Payload::IpiSendMask {
            cpus: mask(words[1]),
            callsite: option("site").unwrap_or(0) as u64,
            callback: option("cb").unwrap_or(0) as u64,
        },
        "csd-in" => Payload::CsdEntry {
            func: option("fn").expect(line) as u64,
            csd: option("csd").unwrap_or(0) as u64,
        },
        "csd-out" => Payload::CsdExit {
            func: option("fn").expect(line) as u64,
            csd: option("csd").unwrap_or(0) as u64,
        },
        "tlb" => Payload::TlbFlush {
            reason: int(1),
            pages: i64::from(int(2)),
        },
        "range" => Payload::FlushRange {
            start: words[1].parse().expect(line),
            end: words[2].parse().expect(line),
            shift: option("shift").unwrap_or(12) as u32,
        },
        "ipi-raise" => Payload::IpiRaise {
            cpus: mask(words[1]),
            reason: words[2].parse().expect(line),
        },
        "ipi-in" => Payload::IpiEntry {
            reason: words[1].parse().expect(line),
        },
        "ipi-out" => Payload::IpiExit {
            reason: words[1].parse().expect(line),
        },
        "vec" => Payload::VectorEntry(vector(words[1])),
        "vec-end" => Payload::VectorExit(vector(words[1])),
        "poll" => Payload::WakeIdleWithoutIpi { cpu: cpu(1) },
        "csd" => Payload::CsdQueue {
            cpu: cpu(1),
            callsite: 0,
            func: option("fn").unwrap_or(1) as u64,
            csd: option("csd").unwrap_or(0) as u64,
        },
        "sel" => Payload::Select(Selection {
            pid: int(1),
            flips: option("flips").map(|flips| flips as u32),
            prev: option("prev").expect(line) as i32,
            recent: -1,
            wake_flags: Some(option("flags").unwrap_or(8) as u32),
            allowed: option("nr").expect(line) as i32,
            last_wakee: 0,
            mask: option("mask").map(|word| CpuMask(smallvec::smallvec![word as u64])),
        }),
        "selret" => Payload::Selected { cpu: int(1) },
        "fork" => Payload::Fork {
            parent_pid: pid,
            child_pid: int(1),
            child_comm: named(int(1)).0,
        },
        "exec" => Payload::Exec {
            pid: int(1),
            old_pid: int(2),
        },
        "exit" => Payload::Exit {
            comm: named(pid).0,
            pid,
        },
        "raise" => Payload::SoftirqRaise { vec: cpu(1) },
        "softirq" => Payload::SoftirqEntry { vec: cpu(1) },
        "softirq-end" => Payload::SoftirqExit { vec: cpu(1) },
        "setaffinity" => Payload::SetAffinity { pid: int(1) },
        "newtask" => Payload::NewTask {
            pid: int(1),
            thread: words.get(2) == Some(&"thread"),
        },
        "numa" if words.len() > 2 => Payload::NumaSwap {
            src_pid: int(1),
            dst_pid: int(2),
        },
        "numa" => Payload::NumaMove { pid: int(1) },
        "mark" => Payload::Marker(words[1..].join(" ").into_bytes().into()),
        "lost" => Payload::LossBegin {
            count: words.get(1).map(|n| n.parse().expect(line)),
        },
        "lost-end" => Payload::LossEnd,
        "counters" => {
            let mut counters = Counters::default();
            counters.set(0, int(1) as u64);
            counters.set(1, int(2) as u64);
            (counters.cycles, counters.instructions) = (Some(0), Some(1));
            Payload::Counters(counters)
        }
        "other" => Payload::Other,
        other => panic!("event {other} in {line}"),
    }
}

fn mask(list: &str) -> CpuMask {
    let cpus = list.split(',').map(|cpu| cpu.parse::<u32>().expect(list));
    CpuMask(smallvec::smallvec![cpus.map(|cpu| 1_u64 << cpu).sum()])
}

fn vector(name: &str) -> Vector {
    match name {
        "resched" => Vector::Reschedule,
        "single" => Vector::CallFunctionSingle,
        "many" => Vector::CallFunction,
        other => panic!("vector {other}"),
    }
}
