//! The tracepoints' formats as the simulated kernels describe them, and their records.

use super::events::{Event, Left, Vector, What, Who};
use super::kernels::Kernel;
use super::machine::Machine;

/// A field: its declaration, as in the format's text, and where it lies.
#[derive(Debug, Clone)]
struct Field {
    declaration: &'static str,
    offset: usize,
    size: usize,
    signed: bool,
}

/// One event type.
#[derive(Debug, Clone)]
pub struct Format {
    pub system: &'static str,
    pub name: &'static str,
    pub id: u16,
    fields: Vec<Field>,
    print: String,
}

/// A field's value.
enum Value<'a> {
    Int(i64),
    Name(&'a str),
    /// Of varying size, behind the fixed part.
    Data(Vec<u8>),
    /// A text to the record's end.
    Tail(&'a str),
}

const COMMON: [&str; 4] = [
    "unsigned short common_type",
    "unsigned char common_flags",
    "unsigned char common_preempt_count",
    "int common_pid",
];

const NEW_STATES: &str = r#"REC->prev_state & 0xff ? __print_flags(REC->prev_state & 0xff, "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : """#;
const OLD_STATES: &str = r#"REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "X" }, { 32, "Z" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : """#;

impl Format {
    fn new(system: &'static str, name: &'static str, fields: &[&'static str]) -> Self {
        let mut format = Self {
            system,
            name,
            id: 0,
            fields: Vec::new(),
            print: "\"\"".to_owned(),
        };
        let mut end: usize = 0;
        for declaration in COMMON.iter().chain(fields) {
            let (size, align) = size_of(declaration);
            let offset = end.next_multiple_of(align);
            end = offset + size;
            format.fields.push(Field {
                declaration,
                offset,
                size,
                signed: !declaration.contains("unsigned")
                    && !declaration.starts_with('u')
                    && !declaration.starts_with("char")
                    && !declaration.contains('*')
                    && !declaration.contains("__data_loc"),
            });
        }
        format
    }

    /// The text of the event's `format` file.
    pub fn text(&self) -> String {
        let mut text = format!("name: {}\nID: {}\nformat:\n", self.name, self.id);
        for (place, field) in self.fields.iter().enumerate() {
            if place == COMMON.len() {
                text.push('\n');
            }
            text.push_str(&format!(
                "\tfield:{};\toffset:{};\tsize:{};\tsigned:{};\n",
                field.declaration,
                field.offset,
                field.size,
                u8::from(field.signed)
            ));
        }
        text.push_str(&format!("\nprint fmt: {}\n", self.print));
        text
    }

    fn record(&self, event: &Event, values: &[Value]) -> Vec<u8> {
        assert_eq!(
            values.len(),
            self.fields.len() - COMMON.len(),
            "{}",
            self.name
        );
        let fixed = self.fields.iter().map(|f| f.offset + f.size).max();
        let mut bytes = vec![0; fixed.unwrap_or(8).next_multiple_of(4)];
        bytes[0..2].copy_from_slice(&self.id.to_le_bytes());
        bytes[2] = event.flags;
        bytes[4..8].copy_from_slice(&event.pid.to_le_bytes());
        for (field, value) in self.fields[COMMON.len()..].iter().zip(values) {
            let place = field.offset..field.offset + field.size;
            match value {
                Value::Int(value) => {
                    bytes[place].copy_from_slice(&value.to_le_bytes()[..field.size]);
                }
                Value::Name(name) => {
                    let raw = name.as_bytes();
                    let length = raw.len().min(15);
                    bytes[place][..length].copy_from_slice(&raw[..length]);
                }
                Value::Data(data) => {
                    let at = bytes.len().next_multiple_of(8);
                    bytes.resize(at, 0);
                    bytes.extend(data);
                    let word = (at | data.len() << 16) as u32;
                    bytes[place].copy_from_slice(&word.to_le_bytes());
                }
                Value::Tail(text) => {
                    bytes.truncate(field.offset);
                    bytes.extend(text.as_bytes());
                    bytes.push(0);
                }
            }
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }
}

/// Size and alignment of a declared field.
fn size_of(declaration: &str) -> (usize, usize) {
    let array = declaration
        .split_once('[')
        .filter(|_| !declaration.starts_with("__data_loc"))
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(length, _)| length.parse().unwrap_or(0));
    let word = |name: &str| declaration.split(' ').any(|w| w == name);
    let each = match () {
        () if declaration.starts_with("__data_loc") => 4,
        () if word("char") => 1,
        () if word("short") => 2,
        () if word("long") || word("*") || word("u64") => 8,
        () => 4,
    };
    (each * array.unwrap_or(1), each)
}

/// All event types of a kernel, with ids. Probes exist where they were set.
pub fn formats(kernel: Kernel, probes: bool) -> Vec<Format> {
    const WAKE: [&str; 4] = ["char comm[16]", "pid_t pid", "int prio", "int target_cpu"];
    const OLD_WAKE: [&str; 5] = [
        "char comm[16]",
        "pid_t pid",
        "int prio",
        "int success",
        "int target_cpu",
    ];
    let sends = kernel.tells_sends();
    let wake: &[&'static str] = if sends { &WAKE } else { &OLD_WAKE };
    let switch = [
        "char prev_comm[16]",
        "pid_t prev_pid",
        "int prev_prio",
        "long prev_state",
        "char next_comm[16]",
        "pid_t next_pid",
        "int next_prio",
    ];
    let mut all = vec![
        Format::new("ftrace", "print", &["unsigned long ip", "char buf[]"]),
        Format::new("sched", "sched_switch", &switch),
        Format::new("sched", "sched_wakeup", wake),
        Format::new("sched", "sched_wakeup_new", wake),
    ];
    all[1].print = format!(
        "\"prev_comm=%s prev_state=%s%s\", REC->prev_comm, {}, REC->next_prio",
        if kernel.old_states() {
            OLD_STATES
        } else {
            NEW_STATES
        }
    );
    if kernel.has_waking() {
        all.push(Format::new("sched", "sched_waking", wake));
    }
    let more: [(&'static str, &'static str, &[&'static str]); 14] = [
        (
            "sched",
            "sched_migrate_task",
            &[
                "char comm[16]",
                "pid_t pid",
                "int prio",
                "int orig_cpu",
                "int dest_cpu",
            ],
        ),
        (
            "sched",
            "sched_process_fork",
            &[
                "char parent_comm[16]",
                "pid_t parent_pid",
                "char child_comm[16]",
                "pid_t child_pid",
            ],
        ),
        (
            "sched",
            "sched_process_exec",
            &["__data_loc char[] filename", "pid_t pid", "pid_t old_pid"],
        ),
        (
            "sched",
            "sched_process_exit",
            &["char comm[16]", "pid_t pid", "int prio"],
        ),
        ("sched", "sched_wake_idle_without_ipi", &["int cpu"]),
        (
            "sched",
            "sched_move_numa",
            &[
                "pid_t pid",
                "pid_t tgid",
                "pid_t ngid",
                "int src_cpu",
                "int src_nid",
                "int dst_cpu",
                "int dst_nid",
            ],
        ),
        (
            "sched",
            "sched_stat_runtime",
            &["char comm[16]", "pid_t pid", "u64 runtime"],
        ),
        ("tlb", "tlb_flush", &["int reason", "unsigned long pages"]),
        ("irq", "softirq_raise", &["unsigned int vec"]),
        ("irq", "softirq_entry", &["unsigned int vec"]),
        ("irq", "softirq_exit", &["unsigned int vec"]),
        (
            "irq",
            "irq_handler_entry",
            &["int irq", "__data_loc char[] name"],
        ),
        ("irq", "irq_handler_exit", &["int irq", "int ret"]),
        (
            "syscalls",
            "sys_enter_sched_setaffinity",
            &[
                "int __syscall_nr",
                "u64 pid",
                "u64 len",
                "u64 user_mask_ptr",
            ],
        ),
    ];
    all.extend(more.map(|(system, name, fields)| Format::new(system, name, fields)));
    for name in [
        "reschedule_entry",
        "reschedule_exit",
        "call_function_entry",
        "call_function_exit",
        "call_function_single_entry",
        "call_function_single_exit",
    ] {
        all.push(Format::new("irq_vectors", name, &["int vector"]));
    }
    if sends {
        let sites = ["unsigned int cpu", "void * callsite", "void * callback"];
        all.push(Format::new("ipi", "ipi_send_cpu", &sites));
        let sites = [
            "__data_loc cpumask_t cpumask",
            "void * callsite",
            "void * callback",
        ];
        all.push(Format::new("ipi", "ipi_send_cpumask", &sites));
        let sites = [
            "unsigned int cpu",
            "void * callsite",
            "void * func",
            "void * csd",
        ];
        all.push(Format::new("csd", "csd_queue_cpu", &sites));
        for name in ["csd_function_entry", "csd_function_exit"] {
            all.push(Format::new("csd", name, &["void * func", "void * csd"]));
        }
    }
    if probes {
        let fields = [
            "unsigned long __probe_ip",
            "s32 pid",
            "u32 flips",
            "u64 last",
            "s32 rec",
            "s32 prev",
            "s32 flags",
            "s32 nr",
        ];
        all.push(Format::new("ttwu", "sel", &fields));
        let fields = [
            "unsigned long __probe_func",
            "unsigned long __probe_ret_ip",
            "s32 cpu",
        ];
        all.push(Format::new("ttwu", "selret", &fields));
    }
    for (place, format) in all.iter_mut().enumerate() {
        // Ids differ from kernel to kernel; that of `print` does not.
        format.id = if place == 0 { 5 } else { 200 + place as u16 };
    }
    all
}

fn vector(vector: Vector, end: &str) -> (String, i64) {
    let (name, number) = match vector {
        Vector::Reschedule => ("reschedule", 253),
        Vector::Function => ("call_function", 252),
        Vector::FunctionSingle => ("call_function_single", 251),
    };
    (format!("{name}_{end}"), number)
}

fn left(left: Left, old: bool) -> i64 {
    match left {
        Left::Runnable => 0,
        Left::Preempted if old => 2048,
        Left::Preempted => 0x100,
        Left::Sleeping => 1,
        Left::Uninterruptible => 2,
        Left::Dead => 16,
    }
}

/// The format's place and the record of an event; `None` if the kernel has no such event.
pub fn encode(
    event: &Event,
    formats: &[Format],
    kernel: Kernel,
    machine: &Machine,
) -> Option<(usize, Vec<u8>)> {
    use Value::{Data, Int, Name};
    let id = |cpu: usize| Int(i64::from(machine.ids[cpu]));
    let int = |value: i32| Int(i64::from(value));
    let address = |value: u64| Int(value.cast_signed());
    let named = |name: &str| formats.iter().position(|f| f.name == name);
    let wake = |who: &Who, cpu: usize| {
        let mut values = vec![int(who.pid), int(who.prio)];
        if !kernel.tells_sends() {
            values.push(Int(1));
        }
        values.push(id(cpu));
        values
    };
    let comm = |who: &Who| who.comm.clone();
    let (name, mut values): (String, Vec<Value>) = match &event.what {
        What::Switch {
            prev,
            left: state,
            next,
        } => (
            "sched_switch".into(),
            vec![
                Name(&prev.comm),
                int(prev.pid),
                int(prev.prio),
                Int(left(*state, kernel.old_states())),
                Name(&next.comm),
                int(next.pid),
                int(next.prio),
            ],
        ),
        What::Waking { who, prev } => ("sched_waking".into(), wake(who, *prev)),
        What::Wakeup { who, to } => ("sched_wakeup".into(), wake(who, *to)),
        What::New { who, to } => ("sched_wakeup_new".into(), wake(who, *to)),
        What::Migrate { who, from, to } => (
            "sched_migrate_task".into(),
            vec![int(who.pid), int(who.prio), id(*from), id(*to)],
        ),
        What::Fork { parent, child } => (
            "sched_process_fork".into(),
            vec![
                Name(&parent.comm),
                int(parent.pid),
                Name(&child.comm),
                int(child.pid),
            ],
        ),
        What::Exec { pid, old_pid } => (
            "sched_process_exec".into(),
            vec![Data(b"/bin/sim\0".to_vec()), int(*pid), int(*old_pid)],
        ),
        What::Exit { who } => (
            "sched_process_exit".into(),
            vec![int(who.pid), int(who.prio)],
        ),
        What::Poll { cpu } => ("sched_wake_idle_without_ipi".into(), vec![id(*cpu)]),
        What::SendIpi {
            cpu,
            callsite,
            callback,
        } => (
            "ipi_send_cpu".into(),
            vec![id(*cpu), address(*callsite), address(*callback)],
        ),
        What::SendIpis {
            cpus,
            callsite,
            callback,
        } => {
            let most = machine.ids.iter().max().map_or(0, |id| id / 64) as usize;
            let mut words = vec![0_u64; most + 1];
            for &cpu in cpus {
                words[machine.ids[cpu] as usize / 64] |= 1 << (machine.ids[cpu] % 64);
            }
            let mask = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            (
                "ipi_send_cpumask".into(),
                vec![Data(mask), address(*callsite), address(*callback)],
            )
        }
        What::Queue {
            cpu,
            callsite,
            func,
            csd,
        } => (
            "csd_queue_cpu".into(),
            vec![id(*cpu), address(*callsite), address(*func), address(*csd)],
        ),
        What::FunctionEntry { func, csd } => (
            "csd_function_entry".into(),
            vec![address(*func), address(*csd)],
        ),
        What::FunctionExit { func, csd } => (
            "csd_function_exit".into(),
            vec![address(*func), address(*csd)],
        ),
        What::VectorEntry(which) => {
            let (name, number) = vector(*which, "entry");
            (name, vec![Int(number)])
        }
        What::VectorExit(which) => {
            let (name, number) = vector(*which, "exit");
            (name, vec![Int(number)])
        }
        What::Tlb { reason, pages } => ("tlb_flush".into(), vec![int(*reason), Int(*pages)]),
        What::Raise(vec) => ("softirq_raise".into(), vec![Int(i64::from(*vec))]),
        What::SoftirqEntry(vec) => ("softirq_entry".into(), vec![Int(i64::from(*vec))]),
        What::SoftirqExit(vec) => ("softirq_exit".into(), vec![Int(i64::from(*vec))]),
        What::IrqEntry => (
            "irq_handler_entry".into(),
            vec![Int(42), Data(b"eth0\0".to_vec())],
        ),
        What::IrqExit => ("irq_handler_exit".into(), vec![Int(42), Int(1)]),
        What::Select(select) => (
            "sel".into(),
            vec![
                Int(0),
                int(select.pid),
                Int(i64::from(select.flips)),
                address(select.last_wakee),
                int(select.recent),
                id(select.prev),
                int(select.flags),
                Int(select.allowed as i64),
            ],
        ),
        What::Selected { cpu } => ("selret".into(), vec![Int(0), Int(0), id(*cpu)]),
        What::SetAffinity { pid } => (
            "sys_enter_sched_setaffinity".into(),
            vec![Int(203), int(*pid), Int(128), Int(0x7fff_0000)],
        ),
        What::MoveNuma { who, from, to } => (
            "sched_move_numa".into(),
            vec![
                int(who.pid),
                int(who.pid),
                Int(0),
                id(*from),
                Int(machine.node(*from) as i64),
                id(*to),
                Int(machine.node(*to) as i64),
            ],
        ),
        What::Marker(text) => ("print".into(), vec![Int(0), Value::Tail(text)]),
        What::Runtime { who } => ("sched_stat_runtime".into(), vec![int(who.pid), Int(1000)]),
    };
    // Those that start with the task's name.
    let first = match &event.what {
        What::Waking { who, .. }
        | What::Wakeup { who, .. }
        | What::New { who, .. }
        | What::Migrate { who, .. }
        | What::Exit { who }
        | What::Runtime { who } => Some(comm(who)),
        _ => None,
    };
    let place = named(&name)?;
    let record = match &first {
        Some(comm) => {
            values.insert(0, Name(comm));
            formats[place].record(event, &values)
        }
        None => formats[place].record(event, &values),
    };
    Some((place, record))
}
