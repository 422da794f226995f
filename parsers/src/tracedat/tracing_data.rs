//! The blocks that describe a trace's events, as trace.dat v6 lays them out one after the other.
//!
//! perf.data's TRACING_DATA feature holds the very same blocks; trace.dat v7 puts each into a section of its
//! own. Sources: `trace-cmd.dat.v6(5)`, and perf's `tools/perf/util/trace-event-info.c`, which writes them
//! with version `0.5` (without saved command lines) or `0.6`.

use std::ops::Range;

use super::cursor::{Cursor, Damage};
use crate::bytes::Endian;
use crate::format::{EventFormat, parse_fields};

/// What every file starts with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Events and names, as far as they could be read.
#[derive(Debug, Clone)]
pub struct TracingData {
    pub version: String,
    pub endian: Endian,
    /// Bytes of the traced kernel's `long`.
    pub long_size: usize,
    pub page_size: u32,
    /// `None` where the recorder could not read it; events are sound without it, ring-buffer pages are not.
    pub header_page: Option<HeaderPage>,
    /// ftrace's own events first (their system is `ftrace`).
    pub formats: Vec<EventFormat>,
    /// Where the text of `/proc/kallsyms` lies in the data.
    pub kallsyms: Range<usize>,
    /// Where the text of `printk_formats` lies in the data.
    pub printk: Range<usize>,
    /// Task names as the kernel had saved them.
    pub cmdlines: Vec<(i32, Vec<u8>)>,
    /// Where reading had to stop, if the blocks are not whole.
    pub damage: Option<Damage>,
    /// Offset of what follows the blocks.
    pub end: usize,
}

/// The head of a ring-buffer page (`events/header_page`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderPage {
    pub commit_offset: usize,
    /// Bytes of the commit field: the *kernel's* `long`, while the file's own long size is user space's.
    pub commit_size: usize,
    pub data_offset: usize,
}

impl HeaderPage {
    /// `None` unless the text describes pages as every kernel since 2.6.31 has them.
    pub fn parse(text: &str) -> Option<Self> {
        let fields = parse_fields(text);
        let field = |name: &str| fields.iter().find(|f| f.name == name);
        let (stamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let sound = (stamp.offset, stamp.size) == (0, 8)
            && matches!(commit.size, 4 | 8)
            && commit.offset.checked_add(commit.size)? <= data.offset
            && data.offset <= 64;
        sound.then_some(Self {
            commit_offset: commit.offset,
            commit_size: commit.size,
            data_offset: data.offset,
        })
    }
}

/// The first bytes of a file or of a TRACING_DATA feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub version: String,
    pub endian: Endian,
    /// Of user space.
    pub long_size: usize,
    pub page_size: u32,
    pub end: usize,
}

impl Preamble {
    pub fn parse(data: &[u8]) -> Result<Self, Damage> {
        let mut cursor = Cursor::new(data, 0, Endian::Little, "the file header");
        if !cursor.skip_tag(MAGIC) {
            return Err(Damage::new("no trace.dat magic", 0));
        }
        let version = cursor.text()?;
        cursor.endian = match cursor.u8()? {
            0 => Endian::Little,
            1 => Endian::Big,
            other => {
                return Err(Damage::new(
                    format!("byte order {other}, which is neither 0 nor 1"),
                    cursor.at(),
                ));
            }
        };
        let long_size = usize::from(cursor.u8()?);
        let page_size = cursor.u32()?;
        Ok(Self {
            version,
            endian: cursor.endian,
            long_size,
            page_size,
            end: cursor.at(),
        })
    }
}

/// Reads the blocks; only a damaged preamble is an error, later damage ends the reading and is kept.
pub fn parse_tracing_data(data: &[u8]) -> Result<TracingData, Damage> {
    let preamble = Preamble::parse(data)?;
    let mut found = TracingData {
        version: preamble.version,
        endian: preamble.endian,
        long_size: preamble.long_size,
        page_size: preamble.page_size,
        header_page: None,
        formats: Vec::new(),
        kallsyms: 0..0,
        printk: 0..0,
        cmdlines: Vec::new(),
        damage: None,
        end: preamble.end,
    };
    let mut cursor = Cursor::new(data, preamble.end, preamble.endian, "the page header");
    found.damage = found.read_blocks(&mut cursor, data).err();
    found.end = cursor.at();
    Ok(found)
}

impl TracingData {
    fn read_blocks(&mut self, cursor: &mut Cursor<'_>, data: &[u8]) -> Result<(), Damage> {
        self.header_page = read_header_info(cursor)?;
        if let Some(page) = self.header_page {
            self.long_size = page.commit_size;
        }
        read_ftrace_formats(cursor, &mut self.formats)?;
        read_event_formats(cursor, &mut self.formats)?;
        self.kallsyms = read_text32(cursor, "the symbol list")?;
        self.printk = read_text32(cursor, "the list of printk formats")?;
        if self.version != "0.5" {
            let range = read_text64(cursor, "the list of task names")?;
            self.cmdlines = parse_cmdlines(data.get(range).unwrap_or_default());
        }
        Ok(())
    }
}

