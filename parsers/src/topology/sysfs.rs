//! `/sys/devices/system/cpu` and `/sys/devices/system/node`, of this machine, copied to a folder or packed in a tar.
//!
//! Files and their meaning: `Documentation/ABI/testing/sysfs-devices-system-cpu` and
//! `Documentation/ABI/stable/sysfs-devices-node` in the kernel. Only the lists of sharing CPUs are used: ids
//! repeat between sockets and levels, and some machines have none.

use std::collections::BTreeMap;

use super::cpulist::{CpuListError, CpuSet, clean};
use super::groups::{GroupBuilder, cut_at_nodes};
use super::{TopologyError, TopologyFacts};

/// The files of one CPU's `topology` folder that are read: what they fill, and whether they are masks. The names
/// changed in 5.3; both are listed by every kernel since.
const TOPOLOGY_FILES: [(&str, Kind, bool); 10] = [
    ("thread_siblings_list", Kind::Core, false),
    ("core_cpus_list", Kind::Core, false),
    ("core_siblings_list", Kind::Package, false),
    ("package_cpus_list", Kind::Package, false),
    ("cluster_cpus_list", Kind::Cluster, false),
    ("thread_siblings", Kind::Core, true),
    ("core_cpus", Kind::Core, true),
    ("core_siblings", Kind::Package, true),
    ("package_cpus", Kind::Package, true),
    ("cluster_cpus", Kind::Cluster, true),
];

/// The files of one cache that are read.
const CACHE_FILES: [&str; 4] = ["level", "type", "shared_cpu_list", "shared_cpu_map"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Core,
    Cluster,
    Package,
}

/// One cache of one CPU.
#[derive(Debug, Default)]
struct Cache {
    level: Option<u32>,
    /// Whether it holds data; instruction caches do not count as an LLC.
    data: bool,
    shared: Option<CpuSet>,
}

/// What a tree says of one CPU.
#[derive(Debug, Default)]
struct Cpu {
    siblings: BTreeMap<Kind, CpuSet>,
    caches: BTreeMap<u32, Cache>,
    node: Option<u32>,
}

/// The relevant part of a tree, filled file by file.
#[derive(Debug, Default)]
pub(super) struct Tree {
    cpus: BTreeMap<u32, Cpu>,
    online: Option<CpuSet>,
    nodes: BTreeMap<u32, CpuSet>,
}

/// The files and folders below one `cpuN` that a reader of a tree has to offer to [`Tree::put`].
pub(super) fn topology_files() -> impl Iterator<Item = &'static str> {
    TOPOLOGY_FILES.iter().map(|(name, _, _)| *name)
}

/// The files below one `cpuN/cache/indexK` that a reader of a tree has to offer to [`Tree::put`].
pub(super) fn cache_files() -> impl Iterator<Item = &'static str> {
    CACHE_FILES.into_iter()
}

/// The number in a name such as `cpu12` or `node0`.
pub(super) fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let number = name.strip_prefix(prefix)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits)
}

