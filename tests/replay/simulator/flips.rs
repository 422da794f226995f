//! `record_wakee` as the kernel keeps it: whom a task woke last, and how often that changed (Linux 3.16 to 7.1).

use super::scheduler::Task;

/// Ticks a second.
pub const HZ: i64 = 250;
pub const TICK_NS: i64 = 1_000_000_000 / HZ;

/// What becomes of the flips after a second: by Linux 3.12, by 3.16 and all later, and by a proposal that was never merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decay {
    Zero,
    Halve,
    Loop,
}

/// In the order of the places of [`Flips`].
pub const DECAYS: [Decay; 3] = [Decay::Zero, Decay::Halve, Decay::Loop];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counter {
    flips: u32,
    /// In ticks.
    decayed: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flips {
    by: [Counter; 3],
    pub last: Option<Task>,
}

impl Flips {
    /// The waker is charged a wakeup of `wakee`.
    pub fn charge(&mut self, wakee: Task, ticks: i64) {
        for (decay, counter) in DECAYS.into_iter().zip(&mut self.by) {
            counter.decay(decay, ticks);
            counter.flips += u32::from(self.last != Some(wakee));
        }
        self.last = Some(wakee);
    }

    pub fn by(&self, decay: Decay) -> u32 {
        self.by[decay as usize].flips
    }

    /// As the simulated kernels have them.
    pub fn kernels(&self) -> u32 {
        self.by(Decay::Halve)
    }
}

impl Counter {
    fn decay(&mut self, decay: Decay, ticks: i64) {
        match decay {
            Decay::Zero if ticks > self.decayed + HZ => {
                self.flips = 0;
                self.decayed = ticks;
            }
            Decay::Halve if ticks > self.decayed + HZ => {
                self.flips >>= 1;
                self.decayed = ticks;
            }
            Decay::Loop if ticks > self.decayed + 64 * HZ => {
                self.flips = 0;
                self.decayed = ticks;
            }
            Decay::Loop => {
                while ticks > self.decayed + HZ && self.flips > 0 {
                    self.flips >>= 1;
                    self.decayed += HZ;
                }
            }
            _ => {}
        }
    }
}

/// Whether the waker and the wakee are too many for one LLC of `size` CPUs (Linux 4.3 on).
pub fn wide(waker: u32, wakee: u32, size: u32) -> bool {
    let (high, low) = (waker.max(wakee), waker.min(wakee));
    low >= size && high >= low * size
}

/// The same before that: the wakee's count, and how much more the waker's is.
pub fn wide_before_4_3(waker: u32, wakee: u32, size: u32) -> bool {
    wakee > size && waker > size * wakee
}
