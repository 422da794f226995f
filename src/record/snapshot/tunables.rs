//! The scheduler's features and tunables: in debugfs since 5.13, in sysctl and `debug/sched_features` before. And how
//! many pages are flushed from a TLB one by one.

use super::encode::text;
use super::root::Root;
use super::unreadable::{Unreadable, is_absent};

/// debugfs's folder of the scheduler.
const FOLDER: &str = "sys/kernel/debug/sched";
/// Its files that are no tunables, or are reported otherwise.
const OTHERS: [&str; 4] = ["debug", "features", "preempt", "verbose"];
/// debugfs's folder of x86, and the most pages that the kernel flushes from a TLB one by one.
const X86: &str = "sys/kernel/debug/x86";
const FLUSH_CEILING: &str = "tlb_single_page_flush_ceiling";

/// The lines of the record.
pub fn lines(root: &Root, unreadable: &mut Unreadable) -> Vec<String> {
    let features = features(root, unreadable);
    let mut tunables = debugfs(root, unreadable);
    if tunables.is_empty() {
        tunables = debug_text(root);
    }
    tunables.extend(sysctls(root));
    let flush = unreadable.read(root, &format!("{X86}/{FLUSH_CEILING}"));
    tunables.extend(flush.map(|value| (format!("x86/{FLUSH_CEILING}"), value)));
    // `sched_energy_aware` is empty where the machine cannot have it.
    tunables.retain(|(_, value)| !value.is_empty());
    let line = |(name, value)| text(&format!("ttwu machine tunable {name} {value}"));
    let features = features.map(|features| text(&format!("ttwu machine features {features}")));
    features
        .into_iter()
        .chain(tunables.into_iter().map(line))
        .collect()
}

fn features(root: &Root, unreadable: &mut Unreadable) -> Option<String> {
    let new = format!("{FOLDER}/features");
    let old = "sys/kernel/debug/sched_features";
    match (root.read(&new), root.read(old)) {
        (Ok(features), _) | (_, Ok(features)) => Some(features),
        (Err(error), _) if is_absent(&error) => {
            unreadable.note(&new, no_debugfs(root));
            None
        }
        _ => unreadable.read(root, &new),
    }
}

/// Why debugfs does not have the scheduler's files.
fn no_debugfs(root: &Root) -> &'static str {
    let mounts = root.read("proc/self/mounts").unwrap_or_default();
    let mut mounts = mounts.lines();
    match mounts.any(|line| line.contains(" /sys/kernel/debug debugfs ")) {
        true => "the kernel was built without CONFIG_SCHED_DEBUG",
        false => "debugfs is not mounted: mount -t debugfs nodev /sys/kernel/debug",
    }
}

/// Tunables of one folder and its `numa_balancing`, by names such as `sched/base_slice_ns`.
fn debugfs(root: &Root, unreadable: &mut Unreadable) -> Vec<(String, String)> {
    let mut tunables = Vec::new();
    let mut refused = Vec::new();
    let numa = root
        .names(format!("{FOLDER}/numa_balancing"))
        .unwrap_or_default();
    let numa = numa.iter().map(|name| format!("numa_balancing/{name}"));
    let names = root.names(FOLDER).unwrap_or_default();
    for name in names.into_iter().chain(numa) {
        let place = format!("{FOLDER}/{name}");
        if OTHERS.contains(&name.as_str()) || root.path(&place).is_dir() {
            continue;
        }
        match root.read(&place) {
            Ok(value) => tunables.push((format!("sched/{name}"), value)),
            Err(_) => refused.push((name, place)),
        }
    }
    // One line for all: they are refused for one reason.
    if let Some((_, place)) = refused.first() {
        let mut reason = Unreadable::default();
        reason.read(root, place);
        let names: Vec<_> = refused.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(why) = reason.reasons().next() {
            unreadable.note(&format!("{FOLDER}/{{{}}}", names.join(",")), why);
        }
    }
    tunables
}

/// What `sched/debug`, which lockdown leaves open, tells of them: `  .sysctl_sched_base_slice     : 1.400000`.
fn debug_text(root: &Root) -> Vec<(String, String)> {
    // The rest is about CPUs and threads, and the kernel would make all of it.
    const HEAD: u64 = 4096;
    let places = [format!("{FOLDER}/debug"), "proc/sched_debug".to_owned()];
    let mut found = places
        .iter()
        .filter_map(|place| root.read_bytes(place, HEAD).ok());
    let head = found.next().unwrap_or_default();
    let head = String::from_utf8_lossy(&head);
    let tunable = |line: &str| {
        let (name, value) = line.trim().strip_prefix('.')?.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        name.starts_with("sysctl_")
            .then(|| (format!("debug/{name}"), value.to_owned()))
    };
    head.lines().filter_map(tunable).collect()
}

/// Sysctls of the scheduler, by names such as `kernel.sched_rt_runtime_us`.
fn sysctls(root: &Root) -> Vec<(String, String)> {
    const SYSCTL: &str = "proc/sys/kernel";
    let names = root.names(SYSCTL).unwrap_or_default();
    let wanted = names.into_iter().filter(|name| {
        name.starts_with("sched_") || name == "numa_balancing" || name == "timer_migration"
    });
    let tunables = wanted.filter_map(|name| {
        let value = root.read(format!("{SYSCTL}/{name}")).ok()?;
        Some((format!("kernel.{name}"), value))
    });
    tunables.collect()
}
