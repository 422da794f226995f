//! What an open file says of itself, in the terms all formats share.

use crate::trace::{Clock, TraceMeta};

use super::events::Events;
use super::features::Features;
use super::index::Index;
use super::sample::SampleLayout;

/// How the file was written, for `TraceMeta::format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Container {
    pub pipe: bool,
    pub compressed: bool,
    pub big_endian: bool,
    /// The recorder did not end properly.
    pub unfinished: bool,
    /// The file ends before its header says that it does.
    pub cut: bool,
    /// The features behind the data are missing, and those in front of it are used.
    pub early: bool,
}

impl Container {
    fn describe(self) -> String {
        let mut text = "perf.data".to_owned();
        for (holds, word) in [
            (self.pipe, " pipe"),
            (self.compressed, " zstd"),
            (self.big_endian, " big-endian"),
        ] {
            if holds {
                text.push_str(word);
            }
        }
        text
    }
}

/// Fills in the metadata.
pub(super) fn describe(
    container: Container,
    events: &Events,
    features: &mut Features,
    index: &mut Index,
) -> TraceMeta {
    let has = |test: fn(&SampleLayout) -> bool| sampled(events, index).all(test);
    let (has_cpu, has_time) = (has(SampleLayout::has_cpu), has(SampleLayout::has_time));
    let system_wide = system_wide(events, features, index, has_cpu);
    let cpus = cpus(index, system_wide);
    let complete = complete_from_start(&cpus, events, index);
    TraceMeta {
        format: container.describe(),
        clock: clock(events, features),
        kernel_release: features.osrelease.take(),
        hostname: features.hostname.take(),
        arch: features.arch.take(),
        recorder: features.version.take(),
        cmdline: std::mem::take(&mut features.cmdline),
        cpus,
        complete_from_start: complete,
        topology: topology(features),
        system_wide,
        has_cpu,
        has_time,
        lost_unplaced: index.lost_unplaced,
        task_names: std::mem::take(&mut index.task_names),
        counters: Vec::new(),
        buffers: Vec::new(),
        data_bytes: index.run_bytes,
        machine_record: std::mem::take(&mut features.machine_record),
        notes: notes(container, index, system_wide, has_cpu, has_time),
    }
}

/// The layouts of the events that have samples; of all events if none has.
fn sampled<'a>(events: &'a Events, index: &'a Index) -> impl Iterator<Item = &'a SampleLayout> {
    let none = index.samples.iter().all(|&count| count == 0);
    (0_u16..)
        .zip(&index.samples)
        .filter(move |(_, count)| none || **count > 0)
        .filter_map(|(event, _)| events.layout(event))
}

/// The clock of `perf record -k`, or else perf's own, which is the scheduler's clock and comparable between CPUs.
fn clock(events: &Events, features: &Features) -> Clock {
    let chosen = events
        .attrs
        .iter()
        .find_map(|attr| attr.clockid())
        .or(features.clockid);
    // CLOCK_* of include/uapi/linux/time.h that perf_event_set_clock allows.
    let name = match chosen {
        None => "perf".to_owned(),
        Some(0) => "realtime".to_owned(),
        Some(1) => "monotonic".to_owned(),
        Some(4) => "monotonic_raw".to_owned(),
        Some(7) => "boottime".to_owned(),
        Some(11) => "tai".to_owned(),
        Some(other) => format!("clock {other}"),
    };
    Clock {
        name,
        nanoseconds: true,
        global: true,
    }
}

/// Whether whole CPUs were recorded, from the surest source that the file has:
/// 1. THREAD_MAP (perf 4.4 on): its only entry is -1 where perf followed no thread.
/// 2. ID_INDEX: events that follow a CPU have thread -1. `perf record -a` writes it since perf 6.0.
/// 3. An event enabled on exec followed the command that perf started.
/// 4. perf's command line: `-a` or `-C`; `perf sched record` always means `-a`.
///
/// Other writers give none of these; they are taken at their samples: with a CPU, they are of CPUs.
fn system_wide(events: &Events, features: &Features, index: &Index, has_cpu: bool) -> bool {
    if !has_cpu {
        return false;
    }
    if let Some(known) = index.all_threads.or(index.ids_without_thread) {
        return known;
    }
    if events.attrs.iter().any(|attr| attr.enable_on_exec()) {
        return false;
    }
    command_is_system_wide(&features.cmdline).unwrap_or(true)
}

