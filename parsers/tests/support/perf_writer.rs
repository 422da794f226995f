//! Writes perf.data files of any layout and byte order, for what no recording at hand shows.

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

pub const IP: u64 = 1 << 0;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const READ: u64 = 1 << 4;
pub const CALLCHAIN: u64 = 1 << 5;
pub const ID: u64 = 1 << 6;
pub const CPU: u64 = 1 << 7;
pub const RAW: u64 = 1 << 10;
pub const IDENTIFIER: u64 = 1 << 16;

/// `sched_waking`'s id in these files.
pub const WAKING: u64 = 77;

/// Integers in one byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    pub big: bool,
}

impl Order {
    pub fn u16(self, value: u16) -> Vec<u8> {
        self.turn(value.to_le_bytes().to_vec())
    }

    pub fn u32(self, value: u32) -> Vec<u8> {
        self.turn(value.to_le_bytes().to_vec())
    }

    pub fn u64(self, value: u64) -> Vec<u8> {
        self.turn(value.to_le_bytes().to_vec())
    }

    fn turn(self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.big {
            bytes.reverse();
        }
        bytes
    }

    /// `perf_header_string`, padded to 64 bytes as perf does.
    pub fn string(self, text: &str) -> Vec<u8> {
        let mut bytes = self.u32(64);
        bytes.extend(text.as_bytes());
        bytes.resize(4 + 64, 0);
        bytes
    }
}

/// One event of a file.
#[derive(Clone)]
pub struct AttrSpec {
    pub kind: u32,
    pub config: u64,
    pub sample_type: u64,
    pub read_format: u64,
    /// Flag numbers as in `perf_event_attr`, from `disabled` = 0 on.
    pub flags: Vec<u32>,
    pub ids: Vec<u64>,
}

impl AttrSpec {
    /// A tracepoint with time, CPU and id, and `sample_id_all`.
    pub fn waking(sample_type: u64, ids: &[u64]) -> Self {
        Self {
            kind: 2,
            config: WAKING,
            sample_type,
            read_format: 0,
            flags: vec![18],
            ids: ids.to_vec(),
        }
    }

    fn bytes(&self, order: Order, size: usize) -> Vec<u8> {
        let mut flags = [0_u8; 8];
        for flag in &self.flags {
            let bit = flag % 8;
            flags[*flag as usize / 8] |= if order.big { 0x80 >> bit } else { 1 << bit };
        }
        let mut bytes = [
            order.u32(self.kind),
            order.u32(size as u32),
            order.u64(self.config),
            order.u64(1),
            order.u64(self.sample_type),
            order.u64(self.read_format),
            flags.to_vec(),
        ]
        .concat();
        bytes.resize(size.min(64), 0);
        // What a newer perf appends: not zero, so that a reader which looks there trips.
        bytes.resize(size, if size > 144 { 0xab } else { 0 });
        bytes
    }
}

/// A whole file.
#[derive(Clone)]
pub struct PerfFile {
    pub order: Order,
    pub attr_size: usize,
    pub attrs: Vec<AttrSpec>,
    pub records: Vec<Vec<u8>>,
    pub features: Vec<(u32, Vec<u8>)>,
}

impl PerfFile {
    /// With the format of `sched_waking`.
    pub fn new(big: bool, attrs: Vec<AttrSpec>) -> Self {
        let order = Order { big };
        Self {
            order,
            attr_size: 136,
            attrs,
            records: Vec::new(),
            features: vec![
                (1, tracing_data(order, &[FORMAT])),
                (3, order.string("box")),
                (7, [order.u32(4), order.u32(4)].concat()),
            ],
        }
    }

    /// With the format of `sched_switch`, too.
    pub fn with_switches(mut self) -> Self {
        let formats = tracing_data(self.order, &[FORMAT, SWITCH_FORMAT]);
        self.features[0].1 = formats;
        self
    }

    pub fn record(&self, kind: u32, misc: u16, payload: &[u8]) -> Vec<u8> {
        let size = 8 + payload.len();
        let header = [
            self.order.u32(kind),
            self.order.u16(misc),
            self.order.u16(size as u16),
        ];
        [header.concat(), payload.to_vec()].concat()
    }

    pub fn push(&mut self, kind: u32, misc: u16, payload: &[u8]) -> &mut Self {
        self.records.push(self.record(kind, misc, payload));
        self
    }

