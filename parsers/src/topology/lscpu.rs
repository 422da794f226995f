//! The per-CPU tables of `lscpu` (util-linux): `lscpu -p` (CSV after a `# CPU,Core,...` header), `lscpu -e` (columns)
//! and `lscpu -e -J` (JSON, read in `lscpu_json`).
//!
//! Ids in these tables may repeat in every socket, depending on firmware and on the version of lscpu, so
//! cores and caches are told apart by socket and id together.

use std::collections::BTreeMap;

use super::cpulist::shorten;
use super::groups::{cut_at_nodes, group_by_known};
use super::schedstat::single_cpu;
use super::{TopologyError, TopologyFacts};

/// One CPU of a table; ids are kept as text, since only their equality counts.
#[derive(Debug, Default)]
pub(super) struct Row {
    cpu: Option<u32>,
    offline: bool,
    core: Option<String>,
    socket: Option<String>,
    node: Option<String>,
    /// Data or unified caches above level 1 as (level, id), in no order.
    caches: Vec<(u32, String)>,
}

impl Row {
    /// Takes one cell. Column names are compared without regard to case; unknown columns are skipped.
    pub(super) fn set(&mut self, column: &str, cell: &str) -> Result<(), String> {
        let column = column.to_ascii_lowercase();
        let id = (!matches!(cell, "" | "-")).then(|| cell.to_owned());
        match column.as_str() {
            "cpu" => self.cpu = Some(single_cpu(cell)?),
            "online" => {
                self.offline = matches!(cell.to_ascii_lowercase().as_str(), "no" | "n" | "false")
            }
            "core" => self.core = id,
            "socket" => self.socket = id,
            "node" => self.node = id,
            "cache" => self.set_caches("l1d:l1i:l2:l3", cell),
            caches if caches.contains(':') => self.set_caches(caches, cell),
            cache => self.set_cache(cache, cell),
        }
        Ok(())
    }

    /// Takes a cell such as `0:0:0:0` under a name such as `l1d:l1i:l2:l3`.
    fn set_caches(&mut self, names: &str, cell: &str) {
        for (name, id) in names.split(':').zip(cell.split(':')) {
            self.set_cache(name, id);
        }
    }

    fn set_cache(&mut self, name: &str, id: &str) {
        let level = name
            .strip_prefix('l')
            .map(|rest| rest.trim_end_matches('d'));
        let level = level.and_then(|level| level.parse().ok());
        if let Some(level) = level.filter(|&level: &u32| level > 1)
            && !matches!(id, "" | "-")
        {
            self.caches.push((level, id.to_owned()));
        }
    }

    fn last_cache(&self) -> Option<&(u32, String)> {
        self.caches.iter().max_by_key(|(level, _)| *level)
    }

    fn l2(&self) -> Option<&String> {
        let found = self.caches.iter().find(|(level, _)| *level == 2);
        found.map(|(_, id)| id)
    }
}

/// Whether the text is the output of `lscpu -p`.
pub(super) fn matches_csv(text: &str) -> bool {
    text.lines().any(|line| csv_header(line).is_some())
}

/// Whether the text is the output of `lscpu -e`.
pub(super) fn matches_table(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let mut words = first.unwrap_or_default().split_ascii_whitespace();
    words.next() == Some("CPU") && words.any(|word| matches!(word, "CORE" | "SOCKET" | "NODE"))
}

/// Reads the output of `lscpu -p`, with any choice of columns.
///
/// # Errors
/// No header line, and a row whose CPU cannot be read.
pub fn parse_lscpu_csv(text: &str) -> Result<TopologyFacts, TopologyError> {
    const ORIGIN: &str = "lscpu -p";
    let header = text
        .lines()
        .find_map(csv_header)
        .ok_or(TopologyError::Nothing {
            origin: ORIGIN,
            wanted: "a header line like `# CPU,Core,Socket,Node,,L1d,L1i,L2,L3`",
        })?;
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let data = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#'));
    let cells = data.map(|(number, line)| (number, line.split(',').map(str::trim).collect()));
    facts_from_cells(ORIGIN, &columns, cells)
}

/// Reads the output of `lscpu -e`.
///
/// # Errors
/// A row whose CPU cannot be read.
pub fn parse_lscpu_table(text: &str) -> Result<TopologyFacts, TopologyError> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| line).unwrap_or_default();
    let columns: Vec<&str> = header.split_ascii_whitespace().collect();
    let cells = lines.map(|(number, line)| (number, line.split_ascii_whitespace().collect()));
    facts_from_cells("lscpu -e", &columns, cells)
}

fn csv_header(line: &str) -> Option<&str> {
    let header = line.strip_prefix('#')?.trim();
    let mut columns = header.split(',');
    let first = columns.next()?;
    (first.eq_ignore_ascii_case("cpu") && columns.next().is_some()).then_some(header)
}

fn facts_from_cells<'a>(
    origin: &'static str,
    columns: &[&str],
    lines: impl Iterator<Item = (usize, Vec<&'a str>)>,
) -> Result<TopologyFacts, TopologyError> {
    let mut rows = Vec::new();
    for (number, cells) in lines.filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty())) {
        let mut row = Row::default();
        for (column, cell) in columns.iter().zip(cells) {
            row.set(column, cell)
                .map_err(|reason| TopologyError::line(origin, number, reason))?;
        }
        rows.push(row);
    }
    facts_from_rows(origin, &rows)
}

