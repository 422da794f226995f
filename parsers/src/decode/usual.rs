//! The usual record, its questions answered when the trace is opened.
//!
//! The general way asks every field of every record for its size, sign and byte order. Nearly all records are of a few
//! types, little-endian, with integers and names as the kernel has always declared them. For these the places alone
//! are kept, still those of the file's own format. `None` is never an error here: the general way follows, and
//! decides.

use super::{Layout, WakeKind};
use crate::bytes::Endian;
use crate::event::{Comm, ContextFlags, Event, Payload, Wake};
use crate::format::{BlobField, IntField};
use crate::print_fmt::{PrevState, StateTable};

/// What a record's surroundings say of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub ts: i64,
    pub cpu: u32,
    /// The task current then, by the surroundings' own numbers; -1 where they do not tell.
    pub process: i32,
    pub thread: i32,
}

impl Seen {
    /// Of a record that says itself all that is known of its task.
    #[inline(always)]
    pub fn at(ts: i64, cpu: u32) -> Self {
        Self {
            ts,
            cpu,
            process: -1,
            thread: -1,
        }
    }

    /// The process of the task that the record names. Numbers of another PID namespace name another task: the process
    /// would be that one's.
    #[inline(always)]
    pub fn tgid(&self, pid: i32) -> i32 {
        if self.thread == pid { self.process } else { -1 }
    }
}

/// A usual record that has all fields of its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'r> {
    pub fields: &'r Fields,
    pub record: &'r [u8],
    pub common: Common,
    pub seen: Seen,
}

/// What is made of a record: all of it, or less.
pub(crate) trait Reading: Sized {
    /// Always `Some`, as the record is whole. An `Option` is what the readers return: given as such, it is written where
    /// it is wanted instead of being moved there.
    fn of_whole(whole: &Whole<'_>) -> Option<Self>;

    fn of_event(event: Event) -> Self;
}

/// Where a little-endian `i32` lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Int(u16);

/// Where 16 bytes of a name lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name(u16);

#[inline(always)]
fn bytes_at<const N: usize>(record: &[u8], place: u16) -> Option<&[u8; N]> {
    let start = usize::from(place);
    record.get(start..start + N)?.first_chunk()
}

impl Int {
    fn of(field: IntField) -> Option<Self> {
        field.place(4, true).map(Self)
    }

    #[inline(always)]
    pub fn get(self, record: &[u8]) -> Option<i32> {
        bytes_at(record, self.0).map(|raw| i32::from_le_bytes(*raw))
    }

    /// A CPU's number; a negative one is none.
    #[inline(always)]
    pub fn cpu(self, record: &[u8]) -> Option<u32> {
        let cpu = self.get(record)?;
        Some(if cpu < 0 {
            u32::MAX
        } else {
            cpu.cast_unsigned()
        })
    }

    #[inline(always)]
    fn prio(self, record: &[u8]) -> Option<i16> {
        let prio = self.get(record)?;
        Some(i16::try_from(prio).unwrap_or(i16::MAX))
    }
}

impl Name {
    fn of(field: BlobField) -> Option<Self> {
        field.place_of_16().map(Self)
    }

    #[inline(always)]
    fn comm(self, record: &[u8]) -> Option<Comm> {
        bytes_at(record, self.0).map(Comm::from_16)
    }

    /// Its bytes as recorded: what follows a NUL is not cut off.
    #[inline(always)]
    pub fn raw(self, record: &[u8]) -> Option<&[u8; 16]> {
        bytes_at(record, self.0)
    }
}

/// Where the fields lie that all records start with.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommonPlaces {
    kind: u16,
    flags: u16,
    pid: Int,
}

/// Their values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    pub type_index: u16,
    pub flags: ContextFlags,
    pub pid: i32,
}

impl CommonPlaces {
    pub fn resolve(
        kind: IntField,
        flags: Option<IntField>,
        pid: Option<IntField>,
        endian: Endian,
    ) -> Option<Self> {
        if endian != Endian::Little {
            return None;
        }
        Some(Self {
            kind: kind.place(2, false)?,
            flags: flags?.place(1, false)?,
            pid: Int::of(pid?)?,
        })
    }

    /// `by_id` is from the numbers records carry to types.
    #[inline(always)]
    pub fn read(&self, record: &[u8], by_id: &[u16]) -> Option<Common> {
        let id = u16::from_le_bytes(*bytes_at(record, self.kind)?);
        Some(Common {
            type_index: *by_id.get(usize::from(id))?,
            flags: ContextFlags(*record.get(usize::from(self.flags))?),
            pid: self.pid.get(record)?,
        })
    }
}

