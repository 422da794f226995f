//! The file header, in both byte orders and both modes.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`, and `struct perf_file_header` and
//! `struct perf_pipe_file_header` in `tools/perf/util/header.h`.

use std::ops::Range;

use crate::bytes::Endian;

use super::features::Feature;

/// The magic of a file whose writer had the byte order it is read in.
const MAGIC: &[u8; 8] = b"PERFILE2";
/// The same, written on a machine of the other byte order.
const SWAPPED: &[u8; 8] = b"2ELIFREP";
/// What perf wrote before 2.6.39.
const VERSION_1: &[u8; 8] = b"PERFFILE";

/// Size of the pipe mode's header: magic and size.
const PIPE_HEADER: u64 = 16;
/// Size of the header before it had a feature bitmap.
const HEADER_WITHOUT_FEATURES: u64 = 72;
/// Words of the feature bitmap.
const FEATURE_WORDS: usize = 4;

/// Whether the content is a perf.data file of any version.
pub(super) fn recognises(bytes: &[u8]) -> bool {
    [MAGIC, SWAPPED, VERSION_1]
        .iter()
        .any(|magic| bytes.starts_with(*magic))
}

/// Where a part of the file lies, as the file claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub offset: u64,
    pub size: u64,
}

impl Section {
    /// Size on disk.
    pub const BYTES: usize = 16;

    pub fn read(bytes: &[u8], at: usize, endian: Endian) -> Option<Self> {
        Some(Self {
            offset: endian.u64_at(bytes, at)?,
            size: endian.u64_at(bytes, at.checked_add(8)?)?,
        })
    }

    /// The part of the section that the file really has; `None` if it starts beyond the end.
    pub fn range(self, file_size: usize) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        let end = self.offset.saturating_add(self.size);
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(file_size);
        (start <= end).then_some(start..end)
    }

    /// Whether the file is long enough for it.
    pub fn is_whole(self, file_size: usize) -> bool {
        self.offset
            .checked_add(self.size)
            .is_some_and(|end| end <= file_size as u64)
    }
}

/// A file's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub endian: Endian,
    pub layout: Layout,
}

/// How the file is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// Written through a pipe: everything is records, from this offset to the end.
    Pipe {
        data: usize,
    },
    Seekable(Seekable),
}

/// The header of a file whose writer could seek.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seekable {
    /// Bytes from one attribute to the next, the section of its ids included.
    pub attr_size: u64,
    pub attrs: Section,
    /// Size 0 means that the recorder did not end properly.
    pub data: Section,
    pub features: [u64; FEATURE_WORDS],
}

/// Why the header cannot be used: what is wrong, at which byte, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeaderError {
    pub what: &'static str,
    pub offset: u64,
    pub hint: &'static str,
}

const CUT: HeaderError = HeaderError {
    what: "the file ends within its header",
    offset: 0,
    hint: "it is only the start of a perf.data file; copy it again",
};

impl Header {
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let endian = match bytes.first_chunk::<8>() {
            Some(magic) if magic == MAGIC => Endian::Little,
            Some(magic) if magic == SWAPPED => Endian::Big,
            _ => {
                return Err(HeaderError {
                    what: "perf.data of version 1",
                    offset: 0,
                    hint: "perf wrote it before Linux 2.6.39; record again with a newer perf",
                });
            }
        };
        let size = endian.u64_at(bytes, 8).ok_or(CUT)?;
        let layout = if size == PIPE_HEADER {
            Layout::Pipe {
                data: PIPE_HEADER as usize,
            }
        } else {
            Layout::Seekable(Seekable::parse(bytes, size, endian).ok_or(CUT)?)
        };
        Ok(Self { endian, layout })
    }
}

impl Seekable {
    fn parse(bytes: &[u8], header_size: u64, endian: Endian) -> Option<Self> {
        let features = if header_size <= HEADER_WITHOUT_FEATURES {
            [0; FEATURE_WORDS]
        } else {
            feature_bits(bytes, endian)?
        };
        Some(Self {
            attr_size: endian.u64_at(bytes, 16)?,
            attrs: Section::read(bytes, 24, endian)?,
            data: Section::read(bytes, 40, endian)?,
            features,
        })
    }

