//! What this process may do.

use crate::record::snapshot::{Namespace, Root, in_own_namespace};

/// A capability's name and number (include/uapi/linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability(pub &'static str, u32);

pub const DAC_READ_SEARCH: Capability = Capability("CAP_DAC_READ_SEARCH", 2);
pub const IPC_LOCK: Capability = Capability("CAP_IPC_LOCK", 14);
pub const SYS_ADMIN: Capability = Capability("CAP_SYS_ADMIN", 21);
/// Since Linux 5.8; older kernels ask for `CAP_SYS_ADMIN` in its place.
pub const PERFMON: Capability = Capability("CAP_PERFMON", 38);

/// What this process may do.
#[derive(Debug, Clone, Copy)]
pub struct Privileges {
    /// `CapEff` of `/proc/self/status`.
    effective: u64,
    /// Whether the capabilities hold on the machine, and not only in a user namespace.
    on_the_machine: bool,
}

impl Privileges {
    pub fn read(root: &Root) -> Self {
        let status = root.read("proc/self/status").unwrap_or_default();
        let mut lines = status.lines();
        let effective = lines.find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        Self {
            effective: effective.unwrap_or(0),
            on_the_machine: !in_own_namespace(root, Namespace::User),
        }
    }

    /// Whether the capability is held, and counts.
    pub fn has(&self, Capability(_, number): Capability) -> bool {
        self.on_the_machine && self.effective >> number & 1 == 1
    }

    /// Whether events of the whole machine may be opened whatever `kernel.perf_event_paranoid` says.
    pub fn may_monitor(&self) -> bool {
        self.has(PERFMON) || self.has(SYS_ADMIN)
    }
}
