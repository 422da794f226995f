//! Copies of `/proc/schedstat`: the scheduler's own domains (Documentation/scheduler/sched-stats.rst).
//!
//! Versions up to 16 print `domain0 <mask> ...`, version 17 (Linux 6.14) `domain0 <NAME> <mask> ...`. Level
//! names always hold a letter that is no hexadecimal digit, so the two are told apart by the text itself.

use super::cpulist::CpuSet;
use super::domains::{self, CpuDomains, Domain, DomainMap};
use super::{TopologyError, TopologyFacts};

const ORIGIN: &str = "/proc/schedstat";

/// Whether the text looks like `/proc/schedstat`.
pub(super) fn matches(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    has("version ") && has("timestamp ") && text.lines().any(|line| cpu_of(line).is_some())
}

/// Reads a copy of `/proc/schedstat`; of several snapshots in one text the last counts.
///
/// # Errors
/// A domain line that does not belong to a CPU or has no mask, and domains that contradict each other.
pub fn parse_schedstat(text: &str) -> Result<TopologyFacts, TopologyError> {
    let mut map = DomainMap::new();
    let mut current = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(cpu) = cpu_of(line) {
            let cpu = cpu.map_err(|reason| TopologyError::line(ORIGIN, number, reason))?;
            map.insert(cpu, CpuDomains::default());
            current = Some(cpu);
        } else if line.starts_with("domain") {
            let domain =
                domain(line).map_err(|reason| TopologyError::line(ORIGIN, number, reason))?;
            let own = current.and_then(|cpu| map.get_mut(&cpu));
            let own = own.ok_or_else(|| {
                TopologyError::line(ORIGIN, number, "a domain line comes before any cpu line")
            })?;
            own.domains.push(domain);
        }
    }
    if map.is_empty() {
        return Err(TopologyError::Nothing {
            origin: ORIGIN,
            wanted: "lines that start with `cpu0`",
        });
    }
    domains::facts(&map, ORIGIN)
}

/// The CPU of a `cpuN ...` line; `None` for any other line.
fn cpu_of(line: &str) -> Option<Result<u32, String>> {
    let number = line.strip_prefix("cpu")?.split(' ').next()?;
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(single_cpu(number))
}

/// Reads one CPU id.
pub(super) fn single_cpu(text: &str) -> Result<u32, String> {
    let set = CpuSet::from_list(text).map_err(|error| error.to_string())?;
    match (set.first(), set.len()) {
        (Some(cpu), 1) => Ok(cpu),
        _ => Err(format!(
            "`{}` is not one CPU id",
            super::cpulist::shorten(text)
        )),
    }
}

fn domain(line: &str) -> Result<Domain, String> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let first = words.next().ok_or("a domain line without a mask")?;
    let (name, mask) = match is_name(first) {
        true => {
            let mask = words.next().ok_or("a domain line without a mask")?;
            (Some(first.to_owned()), mask)
        }
        false => (None, first),
    };
    let span = CpuSet::from_mask(mask).map_err(|error| error.to_string())?;
    Ok(Domain { name, span })
}

