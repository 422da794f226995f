//! The header's features that tell of the machine.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`, and the kernel's `Documentation/ABI` for the files of
//! sysfs. What a machine does not tell is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::utsname::uname;

use super::feature::{Content, Feature, FeatureNumber};

/// The machine's files; below `/` unless a test has others.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    root: PathBuf,
}

impl Machine {
    pub fn this() -> Self {
        Self { root: "/".into() }
    }

    /// All such features, ascending by number.
    pub fn features(&self) -> Vec<Feature> {
        let name = uname().ok();
        let of_name = |number, text: Option<&std::ffi::OsStr>| {
            text.map(|text| Feature::text(number, &text.to_string_lossy()))
        };
        let name = name.as_ref();
        let arch = name.map(|name| name.machine());
        let all = [
            of_name(FeatureNumber::HOSTNAME, name.map(|name| name.nodename())),
            of_name(FeatureNumber::OSRELEASE, name.map(|name| name.release())),
            of_name(FeatureNumber::ARCH, arch),
            self.cpu_counts(),
            self.cpu_description(),
            self.cpu_id(),
            self.memory(),
            self.cpu_topology(),
            self.numa_topology(),
            self.pmu_mappings(),
            self.caches(),
            self.memory_topology(),
        ];
        all.into_iter().flatten().collect()
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// The numbers behind `prefix` among the names in a folder, ascending.
    fn numbered(&self, folder: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut numbers: Vec<u32> = names
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    fn online(&self) -> Vec<u32> {
        let list = self.read("sys/devices/system/cpu/online");
        kernel_list(&list.unwrap_or_default())
    }

    /// CPUs that are plugged in; offline ones count.
    fn available(&self) -> Option<u32> {
        let present = self.read("sys/devices/system/cpu/present")?;
        kernel_list(&present).last().map(|last| last + 1)
    }

    fn cpu_counts(&self) -> Option<Feature> {
        let online = self.online().len() as u32;
        let content = Content::default().u32(self.available()?).u32(online);
        Some(Feature::new(FeatureNumber::NRCPUS, content))
    }

    /// The first value of a key of `/proc/cpuinfo`.
    fn cpuinfo(&self, key: &str) -> Option<String> {
        let text = self.read("proc/cpuinfo")?;
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
        })
    }

    /// The name of the processor, under the key that each architecture has for it.
    fn cpu_description(&self) -> Option<Feature> {
        let keys = ["model name", "Processor", "cpu model", "cpu", "vendor_id"];
        let text = keys.iter().find_map(|key| self.cpuinfo(key))?;
        Some(Feature::text(FeatureNumber::CPUDESC, &text))
    }

