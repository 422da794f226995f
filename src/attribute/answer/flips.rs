//! Wakee flips and the decisions that follow from them (`analysis` §5).

use serde::Serialize;

use super::{Bounces, ByWord, Known};

/// What `wake_wide()` decided, and the bounces between LLCs: these are known from migrations alone, so they stand beside
/// the reason where nothing is known of decisions.
#[derive(Debug, Clone, Serialize)]
pub struct FlipsAndBounces {
    #[serde(flatten)]
    pub decisions: Known<Flips>,
    pub bounces: Known<Bounces>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Flips {
    /// What the recorded kernel does, among the policies.
    pub kernel_policy: &'static str,
    pub hz: Hz,
    /// How late ticks may be counted: until so long after a second and a tick a decay may be still to come.
    pub late_ns: i64,
    /// Wakeups that the kernel counted.
    pub recorded: u64,
    /// Those of which the events leave it open.
    pub perhaps: u64,
    /// Those counted for which the kernel asked `wake_wide`.
    pub judged: u64,
    /// Of those judged, the share that the kernel's policy decides here; and the same without `warming_up`.
    pub decided_share: Known<f64>,
    pub coverage: Known<f64>,
    /// By policy, and `kernel`.
    pub policies: Known<ByWord<PolicyFacts>>,
    /// Wakeups that one policy decides otherwise than another.
    pub changes: Known<ByWord<ByWord<u64>>>,
    /// The kernel's policy with another factor.
    pub factors: Known<FactorFacts>,
    pub probe_check: Known<FlipCheck>,
    pub pull_check: Known<PullCheck>,
    /// Those with most flips a second first.
    pub tasks: Vec<FlipTask>,
    pub roles: Roles,
}

/// Ticks a second, and where the number is from.
#[derive(Debug, Clone, Serialize)]
pub struct Hz {
    pub value: u32,
    pub source: String,
}

/// What a policy decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PolicyFacts {
    pub wide: u64,
    pub affine: u64,
    pub undecided: u64,
    pub warming_up: u64,
    /// The rule does not ask: under the old one `wake_wide` is part of `wake_affine`.
    pub not_asked: u64,
    /// Decided otherwise than by the kernel's policy, both being decided.
    pub changed: u64,
}

/// What the kernel's policy would decide if LLCs had half or twice as many CPUs.
#[derive(Debug, Clone, Serialize)]
pub struct FactorFacts {
    /// How many CPUs the wakers' LLCs have, and where that is from.
    pub sizes: Vec<u32>,
    pub source: String,
    pub halved: PolicyFacts,
    pub doubled: PolicyFacts,
}

/// What was followed against the kernel's own counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FlipCheck {
    /// Probed values of tasks of which an earlier one is known.
    pub checked: u64,
    /// Those within what was followed since the value before.
    pub inside: u64,
    /// Those of which that was at most 1 wide.
    pub width_le_1: u64,
    /// Those within what was followed since the task's first value alone.
    pub inside_since_first: u64,
}

/// Wakeups into the waker's LLC from another: each proves that `wake_wide` said no.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PullCheck {
    pub pulls: u64,
    pub affine: u64,
    pub wide: u64,
    pub undecided: u64,
    pub warming_up: u64,
}

/// One task's flips.
#[derive(Debug, Clone, Serialize)]
pub struct FlipTask {
    pub name: String,
    pub pid: i32,
    pub generation: u32,
    /// Its counter after its last wakeup in the window: at least, and at most.
    pub flips: Known<[u32; 2]>,
    /// Flips made in the window, a second: those that are certain.
    pub flips_per_second: f64,
    pub as_waker: Decided,
    pub as_wakee: Decided,
}

/// What the kernel's policy decided of wakeups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Decided {
    pub wide: u64,
    pub affine: u64,
    /// Undecided or warming up.
    pub open: u64,
}

/// What tasks are to each other by who wakes whom; `--top` of each, those with most wakeups first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Roles {
    pub one_to_n: Vec<RoleFacts>,
    pub n_to_one: Vec<RoleFacts>,
    pub ping_pong: Vec<PingPong>,
}

/// A task that wakes many others, or that many others wake.
#[derive(Debug, Clone, Serialize)]
pub struct RoleFacts {
    /// `1:N` or `N:1`.
    pub role: &'static str,
    pub name: String,
    pub pid: i32,
    pub wakeups: u64,
    /// How many others there are.
    pub partners: u64,
    /// As many equal ones would be as evenly spread: one over the sum of the squared shares.
    pub effective_partners: f64,
    pub why: String,
}

/// Two tasks that wake each other in turn.
#[derive(Debug, Clone, Serialize)]
pub struct PingPong {
    pub name: String,
    pub pid: i32,
    pub other_name: String,
    pub other_pid: i32,
    /// Wakeups of the second by the first, and back.
    pub there: u64,
    pub back: u64,
    pub why: String,
}
