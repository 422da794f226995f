//! A recording from start to end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;

use super::command::{self, Ended, Running};
use super::events::{self, Wanted};
use super::ftrace::{self, FtraceRecorder};
use super::owner::Owner;
use super::perf::PerfRecorder;
use super::probes::Probes;
use super::signals::{Caught, Signals};
use super::snapshot::{self, Processes, Root, Stage};
use super::target::{Ours, Target};
use super::tracefs::Tracefs;
use super::visitor::Visitor;
use super::{Backend, Plan, RecordError, Seen, Summary, cleanup, cpus};

/// What a user asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// `trace.dat` or `perf.data` where not given.
    pub output: Option<PathBuf>,
    /// Replace a file that no earlier run wrote.
    pub force: bool,
    pub backend: Choice,
    /// Ends the recording, unless the command or a signal does so before.
    pub duration: Option<Duration>,
    pub events: Vec<Wanted>,
    /// Bytes for each CPU.
    pub buffer: Option<u64>,
    pub probes: bool,
    pub counters: Vec<String>,
    /// All online CPUs where not given.
    pub cpus: Option<Vec<u32>>,
    /// A trace.dat is compressed and a perf.data is not, where not given.
    pub compress: Option<bool>,
    pub clock: String,
    /// Of a trace.dat: 6 or 7.
    pub file_version: u8,
    pub command: Vec<OsString>,
    /// This program's own command line.
    pub command_line: Vec<String>,
}

/// Which backend is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// ftrace where it is allowed, else perf.
    Auto,
    Ftrace,
    Perf,
}

/// Told what happens meanwhile.
pub trait Watcher {
    /// Something the user should know.
    fn note(&self, text: &str);
    /// Whether [`Watcher::seen`] is of use.
    fn watches(&self) -> bool;
    /// What there is so far.
    fn seen(&self, elapsed: Duration, seen: Seen);
    /// The events are in; the file is being put together.
    fn finishing(&self);
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub path: PathBuf,
    /// `ftrace` or `perf`.
    pub backend: &'static str,
    pub summary: Summary,
    /// From the first event to the last.
    pub wall: Duration,
    pub end: End,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// The command did.
    Command(Ended),
    Time,
    Signal(Signal),
}

/// How often somebody who watches is told what there is.
const LOOK: Duration = Duration::from_millis(250);
/// How often an end of the backend for its own reasons is looked for, with nobody watching.
const CHECK: Duration = Duration::from_secs(1);
/// How long a command that was told to end is waited for.
const GRACE: Duration = Duration::from_secs(2);

/// Records what is asked for.
///
/// # Errors
/// What cannot be recorded, each with what to do about it. Nothing is left in the kernel, whatever happens.
pub fn record(
    request: &Request,
    ours: Ours<'_>,
    watcher: &dyn Watcher,
) -> Result<Outcome, RecordError> {
    if let Some(program) = request.command.first() {
        command::look_up(program)?;
    }
    let signals = Signals::take()?;
    let tracefs = Tracefs::find()?;
    for name in cleanup::clean(&tracefs).removed {
        watcher.note(&format!("removed what an earlier run had left: {name}"));
    }
    let owner = Owner::this();
    // Declared before the backend, which uses them, and so dropped after it.
    let mut probes = None;
    let (plan, prepared) = prepare(request, &tracefs, &owner, &mut probes, watcher)?;
    let name = match prepared {
        Ready::Ftrace(_) => ("ftrace", "trace.dat"),
        Ready::Perf => ("perf", "perf.data"),
    };
    let path = request
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(name.1));
    let target = Target::create(&path, request.force, ours)?;
    let recorded = run(
        request, &plan, prepared, &tracefs, &target, &signals, watcher,
    );
    match recorded {
        Ok((summary, wall, end)) => {
            target.keep();
            Ok(Outcome {
                path,
                backend: name.0,
                summary,
                wall,
                end,
            })
        }
        Err(Failed { error, empty }) => {
            if !empty {
                target.keep();
            }
            Err(error)
        }
    }
}

/// A backend that will be able to record.
enum Ready {
    Ftrace(Box<ftrace::Prepared>),
    Perf,
}

