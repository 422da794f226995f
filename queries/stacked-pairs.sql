-- Which wakees were put on their waker's CPU although another was idle?
-- prev: that CPU was the wakee's previous one too, so that wake_affine was never asked; pull: it was pulled there.
-- Waits and losses are of the stacked wakeups. overlap_mean_ns: how long waker and wakee could have run side by side
-- after each of the pair's wakeups, where known. Left out: tasks that woke themselves, the recorder's threads.
WITH named AS (
  SELECT k.host, k.trace, k.task, k.pid, k.name
  FROM tasks k
  JOIN traces t ON t.host = k.host AND t.trace = k.trace
  WHERE t.recorder_counted OR NOT k.recorder
),
judged AS (
  SELECT host, trace, waker, wakee, verdict_seen, verdict_any, wait_ns, lost_seen_ns, lost_any_ns,
    verdict_seen IN ('stacked-prev', 'stacked-pull') AS stacked_seen,
    verdict_any IN ('stacked-prev', 'stacked-pull') AS stacked_any,
    CASE WHEN NOT overlap_censored THEN overlap_ns END AS overlap_ns
  FROM wakeups
  WHERE in_window AND waker <> wakee
),
pairs AS (
  SELECT host, trace, waker, wakee,
    CAST(COUNT(*) AS BIGINT) AS wakeups,
    CAST(COUNT(CASE WHEN verdict_seen = 'stacked-prev' THEN 1 END) AS BIGINT) AS prev_seen,
    CAST(COUNT(CASE WHEN verdict_any = 'stacked-prev' THEN 1 END) AS BIGINT) AS prev_any,
    CAST(COUNT(CASE WHEN verdict_seen = 'stacked-pull' THEN 1 END) AS BIGINT) AS pull_seen,
    CAST(COUNT(CASE WHEN verdict_any = 'stacked-pull' THEN 1 END) AS BIGINT) AS pull_any,
    CAST(COALESCE(SUM(CASE WHEN stacked_seen THEN wait_ns END), 0) AS BIGINT) AS wait_seen_ns,
    CAST(COALESCE(SUM(CASE WHEN stacked_any THEN wait_ns END), 0) AS BIGINT) AS wait_any_ns,
    CAST(COALESCE(SUM(CASE WHEN stacked_seen THEN lost_seen_ns END), 0) AS BIGINT) AS lost_seen_ns,
    CAST(COALESCE(SUM(CASE WHEN stacked_any THEN lost_any_ns END), 0) AS BIGINT) AS lost_any_ns,
    CASE WHEN COUNT(overlap_ns) > 0 THEN CAST(SUM(overlap_ns) AS DOUBLE) / COUNT(overlap_ns) END AS overlap_mean_ns
  FROM judged
  GROUP BY host, trace, waker, wakee
)
SELECT p.host AS host, p.trace AS trace,
  r.name AS waker, r.pid AS waker_pid, e.name AS wakee, e.pid AS wakee_pid, p.wakeups AS wakeups,
  p.prev_seen AS prev_seen, p.prev_any AS prev_any, p.pull_seen AS pull_seen, p.pull_any AS pull_any,
  p.wait_seen_ns AS wait_seen_ns, p.wait_any_ns AS wait_any_ns,
  p.lost_seen_ns AS lost_seen_ns, p.lost_any_ns AS lost_any_ns, p.overlap_mean_ns AS overlap_mean_ns,
  p.waker AS waker_task, p.wakee AS wakee_task
FROM pairs p
JOIN named r ON r.host = p.host AND r.trace = p.trace AND r.task = p.waker
JOIN named e ON e.host = p.host AND e.trace = p.trace AND e.task = p.wakee
WHERE p.prev_seen + p.prev_any + p.pull_seen + p.pull_any > 0
ORDER BY lost_any_ns DESC, wait_any_ns DESC, host, trace, waker_task, wakee_task
