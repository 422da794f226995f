//! Disjoint groups of CPUs, checked while they are collected.

use std::collections::BTreeMap;

use super::TopologyError;
use super::cpulist::{CpuSet, MAX_CPU, format_list};

const NOBODY: u32 = u32::MAX;

/// Collects groups of one kind and refuses groups that overlap.
pub(super) struct GroupBuilder {
    kind: &'static str,
    /// The group that holds each CPU, by CPU id; grows to at most `MAX_CPU + 1` entries.
    owner: Vec<u32>,
    groups: Vec<CpuSet>,
}

impl GroupBuilder {
    pub(super) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            owner: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Adds a group; the same group again, or an empty one, changes nothing.
    pub(super) fn add(&mut self, set: CpuSet) -> Result<(), TopologyError> {
        match self.group_of_first(&set) {
            Some(known) if *known == set => Ok(()),
            _ => self.add_new(set),
        }
    }

    /// Adds a group unless it lies within one already there.
    pub(super) fn add_within(&mut self, set: CpuSet) -> Result<(), TopologyError> {
        match self.group_of_first(&set) {
            Some(known) if set.is_subset(known) => Ok(()),
            _ => self.add_new(set),
        }
    }

    /// The groups as sorted ids, in the order of their first CPU.
    pub(super) fn finish(self) -> Vec<Vec<u32>> {
        let mut groups: Vec<_> = self.groups.iter().map(CpuSet::to_vec).collect();
        groups.sort_unstable();
        groups
    }

    fn group_of_first(&self, set: &CpuSet) -> Option<&CpuSet> {
        self.group_of(set.first()?)
    }

    fn group_of(&self, cpu: u32) -> Option<&CpuSet> {
        let group = *self.owner.get(cpu as usize)?;
        self.groups.get(group as usize)
    }

    fn add_new(&mut self, set: CpuSet) -> Result<(), TopologyError> {
        for cpu in set.iter() {
            self.claim(cpu, &set)?;
        }
        if !set.is_empty() {
            self.groups.push(set);
        }
        Ok(())
    }

    fn claim(&mut self, cpu: u32, set: &CpuSet) -> Result<(), TopologyError> {
        if let Some(other) = self.group_of(cpu) {
            return Err(TopologyError::Overlap {
                kind: self.kind,
                cpu,
                first: other.to_string(),
                second: set.to_string(),
            });
        }
        let place = cpu as usize;
        if self.owner.len() <= place {
            self.owner.resize(place + 1, NOBODY);
        }
        // The builder holds at most one group per CPU, so the count fits.
        if let Some(owner) = self.owner.get_mut(place) {
            *owner = self.groups.len() as u32;
        }
        Ok(())
    }
}

/// Groups CPUs by a key; CPUs above the cap are left out.
pub(super) fn group_by<K: Ord>(pairs: impl IntoIterator<Item = (K, u32)>) -> Vec<Vec<u32>> {
    let mut by_key: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    for (key, cpu) in pairs {
        if cpu <= MAX_CPU {
            by_key.entry(key).or_default().push(cpu);
        }
    }
    let mut groups: Vec<_> = by_key.into_values().collect();
    for group in &mut groups {
        group.sort_unstable();
        group.dedup();
    }
    groups.sort_unstable();
    groups
}

/// [`group_by`], but `None` when nothing was grouped: the source did not say.
pub(super) fn group_by_known<K: Ord>(
    pairs: impl IntoIterator<Item = (K, u32)>,
) -> Option<Vec<Vec<u32>>> {
    Some(group_by(pairs)).filter(|groups| !groups.is_empty())
}

/// Cuts cache groups at NUMA node borders, as the scheduler does, and says so.
///
/// On x86 `match_llc()` (arch/x86/kernel/smpboot.c) never joins CPUs of two nodes: for Intel's sub-NUMA
/// clustering quietly, for anything else with the boot message "sched: CPU #n's llc-sibling CPU #m is not on
/// the same node". On arm64 `cpu_coregroup_mask()` starts from the node's CPUs. Sysfs and the tools that read
/// it go on showing the whole cache, so their lists are cut here. CPUs of no known node stay together.
pub(super) fn cut_at_nodes(
    llcs: &mut Vec<Vec<u32>>,
    nodes: Option<&[Vec<u32>]>,
    warnings: &mut Vec<String>,
) {
    let Some(nodes) = nodes.filter(|nodes| nodes.len() > 1) else {
        return;
    };
    let numbered = nodes.iter().enumerate();
    let node_of: BTreeMap<u32, usize> = numbered
        .flat_map(|(node, cpus)| cpus.iter().map(move |&cpu| (cpu, node)))
        .collect();
    let mut cut = Vec::new();
    for llc in llcs.drain(..) {
        let parts = group_by(llc.iter().map(|&cpu| (node_of.get(&cpu), cpu)));
        if parts.len() > 1 {
            warnings.push(format!(
                "the last-level cache of CPUs {} spans {} NUMA nodes; the scheduler cuts it at the node, so \
                 each node's part is taken as one LLC (expected with Intel sub-NUMA clustering; in a guest, a \
                 sign that the virtual topology is not the host's)",
                format_list(&llc),
                parts.len()
            ));
        }
        cut.extend(parts);
    }
    cut.sort_unstable();
    *llcs = cut;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::from_list(list).unwrap()
    }

    #[test]
    fn groups_come_out_by_first_cpu_and_once() {
        let mut builder = GroupBuilder::new("LLC");
        for list in ["4-7", "0-3", "4-7", ""] {
            builder.add(set(list)).unwrap();
        }
        assert_eq!(builder.finish(), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    }

    #[test]
    fn overlap_is_an_error_that_names_both_groups() {
        let mut builder = GroupBuilder::new("LLC");
        builder.add(set("0-3")).unwrap();
        let error = builder.add(set("3-5")).unwrap_err().to_string();
        assert!(error.contains("0-3") && error.contains("3-5"), "{error}");
        assert!(builder.add(set("0-1")).is_err());
        assert!(builder.add_within(set("0-1")).is_ok());
    }

    #[test]
    fn a_cache_over_two_nodes_is_cut() {
        let (mut llcs, mut warnings) = (vec![vec![0, 1, 2, 3]], Vec::new());
        cut_at_nodes(&mut llcs, Some(&[vec![0, 2], vec![1, 3]]), &mut warnings);
        assert_eq!(llcs, [vec![0, 2], vec![1, 3]]);
        assert_eq!(warnings.len(), 1);
    }
}
