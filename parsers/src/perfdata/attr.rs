//! `perf_event_attr`: what each event of the recording was asked to write.
//!
//! Source: `struct perf_event_attr` in `include/uapi/linux/perf_event.h`. It has grown from 64 bytes (VER0) to 144
//! (VER9); every field read here but `clockid` (VER3, 96 bytes on) and the branch options lies in the first 64.

use crate::bytes::Endian;

/// Size of the first version; nothing shorter was ever written.
pub(super) const SMALLEST_ATTR: usize = 64;

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;

/// Bits of the flags word.
const ENABLE_ON_EXEC: u32 = 12;
const SAMPLE_ID_ALL: u32 = 18;
/// `exclude_user`, `exclude_kernel`, `exclude_hv` and `exclude_idle`.
const EXCLUDES: u64 = 0b1111 << 4;
const USE_CLOCKID: u32 = 25;
const WRITE_BACKWARD: u32 = 27;

/// The fields of one `perf_event_attr` that reading needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attr {
    pub kind: u32,
    pub config: u64,
    pub sample_type: SampleType,
    pub read_format: ReadFormat,
    flags: u64,
    clockid: i32,
    /// The ids by which records name this event.
    pub ids: Vec<u64>,
    /// Its name, where the file tells.
    pub name: Option<String>,
}

impl Attr {
    /// Parses as much as is there; `None` below the size of the first version.
    pub fn parse(raw: &[u8], endian: Endian) -> Option<Self> {
        if raw.len() < SMALLEST_ATTR {
            return None;
        }
        Some(Self {
            kind: endian.u32_at(raw, 0)?,
            config: endian.u64_at(raw, 8)?,
            sample_type: SampleType(endian.u64_at(raw, 24)?),
            read_format: ReadFormat(endian.u64_at(raw, 32)?),
            flags: flag_bits(raw.get(40..48)?.try_into().ok()?, endian),
            clockid: endian.u32_at(raw, 92).map_or(0, u32::cast_signed),
            ids: Vec::new(),
            name: None,
        })
    }

    fn flag(&self, bit: u32) -> bool {
        self.flags >> bit & 1 == 1
    }

    pub fn is_tracepoint(&self) -> bool {
        self.kind == TYPE_TRACEPOINT
    }

    /// Whether records other than samples end with time, CPU and id too.
    pub fn sample_id_all(&self) -> bool {
        self.flag(SAMPLE_ID_ALL)
    }

    /// The ring was written backwards, overwriting the oldest records.
    pub fn write_backward(&self) -> bool {
        self.flag(WRITE_BACKWARD)
    }

    /// The event followed a command that perf started.
    pub fn enable_on_exec(&self) -> bool {
        self.flag(ENABLE_ON_EXEC)
    }

    /// Which kinds of execution are not counted.
    pub fn excludes(&self) -> u64 {
        self.flags & EXCLUDES
    }

    /// The POSIX clock that stamps are of, if not perf's own.
    pub fn clockid(&self) -> Option<i32> {
        self.flag(USE_CLOCKID).then_some(self.clockid)
    }

    /// Type, name in perf's words: `software` and `cpu-clock`; made up from the numbers where nothing better is known.
    pub fn described(&self) -> (String, String) {
        let system = match self.kind {
            0 => "hardware".to_owned(),
            1 => "software".to_owned(),
            TYPE_TRACEPOINT => "tracepoint".to_owned(),
            3 => "hw-cache".to_owned(),
            4 => "raw".to_owned(),
            5 => "breakpoint".to_owned(),
            other => format!("pmu-{other}"),
        };
        match &self.name {
            Some(name) if self.is_tracepoint() => match name.split_once(':') {
                Some((system, event)) => (system.to_owned(), event.to_owned()),
                None => (system, name.clone()),
            },
            Some(name) => (system, name.clone()),
            None => (system, self.name_of_config()),
        }
    }

    /// `enum perf_hw_id` and `enum perf_sw_ids`.
    fn name_of_config(&self) -> String {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: [&str; 12] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        let names: &[&str] = match self.kind {
            0 => &HARDWARE,
            1 => &SOFTWARE,
            _ => &[],
        };
        usize::try_from(self.config)
            .ok()
            .and_then(|index| names.get(index))
            .map_or_else(|| format!("config-{:#x}", self.config), |&n| n.to_owned())
    }
}

