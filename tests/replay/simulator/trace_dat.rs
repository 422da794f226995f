//! A recording as trace-cmd writes it: trace.dat, version 6.

use super::bytes::Bytes;
use super::events::{Event, What};
use super::formats::{Format, encode};
use super::machine::Cpu;
use super::recording::{Recording, Stored, tracing_data};

const PAGE: usize = 4096;
const HEAD: usize = 16;
const MISSED: u64 = 1 << 31;
const COUNTED: u64 = 1 << 30;

pub fn trace_dat(recording: &Recording) -> Vec<u8> {
    let formats = recording.formats();
    let mut out = tracing_data(recording, &formats, "6");
    let machine = &recording.machine;
    let mut by_id: Vec<(u32, Cpu)> = (0..machine.cpus()).map(|c| (machine.ids[c], c)).collect();
    by_id.sort_unstable();
    out.u32(by_id.len());
    out.raw(b"options  \0");
    let clock = "local global counter uptime perf [mono] mono_raw boot";
    let uname = format!("Linux sim {} x86_64", recording.kernel.release);
    option(&mut out, 4, clock);
    option(&mut out, 5, &uname);
    for &(id, cpu) in &by_id {
        // What a page cannot tell would be a loss of its own.
        let overrun = recording.losses.iter().any(|loss| loss.cpu == cpu);
        option(
            &mut out,
            2,
            &format!(
                "CPU: {id}\nentries: 0\noverrun: {}\ncommit overrun: 0\nbytes: 0\ndropped events: 0\n",
                u8::from(overrun)
            ),
        );
    }
    out.u16(0).raw(b"flyrecord\0");
    let table = out.0.len();
    by_id.iter().for_each(|_| {
        out.u64(0).u64(0);
    });
    out.sized(clock);
    for (place, &(id, cpu)) in by_id.iter().enumerate() {
        out.pad(PAGE);
        let start = out.0.len();
        let mut stored = recording.of_cpu(cpu, &formats);
        if id == 0 {
            stored.splice(0..0, record_lines(recording, &formats));
        }
        pages(&mut out, &stored);
        out.set_u64(table + place * 16, start as u64);
        let size = out.0.len() - start;
        out.set_u64(table + place * 16 + 8, size as u64);
    }
    out.0
}

fn option(out: &mut Bytes, id: u16, text: &str) {
    out.u16(id).u32(text.len() + 1).text(text);
}

/// The machine record, written to the markers before anything happened.
fn record_lines(recording: &Recording, formats: &[Format]) -> Vec<Stored> {
    let start = recording.events.first().map_or(0, |event| event.ts);
    let topology = format!("ttwu topology {}", recording.machine.spec());
    let topology = recording.topology.then_some(&topology);
    let lines = topology.into_iter().chain(&recording.record);
    let stored = lines.enumerate().map(|(place, line)| {
        let event = Event {
            ts: start - 1_000_000 + place as i64,
            cpu: 0,
            pid: 1,
            tgid: 1,
            flags: 0,
            what: What::Marker(line.clone()),
        };
        let encoded = encode(&event, formats, recording.kernel, &recording.machine);
        let (format, record) = encoded.expect("markers always exist");
        Stored {
            ts: event.ts,
            pid: 1,
            tgid: 1,
            format,
            record,
            lost: None,
        }
    });
    stored.collect()
}

/// A page that is being filled.
struct Page {
    stamp: i64,
    last: i64,
    data: Vec<u8>,
    lost: Option<(u64, bool)>,
}

/// The ring buffer's pages: each has a stamp, its length, and records with the time since the one before.
fn pages(out: &mut Bytes, stored: &[Stored]) {
    let mut page: Option<Page> = None;
    for event in stored {
        // A stored count needs room behind the data.
        let full = |page: &Page| HEAD + page.data.len() + event.record.len() + 24 > PAGE;
        if let Some(done) = page.take_if(|page| full(page) || event.lost.is_some()) {
            put_page(out, &done);
        }
        let page = page.get_or_insert_with(|| Page {
            stamp: event.ts,
            last: event.ts,
            data: Vec::new(),
            lost: event.lost,
        });
        put_record(page, event);
    }
    if let Some(page) = page {
        put_page(out, &page);
    }
}

fn put_record(page: &mut Page, event: &Stored) {
    let mut delta = (event.ts - page.last) as u64;
    if delta >= 1 << 27 {
        let low = (delta & ((1 << 27) - 1)) as u32;
        page.data.extend((30 | low << 5).to_le_bytes());
        page.data.extend(((delta >> 27) as u32).to_le_bytes());
        delta = 0;
    }
    let words = event.record.len() / 4;
    let kind = if words <= 28 { words as u32 } else { 0 };
    page.data.extend((kind | (delta as u32) << 5).to_le_bytes());
    if kind == 0 {
        let length = event.record.len() as u32 + 4;
        page.data.extend(length.to_le_bytes());
    }
    page.data.extend(&event.record);
    page.last = event.ts;
}

fn put_page(out: &mut Bytes, page: &Page) {
    let start = out.0.len();
    let mut commit = page.data.len() as u64;
    if let Some((_, counted)) = page.lost {
        commit |= MISSED | if counted { COUNTED } else { 0 };
    }
    out.u64(page.stamp as u64).u64(commit).raw(&page.data);
    if let Some((count, true)) = page.lost {
        out.u64(count);
    }
    out.0.resize(start + PAGE, 0);
}
