//! The one event model: what a scheduler trace says, whatever file it came from.

use smallvec::SmallVec;

use std::hash::{Hash, Hasher};

use crate::bytes::until_nul;
use crate::machine_record::{CONTINUED, PREFIX};
use crate::print_fmt::PrevState;

/// A task's name as the kernel keeps it: 16 bytes, NUL-padded, not necessarily text.
#[derive(Debug, Clone, Copy, Eq, Default)]
pub struct Comm(pub [u8; 16]);

impl PartialEq for Comm {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let ([a, b], [c, d]) = (self.halves(), other.halves());
        (a ^ c) | (b ^ d) == 0
    }
}

impl Hash for Comm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Comm {
    /// The first 16 bytes of `raw`, cut at its NUL.
    #[inline]
    pub fn new(raw: &[u8]) -> Self {
        if let Some(all) = raw.first_chunk::<16>() {
            return Self::from_16(all);
        }
        let mut comm = [0; 16];
        comm.iter_mut()
            .zip(until_nul(raw))
            .for_each(|(to, from)| *to = *from);
        Self(comm)
    }

    /// All bytes of a name, cut at its NUL.
    #[inline(always)]
    pub fn from_16(raw: &[u8; 16]) -> Self {
        Self(cut_at_nul(*raw))
    }

    /// As it is written, in two halves: a processor waits where it reads at once what was written in two.
    #[inline(always)]
    fn halves(&self) -> [u64; 2] {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = self.0;
        [
            u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        ]
    }

    /// The name's bytes, without padding. Names can hold escape codes and markup: never print them raw.
    pub fn as_bytes(&self) -> &[u8] {
        until_nul(&self.0)
    }

    /// The name with everything unprintable escaped (`\x1b`), safe for a terminal.
    pub fn escaped(&self) -> String {
        escape(self.as_bytes())
    }
}

/// Zeroes what follows the first NUL: old kernels copy stale bytes after it.
#[inline(always)]
fn cut_at_nul(raw: [u8; 16]) -> [u8; 16] {
    const ONES: u128 = u128::MAX / 255;
    let value = u128::from_le_bytes(raw);
    // Sets the top bit of every zero byte; only the lowest such bit is certain, and only that one is used.
    let zeros = value.wrapping_sub(ONES) & !value & (ONES << 7);
    let first = (zeros & zeros.wrapping_neg()) >> 7;
    // Every bit below the first zero byte; all of them if there is none.
    (value & first.wrapping_sub(1)).to_le_bytes()
}

/// Text from a trace made safe to print: control characters and invalid UTF-8 become `\xNN` or `\u{…}`.
pub fn escape(raw: &[u8]) -> String {
    let mut safe = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || is_format_character(c) {
                safe.extend(c.escape_unicode());
            } else {
                safe.push(c);
            }
        }
        for byte in chunk.invalid() {
            safe.push_str(&format!("\\x{byte:02x}"));
        }
    }
    safe
}

/// Characters that change how the text around them is shown: bidirectional marks, zero-width, line separators.
fn is_format_character(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

/// A set of CPUs as the kernel's bit masks hold it: CPU `n` is bit `n % 64` of word `n / 64`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuMask(pub SmallVec<[u64; 4]>);

impl CpuMask {
    /// How many CPUs are in it.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Its CPUs, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().zip(0_u32..).flat_map(|(&word, index)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| index * 64 + bit)
        })
    }
}

/// The context an event was recorded in, from `common_flags` (kernel `include/linux/trace_events.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextFlags(pub u8);

impl ContextFlags {
    pub fn hardirq(self) -> bool {
        self.0 & 0x08 != 0
    }

    /// Serving a soft interrupt.
    pub fn softirq(self) -> bool {
        self.0 & 0x10 != 0
    }

    pub fn nmi(self) -> bool {
        self.0 & 0x40 != 0
    }
}

/// The interrupt vectors of x86 by which one CPU interrupts another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vector {
    Reschedule,
    CallFunction,
    CallFunctionSingle,
}

/// One recorded event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Nanoseconds on the trace's clock.
    pub ts: i64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// `common_pid`: the task that was current on that CPU.
    pub pid: i32,
    /// That task's process, where the trace tells (perf samples do); -1 where not.
    pub tgid: i32,
    pub flags: ContextFlags,
    /// Whether it is one of those that [`crate::trace::OpenOptions::watch`] asks for.
    pub watched: bool,
    /// Index into the trace's event types; [`NO_TYPE`] for what the reader adds itself (losses).
    pub type_index: u16,
    pub payload: Payload,
}

