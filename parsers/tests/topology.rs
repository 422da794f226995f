//! Topology sources on real texts, and the cases other tools got wrong.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ttwu_parsers::topology::{
    self, TopologyError, TopologyFacts, live_at, parse_text, read_path, read_tar,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/topology")
        .join(name)
}

fn read(name: &str) -> (TopologyFacts, &'static str) {
    read_path(&fixture(name)).unwrap()
}

fn warned(facts: &TopologyFacts, part: &str) -> bool {
    facts.warnings.iter().any(|warning| warning.contains(part))
}

/// A sysfs tree in a temporary folder, from pairs of path and content.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    folder
}

/// The files of CPUs `first..=last`, which share one unified cache of this level.
fn cpus(first: u32, last: u32, level: u32) -> Vec<(String, String)> {
    let list = format!("{first}-{last}");
    let files = |cpu: u32| {
        let index = format!("cpu/cpu{cpu}/cache/index{level}");
        [
            (
                format!("cpu/cpu{cpu}/topology/core_cpus_list"),
                cpu.to_string(),
            ),
            (format!("{index}/level"), level.to_string()),
            (format!("{index}/type"), "Unified".to_owned()),
            (format!("{index}/shared_cpu_list"), list.clone()),
        ]
    };
    (first..=last).flat_map(files).collect()
}

fn tree_of(parts: &[Vec<(String, String)>], more: &[(&str, &str)]) -> tempfile::TempDir {
    let owned = parts
        .iter()
        .flatten()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    let files: Vec<_> = owned.chain(more.iter().copied()).collect();
    tree(&files)
}

#[test]
fn boot_messages_of_the_netperf_machine() {
    let (facts, kind) = read("sched-domains.txt");
    assert_eq!(kind, "kernel messages");
    assert_eq!(
        facts.to_spec(),
        "llc=0-7 smt=0,4;1,5;2,6;3,7 node=0-7 online=0-7"
    );
    assert!(warned(&facts, "2 of 8 CPUs"));
}

#[test]
fn a_numa_guest_by_listing_and_by_schedstat() {
    let (listing, kind) = read("numa-guest.topology.txt");
    assert_eq!(kind, "CPU listing");
    assert_eq!(
        listing.to_spec(),
        "llc=0-3;4-7;8-11;12-15 smt=0-1;2-3;4-5;6-7;8-9;10-11;12-13;14-15 node=0-7;8-15 \
         package=0-3;4-7;8-11;12-15 online=0-15"
    );
    let (schedstat, kind) = read("numa-guest.schedstat");
    assert_eq!(kind, "/proc/schedstat");
    assert_eq!(
        (&schedstat.llcs, &schedstat.cores),
        (&listing.llcs, &listing.cores)
    );
    assert_eq!(schedstat.nodes, None);
    assert!(warned(&schedstat, "guess"));
    assert_eq!(schedstat.merge(listing.clone()).nodes, listing.nodes);
}

#[test]
fn every_form_of_lscpu_agrees_with_sysfs() {
    let (sysfs, _) = read("sysfs");
    assert_eq!(
        sysfs.to_spec(),
        "llc=0-1 smt=0;1 l2=0;1 node=0-1 package=0-1 online=0-1"
    );
    for name in ["lscpu-p.txt", "lscpu-e.txt", "lscpu-e.json"] {
        assert_eq!(read(name).0, sysfs, "{name}");
    }
    let (summary, kind) = read("lscpu-J.json");
    assert_eq!(
        (kind, summary.to_spec().as_str()),
        (
            "lscpu -J",
            "llc=0-1 smt=0;1 node=0-1 package=0-1 online=0-1"
        )
    );
}

#[test]
fn a_tar_reads_like_its_folder() {
    let (folder, _) = read("sysfs");
    let mut builder = tar::Builder::new(Vec::new());
    builder
        .append_dir_all("host/sys/devices/system", fixture("sysfs"))
        .unwrap();
    let bytes = builder.into_inner().unwrap();
    assert_eq!(read_tar(bytes.as_slice()).unwrap(), folder);

    let dir = tempfile::tempdir().unwrap();
    let (plain, packed) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&plain, &bytes).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(&packed).unwrap(),
        flate2::Compression::fast(),
    );
    std::io::Write::write_all(&mut gzip, &bytes).unwrap();
    gzip.finish().unwrap();
    for path in [plain, packed] {
        assert_eq!(read_path(&path).unwrap(), (folder.clone(), "tar of sysfs"));
    }
    let cut = bytes.get(..700).unwrap();
    assert!(read_tar(cut).is_err());
}

