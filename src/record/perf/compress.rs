//! Compressing a finished recording's data.
//!
//! Source: `PERF_RECORD_COMPRESSED` in `tools/perf/Documentation/perf.data-file-format.txt`: the records, in their
//! order and cut anywhere, are one zstd stream whose pieces are the content of records of their own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use super::feature::{Content, Feature, FeatureNumber};

const RECORD_COMPRESSED: u32 = 81;
/// The level that `perf record -z` takes.
const LEVEL: i32 = 1;
/// How much is compressed in one go, and so the most that one record expands to.
const PIECE: usize = 512 << 10;
/// Most of the stream that one record holds: a record's size has 16 bits.
const MOST_CONTENT: usize = 65_000;

/// What compressing gave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compressed {
    /// Bytes before and after.
    pub plain: u64,
    pub size: u64,
}

/// Compresses `size` bytes of `from` at `start` to the end of `to`.
pub(super) fn compress(from: &File, start: u64, size: u64, to: &File) -> io::Result<Compressed> {
    let mut encoder = Encoder::new(LEVEL)?;
    let mut output = BufWriter::with_capacity(1 << 20, to);
    let mut plain = vec![0; PIECE];
    let mut compressed = Vec::new();
    let mut done = 0;
    let mut written = 0;
    while done < size {
        let length = usize::try_from(size - done).unwrap_or(PIECE).min(PIECE);
        let piece = plain.get_mut(..length).unwrap_or_default();
        from.read_exact_at(piece, start + done)?;
        compressed.clear();
        compress_piece(&mut encoder, piece, &mut compressed)?;
        for content in compressed.chunks(MOST_CONTENT) {
            let record = Content::default()
                .u32(RECORD_COMPRESSED)
                .bytes(&0_u16.to_ne_bytes())
                .bytes(&((8 + content.len()) as u16).to_ne_bytes())
                .bytes(content);
            output.write_all(&record.0)?;
            written += record.0.len() as u64;
        }
        done += length as u64;
    }
    output.flush()?;
    Ok(Compressed {
        plain: size,
        size: written,
    })
}

/// Compresses a piece so that it can be expanded without what follows.
fn compress_piece(encoder: &mut Encoder<'_>, piece: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
    let mut room = vec![0; zstd::zstd_safe::compress_bound(piece.len())];
    let mut input = InBuffer::around(piece);
    while input.pos() < piece.len() {
        let mut output = OutBuffer::around(room.as_mut_slice());
        encoder.run(&mut input, &mut output)?;
        to.extend_from_slice(output.as_slice());
    }
    loop {
        let mut output = OutBuffer::around(room.as_mut_slice());
        let left = encoder.flush(&mut output)?;
        to.extend_from_slice(output.as_slice());
        if left == 0 {
            return Ok(());
        }
    }
}

impl Compressed {
    /// The COMPRESSED feature: version, kind (zstd), level, ratio, and the most that a record expands to.
    pub fn feature(&self) -> Feature {
        const VERSION: u32 = 1;
        const ZSTD: u32 = 1;
        let ratio = (self.plain as f64 / self.size.max(1) as f64).round() as u32;
        let content = Content::default()
            .u32(VERSION)
            .u32(ZSTD)
            .u32(LEVEL.cast_unsigned())
            .u32(ratio)
            .u32(PIECE as u32);
        Feature::new(FeatureNumber::COMPRESSED, content)
    }
}
