-- Who moves whom from one LLC to another?
-- puller: the waker, or the task on whose CPU a balancer ran; null where an interrupt or the idle task moved it.
-- left_idle_*: moves that left an LLC in which an eligible CPU was idle. run_ns is how long the moved task then ran,
-- and lost_*_ns what its waits lost meanwhile, until it blocked or was moved again.
WITH moves AS (
  SELECT host, trace, task AS moved_task, cause,
    CASE WHEN context = 'task' THEN by_task END AS puller_task,
    idle_left_seen, idle_left_any, run_ns, lost_seen_ns, lost_any_ns, in_window
  FROM migrations
  WHERE distance IN ('node', 'remote')
),
sums AS (
  SELECT host, trace, moved_task, cause, puller_task,
    CAST(COUNT(CASE WHEN in_window THEN 1 END) AS BIGINT) AS moves,
    CAST(COUNT(CASE WHEN in_window AND idle_left_seen > 0 THEN 1 END) AS BIGINT) AS left_idle_seen,
    CAST(COUNT(CASE WHEN in_window AND idle_left_any > 0 THEN 1 END) AS BIGINT) AS left_idle_any,
    CAST(COALESCE(SUM(CASE WHEN in_window THEN run_ns END), 0) AS BIGINT) AS run_ns,
    CAST(COALESCE(SUM(lost_seen_ns), 0) AS BIGINT) AS lost_seen_ns,
    CAST(COALESCE(SUM(lost_any_ns), 0) AS BIGINT) AS lost_any_ns
  FROM moves
  GROUP BY host, trace, moved_task, cause, puller_task
)
SELECT s.host AS host, s.trace AS trace,
  m.name AS moved, m.pid AS moved_pid, s.cause AS cause, p.name AS puller, p.pid AS puller_pid,
  s.moves AS moves, s.left_idle_seen AS left_idle_seen, s.left_idle_any AS left_idle_any,
  s.run_ns AS run_ns, s.lost_seen_ns AS lost_seen_ns, s.lost_any_ns AS lost_any_ns,
  s.moved_task AS moved_task, s.puller_task AS puller_task
FROM sums s
JOIN tasks m ON m.host = s.host AND m.trace = s.trace AND m.task = s.moved_task
LEFT JOIN tasks p ON p.host = s.host AND p.trace = s.trace AND p.task = s.puller_task
WHERE s.moves > 0
ORDER BY moves DESC, lost_any_ns DESC, host, trace, moved_task, cause NULLS LAST, puller_task NULLS LAST
