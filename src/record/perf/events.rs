//! Opening the events in the kernel, on every CPU.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use perf_event_open::config::{Cpu, Proc};
use perf_event_open::count::Counter;
use perf_event_open::count::group::CounterGroup;
use perf_event_open::event::dp::DynamicPmu;
use perf_event_open::event::tp::Tracepoint;

use crate::record::RecordError;
use crate::record::doctor::explain_perf_denied;
use crate::record::plan::{Plan, PlannedEvent};

use super::attr::{Common, Role, Spec};
use super::clock::StampClock;
use super::counters::CounterEvent;
use super::descriptors::too_low;

/// The tracepoint at whose samples counters are read.
const COUNTED_AT: (&str, &str) = ("sched", "sched_switch");

/// An event as the file describes it.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub name: String,
    pub spec: Spec,
    /// By which its records name it, on one CPU after the other.
    pub ids: Vec<u64>,
}

/// All events of a recording.
pub(super) struct Events {
    /// In the order in which the file lists them; members of a group follow their leader.
    pub described: Vec<Described>,
    cpus: Vec<CpuEvents>,
}

/// The events of one CPU.
struct CpuEvents {
    singles: Vec<Counter>,
    group: Option<CounterGroup>,
    names: Counter,
}

impl Events {
    /// Opens all events, turned off.
    ///
    /// # Errors
    /// What this user or machine cannot do, and what would help.
    pub fn open(plan: &Plan, common: Common) -> Result<Self, RecordError> {
        let mut described = describe(plan, common)?;
        let mut cpus = Vec::with_capacity(plan.cpus.len());
        for &cpu in &plan.cpus {
            cpus.push(CpuEvents::open(plan, cpu, &mut described)?);
        }
        Ok(Self { described, cpus })
    }

    /// The files of the events that write to the ring of the CPU at `place`.
    pub fn writers(&self, place: usize) -> Vec<RawFd> {
        let Some(cpu) = self.cpus.get(place) else {
            return Vec::new();
        };
        let leader = cpu.group.iter().map(CounterGroup::leader);
        let counters = cpu.singles.iter().chain(leader).chain([&cpu.names]);
        counters.map(|counter| counter.file().as_raw_fd()).collect()
    }

    /// Turns everything on. Names first: a task that is seen by another event is then known.
    pub fn enable(&self) -> Result<(), RecordError> {
        let failed = || RecordError::system("cannot turn the events on");
        for cpu in &self.cpus {
            cpu.names.enable().map_err(failed())?;
        }
        for cpu in &self.cpus {
            for event in &cpu.singles {
                event.enable().map_err(failed())?;
            }
            if let Some(group) = &cpu.group {
                group.enable().map_err(failed())?;
            }
        }
        Ok(())
    }

    /// Turns all off but the names.
    pub fn disable_samples(&self) {
        for cpu in &self.cpus {
            for event in &cpu.singles {
                // An event whose CPU has gone offline is off already.
                let _ = event.disable();
            }
            if let Some(group) = &cpu.group {
                let _ = group.disable();
            }
        }
    }

    pub fn disable_names(&self) {
        for cpu in &self.cpus {
            let _ = cpu.names.disable();
        }
    }

    /// For each group: its leader's place in `described`, and how many events it has.
    pub fn groups(&self) -> Vec<(usize, usize)> {
        let members = |role| {
            self.described
                .iter()
                .filter(|e| e.spec.role == role)
                .count()
        };
        let leader = self
            .described
            .iter()
            .position(|event| event.spec.role == Role::Leader);
        leader
            .map(|place| (place, 1 + members(Role::Member)))
            .into_iter()
            .collect()
    }
}

/// How many files the events of a plan take, with two for each ring.
pub(super) fn files_needed(plan: &Plan) -> usize {
    let each = plan.events.len() + plan.counters.len() + 3;
    each.saturating_mul(plan.cpus.len())
}

/// What owns a ring: an event that never happens, and that no file describes.
pub(super) fn open_ring_owner(cpu: u32, common: Common) -> Result<Counter, RecordError> {
    let spec = Spec::dummy(Role::RingOwner, common);
    open_single(&spec, cpu).map_err(|error| refused(error, cpu, common.clock))
}

/// Lists the plan's events, without ids.
fn describe(plan: &Plan, common: Common) -> Result<Vec<Described>, RecordError> {
    let described = |name: String, spec| Described {
        name,
        spec,
        ids: Vec::with_capacity(plan.cpus.len()),
    };
    let mut all = Vec::new();
    let mut counted = plan.counters.is_empty();
    for event in &plan.events {
        let leads = !counted && (event.system.as_str(), event.name.as_str()) == COUNTED_AT;
        let name = format!("{}:{}", event.system, event.name);
        all.push(described(name, Spec::tracepoint(event.id, leads, common)));
        if leads {
            counted = true;
            for name in &plan.counters {
                let CounterEvent { kind, config } = CounterEvent::named(name)?;
                let role = Role::Member;
                let spec = Spec {
                    role,
                    kind,
                    config,
                    common,
                };
                all.push(described(name.clone(), spec));
            }
        }
    }
    if !counted {
        return Err(RecordError::Wanted(
            "counters are read at each switch of tasks: record sched:sched_switch, too".to_owned(),
        ));
    }
    all.push(described(
        "dummy".to_owned(),
        Spec::dummy(Role::Names, common),
    ));
    Ok(all)
}

