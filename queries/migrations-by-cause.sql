-- Why were tasks moved, how far, and how long did they run then?
-- certain, likely and unsure are moves by how sure their cause is; inferred ones follow from where the task ran next.
-- with_run moves tell for how long the task ran until it blocked or was moved again.
WITH flagged AS (
  SELECT host, trace, cause, distance, confidence, inferred, run_ns, run_ns IS NULL AS no_run
  FROM migrations
  WHERE in_window
),
ranked AS (
  SELECT host, trace, cause, distance, confidence, inferred, run_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, cause, distance, no_run ORDER BY run_ns) AS BIGINT) AS nth,
    CAST(COUNT(run_ns) OVER (PARTITION BY host, trace, cause, distance) AS BIGINT) AS n
  FROM flagged
)
SELECT host, trace, cause, distance,
  CAST(COUNT(*) AS BIGINT) AS moves,
  CAST(COUNT(CASE WHEN confidence = 'certain' THEN 1 END) AS BIGINT) AS certain,
  CAST(COUNT(CASE WHEN confidence = 'likely' THEN 1 END) AS BIGINT) AS likely,
  CAST(COUNT(CASE WHEN confidence = 'unsure' THEN 1 END) AS BIGINT) AS unsure,
  CAST(COUNT(CASE WHEN inferred THEN 1 END) AS BIGINT) AS inferred,
  CAST(COUNT(run_ns) AS BIGINT) AS with_run,
  MIN(CASE WHEN nth * 2 >= n THEN run_ns END) AS run_p50_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN run_ns END) AS run_p99_ns,
  MAX(run_ns) AS run_max_ns
FROM ranked
GROUP BY host, trace, cause, distance
ORDER BY host, trace, cause NULLS LAST, distance NULLS LAST
