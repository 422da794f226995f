//! Moves of tasks between CPUs by what moved them, and how far.

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::answer::{Known, Migrations};
use super::scope::Scope;
use super::wakeups::{by_distance, by_word};
use crate::replay::words::MigrationKind;

/// The migrations that count.
pub fn migrations(scope: &Scope) -> PolarsResult<Known<Migrations>> {
    let key =
        col("kind").cast(DataType::UInt32) * lit(8_u32) + col("distance").cast(DataType::UInt32);
    let key = key.alias("key");
    let count = len().cast(DataType::UInt64).alias("count");
    let query = |rows: LazyFrame| rows.group_by([key.clone()]).agg([count.clone()]);
    let mut found: FxHashMap<u32, u64> = FxHashMap::default();
    scope.over_migrations(query, |moved| {
        let keys = moved.column("key")?.u32()?.iter();
        let counts = moved.column("count")?.u64()?.iter();
        for (key, count) in keys.zip(counts) {
            *found.entry(key.unwrap_or(0)).or_default() += count.unwrap_or(0);
        }
        Ok(())
    })?;
    if scope.facts.recorded("sched_migrate_task").is_none() {
        let inferred: u64 = found.values().sum();
        return Ok(Known::unknown(format!(
            "sched_migrate_task is not recorded; from where tasks ran next, at least {inferred} moves follow"
        )));
    }
    let count = |kind: MigrationKind, distance: u8| {
        let key = u32::from(kind.code()) * 8 + u32::from(distance);
        found.get(&key).copied().unwrap_or(0)
    };
    Ok(Known::Value(Migrations {
        by_cause: by_word(MigrationKind::ALL, MigrationKind::as_str, |kind| {
            by_distance(|distance| count(kind, distance))
        }),
    }))
}
