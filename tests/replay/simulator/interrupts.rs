//! Interrupts between the simulated CPUs: sent, handled, and what their handlers do; and shootdowns of translations.

use super::events::{HARDIRQ, Vector, What, address};
use super::machine::Cpu;
use super::notes::{Handled, Purpose, Sending, Shootdown, Why};
use super::scheduler::{Sim, Task};

impl Sim {
    /// Whether the CPU's idle loop sees a flag.
    pub fn polls(&self, cpu: Cpu) -> bool {
        self.cpus[cpu].current.is_none() && self.cpus[cpu].polling
    }

    /// Whether no call of a function is due on a CPU. Before 5.8 queued wakeups are no calls.
    pub fn awaits_no_call(&self, cpu: Cpu, wakeup: bool) -> bool {
        let state = &self.cpus[cpu];
        let no_function = state.flushes.is_empty() && state.calls.is_empty();
        match (self.kernel.queues_by_function(), wakeup) {
            (true, _) => state.list.is_empty() && no_function,
            (false, true) => state.list.is_empty(),
            (false, false) => no_function,
        }
    }

    /// The address of a task's entry on a list.
    pub fn entry_of(&self, task: Task) -> u64 {
        0xffff_8881_0000_0000 + task as u64 * 4096
    }

    /// The address of the entry by which one CPU asks another to flush.
    fn flush_entry(&self, from: Cpu, to: Cpu) -> u64 {
        0xffff_8882_0000_0000 + (from * 64 + to) as u64 * 64
    }

    /// Sets the flag that a CPU's idle loop sees: it has a list to go through.
    pub fn flag(&mut self, cpu: Cpu, to: Cpu) -> i64 {
        let ts = self.emit(cpu, What::Poll { cpu: to });
        self.cpus[to].flagged = true;
        let delay = self.landing();
        self.after(delay, move |sim| sim.look(to));
        ts
    }

    fn landing(&mut self) -> i64 {
        let (from, to) = self.plan.landing_ns;
        self.random.within(from, to)
    }

    /// The idle loop saw its flag, if it has not gone through its lists before.
    fn look(&mut self, cpu: Cpu) {
        if self.cpus[cpu].flagged && self.is_busy(cpu) {
            self.after(80, move |sim| sim.look(cpu));
        } else if self.cpus[cpu].flagged {
            self.leave_idle_loop(cpu);
        }
    }

    /// Goes through the lists before anything else is run.
    pub fn leave_idle_loop(&mut self, cpu: Cpu) {
        self.cpus[cpu].flagged = false;
        let took = self.flush_for_others(cpu) + self.call_for_others(cpu) + self.wake_listed(cpu);
        self.notes.idle_calls.push(took);
    }

    /// Whether the CPU takes no interrupt now.
    fn is_busy(&self, cpu: Cpu) -> bool {
        let state = &self.cpus[cpu];
        state.in_kernel && !state.spinning
    }

    /// An interrupt to one CPU.
    pub fn send(&mut self, cpu: Cpu, to: Cpu, kind: Vector, purpose: Purpose) {
        if self.kernel.tells_sends() {
            let generic = address("generic_smp_call_function_single_interrupt", 0);
            let (callsite, callback) = match purpose {
                Purpose::Wakeup => (address("try_to_wake_up", 0x80), generic),
                Purpose::Tlb => (address("on_each_cpu_cond_mask", 0x30), generic),
                Purpose::Call => (address("smp_call_function_single", 0x70), generic),
                _ => (address("wakeup_preempt", 0x20), 0),
            };
            let what = What::SendIpi {
                cpu: to,
                callsite,
                callback,
            };
            self.emit(cpu, what);
        }
        self.sent(cpu, to, kind, purpose);
    }

    fn sent(&mut self, cpu: Cpu, to: Cpu, kind: Vector, purpose: Purpose) {
        let number = self.notes.sendings.len();
        self.notes.sendings.push(Sending {
            ts: self.now,
            from: cpu,
            to,
            kind,
            purpose,
            handled: None,
        });
        let pending = &mut self.cpus[to].pending[kind as usize];
        pending.push(number);
        // One more of a kind that is due is no interrupt of its own.
        if pending.len() == 1 {
            let delay = match purpose {
                Purpose::Wakeup | Purpose::Tlb | Purpose::Call => self.landing(),
                _ => self.random.within(20, 900),
            };
            self.after(delay, move |sim| sim.interrupt(to, kind));
        }
    }

