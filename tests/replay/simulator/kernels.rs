//! The kernels that are simulated: what each does, and what it can tell.

/// A kernel release, with what differs between them here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    pub release: &'static str,
    pub version: (u32, u32),
}

pub const V4_2: Kernel = Kernel {
    release: "4.2.8-sim",
    version: (4, 2),
};
pub const V5_2: Kernel = Kernel {
    release: "5.2.0-sim",
    version: (5, 2),
};
pub const V5_10: Kernel = Kernel {
    release: "5.10.44-sim",
    version: (5, 10),
};
pub const V6_1: Kernel = Kernel {
    release: "6.1.192-sim",
    version: (6, 1),
};
pub const V6_8: Kernel = Kernel {
    release: "6.8.1-sim",
    version: (6, 8),
};
pub const V6_12: Kernel = Kernel {
    release: "6.12.117-sim",
    version: (6, 12),
};

pub const KERNELS: [Kernel; 6] = [V4_2, V5_2, V5_10, V6_1, V6_8, V6_12];

impl Kernel {
    fn since(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    pub fn has_waking(&self) -> bool {
        self.since(4, 3)
    }

    /// `ipi_send_cpu` and the `csd` events: 6.4 has only the former, and is not simulated.
    pub fn tells_sends(&self) -> bool {
        self.since(6, 5)
    }

    /// A task that wakes itself takes a short way.
    pub fn self_shortcut(&self) -> bool {
        self.since(5, 3)
    }

    /// A task on its way off its CPU may be put on that CPU's wake list.
    pub fn queues_on_cpu(&self) -> bool {
        self.since(5, 8)
    }

    /// Queued wakeups come by the call-function vector rather than the reschedule one.
    pub fn queues_by_function(&self) -> bool {
        self.since(5, 8)
    }

    /// Wakeups to idle CPUs of the same LLC are queued, too.
    pub fn queues_to_idle(&self) -> bool {
        self.since(6, 0)
    }

    /// A per-CPU kernel thread's wakee may stay on that CPU.
    pub fn stacks_on_kthreads(&self) -> bool {
        self.since(5, 6)
    }

    pub fn delays_dequeue(&self) -> bool {
        self.since(6, 12)
    }

    /// The state table that `sched_switch` prints by.
    pub fn old_states(&self) -> bool {
        !self.since(4, 14)
    }
}
