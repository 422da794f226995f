-- Where did the CPUs' time go, second by second?
-- Every nanosecond of every CPU is in one of unknown, running, transit, waiting and idle: waiting is idle time
-- matched to a task that waited elsewhere, in the LLC (core: the whole core was idle; smt: only that thread) or
-- beyond.
WITH sums AS (
  SELECT host, trace, start_ns,
    MAX(end_ns) AS end_ns,
    CAST(COUNT(*) AS BIGINT) AS cpus,
    CAST(COALESCE(SUM(unknown_ns), 0) AS BIGINT) AS unknown_ns,
    CAST(COALESCE(SUM(running_ns), 0) AS BIGINT) AS running_ns,
    CAST(COALESCE(SUM(transit_ns), 0) AS BIGINT) AS transit_ns,
    CAST(COALESCE(SUM(waiting_llc_core_seen_ns), 0) AS BIGINT) AS waiting_llc_core_seen_ns,
    CAST(COALESCE(SUM(waiting_llc_smt_seen_ns), 0) AS BIGINT) AS waiting_llc_smt_seen_ns,
    CAST(COALESCE(SUM(waiting_machine_seen_ns), 0) AS BIGINT) AS waiting_machine_seen_ns,
    CAST(COALESCE(SUM(idle_seen_ns), 0) AS BIGINT) AS idle_seen_ns,
    CAST(COALESCE(SUM(waiting_llc_core_any_ns), 0) AS BIGINT) AS waiting_llc_core_any_ns,
    CAST(COALESCE(SUM(waiting_llc_smt_any_ns), 0) AS BIGINT) AS waiting_llc_smt_any_ns,
    CAST(COALESCE(SUM(waiting_machine_any_ns), 0) AS BIGINT) AS waiting_machine_any_ns,
    CAST(COALESCE(SUM(idle_any_ns), 0) AS BIGINT) AS idle_any_ns
  FROM ledger
  GROUP BY host, trace, start_ns
)
SELECT s.host AS host, s.trace AS trace,
  CAST(FLOOR(CAST(s.start_ns - t.start_ns AS DOUBLE) / 1000000000) AS BIGINT) AS at_s,
  s.start_ns AS start_ns, s.end_ns AS end_ns, s.cpus AS cpus,
  s.unknown_ns AS unknown_ns, s.running_ns AS running_ns, s.transit_ns AS transit_ns,
  s.waiting_llc_core_seen_ns AS waiting_llc_core_seen_ns, s.waiting_llc_smt_seen_ns AS waiting_llc_smt_seen_ns,
  s.waiting_machine_seen_ns AS waiting_machine_seen_ns, s.idle_seen_ns AS idle_seen_ns,
  s.waiting_llc_core_any_ns AS waiting_llc_core_any_ns, s.waiting_llc_smt_any_ns AS waiting_llc_smt_any_ns,
  s.waiting_machine_any_ns AS waiting_machine_any_ns, s.idle_any_ns AS idle_any_ns
FROM sums s
JOIN traces t ON t.host = s.host AND t.trace = s.trace
ORDER BY host, trace, start_ns NULLS LAST
