//! CPUs of a trace under dense numbers, and sets of them.

use rustc_hash::FxHashMap;

/// Kernel CPU ids above this are damage: the largest configurable kernel has 8,192.
pub const MAX_CPU_ID: u32 = 65_535;

/// The CPUs of a trace, numbered 0.. in the order of their ids.
#[derive(Debug, Clone, Default)]
pub struct CpuMap {
    ids: Vec<u32>,
    index: Vec<u16>,
}

const ABSENT: u16 = u16::MAX;

impl CpuMap {
    /// Numbers the given ids; ids above [`MAX_CPU_ID`] are dropped.
    pub fn new(mut ids: Vec<u32>) -> Self {
        ids.retain(|&id| id <= MAX_CPU_ID);
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(usize::from(ABSENT));
        let mut index = vec![ABSENT; ids.last().map_or(0, |&max| max as usize + 1)];
        for (slot, &id) in ids.iter().enumerate() {
            index[id as usize] = slot as u16;
        }
        Self { ids, index }
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The kernel's ids, ascending.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The dense number of a CPU id.
    #[inline]
    pub fn index(&self, id: u32) -> Option<usize> {
        match self.index.get(id as usize) {
            Some(&slot) if slot != ABSENT => Some(usize::from(slot)),
            _ => None,
        }
    }

    /// The id of a dense number.
    #[inline]
    pub fn id(&self, index: usize) -> u32 {
        self.ids.get(index).copied().unwrap_or(u32::MAX)
    }
}

/// A set of dense CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Box<[u64]>,
}

impl CpuSet {
    /// An empty set with room for `len` CPUs.
    pub fn empty(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64).max(1)].into(),
        }
    }

    /// One of `len` CPUs.
    pub fn only(len: usize, cpu: usize) -> Self {
        let mut set = Self::empty(len);
        set.insert(cpu);
        set
    }

    /// The set of all `len` CPUs.
    pub fn full(len: usize) -> Self {
        let mut set = Self::empty(len);
        (0..len).for_each(|cpu| set.insert(cpu));
        set
    }

    #[inline]
    pub fn insert(&mut self, cpu: usize) {
        if let Some(word) = self.words.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    #[inline]
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.words.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words
            .get(cpu / 64)
            .is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Becomes the intersection of two sets.
    #[inline]
    pub fn assign_and(&mut self, a: &CpuSet, b: &CpuSet) {
        for (word, (x, y)) in self.words.iter_mut().zip(a.words.iter().zip(&b.words)) {
            *word = x & y;
        }
    }

    /// Becomes a copy of a set of the same size.
    #[inline]
    pub fn assign(&mut self, other: &CpuSet) {
        for (word, x) in self.words.iter_mut().zip(&other.words) {
            *word = *x;
        }
    }

    #[inline]
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every CPU of this set is in the other.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.words
            .iter()
            .zip(&other.words)
            .all(|(a, b)| a & !b == 0)
    }

    /// Its CPUs, ascending.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    index * 64 + bit
                })
            })
        })
    }
}

/// An affinity mask, kept once however many tasks have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MaskId(u32);

impl MaskId {
    /// Every CPU.
    pub const ALL: MaskId = MaskId(0);
}

/// All distinct affinity masks of a trace.
#[derive(Debug, Clone)]
pub struct MaskTable {
    masks: Vec<CpuSet>,
    /// Whether each holds one CPU.
    single: Vec<bool>,
    ids: FxHashMap<CpuSet, MaskId>,
}

impl MaskTable {
    /// A table that knows the mask of all `len` CPUs.
    pub fn new(len: usize) -> Self {
        let all = CpuSet::full(len);
        Self {
            ids: FxHashMap::from_iter([(all.clone(), MaskId::ALL)]),
            single: vec![len == 1],
            masks: vec![all],
        }
    }

    pub fn intern(&mut self, mask: CpuSet) -> MaskId {
        if let Some(&id) = self.ids.get(&mask) {
            return id;
        }
        let id = MaskId(self.masks.len() as u32);
        self.ids.insert(mask.clone(), id);
        self.single.push(mask.len() == 1);
        self.masks.push(mask);
        id
    }

    /// Whether a mask holds exactly one CPU.
    #[inline]
    pub fn is_single(&self, id: MaskId) -> bool {
        self.single.get(id.0 as usize).copied().unwrap_or(false)
    }

    #[inline]
    pub fn get(&self, id: MaskId) -> &CpuSet {
        // Every id comes from `intern`; the first mask stands in for one that does not.
        self.masks.get(id.0 as usize).unwrap_or(&self.masks[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_ids_get_dense_numbers() {
        let map = CpuMap::new(vec![300, 2, 2, 70_000]);
        assert_eq!(map.ids(), [2, 300]);
        assert_eq!(
            (map.index(300), map.index(3), map.index(9999)),
            (Some(1), None, None)
        );
        assert_eq!(map.id(1), 300);
    }

    #[test]
    fn masks_are_interned_and_zero_is_every_cpu() {
        let mut table = MaskTable::new(130);
        let mut mask = CpuSet::empty(130);
        mask.insert(129);
        let id = table.intern(mask.clone());
        assert_eq!(table.intern(mask.clone()), id);
        assert_eq!(table.get(id).iter().collect::<Vec<_>>(), [129]);
        assert_eq!(table.intern(CpuSet::full(130)), MaskId::ALL);
        assert!(mask.is_subset(table.get(MaskId::ALL)));
    }
}