/// Settles what is recorded and how.
fn prepare(
    request: &Request,
    tracefs: &Tracefs,
    owner: &Owner,
    probes: &mut Option<Probes>,
    watcher: &dyn Watcher,
) -> Result<(Plan, Ready), RecordError> {
    let cpus = wanted_cpus(request)?;
    let resolved = events::resolve(tracefs, &request.events)?;
    if !resolved.lacking.is_empty() {
        watcher.note(&format!(
            "this kernel lacks {}",
            resolved.lacking.join(", ")
        ));
    }
    let mut plan = Plan {
        cpus,
        events: resolved.events,
        buffer: request.buffer,
        compress: false,
        clock: request.clock.clone(),
        counters: request.counters.clone(),
        file_version: request.file_version,
        command_line: request.command_line.clone(),
    };
    if request.probes {
        let installed = Probes::install(tracefs, &owner.name(), plan.cpus.len())?;
        for (system, name) in installed.events() {
            plan.events
                .push(events::lookup(tracefs, &system, &name, None)?);
        }
        *probes = Some(installed);
    }
    if plan.events.is_empty() {
        return Err(RecordError::Wanted(
            "this kernel has none of the events; `ttwu doctor` lists what there is".to_owned(),
        ));
    }
    let ready = choose(request, &plan, tracefs, owner, watcher)?;
    plan.compress = request
        .compress
        .unwrap_or(matches!(ready, Ready::Ftrace(_)) && plan.file_version == 7);
    Ok((plan, ready))
}

fn wanted_cpus(request: &Request) -> Result<Vec<u32>, RecordError> {
    let online = cpus::online()?;
    let Some(wanted) = &request.cpus else {
        return Ok(online);
    };
    match wanted.iter().find(|cpu| !online.contains(cpu)) {
        Some(cpu) => Err(RecordError::Wanted(format!(
            "CPU {cpu} is not online; `cat /sys/devices/system/cpu/online` lists those that are"
        ))),
        None => Ok(wanted.clone()),
    }
}

/// The backend that is asked for, or the first that can.
fn choose(
    request: &Request,
    plan: &Plan,
    tracefs: &Tracefs,
    owner: &Owner,
    watcher: &dyn Watcher,
) -> Result<Ready, RecordError> {
    let counts = !request.counters.is_empty();
    let ready = |prepared| Ready::Ftrace(Box::new(prepared));
    match request.backend {
        Choice::Perf => Ok(Ready::Perf),
        Choice::Ftrace if counts => Err(RecordError::Wanted(
            "only perf reads counters; record with --backend perf, or without --counters"
                .to_owned(),
        )),
        Choice::Ftrace => ftrace::Prepared::new(plan, tracefs, owner).map(ready),
        Choice::Auto if counts => {
            watcher.note("recording with perf, since only perf reads counters");
            Ok(Ready::Perf)
        }
        Choice::Auto => match ftrace::Prepared::new(plan, tracefs, owner) {
            Ok(prepared) => Ok(ready(prepared)),
            // What was asked for is wrong whichever records it.
            Err(error @ RecordError::Wanted(_)) => Err(error),
            Err(error) => {
                watcher.note(&format!(
                    "recording with perf, since ftrace cannot: {error}"
                ));
                Ok(Ready::Perf)
            }
        },
    }
}

/// Why a recording failed, and whether its file holds nothing yet.
struct Failed {
    error: RecordError,
    empty: bool,
}

type Recorded = (Summary, Duration, End);

fn run(
    request: &Request,
    plan: &Plan,
    ready: Ready,
    tracefs: &Tracefs,
    target: &Target,
    signals: &Signals,
    watcher: &dyn Watcher,
) -> Result<Recorded, Failed> {
    let empty = |error| Failed { error, empty: true };
    let kept = |error| Failed {
        error,
        empty: false,
    };
    let visitor = Visitor::start(&plan.cpus).map_err(empty)?;
    let mut backend = start(plan, ready, tracefs, target).map_err(empty)?;
    let root = Root::host();
    let processes = Processes::read(&root);
    let before = describe(request, backend.as_ref(), &visitor, &root, &processes);
    backend.introduce(&before).map_err(empty)?;
    let cpu_before = cpu_time();
    let began = Instant::now();
    backend.begin().map_err(empty)?;
    visitor.round();
    let mut command = match request.command.is_empty() {
        true => None,
        false => Some(Running::start(&request.command, signals.mask_before()).map_err(empty)?),
    };
    let end = wait(
        request,
        backend.as_ref(),
        command.as_mut(),
        signals,
        watcher,
        began,
    );
    visitor.round();
    backend.end().map_err(kept)?;
    let wall = began.elapsed();
    let used = cpu_time().saturating_sub(cpu_before);
    watcher.finishing();
    let end = end.map_err(kept)?;
    let mut after = snapshot::counters(&root, Stage::After);
    after.extend(Processes::read(&root).since(&processes).lines(Stage::After));
    if let End::Command(ended) = end {
        after.push(snapshot::result(ended.wall, ended.status, &ended.usage));
    }
    let lost = backend.lost().into_iter();
    after.extend(lost.map(|(cpu, events)| snapshot::lost(cpu, events)));
    let used_ns = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
    after.push(snapshot::overhead(used_ns));
    let summary = backend.finish(&in_markers(&after)).map_err(kept)?;
    visitor.end();
    let summary = Summary {
        cpu_time: used,
        ..summary
    };
    Ok((summary, wall, end))
}

