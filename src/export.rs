//! From a trace to its part of a dataset: replays it, and writes every table that is asked for.

use ttwu_parsers::event::escape;

use crate::attribute::lost_events;
use crate::pipeline::{self, Prepared, Tick};
use crate::replay::rows::{Sink, TraceRow};
use crate::tables::export::{
    Exporter, FileKind, Format, Names, Place, Recording, Staging, Written,
};
use crate::tables::{Table, TablesError};

/// Which tables are written where an export does not say: all but the raw events.
pub fn default_tables() -> Vec<Table> {
    let all = Table::ALL.iter().copied();
    all.filter(|table| *table != Table::Events).collect()
}

/// What is exported, and to where.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `traces` is written whether it is among these or not.
    pub tables: Vec<Table>,
    pub format: Format,
    pub place: Place,
    /// Replace what another recording left under the same names.
    pub force: bool,
}

/// Exports a trace.
///
/// # Errors
/// Where the dataset cannot be written: what was there before is left as it was.
pub fn export(prepared: &Prepared, plan: &Plan, tick: Tick) -> Result<Vec<Written>, TablesError> {
    let trace = trace_row(prepared);
    let staging = Staging::new(&plan.place, &Recording::of(&trace), plan.force)?;
    let mut tables = plan.tables.clone();
    tables.push(Table::Traces);
    tables.sort_unstable();
    tables.dedup();
    let files = plan.place.files(plan.format);
    let written = write(prepared, &trace, &tables, &staging, &files, tick)?;
    staging.commit(&tables)?;
    Ok(written)
}

fn write(
    prepared: &Prepared,
    trace: &TraceRow,
    tables: &[Table],
    staging: &Staging,
    files: &FileKind,
    tick: Tick,
) -> Result<Vec<Written>, TablesError> {
    let names = names(prepared);
    let (raw, replayed): (Vec<Table>, Vec<Table>) =
        tables.iter().partition(|table| **table == Table::Events);
    let mut exporter = Exporter::new(&replayed, staging.path(), files, names.clone());
    // Raw events come from another thread than the rows of the replay.
    let copy = (!raw.is_empty()).then(|| Exporter::new(&raw, staging.path(), files, names));
    exporter.sink().trace(trace);
    let mut copy = copy;
    let raw = copy.as_mut().map(Exporter::sink);
    pipeline::replay_and_copy(prepared, exporter.sink(), raw, tick);
    let mut written = exporter.written()?;
    if let Some(copy) = copy {
        written.extend(copy.written()?);
    }
    Ok(written)
}

/// The names of a trace's types of events and functions.
fn names(prepared: &Prepared) -> Names {
    let types = prepared.trace.types().iter();
    let events = types.map(|of| {
        let name = match of.system.as_str() {
            "" => of.name.clone(),
            system => format!("{system}:{}", of.name),
        };
        escape(name.as_bytes())
    });
    Names {
        events: events.collect(),
        symbols: prepared.config.ipis.symbols.clone(),
    }
}

/// The name of the host that was recorded, where the trace tells it: `(none)` is the kernel's word for no name.
pub fn host_of(prepared: &Prepared) -> Option<&str> {
    let host = prepared.trace.meta().hostname.as_deref();
    host.filter(|host| !["", "(none)"].contains(&host.trim()))
}

/// Where a topology is from, without the folders that the file lay in: they say nothing to who reads the dataset.
fn without_folders(source: &str) -> String {
    let parts = source.strip_prefix("--topology ");
    let parts = parts.and_then(|rest| rest.rsplit_once(" ("));
    let Some((path, kind)) = parts else {
        return source.to_owned();
    };
    let name = path.trim_end_matches('/').rsplit('/').next();
    format!("--topology {} ({kind}", name.unwrap_or(path))
}

fn trace_row(prepared: &Prepared) -> TraceRow {
    let meta = prepared.trace.meta();
    let config = &prepared.config;
    let topology = &prepared.machine.topology;
    let safe = |text: &String| escape(text.as_bytes());
    let file = prepared
        .path
        .file_name()
        .unwrap_or(prepared.path.as_os_str());
    TraceRow {
        file: escape(file.as_encoded_bytes()),
        format: meta.format.clone(),
        recorder: meta.recorder.as_ref().map(safe),
        kernel_release: meta.kernel_release.as_ref().map(safe),
        kernel_model: safe(&config.model.describe()),
        arch: meta.arch.as_ref().map(safe),
        clock: safe(&meta.clock.name),
        first_event_ns: config.start_ns,
        last_event_ns: config.end_ns,
        start_ns: config.window.from_ns,
        end_ns: config.window.to_ns,
        events: prepared.survey.events,
        lost_events: lost_events(&prepared.survey, meta),
        cpus: prepared.machine.cpus.len() as u32,
        llcs: topology.llcs().map(|llcs| llcs.len() as u32),
        topology: topology.llcs().map(|_| topology.to_spec()),
        topology_from: safe(&without_folders(topology.source())),
        work: config.work.as_ref().map(|work| safe(&work.to_string())),
        settle_ns: config.settle_ns,
        recorder_counted: config.include_recorder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stay_at_home() {
        let cases = [
            (
                "--topology /home/me/x (y)/topology.txt (CPU listing)",
                "--topology topology.txt (CPU listing)",
            ),
            (
                "--topology sys/cpu/ (copy of sysfs)",
                "--topology cpu (copy of sysfs)",
            ),
            ("--topology (spec)", "--topology (spec)"),
            (
                "--topology live (the analysing machine)",
                "--topology live (the analysing machine)",
            ),
            ("the perf.data header", "the perf.data header"),
        ];
        for (source, kept) in cases {
            assert_eq!(without_folders(source), kept);
        }
    }
}
