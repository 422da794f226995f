//! Sequential reads that stop at the end of the data instead of passing it.

use std::ops::Range;

use crate::bytes::{Endian, until_nul};

/// Data that ends before, or does not hold, what should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// A phrase such as `the event formats end early`.
    pub what: String,
    /// Byte offset in the data that was read.
    pub offset: usize,
}

impl Damage {
    /// The same damage in a part of the file: offsets in (perhaps compressed) content say nothing of the file,
    /// the place of the part does.
    pub(crate) fn inside(self, place: u64) -> Self {
        Self::new(self.what, usize::try_from(place).unwrap_or(usize::MAX))
    }

    pub(crate) fn new(what: impl Into<String>, offset: usize) -> Self {
        Self {
            what: what.into(),
            offset,
        }
    }
}

/// A place in some data; `subject` names what is being read there, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
    pub endian: Endian,
    pub subject: &'static str,
}

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8], at: usize, endian: Endian, subject: &'static str) -> Self {
        Self {
            data,
            at,
            endian,
            subject,
        }
    }

    /// Where the next read starts.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The damage of data that is over before it should be.
    pub fn ends_early(&self) -> Damage {
        Damage::new(format!("{} ends early", self.subject), self.data.len())
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: u64) -> Result<&'a [u8], Damage> {
        let range = self.range(length)?;
        self.data.get(range).ok_or_else(|| self.ends_early())
    }

    /// Where the next `length` bytes lie; they are skipped.
    pub fn range(&mut self, length: u64) -> Result<Range<usize>, Damage> {
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| self.at.checked_add(length))
            .filter(|&end| end <= self.data.len())
            .ok_or_else(|| self.ends_early())?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    pub fn u8(&mut self) -> Result<u8, Damage> {
        self.take(1)?
            .first()
            .copied()
            .ok_or_else(|| self.ends_early())
    }

    pub fn u16(&mut self) -> Result<u16, Damage> {
        let value = self.endian.u16_at(self.data, self.at);
        self.step(2, value)
    }

    pub fn u32(&mut self) -> Result<u32, Damage> {
        let value = self.endian.u32_at(self.data, self.at);
        self.step(4, value)
    }

    pub fn u64(&mut self) -> Result<u64, Damage> {
        let value = self.endian.u64_at(self.data, self.at);
        self.step(8, value)
    }

    fn step<T>(&mut self, size: usize, value: Option<T>) -> Result<T, Damage> {
        let value = value.ok_or_else(|| self.ends_early())?;
        self.at = self.at.saturating_add(size);
        Ok(value)
    }

    /// The text up to the next NUL, which is skipped.
    pub fn text(&mut self) -> Result<String, Damage> {
        let rest = self.data.get(self.at..).unwrap_or_default();
        let text = until_nul(rest);
        if text.len() == rest.len() {
            return Err(self.ends_early());
        }
        self.at = self.at.saturating_add(text.len()).saturating_add(1);
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Skips `tag`, which must come next.
    pub fn expect_tag(&mut self, tag: &[u8]) -> Result<(), Damage> {
        if self.optional_tag(tag)? {
            return Ok(());
        }
        let name = String::from_utf8_lossy(tag);
        let name = name.trim_end_matches(['\0', ' ']);
        Err(Damage::new(format!("`{name}` is missing"), self.at))
    }

    /// Skips `tag` if it comes next. Data that ends within it is cut short.
    pub fn optional_tag(&mut self, tag: &[u8]) -> Result<bool, Damage> {
        let rest = self.data.get(self.at..).unwrap_or_default();
        if rest.len() < tag.len() && tag.starts_with(rest) {
            return Err(self.ends_early());
        }
        Ok(self.skip_tag(tag))
    }

    /// Skips `tag` if it comes next.
    pub fn skip_tag(&mut self, tag: &[u8]) -> bool {
        let found = self
            .data
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(tag));
        if found {
            self.at = self.at.saturating_add(tag.len());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut cursor = Cursor::new(b"ab\0\x01\x02", 0, Endian::Big, "the test");
        assert_eq!(cursor.text().unwrap(), "ab");
        assert_eq!(cursor.u16().unwrap(), 0x0102);
        assert_eq!(
            cursor.u8().unwrap_err(),
            Damage::new("the test ends early", 5)
        );
        assert!(cursor.take(u64::MAX).is_err());
        assert!(cursor.text().is_err());
        assert!(
            Cursor::new(b"", usize::MAX, Endian::Big, "x")
                .u64()
                .is_err()
        );
    }
}
