//! The machine a trace was recorded on: which CPUs share a core, an L2, a last-level cache (LLC) and a NUMA node,
//! how far apart two CPUs are, and where that knowledge came from.
//!
//! What no source says stays unknown: a pair of CPUs that cannot be told apart is [`Distance::Unknown`], never the
//! likelier of two. The analysing machine's own topology is used only when asked for with `--topology live`.

mod resolve;

use ttwu_parsers::topology::cpulist::{CpuSet, format_list};
use ttwu_parsers::topology::{MAX_CPU, TopologyFacts};

pub use self::resolve::resolve;

/// How to get a topology, for warnings that miss one.
const HINT: &str = "give --topology FILE (lscpu -p, /proc/schedstat or a copy of /sys/devices/system from the \
                    recorded machine), SPEC (llc=0-3;4-7) or live";

/// How far apart two CPUs are: the smallest thing they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// One and the same CPU.
    Same,
    /// SMT siblings, two threads of one core.
    Smt,
    /// Two cores with a common L2, or of one cluster.
    L2,
    /// Two cores with a common last-level cache.
    Llc,
    /// Two LLCs of one NUMA node.
    Node,
    /// Two NUMA nodes.
    Remote,
    /// The topology does not tell.
    Unknown,
}

impl Distance {
    /// Every distance, nearest first.
    pub const ALL: [Self; 7] = [
        Self::Same,
        Self::Smt,
        Self::L2,
        Self::Llc,
        Self::Node,
        Self::Remote,
        Self::Unknown,
    ];

    /// The name used in tables and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Smt => "smt",
            Self::L2 => "l2",
            Self::Llc => "llc",
            Self::Node => "node",
            Self::Remote => "remote",
            Self::Unknown => "unknown",
        }
    }
}

/// The number of each CPU's group of one kind, by CPU id; at most [`MAX_CPU`]` + 1` entries.
#[derive(Debug, Clone, Default)]
struct GroupIds(Vec<u32>);

impl GroupIds {
    const NONE: u32 = u32::MAX;

    fn new(groups: Option<&[Vec<u32>]>) -> Self {
        let groups = groups.unwrap_or_default();
        let highest = groups.iter().flatten().max().copied();
        let mut ids = vec![Self::NONE; highest.map_or(0, |cpu| cpu as usize + 1)];
        for (id, group) in (0..Self::NONE).zip(groups) {
            for &cpu in group {
                if let Some(slot) = ids.get_mut(cpu as usize) {
                    *slot = id;
                }
            }
        }
        Self(ids)
    }

    fn get(&self, cpu: u32) -> Option<u32> {
        self.0
            .get(cpu as usize)
            .copied()
            .filter(|&id| id != Self::NONE)
    }

    /// Whether two CPUs are in one group; `None` when either is in none.
    fn together(&self, a: u32, b: u32) -> Option<bool> {
        Some(self.get(a)? == self.get(b)?)
    }
}

/// What is known of the recorded machine's CPUs.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    cpus: Vec<u32>,
    source: String,
    warnings: Vec<String>,
    facts: TopologyFacts,
    cores: GroupIds,
    l2s: GroupIds,
    llcs: GroupIds,
    nodes: GroupIds,
    packages: GroupIds,
}

impl Topology {
    /// Builds the topology of a trace in which these CPUs appear. CPU ids above [`MAX_CPU`] are unknown.
    pub fn new(facts: TopologyFacts, source: impl Into<String>, trace_cpus: &[u32]) -> Self {
        let facts = bounded(facts);
        let mut topology = Self {
            cpus: sorted(trace_cpus),
            source: source.into(),
            warnings: facts.warnings.clone(),
            cores: GroupIds::new(facts.cores.as_deref()),
            l2s: GroupIds::new(facts.l2s.as_deref()),
            llcs: GroupIds::new(facts.llcs.as_deref()),
            nodes: GroupIds::new(facts.nodes.as_deref()),
            packages: GroupIds::new(facts.packages.as_deref()),
            facts,
        };
        topology.warn();
        topology
    }

