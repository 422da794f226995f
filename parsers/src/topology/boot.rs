//! Kernel messages about scheduler domains, printed with `sched_verbose` (older: `sched_debug`) on the command
//! line and CONFIG_SCHED_DEBUG (`sched_domain_debug()`, kernel/sched/topology.c; before 4.11 core.c).
//!
//! Two forms: ` domain 0: span 0,4 level SIBLING` (through 4.12) and ` domain-0: span=0,4 level=SMT`.

use super::cpulist::{self, CpuSet};
use super::domains::{self, CpuDomains, Domain, DomainMap};
use super::groups::GroupBuilder;
use super::schedstat::single_cpu;
use super::{TopologyError, TopologyFacts};

const ORIGIN: &str = "the kernel's boot messages";

/// What one line of the log says.
enum Message {
    /// A CPU's domains follow; they replace any listed before (hotplug and cpusets rebuild domains).
    Attach(u32),
    /// One domain of that CPU.
    Domain(Domain),
    /// The groups the last domain is split into, which are the spans one level below it.
    Groups(Vec<CpuSet>),
    /// Anything else.
    Other,
}

/// Whether the text holds the kernel's messages about scheduler domains.
pub(super) fn matches(text: &str) -> bool {
    text.lines().any(|line| attach(line).is_some())
}

/// Reads kernel messages, with or without time stamps and with other messages between them.
///
/// # Errors
/// A domain whose span cannot be read, and domains that contradict each other.
pub fn parse_boot_messages(text: &str) -> Result<TopologyFacts, TopologyError> {
    let mut map = DomainMap::new();
    let mut current = None;
    let mut cores = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match message(line).map_err(|reason| TopologyError::line(ORIGIN, number, reason))? {
            Message::Attach(cpu) => {
                map.insert(cpu, CpuDomains::default());
                current = Some(cpu);
            }
            Message::Domain(domain) => {
                // Lines cut off at the start of a log belong to a CPU nobody named.
                if let Some(own) = current.and_then(|cpu| map.get_mut(&cpu)) {
                    own.domains.push(domain);
                }
            }
            Message::Groups(groups) => {
                let own = current.and_then(|cpu| map.get(&cpu));
                if own.is_some_and(splits_into_cores) {
                    cores.extend(groups);
                }
            }
            Message::Other => {}
        }
    }
    if map.is_empty() {
        return Err(TopologyError::Nothing {
            origin: ORIGIN,
            wanted: "lines like `CPU0 attaching sched-domain(s):`",
        });
    }
    let mut facts = domains::facts(&map, ORIGIN)?;
    add_cores(&mut facts, cores)?;
    Ok(facts)
}

/// Whether the groups of a CPU's last domain are cores: the domain below it is the SMT level.
fn splits_into_cores(own: &CpuDomains) -> bool {
    let [.., below, _] = own.domains.as_slice() else {
        return false;
    };
    matches!(below.name.as_deref(), Some("SMT" | "SIBLING"))
}

/// Adds cores known from groups: in an excerpt of a log they are all that is said of the CPUs it does not name.
fn add_cores(facts: &mut TopologyFacts, cores: Vec<CpuSet>) -> Result<(), TopologyError> {
    let mut builder = GroupBuilder::new("core");
    for core in facts.cores.iter().flatten() {
        builder.add(CpuSet::from_cpus(core.iter().copied()))?;
    }
    for core in cores {
        builder.add(core)?;
    }
    facts.cores = Some(builder.finish()).filter(|cores| !cores.is_empty());
    Ok(())
}

fn message(line: &str) -> Result<Message, String> {
    if let Some(cpu) = attach(line) {
        return single_cpu(cpu).map(Message::Attach);
    }
    if let Some(groups) = groups(line) {
        return Ok(Message::Groups(groups));
    }
    match domain(line) {
        Some(domain) => domain.map(Message::Domain),
        None => Ok(Message::Other),
    }
}

