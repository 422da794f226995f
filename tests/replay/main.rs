//! The replay against what it did not compute itself: the kernel's counters and choices, traces worked by hand,
//! and a simulator that knows its own state. One binary, because each would link all of polars.

mod at_hand;
mod cases;
mod cross_llc;
mod flips;
mod ipis;
mod lab;
mod ledger;
mod migrations;
mod path;
mod planted;
mod processes;
mod properties;
mod recorded;
mod simulator;
mod support;
mod throughput;
mod verdicts;
mod wakeups;