/// `Event::type_index` of events that are not in the trace's list of types.
pub const NO_TYPE: u16 = u16::MAX;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    Switch {
        prev_comm: Comm,
        prev_pid: i32,
        prev_prio: i16,
        prev_state: PrevState,
        next_comm: Comm,
        next_pid: i32,
        next_prio: i16,
    },
    /// `sched_waking`: on the waker's CPU, before a CPU is chosen; `target_cpu` is where the wakee last was.
    Waking(Wake),
    /// `sched_wakeup`: enqueued; `target_cpu` is where it goes.
    Wakeup(Wake),
    WakeupNew(Wake),
    Migrate {
        comm: Comm,
        pid: i32,
        prio: i16,
        orig_cpu: u32,
        dest_cpu: u32,
    },
    Fork {
        parent_pid: i32,
        child_pid: i32,
        child_comm: Comm,
    },
    /// `task_newtask`, ahead of the fork: whether the new task will be a thread of its parent's process.
    NewTask {
        pid: i32,
        thread: bool,
    },
    Exec {
        pid: i32,
        old_pid: i32,
    },
    Exit {
        comm: Comm,
        pid: i32,
    },
    /// The sender set NEED_RESCHED of a polling idle CPU instead of interrupting it.
    WakeIdleWithoutIpi {
        cpu: u32,
    },
    IpiSendCpu {
        cpu: u32,
        callsite: u64,
        callback: u64,
    },
    IpiSendMask {
        cpus: CpuMask,
        callsite: u64,
        callback: u64,
    },
    /// `csd` is the address of what was queued; 0 where the event does not tell.
    CsdQueue {
        cpu: u32,
        callsite: u64,
        func: u64,
        csd: u64,
    },
    /// `csd` is 0 for a CPU's own part of a call to many.
    CsdEntry {
        func: u64,
        csd: u64,
    },
    CsdExit {
        func: u64,
        csd: u64,
    },
    VectorEntry(Vector),
    VectorExit(Vector),
    /// arm64: `reason` is the address of a static string (see `printk_formats`).
    IpiRaise {
        cpus: CpuMask,
        reason: u64,
    },
    IpiEntry {
        reason: u64,
    },
    IpiExit {
        reason: u64,
    },
    /// `pages` is -1 for a full flush.
    TlbFlush {
        reason: i32,
        pages: i64,
    },
    /// The function probe on `flush_tlb_mm_range`: the addresses that a flush was asked for. `end` is all ones for all of
    /// them; `shift` is that of the pages' size, 0 where the probe does not tell.
    FlushRange {
        start: u64,
        end: u64,
        shift: u32,
    },
    SoftirqRaise {
        vec: u32,
    },
    SoftirqEntry {
        vec: u32,
    },
    SoftirqExit {
        vec: u32,
    },
    IrqEntry {
        irq: i32,
    },
    IrqExit {
        irq: i32,
    },
    /// The function probe on `select_task_rq_fair`: what the kernel held as it chose.
    Select(Selection),
    /// That probe's return: the CPU chosen.
    Selected {
        cpu: i32,
    },
    /// Entry of the system call that sets a task's affinity; pid 0 is the caller.
    SetAffinity {
        pid: i32,
    },
    /// NUMA balancing is about to have a task moved by its CPU's stopper (`migrate_task_to()`).
    NumaMove {
        pid: i32,
    },
    /// NUMA balancing is about to have two tasks change places (`migrate_swap()`).
    NumaSwap {
        src_pid: i32,
        dst_pid: i32,
    },
    /// Text written to `trace_marker`, or by `trace_printk`.
    Marker(Box<[u8]>),
    /// perf's own record of a task's name (PERF_RECORD_COMM).
    TaskName {
        tgid: i32,
        tid: i32,
        comm: Comm,
    },
    /// What the counters of this CPU held as the sample was taken that comes next (perf's `SAMPLE_READ`).
    Counters(Counters),
    /// From here to the matching [`Payload::LossEnd`] this CPU's events are missing; `count` where known.
    LossBegin {
        count: Option<u64>,
    },
    LossEnd,
    /// A type that is counted but not decoded.
    Other,
}

