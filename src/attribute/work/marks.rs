//! Units that events and markers mark.
//!
//! Markers in the form `PREFIX unit N` are readings of a counter: the units between two readings are the difference.
//! All of them are taken for one counter, unless two tasks start one at a time or its number goes back: then each task
//! has a counter of its own, if each was seen to start one.

use std::collections::BTreeMap;

use polars::prelude::PolarsResult;

use super::{Done, LOST, Span, credit, lost_within, most_first};
use crate::attribute::answer::Known;
use crate::attribute::blocks::{NO_COUNT, NO_NUMBER};
use crate::attribute::scope::Scope;
use crate::replay::units::Work;
use crate::replay::words::Mark;
use crate::tables::Table;
use crate::wording::noun;

const COLUMNS: [&str; 5] = ["ts_ns", "mark", "done", "task", "in_window"];

/// One mark.
#[derive(Debug, Clone, Copy)]
struct Row {
    ts_ns: i64,
    /// Code of a [`Mark`].
    mark: u8,
    done: Option<u64>,
    task: Option<u32>,
    in_window: bool,
}

/// What all marks show, each read as each form.
#[derive(Debug, Default)]
struct Found {
    bare: Bare,
    /// All readings as those of one counter.
    one: Counter,
    /// The readings of each task as those of its own.
    each: BTreeMap<Option<u32>, Counter>,
    /// There are readings.
    counts: bool,
}

/// Every mark is a unit's end, and the next one's start.
#[derive(Debug, Default)]
struct Bare {
    marks: u64,
    first_ns: Option<i64>,
    last: Option<(i64, Option<u32>)>,
    by_task: BTreeMap<u32, u64>,
}

/// A counter that markers read.
#[derive(Debug, Default)]
struct Counter {
    /// Its last reading in the trace, and by whom; 0 as it starts.
    last: Option<(u64, Option<u32>)>,
    /// It started and has not ended.
    runs: bool,
    /// There are readings that no start precedes.
    unstarted: bool,
    /// The marks contradict that it is one counter.
    contradicts: bool,
    /// The last reading in the window, from which on units count.
    base: Option<(u64, i64)>,
    units: u64,
    first_ns: Option<i64>,
    end: Option<(i64, Option<u32>)>,
    /// The most units between two readings.
    step: u64,
    /// Ends in the window.
    ends: u64,
    by_task: BTreeMap<u32, u64>,
}

/// Counts the units that marks in the window show.
pub fn count(scope: &Scope, work: &Work) -> PolarsResult<Known<Done>> {
    let mut found = Found::default();
    let (mut stamps, mut marks, mut done) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tasks, mut windows) = (Vec::new(), Vec::new());
    scope.every(Table::Units).in_order(&COLUMNS, |block| {
        let rows = block.times("ts_ns", &mut stamps)?.iter();
        let rows = rows.zip(block.codes("mark", &mut marks)?);
        let rows = rows.zip(block.counts("done", &mut done)?);
        let rows = rows.zip(block.numbers("task", &mut tasks)?);
        for ((((ts, mark), done), task), window) in
            rows.zip(block.codes("in_window", &mut windows)?)
        {
            found.take(&Row {
                ts_ns: *ts,
                mark: *mark,
                done: Some(*done).filter(|done| *done != NO_COUNT),
                task: Some(*task).filter(|task| *task != NO_NUMBER),
                in_window: *window == 1,
            });
        }
        Ok(())
    })?;
    let what = match work {
        Work::Marker(prefix) => format!("marker that begins with `{prefix}`"),
        work => work.to_string(),
    };
    match found.counts {
        true => Ok(found.counters(&what)),
        false => found.bare.done(scope, &what),
    }
}

impl Found {
    fn take(&mut self, row: &Row) {
        self.bare.take(row);
        self.counts |= row.done.is_some();
        self.one.take(row);
        self.each.entry(row.task).or_default().take(row);
    }

    fn counters(self, what: &str) -> Known<Done> {
        let mut notes = Vec::new();
        let mut counters = vec![self.one];
        if counters.iter().any(|one| one.contradicts) {
            counters = self.each.into_values().filter(Counter::is_read).collect();
            if counters.iter().any(|own| own.contradicts || own.unstarted) {
                return Known::unknown(
                    "the numbers of `PREFIX unit N` are not those of one counter: they go back with no `PREFIX start` between; give each counter a prefix of its own",
                );
            }
            let several = counters.len();
            notes.push(format!(
                "{several} tasks count at a time, each for itself: their units are added."
            ));
        }
        let end = counters.iter().filter_map(|counter| counter.end).max();
        let start = counters.iter().filter_map(|counter| counter.first_ns).min();
        let units = counters.iter().map(|counter| counter.units).sum::<u64>();
        let (Some(start_ns), Some((end_ns, last_task))) = (start, end) else {
            return Known::unknown(format!("no two readings of a {what} lie in the window"));
        };
        if units == 0 || start_ns >= end_ns {
            return Known::unknown(format!(
                "between the first and the last {what} in the window no unit was counted"
            ));
        }
        let missed_at_most = counters.iter().map(Counter::missed_at_most).sum();
        if missed_at_most > 0 {
            notes.push(format!(
                "Between the last count and the end up to {missed_at_most} more {} may have been done, which no marker tells: a workload that marks its last unit has none.",
                noun(missed_at_most, "unit")
            ));
        }
        let by_task = counters.into_iter().flat_map(|counter| counter.by_task);
        let mut summed = BTreeMap::new();
        by_task.for_each(|(task, units)| credit(&mut summed, Some(task), units));
        Known::Value(Done {
            units,
            span: Span {
                start_ns,
                end_ns,
                last_task,
            },
            counted: (start_ns, end_ns),
            by_task: most_first(summed),
            members: Vec::new(),
            missed_at_most,
            notes,
        })
    }
}

