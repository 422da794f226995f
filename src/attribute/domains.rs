//! Scheduler domains against the caches, by masks and by behaviour (`analysis` §6).

use std::collections::BTreeMap;

use polars::prelude::*;
use rustc_hash::FxHashSet;
use ttwu_parsers::machine_record::Domain;
use ttwu_parsers::topology::cpulist::CpuSet;
use ttwu_parsers::topology::{PerfTopology, TopologyFacts, parse_spec};

use super::answer::{DomainBehaviour, DomainDifference, DomainMasks, Domains, Known, Outside};
use super::blocks::{Block, NO_NUMBER, NO_TIME};
use super::scope::Scope;
use super::wakeups::by_word;

/// Placements outside both LLCs that show a wider domain: a few come from masks that were changed while a task slept.
const LEAST: u64 = 10;
const LEAST_SHARE: f64 = 0.01;

/// Placements shown.
const EXAMPLES: usize = 5;

/// How the kernel's LLC compares with the cache.
pub const FITS: [&str; 4] = ["equal", "wider", "narrower", "crossing"];

/// Both comparisons.
///
/// # Errors
/// Tables that cannot be read back.
pub fn domains(scope: &Scope) -> PolarsResult<Known<Domains>> {
    Ok(Known::Value(Domains {
        masks: match masks(scope) {
            Ok(masks) => Known::Value(masks),
            Err(why) => Known::unknown(why),
        },
        behaviour: behaviour(scope)?,
    }))
}

/// The LLC of each CPU, and who says so.
struct Llcs {
    of: BTreeMap<u32, CpuSet>,
    source: String,
}

fn masks(scope: &Scope) -> Result<DomainMasks, String> {
    let kernel = kernel_llcs(scope)?;
    let caches = cache_llcs(scope)?;
    let mut cpus: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut differences: Vec<DomainDifference> = Vec::new();
    for (cpu, cache) in &caches.of {
        // A CPU without a domain is isolated: it is its own LLC.
        let alone = CpuSet::from_cpus([*cpu]);
        let own = kernel.of.get(cpu).unwrap_or(&alone);
        let fit = fit(own, cache);
        cpus.entry(fit).or_default().push(*cpu);
        let difference = DomainDifference {
            fit,
            kernel: own.to_vec(),
            cache: cache.to_vec(),
        };
        if fit != "equal" && !differences.contains(&difference) {
            differences.push(difference);
        }
    }
    Ok(DomainMasks {
        domains: kernel.source,
        caches: caches.source,
        cpus: by_word(
            &FITS,
            |fit| fit,
            |fit| cpus.get(fit).cloned().unwrap_or_default(),
        ),
        differences,
    })
}

fn fit(kernel: &CpuSet, cache: &CpuSet) -> &'static str {
    let within = CpuSet::is_subset;
    match (within(cache, kernel), within(kernel, cache)) {
        (true, true) => "equal",
        (true, false) => "wider",
        (false, true) => "narrower",
        (false, false) => "crossing",
    }
}

/// The highest domain that shares a cache, of each CPU that has one (`update_top_cache_domain()`).
fn kernel_llcs(scope: &Scope) -> Result<Llcs, String> {
    let recorded = scope.facts.record.domains.as_slice();
    let mut domains: Vec<Domain> = recorded.to_vec();
    let mut source = "the machine record";
    if domains.is_empty()
        && let Some(header) = scope.facts.meta.topology.as_ref()
    {
        source = "the perf.data header";
        domains = header.domains.iter().filter_map(of_header).collect();
    }
    if domains.is_empty() {
        return Err(
            "the trace does not say which CPUs each scheduler domain spans; `ttwu record` notes it"
                .to_owned(),
        );
    }
    let mut of: BTreeMap<u32, CpuSet> = BTreeMap::new();
    domains.sort_by_key(|domain| (domain.cpu, domain.level));
    let has_cache_level = domains.iter().any(|d| d.name.as_deref() == Some("CACHE"));
    for domain in &domains {
        let shares = shares_cache(domain, has_cache_level).ok_or_else(|| {
            format!("{source} gives scheduler domains without names or flags, so which of them is the LLC is not known")
        })?;
        let Some(span) = &domain.span else {
            return Err(format!(
                "{source} names scheduler domains without their spans"
            ));
        };
        if shares {
            of.insert(domain.cpu, span.clone());
        } else {
            // The CPU has domains, but none below this one shares a cache.
            of.entry(domain.cpu)
                .or_insert_with(|| CpuSet::from_cpus([domain.cpu]));
        }
    }
    Ok(Llcs {
        of,
        source: source.to_owned(),
    })
}

