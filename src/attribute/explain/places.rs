//! Where the rows of a word are: which table, which of its rows, and what makes one of them large.

use std::sync::Arc;

use polars::prelude::*;

use super::Names;
use super::senses::{KERNEL, Kind, Sense};
use crate::attribute::answer::{Answer, Known};
use crate::attribute::scope::{Scope, is_member, members};
use crate::replay::units::Work;
use crate::replay::words::{Decision, IpiRoad, Reading, Verdict};
use crate::tables::Table;
use crate::topology::Distance;

/// The rows of a word.
pub struct Place {
    pub table: Table,
    /// Which rows have it, as seen and if any CPU is allowed: the same where affinity has no part in it.
    pub seen: Expr,
    pub any: Expr,
    /// The rows of the table that count, if not all do.
    pub among: Option<Expr>,
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
            among: None,
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
    pub fn of(sense: Sense, sends: bool) -> Option<Self> {
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
            Kind::Ipi => Self::of_kind(is("kind"), sends),
            Kind::Cause => Self::new(Table::Migrations, is("cause")),
            Kind::Policy => Self::of_policy(sense.word),
            Kind::Decision => Self::new(Table::Flips, is(KERNEL))
                .noting("counted wakeups, by what the recorded kernel's policy decides"),
            Kind::Role | Kind::Better | Kind::Reading | Kind::Label => return None,
        };
        Some(place)
    }

    /// Where the rows of a word are of which the answer tells what has it; why there are none, in the user's terms.
    pub fn told(sense: Sense, answer: &Answer, scope: &Scope, names: &Names) -> Known<Self> {
        match sense.kind {
            Kind::Role => Self::of_role(sense.word, answer, names),
            Kind::Better => Known::Value(Self::of_pairs(sense.word, answer, names)),
            Kind::Reading => Self::of_reading(scope),
            _ => Self::of_label(sense.word, answer, scope),
        }
    }

    fn of_label(word: &str, answer: &Answer, scope: &Scope) -> Known<Self> {
        let crosses = |column: &str| {
            let is = |distance: Distance| col(column).eq(lit(distance as u8));
            is(Distance::Node).or(is(Distance::Remote))
        };
        let stacked = |column: &str| {
            let is = |verdict: Verdict| col(column).eq(lit(verdict.code()));
            is(Verdict::StackedPrev).or(is(Verdict::StackedPull))
        };
        Known::Value(match word {
            "waiting" | "lost" | "lost CPU capacity" => Self::of_ledger("waiting"),
            "withheld" => Self {
                // Tasks have no stamp: what is said of one is said of the whole window.
                stamp: lit(scope.facts.config.window.from_ns),
                size: Some(col("withheld_ns")),
                ..Self::new(Table::Tasks, col("withheld").gt(lit(0)))
            }
            .noting("tasks of which some time was withheld"),
            "withdrawn" => Self::of_ledger("unknown"),
            "cold cache" => Self::new(Table::Wakeups, crosses("prev_chosen"))
                .noting("wakeups whose previous and chosen CPU have different LLCs"),
            "transfer" => {
                let within = crosses("prev_chosen").not();
                Self::new(Table::Wakeups, crosses("waker_chosen").and(within))
                    .noting("wakeups from another LLC to the wakee's own")
            }
            "xLLC" => Self::new(Table::Wakeups, crosses("waker_chosen"))
                .noting("wakeups whose waker and chosen CPU have different LLCs"),
            "bounces" => Self::of_bounces(answer),
            "unit" => match scope.facts.config.work {
                Some(Work::Marker(_) | Work::Event(_)) => {
                    Self::new(Table::Units, lit(true)).noting("marks of units")
                }
                Some(_) => {
                    return Known::unknown("nothing in the trace marks a unit of this kind");
                }
                None => {
                    return Known::unknown("no unit of work is named; name one with --work");
                }
            },
            "gain at most" | "mostly" => {
                return Known::unknown(
                    "it is said of a whole part of the critical path; --explain transit, wait or running shows what is in one",
                );
            }
            "moved" => Self::new(Table::Migrations, lit(true)),
            "stacked" => Self {
                any: stacked("verdict_any"),
                ..Self::new(Table::Waits, stacked("verdict_seen"))
            }
            .noting("waits after such wakeups"),
            _ => Self::new(Table::Flips, col(KERNEL).gt(lit(Decision::Affine.code())))
                .noting("counted wakeups that are open"),
        })
    }

    fn of_bounces(answer: &Answer) -> Self {
        let worst = answer.flips.bounces.value().map(|of| of.worst.as_slice());
        let bounces = worst.unwrap_or_default().iter();
        let out = bounces.flat_map(|task| task.examples.iter().map(|bounce| bounce.out_ns));
        Self::new(Table::Migrations, among(col("ts_ns"), out))
            .noting("the moves away of the first 3 bounces of each of the tasks that --json names as the worst")
    }

    /// Waits of which the two readings say different things.
    fn of_reading(scope: &Scope) -> Known<Self> {
        let asked = &scope.facts.config.readings;
        if let [one] = asked.as_slice() {
            let one: &Reading = one;
            return Known::unknown(format!(
                "only the reading `{}` is computed; --affinity both shows where the two differ",
                one.as_str()
            ));
        }
        let differs = |seen: &str, any: &str| col(seen).neq(col(any));
        let filter =
            differs("verdict_seen", "verdict_any").or(differs("lost_seen_ns", "lost_any_ns"));
        Known::Value(
            Self::new(Table::Waits, filter).noting("waits of which the two readings differ"),
        )
    }

    fn of_role(word: &str, answer: &Answer, names: &Names) -> Known<Self> {
        let roles = match &answer.flips.decisions {
            Known::Value(flips) => &flips.roles,
            Known::Unknown { unknown } => return Known::unknown(unknown.clone()),
        };
        let of = |facts: &[crate::attribute::answer::RoleFacts]| {
            let tasks = facts.iter().flat_map(|of| numbers(names, &of.name, of.pid));
            members(&tasks.collect::<Vec<u32>>())
        };
        Known::Value(match word {
            "1:N" => Self::new(Table::Wakeups, is_member("waker", of(&roles.one_to_n)))
                .noting("wakeups by tasks of this role"),
            "N:1" => Self::new(Table::Wakeups, is_member("wakee", of(&roles.n_to_one)))
                .noting("wakeups of tasks of this role"),
            _ => {
                let pairs = roles.ping_pong.iter().map(|pair| {
                    let one = of_task(names, &pair.name, pair.pid);
                    let other = of_task(names, &pair.other_name, pair.other_pid);
                    woken(&one, &other).or(woken(&other, &one))
                });
                Self::new(Table::Wakeups, any_of(pairs))
                    .noting("wakeups of one such task by the other")
            }
        })
    }

    fn of_pairs(word: &str, answer: &Answer, names: &Names) -> Self {
        let pairs = answer
            .pairs
            .iter()
            .filter(|pair| pair.stack_or_spread == word);
        let pairs = pairs.map(|pair| {
            let waker = of_task(names, &pair.waker, pair.waker_pid);
            woken(&waker, &of_task(names, &pair.wakee, pair.wakee_pid))
        });
        Self::new(Table::Wakeups, any_of(pairs))
            .noting("wakeups of the worst pairs of which this is said")
    }

    /// Interrupts as the report counts them: sends, or what was handled where no sends are recorded.
    fn of_kind(filter: Expr, sends: bool) -> Self {
        let (road, note) = match sends {
            true => (
                IpiRoad::Interrupt,
                "what polling CPUs were spared, and entries of their lists, are not among them",
            ),
            false => (
                IpiRoad::Handler,
                "by their handlers: sends are not recorded",
            ),
        };
        Self {
            among: Some(col("road").eq(lit(road.code()))),
            ..Self::new(Table::Ipis, filter)
        }
        .noting(note)
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

/// The numbers of the tasks of a name and pid: several if the pid was used again.
fn numbers<'a>(names: &'a Names, name: &'a str, pid: i32) -> impl Iterator<Item = u32> + 'a {
    let named = names
        .iter()
        .filter(move |(_, (of, its))| of == name && *its == pid);
    named.filter_map(|(task, _)| u32::try_from(*task).ok())
}

fn of_task(names: &Names, name: &str, pid: i32) -> Arc<[bool]> {
    members(&numbers(names, name, pid).collect::<Vec<u32>>())
}

fn woken(waker: &Arc<[bool]>, wakee: &Arc<[bool]>) -> Expr {
    is_member("waker", waker.clone()).and(is_member("wakee", wakee.clone()))
}

fn any_of(of: impl Iterator<Item = Expr>) -> Expr {
    of.reduce(Expr::or).unwrap_or_else(|| lit(false))
}

/// Whether a stamp is one of a few.
fn among(stamp: Expr, of: impl Iterator<Item = i64>) -> Expr {
    any_of(of.map(|ns| stamp.clone().eq(lit(ns))))
}
