//! The ftrace backend: a private instance, its pages moved by splice, a trace.dat at the end.

mod dat;
mod finish;
mod journal;
mod reader;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::buffers::{Need, Sizes};
use super::cpus::{Worker, groups, run_at_once};
use super::instance::{Instance, Stats};
use super::owner::Owner;
use super::plan::PlannedEvent;
use super::tracefs::Tracefs;
use super::{Backend, Plan, RecordError, Seen, Summary};

use self::dat::Description;
use self::journal::{Extent, Journal};
use self::reader::Reader;

/// How full a buffer is, in percent, when it wakes its reader.
const WAKE_PERCENT: &str = "25";

/// A recording through ftrace.
pub struct FtraceRecorder {
    plan: Plan,
    path: PathBuf,
    description: Description,
    /// Until the recording is over.
    instance: Option<Arc<Instance>>,
    journal: Arc<Journal>,
    readers: Vec<Worker<Result<Vec<Extent>, RecordError>>>,
    stop: Arc<OwnedFd>,
    moved: Arc<AtomicU64>,
    extents: Vec<Extent>,
    /// By CPU, once it is over.
    stats: Vec<(u32, Stats)>,
}

/// An instance that is set up for a plan: the part of a recording that may be refused.
#[derive(Debug)]
pub struct Prepared {
    instance: Arc<Instance>,
    description: Description,
    sizes: Sizes,
}

impl Prepared {
    /// Makes the instance, with all events of the plan enabled but recording off.
    pub fn new(plan: &Plan, tracefs: &Tracefs, owner: &Owner) -> Result<Self, RecordError> {
        let instance = Instance::create(tracefs, owner)?;
        let sizes = Sizes::here(Need::FTRACE, plan.cpus.len(), plan.buffer);
        instance.write("buffer_size_kb", &sizes.start.div_ceil(1024).to_string())?;
        instance.write("trace_clock", &plan.clock).map_err(|_| {
            RecordError::Wanted(format!(
                "this kernel has no clock `{}`; `cat {}` lists them",
                plan.clock,
                tracefs.path("trace_clock").display()
            ))
        })?;
        if instance.path("buffer_percent").exists() {
            instance.write("buffer_percent", WAKE_PERCENT)?;
        }
        // Lost events then leave their number in the next page; refused ones would leave no trace.
        instance.write("options/overwrite", "1")?;
        // What the workload writes to the top level's trace_marker is wanted here, too: it may mark its units of work.
        // Since 6.16 (7b382efd5e8a).
        let copies_markers = instance.path("options/copy_trace_marker").exists();
        if copies_markers {
            instance.write("options/copy_trace_marker", "1")?;
        }
        instance.write("tracing_cpumask", &mask(&plan.cpus))?;
        let mut description = Description::read(tracefs, &plan.events)?;
        description.clock = plan.clock.clone();
        description.clocks = instance.read("trace_clock")?;
        description.cpu_count = plan.cpus.last().map_or(0, |last| last + 1);
        Ok(Self {
            instance: Arc::new(instance),
            description,
            sizes,
        })
    }
}

impl FtraceRecorder {
    /// Starts the threads and the journal in `file`, which is empty. Nothing is recorded yet.
    pub fn start(
        plan: &Plan,
        prepared: Prepared,
        file: File,
        path: &Path,
    ) -> Result<Self, RecordError> {
        let Prepared {
            instance,
            description,
            sizes,
        } = prepared;
        let journal = Arc::new(Journal::start(file, description.clone())?);
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let stop = EventFd::from_flags(flags).map_err(RecordError::system("no eventfd"))?;
        let mut recorder = Self {
            plan: plan.clone(),
            path: path.to_owned(),
            description,
            instance: Some(instance.clone()),
            journal,
            readers: Vec::new(),
            stop: Arc::new(stop.into()),
            moved: Arc::default(),
            extents: Vec::new(),
            stats: Vec::new(),
        };
        for cpus in groups(&plan.cpus) {
            let reader = Reader::new(
                &cpus,
                sizes,
                &recorder.journal,
                &instance,
                &recorder.stop,
                &recorder.moved,
            )?;
            let worker = Worker::start("ttwu-reader", &cpus, move || {
                run_at_once();
                reader.run()
            })?;
            recorder.readers.push(worker);
        }
        Ok(recorder)
    }

    fn enable(&self, instance: &Instance) -> Result<(), RecordError> {
        for PlannedEvent {
            system,
            name,
            filter,
            ..
        } in &self.plan.events
        {
            let folder = format!("events/{system}/{name}");
            if let Some(filter) = filter {
                instance
                    .write(format!("{folder}/filter"), filter)
                    .map_err(|_| {
                        RecordError::Wanted(format!(
                            "the kernel does not accept the filter `{filter}` for {system}:{name}; `{}` shows its fields",
                            instance.path(format!("{folder}/format")).display()
                        ))
                    })?;
            }
            instance.write(format!("{folder}/enable"), "1")?;
        }
        Ok(())
    }