    /// The topology of a trace about which nothing is known, and why.
    pub fn unknown(trace_cpus: &[u32], why: &str) -> Self {
        Self {
            cpus: sorted(trace_cpus),
            source: "unknown".to_owned(),
            warnings: vec![format!("the topology is unknown: {why}; {HINT}")],
            ..Self::default()
        }
    }

    /// The CPUs that appear in the trace, ascending.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Where the topology came from, for people; `unknown` when from nowhere.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What a reader of figures built on this topology should know, as full sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The CPUs said to have been online, whether or not the trace shows them.
    pub fn online(&self) -> Option<&[u32]> {
        self.facts.online.as_deref()
    }

    /// Groups of SMT siblings; an index in this list is a core id.
    pub fn cores(&self) -> Option<&[Vec<u32>]> {
        self.facts.cores.as_deref()
    }

    /// Groups that share an L2 or cluster; an index in this list is an L2 id.
    pub fn l2s(&self) -> Option<&[Vec<u32>]> {
        self.facts.l2s.as_deref()
    }

    /// Groups that share a last-level cache; an index in this list is an LLC id.
    pub fn llcs(&self) -> Option<&[Vec<u32>]> {
        self.facts.llcs.as_deref()
    }

    /// NUMA nodes; an index in this list is a node id, which need not be the kernel's number of the node.
    pub fn nodes(&self) -> Option<&[Vec<u32>]> {
        self.facts.nodes.as_deref()
    }

    /// Packages; an index in this list is a package id.
    pub fn packages(&self) -> Option<&[Vec<u32>]> {
        self.facts.packages.as_deref()
    }

    /// The core a CPU is a thread of.
    pub fn core_id(&self, cpu: u32) -> Option<u32> {
        self.cores.get(cpu)
    }

    /// The L2 group of a CPU.
    pub fn l2_id(&self, cpu: u32) -> Option<u32> {
        self.l2s.get(cpu)
    }

    /// The LLC of a CPU.
    pub fn llc_id(&self, cpu: u32) -> Option<u32> {
        self.llcs.get(cpu)
    }

    /// The NUMA node of a CPU.
    pub fn node_id(&self, cpu: u32) -> Option<u32> {
        self.nodes.get(cpu)
    }

    /// The package of a CPU.
    pub fn package_id(&self, cpu: u32) -> Option<u32> {
        self.packages.get(cpu)
    }

    /// The CPUs of a CPU's LLC, itself among them.
    pub fn llc_cpus(&self, cpu: u32) -> Option<&[u32]> {
        let llc = self.llc_id(cpu)?;
        self.llcs()?.get(llc as usize).map(Vec::as_slice)
    }

    /// The number of CPUs in a CPU's LLC, `sd_llc_size` in the kernel.
    pub fn llc_size(&self, cpu: u32) -> Option<usize> {
        self.llc_cpus(cpu).map(<[u32]>::len)
    }

    /// Whether any LLC is known.
    pub fn is_known(&self) -> bool {
        self.facts.llcs.is_some()
    }

