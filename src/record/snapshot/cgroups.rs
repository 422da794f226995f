//! The cgroups that hold threads, and those above them: their CPUs, their CPU quota, and how often they were throttled.
//!
//! With cgroup v1 the `cpu` and the `cpuset` controller can have a tree each; with v2 there is one (cgroups(7)).

use std::collections::{BTreeMap, BTreeSet};

use super::Stage;
use super::encode::word;
use super::root::Root;

/// Where a thread is in the trees that matter to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Membership {
    /// Its path in the tree of the `cpu` controller.
    cpu: String,
    /// Its path in the tree of the `cpuset` controller; `None` where only the quota matters.
    cpuset: Option<String>,
}

impl Membership {
    /// Reads `/proc/PID/cgroup`: lines of `HIERARCHY:CONTROLLERS:PATH`, hierarchy 0 being cgroup v2's.
    pub fn parse(text: &str) -> Self {
        let (mut cpu, mut cpuset, mut unified) = (None, None, None);
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let has = |name| controllers.split(',').any(|controller| controller == name);
            match controllers {
                "" => unified = Some(path),
                _ if has("cpu") => cpu = Some(path),
                _ => {}
            }
            if has("cpuset") {
                cpuset = Some(path);
            }
        }
        // A controller is in a v1 tree or in v2's, never in both.
        let other = unified.unwrap_or("/");
        Self {
            cpu: cpu.unwrap_or(other).to_owned(),
            cpuset: Some(cpuset.unwrap_or(other).to_owned()),
        }
    }

    /// The path by which the record names it: that of the `cpu` controller unless only `cpuset` tells something.
    pub fn name(&self) -> &str {
        match self.cpu.as_str() {
            "/" => self.cpuset.as_deref().unwrap_or("/"),
            cpu => cpu,
        }
    }

    /// Itself and all above it.
    fn with_ancestors(&self) -> Vec<Self> {
        let one_path = self.cpuset.as_ref() == Some(&self.cpu);
        let above = ancestors(&self.cpu).skip(1).map(|path| Self {
            cpu: path.to_owned(),
            cpuset: one_path.then(|| path.to_owned()),
        });
        std::iter::once(self.clone()).chain(above).collect()
    }
}

/// A path and those above it, `/` last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let (above, _) = path.rsplit_once('/')?;
        match (above, *path) {
            ("", "/") => None,
            ("", _) => Some("/"),
            _ => Some(above),
        }
    })
}

/// The lines of the record about these cgroups and those above them.
pub fn lines(root: &Root, memberships: &[Membership]) -> Vec<String> {
    let mounts = Mounts::read(root);
    let mut by_name = BTreeMap::new();
    for membership in closure(memberships) {
        let settings = settings(root, &mounts, &membership);
        if !settings.is_empty() {
            let name = word(membership.name());
            by_name.entry(name).or_insert_with(|| settings.join(" "));
        }
    }
    let line = |(path, settings)| format!("ttwu cgroup path={path} {settings}");
    by_name.into_iter().map(line).collect()
}

/// The throttle counters of the cgroups that hold processes, and of those above them.
pub fn counters(root: &Root, stage: Stage) -> Vec<String> {
    let mounts = Mounts::read(root);
    let held = root.numbered("proc", "").into_iter();
    let held = held.filter_map(|pid| root.read(format!("proc/{pid}/cgroup")).ok());
    let texts: BTreeSet<String> = held.collect();
    let memberships: Vec<_> = texts.iter().map(|text| Membership::parse(text)).collect();
    let paths: BTreeSet<String> = closure(&memberships)
        .into_iter()
        .map(|membership| membership.cpu)
        .collect();
    let stage = stage.as_str();
    let line = |path: String| {
        let counts = throttling(root, &mounts, &path)?;
        Some(format!("ttwu {stage} cgroup path={} {counts}", word(&path)))
    };
    paths.into_iter().filter_map(line).collect()
}

fn closure(memberships: &[Membership]) -> BTreeSet<Membership> {
    memberships
        .iter()
        .flat_map(Membership::with_ancestors)
        .collect()
}

/// What is set of `cpus=`, `quota_us=` and `period_us=`.
fn settings(root: &Root, mounts: &Mounts, membership: &Membership) -> Vec<String> {
    let mut settings = Vec::new();
    if let Some(cpus) = cpus(root, mounts, membership.cpuset.as_deref()) {
        settings.push(format!("cpus={cpus}"));
    }
    if let Some((quota, period)) = quota(root, mounts, &membership.cpu) {
        settings.push(format!("quota_us={quota}"));
        settings.push(format!("period_us={period}"));
    }
    settings
}

/// The CPUs of its effective cpuset, as a list.
fn cpus(root: &Root, mounts: &Mounts, path: Option<&str>) -> Option<String> {
    let (mount, path) = (mounts.cpuset.as_ref()?, path?);
    let names = match mount.unified {
        true => &["cpuset.cpus.effective"][..],
        // Kernels before 3.17 have the second only, and there it is what is in force.
        false => &["cpuset.effective_cpus", "cpuset.cpus"],
    };
    let lists = names.iter().filter_map(|name| mount.read(root, path, name));
    lists
        .map(|list| list.replace(' ', ""))
        .find(|list| !list.is_empty())
}

