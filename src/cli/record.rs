//! `ttwu record`.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use ttwu_parsers::event::escape;
use ttwu_parsers::trace::{OpenOptions, Trace};

use super::{Common, Failure, errors, values};
use crate::record::events::{self, Wanted};
use crate::record::session::{self, Choice, End, Outcome, Request, Watcher};
use crate::record::tracefs::Tracefs;
use crate::record::{RecordError, Seen, cleanup};
use crate::report::units::{count, counted, duration, percent, short_count, short_counted};

const EXAMPLES: &str = "\
Examples:
  ttwu record --for 5s                       the whole machine for five seconds
  ttwu record --analyze -- hackbench -g 10   while a command runs, then the report
  ttwu record -o base.dat --probes -- ./run  with what the kernel held at each choice
  ttwu record --backend perf --counters cycles,instructions -- ./run
  ttwu record -e +power,'irq:irq_handler_entry/irq == 24/' --for 1s

Exit codes: the command's own, or 128 and the number of the signal that ended it;
without a command 0. 1 if it could not be recorded, 2 for wrong usage, 126 and 127
as a shell has them if the command could not be run.";

/// Record scheduler events of this machine, and the machine
///
/// Records all CPUs, whatever runs on them, until COMMAND ends, the time is up or Ctrl-C. The file can be read by the
/// usual tools too: trace-cmd and KernelShark (trace.dat), or perf (perf.data).
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Record {
    /// The file to write [default: trace.dat, or perf.data with perf]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Replace FILE even if no `ttwu record` wrote it
    #[arg(short, long)]
    force: bool,

    /// Which of the kernel's two ways to events to use
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t = Backend::Auto)]
    backend: Backend,

    /// Stop after so long, such as 500ms or 10s; a command that still runs is told to end (SIGTERM)
    #[arg(long = "for", value_name = "DURATION", value_parser = time)]
    duration: Option<Duration>,

    /// What to record: default, sys, irq, power, SYSTEM:EVENT[/FILTER/]; + before it adds to the default
    ///
    /// A list with commas. SYSTEM:EVENT may hold * and ?. sys are all system calls, irq all interrupts and timers,
    /// power idle states and frequencies. Without sched:sched_switch, sched:sched_waking and sched:sched_wakeup, which
    /// are in the default, there is little to analyse.
    #[arg(short, long, value_name = "SET|LIST", value_parser = wanted_events)]
    events: Option<Events>,

    /// Buffer of each CPU, such as 8M [default: by the rate of events]
    #[arg(short, long, value_name = "SIZE", value_parser = buffer)]
    buffer: Option<u64>,

    /// Also record what the kernel held and chose at each selection of a CPU, and ranges of TLB flushes (6.5 on)
    #[arg(long)]
    probes: bool,

    /// Counters to read at each switch, such as cycles,instructions; by perf only
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    counters: Vec<String>,

    /// Record only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = clap::builder::ValueParser::new(values::cpus))]
    cpu: Option<CpuList>,

    /// How to compress the file [default: zstd for a trace.dat, none for a perf.data]
    #[arg(long, value_enum, value_name = "HOW")]
    compress: Option<Compress>,

    /// The clock of the stamps, as ftrace calls it
    #[arg(long, value_name = "NAME", default_value = "mono")]
    clock: String,

    /// Version of the trace.dat
    #[arg(long, value_name = "6|7", default_value_t = 7, value_parser = clap::value_parser!(u8).range(6..=7))]
    file_version: u8,

    /// Then say where CPU time and wakeups were lost, as `ttwu analyze` does
    #[arg(long)]
    analyze: bool,

    /// Only remove what killed recordings have left in the kernel
    #[arg(long, conflicts_with_all = ["output", "duration", "events", "command", "analyze"])]
    cleanup: bool,

    /// The command to run and record, with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

type CpuList = Vec<u32>;

/// A list of events, under a name that clap does not take for several values.
type Events = Vec<Wanted>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// ftrace where that is allowed, else perf
    Auto,
    /// A private ring buffer of the kernel's tracing: the cheaper one; writes a trace.dat
    Ftrace,
    /// perf_event_open: can also read counters; writes a perf.data
    Perf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compress {
    Zstd,
    None,
}

fn wanted_events(text: &str) -> Result<Events, String> {
    events::parse(text).map_err(|error| escape(error.as_bytes()))
}

fn time(text: &str) -> Result<Duration, String> {
    let ns = values::duration_ns(text)?;
    match u64::try_from(ns) {
        Ok(ns) if ns > 0 => Ok(Duration::from_nanos(ns)),
        _ => Err("a recording takes some time".to_owned()),
    }
}

/// The smallest buffer that is any use.
const LEAST_BUFFER: u64 = 64 << 10;

fn buffer(text: &str) -> Result<u64, String> {
    let size = parse_size::Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|error| format!("{error}; a size is 512K, 8M or 1G"))?;
    match size >= LEAST_BUFFER {
        true => Ok(size),
        false => Err("a buffer has 64K at least; a size is 512K, 8M or 1G".to_owned()),
    }
}

