//! What a trace file is and holds, without replaying it: works for traces that `analyze` refuses.

mod fitness;
mod machine;
mod machine_text;
mod text;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use ttwu_parsers::event::escape;
use ttwu_parsers::fault::Fault;
use ttwu_parsers::machine_record::MachineRecord;
use ttwu_parsers::trace::{BufferInfo, Trace};

pub use self::fitness::{Fitness, Use};
pub use self::machine::Machine;
pub use self::text::render;
use crate::attribute::answer::{Known, TopologyFacts};
use crate::replay::model::KernelModel;
use crate::replay::survey::{CpuSurvey, Survey};
use crate::topology::Topology;

/// Version of the JSON form; raised when a name changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;
/// Markers and faults that are kept; all are counted.
const FIRST: usize = 5;

#[derive(Debug, Clone, Serialize)]
pub struct Info {
    pub schema_version: u32,
    pub path: String,
    pub format: String,
    pub kernel_release: Known<String>,
    pub kernel_model: String,
    pub hostname: Known<String>,
    pub arch: Known<String>,
    pub cmdline: Vec<String>,
    pub clock: Clock,
    /// First and last stamp, on the trace's clock.
    pub start_ns: Known<i64>,
    pub end_ns: Known<i64>,
    pub events: u64,
    pub events_by_name: BTreeMap<String, u64>,
    pub cpus: Vec<Cpu>,
    /// CPUs that events name without having events of their own.
    pub cpus_without_events: Vec<u32>,
    /// Losses that no record places on a CPU.
    pub lost_unplaced: u64,
    pub buffers: Vec<Buffer>,
    pub markers: First<Marker>,
    pub topology: TopologyFacts,
    pub topology_warnings: Vec<String>,
    pub machine: Known<Machine>,
    pub fitness: Fitness,
    /// Why `analyze` would refuse it.
    pub refused: Option<String>,
    pub notes: Vec<String>,
    pub faults: First<FaultFacts>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Clock {
    pub name: String,
    pub nanoseconds: bool,
    pub global: bool,
}

/// One CPU's stream.
#[derive(Debug, Clone, Serialize)]
pub struct Cpu {
    pub cpu: u32,
    pub events: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub lost_events: u64,
    /// Gaps of unknown size.
    pub uncounted_gaps: u64,
    /// Whether its buffer held everything from the recording's start.
    pub complete_from_start: bool,
}

/// One ftrace buffer of the file.
#[derive(Debug, Clone, Serialize)]
pub struct Buffer {
    pub name: String,
    pub clock: String,
    pub bytes: u64,
    pub read: bool,
}

/// The first few of many.
#[derive(Debug, Clone, Serialize)]
pub struct First<T> {
    pub count: u64,
    pub first: Vec<T>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Marker {
    pub ts_ns: i64,
    pub text: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct FaultFacts {
    pub offset: u64,
    pub cpu: Option<u32>,
    pub what: String,
}

impl Info {
    /// Puts together what is known of a trace; all text in it is safe to print.
    pub fn gather(
        path: &Path,
        trace: &Trace,
        survey: &Survey,
        record: &MachineRecord,
        topology: &Topology,
    ) -> Self {
        let meta = trace.meta();
        let safe = |text: &str| escape(text.as_bytes());
        let known = |text: &Option<String>| match text {
            Some(text) => Known::Value(safe(text)),
            None => Known::unknown("the trace does not say"),
        };
        let span = |end: fn((i64, i64)) -> i64| match survey.span {
            Some(span) => Known::Value(end(span)),
            None => Known::unknown("the trace holds no events"),
        };
        let complete = |cpu: u32| meta.complete_from_start.contains(&cpu);
        let model = KernelModel::detect(None, meta.kernel_release.as_deref(), trace.types());
        Self {
            schema_version: SCHEMA_VERSION,
            path: escape(path.to_string_lossy().as_bytes()),
            format: safe(&meta.format),
            kernel_release: known(&meta.kernel_release),
            kernel_model: safe(&model.describe()),
            hostname: known(&meta.hostname),
            arch: known(&meta.arch),
            cmdline: meta.cmdline.iter().map(|word| safe(word)).collect(),
            clock: Clock {
                name: safe(&meta.clock.name),
                nanoseconds: meta.clock.nanoseconds,
                global: meta.clock.global,
            },
            start_ns: span(|s| s.0),
            end_ns: span(|s| s.1),
            events: survey.events,
            events_by_name: events_by_name(trace, survey),
            cpus: survey
                .cpus
                .iter()
                .map(|c| Cpu::new(c, complete(c.cpu)))
                .collect(),
            cpus_without_events: without_events(survey),
            lost_unplaced: meta.lost_unplaced,
            buffers: meta.buffers.iter().map(Buffer::new).collect(),
            markers: markers(survey),
            topology: topology_facts(topology),
            topology_warnings: topology.warnings().iter().map(|w| safe(w)).collect(),
            machine: match Machine::of(record) {
                Some(machine) => Known::Value(machine),
                None => Known::unknown("the trace carries no machine record"),
            },
            fitness: Fitness::of(trace, survey, topology, &model),
            refused: None,
            notes: meta.notes.iter().map(|note| safe(note)).collect(),
            faults: First {
                count: survey.faults.total(),
                first: survey
                    .faults
                    .kept()
                    .iter()
                    .take(FIRST)
                    .map(FaultFacts::new)
                    .collect(),
            },
        }
    }
}

/// A topology as reports hold it.
pub fn topology_facts(topology: &Topology) -> TopologyFacts {
    let source = escape(topology.source().as_bytes());
    let groups = |groups: Option<&[Vec<u32>]>| match groups {
        Some(groups) => Known::Value(groups.to_vec()),
        None => Known::unknown("no source tells"),
    };
    TopologyFacts {
        llcs: groups(topology.llcs()),
        cores: groups(topology.cores()),
        l2s: groups(topology.l2s()),
        nodes: groups(topology.nodes()),
        source,
    }
}

fn events_by_name(trace: &Trace, survey: &Survey) -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for (kind, &count) in trace.types().iter().zip(&survey.by_type) {
        if count > 0 {
            let name = match kind.system.as_str() {
                "" => kind.name.clone(),
                system => format!("{system}:{}", kind.name),
            };
            *by_name.entry(escape(name.as_bytes())).or_default() += count;
        }
    }
    by_name
}

fn without_events(survey: &Survey) -> Vec<u32> {
    let with: Vec<u32> = survey
        .cpus
        .iter()
        .filter(|c| c.events > 0)
        .map(|c| c.cpu)
        .collect();
    let mut named = survey.named_cpus.clone();
    named.retain(|cpu| with.binary_search(cpu).is_err());
    named
}

fn markers(survey: &Survey) -> First<Marker> {
    let marker = |(ts_ns, text): &(i64, String)| Marker {
        ts_ns: *ts_ns,
        text: escape(text.as_bytes()),
    };
    First {
        count: survey.markers.len() as u64,
        first: survey.markers.iter().take(FIRST).map(marker).collect(),
    }
}

impl Cpu {
    fn new(survey: &CpuSurvey, complete_from_start: bool) -> Self {
        Self {
            cpu: survey.cpu,
            events: survey.events,
            first_ns: survey.first_ns,
            last_ns: survey.last_ns,
            lost_events: survey.lost_events,
            uncounted_gaps: survey.uncounted_gaps,
            complete_from_start,
        }
    }
}

impl Buffer {
    fn new(info: &BufferInfo) -> Self {
        Self {
            name: escape(info.name.as_bytes()),
            clock: escape(info.clock.as_bytes()),
            bytes: info.bytes,
            read: info.selected,
        }
    }
}

impl FaultFacts {
    fn new(fault: &Fault) -> Self {
        Self {
            offset: fault.offset,
            cpu: fault.cpu,
            what: escape(fault.what.as_bytes()),
        }
    }
}
