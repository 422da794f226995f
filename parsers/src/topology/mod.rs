//! Which CPUs share a core, an L2, a last-level cache (LLC), a NUMA node and a package, from every source that
//! says so: copies of `/proc/schedstat`, sysfs, `lscpu`, kernel messages, perf.data headers and the tool's own spec.
//!
//! A source says what it knows and no more; [`TopologyFacts::merge`] puts several together. The LLC meant is the
//! scheduler's, since it decides where a wakeup may go: a cache said to span NUMA nodes is cut at the node.

mod boot;
pub mod cpulist;
mod domains;
mod groups;
mod listing;
mod lscpu;
mod lscpu_json;
mod perf_header;
mod read;
mod schedstat;
mod spec;
mod sysfs;

use std::path::{Path, PathBuf};

use self::cpulist::{CpuListError, CpuSet};

pub use self::boot::parse_boot_messages;
pub use self::cpulist::MAX_CPU;
pub use self::listing::parse_listing;
pub use self::lscpu::{parse_lscpu_csv, parse_lscpu_table};
pub use self::lscpu_json::{parse_lscpu_json, parse_lscpu_summary};
pub use self::perf_header::{PerfCache, PerfDomain, PerfNode, PerfTopology};
pub use self::read::{live, live_at, places_of_cpus, read_path, read_tar};
pub use self::schedstat::parse_schedstat;
pub use self::spec::{MARKER, facts_from_marker, parse_spec};

/// What one source says of a machine's CPUs; `None` where the source does not say.
///
/// Groups hold ascending CPU ids, are disjoint and come in the order of their first CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyFacts {
    /// The CPUs that were online.
    pub online: Option<Vec<u32>>,
    /// Groups of SMT siblings, single CPUs where a core has one thread.
    pub cores: Option<Vec<Vec<u32>>>,
    /// Groups that share an L2, or a cluster below the LLC.
    pub l2s: Option<Vec<Vec<u32>>>,
    /// Groups that share a last-level cache as the scheduler sees it.
    pub llcs: Option<Vec<Vec<u32>>>,
    /// NUMA nodes.
    pub nodes: Option<Vec<Vec<u32>>>,
    /// Packages (sockets).
    pub packages: Option<Vec<Vec<u32>>>,
    /// What a reader of numbers built on these facts should know, as full sentences.
    pub warnings: Vec<String>,
}

