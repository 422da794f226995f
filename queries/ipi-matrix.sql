-- Which CPU interrupts which, how often and for what?
-- interrupts are those sent, and the columns after them say for what. polled: the CPU was idle and polled, and was
-- asked without one. queued: functions put on its list. unexplained: handlers of which no send is recorded (from_cpu
-- is null): before 6.4 no sends are. Latency is send to handler's entry, of interrupts; handler_ns the time in all
-- handlers.
WITH flagged AS (
  SELECT host, trace, cpu AS from_cpu, target_cpu AS to_cpu, distance, road, kind, handler_ns,
    CASE WHEN road = 'interrupt' THEN latency_ns END AS latency_ns,
    road <> 'interrupt' OR latency_ns IS NULL AS no_latency
  FROM ipis
  WHERE in_window
),
ranked AS (
  SELECT host, trace, from_cpu, to_cpu, distance, road, kind, handler_ns, latency_ns,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace, from_cpu, to_cpu, distance,
      no_latency ORDER BY latency_ns) AS BIGINT) AS nth,
    CAST(COUNT(latency_ns) OVER (PARTITION BY host, trace, from_cpu, to_cpu, distance) AS BIGINT) AS n
  FROM flagged
)
SELECT host, trace, from_cpu, to_cpu, distance,
  CAST(COUNT(CASE WHEN road = 'interrupt' THEN 1 END) AS BIGINT) AS interrupts,
  CAST(COUNT(CASE WHEN road = 'interrupt' AND kind IN ('wakeup', 'wakeup_reschedule') THEN 1 END) AS BIGINT)
    AS for_wakeup,
  CAST(COUNT(CASE WHEN road = 'interrupt' AND kind = 'reschedule' THEN 1 END) AS BIGINT) AS for_reschedule,
  CAST(COUNT(CASE WHEN road = 'interrupt' AND kind = 'tlb' THEN 1 END) AS BIGINT) AS for_tlb,
  CAST(COUNT(CASE WHEN road = 'interrupt' AND kind = 'call' THEN 1 END) AS BIGINT) AS for_call,
  CAST(COUNT(CASE WHEN road = 'interrupt' AND kind IN ('irq_work', 'other') THEN 1 END) AS BIGINT) AS for_other,
  CAST(COUNT(CASE WHEN road = 'polled' THEN 1 END) AS BIGINT) AS polled,
  CAST(COUNT(CASE WHEN road = 'queue' THEN 1 END) AS BIGINT) AS queued,
  CAST(COUNT(CASE WHEN road = 'handler' THEN 1 END) AS BIGINT) AS unexplained,
  MIN(CASE WHEN nth * 2 >= n THEN latency_ns END) AS latency_p50_ns,
  MAX(latency_ns) AS latency_max_ns,
  CAST(COALESCE(SUM(handler_ns), 0) AS BIGINT) AS handler_ns
FROM ranked
GROUP BY host, trace, from_cpu, to_cpu, distance
ORDER BY host, trace, from_cpu NULLS LAST, to_cpu NULLS LAST, distance NULLS LAST
