//! Where the simulated scheduler puts a wakee: often well, and as often as the plan says without a look for an idle CPU,
//! so that every way to miss one comes up.

use super::machine::Cpu;
use super::scheduler::{Kind, Sim, Task};

impl Sim {
    /// The LLC as the kernel's domains have it.
    pub fn kernel_llc(&self, cpu: Cpu) -> usize {
        match self.plan.wide_domain {
            true => self.machine.llc(cpu) / 2,
            false => self.machine.llc(cpu),
        }
    }

    /// Whether a wakeup goes by the chosen CPU's wake list.
    pub fn goes_by_list(&self, waker_cpu: Cpu, chosen: Cpu) -> bool {
        if waker_cpu == chosen {
            return false;
        }
        self.kernel_llc(waker_cpu) != self.kernel_llc(chosen)
            || self.kernel.queues_to_idle() && self.runnable(chosen) == 0
    }

    /// The CPU for a wakee.
    pub fn place(&mut self, waker_cpu: Cpu, wakee: Task) -> Cpu {
        let prev = self.tasks[wakee].cpu;
        let mask = self.tasks[wakee].mask.clone();
        if let [only] = mask[..] {
            return only;
        }
        let homes = [self.kernel_llc(prev), self.kernel_llc(waker_cpu)];
        let near: Vec<Cpu> = mask
            .iter()
            .copied()
            .filter(|&cpu| homes.contains(&self.kernel_llc(cpu)))
            .collect();
        let Some(fallback) = self.random.pick(&near) else {
            return self.random.pick(&mask).unwrap_or(prev);
        };
        let allowed = |cpu: Cpu| near.contains(&cpu);
        if !self.fair(wakee) {
            return if allowed(prev) && self.random.chance(70) {
                prev
            } else {
                fallback
            };
        }
        if self.may_stack(waker_cpu, prev) && allowed(prev) && self.random.chance(70) {
            return prev;
        }
        if !self.random.chance(self.plan.carelessness)
            && let Some(idle) = self.idle_among(&near, prev, waker_cpu)
        {
            return idle;
        }
        match self.random.weighted(&[45, 35, 20]) {
            0 if allowed(prev) => prev,
            1 if allowed(waker_cpu) => waker_cpu,
            _ => fallback,
        }
    }

    /// The waker is a per-CPU kernel thread, on the wakee's previous CPU.
    fn may_stack(&self, waker_cpu: Cpu, prev: Cpu) -> bool {
        let state = &self.cpus[waker_cpu];
        let bound = state.current.map(|task| self.tasks[task].kind);
        self.kernel.stacks_on_kthreads()
            && state.context == 0
            && prev == waker_cpu
            && bound == Some(Kind::Bound(waker_cpu))
    }

    fn idle_among(&mut self, near: &[Cpu], prev: Cpu, waker_cpu: Cpu) -> Option<Cpu> {
        let idle: Vec<Cpu> = near
            .iter()
            .copied()
            .filter(|&cpu| self.is_idle(cpu))
            .collect();
        let first = [prev, waker_cpu].into_iter().find(|cpu| idle.contains(cpu));
        let any = self.random.pick(&idle);
        first.or(any)
    }
}
