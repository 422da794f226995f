-- Does it take longer to wake a CPU that has been idle for longer?
-- Wakeups whose chosen CPU was idle, by how long it had run nothing: from idle_from_ns to less than idle_to_ns (null:
-- no limit). Latency is waking to switch-in.
WITH bucketed AS (
  SELECT host, trace, latency_ns, latency_ns IS NULL AS no_latency,
    CAST(CASE
      WHEN idle_before_ns < 10000 THEN 0
      WHEN idle_before_ns < 100000 THEN 10000
      WHEN idle_before_ns < 1000000 THEN 100000
      WHEN idle_before_ns < 10000000 THEN 1000000
      WHEN idle_before_ns < 100000000 THEN 10000000
      ELSE 100000000
    END AS BIGINT) AS idle_from_ns
  FROM wakeups
  WHERE in_window AND idle_before_ns IS NOT NULL
),
ranked AS (
  SELECT host, trace, idle_from_ns, latency_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, idle_from_ns, no_latency ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, idle_from_ns) AS BIGINT) AS n
  FROM bucketed
)
SELECT host, trace, idle_from_ns,
  CASE WHEN idle_from_ns = 0 THEN 10000 WHEN idle_from_ns < 100000000 THEN idle_from_ns * 10 END AS idle_to_ns,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS latency_p50_ns,
  MIN(CASE WHEN nth * 10 >= n * 9 THEN latency_ns END) AS latency_p90_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS latency_p99_ns,
  MAX(latency_ns) AS latency_max_ns
FROM ranked
GROUP BY host, trace, idle_from_ns
ORDER BY host, trace, idle_from_ns
