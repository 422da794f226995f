//! Matching across LLCs where masks differ: who is left over by each LLC, for whom, and who shares what is lost.
//!
//! Which tasks and CPUs an LLC leaves over is open as long as as many of each are matched within it. They are left over
//! such that as many as possible are matched across LLCs, whatever numbers the CPUs go by: of all matchings with the most
//! pairs within LLCs, and of these the most whole cores, one with the most pairs.
//!
//! Starting from a matching within LLCs, each step adds the best way from a free CPU to a task that waits, over pairs that
//! are exchanged (the method of successive paths for flows of least cost). A way that gives up a pair within an LLC, or
//! a whole core, is not gone: no later one is better.

use super::cpuset::{MaskId, MaskTable};
use super::matching::Component;

/// A CPU that runs nothing and has nothing on its way.
#[derive(Debug, Clone, Copy)]
pub struct Free {
    pub cpu: usize,
    pub llc: usize,
    /// Its whole core runs nothing.
    pub whole: bool,
}

/// Waiting tasks of one LLC with one mask.
#[derive(Debug, Clone)]
pub struct Waiters {
    pub llc: usize,
    pub mask: MaskId,
    /// Ascending.
    pub tasks: Vec<u32>,
}

/// How good a way is: pairs within LLCs, then whole cores among these.
type Worth = (i32, i32);

/// A matching of free CPUs with waiting tasks.
pub struct Leftover<'a> {
    free: &'a [Free],
    waiters: &'a [Waiters],
    masks: &'a MaskTable,
    /// By free CPU: whose task it is matched with.
    pub owner: Vec<Option<usize>>,
    /// The CPUs that tasks of each are matched with.
    seats: Vec<Vec<usize>>,
    /// By CPU: the worth of the best way there, and the CPU before it, which takes over its seat.
    ways: Vec<Option<(Worth, usize)>>,
}

impl<'a> Leftover<'a> {
    /// Matches `free`, those of one kind in the order in which they are to be taken: whole cores first.
    pub fn solve(free: &'a [Free], waiters: &'a [Waiters], masks: &'a MaskTable) -> Self {
        let mut matching = Self {
            free,
            waiters,
            masks,
            owner: vec![None; free.len()],
            seats: vec![Vec::new(); waiters.len()],
            ways: vec![None; free.len()],
        };
        let mut tried = vec![false; waiters.len()];
        for slot in 0..free.len() {
            tried.fill(false);
            matching.seat_within(slot, &mut tried);
        }
        for slot in 0..free.len() {
            if matching.owner[slot].is_none() {
                matching.seat_anywhere(slot);
            }
        }
        matching
    }

    fn allowed(&self, slot: usize, g: usize) -> bool {
        let mask = self.masks.get(self.waiters[g].mask);
        mask.contains(self.free[slot].cpu)
    }

    /// Whether a pair is within one LLC.
    pub fn is_near(&self, slot: usize, g: usize) -> bool {
        self.free[slot].llc == self.waiters[g].llc
    }

    fn has_room(&self, g: usize) -> bool {
        self.seats[g].len() < self.waiters[g].tasks.len()
    }

    fn take(&mut self, slot: usize, g: usize) {
        if let Some(former) = self.owner[slot].replace(g) {
            self.seats[former].retain(|&seated| seated != slot);
        }
        self.seats[g].push(slot);
    }

    /// Finds a task of its LLC for one more CPU; those seated before keep a seat.
    fn seat_within(&mut self, slot: usize, tried: &mut [bool]) -> bool {
        for g in 0..self.waiters.len() {
            if tried[g] || !self.is_near(slot, g) || !self.allowed(slot, g) {
                continue;
            }
            tried[g] = true;
            let movable = |of: &Self| of.seats[g].clone();
            if self.has_room(g)
                || movable(self)
                    .into_iter()
                    .any(|s| self.seat_within(s, tried))
            {
                self.take(slot, g);
                return true;
            }
        }
        false
    }

    fn worth(&self, slot: usize, g: usize) -> Worth {
        match self.is_near(slot, g) {
            true => (1, i32::from(self.free[slot].whole)),
            false => (0, 0),
        }
    }

