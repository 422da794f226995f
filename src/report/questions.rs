//! The questions that have a name, in a list.

use super::tables::laid_out;
use crate::query::ALL;

/// Name and meaning of each.
pub fn list() -> String {
    let rows = ALL
        .iter()
        .map(|question| ([question.name.to_owned()], question.title().to_owned()));
    laid_out(["question"], "what it answers", &rows.collect::<Vec<_>>())
}
