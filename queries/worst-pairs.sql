-- Which wakers and wakees lost and waited most?
-- wakeups, of which llc_known tell whether they crossed LLCs; wait and lost times are of the waits that they began.
-- Left out: wakeups by interrupts alone, tasks that woke themselves, the recorder's threads.
WITH named AS (
  SELECT k.host, k.trace, k.task, k.pid, k.name
  FROM tasks k
  JOIN traces t ON t.host = k.host AND t.trace = k.trace
  WHERE t.recorder_counted OR NOT k.recorder
),
ranked AS (
  SELECT host, trace, waker, wakee, latency_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, waker, wakee ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(*) OVER (PARTITION BY host, trace, waker, wakee) AS BIGINT) AS n
  FROM wakeups
  WHERE in_window AND waker <> wakee AND latency_ns IS NOT NULL
),
latencies AS (
  SELECT host, trace, waker, wakee,
    MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS p50_ns,
    MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS p99_ns,
    MAX(latency_ns) AS max_ns
  FROM ranked
  GROUP BY host, trace, waker, wakee
),
pairs AS (
  SELECT host, trace, waker, wakee,
    CAST(COUNT(CASE WHEN in_window THEN 1 END) AS BIGINT) AS wakeups,
    CAST(COUNT(CASE WHEN in_window AND cross_llc THEN 1 END) AS BIGINT) AS cross_llc,
    CAST(COUNT(CASE WHEN in_window AND cross_llc IS NOT NULL THEN 1 END) AS BIGINT) AS llc_known,
    CAST(COALESCE(SUM(wait_ns), 0) AS BIGINT) AS wait_ns,
    CAST(COALESCE(SUM(lost_seen_ns), 0) AS BIGINT) AS lost_seen_ns,
    CAST(COALESCE(SUM(lost_any_ns), 0) AS BIGINT) AS lost_any_ns
  FROM wakeups
  WHERE waker <> wakee
  GROUP BY host, trace, waker, wakee
)
SELECT p.host AS host, p.trace AS trace,
  r.name AS waker, r.pid AS waker_pid, e.name AS wakee, e.pid AS wakee_pid,
  p.wakeups AS wakeups, p.cross_llc AS cross_llc, p.llc_known AS llc_known,
  p.wait_ns AS wait_ns, p.lost_seen_ns AS lost_seen_ns, p.lost_any_ns AS lost_any_ns,
  l.p50_ns AS latency_p50_ns, l.p99_ns AS latency_p99_ns, l.max_ns AS latency_max_ns,
  p.waker AS waker_task, p.wakee AS wakee_task
FROM pairs p
JOIN named r ON r.host = p.host AND r.trace = p.trace AND r.task = p.waker
JOIN named e ON e.host = p.host AND e.trace = p.trace AND e.task = p.wakee
LEFT JOIN latencies l
  ON l.host = p.host AND l.trace = p.trace AND l.waker = p.waker AND l.wakee = p.wakee
WHERE p.wakeups > 0 OR p.wait_ns > 0
ORDER BY lost_any_ns DESC, wait_ns DESC, wakeups DESC, host, trace, waker_task, wakee_task
