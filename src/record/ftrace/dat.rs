//! Writes trace.dat files, versions 6 and 7.
//!
//! Sources: `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`. Everything that describes the events is written before them,
//! so that a file that was cut off can be read up to there.

use super::super::RecordError;
use super::super::plan::PlannedEvent;
use super::super::tracefs::Tracefs;

/// What every trace.dat starts with.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The ids of version 7's sections and of the options that point to them, and of the other options.
mod id {
    pub const OPTIONS: u16 = 0;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const STRINGS: u16 = 15;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
}

/// Flag of a section whose content is compressed.
const COMPRESSED: u16 = 1;

/// What the `VERSION` option of a file says that is still being recorded, behind the program's name and version.
pub const UNFINISHED: &str = "unfinished";

/// What a file says beside its events.
#[derive(Debug, Clone, Default)]
pub struct Description {
    /// tracefs `events/header_page` and `events/header_event`.
    pub header_page: Vec<u8>,
    pub header_event: Vec<u8>,
    /// tracefs `events/ftrace/*/format`.
    pub ftrace: Vec<Vec<u8>>,
    /// The formats of the events by system.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// `/proc/kallsyms`.
    pub kallsyms: Vec<u8>,
    pub printk_formats: Vec<u8>,
    /// Lines of a pid and a task's name.
    pub cmdlines: Vec<u8>,
    /// tracefs `trace_clock`, the clock in use in brackets.
    pub clocks: String,
    pub clock: String,
    /// System, host, release and machine.
    pub uname: String,
    /// This program's name and version.
    pub writer: String,
    /// Bytes of a ring-buffer page.
    pub page_size: u32,
    /// The highest CPU's number, plus 1.
    pub cpu_count: u32,
    /// `per_cpu/cpuN/stats` by CPU.
    pub stats: Vec<(u32, String)>,
}

impl Description {
    /// Reads what tracefs tells of the events to be recorded.
    pub fn read(tracefs: &Tracefs, events: &[PlannedEvent]) -> Result<Self, RecordError> {
        let read = |file: &str| {
            tracefs
                .read(file)
                .map_err(RecordError::file("read", &tracefs.path(file)))
        };
        let header_page = read("events/header_page")?;
        let mut systems: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
        for event in events {
            let format = event.format.clone();
            match systems
                .iter_mut()
                .find(|(system, _)| *system == event.system)
            {
                Some((_, formats)) => formats.push(format),
                None => systems.push((event.system.clone(), vec![format])),
            }
        }
        Ok(Self {
            page_size: page_size(&header_page),
            header_page,
            header_event: read("events/header_event")?,
            ftrace: ftrace_formats(tracefs),
            systems,
            // Only with trace_printk in the kernel or a module there is any.
            printk_formats: tracefs.read("printk_formats").unwrap_or_default(),
            writer: format!("ttwu {}", env!("CARGO_PKG_VERSION")),
            uname: uname(),
            ..Self::default()
        })
    }
}

/// The formats of the events that are ftrace's own, of which `print` is recorded.
fn ftrace_formats(tracefs: &Tracefs) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(tracefs.path("events/ftrace")) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let formats = paths.iter().map(|path| std::fs::read(path.join("format")));
    formats.filter_map(Result::ok).collect()
}

/// Where the last field of a page's head, its data, ends.
fn page_size(header_page: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(header_page);
    let number = |line: &str, key: &str| {
        let rest = line.split_once(key)?.1;
        rest.split(';').next()?.trim().parse::<u32>().ok()
    };
    let data = text.lines().find(|line| line.contains("char data;"));
    let end = data.and_then(|line| Some(number(line, "offset:")? + number(line, "size:")?));
    end.unwrap_or(4096)
}

fn uname() -> String {
    match nix::sys::utsname::uname() {
        Ok(name) => [
            name.sysname(),
            name.nodename(),
            name.release(),
            name.machine(),
        ]
        .map(|part| part.to_string_lossy().into_owned())
        .join(" "),
        Err(_) => String::new(),
    }
}

/// How sections and events are compressed.
pub type Level = Option<i32>;

/// Compresses one piece, for itself.
pub fn compress(data: &[u8], level: i32) -> Result<Vec<u8>, RecordError> {
    zstd::bulk::compress(data, level).map_err(RecordError::system("zstd cannot compress"))
}

/// Everything of a file of version 7 that stands before its events.
#[derive(Debug)]
pub struct Head {
    pub bytes: Vec<u8>,
    /// Where the places and sizes of the CPUs' data are to be put, 12 + 8 + 8 bytes each… see [`Head::place`].
    table: usize,
    /// Where the events' section has its size.
    section_size: usize,
}

