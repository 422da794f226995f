//! The tasks that flip most.

use std::cmp::Reverse;

use polars::prelude::*;

use super::super::answer::{FlipTask, Known};
use super::super::scope::Scope;
use super::tally::{OfTask, Tally};
use crate::replay::flips::is_bound;

/// The selected tasks that flip most, then those of which most was decided.
pub fn tasks(scope: &Scope, tally: &Tally) -> PolarsResult<Vec<FlipTask>> {
    let named = Named::read(scope)?;
    let met = |of: &OfTask| of.as_waker.all() + of.as_wakee.all();
    let mut worst: Vec<(u32, &OfTask)> = (0_u32..)
        .zip(&tally.tasks)
        .filter(|(task, of)| (of.flips > 0 || met(of) > 0) && named.get(*task).is_some())
        .collect();
    worst.sort_unstable_by_key(|(task, of)| (Reverse((of.flips, met(of))), *task));
    worst.truncate(scope.top);
    let seconds = scope.facts.config.window.duration_ns() as f64 / 1e9;
    let facts = worst.into_iter().filter_map(|(task, of)| {
        let named = named.get(task)?;
        Some(FlipTask {
            name: named.name.clone(),
            pid: named.pid,
            generation: named.generation,
            flips: match of.span {
                Some([least, most]) if !is_bound(most) => Known::unknown(format!(
                    "{least} or more: what it was before the trace is not known"
                )),
                Some(span) => Known::Value(span),
                None => Known::unknown("it woke no other task"),
            },
            flips_per_second: if seconds > 0.0 {
                of.flips as f64 / seconds
            } else {
                0.0
            },
            as_waker: of.as_waker,
            as_wakee: of.as_wakee,
        })
    });
    Ok(facts.collect())
}

impl super::super::answer::Decided {
    fn all(&self) -> u64 {
        self.wide + self.affine + self.open
    }
}

/// The selected tasks by number, but for those that are left out.
pub struct Named(Vec<Option<Name>>);

#[derive(Debug, Clone)]
pub struct Name {
    pub name: String,
    pub pid: i32,
    pub generation: u32,
}

impl Named {
    pub fn read(scope: &Scope) -> PolarsResult<Self> {
        let columns = ["task", "name", "pid", "generation"].map(col);
        let frame = scope.tasks()?.select(columns).collect()?;
        let mut all = Self(Vec::new());
        let numbers = frame.column("task")?.u32()?.iter();
        let names = frame.column("name")?.str()?.iter();
        let pids = frame.column("pid")?.i32()?.iter();
        let generations = frame.column("generation")?.u32()?.iter();
        for (((task, name), pid), generation) in numbers.zip(names).zip(pids).zip(generations) {
            let place = task.unwrap_or(0) as usize;
            if all.0.len() <= place {
                all.0.resize(place + 1, None);
            }
            if let Some(slot) = all.0.get_mut(place) {
                *slot = Some(Name {
                    name: name.unwrap_or("").to_owned(),
                    pid: pid.unwrap_or(-1),
                    generation: generation.unwrap_or(0),
                });
            }
        }
        Ok(all)
    }

    pub fn get(&self, task: u32) -> Option<&Name> {
        self.0.get(task as usize)?.as_ref()
    }
}
