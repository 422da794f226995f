-- How deep was each CPU's runqueue, and for how long?
-- runnable: the task that runs and those that wait there, as the kernel's nr_running. share is of the window. A task
-- that was moved while it waited is counted where it waited last.
WITH intervals AS (
  SELECT w.host, w.trace, w.last_cpu AS cpu,
    CASE WHEN w.start_ns < t.start_ns THEN t.start_ns ELSE w.start_ns END AS from_ns,
    CASE WHEN w.end_ns IS NULL OR w.end_ns > t.end_ns THEN t.end_ns ELSE w.end_ns END AS to_ns
  FROM waits w
  JOIN traces t ON t.host = w.host AND t.trace = w.trace
  UNION ALL
  SELECT s.host, s.trace, s.cpu AS cpu,
    CASE WHEN s.start_ns < t.start_ns THEN t.start_ns ELSE s.start_ns END AS from_ns,
    CASE WHEN s.end_ns IS NULL OR s.end_ns > t.end_ns THEN t.end_ns ELSE s.end_ns END AS to_ns
  FROM slices s
  JOIN traces t ON t.host = s.host AND t.trace = s.trace
),
steps AS (
  SELECT host, trace, cpu, from_ns AS at_ns, 1 AS runnable FROM intervals WHERE from_ns < to_ns
  UNION ALL
  SELECT host, trace, cpu, to_ns AS at_ns, -1 AS runnable FROM intervals WHERE from_ns < to_ns
  UNION ALL
  SELECT c.host, c.trace, c.cpu, t.start_ns AS at_ns, 0 AS runnable
  FROM cpus c
  JOIN traces t ON t.host = c.host AND t.trace = c.trace
  UNION ALL
  SELECT c.host, c.trace, c.cpu, t.end_ns AS at_ns, 0 AS runnable
  FROM cpus c
  JOIN traces t ON t.host = c.host AND t.trace = c.trace
),
instants AS (
  SELECT host, trace, cpu, at_ns, CAST(SUM(runnable) AS BIGINT) AS runnable
  FROM steps
  WHERE cpu IS NOT NULL AND at_ns IS NOT NULL
  GROUP BY host, trace, cpu, at_ns
),
levels AS (
  SELECT host, trace, cpu,
    CAST(SUM(runnable) OVER (PARTITION BY host, trace, cpu ORDER BY at_ns) AS BIGINT) AS runnable,
    LEAD(at_ns) OVER (PARTITION BY host, trace, cpu ORDER BY at_ns) - at_ns AS lasted_ns
  FROM instants
),
depths AS (
  SELECT host, trace, cpu, runnable, CAST(SUM(lasted_ns) AS BIGINT) AS lasted_ns
  FROM levels
  WHERE lasted_ns > 0
  GROUP BY host, trace, cpu, runnable
)
SELECT d.host AS host, d.trace AS trace, d.cpu AS cpu, d.runnable AS runnable, d.lasted_ns AS lasted_ns,
  CASE WHEN t.end_ns > t.start_ns
    THEN CAST(d.lasted_ns AS DOUBLE) / CAST(t.end_ns - t.start_ns AS DOUBLE) END AS share
FROM depths d
JOIN traces t ON t.host = d.host AND t.trace = d.trace
ORDER BY host, trace, cpu, runnable
