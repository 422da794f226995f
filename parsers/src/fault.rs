//! Recoverable damage: kept beside the data, capped in detail, always counted.

/// How many faults are kept in full; later ones are only counted.
const KEPT: usize = 256;

/// One place where a trace is damaged or surprising, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Byte offset in the file (in the decompressed data where the file is compressed).
    pub offset: u64,
    /// The CPU whose stream it is in, if it is in one.
    pub cpu: Option<u32>,
    /// A full sentence: what was expected, what was found, what was skipped.
    pub what: String,
}

/// The faults of one reader.
#[derive(Debug, Clone, Default)]
pub struct FaultLog {
    faults: Vec<Fault>,
    total: u64,
}

impl FaultLog {
    /// Records a fault; `what` is built only while there is room for it.
    pub fn push(&mut self, offset: u64, cpu: Option<u32>, what: impl FnOnce() -> String) {
        self.total += 1;
        if self.faults.len() < KEPT {
            self.faults.push(Fault {
                offset,
                cpu,
                what: what(),
            });
        }
    }

    /// Adds another reader's faults to these.
    pub fn absorb(&mut self, other: FaultLog) {
        self.total += other.total;
        let room = KEPT.saturating_sub(self.faults.len());
        self.faults.extend(other.faults.into_iter().take(room));
    }

    /// The first faults, at most 256.
    pub fn kept(&self) -> &[Fault] {
        &self.faults
    }

    /// How many there were in all.
    pub fn total(&self) -> u64 {
        self.total
    }
}