/// Bytes of one CPU's entry in a BUFFER option: its number, place and size.
const ENTRY: usize = 4 + 8 + 8;

impl Head {
    /// For a finished file, whose events follow. Their places are not known yet.
    pub fn finished(
        description: &Description,
        cpus: &[u32],
        level: Level,
    ) -> Result<Self, RecordError> {
        let mut sections = Sections::start(level.is_some());
        describe(&mut sections, description, level)?;
        let buffer = sections.options.len();
        sections.option(id::BUFFER, &buffer_option(description, 0, cpus, |_| (0, 0)));
        let options_at = sections.close(0);
        // Id and size of the option, then what comes before the table.
        let table =
            options_at + SECTION_HEAD + buffer + 6 + 8 + 1 + description.clock.len() + 1 + 4 + 4;
        let mut bytes = sections.bytes;
        let section = bytes.len();
        section_head(
            &mut bytes,
            id::BUFFER,
            level.is_some(),
            sections.strings.flyrecord,
            0,
        );
        if level.is_none() {
            let page = description.page_size as usize;
            bytes.resize(bytes.len().next_multiple_of(page), 0);
        }
        let option = options_at + SECTION_HEAD + buffer + 6;
        put(&mut bytes, option, &(section as u64).to_le_bytes());
        Ok(Self {
            bytes,
            table,
            section_size: section + 8,
        })
    }

    /// Notes where the data of the CPU with that index in the list lies. trace-cmd leaves the number of chunks out of
    /// the size.
    pub fn place(&mut self, index: usize, offset: u64, size: u64) {
        let entry = self.table + index * ENTRY;
        put(&mut self.bytes, entry + 4, &offset.to_le_bytes());
        put(&mut self.bytes, entry + 12, &size.to_le_bytes());
    }

    /// Notes the size of all data.
    pub fn close(&mut self, size: u64) {
        let place = self.section_size;
        put(&mut self.bytes, place, &size.to_le_bytes());
    }
}

/// The head of a file that is being recorded. What follows are extents, each with options of its own.
#[derive(Debug)]
pub struct JournalHead {
    pub bytes: Vec<u8>,
    /// Where the place of the first extent's options is to be put.
    pub next: u64,
}

impl JournalHead {
    pub fn new(description: &Description) -> Result<Self, RecordError> {
        let mut sections = Sections::start(false);
        let unfinished = Description {
            writer: format!("{} {UNFINISHED}", description.writer),
            ..description.clone()
        };
        describe(&mut sections, &unfinished, None)?;
        sections.close(0);
        let next = sections.bytes.len() as u64 - 8;
        let mut bytes = sections.bytes;
        bytes.resize(
            bytes.len().next_multiple_of(description.page_size as usize),
            0,
        );
        Ok(Self { bytes, next })
    }
}

/// The first page of an extent: the options that tell where its data lies. Returns where, in it, the place of the next
/// extent's options is to be put.
pub fn extent_head(description: &Description, cpu: u32, offset: u64, size: u64) -> (Vec<u8>, u64) {
    let page = u64::from(description.page_size);
    let mut options = Vec::new();
    // The section of events that the option wants; it stands at the end of this page.
    let section = offset + page - SECTION_HEAD as u64;
    let body = buffer_option(description, section, &[cpu], |_| (offset + page, size));
    option(&mut options, id::BUFFER, &body);
    option(&mut options, id::OPTIONS, &0_u64.to_le_bytes());
    let mut bytes = Vec::new();
    section_head(&mut bytes, id::OPTIONS, false, 0, options.len() as u64);
    bytes.extend(&options);
    let next = offset + bytes.len() as u64 - 8;
    bytes.resize(page as usize - SECTION_HEAD, 0);
    section_head(&mut bytes, id::BUFFER, false, 0, size);
    (bytes, next)
}

