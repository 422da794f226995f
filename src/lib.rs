//! ttwu: where did my wakeups go, and what did they cost?
//!
//! Data moves one way: [`record`], trace file, [`ttwu_parsers`], [`replay`], [`tables`], [`attribute`], [`report`];
//! beside it, [`export`] writes the tables to files, and [`query`] asks them in SQL.

pub mod attribute;
pub mod cli;
pub mod export;
mod leftovers;
pub mod pipeline;
pub mod query;
pub mod record;
pub mod replay;
pub mod report;
pub mod tables;
pub mod topology;
mod wording;
