//! From a ring buffer's raw stamps to nanoseconds.
//!
//! The steps and their order are those of trace-cmd's reader: guest to host, cycles to nanoseconds, offset.

use crate::trace::Clock;

/// What a file says about its stamps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stamps {
    /// Multiplier and shift of the TSC2NSEC option.
    pub tsc: Option<(u32, u32)>,
    /// Sum of the OFFSET and DATE options, in nanoseconds.
    pub offset: i64,
    /// The TIME_SHIFT option, by CPU.
    pub sync: Option<HostSync>,
}

/// Corrections that carry a guest's stamps to its host's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostSync {
    /// Whether offsets between two samples are to be interpolated (bit 0 of the option's flags).
    pub interpolate: bool,
    /// Samples of each CPU, ascending in time.
    pub cpus: Vec<Vec<SyncSample>>,
}

/// One measurement of the guest's clock against the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncSample {
    pub time: u64,
    pub offset: i64,
    pub scaling: u64,
    pub fraction: u32,
}

/// The stamps of one CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuStamps<'a> {
    /// No step applies.
    plain: bool,
    interpolate: bool,
    samples: &'a [SyncSample],
    tsc: Option<(u32, u32)>,
    offset: i64,
}

impl Stamps {
    pub fn of_cpu(&self, cpu: u32) -> CpuStamps<'_> {
        let samples = self
            .sync
            .as_ref()
            .and_then(|sync| sync.cpus.get(usize::try_from(cpu).ok()?))
            .map_or(&[][..], Vec::as_slice);
        CpuStamps {
            plain: self.tsc.is_none() && self.offset == 0 && samples.is_empty(),
            interpolate: self.sync.as_ref().is_some_and(|sync| sync.interpolate),
            samples,
            tsc: self.tsc,
            offset: self.offset,
        }
    }

    /// The clock of that name as this file's stamps have it.
    pub fn clock(&self, name: &str) -> Clock {
        let ticks = matches!(name, "counter" | "x86-tsc" | "ppc-tb");
        Clock {
            name: name.to_owned(),
            nanoseconds: !ticks || self.tsc.is_some(),
            global: name != "local",
        }
    }
}

impl CpuStamps<'_> {
    /// Nanoseconds of a raw stamp; `Err` holds the nearest value that can be told.
    #[inline(always)]
    pub fn nanoseconds(&self, raw: u64) -> Result<i64, i64> {
        if self.plain {
            return i64::try_from(raw).map_err(|_| i64::MAX);
        }
        self.converted(raw)
    }

    #[inline(never)]
    fn converted(&self, raw: u64) -> Result<i64, i64> {
        let mut stamp = self.on_host(i128::from(raw));
        if let Some((mult, shift)) = self.tsc {
            // A shift beyond 96 leaves nothing of a 96-bit product.
            stamp = (stamp * i128::from(mult)) >> shift.min(127);
        }
        stamp += i128::from(self.offset);
        match i64::try_from(stamp) {
            Ok(stamp) if stamp >= 0 => Ok(stamp),
            _ if stamp < 0 => Err(0),
            _ => Err(i64::MAX),
        }
    }

    fn on_host(&self, stamp: i128) -> i128 {
        let (first, second) = match self.samples {
            [] => return stamp,
            // A lone sample's scaling is not applied.
            [only] => return stamp + i128::from(only.offset),
            samples => {
                let after = samples.partition_point(|s| i128::from(s.time) <= stamp);
                let first = after.saturating_sub(1).min(samples.len().saturating_sub(2));
                match samples.get(first..) {
                    Some([first, second, ..]) => (first, second),
                    _ => return stamp,
                }
            }
        };
        let offset = match self.interpolate {
            true => interpolated(stamp, first, second),
            false => i128::from(first.offset),
        };
        let scaled = stamp.saturating_mul(i128::from(first.scaling));
        (scaled >> first.fraction.min(127))
            .saturating_add(offset)
            .clamp(i128::from(i64::MIN), i128::from(u64::MAX))
    }
}

/// The offset at `stamp` on the line through two samples, rounded.
fn interpolated(stamp: i128, first: &SyncSample, second: &SyncSample) -> i128 {
    let span = i128::from(second.time) - i128::from(first.time);
    let rise = i128::from(second.offset) - i128::from(first.offset);
    let scaled = (stamp - i128::from(first.time)).saturating_mul(rise);
    let along = scaled
        .saturating_add(span / 2)
        .checked_div(span)
        .unwrap_or(0);
    i128::from(first.offset).saturating_add(along)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stamps: &Stamps, raw: u64) -> Result<i64, i64> {
        stamps.of_cpu(0).nanoseconds(raw)
    }

    fn sync(interpolate: bool, samples: &[(u64, i64, u64, u32)]) -> Stamps {
        let samples = samples
            .iter()
            .map(|&(time, offset, scaling, fraction)| SyncSample {
                time,
                offset,
                scaling,
                fraction,
            });
        Stamps {
            sync: Some(HostSync {
                interpolate,
                cpus: vec![samples.collect()],
            }),
            ..Stamps::default()
        }
    }

    #[test]
    fn stamps_out_of_range_are_the_nearest_in_range() {
        let mut stamps = Stamps::default();
        assert_eq!(at(&stamps, 7), Ok(7));
        assert_eq!(at(&stamps, u64::MAX), Err(i64::MAX));
        stamps.offset = -10;
        assert_eq!(at(&stamps, 17), Ok(7));
        assert_eq!(at(&stamps, 7), Err(0));
        stamps.offset = i64::MAX;
        assert_eq!(at(&stamps, 7), Err(i64::MAX));
    }

    #[test]
    fn cycles_become_nanoseconds_without_losing_the_high_bits() {
        // 0.4 ns a cycle, as a shift of 32 writes it; the offset is added after that.
        let stamps = Stamps {
            tsc: Some((1_717_986_918, 32)),
            offset: 5,
            ..Stamps::default()
        };
        assert_eq!(at(&stamps, 10), Ok(8));
        // floor(2^62 * 1717986918 / 2^32) = 2^30 * 1717986918
        assert_eq!(at(&stamps, 1 << 62), Ok((1 << 30) * 1_717_986_918 + 5));
        assert!(stamps.clock("x86-tsc").nanoseconds);
        assert!(!Stamps::default().clock("x86-tsc").nanoseconds);
        assert!(!Stamps::default().clock("local").global);
    }

    #[test]
    fn guests_are_carried_to_their_hosts_clock() {
        assert_eq!(at(&sync(false, &[(0, 100, 7, 0)]), 5), Ok(105));
        let two = [(1000, 100, 1, 0), (2000, 200, 1, 0)];
        assert_eq!(at(&sync(false, &two), 1500), Ok(1600));
        assert_eq!(at(&sync(true, &two), 1500), Ok(1650));
        // Outside the samples the nearest pair's line goes on.
        assert_eq!(at(&sync(true, &two), 500), Ok(551));
        assert_eq!(at(&sync(true, &two), 3000), Ok(3300));
        let three = [(1000, 100, 1, 0), (2000, 200, 3, 1), (3000, 0, 1, 0)];
        // 2500 * 3 / 2 + 200 - 99: half a step is added before the division, which cuts towards zero.
        assert_eq!(at(&sync(true, &three), 2500), Ok(3851));
        // A CPU that was not synchronised.
        assert_eq!(sync(true, &two).of_cpu(9).nanoseconds(5), Ok(5));
    }
}
