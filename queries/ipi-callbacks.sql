-- Which kernel functions did CPUs call on each other, and from where?
-- callback: the function called, callsite: the one that sent it; null where the event has none. interrupts: sent for
-- it; queued: put on another CPU's list. handler_ns is the time in its handlers, stolen_ns the part taken from tasks.
WITH calls AS (
  SELECT host, trace, kind, callback, callsite, road, on_idle,
    CASE WHEN fate = 'handled' THEN handler_ns END AS handler_ns
  FROM ipis
  WHERE in_window
)
SELECT host, trace, kind, callback, callsite,
  CAST(COUNT(CASE WHEN road = 'interrupt' THEN 1 END) AS BIGINT) AS interrupts,
  CAST(COUNT(CASE WHEN road = 'queue' THEN 1 END) AS BIGINT) AS queued,
  CAST(COALESCE(SUM(handler_ns), 0) AS BIGINT) AS handler_ns,
  CAST(COALESCE(SUM(CASE WHEN NOT on_idle THEN handler_ns END), 0) AS BIGINT) AS stolen_ns
FROM calls
GROUP BY host, trace, kind, callback, callsite
ORDER BY host, trace, interrupts DESC, queued DESC, kind NULLS LAST, callback NULLS LAST, callsite NULLS LAST
