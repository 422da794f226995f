//! The clock of the events' stamps.

use perf_event_open::config::Clock;

use crate::record::RecordError;

/// A clock that perf events can be stamped with, by the name that ftrace has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampClock {
    /// The scheduler's own clock, which perf uses unless told otherwise.
    Perf,
    Mono,
    MonoRaw,
    Boot,
    Tai,
}

impl StampClock {
    /// # Errors
    /// A clock that only ftrace has.
    pub fn named(name: &str) -> Result<Self, RecordError> {
        match name {
            "perf" => Ok(Self::Perf),
            "mono" => Ok(Self::Mono),
            "mono_raw" => Ok(Self::MonoRaw),
            "boot" => Ok(Self::Boot),
            "tai" => Ok(Self::Tai),
            other => Err(RecordError::Wanted(format!(
                "perf has no clock `{other}`: choose mono, mono_raw, boot, tai or perf, or record a trace.dat, whose clocks are ftrace's"
            ))),
        }
    }

    pub fn option(self) -> Option<Clock> {
        match self {
            Self::Perf => None,
            Self::Mono => Some(Clock::Monotonic),
            Self::MonoRaw => Some(Clock::MonotonicRaw),
            Self::Boot => Some(Clock::BootTime),
            Self::Tai => Some(Clock::Tai),
        }
    }

    /// `CLOCK_*` of `include/uapi/linux/time.h`; `None` for perf's own clock, which has no number.
    pub fn id(self) -> Option<i32> {
        match self {
            Self::Perf => None,
            Self::Mono => Some(libc::CLOCK_MONOTONIC),
            Self::MonoRaw => Some(libc::CLOCK_MONOTONIC_RAW),
            Self::Boot => Some(libc::CLOCK_BOOTTIME),
            Self::Tai => Some(libc::CLOCK_TAI),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_only_ftrace_has_are_refused() {
        assert_eq!(StampClock::named("mono").ok(), Some(StampClock::Mono));
        for name in ["local", "global", "counter", "x86-tsc", ""] {
            let error = StampClock::named(name).err().map(|error| error.to_string());
            assert!(
                error.is_some_and(|text| text.contains("trace.dat")),
                "{name}"
            );
        }
    }
}
