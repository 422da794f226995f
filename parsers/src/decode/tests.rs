use super::*;

/// A probe's format: the common fields, then these, of which each says name, offset, size and sign.
fn probe(system: &str, name: &str, fields: &[(&str, usize, usize)]) -> EventFormat {
    let common = [
        ("unsigned short common_type", 0, 2),
        ("unsigned char common_flags", 2, 1),
        ("int common_pid", 4, 4),
    ];
    let mut text = format!("name: {name}\nID: 7\n");
    for (declared, offset, size) in common.iter().chain(fields) {
        let signed = u8::from(declared.starts_with('s') || declared.starts_with("int"));
        text += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    EventFormat::parse(system, &text).unwrap()
}

/// The selection probe as the kernel lays it out, with a mask of so many words, or none.
fn selection(system: &str, mask: Option<&str>) -> Decoder {
    let mut fields = vec![
        ("unsigned long __probe_ip", 8, 8),
        ("s32 pid", 16, 4),
        ("u32 flips", 20, 4),
        ("s32 prev", 24, 4),
        ("s32 rec", 28, 4),
        ("u32 flags", 32, 4),
        ("s32 nr", 36, 4),
        ("u64 last", 40, 8),
    ];
    if let Some(mask) = mask {
        let words = if mask.ends_with("[2]") { 2 } else { 1 };
        fields.push((mask, 48, 8 * words));
    }
    Decoder::new(&[probe(system, "sel", &fields)], Endian::Little, 8)
}

const SEEN: Seen = Seen {
    ts: 5,
    cpu: 1,
    process: -1,
    thread: -1,
};

fn record(words: &[u64]) -> Vec<u8> {
    let mut record = vec![7, 0, 0, 0, 9, 0, 0, 0];
    record.extend([0; 8]);
    for int in [20_i32, 17, 3, -1, 24, 2] {
        record.extend(int.to_le_bytes());
    }
    record.extend(0xffff_8880_u64.to_le_bytes());
    words
        .iter()
        .for_each(|word| record.extend(word.to_le_bytes()));
    record
}

fn decoded(decoder: &Decoder, words: &[u64]) -> Option<Selection> {
    match decoder.decode_any(&record(words), &SEEN).ok()?.payload {
        Payload::Select(selection) => Some(selection),
        other => panic!("{other:?}"),
    }
}

#[test]
fn selections_of_any_recorder_are_told_by_their_group() {
    for system in ["ttwu", "ttwu_4711_123456"] {
        let decoder = selection(system, None);
        assert!(decoder.has("ttwu", "sel"));
        let found = decoded(&decoder, &[]).unwrap();
        assert_eq!((found.pid, found.prev, found.recent), (20, 3, -1));
        assert_eq!((found.flips, found.wake_flags), (Some(17), Some(24)));
        assert_eq!(found.allowed, 2);
        assert_eq!((found.last_wakee, found.mask), (0xffff_8880, None));
    }
    let foreign = selection("ttwux", None);
    let event = foreign.decode_any(&record(&[]), &SEEN).unwrap();
    assert_eq!(event.payload, Payload::Other);
    assert_eq!(foreign.types()[0].system, "ttwux");
}

#[test]
fn what_a_kernel_does_not_let_fetch_is_unknown() {
    let fields = [("s32 pid", 16, 4), ("s32 prev", 20, 4)];
    let decoder = Decoder::new(&[probe("ttwu_1_2", "sel", &fields)], Endian::Little, 8);
    let found = decoded(&decoder, &[]).unwrap();
    assert_eq!((found.pid, found.prev), (20, 17));
    assert_eq!(
        (found.flips, found.wake_flags, found.mask),
        (None, None, None)
    );
    assert_eq!((found.recent, found.allowed), (-1, -1));
    let fields = [("s32 pid", 16, 4)];
    let decoder = Decoder::new(&[probe("ttwu_1_2", "sel", &fields)], Endian::Little, 8);
    let event = decoder.decode_any(&record(&[]), &SEEN).unwrap();
    assert_eq!(event.payload, Payload::Other);
}

#[test]
fn masks_are_read_whole_or_not_at_all() {
    let one = selection("ttwu_1_2", Some("u64 mask"));
    let mask = |words: &[u64]| Some(CpuMask(SmallVec::from_slice(words)));
    assert_eq!(decoded(&one, &[0b110]).unwrap().mask, mask(&[0b110]));
    let two = selection("ttwu_1_2", Some("u64 mask[2]"));
    assert_eq!(decoded(&two, &[1, 2]).unwrap().mask, mask(&[1, 2]));
    // What the kernel could not read is zeros.
    assert_eq!(decoded(&two, &[0, 0]).unwrap().mask, None);
    // Cut off: the record is damaged.
    assert_eq!(decoded(&two, &[1]), None);
}

#[test]
fn other_probes_of_the_recorder_are_counted_by_name() {
    let fields = [("u64 start", 8, 8), ("u64 end", 16, 8)];
    let decoder = Decoder::new(&[probe("ttwu_1_2", "later", &fields)], Endian::Little, 8);
    let event = decoder.decode_any(&record(&[]), &SEEN).unwrap();
    assert_eq!(event.payload, Payload::Other);
    assert_eq!(
        (
            decoder.types()[0].system.as_str(),
            decoder.types()[0].name.as_str()
        ),
        ("ttwu", "later")
    );
}

#[test]
fn moves_by_numa_balancing_name_their_tasks() {
    let of = |name: &str, fields: &[(&str, usize, usize)]| {
        let decoder = Decoder::new(&[probe("sched", name, fields)], Endian::Little, 8);
        decoder.decode_any(&record(&[]), &SEEN).unwrap().payload
    };
    let moved = of(
        "sched_move_numa",
        &[("int pid", 16, 4), ("int dst_cpu", 20, 4)],
    );
    assert_eq!(moved, Payload::NumaMove { pid: 20 });
    let swapped = of(
        "sched_swap_numa",
        &[("int src_pid", 16, 4), ("int dst_pid", 20, 4)],
    );
    let expected = Payload::NumaSwap {
        src_pid: 20,
        dst_pid: 17,
    };
    assert_eq!(swapped, expected);
    // One that stays is not moved.
    let stuck = of(
        "sched_stick_numa",
        &[("int src_pid", 16, 4), ("int dst_pid", 20, 4)],
    );
    assert_eq!(stuck, Payload::Other);
}

/// As Linux 6.12 lays it out: a thread by glibc, with CLONE_THREAD among its flags; a process by `fork`, with none but
/// those that set its thread id and clear it.
#[test]
fn new_tasks_are_threads_or_processes() {
    let fields = [
        ("pid_t pid", 8, 4),
        ("char comm[16]", 12, 16),
        ("unsigned long clone_flags", 32, 8),
        ("short oom_score_adj", 40, 2),
    ];
    let told = |fields: &[_], flags: u64| {
        let mut record = vec![7, 0, 0, 0, 9, 0, 0, 0];
        record.extend(1234_i32.to_le_bytes());
        record.extend([b'x'; 20]);
        record.extend(flags.to_le_bytes());
        record.extend([0; 8]);
        let decoder = Decoder::new(&[probe("task", "task_newtask", fields)], Endian::Little, 8);
        decoder.decode_any(&record, &SEEN).unwrap().payload
    };
    let of = |thread| Payload::NewTask { pid: 1234, thread };
    assert_eq!(told(&fields, 0x003d_0f00), of(true));
    assert_eq!(told(&fields, 0x0120_0000), of(false));
    assert_eq!(told(&fields[..2], 0), Payload::Other);
}

/// As Linux 6.12 laid the probe out: the flush of a huge page, and that of all addresses.
#[test]
fn ranges_to_be_flushed_are_read() {
    let fields = [
        ("unsigned long __probe_ip", 8, 8),
        ("u64 start", 16, 8),
        ("u64 end", 24, 8),
        ("u32 shift", 32, 4),
        ("u8 freed", 36, 1),
    ];
    let range = |fields: &[_], start: u64, end: u64| {
        let mut record = vec![7, 0, 0, 0, 9, 0, 0, 0];
        record.extend([0; 8]);
        record.extend(start.to_le_bytes());
        record.extend(end.to_le_bytes());
        record.extend([21, 0, 0, 0, 1, 0, 0, 0]);
        let decoder = Decoder::new(&[probe("ttwu_1_2", "tlb", fields)], Endian::Little, 8);
        decoder.decode_any(&record, &SEEN).unwrap().payload
    };
    let of = |start, end, shift| Payload::FlushRange { start, end, shift };
    let (start, end) = (0x7f12_0000_0000, 0x7f12_0020_0000);
    assert_eq!(range(&fields, start, end), of(start, end, 21));
    assert_eq!(range(&fields, 0, u64::MAX), of(0, u64::MAX, 21));
    // A kernel that does not let the shift be fetched; and one without the end.
    assert_eq!(range(&fields[..3], start, end), of(start, end, 0));
    assert_eq!(range(&fields[..2], start, end), Payload::Other);
}
