//! What a run is to be like.

use super::kernels::{Kernel, V6_12};
use super::machine::Shape;

#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub kernel: Kernel,
    pub shape: Shape,
    /// About so many events.
    pub events: usize,
    pub tasks: usize,
    /// Whether the kernel's choices are probed.
    pub probes: bool,
    pub delayed: bool,
    pub throttling: bool,
    pub balancing: bool,
    pub softirqs: bool,
    pub real_time: bool,
    /// Tasks are born and end.
    pub forks: bool,
    /// Some tasks may not run everywhere, and the recorder tells where.
    pub told_masks: bool,
    /// Some tasks may not run everywhere, and nobody tells.
    pub hidden_masks: bool,
    /// Masks change.
    pub repinning: bool,
    /// The scheduler's domain of an LLC spans two of them.
    pub wide_domain: bool,
    /// Shootdowns of translations.
    pub shootdowns: bool,
    /// Calls of other functions on other CPUs.
    pub calls: bool,
    /// Whether the events of interrupts and soft interrupts are recorded.
    pub tells_softirqs: bool,
    /// Some tasks are the recorder's.
    pub recorder: bool,
    /// Tasks mark units of work.
    pub marks: bool,
    /// Nothing happens by itself: a test says what does.
    pub directed: bool,
    /// Whether wakees preempt, where a test says so.
    pub preempts: Option<bool>,
    /// How long it takes from sending to a queued wakeup's handler, from and to.
    pub landing_ns: (i64, i64),
    /// In percent: how often the search for an idle CPU is left out.
    pub carelessness: usize,
}

impl Plan {
    /// Everything, on the newest kernel.
    pub fn new(seed: u64, shape: Shape) -> Self {
        Self {
            seed,
            kernel: V6_12,
            shape,
            events: 1200,
            tasks: (shape.cpus() * 3 / 2).clamp(5, 48),
            probes: false,
            delayed: true,
            throttling: true,
            balancing: true,
            softirqs: true,
            real_time: true,
            forks: true,
            told_masks: false,
            hidden_masks: false,
            repinning: false,
            wide_domain: false,
            shootdowns: true,
            calls: true,
            tells_softirqs: true,
            recorder: false,
            marks: false,
            directed: false,
            preempts: None,
            landing_ns: (300, 4000),
            carelessness: 50,
        }
    }

    pub fn on(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }
}
