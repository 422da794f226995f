//! Every thread of the system with what decides where and when it may run, grouped by equal properties.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::cgroups::Membership;
use super::encode::{list, word};
use super::namespaces::{Namespace, in_own_namespace};
use super::root::Root;
use super::unreadable::Unreadable;

/// What threads of one group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Properties {
    /// The CPUs it may run on at the moment, as a list: what it asked for within its cpuset.
    mask: String,
    /// The scheduling policy's number (include/uapi/linux/sched.h).
    policy: u32,
    rt_prio: u32,
    nice: i32,
    /// The place of its [`Membership`] in [`Threads::memberships`].
    cgroup: usize,
}

/// The threads of the system at one moment, as near as reading one after another comes to it.
#[derive(Debug, Default)]
pub struct Threads {
    groups: BTreeMap<Properties, Vec<i32>>,
    memberships: Vec<Membership>,
}

impl Threads {
    /// Reads `/proc/PID/task/TID`; threads that end meanwhile are left out, and all of them in a pid namespace that is not
    /// the machine's.
    pub fn read(root: &Root, unreadable: &mut Unreadable) -> Self {
        let mut reader = Reader::default();
        let mut threads = Self::default();
        for pid in root.numbered("proc", "") {
            let tasks = format!("proc/{pid}/task");
            for tid in root.numbered(&tasks, "") {
                let folder = root.path(format!("{tasks}/{tid}"));
                if let (Some(properties), Ok(tid)) = (reader.thread(folder), i32::try_from(tid)) {
                    threads.groups.entry(properties).or_default().push(tid);
                }
            }
        }
        if threads.groups.is_empty() {
            unreadable.note("proc", "no threads found: is procfs mounted there?");
        } else if in_own_namespace(root, Namespace::Pid) {
            // Their ids would be taken for other threads'.
            threads.groups.clear();
            let why = "in a pid namespace of its own: its thread ids are not those of the events";
            unreadable.note("proc", why);
        }
        threads.memberships = reader.memberships;
        threads
    }

    /// The cgroups that hold threads.
    pub fn memberships(&self) -> &[Membership] {
        &self.memberships
    }

    /// The lines of the record.
    pub fn lines(&self) -> Vec<String> {
        // Two memberships can have one name: cgroup v1, where only the less telling controller differs.
        let mut lines = BTreeMap::<String, BTreeSet<i32>>::new();
        for (properties, tids) in &self.groups {
            let line = lines.entry(self.describe(properties)).or_default();
            line.extend(tids);
        }
        let line = |(properties, tids): (String, BTreeSet<i32>)| {
            let tids: Vec<i32> = tids.into_iter().collect();
            format!("ttwu threads {properties} tids={}", list(&tids))
        };
        lines.into_iter().map(line).collect()
    }

    fn describe(&self, properties: &Properties) -> String {
        let Properties {
            mask,
            policy,
            rt_prio,
            nice,
            cgroup,
        } = properties;
        let cgroup = self.memberships.get(*cgroup).map(Membership::name);
        let cgroup = cgroup.map_or_else(String::new, |path| format!(" cgroup={}", word(path)));
        let policy = policy_name(*policy);
        format!("mask={mask} policy={policy} prio={rt_prio} nice={nice}{cgroup}")
    }
}

/// The record's name of a scheduling policy (include/uapi/linux/sched.h); its number where it has none yet.
fn policy_name(policy: u32) -> String {
    let name = match policy {
        0 => "other",
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        7 => "ext",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Reads one thread after another without allocating for each anew.
#[derive(Default)]
struct Reader {
    buffer: Vec<u8>,
    /// The place in `memberships` of what `/proc/PID/task/TID/cgroup` holds: few texts for many threads.
    known: HashMap<Vec<u8>, usize>,
    memberships: Vec<Membership>,
}

impl Reader {
    /// `None` for a thread that has ended.
    fn thread(&mut self, mut folder: PathBuf) -> Option<Properties> {
        folder.push("stat");
        let (nice, rt_prio, policy) = scheduling(self.read(&folder)?)?;
        folder.set_file_name("status");
        let mask = mask(self.read(&folder)?)?;
        folder.set_file_name("cgroup");
        // Absent without CONFIG_CGROUPS.
        let cgroup = self.read(&folder).map_or(0, <[u8]>::len);
        let cgroup = self.membership(cgroup);
        Some(Properties {
            mask,
            policy,
            rt_prio,
            nice,
            cgroup,
        })
    }

    fn read(&mut self, path: &PathBuf) -> Option<&[u8]> {
        self.buffer.clear();
        let mut file = File::open(path).ok()?;
        file.read_to_end(&mut self.buffer).ok()?;
        Some(&self.buffer)
    }

    /// The place of the membership that the first `length` bytes of the buffer describe.
    fn membership(&mut self, length: usize) -> usize {
        let raw = self.buffer.get(..length).unwrap_or_default();
        if let Some(&place) = self.known.get(raw) {
            return place;
        }
        let membership = Membership::parse(&String::from_utf8_lossy(raw));
        let same = self.memberships.iter().position(|m| *m == membership);
        let place = same.unwrap_or_else(|| {
            self.memberships.push(membership);
            self.memberships.len() - 1
        });
        self.known.insert(raw.to_vec(), place);
        place
    }
}

/// Nice, RT priority and policy: fields 19, 40 and 41 of `/proc/PID/stat` (proc(5)).
fn scheduling(stat: &[u8]) -> Option<(i32, u32, u32)> {
    // The name in field 2 can hold anything, spaces and parentheses too.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace().skip(19 - 3);
    let nice = fields.next()?.parse().ok()?;
    let mut fields = fields.skip(40 - 20);
    let rt_prio = fields.next()?.parse().ok()?;
    let policy = fields.next()?.parse().ok()?;
    Some((nice, rt_prio, policy))
}

/// The CPUs allowed, as a list. The name, the one line that others choose, comes earlier and has its newlines escaped.
fn mask(status: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"Cpus_allowed_list:";
    let mut lines = status.split(|&byte| byte == b'\n');
    let list = lines.find_map(|line| line.strip_prefix(KEY))?;
    Some(std::str::from_utf8(list).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = b"17 (a) b 9) R 1 17 17 0 -1 4194304 1 2 3 4 5 6 7 8 20 -5 1 0 99 1 1 \
            18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 50 2 0 0 0";
        assert_eq!(scheduling(stat), Some((-5, 50, 2)));
        assert_eq!(scheduling(b"17 (a) R 1"), None);
    }

    #[test]
    fn masks_come_from_the_list() {
        let status = b"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,7\nMems_allowed:\t1\n";
        assert_eq!(mask(status).as_deref(), Some("0-3,7"));
        assert_eq!(mask(b"Name:\tx\n"), None);
    }

    #[test]
    fn new_policies_keep_their_number() {
        assert_eq!(policy_name(7), "ext");
        assert_eq!(policy_name(12), "12");
    }
}
