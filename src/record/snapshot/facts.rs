//! Single facts: the kernel, how it was built and started, and how its CPUs are set.

use std::collections::BTreeMap;

use ttwu_parsers::kernel_config::KernelConfig;
use ttwu_parsers::topology::cpulist::format_list;

use super::encode::{text, word};
use super::root::Root;
use super::unreadable::Unreadable;

/// The facts as lines of the record.
pub fn lines(root: &Root, unreadable: &mut Unreadable) -> Vec<String> {
    let release = unreadable.read(root, "proc/sys/kernel/osrelease");
    let config = kernel_config(root, release.as_deref());
    let version = unreadable.read(root, "proc/version");
    let boot = unreadable.read(root, "proc/cmdline");
    let preempt = preempt(
        root,
        &config,
        version.as_deref(),
        boot.as_deref(),
        unreadable,
    );
    let mut read = |place| unreadable.read(root, place);
    let facts = [
        ("release", release),
        ("version", version),
        ("arch", read("proc/sys/kernel/arch").or_else(arch)),
        ("hostname", read("proc/sys/kernel/hostname")),
        ("hz", config.value("HZ").map(str::to_owned)),
        ("smt", read("sys/devices/system/cpu/smt/control")),
        ("isolated", read("sys/devices/system/cpu/isolated")),
        (
            "nohz_full",
            read("sys/devices/system/cpu/nohz_full").and_then(set),
        ),
        ("boot", boot),
        ("preempt", preempt),
        ("sched_ext", sched_ext(root)),
        ("clocksource", read(CLOCKSOURCE)),
        ("hypervisor", hypervisor(root)),
    ];
    let facts = facts.into_iter().filter_map(|(key, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some(text(&format!("ttwu machine {key} {value}")))
    });
    facts.chain(governors(root, unreadable)).collect()
}

const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

/// How the kernel was built, from `/proc/config.gz` or `/boot`; empty where neither is there.
pub fn kernel_config(root: &Root, release: Option<&str>) -> KernelConfig {
    const MOST: u64 = 16 << 20;
    let release = release.unwrap_or_default();
    let places = [
        "proc/config.gz".to_owned(),
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
    ];
    let mut found = places
        .iter()
        .filter_map(|place| root.read_bytes(place, MOST).ok());
    found
        .next()
        .map(|bytes| KernelConfig::read(&bytes))
        .unwrap_or_default()
}

/// What this program was built for: kernels before 6.1 have no file that says so.
fn arch() -> Option<String> {
    Some(std::env::consts::ARCH.to_owned())
}

/// Kernels that have `nohz_full` but were not given any CPUs print `(null)`.
fn set(list: String) -> Option<String> {
    (list.trim() != "(null)").then_some(list)
}

/// `none`, `voluntary`, `full`, `lazy` or `rt`, and how that is known where the kernel could choose another at boot.
fn preempt(
    root: &Root,
    config: &KernelConfig,
    version: Option<&str>,
    boot: Option<&str>,
    unreadable: &mut Unreadable,
) -> Option<String> {
    let place = "sys/kernel/debug/sched/preempt";
    if let Some(modes) = unreadable.read(root, place) {
        return modes.split(['(', ')']).nth(1).map(str::to_owned);
    }
    let mut words = version?.split([' ', ',']);
    let word = words.find(|word| word.starts_with("PREEMPT"))?;
    let chosen = |boot: &str| {
        let mut options = boot.split_ascii_whitespace();
        options.find_map(|option| option.strip_prefix("preempt=").map(str::to_owned))
    };
    match word {
        "PREEMPT_RT" => Some("rt".to_owned()),
        "PREEMPT_DYNAMIC" => boot.and_then(chosen).or_else(|| built_preempt(config)),
        "PREEMPT" => Some("full".to_owned()),
        other => Some(other.to_owned()),
    }
}

/// The mode that a kernel with `PREEMPT_DYNAMIC` starts in unless told otherwise (kernel/Kconfig.preempt).
fn built_preempt(config: &KernelConfig) -> Option<String> {
    let modes = [
        ("PREEMPT_NONE", "none"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
    ];
    let built = modes.into_iter().find(|(key, _)| config.is_set(key));
    let mode = built.map_or("dynamic", |(_, mode)| mode);
    Some(format!("{mode} (as built; the kernel can change it)"))
}

/// The state of BPF schedulers and the one that is loaded (Documentation/scheduler/sched-ext.rst).
fn sched_ext(root: &Root) -> Option<String> {
    let state = root.read("sys/kernel/sched_ext/state").ok()?;
    match root.read("sys/kernel/sched_ext/root/ops") {
        Ok(ops) => Some(format!("{state} {ops}")),
        Err(_) => Some(state),
    }
}

/// The hypervisor's vendor, where the CPU says that there is one.
fn hypervisor(root: &Root) -> Option<String> {
    if let Ok(kind) = root.read("sys/hypervisor/type") {
        return Some(kind);
    }
    // The first CPU's flags are within this; all CPUs' text can be megabytes.
    let cpuinfo = root.read_bytes("proc/cpuinfo", 8 << 10).ok()?;
    let cpuinfo = String::from_utf8_lossy(&cpuinfo);
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let virtual_cpu = flags.split(' ').any(|flag| flag == "hypervisor");
    virtual_cpu.then(|| {
        let vendor = root.read("sys/class/dmi/id/sys_vendor");
        vendor.unwrap_or_else(|_| "unknown".to_owned())
    })
}

/// The cpufreq governors, each with its CPUs.
fn governors(root: &Root, unreadable: &mut Unreadable) -> Vec<String> {
    const FOLDER: &str = "sys/devices/system/cpu";
    let mut cpus = BTreeMap::<String, Vec<u32>>::new();
    for cpu in root.numbered(FOLDER, "cpu") {
        let place = format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_governor");
        if let Some(governor) = unreadable.read(root, &place) {
            cpus.entry(governor).or_default().push(cpu);
        }
    }
    let line = |(governor, cpus): (String, Vec<u32>)| {
        format!(
            "ttwu machine governor {} {}",
            word(governor),
            format_list(&cpus)
        )
    };
    cpus.into_iter().map(line).collect()
}