fn of_header(domain: &ttwu_parsers::topology::PerfDomain) -> Option<Domain> {
    Some(Domain {
        cpu: domain.cpu,
        level: domain.level,
        name: Some(domain.name.trim().to_owned()).filter(|name| !name.is_empty()),
        span: Some(CpuSet::from_list_or_mask(&domain.cpus, domain.cpu).ok()?),
        flags: None,
    })
}

/// Whether the CPUs of a domain share a cache as the kernel sees it; `None` if neither flags nor name tell.
fn shares_cache(domain: &Domain, has_cache_level: bool) -> Option<bool> {
    // SD_SHARE_PKG_RESOURCES until 6.8. Before 5.10 flags are a number, and what a bit means changed between versions.
    let flags = domain
        .flags
        .as_deref()
        .filter(|flags| flags.contains("SD_"));
    if let Some(flags) = flags {
        let mut flags = flags.split(',').map(str::trim);
        return Some(flags.any(|flag| matches!(flag, "SD_SHARE_LLC" | "SD_SHARE_PKG_RESOURCES")));
    }
    match domain.name.as_deref()? {
        "SMT" | "SIBLING" | "CLS" | "CACHE" => Some(true),
        // POWER's MC shares no cache where it has a level for that.
        "MC" => Some(!has_cache_level),
        "PKG" | "DIE" | "CPU" | "NODE" | "BOOK" | "DRAWER" | "NUMA" | "ALLNODES" => Some(false),
        _ => None,
    }
}

/// The key of the machine record's fact that holds the LLCs by the caches alone.
const CACHES: &str = "cache_llcs";

/// The LLCs by the caches, from a source that is not the scheduler itself.
fn cache_llcs(scope: &Scope) -> Result<Llcs, String> {
    let record = &scope.facts.record;
    let told = record.facts.iter().find(|(key, _)| key == CACHES);
    if let Some(Ok(facts)) = told.map(|(_, spec)| parse_spec(spec))
        && let Some(llcs) = by_cpu(&facts, "the machine record")
    {
        return Ok(llcs);
    }
    if let Some(header) = scope.facts.meta.topology.as_ref() {
        let caches = PerfTopology {
            domains: Vec::new(),
            ..header.clone()
        };
        if let Ok(facts) = caches.facts()
            && let Some(llcs) = by_cpu(&facts, "the caches in the perf.data header")
        {
            return Ok(llcs);
        }
    }
    let topology = scope.facts.topology();
    let source = topology.source();
    let of_caches = ["(copy of sysfs)", "(lscpu", "(spec)", "--topology live"];
    if !of_caches.iter().any(|of| source.contains(of)) {
        return Err(
            "nothing beside the scheduler's own domains says which CPUs share a cache; give --topology \
             FILE (lscpu -p, or a copy of /sys/devices/system)"
                .to_owned(),
        );
    }
    let facts = TopologyFacts {
        llcs: topology.llcs().map(<[Vec<u32>]>::to_vec),
        ..TopologyFacts::default()
    };
    by_cpu(&facts, source).ok_or_else(|| format!("{source} does not tell LLCs"))
}

fn by_cpu(facts: &TopologyFacts, source: &str) -> Option<Llcs> {
    let llcs = facts.llcs.as_ref()?;
    let sets = llcs
        .iter()
        .map(|llc| CpuSet::from_cpus(llc.iter().copied()));
    let of = llcs.iter().zip(sets);
    Some(Llcs {
        of: of
            .flat_map(|(llc, set)| llc.iter().map(move |cpu| (*cpu, set.clone())))
            .collect(),
        source: source.to_owned(),
    })
}

/// Placements by where they landed.
#[derive(Debug, Default)]
struct Placed {
    known: u64,
    outside: u64,
    tasks: FxHashSet<u32>,
    examples: Vec<Example>,
}

#[derive(Debug)]
struct Example {
    waking_ns: i64,
    wakee: u32,
    waker_cpu: u32,
    prev_cpu: u32,
    chosen_cpu: u32,
}

/// Where the columns of a block are read to.
#[derive(Default)]
struct Scratch {
    selections: Vec<u8>,
    stamps: Vec<i64>,
    numbers: [Vec<u32>; 4],
}

