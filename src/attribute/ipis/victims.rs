//! Whose time handlers took: tasks, and the processes that they belong to.

use std::cmp::Reverse;

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::requests::Found;
use crate::attribute::answer::StolenFrom;
use crate::attribute::scope::Scope;

/// A task's names.
#[derive(Debug, Clone, Default)]
pub struct Name {
    pub name: String,
    pub pid: i32,
    pub generation: u32,
    pub tgid: Option<i32>,
}

/// Every task by number.
#[derive(Debug, Default)]
pub struct Names(FxHashMap<u32, Name>);

impl Names {
    pub fn of(scope: &Scope) -> PolarsResult<Self> {
        let columns = ["task", "name", "pid", "generation", "tgid"].map(col);
        let tasks = scope.every_task()?.select(columns).collect()?;
        let rows = tasks.column("task")?.u32()?.iter();
        let rows = rows.zip(tasks.column("name")?.str()?.iter());
        let rows = rows.zip(tasks.column("pid")?.i32()?.iter());
        let rows = rows.zip(tasks.column("generation")?.u32()?.iter());
        let rows = rows.zip(tasks.column("tgid")?.i32()?.iter());
        let named = rows.filter_map(|((((task, name), pid), generation), tgid)| {
            let name = Name {
                name: name.unwrap_or_default().to_owned(),
                pid: pid.unwrap_or(-1),
                generation: generation.unwrap_or(0),
                tgid,
            };
            Some((task?, name))
        });
        Ok(Self(named.collect()))
    }

    pub fn get(&self, task: u32) -> Option<&Name> {
        self.0.get(&task)
    }

    /// The process of a task, where the trace tells; else the task itself.
    pub fn process(&self, task: u32) -> Option<i32> {
        let name = self.get(task)?;
        Some(name.tgid.unwrap_or(name.pid))
    }

    /// A process' name: that of its main thread, else of any.
    pub fn of_process(&self, pid: i32) -> String {
        let tasks = || self.0.values();
        let main = tasks().filter(|name| name.pid == pid);
        let main = main.max_by_key(|name| name.generation);
        let any = || {
            tasks()
                .filter(|n| n.tgid == Some(pid))
                .min_by_key(|n| n.pid)
        };
        main.or_else(any)
            .map(|name| name.name.clone())
            .unwrap_or_default()
    }
}

impl Found {
    /// The tasks that lost most to handlers.
    pub fn stolen_from(&self, names: &Names, top: usize) -> Vec<StolenFrom> {
        let mut worst: Vec<_> = self.taken.iter().collect();
        worst.sort_unstable_by_key(|(task, taken)| (Reverse(taken.ns), **task));
        let facts = worst.into_iter().take(top);
        let facts = facts.filter_map(|(task, taken)| {
            let name = names.get(*task)?;
            Some(StolenFrom {
                name: name.name.clone(),
                pid: name.pid,
                generation: name.generation,
                ns: taken.ns,
                handlers: taken.handlers,
                tlb_ns: taken.tlb_ns,
            })
        });
        facts.collect()
    }
}
