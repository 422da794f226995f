-- Which tasks shoot down TLBs, how long do they wait, and who suffers?
-- flushes: changes of mappings that made the task's CPU flush; remote: others had to, too; full: of the whole TLB.
-- wait_ns is how long it waited for the others, as far as seen. victim_ns: what handlers for such flushes took from
-- the task.
WITH parts AS (
  SELECT host, trace, task, 1 AS flushes, CASE WHEN reason = 'remote_send' THEN 1 ELSE 0 END AS remote,
    CASE WHEN pages = -1 THEN 1 ELSE 0 END AS whole,
    CASE WHEN reason = 'remote_send' THEN COALESCE(targets, 0) ELSE 0 END AS targets,
    COALESCE(wait_ns, 0) AS wait_ns, CAST(0 AS BIGINT) AS victim_ns
  FROM flushes
  WHERE in_window AND task IS NOT NULL AND reason IN ('local_mm_shootdown', 'remote_send')
  UNION ALL
  SELECT host, trace, interrupted AS task, 0 AS flushes, 0 AS remote, 0 AS whole,
    CAST(0 AS BIGINT) AS targets, CAST(0 AS BIGINT) AS wait_ns, handler_ns AS victim_ns
  FROM ipis
  WHERE in_window AND kind = 'tlb' AND interrupted IS NOT NULL AND handler_ns IS NOT NULL
),
sums AS (
  SELECT host, trace, task,
    CAST(SUM(CAST(flushes AS BIGINT)) AS BIGINT) AS flushes,
    CAST(SUM(CAST(remote AS BIGINT)) AS BIGINT) AS remote,
    CAST(SUM(CAST(whole AS BIGINT)) AS BIGINT) AS whole,
    CAST(SUM(targets) AS BIGINT) AS targets,
    CAST(SUM(wait_ns) AS BIGINT) AS wait_ns,
    CAST(SUM(victim_ns) AS BIGINT) AS victim_ns
  FROM parts
  GROUP BY host, trace, task
)
SELECT s.host AS host, s.trace AS trace, k.name AS name, k.pid AS pid, k.tgid AS tgid,
  s.flushes AS flushes, s.remote AS remote, s.whole AS full_flushes, s.targets AS targets,
  s.wait_ns AS wait_ns, s.victim_ns AS victim_ns, s.task AS task
FROM sums s
JOIN tasks k ON k.host = s.host AND k.trace = s.trace AND k.task = s.task
ORDER BY wait_ns DESC, victim_ns DESC, flushes DESC, host, trace, task
