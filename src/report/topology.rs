//! `ttwu topology`: the machine as a tree, as a specification, and as markers for a trace.

use ttwu_parsers::event::escape;
use ttwu_parsers::machine_record::CONTINUED;
use ttwu_parsers::topology::MARKER;
use ttwu_parsers::topology::cpulist::format_list;

use super::table::{FAINT, HEADING, push_line, push_paragraph};
use super::units::counted;
use crate::topology::Topology;

/// Lays a topology out, at most 80 columns wide but for the specification, which is the last line and whole.
pub fn render(topology: &Topology) -> String {
    let mut out = String::new();
    let source = escape(topology.source().as_bytes());
    push_paragraph(
        &mut out,
        "",
        &format!("Topology from {source}"),
        Some(HEADING),
    );
    push_paragraph(&mut out, "", &summary(topology), None);
    push_tree(topology, &mut out);
    for warning in topology.warnings() {
        push_paragraph(&mut out, "note: ", &escape(warning.as_bytes()), Some(FAINT));
    }
    let spec = topology.to_spec();
    if !spec.is_empty() {
        out.push('\n');
        push_line(
            &mut out,
            "As a specification for --topology:",
            Some(HEADING),
        );
        push_line(&mut out, &spec, None);
    }
    out
}

/// `8 CPUs, 4 cores, 2 LLCs, 1 node`.
fn summary(topology: &Topology) -> String {
    let kinds = [
        ("package", topology.packages()),
        ("node", topology.nodes()),
        ("LLC", topology.llcs()),
        ("core", topology.cores()),
    ];
    let part = |(name, groups): (&str, Option<&[Vec<u32>]>)| match groups {
        Some(groups) => counted(groups.len() as u64, name),
        None => format!("{name}s unknown"),
    };
    let cpus = all_cpus(topology).len() as u64;
    let mut parts = vec![counted(cpus, "CPU")];
    parts.extend(kinds.map(part));
    parts.join(", ")
}

