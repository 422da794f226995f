//! The header features that describe the machine's CPUs, caches, nodes and scheduler domains.
//!
//! Source: `perf.data-file-format.txt` for CPU_TOPOLOGY, NUMA_TOPOLOGY and CACHE; `write_cpu_topology` and
//! `write_cpu_domain_info` of `tools/perf/util/header.c` for what was added since.

use nom::IResult;
use nom::Parser;
use nom::multi::many0;
use nom::number::complete::{u32, u64};

use crate::bytes::Endian;
use crate::topology::{PerfCache, PerfDomain, PerfNode, PerfTopology};

use super::features::{string, string_list};

/// Why a feature cannot be read.
type FeatureError<'a> = nom::Err<nom::error::Error<&'a [u8]>>;

/// Names of scheduler domains are in CPU_DOMAIN_INFO from this version of `/proc/schedstat` on.
const NAMED_DOMAINS: u32 = 17;

/// CPU_TOPOLOGY: lists of the CPUs of each package and of each core; core and package of each CPU, since Linux 4.1;
/// lists of the CPUs of each die and the die of each CPU, since Linux 5.3.
///
/// The number of CPUs is NRCPUS' `available`, not in the feature itself. With die information the ids come in
/// two parts with the die list between: `(core, socket)` for each CPU, the list, then `die` for each CPU.
pub(super) fn cpu_topology<'a>(
    topology: &mut PerfTopology,
    data: &'a [u8],
    cpus: Option<u32>,
    endian: Endian,
) -> Result<(), FeatureError<'a>> {
    let (data, cores) = string_list(data, endian)?;
    let (mut data, threads) = string_list(data, endian)?;
    topology.core_siblings = cores;
    topology.thread_siblings = threads;
    topology.cpu_ids.clear();
    for _ in 0..cpus.unwrap_or(u32::MAX) {
        let Ok((rest, (core, socket))) =
            (u32(endian.nom()), u32(endian.nom())).parse(data) as IResult<&[u8], (u32, u32)>
        else {
            return Ok(());
        };
        topology
            .cpu_ids
            .push((core.cast_signed(), socket.cast_signed()));
        data = rest;
    }
    if let Ok((_, dies)) = string_list(data, endian) {
        topology.dies = dies;
    }
    Ok(())
}

/// NUMA_TOPOLOGY: per node its number, memory in total and free, and the list of its CPUs.
pub(super) fn nodes(data: &[u8], endian: Endian) -> Result<Vec<PerfNode>, FeatureError<'_>> {
    let node = (
        u32(endian.nom()),
        u64(endian.nom()),
        u64(endian.nom()),
        string(endian),
    )
        .map(|(node, _total, _free, cpus)| PerfNode { node, cpus });
    counted(data, endian, node)
}

/// CACHE: a version, then per cache its level, line size, sets, ways, type, size and CPU list.
pub(super) fn caches(data: &[u8], endian: Endian) -> Result<Vec<PerfCache>, FeatureError<'_>> {
    let (data, _version) = u32(endian.nom()).parse(data)?;
    let number = || u32(endian.nom());
    let shape = (number(), number(), number(), number());
    let texts = (string(endian), string(endian), string(endian));
    let cache = (shape, texts).map(|((level, ..), (kind, size, map))| PerfCache {
        level,
        kind,
        size,
        map,
    });
    counted(data, endian, cache)
}

/// A count and as many items, or as many as there are.
fn counted<'a, T>(
    data: &'a [u8],
    endian: Endian,
    item: impl Parser<&'a [u8], Output = T, Error = nom::error::Error<&'a [u8]>>,
) -> Result<Vec<T>, FeatureError<'a>> {
    let (data, count) = u32(endian.nom()).parse(data)?;
    let (_, mut items) = many0(item).parse(data)?;
    items.truncate(count as usize);
    Ok(items)
}

