//! The kernel, what shields it, and where facts about the machine come from.

use ttwu_parsers::topology::live_at;

use super::Check;
use super::privileges::{Privileges, SYS_ADMIN};
use crate::record::snapshot::{Namespace, Root, in_own_namespace, kernel_config, lockdown};

/// The oldest kernel that this is made for.
const OLDEST: (u32, u32) = (3, 10);

pub fn checks(root: &Root) -> Vec<Check> {
    vec![kernel(root), locked(root), container(root)]
}

/// Where what travels with the recording is read.
pub fn sources(root: &Root) -> Vec<Check> {
    vec![
        topology(root),
        domains(root),
        schedstats(root),
        debugfs(root),
        threads(root),
    ]
}

fn kernel(root: &Root) -> Check {
    let release = root.read("proc/sys/kernel/osrelease").unwrap_or_default();
    match version(&release) {
        Some(version) if version < OLDEST => Check::partly(
            "kernel",
            format!("{release}: older than any that this was tried with"),
            "no command helps; recording may still work",
        ),
        Some(_) => Check::ok("kernel", release),
        None => Check::partly(
            "kernel",
            "its release is unknown; recording may still work",
            "mount -t proc proc /proc",
        ),
    }
}

/// The first two numbers of `6.12.1-arch`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn locked(root: &Root) -> Check {
    const BOOT: &str = "only a reboot changes it: boot with lockdown=none, or without Secure Boot";
    match lockdown(root).as_deref() {
        None => Check::ok("lockdown", "off"),
        Some("confidentiality") => Check::missing(
            "lockdown",
            "confidentiality: tracefs and perf are closed, to root too; nothing can be recorded",
            BOOT,
        ),
        Some(mode) => Check::partly(
            "lockdown",
            format!(
                "{mode}: debugfs is closed; all events can be recorded, but scheduler features, tunables and the \
                 kernel's preemption mode are not"
            ),
            BOOT,
        ),
    }
}

fn container(root: &Root) -> Check {
    const NAME: &str = "container";
    if in_own_namespace(root, Namespace::Pid) {
        return Check::partly(
            NAME,
            "this process has its own pid namespace: events carry other thread ids than /proc shows here, so the \
             threads' affinities, policies and cgroups are not recorded",
            "record outside of the container, or start it with --pid=host",
        );
    }
    if in_own_namespace(root, Namespace::User) {
        return Check::partly(
            NAME,
            "this process is in a user namespace, whose root has no rights on the machine",
            "record outside of the container",
        );
    }
    let read_only = read_only_sysfs(root);
    match looks_contained(root) || read_only {
        false => Check::ok(NAME, "none"),
        true if Privileges::read(root).has(SYS_ADMIN) && !read_only => {
            Check::ok(NAME, "yes, with the rights of the machine's root")
        }
        true => Check::partly(
            NAME,
            "this process is in a container without the rights of the machine's root, and may find tracefs and perf \
             closed: see below",
            "record outside of it, or start it with --privileged --pid=host",
        ),
    }
}

fn read_only_sysfs(root: &Root) -> bool {
    let mounts = root.read("proc/self/mounts").unwrap_or_default();
    let sysfs = mounts.lines().filter(|line| line.contains(" /sys sysfs "));
    let options = sysfs.filter_map(|line| line.split(' ').nth(3));
    options
        .into_iter()
        .any(|options| options.split(',').any(|option| option == "ro"))
}

fn looks_contained(root: &Root) -> bool {
    let marks = [".dockerenv", "run/.containerenv"];
    let cgroup = root.read("proc/1/cgroup").unwrap_or_default();
    let runtimes = ["/docker", "/lxc", "kubepods", "libpod", "containerd"];
    marks.iter().any(|mark| root.path(mark).exists())
        || runtimes.iter().any(|runtime| cgroup.contains(runtime))
}

fn topology(root: &Root) -> Check {
    const NAME: &str = "topology";
    match live_at(&root.path("sys/devices/system")) {
        Ok(facts) if facts.llcs.is_some() => Check::ok(NAME, facts.to_spec()),
        Ok(_) => Check::partly(
            NAME,
            "sysfs does not tell which CPUs share a last-level cache; wakeups across caches are then told only if \
             --topology is given to analyze",
            "no command helps: this machine, often a virtual one, does not describe its caches",
        ),
        Err(error) => Check::missing(
            NAME,
            format!("{error}; analyze then needs --topology"),
            "mount -t sysfs sysfs /sys",
        ),
    }
}

