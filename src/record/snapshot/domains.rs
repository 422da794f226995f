//! The scheduler's own domains: which CPUs each CPU's balancing and waking look at.

use std::collections::BTreeMap;

use ttwu_parsers::topology::cpulist::CpuSet;

use super::encode::word;
use super::root::Root;
use super::unreadable::{Unreadable, is_absent};

/// What is known of one CPU's domain at one level.
#[derive(Debug, Default)]
struct Domain {
    name: Option<String>,
    span: Option<CpuSet>,
    /// Names such as `SD_SHARE_LLC`, or a number from kernels before 5.10.
    flags: Option<String>,
}

/// The domains of all CPUs, and `/proc/schedstat`, which lists them even while `kernel.sched_schedstats` is 0.
#[derive(Debug, Default)]
pub struct Domains {
    schedstat: Option<String>,
    /// By CPU and level; level 0 is the smallest.
    domains: ByLevel,
}

type ByLevel = BTreeMap<(u32, u32), Domain>;

impl Domains {
    pub fn read(root: &Root, unreadable: &mut Unreadable) -> Self {
        let schedstat = schedstat(root, unreadable);
        let mut domains = ByLevel::new();
        add_spans(schedstat.as_deref().unwrap_or_default(), &mut domains);
        add_flags(root, unreadable, &mut domains);
        Self { schedstat, domains }
    }

    /// The lines of the record.
    pub fn lines(&self) -> Vec<String> {
        self.domains.iter().map(line).collect()
    }

    /// `/proc/schedstat` in its form since version 17, with the domains' names, which older kernels tell elsewhere;
    /// `None` where a name is not known.
    pub fn named_schedstat(&self) -> Option<String> {
        let mut named = String::new();
        let mut cpu = None;
        for line in self.schedstat.as_deref()?.lines() {
            let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
            cpu = numbered(head, "cpu").or(cpu);
            let line = match numbered(head, "domain") {
                Some(level) => {
                    let name = self.domains.get(&(cpu?, level))?.name.as_ref()?;
                    let rest = rest.strip_prefix(name.as_str()).unwrap_or(rest);
                    format!("{head} {name} {}", rest.trim_start())
                }
                None => line.to_owned(),
            };
            named.push_str(&line);
            named.push('\n');
        }
        Some(named)
    }
}

fn schedstat(root: &Root, unreadable: &mut Unreadable) -> Option<String> {
    const PLACE: &str = "proc/schedstat";
    match root.read(PLACE) {
        Err(error) if is_absent(&error) => {
            unreadable.note(PLACE, "the kernel was built without CONFIG_SCHEDSTATS");
            None
        }
        _ => unreadable.read(root, PLACE),
    }
}

/// The number of `cpuN` or `domainN`.
fn numbered(word: &str, prefix: &str) -> Option<u32> {
    word.strip_prefix(prefix)?.parse().ok()
}

fn line((&(cpu, level), domain): (&(u32, u32), &Domain)) -> String {
    let mut line = format!("ttwu domain cpu={cpu} level={level}");
    let words = [
        ("name", domain.name.as_ref().map(word)),
        ("span", domain.span.as_ref().map(CpuSet::to_string)),
        ("flags", domain.flags.as_ref().map(word)),
    ];
    for (key, value) in words {
        if let Some(value) = value {
            line.push_str(&format!(" {key}={value}"));
        }
    }
    line
}

/// Reads `cpuN …` lines, each with its `domainM [NAME] MASK …` lines behind it (Documentation/scheduler/sched-stats.rst).
fn add_spans(schedstat: &str, domains: &mut ByLevel) {
    let mut cpu = None;
    for line in schedstat.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(head) = words.next() else { continue };
        if head.starts_with("cpu") {
            cpu = numbered(head, "cpu");
        }
        let level = numbered(head, "domain");
        let (Some(cpu), Some(level), Some(first)) = (cpu, level, words.next()) else {
            continue;
        };
        // The name is there from version 17 on (Linux 6.14), and none is a hexadecimal number.
        let (name, mask) = match CpuSet::from_mask(first) {
            Ok(span) => (None, Some(span)),
            Err(_) => {
                let mask = words.next().and_then(|mask| CpuSet::from_mask(mask).ok());
                (Some(first.to_owned()), mask)
            }
        };
        let domain = domains.entry((cpu, level)).or_default();
        domain.name = name;
        domain.span = mask;
    }
}