/// CPU_DOMAIN_INFO: the version of schedstat and the number of levels; then per online CPU its number, its number
/// of domains, and for each of them level, name (from version 17 on), CPU mask and CPU list.
pub(super) fn domains(data: &[u8], endian: Endian) -> Result<Vec<PerfDomain>, FeatureError<'_>> {
    let (mut data, (version, _levels)) = (u32(endian.nom()), u32(endian.nom())).parse(data)?;
    let mut domains = Vec::new();
    while !data.is_empty() {
        let (rest, (cpu, count)) = (u32(endian.nom()), u32(endian.nom())).parse(data)?;
        data = rest;
        for _ in 0..count {
            let (rest, domain) = domain(data, cpu, version, endian)?;
            domains.push(domain);
            data = rest;
        }
    }
    Ok(domains)
}

fn domain(data: &[u8], cpu: u32, version: u32, endian: Endian) -> IResult<&[u8], PerfDomain> {
    let (data, level) = u32(endian.nom()).parse(data)?;
    let (data, name) = if version >= NAMED_DOMAINS {
        string(endian).parse(data)?
    } else {
        (data, String::new())
    };
    let (data, (mask, list)) = (string(endian), string(endian)).parse(data)?;
    let cpus = if list.is_empty() { mask } else { list };
    Ok((
        data,
        PerfDomain {
            cpu,
            level,
            name,
            cpus,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds feature data in either byte order.
    struct Writer(Endian, Vec<u8>);

    impl Writer {
        fn u32(mut self, value: u32) -> Self {
            self.1.extend(match self.0 {
                Endian::Little => value.to_le_bytes(),
                Endian::Big => value.to_be_bytes(),
            });
            self
        }

        /// Padded to 64 bytes, as perf does.
        fn string(self, text: &str) -> Self {
            let mut writer = self.u32(64);
            let end = writer.1.len() + 64;
            writer.1.extend(text.as_bytes());
            writer.1.resize(end, 0);
            writer
        }
    }

    #[test]
    fn cpu_topology_with_and_without_dies() {
        for endian in [Endian::Little, Endian::Big] {
            let old = Writer(endian, Vec::new()).u32(1).string("0-3").u32(2);
            let old = old.string("0-1").string("2-3");
            let old = (0..4).fold(old, |w, cpu| w.u32(cpu / 2).u32(0));
            let mut topology = PerfTopology::default();
            cpu_topology(&mut topology, &old.1, Some(4), endian).unwrap();
            assert_eq!(topology.core_siblings, ["0-3"]);
            assert_eq!(topology.thread_siblings, ["0-1", "2-3"]);
            assert_eq!(topology.cpu_ids, [(0, 0), (0, 0), (1, 0), (1, 0)]);
            assert!(topology.dies.is_empty());
            let new = old.u32(2).string("0-1").string("2-3");
            let new = (0..4).fold(new, |w, cpu| w.u32(cpu / 2));
            cpu_topology(&mut topology, &new.1, Some(4), endian).unwrap();
            assert_eq!(topology.cpu_ids.len(), 4);
            assert_eq!(topology.dies, ["0-1", "2-3"]);
        }
    }

    #[test]
    fn scheduler_domains_with_and_without_names() {
        for endian in [Endian::Little, Endian::Big] {
            let named = Writer(endian, Vec::new()).u32(17).u32(2);
            let named = named.u32(3).u32(2);
            let named = named.u32(0).string("SMT").string("c").string("2-3");
            let named = named.u32(1).string("MC").string("f").string("0-3");
            let found = domains(&named.1, endian).unwrap();
            assert_eq!(found.len(), 2);
            assert_eq!((found[1].cpu, found[1].level), (3, 1));
            assert_eq!(
                (found[1].name.as_str(), found[1].cpus.as_str()),
                ("MC", "0-3")
            );
            let bare = Writer(endian, Vec::new()).u32(15).u32(1).u32(0).u32(1);
            let bare = bare.u32(0).string("3").string("0-1");
            let found = domains(&bare.1, endian).unwrap();
            assert_eq!(
                (found[0].name.as_str(), found[0].cpus.as_str()),
                ("", "0-1")
            );
        }
    }
}
