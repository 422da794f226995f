//! Tasks in sets that grow together.

/// Disjoint sets of tasks, whose numbers are dense. Each goes by its lowest number; a task that was never united with any
/// is in none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sets {
    /// Of each task another of its set, with a lower number; of the lowest itself.
    towards: Vec<u32>,
}

/// Leads nowhere.
const ALONE: u32 = u32::MAX;

impl Sets {
    fn next(&self, task: u32) -> Option<u32> {
        let next = self.towards.get(task as usize).copied();
        next.filter(|next| *next != ALONE)
    }

    /// The lowest task of a task's set.
    pub fn of(&self, task: u32) -> Option<u32> {
        let (mut at, mut next) = (task, self.next(task)?);
        while next != at {
            at = next;
            next = self.next(at).unwrap_or(at);
        }
        Some(at)
    }

    /// Puts two tasks and all that are in a set with them into one.
    pub fn unite(&mut self, a: u32, b: u32) {
        let (set_a, set_b) = (self.of(a), self.of(b));
        if set_a.is_some() && set_a == set_b {
            return;
        }
        let lowest = set_a.unwrap_or(a).min(set_b.unwrap_or(b));
        for task in [set_a.unwrap_or(a), set_b.unwrap_or(b), a, b] {
            self.lead(task, lowest);
        }
    }

    fn lead(&mut self, task: u32, lowest: u32) {
        let place = task as usize;
        if place >= self.towards.len() {
            self.towards.resize(place + 1, ALONE);
        }
        if let Some(towards) = self.towards.get_mut(place) {
            *towards = lowest;
        }
    }

    /// Unites what another's sets hold together.
    pub fn join(&mut self, more: &Self) {
        for (task, towards) in (0..).zip(&more.towards) {
            if *towards != ALONE {
                self.unite(task, *towards);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_grow_together() {
        let mut sets = Sets::default();
        sets.unite(4, 5);
        sets.unite(1, 2);
        let mut other = Sets::default();
        other.unite(5, 2);
        other.unite(7, 7);
        sets.join(&other);
        let of: Vec<_> = (0..8).map(|task| sets.of(task)).collect();
        let (one, none) = (Some(1), None);
        assert_eq!(of, [none, one, one, none, one, one, none, Some(7)]);
    }

    proptest! {
        /// Tasks are in one set if, and only if, a way of united pairs leads from one to the other.
        #[test]
        fn sets_are_what_pairs_connect(pairs in prop::collection::vec((0u32..12, 0u32..12), 0..20)) {
            let mut sets = Sets::default();
            pairs.iter().for_each(|(a, b)| sets.unite(*a, *b));
            let mut lowest: Vec<Option<u32>> = vec![None; 12];
            for _ in 0..=pairs.len() {
                for (a, b) in &pairs {
                    let of = |task: &u32| lowest[*task as usize].unwrap_or(*task);
                    let least = of(a).min(of(b));
                    lowest[*a as usize] = Some(least);
                    lowest[*b as usize] = Some(least);
                }
            }
            let found: Vec<Option<u32>> = (0..12).map(|task| sets.of(task)).collect();
            prop_assert_eq!(found, lowest);
        }
    }
}
