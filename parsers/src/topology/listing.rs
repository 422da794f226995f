//! Our lab's `topology.txt`: one line a CPU, `cpu=0 smt=0-1 llc=0-3 package=0-3 node=0`, from sysfs.

use std::collections::BTreeMap;

use super::cpulist::{self, CpuSet};
use super::groups::{GroupBuilder, cut_at_nodes, group_by_known};
use super::schedstat::single_cpu;
use super::{TopologyError, TopologyFacts};

const ORIGIN: &str = "the CPU listing";

/// Whether the text is a listing of this form.
pub(super) fn matches(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    lines.peek().is_some() && lines.all(|line| line.starts_with("cpu="))
}

/// The groups being collected, and whether any line named one of the kind.
struct Kind {
    builder: GroupBuilder,
    named: bool,
}

impl Kind {
    fn new(kind: &'static str) -> Self {
        Self {
            builder: GroupBuilder::new(kind),
            named: false,
        }
    }

    fn add(&mut self, list: &str) -> Result<(), TopologyError> {
        let set = CpuSet::from_list(list)?;
        self.named |= !set.is_empty();
        self.builder.add(set)
    }

    fn finish(self) -> Option<Vec<Vec<u32>>> {
        self.named.then(|| self.builder.finish())
    }
}

/// Reads a listing; an empty value (`llc=`) says nothing.
///
/// # Errors
/// A line without `cpu=`, an unknown key, a list that cannot be read, and groups that overlap.
pub fn parse_listing(text: &str) -> Result<TopologyFacts, TopologyError> {
    let mut kinds = ["core", "L2", "LLC", "package"].map(Kind::new);
    let (mut online, mut nodes) = (Vec::new(), BTreeMap::new());
    for (number, line) in text.lines().enumerate() {
        let at_line = |reason: String| TopologyError::line(ORIGIN, number, reason);
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let cpu = first
            .strip_prefix("cpu=")
            .ok_or("a line does not start with `cpu=`".to_owned());
        let cpu = cpu.and_then(single_cpu).map_err(at_line)?;
        online.push(cpu);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match (key, &mut kinds) {
                ("smt", [core, ..]) => core.add(value)?,
                ("l2", [_, l2, ..]) => l2.add(value)?,
                ("llc", [_, _, llc, _]) => llc.add(value)?,
                ("package", [.., package]) => package.add(value)?,
                ("node", _) if value.is_empty() => {}
                ("node", _) => drop(nodes.insert(cpu, single_cpu(value).map_err(at_line)?)),
                _ => {
                    let key = cpulist::shorten(key);
                    let reason =
                        format!("unknown key `{key}` (cpu, smt, l2, llc, package or node)");
                    return Err(at_line(reason));
                }
            }
        }
    }
    let [cores, l2s, llcs, packages] = kinds.map(Kind::finish);
    let mut facts = TopologyFacts {
        online: Some(CpuSet::from_cpus(online).to_vec()).filter(|cpus| !cpus.is_empty()),
        cores,
        l2s,
        llcs,
        nodes: group_by_known(nodes.into_iter().map(|(cpu, node)| (node, cpu))),
        packages,
        warnings: Vec::new(),
    };
    if let Some(llcs) = &mut facts.llcs {
        cut_at_nodes(llcs, facts.nodes.as_deref(), &mut facts.warnings);
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_llc_says_nothing() {
        let text = "cpu=0 smt=0 llc= package=0-1 node=0\ncpu=1 smt=1 llc= package=0-1 node=0\n";
        assert!(matches(text));
        let facts = parse_listing(text).unwrap();
        assert_eq!(facts.llcs, None);
        assert_eq!(facts.cores, Some(vec![vec![0], vec![1]]));
        assert_eq!(facts.nodes, Some(vec![vec![0, 1]]));
    }

    #[test]
    fn errors_say_where() {
        assert!(
            parse_listing("cpu=0 colour=3")
                .unwrap_err()
                .to_string()
                .contains("colour")
        );
        let overlap = parse_listing("cpu=0 llc=0-1\ncpu=1 llc=1-2")
            .unwrap_err()
            .to_string();
        assert!(
            overlap.contains("LLC") && overlap.contains("1-2"),
            "{overlap}"
        );
    }
}
