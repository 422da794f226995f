#!/usr/bin/env bash
# Records for real, again and again, while the machine is busy with messages (root; perf and trace-cmd installed).
#
#   tests/stress/record.sh whole BACKEND [TIMES]   1-second recordings: each is read by the usual tools without a word of
#                                                  complaint and with as many events, nothing is lost, nothing stays
#   tests/stress/record.sh kill BACKEND [TIMES]    killed at a random moment: what was recorded can be analysed, and the
#                                                  next run cleans up
#
# BACKEND is ftrace or perf. TTWU names the program. Exits with 1 after the first failure; its files stay.
set -euo pipefail
export LC_ALL=C
ttwu=${TTWU:-ttwu}
tracing=/sys/kernel/tracing
first="nice -n -10" # so that the tools do not wait for the messages
folder=$(mktemp -d "${TMPDIR:-/tmp}/ttwu-stress.XXXXXX")

fail() {
    echo "FAILED: $*; see $folder" >&2
    exit 1
}

# Messages without end, in the background.
busy() {
    (while :; do perf bench sched messaging -g "${GROUPS_OF_40:-5}" -l 1000 >/dev/null 2>&1; done) &
    load=$!
    trap 'kill $load 2>/dev/null; pkill -P $load 2>/dev/null || true' EXIT
}

left_behind() { # what runs of ttwu have in the kernel
    ls "$tracing/instances" 2>/dev/null | grep '^ttwu_' || true
    grep -s ttwu_ "$tracing/dynamic_events" || true
}

# What this perf says of its own recordings too: formats of the kernel that it does not understand.
known_complaints() {
    perf record -q -a -e 'ipi:*' -o "$folder/own" -- sleep 0.1 >/dev/null 2>&1 || true
    perf script -i "$folder/own" 2>&1 >/dev/null | sort -u >"$folder/known"
}

# Events in a file by the usual tools, which must not complain.
counted() { # FILE BACKEND
    if [ "$2" = ftrace ]; then
        $first trace-cmd report -i "$1" 2>"$folder/complaints" | awk 'NR > 1' | wc -l
    else
        $first perf script -i "$1" 2>"$folder/complaints" | wc -l
        $first perf sched latency -i "$1" >/dev/null 2>>"$folder/complaints"
        perf report --header-only -i "$1" >/dev/null 2>>"$folder/complaints"
        { grep -vxFf "$folder/known" "$folder/complaints" || true; } >"$folder/new"
        mv "$folder/new" "$folder/complaints"
    fi
    [ ! -s "$folder/complaints" ] || fail "$(head -n 3 "$folder/complaints")"
}

whole() { # BACKEND TIMES
    local file=$folder/trace said others time
    known_complaints
    busy
    for time in $(seq "$2"); do
        "$ttwu" record --backend "$1" --for 1s -o "$file" 2>"$folder/said" || fail "recording $time: $(cat "$folder/said")"
        said=$(sed -n 's/^ttwu: \([0-9,]*\) events.*/\1/p' "$folder/said" | tr -d ,)
        grep -q ', 0 lost,' "$folder/said" || fail "recording $time lost events: $(cat "$folder/said")"
        others=$(counted "$file" "$1")
        [ "$others" = "$said" ] || fail "recording $time: $said events by ttwu, $others by others"
        [ -z "$(left_behind)" ] || fail "recording $time left $(left_behind)"
        printf '\r%d recordings, the last of %d events ' "$time" "$said"
    done
    echo
}

killed() { # BACKEND TIMES
    local file=$folder/trace time pid empty=0
    busy
    for time in $(seq "$2"); do
        rm -f "$file"
        "$ttwu" record --backend "$1" -o "$file" 2>"$folder/said" &
        pid=$!
        sleep "$(awk -v seed="$RANDOM" 'BEGIN { srand(seed); printf "%.3f", 0.05 + 1.2 * rand() }')"
        kill -9 $pid
        wait $pid 2>/dev/null || true
        if [ ! -e "$file" ]; then
            empty=$((empty + 1))
        elif ! "$ttwu" analyze "$file" >"$folder/report" 2>"$folder/said"; then
            grep -q 'nothing was recorded yet' "$folder/said" || fail "kill $time: $(cat "$folder/said")"
            empty=$((empty + 1))
        fi
        "$ttwu" record --cleanup 2>"$folder/said" || fail "kill $time: $(cat "$folder/said")"
        [ -z "$(left_behind)" ] || fail "kill $time left $(left_behind)"
        printf '\r%d killed, %d of them before the first event ' "$time" "$empty"
    done
    echo
}

case "${1:-}" in
whole) whole "$2" "${3:-100}" ;;
kill) killed "$2" "${3:-50}" ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
rm -rf "$folder"
