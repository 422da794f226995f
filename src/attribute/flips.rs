//! Wakee flips: decisions by policy, roles, and checks against the kernel (`analysis` §5).

use polars::prelude::PolarsResult;

use super::answer::{Flips, Known};
use super::scope::Scope;

/// Says wakee flips.
pub fn flips(_scope: &Scope) -> PolarsResult<Known<Flips>> {
    Ok(Known::unknown("not computed"))
}
