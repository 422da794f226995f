//! Whole records: of machines put together file by file, and of this one, read back by the parser.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;
use ttwu_parsers::machine_record::{MachineRecord, ThreadGroup};

use super::*;

/// A folder with these files.
fn tree(files: &[(&str, &str)]) -> (TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    for (place, content) in files {
        let path = folder.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let root = Root::at(folder.path());
    (folder, root)
}

/// The record as it is read from a trace: long lines cut and joined again.
fn read_back(lines: &[String]) -> MachineRecord {
    let cut: Vec<String> = lines.iter().flat_map(|line| split(line)).collect();
    assert!(
        cut.iter()
            .all(|line| line.len() <= 900 && !line.contains('\n'))
    );
    MachineRecord::parse(cut.iter().map(String::as_str))
}

/// A thread's `stat`.
fn stat(tid: u32, nice: i32, rt_prio: u32, policy: u32) -> String {
    let between = "0 ".repeat(20);
    format!(
        "{tid} (a b) c) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} {between}{rt_prio} {policy} 0 0 0\n"
    )
}

/// The three files of a thread.
fn thread(pid: u32, tid: u32, stat: &str, mask: &str, cgroup: &str) -> Vec<(String, String)> {
    let folder = format!("proc/{pid}/task/{tid}");
    vec![
        (format!("{folder}/stat"), stat.to_owned()),
        (
            format!("{folder}/status"),
            format!("Name:\tx\nCpus_allowed_list:\t{mask}\n"),
        ),
        (format!("{folder}/cgroup"), cgroup.to_owned()),
        (format!("proc/{pid}/cgroup"), cgroup.to_owned()),
    ]
}

fn with_threads(files: &[(&str, &str)], threads: Vec<Vec<(String, String)>>) -> (TempDir, Root) {
    let threads = threads.concat();
    let threads = threads
        .iter()
        .map(|(place, content)| (place.as_str(), content.as_str()));
    tree(&files.iter().copied().chain(threads).collect::<Vec<_>>())
}

fn group(record: &MachineRecord, tid: i32) -> &ThreadGroup {
    let mut groups = record.threads.iter();
    groups.find(|group| group.tids.contains(tid)).unwrap()
}

/// Eight CPUs with two LLCs; a kernel of today with cgroup v2.
fn modern() -> (TempDir, Root) {
    let mut schedstat = "version 17\ntimestamp 1\n".to_owned();
    for cpu in 0..8 {
        let (core, llc) = (["03", "0c", "30", "c0"][cpu / 2], ["0f", "f0"][cpu / 4]);
        schedstat += &format!(
            "cpu{cpu} 0 0 1\ndomain0 SMT {core} 0\ndomain1 MC {llc} 0\ndomain2 PKG ff 0\n"
        );
    }
    let quota = "0::/pod/job\n";
    let free = "0::/\n";
    let threads = vec![
        thread(1, 1, &stat(1, 0, 0, 0), "0-7", free),
        thread(20, 20, &stat(20, 0, 0, 0), "0-3", quota),
        thread(20, 21, &stat(21, 0, 0, 0), "0-3", quota),
        thread(20, 22, &stat(22, 0, 0, 0), "0-3", quota),
        thread(20, 30, &stat(30, 0, 50, 1), "2", quota),
        thread(40, 40, &stat(40, -5, 0, 7), "0-7", free),
    ];
    let files = [
        ("proc/schedstat", schedstat.as_str()),
        (
            "proc/self/mountinfo",
            "35 34 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        ),
        ("proc/sys/kernel/osrelease", "7.0.1\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        (
            "proc/version",
            "Linux version 7.0.1 #1 SMP PREEMPT_DYNAMIC x\n",
        ),
        ("proc/cmdline", "quiet preempt=lazy isolcpus=7\n"),
        ("boot/config-7.0.1", "CONFIG_HZ=1000\n"),
        ("sys/devices/system/cpu/smt/control", "on\n"),
        ("sys/devices/system/cpu/isolated", "7\n"),
        ("sys/devices/system/cpu/nohz_full", "(null)\n"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance\n",
        ),
        (
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "performance\n",
        ),
        (
            "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
            "powersave\n",
        ),
        ("sys/kernel/sched_ext/state", "enabled\n"),
        ("sys/kernel/sched_ext/root/ops", "lavd\n"),
        ("sys/kernel/debug/sched/features", "TTWU_QUEUE NO_HRTICK \n"),
        ("sys/kernel/debug/sched/base_slice_ns", "2800000\n"),
        ("sys/kernel/debug/x86/tlb_single_page_flush_ceiling", "33\n"),
        (
            "sys/kernel/debug/sched/numa_balancing/hot_threshold_ms",
            "1000\n",
        ),
        ("sys/kernel/debug/sched/domains/cpu0/domain1/name", "MC\n"),
        (
            "sys/kernel/debug/sched/domains/cpu0/domain1/flags",
            "SD_WAKE_AFFINE SD_SHARE_LLC \n",
        ),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
        ("sys/fs/cgroup/pod/cpu.max", "200000 100000\n"),
        (
            "sys/fs/cgroup/pod/cpu.stat",
            "usage_usec 9\nnr_periods 7\nnr_throttled 2\nthrottled_usec 5\n",
        ),
        ("sys/fs/cgroup/pod/job/cpuset.cpus.effective", "0-3\n"),
        ("sys/fs/cgroup/pod/job/cpu.max", "max 100000\n"),
        (
            "sys/fs/cgroup/pod/job/cpu.stat",
            "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        ),
    ];
    with_threads(&files, threads)
}

#[test]
fn a_modern_machine() {
    let (_folder, root) = modern();
    let record = read_back(&before(&root));
    assert_eq!(record.skipped, 0);
    let topology = record.topology.as_deref().unwrap();
    assert!(
        topology.contains("llc=0-3;4-7 smt=0-1;2-3;4-5;6-7"),
        "{topology}"
    );
    assert_eq!(record.domains.len(), 24);
    let domain = &record.domains[1];
    assert_eq!(domain.name.as_deref(), Some("MC"));
    assert_eq!(domain.flags.as_deref(), Some("SD_WAKE_AFFINE,SD_SHARE_LLC"));
    let facts = [
        ("release", "7.0.1"),
        ("hz", "1000"),
        ("smt", "on"),
        ("isolated", "7"),
        ("boot", "quiet preempt=lazy isolcpus=7"),
        ("preempt", "lazy"),
        ("sched_ext", "enabled lavd"),
        ("features", "TTWU_QUEUE NO_HRTICK"),
    ];
    for (key, text) in facts {
        assert_eq!(record.fact(key), Some(text), "{key}");
    }
    assert_eq!(record.fact("nohz_full"), None);
    let governors: Vec<_> = record.facts_of("governor").collect();
    assert_eq!(governors, ["performance 0-1", "powersave 2"]);
    let tunables: Vec<_> = record.facts_of("tunable").collect();
    let expected = [
        "sched/base_slice_ns 2800000",
        "sched/numa_balancing/hot_threshold_ms 1000",
        "kernel.sched_rt_runtime_us 950000",
        "x86/tlb_single_page_flush_ceiling 33",
    ];
    assert_eq!(tunables, expected);
}

#[test]
fn threads_of_a_modern_machine() {
    let (_folder, root) = modern();
    let record = read_back(&before(&root));
    assert_eq!(record.threads.len(), 4);
    let job = group(&record, 21);
    assert_eq!(job.tids.iter().collect::<Vec<_>>(), [20, 21, 22]);
    assert_eq!(
        (job.mask.to_string().as_str(), job.cgroup.as_str()),
        ("0-3", "/pod/job")
    );
    let fifo = group(&record, 30);
    assert_eq!((fifo.policy.as_str(), fifo.rt_prio), ("fifo", 50));
    let ext = group(&record, 40);
    assert_eq!(
        (ext.policy.as_str(), ext.nice, ext.cgroup.as_str()),
        ("ext", -5, "/")
    );
}

#[test]
fn threads_are_told_with_their_processes() {
    let (folder, root) = modern();
    let before = Processes::read(&root);
    let lines = before.lines(Stage::Before);
    assert_eq!(
        lines,
        [
            "ttwu before process tgid=20 tids=20-22,30",
            "ttwu before process alone=1,40"
        ]
    );
    let record = read_back(&lines);
    assert_eq!((record.skipped, record.before.processes.len()), (0, 2));
    // Thread 31 of 20 and process 50 are new, 40 has ended and is a thread of 50 now.
    for new in ["20/task/31", "50/task/50", "50/task/40"] {
        fs::create_dir_all(folder.path().join("proc").join(new)).unwrap();
    }
    fs::remove_dir_all(folder.path().join("proc/40")).unwrap();
    let after = Processes::read(&root).since(&before).lines(Stage::After);
    assert_eq!(
        after,
        [
            "ttwu after process tgid=20 tids=31",
            "ttwu after process tgid=50 tids=40,50"
        ]
    );
    fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
    let link = folder.path().join("proc/self/ns/pid");
    std::os::unix::fs::symlink("pid:[4026532000]", link).unwrap();
    assert!(Processes::read(&root).lines(Stage::Before).is_empty());
}

#[test]
fn cgroups_of_a_modern_machine() {
    let (_folder, root) = modern();
    let record = read_back(&before(&root));
    let cgroup = |path: &str| {
        record
            .cgroups
            .iter()
            .find(|group| group.path == path)
            .unwrap()
    };
    assert_eq!(record.cgroups.len(), 3);
    assert_eq!(cgroup("/pod/job").cpus.as_ref().unwrap().len(), 4);
    assert_eq!(cgroup("/pod/job").quota_us, None);
    // Nothing runs in it, but its quota holds for those below.
    assert_eq!(
        cgroup("/pod").quota_us.zip(cgroup("/pod").period_us),
        Some((200_000, 100_000))
    );
    let counted = read_back(&counters(&root, Stage::After));
    assert_eq!(counted.after.throttling.len(), 1);
    let throttling = &counted.after.throttling[0];
    assert_eq!(
        (
            throttling.path.as_str(),
            throttling.nr_throttled,
            throttling.throttled_us
        ),
        ("/pod", 2, 5)
    );
    assert!(
        counted
            .after
            .schedstat
            .starts_with("version 17\ntimestamp 1\ncpu0 ")
    );
    assert_eq!(counted.before.schedstat, "");
}

/// Four CPUs and a kernel like 3.10's in a container that sees its own cgroup v1 mounted, and has no sysfs.
#[test]
fn an_old_machine() {
    let cgroup = "4:cpuset:/docker/a\n3:cpuacct,cpu:/docker/a/b\n1:name=systemd:/x\n";
    let threads = vec![thread(5, 5, &stat(5, 19, 0, 5), "0-1", cgroup)];
    let files = [
        (
            "proc/schedstat",
            "version 15\ntimestamp 1\ncpu0 0\ndomain0 3 0\ncpu1 0\ndomain0 3 0\n",
        ),
        ("proc/sys/kernel/sched_domain/cpu0/domain0/name", "MC\n"),
        ("proc/sys/kernel/sched_domain/cpu0/domain0/flags", "4655\n"),
        ("proc/sys/kernel/sched_latency_ns", "24000000\n"),
        ("sys/kernel/debug/sched_features", "GENTLE_FAIR_SLEEPERS\n"),
        ("proc/version", "Linux version 3.10.0 #1 SMP Tue\n"),
        (
            "proc/self/mountinfo",
            "40 25 0:35 /docker/a /cg/cpu ro - cgroup cgroup rw,cpuacct,cpu\n\
             41 25 0:36 /docker/a /cg/cpuset ro - cgroup cgroup rw,cpuset\n",
        ),
        ("cg/cpu/b/cpu.cfs_quota_us", "-1\n"),
        ("cg/cpu/b/cpu.cfs_period_us", "100000\n"),
        ("cg/cpu/cpu.cfs_quota_us", "50000\n"),
        ("cg/cpu/cpu.cfs_period_us", "100000\n"),
        (
            "cg/cpu/cpu.stat",
            "nr_periods 4\nnr_throttled 1\nthrottled_time 7000\n",
        ),
        ("cg/cpuset/cpuset.cpus", "0-1\n"),
    ];
    let (_folder, root) = with_threads(&files, threads);
    let record = read_back(&before(&root));
    assert_eq!(record.skipped, 0);
    // Its schedstat names no domains, so that one cannot tell which is the LLC.
    assert_eq!(record.topology, None);
    assert_eq!(record.domains[0].flags.as_deref(), Some("4655"));
    assert_eq!(record.domains[1].name, None);
    assert_eq!(record.fact("features"), Some("GENTLE_FAIR_SLEEPERS"));
    assert_eq!(
        record.fact("tunable"),
        Some("kernel.sched_latency_ns 24000000")
    );
    assert_eq!(
        (record.fact("preempt"), record.fact("release")),
        (None, None)
    );
    let thread = group(&record, 5);
    assert_eq!(
        (thread.policy.as_str(), thread.nice, thread.cgroup.as_str()),
        ("idle", 19, "/docker/a/b")
    );
    let cgroup = |path: &str| {
        record
            .cgroups
            .iter()
            .find(|group| group.path == path)
            .unwrap()
    };
    assert_eq!(cgroup("/docker/a/b").cpus.as_ref().unwrap().len(), 2);
    assert_eq!(cgroup("/docker/a/b").quota_us, None);
    assert_eq!(cgroup("/docker/a").quota_us, Some(50_000));
    assert!(
        record
            .facts_of("unreadable")
            .any(|text| text.starts_with("/sys/devices/system "))
    );
    let throttling = read_back(&counters(&root, Stage::Before)).before.throttling;
    assert_eq!(
        (throttling[0].path.as_str(), throttling[0].throttled_us),
        ("/docker/a", 7)
    );
}

#[test]
fn thread_ids_of_a_container_are_left_out() {
    let (folder, root) = modern();
    fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
    let link = folder.path().join("proc/self/ns/pid");
    std::os::unix::fs::symlink("pid:[4026532000]", link).unwrap();
    let record = read_back(&before(&root));
    assert!(record.threads.is_empty());
    assert!(
        record
            .facts_of("unreadable")
            .any(|text| text.contains("pid namespace"))
    );
    assert_eq!(record.cgroups.len(), 3);
}

#[test]
fn a_machine_that_shows_nothing() {
    let (_folder, root) = tree(&[]);
    let record = read_back(&before(&root));
    assert_eq!(record.skipped, 0);
    let missing: Vec<_> = record.facts_of("unreadable").collect();
    for place in [
        "/proc/schedstat ",
        "/proc ",
        "/sys/devices/system ",
        "/sys/kernel/debug/sched/features ",
    ] {
        assert!(
            missing.iter().any(|text| text.starts_with(place)),
            "{place}: {missing:?}"
        );
    }
    assert!(counters(&root, Stage::Before).is_empty());
}

#[test]
fn the_own_thread_of_this_machine() {
    let begin = std::time::Instant::now();
    let lines = before(&Root::host());
    let took = begin.elapsed();
    let record = read_back(&lines);
    eprintln!(
        "{} lines of {} threads in {took:?}",
        lines.len(),
        record.threads.iter().map(|g| g.tids.len()).sum::<u64>()
    );
    assert_eq!(record.skipped, 0);
    let tid = nix::unistd::gettid();
    let allowed = nix::sched::sched_getaffinity(tid).unwrap();
    let allowed = (0..nix::sched::CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true));
    let own = group(&record, tid.as_raw());
    assert_eq!(
        own.mask.to_vec(),
        allowed.map(|cpu| cpu as u32).collect::<Vec<_>>()
    );
    assert_eq!((own.policy.as_str(), own.rt_prio), ("other", 0));
    let uname = nix::sys::utsname::uname().unwrap();
    assert_eq!(record.fact("release"), uname.release().to_str());
    assert_eq!(record.fact("hostname"), uname.nodename().to_str());
}

proptest! {
    #[test]
    fn the_parser_reads_what_is_written(
        arguments in proptest::collection::vec(any::<String>(), 1..9),
        fact in "[^\\x00-\\x1f\\x7f-\\x9f]{1,3000}",
        tids in proptest::collection::btree_set(1..4_000_000, 1..600),
        cgroup in ".{0,40}",
        events: u64,
    ) {
        let tids: Vec<i32> = tids.into_iter().collect();
        let threads = format!("ttwu threads mask=0-3,9 policy=rr prio=1 nice=-20 cgroup={} tids={}",
            encode::word(&cgroup), encode::list(&tids));
        let lines = [
            command(&arguments),
            format!("ttwu machine boot {fact}"),
            threads,
            recorder("1 %", "perf", &tids),
            lost(7, events),
            overhead(events),
        ];
        let record = read_back(&lines);
        prop_assert_eq!(record.command, arguments);
        prop_assert_eq!(&record.facts, &[("boot".to_owned(), fact)]);
        prop_assert_eq!(record.threads[0].tids.iter().collect::<Vec<_>>(), tids);
        prop_assert_eq!(&record.threads[0].cgroup, &cgroup);
        prop_assert_eq!(record.recorder.map(|recorder| recorder.version), Some("1 %".to_owned()));
        prop_assert_eq!((record.lost, record.overhead_ns), (vec![(7, events)], Some(events)));
        prop_assert_eq!(record.skipped, 0);
    }
}
