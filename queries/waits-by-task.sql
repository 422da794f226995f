-- Which tasks waited, and why?
-- A row for each task and verdict, under both readings of affinity. Counts are of waits that start in the window,
-- times all that lies in it. Waits that were given up, since events are missing or contradict each other, are not
-- among them.
WITH read AS (
  SELECT host, trace, task, verdict_seen AS verdict,
    CASE WHEN in_window THEN 1 ELSE 0 END AS count_seen, wait_ns AS wait_seen_ns, lost_seen_ns,
    0 AS count_any, CAST(0 AS BIGINT) AS wait_any_ns, CAST(0 AS BIGINT) AS lost_any_ns
  FROM waits
  UNION ALL
  SELECT host, trace, task, verdict_any AS verdict,
    0 AS count_seen, CAST(0 AS BIGINT) AS wait_seen_ns, CAST(0 AS BIGINT) AS lost_seen_ns,
    CASE WHEN in_window THEN 1 ELSE 0 END AS count_any, wait_ns AS wait_any_ns, lost_any_ns
  FROM waits
),
sums AS (
  SELECT host, trace, task, verdict,
    CAST(SUM(CAST(count_seen AS BIGINT)) AS BIGINT) AS count_seen,
    CAST(SUM(CAST(count_any AS BIGINT)) AS BIGINT) AS count_any,
    CAST(COALESCE(SUM(wait_seen_ns), 0) AS BIGINT) AS wait_seen_ns,
    CAST(COALESCE(SUM(wait_any_ns), 0) AS BIGINT) AS wait_any_ns,
    CAST(COALESCE(SUM(lost_seen_ns), 0) AS BIGINT) AS lost_seen_ns,
    CAST(COALESCE(SUM(lost_any_ns), 0) AS BIGINT) AS lost_any_ns
  FROM read
  GROUP BY host, trace, task, verdict
)
SELECT s.host AS host, s.trace AS trace, k.name AS name, k.pid AS pid, s.verdict AS verdict,
  s.count_seen AS count_seen, s.count_any AS count_any, s.wait_seen_ns AS wait_seen_ns, s.wait_any_ns AS wait_any_ns,
  s.lost_seen_ns AS lost_seen_ns, s.lost_any_ns AS lost_any_ns, s.task AS task
FROM sums s
JOIN tasks k ON k.host = s.host AND k.trace = s.trace AND k.task = s.task
ORDER BY lost_any_ns DESC, wait_any_ns DESC, wait_seen_ns DESC, host, trace, task, verdict NULLS LAST
