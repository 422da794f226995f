-- How long are the slices that follow a migration, beside other slices?
-- By why and how far the task was moved; cause none is for slices that no move preceded. moved_again: the task was
-- moved once more before it ran. ended slices are those whose end was seen; runnable: the task was still runnable
-- then.
WITH steps AS (
  SELECT m.host, m.trace, m.task, m.ts_ns AS at_ns, 0 AS place, m.from_cpu, m.to_cpu, m.cause, m.distance, m.in_window,
    CAST(NULL AS BIGINT) AS slice_ns, CAST(NULL AS VARCHAR(10)) AS left_as
  FROM migrations m
  UNION ALL
  SELECT s.host, s.trace, s.task, s.start_ns AS at_ns, 1 AS place, s.cpu AS from_cpu, s.cpu AS to_cpu,
    'none' AS cause, 'none' AS distance, s.start_ns >= t.start_ns AND s.start_ns <= t.end_ns AS in_window,
    CASE WHEN s.left_as IS NOT NULL THEN s.end_ns - s.start_ns END AS slice_ns, s.left_as
  FROM slices s
  JOIN traces t ON t.host = s.host AND t.trace = s.trace
),
ordered AS (
  SELECT host, trace, task, at_ns, place, from_cpu, to_cpu, cause, distance, slice_ns, left_as,
    COALESCE(in_window, FALSE) AS in_window, COALESCE(slice_ns, -1) AS tie_ns, COALESCE(left_as, '') AS tie_word
  FROM steps
  WHERE at_ns IS NOT NULL AND from_cpu IS NOT NULL AND to_cpu IS NOT NULL AND cause IS NOT NULL AND distance IS NOT NULL
),
numbered AS (
  SELECT host, trace, task, place, cause, distance, in_window, slice_ns, left_as,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, task ORDER BY at_ns, place, from_cpu, to_cpu,
      tie_ns, tie_word, cause, distance, in_window) AS BIGINT) AS nth
  FROM ordered
),
after_moves AS (
  SELECT m.host, m.trace, m.cause, m.distance, 1 AS moves, n.place AS next_place, n.slice_ns, n.left_as
  FROM numbered m
  LEFT JOIN numbered n ON n.host = m.host AND n.trace = m.trace AND n.task = m.task AND n.nth = m.nth + 1
  WHERE m.place = 0 AND m.in_window
),
others AS (
  SELECT s.host, s.trace, s.cause, s.distance, 0 AS moves, s.place AS next_place, s.slice_ns, s.left_as
  FROM numbered s
  LEFT JOIN numbered b ON b.host = s.host AND b.trace = s.trace AND b.task = s.task AND b.nth = s.nth - 1
  WHERE s.place = 1 AND s.in_window AND (b.place IS NULL OR b.place = 1)
),
all_slices AS (
  SELECT host, trace, cause, distance, moves, next_place, slice_ns, left_as, slice_ns IS NULL AS no_slice
    FROM after_moves
  UNION ALL
  SELECT host, trace, cause, distance, moves, next_place, slice_ns, left_as, slice_ns IS NULL AS no_slice FROM others
),
ranked AS (
  SELECT host, trace, cause, distance, moves, next_place, slice_ns, left_as,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, cause, distance, no_slice ORDER BY slice_ns) AS BIGINT) AS nth,
    CAST(COUNT(slice_ns) OVER (PARTITION BY host, trace, cause, distance) AS BIGINT) AS n
  FROM all_slices
)
SELECT host, trace, cause, distance,
  CAST(COUNT(CASE WHEN moves = 1 THEN 1 END) AS BIGINT) AS moves,
  CAST(COUNT(CASE WHEN moves = 1 AND next_place = 0 THEN 1 END) AS BIGINT) AS moved_again,
  CAST(COUNT(CASE WHEN next_place = 1 THEN 1 END) AS BIGINT) AS slices,
  CAST(COUNT(slice_ns) AS BIGINT) AS ended,
  CAST(COUNT(CASE WHEN left_as = 'runnable' THEN 1 END) AS BIGINT) AS runnable,
  MIN(CASE WHEN nth * 2 >= n THEN slice_ns END) AS slice_p50_ns,
  MIN(CASE WHEN nth * 100 >= n * 99 THEN slice_ns END) AS slice_p99_ns,
  MAX(slice_ns) AS slice_max_ns
FROM ranked
GROUP BY host, trace, cause, distance
ORDER BY host, trace, cause, distance
