//! Wakee flips, the decisions that follow from them, and bounces between LLCs (`analysis` §5).

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Flips {}