/// `header_page\0`, size, text, `header_event\0`, size, text. The event header has never changed since 2.6.31,
/// and its text cannot express bit fields, so only its size matters.
pub(crate) fn read_header_info(cursor: &mut Cursor<'_>) -> Result<Option<HeaderPage>, Damage> {
    cursor.subject = "the page header";
    cursor.expect_tag(b"header_page\0")?;
    let size = cursor.u64()?;
    let page = HeaderPage::parse(&String::from_utf8_lossy(cursor.take(size)?));
    cursor.expect_tag(b"header_event\0")?;
    let size = cursor.u64()?;
    cursor.take(size)?;
    Ok(page)
}

/// Number of texts, then each with its size before it.
pub(crate) fn read_ftrace_formats(
    cursor: &mut Cursor<'_>,
    formats: &mut Vec<EventFormat>,
) -> Result<(), Damage> {
    cursor.subject = "the list of ftrace's own events";
    read_formats(cursor, "ftrace", formats)
}

/// Number of systems, then each one's name and formats.
pub(crate) fn read_event_formats(
    cursor: &mut Cursor<'_>,
    formats: &mut Vec<EventFormat>,
) -> Result<(), Damage> {
    cursor.subject = "the list of event formats";
    for _ in 0..cursor.u32()? {
        let system = cursor.text()?;
        read_formats(cursor, &system, formats)?;
    }
    Ok(())
}

fn read_formats(
    cursor: &mut Cursor<'_>,
    system: &str,
    formats: &mut Vec<EventFormat>,
) -> Result<(), Damage> {
    for _ in 0..cursor.u32()? {
        let size = cursor.u64()?;
        let text = String::from_utf8_lossy(cursor.take(size)?);
        formats.extend(EventFormat::parse(system, &text));
    }
    Ok(())
}

/// A text with a 32-bit size before it.
pub(crate) fn read_text32(
    cursor: &mut Cursor<'_>,
    subject: &'static str,
) -> Result<Range<usize>, Damage> {
    cursor.subject = subject;
    let size = cursor.u32()?;
    cursor.range(u64::from(size))
}

/// A text with a 64-bit size before it.
pub(crate) fn read_text64(
    cursor: &mut Cursor<'_>,
    subject: &'static str,
) -> Result<Range<usize>, Damage> {
    cursor.subject = subject;
    let size = cursor.u64()?;
    cursor.range(size)
}

/// Lines of pid, one space, name; names may hold spaces. `<...>` is the kernel's word for not knowing.
pub(crate) fn parse_cmdlines(text: &[u8]) -> Vec<(i32, Vec<u8>)> {
    let line = |line: &[u8]| {
        let space = line.iter().position(|&b| b == b' ')?;
        let pid = std::str::from_utf8(line.get(..space)?).ok()?.parse().ok()?;
        let name = line.get(space.checked_add(1)?..)?;
        (name != b"<...>").then(|| (pid, name.to_vec()))
    };
    text.split(|&b| b == b'\n' || b == 0)
        .filter_map(line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";

    fn blocks(version: &str) -> Vec<u8> {
        let mut data = [MAGIC, version.as_bytes(), b"\0\x01\x08\0\0\x10\0"].concat();
        for (name, text) in [("header_page", PAGE), ("header_event", "x")] {
            data.extend([name.as_bytes(), b"\0"].concat());
            data.extend((text.len() as u64).to_be_bytes());
            data.extend(text.as_bytes());
        }
        let format = "name: switch\nID: 7\n";
        data.extend(0_u32.to_be_bytes());
        data.extend(1_u32.to_be_bytes());
        data.extend(b"sched\0\0\0\0\x01");
        data.extend((format.len() as u64).to_be_bytes());
        data.extend(format.as_bytes());
        data.extend([&0_u32.to_be_bytes()[..], &2_u32.to_be_bytes(), b"ab"].concat());
        if version != "0.5" {
            data.extend(8_u64.to_be_bytes());
            data.extend(b"12 a b\n\n");
        }
        data
    }

    #[test]
    fn blocks_are_read_in_order_and_the_kernels_long_counts() {
        for version in ["0.5", "0.6", "6"] {
            let data = blocks(version);
            let found = parse_tracing_data(&data).unwrap();
            assert_eq!((found.endian, found.long_size), (Endian::Big, 4));
            assert_eq!(found.page_size, 4096);
            assert_eq!(found.header_page.unwrap().data_offset, 12);
            assert_eq!(found.formats[0].system, "sched");
            assert_eq!(&data[found.printk.clone()], b"ab");
            assert_eq!((found.end, &found.damage), (data.len(), &None));
            let names = if version == "0.5" { 0 } else { 1 };
            assert_eq!(found.cmdlines.len(), names);
        }
    }

    #[test]
    fn what_is_whole_survives_truncation_at_every_byte() {
        let data = blocks("6");
        for length in 0..data.len() {
            let Ok(found) = parse_tracing_data(&data[..length]) else {
                assert!(length < MAGIC.len() + 8);
                continue;
            };
            assert!(found.damage.is_some(), "{length}");
        }
    }

    #[test]
    fn task_names_may_hold_spaces() {
        let names = parse_cmdlines(b"1 a b\n2 <...>\nx y\n3 \n");
        assert_eq!(names, [(1, b"a b".to_vec()), (3, Vec::new())]);
    }
}
