//! The machine record: what a recording says of its machine in lines of text that begin with `ttwu `.
//!
//! The form is described in `docs/machine-record.md`; `print` events of a trace.dat or feature 250 of a perf.data hold
//! the lines. Anyone can write such lines into a trace, so nothing in them decides an allocation beyond their own size,
//! and their texts must not be printed as they are.

use std::borrow::Cow;

use crate::topology::MAX_CPU;
use crate::topology::cpulist::CpuSet;

/// What every line begins with.
pub const PREFIX: &str = "ttwu ";
/// What the rest of a line begins with that was too long for one.
pub const CONTINUED: &str = "ttwu+ ";

/// The highest thread id there can be (`PID_MAX_LIMIT`, include/linux/threads.h).
const MAX_TID: i32 = 4 << 20;
/// The most thread ids that all groups together may hold; a machine has at most `PID_MAX_LIMIT`.
const MAX_TIDS: u64 = 4 << 20;

/// What a recording says of its machine and of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineRecord {
    /// The topology as [`crate::topology::parse_spec`] takes it.
    pub topology: Option<String>,
    pub domains: Vec<Domain>,
    /// `ttwu machine KEY TEXT`, in the order of the lines; a key may come more than once.
    pub facts: Vec<(String, String)>,
    /// The threads at the start.
    pub threads: Vec<ThreadGroup>,
    pub cgroups: Vec<Cgroup>,
    pub before: Counters,
    pub after: Counters,
    pub recorder: Option<Recorder>,
    /// The recorded command's arguments, its name first; empty when the recording had no command.
    pub command: Vec<String>,
    pub result: Option<CommandResult>,
    /// Events lost, by CPU.
    pub lost: Vec<(u32, u64)>,
    /// CPU time of the recorder's own threads, in ns.
    pub overhead_ns: Option<u64>,
    /// Lines of an unknown kind, and lines that could not be understood.
    pub skipped: u64,
}

/// One scheduler domain of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domain {
    pub cpu: u32,
    /// 0 is the smallest.
    pub level: u32,
    /// Such as `MC`, where the kernel tells.
    pub name: Option<String>,
    pub span: Option<CpuSet>,
    /// Names such as `SD_SHARE_LLC` separated by commas, or a number from kernels before 5.10.
    pub flags: Option<String>,
}

/// Threads that have all this in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadGroup {
    /// The CPUs they may run on.
    pub mask: CpuSet,
    /// `other`, `fifo`, `rr`, `batch`, `idle`, `deadline` or `ext`, or a number.
    pub policy: String,
    /// The real-time priority; 0 for other policies.
    pub rt_prio: u32,
    pub nice: i32,
    /// The cgroup's path; empty where the kernel has none.
    pub cgroup: String,
    pub tids: Tids,
}

/// Thread ids as inclusive ranges, so that their size follows the text they were read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tids(Vec<(i32, i32)>);

/// The settings of a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroup {
    pub path: String,
    /// The CPUs of its effective cpuset.
    pub cpus: Option<CpuSet>,
    /// CPU time that its threads may use in each period, in µs; `None` without a quota.
    pub quota_us: Option<u64>,
    pub period_us: Option<u64>,
}

/// What was read on one side of the recording: counters of the kernel, and which thread is of which process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// `/proc/schedstat`; empty where it was not recorded.
    pub schedstat: String,
    pub throttling: Vec<Throttling>,
    /// After the recording only those that were not told before.
    pub processes: Vec<Process>,
}

/// Threads of one process; or, without its id, threads that each are a process of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    pub tgid: Option<i32>,
    pub tids: Tids,
}

/// How often a cgroup with a quota was throttled since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Throttling {
    pub path: String,
    pub nr_periods: u64,
    pub nr_throttled: u64,
    pub throttled_us: u64,
}

/// Who recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorder {
    pub version: String,
    /// `ftrace` or `perf`.
    pub backend: String,
    /// Its own threads.
    pub tids: Tids,
}

/// How the recorded command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// How the recorded command ended, and what it used (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandResult {
    pub wall_ns: u64,
    pub end: End,
    pub utime_ns: u64,
    pub stime_ns: u64,
    pub maxrss_kb: u64,
    pub minflt: u64,
    pub majflt: u64,
    /// Context switches where it waited.
    pub nvcsw: u64,
    /// Context switches where it could have gone on.
    pub nivcsw: u64,
}

