//! From a raw record to an [`Event`], with every field's place resolved once per event type.

mod usual;

use smallvec::SmallVec;

use crate::bytes::Endian;
use crate::event::{Comm, ContextFlags, CpuMask, Event, NO_TYPE, Payload, Selection, Vector, Wake};
use crate::format::{BlobField, EventFormat, IntField};
use crate::print_fmt::StateTable;
use crate::watch::{Matcher, Watch, WatchError};

use usual::Usual;
pub(crate) use usual::{Fields, Reading, Seen, UsualWake, Whole};

/// Longest CPU mask that is read, in 64-bit words: 65,536 CPUs.
const MASK_WORDS: usize = 1024;

/// One event type of a trace, as `info` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    pub id: u32,
    pub system: String,
    pub name: String,
}

/// Decodes the records of one trace.
#[derive(Debug, Clone)]
pub struct Decoder {
    endian: Endian,
    /// Bytes of the kernel's `long`: CPU masks are arrays of it.
    long_size: usize,
    common_type: IntField,
    common_flags: Option<IntField>,
    common_pid: Option<IntField>,
    types: Vec<EventType>,
    layouts: Vec<Option<Layout>>,
    /// Where usual records start with what; `None` if this trace's are not usual.
    common: Option<usual::CommonPlaces>,
    /// The short way to each type's payload.
    usual: Vec<Usual>,
    /// `common_type` to index into `types`; [`NO_TYPE`] where the trace describes no such type.
    by_id: Vec<u16>,
    /// The type whose records are watched for, and which of them.
    watch: Option<(u16, Matcher)>,
}

/// A record that does not fit its own event's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeFault {
    /// No format has the record's `common_type`.
    UnknownType(u32),
    /// The record ends before a field its format names.
    Short { type_index: u16 },
}

impl Decoder {
    /// Resolves the formats. Of two formats with one id the first counts.
    pub fn new(formats: &[EventFormat], endian: Endian, long_size: usize) -> Self {
        let common = |name: &str| formats.iter().find_map(|f| f.int(name));
        let common_type = common("common_type").unwrap_or(IntField::COMMON_TYPE);
        let (common_flags, common_pid) = (common("common_flags"), common("common_pid"));
        let mut decoder = Decoder {
            endian,
            long_size: if long_size == 4 { 4 } else { 8 },
            common_type,
            common_flags,
            common_pid,
            types: Vec::new(),
            layouts: Vec::new(),
            common: usual::CommonPlaces::resolve(common_type, common_flags, common_pid, endian),
            usual: Vec::new(),
            by_id: Vec::new(),
            watch: None,
        };
        for format in formats {
            decoder.add(format);
        }
        decoder
    }

