//! Moves of tasks between CPUs by what caused them, how far they went, and how long the task ran after.

use polars::prelude::*;

use super::answer::{ByWord, Known, Migrations};
use super::blocks::{Block, NO_TIME};
use super::durations::Durations;
use super::scope::Scope;
use super::wakeups::{by_distance, by_word, known};
use crate::replay::words::{Class, Confidence, MigrationCause};
use crate::topology::Distance;
use crate::wording::{agree, many};

const CAUSES: usize = MigrationCause::ALL.len();
const DISTANCES: usize = Distance::ALL.len();
/// Codes of the distances between two LLCs.
const CROSSING: [usize; 2] = [Distance::Node as usize, Distance::Remote as usize];
const CONFIDENCES: usize = Confidence::ALL.len();

/// Counts by cause and distance, or by cause and confidence: rows of one length.
#[derive(Debug, Clone)]
struct Found {
    moves: [[u64; DISTANCES]; CAUSES],
    sure: [[u64; CONFIDENCES]; CAUSES],
    runs: Vec<Durations>,
    withdrawn: u64,
    inferred: u64,
    /// Moves to another LLC.
    crossing: u64,
}

impl Found {
    fn new() -> Self {
        Self {
            moves: [[0; DISTANCES]; CAUSES],
            sure: [[0; CONFIDENCES]; CAUSES],
            runs: vec![Durations::default(); CAUSES * DISTANCES],
            withdrawn: 0,
            inferred: 0,
            crossing: 0,
        }
    }

    fn total(&self) -> u64 {
        self.moves.iter().flatten().sum()
    }

    fn take(&mut self, block: &Block, into: &mut Scratch) -> PolarsResult<()> {
        let causes = block.codes("cause", &mut into.causes)?;
        let distances = block.codes("distance", &mut into.distances)?;
        let confidences = block.codes("confidence", &mut into.confidences)?;
        let inferred = block.codes("inferred", &mut into.inferred)?;
        let runs = block.times("run_ns", &mut into.runs)?;
        let codes = causes.iter().zip(distances).zip(confidences);
        for (((cause, distance), sure), (inferred, run)) in codes.zip(inferred.iter().zip(runs)) {
            let (cause, distance) = (usize::from(*cause), usize::from(*distance));
            if let Some(count) = at(&mut self.moves, cause, distance) {
                *count += 1;
            }
            if let Some(count) = at(&mut self.sure, cause, usize::from(*sure)) {
                *count += 1;
            }
            self.inferred += u64::from(*inferred == 1);
            self.crossing += u64::from(CROSSING.contains(&distance));
            if *run == NO_TIME {
                self.withdrawn += 1;
            } else if let Some(runs) = self.runs.get_mut(cause * DISTANCES + distance) {
                runs.push(*run);
            }
        }
        Ok(())
    }

    fn join(&mut self, more: Self) {
        add(&mut self.moves, &more.moves);
        add(&mut self.sure, &more.sure);
        let pairs = self.runs.iter_mut().zip(more.runs);
        pairs.for_each(|(runs, more)| runs.join(more));
        self.withdrawn += more.withdrawn;
        self.inferred += more.inferred;
        self.crossing += more.crossing;
    }
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    causes: Vec<u8>,
    distances: Vec<u8>,
    confidences: Vec<u8>,
    inferred: Vec<u8>,
    runs: Vec<i64>,
}

fn at<const N: usize>(table: &mut [[u64; N]], row: usize, column: usize) -> Option<&mut u64> {
    table.get_mut(row)?.get_mut(column)
}

fn add<const N: usize>(table: &mut [[u64; N]], more: &[[u64; N]]) {
    let pairs = table.iter_mut().flatten().zip(more.iter().flatten());
    pairs.for_each(|(count, more)| *count += more);
}

