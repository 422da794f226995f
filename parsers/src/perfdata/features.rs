//! The header's features: what perf noted of the machine and of its own command.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`; the bits and layouts that it leaves out are those of
//! the `write_*` functions of `tools/perf/util/header.c`. A feature's length is its section's: what a newer perf
//! appended is ignored, and features that are not known are skipped.

use nom::IResult;
use nom::Parser;
use nom::bytes::complete::take;
use nom::multi::many0;
use nom::number::complete::{u32, u64};

use crate::bytes::{Endian, until_nul};
use crate::topology::PerfTopology;

use super::attr::SMALLEST_ATTR;
use super::machine;

/// A feature's number; others than these are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Feature(pub u32);

impl Feature {
    pub const TRACING_DATA: Self = Self(1);
    pub const HOSTNAME: Self = Self(3);
    pub const OSRELEASE: Self = Self(4);
    pub const VERSION: Self = Self(5);
    pub const ARCH: Self = Self(6);
    pub const NRCPUS: Self = Self(7);
    pub const CMDLINE: Self = Self(11);
    pub const EVENT_DESC: Self = Self(12);
    pub const CPU_TOPOLOGY: Self = Self(13);
    pub const NUMA_TOPOLOGY: Self = Self(14);
    pub const CACHE: Self = Self(20);
    pub const SAMPLE_TIME: Self = Self(21);
    pub const CLOCKID: Self = Self(23);
    pub const CLOCK_DATA: Self = Self(29);
    /// Linux 7.0 on.
    pub const CPU_DOMAIN_INFO: Self = Self(32);
    /// `ttwu record`'s own: the machine record, `docs/machine-record.md`.
    pub const MACHINE_RECORD: Self = Self(250);
}

/// Most of a machine record that is read, in bytes.
const MOST_MACHINE_RECORD: usize = 64 << 20;

/// What the features say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Features {
    pub hostname: Option<String>,
    pub osrelease: Option<String>,
    pub arch: Option<String>,
    /// perf's own version.
    pub version: Option<String>,
    pub nr_cpus: Option<NrCpus>,
    pub cmdline: Vec<String>,
    pub events: Vec<EventDesc>,
    pub topology: PerfTopology,
    /// The clock stamps are of, from CLOCK_DATA.
    pub clockid: Option<i32>,
    /// That clock's resolution in nanoseconds, from CLOCKID.
    pub clock_resolution_ns: Option<u64>,
    /// First and last sample's time.
    pub sample_time: Option<(u64, u64)>,
    /// The raw TRACING_DATA: event formats as trace.dat v6 has them.
    pub tracing_data: Option<Vec<u8>>,
    /// Lines of the machine record.
    pub machine_record: Vec<String>,
}

/// The NRCPUS feature. The document names the fields the other way round; `write_nrcpus` decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NrCpus {
    pub available: u32,
    pub online: u32,
}

/// One event of the EVENT_DESC feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventDesc {
    pub name: String,
    pub ids: Vec<u64>,
}

impl Features {
    /// Reads one feature. `false` if its content cannot be what its number says; then it is left out.
    pub fn add(&mut self, feature: Feature, data: &[u8], endian: Endian) -> bool {
        self.read(feature, data, endian).is_ok()
    }

    fn read<'a>(
        &mut self,
        feature: Feature,
        data: &'a [u8],
        endian: Endian,
    ) -> Result<(), nom::Err<nom::error::Error<&'a [u8]>>> {
        let number = || u32(endian.nom());
        let wide = || u64(endian.nom());
        match feature {
            Feature::TRACING_DATA => self.tracing_data = Some(data.to_vec()),
            Feature::HOSTNAME => self.hostname = Some(string(endian).parse(data)?.1),
            Feature::OSRELEASE => self.osrelease = Some(string(endian).parse(data)?.1),
            Feature::VERSION => self.version = Some(string(endian).parse(data)?.1),
            Feature::ARCH => self.arch = Some(string(endian).parse(data)?.1),
            Feature::NRCPUS => {
                let (_, (available, online)) = (number(), number()).parse(data)?;
                self.nr_cpus = Some(NrCpus { available, online });
            }
            Feature::CMDLINE => self.cmdline = string_list(data, endian)?.1,
            Feature::EVENT_DESC => self.events = event_descs(data, endian)?,
            Feature::CPU_TOPOLOGY => {
                let cpus = self.nr_cpus.map(|nr| nr.available);
                machine::cpu_topology(&mut self.topology, data, cpus, endian)?;
            }
            Feature::NUMA_TOPOLOGY => self.topology.nodes = machine::nodes(data, endian)?,
            Feature::CACHE => self.topology.caches = machine::caches(data, endian)?,
            Feature::CPU_DOMAIN_INFO => self.topology.domains = machine::domains(data, endian)?,
            Feature::SAMPLE_TIME => self.sample_time = Some((wide(), wide()).parse(data)?.1),
            Feature::CLOCKID => self.clock_resolution_ns = Some(wide().parse(data)?.1),
            Feature::CLOCK_DATA => {
                let (_, (_version, clockid)) = (number(), number()).parse(data)?;
                self.clockid = Some(clockid.cast_signed());
            }
            Feature::MACHINE_RECORD => self.machine_record = lines(data),
            _ => {}
        }
        Ok(())
    }
}

