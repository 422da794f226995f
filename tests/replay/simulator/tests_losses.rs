//! Where events are missing, that is told, and nothing is made up for them.

use ttwu::pipeline::RunOptions;
use ttwu::replay::words::{IpiFate, IpiRoad, LedgerRow, Reading};

use super::check::{File, Written, found_waits, found_wakeups};
use super::events::What;
use super::random::Random;
use super::recording::{Loss, Recording};
use super::run::simulate;
use super::scheduler::Sim;
use super::tests_exact::plan;
use super::timeline::{Read, Timeline};
use super::truth_ledger::ledger;
use super::truth_waits::{WaitTruth, waits};
use super::truth_wakeups::{WakeupTruth, wakeups};

/// Takes stretches of one or two CPUs' events out of a recording.
fn lose(sim: &Sim, seed: u64) -> Recording {
    let mut recording = sim.recording();
    let mut random = Random::new(seed ^ 0x1055);
    for _ in 0..1 + random.below(2) {
        let cpu = random.below(sim.machine.cpus());
        let of_cpu: Vec<i64> = sim
            .log
            .iter()
            .filter(|e| e.cpu == cpu)
            .map(|e| e.ts)
            .collect();
        if of_cpu.len() < 12 || recording.losses.iter().any(|loss| loss.cpu == cpu) {
            continue;
        }
        let from = 2 + random.below(of_cpu.len() - 8);
        let to = (from + 2 + random.below(of_cpu.len() / 3)).min(of_cpu.len() - 2);
        recording.losses.push(Loss {
            cpu,
            after: of_cpu[from],
            before: of_cpu[to],
            counted: random.chance(70),
        });
    }
    // Some kernels have none of the events that would be lost.
    let lossy: Vec<u32> = told(&recording).iter().map(|gap| gap.0).collect();
    let ids = recording.machine.ids.clone();
    recording
        .losses
        .retain(|loss| lossy.contains(&ids[loss.cpu]));
    recording
}

/// The losses as they can be told: between the last event before and the first one behind.
fn told(recording: &Recording) -> Vec<(u32, i64, i64, u64)> {
    let formats = recording.formats();
    let is_told = |event: &super::events::Event| {
        super::formats::encode(event, &formats, recording.kernel, &recording.machine).is_some()
    };
    let mut told = Vec::new();
    for loss in &recording.losses {
        let events = || {
            recording
                .events
                .iter()
                .filter(|e| e.cpu == loss.cpu && is_told(e))
        };
        let inside = events()
            .filter(|e| loss.after < e.ts && e.ts < loss.before)
            .count();
        let before = events().filter(|e| e.ts <= loss.after).map(|e| e.ts).max();
        let behind = events().filter(|e| e.ts >= loss.before).map(|e| e.ts).min();
        if let (Some(before), Some(behind), 1..) = (before, behind, inside) {
            told.push((
                recording.machine.ids[loss.cpu],
                before,
                behind,
                inside as u64,
            ));
        }
    }
    told.sort_unstable();
    told
}