impl MachineRecord {
    /// Reads the record from a trace's texts, of which others than `ttwu …` are passed over.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut reader = Reader::default();
        let mut pending: Option<Cow<'a, str>> = None;
        for line in lines {
            let line = line.trim_end_matches(['\n', '\r', '\0']);
            if let Some(rest) = line.strip_prefix(CONTINUED) {
                match &mut pending {
                    Some(start) => start.to_mut().push_str(rest),
                    None => reader.record.skipped += 1,
                }
            } else if line.starts_with(PREFIX)
                && let Some(whole) = pending.replace(Cow::Borrowed(line))
            {
                reader.line(&whole);
            }
        }
        if let Some(whole) = pending {
            reader.line(&whole);
        }
        reader.record
    }

    /// The first fact with this key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts_of(key).next()
    }

    /// All facts with this key.
    pub fn facts_of(&self, key: &str) -> impl Iterator<Item = &str> {
        self.facts
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, text)| text.as_str())
    }

    /// Whether the trace holds no line of a record.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Tids {
    /// The ids, in the order of the ranges.
    pub fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    /// The ids as ranges from the first to the last of each.
    pub fn ranges(&self) -> impl Iterator<Item = (i32, i32)> + '_ {
        self.0.iter().copied()
    }

    /// The number of ids.
    pub fn len(&self) -> u64 {
        let lengths = self.0.iter();
        lengths
            .map(|(first, last)| u64::from(first.abs_diff(*last)) + 1)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, tid: i32) -> bool {
        self.0
            .iter()
            .any(|&(first, last)| (first..=last).contains(&tid))
    }

    fn parse(list: &str) -> Option<Self> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
            (0 <= first && first <= last && last <= MAX_TID).then_some((first, last))
        };
        let parts = list.split(',').filter(|part| !part.is_empty());
        parts.map(range).collect::<Option<_>>().map(Self)
    }
}

/// The record in the making.
#[derive(Default)]
struct Reader {
    record: MachineRecord,
    /// Thread ids accepted so far.
    tids: u64,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if self.understood(line).is_none() {
            self.record.skipped += 1;
        }
    }

    /// `None` when a line says nothing that this reader knows.
    fn understood(&mut self, line: &str) -> Option<()> {
        let rest = line.strip_prefix(PREFIX)?;
        let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let record = &mut self.record;
        match kind {
            "topology" => add_spec(&mut record.topology, rest),
            "domain" => record.domains.push(domain(Words(rest))?),
            "machine" => record.facts.push(fact(rest)?),
            "threads" => self.threads(Words(rest))?,
            "cgroup" => record.cgroups.push(cgroup(Words(rest))?),
            "before" => counters(&mut record.before, rest)?,
            "after" => counters(&mut record.after, rest)?,
            "recorder" => record.recorder = Some(recorder(Words(rest))?),
            "command" => record.command = rest.split(' ').map(decode).collect(),
            "result" => record.result = Some(result(Words(rest))?),
            "lost" => record.lost.push(lost(Words(rest))?),
            "overhead" => record.overhead_ns = Some(Words(rest).number("cpu_ns")?),
            _ => return None,
        }
        Some(())
    }

    fn threads(&mut self, words: Words<'_>) -> Option<()> {
        let tids = Tids::parse(words.get("tids")?)?;
        let all = self.tids.saturating_add(tids.len());
        if all > MAX_TIDS {
            return None;
        }
        self.tids = all;
        self.record.threads.push(ThreadGroup {
            mask: words.cpus("mask")?,
            policy: words.text("policy")?,
            rt_prio: words.number("prio")?,
            nice: words.number("nice")?,
            cgroup: words.text("cgroup").unwrap_or_default(),
            tids,
        });
        Some(())
    }
}

/// Several topology lines add up, as those of `ttwu topology --markers` do.
fn add_spec(topology: &mut Option<String>, spec: &str) {
    let topology = topology.get_or_insert_default();
    if !topology.is_empty() {
        topology.push(' ');
    }
    topology.push_str(spec);
}

fn domain(words: Words<'_>) -> Option<Domain> {
    let cpu = words.number("cpu")?;
    (cpu <= MAX_CPU).then_some(Domain {
        cpu,
        level: words.number("level")?,
        name: words.text("name"),
        span: words.optional("span", CpuSet::from_list)?,
        flags: words.text("flags"),
    })
}

fn fact(rest: &str) -> Option<(String, String)> {
    let (key, text) = rest.split_once(' ')?;
    Some((key.to_owned(), text.to_owned()))
}

fn cgroup(words: Words<'_>) -> Option<Cgroup> {
    Some(Cgroup {
        path: words.text("path")?,
        cpus: words.optional("cpus", CpuSet::from_list)?,
        quota_us: words.optional("quota_us", str::parse)?,
        period_us: words.optional("period_us", str::parse)?,
    })
}

