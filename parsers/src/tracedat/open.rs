//! Opening a trace.dat: its metadata read, its buffer chosen, nothing of its events decoded.

use std::path::Path;

use super::DatTrace;
use super::buffers::{self, Buffer};
use super::clock::Stamps;
use super::cursor::{Cursor, Damage};
use super::header::{Header, HeaderError, Layout};
use super::journal;
use super::judge;
use super::options::{OptionId, Options};
use super::page::{Missed, PageHead, PageLayout};
use super::pages::NextPage;
use super::sections::Sections;
use super::texts::{Place, Texts};
use super::tracing_data::{self, HeaderPage, TracingData};
use crate::decode::Decoder;
use crate::error::OpenError;
use crate::event::escape;
use crate::fault::FaultLog;
use crate::format::EventFormat;
use crate::map::Bytes;
use crate::trace::{BufferInfo, OpenOptions, TraceMeta};

/// A file's metadata, whichever version it is.
struct Contents {
    header_page: Option<HeaderPage>,
    formats: Vec<EventFormat>,
    cmdlines: Vec<(i32, Vec<u8>)>,
    options: Options,
    buffers: Vec<Buffer>,
    notes: Vec<String>,
    texts: Texts,
    /// A recording of `ttwu record` that did not end.
    unfinished: bool,
}

/// Why a file cannot be opened, before its path is known.
enum Refusal {
    Damage(Damage),
    Unusable { what: String, hint: String },
}

impl From<Damage> for Refusal {
    fn from(damage: Damage) -> Self {
        Refusal::Damage(damage)
    }
}

impl From<HeaderError> for Refusal {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Damage(damage) => Refusal::Damage(damage),
            HeaderError::Unsupported(what) => unusable(
                what,
                "convert it with `trace-cmd convert --file-version 7 --compression zstd`",
            ),
        }
    }
}

fn unusable(what: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::Unusable {
        what: what.into(),
        hint: hint.into(),
    }
}

pub(super) fn open(bytes: Bytes, path: &Path, wanted: &OpenOptions) -> Result<DatTrace, OpenError> {
    let length = bytes.len();
    read(bytes, wanted).map_err(|refusal| match refusal {
        Refusal::Damage(Damage { what, offset }) if offset >= length => OpenError::Malformed {
            path: path.into(),
            what: format!("{what} (the file has only {length} bytes)"),
            offset: offset as u64,
            hint: "the file is cut short; was the recording or a copy interrupted?".into(),
        },
        Refusal::Damage(Damage { what, offset }) => OpenError::Malformed {
            path: path.into(),
            what,
            offset: offset as u64,
            hint: "the file is damaged; if `trace-cmd report` reads it, please report this".into(),
        },
        Refusal::Unusable { what, hint } => OpenError::Unusable {
            path: path.into(),
            what,
            hint,
        },
    })
}

