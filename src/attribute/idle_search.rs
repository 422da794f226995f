//! How well the kernel's search for an idle CPU did, under the names its developers use (`analysis` §3).

use super::answer::{Known, Sis};
use super::census::{Census, Kind};
use super::fitness::share;
use super::ledger::with_llcs;
use super::scope::Scope;
use super::wakeups::by_word;
use crate::replay::words::{Class, Reading, Verdict};
use crate::topology::Distance;

/// The verdicts that name an idle CPU which was passed over.
pub const MISSED: [Verdict; 5] = [
    Verdict::StackedPrev,
    Verdict::StackedPull,
    Verdict::Prev,
    Verdict::Other,
    Verdict::OtherLlc,
];

/// The idle search of the wakeups that count, but for some of them.
pub fn idle_search(scope: &Scope, census: &Census, left_out: &Census) -> Sis {
    let count = |of: &dyn Fn(&Kind) -> bool| census.count(of) - left_out.count(of);
    let selections = count(&selected);
    let success = count(&succeeded);
    let unseen = "a trace does not show which runqueues the kernel looked at";
    Sis {
        selections,
        coverage: share(selections, selections + count(&may_be_selected)),
        success,
        fast_success: count(&|kind| succeeded(kind) && is_near(kind)),
        failures: selections - success,
        missed: with_llcs(scope, || {
            by_word(&MISSED, Verdict::as_str, |verdict| {
                scope.readings(|reading| count(&|kind| missed(kind, reading, verdict)))
            })
        }),
        scanned: Known::unknown(unseen),
        search_efficiency: Known::unknown(unseen),
    }
}

fn selected(kind: &Kind) -> bool {
    kind.selection == Some(true)
}

/// The events leave open whether a CPU was selected.
fn may_be_selected(kind: &Kind) -> bool {
    let open = [Class::DirectOrDelayed, Class::Anomaly, Class::Unknown];
    kind.selection.is_none() && open.iter().any(|class| class.code() == kind.class)
}

fn succeeded(kind: &Kind) -> bool {
    selected(kind) && kind.chosen_idle == Some(true)
}

/// The chosen CPU is the waker's or the previous one.
fn is_near(kind: &Kind) -> bool {
    [kind.waker_chosen, kind.prev_chosen].contains(&(Distance::Same as u8))
}

fn missed(kind: &Kind, reading: Reading, verdict: Verdict) -> bool {
    let judged = match reading {
        Reading::Seen => kind.verdict_seen,
        Reading::Any => kind.verdict_any,
    };
    selected(kind) && judged == Some(verdict.code())
}