    /// Whether it tells of nothing at all: what `ttwu record` writes first.
    pub fn is_bare(&self) -> bool {
        self.attrs.size == 0 && self.data.size == 0 && self.features().next().is_none()
    }

    /// Whether the file is too short to have any data, or even all attributes.
    pub fn ends_before_data(&self, file_size: usize) -> bool {
        !self.attrs.is_whole(file_size) || self.data.offset > file_size as u64
    }

    /// The features that are present, in the order of their sections.
    pub fn features(&self) -> impl Iterator<Item = Feature> + '_ {
        self.features
            .iter()
            .zip(0_u32..)
            .flat_map(|(&word, index)| {
                (0..64)
                    .filter(move |bit| word >> bit & 1 == 1)
                    .map(move |bit| Feature(index * 64 + bit))
            })
    }
}

/// The bitmap is an array of the writer's longs. On little-endian machines their size makes no difference; on a
/// big-endian one of 32 bits the halves of each word are exchanged, which shows by HOSTNAME missing (perf sets
/// it always, and its own reader decides by it: `perf_file_header__read`).
fn feature_bits(bytes: &[u8], endian: Endian) -> Option<[u64; FEATURE_WORDS]> {
    let mut words = [0; FEATURE_WORDS];
    for (index, word) in words.iter_mut().enumerate() {
        *word = endian.u64_at(bytes, HEADER_WITHOUT_FEATURES as usize + index * 8)?;
    }
    let hostname = 1 << Feature::HOSTNAME.0;
    if endian == Endian::Big && words.iter().take(1).all(|word| word & hostname == 0) {
        let halves = words.map(|word| word.rotate_left(32));
        if halves.iter().take(1).any(|word| word & hostname != 0) {
            return Some(halves);
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(endian: Endian, words: &[u64]) -> Vec<u8> {
        let mut bytes = match endian {
            Endian::Little => MAGIC.to_vec(),
            Endian::Big => SWAPPED.to_vec(),
        };
        for word in words {
            bytes.extend(match endian {
                Endian::Little => word.to_le_bytes(),
                Endian::Big => word.to_be_bytes(),
            });
        }
        bytes
    }

    #[test]
    fn both_byte_orders_and_modes() {
        for endian in [Endian::Little, Endian::Big] {
            let pipe = Header::parse(&header(endian, &[16])).unwrap();
            assert_eq!(pipe.layout, Layout::Pipe { data: 16 });
            let words = [104, 152, 104, 304, 408, 5000, 0, 0, 0b1010, 1, 0, 0];
            let file = Header::parse(&header(endian, &words)).unwrap();
            assert_eq!(file.endian, endian);
            let Layout::Seekable(seekable) = file.layout else {
                panic!("a seekable file");
            };
            assert_eq!(seekable.attr_size, 152);
            assert_eq!((seekable.data.offset, seekable.data.size), (408, 5000));
            let features: Vec<_> = seekable.features().map(|f| f.0).collect();
            assert_eq!(features, [1, 3, 64]);
        }
    }

    #[test]
    fn a_32_bit_big_endian_writer_exchanges_the_halves() {
        let words = [104, 152, 104, 304, 408, 5000, 0, 0, 0b1010 << 32, 0, 0, 0];
        let file = Header::parse(&header(Endian::Big, &words)).unwrap();
        let Layout::Seekable(seekable) = file.layout else {
            panic!("a seekable file");
        };
        assert_eq!(seekable.features[0], 0b1010);
    }

    #[test]
    fn old_and_cut_headers_say_so() {
        assert!(recognises(b"PERFFILE________"));
        assert_eq!(
            Header::parse(b"PERFFILE________").unwrap_err().what,
            "perf.data of version 1"
        );
        assert_eq!(Header::parse(b"PERFILE2\x10"), Err(CUT));
        assert_eq!(
            Header::parse(&header(Endian::Little, &[104, 152])),
            Err(CUT)
        );
    }

    #[test]
    fn a_section_is_cut_at_the_files_end() {
        let section = Section {
            offset: 100,
            size: u64::MAX,
        };
        assert_eq!(section.range(150), Some(100..150));
        assert_eq!(section.range(99), None);
        assert!(!section.is_whole(150));
    }
}
