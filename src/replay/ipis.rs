//! Interrupts between CPUs: what one CPU sends to another, and the handler that it starts there.
//!
//! Since 6.5 (kernel/smp.c) a call of a function on another CPU is first put on that CPU's list (`csd_queue_cpu`), then
//! an interrupt is sent if the list was empty (`ipi_send_cpu`, `ipi_send_cpumask`), unless the CPU polls
//! (`sched_wake_idle_without_ipi`). 6.4 has `ipi_send_*` for both, kernels before it only show handlers. All that is kept
//! here belongs to one CPU each, and is bounded.

mod handlers;
mod sends;

use std::collections::VecDeque;

use super::engine::Replay;
use super::flushes::Flush;
use super::machine::Current;
use super::rows::{IpiRow, Sink};
use super::tasks::TaskState;
use super::words::{IpiFate, IpiKind};
use ttwu_parsers::decode::EventType;
use ttwu_parsers::event::{ContextFlags, Event, Payload};
use ttwu_parsers::symbols::{Strings, Symbols};

pub use handlers::Running;

/// Most requests to one CPU that wait for their handler; then the oldest is given up.
const WAITING: usize = 1024;
/// A request that was not handled in so long never is: 1 s.
const FORGOTTEN_NS: i64 = 1_000_000_000;

/// What the trace can show of interrupts between CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IpiFacts {
    /// `ipi_send_cpu` or `ipi_send_cpumask` occur: then arm64's `ipi_raise` says the same again.
    pub sends: bool,
    /// 6.4 alone announces a queueing as a first send.
    pub first_send_is_queueing: bool,
    /// The handlers that occur.
    pub reschedule_entries: bool,
    pub single_entries: bool,
    pub many_entries: bool,
    /// arm64's `ipi_entry`.
    pub entries: bool,
    pub csd_queues: bool,
    pub csd_entries: bool,
    /// Where the kernel's functions start, if its symbols are in the trace.
    pub wakeup_function: Option<u64>,
    pub flush_function: Option<u64>,
    pub generic_function: Option<u64>,
    pub symbols: Symbols,
    /// `tlb_single_page_flush_ceiling`, where the machine record has it.
    pub flush_ceiling: Option<u32>,
    /// What arm64's reasons, addresses of strings, stand for.
    pub reasons: Vec<(u64, Reason)>,
}

/// What arm64 sends an interrupt for: `ipi_types`, arch/arm64/kernel/smp.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Reschedule,
    Call,
    IrqWork,
    Other,
}

impl Reason {
    fn of(string: &[u8]) -> Option<Self> {
        Some(match string {
            b"Rescheduling interrupts" => Reason::Reschedule,
            b"Function call interrupts" => Reason::Call,
            b"IRQ work interrupts" => Reason::IrqWork,
            b"CPU stop interrupts"
            | b"CPU stop (for crash dump) interrupts"
            | b"CPU stop NMIs"
            | b"CPU wake-up interrupts"
            | b"CPU backtrace interrupts"
            | b"KGDB roundup interrupts"
            | b"Timer broadcast interrupts" => Reason::Other,
            _ => return None,
        })
    }
}

impl IpiFacts {
    /// Reads it off the types that occur; the lists of symbols and strings are asked for only if they are needed.
    pub fn new(
        types: &[EventType],
        counts: &[u64],
        version: (u32, u32),
        symbols: impl FnOnce() -> Symbols,
        strings: impl FnOnce() -> Strings,
    ) -> Self {
        let has = |name: &str| {
            let mut found = types.iter().zip(counts);
            found.any(|(t, &n)| t.name == name && n > 0)
        };
        let mut facts = Self {
            sends: has("ipi_send_cpu") || has("ipi_send_cpumask"),
            first_send_is_queueing: version == (6, 4),
            reschedule_entries: has("reschedule_entry"),
            single_entries: has("call_function_single_entry"),
            many_entries: has("call_function_entry"),
            entries: has("ipi_entry"),
            csd_queues: has("csd_queue_cpu"),
            csd_entries: has("csd_function_entry"),
            ..Self::default()
        };
        if facts.sends || facts.csd_queues || facts.csd_entries {
            let symbols = symbols();
            facts.wakeup_function = symbols.address("sched_ttwu_pending");
            facts.flush_function = symbols.address("flush_tlb_func");
            facts.generic_function = symbols.address("generic_smp_call_function_single_interrupt");
            facts.symbols = symbols;
        }
        if facts.entries || has("ipi_raise") {
            let named = |(at, string)| Some((at, Reason::of(string)?));
            facts.reasons = strings().iter().filter_map(named).collect();
        }
        facts
    }

