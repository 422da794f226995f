-- How long did wakeups take, by the distance between the CPUs?
-- between: the two CPUs of the distance. Latency is waking to switch-in; with_latency wakeups tell it. A percentile
-- is the nearest rank: a latency that occurred.
WITH measured AS (
  SELECT host, trace, 'waker_chosen' AS between_cpus, waker_chosen AS distance, latency_ns FROM wakeups WHERE in_window
  UNION ALL
  SELECT host, trace, 'prev_chosen' AS between_cpus, prev_chosen AS distance, latency_ns FROM wakeups WHERE in_window
  UNION ALL
  SELECT host, trace, 'waker_prev' AS between_cpus, waker_prev AS distance, latency_ns FROM wakeups WHERE in_window
),
flagged AS (
  SELECT host, trace, between_cpus, distance, latency_ns, latency_ns IS NULL AS no_latency
  FROM measured
),
ranked AS (
  SELECT host, trace, between_cpus, distance, latency_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, between_cpus, distance,
      no_latency ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, between_cpus, distance) AS BIGINT) AS n
  FROM flagged
)
SELECT host, trace, between_cpus, distance,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  CAST(COUNT(latency_ns) AS BIGINT) AS with_latency,
  MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS latency_p50_ns,
  MIN(CASE WHEN nth * 10 >= n * 9 THEN latency_ns END) AS latency_p90_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS latency_p99_ns,
  MAX(latency_ns) AS latency_max_ns
FROM ranked
GROUP BY host, trace, between_cpus, distance
ORDER BY host, trace, between_cpus, distance NULLS LAST
