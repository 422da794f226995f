//! Names of counters, as `perf list` has them, and the kernel's numbers for them.
//!
//! Source: `enum perf_hw_id`, `enum perf_sw_ids` and `enum perf_hw_cache_id` in `include/uapi/linux/perf_event.h`.

use crate::record::RecordError;

use super::attr::TYPE_SOFTWARE;

const TYPE_HARDWARE: u32 = 0;
const TYPE_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;

/// A counter's `perf_event_attr.type` and `config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CounterEvent {
    pub kind: u32,
    pub config: u64,
}

/// By their numbers, each with its other names.
const HARDWARE: [&[&str]; 10] = [
    &["cycles", "cpu-cycles"],
    &["instructions"],
    &["cache-references"],
    &["cache-misses"],
    &["branches", "branch-instructions"],
    &["branch-misses"],
    &["bus-cycles"],
    &["stalled-cycles-frontend", "idle-cycles-frontend"],
    &["stalled-cycles-backend", "idle-cycles-backend"],
    &["ref-cycles"],
];
const SOFTWARE: [&[&str]; 9] = [
    &["cpu-clock"],
    &["task-clock"],
    &["page-faults", "faults"],
    &["context-switches", "cs"],
    &["cpu-migrations", "migrations"],
    &["minor-faults"],
    &["major-faults"],
    &["alignment-faults"],
    &["emulation-faults"],
];
/// The caches, then what is done to them.
const CACHES: [&str; 7] = [
    "L1-dcache",
    "L1-icache",
    "LLC",
    "dTLB",
    "iTLB",
    "branch",
    "node",
];
const CACHE_USES: [(&str, u64, u64); 6] = [
    ("loads", 0, 0),
    ("load-misses", 0, 1),
    ("stores", 1, 0),
    ("store-misses", 1, 1),
    ("prefetches", 2, 0),
    ("prefetch-misses", 2, 1),
];

impl CounterEvent {
    /// The counter of a name: one of the lists above, a cache's such as `LLC-load-misses`, or `rHEX` for a raw event.
    pub fn named(name: &str) -> Result<Self, RecordError> {
        let listed = |kind: u32, names: &[&[&str]]| {
            let place = names.iter().position(|names| names.contains(&name))?;
            Some(Self {
                kind,
                config: place as u64,
            })
        };
        listed(TYPE_HARDWARE, &HARDWARE)
            .or_else(|| listed(TYPE_SOFTWARE, &SOFTWARE))
            .or_else(|| cache(name))
            .or_else(|| raw(name))
            .ok_or_else(|| {
                RecordError::Wanted(format!(
                    "no counter is called `{name}`: give one of {}, a cache's such as LLC-load-misses, or a raw event such as r01c2",
                    known().join(", ")
                ))
            })
    }

    /// Whether the counter is one of the processor's.
    pub fn is_hardware(self) -> bool {
        self.kind != TYPE_SOFTWARE
    }
}

fn known() -> Vec<&'static str> {
    let lists = HARDWARE.iter().chain(&SOFTWARE);
    lists.filter_map(|names| names.first().copied()).collect()
}

fn cache(name: &str) -> Option<CounterEvent> {
    CACHES.iter().zip(0_u64..).find_map(|(cache, number)| {
        let usage = name.strip_prefix(cache)?.strip_prefix('-')?;
        let (_, op, result) = CACHE_USES.iter().find(|(name, ..)| *name == usage)?;
        Some(CounterEvent {
            kind: TYPE_CACHE,
            config: number | op << 8 | result << 16,
        })
    })
}

fn raw(name: &str) -> Option<CounterEvent> {
    let config = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
    Some(CounterEvent {
        kind: TYPE_RAW,
        config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_kernels_numbers() {
        for (name, kind, config) in [
            ("cycles", 0, 0),
            ("instructions", 0, 1),
            ("ref-cycles", 0, 9),
            ("cpu-migrations", 1, 4),
            ("LLC-load-misses", 3, 0x1_0002),
            ("dTLB-loads", 3, 3),
            ("r01c2", 4, 0x1c2),
        ] {
            let found = CounterEvent::named(name).ok();
            assert_eq!(found, Some(CounterEvent { kind, config }), "{name}");
        }
        for name in ["", "cycle", "LLC", "LLC-", "rxyz"] {
            assert!(CounterEvent::named(name).is_err(), "{name}");
        }
    }
}
