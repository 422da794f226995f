//! Interrupts between CPUs: each that was sent, and each that was handled.

use ttwu::pipeline::RunOptions;

use super::check::{Differences, File, Written};
use super::events::Vector;
use super::notes::Sending;
use super::run::simulate;
use super::tests_exact::plan;

fn kind(sending: &Sending) -> &'static str {
    match sending.kind {
        Vector::Reschedule => "reschedule",
        Vector::Function => "call_many",
        Vector::FunctionSingle => "call_single",
    }
}

#[test]
fn interrupts_are_the_simulators() {
    let (mut handled, mut sent) = (0, 0);
    for seed in 0..96 {
        let sim = simulate(plan(seed));
        let sendings = &sim.notes.sendings;
        let id = |cpu: usize| sim.machine.ids[cpu];
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let rows = Written::new(&sim.recording(), file)
            .rows(&RunOptions::default())
            .rows;
        let mut differ = Differences::default();

        let found = rows.ipis.iter().filter_map(|row| {
            let handler = row.handler_ns?;
            Some((row.ts_ns, row.cpu, row.kind.as_str(), handler))
        });
        let truth: Vec<_> = sendings
            .iter()
            .filter_map(|sending| {
                let (entry, exit) = sending.handled?;
                Some((entry, id(sending.to), kind(sending), exit - entry))
            })
            .collect();
        handled += truth.len();
        differ.lists("handled", found.collect(), truth);

        // Nothing tells of what was sent before 6.4.
        let found = rows.ipis.iter().filter(|row| row.handler_ns.is_none());
        let found = found.filter(|row| ["reschedule", "call_single"].contains(&row.kind.as_str()));
        let found = found.map(|row| {
            let to = row.target_cpu.unwrap_or(u32::MAX);
            (
                row.ts_ns,
                row.cpu,
                to,
                row.kind.as_str(),
                row.distance.as_str(),
            )
        });
        let tells = sim.kernel.tells_sends();
        let single = sendings
            .iter()
            .filter(|s| tells && s.kind != Vector::Function);
        // Queued wakeups go by the call-function vector on such kernels.
        let truth: Vec<_> = single
            .map(|s| {
                let far = sim.machine.distance(s.from, s.to);
                (s.ts, id(s.from), id(s.to), kind(s), far)
            })
            .collect();
        sent += truth.len();
        differ.lists("sent", found.collect(), truth);

        let found = rows
            .ipis
            .iter()
            .filter(|row| row.kind.as_str() == "call_many");
        let found = found.filter(|row| row.handler_ns.is_none());
        let found = found.map(|row| (row.cpu, row.targets));
        let many = sim
            .notes
            .shootdowns
            .iter()
            .filter(|s| tells && s.targets.len() > 1);
        let truth = many.map(|s| (id(s.from), s.targets.len() as u32)).collect();
        differ.lists("sent to many", found.collect(), truth);
        differ.none(&format!("seed {seed}"));
    }
    assert!(
        handled > 5000 && sent > 2000,
        "{handled} handled, {sent} sent"
    );
}
