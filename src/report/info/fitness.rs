//! What a trace can be used for, judged by the events in it.

use serde::Serialize;
use ttwu_parsers::trace::Trace;

use crate::replay::survey::Survey;
use crate::topology::Topology;

/// What the trace is fit for, by question.
#[derive(Debug, Clone, Serialize)]
pub struct Fitness {
    pub latency: Use,
    pub missed_idle: Use,
    pub cross_llc: Use,
    pub flips: Use,
    pub ipis: Use,
}

/// `yes`, `partly` or `no`, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Use {
    pub fit: &'static str,
    pub why: String,
}

/// The events that a trace has any of.
struct Has<'a> {
    trace: &'a Trace,
    survey: &'a Survey,
    topology: &'a Topology,
}

impl Fitness {
    pub(super) fn of(trace: &Trace, survey: &Survey, topology: &Topology) -> Self {
        let has = Has {
            trace,
            survey,
            topology,
        };
        Self {
            latency: has.latency(),
            missed_idle: has.missed_idle(),
            cross_llc: has.cross_llc(),
            flips: has.flips(),
            ipis: has.ipis(),
        }
    }

    /// Each use with its name, as people read it.
    pub fn named(&self) -> [(&'static str, &Use); 5] {
        [
            ("latency", &self.latency),
            ("missed idle CPUs", &self.missed_idle),
            ("cross-LLC wakeups", &self.cross_llc),
            ("wakee flips", &self.flips),
            ("IPIs", &self.ipis),
        ]
    }
}

fn no(why: &str) -> Use {
    Use {
        fit: "no",
        why: why.to_owned(),
    }
}

fn partly(why: &str) -> Use {
    Use {
        fit: "partly",
        why: why.to_owned(),
    }
}

fn yes(why: &str) -> Use {
    Use {
        fit: "yes",
        why: why.to_owned(),
    }
}

impl Has<'_> {
    fn event(&self, system: &str, name: &str) -> bool {
        let mut counted = self.trace.types().iter().zip(&self.survey.by_type);
        counted.any(|(t, &n)| n > 0 && t.system == system && t.name == name)
    }

    fn sched(&self, name: &str) -> bool {
        self.event("sched", name)
    }

    /// Whether the event was recorded, though it may never have happened.
    fn describes(&self, name: &str) -> bool {
        self.trace
            .types()
            .iter()
            .any(|t| t.system == "sched" && t.name == name)
    }

    fn lossy(&self) -> bool {
        let lost = |c: &crate::replay::survey::CpuSurvey| c.lost_events > 0 || c.uncounted_gaps > 0;
        self.survey.cpus.iter().any(lost) || self.trace.meta().lost_unplaced > 0
    }

    /// What stands in the way of everything.
    fn obstacle(&self) -> Option<Use> {
        let meta = self.trace.meta();
        let obstacles = [
            (!meta.has_time, "the events carry no time"),
            (
                !meta.clock.nanoseconds,
                "the clock does not count nanoseconds",
            ),
            (
                !meta.has_cpu,
                "the events do not say on which CPU they happened",
            ),
            (!meta.system_wide, "single tasks were recorded, not CPUs"),
            (!self.sched("sched_switch"), "no sched_switch events"),
        ];
        obstacles
            .iter()
            .find(|(there, _)| *there)
            .map(|(_, why)| no(why))
    }

    fn latency(&self) -> Use {
        if let Some(obstacle) = self.obstacle() {
            return obstacle;
        }
        match (
            self.sched("sched_waking"),
            self.sched("sched_wakeup"),
            self.lossy(),
        ) {
            (false, false, _) => no("no sched_waking or sched_wakeup events"),
            (true, false, _) => {
                partly("no sched_wakeup: only the whole latency is known, not where it was spent")
            }
            (false, true, _) => {
                partly("no sched_waking: only the time from wakeup to switch-in is known")
            }
            (true, true, true) => {
                partly("events were lost: intervals that span a loss are left out")
            }
            (true, true, false) => {
                yes("sched_waking, sched_wakeup and sched_switch, and nothing lost")
            }
        }
    }

    /// What stands in the way of saying which CPU a wakeup was sent to and from.
    fn no_placements(&self) -> Option<Use> {
        let needed = ["sched_waking", "sched_wakeup"];
        let missing = needed.iter().find(|name| !self.sched(name));
        self.obstacle()
            .or_else(|| missing.map(|name| no(&format!("no {name} events"))))
    }

    fn missed_idle(&self) -> Use {
        if let Some(obstacle) = self.no_placements() {
            return obstacle;
        }
        match (self.topology.is_known(), self.lossy()) {
            (false, _) => {
                partly("LLCs unknown, so not whether an idle CPU was near: give --topology")
            }
            (_, true) => partly("events were lost: CPUs are unknown meanwhile"),
            _ if !self.describes("sched_migrate_task") => partly(
                "no sched_migrate_task: tasks moved while they waited are thought to wait where they were",
            ),
            _ => yes("wakeups, switches, migrations and the topology are known"),
        }
    }

    fn cross_llc(&self) -> Use {
        let llcs = self.topology.llcs().map_or(0, <[_]>::len);
        match (self.no_placements(), llcs) {
            (Some(obstacle), _) => obstacle,
            (_, 0) => no("LLCs unknown: give --topology"),
            (_, 1) => no("the machine has one LLC: no wakeup crosses"),
            (_, llcs) => yes(&format!("wakeups between {llcs} LLCs are known")),
        }
    }

    fn flips(&self) -> Use {
        match (self.obstacle(), self.sched("sched_waking"), self.lossy()) {
            (Some(obstacle), _, _) => obstacle,
            (_, false, _) => no("no sched_waking: wakers are not known"),
            (_, _, true) => partly("events were lost: counts are bounds"),
            _ => yes("every waker and wakee is known"),
        }
    }

    fn ipis(&self) -> Use {
        let senders = [
            ("ipi", "ipi_send_cpu"),
            ("ipi", "ipi_send_cpumask"),
            ("ipi", "ipi_raise"),
            ("csd", "csd_queue_cpu"),
        ];
        let handlers = [
            ("irq_vectors", "reschedule_entry"),
            ("irq_vectors", "call_function_single_entry"),
            ("irq_vectors", "call_function_entry"),
            ("ipi", "ipi_entry"),
            ("csd", "csd_function_entry"),
        ];
        let any =
            |events: &[(&str, &str)]| events.iter().any(|(system, name)| self.event(system, name));
        let (sends, received) = (any(&senders), any(&handlers));
        match (sends, received) {
            (true, true) => yes("sends and handlers"),
            (true, false) => partly("sends, but no irq_vectors events: handlers are not seen"),
            (false, true) => partly("handlers, but no ipi events: senders are not known"),
            (false, false) => no("no ipi or irq_vectors events: record with -e ipi -e irq_vectors"),
        }
    }
}
