//! The CPU-time ledger as a table.

use super::glossary::{self, LABELS, LEDGER};
use super::table::{ALARM, Column, Lines};
use super::units::{duration, percent};
use super::{Columns, most};
use crate::attribute::answer::{Ledger, Readings};

/// A row whose share reaches this is marked.
const MARKED_SHARE: f64 = 0.01;

/// One row under both readings.
struct Entry {
    word: &'static str,
    ns: Readings<i64>,
    share: Readings<f64>,
    loss: bool,
}

impl Entry {
    fn marked(&self) -> bool {
        let shares = [self.share.seen, self.share.any];
        self.loss && shares.into_iter().flatten().any(|s| s >= MARKED_SHARE)
    }
}

/// Puts the ledger behind `out`.
pub fn push(ledger: &Ledger, out: &mut String) {
    let entries = entries(ledger);
    let columns = Columns::of(entries.iter().map(|e| e.ns), duration);
    let mut layout = vec![Column::Word];
    layout.extend(vec![Column::Number; 2 * columns.count()]);
    layout.push(Column::Text(31));
    let mut lines = Lines::new(layout, header(columns, ledger));
    for entry in &entries {
        let mut cells = vec![entry.word.to_owned()];
        let shares = columns.cells(entry.share, percent);
        for (ns, share) in columns.cells(entry.ns, duration).into_iter().zip(shares) {
            cells.extend([ns, share]);
        }
        let terms = match entry.word {
            "waiting" => &LABELS[..],
            _ => &LEDGER,
        };
        cells.push(glossary::brief(terms, entry.word).to_owned());
        match entry.marked() {
            true => lines.styled(cells, ALARM),
            false => lines.row(cells),
        }
    }
    lines.push_to(out);
}

fn header(columns: Columns, ledger: &Ledger) -> Vec<String> {
    let total = duration(ledger.total_ns);
    let mut header = match columns {
        Columns::One => ["CPU time", total.as_str(), "share"]
            .map(str::to_owned)
            .to_vec(),
        Columns::Two => ["CPU time", "seen", "share", "any", "share"]
            .map(str::to_owned)
            .to_vec(),
    };
    header.push(match columns {
        Columns::One => String::new(),
        Columns::Two => format!("of {total}"),
    });
    header
}

fn entries(ledger: &Ledger) -> Vec<Entry> {
    let both = |ns, share| {
        // What does not depend on the affinity reading stands under those that were asked for.
        let like = ledger.idle_ns;
        let ns = Readings {
            seen: like.seen.map(|_| ns),
            any: like.any.map(|_| ns),
        };
        let share = Readings {
            seen: like.seen.map(|_| share),
            any: like.any.map(|_| share),
        };
        (ns, share)
    };
    let entry = |word, (ns, share), loss| Entry {
        word,
        ns,
        share,
        loss,
    };
    let mut entries = vec![
        entry(
            "unknown",
            both(ledger.unknown_ns, ledger.unknown_share),
            true,
        ),
        entry(
            "running",
            both(ledger.running_ns, ledger.running_share),
            false,
        ),
        entry(
            "transit",
            both(ledger.transit_ns, ledger.transit_share),
            true,
        ),
    ];
    entries.extend(
        waiting(ledger)
            .into_iter()
            .map(|(word, ns, share)| entry(word, (ns, share), true)),
    );
    entries.push(entry("idle", (ledger.idle_ns, ledger.idle_share), false));
    // Of rows that are empty only this one says nothing.
    entries.retain(|e| e.word != "unknown" || most(e.ns) > 0);
    entries
}

/// A row's word, its time and its share.
pub type WaitingRow = (&'static str, Readings<i64>, Readings<f64>);

/// The rows of time in which CPUs ran nothing while tasks waited elsewhere; their sum where no topology
/// splits it.
pub fn waiting(ledger: &Ledger) -> Vec<WaitingRow> {
    let split = (
        ledger.waiting_llc_ns.value(),
        ledger.waiting_llc_share.value(),
        ledger.waiting_machine_ns.value(),
        ledger.waiting_machine_share.value(),
    );
    match split {
        (Some(llc), Some(llc_share), Some(machine), Some(machine_share)) => vec![
            ("waiting-llc core", llc.core, llc_share.core),
            ("waiting-llc smt", llc.smt, llc_share.smt),
            ("waiting-machine", *machine, *machine_share),
        ],
        _ => vec![("waiting", ledger.waiting_ns, ledger.waiting_share)],
    }
}
