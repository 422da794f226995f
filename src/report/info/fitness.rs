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

    fn lossy(&self) -> bool {
        let lost = |c: &crate::replay::survey::CpuSurvey| c.lost_events > 0 || c.uncounted_gaps > 0;
        self.survey.cpus.iter().any(lost) || self.trace.meta().lost_unplaced > 0
    }

    /// What stands in the way of everything.
    fn obstacle(&self) -> Option<Use> {
        let meta = self.trace.meta();
        let obstacles = [
            (!meta.has_time, "the events carry no time"),
            (!meta.clock.nanoseconds, "the clock does not count nanoseconds"),
            (!meta.has_cpu, "the events do not say on which CPU they happened"),
            (!meta.system_wide, "single tasks were recorded, not CPUs"),
            (!self.sched("sched_switch"), "no sched_switch events"),
        ];
        obstacles.iter().find(|(there, _)| *there).map(|(_, why)| no(why))
    }

    fn latency(&self) -> Use {
        if let Some(obstacle) = self.obstacle() {
            return obstacle;
        }
        match (self.sched("sched_waking"), self.sched("sched_wakeup"), self.lossy()) {
            (false, false, _) => no("no sched_waking or sched_wakeup events"),
            (true, true, false) => yes("sched_waking, sched_wakeup and sched_switch, nothing lost"),
            (true, true, true) => partly("events were lost: intervals that span a loss are left out"),
            (true, false, _) => partly("no sched_wakeup: queueing cannot be told from transit"),
            (false, true, _) => partly("no sched_waking: latency counts from the enqueue only"),
        }
    }

    fn missed_idle(&self) -> Use {
        if let Some(obstacle) = self.obstacle() {
            return obstacle;
        }
        match (self.sched("sched_waking"), self.topology.is_known(), self.lossy()) {
            (false, _, _) => partly("no sched_waking: previous CPU and waker are not known"),
            (_, false, _) => partly("LLCs unknown: give --topology"),
            (_, _, true) => partly("events were lost: CPUs are unknown meanwhile"),
            _ if !self.sched("sched_wakeup") => partly("no sched_wakeup: chosen CPUs are inferred"),
            _ => yes("previous and chosen CPU, and what every CPU ran"),
        }
    }

    fn cross_llc(&self) -> Use {
        if let Some(obstacle) = self.obstacle() {
            return obstacle;
        }
        match (self.topology.is_known(), self.sched("sched_waking")) {
            (false, _) => no("LLCs unknown: give --topology"),
            (_, false) => partly("no sched_waking: wakers are not known"),
            _ => yes("wakers, wakees and the LLCs of their CPUs"),
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
        let sends = self.event("ipi", "ipi_send_cpu") || self.event("ipi", "ipi_raise");
        let vectors = ["reschedule_entry", "call_function_single_entry", "call_function_entry"];
        let received = vectors.iter().any(|name| self.event("irq_vectors", name));
        match (sends, received) {
            (true, true) => yes("sends and handlers"),
            (true, false) => partly("sends, but no irq_vectors events: handlers are not seen"),
            (false, true) => partly("handlers, but no ipi events: senders are not known"),
            (false, false) => no("no ipi or irq_vectors events (record with -e ipi -e irq_vectors)"),
        }
    }
}
