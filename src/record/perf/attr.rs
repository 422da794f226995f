//! What the kernel is asked of each event, and the same as the file's `perf_event_attr`.
//!
//! Source: `struct perf_event_attr` in `include/uapi/linux/perf_event.h`, in its version 5 (112 bytes, Linux 4.8 on),
//! which is what `perf-event-open` hands to the kernel when built for that version.

use perf_event_open::config::{
    ExtraRecord, Opts, RecordIdFormat, SampleFormat, SampleOn, StatFormat, sibling,
};

use super::clock::StampClock;

/// Size of version 5.
pub(super) const ATTR_BYTES: usize = 112;

pub(super) const TYPE_SOFTWARE: u32 = 1;
pub(super) const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_COUNT_SW_DUMMY`
pub(super) const SOFTWARE_DUMMY: u64 = 9;

/// Bits of `sample_type`.
const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_READ: u64 = 1 << 4;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_RAW: u64 = 1 << 10;

/// Bits of `read_format`.
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;

/// Bits of the flags word.
const DISABLED: u64 = 1 << 0;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

/// What a record other than a sample ends with: thread, time, id and CPU.
pub(super) const TRAILER_BYTES: usize = 32;

/// What an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A tracepoint, each of whose hits is a sample.
    Tracepoint,
    /// A tracepoint whose samples hold the values of its group's counters, too.
    Leader,
    /// A counter of the group.
    Member,
    /// Tells names of tasks, and which tasks begin and end.
    Names,
    /// Owns a ring, and writes nothing to it.
    RingOwner,
}

/// One event as the kernel is asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spec {
    pub role: Role,
    /// `perf_event_attr.type`
    pub kind: u32,
    pub config: u64,
    pub common: Common,
}

/// What all events of a recording have in common: records tell by their id which event they are of, so it must lie at
/// the same place in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    pub clock: StampClock,
    /// Whether samples tell where the processor was. Tracepoints do without; `perf script` wants it of counters.
    pub address: bool,
}

impl Common {
    /// Where a sample's time lies in its record: behind the header, the address if there is one, and the thread's ids.
    pub fn time_at(self) -> u64 {
        if self.address { 24 } else { 16 }
    }
}

impl Spec {
    pub fn tracepoint(id: u64, leads: bool, common: Common) -> Self {
        Self {
            role: if leads {
                Role::Leader
            } else {
                Role::Tracepoint
            },
            kind: TYPE_TRACEPOINT,
            config: id,
            common,
        }
    }

    pub fn dummy(role: Role, common: Common) -> Self {
        Self {
            role,
            kind: TYPE_SOFTWARE,
            config: SOFTWARE_DUMMY,
            common,
        }
    }

    fn samples(&self) -> bool {
        matches!(self.role, Role::Tracepoint | Role::Leader | Role::Member)
    }

    /// Whether samples hold the group's values. A member's attr says so as well, though it has no samples of its own:
    /// readers make them from the leader's.
    fn reads(&self) -> bool {
        matches!(self.role, Role::Leader | Role::Member)
    }

    /// Members count only.
    fn period(&self) -> u64 {
        u64::from(self.role != Role::Member)
    }

    fn sample_format(&self) -> SampleFormat {
        SampleFormat {
            raw: self.samples(),
            period: self.samples(),
            stat: self.reads(),
            code_addr: self.common.address,
            ..SampleFormat::default()
        }
    }

    /// For `Counter::new`.
    pub fn options(&self) -> Opts {
        Opts {
            sample_on: SampleOn::Count(self.period()),
            sample_format: self.sample_format(),
            record_id_format: RECORD_ID,
            record_id_all: true,
            stat_format: StatFormat {
                id: true,
                siblings: self.role == Role::Leader,
                ..StatFormat::default()
            },
            extra_record: ExtraRecord {
                comm: self.role == Role::Names,
                task: self.role == Role::Names,
                ..ExtraRecord::default()
            },
            timer: self.common.clock.option(),
            ..Opts::default()
        }
    }

    /// For `CounterGroup::add`. The clock is the leader's. Members start on, and so begin and end with their leader.
    pub fn member_options(&self) -> sibling::Opts {
        sibling::Opts {
            enable: true,
            sample_on: SampleOn::Count(self.period()),
            sample_format: self.sample_format(),
            record_id_format: RECORD_ID,
            record_id_all: true,
            stat_format: sibling::StatFormat {
                id: true,
                ..sibling::StatFormat::default()
            },
            ..sibling::Opts::default()
        }
    }

    fn sample_type(&self) -> u64 {
        let mut bits = SAMPLE_TID | SAMPLE_TIME | SAMPLE_ID | SAMPLE_CPU;
        if self.common.address {
            bits |= SAMPLE_IP;
        }
        if self.samples() {
            bits |= SAMPLE_PERIOD | SAMPLE_RAW;
        }
        if self.reads() {
            bits |= SAMPLE_READ;
        }
        bits
    }

    fn read_format(&self) -> u64 {
        match self.role {
            Role::Leader => READ_ID | READ_GROUP,
            _ => READ_ID,
        }
    }

    fn flags(&self) -> u64 {
        let mut bits = SAMPLE_ID_ALL;
        if self.role != Role::Member {
            bits |= DISABLED;
        }
        if self.role == Role::Names {
            bits |= COMM | TASK;
        }
        if self.common.clock.id().is_some() {
            bits |= USE_CLOCKID;
        }
        bits
    }

    /// The attr as the file has it, and as the kernel got it.
    pub fn bytes(&self) -> [u8; ATTR_BYTES] {
        let mut attr = [0; ATTR_BYTES];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = attr.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        put(0, &self.kind.to_ne_bytes());
        put(4, &(ATTR_BYTES as u32).to_ne_bytes());
        put(8, &self.config.to_ne_bytes());
        put(16, &self.period().to_ne_bytes());
        put(24, &self.sample_type().to_ne_bytes());
        put(32, &self.read_format().to_ne_bytes());
        put(40, &flag_bytes(self.flags()));
        put(92, &self.common.clock.id().unwrap_or(0).to_ne_bytes());
        attr
    }
}

const RECORD_ID: RecordIdFormat = RecordIdFormat {
    id: true,
    stream_id: false,
    cpu: true,
    task: true,
    time: true,
};

/// C lays bit fields out from the low bit of each byte on little-endian machines, from the high bit on big-endian ones.
fn flag_bytes(flags: u64) -> [u8; 8] {
    let bytes = flags.to_le_bytes();
    if cfg!(target_endian = "big") {
        bytes.map(u8::reverse_bits)
    } else {
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u64 {
        bytes[at..at + 8]
            .try_into()
            .map(u64::from_ne_bytes)
            .unwrap()
    }

    const COMMON: Common = Common {
        clock: StampClock::Mono,
        address: false,
    };

    #[test]
    fn a_tracepoint_as_perf_evlist_shows_it() {
        let attr = Spec::tracepoint(0x174, false, COMMON).bytes();
        assert_eq!(word(&attr, 8), 0x174);
        assert_eq!(word(&attr, 16), 1);
        // TID|TIME|ID|CPU|PERIOD|RAW
        assert_eq!(word(&attr, 24), 0x5c6);
        assert_eq!(word(&attr, 32), 4);
        if cfg!(target_endian = "little") {
            // disabled, sample_id_all, use_clockid
            assert_eq!(word(&attr, 40), 1 | 1 << 18 | 1 << 25);
        }
        assert_eq!(attr[92], 1);
        let clock = StampClock::Perf;
        let own_clock = Spec::tracepoint(0x174, false, Common { clock, ..COMMON }).bytes();
        assert_eq!((word(&own_clock, 40), own_clock[92]), (1 | 1 << 18, 0));
    }

    #[test]
    fn ids_lie_at_the_same_place_in_all_events() {
        // What comes before the id in a sample, and all of the trailer.
        const BEFORE_ID: u64 = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ID;
        const TRAILER: u64 = SAMPLE_TID | SAMPLE_TIME | SAMPLE_ID | SAMPLE_CPU;
        for address in [false, true] {
            let common = Common { address, ..COMMON };
            let member = Spec {
                role: Role::Member,
                ..Spec::dummy(Role::Names, common)
            };
            let first = Spec::tracepoint(1, false, common);
            let others = [
                Spec::tracepoint(1, true, common),
                Spec::dummy(Role::Names, common),
                member,
            ];
            for other in others {
                let same = first.sample_type() ^ other.sample_type();
                assert_eq!(same & (BEFORE_ID | TRAILER), 0, "{other:?}");
            }
        }
    }
}
