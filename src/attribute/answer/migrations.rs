//! Moves of tasks between CPUs (`analysis` §6).

use serde::Serialize;

use super::ByWord;

#[derive(Debug, Clone, Serialize)]
pub struct Migrations {
    pub by_cause: ByWord<ByWord<u64>>,
}
