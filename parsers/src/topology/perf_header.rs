//! The topology features of a perf.data header (tools/perf/util/header.c): CPU_TOPOLOGY (bit 13), NUMA_TOPOLOGY
//! (14), CACHE (20) and, since perf 7.1, CPU_DOMAIN_INFO (32).

use super::cpulist::{CpuSet, MAX_CPU, clean};
use super::domains::{self, CpuDomains, Domain, DomainMap};
use super::groups::{GroupBuilder, cut_at_nodes, group_by_known};
use super::sysfs::holds_data;
use super::{TopologyError, TopologyFacts};

const ORIGIN: &str = "the perf.data header";

/// The topology features of a perf.data header, as raw text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfTopology {
    /// The CPU list of each package.
    pub core_siblings: Vec<String>,
    /// The CPU list of each core.
    pub thread_siblings: Vec<String>,
    /// The CPU list of each die.
    pub dies: Vec<String>,
    /// By CPU: core id and socket id, each -1 where unknown. Core ids repeat between sockets.
    pub cpu_ids: Vec<(i32, i32)>,
    /// The caches, each once.
    pub caches: Vec<PerfCache>,
    /// The NUMA nodes.
    pub nodes: Vec<PerfNode>,
    /// The scheduler domains of every CPU.
    pub domains: Vec<PerfDomain>,
}

/// One cache as sysfs describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfCache {
    /// Its level, from 1.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size as text, such as `32768K`.
    pub size: String,
    /// The list of the CPUs that share it.
    pub map: String,
}

/// One NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfNode {
    /// Its number.
    pub node: u32,
    /// The list of its CPUs; empty for a node that holds only memory.
    pub cpus: String,
}

/// One scheduler domain of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerfDomain {
    /// The CPU.
    pub cpu: u32,
    /// The domain's number, 0 for the smallest.
    pub level: u32,
    /// The level's name; empty where the recording kernel gave none (schedstat before version 17).
    pub name: String,
    /// The CPUs it spans, as a list or a mask.
    pub cpus: String,
}

impl PerfTopology {
    /// Turns the features into facts.
    ///
    /// The LLCs come from named domains, or else from the caches, or else from a guess at nameless domains. Cores,
    /// packages and nodes come from their own features and only in their absence from the domains, which leave
    /// out isolated CPUs.
    ///
    /// # Errors
    /// A list that cannot be read, and groups that overlap.
    pub fn facts(&self) -> Result<TopologyFacts, TopologyError> {
        let mut facts = TopologyFacts {
            cores: self.cores()?,
            packages: self.packages()?,
            nodes: groups("node", self.nodes.iter().map(|node| node.cpus.as_str()))?,
            ..TopologyFacts::default()
        };
        facts.online = facts.cores.as_deref().map(all_cpus);
        let map = self.domain_map()?;
        let mut from_domains = match map.is_empty() {
            true => TopologyFacts::default(),
            false => domains::facts(&map, ORIGIN)?,
        };
        let named = !map.is_empty() && domains::all_named(&map);
        if named {
            facts.llcs = from_domains.llcs.take();
        }
        if facts.llcs.is_none() {
            self.read_caches(&mut facts)?;
        }
        if facts.l2s.is_none() {
            facts.l2s = self.l2s()?;
        }
        if facts.llcs.is_none() || named {
            return Ok(facts.merge(from_domains));
        }
        // Where the caches tell the LLC, what was guessed from nameless domains is of no use.
        facts.online = facts.online.or(from_domains.online);
        Ok(facts)
    }

    fn cores(&self) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
        let listed = groups("core", self.thread_siblings.iter().map(String::as_str))?;
        let ids = self.known_ids().filter(|(_, core, _)| *core >= 0);
        Ok(listed.or_else(|| group_by_known(ids.map(|(cpu, core, socket)| ((socket, core), cpu)))))
    }

    fn packages(&self) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
        let listed = groups("package", self.core_siblings.iter().map(String::as_str))?;
        let ids = self.known_ids().filter(|(_, _, socket)| *socket >= 0);
        Ok(listed.or_else(|| group_by_known(ids.map(|(cpu, _, socket)| (socket, cpu)))))
    }

    /// CPU, core id and socket id.
    fn known_ids(&self) -> impl Iterator<Item = (u32, i32, i32)> {
        (0..=MAX_CPU)
            .zip(&self.cpu_ids)
            .map(|(cpu, &(core, socket))| (cpu, core, socket))
    }

    fn l2s(&self) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
        let l2s = self
            .caches
            .iter()
            .filter(|cache| cache.level == 2 && holds_data(clean(&cache.kind)));
        groups("L2", l2s.map(|cache| cache.map.as_str()))
    }

    /// Takes the highest cache of every CPU above level 1 as its LLC: from the highest level down, those
    /// whose CPUs no higher cache holds.
    fn read_caches(&self, facts: &mut TopologyFacts) -> Result<(), TopologyError> {
        let data = self
            .caches
            .iter()
            .filter(|cache| holds_data(clean(&cache.kind)));
        let mut downwards: Vec<_> = data.filter(|cache| cache.level > 1).collect();
        downwards.sort_by_key(|cache| std::cmp::Reverse(cache.level));
        let mut builder = GroupBuilder::new("LLC");
        for cache in downwards {
            builder.add_within(CpuSet::from_list(&cache.map)?)?;
        }
        let mut llcs = builder.finish();
        cut_at_nodes(&mut llcs, facts.nodes.as_deref(), &mut facts.warnings);
        facts.llcs = Some(llcs).filter(|llcs| !llcs.is_empty());
        Ok(())
    }

    fn domain_map(&self) -> Result<DomainMap, TopologyError> {
        let mut sorted: Vec<_> = self.domains.iter().collect();
        sorted.sort_by_key(|domain| (domain.cpu, domain.level));
        let mut map = DomainMap::new();
        for domain in sorted {
            let span = CpuSet::from_list_or_mask(&domain.cpus, domain.cpu)?;
            let name = Some(clean(&domain.name).to_owned()).filter(|name| !name.is_empty());
            let own: &mut CpuDomains = map.entry(domain.cpu).or_default();
            own.domains.push(Domain { name, span });
        }
        Ok(map)
    }
}

