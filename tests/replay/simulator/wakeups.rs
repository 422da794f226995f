//! The simulated `try_to_wake_up`: from the waking to the enqueue, with what is sent in between.

use super::events::{HARDIRQ, NMI, SOFTIRQ, Select, Vector, What, address};
use super::flips::DECAYS;
use super::machine::Cpu;
use super::notes::{Cause, Context, Purpose, Sent, State, Wakeup, Way, Why};
use super::scheduler::{Kind, Sim, Task};

impl Sim {
    /// `common_flags` and the soft interrupt being served tell what the waker is.
    fn context(&self, cpu: Cpu) -> Context {
        match self.cpus[cpu].context {
            flags if flags & NMI != 0 => Context::Nmi,
            flags if flags & HARDIRQ != 0 => Context::Hardirq,
            flags if flags & SOFTIRQ != 0 && self.notes_inline(cpu) => Context::SoftirqInline,
            flags if flags & SOFTIRQ != 0 => Context::SoftirqIrqExit,
            _ => Context::Task,
        }
    }

    /// Notes a wakeup that begins now.
    fn note(&mut self, cpu: Cpu, wakee: Task, chosen: Cpu, way: Way) -> usize {
        self.notes.wakeups.push(Wakeup {
            wakee,
            waking: Some(self.now),
            enqueued: None,
            enqueuer: cpu,
            interrupted: self.cpus[cpu].context & HARDIRQ != 0,
            current: self.cpus[cpu].current,
            context: self.context(cpu),
            waker_cpu: cpu,
            prev: self.tasks[wakee].cpu,
            chosen,
            way,
            sent: Sent::Nothing,
            probed: None,
            migrated: None,
            queued: None,
            interrupt: None,
            flagged: None,
            pinned: self.tasks[wakee].mask.len() == 1,
            flips: None,
            flips_by: [(0, 0); 3],
        });
        self.notes.wakeups.len() - 1
    }

    /// `sched_waking`.
    fn waking(&mut self, cpu: Cpu, wakee: Task) {
        let who = self.tasks[wakee].who.clone();
        let prev = self.tasks[wakee].cpu;
        self.emit(cpu, What::Waking { who, prev });
    }

    /// `sched_wakeup`.
    pub fn enqueued(&mut self, cpu: Cpu, wakeup: usize) {
        let (wakee, to) = (
            self.notes.wakeups[wakeup].wakee,
            self.notes.wakeups[wakeup].chosen,
        );
        let who = self.tasks[wakee].who.clone();
        let ts = self.emit(cpu, What::Wakeup { who, to });
        let idle = self.cpus[cpu].current.is_none();
        let note = &mut self.notes.wakeups[wakeup];
        note.enqueued = Some(ts);
        note.enqueuer = cpu;
        note.interrupted = self.cpus[cpu].context & HARDIRQ != 0 || idle;
    }

    /// A task wakes itself before it sleeps.
    pub fn wake_itself(&mut self, cpu: Cpu, task: Task) {
        self.waking(cpu, task);
        let wakeup = self.note(cpu, task, cpu, Way::Itself);
        self.enqueued(cpu, wakeup);
    }

    /// A task that said it would sleep, but has not left its CPU or its queue, is woken.
    pub fn wake_in_place(&mut self, cpu: Cpu, task: Task) {
        self.waking(cpu, task);
        let at = self.tasks[task].cpu;
        let wakeup = self.note(cpu, task, at, Way::InPlace);
        self.enqueued(cpu, wakeup);
    }

    /// A task that is about to leave its CPU is put on that CPU's wake list.
    pub fn wake_leaving(&mut self, cpu: Cpu, task: Task) {
        self.waking(cpu, task);
        let at = self.tasks[task].cpu;
        self.tasks[task].leaving = true;
        let wakeup = self.note(cpu, task, at, Way::ListedOnCpu);
        let delay = self.random.within(60, 300);
        self.after(delay, move |sim| {
            sim.list(cpu, wakeup);
            sim.proceed(cpu);
        });
    }