    /// Whether an event tells whom a call is for before its interrupt, if any, is sent.
    fn tell_queueing(&self) -> bool {
        self.csd_queues || self.first_send_is_queueing
    }

    fn reason(&self, address: u64) -> Option<Reason> {
        let found = self.reasons.iter().find(|(at, _)| *at == address);
        found.map(|(_, reason)| *reason)
    }
}

/// The kernel's functions that tell calls apart: from its symbols, or learnt where the events leave no doubt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Functions {
    pub wakeup: Option<u64>,
    pub flush: Option<u64>,
}

impl Functions {
    pub fn new(facts: &IpiFacts) -> Self {
        Self {
            wakeup: facts.wakeup_function,
            flush: facts.flush_function,
        }
    }
}

/// What is going on at one CPU.
#[derive(Debug, Clone, Default)]
pub struct IpiState {
    /// The wakeup whose sends may follow.
    wakeup: Option<WakeupSends>,
    /// The function that this CPU put on another's list last, until the interrupt or its absence follows.
    announced: Option<Announced>,
    /// Interrupts sent to this CPU, and functions on its list, in order.
    waiting: VecDeque<Waiting>,
    /// Handlers under way, the outermost first.
    running: Vec<Running>,
    /// The flush that this CPU began last.
    pub(super) flush: Option<Box<Flush>>,
    /// The range that a probe showed last.
    pub(super) range: Option<FlushedRange>,
}

/// A range of addresses to be flushed, and the stint in which it was asked for.
#[derive(Debug, Clone, Copy)]
pub struct FlushedRange {
    pub ts_ns: i64,
    pub start: u64,
    pub end: u64,
    pub shift: u32,
    pub stint: Stint,
}

/// Sends from here to `until_ns` to `target` are a wakeup's.
#[derive(Debug, Clone, Copy)]
struct WakeupSends {
    target: u32,
    queued: bool,
    until_ns: i64,
}

#[derive(Debug, Clone, Copy)]
struct Announced {
    /// `None` for several.
    target: Option<u32>,
    kind: IpiKind,
    func: u64,
}

/// A request that no handler was seen for yet.
#[derive(Debug, Clone)]
struct Waiting {
    class: Class,
    row: IpiRow,
    /// The initiator whose flush it belongs to, and that flush's number.
    flush: Option<(usize, u64)>,
}

/// Which handler a request will meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Reschedule,
    Single,
    Many,
    IrqWork,
    /// arm64's other reasons, by address.
    Reason(u64),
    /// A function on the list, by its entry's address.
    Csd(u64),
}

/// What a CPU runs, and since when: while it is the same, it did not switch.
pub type Stint = (Current, i64);

