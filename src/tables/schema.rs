//! Every table: its columns' names, types, units and meaning, and from which field of a row each is filled.

use std::num::NonZeroU64;

use polars::prelude::*;

use super::columns::{
    Address, Bool, Bound, Build, Built, ColumnDef, Cpu, Event, I32, I64, Stamp, Task, Text, U8,
    U16, U32, U64, Words, cpu,
};
use crate::replay::rows::{
    CpuRow, EventRow, FlipRow, FlushRow, IdleRow, IpiRow, LostRow, MigrationRow, SecondRow,
    SliceRow, TaskRow, TraceRow, UnitRow, WaitRow, WakeupRow,
};
use crate::replay::words::{
    Class, Confidence, Decision, FlushReason, IpiFate, IpiKind, IpiRoad, LedgerRow, Left, Mark,
    MigrationCause, MigrationKind, Origin, Path, Reading, Verdict, Waker,
};
use crate::topology::Distance;
use ttwu_parsers::event::escape;
use ttwu_parsers::print_fmt::PrevState;

/// Declares the tables. `of` names the enumeration behind a code, `detail` marks what only exports hold.
macro_rules! tables {
    ($(
        #[doc = $doc:literal]
        $table:ident = $name:literal, $builder:ident($row:ident: $row_type:ty) by $key:expr, $order:literal {
            $($column:ident: $type:ident $(of $words:ident)? $([$detail:ident])? = $value:expr, $about:literal;)+
        }
    )+) => {
        /// A table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table { $(#[doc = $doc] $table,)+ }

        impl Table {
            /// Every table.
            pub const ALL: &'static [Table] = &[$(Table::$table,)+];

            /// The name it has in exports and queries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Table::$table => $name,)+ }
            }

            /// What its rows are: one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Table::$table => $doc.trim_ascii(),)+ }
            }

            /// What an exported table is sorted by.
            pub const fn order(self) -> &'static str {
                match self { $(Table::$table => $order,)+ }
            }

            /// Its columns, in order.
            pub const fn columns(self) -> &'static [ColumnDef] {
                match self {
                    $(Table::$table => &[$(ColumnDef {
                        name: stringify!($column),
                        column_type: <$type as Build>::TYPE,
                        detail: is_detail!($($detail)?),
                        words: words_of!($($words)?),
                        doc: $about,
                    },)+],)+
                }
            }
        }

        $(
            /// The next batch of its table.
            pub(super) struct $builder {
                rows: usize,
                full: usize,
                details: bool,
                $($column: $type,)+
            }

            impl Batch for $builder {
                type Row = $row_type;
                const TABLE: Table = Table::$table;

                fn key($row: &Self::Row) -> i64 {
                    $key
                }

                fn new(full: usize, details: bool) -> Self {
                    let capacity = |detail: bool| if details || !detail { full } else { 0 };
                    Self {
                        rows: 0,
                        full,
                        details,
                        $($column: $type::new(stringify!($column), capacity(is_detail!($($detail)?))),)+
                    }
                }

                fn room(&self) -> usize {
                    self.full.saturating_sub(self.rows)
                }

                fn extend(&mut self, rows: &[$row_type]) {
                    for rows in rows.chunks(BLOCK) {
                        $(if self.details || !is_detail!($($detail)?) {
                            self.$column.extend(rows, |$row| $value);
                        })+
                    }
                    self.rows += rows.len();
                }

                fn extend_from(&mut self, rows: &[&$row_type]) {
                    for rows in rows.chunks(BLOCK) {
                        $(if self.details || !is_detail!($($detail)?) {
                            self.$column.extend(rows, |$row: &&$row_type| $value);
                        })+
                    }
                    self.rows += rows.len();
                }

                fn take(&mut self) -> PolarsResult<Filled> {
                    let batch = std::mem::replace(self, Self::new(self.full, self.details));
                    let mut columns = Vec::new();
                    $(if batch.details || !is_detail!($($detail)?) {
                        columns.push(batch.$column.finish());
                    })+
                    Filled::new(batch.rows, columns)
                }
            }
        )+
    };
}

/// A batch of a table under construction.
pub(super) trait Batch {
    type Row: Clone;
    const TABLE: Table;

    /// Whether rows come in that order.
    const IN_ORDER: bool = false;

    /// What exported rows are sorted by.
    fn key(row: &Self::Row) -> i64;

    /// A batch is full at `full` rows; `details` says whether detail columns are built.
    fn new(full: usize, details: bool) -> Self;

    /// How many more rows it takes.
    fn room(&self) -> usize;

    /// Appends rows, column by column.
    fn extend(&mut self, rows: &[Self::Row]);

    /// The same of rows that do not lie side by side.
    fn extend_from(&mut self, rows: &[&Self::Row]);

    /// Takes the rows, and starts a new batch.
    fn take(&mut self) -> PolarsResult<Filled>;
}