/// How the records of one type are read.
#[derive(Debug, Clone)]
pub(crate) struct Usual {
    /// A shorter record lacks a field. It is damaged, even if that field is not read.
    least: usize,
    fields: Fields,
}

/// The fields of a type that is usual.
#[derive(Debug, Clone)]
pub(crate) enum Fields {
    /// Counted, not decoded; or not usual, and then no record is long enough.
    Other,
    Switch(Box<UsualSwitch>),
    Wake(UsualWake),
    Migrate(UsualMigrate),
    Ints(Box<UsualInts>),
}

#[derive(Debug, Clone)]
pub(crate) struct UsualSwitch {
    prev_comm: Name,
    prev_pid: Int,
    prev_prio: Int,
    prev_state: u16,
    next_comm: Name,
    pub next_pid: Int,
    next_prio: Int,
    states: StateTable,
}

#[derive(Debug, Clone)]
pub(crate) struct UsualWake {
    pub kind: WakeKind,
    pub comm: Name,
    pub pid: Int,
    prio: Int,
    pub target_cpu: Int,
}

#[derive(Debug, Clone)]
pub(crate) struct UsualMigrate {
    comm: Name,
    pub pid: Int,
    prio: Int,
    pub orig_cpu: Int,
    pub dest_cpu: Int,
}

/// Up to four integers of any size.
#[derive(Debug, Clone)]
pub(crate) struct UsualInts {
    fields: [Option<IntField>; super::INTS],
    build: super::BuildFromInts,
}

impl Usual {
    pub(super) fn resolve(layout: Option<&Layout>) -> Self {
        let usual = match layout {
            None => Some(Self {
                least: 0,
                fields: Fields::Other,
            }),
            Some(Layout::Switch(fields)) => UsualSwitch::resolve(fields),
            Some(Layout::Wake(kind, fields)) => UsualWake::resolve(*kind, fields),
            Some(Layout::Migrate(ints, comm)) => UsualMigrate::resolve(ints, *comm),
            Some(Layout::Ints(fields, build)) => Some(UsualInts::resolve(*fields, *build)),
            Some(_) => None,
        };
        usual.unwrap_or(Self::none())
    }

    /// Of a type of which no record is usual.
    pub(super) fn none() -> Self {
        Self {
            least: usize::MAX,
            fields: Fields::Other,
        }
    }

    /// The fields of a record that has them all.
    #[inline(always)]
    pub(super) fn fields_of(&self, record: &[u8]) -> Option<&Fields> {
        (record.len() >= self.least).then_some(&self.fields)
    }
}

impl UsualInts {
    fn resolve(fields: [Option<IntField>; super::INTS], build: super::BuildFromInts) -> Usual {
        let ends = fields.iter().flatten().map(|field| field.end());
        Usual {
            least: ends.max().unwrap_or(0),
            fields: Fields::Ints(Box::new(Self { fields, build })),
        }
    }

    #[inline(always)]
    pub fn payload(&self, record: &[u8]) -> Option<Payload> {
        super::ints(&self.fields, record, Endian::Little).map(self.build)
    }
}

/// Where the last of some integers and names ends.
fn end_of(ints: &[Int], names: &[Name]) -> usize {
    let ints = ints.iter().map(|int| usize::from(int.0) + 4);
    let names = names.iter().map(|name| usize::from(name.0) + 16);
    ints.chain(names).max().unwrap_or(0)
}

impl UsualSwitch {
    fn resolve(fields: &super::SwitchFields) -> Option<Usual> {
        let places = Self {
            prev_comm: Name::of(fields.prev_comm)?,
            prev_pid: Int::of(fields.prev_pid)?,
            prev_prio: Int::of(fields.prev_prio)?,
            // `long`; a 32-bit kernel's is no usual one.
            prev_state: fields.prev_state.place(8, true)?,
            next_comm: Name::of(fields.next_comm)?,
            next_pid: Int::of(fields.next_pid)?,
            next_prio: Int::of(fields.next_prio)?,
            states: fields.states.clone(),
        };
        let ints = [
            places.prev_pid,
            places.prev_prio,
            places.next_pid,
            places.next_prio,
        ];
        let end = end_of(&ints, &[places.prev_comm, places.next_comm]);
        Some(Usual {
            least: end.max(usize::from(places.prev_state) + 8),
            fields: Fields::Switch(Box::new(places)),
        })
    }

