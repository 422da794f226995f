//! Interrupts between CPUs by kind, distance and cost (`analysis` §6).

use polars::prelude::PolarsResult;

use super::answer::{Ipis, Known};
use super::scope::Scope;

/// Says interrupts between CPUs.
pub fn ipis(_scope: &Scope) -> PolarsResult<Known<Ipis>> {
    Ok(Known::unknown("not computed"))
}
