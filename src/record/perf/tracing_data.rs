//! The TRACING_DATA feature: the formats of the recorded events, as trace.dat of version 6 begins.
//!
//! Source: `trace-cmd.dat.v6(5)`; perf writes version `0.6` of it, which has saved task names.

use crate::record::plan::Plan;
use crate::record::tracefs::Tracefs;
use crate::record::{RecordError, plan::PlannedEvent};

use super::super::buffers::page_size;

const MAGIC: &[u8] = b"\x17\x08\x44tracing0.6\0";

/// The whole feature.
///
/// # Errors
/// The header files of tracefs cannot be read. All else may be missing.
pub(super) fn tracing_data(plan: &Plan, tracefs: &Tracefs) -> Result<Vec<u8>, RecordError> {
    let mut data = MAGIC.to_vec();
    data.push(u8::from(cfg!(target_endian = "big")));
    data.push(size_of::<usize>() as u8);
    data.extend((page_size() as u32).to_ne_bytes());
    for name in ["header_page", "header_event"] {
        let file = format!("events/{name}");
        let text = tracefs
            .read(&file)
            .map_err(RecordError::file("read", &tracefs.path(&file)))?;
        data.extend(name.as_bytes());
        data.push(0);
        put_text(&mut data, &text);
    }
    // Of ftrace's own events none can be recorded by perf. To list them nevertheless would be no harm, but that perf's
    // parser complains about one of them.
    data.extend(0_u32.to_ne_bytes());
    put_events(&mut data, &plan.events);
    // Perf leaves the kernel's symbols out, too: it resolves addresses by itself.
    data.extend(0_u32.to_ne_bytes());
    let printk = tracefs.read("printk_formats").unwrap_or_default();
    data.extend((printk.len() as u32).to_ne_bytes());
    data.extend(&printk);
    let names = tracefs.read("saved_cmdlines").unwrap_or_default();
    put_text(&mut data, &names);
    Ok(data)
}

/// A text with its size, 64 bits, before it.
fn put_text(data: &mut Vec<u8>, text: &[u8]) {
    data.extend((text.len() as u64).to_ne_bytes());
    data.extend(text);
}

/// Number of texts, then each.
fn put_formats<T: AsRef<[u8]>>(data: &mut Vec<u8>, formats: &[T]) {
    data.extend((formats.len() as u32).to_ne_bytes());
    for format in formats {
        put_text(data, format.as_ref());
    }
}

/// Number of systems, then of each the name and formats.
fn put_events(data: &mut Vec<u8>, events: &[PlannedEvent]) {
    let mut systems: Vec<&str> = events.iter().map(|event| event.system.as_str()).collect();
    systems.sort_unstable();
    systems.dedup();
    data.extend((systems.len() as u32).to_ne_bytes());
    for system in systems {
        data.extend(system.as_bytes());
        data.push(0);
        let own = events.iter().filter(|event| event.system == system);
        let formats: Vec<_> = own.map(|event| &event.format).collect();
        put_formats(data, &formats);
    }
}
