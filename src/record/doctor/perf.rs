//! What perf events give: whether they may be opened at all, limits, and hardware counters.

use nix::sys::resource::{Resource, getrlimit};
use perf_event_open::config::{Cpu, Opts, Proc, SampleOn};
use perf_event_open::count::Counter;
use perf_event_open::event::hw::Hardware;
use perf_event_open::event::tp::Tracepoint;
use ttwu_parsers::topology::cpulist::parse_list;

use super::Check;
use super::explain::{SYSCTL, explain_perf_denied, paranoid, perf_forbidden};
use super::privileges::{DAC_READ_SEARCH, IPC_LOCK, PERFMON, Privileges, SYS_ADMIN};
use crate::record::RecordError;
use crate::record::snapshot::Root;
use crate::record::tracefs::Tracefs;

const WITHOUT: &str = "recording with ftrace needs none of it";

pub fn checks(
    root: &Root,
    tracefs: Result<&Tracefs, &RecordError>,
    events: &[(&str, &str)],
) -> Vec<Check> {
    let cpus = online(root);
    vec![
        rights(root),
        tracepoint(tracefs, events, &cpus),
        locked_memory(root),
        descriptors(events.len(), cpus.len()),
    ]
}

fn online(root: &Root) -> Vec<u32> {
    let online = root
        .read("sys/devices/system/cpu/online")
        .unwrap_or_default();
    match parse_list(&online) {
        Ok(cpus) if !cpus.is_empty() => cpus,
        _ => vec![0],
    }
}

fn rights(root: &Root) -> Check {
    const NAME: &str = "rights";
    let privileges = Privileges::read(root);
    let held = [PERFMON, SYS_ADMIN, DAC_READ_SEARCH];
    let held: Vec<&str> = held
        .into_iter()
        .filter(|c| privileges.has(*c))
        .map(|c| c.0)
        .collect();
    let paranoid = paranoid(root);
    let what = format!(
        "kernel.perf_event_paranoid={paranoid}, {}",
        match held.is_empty() {
            true => "no capabilities".to_owned(),
            false => held.join(", "),
        }
    );
    if privileges.may_monitor() || paranoid < 0 {
        return Check::ok(NAME, what);
    }
    let (_, remedy) = parts(&perf_forbidden(root));
    Check::missing(
        NAME,
        format!("{what}: the whole machine's tracepoints are closed to this user; {WITHOUT}"),
        remedy,
    )
}

/// Opens a tracepoint on one CPU the way recording does.
fn tracepoint(
    tracefs: Result<&Tracefs, &RecordError>,
    events: &[(&str, &str)],
    cpus: &[u32],
) -> Check {
    const NAME: &str = "tracepoints";
    let tracefs = match tracefs {
        Ok(tracefs) => tracefs,
        Err(error) => {
            let (what, remedy) = parts(error);
            return Check::missing(
                NAME,
                format!("{what}, so that no event has a number"),
                remedy,
            );
        }
    };
    let id = |(system, name): &(&str, &str)| {
        let id = tracefs.read(format!("events/{system}/{name}/id")).ok()?;
        String::from_utf8_lossy(&id).trim().parse().ok()
    };
    let Some(id) = events.iter().find_map(id) else {
        return Check::missing(
            NAME,
            format!(
                "the numbers of the events cannot be read from {}",
                tracefs.root().display()
            ),
            "run it as root: sudo ttwu …, or make them readable: \
             mount -o remount,gid=$(id -g),mode=750 /sys/kernel/tracing (as root)",
        );
    };
    let mut opts = Opts {
        sample_on: SampleOn::Count(1),
        ..Opts::default()
    };
    opts.sample_format.raw = true;
    let cpu = cpus.first().copied().unwrap_or(0);
    match Counter::new(Tracepoint { id }, (Proc::ALL, Cpu(cpu)), opts) {
        Ok(_) => Check::ok(NAME, "can be opened"),
        Err(error) => {
            let (what, remedy) = parts(&explain_perf_denied(error.raw_os_error().unwrap_or(0)));
            Check::missing(NAME, format!("{what}; {WITHOUT}"), remedy)
        }
    }
}

/// How much buffer perf may have: perf_mmap(), kernel/events/core.c.
fn locked_memory(root: &Root) -> Check {
    const NAME: &str = "locked memory";
    if Privileges::read(root).has(IPC_LOCK) || paranoid(root) < 0 {
        return Check::ok(NAME, "not limited");
    }
    let each = root.read("proc/sys/kernel/perf_event_mlock_kb");
    let each = each.unwrap_or_else(|_| "516".to_owned());
    let beyond = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    if beyond == libc::RLIM_INFINITY {
        return Check::ok(NAME, "not limited");
    }
    Check::partly(
        NAME,
        format!(
            "{each} KiB of buffer for each CPU and {} KiB beyond that; events are lost when they come faster than \
             such a buffer is read",
            beyond >> 10
        ),
        format!("sysctl kernel.perf_event_mlock_kb=4100 (as root), or: {SYSCTL}"),
    )
}

/// perf has a descriptor for each event and CPU.
fn descriptors(events: usize, cpus: usize) -> Check {
    const NAME: &str = "file descriptors";
    /// What else a run has open.
    const OTHERS: u64 = 64;
    let needed = (events as u64 + 1) * cpus as u64 + OTHERS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
    match needed {
        _ if needed <= soft => Check::ok(NAME, format!("{soft}, {needed} are needed")),
        _ if needed <= hard => Check::partly(
            NAME,
            format!("{soft} where all events on all CPUs need {needed}; {WITHOUT}"),
            format!("ulimit -n {needed}"),
        ),
        _ => Check::missing(
            NAME,
            format!("at most {hard} where all events on all CPUs need {needed}; {WITHOUT}"),
            format!("ulimit -n {needed} (as root), or record fewer events or CPUs"),
        ),
    }
}

/// Counters that can be read at each switch; those with one answer are one check.
pub fn counters(root: &Root) -> Vec<Check> {
    let cpu = online(root).first().copied().unwrap_or(0);
    let counters = [
        ("cycles", Hardware::CpuCycle),
        ("instructions", Hardware::Instr),
        ("cache-misses", Hardware::CacheMiss),
    ];
    let checks = counters.map(|(name, event)| counter(name, event, cpu));
    let [first, others @ ..] = &checks;
    let same = |other: &Check| {
        Check {
            name: first.name.clone(),
            ..other.clone()
        } == *first
    };
    if !others.iter().all(same) {
        return checks.to_vec();
    }
    vec![Check {
        name: "counters".to_owned(),
        detail: format!("cycles, instructions, cache-misses: {}", first.detail),
        ..first.clone()
    }]
}

fn counter(name: &str, event: Hardware, cpu: u32) -> Check {
    const WITHOUT: &str = "all events are recorded without it";
    match Counter::new(event, (Proc::ALL, Cpu(cpu)), Opts::default()) {
        Ok(_) => Check::ok(name, "can be read"),
        Err(error) => {
            let (what, remedy) = parts(&explain_perf_denied(error.raw_os_error().unwrap_or(0)));
            Check::missing(name, format!("{what}; {WITHOUT}"), remedy)
        }
    }
}

/// An error's two sentences.
fn parts(error: &RecordError) -> (String, String) {
    match error {
        RecordError::Denied { what, remedy } => (what.clone(), remedy.clone()),
        other => (other.to_string(), "no command is known to help".to_owned()),
    }
}
