-- What pulled bouncing tasks to another LLC, and what pulled them back?
-- A bounce: a task changes its LLC, and its next change of LLC, at most 10 ms later, takes that back. away: from the
-- way out to the way back.
WITH placed AS (
  SELECT m.host, m.trace, m.task, m.ts_ns, m.cause, f.llc AS from_llc, t.llc AS to_llc, m.from_cpu, m.to_cpu,
    COALESCE(m.idle_left_seen, 0) AS idle_left_seen, COALESCE(m.idle_left_any, 0) AS idle_left_any,
    COALESCE(m.in_window, FALSE) AS in_window
  FROM migrations m
  LEFT JOIN cpus f ON f.host = m.host AND f.trace = m.trace AND f.cpu = m.from_cpu
  LEFT JOIN cpus t ON t.host = m.host AND t.trace = m.trace AND t.cpu = m.to_cpu
),
changes AS (
  SELECT host, trace, task, ts_ns, cause, from_llc, to_llc, idle_left_seen, idle_left_any, in_window,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, task ORDER BY ts_ns, from_cpu, to_cpu, cause,
      idle_left_seen, idle_left_any, in_window) AS BIGINT) AS nth
  FROM placed
  WHERE ts_ns IS NOT NULL AND from_cpu IS NOT NULL AND to_cpu IS NOT NULL AND cause IS NOT NULL
    AND (from_llc IS NULL OR to_llc IS NULL OR from_llc <> to_llc)
),
bounces AS (
  SELECT b.host, b.trace, o.cause AS out_cause, b.cause AS back_cause, b.ts_ns - o.ts_ns AS away_ns,
    o.idle_left_seen, o.idle_left_any
  FROM changes b
  JOIN changes o ON o.host = b.host AND o.trace = b.trace AND o.task = b.task AND o.nth = b.nth - 1
  WHERE b.in_window AND o.from_llc = b.to_llc AND o.to_llc = b.from_llc AND b.ts_ns - o.ts_ns <= 10000000
),
ranked AS (
  SELECT host, trace, out_cause, back_cause, away_ns, idle_left_seen, idle_left_any,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, out_cause, back_cause ORDER BY away_ns) AS BIGINT) AS nth,
    CAST(COUNT(*) OVER (PARTITION BY host, trace, out_cause, back_cause) AS BIGINT) AS n
  FROM bounces
)
SELECT host, trace, out_cause, back_cause,
  CAST(COUNT(*) AS BIGINT) AS bounces,
  CAST(COUNT(CASE WHEN idle_left_seen > 0 THEN 1 END) AS BIGINT) AS left_idle_seen,
  CAST(COUNT(CASE WHEN idle_left_any > 0 THEN 1 END) AS BIGINT) AS left_idle_any,
  MIN(CASE WHEN nth * 2 >= n THEN away_ns END) AS away_p50_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN away_ns END) AS away_p99_ns,
  MAX(away_ns) AS away_max_ns
FROM ranked
GROUP BY host, trace, out_cause, back_cause
ORDER BY host, trace, bounces DESC, out_cause, back_cause