impl Bare {
    fn take(&mut self, row: &Row) {
        if !row.in_window {
            return;
        }
        self.marks += 1;
        self.last = Some((row.ts_ns, row.task));
        match self.first_ns {
            None => self.first_ns = Some(row.ts_ns),
            Some(_) => credit(&mut self.by_task, row.task, 1),
        }
    }

    fn done(self, scope: &Scope, what: &str) -> PolarsResult<Known<Done>> {
        let (Some(start_ns), Some((end_ns, last_task))) = (self.first_ns, self.last) else {
            return Ok(Known::unknown(format!("no {what} lies in the window")));
        };
        if start_ns >= end_ns {
            let marks = self.marks;
            return Ok(Known::unknown(format!(
                "the window holds {marks} of {what}, all at one time: units have no duration"
            )));
        }
        let lost = lost_within(scope, (start_ns, end_ns))?;
        Ok(Known::Value(Done {
            units: self.marks.saturating_sub(1),
            span: Span {
                start_ns,
                end_ns,
                last_task,
            },
            counted: (start_ns, end_ns),
            by_task: most_first(self.by_task),
            members: Vec::new(),
            missed_at_most: 0,
            notes: lost.then(|| LOST.to_owned()).into_iter().collect(),
        }))
    }
}

impl Counter {
    fn take(&mut self, row: &Row) {
        if row.mark == Mark::Start.code() {
            self.start(row);
        } else if row.mark == Mark::End.code() {
            self.end(row);
        } else if let Some(done) = row.done {
            self.read(row, done);
        }
    }

    /// Whether it is a counter at all.
    fn is_read(&self) -> bool {
        self.runs || self.unstarted || self.step > 0 || self.ends > 0 || self.base.is_some()
    }

    fn start(&mut self, row: &Row) {
        let by_another = |(_, by): (u64, Option<u32>)| by != row.task;
        self.contradicts |= self.runs && self.last.is_some_and(by_another);
        self.runs = true;
        self.last = Some((0, row.task));
        self.base = row.in_window.then_some((0, row.ts_ns));
    }

    fn read(&mut self, row: &Row, done: u64) {
        match self.last {
            None => self.unstarted = true,
            Some((last, by)) => {
                let again = done == last && done > 0 && by != row.task;
                self.contradicts |= done < last || again;
                self.step = self.step.max(done.saturating_sub(last));
            }
        }
        self.runs = true;
        self.last = Some((done, row.task));
        if !row.in_window {
            self.base = None;
            return;
        }
        if let Some((base, since)) = self.base {
            let more = done.saturating_sub(base);
            self.units = self.units.saturating_add(more);
            credit(&mut self.by_task, row.task, more);
            self.close(row, since);
        }
        self.base = Some((done, row.ts_ns));
    }

    fn end(&mut self, row: &Row) {
        if let Some((_, since)) = self.base.take().filter(|_| row.in_window) {
            self.ends += 1;
            self.close(row, since);
        }
        self.runs = false;
        self.last = None;
    }

    /// The span goes up to here.
    fn close(&mut self, row: &Row, since: i64) {
        self.first_ns.get_or_insert(since);
        self.end = Some((row.ts_ns, row.task));
    }

