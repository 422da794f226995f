//! Who wakes many, whom many wake, and who wake each other in turn. Roles are read off all wakeups between tasks, whether
//! the kernel counts them as flips or not: pinned tasks have roles too.

use std::cmp::Reverse;

use polars::prelude::*;
use rustc_hash::FxHashMap;

use super::super::answer::{PingPong, RoleFacts, Roles};
use super::super::blocks::{Block, NO_NUMBER};
use super::super::scope::Scope;
use super::tasks::Named;

/// Wakeups that a role needs.
const LEAST: u64 = 30;
/// Partners, as evenly spread as so many equal ones, that make a task `1:N` or `N:1`.
const SPREAD: f64 = 3.0;
/// Of a ping-pong pair: how many times as often one may wake the other as back, ...
const LOPSIDED: u64 = 2;
/// ... and the share of all wakeups that each makes which are of the other.
const OWN_SHARE: f64 = 0.5;

/// Wakeups by waker and wakee.
type Pairs = FxHashMap<(u32, u32), u64>;

/// Finds the roles.
pub fn roles(scope: &Scope) -> PolarsResult<Roles> {
    let pairs = pairs(scope)?;
    let named = Named::read(scope)?;
    Ok(Roles {
        one_to_n: many(scope, &pairs, &named, "1:N", |(waker, _)| waker),
        n_to_one: many(scope, &pairs, &named, "N:1", |(_, wakee)| wakee),
        ping_pong: ping_pong(scope, &pairs, &named),
    })
}

/// Tasks that woke themselves are no pairs.
fn pairs(scope: &Scope) -> PolarsResult<Pairs> {
    let (pairs, _) = scope.wakeups().counted().fold(
        &["waker", "wakee"],
        <(Pairs, [Vec<u32>; 2])>::default,
        |(pairs, scratch), block| add(pairs, block, scratch),
        |(pairs, _), (more, _)| {
            for (pair, count) in more {
                *pairs.entry(pair).or_default() += count;
            }
        },
    )?;
    Ok(pairs)
}

fn add(pairs: &mut Pairs, block: &Block, [wakers, wakees]: &mut [Vec<u32>; 2]) -> PolarsResult<()> {
    let both = block.numbers("waker", wakers)?.iter();
    for (waker, wakee) in both.zip(block.numbers("wakee", wakees)?) {
        if *waker != NO_NUMBER && waker != wakee {
            *pairs.entry((*waker, *wakee)).or_default() += 1;
        }
    }
    Ok(())
}

/// What the wakeups on one side of a task sum to.
#[derive(Debug, Default, Clone, Copy)]
struct Side {
    wakeups: u64,
    partners: u64,
    squares: f64,
}

impl Side {
    fn add(&mut self, wakeups: u64) {
        self.wakeups += wakeups;
        self.partners += 1;
        self.squares += (wakeups as f64).powi(2);
    }

    /// One over the sum of the squared shares.
    fn effective(&self) -> f64 {
        match self.squares > 0.0 {
            true => (self.wakeups as f64).powi(2) / self.squares,
            false => 0.0,
        }
    }
}

fn sides(pairs: &Pairs, of: impl Fn((u32, u32)) -> u32) -> FxHashMap<u32, Side> {
    let mut sides: FxHashMap<u32, Side> = FxHashMap::default();
    for (pair, wakeups) in pairs {
        sides.entry(of(*pair)).or_default().add(*wakeups);
    }
    sides
}

fn many(
    scope: &Scope,
    pairs: &Pairs,
    named: &Named,
    role: &'static str,
    of: impl Fn((u32, u32)) -> u32,
) -> Vec<RoleFacts> {
    let sides = sides(pairs, of).into_iter();
    let mut found: Vec<(u32, Side)> = sides
        .filter(|(_, side)| side.wakeups >= LEAST && side.effective() >= SPREAD)
        .filter(|(task, _)| named.get(*task).is_some())
        .collect();
    found.sort_unstable_by_key(|(task, side)| (Reverse(side.wakeups), *task));
    found.truncate(scope.top);
    let facts = found.into_iter().filter_map(|(task, side)| {
        let name = named.get(task)?;
        let (did, others) = match role {
            "1:N" => ("it woke", "tasks"),
            _ => ("it was woken by", "tasks"),
        };
        Some(RoleFacts {
            role,
            name: name.name.clone(),
            pid: name.pid,
            wakeups: side.wakeups,
            partners: side.partners,
            effective_partners: side.effective(),
            why: format!(
                "{did} {} {others} in {} wakeups, spread as evenly as over {:.1}; {role} takes {LEAST} wakeups over {SPREAD}",
                side.partners,
                side.wakeups,
                side.effective()
            ),
        })
    });
    facts.collect()
}

fn ping_pong(scope: &Scope, pairs: &Pairs, named: &Named) -> Vec<PingPong> {
    let made = sides(pairs, |(waker, _)| waker);
    let share = |task: u32, of: u64| {
        let all = made.get(&task).map_or(0, |side| side.wakeups);
        of as f64 / all.max(1) as f64
    };
    let mut found: Vec<(u32, u32, u64, u64)> = pairs
        .iter()
        .filter(|((a, b), _)| a < b)
        .filter_map(|(&(a, b), &there)| Some((a, b, there, *pairs.get(&(b, a))?)))
        .filter(|&(a, b, there, back)| {
            there.min(back) >= LEAST
                && there.max(back) <= there.min(back).saturating_mul(LOPSIDED)
                && share(a, there) >= OWN_SHARE
                && share(b, back) >= OWN_SHARE
        })
        .filter(|(a, b, ..)| named.get(*a).is_some() && named.get(*b).is_some())
        .collect();
    found.sort_unstable_by_key(|&(a, b, there, back)| (Reverse(there + back), a, b));
    found.truncate(scope.top);
    let facts = found.into_iter().filter_map(|(a, b, there, back)| {
        let (one, other) = (named.get(a)?, named.get(b)?);
        Some(PingPong {
            name: one.name.clone(),
            pid: one.pid,
            other_name: other.name.clone(),
            other_pid: other.pid,
            there,
            back,
            why: format!(
                "{there} wakeups there and {back} back, {:.0} % and {:.0} % of all that each made; ping-pong takes {LEAST} each way, one at most {LOPSIDED} times the other, and {:.0} %",
                share(a, there) * 100.0,
                share(b, back) * 100.0,
                OWN_SHARE * 100.0
            ),
        })
    });
    facts.collect()
}
