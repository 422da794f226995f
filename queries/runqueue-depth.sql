-- How many tasks ran and how many waited on the machine, over time?
-- By second of the window: means over its time, and the most at once. A task waits from when it is runnable until it
-- is switched in. wait_ns is the area under that curve: the time that all tasks waited.
WITH intervals AS (
  SELECT w.host, w.trace, 1 AS waiting, 0 AS running,
    CASE WHEN w.start_ns < t.start_ns THEN t.start_ns ELSE w.start_ns END AS from_ns,
    CASE WHEN w.end_ns IS NULL OR w.end_ns > t.end_ns THEN t.end_ns ELSE w.end_ns END AS to_ns
  FROM waits w
  JOIN traces t ON t.host = w.host AND t.trace = w.trace
  UNION ALL
  SELECT s.host, s.trace, 0 AS waiting, 1 AS running,
    CASE WHEN s.start_ns < t.start_ns THEN t.start_ns ELSE s.start_ns END AS from_ns,
    CASE WHEN s.end_ns IS NULL OR s.end_ns > t.end_ns THEN t.end_ns ELSE s.end_ns END AS to_ns
  FROM slices s
  JOIN traces t ON t.host = s.host AND t.trace = s.trace
),
steps AS (
  SELECT host, trace, from_ns AS at_ns, waiting, running FROM intervals WHERE from_ns < to_ns
  UNION ALL
  SELECT host, trace, to_ns AS at_ns, -waiting AS waiting, -running AS running FROM intervals WHERE from_ns < to_ns
  UNION ALL
  SELECT host, trace, start_ns AS at_ns, 0 AS waiting, 0 AS running FROM ledger
  UNION ALL
  SELECT host, trace, end_ns AS at_ns, 0 AS waiting, 0 AS running FROM traces
),
instants AS (
  SELECT host, trace, at_ns, CAST(SUM(waiting) AS BIGINT) AS waiting, CAST(SUM(running) AS BIGINT) AS running
  FROM steps
  WHERE at_ns IS NOT NULL
  GROUP BY host, trace, at_ns
),
levels AS (
  SELECT host, trace, at_ns,
    CAST(SUM(waiting) OVER (PARTITION BY host, trace ORDER BY at_ns) AS BIGINT) AS waiting,
    CAST(SUM(running) OVER (PARTITION BY host, trace ORDER BY at_ns) AS BIGINT) AS running,
    LEAD(at_ns) OVER (PARTITION BY host, trace ORDER BY at_ns) - at_ns AS lasted_ns
  FROM instants
),
placed AS (
  SELECT l.host, l.trace, l.waiting, l.running, l.lasted_ns,
    CAST(FLOOR(CAST(l.at_ns - t.start_ns AS DOUBLE) / 1000000000) AS BIGINT) AS at_s
  FROM levels l
  JOIN traces t ON t.host = l.host AND t.trace = l.trace
  WHERE l.lasted_ns > 0
)
SELECT host, trace, at_s,
  CAST(SUM(lasted_ns) AS BIGINT) AS span_ns,
  CAST(SUM(running * lasted_ns) AS DOUBLE) / CAST(SUM(lasted_ns) AS DOUBLE) AS running_mean,
  MAX(running) AS running_most,
  CAST(SUM(waiting * lasted_ns) AS DOUBLE) / CAST(SUM(lasted_ns) AS DOUBLE) AS waiting_mean,
  MAX(waiting) AS waiting_most,
  MAX(running + waiting) AS runnable_most,
  CAST(SUM(running * lasted_ns) AS BIGINT) AS run_ns,
  CAST(SUM(waiting * lasted_ns) AS BIGINT) AS wait_ns
FROM placed
GROUP BY host, trace, at_s
ORDER BY host, trace, at_s NULLS LAST
