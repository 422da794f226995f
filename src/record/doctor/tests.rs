//! Checks on machines put together file by file, and on this one.

use std::fs;
use std::io;
use std::path::Path;

use super::*;
use crate::record::RecordError;

/// A folder with these files.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    for (place, content) in files {
        let path = folder.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let root = Root::at(folder.path());
    (folder, root)
}

fn check<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap()
}

/// Every check that is not all right says what to do.
fn assert_helpful(sections: &[Section]) {
    for check in sections.iter().flat_map(|section| &section.checks) {
        assert_eq!(
            check.state == State::Ok,
            check.remedy.is_none(),
            "{check:?}"
        );
        assert!(!check.detail.is_empty(), "{check:?}");
    }
}

#[test]
fn a_machine_that_has_all() {
    let (_folder, root) = tree(&[
        ("proc/sys/kernel/osrelease", "6.12.1-x\n"),
        (
            "sys/kernel/security/lockdown",
            "[none] integrity confidentiality\n",
        ),
        ("proc/schedstat", "version 16\n"),
        ("proc/sys/kernel/sched_schedstats", "1\n"),
        ("sys/kernel/debug/sched/features", "TTWU_QUEUE\n"),
        ("proc/1/stat", "1 (init) S\n"),
    ]);
    let checks = [machine::checks(&root), machine::sources(&root)].concat();
    for name in [
        "kernel",
        "lockdown",
        "container",
        "scheduler domains",
        "schedstats",
        "scheduler features",
        "threads",
    ] {
        assert_eq!(check(&checks, name).state, State::Ok, "{name}");
    }
    // It has no CPUs.
    assert_eq!(check(&checks, "topology").state, State::Missing);
}

#[test]
fn what_is_off_names_its_command() {
    let (_folder, root) = tree(&[
        ("proc/sys/kernel/osrelease", "2.6.32\n"),
        (
            "sys/kernel/security/lockdown",
            "none integrity [confidentiality]\n",
        ),
        ("proc/schedstat", "version 16\n"),
        ("proc/sys/kernel/sched_schedstats", "0\n"),
        ("proc/self/mounts", "sysfs /sys sysfs ro,nosuid 0 0\n"),
        ("run/.containerenv", ""),
    ]);
    let checks = [machine::checks(&root), machine::sources(&root)].concat();
    let remedy = |name| check(&checks, name).remedy.clone().unwrap();
    assert_eq!(check(&checks, "kernel").state, State::Partly);
    assert_eq!(check(&checks, "lockdown").state, State::Missing);
    assert!(remedy("schedstats").starts_with("sysctl kernel.sched_schedstats=1"));
    assert!(remedy("scheduler features").starts_with("mount -t debugfs nodev /sys/kernel/debug"));
    assert!(remedy("container").contains("--privileged"));
}

#[test]
fn a_missing_tracefs_is_told_from_a_closed_one() {
    let said = |files: &[(&str, &str)]| {
        let (_folder, root) = tree(files);
        tracefs_not_found(&root).to_string()
    };
    let closed = said(&[("proc/self/mounts", "nodev /t tracefs rw 0 0\n")]);
    assert!(closed.contains("mounted at /t, but only root"), "{closed}");
    let unmounted = said(&[("proc/filesystems", "nodev\ttracefs\n")]);
    assert!(
        unmounted.contains("mount -t tracefs nodev /sys/kernel/tracing"),
        "{unmounted}"
    );
    let absent = said(&[]);
    assert!(absent.contains("CONFIG_FTRACE"), "{absent}");
}

#[test]
fn rights_are_read_from_the_process() {
    let status = |mask: &str| format!("Name:\tx\nCapInh:\t0\nCapEff:\t{mask}\n");
    let perfmon = format!("{:016x}", 1_u64 << 38);
    let (_folder, root) = tree(&[("proc/self/status", &status(&perfmon))]);
    let privileges = privileges::Privileges::read(&root);
    assert!(privileges.may_monitor() && !privileges.has(privileges::SYS_ADMIN));
    let files = [
        ("proc/self/status", status("0000000000000000")),
        ("proc/sys/kernel/perf_event_paranoid", "2\n".to_owned()),
    ];
    let files: Vec<_> = files
        .iter()
        .map(|(place, text)| (*place, text.as_str()))
        .collect();
    let (_folder, root) = tree(&files);
    let RecordError::Denied { what, remedy } = explain::perf_forbidden(&root) else {
        panic!("not denied");
    };
    assert!(
        what.contains("CAP_PERFMON") && what.ends_with("which is 2"),
        "{what}"
    );
    assert!(
        remedy.contains("sysctl kernel.perf_event_paranoid=-1")
            && remedy.contains("setcap cap_perfmon"),
        "{remedy}"
    );
}

#[test]
fn refusals_say_what_to_do() {
    let path = Path::new("/sys/kernel/tracing/instances/x");
    let tracefs =
        |errno| explain_tracefs_denied(&io::Error::from_raw_os_error(errno), path).to_string();
    assert!(tracefs(libc::EACCES).contains("sudo ttwu"));
    assert!(tracefs(libc::EROFS).contains("mount -o remount,rw /sys/kernel/tracing"));
    assert!(tracefs(libc::ENOSPC).starts_with("cannot use /sys/kernel/tracing/instances/x"));
    assert!(
        explain_perf_denied(libc::EMFILE)
            .to_string()
            .contains("ulimit -n")
    );
    assert!(
        explain_perf_denied(libc::ENOENT)
            .to_string()
            .contains("--counters")
    );
    assert!(
        explain_perf_denied(libc::E2BIG)
            .to_string()
            .starts_with("cannot open an event")
    );
    let map = explain_perf_map_denied(libc::EPERM, 1 << 20).to_string();
    assert!(
        map.contains("sysctl kernel.perf_event_mlock_kb=1028"),
        "{map}"
    );
}

#[test]
fn this_machine_is_examined_and_left_as_it_was() {
    let events = [("sched", "sched_switch"), ("sched", "no_such_event")];
    let sections = examine(&Root::host(), &events);
    assert_eq!(sections.len(), 6);
    assert_helpful(&sections);
    if let Ok(tracefs) = Tracefs::find() {
        let own = crate::record::owner::Owner::this().name();
        assert!(!tracefs.path("instances").join(own).exists());
    }
}