    /// Finds a task anywhere for one more CPU, if that costs no pair within an LLC and no whole core.
    fn seat_anywhere(&mut self, start: usize) {
        let mut ways = std::mem::take(&mut self.ways);
        ways[start] = Some(((0, 0), start));
        let mut reached = vec![start];
        let mut end: Option<(Worth, usize, usize)> = None;
        // A CPU comes again when a better way to it was found: so often at most as there are CPUs on a way.
        let mut next = 0;
        while let Some(&slot) = reached.get(next) {
            next += 1;
            let Some((so_far, _)) = ways[slot] else {
                continue;
            };
            for g in (0..self.waiters.len()).filter(|&g| self.allowed(slot, g)) {
                let gained = sum(so_far, self.worth(slot, g));
                if self.has_room(g) {
                    if end.is_none_or(|(worth, ..)| worth < gained) {
                        end = Some((gained, slot, g));
                    }
                    continue;
                }
                for &other in self.seats[g].iter().filter(|&&other| other != slot) {
                    let worth = difference(gained, self.worth(other, g));
                    if ways[other].is_none_or(|(known, _)| known < worth) {
                        ways[other] = Some((worth, slot));
                        reached.push(other);
                    }
                }
            }
        }
        if let Some(((0, 0), slot, g)) = end {
            self.pass_seats(start, slot, g, &ways);
        }
        reached.into_iter().for_each(|slot| ways[slot] = None);
        self.ways = ways;
    }

    /// The last CPU of a way takes a new seat, and each one before it the seat that is given up behind it.
    fn pass_seats(
        &mut self,
        start: usize,
        mut slot: usize,
        mut seat: usize,
        ways: &[Option<(Worth, usize)>],
    ) {
        for _ in 0..self.free.len() {
            let given_up = self.owner[slot];
            self.take(slot, seat);
            match (ways[slot], given_up) {
                (Some((_, before)), Some(free)) if slot != start => (slot, seat) = (before, free),
                _ => return,
            }
        }
    }

    /// Who shares what is lost. Within an LLC those connected by allowed pairs do, whether or not matched. Those of them
    /// with tasks left over that could use the same CPUs of other LLCs do so together, if one of these is matched.
    pub fn components(&self) -> Vec<Component> {
        let near = self.parts();
        let joint = self.joints(&near);
        let mut far = vec![0; joint.len()];
        let mut inside = vec![0; self.waiters.len()];
        for (slot, owner) in self.owner.iter().enumerate() {
            let Some(g) = *owner else {
                continue;
            };
            match self.is_near(slot, g) {
                true => inside[near.root(g)] += 1,
                false => far[joint.root(near.root(g))] += 1,
            }
        }
        let mut found: Vec<(usize, Component)> = Vec::new();
        for g in 0..self.waiters.len() {
            let part = near.root(g);
            // Where none is matched across LLCs, each part goes by itself.
            let key = match far[joint.root(part)] {
                0 => self.waiters.len() + self.free.len() + part,
                _ => joint.root(part),
            };
            let at = found.iter().position(|(known, _)| *known == key);
            let at = at.unwrap_or_else(|| {
                let matched = far.get(key).copied().unwrap_or(0);
                let tasks = Vec::new();
                found.push((key, Component { matched, tasks }));
                found.len() - 1
            });
            let component = &mut found[at].1;
            component.tasks.extend(&self.waiters[g].tasks);
            if g == part {
                component.matched += inside[part];
            }
        }
        let mut found: Vec<Component> = found.into_iter().map(|(_, c)| c).collect();
        found.retain(|component| component.matched > 0);
        for component in &mut found {
            component.tasks.sort_unstable();
        }
        found.sort_by_key(|component| component.tasks.first().copied());
        found
    }

    /// Waiters connected by allowed pairs within their LLC.
    fn parts(&self) -> Roots {
        let mut parts = Roots::new(self.waiters.len());
        for slot in 0..self.free.len() {
            let mut first = None;
            for g in (0..self.waiters.len()).filter(|&g| self.pairs_near(slot, g)) {
                parts.join(*first.get_or_insert(g), g);
            }
        }
        parts
    }

