//! `lscpu -J`, the summary, as JSON or plain text, and `lscpu -e -J`, the table as JSON.
//!
//! The summary lists the CPUs of every NUMA node but only counts sockets, cores and caches. What follows from
//! a count of one is used; the rest is not told, and a warning says so.

use serde_json::Value;

use super::cpulist::{CpuSet, format_list};
use super::groups::{GroupBuilder, cut_at_nodes};
use super::lscpu::{Row, cell_text, facts_from_rows};
use super::{TopologyError, TopologyFacts};

const ORIGIN: &str = "lscpu -J";

/// Reads the JSON of `lscpu -J` (a summary under `lscpu`) or `lscpu -e -J` (a table under `cpus`).
///
/// # Errors
/// Text that is not JSON or has neither key, and lists or CPUs in it that cannot be read.
pub fn parse_lscpu_json(text: &str) -> Result<TopologyFacts, TopologyError> {
    let value: Value = serde_json::from_str(text)?;
    if let Some(cpus) = value.get("cpus").and_then(Value::as_array) {
        return table(cpus);
    }
    let Some(fields) = value.get("lscpu").and_then(Value::as_array) else {
        return Err(TopologyError::Nothing {
            origin: ORIGIN,
            wanted: "an array named `lscpu` or `cpus`",
        });
    };
    let mut pairs = Vec::new();
    collect(fields, &mut pairs);
    summary(&pairs)
}

/// Whether the text is the summary `lscpu` prints without options.
pub(super) fn matches_summary(text: &str) -> bool {
    let has = |start: &str| {
        text.lines()
            .any(|line| line.trim_start().starts_with(start))
    };
    has("Architecture:") && has("CPU(s):")
}

/// Reads the summary `lscpu` prints without options, in English.
///
/// # Errors
/// Lists that cannot be read, and no `On-line CPU(s) list:`.
pub fn parse_lscpu_summary(text: &str) -> Result<TopologyFacts, TopologyError> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let pairs: Vec<_> = pairs
        .map(|(field, data)| (field.trim().to_owned(), data.trim().to_owned()))
        .collect();
    summary(&pairs)
}

fn table(cpus: &[Value]) -> Result<TopologyFacts, TopologyError> {
    let mut rows = Vec::new();
    for (number, cpu) in cpus.iter().enumerate() {
        let mut row = Row::default();
        for (column, value) in cpu.as_object().into_iter().flatten() {
            let set = row.set(column, &cell_text(value));
            set.map_err(|reason| {
                TopologyError::Entry(format!("lscpu -e -J, CPU entry {}: {reason}", number + 1))
            })?;
        }
        rows.push(row);
    }
    facts_from_rows("lscpu -e -J", &rows)
}

/// Flattens fields and their children, which newer versions nest. The depth is bounded by serde_json's own limit.
fn collect(fields: &[Value], pairs: &mut Vec<(String, String)>) {
    for field in fields {
        let name = field
            .get("field")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let data = field.get("data").map(cell_text).unwrap_or_default();
        pairs.push((name.trim_end_matches(':').to_owned(), data));
        if let Some(children) = field.get("children").and_then(Value::as_array) {
            collect(children, pairs);
        }
    }
}

fn summary(pairs: &[(String, String)]) -> Result<TopologyFacts, TopologyError> {
    let get = |wanted: &str| {
        let found = pairs.iter().find(|(field, _)| field == wanted);
        found.map(|(_, data)| data.as_str())
    };
    let online = get("On-line CPU(s) list").ok_or(TopologyError::Nothing {
        origin: ORIGIN,
        wanted: "the field `On-line CPU(s) list`",
    })?;
    let online = CpuSet::from_list(online)?.to_vec();
    let mut facts = TopologyFacts {
        nodes: summary_nodes(pairs)?,
        ..TopologyFacts::default()
    };
    let everything = || Some(vec![online.clone()]);
    if get("Thread(s) per core") == Some("1") {
        facts.cores = Some(online.iter().map(|&cpu| vec![cpu]).collect());
    }
    if get("Socket(s)") == Some("1") {
        facts.packages = everything();
    }
    let last = ["L3 cache", "L2 cache"].into_iter().find_map(get);
    if last.is_some_and(|cache| cache.contains("(1 instance)")) {
        facts.llcs = everything();
    }
    if let Some(llcs) = &mut facts.llcs {
        cut_at_nodes(llcs, facts.nodes.as_deref(), &mut facts.warnings);
    }
    facts.warnings.extend(untold(&facts, &online));
    facts.online = Some(online);
    Ok(facts)
}

