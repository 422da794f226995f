//! From a trace file to replayed tables: open, survey, topology, window, replay.

mod raw;
mod reread;
mod work;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use ttwu_parsers::error::OpenError;
use ttwu_parsers::machine_record::{MachineRecord, Process};
use ttwu_parsers::topology::{TopologyError, TopologyFacts, parse_spec};
use ttwu_parsers::trace::{OpenOptions, Trace};

use crate::replay::cpuset::CpuMap;
use crate::replay::flips::{Setup, SetupInput};
use crate::replay::ledger::Window;
use crate::replay::model::KernelModel;
use crate::replay::resolver::{Recorded, Resolver};
use crate::replay::rows::Sink;
use crate::replay::snapshot::{Processes, Snapshot};
use crate::replay::steps::Batch;
use crate::replay::survey::{Survey, survey};
use crate::replay::units::Work;
use crate::replay::words::Reading;
use crate::replay::{Config, Counts, IpiFacts, Machine, Replay};
use crate::topology::{self, Topology};
use crate::wording::many;

pub use self::reread::{Collecting, Moment, Watch, reread};

/// How long an idle CPU must have been idle around a choice to count as missed: 5 µs.
pub const DEFAULT_SETTLE_NS: i64 = 5_000;

/// What a user can ask of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    pub instance: Option<String>,
    /// A file, a folder, a specification or `live`.
    pub topology: Option<String>,
    pub from: Option<TimePoint>,
    pub to: Option<TimePoint>,
    pub settle_ns: i64,
    pub readings: Vec<Reading>,
    pub kernel_model: Option<(u32, u32)>,
    /// Judge the recorder's own threads as any other task.
    pub include_recorder: bool,
    /// What is counted as a unit of work; wakeups where not given.
    pub work: Option<Work>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            instance: None,
            topology: None,
            from: None,
            to: None,
            settle_ns: DEFAULT_SETTLE_NS,
            readings: vec![Reading::Seen, Reading::Any],
            kernel_model: None,
            include_recorder: false,
            work: None,
        }
    }
}

/// An end of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimePoint {
    /// Nanoseconds on the trace's clock.
    At(i64),
    /// Nanoseconds after the trace's start.
    AfterStart(i64),
    /// Nanoseconds before the trace's end.
    BeforeEnd(i64),
    /// The first marker that begins with this text.
    Marker(String),
}

/// Why a trace could not be analysed. Each says what was found and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the topology cannot be used: {0}")]
    Topology(#[from] TopologyError),
    #[error(
        "{path}: no scheduler events: found {found}; record with `perf record -a -e 'sched:*'` or `trace-cmd record -e sched`"
    )]
    NoSchedEvents { path: PathBuf, found: String },
    #[error(
        "{path}: nothing was recorded yet: the recorder ended before the first event; record again"
    )]
    NothingYet { path: PathBuf },
    #[error(
        "{path}: the samples carry no timestamps; record without `--no-timestamp`, as `perf record -a -e 'sched:*'` does"
    )]
    NoTime { path: PathBuf },
    #[error(
        "{path}: the samples carry no CPU; record the whole machine: `perf record -a -e 'sched:*'`"
    )]
    NoCpu { path: PathBuf },
    #[error(
        "{path}: perf recorded single tasks, so what the CPUs did is not in it; record the whole machine: `perf record -a …`"
    )]
    NotSystemWide { path: PathBuf },
    #[error(
        "{path}: the clock `{clock}` does not count nanoseconds and the file gives no rate; record with `trace-cmd record -C mono`"
    )]
    NotNanoseconds { path: PathBuf, clock: String },
    #[error("--{end}: no marker begins with `{text}`; the trace has {}", many(*.found as u64, "marker"))]
    NoMarker {
        end: &'static str,
        text: String,
        found: usize,
    },
    #[error("--work event:{event}: {why}")]
    NoUnitEvent { event: String, why: String },
    #[error("--work marker:{prefix}: no marker begins so; {found}")]
    NoUnitMarker { prefix: String, found: String },
    #[error(
        "--work marker:…: a perf.data holds no markers, which go to ftrace alone; record with `trace-cmd record` or `ttwu record`, or count --work event:NAME, task:NAME or total:N"
    )]
    MarkersOfPerf,
    /// The ends as they were asked for, also where they lie outside the trace.
    #[error(
        "the window is empty: it would begin {} s and end {} s after the trace's start, and the trace lasts {} s ({} to {} on its clock)",
        seconds(.from_ns.saturating_sub(*.start_ns)),
        seconds(.to_ns.saturating_sub(*.start_ns)),
        seconds(.end_ns.saturating_sub(*.start_ns)),
        seconds(*.start_ns),
        seconds(*.end_ns)
    )]
    EmptyWindow {
        from_ns: i64,
        to_ns: i64,
        start_ns: i64,
        end_ns: i64,
    },
}

