//! What the machine record says of the tasks that were alive as the recording began: where each might run, and which
//! were the recorder's own.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cpuset::{CpuMap, CpuSet, MaskId, MaskTable};

/// Tasks alive at the start, by thread id.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Sets of CPU ids.
    masks: Vec<Vec<u32>>,
    /// Places in `masks`.
    by_tid: FxHashMap<i32, usize>,
    /// `None` where no record names its threads.
    recorder: Option<FxHashSet<i32>>,
    /// Which process threads were of as the recording began, and of others as it ended.
    pub processes: [Processes; 2],
}

/// Which process threads are of at one time.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    /// First and last thread id, and the process; without one, each thread is a process. Sorted by the first.
    ranges: Vec<(i32, i32, Option<i32>)>,
}

impl Processes {
    /// Of overlapping ranges, which no recorder writes, the one that begins last counts.
    pub fn new(ranges: impl IntoIterator<Item = (i32, i32, Option<i32>)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The process that a thread is of.
    pub fn of(&self, tid: i32) -> Option<i32> {
        let at = self.ranges.partition_point(|(first, ..)| *first <= tid);
        let (_, last, process) = *self.ranges.get(at.checked_sub(1)?)?;
        (tid <= last).then_some(process.unwrap_or(tid))
    }
}

/// Most threads that are taken for the recorder's.
const RECORDER_THREADS: usize = 65_536;

impl Snapshot {
    /// These threads may run on these CPUs.
    pub fn allow(&mut self, tids: impl IntoIterator<Item = i32>, mask: &[u32]) {
        let place = self.masks.len();
        self.masks.push(mask.to_vec());
        self.by_tid.extend(tids.into_iter().map(|tid| (tid, place)));
    }

    /// The CPUs that a thread might run on.
    pub fn mask(&self, tid: i32) -> Option<&[u32]> {
        let place = self.by_tid.get(&tid)?;
        self.masks.get(*place).map(Vec::as_slice)
    }

    /// These threads are the recorder's.
    pub fn name_recorder(&mut self, tids: impl IntoIterator<Item = i32>) {
        let tids = tids.into_iter().take(RECORDER_THREADS);
        self.recorder.get_or_insert_default().extend(tids);
    }

    /// Whether the recorder's threads are known.
    pub fn names_recorder(&self) -> bool {
        self.recorder.is_some()
    }

    pub(super) fn recorder(&self) -> FxHashSet<i32> {
        self.recorder.clone().unwrap_or_default()
    }

    /// Each thread's mask. CPUs that the trace does not have do not count; a mask without any other is none.
    pub(super) fn intern(&self, cpus: &CpuMap, table: &mut MaskTable) -> FxHashMap<i32, MaskId> {
        let masks: Vec<Option<MaskId>> = self
            .masks
            .iter()
            .map(|mask| intern(mask.iter().copied(), cpus, table))
            .collect();
        let of_tid = |(&tid, &place): (&i32, &usize)| Some((tid, masks.get(place).copied()??));
        self.by_tid.iter().filter_map(of_tid).collect()
    }
}

/// The set of those of some CPU ids that the trace has; `None` if it has none of them.
pub(super) fn intern(
    ids: impl Iterator<Item = u32>,
    cpus: &CpuMap,
    table: &mut MaskTable,
) -> Option<MaskId> {
    let mut set = CpuSet::empty(cpus.len());
    ids.filter_map(|id| cpus.index(id))
        .for_each(|cpu| set.insert(cpu));
    (!set.is_empty()).then(|| table.intern(set))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_of_the_process_whose_range_holds_them() {
        let found = Processes::new([(20, 22, Some(20)), (1, 9, None), (30, 30, Some(20))]);
        let of = [0, 1, 9, 10, 20, 22, 23, 30, 31].map(|tid| found.of(tid));
        let twenty = Some(20);
        let expected = [
            None,
            Some(1),
            Some(9),
            None,
            twenty,
            twenty,
            None,
            twenty,
            None,
        ];
        assert_eq!(of, expected);
        assert_eq!(Processes::default().of(1), None);
    }

    #[test]
    fn cpus_that_the_trace_lacks_do_not_count() {
        let cpus = CpuMap::new(vec![0, 1, 2]);
        let mut table = MaskTable::new(cpus.len());
        let mut snapshot = Snapshot::default();
        snapshot.allow([10, 11], &[1, 9]);
        snapshot.allow([12], &[9]);
        snapshot.allow([13], &[0, 1, 2, 9]);
        let masks = snapshot.intern(&cpus, &mut table);
        assert_eq!(table.get(masks[&10]).iter().collect::<Vec<_>>(), [1]);
        assert_eq!(masks[&10], masks[&11]);
        assert_eq!(masks.get(&12), None);
        assert_eq!(masks[&13], MaskId::ALL);
    }
}