    /// Vendor, family, model and stepping on x86; the MIDR register on ARM.
    fn cpu_id(&self) -> Option<Feature> {
        let x86 = || {
            let keys = ["vendor_id", "cpu family", "model", "stepping"];
            let values: Option<Vec<_>> = keys.iter().map(|key| self.cpuinfo(key)).collect();
            Some(values?.join(","))
        };
        let arm = || self.read("sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
        let id = x86().or_else(arm)?;
        Some(Feature::text(FeatureNumber::CPUID, &id))
    }

    fn memory_kilobytes(&self) -> Option<u64> {
        kilobytes(&self.read("proc/meminfo")?, "MemTotal:")
    }

    fn memory(&self) -> Option<Feature> {
        let content = Content::default().u64(self.memory_kilobytes()?);
        Some(Feature::new(FeatureNumber::TOTAL_MEM, content))
    }

    /// Lists of the CPUs of each package and of each core, the ids of each CPU, then the same for dies. Only x86 has
    /// dies that matter, and perf writes them only there.
    fn cpu_topology(&self) -> Option<Feature> {
        let available = self.available()?;
        let packages = self.distinct(&["package_cpus_list", "core_siblings_list"]);
        let cores = self.distinct(&["core_cpus_list", "thread_siblings_list"]);
        let id = |cpu: u32, file: &str| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}");
            self.number::<i32>(path).unwrap_or(-1).cast_unsigned()
        };
        let mut content = Content::default().strings(&packages).strings(&cores);
        for cpu in 0..available {
            content = content
                .u32(id(cpu, "core_id"))
                .u32(id(cpu, "physical_package_id"));
        }
        let dies = self.distinct(&["die_cpus_list"]);
        if !dies.is_empty() && cfg!(target_arch = "x86_64") {
            content = content.strings(&dies);
            for cpu in 0..available {
                content = content.u32(id(cpu, "die_id"));
            }
        }
        Some(Feature::new(FeatureNumber::CPU_TOPOLOGY, content))
    }

    /// The different contents of a file of `topology`, by the first name that exists, in the order of CPUs.
    fn distinct(&self, files: &[&str]) -> Vec<String> {
        let mut lists: Vec<String> = Vec::new();
        for cpu in self.online() {
            let list = files.iter().find_map(|file| {
                self.read(format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}"))
            });
            if let Some(list) = list
                && !lists.contains(&list)
            {
                lists.push(list);
            }
        }
        lists
    }

    fn numa_topology(&self) -> Option<Feature> {
        let nodes = kernel_list(&self.read("sys/devices/system/node/online")?);
        let mut content = Content::default().u32(nodes.len() as u32);
        for node in nodes {
            let folder = format!("sys/devices/system/node/node{node}");
            let memory = self.read(format!("{folder}/meminfo")).unwrap_or_default();
            let amount = |key| kilobytes(&memory, key).unwrap_or(0);
            content = content
                .u32(node)
                .u64(amount("MemTotal:"))
                .u64(amount("MemFree:"))
                .string(&self.read(format!("{folder}/cpulist")).unwrap_or_default());
        }
        Some(Feature::new(FeatureNumber::NUMA_TOPOLOGY, content))
    }

    fn pmu_mappings(&self) -> Option<Feature> {
        let folder = "sys/bus/event_source/devices";
        let entries = fs::read_dir(self.root.join(folder)).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut pmus: Vec<(u32, String)> = names
            .filter_map(|name| Some((self.number(format!("{folder}/{name}/type"))?, name)))
            .collect();
        pmus.sort();
        let counted = Content::default().u32(pmus.len() as u32);
        let add = |content: Content, (kind, name): &(u32, String)| content.u32(*kind).string(name);
        let content = pmus.iter().fold(counted, add);
        Some(Feature::new(FeatureNumber::PMU_MAPPINGS, content))
    }

    /// Each cache once, by level.
    fn caches(&self) -> Option<Feature> {
        const VERSION: u32 = 1;
        let mut caches: Vec<Cache> = Vec::new();
        for cpu in self.available().map(|count| 0..count)? {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
            for index in self.numbered(&folder, "index") {
                let cache = self.cache(&format!("{folder}/index{index}"));
                caches.extend(cache.filter(|cache| !caches.contains(cache)));
            }
        }
        caches.sort_by_key(|cache| cache.level);
        if caches.is_empty() {
            return None;
        }
        let counted = Content::default().u32(VERSION).u32(caches.len() as u32);
        let content = caches
            .iter()
            .fold(counted, |content, cache| cache.add_to(content));
        Some(Feature::new(FeatureNumber::CACHE, content))
    }

    fn cache(&self, folder: &str) -> Option<Cache> {
        let number = |file| self.number(format!("{folder}/{file}"));
        let text = |file| self.read(format!("{folder}/{file}"));
        Some(Cache {
            level: number("level")?,
            line_size: number("coherency_line_size").unwrap_or(0),
            sets: number("number_of_sets").unwrap_or(0),
            ways: number("ways_of_associativity").unwrap_or(0),
            kind: text("type")?,
            size: text("size")?,
            cpus: text("shared_cpu_list")?,
        })
    }

    /// Which blocks of memory each node has, as a bitmap.
    fn memory_topology(&self) -> Option<Feature> {
        const VERSION: u64 = 1;
        let block = self.read("sys/devices/system/memory/block_size_bytes")?;
        let block = u64::from_str_radix(&block, 16).ok()?;
        let folder = "sys/devices/system/node";
        let mut nodes = BTreeMap::new();
        for node in self.numbered(folder, "node") {
            let blocks = self.numbered(format!("{folder}/node{node}"), "memory");
            if let Some(last) = blocks.last() {
                nodes.insert(node, (u64::from(*last) + 1, bitmap(&blocks)));
            }
        }
        let mut content = Content::default()
            .u64(VERSION)
            .u64(block)
            .u64(nodes.len() as u64);
        for (node, (bits, words)) in nodes {
            // The number of bits comes twice: as the node's, and as the bitmap's own.
            content = content.u64(u64::from(node)).u64(bits).u64(bits);
            content = words.into_iter().fold(content, Content::u64);
        }
        Some(Feature::new(FeatureNumber::MEM_TOPOLOGY, content))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cache {
    level: u32,
    line_size: u32,
    sets: u32,
    ways: u32,
    kind: String,
    size: String,
    cpus: String,
}

impl Cache {
    fn add_to(&self, content: Content) -> Content {
        let numbers = [self.level, self.line_size, self.sets, self.ways];
        let content = numbers.into_iter().fold(content, Content::u32);
        content
            .string(&self.kind)
            .string(&self.size)
            .string(&self.cpus)
    }
}

/// A kernel list such as `0-3,8`.
pub(super) fn kernel_list(text: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No kernel has more CPUs than this (NR_CPUS).
        (last < 1 << 16).then_some(first..=last)
    };
    text.split(',').filter_map(part).flatten().collect()
}

