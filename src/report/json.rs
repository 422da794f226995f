//! The report for programs: the answer under the names of `docs/report.schema.json`.

use super::table::printable;
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
    serde_json::to_string_pretty(value).map(|text| unprintable_as_escapes(&text) + "\n")
}

/// JSON that says the same in printable characters: what others change how a terminal shows the text around them. Such
/// characters can stand in strings only, but for the ends of lines.
pub(super) fn unprintable_as_escapes(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            ' '..='~' | '\n' => text.push(c),
            _ if printable(c.encode_utf8(&mut [0; 4])) == c.to_string() => text.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_and_nothing_is_raw() {
        let text = "a\u{1b}[31m\u{9b}\u{202e}\r\n\u{e9}\u{6367}\"\\";
        let json = pretty(&serde_json::json!({ "text": text })).unwrap();
        assert!(
            json.chars().all(|c| c == '\n' || !c.is_control()),
            "{json:?}"
        );
        assert!(
            !json.contains('\u{202e}') && json.contains("\\u202e"),
            "{json}"
        );
        assert!(json.contains("\u{e9}\u{6367}"), "{json}");
        let back: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["text"], text);
    }
}