#[test]
fn what_is_lost_is_told_and_not_guessed() {
    let (mut lossy, mut withdrawn, mut kept) = (0, 0, 0);
    let mut others = Others::default();
    for seed in 0..240 {
        let sim = simulate(plan(seed));
        let recording = lose(&sim, seed);
        let gaps = told(&recording);
        if gaps.is_empty() {
            continue;
        }
        lossy += 1;
        let file = if seed % 2 == 0 {
            File::TraceDat
        } else {
            File::PerfData
        };
        let found = Written::new(&recording, file).rows(&RunOptions::default());
        let rows = &found.rows;
        let what = format!("seed {seed} {file:?} {:?}", plan(seed).kernel);

        // Where, and how many where that was counted.
        let mut lost: Vec<(u32, i64, i64)> = rows
            .lost
            .iter()
            .map(|l| (l.cpu, l.start_ns, l.end_ns))
            .collect();
        lost.sort_unstable();
        let places: Vec<(u32, i64, i64)> = gaps.iter().map(|g| (g.0, g.1, g.2)).collect();
        assert_eq!(lost, places, "{what}");
        for row in &rows.lost {
            let truth = gaps.iter().find(|gap| gap.0 == row.cpu).map(|gap| gap.3);
            assert!(
                row.events.is_none() || row.events == truth,
                "{what}: {row:?} {truth:?}"
            );
            // perf always counts.
            assert!(row.events.is_some() || file == File::TraceDat, "{what}");
        }

        // The CPU's time in the gap is unknown, all of it; the rest is known, but for what only the gap could tell.
        let timeline = Timeline::new(&sim);
        let truth = ledger(&timeline, Read::Any);
        for (cpu, &(running, _)) in truth.by_cpu.iter().enumerate() {
            let id = sim.machine.ids[cpu];
            let cell = |row| rows.cell(Reading::Any, id, row);
            let gap: i64 = gaps.iter().filter(|g| g.0 == id).map(|g| g.2 - g.1).sum();
            let unknown = cell(LedgerRow::Unknown);
            assert!(
                unknown >= gap,
                "{what}: CPU {id} unknown {unknown}, gap {gap}"
            );
            if gap == 0 {
                assert_eq!(unknown, 0, "{what}: CPU {id}");
            }
            assert!(
                cell(LedgerRow::Running) <= running,
                "{what}: CPU {id} ran too long"
            );
            assert!(
                cell(LedgerRow::Running) >= running - unknown,
                "{what}: CPU {id} ran too little"
            );
        }
        for task in &rows.tasks {
            let spans = sim.notes.tasks.iter().position(|t| t.pid == task.pid);
            let spans = spans.map_or(&[][..], |t| &timeline.spans[t]);
            let ran = spans
                .iter()
                .filter(|s| matches!(s.state, super::notes::State::Running(_)));
            let ran: i64 = ran.map(|s| s.to - s.from).sum();
            assert!(
                task.run_ns <= ran,
                "{what}: pid {} ran {} of {ran}",
                task.pid,
                task.run_ns
            );
        }

        // A wait that is told with both ends was one; at most its first part is not told, of a task that came out of a gap.
        // None spans a gap of its own CPU.
        let truth: Vec<WaitTruth> = waits(&timeline);
        for wait in found_waits(rows).iter().filter(|wait| wait.end.is_some()) {
            let within = truth.iter().any(|true_wait| {
                (true_wait.pid, true_wait.end) == (wait.pid, wait.end)
                    && true_wait.start <= wait.start
            });
            assert!(
                within || crosses(&recording, wait.start, wait.end),
                "{what}: {wait:?} was no wait"
            );
            kept += 1;
        }
        for wait in &rows.waits {
            let end = wait.start_ns + wait.wait_ns;
            let spans = gaps.iter().any(|gap| {
                gap.0 == wait.first_cpu && wait.moves == 0 && wait.start_ns < gap.1 && end > gap.2
            });
            assert!(!spans, "{what}: {wait:?} spans a gap");
        }
        others.hold(&sim, &recording, &timeline, rows, &what);
        withdrawn += found.counts.withdrawn_waits + found.counts.withdrawn_wakeups;
        let switches = sim
            .log
            .iter()
            .filter(|e| matches!(e.what, What::Switch { .. }))
            .count();
        let found: u64 = rows.cpus.iter().map(|cpu| cpu.switches).sum();
        assert!(found <= switches as u64, "{what}");
    }
    assert!(lossy >= 200, "{lossy} runs with losses");
    assert!(withdrawn > 100, "{withdrawn} withdrawn");
    assert!(kept > 10_000, "{kept} waits kept");
    assert!(others.enough(), "{others:?}");
}

/// What else was held against the truth.
#[derive(Debug, Default)]
struct Others {
    wakeups: u64,
    latencies: u64,
    moves: u64,
    interrupts: u64,
    lost_interrupts: u64,
    flips: u64,
}

impl Others {
    fn enough(&self) -> bool {
        self.latencies > 5000
            && self.moves > 2000
            && self.interrupts > 500
            && self.lost_interrupts >= 20
            && self.flips > 5000
    }