fn groups<'a>(
    kind: &'static str,
    lists: impl Iterator<Item = &'a str>,
) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
    let mut builder = GroupBuilder::new(kind);
    for list in lists {
        builder.add(CpuSet::from_list(list)?)?;
    }
    Ok(Some(builder.finish()).filter(|groups| !groups.is_empty()))
}

fn all_cpus(groups: &[Vec<u32>]) -> Vec<u32> {
    let cpus = groups.iter().flatten().copied();
    CpuSet::from_cpus(cpus).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u32, kind: &str, map: &str) -> PerfCache {
        PerfCache {
            level,
            kind: kind.into(),
            size: "1M".into(),
            map: map.into(),
        }
    }

    fn domain(cpu: u32, level: u32, name: &str, cpus: &str) -> PerfDomain {
        PerfDomain {
            cpu,
            level,
            name: name.into(),
            cpus: cpus.into(),
        }
    }

    fn four_cpus() -> PerfTopology {
        PerfTopology {
            core_siblings: vec!["0-3".into()],
            thread_siblings: vec!["0-1".into(), "2-3".into()],
            caches: vec![
                cache(1, "Data", "0-1"),
                cache(1, "Instruction", "2-3"),
                cache(2, "Unified", "0-1"),
                cache(2, "Unified", "2-3"),
                cache(3, "Unified", "0-3"),
            ],
            nodes: vec![
                PerfNode {
                    node: 0,
                    cpus: "0-3".into(),
                },
                PerfNode {
                    node: 1,
                    cpus: String::new(),
                },
            ],
            ..PerfTopology::default()
        }
    }

    #[test]
    fn caches_cores_and_nodes() {
        let facts = four_cpus().facts().unwrap();
        assert_eq!(
            facts.to_spec(),
            "llc=0-3 smt=0-1;2-3 l2=0-1;2-3 node=0-3 package=0-3 online=0-3"
        );
        assert_eq!(facts.warnings, Vec::<String>::new());
    }

    #[test]
    fn named_domains_win_over_caches() {
        let mut perf = four_cpus();
        for (cpu, span) in [(0, "3"), (1, "0-1"), (2, "c"), (3, "2-3")] {
            perf.domains.push(domain(cpu, 0, "MC", span));
            perf.domains.push(domain(cpu, 1, "PKG", "0-3"));
        }
        let facts = perf.facts().unwrap();
        assert_eq!(facts.llcs, Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(facts.cores, Some(vec![vec![0, 1], vec![2, 3]]));
    }

    #[test]
    fn caches_win_over_nameless_domains_which_win_over_nothing() {
        let mut perf = four_cpus();
        for (cpu, span) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
            perf.domains.push(domain(cpu, 0, "", span));
        }
        assert_eq!(perf.facts().unwrap().llcs, Some(vec![vec![0, 1, 2, 3]]));
        perf.caches.clear();
        let facts = perf.facts().unwrap();
        assert_eq!(facts.llcs, Some(vec![vec![0, 1], vec![2, 3]]));
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("guess"))
        );
    }

    #[test]
    fn an_island_without_l3_has_its_l2_as_llc() {
        let perf = PerfTopology {
            caches: vec![
                cache(2, "Unified", "0"),
                cache(2, "Unified", "2-3"),
                cache(3, "Unified", "0-1"),
            ],
            ..PerfTopology::default()
        };
        assert_eq!(
            perf.facts().unwrap().llcs,
            Some(vec![vec![0, 1], vec![2, 3]])
        );
    }

    #[test]
    fn core_ids_repeat_between_sockets() {
        let perf = PerfTopology {
            cpu_ids: vec![(0, 0), (0, 0), (0, 1), (0, 1), (-1, -1)],
            ..PerfTopology::default()
        };
        let facts = perf.facts().unwrap();
        assert_eq!(facts.cores, Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(facts.packages, facts.cores);
        assert_eq!(facts.llcs, None);
    }

    #[test]
    fn sub_numa_clusters_cut_the_cache() {
        let mut perf = four_cpus();
        perf.nodes = vec![
            PerfNode {
                node: 0,
                cpus: "0-1".into(),
            },
            PerfNode {
                node: 1,
                cpus: "2-3".into(),
            },
        ];
        let facts = perf.facts().unwrap();
        assert_eq!(facts.llcs, Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(facts.warnings.len(), 1);
    }

    #[test]
    fn bad_lists_are_errors() {
        let perf = PerfTopology {
            thread_siblings: vec!["zero".into()],
            ..PerfTopology::default()
        };
        assert!(perf.facts().is_err());
        let stray = PerfTopology {
            domains: vec![domain(u32::MAX, 0, "MC", "0-1")],
            ..PerfTopology::default()
        };
        assert!(stray.facts().is_err());
    }
}