/// Why a source gave no topology.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A CPU list or mask.
    #[error("{0}")]
    CpuList(#[from] CpuListError),
    /// One line of a source.
    #[error("{origin}, line {line}: {reason}")]
    Line {
        /// The kind of source.
        origin: &'static str,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// One file of a sysfs tree.
    #[error("{path}: {error}")]
    File {
        /// The file's place in the tree.
        path: String,
        /// What is wrong with its list.
        error: CpuListError,
    },
    /// Two different groups of one kind hold the same CPU.
    #[error(
        "CPU {cpu} is in two {kind} groups, {first} and {second}: groups of one kind must not overlap"
    )]
    Overlap {
        /// The kind of group.
        kind: &'static str,
        /// A CPU in both.
        cpu: u32,
        /// The group seen first, as a CPU list.
        first: String,
        /// The other one.
        second: String,
    },
    /// A scheduler domain that does not hold its own CPU.
    #[error(
        "{origin}: a scheduler domain of CPU {cpu} spans CPUs {span}, without CPU {cpu} itself"
    )]
    NotAMember {
        /// The kind of source.
        origin: &'static str,
        /// The CPU.
        cpu: u32,
        /// The domain's span, as a CPU list.
        span: String,
    },
    /// A source without what it is read for.
    #[error("{origin}: found no {wanted}")]
    Nothing {
        /// The kind of source.
        origin: &'static str,
        /// What was looked for.
        wanted: &'static str,
    },
    /// A spec with a word that cannot be used.
    #[error("{0} (a spec looks like `llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7`)")]
    Spec(String),
    /// A table entry that cannot be used.
    #[error("{0}")]
    Entry(String),
    /// Text that is not JSON.
    #[error("lscpu -J: not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A text of no known kind.
    #[error(
        "not a topology this reads: tried a spec (llc=0-3;4-7), ttwu topology markers, a CPU listing (cpu=0 llc=0-3), \
         /proc/schedstat, kernel messages with `attaching sched-domain`, lscpu, lscpu -p, -e and -J, and a tar or \
         folder of /sys/devices/system/cpu"
    )]
    UnknownText,
    /// A file whose content could not be understood.
    #[error("{}: {error}", path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<TopologyError>,
    },
    /// A file of a kind that holds no topology.
    #[error("{}: {what}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is and what to do.
        what: &'static str,
    },
    /// A folder or tar without CPUs.
    #[error("{}: holds no cpu0, cpu1, ... folders: give a copy of /sys/devices/system/cpu", .0.display())]
    NoCpus(PathBuf),
    /// Reading a stream failed.
    #[error("reading failed: {0}")]
    Read(#[from] std::io::Error),
    /// Reading a file or folder failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl TopologyError {
    /// An error in the line with this index, from 0.
    fn line(origin: &'static str, index: usize, reason: impl Into<String>) -> Self {
        Self::Line {
            origin,
            line: index + 1,
            reason: reason.into(),
        }
    }

    /// Names the file an error is about.
    fn in_file(self, path: &Path) -> Self {
        Self::In {
            path: path.to_owned(),
            error: Box::new(self),
        }
    }

    fn io(path: &Path, error: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}

impl TopologyFacts {
    /// Fills what this source does not say from another; both sources' warnings are kept. Call it on the surer of
    /// the two.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.warnings.extend(other.warnings);
        Self {
            online: self.online.or(other.online),
            cores: self.cores.or(other.cores),
            l2s: self.l2s.or(other.l2s),
            llcs: self.llcs.or(other.llcs),
            nodes: self.nodes.or(other.nodes),
            packages: self.packages.or(other.packages),
            warnings: self.warnings,
        }
    }

    /// Drops every other CPU from all groups.
    fn keep_only(&mut self, cpus: &CpuSet) {
        let kinds = [
            &mut self.cores,
            &mut self.l2s,
            &mut self.llcs,
            &mut self.nodes,
            &mut self.packages,
        ];
        for groups in kinds.into_iter().flatten() {
            for group in groups.iter_mut() {
                group.retain(|&cpu| cpus.contains(cpu));
            }
            groups.retain(|group| !group.is_empty());
            groups.sort_unstable();
        }
    }
}

/// Reads a text of any kind this module knows, told by its content, and names the kind.
///
/// # Errors
/// A text of no known kind, and one of a known kind that cannot be understood.
pub fn parse_text(text: &str) -> Result<(TopologyFacts, &'static str), TopologyError> {
    let (name, facts) = if let Some(facts) = facts_from_marker(text) {
        ("ttwu topology markers", facts)
    } else if cpulist::clean(text).starts_with('{') {
        ("lscpu -J", parse_lscpu_json(cpulist::clean(text)))
    } else if lscpu::matches_csv(text) {
        ("lscpu -p", parse_lscpu_csv(text))
    } else if schedstat::matches(text) {
        ("/proc/schedstat", parse_schedstat(text))
    } else if boot::matches(text) {
        ("kernel messages", parse_boot_messages(text))
    } else if listing::matches(text) {
        ("CPU listing", parse_listing(text))
    } else if lscpu::matches_table(text) {
        ("lscpu -e", parse_lscpu_table(text))
    } else if lscpu_json::matches_summary(text) {
        ("lscpu", parse_lscpu_summary(text))
    } else if spec::matches(text) {
        ("topology spec", parse_spec(text))
    } else {
        return Err(TopologyError::UnknownText);
    };
    facts.map(|facts| (facts, name))
}
