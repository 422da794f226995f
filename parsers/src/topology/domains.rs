//! What the scheduler's own domains say of caches, cores and nodes; shared by the sources that carry them.
//!
//! The kernel's LLC of a CPU is its highest domain with `SD_SHARE_LLC` (`update_top_cache_domain()`,
//! kernel/sched/topology.c), which the levels SMT, CLS and MC have, and a CPU without such a domain is its own
//! LLC. A level that spans no more than the one below it is removed, so a missing MC means that SMT or CLS is
//! the LLC.

use std::collections::BTreeMap;

use super::cpulist::{CpuSet, format_groups};
use super::groups::GroupBuilder;
use super::{TopologyError, TopologyFacts};

/// The domains of one CPU, smallest first.
#[derive(Debug, Clone, Default)]
pub(super) struct CpuDomains {
    pub(super) domains: Vec<Domain>,
}

/// One scheduler domain of one CPU.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    /// The level's name, where the source gives it (schedstat before version 17 does not).
    pub(super) name: Option<String>,
    /// The CPUs the domain spans, its own CPU among them.
    pub(super) span: CpuSet,
}

/// The domains of every CPU a source lists, by CPU.
pub(super) type DomainMap = BTreeMap<u32, CpuDomains>;

/// What a level's name says of the CPUs in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Threads of a core.
    Smt,
    /// CPUs that share an L2 or a part of the L3.
    Cluster,
    /// POWER's level of CPUs with a common cache. Where it exists, MC does not imply a shared cache
    /// (`powerpc_topology[]`, arch/powerpc/kernel/smp.c).
    Cache,
    /// CPUs that share the last-level cache.
    Mc,
    /// CPUs of one NUMA node: what PKG, DIE and CPU span is the node's mask (`cpu_cpu_mask()`), even where a
    /// package holds several nodes.
    Node,
    /// CPUs of several nodes.
    Numa,
    /// A name this reader does not know.
    Other,
}

/// Reads a level's name. `old_names` tells that the kernel is from before 3.16, whose NODE held several nodes.
fn level(name: &str, old_names: bool) -> Level {
    match name {
        "SMT" | "SIBLING" => Level::Smt,
        "CLS" => Level::Cluster,
        "CACHE" => Level::Cache,
        "MC" => Level::Mc,
        "NODE" if old_names => Level::Numa,
        "PKG" | "DIE" | "CPU" | "NODE" | "BOOK" | "DRAWER" => Level::Node,
        "NUMA" | "ALLNODES" => Level::Numa,
        _ => Level::Other,
    }
}

/// Turns domains into facts; `origin` names the source in errors and warnings.
pub(super) fn facts(map: &DomainMap, origin: &'static str) -> Result<TopologyFacts, TopologyError> {
    check_members(map, origin)?;
    let mut facts = TopologyFacts {
        online: online(map),
        ..TopologyFacts::default()
    };
    if map.values().all(|cpu| cpu.domains.is_empty()) {
        no_domains(map, origin, &mut facts);
    } else if all_named(map) {
        Named::new(map, origin).read(&mut facts)?;
    } else {
        read_nameless(map, origin, &mut facts);
    }
    Ok(facts)
}

/// Whether every domain carries its level's name.
pub(super) fn all_named(map: &DomainMap) -> bool {
    let mut domains = map.values().flat_map(|cpu| &cpu.domains);
    domains.all(|domain| domain.name.is_some())
}

fn check_members(map: &DomainMap, origin: &'static str) -> Result<(), TopologyError> {
    for (&cpu, own) in map {
        if let Some(stray) = own.domains.iter().find(|domain| !domain.span.contains(cpu)) {
            return Err(TopologyError::NotAMember {
                origin,
                cpu,
                span: stray.span.to_string(),
            });
        }
    }
    Ok(())
}

fn online(map: &DomainMap) -> Option<Vec<u32>> {
    // The widest domain of a CPU holds its smaller ones.
    let widest = map.values().filter_map(|cpu| cpu.domains.last());
    let mut distinct: Vec<_> = widest.map(|domain| &domain.span).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let listed = CpuSet::from_cpus(map.keys().copied());
    let all = CpuSet::union(distinct.into_iter().chain([&listed]));
    Some(all.to_vec()).filter(|cpus| !cpus.is_empty())
}