    #[inline(always)]
    fn state(&self, record: &[u8]) -> Option<PrevState> {
        let raw = bytes_at(record, self.prev_state)?;
        Some(self.states.decode(i64::from_le_bytes(*raw)))
    }

    #[inline(always)]
    fn payload(&self, record: &[u8]) -> Option<Payload> {
        Some(Payload::Switch {
            prev_comm: self.prev_comm.comm(record)?,
            prev_pid: self.prev_pid.get(record)?,
            prev_prio: self.prev_prio.prio(record)?,
            prev_state: self.state(record)?,
            next_comm: self.next_comm.comm(record)?,
            next_pid: self.next_pid.get(record)?,
            next_prio: self.next_prio.prio(record)?,
        })
    }
}

impl UsualWake {
    fn resolve(kind: WakeKind, fields: &super::WakeFields) -> Option<Usual> {
        let places = Self {
            kind,
            comm: Name::of(fields.comm)?,
            pid: Int::of(fields.pid)?,
            prio: Int::of(fields.prio)?,
            target_cpu: Int::of(fields.target_cpu)?,
        };
        let ints = [places.pid, places.prio, places.target_cpu];
        Some(Usual {
            least: end_of(&ints, &[places.comm]),
            fields: Fields::Wake(places),
        })
    }

    #[inline(always)]
    fn wake(&self, record: &[u8]) -> Option<Wake> {
        Some(Wake {
            comm: self.comm.comm(record)?,
            pid: self.pid.get(record)?,
            prio: self.prio.prio(record)?,
            target_cpu: self.target_cpu.cpu(record)?,
        })
    }
}

impl UsualMigrate {
    fn resolve(ints: &[IntField; 4], comm: BlobField) -> Option<Usual> {
        let [pid, prio, orig_cpu, dest_cpu] = ints.map(Int::of);
        let places = Self {
            comm: Name::of(comm)?,
            pid: pid?,
            prio: prio?,
            orig_cpu: orig_cpu?,
            dest_cpu: dest_cpu?,
        };
        let ints = [places.pid, places.prio, places.orig_cpu, places.dest_cpu];
        Some(Usual {
            least: end_of(&ints, &[places.comm]),
            fields: Fields::Migrate(places),
        })
    }

    #[inline(always)]
    fn payload(&self, record: &[u8]) -> Option<Payload> {
        Some(Payload::Migrate {
            comm: self.comm.comm(record)?,
            pid: self.pid.get(record)?,
            prio: self.prio.prio(record)?,
            orig_cpu: self.orig_cpu.cpu(record)?,
            dest_cpu: self.dest_cpu.cpu(record)?,
        })
    }
}

impl Reading for Event {
    // Each arm makes a whole event: a payload made first would be moved through every other arm's registers.
    #[inline(always)]
    fn of_whole(whole: &Whole<'_>) -> Option<Self> {
        let record = whole.record;
        match whole.fields {
            Fields::Other => Some(whole.event(Payload::Other)),
            Fields::Switch(fields) => Some(whole.event(fields.payload(record)?)),
            Fields::Wake(fields) => {
                let wake = fields.wake(record)?;
                match fields.kind {
                    WakeKind::Waking => Some(whole.event(Payload::Waking(wake))),
                    WakeKind::Wakeup => Some(whole.event(Payload::Wakeup(wake))),
                    WakeKind::New => Some(whole.event(Payload::WakeupNew(wake))),
                }
            }
            Fields::Migrate(fields) => Some(whole.event(fields.payload(record)?)),
            Fields::Ints(fields) => Some(whole.event(fields.payload(record)?)),
        }
    }

    #[inline(always)]
    fn of_event(event: Event) -> Self {
        event
    }
}

