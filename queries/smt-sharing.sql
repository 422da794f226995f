-- How often did a wakee share a core that others ran on, at what cost?
-- By LLC of the chosen CPU. siblings: idle or busy, or shared (a thread of a busy core was chosen while a whole core
-- was idle); unknown where the trace or the topology does not tell. The mean run is the wakee's until it blocked.
WITH placed AS (
  SELECT w.host, w.trace, c.llc, w.latency_ns, w.wakee_run_ns, w.latency_ns IS NULL AS no_latency,
    CASE
      WHEN w.smt_shared THEN 'shared'
      WHEN w.sibling_busy THEN 'busy'
      WHEN NOT w.sibling_busy THEN 'idle'
      ELSE 'unknown'
    END AS siblings
  FROM wakeups w
  LEFT JOIN cpus c ON c.host = w.host AND c.trace = w.trace AND c.cpu = w.chosen_cpu
  WHERE w.in_window
),
ranked AS (
  SELECT host, trace, llc, siblings, latency_ns, wakee_run_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, llc, siblings, no_latency ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, llc, siblings) AS BIGINT) AS n
  FROM placed
)
SELECT host, trace, llc, siblings,
  CAST(COUNT(*) AS BIGINT) AS wakeups,
  MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS latency_p50_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN latency_ns END) AS latency_p99_ns,
  CAST(COUNT(wakee_run_ns) AS BIGINT) AS with_run,
  CASE WHEN COUNT(wakee_run_ns) > 0
    THEN CAST(SUM(wakee_run_ns) AS DOUBLE) / COUNT(wakee_run_ns) END AS run_mean_ns
FROM ranked
GROUP BY host, trace, llc, siblings
ORDER BY host, trace, llc NULLS LAST, siblings