/// Seconds as they are typed for `--from` and `--to`, without zeroes at the end.
fn seconds(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    let text = format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A trace that was surveyed and is ready for replay.
#[derive(Debug)]
pub struct Prepared {
    pub path: PathBuf,
    pub trace: Trace,
    pub survey: Survey,
    pub record: MachineRecord,
    pub machine: Machine,
    pub config: Config,
}

/// Told how many bytes of how many are done; called from several threads.
pub type Tick<'a> = &'a (dyn Fn(u64) + Sync);

/// Opens a trace and looks over it once.
pub fn open(path: &Path, options: &RunOptions, tick: Tick) -> Result<(Trace, Survey), OpenError> {
    let mut trace = Trace::open(
        path,
        &OpenOptions {
            instance: options.instance.clone(),
            watch: match &options.work {
                Some(Work::Event(watch)) => Some(watch.clone()),
                _ => None,
            },
        },
    )?;
    let mut found = survey(&trace, tick);
    if let Some((first, last)) = found.times.without_lonely() {
        trace.believe(first, last);
        found = survey(&trace, tick);
    }
    Ok((trace, found))
}

/// What the recording says of its machine: in a perf.data's header, or in markers.
pub fn machine_record(trace: &Trace, survey: &Survey) -> MachineRecord {
    let in_header = trace.meta().machine_record.iter();
    let in_markers = survey.record_lines.iter().map(|(_, line)| line);
    MachineRecord::parse(in_header.chain(in_markers).map(String::as_str))
}

/// The topology of a trace: what it carries, what the user gives, or unknown.
pub fn resolve_topology(
    trace: &Trace,
    survey: &Survey,
    record: &MachineRecord,
    wanted: Option<&str>,
) -> Result<Topology, TopologyError> {
    let carried = carried_topology(trace, record);
    topology::resolve(wanted, carried, &survey.cpu_ids())
}

/// What the trace itself says of its machine: the machine record before perf's header.
fn carried_topology(trace: &Trace, record: &MachineRecord) -> Option<(TopologyFacts, String)> {
    if let Some(Ok(facts)) = record.topology.as_deref().map(parse_spec) {
        let source = match record.recorder {
            Some(_) => "the machine record in the trace",
            None => "markers in the trace",
        };
        return Some((facts, source.to_owned()));
    }
    let facts = trace.meta().topology.as_ref()?.facts().ok()?;
    Some((facts, "the perf.data header".to_owned()))
}

/// Opens a trace and prepares its replay; refuses what cannot be analysed.
pub fn prepare(path: &Path, options: &RunOptions, tick: Tick) -> Result<Prepared, RunError> {
    let (trace, survey) = open(path, options, tick)?;
    check_usable(path, &trace, &survey)?;
    work::check(&trace, &survey, options.work.as_ref())?;
    let record = machine_record(&trace, &survey);
    let topology = resolve_topology(&trace, &survey, &record, options.topology.as_deref())?;
    let machine = Machine {
        cpus: CpuMap::new(survey.cpu_ids()),
        topology,
    };
    let config = configure(&trace, &survey, &record, &machine, options)?;
    Ok(Prepared {
        path: path.to_owned(),
        trace,
        survey,
        record,
        machine,
        config,
    })
}

fn check_usable(path: &Path, trace: &Trace, survey: &Survey) -> Result<(), RunError> {
    let path = || path.to_owned();
    let meta = trace.meta();
    let counted = |names: &[&str]| {
        trace
            .types()
            .iter()
            .zip(&survey.by_type)
            .filter(|(t, _)| t.system == "sched" && names.contains(&t.name.as_str()))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    if survey.span.is_none() && !survey.record_lines.is_empty() {
        return Err(RunError::NothingYet { path: path() });
    }
    if counted(&["sched_switch", "sched_waking", "sched_wakeup"]) == 0 {
        return Err(RunError::NoSchedEvents {
            path: path(),
            found: found_events(trace, survey),
        });
    }
    if !meta.has_time {
        return Err(RunError::NoTime { path: path() });
    }
    if !meta.has_cpu {
        return Err(RunError::NoCpu { path: path() });
    }
    if !meta.system_wide {
        return Err(RunError::NotSystemWide { path: path() });
    }
    if !meta.clock.nanoseconds {
        return Err(RunError::NotNanoseconds {
            path: path(),
            clock: meta.clock.name.clone(),
        });
    }
    Ok(())
}

/// The commonest events of a trace, in words.
fn found_events(trace: &Trace, survey: &Survey) -> String {
    let mut counts: Vec<_> = trace.types().iter().zip(&survey.by_type).collect();
    counts.retain(|(_, count)| **count > 0);
    counts.sort_by_key(|(t, count)| (std::cmp::Reverse(**count), &t.name));
    if counts.is_empty() {
        return "no events at all".to_owned();
    }
    let names: Vec<String> = counts
        .iter()
        .take(3)
        .map(|(t, count)| {
            let name = match t.system.as_str() {
                "" => t.name.clone(),
                system => format!("{system}:{}", t.name),
            };
            format!("{count} {}", ttwu_parsers::event::escape(name.as_bytes()))
        })
        .collect();
    names.join(", ")
}

fn configure(
    trace: &Trace,
    survey: &Survey,
    record: &MachineRecord,
    machine: &Machine,
    options: &RunOptions,
) -> Result<Config, RunError> {
    let meta = trace.meta();
    let (start_ns, end_ns) = survey.span.unwrap_or((0, 0));
    let model = KernelModel::detect(
        options.kernel_model,
        meta.kernel_release.as_deref(),
        trace.types(),
    );
    let known_from_start = survey
        .cpus
        .iter()
        .filter(|c| meta.complete_from_start.contains(&c.cpu) && c.first_pid >= 0)
        .map(|c| (c.cpu, c.first_pid))
        .collect();
    let mut ipis = IpiFacts::new(
        trace.types(),
        &survey.by_type,
        model.version,
        || trace.symbols(),
        || trace.strings(),
    );
    ipis.flush_ceiling = flush_ceiling(record);
    let flips = Setup::new(&SetupInput {
        record,
        machine,
        model: &model,
        ticks: &survey.ticks,
        start_ns,
        forks_recorded: trace
            .types()
            .iter()
            .any(|of| of.name == "sched_process_fork"),
    });
    Ok(Config {
        window: window(survey, options, start_ns, end_ns)?,
        start_ns,
        end_ns,
        settle_ns: options.settle_ns,
        readings: options.readings.clone(),
        recorded: Recorded::new(trace.types(), &survey.by_type, model.version),
        ipis,
        model,
        known_from_start,
        online_cpus: machine.cpus.len(),
        snapshot: snapshot(record, survey),
        include_recorder: options.include_recorder,
        work: options.work.clone(),
        flips,
    })
}

/// The most pages that the kernel flushes one by one.
fn flush_ceiling(record: &MachineRecord) -> Option<u32> {
    let mut tunables = record.facts.iter().filter(|(key, _)| key == "tunable");
    tunables.find_map(|(_, text)| {
        let (name, value) = text.split_once(' ')?;
        let known = name.ends_with("tlb_single_page_flush_ceiling");
        known.then(|| value.trim().parse().ok()).flatten()
    })
}

fn processes(of: &[Process]) -> Processes {
    let ranges = of.iter().flat_map(|process| {
        let ranges = process.tids.ranges();
        ranges.map(|(first, last)| (first, last, process.tgid))
    });
    Processes::new(ranges)
}

/// What the record says of the tasks that the trace shows.
fn snapshot(record: &MachineRecord, survey: &Survey) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for group in &record.threads {
        let shown = group.tids.iter();
        let shown = shown.filter(|tid| survey.sightings.contains_key(tid));
        snapshot.allow(shown, &group.mask.to_vec());
    }
    if let Some(recorder) = &record.recorder {
        snapshot.name_recorder(recorder.tids.iter());
    }
    snapshot.processes = [&record.before, &record.after].map(|side| processes(&side.processes));
    snapshot
}

fn window(
    survey: &Survey,
    options: &RunOptions,
    start_ns: i64,
    end_ns: i64,
) -> Result<Window, RunError> {
    let at = |point: &Option<TimePoint>, end: &'static str, default: i64| match point {
        None => Ok(default),
        Some(TimePoint::At(ns)) => Ok(*ns),
        Some(TimePoint::AfterStart(ns)) => Ok(start_ns.saturating_add(*ns)),
        Some(TimePoint::BeforeEnd(ns)) => Ok(end_ns.saturating_sub(*ns)),
        Some(TimePoint::Marker(text)) => survey
            .markers
            .iter()
            .find(|(_, marker)| marker.starts_with(text.as_str()))
            .map(|(ts, _)| *ts)
            .ok_or_else(|| RunError::NoMarker {
                end,
                text: text.clone(),
                found: survey.markers.len() + survey.markers_left_out,
            }),
    };
    let asked = (
        at(&options.from, "from", start_ns)?,
        at(&options.to, "to", end_ns)?,
    );
    let (from_ns, to_ns) = (asked.0.max(start_ns), asked.1.min(end_ns));
    if from_ns > to_ns || (from_ns == to_ns && start_ns != end_ns) {
        return Err(RunError::EmptyWindow {
            from_ns: asked.0,
            to_ns: asked.1,
            start_ns,
            end_ns,
        });
    }
    Ok(Window {
        from_ns,
        to_ns,
        closed: to_ns == end_ns,
    })
}

