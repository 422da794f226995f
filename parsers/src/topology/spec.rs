//! The topology spec: `llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7`, as typed after `--topology`, kept in a file or
//! written to a trace by `ttwu topology --markers` as lines `ttwu topology SPEC`.

use super::cpulist::{CpuSet, format_groups, format_list, shorten};
use super::groups::GroupBuilder;
use super::{TopologyError, TopologyFacts};

/// What a marker line starts with; anything a trace prints before it is skipped.
pub const MARKER: &str = "ttwu topology ";

const KEYS: [&str; 6] = ["online", "smt", "l2", "llc", "node", "package"];

/// The groups collected for one key so far; `None` until the key is seen.
#[derive(Default)]
struct Collected {
    online: Option<Vec<CpuSet>>,
    cores: Option<GroupBuilder>,
    l2s: Option<GroupBuilder>,
    llcs: Option<GroupBuilder>,
    nodes: Option<GroupBuilder>,
    packages: Option<GroupBuilder>,
}

/// Whether the text starts like a spec; what follows is left to [`parse_spec`], which names a mistake better.
pub(super) fn matches(text: &str) -> bool {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    first
        .split_once('=')
        .is_some_and(|(key, _)| KEYS.contains(&key))
}

/// Reads a spec; a kind that is not listed is `None`. A key may come again and adds to its groups.
///
/// # Errors
/// An unknown key, a word without `=`, a list that cannot be read, a key without CPUs, and groups that overlap.
pub fn parse_spec(text: &str) -> Result<TopologyFacts, TopologyError> {
    let mut collected = Collected::default();
    for word in text.split_ascii_whitespace() {
        let (key, groups) = word.split_once('=').ok_or_else(|| unknown(word))?;
        collected.add(key, groups)?;
    }
    let finish = |builder: Option<GroupBuilder>| builder.map(GroupBuilder::finish);
    Ok(TopologyFacts {
        online: collected.online.map(|sets| CpuSet::union(&sets).to_vec()),
        cores: finish(collected.cores),
        l2s: finish(collected.l2s),
        llcs: finish(collected.llcs),
        nodes: finish(collected.nodes),
        packages: finish(collected.packages),
        warnings: Vec::new(),
    })
}

/// Reads the topology markers in a text: every line that holds `ttwu topology SPEC`, added up.
///
/// `None` when no line does.
pub fn facts_from_marker(text: &str) -> Option<Result<TopologyFacts, TopologyError>> {
    let specs = text.lines().filter_map(|line| line.split_once(MARKER));
    let spec: Vec<&str> = specs.map(|(_, spec)| spec).collect();
    (!spec.is_empty()).then(|| parse_spec(&spec.join(" ")))
}

impl Collected {
    fn add(&mut self, key: &str, groups: &str) -> Result<(), TopologyError> {
        let sets = sets(key, groups)?;
        let (slot, kind) = match key {
            "online" => {
                self.add_online(sets);
                return Ok(());
            }
            "smt" => (&mut self.cores, "core"),
            "l2" => (&mut self.l2s, "L2"),
            "llc" => (&mut self.llcs, "LLC"),
            "node" => (&mut self.nodes, "node"),
            "package" => (&mut self.packages, "package"),
            _ => return Err(unknown(key)),
        };
        let builder = slot.get_or_insert_with(|| GroupBuilder::new(kind));
        sets.into_iter().try_for_each(|set| builder.add(set))
    }

    fn add_online(&mut self, sets: Vec<CpuSet>) {
        self.online.get_or_insert_default().extend(sets);
    }
}

fn sets(key: &str, groups: &str) -> Result<Vec<CpuSet>, TopologyError> {
    let lists = groups.split(';').filter(|list| !list.is_empty());
    let sets: Vec<_> = lists.map(CpuSet::from_list).collect::<Result<_, _>>()?;
    match sets.iter().all(CpuSet::is_empty) {
        true => Err(TopologyError::Spec(format!(
            "`{}=` lists no CPUs",
            shorten(key)
        ))),
        false => Ok(sets),
    }
}

fn unknown(word: &str) -> TopologyError {
    let keys = KEYS.join("=, ");
    TopologyError::Spec(format!("`{}` is not one of {keys}=", shorten(word)))
}

impl TopologyFacts {
    /// Prints what is known as a spec that [`parse_spec`] reads back; kinds without groups are left out.
    pub fn to_spec(&self) -> String {
        let online = self.online.as_deref().map(format_list);
        let groups = |known: &Option<Vec<Vec<u32>>>| known.as_deref().map(format_groups);
        let values = [
            ("llc", groups(&self.llcs)),
            ("smt", groups(&self.cores)),
            ("l2", groups(&self.l2s)),
            ("node", groups(&self.nodes)),
            ("package", groups(&self.packages)),
            ("online", online),
        ];
        let known = values
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let words = known.filter(|(_, value)| !value.is_empty());
        let words: Vec<_> = words.map(|(key, value)| format!("{key}={value}")).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unlisted_kinds_are_unknown() {
        let facts = parse_spec("llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7").unwrap();
        assert_eq!(facts.llcs, Some(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]));
        assert_eq!(facts.cores.as_ref().map(Vec::len), Some(4));
        assert_eq!(facts.nodes.as_ref().map(Vec::len), Some(1));
        assert_eq!(
            (facts.l2s, facts.packages, facts.online),
            (None, None, None)
        );
    }

    #[test]
    fn errors_name_the_word() {
        let error = |text| parse_spec(text).unwrap_err().to_string();
        assert!(error("llc=0-3 l4=0").contains("`l4`"));
        assert!(error("llc").contains("`llc`"));
        assert!(error("llc=").contains("lists no CPUs"));
        assert!(error("llc=0-3;3-4").contains("CPU 3"));
        assert!(error("llc=0-99999").contains("65535"));
    }

    #[test]
    fn markers_add_up_and_may_repeat() {
        let text = "0.1: tracing_mark_write: ttwu topology llc=0-3\nother\n\
                    0.2: tracing_mark_write: ttwu topology llc=4-7 node=0-7\n\
                    9.9: tracing_mark_write: ttwu topology llc=0-3\n";
        let facts = facts_from_marker(text).unwrap().unwrap();
        assert_eq!(facts.to_spec(), "llc=0-3;4-7 node=0-7");
        assert!(facts_from_marker("no markers here").is_none());
        assert!(facts_from_marker("ttwu topology llc=x").unwrap().is_err());
    }

    /// Disjoint groups by dealing CPUs to slots.
    fn groups() -> impl Strategy<Value = Option<Vec<Vec<u32>>>> {
        let dealt = proptest::collection::vec(0usize..6, 1..40);
        let grouped = dealt.prop_map(|slots| {
            let pairs = slots.into_iter().enumerate();
            super::super::groups::group_by(pairs.map(|(cpu, slot)| (slot, cpu as u32 * 3)))
        });
        proptest::option::of(grouped)
    }

    proptest! {
        #[test]
        fn specs_round_trip(cores in groups(), l2s in groups(), llcs in groups(), nodes in groups(), packages in groups(),
                            online in proptest::option::of(proptest::collection::btree_set(0u32..9000, 1..40))) {
            let online = online.map(|cpus| cpus.into_iter().collect());
            let facts = TopologyFacts { online, cores, l2s, llcs, nodes, packages, warnings: vec![] };
            prop_assert_eq!(parse_spec(&facts.to_spec()).unwrap(), facts);
        }
    }
}
