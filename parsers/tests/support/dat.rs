//! Writes small trace.dat files and ring-buffer pages, byte for byte as `trace-cmd.dat.v6(5)`,
//! `trace-cmd.dat.v7(5)` and the kernel's `ring_buffer.h` describe them.

use std::io::Write;

use ttwu_parsers::bytes::Endian;

pub const WAKING: u16 = 5;
pub const SWITCH: u16 = 6;
pub const PRINT: u16 = 7;

/// The machine that records.
#[derive(Clone, Copy)]
pub struct Machine {
    pub endian: Endian,
    /// Bytes of the kernel's `long`.
    pub long: usize,
    pub page: usize,
}

pub const X86: Machine = Machine {
    endian: Endian::Little,
    long: 8,
    page: 4096,
};

impl Machine {
    pub fn u16(&self, n: u16) -> Vec<u8> {
        self.bytes(&n.to_le_bytes())
    }
    pub fn u32(&self, n: u32) -> Vec<u8> {
        self.bytes(&n.to_le_bytes())
    }
    pub fn u64(&self, n: u64) -> Vec<u8> {
        self.bytes(&n.to_le_bytes())
    }
    pub fn long(&self, n: u64) -> Vec<u8> {
        match self.long {
            4 => self.u32(n as u32),
            _ => self.u64(n),
        }
    }
    fn bytes(&self, little: &[u8]) -> Vec<u8> {
        let mut bytes = little.to_vec();
        if self.endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    }

    fn common(&self, id: u16, pid: i32) -> Vec<u8> {
        [self.u16(id), vec![0x10, 0], self.u32(pid as u32)].concat()
    }

    /// A `sched_waking` record.
    pub fn waking(&self, by: i32, pid: i32, target: u32) -> Vec<u8> {
        let mut record = self.common(WAKING, by);
        record.extend(comm("wakee"));
        record.extend([self.u32(pid as u32), self.u32(120), self.u32(target)].concat());
        record
    }

    /// A `sched_switch` record; `prev_state` is a `long`, so what follows moves with the word size.
    pub fn switch(&self, prev: i32, state: u64, next: i32) -> Vec<u8> {
        let mut record = self.common(SWITCH, prev);
        record.extend(comm("prev"));
        record.extend([self.u32(prev as u32), self.u32(120), self.long(state)].concat());
        record.extend(comm("next"));
        record.extend([self.u32(next as u32), self.u32(19)].concat());
        record
    }

    /// A `print` record: text written to `trace_marker`.
    pub fn print(&self, text: &str) -> Vec<u8> {
        let mut record = [self.common(PRINT, 1), self.long(0)].concat();
        record.extend(text.as_bytes());
        record.push(0);
        record.resize(record.len().next_multiple_of(4), 0);
        record
    }

