//! The simulated machine: CPUs numbered from 0 through the cores of each LLC, and the ids they go by in the trace.

use super::random::Random;

pub type Cpu = usize;

/// How a machine is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub nodes: usize,
    /// LLCs of the whole machine.
    pub llcs: usize,
    /// Cores of an LLC.
    pub cores: usize,
    /// Threads of a core.
    pub smt: usize,
    /// Cores that share an L2; 1 where every core has its own.
    pub cluster: usize,
}

impl Shape {
    pub const fn new(nodes: usize, llcs: usize, cores: usize, smt: usize, cluster: usize) -> Self {
        Self {
            nodes,
            llcs,
            cores,
            smt,
            cluster,
        }
    }

    pub fn cpus(&self) -> usize {
        self.llcs * self.cores * self.smt
    }

    pub fn per_llc(&self) -> usize {
        self.cores * self.smt
    }
}

#[derive(Debug, Clone)]
pub struct Machine {
    pub shape: Shape,
    /// By CPU: the id it has in the trace.
    pub ids: Vec<u32>,
    /// LLCs that only the invariants add, of one CPU each, behind all others.
    pub lone_llcs: usize,
}

impl Machine {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            ids: (0..shape.cpus() as u32).collect(),
            lone_llcs: 0,
        }
    }

    /// The same machine with the ids of each LLC's CPUs dealt out anew.
    pub fn renumbered(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut ids = self.ids.clone();
        let grouped = self.shape.cpus();
        for llc in ids[..grouped].chunks_mut(self.shape.per_llc()) {
            random.shuffle(llc);
        }
        Self {
            ids,
            ..self.clone()
        }
    }

    /// The same machine with one more LLC, of one CPU.
    pub fn with_lone_llc(&self) -> Self {
        let mut ids = self.ids.clone();
        ids.push(ids.iter().max().map_or(0, |id| id + 1));
        Self {
            ids,
            lone_llcs: self.lone_llcs + 1,
            ..self.clone()
        }
    }

    pub fn cpus(&self) -> usize {
        self.ids.len()
    }

    /// The place among `size` CPUs each; lone CPUs come after.
    fn group(&self, cpu: Cpu, size: usize) -> usize {
        let grouped = self.shape.cpus();
        match cpu < grouped {
            true => cpu / size,
            false => grouped / size + (cpu - grouped),
        }
    }

    pub fn llc(&self, cpu: Cpu) -> usize {
        self.group(cpu, self.shape.per_llc())
    }

    pub fn core(&self, cpu: Cpu) -> usize {
        self.group(cpu, self.shape.smt)
    }

    pub fn l2(&self, cpu: Cpu) -> usize {
        self.group(cpu, self.shape.smt * self.shape.cluster)
    }

    pub fn node(&self, cpu: Cpu) -> usize {
        (self.llc(cpu) * self.shape.nodes / self.shape.llcs).min(self.shape.nodes - 1)
    }

    pub fn same_llc(&self, a: Cpu, b: Cpu) -> bool {
        self.llc(a) == self.llc(b)
    }

    /// The word for how far two CPUs are apart.
    pub fn distance(&self, a: Cpu, b: Cpu) -> &'static str {
        if a == b {
            "same"
        } else if self.core(a) == self.core(b) {
            "smt"
        } else if self.l2(a) == self.l2(b) {
            "l2"
        } else if self.llc(a) == self.llc(b) {
            "llc"
        } else if self.node(a) == self.node(b) {
            "node"
        } else {
            "remote"
        }
    }

    /// Lists of CPU ids that share what `of` names.
    pub fn groups(&self, of: impl Fn(&Self, Cpu) -> usize) -> Vec<Vec<u32>> {
        let mut groups: Vec<(usize, Vec<u32>)> = Vec::new();
        for cpu in 0..self.cpus() {
            let key = of(self, cpu);
            match groups.iter_mut().find(|(k, _)| *k == key) {
                Some((_, list)) => list.push(self.ids[cpu]),
                None => groups.push((key, vec![self.ids[cpu]])),
            }
        }
        for (_, list) in &mut groups {
            list.sort_unstable();
        }
        groups.into_iter().map(|(_, list)| list).collect()
    }

    /// The topology as one line: `llc=0-1;2-3 smt=0;1;2;3 …`.
    pub fn spec(&self) -> String {
        let word = |key: &str, groups: Vec<Vec<u32>>| {
            let lists: Vec<String> = groups.iter().map(|list| cpu_list(list)).collect();
            format!("{key}={}", lists.join(";"))
        };
        [
            word("llc", self.groups(Self::llc)),
            word("smt", self.groups(Self::core)),
            word("l2", self.groups(Self::l2)),
            word("node", self.groups(Self::node)),
        ]
        .join(" ")
    }
}

/// CPU ids as the kernel lists them, without ranges.
pub fn cpu_list(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    ids.join(",")
}

#[test]
fn a_machine_knows_its_distances() {
    // Two nodes, four LLCs of four cores, two threads each, L2s of two cores.
    let machine = Machine::new(Shape::new(2, 4, 4, 2, 2));
    assert_eq!(machine.cpus(), 32);
    let far = |b| machine.distance(0, b);
    assert_eq!(
        [0, 1, 2, 4, 8, 16].map(far),
        ["same", "smt", "l2", "llc", "node", "remote"]
    );
    let lone = machine.with_lone_llc();
    assert_eq!((lone.llc(31), lone.llc(32), lone.core(32)), (3, 4, 16));
    assert_eq!(lone.distance(31, 32), "node");
    assert_eq!(lone.distance(0, 32), "remote");
}
