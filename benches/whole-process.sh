#!/usr/bin/env bash
# Whole commands against the standard tools, on large traces of this machine.
#
#   benches/whole-process.sh record FOLDER   records FOLDER/big.perf.data and FOLDER/big.trace.dat (root; about 1 GB each)
#   benches/whole-process.sh compare FOLDER  runs ttwu and the standard tools on them, in turn, three times each
#   benches/whole-process.sh export FOLDER   runs ttwu export beside ttwu analyze on them, in turn, five times each
#
# Quote ratios of one run: machines differ, and so do hours of one machine.
set -euo pipefail
ttwu=${TTWU:-ttwu}
sched="sched_switch sched_waking sched_wakeup sched_wakeup_new sched_migrate_task sched_process_fork sched_process_exec sched_process_exit"

# Many pairs of processes that wake each other: some 9 million events with the defaults.
work() {
    for _ in $(seq "${PAIRS:-20}"); do perf bench sched pipe -l "${LOOPS:-110000}" >/dev/null & done
    wait
}

record() {
    mkdir -p "$1"
    local events=() event
    for event in $sched; do events+=(-e "sched:$event"); done
    perf record -q -a -m 4096 -o "$1/big.perf.data" "${events[@]}" -- bash "$0" work
    local t=/sys/kernel/tracing/instances/ttwu-bench
    mkdir -p $t
    trap "rmdir $t 2>/dev/null || true" EXIT
    echo mono >$t/trace_clock
    echo "${BUFFER_KB:-900000}" >$t/buffer_size_kb
    for event in $sched; do echo 1 >"$t/events/sched/$event/enable"; done
    work
    echo 0 >$t/tracing_on
    (cd "$1" && trace-cmd extract -B ttwu-bench -o big.extract.dat >/dev/null)
    trace-cmd convert -i "$1/big.extract.dat" -o "$1/big.trace.dat" --compression none --file-version 7
    rm "$1/big.extract.dat"
}

timed() { # LABEL COMMAND...
    local label=$1 start end
    shift
    start=$(date +%s.%N)
    "$@" >/dev/null 2>/tmp/ttwu-bench.err
    end=$(date +%s.%N)
    printf '%-34s %7.2f s\n' "$label" "$(echo "$end - $start" | bc)"
}

compare() {
    for _ in 1 2 3; do
        # Nobody is to wait for the disk: systems drop cached files that were not read for a while.
        cat "$1/big.perf.data" "$1/big.trace.dat" >/dev/null
        timed "ttwu analyze perf.data" "$ttwu" analyze "$1/big.perf.data" --topology live
        timed "perf sched latency" perf sched latency -i "$1/big.perf.data"
        timed "ttwu analyze trace.dat" "$ttwu" analyze "$1/big.trace.dat" --topology live
        timed "trace-cmd report" trace-cmd report -i "$1/big.trace.dat"
    done
}

# The most memory of its own that a command had, in MB: without the pages of files that it maps.
peak() { # COMMAND...
    "$@" >/dev/null 2>&1 &
    local pid=$! most=0 now
    while now=$(sed -n 's/^RssAnon: *\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null) && [ -n "$now" ]; do
        [ "$now" -gt "$most" ] && most=$now
        sleep 0.02
    done
    wait $pid
    echo $((most / 1000))
}

export_() {
    local file out=$1/dataset
    for _ in 1 2 3 4 5; do
        for file in big.perf.data big.trace.dat; do
            cat "$1/$file" >/dev/null
            timed "ttwu analyze $file" "$ttwu" analyze "$1/$file" --topology live
            timed "ttwu export $file" "$ttwu" export "$1/$file" --topology live -o "$out"
        done
    done
    for file in big.perf.data big.trace.dat; do
        "$ttwu" export "$1/$file" --topology live -o "$out"
        echo "$file: at most $(peak "$ttwu" export "$1/$file" --topology live -o "$out") MB of its own memory"
    done
}

case "${1:-}" in
record) record "$2" ;;
compare) compare "$2" ;;
export) export_ "$2" ;;
work) work ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" ;;
esac
