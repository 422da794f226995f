-- What kinds of wakeups were there, and in which context were they made?
-- selections: wakeups of fair tasks for which the kernel looked for a CPU. cross_llc: waker's and chosen CPU have
-- different LLCs, as far as known.
SELECT host, trace, class, context,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  CAST(COUNT(CASE WHEN selection THEN 1 END) AS BIGINT) AS selections,
  CAST(COUNT(CASE WHEN cross_llc THEN 1 END) AS BIGINT) AS cross_llc,
  CAST(COUNT(CASE WHEN cross_llc IS NOT NULL THEN 1 END) AS BIGINT) AS llc_known
FROM wakeups
WHERE in_window
GROUP BY host, trace, class, context
ORDER BY host, trace, class NULLS LAST, context NULLS LAST