impl Tree {
    /// Whether a path leads to something [`Tree::put`] reads; used to skip the content of everything else.
    pub(super) fn wants(path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            [.., cpu, "topology", name] => {
                numbered(cpu, "cpu").is_some() && topology_files().any(|file| file == *name)
            }
            [.., "cache", _, name] => CACHE_FILES.contains(name),
            [.., node, "cpulist" | "cpumap"] => numbered(node, "node").is_some(),
            [.., "cpu", "online"] | ["online"] | [".", "online"] => true,
            _ => false,
        }
    }

    /// Takes one entry by its path, of which only the last parts count, so that a tree may start anywhere. Folders
    /// and links have no text. Entries of no interest are skipped.
    pub(super) fn put(&mut self, path: &str, text: &str) -> Result<(), TopologyError> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let result = match parts.as_slice() {
            [.., cpu, "topology", name] => self.put_siblings(cpu, name, text),
            [.., cpu, "cache", index, name] => self.put_cache(cpu, index, name, text),
            [.., node, "cpulist"] => self.put_node(node, CpuSet::from_list(text)),
            [.., node, "cpumap"] => self.put_node(node, CpuSet::from_mask(text)),
            [.., "cpu", "online"] | ["online"] | [".", "online"] => {
                CpuSet::from_list(text).map(|online| self.online = Some(online))
            }
            // cpuN/nodeM is a link to the node, nodeM/cpuN one to the CPU.
            [.., a, b] => {
                self.put_link(a, b);
                Ok(())
            }
            _ => Ok(()),
        };
        result.map_err(|error| TopologyError::File {
            path: path.to_owned(),
            error,
        })
    }

    fn cpu(&mut self, name: &str) -> Result<Option<&mut Cpu>, CpuListError> {
        let Some(cpu) = numbered(name, "cpu") else {
            return Ok(None);
        };
        // The cap on ids is the lists' own.
        CpuSet::from_list(&cpu.to_string())?;
        Ok(Some(self.cpus.entry(cpu).or_default()))
    }

    fn put_siblings(&mut self, cpu: &str, name: &str, text: &str) -> Result<(), CpuListError> {
        let known = TOPOLOGY_FILES.iter().find(|(file, _, _)| *file == name);
        let Some(&(_, kind, mask)) = known else {
            return Ok(());
        };
        let Some(cpu) = self.cpu(cpu)? else {
            return Ok(());
        };
        let set = read_set(text, mask)?;
        if !set.is_empty() {
            cpu.siblings.insert(kind, set);
        }
        Ok(())
    }

    fn put_cache(
        &mut self,
        cpu: &str,
        index: &str,
        name: &str,
        text: &str,
    ) -> Result<(), CpuListError> {
        let (Some(index), Some(cpu)) = (numbered(index, "index"), self.cpu(cpu)?) else {
            return Ok(());
        };
        let cache = cpu.caches.entry(index).or_default();
        match name {
            "level" => cache.level = clean(text).parse().ok(),
            "type" => cache.data = holds_data(clean(text)),
            "shared_cpu_list" | "shared_cpu_map" => {
                let set = read_set(text, name == "shared_cpu_map")?;
                cache.shared = Some(set).filter(|set| !set.is_empty());
            }
            _ => {}
        }
        Ok(())
    }

    fn put_node(
        &mut self,
        node: &str,
        cpus: Result<CpuSet, CpuListError>,
    ) -> Result<(), CpuListError> {
        if let Some(node) = numbered(node, "node") {
            self.nodes.insert(node, cpus?);
        }
        Ok(())
    }

    fn put_link(&mut self, parent: &str, child: &str) {
        let names = [(parent, child), (child, parent)];
        let pair = names
            .into_iter()
            .find_map(|(cpu, node)| Some((cpu, numbered(node, "node")?)));
        if let Some((cpu, node)) = pair
            && let Ok(Some(cpu)) = self.cpu(cpu)
        {
            cpu.node = Some(node);
        }
    }

    /// Whether any CPU was found.
    pub(super) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Turns the tree into facts.
    ///
    /// # Errors
    /// Lists of sharing CPUs that overlap without being the same.
    pub(super) fn facts(mut self) -> Result<TopologyFacts, TopologyError> {
        let online = self.take_online();
        self.cpus.retain(|&cpu, _| online.contains(cpu));
        let mut facts = TopologyFacts {
            cores: self.groups("core", |cpu| cpu.siblings.get(&Kind::Core))?,
            packages: self.groups("package", |cpu| cpu.siblings.get(&Kind::Package))?,
            l2s: self.groups("L2", Cpu::l2)?,
            llcs: self.groups("LLC", Cpu::llc)?,
            nodes: self.node_groups()?,
            ..TopologyFacts::default()
        };
        self.warn(&online, &mut facts);
        facts.keep_only(&online);
        if let Some(llcs) = &mut facts.llcs {
            cut_at_nodes(llcs, facts.nodes.as_deref(), &mut facts.warnings);
        }
        facts.online = Some(online.to_vec());
        Ok(facts)
    }

    /// The `online` list, or else every CPU with a `topology` folder, which offline CPUs lack.
    fn take_online(&mut self) -> CpuSet {
        let listed = self.online.take().filter(|online| !online.is_empty());
        listed.unwrap_or_else(|| {
            let described = self.cpus.iter().filter(|(_, cpu)| !cpu.siblings.is_empty());
            match described.clone().next() {
                Some(_) => CpuSet::from_cpus(described.map(|(&cpu, _)| cpu)),
                None => CpuSet::from_cpus(self.cpus.keys().copied()),
            }
        })
    }

    fn groups<'a>(
        &'a self,
        kind: &'static str,
        of: impl Fn(&'a Cpu) -> Option<&'a CpuSet>,
    ) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
        let mut builder = GroupBuilder::new(kind);
        for set in self.cpus.values().filter_map(of) {
            builder.add(set.clone())?;
        }
        Ok(Some(builder.finish()).filter(|groups| !groups.is_empty()))
    }

    fn node_groups(&self) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
        if self.nodes.values().all(CpuSet::is_empty) {
            let linked = self
                .cpus
                .iter()
                .filter_map(|(&cpu, own)| Some((own.node?, cpu)));
            return Ok(super::groups::group_by_known(linked));
        }
        let mut builder = GroupBuilder::new("node");
        for cpus in self.nodes.values() {
            builder.add(cpus.clone())?;
        }
        Ok(Some(builder.finish()))
    }

    fn warn(&self, online: &CpuSet, facts: &mut TopologyFacts) {
        if self.cpus.values().all(|cpu| cpu.caches.is_empty()) {
            facts.warnings.push(
                "sysfs has no cache folder for any CPU, so it does not tell which share an LLC (common in guests \
                 and on Arm machines without PPTT cache tables)"
                    .to_owned(),
            );
            return;
        }
        let with_llc = self.cpus.iter().filter(|(_, cpu)| cpu.llc().is_some());
        let with_llc = CpuSet::from_cpus(with_llc.map(|(&cpu, _)| cpu));
        let without = CpuSet::from_cpus(online.iter().filter(|&cpu| !with_llc.contains(cpu)));
        if !without.is_empty() {
            facts.warnings.push(format!(
                "sysfs names no cache above level 1 for CPUs {without}"
            ));
        }
    }
}

