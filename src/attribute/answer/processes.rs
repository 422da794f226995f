//! Processes: how their threads spread over LLCs, and how much each did.

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct ProcessFacts {}
