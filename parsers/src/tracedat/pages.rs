//! The pages of one CPU, one after the other: lent by the map, or decompressed chunk by chunk.

use std::collections::VecDeque;

use super::compress::{Codec, Inflater};
use crate::bytes::Endian;
use crate::fault::FaultLog;

/// The number of chunks and the head of one.
const LEAST_CHUNK: usize = 12;

/// One CPU's pages.
#[derive(Debug)]
pub(crate) struct Pages<'a> {
    source: Source<'a>,
    cpu: u32,
    page_size: usize,
    /// Where the current page lies in its source, and the next one starts.
    start: usize,
    end: usize,
    /// Offset, for messages, of the source's first byte: in the file, or in the decompressed data.
    base: u64,
    /// Stretches of the file that come after this one, each with its offset.
    more: VecDeque<(u64, &'a [u8])>,
    /// Bytes of the stretches before this one.
    before: u64,
}

#[derive(Debug)]
enum Source<'a> {
    Plain(&'a [u8]),
    Chunks(Box<Chunks<'a>>),
}

/// `trace-cmd.dat.v7(5)`: the number of chunks, then each as compressed size, size, data.
#[derive(Debug)]
struct Chunks<'a> {
    data: &'a [u8],
    at: usize,
    left: u32,
    /// There are none although there are bytes, which is to be told.
    none: bool,
    endian: Endian,
    codec: Codec,
    inflater: Option<Inflater>,
    buffer: Vec<u8>,
    /// Offset of `data` in the file.
    offset: u64,
}

impl<'a> Pages<'a> {
    /// Pages as they are; `offset` is where `data` lies in the file.
    pub fn plain(data: &'a [u8], offset: u64, cpu: u32, page_size: usize) -> Self {
        Self::new(Source::Plain(data), offset, cpu, page_size)
    }

    /// Compressed pages.
    pub fn compressed(
        data: &'a [u8],
        offset: u64,
        cpu: u32,
        page_size: usize,
        endian: Endian,
        codec: Codec,
    ) -> Self {
        let left = endian.u32_at(data, 0).unwrap_or(0);
        let chunks = Chunks {
            data,
            at: 4,
            left,
            none: left == 0 && data.len() >= LEAST_CHUNK,
            endian,
            codec,
            inflater: None,
            buffer: Vec::new(),
            offset,
        };
        Self::new(Source::Chunks(Box::new(chunks)), 0, cpu, page_size)
    }

    fn new(source: Source<'a>, base: u64, cpu: u32, page_size: usize) -> Self {
        Self {
            source,
            cpu,
            // A page holds at least its head; this also keeps `next` moving.
            page_size: page_size.max(16),
            start: 0,
            end: 0,
            base,
            more: VecDeque::new(),
            before: 0,
        }
    }

