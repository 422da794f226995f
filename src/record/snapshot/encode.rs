//! The form of a line: words, texts, lists of ids, and the cut of lines that are too long for a marker.

use std::fmt::Write;

/// The longest line in bytes: older kernels cut a marker at 1 KiB (`TRACE_BUF_SIZE`, kernel/trace/trace.h).
const MAX_LINE: usize = 900;
/// What the rest of a line that was too long begins with.
const CONTINUED: &str = "ttwu+ ";

/// A WORD: every byte that is no visible ASCII character, and `%`, as `%XX`.
pub fn word(raw: impl AsRef<[u8]>) -> String {
    let raw = raw.as_ref();
    let mut word = String::with_capacity(raw.len());
    for &byte in raw {
        match byte {
            b'!'..=b'~' if byte != b'%' => word.push(char::from(byte)),
            _ => {
                let _ = write!(word, "%{byte:02X}");
            }
        }
    }
    word
}

/// A TEXT: one line, whatever was in it.
pub fn text(raw: &str) -> String {
    raw.replace(char::is_control, " ")
}

/// Ids as a list such as `1-3,8`; they must be ascending.
pub fn list(ids: &[i32]) -> String {
    let mut list = String::new();
    for run in ids.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let comma = if list.is_empty() { "" } else { "," };
        let _ = match run {
            [first, .., last] => write!(list, "{comma}{first}-{last}"),
            [only] => write!(list, "{comma}{only}"),
            [] => Ok(()),
        };
    }
    list
}

/// Cuts a line into lines of at most 900 bytes, of which all but the first begin with `ttwu+ `.
///
/// No line but the last ends with a space, since texts in a trace lose those easily.
pub fn split(line: &str) -> Vec<String> {
    let mut rest = line;
    let mut lines = Vec::new();
    let mut prefix = "";
    while prefix.len() + rest.len() > MAX_LINE {
        let (head, tail) = rest.split_at(cut(rest, MAX_LINE - prefix.len()));
        lines.push(format!("{prefix}{head}"));
        (prefix, rest) = (CONTINUED, tail);
    }
    lines.push(format!("{prefix}{rest}"));
    lines
}

/// Where to cut a text that is longer than `most` bytes: at most there, at a character, behind no space.
fn cut(text: &str, most: usize) -> usize {
    let fits = (0..=most).rev().find(|&at| text.is_char_boundary(at));
    let fits = fits.unwrap_or_default();
    let head = text.get(..fits).unwrap_or_default();
    match head.trim_end_matches(' ').len() {
        // Nothing but spaces: the cut has to be somewhere.
        0 => fits,
        end => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_no_space() {
        assert_eq!(word("a b%"), "a%20b%25");
        assert_eq!(word("/ä\n"), "/%C3%A4%0A");
        assert_eq!(word([0xff, b'~']), "%FF~");
        assert_eq!(text("a\nb\u{7f}ä"), "a b ä");
    }

    #[test]
    fn lists_join_neighbours() {
        assert_eq!(list(&[1, 2, 3, 8, 10, 11]), "1-3,8,10-11");
        assert_eq!(list(&[i32::MAX]), "2147483647");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn long_lines_are_cut_at_characters_and_not_behind_spaces() {
        assert_eq!(split("ttwu short"), ["ttwu short"]);
        let exact = "x".repeat(MAX_LINE);
        assert_eq!(split(&exact), [exact.as_str()]);
        let line = format!("ttwu machine boot {}", "ä bc ".repeat(900));
        let lines = split(&line);
        assert!(lines.len() > 5);
        assert!(lines.iter().all(|line| line.len() <= MAX_LINE));
        let cut = lines.split_last().unwrap().1;
        assert!(cut.iter().all(|line| !line.ends_with(' ')));
        let joined: String = lines
            .iter()
            .map(|line| line.strip_prefix(CONTINUED).unwrap_or(line))
            .collect();
        assert_eq!(joined, line);
        assert_eq!(split(&" ".repeat(2000)).len(), 3);
    }
}