    /// A sample of event `attr`, of `sched_waking` waking `pid`.
    pub fn sample(&mut self, attr: usize, id: u64, ts: u64, cpu: u32, pid: u32) -> &mut Self {
        let spec = self.attrs[attr].clone();
        let order = self.order;
        let has = |bit| spec.sample_type & bit != 0;
        let mut bytes = Vec::new();
        let mut field = |bit, value: Vec<u8>| {
            if has(bit) {
                bytes.extend(value);
            }
        };
        let pair = |a, b| [order.u32(a), order.u32(b)].concat();
        field(IDENTIFIER, order.u64(id));
        field(IP, order.u64(0xffff_ffff_8100_0000));
        field(TID, pair(40, 41));
        field(TIME, order.u64(ts));
        field(ID, order.u64(id));
        field(CPU, pair(cpu, 0));
        if spec.read_format == 0 {
            field(READ, order.u64(123));
        } else {
            // A group of two with ids and both times.
            let words = [2, 10, 20, 5, 1, 6, 2].map(|word| order.u64(word));
            field(READ, words.concat());
        }
        let chain = [2, 0xffff_ff80, 0x1234].map(|word: u64| order.u64(word));
        field(CALLCHAIN, chain.concat());
        let raw = waking(order, pid, cpu);
        let size = (4 + raw.len()).next_multiple_of(8) - 4;
        let mut padded = raw;
        padded.resize(size, 0xcc);
        field(RAW, [order.u32(size as u32), padded].concat());
        self.push(9, 0, &bytes)
    }

    /// A sample of `sched_switch` from one thread to another, with these words as its READ field.
    pub fn switch(
        &mut self,
        attr: usize,
        id: u64,
        ts: u64,
        cpu: u32,
        (prev, next): (u32, u32),
        read: &[u64],
    ) -> &mut Self {
        let spec = self.attrs[attr].clone();
        let order = self.order;
        let pair = |a, b| [order.u32(a), order.u32(b)].concat();
        let raw = switch(order, prev, next);
        let size = (4 + raw.len()).next_multiple_of(8) - 4;
        let mut padded = raw;
        padded.resize(size, 0xcc);
        let read: Vec<u8> = read.iter().flat_map(|&word| order.u64(word)).collect();
        let fields = [
            (IDENTIFIER, order.u64(id)),
            (TID, pair(prev, prev)),
            (TIME, order.u64(ts)),
            (ID, order.u64(id)),
            (CPU, pair(cpu, 0)),
            (READ, read),
            (RAW, [order.u32(size as u32), padded].concat()),
        ];
        let has = fields
            .into_iter()
            .filter(|(bit, _)| spec.sample_type & bit != 0);
        let bytes: Vec<u8> = has.flat_map(|(_, value)| value).collect();
        self.push(9, 0, &bytes)
    }

    /// A record other than a sample, with the trailer of event `attr`.
    pub fn other(
        &mut self,
        kind: u32,
        payload: &[u8],
        attr: usize,
        id: u64,
        ts: u64,
        cpu: u32,
    ) -> &mut Self {
        let trailer = self.trailer(attr, id, ts, cpu);
        self.push(kind, 0, &[payload.to_vec(), trailer].concat())
    }

    pub fn trailer(&self, attr: usize, id: u64, ts: u64, cpu: u32) -> Vec<u8> {
        let order = self.order;
        let fields = [
            (TID, [order.u32(40), order.u32(41)].concat()),
            (TIME, order.u64(ts)),
            (ID, order.u64(id)),
            (CPU, [order.u32(cpu), order.u32(0)].concat()),
            (IDENTIFIER, order.u64(id)),
        ];
        let sample_type = self.attrs[attr].sample_type;
        fields
            .into_iter()
            .filter(|(bit, _)| sample_type & bit != 0)
            .flat_map(|(_, value)| value)
            .collect()
    }

    pub fn lost(&mut self, count: u64, id: u64, ts: u64, cpu: u32) -> &mut Self {
        let payload = [self.order.u64(id), self.order.u64(count)].concat();
        self.other(2, &payload, 0, id, ts, cpu)
    }

    /// As perf writes it: no time, and CPU 0 whatever the CPU.
    pub fn lost_samples(&mut self, count: u64, id: u64) -> &mut Self {
        let payload = self.order.u64(count);
        self.other(13, &payload, 0, id, 0, 0)
    }

    pub fn comm(&mut self, tid: u32, name: &str, ts: u64, cpu: u32) -> &mut Self {
        let mut payload = [self.order.u32(40), self.order.u32(tid)].concat();
        payload.extend(name.as_bytes());
        payload.resize(payload.len() / 8 * 8 + 8, 0);
        self.other(3, &payload, 0, 0, ts, cpu)
    }

