//! Features of the file's header, as bytes.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`; what it leaves out is as `perf report --header-only`
//! reads it.

/// A feature's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FeatureNumber(pub u32);

impl FeatureNumber {
    pub const TRACING_DATA: Self = Self(1);
    pub const HOSTNAME: Self = Self(3);
    pub const OSRELEASE: Self = Self(4);
    pub const VERSION: Self = Self(5);
    pub const ARCH: Self = Self(6);
    pub const NRCPUS: Self = Self(7);
    pub const CPUDESC: Self = Self(8);
    pub const CPUID: Self = Self(9);
    pub const TOTAL_MEM: Self = Self(10);
    pub const CMDLINE: Self = Self(11);
    pub const EVENT_DESC: Self = Self(12);
    pub const CPU_TOPOLOGY: Self = Self(13);
    pub const NUMA_TOPOLOGY: Self = Self(14);
    pub const PMU_MAPPINGS: Self = Self(16);
    pub const GROUP_DESC: Self = Self(17);
    pub const CACHE: Self = Self(20);
    pub const SAMPLE_TIME: Self = Self(21);
    pub const MEM_TOPOLOGY: Self = Self(22);
    pub const CLOCKID: Self = Self(23);
    pub const COMPRESSED: Self = Self(27);
    pub const CLOCK_DATA: Self = Self(29);
    /// Ours: the machine record, `docs/machine-record.md`. Perf skips numbers that it does not know.
    pub const MACHINE_RECORD: Self = Self(250);
}

/// One feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Feature {
    pub number: FeatureNumber,
    pub content: Vec<u8>,
}

impl Feature {
    pub fn new(number: FeatureNumber, content: Content) -> Self {
        Self {
            number,
            content: content.0,
        }
    }

    /// A feature that is one text.
    pub fn text(number: FeatureNumber, text: &str) -> Self {
        Self::new(number, Content::default().string(text))
    }
}

/// Bytes in the making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content(pub Vec<u8>);

/// Perf pads strings to multiples of this.
const STRING_ALIGN: usize = 64;

impl Content {
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// `struct perf_header_string`: a length, and the text with its NUL and padding.
    pub fn string(self, text: &str) -> Self {
        let padded = (text.len() + 1).next_multiple_of(STRING_ALIGN);
        let mut content = self.u32(padded as u32).bytes(text.as_bytes());
        let end = content.0.len() + padded - text.len();
        content.0.resize(end, 0);
        content
    }

    /// A count and as many strings.
    pub fn strings<S: AsRef<str>>(self, texts: &[S]) -> Self {
        let counted = self.u32(texts.len() as u32);
        let add = |content: Self, text: &S| content.string(text.as_ref());
        texts.iter().fold(counted, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_padded_with_at_least_one_nul() {
        for (length, padded) in [(0, 64), (1, 64), (63, 64), (64, 128)] {
            let content = Content::default().string(&"x".repeat(length)).0;
            assert_eq!(content.len(), 4 + padded, "{length}");
            assert_eq!(content[..4], (padded as u32).to_ne_bytes());
            assert_eq!(content.last(), Some(&0));
        }
    }
}
