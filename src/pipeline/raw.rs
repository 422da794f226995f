//! Recorded events as rows, for those who want to see what was recorded.

use ttwu_parsers::event::{ContextFlags, Event, NO_TYPE, Payload, Wake};

use crate::replay::rows::EventRow;
use crate::replay::words::Waker;

/// Whether it was recorded as an event, not made by the reader.
pub fn is_recorded(event: &Event) -> bool {
    event.type_index != NO_TYPE
}

/// An event laid out flat.
pub fn row(event: &Event) -> EventRow {
    let mut row = EventRow {
        ts_ns: event.ts,
        cpu: event.cpu,
        type_index: event.type_index,
        pid: event.pid,
        context: context(event.flags),
        task_pid: None,
        task_name: None,
        prio: None,
        target_cpu: None,
        from_cpu: None,
        prev_name: None,
        prev_prio: None,
        prev_state: None,
        targets: None,
        callback: 0,
        callsite: 0,
        number: None,
        text: None,
    };
    fill(&mut row, &event.payload);
    row
}

fn context(flags: ContextFlags) -> Waker {
    match flags {
        flags if flags.nmi() => Waker::Nmi,
        flags if flags.hardirq() => Waker::Hardirq,
        flags if flags.softirq() => Waker::SoftirqUnknown,
        _ => Waker::Task,
    }
}

fn fill(row: &mut EventRow, payload: &Payload) {
    match payload {
        Payload::Switch {
            prev_comm,
            prev_prio,
            prev_state,
            next_comm,
            next_pid,
            next_prio,
            ..
        } => {
            row.prev_name = Some(*prev_comm);
            row.prev_prio = Some(i32::from(*prev_prio));
            row.prev_state = Some(*prev_state);
            row.task_name = Some(*next_comm);
            row.task_pid = Some(*next_pid);
            row.prio = Some(i32::from(*next_prio));
        }
        Payload::Waking(wake) | Payload::Wakeup(wake) | Payload::WakeupNew(wake) => {
            woken(row, wake)
        }
        Payload::Migrate {
            comm,
            pid,
            prio,
            orig_cpu,
            dest_cpu,
        } => {
            row.task_name = Some(*comm);
            row.task_pid = Some(*pid);
            row.prio = Some(i32::from(*prio));
            row.from_cpu = Some(*orig_cpu);
            row.target_cpu = Some(*dest_cpu);
        }
        Payload::Fork {
            child_pid,
            child_comm,
            ..
        } => {
            row.task_pid = Some(*child_pid);
            row.task_name = Some(*child_comm);
        }
        Payload::Exit { comm, pid } => {
            row.task_pid = Some(*pid);
            row.task_name = Some(*comm);
        }
        Payload::TaskName { tid, comm, .. } => {
            row.task_pid = Some(*tid);
            row.task_name = Some(*comm);
        }
        Payload::NewTask { pid, .. }
        | Payload::Exec { pid, .. }
        | Payload::SetAffinity { pid }
        | Payload::NumaMove { pid } => row.task_pid = Some(*pid),
        Payload::NumaSwap { src_pid, .. } => row.task_pid = Some(*src_pid),
        Payload::Select(selection) => row.task_pid = Some(selection.pid),
        Payload::Selected { cpu } => row.target_cpu = u32::try_from(*cpu).ok(),
        Payload::Marker(text) => row.text = Some(text.clone()),
        other => between_cpus(row, other),
    }
}

fn woken(row: &mut EventRow, wake: &Wake) {
    row.task_name = Some(wake.comm);
    row.task_pid = Some(wake.pid);
    row.prio = Some(i32::from(wake.prio));
    row.target_cpu = Some(wake.target_cpu);
}

/// Interrupts, and what is called by them.
fn between_cpus(row: &mut EventRow, payload: &Payload) {
    match payload {
        Payload::WakeIdleWithoutIpi { cpu } => row.target_cpu = Some(*cpu),
        Payload::IpiSendCpu {
            cpu,
            callsite,
            callback,
        } => {
            row.target_cpu = Some(*cpu);
            (row.callsite, row.callback) = (*callsite, *callback);
        }
        Payload::IpiSendMask {
            cpus,
            callsite,
            callback,
        } => {
            row.targets = Some(cpus.count());
            (row.callsite, row.callback) = (*callsite, *callback);
        }
        Payload::CsdQueue {
            cpu,
            callsite,
            func,
            ..
        } => {
            row.target_cpu = Some(*cpu);
            (row.callsite, row.callback) = (*callsite, *func);
        }
        Payload::CsdEntry { func, .. } | Payload::CsdExit { func, .. } => row.callback = *func,
        Payload::IpiRaise { cpus, .. } => row.targets = Some(cpus.count()),
        Payload::TlbFlush { pages, .. } => row.number = Some(*pages),
        Payload::SoftirqRaise { vec }
        | Payload::SoftirqEntry { vec }
        | Payload::SoftirqExit { vec } => row.number = Some(i64::from(*vec)),
        Payload::IrqEntry { irq } | Payload::IrqExit { irq } => row.number = Some(i64::from(*irq)),
        _ => {}
    }
}