/// Whether the command asks for CPUs; `None` if it is no `perf record`.
fn command_is_system_wide(cmdline: &[String]) -> Option<bool> {
    let mut words = cmdline.iter().skip(1).map(String::as_str);
    match words.next()? {
        "sched" | "kmem" | "lock" | "timechart" => return Some(true),
        "record" => {}
        _ => return None,
    }
    let options = words.take_while(|&word| word != "--");
    Some(options.into_iter().any(|word| {
        let bundled = word.starts_with('-') && !word.starts_with("--");
        ["--all-cpus", "--cpu"].contains(&word)
            || word.starts_with("--cpu=")
            || bundled && (word.starts_with("-C") || word.trim_start_matches('-').starts_with('a'))
    }))
}

/// CPUs with a ring of their own: those that ID_INDEX names, and those seen.
fn cpus(index: &Index, system_wide: bool) -> Vec<u32> {
    let seen = index.cpus.iter().map(|cpu| cpu.cpu);
    let named = index.id_cpus.values().copied();
    let mut cpus: Vec<_> = seen
        .chain(named.filter(|_| system_wide))
        .filter(|&cpu| cpu != u32::MAX)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Perf's rings do not overwrite: what does not fit is dropped and told. So a CPU is complete from the start unless
/// the first it tells is a loss, or its ring was written backwards (`perf record --overwrite`).
fn complete_from_start(cpus: &[u32], events: &Events, index: &Index) -> Vec<u32> {
    if events.attrs.iter().any(|attr| attr.write_backward()) {
        return Vec::new();
    }
    let lossy = |cpu: &u32| {
        index.cpus.iter().any(|known| {
            known.cpu == *cpu
                && (known.starts_lossy
                    || known.first_ts.is_none() && !known.losses.losses.is_empty())
        })
    };
    cpus.iter().copied().filter(|cpu| !lossy(cpu)).collect()
}

/// The topology features; `None` if there is none of them.
fn topology(features: &mut Features) -> Option<crate::topology::PerfTopology> {
    let topology = std::mem::take(&mut features.topology);
    (topology != crate::topology::PerfTopology::default()).then_some(topology)
}

fn notes(
    container: Container,
    index: &Index,
    system_wide: bool,
    has_cpu: bool,
    has_time: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |holds: bool, text: String| {
        if holds {
            notes.push(text);
        }
    };
    let mut partial = |holds: bool, text: &str| note(container.early && holds, text.into());
    partial(
        container.cut,
        "The file is cut off: it was read to its last whole record. The events after that are missing, and what the recorder noted at the end; copy the file again in full.",
    );
    partial(
        container.unfinished && !container.cut,
        "The recording was killed before it ended: the file was read to its last whole record. Its last moments are missing, and what the recorder would have noted at the end.",
    );
    partial(
        !container.unfinished && !container.cut,
        "The recorder was killed while it completed the file: all events are there, but not what it would have noted at the end.",
    );
    note(
        container.unfinished && !container.early,
        "`perf record` did not end properly: the file was read to its end, and says nothing of the machine.".into(),
    );
    note(
        !has_time,
        "Samples carry no time: record with `--timestamp`.".into(),
    );
    note(
        !has_cpu,
        "Samples carry no CPU: record with `-a`, or with `--sample-cpu`.".into(),
    );
    note(
        has_cpu && !system_wide,
        "perf followed single tasks, not CPUs: what else ran on a CPU is not in the file. Record with `-a`.".into(),
    );
    note(
        index.throttled > 0,
        format!(
            "The kernel throttled events that came too fast {} times; their samples are missing meanwhile.",
            index.throttled
        ),
    );
    note(
        index.filtered > 0,
        format!(
            "{} samples were rejected by the recording's own filter.",
            index.filtered
        ),
    );
    note(
        index.hardware_lost > 0,
        format!(
            "The processor dropped {} hardware samples; tracepoints are not concerned.",
            index.hardware_lost
        ),
    );
    note(
        index.unknown > 0,
        format!(
            "{} samples belong to no event that the file describes and were left out.",
            index.unknown
        ),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_tells_whether_cpus_were_recorded() {
        for (line, expected) in [
            ("perf record -a -e sched:* -- ls -a", Some(true)),
            ("perf record -e sched:* -- ls -a", Some(false)),
            ("/usr/bin/perf record -ag sleep", Some(true)),
            ("perf record -C 0-3 sleep 1", Some(true)),
            ("perf record --all-cpus sleep 1", Some(true)),
            ("perf record --cpu=2 sleep 1", Some(true)),
            ("perf sched record sleep 1", Some(true)),
            ("perf trace record ls", None),
            ("simpleperf", None),
        ] {
            assert_eq!(command_is_system_wide(&words(line)), expected, "{line}");
        }
    }
}
