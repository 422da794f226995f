//! Hand-made traces for tests: rows with every field filled, and what surrounds them.

use super::scope::{Facts, Scope};
use super::{AnswerError, Selection, answer::Answer, answer_within};
use crate::replay::cpuset::CpuMap;
use crate::replay::flips::ticks::Ticks;
use crate::replay::flips::{Setup, SetupInput};
use crate::replay::ledger::Window;
use crate::replay::model::KernelModel;
use crate::replay::resolver::Recorded;
use crate::replay::rows::{
    CpuRow, FlushRow, IpiRow, MigrationRow, Sink, TaskId, TaskRow, WaitRow, WakeupRow,
};
use crate::replay::snapshot::Snapshot;
use crate::replay::survey::Survey;
use crate::replay::words::{
    Class, Confidence, FlushReason, IpiFate, IpiKind, IpiRoad, MigrationCause, MigrationKind,
    Origin, Pair, Path, Reading, Verdict, Waker,
};
use crate::replay::{Config, Counts, IpiFacts, Machine};
use crate::tables::{Budget, Builders, Filler, TableSet, Tables};
use crate::topology::{Distance, Topology};
use ttwu_parsers::decode::EventType;
use ttwu_parsers::event::Comm;
use ttwu_parsers::machine_record::MachineRecord;
use ttwu_parsers::topology::parse_spec;
use ttwu_parsers::trace::{Clock, TraceMeta};

/// A wakeup by task 0 on CPU 0 of task 1 to that CPU, in the window.
pub fn wakeup() -> WakeupRow {
    WakeupRow {
        waking_ns: Some(0),
        wakeup_ns: Some(0),
        switch_in_ns: Some(0),
        waker: Some(TaskId(0)),
        wakee: TaskId(1),
        waker_cpu: Some(0),
        prev_cpu: Some(0),
        chosen_cpu: Some(0),
        class: Class::Local,
        path: Path::Local,
        context: Waker::Task,
        waker_chosen: Distance::Same,
        prev_chosen: Distance::Same,
        waker_prev: Distance::Same,
        cross_llc: Some(false),
        latency_ns: None,
        queue_ns: None,
        waker_cost_ns: None,
        selection: Some(true),
        chosen_idle: Some(true),
        idle_before_ns: None,
        sibling_busy: None,
        smt_shared: false,
        verdict: Pair([Some(Verdict::Transit); 2]),
        wait_ns: 0,
        lost_ns: Pair([0, 0]),
        wakee_run_ns: None,
        wakee_cycles: None,
        wakee_instructions: None,
        overlap_ns: None,
        overlap_censored: false,
        probed: None,
        sync: None,
        flips: None,
        in_window: true,
    }
}

/// A wait of task 1 on CPU 0, in the window.
pub fn wait(origin: Origin, verdict: [Verdict; 2], wait_ns: i64, lost_ns: [i64; 2]) -> WaitRow {
    WaitRow {
        task: TaskId(1),
        start_ns: 0,
        end_ns: Some(wait_ns),
        first_cpu: 0,
        last_cpu: 0,
        moves: 0,
        origin,
        verdict: Pair(verdict),
        wait_ns,
        lost_ns: Pair(lost_ns),
        idle_cpus: Pair([0, 1]),
        llc_busy_percent: None,
        waker: None,
        in_window: true,
    }
}

pub fn task(id: u32, pid: i32, name: &str) -> TaskRow {
    TaskRow {
        task: TaskId(id),
        pid,
        generation: 0,
        tgid: None,
        comm: Comm::new(name.as_bytes()),
        former_names: Vec::new(),
        run_ns: 0,
        wait_ns: 0,
        lost_ns: Pair([0, 0]),
        withheld: 0,
        withheld_ns: 0,
        switches: 0,
        migrations: 0,
        wakeups_made: 0,
        wakeups_received: 0,
        seen_cpus: 1,
        recorder: false,
    }
}

