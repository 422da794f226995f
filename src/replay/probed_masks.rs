//! Affinity masks that probes show, under dense numbers: each crosses to the replay once, and wakings name its number.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;

use ttwu_parsers::event::CpuMask;

/// Most masks that are told apart: a machine has a few. Beyond, a selection's mask counts as not recorded.
const MASKS: usize = 65_536;

/// A mask's place in the order of first mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaskNumber(NonZeroU32);

impl MaskNumber {
    fn of(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }

    /// Counts up from 0.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Every mask mentioned so far.
#[derive(Debug, Default)]
pub struct ProbedMasks {
    numbers: FxHashMap<CpuMask, MaskNumber>,
    /// Those that the replay has not been told.
    untold: Vec<CpuMask>,
    told: usize,
}

impl ProbedMasks {
    /// The number of a mask; copies it only at its first mention.
    pub fn number(&mut self, mask: &CpuMask) -> Option<MaskNumber> {
        if let Some(&number) = self.numbers.get(mask) {
            return Some(number);
        }
        let index = self.numbers.len();
        if index >= MASKS {
            return None;
        }
        let number = MaskNumber::of(index)?;
        self.numbers.insert(mask.clone(), number);
        self.untold.push(mask.clone());
        Some(number)
    }

    /// Tells all masks up to one, in the order of their numbers, that were not told before.
    #[inline]
    pub fn tell(&mut self, number: MaskNumber, to: &mut Vec<CpuMask>) {
        let wanted = (number.index() + 1).saturating_sub(self.told);
        if wanted > 0 {
            let wanted = wanted.min(self.untold.len());
            to.extend(self.untold.drain(..wanted));
            self.told += wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mask_is_told_once_and_in_order() {
        let mask = |word: u64| CpuMask(smallvec::smallvec![word]);
        let mut masks = ProbedMasks::default();
        let numbers = [1, 2, 1, 3].map(|word| masks.number(&mask(word)).unwrap());
        assert_eq!(numbers.map(MaskNumber::index), [0, 1, 0, 2]);
        let mut told = Vec::new();
        masks.tell(numbers[1], &mut told);
        assert_eq!(told, [mask(1), mask(2)]);
        masks.tell(numbers[0], &mut told);
        masks.tell(numbers[3], &mut told);
        assert_eq!(told, [mask(1), mask(2), mask(3)]);
    }
}
