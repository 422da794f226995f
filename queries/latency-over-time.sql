-- How did the latency of wakeups change over time?
-- By second of the window in which the waking lies. Latency is waking to switch-in; percentiles are nearest ranks.
WITH placed AS (
  SELECT w.host, w.trace, w.latency_ns, w.latency_ns IS NULL AS no_latency, w.cross_llc,
    CAST(FLOOR(CAST(COALESCE(w.waking_ns, w.wakeup_ns) - t.start_ns AS DOUBLE) / 1000000000) AS BIGINT) AS at_s
  FROM wakeups w
  JOIN traces t ON t.host = w.host AND t.trace = w.trace
  WHERE w.in_window
),
ranked AS (
  SELECT host, trace, at_s, latency_ns, cross_llc,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, at_s, no_latency ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, at_s) AS BIGINT) AS n
  FROM placed
)
SELECT host, trace, at_s,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  CAST(COUNT(CASE WHEN cross_llc THEN 1 END) AS BIGINT) AS cross_llc,
  CAST(COUNT(latency_ns) AS BIGINT) AS with_latency,
  MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS latency_p50_ns,
  MIN(CASE WHEN nth * 10 >= n * 9 THEN latency_ns END) AS latency_p90_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS latency_p99_ns,
  MAX(latency_ns) AS latency_max_ns
FROM ranked
GROUP BY host, trace, at_s
ORDER BY host, trace, at_s NULLS LAST
