//! A waking whose outcome is still being found out.

use super::pids::PidNumber;
use super::steps::{Enqueue, Probe, WakeInfo};
use ttwu_parsers::event::{ContextFlags, Event};

/// What is known so far of a waking.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenWaking {
    /// `None` for a new task's wakeup, which is its own enqueue.
    pub wakee: Option<PidNumber>,
    /// Its place among all events.
    pub event: u64,
    pub waking_ns: i64,
    pub waking_cpu: u32,
    pub prev_cpu: u32,
    pub enqueue: Option<Enqueue>,
    /// When the CPU was chosen.
    pub choice_ns: Option<i64>,
    pub probe: Option<Probe>,
    pub probe_ns: Option<i64>,
    /// What the waker sent to the chosen CPU, or to any before the choice is known.
    pub queued_to: Option<(i64, u32)>,
    pub ipi_to: Option<(i64, u32)>,
    pub polled: Option<(i64, u32)>,
    pub migrated: Option<(i64, u32)>,
    pub vector_seen: bool,
    pub behind_another: bool,
    pub resolved: bool,
}

impl OpenWaking {
    pub fn new(wakee: Option<PidNumber>, event: &Event, prev_cpu: u32, place: u64) -> Self {
        Self {
            wakee,
            event: place,
            waking_ns: event.ts,
            waking_cpu: event.cpu,
            prev_cpu,
            enqueue: None,
            choice_ns: None,
            probe: None,
            probe_ns: None,
            queued_to: None,
            ipi_to: None,
            polled: None,
            migrated: None,
            vector_seen: false,
            behind_another: false,
            resolved: false,
        }
    }

    /// The chosen CPU, as far as it is known yet.
    pub fn goes_to(&self) -> Option<u32> {
        self.enqueue
            .map(|e| e.chosen)
            .or(self.migrated.map(|(_, cpu)| cpu))
    }

    /// The choice is the first of: the probe's return, the migration, the queueing or IPI to the chosen
    /// CPU, the enqueue.
    pub fn settle_choice(&mut self) {
        let Some(enqueue) = self.enqueue else {
            return;
        };
        let mut earliest = enqueue.ts;
        if let Some(ts) = self.probe_ns {
            earliest = earliest.min(ts);
        }
        if let Some((ts, _)) = self.migrated {
            earliest = earliest.min(ts);
        }
        for sent in [self.queued_to, self.ipi_to] {
            if let Some((ts, cpu)) = sent
                && cpu == enqueue.chosen
            {
                earliest = earliest.min(ts);
            }
        }
        self.choice_ns = Some(earliest);
        self.resolved = true;
    }

    /// Where `sched_wakeup` was not recorded: enqueued at the choice, on the CPU it was migrated to, else on
    /// its previous one.
    pub fn assume_enqueue(&mut self) {
        let (ts, chosen) = self.migrated.unwrap_or((self.waking_ns, self.prev_cpu));
        self.enqueue = Some(Enqueue {
            ts,
            cpu: self.waking_cpu,
            chosen,
            flags: ContextFlags::default(),
            recorded: false,
        });
        self.settle_choice();
    }

    /// What the replay needs of it.
    pub fn outcome(&self) -> WakeInfo {
        // What follows the enqueue is not the wakeup's, except for a new task's.
        let before =
            |ts: i64| self.wakee.is_none() || self.enqueue.is_some_and(|enqueue| ts <= enqueue.ts);
        let to_chosen = |sent: Option<(i64, u32)>| {
            sent.is_some_and(|(ts, cpu)| {
                self.enqueue.is_some_and(|enqueue| cpu == enqueue.chosen) && before(ts)
            })
        };
        let sends = [self.queued_to, self.ipi_to, self.polled];
        WakeInfo {
            prev_cpu: self.prev_cpu,
            enqueue: self.enqueue,
            choice_ns: self.choice_ns,
            probe: self.probe,
            last_send_ns: sends
                .into_iter()
                .filter(|sent| to_chosen(*sent))
                .flatten()
                .map(|(ts, _)| ts)
                .max(),
            ipi: to_chosen(self.ipi_to),
            polled: to_chosen(self.polled),
            vector_seen: self.vector_seen,
            behind_another: self.behind_another,
        }
    }
}
