//! Where a trace's topology comes from, in order: `--topology`, then what the trace carries, then nowhere.

use std::path::Path;

use ttwu_parsers::topology::cpulist::{CpuSet, format_groups};
use ttwu_parsers::topology::{TopologyError, TopologyFacts, live_at, parse_spec, read_path};

use super::Topology;

/// The topology for a trace: from `--topology`, from what the trace carries, or unknown.
///
/// `option` is the argument of `--topology`: `live`, a file or folder, or a spec (an argument with `=` that is
/// no path). `carried` is what the trace says of its machine and where in it. An option wins over the trace
/// where both speak, with a warning where they disagree, and the trace fills what the option leaves open.
///
/// # Errors
/// An option that cannot be read or understood.
pub fn resolve(
    option: Option<&str>,
    carried: Option<(TopologyFacts, String)>,
    trace_cpus: &[u32],
) -> Result<Topology, TopologyError> {
    resolve_at(
        option,
        carried,
        trace_cpus,
        Path::new("/sys/devices/system"),
    )
}

/// [`resolve`] with the folder that `live` reads.
fn resolve_at(
    option: Option<&str>,
    carried: Option<(TopologyFacts, String)>,
    trace_cpus: &[u32],
    live_root: &Path,
) -> Result<Topology, TopologyError> {
    let asked = option.map(|option| asked(option, live_root)).transpose()?;
    let (facts, source) = match (asked, carried) {
        (Some(asked), Some(carried)) => combine(asked, carried),
        (Some(known), None) | (None, Some(known)) => known,
        (None, None) => return Ok(Topology::unknown(trace_cpus, "the trace does not carry it")),
    };
    Ok(Topology::new(facts, source, trace_cpus))
}

/// Reads what `--topology` asks for and names it.
fn asked(option: &str, live_root: &Path) -> Result<(TopologyFacts, String), TopologyError> {
    let path = Path::new(option);
    if option == "live" {
        let facts = live_at(live_root)?;
        return Ok((facts, "--topology live (the analysing machine)".to_owned()));
    }
    if path.exists() {
        let (facts, kind) = read_path(path)?;
        return Ok((facts, format!("--topology {option} ({kind})")));
    }
    if option.contains('=') {
        return Ok((parse_spec(option)?, "--topology (spec)".to_owned()));
    }
    Err(TopologyError::Spec(format!(
        "--topology {option}: no such file, nor `live`, nor a spec"
    )))
}

/// Lets what was asked for win over what the trace carries.
fn combine(
    (mut asked, asked_name): (TopologyFacts, String),
    (mut carried, carried_name): (TopologyFacts, String),
) -> (TopologyFacts, String) {
    let mut disagreements = Vec::new();
    for (kind, ours, theirs) in kinds(&asked, &carried) {
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && let Some((ours, theirs)) = disagreement(ours, theirs)
        {
            disagreements.push(format!(
                "{asked_name} and {carried_name} disagree about {kind}: {ours} against {theirs}; \
                 the former is used"
            ));
        }
    }
    asked.warnings.extend(disagreements);
    let fills = kinds(&asked, &carried)
        .into_iter()
        .any(|(_, ours, theirs)| ours.is_none() && theirs.is_some());
    if !fills {
        carried.warnings.clear();
    }
    let source = match fills {
        true => format!("{asked_name}, completed from {carried_name}"),
        false => asked_name,
    };
    (asked.merge(carried), source)
}

type KindPair<'a> = (&'static str, Option<&'a [Vec<u32>]>, Option<&'a [Vec<u32>]>);

