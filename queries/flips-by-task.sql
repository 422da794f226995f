-- What would each wake_wide policy decide of each task's wakeups?
-- policy: a way to let wakee_flips decay and a rule over them; kernel is what the recorded kernel does. wide: the
-- wakee stays near its previous CPU; affine: the waker's may be chosen too; open: the trace leaves it undecided, or
-- does so still. as_waker: of wakeups that the task made, as_wakee: of those it received. flips are those the task
-- made itself. Only wakeups that the kernel certainly counted. Left out: the recorder's threads.
WITH counted AS (
  SELECT host, trace, waker AS task, 'waker' AS role, flipped, wakeups,
    zero_old, zero_new, halve_old, halve_new, loop_old, loop_new, kernel
  FROM flips
  WHERE in_window AND sure AND waker IS NOT NULL
  UNION ALL
  SELECT host, trace, wakee AS task, 'wakee' AS role, FALSE AS flipped, wakeups,
    zero_old, zero_new, halve_old, halve_new, loop_old, loop_new, kernel
  FROM flips
  WHERE in_window AND sure
),
kinds AS (
  SELECT host, trace, task, role, zero_old, zero_new, halve_old, halve_new, loop_old, loop_new, kernel,
    CAST(COALESCE(SUM(CASE WHEN flipped THEN wakeups END), 0) AS BIGINT) AS flips,
    CAST(COALESCE(SUM(wakeups), 0) AS BIGINT) AS wakeups
  FROM counted
  GROUP BY host, trace, task, role, zero_old, zero_new, halve_old, halve_new, loop_old, loop_new, kernel
),
decided AS (
  SELECT host, trace, task, role, flips, wakeups, 'zero-old' AS policy, zero_old AS decision FROM kinds
  UNION ALL
  SELECT host, trace, task, role, flips, wakeups, 'zero-new' AS policy, zero_new AS decision FROM kinds
  UNION ALL
  SELECT host, trace, task, role, flips, wakeups, 'halve-old' AS policy, halve_old AS decision FROM kinds
  UNION ALL
  SELECT host, trace, task, role, flips, wakeups, 'halve-new' AS policy, halve_new AS decision FROM kinds
  UNION ALL
  SELECT host, trace, task, role, flips, wakeups, 'loop-old' AS policy, loop_old AS decision FROM kinds
  UNION ALL
  SELECT host, trace, task, role, flips, wakeups, 'loop-new' AS policy, loop_new AS decision FROM kinds
  UNION ALL
  SELECT host, trace, task, role, flips, wakeups, 'kernel' AS policy, kernel AS decision FROM kinds
),
sums AS (
  SELECT host, trace, task, policy,
    CAST(SUM(flips) AS BIGINT) AS flips,
    CAST(COALESCE(SUM(CASE WHEN role = 'waker' AND decision = 'wide' THEN wakeups END), 0) AS BIGINT) AS as_waker_wide,
    CAST(COALESCE(SUM(CASE WHEN role = 'waker' AND decision = 'affine' THEN wakeups END), 0) AS BIGINT)
      AS as_waker_affine,
    CAST(COALESCE(SUM(CASE WHEN role = 'waker' AND decision IN ('undecided', 'warming-up')
      THEN wakeups END), 0) AS BIGINT) AS as_waker_open,
    CAST(COALESCE(SUM(CASE WHEN role = 'wakee' AND decision = 'wide' THEN wakeups END), 0) AS BIGINT) AS as_wakee_wide,
    CAST(COALESCE(SUM(CASE WHEN role = 'wakee' AND decision = 'affine' THEN wakeups END), 0) AS BIGINT)
      AS as_wakee_affine,
    CAST(COALESCE(SUM(CASE WHEN role = 'wakee' AND decision IN ('undecided', 'warming-up')
      THEN wakeups END), 0) AS BIGINT) AS as_wakee_open
  FROM decided
  GROUP BY host, trace, task, policy
)
SELECT s.host AS host, s.trace AS trace, k.name AS name, k.pid AS pid, s.policy AS policy, s.flips AS flips,
  s.as_waker_wide AS as_waker_wide, s.as_waker_affine AS as_waker_affine, s.as_waker_open AS as_waker_open,
  s.as_wakee_wide AS as_wakee_wide, s.as_wakee_affine AS as_wakee_affine, s.as_wakee_open AS as_wakee_open,
  s.task AS task
FROM sums s
JOIN traces t ON t.host = s.host AND t.trace = s.trace
JOIN tasks k ON k.host = s.host AND k.trace = s.trace AND k.task = s.task
WHERE t.recorder_counted OR NOT k.recorder
ORDER BY flips DESC, host, trace, task, policy