#[test]
fn nodes_of_a_tar_come_from_links_too() {
    let mut builder = tar::Builder::new(Vec::new());
    for (cpu, node) in [(0, 0), (1, 1)] {
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder
            .append_link(
                &mut link,
                format!("./cpu{cpu}/node{node}"),
                format!("../../node/node{node}"),
            )
            .unwrap();
    }
    // GNU tar pads a sysfs file to the 4,096 bytes it claimed.
    let mut header = tar::Header::new_gnu();
    header.set_size(4096);
    let mut text = b"0-1\n".to_vec();
    text.resize(4096, 0);
    builder
        .append_data(&mut header, "./online", text.as_slice())
        .unwrap();
    let bytes = builder.into_inner().unwrap();
    let facts = read_tar(bytes.as_slice()).unwrap();
    assert_eq!(facts.to_spec(), "node=0;1 online=0-1");
}

/// sched-ext/scx#1032: no L3, the L2 is the LLC, caches without ids.
#[test]
fn case_86_an_l2_as_the_llc() {
    let folder = tree_of(&[cpus(0, 3, 2), cpus(4, 7, 2)], &[("cpu/online", "0-7")]);
    let facts = live_at(folder.path()).unwrap();
    assert_eq!(facts.llcs, Some(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]));
}

/// sched-ext/scx#982, #986, #1397: core ids used again in the second socket.
#[test]
fn case_88_core_ids_that_repeat() {
    let pairs = Some(vec![vec![0, 1], vec![2, 3]]);
    let table = "# CPU,Core,Socket\n0,0,0\n1,0,0\n2,0,1\n3,0,1\n";
    assert_eq!(parse_text(table).unwrap().0.cores, pairs);
    let ids = vec![(0, 0), (0, 0), (0, 1), (0, 1)];
    let perf = topology::PerfTopology {
        cpu_ids: ids,
        ..Default::default()
    };
    assert_eq!(perf.facts().unwrap().cores, pairs);
    let mut files = Vec::new();
    for (cpu, list) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
        files.push((format!("cpu{cpu}/topology/core_id"), "0".to_owned()));
        files.push((
            format!("cpu{cpu}/topology/thread_siblings_list"),
            list.to_owned(),
        ));
    }
    let folder = tree_of(&[files], &[]);
    assert_eq!(live_at(folder.path()).unwrap().cores, pairs);
}

/// sched-ext/scx#195: no cache folder at all.
#[test]
fn case_90_no_caches_no_llc() {
    let folder = tree(&[
        ("cpu/cpu0/topology/core_cpus_list", "0"),
        ("cpu/cpu1/topology/core_cpus_list", "1"),
    ]);
    let facts = live_at(folder.path()).unwrap();
    assert_eq!(facts.llcs, None);
    assert_eq!(facts.online, Some(vec![0, 1]));
    assert!(warned(&facts, "no cache folder"));
}

/// cloud-hypervisor#8730: a guest told of one L3 over two nodes.
#[test]
fn case_93_one_l3_over_all_nodes() {
    let nodes = [("node/node0/cpulist", "0-1"), ("node/node1/cpulist", "2-3")];
    let folder = tree_of(&[cpus(0, 3, 3)], &nodes);
    let facts = live_at(folder.path()).unwrap();
    assert_eq!(facts.llcs, Some(vec![vec![0, 1], vec![2, 3]]));
    assert!(warned(&facts, "CPUs 0-3 spans 2 NUMA nodes"));
}

#[test]
fn offline_cpus_and_level_one_caches_do_not_count() {
    let offline = [
        ("cpu/online", "0-2"),
        ("cpu/cpu3/crash_notes", "x"),
        ("node/node0/cpulist", "0-2"),
    ];
    let folder = tree_of(&[cpus(0, 1, 3), cpus(2, 2, 1)], &offline);
    let facts = live_at(folder.path()).unwrap();
    assert_eq!(facts.to_spec(), "llc=0-1 smt=0;1;2 node=0-2 online=0-2");
    assert!(warned(&facts, "CPUs 2"));
}

#[test]
fn a_cluster_below_the_llc_is_the_l2_group() {
    let folder = tree_of(
        &[cpus(0, 3, 3)],
        &[
            ("cpu/cpu0/topology/cluster_cpus_list", "0-1"),
            ("cpu/cpu1/topology/cluster_cpus_list", "0-1"),
        ],
    );
    assert_eq!(live_at(folder.path()).unwrap().l2s, Some(vec![vec![0, 1]]));
}

