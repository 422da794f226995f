//! What a trace.dat starts with, up to where the versions part.

use super::compress::Codec;
use super::cursor::{Cursor, Damage};
use super::tracing_data::Preamble;

/// The newest version that is read.
const NEWEST: u32 = 7;

/// The start of a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub preamble: Preamble,
    pub version: u32,
    pub layout: Layout,
}

/// How the rest of the file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Up to version 6: block after block.
    Blocks,
    /// Version 7: sections that the options point to.
    Sections {
        codec: Option<Codec>,
        /// Offset of the first options section.
        options: u64,
    },
}

/// Why a header cannot be used.
#[derive(Debug)]
pub(crate) enum HeaderError {
    Damage(Damage),
    /// A version or a compression that is not read; the text says which.
    Unsupported(String),
}

impl From<Damage> for HeaderError {
    fn from(damage: Damage) -> Self {
        HeaderError::Damage(damage)
    }
}

impl Header {
    pub fn parse(data: &[u8]) -> Result<Self, HeaderError> {
        let preamble = Preamble::parse(data)?;
        let version = preamble.version.parse().unwrap_or(u32::MAX);
        if version > NEWEST {
            return Err(HeaderError::Unsupported(format!(
                "trace.dat version `{}`, where 7 is the newest known",
                preamble.version.escape_debug()
            )));
        }
        let layout = match version {
            NEWEST => sections(data, &preamble)?,
            _ => Layout::Blocks,
        };
        Ok(Self {
            preamble,
            version,
            layout,
        })
    }

    /// Such as `trace.dat v7 zstd`.
    pub fn describe(&self) -> String {
        let version = self.version;
        match self.layout {
            Layout::Sections {
                codec: Some(codec), ..
            } => format!("trace.dat v{version} {}", codec.name()),
            _ => format!("trace.dat v{version}"),
        }
    }
}

/// Name and version of the compression, then the offset of the options.
fn sections(data: &[u8], preamble: &Preamble) -> Result<Layout, HeaderError> {
    let mut cursor = Cursor::new(data, preamble.end, preamble.endian, "the file header");
    let name = cursor.text()?;
    // The version of the library that compressed; its format has not changed between versions.
    cursor.text()?;
    let codec = match name.as_str() {
        "none" => None,
        "zlib" => Some(Codec::Zlib),
        "zstd" => Some(Codec::Zstd),
        other => {
            return Err(HeaderError::Unsupported(format!(
                "compression `{}`, where `zlib`, `zstd` and `none` are known",
                other.escape_debug()
            )));
        }
    };
    let options = cursor.u64()?;
    Ok(Layout::Sections { codec, options })
}