/// The lines of a text.
fn lines(text: &[u8]) -> Vec<String> {
    let text = text.get(..MOST_MACHINE_RECORD).unwrap_or(text);
    text.split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

/// `struct perf_header_string`: a length, and text that a NUL ends within it.
pub(super) fn string<'a>(
    endian: Endian,
) -> impl Parser<&'a [u8], Output = String, Error = nom::error::Error<&'a [u8]>> {
    u32(endian.nom())
        .flat_map(take)
        .map(|raw: &[u8]| String::from_utf8_lossy(until_nul(raw)).into_owned())
}

/// `struct perf_header_string_list`. The count only says when to stop: nothing is allocated from it.
pub(super) fn string_list(data: &[u8], endian: Endian) -> IResult<&[u8], Vec<String>> {
    let (mut data, count) = u32(endian.nom()).parse(data)?;
    let mut strings = Vec::new();
    for _ in 0..count {
        let (rest, string) = string(endian).parse(data)?;
        strings.push(string);
        data = rest;
    }
    Ok((data, strings))
}

/// `u32 nr, u32 attr_size`, and for each event its attr, the number of its ids, its name, its ids.
fn event_descs(
    data: &[u8],
    endian: Endian,
) -> Result<Vec<EventDesc>, nom::Err<nom::error::Error<&[u8]>>> {
    let (rest, (_count, attr_size)) = (u32(endian.nom()), u32(endian.nom())).parse(data)?;
    if (attr_size as usize) < SMALLEST_ATTR {
        return Ok(Vec::new());
    }
    let (_, events) = many0(|input| event_desc(input, attr_size, endian)).parse(rest)?;
    Ok(events)
}

fn event_desc(data: &[u8], attr_size: u32, endian: Endian) -> IResult<&[u8], EventDesc> {
    let (data, _attr) = take(attr_size).parse(data)?;
    let (data, count) = u32(endian.nom()).parse(data)?;
    let (mut data, name) = string(endian).parse(data)?;
    let mut ids = Vec::new();
    for _ in 0..count {
        let (rest, id) = u64(endian.nom()).parse(data)?;
        ids.push(id);
        data = rest;
    }
    Ok((data, EventDesc { name, ids }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, padded: usize) -> Vec<u8> {
        let mut bytes = (padded as u32).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(4 + padded, 0);
        bytes
    }

    #[test]
    fn strings_end_at_their_nul_and_lists_at_their_count() {
        let mut features = Features::default();
        assert!(features.add(Feature::HOSTNAME, &text("box", 64), Endian::Little));
        assert_eq!(features.hostname.as_deref(), Some("box"));
        let list = [
            2_u32.to_le_bytes().to_vec(),
            text("perf", 64),
            text("record", 64),
            b"more".to_vec(),
        ];
        assert!(features.add(Feature::CMDLINE, &list.concat(), Endian::Little));
        assert_eq!(features.cmdline, ["perf", "record"]);
    }

    #[test]
    fn claimed_counts_and_lengths_only_fail() {
        let mut features = Features::default();
        for feature in 0..40 {
            for data in [&[0xff; 64][..], &[0xff; 3], &[0; 8], &[]] {
                features.add(Feature(feature), data, Endian::Little);
                features.add(Feature(feature), data, Endian::Big);
            }
        }
        assert_eq!(features.hostname.unwrap_or_default(), "");
        assert_eq!(features.cmdline, Vec::<String>::new());
    }

    #[test]
    fn the_machine_record_is_lines_of_whatever_bytes() {
        let mut features = Features::default();
        let text = b"ttwu machine hz 250\n\nttwu \xff\n";
        assert!(features.add(Feature::MACHINE_RECORD, text, Endian::Little));
        assert_eq!(
            features.machine_record,
            ["ttwu machine hz 250", "ttwu \u{fffd}"]
        );
    }

    #[test]
    fn events_are_named_with_their_ids() {
        let mut data = [1_u32.to_le_bytes(), 136_u32.to_le_bytes()].concat();
        data.extend([0; 136]);
        data.extend(2_u32.to_le_bytes());
        data.extend(text("sched:sched_switch", 64));
        data.extend([7_u64.to_le_bytes(), 8_u64.to_le_bytes()].concat());
        let mut features = Features::default();
        assert!(features.add(Feature::EVENT_DESC, &data, Endian::Little));
        assert_eq!(
            features.events,
            [EventDesc {
                name: "sched:sched_switch".into(),
                ids: vec![7, 8]
            }]
        );
    }
}