    /// `(id, cpu, tid)` of each id.
    pub fn id_index(&mut self, entries: &[(u64, u64, u64)]) -> &mut Self {
        let order = self.order;
        let mut payload = order.u64(entries.len() as u64);
        for &(id, cpu, tid) in entries {
            payload.extend([id, 0, cpu, tid].map(|word| order.u64(word)).concat());
        }
        self.push(69, 0, &payload)
    }

    pub fn data(&self) -> Vec<u8> {
        self.records.concat()
    }

    pub fn seekable(&self) -> Vec<u8> {
        self.seekable_with(self.data(), true)
    }

    /// `finished` files tell their data's size and hold the features.
    pub fn seekable_with(&self, data: Vec<u8>, finished: bool) -> Vec<u8> {
        let order = self.order;
        let stride = self.attr_size + 16;
        let ids_at = 104 + stride * self.attrs.len();
        let mut attrs = Vec::new();
        let mut ids = Vec::new();
        for attr in &self.attrs {
            attrs.extend(attr.bytes(order, self.attr_size));
            attrs.extend(order.u64((ids_at + ids.len()) as u64));
            attrs.extend(order.u64(attr.ids.len() as u64 * 8));
            ids.extend(attr.ids.iter().flat_map(|&id| order.u64(id)));
        }
        let data_at = ids_at + ids.len();
        let size = if finished { data.len() } else { 0 };
        let mut bits = [0_u64; 4];
        for (bit, _) in &self.features {
            bits[*bit as usize / 64] |= 1 << (bit % 64);
        }
        let magic = order.u64(u64::from_le_bytes(*b"PERFILE2"));
        let words = [
            104,
            stride as u64,
            104,
            attrs.len() as u64,
            data_at as u64,
            size as u64,
            0,
            0,
        ];
        let mut file = magic;
        file.extend(words.iter().chain(&bits).flat_map(|&word| order.u64(word)));
        file.extend([attrs, ids, data].concat());
        if finished {
            file.extend(self.feature_sections(file.len()));
        }
        file
    }

    /// As `ttwu record` writes it: a copy of the features, as records, in front of the data. Feature 250 comes in pieces.
    pub fn with_early(&self, data: Vec<u8>, finished: bool) -> Vec<u8> {
        let order = self.order;
        let ids: Vec<u8> = self
            .attrs
            .iter()
            .flat_map(|a| a.ids.iter().flat_map(|&id| order.u64(id)))
            .collect();
        let stride = self.attr_size + 16;
        let attrs_at = 104 + ids.len();
        let mut body = ids;
        let mut ids_at = 104;
        for attr in &self.attrs {
            body.extend(attr.bytes(order, self.attr_size));
            body.extend(order.u64(ids_at));
            body.extend(order.u64(attr.ids.len() as u64 * 8));
            ids_at += attr.ids.len() as u64 * 8;
        }
        body.extend(self.early_records());
        let data_at = 104 + body.len();
        let size = if finished { data.len() } else { 0 };
        let mut bits = [0_u64; 4];
        for (bit, _) in self.features.iter().filter(|_| finished) {
            bits[*bit as usize / 64] |= 1 << (bit % 64);
        }
        let attrs_size = stride * self.attrs.len();
        let words =
            [104, stride, attrs_at, attrs_size, data_at, size, 0, 0].map(|word| word as u64);
        let mut file = order.u64(u64::from_le_bytes(*b"PERFILE2"));
        file.extend(words.iter().chain(&bits).flat_map(|&word| order.u64(word)));
        file.extend([body, data].concat());
        if finished {
            file.extend(self.feature_sections(file.len()));
        }
        file
    }

    fn early_records(&self) -> Vec<u8> {
        let order = self.order;
        let mut records = Vec::new();
        for (bit, content) in &self.features {
            if *bit == 1 {
                let padded = content.len().next_multiple_of(8);
                records.extend(self.record(66, 0, &order.u32(padded as u32)));
                records.extend(content);
                records.resize(records.len() + padded - content.len(), 0);
                continue;
            }
            for piece in content.chunks(30) {
                let payload = [order.u64(u64::from(*bit)), piece.to_vec()].concat();
                records.extend(self.record(80, 0, &payload));
            }
        }
        records
    }