/// Where names and flags are: debugfs (5.13 on, and there only while `sched/verbose` is Y), sysctl before.
const FOLDERS: [&str; 2] = [
    "sys/kernel/debug/sched/domains",
    "proc/sys/kernel/sched_domain",
];

fn add_flags(root: &Root, unreadable: &mut Unreadable, domains: &mut ByLevel) {
    for folder in FOLDERS {
        for cpu in root.numbered(folder, "cpu") {
            let cpu_folder = format!("{folder}/cpu{cpu}");
            for level in root.numbered(&cpu_folder, "domain") {
                let place = format!("{cpu_folder}/domain{level}");
                let mut read = |file: &str| unreadable.read(root, &format!("{place}/{file}"));
                let (name, flags) = (read("name"), read("flags"));
                let domain = domains.entry((cpu, level)).or_default();
                domain.name = domain.name.take().or(name);
                domain.flags = flags
                    .map(|flags| comma_separated(&flags))
                    .or(domain.flags.take());
            }
        }
    }
    if domains.is_empty() {
        let why = "not shown: /proc/schedstat has the domains, or debugfs, for root, while its sched/verbose is Y";
        unreadable.note(FOLDERS[0], why);
    }
}

fn comma_separated(words: &str) -> String {
    words.split_ascii_whitespace().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_both_schedstat_forms() {
        let mut domains = ByLevel::new();
        let named =
            "version 17\ntimestamp 1\ncpu0 0\ndomain0 SMT 03 0\ndomain1 MC 0000,000000ff 0\n";
        add_spans(named, &mut domains);
        add_spans("cpu1 0 0\ndomain0 3 0 0\n", &mut domains);
        let lines: Vec<_> = domains.iter().map(line).collect();
        let expected = [
            "ttwu domain cpu=0 level=0 name=SMT span=0-1",
            "ttwu domain cpu=0 level=1 name=MC span=0-7",
            "ttwu domain cpu=1 level=0 span=0-1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn damage_is_passed_over() {
        let mut domains = ByLevel::new();
        add_spans(
            "domain0 3\ncpux\ndomain0 3\ncpu0\ndomainx 3\ndomain1\n",
            &mut domains,
        );
        assert!(domains.is_empty());
        add_spans("cpu0\ndomain0 SMT\n", &mut domains);
        assert!(domains[&(0, 0)].span.is_none());
    }

    #[test]
    fn names_from_elsewhere_complete_old_schedstats() {
        let domains = |text: &str, names: &[&str]| {
            let mut domains = ByLevel::new();
            add_spans(text, &mut domains);
            for (level, name) in (0..).zip(names) {
                domains.entry((0, level)).or_default().name = Some((*name).to_owned());
            }
            let schedstat = Some(text.to_owned());
            Domains { schedstat, domains }.named_schedstat()
        };
        let old = "version 15\ncpu0 9\ndomain0 3 7\ndomain1 f 7\ncpu1 9\n";
        let new = "version 15\ncpu0 9\ndomain0 MC 3 7\ndomain1 DIE f 7\ncpu1 9\n";
        assert_eq!(domains(old, &["MC", "DIE"]).as_deref(), Some(new));
        assert_eq!(domains(new, &["MC", "DIE"]).as_deref(), Some(new));
        assert_eq!(domains(old, &["MC"]), None);
        assert_eq!(domains("domain0 3\n", &["MC"]), None);
    }
}