/// No CPU has a domain: certain on a machine of one CPU, silent on any other.
fn no_domains(map: &DomainMap, origin: &'static str, facts: &mut TopologyFacts) {
    match facts.online.as_deref() {
        Some(&[cpu]) => {
            let alone = Some(vec![vec![cpu]]);
            facts.cores.clone_from(&alone);
            facts.llcs.clone_from(&alone);
            facts.nodes = alone;
        }
        _ => facts.warnings.push(format!(
            "{origin} lists {} CPUs but no scheduler domain of any, so it does not tell which share a cache",
            map.len()
        )),
    }
}

/// The reading of domains whose levels are named.
struct Named<'a> {
    map: &'a DomainMap,
    origin: &'static str,
    old_names: bool,
    has_cache_level: bool,
}

impl<'a> Named<'a> {
    fn new(map: &'a DomainMap, origin: &'static str) -> Self {
        let domains = map.values().flat_map(|cpu| &cpu.domains);
        let names: Vec<&str> = domains
            .filter_map(|domain| domain.name.as_deref())
            .collect();
        let any = |wanted: &[&str]| names.iter().any(|name| wanted.contains(name));
        Self {
            map,
            origin,
            // 3.16 renamed SIBLING to SMT and CPU to DIE; ALLNODES is older still.
            old_names: any(&["SIBLING", "CPU", "ALLNODES"]),
            has_cache_level: any(&["CACHE"]),
        }
    }

    fn read(&self, facts: &mut TopologyFacts) -> Result<(), TopologyError> {
        facts.llcs = self.groups("LLC", self.map.iter(), |cpu, own| self.llc(cpu, own))?;
        // A CPU without any domain is isolated: the scheduler treats it as its own LLC, but its core, L2 and
        // node are not told.
        let placed = || self.map.iter().filter(|(_, own)| !own.domains.is_empty());
        facts.cores = self.groups("core", placed(), |cpu, own| self.core(cpu, own))?;
        if self.any(Level::Cluster) {
            facts.l2s = self.groups("L2", placed(), |cpu, own| self.cluster(cpu, own))?;
        }
        facts.nodes = self.nodes();
        self.warn(facts);
        Ok(())
    }

    fn groups<'m>(
        &self,
        kind: &'static str,
        cpus: impl Iterator<Item = (&'m u32, &'m CpuDomains)>,
        span: impl Fn(u32, &CpuDomains) -> CpuSet,
    ) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
        let mut builder = GroupBuilder::new(kind);
        for (&cpu, own) in cpus {
            builder.add(span(cpu, own))?;
        }
        Ok(Some(builder.finish()))
    }

    fn level(&self, domain: &Domain) -> Level {
        let name = domain.name.as_deref().unwrap_or_default();
        level(name, self.old_names)
    }

    fn any(&self, wanted: Level) -> bool {
        let mut domains = self.map.values().flat_map(|cpu| &cpu.domains);
        domains.any(|domain| self.level(domain) == wanted)
    }

    fn shares_llc(&self, level: Level) -> bool {
        match level {
            Level::Smt | Level::Cluster | Level::Cache => true,
            Level::Mc => !self.has_cache_level,
            Level::Node | Level::Numa | Level::Other => false,
        }
    }

    fn highest(&self, own: &CpuDomains, wanted: impl Fn(Level) -> bool) -> Option<CpuSet> {
        let mut downwards = own.domains.iter().rev();
        let found = downwards.find(|domain| wanted(self.level(domain)));
        found.map(|domain| domain.span.clone())
    }

    fn llc(&self, cpu: u32, own: &CpuDomains) -> CpuSet {
        self.highest(own, |level| self.shares_llc(level))
            .unwrap_or_else(|| CpuSet::from_cpus([cpu]))
    }

    fn core(&self, cpu: u32, own: &CpuDomains) -> CpuSet {
        self.highest(own, |level| level == Level::Smt)
            .unwrap_or_else(|| CpuSet::from_cpus([cpu]))
    }

    fn cluster(&self, cpu: u32, own: &CpuDomains) -> CpuSet {
        self.highest(own, |level| level == Level::Cluster)
            .unwrap_or_else(|| self.core(cpu, own))
    }

    /// The nodes: what lies below the NUMA levels, or one node where there is no NUMA level and one domain
    /// spans all. Anything else (cpuset partitions, unknown levels) is not told.
    fn nodes(&self) -> Option<Vec<Vec<u32>>> {
        if self.any(Level::Other) {
            return None;
        }
        let mut builder = GroupBuilder::new("node");
        for (&cpu, own) in self.map.iter().filter(|(_, own)| !own.domains.is_empty()) {
            let node = self.highest(own, |level| level != Level::Numa);
            let node = node.unwrap_or_else(|| CpuSet::from_cpus([cpu]));
            builder.add(node).ok()?;
        }
        let nodes = builder.finish();
        (self.any(Level::Numa) || nodes.len() == 1).then_some(nodes)
    }

    fn warn(&self, facts: &mut TopologyFacts) {
        let isolated = self.map.iter().filter(|(_, own)| own.domains.is_empty());
        let isolated = CpuSet::from_cpus(isolated.map(|(&cpu, _)| cpu));
        if !isolated.is_empty() {
            facts.warnings.push(format!(
                "CPUs {isolated} have no scheduler domain (isolated, or in a partition of one CPU): the \
                 scheduler takes each as an LLC of its own"
            ));
        }
        let online = facts.online.as_deref().unwrap_or_default();
        if self.map.len() < online.len() {
            facts.warnings.push(format!(
                "{} describes the domains of {} of {} CPUs; the others are known only as far as these \
                 domains hold them",
                self.origin,
                self.map.len(),
                online.len()
            ));
        }
        if self.any(Level::Other) {
            facts.warnings.push(format!(
                "{} names scheduler levels this version does not know; they were not used",
                self.origin
            ));
        }
    }
}

