-- On which CPUs are events missing, and how much of the time is unknown?
-- gaps: intervals without events that should be there; gap_ns their length, in the whole trace. lost_events: how many
-- are missing, as far as counted. unknown_ns: time of the window in which the CPU's state is unknown, for whatever
-- reason.
WITH gaps AS (
  SELECT host, trace, cpu,
    CAST(COUNT(*) AS BIGINT) AS gaps,
    CAST(COUNT(CASE WHEN events IS NULL THEN 1 END) AS BIGINT) AS uncounted,
    CAST(COALESCE(SUM(end_ns - start_ns), 0) AS BIGINT) AS gap_ns
  FROM lost
  GROUP BY host, trace, cpu
)
SELECT c.host AS host, c.trace AS trace, c.cpu AS cpu, c.lost_events AS lost_events,
  COALESCE(g.gaps, 0) AS gaps, COALESCE(g.uncounted, 0) AS uncounted_gaps, COALESCE(g.gap_ns, 0) AS gap_ns,
  c.unknown_ns AS unknown_ns, c.first_event_ns AS first_event_ns, c.last_event_ns AS last_event_ns
FROM cpus c
LEFT JOIN gaps g ON g.host = c.host AND g.trace = c.trace AND g.cpu = c.cpu
ORDER BY lost_events DESC NULLS LAST, gap_ns DESC, unknown_ns DESC NULLS LAST, host, trace, cpu