    fn feature_sections(&self, at: usize) -> Vec<u8> {
        let mut features = self.features.clone();
        features.sort_by_key(|(bit, _)| *bit);
        let mut offset = at + features.len() * 16;
        let mut sections = Vec::new();
        for (_, content) in &features {
            sections.extend(self.order.u64(offset as u64));
            sections.extend(self.order.u64(content.len() as u64));
            offset += content.len();
        }
        sections.extend(features.into_iter().flat_map(|(_, content)| content));
        sections
    }

    pub fn pipe(&self) -> Vec<u8> {
        let order = self.order;
        let mut file = order.u64(u64::from_le_bytes(*b"PERFILE2"));
        file.extend(order.u64(16));
        for attr in &self.attrs {
            let mut payload = attr.bytes(order, self.attr_size);
            payload.extend(attr.ids.iter().flat_map(|&id| order.u64(id)));
            file.extend(self.record(64, 0, &payload));
        }
        for (bit, content) in &self.features {
            if *bit != 1 {
                let payload = [order.u64(u64::from(*bit)), content.clone()].concat();
                file.extend(self.record(80, 0, &payload));
                continue;
            }
            let mut content = content.clone();
            content.resize(content.len().next_multiple_of(8), 0);
            file.extend(self.record(66, 0, &order.u32(content.len() as u32)));
            file.extend(content);
        }
        // The mark of the last feature, which has no content.
        file.extend(self.record(80, 0, &order.u64(35)));
        file.extend(self.data());
        file
    }

    /// The records in pieces of a zstd stream, cut every `step` bytes, in records of type 81 or 83.
    pub fn compressed(&self, kind: u32, step: usize) -> Vec<u8> {
        let data = self.data();
        zstd_pieces(data.chunks(step))
            .into_iter()
            .flat_map(|piece| {
                if kind == 81 {
                    return self.record(81, 0, &piece);
                }
                let mut payload = self.order.u64(piece.len() as u64);
                payload.extend(&piece);
                payload.resize(payload.len().next_multiple_of(8), 0x99);
                self.record(83, 0, &payload)
            })
            .collect()
    }
}

/// One zstd stream, flushed after each piece.
pub fn zstd_pieces<'a>(plain: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(1).expect("an encoder");
    plain
        .map(|piece| {
            let mut out = vec![0; piece.len() + 4096];
            let mut room = OutBuffer::around(out.as_mut_slice());
            let mut input = InBuffer::around(piece);
            encoder.run(&mut input, &mut room).expect("compression");
            encoder.flush(&mut room).expect("a flush");
            let made = room.pos();
            out.truncate(made);
            out
        })
        .collect()
}

const FORMAT: &str = "name: sched_waking\nID: 77\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"x\"\n";

const SWITCH_FORMAT: &str = "name: sched_switch\nID: 78\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"x\"\n";

/// One record as `SWITCH_FORMAT` says: the thread that leaves sleeps.
fn switch(order: Order, prev: u32, next: u32) -> Vec<u8> {
    let name = |pid: u32| {
        let mut name = format!("t{pid}").into_bytes();
        name.resize(16, 0);
        name
    };
    [
        order.u16(78),
        vec![0, 0],
        order.u32(prev),
        name(prev),
        order.u32(prev),
        order.u32(120),
        order.u64(1),
        name(next),
        order.u32(next),
        order.u32(120),
    ]
    .concat()
}

/// One record as `FORMAT` says.
fn waking(order: Order, pid: u32, cpu: u32) -> Vec<u8> {
    let mut raw = [order.u16(WAKING as u16), vec![0x10, 0], order.u32(41)].concat();
    raw.extend(b"wakee\0\0\0\0\0\0\0\0\0\0\0");
    raw.extend([order.u32(pid), order.u32(120), order.u32(cpu)].concat());
    raw
}

/// The TRACING_DATA feature with these formats.
fn tracing_data(order: Order, formats: &[&str]) -> Vec<u8> {
    let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
    let mut data = b"\x17\x08\x44tracing0.6\0".to_vec();
    data.extend([u8::from(order.big), 8]);
    data.extend(order.u32(4096));
    for (name, text) in [("header_page", page), ("header_event", "x")] {
        data.extend(name.as_bytes());
        data.push(0);
        data.extend(order.u64(text.len() as u64));
        data.extend(text.as_bytes());
    }
    data.extend(order.u32(0));
    data.extend(order.u32(1));
    data.extend(b"sched\0");
    data.extend(order.u32(formats.len() as u32));
    for format in formats {
        data.extend(order.u64(format.len() as u64));
        data.extend(format.as_bytes());
    }
    data.extend([order.u32(0), order.u32(0)].concat());
    data.extend(order.u64(6));
    data.extend(b"9 old\n");
    data
}
