//! Which events are recorded: the default set, the named sets, and single events, as far as the kernel has them.

use std::io;

use wildmatch::WildMatch;

use super::plan::PlannedEvent;
use super::tracefs::Tracefs;
use super::{RecordError, doctor};

/// One event as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub system: String,
    /// May hold `*` and `?`.
    pub name: String,
    pub filter: Option<String>,
    /// Whether it is an error if the kernel has no such event.
    pub required: bool,
}

/// NET_TX and NET_RX: the order of `include/linux/interrupt.h`, the same since 2.6.
const NETWORK: Option<&str> = Some("vec == 2 || vec == 3");

/// What `analyze` can use, for all kernels; each kernel has a part of it.
pub const DEFAULT: [(&str, &str, Option<&str>); 34] = [
    ("sched", "sched_switch", None),
    ("sched", "sched_waking", None),
    ("sched", "sched_wakeup", None),
    ("sched", "sched_wakeup_new", None),
    ("sched", "sched_migrate_task", None),
    ("sched", "sched_process_fork", None),
    ("task", "task_newtask", None),
    ("sched", "sched_process_exec", None),
    ("sched", "sched_process_exit", None),
    ("sched", "sched_wake_idle_without_ipi", None),
    ("ipi", "ipi_send_cpu", None),
    ("ipi", "ipi_send_cpumask", None),
    ("ipi", "ipi_raise", None),
    ("ipi", "ipi_entry", None),
    ("ipi", "ipi_exit", None),
    ("csd", "csd_queue_cpu", None),
    ("csd", "csd_function_entry", None),
    ("csd", "csd_function_exit", None),
    ("irq_vectors", "reschedule_entry", None),
    ("irq_vectors", "reschedule_exit", None),
    ("irq_vectors", "call_function_entry", None),
    ("irq_vectors", "call_function_exit", None),
    ("irq_vectors", "call_function_single_entry", None),
    ("irq_vectors", "call_function_single_exit", None),
    ("tlb", "tlb_flush", None),
    ("syscalls", "sys_enter_sched_setaffinity", None),
    ("irq", "softirq_raise", NETWORK),
    ("irq", "softirq_entry", NETWORK),
    ("irq", "softirq_exit", NETWORK),
    ("sched", "sched_move_numa", None),
    ("sched", "sched_stick_numa", None),
    ("sched", "sched_swap_numa", None),
    ("sched", "sched_process_free", None),
    ("sched", "sched_pi_setprio", None),
];

/// Events of which one architecture has the first and another the second: lacking one of them is no loss.
const INSTEAD: [(&str, &str); 9] = [
    ("ipi_send_cpu", "ipi_raise"),
    ("ipi_send_cpumask", "ipi_raise"),
    ("ipi_raise", "ipi_send_cpu"),
    ("ipi_entry", "reschedule_entry"),
    ("ipi_exit", "reschedule_exit"),
    ("reschedule_entry", "ipi_entry"),
    ("reschedule_exit", "ipi_exit"),
    ("call_function_entry", "ipi_entry"),
    ("call_function_exit", "ipi_exit"),
];

/// The named sets beside `default`.
const SETS: [(&str, &[(&str, &str)]); 3] = [
    (
        "sys",
        &[("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")],
    ),
    (
        "irq",
        &[
            ("irq", "irq_handler_entry"),
            ("irq", "irq_handler_exit"),
            ("irq", "softirq_raise"),
            ("irq", "softirq_entry"),
            ("irq", "softirq_exit"),
            ("irq_vectors", "local_timer_entry"),
            ("irq_vectors", "local_timer_exit"),
            ("irq_vectors", "irq_work_entry"),
            ("irq_vectors", "irq_work_exit"),
        ],
    ),
    (
        "power",
        &[
            ("power", "cpu_idle"),
            ("power", "cpu_idle_miss"),
            ("power", "cpu_frequency"),
        ],
    ),
];

/// Reads the value of `--events`: a list of sets and of `SYSTEM:EVENT[/FILTER/]`; with `+` before it, beside the
/// default set.
///
/// # Errors
/// What is neither.
pub fn parse(text: &str) -> Result<Vec<Wanted>, String> {
    let (mut wanted, list) = match text.strip_prefix('+') {
        Some(rest) => (default_set(), rest),
        None => (Vec::new(), text),
    };
    for item in split(list) {
        add(&mut wanted, item)?;
    }
    Ok(wanted)
}

/// The default set.
pub fn default_set() -> Vec<Wanted> {
    let event = |(system, name, filter): (&str, &str, Option<&str>)| Wanted {
        system: system.to_owned(),
        name: name.to_owned(),
        filter: filter.map(str::to_owned),
        required: false,
    };
    DEFAULT.map(event).to_vec()
}

