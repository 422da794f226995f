//! Why the kernel refused, in full sentences, with the command that helps.

use std::io;
use std::path::Path;

use super::privileges::{PERFMON, Privileges};
use crate::record::RecordError;
use crate::record::snapshot::{Namespace, Root, in_own_namespace, lockdown};
use crate::record::tracefs::Tracefs;

/// The command that runs this program again with all rights.
pub const AS_ROOT: &str = "run it as root: sudo ttwu …";

/// The command that gives this program the capabilities that it needs without root.
///
/// `CAP_DAC_READ_SEARCH` is for tracefs, which only root may read, and which numbers the events.
pub fn setcap() -> String {
    let program = std::env::current_exe();
    let program = program.map_or_else(
        |_| "$(which ttwu)".to_owned(),
        |path| path.display().to_string(),
    );
    format!("setcap cap_perfmon,cap_sys_ptrace,cap_dac_read_search=ep {program}")
}

/// Why a file of tracefs could not be used.
pub fn explain_tracefs_denied(error: &io::Error, path: &Path) -> RecordError {
    let denied = |what: &str, remedy: String| RecordError::Denied {
        what: format!("{}: {what}", path.display()),
        remedy,
    };
    let root = Root::host();
    match error.raw_os_error() {
        Some(libc::ENOENT) if Tracefs::find().is_err() => tracefs_not_found(&root),
        Some(libc::ENOENT) => denied(
            "this kernel does not have it",
            "record without it, or see `ttwu doctor` for what there is".to_owned(),
        ),
        Some(libc::EPERM) if lockdown(&root).as_deref() == Some("confidentiality") => denied(
            "kernel lockdown (confidentiality) closes tracefs, to root too",
            "boot with lockdown=integrity, or without Secure Boot".to_owned(),
        ),
        Some(libc::EACCES | libc::EPERM) => denied(
            "only root may use tracefs",
            format!(
                "{AS_ROOT}; reading it alone needs CAP_DAC_READ_SEARCH: {}",
                setcap()
            ),
        ),
        Some(libc::EROFS) => denied(
            "tracefs is mounted read-only, as containers have it",
            "mount -o remount,rw /sys/kernel/tracing (as root), or record outside of the container"
                .to_owned(),
        ),
        _ => RecordError::File {
            action: "use",
            path: path.to_owned(),
            source: copy(error),
        },
    }
}

/// Why no tracefs was found that this process may look into.
pub fn tracefs_not_found(root: &Root) -> RecordError {
    let mounts = root.read("proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next()? == "tracefs").then_some(place)
    });
    let kinds = root.read("proc/filesystems").unwrap_or_default();
    let (what, remedy) = match mounted {
        Some(place) => (
            format!("tracefs is mounted at {place}, but only root may look into it"),
            open_tracefs(root),
        ),
        // Before Linux 4.1 debugfs held it.
        None if kinds.contains("tracefs") || kinds.contains("debugfs") => (
            "tracefs is not mounted".to_owned(),
            "mount it: mount -t tracefs nodev /sys/kernel/tracing (as root)".to_owned(),
        ),
        None => (
            "this kernel has no tracefs".to_owned(),
            "it was built without tracing (CONFIG_FTRACE); nothing can be recorded".to_owned(),
        ),
    };
    RecordError::Denied { what, remedy }
}

/// What opens a tracefs that is there.
fn open_tracefs(root: &Root) -> String {
    match in_own_namespace(root, Namespace::User) {
        true => "record outside of the container, whose root is not the machine's".to_owned(),
        false => format!("{AS_ROOT}, or, to record with perf only: {}", setcap()),
    }
}