/// How many batches may be under way: enough that neither thread waits whenever the other is not run for a moment.
const BATCHES: usize = 32;
/// So many are given back at once: waking the other thread takes as long as replaying a few dozen events.
const RETURNED: usize = 16;

/// Replays a prepared trace into `sink`, decoding and resolving ahead on a second thread.
pub fn replay<S: Sink>(prepared: &Prepared, sink: &mut S, tick: Tick) -> Counts {
    replay_and_copy(prepared, sink, None::<&mut Nobody>, tick)
}

/// Nobody who wants a copy.
struct Nobody;

impl Sink for Nobody {}

/// The same, and every event as it was recorded into `copy`.
pub fn replay_and_copy<S: Sink, C: Sink + Send>(
    prepared: &Prepared,
    sink: &mut S,
    copy: Option<&mut C>,
    tick: Tick,
) -> Counts {
    let mut replay = Replay::new(&prepared.config, &prepared.machine, &prepared.survey, sink);
    let (full, batches) = channel::<Batch>();
    let (empty, used) = channel::<Vec<Batch>>();
    std::thread::scope(|scope| {
        // Should the replay panic, both channels close, and the decoder does not wait for it.
        let (batches, empty) = (batches, empty);
        scope.spawn(move || decode(prepared, copy, &full, &used, tick));
        let mut replayed = Vec::new();
        for batch in batches {
            replay.replay(&batch);
            replayed.push(batch);
            if replayed.len() >= RETURNED {
                // The decoder may be done already: then the storage is not needed any more.
                let _ = empty.send(std::mem::take(&mut replayed));
            }
        }
    });
    replay.finish()
}