    fn pairs_near(&self, slot: usize, g: usize) -> bool {
        self.is_near(slot, g) && self.allowed(slot, g)
    }

    /// Parts with tasks left over, connected by the CPUs of other LLCs that may be left over for them. CPUs come behind the
    /// waiters; those of one part are as one.
    fn joints(&self, near: &Roots) -> Roots {
        let offset = self.waiters.len();
        let part_of = |slot: usize| (0..offset).find(|&g| self.pairs_near(slot, g));
        let mut tasks = vec![0; offset];
        let mut spare = vec![0; offset];
        for (g, waiters) in self.waiters.iter().enumerate() {
            tasks[near.root(g)] += waiters.tasks.len();
        }
        let parts: Vec<Option<usize>> = (0..self.free.len())
            .map(|slot| part_of(slot).map(|g| near.root(g)))
            .collect();
        // The first CPU of a part stands for all of them.
        let stands = |slot: usize| match parts[slot] {
            None => slot,
            part => parts
                .iter()
                .position(|other| *other == part)
                .unwrap_or(slot),
        };
        for part in parts.iter().flatten() {
            spare[*part] += 1;
        }
        for (slot, owner) in self.owner.iter().enumerate() {
            if let Some(g) = owner.filter(|&g| self.is_near(slot, g)) {
                tasks[near.root(g)] -= 1;
                spare[near.root(g)] -= 1;
            }
        }
        let mut joints = Roots::new(offset + self.free.len());
        for (slot, part) in parts.iter().enumerate() {
            if part.is_some_and(|part| spare[part] == 0) {
                continue;
            }
            for g in 0..offset {
                if !self.is_near(slot, g) && self.allowed(slot, g) && tasks[near.root(g)] > 0 {
                    joints.join(near.root(g), offset + stands(slot));
                }
            }
        }
        joints
    }
}

fn sum(a: Worth, b: Worth) -> Worth {
    (a.0 + b.0, a.1 + b.1)
}

fn difference(a: Worth, b: Worth) -> Worth {
    (a.0 - b.0, a.1 - b.1)
}

/// Sets that are joined one by one; each goes by its lowest member.
struct Roots(Vec<usize>);