    /// The pages go on at other places of the file.
    pub fn followed_by(mut self, more: VecDeque<(u64, &'a [u8])>) -> Self {
        self.more = more;
        self
    }

    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The current page; shorter than a page at the end of damaged data.
    #[inline]
    pub fn page(&self) -> &[u8] {
        self.source
            .bytes()
            .get(self.start..self.end)
            .unwrap_or_default()
    }

    /// The pages that come next, as far as they need no decompressing.
    pub fn ahead(&self) -> impl Iterator<Item = &[u8]> {
        let here = self.source.bytes().get(self.end..).unwrap_or_default();
        let more = self.more.iter().map(|(_, data)| *data);
        let stretches = std::iter::once(here).chain(more);
        stretches.flat_map(|data| data.chunks(self.page_size))
    }

    /// Pages from all over: at most so many of each of at most so many stretches, or those of the first chunk.
    pub fn spread(&mut self, most: usize) -> Vec<&[u8]> {
        if let Source::Chunks(_) = self.source {
            // What is damaged there is told when it is read.
            self.next(&mut FaultLog::default());
        }
        let size = self.page_size;
        let here = self.source.bytes();
        let apart = (self.more.len() / most).max(1);
        let more = self.more.iter().step_by(apart).map(|(_, data)| *data);
        let stretches = std::iter::once(here).chain(more);
        let spread = stretches.flat_map(|data| {
            let apart = (data.len() / size / most).max(1);
            data.chunks(size).step_by(apart)
        });
        spread.collect()
    }

    /// Offset of the current page, for messages.
    pub fn offset(&self) -> u64 {
        self.base.saturating_add(self.start as u64)
    }

    /// Bytes of the file that have been read.
    pub fn bytes_done(&self) -> u64 {
        match &self.source {
            Source::Plain(_) => self.before.saturating_add(self.end as u64),
            Source::Chunks(chunks) => chunks.at.min(chunks.data.len()) as u64,
        }
    }

    /// Moves to the next page. A chunk that cannot be decompressed is skipped but for what came out of it;
    /// `lost` tells.
    pub fn next(&mut self, faults: &mut FaultLog) -> NextPage {
        let mut lost = false;
        loop {
            let length = self.source.bytes().len();
            if self.end < length {
                self.start = self.end;
                self.end = self.start.saturating_add(self.page_size).min(length);
                return NextPage::Page { lost };
            }
            let Source::Chunks(chunks) = &mut self.source else {
                let Some((offset, data)) = self.more.pop_front() else {
                    return NextPage::End { lost };
                };
                self.before = self.before.saturating_add(length as u64);
                (self.source, self.base) = (Source::Plain(data), offset);
                (self.start, self.end) = (0, 0);
                continue;
            };
            self.base = self.base.saturating_add(length as u64);
            (self.start, self.end) = (0, 0);
            match chunks.next(self.cpu, faults) {
                Chunk::None => return NextPage::End { lost },
                Chunk::Missing => return NextPage::End { lost: true },
                Chunk::Whole => {}
                Chunk::Damaged => lost = true,
            }
        }
    }
}

/// What [`Pages::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextPage {
    /// `lost`: pages before it could not be read.
    Page { lost: bool },
    /// `lost`: pages behind the last one could not be read.
    End { lost: bool },
}

/// What came of decompressing a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// There is no more.
    None,
    /// There should be more.
    Missing,
    Whole,
    Damaged,
}

impl Source<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Source::Plain(data) => data,
            Source::Chunks(chunks) => &chunks.buffer,
        }
    }
}

impl Chunks<'_> {
    /// Decompresses the next chunk into the buffer and tells whether it was whole. A chunk that is damaged
    /// inside loses only itself, as its compressed size still tells where the next one starts.
    fn next(&mut self, cpu: u32, faults: &mut FaultLog) -> Chunk {
        self.buffer.clear();
        if std::mem::take(&mut self.none) {
            let bytes = self.data.len();
            faults.push(self.offset, Some(cpu), || {
                format!("This CPU has {bytes} bytes of data, which say that they hold nothing.")
            });
            return Chunk::Missing;
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Chunk::None;
        };
        self.left = left;
        let at = self.offset.saturating_add(self.at as u64);
        let Some((input, claimed)) = self.chunk() else {
            let left = u64::from(self.left).saturating_add(1);
            faults.push(at, Some(cpu), || {
                format!("The data ends here, {left} compressed chunks before it should.")
            });
            self.left = 0;
            self.at = self.data.len();
            return Chunk::Missing;
        };
        match self.inflate(input, claimed) {
            Ok(()) => Chunk::Whole,
            Err(why) => {
                let name = self.codec.name();
                faults.push(at, Some(cpu), || {
                    format!("A {name} chunk cannot be decompressed ({why}); what came out of it was read.")
                });
                Chunk::Damaged
            }
        }
    }

    fn inflate(&mut self, input: std::ops::Range<usize>, claimed: u32) -> Result<(), String> {
        let mut inflater = match self.inflater.take() {
            Some(inflater) => inflater,
            None => Inflater::new(self.codec).map_err(|e| e.to_string())?,
        };
        let input = self.data.get(input).unwrap_or_default();
        let result = inflater.inflate(input, u64::from(claimed), &mut self.buffer);
        self.inflater = Some(inflater);
        result
    }

    /// Where the next chunk lies and what size it claims; `None` if it is not all there.
    fn chunk(&mut self) -> Option<(std::ops::Range<usize>, u32)> {
        let packed = self.endian.u32_at(self.data, self.at)?;
        let claimed = self.endian.u32_at(self.data, self.at.checked_add(4)?)?;
        let start = self.at.checked_add(8)?;
        let end = start.checked_add(usize::try_from(packed).ok()?)?;
        self.data.get(start..end)?;
        self.at = end;
        Some((start..end, claimed))
    }
}