/// The rows of a full batch, in columns as narrow as their values allow.
#[derive(Debug)]
pub struct Filled {
    pub(super) rows: DataFrame,
    /// What is to be added to the values of each column.
    pub(super) bases: Vec<i64>,
    /// The memory they take.
    pub(super) bytes: usize,
}

impl Filled {
    fn new(rows: usize, columns: Vec<Built>) -> PolarsResult<Self> {
        Ok(Self {
            bases: columns.iter().map(|built| built.base).collect(),
            bytes: columns.iter().map(|built| built.bytes).sum(),
            rows: DataFrame::new(
                rows,
                columns.into_iter().map(|built| built.column).collect(),
            )?,
        })
    }
}

/// Rows that are gone through column by column: so few that they stay in the processor's nearest cache meanwhile.
pub(super) const BLOCK: usize = 64;

macro_rules! is_detail {
    () => {
        false
    };
    (detail) => {
        true
    };
}

macro_rules! words_of {
    () => {
        None
    };
    ($words:ident) => {
        Some(Words {
            of: stringify!($words),
            list: || $words::ALL.iter().map(|word| word.as_str()).collect(),
        })
    };
}

const SEEN: Reading = Reading::Seen;
const ANY: Reading = Reading::Any;

tables! {
    /// One row for each wakeup.
    Wakeups = "wakeups", WakeupBatch(row: WakeupRow) by row.waking_ns.or(row.wakeup_ns).or(row.switch_in_ns).unwrap_or(i64::MIN), "waking_ns, or wakeup_ns where that is null" {
        waking_ns: Stamp = row.waking_ns, "Stamp of sched_waking: the waking begins; null for a new task, or where the trace lacks that event.";
        wakeup_ns: Stamp = row.wakeup_ns, "Stamp of sched_wakeup (of a new task: sched_wakeup_new): the wakee is on the chosen CPU's runqueue; null where the trace lacks that event.";
        switch_in_ns: Stamp = row.switch_in_ns, "When the wakee was switched in; null if it was not.";
        waker: Task = row.waker.map(|task| task.0), "The waking task; null if an interrupt woke, or if unknown.";
        wakee: Task = row.wakee.0, "The woken task.";
        waker_cpu: Cpu = cpu(row.waker_cpu), "The CPU of the waker; null if unknown.";
        prev_cpu: Cpu = cpu(row.prev_cpu), "The CPU on which the wakee last was; null if unknown.";
        chosen_cpu: Cpu = cpu(row.chosen_cpu), "The CPU on which the wakee was enqueued; null if unknown.";
        class: U8 of Class = row.class.code(), "What kind of wakeup it was.";
        path: U8 of Path = row.path.code(), "The road by which the wakeup reached the chosen CPU.";
        context: U8 of Waker = row.context.code(), "The context in which the waker ran.";
        waker_chosen: U8 of Distance = row.waker_chosen as u8, "The distance from waker to chosen CPU.";
        prev_chosen: U8 of Distance = row.prev_chosen as u8, "The distance from previous to chosen CPU.";
        waker_prev: U8 of Distance = row.waker_prev as u8, "The distance from waker to previous CPU.";
        cross_llc: Bool = row.cross_llc, "Whether waker and chosen CPU have different LLCs; null if unknown.";
        latency_ns: I64 = row.latency_ns, "Waking to switch-in: the whole delay; null if one of them is missing.";
        queue_ns: I64 = row.queue_ns, "Wakeup to switch-in: the time on the runqueue; null if one of them is missing.";
        waker_cost_ns: I64 = row.waker_cost_ns, "What the waker paid: waking to enqueue where the waker enqueued, else waking to the last event of handing it over (entry in the wake list, interrupt); null if unknown.";
        selection: Bool = row.selection, "Whether the kernel chose among CPUs for the wakee (`select_task_rq`), and it is of the fair class; null if not known.";
        chosen_idle: Bool = row.chosen_idle, "Whether the chosen CPU was idle at the choice; null without a choice.";
        idle_before_ns: I64 = row.idle_before_ns, "How long the chosen CPU had run nothing at the choice; null unless it was idle, or if not seen since when.";
        sibling_busy: Bool = row.sibling_busy, "Whether an SMT sibling of the chosen CPU ran a task at the choice; null if not known.";
        smt_shared: Bool = row.smt_shared, "Whether a thread of a busy core was chosen while a whole core was idle.";
        verdict_seen: U8 of Verdict = row.verdict[SEEN].map(Verdict::code), "Why the wakee then waited, affinity as seen; null if no wait was seen.";
        verdict_any: U8 of Verdict = row.verdict[ANY].map(Verdict::code), "Why the wakee then waited, any CPU allowed; null if no wait was seen.";
        wait_ns: I64 = row.wait_ns, "How long the wakee then waited, as far as that lies in the window; null if no wait was seen.";
        lost_seen_ns: I64 = row.lost_ns[SEEN], "The loss: idle CPU time matched to that wait, affinity as seen.";
        lost_any_ns: I64 = row.lost_ns[ANY], "The loss: idle CPU time matched to that wait, any CPU allowed.";
        wakee_run_ns: I64 = row.wakee_run_ns, "The wakee's on-CPU time from it until it blocked; null if not seen.";
        wakee_cycles: I64 = count(row.wakee_cycles), "Processor cycles of that time; null where the trace does not count them.";
        wakee_instructions: I64 = count(row.wakee_instructions), "Instructions of that time; null where the trace does not count them.";
        overlap_ns: I64 = row.overlap_ns, "How long waker and wakee could have run side by side: the shorter of both their on-CPU times from it until they blocked; null if not known.";
        overlap_censored: Bool = row.overlap_censored, "Whether overlap_ns is missing because the waker had too many wakees to watch.";
        probed_prev_cpu: Cpu [detail] = cpu(row.probed.map(|p| p.0)), "The previous CPU as the kernel itself said it; null without probes.";
        probed_chosen_cpu: Cpu [detail] = cpu(row.probed.map(|p| p.1)), "The chosen CPU as the kernel itself said it; null without probes.";
        sync: Bool [detail] = row.sync, "Whether the waker said that it is about to sleep (WF_SYNC); null without probes.";
        flips: U32 [detail] = row.flips, "The wakee's `wakee_flips` as its CPU was chosen, as the kernel itself said it; null without probes.";
        in_window: Bool = row.in_window, "Whether the waking lies in the window: counts count only these.";
    }

    /// One row for each interval in which a task ran.
    Slices = "slices", SliceBatch(row: SliceRow) by row.start_ns, "start_ns" {
        task: Task = row.task.0, "The task.";
        cpu: Cpu = cpu(row.cpu), "The CPU it ran on.";
        start_ns: Stamp = row.start_ns, "Stamp of the switch-in.";
        end_ns: Stamp = row.end_ns, "Stamp of the switch-out.";
        end_state: Text [detail] = row.end_state.map(state_word), "Its state at the switch-out as sched_switch prints it: `R` runnable, `R+` preempted, `S` asleep, `D` in uninterruptible sleep, `X` and `Z` ended, `T` and `t` stopped, `I` idle kernel thread, `P` parked, `?` not told; null at the trace's end or where events are missing.";
        left_as: U8 of Left = row.end_state.map(|state| Left::of(state).code()), "How it left the CPU; null where end_state is.";
    }

    /// One row for each interval in which a task was runnable and not running.
    Waits = "waits", WaitBatch(row: WaitRow) by row.start_ns, "start_ns" {
        task: Task = row.task.0, "The waiting task.";
        start_ns: Stamp = row.start_ns, "When it was put on a runqueue, or taken off its CPU while runnable.";
        end_ns: Stamp = row.end_ns, "When it was switched in; null if it was not.";
        first_cpu: Cpu [detail] = cpu(row.first_cpu), "The CPU it was queued on first.";
        last_cpu: Cpu = cpu(row.last_cpu), "The CPU it was queued on last.";
        moves: U32 [detail] = row.moves, "How often it was moved while it waited.";
        origin: U8 of Origin = row.origin.code(), "How it came to wait.";
        verdict_seen: U8 of Verdict = row.verdict[SEEN].code(), "Why it waited, affinity as seen.";
        verdict_any: U8 of Verdict = row.verdict[ANY].code(), "Why it waited, any CPU allowed.";
        wait_ns: I64 = row.wait_ns, "The part of the wait inside the window.";
        lost_seen_ns: I64 = row.lost_ns[SEEN], "Idle CPU time matched to it, affinity as seen.";
        lost_any_ns: I64 = row.lost_ns[ANY], "Idle CPU time matched to it, any CPU allowed.";
        idle_cpus_seen: U16 [detail] = cpu(row.idle_cpus[SEEN]), "How many CPUs were idle at the choice on which it may run, affinity as seen; null without a choice.";
        idle_cpus_any: U16 [detail] = cpu(row.idle_cpus[ANY]), "How many CPUs were idle at the choice, any CPU allowed; null without a choice.";
        llc_busy_percent: U8 [detail] = row.llc_busy_percent, "The share of CPU time in which the chosen LLC's CPUs ran tasks, in the 4 ms before; null if unknown.";
        waker: Task = row.waker.map(|task| task.0), "The task whose wakeup began the wait, or began the run that was interrupted by it; null if unknown.";
        in_window: Bool = row.in_window, "Whether its start lies in the window: counts count only these.";
    }

    /// One row for each interval in which a CPU ran nothing.
    Idle = "idle", IdleBatch(row: IdleRow) by row.start_ns, "start_ns" {
        cpu: Cpu = cpu(row.cpu), "The CPU.";
        start_ns: Stamp = row.start_ns, "When it switched to its idle task.";
        end_ns: Stamp = row.end_ns, "When it switched to another, or the trace ended.";
    }

    /// One row for each move of a task between CPUs.
    Migrations = "migrations", MigrationBatch(row: MigrationRow) by row.ts_ns, "ts_ns" {
        ts_ns: Stamp = row.ts_ns, "When it was moved: stamp of sched_migrate_task, or of the event that shows it.";
        task: Task = row.task.0, "The task moved.";
        from_cpu: Cpu = cpu(row.from_cpu), "The CPU it was on.";
        to_cpu: Cpu = cpu(row.to_cpu), "The CPU it went to.";
        distance: U8 of Distance = row.distance as u8, "The distance between the two.";
        kind: U8 of MigrationKind [detail] = row.kind.code(), "The state it was moved in.";
        cause: U8 of MigrationCause = row.cause.code(), "Why it was moved.";
        confidence: U8 of Confidence = row.confidence.code(), "How sure the cause is.";
        by_cpu: Cpu [detail] = cpu(row.by_cpu), "The CPU that moved it.";
        by_task: Task = row.by_task.map(|task| task.0), "The task that ran on the CPU that moved it, and so did the moving unless an interrupt did; null if none or unknown.";
        context: U8 of Waker = row.context.code(), "The context in which it was moved.";
        idle_left_seen: U16 = cpu(row.idle_left.map(|idle| idle[SEEN])), "How many CPUs of the LLC that it left were idle then and allowed to it, affinity as seen; null if it stayed in its LLC.";
        idle_left_any: U16 = cpu(row.idle_left.map(|idle| idle[ANY])), "How many CPUs of the LLC that it left were idle then; null if it stayed in its LLC.";
        run_ns: I64 = row.run_ns, "Its on-CPU time from then until it blocked or was moved again; null if not seen.";
        lost_seen_ns: I64 = row.lost_ns[SEEN], "Idle CPU time matched to its waits in that time, affinity as seen.";
        lost_any_ns: I64 = row.lost_ns[ANY], "Idle CPU time matched to its waits in that time, any CPU allowed.";
        inferred: Bool = row.inferred, "Whether no event of the move was recorded, and it follows from where the task ran next.";
        in_window: Bool = row.in_window, "Whether it lies in the window: counts count only these.";
    }

    /// One row for each interrupt, or other request, of one CPU to one other, with the handler that it started.
    Ipis = "ipis", IpiBatch(row: IpiRow) by row.ts_ns, "ts_ns" {
        ts_ns: Stamp = row.ts_ns, "Stamp of the send, or of the handler's entry where no send is recorded.";
        cpu: Cpu = cpu(row.cpu), "The sender; null where no send is recorded.";
        target_cpu: Cpu = cpu(row.target_cpu), "The CPU that was asked.";
        road: U8 of IpiRoad = row.road.code(), "How it was asked. A function that was queued and the interrupt that was sent for it are a row each.";
        kind: U8 of IpiKind = row.kind.code(), "What was wanted.";
        fate: U8 of IpiFate = row.fate.code(), "What became of it.";
        distance: U8 of Distance = row.distance as u8, "The distance from sender to target.";
        task: Task = row.task.map(|task| task.0), "The task that sent it; null if none or unknown.";
        latency_ns: I64 = row.latency_ns, "Send to handler's entry; null if one of them is not known.";
        entry_ns: Stamp = row.entry_ns(), "When that handler was entered; null like handler_ns.";
        handler_ns: I64 = row.handler_ns, "Time in the handler that it started, without those inside; null if it started none, or unknown.";
        interrupted: Task = row.interrupted.map(|task| task.0), "The task that the handler interrupted; null if none or unknown.";
        on_idle: Bool = row.on_idle, "Whether the handler ran while the CPU ran nothing; null if unknown.";
        wakeups: U32 = row.wakeups, "Tasks that the handler enqueued.";
        callback: Address = row.callback, "The kernel's function that was called, or its address where the trace has no symbols; null for none.";
        callsite: Address = row.callsite, "The function that sent it, likewise; null if not recorded.";
        in_window: Bool = row.in_window, "Whether ts_ns lies in the window: counts count only these.";
    }

    /// One row for each wakeup that the kernel's `record_wakee` counted, or perhaps counted, in the order of the wakings.
    Flips = "flips", FlipBatch(row: FlipRow) by row.waking_ns, "waking_ns" {
        waking_ns: Stamp [detail] = row.waking_ns, "Stamp of sched_waking.";
        waker: Task = row.waker.map(|task| task.0), "The task that was current, whatever interrupted it; null for an idle task.";
        waker_cpu: Cpu [detail] = cpu(row.waker_cpu), "The CPU of the waker.";
        wakee: Task = row.wakee.0, "The woken task.";
        chosen_cpu: Cpu = cpu(row.chosen_cpu), "The CPU on which the wakee was enqueued; null if unknown.";
        sure: Bool = row.sure, "Whether it certainly counted; if not, the events leave that open. The report counts decisions on these alone.";
        flipped: Bool = row.flipped, "Whether the wakee was another than the waker's last; null if that is not known.";
        factor: U32 [detail] = row.factor, "How many CPUs the LLC of the waker's CPU has (`sd_llc_size`), which `wake_wide()` compares flips with; null if unknown.";
        zero_old: U8 of Decision = decision(row, 0), "What `wake_wide()` decides under the policy zero-old; null where the kernel does not ask it or the LLC is unknown.";
        zero_new: U8 of Decision = decision(row, 1), "What `wake_wide()` decides under the policy zero-new; null where the kernel does not ask it or the LLC is unknown.";
        halve_old: U8 of Decision = decision(row, 2), "What `wake_wide()` decides under the policy halve-old; null where the kernel does not ask it or the LLC is unknown.";
        halve_new: U8 of Decision = decision(row, 3), "What `wake_wide()` decides under the policy halve-new; null where the kernel does not ask it or the LLC is unknown.";
        loop_old: U8 of Decision = decision(row, 4), "What `wake_wide()` decides under the policy loop-old; null where the kernel does not ask it or the LLC is unknown.";
        loop_new: U8 of Decision = decision(row, 5), "What `wake_wide()` decides under the policy loop-new; null where the kernel does not ask it or the LLC is unknown.";
        kernel: U8 of Decision = row.kernel.map(Decision::code), "The same under the policy of the kernel that was recorded; null as above.";
        halved: U8 of Decision = row.halved.map(Decision::code), "What the kernel's policy would decide with half the factor, but at least 1; null as above.";
        doubled: U8 of Decision = row.doubled.map(Decision::code), "What the kernel's policy would decide with twice the factor; null as above.";
        waker_least: U32 = row.waker_flips.lo, "The waker's wakee_flips after it under the kernel's decay, at least.";
        waker_most: Bound = row.waker_flips.hi, "The same, at most; null if nothing bounds it.";
        wakee_least: U32 [detail] = row.wakee_flips.lo, "The wakee's wakee_flips under the kernel's decay, at least.";
        wakee_most: Bound [detail] = row.wakee_flips.hi, "The same, at most; null if nothing bounds it.";
        probed: U32 [detail] = row.probed, "The wakee's `wakee_flips` as the kernel itself said it; null without probes.";
        probe_inside: Bool = row.probe_inside, "Whether the bounds that follow from the value probed before hold this one; null without both.";
        probe_narrow: Bool = row.probe_narrow, "Whether those bounds were at most 1 apart; null without both.";
        free_inside: Bool = row.free_inside, "Whether the bounds that follow from the first value probed hold this one; null without both.";
        wakeups: U32 = row.wakeups, "How many such wakeups the row stands for: 1 in exports.";
        pulled: Bool = row.pulled, "Whether it was put into the waker's LLC although its previous CPU was in another; null if not known.";
        in_window: Bool = row.in_window, "Whether the waking lies in the window: counts count only these.";
    }

    /// One row for each change of mappings that made a CPU flush TLBs: its own, and maybe others'.
    Flushes = "flushes", FlushBatch(row: FlushRow) by row.ts_ns, "ts_ns" {
        ts_ns: Stamp = row.ts_ns, "When the change of mappings began to flush.";
        cpu: Cpu = cpu(row.cpu), "The CPU whose mappings changed: the initiator.";
        task: Task = row.task.map(|task| task.0), "The task that it ran; null if none or unknown.";
        reason: U8 of FlushReason = row.reason.code(), "tlb_flush's reason; `other` where a probe shows the range alone.";
        pages: I64 = row.pages, "Pages flushed, of 4 KiB if others were asked; -1 for the whole TLB; null where a probe shows the range alone.";
        range_pages: I64 = row.range_pages, "Pages of 4 KiB in the range asked for; -1 for all addresses; null without probes.";
        targets: U32 = row.targets, "CPUs that were asked; null where sends are not recorded.";
        interrupts: U32 = row.interrupts, "Those of them that were sent an interrupt.";
        asked_ns: Stamp = row.asked_ns, "When the first other CPU was asked; null where wait_ns is.";
        wait_ns: I64 = row.wait_ns, "How long the initiator waited for the others: first request to last acknowledgement; null unless every one was seen.";
        in_window: Bool = row.in_window, "Whether ts_ns lies in the window: counts count only these.";
    }

    /// One row for each mark of units of work, where `--work` asks for such.
    Units = "units", UnitBatch(row: UnitRow) by row.ts_ns, "ts_ns" {
        ts_ns: Stamp = row.ts_ns, "When the mark was made.";
        mark: U8 of Mark = row.mark.code(), "What the mark says.";
        done: U64 = row.done, "How many units were done so far; null if the mark does not say.";
        task: Task = row.task.map(|task| task.0), "The task that ran there, which made the mark unless an interrupt did; null for the idle task.";
        cpu: Cpu = cpu(row.cpu), "The CPU.";
        in_window: Bool = row.in_window, "Whether it lies in the window: counts count only these.";
    }

    /// One row for each task, with what it did in the window.
    Tasks = "tasks", TaskBatch(row: TaskRow) by i64::from(row.task.0), "task" {
        task: Task = row.task.0, "The task's number in all tables.";
        pid: I32 = row.pid, "Thread id.";
        generation: U32 = row.generation, "0 for the first task seen with that pid, 1 for the next.";
        tgid: I32 = row.tgid, "Process id; null if the trace does not tell.";
        name: Text = Some(row.comm.escaped()), "The last name seen, unprintable bytes escaped.";
        former_names: Text = former_names(row), "Earlier names, separated by ` | `; null if there are none.";
        run_ns: I64 = row.run_ns, "On-CPU time.";
        wait_ns: I64 = row.wait_ns, "Time runnable and not running.";
        lost_seen_ns: I64 = row.lost_ns[SEEN], "Idle CPU time matched to its waits, affinity as seen; also to those that are not in `waits`, as events are missing in them.";
        lost_any_ns: I64 = row.lost_ns[ANY], "The same, any CPU allowed.";
        withheld: U64 = row.withheld, "How often its CPU found nothing runnable although it was queued there.";
        withheld_ns: I64 = row.withheld_ns, "How long, in all.";
        switches: U64 = row.switches, "Switch-ins.";
        migrations: U64 = row.migrations, "Recorded migrations.";
        wakeups_made: U64 = row.wakeups_made, "Wakeups it made.";
        wakeups_received: U64 = row.wakeups_received, "Wakeups it received.";
        seen_cpus: U32 = row.seen_cpus, "CPUs on which it was seen to run or be queued.";
        recorder: Bool = row.recorder, "Whether it is a thread of the recorder.";
    }

    /// One row for each CPU and second of the window: that second's share of both ledgers.
    Ledger = "ledger", SecondBatch(row: SecondRow) by row.start_ns, "start_ns" {
        cpu: Cpu = cpu(row.cpu), "The CPU.";
        start_ns: Stamp = row.start_ns, "The second's start: whole seconds after the window's.";
        end_ns: Stamp = row.end_ns, "The second's end, or the window's; several seconds later where no event came meanwhile.";
        unknown_ns: I64 = second(row, SEEN, LedgerRow::Unknown), "Time in which the CPU's state is unknown.";
        running_ns: I64 = second(row, SEEN, LedgerRow::Running), "Time in which it ran a task.";
        transit_ns: I64 = second(row, SEEN, LedgerRow::Transit), "Time in which it ran nothing and a task was on its way to it.";
        waiting_llc_core_seen_ns: I64 = second(row, SEEN, LedgerRow::WaitingLlcCore), "Idle, its whole core too, matched to a task waiting in its LLC, affinity as seen.";
        waiting_llc_smt_seen_ns: I64 = second(row, SEEN, LedgerRow::WaitingLlcSmt), "Idle beside a busy thread, matched to a task waiting in its LLC, affinity as seen.";
        waiting_machine_seen_ns: I64 = second(row, SEEN, LedgerRow::WaitingMachine), "Idle, matched to a task waiting in another LLC, affinity as seen.";
        idle_seen_ns: I64 = second(row, SEEN, LedgerRow::Idle), "Idle with nothing to match, affinity as seen.";
        waiting_llc_core_any_ns: I64 = second(row, ANY, LedgerRow::WaitingLlcCore), "Idle, its whole core too, matched to a task waiting in its LLC, any CPU allowed.";
        waiting_llc_smt_any_ns: I64 = second(row, ANY, LedgerRow::WaitingLlcSmt), "Idle beside a busy thread, matched to a task waiting in its LLC, any CPU allowed.";
        waiting_machine_any_ns: I64 = second(row, ANY, LedgerRow::WaitingMachine), "Idle, matched to a task waiting in another LLC, any CPU allowed.";
        idle_any_ns: I64 = second(row, ANY, LedgerRow::Idle), "Idle with nothing to match, any CPU allowed.";
    }

    /// One row for each CPU, with its share of both ledgers.
    Cpus = "cpus", CpuBatch(row: CpuRow) by i64::from(row.cpu), "cpu" {
        cpu: Cpu = cpu(row.cpu), "The CPU.";
        llc: U32 = row.llc, "The number of its LLC, counted from 0; null if unknown.";
        core: U32 = row.core, "The number of its core, counted from 0; null if unknown.";
        node: U32 = row.node, "The number of its NUMA node, counted from 0; null if unknown.";
        unknown_ns: I64 = base(row, LedgerRow::Unknown), "Time in which its state is unknown.";
        running_ns: I64 = base(row, LedgerRow::Running), "Time in which it ran a task.";
        transit_ns: I64 = base(row, LedgerRow::Transit), "Time in which it ran nothing and a task was on its way to it.";
        waiting_llc_core_seen_ns: I64 = ledger(row, SEEN, LedgerRow::WaitingLlcCore), "Idle, its whole core too, matched to a task waiting in its LLC, affinity as seen.";
        waiting_llc_smt_seen_ns: I64 = ledger(row, SEEN, LedgerRow::WaitingLlcSmt), "Idle beside a busy thread, matched to a task waiting in its LLC, affinity as seen.";
        waiting_machine_seen_ns: I64 = ledger(row, SEEN, LedgerRow::WaitingMachine), "Idle, matched to a task waiting in another LLC, affinity as seen.";
        idle_seen_ns: I64 = ledger(row, SEEN, LedgerRow::Idle), "Idle with nothing to match, affinity as seen.";
        waiting_llc_core_any_ns: I64 = ledger(row, ANY, LedgerRow::WaitingLlcCore), "Idle, its whole core too, matched to a task waiting in its LLC, any CPU allowed.";
        waiting_llc_smt_any_ns: I64 = ledger(row, ANY, LedgerRow::WaitingLlcSmt), "Idle beside a busy thread, matched to a task waiting in its LLC, any CPU allowed.";
        waiting_machine_any_ns: I64 = ledger(row, ANY, LedgerRow::WaitingMachine), "Idle, matched to a task waiting in another LLC, any CPU allowed.";
        idle_any_ns: I64 = ledger(row, ANY, LedgerRow::Idle), "Idle with nothing to match, any CPU allowed.";
        switches: U64 = row.switches, "Context switches.";
        wakeups_made: U64 = row.wakeups_made, "Wakeups made on it; one whose waker's CPU is not known counts where it was recorded.";
        first_event_ns: Stamp = row.first_event_ns, "Stamp of its first event; null without events.";
        last_event_ns: Stamp = row.last_event_ns, "Stamp of its last event; null without events.";
        lost_events: U64 = row.lost_events, "Events lost, as far as counted.";
    }

    /// One row for each interval in which a CPU's events are missing.
    Lost = "lost", LostBatch(row: LostRow) by row.start_ns, "start_ns" {
        cpu: Cpu = cpu(row.cpu), "The CPU.";
        start_ns: Stamp = row.start_ns, "From here on events are missing.";
        end_ns: Stamp = row.end_ns, "The first event after the gap.";
        events: U64 = row.events, "How many were lost; null if the trace does not say.";
    }

    /// One row: the trace itself, and what was counted of it.
    Traces = "traces", TraceBatch(row: TraceRow) by row.first_event_ns, "first_event_ns" {
        file: Text = Some(row.file.clone()), "The file's name when it was exported.";
        format: Text = Some(row.format.clone()), "Its format, such as `perf.data` or `trace.dat v7 zstd`.";
        recorder: Text = row.recorder.clone(), "The recorder's version as it writes it; null if the trace does not tell.";
        kernel_release: Text = row.kernel_release.clone(), "The recorded kernel's release (`uname -r`); null if the trace does not tell.";
        kernel_model: Text = Some(row.kernel_model.clone()), "The kernel version whose rules the analysis followed, and where it is from.";
        arch: Text = row.arch.clone(), "The machine's architecture (`uname -m`); null if the trace does not tell.";
        clock: Text = Some(row.clock.clone()), "The clock of all stamps, by the kernel's name.";
        first_event_ns: Stamp = row.first_event_ns, "Stamp of the first event.";
        last_event_ns: Stamp = row.last_event_ns, "Stamp of the last event.";
        start_ns: Stamp = row.start_ns, "Start of the window: what lies before is replayed, but not counted.";
        end_ns: Stamp = row.end_ns, "End of the window.";
        events: U64 = row.events, "Events in the whole trace.";
        lost_events: U64 = row.lost_events, "Events lost, as far as counted.";
        cpus: U32 = row.cpus, "CPUs that were counted.";
        llcs: U32 = row.llcs, "LLCs that they share; null if the topology is not known.";
        topology: Text = row.topology.clone(), "The topology, as `--topology` takes it: `llc=0-3;4-7 smt=0-1;2-3 node=0-7`; null if it is not known.";
        topology_from: Text = Some(row.topology_from.clone()), "Where the topology is from.";
        work: Text = row.work.clone(), "What a unit of work is (`--work`), such as `marker wakelab`; null if that was not said.";
        settle_ns: I64 = row.settle_ns, "How long a CPU must have been idle around a choice to count as missed (`--settle`).";
        recorder_counted: Bool = row.recorder_counted, "Whether the recorder's own threads were judged as any other task (`--include-recorder`).";
    }

    /// One row for each recorded event, as the trace has it, in the window or not. Not exported unless asked for.
    Events = "events", EventBatch(row: EventRow) by row.ts_ns, "ts_ns" {
        ts_ns: Stamp = row.ts_ns, "When it was recorded.";
        cpu: Cpu = cpu(row.cpu), "The CPU that recorded it.";
        event: Event = row.type_index, "The event's name, such as `sched:sched_switch`.";
        pid: I32 = row.pid, "The thread that was current there (`common_pid`); 0 for the idle task.";
        context: U8 of Waker = row.context.code(), "What that CPU was doing: running that task, or an interrupt; a soft interrupt is `softirq_unknown`.";
        task_pid: I32 = row.task_pid, "The thread that the event is about: the wakee, the one switched in, moved, forked or ended; null if none.";
        task_name: Text = row.task_name.map(|name| name.escaped()), "Its name by the event, unprintable bytes escaped; null if the event has none.";
        prio: I32 = row.prio, "Its priority, as the kernel counts (120 is nice 0, below 100 is real-time); null if the event has none.";
        target_cpu: Cpu = row.target_cpu.and_then(cpu), "The CPU that the event names: the previous one in sched_waking, the chosen one in sched_wakeup, the new one in sched_migrate_task, the one asked in an interrupt; null if none.";
        from_cpu: Cpu = row.from_cpu.and_then(cpu), "The CPU that a task was moved from; null in other events.";
        prev_name: Text = row.prev_name.map(|name| name.escaped()), "sched_switch: the name of the task switched out.";
        prev_prio: I32 = row.prev_prio, "sched_switch: its priority.";
        prev_state: Text = row.prev_state.map(state_word), "sched_switch: the state in which it left, as the kernel prints it.";
        targets: U32 = row.targets, "How many CPUs were asked in one go; null in other events.";
        callback: Address = row.callback, "The function to be called; null in events without one.";
        callsite: Address = row.callsite, "The function that sent the interrupt; null in events without one.";
        number: I64 = row.number, "The number in the event: of the interrupt or soft interrupt, or the pages of a TLB flush (-1 for all); null in other events.";
        text: Text = row.text.as_ref().map(|text| escape(text)), "The text of a marker, unprintable bytes escaped.";
    }
}

