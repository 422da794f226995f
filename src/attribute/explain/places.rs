//! Where the rows of a word are: which table, which of its rows, and what makes one of them large.

use polars::prelude::*;

use super::senses::{KERNEL, Kind, Sense};
use crate::replay::words::{Decision, Verdict};
use crate::tables::Table;

/// The rows of a word.
pub struct Place {
    pub table: Table,
    /// Which rows have it, as seen and if any CPU is allowed: the same where affinity has no part in it.
    pub seen: Expr,
    pub any: Expr,
    /// What the largest rows are largest by; `None` where none is larger than another.
    pub size: Option<Expr>,
    /// When a row happened.
    pub stamp: Expr,
    /// What the rows are, if they are not just those of the word.
    pub note: Option<&'static str>,
}

impl Place {
    fn new(table: Table, filter: Expr) -> Self {
        let (stamp, size) = match table {
            Table::Wakeups => (
                col("waking_ns").fill_null(col("wakeup_ns")),
                Some(col("latency_ns").fill_null(lit(0))),
            ),
            Table::Waits => (col("start_ns"), Some(col("wait_ns"))),
            Table::Slices | Table::Idle | Table::Lost => {
                (col("start_ns"), Some(col("end_ns") - col("start_ns")))
            }
            Table::Flips => (col("waking_ns"), Some(col("waker_least"))),
            Table::Ipis => (col("ts_ns"), Some(col("latency_ns").fill_null(lit(0)))),
            Table::Flushes => (col("ts_ns"), Some(col("wait_ns").fill_null(lit(0)))),
            _ => (col("ts_ns"), None),
        };
        Self {
            table,
            seen: filter.clone(),
            any: filter,
            size,
            stamp,
            note: None,
        }
    }

    fn noting(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }

    /// Where a word's rows are, if there are rows of it at all.
    pub fn of(sense: Sense) -> Option<Self> {
        let code = sense.kind.code(sense.word);
        let is = |column: &str| col(column).eq(lit(code));
        let place = match sense.kind {
            Kind::Verdict => Self {
                any: is("verdict_any"),
                ..Self::new(Table::Waits, is("verdict_seen"))
            },
            Kind::Origin => Self::new(Table::Waits, is("origin")),
            Kind::Path => Self::new(Table::Wakeups, is("path")),
            Kind::Class => Self::new(Table::Wakeups, is("class")),
            Kind::Waker => Self::new(Table::Wakeups, is("context")),
            Kind::Distance => Self::new(Table::Wakeups, is("waker_chosen"))
                .noting("wakeups, by the distance from waker to chosen CPU"),
            Kind::Ledger => Self::of_ledger(sense.word),
            Kind::Category => return Self::of_category(sense.word),
            Kind::Ipi => Self::new(Table::Ipis, is("kind")),
            Kind::Cause => Self::new(Table::Migrations, is("cause")),
            Kind::Policy => Self::of_policy(sense.word),
            Kind::Decision => Self::new(Table::Flips, is(KERNEL))
                .noting("counted wakeups, by what the recorded kernel's policy decides"),
            Kind::Role | Kind::Better | Kind::Reading => return None,
        };
        Some(place)
    }

    fn of_ledger(word: &str) -> Self {
        match word {
            "unknown" => {
                Self::new(Table::Lost, lit(true)).noting("gaps in which events are missing")
            }
            "running" => {
                Self::new(Table::Slices, lit(true)).noting("intervals in which a task ran")
            }
            "idle" => {
                Self::new(Table::Idle, lit(true)).noting("intervals in which a CPU ran nothing")
            }
            "transit" => Self::transit(),
            _ => Self {
                any: col("lost_any_ns").gt(lit(0)),
                size: Some(col("lost_any_ns")),
                ..Self::new(Table::Waits, col("lost_seen_ns").gt(lit(0)))
            }
            .noting("waits to which idle CPUs were matched, in this row or another"),
        }
    }

    /// What a policy decides otherwise than the recorded kernel's; of that one itself, what it decides.
    fn of_policy(word: &str) -> Self {
        let decided = |column: &str| col(column).lt_eq(lit(Decision::Affine.code()));
        let column = word.replace('-', "_");
        if word == KERNEL {
            return Self::new(Table::Flips, decided(KERNEL))
                .noting("counted wakeups that it decides");
        }
        let differs = col(column.as_str()).neq(col(KERNEL));
        let filter = decided(&column).and(decided(KERNEL)).and(differs);
        Self::new(Table::Flips, filter)
            .noting("counted wakeups that it decides otherwise than the recorded kernel")
    }

    fn of_category(word: &str) -> Option<Self> {
        let place = match word {
            "running" | "transit" | "unknown" => Self::of_ledger(word),
            "wait" => {
                let transit = |column: &str| col(column).eq(lit(Verdict::Transit.code()));
                Self {
                    any: transit("verdict_any").not(),
                    ..Self::new(Table::Waits, transit("verdict_seen").not())
                }
            }
            "interrupt" => Self {
                size: Some(col("handler_ns")),
                ..Self::new(
                    Table::Ipis,
                    col("handler_ns")
                        .gt(lit(0))
                        .and(col("interrupted").is_not_null()),
                )
            }
            .noting("handlers that took time from a task, on the critical path or not"),
            "tlb-wait" => Self::new(Table::Flushes, col("wait_ns").gt(lit(0)))
                .noting("shootdowns whose initiator waited, on the critical path or not"),
            _ => return None,
        };
        Some(match place.note {
            Some(_) => place,
            None => place.noting("waits of the whole trace, on the critical path or not"),
        })
    }

    fn transit() -> Self {
        let transit = |column: &str| col(column).eq(lit(Verdict::Transit.code()));
        Self {
            any: transit("verdict_any"),
            ..Self::new(Table::Waits, transit("verdict_seen"))
        }
        .noting("waits for a CPU that ran nothing")
    }
}
