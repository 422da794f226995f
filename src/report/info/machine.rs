//! What the machine record says, made safe to print.

use std::collections::BTreeMap;

use serde::Serialize;
use ttwu_parsers::event::escape;
use ttwu_parsers::machine_record::{
    Cgroup as RecordedCgroup, CommandResult, End, MachineRecord, Throttling as Counters,
};
use ttwu_parsers::topology::cpulist::format_list;

/// The machine as it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    pub recorder: Option<Recorder>,
    /// Facts by key; some come more than once.
    pub facts: BTreeMap<String, Vec<String>>,
    /// Threads alive at the start.
    pub threads: u64,
    /// Scheduler domains of all CPUs.
    pub domains: u64,
    pub cgroups: Vec<Cgroup>,
    pub command: Vec<String>,
    pub result: Option<Outcome>,
    pub lost: Vec<Lost>,
    /// CPU time of the recorder's own threads.
    pub overhead_ns: Option<u64>,
    /// Lines that were not understood.
    pub skipped_lines: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorder {
    pub version: String,
    pub backend: String,
    pub threads: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cgroup {
    pub path: String,
    pub cpus: Option<String>,
    pub quota_us: Option<u64>,
    pub period_us: Option<u64>,
    pub before: Option<Throttling>,
    pub after: Option<Throttling>,
}

/// A cgroup's counters since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Throttling {
    pub nr_periods: u64,
    pub nr_throttled: u64,
    pub throttled_us: u64,
}

/// How the command ended, and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub wall_ns: u64,
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub utime_ns: u64,
    pub stime_ns: u64,
    pub maxrss_kb: u64,
    pub minflt: u64,
    pub majflt: u64,
    pub nvcsw: u64,
    pub nivcsw: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lost {
    pub cpu: u32,
    pub events: u64,
}

fn safe(text: &str) -> String {
    escape(text.as_bytes())
}

impl Machine {
    /// `None` for a trace without a record; topology markers alone are none.
    pub fn of(record: &MachineRecord) -> Option<Self> {
        let of_topology_alone = MachineRecord {
            topology: record.topology.clone(),
            skipped: record.skipped,
            ..MachineRecord::default()
        };
        if *record == of_topology_alone {
            return None;
        }
        let recorder = record.recorder.as_ref();
        Some(Self {
            recorder: recorder.map(|recorder| Recorder {
                version: safe(&recorder.version),
                backend: safe(&recorder.backend),
                threads: recorder.tids.len(),
            }),
            facts: facts(record),
            threads: record.threads.iter().map(|group| group.tids.len()).sum(),
            domains: record.domains.len() as u64,
            cgroups: cgroups(record),
            command: record.command.iter().map(|word| safe(word)).collect(),
            result: record.result.as_ref().map(Outcome::of),
            lost: record
                .lost
                .iter()
                .map(|&(cpu, events)| Lost { cpu, events })
                .collect(),
            overhead_ns: record.overhead_ns,
            skipped_lines: record.skipped,
        })
    }

    /// The first fact of a key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts_of(key).first().map(String::as_str)
    }

    /// All facts of a key.
    pub fn facts_of(&self, key: &str) -> &[String] {
        self.facts.get(key).map_or(&[], Vec::as_slice)
    }
}

fn facts(record: &MachineRecord) -> BTreeMap<String, Vec<String>> {
    let mut facts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, text) in &record.facts {
        facts.entry(safe(key)).or_default().push(safe(text));
    }
    facts
}

/// Cgroups that have settings, then those that have counters alone.
fn cgroups(record: &MachineRecord) -> Vec<Cgroup> {
    let mut found: BTreeMap<&str, Cgroup> = BTreeMap::new();
    for cgroup in &record.cgroups {
        found.insert(&cgroup.path, Cgroup::of(cgroup));
    }
    for (counters, after) in [
        (&record.before.throttling, false),
        (&record.after.throttling, true),
    ] {
        for counters in counters {
            let cgroup = found.entry(&counters.path).or_insert_with(|| {
                Cgroup::of(&RecordedCgroup {
                    path: counters.path.clone(),
                    ..RecordedCgroup::default()
                })
            });
            let side = match after {
                true => &mut cgroup.after,
                false => &mut cgroup.before,
            };
            *side = Some(Throttling::of(counters));
        }
    }
    found.into_values().collect()
}

impl Cgroup {
    fn of(cgroup: &RecordedCgroup) -> Self {
        let cpus = cgroup.cpus.as_ref();
        Self {
            path: safe(&cgroup.path),
            cpus: cpus.map(|cpus| format_list(&cpus.to_vec())),
            quota_us: cgroup.quota_us,
            period_us: cgroup.period_us,
            before: None,
            after: None,
        }
    }

    /// What the counters rose by during the recording.
    pub fn throttled(&self) -> Option<Throttling> {
        let (before, after) = (self.before?, self.after?);
        Some(Throttling {
            nr_periods: after.nr_periods.saturating_sub(before.nr_periods),
            nr_throttled: after.nr_throttled.saturating_sub(before.nr_throttled),
            throttled_us: after.throttled_us.saturating_sub(before.throttled_us),
        })
    }
}

impl Throttling {
    fn of(counters: &Counters) -> Self {
        Self {
            nr_periods: counters.nr_periods,
            nr_throttled: counters.nr_throttled,
            throttled_us: counters.throttled_us,
        }
    }
}

impl Outcome {
    fn of(result: &CommandResult) -> Self {
        let (exit, signal) = match result.end {
            End::Exit(code) => (Some(code), None),
            End::Signal(signal) => (None, Some(signal)),
        };
        Self {
            wall_ns: result.wall_ns,
            exit,
            signal,
            utime_ns: result.utime_ns,
            stime_ns: result.stime_ns,
            maxrss_kb: result.maxrss_kb,
            minflt: result.minflt,
            majflt: result.majflt,
            nvcsw: result.nvcsw,
            nivcsw: result.nivcsw,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_alone_is_no_recorded_machine() {
        let record = MachineRecord::parse(["ttwu topology llc=0-3", "ttwu unknown"]);
        assert_eq!(Machine::of(&record), None);
        assert_eq!(Machine::of(&MachineRecord::default()), None);
    }

    #[test]
    fn counters_are_those_of_the_recording() {
        let record = MachineRecord::parse([
            "ttwu cgroup path=/a%1b cpus=0-3 quota_us=50000 period_us=100000",
            "ttwu before cgroup path=/a%1b nr_periods=10 nr_throttled=3 throttled_us=700",
            "ttwu after cgroup path=/a%1b nr_periods=30 nr_throttled=7 throttled_us=1000",
            "ttwu after cgroup path=/b nr_periods=1 nr_throttled=0 throttled_us=0",
        ]);
        let machine = Machine::of(&record).unwrap();
        let [a, b] = machine.cgroups.as_slice() else {
            panic!("{machine:?}");
        };
        assert_eq!(
            (a.path.as_str(), a.cpus.as_deref()),
            ("/a\\u{1b}", Some("0-3"))
        );
        let rose = Throttling {
            nr_periods: 20,
            nr_throttled: 4,
            throttled_us: 300,
        };
        assert_eq!((a.throttled(), b.throttled()), (Some(rose), None));
    }
}