/// A number of a `meminfo`, in kB. A node's lines begin with the node.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.find(|&word| word == key)?;
        words.next()?.parse().ok()
    })
}

fn bitmap(bits: &[u32]) -> Vec<u64> {
    let words = bits.last().map_or(0, |last| last / 64 + 1);
    let mut bitmap = vec![0; words as usize];
    for bit in bits {
        if let Some(word) = bitmap.get_mut((bit / 64) as usize) {
            *word |= 1 << (bit % 64);
        }
    }
    bitmap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: FeatureNumber, features: &[Feature]) -> Option<&[u8]> {
        let feature = features.iter().find(|feature| feature.number == number)?;
        Some(&feature.content)
    }

    /// A machine of two CPUs, one of them offline.
    fn machine() -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let cpu = "sys/devices/system/cpu";
        for (path, text) in [
            (format!("{cpu}/present"), "0-1\n"),
            (format!("{cpu}/online"), "0\n"),
            (format!("{cpu}/cpu0/topology/core_id"), "3\n"),
            (format!("{cpu}/cpu0/topology/physical_package_id"), "0\n"),
            (format!("{cpu}/cpu0/topology/core_cpus_list"), "0\n"),
            (format!("{cpu}/cpu0/topology/package_cpus_list"), "0\n"),
            (format!("{cpu}/cpu0/cache/index0/level"), "1\n"),
            (format!("{cpu}/cpu0/cache/index0/type"), "Data\n"),
            (format!("{cpu}/cpu0/cache/index0/size"), "48K\n"),
            (format!("{cpu}/cpu0/cache/index0/shared_cpu_list"), "0\n"),
            ("proc/meminfo".into(), "MemTotal:  1024 kB\nMemFree: 5 kB\n"),
            (
                "proc/cpuinfo".into(),
                "vendor_id\t: V\nmodel name\t: A  B \n",
            ),
            ("sys/devices/system/node/online".into(), "0\n"),
            ("sys/devices/system/node/node0/cpulist".into(), "0\n"),
            (
                "sys/devices/system/node/node0/meminfo".into(),
                "Node 0 MemTotal:  77 kB\nNode 0 MemFree: 7 kB\n",
            ),
            ("sys/devices/system/node/node0/memory65/x".into(), ""),
            (
                "sys/devices/system/memory/block_size_bytes".into(),
                "8000000\n",
            ),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = folder.path().to_owned();
        (folder, Machine { root })
    }

    #[test]
    fn features_of_a_machine_with_an_offline_cpu() {
        let (_folder, machine) = machine();
        assert_eq!(machine.memory_kilobytes(), Some(1 << 10));
        let features = machine.features();
        let content = Content::default;
        let counts = content().u32(2).u32(1).0;
        assert_eq!(of(FeatureNumber::NRCPUS, &features), Some(&counts[..]));
        let text = content().string("A B").0;
        assert_eq!(of(FeatureNumber::CPUDESC, &features), Some(&text[..]));
        assert_eq!(of(FeatureNumber::CPUID, &features), None);
        let topology = content().strings(&["0"]).strings(&["0"]).u32(3).u32(0);
        let topology = topology.u32(u32::MAX).u32(u32::MAX).0;
        assert_eq!(
            of(FeatureNumber::CPU_TOPOLOGY, &features),
            Some(&topology[..])
        );
        let nodes = content().u32(1).u32(0).u64(77).u64(7).string("0").0;
        assert_eq!(
            of(FeatureNumber::NUMA_TOPOLOGY, &features),
            Some(&nodes[..])
        );
        let cache = content().u32(1).u32(1).u32(1).u32(0).u32(0).u32(0);
        let cache = cache.string("Data").string("48K").string("0").0;
        assert_eq!(of(FeatureNumber::CACHE, &features), Some(&cache[..]));
        let memory = content()
            .u64(1)
            .u64(0x800_0000)
            .u64(1)
            .u64(0)
            .u64(66)
            .u64(66)
            .u64(0)
            .u64(2)
            .0;
        assert_eq!(
            of(FeatureNumber::MEM_TOPOLOGY, &features),
            Some(&memory[..])
        );
        let order: Vec<_> = features.iter().map(|feature| feature.number).collect();
        assert!(order.is_sorted());
    }

    #[test]
    fn a_machine_that_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine {
            root: folder.path().to_owned(),
        };
        // Names come from a system call.
        assert!(machine.features().len() <= 3);
    }

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(kernel_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(kernel_list(""), [] as [u32; 0]);
        assert_eq!(kernel_list("0-4294967295"), [] as [u32; 0]);
    }
}
