//! What has come into a ring since it was read last: whole records, in one piece or, over the ring's end, in two.

/// Types of records, from `enum perf_event_type` in `include/uapi/linux/perf_event.h`.
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// Size of `struct perf_event_header`. Records begin at multiples of it, and so a header lies in one piece.
const HEADER_BYTES: usize = 8;
/// Where a LOST record has its number, behind the header and an id.
const LOST_AT: u64 = 16;

/// Unread bytes of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'a> {
    pub first: &'a [u8],
    /// What lies at the ring's start.
    pub second: &'a [u8],
}

/// What a stretch holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub samples: u64,
    /// Events that the kernel says it dropped.
    pub lost: u64,
    /// Times of the first and the last sample.
    pub times: Option<(u64, u64)>,
}

impl Stretch<'_> {
    pub fn len(&self) -> u64 {
        (self.first.len() + self.second.len()) as u64
    }

    /// Looks at each record's header, which is all that counting needs. Samples have their time at byte `time_at`.
    pub fn tally(&self, time_at: u64) -> Tally {
        let mut tally = Tally::default();
        let mut samples = None;
        let mut start = 0;
        let mut base = 0;
        for piece in [self.first, self.second] {
            let mut at = start;
            while let Some(header) = piece.get(at..at + HEADER_BYTES) {
                let (kind, size) = split_header(header);
                let place = (base + at) as u64;
                if kind == RECORD_SAMPLE {
                    tally.samples += 1;
                    samples = Some((samples.map_or(place, |(first, _)| first), place));
                } else if kind == RECORD_LOST {
                    tally.lost += self.word(place + LOST_AT).unwrap_or(0);
                }
                // The kernel writes no such record; a loop without end would be worse than a wrong count.
                at += usize::from(size).max(HEADER_BYTES);
            }
            base += piece.len();
            start = at.saturating_sub(piece.len());
        }
        tally.times = samples.and_then(|(first, last)| {
            Some((self.word(first + time_at)?, self.word(last + time_at)?))
        });
        tally
    }

    /// The word at an offset, which is a multiple of its size.
    fn word(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let (piece, at) = match at.checked_sub(self.first.len()) {
            Some(at) => (self.second, at),
            None => (self.first, at),
        };
        let bytes = piece.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// `struct perf_event_header`: u32 type, u16 misc, u16 size.
#[inline]
fn split_header(header: &[u8]) -> (u32, u16) {
    let word: [u8; HEADER_BYTES] = header.try_into().unwrap_or_default();
    let [a, b, c, d, _, _, g, h] = word;
    (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([g, h]))
}

impl Tally {
    /// Both together; `later` came after this.
    pub fn add(&mut self, later: Tally) {
        self.samples += later.samples;
        self.lost += later.lost;
        self.times = match (self.times, later.times) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (mine, other) => mine.or(other),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = (HEADER_BYTES + words.len() * 8) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn counts_are_the_same_wherever_the_ring_ends() {
        let sample = |time| record(RECORD_SAMPLE, &[1, time, 3, 4, 5]);
        let all = [
            record(3, &[7, 8]),
            sample(100),
            record(RECORD_LOST, &[9, 12]),
            sample(90),
            sample(130),
            record(RECORD_LOST, &[9, 5]),
        ]
        .concat();
        let expected = Tally {
            samples: 3,
            lost: 17,
            times: Some((100, 130)),
        };
        for end in (0..=all.len()).step_by(8) {
            let (first, second) = all.split_at(end);
            let stretch = Stretch { first, second };
            assert_eq!(stretch.tally(16), expected, "{end}");
        }
    }

    #[test]
    fn garbage_ends() {
        let zeros = [0; 64];
        let stretch = Stretch {
            first: &zeros,
            second: &zeros,
        };
        assert_eq!(stretch.tally(16), Tally::default());
    }
}
