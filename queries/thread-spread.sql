-- How evenly did the threads of a process run?
-- On-CPU time of each process' threads in the window, those that only waited or were woken too. Where the trace does
-- not tell processes (tgid is null), threads of one name stand for one. stddev divides by the threads, stddev_sample
-- by one less. Left out: the recorder's threads, and processes that did not run.
WITH threads AS (
  SELECT k.host, k.trace, k.tgid, CASE WHEN k.tgid IS NULL THEN k.name END AS alike, k.pid, k.name, k.run_ns
  FROM tasks k
  JOIN traces t ON t.host = k.host AND t.trace = k.trace
  WHERE (t.recorder_counted OR NOT k.recorder) AND (k.run_ns > 0 OR k.wait_ns > 0 OR k.wakeups_received > 0)
),
summed AS (
  SELECT host, trace, tgid, alike, pid, name, run_ns,
    CAST(SUM(run_ns) OVER (PARTITION BY host, trace, tgid, alike) AS DOUBLE) AS total_ns,
    CAST(COUNT(run_ns) OVER (PARTITION BY host, trace, tgid, alike) AS DOUBLE) AS n
  FROM threads
),
spread AS (
  SELECT host, trace, tgid, alike, run_ns, CASE WHEN n > 0 THEN run_ns - total_ns / n END AS off_ns,
    CASE WHEN pid = tgid THEN name END AS first_name, name AS any_name
  FROM summed
),
processes AS (
  SELECT host, trace, tgid, alike, MAX(first_name) AS first_name, MIN(any_name) AS any_name,
    CAST(COUNT(*) AS BIGINT) AS threads,
    CAST(COUNT(run_ns) AS DOUBLE) AS n,
    CAST(COALESCE(SUM(run_ns), 0) AS BIGINT) AS run_ns,
    MIN(run_ns) AS min_ns,
    MAX(run_ns) AS max_ns,
    SUM(off_ns * off_ns) AS squares
  FROM spread
  GROUP BY host, trace, tgid, alike
)
SELECT host, trace, COALESCE(alike, first_name, any_name) AS name, tgid, threads, run_ns,
  CAST(run_ns AS DOUBLE) / n AS mean_ns, min_ns, max_ns, max_ns - min_ns AS range_ns,
  SQRT(squares / n) AS stddev_ns,
  CASE WHEN n > 1 THEN SQRT(squares / (n - 1)) END AS stddev_sample_ns
FROM processes
WHERE run_ns > 0
ORDER BY run_ns DESC, host, trace, tgid NULLS LAST, name NULLS LAST
