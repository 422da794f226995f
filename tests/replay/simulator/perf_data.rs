//! A recording as `perf record -a` writes it: perf.data, with the machine in its header.

use super::bytes::Bytes;
use super::events::What;
use super::machine::{Machine, cpu_list};
use super::recording::{Recording, Stored, tracing_data};

const HEADER: usize = 104;
/// A size that every perf since 3.12 writes at least.
const ATTR: usize = 112;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CPU: u64 = 1 << 7;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// So many events are flushed at a time, CPU after CPU.
const ROUND: usize = 64;

pub fn perf_data(recording: &Recording) -> Vec<u8> {
    let formats = recording.formats();
    let mut out = Bytes::default();
    out.0.resize(HEADER, 0);
    let ids = out.0.len();
    for place in 0..formats.len() {
        out.u64(identifier(place));
    }
    let attrs = out.0.len();
    for (place, format) in formats.iter().enumerate() {
        attr(&mut out, u64::from(format.id));
        out.u64((ids + place * 8) as u64).u64(8);
    }
    let data = out.0.len();
    names(&mut out, recording);
    samples(&mut out, recording);
    let end = out.0.len();
    let features = features(recording);
    let table = out.0.len();
    features.iter().for_each(|_| {
        out.u64(0).u64(0);
    });
    for (place, (_, content)) in features.iter().enumerate() {
        let start = out.0.len() as u64;
        out.set_u64(table + place * 16, start);
        out.set_u64(table + place * 16 + 8, content.0.len() as u64);
        out.raw(&content.0);
    }
    out.0[..8].copy_from_slice(b"PERFILE2");
    out.set_u64(8, HEADER as u64);
    out.set_u64(16, ATTR as u64 + 16);
    out.set_u64(24, attrs as u64);
    out.set_u64(32, (data - attrs) as u64);
    out.set_u64(40, data as u64);
    out.set_u64(48, (end - data) as u64);
    for (bit, _) in &features {
        out.0[72 + bit / 8] |= 1 << (bit % 8);
    }
    out.0
}

fn identifier(format: usize) -> u64 {
    1000 + format as u64
}

fn attr(out: &mut Bytes, config: u64) {
    let start = out.0.len();
    out.u32(2).u32(ATTR).u64(config).u64(1);
    out.u64(TID | TIME | CPU | RAW | IDENTIFIER).u64(0);
    // sample_id_all.
    out.u64(1 << 18);
    out.0.resize(start + ATTR, 0);
}

/// Type, misc and size, then the content.
fn record(out: &mut Bytes, kind: usize, content: &Bytes) {
    out.u32(kind).u16(0).u16(8 + content.0.len() as u16);
    out.raw(&content.0);
}

/// What every record but a sample ends with.
fn trailer(content: &mut Bytes, (pid, tid): (i32, i32), ts: i64, cpu: u32) {
    content.u32(pid as usize).u32(tid as usize).u64(ts as u64);
    content.u64(u64::from(cpu)).u64(identifier(0));
}

/// The names of the tasks that there were already.
fn names(out: &mut Bytes, recording: &Recording) {
    for (pid, tgid, name) in &recording.tasks {
        let mut content = Bytes::default();
        content.u32(*tgid as usize).u32(*pid as usize);
        content.text(name).pad(8);
        trailer(&mut content, (*tgid, *pid), 0, 0);
        record(out, 3, &content);
    }
}

fn samples(out: &mut Bytes, recording: &Recording) {
    let formats = recording.formats();
    let machine = &recording.machine;
    let mut rings: Vec<(u32, std::vec::IntoIter<Stored>)> = (0..machine.cpus())
        .map(|cpu| {
            (
                machine.ids[cpu],
                recording.of_cpu(cpu, &formats).into_iter(),
            )
        })
        .collect();
    // Each round holds what happened up to some event of the whole recording.
    for round in recording.events.chunks(ROUND) {
        let until = round.last().map_or(i64::MAX, |event| event.ts);
        for (id, ring) in &mut rings {
            while ring.as_slice().first().is_some_and(|next| next.ts <= until) {
                if let Some(stored) = ring.next() {
                    sample(out, *id, &stored);
                }
            }
        }
        forks(out, recording, round);
        record(out, 68, &Bytes::default());
    }
}

