-- By which road did wakeups reach their CPU, and what did each cost?
-- Latency is waking to switch-in: what the wakee waited; cost is what the waker paid: waking to enqueue, or to the
-- last event of handing it over. with_latency and with_cost wakeups tell them. Percentiles are nearest ranks.
WITH flagged AS (
  SELECT host, trace, path, latency_ns, waker_cost_ns,
    latency_ns IS NULL AS no_latency, waker_cost_ns IS NULL AS no_cost
  FROM wakeups
  WHERE in_window
),
ranked AS (
  SELECT host, trace, path, latency_ns, waker_cost_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, path, no_latency ORDER BY latency_ns) AS BIGINT) AS nth_latency,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, path) AS BIGINT) AS latencies,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, path, no_cost ORDER BY waker_cost_ns) AS BIGINT) AS nth_cost,
    CAST(COUNT(waker_cost_ns) OVER (PARTITION BY host, trace, path) AS BIGINT) AS costs
  FROM flagged
)
SELECT host, trace, path,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  CAST(COUNT(latency_ns) AS BIGINT) AS with_latency,
  MIN(CASE WHEN nth_latency * 2 >= latencies THEN latency_ns END) AS latency_p50_ns,
  MIN(CASE WHEN nth_latency * 100 >= latencies * 99 THEN latency_ns END) AS latency_p99_ns,
  MAX(latency_ns) AS latency_max_ns,
  CAST(COUNT(waker_cost_ns) AS BIGINT) AS with_cost,
  MIN(CASE WHEN nth_cost * 2 >= costs THEN waker_cost_ns END) AS cost_p50_ns,
  MIN(CASE WHEN nth_cost * 100 >= costs * 99 THEN waker_cost_ns END) AS cost_p99_ns,
  MAX(waker_cost_ns) AS cost_max_ns,
  CAST(COALESCE(SUM(waker_cost_ns), 0) AS BIGINT) AS cost_total_ns
FROM ranked
GROUP BY host, trace, path
ORDER BY host, trace, path NULLS LAST