fn read(bytes: Bytes, wanted: &OpenOptions) -> Result<DatTrace, Refusal> {
    let header = Header::parse(&bytes)?;
    let mut contents = match header.layout {
        Layout::Blocks => of_blocks(&bytes)?,
        Layout::Sections { codec, options } => {
            let file = Sections {
                file: &bytes,
                endian: header.preamble.endian,
                codec,
            };
            of_sections(&file, options)?
        }
    };
    let layout = PageLayout {
        endian: header.preamble.endian,
        header: contents.header_page.ok_or_else(|| {
            unusable(
                "it does not describe its ring-buffer pages",
                "record with trace-cmd 2.0 and Linux 2.6.31 or later",
            )
        })?,
    };
    let selected = choose(&contents.buffers, &bytes, wanted)?;
    let infos = infos(&contents.buffers, &bytes, selected);
    let Some(buffer) = contents.buffers.into_iter().nth(selected) else {
        return Err(unusable("it holds no buffer", "record it again"));
    };
    let stamps = std::mem::take(&mut contents.options.stamps);
    add_notes(&mut contents.notes, &buffer, &infos, &stamps, &bytes);
    contents
        .notes
        .extend(overwritten(&buffer, &contents.options));
    let mut decoder = Decoder::new(&contents.formats, layout.endian, layout.header.commit_size);
    let watch_error = wanted
        .watch
        .as_ref()
        .and_then(|watch| decoder.watch(&contents.formats, watch).err());
    let meta = TraceMeta {
        format: header.describe(),
        clock: stamps.clock(clock_name(&buffer)),
        kernel_release: contents.options.uname.as_deref().and_then(release),
        hostname: contents.options.uname.as_deref().and_then(hostname),
        arch: contents.options.uname.as_deref().and_then(machine),
        recorder: contents.options.recorder.clone(),
        cmdline: Vec::new(),
        cpus: buffer.cpus.iter().map(|area| area.cpu).collect(),
        complete_from_start: complete(
            &buffer,
            &contents.options,
            contents.unfinished,
            layout,
            &bytes,
        ),
        topology: None,
        system_wide: true,
        has_cpu: true,
        has_time: true,
        lost_unplaced: lost_unplaced(&buffer, &contents.options),
        task_names: contents.cmdlines,
        counters: Vec::new(),
        data_bytes: buffer.bytes(&bytes),
        buffers: infos,
        machine_record: Vec::new(),
        notes: contents.notes,
    };
    let believed = judge::believed(&buffer, &bytes, &layout, &stamps);
    Ok(DatTrace {
        meta,
        decoder,
        watch_error,
        buffer,
        layout,
        stamps,
        believed,
        recorder: contents.options.recorder,
        texts: contents.texts,
        bytes,
    })
}

/// Version 6 and earlier.
fn of_blocks(file: &[u8]) -> Result<Contents, Refusal> {
    let data: TracingData = tracing_data::parse_tracing_data(file)?;
    if let Some(damage) = data.damage {
        return Err(damage.into());
    }
    let mut options = Options::default();
    let mut cursor = Cursor::new(file, data.end, data.endian, "the number of CPUs");
    let cpus = cursor.u32()?;
    let top = buffers::top_of_blocks(&mut cursor, &mut options, cpus, data.page_size)?
        .ok_or_else(latency_text)?;
    let mut notes = Vec::new();
    let cpus = options.cpu_count.unwrap_or(cpus);
    let mut buffers = Vec::new();
    for option in &options.buffers {
        match buffers::instance_of_blocks(option, file, &top, cpus) {
            Ok(buffer) => buffers.push(buffer),
            Err(damage) => notes.push(damaged("An ftrace instance was left out", &damage)),
        }
    }
    buffers.insert(0, top);
    Ok(Contents {
        header_page: data.header_page,
        formats: data.formats,
        cmdlines: data.cmdlines,
        options,
        buffers,
        notes,
        texts: Texts {
            kallsyms: Place::Text(data.kallsyms),
            printk: Place::Text(data.printk),
        },
        unfinished: false,
    })
}

/// Version 7.
fn of_sections(file: &Sections<'_>, first: u64) -> Result<Contents, Refusal> {
    let (options, damage) = file.options(first)?;
    let mut contents = Contents {
        header_page: None,
        formats: Vec::new(),
        cmdlines: Vec::new(),
        options,
        buffers: Vec::new(),
        notes: Vec::new(),
        texts: Texts::default(),
        unfinished: false,
    };
    for option in &contents.options.buffers {
        match buffers::of_sections(option, file) {
            Ok(buffer) => contents.buffers.push(buffer),
            Err(damage) => contents
                .notes
                .push(damaged("A buffer was left out", &damage)),
        }
    }
    contents.texts = Texts::of_options(&contents.options, file.codec);
    contents.unfinished = journal::is_unfinished(contents.options.recorder.as_deref());
    if contents.unfinished {
        let extents = std::mem::take(&mut contents.buffers);
        contents.buffers = journal::join(extents, file.file);
        if contents
            .buffers
            .iter()
            .all(|buffer| buffer.bytes(file.file) == 0)
        {
            return Err(unusable(
                "nothing was recorded yet",
                "`ttwu record` was killed before its first events were written; record again",
            ));
        }
        contents.notes.push(
            "`ttwu record` was killed: the recording's last moments, and what comes at its end, are missing.".into(),
        );
    }
    if contents.buffers.is_empty() {
        // Without the table of data, the damage that hid it is the reason.
        return Err(match damage {
            Some(damage) => damage.into(),
            None if contents.options.has_text => latency_text(),
            None => unusable(
                "it holds no recorded data",
                "the recording was interrupted before trace-cmd wrote it; record again",
            ),
        });
    }
    contents
        .notes
        .extend(damage.map(|damage| damaged("Some options were left out", &damage)));
    read_sections(file, &mut contents)?;
    Ok(contents)
}