fn all_cpus(topology: &Topology) -> Vec<u32> {
    let kinds = [
        topology.packages(),
        topology.nodes(),
        topology.llcs(),
        topology.l2s(),
        topology.cores(),
    ];
    let groups = kinds.into_iter().flatten().flatten().flatten().copied();
    let mut cpus: Vec<u32> = groups.chain(topology.cpus().iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Nodes, in them LLCs, in them L2 groups and cores.
fn push_tree(topology: &Topology, out: &mut String) {
    let everything = all_cpus(topology);
    match topology.nodes() {
        Some(nodes) => {
            for (id, node) in nodes.iter().enumerate() {
                push_paragraph(
                    out,
                    &format!("  node {id}: "),
                    &format!("CPUs {}", format_list(node)),
                    None,
                );
                push_llcs(topology, node, out);
            }
        }
        None => push_llcs(topology, &everything, out),
    }
}

fn push_llcs(topology: &Topology, cpus: &[u32], out: &mut String) {
    let Some(llcs) = topology.llcs() else {
        push_groups("    ", "cores", topology.cores(), cpus, out);
        return;
    };
    for (id, llc) in llcs.iter().enumerate() {
        let within: Vec<u32> = llc
            .iter()
            .copied()
            .filter(|cpu| cpus.contains(cpu))
            .collect();
        if within.is_empty() {
            continue;
        }
        push_paragraph(
            out,
            &format!("    LLC {id}: "),
            &format!("CPUs {}", format_list(&within)),
            None,
        );
        // Where L2 groups are the cores they say nothing more.
        if topology.l2s() != topology.cores() {
            push_groups("      ", "L2s", topology.l2s(), &within, out);
        }
        push_groups("      ", "cores", topology.cores(), &within, out);
    }
}

/// The groups of one kind among some CPUs, in one paragraph.
fn push_groups(
    indent: &str,
    name: &str,
    groups: Option<&[Vec<u32>]>,
    cpus: &[u32],
    out: &mut String,
) {
    let within = |group: &&Vec<u32>| group.first().is_some_and(|cpu| cpus.contains(cpu));
    let groups: Vec<String> = groups
        .into_iter()
        .flatten()
        .filter(within)
        .map(|g| format_list(g))
        .collect();
    if !groups.is_empty() {
        push_paragraph(out, &format!("{indent}{name}: "), &groups.join("  "), None);
    }
}

/// Longest marker: kernels before 6.8 cut them at 1 KiB.
const MARKER_BYTES: usize = 900;

/// POSIX shell commands that write a topology into the trace being recorded. Nothing if nothing is known.
pub fn markers(topology: &Topology) -> String {
    let markers: Vec<String> = marker_lines(&topology.to_spec())
        .iter()
        .map(|line| format!("  '{line}'"))
        .collect();
    if markers.is_empty() {
        return String::new();
    }
    format!(
        "# As root, while trace-cmd records:\n\
         for line in \\\n{}\n\
         do echo \"$line\" > /sys/kernel/tracing/trace_marker; done\n",
        markers.join(" \\\n")
    )
}

/// One marker for each kind of group, or several where one would be too long. Neither spaces nor quotes are in a value.
fn marker_lines(spec: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, groups) in spec.split(' ').filter_map(|word| word.split_once('=')) {
        let start = format!("{MARKER}{key}=");
        let mut line = start.clone();
        for group in groups.split(';') {
            if line.len() > start.len() && line.len() + 1 + group.len() > MARKER_BYTES {
                push_marker(std::mem::replace(&mut line, start.clone()), &mut lines);
            }
            if line.len() > start.len() {
                line.push(';');
            }
            line.push_str(group);
        }
        push_marker(line, &mut lines);
    }
    lines
}

/// A group that alone is too long goes on in further markers.
fn push_marker(mut line: String, lines: &mut Vec<String>) {
    while line.len() > MARKER_BYTES {
        let rest = line.split_off(MARKER_BYTES);
        lines.push(std::mem::replace(&mut line, format!("{CONTINUED}{rest}")));
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttwu_parsers::machine_record::MachineRecord;
    use ttwu_parsers::topology::{TopologyFacts, facts_from_marker, parse_spec};

    fn read_back(lines: &[String]) -> TopologyFacts {
        let record = MachineRecord::parse(lines.iter().map(String::as_str));
        parse_spec(&record.topology.unwrap()).unwrap()
    }

    #[test]
    fn markers_say_what_the_specification_says() {
        let spec = "llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7 online=0-7";
        let lines = marker_lines(spec);
        assert_eq!(lines.len(), 4);
        assert_eq!(
            read_back(&lines).to_spec(),
            parse_spec(spec).unwrap().to_spec()
        );
        let facts = facts_from_marker(&lines.join("\n")).unwrap().unwrap();
        assert_eq!(facts.to_spec(), read_back(&lines).to_spec());
    }

    /// 1,024 CPUs whose siblings are far apart, in two nodes that take turns: too much for a marker of each kind.
    #[test]
    fn long_kinds_take_several_markers() {
        let siblings: Vec<String> = (0..512).map(|cpu| format!("{cpu},{}", cpu + 512)).collect();
        let odd = |first: u32| (first..1024).step_by(2).map(|cpu| cpu.to_string());
        let nodes = [0, 1].map(|first| odd(first).collect::<Vec<_>>().join(","));
        let spec = format!("smt={} node={}", siblings.join(";"), nodes.join(";"));
        let lines = marker_lines(&spec);
        assert!(lines.iter().all(|line| line.len() <= MARKER_BYTES));
        assert!(lines.iter().any(|line| line.starts_with(CONTINUED)));
        assert_eq!(read_back(&lines), parse_spec(&spec).unwrap());
    }

    #[test]
    fn commands_can_be_pasted() {
        let facts = parse_spec("llc=0-1;2-3 smt=0;1;2;3").unwrap();
        let text = markers(&Topology::new(facts, "SPEC", &[0, 1, 2, 3]));
        assert_eq!(
            text,
            "# As root, while trace-cmd records:\n\
             for line in \\\n  \
             'ttwu topology llc=0-1;2-3' \\\n  \
             'ttwu topology smt=0;1;2;3'\n\
             do echo \"$line\" > /sys/kernel/tracing/trace_marker; done\n"
        );
        assert_eq!(markers(&Topology::unknown(&[0], "no source")), "");
    }
}
