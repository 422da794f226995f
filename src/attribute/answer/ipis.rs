//! Interrupts between CPUs, and TLB shootdowns among them (`analysis` §6).

use serde::Serialize;

use super::{ByWord, Known, Quantiles};

#[derive(Debug, Clone, Serialize)]
pub struct Ipis {
    /// `sends`, each to each CPU; or `handlers` where the trace (before 6.4) shows nothing else.
    pub counted: &'static str,
    /// Interrupts. Those by kind, by distance and by fate sum to it.
    pub total: u64,
    pub by_kind: ByWord<u64>,
    pub by_distance: ByWord<u64>,
    pub by_fate: ByWord<u64>,
    /// Send to handler's entry.
    pub latency_ns: Known<Quantiles>,
    pub latency_by_kind_ns: ByWord<Known<Quantiles>>,
    /// Idle CPUs that polled, and so were asked without an interrupt.
    pub polled: Requests,
    /// Functions put on other CPUs' lists.
    pub queued: Known<Requests>,
    pub handlers: Known<Handlers>,
    /// Handlers' time, taken from the tasks that they interrupted.
    pub stolen_ns: Known<i64>,
    pub stolen_by_kind_ns: Known<ByWord<i64>>,
    /// The tasks that it was taken from, worst first.
    pub stolen_from: Vec<StolenFrom>,
    /// What was called, most often first.
    pub functions: Vec<FunctionFacts>,
    /// By the road of wakeups.
    pub paths: ByWord<RoadFacts>,
    pub tlb: Known<Tlb>,
}

/// Requests of one road; those by kind sum to the total.
#[derive(Debug, Clone, Serialize)]
pub struct Requests {
    pub total: u64,
    pub by_kind: ByWord<u64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Handlers {
    pub count: u64,
    /// Those that no recorded send explains.
    pub unexplained: u64,
    /// Those of which the end was not seen, and so no time.
    pub untimed: u64,
    /// Time in all of them, nested ones once: the sum of the next three.
    pub ns: i64,
    pub stolen_ns: i64,
    /// On CPUs that ran nothing.
    pub idle_ns: i64,
    /// It is not known what the CPU ran.
    pub unknown_ns: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct StolenFrom {
    pub name: String,
    pub pid: i32,
    pub generation: u32,
    pub ns: i64,
    /// Handlers that interrupted it.
    pub handlers: u64,
    /// The part for TLB shootdowns.
    pub tlb_ns: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct FunctionFacts {
    pub kind: &'static str,
    /// The function called; an address where the trace has no symbols.
    pub function: Known<String>,
    /// The kernel's function that sent it.
    pub callsite: Known<String>,
    pub interrupts: u64,
    /// How often it was put on another CPU's list.
    pub queued: u64,
    /// Time in handlers.
    pub handler_ns: i64,
    pub stolen_ns: i64,
}

/// What wakeups by one road cost on both sides.
#[derive(Debug, Clone, Serialize)]
pub struct RoadFacts {
    pub wakeups: u64,
    /// What the waker paid.
    pub waker_cost_ns: Known<Quantiles>,
    pub waker_cost_total_ns: Known<i64>,
    /// Interrupts for its sake.
    pub interrupts: Known<u64>,
    /// Tasks that each of their handlers enqueued, on average.
    pub wakeups_per_interrupt: Known<f64>,
    /// Time of their handlers, taken from tasks, and on CPUs that ran nothing.
    pub stolen_ns: Known<i64>,
    pub idle_ns: Known<i64>,
}

/// TLB shootdowns.
#[derive(Debug, Clone, Serialize)]
pub struct Tlb {
    /// Changes of mappings that flushed: local and remote ones.
    pub flushes: u64,
    /// No other CPU had the mappings.
    pub local: u64,
    /// Others had them.
    pub remote: u64,
    /// All `tlb_flush` events, those of CPUs that were asked and of task switches too.
    pub by_reason: ByWord<u64>,
    /// Flushes by pages: the k-th of 2^k pages or more, and fewer than twice as many.
    pub pages_log2: Vec<u64>,
    /// With nothing left to flush.
    pub empty: u64,
    /// Of the whole TLB: those asked for, and larger ones than the kernel flushes page by page.
    pub full: u64,
    /// Ranges of more pages are flushed as a whole, so sizes above it are censored.
    pub censored_above_pages: u32,
    /// Whether that is the kernel's default, not what the machine record says.
    pub ceiling_assumed: bool,
    /// What was asked for, where a probe recorded it at the source.
    pub ranges: Known<FlushRanges>,
    /// CPUs asked, in all.
    pub targets: Known<u64>,
    /// Remote flushes by CPUs asked, as `pages_log2`.
    pub targets_log2: Known<Vec<u64>>,
    /// Remote flushes that asked nobody: the other CPUs were lazy.
    pub untargeted: Known<u64>,
    pub ipis_by_distance: Known<ByWord<u64>>,
    /// From the first request to the last acknowledgement.
    pub initiator_wait_ns: Known<Quantiles>,
    pub initiator_wait_total_ns: Known<i64>,
    /// Handlers' time taken from tasks.
    pub victims_ns: Known<i64>,
    /// By process, worst first: what its flushes and waits were, and what was taken from it.
    pub processes: Vec<TlbProcess>,
}

#[derive(Debug, Clone, Serialize)]
pub struct FlushRanges {
    pub count: u64,
    /// As `pages_log2`, in pages of 4 KiB.
    pub pages_log2: Vec<u64>,
    /// Of all addresses.
    pub whole: u64,
    /// Those with a size that were flushed as a whole nevertheless.
    pub made_full: u64,
    /// Those that no `tlb_flush` followed.
    pub unannounced: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct TlbProcess {
    pub name: String,
    /// The process, where the trace tells; else the task.
    pub pid: i32,
    pub flushes: u64,
    pub remote: u64,
    pub wait_ns: i64,
    /// Handlers' time taken from its tasks.
    pub victim_ns: i64,
}