fn add(wanted: &mut Vec<Wanted>, item: &str) -> Result<(), String> {
    if item == "default" {
        wanted.extend(default_set());
        return Ok(());
    }
    if let Some((_, events)) = SETS.iter().find(|(name, _)| *name == item) {
        wanted.extend(events.iter().map(|(system, name)| Wanted {
            system: (*system).to_owned(),
            name: (*name).to_owned(),
            filter: None,
            required: false,
        }));
        return Ok(());
    }
    let (event, filter) = match item.split_once('/') {
        None => (item, None),
        Some((event, rest)) => match rest.strip_suffix('/') {
            Some(filter) if !filter.trim().is_empty() => (event, Some(filter.to_owned())),
            _ => return Err(format!("`{item}`: a filter stands between two slashes")),
        },
    };
    let usable = |part: &str| !part.is_empty() && !part.contains(['/', '.', ' ']);
    match event.split_once(':') {
        Some((system, name)) if usable(system) && usable(name) => {
            wanted.push(Wanted {
                system: system.to_owned(),
                name: name.to_owned(),
                filter,
                required: true,
            });
            Ok(())
        }
        _ => Err(format!(
            "`{item}` is neither a set (default, sys, irq, power) nor SYSTEM:EVENT[/FILTER/]"
        )),
    }
}

/// Splits at commas outside of filters.
fn split(list: &str) -> Vec<&str> {
    let mut in_filter = false;
    list.split(move |c| {
        in_filter ^= c == '/';
        c == ',' && !in_filter
    })
    .map(str::trim)
    .collect()
}

/// What the kernel has of what is wanted.
#[derive(Debug, Default)]
pub struct Resolved {
    pub events: Vec<PlannedEvent>,
    /// `SYSTEM:EVENT` of the sets that this kernel has not, and nothing in their place.
    pub lacking: Vec<String>,
}

/// Looks the events up in tracefs.
///
/// # Errors
/// An event that was asked for by name does not exist, or tracefs may not be read.
pub fn resolve(tracefs: &Tracefs, wanted: &[Wanted]) -> Result<Resolved, RecordError> {
    let mut resolved = Resolved::default();
    for event in wanted {
        let names = matching(tracefs, event)?;
        if names.is_empty() && event.required {
            return Err(unknown(tracefs, event));
        }
        if names.is_empty() {
            resolved
                .lacking
                .push(format!("{}:{}", event.system, event.name));
        }
        for name in names {
            plan(tracefs, event, &name, &mut resolved.events)?;
        }
    }
    let has = |name: &str| resolved.events.iter().any(|event| event.name == name);
    let replaced = |lacking: &str| {
        lacking
            .split(':')
            .nth(1)
            .is_some_and(|name| replaced(name, has))
    };
    resolved.lacking.retain(|name| !replaced(name));
    Ok(resolved)
}

/// Whether there is an event in the place of one that is lacking.
fn replaced(name: &str, has: impl Fn(&str) -> bool) -> bool {
    INSTEAD
        .iter()
        .any(|(lacking, instead)| *lacking == name && has(instead))
}

/// The events of the default set that a kernel of this kind should have.
pub fn expected(tracefs: &Tracefs) -> Vec<(&'static str, &'static str)> {
    let there = |system: &str, name: &str| tracefs.path("events").join(system).join(name).exists();
    let has = |name: &str| {
        DEFAULT
            .iter()
            .any(|(system, other, _)| *other == name && there(system, name))
    };
    let events = DEFAULT.iter().map(|(system, name, _)| (*system, *name));
    events
        .filter(|(system, name)| there(system, name) || !replaced(name, has))
        .collect()
}

/// The names of the kernel's events that are meant.
fn matching(tracefs: &Tracefs, event: &Wanted) -> Result<Vec<String>, RecordError> {
    let folder = tracefs.path("events").join(&event.system);
    if !event.name.contains(['*', '?']) {
        let there = folder.join(&event.name).join("id").exists();
        return Ok(there.then(|| event.name.clone()).into_iter().collect());
    }
    let pattern = WildMatch::new(&event.name);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(doctor::explain_tracefs_denied(&error, &folder)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join("id").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| pattern.matches(name))
        .collect();
    names.sort();
    Ok(names)
}

/// Adds an event, or makes one that is there already pass what either filter passes.
fn plan(
    tracefs: &Tracefs,
    wanted: &Wanted,
    name: &str,
    events: &mut Vec<PlannedEvent>,
) -> Result<(), RecordError> {
    let same = |event: &&mut PlannedEvent| event.system == wanted.system && event.name == name;
    if let Some(event) = events.iter_mut().find(same) {
        event.filter = match (event.filter.take(), &wanted.filter) {
            (Some(one), Some(other)) if one == *other => Some(one),
            (Some(one), Some(other)) => Some(format!("({one}) || ({other})")),
            _ => None,
        };
        return Ok(());
    }
    events.push(lookup(
        tracefs,
        &wanted.system,
        name,
        wanted.filter.clone(),
    )?);
    Ok(())
}

