//! Which tasks belong together: those that wake each other, directly or through others.

use polars::prelude::PolarsResult;

use super::super::blocks::{Block, NO_NUMBER};
use super::super::scope::Scope;
use super::super::sets::Sets;
use super::chain::is_followed;
use crate::replay::words::Waker;

/// Groups of tasks; one that no other woke, nor was woken by, is a group of its own.
#[derive(Debug, Clone)]
pub struct Groups(Sets);

impl Groups {
    /// The groups of a trace's wakers and wakees.
    pub fn read(scope: &Scope) -> PolarsResult<Self> {
        let (groups, _) = scope.every_wakeup().fold(
            &["waker", "wakee", "context"],
            <(Sets, Scratch)>::default,
            |(groups, scratch), block| take(groups, block, scratch),
            |(groups, _), (more, _)| groups.join(&more),
        )?;
        Ok(Self(groups))
    }

    /// The task that stands for the group of a task.
    pub fn of(&self, task: u32) -> u32 {
        self.0.of(task).unwrap_or(task)
    }
}

fn take(groups: &mut Sets, block: &Block, scratch: &mut Scratch) -> PolarsResult<()> {
    let followed = Waker::ALL.iter().map(|context| is_followed(*context));
    let followed: Vec<bool> = followed.collect();
    let wakers = block.numbers("waker", &mut scratch.wakers)?.iter();
    let pairs = wakers.zip(block.numbers("wakee", &mut scratch.wakees)?);
    let contexts = block.codes("context", &mut scratch.contexts)?;
    let mut last = (0, 0);
    for ((&waker, &wakee), &context) in pairs.zip(contexts) {
        let counts = followed.get(usize::from(context)).copied();
        // Pairs repeat.
        if counts == Some(true) && waker != NO_NUMBER && last != (waker, wakee) {
            last = (waker, wakee);
            groups.unite(waker, wakee);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Scratch {
    wakers: Vec<u32>,
    wakees: Vec<u32>,
    contexts: Vec<u8>,
}
