//! What each CPU ran, and what interrupted it.

use super::spans::CpuSpans;

/// One interval in which a CPU ran a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    pub start_ns: i64,
    pub end_ns: i64,
    pub task: u32,
    pub cpu: u16,
}

/// What the CPUs did in a segment.
#[derive(Debug, Default)]
pub struct Cpus {
    /// By CPU, in order of time.
    runs: Vec<Vec<Ran>>,
    interrupts: CpuSpans,
    /// Waits of the initiators of TLB shootdowns for the other CPUs.
    tlb_waits: CpuSpans,
}

/// What of an interval was not the running task's own time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    pub interrupt_ns: i64,
    pub tlb_wait_ns: i64,
}

impl Cpus {
    pub fn new(parts: Vec<Vec<Ran>>, interrupts: CpuSpans, tlb_waits: CpuSpans) -> Self {
        let mut runs: Vec<Vec<Ran>> = Vec::new();
        for ran in parts.iter().flatten() {
            let at = usize::from(ran.cpu);
            if at >= runs.len() {
                runs.resize(at + 1, Vec::new());
            }
            if let Some(own) = runs.get_mut(at) {
                own.push(*ran);
            }
        }
        for own in &mut runs {
            own.sort_by_key(|ran| (ran.start_ns, ran.end_ns));
        }
        Self {
            runs,
            interrupts,
            tlb_waits,
        }
    }

    /// What interrupts and waits for TLB shootdowns took of a CPU's interval. A handler that runs while the CPU waits
    /// is an interrupt.
    pub fn taken(&self, cpu: u16, start_ns: i64, end_ns: i64) -> Taken {
        let interrupts = self.interrupts.of(cpu);
        let interrupt_ns = interrupts.overlap(start_ns, end_ns);
        let waits = self.tlb_waits.of(cpu).within(start_ns, end_ns);
        let alone = waits.map(|(from, to)| to - from - interrupts.overlap(from, to));
        Taken {
            interrupt_ns,
            tlb_wait_ns: alone.sum(),
        }
    }

    /// Tells `take` what the CPU ran in an interval, task by task; returns how long it ran nothing that is known.
    /// The parts are disjoint whatever the rows say.
    pub fn ran(&self, cpu: u16, start_ns: i64, end_ns: i64, mut take: impl FnMut(u32, i64)) -> i64 {
        let own = self
            .runs
            .get(usize::from(cpu))
            .map_or(&[][..], Vec::as_slice);
        let first = own.partition_point(|ran| ran.end_ns <= start_ns);
        let mut told_to = start_ns;
        let mut nothing_ns = 0;
        for ran in own.get(first..).unwrap_or_default() {
            if ran.start_ns >= end_ns || told_to >= end_ns {
                break;
            }
            let from = ran.start_ns.max(told_to);
            let to = ran.end_ns.min(end_ns);
            if to > from {
                nothing_ns += from - told_to;
                take(ran.task, to - from);
                told_to = to;
            }
        }
        nothing_ns + (end_ns - told_to).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(cpu: u16, start_ns: i64, end_ns: i64, task: u32) -> Ran {
        Ran {
            start_ns,
            end_ns,
            task,
            cpu,
        }
    }

    /// Of CPU 1's interval 5 to 50, task 7 has 5 to 10 and 20 to 30, task 8 the rest of an interval that overlaps: 30 to
    /// 35. 10 to 20 and 35 to 50 are left.
    #[test]
    fn parts_of_an_interval_are_disjoint_and_sum_to_it() {
        let runs = vec![
            vec![ran(1, 0, 10, 7), ran(0, 0, 100, 9)],
            vec![ran(1, 25, 35, 8), ran(1, 20, 30, 7)],
        ];
        let cpus = Cpus::new(runs, CpuSpans::default(), CpuSpans::default());
        let mut told = Vec::new();
        let nothing = cpus.ran(1, 5, 50, |task, ns| told.push((task, ns)));
        assert_eq!((told, nothing), (vec![(7, 5), (7, 10), (8, 5)], 25));
        assert_eq!(cpus.ran(3, 5, 50, |_, _| panic!("CPU 3 ran nothing")), 45);
    }

    /// A handler at 10 to 20 and one at 30 to 40; the CPU waits for a shootdown at 15 to 35, of which 20 to 30 is no
    /// handler's.
    #[test]
    fn a_handler_within_a_wait_is_an_interrupt() {
        let handlers = CpuSpans::new(&[(2, 10, 20), (2, 30, 40)]);
        let cpus = Cpus::new(Vec::new(), handlers, CpuSpans::new(&[(2, 15, 35)]));
        let taken = |from, to| {
            let taken = cpus.taken(2, from, to);
            (taken.interrupt_ns, taken.tlb_wait_ns)
        };
        assert_eq!(taken(0, 100), (20, 10));
        assert_eq!(taken(12, 25), (8, 5));
        assert_eq!(taken(40, 50), (0, 0));
    }
}