#[test]
fn nodes_from_folders_beside_the_cpu() {
    let folder = tree(&[
        ("cpu0/topology/core_cpus_list", "0"),
        ("cpu0/node0/cpulist", "0"),
        ("cpu1/topology/core_cpus_list", "1"),
        ("cpu1/node1/meminfo", ""),
    ]);
    assert_eq!(
        read_path(folder.path()).unwrap().0.nodes,
        Some(vec![vec![0], vec![1]])
    );
}

#[test]
fn unusable_paths_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let error = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        read_path(&path).unwrap_err()
    };
    let unknown = error("a", b"hello").to_string();
    assert!(
        unknown.contains("/a: ") && unknown.contains("lscpu -p"),
        "{unknown}"
    );
    assert!(
        error("b", b"PERFILE2....")
            .to_string()
            .contains("perf.data")
    );
    assert!(error("c", b"BZh9....").to_string().contains("bzip2"));
    assert!(
        error("d", b"\x1f\x8b not gzip")
            .to_string()
            .contains("reading failed")
    );
    assert!(matches!(
        read_path(&dir.path().join("none")),
        Err(TopologyError::Io { .. })
    ));
    let empty = tempfile::tempdir().unwrap();
    assert!(
        read_path(empty.path())
            .unwrap_err()
            .to_string()
            .contains("cpu0")
    );
}

#[test]
fn lists_that_contradict_each_other_are_an_error() {
    let folder = tree(&[
        ("cpu0/topology/core_cpus_list", "0-1"),
        ("cpu1/topology/core_cpus_list", "1-2"),
    ]);
    assert!(matches!(
        live_at(folder.path()),
        Err(TopologyError::Overlap { .. })
    ));
    let high = tree(&[("cpu70000/topology/core_cpus_list", "70000")]);
    assert!(
        live_at(high.path())
            .unwrap_err()
            .to_string()
            .contains("65535")
    );
}

/// The lab's schedstat copies and the sysfs lists beside them describe the same guests.
#[test]
fn lab_listings_agree_with_the_schedstat_beside_them() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces/lab");
    let Ok(folders) = fs::read_dir(lab) else {
        return;
    };
    let folders = folders.flatten();
    let mut compared = 0;
    for folder in folders.map(|entry| entry.path()) {
        let Ok((listing, _)) = read_path(&folder.join("topology.txt")) else {
            continue;
        };
        assert_eq!(listing.warnings, Vec::<String>::new(), "{folder:?}");
        for name in ["perf.after", "perf.before", "trace.after", "trace.before"] {
            let Ok((domains, _)) = read_path(&folder.join(format!("schedstat.{name}"))) else {
                continue;
            };
            assert_eq!(domains.llcs, listing.llcs, "{folder:?} {name}");
            assert_eq!(domains.cores, listing.cores, "{folder:?} {name}");
            assert_eq!(domains.online, listing.online, "{folder:?} {name}");
            compared += 1;
        }
    }
    assert!(compared > 0);
}

/// Starts of every kind of text, so that arbitrary bytes after them reach each reader.
const STARTS: [&str; 9] = [
    "",
    "llc=0-3 ",
    "ttwu topology ",
    "cpu=0 llc=",
    "version 17\ntimestamp 1\ncpu0 0\ndomain0 ",
    "CPU0 attaching sched-domain:\n domain 0: span ",
    "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n",
    "CPU NODE SOCKET CORE CACHE\n0 ",
    "Architecture: x\nCPU(s): 3\nOn-line CPU(s) list: ",
];

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(start in 0..STARTS.len(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let start = STARTS.get(start).unwrap();
        let _ = parse_text(&format!("{start}{text}"));
        let _ = read_tar(bytes.as_slice());
    }

    #[test]
    fn damaged_fixtures_never_panic(at in 0usize..2000, byte in any::<u8>()) {
        for name in ["sched-domains.txt", "numa-guest.topology.txt", "numa-guest.schedstat", "lscpu-p.txt", "lscpu-J.json"] {
            let mut bytes = fs::read(fixture(name)).unwrap();
            if let Some(slot) = bytes.get_mut(at) {
                *slot = byte;
            }
            let _ = parse_text(&String::from_utf8_lossy(&bytes));
        }
    }
}
