//! A finished run as a recorder would have it: events in time order, the machine, and what was lost.

use super::bytes::Bytes;
use super::events::{Event, SYMBOLS};
use super::formats::{Format, encode, formats};
use super::kernels::Kernel;
use super::machine::{Cpu, Machine};

/// A stretch in which a CPU's events did not fit into its buffer: those strictly between two stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    pub cpu: Cpu,
    pub after: i64,
    pub before: i64,
    /// Whether the buffer counted them.
    pub counted: bool,
}

#[derive(Debug, Clone)]
pub struct Recording {
    pub kernel: Kernel,
    pub machine: Machine,
    pub events: Vec<Event>,
    pub probes: bool,
    /// Whether the events of interrupts and soft interrupts were asked for.
    pub tells_softirqs: bool,
    /// Whether the machine's topology is told.
    pub topology: bool,
    /// Lines of the machine record: who may run where.
    pub record: Vec<String>,
    /// Pid, process and name of every task.
    pub tasks: Vec<(i32, i32, String)>,
    pub losses: Vec<Loss>,
}

/// An event as it is stored.
pub struct Stored {
    pub ts: i64,
    pub pid: i32,
    pub tgid: i32,
    pub format: usize,
    pub record: Vec<u8>,
    /// Events of this CPU lost directly before it, and whether they were counted.
    pub lost: Option<(u64, bool)>,
}

impl Recording {
    pub fn formats(&self) -> Vec<Format> {
        let mut all = formats(self.kernel, self.probes);
        all.retain(|format| self.tells_softirqs || format.system != "irq");
        all
    }

    /// One CPU's events as they are stored, in time order.
    pub fn of_cpu(&self, cpu: Cpu, formats: &[Format]) -> Vec<Stored> {
        let mut stored: Vec<Stored> = Vec::new();
        let mut lost: Option<(u64, bool)> = None;
        for event in self.events.iter().filter(|event| event.cpu == cpu) {
            let Some((format, record)) = encode(event, formats, self.kernel, &self.machine) else {
                continue;
            };
            let loss = self
                .losses
                .iter()
                .find(|loss| loss.cpu == cpu && loss.after < event.ts && event.ts < loss.before);
            if let Some(loss) = loss {
                let (count, _) = lost.unwrap_or((0, true));
                lost = Some((count + 1, loss.counted));
                continue;
            }
            stored.push(Stored {
                ts: event.ts,
                pid: event.pid,
                tgid: event.tgid,
                format,
                record,
                lost: lost.take(),
            });
        }
        stored
    }
}

/// What trace.dat and perf.data begin alike with: the formats of all events, symbols, names of tasks.
pub fn tracing_data(recording: &Recording, formats: &[Format], version: &str) -> Bytes {
    let mut out = Bytes::default();
    out.raw(b"\x17\x08\x44tracing").text(version);
    out.u8(0).u8(8).u32(4096);
    out.text("header_page").sized(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n",
    );
    out.text("header_event")
        .sized("# compressed entry header\n");
    let own: Vec<&Format> = formats.iter().filter(|f| f.system == "ftrace").collect();
    out.u32(own.len());
    for format in own {
        out.sized(&format.text());
    }
    let mut systems: Vec<&str> = formats.iter().map(|format| format.system).collect();
    systems.retain(|system| *system != "ftrace");
    systems.sort_unstable();
    systems.dedup();
    out.u32(systems.len());
    for system in systems {
        let of_system = formats.iter().filter(|f| f.system == system);
        out.text(system).u32(of_system.clone().count());
        for format in of_system {
            out.sized(&format.text());
        }
    }
    let symbols = SYMBOLS.map(|(address, name)| format!("{address:x} T {name}\n"));
    let symbols = symbols.concat();
    out.u32(symbols.len()).raw(symbols.as_bytes());
    out.u32(0);
    let names = recording.tasks.iter();
    let names: String = names
        .map(|(pid, _, name)| format!("{pid} {name}\n"))
        .collect();
    out.sized(&names);
    out
}