    /// How far apart two CPUs are.
    ///
    /// Inside an LLC, [`Distance::Llc`] is said only where the cores of both CPUs are known, since they might be
    /// siblings otherwise; an unknown L2 counts as not shared. Across LLCs, nothing is said without the nodes.
    /// CPUs of two nodes are remote even where LLCs are unknown: the scheduler's LLC never spans nodes.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let core = self.cores.together(a, b);
        let l2 = || self.l2s.together(a, b);
        let node = || self.nodes.together(a, b);
        match (core, self.llcs.together(a, b)) {
            _ if a == b => Distance::Same,
            (Some(true), _) => Distance::Smt,
            (Some(false), Some(true) | None) if l2() == Some(true) => Distance::L2,
            (Some(false), Some(true)) => Distance::Llc,
            (None, Some(true)) => Distance::Unknown,
            (_, Some(false)) if node() == Some(true) => Distance::Node,
            (_, Some(false) | None) if node() == Some(false) => Distance::Remote,
            _ => Distance::Unknown,
        }
    }

    /// Whether two CPUs have different LLCs; `None` when either's LLC is unknown. Known more often than
    /// [`Topology::distance`], which also needs cores or nodes.
    pub fn crosses_llc(&self, a: u32, b: u32) -> Option<bool> {
        match a == b {
            true => Some(false),
            false => self.llcs.together(a, b).map(|together| !together),
        }
    }

    /// Prints the topology as a spec for `--topology`, of which reading gives the same groups.
    pub fn to_spec(&self) -> String {
        self.facts.to_spec()
    }

    fn warn(&mut self) {
        let warnings = [
            self.no_llc(),
            self.uncovered(),
            self.core_across_llcs(),
            self.no_cores(),
            self.no_nodes(),
            self.llc_across_nodes(),
            self.llc_across_packages(),
            self.llcs_of_one_core(),
        ];
        self.warnings.extend(warnings.into_iter().flatten());
    }

    fn no_llc(&self) -> Option<String> {
        (!self.is_known()).then(|| {
            format!(
                "LLC unknown: {} does not tell which CPUs share a last-level cache, so nothing is said of \
                 wakeups across LLCs; {HINT}",
                self.source
            )
        })
    }

    /// Says of which CPUs of the trace a known topology names no LLC, if there are such.
    pub fn uncovered(&self) -> Option<String> {
        let missing: Vec<u32> = self
            .cpus
            .iter()
            .copied()
            .filter(|&cpu| self.llc_id(cpu).is_none())
            .collect();
        let shown = CpuSet::from_cpus(missing.iter().copied());
        let too_high = missing.len() - shown.len();
        let more = match too_high {
            0 => String::new(),
            _ => format!(" and {too_high} CPU ids above {MAX_CPU}"),
        };
        (self.is_known() && !missing.is_empty()).then(|| {
            format!(
                "the trace has events of CPUs {shown}{more}, which are in no LLC of {}: pairs with them \
                 are unknown, and in the ledger and the verdicts they count as one LLC of their own",
                self.source
            )
        })
    }

    fn no_cores(&self) -> Option<String> {
        (self.is_known() && self.facts.cores.is_none()).then(|| {
            format!(
                "{} does not tell SMT siblings, so wakeups inside an LLC cannot be split by distance \
                 (add smt=0-1;2-3... to --topology)",
                self.source
            )
        })
    }

    fn no_nodes(&self) -> Option<String> {
        let several = self.llcs().is_some_and(|llcs| llcs.len() > 1);
        (several && self.facts.nodes.is_none()).then(|| {
            format!(
                "{} does not tell NUMA nodes, so wakeups across LLCs cannot be split into the same node \
                 and another (add node=0-7;8-15... to --topology)",
                self.source
            )
        })
    }

    /// The first LLC with CPUs of several groups of another kind, as a list.
    fn llc_across(&self, ids: &GroupIds) -> Option<String> {
        let spans = |llc: &&Vec<u32>| {
            let mut known = llc.iter().filter_map(|&cpu| ids.get(cpu));
            let first = known.next();
            known.any(|id| Some(id) != first)
        };
        self.llcs()?.iter().find(spans).map(|llc| format_list(llc))
    }

    fn core_across_llcs(&self) -> Option<String> {
        let (core, _) = core_across_llcs(&self.facts)?;
        Some(format!(
            "the threads {core} of one core are in several LLCs by {}, which no hardware has: figures of SMT and LLC \
             contradict each other",
            self.source
        ))
    }

    fn llc_across_nodes(&self) -> Option<String> {
        let cpus = self.llc_across(&self.nodes)?;
        Some(format!(
            "the LLC of CPUs {cpus} spans several NUMA nodes, which the scheduler's LLCs never do: with \
             Intel sub-NUMA clustering list each node's part as an LLC; in a guest the virtual topology is \
             probably not the host's"
        ))
    }

    fn llc_across_packages(&self) -> Option<String> {
        let cpus = self.llc_across(&self.packages)?;
        Some(format!(
            "the LLC of CPUs {cpus} spans several packages, which no hardware has: a guest was probably \
             told of one, so figures per LLC may not hold for the host's caches"
        ))
    }

    fn llcs_of_one_core(&self) -> Option<String> {
        let (llcs, cores) = (self.llcs()?, self.cores()?);
        let one_core = |llc: &Vec<u32>| {
            let mut cores = llc.iter().map(|&cpu| self.core_id(cpu));
            let first = cores.next().flatten();
            first.is_some() && cores.all(|core| core == first)
        };
        (cores.len() > 1 && llcs.iter().all(one_core)).then(|| {
            format!(
                "{} shows no cache shared between cores: every core is its own LLC, and the scheduler \
                 looks for idle CPUs in one core only (common in guests)",
                self.source
            )
        })
    }
}