/// Ledger rows in the order of the codes, as seen and any.
pub fn cpu(cpu: u32, seen: [i64; 7], any: [i64; 7]) -> CpuRow {
    CpuRow {
        cpu,
        llc: Some(cpu / 2),
        core: Some(cpu),
        node: Some(0),
        ledger: Pair([seen, any]),
        switches: 0,
        wakeups_made: 0,
        first_event_ns: Some(0),
        last_event_ns: Some(0),
        lost_events: 0,
    }
}

/// A move of task 1 from CPU 0 to CPU 1 by task 0. The window is that of [`Rig::new`].
pub fn migration(ts_ns: i64, cause: MigrationCause, distance: Distance) -> MigrationRow {
    MigrationRow {
        ts_ns,
        task: TaskId(1),
        from_cpu: 0,
        to_cpu: 1,
        distance,
        kind: match cause {
            MigrationCause::Wakeup => MigrationKind::Wakeup,
            _ => MigrationKind::Runnable,
        },
        cause,
        confidence: Confidence::Certain,
        by_cpu: 0,
        by_task: Some(TaskId(0)),
        context: Waker::Task,
        idle_left: None,
        run_ns: None,
        lost_ns: Pair([0, 0]),
        inferred: false,
        in_window: (100..900).contains(&ts_ns),
    }
}

/// An interrupt from CPU 0 to CPU 1 whose handler interrupted task 1, in the window.
pub fn ipi(kind: IpiKind, latency_ns: i64, handler_ns: i64) -> IpiRow {
    IpiRow {
        ts_ns: 200,
        cpu: Some(0),
        target_cpu: 1,
        road: IpiRoad::Interrupt,
        kind,
        fate: IpiFate::Handled,
        distance: Distance::Llc,
        task: Some(TaskId(0)),
        latency_ns: Some(latency_ns),
        handler_ns: Some(handler_ns),
        interrupted: Some(TaskId(1)),
        on_idle: Some(false),
        wakeups: 0,
        callback: 0,
        callsite: 0,
        in_window: true,
    }
}

/// A flush by task 0 on CPU 0, in the window.
pub fn flush(reason: FlushReason, pages: i64, targets: u32, wait_ns: Option<i64>) -> FlushRow {
    FlushRow {
        ts_ns: 200,
        cpu: 0,
        task: Some(TaskId(0)),
        reason,
        pages: Some(pages),
        range_pages: None,
        targets: Some(targets),
        interrupts: targets,
        asked_ns: wait_ns.map(|_| 202),
        wait_ns,
        in_window: true,
    }
}

/// A trace made by hand.
pub struct Rig {
    pub meta: TraceMeta,
    pub types: Vec<EventType>,
    pub survey: Survey,
    pub machine: Machine,
    pub config: Config,
    pub counts: Counts,
    pub record: MachineRecord,
    pub tables: Tables,
}

impl Rig {
    /// A machine of four CPUs, each a core, in two LLCs; a trace from 0 to 1000 ns of which the window is 100 to
    /// 900; the rows that `fill` appends.
    pub fn new(fill: impl FnOnce(&mut Filler)) -> Self {
        Self::with_budget(Budget::default(), fill)
    }

    pub fn with_budget(budget: Budget, fill: impl FnOnce(&mut Filler)) -> Self {
        let mut builders = Builders::new(&TableSet::analysis(), budget);
        fill(builders.sink());
        let names = [
            "sched_switch",
            "sched_waking",
            "sched_wakeup",
            "sched_migrate_task",
        ];
        let types: Vec<EventType> = names
            .iter()
            .map(|name| EventType {
                id: 1,
                system: "sched".to_owned(),
                name: (*name).to_owned(),
            })
            .collect();
        let survey = Survey {
            events: 40,
            by_type: vec![10; types.len()],
            ..Survey::default()
        };
        let facts = parse_spec("llc=0-1;2-3 smt=0;1;2;3 l2=0;1;2;3 node=0-3").unwrap();
        let cpus = [0, 1, 2, 3];
        let machine = Machine {
            cpus: CpuMap::new(cpus.to_vec()),
            topology: Topology::new(facts, "a spec", &cpus),
        };
        Self {
            meta: meta(),
            config: config(&types, &survey, &machine),
            machine,
            types,
            survey,
            counts: Counts::default(),
            record: MachineRecord::default(),
            tables: builders.finish().unwrap(),
        }
    }

