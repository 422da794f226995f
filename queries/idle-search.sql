-- How often did the kernel find an idle CPU for a wakee?
-- selections: wakeups of fair tasks for which it looked; success: the chosen CPU was idle; fast_success: and it was
-- the waker's or the previous one. Of the failures, those although an eligible CPU was idle throughout are told by
-- verdict. Left out: the recorder's threads.
WITH selected AS (
  SELECT w.host, w.trace, w.chosen_idle, w.verdict_seen, w.verdict_any,
    w.waker_chosen = 'same' OR w.prev_chosen = 'same' AS near
  FROM wakeups w
  JOIN traces t ON t.host = w.host AND t.trace = w.trace
  JOIN tasks e ON e.host = w.host AND e.trace = w.trace AND e.task = w.wakee
  LEFT JOIN tasks r ON r.host = w.host AND r.trace = w.trace AND r.task = w.waker
  WHERE w.in_window AND w.selection
    AND (t.recorder_counted OR NOT (e.recorder OR COALESCE(r.recorder, FALSE)))
)
SELECT host, trace,
  CAST(COUNT(*) AS BIGINT) AS selections,
  CAST(COUNT(CASE WHEN chosen_idle THEN 1 END) AS BIGINT) AS success,
  CAST(COUNT(CASE WHEN chosen_idle AND near THEN 1 END) AS BIGINT) AS fast_success,
  CAST(COUNT(*) AS BIGINT) - CAST(COUNT(CASE WHEN chosen_idle THEN 1 END) AS BIGINT) AS failures,
  CAST(COUNT(CASE WHEN verdict_seen = 'prev' THEN 1 END) AS BIGINT) AS prev_seen,
  CAST(COUNT(CASE WHEN verdict_any = 'prev' THEN 1 END) AS BIGINT) AS prev_any,
  CAST(COUNT(CASE WHEN verdict_seen = 'other' THEN 1 END) AS BIGINT) AS other_seen,
  CAST(COUNT(CASE WHEN verdict_any = 'other' THEN 1 END) AS BIGINT) AS other_any,
  CAST(COUNT(CASE WHEN verdict_seen = 'stacked-prev' THEN 1 END) AS BIGINT) AS stacked_prev_seen,
  CAST(COUNT(CASE WHEN verdict_any = 'stacked-prev' THEN 1 END) AS BIGINT) AS stacked_prev_any,
  CAST(COUNT(CASE WHEN verdict_seen = 'stacked-pull' THEN 1 END) AS BIGINT) AS stacked_pull_seen,
  CAST(COUNT(CASE WHEN verdict_any = 'stacked-pull' THEN 1 END) AS BIGINT) AS stacked_pull_any,
  CAST(COUNT(CASE WHEN verdict_seen = 'other-llc' THEN 1 END) AS BIGINT) AS other_llc_seen,
  CAST(COUNT(CASE WHEN verdict_any = 'other-llc' THEN 1 END) AS BIGINT) AS other_llc_any
FROM selected
GROUP BY host, trace
ORDER BY host, trace