impl Record {
    pub fn run(&self, common: Common) -> Result<ExitCode, Failure> {
        if self.cleanup {
            return clean_up(common);
        }
        if self.file_version == 6 && self.compress == Some(Compress::Zstd) {
            return Err(RecordError::Wanted(
                "version 6 of trace.dat has no compression; leave --compress or --file-version out"
                    .to_owned(),
            )
            .into());
        }
        let live = Live::new(common);
        let done = session::record(&self.request(), &is_ours, &live);
        live.clear();
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(RecordError::Command { program, source }) => {
                return Ok(not_run(&program, &source, common));
            }
            Err(error) => return Err(error.into()),
        };
        summarise(&outcome, common);
        if self.analyze {
            super::analyze_file(&outcome.path, common)?;
        }
        Ok(exit_code(&outcome.end))
    }

    fn request(&self) -> Request {
        Request {
            output: self.output.clone(),
            force: self.force,
            backend: match self.backend {
                Backend::Auto => Choice::Auto,
                Backend::Ftrace => Choice::Ftrace,
                Backend::Perf => Choice::Perf,
            },
            duration: self.duration,
            events: self.events.clone().unwrap_or_else(events::default_set),
            buffer: self.buffer,
            probes: self.probes,
            counters: self.counters.clone(),
            cpus: self.cpu.clone(),
            compress: self.compress.map(|how| how == Compress::Zstd),
            clock: self.clock.clone(),
            file_version: self.file_version,
            command: self.command.clone(),
            command_line: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
        }
    }
}

/// Whether an earlier run wrote a file.
fn is_ours(path: &Path) -> bool {
    let trace = Trace::open(path, &OpenOptions::default());
    trace.is_ok_and(|trace| {
        trace
            .meta()
            .recorder
            .as_ref()
            .is_some_and(|name| name.starts_with("ttwu "))
    })
}

fn clean_up(common: Common) -> Result<ExitCode, Failure> {
    let cleaned = cleanup::clean(&Tracefs::find()?);
    for what in &cleaned.kept {
        errors::warn(&format!("cannot remove {what}"), common);
    }
    for what in &cleaned.removed {
        errors::note(&format!("removed {what}"), common);
    }
    if cleaned == cleanup::Cleaned::default() {
        errors::note("killed recordings have left nothing", common);
    }
    Ok(match cleaned.kept.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// A command that cannot be run, with the exit codes that shells have for that.
fn not_run(program: &str, source: &std::io::Error, common: Common) -> ExitCode {
    let program = escape(program.as_bytes());
    errors::fail(&format!("cannot run `{program}`: {source}"), common);
    ExitCode::from(match source.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    })
}

/// What came of it, in one line; and what is to be done about losses.
fn summarise(outcome: &Outcome, common: Common) {
    let summary = &outcome.summary;
    let wall = ns(outcome.wall);
    let cpu = ns(summary.cpu_time);
    let each = summary.bytes as f64 / summary.events.max(1) as f64;
    let lost: u64 = summary.lost.iter().map(|(_, lost)| lost).sum();
    errors::note(
        &format!(
            "{} in {}, {} ({each:.1} B each), {} lost, recorder {} CPU ({}): {}",
            counted(summary.events, "event"),
            duration(wall),
            HumanBytes(summary.bytes),
            count(lost),
            duration(cpu),
            percent(cpu as f64 / wall.max(1) as f64),
            escape(outcome.path.as_os_str().as_encoded_bytes()),
        ),
        common,
    );
    if lost > 0 {
        let cpus: Vec<String> = summary
            .lost
            .iter()
            .map(|(cpu, lost)| format!("{} on CPU {cpu}", count(*lost)))
            .collect();
        errors::warn(
            &format!(
                "events were lost: {}; record again with a larger --buffer",
                cpus.join(", ")
            ),
            common,
        );
    }
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

fn exit_code(end: &End) -> ExitCode {
    let End::Command(ended) = end else {
        return ExitCode::SUCCESS;
    };
    let code = match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or(0),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// The line on the terminal while it records.
struct Live {
    bar: Option<ProgressBar>,
    last: RefCell<(Duration, u64)>,
    common: Common,
}

impl Live {
    fn new(common: Common) -> Self {
        let shown = !common.quiet && stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            match ProgressStyle::with_template("recording {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self {
            bar,
            last: RefCell::default(),
            common,
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Live {
    fn note(&self, text: &str) {
        errors::note(text, self.common);
    }

    fn watches(&self) -> bool {
        self.bar.is_some()
    }

    fn seen(&self, elapsed: Duration, seen: Seen) {
        let Some(bar) = &self.bar else { return };
        let (then, events) = self.last.replace((elapsed, seen.events));
        let span = elapsed.saturating_sub(then).as_secs_f64().max(1e-3);
        let rate = seen.events.saturating_sub(events) as f64 / span;
        bar.set_message(format!(
            "{:.1} s  {}/s  {}  {}  {} lost",
            elapsed.as_secs_f64(),
            short_count(rate as u64),
            short_counted(seen.events, "event"),
            HumanBytes(seen.bytes),
            count(seen.lost),
        ));
        bar.tick();
    }

    fn finishing(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message("ended, writing the file");
            bar.tick();
        }
    }
}