    /// Has the trace record more events.
    pub fn recording(mut self, names: &[(&str, &str)]) -> Self {
        for (system, name) in names {
            self.types.push(EventType {
                id: 1,
                system: (*system).to_owned(),
                name: (*name).to_owned(),
            });
            self.survey.by_type.push(10);
        }
        self
    }

    /// Takes away what is known of the machine.
    pub fn without_topology(mut self) -> Self {
        self.machine.topology = Topology::unknown(&[0, 1, 2, 3], "the trace does not carry it");
        self
    }

    pub fn scope(&self, selection: &Selection) -> Result<Scope<'_>, AnswerError> {
        let facts = Facts {
            meta: &self.meta,
            types: &self.types,
            survey: &self.survey,
            machine: &self.machine,
            config: &self.config,
            counts: &self.counts,
            record: &self.record,
        };
        Scope::new(facts, &self.tables, selection)
    }

    pub fn answer(&self, selection: &Selection) -> Answer {
        answer_within(&self.scope(selection).unwrap(), selection).unwrap()
    }
}

fn config(types: &[EventType], survey: &Survey, machine: &Machine) -> Config {
    Config {
        window: Window {
            from_ns: 100,
            to_ns: 900,
            closed: false,
        },
        start_ns: 0,
        end_ns: 1000,
        settle_ns: 5_000,
        readings: vec![Reading::Seen, Reading::Any],
        recorded: Recorded::new(types, &survey.by_type, (6, 12)),
        model: model(types),
        known_from_start: Vec::new(),
        online_cpus: 4,
        snapshot: Snapshot::default(),
        ipis: IpiFacts::default(),
        include_recorder: false,
        work: None,
        flips: Setup::new(&SetupInput {
            record: &MachineRecord::default(),
            machine,
            model: &model(types),
            ticks: &Ticks::default(),
            start_ns: 0,
            forks_recorded: true,
        }),
    }
}

fn model(types: &[EventType]) -> KernelModel {
    KernelModel::detect(Some((6, 12)), None, types)
}

fn meta() -> TraceMeta {
    TraceMeta {
        format: "hand-made".to_owned(),
        clock: Clock {
            name: "mono".to_owned(),
            nanoseconds: true,
            global: true,
        },
        kernel_release: Some("6.12.0".to_owned()),
        hostname: None,
        arch: None,
        recorder: None,
        cmdline: Vec::new(),
        cpus: vec![0, 1, 2, 3],
        complete_from_start: Vec::new(),
        topology: None,
        system_wide: true,
        has_cpu: true,
        has_time: true,
        lost_unplaced: 0,
        task_names: Vec::new(),
        counters: Vec::new(),
        buffers: Vec::new(),
        data_bytes: 0,
        notes: Vec::new(),
        machine_record: Vec::new(),
    }
}

/// Appends rows of every kind.
pub fn fill<S: Sink>(sink: &mut S, wakeups: &[WakeupRow], waits: &[WaitRow], tasks: &[TaskRow]) {
    wakeups.iter().for_each(|row| sink.wakeup(row));
    waits.iter().for_each(|row| sink.wait(row));
    tasks.iter().for_each(|row| sink.task(row));
}

/// An answer as JSON, to be compared.
pub fn json(rig: &Rig) -> serde_json::Value {
    serde_json::to_value(rig.answer(&Selection::default())).unwrap()
}
