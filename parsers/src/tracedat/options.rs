//! The options: everything a trace.dat says of itself besides its events.
//!
//! Source: the OPTIONS chapters of `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`. Options that are not known
//! are skipped by their size.

use super::buffers::BufferOption;
use super::clock::{HostSync, Stamps, SyncSample};
use super::cpustat::{self, CpuStat};
use super::cursor::{Cursor, Damage};
use crate::bytes::{Endian, until_nul};

/// An option's or a section's number; the two share one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionId(pub u16);

impl OptionId {
    /// As a section: a list of options.
    pub const DONE: Self = Self(0);
    pub const DATE: Self = Self(1);
    pub const CPUSTAT: Self = Self(2);
    pub const BUFFER: Self = Self(3);
    pub const TRACECLOCK: Self = Self(4);
    pub const UNAME: Self = Self(5);
    pub const OFFSET: Self = Self(7);
    pub const CPUCOUNT: Self = Self(8);
    pub const VERSION: Self = Self(9);
    pub const TIME_SHIFT: Self = Self(12);
    pub const TSC2NSEC: Self = Self(14);
    pub const HEADER_INFO: Self = Self(16);
    pub const FTRACE_EVENTS: Self = Self(17);
    pub const EVENT_FORMATS: Self = Self(18);
    pub const KALLSYMS: Self = Self(19);
    pub const PRINTK: Self = Self(20);
    pub const CMDLINES: Self = Self(21);
    pub const BUFFER_TEXT: Self = Self(22);
}

/// The options of one file, gathered.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub stamps: Stamps,
    /// The clock of the top buffer.
    pub clock: Option<String>,
    /// Whether a TRACECLOCK option was there: in version 6 the clock's text then follows the data table.
    pub has_clock: bool,
    pub uname: Option<String>,
    /// Version of trace-cmd.
    pub recorder: Option<String>,
    pub cpu_count: Option<u32>,
    pub cpustats: Vec<CpuStat>,
    /// Whose CPUSTAT options come next.
    cpustat_buffer: String,
    /// Raw BUFFER options, which versions 6 and 7 fill differently.
    pub buffers: Vec<BufferOption>,
    /// Whether a buffer holds a latency tracer's text.
    pub has_text: bool,
    /// Sections by id, as version 7 lists them.
    pub sections: Vec<(OptionId, u64)>,
}