/// Turns rows into facts; offline CPUs are left out.
pub(super) fn facts_from_rows(
    origin: &'static str,
    rows: &[Row],
) -> Result<TopologyFacts, TopologyError> {
    // Of several tables in one text the last counts.
    let present = rows.iter().filter(|row| !row.offline);
    let by_cpu: BTreeMap<u32, &Row> = present.filter_map(|row| Some((row.cpu?, row))).collect();
    let rows: Vec<(u32, &Row)> = by_cpu.into_iter().collect();
    if rows.is_empty() {
        return Err(TopologyError::Nothing {
            origin,
            wanted: "rows with a CPU column",
        });
    }
    let keyed = rows.iter();
    let mut facts = TopologyFacts {
        online: group_by_known(keyed.clone().map(|(cpu, _)| ((), *cpu)))
            .and_then(|mut all| all.pop()),
        cores: group_by_known(
            keyed
                .clone()
                .filter_map(|(cpu, row)| Some(((&row.socket, row.core.as_ref()?), *cpu))),
        ),
        l2s: group_by_known(
            keyed
                .clone()
                .filter_map(|(cpu, row)| Some(((&row.socket, row.l2()?), *cpu))),
        ),
        llcs: group_by_known(
            keyed
                .clone()
                .filter_map(|(cpu, row)| Some(((&row.socket, row.last_cache()?), *cpu))),
        ),
        nodes: group_by_known(
            keyed
                .clone()
                .filter_map(|(cpu, row)| Some((row.node.as_ref()?, *cpu))),
        ),
        packages: group_by_known(keyed.filter_map(|(cpu, row)| Some((row.socket.as_ref()?, *cpu)))),
        warnings: Vec::new(),
    };
    warn_of_shared_ids(&rows, &mut facts);
    if let Some(llcs) = &mut facts.llcs {
        cut_at_nodes(llcs, facts.nodes.as_deref(), &mut facts.warnings);
    }
    Ok(facts)
}

/// Says when one last-level cache id appears in several sockets: a repeated id, or a guest told of one cache
/// over all of them; the table cannot tell which.
fn warn_of_shared_ids(rows: &[(u32, &Row)], facts: &mut TopologyFacts) {
    let by_id = rows
        .iter()
        .filter_map(|(cpu, row)| Some((row.last_cache()?, *cpu)));
    let ids = group_by_known(by_id).map_or(0, |groups| groups.len());
    let read = facts.llcs.as_ref().map_or(0, Vec::len);
    if ids < read {
        facts.warnings.push(format!(
            "lscpu gives {ids} last-level cache ids for {read} pairs of socket and id: each pair is taken as \
             an LLC of its own, since ids may repeat in every socket; a cache said to span packages is \
             usually a guest's invention"
        ));
    }
}

/// Reads one id of a JSON cell as a table would print it.
pub(super) fn cell_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.trim().to_owned(),
        serde_json::Value::Null => String::new(),
        other => shorten(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_cpus_are_left_out() {
        let text = "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0    0      0    0 0:0:0:0          yes\n  \
                    1    -      -    - -                 no\n  2    0      0    0 0:0:0:0          yes\n";
        assert!(matches_table(text));
        let facts = parse_lscpu_table(text).unwrap();
        assert_eq!(facts.online, Some(vec![0, 2]));
        assert_eq!(facts.cores, Some(vec![vec![0, 2]]));
        assert_eq!(facts.llcs, Some(vec![vec![0, 2]]));
    }

    #[test]
    fn core_ids_that_repeat_in_every_socket() {
        let text = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n\
                    2,0,1,0,,0,0,0,0\n3,0,1,0,,0,0,0,0\n";
        let facts = parse_lscpu_csv(text).unwrap();
        assert_eq!(facts.cores, Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(facts.llcs, Some(vec![vec![0, 1], vec![2, 3]]));
        assert!(
            facts
                .warnings
                .iter()
                .any(|warning| warning.contains("span packages"))
        );
    }

    #[test]
    fn without_an_l3_the_l2_is_the_llc() {
        let text = "# CPU,Core,,L1d,L1i,L2\n0,0,,0,0,0\n1,1,,1,1,0\n2,2,,2,2,1\n3,3,,3,3,1\n";
        let facts = parse_lscpu_csv(text).unwrap();
        assert_eq!(facts.llcs, Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(facts.nodes, None);
    }

    #[test]
    fn a_cpu_listed_twice_counts_once() {
        let facts = parse_lscpu_csv("# CPU,Core\n0,0\n1,0\n0,1\n").unwrap();
        assert_eq!(facts.cores, Some(vec![vec![0], vec![1]]));
    }

    #[test]
    fn without_cache_columns_no_llc_is_claimed() {
        let facts = parse_lscpu_csv("# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n").unwrap();
        assert_eq!(facts.llcs, None);
        assert_eq!(facts.packages, Some(vec![vec![0, 1]]));
    }
}