    /// After the last reading before an end, fewer units than one step were done, if the readings are regular.
    fn missed_at_most(&self) -> u64 {
        self.ends.saturating_mul(self.step.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TIME TASK start|unit N|end [out]`, a line each; `out` is outside the window.
    fn found(text: &str) -> Found {
        let mut found = Found::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let mark = Mark::ALL.iter().find(|mark| mark.as_str() == words[2]);
            let done = (words[2] == "unit").then(|| words[3].parse().unwrap());
            found.take(&Row {
                ts_ns: words[0].parse().unwrap(),
                mark: mark.unwrap().code(),
                done,
                task: Some(words[1].parse().unwrap()),
                in_window: !line.ends_with("out"),
            });
        }
        assert!(found.counts);
        found
    }

    fn done(text: &str) -> Done {
        match found(text).counters("marker") {
            Known::Value(done) => done,
            Known::Unknown { unknown } => panic!("{unknown}"),
        }
    }

    fn unknown(text: &str) -> String {
        match found(text).counters("marker") {
            Known::Value(done) => panic!("{} units", done.units),
            Known::Unknown { unknown } => unknown,
        }
    }

    fn figures(done: &Done) -> (u64, i64, i64, u64) {
        let span = &done.span;
        (done.units, span.start_ns, span.end_ns, done.missed_at_most)
    }

    const RUN: &str = "
        10 1 start
        20 1 unit 100
        30 1 unit 200
        45 1 end";

    #[test]
    fn a_run_goes_from_start_to_end() {
        let run = done(RUN);
        assert_eq!(figures(&run), (200, 10, 45, 99));
        assert_eq!((run.span.last_task, run.by_task), (Some(1), vec![(1, 200)]));
        assert_eq!(run.notes.len(), 1);
        // Not ended: up to the last count, and nothing is missed.
        assert_eq!(
            figures(&done("10 1 start\n20 1 unit 100\n30 1 unit 200")),
            (200, 10, 30, 0)
        );
    }

    /// Of the same run parts: what begins before the window does not count.
    #[test]
    fn a_window_counts_from_its_first_count() {
        let late = done("10 1 start out\n20 1 unit 100\n30 1 unit 200\n45 1 end");
        assert_eq!(figures(&late), (100, 20, 45, 99));
        let early = done("10 1 start\n20 1 unit 100\n30 1 unit 200 out\n45 1 end out");
        assert_eq!(figures(&early), (100, 10, 20, 0));
        // The count at 30 is the last of one window and the first of no other: the hundred across is in neither.
        let whole = done(RUN).units;
        let later =
            done("10 1 start out\n20 1 unit 100 out\n30 1 unit 200\n40 1 unit 250\n45 1 end");
        assert_eq!((later.units, early.units, whole), (50, 100, 200));
        let none = unknown("10 1 start out\n20 1 unit 100 out\n30 1 unit 200\n45 1 end out");
        assert!(none.contains("no two readings"), "{none}");
    }

    #[test]
    fn runs_one_after_the_other_are_added() {
        let runs = format!("{RUN}\n50 2 start\n60 2 unit 100\n61 2 end");
        let runs = done(&runs);
        assert_eq!(figures(&runs), (300, 10, 61, 198));
        assert_eq!(runs.by_task, vec![(1, 200), (2, 100)]);
        // Without its start it counts from its first count.
        let runs = format!("{RUN}\n60 2 unit 100\n70 2 unit 150");
        assert_eq!(figures(&done(&runs)), (250, 10, 70, 99));
    }

    #[test]
    fn counters_at_a_time_are_told_apart() {
        let two = done(
            "10 1 start\n11 2 start\n20 1 unit 100\n21 2 unit 100\n30 1 unit 200\n33 2 unit 200\n40 1 end\n44 2 end",
        );
        assert_eq!(figures(&two), (400, 10, 44, 198));
        assert_eq!(two.by_task, vec![(1, 200), (2, 200)]);
        assert!(two.notes[0].contains("2 tasks count"), "{:?}", two.notes);
        // A start that nobody ended, and another task's.
        let crashed = done("10 1 start\n20 1 unit 100\n30 2 start\n40 2 unit 50\n41 2 end");
        assert_eq!(crashed.units, 150);
    }

    /// One counter whose numbers several tasks write.
    #[test]
    fn a_shared_counter_is_one() {
        let shared = done("10 1 start\n20 2 unit 100\n30 3 unit 200\n40 2 unit 300\n41 1 end");
        assert_eq!(figures(&shared), (300, 10, 41, 99));
        assert_eq!(shared.by_task, vec![(2, 200), (3, 100)]);
    }

    #[test]
    fn contradictions_are_not_summed() {
        for text in [
            // Back without a start.
            "10 1 unit 100\n20 1 unit 50\n30 1 unit 150",
            "10 1 start\n20 1 unit 100\n30 1 unit 50",
            // Two tasks whose starts were not seen.
            "10 1 unit 100\n11 2 unit 100\n20 1 unit 200\n21 2 unit 200",
            // A shared counter, written out of order.
            "10 1 start\n20 2 unit 101\n21 3 unit 100\n30 2 unit 201\n31 3 unit 200",
        ] {
            let why = unknown(text);
            assert!(why.contains("not those of one counter"), "{why}");
        }
    }

    #[test]
    fn nothing_counted_is_not_zero() {
        assert!(unknown("10 1 start\n20 1 end\n30 1 unit 5 out").contains("no unit was counted"));
        assert!(unknown("10 1 unit 5\n10 1 unit 6").contains("no unit was counted"));
    }
}