/// Reads domains without level names: a best guess, always with a warning.
///
/// The guess: a smallest domain of two CPUs with another above it is SMT and the next one the LLC; any other
/// smallest domain is the LLC. Of LLC spans one of which holds the other, the wider one counts (hybrid
/// machines, where efficiency cores have a cluster domain of their own below the LLC).
///
/// It is wrong where two CPUs without SMT share the last cache below a wider package; where SMT siblings
/// share no cache with others, so that the next domain is the package; where clusters lie between core and
/// LLC on every CPU; on POWER (four or eight threads a core); and where every CPU is its own LLC. Nodes are
/// told only when the one LLC spans everything, since an LLC never spans nodes.
fn read_nameless(map: &DomainMap, origin: &'static str, facts: &mut TopologyFacts) {
    let placed: Vec<_> = map
        .iter()
        .filter(|(_, own)| !own.domains.is_empty())
        .collect();
    facts.llcs = guess_llcs(map);
    facts.cores = guess_cores(&placed);
    facts.nodes = facts.llcs.clone().filter(|llcs| llcs.len() == 1);
    let reading = match &facts.llcs {
        Some(llcs) => format!("it was read as LLCs {}", format_groups(llcs)),
        None => "no reading of it as LLCs fits".to_owned(),
    };
    facts.warnings.push(format!(
        "{origin} does not name its scheduler domains, so which of them is the LLC is a guess: {reading}; \
         confirm it with `lscpu -p`, a copy of /sys/devices/system or the lists given as `--topology llc=...`"
    ));
}

fn guess_llcs(map: &DomainMap) -> Option<Vec<Vec<u32>>> {
    let spans = map.iter().map(|(&cpu, own)| match own.domains.as_slice() {
        [] => CpuSet::from_cpus([cpu]),
        [smallest, next, ..] if smallest.span.len() == 2 => next.span.clone(),
        [smallest, ..] => smallest.span.clone(),
    });
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    spans.dedup();
    let mut builder = GroupBuilder::new("LLC");
    for span in spans {
        builder.add_within(span).ok()?;
    }
    Some(builder.finish())
}

/// The cores of the same guess; `None` where a lone domain of two CPUs may be one core or two.
fn guess_cores(placed: &[(&u32, &CpuDomains)]) -> Option<Vec<Vec<u32>>> {
    let mut builder = GroupBuilder::new("core");
    for (cpu, own) in placed {
        let core = match own.domains.as_slice() {
            [only] if only.span.len() == 2 => return None,
            [smallest, _, ..] if smallest.span.len() == 2 => smallest.span.clone(),
            _ => CpuSet::from_cpus([**cpu]),
        };
        builder.add(core).ok()?;
    }
    Some(builder.finish())
}
