//! What decisions rest on beside the counters: the kernel's policy, the ticks of a second, and the size of LLCs.

use super::ticks::{Phase, Ticks};
use crate::replay::Machine;
use crate::replay::cpuset::CpuSet;
use crate::replay::model::KernelModel;
use crate::replay::words::FlipPolicy;
use ttwu_parsers::machine_record::{Domain, MachineRecord};

/// Ticks a second where nothing tells.
const ASSUMED_HZ: u32 = 250;
/// How late the ticks of a guest may be counted at most, however long a CPU is silent. In an emulated one, with 16 CPUs on
/// two, its jiffies stood still for 143 ms, as two tasks agreed, while the CPU that counts them did not run. Another CPU
/// takes over once it has handled five ticks in vain (`MAX_STALLED_JIFFIES`, since 5.18).
const LATE_NS: i64 = 150_000_000;
/// How long a switch may take after its event; the second was seen in an emulated guest.
const ON_CPU_NS: i64 = 10_000;
const GUEST_ON_CPU_NS: i64 = 100_000;
/// Levels inside an LLC by name, where flags are not recorded (kernel/sched/topology.c: SMT, CLS and MC).
const WITHIN_LLC: [&str; 5] = ["SMT", "SIBLING", "CLS", "CLUSTER", "MC"];

/// Known before the first step.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// What the recorded kernel does.
    pub kernel: FlipPolicy,
    pub hz: u32,
    /// Where that is from, as a phrase.
    pub hz_source: String,
    /// Where ticks are in time, where that is known.
    pub phase: Option<Phase>,
    /// How late the count of ticks may be at most: a guest's stands still while the host runs something else.
    pub late_ns: i64,
    /// So long after `sched_switch` a task may still count as on its CPU (`on_cpu` clears a little later), and be put on
    /// that CPU's wake list without a selection.
    pub on_cpu_ns: i64,
    /// By dense number of the waker's CPU: how many CPUs its LLC has as the scheduler sees it (`sd_llc_size`).
    pub factors: Vec<Option<u32>>,
    pub factor_source: String,
    /// By dense number: the CPUs from which `wake_affine` may pull to it; `None` if it may from all.
    pub affine: Vec<Option<CpuSet>>,
    pub start_ns: i64,
    /// Whether new tasks are announced.
    pub forks_recorded: bool,
}

/// What a [`Setup`] is made of.
#[derive(Debug, Clone, Copy)]
pub struct SetupInput<'a> {
    pub record: &'a MachineRecord,
    pub machine: &'a Machine,
    pub model: &'a KernelModel,
    /// What is known of ticks by timer interrupts, and by what timers wake.
    pub ticks: &'a Ticks,
    pub start_ns: i64,
    pub forks_recorded: bool,
}

impl Setup {
    pub fn new(input: &SetupInput) -> Self {
        let (hz, hz_source) = hz(input);
        let machine = input.machine;
        let cpus = machine.cpus.ids().iter();
        let factors = cpus.clone().map(|&cpu| factor(input, cpu)).collect();
        let has_domains = !input.record.domains.is_empty();
        Self {
            kernel: kernel_policy(input.model),
            hz,
            hz_source,
            phase: input.ticks.phase(hz, input.start_ns),
            late_ns: if is_bare(input.record) { 0 } else { LATE_NS },
            on_cpu_ns: if is_bare(input.record) {
                ON_CPU_NS
            } else {
                GUEST_ON_CPU_NS
            },
            factors,
            factor_source: match has_domains {
                true => "scheduler domains in the machine record".to_owned(),
                false => machine.topology.source().to_owned(),
            },
            affine: cpus.map(|&cpu| affine(input, cpu)).collect(),
            start_ns: input.start_ns,
            forks_recorded: input.forks_recorded,
        }
    }

    /// A tick's length, rounded up.
    pub fn tick_ns(&self) -> i64 {
        (1_000_000_000 + i64::from(self.hz) - 1) / i64::from(self.hz.max(1))
    }
}

/// Whether the machine is known to be no guest.
fn is_bare(record: &MachineRecord) -> bool {
    !record.facts.is_empty() && record.fact("hypervisor").is_none()
}

/// 3.16 made of clearing a halving, 4.3 the rule symmetric.
fn kernel_policy(model: &KernelModel) -> FlipPolicy {
    match model.version {
        version if version < (3, 16) => FlipPolicy::ZeroOld,
        version if version < (4, 3) => FlipPolicy::HalveOld,
        _ => FlipPolicy::HalveNew,
    }
}

fn hz(input: &SetupInput) -> (u32, String) {
    let recorded = input.record.fact("hz");
    let recorded = recorded.and_then(|text| text.trim().parse().ok());
    if let Some(hz) = recorded.filter(|hz| (1..=10_000).contains(hz)) {
        return (
            hz,
            "the kernel's configuration in the machine record".to_owned(),
        );
    }
    match input.ticks.rate() {
        Some(hz) => (hz, "the spacing of timer interrupts".to_owned()),
        None => (
            ASSUMED_HZ,
            "assumed: neither the kernel's configuration nor timer interrupts are recorded"
                .to_owned(),
        ),
    }
}

/// `sd_llc_size`: the span of the highest domain that shares a cache, 1 without any (`update_top_cache_domain`).
fn factor(input: &SetupInput, cpu: u32) -> Option<u32> {
    let topology = &input.machine.topology;
    let own = || {
        input
            .record
            .domains
            .iter()
            .filter(|domain| domain.cpu == cpu)
    };
    if input.record.domains.is_empty() {
        return topology
            .llc_size(cpu)
            .and_then(|size| u32::try_from(size).ok());
    }
    // A CPU that is in no domain, such as an isolated one, is alone.
    let mut size = 1;
    for domain in own() {
        let span = domain.span.as_ref()?;
        let within = shares_llc(domain).or_else(|| {
            let llc = topology.llc_cpus(cpu)?;
            Some(span.iter().all(|cpu| llc.contains(&cpu)))
        });
        if within? {
            size = size.max(u32::try_from(span.len()).ok()?);
        }
    }
    Some(size)
}

/// Whether a domain's CPUs share the LLC, as its flags or its name tell.
fn shares_llc(domain: &Domain) -> Option<bool> {
    if let Some(flags) = named_flags(domain) {
        // The second name was in use up to 6.8.
        let shares = |flag: &str| flag == "SD_SHARE_LLC" || flag == "SD_SHARE_PKG_RESOURCES";
        return Some(flags.split(',').any(shares));
    }
    let name = domain.name.as_deref()?;
    Some(WITHIN_LLC.contains(&name))
}

/// Flags by name: kernels before 5.10 give a number whose bits changed from version to version.
fn named_flags(domain: &Domain) -> Option<&str> {
    let flags = domain.flags.as_deref()?;
    flags.contains("SD_").then_some(flags)
}

/// The CPUs that share a domain with SD_WAKE_AFFINE with this one.
fn affine(input: &SetupInput, cpu: u32) -> Option<CpuSet> {
    let cpus = &input.machine.cpus;
    let mut all: Option<CpuSet> = None;
    for domain in input
        .record
        .domains
        .iter()
        .filter(|domain| domain.cpu == cpu)
    {
        let (flags, span) = (named_flags(domain)?, domain.span.as_ref()?);
        let all = all.get_or_insert_with(|| CpuSet::empty(cpus.len()));
        if flags.split(',').any(|flag| flag == "SD_WAKE_AFFINE") {
            let members = span.iter().filter_map(|cpu| cpus.index(cpu));
            members.for_each(|cpu| all.insert(cpu));
        }
    }
    all
}
