//! The ring buffers of a file (the top one and ftrace's instances), and where each CPU's data lies.

use super::compress::Codec;
use super::cursor::{Cursor, Damage};
use super::options::{Options, selected_clock};
use super::pages::Pages;
use super::sections::Sections;
use crate::bytes::Endian;

/// Largest page size that is believed; the kernel's sub-buffers have at most 512 pages of 64 KiB.
const LARGEST_PAGE: u32 = 32 << 20;

/// The body of a BUFFER option.
#[derive(Debug)]
pub(crate) struct BufferOption(pub Vec<u8>);

/// One buffer.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    /// Empty for the top buffer.
    pub name: String,
    /// Empty where the file does not say.
    pub clock: String,
    pub page_size: u32,
    pub endian: Endian,
    /// How its data is compressed.
    pub codec: Option<Codec>,
    /// Ascending by CPU, one each.
    pub cpus: Vec<Area>,
    /// Where the data of those CPUs goes on, in its order; only in a recording that did not end.
    pub more: Vec<Area>,
}

/// Where the data of one CPU lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub cpu: u32,
    pub offset: u64,
    pub size: u64,
}

impl Buffer {
    /// The bytes of one of its CPUs, as far as the file goes.
    fn data<'a>(&self, file: &'a [u8], area: &Area) -> &'a [u8] {
        let start = usize::try_from(area.offset).unwrap_or(usize::MAX);
        let rest = file.get(start..).unwrap_or_default();
        usize::try_from(self.extent(area))
            .ok()
            .and_then(|size| rest.get(..size))
            .unwrap_or(rest)
    }

    /// How many bytes an area takes in the file. trace-cmd leaves the number of chunks, four bytes that stand
    /// first, out of the size it writes.
    fn extent(&self, area: &Area) -> u64 {
        match self.codec {
            Some(_) if area.size > 0 => area.size.saturating_add(4),
            _ => area.size,
        }
    }

    /// How many bytes of a CPU's data the file lacks.
    pub fn missing(&self, file: &[u8], area: &Area) -> u64 {
        let there = self.data(file, area).len() as u64;
        self.extent(area).saturating_sub(there)
    }

    /// Another CPU whose data begin within this one's: one of the two cannot be right.
    pub fn overlapping(&self, area: &Area) -> Option<u32> {
        let end = area.offset.saturating_add(self.extent(area));
        let mut others = self.cpus.iter().filter(|other| other.cpu != area.cpu);
        let within = |other: &&Area| (area.offset..end).contains(&other.offset);
        others
            .find(|other| within(other) && other.size > 0)
            .map(|other| other.cpu)
    }

    /// Bytes of data in the file.
    pub fn bytes(&self, file: &[u8]) -> u64 {
        let areas = self.cpus.iter().chain(&self.more);
        let sizes = areas.map(|area| self.data(file, area).len() as u64);
        sizes.fold(0, u64::saturating_add)
    }

    /// The pages of one of its CPUs.
    pub fn pages<'a>(&self, file: &'a [u8], area: &Area) -> Pages<'a> {
        let data = self.data(file, area);
        let page_size = usize::try_from(self.page_size).unwrap_or(usize::MAX);
        match self.codec {
            None => {
                let more = self.more.iter().filter(|more| more.cpu == area.cpu);
                let more = more.map(|more| (more.offset, self.data(file, more)));
                Pages::plain(data, area.offset, area.cpu, page_size).followed_by(more.collect())
            }
            Some(codec) => {
                Pages::compressed(data, area.offset, area.cpu, page_size, self.endian, codec)
            }
        }
    }

    /// Adds an area behind those that its CPU has.
    pub fn extend(&mut self, area: Area) {
        match self.cpus.iter().any(|known| known.cpu == area.cpu) {
            true => self.more.push(area),
            false => self.cpus.push(area),
        }
    }

    /// Sorts the CPUs; of a CPU that is listed twice the entry that has data counts.
    fn sorted(mut self) -> Self {
        self.cpus
            .sort_by_key(|area| (area.cpu, std::cmp::Reverse(area.size)));
        self.cpus.dedup_by_key(|area| area.cpu);
        self
    }

    /// Checks a page size, which everything else hangs on.
    fn sound(self, at: usize) -> Result<Self, Damage> {
        match self.page_size {
            64..=LARGEST_PAGE => Ok(self),
            size => Err(Damage::new(format!("pages of {size} bytes"), at)),
        }
    }
}

