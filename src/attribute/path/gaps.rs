//! Where a CPU's events are missing: lost, or from before its first one.

use polars::prelude::*;

use super::super::scope::Scope;
use super::spans::CpuSpans;
use crate::tables::Table;

/// The intervals in which events are missing.
pub fn gaps(scope: &Scope) -> PolarsResult<CpuSpans> {
    let mut found = Vec::new();
    read_lost(scope, &mut found)?;
    read_before_first(scope, &mut found)?;
    Ok(CpuSpans::new(&found))
}

type Found = Vec<(u32, i64, i64)>;

fn read_lost(scope: &Scope, found: &mut Found) -> PolarsResult<()> {
    for batch in scope.tables().batches(Table::Lost) {
        let lost = batch?
            .select([
                col("cpu").cast(DataType::UInt32),
                col("start_ns"),
                col("end_ns"),
            ])
            .collect()?;
        let cpus = lost.column("cpu")?.u32()?.iter();
        let starts = lost.column("start_ns")?.i64()?.iter();
        let ends = lost.column("end_ns")?.i64()?.iter();
        for ((cpu, start), end) in cpus.zip(starts).zip(ends) {
            found.extend(cpu.zip(start).zip(end).map(|((c, s), e)| (c, s, e)));
        }
    }
    Ok(())
}

/// A CPU's state is unknown before its first event, unless its buffer provably held everything.
fn read_before_first(scope: &Scope, found: &mut Found) -> PolarsResult<()> {
    let config = scope.facts.config;
    let known: Vec<u32> = config.known_from_start.iter().map(|of| of.0).collect();
    for batch in scope.tables().batches(Table::Cpus) {
        let cpus = batch?
            .select([col("cpu").cast(DataType::UInt32), col("first_event_ns")])
            .collect()?;
        let firsts = cpus.column("first_event_ns")?.i64()?.iter();
        for (cpu, first) in cpus.column("cpu")?.u32()?.iter().zip(firsts) {
            if let Some(cpu) = cpu.filter(|cpu| !known.contains(cpu)) {
                found.push((cpu, config.start_ns, first.unwrap_or(config.end_ns)));
            }
        }
    }
    Ok(())
}