impl Roots {
    fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn root(&self, mut member: usize) -> usize {
        while self.0[member] != member {
            member = self.0[member];
        }
        member
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cpuset::CpuSet;
    use super::*;
    use proptest::prelude::*;

    /// Pairs within LLCs, whole cores among these, and pairs across LLCs: the most by trying everything.
    fn most(free: &[Free], waiters: &[Waiters], masks: &MaskTable) -> (i32, i32, i32) {
        let tasks: Vec<usize> = waiters
            .iter()
            .enumerate()
            .flat_map(|(g, w)| w.tasks.iter().map(move |_| g))
            .collect();
        let mut best = vec![None; 1 << free.len()];
        best[0] = Some((0, 0, 0));
        for g in tasks {
            for used in (0..best.len()).rev() {
                let Some((near, whole, far)) = best[used] else {
                    continue;
                };
                for (slot, cpu) in free.iter().enumerate() {
                    if used >> slot & 1 == 1 || !masks.get(waiters[g].mask).contains(cpu.cpu) {
                        continue;
                    }
                    let next = match cpu.llc == waiters[g].llc {
                        true => (near + 1, whole + i32::from(cpu.whole), far),
                        false => (near, whole, far + 1),
                    };
                    best[used | 1 << slot] = best[used | 1 << slot].max(Some(next));
                }
            }
        }
        best.into_iter().flatten().max().unwrap_or_default()
    }

    fn counted(matching: &Leftover) -> (i32, i32, i32) {
        let mut counted = (0, 0, 0);
        for (slot, owner) in matching.owner.iter().enumerate() {
            match owner.map(|g| matching.is_near(slot, g)) {
                Some(true) => {
                    counted.0 += 1;
                    counted.1 += i32::from(matching.free[slot].whole);
                }
                Some(false) => counted.2 += 1,
                None => {}
            }
        }
        counted
    }

    /// By LLC and kind of CPU: how many are matched within it, and how many across.
    fn by_kind(matching: &Leftover) -> Vec<(usize, bool, bool)> {
        let owners = matching.owner.iter().enumerate();
        let mut kinds: Vec<_> = owners
            .filter_map(|(slot, owner)| {
                let near = matching.is_near(slot, (*owner)?);
                let free = matching.free[slot];
                Some((free.llc, free.whole, near))
            })
            .collect();
        kinds.sort_unstable();
        kinds
    }

    const CPUS: usize = 9;

    fn case(
        wanted: &[(u16, usize, usize)],
        free: u16,
        whole: u16,
    ) -> (MaskTable, Vec<Free>, Vec<Waiters>) {
        let mut masks = MaskTable::new(CPUS);
        let mut waiters: Vec<Waiters> = Vec::new();
        let mut next = 0;
        for &(bits, llc, count) in wanted {
            let mut mask = CpuSet::empty(CPUS);
            (0..CPUS)
                .filter(|c| bits >> c & 1 == 1)
                .for_each(|c| mask.insert(c));
            let mask = masks.intern(mask);
            let tasks = (next..next + count as u32).collect();
            next += count as u32;
            waiters.push(Waiters { llc, mask, tasks });
        }
        let free = (0..CPUS).filter(|c| free >> c & 1 == 1);
        let mut free: Vec<Free> = free
            .map(|cpu| Free {
                cpu,
                llc: cpu / 3,
                whole: whole >> cpu & 1 == 1,
            })
            .collect();
        free.sort_by_key(|f| (!f.whole, f.llc, f.cpu));
        (masks, free, waiters)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn as_many_as_can_be_are_matched_whatever_the_order(
            wanted in prop::collection::vec((any::<u16>(), 0_usize..3, 1_usize..3), 1..6),
            free in any::<u16>(),
            whole in any::<u16>(),
            turn in 1_usize..7,
        ) {
            let (masks, free, waiters) = case(&wanted, free, whole);
            let matching = Leftover::solve(&free, &waiters, &masks);
            prop_assert_eq!(counted(&matching), most(&free, &waiters, &masks));
            let components = matching.components();
            let matched: u32 = components.iter().map(|c| c.matched).sum();
            let (near, _, far) = counted(&matching);
            prop_assert_eq!(matched as i32, near + far);
            for component in &components {
                prop_assert!(component.matched as usize <= component.tasks.len());
            }
            // CPUs of one kind in another order, as under other ids.
            let mut other = free.clone();
            let len = other.len().max(1);
            other.rotate_left(turn % len);
            other.sort_by_key(|f| (!f.whole, f.llc));
            let again = Leftover::solve(&other, &waiters, &masks);
            prop_assert_eq!(by_kind(&again), by_kind(&matching));
            prop_assert_eq!(again.components(), components);
        }
    }

    /// A task that may go elsewhere is left over rather than one that may not.
    #[test]
    fn who_can_go_elsewhere_is_left_over() {
        let (masks, free, waiters) =
            case(&[(0b000_000_001, 0, 1), (0b000_001_001, 0, 1)], 0b1001, 0);
        let matching = Leftover::solve(&free, &waiters, &masks);
        assert_eq!(counted(&matching), (1, 0, 1));
        assert_eq!(matching.components()[0].tasks, [0, 1]);
        assert_eq!(matching.components()[0].matched, 2);
    }

    /// A CPU that others may use is left over rather than one that they may not.
    #[test]
    fn what_others_can_use_is_left_over() {
        // CPUs 0 and 1 are free; a task of their LLC may use either, one of another LLC only CPU 0.
        let (masks, free, waiters) = case(&[(0b11, 0, 1), (0b1, 1, 1)], 0b11, 0);
        assert_eq!(
            counted(&Leftover::solve(&free, &waiters, &masks)),
            (1, 0, 1)
        );
    }
}
