//! Removes what runs of this program that were killed have left in the kernel.

use super::tracefs::Tracefs;
use super::{instance, owner::Owner, probes};

/// What was found and what became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Names of what is gone now: instances of ftrace, and groups of probes.
    pub removed: Vec<String>,
    /// What is still there, and why.
    pub kept: Vec<String>,
}

/// Removes instances and probes of dead runs. Those of runs that live are not touched; nor could they be, as they are
/// in use.
pub fn clean(tracefs: &Tracefs) -> Cleaned {
    let mut cleaned = Cleaned::default();
    // Instances first: what is enabled in them uses the probes.
    for name in instance::abandoned(tracefs) {
        let done = instance::remove_named(tracefs, &name);
        cleaned.note(
            format!("instance {name}"),
            done.map_err(|error| error.to_string()),
        );
    }
    let dead = |group: &String| Owner::of(group).is_some_and(|owner| owner.is_dead());
    for group in probes::groups(tracefs).into_iter().filter(dead) {
        let done = probes::remove_group(tracefs, &group);
        cleaned.note(
            format!("probes {group}"),
            done.map_err(|error| error.to_string()),
        );
    }
    cleaned
}

impl Cleaned {
    fn note(&mut self, what: String, done: Result<(), String>) {
        match done {
            Ok(()) => self.removed.push(what),
            Err(why) => self.kept.push(format!("{what}: {why}")),
        }
    }
}
