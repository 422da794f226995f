//! `record_wakee` as the kernel keeps it: whom a task woke last, and how often that changed (Linux 3.16 to 7.1).

use super::scheduler::Task;

/// Ticks a second.
pub const HZ: i64 = 250;
pub const TICK_NS: i64 = 1_000_000_000 / HZ;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flips {
    pub flips: u32,
    /// In ticks.
    pub decayed: i64,
    pub last: Option<Task>,
}

impl Flips {
    /// The waker is charged a wakeup of `wakee`.
    pub fn charge(&mut self, wakee: Task, ticks: i64) {
        if ticks > self.decayed + HZ {
            self.flips >>= 1;
            self.decayed = ticks;
        }
        if self.last != Some(wakee) {
            self.last = Some(wakee);
            self.flips += 1;
        }
    }
}

/// Whether the waker and the wakee are too many for one LLC of `size` CPUs (Linux 4.3 on).
pub fn wide(waker: u32, wakee: u32, size: u32) -> bool {
    let (high, low) = (waker.max(wakee), waker.min(wakee));
    low >= size && high >= low * size
}
