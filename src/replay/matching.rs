//! Maximum matching between waiting tasks and CPUs that run nothing (`analysis` §2).
//!
//! Tasks with one affinity mask are interchangeable, so the matching is between CPUs and groups of tasks.
//! The sets of CPUs that can be matched together form a matroid, as do the sets of tasks; taking either in
//! order of preference and augmenting gives the best set of that kind, and by the theorem of Mendelsohn and
//! Dulmage one matching covers both. Only the sets are needed here, never the pairs.

use super::cpuset::{CpuSet, MaskId, MaskTable};

/// Waiting tasks that share a mask. `tasks` are ascending.
#[derive(Debug, Clone, Default)]
pub struct Group {
    pub mask: Option<MaskId>,
    pub tasks: Vec<u32>,
}

/// Tasks and CPUs connected by allowed pairs: they share the time that their CPUs are matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Component {
    /// How many of its CPUs are matched.
    pub matched: u32,
    /// Its tasks, ascending.
    pub tasks: Vec<u32>,
}

/// Scratch space and results of [`Matcher::solve`], reused from call to call.
#[derive(Debug, Default)]
pub struct Matcher {
    /// CPUs that are matched, in the order of preference.
    pub matched_cpus: Vec<usize>,
    /// For each group, how many of its tasks are matched.
    pub matched_tasks: Vec<usize>,
    owner: Vec<Option<usize>>,
    held: Vec<usize>,
    visited: Vec<bool>,
    parent: Vec<usize>,
    order: Vec<usize>,
}

impl Matcher {
    /// Matches `cpus` (preferred first) with `groups`; tasks whose mask lies within `home` are matched
    /// before tasks that could also go elsewhere.
    pub fn solve(
        &mut self,
        cpus: &[usize],
        groups: &[Group],
        masks: &MaskTable,
        home: Option<&CpuSet>,
    ) {
        self.reset(cpus.len(), groups.len());
        if let [group] = groups {
            self.solve_one(cpus, group, masks);
            return;
        }
        for (slot, &cpu) in cpus.iter().enumerate() {
            self.visited.fill(false);
            if self.seat_cpu(slot, cpus, groups, masks) {
                self.matched_cpus.push(cpu);
            }
        }
        self.match_tasks(cpus, groups, masks, home);
    }

    fn reset(&mut self, cpus: usize, groups: usize) {
        self.matched_cpus.clear();
        for (list, len) in [(&mut self.matched_tasks, groups), (&mut self.held, groups)] {
            list.clear();
            list.resize(len, 0);
        }
        self.owner.clear();
        self.owner.resize(cpus, None);
        self.visited.clear();
        self.visited.resize(groups, false);
    }

    /// The common case: all waiting tasks have one mask.
    fn solve_one(&mut self, cpus: &[usize], group: &Group, masks: &MaskTable) {
        let mask = masks.get(group.mask.unwrap_or(MaskId::ALL));
        let usable = cpus.iter().copied().filter(|&cpu| mask.contains(cpu));
        self.matched_cpus.extend(usable.take(group.tasks.len()));
        self.matched_tasks[0] = self.matched_cpus.len();
    }

    /// Finds a task for one more CPU, moving CPUs seated before to other groups where that helps.
    fn seat_cpu(
        &mut self,
        slot: usize,
        cpus: &[usize],
        groups: &[Group],
        masks: &MaskTable,
    ) -> bool {
        for (g, group) in groups.iter().enumerate() {
            let allowed = masks.get(group.mask.unwrap_or(MaskId::ALL));
            if self.visited[g] || !allowed.contains(cpus[slot]) {
                continue;
            }
            self.visited[g] = true;
            if self.held[g] < group.tasks.len() {
                self.owner[slot] = Some(g);
                self.held[g] += 1;
                return true;
            }
            let seated: Vec<usize> = (0..cpus.len())
                .filter(|&s| self.owner[s] == Some(g))
                .collect();
            for other in seated {
                // The group's seat passes from the other CPU to this one.
                if self.seat_cpu(other, cpus, groups, masks) {
                    self.owner[slot] = Some(g);
                    return true;
                }
            }
        }
        false
    }