fn behaviour(scope: &Scope) -> PolarsResult<Known<DomainBehaviour>> {
    if let Some(reason) = scope.facts.crossing_unknown() {
        return Ok(Known::unknown(reason));
    }
    let topology = scope.facts.topology();
    if topology.llcs().is_some_and(|llcs| llcs.len() < 2) {
        return Ok(Known::unknown(
            "the machine has one LLC: nothing lies outside it",
        ));
    }
    let llc = |cpu: u32| topology.llc_id(cpu);
    let columns = [
        "selection",
        "waking_ns",
        "wakee",
        "waker_cpu",
        "prev_cpu",
        "chosen_cpu",
    ];
    let (placed, _) = scope.wakeups().counted().fold(
        &columns,
        || (Placed::default(), Scratch::default()),
        |(placed, scratch), block| placed.take(block, scratch, llc),
        |(placed, _), (more, _)| placed.join(more),
    )?;
    if placed.known == 0 {
        return Ok(Known::unknown(
            "no wakeup that counts is known to have had a CPU selected, with its LLCs known",
        ));
    }
    let share = placed.outside as f64 / placed.known as f64;
    Ok(Known::Value(DomainBehaviour {
        placements: placed.known,
        outside: placed.outside,
        outside_share: share,
        tasks: placed.tasks.len() as u64,
        verdict: match placed.outside {
            0 => "fits",
            n if n < LEAST || share < LEAST_SHARE => "few",
            _ => "wider",
        },
        least: LEAST,
        least_share: LEAST_SHARE,
        examples: examples(scope, &placed.examples)?,
    }))
}

impl Placed {
    fn take(
        &mut self,
        block: &Block,
        into: &mut Scratch,
        llc: impl Fn(u32) -> Option<u32>,
    ) -> PolarsResult<()> {
        let selections = block.codes("selection", &mut into.selections)?;
        let stamps = block.times("waking_ns", &mut into.stamps)?;
        let [wakees, wakers, previous, chosen] = &mut into.numbers;
        let wakees = block.numbers("wakee", wakees)?;
        let wakers = block.numbers("waker_cpu", wakers)?;
        let previous = block.numbers("prev_cpu", previous)?;
        let chosen = block.numbers("chosen_cpu", chosen)?;
        for (row, selection) in selections.iter().enumerate() {
            if *selection != 1 {
                continue;
            }
            let number = |column: &[u32]| column.get(row).copied().unwrap_or(NO_NUMBER);
            let (waker_cpu, prev_cpu) = (number(wakers), number(previous));
            let chosen_cpu = number(chosen);
            let llcs = (llc(waker_cpu), llc(prev_cpu), llc(chosen_cpu));
            let (Some(of_waker), Some(of_prev), Some(of_chosen)) = llcs else {
                continue;
            };
            self.known += 1;
            if of_chosen == of_waker || of_chosen == of_prev {
                continue;
            }
            self.outside += 1;
            self.tasks.insert(number(wakees));
            if self.examples.len() < EXAMPLES {
                self.examples.push(Example {
                    waking_ns: stamps.get(row).copied().unwrap_or(NO_TIME),
                    wakee: number(wakees),
                    waker_cpu,
                    prev_cpu,
                    chosen_cpu,
                });
            }
        }
        Ok(())
    }

    fn join(&mut self, more: Self) {
        self.known += more.known;
        self.outside += more.outside;
        self.tasks.extend(more.tasks);
        self.examples.extend(more.examples);
        self.examples.truncate(EXAMPLES);
    }
}

fn examples(scope: &Scope, found: &[Example]) -> PolarsResult<Vec<Outside>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let columns = [col("task"), col("name"), col("pid")];
    let tasks = scope.every_task()?.select(columns).collect()?;
    let ids = tasks.column("task")?.u32()?;
    let (names, pids) = (tasks.column("name")?.str()?, tasks.column("pid")?.i32()?);
    let row_of = |task: u32| ids.iter().position(|id| id == Some(task));
    let shown = found.iter().map(|example| {
        let row = row_of(example.wakee);
        Outside {
            waking_ns: example.waking_ns,
            wakee: row.and_then(|row| names.get(row)).unwrap_or("").to_owned(),
            wakee_pid: row.and_then(|row| pids.get(row)).unwrap_or(-1),
            waker_cpu: example.waker_cpu,
            prev_cpu: example.prev_cpu,
            chosen_cpu: example.chosen_cpu,
        }
    });
    Ok(shown.collect())
}
