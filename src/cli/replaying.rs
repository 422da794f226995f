//! The options of all commands that replay a trace.

use clap::Args;

use super::values;
use super::{Common, Failure, errors};
use crate::pipeline::{DEFAULT_SETTLE_NS, RunOptions, TimePoint};
use crate::replay::model::KernelModel;
use crate::replay::units::Work;

/// What a trace is replayed with.
#[derive(Debug, Clone, Args)]
pub struct Replaying {
    /// Which CPUs share cores, caches and nodes: a file or folder, a specification, or live
    ///
    /// FILE is any of: a copy of /proc/schedstat, a copy of /sys/devices/system/cpu (folder or tar), the output of
    /// lscpu -p, -e or -J, kernel messages about scheduler domains, or what `ttwu topology` prints. SPEC is text
    /// such as 'llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7'. `live` is the machine this runs on, which is never
    /// assumed otherwise.
    #[arg(long, value_name = "FILE|SPEC|live", value_parser = values::topology)]
    topology: Option<String>,

    /// Count only from this time on
    ///
    /// 14.731161 (seconds on the trace's clock, as perf script and trace-cmd print them), 500ms or +1.5s (after the
    /// trace's start), -200ms (before its end), or marker:TEXT (the first marker that begins so). What happened
    /// before is replayed all the same.
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_hyphen_values = true)]
    from: Option<TimePoint>,

    /// Count only up to this time
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_hyphen_values = true)]
    to: Option<TimePoint>,

    /// What one unit of work is: task:NAME, event:NAME[:FIELD=VALUE], marker:PREFIX or total:N
    ///
    /// task:nginx* (or a pid): a completed cycle of such a task: woken, ran, blocked. event:sched:sched_process_exec or
    /// event:sched_switch:next_comm=db: every such event; a value is a number (12, -1, 0x1f) or text. marker:lab: counts
    /// the markers `lab start`, `lab unit N` (N units done so far) and `lab end`, or, where there are no such, every
    /// marker that begins so. total:3000: the workload did so many in the window. Without it only wakeups per second
    /// are told, which is no throughput.
    #[arg(long, value_name = "UNIT", value_parser = values::work)]
    work: Option<Work>,

    /// How long a CPU must have been idle around a choice to count as missed
    #[arg(long, value_name = "DURATION", value_parser = values::duration_ns, default_value = "5us", allow_hyphen_values = true)]
    settle: i64,

    /// Treat the recorder's own threads as any other task
    ///
    /// Otherwise their waits have the verdict `recorder`, and idle search, pairs and tasks are without them.
    #[arg(long)]
    include_recorder: bool,

    /// Follow the rules of this kernel version, such as 6.12, instead of the trace's own
    #[arg(long, value_name = "X.Y", value_parser = values::kernel_model)]
    kernel_model: Option<(u32, u32)>,

    /// The ftrace instance to read; the one with the most data otherwise
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

impl Replaying {
    /// Looks over what needs no trace.
    pub fn check(&self, common: Common) -> Result<(), Failure> {
        self.check_window()?;
        self.warn_of_model(common);
        Ok(())
    }

    /// Refuses a window that is empty whatever the trace is.
    fn check_window(&self) -> Result<(), Failure> {
        let empty = match (&self.from, &self.to) {
            (Some(TimePoint::At(from)), Some(TimePoint::At(to)))
            | (Some(TimePoint::AfterStart(from)), Some(TimePoint::AfterStart(to)))
            | (Some(TimePoint::BeforeEnd(to)), Some(TimePoint::BeforeEnd(from))) => from >= to,
            _ => false,
        };
        match empty {
            true => Err(Failure::Usage(
                "--from is not before --to: there is nothing between them".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Says that the rules of a version are not known, if it was asked for.
    fn warn_of_model(&self, common: Common) {
        // Without any word of the version the newest rules are assumed.
        let newest = KernelModel::detect(None, None, &[]).version;
        if let Some((major, minor)) = self.kernel_model.filter(|asked| *asked > newest) {
            let text = format!(
                "--kernel-model {major}.{minor} is newer than the newest rules that are known: those of {}.{} are followed",
                newest.0, newest.1
            );
            errors::warn(&text, common);
        }
    }

    /// One of the options that was given, if any was.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.topology.is_some(), "--topology"),
            (self.from.is_some(), "--from"),
            (self.to.is_some(), "--to"),
            (self.work.is_some(), "--work"),
            (self.settle != DEFAULT_SETTLE_NS, "--settle"),
            (self.include_recorder, "--include-recorder"),
            (self.kernel_model.is_some(), "--kernel-model"),
            (self.instance.is_some(), "--instance"),
        ];
        given.iter().find_map(|(is, name)| is.then_some(*name))
    }

    /// What is asked of the replay.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            instance: self.instance.clone(),
            topology: self.topology.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            settle_ns: self.settle,
            kernel_model: self.kernel_model,
            include_recorder: self.include_recorder,
            work: self.work.clone(),
            ..RunOptions::default()
        }
    }
}