fn start(
    plan: &Plan,
    ready: Ready,
    tracefs: &Tracefs,
    target: &Target,
) -> Result<Box<dyn Backend>, RecordError> {
    let path: &Path = &target.path;
    let file = target
        .file
        .try_clone()
        .map_err(RecordError::file("write", path))?;
    Ok(match ready {
        Ready::Ftrace(prepared) => Box::new(FtraceRecorder::start(plan, *prepared, file, path)?),
        Ready::Perf => Box::new(PerfRecorder::new(plan, tracefs, file, path)?),
    })
}

/// The machine before the first event, and who records it.
fn describe(
    request: &Request,
    backend: &dyn Backend,
    visitor: &Visitor,
    root: &Root,
    processes: &Processes,
) -> Vec<String> {
    let mut threads = backend.threads();
    threads.extend([visitor.tid(), std::process::id().cast_signed()]);
    if snapshot::in_own_namespace(root, snapshot::Namespace::Pid) {
        // The events name threads by other numbers than this process knows.
        threads.clear();
    }
    let mut lines = snapshot::before(root);
    lines.extend(processes.lines(Stage::Before));
    lines.extend(snapshot::counters(root, Stage::Before));
    lines.push(snapshot::recorder(
        env!("CARGO_PKG_VERSION"),
        backend.name(),
        &threads,
    ));
    if !request.command.is_empty() {
        lines.push(snapshot::command(&request.command));
    }
    in_markers(&lines)
}

/// Lines cut to what a marker may hold.
fn in_markers(lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .flat_map(|line| snapshot::split(line))
        .collect()
}

/// Waits for the end of the recording.
fn wait(
    request: &Request,
    backend: &dyn Backend,
    mut command: Option<&mut Running>,
    signals: &Signals,
    watcher: &dyn Watcher,
    began: Instant,
) -> Result<End, RecordError> {
    let pause = if watcher.watches() { LOOK } else { CHECK };
    loop {
        if let Some(command) = command.as_deref_mut()
            && let Some(ended) = command.ended()?
        {
            return Ok(End::Command(ended));
        }
        let left = request
            .duration
            .map(|most| most.saturating_sub(began.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return stop(command, Some((Signal::SIGTERM, false)), signals, End::Time);
        }
        match signals.wait(Some(left.map_or(pause, |left| left.min(pause))))? {
            Some(Caught::Ending {
                signal,
                from_terminal,
            }) => {
                let passed_on = Some((signal, from_terminal));
                return stop(command, passed_on, signals, End::Signal(signal));
            }
            Some(Caught::Child) => continue,
            None => {}
        }
        if backend.failed() {
            return stop(command, None, signals, End::Time);
        }
        if watcher.watches() {
            watcher.seen(began.elapsed(), backend.seen());
        }
    }
}

/// Passes the end on to the command, which has a moment to obey. Its own end then is the recording's.
fn stop(
    command: Option<&mut Running>,
    signal: Option<(Signal, bool)>,
    signals: &Signals,
    otherwise: End,
) -> Result<End, RecordError> {
    let Some(command) = command else {
        return Ok(otherwise);
    };
    let Some((signal, had_by_command)) = signal else {
        return Ok(otherwise);
    };
    if !had_by_command {
        command.signal(signal);
    }
    let since = Instant::now();
    while since.elapsed() < GRACE {
        if let Some(ended) = command.ended()? {
            return Ok(End::Command(ended));
        }
        let left = GRACE.saturating_sub(since.elapsed());
        if let Some(Caught::Ending { signal, .. }) = signals.wait(Some(left))? {
            // Asked twice: no more waiting.
            command.signal(signal);
            break;
        }
    }
    Ok(otherwise)
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Duration::ZERO;
    };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(
            value.tv_sec().try_into().unwrap_or(0),
            u32::try_from(value.tv_usec()).unwrap_or(0) * 1000,
        )
    };
    time(usage.user_time()) + time(usage.system_time())
}