/// The first core whose threads are in several LLCs, and one LLC of them, as lists.
pub fn core_across_llcs(facts: &TopologyFacts) -> Option<(String, String)> {
    let (cores, llcs) = (facts.cores.as_deref()?, facts.llcs.as_deref()?);
    let ids = GroupIds::new(Some(llcs));
    let found = cores.iter().find_map(|core| {
        let mut known = core.iter().filter_map(|&cpu| ids.get(cpu));
        let first = known.next()?;
        known.any(|id| id != first).then_some((core, first))
    });
    let (core, llc) = found?;
    let llc = llcs
        .get(llc as usize)
        .map_or_else(String::new, |llc| format_list(llc));
    Some((format_list(core), llc))
}

/// Drops CPU ids above the cap, which no reader lets through, so that tables stay bounded.
fn bounded(mut facts: TopologyFacts) -> TopologyFacts {
    let kinds = [
        &mut facts.cores,
        &mut facts.l2s,
        &mut facts.llcs,
        &mut facts.nodes,
        &mut facts.packages,
    ];
    for group in kinds.into_iter().flatten().flatten() {
        group.retain(|&cpu| cpu <= MAX_CPU);
    }
    facts
}

fn sorted(cpus: &[u32]) -> Vec<u32> {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ttwu_parsers::topology::parse_spec;

    use super::*;

    /// Two nodes; node 0 has two LLCs, the first with two cores of two threads that share an L2.
    const SPEC: &str =
        "llc=0-4;5;6-7 smt=0-1;2-3;4;5;6;7 l2=0-3;4;5;6;7 node=0-5;6-7 package=0-5;6-7";

    fn spec(text: &str, cpus: &[u32]) -> Topology {
        Topology::new(parse_spec(text).unwrap(), "test", cpus)
    }

    fn warned(topology: &Topology, part: &str) -> bool {
        topology
            .warnings()
            .iter()
            .any(|warning| warning.contains(part))
    }

    #[test]
    fn every_distance() {
        let topology = spec(SPEC, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let distances = [1, 0, 2, 4, 5, 6, 9].map(|cpu| topology.distance(1, cpu));
        assert_eq!(distances, Distance::ALL);
        assert_eq!(topology.warnings(), [] as [String; 0]);
        assert_eq!(
            (
                topology.llc_id(6),
                topology.llc_size(6),
                topology.node_id(6)
            ),
            (Some(2), Some(2), Some(1))
        );
        assert_eq!(topology.crosses_llc(0, 5), Some(true));
        assert_eq!(topology.crosses_llc(0, 9), None);
        let names = Distance::ALL.map(Distance::as_str);
        assert_eq!(
            names,
            ["same", "smt", "l2", "llc", "node", "remote", "unknown"]
        );
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let topology = spec("llc=0-1;2-3", &[0, 1, 2, 3]);
        assert_eq!(topology.distance(0, 1), Distance::Unknown);
        assert_eq!(topology.distance(0, 2), Distance::Unknown);
        assert_eq!(
            (topology.crosses_llc(0, 1), topology.crosses_llc(0, 2)),
            (Some(false), Some(true))
        );
        assert!(warned(&topology, "SMT siblings") && warned(&topology, "NUMA nodes"));
        let nodes = spec("node=0-1;2-3", &[0]);
        assert_eq!(
            (nodes.distance(0, 2), nodes.distance(0, 1)),
            (Distance::Remote, Distance::Unknown)
        );
    }

    /// sched-ext/scx#195: without caches no claim about LLCs.
    #[test]
    fn case_90_llc_unknown() {
        let topology = spec("smt=0;1", &[0, 1]);
        assert!(!topology.is_known());
        assert!(warned(&topology, "LLC unknown") && warned(&topology, "--topology"));
        assert_eq!(
            (topology.distance(0, 1), topology.crosses_llc(0, 1)),
            (Distance::Unknown, None)
        );
    }

    /// cloud-hypervisor#8730, #5742: one L3 over all packages, or every core alone.
    #[test]
    fn case_93_llcs_no_hardware_has() {
        let topology = spec("llc=0-3 smt=0;1;2;3 package=0-1;2-3 node=0-3", &[0]);
        assert!(warned(&topology, "spans several packages"));
        let topology = spec("llc=0-3 smt=0;1;2;3 node=0-1;2-3", &[0]);
        assert!(warned(&topology, "spans several NUMA nodes"));
        let topology = spec("llc=0-1;2-3 smt=0-1;2-3 node=0-3", &[0]);
        assert!(warned(&topology, "no cache shared between cores"));
    }

    #[test]
    fn sparse_and_absurd_cpu_ids_of_a_trace() {
        let topology = spec("llc=0,2000 smt=0;2000 node=0,2000", &[2000, 0, 3, u32::MAX]);
        assert_eq!(topology.cpus(), [0, 3, 2000, u32::MAX]);
        assert_eq!(topology.distance(0, 2000), Distance::Llc);
        assert_eq!(topology.distance(0, u32::MAX), Distance::Unknown);
        assert!(warned(&topology, "CPUs 3 and 1 CPU ids above"));
    }

    fn groups() -> impl Strategy<Value = Option<Vec<Vec<u32>>>> {
        let group = proptest::collection::vec(0u32..12, 0..5);
        proptest::option::of(proptest::collection::vec(group, 0..4))
    }

    proptest! {
        #[test]
        fn distances_are_symmetric_and_never_panic(
            cores in groups(), l2s in groups(), llcs in groups(), nodes in groups(), packages in groups(),
            high in any::<u32>(), a in 0u32..13, b in 0u32..13,
        ) {
            let mut facts = TopologyFacts { cores, l2s, llcs, nodes, packages, ..TopologyFacts::default() };
            facts.llcs.iter_mut().flatten().for_each(|llc| llc.push(high));
            let topology = Topology::new(facts, "test", &[a, b, high]);
            prop_assert_eq!(topology.distance(a, b), topology.distance(b, a));
            prop_assert_eq!(topology.crosses_llc(a, high), topology.crosses_llc(high, a));
            prop_assert_eq!(topology.distance(high, high), Distance::Same);
        }

        #[test]
        fn specs_round_trip(slots in proptest::collection::vec((0u32..4, 0u32..4, 0u32..4), 1..40)) {
            let deal = |of: fn(&(u32, u32, u32)) -> u32| {
                let mut groups = vec![Vec::new(); 4];
                for (cpu, slot) in slots.iter().enumerate() {
                    groups[of(slot) as usize].push(cpu as u32);
                }
                groups.retain(|group: &Vec<u32>| !group.is_empty());
                groups.sort();
                Some(groups)
            };
            let facts = TopologyFacts {
                cores: deal(|slot| slot.0), llcs: deal(|slot| slot.1), nodes: deal(|slot| slot.2),
                ..TopologyFacts::default()
            };
            let printed = Topology::new(facts.clone(), "test", &[]).to_spec();
            prop_assert_eq!(parse_spec(&printed).unwrap(), facts);
        }
    }
}