    /// `common_type` is 16 bits wide, so at most 65,535 types are kept.
    fn add(&mut self, format: &EventFormat) {
        let id = format.id as usize;
        if id > usize::from(u16::MAX) || self.types.len() >= usize::from(NO_TYPE) {
            return;
        }
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, NO_TYPE);
        }
        let index = u16::try_from(self.types.len()).unwrap_or(NO_TYPE);
        match self.by_id.get_mut(id) {
            Some(slot) if *slot == NO_TYPE => *slot = index,
            _ => return,
        }
        self.types.push(EventType {
            id: format.id,
            system: system_of(format).to_owned(),
            name: format.name.clone(),
        });
        let layout = Layout::resolve(format);
        self.usual.push(Usual::resolve(layout.as_ref()));
        self.layouts.push(layout);
    }

    /// Marks the events that are asked for ([`Event::watched`]). `formats` are those that this decoder was made of.
    ///
    /// # Errors
    /// An event or a field that is not among them, or a value that the field cannot have.
    pub fn watch(&mut self, formats: &[EventFormat], watch: &Watch) -> Result<(), WatchError> {
        let named = self.types.iter().enumerate().filter(|(_, of)| {
            of.name == watch.name
                && watch
                    .system
                    .as_ref()
                    .is_none_or(|system| of.system == *system)
        });
        let named: Vec<(usize, &EventType)> = named.collect();
        let (index, of) = match named[..] {
            [] => return Err(WatchError::NoEvent),
            [one] => one,
            [..] => {
                let systems = named.iter().map(|(_, of)| of.system.clone());
                return Err(WatchError::SeveralSystems(systems.collect()));
            }
        };
        let format = formats
            .iter()
            .find(|format| format.name == of.name && system_of(format) == of.system)
            .ok_or(WatchError::NoEvent)?;
        let matcher = Matcher::new(format, watch)?;
        // Its records go the general way, which marks them: the others' short way has nothing to ask.
        if let Some(usual) = self.usual.get_mut(index) {
            *usual = Usual::none();
        }
        self.watch = u16::try_from(index).ok().map(|index| (index, matcher));
        Ok(())
    }

    /// Whether a record of that type is watched for.
    fn is_watched(&self, type_index: u16, record: &[u8]) -> bool {
        let watch = self.watch.as_ref();
        watch.is_some_and(|(of, matcher)| *of == type_index && matcher.matches(record, self.endian))
    }

    /// The event types, in the order `Event::type_index` counts.
    pub fn types(&self) -> &[EventType] {
        &self.types
    }

    /// The trace's byte order.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Whether events of that type carry what the scheduler analysis needs.
    pub fn has(&self, system: &str, name: &str) -> bool {
        self.types
            .iter()
            .any(|t| t.system == system && t.name == name)
    }

    /// The index of the type a record claims to be.
    #[inline]
    pub fn type_of(&self, record: &[u8]) -> Result<u16, DecodeFault> {
        let id = self
            .common_type
            .get(record, self.endian)
            .and_then(|id| usize::try_from(id).ok())
            .unwrap_or(usize::MAX);
        match self.by_id.get(id) {
            Some(&index) if index != NO_TYPE => Ok(index),
            _ => Err(DecodeFault::UnknownType(
                u32::try_from(id).unwrap_or(u32::MAX),
            )),
        }
    }

    /// The record, if it is of the kind that nearly all are, for [`Reading::of_whole`]; else see [`Self::decode_any`].
    #[inline(always)]
    pub(crate) fn whole<'r>(&'r self, record: &'r [u8], seen: Seen) -> Option<Whole<'r>> {
        let common = self.common.as_ref()?.read(record, &self.by_id)?;
        let usual = self.usual.get(usize::from(common.type_index))?;
        Some(Whole {
            fields: usual.fields_of(record)?,
            record,
            common,
            seen,
        })
    }

    /// Decodes any record (starting at `common_type`), the general way.
    #[inline(never)]
    pub(crate) fn decode_any(&self, record: &[u8], seen: &Seen) -> Result<Event, DecodeFault> {
        let type_index = self.type_of(record)?;
        let int = |field: Option<IntField>| field.and_then(|f| f.get(record, self.endian));
        let payload = match self.layouts.get(usize::from(type_index)) {
            Some(Some(layout)) => layout
                .payload(record, self.endian, self.long_size)
                .ok_or(DecodeFault::Short { type_index })?,
            _ => Payload::Other,
        };
        let pid = int(self.common_pid).map_or(-1, to_i32);
        Ok(Event {
            ts: seen.ts,
            cpu: seen.cpu,
            pid,
            tgid: seen.tgid(pid),
            flags: ContextFlags(int(self.common_flags).map_or(0, |f| f as u8)),
            watched: self.is_watched(type_index, record),
            type_index,
            payload,
        })
    }
}

impl IntField {
    /// Where `common_type` lies in every kernel so far; used only if no format says so.
    const COMMON_TYPE: IntField = IntField::fixed(0, 2, false);
}

#[inline(always)]
fn to_i32(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(-1)
}

