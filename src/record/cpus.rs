//! Threads on chosen CPUs: the readers, and the one that makes every CPU switch.

use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid};

use super::RecordError;

/// CPUs that share one reader thread.
const GROUP: usize = 16;

/// The CPUs in groups, each to be served by one thread.
pub fn groups(cpus: &[u32]) -> Vec<Vec<u32>> {
    cpus.chunks(GROUP).map(<[u32]>::to_vec).collect()
}

/// A thread that runs only on some CPUs.
#[derive(Debug)]
pub struct Worker<T> {
    tid: i32,
    handle: JoinHandle<T>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts it; returns when it is where it belongs. Should the kernel refuse the CPUs, it runs anywhere.
    pub fn start(
        name: &str,
        cpus: &[u32],
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self, RecordError> {
        let (started, ready) = channel();
        let cpus = cpus.to_vec();
        let run = move || {
            // A cpuset may forbid them: the work can be done from elsewhere.
            let _ = stay_on(&cpus);
            // Nobody waits for it only if this program is ending.
            let _ = started.send(gettid().as_raw());
            work()
        };
        let handle = Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(RecordError::system("cannot start a thread"))?;
        let tid = ready.recv().unwrap_or(0);
        Ok(Self { tid, handle })
    }

    /// Its thread id, as the kernel's events name it.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Whether its work is done.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// What it came to; `None` if it panicked.
    pub fn join(self) -> Option<T> {
        self.handle.join().ok()
    }
}

/// Lets the calling thread run as soon as it has something to do: a reader does little, but where hundreds of tasks wait
/// for a CPU a thread of their own weight comes too late. Not being allowed to is no harm.
pub fn run_at_once() {
    const HIGHEST: libc::c_int = -20;
    const THIS_THREAD: libc::id_t = 0;
    // SAFETY: it only sets a number. Linux sets it for the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, HIGHEST) };
}

/// Confines the calling thread.
pub fn stay_on(cpus: &[u32]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        // CPUs beyond what a `CpuSet` holds are left out.
        let _ = set.set(cpu as usize);
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Makes each CPU switch, by running there for a moment: from then on what it runs is known. Takes precedence over
/// ordinary tasks where that is allowed, so as not to wait for a busy CPU.
///
/// Called by a thread of its own, since its priority and place are changed.
pub fn visit(cpus: &[u32]) {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live struct; 0 is the calling thread.
    // Without the right to it the visits only take longer.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    for &cpu in cpus {
        // A CPU that a cpuset forbids or that went offline stays unvisited.
        let _ = stay_on(&[cpu]);
    }
}

/// The CPUs that are online, ascending, from a list such as `0-3,8`.
pub fn online() -> Result<Vec<u32>, RecordError> {
    let path = std::path::Path::new("/sys/devices/system/cpu/online");
    let text = std::fs::read_to_string(path).map_err(RecordError::file("read", path))?;
    ttwu_parsers::topology::cpulist::parse_list(text.trim())
        .map_err(|error| RecordError::Wanted(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_run_where_they_belong() {
        let cpu = *online().unwrap().last().unwrap();
        let worker = Worker::start("test", &[cpu], nix::sched::sched_getcpu).unwrap();
        assert!(worker.tid() > 0);
        assert_eq!(worker.join().unwrap().unwrap(), cpu as usize);
    }

    #[test]
    fn groups_hold_all_cpus_once() {
        let cpus: Vec<u32> = (0..40).chain(100..103).collect();
        let grouped = groups(&cpus);
        assert_eq!(grouped.len(), 3);
        assert_eq!(grouped.concat(), cpus);
    }
}
