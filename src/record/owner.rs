//! Whose things in the kernel are: names that tell a run from another, and whether that run still lives.
//!
//! A pid alone would not do, since it is given out again; with the process's start time it is unique until reboot, and
//! tracefs does not survive that.

use std::fs;
use std::process;

/// A run of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// In clock ticks since boot: field 22 of `/proc/PID/stat`, proc(5).
    started: u64,
}

impl Owner {
    /// This process.
    pub fn this() -> Self {
        let pid = process::id();
        let started = started(pid).unwrap_or(0);
        Self { pid, started }
    }

    /// A name for things of this run that is a valid name of an ftrace instance and of a group of events.
    pub fn name(&self) -> String {
        format!("ttwu_{}_{}", self.pid, self.started)
    }

    /// The run that gave a thing its name; `None` if that was no run of this program.
    pub fn of(name: &str) -> Option<Self> {
        let (pid, started) = name.strip_prefix("ttwu_")?.split_once('_')?;
        Some(Self {
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    /// Whether the run has ended, however. A zombie has.
    pub fn is_dead(&self) -> bool {
        started(self.pid) != Some(self.started)
    }
}

/// When a process started; `None` if there is none, or only its remains.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, can hold anything.
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_runs_apart() {
        let this = Owner::this();
        assert!(!this.is_dead());
        assert_eq!(Owner::of(&this.name()), Some(this));
        let reused = Owner {
            started: this.started + 1,
            ..this
        };
        assert!(reused.is_dead(), "the pid is another process's now");
        assert_eq!(Owner::of("ttwu_1"), None);
        assert_eq!(Owner::of("mine"), None);
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = process::Command::new("true").spawn().unwrap();
        let zombie = || started(child.id()).is_none();
        assert!((0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            zombie()
        }));
        child.wait().unwrap();
    }
}
