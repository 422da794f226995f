//! The ledgers second by second, for those who export them.

use super::engine::Replay;
use super::ledger::{Ledger, Window};
use super::rows::{SecondRow, Sink};
use super::words::{LEDGER_ROWS, Pair, Reading};

const SECOND_NS: i64 = 1_000_000_000;

/// What was told of the ledgers so far.
pub(super) struct Seconds {
    /// When the next second ends; never where nobody asks.
    pub next_ns: i64,
    since_ns: i64,
    told: Vec<Pair<[i64; LEDGER_ROWS]>>,
}

impl Seconds {
    pub fn new(window: Window, cpus: usize, wanted: bool) -> Self {
        Self {
            next_ns: match wanted {
                true => window.from_ns.saturating_add(SECOND_NS),
                false => i64::MAX,
            },
            since_ns: window.from_ns,
            told: match wanted {
                true => vec![Pair([[0; LEDGER_ROWS]; 2]); cpus],
                false => Vec::new(),
            },
        }
    }

    /// The last full second before `now`.
    fn last_before(&self, now: i64) -> i64 {
        let beyond = now.saturating_sub(self.next_ns).max(0);
        self.next_ns.saturating_add(beyond - beyond % SECOND_NS)
    }

    /// A CPU's share of what was accounted since it was told last.
    fn share(&mut self, ledger: &Ledger, cpu: usize) -> Option<Pair<[i64; LEDGER_ROWS]>> {
        let told = self.told.get_mut(cpu)?;
        let now = Pair([
            ledger.rows(Reading::Seen, cpu),
            ledger.rows(Reading::Any, cpu),
        ]);
        let mut share = now;
        for reading in [Reading::Seen, Reading::Any] {
            let before = told[reading].iter();
            share[reading]
                .iter_mut()
                .zip(before)
                .for_each(|(share, before)| *share -= before);
        }
        *told = now;
        Some(share)
    }
}

impl<S: Sink> Replay<'_, S> {
    /// Tells the seconds that ended before `now`. Where no event came for several, they are one row.
    #[cold]
    pub(super) fn end_second(&mut self, now: i64) {
        let window = self.config.window;
        let until = self.seconds.last_before(now).min(window.to_ns);
        self.ledger.account(until);
        self.tell_seconds(until);
        self.seconds.next_ns = match until < window.to_ns {
            true => until.saturating_add(SECOND_NS),
            false => i64::MAX,
        };
    }

    /// Tells what is left, after the ledgers were closed.
    pub(super) fn end_last_second(&mut self) {
        let to_ns = self.config.window.to_ns;
        if self.seconds.since_ns < to_ns {
            self.tell_seconds(to_ns);
        }
    }

    fn tell_seconds(&mut self, until: i64) {
        for (cpu, &id) in self.machine.cpus.ids().iter().enumerate() {
            if let Some(ledger) = self.seconds.share(&self.ledger, cpu) {
                self.sink.second(&SecondRow {
                    cpu: id,
                    start_ns: self.seconds.since_ns,
                    end_ns: until,
                    ledger,
                });
            }
        }
        self.seconds.since_ns = until;
    }
}
