//! What the trace is, and on which machine it was recorded.

use std::collections::BTreeMap;

use super::answer::{Known, RecorderFacts, TopologyFacts, TraceFacts};
use super::scope::Facts;
use crate::replay::survey::Survey;
use crate::topology::Topology;
use ttwu_parsers::event::escape;
use ttwu_parsers::trace::TraceMeta;

/// The facts of a trace.
pub fn trace_facts(facts: &Facts) -> TraceFacts {
    let release = facts.meta.kernel_release.as_deref();
    TraceFacts {
        format: facts.meta.format.clone(),
        kernel_release: match release {
            Some(release) => Known::Value(escape(release.as_bytes())),
            None => Known::unknown("the trace names no kernel release"),
        },
        kernel_model: escape(facts.config.model.describe().as_bytes()),
        clock: escape(facts.meta.clock.name.as_bytes()),
        start_ns: facts.config.window.from_ns,
        end_ns: facts.config.window.to_ns,
        events: facts.survey.events,
        events_by_name: events_by_name(facts),
        lost_events: lost_events(facts.survey, facts.meta),
        cpus: facts.machine.cpus.ids().to_vec(),
        topology: topology_facts(facts.topology()),
        recorder: recorder(facts),
    }
}

fn recorder(facts: &Facts) -> Known<RecorderFacts> {
    if !facts.config.snapshot.names_recorder() {
        return Known::unknown("the trace does not name its recorder's threads");
    }
    let did = facts.counts.recorder;
    let cpu_time = facts.config.window.duration_ns() as f64 * facts.machine.cpus.len() as f64;
    Known::Value(RecorderFacts {
        tasks: did.tasks,
        running_ns: did.running_ns,
        running_share: did.running_ns as f64 / cpu_time.max(1.0),
        wakeups: did.wakeups,
        waits: did.waits,
        left_out: !facts.config.include_recorder,
    })
}

/// Events lost on any CPU, as far as they are counted.
pub fn lost_events(survey: &Survey, meta: &TraceMeta) -> u64 {
    let by_cpu = survey.cpus.iter().map(|cpu| cpu.lost_events);
    by_cpu.sum::<u64>() + meta.lost_unplaced
}

/// The events that occur, as `system:name`.
fn events_by_name(facts: &Facts) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (of, count) in facts.types.iter().zip(&facts.survey.by_type) {
        let name = match of.system.as_str() {
            "" => of.name.clone(),
            system => format!("{system}:{}", of.name),
        };
        if *count > 0 {
            *counts.entry(escape(name.as_bytes())).or_default() += count;
        }
    }
    counts
}

fn topology_facts(topology: &Topology) -> TopologyFacts {
    let groups = |groups: Option<&[Vec<u32>]>, what: &str| match groups {
        Some(groups) => Known::Value(groups.to_vec()),
        None => Known::unknown(match topology.source() {
            "unknown" => "the topology is unknown".to_owned(),
            source => format!("{source} does not tell {what}"),
        }),
    };
    TopologyFacts {
        source: topology.source().to_owned(),
        llcs: groups(topology.llcs(), "which CPUs share a last-level cache"),
        cores: groups(topology.cores(), "SMT siblings"),
        l2s: groups(topology.l2s(), "which CPUs share an L2"),
        nodes: groups(topology.nodes(), "NUMA nodes"),
    }
}
