//! What the integration tests share: where traces lie, a sink that keeps every row, and a replay of a file.

pub mod script;

use std::path::{Path, PathBuf};

use ttwu::attribute::{Selection, answer};
use ttwu::pipeline::{Prepared, RunOptions, prepare, replay};
use ttwu::replay::Counts;
use ttwu::replay::flips::{FlipStep, Follower};
use ttwu::replay::rows::*;
use ttwu::tables::{Budget, Builders, TableSet};

/// Keeps all rows.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Rows {
    pub wakeups: Vec<WakeupRow>,
    pub waits: Vec<WaitRow>,
    pub slices: Vec<SliceRow>,
    pub idle: Vec<IdleRow>,
    pub migrations: Vec<MigrationRow>,
    pub ipis: Vec<IpiRow>,
    pub flips: Vec<FlipRow>,
    pub follower: Follower,
    pub flushes: Vec<FlushRow>,
    pub units: Vec<UnitRow>,
    pub lost: Vec<LostRow>,
    pub tasks: Vec<TaskRow>,
    pub cpus: Vec<CpuRow>,
}

impl Sink for Rows {
    fn wakeup(&mut self, row: &WakeupRow) {
        self.wakeups.push(row.clone());
    }
    fn wait(&mut self, row: &WaitRow) {
        self.waits.push(row.clone());
    }
    fn slice(&mut self, row: &SliceRow) {
        self.slices.push(row.clone());
    }
    fn idle(&mut self, row: &IdleRow) {
        self.idle.push(row.clone());
    }
    fn migration(&mut self, row: &MigrationRow) {
        self.migrations.push(row.clone());
    }
    fn ipi(&mut self, row: &IpiRow) {
        self.ipis.push(row.clone());
    }
    fn flip(&mut self, step: &FlipStep) {
        self.flips.extend(self.follower.take(step));
    }
    fn flush(&mut self, row: &FlushRow) {
        self.flushes.push(row.clone());
    }
    fn unit(&mut self, row: &UnitRow) {
        self.units.push(row.clone());
    }
    fn lost(&mut self, row: &LostRow) {
        self.lost.push(row.clone());
    }
    fn task(&mut self, row: &TaskRow) {
        self.tasks.push(row.clone());
    }
    fn cpu(&mut self, row: &CpuRow) {
        self.cpus.push(row.clone());
    }
}

/// A replayed trace.
pub struct Replayed {
    pub prepared: Prepared,
    pub rows: Rows,
    pub counts: Counts,
}

pub fn run(path: &Path, options: &RunOptions) -> Replayed {
    let prepared = prepare(path, options, &|_| ()).unwrap_or_else(|e| panic!("{e}"));
    let mut rows = Rows::default();
    let counts = replay(&prepared, &mut rows, &|_| ());
    Replayed {
        prepared,
        rows,
        counts,
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The corpus of reference traces, where it is at hand: `$TTWU_SHARED`, or `shared` beside the repository.
pub fn shared() -> Option<PathBuf> {
    let named = std::env::var_os("TTWU_SHARED").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("../shared"));
    folder.join("traces/lab").is_dir().then_some(folder)
}

/// The lab folders to test: the fixtures, and all reference traces where they are at hand.
pub fn lab_folders() -> Vec<PathBuf> {
    let mut folders = subfolders(&root().join("fixtures/lab"));
    match shared() {
        Some(shared) => folders.extend(
            subfolders(&shared.join("traces/lab"))
                .into_iter()
                .filter(|f| f.join("topology.txt").exists()),
        ),
        None => eprintln!("no reference traces at hand: only the fixtures are tested"),
    }
    folders
}

pub fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.join("trace.dat").exists())
        .collect();
    found.sort();
    found
}

/// The options that give a lab folder its topology.
pub fn lab_options(folder: &Path) -> RunOptions {
    RunOptions {
        topology: Some(folder.join("topology.txt").display().to_string()),
        ..RunOptions::default()
    }
}

pub fn name(folder: &Path) -> String {
    folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The JSON report of a file.
pub fn report(path: &Path, options: &RunOptions) -> serde_json::Value {
    let prepared = prepare(path, options, &|_| ()).unwrap_or_else(|e| panic!("{e}"));
    answer_of(&prepared, &Selection::default())
}

/// The JSON report of a prepared trace.
pub fn answer_of(prepared: &Prepared, selection: &Selection) -> serde_json::Value {
    let mut builders = Builders::new(&TableSet::analysis(), Budget::default());
    let counts = replay(prepared, builders.sink(), &|_| ());
    let tables = builders.finish().unwrap();
    let answer = answer(prepared, &counts, &tables, selection).unwrap();
    serde_json::to_value(&answer).unwrap()
}

/// The lab folder of a name: a fixture, or a reference trace where they are at hand.
pub fn lab_folder(name: &str) -> Option<PathBuf> {
    let fixture = root().join("fixtures/lab").join(name);
    if fixture.join("trace.dat").exists() {
        return Some(fixture);
    }
    let folder = shared()?.join("traces/lab").join(name);
    folder.join("trace.dat").exists().then_some(folder)
}
