//! The CPU-time ledger by brute force: at every instant, which CPUs could have run which waiting tasks.

use super::machine::Cpu;
use super::notes::State;
use super::scheduler::Task;
use super::timeline::{Read, Segment, Timeline};

/// One reading's rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LedgerTruth {
    pub running: i64,
    pub transit: i64,
    pub core: i64,
    pub smt: i64,
    /// At least and at most: who is left over where masks differ is tried out only where few CPUs are free.
    pub machine: (i64, i64),
    /// By CPU: running and transit.
    pub by_cpu: Vec<(i64, i64)>,
    /// By LLC, of its own CPUs: core and smt.
    pub by_llc: Vec<(i64, i64)>,
    /// Whether lost time by task is laid down: every waiting task might run anywhere, whenever any waited.
    pub plain: bool,
    /// By task: its share of what was lost.
    pub lost: Vec<f64>,
}

pub fn ledger(timeline: &Timeline, read: Read) -> LedgerTruth {
    let cpus = timeline.machine.cpus();
    let llcs = (0..cpus)
        .map(|cpu| timeline.machine.llc(cpu))
        .max()
        .unwrap_or(0)
        + 1;
    let mut truth = LedgerTruth {
        by_cpu: vec![(0, 0); cpus],
        by_llc: vec![(0, 0); llcs],
        plain: true,
        lost: vec![0.0; timeline.notes.tasks.len()],
        ..LedgerTruth::default()
    };
    for segment in &timeline.segments {
        truth.add(timeline, segment, read, llcs);
    }
    truth
}

/// A task that waits and where it may run.
struct Waiting {
    task: Task,
    llc: usize,
    mask: Option<Vec<Cpu>>,
}

impl Waiting {
    fn may_use(&self, cpu: Cpu) -> bool {
        self.mask.as_ref().is_none_or(|mask| mask.contains(&cpu))
    }
}

impl LedgerTruth {
    fn add(&mut self, timeline: &Timeline, segment: &Segment, read: Read, llcs: usize) {
        let ns = segment.to - segment.from;
        let machine = timeline.machine;
        for cpu in 0..machine.cpus() {
            if segment.running[cpu].is_some() {
                self.running += ns;
                self.by_cpu[cpu].0 += ns;
            } else if !segment.idle[cpu] {
                self.transit += ns;
                self.by_cpu[cpu].1 += ns;
            }
        }
        let waiting: Vec<Waiting> = waiting(segment)
            .map(|(task, cpu)| Waiting {
                task,
                llc: machine.llc(cpu),
                mask: timeline.mask(task, segment.from, read),
            })
            .collect();
        let free: Vec<Cpu> = (0..machine.cpus())
            .filter(|&cpu| segment.idle[cpu])
            .collect();
        if waiting.is_empty() || free.is_empty() {
            return;
        }
        let mut near = 0;
        let (mut left_waiting, mut left_free) = (0, 0);
        for llc in 0..llcs {
            let tasks: Vec<&Waiting> = waiting.iter().filter(|w| w.llc == llc).collect();
            let cpus: Vec<Cpu> = free
                .iter()
                .copied()
                .filter(|&cpu| machine.llc(cpu) == llc)
                .collect();
            let whole: Vec<Cpu> = cpus
                .iter()
                .copied()
                .filter(|&cpu| timeline.whole_core(segment, cpu))
                .collect();
            let matched = most_matched(&tasks, &cpus);
            let in_core = most_matched(&tasks, &whole);
            self.core += ns * in_core as i64;
            self.smt += ns * (matched - in_core) as i64;
            self.by_llc[llc].0 += ns * in_core as i64;
            self.by_llc[llc].1 += ns * (matched - in_core) as i64;
            near += matched;
            left_waiting += tasks.len() - matched;
            left_free += cpus.len() - matched;
        }
        let all: Vec<&Waiting> = waiting.iter().collect();
        let unrestricted = waiting.iter().all(|w| w.mask.is_none());
        let most = most_matched(&all, &free) - near;
        let most = most.min(left_waiting.min(left_free));
        let (least, most) = match unrestricted || most == 0 {
            true => (most, most),
            false => match most_across(&all, &free, timeline, segment) {
                Some(across) => (across, across),
                None => (0, most),
            },
        };
        self.machine.0 += ns * least as i64;
        self.machine.1 += ns * most as i64;
        self.plain &= unrestricted;
        if unrestricted {
            self.share(timeline, segment, &waiting, &free);
        }
    }

