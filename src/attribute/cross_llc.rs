//! What wakeups across LLCs cost: transit, cold cache and transfer (`analysis` §4).

use polars::prelude::PolarsResult;

use super::answer::{CrossLlc, Known};
use super::scope::Scope;

/// Says what wakeups across LLCs cost.
pub fn cross_llc(_scope: &Scope) -> PolarsResult<Known<CrossLlc>> {
    Ok(Known::unknown("not computed"))
}