    /// How many tasks of each group a matching covers that prefers tasks confined to `home`.
    fn match_tasks(
        &mut self,
        cpus: &[usize],
        groups: &[Group],
        masks: &MaskTable,
        home: Option<&CpuSet>,
    ) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..groups.len());
        order.sort_by_key(|&g| {
            let mask = masks.get(groups[g].mask.unwrap_or(MaskId::ALL));
            let confined = home.is_some_and(|home| mask.is_subset(home));
            (!confined, mask.len(), groups[g].tasks.first().copied())
        });
        self.owner.fill(None);
        for &g in &order {
            for _ in 0..groups[g].tasks.len() {
                self.visited.fill(false);
                if !self.seat_task(g, cpus, groups, masks) {
                    break;
                }
                self.matched_tasks[g] += 1;
            }
        }
        self.order = order;
    }

    fn seat_task(&mut self, g: usize, cpus: &[usize], groups: &[Group], masks: &MaskTable) -> bool {
        self.visited[g] = true;
        let allowed = masks.get(groups[g].mask.unwrap_or(MaskId::ALL));
        let usable = |slot: &usize| allowed.contains(cpus[*slot]);
        if let Some(free) = (0..cpus.len())
            .filter(usable)
            .find(|&s| self.owner[s].is_none())
        {
            self.owner[free] = Some(g);
            return true;
        }
        for slot in (0..cpus.len()).filter(usable) {
            let Some(holder) = self.owner[slot] else {
                continue;
            };
            if !self.visited[holder] && self.seat_task(holder, cpus, groups, masks) {
                self.owner[slot] = Some(g);
                return true;
            }
        }
        false
    }

    /// The connected components that hold a matched CPU, by their first task. Call after [`Self::solve`]
    /// with the same arguments.
    pub fn components(
        &mut self,
        cpus: &[usize],
        groups: &[Group],
        masks: &MaskTable,
    ) -> Vec<Component> {
        self.parent.clear();
        self.parent.extend(0..groups.len());
        for &cpu in cpus {
            let mut first = None;
            for (g, group) in groups.iter().enumerate() {
                if masks.get(group.mask.unwrap_or(MaskId::ALL)).contains(cpu) {
                    match first {
                        None => first = Some(g),
                        Some(f) => self.join(f, g),
                    }
                }
            }
        }
        let mut found: Vec<Component> = vec![Component::default(); groups.len()];
        for (g, group) in groups.iter().enumerate() {
            found[self.root(g)].tasks.extend(&group.tasks);
        }
        for cpu in std::mem::take(&mut self.matched_cpus) {
            let holds = |g: &Group| masks.get(g.mask.unwrap_or(MaskId::ALL)).contains(cpu);
            if let Some(g) = groups.iter().position(holds) {
                let root = self.root(g);
                found[root].matched += 1;
            }
            self.matched_cpus.push(cpu);
        }
        found.retain(|c| c.matched > 0);
        for component in &mut found {
            component.tasks.sort_unstable();
        }
        found.sort_by_key(|c| c.tasks.first().copied());
        found
    }

    fn root(&self, mut g: usize) -> usize {
        while self.parent[g] != g {
            g = self.parent[g];
        }
        g
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }
}

