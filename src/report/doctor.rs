//! `ttwu doctor`: what can be recorded here, and what to do about the rest.

use anstyle::{AnsiColor, Color, Style};
use ttwu_parsers::event::escape;

use super::table::{ALARM, FAINT, HEADING, push_line, push_paragraph};
use crate::record::doctor::{Check, Section, State};

/// What is not there at all.
const MISSING: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));
/// Columns of a check's name.
const NAME: usize = 18;

/// Lays the checks out, at most 80 columns wide.
pub fn render(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        if !out.is_empty() {
            out.push('\n');
        }
        push_line(&mut out, section.title, Some(HEADING));
        for check in &section.checks {
            push_check(&mut out, check);
        }
    }
    out
}

fn push_check(out: &mut String, check: &Check) {
    let (mark, style) = match check.state {
        State::Ok => ("✓", None),
        State::Partly => ("~", Some(ALARM)),
        State::Missing => ("✗", Some(MISSING)),
    };
    let name = escape(check.name.as_bytes());
    let first = format!("  {mark} {name:NAME$} ");
    push_paragraph(out, &first, &escape(check.detail.as_bytes()), style);
    if let Some(remedy) = &check.remedy {
        push_paragraph(out, "      → ", &escape(remedy.as_bytes()), Some(FAINT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::WIDTH;

    fn check(name: &str, state: State, detail: &str, remedy: Option<&str>) -> Check {
        Check {
            name: name.to_owned(),
            state,
            detail: detail.to_owned(),
            remedy: remedy.map(str::to_owned),
        }
    }

    #[test]
    fn every_line_fits_and_marks_its_state() {
        let long = "a reason that goes on ".repeat(9);
        let sections = [
            Section {
                title: "Machine",
                checks: vec![check("kernel", State::Ok, "6.12\u{1b}[31m", None)],
            },
            Section {
                title: "Perf",
                checks: vec![
                    check("locked memory", State::Partly, &long, Some(&long)),
                    check("rights", State::Missing, "none", Some("sysctl kernel.x=1")),
                ],
            },
        ];
        let out = render(&sections);
        let plain = anstream::adapter::strip_str(&out).to_string();
        assert!(
            plain.lines().all(|line| line.chars().count() <= WIDTH),
            "{plain}"
        );
        assert!(
            plain.starts_with("Machine\n  ✓ kernel             6.12\\u{1b}[31m\n\nPerf\n"),
            "{plain}"
        );
        assert!(
            plain.contains("\n  ~ locked memory      a reason"),
            "{plain}"
        );
        assert!(
            plain.ends_with("  ✗ rights             none\n      → sysctl kernel.x=1\n"),
            "{plain}"
        );
    }
}