    /// A wakeup of a task that sleeps; the CPU goes on with its phases afterwards.
    pub fn wake(&mut self, cpu: Cpu, wakee: Task, to: Option<Cpu>) {
        let delayed = self.tasks[wakee].delayed;
        let prev = self.tasks[wakee].cpu;
        let chosen = match to {
            Some(to) => to,
            None if delayed => prev,
            None => self.place(cpu, wakee),
        };
        let stopper = matches!(self.tasks[wakee].kind, Kind::Stopper(_));
        let listed = !delayed && !stopper && self.goes_by_list(cpu, chosen);
        self.waking(cpu, wakee);
        let way = match (delayed, listed) {
            (true, _) => Way::Requeued,
            (_, true) => Way::Listed,
            _ => Way::Enqueued,
        };
        let wakeup = self.note(cpu, wakee, chosen, way);
        self.set(wakee, State::Transit(chosen), Why::Other);
        self.cpus[prev].delayed.retain(|&task| task != wakee);
        self.tasks[wakee].delayed = false;
        let selected =
            way != Way::Requeued && self.fair(wakee) && !self.notes.wakeups[wakeup].pinned;
        // Before 4.8 it was charged before anything was chosen.
        if selected {
            self.charge(cpu, wakeup);
        }
        if selected && self.plan.probes {
            self.probe(cpu, wakeup);
        }
        let delay = self.random.within(150, 1200);
        if delayed {
            // Under the lock of its queue, so that nothing comes between.
            self.now += delay;
            self.enqueue_there(cpu, wakeup);
        } else {
            self.after(delay, move |sim| sim.chosen(cpu, wakeup, selected));
        }
    }

    fn charge(&mut self, cpu: Cpu, wakeup: usize) {
        let ticks = self.ticks();
        let wakee = self.notes.wakeups[wakeup].wakee;
        let wakees = self.tasks[wakee].flips;
        let flips = match self.cpus[cpu].current {
            Some(waker) => &mut self.tasks[waker].flips,
            None => &mut self.swapper_flips[cpu],
        };
        flips.charge(wakee, ticks);
        let note = &mut self.notes.wakeups[wakeup];
        // Of a task that wakes itself the two are one.
        let wakees = match self.cpus[cpu].current == Some(wakee) {
            true => *flips,
            false => wakees,
        };
        note.flips = Some((flips.kernels(), wakees.kernels()));
        note.flips_by = DECAYS.map(|decay| (flips.by(decay), wakees.by(decay)));
    }

    fn probe(&mut self, cpu: Cpu, wakeup: usize) {
        let wakee = self.notes.wakeups[wakeup].wakee;
        let task = &self.tasks[wakee];
        let last = task
            .flips
            .last
            .map_or(0, |task| 0xffff_8880_0000_0000 + task as u64 * 4096);
        let select = Select {
            pid: task.who.pid,
            flips: task.flips.kernels(),
            last_wakee: last,
            recent: -1,
            prev: task_prev(&self.notes.wakeups[wakeup]),
            flags: 8,
            allowed: task.mask.len(),
        };
        self.emit(cpu, What::Select(select));
    }

    /// The CPU is chosen.
    fn chosen(&mut self, cpu: Cpu, wakeup: usize, selected: bool) {
        let Wakeup {
            wakee,
            prev,
            chosen,
            way,
            ..
        } = self.notes.wakeups[wakeup];
        if selected && self.plan.probes {
            let ts = self.emit(cpu, What::Selected { cpu: chosen });
            self.notes.wakeups[wakeup].probed = Some(ts);
        }
        if chosen != prev {
            self.announce(cpu, wakee, prev, chosen, Cause::Wakeup);
            self.notes.wakeups[wakeup].migrated = Some(self.now);
        }
        let delay = self.random.within(60, 500);
        self.after(delay, move |sim| {
            if way == Way::Listed {
                sim.list(cpu, wakeup);
                sim.proceed(cpu);
            } else {
                sim.enqueue_there(cpu, wakeup);
            }
        });
    }