fn kinds<'a>(ours: &'a TopologyFacts, theirs: &'a TopologyFacts) -> [KindPair<'a>; 5] {
    [
        ("LLCs", ours.llcs.as_deref(), theirs.llcs.as_deref()),
        (
            "SMT siblings",
            ours.cores.as_deref(),
            theirs.cores.as_deref(),
        ),
        ("L2 groups", ours.l2s.as_deref(), theirs.l2s.as_deref()),
        ("NUMA nodes", ours.nodes.as_deref(), theirs.nodes.as_deref()),
        (
            "packages",
            ours.packages.as_deref(),
            theirs.packages.as_deref(),
        ),
    ]
}

/// Both sides' groups if they differ on the CPUs that both list.
fn disagreement(ours: &[Vec<u32>], theirs: &[Vec<u32>]) -> Option<(String, String)> {
    let listed = |groups: &[Vec<u32>]| CpuSet::from_cpus(groups.iter().flatten().copied());
    let (our_cpus, their_cpus) = (listed(ours), listed(theirs));
    let common = |groups: &[Vec<u32>]| {
        let both = |cpu: &u32| our_cpus.contains(*cpu) && their_cpus.contains(*cpu);
        let kept = groups
            .iter()
            .map(|group| group.iter().copied().filter(both).collect());
        let mut kept: Vec<Vec<u32>> = kept.filter(|group: &Vec<u32>| !group.is_empty()).collect();
        kept.sort_unstable();
        kept
    };
    (common(ours) != common(theirs)).then(|| (format_groups(ours), format_groups(theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "llc=0-4;5;6-7 smt=0-1;2-3;4;5;6;7 node=0-5;6-7";

    fn carried(text: &str) -> Option<(TopologyFacts, String)> {
        Some((parse_spec(text).unwrap(), "the perf header".to_owned()))
    }

    fn warned(topology: &Topology, part: &str) -> bool {
        topology
            .warnings()
            .iter()
            .any(|warning| warning.contains(part))
    }

    #[test]
    fn without_a_source_it_is_unknown_and_says_so() {
        let topology = resolve(None, None, &[0, 1]).unwrap();
        assert_eq!((topology.source(), topology.is_known()), ("unknown", false));
        assert!(warned(&topology, "--topology"));
        let topology = resolve(None, carried(SPEC), &[0]).unwrap();
        assert_eq!(topology.source(), "the perf header");
        assert_eq!(topology.to_spec(), SPEC);
    }

    #[test]
    fn an_option_wins_with_a_warning_and_the_trace_fills_gaps() {
        let topology = resolve(Some("llc=0-3"), carried("llc=0-1;2-3 smt=0-1;2-3"), &[0]).unwrap();
        assert_eq!(topology.to_spec(), "llc=0-3 smt=0-1;2-3");
        assert!(warned(
            &topology,
            "disagree about LLCs: 0-3 against 0-1;2-3"
        ));
        assert_eq!(
            topology.source(),
            "--topology (spec), completed from the perf header"
        );
        let agreed = resolve(Some("llc=0-1"), carried("llc=0-1;2-3"), &[0]).unwrap();
        assert!(!warned(&agreed, "disagree"));
        assert_eq!(agreed.source(), "--topology (spec)");
    }

    #[test]
    fn options_are_live_a_path_or_a_spec() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/topology");
        let root = fixtures.join("sysfs");
        let live = resolve_at(Some("live"), carried("node=0-1"), &[0, 1], &root).unwrap();
        assert_eq!(live.llcs(), Some([vec![0, 1]].as_slice()));
        assert_eq!(live.source(), "--topology live (the analysing machine)");
        let file = fixtures.join("lscpu-p.txt");
        let file = resolve(file.to_str(), None, &[0, 1]).unwrap();
        assert!(file.source().ends_with("(lscpu -p)"));
        assert_eq!(file.to_spec(), live.to_spec());
        let typo = resolve(Some("topolgy.txt"), None, &[])
            .unwrap_err()
            .to_string();
        assert!(
            typo.contains("no such file") && typo.contains("llc=0-3;4-7"),
            "{typo}"
        );
        assert!(resolve(Some("llc=0-x"), None, &[]).is_err());
    }
}
