//! The replay against what it did not compute itself: the kernel's counters and choices, traces worked by hand,
//! and a simulator that knows its own state. One binary, because each would link all of polars.

mod cases;
mod lab;
mod ledger;
mod properties;
mod recorded;
mod support;
mod verdicts;
mod wakeups;