/// Version 7: section offset, name, clock, page size, number of CPUs, then each one's id, offset and size.
pub(crate) fn of_sections(option: &BufferOption, file: &Sections<'_>) -> Result<Buffer, Damage> {
    let mut cursor = Cursor::new(&option.0, 0, file.endian, "a BUFFER option");
    let section = cursor.u64()?;
    let mut buffer = Buffer {
        name: cursor.text()?,
        clock: cursor.text()?,
        page_size: cursor.u32()?,
        endian: file.endian,
        codec: None,
        cpus: Vec::new(),
        more: Vec::new(),
    };
    for _ in 0..cursor.u32()? {
        buffer.cpus.push(Area {
            cpu: cursor.u32()?,
            offset: cursor.u64()?,
            size: cursor.u64()?,
        });
    }
    // A buffer without data may have no section.
    if !buffer.cpus.is_empty() {
        let head = file.head(section)?;
        buffer.codec = file.codec.filter(|_| head.compressed);
    }
    buffer
        .sorted()
        .sound(usize::try_from(section).unwrap_or(usize::MAX))
}

/// Version 6: what follows the options, `latency  \0` or `flyrecord\0` and the table of the top buffer's data.
/// `None` for a latency tracer's text.
pub(crate) fn top_of_blocks(
    cursor: &mut Cursor<'_>,
    options: &mut Options,
    cpus: u32,
    page_size: u32,
) -> Result<Option<Buffer>, Damage> {
    if cursor.optional_tag(b"options  \0")? {
        options.read_list(cursor)?;
    }
    if cursor.optional_tag(b"latency  \0")? {
        return Ok(None);
    }
    let at = cursor.at();
    let listed = options.cpu_count.unwrap_or(cpus);
    let mut buffer = table(cursor, listed, page_size)?;
    // An option that raises the number of CPUs is followed by one entry of zeros, for older readers.
    if listed > cpus {
        cursor.skip_tag(&[0; 16]);
    }
    if options.has_clock {
        options.clock = trailing_clock(cursor).or(options.clock.take());
    }
    buffer.clock = options.clock.clone().unwrap_or_default();
    buffer.sound(at).map(Some)
}

/// Version 6's instances: the option has an offset and a name; at the offset lies another table.
pub(crate) fn instance_of_blocks(
    option: &BufferOption,
    file: &[u8],
    top: &Buffer,
    cpus: u32,
) -> Result<Buffer, Damage> {
    let mut cursor = Cursor::new(&option.0, 0, top.endian, "a BUFFER option");
    let offset = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    let name = cursor.text()?;
    let mut cursor = Cursor::new(file, offset, top.endian, "an instance's data table");
    if cursor.optional_tag(b"options  \0")? {
        Options::default().read_list(&mut cursor)?;
    }
    let mut buffer = table(&mut cursor, cpus, top.page_size)?;
    buffer.name = name;
    buffer.clock.clone_from(&top.clock);
    Ok(buffer)
}

/// Offset and size of each CPU's data.
fn table(cursor: &mut Cursor<'_>, cpus: u32, page_size: u32) -> Result<Buffer, Damage> {
    cursor.subject = "the data table";
    cursor.expect_tag(b"flyrecord\0")?;
    let mut buffer = Buffer {
        name: String::new(),
        clock: String::new(),
        page_size,
        endian: cursor.endian,
        codec: None,
        cpus: Vec::new(),
        more: Vec::new(),
    };
    for cpu in 0..cpus {
        buffer.cpus.push(Area {
            cpu,
            offset: cursor.u64()?,
            size: cursor.u64()?,
        });
    }
    Ok(buffer)
}

/// Size and text of `trace_clock`.
fn trailing_clock(cursor: &mut Cursor<'_>) -> Option<String> {
    let size = cursor.u64().ok()?;
    let text = cursor.take(size).ok()?;
    selected_clock(&String::from_utf8_lossy(text))
}
