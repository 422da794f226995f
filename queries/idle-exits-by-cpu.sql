-- How often was each CPU idle, for how long, and how fast was it back?
-- intervals: how often it ran nothing, as far as that began in the window. woken: wakeups that chose it while it was
-- idle, with their latency from waking to switch-in.
WITH intervals AS (
  SELECT i.host, i.trace, i.cpu,
    CAST(COUNT(*) AS BIGINT) AS intervals,
    CAST(COALESCE(SUM(i.end_ns - i.start_ns), 0) AS BIGINT) AS idle_ns,
    MAX(i.end_ns - i.start_ns) AS longest_ns
  FROM idle i
  JOIN traces t ON t.host = i.host AND t.trace = i.trace
  WHERE i.start_ns >= t.start_ns AND i.start_ns <= t.end_ns
  GROUP BY i.host, i.trace, i.cpu
),
ranked AS (
  SELECT host, trace, chosen_cpu AS cpu, latency_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, chosen_cpu ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(*) OVER (PARTITION BY host, trace, chosen_cpu) AS BIGINT) AS n
  FROM wakeups
  WHERE in_window AND chosen_idle AND latency_ns IS NOT NULL
),
woken AS (
  SELECT host, trace, cpu,
    CAST(COUNT(*) AS BIGINT) AS woken,
    MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS p50_ns,
    MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS p99_ns,
    MAX(latency_ns) AS max_ns
  FROM ranked
  GROUP BY host, trace, cpu
)
SELECT c.host AS host, c.trace AS trace, c.cpu AS cpu, c.llc AS llc,
  COALESCE(i.intervals, 0) AS intervals, COALESCE(i.idle_ns, 0) AS idle_ns, i.longest_ns AS longest_ns,
  c.transit_ns AS transit_ns, COALESCE(w.woken, 0) AS woken,
  w.p50_ns AS latency_p50_ns, w.p99_ns AS latency_p99_ns, w.max_ns AS latency_max_ns
FROM cpus c
LEFT JOIN intervals i ON i.host = c.host AND i.trace = c.trace AND i.cpu = c.cpu
LEFT JOIN woken w ON w.host = c.host AND w.trace = c.trace AND w.cpu = c.cpu
ORDER BY host, trace, cpu
