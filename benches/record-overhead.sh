#!/usr/bin/env bash
# What recording costs the workload: `ttwu record` against `trace-cmd record` and `perf record`, with the same events.
#
#   benches/record-overhead.sh [PAIRS]     (root; perf and trace-cmd installed; TTWU names the program)
#   BACKENDS="ftrace perf" WORKLOADS="pipe messaging" benches/record-overhead.sh 30
#
# Runs the two recorders in turn, the order changing from pair to pair, and prints for each workload the geometric mean
# of the ratios of its own time, that mean's upper 95 % bound (Student's t, on logarithms) and, in brackets, its 95 %
# interval; and the bytes per event.
set -euo pipefail
export LC_ALL=C
ttwu=${TTWU:-ttwu}
pairs=${1:-20}
folder=$(mktemp -d "${TMPDIR:-/tmp}/ttwu-overhead.XXXXXX")
trap 'rm -rf "$folder"' EXIT
tracing=/sys/kernel/tracing
events=$tracing/events

# The default set of `ttwu record`, as far as this kernel has it.
names="sched:sched_switch sched:sched_waking sched:sched_wakeup sched:sched_wakeup_new sched:sched_migrate_task
 sched:sched_process_fork sched:sched_process_exec sched:sched_process_exit sched:sched_wake_idle_without_ipi
 ipi:ipi_send_cpu ipi:ipi_send_cpumask ipi:ipi_raise ipi:ipi_entry ipi:ipi_exit
 csd:csd_queue_cpu csd:csd_function_entry csd:csd_function_exit irq_vectors:reschedule_entry irq_vectors:reschedule_exit
 irq_vectors:call_function_entry irq_vectors:call_function_exit irq_vectors:call_function_single_entry
 irq_vectors:call_function_single_exit tlb:tlb_flush syscalls:sys_enter_sched_setaffinity sched:sched_move_numa
 sched:sched_stick_numa sched:sched_swap_numa sched:sched_process_free sched:sched_pi_setprio"
network="irq:softirq_raise irq:softirq_entry irq:softirq_exit"
trace_cmd_events=() perf_events=()
for name in $names; do
    [ -d "$events/${name/://}" ] || continue
    trace_cmd_events+=(-e "$name")
    perf_events+=(-e "$name")
done
for name in $network; do
    trace_cmd_events+=(-e "$name" -f 'vec == 2 || vec == 3')
    perf_events+=(-e "$name" --filter 'vec == 2 || vec == 3')
done

workload() { # NAME: what runs; it prints its own time
    case $1 in
    pipe) echo "perf bench sched pipe -l ${PIPE_LOOPS:-100000}" ;;
    messaging) echo "perf bench sched messaging -g ${GROUPS_OF_40:-5} -l ${LOOPS:-1000}" ;;
    none) echo true ;;
    esac
}

run() { # RECORDER WORKLOAD -> the workload's time in seconds
    local what out=$folder/$1.data
    what=$(workload "$2")
    rm -f "$out"
    case $1 in
    ttwu-ftrace) $ttwu record -q --backend ftrace -o "$out" -- $what ;;
    ttwu-perf) $ttwu record -q --backend perf -o "$out" -- $what ;;
    trace-cmd) trace-cmd record -q -d -k -C mono -o "$out" "${trace_cmd_events[@]}" $what ;;
    perf) perf record -q -a -k mono -o "$out" "${perf_events[@]}" -- $what ;;
    bare) $what ;;
    esac 2>"$folder/err" | awk '/Total time:/ { print $3 }'
    # trace-cmd leaves its events enabled, with tracing off: whoever records next would pay for that.
    echo 0 >"$tracing/events/enable"
    echo 1 >"$tracing/tracing_on"
}

bytes_per_event() { # RECORDER: of its last file, without the kernel's symbols and formats
    local out=$folder/$1.data count
    case $1 in
    *ftrace | trace-cmd) count=$(trace-cmd report -i "$out" 2>/dev/null | tail -n +2 | wc -l) ;;
    *) count=$(perf script -i "$out" 2>/dev/null | wc -l) ;;
    esac
    awk -v b="$(stat -c %s "$out")" -v n="$count" 'BEGIN { printf "%.1f B/event (%d events)", b / n, n }'
}

compare() { # OURS THEIRS WORKLOAD
    local pair ours theirs
    : >"$folder/ratios"
    for pair in $(seq "$pairs"); do
        if [ $((pair % 2)) = 0 ]; then
            ours=$(run "$1" "$3") theirs=$(run "$2" "$3")
        else
            theirs=$(run "$2" "$3") ours=$(run "$1" "$3")
        fi
        echo "$ours $theirs" >>"$folder/ratios"
    done
    [ -z "${VERBOSE:-}" ] || cat "$folder/ratios"
    awk -v what="$3: $1 / $2" '
        # Student t, 97.5 %, for 5 to 60 degrees of freedom: between the values of the table the larger is taken.
        function t(df) { return df < 10 ? 2.57 : df < 15 ? 2.23 : df < 19 ? 2.14 : df < 24 ? 2.10 : df < 29 ? 2.07 : df < 40 ? 2.05 : df < 60 ? 2.03 : 2.01 }
        # The same for 95 %.
        function t95(df) { return df < 10 ? 2.02 : df < 15 ? 1.82 : df < 19 ? 1.76 : df < 24 ? 1.73 : df < 29 ? 1.71 : df < 40 ? 1.70 : df < 60 ? 1.69 : 1.68 }
        { x = log($1 / $2); sum += x; squares += x * x; ours += $1; theirs += $2 }
        END {
            mean = sum / NR; deviation = sqrt((squares - NR * mean * mean) / (NR - 1))
            error = deviation / sqrt(NR)
            printf "%-36s %.3f, bound %.3f ", what, exp(mean), exp(mean + t95(NR - 1) * error)
            bound = t(NR - 1) * error
            printf "[%.3f, %.3f]  %.3f s against %.3f s, %d pairs\n", exp(mean - bound), exp(mean + bound), ours / NR, theirs / NR, NR
        }' "$folder/ratios"
    printf '%-36s %s against %s\n' "" "$(bytes_per_event "$1")" "$(bytes_per_event "$2")"
}

for workload in ${WORKLOADS:-pipe messaging}; do
    for backend in ${BACKENDS:-ftrace perf}; do
        case $backend in
        ftrace) compare ttwu-ftrace trace-cmd "$workload" ;;
        perf) compare ttwu-perf perf "$workload" ;;
        esac
    done
done