/// C bit fields are laid out from the low bit of each byte on little-endian machines and from the high bit on
/// big-endian ones, so there each byte is to be reversed.
fn flag_bits(raw: [u8; 8], endian: Endian) -> u64 {
    match endian {
        Endian::Little => u64::from_le_bytes(raw),
        Endian::Big => u64::from_le_bytes(raw.map(u8::reverse_bits)),
    }
}

/// `enum perf_event_sample_format`: which fields a sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleType(pub u64);

impl SampleType {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;

    #[inline]
    pub fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
}

/// `enum perf_event_read_format`: the shape of a sample's READ field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadFormat(pub u64);

impl ReadFormat {
    const ENABLED: u64 = 1 << 0;
    const RUNNING: u64 = 1 << 1;
    const TIMES: u64 = Self::ENABLED | Self::RUNNING;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;

    /// `{ nr, … }` with one entry per member of the group.
    pub fn is_group(self) -> bool {
        self.0 & Self::GROUP != 0
    }

    /// Whether each value comes with the id of its event.
    pub fn has_ids(self) -> bool {
        self.0 & Self::ID != 0
    }

    /// Whether it tells both for how long the group was enabled and for how long it counted.
    pub fn has_both_times(self) -> bool {
        self.0 & Self::TIMES == Self::TIMES
    }

    /// Bytes of the fields that come once: times enabled and running.
    pub fn times_bytes(self) -> usize {
        (self.0 & Self::TIMES).count_ones() as usize * 8
    }

    /// Bytes of one value with its id and its count of lost samples.
    pub fn value_bytes(self) -> usize {
        8 + (self.0 & (Self::ID | Self::LOST)).count_ones() as usize * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(size: usize, flags: [u8; 8], endian: Endian) -> Vec<u8> {
        let mut raw = vec![0; size];
        let mut put = |at: usize, value: u64, bytes: usize| {
            let little = value.to_le_bytes();
            let big = &value.to_be_bytes()[8 - bytes..];
            raw[at..at + bytes].copy_from_slice(match endian {
                Endian::Little => &little[..bytes],
                Endian::Big => big,
            });
        };
        put(0, 2, 4);
        put(8, 0x136, 8);
        put(24, 0x10587, 8);
        raw[40..48].copy_from_slice(&flags);
        raw
    }

    #[test]
    fn flags_of_a_big_endian_writer_run_from_the_high_bit() {
        // disabled, inherit (which CPU-wide events have too, so it tells nothing) and sample_id_all.
        let little = Attr::parse(
            &raw(64, [0b11, 0, 0b100, 0, 0, 0, 0, 0], Endian::Little),
            Endian::Little,
        );
        let big = Attr::parse(
            &raw(
                64,
                [0b1100_0000, 0, 0b0010_0000, 0, 0, 0, 0, 0],
                Endian::Big,
            ),
            Endian::Big,
        );
        assert_eq!(little, big);
        let attr = big.unwrap();
        assert!(attr.sample_id_all() && !attr.enable_on_exec());
        assert_eq!((attr.config, attr.is_tracepoint()), (0x136, true));
    }

    #[test]
    fn any_size_from_64_bytes_on() {
        let clock = [0, 0, 0, 1 << 1, 0, 0, 0, 0];
        for size in [64, 72, 96, 112, 128, 136, 144, 300] {
            let mut raw = raw(size, clock, Endian::Little);
            if size >= 96 {
                raw[92] = 1;
            }
            let attr = Attr::parse(&raw, Endian::Little).unwrap();
            assert_eq!(attr.clockid(), Some(i32::from(size >= 96)), "{size}");
        }
        assert_eq!(Attr::parse(&[0; 63], Endian::Little), None);
    }

    #[test]
    fn names_fall_back_to_the_numbers() {
        let mut attr = Attr::parse(&[0; 64], Endian::Little).unwrap();
        assert_eq!(attr.described(), ("hardware".into(), "cycles".into()));
        attr.config = 77;
        attr.kind = 9;
        assert_eq!(attr.described(), ("pmu-9".into(), "config-0x4d".into()));
        attr.kind = 2;
        attr.name = Some("sched:sched_switch".into());
        assert_eq!(attr.described(), ("sched".into(), "sched_switch".into()));
    }
}