/// Decodes a trace in time order into batches, as many as may be under way, reusing those that come back.
fn decode<C: Sink>(
    prepared: &Prepared,
    mut copy: Option<&mut C>,
    full: &Sender<Batch>,
    used: &Receiver<Vec<Batch>>,
    tick: Tick,
) {
    let mut source = prepared.trace.merged();
    let mut resolver =
        Resolver::new(prepared.config.recorded).marking(prepared.config.work.as_ref());
    let (mut under_way, mut told) = (0, 0);
    let mut last = false;
    while !last {
        match &mut source.next_event() {
            Some(event) => {
                if let Some(copy) = copy.as_mut().filter(|_| raw::is_recorded(event)) {
                    copy.event(&raw::row(event));
                }
                resolver.feed(event);
            }
            None => {
                resolver.finish();
                last = true;
            }
        }
        while let Some(batch) = resolver.take() {
            // A closed channel means that the replay gave up.
            last |= full.send(batch).is_err();
            under_way += 1;
            while under_way >= BATCHES {
                let Ok(returned) = used.recv() else {
                    return;
                };
                under_way -= returned.len();
                returned
                    .into_iter()
                    .for_each(|batch| resolver.give_back(batch));
            }
            let done = source.bytes_done();
            tick(done.saturating_sub(told));
            told = done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::survey::Sighting;

    #[test]
    fn the_record_tells_of_the_threads_that_the_trace_shows() {
        let record = MachineRecord::parse([
            "ttwu threads mask=1 policy=other prio=0 nice=0 cgroup=/ tids=10-19,30",
            "ttwu threads mask=0-1 policy=fifo prio=5 nice=0 cgroup=/ tids=20-29",
            "ttwu before process tgid=10 tids=10-12",
            "ttwu before process alone=1-9,20",
            "ttwu after process tgid=10 tids=50",
            "ttwu recorder version=1 backend=ftrace tids=40-42",
        ]);
        let mut survey = Survey::default();
        let sighting = Sighting {
            cpu: 0,
            first_ns: 0,
            last_ns: 9,
        };
        for pid in [11, 20, 41, 50] {
            survey.sightings.entry(pid).or_default().push(sighting);
        }
        let snapshot = snapshot(&record, &survey);
        assert!(snapshot.names_recorder());
        assert_eq!(snapshot.mask(11), Some(&[1][..]));
        assert_eq!(snapshot.mask(20), Some(&[0, 1][..]));
        // Not shown, and not recorded.
        assert_eq!((snapshot.mask(12), snapshot.mask(50)), (None, None));
        let [start, end] = &snapshot.processes;
        assert_eq!(
            [11, 20, 50].map(|tid| start.of(tid)),
            [Some(10), Some(20), None]
        );
        assert_eq!([11, 50].map(|tid| end.of(tid)), [None, Some(10)]);
        let nothing = super::snapshot(&MachineRecord::default(), &survey);
        assert!(!nothing.names_recorder());
    }
}
