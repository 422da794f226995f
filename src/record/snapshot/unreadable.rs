//! What is not in the record, and why.

use std::io;
use std::path::Path;

use super::encode::text;
use super::root::Root;

/// Sources that should have been there, in the order they were tried.
#[derive(Debug, Default)]
pub struct Unreadable(Vec<(String, String)>);

impl Unreadable {
    /// Notes a source and why it is missing.
    pub fn note(&mut self, place: &str, why: impl Into<String>) {
        let place = format!("/{}", place.trim_start_matches('/'));
        self.0.push((place, why.into()));
    }

    /// A file's text. Notes it when the kernel refuses to give it; a file that does not exist is normal.
    pub fn read(&mut self, root: &Root, place: &str) -> Option<String> {
        match root.read(place) {
            Ok(text) => Some(text),
            Err(error) if is_absent(&error) => None,
            Err(error) => {
                self.note(place, refusal(root, place, &error));
                None
            }
        }
    }

    /// Why each is missing.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, why)| why.as_str())
    }

    /// The lines of the record.
    pub fn lines(&self) -> Vec<String> {
        let line = |(place, why): &(String, String)| {
            text(&format!("ttwu machine unreadable {place} {why}"))
        };
        self.0.iter().map(line).collect()
    }
}

/// Whether an error says that the kernel has no such file.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Why the kernel refuses a file, in words.
fn refusal(root: &Root, place: &str, error: &io::Error) -> String {
    // The kernel names no errors; the standard library appends the number, which helps nobody here.
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or_default();
    let debugfs = Path::new(place)
        .components()
        .any(|part| part.as_os_str() == "debug");
    match lockdown(root) {
        // debugfs_locked_down(), fs/debugfs/file.c: root gets EPERM for every file that could be written.
        Some(mode) if debugfs && error.raw_os_error() == Some(libc::EPERM) => {
            format!("{said}: kernel lockdown ({mode}) closes debugfs")
        }
        _ => said.to_owned(),
    }
}

/// The kernel lockdown in force, `integrity` or `confidentiality`; `None` where there is none.
pub fn lockdown(root: &Root) -> Option<String> {
    let modes = root.read("sys/kernel/security/lockdown").ok()?;
    let mode = modes.split(['[', ']']).nth(1)?;
    (mode != "none").then(|| mode.to_owned())
}