impl CpuEvents {
    fn open(plan: &Plan, cpu: u32, described: &mut [Described]) -> Result<Self, RecordError> {
        let mut singles = Vec::new();
        let mut group = None;
        let mut names = None;
        let mut planned = plan.events.iter();
        for event in described {
            let counter = match event.spec.role {
                Role::Member => {
                    let id = add_member(&mut group, event, cpu)?;
                    event.ids.push(id);
                    continue;
                }
                _ => open_single(&event.spec, cpu)
                    .map_err(|error| refused(error, cpu, event.spec.common.clock))?,
            };
            event.ids.push(counter.id().map_err(no_id())?);
            match event.spec.role {
                Role::Names => names = Some(counter),
                role => {
                    filter(&counter, planned.next())?;
                    if role == Role::Leader {
                        group = Some(CounterGroup::from(counter));
                    } else {
                        singles.push(counter);
                    }
                }
            }
        }
        let names = names.ok_or_else(|| RecordError::Wanted("no event is planned".to_owned()))?;
        Ok(Self {
            singles,
            group,
            names,
        })
    }
}

fn open_single(spec: &Spec, cpu: u32) -> io::Result<Counter> {
    let target = (Proc::ALL, Cpu(cpu));
    match spec.role {
        Role::Tracepoint | Role::Leader => {
            let event = Tracepoint { id: spec.config };
            Counter::new(event, target, spec.options())
        }
        _ => Counter::new(numbered(spec), target, spec.options()),
    }
}

/// An event by its numbers, whatever its type.
fn numbered(spec: &Spec) -> DynamicPmu {
    DynamicPmu {
        ty: spec.kind,
        config: spec.config,
        config1: 0,
        config2: 0,
        config3: 0,
    }
}

fn add_member(
    group: &mut Option<CounterGroup>,
    event: &Described,
    cpu: u32,
) -> Result<u64, RecordError> {
    let group = group
        .as_mut()
        .ok_or_else(|| RecordError::Wanted("a counter has no event to be read at".to_owned()))?;
    let counter = group
        .add(numbered(&event.spec), event.spec.member_options())
        .map_err(|error| no_counter(error, event, cpu))?;
    counter.id().map_err(no_id())
}

fn filter(counter: &Counter, event: Option<&PlannedEvent>) -> Result<(), RecordError> {
    let Some((event, filter)) = event.and_then(|e| Some((e, e.filter.as_deref()?))) else {
        return Ok(());
    };
    let rejected = |why: String| {
        RecordError::Wanted(format!(
            "the kernel rejects the filter `{filter}` of {}:{} ({why}): use the fields that its `format` in tracefs lists",
            event.system, event.name
        ))
    };
    let text = CString::new(filter).map_err(|_| rejected("it holds a NUL".to_owned()))?;
    counter
        .with_ftrace_filter(&text)
        .map_err(|error| rejected(error.to_string()))
}

fn no_id() -> impl FnOnce(io::Error) -> RecordError {
    RecordError::system("cannot ask the kernel for an event's id")
}

/// Why an event could not be opened.
fn refused(error: io::Error, cpu: u32, clock: StampClock) -> RecordError {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
            let limit = limit.map_or(0, |(soft, _)| soft);
            too_low(limit, limit.saturating_mul(2))
        }
        // The kernel takes them only where no NMI can come in between, which it may in a tracepoint.
        Some(libc::EINVAL) if matches!(clock, StampClock::Boot | StampClock::Tai) => {
            RecordError::Wanted(
                "the kernel has not this clock for tracepoints: choose mono, mono_raw or perf, or record a trace.dat"
                    .to_owned(),
            )
        }
        Some(libc::ENODEV | libc::EINVAL) if !is_online(cpu) => RecordError::Wanted(format!(
            "CPU {cpu} is not online: leave it out, or bring it online with `echo 1 > /sys/devices/system/cpu/cpu{cpu}/online`"
        )),
        Some(libc::ENOMEM) => RecordError::Denied {
            what: "the kernel has no memory for the events".to_owned(),
            remedy: "record fewer events or CPUs, or free memory".to_owned(),
        },
        _ => explain_perf_denied(error.raw_os_error().unwrap_or(0)),
    }
}

fn is_online(cpu: u32) -> bool {
    let state = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    // The first CPU has no such file where it cannot be turned off.
    state.map_or(cpu == 0, |state| state.trim() == "1")
}

/// Why a counter could not be opened: nearly always that the machine has none.
fn no_counter(error: io::Error, event: &Described, cpu: u32) -> RecordError {
    let name = &event.name;
    let member = CounterEvent {
        kind: event.spec.kind,
        config: event.spec.config,
    };
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) if member.is_hardware() => {
            RecordError::Denied {
                what: format!("CPU {cpu} has no counter `{name}`"),
                remedy: "a virtual machine has counters only if its host passes the PMU on (QEMU: `-cpu host,pmu=on`): leave the counter out, or count something that the kernel counts itself, such as cpu-clock or page-faults".to_owned(),
            }
        }
        Some(libc::EINVAL | libc::ENOSPC) => RecordError::Denied {
            what: format!("CPU {cpu} cannot count `{name}` together with the other counters"),
            remedy: "give fewer counters: a processor has about four to eight that count at a time".to_owned(),
        },
        Some(libc::EACCES | libc::EPERM | libc::EMFILE | libc::ENFILE | libc::ENOMEM) => {
            refused(error, cpu, event.spec.common.clock)
        }
        _ => RecordError::System {
            what: format!("cannot open the counter `{name}` on CPU {cpu}"),
            source: error,
        },
    }
}