impl Table {
    /// The schema of its frames, with or without the columns that only exports hold.
    pub fn schema(self, details: bool) -> Schema {
        self.columns()
            .iter()
            .filter(|column| details || !column.detail)
            .map(|column| Field::new(column.name.into(), column.column_type.data_type()))
            .collect()
    }
}

/// A counter's value; null beyond what 63 bits hold.
fn count(of: Option<NonZeroU64>) -> Option<i64> {
    i64::try_from(of?.get()).ok()
}

fn decision(row: &FlipRow, policy: usize) -> Option<u8> {
    row.decisions
        .get(policy)
        .copied()
        .flatten()
        .map(Decision::code)
}

fn ledger(row: &CpuRow, reading: Reading, of: LedgerRow) -> Option<i64> {
    row.ledger[reading].get(usize::from(of.code())).copied()
}

fn second(row: &SecondRow, reading: Reading, of: LedgerRow) -> Option<i64> {
    row.ledger[reading].get(usize::from(of.code())).copied()
}

/// A ledger row that affinity has no part in: the same under both readings.
fn base(row: &CpuRow, of: LedgerRow) -> Option<i64> {
    ledger(row, SEEN, of)
}

/// The state as `sched_switch` prints it; its letters are those of the kernel's `task_index_to_char` and before.
fn state_word(state: PrevState) -> &'static str {
    match (state.letter, state.preempted) {
        (b'R', false) => "R",
        (b'R', true) => "R+",
        (b'S', _) => "S",
        (b'D', _) => "D",
        (b'T', _) => "T",
        (b't', _) => "t",
        (b'X' | b'x', _) => "X",
        (b'Z', _) => "Z",
        (b'P', _) => "P",
        (b'I', _) => "I",
        (b'K', _) => "K",
        (b'W', _) => "W",
        (b'N', _) => "N",
        _ => "?",
    }
}

fn former_names(row: &TaskRow) -> Option<String> {
    let names: Vec<String> = row.former_names.iter().map(|name| name.escaped()).collect();
    (!names.is_empty()).then(|| names.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_units_and_sentences() {
        for table in Table::ALL {
            for column in table.columns() {
                let of = format!("{}.{}", table.as_str(), column.name);
                assert!(column.doc.ends_with('.'), "{of}");
                assert!(
                    !column.name.ends_with("_us") && column.doc.len() > 5,
                    "{of}"
                );
                let words = column.words.map_or(0, |words| (words.list)().len());
                assert!(words == 0 || column.column_type == Build8::TYPE, "{of}");
            }
            assert!(table.schema(true).len() >= table.schema(false).len());
        }
    }

    type Build8 = U8;

    /// The code stored for a distance is its place among the words.
    #[test]
    fn distances_are_coded_in_order() {
        let codes = Distance::ALL.map(|distance| distance as u8);
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6]);
    }
}
