//! Units of work, and the critical path between them (`analysis` §7).

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Throughput {}
