//! `trace-cmd report` as the judge, where it is installed.

use std::process::{Command, Stdio};

use super::*;
use ttwu_parsers::event::Wake;
use ttwu_parsers::trace::Trace;

/// One line of `trace-cmd report -t -R`.
struct Line<'a> {
    comm_pid: &'a str,
    cpu: u32,
    ts: i64,
    name: &'a str,
    fields: &'a str,
}

/// `named:  comm-pid [cpu] seconds.nanoseconds: name: fields`; the buffer's name only where there are several,
/// and stamps without a point where they are no time.
fn parse(line: &str) -> Option<Line<'_>> {
    let open = line.find(" [")?;
    // Names may hold brackets too; the CPU is the first bracket that holds three digits.
    let at = (open..line.len()).find(|&at| {
        let rest = line.as_bytes().get(at..).unwrap_or_default();
        matches!(rest, [b' ', b'[', a, b, c, b']', ..] if [a, b, c].iter().all(|d| d.is_ascii_digit()))
    })?;
    let comm_pid = line.get(..at)?.trim();
    let cpu = line.get(at + 2..at + 5)?.parse().ok()?;
    let (stamp, rest) = line.get(at + 6..)?.split_once(": ")?;
    let (name, fields) = rest.trim_start().split_once(':')?;
    let stamp = stamp.trim();
    let ts = match stamp.split_once('.') {
        Some((s, ns)) => s.parse::<i64>().ok()? * 1_000_000_000 + ns.parse::<i64>().ok()?,
        None => stamp.parse().ok()?,
    };
    Some(Line {
        comm_pid: comm_pid
            .rsplit_once(": ")
            .map_or(comm_pid, |(_, c)| c.trim()),
        cpu,
        ts,
        name,
        fields: fields.trim(),
    })
}

fn report(path: &Path) -> Option<String> {
    let output = Command::new("trace-cmd")
        .args(["report", "-t", "-R"])
        .arg(path)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of a field in `-R` output, as text.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    let label = format!("{name}=");
    let at = match fields.starts_with(&label) {
        true => label.len(),
        false => fields.find(&format!(" {label}"))? + label.len() + 1,
    };
    let value = fields.get(at..)?;
    // A name may hold spaces; what follows it is the next `word=`.
    let end = value
        .match_indices(' ')
        .map(|(at, _)| at)
        .find(|&at| {
            let next = value[at + 1..].split(' ').next().unwrap_or("");
            next.split_once('=').is_some_and(|(key, _)| {
                key.chars().all(|c| c.is_alphanumeric() || c == '_') && !key.is_empty()
            })
        })
        .unwrap_or(value.len());
    value.get(..end)
}

fn number(fields: &str, name: &str) -> i64 {
    let value = field(fields, name).unwrap_or_else(|| panic!("no {name} in `{fields}`"));
    let parsed = match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map(u64::cast_signed).ok(),
        None => value.parse().ok(),
    };
    parsed.unwrap_or_else(|| panic!("{name}={value}"))
}

/// The letter and mark that `prev_state` has on every kernel since 4.14.
fn state(raw: i64) -> (u8, bool) {
    let letters = [
        (1, b'S'),
        (2, b'D'),
        (4, b'T'),
        (8, b't'),
        (16, b'X'),
        (32, b'Z'),
        (64, b'P'),
        (128, b'I'),
    ];
    let found = letters.iter().find(|(bit, _)| raw & bit != 0);
    (found.map_or(b'R', |&(_, letter)| letter), raw & 256 != 0)
}

