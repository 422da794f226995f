//! Which threads are of one process: scheduler events name threads alone.

use std::collections::{BTreeMap, BTreeSet};

use super::Stage;
use super::encode::list;
use super::namespaces::{Namespace, in_own_namespace};
use super::root::Root;

/// The threads of the system at one moment, by process, as near as reading one after another comes to it.
#[derive(Debug, Default)]
pub struct Processes(BTreeMap<i32, BTreeSet<i32>>);

impl Processes {
    /// Reads the names in `/proc/PID/task`; nothing in a pid namespace that is not the machine's, whose ids are others than
    /// those of the events.
    pub fn read(root: &Root) -> Self {
        let mut processes = BTreeMap::new();
        if in_own_namespace(root, Namespace::Pid) {
            return Self(processes);
        }
        let id = |number: u32| i32::try_from(number).ok();
        for pid in root.numbered("proc", "") {
            let tids = root.numbered(format!("proc/{pid}/task"), "");
            let tids: BTreeSet<i32> = tids.into_iter().filter_map(id).collect();
            if let Some(pid) = id(pid).filter(|_| !tids.is_empty()) {
                processes.insert(pid, tids);
            }
        }
        Self(processes)
    }

    /// The threads that were not there before, or not in that process.
    pub fn since(mut self, before: &Self) -> Self {
        for (pid, tids) in &mut self.0 {
            if let Some(known) = before.0.get(pid) {
                tids.retain(|tid| !known.contains(tid));
            }
        }
        self.0.retain(|_, tids| !tids.is_empty());
        self
    }

    /// The lines of the record: one for each process of several threads, and one for all others.
    pub fn lines(&self, stage: Stage) -> Vec<String> {
        let stage = stage.as_str();
        let mut lines = Vec::new();
        let mut alone = Vec::new();
        for (pid, tids) in &self.0 {
            if tids.iter().eq([pid]) {
                alone.push(*pid);
                continue;
            }
            let tids: Vec<i32> = tids.iter().copied().collect();
            let tids = list(&tids);
            lines.push(format!("ttwu {stage} process tgid={pid} tids={tids}"));
        }
        if !alone.is_empty() {
            lines.push(format!("ttwu {stage} process alone={}", list(&alone)));
        }
        lines
    }
}