    fn formats(&self) -> [(&'static str, String); 3] {
        let long = self.long;
        let common = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
        let field = |text: &str, offset: usize, size: usize| {
            format!("\tfield:{text};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
        };
        let waking = [
            field("char comm[16]", 8, 16),
            field("pid_t pid", 24, 4),
            field("int prio", 28, 4),
            field("int target_cpu", 32, 4),
        ];
        let switch = [
            field("char prev_comm[16]", 8, 16),
            field("pid_t prev_pid", 24, 4),
            field("int prev_prio", 28, 4),
            field("long prev_state", 32, long),
            field("char next_comm[16]", 32 + long, 16),
            field("pid_t next_pid", 48 + long, 4),
            field("int next_prio", 52 + long, 4),
        ];
        let print = [
            field("unsigned long ip", 8, long),
            field("char buf[]", 8 + long, 0),
        ];
        let text = |name: &str, id: u16, fields: &[String]| {
            let fields = fields.concat();
            format!("name: {name}\nID: {id}\n{common}{fields}\nprint fmt: \"\"\n")
        };
        [
            ("ftrace", text("print", PRINT, &print)),
            ("sched", text("sched_waking", WAKING, &waking)),
            ("sched", text("sched_switch", SWITCH, &switch)),
        ]
    }

    fn header_page(&self) -> String {
        let (long, data) = (self.long, 8 + self.long);
        let size = self.page - data;
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{size};\tsigned:1;\n"
        )
    }
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

/// One ring-buffer page being filled.
pub struct Page {
    machine: Machine,
    stamp: u64,
    data: Vec<u8>,
    flags: u64,
    lost: Option<u64>,
}

impl Page {
    pub fn new(machine: Machine, stamp: u64) -> Self {
        let (data, flags, lost) = (Vec::new(), 0, None);
        Self {
            machine,
            stamp,
            data,
            flags,
            lost,
        }
    }

    fn word(&mut self, kind: u32, delta: u32) {
        let word = match self.machine.endian {
            Endian::Little => kind | delta << 5,
            Endian::Big => kind << 27 | delta,
        };
        self.data.extend(self.machine.u32(word));
    }

    /// A record of up to 112 bytes, its length in the first word.
    pub fn event(mut self, delta: u32, record: &[u8]) -> Self {
        assert!(record.len().is_multiple_of(4) && record.len() <= 112);
        self.word(record.len() as u32 / 4, delta);
        self.data.extend(record);
        self
    }

    /// A record of any length, in a word of its own.
    pub fn long_event(mut self, delta: u32, record: &[u8]) -> Self {
        self.word(0, delta);
        self.data.extend(self.machine.u32(record.len() as u32 + 4));
        self.data.extend(record);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self
    }

    pub fn extend(mut self, delta: u64) -> Self {
        self.word(30, delta as u32 & 0x7ff_ffff);
        self.data.extend(self.machine.u32((delta >> 27) as u32));
        self
    }

    pub fn absolute(mut self, stamp: u64) -> Self {
        self.word(31, stamp as u32 & 0x7ff_ffff);
        self.data.extend(self.machine.u32((stamp >> 27) as u32));
        self
    }

    /// An event that was discarded after it was written: `length` bytes behind its first word.
    pub fn discarded(mut self, delta: u32, length: u32) -> Self {
        self.word(29, delta);
        self.data.extend(self.machine.u32(length));
        self.data.extend(vec![0xaa; length as usize - 4]);
        self
    }

    /// The rest of the page is unused, though it counts as committed.
    pub fn void(mut self, garbage: &[u8]) -> Self {
        self.word(29, 0);
        self.data.extend(garbage);
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.data.extend(bytes);
        self
    }

    /// Events were lost before this page.
    pub fn missed(mut self, count: Option<u64>) -> Self {
        self.flags |= 1 << 31 | u64::from(count.is_some()) << 30;
        self.lost = count;
        self
    }

    /// Adds to the commit word, to lie about the length.
    pub fn claim(mut self, more: u64) -> Self {
        self.flags += more;
        self
    }

    pub fn done(self) -> Vec<u8> {
        let machine = self.machine;
        let commit = self.data.len() as u64 + self.flags;
        let mut page = [machine.u64(self.stamp), machine.long(commit), self.data].concat();
        page.extend(self.lost.map(|n| machine.long(n)).unwrap_or_default());
        assert!(page.len() <= machine.page);
        page.resize(machine.page, 0);
        page
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Packing {
    None,
    Zlib,
    Zstd,
}

impl Packing {
    pub fn pack(self, data: &[u8]) -> Vec<u8> {
        match self {
            Packing::None => data.to_vec(),
            Packing::Zstd => zstd::bulk::compress(data, 1).unwrap(),
            Packing::Zlib => {
                let fast = flate2::Compression::fast();
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), fast);
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
        }
    }
}

/// One ring buffer.
#[derive(Clone, Default)]
pub struct Buffer {
    pub name: &'static str,
    pub clock: &'static str,
    pub page: usize,
    /// CPU ids and their pages.
    pub cpus: Vec<(u32, Vec<u8>)>,
}

/// A file to be written.
#[derive(Clone)]
pub struct Dat {
    pub machine: Machine,
    pub packing: Packing,
    pub options: Vec<(u16, Vec<u8>)>,
    /// The top buffer first.
    pub buffers: Vec<Buffer>,
    pub names: &'static str,
    /// Pages in one compressed chunk.
    pub chunk: usize,
}

impl Dat {
    pub fn new(machine: Machine, cpus: Vec<(u32, Vec<u8>)>) -> Self {
        let top = Buffer {
            clock: "mono",
            page: machine.page,
            cpus,
            ..Buffer::default()
        };
        Self {
            machine,
            packing: Packing::None,
            options: Vec::new(),
            buffers: vec![top],
            names: "12 some name\n13 <...>\n",
            chunk: 2,
        }
    }

    pub fn option(mut self, id: u16, body: impl Into<Vec<u8>>) -> Self {
        self.options.push((id, body.into()));
        self
    }

    pub fn packed(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// `per_cpu/cpuN/stats` with that many events overwritten.
    pub fn stats(self, cpu: u32, overrun: u64) -> Self {
        let text = format!(
            "CPU: {cpu}\nentries: 1\noverrun: {overrun}\ncommit overrun: 0\nbytes: 9\n\
             oldest event ts:  1.000000\nnow ts:  2.000000\ndropped events: 0\nread events: 1\n\0"
        );
        self.option(2, text)
    }

    fn preamble(&self, version: &str) -> Vec<u8> {
        let mut file = b"\x17\x08\x44tracing".to_vec();
        file.extend(version.as_bytes());
        // User space has 64-bit longs here, whatever the kernel has.
        file.extend([0, u8::from(self.machine.endian == Endian::Big), 8]);
        file.extend(self.machine.u32(self.machine.page as u32));
        file
    }

    fn sized(&self, text: &[u8]) -> Vec<u8> {
        [&self.machine.u64(text.len() as u64), text].concat()
    }

    fn header_info(&self) -> Vec<u8> {
        let page = self.sized(self.machine.header_page().as_bytes());
        [
            b"header_page\0",
            &page[..],
            b"header_event\0",
            &self.sized(b"# compressed entry header\n"),
        ]
        .concat()
    }

    fn formats(&self, ftrace: bool) -> Vec<u8> {
        let all = self.machine.formats();
        let formats: Vec<_> = all.iter().filter(|f| (f.0 == "ftrace") == ftrace).collect();
        let mut block = Vec::new();
        if !ftrace {
            block.extend(self.machine.u32(1));
            block.extend(b"sched\0");
        }
        block.extend(self.machine.u32(formats.len() as u32));
        for (_, text) in formats {
            block.extend(self.sized(text.as_bytes()));
        }
        block
    }

    fn list(&self, options: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut list = Vec::new();
        for (id, body) in options {
            list.extend(self.machine.u16(*id));
            list.extend(self.machine.u32(body.len() as u32));
            list.extend(body);
        }
        list
    }

    /// Version 6. The clock's text follows the data table if there is an (empty) TRACECLOCK option.
    pub fn v6(&self) -> Vec<u8> {
        let m = self.machine;
        let mut file = self.preamble("6");
        file.extend(self.header_info());
        file.extend(self.formats(true));
        file.extend(self.formats(false));
        file.extend([m.u32(3), b"sym".to_vec(), m.u32(2), b"fm".to_vec()].concat());
        file.extend(self.sized(self.names.as_bytes()));
        let top = &self.buffers[0];
        file.extend(m.u32(top.cpus.len() as u32));
        let mut options = self.options.clone();
        let mut patches = Vec::new();
        file.extend(b"options  \0");
        let start = file.len();
        for buffer in &self.buffers[1..] {
            patches.push(start + self.list(&options).len() + 6);
            options.push((3, [&[0; 8], buffer.name.as_bytes(), b"\0"].concat()));
        }
        file.extend(self.list(&options));
        file.extend([0, 0]);
        let mut tables = Vec::new();
        for (index, buffer) in self.buffers.iter().enumerate() {
            if index > 0 {
                let at = m.u64(file.len() as u64);
                file[patches[index - 1]..][..8].copy_from_slice(&at);
            }
            file.extend(b"flyrecord\0");
            tables.push(file.len());
            file.resize(file.len() + 16 * buffer.cpus.len(), 0);
            if index == 0 && options.iter().any(|(id, _)| *id == 4) {
                let clock = format!("local global [{}] x86-tsc\n", buffer.clock);
                file.extend(self.sized(clock.as_bytes()));
            }
        }
        for (buffer, table) in self.buffers.iter().zip(tables) {
            for (index, (_, data)) in buffer.cpus.iter().enumerate() {
                file.resize(file.len().next_multiple_of(m.page), 0);
                let entry = [m.u64(file.len() as u64), m.u64(data.len() as u64)].concat();
                file[table + 16 * index..][..16].copy_from_slice(&entry);
                file.extend(data);
            }
        }
        file
    }

    /// Version 7, with the options in two chained sections, as trace-cmd writes them.
    pub fn v7(&self) -> Vec<u8> {
        let m = self.machine;
        let mut file = self.preamble("7");
        let name = match self.packing {
            Packing::None => "none\0\0",
            Packing::Zlib => "zlib\x001.2\0",
            Packing::Zstd => "zstd\x001.5\0",
        };
        file.extend(name.as_bytes());
        let first = file.len();
        file.extend([0; 8]);
        let mut options = Vec::new();
        let sections = [
            (16, self.header_info()),
            (17, self.formats(true)),
            (18, self.formats(false)),
            (19, [m.u32(3), b"sym".to_vec()].concat()),
            (21, self.sized(self.names.as_bytes())),
        ];
        for (id, content) in sections {
            options.push((id, m.u64(file.len() as u64)));
            self.section(&mut file, id, &content);
        }
        options.extend(self.options.iter().cloned());
        let at = m.u64(file.len() as u64);
        file[first..][..8].copy_from_slice(&at);
        let next = self.options_section(&mut file, &options);
        let mut options = Vec::new();
        for buffer in &self.buffers {
            options.push((3, self.buffer(&mut file, buffer)));
        }
        let at = m.u64(file.len() as u64);
        file[next..][..8].copy_from_slice(&at);
        self.options_section(&mut file, &options);
        file
    }

    fn section_head(&self, file: &mut Vec<u8>, id: u16, packed: bool, size: usize) {
        let m = self.machine;
        let head = [
            m.u16(id),
            m.u16(packed.into()),
            m.u32(0),
            m.u64(size as u64),
        ];
        file.extend(head.concat());
    }

    fn section(&self, file: &mut Vec<u8>, id: u16, content: &[u8]) {
        let packed = self.packing != Packing::None;
        let body = match packed {
            true => self.packed_block(content),
            false => content.to_vec(),
        };
        self.section_head(file, id, packed, body.len());
        file.extend(body);
    }

    fn packed_block(&self, content: &[u8]) -> Vec<u8> {
        let packed = self.packing.pack(content);
        let sizes = [
            self.machine.u32(packed.len() as u32),
            self.machine.u32(content.len() as u32),
        ];
        [sizes.concat(), packed].concat()
    }

    /// Returns where the offset of the next section is to be put.
    fn options_section(&self, file: &mut Vec<u8>, options: &[(u16, Vec<u8>)]) -> usize {
        let mut list = self.list(options);
        list.extend(self.list(&[(0, vec![0; 8])]));
        self.section_head(file, 0, false, list.len());
        file.extend(list);
        file.len() - 8
    }

    /// Writes a buffer's data and returns its option.
    fn buffer(&self, file: &mut Vec<u8>, buffer: &Buffer) -> Vec<u8> {
        let m = self.machine;
        let packed = self.packing != Packing::None;
        let mut option = m.u64(file.len() as u64);
        option.extend([buffer.name, "\0", buffer.clock, "\0"].concat().as_bytes());
        option.extend([m.u32(buffer.page as u32), m.u32(buffer.cpus.len() as u32)].concat());
        self.section_head(file, 3, packed, 0);
        for (cpu, pages) in &buffer.cpus {
            let at = match packed {
                true => file.len(),
                false => file.len().next_multiple_of(buffer.page),
            };
            file.resize(at, 0);
            if packed && !pages.is_empty() {
                let chunks: Vec<_> = pages.chunks(self.chunk * buffer.page).collect();
                file.extend(m.u32(chunks.len() as u32));
                chunks
                    .iter()
                    .for_each(|chunk| file.extend(self.packed_block(chunk)));
            } else {
                file.extend(pages);
            }
            // trace-cmd's sizes leave the number of chunks out.
            let size = (file.len() - at).saturating_sub(if packed { 4 } else { 0 });
            option.extend([m.u32(*cpu), m.u64(at as u64), m.u64(size as u64)].concat());
        }
        option
    }
}