    /// The CPU is interrupted, as soon as it lets itself be.
    fn interrupt(&mut self, cpu: Cpu, kind: Vector) {
        let current = self.cpus[cpu].current;
        let leaving = current.is_some_and(|task| self.tasks[task].leaving);
        if self.is_busy(cpu) || leaving {
            self.after(85, move |sim| sim.interrupt(cpu, kind));
            return;
        }
        let context = self.cpus[cpu].context;
        self.cpus[cpu].context |= HARDIRQ;
        let entry = self.emit(cpu, What::VectorEntry(kind));
        let served = std::mem::take(&mut self.cpus[cpu].pending[kind as usize]);
        self.now += self.random.within(5, 40);
        let by_function = self.kernel.queues_by_function();
        let mut inner = 0;
        if kind != Vector::Reschedule {
            inner += self.flush_for_others(cpu) + self.call_for_others(cpu);
        }
        if (kind == Vector::Reschedule) != by_function {
            inner += self.wake_listed(cpu);
        }
        let exit = self.emit(cpu, What::VectorExit(kind));
        self.cpus[cpu].context = context;
        self.cpus[cpu].resched |= self.random.chance(40);
        for (place, number) in served.into_iter().enumerate() {
            self.notes.sendings[number].handled = Some(Handled {
                entry,
                exit,
                inner,
                started: place == 0,
                interrupted: current,
            });
        }
    }

    /// Enqueues what is on the CPU's wake list. Returns how long that took.
    fn wake_listed(&mut self, cpu: Cpu) -> i64 {
        let list = std::mem::take(&mut self.cpus[cpu].list);
        let Some(&first) = list.first() else {
            return 0;
        };
        let func = address("sched_ttwu_pending", 0);
        let csd = self.entry_of(self.notes.wakeups[first].wakee);
        let entry = self.emit(cpu, What::FunctionEntry { func, csd });
        for wakeup in list {
            self.now += self.random.within(10, 80);
            self.enqueued(cpu, wakeup);
            let wakee = self.notes.wakeups[wakeup].wakee;
            self.enqueue(wakee, cpu, Why::Woken(wakeup));
        }
        self.emit(cpu, What::FunctionExit { func, csd }) - entry
    }

    /// Forgets translations, as others asked. Returns how long that took.
    fn flush_for_others(&mut self, cpu: Cpu) -> i64 {
        let func = address("flush_tlb_func", 0);
        let mut took = 0;
        for number in std::mem::take(&mut self.cpus[cpu].flushes) {
            let csd = self.flush_entry(self.notes.shootdowns[number].from, cpu);
            let entry = self.emit(cpu, What::FunctionEntry { func, csd });
            self.now += self.random.within(40, 200);
            // One that runs nothing gives the translations up instead.
            let lazy = self.cpus[cpu].current.is_none() && self.random.chance(50);
            let (reason, pages) = if lazy { (0, -1) } else { (1, 1) };
            self.emit(cpu, What::Tlb { reason, pages });
            let exit = self.emit(cpu, What::FunctionExit { func, csd });
            self.notes.shootdowns[number].acknowledged.push(exit);
            took += exit - entry;
        }
        took
    }

    /// Calls functions, as others asked. Returns how long that took.
    fn call_for_others(&mut self, cpu: Cpu) -> i64 {
        let func = address("remote_function", 0);
        let mut took = 0;
        for csd in std::mem::take(&mut self.cpus[cpu].calls) {
            let entry = self.emit(cpu, What::FunctionEntry { func, csd });
            self.now += self.random.within(30, 150);
            took += self.emit(cpu, What::FunctionExit { func, csd }) - entry;
        }
        took
    }

    /// Has a function called on another CPU, and does not wait for it.
    pub fn call(&mut self, cpu: Cpu) {
        let others: Vec<Cpu> = (0..self.shared_cpus()).filter(|&c| c != cpu).collect();
        let Some(to) = self.random.pick(&others) else {
            return;
        };
        let csd = 0xffff_8883_0000_0000 + self.notes.calls.len() as u64 * 64;
        let what = What::Queue {
            cpu: to,
            callsite: address("smp_call_function_single", 0x40),
            func: address("remote_function", 0),
            csd,
        };
        let ts = self.emit(cpu, what);
        self.notes.calls.push((ts, cpu, to));
        let first = self.awaits_no_call(to, false);
        self.cpus[to].calls.push(csd);
        if first && self.polls(to) && self.kernel.queues_by_function() {
            self.flag(cpu, to);
        } else if first {
            self.send(cpu, to, Vector::FunctionSingle, Purpose::Call);
        }
    }