/// `before …` and `after …`.
fn counters(counters: &mut Counters, rest: &str) -> Option<()> {
    let (kind, rest) = rest.split_once(' ')?;
    match kind {
        "schedstat" => {
            counters.schedstat.push_str(rest);
            counters.schedstat.push('\n');
        }
        "cgroup" => counters.throttling.push(throttling(Words(rest))?),
        "process" => counters.processes.push(process(Words(rest))?),
        _ => return None,
    }
    Some(())
}

fn process(words: Words<'_>) -> Option<Process> {
    let tgid = words.optional("tgid", str::parse::<i32>)?;
    let tids = words.get(if tgid.is_some() { "tids" } else { "alone" })?;
    let known = tgid.is_none_or(|tgid| (0..=MAX_TID).contains(&tgid));
    known.then_some(Process {
        tgid,
        tids: Tids::parse(tids)?,
    })
}

fn throttling(words: Words<'_>) -> Option<Throttling> {
    Some(Throttling {
        path: words.text("path")?,
        nr_periods: words.number("nr_periods")?,
        nr_throttled: words.number("nr_throttled")?,
        throttled_us: words.number("throttled_us")?,
    })
}

fn recorder(words: Words<'_>) -> Option<Recorder> {
    Some(Recorder {
        version: words.text("version")?,
        backend: words.text("backend")?,
        tids: Tids::parse(words.get("tids")?)?,
    })
}

fn result(words: Words<'_>) -> Option<CommandResult> {
    let end = match words.get("signal") {
        Some(signal) => End::Signal(signal.parse().ok()?),
        None => End::Exit(words.number("exit")?),
    };
    Some(CommandResult {
        wall_ns: words.number("wall_ns")?,
        end,
        utime_ns: words.number("utime_ns")?,
        stime_ns: words.number("stime_ns")?,
        maxrss_kb: words.number("maxrss_kb")?,
        minflt: words.number("minflt")?,
        majflt: words.number("majflt")?,
        nvcsw: words.number("nvcsw")?,
        nivcsw: words.number("nivcsw")?,
    })
}

fn lost(words: Words<'_>) -> Option<(u32, u64)> {
    let cpu = words.number("cpu")?;
    (cpu <= MAX_CPU).then_some((cpu, words.number("events")?))
}

/// `KEY=VALUE` words; few enough that they are searched, not sorted.
#[derive(Clone, Copy)]
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn get(self, key: &str) -> Option<&'a str> {
        let mut values = self.0.split(' ').filter_map(|word| word.split_once('='));
        values.find_map(|(name, value)| (name == key).then_some(value))
    }

    fn text(self, key: &str) -> Option<String> {
        self.get(key).map(decode)
    }

    fn number<T: std::str::FromStr>(self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    fn cpus(self, key: &str) -> Option<CpuSet> {
        CpuSet::from_list(self.get(key)?).ok()
    }

    /// `None` when the key is there with a value that cannot be read.
    fn optional<T, E>(self, key: &str, read: impl Fn(&str) -> Result<T, E>) -> Option<Option<T>> {
        self.get(key)
            .map(|value| read(value).ok())
            .map_or(Some(None), |value| value.map(Some))
    }
}

