//! Which kernel's rules a trace follows.
//!
//! The release string is only a default: stable and vendor kernels carry scheduler changes back. What the
//! trace's own events prove is preferred, and the model that was used is always printed.

use ttwu_parsers::decode::EventType;

/// A kernel version, as the rules of the wakeup path go by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelModel {
    pub version: (u32, u32),
    /// Where the version comes from, as a phrase.
    pub source: String,
}

/// The oldest kernel an event can come from (first release with it).
const FIRST_SEEN: [(&str, &str, (u32, u32)); 5] = [
    ("sched", "sched_wake_idle_without_ipi", (3, 16)),
    ("sched", "sched_waking", (4, 3)),
    ("ipi", "ipi_send_cpumask", (6, 4)),
    ("ipi", "ipi_send_cpu", (6, 4)),
    ("csd", "csd_queue_cpu", (6, 5)),
];

/// The newest rules that are known; assumed where nothing says otherwise.
const NEWEST: (u32, u32) = (6, 12);

impl KernelModel {
    /// Picks the model: the user's word, else the release, raised to what the events prove.
    pub fn detect(wanted: Option<(u32, u32)>, release: Option<&str>, types: &[EventType]) -> Self {
        if let Some(version) = wanted {
            return Self {
                version,
                source: "--kernel-model".to_owned(),
            };
        }
        let proven = FIRST_SEEN
            .iter()
            .filter(|(system, name, _)| {
                types.iter().any(|t| t.system == *system && t.name == *name)
            })
            .max_by_key(|(_, _, version)| *version);
        let named = release.and_then(|r| parse_version(r).map(|v| (v, r)));
        match (named, proven) {
            (Some((version, release)), Some((_, name, least))) if version < *least => Self {
                version: *least,
                source: format!("event {name}; the release {release} is older"),
            },
            (Some((version, release)), _) => Self {
                version,
                source: format!("release {release}"),
            },
            (None, _) => Self {
                version: NEWEST,
                source: "assumed: the trace names no kernel release".to_owned(),
            },
        }
    }

    /// `6.12 (release 6.12.113)`.
    pub fn describe(&self) -> String {
        format!("{}.{} ({})", self.version.0, self.version.1, self.source)
    }

    fn at_least(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    /// `p == current` is handled before anything else (5.3).
    pub fn self_shortcut(&self) -> bool {
        self.at_least(5, 3)
    }

    /// A task still on its way off the CPU may be put on that CPU's wake list without a selection (5.8).
    pub fn on_cpu_queueing(&self) -> bool {
        self.at_least(5, 8)
    }

    /// The bit by which a selection's flags say that the waker is about to sleep. `WF_SYNC` is 0x10 since 5.11
    /// (17770579059258 and 3aef1551e942, which took `sd_flag` out; the same in 6.17); before that the probe's
    /// argument is `sd_flag`, which does not say it.
    pub fn sync_flag(&self) -> Option<u32> {
        self.at_least(5, 11).then_some(0x10)
    }

    /// The bit by which a selection's flags say that it is for a wakeup: `WF_TTWU` is 0x08 since 5.11.
    pub fn wakeup_flag(&self) -> Option<u32> {
        self.at_least(5, 11).then_some(0x08)
    }

    /// The bit that sends a wakee to the waker's CPU without `wake_affine`: `WF_CURRENT_CPU` (6.6).
    pub fn current_cpu_flag(&self) -> Option<u32> {
        self.at_least(6, 6).then_some(0x40)
    }

    /// `record_wakee` runs where a CPU is selected, not for every fair wakee before that (4.8, c58d25f371f5).
    pub fn flips_at_selection(&self) -> bool {
        self.at_least(4, 8)
    }

    /// A per-CPU kernel thread's wakee may stay on its busy previous CPU (5.6).
    pub fn kthread_stacking(&self) -> bool {
        self.at_least(5, 6)
    }

    /// Blocking tasks may stay queued and be requeued in place (6.12).
    pub fn delayed_dequeue(&self) -> bool {
        self.at_least(6, 12)
    }

    /// A sleeper may leave its CPU as `R`, because a waker marked it meanwhile (5.8 to 5.17).
    pub fn sleeper_may_show_runnable(&self) -> bool {
        self.at_least(5, 8) && !self.at_least(5, 18)
    }
}

/// `6.12` or `6.12.113-anything`.
pub fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(system: &str, name: &str) -> EventType {
        EventType {
            id: 1,
            system: system.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn the_release_is_a_default_that_events_overrule() {
        let waking = [event("sched", "sched_waking")];
        let model = |wanted, release, types: &[EventType]| {
            KernelModel::detect(wanted, release, types).version
        };
        assert_eq!(model(None, Some("6.12.113+deb12"), &waking), (6, 12));
        assert_eq!(model(None, Some("3.10.0-vendor"), &waking), (4, 3));
        assert_eq!(model(Some((5, 9)), Some("6.12.0"), &waking), (5, 9));
        assert_eq!(model(None, None, &waking), NEWEST);
        assert_eq!(parse_version("6"), None);
    }
}