fn summary_nodes(pairs: &[(String, String)]) -> Result<Option<Vec<Vec<u32>>>, TopologyError> {
    let mut builder = GroupBuilder::new("node");
    let lists = pairs.iter().filter(|(field, _)| is_node(field));
    for (_, list) in lists {
        builder.add(CpuSet::from_list(list)?)?;
    }
    Ok(Some(builder.finish()).filter(|nodes| !nodes.is_empty()))
}

/// Whether the field is `NUMA node0 CPU(s)`, of any number.
fn is_node(field: &str) -> bool {
    let middle = field
        .strip_prefix("NUMA node")
        .and_then(|rest| rest.strip_suffix(" CPU(s)"));
    middle.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn untold(facts: &TopologyFacts, online: &[u32]) -> Option<String> {
    let kinds = [
        (facts.llcs.is_none(), "an LLC"),
        (facts.cores.is_none(), "a core"),
        (facts.packages.is_none(), "a package"),
    ];
    let missing: Vec<_> = kinds
        .into_iter()
        .filter_map(|(untold, name)| untold.then_some(name))
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "the summary of lscpu counts caches and cores but does not say which of CPUs {} share {}; \
             `lscpu -p` does",
            format_list(online),
            missing.join(" or ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_as_json() {
        let text = r#"{"cpus": [
            {"cpu":0,"node":0,"socket":0,"core":0,"l1d:l1i:l2:l3":"0:0:0:0","online":true},
            {"cpu":"1","node":"0","socket":"0","core":"1","cache":"1:1:1:0","online":"yes"},
            {"cpu":2,"node":null,"socket":null,"core":null,"cache":"-","online":false}]}"#;
        let facts = parse_lscpu_json(text).unwrap();
        assert_eq!(facts.online, Some(vec![0, 1]));
        assert_eq!(facts.llcs, Some(vec![vec![0, 1]]));
        assert_eq!(facts.l2s, Some(vec![vec![0], vec![1]]));
    }

    #[test]
    fn the_summary_says_what_it_cannot_tell() {
        let text = "Architecture: x86_64\nCPU(s): 8\nOn-line CPU(s) list: 0-7\nThread(s) per core: 2\nSocket(s): 1\n\
                    L3 cache: 32 MiB (2 instances)\nNUMA node0 CPU(s): 0-7\nNUMA node(s): 1\n";
        assert!(matches_summary(text));
        let facts = parse_lscpu_summary(text).unwrap();
        assert_eq!((facts.llcs, facts.cores), (None, None));
        assert_eq!(facts.nodes.as_ref().map(Vec::len), Some(1));
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("an LLC or a core;"))
        );
    }

    #[test]
    fn nested_fields_of_newer_versions() {
        let text = r#"{"lscpu":[{"field":"CPU(s):","data":"4","children":[{"field":"On-line CPU(s) list:","data":"0-3"}]},
            {"field":"NUMA:","data":null,"children":[{"field":"NUMA node0 CPU(s):","data":"0,1"},
                                                      {"field":"NUMA node1 CPU(s):","data":"2,3"}]},
            {"field":"L3 cache:","data":"16 MiB (1 instance)"}]}"#;
        let facts = parse_lscpu_json(text).unwrap();
        assert_eq!(facts.nodes, Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(facts.llcs, facts.nodes);
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("spans 2 NUMA nodes"))
        );
    }

    #[test]
    fn other_json_is_refused() {
        assert!(parse_lscpu_json("{}").is_err());
        assert!(parse_lscpu_json("{").is_err());
        assert!(parse_lscpu_json(r#"{"cpus":[{"cpu":"x"}]}"#).is_err());
    }
}
