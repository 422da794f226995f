//! Scheduler domains against the caches (`analysis` §6).

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Domains {}
