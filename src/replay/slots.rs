//! Storage for what is under way, in slots that are used again: nothing is moved when one is given back.

/// Values in numbered slots.
#[derive(Debug)]
pub struct Slots<T> {
    values: Vec<T>,
    taken: Vec<bool>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            taken: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// Puts a value into a free slot, the one given back last.
    #[inline]
    pub fn insert(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.values[slot] = value;
                self.taken[slot] = true;
                slot
            }
            None => {
                self.values.push(value);
                self.taken.push(true);
                self.values.len() - 1
            }
        }
    }

    /// Gives a slot back. What it held stays there, out of reach, until the slot is used again.
    #[inline]
    pub fn free(&mut self, slot: usize) {
        if let Some(taken) = self.taken.get_mut(slot)
            && std::mem::take(taken)
        {
            self.free.push(slot);
        }
    }

    #[inline]
    pub fn get(&self, slot: usize) -> Option<&T> {
        let taken = self.taken.get(slot).copied().unwrap_or(false);
        self.values.get(slot).filter(|_| taken)
    }

    #[inline]
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        let taken = self.taken.get(slot).copied().unwrap_or(false);
        self.values.get_mut(slot).filter(|_| taken)
    }

    /// The slots in use, ascending.
    pub fn taken(&self) -> Vec<usize> {
        let taken = self.taken.iter().enumerate();
        taken
            .filter(|(_, taken)| **taken)
            .map(|(slot, _)| slot)
            .collect()
    }
}

// For slots that are known to be in use.
impl<T> std::ops::Index<usize> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: usize) -> &T {
        debug_assert!(self.taken[slot]);
        &self.values[slot]
    }
}

impl<T> std::ops::IndexMut<usize> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut T {
        debug_assert!(self.taken[slot]);
        &mut self.values[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_empty_ones_hold_nothing() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        slots.free(a);
        slots.free(a);
        assert_eq!((slots.get(a), slots.get(b)), (None, Some(&'b')));
        assert_eq!(slots.taken(), [b]);
        assert_eq!((slots.insert('c'), slots.insert('d')), (a, 2));
        assert_eq!(slots[a], 'c');
    }
}