fn read_sections(file: &Sections<'_>, contents: &mut Contents) -> Result<(), Refusal> {
    let missing = || unusable("it describes no events", "record it again, as root");
    let options = &contents.options;
    let place = options.section(OptionId::HEADER_INFO).ok_or_else(missing)?;
    let content = file.content(place, OptionId::HEADER_INFO)?;
    let mut cursor = Cursor::new(&content, 0, file.endian, "");
    contents.header_page =
        tracing_data::read_header_info(&mut cursor).map_err(|damage| damage.inside(place))?;
    type Read = fn(&mut Cursor<'_>, &mut Vec<EventFormat>) -> Result<(), Damage>;
    let lists: [(OptionId, Read); 2] = [
        (OptionId::FTRACE_EVENTS, tracing_data::read_ftrace_formats),
        (OptionId::EVENT_FORMATS, tracing_data::read_event_formats),
    ];
    for (id, read) in lists {
        let Some(place) = options.section(id) else {
            continue;
        };
        let result = file.content(place, id).and_then(|content| {
            let mut cursor = Cursor::new(&content, 0, file.endian, "");
            read(&mut cursor, &mut contents.formats).map_err(|damage| damage.inside(place))
        });
        if let Err(damage) = result {
            contents
                .notes
                .push(damaged("Some event formats were left out", &damage));
        }
    }
    if contents.formats.is_empty() {
        return Err(missing());
    }
    if let Some(place) = options.section(OptionId::CMDLINES) {
        match task_names(file, place) {
            Ok(names) => contents.cmdlines = names,
            Err(damage) => contents
                .notes
                .push(damaged("The saved task names were left out", &damage)),
        }
    }
    Ok(())
}

fn task_names(file: &Sections<'_>, place: u64) -> Result<Vec<(i32, Vec<u8>)>, Damage> {
    let content = file.content(place, OptionId::CMDLINES)?;
    let mut cursor = Cursor::new(&content, 0, file.endian, "");
    let range = tracing_data::read_text64(&mut cursor, "the list of task names")
        .map_err(|damage| damage.inside(place))?;
    Ok(tracing_data::parse_cmdlines(
        content.get(range).unwrap_or_default(),
    ))
}

fn latency_text() -> Refusal {
    unusable(
        "it holds the text of a latency tracer instead of events",
        "record with `trace-cmd record -e sched`, without a latency tracer such as `-p wakeup`",
    )
}

fn damaged(lost: &str, damage: &Damage) -> String {
    format!("{lost}: {} (byte {}).", damage.what, damage.offset)
}

/// The index of the buffer to read: the named one, or else the one with the most data.
fn choose(buffers: &[Buffer], file: &[u8], wanted: &OpenOptions) -> Result<usize, Refusal> {
    let Some(name) = &wanted.instance else {
        // Of equals the first, which is the top buffer.
        let most = (0..buffers.len())
            .rev()
            .max_by_key(|&index| buffers.get(index).map_or(0, |buffer| buffer.bytes(file)));
        return Ok(most.unwrap_or(0));
    };
    let found = buffers.iter().position(|buffer| buffer.name == *name);
    found.ok_or_else(|| {
        let names: Vec<_> = buffers.iter().map(|buffer| called(&buffer.name)).collect();
        unusable(
            format!("it holds no buffer `{}`", escape(name.as_bytes())),
            format!("it holds {}", names.join(", ")),
        )
    })
}

/// A buffer's name for messages.
fn called(name: &str) -> String {
    match name {
        "" => "the top buffer (its name is empty)".to_owned(),
        name => format!("`{}`", escape(name.as_bytes())),
    }
}

fn infos(buffers: &[Buffer], file: &[u8], selected: usize) -> Vec<BufferInfo> {
    let info = |(index, buffer): (usize, &Buffer)| BufferInfo {
        name: buffer.name.clone(),
        clock: clock_name(buffer).to_owned(),
        bytes: buffer.bytes(file),
        selected: index == selected,
    };
    buffers.iter().enumerate().map(info).collect()
}

/// ftrace starts with the clock `local`, and old recorders saved none.
fn clock_name(buffer: &Buffer) -> &str {
    match buffer.clock.as_str() {
        "" => "local",
        name => name,
    }
}

fn add_notes(
    notes: &mut Vec<String>,
    buffer: &Buffer,
    infos: &[BufferInfo],
    stamps: &Stamps,
    file: &[u8],
) {
    for other in infos.iter().filter(|info| !info.selected && info.bytes > 0) {
        notes.push(format!(
            "{} holds {} bytes of other events, which were not read.",
            called(&other.name),
            other.bytes
        ));
    }
    if buffer.clock.is_empty() {
        notes.push("The file names no clock; ftrace's default, `local`, is assumed.".to_owned());
    }
    if stamps.sync.is_some() {
        notes.push(
            "A guest recorded this file; its stamps were carried to the host's clock by the file's TIME_SHIFT option."
                .to_owned(),
        );
    }
    let missing: u64 = buffer.cpus.iter().fold(0, |sum, area| {
        sum.saturating_add(buffer.missing(file, area))
    });
    if missing > 0 {
        notes.push(format!(
            "The file is cut short: {missing} bytes of event data are missing at its end."
        ));
    }
}

/// What the stats say of events that were overwritten before trace-cmd read them.
fn overwritten(buffer: &Buffer, options: &Options) -> Option<String> {
    let stats = options.cpustats.iter();
    let counts = stats
        .filter(|stat| stat.buffer == buffer.name)
        .filter_map(|stat| stat.overrun.filter(|&count| count > 0));
    let (cpus, events) = counts.fold((0_u32, 0_u64), |(cpus, sum), count| {
        (cpus.saturating_add(1), sum.saturating_add(count))
    });
    (cpus > 0).then(|| {
        format!(
            "The kernel overwrote {events} events in the buffers of {cpus} CPUs before trace-cmd read them; record with a larger buffer (`-b`)."
        )
    })
}

/// CPUs whose stats say that nothing was lost, and whose first page says the same. `ttwu record` always has the kernel
/// tell losses in the pages, so that without stats its first page is proof enough.
fn complete(
    buffer: &Buffer,
    options: &Options,
    unfinished: bool,
    layout: PageLayout,
    file: &[u8],
) -> Vec<u32> {
    let proven = |cpu: u32| {
        unfinished
            || options
                .cpustats
                .iter()
                .any(|stat| stat.cpu == cpu && stat.buffer == buffer.name && stat.lossless())
    };
    let starts_whole = |area: &buffers::Area| {
        let mut pages = buffer.pages(file, area);
        match pages.next(&mut FaultLog::default()) {
            NextPage::End { lost } => area.size == 0 && !lost,
            NextPage::Page { lost } => {
                let head = layout.head(pages.page());
                let whole =
                    |head: &PageHead| head.missed == Missed::Nothing && !layout.is_void(head);
                !lost && head.is_some_and(|head| whole(&head))
            }
        }
    };
    let cpus = buffer.cpus.iter();
    cpus.filter(|area| proven(area.cpu) && starts_whole(area))
        .map(|area| area.cpu)
        .collect()
}

/// Events that the kernel dropped because a buffer was full: unlike overwritten ones, no page tells of them.
fn lost_unplaced(buffer: &Buffer, options: &Options) -> u64 {
    let stats = options.cpustats.iter();
    stats
        .filter(|stat| stat.buffer == buffer.name)
        .fold(0, |sum, stat| sum.saturating_add(stat.unplaced()))
}

/// `uname` as trace-cmd writes it: system, host, release and machine, separated by spaces.
fn release(uname: &str) -> Option<String> {
    uname.split_whitespace().rev().nth(1).map(str::to_owned)
}

fn machine(uname: &str) -> Option<String> {
    uname.split_whitespace().next_back().map(str::to_owned)
}

fn hostname(uname: &str) -> Option<String> {
    let host = uname.split_whitespace().nth(1)?;
    (host != "(none)").then(|| host.to_owned())
}