/// Why perf_event_open(2) failed with `errno` for events of the whole machine.
pub fn explain_perf_denied(errno: i32) -> RecordError {
    let denied = |what: String, remedy: String| RecordError::Denied { what, remedy };
    match errno {
        libc::EACCES | libc::EPERM => perf_forbidden(&Root::host()),
        libc::ENOSYS => denied(
            "this kernel was built without perf events".to_owned(),
            "record with --backend ftrace; perf needs CONFIG_PERF_EVENTS".to_owned(),
        ),
        libc::EMFILE | libc::ENFILE => denied(
            "perf needs a file descriptor for each event and CPU, more than this process may open".to_owned(),
            "raise the limit: ulimit -n 1048576 (as root), or record fewer events or CPUs".to_owned(),
        ),
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV => denied(
            "this machine has no such counter".to_owned(),
            "record without --counters; virtual machines have hardware counters only if their host passes \
             them on (qemu: -cpu host,pmu=on)"
                .to_owned(),
        ),
        libc::EBUSY => denied(
            "another program, or the kernel's watchdog, holds the counter".to_owned(),
            "stop the other program, or: sysctl kernel.nmi_watchdog=0".to_owned(),
        ),
        _ => RecordError::System {
            what: "cannot open an event with perf_event_open".to_owned(),
            source: io::Error::from_raw_os_error(errno),
        },
    }
}

/// Why the kernel did not give `bytes` of buffer for each CPU: mmap(2) of a perf event failed with `errno`.
pub fn explain_perf_map_denied(errno: i32, bytes: u64) -> RecordError {
    match errno {
        libc::EPERM => RecordError::Denied {
            what: format!(
                "perf may not lock {} KiB of buffer for each CPU",
                bytes >> 10
            ),
            remedy: format!(
                "allow it: sysctl kernel.perf_event_mlock_kb={} (as root), raise `ulimit -l`, or record with a \
                 smaller --buffer",
                (bytes >> 10) + 4
            ),
        },
        libc::ENOMEM => RecordError::Denied {
            what: format!(
                "there is no memory for {} KiB of buffer for each CPU",
                bytes >> 10
            ),
            remedy: "record with a smaller --buffer".to_owned(),
        },
        _ => RecordError::System {
            what: "cannot map a buffer of perf events".to_owned(),
            source: io::Error::from_raw_os_error(errno),
        },
    }
}

/// Why perf may not see the whole machine: perf_event_open(2), Documentation/admin-guide/perf-security.rst.
pub fn perf_forbidden(root: &Root) -> RecordError {
    let privileges = Privileges::read(root);
    let paranoid = paranoid(root);
    let locked = lockdown(root).as_deref() == Some("confidentiality");
    let (what, remedy) = if locked {
        (
            "kernel lockdown (confidentiality) closes perf events, to root too".to_owned(),
            "boot with lockdown=integrity, or without Secure Boot".to_owned(),
        )
    } else if privileges.may_monitor() || paranoid < 0 {
        (
            "the kernel refuses perf events although this user may have them: a seccomp filter or a security \
             module forbids them, as container runtimes do by default"
                .to_owned(),
            "record outside of the container, or start it with --privileged, or with --cap-add PERFMON and \
             --security-opt seccomp=unconfined"
                .to_owned(),
        )
    } else if in_own_namespace(root, Namespace::User) {
        (
            "perf events of the whole machine need rights outside of this user namespace"
                .to_owned(),
            format!("record outside of the container, or allow all users: {SYSCTL}"),
        )
    } else {
        (
            format!(
                "perf events of the whole machine need {} (CAP_SYS_ADMIN before Linux 5.8), or \
                 kernel.perf_event_paranoid=-1, which is {paranoid}",
                PERFMON.0
            ),
            format!("{AS_ROOT}, or: {SYSCTL}, or: {}", setcap()),
        )
    };
    RecordError::Denied { what, remedy }
}

/// Lets everybody record tracepoints of the whole machine.
pub const SYSCTL: &str = "sysctl kernel.perf_event_paranoid=-1";

/// `kernel.perf_event_paranoid`; the kernel's own default where it cannot be read.
pub fn paranoid(root: &Root) -> i32 {
    let value = root.read("proc/sys/kernel/perf_event_paranoid");
    value.ok().and_then(|value| value.parse().ok()).unwrap_or(2)
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
