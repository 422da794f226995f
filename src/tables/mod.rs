//! The tables of an analysis: what the replay emits, as columns with fixed names, types and units.
//!
//! [`schema`] declares every table in one place. [`Builders`] takes the replay's rows, [`Tables`] hands them out
//! as lazy frames. Tables compute nothing; beyond a budget of memory they go to disk.

mod batches;
mod builders;
mod columns;
pub mod export;
mod flips;
mod order;
pub mod schema;

pub use batches::{Budget, Columns, Tables, TablesError};
pub use builders::{Builders, Filler, TableSet};
pub use columns::{ColumnDef, ColumnType, Words};
pub use schema::Table;
