//! Cycles and instructions of tasks, in traces whose switches come with the values of counters.
//!
//! The values are running totals of a CPU, read as a task leaves it: what they grew by since the reading before belongs
//! to that task, with the part of the switch that runs on its account. Nothing here is touched in other traces.

use super::rows::TaskId;
use ttwu_parsers::event::Counters;

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub cycles: u64,
    pub instructions: u64,
}

/// The last reading of a CPU, and what it grew by.
#[derive(Debug, Clone, Copy, Default)]
struct OfCpu {
    last: Option<Counters>,
    /// Growth up to the last reading that no slice has taken yet.
    growth: Option<Counted>,
    /// The last reading came with the switch at hand.
    fresh: bool,
}

/// What is known of a task, up to its last slice.
#[derive(Debug, Clone, Copy, Default)]
struct OfTask {
    total: Counted,
    /// Slices of which nothing is known.
    uncounted: u32,
    /// Both as it last woke.
    at_wake: Option<(Counted, u32)>,
}

/// Counters of all CPUs and tasks.
#[derive(Debug, Default)]
pub struct Counting {
    cpus: Vec<OfCpu>,
    tasks: Vec<OfTask>,
}

impl Counting {
    fn cpu(&mut self, cpu: usize) -> &mut OfCpu {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, OfCpu::default());
        }
        &mut self.cpus[cpu]
    }

    fn task(&mut self, task: TaskId) -> &mut OfTask {
        let slot = task.0 as usize;
        if self.tasks.len() <= slot {
            self.tasks.resize(slot + 1, OfTask::default());
        }
        &mut self.tasks[slot]
    }

    /// A reading: the switch it belongs to comes next.
    pub fn read(&mut self, cpu: usize, now: &Counters) {
        let state = self.cpu(cpu);
        let before = state.last.replace(*now);
        state.growth = before.and_then(|before| growth(&before, now));
        state.fresh = true;
    }

    /// The CPU turned to another task. Without a reading at that, what comes next is mixed with what was before.
    pub fn switched(&mut self, cpu: usize) {
        let state = self.cpu(cpu);
        state.growth = None;
        if !std::mem::take(&mut state.fresh) {
            state.last = None;
        }
    }

    /// Events of the CPU are missing from here on.
    pub fn forget(&mut self, cpu: usize) {
        *self.cpu(cpu) = OfCpu::default();
    }

    /// A slice of a task ended on the CPU.
    pub fn ran(&mut self, cpu: usize, task: TaskId) {
        let growth = self.cpu(cpu).growth.take();
        let task = self.task(task);
        match growth {
            Some(growth) => {
                task.total.cycles = task.total.cycles.saturating_add(growth.cycles);
                task.total.instructions =
                    task.total.instructions.saturating_add(growth.instructions);
            }
            None => task.uncounted = task.uncounted.saturating_add(1),
        }
    }

    /// The task was woken: what it does next is counted from here.
    pub fn woken(&mut self, task: TaskId) {
        let state = self.task(task);
        state.at_wake = Some((state.total, state.uncounted));
    }

    /// It was woken before it was off its CPU: of the slice that is not over, what came after cannot be told.
    pub fn woken_on_cpu(&mut self, task: TaskId) {
        self.task(task).at_wake = None;
    }

    /// What it did since it last woke; `None` if a part of that is not known.
    pub fn since_wake(&self, task: TaskId) -> Option<Counted> {
        let state = self.tasks.get(task.0 as usize)?;
        let (before, uncounted) = state.at_wake?;
        (uncounted == state.uncounted).then(|| Counted {
            cycles: state.total.cycles - before.cycles,
            instructions: state.total.instructions - before.instructions,
        })
    }
}

/// What the counters grew by between two readings; `None` unless they counted all the time.
fn growth(before: &Counters, now: &Counters) -> Option<Counted> {
    let enabled = now.enabled_ns.checked_sub(before.enabled_ns)?;
    let running = now.running_ns.checked_sub(before.running_ns)?;
    if enabled != running {
        return None;
    }
    let (cycles_before, instructions_before) = before.cycles_and_instructions()?;
    let (cycles, instructions) = now.cycles_and_instructions()?;
    let cycles = cycles.checked_sub(cycles_before)?;
    let instructions = instructions.checked_sub(instructions_before)?;
    // A task that ran took cycles: counters that stand still were taken off the processor.
    (cycles > 0 && instructions > 0).then_some(Counted {
        cycles,
        instructions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cycles: u64, instructions: u64) -> Counters {
        let mut counters = Counters::default();
        counters.set(0, instructions);
        counters.set(2, cycles);
        (counters.cycles, counters.instructions) = (Some(2), Some(0));
        counters
    }

    const TASK: TaskId = TaskId(5);

    fn counted(cycles: u64, instructions: u64) -> Option<Counted> {
        Some(Counted {
            cycles,
            instructions,
        })
    }

    /// The task runs twice after it woke, on two CPUs; in between another runs.
    #[test]
    fn slices_after_a_waking_add_up() {
        let mut counting = Counting::default();
        counting.read(0, &reading(100, 10));
        counting.read(1, &reading(1000, 500));
        counting.switched(0);
        counting.switched(1);
        counting.woken(TASK);
        counting.read(0, &reading(130, 30));
        counting.ran(0, TASK);
        counting.switched(0);
        counting.read(0, &reading(900, 90));
        counting.ran(0, TaskId(6));
        counting.switched(0);
        assert_eq!(counting.since_wake(TASK), counted(30, 20));
        counting.read(1, &reading(1007, 501));
        counting.ran(1, TASK);
        assert_eq!(counting.since_wake(TASK), counted(37, 21));
        counting.woken(TASK);
        assert_eq!(counting.since_wake(TASK), counted(0, 0));
    }

    #[test]
    fn what_was_not_counted_throughout_is_not_known() {
        let after = |then: &dyn Fn(&mut Counting)| {
            let mut counting = Counting::default();
            counting.read(0, &reading(100, 10));
            counting.woken(TASK);
            then(&mut counting);
            counting.ran(0, TASK);
            counting.since_wake(TASK)
        };
        assert_eq!(after(&|c| c.read(0, &reading(101, 11))), counted(1, 1));
        // No reading, one that stands still, one that went back, and one after a gap.
        assert_eq!(after(&|_| ()), None);
        assert_eq!(after(&|c| c.read(0, &reading(101, 10))), None);
        assert_eq!(after(&|c| c.read(0, &reading(99, 11))), None);
        let gap = |c: &mut Counting| {
            c.forget(0);
            c.read(0, &reading(101, 11));
        };
        assert_eq!(after(&gap), None);
        // Shared out for a part of the time.
        let mut shared = reading(101, 11);
        (shared.enabled_ns, shared.running_ns) = (20, 19);
        assert_eq!(after(&|c| c.read(0, &shared)), None);
        // One whose start had no reading.
        let unread = |c: &mut Counting| {
            c.switched(0);
            c.switched(0);
            c.read(0, &reading(101, 11));
        };
        assert_eq!(after(&unread), None);
        // A slice from before the first reading.
        let mut counting = Counting::default();
        counting.woken(TASK);
        counting.read(0, &reading(100, 10));
        counting.ran(0, TASK);
        assert_eq!(counting.since_wake(TASK), None);
        assert_eq!(counting.since_wake(TaskId(99)), None);
    }
}
