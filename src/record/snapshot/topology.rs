//! Which CPUs share what, in one line.

use ttwu_parsers::topology::{TopologyFacts, live_at, parse_schedstat};

use super::domains::Domains;
use super::encode::text;
use super::root::Root;
use super::unreadable::Unreadable;

/// The topology as lines of the record, as far as any source tells it; and the LLCs as the caches alone have them, against
/// which the scheduler's can be held.
pub fn lines(root: &Root, domains: &Domains, unreadable: &mut Unreadable) -> Vec<String> {
    let sysfs = live_at(&root.path("sys/devices/system")).map_err(|error| {
        unreadable.note("sys/devices/system", text(&error.to_string()));
    });
    // Without their names, which of the domains is the LLC would be a guess.
    let named = domains.named_schedstat().map(|text| parse_schedstat(&text));
    let named = named.transpose().map_err(|error| {
        unreadable.note("proc/schedstat", text(&error.to_string()));
    });
    let named = named.ok().flatten().unwrap_or_default();
    let sysfs = sysfs.unwrap_or_default();
    let caches = caches(&sysfs);
    let spec = combine(sysfs, named).to_spec();
    let topology = (!spec.is_empty()).then(|| format!("ttwu topology {spec}"));
    topology.into_iter().chain(caches).collect()
}

fn caches(sysfs: &TopologyFacts) -> Option<String> {
    let llcs = TopologyFacts {
        llcs: Some(sysfs.llcs.clone()?),
        ..TopologyFacts::default()
    };
    Some(format!("ttwu machine cache_llcs {}", llcs.to_spec()))
}

/// The LLC is the scheduler's where it says so; of the rest sysfs knows more, since isolated CPUs have no domains.
fn combine(sysfs: TopologyFacts, domains: TopologyFacts) -> TopologyFacts {
    let llcs = domains.llcs.clone();
    let facts = sysfs.merge(domains);
    TopologyFacts {
        llcs: llcs.or(facts.llcs),
        ..facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_llc_is_the_schedulers() {
        let facts = |spec| ttwu_parsers::topology::parse_spec(spec).unwrap();
        let sysfs = facts("llc=0-7 smt=0-1;2-3;4-5;6-7 node=0-7");
        let domains = facts("llc=0-3;4-5;6;7 smt=0-1;2-3;4-5");
        assert_eq!(
            combine(sysfs, domains).to_spec(),
            "llc=0-3;4-5;6;7 smt=0-1;2-3;4-5;6-7 node=0-7"
        );
        let told = caches(&facts("llc=0-7 smt=0-1;2-3;4-5;6-7 node=0-7"));
        assert_eq!(told.as_deref(), Some("ttwu machine cache_llcs llc=0-7"));
        assert_eq!(caches(&facts("smt=0-1;2-3")), None);
    }
}