/// Sections and options that describe the events, the same in a journal and in a finished file.
fn describe(
    sections: &mut Sections,
    description: &Description,
    level: Level,
) -> Result<(), RecordError> {
    let strings = sections.strings;
    let mut headers = Vec::new();
    header_info(&mut headers, description);
    sections.section(id::HEADER_INFO, strings.headers, &headers, level)?;
    let mut formats = Vec::new();
    ftrace_events(&mut formats, description);
    sections.section(id::FTRACE_EVENTS, strings.ftrace, &formats, level)?;
    let mut formats = Vec::new();
    event_formats(&mut formats, description);
    sections.section(id::EVENT_FORMATS, strings.formats, &formats, level)?;
    let short = |text: &[u8]| [&(text.len() as u32).to_le_bytes(), text].concat();
    if !description.kallsyms.is_empty() {
        sections.section(
            id::KALLSYMS,
            strings.kallsyms,
            &short(&description.kallsyms),
            level,
        )?;
    }
    sections.section(
        id::PRINTK,
        strings.printk,
        &short(&description.printk_formats),
        level,
    )?;
    let long = [
        &(description.cmdlines.len() as u64).to_le_bytes(),
        &description.cmdlines[..],
    ]
    .concat();
    sections.section(id::CMDLINES, strings.cmdlines, &long, level)?;
    let strings_text = Strings::TEXT.as_bytes();
    sections.unlisted(id::STRINGS, strings.strings, strings_text, level)?;
    for (id, body) in plain_options(description) {
        sections.option(id, &body);
    }
    Ok(())
}

/// The options that both versions have.
fn plain_options(description: &Description) -> Vec<(u16, Vec<u8>)> {
    let text = |text: &str| [text.as_bytes(), &[0]].concat();
    let mut options = vec![
        (id::TRACECLOCK, text(&description.clocks)),
        (id::UNAME, text(&description.uname)),
        (id::VERSION, text(&description.writer)),
    ];
    for (cpu, stats) in &description.stats {
        options.push((id::CPUSTAT, text(&format!("CPU: {cpu}\n{stats}"))));
    }
    options.push((id::CPUCOUNT, description.cpu_count.to_le_bytes().to_vec()));
    options
}

fn header_info(out: &mut Vec<u8>, description: &Description) {
    for (name, text) in [
        (&b"header_page\0"[..], &description.header_page),
        (b"header_event\0", &description.header_event),
    ] {
        out.extend(name);
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    }
}

fn ftrace_events(out: &mut Vec<u8>, description: &Description) {
    format_list(out, &description.ftrace);
}

fn event_formats(out: &mut Vec<u8>, description: &Description) {
    out.extend((description.systems.len() as u32).to_le_bytes());
    for (system, formats) in &description.systems {
        out.extend(system.as_bytes());
        out.push(0);
        format_list(out, formats);
    }
}

fn format_list(out: &mut Vec<u8>, formats: &[Vec<u8>]) {
    out.extend((formats.len() as u32).to_le_bytes());
    for format in formats {
        out.extend((format.len() as u64).to_le_bytes());
        out.extend(format);
    }
}

/// Section, name (empty for the top buffer), clock, page size, number of CPUs, and where each one's data lies.
fn buffer_option(
    description: &Description,
    section: u64,
    cpus: &[u32],
    place: impl Fn(u32) -> (u64, u64),
) -> Vec<u8> {
    let mut body = section.to_le_bytes().to_vec();
    body.push(0);
    body.extend(description.clock.as_bytes());
    body.push(0);
    body.extend(description.page_size.to_le_bytes());
    body.extend((cpus.len() as u32).to_le_bytes());
    for &cpu in cpus {
        let (offset, size) = place(cpu);
        body.extend(cpu.to_le_bytes());
        body.extend(offset.to_le_bytes());
        body.extend(size.to_le_bytes());
    }
    body
}

/// Bytes of a section's head: id, flags, description, size.
const SECTION_HEAD: usize = 2 + 2 + 4 + 8;

fn section_head(out: &mut Vec<u8>, id: u16, compressed: bool, string: u32, size: u64) {
    out.extend(id.to_le_bytes());
    out.extend(if compressed { COMPRESSED } else { 0 }.to_le_bytes());
    out.extend(string.to_le_bytes());
    out.extend(size.to_le_bytes());
}