fn domains(root: &Root) -> Check {
    const NAME: &str = "scheduler domains";
    const WITHOUT: &str =
        "caches are then taken from sysfs, which can differ from what the scheduler uses";
    let folders = [
        "sys/kernel/debug/sched/domains/cpu0",
        "proc/sys/kernel/sched_domain/cpu0",
    ];
    let named = folders.iter().any(|folder| root.path(folder).is_dir());
    match root.path("proc/schedstat").exists() {
        true => Check::ok(NAME, "/proc/schedstat"),
        false if named => Check::partly(
            NAME,
            format!("only their names, not which CPUs they span; {WITHOUT}"),
            "the kernel was built without CONFIG_SCHEDSTATS, which /proc/schedstat needs",
        ),
        false => Check::missing(
            NAME,
            format!("there is no /proc/schedstat; {WITHOUT}"),
            "the kernel was built without CONFIG_SCHEDSTATS",
        ),
    }
}

fn schedstats(root: &Root) -> Check {
    const NAME: &str = "schedstats";
    const WITHOUT: &str =
        "without them, wakeups are counted from events only, and cannot be compared";
    let release = root.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let config = kernel_config(root, Some(&release));
    match root.read("proc/sys/kernel/sched_schedstats").as_deref() {
        Ok("0") => Check::missing(
            NAME,
            format!("the kernel's own counters of wakeups are off; {WITHOUT}"),
            "sysctl kernel.sched_schedstats=1 (as root; costs the scheduler a little)",
        ),
        Ok(_) => Check::ok(NAME, "kernel.sched_schedstats=1"),
        // Before 4.6 they could not be turned off.
        Err(_) if root.path("proc/schedstat").exists() => Check::ok(NAME, "always on"),
        Err(_) if config.is_empty() || !config.is_set("SCHEDSTATS") => Check::missing(
            NAME,
            format!("the kernel has no counters of wakeups; {WITHOUT}"),
            "the kernel was built without CONFIG_SCHEDSTATS",
        ),
        Err(error) => Check::missing(NAME, format!("{error}; {WITHOUT}"), "run it as root"),
    }
}

fn debugfs(root: &Root) -> Check {
    const NAME: &str = "scheduler features";
    const WITHOUT: &str = "features and tunables are then not recorded, events are";
    let places = [
        "sys/kernel/debug/sched/features",
        "sys/kernel/debug/sched_features",
    ];
    let found = places.iter().map(|place| (place, root.read(place)));
    let mut errors = Vec::new();
    for (place, read) in found {
        match read {
            Ok(_) => return Check::ok(NAME, format!("/{place}")),
            Err(error) => errors.push(error),
        }
    }
    let denied = |errno| {
        errors
            .iter()
            .any(|error| error.raw_os_error() == Some(errno))
    };
    let mounts = root.read("proc/self/mounts").unwrap_or_default();
    let mounted = mounts
        .lines()
        .any(|line| line.contains(" /sys/kernel/debug debugfs "));
    let (why, remedy) = if denied(libc::EPERM) && lockdown(root).is_some() {
        (
            "kernel lockdown closes debugfs",
            "only a reboot changes it: boot with lockdown=none",
        )
    } else if denied(libc::EACCES) || denied(libc::EPERM) {
        ("only root may read debugfs", "run it as root: sudo ttwu …")
    } else if mounted {
        (
            "debugfs does not have them",
            "the kernel was built without CONFIG_SCHED_DEBUG",
        )
    } else {
        (
            "debugfs is not mounted",
            "mount -t debugfs nodev /sys/kernel/debug (as root)",
        )
    };
    Check::missing(NAME, format!("{why}; {WITHOUT}"), remedy)
}

fn threads(root: &Root) -> Check {
    const NAME: &str = "threads";
    let own = in_own_namespace(root, Namespace::Pid);
    let hidden = root.read("proc/1/stat").is_err();
    let threads = root.numbered("proc", "").len();
    match (own, hidden) {
        (true, _) => Check::missing(
            NAME,
            "/proc shows only the threads of this pid namespace; affinities are then learnt from events only",
            "record outside of the container, or start it with --pid=host",
        ),
        (_, true) => Check::partly(
            NAME,
            "/proc hides other users' processes; their affinities are then learnt from events only",
            "mount -o remount,hidepid=0 /proc (as root), or run it as root",
        ),
        _ => Check::ok(
            NAME,
            format!("affinity, policy and cgroup of {threads} processes"),
        ),
    }
}
