-- Which tasks bounced from one LLC to another and back?
-- A bounce: a task changes its LLC, and its next change of LLC, at most 10 ms later, takes that back. left_idle_*:
-- the LLC that it left first had an eligible idle CPU. Lost times are of its waits after both moves, until it blocked
-- or was moved again. later: ways back that came later, which are no bounces.
WITH placed AS (
  SELECT m.host, m.trace, m.task, m.ts_ns, f.llc AS from_llc, t.llc AS to_llc, m.from_cpu, m.to_cpu,
    COALESCE(m.idle_left_seen, 0) AS idle_left_seen, COALESCE(m.idle_left_any, 0) AS idle_left_any,
    COALESCE(m.lost_seen_ns, 0) AS lost_seen_ns, COALESCE(m.lost_any_ns, 0) AS lost_any_ns,
    COALESCE(m.in_window, FALSE) AS in_window
  FROM migrations m
  LEFT JOIN cpus f ON f.host = m.host AND f.trace = m.trace AND f.cpu = m.from_cpu
  LEFT JOIN cpus t ON t.host = m.host AND t.trace = m.trace AND t.cpu = m.to_cpu
),
changes AS (
  SELECT host, trace, task, ts_ns, from_llc, to_llc, idle_left_seen, idle_left_any, lost_seen_ns, lost_any_ns,
    in_window,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, task ORDER BY ts_ns, from_cpu, to_cpu,
      idle_left_seen, idle_left_any, lost_seen_ns, lost_any_ns, in_window) AS BIGINT) AS nth
  FROM placed
  WHERE ts_ns IS NOT NULL AND from_cpu IS NOT NULL AND to_cpu IS NOT NULL
    AND (from_llc IS NULL OR to_llc IS NULL OR from_llc <> to_llc)
),
returns AS (
  SELECT b.host, b.trace, b.task, b.nth, b.nth - 1 AS nth_out, b.in_window,
    b.ts_ns - o.ts_ns AS away_ns, o.idle_left_seen, o.idle_left_any
  FROM changes b
  JOIN changes o ON o.host = b.host AND o.trace = b.trace AND o.task = b.task AND o.nth = b.nth - 1
  WHERE o.from_llc = b.to_llc AND o.to_llc = b.from_llc
),
part_of AS (
  SELECT DISTINCT host, trace, task, nth
  FROM (
    SELECT host, trace, task, nth FROM returns WHERE away_ns <= 10000000
    UNION ALL
    SELECT host, trace, task, nth_out AS nth FROM returns WHERE away_ns <= 10000000
  ) AS either
),
losses AS (
  SELECT c.host, c.trace, c.task,
    CAST(SUM(c.lost_seen_ns) AS BIGINT) AS lost_seen_ns, CAST(SUM(c.lost_any_ns) AS BIGINT) AS lost_any_ns
  FROM changes c
  JOIN part_of p ON p.host = c.host AND p.trace = c.trace AND p.task = c.task AND p.nth = c.nth
  GROUP BY c.host, c.trace, c.task
),
bounces AS (
  SELECT host, trace, task,
    CAST(COUNT(CASE WHEN away_ns <= 10000000 THEN 1 END) AS BIGINT) AS bounces,
    CAST(COUNT(CASE WHEN away_ns > 10000000 THEN 1 END) AS BIGINT) AS later,
    CAST(COUNT(CASE WHEN away_ns <= 10000000 AND idle_left_seen > 0 THEN 1 END) AS BIGINT) AS left_idle_seen,
    CAST(COUNT(CASE WHEN away_ns <= 10000000 AND idle_left_any > 0 THEN 1 END) AS BIGINT) AS left_idle_any,
    MIN(CASE WHEN away_ns <= 10000000 THEN away_ns END) AS away_min_ns,
    MAX(CASE WHEN away_ns <= 10000000 THEN away_ns END) AS away_max_ns
  FROM returns
  WHERE in_window
  GROUP BY host, trace, task
)
SELECT b.host AS host, b.trace AS trace, k.name AS name, k.pid AS pid,
  b.bounces AS bounces, b.later AS later, b.left_idle_seen AS left_idle_seen, b.left_idle_any AS left_idle_any,
  COALESCE(l.lost_seen_ns, 0) AS lost_seen_ns, COALESCE(l.lost_any_ns, 0) AS lost_any_ns,
  b.away_min_ns AS away_min_ns, b.away_max_ns AS away_max_ns, b.task AS task
FROM bounces b
JOIN tasks k ON k.host = b.host AND k.trace = b.trace AND k.task = b.task
LEFT JOIN losses l ON l.host = b.host AND l.trace = b.trace AND l.task = b.task
ORDER BY bounces DESC, lost_any_ns DESC, later DESC, host, trace, task