/// Whether a marker's text is a line of the machine record. It says what the machine is, not what happened then: the
/// recorder writes it before the first event and after the last.
pub fn is_record_line(text: &[u8]) -> bool {
    [PREFIX, CONTINUED]
        .iter()
        .any(|start| text.starts_with(start.as_bytes()))
}

impl Payload {
    /// Whether it is a line of the machine record.
    #[inline]
    pub fn is_record_line(&self) -> bool {
        matches!(self, Payload::Marker(text) if is_record_line(text))
    }
}

/// The fields that `sched_waking`, `sched_wakeup` and `sched_wakeup_new` share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    pub comm: Comm,
    pub pid: i32,
    pub prio: i16,
    pub target_cpu: u32,
}

/// What `select_task_rq_fair` was given and the wakee held, as far as the kernel let the probe fetch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub pid: i32,
    /// The wakee's `wakee_flips`.
    pub flips: Option<u32>,
    /// Previous CPU.
    pub prev: i32,
    /// Recently used CPU; -1 if it is not known.
    pub recent: i32,
    pub wake_flags: Option<u32>,
    /// Number of CPUs the wakee may run on; -1 if it is not known.
    pub allowed: i32,
    /// Address of the wakee's own last wakee; 0 if it is not known.
    pub last_wakee: u64,
    /// The CPUs the wakee may run on, where the probe fetched them.
    pub mask: Option<CpuMask>,
}

/// Most counters that are read of a sample.
pub const MOST_COUNTERS: usize = 8;

/// Running totals of a CPU's counters. Their names are `TraceMeta::counters`, in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    values: [u64; MOST_COUNTERS],
    /// A bit for each counter that the sample holds.
    held: u8,
    /// Nanoseconds for which the counters were wanted, and for which they counted: fewer where the processor had to
    /// share them out. Both 0 where the sample does not tell.
    pub enabled_ns: u64,
    pub running_ns: u64,
    /// The places of those two, if both count the same kinds of execution.
    pub cycles: Option<u8>,
    pub instructions: Option<u8>,
}

impl Counters {
    /// Notes a counter's value; places from [`MOST_COUNTERS`] on are not kept.
    pub fn set(&mut self, place: u8, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(place)) {
            *slot = value;
            self.held |= 1 << place;
        }
    }

    /// The value of the counter at a place.
    pub fn get(&self, place: u8) -> Option<u64> {
        let value = self.values.get(usize::from(place))?;
        (self.held >> place & 1 == 1).then_some(*value)
    }

    /// Cycles and instructions, where both are held.
    pub fn cycles_and_instructions(&self) -> Option<(u64, u64)> {
        Some((self.get(self.cycles?)?, self.get(self.instructions?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_held_or_not() {
        let mut counters = Counters::default();
        counters.set(7, 70);
        counters.set(8, 80);
        assert_eq!([7, 0, 8].map(|at| counters.get(at)), [Some(70), None, None]);
        (counters.cycles, counters.instructions) = (Some(7), Some(0));
        assert_eq!(counters.cycles_and_instructions(), None);
        counters.set(0, 5);
        assert_eq!(counters.cycles_and_instructions(), Some((70, 5)));
    }

    /// Events are moved a lot: what few traces have must not make them larger.
    #[test]
    fn counters_take_no_more_room_than_other_events() {
        let (counters, selection) = (size_of::<Counters>(), size_of::<Selection>());
        assert!(counters <= selection, "{counters} {selection}");
    }

    #[test]
    fn names_are_never_printed_raw() {
        let comm = Comm::new(b"\x1b[31mred\0junk");
        assert_eq!(comm.escaped(), "\\u{1b}[31mred");
        assert_eq!(Comm::new(b"a\xff").escaped(), "a\\xff");
        assert_eq!(escape("a\u{202e}b".as_bytes()), "a\\u{202e}b");
    }

    #[test]
    fn stale_bytes_after_the_nul_do_not_make_another_name() {
        for length in 0..=16 {
            let mut raw = [b'x'; 16];
            let mut clean = [0; 16];
            clean[..length].fill(b'x');
            if length < 16 {
                raw[length] = 0;
            }
            assert_eq!(Comm::new(&raw), Comm(clean), "{length}");
        }
    }

    #[test]
    fn masks_list_their_cpus() {
        let mask = CpuMask(SmallVec::from_slice(&[0b101, 1]));
        assert_eq!(mask.cpus().collect::<Vec<_>>(), [0, 2, 64]);
        assert_eq!(mask.count(), 3);
    }
}
