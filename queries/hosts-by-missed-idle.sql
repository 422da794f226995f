-- Which hosts lose most because idle CPUs are missed?
-- Across traces. missed: the chosen CPU was busy although an eligible one of its LLC was idle throughout (verdicts prev,
-- other, stacked-prev, stacked-pull); stacked ones are the last two. Counts are of waits that start in the window; lost
-- is idle CPU time matched to them, and its share is of the CPU time of the traces. Traces whose topology is not known
-- cannot tell: they are counted as without_topology, and their CPU time is left out.
WITH judged AS (
  SELECT host, trace, wait_ns, lost_seen_ns, lost_any_ns, in_window, verdict_any,
    verdict_seen IN ('prev', 'other', 'stacked-prev', 'stacked-pull') AS missed_seen,
    verdict_any IN ('prev', 'other', 'stacked-prev', 'stacked-pull') AS missed_any
  FROM waits
),
missed AS (
  SELECT host, trace,
    CAST(COUNT(CASE WHEN in_window THEN 1 END) AS BIGINT) AS waits,
    CAST(COUNT(CASE WHEN in_window AND missed_seen THEN 1 END) AS BIGINT) AS missed_seen,
    CAST(COUNT(CASE WHEN in_window AND missed_any THEN 1 END) AS BIGINT) AS missed_any,
    CAST(COUNT(CASE WHEN in_window AND verdict_any IN ('stacked-prev', 'stacked-pull') THEN 1 END) AS BIGINT)
      AS stacked_any,
    CAST(COALESCE(SUM(CASE WHEN missed_any THEN wait_ns END), 0) AS BIGINT) AS wait_any_ns,
    CAST(COALESCE(SUM(CASE WHEN missed_seen THEN lost_seen_ns END), 0) AS BIGINT) AS lost_seen_ns,
    CAST(COALESCE(SUM(CASE WHEN missed_any THEN lost_any_ns END), 0) AS BIGINT) AS lost_any_ns
  FROM judged
  GROUP BY host, trace
),
traced AS (
  SELECT t.host, t.trace, t.kernel_release, t.llcs IS NULL AS blind,
    CASE WHEN t.llcs IS NULL THEN 0 ELSE (t.end_ns - t.start_ns) * t.cpus END AS cpu_time_ns,
    COALESCE(m.waits, 0) AS waits, COALESCE(m.missed_seen, 0) AS missed_seen, COALESCE(m.missed_any, 0) AS missed_any,
    COALESCE(m.stacked_any, 0) AS stacked_any, COALESCE(m.wait_any_ns, 0) AS wait_any_ns,
    COALESCE(m.lost_seen_ns, 0) AS lost_seen_ns, COALESCE(m.lost_any_ns, 0) AS lost_any_ns
  FROM traces t
  LEFT JOIN missed m ON m.host = t.host AND m.trace = t.trace
),
sums AS (
  SELECT host,
    CAST(COUNT(DISTINCT host) AS BIGINT) AS hosts,
    CAST(COUNT(DISTINCT kernel_release) AS BIGINT) AS releases,
    CAST(COUNT(*) AS BIGINT) AS traces,
    CAST(COUNT(CASE WHEN blind THEN 1 END) AS BIGINT) AS without_topology,
    CAST(COALESCE(SUM(cpu_time_ns), 0) AS BIGINT) AS cpu_time_ns,
    CAST(SUM(waits) AS BIGINT) AS waits,
    CAST(SUM(missed_seen) AS BIGINT) AS missed_seen,
    CAST(SUM(missed_any) AS BIGINT) AS missed_any,
    CAST(SUM(stacked_any) AS BIGINT) AS stacked_any,
    CAST(SUM(wait_any_ns) AS BIGINT) AS wait_any_ns,
    CAST(SUM(lost_seen_ns) AS BIGINT) AS lost_seen_ns,
    CAST(SUM(lost_any_ns) AS BIGINT) AS lost_any_ns
  FROM traced
  GROUP BY host
)
SELECT host, releases, traces, without_topology, cpu_time_ns, waits, missed_seen, missed_any, stacked_any, wait_any_ns,
  lost_seen_ns, lost_any_ns,
  CASE WHEN cpu_time_ns > 0 THEN CAST(lost_seen_ns AS DOUBLE) / CAST(cpu_time_ns AS DOUBLE) END AS lost_seen_share,
  CASE WHEN cpu_time_ns > 0 THEN CAST(lost_any_ns AS DOUBLE) / CAST(cpu_time_ns AS DOUBLE) END AS lost_any_share
FROM sums
ORDER BY lost_any_share DESC NULLS LAST, lost_any_ns DESC, host NULLS LAST