    fn hold(
        &mut self,
        sim: &Sim,
        recording: &Recording,
        timeline: &Timeline,
        rows: &crate::support::Rows,
        what: &str,
    ) {
        self.wakeups(recording, timeline, rows, what);
        for row in rows.migrations.iter().filter(|row| !row.inferred) {
            let found = sim.notes.moves.iter().any(|m| m.ts == row.ts_ns);
            assert!(found, "{what}: {row:?} was no move");
            self.moves += 1;
        }
        let id = |cpu: usize| sim.machine.ids[cpu];
        for row in rows
            .ipis
            .iter()
            .filter(|row| row.road == IpiRoad::Interrupt)
        {
            let sent = sim.notes.sendings.iter().find(|s| {
                (s.ts, id(s.to)) == (row.ts_ns, row.target_cpu) && row.cpu == Some(id(s.from))
            });
            let sent = sent.unwrap_or_else(|| panic!("{what}: {row:?} was not sent"));
            let lossy = recording.losses.iter().any(|loss| loss.cpu == sent.to);
            match row.fate {
                IpiFate::Lost => {
                    assert!(lossy, "{what}: {row:?} is not lost");
                    self.lost_interrupts += 1;
                }
                // Of a CPU with losses the first handler that is seen may be another one's.
                IpiFate::Handled if !lossy => {
                    let handled = sent.handled.expect("a handler");
                    assert_eq!(
                        row.latency_ns,
                        Some(handled.entry - sent.ts),
                        "{what}: {row:?}"
                    );
                    self.interrupts += 1;
                }
                _ => {}
            }
        }
        for row in &rows.flips {
            let mut wakeups = sim.notes.wakeups.iter();
            let wakeup = wakeups.find(|w| w.waking == Some(row.waking_ns));
            let Some((waker, wakee)) = wakeup.and_then(|w| w.flips) else {
                continue;
            };
            for (span, flips) in [(row.waker_flips, waker), (row.wakee_flips, wakee)] {
                let inside = (span.lo..=span.hi).contains(&flips);
                assert!(inside, "{what}: {flips} is not in {span:?} of {row:?}");
            }
            self.flips += 1;
        }
    }

    /// What is told of a wakeup is so, or came about where events are missing.
    fn wakeups(
        &mut self,
        recording: &Recording,
        timeline: &Timeline,
        rows: &crate::support::Rows,
        what: &str,
    ) {
        let truth = wakeups(timeline);
        for found in found_wakeups(rows) {
            let same = |w: &&WakeupTruth| {
                let key = match timeline.kernel.has_waking() && found.waking.is_some() {
                    true => w.waking == found.waking,
                    false => w.enqueued == found.enqueued,
                };
                key && w.pid == found.pid
            };
            let wakeup = truth.iter().find(same);
            let wakeup = wakeup.unwrap_or_else(|| panic!("{what}: {found:?} was no wakeup"));
            self.wakeups += 1;
            assert!(
                found.waker.is_none() || found.waker == wakeup.waker,
                "{what}: {found:?} {wakeup:?}"
            );
            if found.enqueued.is_some() {
                assert_eq!(found.chosen, wakeup.chosen, "{what}: {found:?}");
            }
            let pairs = [
                (found.latency, wakeup.latency, found.waking),
                (found.queue, wakeup.queue, found.enqueued),
            ];
            for (told, truth, start) in pairs {
                let Some((told, start)) = told.zip(start) else {
                    continue;
                };
                // One that was queued in a gap is woken in place, and seems to have slept.
                let in_place =
                    truth.is_none() && recording.losses.iter().any(|l| l.before <= start);
                let right = Some(told) == truth
                    || in_place
                    || crosses(recording, start, Some(start + told));
                assert!(right, "{what}: {told} of {found:?} {wakeup:?}");
                self.latencies += 1;
            }
        }
    }
}

/// Whether some loss lies within: a task may have been taken away and back in it, and nobody saw.
fn crosses(recording: &Recording, start: i64, end: Option<i64>) -> bool {
    let end = end.unwrap_or(i64::MAX);
    recording
        .losses
        .iter()
        .any(|loss| loss.after < end && loss.before > start)
}
