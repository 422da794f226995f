//! What each policy decides, and where two of them part.

use super::super::answer::{ByWord, FactorFacts, Known, PolicyFacts};
use super::super::scope::Scope;
use super::tally::{DOUBLED, HALVED, Tally};
use crate::replay::words::FlipPolicy;

/// The word of the recorded kernel's own policy.
const KERNEL: &str = "kernel";

/// By policy, and `kernel`.
pub fn policies(scope: &Scope, tally: &Tally) -> Known<ByWord<PolicyFacts>> {
    with_factors(scope, || {
        let six = FlipPolicy::SIX.iter().zip(&tally.policies);
        let six = six.map(|(policy, facts)| (policy.as_str(), *facts));
        six.chain([(KERNEL, *tally.kernel())]).collect()
    })
}

/// Wakeups on which two policies differ: of each policy, by the other.
pub fn changes(scope: &Scope, tally: &Tally) -> Known<ByWord<ByWord<u64>>> {
    let six = || FlipPolicy::SIX.iter().enumerate();
    let count = |a: usize, b: usize| {
        let of = tally.changes.get(a.min(b)).and_then(|of| of.get(a.max(b)));
        of.copied().unwrap_or(0)
    };
    let others = |a: usize| {
        let others = six().filter(move |(b, _)| *b != a);
        others
            .map(|(b, policy)| (policy.as_str(), count(a, b)))
            .collect()
    };
    with_factors(scope, || {
        six()
            .map(|(a, policy)| (policy.as_str(), others(a)))
            .collect()
    })
}

/// The kernel's policy with half and twice the factor.
pub fn factors(scope: &Scope, tally: &Tally) -> Known<FactorFacts> {
    let setup = &scope.facts.config.flips;
    let of = |place: usize| tally.policies.get(place).copied().unwrap_or_default();
    with_factors(scope, || {
        let mut sizes: Vec<u32> = setup.factors.iter().flatten().copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        FactorFacts {
            sizes,
            source: setup.factor_source.clone(),
            halved: of(HALVED),
            doubled: of(DOUBLED),
        }
    })
}

/// What needs the sizes of LLCs, or why they are not known.
fn with_factors<T>(scope: &Scope, of: impl FnOnce() -> T) -> Known<T> {
    match factors_unknown(scope) {
        Some(reason) => Known::unknown(reason),
        None => Known::Value(of()),
    }
}

/// Why the size of no CPU's LLC is known, if so.
pub fn factors_unknown(scope: &Scope) -> Option<String> {
    let setup = &scope.facts.config.flips;
    if setup.factors.iter().any(Option::is_some) {
        return None;
    }
    let reason = scope.facts.llcs_unknown();
    Some(reason.unwrap_or_else(|| "the sizes of LLCs are unknown".to_owned()))
}

/// Why there is nothing to take a share of.
pub fn none_judged(scope: &Scope) -> String {
    factors_unknown(scope).unwrap_or_else(|| "no such wakeup counts".to_owned())
}