/// The spans of `groups: 0,4 (cpu_power = 1178) 1,5 (...)` or `groups: 0:{ span=0,4 cap=2046 }, 1:{ span=1,5 }`. Groups
/// that cannot be read are left out: the domains hold the same CPUs.
fn groups(line: &str) -> Option<Vec<CpuSet>> {
    let (_, rest) = line.split_once("groups:")?;
    let lists: Vec<&str> = match rest.contains("span=") {
        true => rest.split("span=").skip(1).collect(),
        false => rest
            .split(')')
            .filter_map(|part| part.split('(').next())
            .collect(),
    };
    let first_words = lists
        .iter()
        .filter_map(|list| list.split_ascii_whitespace().next());
    Some(
        first_words
            .filter_map(|list| CpuSet::from_list(list).ok())
            .collect(),
    )
}

/// The CPU of `CPU0 attaching sched-domain:` or `CPU0 attaching NULL sched-domain.`
fn attach(line: &str) -> Option<&str> {
    let (before, after) = line.split_once(" attaching ")?;
    let (_, cpu) = before.rsplit_once("CPU")?;
    after.contains("sched-domain").then_some(cpu)
}

/// The domain of ` domain 0: span 0,4 level SIBLING` or ` domain-0: span=0,4 level=SMT`.
fn domain(line: &str) -> Option<Result<Domain, String>> {
    let (_, after) = line.split_once("domain")?;
    let (index, rest) = after.split_once(':')?;
    cpulist::clean(index.trim_start_matches('-'))
        .parse::<u32>()
        .ok()?;
    let rest = rest.trim_start().strip_prefix("span")?;
    let (span, name) = rest.split_once(" level")?;
    let value = |text: &str| text.trim_start_matches([' ', '=']).trim_end().to_owned();
    let span = CpuSet::from_list(&value(span)).map_err(|error| error.to_string());
    let name = value(name)
        .split_ascii_whitespace()
        .next()
        .map(str::to_owned);
    Some(span.map(|span| Domain { name, span }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_form() {
        let text = "\
[    0.1] CPU0 attaching NULL sched-domain.
[    0.2] CPU0 attaching sched-domain(s):
[    0.2]  domain-0: span=0,4 level=SMT
[    0.2]   groups: 0:{ span=0 cap=1023 }, 4:{ span=4 }
[    0.2]   domain-1: span=0,4 level=MC
[    0.2] usb 1-1: new device, domain 3: something else
[    0.2] CPU4 attaching sched-domain(s):
[    0.2]  domain-0: span=0,4 level=SMT
[    0.2] root domain span: 0,4
";
        assert!(matches(text));
        let facts = parse_boot_messages(text).unwrap();
        assert_eq!(facts.llcs, Some(vec![vec![0, 4]]));
        assert_eq!(facts.cores, Some(vec![vec![0, 4]]));
        assert_eq!(facts.warnings, Vec::<String>::new());
    }

    #[test]
    fn an_old_node_level_spans_nodes() {
        let text = "CPU0 attaching sched-domain:\n domain 0: span 0-1 level MC\n  domain 1: span 0-3 level CPU\n   \
                    domain 2: span 0-7 level NODE\n";
        let facts = parse_boot_messages(text).unwrap();
        assert_eq!(facts.nodes, Some(vec![vec![0, 1, 2, 3]]));
        assert_eq!(facts.llcs, Some(vec![vec![0, 1]]));
    }

    #[test]
    fn groups_tell_the_cores_of_cpus_an_excerpt_does_not_name() {
        let text = "CPU0 attaching sched-domain(s):\n domain-0: span=0,2 level=SMT\n  groups: 0:{ span=0 }, 2:{ span=2 }\n  \
                    domain-1: span=0-3 level=MC\n   groups: 0:{ span=0,2 cap=2046 }, 1:{ span=1,3 cap=2047 }\n";
        let facts = parse_boot_messages(text).unwrap();
        assert_eq!(facts.cores, Some(vec![vec![0, 2], vec![1, 3]]));
        assert_eq!(facts.llcs, Some(vec![vec![0, 1, 2, 3]]));
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("1 of 4 CPUs"))
        );
    }

    #[test]
    fn a_bad_span_names_its_line() {
        let text = "CPU0 attaching sched-domain:\n domain 0: span 0-x level MC\n";
        assert!(
            parse_boot_messages(text)
                .unwrap_err()
                .to_string()
                .contains("line 2")
        );
    }
}
