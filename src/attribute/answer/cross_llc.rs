//! What wakeups across LLCs cost (`analysis` §4).

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct CrossLlc {}
