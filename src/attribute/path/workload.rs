//! Which tasks belong together: those that wake each other, directly or through others.

use polars::prelude::PolarsResult;

use super::super::blocks::Block;
use super::super::scope::Scope;
use super::chain::is_followed;
use crate::replay::words::Waker;

/// Tasks in sets that grow together.
#[derive(Debug, Clone)]
pub struct Groups {
    /// A task of the same set that leads to the one which stands for it, and to itself there.
    towards: Vec<u32>,
}

impl Groups {
    /// Every task for itself.
    pub fn new(tasks: usize) -> Self {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        Self {
            towards: (0..tasks).collect(),
        }
    }

    /// The groups of a trace's wakers and wakees.
    pub fn read(scope: &Scope, tasks: usize) -> PolarsResult<Self> {
        let (groups, _) = scope.every_wakeup().fold(
            &["waker", "wakee", "context"],
            || (Self::new(tasks), Scratch::default()),
            |(groups, scratch), block| groups.take(block, scratch),
            |(groups, _), (more, _)| groups.join(&more),
        )?;
        Ok(groups)
    }

    fn take(&mut self, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
        let followed = Waker::ALL.iter().map(|context| is_followed(*context));
        let followed: Vec<bool> = followed.collect();
        let wakers = block.numbers("waker", &mut scratch.wakers)?.iter();
        let pairs = wakers.zip(block.numbers("wakee", &mut scratch.wakees)?);
        let contexts = block.codes("context", &mut scratch.contexts)?;
        let mut last = (0, 0);
        for ((&waker, &wakee), &context) in pairs.zip(contexts) {
            let counts = followed.get(usize::from(context)).copied();
            // Pairs repeat.
            if counts == Some(true) && last != (waker, wakee) {
                last = (waker, wakee);
                self.unite(waker, wakee);
            }
        }
        Ok(())
    }

    /// The task that stands for the set of a task; none for a number that is no task's.
    pub fn of(&self, task: u32) -> Option<u32> {
        let mut at = task;
        loop {
            let next = *self.towards.get(at as usize)?;
            if next == at {
                return Some(at);
            }
            at = next;
        }
    }

    /// The lower number stands for both sets, so that ways never lead in circles.
    fn unite(&mut self, a: u32, b: u32) {
        let (Some(root_a), Some(root_b)) = (self.of(a), self.of(b)) else {
            return;
        };
        let root = root_a.min(root_b);
        for from in [root_a, root_b, a, b] {
            self.shorten(from, root);
        }
    }

    /// Makes a task's way lead straight to one that stands for its set.
    fn shorten(&mut self, from: u32, root: u32) {
        if let Some(towards) = self.towards.get_mut(from as usize) {
            *towards = root;
        }
    }

    fn join(&mut self, more: &Self) {
        for (task, towards) in (0..).zip(&more.towards) {
            if task != *towards {
                self.unite(task, *towards);
            }
        }
    }
}

#[derive(Default)]
struct Scratch {
    wakers: Vec<u32>,
    wakees: Vec<u32>,
    contexts: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_grow_together() {
        let mut groups = Groups::new(6);
        groups.unite(4, 5);
        groups.unite(1, 2);
        groups.unite(9, 1);
        let mut other = Groups::new(6);
        other.unite(5, 2);
        groups.join(&other);
        let of: Vec<_> = (0..7).map(|task| groups.of(task)).collect();
        let (one, none) = (Some(1), None);
        assert_eq!(of, [Some(0), one, one, Some(3), one, one, none]);
    }
}