    /// Puts a wakeup on the chosen CPU's list, and tells that CPU if the list was empty.
    fn list(&mut self, cpu: Cpu, wakeup: usize) {
        let to = self.notes.wakeups[wakeup].chosen;
        if self.kernel.tells_sends() {
            let what = What::Queue {
                cpu: to,
                callsite: address("try_to_wake_up", 0x40),
                func: address("sched_ttwu_pending", 0),
                csd: self.entry_of(self.notes.wakeups[wakeup].wakee),
            };
            let ts = self.emit(cpu, what);
            self.notes.wakeups[wakeup].queued = Some(ts);
        }
        let first = self.awaits_no_call(to, true);
        self.cpus[to].list.push(wakeup);
        let sent = if !first {
            Sent::Behind
        } else if self.polls(to) {
            self.notes.wakeups[wakeup].flagged = Some(self.flag(cpu, to));
            Sent::Flag
        } else {
            let vector = match self.kernel.queues_by_function() {
                true => Vector::FunctionSingle,
                false => Vector::Reschedule,
            };
            self.send(cpu, to, vector, Purpose::Wakeup);
            if self.kernel.tells_sends() {
                self.notes.wakeups[wakeup].interrupt = Some(self.now);
            }
            Sent::Ipi
        };
        self.notes.wakeups[wakeup].sent = sent;
    }

    /// Enqueues the wakee on whatever CPU.
    fn enqueue_there(&mut self, cpu: Cpu, wakeup: usize) {
        let (wakee, to) = (
            self.notes.wakeups[wakeup].wakee,
            self.notes.wakeups[wakeup].chosen,
        );
        let idle = self.cpus[to].current.is_none();
        let by_chance = self.random.chance(35);
        let preempts = idle || !self.fair(wakee) || self.plan.preempts.unwrap_or(by_chance);
        if to != cpu && preempts {
            if self.polls(to) {
                self.notes.wakeups[wakeup].flagged = Some(self.emit(cpu, What::Poll { cpu: to }));
                self.notes.wakeups[wakeup].sent = Sent::Flag;
            } else {
                self.send(cpu, to, Vector::Reschedule, Purpose::WakeupReschedule);
                self.notes.wakeups[wakeup].sent = Sent::Ipi;
                if self.kernel.tells_sends() {
                    self.notes.wakeups[wakeup].interrupt = Some(self.now);
                }
            }
        }
        let delay = self.random.within(30, 200);
        let requeue = self.notes.wakeups[wakeup].way == Way::Requeued;
        let arrive = move |sim: &mut Sim| {
            sim.enqueued(cpu, wakeup);
            sim.enqueue(wakee, to, Why::Woken(wakeup));
            sim.cpus[to].resched |= preempts;
        };
        if requeue {
            arrive(self);
            self.after(delay, move |sim| sim.proceed(cpu));
        } else {
            self.after(delay, move |sim| {
                arrive(sim);
                sim.proceed(cpu);
            });
        }
    }

    /// A task is born: its parent enqueues it.
    pub fn give_birth(&mut self, cpu: Cpu, parent: Task, child: Task) {
        let near = self.tasks[child].mask.clone();
        let to = self.random.pick(&near).unwrap_or(cpu);
        let what = What::New {
            who: self.tasks[child].who.clone(),
            to,
        };
        let ts = self.emit(cpu, what);
        // `fork` left it where its parent was.
        self.tasks[child].cpu = cpu;
        let wakeup = self.note(cpu, child, to, Way::New);
        self.notes.wakeups[wakeup].waking = None;
        self.notes.wakeups[wakeup].enqueued = Some(ts);
        self.enqueue(child, to, Why::Woken(wakeup));
        debug_assert_eq!(self.cpus[cpu].current, Some(parent));
        let delay = self.random.within(20, 90);
        self.after(delay, move |sim| sim.tell_of_birth(cpu, to, wakeup));
    }

    fn tell_of_birth(&mut self, cpu: Cpu, to: Cpu, wakeup: usize) {
        if to != cpu && (self.cpus[to].current.is_none() || self.random.chance(40)) {
            self.notes.wakeups[wakeup].sent = if self.polls(to) {
                self.emit(cpu, What::Poll { cpu: to });
                Sent::Flag
            } else {
                self.send(cpu, to, Vector::Reschedule, Purpose::WakeupReschedule);
                Sent::Ipi
            };
        }
        self.proceed(cpu);
    }
}

fn task_prev(wakeup: &Wakeup) -> Cpu {
    wakeup.prev
}
