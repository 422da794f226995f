//! Pids under dense numbers, and the name each has, as the decoding thread meets them.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;

use ttwu_parsers::event::Comm;

/// A pid's place in the order of first mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidNumber(NonZeroU32);

impl PidNumber {
    fn of(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }

    /// Counts up from 0.
    #[inline]
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A pid that was mentioned.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub comm: Comm,
    /// The waking that has met no enqueue: the number of its record.
    pub pending: Option<u64>,
}

/// Pids that are found at once, if they were mentioned of late: a power of two.
const RECENT: usize = 256;

/// Every pid mentioned so far.
#[derive(Debug)]
pub struct Pids {
    numbers: FxHashMap<i32, PidNumber>,
    /// By the last bits of the pid, the one that was mentioned last.
    recent: Box<[(i32, Option<PidNumber>); RECENT]>,
    known: Vec<Known>,
}

impl Default for Pids {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            recent: Box::new([(0, None); RECENT]),
            known: Vec::new(),
        }
    }
}

impl Pids {
    /// The number of a pid, and whether this is its first mention; `None` for an idle task's pid and for none.
    #[inline]
    pub fn number(&mut self, pid: i32) -> Option<(PidNumber, bool)> {
        if pid <= 0 {
            return None;
        }
        let (recent, number) = self.recent[pid as usize % RECENT];
        match number.filter(|_| recent == pid) {
            Some(number) => Some((number, false)),
            None => self.look_up(pid),
        }
    }

    fn look_up(&mut self, pid: i32) -> Option<(PidNumber, bool)> {
        let (number, new) = match self.numbers.get(&pid) {
            Some(&number) => (number, false),
            None => (self.add(pid)?, true),
        };
        self.recent[pid as usize % RECENT] = (pid, Some(number));
        Some((number, new))
    }

    /// The number of a pid that was mentioned.
    pub fn find(&self, pid: i32) -> Option<PidNumber> {
        self.numbers.get(&pid).copied()
    }

    fn add(&mut self, pid: i32) -> Option<PidNumber> {
        let number = PidNumber::of(self.known.len())?;
        self.known.push(Known::default());
        self.numbers.insert(pid, number);
        Some(number)
    }

    #[inline]
    pub fn get_mut(&mut self, number: PidNumber) -> &mut Known {
        &mut self.known[number.index()]
    }
}
