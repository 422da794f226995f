//! `ttwu topology`: the machine as a tree, and as a specification.

use ttwu_parsers::event::escape;
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