/// perf's own records of tasks that began.
fn forks(out: &mut Bytes, recording: &Recording, round: &[super::events::Event]) {
    for event in round {
        let What::Fork { parent, child } = &event.what else {
            continue;
        };
        let mut content = Bytes::default();
        for pid in [child.pid, parent.pid, child.pid, parent.pid] {
            content.u32(pid as usize);
        }
        content.u64(event.ts as u64);
        let cpu = recording.machine.ids[event.cpu];
        trailer(&mut content, (parent.pid, parent.pid), event.ts, cpu);
        record(out, 7, &content);
    }
}

fn sample(out: &mut Bytes, cpu: u32, stored: &Stored) {
    if let Some((count, _)) = stored.lost {
        let mut content = Bytes::default();
        content.u64(identifier(stored.format)).u64(count);
        trailer(&mut content, (stored.tgid, stored.pid), stored.ts, cpu);
        record(out, 2, &content);
    }
    let mut content = Bytes::default();
    content.u64(identifier(stored.format));
    content.u32(stored.tgid as usize).u32(stored.pid as usize);
    content.u64(stored.ts as u64).u64(u64::from(cpu));
    // The raw data with its size in front is whole in eights.
    let size = (stored.record.len() + 4).next_multiple_of(8) - 4;
    content.u32(size).raw(&stored.record).pad(8);
    record(out, 9, &content);
}

/// The header's features, by bit.
fn features(recording: &Recording) -> Vec<(usize, Bytes)> {
    let machine = &recording.machine;
    let formats = recording.formats();
    let mut features = vec![(1, tracing_data(recording, &formats, "0.6"))];
    for (bit, text) in [(3, "sim"), (4, recording.kernel.release)] {
        let mut content = Bytes::default();
        string(&mut content, text);
        features.push((bit, content));
    }
    let mut content = Bytes::default();
    content.u32(machine.cpus()).u32(machine.cpus());
    features.push((7, content));
    let mut content = Bytes::default();
    content.u32(3);
    for word in ["perf", "record", "-a"] {
        string(&mut content, word);
    }
    features.push((11, content));
    features.push((13, cpu_topology(machine)));
    features.push((14, numa(machine)));
    features.push((20, caches(machine)));
    if !recording.record.is_empty() {
        let mut content = Bytes::default();
        content.raw(recording.record.join("\n").as_bytes());
        features.push((250, content));
    }
    features
}

/// Length and text, padded.
fn string(out: &mut Bytes, text: &str) {
    let padded = (text.len() + 1).next_multiple_of(64);
    let end = out.0.len() + 4 + padded;
    out.u32(padded).raw(text.as_bytes());
    out.0.resize(end, 0);
}

fn cpu_topology(machine: &Machine) -> Bytes {
    let mut out = Bytes::default();
    for groups in [machine.groups(Machine::node), machine.groups(Machine::core)] {
        out.u32(groups.len());
        groups
            .iter()
            .for_each(|list| string(&mut out, &cpu_list(list)));
    }
    let mut by_id: Vec<(u32, usize)> = (0..machine.cpus()).map(|c| (machine.ids[c], c)).collect();
    by_id.sort_unstable();
    for (_, cpu) in by_id {
        out.u32(machine.core(cpu)).u32(machine.node(cpu));
    }
    out
}

fn numa(machine: &Machine) -> Bytes {
    let mut out = Bytes::default();
    let nodes = machine.groups(Machine::node);
    out.u32(nodes.len());
    for (node, list) in nodes.iter().enumerate() {
        out.u32(node).u64(1 << 24).u64(1 << 20);
        string(&mut out, &cpu_list(list));
    }
    out
}

fn caches(machine: &Machine) -> Bytes {
    let mut out = Bytes::default();
    let levels = [
        (2, machine.groups(Machine::l2)),
        (3, machine.groups(Machine::llc)),
    ];
    out.u32(1);
    out.u32(levels.iter().map(|(_, groups)| groups.len()).sum());
    for (level, groups) in levels {
        for list in groups {
            out.u32(level).u32(64).u32(1024).u32(16);
            string(&mut out, "Unified");
            string(&mut out, "1024K");
            string(&mut out, &cpu_list(&list));
        }
    }
    out
}
