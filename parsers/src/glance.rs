//! A glance at an event: what a first look over a trace wants to know of it, for a fraction of the work of decoding it.
//!
//! A glance says nothing that the event does not, and comes wherever the event does: `Glance::from(event)` is the
//! definition, and what [`crate::trace::EventSource::next_glance`] gives is equal to it.

use crate::decode::{Fields, Reading, UsualWake, WakeKind, Whole};
use crate::event::{Comm, ContextFlags, Event, Payload};

/// What per-CPU threads that stop their CPU are called, as `migration/3`.
const STOPPER: &[u8; 10] = b"migration/";

/// One event, at a glance. All but `sight` is as in [`Event`].
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    pub ts: i64,
    pub cpu: u32,
    pub pid: i32,
    pub flags: ContextFlags,
    pub type_index: u16,
    pub sight: Sight,
}

/// Where the event shows which task.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    Switch {
        next_pid: i32,
    },
    Waking {
        target_cpu: u32,
        /// The wakee's pid, if it is a stopper by its name.
        stopper: Option<i32>,
    },
    /// `sched_wakeup` or `sched_wakeup_new`.
    Wakeup {
        pid: i32,
        target_cpu: u32,
    },
    Migrate {
        pid: i32,
        orig_cpu: u32,
        dest_cpu: u32,
    },
    /// All other events, in full.
    Other(Payload),
}

impl From<Event> for Glance {
    fn from(event: Event) -> Self {
        Self {
            ts: event.ts,
            cpu: event.cpu,
            pid: event.pid,
            flags: event.flags,
            type_index: event.type_index,
            sight: Sight::of(event.payload),
        }
    }
}

impl Sight {
    fn of(payload: Payload) -> Self {
        match payload {
            Payload::Switch { next_pid, .. } => Self::Switch { next_pid },
            Payload::Waking(wake) => Self::Waking {
                target_cpu: wake.target_cpu,
                stopper: is_stopper(&wake.comm).then_some(wake.pid),
            },
            Payload::Wakeup(wake) | Payload::WakeupNew(wake) => Self::Wakeup {
                pid: wake.pid,
                target_cpu: wake.target_cpu,
            },
            Payload::Migrate {
                pid,
                orig_cpu,
                dest_cpu,
                ..
            } => Self::Migrate {
                pid,
                orig_cpu,
                dest_cpu,
            },
            other => Self::Other(other),
        }
    }
}

fn is_stopper(comm: &Comm) -> bool {
    comm.0.starts_with(STOPPER)
}

impl Reading for Glance {
    // Each arm makes a whole glance, as in `Event`.
    #[inline(always)]
    fn of_whole(whole: &Whole<'_>) -> Option<Self> {
        let record = whole.record;
        match whole.fields {
            Fields::Other => Some(whole.glance(Sight::Other(Payload::Other))),
            Fields::Switch(fields) => Some(whole.glance(Sight::Switch {
                next_pid: fields.next_pid.get(record)?,
            })),
            Fields::Wake(fields) => whole.wake(fields),
            Fields::Migrate(fields) => Some(whole.glance(Sight::Migrate {
                pid: fields.pid.get(record)?,
                orig_cpu: fields.orig_cpu.cpu(record)?,
                dest_cpu: fields.dest_cpu.cpu(record)?,
            })),
            Fields::Ints(fields) => Some(whole.glance(Sight::Other(fields.payload(record)?))),
        }
    }

    fn of_event(event: Event) -> Self {
        event.into()
    }
}

impl Whole<'_> {
    #[inline(always)]
    fn glance(&self, sight: Sight) -> Glance {
        Glance {
            ts: self.seen.ts,
            cpu: self.seen.cpu,
            pid: self.common.pid,
            flags: self.common.flags,
            type_index: self.common.type_index,
            sight,
        }
    }

    #[inline(always)]
    fn wake(&self, fields: &UsualWake) -> Option<Glance> {
        let target_cpu = fields.target_cpu.cpu(self.record)?;
        match fields.kind {
            WakeKind::Waking => Some(self.glance(Sight::Waking {
                target_cpu,
                stopper: match fields.comm.raw(self.record)?.starts_with(STOPPER) {
                    true => Some(fields.pid.get(self.record)?),
                    false => None,
                },
            })),
            WakeKind::Wakeup | WakeKind::New => Some(self.glance(Sight::Wakeup {
                pid: fields.pid.get(self.record)?,
                target_cpu,
            })),
        }
    }
}