fn option(out: &mut Vec<u8>, id: u16, body: &[u8]) {
    out.extend(id.to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Where the descriptions of sections, which `trace-cmd dump` shows, stand in the section of strings.
#[derive(Debug, Clone, Copy)]
struct Strings {
    headers: u32,
    ftrace: u32,
    formats: u32,
    kallsyms: u32,
    printk: u32,
    cmdlines: u32,
    options: u32,
    flyrecord: u32,
    strings: u32,
}

impl Strings {
    const TEXT: &str = "headers\0ftrace events\0events format\0kallsyms\0printk\0command lines\0options\0buffer flyrecord\0strings\0";

    fn new() -> Self {
        let at = |text: &str| Self::TEXT.find(text).unwrap_or(0) as u32;
        Self {
            headers: at("headers"),
            ftrace: at("ftrace events"),
            formats: at("events format"),
            kallsyms: at("kallsyms"),
            printk: at("printk"),
            cmdlines: at("command lines"),
            options: at("options"),
            flyrecord: at("buffer flyrecord"),
            strings: at("strings"),
        }
    }
}

/// A file of version 7 as far as it is written, and the options that will point into it.
#[derive(Debug)]
struct Sections {
    bytes: Vec<u8>,
    options: Vec<u8>,
    strings: Strings,
    /// Where the place of the options is to be put.
    options_place: usize,
}

impl Sections {
    fn start(compressed: bool) -> Self {
        let mut bytes = MAGIC.to_vec();
        // Version, byte order, bytes of user space's `long`.
        bytes.extend(b"7\0\x00\x08");
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let page = page.ok().flatten().unwrap_or(4096) as u32;
        bytes.extend(page.to_le_bytes());
        if compressed {
            let version = zstd::zstd_safe::version_string();
            bytes.extend(format!("zstd\0{version}\0").as_bytes());
        } else {
            bytes.extend(b"none\0\0");
        }
        let options_place = bytes.len();
        bytes.extend([0; 8]);
        Self {
            bytes,
            options: Vec::new(),
            strings: Strings::new(),
            options_place,
        }
    }

    /// A section, and the option that points to it.
    fn section(
        &mut self,
        id: u16,
        string: u32,
        content: &[u8],
        level: Level,
    ) -> Result<(), RecordError> {
        let at = self.bytes.len() as u64;
        self.unlisted(id, string, content, level)?;
        self.option(id, &at.to_le_bytes());
        Ok(())
    }

    /// A section that no option points to.
    fn unlisted(
        &mut self,
        id: u16,
        string: u32,
        content: &[u8],
        level: Level,
    ) -> Result<(), RecordError> {
        let Some(level) = level else {
            section_head(&mut self.bytes, id, false, string, content.len() as u64);
            self.bytes.extend(content);
            return Ok(());
        };
        let packed = compress(content, level)?;
        // The sizes before the content count too.
        section_head(&mut self.bytes, id, true, string, packed.len() as u64 + 8);
        self.bytes.extend((packed.len() as u32).to_le_bytes());
        self.bytes.extend((content.len() as u32).to_le_bytes());
        self.bytes.extend(packed);
        Ok(())
    }

    fn option(&mut self, id: u16, body: &[u8]) {
        option(&mut self.options, id, body);
    }

    /// Writes the options, never compressed, the last of which says where the next ones are. Returns where they are.
    fn close(&mut self, next: u64) -> usize {
        let at = self.bytes.len();
        let mut options = std::mem::take(&mut self.options);
        option(&mut options, id::OPTIONS, &next.to_le_bytes());
        section_head(
            &mut self.bytes,
            id::OPTIONS,
            false,
            self.strings.options,
            options.len() as u64,
        );
        self.bytes.extend(options);
        put(
            &mut self.bytes,
            self.options_place,
            &(at as u64).to_le_bytes(),
        );
        at
    }
}

/// Everything of a file of version 6 that stands before its events, for CPUs from 0 on.
pub fn head_of_blocks(description: &Description, sizes: &[u64]) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(b"6\0\x00\x08");
    bytes.extend(description.page_size.to_le_bytes());
    header_info(&mut bytes, description);
    ftrace_events(&mut bytes, description);
    event_formats(&mut bytes, description);
    for text in [&description.kallsyms, &description.printk_formats] {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text);
    }
    bytes.extend((description.cmdlines.len() as u64).to_le_bytes());
    bytes.extend(&description.cmdlines);
    bytes.extend((sizes.len() as u32).to_le_bytes());
    bytes.extend(b"options  \0");
    for (id, body) in plain_options(description) {
        match id {
            // Here the option only announces the text that follows the table.
            id::TRACECLOCK => option(&mut bytes, id, &[]),
            // The number stands before the options already; the option is for files whose number differs.
            id::CPUCOUNT => {}
            _ => option(&mut bytes, id, &body),
        }
    }
    // The end of the list has no size.
    bytes.extend(id::OPTIONS.to_le_bytes());
    bytes.extend(b"flyrecord\0");
    let clocks = [description.clocks.as_bytes(), &[0]].concat();
    let table_end = bytes.len() + sizes.len() * 16 + 8 + clocks.len();
    let mut at = (table_end as u64).next_multiple_of(u64::from(description.page_size));
    let start = at;
    let mut places = Vec::new();
    for &size in sizes {
        places.push(at);
        bytes.extend(at.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        at += size.next_multiple_of(u64::from(description.page_size));
    }
    bytes.extend((clocks.len() as u64).to_le_bytes());
    bytes.extend(clocks);
    bytes.resize(start as usize, 0);
    (bytes, places)
}