    /// Those who wait share what is lost: within an LLC all alike; LLCs whose tasks could also use others' CPUs make one.
    fn share(&mut self, timeline: &Timeline, segment: &Segment, waiting: &[Waiting], free: &[Cpu]) {
        let ns = (segment.to - segment.from) as f64;
        let count = |llc: usize| {
            let tasks = waiting.iter().filter(|w| w.llc == llc).count();
            let cpus = free
                .iter()
                .filter(|&&cpu| timeline.machine.llc(cpu) == llc)
                .count();
            (tasks, cpus)
        };
        let mut llcs: Vec<usize> = waiting.iter().map(|w| w.llc).collect();
        llcs.sort_unstable();
        llcs.dedup();
        let over: Vec<usize> = llcs
            .iter()
            .copied()
            .filter(|&l| count(l).0 > count(l).1)
            .collect();
        let near = |llc: usize| count(llc).0.min(count(llc).1);
        let all_near: usize = llcs.iter().map(|&l| near(l)).sum();
        let left_tasks: usize = over.iter().map(|&l| count(l).0 - near(l)).sum();
        let far = left_tasks.min(free.len() - all_near);
        let together = far > 0;
        let joint_tasks: usize = over.iter().map(|&l| count(l).0).sum();
        let joint: usize = over.iter().map(|&l| near(l)).sum::<usize>() + far;
        for w in waiting {
            let share = match together && over.contains(&w.llc) {
                true => joint as f64 / joint_tasks as f64,
                false => near(w.llc) as f64 / count(w.llc).0 as f64,
            };
            self.lost[w.task] += share * ns;
        }
    }
}

/// The tasks that wait for another, and on which CPU.
fn waiting(segment: &Segment) -> impl Iterator<Item = (Task, Cpu)> + '_ {
    let states = segment.states.iter().enumerate();
    states.filter_map(|(task, state)| match *state {
        State::Queued(cpu) if segment.due[cpu] != Some(task) => Some((task, cpu)),
        _ => None,
    })
}

/// More free CPUs than this are not tried all.
const TRIED: usize = 11;

/// Of all matchings with the most pairs within LLCs, and of these the most whole cores: the most pairs across LLCs. By trying
/// everything: for each set of CPUs, the best that tasks can do with it.
fn most_across(
    tasks: &[&Waiting],
    cpus: &[Cpu],
    timeline: &Timeline,
    segment: &Segment,
) -> Option<usize> {
    if cpus.len() > TRIED {
        return None;
    }
    let mut best: Vec<Option<(usize, usize, usize)>> = vec![None; 1 << cpus.len()];
    best[0] = Some((0, 0, 0));
    for task in tasks {
        // Backwards, so that a task takes one CPU only.
        for used in (0..best.len()).rev() {
            let Some((near, whole, far)) = best[used] else {
                continue;
            };
            for (place, &cpu) in cpus.iter().enumerate() {
                let with = used | 1 << place;
                if with == used || !task.may_use(cpu) {
                    continue;
                }
                let more = match timeline.machine.llc(cpu) == task.llc {
                    true => {
                        let core = usize::from(timeline.whole_core(segment, cpu));
                        (near + 1, whole + core, far)
                    }
                    false => (near, whole, far + 1),
                };
                best[with] = best[with].max(Some(more));
            }
        }
    }
    best.into_iter().flatten().max().map(|(_, _, far)| far)
}

/// The size of the greatest matching, by augmenting paths.
fn most_matched(tasks: &[&Waiting], cpus: &[Cpu]) -> usize {
    let mut holder: Vec<Option<usize>> = vec![None; cpus.len()];
    (0..tasks.len())
        .filter(|&task| {
            let mut tried = vec![false; cpus.len()];
            seat(task, tasks, cpus, &mut holder, &mut tried)
        })
        .count()
}

fn seat(
    task: usize,
    tasks: &[&Waiting],
    cpus: &[Cpu],
    holder: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for place in 0..cpus.len() {
        if tried[place] || !tasks[task].may_use(cpus[place]) {
            continue;
        }
        tried[place] = true;
        let free = match holder[place] {
            None => true,
            Some(other) => seat(other, tasks, cpus, holder, tried),
        };
        if free {
            holder[place] = Some(task);
            return true;
        }
    }
    false
}
