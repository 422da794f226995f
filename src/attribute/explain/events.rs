//! Recorded events as they are shown: their fields under the kernel's own names, as `perf script` and
//! `trace-cmd report` print them.

use serde::Serialize;
use ttwu_parsers::decode::EventType;
use ttwu_parsers::event::{Comm, CpuMask, Event, Payload, Selection, Wake, escape};
use ttwu_parsers::print_fmt::PrevState;
use ttwu_parsers::topology::cpulist::format_list;

/// One recorded event. All text is safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventLine {
    pub ts_ns: i64,
    pub cpu: u32,
    /// The task that was current there.
    pub pid: i32,
    pub task: String,
    pub event: String,
    #[serde(serialize_with = "as_map")]
    pub fields: Vec<(&'static str, String)>,
}

fn as_map<S: serde::Serializer>(
    fields: &[(&'static str, String)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(fields.iter().map(|(name, value)| (name, value)))
}

impl EventLine {
    /// An event in words; `name` tells a task's name by its pid.
    pub fn new(event: &Event, types: &[EventType], name: impl Fn(i32) -> String) -> Self {
        let of = types.get(usize::from(event.type_index));
        Self {
            ts_ns: event.ts,
            cpu: event.cpu,
            pid: event.pid,
            task: match event.pid {
                0 => format!("swapper/{}", event.cpu),
                pid => name(pid),
            },
            event: of.map_or_else(String::new, |of| escape(of.name.as_bytes())),
            fields: fields(&event.payload),
        }
    }
}

type Fields = Vec<(&'static str, String)>;

/// A decoded event's fields; those of events that are only counted are not read.
fn fields(payload: &Payload) -> Fields {
    let hex = |address: u64| format!("{address:#x}");
    match payload {
        Payload::Switch {
            prev_comm,
            prev_pid,
            prev_prio,
            prev_state,
            next_comm,
            next_pid,
            next_prio,
        } => vec![
            ("prev_comm", prev_comm.escaped()),
            ("prev_pid", prev_pid.to_string()),
            ("prev_prio", prev_prio.to_string()),
            ("prev_state", state(*prev_state)),
            ("next_comm", next_comm.escaped()),
            ("next_pid", next_pid.to_string()),
            ("next_prio", next_prio.to_string()),
        ],
        Payload::Waking(wake) | Payload::Wakeup(wake) | Payload::WakeupNew(wake) => of_wake(wake),
        Payload::Migrate {
            comm,
            pid,
            prio,
            orig_cpu,
            dest_cpu,
        } => {
            let mut fields = of_task(comm, *pid);
            fields.push(("prio", prio.to_string()));
            fields.push(("orig_cpu", orig_cpu.to_string()));
            fields.push(("dest_cpu", dest_cpu.to_string()));
            fields
        }
        Payload::Fork {
            parent_pid,
            child_pid,
            child_comm,
        } => vec![
            ("pid", parent_pid.to_string()),
            ("child_comm", child_comm.escaped()),
            ("child_pid", child_pid.to_string()),
        ],
        Payload::Exec { pid, old_pid } => {
            vec![("pid", pid.to_string()), ("old_pid", old_pid.to_string())]
        }
        Payload::Exit { comm, pid } => of_task(comm, *pid),
        Payload::WakeIdleWithoutIpi { cpu } => vec![("cpu", cpu.to_string())],
        Payload::IpiSendCpu {
            cpu,
            callsite,
            callback,
        } => vec![
            ("cpu", cpu.to_string()),
            ("callsite", hex(*callsite)),
            ("callback", hex(*callback)),
        ],
        Payload::IpiSendMask {
            cpus,
            callsite,
            callback,
        } => vec![
            ("cpumask", list(cpus)),
            ("callsite", hex(*callsite)),
            ("callback", hex(*callback)),
        ],
        Payload::CsdQueue {
            cpu,
            callsite,
            func,
            ..
        } => vec![
            ("cpu", cpu.to_string()),
            ("callsite", hex(*callsite)),
            ("func", hex(*func)),
        ],
        Payload::CsdEntry { func, .. } | Payload::CsdExit { func, .. } => {
            vec![("func", hex(*func))]
        }
        Payload::IpiRaise { cpus, reason } => {
            vec![("target_mask", list(cpus)), ("reason", hex(*reason))]
        }
        Payload::IpiEntry { reason } | Payload::IpiExit { reason } => {
            vec![("reason", hex(*reason))]
        }
        Payload::TlbFlush { reason, pages } => {
            vec![("reason", reason.to_string()), ("pages", pages.to_string())]
        }
        Payload::Select(selection) => of_selection(selection),
        Payload::Selected { cpu } => vec![("cpu", cpu.to_string())],
        Payload::SetAffinity { pid } => vec![("pid", pid.to_string())],
        _ => Vec::new(),
    }
}

fn of_task(comm: &Comm, pid: i32) -> Fields {
    vec![("comm", comm.escaped()), ("pid", pid.to_string())]
}

fn of_wake(wake: &Wake) -> Fields {
    let mut fields = of_task(&wake.comm, wake.pid);
    fields.push(("prio", wake.prio.to_string()));
    fields.push(("target_cpu", wake.target_cpu.to_string()));
    fields
}

/// The probe's fields under the names that the recorder gives them, as far as they were recorded.
fn of_selection(selection: &Selection) -> Fields {
    let known = |number: i32| (number >= 0).then(|| number.to_string());
    let fields = [
        ("pid", Some(selection.pid.to_string())),
        ("flips", selection.flips.map(|flips| flips.to_string())),
        ("rec", known(selection.recent)),
        ("prev", known(selection.prev)),
        ("nr", known(selection.allowed)),
    ];
    let fields = fields.into_iter();
    fields
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn list(cpus: &CpuMask) -> String {
    format_list(&cpus.cpus().collect::<Vec<_>>())
}

/// The state as the kernel prints it: its letter, and `+` if it was preempted inside the kernel.
fn state(of: PrevState) -> String {
    let letter = char::from(of.letter);
    match of.preempted {
        true => format!("{letter}+"),
        false => letter.to_string(),
    }
}
