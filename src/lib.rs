//! ttwu: where did my wakeups go, and what did they cost?
//!
//! Data moves one way: [`record`], trace file, [`ttwu_parsers`], [`replay`], [`tables`], [`attribute`], [`report`].

pub mod attribute;
pub mod cli;
pub mod export;
pub mod pipeline;
pub mod record;
pub mod replay;
pub mod report;
pub mod tables;
pub mod topology;
mod wording;
