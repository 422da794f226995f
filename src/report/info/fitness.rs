//! What a trace can be used for, judged by the events in it.

use std::collections::BTreeMap;

use serde::Serialize;
use ttwu_parsers::trace::Trace;

use crate::attribute::fitness::rules::{Evidence, FIGURES, Judged, Llcs};
use crate::replay::model::KernelModel;
use crate::replay::survey::{CpuSurvey, Survey};
use crate::topology::Topology;

/// What the trace is fit for, by the keys of [`FIGURES`].
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Fitness(BTreeMap<&'static str, Use>);

/// `yes`, `partly` or `no`, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Use {
    pub fit: &'static str,
    pub why: String,
}

impl Fitness {
    pub(super) fn of(
        trace: &Trace,
        survey: &Survey,
        topology: &Topology,
        model: &KernelModel,
    ) -> Self {
        let recorded = |name: &str| {
            let counted = trace.types().iter().zip(&survey.by_type);
            let counted = counted.filter(|(of, _)| of.name == name);
            counted.map(|(_, count)| *count).reduce(|a, b| a + b)
        };
        let on = Evidence {
            events: &recorded,
            model,
            llcs: match topology.llcs() {
                Some(llcs) => Llcs::Known(llcs.len()),
                None => Llcs::Unknown("the LLCs are unknown: give --topology".to_owned()),
            },
            markers: survey.markers.len() + survey.markers_left_out,
            obstacle: obstacle(trace),
        };
        let lossy = lossy(trace, survey);
        let fits = FIGURES.iter().map(|figure| {
            let judged = (figure.rule)(&on);
            let judged = if lossy { judged.with_losses() } else { judged };
            (figure.key, Use::from(judged))
        });
        Self(fits.collect())
    }

    /// Each use with its name, as people read it.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Use)> {
        FIGURES
            .iter()
            .filter_map(|figure| Some((figure.name, self.0.get(figure.key)?)))
    }
}

impl From<Judged> for Use {
    fn from(judged: Judged) -> Self {
        Self {
            fit: judged.word.as_str(),
            why: judged.why,
        }
    }
}

fn lossy(trace: &Trace, survey: &Survey) -> bool {
    let lost = |c: &CpuSurvey| c.lost_events > 0 || c.uncounted_gaps > 0;
    survey.cpus.iter().any(lost) || trace.meta().lost_unplaced > 0
}

/// What stands in the way of everything.
fn obstacle(trace: &Trace) -> Option<&'static str> {
    let meta = trace.meta();
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
    ];
    let obstacles = obstacles.into_iter();
    obstacles
        .filter_map(|(there, why)| there.then_some(why))
        .next()
}