    fn stats_of(&self, cpu: u32) -> Option<Stats> {
        self.instance.as_ref()?.stats(cpu).ok()
    }

    /// Stops the readers, which take what is left; keeps where they put it all.
    fn join(&mut self) -> Result<(), RecordError> {
        reader::wake(&self.stop).map_err(RecordError::system("cannot stop the readers"))?;
        let mut failed = None;
        for reader in self.readers.drain(..) {
            match reader.join() {
                Some(Ok(extents)) => self.extents.extend(extents),
                Some(Err(error)) => failed = failed.or(Some(error)),
                None => {
                    failed = failed.or(Some(RecordError::Wanted(
                        "a reader thread broke off; the file ends where it did".to_owned(),
                    )));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Backend for FtraceRecorder {
    fn name(&self) -> &'static str {
        "ftrace"
    }

    fn introduce(&mut self, lines: &[String]) -> Result<(), RecordError> {
        let Some(instance) = &self.instance else {
            return Ok(());
        };
        // With no event enabled yet, only these lines are recorded.
        instance.write("tracing_on", "1")?;
        mark(instance, lines, &self.plan.cpus)?;
        instance.write("tracing_on", "0")?;
        self.enable(instance)
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        match &self.instance {
            Some(instance) => instance.write("tracing_on", "1"),
            None => Ok(()),
        }
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen {
            bytes: self.moved.load(Ordering::Relaxed),
            ..Seen::default()
        };
        for stats in self.plan.cpus.iter().filter_map(|&cpu| self.stats_of(cpu)) {
            seen.events += stats.entries + stats.read;
            seen.lost += stats.lost;
        }
        seen
    }

    fn end(&mut self) -> Result<(), RecordError> {
        if let Some(instance) = &self.instance {
            instance.write("tracing_on", "0")?;
            instance.write("events/enable", "0")?;
        }
        Ok(())
    }

    fn lost(&self) -> Vec<(u32, u64)> {
        let stats = self.plan.cpus.iter().map(|&cpu| (cpu, self.stats_of(cpu)));
        let lost = stats.filter_map(|(cpu, stats)| Some((cpu, stats?.lost)));
        lost.filter(|&(_, lost)| lost > 0).collect()
    }

    fn finish(mut self: Box<Self>, after: &[String]) -> Result<Summary, RecordError> {
        if let Some(instance) = &self.instance {
            instance.write("tracing_on", "1")?;
            mark(instance, after, &self.plan.cpus)?;
            instance.write("tracing_on", "0")?;
        }
        let joined = self.join();
        let stats = self.plan.cpus.iter();
        self.stats = stats
            .filter_map(|&cpu| Some((cpu, self.stats_of(cpu)?)))
            .collect();
        self.description.cmdlines = finish::task_names(self.instance.as_deref());
        if let Some(instance) = self.instance.take().and_then(Arc::into_inner) {
            instance.remove()?;
        }
        joined?;
        let summary = self.summary();
        finish::assemble(*self).map(|bytes| Summary { bytes, ..summary })
    }

    fn failed(&self) -> bool {
        self.readers.iter().any(Worker::is_finished)
    }

    fn threads(&self) -> Vec<i32> {
        self.readers.iter().map(Worker::tid).collect()
    }
}

impl FtraceRecorder {
    fn summary(&self) -> Summary {
        let lost = self.stats.iter().filter(|(_, stats)| stats.lost > 0);
        Summary {
            events: self.stats.iter().map(|(_, s)| s.entries + s.read).sum(),
            bytes: 0,
            lost: lost.map(|(cpu, stats)| (*cpu, stats.lost)).collect(),
            cpu_time: Duration::ZERO,
        }
    }
}

impl Drop for FtraceRecorder {
    fn drop(&mut self) {
        // On the way out of an error: the readers hold files of the instance, which can only go without them.
        if !self.readers.is_empty() {
            let _ = self.join();
        }
    }
}

/// Writes markers from a CPU that is recorded: from another the kernel refuses them, with `EBADF`.
fn mark(instance: &Arc<Instance>, lines: &[String], cpus: &[u32]) -> Result<(), RecordError> {
    let (instance, lines) = (instance.clone(), lines.to_vec());
    let first = cpus.first().copied().into_iter().collect::<Vec<_>>();
    let worker = Worker::start("ttwu-marker", &first, move || instance.mark(&lines))?;
    worker.join().unwrap_or(Ok(()))
}

/// A set of CPUs as tracefs takes it: words of 32 bits in hexadecimal, the highest first.
fn mask(cpus: &[u32]) -> String {
    let highest = cpus.last().copied().unwrap_or(0) as usize;
    let mut words = vec![0_u32; highest / 32 + 1];
    for &cpu in cpus {
        if let Some(word) = words.get_mut(cpu as usize / 32) {
            *word |= 1 << (cpu % 32);
        }
    }
    let words: Vec<String> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests;
