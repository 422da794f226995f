//! Wakee flips: decisions by policy, roles, and checks against the kernel (`analysis` §5).

mod policies;
mod roles;
mod tally;
mod tasks;
#[cfg(test)]
mod tests;

use polars::prelude::PolarsResult;

use self::tally::Tally;
use super::answer::{FlipCheck, Flips, Hz, Known, PullCheck};
use super::scope::Scope;

/// Says wakee flips.
pub fn flips(scope: &Scope) -> PolarsResult<Known<Flips>> {
    let facts = &scope.facts;
    if facts.recorded("sched_waking").unwrap_or(0) == 0 {
        return Ok(Known::unknown(
            "the trace holds no sched_waking, so who woke whom is not known (kernels before 4.3 have no such event)",
        ));
    }
    let tally = Tally::take(scope)?;
    let setup = &facts.config.flips;
    let kernel = tally.kernel();
    let judged = kernel.asked();
    let decided = kernel.wide + kernel.affine;
    let share = |whole: u64| match whole {
        0 => Known::unknown(policies::none_judged(scope)),
        whole => Known::Value(decided as f64 / whole as f64),
    };
    Ok(Known::Value(Flips {
        kernel_policy: setup.kernel.as_str(),
        hz: Hz {
            value: setup.hz,
            source: setup.hz_source.clone(),
        },
        late_ns: setup.late_ns,
        recorded: tally.recorded,
        perhaps: tally.perhaps,
        judged,
        decided_share: share(judged),
        coverage: share(judged - kernel.warming_up),
        policies: policies::policies(scope, &tally),
        changes: policies::changes(scope, &tally),
        factors: policies::factors(scope, &tally),
        probe_check: probe_check(&tally),
        pull_check: pull_check(scope, &tally),
        tasks: tasks::tasks(scope, &tally)?,
        roles: roles::roles(scope)?,
    }))
}

fn probe_check(tally: &Tally) -> Known<FlipCheck> {
    match tally.check {
        FlipCheck { checked: 0, .. } => {
            Known::unknown("the trace holds no probes that show the same task's flips twice")
        }
        check => Known::Value(check),
    }
}

fn pull_check(scope: &Scope, tally: &Tally) -> Known<PullCheck> {
    match (tally.pulls.pulls, scope.facts.llcs_unknown()) {
        (_, Some(reason)) => Known::unknown(reason),
        (0, None) => Known::unknown("no wakeup that counts was pulled into the waker's LLC"),
        (_, None) => Known::Value(tally.pulls),
    }
}
