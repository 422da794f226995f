//! What the simulated kernel tells: the tracepoints' contents, before any format.

use super::machine::Cpu;

/// A task as events name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    pub pid: i32,
    pub comm: String,
    pub prio: i32,
}

impl Who {
    pub fn swapper(cpu: u32) -> Self {
        Self {
            pid: 0,
            comm: format!("swapper/{cpu}"),
            prio: 120,
        }
    }
}

/// `prev_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Runnable,
    Preempted,
    Sleeping,
    Uninterruptible,
    Dead,
}

impl Left {
    pub fn runnable(self) -> bool {
        matches!(self, Left::Runnable | Left::Preempted)
    }
}

/// What the probe on `select_task_rq_fair` fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    pub pid: i32,
    pub flips: u32,
    pub last_wakee: u64,
    pub recent: i32,
    pub prev: Cpu,
    pub flags: i32,
    pub allowed: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Switch {
        prev: Who,
        left: Left,
        next: Who,
    },
    Waking {
        who: Who,
        prev: Cpu,
    },
    Wakeup {
        who: Who,
        to: Cpu,
    },
    New {
        who: Who,
        to: Cpu,
    },
    Migrate {
        who: Who,
        from: Cpu,
        to: Cpu,
    },
    Fork {
        parent: Who,
        child: Who,
    },
    Exec {
        pid: i32,
        old_pid: i32,
    },
    Exit {
        who: Who,
    },
    Poll {
        cpu: Cpu,
    },
    SendIpi {
        cpu: Cpu,
        callsite: u64,
        callback: u64,
    },
    SendIpis {
        cpus: Vec<Cpu>,
        callsite: u64,
        callback: u64,
    },
    /// `csd` is the address of the entry on the list.
    Queue {
        cpu: Cpu,
        callsite: u64,
        func: u64,
        csd: u64,
    },
    FunctionEntry {
        func: u64,
        csd: u64,
    },
    FunctionExit {
        func: u64,
        csd: u64,
    },
    VectorEntry(Vector),
    VectorExit(Vector),
    Tlb {
        reason: i32,
        pages: i64,
    },
    Raise(u32),
    SoftirqEntry(u32),
    SoftirqExit(u32),
    IrqEntry,
    IrqExit,
    Select(Select),
    Selected {
        cpu: Cpu,
    },
    SetAffinity {
        pid: i32,
    },
    MoveNuma {
        who: Who,
        from: Cpu,
        to: Cpu,
    },
    Marker(String),
    /// Of no meaning: a tick's accounting.
    Runtime {
        who: Who,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vector {
    Reschedule,
    Function,
    FunctionSingle,
}

/// One event: when, where, in what context, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub ts: i64,
    pub cpu: Cpu,
    pub pid: i32,
    pub tgid: i32,
    pub flags: u8,
    pub what: What,
}

pub const HARDIRQ: u8 = 0x08;
pub const SOFTIRQ: u8 = 0x10;
pub const NMI: u8 = 0x40;

/// The kernel's functions that events name by address, as in its symbol list.
pub const SYMBOLS: [(u64, &str); 9] = [
    (0xffff_ffff_8110_0000, "sched_ttwu_pending"),
    (
        0xffff_ffff_8110_1000,
        "generic_smp_call_function_single_interrupt",
    ),
    (0xffff_ffff_8110_2000, "try_to_wake_up"),
    (0xffff_ffff_8110_3000, "wakeup_preempt"),
    (0xffff_ffff_8110_4000, "flush_tlb_func"),
    (0xffff_ffff_8110_5000, "on_each_cpu_cond_mask"),
    (0xffff_ffff_8110_6000, "remote_function"),
    (0xffff_ffff_8110_7000, "smp_call_function_single"),
    (0xffff_ffff_8110_8000, "wake_up_klogd_work_func"),
];

/// The address of a symbol, or somewhat behind it.
pub fn address(name: &str, behind: u64) -> u64 {
    let found = SYMBOLS.iter().find(|(_, symbol)| *symbol == name);
    found.expect("a symbol of the list").0 + behind
}
