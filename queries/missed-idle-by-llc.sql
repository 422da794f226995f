-- When and in which LLC was an idle CPU missed?
-- By second of the window and LLC of the chosen CPU. selections: wakeups for which the kernel looked for a CPU;
-- missed: the chosen CPU was busy although an eligible one of its LLC was idle throughout; other_llc: none there, but
-- in the previous CPU's or the waker's LLC. Times are of the missed ones alone. Left out: the recorder's threads.
WITH chosen AS (
  SELECT w.host, w.trace, c.llc, w.chosen_idle, w.verdict_seen, w.verdict_any,
    w.wait_ns, w.lost_seen_ns, w.lost_any_ns,
    CAST(FLOOR(CAST(COALESCE(w.waking_ns, w.wakeup_ns) - t.start_ns AS DOUBLE) / 1000000000) AS BIGINT) AS at_s
  FROM wakeups w
  JOIN traces t ON t.host = w.host AND t.trace = w.trace
  JOIN tasks e ON e.host = w.host AND e.trace = w.trace AND e.task = w.wakee
  LEFT JOIN tasks r ON r.host = w.host AND r.trace = w.trace AND r.task = w.waker
  LEFT JOIN cpus c ON c.host = w.host AND c.trace = w.trace AND c.cpu = w.chosen_cpu
  WHERE w.in_window AND w.selection
    AND (t.recorder_counted OR NOT (e.recorder OR COALESCE(r.recorder, FALSE)))
),
judged AS (
  SELECT host, trace, llc, at_s, chosen_idle, verdict_seen, verdict_any, wait_ns, lost_seen_ns, lost_any_ns,
    verdict_seen IN ('prev', 'other', 'stacked-prev', 'stacked-pull') AS missed_seen,
    verdict_any IN ('prev', 'other', 'stacked-prev', 'stacked-pull') AS missed_any
  FROM chosen
)
SELECT host, trace, llc, at_s,
  CAST(COUNT(*) AS BIGINT) AS selections,
  CAST(COUNT(CASE WHEN chosen_idle THEN 1 END) AS BIGINT) AS found_idle,
  CAST(COUNT(CASE WHEN missed_seen THEN 1 END) AS BIGINT) AS missed_seen,
  CAST(COUNT(CASE WHEN missed_any THEN 1 END) AS BIGINT) AS missed_any,
  CAST(COUNT(CASE WHEN verdict_seen = 'other-llc' THEN 1 END) AS BIGINT) AS other_llc_seen,
  CAST(COUNT(CASE WHEN verdict_any = 'other-llc' THEN 1 END) AS BIGINT) AS other_llc_any,
  CAST(COALESCE(SUM(CASE WHEN missed_seen THEN wait_ns END), 0) AS BIGINT) AS wait_seen_ns,
  CAST(COALESCE(SUM(CASE WHEN missed_any THEN wait_ns END), 0) AS BIGINT) AS wait_any_ns,
  CAST(COALESCE(SUM(CASE WHEN missed_seen THEN lost_seen_ns END), 0) AS BIGINT) AS lost_seen_ns,
  CAST(COALESCE(SUM(CASE WHEN missed_any THEN lost_any_ns END), 0) AS BIGINT) AS lost_any_ns
FROM judged
GROUP BY host, trace, llc, at_s
ORDER BY host, trace, at_s NULLS LAST, llc NULLS LAST
