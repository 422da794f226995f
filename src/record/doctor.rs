//! What this machine and this user can record, and what to do about the rest: the checks behind `ttwu doctor`, and the
//! words in which both backends say that the kernel refused.

mod explain;
mod ftrace;
mod machine;
mod perf;
mod privileges;

use super::snapshot::Root;
use super::tracefs::Tracefs;

pub use self::explain::{
    explain_perf_denied, explain_perf_map_denied, explain_tracefs_denied, tracefs_not_found,
};

/// How much of something there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ok,
    /// There, with less than it could tell.
    Partly,
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub state: State,
    /// What there is and, unless all is well, what can be recorded without it.
    pub detail: String,
    /// The command that helps, or why none does; `None` if all is well.
    pub remedy: Option<String>,
}

impl Check {
    fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: State::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn partly(
        name: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Partly,
            remedy: Some(remedy.into()),
            ..Self::ok(name, detail)
        }
    }

    fn missing(
        name: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            ..Self::partly(name, detail, remedy)
        }
    }
}

/// Checks about one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub title: &'static str,
    pub checks: Vec<Check>,
}

/// Looks at everything. `events` are systems and names of the tracepoints that are recorded by default.
///
/// Files are read below `root`; what is tried for real (an instance, opening events, probes) is tried on the running
/// kernel, switches nothing on, and is undone.
pub fn examine(root: &Root, events: &[(&str, &str)]) -> Vec<Section> {
    let tracefs = Tracefs::find().map_err(|_| explain::tracefs_not_found(root));
    let tracefs = tracefs.as_ref();
    let section = |title, checks| Section { title, checks };
    vec![
        section("Machine", machine::checks(root)),
        section("Recording with ftrace", ftrace::checks(tracefs, events)),
        section("Recording with perf", perf::checks(root, tracefs, events)),
        section("Hardware counters (perf only)", perf::counters(root)),
        section("Function probes (--probes)", vec![ftrace::probes(tracefs)]),
        section("What else goes into the recording", machine::sources(root)),
    ]
}

#[cfg(test)]
mod tests;