impl<S: Sink> Replay<'_, S> {
    /// Any event of the kinds that interrupts and flushes are rebuilt from; others are ignored.
    pub(super) fn ipi(&mut self, cpu: usize, event: &Event) {
        match &event.payload {
            Payload::IpiSendCpu {
                cpu: target,
                callsite,
                callback,
            } => self.sent_to_one(cpu, event, *target, *callback, *callsite),
            Payload::IpiSendMask {
                cpus,
                callsite,
                callback,
            } => self.sent_to_many(cpu, event, cpus, *callback, *callsite),
            Payload::IpiRaise { cpus, reason } => self.raised(cpu, event, cpus, *reason),
            Payload::WakeIdleWithoutIpi { cpu: target } => self.polled(cpu, event, *target),
            Payload::CsdQueue {
                cpu: target,
                callsite,
                func,
                csd,
            } => self.queued_call(cpu, event, *target, (*func, *csd), *callsite),
            Payload::VectorEntry(vector) => self.vector_entered(cpu, event.ts, *vector),
            Payload::VectorExit(vector) => self.vector_left(cpu, *vector),
            Payload::IpiEntry { reason } => self.reason_entered(cpu, event.ts, *reason),
            Payload::IpiExit { reason } => self.reason_left(cpu, *reason),
            Payload::CsdEntry { func, csd } => self.call_entered(cpu, event.ts, *func, *csd),
            Payload::CsdExit { func, csd } => self.call_left(cpu, event.ts, *func, *csd),
            Payload::TlbFlush { reason, pages } => self.flushed(cpu, event, *reason, *pages),
            Payload::FlushRange { start, end, shift } => {
                self.flush_asked(cpu, event.ts, (*start, *end), *shift);
            }
            _ => {}
        }
    }

    /// What the CPU runs, and since when.
    pub(super) fn stint(&self, cpu: usize) -> Stint {
        let state = &self.cpus[cpu];
        let since = match state.current {
            Current::Task(task) => match self.tasks[task].state {
                TaskState::Running { since, .. } => since,
                _ => i64::MIN,
            },
            Current::Nothing => state.nothing_since,
            Current::Unknown => i64::MIN,
        };
        (state.current, since)
    }

    /// A gap begins: what was sent to the CPU is lost with it, and what it was doing, too.
    pub(super) fn forget_ipis(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu].ipis;
        (state.wakeup, state.announced, state.range) = (None, None, None);
        for waiting in std::mem::take(&mut self.cpus[cpu].ipis.waiting) {
            self.give_up(waiting, IpiFate::Lost);
        }
        self.drop_running(cpu, 0);
        self.end_flush(cpu, false);
    }

    /// At the trace's end all goes out as it is.
    pub(super) fn close_ipis(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.end_range(cpu);
            for waiting in std::mem::take(&mut self.cpus[cpu].ipis.waiting) {
                self.give_up(waiting, IpiFate::Unanswered);
            }
            self.drop_running(cpu, 0);
        }
        for cpu in 0..self.cpus.len() {
            self.end_flush(cpu, true);
        }
    }

    /// No handler will be seen for a request.
    fn give_up(&mut self, mut waiting: Waiting, fate: IpiFate) {
        waiting.row.fate = fate;
        if let Some((initiator, number)) = waiting.flush {
            self.acknowledgement_lost(initiator, number);
        }
        self.sink.ipi(&waiting.row);
    }
}

/// Whether the event was recorded in a task's own context.
pub(super) fn in_task(flags: ContextFlags) -> bool {
    !flags.hardirq() && !flags.softirq() && !flags.nmi()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(names: &[&str], version: (u32, u32)) -> IpiFacts {
        let types: Vec<EventType> = names
            .iter()
            .map(|name| EventType {
                id: 1,
                system: "ipi".to_owned(),
                name: (*name).to_owned(),
            })
            .collect();
        let symbols = "ffffffff81000100 t flush_tlb_func\nffffffff81000200 T sched_ttwu_pending\n";
        let strings = "0x10 : \"Function call interrupts\"\n0x20 : \"thaw_processes\"\n0x30 : \"Timer broadcast interrupts\"\n";
        IpiFacts::new(
            &types,
            &vec![1; types.len()],
            version,
            || Symbols::parse(symbols.as_bytes()),
            || Strings::parse(strings.as_bytes()),
        )
    }

    #[test]
    fn symbols_are_read_only_for_sends_and_strings_for_reasons() {
        let old = facts(&["reschedule_entry"], (6, 1));
        let expected = IpiFacts {
            reschedule_entries: true,
            ..IpiFacts::default()
        };
        assert_eq!(old, expected);
        let new = facts(&["ipi_send_cpu", "csd_queue_cpu"], (6, 4));
        assert_eq!(new.flush_function, Some(0xffff_ffff_8100_0100));
        assert_eq!(new.wakeup_function, Some(0xffff_ffff_8100_0200));
        assert!(new.sends && new.csd_queues && new.first_send_is_queueing);
        let arm = facts(&["ipi_raise"], (6, 1));
        assert_eq!(arm.reason(0x10), Some(Reason::Call));
        assert_eq!(arm.reason(0x20), None);
        assert_eq!(arm.reason(0x30), Some(Reason::Other));
    }
}
