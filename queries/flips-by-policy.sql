-- What does each wake_wide policy decide, and what else than the kernel?
-- wide: the wakee stays near its previous CPU; affine: the waker's may be chosen too; undecided and warming_up: the
-- trace leaves both open; not_asked: the rule has no say. changed: decided, and otherwise than the recorded kernel
-- decides. halved and doubled: the kernel's policy with half and twice the CPUs in an LLC. Only what the kernel
-- surely counted.
WITH kinds AS (
  SELECT host, trace, zero_old, zero_new, halve_old, halve_new, loop_old, loop_new, kernel, halved, doubled,
    CAST(COALESCE(SUM(wakeups), 0) AS BIGINT) AS wakeups
  FROM flips
  WHERE in_window AND sure
  GROUP BY host, trace, zero_old, zero_new, halve_old, halve_new, loop_old, loop_new, kernel, halved, doubled
),
decided AS (
  SELECT host, trace, 'zero-old' AS policy, zero_old AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'zero-new' AS policy, zero_new AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'halve-old' AS policy, halve_old AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'halve-new' AS policy, halve_new AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'loop-old' AS policy, loop_old AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'loop-new' AS policy, loop_new AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'kernel' AS policy, kernel AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'halved' AS policy, halved AS decision, kernel, wakeups FROM kinds
  UNION ALL
  SELECT host, trace, 'doubled' AS policy, doubled AS decision, kernel, wakeups FROM kinds
)
SELECT host, trace, policy,
  CAST(SUM(wakeups) AS BIGINT) AS wakeups,
  CAST(COALESCE(SUM(CASE WHEN decision = 'wide' THEN wakeups END), 0) AS BIGINT) AS wide,
  CAST(COALESCE(SUM(CASE WHEN decision = 'affine' THEN wakeups END), 0) AS BIGINT) AS affine,
  CAST(COALESCE(SUM(CASE WHEN decision = 'undecided' THEN wakeups END), 0) AS BIGINT) AS undecided,
  CAST(COALESCE(SUM(CASE WHEN decision = 'warming-up' THEN wakeups END), 0) AS BIGINT) AS warming_up,
  CAST(COALESCE(SUM(CASE WHEN decision IS NULL THEN wakeups END), 0) AS BIGINT) AS not_asked,
  CAST(COALESCE(SUM(CASE
    WHEN decision = 'wide' AND kernel = 'affine' THEN wakeups
    WHEN decision = 'affine' AND kernel = 'wide' THEN wakeups
  END), 0) AS BIGINT) AS changed
FROM decided
GROUP BY host, trace, policy
ORDER BY host, trace, policy
