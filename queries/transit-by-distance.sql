-- How long are wakees on their way to an idle CPU, by distance and road?
-- Wakeups whose whole delay was transit, interrupt and idle exit: verdict transit. distance is from the waker to the
-- chosen CPU. idle_before is how long that CPU had run nothing: deeper sleep takes longer to end.
WITH flagged AS (
  SELECT host, trace, waker_chosen AS distance, path, latency_ns, idle_before_ns,
    latency_ns IS NULL AS no_latency, idle_before_ns IS NULL AS no_idle
  FROM wakeups
  WHERE in_window AND verdict_any = 'transit'
),
ranked AS (
  SELECT host, trace, distance, path, latency_ns, idle_before_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, distance, path, no_latency ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, distance, path) AS BIGINT) AS n,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, distance, path, no_idle ORDER BY idle_before_ns) AS BIGINT)
      AS nth_idle,
    CAST(COUNT(idle_before_ns) OVER (PARTITION BY host, trace, distance, path) AS BIGINT) AS idles
  FROM flagged
)
SELECT host, trace, distance, path,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS latency_p50_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS latency_p99_ns,
  MAX(latency_ns) AS latency_max_ns,
  CAST(COALESCE(SUM(latency_ns), 0) AS BIGINT) AS latency_total_ns,
  MIN(CASE WHEN nth_idle * 2 >= idles THEN idle_before_ns END) AS idle_before_p50_ns
FROM ranked
GROUP BY host, trace, distance, path
ORDER BY host, trace, latency_total_ns DESC, distance NULLS LAST, path NULLS LAST
