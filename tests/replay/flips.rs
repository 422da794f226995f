//! Wakee flips against the kernel's own, which probes recorded.