/// Compares one event's fields; returns how many were compared. Old kernels have other letters of states.
fn compare(event: &Event, line: &Line<'_>, modern: bool) -> usize {
    let f = line.fields;
    let wake = |wake: &Wake| {
        assert_eq!(
            wake.comm.as_bytes(),
            field(f, "comm").unwrap().as_bytes(),
            "{f}"
        );
        assert_eq!(i64::from(wake.pid), number(f, "pid"));
        assert_eq!(i64::from(wake.prio), number(f, "prio"));
        assert_eq!(i64::from(wake.target_cpu), number(f, "target_cpu"));
        4
    };
    let same = |pairs: &[(&str, i64)]| {
        for (name, value) in pairs {
            assert_eq!(*value, number(f, name), "{name} in {f}");
        }
        pairs.len()
    };
    match &event.payload {
        Payload::Switch {
            prev_comm,
            prev_pid,
            prev_prio,
            prev_state,
            next_comm,
            next_pid,
            next_prio,
        } => {
            assert_eq!(
                prev_comm.as_bytes(),
                field(f, "prev_comm").unwrap().as_bytes()
            );
            assert_eq!(
                next_comm.as_bytes(),
                field(f, "next_comm").unwrap().as_bytes()
            );
            let told = (prev_state.letter, prev_state.preempted);
            assert!(!modern || told == state(number(f, "prev_state")), "{f}");
            3 + same(&[
                ("prev_pid", i64::from(*prev_pid)),
                ("prev_prio", i64::from(*prev_prio)),
                ("next_pid", i64::from(*next_pid)),
                ("next_prio", i64::from(*next_prio)),
            ])
        }
        Payload::Waking(w) | Payload::Wakeup(w) | Payload::WakeupNew(w) => wake(w),
        Payload::Migrate {
            comm,
            pid,
            prio,
            orig_cpu,
            dest_cpu,
        } => {
            assert_eq!(comm.as_bytes(), field(f, "comm").unwrap().as_bytes());
            1 + same(&[
                ("pid", i64::from(*pid)),
                ("prio", i64::from(*prio)),
                ("orig_cpu", i64::from(*orig_cpu)),
                ("dest_cpu", i64::from(*dest_cpu)),
            ])
        }
        Payload::Fork {
            parent_pid,
            child_pid,
            child_comm,
        } => {
            assert_eq!(
                child_comm.as_bytes(),
                field(f, "child_comm").unwrap().as_bytes()
            );
            1 + same(&[
                ("parent_pid", i64::from(*parent_pid)),
                ("child_pid", i64::from(*child_pid)),
            ])
        }
        Payload::Exec { pid, old_pid } => {
            same(&[("pid", i64::from(*pid)), ("old_pid", i64::from(*old_pid))])
        }
        Payload::Exit { comm, pid } => {
            assert_eq!(comm.as_bytes(), field(f, "comm").unwrap().as_bytes());
            1 + same(&[("pid", i64::from(*pid))])
        }
        Payload::WakeIdleWithoutIpi { cpu } | Payload::IpiSendCpu { cpu, .. } => {
            same(&[("cpu", i64::from(*cpu))])
        }
        Payload::TlbFlush { reason, pages } => {
            same(&[("reason", i64::from(*reason)), ("pages", *pages)])
        }
        Payload::Select(s) => same(&[
            ("pid", i64::from(s.pid)),
            ("flips", s.flips.map_or(-1, i64::from)),
            ("prev", i64::from(s.prev)),
            ("rec", i64::from(s.recent)),
            ("flags", s.wake_flags.map_or(-1, i64::from)),
            ("nr", i64::from(s.allowed)),
            ("last", s.last_wakee.cast_signed()),
        ]),
        Payload::Selected { cpu } => same(&[("cpu", i64::from(*cpu))]),
        Payload::Marker(text) => {
            let shown = f.split_once("buf=").map_or("", |(_, shown)| shown);
            assert_eq!(
                String::from_utf8_lossy(text).trim_end(),
                shown.trim_end(),
                "{f}"
            );
            1
        }
        _ => 0,
    }
}

/// Compares a file with its report: the number of events, and a sample of them field by field.
fn judge(path: &Path, sample: usize, modern: bool) -> Option<(usize, usize)> {
    let text = report(path)?;
    let lines: Vec<_> = text.lines().filter_map(parse).collect();
    let trace = Trace::open(path, &OpenOptions::default()).unwrap();
    let (all, faults) = drain(trace.merged());
    assert_eq!(faults.kept(), [], "{path:?}");
    let recorded: Vec<_> = all.iter().filter(|e| e.type_index != NO_TYPE).collect();
    assert_eq!(recorded.len(), lines.len(), "{path:?}");
    let step = (lines.len() / sample).max(1);
    let mut fields = 0;
    for (event, line) in recorded.iter().zip(&lines).step_by(step) {
        let name = &trace.types()[usize::from(event.type_index)].name;
        assert_eq!(
            (event.ts, event.cpu, name.as_str()),
            (line.ts, line.cpu, line.name),
            "{path:?}"
        );
        let pid = line.comm_pid.rsplit_once('-').unwrap().1;
        assert_eq!(event.pid.to_string(), pid, "{path:?}");
        fields += 4 + compare(event, line, modern);
    }
    Some((lines.len(), fields))
}

#[test]
fn lab_files_agree_with_trace_cmd() {
    let Some(root) = shared() else {
        eprintln!("skipped: the lab's traces are not here (set TTWU_SHARED)");
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(root.join("traces/lab"))
        .unwrap()
        .chain(std::fs::read_dir(root.join("traces/lab/variants")).unwrap())
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            if path.is_dir() {
                path.join("trace.dat")
            } else {
                path
            }
        })
        .filter(|path| path.extension().is_some_and(|e| e == "dat") && path.is_file())
        .collect();
    files.sort();
    let (mut events, mut fields) = (0, 0);
    for path in &files {
        let Some((count, compared)) = judge(path, 1000, true) else {
            eprintln!("skipped: trace-cmd is not installed");
            return;
        };
        events += count;
        fields += compared;
    }
    eprintln!(
        "{} files, {events} events, {fields} fields compared",
        files.len()
    );
    assert!(files.len() >= 20);
}

#[test]
fn public_files_agree_with_trace_cmd() {
    let Some(root) = shared() else {
        eprintln!("skipped: the lab's traces are not here (set TTWU_SHARED)");
        return;
    };
    for name in [
        "ARM-software-lisa--trace.dat",
        "ARM-software-bart--raw_trace.dat",
    ] {
        if judge(&root.join("traces/public").join(name), 1000, false).is_none() {
            eprintln!("skipped: trace-cmd is not installed");
        }
    }
}
