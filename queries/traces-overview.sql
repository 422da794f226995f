-- Which traces are there, and what does each show at a glance?
-- Times are of the window. lost_*_share: idle CPU time matched to waiting tasks, as a share of all CPUs' time.
WITH sums AS (
  SELECT host, trace,
    CAST(COALESCE(SUM(running_ns), 0) AS BIGINT) AS running_ns,
    CAST(COALESCE(SUM(waiting_llc_core_seen_ns + waiting_llc_smt_seen_ns + waiting_machine_seen_ns), 0) AS BIGINT)
      AS lost_seen_ns,
    CAST(COALESCE(SUM(waiting_llc_core_any_ns + waiting_llc_smt_any_ns + waiting_machine_any_ns), 0) AS BIGINT)
      AS lost_any_ns,
    CAST(COALESCE(SUM(switches), 0) AS BIGINT) AS switches
  FROM cpus
  GROUP BY host, trace
),
woken AS (
  SELECT host, trace,
    CAST(COUNT(*) AS BIGINT) AS wakeups,
    CAST(COUNT(CASE WHEN cross_llc THEN 1 END) AS BIGINT) AS cross_llc
  FROM wakeups
  WHERE in_window
  GROUP BY host, trace
),
waited AS (
  SELECT host, trace, CAST(COALESCE(SUM(wait_ns), 0) AS BIGINT) AS wait_ns
  FROM waits
  GROUP BY host, trace
)
SELECT t.host AS host, t.trace AS trace, t.file AS file, t.format AS format, t.kernel_release AS kernel_release,
  t.cpus AS cpus, t.llcs AS llcs, CAST(t.end_ns - t.start_ns AS DOUBLE) / 1000000000 AS seconds,
  t.events AS events, t.lost_events AS lost_events,
  COALESCE(w.wakeups, 0) AS wakeups, COALESCE(w.cross_llc, 0) AS cross_llc, COALESCE(s.switches, 0) AS switches,
  COALESCE(s.running_ns, 0) AS running_ns, COALESCE(q.wait_ns, 0) AS wait_ns,
  COALESCE(s.lost_seen_ns, 0) AS lost_seen_ns, COALESCE(s.lost_any_ns, 0) AS lost_any_ns,
  CASE WHEN t.cpus > 0 AND t.end_ns > t.start_ns
    THEN CAST(s.lost_seen_ns AS DOUBLE) / (CAST(t.end_ns - t.start_ns AS DOUBLE) * t.cpus) END AS lost_seen_share,
  CASE WHEN t.cpus > 0 AND t.end_ns > t.start_ns
    THEN CAST(s.lost_any_ns AS DOUBLE) / (CAST(t.end_ns - t.start_ns AS DOUBLE) * t.cpus) END AS lost_any_share
FROM traces t
LEFT JOIN sums s ON s.host = t.host AND s.trace = t.trace
LEFT JOIN woken w ON w.host = t.host AND w.trace = t.trace
LEFT JOIN waited q ON q.host = t.host AND q.trace = t.trace
ORDER BY host, trace
