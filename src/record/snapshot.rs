//! What the machine is and was set to, as lines of text that travel in the recording: `docs/machine-record.md`.
//!
//! Every source may be missing: kernels from 3.10 on, containers and lockdown each hide some. What should be there and
//! could not be read is said in the record itself, as `ttwu machine unreadable`.

mod cgroups;
mod domains;
mod encode;
mod facts;
mod namespaces;
mod outcome;
mod processes;
mod root;
mod threads;
mod topology;
mod tunables;
mod unreadable;

pub use self::encode::split;
pub use self::facts::kernel_config;
pub use self::namespaces::{Namespace, in_own_namespace};
pub use self::outcome::{command, lost, overhead, recorder, result};
pub use self::processes::Processes;
pub use self::root::Root;
pub use self::unreadable::lockdown;

use self::domains::Domains;
use self::threads::Threads;
use self::unreadable::Unreadable;

/// On which side of the recording counters are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Before,
    After,
}

impl Stage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// All that can be known of the machine before the recording, but for [`counters`].
///
/// Never fails: what could not be read is among the lines. Lines can be of any length, see [`split`].
pub fn before(root: &Root) -> Vec<String> {
    let mut unreadable = Unreadable::default();
    let domains = Domains::read(root, &mut unreadable);
    let threads = Threads::read(root, &mut unreadable);
    let mut lines = topology::lines(root, &domains, &mut unreadable);
    lines.extend(facts::lines(root, &mut unreadable));
    lines.extend(tunables::lines(root, &mut unreadable));
    lines.extend(domains.lines());
    lines.extend(threads.lines());
    lines.extend(cgroups::lines(root, threads.memberships()));
    lines.extend(unreadable.lines());
    lines
}

/// The kernel's own counts of what the scheduler did, and how often cgroups were throttled: to be read as near as
/// possible to the recording's start and end.
pub fn counters(root: &Root, stage: Stage) -> Vec<String> {
    let schedstat = root.read("proc/schedstat").unwrap_or_default();
    let schedstat = schedstat.lines().map(encode::text);
    let stage_name = stage.as_str();
    let mut lines: Vec<String> = schedstat
        .map(|line| format!("ttwu {stage_name} schedstat {line}"))
        .collect();
    lines.extend(cgroups::counters(root, stage));
    lines
}

#[cfg(test)]
mod tests;