/// Undoes the `%XX` of a WORD; a `%` without two hexadecimal digits stands for itself, bytes that are no UTF-8 are
/// replaced.
fn decode(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let [byte, tail @ ..] = rest {
        let escaped = match tail {
            [high, low, ..] if *byte == b'%' => hexadecimal(*high).zip(hexadecimal(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::from_list(list).unwrap()
    }

    #[test]
    fn every_kind_of_line() {
        let record = MachineRecord::parse([
            "someone else's marker",
            "ttwu topology llc=0-1;2-3",
            "ttwu topology node=0-3",
            "ttwu domain cpu=1 level=0 name=MC span=0-1 flags=SD_SHARE_LLC,SD_WAKE_AFFINE later=1",
            "ttwu machine boot quiet  isolcpus=3",
            "ttwu machine tunable sched/base_slice_ns 3000000",
            "ttwu machine tunable kernel.sched_rt_runtime_us 950000",
            "ttwu threads mask=0-1,3 policy=fifo prio=50 nice=-5 cgroup=/a%20b tids=1-3,9",
            "ttwu cgroup path=/a%20b cpus=0-3 quota_us=50000 period_us=100000",
            "ttwu before schedstat version 16",
            "ttwu before schedstat cpu0 0 0",
            "ttwu after cgroup path=/a nr_periods=10 nr_throttled=3 throttled_us=7",
            "ttwu before process tgid=20 tids=20-22,30",
            "ttwu before process alone=1-3,9",
            "ttwu after process tgid=20 tids=31",
            "ttwu recorder version=0.1.0 backend=perf tids=12",
            "ttwu command sh -c a%20b ",
            "ttwu result wall_ns=1 signal=9 utime_ns=2 stime_ns=3 maxrss_kb=4 minflt=5 majflt=6 nvcsw=7 nivcsw=8",
            "ttwu lost cpu=3 events=17",
            "ttwu overhead cpu_ns=99\n",
        ]);
        assert_eq!(record.topology.as_deref(), Some("llc=0-1;2-3 node=0-3"));
        let domain = Domain {
            cpu: 1,
            level: 0,
            name: Some("MC".into()),
            span: Some(cpus("0-1")),
            flags: Some("SD_SHARE_LLC,SD_WAKE_AFFINE".into()),
        };
        assert_eq!(record.domains, [domain]);
        assert_eq!(record.fact("boot"), Some("quiet  isolcpus=3"));
        assert_eq!(record.facts_of("tunable").count(), 2);
        let group = ThreadGroup {
            mask: cpus("0-1,3"),
            policy: "fifo".into(),
            rt_prio: 50,
            nice: -5,
            cgroup: "/a b".into(),
            tids: Tids(vec![(1, 3), (9, 9)]),
        };
        assert_eq!(record.threads, [group]);
        assert_eq!(record.cgroups[0].quota_us, Some(50_000));
        let told: Vec<_> = record
            .before
            .processes
            .iter()
            .map(|of| (of.tgid, of.tids.ranges().collect()))
            .collect();
        assert_eq!(
            told,
            [
                (Some(20), vec![(20, 22), (30, 30)]),
                (None, vec![(1, 3), (9, 9)])
            ]
        );
        assert_eq!(record.after.processes[0].tgid, Some(20));
        assert_eq!(record.before.schedstat, "version 16\ncpu0 0 0\n");
        assert_eq!(record.after.throttling[0].nr_throttled, 3);
        assert_eq!(
            record.recorder.unwrap().tids.iter().collect::<Vec<_>>(),
            [12]
        );
        assert_eq!(record.command, ["sh", "-c", "a b", ""]);
        let result = record.result.unwrap();
        assert_eq!((result.end, result.nivcsw), (End::Signal(9), 8));
        assert_eq!(record.lost, [(3, 17)]);
        assert_eq!((record.overhead_ns, record.skipped), (Some(99), 0));
    }

    #[test]
    fn continued_lines_are_joined_over_foreign_ones() {
        let record = MachineRecord::parse([
            "ttwu+ lost its start",
            "ttwu machine boot a",
            "marker",
            "ttwu+  b",
            "ttwu+ c",
            "ttwu machine hz 250",
        ]);
        assert_eq!(record.fact("boot"), Some("a bc"));
        assert_eq!(record.fact("hz"), Some("250"));
        assert_eq!(record.skipped, 1);
    }

    #[test]
    fn what_is_not_understood_is_counted() {
        let record = MachineRecord::parse([
            "ttwu ",
            "ttwu later kind=1",
            "ttwu threads mask=0-99999 policy=other prio=0 nice=0 tids=1",
            "ttwu threads mask=0 policy=other prio=0 nice=0 tids=5-1",
            "ttwu threads mask=0 policy=other prio=0 nice=0 tids=0-2147483647",
            "ttwu domain cpu=70000 level=0",
            "ttwu domain cpu=0 level=0 span=x",
            "ttwu result wall_ns=1",
        ]);
        assert_eq!(
            record,
            MachineRecord {
                skipped: 8,
                ..MachineRecord::default()
            }
        );
        assert!(MachineRecord::parse(["no record"]).is_empty());
    }

    #[test]
    fn all_groups_together_hold_no_more_threads_than_a_machine() {
        let line = "ttwu threads mask=0 policy=other prio=0 nice=0 cgroup=/ tids=1-2000000";
        let record = MachineRecord::parse([line; 5]);
        assert_eq!((record.threads.len(), record.skipped), (2, 3));
    }

    #[test]
    fn words_are_decoded() {
        assert_eq!(decode("a%20b%25%c3%A4"), "a b%ä");
        assert_eq!(decode("%%4%zz%FF"), "%%4%zz\u{fffd}");
    }

    proptest! {
        #[test]
        fn no_text_panics(lines in proptest::collection::vec(
            "ttwu[ +][a-z]{0,9}( (mask|tids|cpu|span|path|policy|prio|nice|level)=[0-9a-z,%-]{0,9}){0,7}.{0,20}", 0..20)) {
            let record = MachineRecord::parse(lines.iter().map(String::as_str));
            prop_assert!(record.skipped <= lines.len() as u64);
        }
    }
}