/// The migrations that count.
pub fn migrations(scope: &Scope) -> PolarsResult<Known<Migrations>> {
    let columns = ["cause", "distance", "confidence", "inferred", "run_ns"];
    let (found, _) = scope.migrations().counted().fold(
        &columns,
        || (Found::new(), Scratch::default()),
        |(found, scratch), block| found.take(block, scratch),
        |(found, _), (more, _)| found.join(more),
    )?;
    if scope.facts.recorded("sched_migrate_task").is_none() {
        let inferred = found.total();
        return Ok(Known::unknown(format!(
            "sched_migrate_task is not recorded; from where tasks ran next, at least {} {}",
            many(inferred, "move"),
            agree(inferred, "follows", "follow")
        )));
    }
    let by_cause = |cause: MigrationCause| usize::from(cause.code());
    Ok(Known::Value(Migrations {
        total: found.total(),
        by_cause: of_causes(|cause| {
            by_distance(|code| cell(&found.moves, by_cause(cause), usize::from(code)))
        }),
        totals: of_causes(|cause| {
            let of_cause = found.moves.get(by_cause(cause));
            of_cause.map_or(0, |by| by.iter().sum())
        }),
        cross_llc_share: match scope.facts.crossing_unknown() {
            Some(reason) if scope.facts.topology().is_known() => Known::unknown(reason),
            _ => share(
                found.crossing,
                known_distances(&found),
                "no migration that counts has a known distance",
            ),
        },
        unsure_share: share(unsure(&found), found.total(), "there are no migrations"),
        by_confidence: of_causes(|cause| {
            by_word(Confidence::ALL, Confidence::as_str, |sure| {
                cell(&found.sure, by_cause(cause), usize::from(sure.code()))
            })
        }),
        run_after_ns: of_causes(|cause| {
            by_distance(|code| {
                let runs = found
                    .runs
                    .get(by_cause(cause) * DISTANCES + usize::from(code));
                let runs = runs.and_then(Durations::quantiles);
                known(runs, || {
                    "no such migration has a run that is known".to_owned()
                })
            })
        }),
        withdrawn: found.withdrawn,
        inferred: found.inferred,
        fork_placements: fork_placements(scope)?,
    }))
}

/// How many moves have a known distance.
fn known_distances(found: &Found) -> u64 {
    let unknown = found
        .moves
        .iter()
        .filter_map(|by| by.get(Distance::Unknown as usize));
    found.total() - unknown.sum::<u64>()
}

fn unsure(found: &Found) -> u64 {
    let unsure = usize::from(Confidence::Unsure.code());
    found.sure.iter().filter_map(|by| by.get(unsure)).sum()
}

fn share(part: u64, whole: u64, why: &str) -> Known<f64> {
    match whole {
        0 => Known::unknown(why),
        whole => Known::Value(part as f64 / whole as f64),
    }
}

/// Something for each cause of a migration.
pub fn of_causes<T>(of: impl Fn(MigrationCause) -> T) -> ByWord<T> {
    by_word(MigrationCause::ALL, MigrationCause::as_str, of)
}

fn cell<const N: usize>(table: &[[u64; N]], row: usize, column: usize) -> u64 {
    table
        .get(row)
        .and_then(|row| row.get(column))
        .copied()
        .unwrap_or(0)
}

/// New tasks by how far from their parents' CPU they start.
fn fork_placements(scope: &Scope) -> PolarsResult<ByWord<u64>> {
    let start = || ([[0; DISTANCES]; 1], Vec::new(), Vec::new());
    let (found, ..) = scope.wakeups().counted().fold(
        &["class", "waker_chosen"],
        start,
        |(found, classes, distances), block| {
            let classes = block.codes("class", classes)?.iter();
            for (class, distance) in classes.zip(block.codes("waker_chosen", distances)?) {
                if *class == Class::New.code()
                    && let Some(count) = at(found, 0, usize::from(*distance))
                {
                    *count += 1;
                }
            }
            Ok(())
        },
        |(found, ..), (more, ..)| add(found, &more),
    )?;
    Ok(by_distance(|code| cell(&found, 0, usize::from(code))))
}
