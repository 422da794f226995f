//! The CPUSTAT options: the text of `per_cpu/cpuN/stats` as the recording ended.

/// What a CPU's ring buffer lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CpuStat {
    /// The buffer (instance) it belongs to; empty for the top one.
    pub buffer: String,
    pub cpu: u32,
    pub overrun: Option<u64>,
    pub commit_overrun: Option<u64>,
    pub dropped: Option<u64>,
}

impl CpuStat {
    /// Whether it says that nothing was lost.
    pub fn lossless(&self) -> bool {
        [self.overrun, self.commit_overrun, self.dropped] == [Some(0); 3]
    }

    /// Events that were dropped without a mark in any page: the buffer was full (`dropped`), or an interrupt
    /// filled it while a page was being committed (`commit overrun`).
    pub fn unplaced(&self) -> u64 {
        [self.commit_overrun, self.dropped]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }
}

/// Reads one option's text. trace-cmd puts `Buffer: NAME` before the first CPU of each instance, in an option
/// of its own; `buffer` is the name that was last seen.
pub(crate) fn read(text: &str, buffer: &mut String, stats: &mut Vec<CpuStat>) {
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if key == "Buffer" {
            buffer.clear();
            buffer.push_str(value);
        } else if key == "CPU" {
            stats.extend(value.parse().ok().map(|cpu| CpuStat {
                buffer: buffer.clone(),
                cpu,
                ..CpuStat::default()
            }));
        } else if let Some(stat) = stats.last_mut() {
            match key {
                "overrun" => stat.overrun = value.parse().ok(),
                "commit overrun" => stat.commit_overrun = value.parse().ok(),
                "dropped events" => stat.dropped = value.parse().ok(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_by_buffer_and_cpu() {
        let (mut buffer, mut stats) = (String::new(), Vec::new());
        let clean = "CPU: 0\nentries: 5\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n";
        read(clean, &mut buffer, &mut stats);
        read("\n\nBuffer: named\n\n", &mut buffer, &mut stats);
        read(
            &clean.replace("overrun: 0", "overrun: 3"),
            &mut buffer,
            &mut stats,
        );
        read("CPU: 1\noverrun: 0\n", &mut buffer, &mut stats);
        let told: Vec<_> = stats
            .iter()
            .map(|s| (s.buffer.as_str(), s.cpu, s.lossless(), s.unplaced()))
            .collect();
        let wanted = [
            ("", 0, true, 0),
            ("named", 0, false, 3),
            ("named", 1, false, 0),
        ];
        assert_eq!(told, wanted);
    }
}
