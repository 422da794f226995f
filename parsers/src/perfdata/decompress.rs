//! Turns the compressed records of `perf record -z` back into plain ones, so that everything after works on offsets.
//!
//! Source: `tools/perf/util/zstd.c`, `perf_session__process_compressed_event` in `tools/perf/util/session.c`, and
//! `PERF_RECORD_COMPRESSED2` in `tools/perf/Documentation/perf.data-file-format.txt`. All compressed records of a file
//! are pieces of one zstd stream, and a plain record may begin in one and end in the next:
//!
//! ```text
//! file    ROUND | COMPRESSED a | ROUND | COMPRESSED2 b |
//! stream          s1 s2 s3a              s3b s4
//! output  ROUND   s1 s2          ROUND   s3 s4
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::bytes::Endian;
use crate::fault::FaultLog;
use crate::map::Bytes;

use super::records::{HEADER_BYTES, Record, RecordType, Stop, record_at};

/// Plain data up to this size is held in memory, more in a temporary file.
const IN_MEMORY: usize = 64 << 20;
/// Most that one record may expand to: a thousandfold of a record's greatest size, where real data shrinks thirtyfold.
const MOST_PER_RECORD: usize = 64 << 20;
/// How much is decompressed in one go.
const STEP: usize = 128 << 10;

/// Whether a record holds a piece of the zstd stream.
pub(super) fn is_compressed(kind: RecordType) -> bool {
    kind == RecordType::COMPRESSED || kind == RecordType::COMPRESSED2
}

/// The records of `data` with the compressed ones replaced by what they hold, and whether some of that is lost. Only
/// whole records are written.
pub(super) fn decompress(
    data: &[u8],
    endian: Endian,
    faults: &mut FaultLog,
) -> io::Result<(Bytes, bool)> {
    let mut output = Output::default();
    let mut stream = Stream::new(endian)?;
    let mut offset = 0;
    loop {
        let record = match record_at(data, offset, endian) {
            Ok(record) => record,
            Err(Stop::End) => break,
            Err(stop) => {
                // A piece of the stream may be among the rest, and without it none after it can be decompressed.
                stream.broken = true;
                if let Some(what) = stop.describe_rest(data.len() - offset) {
                    faults.push(offset as u64, None, || what);
                }
                break;
            }
        };
        if is_compressed(record.kind) {
            stream.add(&record, &mut output, faults)?;
        } else {
            output.write(data.get(offset..record.next).unwrap_or_default())?;
        }
        offset = record.next;
    }
    if !stream.pending.is_empty() {
        let left = stream.pending.len();
        faults.push(offset as u64, None, || {
            format!("the compressed data ends within a record: its last {left} bytes are left out")
        });
    }
    let lost = stream.broken || !stream.pending.is_empty();
    Ok((output.finish()?, lost))
}

/// The zstd stream of a file.
struct Stream {
    endian: Endian,
    decoder: Decoder<'static>,
    /// Decompressed bytes that do not make a whole record yet.
    pending: Vec<u8>,
    /// Once a piece cannot be decompressed, none after it can.
    broken: bool,
}

impl Stream {
    fn new(endian: Endian) -> io::Result<Self> {
        Ok(Self {
            endian,
            decoder: Decoder::new()?,
            pending: Vec::new(),
            broken: false,
        })
    }

    fn add(
        &mut self,
        record: &Record<'_>,
        output: &mut Output,
        faults: &mut FaultLog,
    ) -> io::Result<()> {
        if self.broken {
            return Ok(());
        }
        let piece = compressed_piece(record, self.endian);
        if let Err(why) = self.expand(piece) {
            self.broken = true;
            faults.push(record.offset as u64, None, || {
                format!(
                    "a compressed record cannot be decompressed ({why}): it and all compressed records after it are lost"
                )
            });
        }
        let whole = self.whole_records(record.offset, faults);
        output.write(self.pending.get(..whole).unwrap_or_default())?;
        self.pending.drain(..whole);
        Ok(())
    }

    /// Decompresses one piece behind the pending bytes.
    fn expand(&mut self, piece: &[u8]) -> Result<(), String> {
        let mut input = InBuffer::around(piece);
        let most = self.pending.len() + MOST_PER_RECORD;
        let mut step = vec![0; STEP];
        loop {
            let mut room = OutBuffer::around(step.as_mut_slice());
            self.decoder
                .run(&mut input, &mut room)
                .map_err(|why| why.to_string())?;
            let made = room.as_slice();
            self.pending.extend_from_slice(made);
            // The decoder holds something back only while the output is full.
            if input.pos() >= piece.len() && made.len() < STEP {
                return Ok(());
            }
            if self.pending.len() > most {
                return Err(format!("it grows beyond {MOST_PER_RECORD} bytes"));
            }
            if made.is_empty() && input.pos() < piece.len() {
                return Err("the decoder makes no progress".to_owned());
            }
        }
    }

    /// Length of the whole records among the pending bytes.
    fn whole_records(&mut self, offset: usize, faults: &mut FaultLog) -> usize {
        let mut at = 0;
        loop {
            match record_at(&self.pending, at, self.endian) {
                Ok(record) => at = record.next,
                Err(Stop::BadSize(size)) => {
                    self.broken = true;
                    faults.push(offset as u64, None, || {
                        format!(
                            "the decompressed data holds a record of {size} bytes, less than its header: all compressed records from there on are lost"
                        )
                    });
                    return at;
                }
                Err(Stop::End | Stop::Cut { .. }) => return at,
            }
        }
    }
}

