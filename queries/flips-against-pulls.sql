-- Do tasks that flip more pull fewer wakees into their LLC?
-- By waker (null: an idle task was current). flips: it woke another task than the time before; flips_most: the
-- highest its counter can have been, null where nothing bounds it. pulled: the wakee's previous CPU was in another
-- LLC, its chosen one is in the waker's; each such wakeup proves that wake_wide said no, so pulled_wide should be 0.
-- Decisions are those of the recorded kernel. Only wakeups that it certainly counted.
WITH sums AS (
  SELECT host, trace, waker AS task,
    CAST(COALESCE(SUM(wakeups), 0) AS BIGINT) AS wakeups,
    CAST(COALESCE(SUM(CASE WHEN flipped THEN wakeups END), 0) AS BIGINT) AS flips,
    MAX(waker_least) AS flips_least,
    CASE WHEN COUNT(waker_most) = COUNT(*) THEN MAX(waker_most) END AS flips_most,
    CAST(COALESCE(SUM(CASE WHEN kernel = 'wide' THEN wakeups END), 0) AS BIGINT) AS wide,
    CAST(COALESCE(SUM(CASE WHEN kernel = 'affine' THEN wakeups END), 0) AS BIGINT) AS affine,
    CAST(COALESCE(SUM(CASE WHEN kernel IN ('undecided', 'warming-up') THEN wakeups END), 0) AS BIGINT) AS undecided,
    CAST(COALESCE(SUM(CASE WHEN pulled THEN wakeups END), 0) AS BIGINT) AS pulled,
    CAST(COALESCE(SUM(CASE WHEN pulled AND kernel = 'wide' THEN wakeups END), 0) AS BIGINT) AS pulled_wide,
    CAST(COALESCE(SUM(CASE WHEN pulled AND kernel = 'affine' THEN wakeups END), 0) AS BIGINT) AS pulled_affine,
    CAST(COALESCE(SUM(CASE WHEN pulled AND kernel IN ('undecided', 'warming-up') THEN wakeups END), 0) AS BIGINT)
      AS pulled_undecided
  FROM flips
  WHERE in_window AND sure
  GROUP BY host, trace, waker
)
SELECT s.host AS host, s.trace AS trace, k.name AS waker, k.pid AS waker_pid,
  s.wakeups AS wakeups, s.flips AS flips, s.flips_least AS flips_least, s.flips_most AS flips_most,
  s.wide AS wide, s.affine AS affine, s.undecided AS undecided,
  s.pulled AS pulled, s.pulled_wide AS pulled_wide, s.pulled_affine AS pulled_affine,
  s.pulled_undecided AS pulled_undecided, s.task AS waker_task
FROM sums s
LEFT JOIN tasks k ON k.host = s.host AND k.trace = s.trace AND k.task = s.task
ORDER BY flips DESC, pulled DESC, host, trace, waker_task NULLS LAST
