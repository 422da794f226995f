//! Interrupts between CPUs, and TLB shootdowns among them (`analysis` §6).

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Ipis {}
