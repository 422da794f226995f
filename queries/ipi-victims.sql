-- From which tasks did interrupts of other CPUs take time?
-- handlers: those that interrupted the task; taken_ns: their time, tlb_ns the part for TLB flushes.
WITH sums AS (
  SELECT host, trace, interrupted AS task,
    CAST(COUNT(CASE WHEN fate = 'handled' AND road <> 'queue' THEN 1 END) AS BIGINT) AS handlers,
    CAST(SUM(handler_ns) AS BIGINT) AS taken_ns,
    CAST(COALESCE(SUM(CASE WHEN kind = 'tlb' THEN handler_ns END), 0) AS BIGINT) AS tlb_ns,
    MAX(handler_ns) AS longest_ns
  FROM ipis
  WHERE in_window AND interrupted IS NOT NULL AND handler_ns IS NOT NULL
  GROUP BY host, trace, interrupted
)
SELECT s.host AS host, s.trace AS trace, k.name AS name, k.pid AS pid, k.generation AS generation,
  s.handlers AS handlers, s.taken_ns AS taken_ns, s.tlb_ns AS tlb_ns, s.longest_ns AS longest_ns,
  CASE WHEN k.run_ns > 0 THEN CAST(s.taken_ns AS DOUBLE) / CAST(k.run_ns AS DOUBLE) END AS share_of_run,
  s.task AS task
FROM sums s
JOIN tasks k ON k.host = s.host AND k.trace = s.trace AND k.task = s.task
ORDER BY taken_ns DESC, host, trace, task
