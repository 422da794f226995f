//! How large the buffers are in which the kernel keeps each CPU's events until they are read.
//!
//! A small one stays in the processor's caches and costs the recorded program less, and the kernel must clear all of a
//! large one's memory; but a large one lasts longer when its reader gets no CPU. So buffers start small, and one that
//! fills fast is made larger.

use std::time::Duration;

use nix::sys::sysinfo::sysinfo;
use nix::unistd::{SysconfVar, sysconf};

/// Bytes that all buffers may take to start with, and when grown.
const START_TOTAL: u64 = 256 << 20;
const MOST_TOTAL: u64 = 512 << 20;
/// Part of the memory that buffers may take.
const MEMORY_PART: u64 = 8;
/// A buffer never starts smaller than this: what `perf record` gives each CPU.
const LEAST: u64 = 512 << 10;
/// A buffer never grows beyond this: to clear it takes some 20 ms of CPU time.
const MOST: u64 = 64 << 20;

/// What a backend needs. Readers run ahead of other tasks, but writing to a busy disk may block them for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Bytes of a buffer to start with, where there are few CPUs.
    start: u64,
    /// How long a buffer should last without being read.
    spare: Duration,
}

impl Need {
    /// Pages of a larger one are cold when they are written again.
    pub const FTRACE: Self = Self {
        start: 2 << 20,
        spare: Duration::from_millis(750),
    };
    /// Has ten times the bytes an event, and is blocked for longer.
    pub const PERF: Self = Self {
        start: 4 << 20,
        spare: Duration::from_secs(2),
    };
}

/// Sizes for a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub start: usize,
    /// No more than `start` if the size is fixed.
    pub most: usize,
    spare: Duration,
}

impl Sizes {
    /// Of the buffers of `cpus` CPUs of this machine; `wanted` is the size the user wants.
    pub fn here(need: Need, cpus: usize, wanted: Option<u64>) -> Self {
        // 1 GiB where it is not told.
        let memory = sysinfo().map_or(1 << 30, |info| info.ram_total());
        Self::new(need, cpus, memory, wanted)
    }

    /// Of `cpus` buffers on a machine with so many bytes of memory; `wanted` is the size the user wants.
    fn new(need: Need, cpus: usize, memory: u64, wanted: Option<u64>) -> Self {
        let spare = need.spare;
        if let Some(wanted) = wanted {
            let size = round_up(wanted);
            return Self {
                start: size,
                most: size,
                spare,
            };
        }
        let share = |total: u64| total.min(memory / MEMORY_PART) / (cpus.max(1) as u64);
        let most = round_down(share(MOST_TOTAL).clamp(LEAST, MOST));
        let start = round_down(share(START_TOTAL).clamp(LEAST, need.start)).min(most);
        Self { start, most, spare }
    }

    /// The size for a buffer of `size` bytes that has seen so much; `None` if it is large enough.
    pub fn better(&self, size: usize, load: Load) -> Option<usize> {
        let rate = load.bytes as f64 / load.time.as_secs_f64().max(1e-3);
        let mut needed = (rate * self.spare.as_secs_f64()) as u64;
        if load.fullest > size as u64 / 4 * 3 {
            // Its reader, who comes when it is half full, came nearly too late.
            needed = needed.max(size as u64 * 4);
        }
        if needed <= size as u64 {
            return None;
        }
        let better = round_up(needed).min(self.most);
        (better > size).then_some(better)
    }
}

/// What came into a buffer within some time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    pub bytes: u64,
    /// Most bytes that lay in it when it was read.
    pub fullest: u64,
    pub time: Duration,
}

/// Bytes of a page.
pub fn page_size() -> usize {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok())
        .unwrap_or(4096)
}

/// The next power of two, and no less than a page.
fn round_up(bytes: u64) -> usize {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let most = 1 << (usize::BITS - 2);
    bytes.clamp(page_size(), most).next_power_of_two()
}

fn round_down(bytes: u64) -> usize {
    let up = round_up(bytes);
    if up as u64 > bytes && up > page_size() {
        up / 2
    } else {
        up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cpus_start_with_little_and_may_grow_much() {
        let sizes = Sizes::new(Need::PERF, 2, 24 << 30, None);
        assert_eq!((sizes.start, sizes.most), (4 << 20, 64 << 20));
        let load = |bytes, fullest| Load {
            bytes,
            fullest,
            time: Duration::from_secs(1),
        };
        assert_eq!(sizes.better(4 << 20, load(2 << 20, 2 << 20)), None);
        assert_eq!(sizes.better(4 << 20, load(15 << 20, 0)), Some(32 << 20));
        assert_eq!(
            sizes.better(4 << 20, load(0, (3 << 20) + 1)),
            Some(16 << 20)
        );
        assert_eq!(sizes.better(4 << 20, load(900 << 20, 0)), Some(64 << 20));
        assert_eq!(sizes.better(64 << 20, load(900 << 20, 64 << 20)), None);
    }

    #[test]
    fn many_cpus_share() {
        let sizes = Sizes::new(Need::PERF, 512, 1 << 40, None);
        assert_eq!((sizes.start, sizes.most), (512 << 10, 1 << 20));
        let small = Sizes::new(Need::PERF, 64, 1 << 30, None);
        assert_eq!(small.most, 2 << 20);
    }

    #[test]
    fn a_wanted_size_is_rounded_up_and_kept() {
        let sizes = Sizes::new(Need::PERF, 4, 1 << 34, Some(3 << 20));
        assert_eq!((sizes.start, sizes.most), (4 << 20, 4 << 20));
        let load = Load {
            bytes: u64::MAX,
            ..Load::default()
        };
        assert_eq!(sizes.better(4 << 20, load), None);
        assert_eq!(
            Sizes::new(Need::PERF, 1, 1 << 34, Some(1)).start,
            page_size()
        );
        let _ = Sizes::new(Need::PERF, 1, 1 << 34, Some(u64::MAX));
    }
}
