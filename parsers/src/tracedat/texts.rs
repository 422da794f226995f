//! The lists of symbols and strings: megabytes that are read only when somebody asks.

use std::borrow::Cow;
use std::ops::Range;

use super::compress::Codec;
use super::cursor::Cursor;
use super::options::{OptionId, Options};
use super::sections::Sections;
use super::tracing_data::read_text32;
use crate::bytes::Endian;

/// Where a file has its lists.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub kallsyms: Place,
    pub printk: Place,
}

/// Where one list is.
#[derive(Debug, Clone, Default)]
pub(super) enum Place {
    #[default]
    Nowhere,
    /// The text itself, up to version 6.
    Text(Range<usize>),
    /// A section of version 7, whose content is a text with its size before it.
    Section {
        offset: u64,
        id: OptionId,
        codec: Option<Codec>,
    },
}

impl Texts {
    /// Of version 7.
    pub fn of_options(options: &Options, codec: Option<Codec>) -> Self {
        let place = |id| match options.section(id) {
            Some(offset) => Place::Section { offset, id, codec },
            None => Place::Nowhere,
        };
        Self {
            kallsyms: place(OptionId::KALLSYMS),
            printk: place(OptionId::PRINTK),
        }
    }
}

impl Place {
    /// The text; empty where there is none, or where it is damaged: only names are missing then.
    pub fn read<'a>(&self, file: &'a [u8], endian: Endian) -> Cow<'a, [u8]> {
        match self {
            Place::Nowhere => Cow::default(),
            Place::Text(range) => Cow::Borrowed(file.get(range.clone()).unwrap_or_default()),
            Place::Section { offset, id, codec } => {
                let sections = Sections {
                    file,
                    endian,
                    codec: *codec,
                };
                let content = sections.content(*offset, *id).unwrap_or_default();
                let mut cursor = Cursor::new(&content, 0, endian, "");
                match read_text32(&mut cursor, "a list of names") {
                    Ok(range) => Cow::Owned(content.get(range).unwrap_or_default().to_vec()),
                    Err(_) => Cow::default(),
                }
            }
        }
    }
}
