//! CPU numbers that the machine cannot have: a damaged sample carries one, and a CPU that never was comes to be.
//!
//! `write_nrcpus` of `tools/perf/util/header.c` notes the largest number of a CPU that is present, plus one. Where the
//! file names larger ones in its topology or its ID_INDEX, these are the machine's too.

use rustc_hash::FxHashMap;

use crate::bytes::Endian;

use super::events::Events;
use super::features::Features;
use super::index::Index;
use super::stray::uncount;

/// Of the file's samples, a larger part than one in so many is no damage, whatever their CPUs.
const FEW: u64 = 32;

/// The number that all CPUs of the machine lie below; `None` if the file does not tell.
pub(super) fn of_features(features: &Features) -> Option<u32> {
    let present = features
        .nr_cpus
        .map(|nr| nr.available)
        .filter(|&nr| nr > 0)?;
    let topology = &features.topology;
    let cores = topology.core_siblings.iter();
    let lists = cores.chain(&topology.thread_siblings);
    let nodes = topology.nodes.iter().map(|node| &node.cpus);
    let named = lists.chain(nodes).filter_map(|list| largest(list)).max();
    Some(present.max(named.map_or(0, |cpu| cpu.saturating_add(1))))
}

/// The largest number in a list such as `0-3,8`.
fn largest(list: &str) -> Option<u32> {
    let numbers = list.split(|of: char| !of.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).max()
}

/// Leaves out the CPUs that the machine does not have, if few samples are theirs: told, and counted as lost somewhere.
pub(super) fn leave_out(
    index: &mut Index,
    bound: u32,
    data: &[u8],
    endian: Endian,
    events: &Events,
) -> u64 {
    let bound = bound.max(named_as_others(&index.id_cpus, bound));
    let beyond = |cpu: u32| cpu >= bound && cpu != u32::MAX;
    let bytes_of = |beyond: &dyn Fn(u32) -> bool| -> u64 {
        let cpus = index.cpus.iter().filter(|cpu| beyond(cpu.cpu));
        let runs = cpus.flat_map(|cpu| &cpu.runs);
        runs.map(|run| run.bytes() as u64).sum()
    };
    if bytes_of(&beyond).saturating_mul(FEW) > bytes_of(&|_| true) {
        return 0;
    }
    let Index {
        cpus,
        samples,
        run_bytes,
        faults,
        id_cpus,
        ..
    } = index;
    let named = id_cpus.len();
    id_cpus.retain(|_, cpu| !beyond(*cpu));
    let named = named - id_cpus.len();
    if named > 0 {
        faults.push(0, None, || {
            format!(
                "the list of event ids names CPUs that the machine does not have ({bound} CPUs) for {named} of them: taken for unknown"
            )
        });
    }
    let mut lost = 0_u64;
    cpus.retain(|cpu| {
        if !beyond(cpu.cpu) {
            return true;
        }
        let mut count = 0_u64;
        for run in &cpu.runs {
            count += uncount(run, data, endian, events, samples);
            *run_bytes = run_bytes.saturating_sub(run.bytes() as u64);
        }
        let at = cpu.runs.first().map_or(0, |run| run.start);
        faults.push(at as u64, Some(cpu.cpu), || describe(count, cpu.cpu, bound));
        lost = lost
            .saturating_add(count)
            .saturating_add(cpu.losses.by_lost());
        false
    });
    lost
}

/// One more than the largest CPU that ID_INDEX names as often as the others, or nearly: each event is on every CPU.
fn named_as_others(id_cpus: &FxHashMap<u64, u32>, bound: u32) -> u32 {
    let mut times: FxHashMap<u32, u64> = FxHashMap::default();
    for &cpu in id_cpus.values() {
        *times.entry(cpu).or_default() += 1;
    }
    let most = times.values().copied().max().unwrap_or(0);
    let often = times.iter().filter(|(_, times)| **times * 2 >= most);
    let largest = often.map(|(cpu, _)| cpu.saturating_add(1)).max();
    largest.unwrap_or(0).max(bound)
}

fn describe(count: u64, cpu: u32, bound: u32) -> String {
    let what = match count {
        0 => "a loss".to_owned(),
        1 => "1 sample".to_owned(),
        _ => format!("{count} samples"),
    };
    format!("{what} on CPU {cpu}, which the machine does not have ({bound} CPUs): left out")
}