/// An event with its number and format.
pub fn lookup(
    tracefs: &Tracefs,
    system: &str,
    name: &str,
    filter: Option<String>,
) -> Result<PlannedEvent, RecordError> {
    let folder = tracefs.path("events").join(system).join(name);
    let read = |file: &str| {
        let path = folder.join(file);
        std::fs::read(&path).map_err(|error| doctor::explain_tracefs_denied(&error, &path))
    };
    let id = read("id")?;
    let id = String::from_utf8_lossy(&id).trim().parse();
    Ok(PlannedEvent {
        system: system.to_owned(),
        name: name.to_owned(),
        filter,
        id: id.map_err(|_| {
            RecordError::Wanted(format!("{}: holds no number", folder.join("id").display()))
        })?,
        format: read("format")?,
    })
}

fn unknown(tracefs: &Tracefs, event: &Wanted) -> RecordError {
    let (system, name) = (&event.system, &event.name);
    let hint = match tracefs.path("events").join(system).is_dir() {
        true => format!(
            "`ls {}` lists those of that system",
            tracefs.path("events").join(system).display()
        ),
        false => format!(
            "`ls {}` lists the systems",
            tracefs.path("events").display()
        ),
    };
    RecordError::Wanted(format!("this kernel has no event {system}:{name}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(events: &[&str]) -> (tempfile::TempDir, Tracefs) {
        let root = tempfile::tempdir().unwrap();
        for (event, id) in events.iter().zip(100..) {
            let (system, name) = event.split_once(':').unwrap();
            let folder = root.path().join("events").join(system).join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("id"), format!("{id}\n")).unwrap();
            std::fs::write(folder.join("format"), format!("name: {name}\n")).unwrap();
        }
        let tracefs = Tracefs::at(root.path());
        (root, tracefs)
    }

    fn names(resolved: &Resolved) -> Vec<&str> {
        resolved.events.iter().map(|e| e.name.as_str()).collect()
    }

    #[test]
    fn lists_hold_sets_events_and_filters_with_commas() {
        let wanted = parse("power,sched:sched_waking/pid == 3/, irq:*/name ~ \"a,b\"/").unwrap();
        assert_eq!(wanted.len(), 5);
        assert_eq!(wanted[4].filter.as_deref(), Some("name ~ \"a,b\""));
        let wanted = parse("sched:sched_waking/pid == 3/,irq:*").unwrap();
        assert_eq!(wanted[0].filter.as_deref(), Some("pid == 3"));
        assert_eq!(
            (wanted[1].system.as_str(), wanted[1].name.as_str()),
            ("irq", "*")
        );
        assert_eq!(parse("+power").unwrap().len(), DEFAULT.len() + 3);
        for wrong in [
            "", "sched", "sched:", ":x", "a:b/c", "a:b//", "a/b:c", "a:../b",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_the_kernel_lacks_is_named_unless_it_has_the_like() {
        let (_root, tracefs) = kernel(&["sched:sched_switch", "ipi:ipi_raise", "ipi:ipi_entry"]);
        let resolved = resolve(&tracefs, &default_set()).unwrap();
        assert_eq!(names(&resolved), ["sched_switch", "ipi_raise", "ipi_entry"]);
        assert_eq!(resolved.events[0].id, 100);
        assert_eq!(resolved.events[0].format, b"name: sched_switch\n");
        let lacks = |name: &str| resolved.lacking.iter().any(|lacking| lacking == name);
        assert!(lacks("sched:sched_waking") && lacks("csd:csd_queue_cpu"));
        assert!(!lacks("ipi:ipi_send_cpu") && !lacks("irq_vectors:reschedule_entry"));
    }

    #[test]
    fn an_event_asked_for_by_name_must_exist() {
        let (_root, tracefs) = kernel(&["sched:sched_switch", "sched:sched_waking", "irq:irq_x"]);
        let failed = |text: &str| {
            let wanted = parse(text).unwrap();
            resolve(&tracefs, &wanted).unwrap_err().to_string()
        };
        assert!(failed("sched:sched_wakin").contains("events/sched"));
        assert!(failed("shed:*").contains("lists the systems"));
        let all = resolve(&tracefs, &parse("sched:*").unwrap()).unwrap();
        assert_eq!(names(&all), ["sched_switch", "sched_waking"]);
    }

    #[test]
    fn an_event_named_twice_passes_what_either_filter_passes() {
        let (_root, tracefs) = kernel(&["a:b", "a:c"]);
        let filters = |text: &str| {
            let resolved = resolve(&tracefs, &parse(text).unwrap()).unwrap();
            assert_eq!(names(&resolved), ["b"]);
            resolved.events[0].filter.clone()
        };
        assert_eq!(filters("a:b/x/,a:b/y/").as_deref(), Some("(x) || (y)"));
        assert_eq!(filters("a:b/x/,a:b/x/").as_deref(), Some("x"));
        assert_eq!(filters("a:b/x/,a:b"), None);
    }
}