impl Options {
    /// Version 6: options up to one with id 0, which has no size.
    pub fn read_list(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Damage> {
        cursor.subject = "the list of options";
        loop {
            let id = OptionId(cursor.u16()?);
            if id == OptionId::DONE {
                return Ok(());
            }
            let size = cursor.u32()?;
            let body = cursor.take(u64::from(size))?;
            self.apply(id, body, cursor.endian);
        }
    }

    /// Version 7: options up to one with id 0, which holds the offset of the next list; 0 ends the chain.
    pub fn read_section(&mut self, cursor: &mut Cursor<'_>) -> Result<u64, Damage> {
        loop {
            let id = OptionId(cursor.u16()?);
            let size = cursor.u32()?;
            let body = cursor.take(u64::from(size))?;
            if id == OptionId::DONE {
                return Cursor::new(body, 0, cursor.endian, "the last option").u64();
            }
            self.apply(id, body, cursor.endian);
        }
    }

    /// Takes one option in. One whose body is too short for it counts as unknown.
    fn apply(&mut self, id: OptionId, body: &[u8], endian: Endian) {
        let text = || String::from_utf8_lossy(until_nul(body)).into_owned();
        match id {
            // A difference to the time of day in microseconds.
            OptionId::DATE => self.add_offset(number(&text()).and_then(|us| us.checked_mul(1000))),
            OptionId::OFFSET => self.add_offset(number(&text())),
            OptionId::CPUSTAT => {
                cpustat::read(&text(), &mut self.cpustat_buffer, &mut self.cpustats);
            }
            OptionId::BUFFER => self.buffers.push(BufferOption(body.to_vec())),
            OptionId::BUFFER_TEXT => self.has_text = true,
            OptionId::TRACECLOCK => {
                self.has_clock = true;
                self.clock = selected_clock(&text()).or(self.clock.take());
            }
            OptionId::UNAME => self.uname = Some(text()),
            OptionId::VERSION => self.recorder = Some(text().trim().to_owned()),
            OptionId::CPUCOUNT => self.cpu_count = endian.u32_at(body, 0).filter(|&n| n > 0),
            OptionId::TSC2NSEC => {
                let pair = endian.u32_at(body, 0).zip(endian.u32_at(body, 4));
                // trace-cmd's reader takes a multiplier of 0 for "none", and leaves the third number alone.
                self.stamps.tsc = pair.filter(|&(mult, _)| mult != 0);
            }
            OptionId::TIME_SHIFT => {
                let mut cursor = Cursor::new(body, 0, endian, "the TIME_SHIFT option");
                self.stamps.sync = host_sync(&mut cursor).ok();
            }
            OptionId::HEADER_INFO
            | OptionId::FTRACE_EVENTS
            | OptionId::EVENT_FORMATS
            | OptionId::KALLSYMS
            | OptionId::PRINTK
            | OptionId::CMDLINES => {
                let place = endian.u64_at(body, 0);
                self.sections.extend(place.map(|place| (id, place)));
            }
            _ => {}
        }
    }

    fn add_offset(&mut self, offset: Option<i64>) {
        self.stamps.offset = self
            .stamps
            .offset
            .saturating_add(offset.unwrap_or_default());
    }

    /// Where the section of that id lies; the last option counts.
    pub fn section(&self, id: OptionId) -> Option<u64> {
        let found = self.sections.iter().rev().find(|(other, _)| *other == id);
        found.map(|&(_, offset)| offset)
    }
}

/// The clock in brackets, from the text of ftrace's `trace_clock` file.
pub(crate) fn selected_clock(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (name, _) = rest.split_once(']')?;
    Some(name.to_owned())
}

/// A whole number as C's `strtoll` with base 0 reads it: decimal, `0x` or octal, up to the first other character.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let (digits, base) = match hex {
        Some(rest) => (rest, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    let end = digits
        .find(|c: char| !c.is_digit(base))
        .unwrap_or(digits.len());
    let value = i128::from_str_radix(digits.get(..end)?, base).ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Session id, flags, number of CPUs; for each CPU its number of samples, then all times, all offsets, all
/// scalings; since trace-cmd 3.2 then for each CPU the fraction bits of its scalings.
fn host_sync(cursor: &mut Cursor<'_>) -> Result<HostSync, Damage> {
    cursor.u64()?;
    let interpolate = cursor.u32()? & 1 != 0;
    let mut cpus = Vec::new();
    for _ in 0..cursor.u32()? {
        cpus.push(samples(cursor)?);
    }
    for samples in &mut cpus {
        for sample in samples {
            match cursor.u64() {
                Ok(bits) => sample.fraction = u32::try_from(bits).unwrap_or(u32::MAX),
                Err(_) => break,
            }
        }
    }
    for samples in &mut cpus {
        samples.sort_by_key(|sample| sample.time);
        samples.dedup_by_key(|sample| sample.time);
    }
    Ok(HostSync { interpolate, cpus })
}

fn samples(cursor: &mut Cursor<'_>) -> Result<Vec<SyncSample>, Damage> {
    let count = cursor.u32()?;
    let mut samples = Vec::new();
    for _ in 0..count {
        samples.push(SyncSample {
            time: cursor.u64()?,
            offset: 0,
            scaling: 1,
            fraction: 0,
        });
    }
    for sample in &mut samples {
        sample.offset = cursor.u64()?.cast_signed();
    }
    for sample in &mut samples {
        sample.scaling = cursor.u64()?;
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        assert_eq!(number("-25"), Some(-25));
        assert_eq!(number(" 0x10\n"), Some(16));
        assert_eq!(number("010"), Some(8));
        assert_eq!(number("12ab"), Some(12));
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(number("99999999999999999999"), None);
        assert_eq!(number("x"), None);
    }

    #[test]
    fn unknown_and_stunted_options_are_skipped() {
        let list = [
            &[99, 0, 3, 0, 0, 0, 1, 2, 3][..],
            &[8, 0, 1, 0, 0, 0, 9],
            &[7, 0, 3, 0, 0, 0, b'-', b'5', 0],
            &[1, 0, 2, 0, 0, 0, b'2', 0],
            &[0, 0],
        ]
        .concat();
        let mut options = Options::default();
        let mut cursor = Cursor::new(&list, 0, Endian::Little, "x");
        options.read_list(&mut cursor).unwrap();
        assert_eq!(cursor.at(), list.len());
        assert_eq!(options.cpu_count, None);
        assert_eq!(options.stamps.offset, 1995);
    }

    #[test]
    fn sync_samples_are_sorted_and_claims_do_not_allocate() {
        let mut body = [
            [0; 8].as_slice(),
            &[1, 0, 0, 0],
            &[1, 0, 0, 0],
            &[2, 0, 0, 0],
        ]
        .concat();
        for value in [20_u64, 10, 200, 100, 1, 1, 3, 4] {
            body.extend(value.to_le_bytes());
        }
        let mut cursor = Cursor::new(&body, 0, Endian::Little, "x");
        let sync = host_sync(&mut cursor).unwrap();
        assert!(sync.interpolate);
        let told: Vec<_> = sync.cpus[0]
            .iter()
            .map(|s| (s.time, s.offset, s.fraction))
            .collect();
        assert_eq!(told, [(10, 100, 4), (20, 200, 3)]);
        body[12..20].fill(0xff);
        assert!(host_sync(&mut Cursor::new(&body, 0, Endian::Little, "x")).is_err());
    }
}
