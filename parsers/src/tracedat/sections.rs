//! The sections of version 7: a head that says what follows, compressed or not.

use std::borrow::Cow;

use super::compress::{Codec, Inflater};
use super::cursor::{Cursor, Damage};
use super::options::{OptionId, Options};
use crate::bytes::Endian;

/// Flag of a section whose content is compressed.
const COMPRESSED: u16 = 1;

/// A file of sections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sections<'a> {
    pub file: &'a [u8],
    pub endian: Endian,
    pub codec: Option<Codec>,
}

/// The head of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectionHead {
    pub id: OptionId,
    pub compressed: bool,
    size: u64,
    /// Where its content starts.
    start: usize,
}

impl<'a> Sections<'a> {
    pub fn head(&self, offset: u64) -> Result<SectionHead, Damage> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut cursor = Cursor::new(self.file, at, self.endian, "a section's head");
        let id = OptionId(cursor.u16()?);
        let flags = cursor.u16()?;
        // A description for `trace-cmd dump`, in the strings section.
        cursor.u32()?;
        let size = cursor.u64()?;
        Ok(SectionHead {
            id,
            compressed: flags & COMPRESSED != 0,
            size,
            start: cursor.at(),
        })
    }

    /// The content of the section at `offset`, which must have that id.
    pub fn content(&self, offset: u64, id: OptionId) -> Result<Cow<'a, [u8]>, Damage> {
        let head = self.head(offset)?;
        if head.id != id {
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            let what = format!("a section {} where {} should be", head.id.0, id.0);
            return Err(Damage::new(what, at));
        }
        if head.compressed {
            return self.inflated(head.start).map(Cow::Owned);
        }
        let mut cursor = Cursor::new(self.file, head.start, self.endian, "a section");
        if head.size == 0 {
            // The size is written last: an interrupted recording leaves 0, and the content ends by itself.
            return Ok(Cow::Borrowed(
                self.file.get(head.start..).unwrap_or_default(),
            ));
        }
        cursor.take(head.size).map(Cow::Borrowed)
    }

    /// Compressed size, size, compressed content.
    fn inflated(&self, start: usize) -> Result<Vec<u8>, Damage> {
        let codec = self
            .codec
            .ok_or_else(|| Damage::new("a compressed section in an uncompressed file", start))?;
        let mut cursor = Cursor::new(self.file, start, self.endian, "a compressed section");
        let packed = cursor.u32()?;
        let claimed = cursor.u32()?;
        let input = cursor.take(u64::from(packed))?;
        let mut out = Vec::new();
        Inflater::new(codec)
            .map_err(|e| e.to_string())
            .and_then(|mut inflater| inflater.inflate(input, u64::from(claimed), &mut out))
            .map_err(|why| {
                let name = codec.name();
                Damage::new(
                    format!("a {name} section that cannot be decompressed ({why})"),
                    start,
                )
            })?;
        Ok(out)
    }

    /// Follows the chain of options sections. Damage past the first section ends the chain and is returned
    /// beside what was read.
    pub fn options(&self, first: u64) -> Result<(Options, Option<Damage>), Damage> {
        let mut options = Options::default();
        let mut visited = vec![first];
        let mut next = self.options_at(first, &mut options)?;
        while next != 0 {
            if visited.contains(&next) {
                let at = usize::try_from(next).unwrap_or(usize::MAX);
                let damage = Damage::new("the options sections form a loop", at);
                return Ok((options, Some(damage)));
            }
            visited.push(next);
            match self.options_at(next, &mut options) {
                Ok(after) => next = after,
                Err(damage) => return Ok((options, Some(damage))),
            }
        }
        Ok((options, None))
    }

    fn options_at(&self, offset: u64, options: &mut Options) -> Result<u64, Damage> {
        let content = self.content(offset, OptionId::DONE)?;
        let mut cursor = Cursor::new(&content, 0, self.endian, "an options section");
        options
            .read_section(&mut cursor)
            .map_err(|damage| damage.inside(offset))
    }
}
