-- Which tasks lost most, to idle CPUs that they could have run on?
-- Times are of the window. withheld: how often the task's CPU found nothing runnable although it was queued there.
-- Latency is that of the wakeups it received. Left out: the recorder's threads.
WITH ranked AS (
  SELECT host, trace, wakee, latency_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, wakee ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(*) OVER (PARTITION BY host, trace, wakee) AS BIGINT) AS n
  FROM wakeups
  WHERE in_window AND latency_ns IS NOT NULL
),
latencies AS (
  SELECT host, trace, wakee,
    MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS p50_ns,
    MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS p99_ns,
    MAX(latency_ns) AS max_ns
  FROM ranked
  GROUP BY host, trace, wakee
)
SELECT k.host AS host, k.trace AS trace, k.name AS name, k.pid AS pid, k.generation AS generation,
  k.run_ns AS run_ns, k.wait_ns AS wait_ns, k.lost_seen_ns AS lost_seen_ns, k.lost_any_ns AS lost_any_ns,
  k.withheld AS withheld, k.wakeups_made AS wakeups_made, k.wakeups_received AS wakeups_received,
  k.switches AS switches, k.migrations AS migrations,
  l.p50_ns AS latency_p50_ns, l.p99_ns AS latency_p99_ns, l.max_ns AS latency_max_ns, k.task AS task
FROM tasks k
JOIN traces t ON t.host = k.host AND t.trace = k.trace
LEFT JOIN latencies l ON l.host = k.host AND l.trace = k.trace AND l.wakee = k.task
WHERE t.recorder_counted OR NOT k.recorder
ORDER BY lost_any_ns DESC NULLS LAST, wait_ns DESC NULLS LAST, run_ns DESC NULLS LAST, host, trace, task