    /// Interrupts itself, to do something that it may not do where it is. Of the handler no event is recorded.
    pub fn interrupt_itself(&mut self, cpu: Cpu) {
        if !self.kernel.tells_sends() {
            return;
        }
        let what = What::SendIpi {
            cpu,
            callsite: address("wakeup_preempt", 0x60),
            callback: address("wake_up_klogd_work_func", 0),
        };
        let ts = self.emit(cpu, what);
        self.notes.sendings.push(Sending {
            ts,
            from: cpu,
            to: cpu,
            kind: Vector::FunctionSingle,
            purpose: Purpose::IrqWork,
            handled: None,
        });
    }

    /// A task's translations change: other CPUs are to forget them, and this one waits until they have.
    pub fn shoot_down(&mut self, cpu: Cpu) -> bool {
        let mut targets: Vec<Cpu> = (0..self.shared_cpus()).filter(|&c| c != cpu).collect();
        self.random.shuffle(&mut targets);
        let most = targets.len();
        targets.truncate(self.random.below(most + 1).min(5));
        targets.sort_unstable();
        let pages = match self.random.below(4) {
            0 => -1,
            _ => self.random.within(1, 34),
        };
        // Of many tasks' at once, by reclaim.
        let reclaim = pages == -1 && self.random.chance(40);
        if reclaim && targets.is_empty() {
            self.emit(cpu, What::Tlb { reason: 2, pages });
            return true;
        }
        let number = self.notes.shootdowns.len();
        let reason = if targets.is_empty() { 3 } else { 4 };
        self.emit(cpu, What::Tlb { reason, pages });
        self.notes.shootdowns.push(Shootdown {
            from: cpu,
            pages,
            targets: targets.clone(),
            asked: None,
            acknowledged: Vec::new(),
        });
        if targets.is_empty() {
            return true;
        }
        let mut interrupted = Vec::new();
        for &to in &targets {
            let what = What::Queue {
                cpu: to,
                callsite: address("on_each_cpu_cond_mask", 0x30),
                func: address("flush_tlb_func", 0),
                csd: self.flush_entry(cpu, to),
            };
            let ts = self.emit(cpu, what);
            self.notes.shootdowns[number].asked.get_or_insert(ts);
            if self.awaits_no_call(to, false) {
                interrupted.push(to);
            }
            self.cpus[to].flushes.push(number);
        }
        self.ask_to_flush(cpu, &interrupted);
        self.flush_itself(cpu, if reclaim { 2 } else { 3 }, pages);
        self.cpus[cpu].spinning = true;
        self.after(50, move |sim| sim.await_flushes(cpu, number));
        false
    }

    fn ask_to_flush(&mut self, cpu: Cpu, targets: &[Cpu]) {
        match *targets {
            [] => {}
            [only] if self.polls(only) && self.kernel.queues_by_function() => {
                self.flag(cpu, only);
            }
            [only] => self.send(cpu, only, Vector::FunctionSingle, Purpose::Tlb),
            _ => {
                if self.kernel.tells_sends() {
                    let what = What::SendIpis {
                        cpus: targets.to_vec(),
                        callsite: address("on_each_cpu_cond_mask", 0x30),
                        callback: address("generic_smp_call_function_single_interrupt", 0),
                    };
                    self.emit(cpu, what);
                }
                for &to in targets {
                    self.sent(cpu, to, Vector::Function, Purpose::Tlb);
                }
            }
        }
    }

    /// The initiator's own part is no entry of a list.
    fn flush_itself(&mut self, cpu: Cpu, reason: i32, pages: i64) {
        let func = address("flush_tlb_func", 0);
        self.emit(cpu, What::FunctionEntry { func, csd: 0 });
        self.now += self.random.within(20, 90);
        self.emit(cpu, What::Tlb { reason, pages });
        self.emit(cpu, What::FunctionExit { func, csd: 0 });
    }

    fn await_flushes(&mut self, cpu: Cpu, number: usize) {
        let shootdown = &self.notes.shootdowns[number];
        if shootdown.acknowledged.len() < shootdown.targets.len() {
            self.after(60, move |sim| sim.await_flushes(cpu, number));
        } else {
            self.cpus[cpu].spinning = false;
            self.proceed(cpu);
        }
    }
}
