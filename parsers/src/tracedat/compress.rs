//! Decompression that never trusts a claimed size.

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// No chunk or section may decompress to more; trace-cmd's chunks are 40 KiB.
const LIMIT: usize = 64 << 20;
/// The first size of an output buffer, doubled as data really comes out.
const FIRST_SIZE: usize = 64 << 10;
/// Largest zstd window (as a power of two) that memory is set aside for.
const WINDOW_LOG_MAX: u32 = 26;

/// A file's compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Zlib,
    Zstd,
}

impl Codec {
    pub fn name(self) -> &'static str {
        match self {
            Codec::Zlib => "zlib",
            Codec::Zstd => "zstd",
        }
    }
}

/// A reusable decompressor.
pub(crate) struct Inflater(State);

enum State {
    Zlib(Decompress),
    Zstd(Box<Decoder<'static>>),
}

/// How far one call came.
struct Progress {
    read: usize,
    written: usize,
    finished: bool,
}

impl Inflater {
    pub fn new(codec: Codec) -> std::io::Result<Self> {
        Ok(Self(match codec {
            Codec::Zlib => State::Zlib(Decompress::new(true)),
            Codec::Zstd => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
                State::Zstd(Box::new(decoder))
            }
        }))
    }

    /// Decompresses `input` into `out`, which grows no further than data comes out of it. What came out before
    /// an error stays in `out`.
    pub fn inflate(&mut self, input: &[u8], claimed: u64, out: &mut Vec<u8>) -> Result<(), String> {
        let limit = usize::try_from(claimed).unwrap_or(LIMIT).min(LIMIT);
        out.resize(out.capacity().max(FIRST_SIZE).min(limit), 0);
        self.reset()?;
        let (mut read, mut written) = (0, 0);
        let result = loop {
            let rest = input.get(read..).unwrap_or_default();
            let room = out.get_mut(written..).unwrap_or_default();
            let progress = match self.step(rest, room) {
                Ok(progress) => progress,
                Err(error) => break Err(error),
            };
            read += progress.read;
            written += progress.written;
            if progress.finished {
                break Ok(());
            }
            if written == out.len() {
                if written == limit {
                    break self.ends(input.get(read..).unwrap_or_default(), limit);
                }
                out.resize(out.len().saturating_mul(2).min(limit), 0);
            } else if progress.read == 0 && progress.written == 0 {
                break Err("its end is missing".to_owned());
            }
        };
        out.truncate(written);
        match result {
            Ok(()) if written as u64 != claimed => Err(format!(
                "{written} bytes instead of the {claimed} it should hold"
            )),
            other => other,
        }
    }

    /// A full buffer may hide that only the stream's trailer is left: one byte more of room tells.
    fn ends(&mut self, rest: &[u8], limit: usize) -> Result<(), String> {
        let end = self.step(rest, &mut [0])?;
        if end.finished && end.written == 0 {
            return Ok(());
        }
        Err(format!("more than the {limit} bytes it should hold"))
    }

    fn reset(&mut self) -> Result<(), String> {
        match &mut self.0 {
            State::Zlib(state) => state.reset(true),
            State::Zstd(state) => state.reinit().map_err(|e| e.to_string())?,
        }
        Ok(())
    }

    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Progress, String> {
        match &mut self.0 {
            State::Zlib(state) => {
                let before = (state.total_in(), state.total_out());
                let status = state
                    .decompress(input, room, FlushDecompress::None)
                    .map_err(|e| e.to_string())?;
                let moved = |from: u64, to: u64| usize::try_from(to - from).unwrap_or(0);
                Ok(Progress {
                    read: moved(before.0, state.total_in()),
                    written: moved(before.1, state.total_out()),
                    finished: status == Status::StreamEnd,
                })
            }
            State::Zstd(state) => {
                let mut source = InBuffer::around(input);
                let mut sink = OutBuffer::around(room);
                let hint = state
                    .run(&mut source, &mut sink)
                    .map_err(|e| e.to_string())?;
                Ok(Progress {
                    read: source.pos(),
                    written: sink.pos(),
                    finished: hint == 0,
                })
            }
        }
    }
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inflater")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn samples(data: &[u8]) -> [(Codec, Vec<u8>); 2] {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(data).unwrap();
        let zstd = zstd::bulk::compress(data, 1).unwrap();
        [(Codec::Zlib, zlib.finish().unwrap()), (Codec::Zstd, zstd)]
    }

    #[test]
    fn output_larger_than_the_first_buffer_comes_out_whole() {
        let data: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        for (codec, packed) in samples(&data) {
            let mut inflater = Inflater::new(codec).unwrap();
            let mut out = Vec::new();
            for _ in 0..2 {
                inflater
                    .inflate(&packed, data.len() as u64, &mut out)
                    .unwrap();
                assert!(out == data);
            }
        }
    }

    #[test]
    fn a_wrong_claim_is_found_out_and_allocates_nothing() {
        for (codec, packed) in samples(&[7; 1000]) {
            let mut inflater = Inflater::new(codec).unwrap();
            let mut out = Vec::new();
            let error = inflater.inflate(&packed, u64::MAX, &mut out).unwrap_err();
            assert!(error.starts_with("1000 bytes instead"), "{error}");
            assert!(out.capacity() <= FIRST_SIZE);
            let error = inflater.inflate(&packed, 10, &mut out).unwrap_err();
            assert!(error.starts_with("more than"), "{error}");
            assert!(inflater.inflate(&packed[..5], 1000, &mut out).is_err());
            assert!(inflater.inflate(&[], 1000, &mut out).is_err());
            assert!(inflater.inflate(&packed, 0, &mut out).is_err());
        }
    }
}