impl Whole<'_> {
    #[inline(always)]
    fn event(&self, payload: Payload) -> Event {
        Event {
            ts: self.seen.ts,
            cpu: self.seen.cpu,
            pid: self.common.pid,
            tgid: self.seen.tgid(self.common.pid),
            flags: self.common.flags,
            watched: false,
            type_index: self.common.type_index,
            payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::Decoder;
    use crate::format::EventFormat;
    use crate::glance::Glance;

    /// Name, id and fields of their own, as a 64-bit kernel has them; then one whose fields are unusual.
    const TYPES: [(&str, u32, &str); 8] = [
        (
            "sched/sched_switch",
            1,
            "char prev_comm[16]:8:16:0 pid_t prev_pid:24:4:1 int prev_prio:28:4:1 long prev_state:32:8:1 \
             char next_comm[16]:40:16:0 pid_t next_pid:56:4:1 int next_prio:60:4:1",
        ),
        ("sched/sched_waking", 2, WAKE),
        ("sched/sched_wakeup", 3, WAKE),
        ("sched/sched_wakeup_new", 4, WAKE),
        (
            "sched/sched_migrate_task",
            5,
            "char comm[16]:8:16:0 pid_t pid:24:4:1 int prio:28:4:1 int orig_cpu:32:4:1 int dest_cpu:36:4:1",
        ),
        ("irq/softirq_entry", 6, "unsigned int vec:8:4:0"),
        (
            "tlb/tlb_flush",
            7,
            "int reason:8:4:1 unsigned long pages:16:8:0",
        ),
        ("other/other", 8, "int what:8:4:1"),
    ];
    const WAKE: &str =
        "char comm[16]:8:16:0 pid_t pid:24:4:1 int prio:28:4:1 int target_cpu:32:4:1";

    fn format(name: &str, id: u32, fields: &str) -> EventFormat {
        let (system, name) = name.split_once('/').unwrap();
        let common = "unsigned short common_type:0:2:0 unsigned char common_flags:2:1:0 int common_pid:4:4:1";
        let mut text = format!("name: {name}\nID: {id}\n");
        let mut declared = String::new();
        for word in common.split(' ').chain(fields.split(' ')) {
            let mut parts = word.split(':');
            declared = format!("{declared} {}", parts.next().unwrap());
            if let (Some(offset), Some(size), Some(signed)) =
                (parts.next(), parts.next(), parts.next())
            {
                text += &format!("field:{declared};offset:{offset};size:{size};signed:{signed};\n");
                declared.clear();
            }
        }
        EventFormat::parse(system, &text).unwrap()
    }

    fn decoder(types: &[(&str, u32, &str)], endian: Endian) -> Decoder {
        let formats: Vec<_> = types.iter().map(|(n, i, f)| format(n, *i, f)).collect();
        Decoder::new(&formats, endian, 8)
    }

    const SEEN: Seen = Seen {
        ts: 5,
        cpu: 6,
        process: 7,
        thread: 8,
    };

    #[test]
    fn every_type_of_a_usual_kernel_is_usual() {
        let decoder = decoder(&TYPES, Endian::Little);
        for (name, id, _) in TYPES {
            let mut record = [0; 64];
            record[0] = id as u8;
            assert!(decoder.whole(&record, SEEN).is_some(), "{name}");
        }
    }

    #[test]
    fn other_orders_sizes_and_signs_are_not() {
        let record = [2; 64];
        let unusual = |fields: &str, endian| {
            let decoder = decoder(&[("sched/sched_waking", 0x202, fields)], endian);
            assert!(decoder.decode_any(&record, &SEEN).is_ok());
            assert!(decoder.whole(&record, SEEN).is_none(), "{fields}");
        };
        unusual(WAKE, Endian::Big);
        unusual(&WAKE.replace("pid:24:4:1", "pid:24:4:0"), Endian::Little);
        unusual(&WAKE.replace("cpu:32:4:1", "cpu:32:8:1"), Endian::Little);
        unusual(&WAKE.replace("[16]:8:16", "[8]:8:8"), Endian::Little);
    }

    proptest! {
        #[test]
        fn the_short_way_leads_where_the_general_one_does(
            mut record in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xff), any::<u8>()], 0..80),
            id in 0..10_u8,
            names_stopper in any::<bool>(),
            shared_pid in any::<bool>(),
        ) {
            let decoder = decoder(&TYPES, Endian::Little);
            if let Some(head) = record.first_chunk_mut::<2>() {
                *head = [id, 0];
            }
            if let (true, Some(name)) = (names_stopper, record.get_mut(8..18)) {
                name.copy_from_slice(b"migration/");
            }
            if let (true, Some(pid)) = (shared_pid, record.get_mut(4..8)) {
                pid.copy_from_slice(&SEEN.thread.to_le_bytes());
            }
            let general = decoder.decode_any(&record, &SEEN);
            match decoder.whole(&record, SEEN) {
                Some(whole) => {
                    let event = general.unwrap();
                    prop_assert_eq!(Event::of_whole(&whole), Some(event.clone()));
                    prop_assert_eq!(Glance::of_whole(&whole), Some(Glance::from(event)));
                }
                None => prop_assert!(general.is_err() || record.len() < 8),
            }
        }
    }
}
