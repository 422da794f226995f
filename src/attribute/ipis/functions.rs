//! What was called on other CPUs, and from where, by the kernel's symbols.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::requests::{Calls, Found};
use crate::attribute::answer::{FunctionFacts, Known};
use crate::attribute::scope::Facts;
use crate::replay::words::IpiKind;

/// The functions called most often.
pub fn functions(found: &Found, facts: &Facts, top: usize) -> Vec<FunctionFacts> {
    let mut named: FxHashMap<(IpiKind, u64, String), (Known<String>, Calls)> = FxHashMap::default();
    for (called, calls) in &found.calls {
        if calls.interrupts + calls.queued == 0 {
            continue;
        }
        // A function is sent from several places of the same other one.
        let callsite = match called.callsite {
            0 => String::new(),
            address => name(facts, address),
        };
        let function = function(facts, called.kind, called.callback);
        let key = (called.kind, called.callback, callsite);
        let entry = named.entry(key).or_insert((function, Calls::default()));
        entry.1.add(calls);
    }
    let mut listed: Vec<_> = named.into_iter().collect();
    listed.sort_unstable_by(|((kind, at, site), (_, calls)), ((k, a, s), (_, c))| {
        let key = |calls: &Calls| Reverse(calls.interrupts + calls.queued);
        (key(calls), kind, at, site).cmp(&(key(c), k, a, s))
    });
    let listed = listed.into_iter().take(top);
    listed
        .map(|((kind, _, callsite), (function, calls))| FunctionFacts {
            kind: kind.as_str(),
            function,
            callsite: match callsite.is_empty() {
                true => Known::unknown("the event does not tell"),
                false => Known::Value(callsite),
            },
            interrupts: calls.interrupts,
            queued: calls.queued,
            handler_ns: calls.times.all_ns(),
            stolen_ns: calls.times.stolen_ns,
        })
        .collect()
}

fn function(facts: &Facts, kind: IpiKind, callback: u64) -> Known<String> {
    let generic = facts.config.ipis.generic_function;
    match (kind, callback) {
        (IpiKind::Reschedule | IpiKind::WakeupReschedule, 0) => {
            Known::unknown("a reschedule interrupt calls none")
        }
        (_, 0) => Known::unknown("the event does not tell"),
        (_, callback) if generic == Some(callback) => {
            Known::unknown("the trace has no csd_queue_cpu, which would tell (6.5 on)")
        }
        (_, callback) => Known::Value(name(facts, callback)),
    }
}

/// The function at an address, or the address where the trace has no symbols.
fn name(facts: &Facts, address: u64) -> String {
    let symbols = &facts.config.ipis.symbols;
    symbols
        .function(address)
        .unwrap_or_else(|| format!("{address:#x}"))
}