/// The zstd bytes of a record. COMPRESSED2 holds their exact number first, because it is padded; where perf split a
/// piece into several records it left that number unset in all but the first (see `records.rs`), and did not pad.
fn compressed_piece<'a>(record: &Record<'a>, endian: Endian) -> &'a [u8] {
    let payload = record.bytes.get(HEADER_BYTES..).unwrap_or_default();
    if record.kind == RecordType::COMPRESSED {
        return payload;
    }
    let size = endian.u64_at(payload, 0).unwrap_or(0);
    let data = payload.get(8..).unwrap_or_default();
    match usize::try_from(size) {
        Ok(size) if size > 0 => data.get(..size).unwrap_or(data),
        _ => data,
    }
}

/// Plain data, moved to a temporary file once it is large.
#[derive(Default)]
struct Output {
    memory: Vec<u8>,
    file: Option<BufWriter<File>>,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return file.write_all(bytes);
        }
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > IN_MEMORY {
            let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        Ok(())
    }

    fn finish(self) -> io::Result<Bytes> {
        match self.file {
            None => Ok(Bytes::owned(self.memory)),
            Some(file) => Bytes::map(&file.into_inner().map_err(|error| error.into_error())?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zstd::stream::raw::Encoder;

    fn record(kind: u32, payload: &[u8]) -> Vec<u8> {
        let size = (HEADER_BYTES + payload.len()) as u16;
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 2]);
        bytes.extend(size.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// Compresses pieces as perf does: one stream, flushed after each piece.
    fn pieces(plain: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new(1).unwrap();
        plain
            .iter()
            .map(|piece| {
                let mut out = vec![0; 1 << 16];
                let mut room = OutBuffer::around(out.as_mut_slice());
                let mut input = InBuffer::around(piece);
                encoder.run(&mut input, &mut room).unwrap();
                assert_eq!(encoder.flush(&mut room).unwrap(), 0);
                let made = room.pos();
                out.truncate(made);
                out
            })
            .collect()
    }

    fn compressed(kind: RecordType, piece: &[u8]) -> Vec<u8> {
        if kind == RecordType::COMPRESSED {
            return record(kind.0, piece);
        }
        let mut payload = (piece.len() as u64).to_le_bytes().to_vec();
        payload.extend(piece);
        payload.resize(payload.len().next_multiple_of(8), 0xaa);
        record(kind.0, &payload)
    }

    #[test]
    fn records_straddle_compressed_records_and_others_keep_their_place() {
        let first = record(9, &[1; 40]);
        let second = record(9, &[2; 56]);
        let third = record(3, &[3; 16]);
        let all = [first.clone(), second.clone(), third.clone()].concat();
        let round = record(68, &[]);
        for kind in [RecordType::COMPRESSED, RecordType::COMPRESSED2] {
            for cut in 1..all.len() - 1 {
                let (a, b) = all.split_at(cut);
                let pieces = pieces(&[a, b]);
                let data = [
                    round.clone(),
                    compressed(kind, &pieces[0]),
                    round.clone(),
                    compressed(kind, &pieces[1]),
                ]
                .concat();
                let mut faults = FaultLog::default();
                let (plain, lost) = decompress(&data, Endian::Little, &mut faults).unwrap();
                assert_eq!((faults.total(), lost), (0, false));
                assert_eq!(plain.len(), all.len() + 16);
                let first_round = plain.get(..8).unwrap();
                assert_eq!(first_round, round, "{cut}");
                let mut without: Vec<u8> = plain[8..].to_vec();
                let at = [0, first.len(), first.len() + second.len(), all.len()]
                    .into_iter()
                    .rfind(|&end| end <= cut)
                    .unwrap();
                assert_eq!(without[at..at + 8], round, "{cut}");
                without.drain(at..at + 8);
                assert_eq!(without, all, "{cut}");
            }
        }
    }

    #[test]
    fn a_damaged_stream_keeps_what_came_before() {
        let first = record(9, &[1; 40]);
        let mut pieces = pieces(&[&first, &first, &first]);
        pieces[1].iter_mut().for_each(|byte| *byte ^= 0x5a);
        let data: Vec<_> = pieces
            .iter()
            .flat_map(|piece| compressed(RecordType::COMPRESSED, piece))
            .collect();
        let mut faults = FaultLog::default();
        let (plain, lost) = decompress(&data, Endian::Little, &mut faults).unwrap();
        assert!(lost);
        assert_eq!(&plain[..], first);
        assert_eq!(faults.total(), 1);
    }

    #[test]
    fn a_bomb_is_damage() {
        let zeros = vec![0; 1 << 20];
        let mut encoder = Encoder::new(1).unwrap();
        let mut bomb = vec![0; 1 << 20];
        let mut room = OutBuffer::around(bomb.as_mut_slice());
        for _ in 0..(MOST_PER_RECORD >> 20) + 2 {
            encoder
                .run(&mut InBuffer::around(&zeros), &mut room)
                .unwrap();
        }
        encoder.flush(&mut room).unwrap();
        let made = room.pos();
        let data = compressed(RecordType::COMPRESSED, &bomb[..made]);
        let mut faults = FaultLog::default();
        let (plain, lost) = decompress(&data, Endian::Little, &mut faults).unwrap();
        assert!(lost);
        assert!(plain.is_empty());
        assert!(faults.total() >= 1);
    }
}
