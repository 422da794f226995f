//! What tracefs gives: the events, an instance of our own, markers, and probes.

use std::fs::{self, OpenOptions};

use super::explain::{AS_ROOT, explain_tracefs_denied};
use super::{Check, State};
use crate::record::RecordError;
use crate::record::owner::Owner;
use crate::record::probes::Probes;
use crate::record::tracefs::Tracefs;

/// Tracepoints without which `ttwu analyze` cannot say anything.
const NEEDED: [(&str, &str); 3] = [
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup"),
];

const WITHOUT: &str = "without it nothing can be recorded: perf, too, has its events from there";

pub fn checks(tracefs: Result<&Tracefs, &RecordError>, events: &[(&str, &str)]) -> Vec<Check> {
    let tracefs = match tracefs {
        Ok(tracefs) => tracefs,
        Err(error) => return vec![failed("tracefs", error, WITHOUT)],
    };
    let readable = readable(tracefs);
    if readable.state == State::Missing {
        return vec![readable];
    }
    vec![
        readable,
        instance(tracefs),
        markers(tracefs),
        tracepoints(tracefs, events),
    ]
}

/// A check that failed for a reason that says what to do.
fn failed(name: &str, error: &RecordError, without: &str) -> Check {
    match error {
        RecordError::Denied { what, remedy } => {
            Check::missing(name, format!("{what}; {without}"), remedy.clone())
        }
        other => Check::missing(name, format!("{other}; {without}"), AS_ROOT),
    }
}

fn readable(tracefs: &Tracefs) -> Check {
    let place = tracefs.path("events");
    match fs::read_dir(&place) {
        Ok(_) => Check::ok("tracefs", tracefs.root().display().to_string()),
        Err(error) => failed("tracefs", &explain_tracefs_denied(&error, &place), WITHOUT),
    }
}

/// Makes an instance and removes it. Its name is one of this run's, so that a later run cleans up after a crash.
fn instance(tracefs: &Tracefs) -> Check {
    const NAME: &str = "own instance";
    let place = tracefs.path("instances").join(Owner::this().name());
    let tried = fs::create_dir(&place).and_then(|()| fs::remove_dir(&place));
    match tried {
        Ok(()) => Check::ok(NAME, "can be made; other tracers are not disturbed"),
        Err(error) => failed(
            NAME,
            &explain_tracefs_denied(&error, &place),
            "recording with perf needs none",
        ),
    }
}

fn markers(tracefs: &Tracefs) -> Check {
    const NAME: &str = "markers";
    let place = tracefs.path("trace_marker");
    match OpenOptions::new().write(true).open(&place) {
        Ok(_) => Check::ok(NAME, "can be written"),
        Err(error) => failed(
            NAME,
            &explain_tracefs_denied(&error, &place),
            "recording with perf needs none; with ftrace, the machine's facts would be missing from the file",
        ),
    }
}

/// Which of the default events the kernel has.
fn tracepoints(tracefs: &Tracefs, events: &[(&str, &str)]) -> Check {
    const NAME: &str = "events";
    let has = |(system, name): &(&str, &str)| {
        let folder = tracefs.path("events").join(system).join(name);
        folder.join("id").exists()
    };
    let lacking: Vec<(&str, &str)> = events.iter().copied().filter(|event| !has(event)).collect();
    let found = events.len() - lacking.len();
    let of_all = format!("{found} of {} default events", events.len());
    if lacking.is_empty() {
        return Check::ok(NAME, of_all);
    }
    let names: Vec<String> = lacking
        .iter()
        .map(|(system, name)| format!("{system}:{name}"))
        .collect();
    let names = names.join(", ");
    match NEEDED.iter().all(has) {
        true => Check::partly(
            NAME,
            format!("{of_all}; without the others less can be told apart: {names}"),
            "this kernel, or this kind of CPU, does not have them; no command helps",
        ),
        false => Check::missing(
            NAME,
            format!("{of_all}; nothing useful can be recorded without scheduler events: {names}"),
            "the kernel was built without tracepoints (CONFIG_FTRACE)",
        ),
    }
}

/// Defines the probes, which leaves them off, and removes them.
pub fn probes(tracefs: Result<&Tracefs, &RecordError>) -> Check {
    const NAME: &str = "probes";
    const WITHOUT: &str = "everything else is recorded; what the scheduler held as it chose a CPU, and the addresses \
                           of TLB flushes, are not";
    let tracefs = match tracefs {
        Ok(tracefs) => tracefs,
        Err(error) => return failed(NAME, error, WITHOUT),
    };
    match Probes::install(tracefs, &Owner::this().name(), 0) {
        Ok(probes) if probes.missing().is_empty() => {
            Check::ok(NAME, "select_task_rq_fair and flush_tlb_mm_range")
        }
        Ok(probes) => Check::partly(
            NAME,
            probes.missing().join("; "),
            "this kernel does not have more; no command helps",
        ),
        Err(error) => failed(NAME, &error, WITHOUT),
    }
}
