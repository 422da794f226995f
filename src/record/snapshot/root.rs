//! Where the kernel's files are read from: `/`, or in tests a folder with a `proc` and a `sys`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most that is read of one file; `/proc/schedstat` of 8,192 CPUs is below it.
const MAX_FILE: u64 = 64 << 20;

/// The folder below which `proc`, `sys` and `boot` are.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// This machine.
    pub fn host() -> Self {
        Self::at("/")
    }

    /// A copy of some of its files, for tests.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The path of a file; `place` may begin with a slash or not.
    pub fn path(&self, place: impl AsRef<Path>) -> PathBuf {
        let place = place.as_ref();
        self.folder.join(place.strip_prefix("/").unwrap_or(place))
    }

    /// A file's text without white space at its end; bytes that are no UTF-8 are replaced.
    pub fn read(&self, place: impl AsRef<Path>) -> io::Result<String> {
        let bytes = self.read_bytes(place, MAX_FILE)?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    /// At most `most` bytes of a file.
    pub fn read_bytes(&self, place: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.path(place))?;
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a folder, sorted.
    pub fn names(&self, place: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path(place))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The numbers of the entries `PREFIX0`, `PREFIX1`, … of a folder, ascending; none if it cannot be listed.
    pub fn numbered(&self, place: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
        let names = self.names(place).unwrap_or_default();
        let numbers = names
            .iter()
            .filter_map(|name| number(name.strip_prefix(prefix)?));
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_listed_by_number() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpufreq", "cpu", "cpu+1"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let root = Root::at(folder.path());
        assert_eq!(root.numbered("/", "cpu"), [2, 10]);
        assert!(root.numbered("missing", "cpu").is_empty());
    }
}