fn is_name(word: &str) -> bool {
    word.bytes()
        .any(|byte| !byte.is_ascii_hexdigit() && byte != b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(lists: &[&str]) -> Option<Vec<Vec<u32>>> {
        let sets = lists
            .iter()
            .map(|list| CpuSet::from_list(list).unwrap().to_vec());
        Some(sets.collect())
    }

    #[test]
    fn named_domains_tell_llcs_cores_and_nodes() {
        let text = "version 17\ntimestamp 1\n\
            cpu0 0 0\ndomain0 SMT 03 0\ndomain1 MC 0f 0\ndomain2 NUMA ff 0\n\
            cpu1 0 0\ndomain0 SMT 03 0\ndomain1 MC 0f 0\ndomain2 NUMA ff 0\n\
            cpu2 0 0\ndomain0 SMT 0c 0\ndomain1 MC 0f 0\ndomain2 NUMA ff 0\n\
            cpu3 0 0\ndomain0 SMT 0c 0\ndomain1 MC 0f 0\ndomain2 NUMA ff 0\n\
            cpu4 0 0\ndomain0 MC f0 0\ndomain1 NUMA ff 0\n\
            cpu5 0 0\ndomain0 MC f0 0\ndomain1 NUMA ff 0\n\
            cpu6 0 0\ndomain0 MC f0 0\ndomain1 NUMA ff 0\n\
            cpu7 0 0\ndomain0 MC f0 0\ndomain1 NUMA ff 0\n";
        assert!(matches(text));
        let facts = parse_schedstat(text).unwrap();
        assert_eq!(facts.llcs, groups(&["0-3", "4-7"]));
        assert_eq!(facts.cores, groups(&["0-1", "2-3", "4", "5", "6", "7"]));
        assert_eq!(facts.nodes, groups(&["0-3", "4-7"]));
        assert_eq!(facts.l2s, None);
        assert_eq!(facts.warnings, Vec::<String>::new());
    }

    #[test]
    fn a_removed_mc_level_leaves_smt_or_cluster_as_the_llc() {
        let text = "version 17\ntimestamp 1\n\
            cpu0 0\ndomain0 CLS 3 0\ndomain1 PKG 7 0\n\
            cpu1 0\ndomain0 CLS 3 0\ndomain1 PKG 7 0\n\
            cpu2 0\ndomain0 PKG 7 0\n";
        let facts = parse_schedstat(text).unwrap();
        assert_eq!(facts.llcs, groups(&["0-1", "2"]));
        assert_eq!(facts.l2s, groups(&["0-1", "2"]));
        assert_eq!(facts.nodes, groups(&["0-2"]));
    }

    #[test]
    fn an_isolated_cpu_is_its_own_llc_and_nothing_more() {
        let text = "version 17\ntimestamp 1\n\
            cpu0 0\ndomain0 MC 3 0\ncpu1 0\ndomain0 MC 3 0\ncpu2 0\n";
        let facts = parse_schedstat(text).unwrap();
        assert_eq!(facts.llcs, groups(&["0-1", "2"]));
        assert_eq!(facts.cores, groups(&["0", "1"]));
        assert_eq!(facts.nodes, groups(&["0-1"]));
        assert_eq!(facts.online, Some(vec![0, 1, 2]));
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("CPUs 2 have no"))
        );
    }

    #[test]
    fn nameless_domains_are_a_guess_with_a_warning() {
        let text = "version 15\ntimestamp 1\n\
            cpu0 0\ndomain0 0003 0\ndomain1 000f 0\n\
            cpu1 0\ndomain0 0003 0\ndomain1 000f 0\n\
            cpu2 0\ndomain0 000c 0\ndomain1 000f 0\n\
            cpu3 0\ndomain0 000c 0\ndomain1 000f 0\n";
        let facts = parse_schedstat(text).unwrap();
        assert_eq!(facts.llcs, groups(&["0-3"]));
        assert_eq!(facts.cores, groups(&["0-1", "2-3"]));
        assert_eq!(facts.nodes, groups(&["0-3"]));
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("guess"))
        );
    }

    #[test]
    fn a_hybrid_machines_clusters_lie_within_the_guessed_llc() {
        let text = "version 16\ntimestamp 1\n\
            cpu0 0\ndomain0 03 0\ndomain1 3f 0\ncpu1 0\ndomain0 03 0\ndomain1 3f 0\n\
            cpu2 0\ndomain0 3c 0\ndomain1 3f 0\ncpu3 0\ndomain0 3c 0\ndomain1 3f 0\n\
            cpu4 0\ndomain0 3c 0\ndomain1 3f 0\ncpu5 0\ndomain0 3c 0\ndomain1 3f 0\n";
        let facts = parse_schedstat(text).unwrap();
        assert_eq!(facts.llcs, groups(&["0-5"]));
        assert_eq!(facts.cores, groups(&["0-1", "2", "3", "4", "5"]));
    }

    #[test]
    fn a_lone_domain_of_two_tells_no_cores() {
        let text = "version 16\ntimestamp 1\ncpu0 0\ndomain0 3 0\ncpu1 0\ndomain0 3 0\n";
        let facts = parse_schedstat(text).unwrap();
        assert_eq!((facts.llcs, facts.cores), (groups(&["0-1"]), None));
    }

    #[test]
    fn no_domains_at_all_claim_nothing() {
        let many = parse_schedstat("version 15\ntimestamp 1\ncpu0 0\ncpu1 0\n").unwrap();
        assert_eq!((many.llcs, many.nodes), (None, None));
        let one = parse_schedstat("version 15\ntimestamp 1\ncpu0 0\n").unwrap();
        assert_eq!(one.llcs, groups(&["0"]));
    }

    #[test]
    fn broken_lines_are_named() {
        let cut = "version 16\ntimestamp 1\ncpu0 0\ndomain0";
        assert!(
            parse_schedstat(cut)
                .unwrap_err()
                .to_string()
                .contains("line 4")
        );
        let stray = "cpu0 0\ndomain0 c 0";
        assert!(
            parse_schedstat(stray)
                .unwrap_err()
                .to_string()
                .contains("CPU 0")
        );
        assert!(parse_schedstat("cpu99999 0").is_err());
        assert!(parse_schedstat("domain0 3").is_err());
        assert!(parse_schedstat("nothing").is_err());
    }
}