/// Quota and period in µs; `None` without a quota.
fn quota(root: &Root, mounts: &Mounts, path: &str) -> Option<(u64, u64)> {
    let mount = mounts.cpu.as_ref()?;
    if mount.unified {
        let text = mount.read(root, path, "cpu.max")?;
        let (quota, period) = text.split_once(' ')?;
        return Some((quota.parse().ok()?, period.parse().ok()?));
    }
    // -1 without a quota.
    let quota = mount.read(root, path, "cpu.cfs_quota_us")?.parse().ok()?;
    let period = mount.read(root, path, "cpu.cfs_period_us")?.parse().ok()?;
    Some((quota, period))
}

/// The counters of `cpu.stat`; `None` where the cgroup never had a quota.
fn throttling(root: &Root, mounts: &Mounts, path: &str) -> Option<String> {
    let mount = mounts.cpu.as_ref()?;
    let text = mount.read(root, path, "cpu.stat")?;
    let value = |key: &str| -> Option<u64> {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
    };
    let periods = value("nr_periods ")?;
    let throttled = value("nr_throttled ")?;
    // v1 counts nanoseconds, v2 microseconds.
    let time = value("throttled_usec ").or_else(|| Some(value("throttled_time ")? / 1000))?;
    let has_quota = periods > 0 || quota(root, mounts, path).is_some();
    has_quota.then(|| format!("nr_periods={periods} nr_throttled={throttled} throttled_us={time}"))
}

/// Where the two controllers' trees are mounted.
#[derive(Debug, Default)]
struct Mounts {
    cpu: Option<Mount>,
    cpuset: Option<Mount>,
}

#[derive(Debug, Clone)]
struct Mount {
    place: String,
    /// The cgroup that is seen at `place`: not `/` in a container without a cgroup namespace.
    top: String,
    /// cgroup v2.
    unified: bool,
}

impl Mounts {
    fn read(root: &Root) -> Self {
        let text = root.read("proc/self/mountinfo").unwrap_or_default();
        let mut mounts = Self::default();
        let mut unified = None;
        for (mount, options) in text.lines().filter_map(cgroup_mount) {
            let has = |name| options.split(',').any(|option| option == name);
            if mount.unified {
                unified = unified.or(Some(mount));
                continue;
            }
            if has("cpu") && mounts.cpu.is_none() {
                mounts.cpu = Some(mount.clone());
            }
            if has("cpuset") && mounts.cpuset.is_none() {
                mounts.cpuset = Some(mount);
            }
        }
        Self {
            cpu: mounts.cpu.or_else(|| unified.clone()),
            cpuset: mounts.cpuset.or(unified),
        }
    }
}

/// A line of `/proc/self/mountinfo` that is about a cgroup tree, and its options, with v1 the controllers:
/// `35 34 0:30 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw` (proc(5)).
fn cgroup_mount(line: &str) -> Option<(Mount, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let unified = match kind.next()? {
        "cgroup2" => true,
        "cgroup" => false,
        _ => return None,
    };
    let options = kind.nth(1)?;
    let mut mount = mount.split(' ').skip(3);
    let top = mount.next()?.to_owned();
    // Spaces are written `\040`; nobody mounts cgroups at such a place.
    let place = mount.next()?.to_owned();
    let mount = Mount {
        place,
        top,
        unified,
    };
    Some((mount, options))
}

impl Mount {
    /// A file of a cgroup; `None` where it has none.
    fn read(&self, root: &Root, path: &str, file: &str) -> Option<String> {
        let below = match self.top.as_str() {
            "/" => path,
            top => path
                .strip_prefix(top)
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))?,
        };
        // `/..` is how a cgroup outside of the own namespace is shown.
        let outside = below.split('/').any(|part| part == "..");
        if outside {
            return None;
        }
        root.read(format!(
            "{}{}/{file}",
            self.place,
            below.trim_end_matches('/')
        ))
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(cpu: &str, cpuset: &str) -> Membership {
        Membership {
            cpu: cpu.to_owned(),
            cpuset: (!cpuset.is_empty()).then(|| cpuset.to_owned()),
        }
    }

    #[test]
    fn controllers_are_in_one_tree_or_the_other() {
        let v1 = "9:name=systemd:/x\n3:cpuset:/sets\n2:cpu,cpuacct:/a:b\n0::/\n";
        assert_eq!(Membership::parse(v1), membership("/a:b", "/sets"));
        assert_eq!(Membership::parse(v1).name(), "/a:b");
        let v2 = Membership::parse("0::/system.slice/a.service\n");
        assert_eq!(
            v2,
            membership("/system.slice/a.service", "/system.slice/a.service")
        );
        let sets_only = Membership::parse("3:cpuset:/sets\n2:cpu:/\n");
        assert_eq!(sets_only.name(), "/sets");
        assert_eq!(Membership::parse(""), membership("/", "/"));
    }

    #[test]
    fn those_above_end_with_the_top() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
        let two_trees = membership("/a/b", "/sets").with_ancestors();
        assert_eq!(
            two_trees,
            [
                membership("/a/b", "/sets"),
                membership("/a", ""),
                membership("/", "")
            ]
        );
    }

    #[test]
    fn mounts_tell_v1_from_v2() {
        let v2 = "35 34 0:30 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let (mount, _) = cgroup_mount(v2).unwrap();
        assert!(mount.unified && mount.place == "/sys/fs/cgroup");
        let v1 = "40 25 0:35 /docker/a /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct";
        let (mount, options) = cgroup_mount(v1).unwrap();
        assert_eq!(
            (mount.top.as_str(), options),
            ("/docker/a", "rw,cpu,cpuacct")
        );
        assert!(cgroup_mount("22 1 0:5 / /proc rw - proc proc rw").is_none());
    }
}