impl Cpu {
    /// The highest cache with data above level 1.
    fn llc(&self) -> Option<&CpuSet> {
        let shared = self.caches.values().filter(|cache| cache.data);
        let shared = shared.filter_map(|cache| Some((cache.level?, cache.shared.as_ref()?)));
        let last = shared
            .filter(|(level, _)| *level > 1)
            .max_by_key(|(level, _)| *level);
        last.map(|(_, set)| set)
    }

    /// The CPUs that share the L2, or the cluster where that is wider: clusters of Kunpeng 920 share a part of
    /// the L3's tags, those of Intel's efficiency cores the L2. A cluster as wide as the LLC, or one that some
    /// kernels print for "none", tells nothing.
    fn l2(&self) -> Option<&CpuSet> {
        let caches = self
            .caches
            .values()
            .filter(|cache| cache.data && cache.level == Some(2));
        let l2 = caches.filter_map(|cache| cache.shared.as_ref()).next();
        let cluster = self.siblings.get(&Kind::Cluster).filter(|cluster| {
            let within = |set: &CpuSet| cluster.is_subset(set) && cluster.len() < set.len();
            cluster.len() > 1 && self.llc().is_some_and(within)
        });
        match (l2, cluster) {
            (Some(l2), Some(cluster)) if cluster.len() <= l2.len() => Some(l2),
            (l2, cluster) => cluster.or(l2),
        }
    }
}

fn read_set(text: &str, mask: bool) -> Result<CpuSet, CpuListError> {
    match mask {
        true => CpuSet::from_mask(text),
        false => CpuSet::from_list(text),
    }
}

/// Whether a cache of this type holds data (the kernel prints `Data`, `Instruction` or `Unified`).
pub(super) fn holds_data(kind: &str) -> bool {
    matches!(kind, "Unified" | "Data")
}