#[inline(always)]
fn to_cpu(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[inline(always)]
fn to_prio(value: i64) -> i16 {
    i16::try_from(value).unwrap_or(i16::MAX)
}

#[inline(always)]
fn comm(field: BlobField, record: &[u8], endian: Endian) -> Option<Comm> {
    match field.get_16(record) {
        Some(raw) => Some(Comm::from_16(raw)),
        None => field.get(record, endian).map(Comm::new),
    }
}

/// The flag of `clone` for a thread of the caller's process (include/uapi/linux/sched.h).
const CLONE_THREAD: i64 = 0x10000;

/// Most integers of a payload that is made of nothing else.
const INTS: usize = 4;

/// Makes a payload of up to four integers.
type BuildFromInts = fn([i64; INTS]) -> Payload;

/// The fields of one decoded event type.
#[derive(Debug, Clone)]
enum Layout {
    Switch(Box<SwitchFields>),
    Wake(WakeKind, WakeFields),
    Migrate([IntField; 4], BlobField),
    Fork([IntField; 2], BlobField),
    Exec([IntField; 2]),
    Exit(IntField, BlobField),
    /// Types whose payload is up to four integers.
    Ints([Option<IntField>; INTS], BuildFromInts),
    Mask(
        BlobField,
        [Option<IntField>; 2],
        fn(CpuMask, [i64; 2]) -> Payload,
    ),
    Select(Box<SelectFields>),
    Marker(BlobField),
}

/// The group of the recorder's own probes: `ttwu`, and `ttwu_PID_START` since several recorders may run.
const PROBES: &str = "ttwu";

/// The system that an event's type goes by: that of the probes without what differs from run to run.
fn system_of(format: &EventFormat) -> &str {
    let system = format.system.as_str();
    match system.strip_prefix(PROBES) {
        Some(rest) if rest.starts_with('_') => PROBES,
        _ => system,
    }
}

/// The recorder leaves out what a kernel does not let it fetch.
#[derive(Debug, Clone)]
struct SelectFields {
    pid: IntField,
    prev: IntField,
    flips: Option<IntField>,
    flags: Option<IntField>,
    /// Recently used CPU, number of CPUs, last wakee.
    others: [Option<IntField>; 3],
    /// An array of 64-bit words, and its size in bytes.
    mask: Option<(BlobField, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeKind {
    Waking,
    Wakeup,
    New,
}

#[derive(Debug, Clone)]
struct WakeFields {
    comm: BlobField,
    pid: IntField,
    prio: IntField,
    target_cpu: IntField,
}

#[derive(Debug, Clone)]
struct SwitchFields {
    prev_comm: BlobField,
    prev_pid: IntField,
    prev_prio: IntField,
    prev_state: IntField,
    next_comm: BlobField,
    next_pid: IntField,
    next_prio: IntField,
    states: StateTable,
}

impl Layout {
    /// `None` for a type that is not decoded, or that lacks a field it should have.
    fn resolve(format: &EventFormat) -> Option<Self> {
        let int = |name: &str| format.int(name);
        let comm = || format.blob("comm");
        Some(match (system_of(format), format.name.as_str()) {
            ("sched", "sched_switch") => Layout::Switch(Box::new(SwitchFields::resolve(format)?)),
            ("sched", "sched_waking") => {
                Layout::Wake(WakeKind::Waking, WakeFields::resolve(format)?)
            }
            ("sched", "sched_wakeup") => {
                Layout::Wake(WakeKind::Wakeup, WakeFields::resolve(format)?)
            }
            ("sched", "sched_wakeup_new") => {
                Layout::Wake(WakeKind::New, WakeFields::resolve(format)?)
            }
            ("sched", "sched_migrate_task") => Layout::Migrate(
                [
                    int("pid")?,
                    int("prio")?,
                    int("orig_cpu")?,
                    int("dest_cpu")?,
                ],
                comm()?,
            ),
            ("sched", "sched_process_fork") => Layout::Fork(
                [int("parent_pid")?, int("child_pid")?],
                format.blob("child_comm")?,
            ),
            ("sched", "sched_process_exec") => Layout::Exec([int("pid")?, int("old_pid")?]),
            ("sched", "sched_process_exit") => Layout::Exit(int("pid")?, comm()?),
            (PROBES, "sel") => Layout::Select(Box::new(SelectFields::resolve(format)?)),
            ("ftrace", "print") => Layout::Marker(format.blob("buf")?),
            ("ipi", "ipi_send_cpumask") => Layout::Mask(
                format.blob("cpumask")?,
                [int("callsite"), int("callback")],
                send_mask,
            ),
            ("ipi", "ipi_raise") => {
                Layout::Mask(format.blob("target_cpus")?, [int("reason"), None], raise)
            }
            (system, name) => return Self::resolve_ints(system, name, format),
        })
    }

    fn resolve_ints(system: &str, name: &str, format: &EventFormat) -> Option<Self> {
        let (fields, build): ([&str; INTS], BuildFromInts) = match (system, name) {
            ("sched", "sched_wake_idle_without_ipi") => (["cpu", "", "", ""], |[cpu, ..]| {
                Payload::WakeIdleWithoutIpi { cpu: to_cpu(cpu) }
            }),
            ("ipi", "ipi_send_cpu") => (
                ["cpu", "callsite", "callback", ""],
                |[cpu, site, back, _]| Payload::IpiSendCpu {
                    cpu: to_cpu(cpu),
                    callsite: site.cast_unsigned(),
                    callback: back.cast_unsigned(),
                },
            ),
            ("csd", "csd_queue_cpu") => (
                ["cpu", "callsite", "func", "csd"],
                |[cpu, site, func, csd]| Payload::CsdQueue {
                    cpu: to_cpu(cpu),
                    callsite: site.cast_unsigned(),
                    func: func.cast_unsigned(),
                    csd: csd.cast_unsigned(),
                },
            ),
            ("csd", "csd_function_entry") => (["func", "csd", "", ""], |[func, csd, ..]| {
                Payload::CsdEntry {
                    func: func.cast_unsigned(),
                    csd: csd.cast_unsigned(),
                }
            }),
            ("csd", "csd_function_exit") => (["func", "csd", "", ""], |[func, csd, ..]| {
                Payload::CsdExit {
                    func: func.cast_unsigned(),
                    csd: csd.cast_unsigned(),
                }
            }),
            ("ipi", "ipi_entry") => (["reason", "", "", ""], |[reason, ..]| Payload::IpiEntry {
                reason: reason.cast_unsigned(),
            }),
            ("ipi", "ipi_exit") => (["reason", "", "", ""], |[reason, ..]| Payload::IpiExit {
                reason: reason.cast_unsigned(),
            }),
            ("tlb", "tlb_flush") => (["reason", "pages", "", ""], |[reason, pages, ..]| {
                Payload::TlbFlush {
                    reason: to_i32(reason),
                    pages,
                }
            }),
            ("irq", "softirq_raise") => (["vec", "", "", ""], |[vec, ..]| Payload::SoftirqRaise {
                vec: to_cpu(vec),
            }),
            ("irq", "softirq_entry") => (["vec", "", "", ""], |[vec, ..]| Payload::SoftirqEntry {
                vec: to_cpu(vec),
            }),
            ("irq", "softirq_exit") => (["vec", "", "", ""], |[vec, ..]| Payload::SoftirqExit {
                vec: to_cpu(vec),
            }),
            ("irq", "irq_handler_entry") => (["irq", "", "", ""], |[irq, ..]| Payload::IrqEntry {
                irq: to_i32(irq),
            }),
            ("irq", "irq_handler_exit") => (["irq", "", "", ""], |[irq, ..]| Payload::IrqExit {
                irq: to_i32(irq),
            }),
            (PROBES, "selret") => (["cpu", "", "", ""], |[cpu, ..]| Payload::Selected {
                cpu: to_i32(cpu),
            }),
            // A range without its end is none.
            (PROBES, "tlb") if format.int("end").is_none() => return None,
            (PROBES, "tlb") => (["start", "end", "shift", ""], |[start, end, shift, _]| {
                Payload::FlushRange {
                    start: start.cast_unsigned(),
                    end: end.cast_unsigned(),
                    shift: u32::try_from(shift).unwrap_or(0),
                }
            }),
            // Without its flags it says nothing.
            ("task", "task_newtask") if format.int("clone_flags").is_none() => return None,
            ("task", "task_newtask") => (["pid", "clone_flags", "", ""], |[pid, flags, ..]| {
                Payload::NewTask {
                    pid: to_i32(pid),
                    thread: flags & CLONE_THREAD != 0,
                }
            }),
            ("syscalls", "sys_enter_sched_setaffinity") => (["pid", "", "", ""], |[pid, ..]| {
                Payload::SetAffinity { pid: to_i32(pid) }
            }),
            ("sched", "sched_move_numa") => (["pid", "", "", ""], |[pid, ..]| Payload::NumaMove {
                pid: to_i32(pid),
            }),
            ("sched", "sched_swap_numa") => (["src_pid", "dst_pid", "", ""], |[src, dst, ..]| {
                Payload::NumaSwap {
                    src_pid: to_i32(src),
                    dst_pid: to_i32(dst),
                }
            }),
            ("irq_vectors", _) => return vector_edge(name),
            _ => return None,
        };
        let resolved = fields.map(|field| format.int(field));
        // The first field is what the event is about; addresses may be missing.
        resolved[0].map(|_| Layout::Ints(resolved, build))
    }

    #[inline]
    fn payload(&self, record: &[u8], endian: Endian, long_size: usize) -> Option<Payload> {
        let int = |field: IntField| field.get(record, endian);
        let comm = |field: BlobField| comm(field, record, endian);
        Some(match self {
            Layout::Switch(fields) => fields.payload(record, endian)?,
            Layout::Wake(kind, fields) => {
                let wake = fields.wake(record, endian)?;
                match kind {
                    WakeKind::Waking => Payload::Waking(wake),
                    WakeKind::Wakeup => Payload::Wakeup(wake),
                    WakeKind::New => Payload::WakeupNew(wake),
                }
            }
            Layout::Migrate([pid, prio, orig, dest], name) => Payload::Migrate {
                comm: comm(*name)?,
                pid: to_i32(int(*pid)?),
                prio: to_prio(int(*prio)?),
                orig_cpu: to_cpu(int(*orig)?),
                dest_cpu: to_cpu(int(*dest)?),
            },
            Layout::Fork([parent, child], name) => Payload::Fork {
                parent_pid: to_i32(int(*parent)?),
                child_pid: to_i32(int(*child)?),
                child_comm: comm(*name)?,
            },
            Layout::Exec([pid, old_pid]) => Payload::Exec {
                pid: to_i32(int(*pid)?),
                old_pid: to_i32(int(*old_pid)?),
            },
            Layout::Exit(pid, name) => Payload::Exit {
                comm: comm(*name)?,
                pid: to_i32(int(*pid)?),
            },
            Layout::Ints(fields, build) => build(ints(fields, record, endian)?),
            Layout::Mask(mask, fields, build) => build(
                cpu_mask(mask.get(record, endian)?, endian, long_size),
                ints(fields, record, endian)?,
            ),
            Layout::Select(fields) => Payload::Select(fields.selection(record, endian, long_size)?),
            Layout::Marker(text) => {
                Payload::Marker(crate::bytes::until_nul(text.get(record, endian)?).into())
            }
        })
    }
}

fn send_mask(cpus: CpuMask, [callsite, callback]: [i64; 2]) -> Payload {
    Payload::IpiSendMask {
        cpus,
        callsite: callsite.cast_unsigned(),
        callback: callback.cast_unsigned(),
    }
}

fn raise(cpus: CpuMask, [reason, _]: [i64; 2]) -> Payload {
    Payload::IpiRaise {
        cpus,
        reason: reason.cast_unsigned(),
    }
}

/// `reschedule_entry` and its like carry no more than their name says.
fn vector_edge(name: &str) -> Option<Layout> {
    let build: BuildFromInts = match name {
        "reschedule_entry" => |_| Payload::VectorEntry(Vector::Reschedule),
        "reschedule_exit" => |_| Payload::VectorExit(Vector::Reschedule),
        "call_function_entry" => |_| Payload::VectorEntry(Vector::CallFunction),
        "call_function_exit" => |_| Payload::VectorExit(Vector::CallFunction),
        "call_function_single_entry" => |_| Payload::VectorEntry(Vector::CallFunctionSingle),
        "call_function_single_exit" => |_| Payload::VectorExit(Vector::CallFunctionSingle),
        _ => return None,
    };
    Some(Layout::Ints([None; INTS], build))
}

/// The values of up to `N` fields; a field the format lacks reads as 0.
#[inline]
fn ints<const N: usize>(
    fields: &[Option<IntField>; N],
    record: &[u8],
    endian: Endian,
) -> Option<[i64; N]> {
    let mut values = [0; N];
    for (value, field) in values.iter_mut().zip(fields) {
        if let Some(field) = field {
            *value = field.get(record, endian)?;
        }
    }
    Some(values)
}

impl SelectFields {
    fn resolve(format: &EventFormat) -> Option<Self> {
        let int = |name: &str| format.int(name);
        let mask = format.field("mask");
        Some(Self {
            pid: int("pid")?,
            prev: int("prev")?,
            flips: int("flips"),
            flags: int("flags"),
            others: ["rec", "nr", "last"].map(int),
            mask: mask.map(|field| (BlobField::new(field), field.size)),
        })
    }

    fn selection(&self, record: &[u8], endian: Endian, long_size: usize) -> Option<Selection> {
        let int = |field: IntField| field.get(record, endian);
        // `None` where the record is too short, `Some(None)` where there is no such field.
        let known = |field: Option<IntField>| match field {
            Some(field) => int(field).map(Some),
            None => Some(None),
        };
        let [recent, allowed, last_wakee] = self.others.map(known);
        Some(Selection {
            pid: to_i32(int(self.pid)?),
            prev: to_i32(int(self.prev)?),
            flips: known(self.flips)?.map(|flips| flips as u32),
            wake_flags: known(self.flags)?.map(|flags| flags as u32),
            recent: recent?.map_or(-1, to_i32),
            allowed: allowed?.map_or(-1, to_i32),
            last_wakee: last_wakee?.map_or(0, i64::cast_unsigned),
            mask: self.mask(record, endian, long_size)?,
        })
    }

    /// `None` where the record is too short: a mask that is cut off would forbid CPUs.
    fn mask(&self, record: &[u8], endian: Endian, long_size: usize) -> Option<Option<CpuMask>> {
        let Some((mask, size)) = self.mask else {
            return Some(None);
        };
        let raw = mask.get(record, endian).filter(|raw| raw.len() >= size)?;
        let mask = cpu_mask(raw, endian, long_size);
        // What could not be read reads as zeros; there is no task without any CPU.
        Some(Some(mask).filter(|mask| mask.count() > 0))
    }
}

/// A kernel bit mask: an array of longs, each in the trace's byte order.
fn cpu_mask(raw: &[u8], endian: Endian, long_size: usize) -> CpuMask {
    let mut words = SmallVec::new();
    for chunk in raw.chunks(8).take(MASK_WORDS) {
        let word = match (long_size, endian) {
            (8, _) => endian.u64_at(chunk, 0),
            (_, _) => endian.u32_at(chunk, 0).map(|low| {
                let high = endian.u32_at(chunk, 4).unwrap_or(0);
                u64::from(high) << 32 | u64::from(low)
            }),
        };
        words.push(word.unwrap_or(0));
    }
    CpuMask(words)
}

impl WakeFields {
    fn resolve(format: &EventFormat) -> Option<Self> {
        Some(Self {
            comm: format.blob("comm")?,
            pid: format.int("pid")?,
            prio: format.int("prio")?,
            target_cpu: format.int("target_cpu")?,
        })
    }

    #[inline]
    fn wake(&self, record: &[u8], endian: Endian) -> Option<Wake> {
        Some(Wake {
            comm: comm(self.comm, record, endian)?,
            pid: to_i32(self.pid.get(record, endian)?),
            prio: to_prio(self.prio.get(record, endian)?),
            target_cpu: to_cpu(self.target_cpu.get(record, endian)?),
        })
    }
}

impl SwitchFields {
    fn resolve(format: &EventFormat) -> Option<Self> {
        Some(Self {
            prev_comm: format.blob("prev_comm")?,
            prev_pid: format.int("prev_pid")?,
            prev_prio: format.int("prev_prio")?,
            prev_state: format.int("prev_state")?,
            next_comm: format.blob("next_comm")?,
            next_pid: format.int("next_pid")?,
            next_prio: format.int("next_prio")?,
            states: StateTable::parse(&format.print_fmt),
        })
    }

    #[inline]
    fn payload(&self, record: &[u8], endian: Endian) -> Option<Payload> {
        Some(Payload::Switch {
            prev_comm: comm(self.prev_comm, record, endian)?,
            prev_pid: to_i32(self.prev_pid.get(record, endian)?),
            prev_prio: to_prio(self.prev_prio.get(record, endian)?),
            prev_state: self.states.decode(self.prev_state.get(record, endian)?),
            next_comm: comm(self.next_comm, record, endian)?,
            next_pid: to_i32(self.next_pid.get(record, endian)?),
            next_prio: to_prio(self.next_prio.get(record, endian)?),
        })
    }
}

#[cfg(test)]
mod tests;
