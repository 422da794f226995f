//! What an export says of itself.

use crate::export::Plan;
use crate::report::units::counted;
use crate::tables::export::Written;

/// One line: how much was written where.
pub fn summary(plan: &Plan, written: &[Written], events: u64) -> String {
    let bytes: u64 = written.iter().map(|of| of.bytes).sum();
    format!(
        "{} ({:.1} MB, {:.1} bytes an event) of {} as host={} trace={} in {}",
        counted(written.len() as u64, "table"),
        bytes as f64 / 1e6,
        bytes as f64 / events.max(1) as f64,
        counted(events, "event"),
        plan.place.host,
        plan.place.trace,
        plan.place.root.display(),
    )
}
