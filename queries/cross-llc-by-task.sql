-- Which tasks are woken across LLCs, and how do they fare then?
-- cross: waker's and chosen CPU have different LLCs; only wakeups of which that is known. Latency is waking to
-- switch-in, the run is the wakee's until it blocked. A difference need not be due to the crossing: see the report's
-- cross_llc.
WITH flagged AS (
  SELECT host, trace, wakee, cross_llc, latency_ns, wakee_run_ns, latency_ns IS NULL AS no_latency
  FROM wakeups
  WHERE in_window AND cross_llc IS NOT NULL
),
ranked AS (
  SELECT host, trace, wakee, cross_llc, latency_ns, wakee_run_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, wakee, cross_llc, no_latency ORDER BY latency_ns) AS BIGINT)
      AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, wakee, cross_llc) AS BIGINT) AS n
  FROM flagged
),
sums AS (
  SELECT host, trace, wakee,
    CAST(COUNT(*) AS BIGINT) AS wakeups,
    CAST(COUNT(CASE WHEN cross_llc THEN 1 END) AS BIGINT) AS across,
    MIN(CASE WHEN cross_llc AND nth * 2 >= n THEN latency_ns END) AS across_p50_ns,
    MIN(CASE WHEN NOT cross_llc AND nth * 2 >= n THEN latency_ns END) AS within_p50_ns,
    CAST(COUNT(CASE WHEN cross_llc THEN wakee_run_ns END) AS BIGINT) AS across_runs,
    CAST(COUNT(CASE WHEN NOT cross_llc THEN wakee_run_ns END) AS BIGINT) AS within_runs,
    CAST(COALESCE(SUM(CASE WHEN cross_llc THEN wakee_run_ns END), 0) AS DOUBLE) AS across_run_ns,
    CAST(COALESCE(SUM(CASE WHEN NOT cross_llc THEN wakee_run_ns END), 0) AS DOUBLE) AS within_run_ns
  FROM ranked
  GROUP BY host, trace, wakee
)
SELECT s.host AS host, s.trace AS trace, k.name AS wakee, k.pid AS wakee_pid,
  s.wakeups AS wakeups, s.across AS across, CAST(s.across AS DOUBLE) / CAST(s.wakeups AS DOUBLE) AS across_share,
  s.across_p50_ns AS across_latency_p50_ns, s.within_p50_ns AS within_latency_p50_ns,
  CASE WHEN s.across_runs > 0 THEN s.across_run_ns / s.across_runs END AS across_run_mean_ns,
  CASE WHEN s.within_runs > 0 THEN s.within_run_ns / s.within_runs END AS within_run_mean_ns,
  s.wakee AS wakee_task
FROM sums s
JOIN tasks k ON k.host = s.host AND k.trace = s.trace AND k.task = s.wakee
ORDER BY across DESC, wakeups DESC, host, trace, wakee_task