/// What task number `k` of `tasks` has of `matched` CPUs' time after `elapsed` nanoseconds: an equal share,
/// the remaining nanoseconds going to the lower numbers. It never falls as time goes on, and the shares of
/// all `k` sum to `matched * elapsed` (Hermite's identity), so that parts of an interval add up to the whole.
pub fn share(matched: u32, elapsed: i64, k: usize, tasks: usize) -> i64 {
    if tasks == 0 {
        return 0;
    }
    let total = i128::from(matched) * i128::from(elapsed);
    ((total + (tasks - 1 - k.min(tasks - 1)) as i128).div_euclid(tasks as i128)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn setup(cpus: usize, wanted: &[(u8, usize)]) -> (MaskTable, Vec<Group>) {
        let mut masks = MaskTable::new(cpus);
        let mut groups: Vec<Group> = Vec::new();
        let mut next = 0;
        for &(bits, count) in wanted {
            let mut mask = CpuSet::empty(cpus);
            (0..cpus)
                .filter(|c| bits >> c & 1 == 1)
                .for_each(|c| mask.insert(c));
            let id = masks.intern(mask);
            let tasks: Vec<u32> = (next..next + count as u32).collect();
            next += count as u32;
            match groups.iter_mut().find(|g| g.mask == Some(id)) {
                Some(group) => group.tasks.extend(tasks),
                None => groups.push(Group {
                    mask: Some(id),
                    tasks,
                }),
            }
        }
        (masks, groups)
    }

    /// The largest matching by trying everything: each task takes one of its CPUs or none.
    fn brute(masks: &MaskTable, groups: &[Group], free: &CpuSet) -> usize {
        let tasks: Vec<MaskId> = groups
            .iter()
            .flat_map(|g| g.tasks.iter().map(|_| g.mask.unwrap()))
            .collect();
        fn best(tasks: &[MaskId], masks: &MaskTable, free: &CpuSet) -> usize {
            let Some((first, rest)) = tasks.split_first() else {
                return 0;
            };
            let mut most = best(rest, masks, free);
            for cpu in free.iter().filter(|&c| masks.get(*first).contains(c)) {
                let mut left = free.clone();
                left.remove(cpu);
                most = most.max(1 + best(rest, masks, &left));
            }
            most
        }
        best(&tasks, masks, free)
    }

    proptest! {
        #[test]
        fn matching_is_maximum_and_prefers_the_first_cpus(
            wanted in prop::collection::vec((any::<u8>(), 1_usize..3), 1..4),
            free in any::<u8>(),
        ) {
            let (masks, groups) = setup(5, &wanted);
            let cpus: Vec<usize> = (0..5).filter(|c| free >> c & 1 == 1).collect();
            let mut free_set = CpuSet::empty(5);
            cpus.iter().for_each(|&c| free_set.insert(c));
            let mut matcher = Matcher::default();
            matcher.solve(&cpus, &groups, &masks, None);
            let most = brute(&masks, &groups, &free_set);
            prop_assert_eq!(matcher.matched_cpus.len(), most);
            prop_assert_eq!(matcher.matched_tasks.iter().sum::<usize>(), most);
            // Preference: leaving any earlier CPU out for a later one never happens.
            let mut prefix = CpuSet::empty(5);
            for &cpu in &cpus {
                prefix.insert(cpu);
                let held = matcher.matched_cpus.iter().filter(|c| prefix.contains(**c)).count();
                prop_assert_eq!(held, brute(&masks, &groups, &prefix));
            }
            let parts = matcher.components(&cpus, &groups, &masks);
            prop_assert_eq!(parts.iter().map(|c| c.matched as usize).sum::<usize>(), most);
        }

        #[test]
        fn shares_sum_to_the_matched_time_and_parts_to_the_whole(
            matched in 0_u32..9, elapsed in 0_i64..1_000_000, cut in 0.0..1.0, tasks in 1_usize..9,
        ) {
            let cut = (elapsed as f64 * cut) as i64;
            let at = |t| (0..tasks).map(|k| share(matched, t, k, tasks)).collect::<Vec<_>>();
            prop_assert_eq!(at(elapsed).iter().sum::<i64>(), i64::from(matched) * elapsed);
            for (early, late) in at(cut).iter().zip(at(elapsed)) {
                prop_assert!(*early <= late);
            }
        }
    }

    #[test]
    fn tasks_that_can_go_elsewhere_are_left_for_elsewhere() {
        // One idle CPU 0; a task confined to it and one that may run anywhere.
        let (masks, groups) = setup(4, &[(0b1111, 1), (0b0001, 1)]);
        let mut home = CpuSet::empty(4);
        home.insert(0);
        let mut matcher = Matcher::default();
        matcher.solve(&[0], &groups, &masks, Some(&home));
        assert_eq!(matcher.matched_tasks, [0, 1]);
    }

    #[test]
    fn components_are_split_where_no_mask_connects() {
        let (masks, groups) = setup(4, &[(0b0011, 2), (0b1100, 1)]);
        let mut matcher = Matcher::default();
        matcher.solve(&[0, 2, 3], &groups, &masks, None);
        let parts = matcher.components(&[0, 2, 3], &groups, &masks);
        assert_eq!(
            parts,
            [
                Component {
                    matched: 1,
                    tasks: vec![0, 1]
                },
                Component {
                    matched: 1,
                    tasks: vec![2]
                },
            ]
        );
    }
}
