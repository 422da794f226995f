//! The report for programs: the answer under the names of `docs/report.schema.json`.

use crate::attribute::answer::Answer;

/// The answer as indented JSON, with a newline at the end.
///
/// # Errors
/// None that an answer can cause; serialisation itself is fallible by type.
pub fn render(answer: &Answer) -> Result<String, serde_json::Error> {
    pretty(answer)
}

/// Anything as indented JSON, with a newline at the end.
///
/// # Errors
/// Those of serialisation.
pub fn pretty(value: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}
